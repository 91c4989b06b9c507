/* What the conv tactics of the CPU backend share. */
#ifndef TERCEL_BACKENDS_CPU_CONV_H
#define TERCEL_BACKENDS_CPU_CONV_H

#include "backends/cpu/cpu.h"
#include "backends/cpu/kernels/conv.h"
#include "backends/cpu/kernels/epilogue.h"

enum { TERCEL_CONV_X, TERCEL_CONV_W, TERCEL_CONV_BIAS, TERCEL_CONV_FIRST_EXTRA };

/* All operands f32 of a known rank, with at most `max_spatial` spatial dims, and an epilogue that fits. */
bool tercel_conv_supports(const tercel_node *node, int max_spatial);
/* The windows as three axes. */
tercel_conv_view tercel_conv_get_view(const tercel_conv_geometry *geometry);

#endif
