/* trees of f32 whose tables are constant: nodes packed into records and checked once, rows on all threads. */
#include <stdatomic.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "ops/move.h"

enum { X, FEATURES, MODES, SPLITS, YES, NO, MISSING, ROOTS, FIRST, TARGETS, WEIGHTS, NUM_INPUTS };
typedef enum mode { AT_MOST, LESS, AT_LEAST, MORE, EQUAL, UNEQUAL, NUM_MODES } mode;
typedef enum aggregate { AVERAGE, SUM, MIN, MAX } aggregate;

typedef struct tree_node {
  float split;
  int32_t feature, yes, no; /* a child below 0 is leaf -1 - child */
  uint8_t mode, missing;
} tree_node;

typedef struct state {
  aggregate how;
  int32_t least_width; /* of x, so that all features are there */
  int32_t num_nodes, num_roots, num_targets;
  tree_node *nodes;
  int32_t *roots, *first, *targets;
  float *weights;
} state;

static const tercel_tensor *table(const tercel_node *node, size_t input) { return node->inputs[input]->constant; }
static int64_t count_of(const tercel_node *node, size_t input) {
  return tercel_tensor_num_elements(table(node, input));
}

static bool in_range(const tercel_tensor *t, int64_t low, int64_t high) {
  const int64_t n = tercel_tensor_num_elements(t);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t value = tercel_tensor_get_i64(t, i);
    if (value < low || value >= high) return false;
  }
  return true;
}

/* Tables that fit each other and 32 bits; what doesn't is left to the reference, which says what is wrong. */
static bool tables_fit(const tercel_node *node) {
  const int64_t n = count_of(node, FEATURES), leaves = count_of(node, FIRST) - 1, weights = count_of(node, WEIGHTS);
  for (size_t i = MODES; i <= MISSING; ++i)
    if (count_of(node, i) != n) return false;
  return n < INT32_MAX && leaves >= 0 && leaves < INT32_MAX && weights < INT32_MAX &&
         count_of(node, ROOTS) < INT32_MAX && count_of(node, TARGETS) == weights &&
         in_range(table(node, FEATURES), 0, INT32_MAX - 1) && in_range(table(node, MODES), 0, NUM_MODES) &&
         in_range(table(node, YES), -leaves, n) && in_range(table(node, NO), -leaves, n) &&
         in_range(table(node, ROOTS), -leaves, n) && in_range(table(node, FIRST), 0, weights + 1) &&
         in_range(table(node, TARGETS), 0, tercel_node_int(node, "targets"));
}

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  static const uint8_t floats[] = {X, SPLITS, WEIGHTS};
  for (size_t i = 0; i < sizeof floats; ++i)
    if (node->inputs[floats[i]]->type.dtype != TERCEL_DTYPE_F32) return false;
  for (size_t i = FEATURES; i < NUM_INPUTS; ++i)
    if (table(node, i) == NULL) return false;
  return tercel_node_int(node, "targets") < INT32_MAX && tables_fit(node);
}

static void release(void *data) {
  state *s = data;
  if (s == NULL) return;
  tercel_free(s->nodes);
  tercel_free(s->roots);
  tercel_free(s->first);
  tercel_free(s->targets);
  tercel_free(s->weights);
  tercel_free(s);
}

static int32_t int_at(const tercel_node *node, size_t input, int64_t i) {
  return (int32_t)tercel_tensor_get_i64(table(node, input), i);
}

/* A table as i32; one element more than it has, so that none is a size of 0. */
static int32_t *narrow(const tercel_node *node, size_t input) {
  const int64_t n = count_of(node, input);
  int32_t *const out = tercel_alloc_array((size_t)n + 1, sizeof *out);
  for (int64_t i = 0; out != NULL && i < n; ++i) out[i] = int_at(node, input, i);
  return out;
}

static tercel_status fill(const tercel_node *node, state *s, tercel_error *err) {
  static const char *const aggregates[] = {"average", "sum", "min", "max", NULL};
  int how;
  TERCEL_TRY(tercel_node_choice(node, "aggregate", aggregates, &how, err));
  s->how = (aggregate)how;
  s->num_nodes = (int32_t)count_of(node, FEATURES);
  s->num_roots = (int32_t)count_of(node, ROOTS);
  s->num_targets = (int32_t)tercel_node_int(node, "targets");
  s->nodes = tercel_alloc_array((size_t)s->num_nodes + 1, sizeof *s->nodes);
  s->roots = narrow(node, ROOTS);
  s->first = narrow(node, FIRST);
  s->targets = narrow(node, TARGETS);
  const size_t num_weights = (size_t)count_of(node, WEIGHTS);
  s->weights = tercel_alloc_array(num_weights + 1, sizeof *s->weights);
  if (s->nodes == NULL || s->roots == NULL || s->first == NULL || s->targets == NULL || s->weights == NULL)
    return tercel_fail_memory(err, (size_t)s->num_nodes * sizeof *s->nodes, "trees");
  if (num_weights > 0) memcpy(s->weights, table(node, WEIGHTS)->data, num_weights * sizeof *s->weights);
  for (int32_t i = 0; i < s->num_nodes; ++i) {
    s->nodes[i] = (tree_node){.split = ((const float *)table(node, SPLITS)->data)[i],
                              .feature = int_at(node, FEATURES, i),
                              .yes = int_at(node, YES, i),
                              .no = int_at(node, NO, i),
                              .mode = (uint8_t)int_at(node, MODES, i),
                              .missing = (uint8_t)(int_at(node, MISSING, i) != 0)};
    if (s->nodes[i].feature >= s->least_width) s->least_width = s->nodes[i].feature + 1;
  }
  return TERCEL_OK;
}

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  (void)target;
  state *s = tercel_zalloc(sizeof *s);
  if (s == NULL) return tercel_fail_memory(err, sizeof *s, "trees");
  const tercel_status status = fill(node, s, err);
  if (status != TERCEL_OK) {
    release(s);
    return status;
  }
  out->data = s;
  out->packed_bytes += (size_t)s->num_nodes * sizeof *s->nodes;
  for (size_t i = FEATURES; i < NUM_INPUTS; ++i) out->unused_inputs |= 1u << i;
  return TERCEL_OK;
}

/* What the trees gave to one target of a row so far. */
typedef struct cell {
  double sum;
  bool has;
} cell;

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state_data,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *binding, tercel_error *err) {
  (void)kernel, (void)out, (void)arena;
  const state *s = state_data;
  if (in[X]->dims[1] < s->least_width)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "a node looks at feature %d of %lld", s->least_width - 1,
                            (long long)in[X]->dims[1]);
  binding->workspace_bytes = (size_t)target->num_threads * (size_t)s->num_targets * sizeof(cell);
  return TERCEL_OK;
}

static bool goes_yes(const tree_node *n, float x) {
  if (n->missing && x != x) return true;
  switch ((mode)n->mode) {
  case AT_MOST: return x <= n->split;
  case LESS: return x < n->split;
  case AT_LEAST: return x >= n->split;
  case MORE: return x > n->split;
  case EQUAL: return x == n->split;
  default: return x != n->split;
  }
}

/* The leaf that a row comes to, or -1: a walk longer than there are nodes goes in circles. */
static int32_t find_leaf(const state *s, const float *x, int32_t at) {
  for (int32_t left = s->num_nodes; at >= 0; --left) {
    if (left == 0) return -1;
    const tree_node *const n = &s->nodes[at];
    at = goes_yes(n, x[n->feature]) ? n->yes : n->no;
  }
  return -1 - at;
}

typedef struct job {
  const state *s;
  const float *x;
  int64_t width;
  float *y;
  cell *cells; /* of the first thread */
  atomic_bool circles;
} job;

static void add(aggregate how, cell *c, double weight) {
  if (how == MIN || how == MAX)
    c->sum = !c->has || (how == MIN ? weight < c->sum : weight > c->sum) ? weight : c->sum;
  else
    c->sum += weight;
  c->has = true;
}

/* False when a tree goes in circles. */
static bool run_row(const state *s, const float *x, cell *cells, float *y) {
  memset(cells, 0, (size_t)s->num_targets * sizeof *cells);
  for (int32_t t = 0; t < s->num_roots; ++t) {
    const int32_t leaf = find_leaf(s, x, s->roots[t]);
    if (leaf < 0) return false;
    for (int32_t w = s->first[leaf]; w < s->first[leaf + 1]; ++w)
      add(s->how, &cells[s->targets[w]], (double)s->weights[w]);
  }
  for (int32_t k = 0; k < s->num_targets; ++k)
    y[k] = (float)(s->how == AVERAGE && s->num_roots > 0 ? cells[k].sum / (double)s->num_roots : cells[k].sum);
  return true;
}

static void run_rows(void *arg, int64_t begin, int64_t end, int thread) {
  job *j = arg;
  cell *const cells = j->cells + (int64_t)thread * j->s->num_targets;
  for (int64_t r = begin; r < end; ++r)
    if (!run_row(j->s, j->x + r * j->width, cells, j->y + r * j->s->num_targets))
      atomic_store_explicit(&j->circles, true, memory_order_relaxed);
}

static tercel_status run(const tercel_kernel_run *r, tercel_error *err) {
  const state *s = r->state;
  job j = {.s = s, .x = r->in[X]->data, .width = r->in[X]->dims[1], .y = r->out[0]->data, .cells = r->workspace};
  atomic_init(&j.circles, false);
  const int64_t rows_worth_a_thread = tercel_max_i64(512 / tercel_max_i64(s->num_roots, 1), 1);
  tercel_pool_run(r->pool, r->in[X]->dims[0], rows_worth_a_thread, run_rows, &j);
  if (atomic_load_explicit(&j.circles, memory_order_relaxed))
    return tercel_node_fail(r->node, err, TERCEL_INVALID_MODEL, "a node of a tree is its own ancestor");
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_trees = {.name = "trees",
                                           .op = TERCEL_OP_TREES,
                                           .supports = supports,
                                           .prepare = prepare,
                                           .release = release,
                                           .bind = bind,
                                           .run = run};
