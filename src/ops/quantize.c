/* dynamic_quantize: f32 to u8, with scale and zero point from the range of the data. */
#include "ops/ops.h"

enum { X };
enum { Y, SCALE, ZERO };

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  const tercel_type *x = &infer->in[X]->type;
  if (x->dtype != TERCEL_DTYPE_NONE && x->dtype != TERCEL_DTYPE_F32)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "%s '%s': input 0 is %s, want f32", infer->node->op->name,
                       infer->node->name, tercel_dtype_name(x->dtype));
  static const tercel_dtype dtypes[] = {TERCEL_DTYPE_U8, TERCEL_DTYPE_F32, TERCEL_DTYPE_U8};
  for (size_t i = 0; i < infer->num_outputs; ++i) {
    infer->out[i].type.dtype = dtypes[i];
    infer->out[i].type.shape = i == Y ? x->shape : (tercel_shape){.rank = 0};
  }
  return TERCEL_OK;
}

/* To nearest, halves to even, of a number that fits an int32. */
static float round_even(float x) {
  const float low = (float)(int32_t)x - (x < (float)(int32_t)x ? 1.0f : 0.0f), part = x - low;
  const bool up = part > 0.5f || (part == 0.5f && (int32_t)low % 2 != 0);
  return up ? low + 1.0f : low;
}

/* NaN gives 0. */
static float clip(float x) { return x > 255.0f ? 255.0f : x > 0.0f ? x : 0.0f; }

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  (void)err;
  const float *x = eval->in[X]->data;
  const int64_t count = tercel_tensor_num_elements(eval->in[X]);
  float low = 0, high = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (x[i] < low) low = x[i];
    if (x[i] > high) high = x[i];
  }
  const float range = (high - low) / 255.0f, scale = range == 0.0f ? 1.0f : range;
  const float zero = round_even(clip(-low / scale));
  for (int64_t i = 0; eval->out[Y] != NULL && i < count; ++i) {
    const float q = x[i] / scale; /* beyond +-255 only where the range is infinite */
    const float whole = q >= -256.0f && q <= 256.0f ? round_even(q) : q;
    ((uint8_t *)eval->out[Y]->data)[i] = (uint8_t)clip(whole + zero);
  }
  if (eval->out[SCALE] != NULL) *(float *)eval->out[SCALE]->data = scale;
  if (eval->out[ZERO] != NULL) *(uint8_t *)eval->out[ZERO]->data = (uint8_t)zero;
  return TERCEL_OK;
}

const tercel_op tercel_op_dynamic_quantize = {.name = "dynamic_quantize",
                                              .id = TERCEL_OP_DYNAMIC_QUANTIZE,
                                              .min_inputs = 1,
                                              .max_inputs = 1,
                                              .min_outputs = 3,
                                              .max_outputs = 3,
                                              .about = "f32 to u8, by the range of the data",
                                              .infer = infer,
                                              .eval = eval};
