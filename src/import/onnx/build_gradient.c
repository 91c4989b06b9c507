/* Gradient: derivatives as nodes, by going back from y through what was built so far (reverse-mode differentiation; the importer's pointwise
 * nodes have one instruction each, so there is one rule a function).
 *
 * Done: pointwise maths, sums and means, matrix products, reshapes and transposes.  What has no rule is UNSUPPORTED and named, where a derivative
 * must pass through it.  Not done: y computed anew for other inputs than those that xs and zs name. */
#include <inttypes.h>
#include <string.h>

#include "import/onnx/build.h"

/* dy/dv of the values built before; by id. */
typedef struct gradients {
  tercel_value **of; /* NULL: none, or 0 */
  bool *wanted;      /* the value depends on one of xs, through it the derivative passes */
  size_t count;
} gradients;

static tercel_value *add(tercel_onnx_call *c, tercel_value *a, tercel_value *b) {
  return tercel_onnx_fn2(c, TERCEL_FN_ADD, a, b);
}
static tercel_value *sub(tercel_onnx_call *c, tercel_value *a, tercel_value *b) {
  return tercel_onnx_fn2(c, TERCEL_FN_SUB, a, b);
}
static tercel_value *mul(tercel_onnx_call *c, tercel_value *a, tercel_value *b) {
  return tercel_onnx_fn2(c, TERCEL_FN_MUL, a, b);
}
static tercel_value *divide(tercel_onnx_call *c, tercel_value *a, tercel_value *b) {
  return tercel_onnx_fn2(c, TERCEL_FN_DIV, a, b);
}
static tercel_value *neg(tercel_onnx_call *c, tercel_value *a) { return tercel_onnx_fn1(c, TERCEL_FN_NEG, a); }
static tercel_value *one_minus(tercel_onnx_call *c, tercel_value *a) {
  return sub(c, tercel_onnx_scalar_like(c, a, 1), a);
}
static tercel_value *pick(tercel_onnx_call *c, tercel_value *condition, tercel_value *a) {
  return tercel_onnx_fn3(c, TERCEL_FN_SELECT, condition, a, tercel_onnx_scalar_like(c, a, 0));
}

/* ---- pointwise functions --------------------------------------------------------------------------------------------- */

/* Of y = fn(x[0], x[1], ..): what dy comes to for operand i, in y's shape.  NULL without a failure: no rule. */
static tercel_value *unary_rule(tercel_onnx_call *c, tercel_fn fn, tercel_value *x, tercel_value *y, tercel_value *dy) {
  switch (fn) {
  case TERCEL_FN_COPY: return dy;
  case TERCEL_FN_CAST: return tercel_onnx_cast(c, dy, tercel_onnx_dtype_of(x));
  case TERCEL_FN_NEG: return neg(c, dy);
  case TERCEL_FN_EXP: return mul(c, dy, y);
  case TERCEL_FN_LOG: return divide(c, dy, x);
  case TERCEL_FN_SQRT: return divide(c, dy, add(c, y, y));
  case TERCEL_FN_RECIPROCAL: return neg(c, mul(c, dy, mul(c, y, y)));
  case TERCEL_FN_TANH: return mul(c, dy, one_minus(c, mul(c, y, y)));
  case TERCEL_FN_SIGMOID: return mul(c, dy, mul(c, y, one_minus(c, y)));
  case TERCEL_FN_SOFTPLUS: return mul(c, dy, tercel_onnx_fn1(c, TERCEL_FN_SIGMOID, x));
  case TERCEL_FN_SIN: return mul(c, dy, tercel_onnx_fn1(c, TERCEL_FN_COS, x));
  case TERCEL_FN_COS: return neg(c, mul(c, dy, tercel_onnx_fn1(c, TERCEL_FN_SIN, x)));
  case TERCEL_FN_ABS: return mul(c, dy, tercel_onnx_fn1(c, TERCEL_FN_SIGN, x));
  case TERCEL_FN_RELU: return pick(c, tercel_onnx_fn_number(c, TERCEL_FN_GREATER, x, 0), dy);
  default: return NULL;
  }
}

static tercel_value *power_rule(tercel_onnx_call *c, tercel_value *a, tercel_value *b, tercel_value *y,
                                tercel_value *dy, uint32_t i) {
  if (i == 1) return mul(c, dy, mul(c, y, tercel_onnx_fn1(c, TERCEL_FN_LOG, a)));
  tercel_value *less = sub(c, b, tercel_onnx_scalar_like(c, b, 1));
  return mul(c, dy, mul(c, b, tercel_onnx_fn2(c, TERCEL_FN_POW, a, less)));
}

static tercel_value *pointwise_rule(tercel_onnx_call *c, const tercel_node *n, tercel_fn fn, tercel_value *dy,
                                    uint32_t i) {
  tercel_value *x = n->inputs[0], *y = n->outputs[0];
  if (n->num_inputs == 1) return unary_rule(c, fn, x, y, dy);
  tercel_value *b = n->inputs[1];
  switch (fn) {
  case TERCEL_FN_ADD: return dy;
  case TERCEL_FN_SUB: return i == 0 ? dy : neg(c, dy);
  case TERCEL_FN_MUL: return mul(c, dy, i == 0 ? b : x);
  case TERCEL_FN_DIV: return i == 0 ? divide(c, dy, b) : neg(c, mul(c, dy, divide(c, y, b)));
  case TERCEL_FN_POW: return power_rule(c, x, b, y, dy, i);
  case TERCEL_FN_SELECT:
    return i == 1 ? pick(c, x, dy) : i == 2 ? pick(c, tercel_onnx_fn1(c, TERCEL_FN_NOT, x), dy) : NULL;
  default: return NULL;
  }
}

/* An operand that was broadcast gets the sum over the places where it stood. */
static tercel_value *sum_to_shape(tercel_onnx_call *c, tercel_value *dy, tercel_value *x) {
  const int rank = tercel_onnx_rank(c, dy), own = tercel_onnx_rank(c, x);
  int64_t axes[TERCEL_MAX_RANK];
  size_t count = 0;
  for (int d = 0; tercel_onnx_ok(c) && d < rank; d++) {
    const int at = d - (rank - own);
    const tercel_dim whole = dy->type.shape.dims[d], part = at < 0 ? 1 : x->type.shape.dims[at];
    if (at >= 0 && part != 1 && part != whole)
      tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "whether '%s' is broadcast is not known before the run", x->name);
    if (at < 0 || (part == 1 && whole != 1)) axes[count++] = d;
  }
  if (count == 0) return dy;
  return tercel_onnx_reshape(c, tercel_onnx_reduce(c, "sum", dy, axes, count, true), tercel_onnx_shape_of(c, x));
}

/* ---- other operators ------------------------------------------------------------------------------------------------- */

static tercel_value *as_shape_of(tercel_onnx_call *c, tercel_value *dy, tercel_value *x) {
  return tercel_onnx_reshape(c, dy, tercel_onnx_shape_of(c, x));
}

static tercel_value *transpose_rule(tercel_onnx_call *c, const tercel_node *n, tercel_value *dy) {
  int64_t back[TERCEL_MAX_RANK];
  size_t count;
  const int64_t *const perm = tercel_node_ints(n, "perm", &count);
  const int rank = tercel_onnx_rank(c, dy);
  for (int i = 0; i < rank; i++) back[perm ? perm[i] : rank - 1 - i] = i;
  return tercel_onnx_transpose(c, dy, back, (size_t)rank);
}

/* The axes of a reduce node, from its attribute or a constant; false: not known. */
static bool axes_of(tercel_onnx_call *c, const tercel_node *n, int64_t out[TERCEL_MAX_RANK], size_t *count) {
  const int64_t *const axes = tercel_node_ints(n, "axes", count);
  if (n->num_inputs > 1) return tercel_onnx_known_ints(c, n->inputs[1], out, TERCEL_MAX_RANK, count);
  for (size_t i = 0; i < *count && i < TERCEL_MAX_RANK; i++) out[i] = axes[i];
  return true;
}

/* Sum and mean: each element gets what its result gets. */
static tercel_value *reduce_rule(tercel_onnx_call *c, const tercel_node *n, tercel_value *dy) {
  const char *const kind = tercel_node_string(n, "kind");
  const bool mean = strcmp(kind, "mean") == 0;
  tercel_value *const x = n->inputs[0];
  int64_t axes[TERCEL_MAX_RANK];
  size_t count;
  if ((!mean && strcmp(kind, "sum") != 0) || !axes_of(c, n, axes, &count)) return NULL;
  if (mean) { /* as many elements as one result stands for */
    tercel_value *const x_size = tercel_onnx_op(c, &tercel_op_size, x);
    tercel_value *const each = divide(c, x_size, tercel_onnx_op(c, &tercel_op_size, dy));
    dy = divide(c, dy, tercel_onnx_cast(c, each, tercel_onnx_dtype_of(dy)));
  }
  if (count > 0 && tercel_node_int(n, "keepdims") == 0) {
    for (size_t i = 0; i < count; i++) axes[i] += axes[i] < 0 ? tercel_onnx_rank(c, x) : 0;
    dy = tercel_onnx_unsqueeze(c, dy, axes, count);
  }
  return tercel_onnx_op(c, &tercel_op_expand, dy, tercel_onnx_shape_of(c, x));
}

static tercel_value *product(tercel_onnx_call *c, tercel_value *a, tercel_value *b, bool trans_a, bool trans_b,
                             double alpha) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_matmul, 1, a, b);
  tercel_onnx_set_int(c, n, "trans_a", trans_a);
  tercel_onnx_set_int(c, n, "trans_b", trans_b);
  tercel_onnx_set_float(c, n, "alpha", alpha);
  return tercel_onnx_end(c, n);
}

/* y = alpha a' b' (+ bias): da = alpha dy b', db = alpha a' dy, each turned as its operand was. */
static tercel_value *matmul_rule(tercel_onnx_call *c, const tercel_node *n, tercel_value *dy, uint32_t i) {
  tercel_value *a = n->inputs[0], *b = n->inputs[1];
  const bool ta = tercel_node_int(n, "trans_a") != 0, tb = tercel_node_int(n, "trans_b") != 0;
  const double alpha = tercel_node_float(n, "alpha");
  if (tercel_onnx_rank(c, a) < 2 || tercel_onnx_rank(c, b) < 2) return NULL;
  if (i == 0) return sum_to_shape(c, ta ? product(c, b, dy, tb, true, alpha) : product(c, dy, b, false, !tb, alpha), a);
  if (i == 1) return sum_to_shape(c, tb ? product(c, dy, a, true, ta, alpha) : product(c, a, dy, !ta, false, alpha), b);
  return i == 2 ? sum_to_shape(c, dy, n->inputs[2]) : NULL;
}

static tercel_value *rule(tercel_onnx_call *c, const tercel_node *n, tercel_value *dy, uint32_t i) {
  switch (n->op->id) {
  case TERCEL_OP_POINTWISE: {
    const tercel_program *const program = tercel_node_program(n, "program");
    if (program->num_instrs != 1) return NULL;
    tercel_value *part = pointwise_rule(c, n, (tercel_fn)program->instrs[0].fn, dy, i);
    return part ? sum_to_shape(c, part, n->inputs[i]) : NULL;
  }
  case TERCEL_OP_RESHAPE:
  case TERCEL_OP_FLATTEN:
  case TERCEL_OP_SQUEEZE:
  case TERCEL_OP_UNSQUEEZE: return i == 0 ? as_shape_of(c, dy, n->inputs[0]) : NULL;
  case TERCEL_OP_TRANSPOSE: return transpose_rule(c, n, dy);
  case TERCEL_OP_REDUCE: return i == 0 ? reduce_rule(c, n, dy) : NULL;
  case TERCEL_OP_MATMUL: return matmul_rule(c, n, dy, i);
  default: return NULL;
  }
}

/* ---- the walk -------------------------------------------------------------------------------------------------------- */

static bool is_wanted(const gradients *g, const tercel_value *v) {
  return v && v->id < g->count && g->wanted[v->id] && tercel_dtype_is_float(v->type.dtype);
}

/* Which values depend on xs: those are marked, and so is what is computed from them up to `last`. */
static void mark_wanted(tercel_onnx_call *c, gradients *g, const tercel_node *last) {
  for (const tercel_node *n = c->graph->first; n; n = n->next) {
    bool depends = false;
    for (uint32_t i = 0; i < n->num_inputs; i++) depends = depends || is_wanted(g, n->inputs[i]);
    for (uint32_t i = 0; depends && i < n->num_outputs; i++)
      if (n->outputs[i]) g->wanted[n->outputs[i]->id] = true;
    if (n == last) return;
  }
}

static bool is_x(const tercel_onnx_call *c, size_t num_xs, const tercel_value *v) {
  for (size_t i = 0; i < num_xs; i++)
    if (c->inputs[i] == v) return true;
  return false;
}

/* What the derivative for the node's output comes to for its inputs. */
static void pass_back(tercel_onnx_call *c, gradients *g, const tercel_node *n) {
  tercel_value *dy = n->outputs[0] ? g->of[n->outputs[0]->id] : NULL;
  for (uint32_t i = 1; i < n->num_outputs; i++)
    if (n->outputs[i] && g->of[n->outputs[i]->id])
      tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "the derivative of output %u of %s '%s'", i, n->op->name, n->name);
  for (uint32_t i = 0; dy && tercel_onnx_ok(c) && i < n->num_inputs; i++) {
    if (!is_wanted(g, n->inputs[i])) continue;
    tercel_value *part = rule(c, n, dy, i);
    if (!part) tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "the derivative of %s '%s'", n->op->name, n->name);
    tercel_value **const sum = &g->of[n->inputs[i]->id];
    *sum = *sum ? add(c, *sum, part) : part;
  }
}

static tercel_value *find_y(tercel_onnx_call *c) {
  const char *const name = tercel_onnx_get_text(c, "y", "");
  tercel_value *const y = tercel_map_get(&c->scope->values, name, NULL);
  if (!y || y == TERCEL_ONNX_ABSENT)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "attribute 'y' names '%s', which nothing before it defines", name);
  if (y == TERCEL_ONNX_POISON) c->poisoned = true;
  return y;
}

/* The names that xs and zs hold must be those of the inputs, in order.  How many xs there are. */
static size_t check_names(tercel_onnx_call *c) {
  static const char *const lists[] = {"xs", "zs"};
  size_t at = 0, num_xs = 0;
  for (int k = 0; k < 2; k++) {
    const tercel_onnx_attr *const attr = tercel_onnx_get_attr(c, lists[k], TERCEL_ONNX_STRINGS);
    for (size_t i = 0; attr && i < attr->strings.count; i++, at++) {
      const tercel_string *const s = &attr->strings.items[i];
      const char *const input = at < c->node->inputs.count ? c->node->inputs.items[at] : "";
      if (strlen(input) != s->length || memcmp(input, s->data, s->length) != 0)
        tercel_onnx_fail(c, TERCEL_UNSUPPORTED, "input %zu is '%s' where '%s' names '%.*s': y is not computed anew", at,
                         input, lists[k], (int)s->length, s->data);
    }
    if (k == 0) num_xs = at;
  }
  if (at != c->num_inputs)
    tercel_onnx_fail(c, TERCEL_INVALID_MODEL, "%zu inputs for %zu names in xs and zs", c->num_inputs, at);
  return num_xs;
}

static tercel_value *filled(tercel_onnx_call *c, tercel_value *like, double number) {
  return tercel_onnx_fill(c, tercel_onnx_scalar_like(c, like, number), tercel_onnx_shape_of(c, like));
}

static gradients begin(tercel_onnx_call *c, size_t num_xs) {
  gradients g = {.count = c->graph->num_values};
  g.of = tercel_arena_alloc_array(&c->import->arena, g.count + 1, sizeof(tercel_value *));
  g.wanted = tercel_arena_alloc_array(&c->import->arena, g.count + 1, sizeof *g.wanted);
  if (!g.of || !g.wanted) {
    if (tercel_onnx_ok(c)) c->status = tercel_fail_memory(c->err, g.count * sizeof *g.of, "derivatives");
    return g;
  }
  memset(g.of, 0, g.count * sizeof(tercel_value *));
  memset(g.wanted, 0, g.count * sizeof *g.wanted);
  for (size_t i = 0; i < num_xs; i++) g.wanted[c->inputs[i]->id] = true;
  return g;
}

void tercel_onnx_build_gradient(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "xs");
  tercel_onnx_need_attr(c, "y");
  const size_t num_xs = check_names(c);
  tercel_value *const y = find_y(c);
  if (!tercel_onnx_ok(c) || c->poisoned) return;
  gradients g = begin(c, num_xs);
  tercel_node *const last = c->graph->last;
  if (!tercel_onnx_ok(c)) return;
  mark_wanted(c, &g, last);
  g.of[y->id] = filled(c, y, 1);
  for (const tercel_node *n = last; n && tercel_onnx_ok(c); n = n->previous)
    if (!(n->num_outputs == 1 && is_x(c, num_xs, n->outputs[0]))) pass_back(c, &g, n);
  for (size_t i = 0; i < num_xs && tercel_onnx_ok(c); i++) {
    tercel_value *dx = g.of[c->inputs[i]->id];
    tercel_onnx_return(c, i, dx ? dx : filled(c, c->inputs[i], 0));
  }
}
