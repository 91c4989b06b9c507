/* Constant folding: what depends on constants only is computed now, by the operators' reference kernels
 * or what the caller has in their place (context->eval).
 *
 * Not folded: what would store much more than it reads (a mask expanded from one number is cheaper made in each run
 * than kept), and what would take the reference kernel too long. */
#include "optimize/rewrite.h"

static const size_t max_bytes = 64 << 20; /* of all outputs */
static const size_t free_bytes = 1 << 20; /* of outputs, whatever the inputs are */
static const size_t growth = 8;           /* outputs may take so many times what the inputs do, beyond that */
static const double max_flops = 4e9;
static const size_t max_shape_bytes = 4 << 10; /* read and stored where only shapes matter */

/* An operator's constant inputs as tensors; false when one is not constant. */
static bool gather_inputs(const tercel_node *node, const tercel_tensor **in, size_t *bytes) {
  *bytes = 0;
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    in[i] = node->inputs[i] ? node->inputs[i]->constant : NULL;
    if (node->inputs[i] && !in[i]) return false;
    if (in[i]) *bytes += in[i]->bytes;
  }
  return true;
}

/* Total bytes of the outputs as far as inference knows their shapes; false when they overflow. */
static bool count_outputs(const tercel_node *node, tercel_tensor *out, size_t *bytes) {
  *bytes = 0;
  for (uint32_t i = 0; i < node->num_outputs; i++) {
    const tercel_type *const type = node->outputs[i] ? &node->outputs[i]->type : NULL;
    out[i] = (tercel_tensor){0};
    if (!type || !tercel_shape_is_known(&type->shape)) continue;
    if (!tercel_tensor_set_shape(&out[i], type->dtype, type->shape.rank, type->shape.dims) ||
        !tercel_add_size(*bytes, out[i].bytes, bytes))
      return false;
  }
  return true;
}

static double flops_of(const tercel_node *node, const tercel_tensor *const *in, tercel_tensor *out,
                       tercel_arena *scratch) {
  const tercel_tensor **const shapes = tercel_arena_alloc_array(scratch, node->num_outputs, sizeof *shapes);
  if (!shapes || !node->op->flops) return 0;
  for (uint32_t i = 0; i < node->num_outputs; i++) {
    if (node->outputs[i] && !tercel_shape_is_known(&node->outputs[i]->type.shape)) return 0;
    shapes[i] = node->outputs[i] ? &out[i] : NULL;
  }
  return node->op->flops(node, in, shapes);
}

/* What a file declares of a value and what comes out may contradict each other: then the node stays, and the run says so. */
static bool is_as_declared(const tercel_node *node, const tercel_tensor *out, tercel_storage *const *storages) {
  for (uint32_t i = 0; i < node->num_outputs; i++) {
    if (!node->outputs[i] || !storages[i]) continue;
    const tercel_shape *const want = &node->outputs[i]->type.shape;
    if (want->rank >= 0 && want->rank != out[i].rank) return false;
    for (int d = 0; d < want->rank; d++)
      if (tercel_dim_is_known(want->dims[d]) && want->dims[d] != out[i].dims[d]) return false;
  }
  return true;
}

static tercel_status replace_outputs(tercel_node *node, const tercel_tensor *out, tercel_storage *const *storages,
                                     tercel_error *err) {
  for (uint32_t i = 0; i < node->num_outputs; i++) {
    if (!node->outputs[i] || !storages[i]) continue;
    tercel_value *constant;
    TERCEL_TRY(tercel_graph_add_constant(node->graph, node->outputs[i]->name, &out[i], storages[i], &constant, err));
    TERCEL_TRY(tercel_rewrite_replace(node->outputs[i], constant, err));
  }
  return TERCEL_OK;
}

/* A node that can't be computed (an index out of range, say) stays: it may never run, and if it does, it says so
 * then. */
static tercel_status fold(tercel_node *node, const tercel_tensor *const *in, tercel_tensor *out, tercel_arena *scratch,
                          tercel_pass_context *context, tercel_error *err) {
  tercel_error why = {0};
  tercel_storage **const storages = tercel_arena_alloc_array(scratch, node->num_outputs, sizeof(void *));
  if (!storages) return tercel_fail_memory(err, node->num_outputs * sizeof(void *), "constant folding");
  tercel_status status = context->eval(node, in, out, storages, &why);
  if (status == TERCEL_OUT_OF_MEMORY) return tercel_fail(err, status, "%s", why.message);
  if (status != TERCEL_OK) return tercel_refused(context, "fold", node, err, "%s", why.message);
  const bool is_sound = is_as_declared(node, out, storages);
  status = is_sound ? tercel_made(context, "fold", node, NULL, err)
                    : tercel_refused(context, "fold", node, err, "its result has another shape than the graph says");
  if (status == TERCEL_OK && is_sound) status = replace_outputs(node, out, storages, err);
  for (uint32_t i = 0; i < node->num_outputs; i++) tercel_storage_release(storages[i]);
  if (status == TERCEL_OK && is_sound) tercel_graph_remove_node(node);
  return status;
}

static bool has_readers(const tercel_node *node) {
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i] && tercel_value_num_uses(node->outputs[i])) return true;
  return false;
}

static tercel_status try_node(tercel_node *node, tercel_arena *scratch, tercel_pass_context *context,
                              tercel_error *err) {
  size_t in_bytes, out_bytes;
  const tercel_tensor **const in = tercel_arena_alloc_array(scratch, node->num_inputs, sizeof *in);
  tercel_tensor *const out = tercel_arena_alloc_array(scratch, node->num_outputs, sizeof *out);
  if (!in || !out) return tercel_fail_memory(err, node->num_inputs * sizeof *in, "constant folding");
  if (!gather_inputs(node, in, &in_bytes)) return TERCEL_OK;
  if (context->shapes_only && in_bytes > max_shape_bytes) return TERCEL_OK;
  if (!count_outputs(node, out, &out_bytes) || out_bytes > max_bytes || out_bytes > free_bytes + growth * in_bytes)
    return tercel_refused(context, "fold", node, err, "%zu bytes would be stored for %zu that are read", out_bytes,
                          in_bytes);
  if (context->shapes_only && out_bytes > max_shape_bytes) return TERCEL_OK;
  const double flops = flops_of(node, in, out, scratch);
  if (flops > max_flops) return tercel_refused(context, "fold", node, err, "it takes %.3g operations", flops);
  return fold(node, in, out, scratch, context, err);
}

tercel_status tercel_pass_fold(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  tercel_arena scratch = {0};
  tercel_status status = TERCEL_OK;
  for (tercel_node *node = graph->first, *next; node && status == TERCEL_OK; node = next) {
    next = node->next;
    const unsigned no = TERCEL_OP_IMPURE | TERCEL_OP_STATEFUL | TERCEL_OP_CONTROL;
    if (node->op->flags & no || !node->op->eval || !has_readers(node)) continue;
    status = try_node(node, &scratch, context, err);
    tercel_arena_reset(&scratch);
  }
  tercel_arena_deinit(&scratch);
  return status;
}
