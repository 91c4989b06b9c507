/* rnn: ONNX's RNN-22, GRU-22 and LSTM-22, gate order and equations as there.
 *
 * The plain recurrence stands here; which activation a gate has is read by tercel_rnn_get_spec, which the kernels use too. */
#include "ops/rnn.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "ops/epilogue.h"

/* ---- attributes ---- */

static const struct {
  const char *name;
  tercel_rnn_cell cell;
  int gates, activations;
  tercel_rnn_fn standard[3];
} cells[] = {
    {"rnn", TERCEL_RNN_CELL_RNN, 1, 1, {TERCEL_RNN_TANH}},
    {"gru", TERCEL_RNN_CELL_GRU, 3, 2, {TERCEL_RNN_SIGMOID, TERCEL_RNN_TANH}},
    {"lstm", TERCEL_RNN_CELL_LSTM, 4, 3, {TERCEL_RNN_SIGMOID, TERCEL_RNN_TANH, TERCEL_RNN_TANH}},
};

/* Activations by name, with the defaults of the numbers they take. */
static const struct {
  const char *name;
  bool has_alpha, has_beta;
  double alpha, beta;
} fns[] = {
    [TERCEL_RNN_RELU] = {"Relu", false, false, 0, 0},
    [TERCEL_RNN_TANH] = {"Tanh", false, false, 0, 0},
    [TERCEL_RNN_SIGMOID] = {"Sigmoid", false, false, 0, 0},
    [TERCEL_RNN_AFFINE] = {"Affine", true, true, 1, 0},
    [TERCEL_RNN_LEAKY_RELU] = {"LeakyRelu", true, false, 0.01, 0},
    [TERCEL_RNN_THRESHOLDED_RELU] = {"ThresholdedRelu", true, false, 1, 0},
    [TERCEL_RNN_SCALED_TANH] = {"ScaledTanh", true, true, 1, 1},
    [TERCEL_RNN_HARD_SIGMOID] = {"HardSigmoid", true, true, 0.2, 0.5},
    [TERCEL_RNN_ELU] = {"Elu", true, false, 1, 0},
    [TERCEL_RNN_SOFTSIGN] = {"Softsign", false, false, 0, 0},
    [TERCEL_RNN_SOFTPLUS] = {"Softplus", false, false, 0, 0},
};

static tercel_status fail_attr(const tercel_node *node, const char *name, const char *found, const char *want,
                               tercel_error *err) {
  return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': %s is '%s', want %s", node->op->name, node->name, name,
                     found == NULL ? "" : found, want);
}

static tercel_status read_cell(const tercel_node *node, size_t *row, tercel_rnn_spec *out, tercel_error *err) {
  const char *name = tercel_node_string(node, "cell");
  for (size_t i = 0; i < sizeof cells / sizeof *cells; ++i) {
    if (name == NULL || strcmp(name, cells[i].name) != 0) continue;
    *row = i;
    out->cell = cells[i].cell;
    out->gates = cells[i].gates;
    return TERCEL_OK;
  }
  return fail_attr(node, "cell", name, "'rnn', 'gru' or 'lstm'", err);
}

static tercel_status read_direction(const tercel_node *node, tercel_rnn_spec *out, tercel_error *err) {
  const char *name = tercel_node_string(node, "direction");
  out->directions = 1;
  if (strcmp(name, "forward") == 0) return TERCEL_OK;
  out->reverse[0] = strcmp(name, "reverse") == 0;
  if (out->reverse[0]) return TERCEL_OK;
  out->directions = 2;
  out->reverse[1] = true;
  if (strcmp(name, "bidirectional") == 0) return TERCEL_OK;
  return fail_attr(node, "direction", name, "'forward', 'reverse' or 'bidirectional'", err);
}

static tercel_status parse_fn(const tercel_node *node, const char *name, tercel_rnn_fn *out, tercel_error *err) {
  for (size_t i = 0; i < sizeof fns / sizeof *fns; ++i) {
    if (strcasecmp(name, fns[i].name) != 0) continue;
    *out = (tercel_rnn_fn)i;
    return TERCEL_OK;
  }
  return fail_attr(node, "an activation", name, "one that ONNX lists", err);
}

/* Alphas and betas are handed out in order to the activations that take one. */
static tercel_status read_activations(const tercel_node *node, size_t row, tercel_rnn_spec *out, tercel_error *err) {
  const int each = cells[row].activations, count = each * out->directions;
  const tercel_attr *names = tercel_node_attr(node, "activations");
  if (names != NULL && names->count != 0 && names->count != (size_t)count)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': %zu activations, want %d", node->op->name, node->name,
                       names->count, count);
  size_t num_alphas, num_betas, alpha = 0, beta = 0;
  const double *alphas = tercel_node_floats(node, "activation_alpha", &num_alphas);
  const double *betas = tercel_node_floats(node, "activation_beta", &num_betas);
  for (int i = 0; i < count; ++i) {
    tercel_rnn_activation *a = &out->activations[i / each][i % each];
    a->fn = cells[row].standard[i % each];
    if (names != NULL && names->count != 0) TERCEL_TRY(parse_fn(node, names->value.strings[i], &a->fn, err));
    a->alpha = fns[a->fn].has_alpha && alpha < num_alphas ? alphas[alpha++] : fns[a->fn].alpha;
    a->beta = fns[a->fn].has_beta && beta < num_betas ? betas[beta++] : fns[a->fn].beta;
  }
  return TERCEL_OK;
}

static bool is_8_bits(tercel_dtype dtype) { return dtype == TERCEL_DTYPE_I8 || dtype == TERCEL_DTYPE_U8; }

tercel_status tercel_rnn_get_spec(const tercel_node *node, tercel_rnn_spec *out, tercel_error *err) {
  memset(out, 0, sizeof *out);
  size_t row = 0;
  TERCEL_TRY(read_cell(node, &row, out, err));
  TERCEL_TRY(read_direction(node, out, err));
  TERCEL_TRY(read_activations(node, row, out, err));
  const tercel_attr *clip = tercel_node_attr(node, "clip");
  out->clip = clip != NULL && clip->value.f > 0 ? clip->value.f : INFINITY;
  out->hidden = tercel_node_int(node, "hidden_size");
  out->input_forget = tercel_node_int(node, "input_forget") != 0;
  out->linear_before_reset = tercel_node_int(node, "linear_before_reset") != 0;
  out->batch_first = tercel_node_int(node, "layout") != 0;
  const tercel_value *r = tercel_node_input(node, TERCEL_RNN_R);
  out->quantized = r != NULL && is_8_bits(r->type.dtype);
  if (out->quantized && out->cell != TERCEL_RNN_CELL_LSTM)
    return fail_attr(node, "cell", cells[row].name, "lstm for recurrent weights of 8 bits", err);
  return TERCEL_OK;
}

void tercel_rnn_get_geometry(const tercel_rnn_spec *spec, const tercel_tensor *x, const tercel_tensor *r,
                             tercel_rnn_geometry *out) {
  const int64_t d = spec->directions;
  out->steps = x->dims[spec->batch_first ? 1 : 0];
  out->batch = x->dims[spec->batch_first ? 0 : 1];
  out->input = x->dims[2];
  out->hidden = r->dims[2];
  const int64_t h = out->hidden, n = out->batch, t = out->steps;
  out->x_step = spec->batch_first ? out->input : n * out->input;
  out->x_batch = spec->batch_first ? t * out->input : out->input;
  out->y_step = spec->batch_first ? d * h : d * n * h;
  out->y_batch = spec->batch_first ? t * d * h : h;
  out->y_direction = spec->batch_first ? h : n * h;
  out->state_batch = spec->batch_first ? d * h : h;
  out->state_direction = spec->batch_first ? h : n * h;
}

/* ---- inference ---- */

static const char *const input_names[] = {"x",         "w",         "r",         "bias",      "lengths",
                                          "initial h", "initial c", "peepholes", "r's scale", "r's zero point"};

static tercel_status check_dtypes(const tercel_infer *infer, tercel_error *err) {
  const tercel_node *node = infer->node;
  const tercel_dtype x = infer->in[TERCEL_RNN_X]->type.dtype;
  if (x == TERCEL_DTYPE_NONE) return TERCEL_OK;
  if (x != TERCEL_DTYPE_F64 && x != TERCEL_DTYPE_F32 && x != TERCEL_DTYPE_F16 && x != TERCEL_DTYPE_BF16)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': input 0 is %s, want f64 f32 f16 bf16", node->op->name,
                       node->name, tercel_dtype_name(x));
  for (size_t i = TERCEL_RNN_W; i < infer->num_inputs; ++i) {
    if (infer->in[i] == NULL || infer->in[i]->type.dtype == TERCEL_DTYPE_NONE) continue;
    const tercel_dtype dtype = infer->in[i]->type.dtype;
    if (i == TERCEL_RNN_R && is_8_bits(dtype)) continue;
    const tercel_dtype want = i == TERCEL_RNN_LENGTHS  ? TERCEL_DTYPE_I32
                              : i == TERCEL_RNN_R_ZERO ? infer->in[TERCEL_RNN_R]->type.dtype
                                                       : x;
    if (dtype != want)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': %s is %s, want %s", node->op->name, node->name,
                         input_names[i], tercel_dtype_name(dtype), tercel_dtype_name(want));
  }
  return TERCEL_OK;
}

/* Recurrent weights of 8 bits come with scales and zero points, and an x of f32; others without. */
static tercel_status check_quantized(const tercel_infer *infer, const tercel_rnn_spec *spec, tercel_error *err) {
  const tercel_node *node = infer->node;
  for (size_t i = TERCEL_RNN_R_SCALE; i <= TERCEL_RNN_R_ZERO; ++i)
    if ((i < infer->num_inputs && infer->in[i] != NULL) != spec->quantized)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': %s is %s, and r is %s", node->op->name, node->name,
                         input_names[i], spec->quantized ? "absent" : "given",
                         tercel_dtype_name(infer->in[TERCEL_RNN_R]->type.dtype));
  const tercel_dtype x = infer->in[TERCEL_RNN_X]->type.dtype;
  if (spec->quantized && x != TERCEL_DTYPE_NONE && x != TERCEL_DTYPE_F32)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': x is %s, want f32 where r has 8 bits", node->op->name,
                       node->name, tercel_dtype_name(x));
  return TERCEL_OK;
}

static tercel_status check_shape(const tercel_infer *infer, size_t input, int rank, const tercel_dim *want,
                                 tercel_error *err) {
  const tercel_fact *fact = input < infer->num_inputs ? infer->in[input] : NULL;
  if (fact == NULL || fact->type.shape.rank < 0) return TERCEL_OK;
  const tercel_shape *s = &fact->type.shape;
  bool fits = s->rank == rank;
  for (int i = 0; fits && i < rank; ++i)
    fits = !tercel_dim_is_known(s->dims[i]) || !tercel_dim_is_known(want[i]) || s->dims[i] == want[i];
  if (fits) return TERCEL_OK;
  tercel_shape expected = {.rank = rank};
  memcpy(expected.dims, want, (size_t)rank * sizeof *want);
  tercel_text text = {0};
  tercel_shape_print(infer->dims, s, &text);
  tercel_text_add(&text, ", want ");
  tercel_shape_print(infer->dims, &expected, &text);
  const tercel_status status = tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': %s is %s", infer->node->op->name,
                                           infer->node->name, input_names[input], text.data ? text.data : "?");
  tercel_text_deinit(&text);
  return status;
}

/* The hidden size: the attribute, or what the recurrent weights say. */
static tercel_dim hidden_dim(tercel_infer *infer, const tercel_rnn_spec *spec) {
  if (spec->hidden > 0) return spec->hidden;
  const tercel_shape *r = &infer->in[TERCEL_RNN_R]->type.shape;
  return r->rank == 3 ? r->dims[2] : tercel_dim_unknown(infer->dims);
}

static tercel_status check_shapes(tercel_infer *infer, const tercel_rnn_spec *spec, tercel_dim n, tercel_dim h,
                                  tercel_error *err) {
  const tercel_shape *x = &infer->in[TERCEL_RNN_X]->type.shape;
  const tercel_dim d = spec->directions, gh = tercel_dim_mul(infer->dims, h, spec->gates);
  const tercel_dim input = x->dims[2];
  const tercel_dim w_want[] = {d, gh, input}, r_want[] = {d, gh, h}, rows_want[] = {d, gh}, lengths_want[] = {n};
  const tercel_dim b_want[] = {d, tercel_dim_mul(infer->dims, gh, 2)},
                   p_want[] = {d, tercel_dim_mul(infer->dims, h, 3)};
  const tercel_dim state_want[] = {spec->batch_first ? n : d, spec->batch_first ? d : n, h};
  TERCEL_TRY(check_shape(infer, TERCEL_RNN_W, 3, w_want, err));
  TERCEL_TRY(check_shape(infer, TERCEL_RNN_R, 3, r_want, err));
  TERCEL_TRY(check_shape(infer, TERCEL_RNN_R_SCALE, 2, rows_want, err));
  TERCEL_TRY(check_shape(infer, TERCEL_RNN_R_ZERO, 2, rows_want, err));
  TERCEL_TRY(check_shape(infer, TERCEL_RNN_BIAS, 2, b_want, err));
  TERCEL_TRY(check_shape(infer, TERCEL_RNN_LENGTHS, 1, lengths_want, err));
  TERCEL_TRY(check_shape(infer, TERCEL_RNN_INITIAL_H, 3, state_want, err));
  TERCEL_TRY(check_shape(infer, TERCEL_RNN_INITIAL_C, 3, state_want, err));
  return check_shape(infer, TERCEL_RNN_PEEPHOLES, 2, p_want, err);
}

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  tercel_rnn_spec spec;
  TERCEL_TRY(tercel_rnn_get_spec(infer->node, &spec, err));
  TERCEL_TRY(check_dtypes(infer, err));
  TERCEL_TRY(check_quantized(infer, &spec, err));
  const tercel_shape *x = &infer->in[TERCEL_RNN_X]->type.shape;
  for (size_t i = 0; i < infer->num_outputs; ++i) infer->out[i].type.dtype = infer->in[TERCEL_RNN_X]->type.dtype;
  if (x->rank < 0) return TERCEL_OK;
  if (x->rank != 3)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': x has rank %d, want 3", infer->node->op->name,
                       infer->node->name, x->rank);
  const tercel_dim t = x->dims[spec.batch_first ? 1 : 0], n = x->dims[spec.batch_first ? 0 : 1];
  const tercel_dim d = spec.directions, h = hidden_dim(infer, &spec);
  TERCEL_TRY(check_shapes(infer, &spec, n, h, err));
  infer->out[0].type.shape = spec.batch_first ? (tercel_shape){.rank = 4, .dims = {n, t, d, h}}
                                              : (tercel_shape){.rank = 4, .dims = {t, d, n, h}};
  for (size_t i = 1; i < infer->num_outputs; ++i)
    infer->out[i].type.shape =
        spec.batch_first ? (tercel_shape){.rank = 3, .dims = {n, d, h}} : (tercel_shape){.rank = 3, .dims = {d, n, h}};
  return TERCEL_OK;
}

/* ---- reference ---- */

typedef struct recurrence {
  const tercel_rnn_spec *spec;
  tercel_rnn_geometry g;
  const double *x, *w, *r, *bias, *initial_h, *initial_c, *peepholes; /* bias ...: NULL when absent */
  double *gates;                                                      /* [gates, hidden]: inputs of the activations */
  double *h, *h_next, *c, *reset;                                     /* [hidden] each */
  float *rounded;                                                     /* [hidden] */
} recurrence;

static double clipped(double x, double limit) { return x < -limit ? -limit : x > limit ? limit : x; }

static double activate(const tercel_rnn_activation *a, double clip, double x) {
  x = clipped(x, clip);
  switch (a->fn) {
  case TERCEL_RNN_RELU: return x < 0 ? 0 : x;
  case TERCEL_RNN_TANH: return tercel_f64_tanh(x);
  case TERCEL_RNN_SIGMOID: return 1 / (1 + tercel_f64_exp(-x));
  case TERCEL_RNN_AFFINE: return a->alpha * x + a->beta;
  case TERCEL_RNN_LEAKY_RELU: return x < 0 ? a->alpha * x : x;
  case TERCEL_RNN_THRESHOLDED_RELU: return x > a->alpha ? x : 0;
  case TERCEL_RNN_SCALED_TANH: return a->alpha * tercel_f64_tanh(a->beta * x);
  case TERCEL_RNN_HARD_SIGMOID: return fmin(fmax(a->alpha * x + a->beta, 0), 1);
  case TERCEL_RNN_ELU: return x < 0 ? a->alpha * tercel_f64_expm1(x) : x;
  case TERCEL_RNN_SOFTSIGN: return x / (1 + fabs(x));
  case TERCEL_RNN_SOFTPLUS:
    return x > 0 ? x + tercel_f64_log1p(tercel_f64_exp(-x)) : tercel_f64_log1p(tercel_f64_exp(x));
  }
  return x;
}

static double dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/* Row `gate` * hidden + j of direction d: x W^T, h R^T, and the two biases. */
static double from_input(const recurrence *s, int d, int gate, int64_t j, const double *x) {
  const int64_t row = ((int64_t)d * s->spec->gates + gate) * s->g.hidden + j;
  return dot(x, s->w + row * s->g.input, s->g.input);
}
static double from_state(const recurrence *s, int d, int gate, int64_t j, const double *h) {
  const int64_t row = ((int64_t)d * s->spec->gates + gate) * s->g.hidden + j;
  return dot(h, s->r + row * s->g.hidden, s->g.hidden);
}
static double bias_of(const recurrence *s, int d, int gate, int64_t j, bool recurrent) {
  if (s->bias == NULL) return 0;
  const int64_t gates = s->spec->gates;
  return s->bias[(((int64_t)d * 2 + recurrent) * gates + gate) * s->g.hidden + j];
}
static double whole_gate(const recurrence *s, int d, int gate, int64_t j, const double *x) {
  return from_input(s, d, gate, j, x) + from_state(s, d, gate, j, s->h) + bias_of(s, d, gate, j, false) +
         bias_of(s, d, gate, j, true);
}

static void step_rnn(recurrence *s, int d, const double *x) {
  for (int64_t j = 0; j < s->g.hidden; ++j)
    s->h_next[j] = activate(&s->spec->activations[d][0], s->spec->clip, whole_gate(s, d, 0, j, x));
}

/* Gates z, r, h. */
static void step_gru(recurrence *s, int d, const double *x) {
  const tercel_rnn_activation *f = &s->spec->activations[d][0], *g = &s->spec->activations[d][1];
  const double clip = s->spec->clip;
  double *z = s->gates, *r = s->gates + s->g.hidden;
  for (int64_t j = 0; j < s->g.hidden; ++j) {
    z[j] = activate(f, clip, whole_gate(s, d, 0, j, x));
    r[j] = activate(f, clip, whole_gate(s, d, 1, j, x));
    s->reset[j] = r[j] * s->h[j];
  }
  for (int64_t j = 0; j < s->g.hidden; ++j) {
    const double recurrent = s->spec->linear_before_reset
                                 ? r[j] * (from_state(s, d, 2, j, s->h) + bias_of(s, d, 2, j, true))
                                 : from_state(s, d, 2, j, s->reset) + bias_of(s, d, 2, j, true);
    const double candidate = activate(g, clip, from_input(s, d, 2, j, x) + bias_of(s, d, 2, j, false) + recurrent);
    s->h_next[j] = (1 - z[j]) * candidate + z[j] * s->h[j];
  }
}

/* Gates i, o, f, c; peepholes i, o, f. */
static void step_lstm(recurrence *s, int d, const double *x) {
  const tercel_rnn_activation *a = s->spec->activations[d];
  const double clip = s->spec->clip;
  const int64_t hidden = s->g.hidden;
  for (int64_t j = 0; j < hidden; ++j) {
    const double *p = s->peepholes == NULL ? NULL : s->peepholes + (int64_t)d * 3 * hidden + j;
    const double c = s->c[j];
    const double i = activate(&a[0], clip, whole_gate(s, d, 0, j, x) + (p == NULL ? 0 : p[0] * c));
    const double f = s->spec->input_forget
                         ? 1 - i
                         : activate(&a[0], clip, whole_gate(s, d, 2, j, x) + (p == NULL ? 0 : p[2 * hidden] * c));
    const double candidate = activate(&a[1], clip, whole_gate(s, d, 3, j, x));
    s->c[j] = f * c + i * candidate;
    const double o = activate(&a[0], clip, whole_gate(s, d, 1, j, x) + (p == NULL ? 0 : p[hidden] * s->c[j]));
    s->h_next[j] = o * activate(&a[2], clip, s->c[j]);
  }
}

static void start_state(const recurrence *s, const double *initial, int64_t at, double *state) {
  for (int64_t j = 0; j < s->g.hidden; ++j) state[j] = initial == NULL ? 0 : initial[at + j];
}

static void store_state(const tercel_tensor *out, int64_t at, const double *state, int64_t hidden) {
  if (out == NULL) return;
  tercel_tensor tensor = *out;
  for (int64_t j = 0; j < hidden; ++j) tercel_tensor_set_f64(&tensor, at + j, state[j]);
}

/* What 8 bits leave of one sequence's state: dynamic_quantize and back, in f32. */
static void round_to_8_bits(float *h, int64_t hidden) {
  float low = 0, high = 0;
  for (int64_t j = 0; j < hidden; ++j) {
    low = h[j] < low ? h[j] : low;
    high = h[j] > high ? h[j] : high;
  }
  const float scale = (high - low) / 255;
  if (!(scale > 0)) return;
  const float zero = rintf(fminf(fmaxf(-low / scale, 0), 255));
  for (int64_t j = 0; j < hidden; ++j) h[j] = (fminf(fmaxf(rintf(h[j] / scale) + zero, 0), 255) - zero) * scale;
}

static void round_state(const recurrence *s) {
  for (int64_t j = 0; j < s->g.hidden; ++j) s->rounded[j] = (float)s->h[j];
  round_to_8_bits(s->rounded, s->g.hidden);
  for (int64_t j = 0; j < s->g.hidden; ++j) s->h[j] = (double)s->rounded[j];
}

/* One sequence in one direction: `length` steps of it count, y is 0 for the rest. */
static void run_sequence(recurrence *s, int d, int64_t n, int64_t length, tercel_tensor *const *out, size_t num_out) {
  static void (*const steps[])(recurrence *, int, const double *) = {
      [TERCEL_RNN_CELL_RNN] = step_rnn, [TERCEL_RNN_CELL_GRU] = step_gru, [TERCEL_RNN_CELL_LSTM] = step_lstm};
  const tercel_rnn_geometry *g = &s->g;
  const int64_t state_at = d * g->state_direction + n * g->state_batch;
  start_state(s, s->initial_h, state_at, s->h);
  start_state(s, s->initial_c, state_at, s->c);
  for (int64_t k = 0; k < length; ++k) {
    const int64_t t = s->spec->reverse[d] ? length - 1 - k : k;
    if (s->spec->quantized) round_state(s);
    steps[s->spec->cell](s, d, s->x + t * g->x_step + n * g->x_batch);
    double *old = s->h;
    s->h = s->h_next;
    s->h_next = old;
    store_state(out[0], t * g->y_step + n * g->y_batch + d * g->y_direction, s->h, g->hidden);
  }
  memset(s->h_next, 0, (size_t)g->hidden * sizeof *s->h_next);
  for (int64_t t = length; t < g->steps; ++t)
    store_state(out[0], t * g->y_step + n * g->y_batch + d * g->y_direction, s->h_next, g->hidden);
  if (num_out > 1) store_state(out[1], state_at, s->h, g->hidden);
  if (num_out > 2) store_state(out[2], state_at, s->c, g->hidden);
}

static tercel_status widen(tercel_eval *eval, size_t input, const double **out, tercel_error *err) {
  *out = NULL;
  if (input >= eval->num_inputs || eval->in[input] == NULL) return TERCEL_OK;
  return tercel_eval_widen_f64(eval, eval->in[input], out, err);
}

tercel_status tercel_rnn_check_lengths(const tercel_node *node, const tercel_tensor *lengths, int64_t steps,
                                       tercel_error *err) {
  if (lengths == NULL) return TERCEL_OK;
  for (int64_t n = 0; n < tercel_tensor_num_elements(lengths); ++n) {
    const int64_t length = tercel_tensor_get_i64(lengths, n);
    if (length < 0 || length > steps)
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%s '%s': length %lld of sequence %lld, want 0 .. %lld",
                         node->op->name, node->name, (long long)length, (long long)n, (long long)steps);
  }
  return TERCEL_OK;
}

/* r, less its zero points and times its scales where it has 8 bits. */
static tercel_status widen_recurrent(tercel_eval *eval, const tercel_rnn_spec *spec, const double **out,
                                     tercel_error *err) {
  const tercel_tensor *r = eval->in[TERCEL_RNN_R];
  if (!spec->quantized) return tercel_eval_widen_f64(eval, r, out, err);
  const int64_t count = tercel_tensor_num_elements(r), hidden = tercel_max_i64(r->dims[2], 1);
  double *wide = tercel_arena_alloc_array(eval->scratch, (size_t)count, sizeof *wide);
  if (wide == NULL) return tercel_fail_memory(err, (size_t)count * sizeof *wide, "widened weights");
  for (int64_t i = 0; i < count; ++i)
    wide[i] = (double)(tercel_tensor_get_i64(r, i) - tercel_tensor_get_i64(eval->in[TERCEL_RNN_R_ZERO], i / hidden)) *
              tercel_tensor_get_f64(eval->in[TERCEL_RNN_R_SCALE], i / hidden);
  *out = wide;
  return TERCEL_OK;
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  tercel_rnn_spec spec;
  TERCEL_TRY(tercel_rnn_get_spec(eval->node, &spec, err));
  recurrence s = {.spec = &spec};
  tercel_rnn_get_geometry(&spec, eval->in[TERCEL_RNN_X], eval->in[TERCEL_RNN_R], &s.g);
  TERCEL_TRY(widen(eval, TERCEL_RNN_X, &s.x, err));
  TERCEL_TRY(widen(eval, TERCEL_RNN_W, &s.w, err));
  TERCEL_TRY(widen_recurrent(eval, &spec, &s.r, err));
  TERCEL_TRY(widen(eval, TERCEL_RNN_BIAS, &s.bias, err));
  TERCEL_TRY(widen(eval, TERCEL_RNN_INITIAL_H, &s.initial_h, err));
  TERCEL_TRY(widen(eval, TERCEL_RNN_INITIAL_C, &s.initial_c, err));
  TERCEL_TRY(widen(eval, TERCEL_RNN_PEEPHOLES, &s.peepholes, err));
  const size_t hidden = (size_t)s.g.hidden;
  double *scratch = tercel_arena_alloc_array(eval->scratch, hidden, 9 * sizeof *scratch);
  if (scratch == NULL) return tercel_fail_memory(err, hidden * 9 * sizeof *scratch, "the state of a recurrent network");
  s.gates = scratch;
  s.h = scratch + 4 * hidden;
  s.h_next = scratch + 5 * hidden;
  s.c = scratch + 6 * hidden;
  s.reset = scratch + 7 * hidden;
  s.rounded = (float *)(scratch + 8 * hidden);
  const tercel_tensor *lengths = eval->num_inputs > TERCEL_RNN_LENGTHS ? eval->in[TERCEL_RNN_LENGTHS] : NULL;
  TERCEL_TRY(tercel_rnn_check_lengths(eval->node, lengths, s.g.steps, err));
  for (int d = 0; d < spec.directions; ++d)
    for (int64_t n = 0; n < s.g.batch; ++n)
      run_sequence(&s, d, n, lengths == NULL ? s.g.steps : tercel_tensor_get_i64(lengths, n), eval->out,
                   eval->num_outputs);
  return TERCEL_OK;
}

static double flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)node;
  (void)out;
  const tercel_tensor *x = in[TERCEL_RNN_X], *w = in[TERCEL_RNN_W], *r = in[TERCEL_RNN_R];
  const double weights = (double)tercel_tensor_num_elements(w) + (double)tercel_tensor_num_elements(r);
  return 2 * weights * (double)x->dims[0] * (double)x->dims[1];
}

/* clang-format off */
static const tercel_attr_spec attrs[] = {
    {"cell",                TERCEL_ATTR_STRING, .required = true, .about = "rnn, gru or lstm"},
    {"hidden_size",         TERCEL_ATTR_INT, .about = "size of the state; 0: that of the recurrent weights"},
    {"direction",           TERCEL_ATTR_STRING, .text = "forward", .about = "forward, reverse or bidirectional"},
    {"activations",         TERCEL_ATTR_STRINGS, .about = "rnn 1, gru 2, lstm 3 a direction; absent: sigmoid and tanh"},
    {"activation_alpha",    TERCEL_ATTR_FLOATS, .about = "for the activations that take one, in order"},
    {"activation_beta",     TERCEL_ATTR_FLOATS, .about = "for the activations that take one, in order"},
    {"clip",                TERCEL_ATTR_FLOAT, .about = "bound of the activations' inputs; 0 or absent: none"},
    {"input_forget",        TERCEL_ATTR_INT, .about = "lstm: the forget gate is 1 - input gate"},
    {"linear_before_reset", TERCEL_ATTR_INT, .about = "gru: the reset gate scales h R^T + bias, not h"},
    {"layout",              TERCEL_ATTR_INT, .about = "1: the batch stands first in x, y and the states"},
    {0}};
/* clang-format on */

const tercel_op tercel_op_rnn = {.name = "rnn",
                                 .id = TERCEL_OP_RNN,
                                 .min_inputs = 3,
                                 .max_inputs = TERCEL_RNN_NUM_INPUTS,
                                 .min_outputs = 1,
                                 .max_outputs = 3,
                                 .about = "recurrent network over a sequence: RNN, GRU or LSTM",
                                 .attrs = attrs,
                                 .infer = infer,
                                 .eval = eval,
                                 .flops = flops};
