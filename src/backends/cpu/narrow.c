/* matmul, conv and conv_transpose on f16 and bf16: operands are widened to f32 (constants once), the f32 kernel runs, the result is rounded.
 *
 * The f32 kernel sees a node of its own, in a small graph that the state owns: the same operator and attributes over f32 operands.
 * Nodes with an epilogue are left to the reference, whose programs round after each instruction. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/kernels/pointwise.h"

enum { MOST_INPUTS = 3 };

typedef struct state {
  tercel_graph *graph;
  tercel_node *node; /* over f32 */
  const tercel_kernel *inner;
  tercel_kernel_state inner_state;
  tercel_lanes_fn widen, narrow;
} state;

typedef struct binding {
  tercel_kernel_binding inner;
  size_t num_inputs;
  tercel_tensor in[MOST_INPUTS], out; /* f32; data: of constants */
  size_t in_at[MOST_INPUTS], out_at;  /* in the workspace, behind the inner kernel's */
} binding;

static bool is_narrow(tercel_dtype dtype) { return dtype == TERCEL_DTYPE_F16 || dtype == TERCEL_DTYPE_BF16; }

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  static const int most_ranks[] = {
      [TERCEL_OP_MATMUL] = TERCEL_MAX_RANK, [TERCEL_OP_CONV] = 5, [TERCEL_OP_CONV_TRANSPOSE] = 4};
  if (node->num_inputs > MOST_INPUTS || tercel_node_program(node, "epilogue") != NULL) return false;
  const tercel_type *type = &node->inputs[0]->type;
  for (size_t i = 0; i < node->num_inputs; ++i)
    if (node->inputs[i] != NULL && (!is_narrow(type->dtype) || node->inputs[i]->type.dtype != type->dtype))
      return false;
  return type->shape.rank >= 0 && type->shape.rank <= most_ranks[node->op->id] && node->inputs[1]->type.shape.rank >= 0;
}

static void release(void *data) {
  state *s = data;
  if (s == NULL) return;
  if (s->inner != NULL) tercel_kernel_release(s->inner, &s->inner_state);
  tercel_graph_destroy(s->graph);
  tercel_free(s);
}

/* ---- the node over f32 ---- */

static void convert(tercel_lanes_fn fn, void *dst, const void *src, int64_t count) {
  const tercel_lanes lanes = {.dst = dst, .src = {src}, .step = {1}, .n = count};
  fn(&lanes);
}

static tercel_status add_operand(const state *s, const tercel_value *value, tercel_value **out, tercel_error *err) {
  const tercel_tensor *constant = value->constant;
  if (constant != NULL) {
    TERCEL_TRY(tercel_graph_add_new_constant(s->graph, value->name, TERCEL_DTYPE_F32, constant->rank, constant->dims,
                                             out, err));
    convert(s->widen, (*out)->constant->data, constant->data, tercel_tensor_num_elements(constant));
    return TERCEL_OK;
  }
  tercel_type type = value->type;
  type.dtype = TERCEL_DTYPE_F32;
  for (int i = 0; i < type.shape.rank; ++i) /* symbols belong to the other graph */
    if (!tercel_dim_is_known(type.shape.dims[i])) type.shape.dims[i] = tercel_dim_unknown(s->graph->dims);
  return tercel_graph_add_input(s->graph, value->name, &type, out, err);
}

static tercel_status copy_attr(tercel_node *node, const tercel_attr *attr, tercel_error *err) {
  switch (attr->kind) {
  case TERCEL_ATTR_INT: return tercel_node_set_int(node, attr->name, attr->value.i, err);
  case TERCEL_ATTR_FLOAT: return tercel_node_set_float(node, attr->name, attr->value.f, err);
  case TERCEL_ATTR_STRING: return tercel_node_set_string(node, attr->name, attr->value.s, err);
  case TERCEL_ATTR_INTS: return tercel_node_set_ints(node, attr->name, attr->value.ints, attr->count, err);
  default: return tercel_fail(err, TERCEL_INTERNAL, "attribute '%s' of an unexpected kind", attr->name);
  }
}

static tercel_status make_node(const tercel_node *node, state *s, tercel_error *err) {
  TERCEL_TRY(tercel_graph_create("widened", &s->graph, err));
  tercel_value *inputs[MOST_INPUTS] = {NULL};
  for (size_t i = 0; i < node->num_inputs; ++i)
    if (node->inputs[i] != NULL) TERCEL_TRY(add_operand(s, node->inputs[i], &inputs[i], err));
  TERCEL_TRY(tercel_graph_add_node(s->graph, node->op, node->name, inputs, node->num_inputs, 1, NULL, &s->node, err));
  for (size_t i = 0; i < node->num_attrs; ++i) TERCEL_TRY(copy_attr(s->node, &node->attrs[i], err));
  return tercel_infer_node(s->node, err);
}

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  state *s = tercel_zalloc(sizeof *s);
  if (s == NULL) return tercel_fail_memory(err, sizeof *s, "a widened node");
  tercel_status status = TERCEL_OK;
  const tercel_pointwise_kernels *loops = TERCEL_CPU_PICK_FOR(target, tercel_pointwise_kernels);
  const bool f16 = node->inputs[0]->type.dtype == TERCEL_DTYPE_F16;
  s->widen = f16 ? loops->f16_load : loops->bf16_load;
  s->narrow = f16 ? loops->f16_store : loops->bf16_store;
  TERCEL_CHECK(make_node(node, s, err));
  const tercel_backend *backend = tercel_cpu_backend();
  for (size_t i = 0; s->inner == NULL; ++i) {
    const tercel_kernel *candidate = backend->kernel(s->node, i);
    if (tercel_kernel_supports(candidate, s->node, target)) s->inner = candidate;
  }
  TERCEL_CHECK(tercel_kernel_prepare(s->inner, s->node, target, NULL, &s->inner_state, err));
  out->data = s;
  out->packed_bytes += s->inner_state.packed_bytes;
  for (size_t i = 0; i < node->num_inputs; ++i)
    if (node->inputs[i] != NULL && node->inputs[i]->constant != NULL) out->unused_inputs |= 1u << i;
done:
  if (status != TERCEL_OK) release(s);
  return status;
}

/* ---- bind and run ---- */

/* The tensor as f32, with room behind the `*bytes` of the workspace so far. */
static bool widened(const tercel_tensor *tensor, tercel_tensor *out, size_t *at, size_t *bytes) {
  size_t room;
  if (!tercel_tensor_set_shape(out, TERCEL_DTYPE_F32, tensor->rank, tensor->dims)) return false;
  out->data = NULL;
  *at = *bytes;
  return tercel_round_up_size(out->bytes, TERCEL_ALIGNMENT, &room) && tercel_add_size(*bytes, room, bytes);
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state_data,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  (void)kernel;
  const state *s = state_data;
  binding *b = tercel_arena_alloc(arena, sizeof *b);
  if (b == NULL) return tercel_fail_memory(err, sizeof *b, "a widened node");
  b->num_inputs = node->num_inputs;
  size_t bytes = 0;
  const tercel_tensor *inner_in[MOST_INPUTS] = {NULL}, *inner_out[] = {&b->out};
  bool fits = widened(out[0], &b->out, &b->out_at, &bytes);
  for (size_t i = 0; i < node->num_inputs && fits; ++i) {
    if (in[i] == NULL) continue;
    inner_in[i] = &b->in[i];
    const tercel_tensor *constant = s->node->inputs[i]->constant;
    if (constant != NULL)
      b->in[i] = *constant;
    else
      fits = widened(in[i], &b->in[i], &b->in_at[i], &bytes);
  }
  if (!fits) return tercel_fail_memory(err, SIZE_MAX, "a widened node");
  TERCEL_TRY(
      s->inner->bind(s->inner, s->node, s->inner_state.data, inner_in, inner_out, target, arena, &b->inner, err));
  result->data = b;
  if (!tercel_round_up_size(b->inner.workspace_bytes, TERCEL_ALIGNMENT, &b->inner.workspace_bytes) ||
      !tercel_add_size(b->inner.workspace_bytes, bytes, &result->workspace_bytes))
    return tercel_fail_memory(err, SIZE_MAX, "a widened node");
  return TERCEL_OK;
}

typedef struct job {
  tercel_lanes_fn fn;
  uint8_t *dst;
  const uint8_t *src;
  size_t dst_bytes, src_bytes; /* of an element */
} job;

static void convert_piece(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  convert(j->fn, j->dst + (size_t)begin * j->dst_bytes, j->src + (size_t)begin * j->src_bytes, end - begin);
}

enum { CONVERT_GRAIN = 16384 };

static tercel_status run(const tercel_kernel_run *r, tercel_error *err) {
  const state *s = r->state;
  const binding *b = r->binding;
  uint8_t *space = (uint8_t *)r->workspace + b->inner.workspace_bytes;
  tercel_tensor in[MOST_INPUTS], out = b->out, *outputs[] = {&out};
  const tercel_tensor *inputs[MOST_INPUTS] = {NULL};
  for (size_t i = 0; i < b->num_inputs; ++i) {
    if (r->in[i] == NULL) continue;
    in[i] = b->in[i];
    inputs[i] = &in[i];
    if (in[i].data != NULL || s->node->inputs[i]->constant != NULL) continue;
    in[i].data = space + b->in_at[i];
    job j = {.fn = s->widen, .dst = in[i].data, .src = r->in[i]->data, .dst_bytes = 4, .src_bytes = 2};
    tercel_pool_run(r->pool, tercel_tensor_num_elements(&in[i]), CONVERT_GRAIN, convert_piece, &j);
  }
  out.data = space + b->out_at;
  tercel_kernel_run inner = *r;
  inner.node = s->node;
  inner.kernel = s->inner;
  inner.state = s->inner_state.data;
  inner.binding = b->inner.data;
  inner.in = inputs;
  inner.out = outputs;
  TERCEL_TRY(s->inner->run(&inner, err));
  job j = {.fn = s->narrow, .dst = r->out[0]->data, .src = out.data, .dst_bytes = 2, .src_bytes = 4};
  tercel_pool_run(r->pool, tercel_tensor_num_elements(&out), CONVERT_GRAIN, convert_piece, &j);
  return TERCEL_OK;
}

#define NARROW(op_name, op_id)                                                                                         \
  const tercel_kernel tercel_kernel_##op_name##_narrow = {.name = #op_name ".narrow",                                  \
                                                          .op = op_id,                                                 \
                                                          .supports = supports,                                        \
                                                          .prepare = prepare,                                          \
                                                          .release = release,                                          \
                                                          .bind = bind,                                                \
                                                          .run = run};
NARROW(matmul, TERCEL_OP_MATMUL)
NARROW(conv, TERCEL_OP_CONV)
NARROW(conv_transpose, TERCEL_OP_CONV_TRANSPOSE)
