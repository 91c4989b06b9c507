/* Convolution: panels of the input as the window sees it, and depthwise planes.  See conv.h. */
#define VEC_FUSED
#include "backends/cpu/kernels/conv.h"

#include "backends/cpu/kernels/gemm_size.h"

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- runs of elements ----
 * Both write whole vectors: up to TERCEL_VEC - 1 floats behind dst + n.  Panels are filled forwards, so what is written too far is
 * overwritten by what comes next. */

static inline void zero_run(float *dst, int64_t n) {
  for (int64_t i = 0; i < n; i += TERCEL_VEC) vf_store(dst + i, vf_zero());
}

/* dst[i] = src[i * stride], i < n; src may be read up to `end`. */
static inline void copy_run(float *dst, const float *src, int64_t stride, int64_t n, const float *end) {
  int64_t i = 0;
  if (stride == 1) {
    for (; i < n && end - (src + i) >= TERCEL_VEC; i += TERCEL_VEC) vf_store(dst + i, vf_load(src + i));
    if (i < n) vf_store(dst + i, vf_load_n(src + i, n - i));
    return;
  }
  if (stride == 2) {
    for (; i < n && end - (src + 2 * i) >= 2 * TERCEL_VEC; i += TERCEL_VEC)
      vf_store(dst + i, vf_even(vf_load(src + 2 * i), vf_load(src + 2 * i + TERCEL_VEC)));
  }
  for (; i < n; ++i) dst[i] = src[i * stride];
}

/* ---- panels ---- */

/* Outputs of a panel that lie in one row of the output, from column x on. */
typedef struct segment {
  int64_t z, y, x, length;
} segment;

static int64_t cut_into_rows(const tercel_conv_view *v, int64_t n, int64_t cols, segment *out) {
  int64_t count = 0;
  segment s = {.x = n % v->x.output, .y = n / v->x.output % v->y.output, .z = n / v->x.output / v->y.output};
  while (cols > 0) {
    s.length = smaller(v->x.output - s.x, cols);
    out[count++] = s;
    cols -= s.length;
    s.x = 0;
    if (++s.y == v->y.output) {
      s.y = 0;
      ++s.z;
    }
  }
  return count;
}

/* A tap on one segment: dst[j] = channel[source + j * stride] for begin <= j < stop; 0 elsewhere in the segment. */
typedef struct tap_run {
  int64_t source, begin, stop;
} tap_run;

/* Position of an axis for one output and tap; negative in the padding. */
static inline int64_t position(const tercel_conv_axis *axis, int64_t output, int64_t tap) {
  const int64_t at = output * axis->stride + tap * axis->dilation - axis->pad;
  return at < axis->input ? at : -1;
}

static inline tap_run find_run(const tercel_conv_view *v, const segment *s, int64_t tap) {
  const tercel_conv_axis *x = &v->x;
  const int64_t kx = tap % x->kernel, rest = tap / x->kernel;
  const int64_t iz = position(&v->z, s->z, rest / v->y.kernel), iy = position(&v->y, s->y, rest % v->y.kernel);
  if (iz < 0 || iy < 0) return (tap_run){0};
  const int64_t first = s->x * x->stride + kx * x->dilation - x->pad; /* column of the input; may lie outside */
  tap_run run = {.source = (iz * v->y.input + iy) * x->input + first, .stop = s->length};
  if (first < 0) run.begin = smaller((-first + x->stride - 1) / x->stride, s->length);
  if (first + (s->length - 1) * x->stride >= x->input)
    run.stop = first < x->input ? larger((x->input - 1 - first) / x->stride + 1, run.begin) : run.begin;
  return run;
}

static inline void pack_run(const tap_run *run, int64_t stride, int64_t length, const float *channel, const float *end,
                            float *dst) {
  if (run->begin > 0) zero_run(dst, run->begin);
  if (run->stop > run->begin)
    copy_run(dst + run->begin, channel + run->source + run->begin * stride, stride, run->stop - run->begin, end);
  if (run->stop < length) zero_run(dst + run->stop, length - run->stop);
}

/* Runs found once for all channels, where the taps are so few that they fit. */
enum { MOST_RUNS = 256 };

static void pack_panel(const tercel_conv_view *v, const float *in, const float *end, int64_t k0, int64_t k, int64_t n0,
                       int64_t cols, float *out) {
  segment segments[GEMM_NR];
  tap_run runs[MOST_RUNS];
  const int64_t count = cut_into_rows(v, n0, cols, segments);
  const int64_t taps = v->z.kernel * v->y.kernel * v->x.kernel;
  const bool found = taps * count <= MOST_RUNS && k > taps;
  for (int64_t i = 0; found && i < taps * count; ++i) runs[i] = find_run(v, &segments[i % count], i / count);
  const int64_t whole = (cols + TERCEL_VEC - 1) / TERCEL_VEC * TERCEL_VEC; /* the product reads whole vectors */
  const int64_t channel_size = v->z.input * v->y.input * v->x.input, stride = v->x.stride;
  const float *channel = in + k0 / taps * channel_size;
  int64_t tap = k0 % taps;
  for (int64_t i = 0; i < k; ++i, out += GEMM_NR) {
    float *dst = out;
    for (int64_t s = 0; s < count; dst += segments[s++].length) {
      if (found) {
        pack_run(&runs[tap * count + s], stride, segments[s].length, channel, end, dst);
      } else {
        const tap_run run = find_run(v, &segments[s], tap);
        pack_run(&run, stride, segments[s].length, channel, end, dst);
      }
    }
    if (whole > cols) zero_run(dst, whole - cols);
    if (++tap < taps) continue;
    tap = 0;
    channel += channel_size;
  }
}

static void pack(const tercel_conv_view *v, const float *in, const float *end, int64_t k0, int64_t k, int64_t n0,
                 int64_t n, float *out) {
  for (; n > 0; n -= GEMM_NR, n0 += GEMM_NR, out += k * GEMM_NR)
    pack_panel(v, in, end, k0, k, n0, smaller(n, GEMM_NR), out);
}

/* ---- depthwise ---- */

/* dst[i] = src[i * stride], i < n; nothing else is read or written. */
static inline void copy_exactly(float *dst, const float *src, int64_t stride, int64_t n) {
  int64_t i = 0;
  if (stride == 1)
    for (; i < n; i += TERCEL_VEC) vf_store_n(dst + i, vf_load_n(src + i, n - i), n - i);
  else
    for (; i < n; ++i) dst[i] = src[i * stride];
}

/* Both phases of a row with stride 2: even elements go to one, odd ones to the other. */
static inline void copy_pairs(const tercel_conv_plane *d, const float *row, float *plane) {
  const tercel_conv_axis *x = &d->x;
  const int64_t pad = x->pad, step = d->rows * d->pitch;
  float *evens = plane + pad % 2 * step + pad / 2, *odds = plane + (pad + 1) % 2 * step + (pad + 1) / 2;
  const int64_t num_evens = smaller((x->input + 1) / 2, d->pitch - pad / 2);
  const int64_t num_odds = smaller(x->input / 2, d->pitch - (pad + 1) / 2), both = smaller(num_evens, num_odds);
  int64_t i = 0;
  for (; i + TERCEL_VEC <= both; i += TERCEL_VEC) {
    const vf low = vf_load(row + 2 * i), high = vf_load(row + 2 * i + TERCEL_VEC);
    vf_store(evens + i, vf_even(low, high));
    vf_store(odds + i, vf_odd(low, high));
  }
  copy_exactly(evens + i, row + 2 * i, 2, num_evens - i);
  copy_exactly(odds + i, row + 2 * i + 1, 2, num_odds - i);
}

/* A row of the input into its column phases: phase p gets row[i * stride + p - pad] at i where that lies inside; NULL: a row of padding. */
static inline void copy_row(const tercel_conv_plane *d, const float *row, float *plane) {
  const tercel_conv_axis *x = &d->x;
  if (row != NULL && x->stride == 2) {
    copy_pairs(d, row, plane);
    return;
  }
  for (int64_t phase = 0; phase < x->stride; ++phase, plane += d->rows * d->pitch) {
    if (row == NULL) {
      for (int64_t i = 0; i < d->pitch; i += TERCEL_VEC) vf_store_n(plane + i, vf_zero(), d->pitch - i);
      continue;
    }
    const int64_t first = phase - x->pad, begin = first < 0 ? (-first + x->stride - 1) / x->stride : 0;
    const int64_t stop = first < x->input ? smaller((x->input - 1 - first) / x->stride + 1, d->pitch) : 0;
    if (stop > begin) copy_exactly(plane + begin, row + first + begin * x->stride, x->stride, stop - begin);
  }
}

/* The rows that the outputs from row y0 on look at. */
static void fill(const tercel_conv_plane *d, const float *in, int64_t y0, int64_t count, float *plane) {
  const int64_t rows = count + d->rows - d->band;
  const tercel_conv_axis *y = &d->y, *x = &d->x;
  for (int64_t y_phase = 0; y_phase < y->stride; ++y_phase) {
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t iy = (y0 + r) * y->stride + y_phase - y->pad;
      copy_row(d, iy < 0 || iy >= y->input ? NULL : in + iy * x->input, plane + r * d->pitch);
    }
    plane += x->stride * d->rows * d->pitch;
  }
}

/* One call's outputs: sums over taps in one chain upwards, beginning with the bias. */
typedef struct outputs {
  const tercel_conv_plane *d;
  const float *w;
  float bias;
  const float *plane; /* at row 0 */
  float *out;
} outputs;

/* `rows` rows by `vectors` vectors, from (y, x) on. */
static inline __attribute__((always_inline)) void sum_taps(const int rows, const int vectors, const outputs *o,
                                                           int64_t y, int64_t x) {
  const tercel_conv_plane *d = o->d;
  vf acc[4];
#pragma GCC unroll 4
  for (int i = 0; i < rows * vectors; ++i) acc[i] = vf_set(o->bias);
  const float *src = o->plane + y * d->pitch + x;
  for (int64_t t = 0; t < d->num_taps; ++t) {
    const vf w = vf_set(o->w[t]);
    const float *p = src + d->offsets[t];
#pragma GCC unroll 4
    for (int i = 0; i < rows * vectors; ++i)
      acc[i] = vf_fma(w, vf_load(p + i / vectors * d->pitch + i % vectors * TERCEL_VEC), acc[i]);
  }
  const int64_t width = d->x.output, left = width - x;
  float *out = o->out + y * width + x;
#pragma GCC unroll 4
  for (int i = 0; i < rows * vectors; ++i) {
    const int64_t col = i % vectors * TERCEL_VEC;
    vf_store_n(out + i / vectors * width + col, acc[i], left - col);
  }
}

/* k x k taps, stride 1, no dilation: `rows` outputs below each other share what they load. */
static inline __attribute__((always_inline)) void sum_square(const int k, const int rows, const outputs *o, int64_t y,
                                                             int64_t x) {
  const tercel_conv_plane *d = o->d;
  vf acc[4];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) acc[r] = vf_set(o->bias);
  const float *src = o->plane + y * d->pitch + x;
#pragma GCC unroll 8
  for (int i = 0; i < k + rows - 1; ++i, src += d->pitch) {
#pragma GCC unroll 5
    for (int kx = 0; kx < k; ++kx) {
      const vf in = vf_load(src + kx);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r)
        if (i - r >= 0 && i - r < k) acc[r] = vf_fma(vf_set(o->w[(i - r) * k + kx]), in, acc[r]);
    }
  }
  const int64_t width = d->x.output;
  float *out = o->out + y * width + x;
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) vf_store_n(out + r * width, acc[r], width - x);
}

static inline __attribute__((always_inline)) void square_rows(const int k, const int rows, const outputs *o,
                                                              int64_t y) {
  for (int64_t x = 0; x < o->d->x.output; x += TERCEL_VEC) sum_square(k, rows, o, y, x);
}

static inline __attribute__((always_inline)) void all_square_rows(const int k, const outputs *o, int64_t count) {
  int64_t y = 0;
  for (; y + 4 <= count; y += 4) square_rows(k, 4, o, y);
  if (count - y == 3)
    square_rows(k, 3, o, y);
  else if (count - y == 2)
    square_rows(k, 2, o, y);
  else if (count - y == 1)
    square_rows(k, 1, o, y);
}

static void any_rows(const outputs *o, int64_t count) {
  const int64_t width = o->d->x.output;
  int64_t y = 0;
  for (; y + 4 <= count; y += 4)
    for (int64_t x = 0; x < width; x += TERCEL_VEC) sum_taps(4, 1, o, y, x);
  for (; y + 2 <= count; y += 2)
    for (int64_t x = 0; x < width; x += TERCEL_VEC) sum_taps(2, 1, o, y, x);
  if (y == count) return;
  int64_t x = 0;
  for (; x + 4 * TERCEL_VEC <= width; x += 4 * TERCEL_VEC) sum_taps(1, 4, o, y, x);
  for (; x < width; x += TERCEL_VEC) sum_taps(1, 1, o, y, x);
}

static bool is_square(const tercel_conv_plane *d, int64_t k) {
  const tercel_conv_axis *const axes[] = {&d->y, &d->x};
  for (int i = 0; i < 2; ++i)
    if (axes[i]->kernel != k || axes[i]->stride != 1 || axes[i]->dilation != 1) return false;
  return true;
}

static void depthwise(const tercel_conv_plane *d, const float *in, const float *w, float bias, int64_t y0,
                      int64_t count, float *out, float *plane) {
  fill(d, in, y0, count, plane);
  const outputs o = {.d = d, .w = w, .bias = bias, .plane = plane, .out = out};
  if (is_square(d, 3))
    all_square_rows(3, &o, count);
  else if (is_square(d, 5))
    all_square_rows(5, &o, count);
  else
    any_rows(&o, count);
}

/* ---- transposed ---- */

static void start(const tercel_conv_axis *x, float bias, float *phases) {
  const int64_t phase_floats = tercel_conv_phase_floats(x), n = (x->output + x->stride - 1) / x->stride;
  for (int64_t phase = 0; phase < x->stride; ++phase, phases += phase_floats)
    for (int64_t i = 0; i < n; i += TERCEL_VEC) vf_store(phases + i, vf_set(bias)); /* into the slack, if need be */
}

/* dst[i] += src[i] */
static inline void add_run(float *dst, const float *src, int64_t n) {
  for (; n >= TERCEL_VEC; n -= TERCEL_VEC, dst += TERCEL_VEC, src += TERCEL_VEC)
    vf_store(dst, vf_load(dst) + vf_load(src));
  if (n > 0) vf_store_n(dst, vf_load_n(dst, n) + vf_load_n(src, n), n);
}

static void add_taps(const tercel_conv_axis *x, const float *taps, int64_t tap_step, float *phases) {
  const int64_t phase_floats = tercel_conv_phase_floats(x);
  for (int64_t kx = 0; kx < x->kernel; ++kx, taps += tap_step) {
    const int64_t first = kx * x->dilation - x->pad; /* where the row's first element goes; may lie before the output */
    const int64_t skipped = first < 0 ? (-first + x->stride - 1) / x->stride : 0;
    const int64_t at = first + skipped * x->stride, phase = at % x->stride, place = at / x->stride;
    if (at >= x->output) continue;
    const int64_t room = (x->output - 1 - at) / x->stride + 1;
    const int64_t n = smaller(x->input - skipped, room);
    if (n > 0) add_run(phases + phase * phase_floats + place, taps + skipped, n);
  }
}

#if defined(__SSE2__)
/* out[2 i] = a[i], out[2 i + 1] = b[i]; four at a time. */
static inline int64_t interleave(const float *a, const float *b, int64_t n, float *out) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const __m128 x = _mm_loadu_ps(a + i), y = _mm_loadu_ps(b + i);
    _mm_storeu_ps(out + 2 * i, _mm_unpacklo_ps(x, y));
    _mm_storeu_ps(out + 2 * i + 4, _mm_unpackhi_ps(x, y));
  }
  return i;
}
#else
static inline int64_t interleave(const float *a, const float *b, int64_t n, float *out) {
  for (int64_t i = 0; i < n; ++i) {
    out[2 * i] = a[i];
    out[2 * i + 1] = b[i];
  }
  return n;
}
#endif

static void join(const tercel_conv_axis *x, const float *phases, float *out) {
  const int64_t phase_floats = tercel_conv_phase_floats(x), whole = x->output / x->stride;
  int64_t i = 0;
  if (x->stride == 1) {
    for (; i + TERCEL_VEC <= whole; i += TERCEL_VEC) vf_store(out + i, vf_load(phases + i));
  } else if (x->stride == 2) {
    i = interleave(phases, phases + phase_floats, whole, out);
  }
  for (int64_t phase = 0; phase < x->stride; ++phase)
    for (int64_t at = i * x->stride + phase; at < x->output; at += x->stride)
      out[at] = phases[phase * phase_floats + at / x->stride];
}

const tercel_conv_kernels TERCEL_LEVEL_NAME(tercel_conv_kernels) = {
    .pack = pack, .fill = fill, .depthwise = depthwise, .start = start, .add_taps = add_taps, .join = join};
