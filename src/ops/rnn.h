/* What a recurrent node's attributes and shapes say, for the reference and the kernels. */
#ifndef TERCEL_OPS_RNN_H
#define TERCEL_OPS_RNN_H

#include "ops/ops.h"

enum {
  TERCEL_RNN_X,
  TERCEL_RNN_W,
  TERCEL_RNN_R,
  TERCEL_RNN_BIAS,
  TERCEL_RNN_LENGTHS,
  TERCEL_RNN_INITIAL_H,
  TERCEL_RNN_INITIAL_C,
  TERCEL_RNN_PEEPHOLES,
  TERCEL_RNN_R_SCALE, /* of an r of 8 bits */
  TERCEL_RNN_R_ZERO,
  TERCEL_RNN_NUM_INPUTS
};

typedef enum tercel_rnn_cell { TERCEL_RNN_CELL_RNN, TERCEL_RNN_CELL_GRU, TERCEL_RNN_CELL_LSTM } tercel_rnn_cell;

typedef enum tercel_rnn_fn {
  TERCEL_RNN_RELU,
  TERCEL_RNN_TANH,
  TERCEL_RNN_SIGMOID,
  TERCEL_RNN_AFFINE,
  TERCEL_RNN_LEAKY_RELU,
  TERCEL_RNN_THRESHOLDED_RELU,
  TERCEL_RNN_SCALED_TANH,
  TERCEL_RNN_HARD_SIGMOID,
  TERCEL_RNN_ELU,
  TERCEL_RNN_SOFTSIGN,
  TERCEL_RNN_SOFTPLUS
} tercel_rnn_fn;

typedef struct tercel_rnn_activation {
  tercel_rnn_fn fn;
  double alpha, beta;
} tercel_rnn_activation;

typedef struct tercel_rnn_spec {
  tercel_rnn_cell cell;
  int gates, directions;
  bool reverse[2]; /* by direction */
  bool input_forget, linear_before_reset, batch_first;
  bool quantized;                          /* r has 8 bits, and so has the state that meets it */
  tercel_rnn_activation activations[2][3]; /* by direction: f, g, h of the ONNX equations */
  double clip;                             /* infinity: none */
  int64_t hidden;                          /* as the attribute says; 0: not said */
} tercel_rnn_spec;
tercel_status tercel_rnn_get_spec(const tercel_node *node, tercel_rnn_spec *out, tercel_error *err);

/* Sizes, and how far apart (in elements) steps, sequences of the batch, and directions lie. */
typedef struct tercel_rnn_geometry {
  int64_t steps, batch, input, hidden;
  int64_t x_step, x_batch;
  int64_t y_step, y_batch, y_direction;
  int64_t state_batch, state_direction;
} tercel_rnn_geometry;
void tercel_rnn_get_geometry(const tercel_rnn_spec *spec, const tercel_tensor *x, const tercel_tensor *r,
                             tercel_rnn_geometry *out);

/* The lengths (NULL: none given) must lie in 0 .. steps. */
tercel_status tercel_rnn_check_lengths(const tercel_node *node, const tercel_tensor *lengths, int64_t steps,
                                       tercel_error *err);

#endif
