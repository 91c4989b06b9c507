/* Lowering: nodes become steps, kernels are chosen and prepared, lifetimes of values counted.
 * The first kernel that a backend offers and that supports the node is taken; measuring them is a tuner's matter. */
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"

tercel_status tercel_fail_at_node(const tercel_node *node, tercel_status status, tercel_error *err) {
  if (err == NULL) return status;
  char place[256];
  const int length = snprintf(place, sizeof place, "%s '%s'", node->op->name, node->name);
  const size_t shown = length < 0 ? 0 : (size_t)length < sizeof place ? (size_t)length : sizeof place - 1;
  return strncmp(err->message, place, shown) == 0 ? status : tercel_fail_at(err, status, "%s", place);
}

/* What is gathered over a graph and its subgraphs. */
typedef struct lowering {
  const tercel_backend *backend;
  const tercel_target *target;
  uint32_t num_rows;
  tercel_text unsupported; /* one entry a node */
  size_t num_unsupported;
} lowering;

enum { MAX_UNSUPPORTED_SHOWN = 8 };

static void note_unsupported(lowering *lower, const tercel_node *node) {
  if (lower->num_unsupported++ >= MAX_UNSUPPORTED_SHOWN) return;
  tercel_text_add(&lower->unsupported, "%s%s '%s' (", lower->unsupported.length > 0 ? ", " : "", node->op->name,
                  node->name);
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    tercel_text_add(&lower->unsupported, i > 0 ? ", " : "");
    if (node->inputs[i] == NULL)
      tercel_text_add(&lower->unsupported, "none");
    else
      tercel_type_print(node->graph->dims, &node->inputs[i]->type, &lower->unsupported);
  }
  tercel_text_add(&lower->unsupported, ")");
}

/* Inference looks into lists of few integers when shapes are bound. */
static bool may_be_looked_at(const tercel_tensor *t) {
  return !tercel_dtype_is_float(t->dtype) && t->rank <= 1 && tercel_tensor_num_elements(t) <= TERCEL_MAX_CONTENTS;
}

/* Constants that a kernel packed whole need not stay in memory, unless another node reads them. */
static void forget_packed(const tercel_step *step) {
  const tercel_node *const node = step->node;
  for (uint32_t i = 0; i < node->num_inputs && i < 32; ++i) {
    tercel_value *const value = node->inputs[i];
    if (!(step->state.unused_inputs & (1u << i)) || value == NULL || value->constant == NULL) continue;
    if (may_be_looked_at(value->constant)) continue;
    tercel_storage_forget(value->storage, value->constant->data, value->constant->bytes);
    const bool in_memory = value->storage != NULL && !tercel_storage_is_mapped(value->storage);
    if (in_memory && tercel_value_num_uses(value) == 1) tercel_value_drop_data(value);
  }
}

const tercel_kernel *tercel_plan_choose(const tercel_backend *backend, const tercel_node *node) {
  const tercel_kernel *kernel;
  for (size_t i = 0; (kernel = backend->kernel(node, i)) != NULL; ++i)
    if (kernel->supports(kernel, node)) break;
  return kernel;
}

static tercel_status choose_kernel(lowering *lower, tercel_step *step, tercel_error *err) {
  const tercel_node *const node = step->node;
  const tercel_kernel *const kernel = tercel_plan_choose(lower->backend, node);
  if (kernel == NULL) {
    note_unsupported(lower, node);
    return TERCEL_OK;
  }
  if (kernel->prepare != NULL) {
    tercel_kernel_state state = {0};
    const tercel_status status = kernel->prepare(kernel, node, lower->target, &state, err);
    if (status != TERCEL_OK) return tercel_fail_at_node(node, status, err);
    step->state = state;
    forget_packed(step);
  }
  step->kernel = kernel;
  return TERCEL_OK;
}

static tercel_status lower_graph(lowering *lower, tercel_graph *graph, tercel_plan **out, tercel_error *err);

static tercel_status lower_node(lowering *lower, tercel_plan *plan, tercel_step *step, tercel_error *err) {
  const tercel_node *const node = step->node;
  step->row = lower->num_rows++;
  if (!(node->op->flags & TERCEL_OP_CONTROL)) TERCEL_TRY(choose_kernel(lower, step, err));
  plan->packed_bytes += step->state.packed_bytes;
  if (node->num_graphs == 0) return TERCEL_OK;
  step->plans = tercel_zalloc_array(node->num_graphs, sizeof(tercel_plan *));
  if (step->plans == NULL) return tercel_fail_memory(err, node->num_graphs * sizeof(tercel_plan *), "a plan");
  for (; step->num_plans < node->num_graphs; ++step->num_plans) {
    TERCEL_TRY(lower_graph(lower, node->graphs[step->num_plans], &step->plans[step->num_plans], err));
    plan->packed_bytes += step->plans[step->num_plans]->packed_bytes;
  }
  return TERCEL_OK;
}

static void count_lives(tercel_plan *plan) {
  const tercel_graph *const graph = plan->graph;
  for (uint32_t s = 0; s < plan->num_steps; ++s) {
    const tercel_node *const node = plan->steps[s].node;
    for (uint32_t i = 0; i < node->num_inputs; ++i)
      if (node->inputs[i] != NULL) plan->lives[node->inputs[i]->id].last = s;
    for (uint32_t i = 0; i < node->num_outputs; ++i)
      if (node->outputs[i] != NULL) plan->lives[node->outputs[i]->id] = (tercel_life){s, s};
  }
  for (uint32_t i = 0; i < graph->num_outputs; ++i) plan->lives[graph->outputs[i]->id].last = TERCEL_NO_STEP;
}

static tercel_status lower_graph(lowering *lower, tercel_graph *graph, tercel_plan **out, tercel_error *err) {
  tercel_status status = TERCEL_OK;
  tercel_plan *const plan = tercel_zalloc(sizeof *plan);
  if (plan == NULL) return tercel_fail_memory(err, sizeof *plan, "a plan");
  plan->graph = graph;
  plan->target = *lower->target;
  /* One more of each, so that empty graphs need no special case. */
  plan->steps = tercel_zalloc_array((size_t)graph->num_nodes + 1, sizeof *plan->steps);
  plan->lives = tercel_zalloc_array((size_t)graph->num_values + 1, sizeof *plan->lives);
  if (plan->steps == NULL || plan->lives == NULL) {
    status = tercel_fail_memory(err, graph->num_nodes * sizeof *plan->steps, "a plan");
    goto done;
  }
  const uint32_t first_row = lower->num_rows;
  for (const tercel_node *node = graph->first; node != NULL; node = node->next) {
    tercel_step *const step = &plan->steps[plan->num_steps++];
    step->node = node;
    TERCEL_CHECK(lower_node(lower, plan, step, err));
  }
  plan->num_rows = lower->num_rows - first_row;
  count_lives(plan);
  *out = plan;
done:
  if (status != TERCEL_OK) tercel_plan_destroy(plan);
  return status;
}

static void count_reference(const tercel_step *step, int depth, void *user) {
  (void)depth;
  uint32_t *const counts = user;
  if (step->kernel == tercel_reference_kernel() && !(step->node->op->flags & TERCEL_OP_VIEW))
    ++counts[step->node->op->id];
}

/* A fallback to plain kernels is not silent. */
static void report_reference(const tercel_plan *plan) {
  if (!tercel_log_enabled(TERCEL_LOG_INFO)) return;
  uint32_t counts[TERCEL_OP_COUNT] = {0};
  tercel_plan_visit(plan, count_reference, counts);
  for (int i = 0; i < TERCEL_OP_COUNT; ++i)
    if (counts[i] > 0)
      tercel_log(TERCEL_LOG_INFO,
                 "%u %s node%s run on the plain reference kernel: no fast one takes their types or shapes", counts[i],
                 tercel_ops()[i]->name, counts[i] > 1 ? "s" : "");
}

tercel_status tercel_plan_create(tercel_graph *graph, const tercel_backend *backend, const tercel_target *target,
                                 tercel_plan **out, tercel_error *err) {
  lowering lower = {.backend = backend, .target = target};
  tercel_plan *plan = NULL;
  tercel_status status = lower_graph(&lower, graph, &plan, err);
  if (status == TERCEL_OK && lower.num_unsupported > 0)
    status = tercel_fail(err, TERCEL_UNSUPPORTED, "no kernel for %zu node%s: %s%s", lower.num_unsupported,
                         lower.num_unsupported > 1 ? "s" : "", lower.unsupported.data ? lower.unsupported.data : "",
                         lower.num_unsupported > MAX_UNSUPPORTED_SHOWN ? ", ..." : "");
  tercel_text_deinit(&lower.unsupported);
  if (status != TERCEL_OK) {
    tercel_plan_destroy(plan);
    return status;
  }
  report_reference(plan);
  *out = plan;
  return TERCEL_OK;
}

void tercel_plan_destroy(tercel_plan *plan) {
  if (plan == NULL) return;
  for (uint32_t s = 0; s < plan->num_steps; ++s) {
    tercel_step *const step = &plan->steps[s];
    for (uint32_t i = 0; i < step->num_plans; ++i) tercel_plan_destroy(step->plans[i]);
    tercel_free(step->plans);
    if (step->state.data == NULL) continue;
    if (step->kernel->release != NULL)
      step->kernel->release(step->state.data);
    else
      tercel_free(step->state.data);
  }
  tercel_free(plan->steps);
  tercel_free(plan->lives);
  tercel_free(plan);
}

const char *tercel_step_tactic(const tercel_step *step) {
  if (step->kernel == NULL) return "executor";
  return step->node->op->flags & TERCEL_OP_VIEW ? "view" : step->kernel->name;
}

static void visit_plan(const tercel_plan *plan, int depth, tercel_plan_visit_fn visit, void *user) {
  for (uint32_t s = 0; s < plan->num_steps; ++s) {
    const tercel_step *const step = &plan->steps[s];
    visit(step, depth, user);
    for (uint32_t i = 0; i < step->num_plans; ++i) visit_plan(step->plans[i], depth + 1, visit, user);
  }
}

void tercel_plan_visit(const tercel_plan *plan, tercel_plan_visit_fn visit, void *user) {
  visit_plan(plan, 0, visit, user);
}
