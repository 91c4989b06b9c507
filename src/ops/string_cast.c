/* string_format, string_parse: numbers as strings and back, independent of the locale.  Truth is written 1 and 0, as ONNX Runtime does (the
 * reference evaluator of ONNX writes Python's True and False), so that it can be read back. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "ops/move.h"
#include "ops/text.h"

static tercel_status refuse(const tercel_infer *infer, const char *what, tercel_dtype dtype, tercel_error *err) {
  return tercel_node_fail(infer->node, err, TERCEL_UNSUPPORTED, "%s %s is not supported", what,
                          tercel_dtype_name(dtype));
}

static bool is_number(tercel_dtype dtype) {
  const tercel_dtype_kind kind = tercel_dtype_get_kind(dtype);
  return kind != TERCEL_KIND_STRING && kind != TERCEL_KIND_COMPLEX;
}

/* ---- string_format ------------------------------------------------------------------------------------------------- */

static tercel_status infer_format(tercel_infer *infer, tercel_error *err) {
  const tercel_type *const x = &infer->in[0]->type;
  infer->out[0].type = (tercel_type){.dtype = TERCEL_DTYPE_STRING, .shape = x->shape};
  return is_number(x->dtype) ? TERCEL_OK : refuse(infer, "from", x->dtype, err);
}

static void add_float(tercel_text *text, const tercel_tensor *x, int64_t i) {
  const double value = tercel_tensor_get_f64(x, i);
  if (isnan(value))
    tercel_text_add(text, "NaN");
  else if (isinf(value))
    tercel_text_add(text, value < 0 ? "-INF" : "INF");
  else if (x->dtype == TERCEL_DTYPE_F64)
    tercel_text_add_f64(text, value);
  else
    tercel_text_add_f32(text, (float)value); /* exact: all other types are narrower */
}

static void add_number(tercel_text *text, const tercel_tensor *x, int64_t i) {
  const int64_t value = tercel_dtype_is_float(x->dtype) ? 0 : tercel_tensor_get_i64(x, i);
  if (tercel_dtype_is_float(x->dtype))
    add_float(text, x, i);
  else if (tercel_dtype_get_kind(x->dtype) == TERCEL_KIND_UINT)
    tercel_text_add(text, "%llu", (unsigned long long)value);
  else
    tercel_text_add(text, "%lld", (long long)value);
}

static tercel_status eval_format(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *const x = eval->in[0];
  const int64_t n = tercel_tensor_num_elements(x);
  tercel_strings strings = {0};
  TERCEL_TRY(tercel_strings_init(&strings, eval->scratch, n, err));
  for (int64_t i = 0; i < n; ++i) {
    add_number(&strings.characters, x, i);
    tercel_strings_end(&strings);
  }
  const tercel_status status = tercel_strings_give(&strings, eval, 0, x->rank, x->dims, err);
  tercel_strings_deinit(&strings);
  return status;
}

static const tercel_attr_spec no_attrs[] = {{NULL, 0, false, 0, NULL, NULL}};

const tercel_op tercel_op_string_format = {
    .name = "string_format",
    .id = TERCEL_OP_STRING_FORMAT,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_DATA_DEPENDENT,
    .about = "numbers as the shortest decimals that read back the same; NaN, INF, -INF",
    .attrs = no_attrs,
    .infer = infer_format,
    .eval = eval_format,
    .flops = tercel_no_flops,
};

/* ---- string_parse -------------------------------------------------------------------------------------------------- */

static tercel_status infer_parse(tercel_infer *infer, tercel_error *err) {
  const tercel_type *const x = &infer->in[0]->type;
  const tercel_dtype dtype = tercel_node_dtype(infer->node, "dtype");
  infer->out[0].type = (tercel_type){.dtype = dtype, .shape = x->shape};
  if (x->dtype != TERCEL_DTYPE_NONE && x->dtype != TERCEL_DTYPE_STRING)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input is %s, want string",
                            tercel_dtype_name(x->dtype));
  return is_number(dtype) ? TERCEL_OK : refuse(infer, "to", dtype, err);
}

/* The special values in any case, else a number in plain or scientific notation. */
static bool parse_float(tercel_string s, double *out) {
  static const struct {
    const char *name;
    double value;
  } special[] = {{"nan", NAN}, {"inf", INFINITY}, {"+inf", INFINITY}, {"-inf", -INFINITY}};
  for (size_t i = 0; i < sizeof special / sizeof *special; ++i)
    if (s.length == strlen(special[i].name) && strncasecmp(s.data, special[i].name, s.length) == 0) {
      *out = special[i].value;
      return true;
    }
  return s.length > 0 && tercel_parse_f64(s.data, s.length, out);
}

static bool is_white(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static tercel_string trimmed(tercel_string s) {
  for (; s.length > 0 && is_white(s.data[0]); --s.length) ++s.data;
  while (s.length > 0 && is_white(s.data[s.length - 1])) --s.length;
  return s;
}

static bool parse_u64(tercel_string s, uint64_t *out) {
  *out = 0;
  for (size_t i = s.length > 1 && s.data[0] == '+'; i < s.length; ++i) {
    if (s.data[i] < '0' || s.data[i] > '9') return false;
    const uint64_t digit = (uint64_t)(s.data[i] - '0');
    if (*out > (UINT64_MAX - digit) / 10) return false;
    *out = 10 * *out + digit;
  }
  return s.length > 0;
}

/* A whole number exactly; of any other the part before the point. */
static bool parse_whole(tercel_dtype dtype, tercel_string s, int64_t *out) {
  uint64_t large;
  double real;
  if (dtype == TERCEL_DTYPE_U64 && parse_u64(s, &large)) {
    *out = (int64_t)large; /* the same bits */
    return true;
  }
  if (!tercel_parse_i64(s.data, s.length, out)) {
    if (!parse_float(s, &real) || !(fabs(real) < 9223372036854775808.0)) return false;
    *out = (int64_t)real;
  }
  return dtype != TERCEL_DTYPE_U64 || *out >= 0;
}

static bool parse_into(tercel_tensor *y, int64_t i, tercel_string s) {
  int64_t whole;
  double real;
  if (s.length == 0) return false;
  if (tercel_dtype_is_float(y->dtype)) {
    if (!parse_float(s, &real)) return false;
    tercel_tensor_set_f64(y, i, real);
    return true;
  }
  if (y->dtype == TERCEL_DTYPE_BOOL) {
    if (!parse_float(s, &real)) return false;
    tercel_tensor_set_i64(y, i, real != 0); /* and NaN is true, as in a cast of numbers */
    return true;
  }
  if (!parse_whole(y->dtype, s, &whole)) return false;
  tercel_tensor_set_i64(y, i, whole);
  return tercel_tensor_get_i64(y, i) == whole; /* else it doesn't fit */
}

static tercel_status eval_parse(tercel_eval *eval, tercel_error *err) {
  const int64_t n = tercel_tensor_num_elements(eval->in[0]);
  for (int64_t i = 0; i < n; ++i) {
    const tercel_string s = trimmed(tercel_tensor_strings(eval->in[0])[i]);
    if (!parse_into(eval->out[0], i, s))
      return tercel_node_fail(eval->node, err, TERCEL_INVALID_ARGUMENT, "element %lld, \"%.*s\", is no %s",
                              (long long)i, s.length < 40 ? (int)s.length : 40, s.data != NULL ? s.data : "",
                              tercel_dtype_name(eval->out[0]->dtype));
  }
  return TERCEL_OK;
}

static const tercel_attr_spec parse_attrs[] = {
    {"dtype", TERCEL_ATTR_DTYPE, true, 0, NULL, "of the result"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_string_parse = {
    .name = "string_parse",
    .id = TERCEL_OP_STRING_PARSE,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .about = "numbers that strings spell, white space around them aside; what is none is an error of the run",
    .attrs = parse_attrs,
    .infer = infer_parse,
    .eval = eval_parse,
    .flops = tercel_no_flops,
};
