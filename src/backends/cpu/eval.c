/* One node on constants, outside of any plan: the kernel that a plan would take, prepared, bound and run once on this thread. */
#include "backends/cost.h"
#include "backends/cpu/cpu.h"

/* Bytes of outputs below which the reference is fast enough. */
static const size_t few_bytes = 64 << 10;

/* Outputs with the shapes that inference noted; false when one isn't known.  *bytes_out: of all of them. */
static bool shape_outputs(const tercel_node *node, tercel_tensor *out, size_t *bytes_out) {
  size_t bytes = 0;
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    out[i] = (tercel_tensor){.rank = -1};
    if (node->outputs[i] == NULL) continue;
    const tercel_type *type = &node->outputs[i]->type;
    if (type->kind != TERCEL_TYPE_TENSOR || type->dtype == TERCEL_DTYPE_STRING ||
        !tercel_shape_is_known(&type->shape) ||
        !tercel_tensor_set_shape(&out[i], type->dtype, type->shape.rank, type->shape.dims) ||
        !tercel_add_size(bytes, out[i].bytes, &bytes))
      return false;
  }
  *bytes_out = bytes;
  return true;
}

static bool is_for_kernels(const tercel_node *node) {
  return !(node->op->flags & (TERCEL_OP_VIEW | TERCEL_OP_DATA_DEPENDENT | TERCEL_OP_CONTROL));
}

static tercel_status give_memory(const tercel_node *node, tercel_tensor *out, tercel_tensor **outputs,
                                 tercel_storage **storages, tercel_error *err) {
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    outputs[i] = NULL;
    if (node->outputs[i] == NULL) continue;
    TERCEL_TRY(tercel_storage_create(out[i].bytes, &storages[i], err));
    out[i].data = tercel_storage_data(storages[i]);
    outputs[i] = &out[i];
  }
  return TERCEL_OK;
}

static tercel_status run_kernel(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                                const tercel_tensor *const *in, tercel_tensor *const *out, tercel_arena *arena,
                                tercel_error *err) {
  tercel_kernel_state state = {0};
  tercel_kernel_binding binding = {0};
  tercel_storage *workspace = NULL;
  tercel_status status = TERCEL_OK;
  TERCEL_TRY(tercel_kernel_prepare(kernel, node, target, NULL, &state, err));
  if (kernel->bind != NULL)
    TERCEL_CHECK(
        kernel->bind(kernel, node, state.data, in, (const tercel_tensor *const *)out, target, arena, &binding, err));
  TERCEL_CHECK(tercel_storage_create(binding.workspace_bytes, &workspace, err));
  const tercel_kernel_run run = {.node = node,
                                 .kernel = kernel,
                                 .state = state.data,
                                 .binding = binding.data,
                                 .num_inputs = node->num_inputs,
                                 .num_outputs = node->num_outputs,
                                 .in = in,
                                 .out = out,
                                 .workspace = tercel_storage_data(workspace),
                                 .target = target,
                                 .scratch = arena};
  TERCEL_CHECK(kernel->run(&run, err));
done:
  tercel_storage_release(workspace);
  tercel_kernel_release(kernel, &state);
  return status;
}

/* least_bytes: of outputs that a kernel is prepared for. */
static tercel_status evaluate(const tercel_node *node, const tercel_target *target, size_t least_bytes,
                              const tercel_tensor *const *in, tercel_tensor *out, tercel_storage **storages_out,
                              tercel_error *err) {
  size_t bytes;
  if (!is_for_kernels(node) || !shape_outputs(node, out, &bytes) || bytes < least_bytes)
    return tercel_eval_node(node, in, out, storages_out, err);
  tercel_arena arena = {0};
  tercel_status status = TERCEL_OK;
  for (uint32_t i = 0; i < node->num_outputs; ++i) storages_out[i] = NULL;
  tercel_tensor **const outputs = tercel_arena_alloc_array(&arena, node->num_outputs, sizeof *outputs);
  if (outputs == NULL) {
    status = tercel_fail_memory(err, node->num_outputs * sizeof *outputs, "evaluation");
    goto done;
  }
  TERCEL_CHECK(give_memory(node, out, outputs, storages_out, err));
  const tercel_kernel *const kernel =
      tercel_kernel_choose(tercel_cpu_backend(), node, in, (const tercel_tensor *const *)outputs, target, NULL);
  if (kernel == NULL)
    TERCEL_CHECK(tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': no kernel", node->op->name, node->name));
  TERCEL_CHECK(run_kernel(kernel, node, target, in, outputs, &arena, err));
done:
  if (status != TERCEL_OK) {
    for (uint32_t i = 0; i < node->num_outputs; ++i) {
      tercel_storage_release(storages_out[i]);
      storages_out[i] = NULL;
    }
  }
  tercel_arena_deinit(&arena);
  return status;
}

tercel_status tercel_cpu_eval_node(const tercel_node *node, const tercel_tensor *const *in, tercel_tensor *out,
                                   tercel_storage **storages_out, tercel_error *err) {
  static const tercel_target target = {.num_threads = 1};
  return evaluate(node, &target, few_bytes, in, out, storages_out, err);
}

tercel_status tercel_cpu_eval_node_exact(const tercel_node *node, const tercel_tensor *const *in, tercel_tensor *out,
                                         tercel_storage **storages_out, tercel_error *err) {
  static const tercel_target target = {.num_threads = 1, .deterministic = true};
  return evaluate(node, &target, 0, in, out, storages_out, err);
}
