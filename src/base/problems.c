/* The list of problems, and one error message made of many. */
#include "base/problems.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const struct {
  const char *name, *about, *advice;
} kinds[] = {
#define TERCEL_PROBLEM(id, name, about, advice) {name, about, advice},
    TERCEL_PROBLEM_KINDS
#undef TERCEL_PROBLEM
};
enum { NUM_KINDS = sizeof kinds / sizeof *kinds };

const char *tercel_check_kind(size_t index, const char **what) {
  if (index >= NUM_KINDS) return NULL;
  if (what) *what = kinds[index].about;
  return kinds[index].name;
}

static tercel_status grow(tercel_problems *problems, tercel_error *err) {
  if (problems->count < problems->capacity) return TERCEL_OK;
  const size_t capacity = problems->capacity ? 2 * problems->capacity : 16;
  tercel_problem *const items =
      tercel_realloc(problems->items, problems->count * sizeof *items, capacity * sizeof *items);
  if (!items) return tercel_fail_memory(err, capacity * sizeof *items, "the list of problems");
  problems->items = items;
  problems->capacity = capacity;
  return TERCEL_OK;
}

static const char *copy(tercel_problems *problems, const char *text) {
  return text && text[0] ? tercel_arena_strdup(&problems->arena, text) : "";
}

tercel_status tercel_problems_add(tercel_problems *problems, const tercel_problem *problem, tercel_error *err) {
  if (problem->level == TERCEL_CHECK_ERROR) problems->num_errors++;
  if (problems->count == TERCEL_MAX_PROBLEMS) {
    problems->num_dropped++;
    return TERCEL_OK;
  }
  TERCEL_TRY(grow(problems, err));
  tercel_problem kept = *problem;
  kept.op = copy(problems, problem->op);
  kept.node = copy(problems, problem->node);
  kept.message = copy(problems, problem->message);
  kept.advice = problem->advice ? copy(problems, problem->advice) : kinds[problem->kind].advice;
  if (!kept.op || !kept.node || !kept.message || !kept.advice)
    return tercel_fail_memory(err, strlen(problem->message), "a problem");
  problems->items[problems->count++] = kept;
  return TERCEL_OK;
}

/* "Conv 'layer1/conv': message" */
static void add_line(const tercel_problem *problem, tercel_text *text) {
  if (problem->op[0] || problem->node[0])
    tercel_text_add(text, "%s%s'%s': ", problem->op, problem->op[0] ? " " : "", problem->node);
  tercel_text_add(text, "%s", problem->message);
}

/* The first that makes the model wrong counts: a model that is wrong is not merely unsupported. */
static tercel_status status_of(const tercel_problems *problems) {
  for (size_t i = 0; i < problems->count; i++) {
    const tercel_problem *const problem = &problems->items[i];
    if (problem->level == TERCEL_CHECK_ERROR && problem->status != TERCEL_UNSUPPORTED) return problem->status;
  }
  return TERCEL_UNSUPPORTED;
}

tercel_status tercel_problems_fail(const tercel_problems *problems, tercel_error *err) {
  enum { ROOM = TERCEL_ERROR_MESSAGE_MAX - 256 };
  if (problems->num_errors == 0) return TERCEL_OK;
  tercel_status status = status_of(problems);
  tercel_text text = {0}, line = {0};
  size_t shown = 0;
  if (problems->num_errors > 1)
    tercel_text_add(&text, status == TERCEL_UNSUPPORTED ? "%zu things are not supported: " : "%zu problems: ",
                    problems->num_errors);
  for (size_t i = 0; i < problems->count; i++) {
    if (problems->items[i].level != TERCEL_CHECK_ERROR) continue;
    line.length = 0;
    add_line(&problems->items[i], &line);
    if (shown > 0 && text.length + line.length > ROOM) break;
    tercel_text_add(&text, "%s%s", shown > 0 ? "; " : "", line.data ? line.data : "");
    shown++;
  }
  if (shown < problems->num_errors)
    tercel_text_add(&text, "; and %zu more: `tercel check` lists them", problems->num_errors - shown);
  status = text.failed || line.failed ? tercel_fail_memory(err, text.capacity, "a message")
                                      : tercel_fail(err, status, "%s", text.data);
  tercel_text_deinit(&text);
  tercel_text_deinit(&line);
  return status;
}

void tercel_problems_deinit(tercel_problems *problems) {
  tercel_free(problems->items);
  tercel_arena_deinit(&problems->arena);
  *problems = (tercel_problems){0};
}
