/* Evaluation of single functions by rows: what constant folding meets in whole weights (dequantized, negated, scaled) would take
 * seconds element by element.
 *
 * Sums, products and quotients of f32 rounded from f64 are those of f32 arithmetic (f64 has more than twice its digits), and casts
 * to f32 round once: so the results are the same bits. */
#include "ops/pointwise_rows.h"

#include "ops/move.h"

/* The operands walked as rows x count; strides of elements within a row: 0 or 1. */
typedef struct walk {
  int rank; /* of the dims around the rows */
  int64_t dims[TERCEL_MAX_RANK], count;
  int64_t outer[2][TERCEL_MAX_RANK], inner[2];
} walk;

/* Trailing dims over which every operand either goes on or stays are one row; false when the last dim is neither. */
static bool plan_walk(const tercel_tensor *const *in, int num_inputs, const tercel_tensor *out, walk *w) {
  *w = (walk){.rank = out->rank, .count = 1};
  for (int i = 0; i < num_inputs; ++i) tercel_tensor_broadcast_strides(in[i], out->rank, out->dims, w->outer[i]);
  for (bool first = true; w->rank > 0; w->rank--) {
    const int d = w->rank - 1;
    if (out->dims[d] == 1) continue;
    for (int i = 0; i < num_inputs; ++i) {
      const int64_t stride = w->outer[i][d];
      if (first && stride > 1) return false;
      if (first) w->inner[i] = stride;
      if (!first && stride != w->inner[i] * w->count) goto done;
    }
    w->count *= out->dims[d];
    first = false;
  }
done:
  for (int d = 0; d < w->rank; ++d) w->dims[d] = out->dims[d];
  return true;
}

/* ---- rows ---- */

/* clang-format off */
#define CAST_ROW(name, from_type, to_type)                                                        \
  static void name(const void *from, void *to, int64_t n) {                                       \
    const from_type *x = from;                                                                    \
    to_type *y = to;                                                                              \
    for (int64_t i = 0; i < n; ++i) y[i] = (to_type)x[i];                                         \
  }
CAST_ROW(cast_i8_f32, int8_t, float)
CAST_ROW(cast_u8_f32, uint8_t, float)
CAST_ROW(cast_i32_f32, int32_t, float)
CAST_ROW(cast_i8_i32, int8_t, int32_t)
CAST_ROW(cast_u8_i32, uint8_t, int32_t)

#define BINARY_ROW(name, type, op)                                                                \
  static void name(const void *a, int64_t a_step, const void *b, int64_t b_step, void *to, int64_t n) { \
    const type *x = a, *y = b;                                                                    \
    type *z = to;                                                                                 \
    if (a_step && b_step)                                                                         \
      for (int64_t i = 0; i < n; ++i) z[i] = x[i] op y[i];                                        \
    else if (a_step)                                                                              \
      for (int64_t i = 0; i < n; ++i) z[i] = x[i] op *y;                                          \
    else                                                                                          \
      for (int64_t i = 0; i < n; ++i) z[i] = *x op y[i * b_step];                                 \
  }
BINARY_ROW(add_f32, float, +)
BINARY_ROW(sub_f32, float, -)
BINARY_ROW(mul_f32, float, *)
BINARY_ROW(div_f32, float, /)
BINARY_ROW(sub_i32, uint32_t, -) /* wraps */
/* clang-format on */

static const struct {
  tercel_dtype from, to;
  void (*row)(const void *from, void *to, int64_t n);
} casts[] = {
    {TERCEL_DTYPE_I8, TERCEL_DTYPE_F32, cast_i8_f32},   {TERCEL_DTYPE_U8, TERCEL_DTYPE_F32, cast_u8_f32},
    {TERCEL_DTYPE_I32, TERCEL_DTYPE_F32, cast_i32_f32}, {TERCEL_DTYPE_I8, TERCEL_DTYPE_I32, cast_i8_i32},
    {TERCEL_DTYPE_U8, TERCEL_DTYPE_I32, cast_u8_i32},
};

static const struct {
  tercel_fn fn;
  tercel_dtype dtype; /* of operands and result; 4 bytes */
  void (*row)(const void *a, int64_t a_step, const void *b, int64_t b_step, void *to, int64_t n);
} binaries[] = {
    {TERCEL_FN_ADD, TERCEL_DTYPE_F32, add_f32}, {TERCEL_FN_SUB, TERCEL_DTYPE_F32, sub_f32},
    {TERCEL_FN_MUL, TERCEL_DTYPE_F32, mul_f32}, {TERCEL_FN_DIV, TERCEL_DTYPE_F32, div_f32},
    {TERCEL_FN_SUB, TERCEL_DTYPE_I32, sub_i32},
};

/* ---- functions ---- */

static bool eval_cast(const tercel_tensor *in, tercel_tensor *out) {
  for (size_t c = 0; c < sizeof casts / sizeof *casts; ++c) {
    if (casts[c].from != in->dtype || casts[c].to != out->dtype) continue;
    casts[c].row(in->data, out->data, tercel_tensor_num_elements(out));
    return true;
  }
  return false;
}

static bool eval_binary(tercel_fn fn, const tercel_tensor *const *in, tercel_tensor *out) {
  walk w;
  int64_t index[TERCEL_MAX_RANK] = {0};
  size_t b = 0;
  while (b < sizeof binaries / sizeof *binaries && (binaries[b].fn != fn || binaries[b].dtype != out->dtype)) ++b;
  if (b == sizeof binaries / sizeof *binaries || in[0]->dtype != out->dtype || in[1]->dtype != out->dtype ||
      !plan_walk(in, 2, out, &w))
    return false;
  const char *const x = in[0]->data, *const y = in[1]->data;
  char *to = out->data;
  do {
    binaries[b].row(x + 4 * tercel_index_dot(w.rank, index, w.outer[0]), w.inner[0],
                    y + 4 * tercel_index_dot(w.rank, index, w.outer[1]), w.inner[1], to, w.count);
    to += 4 * w.count;
  } while (tercel_index_next(w.rank, w.dims, index));
  return true;
}

bool tercel_pointwise_eval_rows(const tercel_program *program, const tercel_tensor *const *in, tercel_tensor *out) {
  const tercel_instr *instr = &program->instrs[0];
  const tercel_fn fn = (tercel_fn)instr->fn;
  if (program->num_instrs != 1 || tercel_tensor_num_elements(out) == 0) return false;
  if (fn == TERCEL_FN_CAST && program->num_inputs == 1) return eval_cast(in[0], out);
  return program->num_inputs == 2 && instr->operands[0] == 0 && instr->operands[1] == 1 && eval_binary(fn, in, out);
}
