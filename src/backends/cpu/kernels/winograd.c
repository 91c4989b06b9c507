/* Transforms of Winograd convolution.  See winograd.h. */
#define VEC_FUSED
#include "backends/cpu/kernels/winograd.h"

#include "backends/cpu/kernels/vec.h"

enum { TILE = TERCEL_WINOGRAD_TILE, IN = TERCEL_WINOGRAD_IN };

static const float P = TERCEL_WINOGRAD_P, Q = TERCEL_WINOGRAD_Q;
#define P2 (TERCEL_WINOGRAD_P * TERCEL_WINOGRAD_P)
#define Q2 (TERCEL_WINOGRAD_Q * TERCEL_WINOGRAD_Q)

/* out = B^T d */
static inline void transform_in(const vf d[IN], vf out[IN]) {
  const vf p = vf_set(P), q = vf_set(Q), p2 = vf_set((float)P2), q2 = vf_set((float)Q2);
  const vf sum = vf_set((float)(P2 + Q2)), product = vf_set((float)(P2 * Q2));
  out[0] = vf_fma(product, d[0], vf_fnma(sum, d[2], d[4]));
  const vf even_p = vf_fnma(q2, d[2], d[4]), odd_p = p * vf_fnma(q2, d[1], d[3]);
  out[1] = even_p + odd_p;
  out[2] = even_p - odd_p;
  const vf even_q = vf_fnma(p2, d[2], d[4]), odd_q = q * vf_fnma(p2, d[1], d[3]);
  out[3] = even_q + odd_q;
  out[4] = even_q - odd_q;
  out[5] = vf_fma(product, d[1], vf_fnma(sum, d[3], d[5]));
}

/* out = A^T m */
static inline void transform_out(const vf m[IN], vf out[TILE]) {
  const vf sum_p = m[1] + m[2], sum_q = m[3] + m[4], difference_p = m[1] - m[2], difference_q = m[3] - m[4];
  out[0] = m[0] + sum_p + sum_q;
  out[1] = vf_fma(vf_set(P), difference_p, vf_set(Q) * difference_q);
  out[2] = vf_fma(vf_set((float)P2), sum_p, vf_set((float)Q2) * sum_q);
  out[3] = vf_fma(vf_set((float)P2 * P), difference_p, vf_fma(vf_set((float)Q2 * Q), difference_q, m[5]));
}

/* ---- input ---- */

/* The 6 rows of the input that a row of tiles sees, transformed downwards, each with its padding: padded[r][column + pad]. */
static inline void transform_columns(const tercel_winograd_view *view, const float *in, int64_t ty, const float *zeros,
                                     int64_t padded_floats, float *padded) {
  const int64_t width = view->x.input, first = ty * TILE - view->y.pad;
  const float *rows[IN];
  for (int64_t r = 0; r < IN; ++r) {
    const bool inside = first + r >= 0 && first + r < view->y.input;
    rows[r] = inside ? in + (first + r) * width : zeros;
  }
  padded += view->x.pad;
  for (int64_t x = 0; x < width; x += TERCEL_VEC) {
    vf d[IN], out[IN];
    for (int r = 0; r < IN; ++r) d[r] = vf_load_n(rows[r] + x, width - x);
    transform_in(d, out);
    for (int r = 0; r < IN; ++r) vf_store(padded + r * padded_floats + x, out[r]);
  }
}

/* Column c of tile t is padded[4 t + c]: phase c % 4 at t + c / 4. */
static inline void split_phases(const float *padded, int64_t pitch, int64_t tiles, float *phases) {
  for (int64_t t = 0; t <= tiles; t += TERCEL_VEC) {
    vf v[TILE];
    for (int i = 0; i < TILE; ++i) v[i] = vf_load(padded + TILE * t + i * TERCEL_VEC);
    const vf even_low = vf_even(v[0], v[1]), even_high = vf_even(v[2], v[3]);
    const vf odd_low = vf_odd(v[0], v[1]), odd_high = vf_odd(v[2], v[3]);
    vf_store(phases + t, vf_even(even_low, even_high));
    vf_store(phases + pitch + t, vf_even(odd_low, odd_high));
    vf_store(phases + 2 * pitch + t, vf_odd(even_low, even_high));
    vf_store(phases + 3 * pitch + t, vf_odd(odd_low, odd_high));
  }
}

static void input(const tercel_winograd_view *view, const float *in, int64_t ty, int64_t rows, float *scratch,
                  float *v) {
  const int64_t pitch = tercel_winograd_pitch(view), padded_floats = TILE * pitch, step = view->step;
  float *const padded = scratch + view->x.input + 16, *const phases = padded + IN * padded_floats;
  for (int64_t row = 0; row < rows; ++row, v += view->tiles) {
    transform_columns(view, in, ty + row, scratch, padded_floats, padded);
    for (int64_t r = 0; r < IN; ++r) {
      split_phases(padded + r * padded_floats, pitch, view->tiles, phases);
      for (int64_t t = 0; t < view->tiles; t += TERCEL_VEC) {
        vf d[IN], out[IN];
        for (int c = 0; c < IN; ++c) d[c] = vf_load(phases + c % TILE * pitch + t + c / TILE);
        transform_in(d, out);
        for (int c = 0; c < IN; ++c) vf_store(v + (r * IN + c) * step + t, out[c]);
      }
    }
  }
}

/* ---- output ---- */

/* Four vectors of tiles as a row of the output: out[4 t + i] = y[i][t], the first n of them. */
static inline void store_row(const vf y[TILE], float *out, int64_t n) {
  const vf even_low = vf_zip_low(y[0], y[2]), even_high = vf_zip_high(y[0], y[2]);
  const vf odd_low = vf_zip_low(y[1], y[3]), odd_high = vf_zip_high(y[1], y[3]);
  const vf row[TILE] = {vf_zip_low(even_low, odd_low), vf_zip_high(even_low, odd_low), vf_zip_low(even_high, odd_high),
                        vf_zip_high(even_high, odd_high)};
  for (int i = 0; i < TILE && n > i * TERCEL_VEC; ++i) vf_store_n(out + i * TERCEL_VEC, row[i], n - i * TERCEL_VEC);
}

static void output(const tercel_winograd_view *view, const float *m, float bias, int64_t ty, int64_t rows, float *out) {
  const int64_t step = view->step, width = view->x.output;
  for (int64_t row = 0; row < rows; ++row, m += view->tiles, out += TILE * width) {
    const int64_t left = view->y.output - (ty + row) * TILE, count = left < TILE ? left : TILE;
    for (int64_t t = 0; t < view->tiles; t += TERCEL_VEC) {
      vf down[IN][TILE]; /* columns, transformed */
      for (int c = 0; c < IN; ++c) {
        vf column[IN];
        for (int r = 0; r < IN; ++r) column[r] = vf_load(m + (r * IN + c) * step + t);
        transform_out(column, down[c]);
      }
      for (int64_t y = 0; y < count; ++y) {
        vf across[IN], result[TILE];
        for (int c = 0; c < IN; ++c) across[c] = down[c][y];
        transform_out(across, result);
        for (int i = 0; i < TILE; ++i) result[i] += vf_set(bias);
        store_row(result, out + y * width + TILE * t, width - TILE * t);
      }
    }
  }
}

const tercel_winograd_kernels TERCEL_LEVEL_NAME(tercel_winograd_kernels) = {.input = input, .output = output};
