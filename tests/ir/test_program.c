/* Pointwise programs: what is checked, how chains are joined, and values of functions at their corners. */
#include "support/support.h"

#include <math.h>
#include <string.h>

#include "ir/ir.h"

static tercel_instr instr(tercel_fn fn, tercel_dtype dtype, uint16_t a, uint16_t b, uint16_t c) {
  return (tercel_instr){.fn = (uint8_t)fn, .dtype = (uint8_t)dtype, .operands = {a, b, c}};
}

/* One function of up to three operands of one dtype. */
static tercel_immediate apply(tercel_fn fn, tercel_dtype dtype, tercel_dtype result, const tercel_immediate operands[3],
                              const tercel_immediate immediates[2]) {
  tercel_error err = {0};
  tercel_instr one = instr(fn, result, 0, 1, 2);
  memcpy(one.immediates, immediates, sizeof one.immediates);
  const tercel_program program = {tercel_fn_get_info(fn)->arity, 1, &one};
  const tercel_dtype inputs[3] = {dtype, dtype, dtype};
  assert_ok(tercel_program_check(&program, inputs, NULL, &err), &err);
  tercel_immediate regs[4];
  memcpy(regs, operands, 3 * sizeof *regs);
  tercel_program_eval(&program, inputs, regs);
  return regs[program.num_inputs];
}

static int64_t apply_i(tercel_fn fn, tercel_dtype dtype, int64_t a, int64_t b) {
  const bool to_bool = tercel_fn_get_info(fn)->result == TERCEL_RESULT_BOOL;
  return apply(fn, dtype, to_bool ? TERCEL_DTYPE_BOOL : dtype, (tercel_immediate[3]){{.i = a}, {.i = b}},
               (tercel_immediate[2]){{.i = 0}})
      .i;
}

static double apply_f(tercel_fn fn, tercel_dtype dtype, double a, double b) {
  return apply(fn, dtype, dtype, (tercel_immediate[3]){{a}, {b}}, (tercel_immediate[2]){{0}}).f;
}

static void test_integers(void **state) {
  (void)state;
  assert_int_equal(apply_i(TERCEL_FN_ADD, TERCEL_DTYPE_I8, 127, 1), -128);
  assert_int_equal(apply_i(TERCEL_FN_ADD, TERCEL_DTYPE_I64, INT64_MAX, 1), INT64_MIN);
  assert_int_equal(apply_i(TERCEL_FN_MUL, TERCEL_DTYPE_U8, 200, 2), 144);
  assert_int_equal(apply_i(TERCEL_FN_DIV, TERCEL_DTYPE_I32, -7, 2), -3);
  assert_int_equal(apply_i(TERCEL_FN_DIV, TERCEL_DTYPE_I32, 7, 0), 0);
  assert_int_equal(apply_i(TERCEL_FN_DIV, TERCEL_DTYPE_I32, INT32_MIN, -1), INT32_MIN);
  assert_int_equal(apply_i(TERCEL_FN_DIV, TERCEL_DTYPE_I64, INT64_MIN, -1), INT64_MIN);
  assert_int_equal(apply_i(TERCEL_FN_DIV, TERCEL_DTYPE_U64, -1, 2), INT64_MAX);
  assert_int_equal(apply_i(TERCEL_FN_MOD, TERCEL_DTYPE_I32, -7, 3), 2);
  assert_int_equal(apply_i(TERCEL_FN_MOD, TERCEL_DTYPE_I32, 7, -3), -2);
  assert_int_equal(apply_i(TERCEL_FN_FMOD, TERCEL_DTYPE_I32, -7, 3), -1);
  assert_int_equal(apply_i(TERCEL_FN_MOD, TERCEL_DTYPE_I64, INT64_MIN, -1), 0);
  assert_int_equal(apply_i(TERCEL_FN_MOD, TERCEL_DTYPE_I64, 5, 0), 0);
  assert_int_equal(apply_i(TERCEL_FN_POW, TERCEL_DTYPE_I32, -3, 3), -27);
  assert_int_equal(apply_i(TERCEL_FN_POW, TERCEL_DTYPE_I32, 2, -1), 0);
  assert_int_equal(apply_i(TERCEL_FN_POW, TERCEL_DTYPE_I32, -1, -3), -1);
  assert_int_equal(apply_i(TERCEL_FN_LESS, TERCEL_DTYPE_U64, 1, -1), 1);
  assert_int_equal(apply_i(TERCEL_FN_LESS, TERCEL_DTYPE_I64, 1, -1), 0);
  assert_int_equal(apply_i(TERCEL_FN_MAX, TERCEL_DTYPE_U64, 1, -1), -1);
  assert_int_equal(apply_i(TERCEL_FN_SHIFT_LEFT, TERCEL_DTYPE_U8, 255, 4), 240);
  assert_int_equal(apply_i(TERCEL_FN_SHIFT_LEFT, TERCEL_DTYPE_U8, 255, 8), 0);
  assert_int_equal(apply_i(TERCEL_FN_SHIFT_RIGHT, TERCEL_DTYPE_U64, -1, 63), 1);
  assert_int_equal(apply_i(TERCEL_FN_SHIFT_RIGHT, TERCEL_DTYPE_U64, -1, 64), 0);
  assert_int_equal(apply_i(TERCEL_FN_BIT_NOT, TERCEL_DTYPE_U8, 1, 0), 254);
  assert_int_equal(apply_i(TERCEL_FN_ABS, TERCEL_DTYPE_I8, -128, 0), -128);
  assert_int_equal(apply_i(TERCEL_FN_SIGN, TERCEL_DTYPE_I16, -300, 0), -1);
  assert_int_equal(apply_i(TERCEL_FN_RELU, TERCEL_DTYPE_I32, -3, 0), 0);
  assert_int_equal(apply_i(TERCEL_FN_XOR, TERCEL_DTYPE_BOOL, 1, 1), 0);
  assert_int_equal(apply_i(TERCEL_FN_NOT, TERCEL_DTYPE_BOOL, 1, 0), 0);
}

static void test_floats(void **state) {
  (void)state;
  const tercel_dtype f32 = TERCEL_DTYPE_F32;
  assert_true(apply_f(TERCEL_FN_ADD, f32, 16777216, 1) == 16777216);
  assert_true(apply_f(TERCEL_FN_ADD, TERCEL_DTYPE_F64, 16777216, 1) == 16777217);
  assert_true(apply_f(TERCEL_FN_MUL, TERCEL_DTYPE_F16, 300, 300) == (double)INFINITY);
  assert_true(isnan(apply_f(TERCEL_FN_MAX, f32, (double)NAN, 1)));
  assert_true(isnan(apply_f(TERCEL_FN_MIN, f32, 1, (double)NAN)));
  assert_true(isnan(apply_f(TERCEL_FN_RELU, f32, (double)NAN, 0)));
  assert_true(isnan(apply_f(TERCEL_FN_SIGN, f32, (double)NAN, 0)));
  assert_true(apply_f(TERCEL_FN_ROUND, f32, 2.5, 0) == 2 && apply_f(TERCEL_FN_ROUND, f32, -0.5, 0) == 0);
  assert_true(apply_f(TERCEL_FN_MOD, f32, -7, 3) == 2 && apply_f(TERCEL_FN_FMOD, f32, -7, 3) == -1);
  assert_true(apply_f(TERCEL_FN_SIGMOID, f32, -1000, 0) == 0 && apply_f(TERCEL_FN_SIGMOID, f32, 1000, 0) == 1);
  assert_true(apply_f(TERCEL_FN_SOFTPLUS, f32, 1000, 0) == 1000);
  assert_true(fabs(apply_f(TERCEL_FN_GELU, f32, 1, 0) - 0.8413447461) < 1e-7);
  assert_true(fabs(apply_f(TERCEL_FN_GELU_TANH, f32, 1, 0) - 0.8411919906) < 1e-7);
  assert_true(apply_f(TERCEL_FN_PRELU, f32, -2, 0.25) == -0.5);
  assert_true(apply_f(TERCEL_FN_RSQRT, f32, 4, 0) == 0.5);
}

static void test_immediates(void **state) {
  (void)state;
  const tercel_dtype f32 = TERCEL_DTYPE_F32, i32 = TERCEL_DTYPE_I32;
  const tercel_immediate seven[3] = {{7}}, seven_i[3] = {{.i = 7}}, minus_inf[3] = {{-(double)INFINITY}};
  assert_true(apply(TERCEL_FN_CLIP, f32, f32, seven, (tercel_immediate[2]){{0}, {6}}).f == 6);
  assert_int_equal(apply(TERCEL_FN_CLIP, i32, i32, seven_i, (tercel_immediate[2]){{.i = 0}, {.i = 6}}).i, 6);
  assert_true(apply(TERCEL_FN_SHRINK, f32, f32, seven, (tercel_immediate[2]){{1}, {0.5}}).f == 6.5);
  assert_int_equal(
      apply(TERCEL_FN_IS_INF, f32, TERCEL_DTYPE_BOOL, minus_inf, (tercel_immediate[2]){{.i = 1}, {.i = 0}}).i, 1);
  assert_int_equal(
      apply(TERCEL_FN_IS_INF, f32, TERCEL_DTYPE_BOOL, minus_inf, (tercel_immediate[2]){{.i = 0}, {.i = 1}}).i, 0);
  assert_int_equal(apply(TERCEL_FN_CAST, f32, TERCEL_DTYPE_U8, seven, (tercel_immediate[2]){{.i = 1}}).i, 7);
  assert_true(
      apply(TERCEL_FN_CAST, f32, TERCEL_DTYPE_F8E4M3FN, (tercel_immediate[3]){{1000}}, (tercel_immediate[2]){{.i = 1}})
          .f == 448);
  assert_true(isnan(
      apply(TERCEL_FN_CAST, f32, TERCEL_DTYPE_F8E4M3FN, (tercel_immediate[3]){{1000}}, (tercel_immediate[2]){{.i = 0}})
          .f));
}

/* Each instruction rounds to its dtype. */
static void test_chain_rounds_each_step(void **state) {
  (void)state;
  tercel_instr instrs[] = {instr(TERCEL_FN_MUL, TERCEL_DTYPE_F16, 0, 0, 0),
                           instr(TERCEL_FN_SUB, TERCEL_DTYPE_F16, 1, 0, 0)};
  tercel_immediate regs[3] = {{1.0009765625}}; /* 1 + 2^-10: its square needs 21 bits */
  const tercel_dtype input = TERCEL_DTYPE_F16;
  tercel_program_eval(&(tercel_program){1, 2, instrs}, &input, regs);
  assert_true(regs[1].f == 1.001953125);
  assert_true(regs[2].f == 0.0009765625);
}

static void test_check(void **state) {
  (void)state;
  const tercel_dtype f32 = TERCEL_DTYPE_F32, i64 = TERCEL_DTYPE_I64, b = TERCEL_DTYPE_BOOL;
  static const struct {
    tercel_instr instr;
    const char *message;
  } cases[] = {
      {{.fn = TERCEL_FN_ADD, .dtype = TERCEL_DTYPE_F32, .operands = {0, 1}}, "operand 1 is i64, want f32"},
      {{.fn = TERCEL_FN_ADD, .dtype = TERCEL_DTYPE_F16, .operands = {0, 0}}, "the result is f16, want f32"},
      {{.fn = TERCEL_FN_EXP, .dtype = TERCEL_DTYPE_I64, .operands = {1}}, "exp does not take i64"},
      {{.fn = TERCEL_FN_ADD, .dtype = TERCEL_DTYPE_BOOL, .operands = {2, 2}}, "add does not take bool"},
      {{.fn = TERCEL_FN_SELECT, .dtype = TERCEL_DTYPE_F32, .operands = {0, 0, 0}}, "operand 0 is f32, want bool"},
      {{.fn = TERCEL_FN_SELECT, .dtype = TERCEL_DTYPE_F32, .operands = {2, 0, 1}}, "operand 2 is i64, want f32"},
      {{.fn = TERCEL_FN_LESS, .dtype = TERCEL_DTYPE_F32, .operands = {0, 0}}, "the result is f32, want bool"},
      {{.fn = TERCEL_FN_NEG, .dtype = TERCEL_DTYPE_F32, .operands = {3}}, "register 3 of 3"},
      {{.fn = TERCEL_FN_COUNT}, "does not exist"},
      {{.fn = TERCEL_FN_CAST, .dtype = TERCEL_DTYPE_STRING}, "a number or bool"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tercel_error err = {0};
    tercel_instr one = cases[i].instr;
    const tercel_dtype inputs[3] = {f32, i64, b};
    assert_fails(tercel_program_check(&(tercel_program){3, 1, &one}, inputs, NULL, &err), TERCEL_INVALID_MODEL, &err,
                 cases[i].message);
  }
  assert_fails(tercel_program_check(&(tercel_program){0}, NULL, NULL, NULL), TERCEL_INVALID_MODEL, NULL, NULL);
}

/* (a + b) into operand 1 of x * y - z: inputs a, b, x, z. */
static void test_chain(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_arena arena = {0};
  tercel_text text = {0};
  tercel_program out;
  const tercel_dtype f32 = TERCEL_DTYPE_F32;
  tercel_instr first[] = {instr(TERCEL_FN_ADD, f32, 0, 1, 0), instr(TERCEL_FN_RELU, f32, 2, 0, 0)};
  tercel_instr second[] = {instr(TERCEL_FN_MUL, f32, 0, 1, 0), instr(TERCEL_FN_SUB, f32, 3, 2, 0)};
  const tercel_program a = {2, 2, first}, b = {3, 2, second};
  assert_ok(tercel_program_chain(&arena, &a, &b, 1, &out, &err), &err);
  tercel_program_print(&out, &text);
  assert_string_equal(text.data, "{4: add(%0, %1); relu(%4); mul(%2, %5); sub(%6, %3)}");
  tercel_program wide = {TERCEL_PROGRAM_MAX_INPUTS, 1, first};
  assert_fails(tercel_program_chain(&arena, &a, &wide, 0, &out, &err), TERCEL_UNSUPPORTED, &err, "17 inputs");
  tercel_text_deinit(&text);
  tercel_arena_deinit(&arena);
}

static void test_names(void **state) {
  (void)state;
  for (int i = 0; i < TERCEL_FN_COUNT; i++) {
    tercel_fn fn;
    const char *const name = tercel_fn_get_info((tercel_fn)i)->name;
    assert_true(tercel_fn_parse(name, strlen(name), &fn));
    assert_int_equal(fn, i);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_integers),   cmocka_unit_test(test_floats),
      cmocka_unit_test(test_immediates), cmocka_unit_test(test_chain_rounds_each_step),
      cmocka_unit_test(test_check),      cmocka_unit_test(test_chain),
      cmocka_unit_test(test_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
