/* Tree ensembles of ai.onnx.ml: their lists as the tables of the operator `trees`, with base values, post transforms and labels behind it. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "import/onnx/build_ml.h"

enum { AT_MOST, LESS, AT_LEAST, MORE, EQUAL, UNEQUAL, MEMBER, LEAF };

/* The tables being made; arrays in the import's arena. */
typedef struct tables {
  int64_t num_nodes, num_leaves, num_weights, num_roots, targets;
  tercel_dtype dtype; /* of splits and weights */
  int64_t *features, *yes, *no, *roots, *first, *weight_targets;
  uint8_t *modes, *missing;
  double *splits, *weights;
} tables;

static void keep(tercel_onnx_call *c, tercel_status status) {
  if (tercel_onnx_ok(c)) c->status = status;
}

static void *allocate(tercel_onnx_call *c, int64_t count, size_t size) {
  void *const memory = tercel_onnx_ok(c) ? tercel_arena_alloc_array(&c->import->arena, (size_t)count, size) : NULL;
  if (!memory && tercel_onnx_ok(c)) keep(c, tercel_fail_memory(c->err, (size_t)count * size, "trees"));
  return memory;
}

static void allocate_nodes(tercel_onnx_call *c, tables *t) {
  t->features = allocate(c, t->num_nodes, sizeof(int64_t));
  t->yes = allocate(c, t->num_nodes, sizeof(int64_t));
  t->no = allocate(c, t->num_nodes, sizeof(int64_t));
  t->modes = allocate(c, t->num_nodes, 1);
  t->missing = allocate(c, t->num_nodes, 1);
  t->splits = allocate(c, t->num_nodes, sizeof(double));
}

static void allocate_weights(tercel_onnx_call *c, tables *t) {
  t->first = allocate(c, t->num_leaves + 1, sizeof(int64_t));
  t->weight_targets = allocate(c, t->num_weights, sizeof(int64_t));
  t->weights = allocate(c, t->num_weights, sizeof(double));
}

static tercel_value *bytes(tercel_onnx_call *c, const uint8_t *values, int64_t count) {
  tercel_value *v = NULL;
  if (!tercel_onnx_ok(c)) return NULL;
  keep(c, tercel_graph_add_new_constant(c->graph, c->name, TERCEL_DTYPE_U8, 1, &count, &v, c->err));
  if (v && count > 0) memcpy(v->constant->data, values, (size_t)count);
  return v;
}

static tercel_value *numbers(tercel_onnx_call *c, const double *values, int64_t count, tercel_dtype dtype) {
  tercel_value *v = NULL;
  if (!tercel_onnx_ok(c)) return NULL;
  keep(c, tercel_graph_add_new_constant(c->graph, c->name, dtype, 1, &count, &v, c->err));
  for (int64_t i = 0; v && i < count; i++) tercel_element_set_f64(v->constant->data, dtype, i, values[i]);
  return v;
}

static tercel_value *add_trees(tercel_onnx_call *c, const tables *t, const char *aggregate) {
  if (!tercel_onnx_ok(c)) return NULL;
  tercel_node *const n = tercel_onnx_begin(
      c, &tercel_op_trees, 1, tercel_onnx_ml_float_input(c, 0), tercel_onnx_i64s(c, t->features, (size_t)t->num_nodes),
      bytes(c, t->modes, t->num_nodes), numbers(c, t->splits, t->num_nodes, t->dtype),
      tercel_onnx_i64s(c, t->yes, (size_t)t->num_nodes), tercel_onnx_i64s(c, t->no, (size_t)t->num_nodes),
      bytes(c, t->missing, t->num_nodes), tercel_onnx_i64s(c, t->roots, (size_t)t->num_roots),
      tercel_onnx_i64s(c, t->first, (size_t)t->num_leaves + 1),
      tercel_onnx_i64s(c, t->weight_targets, (size_t)t->num_weights), numbers(c, t->weights, t->num_weights, t->dtype));
  tercel_onnx_set_int(c, n, "targets", t->targets);
  tercel_onnx_set_text(c, n, "aggregate", aggregate);
  return tercel_onnx_end(c, n);
}

/* Numbers of an attribute: a tensor, or floats; NULL when neither is there. */
static double *get_numbers(tercel_onnx_call *c, const char *tensor, const char *floats, int64_t *count,
                           tercel_dtype *dtype) {
  const tercel_onnx_attr *const t = tensor ? tercel_onnx_get_attr(c, tensor, TERCEL_ONNX_TENSOR) : NULL;
  const tercel_onnx_attr *const f = floats ? tercel_onnx_get_attr(c, floats, TERCEL_ONNX_FLOATS) : NULL;
  *count = 0;
  if (t && t->t) {
    tercel_value *v = NULL;
    if (tercel_onnx_ok(c)) keep(c, tercel_onnx_add_tensor(c->import, c->graph, c->name, t->t, &v, c->err));
    if (!tercel_onnx_ok(c)) return NULL;
    const tercel_dtype_kind kind = tercel_dtype_get_kind(v->type.dtype);
    if (kind == TERCEL_KIND_STRING || kind == TERCEL_KIND_COMPLEX) {
      tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute '%s' holds no numbers", tensor);
      return NULL;
    }
    *count = tercel_tensor_num_elements(v->constant);
    if (dtype) *dtype = v->type.dtype;
    double *const out = allocate(c, *count, sizeof *out);
    for (int64_t i = 0; out && i < *count; i++) out[i] = tercel_tensor_get_f64(v->constant, i);
    return out;
  }
  if (!f || !tercel_onnx_ok(c)) return NULL;
  *count = (int64_t)f->floats.count;
  double *const out = allocate(c, *count, sizeof *out);
  for (int64_t i = 0; out && i < *count; i++) out[i] = (double)f->floats.items[i];
  return out;
}

/* A list of ints of this length; NULL where it may be absent and is. */
static const int64_t *get_ints(tercel_onnx_call *c, const char *name, int64_t want, bool optional) {
  size_t count;
  const int64_t *const values = tercel_onnx_get_ints(c, name, &count);
  if (optional && count == 0) return NULL;
  if (tercel_onnx_ok(c) && (int64_t)count != want)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute '%s' has %zu elements, want %" PRId64, name, count, want);
  return values;
}

static int64_t count_ints(tercel_onnx_call *c, const char *name) {
  size_t count;
  tercel_onnx_get_ints(c, name, &count);
  return (int64_t)count;
}

/* ---- TreeEnsemble: trees by index -------------------------------------------------------------------------------- */

/* A node whose test is membership becomes a chain of tests for one member each; without members it is a test that never holds. */
static void expand_members(tercel_onnx_call *c, tables *t, int64_t own_nodes, const double *members, int64_t count) {
  int64_t next = own_nodes, at = 0;
  for (int64_t i = 0; i < own_nodes; i++) {
    if (t->modes[i] != MEMBER) continue;
    int64_t node = i;
    const int64_t no = t->no[i];
    t->modes[i] = EQUAL;
    t->splits[i] = NAN;
    for (bool first = true; at < count && !isnan(members[at]); at++, first = false) {
      if (!first) {
        t->features[next] = t->features[i];
        t->modes[next] = EQUAL;
        t->missing[next] = t->missing[i];
        t->yes[next] = t->yes[i];
        t->no[node] = next;
        node = next++;
      }
      t->splits[node] = members[at];
      t->no[node] = no;
    }
    if (at == count)
      tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "membership_values end before those of node %" PRId64, i);
    at++;
  }
  t->num_nodes = next;
}

void tercel_onnx_build_tree_ensemble(tercel_onnx_call *c) {
  static const char *const aggregates[] = {"average", "sum", "min", "max"};
  static const char *const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  tables t = {.targets = tercel_onnx_get_int(c, "n_targets", 1), .dtype = TERCEL_DTYPE_F32};
  int64_t num_modes, num_splits, num_members;
  const int64_t own_nodes = count_ints(c, "nodes_featureids");
  const double *const modes = get_numbers(c, "nodes_modes", NULL, &num_modes, NULL);
  const double *const splits = get_numbers(c, "nodes_splits", NULL, &num_splits, &t.dtype);
  const double *const members = get_numbers(c, "membership_values", NULL, &num_members, NULL);
  const double *const weights = get_numbers(c, "leaf_weights", NULL, &t.num_weights, &t.dtype);
  const int64_t *const features = get_ints(c, "nodes_featureids", own_nodes, false);
  const int64_t *const yes = get_ints(c, "nodes_truenodeids", own_nodes, false);
  const int64_t *const no = get_ints(c, "nodes_falsenodeids", own_nodes, false);
  const int64_t *const yes_leaf = get_ints(c, "nodes_trueleafs", own_nodes, false);
  const int64_t *const no_leaf = get_ints(c, "nodes_falseleafs", own_nodes, false);
  const int64_t *const missing = get_ints(c, "nodes_missing_value_tracks_true", own_nodes, true);
  const int64_t *const targets = get_ints(c, "leaf_targetids", t.num_weights, false);
  tercel_onnx_ignore_attr(c, "nodes_hitrates");
  t.num_roots = count_ints(c, "tree_roots");
  const int64_t *const roots = get_ints(c, "tree_roots", t.num_roots, false);
  const int64_t aggregate = tercel_onnx_get_int(c, "aggregate_function", 1);
  const int64_t transform = tercel_onnx_get_int(c, "post_transform", 0);
  if (num_modes != own_nodes || num_splits != own_nodes || aggregate < 0 || aggregate > 3 || transform < 0 ||
      transform > 4)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL,
                     "%" PRId64 " nodes, %" PRId64 " modes, %" PRId64 " splits, aggregate_function %" PRId64
                     ", post_transform %" PRId64,
                     own_nodes, num_modes, num_splits, aggregate, transform);
  t.num_nodes = own_nodes + num_members;
  t.num_leaves = t.num_weights;
  allocate_nodes(c, &t);
  allocate_weights(c, &t);
  t.roots = allocate(c, t.num_roots, sizeof(int64_t));
  if (!tercel_onnx_ok(c)) return;
  for (int64_t i = 0; i < own_nodes; i++) {
    t.features[i] = features[i];
    t.modes[i] = modes[i] >= 0 && modes[i] <= MEMBER ? (uint8_t)modes[i] : UINT8_MAX; /* refused by the operator */
    t.splits[i] = splits[i];
    t.missing[i] = missing && missing[i] != 0;
    t.yes[i] = yes_leaf[i] ? -1 - yes[i] : yes[i];
    t.no[i] = no_leaf[i] ? -1 - no[i] : no[i];
  }
  expand_members(c, &t, own_nodes, members, num_members);
  for (int64_t i = 0; i < t.num_weights; i++) {
    t.first[i] = i;
    t.weight_targets[i] = targets[i];
    t.weights[i] = weights[i];
  }
  t.first[t.num_leaves] = t.num_weights;
  for (int64_t i = 0; i < t.num_roots; i++) t.roots[i] = roots[i];
  tercel_value *const y = add_trees(c, &t, aggregates[aggregate]);
  tercel_onnx_return(c, 0, tercel_onnx_ok(c) ? tercel_onnx_ml_apply(c, y, transforms[transform]) : NULL);
}

/* ---- regressor and classifier: nodes by (tree, node) ---------------------------------------------------------------- */

static uint8_t mode_of(tercel_onnx_call *c, tercel_string name) {
  static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (name.length == strlen(names[i]) && memcmp(name.data, names[i], name.length) == 0) return (uint8_t)i;
  if (name.length == 4 && memcmp(name.data, "LEAF", 4) == 0) return LEAF;
  tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "node mode '%.*s' is not supported", (int)name.length, name.data);
  return LEAF;
}

/* Where a (tree, node) stands in the lists. */
static int64_t find(tercel_onnx_call *c, const tercel_map *index, int64_t tree, int64_t node) {
  const int64_t key[] = {tree, node};
  bool found = false;
  const int64_t at = (intptr_t)tercel_map_get_bytes(index, key, sizeof key, &found);
  if (found) return at;
  tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "tree %" PRId64 " has no node %" PRId64, tree, node);
  return 0;
}

static void index_nodes(tercel_onnx_call *c, tercel_map *index, const int64_t *trees, const int64_t *nodes,
                        int64_t count) {
  for (int64_t i = 0; tercel_onnx_ok(c) && i < count; i++) {
    const int64_t key[] = {trees[i], nodes[i]};
    bool found = false;
    tercel_map_get_bytes(index, key, sizeof key, &found);
    if (found)
      tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "tree %" PRId64 " has two nodes %" PRId64, trees[i], nodes[i]);
    else
      keep(c, tercel_map_set_bytes(index, key, sizeof key, (void *)(intptr_t)i, c->err));
  }
}

/* The lists as they stand in the file: "class_ids" or "target_ids" and so on. */
typedef struct lists {
  int64_t num_nodes;
  const int64_t *trees, *nodes, *features, *yes, *no, *missing;
  const double *splits;
  tercel_string *modes;
  int64_t num_weights;
  const int64_t *weight_trees, *weight_nodes, *weight_targets;
  const double *weights;
} lists;

static const int64_t *get_prefixed(tercel_onnx_call *c, const char *prefix, const char *name, int64_t want) {
  const char *const full = tercel_arena_printf(&c->import->arena, "%s_%s", prefix, name);
  if (!full) keep(c, tercel_fail_memory(c->err, 32, "a name"));
  return full ? get_ints(c, full, want, false) : NULL;
}

static void read_lists(tercel_onnx_call *c, const char *prefix, const char *weights, const char *weights_tensor,
                       lists *l, tercel_dtype *dtype) {
  int64_t num_splits;
  l->num_nodes = count_ints(c, "nodes_nodeids");
  l->trees = get_ints(c, "nodes_treeids", l->num_nodes, false);
  l->nodes = get_ints(c, "nodes_nodeids", l->num_nodes, false);
  l->features = get_ints(c, "nodes_featureids", l->num_nodes, false);
  l->yes = get_ints(c, "nodes_truenodeids", l->num_nodes, false);
  l->no = get_ints(c, "nodes_falsenodeids", l->num_nodes, false);
  l->missing = get_ints(c, "nodes_missing_value_tracks_true", l->num_nodes, true);
  l->splits = get_numbers(c, "nodes_values_as_tensor", "nodes_values", &num_splits, dtype);
  tercel_onnx_ignore_attr(c, "nodes_hitrates");
  tercel_onnx_ignore_attr(c, "nodes_hitrates_as_tensor");
  const tercel_onnx_attr *const modes = tercel_onnx_get_attr(c, "nodes_modes", TERCEL_ONNX_STRINGS);
  l->modes = modes ? modes->strings.items : NULL;
  l->weights = get_numbers(c, weights_tensor, weights, &l->num_weights, dtype);
  l->weight_trees = get_prefixed(c, prefix, "treeids", l->num_weights);
  l->weight_nodes = get_prefixed(c, prefix, "nodeids", l->num_weights);
  l->weight_targets = get_prefixed(c, prefix, "ids", l->num_weights);
  if (num_splits != l->num_nodes || !modes || (int64_t)modes->strings.count != l->num_nodes)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "%" PRId64 " nodes, but %" PRId64 " values and %zu modes", l->num_nodes,
                     num_splits, modes ? modes->strings.count : 0);
}

/* Numbers the nodes that are leaves -1, -2, ... and the others 0, 1, ... */
static void number_nodes(tercel_onnx_call *c, const lists *l, tables *t, int64_t *number) {
  for (int64_t i = 0; tercel_onnx_ok(c) && i < l->num_nodes; i++) {
    const uint8_t mode = mode_of(c, l->modes[i]);
    if (mode == LEAF) {
      number[i] = -1 - t->num_leaves++;
      continue;
    }
    t->features[t->num_nodes] = l->features[i];
    t->modes[t->num_nodes] = mode;
    t->splits[t->num_nodes] = l->splits[i];
    t->missing[t->num_nodes] = l->missing && l->missing[i] != 0;
    number[i] = t->num_nodes++;
  }
}

/* Children, and as roots the nodes that are no child. */
static void link_nodes(tercel_onnx_call *c, const lists *l, const tercel_map *index, tables *t, const int64_t *number) {
  uint8_t *const is_child = allocate(c, l->num_nodes, 1);
  for (int64_t i = 0; tercel_onnx_ok(c) && i < l->num_nodes; i++) {
    if (number[i] < 0) continue;
    const int64_t yes = find(c, index, l->trees[i], l->yes[i]), no = find(c, index, l->trees[i], l->no[i]);
    t->yes[number[i]] = number[yes];
    t->no[number[i]] = number[no];
    is_child[yes] = is_child[no] = 1;
  }
  for (int64_t i = 0; tercel_onnx_ok(c) && i < l->num_nodes; i++)
    if (!is_child[i]) t->roots[t->num_roots++] = number[i];
}

/* Weights sorted by leaf, in the order of the file. */
static void place_weights(tercel_onnx_call *c, const lists *l, const tercel_map *index, tables *t,
                          const int64_t *number) {
  int64_t *const leaf = allocate(c, l->num_weights, sizeof *leaf);
  for (int64_t i = 0; tercel_onnx_ok(c) && i < l->num_weights; i++) {
    const int64_t at = number[find(c, index, l->weight_trees[i], l->weight_nodes[i])];
    if (at >= 0)
      tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "node %" PRId64 " of tree %" PRId64 " has a weight, but is no leaf",
                       l->weight_nodes[i], l->weight_trees[i]);
    leaf[i] = -1 - at;
    if (at < 0) t->first[leaf[i] + 1]++;
  }
  if (!tercel_onnx_ok(c)) return;
  for (int64_t k = 0; k < t->num_leaves; k++) t->first[k + 1] += t->first[k];
  int64_t *const next = allocate(c, t->num_leaves, sizeof *next);
  if (!next) return;
  memcpy(next, t->first, (size_t)t->num_leaves * sizeof *next);
  for (int64_t i = 0; i < l->num_weights; i++) {
    const int64_t at = next[leaf[i]]++;
    t->weight_targets[at] = l->weight_targets[i];
    t->weights[at] = l->weights[i];
  }
}

static void make_tables(tercel_onnx_call *c, const lists *l, tables *t) {
  tercel_map index = {0};
  if (tercel_onnx_ok(c)) index_nodes(c, &index, l->trees, l->nodes, l->num_nodes);
  int64_t *const number = allocate(c, l->num_nodes, sizeof *number);
  t->num_nodes = l->num_nodes;
  t->num_weights = l->num_weights;
  allocate_nodes(c, t);
  t->num_nodes = 0;
  t->roots = allocate(c, l->num_nodes, sizeof(int64_t));
  if (tercel_onnx_ok(c)) number_nodes(c, l, t, number);
  allocate_weights(c, t);
  if (tercel_onnx_ok(c)) link_nodes(c, l, &index, t, number);
  if (tercel_onnx_ok(c)) place_weights(c, l, &index, t, number);
  tercel_map_deinit(&index);
}

/* Base values of all columns, or of the one that is there. */
static tercel_value *add_base(tercel_onnx_call *c, tercel_value *scores, int64_t columns, tercel_dtype dtype) {
  int64_t count;
  const double *const base = get_numbers(c, "base_values_as_tensor", "base_values", &count, NULL);
  if (!base || count == 0) return scores;
  if (count != 1 && count != columns)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "%" PRId64 " base values for %" PRId64 " results", count, columns);
  return tercel_onnx_fn2(c, TERCEL_FN_ADD, scores, numbers(c, base, count, dtype));
}

void tercel_onnx_build_tree_ensemble_regressor(tercel_onnx_call *c) {
  static const char *const names[][2] = {{"AVERAGE", "average"}, {"SUM", "sum"}, {"MIN", "min"}, {"MAX", "max"}};
  const char *const wanted = tercel_onnx_get_text(c, "aggregate_function", "SUM");
  const char *aggregate = NULL;
  for (size_t i = 0; i < 4; i++)
    if (strcmp(wanted, names[i][0]) == 0) aggregate = names[i][1];
  if (!aggregate) tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'aggregate_function' is '%s'", wanted);
  tables t = {.targets = tercel_onnx_get_int(c, "n_targets", 1), .dtype = TERCEL_DTYPE_F32};
  lists l = {0};
  read_lists(c, "target", "target_weights", "target_weights_as_tensor", &l, &t.dtype);
  make_tables(c, &l, &t);
  tercel_value *y = add_base(c, add_trees(c, &t, aggregate), t.targets, t.dtype);
  y = tercel_onnx_ml_transform(c, y);
  tercel_onnx_return(c, 0, y ? tercel_onnx_cast(c, y, TERCEL_DTYPE_F32) : NULL);
}

/* Two labels whose leaves all weigh one class: ONNX Runtime takes that score as the second label's, whichever it is of, with the threshold
 * 0.5 where no weight is negative, else 0.  Of class 0 the other score is made up from it, of class 1 it is 0. */
static bool has_one_class(const tables *t) {
  for (int64_t i = 1; i < t->num_weights; i++)
    if (t->weight_targets[i] != t->weight_targets[0]) return false;
  return t->num_weights > 0;
}

static bool has_negative(const tables *t) {
  for (int64_t i = 0; i < t->num_weights; i++)
    if (t->weights[i] < 0) return true;
  return false;
}

void tercel_onnx_build_tree_ensemble_classifier(tercel_onnx_call *c) {
  tercel_value *const labels = tercel_onnx_ml_labels(c);
  if (!tercel_onnx_ok(c)) return;
  tables t = {.targets = tercel_tensor_num_elements(labels->constant), .dtype = TERCEL_DTYPE_F32};
  lists l = {0};
  read_lists(c, "class", "class_weights", "class_weights_as_tensor", &l, &t.dtype);
  make_tables(c, &l, &t);
  if (!tercel_onnx_ok(c)) return;
  const bool binary = t.targets == 2 && has_one_class(&t), only_first = binary && t.weight_targets[0] == 0;
  const double threshold = has_negative(&t) ? 0 : 0.5;
  if (only_first) t.targets = 1;
  tercel_value *scores = add_base(c, add_trees(c, &t, "sum"), t.targets, t.dtype);
  scores = scores ? tercel_onnx_cast(c, scores, TERCEL_DTYPE_F32) : NULL;
  if (!tercel_onnx_ok(c)) return;
  if (only_first) {
    tercel_onnx_ml_binary(c, labels, scores, threshold, has_negative(&t));
    return;
  }
  tercel_onnx_return(c, 0,
                     binary ? tercel_onnx_ml_decide(c, labels, tercel_onnx_slice(c, scores, 1, 1, 2), threshold)
                            : tercel_onnx_ml_pick(c, labels, tercel_onnx_ml_best(c, scores)));
  tercel_onnx_return(c, 1, tercel_onnx_ml_transform(c, scores));
}
