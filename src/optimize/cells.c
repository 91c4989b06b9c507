/* One step of an LSTM or GRU written out in products, gates and states, as one rnn over a sequence of length 1.
 *
 *     gates = x W + h R + b, split in four      c' = sigmoid(f) c + sigmoid(i) tanh(g)      h' = sigmoid(o) tanh(c')
 *     a = x W + b, e = h R + d, each in three   z, r = sigmoid(a + e)    n = tanh(a + r e)   h' = n + z (h - n)
 *
 * Which part of the split is which gate is told by what is done to it, so that each exporter's order fits.  x and h may be joined before one
 * product; a forget gate's bias may stand behind the split.  Weights are constants, put into rnn's order here.  Loops around
 * cells stay: they run such a step each time. */
#include <string.h>

#include "optimize/pattern.h"

enum { MAX_GATES = 4, MAX_PRODUCTS = 2, MAX_BIASES = 4 };

/* A sum of products with constant weights and of constants. */
typedef struct linear {
  const tercel_node *products[MAX_PRODUCTS];
  const tercel_value *biases[MAX_BIASES];
  int num_products, num_biases;
} linear;

/* A part of what is split: which of how many. */
typedef struct piece {
  const tercel_value *whole;
  int64_t size; /* of each */
  int index;
} piece;

/* rows x of weights that turn an operand (N x rows) into all gates. */
typedef struct operand {
  tercel_value *value;
  const tercel_node *product;
  int64_t first_row, rows;
} operand;

/* ---- match --------------------------------------------------------------------------------------------------------- */

static bool is_bias(const tercel_value *value, int64_t columns) {
  const tercel_tensor *const t = value->constant;
  if (!t || !tercel_is_f32(value) || t->rank > 2) return false;
  const int64_t count = tercel_tensor_num_elements(t);
  return count == 1 || (count == columns && t->dims[t->rank - 1] == columns);
}

static bool add_bias(linear *out, const tercel_value *value, int64_t columns) {
  if (!is_bias(value, columns) || out->num_biases == MAX_BIASES) return false;
  out->biases[out->num_biases++] = value;
  return true;
}

static bool is_plain_product(const tercel_node *node) {
  const tercel_value *const w = node->inputs[1];
  return w->constant && tercel_is_f32(w) && w->constant->rank == 2 && !tercel_node_int(node, "trans_a") &&
         tercel_node_float(node, "alpha") == 1 && !tercel_node_program(node, "epilogue") &&
         node->inputs[0]->type.shape.rank == 2;
}

static bool match_linear(tercel_pattern *p, const tercel_value *value, int64_t columns, int depth, linear *out) {
  enum { MAX_DEPTH = 4 };
  if (value->constant) return add_bias(out, value, columns);
  const tercel_node *const add = depth < MAX_DEPTH ? tercel_pattern_fn(p, value, TERCEL_FN_ADD) : NULL;
  if (add)
    return match_linear(p, add->inputs[0], columns, depth + 1, out) &&
           match_linear(p, add->inputs[1], columns, depth + 1, out);
  const tercel_node *const product = tercel_producer(value, TERCEL_OP_MATMUL);
  if (!product) return tercel_pattern_miss(p, "'%.100s', of which the gates are, is no product", value->name);
  if (!is_plain_product(product) || out->num_products == MAX_PRODUCTS)
    return tercel_pattern_miss(p, "'%.100s' is not a product of rows and constant weights", product->name);
  tercel_pattern_add(p, product);
  out->products[out->num_products++] = product;
  return !tercel_node_input(product, 2) || add_bias(out, product->inputs[2], columns);
}

/* One of `gates` equal parts of the last dim. */
static bool match_piece(tercel_pattern *p, const tercel_value *value, int gates, piece *out) {
  tercel_node *const node = value->producer;
  int64_t begin, end, axis;
  size_t count = 0;
  if (!node || value->type.shape.rank != 2) return false;
  out->whole = node->inputs[0];
  out->size = value->type.shape.dims[1];
  if (!tercel_dim_is_known(out->size) || out->size < 1 || out->whole->type.shape.rank != 2 ||
      out->whole->type.shape.dims[1] != gates * out->size)
    return false;
  if (tercel_is(node, TERCEL_OP_SPLIT)) {
    axis = tercel_node_int(node, "axis");
    if ((axis != 1 && axis != -1) || (int)node->num_outputs != gates) return false;
    for (int i = 0; i < gates; i++)
      if (node->outputs[i] && node->outputs[i]->type.shape.dims[1] != out->size) return false;
    out->index = (int)value->producer_index;
  } else if (tercel_is(node, TERCEL_OP_SLICE)) {
    if (tercel_node_input(node, 4) || !tercel_constant_ints(node->inputs[1], &begin, 1, &count) || count != 1 ||
        !tercel_constant_ints(node->inputs[2], &end, 1, &count) ||
        !tercel_constant_ints(tercel_node_input(node, 3), &axis, 1, &count) || (axis != 1 && axis != -1) || begin < 0 ||
        begin % out->size != 0)
      return false;
    out->index = (int)(begin / out->size);
  } else {
    return false;
  }
  tercel_pattern_add(p, node);
  return true;
}

/* The same whole, and no gate twice. */
static bool are_of_one(const piece *pieces, int gates) {
  unsigned seen = 0;
  for (int i = 0; i < gates; i++) {
    if (pieces[i].whole != pieces[0].whole || pieces[i].size != pieces[0].size) return false;
    seen |= 1u << pieces[i].index;
  }
  return seen == (1u << gates) - 1;
}

/* node = a fn b, in either order: tries `first` on one and `second` on the other. */
typedef bool (*match_fn)(tercel_pattern *p, const tercel_value *value, void *user);

static bool match_both(tercel_pattern *p, const tercel_node *node, match_fn first, match_fn second, void *user) {
  for (int side = 0; node && side < 2; side++) {
    tercel_pattern tried = *p;
    if (!first(&tried, node->inputs[side], user) || !second(&tried, node->inputs[1 - side], user)) continue;
    *p = tried;
    return true;
  }
  return false;
}

/* A node of the match, other than the root and the new state of the cell, that something outside reads: any of its outputs. */
static const tercel_node *find_leak(const tercel_pattern *p, const tercel_node *state) {
  for (int i = 1; i < p->num_nodes; i++) {
    const tercel_node *const node = p->nodes[i];
    for (uint32_t o = 0; o < node->num_outputs && node != state; o++) {
      const tercel_value *const value = node->outputs[o];
      if (value && value->num_output_uses) return node;
      for (uint32_t u = 0; value && u < value->num_uses; u++) {
        int k = 0;
        while (k < p->num_nodes && p->nodes[k] != value->uses[u].node) k++;
        if (k == p->num_nodes) return node;
      }
    }
  }
  return NULL;
}

/* ---- operands ------------------------------------------------------------------------------------------------------ */

static void set_operand(operand *out, tercel_value *value, const tercel_node *product, int64_t first_row) {
  *out = (operand){value, product, first_row, value->type.shape.dims[1]};
}

/* x and h of a cell whose gates are one sum: h has as many columns as the state. */
static bool find_operands(const tercel_pattern *p, const linear *l, int64_t hidden, operand *x, operand *h) {
  operand both[2];
  if (l->num_products == 2) {
    for (int i = 0; i < 2; i++) set_operand(&both[i], l->products[i]->inputs[0], l->products[i], 0);
  } else {
    const tercel_node *const concat = tercel_producer(l->products[0]->inputs[0], TERCEL_OP_CONCAT);
    const int64_t axis = concat ? tercel_node_int(concat, "axis") : 0;
    if (!concat || concat->num_inputs != 2 || (axis != 1 && axis != -1))
      return tercel_pattern_miss(p, "'%.100s' is of one operand, and not of an input and a state",
                                 l->products[0]->name);
    set_operand(&both[0], concat->inputs[0], l->products[0], 0);
    if (!tercel_dim_is_known(both[0].rows)) return tercel_pattern_miss(p, "the size of the input is not known");
    set_operand(&both[1], concat->inputs[1], l->products[0], both[0].rows);
  }
  const int state = both[1].rows == hidden ? 1 : 0;
  *x = both[1 - state];
  *h = both[state];
  if (!tercel_dim_is_known(x->rows)) return tercel_pattern_miss(p, "the size of the input is not known");
  return h->rows == hidden ||
         tercel_pattern_miss(p, "no operand has as many columns as the state, %lld", (long long)hidden);
}

/* ---- weights ------------------------------------------------------------------------------------------------------- */

/* order[k]: which part of the split is rnn's gate k. */
typedef struct gate_order {
  int gates, at[MAX_GATES];
  int64_t hidden;
} gate_order;

static float weight_at(const operand *o, int64_t row, int64_t column) {
  const tercel_tensor *const w = o->product->inputs[1]->constant;
  const bool trans = tercel_node_int(o->product, "trans_b") != 0;
  const int64_t r = o->first_row + row;
  const float *const data = w->data;
  return trans ? data[column * w->dims[1] + r] : data[r * w->dims[1] + column];
}

/* 1 x gates * hidden x rows */
static tercel_status make_weights(const operand *o, const gate_order *order, tercel_value **out, tercel_error *err) {
  const tercel_value *const from = o->product->inputs[1];
  const int64_t dims[3] = {1, order->gates * order->hidden, o->rows};
  TERCEL_TRY(tercel_graph_add_new_constant(from->graph, from->name, TERCEL_DTYPE_F32, 3, dims, out, err));
  float *to = (float *)(*out)->constant->data;
  for (int k = 0; k < order->gates; k++)
    for (int64_t i = 0; i < order->hidden; i++)
      for (int64_t row = 0; row < o->rows; row++) *to++ = weight_at(o, row, order->at[k] * order->hidden + i);
  return TERCEL_OK;
}

static void add_biases(const linear *l, const gate_order *order, float *to) {
  for (int b = 0; b < l->num_biases; b++) {
    const tercel_tensor *const t = l->biases[b]->constant;
    const bool is_one = tercel_tensor_num_elements(t) == 1;
    for (int k = 0; k < order->gates; k++)
      for (int64_t i = 0; i < order->hidden; i++) {
        const int64_t at = is_one ? 0 : order->at[k] * order->hidden + i;
        to[k * order->hidden + i] += ((const float *)t->data)[at];
      }
  }
}

/* 1 x 2 * gates * hidden: of x, then of h.  extra: added to rnn's gate `extra_gate`. */
static tercel_status make_bias(tercel_graph *graph, const linear *of_x, const linear *of_h, const gate_order *order,
                               double extra, int extra_gate, tercel_value **out, tercel_error *err) {
  const int64_t all = order->gates * order->hidden, dims[2] = {1, 2 * all};
  TERCEL_TRY(tercel_graph_add_new_constant(graph, "bias", TERCEL_DTYPE_F32, 2, dims, out, err));
  float *const to = (float *)(*out)->constant->data;
  add_biases(of_x, order, to);
  if (of_h) add_biases(of_h, order, to + all);
  for (int64_t i = 0; i < order->hidden; i++) to[extra_gate * order->hidden + i] += (float)extra;
  return TERCEL_OK;
}

/* ---- rewrite ------------------------------------------------------------------------------------------------------- */

/* N x columns as 1 x N x columns, or back. */
static tercel_status add_view(tercel_op_id op, tercel_value *x, const tercel_node *like, tercel_node *before,
                              tercel_value **out, tercel_error *err) {
  tercel_node *view;
  TERCEL_TRY(tercel_rewrite_add(op, like, &x, 1, before, &view, err));
  TERCEL_TRY(tercel_node_set_ints(view, "axes", (const int64_t[]){0}, 1, err));
  TERCEL_TRY(tercel_infer_node(view, err));
  *out = view->outputs[0];
  return TERCEL_OK;
}

typedef struct found_cell {
  const char *kind;
  operand x, h;
  tercel_value *c;          /* NULL: none (gru) */
  const tercel_node *new_c; /* likewise */
  tercel_value *bias;
  gate_order order;
} found_cell;

static tercel_status replace(tercel_pass_context *context, const char *name, const tercel_pattern *p,
                             const found_cell *cell, tercel_error *err) {
  const tercel_node *const root = p->nodes[0];
  tercel_node *const before = (tercel_node *)(uintptr_t)(cell->new_c ? cell->new_c : root), *rnn;
  tercel_value *inputs[7] = {0}, *h, *c;
  TERCEL_TRY(add_view(TERCEL_OP_UNSQUEEZE, cell->x.value, root, before, &inputs[0], err));
  TERCEL_TRY(make_weights(&cell->x, &cell->order, &inputs[1], err));
  TERCEL_TRY(make_weights(&cell->h, &cell->order, &inputs[2], err));
  inputs[3] = cell->bias;
  TERCEL_TRY(add_view(TERCEL_OP_UNSQUEEZE, cell->h.value, root, before, &inputs[5], err));
  if (cell->c) TERCEL_TRY(add_view(TERCEL_OP_UNSQUEEZE, cell->c, root, before, &inputs[6], err));
  TERCEL_TRY(tercel_graph_add_node(before->graph, tercel_ops()[TERCEL_OP_RNN], root->name, inputs, cell->c ? 7 : 6,
                                   cell->c ? 3 : 2, before, &rnn, err));
  TERCEL_TRY(tercel_node_set_string(rnn, "cell", cell->kind, err));
  TERCEL_TRY(tercel_node_set_int(rnn, "hidden_size", cell->order.hidden, err));
  if (!cell->c) TERCEL_TRY(tercel_node_set_int(rnn, "linear_before_reset", 1, err));
  TERCEL_TRY(tercel_infer_node(rnn, err));
  rnn->num_sources = 0;
  for (int i = 0; i < p->num_nodes; i++) TERCEL_TRY(tercel_node_add_sources(rnn, p->nodes[i], err));
  TERCEL_TRY(add_view(TERCEL_OP_SQUEEZE, rnn->outputs[1], root, before, &h, err));
  if (cell->c) TERCEL_TRY(add_view(TERCEL_OP_SQUEEZE, rnn->outputs[2], cell->new_c, before, &c, err));
  TERCEL_TRY(tercel_made(context, name, rnn, NULL, err));
  TERCEL_TRY(tercel_rewrite_replace(root->outputs[0], h, err));
  return cell->c ? tercel_rewrite_replace(cell->new_c->outputs[0], c, err) : TERCEL_OK;
}

static tercel_status refuse_leak(tercel_pass_context *context, const char *name, const tercel_node *root,
                                 const tercel_node *leak, tercel_error *err) {
  return tercel_refused(context, name, root, err, "'%.100s' inside it is also read outside", leak->name);
}

/* ---- lstm ---------------------------------------------------------------------------------------------------------- */

enum { INPUT, OUTPUT, FORGET, CELL }; /* rnn's order */

typedef struct lstm {
  piece gates[MAX_GATES];
  double forget_bias;
  tercel_value *c;
} lstm;

static const tercel_value *argument(tercel_pattern *p, const tercel_value *value, tercel_fn fn) {
  const tercel_node *const node = tercel_pattern_fn(p, value, fn);
  return node ? node->inputs[0] : NULL;
}

static bool match_input_gate(tercel_pattern *p, const tercel_value *value, void *user) {
  const tercel_value *const gate = argument(p, value, TERCEL_FN_SIGMOID);
  return gate && match_piece(p, gate, 4, &((lstm *)user)->gates[INPUT]);
}

static bool match_cell_gate(tercel_pattern *p, const tercel_value *value, void *user) {
  const tercel_value *const gate = argument(p, value, TERCEL_FN_TANH);
  return gate && match_piece(p, gate, 4, &((lstm *)user)->gates[CELL]);
}

static bool match_forget_gate(tercel_pattern *p, const tercel_value *value, void *user) {
  lstm *const l = user;
  const tercel_value *const gate = argument(p, value, TERCEL_FN_SIGMOID);
  tercel_value *unbiased;
  l->forget_bias = 0;
  if (!gate) return false;
  const bool has_bias = tercel_pattern_scalar(p, gate, TERCEL_FN_ADD, &unbiased, &l->forget_bias);
  return match_piece(p, has_bias ? unbiased : gate, 4, &l->gates[FORGET]);
}

static bool match_old_state(tercel_pattern *p, const tercel_value *value, void *user) {
  (void)p;
  ((lstm *)user)->c = (tercel_value *)(uintptr_t)value;
  return value->type.shape.rank == 2;
}

static bool match_kept(tercel_pattern *p, const tercel_value *value, void *user) {
  return match_both(p, tercel_pattern_fn(p, value, TERCEL_FN_MUL), match_forget_gate, match_old_state, user);
}

static bool match_new(tercel_pattern *p, const tercel_value *value, void *user) {
  return match_both(p, tercel_pattern_fn(p, value, TERCEL_FN_MUL), match_input_gate, match_cell_gate, user);
}

static bool match_output_gate(tercel_pattern *p, const tercel_value *value, void *user) {
  const tercel_value *const gate = argument(p, value, TERCEL_FN_SIGMOID);
  return gate && match_piece(p, gate, 4, &((lstm *)user)->gates[OUTPUT]);
}

/* tanh of the new state, which is found. */
static bool match_state(tercel_pattern *p, const tercel_value *value, void *user) {
  const tercel_value *const state = argument(p, value, TERCEL_FN_TANH);
  return state && match_both(p, tercel_pattern_fn(p, state, TERCEL_FN_ADD), match_kept, match_new, user);
}

static const tercel_node *new_state_of(const tercel_node *root) {
  for (int side = 0; side < 2; side++) {
    const tercel_node *const tanh_node = tercel_fn_node(root->inputs[side], TERCEL_FN_TANH);
    if (tanh_node && tercel_fn_node(tanh_node->inputs[0], TERCEL_FN_ADD)) return tanh_node->inputs[0]->producer;
  }
  return NULL;
}

static tercel_status apply_lstm(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  char miss[TERCEL_REASON_MAX] = "";
  tercel_pattern p = {.nodes = {node}, .num_nodes = 1, .miss = miss};
  lstm l = {0};
  linear sum = {0};
  found_cell cell = {.kind = name};
  if (tercel_single_fn(node) != TERCEL_FN_MUL || !tercel_is_f32(node->outputs[0]) ||
      !match_both(&p, node, match_output_gate, match_state, &l))
    return TERCEL_OK;
  cell.c = l.c;
  cell.new_c = new_state_of(node);
  cell.order = (gate_order){.gates = 4, .hidden = l.gates[0].size};
  for (int k = 0; k < 4; k++) cell.order.at[k] = l.gates[k].index;
  if (!are_of_one(l.gates, 4)) return tercel_refused(context, name, node, err, "its gates are not parts of one value");
  if (!tercel_same_type(l.c, node->outputs[0]))
    return tercel_refused(context, name, node, err, "its states differ in shape");
  if (!match_linear(&p, l.gates[0].whole, 4 * cell.order.hidden, 0, &sum) || sum.num_products == 0 ||
      !find_operands(&p, &sum, cell.order.hidden, &cell.x, &cell.h))
    return tercel_refused(context, name, node, err, "%s", *miss ? miss : "its gates are no sum of products");
  const tercel_node *const leak = find_leak(&p, cell.new_c);
  if (leak) return refuse_leak(context, name, node, leak, err);
  TERCEL_TRY(make_bias(node->graph, &sum, NULL, &cell.order, l.forget_bias, FORGET, &cell.bias, err));
  return replace(context, name, &p, &cell, err);
}

/* ---- gru ----------------------------------------------------------------------------------------------------------- */

enum { UPDATE, RESET, NEW, NUM_GRU_GATES };

typedef struct gru {
  piece of_x[NUM_GRU_GATES], of_h[NUM_GRU_GATES];
  const tercel_value *h, *n, *z;
} gru;

/* value = piece + piece, of which the one of the whole that the new state's input is of, is of x; they are sorted later. */
static bool match_pair(tercel_pattern *p, const tercel_value *value, piece *a, piece *b) {
  const tercel_node *const add = value ? tercel_pattern_fn(p, value, TERCEL_FN_ADD) : NULL;
  return add && match_piece(p, add->inputs[0], NUM_GRU_GATES, a) && match_piece(p, add->inputs[1], NUM_GRU_GATES, b);
}

/* n = tanh(a + sigmoid(reset) e) */
static bool match_new_gate(tercel_pattern *p, const tercel_value *value, gru *g) {
  const tercel_value *const inside = argument(p, value, TERCEL_FN_TANH);
  const tercel_node *const add = inside ? tercel_pattern_fn(p, inside, TERCEL_FN_ADD) : NULL;
  for (int side = 0; add && side < 2; side++) {
    const tercel_node *const mul = tercel_pattern_fn(p, add->inputs[1 - side], TERCEL_FN_MUL);
    for (int k = 0; mul && k < 2; k++) {
      tercel_pattern tried = *p;
      if (!match_pair(&tried, argument(&tried, mul->inputs[k], TERCEL_FN_SIGMOID), &g->of_x[RESET], &g->of_h[RESET]) ||
          !match_piece(&tried, mul->inputs[1 - k], NUM_GRU_GATES, &g->of_h[NEW]) ||
          !match_piece(&tried, add->inputs[side], NUM_GRU_GATES, &g->of_x[NEW]))
        continue;
      *p = tried;
      return true;
    }
  }
  return false;
}

/* value = *a * *b */
static bool match_product(tercel_pattern *p, const tercel_value *value, const tercel_value **a,
                          const tercel_value **b) {
  const tercel_node *const mul = tercel_pattern_fn(p, value, TERCEL_FN_MUL);
  if (mul) {
    *a = mul->inputs[0];
    *b = mul->inputs[1];
  }
  return mul;
}

/* n + z (h - n) */
static bool match_step(tercel_pattern *p, const tercel_value *n, const tercel_value *rest, gru *g) {
  const tercel_value *a, *b;
  if (!match_product(p, rest, &a, &b)) return false;
  for (int k = 0; k < 2; k++) {
    const tercel_node *const sub = tercel_pattern_fn(p, k ? a : b, TERCEL_FN_SUB);
    if (!sub || sub->inputs[1] != n) continue;
    g->z = k ? b : a;
    g->h = sub->inputs[0];
    g->n = n;
    return true;
  }
  return false;
}

/* (1 - z) n + z h */
static bool match_mix(tercel_pattern *p, const tercel_value *fresh, const tercel_value *kept, gru *g) {
  const tercel_value *a, *b, *c, *d;
  double one;
  if (!match_product(p, fresh, &a, &b) || !match_product(p, kept, &c, &d)) return false;
  for (int k = 0; k < 2; k++) {
    const tercel_node *const sub = tercel_pattern_fn(p, k ? a : b, TERCEL_FN_SUB);
    if (!sub || !tercel_scalar(sub->inputs[0], &one) || one != 1) continue;
    g->z = sub->inputs[1];
    g->n = k ? b : a;
    if (g->z != c && g->z != d) return false;
    g->h = g->z == c ? d : c;
    return true;
  }
  return false;
}

/* Of a and e the pieces that lie in the new gate's part of x are of x. */
static bool sort_pieces(gru *g) {
  for (int k = 0; k < NUM_GRU_GATES; k++) {
    if (g->of_x[k].whole != g->of_x[NEW].whole) {
      const piece swapped = g->of_x[k];
      g->of_x[k] = g->of_h[k];
      g->of_h[k] = swapped;
    }
    if (g->of_x[k].index != g->of_h[k].index) return false;
  }
  return are_of_one(g->of_x, NUM_GRU_GATES) && are_of_one(g->of_h, NUM_GRU_GATES) && g->of_x[0].size == g->of_h[0].size;
}

static bool match_gru(tercel_pattern *p, const tercel_node *node, gru *g) {
  for (int side = 0; side < 2; side++) {
    const tercel_value *const a = node->inputs[side], *const b = node->inputs[1 - side];
    for (int form = 0; form < 2; form++) {
      tercel_pattern tried = *p;
      if (!(form ? match_mix : match_step)(&tried, a, b, g) || !match_new_gate(&tried, g->n, g) ||
          !match_pair(&tried, argument(&tried, g->z, TERCEL_FN_SIGMOID), &g->of_x[UPDATE], &g->of_h[UPDATE]))
        continue;
      *p = tried;
      return true;
    }
  }
  return false;
}

static tercel_status apply_gru(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  char miss[TERCEL_REASON_MAX] = "";
  tercel_pattern p = {.nodes = {node}, .num_nodes = 1, .miss = miss};
  gru g = {0};
  linear of_x = {0}, of_h = {0};
  found_cell cell = {.kind = name};
  if (tercel_single_fn(node) != TERCEL_FN_ADD || !tercel_is_f32(node->outputs[0]) || !match_gru(&p, node, &g))
    return TERCEL_OK;
  if (!sort_pieces(&g))
    return tercel_refused(context, name, node, err, "its gates are not the same parts of two values");
  if (!tercel_same_type(g.h, node->outputs[0]))
    return tercel_refused(context, name, node, err, "its states differ in shape");
  cell.order = (gate_order){.gates = NUM_GRU_GATES, .hidden = g.of_x[0].size};
  for (int k = 0; k < NUM_GRU_GATES; k++) cell.order.at[k] = g.of_x[k].index;
  const int64_t columns = NUM_GRU_GATES * cell.order.hidden;
  if (!match_linear(&p, g.of_x[0].whole, columns, 0, &of_x) || !match_linear(&p, g.of_h[0].whole, columns, 0, &of_h) ||
      of_x.num_products != 1 || of_h.num_products != 1)
    return tercel_refused(context, name, node, err, "%s", *miss ? miss : "its gates are not one product each");
  set_operand(&cell.x, of_x.products[0]->inputs[0], of_x.products[0], 0);
  set_operand(&cell.h, of_h.products[0]->inputs[0], of_h.products[0], 0);
  if (cell.h.value != g.h)
    return tercel_refused(context, name, node, err, "'%.100s' is not the product of the state '%.100s'",
                          of_h.products[0]->name, g.h->name);
  if (!tercel_dim_is_known(cell.x.rows))
    return tercel_refused(context, name, node, err, "the size of the input is not known");
  const tercel_node *const leak = find_leak(&p, NULL);
  if (leak) return refuse_leak(context, name, node, leak, err);
  TERCEL_TRY(make_bias(node->graph, &of_x, &of_h, &cell.order, 0, 0, &cell.bias, err));
  return replace(context, name, &p, &cell, err);
}

static const tercel_rule rules[] = {
    {"lstm", TERCEL_OP_POINTWISE, apply_lstm}, {"gru", TERCEL_OP_POINTWISE, apply_gru}, {0}};

tercel_status tercel_pass_cells(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  return context->shapes_only ? TERCEL_OK : tercel_run_rules(graph, rules, context, err);
}
