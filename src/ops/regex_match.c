/* regex_match: which strings match a pattern as a whole. */
#include <string.h>

#include "ops/move.h"
#include "ops/regex.h"
#include "ops/text.h"

static tercel_status infer_match(tercel_infer *infer, tercel_error *err) {
  const tercel_type *const x = &infer->in[0]->type;
  if (x->dtype != TERCEL_DTYPE_NONE && x->dtype != TERCEL_DTYPE_STRING)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input is %s, want string",
                            tercel_dtype_name(x->dtype));
  infer->out[0].type = (tercel_type){.dtype = TERCEL_DTYPE_BOOL, .shape = x->shape};
  return TERCEL_OK;
}

static tercel_status compile(const tercel_node *node, tercel_arena *arena, tercel_regex **out, tercel_error *err) {
  const char *const pattern = tercel_node_string(node, "pattern");
  const tercel_status status = tercel_regex_compile(pattern, strlen(pattern), arena, out, err);
  return status == TERCEL_OK ? status : tercel_fail_at(err, status, "%s '%s'", node->op->name, node->name);
}

static tercel_status verify_match(const tercel_node *node, tercel_error *err) {
  tercel_arena scratch = {0};
  tercel_regex *regex = NULL;
  const tercel_status status = compile(node, &scratch, &regex, err);
  tercel_arena_deinit(&scratch);
  return status;
}

static tercel_status eval_match(tercel_eval *eval, tercel_error *err) {
  tercel_regex *regex = NULL;
  TERCEL_TRY(compile(eval->node, eval->scratch, &regex, err));
  const int64_t n = tercel_tensor_num_elements(eval->in[0]);
  const tercel_string *const strings = tercel_tensor_strings(eval->in[0]);
  bool *const y = eval->out[0]->data;
  for (int64_t i = 0; i < n; ++i) y[i] = tercel_regex_matches(regex, strings[i].data, strings[i].length);
  return TERCEL_OK;
}

static const tercel_attr_spec match_attrs[] = {
    {"pattern", TERCEL_ATTR_STRING, true, 0, NULL, "in RE2's syntax (ops/regex.h says what of it)"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_regex_match = {
    .name = "regex_match",
    .id = TERCEL_OP_REGEX_MATCH,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "does the whole string match?",
    .attrs = match_attrs,
    .infer = infer_match,
    .verify = verify_match,
    .eval = eval_match,
    .flops = tercel_no_flops,
};
