/* Rows of a table of narrow numbers that is widened first (an embedding kept in 8 bits and a scale): the rows are taken first, then
 * widened.  Else folding would store the whole table wide, to read a few rows of it in each run.
 *
 *     gather(mul(cast(w), s), i)  ->  mul(cast(gather(w, i)), s), or gather(s, i) where s has a number for each row */
#include "optimize/canonicalize.h"

enum { MAX_LENGTH = 4, LARGE_TABLE = 4096 };

/* Pointwise nodes from the one that is gathered from up to a constant, and the input of each that the chain goes through. */
typedef struct chain {
  tercel_node *nodes[MAX_LENGTH];
  uint32_t at[MAX_LENGTH];
  int length;
  tercel_value *table;
} chain;

/* A number for each row of the table: rows of it are taken likewise. */
static bool is_by_row(const tercel_value *input, const tercel_shape *table) {
  return input->constant && input->constant->rank == table->rank && table->dims[0] != 1 &&
         input->constant->dims[0] == table->dims[0];
}

/* The input with the result's shape, where all others are constants that rows, once taken, can be combined with; -1 when they are not so. */
static int only_full_input(const tercel_node *node, bool by_rows, int most_rank) {
  const tercel_shape *const shape = &node->outputs[0]->type.shape;
  int found = -1;
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    const tercel_value *const input = node->inputs[i];
    if (tercel_shape_equal(&input->type.shape, shape)) {
      if (found >= 0) return -1;
      found = (int)i;
    } else if (!input->constant || input->constant->rank > most_rank ||
               (!by_rows && tercel_tensor_num_elements(input->constant) != 1)) {
      return -1;
    }
  }
  return found;
}

static bool find_chain(const tercel_node *gather, chain *out) {
  const int rank = gather->outputs[0]->type.shape.rank;
  const bool by_rows =
      tercel_node_int(gather, "axis") == 0; /* what is broadcast then is so from the end, before and after */
  tercel_value *value = gather->inputs[0];
  *out = (chain){0};
  while (!value->constant) {
    tercel_node *const node = tercel_producer(value, TERCEL_OP_POINTWISE);
    if (!node || out->length == MAX_LENGTH || !tercel_has_one_use(value)) return false;
    const int at = only_full_input(node, by_rows, rank);
    if (at < 0) return false;
    out->nodes[out->length] = node;
    out->at[out->length++] = (uint32_t)at;
    value = node->inputs[at];
  }
  out->table = value;
  return out->length > 0 && rank >= 0 && tercel_tensor_num_elements(value->constant) >= LARGE_TABLE &&
         tercel_dtype_bits(value->type.dtype) < tercel_dtype_bits(gather->outputs[0]->type.dtype);
}

static tercel_status add_gather(const tercel_node *like, tercel_value *table, tercel_node *before, tercel_node **out,
                                tercel_error *err) {
  TERCEL_TRY(
      tercel_rewrite_add(TERCEL_OP_GATHER, like, (tercel_value *[]){table, like->inputs[1]}, 2, before, out, err));
  TERCEL_TRY(tercel_node_set_int(*out, "axis", tercel_node_int(like, "axis"), err));
  return tercel_infer_node(*out, err);
}

/* A node of the chain again, of rows. */
static tercel_status add_link(const chain *c, int k, tercel_node *gather, tercel_value *rows, tercel_node **out,
                              tercel_error *err) {
  tercel_node *const old = c->nodes[k];
  tercel_value *inputs[TERCEL_PROGRAM_MAX_INPUTS];
  for (uint32_t i = 0; i < old->num_inputs; i++) {
    tercel_node *taken;
    inputs[i] = i == c->at[k] ? rows : old->inputs[i];
    if (i == c->at[k] || tercel_node_int(gather, "axis") != 0 || !is_by_row(inputs[i], &c->table->type.shape)) continue;
    TERCEL_TRY(add_gather(gather, inputs[i], gather, &taken, err));
    inputs[i] = taken->outputs[0];
  }
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_POINTWISE, old, inputs, old->num_inputs, gather, out, err));
  TERCEL_TRY(tercel_node_set_program(*out, "program", tercel_node_program(old, "program"), err));
  return tercel_infer_node(*out, err);
}

tercel_status tercel_apply_gather(tercel_pass_context *context, const char *name, tercel_node *node,
                                  tercel_error *err) {
  chain c;
  tercel_node *made;
  if (!find_chain(node, &c)) return TERCEL_OK;
  TERCEL_TRY(add_gather(node, c.table, node, &made, err));
  for (int k = c.length - 1; k >= 0; k--) TERCEL_TRY(add_link(&c, k, node, made->outputs[0], &made, err));
  return tercel_rewrite_node(context, name, node, made->outputs[0], err);
}
