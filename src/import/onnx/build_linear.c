/* Linear algebra, and what else works on whole tensors: einsum, bits, reordering. */
#include <string.h>

#include "import/onnx/build.h"

/* ---- einsum ---------------------------------------------------------------------------------------------------------- */

/* An equation "ab,bc->ac" of two operands as a product of matrices: labels by where they occur.  Batch: everywhere; left, right:
 * in one operand and the result; summed: in both operands only. */
enum { BATCH, LEFT, RIGHT, SUMMED, KINDS };

typedef struct contraction {
  const char *terms[3]; /* a, b, result */
  size_t ranks[3];
  char labels[KINDS][TERCEL_MAX_RANK];
  size_t counts[KINDS];
} contraction;

static int place_of(const contraction *e, int term, char label) {
  for (size_t i = 0; i < e->ranks[term]; i++)
    if (e->terms[term][i] == label) return (int)i;
  return -1;
}

/* Letters a to z and A to Z, each at most once, up to `end`. */
static bool read_term(contraction *e, int term, const char **text, const char *end) {
  e->terms[term] = *text;
  for (; **text && !strchr(end, **text); ++*text) {
    const char c = **text;
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter || e->ranks[term] == TERCEL_MAX_RANK || place_of(e, term, c) >= 0) return false;
    e->ranks[term]++;
  }
  return true;
}

static bool sort_label(contraction *e, char label) {
  const bool in_a = place_of(e, 0, label) >= 0, in_b = place_of(e, 1, label) >= 0, in_y = place_of(e, 2, label) >= 0;
  const int kind = in_a && in_b ? (in_y ? BATCH : SUMMED) : !in_y ? KINDS : in_a ? LEFT : RIGHT;
  if (kind == KINDS || (!in_a && !in_b)) return false;
  e->labels[kind][e->counts[kind]++] = label;
  return true;
}

/* False: not of this kind, which says nothing against the equation. */
static bool read_contraction(const char *text, const tercel_value *a, const tercel_value *b, contraction *e) {
  *e = (contraction){0};
  if (!read_term(e, 0, &text, ",") || *text++ != ',' || !read_term(e, 1, &text, "-")) return false;
  if (strncmp(text, "->", 2) != 0 || (text += 2, !read_term(e, 2, &text, ""))) return false;
  if (a->type.shape.rank != (int)e->ranks[0] || b->type.shape.rank != (int)e->ranks[1]) return false;
  for (size_t i = 0; i < e->ranks[0]; i++) {
    const int other = place_of(e, 1, e->terms[0][i]);
    if (other >= 0 && a->type.shape.dims[i] != b->type.shape.dims[other]) return false; /* or not known to be equal */
    if (!sort_label(e, e->terms[0][i])) return false;
  }
  for (size_t i = 0; i < e->ranks[1]; i++)
    if (place_of(e, 0, e->terms[1][i]) < 0 && !sort_label(e, e->terms[1][i])) return false;
  return e->ranks[2] == e->counts[BATCH] + e->counts[LEFT] + e->counts[RIGHT] &&
         e->counts[BATCH] + 2 <= TERCEL_MAX_RANK;
}

/* The operand with its labels in the order of the kinds given. */
static tercel_value *ordered(tercel_onnx_call *c, const contraction *e, int term, const int *kinds, tercel_value *x) {
  int64_t perm[TERCEL_MAX_RANK];
  size_t count = 0;
  for (int k = 0; k < 3; k++)
    for (size_t i = 0; i < e->counts[kinds[k]]; i++) perm[count++] = place_of(e, term, e->labels[kinds[k]][i]);
  return tercel_onnx_transpose(c, x, perm, count);
}

/* Dims of one kind's labels, one by one, or multiplied into one. */
static void add_dims(tercel_onnx_call *c, const contraction *e, int term, int kind, bool merge, tercel_value *x,
                     tercel_value **parts, size_t *count) {
  tercel_value *product = merge ? tercel_onnx_i64(c, 1) : NULL;
  for (size_t i = 0; i < e->counts[kind]; i++) {
    tercel_value *const dim = tercel_onnx_dim_value(c, x, place_of(e, term, e->labels[kind][i]));
    if (merge)
      product = tercel_onnx_fn2(c, TERCEL_FN_MUL, product, dim);
    else
      parts[(*count)++] = dim;
  }
  if (merge) parts[(*count)++] = product;
}

/* [batch..., rows, columns] */
static tercel_value *matrices(tercel_onnx_call *c, const contraction *e, int term, int rows, int columns,
                              tercel_value *x) {
  tercel_value *const y = ordered(c, e, term, (const int[]){BATCH, rows, columns}, x);
  if (e->counts[rows] == 1 && e->counts[columns] == 1) return y;
  tercel_value *parts[TERCEL_MAX_RANK + 2];
  size_t count = 0;
  add_dims(c, e, term, BATCH, false, x, parts, &count);
  add_dims(c, e, term, rows, true, x, parts, &count);
  add_dims(c, e, term, columns, true, x, parts, &count);
  return tercel_onnx_reshape(c, y, tercel_onnx_concat(c, parts, count, 0));
}

/* [batch..., rows, columns] -> the result's order */
static tercel_value *unmerged(tercel_onnx_call *c, const contraction *e, tercel_value *a, tercel_value *b,
                              tercel_value *product) {
  if (e->counts[LEFT] != 1 || e->counts[RIGHT] != 1) {
    tercel_value *parts[TERCEL_MAX_RANK + 2] = {NULL};
    size_t count = 0;
    add_dims(c, e, 0, BATCH, false, a, parts, &count);
    add_dims(c, e, 0, LEFT, false, a, parts, &count);
    add_dims(c, e, 1, RIGHT, false, b, parts, &count);
    product = tercel_onnx_reshape(c, product,
                                  count > 0 ? tercel_onnx_concat(c, parts, count, 0) : tercel_onnx_i64s(c, NULL, 0));
  }
  int64_t perm[TERCEL_MAX_RANK];
  size_t at = 0;
  static const int kinds[] = {BATCH, LEFT, RIGHT};
  for (int k = 0; k < 3; k++)
    for (size_t i = 0; i < e->counts[kinds[k]]; i++) perm[place_of(e, 2, e->labels[kinds[k]][i])] = (int64_t)at++;
  return at > 0 ? tercel_onnx_transpose(c, product, perm, at) : product;
}

static bool is_multiplied(tercel_dtype dtype) {
  return dtype == TERCEL_DTYPE_F32 || dtype == TERCEL_DTYPE_F64 || dtype == TERCEL_DTYPE_F16 ||
         dtype == TERCEL_DTYPE_BF16;
}

/* What is a product of matrices becomes one; the operator einsum does the rest. */
void tercel_onnx_build_einsum(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "equation");
  const char *const equation = tercel_onnx_get_text(c, "equation", "");
  tercel_value *const a = tercel_onnx_in(c, 0), *const b = tercel_onnx_in(c, 1);
  contraction e;
  if (c->num_inputs == 2 && a && b && is_multiplied(tercel_onnx_dtype_of(a)) && read_contraction(equation, a, b, &e)) {
    tercel_value *const product =
        tercel_onnx_op(c, &tercel_op_matmul, matrices(c, &e, 0, LEFT, SUMMED, a), matrices(c, &e, 1, SUMMED, RIGHT, b));
    tercel_onnx_return(c, 0, unmerged(c, &e, a, b, product));
    return;
  }
  tercel_node *const n = tercel_onnx_begin_list(c, &tercel_op_einsum, 1, c->inputs, c->num_inputs);
  tercel_onnx_set_text(c, n, "equation", equation);
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

/* ---- bits, order, unique elements -------------------------------------------------------------------------------------- */

void tercel_onnx_build_bitcast(tercel_onnx_call *c) {
  tercel_onnx_need_attr(c, "to");
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_bitcast, 1, tercel_onnx_in(c, 0));
  tercel_onnx_set_dtype(c, n, "to", tercel_onnx_get_dtype(c, "to", TERCEL_DTYPE_F32));
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_reverse_sequence(tercel_onnx_call *c) {
  tercel_node *const n =
      tercel_onnx_begin(c, &tercel_op_reverse_sequence, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1));
  tercel_onnx_copy_int(c, n, "batch_axis");
  tercel_onnx_copy_int(c, n, "time_axis");
  tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
}

void tercel_onnx_build_unique(tercel_onnx_call *c) {
  tercel_node *const n = tercel_onnx_begin(c, &tercel_op_unique, c->num_outputs, tercel_onnx_in(c, 0));
  tercel_onnx_copy_int(c, n, "axis");
  tercel_onnx_copy_flag(c, n, "sorted");
  tercel_onnx_return_all(c, n);
}
