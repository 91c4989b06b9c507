/* Libraries that are loaded when a picture first needs one: programs that decode none neither load nor need them.
 *
 * A file lists the functions that it uses, and gets a struct of pointers to them:
 *
 *     #define FUNCTIONS(F) F(WebPGetFeaturesInternal) F(WebPDecodeRGBInto)
 *     TERCEL_IMAGE_LIBRARY(webp, "libwebp.so.7", FUNCTIONS)
 *     ...
 *     webp library;
 *     TERCEL_TRY(tercel_image_load(&webp_names, &library, err));
 */
#ifndef TERCEL_IMAGES_FORMATS_LIBRARY_H
#define TERCEL_IMAGES_FORMATS_LIBRARY_H

#include <stddef.h>

#include "base/base.h"

typedef struct tercel_image_library {
  const char *file;         /* with the version of the interface, as in the header that we were compiled with */
  const char *const *names; /* of functions, NULL-terminated */
} tercel_image_library;

/* functions_out: a pointer for each name, in order.  The library stays loaded; loading it again costs next to nothing.
 * IO: it isn't installed. */
tercel_status tercel_image_load(const tercel_image_library *library, void *functions_out, tercel_error *err);

#define TERCEL_IMAGE_POINTER(function) __typeof__(&(function)) function;
#define TERCEL_IMAGE_NAME(function) #function,
#define TERCEL_IMAGE_LIBRARY(name, file, functions)                                                                    \
  typedef struct name {                                                                                                \
    functions(TERCEL_IMAGE_POINTER)                                                                                    \
  } name;                                                                                                              \
  static const tercel_image_library name##_names = {file, (const char *const[]){functions(TERCEL_IMAGE_NAME) NULL}};

#endif
