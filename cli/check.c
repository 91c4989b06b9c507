/* tercel check: can tercel run this file?  Everything that is wrong with it or suspicious, and what to do. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

typedef struct options {
  bool json, no_mmap, errors_only;
  tercel_cli_list allow_external, plugins;
} options;

static const tercel_cli_option own[] = {
    {"json", TERCEL_CLI_FLAG, offsetof(options, json), NULL,
     "print one JSON object: {\"runs\", \"status\", \"rows\": [{\"level\", \"kind\", \"op\", \"node\", \"message\", "
     "\"advice\"}]}",
     NULL},
    {"errors", TERCEL_CLI_FLAG, offsetof(options, errors_only), NULL, "print no warnings and no notes", NULL},
    {"allow-external", TERCEL_CLI_LIST, offsetof(options, allow_external), "DIR",
     "as for `tercel run`: external data may lie in DIR, too", NULL},
    {"plugin", TERCEL_CLI_LIST, offsetof(options, plugins), "FILE.so", "as for `tercel run`: operators of your own",
     NULL},
    {"no-mmap", TERCEL_CLI_FLAG, offsetof(options, no_mmap), NULL, "read the file instead of mapping it", NULL},
    {0}};
static const tercel_cli_group groups[] = {{"options", own, 0}, {0}};
static const tercel_cli_usage usage = {
    .command = "check",
    .operands = "MODEL",
    .what =
        "Tells whether tercel can run MODEL, without running it: everything that is not supported or contradicts "
        "itself (errors), what may not be meant so or runs slowly (warnings), and what is good to know (notes), each "
        "with what to do.  Weights are not read.  The exit status is 0 when the model runs, 3 when it is legal but "
        "something in it is not supported, and 1 when it is wrong or can't be read.",
    .examples = "  tercel check net.onnx\n"
                "  tercel check net.onnx --json | jq '.rows[] | select(.level == \"error\")'\n"
                "  tercel check net.onnx && tercel run net.onnx\n",
    .groups = groups,
    .min_operands = 1,
    .max_operands = 1,
};

static const char *const levels[] = {
    [TERCEL_CHECK_NOTE] = "note", [TERCEL_CHECK_WARNING] = "warning", [TERCEL_CHECK_ERROR] = "error"};

/* ---- for readers ---- */

enum { NODES_SHOWN = 3 };

static bool says_the_same(const tercel_check_row *a, const tercel_check_row *b) {
  return a->level == b->level && strcmp(a->kind, b->kind) == 0 && strcmp(a->op, b->op) == 0 &&
         strcmp(a->message, b->message) == 0 && strcmp(a->advice, b->advice) == 0;
}

/* Was the same said of an earlier row?  The first row names the nodes of all. */
static bool is_repeated(const tercel_check *check, size_t index, const tercel_check_row *row) {
  tercel_check_row other;
  for (size_t i = 0; i < index && tercel_check_get_row(check, i, &other); i++)
    if (says_the_same(row, &other)) return true;
  return false;
}

/* "Conv 'a', 'b' and 3 more: " of the row and all that say the same. */
static void print_place(const tercel_check *check, size_t index, const tercel_check_row *row) {
  tercel_check_row other;
  size_t nodes = 0;
  if (row->op[0]) printf(" %s", row->op);
  for (size_t i = index; tercel_check_get_row(check, i, &other); i++) {
    if (!other.node[0] || !says_the_same(row, &other)) continue;
    if (nodes++ < NODES_SHOWN) printf("%s'%s'", nodes > 1 ? ", " : " ", other.node);
  }
  if (nodes > NODES_SHOWN) printf(" and %zu more", nodes - NODES_SHOWN);
  printf("%s", nodes || row->op[0] ? ":" : "");
}

static void print_rows(const options *o, const tercel_check *check) {
  tercel_check_row row;
  for (size_t i = 0; tercel_check_get_row(check, i, &row); i++) {
    if ((o->errors_only && row.level != TERCEL_CHECK_ERROR) || is_repeated(check, i, &row)) continue;
    printf("%s:", levels[row.level]);
    print_place(check, i, &row);
    printf(" %s\n", row.message);
    if (row.advice[0]) printf("  -> %s\n", row.advice);
  }
}

static void print_verdict(const char *path, const tercel_check *check) {
  size_t counts[TERCEL_CHECK_ERROR + 1] = {0};
  tercel_check_row row;
  for (size_t i = 0; tercel_check_get_row(check, i, &row); i++) counts[row.level]++;
  printf("%s: %s (%zu errors, %zu warnings, %zu notes)\n", path,
         counts[TERCEL_CHECK_ERROR] ? "tercel can't run it" : "tercel runs it", counts[TERCEL_CHECK_ERROR],
         counts[TERCEL_CHECK_WARNING], counts[TERCEL_CHECK_NOTE]);
}

/* ---- for machines ---- */

static void add_member(tercel_text *text, const char *name, const char *value, const char *after) {
  tercel_text_add(text, "\"%s\": ", name);
  tercel_text_add_json(text, value, strlen(value));
  tercel_text_add(text, "%s", after);
}

static tercel_status print_json(const options *o, const tercel_check *check, tercel_error *err) {
  const tercel_status status = tercel_check_get_status(check);
  tercel_text text = {0};
  tercel_check_row row;
  bool first = true;
  tercel_text_add(&text, "{\"runs\": %s, ", status == TERCEL_OK ? "true" : "false");
  add_member(&text, "status", tercel_status_name(status), ", \"rows\": [");
  for (size_t i = 0; tercel_check_get_row(check, i, &row); i++) {
    if (o->errors_only && row.level != TERCEL_CHECK_ERROR) continue;
    tercel_text_add(&text, "%s\n  {", first ? "" : ",");
    first = false;
    add_member(&text, "level", levels[row.level], ", ");
    add_member(&text, "kind", row.kind, ", ");
    add_member(&text, "op", row.op, ", ");
    add_member(&text, "node", row.node, ", ");
    add_member(&text, "message", row.message, ", ");
    add_member(&text, "advice", row.advice, "}");
  }
  tercel_text_add(&text, "%s]}\n", first ? "" : "\n");
  const tercel_status printed = text.failed ? tercel_fail_memory(err, text.capacity, "a text") : TERCEL_OK;
  if (printed == TERCEL_OK) fputs(text.data, stdout);
  tercel_text_deinit(&text);
  return printed;
}

/* ---- the command ---- */

static int exit_code_of(tercel_status status) {
  return status == TERCEL_OK            ? TERCEL_EXIT_OK
         : status == TERCEL_UNSUPPORTED ? TERCEL_EXIT_UNSUPPORTED
                                        : TERCEL_EXIT_FAILED;
}

/* An engine file: all of its checksums, its graph and its plan. */
static int check_engine(const options *o, const char *path) {
  tercel_operators *operators = NULL;
  tercel_engine *engine = NULL;
  tercel_engine_info info = {.size = sizeof info};
  tercel_error err = {0};
  tercel_status status = tercel_cli_load_plugins(&o->plugins, &operators, &err);
  const tercel_load_options wanted = {
      .size = sizeof wanted, .no_mmap = o->no_mmap, .check_weights = 1, .look_only = 1, .operators = operators};
  if (status == TERCEL_OK) status = tercel_engine_load(path, &wanted, &engine, &err);
  tercel_operators_destroy(operators);
  if (status == TERCEL_OK) status = tercel_engine_get_info(engine, &info, &err);
  tercel_engine_destroy(engine);
  if (status != TERCEL_OK) return tercel_cli_fail("check", &err);
  printf("%s: whole: %zu steps%s; %zu run another kernel here, weights of %zu are laid out otherwise\n", path,
         info.num_steps, info.stripped ? ", without weights" : "", info.num_replaced, info.num_repacked);
  return TERCEL_EXIT_OK;
}

int tercel_cli_check(int argc, char **argv) {
  options o = {0};
  tercel_cli_list operands = {0};
  tercel_error err = {0};
  tercel_check *check = NULL;
  int exit_code;
  if (!tercel_cli_parse(&usage, argc, argv, &o, &operands, &exit_code)) return exit_code;
  if (tercel_is_engine_file(operands.items[0])) return check_engine(&o, operands.items[0]);
  tercel_operators *operators = NULL;
  tercel_status status = tercel_cli_load_plugins(&o.plugins, &operators, &err);
  const tercel_model_options wanted = {.size = sizeof wanted,
                                       .no_mmap = o.no_mmap,
                                       .allow_external = o.allow_external.items,
                                       .num_allow_external = (size_t)o.allow_external.count,
                                       .operators = operators};
  if (status == TERCEL_OK) status = tercel_model_check(operands.items[0], &wanted, &check, &err);
  tercel_operators_destroy(operators);
  if (status == TERCEL_OK && o.json) status = print_json(&o, check, &err);
  if (status == TERCEL_OK && !o.json) {
    print_rows(&o, check);
    print_verdict(operands.items[0], check);
  }
  exit_code = status == TERCEL_OK ? exit_code_of(tercel_check_get_status(check)) : tercel_cli_fail("check", &err);
  tercel_check_destroy(check);
  return exit_code;
}
