/* label_encode, tfidf: elements and n-grams found in a table.  Keys are compared by value: -0 is 0, and NaN is NaN. */
#include <math.h>
#include <string.h>

#include "ops/move.h"
#include "ops/text.h"

/* ---- keys ---------------------------------------------------------------------------------------------------------- */

/* Element i as bytes that are the same where the values are the same, behind what `key` holds; strings with their length. */
static void add_key(tercel_text *key, const tercel_tensor *t, int64_t i) {
  if (t->dtype == TERCEL_DTYPE_STRING) {
    const tercel_string s = tercel_tensor_strings(t)[i];
    tercel_text_add_bytes(key, (const char *)&s.length, sizeof s.length);
    if (s.length > 0) tercel_text_add_bytes(key, s.data, s.length);
  } else if (tercel_dtype_is_float(t->dtype)) {
    double value = tercel_tensor_get_f64(t, i);
    if (value == 0) value = 0;
    if (isnan(value)) value = NAN;
    tercel_text_add_bytes(key, (const char *)&value, sizeof value);
  } else {
    const int64_t value = tercel_tensor_get_i64(t, i);
    tercel_text_add_bytes(key, (const char *)&value, sizeof value);
  }
}

/* A table from keys to places >= 0, and room for the key at hand. */
typedef struct table {
  tercel_map map;
  tercel_text key;
} table;

static void table_deinit(table *t) {
  tercel_map_deinit(&t->map);
  tercel_text_deinit(&t->key);
}

static void start_key(table *t) { t->key.length = 0; }

/* Remembers the key's place; the first of equal keys counts. */
static tercel_status table_add(table *t, int64_t place, tercel_error *err) {
  bool found = false;
  if (t->key.failed) return tercel_fail_memory(err, t->key.length, "a key");
  tercel_map_get_bytes(&t->map, t->key.data, t->key.length, &found);
  return found ? TERCEL_OK : tercel_map_set_bytes(&t->map, t->key.data, t->key.length, (void *)(intptr_t)place, err);
}

/* The key's place, or -1. */
static tercel_status table_find(const table *t, int64_t *place, tercel_error *err) {
  bool found = false;
  if (t->key.failed) return tercel_fail_memory(err, t->key.length, "a key");
  *place = (intptr_t)tercel_map_get_bytes(&t->map, t->key.data, t->key.length, &found);
  if (!found) *place = -1;
  return TERCEL_OK;
}

static tercel_status check_same_kind(const tercel_infer *infer, size_t i, tercel_error *err) {
  const tercel_dtype x = infer->in[0]->type.dtype, keys = infer->in[i]->type.dtype;
  if (x == TERCEL_DTYPE_NONE || keys == TERCEL_DTYPE_NONE) return TERCEL_OK;
  const bool same = tercel_dtype_is_float(x) == tercel_dtype_is_float(keys) &&
                    (x == TERCEL_DTYPE_STRING) == (keys == TERCEL_DTYPE_STRING);
  if (same && tercel_dtype_get_kind(x) != TERCEL_KIND_COMPLEX) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input is %s, the keys %s", tercel_dtype_name(x),
                          tercel_dtype_name(keys));
}

/* ---- label_encode -------------------------------------------------------------------------------------------------- */

static tercel_status infer_label(tercel_infer *infer, tercel_error *err) {
  const tercel_type *const values = &infer->in[2]->type;
  infer->out[0].type = (tercel_type){.dtype = values->dtype, .shape = infer->in[0]->type.shape};
  TERCEL_TRY(check_same_kind(infer, 1, err));
  if (infer->in[3]->type.dtype == values->dtype) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "values are %s, the default %s",
                          tercel_dtype_name(values->dtype), tercel_dtype_name(infer->in[3]->type.dtype));
}

static tercel_status encode(tercel_eval *eval, table *t, tercel_error *err) {
  const tercel_tensor *const x = eval->in[0], *const keys = eval->in[1], *const values = eval->in[2];
  tercel_tensor *const y = eval->out[0];
  const int64_t n = tercel_tensor_num_elements(x), num_keys = tercel_tensor_num_elements(keys);
  if (num_keys != tercel_tensor_num_elements(values) || tercel_tensor_num_elements(eval->in[3]) != 1)
    return tercel_node_fail(eval->node, err, TERCEL_INVALID_MODEL, "%lld keys, %lld values, %lld defaults",
                            (long long)num_keys, (long long)tercel_tensor_num_elements(values),
                            (long long)tercel_tensor_num_elements(eval->in[3]));
  for (int64_t i = 0; i < num_keys; ++i) {
    start_key(t);
    add_key(&t->key, keys, i);
    TERCEL_TRY(table_add(t, i, err));
  }
  for (int64_t i = 0; i < n; ++i) {
    int64_t place;
    start_key(t);
    add_key(&t->key, x, i);
    TERCEL_TRY(table_find(t, &place, err));
    const tercel_tensor *const from = place < 0 ? eval->in[3] : values;
    tercel_element_copy(y->data, i, from->data, place < 0 ? 0 : place, y->dtype);
  }
  return TERCEL_OK;
}

static tercel_status eval_label(tercel_eval *eval, tercel_error *err) {
  table t = {0};
  const tercel_status status = encode(eval, &t, err);
  table_deinit(&t);
  return status;
}

static const tercel_attr_spec no_attrs[] = {{NULL, 0, false, 0, NULL, NULL}};

const tercel_op tercel_op_label_encode = {
    .name = "label_encode",
    .id = TERCEL_OP_LABEL_ENCODE,
    .min_inputs = 4,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "each element as the value that stands beside its key, or the default",
    .attrs = no_attrs,
    .infer = infer_label,
    .eval = eval_label,
    .flops = tercel_no_flops,
};

/* ---- tfidf --------------------------------------------------------------------------------------------------------- */

enum { MAX_GRAM = 64 };

static const char *const tfidf_modes[] = {"tf", "idf", "tfidf", NULL};

/* The number of columns: one more than the largest of the indexes. */
static int64_t count_columns(const tercel_node *node) {
  size_t count = 0;
  const int64_t *const indexes = tercel_node_ints(node, "indexes", &count);
  int64_t most = -1;
  for (size_t i = 0; i < count; ++i) most = tercel_max_i64(most, indexes[i]);
  return most + 1;
}

static tercel_status verify_tfidf(const tercel_node *node, tercel_error *err) {
  int mode;
  size_t num_counts = 0, num_indexes = 0;
  TERCEL_TRY(tercel_node_choice(node, "mode", tfidf_modes, &mode, err));
  const int64_t *const counts = tercel_node_ints(node, "counts", &num_counts);
  const int64_t *const indexes = tercel_node_ints(node, "indexes", &num_indexes);
  const int64_t min = tercel_node_int(node, "min"), max = tercel_node_int(node, "max");
  if (min < 1 || max < min || max > MAX_GRAM || tercel_node_int(node, "skip") < 0)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "n-grams of %lld to %lld elements (at most %d), skip %lld",
                            (long long)min, (long long)max, MAX_GRAM, (long long)tercel_node_int(node, "skip"));
  for (size_t i = 0; i < num_counts; ++i)
    if (counts[i] < 0 || (i > 0 && counts[i] < counts[i - 1]))
      return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "counts do not rise");
  for (size_t i = 0; i < num_indexes; ++i)
    if (indexes[i] < 0 || indexes[i] >= INT32_MAX)
      return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "index %lld", (long long)indexes[i]);
  return TERCEL_OK;
}

static tercel_status infer_tfidf(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *const x = &infer->in[0]->type.shape;
  infer->out[0].type.dtype = TERCEL_DTYPE_F32;
  TERCEL_TRY(check_same_kind(infer, 1, err));
  if (x->rank < 0) return TERCEL_OK;
  if (x->rank != 1 && x->rank != 2)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input of rank %d, want 1 or 2", x->rank);
  infer->out[0].type.shape = *x;
  infer->out[0].type.shape.dims[x->rank - 1] = count_columns(infer->node);
  return tercel_infer_check_size(infer, 0, err);
}

/* Puts all n-grams of the pool into the table: those of n elements stand at counts[n - 1] .. counts[n] of it. */
static tercel_status read_pool(const tercel_eval *eval, table *t, tercel_error *err) {
  const tercel_tensor *const pool = eval->in[1];
  const int64_t size = tercel_tensor_num_elements(pool);
  size_t num_counts = 0, num_grams = 0;
  const int64_t *const counts = tercel_node_ints(eval->node, "counts", &num_counts);
  tercel_node_ints(eval->node, "indexes", &num_grams);
  int64_t gram = 0;
  for (size_t n = 1; n <= num_counts; ++n) {
    const int64_t begin = counts[n - 1], end = n < num_counts ? counts[n] : size;
    if (end > size || begin > end || (end - begin) % (int64_t)n != 0)
      return tercel_node_fail(eval->node, err, TERCEL_INVALID_MODEL,
                              "the pool has %lld elements, %zu-grams at %lld to %lld", (long long)size, n,
                              (long long)begin, (long long)end);
    for (int64_t at = begin; at < end; at += (int64_t)n, ++gram) {
      start_key(t);
      for (size_t k = 0; k < n; ++k) add_key(&t->key, pool, at + (int64_t)k);
      TERCEL_TRY(table_add(t, gram, err));
    }
  }
  if ((uint64_t)gram == num_grams) return TERCEL_OK;
  return tercel_node_fail(eval->node, err, TERCEL_INVALID_MODEL, "%lld n-grams in the pool, %zu indexes",
                          (long long)gram, num_grams);
}

/* Counts the n-grams of one row whose elements stand `step` apart. */
static tercel_status count_grams(const tercel_eval *eval, table *t, int64_t row, int64_t length, int64_t n,
                                 int64_t step, float *y, tercel_error *err) {
  size_t num_grams;
  const int64_t *const indexes = tercel_node_ints(eval->node, "indexes", &num_grams);
  for (int64_t first = 0; first + (n - 1) * step < length; ++first) {
    int64_t gram;
    start_key(t);
    for (int64_t k = 0; k < n; ++k) add_key(&t->key, eval->in[0], row * length + first + k * step);
    TERCEL_TRY(table_find(t, &gram, err));
    if (gram >= 0) y[indexes[gram]] += 1;
  }
  return TERCEL_OK;
}

/* Term frequencies become presence (idf) and get the n-grams' weights. */
static tercel_status weigh(const tercel_eval *eval, float *y, int64_t rows, int64_t columns, tercel_error *err) {
  const tercel_tensor *const weights = tercel_input_tensor(eval->in, eval->num_inputs, 2);
  size_t num_grams;
  int mode;
  const int64_t *const indexes = tercel_node_ints(eval->node, "indexes", &num_grams);
  TERCEL_TRY(tercel_node_choice(eval->node, "mode", tfidf_modes, &mode, err));
  if (mode == 0) return TERCEL_OK;
  if (weights != NULL &&
      (weights->dtype != TERCEL_DTYPE_F32 || (uint64_t)tercel_tensor_num_elements(weights) != num_grams))
    return tercel_node_fail(eval->node, err, TERCEL_INVALID_MODEL, "%lld weights of %s for %zu n-grams",
                            (long long)tercel_tensor_num_elements(weights), tercel_dtype_name(weights->dtype),
                            num_grams);
  for (int64_t r = 0; r < rows; ++r)
    for (size_t g = 0; g < num_grams; ++g) {
      float *const at = &y[r * columns + indexes[g]];
      if (mode == 1) *at = *at > 0;
      if (weights != NULL) *at *= ((const float *)weights->data)[g];
    }
  return TERCEL_OK;
}

static tercel_status tfidf(tercel_eval *eval, table *t, tercel_error *err) {
  const tercel_tensor *const x = eval->in[0];
  const int64_t length = x->dims[x->rank - 1], rows = x->rank == 2 ? x->dims[0] : 1;
  const int64_t columns = eval->out[0]->dims[x->rank - 1];
  float *const y = eval->out[0]->data;
  memset(y, 0, eval->out[0]->bytes);
  TERCEL_TRY(read_pool(eval, t, err));
  const int64_t max = tercel_node_int(eval->node, "max"), skip = tercel_node_int(eval->node, "skip");
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t n = tercel_node_int(eval->node, "min"); n <= max; ++n)
      for (int64_t step = 1; step <= (n == 1 ? 1 : tercel_min_i64(skip, length) + 1); ++step)
        TERCEL_TRY(count_grams(eval, t, r, length, n, step, y + r * columns, err));
  return weigh(eval, y, rows, columns, err);
}

static tercel_status eval_tfidf(tercel_eval *eval, tercel_error *err) {
  table t = {0};
  const tercel_status status = tfidf(eval, &t, err);
  table_deinit(&t);
  return status;
}

static const tercel_attr_spec tfidf_attrs[] = {
    {"min", TERCEL_ATTR_INT, true, 0, NULL, "elements of the shortest n-grams that are counted"},
    {"max", TERCEL_ATTR_INT, true, 0, NULL, "of the longest"},
    {"skip", TERCEL_ATTR_INT, false, 0, NULL, "elements at most between two of an n-gram, all as far apart"},
    {"mode", TERCEL_ATTR_STRING, true, 0, NULL, "tf: how often; idf: weight where it is there; tfidf: both"},
    {"counts", TERCEL_ATTR_INTS, true, 0, NULL, "where in the pool the 1-grams, 2-grams, ... begin"},
    {"indexes", TERCEL_ATTR_INTS, true, 0, NULL, "by n-gram of the pool: its column"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_tfidf = {
    .name = "tfidf",
    .id = TERCEL_OP_TFIDF,
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "how often each n-gram of a pool occurs in a row, weighted",
    .attrs = tfidf_attrs,
    .infer = infer_tfidf,
    .verify = verify_tfidf,
    .eval = eval_tfidf,
    .flops = tercel_no_flops,
};
