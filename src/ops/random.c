/* random: numbers of a distribution, from a counter-based generator (base/random.h).
 *
 * Elements 2 i and 2 i + 1 come from the block of counter i under the key `seed`, so a seed gives the same tensor on every machine, with any
 * number of threads.  The numbers are not those of another runtime's generator. */
#include <math.h>

#include "base/random.h"
#include "ops/move.h"

typedef enum distribution { UNIFORM, NORMAL } distribution;
static const char *const distributions[] = {"uniform", "normal", NULL};

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  infer->out[0].type.dtype = tercel_node_dtype(infer->node, "dtype");
  TERCEL_TRY(tercel_infer_check_indices(infer, 0, err));
  int64_t count = 0;
  const tercel_dim *dims = tercel_infer_contents(infer, 0, &count, err);
  const tercel_shape *list = &infer->in[0]->type.shape;
  if (list->rank >= 0 && list->rank != 1)
    return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "a shape of rank %d, want a list", list->rank);
  if (dims == NULL) {
    if (list->rank < 0 || !tercel_dim_is_known(list->dims[0])) return TERCEL_OK;
    return tercel_infer_open(infer, list->dims[0], &infer->out[0].type.shape, err);
  }
  tercel_shape out;
  TERCEL_TRY(tercel_infer_open(infer, count, &out, err));
  for (int d = 0; d < out.rank; ++d) {
    int64_t number;
    if (tercel_dim_get_number(infer->dims, dims[d], &number) && number < 0)
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "dim %d of the shape is %lld", d,
                              (long long)number);
    out.dims[d] = dims[d];
  }
  infer->out[0].type.shape = out;
  return tercel_infer_check_size(infer, 0, err);
}

static tercel_status verify(const tercel_node *node, tercel_error *err) {
  int kind;
  TERCEL_TRY(tercel_node_choice(node, "kind", distributions, &kind, err));
  if (tercel_dtype_is_float(tercel_node_dtype(node, "dtype"))) return TERCEL_OK;
  return tercel_node_fail(node, err, TERCEL_INVALID_MODEL, "random numbers of %s, want floats",
                          tercel_dtype_name(tercel_node_dtype(node, "dtype")));
}

/* Significant bits of a dtype: a uniform number of so many bits is exact in it, and so below 1. */
static int precision_of(tercel_dtype dtype) {
  switch (dtype) {
  case TERCEL_DTYPE_F64: return 53;
  case TERCEL_DTYPE_F32: return 24;
  case TERCEL_DTYPE_F16: return 11;
  case TERCEL_DTYPE_BF16: return 8;
  default: return 2; /* float8, float4 */
  }
}

/* The top `bits` of a word, as a number of [0, 1). */
static double fraction(uint64_t word, int bits) { return ldexp((double)(word >> (64 - bits)), -bits); }

/* Two numbers from the two words of a block.  Normal: Box and Muller (1958), from a radius in (0, 1] and an angle. */
static void draw(distribution kind, int bits, const uint32_t block[4], double out[2]) {
  const uint64_t words[2] = {(uint64_t)block[1] << 32 | block[0], (uint64_t)block[3] << 32 | block[2]};
  if (kind == UNIFORM) {
    for (int i = 0; i < 2; ++i) out[i] = fraction(words[i], bits);
    return;
  }
  const double radius = sqrt(-2 * tercel_f64_log(1 - fraction(words[0], 53)));
  const double angle = 2 * 3.14159265358979323846 * fraction(words[1], 53);
  out[0] = radius * tercel_f64_cos(angle);
  out[1] = radius * tercel_f64_sin(angle);
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  const tercel_node *node = eval->node;
  tercel_tensor *y = eval->out[0];
  if (y->rank < 0) {
    int64_t dims[TERCEL_MAX_RANK];
    size_t rank;
    TERCEL_TRY(tercel_eval_ints(eval->in[0], "shape", dims, TERCEL_MAX_RANK, &rank, err));
    TERCEL_TRY(tercel_eval_output(eval, 0, (int)rank, dims, err));
  }
  int kind;
  TERCEL_TRY(tercel_node_choice(node, "kind", distributions, &kind, err));
  const bool seeded = tercel_node_attr(node, "seed") != NULL;
  const uint64_t seed = seeded ? (uint64_t)tercel_node_int(node, "seed") : tercel_random_key();
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  const double a = tercel_node_float(node, "a"), b = tercel_node_float(node, "b");
  const double scale = kind == UNIFORM ? b - a : b;
  const int64_t n = tercel_tensor_num_elements(y);
  for (int64_t i = 0; i < n; i += 2) {
    const uint64_t at = (uint64_t)i / 2;
    const uint32_t counter[4] = {(uint32_t)at, (uint32_t)(at >> 32), 0, 0};
    uint32_t block[4];
    double pair[2];
    tercel_philox(key, counter, block);
    draw((distribution)kind, precision_of(y->dtype), block, pair);
    for (int64_t k = 0; k < 2 && i + k < n; ++k) tercel_tensor_set_f64(y, i + k, a + scale * pair[k]);
  }
  return TERCEL_OK;
}

static const tercel_attr_spec attrs[] = {
    {"kind", TERCEL_ATTR_STRING, true, 0, NULL, "uniform: of [a, b); normal: of mean a and deviation b"},
    {"a", TERCEL_ATTR_FLOAT, false, 0, NULL, "lower bound, or mean"},
    {"b", TERCEL_ATTR_FLOAT, false, 1, NULL, "upper bound, or standard deviation"},
    {"dtype", TERCEL_ATTR_DTYPE, false, TERCEL_DTYPE_F32, NULL, "of the numbers"},
    {"seed", TERCEL_ATTR_INT, false, 0, NULL, "every run gives the same numbers; none: each run gives new ones"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_random = {
    .name = "random",
    .id = TERCEL_OP_RANDOM,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_IMPURE,
    .about = "random numbers, uniform or normal",
    .attrs = attrs,
    .infer = infer,
    .verify = verify,
    .eval = eval,
};
