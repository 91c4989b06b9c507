/* gather, gather_elements, gather_nd, scatter_elements, scatter_nd, topk, nonzero, one_hot, trilu. */
#include "ops/check.h"

static void test_gather(void **state) {
  (void)state;
  check_type("%x: f32[v, d], %i: i64[b, s]", "%y = gather(%x, %i)\nreturn %y", "f32[b, s, d]");
  check_type("%x: f32[3, d], %i: i32[]", "%y = gather(%x, %i) {axis = -2}\nreturn %y", "f32[d]");
  check_contents("%x: f32[a, b, 3]",
                 "%i: i64[2] = constant data(-1, 0)\n%s = shape(%x)\n%y = gather(%s, %i)\nreturn %y", "[3, a]");
  check_rejects("%x: f32[3], %i: f32[2]", "%y = gather(%x, %i)\nreturn %y", TERCEL_INVALID_MODEL,
                "input 1 is f32, want i32 or i64");
  check_rejects("%x: f32[3], %i: i64[2]", "%y = gather(%x, %i) {axis = 1}\nreturn %y", TERCEL_INVALID_MODEL, "axis 1");
  check_values("%x: f32[3, 2] = constant ramp()\n%i: i64[2] = constant data(-1, 0)\n%y = gather(%x, %i)\n"
               "%w: f32[2, 2] = constant data(-0.25, -0.125, -0.75, -0.625)\nreturn %y, %w",
               0);
  check_values(
      "%x: i4[2, 3] = constant data(1, 2, 3, 4, 5, 6)\n%i: i32[] = constant data(1)\n%y = gather(%x, %i) {axis = 1}\n"
      "%w: i4[2] = constant data(2, 5)\nreturn %y, %w",
      0);
  check_eval_fails("%x: f32[3, 2] = constant ramp()\n%i: i64[2] = constant data(0, 3)\n%y = gather(%x, %i)\nreturn %y",
                   TERCEL_INVALID_ARGUMENT, "index 3 is out of range: axis 0 has size 3");
}

static void test_gather_elements(void **state) {
  (void)state;
  check_type("%x: f32[3, n], %i: i64[2, m]", "%y = gather_elements(%x, %i)\nreturn %y", "f32[2, m]");
  check_rejects("%x: f32[3, 2], %i: i64[2, 3]", "%y = gather_elements(%x, %i)\nreturn %y", TERCEL_INVALID_MODEL,
                "input 1 has size 3 along axis 1, input 0 only 2");
  check_values("%x: i32[2, 2] = constant data(1, 2, 3, 4)\n%i: i64[2, 2] = constant data(0, 0, -1, 0)\n"
               "%y = gather_elements(%x, %i) {axis = 1}\n%w: i32[2, 2] = constant data(1, 1, 4, 3)\nreturn %y, %w",
               0);
  check_eval_fails(
      "%x: i32[2] = constant data(1, 2)\n%i: i64[1] = constant data(-3)\n%y = gather_elements(%x, %i)\nreturn %y",
      TERCEL_INVALID_ARGUMENT, "index -3");
}

static void test_gather_nd(void **state) {
  (void)state;
  check_type("%x: f32[b, 3, d], %i: i64[b, s, 1]", "%y = gather_nd(%x, %i) {batch_dims = 1}\nreturn %y",
             "f32[b, s, d]");
  check_rejects("%x: f32[3], %i: i64[2, 2]", "%y = gather_nd(%x, %i)\nreturn %y", TERCEL_INVALID_MODEL, "tuples of 2");
  check_rejects("%x: f32[2, 3], %i: i64[3, 1]", "%y = gather_nd(%x, %i) {batch_dims = 1}\nreturn %y",
                TERCEL_INVALID_MODEL, "batch dim 0 is 2 in the data, 3 in the indices");
  check_values(
      "%x: i32[2, 2] = constant data(0, 1, 2, 3)\n%i: i64[2, 2] = constant data(0, 0, 1, -1)\n%y = gather_nd(%x, %i)\n"
      "%w: i32[2] = constant data(0, 3)\nreturn %y, %w",
      0);
  check_values("%x: i32[2, 2, 2] = constant data(0, 1, 2, 3, 4, 5, 6, 7)\n%i: i64[2, 1] = constant data(1, 0)\n"
               "%y = gather_nd(%x, %i) {batch_dims = 1}\n%w: i32[2, 2] = constant data(2, 3, 4, 5)\nreturn %y, %w",
               0);
  check_eval_fails("%x: i32[2, 2] = constant data(0, 1, 2, 3)\n%i: i64[1, 2] = constant data(0, 2)\n%y = gather_nd(%x, "
                   "%i)\nreturn %y",
                   TERCEL_INVALID_ARGUMENT, "index 2 is out of range: axis 1 has size 2");
}

static void test_scatter(void **state) {
  (void)state;
  check_type("%x: f32[n, 3], %i: i64[1, 2], %u: f32[1, 2]", "%y = scatter_elements(%x, %i, %u)\nreturn %y",
             "f32[n, 3]");
  check_rejects("%x: f32[n, 3], %i: i64[1, 2], %u: f32[2, 2]", "%y = scatter_elements(%x, %i, %u)\nreturn %y",
                TERCEL_INVALID_MODEL, "different shapes");
  check_rejects("%x: f32[4, 3], %i: i64[2, 1], %u: f32[2, 4]", "%y = scatter_nd(%x, %i, %u)\nreturn %y",
                TERCEL_INVALID_MODEL, "updates' shape");
  check_rejects("%x: string[4], %i: i64[1], %u: string[1]",
                "%y = scatter_elements(%x, %i, %u) {reduction = \"add\"}\nreturn %y", TERCEL_UNSUPPORTED,
                "over string");
  check_values(
      "%x: i32[2, 3] = constant zeros()\n%i: i64[2, 2] = constant data(0, -1, 1, 1)\n%u: i32[2, 2] = constant data(1, "
      "2, 3, 4)\n"
      "%y = scatter_elements(%x, %i, %u) {axis = 1}\n%w: i32[2, 3] = constant data(1, 0, 2, 0, 4, 0)\nreturn %y, %w",
      0);
  check_values("%x: i8[3] = constant data(1, 2, 3)\n%i: i64[3] = constant data(0, 0, 2)\n%u: i8[3] = constant "
               "data(100, 100, 2)\n"
               "%a = scatter_elements(%x, %i, %u) {reduction = \"add\"}\n%wa: i8[3] = constant data(-55, 2, 5)\n"
               "%b = scatter_elements(%x, %i, %u) {reduction = \"max\"}\n%wb: i8[3] = constant data(100, 2, 3)\n"
               "%c = scatter_elements(%x, %i, %u) {reduction = \"min\"}\n%wc: i8[3] = constant data(1, 2, 2)\n"
               "%d = scatter_elements(%x, %i, %u) {reduction = \"mul\"}\n%wd: i8[3] = constant data(16, 2, 6)\n"
               "return %a, %wa, %b, %wb, %c, %wc, %d, %wd",
               0);
  check_values(
      "%x: f32[2] = constant data(1, nan)\n%i: i64[2] = constant data(0, 1)\n%u: f32[2] = constant data(nan, 1)\n"
      "%y = scatter_elements(%x, %i, %u) {reduction = \"max\"}\n%w: f32[2] = constant data(nan, nan)\nreturn %y, %w",
      0);
  check_values("%x: string[2, 2] = constant data(\"a\", \"b\", \"c\", \"d\")\n%i: i64[1, 1] = constant data(1)\n"
               "%u: string[1, 2] = constant data(\"x\", \"y\")\n%y = scatter_nd(%x, %i, %u)\n"
               "%w: string[2, 2] = constant data(\"a\", \"b\", \"x\", \"y\")\nreturn %y, %w",
               0);
  check_eval_fails("%x: f32[2] = constant zeros()\n%i: i64[1, 1] = constant data(2)\n%u: f32[1] = constant zeros()\n"
                   "%y = scatter_nd(%x, %i, %u)\nreturn %y",
                   TERCEL_INVALID_ARGUMENT, "index 2 is out of range: axis 0 has size 2");
}

static void test_topk(void **state) {
  (void)state;
  check_type("%x: f32[n, 8]", "%k: i64[1] = constant data(3)\n_, %y = topk(%x, %k)\nreturn %y", "i64[n, 3]");
  check_type("%x: f32[n, 8], %k: i64[1]", "%y, _ = topk(%x, %k)\nreturn %y", "f32[n, ?1]");
  check_rejects("%x: f32[n, 8]", "%k: i64[1] = constant data(9)\n%y, _ = topk(%x, %k)\nreturn %y",
                TERCEL_INVALID_ARGUMENT, "k is 9, but the axis has size 8");
  check_values("%x: f32[5] = constant data(1, nan, 3, 3, -inf)\n%k: i64[1] = constant data(3)\n%v, %i = topk(%x, %k)\n"
               "%wv: f32[3] = constant data(nan, 3, 3)\n%wi: i64[3] = constant data(1, 2, 3)\nreturn %v, %wv, %i, %wi",
               0);
  check_values("%x: u64[2, 2] = constant data(18446744073709551615, 1, 0, 2)\n%k: i64[1] = constant data(1)\n"
               "%v, %i = topk(%x, %k) {axis = 0, largest = 0}\n%wv: u64[1, 2] = constant data(0, 1)\n"
               "%wi: i64[1, 2] = constant data(1, 0)\nreturn %v, %wv, %i, %wi",
               0);
}

static void test_nonzero(void **state) {
  (void)state;
  check_type("%x: f32[n, 8]", "%y = nonzero(%x)\nreturn %y", "i64[2, ?2]");
  check_values("%x: bool[2, 2] = constant data(1, 0, 1, 1)\n%y = nonzero(%x)\n%w: i64[2, 3] = constant data(0, 1, 1, "
               "0, 0, 1)\nreturn %y, %w",
               0);
  check_values(
      "%x: f32[3] = constant data(-0, nan, 0)\n%y = nonzero(%x)\n%w: i64[1, 1] = constant data(1)\nreturn %y, %w", 0);
  check_values(
      "%x: string[2] = constant data(\"\", \"a\")\n%y = nonzero(%x)\n%w: i64[1, 1] = constant data(1)\nreturn %y, %w",
      0);
}

static void test_one_hot(void **state) {
  (void)state;
  check_type("%x: i64[n], %v: f32[2]", "%d: i64[] = constant data(5)\n%y = one_hot(%x, %d, %v)\nreturn %y",
             "f32[n, 5]");
  check_type("%x: i64[n], %v: f32[2]", "%d: f32[1] = constant data(5)\n%y = one_hot(%x, %d, %v) {axis = 0}\nreturn %y",
             "f32[5, n]");
  check_rejects("%x: i64[n], %v: f32[2]", "%d: i64[] = constant data(-5)\n%y = one_hot(%x, %d, %v)\nreturn %y",
                TERCEL_INVALID_ARGUMENT, "depth is -5");
  check_rejects("%x: i64[4], %v: f32[2]",
                "%d: i64[] = constant data(4611686018427387904)\n%y = one_hot(%x, %d, %v)\nreturn %y",
                TERCEL_OUT_OF_MEMORY, "too large to address");
  check_values("%x: i64[3] = constant data(1, -1, 7)\n%d: i64[] = constant data(2)\n%v: i32[2] = constant data(5, 6)\n"
               "%y = one_hot(%x, %d, %v) {axis = 0}\n%w: i32[2, 3] = constant data(5, 5, 5, 6, 6, 5)\nreturn %y, %w",
               0);
}

static void test_trilu(void **state) {
  (void)state;
  check_rejects("%x: f32[n]", "%y = trilu(%x)\nreturn %y", TERCEL_INVALID_MODEL, "rank 1");
  check_values("%x: i32[2, 3] = constant data(1, 2, 3, 4, 5, 6)\n%k: i64[] = constant data(1)\n%a = trilu(%x)\n"
               "%wa: i32[2, 3] = constant data(1, 2, 3, 0, 5, 6)\n%b = trilu(%x, %k)\n%wb: i32[2, 3] = constant "
               "data(0, 2, 3, 0, 0, 6)\n"
               "%c = trilu(%x, %k) {upper = 0}\n%wc: i32[2, 3] = constant data(1, 2, 0, 4, 5, 6)\nreturn %a, %wa, %b, "
               "%wb, %c, %wc",
               0);
  check_values(
      "%x: i32[1, 2] = constant data(1, 2)\n%k: i64[] = constant data(9223372036854775807)\n%y = trilu(%x, %k)\n"
      "%w: i32[1, 2] = constant zeros()\nreturn %y, %w",
      0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_gather),    cmocka_unit_test(test_gather_elements),
                                     cmocka_unit_test(test_gather_nd), cmocka_unit_test(test_scatter),
                                     cmocka_unit_test(test_topk),      cmocka_unit_test(test_nonzero),
                                     cmocka_unit_test(test_one_hot),   cmocka_unit_test(test_trilu)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
