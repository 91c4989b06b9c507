/* Parses options by the tables of a subcommand, and prints its help out of them. */
#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int tercel_cli_fail_usage(const char *command, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "tercel %s: ", command);
  vfprintf(stderr, format, args);
  fprintf(stderr, "; see `tercel %s --help`\n", command);
  va_end(args);
  return TERCEL_EXIT_USAGE;
}

int tercel_cli_fail(const char *command, const tercel_error *err) {
  fprintf(stderr, "tercel %s: %s\n", command, err->message);
  return err->status == TERCEL_UNSUPPORTED ? TERCEL_EXIT_UNSUPPORTED : TERCEL_EXIT_FAILED;
}

/* ---- help ---- */

enum { HELP_COLUMN = 28, HELP_WIDTH = 100 };

/* Wraps text at HELP_WIDTH, every line but the first indented to `column`. */
static void print_wrapped(const char *text, int column) {
  int at = column;
  while (*text) {
    const int length = (int)strcspn(text, " ");
    if (at > column && at + 1 + length > HELP_WIDTH) {
      printf("\n%*s", column, "");
      at = column;
    } else if (at > column) {
      putchar(' ');
      at++;
    }
    printf("%.*s", length, text);
    at += length;
    text += length;
    text += strspn(text, " ");
  }
  putchar('\n');
}

static void print_option(const tercel_cli_option *option) {
  char left[80];
  const bool maybe = option->type == TERCEL_CLI_MAYBE_NUMBER;
  snprintf(left, sizeof left, "  --%s%s%s%s", option->name,
           maybe           ? "[="
           : option->value ? " "
                           : "",
           option->value ? option->value : "", maybe ? "]" : "");
  printf("%-*s", HELP_COLUMN, left);
  if (strlen(left) + 1 > HELP_COLUMN) printf("\n%*s", HELP_COLUMN, "");
  print_wrapped(option->help, HELP_COLUMN);
}

static void print_usage(const tercel_cli_usage *usage) {
  printf("usage: tercel %s [OPTION]...%s%s\n\n", usage->command, *usage->operands ? " " : "", usage->operands);
  print_wrapped(usage->what, 0);
  for (const tercel_cli_group *group = usage->groups; group->title; group++) {
    printf("\n%s:\n", group->title);
    for (const tercel_cli_option *option = group->options; option->name; option++) print_option(option);
  }
  printf("\nA value follows its option as --name VALUE or --name=VALUE.\n\nexamples:\n%s", usage->examples);
}

/* ---- parsing ---- */

static bool is_among(const char *names, const char *name, size_t length) {
  for (const char *at = names; at && *at;) {
    const size_t one = strcspn(at, ",");
    if (one == length && memcmp(at, name, length) == 0) return true;
    at += one;
    at += *at == ',';
  }
  return false;
}

static const tercel_cli_option *find(const tercel_cli_usage *usage, const char *name, size_t length, size_t *offset) {
  for (const tercel_cli_group *group = usage->groups; group->title; group++) {
    for (const tercel_cli_option *option = group->options; option->name; option++) {
      if (!is_among(option->name, name, length) && !is_among(option->other_names, name, length)) continue;
      *offset = group->offset + option->offset;
      return option;
    }
  }
  return NULL;
}

/* "512M" */
static bool parse_bytes(const char *text, int64_t *out) {
  static const char units[] = "KMGT";
  size_t length = strlen(text);
  const char *const unit = length ? strchr(units, text[length - 1]) : NULL;
  int64_t value;
  if (!tercel_parse_i64(text, length - (unit != NULL), &value) || value < 0) return false;
  return tercel_mul_i64(value, unit ? (int64_t)1 << 10 * (unit - units + 1) : 1, out);
}

/* Stores the value; a message when it is not of the option's type, else NULL. */
static const char *store(const tercel_cli_option *option, const char *value, void *variable) {
  tercel_cli_list *const list = variable;
  switch (option->type) {
  case TERCEL_CLI_FLAG: *(bool *)variable = true; return NULL;
  case TERCEL_CLI_TEXT: *(const char **)variable = value; return NULL;
  case TERCEL_CLI_INT:
    return tercel_parse_i64(value, strlen(value), variable) && *(int64_t *)variable >= 0 ? NULL
                                                                                         : "want a whole number from 0";
  case TERCEL_CLI_MAYBE_NUMBER:
    if (!value) return *(double *)variable = -1, NULL;
    __attribute__((fallthrough));
  case TERCEL_CLI_NUMBER: return tercel_parse_f64(value, strlen(value), variable) ? NULL : "want a number";
  case TERCEL_CLI_BYTES: return parse_bytes(value, variable) ? NULL : "want a size such as 512M";
  case TERCEL_CLI_LIST:
    if (list->count == TERCEL_CLI_LIST_MAX) return "is given too often";
    list->items[list->count++] = value;
    return NULL;
  }
  return NULL;
}

/* Parses the option at argv[*index], and moves *index over its value.  An exit code, or -1 to go on. */
static int parse_option(const tercel_cli_usage *usage, int argc, char **argv, int *index, void *options) {
  const char *const argument = argv[*index];
  const char *const name = argument + strspn(argument, "-");
  const size_t length = strcspn(name, "=");
  const char *value = name[length] == '=' ? name + length + 1 : NULL;
  size_t offset = 0;
  if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
    print_usage(usage);
    return TERCEL_EXIT_OK;
  }
  const tercel_cli_option *const option = find(usage, name, length, &offset);
  if (!option)
    return tercel_cli_fail_usage(usage->command, "no option '%.*s'", (int)(name - argument) + (int)length, argument);
  if (option->type == TERCEL_CLI_FLAG && value)
    return tercel_cli_fail_usage(usage->command, "--%s takes no value", option->name);
  if (option->type != TERCEL_CLI_FLAG && option->type != TERCEL_CLI_MAYBE_NUMBER && !value) {
    if (*index + 1 == argc)
      return tercel_cli_fail_usage(usage->command, "--%s wants a value: %s", option->name, option->value);
    value = argv[++*index];
  }
  const char *const wrong = store(option, value, (char *)options + offset);
  return wrong ? tercel_cli_fail_usage(usage->command, "--%s '%s': %s", option->name, value, wrong) : -1;
}

bool tercel_cli_parse(const tercel_cli_usage *usage, int argc, char **argv, void *options, tercel_cli_list *operands,
                      int *exit_code) {
  bool only_operands = false;
  for (int i = 1; i < argc; i++) {
    if (!only_operands && strcmp(argv[i], "--") == 0) {
      only_operands = true;
    } else if (!only_operands && argv[i][0] == '-' && argv[i][1]) {
      *exit_code = parse_option(usage, argc, argv, &i, options);
      if (*exit_code >= 0) return false;
    } else if (operands->count == usage->max_operands || operands->count == TERCEL_CLI_LIST_MAX) {
      *exit_code = tercel_cli_fail_usage(usage->command, "'%s' is one argument too many", argv[i]);
      return false;
    } else {
      operands->items[operands->count++] = argv[i];
    }
  }
  if (operands->count >= usage->min_operands) return true;
  *exit_code = tercel_cli_fail_usage(usage->command, "%s is missing", usage->operands);
  return false;
}
