/* einsum: products of operands summed over the labels that the result does not name, in Einstein's notation as numpy has it.
 *
 *     "bij,bjk->bik"   batches of matrix products        "ii->i"   a diagonal        "...a,a"   an implicit result: "...",
 *                                                                                      then all labels that come once, sorted */
#include <string.h>

#include "ops/epilogue.h"
#include "ops/move.h"

enum { MAX_OPERANDS = 16, NUM_LETTERS = 52, MAX_LABELS = NUM_LETTERS + TERCEL_MAX_RANK };

/* Labels of one operand's dims: 0 .. 51 letters (A .. Z, a .. z), from 52 on those of "...", counted so that the last dim of every "..."
 * has the same label. */
typedef struct term {
  int rank;
  uint8_t labels[TERCEL_MAX_RANK];
} term;

typedef struct equation {
  int num_operands;
  term operands[MAX_OPERANDS], result;
} equation;

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static int letter_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  return -1;
}

static tercel_status fail(const tercel_node *node, const char *what, tercel_error *err) {
  return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "equation \"%s\": %s", tercel_node_string(node, "equation"),
                          what);
}

/* Letters and at most one "...", which stands for `dots` dims, up to a comma, an arrow or the end. */
static tercel_status read_term(const tercel_node *node, const char **text, int dots, term *out, tercel_error *err) {
  bool has_dots = false;
  out->rank = 0;
  for (; **text != 0 && **text != ',' && **text != '-'; ++*text) {
    if (**text == ' ') continue;
    const bool is_dots = strncmp(*text, "...", 3) == 0;
    const int letter = letter_of(**text), count = is_dots ? dots : 1;
    if (is_dots ? has_dots : letter < 0) return fail(node, "want letters and at most one \"...\" a term", err);
    if (out->rank + count > TERCEL_MAX_RANK) return fail(node, "a term has too many dims", err);
    for (int d = 0; d < count; ++d) out->labels[out->rank++] = (uint8_t)(is_dots ? MAX_LABELS - dots + d : letter);
    if (is_dots) *text += 2;
    has_dots |= is_dots;
  }
  return TERCEL_OK;
}

/* How many dims "..." stands for in the next term of an operand of this rank. */
static tercel_status count_dots(const tercel_node *node, const char *text, int rank, int *out, tercel_error *err) {
  int letters = 0;
  bool has_dots = false;
  for (; *text != 0 && *text != ',' && *text != '-'; ++text) {
    letters += letter_of(*text) >= 0;
    has_dots |= *text == '.';
  }
  *out = rank - letters;
  return *out == 0 || (*out > 0 && has_dots) ? TERCEL_OK
                                             : fail(node, "a term has not as many dims as its operand", err);
}

/* Without an arrow: the dims of "...", then every letter that comes once. */
static void imply_result(const int *uses, int dots, term *out) {
  out->rank = 0;
  for (int d = 0; d < dots; ++d) out->labels[out->rank++] = (uint8_t)(MAX_LABELS - dots + d);
  for (int l = 0; l < NUM_LETTERS && out->rank < TERCEL_MAX_RANK; ++l)
    if (uses[l] == 1) out->labels[out->rank++] = (uint8_t)l;
}

static tercel_status check_result(const tercel_node *node, const equation *e, const int *uses, tercel_error *err) {
  bool seen[MAX_LABELS] = {false};
  for (int d = 0; d < e->result.rank; ++d) {
    const int label = e->result.labels[d];
    if (seen[label]) return fail(node, "the result names a label twice", err);
    if (uses[label] == 0) return fail(node, "the result names a label that no operand has", err);
    seen[label] = true;
  }
  return TERCEL_OK;
}

static tercel_status read_equation(const tercel_node *node, const int *ranks, int num_operands, equation *out,
                                   tercel_error *err) {
  const char *text = tercel_node_string(node, "equation");
  int uses[MAX_LABELS] = {0}, most_dots = 0, implied = 0;
  *out = (equation){.num_operands = num_operands};
  for (int i = 0; i < num_operands; ++i) {
    int dots;
    TERCEL_TRY(count_dots(node, text, ranks[i], &dots, err));
    TERCEL_TRY(read_term(node, &text, dots, &out->operands[i], err));
    for (int d = 0; d < out->operands[i].rank; ++d) ++uses[out->operands[i].labels[d]];
    if (dots > most_dots) most_dots = dots;
    if (i + 1 < num_operands && *text++ != ',') return fail(node, "fewer terms than operands", err);
  }
  if (*text == 0) {
    for (int l = 0; l < NUM_LETTERS; ++l) implied += uses[l] == 1;
    if (implied + most_dots > TERCEL_MAX_RANK) return fail(node, "the result has too many dims", err);
    imply_result(uses, most_dots, &out->result);
    return TERCEL_OK;
  }
  if (strncmp(text, "->", 2) != 0) return fail(node, "more terms than operands", err);
  text += 2;
  TERCEL_TRY(read_term(node, &text, most_dots, &out->result, err));
  if (*text != 0) return fail(node, "the result is not the end", err);
  return check_result(node, out, uses, err);
}

/* ---- inference ----------------------------------------------------------------------------------------------------- */

static tercel_status check_operands(const tercel_infer *infer, tercel_error *err) {
  if (infer->num_inputs > MAX_OPERANDS)
    return tercel_node_fail(infer->node, err, TERCEL_UNSUPPORTED, "%zu operands; at most %d are supported",
                            infer->num_inputs, MAX_OPERANDS);
  const tercel_dtype dtype = infer->in[0]->type.dtype;
  if (dtype != TERCEL_DTYPE_NONE && !tercel_dtype_is_float(dtype) && !tercel_dtype_is_integer(dtype))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input 0 is %s, want numbers",
                            tercel_dtype_name(dtype));
  for (size_t i = 0; i < infer->num_inputs; ++i) {
    if (infer->in[i] == NULL)
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu is missing", i);
    TERCEL_TRY(tercel_infer_check_dtype(infer, i, err));
  }
  return TERCEL_OK;
}

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  infer->out[0].type.dtype = infer->in[0]->type.dtype;
  TERCEL_TRY(check_operands(infer, err));
  int ranks[MAX_OPERANDS];
  for (size_t i = 0; i < infer->num_inputs; ++i) {
    ranks[i] = infer->in[i]->type.shape.rank;
    if (ranks[i] < 0) return TERCEL_OK;
  }
  equation e;
  TERCEL_TRY(read_equation(infer->node, ranks, (int)infer->num_inputs, &e, err));
  tercel_dim sizes[MAX_LABELS];
  for (int l = 0; l < MAX_LABELS; ++l) sizes[l] = 1;
  for (int i = 0; i < e.num_operands; ++i)
    for (int d = 0; d < e.operands[i].rank; ++d) {
      const tercel_dim dim = infer->in[i]->type.shape.dims[d];
      tercel_dim *size = &sizes[e.operands[i].labels[d]];
      if (!tercel_dim_broadcast(infer->dims, *size, dim, size))
        return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL,
                                "dim %d of input %d is %lld, but its label stands for %lld elsewhere", d, i,
                                (long long)dim, (long long)*size);
    }
  tercel_shape *out = &infer->out[0].type.shape;
  out->rank = e.result.rank;
  for (int d = 0; d < out->rank; ++d) out->dims[d] = sizes[e.result.labels[d]];
  return tercel_infer_check_size(infer, 0, err);
}

/* ---- reference ----------------------------------------------------------------------------------------------------- */

/* The loops: over the result's labels, then over those that are summed. */
typedef struct loops {
  int num_labels, num_result;
  int64_t sizes[MAX_LABELS];
  int64_t strides[MAX_OPERANDS]
                 [MAX_LABELS]; /* in elements; 0 where the operand has not the label, or is broadcast along it */
} loops;

static int place_of(const uint8_t *labels, int count, uint8_t label) {
  for (int i = 0; i < count; ++i)
    if (labels[i] == label) return i;
  return count;
}

static void make_loops(const equation *e, const tercel_tensor *const *in, loops *out) {
  uint8_t labels[MAX_LABELS];
  memset(out, 0, sizeof *out);
  for (int l = 0; l < MAX_LABELS; ++l) out->sizes[l] = 1;
  out->num_labels = out->num_result = e->result.rank;
  memcpy(labels, e->result.labels, (size_t)e->result.rank);
  for (int i = 0; i < e->num_operands; ++i)
    for (int d = 0; d < e->operands[i].rank; ++d) {
      const int at = place_of(labels, out->num_labels, e->operands[i].labels[d]);
      if (at == out->num_labels) labels[out->num_labels++] = e->operands[i].labels[d];
      if (in[i]->dims[d] != 1) out->sizes[at] = in[i]->dims[d];
    }
  for (int i = 0; i < e->num_operands; ++i) {
    int64_t strides[TERCEL_MAX_RANK];
    tercel_tensor_strides(in[i], strides);
    for (int d = 0; d < in[i]->rank; ++d)
      if (in[i]->dims[d] != 1)
        out->strides[i][place_of(labels, out->num_labels, e->operands[i].labels[d])] += strides[d];
  }
}

/* Operands as double, or (integers) as i64, multiplied and summed modulo 2^64. */
typedef struct operands {
  const double *reals[MAX_OPERANDS];
  const int64_t *wholes[MAX_OPERANDS];
} operands;

static double sum_reals(const loops *l, const operands *x, int count, int64_t *index) {
  double sum = 0;
  do {
    double product = 1;
    for (int i = 0; i < count; ++i) product *= x->reals[i][tercel_index_dot(l->num_labels, index, l->strides[i])];
    sum += product;
  } while (tercel_index_next(l->num_labels - l->num_result, l->sizes + l->num_result, index + l->num_result));
  return sum;
}

static uint64_t sum_wholes(const loops *l, const operands *x, int count, int64_t *index) {
  uint64_t sum = 0;
  do {
    uint64_t product = 1;
    for (int i = 0; i < count; ++i)
      product *= (uint64_t)x->wholes[i][tercel_index_dot(l->num_labels, index, l->strides[i])];
    sum += product;
  } while (tercel_index_next(l->num_labels - l->num_result, l->sizes + l->num_result, index + l->num_result));
  return sum;
}

static tercel_status get_loops(const tercel_node *node, const tercel_tensor *const *in, loops *out, tercel_error *err) {
  int ranks[MAX_OPERANDS];
  for (uint32_t i = 0; i < node->num_inputs; ++i) ranks[i] = in[i]->rank;
  equation e;
  TERCEL_TRY(read_equation(node, ranks, (int)node->num_inputs, &e, err));
  make_loops(&e, in, out);
  return TERCEL_OK;
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  tercel_tensor *y = eval->out[0];
  const int count = (int)eval->num_inputs;
  const bool is_float = tercel_dtype_is_float(y->dtype);
  loops l;
  operands x = {0};
  TERCEL_TRY(get_loops(eval->node, eval->in, &l, err));
  for (int i = 0; i < count; ++i)
    TERCEL_TRY(is_float ? tercel_eval_widen_f64(eval, eval->in[i], &x.reals[i], err)
                        : tercel_eval_widen_i64(eval, eval->in[i], &x.wholes[i], err));
  bool nothing = false; /* to sum */
  for (int i = l.num_result; i < l.num_labels; ++i) nothing |= l.sizes[i] == 0;
  int64_t index[MAX_LABELS] = {0};
  const int64_t n = tercel_tensor_num_elements(y);
  for (int64_t i = 0; i < n; ++i) {
    if (is_float)
      tercel_tensor_set_f64(y, i, nothing ? 0 : sum_reals(&l, &x, count, index));
    else
      tercel_tensor_set_i64(y, i, nothing ? 0 : (int64_t)sum_wholes(&l, &x, count, index));
    tercel_index_next(l.num_result, l.sizes, index);
  }
  return TERCEL_OK;
}

static double flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out) {
  (void)out;
  loops l;
  if (node->num_inputs > MAX_OPERANDS || get_loops(node, in, &l, NULL) != TERCEL_OK) return 0;
  double result = node->num_inputs;
  for (int i = 0; i < l.num_labels; ++i) result *= (double)l.sizes[i];
  return result;
}

static const tercel_attr_spec attrs[] = {
    {"equation", TERCEL_ATTR_STRING, true, 0, NULL, "labels of the operands' dims and, after \"->\", of the result's"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_einsum = {
    .name = "einsum",
    .id = TERCEL_OP_EINSUM,
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "products of operands summed over labels",
    .attrs = attrs,
    .infer = infer,
    .eval = eval,
    .flops = flops,
};
