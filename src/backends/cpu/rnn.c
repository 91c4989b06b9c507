/* rnn, f32, and lstm with recurrent weights of 8 bits: one product for what all steps take from x, then step by step the product with the state and the cell.
 *
 *     gates[d][row of x][G H] = x W^T + biases         both directions and all steps at once
 *     for each step: gates += h R^T (gru: a product of its own), then the cell makes the next h and c
 *
 * Where R has 8 bits, h is quantized before each step, and the product is one of integers (gemm8.h), scaled when it joins the gates.
 *
 * Sequences of the same length go together as the rows of the product; with given lengths each goes alone.  The two directions of a
 * bidirectional node run beside each other when there are threads for it. */
#include <stdio.h>
#include <string.h>

#include "backends/cpu/gemm_packer.h"
#include "backends/cpu/kernels/quantize.h"
#include "backends/cpu/kernels/rnn.h"

/* Weights made ready, for each direction: W^T in panels; R^T in panels, as one product or (gru that resets before the product) as gates z, r
 * and the candidate; biases. */
typedef struct weights_layout {
  int64_t input, hidden, gates; /* gates: rows of W, G * H */
  int64_t first;                /* columns of the first recurrent product; the second, if any, has the rest */
  int64_t w_at, r_at, second_at, bias_at, r_bias_at, floats; /* of one direction, in floats */
  int64_t sums_at, scale_at,
      zero_at; /* of an R of 8 bits, whose panels stand at r_at: columns' sums, scales, zero points (bytes) */
} weights_layout;

typedef struct state {
  const tercel_gemm_kernels *gemm;
  const tercel_gemm8_kernels *gemm8;
  const tercel_quantize_kernels *quantize;
  const tercel_rnn_kernels *cells;
  tercel_rnn_spec spec;
  tercel_dtype r_dtype;
  const float *weights; /* NULL: not constant, made ready in each run */
} state;

typedef struct binding {
  tercel_rnn_geometry g;
  weights_layout layout;
  int64_t together; /* sequences that go together */
  tercel_gemm_plan from_x, first, second;
  tercel_gemm8_plan quantized; /* instead of first, where R has 8 bits */
  /* Where things stand in the workspace.  Each direction has its own `direction_bytes` with state, c, reset, recurrent, and the
   * workspace of its products. */
  size_t weights_at, gates_at, directions_at, direction_bytes;
  size_t h_at, c_at, reset_at, recurrent_at, product_at;
  size_t bytes_at, byte_scales_at, byte_zeros_at; /* the state in 8 bits: one row, scale and zero point a sequence */
} binding;

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  for (size_t i = 0; i < TERCEL_RNN_NUM_INPUTS; ++i) {
    const tercel_value *value = tercel_node_input(node, i);
    const bool free = i == TERCEL_RNN_LENGTHS || i == TERCEL_RNN_R || i == TERCEL_RNN_R_ZERO; /* checked by inference */
    if (!free && value != NULL && value->type.dtype != TERCEL_DTYPE_F32) return false;
  }
  return true;
}

/* ---- weights ---- */

static int64_t whole_lines(int64_t floats) { return (floats + 15) / 16 * 16; }

/* What a layout depends on besides the node: columns of a panel of either kind, and elements of k side by side in 8 bits. */
typedef struct panel_widths {
  int plain, bytes, group;
} panel_widths;

static panel_widths current_widths(const tercel_target *target) {
  const tercel_gemm8_kernels *gemm8 = TERCEL_CPU_PICK_VNNI(tercel_gemm8_kernels);
  return (panel_widths){TERCEL_CPU_PICK_FOR(target, tercel_gemm_kernels)->nr, gemm8->nr, gemm8->group};
}

static int64_t fill_up(int64_t size, int unit) { return tercel_ceil_div(size, unit) * unit; }

static weights_layout lay_out(const tercel_rnn_spec *spec, panel_widths width, int64_t input, int64_t hidden) {
  const bool split = spec->cell == TERCEL_RNN_CELL_GRU && !spec->linear_before_reset;
  weights_layout l = {.input = input, .hidden = hidden, .gates = spec->gates * hidden};
  l.first = split ? 2 * hidden : l.gates;
  l.r_at = whole_lines(fill_up(l.gates, width.plain) * input);
  if (spec->quantized) {
    l.sums_at = l.r_at + whole_lines(fill_up(l.gates, width.bytes) * fill_up(hidden, width.group) / 4);
    l.scale_at = l.sums_at + whole_lines(fill_up(l.gates, width.bytes));
    l.zero_at = l.scale_at + whole_lines(l.gates);
    l.second_at = l.zero_at + whole_lines(tercel_ceil_div(l.gates, 4));
  } else {
    l.second_at = l.r_at + fill_up(l.first, width.plain) * hidden;
  }
  l.bias_at = l.second_at + fill_up(l.gates - l.first, width.plain) * hidden;
  l.r_bias_at = l.bias_at + l.gates;
  l.floats = whole_lines(l.r_bias_at + l.gates);
  return l;
}

/* The recurrent bias goes with the input's, but where a gru scales it by the reset gate. */
static void add_biases(const tercel_rnn_spec *spec, const weights_layout *l, const float *bias, float *out) {
  float *both = out + l->bias_at, *recurrent = out + l->r_bias_at;
  for (int64_t j = 0; j < l->gates; ++j) {
    const float w = bias == NULL ? 0 : bias[j], r = bias == NULL ? 0 : bias[l->gates + j];
    const bool apart = spec->cell == TERCEL_RNN_CELL_GRU && spec->linear_before_reset && j >= 2 * l->hidden;
    both[j] = apart ? w : w + r;
    recurrent[j] = apart ? r : 0;
  }
}

/* Operands as they lie: w [D, G H, I], r [D, G H, H], bias [D, 2 G H] or NULL; of an r of 8 bits its scales and zero points [D, G H]. */
typedef struct plain_weights {
  const float *w, *bias, *r_scale;
  const void *r;
  const uint8_t *r_zero;
} plain_weights;

static tercel_gemm8_packed packed_recurrent(const weights_layout *l, float *weights) {
  return (tercel_gemm8_packed){weights + l->r_at, (uint32_t *)(void *)(weights + l->sums_at)};
}

static void make_recurrent(const state *s, const weights_layout *l, const plain_weights *from, int64_t d, float *out) {
  const int64_t at = d * l->gates * l->hidden;
  if (s->spec.quantized) {
    const tercel_gemm8_packed to = packed_recurrent(l, out);
    tercel_gemm8_pack_b(s->gemm8, l->hidden, l->gates, (const uint8_t *)from->r + at, 1, l->hidden,
                        tercel_gemm8_flip(s->r_dtype, true), &to);
    memcpy(out + l->scale_at, from->r_scale + d * l->gates, (size_t)l->gates * sizeof(float));
    memcpy(out + l->zero_at, from->r_zero + d * l->gates, (size_t)l->gates);
    return;
  }
  const float *r = (const float *)from->r + at;
  s->gemm->pack_b(l->hidden, l->first, r, 1, l->hidden, out + l->r_at);
  s->gemm->pack_b(l->hidden, l->gates - l->first, r + l->first * l->hidden, 1, l->hidden, out + l->second_at);
}

/* out: D * l->floats */
static void make_weights(const state *s, const weights_layout *l, const plain_weights *from, float *out) {
  for (int d = 0; d < s->spec.directions; ++d, out += l->floats) {
    s->gemm->pack_b(l->input, l->gates, from->w + d * l->gates * l->input, 1, l->input, out + l->w_at);
    make_recurrent(s, l, from, d, out);
    add_biases(&s->spec, l, from->bias == NULL ? NULL : from->bias + 2 * d * l->gates, out);
  }
}

/* Inputs that make_weights reads. */
static const size_t weight_inputs[] = {TERCEL_RNN_W, TERCEL_RNN_R, TERCEL_RNN_BIAS, TERCEL_RNN_R_SCALE,
                                       TERCEL_RNN_R_ZERO};

static bool are_constant(const tercel_node *node) {
  for (size_t i = 0; i < sizeof weight_inputs / sizeof *weight_inputs; ++i) {
    const tercel_value *value = tercel_node_input(node, weight_inputs[i]);
    if (value != NULL && value->constant == NULL) return false;
  }
  return true;
}

static const void *constant_of(const tercel_node *node, size_t input) {
  const tercel_value *value = tercel_node_input(node, input);
  return value == NULL ? NULL : value->constant->data;
}

static tercel_status open_state(const tercel_node *node, const tercel_target *target, state *s, tercel_error *err) {
  *s = (state){.gemm = TERCEL_CPU_PICK_FOR(target, tercel_gemm_kernels),
               .gemm8 = TERCEL_CPU_PICK_VNNI(tercel_gemm8_kernels),
               .quantize = TERCEL_CPU_PICK(tercel_quantize_kernels),
               .cells = TERCEL_CPU_PICK_FOR(target, tercel_rnn_kernels),
               .r_dtype = node->inputs[TERCEL_RNN_R]->type.dtype};
  return tercel_rnn_get_spec(node, &s->spec, err);
}

/* ---- packing ---- */

static weights_layout lay_out_constants(const tercel_node *node, const tercel_rnn_spec *spec, panel_widths width) {
  return lay_out(spec, width, node->inputs[TERCEL_RNN_W]->constant->dims[2],
                 node->inputs[TERCEL_RNN_R]->constant->dims[2]);
}

static tercel_status describe(const tercel_packer *packer, const tercel_node *node, const tercel_target *target,
                              tercel_pack_format *out, tercel_error *err) {
  (void)packer;
  tercel_rnn_spec spec;
  if (!are_constant(node)) return TERCEL_OK;
  TERCEL_TRY(tercel_rnn_get_spec(node, &spec, err));
  const panel_widths width = current_widths(target);
  const weights_layout l = lay_out_constants(node, &spec, width);
  out->bytes = (size_t)l.floats * (size_t)spec.directions * sizeof(float);
  if (spec.quantized)
    snprintf(out->name, sizeof out->name, "rnn.%d.%dx%d", width.plain, width.bytes, width.group);
  else
    snprintf(out->name, sizeof out->name, "rnn.%d.f32", width.plain);
  /* Biases are added up: they don't come back. */
  out->inputs = 1u << TERCEL_RNN_W | 1u << TERCEL_RNN_R;
  if (spec.quantized) out->inputs |= 1u << TERCEL_RNN_R_SCALE | 1u << TERCEL_RNN_R_ZERO;
  return TERCEL_OK;
}

static tercel_status pack(const tercel_packer *packer, const tercel_node *node, const tercel_target *target,
                          const tercel_pack_format *format, void *out, tercel_error *err) {
  (void)packer;
  state s;
  TERCEL_TRY(open_state(node, target, &s, err));
  const weights_layout l = lay_out_constants(node, &s.spec, current_widths(target));
  const plain_weights from = {.w = constant_of(node, TERCEL_RNN_W),
                              .r = constant_of(node, TERCEL_RNN_R),
                              .bias = constant_of(node, TERCEL_RNN_BIAS),
                              .r_scale = constant_of(node, TERCEL_RNN_R_SCALE),
                              .r_zero = constant_of(node, TERCEL_RNN_R_ZERO)};
  memset(out, 0, format->bytes); /* there are gaps */
  make_weights(&s, &l, &from, out);
  return TERCEL_OK;
}

static bool parse_name(const char *name, bool quantized, panel_widths *out) {
  const char *at = name + strlen("rnn.");
  *out = (panel_widths){.bytes = 1, .group = 1};
  if (strncmp(name, "rnn.", strlen("rnn.")) != 0 || !tercel_panels_parse_number(&at, &out->plain) || *at++ != '.')
    return false;
  if (!quantized) return strcmp(at, "f32") == 0;
  return tercel_panels_parse_number(&at, &out->bytes) && *at++ == 'x' && tercel_panels_parse_number(&at, &out->group) &&
         *at == '\0';
}

/* B of a product out of its panels: the weights of `columns` gates over k. */
static void unpack_product(int width, int64_t columns, int64_t k, const float *packed, float *out) {
  const tercel_panels panels = {width, 1, sizeof(float)};
  const tercel_gemm_operand operand = {.count = 1, .outer = columns, .outer_step = k, .k = k, .k_step = 1};
  tercel_panels_unpack_f32(&panels, &operand, packed, out);
}

static void unpack_recurrent(const weights_layout *l, panel_widths width, const float *packed, float *out) {
  unpack_product(width.plain, l->first, l->hidden, packed + l->r_at, out);
  unpack_product(width.plain, l->gates - l->first, l->hidden, packed + l->second_at, out + l->first * l->hidden);
}

static void unpack_bytes(const weights_layout *l, panel_widths width, uint8_t flip, const float *packed, uint8_t *out) {
  const tercel_panels panels = {width.bytes, width.group, 1};
  const tercel_gemm_operand operand = {
      .count = 1, .outer = l->gates, .outer_step = l->hidden, .k = l->hidden, .k_step = 1};
  tercel_panels_unpack_bytes(&panels, &operand, (const uint8_t *)(packed + l->r_at), flip, out);
}

static tercel_status unpack(const tercel_packer *packer, const tercel_node *node, const tercel_packed *packed,
                            uint32_t input, void *out, tercel_error *err) {
  (void)packer;
  tercel_rnn_spec spec;
  panel_widths width;
  TERCEL_TRY(tercel_rnn_get_spec(node, &spec, err));
  const bool known = are_constant(node) && parse_name(packed->format.name, spec.quantized, &width);
  const weights_layout l = known ? lay_out_constants(node, &spec, width) : (weights_layout){0};
  if (!known || (size_t)l.floats * (size_t)spec.directions * sizeof(float) != packed->format.bytes)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "rnn '%s': %zu bytes of %s are not its weights", node->name,
                       packed->format.bytes, packed->format.name);
  const uint8_t flip = tercel_gemm8_flip(node->inputs[TERCEL_RNN_R]->type.dtype, true);
  const float *from = packed->data;
  for (int d = 0; d < spec.directions; ++d, from += l.floats) {
    if (input == TERCEL_RNN_W)
      unpack_product(width.plain, l.gates, l.input, from + l.w_at, (float *)out + d * l.gates * l.input);
    else if (input == TERCEL_RNN_R && spec.quantized)
      unpack_bytes(&l, width, flip, from, (uint8_t *)out + d * l.gates * l.hidden);
    else if (input == TERCEL_RNN_R)
      unpack_recurrent(&l, width, from, (float *)out + d * l.gates * l.hidden);
    else if (input == TERCEL_RNN_R_SCALE)
      memcpy((float *)out + d * l.gates, from + l.scale_at, (size_t)l.gates * sizeof(float));
    else
      memcpy((uint8_t *)out + d * l.gates, from + l.zero_at, (size_t)l.gates);
  }
  return TERCEL_OK;
}

static const tercel_packer packer = {describe, pack, unpack};

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  state *s = tercel_zalloc(sizeof *s);
  if (s == NULL) return tercel_fail_memory(err, sizeof *s, "rnn");
  const tercel_status status = open_state(node, target, s, err);
  if (status != TERCEL_OK) {
    tercel_free(s);
    return status;
  }
  s->weights = out->packed.data;
  for (size_t i = 0; s->weights != NULL && i < sizeof weight_inputs / sizeof *weight_inputs; ++i)
    out->unused_inputs |= 1u << weight_inputs[i];
  out->data = s;
  return TERCEL_OK;
}

/* ---- bind ---- */

/* Sums of sizes in floats that may overflow; sticky. */
typedef struct layout_sum {
  size_t bytes;
  bool overflow;
} layout_sum;

/* Reserves a * b floats, 64-byte aligned; returns where they begin. */
static size_t reserve(layout_sum *sum, int64_t a, int64_t b) {
  const size_t at = sum->bytes;
  size_t floats, bytes;
  sum->overflow = sum->overflow || !tercel_mul_size((size_t)a, (size_t)b, &floats) ||
                  !tercel_mul_size(floats, sizeof(float), &bytes) ||
                  !tercel_round_up_size(bytes, TERCEL_ALIGNMENT, &bytes) ||
                  !tercel_add_size(sum->bytes, bytes, &sum->bytes);
  return at;
}

static tercel_gemm_plan plan_product(const state *s, int64_t m, int64_t n, int64_t k, int64_t c_row, int64_t outer,
                                     int num_threads) {
  tercel_gemm_plan plan = {.kernels = s->gemm,
                           .m = m,
                           .n = n,
                           .k = k,
                           .outer = outer,
                           .a = TERCEL_GEMM_PLAIN,
                           .a_row = k,
                           .a_col = 1,
                           .b = TERCEL_GEMM_PACKED,
                           .c_row = c_row};
  tercel_gemm_make_plan(&plan, num_threads);
  return plan;
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state_data,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  (void)kernel;
  (void)node;
  (void)out;
  const state *s = state_data;
  const tercel_rnn_spec *spec = &s->spec;
  binding *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "rnn");
  tercel_rnn_get_geometry(spec, in[TERCEL_RNN_X], in[TERCEL_RNN_R], &b->g);
  const tercel_rnn_geometry *g = &b->g;
  b->layout = lay_out(&s->spec, current_widths(target), g->input, g->hidden);
  const bool has_lengths = node->num_inputs > TERCEL_RNN_LENGTHS && in[TERCEL_RNN_LENGTHS] != NULL;
  b->together = has_lengths ? 1 : g->batch;
  const int64_t gates = b->layout.gates, first = b->layout.first, rows = g->steps * g->batch;
  const bool gru = spec->cell == TERCEL_RNN_CELL_GRU;
  const int64_t gates_step = spec->batch_first ? g->steps * gates : gates; /* from sequence to sequence */
  b->from_x = plan_product(s, rows, gates, g->input, gates, spec->directions, target->num_threads);
  b->first = plan_product(s, b->together, first, g->hidden, gru ? gates : gates_step, 1, target->num_threads);
  b->second = plan_product(s, b->together, gates - first, g->hidden, gates, 1, target->num_threads);
  if (spec->quantized) {
    b->first.workspace_bytes = 0;
    b->quantized = (tercel_gemm8_plan){.kernels = s->gemm8,
                                       .m = b->together,
                                       .n = gates,
                                       .k = g->hidden,
                                       .outer = 1,
                                       .c_row = gates,
                                       .b_is_packed = true};
    TERCEL_TRY(tercel_gemm8_make_plan(&b->quantized, target->num_threads, err));
  }

  layout_sum all = {0}, one = {0};
  b->h_at = reserve(&one, b->together, g->hidden);
  b->c_at = reserve(&one, b->together, g->hidden);
  b->reset_at = reserve(&one, b->together, g->hidden);
  b->recurrent_at = reserve(&one, gru || spec->quantized ? b->together : 0, gates);
  const int64_t quantized = spec->quantized ? b->together : 0;
  b->bytes_at = reserve(&one, quantized, tercel_ceil_div(g->hidden, 4));
  b->byte_scales_at = reserve(&one, quantized, 1);
  b->byte_zeros_at = reserve(&one, tercel_ceil_div(quantized, 4), 1);
  size_t product_bytes = b->quantized.workspace_bytes;
  if (b->first.workspace_bytes > product_bytes) product_bytes = b->first.workspace_bytes;
  if (b->second.workspace_bytes > product_bytes) product_bytes = b->second.workspace_bytes;
  b->product_at = reserve(&one, (int64_t)(product_bytes / sizeof(float)), 1);
  b->direction_bytes = one.bytes;

  reserve(&all, (int64_t)(b->from_x.workspace_bytes / sizeof(float)), 1);
  b->weights_at = reserve(&all, s->weights == NULL ? spec->directions : 0, b->layout.floats);
  size_t row_floats;
  all.overflow = all.overflow || !tercel_mul_size((size_t)rows, (size_t)gates, &row_floats);
  b->gates_at = reserve(&all, all.overflow ? 0 : (int64_t)row_floats, spec->directions);
  b->directions_at = reserve(&all, (int64_t)(b->direction_bytes / sizeof(float)), spec->directions);
  if (all.overflow || one.overflow) return tercel_fail_memory(err, SIZE_MAX, "rnn");
  result->data = b;
  result->workspace_bytes = all.bytes;
  return TERCEL_OK;
}

/* ---- run ---- */

typedef struct job {
  const tercel_kernel_run *r;
  const state *s;
  const binding *b;
  const float *weights; /* of the first direction */
  float *gates;         /* likewise */
  const tercel_tensor *lengths;
  const float *initial_h, *initial_c, *peepholes; /* NULL: absent */
  float *y, *y_h, *y_c;                           /* NULL: absent */
} job;

static void get_from_x(const void *user, int64_t outer, tercel_gemm_product *out) {
  const job *j = user;
  const binding *b = j->b;
  const float *weights = j->weights + outer * b->layout.floats;
  out->a = j->r->in[TERCEL_RNN_X]->data;
  out->b = weights + b->layout.w_at;
  out->col_bias = weights + b->layout.bias_at;
  out->c = j->gates + outer * b->from_x.m * b->layout.gates;
}

/* A direction at work on the sequences first .. first + together. */
typedef struct walk {
  const job *j;
  int d;
  const float *weights;
  float *gates; /* of the direction */
  float *h, *c, *reset, *recurrent;
  uint8_t *bytes, *byte_zeros; /* h in 8 bits */
  float *byte_scales;
  void *product_space;
  int64_t sequence;
  tercel_rnn_cell_args args;
} walk;

static void get_given(const void *user, int64_t outer, tercel_gemm_product *out) {
  (void)outer;
  *out = *(const tercel_gemm_product *)user;
}

static void multiply(const walk *w, const tercel_gemm_plan *plan, bool accumulate, tercel_gemm_product product) {
  const tercel_gemm_run run = {
      .plan = plan, .alpha = 1, .accumulate = accumulate, .product = get_given, .user = &product};
  tercel_gemm_run_all(&run, w->product_space, w->j->r->pool);
}

/* Where the gates of a step and sequence stand: in the order of x's rows. */
static float *gates_of(const walk *w, int64_t t, int64_t n) {
  const tercel_rnn_geometry *g = &w->j->b->g;
  const int64_t row = w->j->s->spec.batch_first ? n * g->steps + t : t * g->batch + n;
  return w->gates + row * w->j->b->layout.gates;
}

/* Points the cell's arguments at sequence i of those that go together. */
static void aim(walk *w, int64_t t, int64_t i) {
  const weights_layout *l = &w->j->b->layout;
  w->args.gates = gates_of(w, t, w->sequence + i);
  w->args.recurrent = w->recurrent + i * l->gates;
  w->args.h = w->h + i * l->hidden;
  w->args.c = w->c + i * l->hidden;
  w->args.reset = w->reset + i * l->hidden;
}

static void get_quantized(const void *user, int64_t outer, tercel_gemm8_product *out) {
  (void)outer;
  const walk *w = user;
  const weights_layout *l = &w->j->b->layout;
  out->a = w->bytes;
  out->packed_b = packed_recurrent(l, (float *)(uintptr_t)w->weights);
  out->c = (uint32_t *)(void *)w->recurrent;
  out->a_zeros = (tercel_gemm8_zeros){.data = w->byte_zeros, .count = w->j->b->together};
  out->b_zeros = (tercel_gemm8_zeros){.data = (const uint8_t *)(w->weights + l->zero_at),
                                      .count = l->gates,
                                      .flip = tercel_gemm8_flip(w->j->s->r_dtype, true)};
}

/* gates += h R^T, both in 8 bits */
static void multiply_quantized(walk *w, int64_t t) {
  const binding *b = w->j->b;
  const state *s = w->j->s;
  const int64_t hidden = b->g.hidden, gates = b->layout.gates;
  const tercel_epilogue nothing = {.apply = TERCEL_CPU_PICK(tercel_epilogue_kernels)->apply[TERCEL_EPILOGUE_NONE]};
  for (int64_t i = 0; i < b->together; ++i)
    s->quantize->row(w->h + i * hidden, hidden, w->bytes + i * hidden, &w->byte_scales[i], &w->byte_zeros[i]);
  const tercel_gemm8_run run = {
      .plan = &b->quantized, .a_row = hidden, .a_col = 1, .epilogue = &nothing, .product = get_quantized, .user = w};
  tercel_gemm8_run_all(&run, w->product_space, w->j->r->pool);
  for (int64_t i = 0; i < b->together; ++i)
    s->cells->add_scaled((const int32_t *)(const void *)(w->recurrent + i * gates), w->byte_scales[i],
                         w->weights + b->layout.scale_at, gates, gates_of(w, t, w->sequence + i));
}

static void run_step(walk *w, int64_t t) {
  const binding *b = w->j->b;
  const state *s = w->j->s;
  const weights_layout *l = &b->layout;
  const float *r = w->weights + l->r_at;
  if (s->spec.quantized) {
    multiply_quantized(w, t);
  } else if (s->spec.cell != TERCEL_RNN_CELL_GRU) {
    multiply(w, &b->first, true, (tercel_gemm_product){.a = w->h, .b = r, .c = gates_of(w, t, w->sequence)});
  } else {
    multiply(w, &b->first, false,
             (tercel_gemm_product){.a = w->h, .b = r, .c = w->recurrent, .col_bias = w->weights + l->r_bias_at});
    if (l->first < l->gates) {
      for (int64_t i = 0; i < b->together; ++i) {
        aim(w, t, i);
        s->cells->gru_reset(&w->args);
      }
      multiply(w, &b->second, false,
               (tercel_gemm_product){
                   .a = w->reset, .b = w->weights + l->second_at, .c = w->recurrent + l->first, .col_bias = NULL});
    }
  }
  for (int64_t i = 0; i < b->together; ++i) {
    aim(w, t, i);
    s->cells->cells[s->spec.cell](&w->args);
  }
}

/* dst and src: rows of hidden floats, `step` apart in the tensor, one after the other in the workspace. */
static void copy_in(const binding *b, const float *tensor, int64_t step, float *rows) {
  const size_t bytes = (size_t)b->g.hidden * sizeof(float);
  for (int64_t i = 0; i < b->together; ++i) {
    if (tensor == NULL)
      memset(rows + i * b->g.hidden, 0, bytes);
    else
      memcpy(rows + i * b->g.hidden, tensor + i * step, bytes);
  }
}
static void copy_out(const binding *b, const float *rows, int64_t step, float *tensor) {
  if (tensor == NULL) return;
  for (int64_t i = 0; i < b->together; ++i)
    memcpy(tensor + i * step, rows + i * b->g.hidden, (size_t)b->g.hidden * sizeof(float));
}

static float *at(float *tensor, int64_t offset) { return tensor == NULL ? NULL : tensor + offset; }
static const float *at_const(const float *tensor, int64_t offset) { return tensor == NULL ? NULL : tensor + offset; }

/* All steps of the sequences that go together; outputs behind their length are 0. */
static void run_sequences(walk *w, int64_t length) {
  const job *j = w->j;
  const binding *b = j->b;
  const tercel_rnn_geometry *g = &b->g;
  const int64_t state_at = w->d * g->state_direction + w->sequence * g->state_batch;
  const int64_t y_at = w->d * g->y_direction + w->sequence * g->y_batch;
  copy_in(b, at_const(j->initial_h, state_at), g->state_batch, w->h);
  copy_in(b, at_const(j->initial_c, state_at), g->state_batch, w->c);
  for (int64_t k = 0; k < length; ++k) {
    const int64_t t = j->s->spec.reverse[w->d] ? length - 1 - k : k;
    run_step(w, t);
    copy_out(b, w->h, g->y_batch, at(j->y, y_at + t * g->y_step));
  }
  copy_out(b, w->h, g->state_batch, at(j->y_h, state_at));
  copy_out(b, w->c, g->state_batch, at(j->y_c, state_at));
  memset(w->h, 0, (size_t)(b->together * g->hidden) * sizeof(float));
  for (int64_t t = length; t < g->steps; ++t) copy_out(b, w->h, g->y_batch, at(j->y, y_at + t * g->y_step));
}

static void run_directions(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const binding *b = j->b;
  const tercel_rnn_spec *spec = &j->s->spec;
  for (int64_t d = begin; d < end; ++d) {
    uint8_t *space = (uint8_t *)j->r->workspace + b->directions_at + (size_t)d * b->direction_bytes;
    walk w = {.j = j,
              .d = (int)d,
              .weights = j->weights + d * b->layout.floats,
              .gates = j->gates + d * b->from_x.m * b->layout.gates,
              .h = (float *)(void *)(space + b->h_at),
              .c = (float *)(void *)(space + b->c_at),
              .reset = (float *)(void *)(space + b->reset_at),
              .recurrent = (float *)(void *)(space + b->recurrent_at),
              .bytes = space + b->bytes_at,
              .byte_zeros = space + b->byte_zeros_at,
              .byte_scales = (float *)(void *)(space + b->byte_scales_at),
              .product_space = space + b->product_at,
              .args = {.hidden = b->g.hidden,
                       .activations = spec->activations[d],
                       .clip = (float)spec->clip,
                       .input_forget = spec->input_forget,
                       .linear_before_reset = spec->linear_before_reset,
                       .peepholes = at_const(j->peepholes, d * 3 * b->g.hidden)}};
    for (w.sequence = 0; w.sequence < b->g.batch; w.sequence += b->together)
      run_sequences(&w, j->lengths == NULL ? b->g.steps : tercel_tensor_get_i64(j->lengths, w.sequence));
  }
}

static const void *data_of(const tercel_kernel_run *r, size_t input) {
  return input < r->num_inputs && r->in[input] != NULL ? r->in[input]->data : NULL;
}
static void *output_of(const tercel_kernel_run *r, size_t output) {
  return output < r->num_outputs && r->out[output] != NULL ? r->out[output]->data : NULL;
}

static tercel_status run(const tercel_kernel_run *r, tercel_error *err) {
  const state *s = r->state;
  const binding *b = r->binding;
  uint8_t *workspace = r->workspace;
  job j = {.r = r,
           .s = s,
           .b = b,
           .weights = s->weights,
           .gates = (float *)(void *)(workspace + b->gates_at),
           .lengths = r->num_inputs > TERCEL_RNN_LENGTHS ? r->in[TERCEL_RNN_LENGTHS] : NULL,
           .initial_h = data_of(r, TERCEL_RNN_INITIAL_H),
           .initial_c = data_of(r, TERCEL_RNN_INITIAL_C),
           .peepholes = data_of(r, TERCEL_RNN_PEEPHOLES),
           .y = output_of(r, 0),
           .y_h = output_of(r, 1),
           .y_c = output_of(r, 2)};
  TERCEL_TRY(tercel_rnn_check_lengths(r->node, j.lengths, b->g.steps, err));
  if (b->g.batch == 0) return TERCEL_OK;
  if (s->weights == NULL) {
    float *weights = (float *)(void *)(workspace + b->weights_at);
    const plain_weights from = {.w = data_of(r, TERCEL_RNN_W),
                                .r = data_of(r, TERCEL_RNN_R),
                                .bias = data_of(r, TERCEL_RNN_BIAS),
                                .r_scale = data_of(r, TERCEL_RNN_R_SCALE),
                                .r_zero = data_of(r, TERCEL_RNN_R_ZERO)};
    make_weights(s, &b->layout, &from, weights);
    j.weights = weights;
  }
  const tercel_gemm_run from_x = {.plan = &b->from_x, .alpha = 1, .product = get_from_x, .user = &j};
  tercel_gemm_run_all(&from_x, workspace, r->pool);
  tercel_pool_run(r->pool, s->spec.directions, 1, run_directions, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_rnn_f32 = {.name = "rnn.f32",
                                             .op = TERCEL_OP_RNN,
                                             .supports = supports,
                                             .packer = &packer,
                                             .prepare = prepare,
                                             .bind = bind,
                                             .run = run};
