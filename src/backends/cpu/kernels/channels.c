/* Depthwise convolution and pooling with channels last.  See channels.h. */
#define VEC_FUSED
#include "backends/cpu/kernels/channels.h"

#include "backends/cpu/kernels/vec.h"

/* The taps of a window at output `at` that lie in the input: [begin, end), and the position of tap 0. */
typedef struct span {
  int64_t first, begin, end;
} span;

VEC_INLINE span clip(const tercel_conv_axis *axis, int64_t at) {
  span s = {.first = at * axis->stride - axis->pad, .end = axis->kernel};
  if (s.first < 0) s.begin = (-s.first + axis->dilation - 1) / axis->dilation;
  const int64_t room = axis->input - s.first; /* elements from tap 0 to the end of the input */
  const int64_t most = room > 0 ? (room + axis->dilation - 1) / axis->dilation : 0;
  if (s.end > most) s.end = most;
  if (s.begin > s.end) s.begin = s.end;
  return s;
}

/* A vector of channels of which n are left; `whole` where that is at least a vector. */
VEC_INLINE vf load(const float *p, int64_t n, const bool whole) { return whole ? vf_load(p) : vf_load_n(p, n); }
VEC_INLINE void store(float *p, vf x, int64_t n, const bool whole) {
  if (whole)
    vf_store(p, x);
  else
    vf_store_n(p, x, n);
}

/* ---- depthwise ---- */

/* Where some neighbouring outputs of a row stand. */
typedef struct place {
  const float *in, *w, *bias; /* in: tap (0, 0) of the first output (may lie outside) */
  float *out;
  int64_t row, channels; /* floats from one row of taps to the next; from one pixel to the next */
  int64_t begin, end;    /* rows of taps */
} place;

/* `count` neighbours, all taps of the rows inside: k taps a row, `stride` apart, no dilation.  Each input vector serves all outputs that
 * see it.  c: the first channel, of n. */
VEC_INLINE void sum_neighbours(const int k, const int stride, const int count, const place *p, int64_t c, int64_t n,
                               const bool whole) {
  vf acc[4];
  const vf bias = load(p->bias + c, n, whole);
#pragma GCC unroll 4
  for (int i = 0; i < count; ++i) acc[i] = bias;
  for (int64_t ky = p->begin; ky < p->end; ++ky) {
    const float *in = p->in + ky * p->row + c, *w = p->w + ky * k * p->channels + c;
    vf taps[5];
#pragma GCC unroll 5
    for (int kx = 0; kx < k; ++kx) taps[kx] = load(w + kx * p->channels, n, whole);
#pragma GCC unroll 11
    for (int j = 0; j < (count - 1) * stride + k; ++j) {
      const vf x = load(in + j * p->channels, n, whole);
#pragma GCC unroll 4
      for (int i = 0; i < count; ++i)
        if (j - i * stride >= 0 && j - i * stride < k) acc[i] = vf_fma(taps[j - i * stride], x, acc[i]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < count; ++i) store(p->out + i * p->channels + c, acc[i], n, whole);
}

VEC_INLINE void neighbours(const int k, const int stride, const int count, const place *p) {
  int64_t c = 0;
  for (; c + TERCEL_VEC <= p->channels; c += TERCEL_VEC) sum_neighbours(k, stride, count, p, c, TERCEL_VEC, true);
  if (c < p->channels) sum_neighbours(k, stride, count, p, c, p->channels - c, false);
}

/* One output with taps [x.begin, x.end) of each row, x_step floats apart. */
VEC_INLINE void sum_single(const place *p, int64_t kernel, const span *x, int64_t x_step, int64_t c, int64_t n,
                           const bool whole) {
  vf acc = load(p->bias + c, n, whole);
  for (int64_t ky = p->begin; ky < p->end; ++ky)
    for (int64_t kx = x->begin; kx < x->end; ++kx)
      acc = vf_fma(load(p->w + (ky * kernel + kx) * p->channels + c, n, whole),
                   load(p->in + ky * p->row + kx * x_step + c, n, whole), acc);
  store(p->out + c, acc, n, whole);
}

static void single(const place *p, int64_t kernel, const span *x, int64_t x_step) {
  int64_t c = 0;
  for (; c + TERCEL_VEC <= p->channels; c += TERCEL_VEC) sum_single(p, kernel, x, x_step, c, TERCEL_VEC, true);
  if (c < p->channels) sum_single(p, kernel, x, x_step, c, p->channels - c, false);
}

/* Outputs whose windows lie inside the input along x: [begin, end). */
typedef struct interior {
  int64_t begin, end;
} interior;

VEC_INLINE interior find_interior(const tercel_conv_axis *x) {
  const int64_t reach = (x->kernel - 1) * x->dilation + 1;
  interior i = {.begin = (x->pad + x->stride - 1) / x->stride};
  i.end = x->input - reach + x->pad < 0 ? 0 : (x->input - reach + x->pad) / x->stride + 1;
  if (i.end > x->output) i.end = x->output;
  if (i.begin > i.end) i.begin = i.end;
  return i;
}

/* k 0: any kernel and dilation. */
VEC_INLINE void depthwise_row(const int k, const int stride, const tercel_channels_view *v, const interior *inside,
                              place *p, const float *row, float *out) {
  const int64_t channels = v->channels, x_step = v->x.dilation * channels;
  for (int64_t x = 0; x < v->x.output;) {
    const span s = clip(&v->x, x);
    p->in = row + s.first * channels;
    p->out = out + x * channels;
    if (k > 0 && x >= inside->begin && x + 4 <= inside->end) {
      neighbours(k, stride, 4, p);
      x += 4;
    } else if (k > 0 && x >= inside->begin && x + 2 <= inside->end) {
      neighbours(k, stride, 2, p);
      x += 2;
    } else {
      single(p, v->x.kernel, &s, x_step);
      ++x;
    }
  }
}

VEC_INLINE void depthwise_rows(const int k, const int stride, const tercel_channels_view *v, const float *in,
                               const float *w, const float *bias, int64_t y0, int64_t count, float *out) {
  const interior inside = find_interior(&v->x);
  const int64_t row_floats = v->x.input * v->channels, out_floats = v->x.output * v->channels;
  for (int64_t y = y0; y < y0 + count; ++y, out += out_floats) {
    const span s = clip(&v->y, y);
    place p = {.w = w,
               .bias = bias,
               .row = v->y.dilation * row_floats,
               .channels = v->channels,
               .begin = s.begin,
               .end = s.end};
    depthwise_row(k, stride, v, &inside, &p, in + s.first * row_floats, out);
  }
}

static void depthwise(const tercel_channels_view *v, const float *in, const float *w, const float *bias, int64_t y0,
                      int64_t count, float *out) {
  const int64_t k = v->x.dilation == 1 ? v->x.kernel : 0, stride = v->x.stride;
  if (k == 3 && stride == 1)
    depthwise_rows(3, 1, v, in, w, bias, y0, count, out);
  else if (k == 3 && stride == 2)
    depthwise_rows(3, 2, v, in, w, bias, y0, count, out);
  else if (k == 5 && stride == 1)
    depthwise_rows(5, 1, v, in, w, bias, y0, count, out);
  else if (k == 5 && stride == 2)
    depthwise_rows(5, 2, v, in, w, bias, y0, count, out);
  else
    depthwise_rows(0, 1, v, in, w, bias, y0, count, out);
}

/* ---- pooling ---- */

VEC_INLINE vf combine(vf a, vf b, bool sum) { return sum ? a + b : vf_max(a, b); }

/* One output: where it and tap (0, 0) stand (which may lie outside), floats between taps, and elements of a sum. */
typedef struct window {
  const float *in;
  float *out;
  span y, x;
  int64_t y_step, x_step;
  float count;
} window;

VEC_INLINE void pool_channels(const window w, int64_t c, int64_t n, const bool sum, const bool whole) {
  vf acc = sum ? vf_zero() : vf_set(-INFINITY);
  for (int64_t ky = w.y.begin; ky < w.y.end; ++ky)
    for (int64_t kx = w.x.begin; kx < w.x.end; ++kx)
      acc = combine(acc, load(w.in + ky * w.y_step + kx * w.x_step + c, n, whole), sum);
  store(w.out + c, sum ? acc / vf_set(w.count) : acc, n, whole);
}

VEC_INLINE void pool_window(const window w, int64_t channels, const bool sum) {
  int64_t c = 0;
  for (; c + TERCEL_VEC <= channels; c += TERCEL_VEC) pool_channels(w, c, TERCEL_VEC, sum, true);
  if (c < channels) pool_channels(w, c, channels - c, sum, false);
}

VEC_INLINE void pool(const tercel_channels_view *v, const float *in, const float *row_counts,
                     const float *column_counts, int64_t y0, int64_t count, float *out, const bool sum) {
  const int64_t channels = v->channels, row_floats = v->x.input * channels;
  window w = {.out = out, .y_step = v->y.dilation * row_floats, .x_step = v->x.dilation * channels};
  for (int64_t y = y0; y < y0 + count; ++y) {
    w.y = clip(&v->y, y);
    for (int64_t x = 0; x < v->x.output; ++x, w.out += channels) {
      w.x = clip(&v->x, x);
      w.in = in + w.y.first * row_floats + w.x.first * channels;
      if (sum) w.count = row_counts[y] * column_counts[x];
      pool_window(w, channels, sum);
    }
  }
}

static void max_pool(const tercel_channels_view *v, const float *in, int64_t y0, int64_t count, float *out) {
  pool(v, in, NULL, NULL, y0, count, out, false);
}

static void average_pool(const tercel_channels_view *v, const float *in, const float *row_counts,
                         const float *column_counts, int64_t y0, int64_t count, float *out) {
  pool(v, in, row_counts, column_counts, y0, count, out, true);
}

const tercel_channels_kernels TERCEL_LEVEL_NAME(tercel_channels_kernels) = {
    .depthwise = depthwise, .max = max_pool, .average = average_pool};
