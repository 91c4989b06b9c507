/* Drives reference evaluation of one node on given tensors: shapes by the node's own inference, memory by storages. */
#include <string.h>

#include "ops/ops.h"

typedef struct eval_job {
  tercel_storage **storages; /* by output */
} eval_job;

static tercel_status give_memory(void *user, size_t output, tercel_tensor *tensor, tercel_error *err) {
  eval_job *job = user;
  tercel_storage_release(job->storages[output]); /* an operator may shape an output anew */
  job->storages[output] = NULL;
  TERCEL_TRY(tercel_storage_create(tensor->bytes, &job->storages[output], err));
  tensor->data = tercel_storage_data(job->storages[output]);
  return TERCEL_OK;
}

/* Shapes and allocates the outputs that inference knows; others are left to operators that say so. */
static tercel_status shape_outputs(const tercel_node *node, const tercel_fact *facts, tercel_tensor *out, eval_job *job,
                                   tercel_error *err) {
  for (size_t i = 0; i < node->num_outputs; ++i) {
    const tercel_type *type = &facts[i].type;
    out[i] = (tercel_tensor){.dtype = type->dtype, .rank = -1};
    if (node->outputs[i] == NULL) continue;
    if (!tercel_shape_is_known(&type->shape)) {
      if (node->op->flags & TERCEL_OP_DATA_DEPENDENT) continue;
      return tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': the shape of output %zu can't be told from its inputs",
                         node->op->name, node->name, i);
    }
    if (!tercel_tensor_set_shape(&out[i], type->dtype, type->shape.rank, type->shape.dims))
      return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "%s '%s': output %zu is too large to address", node->op->name,
                         node->name, i);
    TERCEL_TRY(give_memory(job, i, &out[i], err));
  }
  return TERCEL_OK;
}

/* Strings that an operator only moved still point at the input's characters: they get their own, in the same storage. */
static tercel_status settle_strings(tercel_tensor *out, tercel_storage **storage, tercel_error *err) {
  const int64_t n = tercel_tensor_num_elements(out);
  const tercel_string *const from = out->data;
  size_t bytes = out->bytes;
  for (int64_t i = 0; i < n; ++i)
    if (!tercel_add_size(bytes, from[i].length, &bytes))
      return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "strings are too large to address");
  tercel_storage *own = NULL;
  TERCEL_TRY(tercel_storage_create(bytes, &own, err));
  tercel_string *const to = tercel_storage_data(own);
  char *characters = (char *)to + out->bytes;
  for (int64_t i = 0; i < n; ++i) {
    to[i] = (tercel_string){characters, from[i].length};
    if (from[i].length > 0) memcpy(characters, from[i].data, from[i].length);
    characters += from[i].length;
  }
  tercel_storage_release(*storage);
  *storage = own;
  out->data = to;
  return TERCEL_OK;
}

tercel_status tercel_eval_node(const tercel_node *node, const tercel_tensor *const *in, tercel_tensor *out,
                               tercel_storage **storages_out, tercel_error *err) {
  if (node->op->eval == NULL)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': no reference evaluation outside a run", node->op->name,
                       node->name);
  const size_t num_in = node->num_inputs, num_out = node->num_outputs;
  tercel_arena scratch = {0};
  tercel_dims dims = {0};
  tercel_dims_init(&dims, &scratch);
  eval_job job = {.storages = storages_out};
  for (size_t i = 0; i < num_out; ++i) storages_out[i] = NULL;
  tercel_status status = TERCEL_OK;

  tercel_fact *facts = tercel_arena_alloc_array(&scratch, num_in + num_out, sizeof *facts);
  const tercel_fact **fact_in = tercel_arena_alloc_array(&scratch, num_in, sizeof *fact_in);
  tercel_tensor **outputs = tercel_arena_alloc_array(&scratch, num_out, sizeof *outputs);
  if (facts == NULL || fact_in == NULL || outputs == NULL) {
    status = tercel_fail_memory(err, (num_in + num_out) * sizeof *facts, "evaluation");
    goto done;
  }
  for (size_t i = 0; i < num_in; ++i) {
    if (in[i] == NULL) continue;
    facts[i].tensor = in[i];
    facts[i].type.dtype = in[i]->dtype;
    facts[i].type.shape.rank = in[i]->rank;
    for (int d = 0; d < in[i]->rank; ++d) facts[i].type.shape.dims[d] = in[i]->dims[d];
    fact_in[i] = &facts[i];
  }
  tercel_fact *fact_out = facts + num_in;
  for (size_t i = 0; i < num_out; ++i) fact_out[i].type.shape.rank = -1;
  tercel_infer infer = {.node = node,
                        .num_inputs = num_in,
                        .num_outputs = num_out,
                        .in = fact_in,
                        .out = fact_out,
                        .dims = &dims,
                        .arena = &scratch};
  TERCEL_CHECK(tercel_infer_call(&infer, err));
  TERCEL_CHECK(shape_outputs(node, fact_out, out, &job, err));
  for (size_t i = 0; i < num_out; ++i) outputs[i] = node->outputs[i] == NULL ? NULL : &out[i];
  tercel_eval eval = {.node = node,
                      .num_inputs = num_in,
                      .num_outputs = num_out,
                      .in = in,
                      .out = outputs,
                      .scratch = &scratch,
                      .allocate = give_memory,
                      .user = &job};
  TERCEL_CHECK(node->op->eval(&eval, err));
  for (size_t i = 0; i < num_out; ++i)
    if (storages_out[i] != NULL && out[i].dtype == TERCEL_DTYPE_STRING)
      TERCEL_CHECK(settle_strings(&out[i], &storages_out[i], err));
done:
  if (status != TERCEL_OK) {
    for (size_t i = 0; i < num_out; ++i) {
      tercel_storage_release(storages_out[i]);
      storages_out[i] = NULL;
    }
  }
  tercel_dims_deinit(&dims);
  tercel_arena_deinit(&scratch);
  return status;
}
