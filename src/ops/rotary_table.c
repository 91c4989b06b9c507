/* rotary_table: cosines and sines that rotary turns by, for the positions of a run, with the ways in which models stretch them: frequencies
 * divided by factors, linear scaling, and YaRN (Peng et al.: YaRN: Efficient context window extension of large language models, 2023), as
 * llama.cpp computes it. */
#include <math.h>

#include "ops/move.h"

enum { POSITIONS, FACTORS };

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *const positions = &infer->in[POSITIONS]->type.shape;
  const int64_t half = tercel_node_int(infer->node, "dims") / 2;
  TERCEL_TRY(tercel_infer_check_indices(infer, POSITIONS, err));
  for (size_t i = 0; i < infer->num_outputs; ++i) infer->out[i].type.dtype = TERCEL_DTYPE_F32;
  if (tercel_has_input(infer, FACTORS)) {
    const tercel_type *const factors = &infer->in[FACTORS]->type;
    const bool fits =
        factors->shape.rank < 0 ||
        (factors->shape.rank == 1 && (!tercel_dim_is_known(factors->shape.dims[0]) || factors->shape.dims[0] == half));
    if (!fits || (factors->dtype != TERCEL_DTYPE_NONE && factors->dtype != TERCEL_DTYPE_F32))
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "want %lld factors, f32", (long long)half);
  }
  if (positions->rank < 0) return TERCEL_OK;
  TERCEL_TRY(tercel_infer_open(infer, positions->rank + 1, &infer->out[0].type.shape, err));
  for (int d = 0; d < positions->rank; ++d) infer->out[0].type.shape.dims[d] = positions->dims[d];
  infer->out[0].type.shape.dims[positions->rank] = half;
  if (infer->num_outputs > 1) infer->out[1].type.shape = infer->out[0].type.shape;
  return tercel_infer_check_size(infer, 0, err);
}

static tercel_status verify(const tercel_node *node, tercel_error *err) {
  const int64_t dims = tercel_node_int(node, "dims");
  if (dims < 2 || dims % 2 != 0 || dims > 1 << 20)
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "dims is %lld, want a positive even number",
                            (long long)dims);
  if (!(tercel_node_float(node, "base") > 0) || !(tercel_node_float(node, "scale") > 0))
    return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "base and scale are greater than 0");
  return TERCEL_OK;
}

/* The pair at which a wave turns `turns` times over the context that the model was trained with. */
static double pair_of(double dims, double context, double turns, double base) {
  return dims * tercel_f64_log(context / (turns * 2 * 3.14159265358979323846)) / (2 * tercel_f64_log(base));
}

typedef struct yarn {
  double mix, low, high; /* mix 0: none */
} yarn;

static yarn get_yarn(const tercel_node *node, double dims, double base) {
  const double context = tercel_node_float(node, "context"), mix = tercel_node_float(node, "yarn");
  if (mix == 0 || !(context > 0)) return (yarn){0};
  return (yarn){mix, fmax(0, floor(pair_of(dims, context, tercel_node_float(node, "beta_fast"), base))),
                fmin(dims - 1, ceil(pair_of(dims, context, tercel_node_float(node, "beta_slow"), base)))};
}

/* Turns of pair i per position: fast waves keep theirs, slow ones are stretched, those between are mixed. */
static double frequency_of(const yarn *y, double i, double own, double scale) {
  if (y->mix == 0) return own * scale;
  const double ramp = (i - y->low) / fmax(0.001, y->high - y->low), keep = y->mix * (1 - fmin(1, fmax(0, ramp)));
  return own * scale * (1 - keep) + own * keep;
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  const tercel_tensor *const positions = eval->in[POSITIONS], *const factors =
                                                                  eval->num_inputs > FACTORS ? eval->in[FACTORS] : NULL;
  const tercel_node *const node = eval->node;
  const double dims = (double)tercel_node_int(node, "dims"), base = tercel_node_float(node, "base"),
               scale = tercel_node_float(node, "scale");
  const yarn y = get_yarn(node, dims, base);
  const double magnitude =
      tercel_node_float(node, "magnitude") * (y.mix != 0 ? 1 + 0.1 * tercel_f64_log(1 / scale) : 1);
  const int64_t half = tercel_node_int(node, "dims") / 2, count = tercel_tensor_num_elements(positions);
  (void)err;
  for (int64_t i = 0; i < half; ++i) {
    const double own =
        tercel_f64_pow(base, -2.0 * (double)i / dims) / (factors != NULL ? tercel_tensor_get_f64(factors, i) : 1);
    const double frequency = frequency_of(&y, (double)i, own, scale);
    for (int64_t n = 0; n < count; ++n) {
      const double angle = (double)tercel_tensor_get_i64(positions, n) * frequency;
      if (eval->out[0] != NULL) tercel_tensor_set_f64(eval->out[0], n * half + i, tercel_f64_cos(angle) * magnitude);
      if (eval->num_outputs > 1 && eval->out[1] != NULL)
        tercel_tensor_set_f64(eval->out[1], n * half + i, tercel_f64_sin(angle) * magnitude);
    }
  }
  return TERCEL_OK;
}

static const tercel_attr_spec attrs[] = {
    {"dims", TERCEL_ATTR_INT, .required = true, .about = "elements of a head that are turned, in pairs"},
    {"base", TERCEL_ATTR_FLOAT, .number = 10000, .about = "pair i turns by base^(-2 i / dims) a position"},
    {"scale", TERCEL_ATTR_FLOAT, .number = 1,
     .about = "factor of all frequencies: 1 / 4 for a context four times as long"},
    {"yarn", TERCEL_ATTR_FLOAT, .about = "how much of its own frequency a fast pair keeps, 0 to 1"},
    {"context", TERCEL_ATTR_FLOAT, .about = "positions that the model was trained with, for yarn"},
    {"beta_fast", TERCEL_ATTR_FLOAT, .number = 32, .about = "turns over that context from which a pair counts as fast"},
    {"beta_slow", TERCEL_ATTR_FLOAT, .number = 1, .about = "turns below which it counts as slow"},
    {"magnitude", TERCEL_ATTR_FLOAT, .number = 1, .about = "factor of cosines and sines"},
    {0}};

const tercel_op tercel_op_rotary_table = {.name = "rotary_table",
                                          .id = TERCEL_OP_ROTARY_TABLE,
                                          .min_inputs = 1,
                                          .max_inputs = 2,
                                          .min_outputs = 2,
                                          .max_outputs = 2,
                                          .about = "cosines and sines of positions, for rotary",
                                          .attrs = attrs,
                                          .infer = infer,
                                          .verify = verify,
                                          .eval = eval};
