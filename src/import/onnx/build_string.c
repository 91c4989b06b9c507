/* Strings, and tables of strings and n-grams. */
#include <string.h>

#include "import/onnx/build.h"

static void keep(tercel_onnx_call *c, tercel_status status) {
  if (tercel_onnx_ok(c)) c->status = status;
}

void tercel_onnx_build_string_split(tercel_onnx_call *c) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_string_split, 2, tercel_onnx_in(c, 0));
  tercel_onnx_set_text(c, n, "delimiter", tercel_onnx_get_text(c, "delimiter", ""));
  tercel_onnx_copy_int(c, n, "maxsplit");
  tercel_onnx_return_all(c, n);
}

/* ---- n-grams ------------------------------------------------------------------------------------------------------- */

static tercel_value *pool(tercel_onnx_call *c) {
  const tercel_onnx_attr *const strings = tercel_onnx_get_attr(c, "pool_strings", TERCEL_ONNX_STRINGS);
  const tercel_onnx_attr *const ints = tercel_onnx_get_attr(c, "pool_int64s", TERCEL_ONNX_INTS);
  tercel_value *v = NULL;
  if (!strings == !ints)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "want one of the attributes 'pool_strings' and 'pool_int64s'");
  if (!tercel_onnx_ok(c)) return NULL;
  if (ints) return tercel_onnx_i64s(c, ints->ints.items, ints->ints.count);
  keep(c, tercel_onnx_add_strings(c->graph, c->name, strings->strings.items, 1,
                                  &(int64_t){(int64_t)strings->strings.count}, &v, c->err));
  return v;
}

static tercel_value *weights(tercel_onnx_call *c) {
  size_t count;
  const float *const numbers = tercel_onnx_get_floats(c, "weights", &count);
  tercel_value *v = NULL;
  if (!numbers || !tercel_onnx_ok(c)) return NULL;
  keep(c,
       tercel_graph_add_new_constant(c->graph, c->name, TERCEL_DTYPE_F32, 1, &(int64_t){(int64_t)count}, &v, c->err));
  if (v && count > 0) memcpy(v->constant->data, numbers, count * sizeof *numbers);
  return v;
}

void tercel_onnx_build_tfidf_vectorizer(tercel_onnx_call *c) {
  static const char *const required[] = {"max_gram_length", "max_skip_count", "min_gram_length", "mode",
                                         "ngram_counts",    "ngram_indexes"};
  for (size_t i = 0; i < sizeof required / sizeof *required; i++) tercel_onnx_need_attr(c, required[i]);
  const char *const mode = tercel_onnx_get_text(c, "mode", "TF");
  const bool idf = strcmp(mode, "IDF") == 0, tfidf = strcmp(mode, "TFIDF") == 0;
  if (!idf && !tfidf && strcmp(mode, "TF") != 0)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'mode' is '%s', want TF, IDF or TFIDF", mode);
  size_t num_counts, num_indexes;
  const int64_t *const counts = tercel_onnx_get_ints(c, "ngram_counts", &num_counts);
  const int64_t *const indexes = tercel_onnx_get_ints(c, "ngram_indexes", &num_indexes);
  tercel_value *const grams = pool(c), *const factors = weights(c);
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_tfidf, 1, tercel_onnx_in(c, 0), grams, factors);
  tercel_onnx_set_int(c, n, "min", tercel_onnx_get_int(c, "min_gram_length", 1));
  tercel_onnx_set_int(c, n, "max", tercel_onnx_get_int(c, "max_gram_length", 1));
  tercel_onnx_set_int(c, n, "skip", tercel_onnx_get_int(c, "max_skip_count", 0));
  tercel_onnx_set_text(c, n, "mode", idf ? "idf" : tfidf ? "tfidf" : "tf");
  tercel_onnx_set_ints(c, n, "counts", counts, num_counts);
  tercel_onnx_set_ints(c, n, "indexes", indexes, num_indexes);
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}
