/* See check.h. */
#include "ops/check.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

static tercel_status parse(const char *params, const char *body, tercel_graph **out, tercel_error *err) {
  tercel_text text = {0};
  tercel_text_add(&text, "graph \"t\" (%s) {\n%s\n}\n", params, body);
  const tercel_status status = tercel_graph_parse(text.data, text.length, tercel_ops(), out, err);
  tercel_text_deinit(&text);
  return status;
}

static void fail_got(const char *file, int line, const char *got, const char *want) {
  print_error("got  %s\nwant %s\n", got, want);
  _fail(file, line);
}

/* ---- inference ---- */

static void print_contents(const tercel_value *value, tercel_text *out) {
  if (value->contents == NULL) {
    tercel_text_add(out, "?");
    return;
  }
  tercel_text_add(out, "[");
  for (int64_t i = 0; i < value->num_contents; i++) {
    if (i > 0) tercel_text_add(out, ", ");
    tercel_dim_print(value->graph->dims, value->contents[i], out);
  }
  tercel_text_add(out, "]");
}

void check_infer_text(const char *params, const char *body, const char *want_type, const char *want_contents,
                      const char *file, int line) {
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  if (parse(params, body, &graph, &err) != TERCEL_OK || tercel_infer_graph(graph, &err) != TERCEL_OK)
    fail_got(file, line, err.message, "no error");
  tercel_text text = {0};
  const tercel_value *value = graph->outputs[0];
  if (want_type != NULL)
    tercel_type_print(graph->dims, &value->type, &text);
  else
    print_contents(value, &text);
  const char *want = want_type != NULL ? want_type : want_contents;
  if (strcmp(text.data, want) != 0) fail_got(file, line, text.data, want);
  tercel_text_deinit(&text);
  tercel_graph_destroy(graph);
}

static void check_failure(tercel_status status, const tercel_error *err, tercel_status want, const char *part,
                          const char *file, int line) {
  if (status != want || strstr(err->message, part) == NULL)
    fail_got(file, line, status != TERCEL_OK ? err->message : tercel_status_name(status), part);
}

void check_rejects_at(const char *params, const char *body, tercel_status want, const char *part, const char *file,
                      int line) {
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  tercel_status status = parse(params, body, &graph, &err);
  if (status == TERCEL_OK) status = tercel_infer_graph(graph, &err);
  check_failure(status, &err, want, part, file, line);
  tercel_graph_destroy(graph);
}

/* ---- evaluation ---- */

/* The tensors of a graph's values, by id. */
typedef struct values {
  tercel_tensor *tensors;
  tercel_storage **storages;
  size_t count;
} values;

static const tercel_tensor *tensor_of(const values *v, const tercel_value *value) {
  if (value == NULL) return NULL;
  return value->constant != NULL ? value->constant : &v->tensors[value->id];
}

static tercel_status eval_node(values *v, const tercel_node *node, tercel_error *err) {
  const tercel_tensor *in[16];
  tercel_tensor out[16];
  tercel_storage *storages[16];
  assert_true(node->num_inputs <= 16 && node->num_outputs <= 16);
  for (uint32_t i = 0; i < node->num_inputs; i++) in[i] = tensor_of(v, node->inputs[i]);
  TERCEL_TRY(tercel_eval_node(node, in, out, storages, err));
  for (uint32_t i = 0; i < node->num_outputs; i++) {
    if (node->outputs[i] == NULL) continue;
    v->tensors[node->outputs[i]->id] = out[i];
    v->storages[node->outputs[i]->id] = storages[i];
  }
  return TERCEL_OK;
}

static tercel_status eval_graph(const tercel_graph *graph, values *v, tercel_error *err) {
  v->count = graph->num_values;
  v->tensors = tercel_zalloc_array(v->count, sizeof *v->tensors);
  v->storages = tercel_zalloc_array(v->count, sizeof(tercel_storage *));
  for (const tercel_node *node = graph->first; node != NULL; node = node->next) TERCEL_TRY(eval_node(v, node, err));
  return TERCEL_OK;
}

static void deinit_values(values *v) {
  for (size_t i = 0; i < v->count; i++) tercel_storage_release(v->storages[i]);
  tercel_free(v->tensors);
  tercel_free(v->storages);
}

static bool is_equal(const tercel_tensor *a, const tercel_tensor *b, int64_t i, double tolerance) {
  if (a->dtype == TERCEL_DTYPE_STRING) {
    const tercel_string *x = (const tercel_string *)a->data + i, *y = (const tercel_string *)b->data + i;
    return x->length == y->length && (x->length == 0 || memcmp(x->data, y->data, x->length) == 0);
  }
  if (tercel_dtype_get_kind(a->dtype) == TERCEL_KIND_COMPLEX) {
    const size_t bytes = (size_t)tercel_dtype_bits(a->dtype) / 8;
    return memcmp((const char *)a->data + (size_t)i * bytes, (const char *)b->data + (size_t)i * bytes, bytes) == 0;
  }
  if (!tercel_dtype_is_float(a->dtype)) return tercel_tensor_get_i64(a, i) == tercel_tensor_get_i64(b, i);
  const double x = tercel_tensor_get_f64(a, i), y = tercel_tensor_get_f64(b, i);
  return x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= tolerance * fmax(1, fabs(y));
}

static void print_tensor(const tercel_tensor *t, tercel_text *out) {
  tercel_text_add(out, "%s[", tercel_dtype_name(t->dtype));
  for (int d = 0; d < t->rank; d++) tercel_text_add(out, d > 0 ? ", %lld" : "%lld", (long long)t->dims[d]);
  tercel_text_add(out, "] (");
  for (int64_t i = 0; i < tercel_tensor_num_elements(t) && i < 64; i++) {
    if (i > 0) tercel_text_add(out, ", ");
    if (t->dtype == TERCEL_DTYPE_STRING) {
      const tercel_string *s = (const tercel_string *)t->data + i;
      tercel_text_add_json(out, s->data, s->length);
    } else if (tercel_dtype_get_kind(t->dtype) != TERCEL_KIND_COMPLEX) {
      tercel_text_add_f64(out, tercel_tensor_get_f64(t, i));
    }
  }
  tercel_text_add(out, ")");
}

static void check_same(const tercel_tensor *got, const tercel_tensor *want, double tolerance, const char *file,
                       int line) {
  bool same = got->dtype == want->dtype && tercel_tensor_same_shape(got, want);
  for (int64_t i = 0; same && i < tercel_tensor_num_elements(got); i++) same = is_equal(got, want, i, tolerance);
  if (same) return;
  tercel_text a = {0}, b = {0};
  print_tensor(got, &a);
  print_tensor(want, &b);
  fail_got(file, line, a.data, b.data);
}

void check_values_at(const char *body, double tolerance, const char *file, int line) {
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  values v = {0};
  if (parse("", body, &graph, &err) != TERCEL_OK || eval_graph(graph, &v, &err) != TERCEL_OK)
    fail_got(file, line, err.message, "no error");
  assert_true(graph->num_outputs >= 2 && graph->num_outputs % 2 == 0);
  for (uint32_t i = 0; i < graph->num_outputs; i += 2)
    check_same(tensor_of(&v, graph->outputs[i]), tensor_of(&v, graph->outputs[i + 1]), tolerance, file, line);
  deinit_values(&v);
  tercel_graph_destroy(graph);
}

void check_eval_fails_at(const char *body, tercel_status want, const char *part, const char *file, int line) {
  tercel_error err = {0};
  tercel_graph *graph = NULL;
  values v = {0};
  tercel_status status = parse("", body, &graph, &err);
  if (status != TERCEL_OK) fail_got(file, line, err.message, "no error");
  status = eval_graph(graph, &v, &err);
  check_failure(status, &err, want, part, file, line);
  deinit_values(&v);
  tercel_graph_destroy(graph);
}
