/* base/half.h against a truth made here in another way: each format's values come from the formula of its specification in f64,
 * and the code for a number is looked for among all of them. */
#include "support/support.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

typedef struct format {
  const char *name;
  int exponent_bits, mantissa_bits, bias;
  uint32_t largest; /* code of the largest finite value */
  bool fnuz;
  uint32_t (*from)(float value, bool saturate);
  float (*to)(uint32_t bits);
  uint32_t out_of_range; /* what a positive number out of range becomes without saturation */
} format;

#define PAIR(NAME)                                                                                                     \
  static uint32_t NAME##_from(float v, bool s) { return tercel_##NAME##_from_f32(v, s); }                              \
  static float NAME##_to(uint32_t b) { return tercel_##NAME##_to_f32((uint8_t)b); }
PAIR(f8e4m3fn)
PAIR(f8e4m3fnuz)
PAIR(f8e5m2)
PAIR(f8e5m2fnuz)

static uint32_t f16_from(float v, bool s) { return (void)s, tercel_f16_from_f32(v); }
static float f16_to(uint32_t b) { return tercel_f16_to_f32((uint16_t)b); }
static uint32_t bf16_from(float v, bool s) { return (void)s, tercel_bf16_from_f32(v); }
static float bf16_to(uint32_t b) { return tercel_bf16_to_f32((uint16_t)b); }
static uint32_t f6e2m3_from(float v, bool s) { return (void)s, tercel_f6e2m3_from_f32(v); }
static float f6e2m3_to(uint32_t b) { return tercel_f6e2m3_to_f32((uint8_t)b); }
static uint32_t f6e3m2_from(float v, bool s) { return (void)s, tercel_f6e3m2_from_f32(v); }
static float f6e3m2_to(uint32_t b) { return tercel_f6e3m2_to_f32((uint8_t)b); }
static uint32_t f4e2m1_from(float v, bool s) { return (void)s, tercel_f4e2m1_from_f32(v); }
static float f4e2m1_to(uint32_t b) { return tercel_f4e2m1_to_f32((uint8_t)b); }

static const format formats[] = {
    {"f16", 5, 10, 15, 0x7bff, false, f16_from, f16_to, 0x7c00},
    {"bf16", 8, 7, 127, 0x7f7f, false, bf16_from, bf16_to, 0x7f80},
    {"f8e4m3fn", 4, 3, 7, 0x7e, false, f8e4m3fn_from, f8e4m3fn_to, 0x7f},
    {"f8e4m3fnuz", 4, 3, 8, 0x7f, true, f8e4m3fnuz_from, f8e4m3fnuz_to, 0x80},
    {"f8e5m2", 5, 2, 15, 0x7b, false, f8e5m2_from, f8e5m2_to, 0x7c},
    {"f8e5m2fnuz", 5, 2, 16, 0x7f, true, f8e5m2fnuz_from, f8e5m2fnuz_to, 0x80},
    {"f6e2m3", 2, 3, 1, 0x1f, false, f6e2m3_from, f6e2m3_to, 0x1f},
    {"f6e3m2", 3, 2, 3, 0x1f, false, f6e3m2_from, f6e3m2_to, 0x1f},
    {"f4e2m1", 2, 1, 1, 0x7, false, f4e2m1_from, f4e2m1_to, 0x7},
};
enum { NUM_FORMATS = sizeof formats / sizeof *formats };

/* The value of a positive code as its specification defines it; past the largest, what the next code would mean. */
static double value_of(const format *f, uint32_t code) {
  const int field = (int)(code >> f->mantissa_bits);
  const double fraction = ldexp((double)(code & ((1u << f->mantissa_bits) - 1)), -f->mantissa_bits);
  return field ? ldexp(1 + fraction, field - f->bias) : ldexp(fraction, 1 - f->bias);
}

/* The nearest code for a positive number, ties to the even code; largest + 1 when it is out of range. */
static uint32_t nearest(const format *f, double value) {
  uint32_t low = 0,
           high = f->largest + 1; /* value_of(low) <= value, and value_of(high) > value or high is past the end */
  if (value >= value_of(f, high)) return high;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    *(value_of(f, middle) <= value ? &low : &high) = middle;
  }
  const double below = value - value_of(f, low), above = value_of(f, high) - value;
  return below < above || (below == above && low % 2 == 0) ? low : high;
}

static uint32_t truth(const format *f, double value, bool saturate) {
  const uint32_t sign = signbit(value) ? 1u << (f->exponent_bits + f->mantissa_bits) : 0;
  const uint32_t code = nearest(f, fabs(value));
  if (code > f->largest) return saturate ? f->largest | sign : f->out_of_range | sign;
  return code == 0 && f->fnuz ? 0 : code | sign;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void check_one(const format *f, float value) {
  if (isnan(value)) return;
  for (int saturate = 0; saturate < 2; saturate++) {
    if (f->mantissa_bits > 3 && saturate) continue; /* 16 bits never saturate */
    const uint32_t got = f->from(value, saturate), want = truth(f, (double)value, saturate || f->exponent_bits == 2);
    if (got != want) fail_msg("%s of %a, saturate %d: %#x, want %#x", f->name, (double)value, saturate, got, want);
  }
}

/* Every code to f32, and back. */
static void test_every_code(void **state) {
  (void)state;
  for (int i = 0; i < NUM_FORMATS; i++) {
    const format *const f = &formats[i];
    const uint32_t sign = 1u << (f->exponent_bits + f->mantissa_bits);
    for (uint32_t code = 0; code < sign; code++) {
      const float positive = f->to(code), negative = f->to(code | sign);
      if (code > f->largest) {
        assert_true(f->out_of_range == code && f->exponent_bits >= 5 ? isinf(positive) : isnan(positive));
        continue;
      }
      assert_true((double)positive == value_of(f, code));
      assert_int_equal(f->from(positive, false), code);
      if (code == 0 && f->fnuz) {
        assert_true(isnan(negative));
        continue;
      }
      assert_true(negative == -positive && signbit(negative));
      assert_int_equal(f->from(negative, false), code | sign);
    }
  }
}

/* Around every boundary: the middle between neighbours, and an f32 step to either side. */
static void test_ties(void **state) {
  (void)state;
  for (int i = 0; i < NUM_FORMATS; i++) {
    const format *const f = &formats[i];
    for (uint32_t code = 0; code <= f->largest; code++) {
      const float middle = (float)((value_of(f, code) + value_of(f, code + 1)) / 2);
      const float around[] = {middle, nextafterf(middle, 0), nextafterf(middle, INFINITY)};
      for (int k = 0; k < 3; k++) {
        check_one(f, around[k]);
        check_one(f, -around[k]);
      }
    }
  }
}

static void test_random_numbers(void **state) {
  (void)state;
  tercel_test_random random = tercel_test_random_start(1);
  for (int n = 0; n < 200000; n++) {
    const uint64_t bits = tercel_test_random_u64(&random);
    const float any = float_of((uint32_t)bits);
    const float near_range = ldexpf(float_of(0x3f800000 | (bits & 0x7fffff)), (int)(bits >> 32 & 63) - 40);
    for (int i = 0; i < NUM_FORMATS; i++) {
      check_one(&formats[i], any);
      check_one(&formats[i], near_range);
    }
  }
}

static void test_infinity_and_nan(void **state) {
  (void)state;
  for (int i = 0; i < NUM_FORMATS; i++) {
    const format *const f = &formats[i];
    check_one(f, INFINITY);
    check_one(f, -INFINITY);
    if (f->exponent_bits + f->mantissa_bits < 7) continue; /* none in 6 and 4 bits */
    assert_true(isnan(f->to(f->from(NAN, false))));
    assert_true(isnan(f->to(f->from(NAN, true))));
    assert_true(isnan(f->to(f->from(float_of(0xff800001), true))));
  }
  assert_int_equal(tercel_f6e2m3_from_f32(NAN), 0x20);
  assert_int_equal(tercel_f6e3m2_from_f32(NAN), 0x20);
  assert_int_equal(tercel_f4e2m1_from_f32(NAN), 8); /* -0: as ONNX's node case has it */
}

/* A NaN keeps its sign and the upper bits of its payload, and becomes quiet. */
static void test_nan_payloads(void **state) {
  (void)state;
  for (uint32_t payload = 1; payload < 0x400; payload++) {
    const uint32_t quiet = 0x7fc00000 | payload << 13;
    uint32_t back;
    const float value = tercel_f16_to_f32((uint16_t)(0x7c00 | payload));
    memcpy(&back, &value, 4);
    assert_int_equal(back, quiet);
    assert_int_equal(tercel_f16_from_f32(float_of(0xff800000 | payload << 13)), 0xfe00 | payload);
  }
  for (uint32_t payload = 1; payload < 0x80; payload++) {
    assert_int_equal(tercel_bf16_from_f32(float_of(0x7f800000 | payload << 16)), 0x7fc0 | payload);
    assert_int_equal(tercel_bf16_from_f32(float_of(0x7f800000 | payload)), 0x7fc0);
  }
  assert_int_equal(tercel_f16_from_f64((double)NAN) & 0x7fff, 0x7e00);
  assert_int_equal(tercel_bf16_from_f64((double)NAN) & 0x7fff, 0x7fc0);
}

/* From f64 the number is rounded once: just above a tie it goes up, though f32 would have made it the tie. */
static void test_from_f64_rounds_once(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    const format *const f = &formats[i];
    uint16_t (*const from)(double) = i == 0 ? tercel_f16_from_f64 : tercel_bf16_from_f64;
    for (uint32_t code = 0; code <= f->largest; code++) {
      const double middle = (value_of(f, code) + value_of(f, code + 1)) / 2;
      const double around[] = {middle, nextafter(middle, 0), nextafter(middle, INFINITY)};
      for (int k = 0; k < 3; k++) {
        assert_int_equal(from(around[k]), truth(f, around[k], false));
        assert_int_equal(from(-around[k]), truth(f, -around[k], false));
      }
    }
    assert_int_equal(from(5e-324), 0);
    assert_int_equal(from(1e300), f->largest + 1);
    assert_int_equal(from((double)-INFINITY), 0x8000 | (f->largest + 1));
  }
}

static void test_e8m0(void **state) {
  (void)state;
  for (uint32_t code = 0; code < 255; code++) {
    const float value = tercel_f8e8m0_to_f32((uint8_t)code);
    assert_true((double)value == ldexp(1, (int)code - 127));
    for (const char *round = "udn"; *round; round++)
      assert_int_equal(tercel_f8e8m0_from_f32(value, true, *round), code);
    if (code == 254) continue;
    const float above = nextafterf(value, INFINITY), middle = value * 1.5f;
    assert_int_equal(tercel_f8e8m0_from_f32(above, true, 'u'), code + 1);
    assert_int_equal(tercel_f8e8m0_from_f32(above, true, 'd'), code);
    assert_int_equal(tercel_f8e8m0_from_f32(above, true, 'n'), code);
    assert_int_equal(tercel_f8e8m0_from_f32(middle, true, 'n'), code + 1);
    assert_int_equal(tercel_f8e8m0_from_f32(nextafterf(middle, 0), true, 'n'), code);
  }
  assert_true(isnan(tercel_f8e8m0_to_f32(255)));
  assert_int_equal(tercel_f8e8m0_from_f32(NAN, true, 'u'), 255);
  assert_int_equal(tercel_f8e8m0_from_f32(INFINITY, true, 'u'), 254);
  assert_int_equal(tercel_f8e8m0_from_f32(INFINITY, false, 'n'), 255);
  assert_int_equal(tercel_f8e8m0_from_f32(0x1.8p127f, true, 'u'), 254);
  assert_int_equal(tercel_f8e8m0_from_f32(0x1.8p127f, false, 'u'), 255);
  assert_int_equal(tercel_f8e8m0_from_f32(0x1.8p127f, false, 'd'), 254);
  assert_int_equal(tercel_f8e8m0_from_f32(0, true, 'u'), 0);
  assert_int_equal(tercel_f8e8m0_from_f32(0, false, 'n'), 255);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_code),     cmocka_unit_test(test_ties),
      cmocka_unit_test(test_random_numbers), cmocka_unit_test(test_infinity_and_nan),
      cmocka_unit_test(test_nan_payloads),   cmocka_unit_test(test_from_f64_rounds_once),
      cmocka_unit_test(test_e8m0),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
