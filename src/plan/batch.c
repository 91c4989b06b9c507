/* Follows the batch from the inputs through every node.  A value is
 *
 *     SHARED   the same for all items: constants, inputs without the batch, and what follows from these alone
 *     ITEMS    dims [batch, ...], where index i follows from item i (and from what is shared) alone
 *     SIZES    integers that tell shapes, computed from the shapes of ITEMS: in a piece they tell the piece's
 *
 * A node with ITEMS among its inputs has to be one of those below, in a form that keeps them apart. */
#include "plan/batch.h"

#include "ops/ops.h"

typedef enum kind { SHARED, ITEMS, SIZES, UNKNOWN } kind;

typedef struct follower {
  const tercel_graph *graph;
  tercel_dim batch;
  uint8_t *kinds; /* by value id */
} follower;

static kind kind_of(const follower *f, const tercel_node *node, size_t i) {
  const tercel_value *const value = tercel_node_input(node, i);
  return value == NULL ? SHARED : (kind)f->kinds[value->id];
}

static const tercel_shape *shape_of(const tercel_value *value) { return &value->type.shape; }

/* [batch, ...] with the batch nowhere else: an axis 0 of that size is then the batch wherever it comes from. */
static bool is_items(const follower *f, const tercel_value *value) {
  const tercel_shape *const shape = shape_of(value);
  if (value->type.kind != TERCEL_TYPE_TENSOR || value->type.state || value->type.dtype == TERCEL_DTYPE_STRING)
    return false;
  if (shape->rank < 1 || shape->dims[0] != f->batch || tercel_dtype_bits(value->type.dtype) < 8) return false;
  for (int d = 1; d < shape->rank; ++d)
    if (shape->dims[d] == f->batch) return false;
  return true;
}

/* Shared values that are broadcast against [batch, ...]: not along the batch. */
static bool is_broadcast(const tercel_value *value, int rank) {
  const tercel_shape *const shape = shape_of(value);
  if (shape->rank < 0 || shape->rank > rank) return false;
  return shape->rank < rank || shape->dims[0] == 1;
}

/* Inputs from `first` on are read by broadcasting to the output. */
static bool broadcasts(const follower *f, const tercel_node *node, size_t first) {
  const int rank = shape_of(node->outputs[0])->rank;
  for (size_t i = first; i < node->num_inputs; ++i) {
    const tercel_value *const value = node->inputs[i];
    const kind k = kind_of(f, node, i);
    if (value == NULL) continue;
    if (k == ITEMS ? shape_of(value)->rank != rank : k != SHARED || !is_broadcast(value, rank)) return false;
  }
  return true;
}

/* Inputs first .. last - 1 are shared: weights, biases. */
static bool shares(const follower *f, const tercel_node *node, size_t first, size_t last) {
  for (size_t i = first; i < last; ++i)
    if (kind_of(f, node, i) != SHARED) return false;
  return true;
}

/* The attribute is an axis other than the first. */
static bool is_inner_axis(const tercel_node *node) {
  const int64_t axis = tercel_node_int(node, "axis");
  return axis > 0 || (axis < 0 && -axis < shape_of(node->inputs[0])->rank);
}

/* ---- operators ----------------------------------------------------------------------------------------------------- */

static bool pointwise(const follower *f, const tercel_node *node) { return broadcasts(f, node, 0); }

/* (x, weights, bias, extras...) */
static bool weighted(const follower *f, const tercel_node *node) {
  return kind_of(f, node, 0) == ITEMS && shares(f, node, 1, 3) && broadcasts(f, node, 3);
}

static bool normalized(const follower *f, const tercel_node *node) { return weighted(f, node) && is_inner_axis(node); }

/* (a, b, bias, extras...): rows of a against a shared b, or item by item. */
static bool product(const follower *f, const tercel_node *node) {
  const int rank = shape_of(node->outputs[0])->rank, rank_a = shape_of(node->inputs[0])->rank;
  const int rank_b = shape_of(node->inputs[1])->rank;
  if (kind_of(f, node, 0) != ITEMS || rank != rank_a || rank < 2 || kind_of(f, node, 2) != SHARED) return false;
  if (rank == 2 && tercel_node_int(node, "trans_a") != 0) return false;
  const bool apart = kind_of(f, node, 1) == ITEMS
                         ? rank_b == rank && rank > 2
                         : kind_of(f, node, 1) == SHARED && (rank_b == 2 || is_broadcast(node->inputs[1], rank));
  return apart && broadcasts(f, node, 3);
}

/* x alone, and what is shared. */
static bool alone(const follower *f, const tercel_node *node) {
  return kind_of(f, node, 0) == ITEMS && shares(f, node, 1, node->num_inputs);
}

/* Indices of maxima count through the whole batch. */
static bool pooled(const follower *f, const tercel_node *node) {
  return alone(f, node) && tercel_node_output(node, 1) == NULL;
}

static bool along_inner_axis(const follower *f, const tercel_node *node) {
  return alone(f, node) && is_inner_axis(node);
}

/* The shape may have been computed: is_items of the output says what counts. */
static bool reshaped(const follower *f, const tercel_node *node) { return kind_of(f, node, 0) == ITEMS; }

static bool joined(const follower *f, const tercel_node *node) {
  for (size_t i = 0; i < node->num_inputs; ++i)
    if (kind_of(f, node, i) != ITEMS) return false;
  return is_inner_axis(node);
}

/* A table of rows and indices of items, or the same indices in each item. */
static bool gathered(const follower *f, const tercel_node *node) {
  if (kind_of(f, node, 0) == ITEMS) return kind_of(f, node, 1) == SHARED && is_inner_axis(node);
  return kind_of(f, node, 0) == SHARED && kind_of(f, node, 1) == ITEMS && tercel_node_int(node, "axis") == 0;
}

/* (q, k, v, ...), rank 3 or 4: each of the batch has its own, masks are broadcast. */
static bool attended(const follower *f, const tercel_node *node) {
  for (size_t i = 0; i < 3; ++i)
    if (kind_of(f, node, i) != ITEMS) return false;
  return broadcasts(f, node, 3) && node->num_outputs == 1;
}

static bool (*rule_of(const tercel_op *op))(const follower *, const tercel_node *) {
  switch (op->id) {
  case TERCEL_OP_POINTWISE: return pointwise;
  case TERCEL_OP_CONV:
  case TERCEL_OP_CONV_TRANSPOSE:
  case TERCEL_OP_GROUP_NORM: return weighted;
  case TERCEL_OP_LAYER_NORM:
  case TERCEL_OP_RMS_NORM: return normalized;
  case TERCEL_OP_MATMUL: return product;
  case TERCEL_OP_POOL: return pooled;
  case TERCEL_OP_TRANSPOSE:
  case TERCEL_OP_REDUCE: return alone;
  case TERCEL_OP_SOFTMAX: return along_inner_axis;
  case TERCEL_OP_RESHAPE:
  case TERCEL_OP_FLATTEN:
  case TERCEL_OP_SQUEEZE:
  case TERCEL_OP_UNSQUEEZE: return reshaped;
  case TERCEL_OP_SPLIT: return along_inner_axis;
  case TERCEL_OP_CONCAT: return joined;
  case TERCEL_OP_GATHER: return gathered;
  case TERCEL_OP_ATTENTION: return attended;
  default: return NULL;
  }
}

/* ---- the walk ------------------------------------------------------------------------------------------------------ */

static kind kind_of_results(const follower *f, const tercel_node *node) {
  const unsigned mixed = TERCEL_OP_IMPURE | TERCEL_OP_CONTROL | TERCEL_OP_DATA_DEPENDENT | TERCEL_OP_STATEFUL;
  bool has_items = false, has_sizes = false;
  if (node->op->flags & mixed) return UNKNOWN;
  for (size_t i = 0; i < node->num_inputs; ++i) {
    const kind k = kind_of(f, node, i);
    if (k == UNKNOWN) return UNKNOWN;
    has_items |= k == ITEMS;
    has_sizes |= k == SIZES;
  }
  if (!has_items) return has_sizes ? SIZES : SHARED;
  if (node->op->id == TERCEL_OP_SHAPE) return SIZES;
  bool (*const rule)(const follower *, const tercel_node *) = rule_of(node->op);
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    if (node->outputs[i] != NULL && !is_items(f, node->outputs[i])) return UNKNOWN;
  return rule != NULL && node->outputs[0] != NULL && rule(f, node) ? ITEMS : UNKNOWN;
}

static bool follow(const follower *f) {
  for (const tercel_node *node = f->graph->first; node != NULL; node = node->next) {
    const kind k = kind_of_results(f, node);
    for (uint32_t i = 0; i < node->num_outputs; ++i)
      if (node->outputs[i] != NULL) f->kinds[node->outputs[i]->id] = (uint8_t)k;
    if (k == UNKNOWN) return false;
  }
  for (uint32_t k = 0; k < f->graph->num_outputs; ++k)
    if (f->kinds[f->graph->outputs[k]->id] != ITEMS) return false;
  return f->graph->num_outputs > 0;
}

/* The first free first dim of an input. */
static bool find_batch(const tercel_graph *graph, tercel_dim *out) {
  for (uint32_t i = 0; i < graph->num_inputs; ++i) {
    const tercel_type *const type = &graph->inputs[i]->type;
    if (type->kind != TERCEL_TYPE_TENSOR || type->shape.rank < 1 || tercel_dim_is_known(type->shape.dims[0])) continue;
    *out = type->shape.dims[0];
    return true;
  }
  return false;
}

tercel_status tercel_batch_find(const tercel_graph *graph, bool *found, tercel_dim *batch_out, bool *items,
                                tercel_error *err) {
  follower f = {.graph = graph};
  *found = find_batch(graph, &f.batch);
  if (!*found) return TERCEL_OK;
  f.kinds = tercel_zalloc((size_t)graph->num_values + 1);
  if (f.kinds == NULL) return tercel_fail_memory(err, graph->num_values, "following the batch");
  for (uint32_t i = 0; i < graph->num_inputs; ++i) {
    const tercel_value *const input = graph->inputs[i];
    bool has_batch = shape_of(input)->rank < 0 || input->type.kind != TERCEL_TYPE_TENSOR;
    for (int d = 0; d < shape_of(input)->rank; ++d) has_batch |= shape_of(input)->dims[d] == f.batch;
    if (has_batch && !is_items(&f, input)) *found = false;
    f.kinds[input->id] = has_batch ? ITEMS : SHARED;
    if (items != NULL) items[i] = has_batch;
  }
  *found = *found && follow(&f);
  tercel_free(f.kinds);
  *batch_out = f.batch;
  return TERCEL_OK;
}
