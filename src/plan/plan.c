/* Lowering: nodes become steps, tactics are chosen and prepared, lifetimes of values counted. */
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
  const tercel_plan_options *options;
  tercel_plan_shared *shared;
  tercel_nominal nominal;
  tercel_arena scratch;
  uint32_t num_rows, num_replaced;
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

const tercel_kernel *tercel_plan_choose(const tercel_backend *backend, const tercel_node *node,
                                        const tercel_target *target) {
  const tercel_kernel *kernel;
  for (size_t i = 0; (kernel = backend->kernel(node, i)) != NULL; ++i)
    if (tercel_kernel_supports(kernel, node, target)) break;
  return kernel;
}

/* The tactic that the step was kept with, if it is among those that may run it here. */
static bool take_given(lowering *lower, tercel_step *step) {
  const tercel_plan_given *const given = &lower->options->given[step->row];
  tercel_tactics *const tactics = step->tactics;
  for (uint32_t i = 0; i < tactics->count; ++i) {
    if (strcmp(tactics->kernels[i]->name, given->kernel) != 0) continue;
    tactics->chosen = i;
    tactics->is_tuned = given->is_tuned;
    step->kernel = tactics->kernels[i];
    return true;
  }
  tercel_log(TERCEL_LOG_INFO, "%s '%s': kernel '%s' is not for this machine, another one is chosen",
             step->node->op->name, step->node->name, given->kernel);
  ++lower->num_replaced;
  return false;
}

static tercel_status choose_kernel(lowering *lower, tercel_step *step, tercel_error *err) {
  const tercel_node *const node = step->node;
  tercel_tactics *const tactics = tercel_zalloc(sizeof *tactics);
  if (tactics == NULL) return tercel_fail_memory(err, sizeof *tactics, "tactics");
  step->tactics = tactics;
  TERCEL_TRY(tercel_tactics_init(lower->backend, node, &lower->options->target, tactics, err));
  if (tactics->count == 0) {
    note_unsupported(lower, node);
    return TERCEL_OK;
  }
  if (lower->options->given != NULL && take_given(lower, step)) return TERCEL_OK;
  tercel_operands operands;
  if (tactics->count > 1 && tercel_nominal_operands(&lower->nominal, node, &lower->scratch, &operands))
    tactics->chosen = tercel_tactics_choose(tactics, node, &lower->shared->rules, operands.in, operands.out, false,
                                            &tactics->is_tuned);
  tercel_arena_reset(&lower->scratch);
  step->kernel = tactics->kernels[tactics->chosen];
  return TERCEL_OK;
}

static tercel_status lower_graph(lowering *lower, tercel_graph *graph, tercel_plan **out, tercel_error *err);

static tercel_status lower_node(lowering *lower, tercel_step *step, tercel_error *err) {
  const tercel_node *const node = step->node;
  step->row = lower->num_rows++;
  if (!(node->op->flags & TERCEL_OP_CONTROL)) TERCEL_TRY(choose_kernel(lower, step, err));
  if (node->num_graphs == 0) return TERCEL_OK;
  step->plans = tercel_zalloc_array(node->num_graphs, sizeof(tercel_plan *));
  if (step->plans == NULL) return tercel_fail_memory(err, node->num_graphs * sizeof(tercel_plan *), "a plan");
  for (; step->num_plans < node->num_graphs; ++step->num_plans)
    TERCEL_TRY(lower_graph(lower, node->graphs[step->num_plans], &step->plans[step->num_plans], err));
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

/* All of a plan but what it shares. */
static void destroy(tercel_plan *plan) {
  if (plan == NULL) return;
  for (uint32_t s = 0; s < plan->num_steps; ++s) {
    tercel_step *const step = &plan->steps[s];
    for (uint32_t i = 0; i < step->num_plans; ++i) destroy(step->plans[i]);
    tercel_free(step->plans);
    if (step->tactics != NULL) tercel_tactics_deinit(step->tactics);
    tercel_free(step->tactics);
  }
  tercel_free(plan->steps);
  tercel_free(plan->lives);
  tercel_free(plan);
}

static tercel_status lower_graph(lowering *lower, tercel_graph *graph, tercel_plan **out, tercel_error *err) {
  tercel_status status = TERCEL_OK;
  tercel_plan *const plan = tercel_zalloc(sizeof *plan);
  if (plan == NULL) return tercel_fail_memory(err, sizeof *plan, "a plan");
  plan->graph = graph;
  plan->target = lower->options->target;
  plan->shared = lower->shared;
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
    TERCEL_CHECK(lower_node(lower, step, err));
  }
  plan->num_rows = lower->num_rows - first_row;
  count_lives(plan);
  *out = plan;
done:
  if (status != TERCEL_OK) destroy(plan);
  return status;
}

/* ---- preparing ----------------------------------------------------------------------------------------------------- */

/* All steps of a plan and of those below it that have a kernel to prepare. */
typedef struct preparation {
  tercel_plan_shared *shared;
  const tercel_plan_given *given; /* by row; NULL: none */
  const tercel_step **steps;
  uint32_t count;
  pthread_mutex_t mutex;
  uint32_t first_failed; /* the error is this step's; count: none failed */
  tercel_status status;
  tercel_error *err;
} preparation;

static void prepare_step(preparation *p, uint32_t index) {
  const tercel_step *const step = p->steps[index];
  tercel_tactics *const tactics = step->tactics;
  tercel_packing *packing = NULL;
  tercel_error err = {0};
  const tercel_packed *const given = p->given != NULL ? &p->given[step->row].packed : NULL;
  const tercel_status status = tercel_packing_create(tactics->kernels[tactics->chosen], step->node,
                                                     &p->shared->rules.target, given, &packing, &err);
  if (status == TERCEL_OK) {
    tercel_tactics_install(tactics, tactics->chosen, packing);
    tercel_packing_release(packing);
    return;
  }
  tercel_fail_at_node(step->node, status, &err);
  pthread_mutex_lock(&p->mutex);
  if (index < p->first_failed) { /* the same error however the threads take turns */
    p->first_failed = index;
    p->status = status;
    if (p->err != NULL) *p->err = err;
  }
  pthread_mutex_unlock(&p->mutex);
}

/* What a file does not keep packed, since it doesn't come back out of its packing, is packed when a context binds the step first
 * (tercel_plan_choose_tactic): a plan that was kept is ready at once. */
static bool waits_for_use(const preparation *p, const tercel_step *step) {
  const tercel_packer *const packer = step->kernel->packer;
  tercel_pack_format format = {0};
  return p->given != NULL && packer != NULL &&
         packer->describe(packer, step->node, &p->shared->rules.target, &format, NULL) == TERCEL_OK &&
         format.bytes > 0 && format.inputs == 0;
}

static void prepare_steps(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  preparation *const p = arg;
  for (int64_t i = begin; i < end; ++i)
    if (p->steps[i]->node->op->id != TERCEL_OP_CUSTOM && !waits_for_use(p, p->steps[i])) prepare_step(p, (uint32_t)i);
}

static void gather_step(const tercel_step *step, int depth, void *user) {
  (void)depth;
  preparation *const p = user;
  if (step->kernel != NULL && tercel_kernel_has_state(step->kernel)) p->steps[p->count++] = step;
}

/* On the pool; users' operators on this thread, which may hold what they need (Python's lock). */
static tercel_status prepare_all(const tercel_plan *plan, const tercel_plan_options *options, tercel_error *err) {
  preparation p = {.shared = plan->shared, .given = options->given, .status = TERCEL_OK, .err = err};
  p.steps = tercel_alloc_array((size_t)plan->num_rows + 1, sizeof *p.steps);
  if (p.steps == NULL) return tercel_fail_memory(err, plan->num_rows * sizeof *p.steps, "a plan");
  tercel_plan_visit(plan, gather_step, &p);
  p.first_failed = p.count;
  pthread_mutex_init(&p.mutex, NULL);
  for (uint32_t i = 0; i < p.count; ++i)
    if (p.steps[i]->node->op->id == TERCEL_OP_CUSTOM) prepare_step(&p, i);
  tercel_pool_run(options->pool, p.count, 1, prepare_steps, &p);
  pthread_mutex_destroy(&p.mutex);
  tercel_free(p.steps);
  return p.status;
}

/* Inference looks into lists of few integers when shapes are bound. */
static bool may_be_looked_at(const tercel_tensor *t) {
  return !tercel_dtype_is_float(t->dtype) && t->rank <= 1 && tercel_tensor_num_elements(t) <= TERCEL_MAX_CONTENTS;
}

static bool has_unpacked_tactics(const tercel_tactics *tactics) {
  for (uint32_t i = 0; i < tactics->count; ++i)
    if (tactics->packings[i] == NULL && tercel_kernel_has_state(tactics->kernels[i])) return true;
  return false;
}

/* Constants that a kernel packed whole need not stay in memory, unless another node reads them, or they don't come back out of what
 * was packed. */
static void forget_packed(const tercel_step *step, bool keep_weights) {
  const tercel_node *const node = step->node;
  const bool keep = keep_weights && has_unpacked_tactics(step->tactics);
  for (uint32_t i = 0; i < node->num_inputs && i < 32; ++i) {
    tercel_value *const value = node->inputs[i];
    if (!(step->state.unused_inputs & (1u << i)) || value == NULL || value->constant == NULL) continue;
    if (may_be_looked_at(value->constant)) continue;
    tercel_storage_forget(value->storage, value->constant->data, value->constant->bytes);
    const bool in_memory = value->storage != NULL && !tercel_storage_is_mapped(value->storage);
    const bool comes_back = value->constant->bytes > TERCEL_SMALL_CONSTANT &&
                            (step->state.packed.format.inputs & (1u << i)) && tercel_step_keeps_packed(step);
    if (in_memory && comes_back && !keep && tercel_value_num_uses(value) == 1) tercel_value_drop_data(value);
  }
}

void tercel_plan_settle(tercel_plan *plan) {
  size_t packed_bytes = 0;
  for (uint32_t s = 0; s < plan->num_steps; ++s) {
    tercel_step *const step = &plan->steps[s];
    tercel_tactics *const tactics = step->tactics;
    if (tactics != NULL && (tactics->count > 1 || step->state.data == NULL)) {
      const tercel_packing *const packing = tactics->packings[tactics->chosen];
      step->kernel = tactics->kernels[tactics->chosen];
      step->state = packing != NULL ? packing->state : (tercel_kernel_state){0};
    }
    packed_bytes += step->state.packed_bytes - tercel_packed_mapped_bytes(&step->state.packed);
    for (uint32_t i = 0; i < step->num_plans; ++i) {
      tercel_plan_settle(step->plans[i]);
      packed_bytes += step->plans[i]->packed_bytes;
    }
  }
  plan->packed_bytes = packed_bytes;
}

static void forget_step(const tercel_step *step, int depth, void *user) {
  (void)depth;
  if (step->tactics != NULL) forget_packed(step, *(const bool *)user);
}

void tercel_plan_forget_weights(const tercel_plan *plan) {
  bool keep = false;
  tercel_plan_visit(plan, forget_step, &keep);
}

/* ---- reports ------------------------------------------------------------------------------------------------------- */

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

static tercel_status create_shared(const tercel_backend *backend, const tercel_plan_options *options,
                                   tercel_plan_shared **out, tercel_error *err) {
  tercel_plan_shared *const shared = tercel_zalloc(sizeof *shared);
  if (shared == NULL) return tercel_fail_memory(err, sizeof *shared, "a plan");
  const tercel_status status = tercel_tactic_rules_init(backend, &options->target, options->cache, &shared->rules, err);
  if (status != TERCEL_OK) {
    tercel_free(shared);
    return status;
  }
  atomic_init(&shared->generation, 0);
  pthread_mutex_init(&shared->mutex, NULL);
  *out = shared;
  return TERCEL_OK;
}

static void destroy_shared(tercel_plan_shared *shared) {
  tercel_tactic_rules_deinit(&shared->rules);
  pthread_mutex_destroy(&shared->mutex);
  tercel_free(shared);
}

static tercel_status no_kernel(const lowering *lower, tercel_error *err) {
  return tercel_fail(err, TERCEL_UNSUPPORTED, "no kernel for %zu node%s: %s%s", lower->num_unsupported,
                     lower->num_unsupported > 1 ? "s" : "", lower->unsupported.data ? lower->unsupported.data : "",
                     lower->num_unsupported > MAX_UNSUPPORTED_SHOWN ? ", ..." : "");
}

tercel_status tercel_plan_create(tercel_graph *graph, const tercel_backend *backend, const tercel_plan_options *options,
                                 tercel_plan **out, tercel_error *err) {
  lowering lower = {.backend = backend, .options = options};
  tercel_plan *plan = NULL;
  TERCEL_TRY(create_shared(backend, options, &lower.shared, err));
  tercel_nominal_init(&lower.nominal, graph, options->size_of, options->size_user);
  tercel_status status = TERCEL_OK;
  if (options->given != NULL && (uint32_t)tercel_graph_count_nodes(graph) != options->num_given)
    status = tercel_fail(err, TERCEL_INVALID_MODEL, "the plan has %u steps, but the graph %u nodes", options->num_given,
                         (uint32_t)tercel_graph_count_nodes(graph));
  if (status == TERCEL_OK) status = lower_graph(&lower, graph, &plan, err);
  if (status == TERCEL_OK && lower.num_unsupported > 0) status = no_kernel(&lower, err);
  tercel_text_deinit(&lower.unsupported);
  tercel_nominal_deinit(&lower.nominal);
  tercel_arena_deinit(&lower.scratch);
  if (status == TERCEL_OK && options->given != NULL && !options->look_only)
    status = tercel_plan_restore(plan, options, &plan->num_repacked, err);
  if (status == TERCEL_OK && !options->look_only) status = prepare_all(plan, options, err);
  if (status != TERCEL_OK) {
    destroy(plan);
    destroy_shared(lower.shared);
    return status;
  }
  plan->num_replaced = lower.num_replaced;
  tercel_plan_settle(plan);
  bool keep = options->keep_weights;
  tercel_plan_visit(plan, forget_step, &keep);
  report_reference(plan);
  *out = plan;
  return TERCEL_OK;
}

void tercel_plan_destroy(tercel_plan *plan) {
  if (plan == NULL) return;
  destroy_shared(plan->shared);
  destroy(plan);
}

tercel_status tercel_plan_choose_tactic(const tercel_plan *plan, const tercel_step *step,
                                        const tercel_tensor *const *in, const tercel_tensor *const *out,
                                        tercel_choice *choice, tercel_error *err) {
  tercel_tactics *const tactics = step->tactics;
  const tercel_tactic_rules *const rules = &plan->shared->rules;
  tercel_status status = TERCEL_OK;
  pthread_mutex_lock(&plan->shared->mutex);
  const uint32_t index =
      tactics->has_free_dims ? tercel_tactics_choose(tactics, step->node, rules, in, out, true, NULL) : tactics->chosen;
  const tercel_kernel *const kernel = tactics->kernels[index];
  if (tactics->packings[index] == NULL && tercel_kernel_has_state(kernel)) {
    tercel_packing *packing = NULL;
    status = tercel_packing_create(kernel, step->node, &rules->target, NULL, &packing, err);
    if (status == TERCEL_OK) tercel_tactics_install(tactics, index, packing);
    tercel_packing_release(packing);
  }
  tercel_packing *const packing = tercel_packing_retain(tactics->packings[index]);
  *choice = (tercel_choice){kernel, packing != NULL ? packing->state.data : NULL, packing};
  pthread_mutex_unlock(&plan->shared->mutex);
  return status;
}

const char *tercel_step_tactic(const tercel_step *step) {
  if (step->kernel == NULL) return "executor";
  return step->node->op->flags & TERCEL_OP_VIEW ? "view" : step->tactics->kernels[step->tactics->chosen]->name;
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
