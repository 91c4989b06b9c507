/* --plugin: shared libraries that register operators. */
#include "cli.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef tercel_status (*register_fn)(tercel_operators *operators, tercel_error *err);

/* A name without a folder is a file of this one: the system's library path is not searched. */
static tercel_status load_plugin(const char *path, tercel_operators *operators, tercel_error *err) {
  char local[PATH_MAX];
  const int length = snprintf(local, sizeof local, "%s%s", strchr(path, '/') ? "" : "./", path);
  if (length < 0 || (size_t)length >= sizeof local)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "--plugin: the path is too long");
  void *const library = dlopen(local, RTLD_NOW | RTLD_LOCAL);
  if (!library) return tercel_fail(err, TERCEL_IO, "--plugin: %s", dlerror());
  void *const symbol = dlsym(library, "tercel_plugin_register");
  if (!symbol)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "--plugin %s: it has no function tercel_plugin_register", path);
  register_fn add;
  memcpy(&add, &symbol, sizeof add); /* ISO C has no conversion of an object's pointer to a function's */
  const tercel_status status = add(operators, err);
  return status == TERCEL_OK ? status : tercel_fail_at(err, status, "--plugin %s", path);
}

tercel_status tercel_cli_load_plugins(const tercel_cli_list *paths, tercel_operators **out, tercel_error *err) {
  tercel_operators *operators = NULL;
  *out = NULL;
  if (paths->count == 0) return TERCEL_OK;
  tercel_status status = tercel_operators_create(&operators, err);
  for (int i = 0; status == TERCEL_OK && i < paths->count; i++) status = load_plugin(paths->items[i], operators, err);
  if (status == TERCEL_OK)
    *out = operators;
  else
    tercel_operators_destroy(operators);
  return status;
}
