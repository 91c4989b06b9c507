/* conv and conv_transpose: grouped, any number of spatial dims, with bias and epilogue. */
#include <string.h>

#include "ops/linear.h"

enum { X, W, BIAS, FIRST_EXTRA };

static bool is_transposed(const tercel_node *node) { return node->op->id == TERCEL_OP_CONV_TRANSPOSE; }

static tercel_status check_dtypes(const tercel_infer *infer, tercel_error *err) {
  const tercel_node *node = infer->node;
  const tercel_dtype want = infer->in[X]->type.dtype;
  for (size_t i = X; i <= BIAS && i < infer->num_inputs; ++i) {
    if (infer->in[i] == NULL || infer->in[i]->type.dtype == TERCEL_DTYPE_NONE) continue;
    const tercel_dtype dtype = infer->in[i]->type.dtype;
    if (dtype != TERCEL_DTYPE_F64 && dtype != TERCEL_DTYPE_F32 && dtype != TERCEL_DTYPE_F16 &&
        dtype != TERCEL_DTYPE_BF16 && dtype != TERCEL_DTYPE_I32)
      return tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': input %zu is %s, want f64 f32 f16 bf16 i32", node->op->name,
                         node->name, i, tercel_dtype_name(dtype));
    if (want != TERCEL_DTYPE_NONE && dtype != want)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': input %zu is %s, input 0 is %s", node->op->name,
                         node->name, i, tercel_dtype_name(dtype), tercel_dtype_name(want));
  }
  return TERCEL_OK;
}

static tercel_status fail_channels(const tercel_node *node, const char *what, tercel_dim found, tercel_dim want,
                                   tercel_error *err) {
  return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': %s is %lld, want %lld", node->op->name, node->name, what,
                     (long long)found, (long long)want);
}

/* Whether the channels of x and w agree with each other and with group; *out_channels for the result. */
static tercel_status infer_channels(tercel_infer *infer, tercel_dim *out_channels, tercel_error *err) {
  const tercel_node *node = infer->node;
  const tercel_dim *x = infer->in[X]->type.shape.dims, *w = infer->in[W]->type.shape.dims;
  const int64_t group = tercel_node_int(node, "group");
  const tercel_dim in_channels = is_transposed(node) ? w[0] : tercel_dim_mul(infer->dims, w[1], group);
  *out_channels = is_transposed(node) ? tercel_dim_mul(infer->dims, w[1], group) : w[0];
  const tercel_dim channels = x[tercel_channel_dim(tercel_node_layout(node), infer->in[X]->type.shape.rank)];
  if (tercel_dim_is_known(channels) && tercel_dim_is_known(in_channels) && channels != in_channels)
    return fail_channels(node, "the input's number of channels", channels, in_channels, err);
  if (tercel_dim_is_known(w[0]) && w[0] % group != 0)
    return fail_channels(node, "the rest of weight dim 0 divided by group", w[0] % group, 0, err);
  return TERCEL_OK;
}

static tercel_status check_bias(const tercel_infer *infer, const tercel_shape *result, tercel_error *err) {
  const tercel_node *node = infer->node;
  const tercel_fact *bias = infer->num_inputs > BIAS ? infer->in[BIAS] : NULL;
  if (bias == NULL || bias->type.shape.rank < 0 || result->rank < 0) return TERCEL_OK;
  if (bias->type.shape.rank != 1) return fail_channels(node, "the bias's rank", bias->type.shape.rank, 1, err);
  const tercel_dim length = bias->type.shape.dims[0];
  const tercel_dim out_channels = result->dims[tercel_channel_dim(tercel_node_layout(node), result->rank)];
  if (tercel_dim_is_known(length) && tercel_dim_is_known(out_channels) && length != out_channels)
    return fail_channels(node, "the bias's length", length, out_channels, err);
  return TERCEL_OK;
}

tercel_status tercel_infer_conv_shape(tercel_infer *infer, tercel_shape *out, tercel_error *err) {
  const tercel_node *node = infer->node;
  const int64_t group = tercel_node_int(node, "group");
  TERCEL_TRY(tercel_check_layout(node, err));
  if (group < 1 || group > INT32_MAX) return fail_channels(node, "group", group, 1, err);
  const tercel_shape *x = &infer->in[X]->type.shape, *w = &infer->in[W]->type.shape;
  if (x->rank >= 0 && x->rank < 3) return fail_channels(node, "the input's rank", x->rank, 3, err);
  if (w->rank >= 0 && w->rank < 3) return fail_channels(node, "the weight's rank", w->rank, 3, err);
  if (x->rank < 0 || w->rank < 0) return TERCEL_OK;
  if (x->rank != w->rank) return fail_channels(node, "the weight's rank", w->rank, x->rank, err);
  out->rank = x->rank;
  out->dims[0] = x->dims[0];
  const tercel_layout layout = tercel_node_layout(node);
  const int first = tercel_first_spatial_dim(layout);
  TERCEL_TRY(infer_channels(infer, &out->dims[tercel_channel_dim(layout, x->rank)], err));
  return (is_transposed(node) ? tercel_infer_conv_transpose_windows : tercel_infer_windows)(
      infer, x->rank - 2, x->dims + first, w->dims + 2, out->dims + first, err);
}

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  TERCEL_TRY(check_dtypes(infer, err));
  tercel_type *type = &infer->out[0].type;
  type->dtype = infer->in[X]->type.dtype;
  TERCEL_TRY(tercel_infer_conv_shape(infer, &type->shape, err));
  TERCEL_TRY(check_bias(infer, &type->shape, err));
  return tercel_infer_epilogue(infer, FIRST_EXTRA, type, err);
}

/* ---- geometry ---- */

tercel_status tercel_conv_get_geometry(const tercel_node *node, const tercel_tensor *x, const tercel_tensor *w,
                                       tercel_conv_geometry *out, tercel_error *err) {
  memset(out, 0, sizeof *out);
  out->layout = tercel_node_layout(node);
  out->batch = x->dims[0];
  out->group = tercel_node_int(node, "group");
  out->in_channels = x->dims[tercel_channel_dim(out->layout, x->rank)];
  out->out_channels = is_transposed(node) ? w->dims[1] * out->group : w->dims[0];
  out->spatial = x->rank - 2;
  TERCEL_TRY((is_transposed(node) ? tercel_conv_transpose_windows : tercel_windows)(
      node, out->spatial, x->dims + tercel_first_spatial_dim(out->layout), w->dims + 2, out->windows, err));
  out->in_size = out->out_size = out->kernel_size = 1;
  for (int i = 0; i < out->spatial; ++i) {
    out->in_size *= out->windows[i].input;
    out->out_size *= out->windows[i].output;
    out->kernel_size *= out->windows[i].kernel;
  }
  return TERCEL_OK;
}

/* ---- reference ---- */

/* Where the kernel's element `tap` lands in the input, for the output element `at` (flat indices): -1 in the padding. */
static int64_t input_of(const tercel_conv_geometry *g, int64_t at, int64_t tap) {
  int64_t index = 0, stride = 1;
  for (int d = g->spatial - 1; d >= 0; --d) {
    const tercel_window *w = &g->windows[d];
    const int64_t i = at % w->output * w->stride + tap % w->kernel * w->dilation - w->pad_begin;
    if (i < 0 || i >= w->input) return -1;
    index += i * stride;
    stride *= w->input;
    at /= w->output;
    tap /= w->kernel;
  }
  return index;
}

/* The transposed case: which input element sends its product with `tap` to output element `at`: -1 for none. */
static int64_t sender_of(const tercel_conv_geometry *g, int64_t at, int64_t tap) {
  int64_t index = 0, stride = 1;
  for (int d = g->spatial - 1; d >= 0; --d) {
    const tercel_window *w = &g->windows[d];
    const int64_t moved = at % w->output + w->pad_begin - tap % w->kernel * w->dilation;
    if (moved < 0 || moved % w->stride != 0 || moved / w->stride >= w->input) return -1;
    index += moved / w->stride * stride;
    stride *= w->input;
    at /= w->output;
    tap /= w->kernel;
  }
  return index;
}

/* For each output element and tap: the input element it meets, or -1.  The same for every channel. */
static tercel_status make_table(tercel_eval *eval, const tercel_conv_geometry *g, int64_t **out, tercel_error *err) {
  size_t count = 0;
  if (!tercel_mul_size((size_t)g->out_size, (size_t)g->kernel_size, &count))
    return tercel_fail_memory(err, SIZE_MAX, "a table of taps");
  int64_t *table = tercel_arena_alloc_array(eval->scratch, count, sizeof *table);
  if (table == NULL) return tercel_fail_memory(err, count * sizeof *table, "a table of taps");
  const bool transposed = is_transposed(eval->node);
  for (int64_t at = 0; at < g->out_size; ++at)
    for (int64_t tap = 0; tap < g->kernel_size; ++tap)
      table[at * g->kernel_size + tap] = (transposed ? sender_of : input_of)(g, at, tap);
  *out = table;
  return TERCEL_OK;
}

/* Operands widened: doubles of floats, or i64 of integers; bias NULL: none. */
typedef struct operands {
  const double *x, *w, *bias;
  const int64_t *whole_x, *whole_w, *whole_bias;
} operands;

static tercel_status widen(tercel_eval *eval, operands *out, tercel_error *err) {
  const tercel_tensor *bias = eval->num_inputs > BIAS ? eval->in[BIAS] : NULL;
  *out = (operands){0};
  if (tercel_dtype_is_float(eval->in[X]->dtype)) {
    TERCEL_TRY(tercel_eval_widen_f64(eval, eval->in[X], &out->x, err));
    TERCEL_TRY(tercel_eval_widen_f64(eval, eval->in[W], &out->w, err));
    return bias == NULL ? TERCEL_OK : tercel_eval_widen_f64(eval, bias, &out->bias, err);
  }
  TERCEL_TRY(tercel_eval_widen_i64(eval, eval->in[X], &out->whole_x, err));
  TERCEL_TRY(tercel_eval_widen_i64(eval, eval->in[W], &out->whole_w, err));
  return bias == NULL ? TERCEL_OK : tercel_eval_widen_i64(eval, bias, &out->whole_bias, err);
}

/* What one element of the result sums over: x[x_at + c x_step + table[tap] tap_step] w[w_at + c w_step + tap]. */
typedef struct sum {
  const int64_t *table;
  int64_t taps, channels, x_at, x_step, tap_step, w_at, w_step;
} sum;

static double sum_reals(const sum *s, const operands *o) {
  double result = 0;
  for (int64_t tap = 0; tap < s->taps; ++tap) {
    const int64_t from = s->table[tap];
    if (from < 0) continue;
    for (int64_t c = 0; c < s->channels; ++c)
      result += o->x[s->x_at + c * s->x_step + from * s->tap_step] * o->w[s->w_at + c * s->w_step + tap];
  }
  return result;
}

/* Modulo 2^64, so that integers wrap. */
static uint64_t sum_wholes(const sum *s, const operands *o) {
  uint64_t result = 0;
  for (int64_t tap = 0; tap < s->taps; ++tap) {
    const int64_t from = s->table[tap];
    if (from < 0) continue;
    for (int64_t c = 0; c < s->channels; ++c)
      result += (uint64_t)o->whole_x[s->x_at + c * s->x_step + from * s->tap_step] *
                (uint64_t)o->whole_w[s->w_at + c * s->w_step + tap];
  }
  return result;
}

static void store(tercel_eval_epilogue *epilogue, int64_t index, const sum *s, const operands *o, int64_t m) {
  if (o->whole_x != NULL)
    tercel_eval_epilogue_store_i64(
        epilogue, index, (int64_t)(sum_wholes(s, o) + (o->whole_bias == NULL ? 0 : (uint64_t)o->whole_bias[m])));
  else
    tercel_eval_epilogue_store_f64(epilogue, index, sum_reals(s, o) + (o->bias == NULL ? 0 : o->bias[m]));
}

static tercel_status sum_all(tercel_eval *eval, const operands *o, tercel_eval_epilogue *epilogue, tercel_error *err) {
  tercel_conv_geometry g;
  TERCEL_TRY(tercel_conv_get_geometry(eval->node, eval->in[X], eval->in[W], &g, err));
  int64_t *table = NULL;
  TERCEL_TRY(make_table(eval, &g, &table, err));

  const bool transposed = is_transposed(eval->node);
  const int64_t ic = g.in_channels / g.group, oc = g.out_channels / g.group; /* of one group */
  /* Weight of input channel i, output channel o: conv [group oc + o, i, tap], transposed [group ic + i, o, tap]. */
  const int64_t w_in = transposed ? oc * g.kernel_size : g.kernel_size;
  const int64_t w_out = transposed ? g.kernel_size : ic * g.kernel_size;
  const bool last = g.layout == TERCEL_LAYOUT_NHWC; /* channels */
  for (int64_t n = 0; n < g.batch; ++n) {
    for (int64_t m = 0; m < g.out_channels; ++m) {
      const int64_t group = m / oc, first = group * ic;
      sum s = {.taps = g.kernel_size,
               .channels = ic,
               .x_at = n * g.in_channels * g.in_size + first * (last ? 1 : g.in_size),
               .x_step = last ? 1 : g.in_size,
               .tap_step = last ? g.in_channels : 1,
               .w_at = first * oc * g.kernel_size + m % oc * w_out,
               .w_step = w_in};
      for (int64_t at = 0; at < g.out_size; ++at) {
        const int64_t row = last ? n * g.out_size + at : n * g.out_channels + m;
        s.table = table + at * g.kernel_size;
        store(epilogue, last ? row * g.out_channels + m : row * g.out_size + at, &s, o, m);
      }
    }
  }
  return TERCEL_OK;
}

tercel_status tercel_conv_sum_i64(tercel_eval *eval, const int64_t *x, const int64_t *w, tercel_eval_epilogue *epilogue,
                                  tercel_error *err) {
  return sum_all(eval, &(operands){.whole_x = x, .whole_w = w}, epilogue, err);
}

/* Sums in double, rounded once to the operands' dtype (integers wrap), then the epilogue. */
static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  tercel_eval_epilogue epilogue;
  operands o;
  TERCEL_TRY(tercel_eval_epilogue_start(eval, FIRST_EXTRA, eval->in[X]->dtype, &epilogue, err));
  TERCEL_TRY(widen(eval, &o, err));
  return sum_all(eval, &o, &epilogue, err);
}

double tercel_conv_flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  const tercel_tensor *moving = is_transposed(node) ? in[X] : out[0]; /* each of its elements meets every tap */
  const tercel_tensor *w = in[W];
  const int64_t group = tercel_node_int(node, "group");
  double per_element = 2.0 * (double)w->dims[1];
  for (int d = 2; d < w->rank; ++d) per_element *= (double)w->dims[d];
  return group < 1 ? 0 : per_element * (double)tercel_tensor_num_elements(moving);
}

/* clang-format off */
static const tercel_attr_spec conv_attrs[] = {
    {"group",     TERCEL_ATTR_INT, .number = 1, .about = "independent blocks of channels"},
    {"strides",   TERCEL_ATTR_INTS, .about = "step of the window, one a spatial dim; absent: 1"},
    {"dilations", TERCEL_ATTR_INTS, .about = "distance of the kernel's elements; absent: 1"},
    {"pads",      TERCEL_ATTR_INTS, .about = "zeros before each spatial dim, then after each; absent: 0"},
    {"auto_pad",  TERCEL_ATTR_STRING, .text = "", .about = "same_upper, same_lower, valid; empty: use pads"},
    {"layout",    TERCEL_ATTR_STRING, .text = "nchw", .about = "of input and result: nchw, nhwc (channels last)"},
    {"epilogue",  TERCEL_ATTR_PROGRAM, .about = "applied to each element of the result"},
    {0}};

static const tercel_attr_spec conv_transpose_attrs[] = {
    {"group",          TERCEL_ATTR_INT, .number = 1, .about = "independent blocks of channels"},
    {"strides",        TERCEL_ATTR_INTS, .about = "step of the window in the output; absent: 1"},
    {"dilations",      TERCEL_ATTR_INTS, .about = "distance of the kernel's elements; absent: 1"},
    {"pads",           TERCEL_ATTR_INTS, .about = "cut from each spatial dim's begin, then from each end; absent: 0"},
    {"output_padding", TERCEL_ATTR_INTS, .about = "added to the end of each output dim; absent: 0"},
    {"output_shape",   TERCEL_ATTR_INTS, .about = "spatial dims of the output; pads follow from it"},
    {"auto_pad",       TERCEL_ATTR_STRING, .text = "", .about = "same_upper, same_lower, valid; empty: use pads"},
    {"epilogue",       TERCEL_ATTR_PROGRAM, .about = "applied to each element of the result"},
    {0}};
/* clang-format on */

const tercel_op tercel_op_conv = {.name = "conv",
                                  .id = TERCEL_OP_CONV,
                                  .min_inputs = 2,
                                  .max_inputs = FIRST_EXTRA + TERCEL_PROGRAM_MAX_INPUTS - 1,
                                  .min_outputs = 1,
                                  .max_outputs = 1,
                                  .about = "convolution, with bias and epilogue",
                                  .attrs = conv_attrs,
                                  .infer = infer,
                                  .eval = eval,
                                  .flops = tercel_conv_flops};

const tercel_op tercel_op_conv_transpose = {.name = "conv_transpose",
                                            .id = TERCEL_OP_CONV_TRANSPOSE,
                                            .min_inputs = 2,
                                            .max_inputs = FIRST_EXTRA + TERCEL_PROGRAM_MAX_INPUTS - 1,
                                            .min_outputs = 1,
                                            .max_outputs = 1,
                                            .about = "transposed convolution, with bias and epilogue",
                                            .attrs = conv_transpose_attrs,
                                            .infer = infer,
                                            .eval = eval,
                                            .flops = tercel_conv_flops};
