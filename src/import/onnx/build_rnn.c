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

/* RNN, GRU and LSTM: inputs x, w, r, b, lengths, initial h, initial c, peepholes; those of LSTM alone are absent elsewhere. */
void tercel_onnx_build_rnn(tercel_onnx_call *c) {
  static const char *const cells[] = {"rnn", "gru", "lstm"};
  const int kind = c->row->detail;
  if (c->version < 7) tercel_onnx_ignore_attr(c, "output_sequence"); /* said whether the first output was wanted */
  tercel_node *const n = tercel_onnx_begin(
      c, &tercel_op_rnn, kind == 2 ? 3 : 2, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1), tercel_onnx_in(c, 2),
      tercel_onnx_in(c, 3), tercel_onnx_in(c, 4), tercel_onnx_in(c, 5), tercel_onnx_in(c, 6), tercel_onnx_in(c, 7));
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
  tercel_onnx_copy_int(c, n, "layout");
  if (kind == 1) tercel_onnx_copy_int(c, n, "linear_before_reset");
  if (kind == 2) tercel_onnx_copy_int(c, n, "input_forget");
  tercel_onnx_return_all(c, n);
}
