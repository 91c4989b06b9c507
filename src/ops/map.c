/* Maps: schema and inference.  They are run by the executor (runtime/sequence.c).
 * A map is its keys, a list, and its values beside them; a sequence of maps that all have the same keys is those keys and a row of values
 * for each map. */
#include "ops/move.h"

static bool is_key(tercel_dtype dtype) { return dtype == TERCEL_DTYPE_I64 || dtype == TERCEL_DTYPE_STRING; }

static tercel_status infer_construct(tercel_infer *infer, tercel_error *err) {
  const tercel_type *const keys = &infer->in[0]->type, *const values = &infer->in[1]->type;
  tercel_type *const out = &infer->out[0].type;
  *out = (tercel_type){.kind = TERCEL_TYPE_MAP, .key = keys->dtype, .dtype = values->dtype, .shape = values->shape};
  if (keys->dtype != TERCEL_DTYPE_NONE && !is_key(keys->dtype))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "keys are %s, want i64 or string",
                            tercel_dtype_name(keys->dtype));
  const int rank = values->shape.rank;
  if (rank >= 0 && rank != 1 && rank != 2)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "values of rank %d, want 1 or 2", rank);
  if (keys->shape.rank < 0) return TERCEL_OK;
  if (keys->shape.rank != 1)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "keys of rank %d, want 1", keys->shape.rank);
  if (rank < 1) return TERCEL_OK;
  const tercel_dim have = keys->shape.dims[0], want = values->shape.dims[rank - 1];
  if (tercel_dim_is_known(have) && tercel_dim_is_known(want) && have != want)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "%lld keys for %lld values", (long long)have,
                            (long long)want);
  out->shape.dims[rank - 1] = tercel_dim_is_known(want) ? want : have;
  return TERCEL_OK;
}

static tercel_status infer_parts(tercel_infer *infer, tercel_error *err) {
  const tercel_type *const map = &infer->in[0]->type;
  if (map->dtype != TERCEL_DTYPE_NONE && map->kind != TERCEL_TYPE_MAP)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "the input is no map");
  infer->out[0].type = (tercel_type){.dtype = map->key, .shape.rank = map->shape.rank < 0 ? -1 : 1};
  if (map->shape.rank > 0) infer->out[0].type.shape.dims[0] = map->shape.dims[map->shape.rank - 1];
  if (infer->num_outputs > 1) infer->out[1].type = (tercel_type){.dtype = map->dtype, .shape = map->shape};
  return TERCEL_OK;
}

const tercel_op tercel_op_map_construct = {
    .name = "map_construct",
    .id = TERCEL_OP_MAP_CONSTRUCT,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_CONTROL,
    .about = "a map from keys to values; of several rows of values, a map each",
    .infer = infer_construct,
    .flops = tercel_no_flops,
};

const tercel_op tercel_op_map_parts = {
    .name = "map_parts",
    .id = TERCEL_OP_MAP_PARTS,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 2,
    .flags = TERCEL_OP_CONTROL,
    .about = "keys and values of a map",
    .infer = infer_parts,
    .flops = tercel_no_flops,
};
