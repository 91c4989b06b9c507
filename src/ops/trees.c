/* trees: an ensemble of decision trees.  Post transforms, base values and labels are nodes of their own behind it.
 *
 * Nodes are numbered 0 .. n - 1, leaves 0 .. l - 1.  A child (or root) that is >= 0 is a node, else leaf -1 - child.  Leaf k gives the weights
 * first[k] .. first[k + 1] - 1 to their targets. */
#include <math.h>

#include "ops/move.h"

enum { X, FEATURES, MODES, SPLITS, YES, NO, MISSING, ROOTS, FIRST, TARGETS, WEIGHTS, NUM_INPUTS };
typedef enum mode { AT_MOST, LESS, AT_LEAST, MORE, EQUAL, UNEQUAL, NUM_MODES } mode;
typedef enum aggregate { AVERAGE, SUM, MIN, MAX } aggregate;

static const char *const aggregates[] = {"average", "sum", "min", "max", NULL};
static const tercel_dtype dtypes[NUM_INPUTS] = {
    [FEATURES] = TERCEL_DTYPE_I64, [MODES] = TERCEL_DTYPE_U8,  [YES] = TERCEL_DTYPE_I64,   [NO] = TERCEL_DTYPE_I64,
    [MISSING] = TERCEL_DTYPE_U8,   [ROOTS] = TERCEL_DTYPE_I64, [FIRST] = TERCEL_DTYPE_I64, [TARGETS] = TERCEL_DTYPE_I64,
};

static tercel_status infer_trees(tercel_infer *infer, tercel_error *err) {
  const tercel_type *const x = &infer->in[X]->type;
  infer->out[0].type.dtype = infer->in[WEIGHTS]->type.dtype;
  for (size_t i = 0; i < NUM_INPUTS; ++i) {
    const tercel_dtype is = infer->in[i]->type.dtype;
    if (is == TERCEL_DTYPE_NONE) continue;
    if (dtypes[i] != TERCEL_DTYPE_NONE ? is != dtypes[i] : !tercel_dtype_is_float(is))
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu is %s, want %s", i,
                              tercel_dtype_name(is),
                              dtypes[i] != TERCEL_DTYPE_NONE ? tercel_dtype_name(dtypes[i]) : "a float type");
  }
  if (x->shape.rank < 0) return TERCEL_OK;
  if (x->shape.rank != 2)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input of rank %d, want 2", x->shape.rank);
  TERCEL_TRY(tercel_infer_open(infer, 2, &infer->out[0].type.shape, err));
  infer->out[0].type.shape.dims[0] = x->shape.dims[0];
  infer->out[0].type.shape.dims[1] = tercel_node_int(infer->node, "targets");
  return tercel_infer_check_size(infer, 0, err);
}

static tercel_status verify_trees(const tercel_node *node, tercel_error *err) {
  int choice;
  if (tercel_node_int(node, "targets") < 1)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "%lld targets",
                            (long long)tercel_node_int(node, "targets"));
  return tercel_node_choice(node, "aggregate", aggregates, &choice, err);
}

/* ---- checking the tables ------------------------------------------------------------------------------------------- */

static tercel_status check_range(const tercel_eval *eval, size_t input, int64_t low, int64_t high, tercel_error *err) {
  const tercel_tensor *const t = eval->in[input];
  const int64_t n = tercel_tensor_num_elements(t);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t value = tercel_tensor_get_i64(t, i);
    if (value < low || value >= high)
      return tercel_node_fail(eval->node, err, TERCEL_INVALID_MODEL, "input %zu holds %lld, want %lld to %lld", input,
                              (long long)value, (long long)low, (long long)high - 1);
  }
  return TERCEL_OK;
}

static tercel_status check_tables(const tercel_eval *eval, tercel_error *err) {
  static const uint8_t per_node[] = {FEATURES, MODES, SPLITS, YES, NO, MISSING};
  const int64_t n = tercel_tensor_num_elements(eval->in[FEATURES]);
  const int64_t leaves = tercel_tensor_num_elements(eval->in[FIRST]) - 1;
  const int64_t weights = tercel_tensor_num_elements(eval->in[WEIGHTS]);
  for (size_t i = 0; i < sizeof per_node; ++i)
    if (tercel_tensor_num_elements(eval->in[per_node[i]]) != n)
      return tercel_node_fail(eval->node, err, TERCEL_INVALID_MODEL,
                              "input %u has %lld elements, but there are %lld nodes", per_node[i],
                              (long long)tercel_tensor_num_elements(eval->in[per_node[i]]), (long long)n);
  if (leaves < 0 || tercel_tensor_num_elements(eval->in[TARGETS]) != weights)
    return tercel_node_fail(eval->node, err, TERCEL_INVALID_MODEL, "%lld leaves, %lld targets for %lld weights",
                            (long long)leaves, (long long)tercel_tensor_num_elements(eval->in[TARGETS]),
                            (long long)weights);
  TERCEL_TRY(check_range(eval, FEATURES, 0, eval->in[X]->dims[1], err));
  TERCEL_TRY(check_range(eval, MODES, 0, NUM_MODES, err));
  TERCEL_TRY(check_range(eval, YES, -leaves, n, err));
  TERCEL_TRY(check_range(eval, NO, -leaves, n, err));
  TERCEL_TRY(check_range(eval, ROOTS, -leaves, n, err));
  TERCEL_TRY(check_range(eval, FIRST, 0, weights + 1, err));
  return check_range(eval, TARGETS, 0, tercel_node_int(eval->node, "targets"), err);
}

/* ---- running ------------------------------------------------------------------------------------------------------- */

static bool goes_yes(mode m, double x, double split, bool missing) {
  if (missing && isnan(x)) return true;
  switch (m) {
  case AT_MOST: return x <= split;
  case LESS: return x < split;
  case AT_LEAST: return x >= split;
  case MORE: return x > split;
  case EQUAL: return x == split;
  default: return x != split;
  }
}

/* The leaf that row `row` comes to from `at`; a walk longer than there are nodes goes in circles. */
static tercel_status find_leaf(const tercel_eval *eval, int64_t row, int64_t at, int64_t *leaf, tercel_error *err) {
  const tercel_tensor *const x = eval->in[X];
  const int64_t *const features = eval->in[FEATURES]->data, *const yes = eval->in[YES]->data;
  const int64_t *const no = eval->in[NO]->data;
  const uint8_t *const modes = eval->in[MODES]->data, *const missing = eval->in[MISSING]->data;
  for (int64_t left = tercel_tensor_num_elements(eval->in[FEATURES]); at >= 0; --left) {
    if (left == 0)
      return tercel_node_fail(eval->node, err, TERCEL_INVALID_MODEL, "node %lld is its own ancestor", (long long)at);
    const double value = tercel_tensor_get_f64(x, row * x->dims[1] + features[at]);
    const bool is_yes = goes_yes((mode)modes[at], value, tercel_tensor_get_f64(eval->in[SPLITS], at), missing[at] != 0);
    at = is_yes ? yes[at] : no[at];
  }
  *leaf = -1 - at;
  return TERCEL_OK;
}

/* Sums are in double: they don't depend on the trees' order by more than a rounding. */
static double combine(aggregate how, double sum, bool has, double weight) {
  switch (how) {
  case MIN: return !has || weight < sum ? weight : sum;
  case MAX: return !has || weight > sum ? weight : sum;
  default: return sum + weight;
  }
}

static tercel_status eval_trees(tercel_eval *eval, tercel_error *err) {
  TERCEL_TRY(check_tables(eval, err));
  int how;
  TERCEL_TRY(tercel_node_choice(eval->node, "aggregate", aggregates, &how, err));
  tercel_tensor *const y = eval->out[0];
  const int64_t rows = y->dims[0], columns = y->dims[1], num_roots = tercel_tensor_num_elements(eval->in[ROOTS]);
  const int64_t *const roots = eval->in[ROOTS]->data, *const first = eval->in[FIRST]->data;
  const int64_t *const targets = eval->in[TARGETS]->data;
  double *const sums = tercel_arena_alloc_array(eval->scratch, (size_t)columns, sizeof *sums);
  bool *const has = tercel_arena_alloc_array(eval->scratch, (size_t)columns, sizeof *has);
  if (sums == NULL || has == NULL) return tercel_fail_memory(err, (size_t)columns * sizeof *sums, "trees");
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < columns; ++k) {
      sums[k] = 0;
      has[k] = false;
    }
    for (int64_t t = 0; t < num_roots; ++t) {
      int64_t leaf = 0;
      TERCEL_TRY(find_leaf(eval, r, roots[t], &leaf, err));
      for (int64_t w = first[leaf]; w < first[leaf + 1]; ++w) {
        double *const sum = &sums[targets[w]];
        *sum = combine((aggregate)how, *sum, has[targets[w]], tercel_tensor_get_f64(eval->in[WEIGHTS], w));
        has[targets[w]] = true;
      }
    }
    for (int64_t k = 0; k < columns; ++k)
      tercel_tensor_set_f64(y, r * columns + k,
                            how == AVERAGE && num_roots > 0 ? sums[k] / (double)num_roots : sums[k]);
  }
  return TERCEL_OK;
}

static const tercel_attr_spec trees_attrs[] = {
    {"targets", TERCEL_ATTR_INT, true, 0, NULL, "columns of the result"},
    {"aggregate", TERCEL_ATTR_STRING, false, 0, "sum", "average, sum, min, max: of the trees' weights for a target"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_trees = {
    .name = "trees",
    .id = TERCEL_OP_TREES,
    .min_inputs = NUM_INPUTS,
    .max_inputs = NUM_INPUTS,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "an ensemble of decision trees: the leaves' weights, gathered by target",
    .attrs = trees_attrs,
    .infer = infer_trees,
    .verify = verify_trees,
    .eval = eval_trees,
    .flops = tercel_no_flops,
};
