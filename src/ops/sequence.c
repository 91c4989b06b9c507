/* Sequences and optionals: schema and inference.  They are run by the executor (runtime/sequence.c).
 * The type of a sequence says what all its elements share. */
#include "ops/move.h"

static const char *const kind_names[] = {"a tensor", "a sequence", "an optional", "a map"};

static tercel_status check_kind(const tercel_infer *infer, size_t i, tercel_type_kind want, tercel_error *err) {
  const tercel_type *const type = &infer->in[i]->type;
  if (type->dtype == TERCEL_DTYPE_NONE || type->kind == want) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu is %s, want %s", i, kind_names[type->kind],
                          kind_names[want]);
}

/* What holds for elements of both types. */
static tercel_status join(tercel_infer *infer, const tercel_type *a, const tercel_type *b, tercel_shape *out,
                          tercel_error *err) {
  if (a->dtype != TERCEL_DTYPE_NONE && b->dtype != TERCEL_DTYPE_NONE && a->dtype != b->dtype)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%s and %s in one sequence",
                            tercel_dtype_name(a->dtype), tercel_dtype_name(b->dtype));
  tercel_shape shape = {.rank = a->shape.rank == b->shape.rank ? a->shape.rank : -1};
  for (int d = 0; d < shape.rank; ++d)
    shape.dims[d] = a->shape.dims[d] == b->shape.dims[d] ? a->shape.dims[d] : tercel_dim_unknown(infer->dims);
  *out = shape;
  return TERCEL_OK;
}

static void give_scalar(tercel_infer *infer, tercel_dtype dtype) { infer->out[0].type = (tercel_type){.dtype = dtype}; }

/* ---- sequences ----------------------------------------------------------------------------------------------------- */

static tercel_status infer_construct(tercel_infer *infer, tercel_error *err) {
  tercel_type *const out = &infer->out[0].type;
  *out =
      (tercel_type){.kind = TERCEL_TYPE_SEQUENCE, .dtype = tercel_node_dtype(infer->node, "dtype"), .shape.rank = -1};
  for (size_t i = 0; i < infer->num_inputs; ++i) {
    if (infer->in[i] == NULL) return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu is absent", i);
    TERCEL_TRY(check_kind(infer, i, TERCEL_TYPE_TENSOR, err));
    const tercel_type *const type = &infer->in[i]->type;
    tercel_shape shape = type->shape;
    if (i > 0) TERCEL_TRY(join(infer, out, type, &shape, err));
    out->shape = shape;
    if (type->dtype != TERCEL_DTYPE_NONE) out->dtype = type->dtype;
  }
  return TERCEL_OK;
}

static tercel_status infer_at(tercel_infer *infer, tercel_error *err) {
  TERCEL_TRY(check_kind(infer, 0, TERCEL_TYPE_SEQUENCE, err));
  const tercel_type *const sequence = &infer->in[0]->type;
  infer->out[0].type = (tercel_type){.dtype = sequence->dtype, .shape = sequence->shape};
  return TERCEL_OK;
}

/* An empty sequence says nothing of its elements, and inference does not count them: only the element type is sure. */
static tercel_status infer_insert(tercel_infer *infer, tercel_error *err) {
  TERCEL_TRY(check_kind(infer, 0, TERCEL_TYPE_SEQUENCE, err));
  TERCEL_TRY(check_kind(infer, 1, TERCEL_TYPE_TENSOR, err));
  tercel_type *const out = &infer->out[0].type;
  *out = infer->in[0]->type;
  if (out->dtype == TERCEL_DTYPE_NONE) out->dtype = infer->in[1]->type.dtype;
  out->kind = TERCEL_TYPE_SEQUENCE;
  return join(infer, &infer->in[0]->type, &infer->in[1]->type, &out->shape, err);
}

static tercel_status infer_erase(tercel_infer *infer, tercel_error *err) {
  TERCEL_TRY(check_kind(infer, 0, TERCEL_TYPE_SEQUENCE, err));
  infer->out[0].type = infer->in[0]->type;
  return TERCEL_OK;
}

static tercel_status infer_length(tercel_infer *infer, tercel_error *err) {
  TERCEL_TRY(check_kind(infer, 0, TERCEL_TYPE_SEQUENCE, err));
  give_scalar(infer, TERCEL_DTYPE_I64);
  return TERCEL_OK;
}

static tercel_status infer_split(tercel_infer *infer, tercel_error *err) {
  TERCEL_TRY(check_kind(infer, 0, TERCEL_TYPE_TENSOR, err));
  const tercel_type *const whole = &infer->in[0]->type;
  tercel_type *const out = &infer->out[0].type;
  *out = (tercel_type){.kind = TERCEL_TYPE_SEQUENCE, .dtype = whole->dtype, .shape.rank = -1};
  if (whole->shape.rank < 0) return TERCEL_OK;
  int axis = 0;
  TERCEL_TRY(tercel_axis(infer->node, tercel_node_int(infer->node, "axis"), whole->shape.rank, &axis, err));
  const bool by_one = !tercel_has_input(infer, 1), keep_axis = !by_one || tercel_node_int(infer->node, "keepdims") != 0;
  out->shape.rank = 0;
  for (int d = 0; d < whole->shape.rank; ++d) {
    if (d != axis)
      out->shape.dims[out->shape.rank++] = whole->shape.dims[d];
    else if (keep_axis)
      out->shape.dims[out->shape.rank++] = by_one ? 1 : tercel_dim_unknown(infer->dims);
  }
  return TERCEL_OK;
}

static tercel_status infer_concat(tercel_infer *infer, tercel_error *err) {
  TERCEL_TRY(check_kind(infer, 0, TERCEL_TYPE_SEQUENCE, err));
  const tercel_type *const sequence = &infer->in[0]->type;
  const int new_axis = tercel_node_int(infer->node, "new_axis") != 0;
  tercel_type *const out = &infer->out[0].type;
  *out = (tercel_type){.dtype = sequence->dtype, .shape.rank = -1};
  if (sequence->shape.rank < 0) return TERCEL_OK;
  const int rank = sequence->shape.rank + new_axis;
  if (rank > TERCEL_MAX_RANK)
    return tercel_node_fail(infer->node, err, TERCEL_UNSUPPORTED, "rank %d, at most %d", rank, TERCEL_MAX_RANK);
  int axis = 0;
  TERCEL_TRY(tercel_axis(infer->node, tercel_node_int(infer->node, "axis"), rank, &axis, err));
  out->shape.rank = rank;
  for (int d = 0; d < rank; ++d)
    out->shape.dims[d] =
        d == axis ? tercel_dim_unknown(infer->dims) : sequence->shape.dims[new_axis && d > axis ? d - 1 : d];
  return TERCEL_OK;
}

static const tercel_attr_spec construct_attrs[] = {{.name = "dtype",
                                                    .kind = TERCEL_ATTR_DTYPE,
                                                    .number = TERCEL_DTYPE_F32,
                                                    .about = "of the elements, where there are none"},
                                                   {0}};
static const tercel_attr_spec split_attrs[] = {
    {.name = "axis", .kind = TERCEL_ATTR_INT, .about = "that is cut"},
    {.name = "keepdims", .kind = TERCEL_ATTR_INT, .number = 1, .about = "0: parts of one lose the axis"},
    {0}};
static const tercel_attr_spec concat_attrs[] = {
    {.name = "axis", .kind = TERCEL_ATTR_INT, .required = true, .about = "that grows"},
    {.name = "new_axis", .kind = TERCEL_ATTR_INT, .about = "1: elements are stacked along a new axis"},
    {0}};

const tercel_op tercel_op_sequence_construct = {
    .name = "sequence_construct",
    .id = TERCEL_OP_SEQUENCE_CONSTRUCT,
    .min_inputs = 0,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_CONTROL,
    .about = "a sequence of its inputs",
    .attrs = construct_attrs,
    .infer = infer_construct,
    .flops = tercel_no_flops,
};

const tercel_op tercel_op_sequence_at = {
    .name = "sequence_at",
    .id = TERCEL_OP_SEQUENCE_AT,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_CONTROL,
    .about = "the element at a position, negative from the end",
    .infer = infer_at,
    .flops = tercel_no_flops,
};

const tercel_op tercel_op_sequence_insert = {
    .name = "sequence_insert",
    .id = TERCEL_OP_SEQUENCE_INSERT,
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_CONTROL,
    .about = "the sequence with a tensor put before a position, or at the end",
    .infer = infer_insert,
    .flops = tercel_no_flops,
};

const tercel_op tercel_op_sequence_erase = {
    .name = "sequence_erase",
    .id = TERCEL_OP_SEQUENCE_ERASE,
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_CONTROL,
    .about = "the sequence without the element at a position, or without the last",
    .infer = infer_erase,
    .flops = tercel_no_flops,
};

const tercel_op tercel_op_sequence_length = {
    .name = "sequence_length",
    .id = TERCEL_OP_SEQUENCE_LENGTH,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_CONTROL,
    .about = "number of elements",
    .infer = infer_length,
    .flops = tercel_no_flops,
};

const tercel_op tercel_op_sequence_split = {
    .name = "sequence_split",
    .id = TERCEL_OP_SEQUENCE_SPLIT,
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_CONTROL,
    .about = "a sequence of parts along an axis: of one each, of one size, or of sizes given one by one",
    .attrs = split_attrs,
    .infer = infer_split,
    .flops = tercel_no_flops,
};

const tercel_op tercel_op_sequence_concat = {
    .name = "sequence_concat",
    .id = TERCEL_OP_SEQUENCE_CONCAT,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_CONTROL,
    .about = "all elements one after the other",
    .attrs = concat_attrs,
    .infer = infer_concat,
    .flops = tercel_no_flops,
};

/* ---- optionals ----------------------------------------------------------------------------------------------------- */

static tercel_status infer_optional(tercel_infer *infer, tercel_error *err) {
  (void)err;
  tercel_type *const out = &infer->out[0].type;
  *out = (tercel_type){.dtype = tercel_node_dtype(infer->node, "dtype"),
                       .optional_sequence = tercel_node_int(infer->node, "sequence") != 0,
                       .shape.rank = -1};
  if (tercel_has_input(infer, 0)) {
    *out = infer->in[0]->type;
    out->optional_sequence = infer->in[0]->type.kind == TERCEL_TYPE_SEQUENCE;
  }
  out->kind = TERCEL_TYPE_OPTIONAL;
  return TERCEL_OK;
}

static tercel_status infer_get(tercel_infer *infer, tercel_error *err) {
  (void)err;
  tercel_type *const out = &infer->out[0].type;
  *out = infer->in[0]->type;
  if (out->kind == TERCEL_TYPE_OPTIONAL) out->kind = out->optional_sequence ? TERCEL_TYPE_SEQUENCE : TERCEL_TYPE_TENSOR;
  out->optional_sequence = false;
  return TERCEL_OK;
}

static tercel_status infer_has(tercel_infer *infer, tercel_error *err) {
  (void)err;
  give_scalar(infer, TERCEL_DTYPE_BOOL);
  return TERCEL_OK;
}

static const tercel_attr_spec optional_attrs[] = {
    {.name = "dtype",
     .kind = TERCEL_ATTR_DTYPE,
     .number = TERCEL_DTYPE_F32,
     .about = "of what an empty one could hold"},
    {.name = "sequence", .kind = TERCEL_ATTR_INT, .about = "1: an empty one could hold a sequence"},
    {0}};

const tercel_op tercel_op_optional_construct = {
    .name = "optional_construct",
    .id = TERCEL_OP_OPTIONAL_CONSTRUCT,
    .min_inputs = 0,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_CONTROL,
    .about = "an optional that holds its input, or nothing",
    .attrs = optional_attrs,
    .infer = infer_optional,
    .flops = tercel_no_flops,
};

const tercel_op tercel_op_optional_get = {
    .name = "optional_get",
    .id = TERCEL_OP_OPTIONAL_GET,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_CONTROL,
    .about = "what an optional holds; anything else as it is",
    .infer = infer_get,
    .flops = tercel_no_flops,
};

const tercel_op tercel_op_optional_has = {
    .name = "optional_has",
    .id = TERCEL_OP_OPTIONAL_HAS,
    .min_inputs = 0,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_CONTROL,
    .about = "does the optional hold something?",
    .infer = infer_has,
    .flops = tercel_no_flops,
};
