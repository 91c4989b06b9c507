/* attention, rotary, tensor_scatter, linear_attention. */
#include <stdio.h>

#include "ops/check.h"

#define QKV                                                                                                            \
  "%q: f32[1, 2, 3, 4] = constant ramp()\n%k: f32[1, 2, 5, 4] = constant ramp()\n%v: f32[1, 2, 5, 2] = constant "      \
  "ramp()\n"

static void test_attention_types(void **state) {
  (void)state;
  check_type("%q: f32[n, 8, s, 64], %k: f32[n, 2, t, 64], %v: f32[n, 2, t, 32]",
             "%y = attention(%q, %k, %v)\nreturn %y", "f32[n, 8, s, 32]");
  check_type("%q: f16[n, s, 512], %k: f16[n, 2, t, 64], %v: f16[n, t, 64]",
             "%y, _ = attention(%q, %k, %v) {heads = 8, kv_heads = 2}\nreturn %y", "f16[n, s, 256]");
  check_type("%q: f32[n, 8, s, 64], %k: f32[n, 2, t, 64], %v: f32[n, 2, t, 64]",
             "_, %y = attention(%q, %k, %v)\nreturn %y", "f32[n, 8, s, t]");
  check_rejects("%q: f32[1, 3, 5, 4], %k: f32[1, 2, 5, 4], %v: f32[1, 2, 5, 4]",
                "%y = attention(%q, %k, %v)\nreturn %y", TERCEL_INVALID_MODEL, "3 query heads over 2 key heads");
  check_rejects("%q: f32[1, 2, 5, 4], %k: f32[1, 2, 5, 3], %v: f32[1, 2, 5, 4]",
                "%y = attention(%q, %k, %v)\nreturn %y", TERCEL_INVALID_MODEL, "head size of q and k: 4 and 3");
  check_rejects("%q: f32[1, 5, 4], %k: f32[1, 5, 4], %v: f32[1, 5, 4]", "%y = attention(%q, %k, %v)\nreturn %y",
                TERCEL_INVALID_MODEL, "q has rank 3, which needs its number of heads");
  check_rejects("%q: f32[1, 2, 5, 4], %k: f32[1, 2, 5, 4], %v: f32[1, 2, 5, 4], %m: bool[5, 6]",
                "%y = attention(%q, %k, %v, %m)\nreturn %y", TERCEL_INVALID_MODEL, "mask: dim 1 is 6, want 5");
  check_rejects("%q: f32[2, 2, 5, 4], %k: f32[2, 2, 5, 4], %v: f32[2, 2, 5, 4], %o: i64[3]",
                "%y = attention(%q, %k, %v, _, %o)\nreturn %y", TERCEL_INVALID_MODEL, "offset: want one number");
  check_rejects("%q: f32[1, 2, 5, 4], %k: f32[1, 2, 5, 4], %v: f32[1, 2, 5, 4]",
                "%y = attention(%q, %k, %v) {left = -2}\nreturn %y", TERCEL_INVALID_MODEL, "left is -2");
}

/* The same as its parts. */
static void test_attention_values(void **state) {
  (void)state;
  check_values(QKV
               "%y, %s = attention(%q, %k, %v) {softcap = 2, scores = \"softmax\"}\n"
               "%a = matmul(%q, %k) {trans_b = 1, alpha = 0.25}\n%two: f32[] = constant data(2)\n"
               "%b = pointwise(%a) {program = {1: tanh(%0)}}\n%c = pointwise(%b, %two) {program = {2: mul(%0, %1)}}\n"
               "%p = softmax(%c)\n%w = matmul(%p, %v)\nreturn %y, %w, %s, %p",
               1e-6);
}

/* A sink is the same as a key with that score whose value is 0. */
static void test_attention_sinks(void **state) {
  (void)state;
  check_values(QKV "%s: f32[2] = constant data(0.5, -2)\n%y = attention(%q, %k, %v, _, _, _, %s)\n"
                   "%no_key: f32[1, 2, 1, 4] = constant zeros()\n%no_value: f32[1, 2, 1, 2] = constant zeros()\n"
                   "%l = concat(%k, %no_key) {axis = 2}\n%u = concat(%v, %no_value) {axis = 2}\n"
                   "%m: f32[2, 1, 6] = constant data(0, 0, 0, 0, 0, 0.5, 0, 0, 0, 0, 0, -2)\n"
                   "%w = attention(%q, %l, %u, %m)\nreturn %y, %w",
               1e-6);
  check_rejects("%q: f32[1, 2, 5, 4], %k: f32[1, 2, 5, 4], %v: f32[1, 2, 5, 4], %s: f32[3]",
                "%y = attention(%q, %k, %v, _, _, _, %s)\nreturn %y", TERCEL_INVALID_MODEL, "sinks and heads: 3 and 2");
}

/* What is hidden is as if it weren't there. */
static void test_attention_hidden(void **state) {
  (void)state;
  const char *const hide_three[] = {
      "%y = attention(%q, %k, %v, %m)",
      "%y = attention(%q, %k, %v, %short)",
      "%y = attention(%q, %k, %v, _, _, %two)",
      "%y = attention(%q, %k, %v, _, %one, _) {right = 0}",
      "%y = attention(%q, %k, %v, _, %one, _) {causal = 1}",
      "%y = attention(%q, %k, %v, %float, _, _)",
  };
  for (size_t i = 0; i < sizeof hide_three / sizeof *hide_three; i++) {
    char body[1024];
    snprintf(
        body, sizeof body,
        "%%q: f32[1, 1, 1, 4] = constant ramp()\n%%k: f32[1, 1, 5, 4] = constant ramp()\n"
        "%%v: f32[1, 1, 5, 2] = constant ramp()\n%%m: bool[1, 5] = constant data(1, 1, 0, 0, 0)\n"
        "%%short: bool[2] = constant data(1, 1)\n%%one: i64[] = constant data(1)\n%%two: i64[1] = constant data(2)\n"
        "%%float: f32[1, 1, 1, 3] = constant data(0, 0, -inf)\n"
        "%%zero: i64[1] = constant data(0)\n%%axis: i64[1] = constant data(2)\n"
        "%%k2 = slice(%%k, %%zero, %%two, %%axis)\n%%v2 = slice(%%v, %%zero, %%two, %%axis)\n%s\n"
        "%%w = attention(%%q, %%k2, %%v2)\nreturn %%y, %%w",
        hide_three[i]);
    check_values(body, 1e-7);
  }
  /* A query that sees nothing gives 0, though its scores are not numbers. */
  check_values("%q: f32[1, 1, 2, 1] = constant data(inf, 1)\n%k: f32[1, 1, 2, 1] = constant data(0, 1)\n"
               "%v: f32[1, 1, 2, 1] = constant data(3, 5)\n%m: bool[2, 2] = constant data(0, 0, 0, 1)\n"
               "%y = attention(%q, %k, %v, %m)\n%w: f32[1, 1, 2, 1] = constant data(0, 5)\nreturn %y, %w",
               0);
}

/* Packed operands and shared key heads. */
static void test_attention_heads(void **state) {
  (void)state;
  check_values(
      "%q: f32[2, 3, 8] = constant ramp()\n%k: f32[2, 5, 4] = constant ramp()\n%v: f32[2, 5, 4] = constant ramp()\n"
      "%s: i64[4] = constant data(0, 0, -1, 2)\n%q3 = reshape(%q, %s)\n%q4 = transpose(%q3) {perm = [0, 2, 1, 3]}\n"
      "%k3 = reshape(%k, %s)\n%k4 = transpose(%k3) {perm = [0, 2, 1, 3]}\n"
      "%v3 = reshape(%v, %s)\n%v4 = transpose(%v3) {perm = [0, 2, 1, 3]}\n"
      "%i: i64[4] = constant data(0, 0, 1, 1)\n%kr = gather(%k4, %i) {axis = 1}\n%vr = gather(%v4, %i) {axis = 1}\n"
      "%y = attention(%q, %k, %v) {heads = 4, kv_heads = 2}\n%w4 = attention(%q4, %kr, %vr)\n"
      "%w3 = transpose(%w4) {perm = [0, 2, 1, 3]}\n%s3: i64[3] = constant data(0, 0, -1)\n%w = reshape(%w3, %s3)\n"
      "return %y, %w",
      0);
}

static void test_rotary(void **state) {
  (void)state;
  check_type("%x: f16[n, s, 64], %c: f16[p, 8], %s: f16[p, 8], %i: i64[n, s]",
             "%y = rotary(%x, %c, %s, %i) {heads = 4}\nreturn %y", "f16[n, s, 64]");
  check_rejects("%x: f32[1, 2, 3, 8], %c: f32[9, 3], %s: f32[9, 4], %i: i64[1, 3]",
                "%y = rotary(%x, %c, %s, %i)\nreturn %y", TERCEL_INVALID_MODEL, "input 1 has rows of 3, want 4");
  check_rejects("%x: f32[1, 3, 8], %c: f32[1, 3, 4], %s: f32[1, 3, 4]", "%y = rotary(%x, %c, %s)\nreturn %y",
                TERCEL_INVALID_MODEL, "needs its number of heads");
  /* A quarter turn takes (a, b) to (-b, a); the last two elements are left alone. */
  check_values("%x: f32[1, 1, 1, 6] = constant data(1, 2, 3, 4, 5, 6)\n%c: f32[2, 2] = constant data(1, 1, 0, 0)\n"
               "%s: f32[2, 2] = constant data(0, 0, 1, 1)\n%i: i64[1, 1] = constant data(1)\n"
               "%a = rotary(%x, %c, %s, %i) {dims = 4}\n%wa: f32[1, 1, 1, 6] = constant data(-3, -4, 1, 2, 5, 6)\n"
               "%b = rotary(%x, %c, %s, %i) {dims = 4, interleaved = 1}\n"
               "%wb: f32[1, 1, 1, 6] = constant data(-2, 1, -4, 3, 5, 6)\nreturn %a, %wa, %b, %wb",
               0);
  check_eval_fails(
      "%x: f32[1, 1, 1, 2] = constant ramp()\n%c: f32[2, 1] = constant ramp()\n%s: f32[2, 1] = constant ramp()\n"
      "%i: i64[1, 1] = constant data(2)\n%y = rotary(%x, %c, %s, %i)\nreturn %y",
      TERCEL_INVALID_ARGUMENT, "index 2 is out of range");
}

static void test_tensor_scatter(void **state) {
  (void)state;
  check_type("%c: f16[n, 2, t, 8], %r: f16[n, 2, s, 8], %i: i64[n]", "%y = tensor_scatter(%c, %r, %i)\nreturn %y",
             "f16[n, 2, t, 8]");
  check_rejects("%c: f32[2, 3, 8], %r: f32[2, 4, 8]", "%y = tensor_scatter(%c, %r)\nreturn %y", TERCEL_INVALID_MODEL,
                "dim 1 of the rows is 4, of the cache 3");
  check_rejects("%c: f32[2, 3], %r: f32[2, 3]", "%y = tensor_scatter(%c, %r)\nreturn %y", TERCEL_INVALID_MODEL,
                "axis 0 is the batch");
  check_values("%c: i32[2, 3, 1] = constant data(1, 2, 3, 4, 5, 6)\n%r: i32[2, 2, 1] = constant data(7, 8, 9, 10)\n"
               "%i: i64[2] = constant data(1, 0)\n%a = tensor_scatter(%c, %r, %i)\n"
               "%wa: i32[2, 3, 1] = constant data(1, 7, 8, 9, 10, 6)\n%j: i64[2] = constant data(5, -1)\n"
               "%b = tensor_scatter(%c, %r, %j) {circular = 1}\n%wb: i32[2, 3, 1] = constant data(8, 2, 7, 10, 5, 9)\n"
               "return %a, %wa, %b, %wb",
               0);
  check_eval_fails(
      "%c: i32[1, 3, 1] = constant zeros()\n%r: i32[1, 2, 1] = constant zeros()\n%i: i64[1] = constant data(2)\n"
      "%y = tensor_scatter(%c, %r, %i)\nreturn %y",
      TERCEL_INVALID_ARGUMENT, "row 1 from 2 on is outside a cache of 3 rows");
}

static void test_linear_attention(void **state) {
  (void)state;
  check_type("%q: f16[n, s, 64], %k: f16[n, s, 32], %v: f16[n, s, 16]",
             "%y, _ = linear_attention(%q, %k, %v) {heads = 4, kv_heads = 2}\nreturn %y", "f16[n, s, 32]");
  check_type("%q: f16[n, s, 64], %k: f16[n, s, 32], %v: f16[n, s, 16], %z: f32[n, 2, 16, 8]",
             "_, %y = linear_attention(%q, %k, %v, %z) {heads = 4, kv_heads = 2}\nreturn %y", "f32[n, 2, 16, 8]");
  check_rejects("%q: f32[1, 2, 6], %k: f32[1, 2, 6], %v: f32[1, 2, 6]",
                "%y = linear_attention(%q, %k, %v) {heads = 4, kv_heads = 2}\nreturn %y", TERCEL_INVALID_MODEL,
                "q: rows of 6 do not divide into 4 heads");
  /* Two tokens of one number: S = 2 * 5; then S = S / 2, v = 0.5 (7 - 3 S), S += 3 v. */
  check_values("%q: f32[1, 2, 1] = constant data(1, 2)\n%k: f32[1, 2, 1] = constant data(2, 3)\n"
               "%v: f32[1, 2, 1] = constant data(10, 7)\n%d: f32[1, 2, 1] = constant data(0, -0.69314718)\n"
               "%b: f32[1, 2, 1] = constant data(0.5, 0.5)\n"
               "%y, %s = linear_attention(%q, %k, %v, _, %d, %b) {heads = 1, kv_heads = 1}\n"
               "%wy: f32[1, 2, 1] = constant data(10, -14)\n%ws: f32[1, 1, 1, 1] = constant data(-7)\n"
               "return %y, %wy, %s, %ws",
               1e-6);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_attention_types), cmocka_unit_test(test_attention_values),
                                     cmocka_unit_test(test_attention_sinks), cmocka_unit_test(test_attention_hidden),
                                     cmocka_unit_test(test_attention_heads), cmocka_unit_test(test_rotary),
                                     cmocka_unit_test(test_tensor_scatter),  cmocka_unit_test(test_linear_attention)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
