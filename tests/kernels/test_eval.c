/* Nodes evaluated outside of a plan (tercel_cpu_eval_node): as their references say, whether a kernel is taken or not. */
#include <string.h>

#include "kernels/check.h"

static void check_eval(check_node *check) {
  tercel_tensor got = {0}, want = {0};
  tercel_storage *got_storage = NULL, *want_storage = NULL;
  tercel_error err = {0};
  assert_ok(tercel_cpu_eval_node(check->node, check->in, &got, &got_storage, &err), &err);
  assert_ok(tercel_eval_node(check->node, check->in, &want, &want_storage, &err), &err);
  assert_int_equal(got.dtype, want.dtype);
  assert_true(tercel_tensor_same_shape(&got, &want));
  assert_memory_equal(got.data, want.data, want.bytes);
  tercel_storage_release(got_storage);
  tercel_storage_release(want_storage);
  check_node_destroy(check);
}

/* 8 bits made f32, in a tensor of so many rows. */
static check_node *make_cast(int64_t rows) {
  check_node *const check = check_node_create(1);
  check_node_input(check, CHECK_CONSTANT, TERCEL_DTYPE_I8, 2, (int64_t[]){rows, 300});
  check_node_make(check, TERCEL_OP_POINTWISE, 1);
  tercel_instr cast = {.fn = TERCEL_FN_CAST, .dtype = TERCEL_DTYPE_F32, .immediates = {{.i = 1}, {.i = 0}}};
  const tercel_program program = {.num_inputs = 1, .num_instrs = 1, .instrs = &cast};
  tercel_error err = {0};
  assert_ok(tercel_node_set_program(check->node, "program", &program, &err), &err);
  assert_ok(tercel_infer_node(check->node, &err), &err);
  return check;
}

static void test_kernel(void **state) {
  (void)state;
  check_eval(make_cast(200));
}

static void test_few(void **state) {
  (void)state;
  check_eval(make_cast(3));
}

static void test_product(void **state) {
  (void)state;
  check_node *const check = check_node_create(2);
  check_node_input(check, CHECK_CONSTANT, TERCEL_DTYPE_U8, 2, (int64_t[]){130, 70});
  check_node_input(check, CHECK_CONSTANT, TERCEL_DTYPE_I8, 2, (int64_t[]){70, 140});
  check_node_make(check, TERCEL_OP_MATMUL_INTEGER, 1);
  tercel_error err = {0};
  assert_ok(tercel_infer_node(check->node, &err), &err);
  check_eval(check);
}

/* An index out of range is an error of the kernel, after which nothing is left behind. */
static void test_failure(void **state) {
  (void)state;
  check_node *const check = check_node_create(3);
  check_node_input(check, CHECK_CONSTANT, TERCEL_DTYPE_F32, 2, (int64_t[]){4, 5000});
  tercel_tensor *const indices = check_node_input(check, CHECK_CONSTANT, TERCEL_DTYPE_I64, 1, (int64_t[]){8});
  for (int i = 0; i < 8; ++i) ((int64_t *)indices->data)[i] = i;
  check_node_make(check, TERCEL_OP_GATHER, 1);
  tercel_error err = {0};
  assert_ok(tercel_infer_node(check->node, &err), &err);
  tercel_tensor got = {0};
  tercel_storage *storage = NULL;
  assert_int_not_equal(tercel_cpu_eval_node(check->node, check->in, &got, &storage, &err), TERCEL_OK);
  assert_null(storage);
  check_node_destroy(check);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernel), cmocka_unit_test(test_few),
                                     cmocka_unit_test(test_product), cmocka_unit_test(test_failure)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
