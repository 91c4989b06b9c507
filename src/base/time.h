/* A monotonic clock. */
#ifndef TERCEL_BASE_TIME_H
#define TERCEL_BASE_TIME_H

#include <stdint.h>

int64_t tercel_time_ns(void);

#endif
