/* Rotary position embeddings written out in their parts, as one operator that turns pairs of elements.
 *
 *     halves, by tables of both halves        x cos + concat(-x2, x1) sin              cos, sin: two equal halves
 *     halves, each by itself                  concat(x1 cos - x2 sin, x2 cos + x1 sin)
 *     neighbours                              x cos + flatten(stack(-x_odd, x_even)) sin
 *     a part of each head                     concat(turned x[:d], x[d:])
 *
 * where x1, x2 are the halves of the last dim, by slices or a split.  x is by heads (N, H, S, D), or rows of heads (N, S, H, D); the
 * angles are one row for each place, for one or for all batch entries.  Rows that were only just transposed are turned before that. */
#include <string.h>

#include "optimize/pattern.h"
#include "optimize/shapes.h"

typedef struct rotary {
  tercel_value *x, *cos, *sin; /* the tables as they are read, of the last dim's whole size or of half of it */
  bool whole_tables, interleaved;
} rotary;

/* ---- parts of the last dim ---- */

/* value = x[..., first::step] up to `end`; x's last dim is known. */
typedef struct part {
  tercel_value *x;
  int64_t first, count, step;
} part;

static bool match_slice(const tercel_node *slice, part *out) {
  int64_t start, axis = 0;
  double number;
  const int rank = slice->outputs[0]->type.shape.rank;
  const tercel_value *const axes = tercel_node_input(slice, 3), *const steps = tercel_node_input(slice, 4);
  if (!tercel_scalar(slice->inputs[1], &number)) return false;
  start = (int64_t)number;
  if (axes && !tercel_scalar(axes, &number)) return false;
  if (axes) axis = (int64_t)number;
  *out = (part){.x = slice->inputs[0], .step = 1};
  if (steps && !tercel_scalar(steps, &number)) return false;
  if (steps) out->step = (int64_t)number;
  const tercel_dim size =
      tercel_dim_is_known(out->x->type.shape.dims[rank - 1]) ? out->x->type.shape.dims[rank - 1] : 0;
  out->first = start < 0 ? start + size : start;
  out->count = slice->outputs[0]->type.shape.dims[rank - 1];
  return (axis == -1 || axis == rank - 1) && out->step > 0 && out->first >= 0 && out->count > 0 && size > 0;
}

static bool match_split(const tercel_value *value, part *out) {
  const tercel_node *const split = value->producer;
  const int64_t axis = tercel_node_int(split, "axis");
  const int rank = value->type.shape.rank;
  if (axis != -1 && axis != rank - 1) return false;
  *out = (part){.x = split->inputs[0], .count = value->type.shape.dims[rank - 1], .step = 1};
  for (uint32_t i = 0; split->outputs[i] != value; i++) {
    if (!split->outputs[i] || split->outputs[i]->type.shape.dims[rank - 1] < 0) return false;
    out->first += split->outputs[i]->type.shape.dims[rank - 1];
  }
  return out->count > 0;
}

static bool match_part(tercel_pattern *p, const tercel_value *value, part *out) {
  const tercel_node *const node = value->producer;
  if (!node || value->type.shape.rank < 1) return false;
  if (tercel_is(node, TERCEL_OP_SLICE) ? !match_slice(node, out)
                                       : !tercel_is(node, TERCEL_OP_SPLIT) || !match_split(value, out))
    return false;
  if (tercel_is(node, TERCEL_OP_SLICE))
    tercel_pattern_add(p, node); /* a split has several results: it stays if they are read */
  return true;
}

static tercel_dim last_dim(const tercel_value *value) { return value->type.shape.dims[value->type.shape.rank - 1]; }

/* The two halves of one value, the first and the second. */
static tercel_value *whole_of_halves(const part *a, const part *b) {
  const tercel_dim size = last_dim(a->x);
  const bool fits = a->x == b->x && a->step == 1 && b->step == 1 && a->first == 0 && b->first == a->count &&
                    b->count == a->count && size == 2 * a->count;
  return fits ? a->x : NULL;
}

static tercel_value *negated(tercel_pattern *p, const tercel_value *value) {
  tercel_value *x;
  double number;
  const tercel_node *const neg = tercel_pattern_fn(p, value, TERCEL_FN_NEG);
  if (neg) return neg->inputs[0];
  return tercel_pattern_scalar(p, value, TERCEL_FN_MUL, &x, &number) && number == -1 ? x : NULL;
}

/* A concat of two along the last dim. */
static const tercel_node *match_join(tercel_pattern *p, const tercel_value *value) {
  const tercel_node *const concat = tercel_producer(value, TERCEL_OP_CONCAT);
  if (!concat || concat->num_inputs != 2) return NULL;
  const int64_t axis = tercel_node_int(concat, "axis");
  if (axis != -1 && axis != value->type.shape.rank - 1) return NULL;
  tercel_pattern_add(p, concat);
  return concat;
}

/* value = (-x2, x1) */
static tercel_value *match_turned_halves(tercel_pattern *p, const tercel_value *value) {
  part first, second;
  const tercel_node *const concat = match_join(p, value);
  const tercel_value *const inner = concat ? negated(p, concat->inputs[0]) : NULL;
  if (!inner || !match_part(p, inner, &second) || !match_part(p, concat->inputs[1], &first)) return NULL;
  return whole_of_halves(&first, &second);
}

/* The value before an unsqueeze of a last dim of 1. */
static const tercel_value *before_unsqueeze(tercel_pattern *p, const tercel_value *value) {
  const tercel_node *const view = value->producer;
  if (!view || !(view->op->flags & TERCEL_OP_VIEW) || last_dim(value) != 1) return NULL;
  const tercel_shape *const from = &view->inputs[0]->type.shape;
  if (from->rank != value->type.shape.rank - 1 ||
      memcmp(from->dims, value->type.shape.dims, (size_t)from->rank * sizeof *from->dims) != 0)
    return NULL;
  tercel_pattern_add(p, view);
  return view->inputs[0];
}

/* value = (-x1, x0, -x3, x2, ...) */
static tercel_value *match_turned_neighbours(tercel_pattern *p, const tercel_value *value) {
  part even, odd;
  const tercel_node *const flatten = value->producer;
  if (!flatten || !(flatten->op->flags & TERCEL_OP_VIEW) || !flatten->inputs[0]) return NULL;
  tercel_pattern_add(p, flatten);
  const tercel_node *const stack = match_join(p, flatten->inputs[0]);
  const tercel_value *const odd_part = stack ? before_unsqueeze(p, stack->inputs[0]) : NULL;
  const tercel_value *const even_part = stack ? before_unsqueeze(p, stack->inputs[1]) : NULL;
  const tercel_value *const inner = odd_part && even_part ? negated(p, odd_part) : NULL;
  if (!inner || !match_part(p, inner, &odd) || !match_part(p, even_part, &even)) return NULL;
  const bool fits = even.x == odd.x && even.step == 2 && odd.step == 2 && even.first == 0 && odd.first == 1 &&
                    even.count == odd.count && last_dim(even.x) == 2 * even.count && tercel_same_type(even.x, value);
  return fits ? even.x : NULL;
}

/* ---- tables ---- */

/* The first half of the table's last dim, twice (whole), or each element twice in a row (interleaved). */
static bool repeats_constant(const tercel_tensor *t, bool interleaved) {
  const int64_t size = t->rank > 0 ? t->dims[t->rank - 1] : 0, count = tercel_tensor_num_elements(t);
  if (size % 2 != 0 || size == 0) return false;
  for (int64_t row = 0; row < count; row += size)
    for (int64_t i = 0; i < size / 2; i++) {
      const int64_t a = interleaved ? 2 * i : i, b = interleaved ? a + 1 : a + size / 2;
      if (tercel_tensor_get_f64(t, row + a) != tercel_tensor_get_f64(t, row + b)) return false;
    }
  return true;
}

static bool repeats(const tercel_value *table, bool interleaved, int depth);

/* Unsqueezed and joined with itself, then flattened: each element twice. */
static bool is_stack_of_same(const tercel_node *view) {
  const tercel_node *const concat = view ? tercel_producer(view->inputs[0], TERCEL_OP_CONCAT) : NULL;
  const int rank = concat ? concat->outputs[0]->type.shape.rank : 0;
  const int64_t axis = concat ? tercel_node_int(concat, "axis") : 0;
  return concat && concat->num_inputs == 2 && concat->inputs[0] == concat->inputs[1] &&
         (axis == -1 || axis == rank - 1) && last_dim(concat->inputs[0]) == 1;
}

/* What follows row by row, or element by element, from a table that repeats, repeats. */
static bool repeats(const tercel_value *table, bool interleaved, int depth) {
  enum { MAX_DEPTH = 10 };
  if (depth == MAX_DEPTH || table->type.shape.rank < 1) return false;
  if (table->constant) return repeats_constant(table->constant, interleaved);
  const tercel_node *const node = table->producer;
  if (!node || !node->inputs[0]) return false;
  if (tercel_is(node, TERCEL_OP_CONCAT)) {
    const int64_t axis = tercel_node_int(node, "axis");
    return !interleaved && node->num_inputs == 2 && node->inputs[0] == node->inputs[1] &&
           (axis == -1 || axis == table->type.shape.rank - 1);
  }
  if (node->op->flags & TERCEL_OP_VIEW) {
    if (interleaved && is_stack_of_same(node)) return true;
    return node->inputs[0]->type.shape.rank > 0 && last_dim(node->inputs[0]) == last_dim(table) &&
           repeats(node->inputs[0], interleaved, depth + 1);
  }
  if (tercel_is(node, TERCEL_OP_GATHER)) { /* of whole rows */
    const int64_t axis = tercel_node_int(node, "axis");
    return axis == 0 && node->inputs[0]->type.shape.rank > 1 && repeats(node->inputs[0], interleaved, depth + 1);
  }
  if (tercel_is(node, TERCEL_OP_SLICE))
    return last_dim(node->inputs[0]) == last_dim(table) && repeats(node->inputs[0], interleaved, depth + 1);
  if (!tercel_is(node, TERCEL_OP_POINTWISE)) return false;
  for (uint32_t i = 0; i < node->num_inputs; i++)
    if (node->inputs[i]->type.shape.rank > 0 && last_dim(node->inputs[i]) != 1 &&
        (last_dim(node->inputs[i]) != last_dim(table) || !repeats(node->inputs[i], interleaved, depth + 1)))
      return false;
  return true;
}

/* ---- match ---- */

/* value = *a table: which of the two is the table the caller knows by the other. */
static const tercel_node *match_product(tercel_pattern *p, const tercel_value *value) {
  return tercel_pattern_fn(p, value, TERCEL_FN_MUL);
}

/* x cos + turned(x) sin */
static bool match_whole(tercel_pattern *p, const tercel_node *add, rotary *out) {
  if (tercel_single_fn(add) != TERCEL_FN_ADD) return false;
  for (int side = 0; side < 2; side++) {
    const tercel_node *const plain = tercel_fn_node(add->inputs[side], TERCEL_FN_MUL);
    const tercel_node *const turned = tercel_fn_node(add->inputs[1 - side], TERCEL_FN_MUL);
    for (int i = 0; plain && turned && i < 2; i++) {
      tercel_pattern at = *p;
      tercel_pattern_add(&at, plain);
      tercel_pattern_add(&at, turned);
      tercel_value *x = match_turned_halves(&at, turned->inputs[i]);
      out->interleaved = !x;
      if (!x) {
        at.num_nodes = p->num_nodes;
        tercel_pattern_add(&at, plain);
        tercel_pattern_add(&at, turned);
        x = match_turned_neighbours(&at, turned->inputs[i]);
      }
      if (!x || (plain->inputs[0] != x && plain->inputs[1] != x)) continue;
      *p = at;
      out->x = x;
      out->sin = turned->inputs[1 - i];
      out->cos = plain->inputs[plain->inputs[0] == x];
      out->whole_tables = true;
      return true;
    }
  }
  return false;
}

/* value = a b fn c d, two products; in *left and *right */
static bool match_two_products(tercel_pattern *p, const tercel_value *value, tercel_fn fn, const tercel_node **left,
                               const tercel_node **right) {
  const tercel_node *const node = tercel_pattern_fn(p, value, fn);
  *left = node ? match_product(p, node->inputs[0]) : NULL;
  *right = node ? match_product(p, node->inputs[1]) : NULL;
  return *left && *right;
}

static bool has_operands(const tercel_node *product, const tercel_value *a, const tercel_value *b) {
  return (product->inputs[0] == a && product->inputs[1] == b) || (product->inputs[0] == b && product->inputs[1] == a);
}

/* concat(x1 cos - x2 sin, x2 cos + x1 sin), sums in either order */
static bool match_by_halves(tercel_pattern *p, const tercel_node *root, rotary *out) {
  const tercel_node *a, *b, *c, *d;
  part first, second;
  if (!tercel_is(root, TERCEL_OP_CONCAT) || root->num_inputs != 2) return false;
  const int64_t axis = tercel_node_int(root, "axis");
  if (axis != -1 && axis != root->outputs[0]->type.shape.rank - 1) return false;
  if (!match_two_products(p, root->inputs[0], TERCEL_FN_SUB, &a, &b) ||
      !match_two_products(p, root->inputs[1], TERCEL_FN_ADD, &c, &d))
    return false;
  for (int i = 0; i < 4; i++) {
    tercel_pattern at = *p;
    const tercel_value *const x1 = a->inputs[i & 1], *const x2 = b->inputs[i >> 1];
    tercel_value *const cos = a->inputs[1 - (i & 1)], *const sin = b->inputs[1 - (i >> 1)];
    const bool fits = (has_operands(c, x2, cos) && has_operands(d, x1, sin)) ||
                      (has_operands(c, x1, sin) && has_operands(d, x2, cos));
    if (!fits || !match_part(&at, x1, &first) || !match_part(&at, x2, &second)) continue;
    tercel_value *const x = whole_of_halves(&first, &second);
    if (!x) continue;
    *p = at;
    *out = (rotary){.x = x, .cos = cos, .sin = sin};
    return true;
  }
  return false;
}

/* ---- operands ---- */

/* Where x's places are: 2 of (N, H, S, D), 1 of (N, S, H, D); 0 where the tables fit neither. */
static int find_places(const rotary *r) {
  const tercel_shape *const x = &r->x->type.shape, *const t = &r->cos->type.shape;
  const tercel_dim size = r->whole_tables ? x->dims[3] : x->dims[3] / 2;
  if (t->rank < 2 || t->rank > 4 || !tercel_shape_equal(t, &r->sin->type.shape)) return 0;
  tercel_dim dims[4] = {1, 1, 1, 1};
  for (int i = 0; i < t->rank; i++) dims[4 - t->rank + i] = t->dims[i];
  if (dims[3] != size || (dims[0] != 1 && dims[0] != x->dims[0])) return 0;
  if (dims[1] == 1 && dims[2] == x->dims[2]) return 2;
  return dims[2] == 1 && dims[1] == x->dims[1] ? 1 : 0;
}

static tercel_status slice_last(tercel_value *x, int64_t end, int64_t step, const tercel_node *like,
                                tercel_node *before, tercel_value **out, tercel_error *err) {
  tercel_value *inputs[5] = {x};
  const int64_t numbers[] = {0, end, -1, step};
  static const char *const names[] = {"start", "end", "axis", "step"};
  tercel_node *node;
  for (int i = 0; i < 4; i++)
    TERCEL_TRY(tercel_graph_add_i64s(like->graph, names[i], &numbers[i], 1, false, &inputs[i + 1], err));
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_SLICE, like, inputs, 5, before, &node, err));
  TERCEL_TRY(tercel_infer_node(node, err));
  *out = node->outputs[0];
  return TERCEL_OK;
}

/* A table as the operator reads it: (1 or N, S, D / 2). */
static tercel_status make_table(const rotary *r, tercel_value *table, int places, const tercel_node *like,
                                tercel_node *before, tercel_value **out, tercel_error *err) {
  const tercel_dim size = r->x->type.shape.dims[3];
  int64_t target[TERCEL_MAX_RANK];
  *out = table;
  if (r->whole_tables)
    TERCEL_TRY(slice_last(table, r->interleaved ? size : size / 2, r->interleaved ? 2 : 1, like, before, out, err));
  const tercel_shape *const from = &(*out)->type.shape;
  const tercel_shape to = {
      3, {from->rank == 4 ? from->dims[0] : 1, r->x->type.shape.dims[places], from->dims[from->rank - 1]}};
  if (tercel_shape_equal(from, &to)) return TERCEL_OK;
  if (!tercel_reshape_target(from, &to, target)) /* both batch and places are symbols: the dim of 1 between them goes */
    return tercel_fail(err, TERCEL_INTERNAL, "rotary '%s': a table has no shape of rank 3", like->name);
  tercel_node *reshape;
  TERCEL_TRY(tercel_add_reshape(*out, target, 3, like, before, &reshape, err));
  *out = reshape->outputs[0];
  return TERCEL_OK;
}

/* Can the table be viewed as (N, S, D / 2)? */
static bool has_table_shape(const rotary *r, int places) {
  int64_t target[TERCEL_MAX_RANK];
  tercel_shape from = r->cos->type.shape;
  const tercel_dim half = r->x->type.shape.dims[3] / 2;
  from.dims[from.rank - 1] = half;
  const tercel_shape to = {3, {from.rank == 4 ? from.dims[0] : 1, r->x->type.shape.dims[places], half}};
  return tercel_shape_equal(&from, &to) || tercel_reshape_target(&from, &to, target);
}

/* Why the operator can't stand for it; NULL when it can. */
static const char *obstacle(const rotary *r, char buffer[TERCEL_REASON_MAX]) {
  const tercel_shape *const x = &r->x->type.shape;
  if (x->rank != 4)
    return tercel_reason(buffer, "'%.80s' has rank %d, not 4: batch, heads, places, size", r->x->name, x->rank);
  const tercel_dim size = x->dims[3];
  if (!tercel_dim_is_known(size) || size % 2 != 0) return "the size of heads is not known, or odd";
  if (!find_places(r) || !has_table_shape(r, find_places(r))) return tercel_describe_broadcast(r->cos, r->x, buffer);
  if (r->whole_tables && (!repeats(r->cos, r->interleaved, 0) || !repeats(r->sin, r->interleaved, 0)))
    return tercel_reason(buffer, "'%.80s' is not known to hold each angle twice", r->cos->name);
  return NULL;
}

/* ---- rewrite ---- */

/* Rows of heads (N, S, H, D), or the transpose that gave x, as (N, S, H D); NULL where x is by heads. */
static const tercel_value *find_rows(const rotary *r, int places) {
  size_t count;
  const tercel_shape *const x = &r->x->type.shape;
  if (places == 1) return tercel_dim_is_known(x->dims[2]) ? r->x : NULL;
  const tercel_node *const transpose = tercel_producer(r->x, TERCEL_OP_TRANSPOSE);
  const int64_t *const perm = transpose ? tercel_node_ints(transpose, "perm", &count) : NULL;
  const bool swaps = perm && perm[0] == 0 && perm[1] == 2 && perm[2] == 1 && perm[3] == 3;
  return swaps && tercel_dim_is_known(x->dims[1]) ? transpose->inputs[0] : NULL;
}

static tercel_status replace(tercel_pass_context *context, const char *name, const tercel_pattern *p, const rotary *r,
                             tercel_error *err) {
  tercel_node *const root = (tercel_node *)(uintptr_t)p->nodes[0];
  tercel_value *inputs[3] = {r->x}, *result;
  tercel_node *made;
  int64_t target[TERCEL_MAX_RANK];
  const int places = find_places(r);
  const tercel_value *const rows = find_rows(r, places);
  TERCEL_TRY(make_table(r, r->cos, places, root, root, &inputs[1], err));
  TERCEL_TRY(make_table(r, r->sin, places, root, root, &inputs[2], err));
  if (rows) {
    const tercel_dim *const d = rows->type.shape.dims;
    const tercel_shape packed = {3, {d[0], d[1], d[2] * d[3]}};
    tercel_node *reshape;
    if (!tercel_reshape_target(&rows->type.shape, &packed, target))
      return tercel_fail(err, TERCEL_INTERNAL, "rotary '%s': its rows have no shape of rank 3", root->name);
    TERCEL_TRY(tercel_add_reshape((tercel_value *)(uintptr_t)rows, target, 3, root, root, &reshape, err));
    inputs[0] = reshape->outputs[0];
  }
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_ROTARY, root, inputs, 3, root, &made, err));
  if (r->interleaved) TERCEL_TRY(tercel_node_set_int(made, "interleaved", 1, err));
  if (rows) TERCEL_TRY(tercel_node_set_int(made, "heads", rows->type.shape.dims[2], err));
  TERCEL_TRY(tercel_infer_node(made, err));
  for (int i = 1; i < p->num_nodes; i++) TERCEL_TRY(tercel_node_add_sources(made, p->nodes[i], err));
  result = made->outputs[0];
  if (rows) {
    tercel_node *split;
    if (!tercel_reshape_target(&result->type.shape, &rows->type.shape, target))
      return tercel_fail(err, TERCEL_INTERNAL, "rotary '%s': its rows have no shape by heads", root->name);
    TERCEL_TRY(tercel_add_reshape(result, target, 4, made, root, &split, err));
    result = split->outputs[0];
    if (places == 2) {
      tercel_node *transpose;
      TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_TRANSPOSE, made, &result, 1, root, &transpose, err));
      TERCEL_TRY(tercel_node_set_ints(transpose, "perm", (const int64_t[]){0, 2, 1, 3}, 4, err));
      TERCEL_TRY(tercel_infer_node(transpose, err));
      result = transpose->outputs[0];
    }
  }
  TERCEL_TRY(tercel_made(context, name, made, NULL, err));
  return tercel_rewrite_replace(root->outputs[0], result, err);
}

static tercel_status apply(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  tercel_pattern p = {.nodes = {node}, .num_nodes = 1};
  rotary r = {0};
  char buffer[TERCEL_REASON_MAX];
  if (!tercel_is_f32(node->outputs[0]) || (!match_whole(&p, node, &r) && !match_by_halves(&p, node, &r)))
    return TERCEL_OK;
  const char *const why = obstacle(&r, buffer);
  if (why) return tercel_refused(context, name, node, err, "%s", why);
  const tercel_node *const leak = tercel_pattern_leak(&p);
  if (leak) return tercel_pattern_refuse_leak(context, name, &p, leak, err);
  return replace(context, name, &p, &r, err);
}

/* concat(rotary(x[..., :d]), x[..., d:]): the operator turns the first d by itself. */
static tercel_status apply_partial(tercel_pass_context *context, const char *name, tercel_node *node,
                                   tercel_error *err) {
  tercel_pattern p = {.nodes = {node}, .num_nodes = 1};
  part first, rest;
  const tercel_node *const turned = node->num_inputs == 2 ? tercel_producer(node->inputs[0], TERCEL_OP_ROTARY) : NULL;
  const int64_t axis = tercel_node_int(node, "axis");
  if (!turned || turned->outputs[0]->type.shape.rank != 4 || (axis != -1 && axis != 3)) return TERCEL_OK;
  tercel_pattern_add(&p, turned);
  if (!match_part(&p, turned->inputs[0], &first) || !match_part(&p, node->inputs[1], &rest) || first.x != rest.x ||
      first.step != 1 || rest.step != 1 || first.first != 0 || rest.first != first.count ||
      first.count + rest.count != last_dim(first.x) || tercel_node_int(turned, "dims"))
    return TERCEL_OK;
  const tercel_node *const leak = tercel_pattern_leak(&p);
  if (leak) return tercel_pattern_refuse_leak(context, name, &p, leak, err);
  tercel_value *inputs[4] = {first.x, turned->inputs[1], turned->inputs[2], tercel_node_input(turned, 3)};
  tercel_node *made;
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_ROTARY, node, inputs, inputs[3] ? 4 : 3, node, &made, err));
  TERCEL_TRY(tercel_node_set_int(made, "dims", first.count, err));
  TERCEL_TRY(tercel_node_set_int(made, "interleaved", tercel_node_int(turned, "interleaved"), err));
  TERCEL_TRY(tercel_infer_node(made, err));
  return tercel_pattern_replace(context, name, &p, made, err);
}

static const tercel_rule rules[] = {
    {"rotary", TERCEL_OP_POINTWISE, apply},
    {"rotary", TERCEL_OP_CONCAT, apply},
    {"partial-rotary", TERCEL_OP_CONCAT, apply_partial},
    {0},
};

tercel_status tercel_pass_rotary(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  return tercel_run_rules(graph, rules, context, err);
}
