/* Recurrent layers. */
#include <string.h>

#include "import/onnx/build.h"

static void copy_strings(tercel_onnx_call *c, tercel_node *n, const char *name) {
  const tercel_onnx_attr *const a = tercel_onnx_get_attr(c, name, TERCEL_ONNX_STRINGS);
  if (!a) return;
  const char **const list = tercel_arena_alloc_array(&c->import->arena, a->strings.count, sizeof *list);
  bool ok = list != NULL;
  for (size_t i = 0; ok && i < a->strings.count; i++) {
    list[i] = tercel_arena_strndup(&c->import->arena, a->strings.items[i].data, a->strings.items[i].length);
    ok = list[i] != NULL;
  }
  if (!tercel_onnx_ok(c)) return;
  c->status = ok ? tercel_node_set_strings(n, name, list, a->strings.count, c->err)
                 : tercel_fail_memory(c->err, a->strings.count * sizeof *list, name);
}

static void copy_floats(tercel_onnx_call *c, tercel_node *n, const char *name) {
  size_t count;
  const float *const values = tercel_onnx_get_floats(c, name, &count);
  if (!values || !tercel_onnx_ok(c)) return;
  double *const list = tercel_arena_alloc_array(&c->import->arena, count, sizeof *list);
  for (size_t i = 0; list && i < count; i++) list[i] = (double)values[i];
  c->status = list ? tercel_node_set_floats(n, name, list, count, c->err)
                   : tercel_fail_memory(c->err, count * sizeof *list, name);
}

/* Inputs x, w, r, b, lengths, initial h, initial c, peepholes; those of LSTM alone are absent elsewhere. */
typedef enum cell { RNN, GRU, LSTM } cell;

/* r_scale, r_zero: NULL, but for an r of 8 bits */
static void layer(tercel_onnx_call *c, cell kind, tercel_value *x, tercel_value *w, tercel_value *r,
                  tercel_value *r_scale, tercel_value *r_zero) {
  static const char *const cells[] = {"rnn", "gru", "lstm"};
  if (c->version < 7) tercel_onnx_ignore_attr(c, "output_sequence"); /* said whether the first output was wanted */
  tercel_node *const n =
      tercel_onnx_begin(c, &tercel_op_rnn, kind == LSTM ? 3 : 2, x, w, r, tercel_onnx_in(c, 3), tercel_onnx_in(c, 4),
                        tercel_onnx_in(c, 5), tercel_onnx_in(c, 6), tercel_onnx_in(c, 7), r_scale, r_zero);
  tercel_onnx_set_text(c, n, "cell", cells[kind]);
  tercel_onnx_copy_int(c, n, "hidden_size");
  const char *const direction = tercel_onnx_get_text(c, "direction", "forward");
  if (strcmp(direction, "forward") != 0 && strcmp(direction, "reverse") != 0 && strcmp(direction, "bidirectional") != 0)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'direction' is '%s', want forward, reverse or bidirectional",
                     direction);
  tercel_onnx_set_text(c, n, "direction", direction);
  copy_strings(c, n, "activations");
  copy_floats(c, n, "activation_alpha");
  copy_floats(c, n, "activation_beta");
  tercel_onnx_copy_float(c, n, "clip");
  tercel_onnx_copy_flag(c, n, "layout");
  if (kind == GRU) tercel_onnx_copy_flag(c, n, "linear_before_reset");
  if (kind == LSTM) tercel_onnx_copy_flag(c, n, "input_forget");
  tercel_onnx_return_all(c, n);
}

void tercel_onnx_build_rnn(tercel_onnx_call *c) {
  layer(c, (cell)c->row->detail, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), tercel_onnx_in(c, 2), NULL, NULL);
}

/* Weights [D, I, 4 H] of integers with one scale and zero point a direction, or one each gate's row: as [D, 4 H, I] of floats. */
static tercel_value *float_weights(tercel_onnx_call *c, size_t weights, size_t scale, size_t zero) {
  static const int64_t middle[] = {1}, swap[] = {0, 2, 1};
  tercel_value *parts[2] = {tercel_onnx_in(c, scale), tercel_onnx_in(c, zero)};
  for (int i = 0; i < 2; i++) {
    const int rank = tercel_onnx_rank(c, parts[i]);
    if (parts[i] && rank == 2) parts[i] = tercel_onnx_unsqueeze(c, parts[i], middle, 1);
    if (parts[i] && rank == 1) parts[i] = tercel_onnx_unsqueeze(c, parts[i], (int64_t[]){1, 2}, 2);
  }
  tercel_value *w = tercel_onnx_cast(c, tercel_onnx_in(c, weights), TERCEL_DTYPE_F32);
  if (parts[1]) w = tercel_onnx_fn2(c, TERCEL_FN_SUB, w, tercel_onnx_cast(c, parts[1], TERCEL_DTYPE_F32));
  return tercel_onnx_transpose(c, tercel_onnx_fn2(c, TERCEL_FN_MUL, w, parts[0]), swap, 3);
}

/* The numbers that 8 bits leave of x. */
static tercel_value *rounded(tercel_onnx_call *c, tercel_value *x) {
  const tercel_onnx_quantized q = tercel_onnx_dynamic_quantize(c, x);
  tercel_value *const whole = tercel_onnx_fn2(c, TERCEL_FN_SUB, tercel_onnx_cast(c, q.x, TERCEL_DTYPE_F32),
                                              tercel_onnx_cast(c, q.zero, TERCEL_DTYPE_F32));
  return tercel_onnx_fn2(c, TERCEL_FN_MUL, whole, q.scale);
}

/* One number a direction, or one each gate's row, as one each row of `weights` [D, I, 4 H]. */
static tercel_value *each_row(tercel_onnx_call *c, tercel_value *v, tercel_value *weights) {
  static const int64_t behind[] = {1};
  if (tercel_onnx_rank(c, v) == 2) return v;
  tercel_value *const dims[] = {tercel_onnx_dim_value(c, weights, 0), tercel_onnx_dim_value(c, weights, 2)};
  return tercel_onnx_op(c, &tercel_op_expand, tercel_onnx_unsqueeze(c, v, behind, 1),
                        tercel_onnx_concat(c, dims, 2, 0));
}

/* ONNX Runtime's LSTM with integer weights: its input, and the state before each step, are rounded to 8 bits for products of
 * integers.  For the input's, all steps at once, floats that hold the same numbers are multiplied.  Of a batch each sequence has
 * its own range. */
void tercel_onnx_build_dynamic_quantize_lstm(tercel_onnx_call *c) {
  static const int64_t swap[] = {0, 2, 1};
  tercel_value *const r = tercel_onnx_in(c, 2), *const scale = tercel_onnx_in(c, 10);
  tercel_value *zero = tercel_onnx_in(c, 11);
  if (!zero) zero = tercel_onnx_fill(c, tercel_onnx_scalar_like(c, r, 0), tercel_onnx_shape_of(c, scale));
  layer(c, LSTM, rounded(c, tercel_onnx_in(c, 0)), float_weights(c, 1, 8, 9), tercel_onnx_transpose(c, r, swap, 3),
        each_row(c, scale, r), each_row(c, zero, r));
}
