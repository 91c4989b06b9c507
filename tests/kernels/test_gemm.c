/* matmul's kernels against the reference at every level: odd sizes, tails, batches, transposes, vectors, empty operands, epilogues.
 * `--bench` times typical products. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "kernels/check.h"

typedef struct matmul_case {
  int a_rank, b_rank;
  int64_t a[4], b[4];
  bool trans_a, trans_b, bias, constant_b;
  double alpha;
  check_epilogue epilogue;
} matmul_case;

static check_node *make(const matmul_case *c, uint64_t stream) {
  tercel_error err = {0};
  check_node *check = check_node_create(stream);
  check_node_input(check, CHECK_INPUT, TERCEL_DTYPE_F32, c->a_rank, c->a);
  check_node_input(check, c->constant_b ? CHECK_CONSTANT : CHECK_INPUT, TERCEL_DTYPE_F32, c->b_rank, c->b);
  const int64_t n = c->b_rank == 1 ? 1 : c->b[c->b_rank - (c->trans_b ? 2 : 1)];
  const bool extra = check_epilogue_has_extra(c->epilogue);
  if (c->bias || extra) check_node_input(check, c->bias ? CHECK_INPUT : CHECK_ABSENT, TERCEL_DTYPE_F32, 1, &n);
  if (extra) check_node_input(check, CHECK_INPUT, TERCEL_DTYPE_F32, 1, &n);
  check_node_make(check, TERCEL_OP_MATMUL, 1);
  assert_ok(tercel_node_set_int(check->node, "trans_a", c->trans_a, &err), &err);
  assert_ok(tercel_node_set_int(check->node, "trans_b", c->trans_b, &err), &err);
  assert_ok(tercel_node_set_float(check->node, "alpha", c->alpha, &err), &err);
  check_node_set_epilogue(check, c->epilogue);
  return check;
}

/* Sums of k products in [-1, 1) reach sqrt(k), and each addition rounds: a random walk whose far end is k half ULP of 1; and the epilogue's few. */
static double bound(int64_t k) { return 1e-6 + 0x1p-24 * (double)k; }

static void check_case(const matmul_case *c, uint64_t stream, int num_threads) {
  check_node *check = make(c, stream);
  if (tercel_cpu_current() == TERCEL_CPU_BASELINE)
    check_node_bits(check, &tercel_kernel_matmul_f32); /* at all levels */
  const double difference = check_node_difference(check, &tercel_kernel_matmul_f32, num_threads);
  if (!(difference <= bound(c->a[c->trans_a ? c->a_rank - 2 : c->a_rank - 1])))
    fail_msg("stream %llu: difference %g", (unsigned long long)stream, difference);
  check_node_destroy(check);
}

static void draw(tercel_test_random *random, matmul_case *c) {
  static const int64_t sizes[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 47, 48, 49, 64, 97, 130};
  const int64_t last = (int64_t)(sizeof sizes / sizeof *sizes) - 1;
  const int64_t m = sizes[tercel_test_random_int(random, 0, last)], n = sizes[tercel_test_random_int(random, 0, last)];
  int64_t k = sizes[tercel_test_random_int(random, 0, last)];
  if (tercel_test_random_int(random, 0, 9) == 0) k += 500; /* more than one run of k */
  const int64_t batch = tercel_test_random_int(random, 1, 3), heads = tercel_test_random_int(random, 1, 3);
  memset(c, 0, sizeof *c);
  c->a_rank = (int)tercel_test_random_int(random, 2, 4);
  c->b_rank = (int)tercel_test_random_int(random, 2, 4);
  c->trans_a = tercel_test_random_int(random, 0, 3) == 0;
  c->trans_b = tercel_test_random_int(random, 0, 1) == 0;
  c->bias = tercel_test_random_int(random, 0, 1) == 0;
  c->constant_b = tercel_test_random_int(random, 0, 1) == 0;
  c->alpha = tercel_test_random_int(random, 0, 2) == 0 ? 0.125 : 1;
  c->epilogue = (check_epilogue)tercel_test_random_int(random, 0, CHECK_EPILOGUE_COUNT - 1);
  int64_t *const operands[] = {c->a, c->b};
  const int ranks[] = {c->a_rank, c->b_rank};
  for (int i = 0; i < 2; i++) {
    const int rank = ranks[i];
    if (rank == 4) operands[i][0] = tercel_test_random_int(random, 0, 2) == 0 ? 1 : batch;
    if (rank >= 3) operands[i][rank - 3] = tercel_test_random_int(random, 0, 2) == 0 ? 1 : heads;
  }
  c->a[c->a_rank - 2] = c->trans_a ? k : m;
  c->a[c->a_rank - 1] = c->trans_a ? m : k;
  c->b[c->b_rank - 2] = c->trans_b ? n : k;
  c->b[c->b_rank - 1] = c->trans_b ? k : n;
}

static void random_shapes(tercel_cpu_level level, void *arg) {
  (void)arg;
  tercel_test_random random = tercel_test_random_start(100 + (uint64_t)level);
  for (int i = 0; i < 250; i++) {
    matmul_case c;
    draw(&random, &c);
    check_case(&c, 1000 + (uint64_t)i, 1 + i % 3);
  }
}

static void special_shapes(tercel_cpu_level level, void *arg) {
  (void)arg;
  (void)level;
  static const matmul_case cases[] = {
      {.a_rank = 1, .b_rank = 1, .a = {33}, .b = {33}, .alpha = 1},
      {.a_rank = 1, .b_rank = 2, .a = {33}, .b = {33, 50}, .alpha = 1, .bias = true},
      {.a_rank = 3, .b_rank = 1, .a = {3, 70, 33}, .b = {33}, .alpha = 2},
      {.a_rank = 1, .b_rank = 3, .a = {33}, .b = {2, 33, 50}, .alpha = 1, .epilogue = CHECK_EPILOGUE_PROGRAM},
      {.a_rank = 2, .b_rank = 2, .a = {5, 0}, .b = {0, 7}, .alpha = 1, .bias = true}, /* empty sums */
      {.a_rank = 2, .b_rank = 2, .a = {0, 5}, .b = {5, 7}, .alpha = 1},
      {.a_rank = 2, .b_rank = 2, .a = {4, 5}, .b = {5, 0}, .alpha = 1, .constant_b = true},
      {.a_rank = 3, .b_rank = 3, .a = {0, 4, 5}, .b = {1, 5, 6}, .alpha = 1},
      {.a_rank = 2, .b_rank = 2, .a = {20, 1024}, .b = {1024, 150}, .alpha = 1}, /* rows that collide in the cache */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i], 5000 + i, 2);
}

/* Infinity and NaN travel; a clamp keeps NaN. */
static void special_values(tercel_cpu_level level, void *arg) {
  (void)arg;
  (void)level;
  for (int epilogue = CHECK_EPILOGUE_NONE; epilogue <= CHECK_EPILOGUE_CLAMP; epilogue++) {
    const matmul_case c = {.a_rank = 2,
                           .b_rank = 2,
                           .a = {9, 20},
                           .b = {20, 51},
                           .alpha = 1,
                           .constant_b = true,
                           .epilogue = (check_epilogue)epilogue};
    check_node *check = make(&c, 6000);
    float *a = check->tensors[0].data;
    a[0] = INFINITY;
    a[25] = NAN;
    a[70] = 1e-42f;
    assert_true(check_node_difference(check, &tercel_kernel_matmul_f32, 1) <= bound(20));
    check_node_destroy(check);
  }
}

/* f16 and bf16 through the f32 kernel: sums are formed in f32 and rounded once. */
static void narrow_dtypes(tercel_cpu_level level, void *arg) {
  (void)arg;
  (void)level;
  static const tercel_dtype dtypes[] = {TERCEL_DTYPE_F16, TERCEL_DTYPE_BF16};
  static const double bounds[] = {0x1p-11, 0x1p-8};
  const int64_t a[] = {2, 9, 40}, b[] = {40, 51}, n = 51;
  for (int i = 0; i < 4; i++) {
    check_node *check = check_node_create(9000 + (uint64_t)i);
    check_node_input(check, CHECK_INPUT, dtypes[i % 2], 3, a);
    check_node_input(check, i < 2 ? CHECK_CONSTANT : CHECK_INPUT, dtypes[i % 2], 2, b);
    check_node_input(check, CHECK_CONSTANT, dtypes[i % 2], 1, &n);
    check_node_make(check, TERCEL_OP_MATMUL, 1);
    assert_true(check_node_difference(check, &tercel_kernel_matmul_narrow, 1 + i % 2) <= bounds[i % 2]);
    check_node_destroy(check);
  }
}

static void test_narrow(void **state) {
  (void)state;
  check_levels(narrow_dtypes, NULL);
}
static void test_random(void **state) {
  (void)state;
  check_levels(random_shapes, NULL);
}
static void test_special_shapes(void **state) {
  (void)state;
  check_levels(special_shapes, NULL);
}
static void test_special_values(void **state) {
  (void)state;
  check_levels(special_values, NULL);
}

static void bench(tercel_cpu_level level, void *arg) {
  (void)arg;
  static const matmul_case cases[] = {
      {.a_rank = 2, .b_rank = 2, .a = {512, 512}, .b = {512, 512}, .alpha = 1, .constant_b = true},
      {.a_rank = 2, .b_rank = 2, .a = {1024, 1024}, .b = {1024, 1024}, .alpha = 1, .constant_b = true},
      {.a_rank = 2, .b_rank = 2, .a = {197, 384}, .b = {384, 1536}, .alpha = 1, .bias = true, .constant_b = true},
      {.a_rank = 3, .b_rank = 3, .a = {6, 197, 64}, .b = {6, 197, 64}, .alpha = 0.125, .trans_b = true},
      {.a_rank = 3, .b_rank = 3, .a = {6, 197, 197}, .b = {6, 197, 64}, .alpha = 1},
      {.a_rank = 3, .b_rank = 3, .a = {12, 1, 64}, .b = {12, 512, 64}, .alpha = 1, .trans_b = true},
      {.a_rank = 3, .b_rank = 3, .a = {12, 1, 512}, .b = {12, 512, 64}, .alpha = 1},
      {.a_rank = 2, .b_rank = 2, .a = {1, 2048}, .b = {2048, 1000}, .alpha = 1, .constant_b = true},
      {.a_rank = 2, .b_rank = 2, .a = {4, 2048}, .b = {2048, 1000}, .alpha = 1, .constant_b = true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int threads = 1; threads <= 2; threads++) {
      check_node *check = make(&cases[i], 0);
      double gflops;
      const double us = check_node_time_us(check, &tercel_kernel_matmul_f32, threads, &gflops);
      printf("%-9s case %zu  %d threads  %10.1f us  %7.1f GFLOP/s\n", tercel_cpu_level_name(level), i, threads, us,
             gflops);
      check_node_destroy(check);
    }
  }
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--bench") == 0) {
    check_levels(bench, NULL);
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random),
      cmocka_unit_test(test_special_shapes),
      cmocka_unit_test(test_special_values),
      cmocka_unit_test(test_narrow),
  };
  return cmocka_run_group_tests_name("kernels/gemm", tests, NULL, NULL);
}
