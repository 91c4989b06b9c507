/* string_concat, string_split: strings made of strings.  Characters are UTF-8; none of this depends on the locale. */
#include <string.h>

#include "ops/move.h"
#include "ops/text.h"

static void add(tercel_strings *strings, const char *data, size_t length) {
  if (length > 0) tercel_text_add_bytes(&strings->characters, data, length);
}

/* ---- string_concat ------------------------------------------------------------------------------------------------- */

static tercel_status infer_concat(tercel_infer *infer, tercel_error *err) {
  infer->out[0].type.dtype = TERCEL_DTYPE_STRING;
  TERCEL_TRY(tercel_infer_check_strings(infer, 0, err));
  TERCEL_TRY(tercel_infer_check_strings(infer, 1, err));
  TERCEL_TRY(tercel_infer_broadcast(infer, &infer->in[0]->type.shape, &infer->in[1]->type.shape,
                                    &infer->out[0].type.shape, err));
  return tercel_infer_check_size(infer, 0, err);
}

/* numpy's broadcasting; inference has checked what it could, but dims may have been open then. */
static tercel_status broadcast_dims(const tercel_node *node, const tercel_tensor *a, const tercel_tensor *b, int *rank,
                                    int64_t dims[TERCEL_MAX_RANK], tercel_error *err) {
  *rank = a->rank > b->rank ? a->rank : b->rank;
  for (int d = 0; d < *rank; ++d) {
    const int i = d - *rank + a->rank, j = d - *rank + b->rank;
    const int64_t x = i < 0 ? 1 : a->dims[i], y = j < 0 ? 1 : b->dims[j];
    if (x != y && x != 1 && y != 1)
      return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "sizes %lld and %lld don't broadcast", (long long)x,
                              (long long)y);
    dims[d] = x == 1 ? y : x;
  }
  return TERCEL_OK;
}

static tercel_status eval_concat(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *const a = eval->in[0], *const b = eval->in[1];
  tercel_tensor shape = {0};
  int64_t a_strides[TERCEL_MAX_RANK], b_strides[TERCEL_MAX_RANK], index[TERCEL_MAX_RANK] = {0};
  TERCEL_TRY(broadcast_dims(eval->node, a, b, &shape.rank, shape.dims, err));
  if (!tercel_tensor_set_shape(&shape, TERCEL_DTYPE_STRING, shape.rank, shape.dims))
    return tercel_node_fail(eval->node, err, TERCEL_OUT_OF_MEMORY, "the result is too large to address");
  tercel_tensor_broadcast_strides(a, shape.rank, shape.dims, a_strides);
  tercel_tensor_broadcast_strides(b, shape.rank, shape.dims, b_strides);
  const int64_t n = tercel_tensor_num_elements(&shape);
  tercel_strings strings = {0};
  TERCEL_TRY(tercel_strings_init(&strings, eval->scratch, n, err));
  for (int64_t i = 0; i < n; ++i) {
    const tercel_string x = tercel_tensor_strings(a)[tercel_index_dot(shape.rank, index, a_strides)];
    const tercel_string y = tercel_tensor_strings(b)[tercel_index_dot(shape.rank, index, b_strides)];
    add(&strings, x.data, x.length);
    add(&strings, y.data, y.length);
    tercel_strings_end(&strings);
    tercel_index_next(shape.rank, shape.dims, index);
  }
  const tercel_status status = tercel_strings_give(&strings, eval, 0, shape.rank, shape.dims, err);
  tercel_strings_deinit(&strings);
  return status;
}

static const tercel_attr_spec no_attrs[] = {{NULL, 0, false, 0, NULL, NULL}};

const tercel_op tercel_op_string_concat = {
    .name = "string_concat",
    .id = TERCEL_OP_STRING_CONCAT,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_DATA_DEPENDENT,
    .about = "strings joined one by one, broadcast as numpy does",
    .attrs = no_attrs,
    .infer = infer_concat,
    .eval = eval_concat,
    .flops = tercel_no_flops,
};

/* ---- string_split -------------------------------------------------------------------------------------------------- */

static tercel_status infer_split(tercel_infer *infer, tercel_error *err) {
  infer->out[0].type.dtype = TERCEL_DTYPE_STRING;
  if (infer->num_outputs > 1) infer->out[1].type.dtype = TERCEL_DTYPE_I64;
  TERCEL_TRY(tercel_infer_check_strings(infer, 0, err));
  const tercel_shape *const x = &infer->in[0]->type.shape;
  if (x->rank < 0) return TERCEL_OK;
  tercel_shape out;
  TERCEL_TRY(tercel_infer_open(infer, x->rank + 1, &out, err));
  for (int d = 0; d < x->rank; ++d) out.dims[d] = x->dims[d];
  infer->out[0].type.shape = out;
  if (infer->num_outputs > 1) infer->out[1].type.shape = *x;
  return TERCEL_OK;
}

/* A string being split, from the left. */
typedef struct splitter {
  const char *at, *end;
  const char *delimiter; /* of length 0: runs of white space, none at the ends */
  size_t length;
  int64_t left; /* splits still allowed; negative: any number */
  bool done;
} splitter;

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static void skip_space(splitter *s) {
  while (s->at < s->end && is_space(*s->at)) ++s->at;
}

/* The next part; false when there is none. */
static bool next_word(splitter *s, tercel_string *part) {
  skip_space(s);
  if (s->at == s->end) return false;
  const char *const begin = s->at, *stop = s->end;
  if (s->left == 0) { /* the rest, with the white space behind it, as Python's split */
    s->at = s->end;
  } else {
    while (s->at < s->end && !is_space(*s->at)) ++s->at;
    stop = s->at;
    if (s->left > 0) --s->left;
  }
  *part = (tercel_string){begin, (size_t)(stop - begin)};
  return true;
}

static bool next_part(splitter *s, tercel_string *part) {
  if (s->length == 0) return next_word(s, part);
  if (s->done) return false;
  const char *const begin = s->at;
  if (s->left != 0)
    for (; (size_t)(s->end - s->at) >= s->length; ++s->at) {
      if (memcmp(s->at, s->delimiter, s->length) != 0) continue;
      *part = (tercel_string){begin, (size_t)(s->at - begin)};
      s->at += s->length;
      if (s->left > 0) --s->left;
      return true;
    }
  s->done = true;
  *part = (tercel_string){begin, (size_t)(s->end - begin)};
  return true;
}

static splitter start_split(const tercel_node *node, tercel_string string) {
  const char *const delimiter = tercel_node_string(node, "delimiter");
  return (splitter){.at = string.data,
                    .end = string.length > 0 ? string.data + string.length : string.data,
                    .delimiter = delimiter,
                    .length = strlen(delimiter),
                    .left = tercel_node_int(node, "maxsplit")};
}

static tercel_status give_parts(tercel_eval *eval, int64_t most, tercel_strings *strings, tercel_error *err) {
  const tercel_tensor *const x = eval->in[0];
  tercel_string part;
  const int64_t n = tercel_tensor_num_elements(x);
  for (int64_t i = 0; i < n; ++i) {
    splitter s = start_split(eval->node, tercel_tensor_strings(x)[i]);
    int64_t count = 0;
    for (; next_part(&s, &part); ++count) {
      add(strings, part.data, part.length);
      tercel_strings_end(strings);
    }
    for (int64_t k = count; k < most; ++k) tercel_strings_end(strings);
    if (eval->num_outputs > 1 && eval->out[1] != NULL) tercel_tensor_set_i64(eval->out[1], i, count);
  }
  int64_t dims[TERCEL_MAX_RANK];
  for (int d = 0; d < x->rank; ++d) dims[d] = x->dims[d];
  dims[x->rank] = most;
  return tercel_strings_give(strings, eval, 0, x->rank + 1, dims, err);
}

static tercel_status eval_split(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *const x = eval->in[0];
  const int64_t n = tercel_tensor_num_elements(x);
  int64_t most = 0, total;
  tercel_string part;
  if (x->rank == TERCEL_MAX_RANK)
    return tercel_node_fail(eval->node, err, TERCEL_UNSUPPORTED, "input of rank %d: the result would have one more",
                            x->rank);
  if (eval->num_outputs > 1) TERCEL_TRY(tercel_eval_output(eval, 1, x->rank, x->dims, err));
  for (int64_t i = 0; i < n; ++i) {
    splitter s = start_split(eval->node, tercel_tensor_strings(x)[i]);
    int64_t count = 0;
    while (next_part(&s, &part)) ++count;
    most = tercel_max_i64(most, count);
  }
  if (!tercel_mul_i64(n, most, &total) || total > INT64_MAX / (int64_t)sizeof(tercel_string))
    return tercel_node_fail(eval->node, err, TERCEL_OUT_OF_MEMORY, "%lld strings of up to %lld parts are too many",
                            (long long)n, (long long)most);
  tercel_strings strings = {0};
  TERCEL_TRY(tercel_strings_init(&strings, eval->scratch, total, err));
  const tercel_status status = give_parts(eval, most, &strings, err);
  tercel_strings_deinit(&strings);
  return status;
}

static const tercel_attr_spec split_attrs[] = {
    {"delimiter", TERCEL_ATTR_STRING, false, 0, "", "empty: runs of white space, those at the ends give no parts"},
    {"maxsplit", TERCEL_ATTR_INT, false, -1, NULL, "splits of a string at most, from the left; negative: all"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_string_split = {
    .name = "string_split",
    .id = TERCEL_OP_STRING_SPLIT,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 2,
    .flags = TERCEL_OP_DATA_DEPENDENT,
    .about = "parts of each string along a new last axis, filled up with empty ones, and how many parts there are",
    .attrs = split_attrs,
    .infer = infer_split,
    .eval = eval_split,
    .flops = tercel_no_flops,
};
