/* See tune.h. */
#include "plan/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/measure.h"

/* Tactics that are estimated to take so many times what the best one does are not tried: no estimate is as wrong. */
static const double hopeless = 5;
/* What is left is not worth its time when it is such a share of a run. */
static const double negligible = 0.002;
/* The share by which a tactic must be faster than those before it (as in tactic.c). */
static const double a_hair = 0.97;

/* Steps that are alike. */
typedef struct task {
  struct task *next;
  const char *signature;
  const tercel_step *step; /* the first of them: it is measured */
  tercel_operands operands;
  tercel_packing **packings; /* of the first step, as tuning began: a reference each; NULL: none */
  bool *is_tried;            /* by tactic */
  double estimate;           /* ns, of all these steps */
  size_t num_steps;
  struct same_step *steps;
} task;

typedef struct same_step {
  struct same_step *next;
  const tercel_step *step;
  uint32_t chosen; /* as tuning began */
} same_step;

/* A step is to run with another packing. */
typedef struct swap {
  struct swap *next;
  const tercel_step *step;
  tercel_packing *packing; /* a reference; NULL: it needs none, or has it */
} swap;

/* What measuring a task has shown. */
typedef struct finding {
  struct finding *next;
  const task *task;
  double *ns; /* by tactic; 0: not measured */
  uint32_t best;
  swap *swaps;
  tercel_arena memory; /* holds all of it but this struct */
} finding;

struct tercel_tuning {
  tercel_plan *plan;
  tercel_timing_cache *cache;
  tercel_arena memory; /* of tasks */
  tercel_map by_signature;
  task *tasks;
  size_t count;
  _Atomic(finding *) found; /* newest first: pushed by run, taken by apply */
  atomic_size_t num_swaps;
  tercel_tune_progress progress;
};

tercel_status tercel_tuning_create(tercel_plan *plan, tercel_timing_cache *cache, tercel_tuning **out,
                                   tercel_error *err) {
  tercel_tuning *const tuning = tercel_zalloc(sizeof *tuning);
  if (tuning == NULL) return tercel_fail_memory(err, sizeof *tuning, "tuning");
  tuning->plan = plan;
  tuning->cache = cache;
  atomic_init(&tuning->found, NULL);
  *out = tuning;
  return TERCEL_OK;
}

static void destroy_finding(finding *f) {
  for (swap *s = f->swaps; s != NULL; s = s->next) tercel_packing_release(s->packing);
  tercel_arena_deinit(&f->memory);
  tercel_free(f);
}

static void destroy_findings(finding *found) {
  for (finding *next; found != NULL; found = next) {
    next = found->next;
    destroy_finding(found);
  }
}

/* They may be the last to hold what nothing runs with any more. */
static void let_go(task *t) {
  for (uint32_t i = 0; i < t->step->tactics->count; ++i) {
    tercel_packing_release(t->packings[i]);
    t->packings[i] = NULL;
  }
}

void tercel_tuning_destroy(tercel_tuning *tuning) {
  if (tuning == NULL) return;
  for (task *t = tuning->tasks; t != NULL; t = t->next) let_go(t);
  destroy_findings(atomic_load(&tuning->found));
  tercel_map_deinit(&tuning->by_signature);
  tercel_arena_deinit(&tuning->memory);
  tercel_free(tuning);
}

/* ---- tasks --------------------------------------------------------------------------------------------------------- */

typedef struct gathering {
  tercel_tuning *tuning;
  tercel_nominal nominal;
  tercel_status status;
  tercel_error *err;
} gathering;

static bool is_available(const tercel_tactics *tactics, uint32_t i, bool has_constants) {
  return tactics->packings[i] != NULL || !tercel_kernel_has_state(tactics->kernels[i]) || has_constants;
}

/* Which tactics are worth a try; false: fewer than two, or all of them have their times. */
static bool choose_tries(const tercel_tuning *tuning, task *t) {
  const tercel_tactic_rules *const rules = &tuning->plan->shared->rules;
  const tercel_tactics *const tactics = t->step->tactics;
  const bool has_constants = tercel_node_has_constants(t->step->node);
  double best = INFINITY;
  for (int pass = 0; pass < 2; ++pass) {
    uint32_t tries = 0, known = 0;
    for (uint32_t i = 0; i < tactics->count; ++i) {
      const double cost = tercel_kernel_cost(rules->backend, tactics->kernels[i], t->step->node, t->operands.in,
                                             t->operands.out, &rules->target);
      if (!is_available(tactics, i, has_constants)) continue;
      best = fmin(best, cost);
      t->is_tried[i] = pass == 1 && cost <= hopeless * best && isfinite(cost);
      if (i == tactics->chosen) t->estimate = cost;
      int64_t ns;
      tries += t->is_tried[i];
      known += t->is_tried[i] && rules->cache != NULL &&
               tercel_timing_cache_get(rules->cache, rules->machine, t->signature, tactics->kernels[i]->name, &ns);
    }
    if (pass == 1) return tries > 1 && known < tries;
  }
  return false;
}

static tercel_status no_memory(tercel_error *err) {
  return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for tuning");
}

static tercel_status add_step(task *t, const tercel_step *step, tercel_arena *memory, tercel_error *err) {
  same_step *const same = tercel_arena_alloc(memory, sizeof *same);
  if (same == NULL) return no_memory(err);
  *same = (same_step){t->steps, step, step->tactics->chosen};
  t->steps = same;
  ++t->num_steps;
  return TERCEL_OK;
}

static tercel_status make_task(tercel_tuning *tuning, const tercel_step *step, const tercel_operands *operands,
                               const char *signature, tercel_error *err) {
  const tercel_tactics *const tactics = step->tactics;
  task *const t = tercel_arena_alloc(&tuning->memory, sizeof *t);
  if (t == NULL) return no_memory(err);
  *t = (task){.step = step, .operands = *operands};
  t->signature = tercel_arena_strdup(&tuning->memory, signature);
  t->packings = tercel_arena_alloc_array(&tuning->memory, tactics->count, sizeof(tercel_packing *));
  t->is_tried = tercel_arena_alloc_array(&tuning->memory, tactics->count, sizeof *t->is_tried);
  if (!t->signature || !t->packings || !t->is_tried) return no_memory(err);
  TERCEL_TRY(tercel_map_set(&tuning->by_signature, signature, t, err));
  if (!choose_tries(tuning, t)) return TERCEL_OK; /* known under its signature, but not measured */
  for (uint32_t i = 0; i < tactics->count; ++i) t->packings[i] = tercel_packing_retain(tactics->packings[i]);
  t->next = tuning->tasks;
  tuning->tasks = t;
  ++tuning->count;
  return add_step(t, step, &tuning->memory, err);
}

static tercel_status gather(gathering *g, const tercel_step *step) {
  tercel_tuning *const tuning = g->tuning;
  tercel_operands operands;
  tercel_text signature = {0};
  bool known;
  if (!tercel_nominal_operands(&g->nominal, step->node, &tuning->memory, &operands)) return TERCEL_OK;
  tercel_step_signature(step->node, operands.in, operands.out, &signature);
  if (signature.failed) return no_memory(g->err);
  task *const same = tercel_map_get(&tuning->by_signature, signature.data, &known);
  tercel_status status = TERCEL_OK;
  if (!known)
    status = make_task(tuning, step, &operands, signature.data, g->err);
  else if (same->num_steps > 0)
    status = add_step(same, step, &tuning->memory, g->err);
  tercel_text_deinit(&signature);
  return status;
}

static void visit_step(const tercel_step *step, int depth, void *user) {
  (void)depth;
  gathering *const g = user;
  if (g->status != TERCEL_OK || step->tactics == NULL || step->tactics->count < 2) return;
  g->status = gather(g, step);
}

tercel_status tercel_tuning_add(tercel_tuning *tuning, tercel_dim_value_of size_of, void *size_user,
                                tercel_error *err) {
  gathering g = {.tuning = tuning, .status = TERCEL_OK, .err = err};
  tercel_nominal_init(&g.nominal, tuning->plan->graph, size_of, size_user);
  pthread_mutex_lock(&tuning->plan->shared->mutex);
  tercel_plan_visit(tuning->plan, visit_step, &g);
  pthread_mutex_unlock(&tuning->plan->shared->mutex);
  tercel_nominal_deinit(&g.nominal);
  tuning->progress.total = tuning->count;
  return g.status;
}

/* ---- measuring ----------------------------------------------------------------------------------------------------- */

/* As the cache will be asked: by whole nanoseconds. */
static uint32_t choose_best(const tercel_tactics *tactics, const double *ns) {
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < tactics->count; ++i)
    if (ns[i] > 0 && (best == UINT32_MAX || floor(ns[i]) < a_hair * floor(ns[best]))) best = i;
  return best;
}

static tercel_status add_swap(finding *f, const tercel_step *step, tercel_packing *packing, tercel_error *err) {
  swap *const s = tercel_arena_alloc(&f->memory, sizeof *s);
  if (s == NULL) return no_memory(err);
  *s = (swap){f->swaps, step, tercel_packing_retain(packing)};
  f->swaps = s;
  return TERCEL_OK;
}

/* Packings for the steps that run with something else than what is best. */
static tercel_status prepare_swaps(const tercel_tuning *tuning, finding *f, tercel_packing *of_first,
                                   tercel_error *err) {
  const tercel_target *const target = &tuning->plan->shared->rules.target;
  const task *const t = f->task;
  for (const same_step *s = t->steps; s != NULL; s = s->next) {
    const tercel_kernel *const kernel = s->step->tactics->kernels[f->best];
    if (s->step == t->step || !tercel_kernel_has_state(kernel)) {
      TERCEL_TRY(add_swap(f, s->step, tercel_kernel_has_state(kernel) ? of_first : NULL, err));
    } else if (tercel_kernels_share(kernel, s->step->tactics->kernels[s->chosen])) {
      TERCEL_TRY(add_swap(f, s->step, NULL, err)); /* it has that packing */
    } else if (tercel_node_has_constants(s->step->node)) {
      tercel_packing *packing = NULL;
      TERCEL_TRY(tercel_packing_create(kernel, s->step->node, target, NULL, &packing, err));
      const tercel_status status = add_swap(f, s->step, packing, err);
      tercel_packing_release(packing);
      TERCEL_TRY(status);
    }
  }
  return TERCEL_OK;
}

static void push(tercel_tuning *tuning, finding *f) {
  f->next = atomic_load(&tuning->found);
  while (!atomic_compare_exchange_weak(&tuning->found, &f->next, f)) continue;
}

static tercel_status measure_task(tercel_tuning *tuning, task *t, const tercel_tuning_options *options,
                                  tercel_error *err) {
  const tercel_tactics *const tactics = t->step->tactics;
  tercel_status status = TERCEL_OK;
  tercel_packing **packings = NULL;
  finding *const f = tercel_zalloc(sizeof *f);
  if (f == NULL) return no_memory(err);
  f->task = t;
  f->ns = tercel_arena_alloc_array(&f->memory, tactics->count, sizeof *f->ns);
  packings = tercel_arena_alloc_array(&f->memory, tactics->count, sizeof(tercel_packing *));
  if (f->ns == NULL || packings == NULL) TERCEL_CHECK(no_memory(err));
  for (uint32_t i = 0; i < tactics->count; ++i) packings[i] = tercel_packing_retain(t->packings[i]);
  const tercel_measurement wanted = {.step = t->step,
                                     .operands = &t->operands,
                                     .is_tried = t->is_tried,
                                     .packings = packings,
                                     .target = &tuning->plan->shared->rules.target,
                                     .pool = options->pool};
  TERCEL_CHECK(tercel_measure_tactics(&wanted, f->ns, err));
  f->best = choose_best(tactics, f->ns);
  TERCEL_CHECK(prepare_swaps(tuning, f, packings[f->best], err));
  const double before = f->ns[t->steps->chosen] > 0 ? f->ns[t->steps->chosen] : f->ns[f->best];
  tuning->progress.changed += f->best != t->steps->chosen;
  tuning->progress.before_us += before * (double)t->num_steps / 1e3;
  tuning->progress.after_us += f->ns[f->best] * (double)t->num_steps / 1e3;
done:
  for (uint32_t i = 0; packings != NULL && i < tactics->count; ++i) tercel_packing_release(packings[i]);
  let_go(t);
  if (status == TERCEL_OK)
    push(tuning, f);
  else
    destroy_finding(f);
  return status;
}

/* The most valuable first; alike ones by name, so that the order repeats. */
static int compare_tasks(const void *a, const void *b) {
  const task *const x = *(task *const *)a, *const y = *(task *const *)b;
  const double of_x = x->estimate * (double)x->num_steps, of_y = y->estimate * (double)y->num_steps;
  return of_x != of_y ? (of_x < of_y) - (of_x > of_y) : strcmp(x->signature, y->signature);
}

static bool is_stopped(const tercel_tuning_options *options) {
  return options->stop != NULL && atomic_load_explicit(options->stop, memory_order_relaxed);
}

static tercel_status measure_all(tercel_tuning *tuning, task *const *order, const tercel_tuning_options *options,
                                 tercel_error *err) {
  const int64_t start = tercel_time_ns();
  double all = 0, left = 0;
  for (size_t i = 0; i < tuning->count; ++i) all += order[i]->estimate * (double)order[i]->num_steps;
  left = all;
  tercel_tune_progress *const progress = &tuning->progress;
  progress->budget = options->seconds;
  for (size_t i = 0; i < tuning->count && left > negligible * all && !is_stopped(options); ++i) {
    progress->seconds = (double)(tercel_time_ns() - start) / 1e9;
    if (progress->seconds >= options->seconds) return TERCEL_OK;
    TERCEL_TRY(measure_task(tuning, order[i], options, err));
    left -= order[i]->estimate * (double)order[i]->num_steps;
    progress->seconds = (double)(tercel_time_ns() - start) / 1e9;
    progress->step = order[i]->signature;
    ++progress->done;
    if (options->progress != NULL && options->progress(progress, options->user) != 0) return TERCEL_OK;
  }
  return TERCEL_OK;
}

tercel_status tercel_tuning_run(tercel_tuning *tuning, const tercel_tuning_options *options, tercel_error *err) {
  task **const order = tercel_alloc_array(tuning->count + 1, sizeof *order);
  if (order == NULL) return no_memory(err);
  size_t at = 0;
  for (task *t = tuning->tasks; t != NULL; t = t->next) order[at++] = t;
  qsort(order, at, sizeof *order, compare_tasks);
  const tercel_status status = measure_all(tuning, order, options, err);
  tercel_free(order);
  return status;
}

/* ---- applying ------------------------------------------------------------------------------------------------------ */

bool tercel_tuning_has_found(const tercel_tuning *tuning) { return atomic_load(&tuning->found) != NULL; }

static tercel_status keep_times(const tercel_tuning *tuning, const finding *f, tercel_error *err) {
  const tercel_tactics *const tactics = f->task->step->tactics;
  for (uint32_t i = 0; i < tactics->count; ++i)
    if (f->ns[i] > 0)
      TERCEL_TRY(tercel_timing_cache_set(tuning->cache, tuning->plan->shared->rules.machine, f->task->signature,
                                         tactics->kernels[i]->name, (int64_t)f->ns[i], err));
  return TERCEL_OK;
}

/* How many steps got another tactic. */
static size_t swap_steps(const finding *f) {
  size_t swapped = 0;
  for (const swap *s = f->swaps; s != NULL; s = s->next) {
    tercel_tactics *const tactics = s->step->tactics;
    const uint32_t best = f->best;
    if (s->packing != NULL) tercel_tactics_install(tactics, best, s->packing);
    if (tactics->packings[best] == NULL && tercel_kernel_has_state(tactics->kernels[best])) continue;
    swapped += tactics->chosen != best;
    tactics->chosen = best;
    tactics->is_tuned = true;
    if (!tactics->has_free_dims) tercel_tactics_drop_others(tactics, best);
  }
  return swapped;
}

tercel_status tercel_tuning_apply(tercel_tuning *tuning, tercel_error *err) {
  tercel_plan_shared *const shared = tuning->plan->shared;
  finding *const found = atomic_exchange(&tuning->found, NULL);
  if (found == NULL) return TERCEL_OK;
  tercel_status status = TERCEL_OK;
  for (const finding *f = found; f != NULL && status == TERCEL_OK; f = f->next) status = keep_times(tuning, f, err);
  size_t swapped = 0;
  pthread_mutex_lock(&shared->mutex);
  for (const finding *f = found; f != NULL && status == TERCEL_OK; f = f->next) swapped += swap_steps(f);
  tercel_plan_settle(tuning->plan);
  pthread_mutex_unlock(&shared->mutex);
  if (swapped > 0) atomic_fetch_add_explicit(&shared->generation, 1, memory_order_release);
  atomic_fetch_add(&tuning->num_swaps, swapped);
  destroy_findings(found);
  return status;
}

size_t tercel_tuning_num_swaps(const tercel_tuning *tuning) { return atomic_load(&tuning->num_swaps); }

const tercel_tune_progress *tercel_tuning_progress(const tercel_tuning *tuning) { return &tuning->progress; }
