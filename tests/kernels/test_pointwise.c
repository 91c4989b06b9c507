/* Pointwise kernels against the reference: every function and type, broadcasts of all kinds, programs, 16-bit floats. */
#include "kernels/check_text.h"

#include <stdio.h>
#include <string.h>

#include "ir/program.h"

static void check(const check_options *options, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void check(const check_options *options, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  check_text(text, options);
}

/* ---- single functions ---- */

static const char *immediates_of(tercel_fn fn) {
  switch (fn) {
  case TERCEL_FN_CLIP: return "<-0.5, 0.75>";
  case TERCEL_FN_SELU: return "<1.67326, 1.0507>";
  case TERCEL_FN_HARD_SIGMOID: return "<0.2, 0.5>";
  case TERCEL_FN_SHRINK: return "<0.5, 0.25>";
  case TERCEL_FN_IS_INF: return "<1, 1>";
  case TERCEL_FN_ELU:
  case TERCEL_FN_CELU: return "<0.75>";
  default: return tercel_fn_get_info(fn)->num_immediates == 1 ? "<0.5>" : "";
  }
}

static bool is_for_integers(tercel_fn fn) {
  return (fn >= TERCEL_FN_AND && fn <= TERCEL_FN_SHIFT_RIGHT) || fn == TERCEL_FN_NOT || fn == TERCEL_FN_BIT_NOT ||
         fn == TERCEL_FN_MOD;
}

static void test_float_functions(void **state) {
  (void)state;
  static const char *const dtypes[] = {"f32", "f16", "bf16"};
  for (int f = 0; f < TERCEL_FN_COUNT; f++) {
    const tercel_fn fn = (tercel_fn)f;
    const tercel_fn_info *info = tercel_fn_get_info(fn);
    if (fn == TERCEL_FN_CONSTANT || fn == TERCEL_FN_CAST || fn == TERCEL_FN_SELECT || is_for_integers(fn)) continue;
    for (int t = 0; t < 3; t++) {
      const char *d = dtypes[t], *result = info->result == TERCEL_RESULT_BOOL ? "bool" : d;
      /* gelu and its like: the reference loses digits where 1 + erf cancels; absolute errors are what counts there */
      const check_options options = {.tolerance = {.eps = 5, .absolute = 2e-7}, .low = -6, .high = 6, .specials = true};
      if (info->arity == 1)
        check(&options, "(%%x: %s[3, 41]) { %%y = pointwise(%%x) {program = {1: %s:%s%s(%%0)}} return %%y }", d,
              info->name, result, immediates_of(fn));
      if (info->arity == 2)
        check(&options,
              "(%%x: %s[3, 41], %%z: %s[3, 41]) { %%y = pointwise(%%x, %%z) {program = {2: %s:%s%s(%%0, %%1)}} "
              "return %%y }",
              d, d, info->name, result, immediates_of(fn));
    }
  }
}

static void test_integer_functions(void **state) {
  (void)state;
  static const char *const dtypes[] = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"};
  static const char *const binary[] = {"add",     "sub",   "mul",  "div",        "mod",     "fmod",
                                       "pow",     "min",   "max",  "prelu",      "bit_and", "bit_or",
                                       "bit_xor", "equal", "less", "less_equal", "greater", "greater_equal"};
  static const char *const unary[] = {"copy", "bit_not", "neg", "abs", "sign", "relu", "clip"};
  const check_options options = {.tolerance = {0}};
  for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++) {
    const char *d = dtypes[t];
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
      check(&options,
            "(%%x: %s[77], %%z: %s[77]) { %%y = pointwise(%%x, %%z) {program = {2: %s:%s(%%0, %%1)}} return %%y }", d,
            d, binary[i], i >= 13 ? "bool" : d);
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++)
      check(&options, "(%%x: %s[77]) { %%y = pointwise(%%x) {program = {1: %s:%s%s(%%0)}} return %%y }", d, unary[i], d,
            strcmp(unary[i], "clip") == 0 ? "<1, 3>" : "");
    if (d[0] == 'u') {
      check(&options,
            "(%%x: %s[77], %%z: %s[77]) { %%y = pointwise(%%x, %%z) {program = {2: shift_left:%s(%%0, %%1)}} return "
            "%%y }",
            d, d, d);
      check(&options,
            "(%%x: %s[77], %%z: %s[77]) { %%y = pointwise(%%x, %%z) {program = {2: shift_right:%s(%%0, %%1)}} return "
            "%%y }",
            d, d, d);
    }
  }
}

static void test_bool_functions(void **state) {
  (void)state;
  static const char *const binary[] = {"and", "or", "xor", "equal"};
  const check_options options = {.tolerance = {0}};
  for (size_t i = 0; i < 4; i++)
    check(&options,
          "(%%x: bool[77], %%z: bool[77]) { %%y = pointwise(%%x, %%z) {program = {2: %s(%%0, %%1)}} return %%y }",
          binary[i]);
  check(&options, "(%%x: bool[77]) { %%y = pointwise(%%x) {program = {1: not(%%0)}} return %%y }");
}

static void test_f64_functions(void **state) {
  (void)state;
  static const char *const binary[] = {"add",   "sub",   "mul",  "div",        "min",     "max",
                                       "prelu", "equal", "less", "less_equal", "greater", "greater_equal"};
  static const char *const unary[] = {"copy",  "neg",      "abs",   "sign",  "relu", "reciprocal", "sqrt",
                                      "rsqrt", "softsign", "round", "floor", "ceil", "is_nan"};
  const check_options options = {.tolerance = {.eps = 2}, .low = -9, .high = 9, .specials = true};
  for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
    check(&options,
          "(%%x: f64[77], %%z: f64[77]) { %%y = pointwise(%%x, %%z) {program = {2: %s:%s(%%0, %%1)}} return %%y }",
          binary[i], i >= 7 ? "bool" : "f64");
  for (size_t i = 0; i < sizeof unary / sizeof *unary; i++)
    check(&options, "(%%x: f64[77]) { %%y = pointwise(%%x) {program = {1: %s:%s(%%0)}} return %%y }", unary[i],
          strcmp(unary[i], "is_nan") == 0 ? "bool" : "f64");
  /* no loop for these: the reference runs them */
  check(&(check_options){.reference_only = true},
        "(%%x: f64[7]) { %%y = pointwise(%%x) {program = {1: exp:f64(%%0)}} return %%y }");
}

static void test_casts(void **state) {
  (void)state;
  static const char *const dtypes[] = {"f32", "f64", "f16", "bf16", "i8",  "i16", "i32",
                                       "i64", "u8",  "u16", "u32",  "u64", "bool"};
  const check_options options = {.low = -70, .high = 70, .reference_only = true};
  const check_options natural = {.low = 0, .high = 70, .reference_only = true};
  for (size_t from = 0; from < 13; from++)
    for (size_t to = 0; to < 13; to++)
      check(dtypes[from][0] == 'u' || dtypes[to][0] == 'u' ? &natural : &options,
            "(%%x: %s[53]) { %%y = pointwise(%%x) {program = {1: cast:%s<1, 0>(%%0)}} return %%y }", dtypes[from],
            dtypes[to]);
  check(&(check_options){.low = -1e10, .high = 1e10, .specials = true},
        "(%%x: f32[153]) { %%y = pointwise(%%x) {program = {1: cast:i32<1, 0>(%%0)}} return %%y }");
  check(&(check_options){.low = -1e20, .high = 1e20, .specials = true},
        "(%%x: f32[153]) { %%y = pointwise(%%x) {program = {1: cast:i64<1, 0>(%%0)}} return %%y }");
}

/* ---- broadcasts and programs ---- */

static void test_broadcasts(void **state) {
  (void)state;
  static const char *const shapes[][2] = {
      {"5", "1"},
      {"", "7"},
      {"3, 200", "200"},
      {"3, 200", "3, 1"},
      {"3, 7", "7"},
      {"700, 3", "3"},
      {"700, 3", "700, 1"},
      {"2, 5, 7, 7", "5, 1, 1"},
      {"2, 5, 7, 7", "2, 5, 1, 1"},
      {"2, 5, 7, 7", "7, 1"},
      {"2, 5, 20, 20", "1, 5, 1, 20"},
      {"4, 1", "1, 300"},
      {"4, 1", "1, 9"},
      {"0, 3", "3"},
      {"2, 0", "1"},
      {"1, 1, 4", "5, 1, 1"},
      {"3, 1, 5, 1, 2", "4, 1, 3, 2"},
      {"1", "1"},
      {"", ""},
      {"2, 3, 1025", "1025"},
      {"64, 31", "64, 31"},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    for (int swap = 0; swap < 2; swap++) {
      check(&(check_options){0},
            "(%%x: f32[%s], %%z: f32[%s]) { %%y = pointwise(%%x, %%z) {program = {2: sub(%%0, %%1)}} return %%y }",
            shapes[i][swap], shapes[i][!swap]);
      check(
          &(check_options){0},
          "(%%x: i64[%s], %%z: i64[%s]) { %%y = pointwise(%%x, %%z) {program = {2: less:bool(%%0, %%1)}} return %%y }",
          shapes[i][swap], shapes[i][!swap]);
      check(&(check_options){0},
            "(%%x: f16[%s], %%z: f16[%s]) { %%y = pointwise(%%x, %%z) {program = {2: mul:f16(%%0, %%1)}} return %%y }",
            shapes[i][swap], shapes[i][!swap]);
    }
  }
  check(&(check_options){0}, "(%%m: bool[3, 1, 9], %%x: f32[1, 4, 9], %%z: f32[]) { %%y = pointwise(%%m, %%x, %%z) "
                             "{program = {3: select(%%0, %%1, %%2)}} return %%y }");
  check(&(check_options){0}, "(%%x: f32[3, 4, 9], %%a: f32[], %%b: f32[9]) { %%y = pointwise(%%x, %%a, %%b) "
                             "{program = {3: clamp(%%0, %%1, %%2)}} return %%y }");
}

static void test_programs(void **state) {
  (void)state;
  static const char *const programs[] = {
      "{1: constant<1.5>(); add(%0, %1); relu(%2)}",
      "{1: hard_sigmoid<0.1666667, 0.5>(%0); mul(%0, %1)}",
      "{1: sigmoid(%0); mul(%0, %1); exp(%2); log(%3)}",
      "{1: constant<2>(); pow(%0, %1)}",
      "{1: constant<1>(); pow(%0, %1)}",
      "{1: constant<3>(); pow(%0, %1)}",
      "{1: constant<0.25>()}",
      "{1: cast:i32<1, 0>(%0); mul:i32(%1, %1); cast:f32<1, 0>(%2); add(%0, %3)}",
      "{1: cast:f64<1, 0>(%0); sqrt:f64(%1); cast:f32<1, 0>(%2)}",
      "{1: cast:f16<1, 0>(%0); add:f16(%1, %1); mul:f16(%2, %1); cast:f32<1, 0>(%3)}",
      "{1: abs(%0); sqrt(%1); sqrt(%2); sqrt(%3); sub(%1, %2); sub(%3, %4); mul(%5, %6)}",
  };
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    check(&(check_options){.tolerance = {.eps = 8}, .low = 0.5, .high = 3},
          "(%%x: f32[3, 1111]) { %%y = pointwise(%%x) {program = %s} return %%y }", programs[i]);
  }
  check(&(check_options){.tolerance = {.eps = 4}, .specials = true},
        "(%%x: f32[3, 1111], %%z: f32[3, 1]) { %%y = pointwise(%%x, %%z) {program = {2: constant<0>(); less:bool(%%0, "
        "%%2); "
        "mul(%%0, %%1); select(%%3, %%4, %%0)}} return %%y }");
  check(&(check_options){.tolerance = {.eps = 4}},
        "(%%x: bf16[3, 1111], %%z: bf16[3, 1]) { %%y = pointwise(%%x, %%z) {program = {2: add:bf16(%%0, %%1); "
        "exp:bf16(%%2); mul:bf16(%%3, %%1)}} return %%y }");
  check(&(check_options){0},
        "(%%x: f16[3, 11]) { %%y = pointwise(%%x) {program = {1: constant:f16<0.1>()}} return %%y }");
}

static void test_large(void **state) {
  (void)state;
  check(&(check_options){.tolerance = {.eps = 4}, .timed = true},
        "(%%x: f32[8, 32, 1024]) { %%y = pointwise(%%x) {program = {1: tanh(%%0)}} return %%y }");
  check(&(check_options){.timed = true},
        "(%%x: f32[8, 32, 1024], %%z: f32[8, 32, 1024]) { %%y = pointwise(%%x, %%z) {program = "
        "{2: add(%%0, %%1); relu(%%2)}} return %%y }");
  check(&(check_options){.timed = true},
        "(%%x: f32[4, 32, 49, 7], %%z: f32[32, 1, 1]) { %%y = pointwise(%%x, %%z) {program = {2: "
        "mul(%%0, %%1)}} return %%y }");
  check(&(check_options){.timed = true},
        "(%%x: f32[40000, 3], %%z: f32[3]) { %%y = pointwise(%%x, %%z) {program = {2: sub(%%0, %%1)}} return %%y }");
}

int main(int argc, char **argv) {
  check_start(argc, argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_float_functions), cmocka_unit_test(test_integer_functions),
      cmocka_unit_test(test_bool_functions),  cmocka_unit_test(test_f64_functions),
      cmocka_unit_test(test_casts),           cmocka_unit_test(test_broadcasts),
      cmocka_unit_test(test_programs),        cmocka_unit_test(test_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
