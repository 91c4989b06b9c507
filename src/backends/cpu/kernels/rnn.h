/* Cells of recurrent networks, f32: what one step does to one sequence once the products with the weights are there.
 *
 * gates holds the inputs of the activations, one run of `hidden` floats a gate in ONNX's order.  Everything is elementwise over hidden. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_RNN_H
#define TERCEL_BACKENDS_CPU_KERNELS_RNN_H

#include "backends/cpu/kernels/tables.h"
#include "ops/rnn.h"

typedef struct tercel_rnn_cell_args {
  int64_t hidden;
  const tercel_rnn_activation *activations; /* f, g, h of ONNX's equations */
  float clip;                               /* bound of the activations' inputs; infinity: none */
  bool input_forget, linear_before_reset;
  const float *gates;     /* lstm: i o f c; gru: z r h, from x; rnn: one */
  const float *recurrent; /* gru: z r h, from h (the last from reset * h unless linear_before_reset) */
  const float *peepholes; /* lstm: i o f; NULL: none */
  float *h;               /* state: read (gru) and written */
  float *c;               /* lstm: read and written */
  float *reset;           /* gru: what gru_reset writes, r * h */
} tercel_rnn_cell_args;

typedef struct tercel_rnn_kernels {
  void (*cells[3])(const tercel_rnn_cell_args *args);  /* by tercel_rnn_cell */
  void (*gru_reset)(const tercel_rnn_cell_args *args); /* from gates' and recurrent's r */
  /* gates[j] += sums[j] * (state_scale * scales[j]): products of 8-bit integers join those with x */
  void (*add_scaled)(const int32_t *sums, float state_scale, const float *scales, int64_t n, float *gates);
} tercel_rnn_kernels;

TERCEL_FUSED_TABLES(tercel_rnn_kernels)

#endif
