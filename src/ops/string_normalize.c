/* string_normalize: stopwords and case.  Characters are UTF-8; none of this depends on the locale. */
#include <string.h>

#include "ops/move.h"
#include "ops/text.h"

typedef enum case_change { CASE_KEEP, CASE_LOWER, CASE_UPPER } case_change;
static const char *const case_names[] = {"none", "lower", "upper", NULL};

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  infer->out[0].type.dtype = TERCEL_DTYPE_STRING;
  TERCEL_TRY(tercel_infer_check_strings(infer, 0, err));
  const tercel_shape *const x = &infer->in[0]->type.shape;
  if (x->rank < 0) return TERCEL_OK;
  if (x->rank != 1 && !(x->rank == 2 && (!tercel_dim_is_known(x->dims[0]) || x->dims[0] == 1)))
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input must have the shape [n] or [1, n]");
  TERCEL_TRY(tercel_infer_open(infer, x->rank, &infer->out[0].type.shape, err));
  if (x->rank == 2) infer->out[0].type.shape.dims[0] = 1;
  return TERCEL_OK;
}

static tercel_status verify(const tercel_node *node, tercel_error *err) {
  int choice;
  return tercel_node_choice(node, "case", case_names, &choice, err);
}

/* Turkish and Azerbaijani have an i without a dot, whose capital is I. */
static uint32_t change_case(uint32_t code, case_change change, bool turkic) {
  enum { DOTLESS = 0x131, CAPITAL_DOTTED = 0x130 };
  if (change == CASE_KEEP) return code;
  if (change == CASE_LOWER)
    return turkic && code == 'I' ? DOTLESS : code == CAPITAL_DOTTED ? 'i' : tercel_to_lower(code);
  return turkic && code == 'i' ? CAPITAL_DOTTED : tercel_to_upper(code);
}

static void add_changed(tercel_text *text, tercel_string s, case_change change, bool turkic) {
  const char *at = s.data, *const end = s.length > 0 ? s.data + s.length : s.data;
  while (at < end) {
    const char *const begin = at;
    const uint32_t code = tercel_utf8_next(&at, end);
    const uint32_t to = change_case(code, change, turkic);
    if (to == code)
      tercel_text_add_bytes(text, begin, (size_t)(at - begin)); /* what is no UTF-8 stays as it is */
    else
      tercel_utf8_add(text, to);
  }
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *const x = eval->in[0];
  int change;
  size_t num_stopwords = 0;
  TERCEL_TRY(tercel_node_choice(eval->node, "case", case_names, &change, err));
  const bool fold = tercel_node_int(eval->node, "case_sensitive") == 0;
  const bool turkic = tercel_node_int(eval->node, "turkic") != 0;
  const tercel_attr *const attr = tercel_node_attr(eval->node, "stopwords");
  if (attr != NULL) num_stopwords = attr->count;
  const int64_t n = tercel_tensor_num_elements(x);
  tercel_map stopwords = {0};
  tercel_text word = {0};
  tercel_strings strings = {0};
  tercel_status status = TERCEL_OK;
  TERCEL_CHECK(tercel_strings_init(&strings, eval->scratch, n > 0 ? n : 1, err));
  for (size_t i = 0; i < num_stopwords; ++i) {
    const char *const stopword = attr->value.strings[i];
    word.length = 0;
    tercel_text_add_bytes(&word, "", 0);
    add_changed(&word, (tercel_string){stopword, strlen(stopword)}, fold ? CASE_LOWER : CASE_KEEP, turkic);
    if (word.failed) TERCEL_CHECK(tercel_fail_memory(err, word.length, "a word"));
    TERCEL_CHECK(tercel_map_set_bytes(&stopwords, word.data, word.length, NULL, err));
  }
  for (int64_t i = 0; i < n; ++i) {
    bool is_stopword = false;
    word.length = 0;
    tercel_text_add_bytes(&word, "", 0);
    add_changed(&word, tercel_tensor_strings(x)[i], fold ? CASE_LOWER : CASE_KEEP, turkic);
    if (word.failed) TERCEL_CHECK(tercel_fail_memory(err, word.length, "a word"));
    tercel_map_get_bytes(&stopwords, word.data, word.length, &is_stopword);
    if (is_stopword) continue;
    add_changed(&strings.characters, tercel_tensor_strings(x)[i], (case_change)change, turkic);
    tercel_strings_end(&strings);
  }
  if (strings.count == 0) tercel_strings_end(&strings); /* nothing left: one empty string */
  const int64_t dims[] = {1, strings.count};
  status = tercel_strings_give(&strings, eval, 0, x->rank, x->rank == 2 ? dims : dims + 1, err);
done:
  tercel_strings_deinit(&strings);
  tercel_text_deinit(&word);
  tercel_map_deinit(&stopwords);
  return status;
}

static const tercel_attr_spec attrs[] = {
    {"case", TERCEL_ATTR_STRING, false, 0, "none", "none, lower, upper: how what is left is changed"},
    {"case_sensitive", TERCEL_ATTR_INT, false, 0, NULL, "0: stopwords are compared in lower case"},
    {"turkic", TERCEL_ATTR_INT, false, 0, NULL, "1: the case of i and I is that of Turkish and Azerbaijani"},
    {"stopwords", TERCEL_ATTR_STRINGS, false, 0, NULL, "strings that are left out"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_string_normalize = {
    .name = "string_normalize",
    .id = TERCEL_OP_STRING_NORMALIZE,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_DATA_DEPENDENT,
    .about = "strings without stopwords, in another case; one empty string when none is left",
    .attrs = attrs,
    .infer = infer,
    .verify = verify,
    .eval = eval,
    .flops = tercel_no_flops,
};
