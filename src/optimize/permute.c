/* Nodes over permuted dims, operator by operator.  See permute.h. */
#include "optimize/permute.h"

#include <string.h>

#include "optimize/shapes.h"

enum { MOST_INPUTS = 64 };

tercel_perm tercel_perm_inverse(const tercel_perm *perm) {
  tercel_perm result = {.rank = perm->rank};
  for (int i = 0; i < perm->rank; i++) result.at[perm->at[i]] = i;
  return result;
}

tercel_perm tercel_perm_to_nhwc(int rank) {
  tercel_perm p = {.rank = rank};
  for (int i = 1; i < rank; i++) p.at[i] = i + 1 < rank ? i + 1 : 1;
  return p;
}

tercel_status tercel_add_transpose(tercel_value *x, const tercel_perm *perm, const tercel_node *like,
                                   tercel_node *before, tercel_node **out, tercel_error *err) {
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_TRANSPOSE, like, &x, 1, before, out, err));
  TERCEL_TRY(tercel_node_set_ints(*out, "perm", perm->at, (size_t)perm->rank, err));
  return tercel_infer_node(*out, err);
}

/* ---- operands that broadcast ---- */

static bool has_one_element(const tercel_value *value) {
  for (int i = 0; i < value->type.shape.rank; i++)
    if (value->type.shape.dims[i] != 1) return false;
  return value->type.shape.rank >= 0;
}

/* A constant of at most the perm's rank, laid out so that it broadcasts to permuted dims. */
static tercel_status arrange_constant(tercel_value *constant, const tercel_perm *perm, const tercel_node *like,
                                      tercel_node *before, tercel_value **out, tercel_error *err) {
  const tercel_tensor *const t = constant->constant;
  int64_t dims[TERCEL_MAX_RANK], arranged[TERCEL_MAX_RANK];
  for (int i = 0; i < perm->rank; i++) dims[i] = i < perm->rank - t->rank ? 1 : t->dims[i - (perm->rank - t->rank)];
  for (int i = 0; i < perm->rank; i++) arranged[i] = dims[perm->at[i]];
  if (tercel_only_dim(t, perm->rank) != -2) return tercel_rewrite_reshaped(constant, perm->rank, arranged, out, err);
  tercel_value *full;
  tercel_node *transpose;
  TERCEL_TRY(tercel_rewrite_reshaped(constant, perm->rank, dims, &full, err));
  TERCEL_TRY(tercel_add_transpose(full, perm, like, before, &transpose, err));
  *out = transpose->outputs[0];
  return TERCEL_OK;
}

/* Input 0 of pool, reduce and their like; the extras of a conv; all inputs of pointwise and concat. */
static bool is_data(const tercel_node *node, uint32_t i) {
  if (tercel_is(node, TERCEL_OP_POINTWISE) || tercel_is(node, TERCEL_OP_CONCAT)) return true;
  return i == 0 || (tercel_is(node, TERCEL_OP_CONV) && i >= 3);
}

/* The first input of data that neither has the node's rank nor is a constant that can be laid out anew. */
static const tercel_value *find_misfit(const tercel_node *node) {
  const int rank = tercel_permuted_rank(node);
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    const tercel_value *const input = node->inputs[i];
    if (!input || !is_data(node, i) || input->type.shape.rank == rank) continue;
    if (input->type.shape.rank > rank || input->type.shape.rank < 0) return input;
    if (!input->constant && !has_one_element(input)) return input;
  }
  return NULL;
}

/* ---- operators ---- */

/* A node being made: inputs that come permuted are so already. */
typedef struct making {
  const tercel_node *node;
  const tercel_perm *perm;
  tercel_perm places; /* where the node's dims go: its dim d becomes dim places.at[d] */
  tercel_value *inputs[MOST_INPUTS];
  uint32_t num_inputs;
  tercel_node *made; /* attributes are copied; set what differs */
} making;

static int64_t place_of(const making *m, int64_t axis) { return m->places.at[axis < 0 ? axis + m->perm->rank : axis]; }

static tercel_status set_axis(making *m, tercel_error *err) {
  return tercel_node_set_int(m->made, "axis", place_of(m, tercel_node_int(m->node, "axis")), err);
}

static tercel_status set_layout(making *m, tercel_error *err) {
  return tercel_node_set_string(m->made, "layout", "nhwc", err);
}

/* Axes from the attribute or a constant input. */
static bool read_axes(const tercel_node *node, uint32_t input, int64_t *axes, size_t *count) {
  const int64_t *const given = tercel_node_ints(node, "axes", count);
  if (!given) return tercel_constant_ints(tercel_node_input(node, input), axes, TERCEL_MAX_RANK, count);
  if (*count > TERCEL_MAX_RANK) return false;
  memcpy(axes, given, *count * sizeof *axes);
  return true;
}

/* What is left of NHWC after reducing without keepdims must lie as what is left of NCHW: channels or all spatial dims go. */
static const char *reduce_obstacle(const tercel_node *node, char buffer[TERCEL_REASON_MAX]) {
  int64_t axes[TERCEL_MAX_RANK];
  size_t count = 0;
  const int rank = tercel_permuted_rank(node);
  if (!read_axes(node, 1, axes, &count) || count == 0) return "its axes are not constant";
  if (tercel_node_int(node, "keepdims")) return NULL;
  uint32_t gone = 0;
  for (size_t i = 0; i < count; i++) gone |= 1u << (axes[i] < 0 ? axes[i] + rank : axes[i]);
  const uint32_t spatial = (1u << rank) - 4;
  if (gone & 2 || (gone & spatial) == spatial) return NULL;
  return tercel_reason(buffer, "'%.100s' keeps channels and a spatial dim, in their order", node->outputs[0]->name);
}

static tercel_status make_reduce(making *m, tercel_error *err) {
  int64_t axes[TERCEL_MAX_RANK];
  size_t count = 0;
  (void)read_axes(m->node, 1, axes, &count);
  for (size_t i = 0; i < count; i++) axes[i] = place_of(m, axes[i]);
  return tercel_node_set_ints(m->made, "axes", axes, count, err);
}

static const char *pad_obstacle(const tercel_node *node, char buffer[TERCEL_REASON_MAX]) {
  int64_t pads[2 * TERCEL_MAX_RANK];
  size_t count = 0;
  (void)buffer;
  if (tercel_node_input(node, 3) || !tercel_constant_ints(node->inputs[1], pads, 2 * TERCEL_MAX_RANK, &count) ||
      (int)count != 2 * tercel_permuted_rank(node))
    return "its pads are not constant for all dims";
  return NULL;
}

static tercel_status make_pad(making *m, tercel_error *err) {
  int64_t pads[2 * TERCEL_MAX_RANK], moved[2 * TERCEL_MAX_RANK];
  size_t count = 0;
  tercel_value *list;
  const int rank = m->perm->rank;
  (void)tercel_constant_ints(m->node->inputs[1], pads, 2 * TERCEL_MAX_RANK, &count);
  for (int i = 0; i < rank; i++)
    for (int end = 0; end < 2; end++) moved[i + end * rank] = pads[m->perm->at[i] + end * rank];
  TERCEL_TRY(tercel_graph_add_i64s(m->node->graph, m->node->inputs[1]->name, moved, count, false, &list, err));
  return tercel_node_set_input(m->made, 1, list, err);
}

/* Starts, ends and steps go along with their axes. */
static bool read_slice_axes(const tercel_node *node, int64_t *axes, size_t *count) {
  const tercel_value *const starts = tercel_node_input(node, 1), *const list = tercel_node_input(node, 3);
  if (list) return tercel_constant_ints(list, axes, TERCEL_MAX_RANK, count);
  if (!starts || starts->type.shape.rank != 1 || !tercel_dim_is_known(starts->type.shape.dims[0])) return false;
  *count = (size_t)starts->type.shape.dims[0];
  if (*count > TERCEL_MAX_RANK) return false;
  for (size_t i = 0; i < *count; i++) axes[i] = (int64_t)i;
  return true;
}

static const char *slice_obstacle(const tercel_node *node, char buffer[TERCEL_REASON_MAX]) {
  int64_t axes[TERCEL_MAX_RANK];
  size_t count = 0;
  (void)buffer;
  return read_slice_axes(node, axes, &count) ? NULL : "its axes are not constant";
}

static tercel_status make_slice(making *m, tercel_error *err) {
  int64_t axes[TERCEL_MAX_RANK];
  size_t count = 0;
  tercel_value *list;
  (void)read_slice_axes(m->node, axes, &count);
  for (size_t i = 0; i < count; i++) axes[i] = place_of(m, axes[i]);
  TERCEL_TRY(tercel_graph_add_i64s(m->node->graph, "axes", axes, count, false, &list, err));
  return tercel_node_set_input(m->made, 3, list, err);
}

static bool is_full_list(const tercel_value *value, int rank) {
  return !value || (value->constant && value->constant->rank == 1 && value->constant->dims[0] == rank);
}

/* roi, scales and sizes. */
static const char *resize_obstacle(const tercel_node *node, char buffer[TERCEL_REASON_MAX]) {
  (void)buffer;
  if (strcmp(tercel_node_string(node, "coordinate"), "tf_crop_and_resize") == 0) return "it crops";
  if (tercel_node_attr(node, "axes")) return NULL;
  const int rank = tercel_permuted_rank(node);
  const bool fits = is_full_list(tercel_node_input(node, 2), rank) && is_full_list(tercel_node_input(node, 3), rank);
  return fits ? NULL : "its sizes are not constant for all dims";
}

static tercel_status make_resize(making *m, tercel_error *err) {
  size_t count = 0;
  const int64_t *const given = tercel_node_ints(m->node, "axes", &count);
  if (tercel_node_input(m->made, 1))
    TERCEL_TRY(tercel_node_set_input(m->made, 1, NULL, err)); /* read by cropping only */
  if (given) {
    int64_t axes[TERCEL_MAX_RANK];
    for (size_t i = 0; i < count; i++) axes[i] = place_of(m, given[i]);
    return tercel_node_set_ints(m->made, "axes", axes, count, err);
  }
  for (uint32_t i = 2; i < 4; i++) {
    const tercel_value *const list = tercel_node_input(m->node, i);
    tercel_value *moved;
    if (!list) continue;
    const tercel_tensor *const t = list->constant;
    TERCEL_TRY(tercel_graph_add_new_constant(m->node->graph, list->name, t->dtype, 1, t->dims, &moved, err));
    for (int d = 0; d < m->perm->rank; d++)
      tercel_element_copy((void *)moved->constant->data, d, t->data, m->perm->at[d], t->dtype);
    TERCEL_TRY(tercel_node_set_input(m->made, i, moved, err));
  }
  return TERCEL_OK;
}

static const char *pool_obstacle(const tercel_node *node, char buffer[TERCEL_REASON_MAX]) {
  (void)buffer;
  return tercel_node_output(node, 1) ? "its indices count channels first" : NULL;
}

typedef struct rule {
  int op;
  const char *(*obstacle)(const tercel_node *node, char buffer[TERCEL_REASON_MAX]); /* NULL: none */
  tercel_status (*make)(making *m, tercel_error *err);                              /* NULL: attributes stay */
} rule;

static const rule rules[] = {
    {TERCEL_OP_CONV, NULL, set_layout},
    {TERCEL_OP_POOL, pool_obstacle, set_layout},
    {TERCEL_OP_POINTWISE, NULL, NULL},
    {TERCEL_OP_CONCAT, NULL, set_axis},
    {TERCEL_OP_SPLIT, NULL, set_axis},
    {TERCEL_OP_SOFTMAX, NULL, set_axis},
    {TERCEL_OP_REDUCE, reduce_obstacle, make_reduce},
    {TERCEL_OP_PAD, pad_obstacle, make_pad},
    {TERCEL_OP_SLICE, slice_obstacle, make_slice},
    {TERCEL_OP_RESIZE, resize_obstacle, make_resize},
};

static const rule *find_rule(const tercel_node *node) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (tercel_is(node, (tercel_op_id)rules[i].op)) return &rules[i];
  return NULL;
}

/* ---- door ---- */

int tercel_permuted_rank(const tercel_node *node) {
  const bool by_result = tercel_is(node, TERCEL_OP_POINTWISE);
  const tercel_value *const value = by_result ? tercel_node_output(node, 0) : tercel_node_input(node, 0);
  return value && value->type.kind == TERCEL_TYPE_TENSOR ? value->type.shape.rank : -1;
}

bool tercel_permutes_input(const tercel_node *node, uint32_t i) {
  const tercel_value *const input = tercel_node_input(node, i);
  return input && !input->constant && is_data(node, i) && input->type.shape.rank == tercel_permuted_rank(node);
}

bool tercel_permutes_output(const tercel_node *node, uint32_t i) {
  const tercel_value *const output = tercel_node_output(node, i);
  return output && output->type.shape.rank == tercel_permuted_rank(node);
}

const char *tercel_permute_obstacle(const tercel_node *node, char buffer[TERCEL_REASON_MAX]) {
  const rule *const r = find_rule(node);
  if (!r) return tercel_reason(buffer, "%.100s keeps the order of dims", node->op->name);
  if (node->num_inputs > MOST_INPUTS) return "it has too many inputs";
  if (tercel_permuted_rank(node) < 0) return "the rank is not known";
  const tercel_value *const misfit = find_misfit(node);
  if (misfit) return tercel_reason(buffer, "'%.100s' has fewer dims and is not constant", misfit->name);
  return r->obstacle ? r->obstacle(node, buffer) : NULL;
}

static bool needs_arranging(const tercel_node *node, uint32_t i) {
  const tercel_value *const input = node->inputs[i];
  return input && input->constant && is_data(node, i) && (!has_one_element(input) || tercel_is(node, TERCEL_OP_CONCAT));
}

tercel_status tercel_permute(tercel_node *node, const tercel_perm *perm, tercel_value *const *inputs,
                             tercel_node *before, tercel_node **out, tercel_error *err) {
  making m = {.node = node, .perm = perm, .places = tercel_perm_inverse(perm), .num_inputs = node->num_inputs};
  const rule *const r = find_rule(node);
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    m.inputs[i] = inputs[i];
    if (needs_arranging(node, i)) TERCEL_TRY(arrange_constant(node->inputs[i], perm, node, before, &m.inputs[i], err));
  }
  /* Axes that a reduce has as an input become an attribute. */
  if (tercel_is(node, TERCEL_OP_REDUCE)) m.num_inputs = 1;
  TERCEL_TRY(tercel_graph_add_node(node->graph, node->op, node->name, m.inputs, m.num_inputs, node->num_outputs, before,
                                   &m.made, err));
  m.made->num_sources = 0;
  TERCEL_TRY(tercel_node_add_sources(m.made, node, err));
  TERCEL_TRY(tercel_node_copy_attrs(m.made, node, err));
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (!node->outputs[i]) tercel_graph_remove_value(m.made->outputs[i]);
  if (r->make) TERCEL_TRY(r->make(&m, err));
  *out = m.made;
  return tercel_infer_node(m.made, err);
}
