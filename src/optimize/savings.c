/* What decisions save.
 *
 * A decision changes a few nodes, but which ones only its rule knows; so the work of the whole graph is counted before and
 * after.  Sizes of values and flops of nodes are kept meanwhile: a count is one walk over the nodes. */
#include "optimize/savings.h"

#include <string.h>

enum { NOT_COUNTED = -1, MAX_OPERANDS = 64 };

void tercel_savings_init(tercel_savings *s) {
  *s = (tercel_savings){0};
  tercel_dims_init(&s->dims, &s->arena);
}

void tercel_savings_deinit(tercel_savings *s) {
  tercel_dims_deinit(&s->dims);
  tercel_arena_deinit(&s->arena);
  tercel_free(s->bytes);
  tercel_free(s->flops);
  tercel_free(s->live);
}

/* ---- values and nodes ---- */

static bool as_one(void *user, const char *symbol, int64_t *out) {
  (void)user, (void)symbol;
  *out = 1;
  return true;
}

/* A tensor of the value's shape with 1 in place of free dims, without data; false when that says nothing. */
static bool shape_of(tercel_savings *s, const tercel_value *value, tercel_tensor *out) {
  const tercel_shape *const shape = &value->type.shape;
  int64_t dims[TERCEL_MAX_RANK];
  *out = (tercel_tensor){0};
  if (value->type.kind != TERCEL_TYPE_TENSOR || value->type.dtype == TERCEL_DTYPE_NONE || shape->rank < 0) return false;
  for (int i = 0; i < shape->rank; i++) {
    dims[i] = shape->dims[i];
    if (!tercel_dim_is_known(dims[i]))
      dims[i] = tercel_dim_translate(value->graph->dims, dims[i], &s->dims, as_one, NULL);
    if (!tercel_dim_is_known(dims[i])) dims[i] = 1;
  }
  return tercel_tensor_set_shape(out, value->type.dtype, shape->rank, dims);
}

static double bytes_of(tercel_savings *s, const tercel_value *value) {
  tercel_tensor tensor;
  if (s->bytes[value->id] == NOT_COUNTED) s->bytes[value->id] = shape_of(s, value, &tensor) ? (double)tensor.bytes : 0;
  return s->bytes[value->id];
}

/* 0 when an operand has no shape. */
static double count_flops(tercel_savings *s, const tercel_node *node) {
  tercel_tensor tensors[2 * MAX_OPERANDS];
  const tercel_tensor *in[MAX_OPERANDS] = {0}, *out[MAX_OPERANDS] = {0};
  if (node->num_inputs > MAX_OPERANDS || node->num_outputs > MAX_OPERANDS || node->op->flags & TERCEL_OP_CONTROL)
    return 0;
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    const tercel_value *const value = node->inputs[i];
    if (value && !value->constant && !shape_of(s, value, &tensors[i])) return 0;
    if (value) in[i] = value->constant ? value->constant : &tensors[i];
  }
  for (uint32_t i = 0; i < node->num_outputs; i++) {
    tercel_tensor *const tensor = &tensors[MAX_OPERANDS + i];
    if (node->outputs[i] && !shape_of(s, node->outputs[i], tensor)) return 0;
    if (node->outputs[i]) out[i] = tensor;
  }
  return node->op->flops ? node->op->flops(node, in, out) : out[0] ? (double)tercel_tensor_num_elements(out[0]) : 0;
}

static double flops_of(tercel_savings *s, const tercel_node *node) {
  if (!node->outputs[0]) return count_flops(s, node);
  double *const known = &s->flops[node->outputs[0]->id];
  if (*known == NOT_COUNTED) *known = count_flops(s, node);
  return *known;
}

/* ---- graphs ---- */

static tercel_status make_room(tercel_savings *s, const tercel_graph *graph, tercel_error *err) {
  const uint32_t have = s->capacity, want = graph->num_values;
  if (want <= have) return TERCEL_OK;
  const size_t capacity = 2 * (size_t)want;
  double *const bytes = tercel_realloc(s->bytes, have * sizeof *bytes, capacity * sizeof *bytes);
  if (bytes) s->bytes = bytes;
  double *const flops = tercel_realloc(s->flops, have * sizeof *flops, capacity * sizeof *flops);
  if (flops) s->flops = flops;
  bool *const live = tercel_realloc(s->live, have * sizeof *live, capacity * sizeof *live);
  if (live) s->live = live;
  if (!bytes || !flops || !live) return tercel_fail_memory(err, capacity * sizeof *bytes, "counting savings");
  for (size_t i = have; i < capacity; i++) s->bytes[i] = s->flops[i] = NOT_COUNTED;
  s->capacity = (uint32_t)capacity;
  return TERCEL_OK;
}

static void forget(tercel_savings *s) {
  for (uint32_t i = 0; i < s->capacity; i++) s->bytes[i] = s->flops[i] = NOT_COUNTED;
}

static bool is_live(const tercel_savings *s, const tercel_node *node) {
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i] && (node->outputs[i]->num_output_uses || s->live[node->outputs[i]->id])) return true;
  return false;
}

static bool is_read_before(const tercel_node *node, uint32_t i) {
  for (uint32_t k = 0; k < i; k++)
    if (node->inputs[k] == node->inputs[i]) return true;
  return false;
}

/* Views move nothing, and x * x reads x once. */
static void add_node(tercel_savings *s, const tercel_node *node, tercel_work *work) {
  work->num_nodes++;
  work->flops += flops_of(s, node);
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    if (!node->inputs[i] || is_read_before(node, i)) continue;
    s->live[node->inputs[i]->id] = true;
    if (!(node->op->flags & TERCEL_OP_VIEW)) work->bytes += bytes_of(s, node->inputs[i]);
  }
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i] && !(node->op->flags & TERCEL_OP_VIEW)) work->bytes += bytes_of(s, node->outputs[i]);
}

static tercel_status count(tercel_savings *s, const tercel_graph *graph, tercel_work *out, tercel_error *err) {
  const int64_t start = tercel_time_ns();
  *out = (tercel_work){0};
  TERCEL_TRY(make_room(s, graph, err));
  if (graph->num_values) memset(s->live, 0, graph->num_values * sizeof *s->live);
  for (const tercel_node *node = graph->last; node; node = node->previous)
    if (is_live(s, node)) add_node(s, node, out);
  s->total_ns += tercel_time_ns() - start;
  return tercel_dims_check(&s->dims, err);
}

tercel_status tercel_savings_count(tercel_savings *s, const tercel_graph *graph, tercel_work *out, tercel_error *err) {
  forget(s);
  TERCEL_TRY(count(s, graph, out, err));
  for (const tercel_node *node = graph->first; node; node = node->next)
    for (uint32_t i = 0; i < node->num_graphs; i++) {
      tercel_work inner;
      TERCEL_TRY(tercel_savings_count(s, node->graphs[i], &inner, err));
      out->num_nodes += inner.num_nodes;
      out->bytes += inner.bytes;
      out->flops += inner.flops;
    }
  return TERCEL_OK;
}

/* ---- passes ---- */

/* What was counted may be known better since: the shapes pass changes no node. */
tercel_status tercel_savings_begin(tercel_pass_context *context, const tercel_graph *graph, tercel_error *err) {
  tercel_savings *const s = context->savings;
  if (!s) return TERCEL_OK;
  s->graph = graph;
  s->pending = 0;
  forget(s);
  return count(s, graph, &s->work, err);
}

tercel_status tercel_savings_settle(tercel_pass_context *context, tercel_error *err) {
  tercel_savings *const s = context->savings;
  tercel_work now;
  if (!s || !s->pending) return TERCEL_OK;
  TERCEL_TRY(count(s, s->graph, &now, err));
  tercel_decision *const decision = &context->decisions->items[s->pending - 1];
  decision->bytes_saved = s->work.bytes - now.bytes;
  decision->flops_saved = s->work.flops - now.flops;
  s->work = now;
  s->pending = 0;
  return TERCEL_OK;
}
