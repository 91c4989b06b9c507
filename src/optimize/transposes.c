/* Transposes: two in a row become one, those that undo each other go, those that move only dims of 1 become reshapes,
 * matmul reads transposed operands by itself, and the rest sinks towards the outputs through operators that don't
 * care for the order of dims, where it meets others.  Sinking alone saves nothing but never adds a transpose, and it
 * only goes one way, so it ends. */
#include <string.h>

#include "optimize/rules.h"
#include "optimize/shapes.h"

/* y's dim i is x's dim at[i]. */
typedef struct perm {
  int rank;
  int64_t at[TERCEL_MAX_RANK];
} perm;

static bool read_perm(const tercel_node *transpose, perm *out) {
  size_t count;
  out->rank = transpose->inputs[0]->type.shape.rank;
  const int64_t *const given = tercel_node_ints(transpose, "perm", &count);
  if (out->rank < 0 || (given && (int)count != out->rank)) return false;
  for (int i = 0; i < out->rank; i++) {
    out->at[i] = given ? given[i] : out->rank - 1 - i;
    if (out->at[i] < 0) out->at[i] += out->rank;
  }
  return true;
}

static bool is_identity(const perm *p) {
  for (int i = 0; i < p->rank; i++)
    if (p->at[i] != i) return false;
  return true;
}

static bool equal_perms(const perm *a, const perm *b) {
  return a->rank == b->rank && memcmp(a->at, b->at, (size_t)a->rank * sizeof *a->at) == 0;
}

static perm inverse(const perm *p) {
  perm result = {.rank = p->rank};
  for (int i = 0; i < p->rank; i++) result.at[p->at[i]] = i;
  return result;
}

static tercel_status add_transpose(tercel_value *x, const perm *p, const tercel_node *like, tercel_node *before,
                                   tercel_node **out, tercel_error *err) {
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_TRANSPOSE, like, &x, 1, before, out, err));
  TERCEL_TRY(tercel_node_set_ints(*out, "perm", p->at, (size_t)p->rank, err));
  return tercel_infer_node(*out, err);
}

/* ---- transposes of their own ---- */

static tercel_status apply_merge(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  const tercel_node *const inner = tercel_producer(node->inputs[0], TERCEL_OP_TRANSPOSE);
  perm outer, first, both;
  if (!inner || !read_perm(node, &outer) || !read_perm(inner, &first)) return TERCEL_OK;
  both.rank = outer.rank;
  for (int i = 0; i < both.rank; i++) both.at[i] = first.at[outer.at[i]];
  if (is_identity(&both)) return tercel_rewrite_node(context, "cancel", node, inner->inputs[0], err);
  tercel_node *made;
  TERCEL_TRY(add_transpose(inner->inputs[0], &both, node, node, &made, err));
  TERCEL_TRY(tercel_node_add_sources(made, inner, err));
  return tercel_rewrite_node(context, name, node, made->outputs[0], err);
}

static tercel_status apply_identity(tercel_pass_context *context, const char *name, tercel_node *node,
                                    tercel_error *err) {
  perm p;
  if (!read_perm(node, &p) || !is_identity(&p)) return TERCEL_OK;
  return tercel_rewrite_node(context, name, node, node->inputs[0], err);
}

/* Dims other than 1 keep their order: the bytes stay where they are. */
static tercel_status apply_reshape(tercel_pass_context *context, const char *name, tercel_node *node,
                                   tercel_error *err) {
  perm p;
  int64_t target[TERCEL_MAX_RANK], last = -1;
  const tercel_shape *const shape = &node->inputs[0]->type.shape;
  if (!read_perm(node, &p)) return TERCEL_OK;
  for (int i = 0; i < p.rank; i++) {
    if (shape->dims[p.at[i]] == 1) continue;
    if (p.at[i] < last) return TERCEL_OK;
    last = p.at[i];
  }
  if (!tercel_reshape_target(shape, &node->outputs[0]->type.shape, target)) return TERCEL_OK;
  tercel_node *made;
  TERCEL_TRY(tercel_add_reshape(node->inputs[0], target, p.rank, node, node, &made, err));
  return tercel_rewrite_node(context, name, node, made->outputs[0], err);
}

/* The last two dims swapped in a view that merges those before them, then split again: torch's exporter spells attention's keys so. */
static tercel_status apply_batched(tercel_pass_context *context, const char *name, tercel_node *node,
                                   tercel_error *err) {
  const tercel_node *const transpose = tercel_producer(node->inputs[0], TERCEL_OP_TRANSPOSE);
  const tercel_node *const merge = transpose ? tercel_producer(transpose->inputs[0], TERCEL_OP_RESHAPE) : NULL;
  perm p;
  if (!merge || !read_perm(transpose, &p) || p.rank != 3 || p.at[0] != 0 || p.at[1] != 2) return TERCEL_OK;
  const tercel_shape *const from = &merge->inputs[0]->type.shape, *const merged = &merge->outputs[0]->type.shape;
  const tercel_shape *const to = &node->outputs[0]->type.shape;
  perm swap = {.rank = from->rank};
  if (from->rank < 3 || to->rank != from->rank) return TERCEL_OK;
  for (int i = 0; i < from->rank; i++) {
    swap.at[i] = i < from->rank - 2 ? i : 2 * from->rank - 3 - i;
    if (to->dims[i] != from->dims[swap.at[i]]) return TERCEL_OK;
  }
  if (merged->dims[1] != from->dims[from->rank - 2] || merged->dims[2] != from->dims[from->rank - 1]) return TERCEL_OK;
  tercel_node *made;
  TERCEL_TRY(add_transpose(merge->inputs[0], &swap, node, node, &made, err));
  TERCEL_TRY(tercel_node_add_sources(made, transpose, err));
  TERCEL_TRY(tercel_node_add_sources(made, merge, err));
  return tercel_rewrite_node(context, name, node, made->outputs[0], err);
}

/* ---- matmul ---- */

/* An operand whose last two dims are swapped is read so; one whose rows end up scattered is transposed by whole rows
 * instead, and read swapped. */
static tercel_status apply_matmul_operand(tercel_pass_context *context, const char *name, tercel_node *node,
                                          uint32_t side, tercel_error *err) {
  tercel_node *const transpose = tercel_producer(node->inputs[side], TERCEL_OP_TRANSPOSE);
  const char *const attr = side ? "trans_b" : "trans_a";
  perm p;
  if (!transpose || !read_perm(transpose, &p) || p.rank < 2) return TERCEL_OK;
  const int last = p.rank - 1;
  if (p.at[last] == last) return TERCEL_OK;
  const int64_t moved = p.at[last];
  p.at[last] = p.at[last - 1];
  p.at[last - 1] = moved;
  tercel_value *operand = transpose->inputs[0];
  if (!is_identity(&p)) {
    char uses[TERCEL_REASON_MAX];
    if (p.at[last] != last) return TERCEL_OK;
    if (!tercel_has_one_use(node->inputs[side]))
      return tercel_refused(context, name, node, err, "%s", tercel_describe_uses(node->inputs[side], node, uses));
    tercel_node *rows;
    TERCEL_TRY(add_transpose(operand, &p, transpose, node, &rows, err));
    operand = rows->outputs[0];
  } else {
    TERCEL_TRY(tercel_node_add_sources(node, transpose, err));
  }
  TERCEL_TRY(tercel_made(context, name, node, transpose, err));
  TERCEL_TRY(tercel_node_set_int(node, attr, !tercel_node_int(node, attr), err));
  TERCEL_TRY(tercel_node_set_input(node, side, operand, err));
  return tercel_infer_node(node, err);
}

static tercel_status apply_matmul(tercel_pass_context *context, const char *name, tercel_node *node,
                                  tercel_error *err) {
  for (uint32_t side = 0; side < 2 && !context->changed; side++)
    TERCEL_TRY(apply_matmul_operand(context, name, node, side, err));
  return TERCEL_OK;
}

/* ---- sinking ---- */

/* What is sunk through a node: the order that its transposed inputs share. */
typedef struct sink {
  perm order;
  tercel_value *inputs[TERCEL_PROGRAM_MAX_INPUTS]; /* before the transposes, constants arranged to match */
} sink;

static bool has_one_element(const tercel_value *value) {
  for (int i = 0; i < value->type.shape.rank; i++)
    if (value->type.shape.dims[i] != 1) return false;
  return value->type.shape.rank >= 0;
}

/* A constant laid out so that transposing it gives what it was. */
static tercel_status arrange_constant(tercel_value *constant, const perm *order, tercel_node *before,
                                      tercel_value **out, tercel_error *err) {
  const tercel_tensor *const t = constant->constant;
  int64_t dims[TERCEL_MAX_RANK], arranged[TERCEL_MAX_RANK];
  for (int i = 0; i < order->rank; i++) {
    const int from = i - (order->rank - t->rank);
    dims[i] = from < 0 ? 1 : t->dims[from];
    arranged[order->at[i]] = dims[i];
  }
  if (tercel_only_dim(t, order->rank) != -2) return tercel_rewrite_reshaped(constant, order->rank, arranged, out, err);
  tercel_value *full;
  tercel_node *transpose;
  const perm back = inverse(order);
  TERCEL_TRY(tercel_rewrite_reshaped(constant, order->rank, dims, &full, err));
  TERCEL_TRY(add_transpose(full, &back, before, before, &transpose, err));
  *out = transpose->outputs[0];
  return TERCEL_OK;
}

/* Finds the common order; false when the node has no transposed input or *why not (a text in the buffer). */
static bool find_order(const tercel_node *node, sink *s, const char **why, char buffer[TERCEL_REASON_MAX]) {
  const int rank = node->outputs[0]->type.shape.rank;
  bool found = false;
  *why = NULL;
  if (node->num_inputs > TERCEL_PROGRAM_MAX_INPUTS) return false;
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    const tercel_node *const transpose = tercel_producer(node->inputs[i], TERCEL_OP_TRANSPOSE);
    perm p;
    if (!transpose || !read_perm(transpose, &p)) continue;
    if (found && !equal_perms(&p, &s->order))
      *why = tercel_reason(buffer, "'%.100s' is transposed in another way than the input before it",
                           node->inputs[i]->name);
    if (!tercel_is_read_only_by(node->inputs[i], node)) *why = tercel_describe_uses(node->inputs[i], node, buffer);
    if (p.rank != rank && tercel_is(node, TERCEL_OP_POINTWISE))
      *why = tercel_describe_broadcast(node->inputs[i], node->outputs[0], buffer);
    s->order = p;
    found = true;
  }
  return found && !*why;
}

/* The first input that is neither transposed nor a constant that can be laid out anew; NULL without one. */
static const tercel_value *find_misfit(const tercel_node *node, const sink *s) {
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    const tercel_value *const input = node->inputs[i];
    if (!tercel_producer(input, TERCEL_OP_TRANSPOSE) && !input->constant && !has_one_element(input)) return input;
    if (input->constant && input->type.shape.rank > s->order.rank) return input;
  }
  return NULL;
}

/* Inputs as they are before the transposes. */
static tercel_status gather_inputs(tercel_node *node, sink *s, tercel_error *err) {
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    tercel_value *const input = node->inputs[i];
    const tercel_node *const transpose = tercel_producer(input, TERCEL_OP_TRANSPOSE);
    if (transpose)
      s->inputs[i] = transpose->inputs[0];
    else if (has_one_element(input))
      s->inputs[i] = input;
    else
      TERCEL_TRY(arrange_constant(input, &s->order, node, &s->inputs[i], err));
  }
  return TERCEL_OK;
}

static tercel_status copy_attrs(const tercel_node *from, tercel_node *to, tercel_error *err) {
  for (uint32_t i = 0; i < from->num_attrs; i++) {
    const tercel_attr *const a = &from->attrs[i];
    if (a->kind == TERCEL_ATTR_INT) TERCEL_TRY(tercel_node_set_int(to, a->name, a->value.i, err));
    if (a->kind == TERCEL_ATTR_STRING) TERCEL_TRY(tercel_node_set_string(to, a->name, a->value.s, err));
    if (a->kind == TERCEL_ATTR_PROGRAM) TERCEL_TRY(tercel_node_set_program(to, a->name, a->value.program, err));
  }
  return TERCEL_OK;
}

/* The node again over `inputs`, not inferred yet. */
static tercel_status start(tercel_node *node, tercel_value *const *inputs, size_t count, tercel_node **out,
                           tercel_error *err) {
  TERCEL_TRY(tercel_rewrite_add((tercel_op_id)node->op->id, node, inputs, count, node, out, err));
  return copy_attrs(node, *out, err);
}

/* Infers `moved` and puts a transpose behind it in place of the node. */
static tercel_status finish(tercel_pass_context *context, const char *name, tercel_node *node, tercel_node *moved,
                            const perm *order, tercel_error *err) {
  tercel_node *transpose;
  TERCEL_TRY(tercel_infer_node(moved, err));
  tercel_value *result = moved->outputs[0];
  if (!is_identity(order)) {
    TERCEL_TRY(add_transpose(result, order, node, node, &transpose, err));
    result = transpose->outputs[0];
  }
  return tercel_rewrite_node(context, name, node, result, err);
}

/* ax(is) of the node in the order before the transpose. */
static int64_t axis_before(const perm *order, int64_t axis) { return order->at[axis < 0 ? axis + order->rank : axis]; }

/* pointwise and concat: all inputs are alike. */
static tercel_status apply_sink_many(tercel_pass_context *context, const char *name, tercel_node *node,
                                     tercel_error *err) {
  sink s;
  const char *why;
  char buffer[TERCEL_REASON_MAX];
  tercel_node *moved;
  const bool is_concat = tercel_is(node, TERCEL_OP_CONCAT);
  if (!find_order(node, &s, &why, buffer)) return why ? tercel_refused(context, name, node, err, "%s", why) : TERCEL_OK;
  const tercel_value *const misfit = find_misfit(node, &s);
  if (misfit)
    return tercel_refused(context, name, node, err, "'%.100s' is neither transposed nor constant", misfit->name);
  TERCEL_TRY(gather_inputs(node, &s, err));
  for (uint32_t i = 0; i < node->num_inputs && is_concat; i++)
    if (!tercel_producer(node->inputs[i], TERCEL_OP_TRANSPOSE) && has_one_element(node->inputs[i])) {
      const int64_t ones[TERCEL_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
      if (node->inputs[i]->type.shape.rank != s.order.rank || !node->inputs[i]->constant) return TERCEL_OK;
      TERCEL_TRY(tercel_rewrite_reshaped(node->inputs[i], s.order.rank, ones, &s.inputs[i], err));
    }
  TERCEL_TRY(start(node, s.inputs, node->num_inputs, &moved, err));
  if (is_concat)
    TERCEL_TRY(tercel_node_set_int(moved, "axis", axis_before(&s.order, tercel_node_int(node, "axis")), err));
  return finish(context, name, node, moved, &s.order, err);
}

/* Operators with one input of data: finds its order. */
static tercel_status find_single(tercel_pass_context *context, const char *name, const tercel_node *node, perm *order,
                                 bool *found, tercel_error *err) {
  const tercel_node *const transpose = tercel_producer(node->inputs[0], TERCEL_OP_TRANSPOSE);
  char uses[TERCEL_REASON_MAX];
  *found = false;
  if (!transpose || !read_perm(transpose, order)) return TERCEL_OK;
  if (!tercel_has_one_use(node->inputs[0]))
    return tercel_refused(context, name, node, err, "%s", tercel_describe_uses(node->inputs[0], node, uses));
  *found = true;
  return TERCEL_OK;
}

static tercel_status apply_sink_softmax(tercel_pass_context *context, const char *name, tercel_node *node,
                                        tercel_error *err) {
  perm order;
  bool found;
  tercel_node *moved;
  TERCEL_TRY(find_single(context, name, node, &order, &found, err));
  if (!found) return TERCEL_OK;
  TERCEL_TRY(start(node, node->inputs[0]->producer->inputs, 1, &moved, err));
  TERCEL_TRY(tercel_node_set_int(moved, "axis", axis_before(&order, tercel_node_int(node, "axis")), err));
  return finish(context, name, node, moved, &order, err);
}

/* Reduced dims go (or become 1, which the order then moves as before). */
static perm order_after_reduce(const perm *order, uint32_t reduced_before, bool keepdims) {
  perm result = {0};
  if (keepdims) return *order;
  for (int i = 0; i < order->rank; i++) {
    const unsigned from = (unsigned)order->at[i];
    if (reduced_before >> from & 1) continue;
    const uint32_t before = ((1u << from) - 1) & ~reduced_before;
    result.at[result.rank++] = __builtin_popcount(before);
  }
  return result;
}

static tercel_status apply_sink_reduce(tercel_pass_context *context, const char *name, tercel_node *node,
                                       tercel_error *err) {
  perm order;
  bool found;
  size_t count = 0;
  int64_t axes[TERCEL_MAX_RANK];
  uint32_t reduced = 0;
  tercel_node *moved;
  TERCEL_TRY(find_single(context, name, node, &order, &found, err));
  if (!found) return TERCEL_OK;
  const int64_t *given = tercel_node_ints(node, "axes", &count);
  if (!given && tercel_constant_ints(tercel_node_input(node, 1), axes, TERCEL_MAX_RANK, &count)) given = axes;
  if (!given || count == 0 || count > TERCEL_MAX_RANK)
    return tercel_refused(context, name, node, err, "its axes are not constant");
  for (size_t i = 0; i < count; i++) {
    axes[i] = axis_before(&order, given[i]);
    reduced |= 1u << axes[i];
  }
  TERCEL_TRY(start(node, node->inputs[0]->producer->inputs, 1, &moved, err));
  TERCEL_TRY(tercel_node_set_ints(moved, "axes", axes, count, err));
  const perm after = order_after_reduce(&order, reduced, tercel_node_int(node, "keepdims") != 0);
  return finish(context, name, node, moved, &after, err);
}

static tercel_status apply_sink_pad(tercel_pass_context *context, const char *name, tercel_node *node,
                                    tercel_error *err) {
  perm order;
  bool found;
  size_t count;
  int64_t pads[2 * TERCEL_MAX_RANK], moved_pads[2 * TERCEL_MAX_RANK];
  tercel_node *moved;
  TERCEL_TRY(find_single(context, name, node, &order, &found, err));
  if (!found) return TERCEL_OK;
  if (tercel_node_input(node, 3) || !tercel_constant_ints(node->inputs[1], pads, 2 * TERCEL_MAX_RANK, &count) ||
      (int)count != 2 * order.rank)
    return tercel_refused(context, name, node, err, "its pads are not constant for all dims");
  for (int i = 0; i < order.rank; i++)
    for (int end = 0; end < 2; end++) moved_pads[order.at[i] + end * order.rank] = pads[i + end * order.rank];
  tercel_value *inputs[3] = {node->inputs[0]->producer->inputs[0], NULL, tercel_node_input(node, 2)};
  TERCEL_TRY(tercel_graph_add_i64s(node->graph, node->inputs[1]->name, moved_pads, count, false, &inputs[1], err));
  TERCEL_TRY(start(node, inputs, inputs[2] ? 3 : 2, &moved, err));
  return finish(context, name, node, moved, &order, err);
}

static const tercel_rule rules[] = {
    {"identity", TERCEL_OP_TRANSPOSE, apply_identity},
    {"merge", TERCEL_OP_TRANSPOSE, apply_merge},
    {"reshape", TERCEL_OP_TRANSPOSE, apply_reshape},
    {"matmul", TERCEL_OP_MATMUL, apply_matmul},
    {"sink", TERCEL_OP_POINTWISE, apply_sink_many},
    {"sink", TERCEL_OP_CONCAT, apply_sink_many},
    {"sink", TERCEL_OP_SOFTMAX, apply_sink_softmax},
    {"sink", TERCEL_OP_REDUCE, apply_sink_reduce},
    {"sink", TERCEL_OP_PAD, apply_sink_pad},
    {"batched", TERCEL_OP_RESHAPE, apply_batched},
    {0},
};

tercel_status tercel_pass_transposes(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  return tercel_run_rules(graph, rules, context, err);
}
