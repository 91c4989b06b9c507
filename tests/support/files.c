/* Skips with a reason, and where fetched networks lie. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/support.h"

void tercel_test_skip(const char *format, ...) {
  char reason[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  print_message("skip: %s\n", reason);
  skip();
  abort(); /* not reached: skip leaves by longjmp */
}

const char *tercel_test_model(const char *file) {
  static char path[PATH_MAX];
  const char *cache = getenv("TERCEL_CACHE");
  const char *home = getenv("HOME");
  if (cache && cache[0])
    snprintf(path, sizeof path, "%s/%s", cache, file);
  else
    snprintf(path, sizeof path, "%s/.cache/tercel/%s", home ? home : "", file);
  if (access(path, R_OK) != 0) tercel_test_skip("not fetched: %s (tools/fetch gets it)", path);
  return path;
}
