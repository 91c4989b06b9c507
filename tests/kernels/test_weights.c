/* matmul and gather of weights as files keep them, f16, bf16 and every block-quantized type, against the reference at every level. */
#include <math.h>

#include "backends/cpu/cpu.h"
#include "ir/blocks.h"
#include "kernels/check.h"

/* Random blocks without infinite or missing scales. */
static void fill_blocks(check_node *check, tercel_tensor *t) {
  const tercel_block_format format = tercel_dtype_block_format(t->dtype);
  float numbers[256];
  for (size_t at = 0; at < t->bytes; at += (size_t)format.bytes) {
    uint8_t *const block = (uint8_t *)t->data + at;
    bool finite = false;
    while (!finite) {
      for (int i = 0; i < format.bytes; i++) block[i] = (uint8_t)tercel_test_random_int(&check->random, 0, 255);
      tercel_blocks_decode(t->dtype, block, 1, numbers);
      finite = true;
      for (int e = 0; e < format.elements; e++) finite &= fabsf(numbers[e]) < 1e6f;
    }
  }
}

typedef struct product {
  tercel_dtype dtype;
  int64_t m, n, k;
  bool bias;
  check_epilogue epilogue;
} product;

static void check_product(const product *p, uint64_t stream, int num_threads) {
  tercel_error err = {0};
  check_node *const check = check_node_create(stream);
  check_node_input(check, CHECK_INPUT, TERCEL_DTYPE_F32, 2, (const int64_t[]){p->m, p->k});
  tercel_tensor *const b = check_node_input(check, CHECK_CONSTANT, p->dtype, 2, (const int64_t[]){p->n, p->k});
  if (tercel_dtype_is_block(p->dtype)) fill_blocks(check, b);
  const bool extra = check_epilogue_has_extra(p->epilogue);
  if (p->bias || extra) check_node_input(check, p->bias ? CHECK_INPUT : CHECK_ABSENT, TERCEL_DTYPE_F32, 1, &p->n);
  if (extra) check_node_input(check, CHECK_INPUT, TERCEL_DTYPE_F32, 1, &p->n);
  check_node_make(check, TERCEL_OP_MATMUL, 1);
  assert_ok(tercel_node_set_int(check->node, "trans_b", 1, &err), &err);
  check_node_set_epilogue(check, p->epilogue);
  const double difference = check_node_difference(check, &tercel_kernel_matmul_blocks, num_threads);
  if (!(difference <= 1e-5)) fail_msg("%s: difference %g", tercel_dtype_name(p->dtype), difference);
  check_node_destroy(check);
}

static void check_products(tercel_cpu_level level, void *arg) {
  static const int64_t rows[] = {0, 1, 3, 7, 40}, columns[] = {1, 5, 24, 49};
  (void)level, (void)arg;
  uint64_t stream = 1;
  for (int i = TERCEL_DTYPE_NONE; i < TERCEL_DTYPE_COUNT; i++) {
    const tercel_dtype dtype = (tercel_dtype)i;
    if (!tercel_dtype_is_block(dtype) && dtype != TERCEL_DTYPE_F16 && dtype != TERCEL_DTYPE_BF16) continue;
    for (int j = 0; j < 5; j++, stream++) {
      const int64_t block = tercel_dtype_block(dtype, NULL), k = block == 1 ? 37 + 256 * (j % 2) : block * (1 + j % 3);
      const product p = {dtype, rows[j],    columns[(i + j) % 4],
                         k,     j % 2 == 0, (check_epilogue)(j % CHECK_EPILOGUE_COUNT)};
      check_product(&p, stream, 1 + j % 2);
    }
  }
}

static void test_products(void **state) {
  (void)state;
  check_levels(check_products, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_products)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
