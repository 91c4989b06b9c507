/* What a core of each level does in a nanosecond, for estimates.  Tabulated, not measured: equal machines then make equal choices. */
#ifndef TERCEL_BACKENDS_CPU_SPEED_H
#define TERCEL_BACKENDS_CPU_SPEED_H

#include "backends/cpu/cpu.h"

typedef struct tercel_cpu_speed {
  int lanes;         /* of f32 in a vector */
  double fma;        /* vector multiply-adds */
  double loads;      /* vectors from the first-level cache */
  double simple;     /* elements of plain vector code, its loads and stores included */
  double near_bytes; /* from and to the second-level cache */
  double
      far_bytes; /* from and to what lies behind it: of one core, and a bit less than twice as much for all of them */
  double region_ns; /* for other threads to begin and to end */
} tercel_cpu_speed;

/* Of the level in force. */
const tercel_cpu_speed *tercel_cpu_get_speed(void);
/* A tercel_backend.cost. */
double tercel_cpu_plain_cost(double flops, double bytes, int num_threads);
/* Time of `ns` of one thread's work, cut into `pieces` of like size, on so many threads. */
double tercel_cpu_shared_cost(double ns, double pieces, int num_threads);
/* Time to read so many bytes of weights once. */
double tercel_cpu_weights_cost(double bytes);

#endif
