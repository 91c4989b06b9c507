/* dft, stft, mel_weight_matrix: spectra of sampled signals.  A transform goes through the prime factors of its length pass by pass
 * (Cooley and Tukey 1965; decimation in frequency).  Real signals and f64 are transformed in double; complex points of f32 in f32, each
 * operation rounded, which is what FFT libraries do and ONNX's recorded answers hold. */
#include <math.h>
#include <string.h>

#include "ops/epilogue.h"
#include "ops/move.h"

enum { MAX_LENGTH = INT32_MAX }; /* so that the product of two positions fits */

static const double pi = 3.14159265358979323846;

/* ---- the transform ------------------------------------------------------------------------------------------------- */

typedef struct point {
  double re, im;
} point;

/* out[k] = sum over j of in[j] roots[j k mod n], roots[k] = exp(-2 pi i k / n), or its conjugate for the inverse. */
typedef struct transform {
  int64_t n;
  bool single;                    /* every operation rounds to f32 */
  point *roots, *in, *out, *work; /* n each */
} transform;

static double rounded(const transform *t, double x) { return t->single ? (double)(float)x : x; }

static tercel_status prepare(tercel_eval *eval, int64_t n, bool inverse, bool single, transform *t, tercel_error *err) {
  if (n < 1 || n > MAX_LENGTH)
    return tercel_node_fail(eval->node, err, TERCEL_INVALID_ARGUMENT, "a transform of length %lld, want 1 .. %d",
                            (long long)n, MAX_LENGTH);
  point *memory = tercel_arena_alloc_array(eval->scratch, 4 * (size_t)n, sizeof *memory);
  if (memory == NULL) return tercel_fail_memory(err, 4 * (size_t)n * sizeof *memory, "a transform");
  *t = (transform){n, single, memory, memory + n, memory + 2 * n, memory + 3 * n};
  for (int64_t k = 0; k < n; ++k) {
    const double angle = 2 * pi * (double)k / (double)n;
    t->roots[k] = (point){rounded(t, tercel_f64_cos(angle)),
                          rounded(t, inverse ? tercel_f64_sin(angle) : -tercel_f64_sin(angle))};
  }
  return TERCEL_OK;
}

static int64_t smallest_factor(int64_t n) {
  for (int64_t p = 2; p * p <= n; ++p)
    if (n % p == 0) return p;
  return n;
}

static point plus(const transform *t, point a, point b) {
  return (point){rounded(t, a.re + b.re), rounded(t, a.im + b.im)};
}

static point minus(const transform *t, point a, point b) {
  return (point){rounded(t, a.re - b.re), rounded(t, a.im - b.im)};
}

static point times(const transform *t, point a, point b) {
  return (point){rounded(t, rounded(t, a.re * b.re) - rounded(t, a.im * b.im)),
                 rounded(t, rounded(t, a.re * b.im) + rounded(t, a.im * b.re))};
}

/* Results u and p - u of p points, p odd: they share the sums and differences of points j and p - j. */
static void mirrored_pair(const transform *t, int64_t p, int64_t u, const point *in, int64_t in_step, point *low,
                          point *high) {
  point even = in[0], odd = {0, 0};
  for (int64_t j = 1; j <= p / 2; ++j) {
    const point root = t->roots[u * j % p * (t->n / p)];
    const point sum = plus(t, in[j * in_step], in[(p - j) * in_step]);
    const point difference = minus(t, in[j * in_step], in[(p - j) * in_step]);
    even = plus(t, even, (point){rounded(t, sum.re * root.re), rounded(t, sum.im * root.re)});
    odd = plus(t, odd, (point){-rounded(t, difference.im * root.im), rounded(t, difference.re * root.im)});
  }
  *low = plus(t, even, odd);
  *high = minus(t, even, odd);
}

/* The transform of p points, p prime. */
static void butterfly(const transform *t, int64_t p, const point *in, int64_t in_step, point *out, int64_t out_step) {
  if (p == 2) {
    out[0] = plus(t, in[0], in[in_step]);
    out[out_step] = minus(t, in[0], in[in_step]);
    return;
  }
  out[0] = in[0];
  for (int64_t j = 1; j <= p / 2; ++j) out[0] = plus(t, out[0], plus(t, in[j * in_step], in[(p - j) * in_step]));
  for (int64_t u = 1; u <= p / 2; ++u)
    mirrored_pair(t, p, u, in, in_step, &out[u * out_step], &out[(p - u) * out_step]);
}

/* One pass: `done` transforms of m * p points each become done * p of m points. */
static void pass(const transform *t, int64_t p, int64_t done, const point *in, point *out) {
  const int64_t m = t->n / (done * p), out_step = m * done;
  for (int64_t k = 0; k < done; ++k)
    for (int64_t i = 0; i < m; ++i) {
      point *results = out + i + m * k;
      butterfly(t, p, in + i + m * p * k, m, results, out_step);
      for (int64_t u = 1; i > 0 && u < p; ++u)
        results[u * out_step] = times(t, results[u * out_step], t->roots[u * i * done]);
    }
}

/* From in to out. */
static void run(transform *t) {
  point *from = t->in, *to = t->work;
  for (int64_t done = 1, p; done < t->n; done *= p) {
    p = smallest_factor(t->n / done);
    pass(t, p, done, from, to);
    point *const free = from == t->in ? t->out : from;
    from = to;
    to = free;
  }
  if (from != t->out) memcpy(t->out, from, (size_t)t->n * sizeof *from);
}

/* ---- dft ----------------------------------------------------------------------------------------------------------- */

static tercel_status check_float(const tercel_infer *infer, size_t i, tercel_error *err) {
  const tercel_dtype dtype = infer->in[i]->type.dtype;
  if (dtype == TERCEL_DTYPE_NONE || tercel_dtype_is_float(dtype)) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu is %s, want floats", i,
                          tercel_dtype_name(dtype));
}

/* The number in input i of one element (unknown where nothing is known of it), as far as inference sees it. */
static tercel_status infer_scalar(tercel_infer *infer, size_t i, const char *what, tercel_dim *out, tercel_error *err) {
  int64_t count = 0;
  TERCEL_TRY(tercel_infer_check_indices(infer, i, err));
  const tercel_dim *contents = tercel_infer_contents(infer, i, &count, err);
  if (contents != NULL && count != 1)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%s has %lld elements, want one", what,
                            (long long)count);
  *out = contents != NULL ? contents[0] : tercel_dim_unknown(infer->dims);
  return TERCEL_OK;
}

/* The same where a length or count is wanted. */
static tercel_status infer_positive(tercel_infer *infer, size_t i, const char *what, tercel_dim *out,
                                    tercel_error *err) {
  int64_t number;
  TERCEL_TRY(infer_scalar(infer, i, what, out, err));
  if (tercel_dim_get_number(infer->dims, *out, &number) && (number < 1 || number > MAX_LENGTH))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_ARGUMENT, "%s is %lld, want 1 .. %d", what,
                            (long long)number, MAX_LENGTH);
  return TERCEL_OK;
}

/* Real (1) or complex (2) points stand in the last dim. */
static tercel_status check_points(const tercel_node *node, const tercel_shape *x, tercel_error *err) {
  const tercel_dim parts = x->rank < 1 ? 0 : x->dims[x->rank - 1];
  if (x->rank >= 2 && (!tercel_dim_is_known(parts) || parts == 1 || parts == 2)) return TERCEL_OK;
  return tercel_node_fail(node, err, TERCEL_INVALID_MODEL,
                          "input of rank %d whose last dim is %lld, want 1 (real) or 2 (complex)", x->rank,
                          (long long)parts);
}

static tercel_dim half_of(tercel_dims *dims, tercel_dim n) {
  return tercel_dim_add(dims, tercel_dim_floor_div(dims, n, 2), 1);
}

static tercel_status dft_axis(const tercel_node *node, int64_t given, int rank, int *out, tercel_error *err) {
  TERCEL_TRY(tercel_axis(node, given, rank, out, err));
  if (*out != rank - 1) return TERCEL_OK;
  return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "axis %d holds real and imaginary parts", *out);
}

static tercel_status infer_dft(tercel_infer *infer, tercel_error *err) {
  const tercel_node *node = infer->node;
  const tercel_shape *x = &infer->in[0]->type.shape;
  infer->out[0].type.dtype = infer->in[0]->type.dtype;
  TERCEL_TRY(check_float(infer, 0, err));
  tercel_dim length = 0, given_axis = 0;
  if (tercel_has_input(infer, 1)) TERCEL_TRY(infer_positive(infer, 1, "the length", &length, err));
  if (tercel_has_input(infer, 2)) TERCEL_TRY(infer_scalar(infer, 2, "the axis", &given_axis, err));
  if (x->rank < 0) return TERCEL_OK;
  TERCEL_TRY(check_points(node, x, err));
  const bool inverse = tercel_node_int(node, "inverse") != 0, onesided = tercel_node_int(node, "onesided") != 0;
  if (onesided && !inverse && x->dims[x->rank - 1] == 2)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "the spectrum of complex points has two sides");
  int64_t number = tercel_node_int(node, "axis");
  tercel_shape out;
  TERCEL_TRY(tercel_infer_open(infer, x->rank, &out, err));
  out.dims[out.rank - 1] = inverse && onesided ? 1 : 2;
  infer->out[0].type.shape = out;
  if (tercel_has_input(infer, 2) && !tercel_dim_get_number(infer->dims, given_axis, &number)) {
    const bool keeps_length = !tercel_has_input(infer, 1) && !onesided;
    for (int d = 0; keeps_length && d < x->rank - 1; ++d) infer->out[0].type.shape.dims[d] = x->dims[d];
    return TERCEL_OK;
  }
  int axis;
  TERCEL_TRY(dft_axis(node, number, x->rank, &axis, err));
  if (!tercel_has_input(infer, 1)) {
    length = x->dims[axis];
    if (inverse && onesided) length = tercel_dim_mul(infer->dims, tercel_dim_sub(infer->dims, length, 1), 2);
  }
  for (int d = 0; d < x->rank - 1; ++d) out.dims[d] = x->dims[d];
  out.dims[axis] = onesided && !inverse ? half_of(infer->dims, length) : length;
  infer->out[0].type.shape = out;
  return tercel_infer_check_size(infer, 0, err);
}

/* One line of points: the first at `at` (in points), `step` points apart, count of them, parts 1 or 2 numbers each. */
typedef struct line {
  const double *x;
  int64_t at, step, count;
  int parts;
} line;

/* Beyond the end are zeros. */
static point point_of(const line *l, int64_t k) {
  if (k >= l->count) return (point){0, 0};
  const double *p = l->x + (l->at + k * l->step) * l->parts;
  return (point){p[0], l->parts == 2 ? p[1] : 0};
}

/* The points of one line; of one side of a spectrum (inverse) the other side is its mirrored conjugate. */
static void load(transform *t, const line *l, bool mirrored) {
  if (!mirrored) {
    for (int64_t k = 0; k < t->n; ++k) t->in[k] = point_of(l, k);
    return;
  }
  for (int64_t k = 0; k <= t->n / 2; ++k) {
    const point p = point_of(l, k);
    t->in[(t->n - k) % t->n] = (point){p.re, -p.im};
    t->in[k] = p;
    if (k == 0 || 2 * k == t->n) t->in[k].im = 0; /* these mirror themselves */
  }
}

static tercel_status eval_dft(tercel_eval *eval, tercel_error *err) {
  const tercel_node *node = eval->node;
  const tercel_tensor *x = eval->in[0], *given = tercel_input_tensor(eval->in, eval->num_inputs, 2);
  const tercel_tensor *given_length = tercel_input_tensor(eval->in, eval->num_inputs, 1);
  tercel_tensor *y = eval->out[0];
  const double *wide;
  int64_t number = tercel_node_int(node, "axis");
  int axis;
  if (given != NULL) TERCEL_TRY(tercel_eval_scalar(node, given, "the axis", &number, err));
  TERCEL_TRY(dft_axis(node, number, x->rank, &axis, err));
  TERCEL_TRY(tercel_eval_widen_f64(eval, x, &wide, err));
  const bool inverse = tercel_node_int(node, "inverse") != 0, onesided = tercel_node_int(node, "onesided") != 0;
  const bool mirrored = inverse && onesided;
  int64_t length = mirrored ? 2 * (x->dims[axis] - 1) : x->dims[axis];
  if (given_length != NULL) TERCEL_TRY(tercel_eval_scalar(node, given_length, "the length", &length, err));
  const int last = x->rank - 1, parts = (int)x->dims[last], out_parts = (int)y->dims[last];
  const int64_t outer = tercel_dims_product(x->dims, 0, axis), inner = tercel_dims_product(x->dims, axis + 1, last);
  if (outer * inner == 0 || y->dims[axis] == 0) return TERCEL_OK;
  transform t;
  TERCEL_TRY(prepare(eval, length, inverse, parts == 2 && x->dtype != TERCEL_DTYPE_F64, &t, err));
  const double scale = inverse ? rounded(&t, 1 / (double)length) : 1;
  for (int64_t row = 0; row < outer * inner; ++row) {
    const int64_t o = row / inner, i = row % inner;
    const line l = {wide, o * x->dims[axis] * inner + i, inner, x->dims[axis], parts};
    load(&t, &l, mirrored);
    run(&t);
    for (int64_t k = 0; k < y->dims[axis]; ++k) {
      const int64_t to = ((o * y->dims[axis] + k) * inner + i) * out_parts;
      tercel_tensor_set_f64(y, to, t.out[k].re * scale);
      if (out_parts == 2) tercel_tensor_set_f64(y, to + 1, t.out[k].im * scale);
    }
  }
  return TERCEL_OK;
}

/* As of a fast transform: 5 n log2 n; outputs hold two numbers a point. */
static double transform_flops(double points, double length) {
  return length > 1 ? 5 * points * tercel_f64_log(length) * 1.4426950408889634 : points;
}

static double dft_flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)node;
  const tercel_tensor *x = in[0];
  if (x->rank < 2 || out[0] == NULL) return 0;
  return transform_flops((double)tercel_tensor_num_elements(out[0]) / 2, (double)x->dims[x->rank - 2]);
}

static const tercel_attr_spec dft_attrs[] = {
    {"axis", TERCEL_ATTR_INT, false, -2, NULL, "the axis to transform, unless an input says"},
    {"inverse", TERCEL_ATTR_INT, false, 0, NULL, "1: from the spectrum, divided by the length"},
    {"onesided", TERCEL_ATTR_INT, false, 0, NULL, "1: spectra without the half that mirrors the other"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_dft = {
    .name = "dft",
    .id = TERCEL_OP_DFT,
    .min_inputs = 1,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "discrete Fourier transform along an axis",
    .attrs = dft_attrs,
    .infer = infer_dft,
    .eval = eval_dft,
    .flops = dft_flops,
};

/* ---- stft ---------------------------------------------------------------------------------------------------------- */

enum { SIGNAL, STEP, WINDOW, LENGTH };

/* The length of a frame: given, or that of the window, or that of the signal. */
static tercel_status infer_frame(tercel_infer *infer, tercel_dim *out, tercel_error *err) {
  const tercel_shape *x = &infer->in[SIGNAL]->type.shape;
  *out = x->dims[1];
  tercel_dim window = -1;
  if (tercel_has_input(infer, WINDOW)) {
    const tercel_shape *w = &infer->in[WINDOW]->type.shape;
    TERCEL_TRY(tercel_infer_check_dtype(infer, WINDOW, err));
    if (w->rank >= 0 && w->rank != 1)
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "the window has rank %d, want 1", w->rank);
    *out = window = w->rank == 1 ? w->dims[0] : tercel_dim_unknown(infer->dims);
  }
  if (!tercel_has_input(infer, LENGTH)) return TERCEL_OK;
  TERCEL_TRY(infer_positive(infer, LENGTH, "the frame's length", out, err));
  if (!tercel_dim_is_known(*out) || !tercel_dim_is_known(window) || *out == window) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_ARGUMENT, "a window of %lld for frames of %lld",
                          (long long)window, (long long)*out);
}

static tercel_status infer_stft(tercel_infer *infer, tercel_error *err) {
  const tercel_node *node = infer->node;
  const tercel_shape *x = &infer->in[SIGNAL]->type.shape;
  infer->out[0].type.dtype = infer->in[SIGNAL]->type.dtype;
  TERCEL_TRY(check_float(infer, SIGNAL, err));
  tercel_dim step, frame;
  TERCEL_TRY(infer_positive(infer, STEP, "the step", &step, err));
  if (x->rank < 0) return TERCEL_OK;
  if (x->rank != 2 && x->rank != 3)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "a signal of rank %d, want 2 or 3", x->rank);
  if (x->rank == 3) TERCEL_TRY(check_points(node, x, err));
  const bool onesided = tercel_node_int(node, "onesided") != 0;
  if (onesided && x->rank == 3 && x->dims[2] == 2)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "the spectrum of complex points has two sides");
  TERCEL_TRY(infer_frame(infer, &frame, err));
  if (tercel_dim_is_known(frame) && tercel_dim_is_known(x->dims[1]) && (frame < 1 || frame > x->dims[1]))
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "frames of %lld in a signal of %lld", (long long)frame,
                            (long long)x->dims[1]);
  tercel_dims *dims = infer->dims;
  tercel_shape *out = &infer->out[0].type.shape;
  const tercel_dim steps = tercel_dim_floor_div(dims, tercel_dim_sub(dims, x->dims[1], frame), step);
  *out = (tercel_shape){4, {x->dims[0], tercel_dim_add(dims, steps, 1), onesided ? half_of(dims, frame) : frame, 2}};
  return tercel_infer_check_size(infer, 0, err);
}

static tercel_status eval_stft(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *x = eval->in[SIGNAL], *w = tercel_input_tensor(eval->in, eval->num_inputs, WINDOW);
  const tercel_tensor *length = tercel_input_tensor(eval->in, eval->num_inputs, LENGTH);
  tercel_tensor *y = eval->out[0];
  const double *wide, *window = NULL;
  int64_t step, frame = w != NULL ? w->dims[0] : x->dims[1];
  TERCEL_TRY(tercel_eval_scalar(eval->node, eval->in[STEP], "the step", &step, err));
  if (length != NULL) TERCEL_TRY(tercel_eval_scalar(eval->node, length, "the frame's length", &frame, err));
  TERCEL_TRY(tercel_eval_widen_f64(eval, x, &wide, err));
  if (w != NULL) TERCEL_TRY(tercel_eval_widen_f64(eval, w, &window, err));
  transform t;
  TERCEL_TRY(prepare(eval, frame, false, false, &t, err));
  const int64_t frames = y->dims[1], bins = y->dims[2];
  for (int64_t row = 0; row < y->dims[0] * frames; ++row) {
    const int64_t start = row % frames * step;
    const line l = {wide, row / frames * x->dims[1] + start, 1, frame, x->rank == 3 ? (int)x->dims[2] : 1};
    load(&t, &l, false);
    for (int64_t k = 0; window != NULL && k < frame; ++k)
      t.in[k] = (point){t.in[k].re * window[k], t.in[k].im * window[k]};
    run(&t);
    for (int64_t k = 0; k < bins; ++k) {
      tercel_tensor_set_f64(y, (row * bins + k) * 2, t.out[k].re);
      tercel_tensor_set_f64(y, (row * bins + k) * 2 + 1, t.out[k].im);
    }
  }
  return TERCEL_OK;
}

static double stft_flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)node, (void)in;
  if (out[0] == NULL || out[0]->rank != 4) return 0;
  return transform_flops((double)tercel_tensor_num_elements(out[0]) / 2, (double)out[0]->dims[2]);
}

static const tercel_attr_spec stft_attrs[] = {
    {"onesided", TERCEL_ATTR_INT, false, 1, NULL, "1: spectra without the half that mirrors the other"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_stft = {
    .name = "stft",
    .id = TERCEL_OP_STFT,
    .min_inputs = 2,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "Fourier transforms of overlapping frames of a signal",
    .attrs = stft_attrs,
    .infer = infer_stft,
    .eval = eval_stft,
    .flops = stft_flops,
};

/* ---- mel_weight_matrix --------------------------------------------------------------------------------------------- */

enum { MEL_BINS, DFT_LENGTH, SAMPLE_RATE, LOW_EDGE, HIGH_EDGE };

static tercel_status infer_mel(tercel_infer *infer, tercel_error *err) {
  tercel_dim bins, length;
  TERCEL_TRY(infer_positive(infer, MEL_BINS, "the number of bands", &bins, err));
  TERCEL_TRY(infer_positive(infer, DFT_LENGTH, "the length", &length, err));
  TERCEL_TRY(tercel_infer_check_indices(infer, SAMPLE_RATE, err));
  TERCEL_TRY(check_float(infer, LOW_EDGE, err));
  TERCEL_TRY(check_float(infer, HIGH_EDGE, err));
  infer->out[0].type.dtype = tercel_node_dtype(infer->node, "dtype");
  infer->out[0].type.shape = (tercel_shape){2, {half_of(infer->dims, length), bins}};
  return tercel_infer_check_size(infer, 0, err);
}

/* HTK's scale: mel = 2595 log10(1 + hertz / 700). */
static double mel_of(double hertz) { return 2595 * tercel_f64_log1p(hertz / 700) / tercel_f64_log(10); }
static double hertz_of(double mel) { return 700 * tercel_f64_expm1(mel / 2595 * tercel_f64_log(10)); }

static tercel_status read_number(const tercel_eval *eval, size_t i, const char *what, double *out, tercel_error *err) {
  if (tercel_tensor_num_elements(eval->in[i]) != 1)
    return tercel_node_fail(eval->node, err, TERCEL_INVALID_ARGUMENT, "%s has %lld elements, want one", what,
                            (long long)tercel_tensor_num_elements(eval->in[i]));
  *out = tercel_tensor_get_f64(eval->in[i], 0);
  return TERCEL_OK;
}

/* Band b rises from edge b to edge b + 1 and falls to edge b + 2; the edges lie evenly on the mel scale. */
static tercel_status eval_mel(tercel_eval *eval, tercel_error *err) {
  tercel_tensor *y = eval->out[0];
  int64_t length;
  double rate, low, high;
  TERCEL_TRY(tercel_eval_scalar(eval->node, eval->in[DFT_LENGTH], "the length", &length, err));
  TERCEL_TRY(read_number(eval, SAMPLE_RATE, "the sample rate", &rate, err));
  TERCEL_TRY(read_number(eval, LOW_EDGE, "the lower edge", &low, err));
  TERCEL_TRY(read_number(eval, HIGH_EDGE, "the upper edge", &high, err));
  const int64_t bins = y->dims[0], bands = y->dims[1];
  int64_t *edges = tercel_arena_alloc_array(eval->scratch, (size_t)bands + 2, sizeof *edges);
  if (edges == NULL) return tercel_fail_memory(err, ((size_t)bands + 2) * sizeof *edges, "edges of bands");
  const double first = mel_of(low), step = (mel_of(high) - first) / (double)(bands + 2);
  for (int64_t b = 0; b < bands + 2; ++b) {
    const double edge = floor(((double)length + 1) * hertz_of(first + (double)b * step) / rate);
    if (!(edge >= 0 && edge < (double)bins))
      return tercel_node_fail(eval->node, err, TERCEL_INVALID_ARGUMENT,
                              "edge %lld lies at bin %g of a spectrum of %lld bins", (long long)b, edge,
                              (long long)bins);
    edges[b] = (int64_t)edge;
  }
  for (int64_t i = 0; i < bins * bands; ++i) tercel_tensor_set_f64(y, i, 0);
  for (int64_t b = 0; b < bands; ++b) {
    const int64_t left = edges[b], center = edges[b + 1], right = edges[b + 2];
    if (left == center) tercel_tensor_set_f64(y, center * bands + b, 1);
    for (int64_t j = left; left < center && j <= center; ++j)
      tercel_tensor_set_f64(y, j * bands + b, (double)(j - left) / (double)(center - left));
    for (int64_t j = center; j < right; ++j)
      tercel_tensor_set_f64(y, j * bands + b, (double)(right - j) / (double)(right - center));
  }
  return TERCEL_OK;
}

static const tercel_attr_spec mel_attrs[] = {
    {"dtype", TERCEL_ATTR_DTYPE, false, TERCEL_DTYPE_F32, NULL, "of the result"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_mel_weight_matrix = {
    .name = "mel_weight_matrix",
    .id = TERCEL_OP_MEL_WEIGHT_MATRIX,
    .min_inputs = 5,
    .max_inputs = 5,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "how much each bin of a spectrum counts in each band of the mel scale",
    .attrs = mel_attrs,
    .infer = infer_mel,
    .eval = eval_mel,
};
