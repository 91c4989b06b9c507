/* Control flow, sequences and optionals, run.
 * run-tests: threads   (cancelling, from another one) */
#include "runtime/net.h"

#include <pthread.h>
#include <time.h>

/* ---- if ---- */

static const char branches[] =
    "graph \"net\" (%c: bool[], %x: f32[n]) {\n"
    "  %y = if(%c, %x) captures 1 do {\n"
    "    graph \"then\" (%a: f32[n]) { %r = concat(%a, %a) {axis = 0} return %r }\n"
    "    graph \"else\" (%b: f32[n]) { %r = pointwise(%b) {program = {1: neg(%0)}} return %r }\n"
    "  }\n"
    "  %z = pointwise(%y) {program = {1: neg(%0)}}\n"
    "  return %z, %y\n}\n";

static void test_if(void **state) {
  (void)state;
  tercel_context *context = net_open(branches);
  float x[3] = {1, 2, 3};
  uint8_t yes = 1, no = 0;
  net_set(context, 1, TERCEL_DTYPE_F32, x, DIMS(3));
  for (int round = 0; round < 3; ++round) {
    net_set(context, 0, TERCEL_DTYPE_BOOL, &yes, SCALAR);
    net_run(context);
    net_expect(context, 0, NUMBERS(-1, -2, -3, -1, -2, -3), DIMS(6));
    net_set(context, 0, TERCEL_DTYPE_BOOL, &no, SCALAR);
    net_run(context);
    net_expect(context, 0, NUMBERS(1, 2, 3), DIMS(3));
    net_expect(context, 1, NUMBERS(-1, -2, -3), DIMS(3));
  }
  tercel_context_destroy(context);
}

/* ---- loop ---- */

static const char counting[] = "graph \"net\" (%m: i64[], %go: bool[], %x: f32[2], %limit: f32[]) {\n"
                               "  %one: f32[] = constant data(1)\n"
                               "  %y, %ys, %is = loop(%m, %go, %x, %one, %limit) captures 2 do {\n"
                               "    graph \"body\" (%i: i64[], %c: bool[], %v: f32[2], %o: f32[], %l: f32[]) {\n"
                               "      %w = pointwise(%v, %o) {program = {2: add(%0, %1)}}\n"
                               "      %zero: i64[] = constant data(0)\n"
                               "      %first = gather(%w, %zero) {axis = 0}\n"
                               "      %c2 = pointwise(%first, %l) {program = {2: less(%0, %1)}}\n"
                               "      return %c2, %w, %w, %i\n"
                               "    }\n"
                               "  }\n"
                               "  return %y, %ys, %is\n}\n";

static void set_loop(tercel_context *context, int64_t *m, uint8_t *go, float *x, float *limit) {
  net_set(context, 0, TERCEL_DTYPE_I64, m, SCALAR);
  net_set(context, 1, TERCEL_DTYPE_BOOL, go, SCALAR);
  net_set(context, 2, TERCEL_DTYPE_F32, x, DIMS(2));
  net_set(context, 3, TERCEL_DTYPE_F32, limit, SCALAR);
}

static void test_loop(void **state) {
  (void)state;
  tercel_context *context = net_open(counting);
  int64_t m = 3;
  uint8_t go = 1;
  float x[2] = {0, 10}, limit = 100;
  set_loop(context, &m, &go, x, &limit);
  net_run(context);
  net_expect(context, 0, NUMBERS(3, 13), DIMS(2));
  net_expect(context, 1, NUMBERS(1, 11, 2, 12, 3, 13), DIMS(3, 2));
  net_expect(context, 2, NUMBERS(0, 1, 2), DIMS(3));
  limit = 2; /* the body's condition ends it */
  net_run(context);
  net_expect(context, 0, NUMBERS(2, 12), DIMS(2));
  net_expect(context, 1, NUMBERS(1, 11, 2, 12), DIMS(2, 2));
  m = 0;
  net_run(context);
  net_expect(context, 0, NUMBERS(0, 10), DIMS(2));
  net_expect(context, 1, NOTHING, DIMS(0, 2));
  net_expect(context, 2, NOTHING, DIMS(0));
  m = 5;
  go = 0;
  net_run(context);
  net_expect(context, 0, NUMBERS(0, 10), DIMS(2));
  tercel_context_destroy(context);
}

/* Carried values that change their shape, and one that only passes through. */
static void test_growing_loop(void **state) {
  (void)state;
  tercel_context *context = net_open("graph \"net\" (%m: i64[], %x: f32[n], %k: f32[1]) {\n"
                                     "  %y, %same = loop(%m, _, %x, %k) do {\n"
                                     "    graph \"body\" (%i: i64[], %c: bool[], %v: f32[k], %p: f32[1]) {\n"
                                     "      %w = concat(%v, %p) {axis = 0}\n"
                                     "      return %c, %w, %p\n"
                                     "    }\n"
                                     "  }\n"
                                     "  return %y, %same\n}\n");
  int64_t m = 4;
  float x[2] = {1, 2}, k = 7;
  net_set(context, 0, TERCEL_DTYPE_I64, &m, SCALAR);
  net_set(context, 1, TERCEL_DTYPE_F32, x, DIMS(2));
  net_set(context, 2, TERCEL_DTYPE_F32, &k, DIMS(1));
  for (int round = 0; round < 2; ++round) {
    net_run(context);
    net_expect(context, 0, NUMBERS(1, 2, 7, 7, 7, 7), DIMS(6));
    net_expect(context, 1, NUMBERS(7), DIMS(1));
  }
  m = 40; /* more shapes than a frame keeps bindings */
  net_run(context);
  assert_int_equal(net_output(context, 0).dims[0], 42);
  tercel_context_destroy(context);
}

/* Strings that an iteration makes must outlive it: carried, and stacked. */
static void test_loop_of_strings(void **state) {
  (void)state;
  tercel_context *context = net_open("graph \"net\" (%m: i64[], %s: string[1], %x: string[1]) {\n"
                                     "  %y, %ys = loop(%m, _, %s, %x) captures 1 do {\n"
                                     "    graph \"body\" (%i: i64[], %c: bool[], %v: string[1], %p: string[1]) {\n"
                                     "      %w = string_concat(%v, %p)\n"
                                     "      return %c, %w, %w\n"
                                     "    }\n"
                                     "  }\n"
                                     "  return %y, %ys\n}\n");
  static const char all[] = "-abababab";
  int64_t m = 4;
  tercel_string s = {"-", 1}, x = {"ab", 2};
  net_set(context, 0, TERCEL_DTYPE_I64, &m, SCALAR);
  net_set(context, 1, TERCEL_DTYPE_STRING, &s, DIMS(1));
  net_set(context, 2, TERCEL_DTYPE_STRING, &x, DIMS(1));
  for (int round = 0; round < 2; ++round) {
    net_run(context);
    const tercel_string *const carried = net_output(context, 0).data, *const stacked = net_output(context, 1).data;
    assert_int_equal(carried->length, 9);
    assert_memory_equal(carried->data, all, 9);
    assert_int_equal(net_output(context, 1).dims[0], 4);
    for (size_t k = 0; k < 4; ++k) {
      assert_int_equal(stacked[k].length, 3 + 2 * k);
      assert_memory_equal(stacked[k].data, all, 3 + 2 * k);
    }
  }
  tercel_context_destroy(context);
}

static void test_nested_loops(void **state) {
  (void)state;
  tercel_context *context =
      net_open("graph \"net\" (%m: i64[], %x: f32[]) {\n"
               "  %y = loop(%m, _, %x, %m, %x) captures 2 do {\n"
               "    graph \"outer\" (%i: i64[], %c: bool[], %v: f32[], %n: i64[], %step: f32[]) {\n"
               "      %w = loop(%n, _, %v, %step) captures 1 do {\n"
               "        graph \"inner\" (%j: i64[], %d: bool[], %u: f32[], %s: f32[]) {\n"
               "          %t = pointwise(%u, %s) {program = {2: add(%0, %1)}}\n"
               "          return %d, %t\n"
               "        }\n"
               "      }\n"
               "      return %c, %w\n"
               "    }\n"
               "  }\n"
               "  return %y\n}\n");
  int64_t m = 3;
  float x = 1;
  net_set(context, 0, TERCEL_DTYPE_I64, &m, SCALAR);
  net_set(context, 1, TERCEL_DTYPE_F32, &x, SCALAR);
  net_run(context);
  net_expect(context, 0, NUMBERS(10), SCALAR);
  m = 5;
  net_run(context);
  net_expect(context, 0, NUMBERS(26), SCALAR);
  tercel_context_destroy(context);
}

static void *cancel_soon(void *context) {
  const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
  nanosleep(&pause, NULL);
  tercel_context_cancel(context);
  return NULL;
}

/* A file may ask for 2^63 - 1 iterations: they can be stopped. */
static void test_endless_loop_is_cancelled(void **state) {
  (void)state;
  tercel_context *context = net_open("graph \"net\" (%m: i64[]) {\n"
                                     "  %zero: f32[] = constant data(0)\n"
                                     "  %y = loop(%m, _, %zero) do {\n"
                                     "    graph \"body\" (%i: i64[], %c: bool[], %v: f32[]) { return %c, %v }\n"
                                     "  }\n  return %y\n}\n");
  tercel_error err = {0};
  int64_t m = INT64_MAX;
  pthread_t thread;
  net_set(context, 0, TERCEL_DTYPE_I64, &m, SCALAR);
  assert_int_equal(pthread_create(&thread, NULL, cancel_soon, context), 0);
  assert_fails(tercel_context_run(context, &err), TERCEL_CANCELLED, &err, "loop 'y'");
  pthread_join(thread, NULL);
  m = 2;
  net_run(context);
  net_expect(context, 0, NUMBERS(0), SCALAR);
  tercel_context_destroy(context);
}

/* ---- scan ---- */

static void test_scan(void **state) {
  (void)state;
  tercel_context *context = net_open(
      "graph \"net\" (%s: f32[2], %x: f32[t, 2], %y: f32[2, t]) {\n"
      "  %last, %sums, %back = scan(%s, %x, %y) {num_scan_inputs = 2, scan_input_axes = [0, 1],\n"
      "      scan_input_directions = [0, 1], scan_output_axes = [0, 1], scan_output_directions = [0, 1]} do {\n"
      "    graph \"body\" (%v: f32[2], %a: f32[2], %b: f32[2]) {\n"
      "      %w = pointwise(%v, %a) {program = {2: add(%0, %1)}}\n"
      "      %d = pointwise(%b) {program = {1: neg(%0)}}\n"
      "      return %w, %w, %d\n"
      "    }\n"
      "  }\n"
      "  return %last, %sums, %back\n}\n");
  float s[2] = {100, 200}, x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {10, 20, 30, 40, 50, 60};
  net_set(context, 0, TERCEL_DTYPE_F32, s, DIMS(2));
  net_set(context, 1, TERCEL_DTYPE_F32, x, DIMS(3, 2));
  net_set(context, 2, TERCEL_DTYPE_F32, y, DIMS(2, 3));
  net_run(context);
  net_expect(context, 0, NUMBERS(109, 212), DIMS(2));
  net_expect(context, 1, NUMBERS(101, 202, 104, 206, 109, 212), DIMS(3, 2));
  net_expect(context, 2, NUMBERS(-10, -20, -30, -40, -50, -60), DIMS(2, 3));
  net_set(context, 1, TERCEL_DTYPE_F32, x, DIMS(0, 2));
  net_set(context, 2, TERCEL_DTYPE_F32, y, DIMS(2, 0));
  net_run(context);
  net_expect(context, 0, NUMBERS(100, 200), DIMS(2));
  net_expect(context, 1, NOTHING, DIMS(0, 2));
  net_expect(context, 2, NOTHING, DIMS(2, 0));
  tercel_context_destroy(context);
}

/* ---- sequences ---- */

static void test_sequences(void **state) {
  (void)state;
  tercel_context *context = net_open("graph \"net\" (%x: f32[n], %y: f32[m], %p: i64[]) {\n"
                                     "  %s = sequence_construct(%x, %y)\n"
                                     "  %t = sequence_insert(%s, %x, %p)\n"
                                     "  %u = sequence_erase(%s)\n"
                                     "  %n1 = sequence_length(%t)\n"
                                     "  %n2 = sequence_length(%u)\n"
                                     "  %e = sequence_at(%t, %p)\n"
                                     "  %f = pointwise(%e) {program = {1: neg(%0)}}\n"
                                     "  %c = sequence_concat(%t) {axis = 0}\n"
                                     "  return %n1, %n2, %f, %c, %s, %t\n}\n");
  tercel_error err = {0};
  float x[2] = {1, 2}, y[3] = {3, 4, 5};
  int64_t p = 1;
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(2));
  net_set(context, 1, TERCEL_DTYPE_F32, y, DIMS(3));
  net_set(context, 2, TERCEL_DTYPE_I64, &p, SCALAR);
  for (int round = 0; round < 2; ++round) {
    net_run(context);
    net_expect(context, 0, NUMBERS(3), SCALAR);
    net_expect(context, 1, NUMBERS(1), SCALAR);
    net_expect(context, 2, NUMBERS(-1, -2), DIMS(2));
    net_expect(context, 3, NUMBERS(1, 2, 1, 2, 3, 4, 5), DIMS(7));
    size_t length = 0;
    assert_ok(tercel_context_get_output_length(context, 4, &length, &err), &err);
    assert_int_equal(length, 2);
    assert_ok(tercel_context_get_output_length(context, 5, &length, &err), &err);
    assert_int_equal(length, 3);
    tercel_view element;
    assert_ok(tercel_context_get_output_element(context, 5, 2, &element, &err), &err);
    net_expect_view(&element, NUMBERS(3, 4, 5), DIMS(3));
    assert_fails(tercel_context_get_output_element(context, 5, 3, &element, &err), TERCEL_INVALID_ARGUMENT, &err, "3");
    assert_fails(tercel_context_get_output(context, 5, &element, &err), TERCEL_INVALID_ARGUMENT, &err, "sequence");
  }
  p = 3;
  assert_fails(tercel_context_run(context, &err), TERCEL_INVALID_ARGUMENT, &err, "position 3 in a sequence of 2");
  p = -2;
  net_run(context);
  net_expect(context, 3, NUMBERS(1, 2, 1, 2, 3, 4, 5), DIMS(7));
  tercel_context_destroy(context);
}

static void test_sequence_inputs(void **state) {
  (void)state;
  tercel_context *context = net_open("graph \"net\" (%s: seq(f32[2]), %x: f32[2]) {\n"
                                     "  %t = sequence_insert(%s, %x)\n"
                                     "  %c = sequence_concat(%t) {axis = 0, new_axis = 1}\n"
                                     "  return %c, %t, %s\n}\n");
  tercel_error err = {0};
  float a[2] = {1, 2}, x[2] = {3, 4};
  tercel_view views[2] = {net_view(TERCEL_DTYPE_F32, a, DIMS(2)), net_view(TERCEL_DTYPE_F32, a, DIMS(2))};
  assert_ok(tercel_context_set_input_elements(context, 0, views, 1, &err), &err);
  net_set(context, 1, TERCEL_DTYPE_F32, x, DIMS(2));
  net_run(context);
  net_expect(context, 0, NUMBERS(1, 2, 3, 4), DIMS(2, 2));
  tercel_view element;
  assert_ok(tercel_context_get_output_element(context, 2, 0, &element, &err), &err);
  assert_ptr_not_equal(element.data, a); /* outputs are the context's own */
  assert_ok(tercel_context_set_input_elements(context, 0, views, 2, &err), &err);
  net_run(context);
  net_expect(context, 0, NUMBERS(1, 2, 1, 2, 3, 4), DIMS(3, 2));
  net_run(context);
  net_expect(context, 0, NUMBERS(1, 2, 1, 2, 3, 4), DIMS(3, 2));
  assert_fails(tercel_context_set_input(context, 0, views, &err), TERCEL_INVALID_ARGUMENT, &err, "set_input_elements");
  assert_fails(tercel_context_set_input_elements(context, 1, views, 1, &err), TERCEL_INVALID_ARGUMENT, &err,
               "is a tensor");
  views[1].dtype = TERCEL_DTYPE_I32;
  assert_fails(tercel_context_set_input_elements(context, 0, views, 2, &err), TERCEL_INVALID_ARGUMENT, &err, "i32");
  tercel_context_destroy(context);
}

static void test_sequence_split(void **state) {
  (void)state;
  tercel_context *context = net_open("graph \"net\" (%x: f32[2, 3], %k: i64[], %l: i64[n]) {\n"
                                     "  %a = sequence_split(%x) {axis = 1, keepdims = 0}\n"
                                     "  %b = sequence_split(%x, %k) {axis = 1}\n"
                                     "  %c = sequence_split(%x, %l) {axis = 1}\n"
                                     "  return %a, %b, %c\n}\n");
  tercel_error err = {0};
  float x[6] = {1, 2, 3, 4, 5, 6};
  int64_t k = 2, l[2] = {1, 2};
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(2, 3));
  net_set(context, 1, TERCEL_DTYPE_I64, &k, SCALAR);
  net_set(context, 2, TERCEL_DTYPE_I64, l, DIMS(2));
  net_run(context);
  tercel_view v;
  assert_ok(tercel_context_get_output_element(context, 0, 1, &v, &err), &err);
  net_expect_view(&v, NUMBERS(2, 5), DIMS(2));
  assert_ok(tercel_context_get_output_element(context, 1, 0, &v, &err), &err);
  net_expect_view(&v, NUMBERS(1, 2, 4, 5), DIMS(2, 2));
  assert_ok(tercel_context_get_output_element(context, 1, 1, &v, &err), &err);
  net_expect_view(&v, NUMBERS(3, 6), DIMS(2, 1));
  assert_ok(tercel_context_get_output_element(context, 2, 1, &v, &err), &err);
  net_expect_view(&v, NUMBERS(2, 3, 5, 6), DIMS(2, 2));
  l[1] = 3;
  assert_fails(tercel_context_run(context, &err), TERCEL_INVALID_ARGUMENT, &err, "part 1 has size 3 of 2");
  l[1] = 1;
  assert_fails(tercel_context_run(context, &err), TERCEL_INVALID_ARGUMENT, &err, "makes 2 of 3");
  tercel_context_destroy(context);
}

/* Sequences that a loop carries, filled one by one. */
static void test_sequence_in_loop(void **state) {
  (void)state;
  tercel_context *context = net_open("graph \"net\" (%m: i64[], %x: f32[1]) {\n"
                                     "  %s = sequence_construct() {dtype = f32}\n"
                                     "  %t = loop(%m, _, %s, %x) captures 1 do {\n"
                                     "    graph \"body\" (%i: i64[], %c: bool[], %q: seq(f32[*]), %v: f32[1]) {\n"
                                     "      %r = sequence_insert(%q, %v)\n"
                                     "      return %c, %r\n"
                                     "    }\n"
                                     "  }\n"
                                     "  %y = sequence_concat(%t) {axis = 0}\n"
                                     "  %n = sequence_length(%s)\n"
                                     "  return %y, %n\n}\n");
  int64_t m = 3;
  float x = 5;
  net_set(context, 0, TERCEL_DTYPE_I64, &m, SCALAR);
  net_set(context, 1, TERCEL_DTYPE_F32, &x, DIMS(1));
  for (int round = 0; round < 2; ++round) {
    net_run(context);
    net_expect(context, 0, NUMBERS(5, 5, 5), DIMS(3));
    net_expect(context, 1, NUMBERS(0), SCALAR);
  }
  tercel_context_destroy(context);
}

/* ---- optionals ---- */

static void test_optionals(void **state) {
  (void)state;
  tercel_context *context =
      net_open("graph \"net\" (%o: opt(f32[2]), %x: f32[2]) {\n"
               "  %h = optional_has(%o)\n"
               "  %y = if(%h, %o, %x) captures 2 do {\n"
               "    graph \"then\" (%p: opt(f32[2]), %z: f32[2]) { %r = optional_get(%p) return %r }\n"
               "    graph \"else\" (%p: opt(f32[2]), %z: f32[2]) { %r = optional_get(%z) return %r }\n"
               "  }\n"
               "  %w = optional_construct(%x)\n"
               "  %e = optional_construct()\n"
               "  %g = optional_has(%e)\n"
               "  return %y, %h, %w, %g\n}\n");
  tercel_error err = {0};
  float a[2] = {1, 2}, x[2] = {3, 4};
  const tercel_view view = net_view(TERCEL_DTYPE_F32, a, DIMS(2));
  net_set(context, 1, TERCEL_DTYPE_F32, x, DIMS(2));
  for (int round = 0; round < 2; ++round) {
    assert_ok(tercel_context_set_input_elements(context, 0, &view, 1, &err), &err);
    net_run(context);
    net_expect(context, 0, NUMBERS(1, 2), DIMS(2));
    net_expect(context, 1, NUMBERS(1), SCALAR);
    net_expect(context, 3, NUMBERS(0), SCALAR);
    assert_ok(tercel_context_set_input_elements(context, 0, NULL, 0, &err), &err);
    net_run(context);
    net_expect(context, 0, NUMBERS(3, 4), DIMS(2));
    net_expect(context, 1, NUMBERS(0), SCALAR);
  }
  tercel_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_if),
                                     cmocka_unit_test(test_loop),
                                     cmocka_unit_test(test_growing_loop),
                                     cmocka_unit_test(test_loop_of_strings),
                                     cmocka_unit_test(test_nested_loops),
                                     cmocka_unit_test(test_endless_loop_is_cancelled),
                                     cmocka_unit_test(test_scan),
                                     cmocka_unit_test(test_sequences),
                                     cmocka_unit_test(test_sequence_inputs),
                                     cmocka_unit_test(test_sequence_split),
                                     cmocka_unit_test(test_sequence_in_loop),
                                     cmocka_unit_test(test_optionals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
