/* Finding case folders and their tolerances. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

enum { DEPTH_MAX = 8 };

/* What a walk carries: where it began, and what that folder's index.tsv says. */
typedef struct walk {
  tercel_test_list *list;
  const char *filter;
  double rtol, atol;
  size_t root_length;    /* of the path of the root */
  tercel_map tolerances; /* "kind/name" -> double[2] in the list's arena */
} walk;

/* ---- index.tsv ---- */

/* Field `wanted` of a line of tab-separated text. */
static const char *field(const char *line, size_t line_length, int wanted, size_t *length) {
  const char *at = line, *const end = line + line_length;
  for (int i = 0;; i++) {
    const char *const tab = memchr(at, '\t', (size_t)(end - at));
    const char *const stop = tab ? tab : end;
    if (i == wanted || !tab) {
      *length = i == wanted ? (size_t)(stop - at) : 0;
      return at;
    }
    at = stop + 1;
  }
}

static int find_column(const char *line, size_t length, const char *heading) {
  size_t one;
  for (int i = 0; i < 64; i++) {
    const char *const text = field(line, length, i, &one);
    if (one == strlen(heading) && memcmp(text, heading, one) == 0) return i;
  }
  return -1;
}

static tercel_status add_tolerance(walk *w, const char *line, size_t length, const int columns[4], tercel_error *err) {
  size_t lengths[4];
  const char *texts[4];
  double *const values = tercel_arena_alloc(&w->list->arena, 2 * sizeof *values);
  for (int i = 0; i < 4; i++) texts[i] = field(line, length, columns[i], &lengths[i]);
  const char *const key =
      tercel_arena_printf(&w->list->arena, "%.*s/%.*s", (int)lengths[0], texts[0], (int)lengths[1], texts[1]);
  if (!values || !key) return tercel_fail_memory(err, length, "index.tsv");
  if (!tercel_parse_f64(texts[2], lengths[2], &values[0]) || !tercel_parse_f64(texts[3], lengths[3], &values[1]))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "index.tsv: case '%s' has no numbers as rtol and atol", key);
  return tercel_map_set(&w->tolerances, key, values, err);
}

static tercel_status read_index(walk *w, const char *root, tercel_error *err) {
  static const char *const headings[4] = {"kind", "name", "rtol", "atol"};
  char path[PATH_MAX];
  int columns[4] = {0};
  tercel_file file = {0};
  tercel_status status = TERCEL_OK;
  const int path_length = snprintf(path, sizeof path, "%s/index.tsv", root);
  if (path_length < 0 || (size_t)path_length >= sizeof path || access(path, R_OK) != 0) return TERCEL_OK;
  TERCEL_TRY(tercel_file_open(path, true, &file, err));
  const char *at = (const char *)file.data, *const end = at + file.size;
  for (bool first = true; at && at < end; first = false) {
    const char *const newline = memchr(at, '\n', (size_t)(end - at));
    const size_t length = (size_t)((newline ? newline : end) - at);
    for (int i = 0; first && i < 4; i++) {
      columns[i] = find_column(at, length, headings[i]);
      if (columns[i] < 0) {
        status = tercel_fail(err, TERCEL_INVALID_ARGUMENT, "'%s' has no column '%s'", path, headings[i]);
        goto done;
      }
    }
    if (!first && length) TERCEL_CHECK(add_tolerance(w, at, length, columns, err));
    at += length + 1;
  }
done:
  tercel_file_close(&file);
  return status;
}

/* ---- folders ---- */

static tercel_status add_case(walk *w, const char *path, tercel_error *err) {
  tercel_test_list *const list = w->list;
  if (w->filter && !strstr(path, w->filter)) return TERCEL_OK;
  if (list->count == list->capacity) {
    const size_t capacity = list->capacity ? 2 * list->capacity : 64;
    tercel_test_case *const grown = tercel_realloc(list->cases, list->count * sizeof *grown, capacity * sizeof *grown);
    if (!grown) return tercel_fail_memory(err, capacity * sizeof *grown, "the list of cases");
    list->cases = grown;
    list->capacity = capacity;
  }
  const char *const key = strlen(path) > w->root_length ? path + w->root_length + 1 : path;
  const double *const own = tercel_map_get(&w->tolerances, key, NULL);
  const char *const copy = tercel_arena_strdup(&list->arena, path);
  if (!copy) return tercel_fail_memory(err, strlen(path), "the list of cases");
  list->cases[list->count++] = (tercel_test_case){copy, own ? own[0] : w->rtol, own ? own[1] : w->atol};
  return TERCEL_OK;
}

static bool is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static tercel_status visit(walk *w, const char *path, int depth, tercel_error *err) {
  char below[PATH_MAX];
  tercel_status status = TERCEL_OK;
  int length = snprintf(below, sizeof below, "%s/model.onnx", path);
  if (length < 0 || (size_t)length >= sizeof below)
    return tercel_fail(err, TERCEL_IO, "a path under '%.100s' is too long", path);
  if (access(below, F_OK) == 0) return add_case(w, path, err);
  if (depth == DEPTH_MAX) return TERCEL_OK;
  DIR *const folder = opendir(path);
  if (!folder) return tercel_fail(err, TERCEL_IO, "can't open folder '%s'", path);
  for (const struct dirent *entry; status == TERCEL_OK && (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    length = snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
    if (length > 0 && (size_t)length < sizeof below && is_folder(below)) status = visit(w, below, depth + 1, err);
  }
  closedir(folder);
  return status;
}

static int by_path(const void *a, const void *b) {
  return strcmp(((const tercel_test_case *)a)->path, ((const tercel_test_case *)b)->path);
}

static tercel_status walk_root(walk *w, const char *given, tercel_error *err) {
  char root[PATH_MAX];
  size_t length = strlen(given);
  while (length > 1 && given[length - 1] == '/') length--;
  snprintf(root, sizeof root, "%.*s", (int)length, given);
  w->root_length = strlen(root);
  if (!is_folder(root)) return tercel_fail(err, TERCEL_IO, "'%s' is not a folder", root);
  TERCEL_TRY(read_index(w, root, err));
  return visit(w, root, 0, err);
}

tercel_status tercel_test_find(const tercel_cli_list *roots, const char *filter, double rtol, double atol,
                               tercel_test_list *out, tercel_error *err) {
  *out = (tercel_test_list){0};
  tercel_status status = TERCEL_OK;
  for (int i = 0; i < roots->count && status == TERCEL_OK; i++) {
    walk w = {.list = out, .filter = filter, .rtol = rtol, .atol = atol};
    status = walk_root(&w, roots->items[i], err);
    tercel_map_deinit(&w.tolerances);
  }
  if (out->count) qsort(out->cases, out->count, sizeof *out->cases, by_path);
  return status;
}

void tercel_test_free(tercel_test_list *list) {
  tercel_free(list->cases);
  tercel_arena_deinit(&list->arena);
  *list = (tercel_test_list){0};
}
