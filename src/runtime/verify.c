/* Verifying an engine: every step on what it is given in a real run, against two truths.
 *
 *   1. The engine runs.  What each kernel makes is compared with what the operator's reference kernel makes of the same operands.
 *   2. The model runs as it was imported, step by step.  Each value that the engine has, too (rules keep the file's names), is compared
 *      with the engine's, then replaced by it, so that every step of the engine answers for its own error only and not for those before.
 *
 * Rounding in another order moves results, more where numbers cancel or a threshold is near.  Where a step is beyond what its
 * operator is allowed, the truth is asked again with operands a millionth off: what moves then by itself is allowed, too.
 *
 * Operands and results are copied, so that verifying takes the memory of all activations together. */
#include <math.h>
#include <string.h>

#include "runtime/verifier.h"

static const double times_moved = 10; /* a millionth is some ten roundings: allow for as many again */

/* A result of the engine that the file has, too. */
typedef struct kept {
  tercel_tensor tensor, want; /* want: what the file's nodes gave, where the two differ too much */
  uint32_t row;
  const tercel_node *node;
} kept;

typedef struct verifier {
  tercel_observer observer; /* first: the functions get this */
  const tercel_graph *graph;
  tercel_step_check *rows;
  tercel_map kept;         /* by name */
  tercel_map names, twice; /* of the graph's values; those that several values have */
  tercel_arena step;       /* of the step in progress */
  const tercel_tensor **in;
  tercel_arena memory; /* of all that is kept */
  size_t num_open;     /* kept ones that differ too much so far */
  bool nudged;         /* the second run of the model */
} verifier;

static tercel_status no_memory(tercel_error *err) { return tercel_fail_memory(err, 0, "verifying an engine"); }

static tercel_status copy(const tercel_tensor *from, tercel_arena *arena, tercel_tensor *out, tercel_error *err) {
  *out = *from;
  out->data = tercel_arena_copy(arena, from->data, from->bytes);
  return out->data != NULL || from->bytes == 0 ? TERCEL_OK : no_memory(err);
}

/* ---- against the reference ----------------------------------------------------------------------------------------- */

static bool has_other_kernel(const tercel_kernel_run *run) {
  const tercel_op *const op = run->node->op;
  const unsigned no = TERCEL_OP_VIEW | TERCEL_OP_IMPURE | TERCEL_OP_CONTROL;
  return run->kernel != NULL && run->kernel != tercel_reference_kernel() && !(op->flags & no) && op->eval != NULL &&
         op->id != TERCEL_OP_CUSTOM;
}

/* Results may be written over operands: these are copied first. */
static tercel_status copy_operands(verifier *v, const tercel_bound *bound, tercel_error *err) {
  const tercel_kernel_run *const run = &bound->run;
  tercel_tensor *const copies = tercel_arena_alloc_array(&v->step, run->num_inputs, sizeof *copies);
  v->in = tercel_arena_alloc_array(&v->step, run->num_inputs, sizeof *v->in);
  if (copies == NULL || v->in == NULL) return no_memory(err);
  for (size_t i = 0; i < run->num_inputs; i++) {
    const tercel_value *const value = run->node->inputs[i];
    if (run->in[i] == NULL) continue;
    v->in[i] = &copies[i];
    if (value->constant == NULL) {
      TERCEL_TRY(copy(run->in[i], &v->step, &copies[i], err));
      continue;
    }
    copies[i] = *run->in[i];
    if (copies[i].data == NULL && copies[i].bytes > 0)
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                         "'%s' was packed and not kept: an engine to be verified is built with options.verify",
                         value->name);
  }
  return TERCEL_OK;
}

static tercel_status before_step(tercel_observer *observer, const tercel_frame *frame, const tercel_bound *bound,
                                 tercel_error *err) {
  (void)frame;
  verifier *const v = (verifier *)(void *)observer;
  return has_other_kernel(&bound->run) ? copy_operands(v, bound, err) : TERCEL_OK;
}

/* The sample's results by the reference kernel, of operands a millionth off when `nudged`. */
static tercel_status evaluate(verifier *v, tercel_sample *sample, bool nudged, tercel_tensor *out,
                              tercel_storage **storages, tercel_error *err) {
  const tercel_node *const node = sample->node;
  const tercel_tensor **const in = tercel_arena_alloc_array(&v->step, node->num_inputs, sizeof *in);
  tercel_tensor *const moved = tercel_arena_alloc_array(&v->step, node->num_inputs, sizeof *moved);
  if (in == NULL || moved == NULL) return no_memory(err);
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    in[i] = sample->in[i];
    if (!nudged || in[i] == NULL) continue;
    TERCEL_TRY(copy(in[i], &v->step, &moved[i], err));
    tercel_nudge(&moved[i]);
    in[i] = &moved[i];
  }
  return tercel_eval_node(node, in, out, storages, err);
}

static void release(tercel_storage **storages, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) tercel_storage_release(storages[i]);
}

/* want[i], moved[i]: of the sample; moved NULL: not asked for. */
static tercel_status compare_results(tercel_sample *sample, const tercel_kernel_run *run, const tercel_tensor *want,
                                     const tercel_tensor *moved, tercel_difference *out, tercel_error *err) {
  const tercel_tolerance tolerance = tercel_tolerance_of(run->node, (const tercel_tensor *const *)sample->in);
  *out = (tercel_difference){0};
  for (size_t i = 0; i < run->num_outputs; i++) {
    tercel_tensor got;
    if (run->out[i] == NULL || run->node->outputs[i] == NULL) continue;
    TERCEL_TRY(tercel_sample_cut(sample, run->out[i], &got, err));
    const double slack = moved != NULL ? times_moved * tercel_largest_move(&want[i], &moved[i]) : 0;
    tercel_difference_take(out, &got, &want[i], &tolerance, slack);
  }
  return TERCEL_OK;
}

static tercel_status compare_with_reference(verifier *v, tercel_sample *sample, const tercel_kernel_run *run,
                                            tercel_difference *out, tercel_error *err) {
  const uint32_t count = run->node->num_outputs;
  tercel_tensor *const want = tercel_arena_alloc_array(&v->step, 2 * (size_t)count, sizeof *want);
  tercel_storage **const storages = tercel_arena_alloc_array(&v->step, 2 * (size_t)count, sizeof(tercel_storage *));
  if (want == NULL || storages == NULL) return no_memory(err);
  tercel_status status = evaluate(v, sample, false, want, storages, err);
  if (status == TERCEL_OK) status = compare_results(sample, run, want, NULL, out, err);
  if (status == TERCEL_OK && !tercel_difference_is_ok(out)) {
    status = evaluate(v, sample, true, want + count, storages + count, err);
    if (status == TERCEL_OK) status = compare_results(sample, run, want, want + count, out, err);
  }
  release(storages, 2 * count);
  return status;
}

static void take_worse(tercel_difference *out, const tercel_difference *d) {
  if (!out->compared || (d->compared && d->error * out->limit > out->error * d->limit)) *out = *d;
}

static tercel_status check_kernel(verifier *v, const tercel_bound *bound, tercel_error *err) {
  const tercel_kernel_run *const run = &bound->run;
  tercel_sample sample;
  tercel_difference difference = {0};
  tercel_status status = tercel_sample_init(run->node, v->in, run->out[0], &sample, err);
  if (status == TERCEL_OK) status = compare_with_reference(v, &sample, run, &difference, err);
  tercel_sample_deinit(&sample);
  if (status == TERCEL_OK) take_worse(&v->rows[bound->step->row].reference, &difference);
  return status;
}

/* ---- what the engine's values are ---------------------------------------------------------------------------------- */

static tercel_status add_name(verifier *v, const tercel_value *value, tercel_error *err) {
  bool found;
  tercel_map_get(&v->names, value->name, &found);
  if (found) return tercel_map_set(&v->twice, value->name, NULL, err);
  return tercel_map_set(&v->names, value->name, NULL, err);
}

static tercel_status add_names(verifier *v, const tercel_graph *graph, tercel_error *err) {
  tercel_map_clear(&v->names);
  tercel_map_clear(&v->twice);
  for (const tercel_node *node = graph->first; node != NULL; node = node->next)
    for (uint32_t i = 0; i < node->num_outputs; i++)
      if (node->outputs[i] != NULL && !node->outputs[i]->made_up) TERCEL_TRY(add_name(v, node->outputs[i], err));
  return TERCEL_OK;
}

static bool is_one_values(const verifier *v, const tercel_value *value) {
  bool found;
  if (value->made_up || value->type.kind != TERCEL_TYPE_TENSOR) return false;
  tercel_map_get(&v->twice, value->name, &found);
  return !found;
}

static tercel_status keep(verifier *v, const tercel_bound *bound, const tercel_value *value,
                          const tercel_tensor *tensor, tercel_error *err) {
  kept *const k = tercel_arena_alloc(&v->memory, sizeof *k);
  if (k == NULL) return no_memory(err);
  *k = (kept){.row = bound->step->row, .node = bound->run.node};
  TERCEL_TRY(copy(tensor, &v->memory, &k->tensor, err));
  return tercel_map_set(&v->kept, value->name, k, err);
}

static tercel_status after_step(tercel_observer *observer, const tercel_frame *frame, const tercel_bound *bound,
                                tercel_error *err) {
  verifier *const v = (verifier *)(void *)observer;
  const tercel_kernel_run *const run = &bound->run;
  if (run->kernel != NULL) v->rows[bound->step->row].tactic = run->kernel->name;
  tercel_status status = has_other_kernel(&bound->run) ? check_kernel(v, bound, err) : TERCEL_OK;
  if (has_other_kernel(&bound->run)) tercel_arena_reset(&v->step);
  for (size_t i = 0; status == TERCEL_OK && frame->plan->graph == v->graph && i < run->num_outputs; i++) {
    const tercel_value *const value = run->node->outputs[i];
    const bool has_data = value != NULL && run->out[i] != NULL && run->out[i]->dtype != TERCEL_DTYPE_STRING;
    if (has_data && is_one_values(v, value)) status = keep(v, bound, value, run->out[i], err);
  }
  return status == TERCEL_OK ? status : tercel_fail_at_node(run->node, status, err);
}

/* ---- against the file ---------------------------------------------------------------------------------------------- */

static tercel_status look_away(tercel_observer *observer, const tercel_frame *frame, const tercel_bound *bound,
                               tercel_error *err) {
  (void)observer, (void)frame, (void)bound, (void)err;
  return TERCEL_OK;
}

/* want: what the file's node gave, from the engine's values. */
static tercel_status compare_with_file(verifier *v, kept *k, const tercel_tensor *want, tercel_error *err) {
  const tercel_tolerance tolerance = tercel_tolerance_of_fusion(k->node);
  tercel_difference difference = {0};
  double slack = 0;
  if (k->node->op->flags & TERCEL_OP_IMPURE) return TERCEL_OK;
  if (v->nudged && k->want.data == NULL) return TERCEL_OK; /* was right the first time */
  if (v->nudged) slack = times_moved * tercel_largest_move(&k->want, want);
  tercel_difference_take(&difference, &k->tensor, v->nudged ? &k->want : want, &tolerance, slack);
  if (tercel_difference_is_ok(&difference) || v->nudged) {
    take_worse(&v->rows[k->row].file, &difference);
    return TERCEL_OK;
  }
  v->num_open++;
  return copy(want, &v->memory, &k->want, err);
}

/* The engine's value takes the place of the file's. */
static void replace(const verifier *v, const kept *k, tercel_tensor *out) {
  if (out->bytes == 0) return;
  memcpy(out->data, k->tensor.data, out->bytes);
  if (v->nudged) tercel_nudge(out);
}

static tercel_status after_plain_step(tercel_observer *observer, const tercel_frame *frame, const tercel_bound *bound,
                                      tercel_error *err) {
  verifier *const v = (verifier *)(void *)observer;
  const tercel_kernel_run *const run = &bound->run;
  for (size_t i = 0; frame->plan->graph == v->graph && i < run->num_outputs; i++) {
    const tercel_value *const value = run->node->outputs[i];
    if (value == NULL || run->out[i] == NULL || !is_one_values(v, value)) continue;
    kept *const k = tercel_map_get(&v->kept, value->name, NULL);
    if (k == NULL || k->tensor.dtype != run->out[i]->dtype || !tercel_tensor_same_shape(&k->tensor, run->out[i]))
      continue;
    TERCEL_TRY(compare_with_file(v, k, run->out[i], err));
    replace(v, k, run->out[i]);
  }
  return TERCEL_OK;
}

static tercel_status run_plain(verifier *v, tercel_context *plain, bool nudged, tercel_error *err) {
  v->nudged = nudged;
  if (nudged) TERCEL_TRY(tercel_context_nudge_inputs(plain, &v->memory, err));
  tercel_context_observe(plain, &v->observer);
  const tercel_status status = tercel_context_run(plain, err);
  tercel_context_observe(plain, NULL);
  return status;
}

static tercel_status check_against(verifier *v, const tercel_context *context, const tercel_model *model,
                                   int num_threads, tercel_error *err) {
  tercel_engine *engine = NULL;
  tercel_context *plain = NULL;
  tercel_status status = TERCEL_OK;
  const tercel_engine_options options = {.size = sizeof options, .num_threads = num_threads, .no_optimize = 1};
  TERCEL_CHECK(tercel_engine_build(model, &options, &engine, err));
  v->observer = (tercel_observer){look_away, after_plain_step};
  v->graph = engine->graph;
  TERCEL_CHECK(add_names(v, engine->graph, err));
  TERCEL_CHECK(tercel_context_create(engine, NULL, &plain, err));
  TERCEL_CHECK(tercel_context_share_inputs(plain, context, err));
  TERCEL_CHECK(run_plain(v, plain, false, err));
  if (v->num_open > 0) TERCEL_CHECK(run_plain(v, plain, true, err));
done:
  tercel_context_destroy(plain);
  tercel_engine_destroy(engine);
  return status;
}

/* ---- the engine's rows --------------------------------------------------------------------------------------------- */

static bool is_ok(const tercel_step_check *check) {
  return tercel_difference_is_ok(&check->reference) && tercel_difference_is_ok(&check->file);
}

typedef struct row_search {
  uint32_t row;
  const tercel_step *found;
} row_search;

static void find_row(const tercel_step *step, int depth, void *user) {
  (void)depth;
  row_search *const search = user;
  if (step->row == search->row) search->found = step;
}

static const tercel_step *step_of(const tercel_engine *engine, uint32_t row) {
  row_search search = {row, NULL};
  tercel_plan_visit(engine->plan, find_row, &search);
  return search.found;
}

static const char *tactic_of(const tercel_step *step, const tercel_step_check *check) {
  return check->tactic != NULL ? check->tactic : tercel_step_tactic(step);
}

static double share(const tercel_difference *d) {
  return !d->compared || d->error == 0 ? 0 : d->limit > 0 ? d->error / d->limit : INFINITY;
}

/* The step that is farthest beyond what it is allowed. */
static tercel_status fail(const tercel_engine *engine, const tercel_verification *verification, tercel_error *err) {
  uint32_t worst = 0, num_wrong = 0;
  double most = -1;
  for (uint32_t i = 0; i < verification->num_rows; i++) {
    const tercel_step_check *const check = &verification->rows[i];
    const double used = fmax(share(&check->reference), share(&check->file));
    num_wrong += !is_ok(check);
    if (is_ok(check) || used <= most) continue;
    most = used;
    worst = i;
  }
  const tercel_step_check *const check = &verification->rows[worst];
  const bool by_file = tercel_difference_is_ok(&check->reference);
  const tercel_difference *const d = by_file ? &check->file : &check->reference;
  const tercel_step *const step = step_of(engine, worst);
  tercel_text sources = {0};
  for (uint32_t i = 0; i < step->node->num_sources; i++)
    tercel_text_add(&sources, "%s%s", i > 0 ? " + " : "", step->node->sources[i]);
  const tercel_status status =
      tercel_fail(err, TERCEL_INTERNAL,
                  "%s '%s' (%s) is wrong: its result is off by %.3g from what %s, may be off by %.3g (largest number: "
                  "%.3g); it stands "
                  "for %.1000s%s",
                  step->node->op->name, step->node->name, tactic_of(step, check), d->error,
                  by_file ? "the file's nodes give" : "the reference kernel gives", d->limit, d->largest,
                  sources.data != NULL ? sources.data : "?", num_wrong > 1 ? "; other steps are wrong, too" : "");
  tercel_text_deinit(&sources);
  return status;
}

static tercel_status settle(tercel_engine *engine, verifier *v, tercel_error *err) {
  tercel_verification *const verification = &engine->verification;
  tercel_verification_deinit(verification);
  verification->rows = v->rows;
  verification->num_rows = engine->plan->num_rows;
  v->rows = NULL;
  for (uint32_t i = 0; i < verification->num_rows; i++)
    if (!is_ok(&verification->rows[i])) verification->failed = true;
  return verification->failed ? fail(engine, verification, err) : TERCEL_OK;
}

tercel_status tercel_context_verify(tercel_context *context, const tercel_model *model, tercel_error *err) {
  tercel_engine *const engine = tercel_context_engine(context);
  verifier v = {.observer = {before_step, after_step}, .graph = engine->graph};
  tercel_status status = TERCEL_OK;
  v.rows = tercel_zalloc_array((size_t)engine->plan->num_rows + 1, sizeof *v.rows);
  if (v.rows == NULL) {
    status = no_memory(err);
    goto done;
  }
  TERCEL_CHECK(add_names(&v, engine->graph, err));
  tercel_context_observe(context, &v.observer);
  status = tercel_context_run(context, err);
  tercel_context_observe(context, NULL);
  if (status != TERCEL_OK) goto done;
  if (model != NULL) TERCEL_CHECK(check_against(&v, context, model, tercel_engine_num_threads(engine), err));
  status = settle(engine, &v, err);
done:
  tercel_free(v.rows);
  tercel_map_deinit(&v.kept);
  tercel_map_deinit(&v.names);
  tercel_map_deinit(&v.twice);
  tercel_arena_deinit(&v.step);
  tercel_arena_deinit(&v.memory);
  return status;
}

int tercel_engine_get_verification(const tercel_engine *engine, size_t index, tercel_verify_row *out) {
  const tercel_verification *const verification = &engine->verification;
  for (uint32_t row = 0; row < verification->num_rows; row++) {
    const tercel_step_check *const check = &verification->rows[row];
    if (!check->reference.compared && !check->file.compared) continue;
    if (index-- > 0) continue;
    const tercel_step *const step = step_of(engine, row);
    *out = (tercel_verify_row){.name = step->node->name,
                               .op = step->node->op->name,
                               .tactic = tactic_of(step, check),
                               .sources = step->node->sources,
                               .num_sources = step->node->num_sources,
                               .reference = check->reference,
                               .file = check->file,
                               .ok = is_ok(check)};
    return 1;
  }
  return 0;
}

/* ---- constants ----------------------------------------------------------------------------------------------------- */

static bool is_dropped(const tercel_value *value) {
  return value != NULL && value->constant != NULL && value->constant->data == NULL && value->constant->bytes > 0;
}

static size_t count_values(const tercel_graph *graph) {
  size_t count = graph->num_values;
  for (const tercel_node *node = graph->first; node != NULL; node = node->next)
    for (uint32_t i = 0; i < node->num_graphs; i++) count += count_values(node->graphs[i]);
  return count;
}

static void hold(const tercel_graph *graph, tercel_held_constants *held) {
  for (uint32_t i = 0; i < graph->num_values; i++) {
    tercel_value *const value = graph->values[i];
    if (value == NULL || value->constant == NULL || value->storage == NULL) continue;
    held->items[held->count++] =
        (tercel_held_constant){value, value->constant->data, tercel_storage_retain(value->storage)};
  }
  for (const tercel_node *node = graph->first; node != NULL; node = node->next)
    for (uint32_t i = 0; i < node->num_graphs; i++) hold(node->graphs[i], held);
}

tercel_status tercel_constants_hold(const tercel_graph *graph, tercel_held_constants *out, tercel_error *err) {
  *out = (tercel_held_constants){0};
  out->items = tercel_zalloc_array(count_values(graph) + 1, sizeof *out->items);
  if (out->items == NULL) return no_memory(err);
  hold(graph, out);
  return TERCEL_OK;
}

void tercel_constants_restore(tercel_held_constants *held) {
  for (size_t i = 0; i < held->count; i++) {
    tercel_held_constant *const item = &held->items[i];
    if (is_dropped(item->value)) {
      ((tercel_tensor *)(uintptr_t)item->value->constant)->data = item->data;
      item->value->storage = item->storage;
    } else {
      tercel_storage_release(item->storage);
    }
  }
  tercel_free(held->items);
  *held = (tercel_held_constants){0};
}
