/* Loading a library and finding its functions. */
#include <dlfcn.h>
#include <string.h>

#include "images/formats/library.h"

tercel_status tercel_image_load(const tercel_image_library *library, void *functions_out, tercel_error *err) {
  void *const handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return tercel_fail(err, TERCEL_IO, "%s is needed and can't be loaded: %s", library->file, dlerror());
  char *out = functions_out;
  for (const char *const *name = library->names; *name; name++) {
    void *const function = dlsym(handle, *name);
    if (!function) return tercel_fail(err, TERCEL_IO, "%s has no function %s", library->file, *name);
    memcpy(out, &function, sizeof function); /* POSIX: pointers to objects and functions are alike */
    out += sizeof function;
  }
  return TERCEL_OK;
}
