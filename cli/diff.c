/* tercel diff: what changed between two engines (files, or models that are built first): how they were built, steps, tactics, packings,
 * weights. */
#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct options {
  tercel_cli_engine engine;
  bool json;
} options;

static const tercel_cli_option own[] = {{"json", TERCEL_CLI_FLAG, offsetof(options, json), NULL, "print JSON", NULL},
                                        {0}};
static const tercel_cli_group groups[] = {
    {"output", own, 0}, {"engine", tercel_cli_engine_options, offsetof(options, engine)}, {0}};
static const tercel_cli_usage usage = {
    .command = "diff",
    .operands = "A B",
    .what = "Shows what differs between two engine files or models: facts about how they were built, steps that only "
            "one has, "
            "and steps that run otherwise.  Exit status 1 where something differs.",
    .examples = "  tercel diff old.tercel new.tercel\n"
                "  tercel diff net.onnx net.tercel\n"
                "  tercel diff old.tercel new.tercel --json\n",
    .groups = groups,
    .min_operands = 2,
    .max_operands = 2,
};

/* What is said: one line a difference, or one object of a list in JSON. */
typedef struct report {
  bool json;
  size_t count;
  tercel_text text;
} report;

static void add_field(report *r, const char *key, const char *value) {
  tercel_text_add(&r->text, ", \"%s\": ", key);
  if (value != NULL)
    tercel_text_add_json(&r->text, value, strlen(value));
  else
    tercel_text_add(&r->text, "null");
}

/* kind: "fact", "step"; a, b: NULL where that side has none. */
static void say(report *r, const char *kind, const char *name, const char *what, const char *a, const char *b) {
  if (!r->json) {
    tercel_text_add(&r->text, "%s '%s'%s%s: %s -> %s\n", kind, name, *what ? " " : "", what, a != NULL ? a : "(none)",
                    b != NULL ? b : "(none)");
  } else {
    tercel_text_add(&r->text, "%s  {\"kind\": \"%s\"", r->count > 0 ? ",\n" : "", kind);
    add_field(r, "name", name);
    add_field(r, "what", what);
    add_field(r, "a", a);
    add_field(r, "b", b);
    tercel_text_add(&r->text, "}");
  }
  r->count++;
}

/* ---- facts ---- */

static const char *fact_of(const tercel_engine *engine, const char *wanted) {
  const char *key, *value;
  for (size_t i = 0; tercel_engine_get_metadata(engine, i, &key, &value); i++)
    if (strcmp(key, wanted) == 0) return value;
  return NULL;
}

static void compare_facts(report *r, const tercel_engine *a, const tercel_engine *b) {
  const char *key, *value;
  for (size_t i = 0; tercel_engine_get_metadata(a, i, &key, &value); i++) {
    const char *const other = fact_of(b, key);
    if (strcmp(key, "dim") != 0 && (other == NULL || strcmp(value, other) != 0)) say(r, "fact", key, "", value, other);
  }
  for (size_t i = 0; tercel_engine_get_metadata(b, i, &key, &value); i++)
    if (fact_of(a, key) == NULL) say(r, "fact", key, "", NULL, value);
}

/* ---- steps ---- */

/* A step's name may occur again: the n-th of one engine goes with the n-th of the other. */
typedef struct steps {
  tercel_step_info *items;
  size_t count;
  tercel_map first; /* name -> number + 1 of the next that has not been met */
  size_t *next;     /* of the same name; 0: none, else number + 1 */
} steps;

static tercel_status read_steps(const tercel_engine *engine, steps *out, tercel_error *err) {
  tercel_engine_info info = {.size = sizeof info};
  *out = (steps){0};
  TERCEL_TRY(tercel_engine_get_info(engine, &info, err));
  out->items = tercel_zalloc_array(info.num_steps + 1, sizeof *out->items);
  out->next = tercel_zalloc_array(info.num_steps + 1, sizeof *out->next);
  if (out->items == NULL || out->next == NULL)
    return tercel_fail_memory(err, info.num_steps * sizeof *out->items, "steps");
  while (out->count < info.num_steps && tercel_engine_get_step(engine, out->count, &out->items[out->count]))
    out->count++;
  for (size_t i = out->count; i-- > 0;) {
    out->next[i] = (size_t)(uintptr_t)tercel_map_get(&out->first, out->items[i].name, NULL);
    TERCEL_TRY(tercel_map_set(&out->first, out->items[i].name, (void *)(uintptr_t)(i + 1), err));
  }
  return TERCEL_OK;
}

static void free_steps(steps *s) {
  tercel_free(s->items);
  tercel_free(s->next);
  tercel_map_deinit(&s->first);
}

/* The next step of that name; NULL: there is none. */
static const tercel_step_info *take(steps *s, const char *name) {
  const size_t number = (size_t)(uintptr_t)tercel_map_get(&s->first, name, NULL);
  if (number == 0) return NULL;
  tercel_map_set(&s->first, name, (void *)(uintptr_t)s->next[number - 1],
                 NULL); /* the key is there: nothing is allocated */
  return &s->items[number - 1];
}

static void describe_output(const tercel_step_info *step, char *out, size_t size) {
  size_t at = (size_t)snprintf(out, size, "%s", tercel_dtype_name(step->dtype));
  if (step->rank < 0) snprintf(out + at, size - at, "[*]");
  for (int d = 0; d < step->rank && at < size; d++) {
    char dim[24] = "?";
    if (step->dims[d] >= 0) snprintf(dim, sizeof dim, "%lld", (long long)step->dims[d]);
    at += (size_t)snprintf(out + at, size - at, "%s%s%s", d > 0 ? ", " : " [", dim, d + 1 == step->rank ? "]" : "");
  }
}

static void compare_texts(report *r, const char *step, const char *what, const char *a, const char *b) {
  if (strcmp(a, b) != 0) say(r, "step", step, what, *a ? a : NULL, *b ? b : NULL);
}

static void compare_step(report *r, const tercel_step_info *a, const tercel_step_info *b) {
  char of_a[256], of_b[256];
  compare_texts(r, a->name, "operator", a->op, b->op);
  compare_texts(r, a->name, "tactic", a->tactic, b->tactic);
  compare_texts(r, a->name, "packing", a->packing, b->packing);
  describe_output(a, of_a, sizeof of_a);
  describe_output(b, of_b, sizeof of_b);
  compare_texts(r, a->name, "output", of_a, of_b);
  if (a->packed_checksum == b->packed_checksum || strcmp(a->packing, b->packing) != 0) return;
  snprintf(of_a, sizeof of_a, "%016" PRIx64, a->packed_checksum);
  snprintf(of_b, sizeof of_b, "%016" PRIx64, b->packed_checksum);
  compare_texts(r, a->name, "weights", of_a, of_b);
}

static tercel_status compare_steps(report *r, const tercel_engine *a, const tercel_engine *b, tercel_error *err) {
  steps of_a = {0}, of_b = {0};
  tercel_status status = TERCEL_OK;
  TERCEL_CHECK(read_steps(a, &of_a, err));
  TERCEL_CHECK(read_steps(b, &of_b, err));
  for (size_t i = 0; i < of_a.count; i++) {
    const tercel_step_info *const other = take(&of_b, of_a.items[i].name);
    if (other != NULL)
      compare_step(r, &of_a.items[i], other);
    else
      say(r, "step", of_a.items[i].name, "", of_a.items[i].op, NULL);
  }
  for (size_t i = 0; i < of_b.count; i++) { /* those that nobody took, in order */
    const size_t number = (size_t)(uintptr_t)tercel_map_get(&of_b.first, of_b.items[i].name, NULL);
    if (number == 0 || number > i + 1) continue;
    say(r, "step", of_b.items[i].name, "", NULL, of_b.items[i].op);
  }
done:
  free_steps(&of_a);
  free_steps(&of_b);
  return status;
}

/* ---- the command ---- */

static tercel_status open_engine(options *o, const char *path, tercel_cli_session *out, tercel_error *err) {
  o->engine.look_only = true;
  TERCEL_TRY(tercel_cli_load(path, &o->engine, out, err));
  return tercel_cli_build(&o->engine, false, out, err);
}

static void print_report(const report *r) {
  if (r->json)
    printf("[\n%s\n]\n", r->text.length > 0 ? r->text.data : "");
  else if (r->count == 0)
    printf("no difference\n");
  else
    fputs(r->text.data, stdout);
}

static tercel_status diff(options *o, const char *a, const char *b, report *r, tercel_error *err) {
  tercel_cli_session of_a = {0}, of_b = {0};
  tercel_status status = TERCEL_OK;
  TERCEL_CHECK(open_engine(o, a, &of_a, err));
  TERCEL_CHECK(open_engine(o, b, &of_b, err));
  compare_facts(r, of_a.engine, of_b.engine);
  TERCEL_CHECK(compare_steps(r, of_a.engine, of_b.engine, err));
  if (r->text.failed) status = tercel_fail_memory(err, r->text.length, "a report");
done:
  tercel_cli_close(&of_a);
  tercel_cli_close(&of_b);
  return status;
}

int tercel_cli_diff(int argc, char **argv) {
  options o = {0};
  tercel_cli_list operands = {0};
  tercel_error err = {0};
  int exit_code;
  if (!tercel_cli_parse(&usage, argc, argv, &o, &operands, &exit_code)) return exit_code;
  report r = {.json = o.json};
  const tercel_status status = diff(&o, operands.items[0], operands.items[1], &r, &err);
  if (status == TERCEL_OK) print_report(&r);
  const bool differs = r.count > 0;
  tercel_text_deinit(&r.text);
  if (status != TERCEL_OK) return tercel_cli_fail("diff", &err);
  return differs ? TERCEL_EXIT_FAILED : TERCEL_EXIT_OK;
}
