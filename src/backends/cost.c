/* Estimates of nodes, out of those of kernels, and the sizes that free dims are taken for. */
#include "backends/cost.h"

#include <string.h>

/* ---- nominal sizes ------------------------------------------------------------------------------------------------- */

/* Pictures of the common classifiers; a sentence or two; channels, and what nothing is known of. */
enum { NOMINAL_BATCH = 1, NOMINAL_PICTURE = 224, NOMINAL_LENGTH = 64 };

static const tercel_graph *outermost(const tercel_graph *graph) {
  while (graph->parent != NULL) graph = graph->parent;
  return graph;
}

void tercel_nominal_init(tercel_nominal *nominal, const tercel_graph *graph, tercel_dim_value_of value_of, void *user) {
  *nominal = (tercel_nominal){.graph = outermost(graph), .value_of = value_of, .user = user};
  tercel_dims_init(&nominal->dims, &nominal->arena);
}

void tercel_nominal_deinit(tercel_nominal *nominal) {
  tercel_dims_deinit(&nominal->dims);
  tercel_arena_deinit(&nominal->arena);
}

static int64_t size_of_place(int rank, int axis) {
  if (axis == 0 && rank > 1) return NOMINAL_BATCH;
  return rank == 4 && axis >= 2 ? NOMINAL_PICTURE : NOMINAL_LENGTH;
}

/* Whether a dim is that symbol, or that unknown, itself. */
static bool is_called(const tercel_dims *dims, tercel_dim dim, const char *name) {
  tercel_text text = {0};
  if (tercel_dim_is_known(dim)) return false;
  tercel_dim_print(dims, dim, &text);
  const bool same = text.data != NULL && strcmp(text.data, name) == 0;
  tercel_text_deinit(&text);
  return same;
}

/* By where it stands first in an input. */
static bool nominal_size(void *user, const char *name, int64_t *out) {
  const tercel_nominal *const nominal = user;
  if (nominal->value_of != NULL && nominal->value_of(nominal->user, name, out)) return true;
  *out = NOMINAL_LENGTH;
  for (uint32_t i = 0; i < nominal->graph->num_inputs; ++i) {
    const tercel_shape *const shape = &nominal->graph->inputs[i]->type.shape;
    for (int d = 0; d < shape->rank; ++d) {
      if (!is_called(nominal->graph->dims, shape->dims[d], name)) continue;
      *out = size_of_place(shape->rank, d);
      return true;
    }
  }
  return name[0] != '?'; /* of an unknown nothing follows */
}

bool tercel_nominal_tensor(tercel_nominal *nominal, const tercel_type *type, tercel_tensor *out) {
  if (type->kind != TERCEL_TYPE_TENSOR || type->shape.rank < 0) return false;
  int64_t dims[TERCEL_MAX_RANK];
  for (int d = 0; d < type->shape.rank; ++d) {
    dims[d] = tercel_dim_translate(nominal->graph->dims, type->shape.dims[d], &nominal->dims, nominal_size, nominal);
    if (dims[d] < 0 && !tercel_dim_get_number(&nominal->dims, dims[d], &dims[d])) dims[d] = NOMINAL_LENGTH;
    if (dims[d] < 0) dims[d] = 0; /* what is left of a nominal size may be less than nothing */
  }
  *out = (tercel_tensor){0};
  return !nominal->dims.out_of_memory && tercel_tensor_set_shape(out, type->dtype, type->shape.rank, dims);
}

bool tercel_nominal_operands(tercel_nominal *nominal, const tercel_node *node, tercel_arena *memory,
                             tercel_operands *out) {
  const size_t count = (size_t)node->num_inputs + node->num_outputs;
  out->tensors = tercel_arena_alloc_array(memory, count, sizeof *out->tensors);
  out->in = tercel_arena_alloc_array(memory, count, sizeof *out->in);
  if (out->tensors == NULL || out->in == NULL) return false;
  out->out = out->in + node->num_inputs;
  for (size_t i = 0; i < count; ++i) {
    const bool is_input = i < node->num_inputs;
    const tercel_value *const value = is_input ? node->inputs[i] : node->outputs[i - node->num_inputs];
    if (value == NULL) continue;
    out->in[i] = &out->tensors[i];
    if (value->constant != NULL)
      out->in[i] = value->constant;
    else if (!tercel_nominal_tensor(nominal, &value->type, &out->tensors[i]))
      return false;
  }
  return true;
}

/* ---- kernels ------------------------------------------------------------------------------------------------------- */

/* The share by which a kernel must be cheaper than those before it: estimates are no better than that. */
static const double a_hair = 0.97;
/* What plain code takes against vector code. */
static const double reference_factor = 20;

static double bytes_of(const tercel_tensor *const *tensors, size_t count) {
  double bytes = 0;
  for (size_t i = 0; i < count; ++i)
    if (tensors[i] != NULL) bytes += (double)tensors[i]->bytes;
  return bytes;
}

double tercel_kernel_cost(const tercel_backend *backend, const tercel_kernel *kernel, const tercel_node *node,
                          const tercel_tensor *const *in, const tercel_tensor *const *out,
                          const tercel_target *target) {
  if (kernel->cost != NULL) return kernel->cost(kernel, node, in, out, target);
  if (backend->cost == NULL || node->num_outputs == 0 || out[0] == NULL) return 0;
  const double flops =
      node->op->flops != NULL ? node->op->flops(node, in, out) : (double)tercel_tensor_num_elements(out[0]);
  const double bytes = bytes_of(in, node->num_inputs) + bytes_of(out, node->num_outputs);
  if (kernel == tercel_reference_kernel()) return reference_factor * backend->cost(flops, bytes, 1);
  return backend->cost(flops, bytes, target->num_threads);
}

const tercel_kernel *tercel_kernel_choose(const tercel_backend *backend, const tercel_node *node,
                                          const tercel_tensor *const *in, const tercel_tensor *const *out,
                                          const tercel_target *target, double *cost_out) {
  const tercel_kernel *first = NULL, *best = NULL, *kernel;
  double best_cost = 0;
  for (size_t i = 0; (kernel = backend->kernel(node, i)) != NULL; ++i) {
    if (best != NULL && kernel->cost == NULL) continue;
    if (!tercel_kernel_supports(kernel, node, target)) continue;
    if (first != NULL && !tercel_kernel_stands_in(kernel, first, target)) continue;
    if (first == NULL) first = kernel;
    const double cost = tercel_kernel_cost(backend, kernel, node, in, out, target);
    if (best != NULL && (best->cost == NULL || cost >= a_hair * best_cost)) continue;
    best = kernel;
    best_cost = cost;
  }
  if (cost_out != NULL) *cost_out = best_cost;
  return best;
}

double tercel_node_cost(const tercel_backend *backend, const tercel_node *node, tercel_nominal *nominal,
                        const tercel_target *target) {
  if (node->op->flags & (TERCEL_OP_VIEW | TERCEL_OP_CONTROL)) return 0;
  tercel_arena memory = {0};
  tercel_operands operands;
  double cost = 0;
  if (tercel_nominal_operands(nominal, node, &memory, &operands))
    tercel_kernel_choose(backend, node, operands.in, operands.out, target, &cost);
  tercel_arena_deinit(&memory);
  return cost;
}
