/* Constants of a plan that was kept, where a step needs them as they were before they were packed: its kernel is another one here, or
 * packs otherwise (other tables: another CPU level, another version).  See plan.h. */
#include <string.h>

#include "plan/plan.h"

bool tercel_step_keeps_packed(const tercel_step *step) {
  const tercel_packed *const packed = &step->state.packed;
  size_t bytes = 0;
  if (packed->data == NULL || packed->format.bytes == 0) return false;
  for (uint32_t i = 0; i < step->node->num_inputs && i < 32; ++i)
    if (packed->format.inputs & (1u << i)) bytes += step->node->inputs[i]->constant->bytes;
  return packed->format.bytes <= bytes + bytes / 4;
}

/* A constant that is to come back. */
typedef struct task {
  tercel_value *value;
  const tercel_step *holder; /* NULL: nobody packed it */
  uint32_t input;            /* of the holder's node */
} task;

typedef struct work {
  const tercel_plan_options *options;
  const tercel_backend *backend;
  bool *is_same; /* by row: given packed constants are laid out as the step's kernel would */
  task *tasks;
  uint32_t num_tasks, capacity, num_repacked;
  pthread_mutex_t mutex;
  uint32_t first_failed;
  tercel_status status;
  tercel_error *err;
} work;

static const tercel_packed *given_to(const work *w, const tercel_step *step) {
  return &w->options->given[step->row].packed;
}

static bool holds(const work *w, const tercel_step *step, uint32_t input) {
  const tercel_packed *const packed = given_to(w, step);
  return packed->data != NULL && input < 32 && (packed->format.inputs & (1u << input));
}

static bool is_missing(const tercel_value *value) {
  return value != NULL && value->constant != NULL && value->constant->data == NULL && value->constant->bytes > 0;
}

static tercel_status add_task(work *w, const task *added, tercel_error *err) {
  if (w->num_tasks == w->capacity) {
    const uint32_t capacity = w->capacity > 0 ? 2 * w->capacity : 64;
    task *const tasks = tercel_realloc(w->tasks, w->capacity * sizeof *tasks, capacity * sizeof *tasks);
    if (tasks == NULL) return tercel_fail_memory(err, capacity * sizeof *tasks, "an engine's weights");
    w->tasks = tasks;
    w->capacity = capacity;
  }
  w->tasks[w->num_tasks++] = *added;
  return TERCEL_OK;
}

/* By value of the plan's graph: who packed it. */
static void find_holders(const work *w, const tercel_plan *plan, task *holders) {
  for (uint32_t s = 0; s < plan->num_steps; ++s) {
    const tercel_step *const step = &plan->steps[s];
    for (uint32_t i = 0; i < step->node->num_inputs; ++i)
      if (is_missing(step->node->inputs[i]) && holds(w, step, i))
        holders[step->node->inputs[i]->id] = (task){step->node->inputs[i], step, i};
  }
}

static tercel_status visit(work *w, const tercel_plan *plan, tercel_error *err);

static tercel_status visit_step(work *w, const tercel_step *step, task *holders, bool *is_listed, tercel_error *err) {
  const tercel_packed *const packed = given_to(w, step);
  bool *const is_same = &w->is_same[step->row];
  if (packed->data != NULL && step->kernel != NULL)
    TERCEL_TRY(tercel_kernel_check_packed(step->kernel, step->node, &w->options->target, packed, is_same, err));
  w->num_repacked += packed->data != NULL && !*is_same;
  for (uint32_t i = 0; i < step->node->num_inputs; ++i) {
    tercel_value *const value = step->node->inputs[i];
    if (!is_missing(value) || is_listed[value->id] || (*is_same && holds(w, step, i))) continue;
    is_listed[value->id] = true;
    holders[value->id].value = value;
    TERCEL_TRY(add_task(w, &holders[value->id], err));
  }
  for (uint32_t i = 0; i < step->num_plans; ++i) TERCEL_TRY(visit(w, step->plans[i], err));
  return TERCEL_OK;
}

static tercel_status visit(work *w, const tercel_plan *plan, tercel_error *err) {
  const size_t count = (size_t)plan->graph->num_values + 1;
  task *const holders = tercel_zalloc_array(count, sizeof *holders);
  bool *const is_listed = tercel_zalloc_array(count, sizeof *is_listed);
  tercel_status status = TERCEL_OK;
  if (holders == NULL || is_listed == NULL) {
    status = tercel_fail_memory(err, count * sizeof *holders, "an engine's weights");
    goto done;
  }
  find_holders(w, plan, holders);
  for (uint32_t s = 0; s < plan->num_steps; ++s) TERCEL_CHECK(visit_step(w, &plan->steps[s], holders, is_listed, err));
done:
  tercel_free(holders);
  tercel_free(is_listed);
  return status;
}

/* The kernel that packed, whether or not it supports the node here. */
static const tercel_kernel *find_kernel(const tercel_backend *backend, const tercel_node *node, const char *name) {
  const tercel_kernel *kernel;
  for (size_t i = 0; (kernel = backend->kernel(node, i)) != NULL; ++i)
    if (strcmp(kernel->name, name) == 0) return kernel;
  return NULL;
}

static tercel_status restore(const work *w, const task *t, tercel_error *err) {
  if (t->holder == NULL)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "weights '%s' are not in the file", t->value->name);
  const char *const name = w->options->given[t->holder->row].kernel;
  const tercel_kernel *const kernel = find_kernel(w->backend, t->holder->node, name);
  if (kernel == NULL)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "weights '%s' are packed by kernel '%s', which this tercel has not",
                       t->value->name, name);
  tercel_storage *storage = NULL;
  TERCEL_TRY(tercel_kernel_unpack(kernel, t->holder->node, given_to(w, t->holder), t->input, &storage, err));
  tercel_value_restore_data(t->value, storage);
  tercel_storage_release(storage);
  return TERCEL_OK;
}

static void restore_some(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  work *const w = arg;
  for (int64_t i = begin; i < end; ++i) {
    tercel_error err = {0};
    const tercel_status status = restore(w, &w->tasks[i], &err);
    if (status == TERCEL_OK) continue;
    pthread_mutex_lock(&w->mutex);
    if (i < w->first_failed) { /* the same error however the threads take turns */
      w->first_failed = (uint32_t)i;
      w->status = status;
      if (w->err != NULL) *w->err = err;
    }
    pthread_mutex_unlock(&w->mutex);
  }
}

tercel_status tercel_plan_restore(const tercel_plan *plan, const tercel_plan_options *options, uint32_t *num_repacked,
                                  tercel_error *err) {
  work w = {.options = options, .backend = plan->shared->rules.backend, .err = err};
  tercel_status status = TERCEL_OK;
  w.is_same = tercel_zalloc_array((size_t)plan->num_rows + 1, sizeof *w.is_same);
  if (w.is_same == NULL) return tercel_fail_memory(err, plan->num_rows, "an engine's weights");
  pthread_mutex_init(&w.mutex, NULL);
  TERCEL_CHECK(visit(&w, plan, err));
  w.first_failed = w.num_tasks;
  tercel_pool_run(options->pool, w.num_tasks, 1, restore_some, &w);
  status = w.status;
  *num_repacked = w.num_repacked;
done:
  pthread_mutex_destroy(&w.mutex);
  tercel_free(w.is_same);
  tercel_free(w.tasks);
  return status;
}
