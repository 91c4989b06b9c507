/* Logging with levels and a sink; the default sink writes warnings and errors to stderr.  TERCEL_LOG=debug|info|warning|error|off. */
#ifndef TERCEL_BASE_LOG_H
#define TERCEL_BASE_LOG_H

#include "tercel/tercel.h"

void tercel_log(tercel_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Is a message of this level wanted?  For messages that cost something to make. */
int tercel_log_enabled(tercel_log_level level);

#endif
