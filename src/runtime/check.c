/* Checks: everything that is wrong with a model file, and what tercel would run slowly.  Imports it with all problems noted, then optimizes and
 * chooses kernels as an engine would, without preparing them: weights are not read. */
#include <string.h>

#include "optimize/optimize.h"
#include "runtime/runtime.h"

struct tercel_check {
  tercel_problems problems;
  tercel_status status;
};

/* ---- what the nodes come to -------------------------------------------------------------------------------------- */

/* Nodes of one operator and one element type. */
typedef struct group {
  size_t count;
  double work; /* floating-point operations, or elements where an operator has none */
  const char *first;
} group;

enum { NUM_GROUPS = TERCEL_OP_COUNT * TERCEL_DTYPE_COUNT };

typedef struct survey {
  tercel_problems *problems;
  tercel_account account; /* what this machine can hold */
  tercel_arena scratch;   /* of one node */
  double work;            /* of all nodes */
  group *plain;           /* on reference kernels, by operator and dtype */
  group dynamic[TERCEL_OP_COUNT], random;
} survey;

static void add_to(group *g, const tercel_node *node, double work) {
  if (g->count++ == 0) g->first = node->name;
  g->work += work;
}

static tercel_dtype dtype_of(const tercel_node *node) {
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    if (node->inputs[i] != NULL) return node->inputs[i]->type.dtype;
  return node->num_outputs > 0 && node->outputs[0] != NULL ? node->outputs[0]->type.dtype : TERCEL_DTYPE_NONE;
}

/* A value's shape, free dims taken as 1: no more than shares of the work are made of it. */
static bool shape_roughly(const tercel_value *value, tercel_tensor *out) {
  int64_t dims[TERCEL_MAX_RANK];
  const tercel_shape *const shape = &value->type.shape;
  if (shape->rank < 0) return false;
  for (int i = 0; i < shape->rank; ++i) dims[i] = tercel_dim_is_known(shape->dims[i]) ? shape->dims[i] : 1;
  return tercel_tensor_set_shape(out, value->type.dtype, shape->rank, dims);
}

static const tercel_tensor **shape_all(survey *s, tercel_value *const *values, uint32_t count, bool *known,
                                       tercel_error *err) {
  tercel_tensor *const tensors = tercel_arena_alloc_array(&s->scratch, count, sizeof *tensors);
  const tercel_tensor **const list = tercel_arena_alloc_array(&s->scratch, count, sizeof *list);
  if (tensors == NULL || list == NULL) {
    tercel_fail_memory(err, count * sizeof *tensors, "a check");
    return NULL;
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (values[i] == NULL) continue;
    *known &= shape_roughly(values[i], &tensors[i]);
    list[i] = &tensors[i];
  }
  return list;
}

static tercel_status measure(survey *s, const tercel_node *node, double *out, tercel_error *err) {
  bool known = true;
  *out = 0;
  tercel_arena_reset(&s->scratch);
  const tercel_tensor **const in = shape_all(s, node->inputs, node->num_inputs, &known, err);
  const tercel_tensor **const made = in ? shape_all(s, node->outputs, node->num_outputs, &known, err) : NULL;
  if (made == NULL) return TERCEL_OUT_OF_MEMORY;
  if (!known) return TERCEL_OK;
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    if (made[i] != NULL) *out += (double)tercel_tensor_num_elements(made[i]);
  const double flops = node->op->flops != NULL ? node->op->flops(node, in, made) : 0;
  if (flops > *out) *out = flops;
  return TERCEL_OK;
}

/* A few integers, as shapes are made of: what computes them costs nothing. */
static bool is_arithmetic_on_shapes(const tercel_node *node) {
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    if (node->outputs[i] == NULL) continue;
    const tercel_type *const type = &node->outputs[i]->type;
    if (tercel_dtype_is_float(type->dtype) || type->shape.rank < 0 || type->shape.rank > 1) return false;
    if (type->shape.rank == 1 &&
        (!tercel_dim_is_known(type->shape.dims[0]) || type->shape.dims[0] > TERCEL_MAX_CONTENTS))
      return false;
  }
  return true;
}

/* Rank and dims are numbers or have names. */
static bool is_told(const tercel_value *value) {
  const tercel_shape *const shape = &value->type.shape;
  for (int i = 0; i < shape->rank; ++i)
    if (tercel_dim_is_unknown(value->graph->dims, shape->dims[i])) return false;
  return shape->rank >= 0;
}

/* Outputs have dims that nothing known before the run tells, though all inputs' are told. */
static bool makes_unknown_shapes(const tercel_node *node) {
  bool in = false, out = false;
  for (uint32_t i = 0; i < node->num_inputs; ++i) in |= node->inputs[i] != NULL && !is_told(node->inputs[i]);
  for (uint32_t i = 0; i < node->num_outputs; ++i) out |= node->outputs[i] != NULL && !is_told(node->outputs[i]);
  return out && !in;
}

static tercel_status note_no_kernel(survey *s, const tercel_node *node, tercel_error *err) {
  tercel_text text = {0};
  tercel_text_add(&text, "no kernel takes its inputs (");
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    tercel_text_add(&text, i > 0 ? ", " : "");
    if (node->inputs[i] != NULL)
      tercel_type_print(node->graph->dims, &node->inputs[i]->type, &text);
    else
      tercel_text_add(&text, "none");
  }
  tercel_text_add(&text, ")");
  const tercel_problem problem = {.level = TERCEL_CHECK_ERROR,
                                  .status = TERCEL_UNSUPPORTED,
                                  .kind = TERCEL_PROBLEM_KERNEL,
                                  .op = node->op->name,
                                  .node = node->name,
                                  .message = text.data,
                                  .advice = "export with another element type"};
  const tercel_status status = text.failed ? tercel_fail_memory(err, text.capacity, "a message")
                                           : tercel_problems_add(s->problems, &problem, err);
  tercel_text_deinit(&text);
  return status;
}

/* What this machine can't hold is found before it is tried. */
static tercel_status note_huge_results(survey *s, const tercel_node *node, tercel_error *err) {
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    tercel_tensor result = {0};
    tercel_error why = {0};
    if (node->outputs[i] == NULL || !tercel_shape_is_known(&node->outputs[i]->type.shape)) continue;
    if (!shape_roughly(node->outputs[i], &result) || tercel_account_check(&s->account, result.bytes, &why) == TERCEL_OK)
      continue;
    const tercel_problem problem = {.level = TERCEL_CHECK_WARNING,
                                    .kind = TERCEL_PROBLEM_SHAPE,
                                    .op = node->op->name,
                                    .node = node->name,
                                    .message = why.message,
                                    .advice = "a run will fail: correct the shape, or run it on a larger machine"};
    TERCEL_TRY(tercel_problems_add(s->problems, &problem, err));
  }
  return TERCEL_OK;
}

static tercel_status survey_graph(survey *s, const tercel_graph *graph, tercel_error *err) {
  for (const tercel_node *node = graph->first; node != NULL; node = node->next) {
    const unsigned flags = node->op->flags;
    double work;
    TERCEL_TRY(measure(s, node, &work, err));
    s->work += work;
    TERCEL_TRY(note_huge_results(s, node, err));
    if (flags & TERCEL_OP_DATA_DEPENDENT || (!(flags & TERCEL_OP_CONTROL) && makes_unknown_shapes(node)))
      add_to(&s->dynamic[node->op->id], node, work);
    if (flags & TERCEL_OP_IMPURE) add_to(&s->random, node, work);
    if (!(flags & TERCEL_OP_CONTROL)) {
      static const tercel_target target = {.num_threads = 1};
      const tercel_kernel *const kernel = tercel_plan_choose(tercel_cpu_backend(), node, &target);
      if (kernel == NULL) TERCEL_TRY(note_no_kernel(s, node, err));
      if (kernel == tercel_reference_kernel() && !(flags & TERCEL_OP_VIEW) && !is_arithmetic_on_shapes(node))
        add_to(&s->plain[node->op->id * TERCEL_DTYPE_COUNT + (int)dtype_of(node)], node, work);
    }
    for (uint32_t i = 0; i < node->num_graphs; ++i) TERCEL_TRY(survey_graph(s, node->graphs[i], err));
  }
  return TERCEL_OK;
}

/* ---- telling it -------------------------------------------------------------------------------------------------- */

static const char *plural(size_t count) { return count == 1 ? "" : "s"; }

static tercel_status tell(survey *s, tercel_check_level level, tercel_problem_kind kind, const tercel_op *op,
                          const group *g, const char *advice, tercel_text *text, tercel_error *err) {
  const tercel_problem problem = {.level = level,
                                  .kind = kind,
                                  .op = op != NULL ? op->name : NULL,
                                  .node = g->first,
                                  .message = text->data,
                                  .advice = advice};
  const tercel_status status = text->failed ? tercel_fail_memory(err, text->capacity, "a message")
                                            : tercel_problems_add(s->problems, &problem, err);
  tercel_text_deinit(text);
  return status;
}

static const double noticeable_share = 0.01; /* of the model's work */

/* Those with little work are told together. */
static tercel_status tell_plain(survey *s, tercel_error *err) {
  group small = {0};
  tercel_text rest = {0}, text = {0};
  for (int i = 0; i < NUM_GROUPS; ++i) {
    const group *const g = &s->plain[i];
    const tercel_op *const op = tercel_ops()[i / TERCEL_DTYPE_COUNT];
    const char *const dtype = tercel_dtype_name((tercel_dtype)(i % TERCEL_DTYPE_COUNT));
    if (g->count == 0) continue;
    if (g->work < noticeable_share * s->work) {
      if (small.count == 0) small.first = g->first;
      tercel_text_add(&rest, "%s%zu %s of %s", small.count > 0 ? ", " : "", g->count, op->name, dtype);
      small.count += g->count;
      small.work += g->work;
      continue;
    }
    tercel_text_add(&text, "%zu node%s of %s run on the plain reference kernel: %.1f %% of the model's operations",
                    g->count, plural(g->count), dtype, 100 * g->work / s->work);
    const tercel_status status = tell(
        s, TERCEL_CHECK_WARNING, TERCEL_PROBLEM_KERNEL, op, g,
        "right but slow: `tercel bench --profile` shows what it costs; other types may have a fast kernel", &text, err);
    if (status != TERCEL_OK) {
      tercel_text_deinit(&rest);
      return status;
    }
  }
  if (small.count > 0)
    tercel_text_add(&text, "%zu node%s run on plain reference kernels, %.2g %% of the model's operations: %s",
                    small.count, plural(small.count), s->work > 0 ? 100 * small.work / s->work : 0,
                    rest.data != NULL ? rest.data : "");
  text.failed |= rest.failed;
  tercel_text_deinit(&rest);
  return small.count > 0 ? tell(s, TERCEL_CHECK_NOTE, TERCEL_PROBLEM_KERNEL, NULL, &small, "", &text, err) : TERCEL_OK;
}

static tercel_status tell_survey(survey *s, tercel_error *err) {
  tercel_text text = {0};
  TERCEL_TRY(tell_plain(s, err));
  for (int i = 0; i < TERCEL_OP_COUNT; ++i) {
    if (s->dynamic[i].count == 0) continue;
    tercel_text_add(&text,
                    "%zu node%s whose results' shapes can't be told before a run: memory is laid out anew behind them",
                    s->dynamic[i].count, plural(s->dynamic[i].count));
    TERCEL_TRY(tell(s, TERCEL_CHECK_NOTE, TERCEL_PROBLEM_DYNAMIC, tercel_ops()[i], &s->dynamic[i], "", &text, err));
  }
  if (s->random.count == 0) return TERCEL_OK;
  tercel_text_add(&text, "%zu node%s draw random numbers: no two runs need give the same, nor two runtimes",
                  s->random.count, plural(s->random.count));
  return tell(s, TERCEL_CHECK_NOTE, TERCEL_PROBLEM_RANDOM, NULL, &s->random, "", &text, err);
}

/* ---- the whole check --------------------------------------------------------------------------------------------- */

/* What an engine would be made of, without weights. */
static tercel_status survey_model(tercel_graph *graph, tercel_problems *problems, tercel_error *err) {
  survey s = {.problems = problems};
  tercel_status status = TERCEL_OK;
  tercel_account_init(&s.account, 0);
  TERCEL_CHECK(tercel_infer_graph(graph, err));
  TERCEL_CHECK(tercel_graph_verify(graph, err));
  TERCEL_CHECK(tercel_optimize(graph, &(tercel_optimize_options){.shapes_only = true}, NULL, err));
  s.plain = tercel_zalloc_array(NUM_GROUPS, sizeof *s.plain);
  if (s.plain == NULL) TERCEL_CHECK(tercel_fail_memory(err, NUM_GROUPS * sizeof *s.plain, "a check"));
  TERCEL_CHECK(survey_graph(&s, graph, err));
  TERCEL_CHECK(tell_survey(&s, err));
done:
  tercel_free(s.plain);
  tercel_arena_deinit(&s.scratch);
  return status;
}

/* No memory: a file may ask for more than there can be. */
static bool is_the_files_fault(tercel_status status) {
  return status == TERCEL_INVALID_MODEL || status == TERCEL_UNSUPPORTED || status == TERCEL_OUT_OF_MEMORY;
}

/* An error that ended the check is one of its findings, when the file is to blame. */
static tercel_status take_error(tercel_check *check, tercel_problem_kind kind, tercel_status status,
                                tercel_error *err) {
  if (!is_the_files_fault(status)) return status;
  const tercel_problem problem = {.level = TERCEL_CHECK_ERROR, .status = status, .kind = kind, .message = err->message};
  return tercel_problems_add(&check->problems, &problem, err);
}

/* Errors first, then warnings, then notes, each in the order in which they were found. */
static tercel_status sort(tercel_problems *problems, tercel_error *err) {
  tercel_problem *const sorted = tercel_zalloc_array(problems->count + 1, sizeof *sorted);
  if (sorted == NULL) return tercel_fail_memory(err, problems->count * sizeof *sorted, "the list of problems");
  size_t count = 0;
  for (int level = TERCEL_CHECK_ERROR; level >= TERCEL_CHECK_NOTE; --level)
    for (size_t i = 0; i < problems->count; ++i)
      if ((int)problems->items[i].level == level) sorted[count++] = problems->items[i];
  tercel_free(problems->items);
  problems->items = sorted;
  problems->capacity = problems->count + 1;
  return TERCEL_OK;
}

/* imported: what came of the import, which had the given status. */
static tercel_status finish(tercel_check *check, tercel_imported *imported, tercel_status status, tercel_check **out,
                            tercel_error *err) {
  tercel_error own = {0};
  if (err == NULL) err = &own;
  tercel_problem_kind kind = TERCEL_PROBLEM_FILE;
  if (status == TERCEL_OK) {
    status = survey_model(imported->graph, &check->problems, err);
    kind = TERCEL_PROBLEM_NODE;
  }
  const bool told = check->problems.num_errors > 0 && status != TERCEL_OUT_OF_MEMORY; /* the error is made of them */
  if (status != TERCEL_OK) status = told ? TERCEL_OK : take_error(check, kind, status, err);
  tercel_imported_deinit(imported);
  if (status == TERCEL_OK) status = sort(&check->problems, err);
  if (status != TERCEL_OK) {
    tercel_check_destroy(check);
    return status;
  }
  check->status = tercel_problems_fail(&check->problems, NULL);
  *out = check;
  return TERCEL_OK;
}

static tercel_status begin(const tercel_model_options *options, tercel_import_options *wanted, tercel_check **out,
                           tercel_error *err) {
  TERCEL_TRY(tercel_read_model_options(options, wanted, err));
  *out = tercel_zalloc(sizeof **out);
  if (*out == NULL) return tercel_fail_memory(err, sizeof **out, "a check");
  wanted->problems = &(*out)->problems;
  return TERCEL_OK;
}

tercel_status tercel_model_check(const char *path, const tercel_model_options *options, tercel_check **out,
                                 tercel_error *err) {
  tercel_import_options wanted;
  tercel_imported imported = {0};
  tercel_check *check = NULL;
  tercel_error own = {0};
  if (err == NULL) err = &own;
  TERCEL_TRY(begin(options, &wanted, &check, err));
  return finish(check, &imported, tercel_import_file(path, &wanted, &imported, err), out, err);
}

tercel_status tercel_model_check_memory(const void *data, size_t bytes, const char *folder,
                                        const tercel_model_options *options, tercel_check **out, tercel_error *err) {
  tercel_import_options wanted;
  tercel_imported imported = {0};
  tercel_check *check = NULL;
  tercel_error own = {0};
  if (err == NULL) err = &own;
  TERCEL_TRY(begin(options, &wanted, &check, err));
  return finish(check, &imported, tercel_import_memory(data, bytes, folder, &wanted, &imported, err), out, err);
}

void tercel_check_destroy(tercel_check *check) {
  if (check == NULL) return;
  tercel_problems_deinit(&check->problems);
  tercel_free(check);
}

int tercel_check_get_row(const tercel_check *check, size_t index, tercel_check_row *out) {
  if (index >= check->problems.count) return 0;
  const tercel_problem *const problem = &check->problems.items[index];
  *out = (tercel_check_row){.level = problem->level,
                            .kind = tercel_check_kind(problem->kind, NULL),
                            .op = problem->op,
                            .node = problem->node,
                            .message = problem->message,
                            .advice = problem->advice};
  return 1;
}

tercel_status tercel_check_get_status(const tercel_check *check) { return check->status; }
