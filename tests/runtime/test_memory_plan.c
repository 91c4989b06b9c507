/* Memory plans: told before a run and equal to what the run takes; limits held when engines are built and when shapes come. */
#include "runtime/net.h"

static const char net[] = "graph \"net\" (%x: f32[n, 64]) {\n"
                          "  %k: f32[64, 64] = constant ramp()\n"
                          "  %a = matmul(%x, %k)\n"
                          "  %b = pointwise(%a) {program = {1: relu(%0)}}\n"
                          "  %c = matmul(%b, %k)\n"
                          "  %d = pointwise(%a, %c) {program = {2: add(%0, %1)}}\n"
                          "  %u = concat(%d, %d) {axis = 1}\n"
                          "  %s = softmax(%u) {axis = 1}\n"
                          "  return %s, %d\n}\n";

static tercel_memory_plan_info info_of(const tercel_memory_plan *plan) {
  tercel_memory_plan_info info = {.size = sizeof info};
  tercel_error err = {0};
  assert_ok(tercel_memory_plan_get_info(plan, &info, &err), &err);
  return info;
}

static uint64_t used_by(const tercel_context *context) {
  tercel_memory_info info = {.size = sizeof info};
  tercel_error err = {0};
  assert_ok(tercel_context_get_memory(context, &info, &err), &err);
  return info.activation_bytes;
}

static void check_plan(const tercel_memory_plan *plan) {
  const tercel_memory_plan_info info = info_of(plan);
  tercel_memory_block a, b;
  tercel_memory_step step;
  uint64_t most = 0;
  size_t num_steps = 0;
  for (; tercel_memory_plan_get_step(plan, num_steps, &step); ++num_steps) {
    uint64_t alive = 0;
    for (size_t i = 0; tercel_memory_plan_get_block(plan, i, &a); ++i)
      if (a.first <= num_steps && num_steps <= a.last) alive += a.bytes;
    assert_int_equal(alive, step.live_bytes);
    if (alive > most) most = alive;
  }
  assert_int_equal(num_steps, info.num_steps);
  assert_int_equal(most, info.live_bytes);
  assert_true(info.planned_bytes >= info.live_bytes);
  for (size_t i = 0; tercel_memory_plan_get_block(plan, i, &a); ++i) {
    assert_true(a.offset + a.bytes <= info.planned_bytes);
    for (size_t j = 0; j < i && tercel_memory_plan_get_block(plan, j, &b); ++j)
      assert_true(a.first > b.last || b.first > a.last || a.offset >= b.offset + b.bytes ||
                  b.offset >= a.offset + a.bytes);
  }
}

static void test_planned_is_measured(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_engine *engine = net_build(net);
  static float x[32 * 64];
  for (int64_t n = 1; n <= 32; n += 31) {
    const tercel_view view = {.dtype = TERCEL_DTYPE_F32, .rank = 2, .dims = {n, 64}};
    tercel_memory_plan *plan = NULL, *after = NULL;
    assert_ok(tercel_memory_plan_create(engine, &view, &plan, &err), &err);
    check_plan(plan);
    assert_null(info_of(plan).depends);
    tercel_context *context = NULL;
    assert_ok(tercel_context_create(engine, NULL, &context, &err), &err);
    assert_fails(tercel_memory_plan_of_run(context, &after, &err), TERCEL_INVALID_ARGUMENT, &err, "no run");
    net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(n, 64));
    net_run(context);
    assert_int_equal(used_by(context), info_of(plan).planned_bytes);
    assert_ok(tercel_memory_plan_of_run(context, &after, &err), &err);
    assert_int_equal(info_of(after).planned_bytes, info_of(plan).planned_bytes);
    tercel_memory_plan_destroy(plan);
    tercel_memory_plan_destroy(after);
    tercel_context_destroy(context);
  }
  tercel_engine_destroy(engine);
}

/* What the caller gives memory for is not taken again; and the context may be given it, and have it taken away, from run to run. */
static void test_bound_outputs(void **state) {
  (void)state;
  enum { BYTES = 1000 * sizeof(float) };
  tercel_error err = {0};
  tercel_context *context = net_open("graph \"net\" (%x: f32[n]) {\n"
                                     "  %y = pointwise(%x) {program = {1: neg(%0)}}\n  return %y\n}\n");
  static float x[1000], y[1000];
  for (int i = 0; i < 1000; ++i) x[i] = (float)(i % 13) - 6;
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(1000));
  const tercel_view memory = net_view(TERCEL_DTYPE_F32, y, DIMS(1000));
  assert_ok(tercel_context_bind_output(context, 0, &memory, &err), &err);
  net_run(context);
  assert_true(used_by(context) < BYTES);
  assert_ptr_equal(net_output(context, 0).data, y);
  assert_ok(tercel_context_bind_output(context, 0, NULL, &err), &err);
  net_run(context);
  assert_int_equal(used_by(context), BYTES);
  assert_ptr_not_equal(net_output(context, 0).data, y);
  assert_memory_equal(net_output(context, 0).data, y, BYTES);
  assert_ok(tercel_context_bind_output(context, 0, &memory, &err), &err);
  memset(y, 0, BYTES);
  net_run(context);
  assert_true(y[0] > 5);
  tercel_context_destroy(context);
}

static void test_data_ends_what_is_told(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_context *context = NULL;
  tercel_engine *engine = net_build("graph \"net\" (%x: f32[8]) {\n"
                                    "  %a = pointwise(%x) {program = {1: relu(%0)}}\n"
                                    "  %z = nonzero(%a)\n"
                                    "  %s = concat(%z, %z) {axis = 0}\n"
                                    "  return %s\n}\n");
  tercel_memory_plan *plan = NULL;
  assert_ok(tercel_memory_plan_create(engine, NULL, &plan, &err), &err);
  assert_string_equal(info_of(plan).depends, "z");
  assert_int_equal(info_of(plan).num_steps, 1);
  tercel_memory_plan_destroy(plan);
  float x[8] = {1, 0, 2, 3, 0, 0, 4, 5};
  assert_ok(tercel_context_create(engine, NULL, &context, &err), &err);
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(8));
  net_run(context);
  assert_ok(tercel_memory_plan_of_run(context, &plan, &err), &err);
  check_plan(plan);
  assert_null(info_of(plan).depends);
  assert_int_equal(info_of(plan).num_steps, 3);
  assert_int_equal(info_of(plan).planned_bytes, used_by(context));
  tercel_memory_plan_destroy(plan);
  tercel_context_destroy(context);
  tercel_engine_destroy(engine);
}

/* ---- limits -------------------------------------------------------------------------------------------------------- */

static const tercel_profile_shape shapes[] = {{"x", 2, {1, 64}, {8, 64}, {32, 64}}};
static const tercel_shape_profile profile = {shapes, 1};

static uint64_t planned_for_profile(void) {
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  tercel_memory_plan *plan = NULL;
  tercel_engine_options options = net_options();
  options.profiles = &profile;
  options.num_profiles = 1;
  assert_ok(net_try_build(net, &options, &engine, &err), &err);
  assert_ok(tercel_memory_plan_create(engine, NULL, &plan, &err), &err);
  const uint64_t bytes = info_of(plan).planned_bytes;
  tercel_memory_plan_destroy(plan);
  tercel_engine_destroy(engine);
  return bytes;
}

static void test_limits_at_build(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  tercel_engine_options options = net_options();
  options.profiles = &profile;
  options.num_profiles = 1;
  options.max_memory = planned_for_profile();
  assert_ok(net_try_build(net, &options, &engine, &err), &err);
  tercel_engine_destroy(engine);
  engine = NULL;
  --options.max_memory;
  assert_fails(net_try_build(net, &options, &engine, &err), TERCEL_OUT_OF_MEMORY, &err,
               "activations need 26.3 KiB, but max_memory allows 26.2 KiB (26880 and 26879 bytes)");
  options.num_profiles = 0; /* then any shape that needs no more */
  assert_ok(net_try_build(net, &options, &engine, &err), &err);
  static float x[32 * 64];
  tercel_context *context = NULL;
  assert_ok(tercel_context_create(engine, NULL, &context, &err), &err);
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(32, 64));
  assert_fails(tercel_context_run(context, &err), TERCEL_OUT_OF_MEMORY, &err, "activations need");
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(16, 64));
  net_run(context);
  tercel_context_destroy(context);
  tercel_engine_destroy(engine);
}

static void test_hostile_shapes(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_engine *engine = net_build(net);
  tercel_memory_plan *plan = NULL;
  static const int64_t sizes[] = {INT64_MAX, INT64_MAX / 64, INT64_MAX / 256, (int64_t)1 << 50, -1, INT64_MIN};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    const tercel_view view = {.dtype = TERCEL_DTYPE_F32, .rank = 2, .dims = {sizes[i], 64}};
    const tercel_status status = tercel_memory_plan_create(engine, &view, &plan, &err);
    assert_true(status == TERCEL_OUT_OF_MEMORY || status == TERCEL_INVALID_ARGUMENT);
  }
  const tercel_view ranks[] = {{.dtype = TERCEL_DTYPE_F32, .rank = 9}, {.dtype = TERCEL_DTYPE_F32, .rank = -2}};
  assert_fails(tercel_memory_plan_create(engine, &ranks[0], &plan, &err), TERCEL_INVALID_ARGUMENT, &err, "has no size");
  assert_fails(tercel_memory_plan_create(engine, &ranks[1], &plan, &err), TERCEL_INVALID_ARGUMENT, &err, "has no size");
  assert_fails(tercel_memory_plan_create(engine, NULL, &plan, &err), TERCEL_INVALID_ARGUMENT, &err,
               "memory depends on the shape of input 'x', which has free dims");
  tercel_engine_destroy(engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_planned_is_measured), cmocka_unit_test(test_bound_outputs),
                                     cmocka_unit_test(test_data_ends_what_is_told),
                                     cmocka_unit_test(test_limits_at_build), cmocka_unit_test(test_hostile_shapes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
