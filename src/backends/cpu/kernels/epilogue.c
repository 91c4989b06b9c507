/* Epilogues over tiles of f32.  The cheap forms are loops of their own; programs run row by row. */
#include "backends/cpu/kernels/epilogue.h"

#include "backends/cpu/kernels/vec.h"

static void apply_none(const tercel_epilogue *epilogue, const tercel_epilogue_extra *extras, int64_t outer, int64_t row,
                       int64_t col, int64_t rows, int64_t cols, float *tile, int64_t ld) {
  (void)epilogue, (void)extras, (void)outer, (void)row, (void)col, (void)rows, (void)cols, (void)tile, (void)ld;
}

/* NaN stays. */
VEC_INLINE vf clamp(vf x, vf low, vf high) { return vf_min_fast(high, vf_max_fast(low, x)); }

static void apply_clamp(const tercel_epilogue *epilogue, const tercel_epilogue_extra *extras, int64_t outer,
                        int64_t row, int64_t col, int64_t rows, int64_t cols, float *tile, int64_t ld) {
  (void)extras, (void)outer, (void)row, (void)col;
  const vf low = vf_set(epilogue->low), high = vf_set(epilogue->high);
  for (int64_t r = 0; r < rows; r++, tile += ld) {
    int64_t c = 0;
    for (; c + TERCEL_VEC <= cols; c += TERCEL_VEC) vf_store(tile + c, clamp(vf_load(tile + c), low, high));
    if (c < cols) vf_store_n(tile + c, clamp(vf_load_n(tile + c, cols - c), low, high), cols - c);
  }
}

static const float *extra_at(const tercel_epilogue_extra *extra, int64_t outer, int64_t row, int64_t col) {
  return (const float *)extra->data + outer * extra->outer_stride + row * extra->row_stride + col * extra->col_stride;
}

/* x + extra, then clamped where `clamped`; the extra is a row of numbers or one. */
VEC_INLINE void add_row(float *x, const float *extra, int64_t step, int64_t cols, bool clamped, vf low, vf high) {
  const vf one = vf_set(extra[0]);
  int64_t c = 0;
  for (; c + TERCEL_VEC <= cols; c += TERCEL_VEC) {
    const vf sum = vf_load(x + c) + (step ? vf_load(extra + c) : one);
    vf_store(x + c, clamped ? clamp(sum, low, high) : sum);
  }
  if (c == cols) return;
  const vf sum = vf_load_n(x + c, cols - c) + (step ? vf_load_n(extra + c, cols - c) : one);
  vf_store_n(x + c, clamped ? clamp(sum, low, high) : sum, cols - c);
}

static void apply_add(const tercel_epilogue *epilogue, const tercel_epilogue_extra *extras, int64_t outer, int64_t row,
                      int64_t col, int64_t rows, int64_t cols, float *tile, int64_t ld) {
  (void)epilogue;
  for (int64_t r = 0; r < rows; r++, tile += ld)
    add_row(tile, extra_at(extras, outer, row + r, col), extras->col_stride, cols, false, vf_zero(), vf_zero());
}

static void apply_add_clamp(const tercel_epilogue *epilogue, const tercel_epilogue_extra *extras, int64_t outer,
                            int64_t row, int64_t col, int64_t rows, int64_t cols, float *tile, int64_t ld) {
  const vf low = vf_set(epilogue->low), high = vf_set(epilogue->high);
  for (int64_t r = 0; r < rows; r++, tile += ld)
    add_row(tile, extra_at(extras, outer, row + r, col), extras->col_stride, cols, true, low, high);
}

/* Rows that touch are one long row, where the extras go along: one number for all, or rows that touch as well. */
static bool rows_touch(const tercel_epilogue *epilogue, const tercel_epilogue_extra *extras, int64_t cols, int64_t ld) {
  for (int i = 0; i < epilogue->num_extras; i++) {
    const tercel_epilogue_extra *e = &extras[i];
    const bool same = e->row_stride == 0 && e->col_stride == 0, dense = e->row_stride == cols && e->col_stride == 1;
    if (!same && !dense) return false;
  }
  return ld == cols;
}

static void apply_program(const tercel_epilogue *epilogue, const tercel_epilogue_extra *extras, int64_t outer,
                          int64_t row, int64_t col, int64_t rows, int64_t cols, float *tile, int64_t ld) {
  if (rows_touch(epilogue, extras, cols, ld)) {
    cols *= rows;
    rows = rows > 0;
  }
  tercel_code_operand operands[TERCEL_PROGRAM_MAX_INPUTS];
  for (int64_t r = 0; r < rows; r++, tile += ld) {
    operands[0] = (tercel_code_operand){tile, 1};
    for (int i = 0; i < epilogue->num_extras; i++) {
      const tercel_epilogue_extra *e = &extras[i];
      const int64_t at = outer * e->outer_stride + (row + r) * e->row_stride + col * e->col_stride;
      operands[i + 1] =
          (tercel_code_operand){(const uint8_t *)e->data + at * epilogue->code->input_bytes[i + 1], e->col_stride};
    }
    epilogue->run(epilogue->code, operands, tile, cols);
  }
}

const tercel_epilogue_kernels TERCEL_LEVEL_NAME(tercel_epilogue_kernels) = {
    .apply = {apply_none, apply_clamp, apply_add, apply_add_clamp, apply_program},
};
