/* Operators that users register: what their functions see, what becomes of what they do, and what they must not do.
 * Loading files that use them: test_custom_load.c. */
#include "runtime/custom.h"

/* ---- registering --------------------------------------------------------------------------------------------------- */

static tercel_status run_nothing(const tercel_call *call, tercel_error *err) {
  (void)call;
  (void)err;
  return TERCEL_OK;
}

static void refuse(tercel_operators *set, const tercel_operator *op, const char *part) {
  tercel_error err = {0};
  assert_fails(tercel_operators_add(set, op, &err), TERCEL_INVALID_ARGUMENT, &err, part);
}

static void test_what_cannot_be_registered(void **state) {
  (void)state;
  const tercel_operator good = custom_operator("Good", run_nothing);
  tercel_operators *const set = custom_set(&good);
  tercel_operator op = good;
  refuse(set, &op, "operator test.Good: the set has one for versions 1 to 0 already");
  op.first_version = 7;
  refuse(set, &op, "already");
  op = custom_operator("Other", NULL);
  refuse(set, &op, "it has no run");
  op = custom_operator(NULL, run_nothing);
  refuse(set, &op, "no name");
  op = custom_operator("", run_nothing);
  refuse(set, &op, "no name");
  op = custom_operator("Other", run_nothing);
  op.size = 8;
  refuse(set, &op, "tercel_operator.size is 8");
  op = custom_operator("Other", run_nothing);
  op.min_outputs = 0;
  refuse(set, &op, "0 to 1 outputs");
  op = custom_operator("Other", run_nothing);
  op.max_inputs = 0;
  refuse(set, &op, "1 to 0 inputs");
  op = custom_operator("Other", run_nothing);
  op.min_inputs = 0;
  refuse(set, &op, "it needs infer");
  op = custom_operator("Other", run_nothing);
  op.last_version = -1;
  refuse(set, &op, "versions 1 to -1");
  op = custom_operator("Other", run_nothing);
  op.flags = 64;
  refuse(set, &op, "flags 0x40");
  op = custom_operator("Other", run_nothing);
  op.num_attributes = 2;
  refuse(set, &op, "2 attributes at NULL");
  const tercel_attribute twice[] = {{"a", TERCEL_ATTRIBUTE_INT, 0}, {"a", TERCEL_ATTRIBUTE_INTS, 0}};
  op.attributes = twice;
  refuse(set, &op, "attribute 'a' is listed twice");
  const tercel_attribute strange[] = {{"a", (tercel_attribute_type)77, 0}, {NULL, TERCEL_ATTRIBUTE_INT, 0}};
  op.attributes = strange;
  refuse(set, &op, "of no type there is: 77");
  op.attributes = strange + 1;
  op.num_attributes = 1;
  refuse(set, &op, "attribute 0 has no name");
  op = custom_operator("Relu", run_nothing);
  op.domain = "ai.onnx";
  refuse(set, &op, "TERCEL_OPERATOR_REPLACES");
  op.domain = NULL;
  refuse(set, &op, "TERCEL_OPERATOR_REPLACES");
  tercel_operators_destroy(set);
}

static void test_versions_may_stand_side_by_side(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_operator op = custom_operator("Op", run_nothing);
  op.last_version = 3;
  tercel_operators *const set = custom_set(&op);
  op.first_version = 4;
  op.last_version = 0;
  assert_ok(tercel_operators_add(set, &op, &err), &err);
  assert_int_equal(tercel_operators_find(set, "test", "Op", 3, NULL)->is.first_version, 1);
  assert_int_equal(tercel_operators_find(set, "test", "Op", 9, NULL)->is.first_version, 4);
  const tercel_custom *other = NULL;
  assert_null(tercel_operators_find(set, "test", "Op", 0, &other));
  assert_non_null(other);
  assert_null(tercel_operators_find(set, "best", "Op", 1, &other));
  assert_null(other);
  tercel_operators_destroy(set);
}

/* ---- shapes and attributes ----------------------------------------------------------------------------------------- */

/* test.Tile(x: [r, c], [offset: scalar]) -> [r * times, c + pad]: x repeated downwards; what is beyond its columns is the offset, or 0. */
static const tercel_attribute tile_attributes[] = {
    {"times", TERCEL_ATTRIBUTE_INT, 1},     {"pad", TERCEL_ATTRIBUTE_FLOAT, 0},
    {"name", TERCEL_ATTRIBUTE_STRING, 0},   {"ints", TERCEL_ATTRIBUTE_INTS, 0},
    {"floats", TERCEL_ATTRIBUTE_FLOATS, 0}, {"strings", TERCEL_ATTRIBUTE_STRINGS, 0}};

static tercel_status infer_tile(const tercel_inference *inference, tercel_error *err) {
  int64_t times = 0;
  double pad = 0;
  const tercel_spec *const x = inference->inputs[0];
  tercel_spec *const y = inference->outputs[0];
  TERCEL_TRY(tercel_node_get_int(inference->node, "times", &times, err));
  TERCEL_TRY(tercel_node_get_float(inference->node, "pad", &pad, err));
  y->dtype = x->dtype;
  y->rank = 2;
  TERCEL_TRY(tercel_inference_dim(inference, x->dims[0], '*', times, &y->dims[0], err));
  return tercel_inference_dim(inference, x->dims[1], '+', (int64_t)pad, &y->dims[1], err);
}

static void tile_rows(void *arg, int64_t begin, int64_t end, int thread) {
  const tercel_call *const call = arg;
  const tercel_view *const x = call->inputs[0], *const y = call->outputs[0];
  assert_true(thread >= 0 && thread < tercel_call_num_threads(call));
  const float rest = call->num_inputs > 1 && call->inputs[1] != NULL ? *(const float *)call->inputs[1]->data : 0;
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < y->dims[1]; ++j)
      ((float *)y->data)[i * y->dims[1] + j] =
          j < x->dims[1] ? ((const float *)x->data)[i % x->dims[0] * x->dims[1] + j] : rest;
}

static tercel_status run_tile(const tercel_call *call, tercel_error *err) {
  const char *name = "none";
  assert_string_equal(tercel_node_get_name(call->node), "tile");
  TERCEL_TRY(tercel_node_get_string(call->node, "name", &name, err));
  assert_string_equal(name, "none");
  char *const scratch = tercel_call_scratch(call, 100);
  assert_non_null(scratch);
  assert_int_equal((uintptr_t)scratch % 64, 0);
  for (int i = 0; i < 100; ++i) assert_int_equal(scratch[i], 0);
  memset(scratch, 1, 100);
  tercel_call_parallel(call, call->outputs[0]->dims[0], 0, tile_rows, (void *)(uintptr_t)call);
  return TERCEL_OK;
}

static tercel_operator tile_operator(void) {
  tercel_operator op = custom_operator("Tile", run_tile);
  op.max_inputs = 2;
  op.attributes = tile_attributes;
  op.num_attributes = sizeof tile_attributes / sizeof *tile_attributes;
  op.infer = infer_tile;
  return op;
}

static void test_shapes_follow_from_the_callback(void **state) {
  (void)state;
  const tercel_operator op = tile_operator();
  tercel_context *const context = custom_open(custom_set(&op), "Tile",
                                              "graph \"g\" (%x: f32[n, m]) {\n"
                                              "  %t = \"test.Tile\"(%x) {times = 2, pad = 1} named \"tile\"\n"
                                              "  %y = pointwise(%t) {program = {1: neg(%0)}}\n"
                                              "  return %y\n}\n",
                                              true);
  float x[] = {1, 2, 3, 4, 5, 6};
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(2, 3));
  net_run(context);
  net_expect(context, 0, NUMBERS(-1, -2, -3, 0, -4, -5, -6, 0, -1, -2, -3, 0, -4, -5, -6, 0), DIMS(4, 4));
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(1, 1));
  net_run(context);
  net_expect(context, 0, NUMBERS(-1, 0, -1, 0), DIMS(2, 2));
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(0, 3));
  net_run(context);
  net_expect(context, 0, NOTHING, DIMS(0, 4));
  tercel_profile_row row;
  assert_true(tercel_context_get_profile(context, 0, &row));
  assert_string_equal(row.op, "test.Tile");
  assert_string_equal(row.tactic, "custom");
  assert_string_equal(row.name, "tile");
  assert_int_equal(row.num_runs, 3);
  tercel_context_destroy(context);
}

static void test_symbolic_dims_and_optional_input(void **state) {
  (void)state;
  tercel_error err = {0};
  const tercel_operator op = tile_operator();
  tercel_operators *const set = custom_set(&op);
  tercel_engine *engine = NULL;
  assert_ok(custom_try_build(set, "Tile",
                             "graph \"g\" (%x: f32[n, 2], %o: f32[]) {\n"
                             "  %y = \"test.Tile\"(%x, %o) {times = 3, pad = 1} named \"tile\"\n  return %y\n}\n",
                             true, &engine, &err),
            &err);
  tercel_operators_destroy(set);
  tercel_io io;
  assert_ok(tercel_engine_get_output(engine, 0, &io, &err), &err);
  assert_string_equal(io.symbols[0], "3*n");
  assert_int_equal(io.dims[1], 3);
  tercel_context *context = NULL;
  assert_ok(tercel_context_create(engine, NULL, &context, &err), &err);
  tercel_engine_destroy(engine);
  float x[] = {1, 2}, o = 9;
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(1, 2));
  net_set(context, 1, TERCEL_DTYPE_F32, &o, SCALAR);
  net_run(context);
  net_expect(context, 0, NUMBERS(1, 2, 9, 1, 2, 9, 1, 2, 9), DIMS(3, 3));
  tercel_context_destroy(context);
}

static tercel_status infer_attributes(const tercel_inference *inference, tercel_error *err) {
  const char *text = NULL;
  const char *const *texts = NULL;
  const int64_t *ints = NULL;
  const double *floats = NULL;
  int64_t number = 5;
  size_t count = 77;
  const tercel_node *const node = inference->node;
  TERCEL_TRY(tercel_node_get_string(node, "name", &text, err));
  assert_string_equal(text, "a b");
  TERCEL_TRY(tercel_node_get_ints(node, "ints", &ints, &count, err));
  assert_int_equal(count, 2);
  assert_int_equal(ints[1], -4);
  TERCEL_TRY(tercel_node_get_floats(node, "floats", &floats, &count, err));
  assert_int_equal(count, 1);
  assert_true(floats[0] > 0.24 && floats[0] < 0.26);
  TERCEL_TRY(tercel_node_get_strings(node, "strings", &texts, &count, err));
  assert_int_equal(count, 2);
  assert_string_equal(texts[1], "q");
  assert_fails(tercel_node_get_int(node, "nobody", &number, err), TERCEL_INVALID_ARGUMENT, err,
               "'nobody' is not listed");
  assert_fails(tercel_node_get_int(node, "name", &number, err), TERCEL_INVALID_ARGUMENT, err, "'name' is not listed");
  assert_int_equal(number, 5);
  double pad = 2.5;
  TERCEL_TRY(tercel_node_get_float(node, "pad", &pad, err));
  assert_true(pad > 2.4);
  *inference->outputs[0] = *inference->inputs[0];
  return TERCEL_OK;
}

static void test_attributes(void **state) {
  (void)state;
  tercel_operator op = tile_operator();
  op.infer = infer_attributes;
  op.run = run_nothing;
  tercel_context_destroy(custom_open(custom_set(&op), "Tile",
                                     "graph \"g\" (%x: f32[n, 2]) {\n"
                                     "  %y = \"test.Tile\"(%x) {times = 1, name = \"a b\", ints = [3, -4], "
                                     "floats = [0.25], strings = [\"p\", \"q\"]}\n  return %y\n}\n",
                                     true));
}

/* ---- shapes that only the data tells ------------------------------------------------------------------------------- */

/* The elements above 0. */
static tercel_status run_keep(const tercel_call *call, tercel_error *err) {
  const tercel_view *const x = call->inputs[0];
  const float *const from = x->data;
  int64_t count = 0, n = 1;
  for (int d = 0; d < x->rank; ++d) n *= x->dims[d];
  for (int64_t i = 0; i < n; ++i) count += from[i] > 0;
  assert_int_equal(call->outputs[0]->rank, -1);
  TERCEL_TRY(tercel_call_shape_output(call, 0, 1, &count, err));
  TERCEL_TRY(tercel_call_shape_output(call, 0, 1, &count, err)); /* the same again: fine */
  float *to = call->outputs[0]->data;
  for (int64_t i = 0; i < n; ++i)
    if (from[i] > 0) *to++ = from[i];
  return TERCEL_OK;
}

static void test_kernel_sizes_its_output(void **state) {
  (void)state;
  const tercel_operator op = custom_operator("Keep", run_keep);
  tercel_context *const context = custom_open(custom_set(&op), "Keep",
                                              "graph \"g\" (%x: f32[n, 2]) {\n"
                                              "  %k = \"test.Keep\"(%x)\n"
                                              "  %y = pointwise(%k) {program = {1: neg(%0)}}\n"
                                              "  return %y, %k\n}\n",
                                              true);
  float x[] = {1, -2, 3, 4, -5, -6};
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(3, 2));
  net_run(context);
  net_expect(context, 0, NUMBERS(-1, -3, -4), DIMS(3));
  net_set(context, 0, TERCEL_DTYPE_F32, x + 4, DIMS(1, 2));
  net_run(context);
  net_expect(context, 1, NOTHING, DIMS(0));
  tercel_context_destroy(context);
}

static tercel_status infer_strings(const tercel_inference *inference, tercel_error *err) {
  (void)err;
  *inference->outputs[0] = *inference->inputs[0];
  inference->outputs[0]->dtype = TERCEL_DTYPE_STRING;
  return TERCEL_OK;
}

/* Each number as that many letters x. */
static tercel_status run_strings(const tercel_call *call, tercel_error *err) {
  const tercel_view *const x = call->inputs[0];
  const int64_t *const from = x->data;
  size_t total = 0;
  for (int64_t i = 0; i < x->dims[0]; ++i) total += (size_t)from[i];
  char *characters = NULL;
  TERCEL_TRY(tercel_call_shape_strings(call, 0, x->rank, x->dims, total, &characters, err));
  memset(characters, 'x', total);
  tercel_string *const to = call->outputs[0]->data;
  for (int64_t i = 0; i < x->dims[0]; ++i) {
    assert_null(to[i].data);
    to[i] = (tercel_string){characters, (size_t)from[i]};
    characters += from[i];
  }
  return TERCEL_OK;
}

static const char strings_text[] = "graph \"g\" (%x: i64[n]) {\n  %y = \"test.Strings\"(%x)\n  return %y\n}\n";

static void test_strings(void **state) {
  (void)state;
  tercel_operator op = custom_operator("Strings", run_strings);
  op.infer = infer_strings;
  op.flags = TERCEL_OPERATOR_SHAPES;
  tercel_context *const context = custom_open(custom_set(&op), "Strings", strings_text, true);
  int64_t x[] = {2, 0, 3};
  net_set(context, 0, TERCEL_DTYPE_I64, x, DIMS(3));
  net_run(context);
  const tercel_view y = net_output(context, 0);
  const tercel_string *const texts = y.data;
  assert_int_equal(texts[0].length, 2);
  assert_int_equal(texts[1].length, 0);
  assert_memory_equal(texts[2].data, "xxx", 3);
  tercel_context_destroy(context);
}

/* ---- contents ------------------------------------------------------------------------------------------------------ */

/* x cut to the rows that the list says: [count, of x]. */
static tercel_status infer_cut(const tercel_inference *inference, tercel_error *err) {
  (void)err;
  int64_t rows = -1;
  const int64_t count = tercel_inference_ints(inference, 1, &rows, 1);
  *inference->outputs[0] = *inference->inputs[0];
  inference->outputs[0]->dims[0] = count == 1 && rows >= 0 ? rows : TERCEL_UNKNOWN_DIM;
  return TERCEL_OK;
}

static tercel_status run_cut(const tercel_call *call, tercel_error *err) {
  (void)err;
  memcpy(call->outputs[0]->data, call->inputs[0]->data, call->outputs[0]->bytes);
  return TERCEL_OK;
}

static void test_contents_shape_the_output(void **state) {
  (void)state;
  tercel_operator op = custom_operator("Cut", run_cut);
  op.min_inputs = op.max_inputs = 2;
  op.infer = infer_cut;
  tercel_context *const context = custom_open(custom_set(&op), "Cut",
                                              "graph \"g\" (%x: f32[n, 2], %r: i64[1]) {\n"
                                              "  %y = \"test.Cut\"(%x, %r)\n  return %y\n}\n",
                                              true);
  float x[] = {1, 2, 3, 4};
  int64_t rows = 1;
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(2, 2));
  net_set(context, 1, TERCEL_DTYPE_I64, &rows, DIMS(1));
  net_run(context);
  net_expect(context, 0, NUMBERS(1, 2), DIMS(1, 2));
  rows = 2;
  net_run(context);
  net_expect(context, 0, NUMBERS(1, 2, 3, 4), DIMS(2, 2));
  tercel_context_destroy(context);
}

/* ---- state and lifetimes ------------------------------------------------------------------------------------------- */

typedef struct counts {
  int created, destroyed, runs, released;
} counts;

static tercel_status create_sum(const tercel_node *node, void *user, void **state_out, tercel_error *err) {
  (void)err;
  ((counts *)user)->created++;
  const tercel_view *const weights = tercel_node_get_constant(node, 1);
  assert_non_null(weights);
  assert_null(tercel_node_get_constant(node, 0));
  assert_null(tercel_node_get_constant(node, 5));
  float *const sum = tercel_zalloc(sizeof *sum);
  for (int64_t i = 0; i < weights->dims[0]; ++i) *sum += ((const float *)weights->data)[i];
  *state_out = sum;
  return TERCEL_OK;
}

static void destroy_sum(void *state, void *user) {
  ((counts *)user)->destroyed++;
  tercel_free(state);
}

static void release(void *user) { ((counts *)user)->released++; }

static tercel_status infer_same(const tercel_inference *inference, tercel_error *err) {
  (void)err;
  for (size_t i = 0; i < inference->num_outputs; ++i)
    if (inference->outputs[i] != NULL) *inference->outputs[i] = *inference->inputs[0];
  return TERCEL_OK;
}

/* x plus the state. */
static tercel_status run_sum(const tercel_call *call, tercel_error *err) {
  (void)err;
  ((counts *)call->user)->runs++;
  for (size_t i = 0; i < call->outputs[0]->bytes / sizeof(float); ++i)
    ((float *)call->outputs[0]->data)[i] = ((const float *)call->inputs[0]->data)[i] + *(const float *)call->state;
  return TERCEL_OK;
}

static void test_state_and_release(void **state) {
  (void)state;
  counts seen = {0};
  tercel_operator op = custom_operator("Sum", run_sum);
  op.min_inputs = op.max_inputs = 2;
  op.infer = infer_same;
  op.create = create_sum;
  op.destroy = destroy_sum;
  op.user = &seen;
  op.release = release;
  tercel_context *const context = custom_open(custom_set(&op), "Sum",
                                              "graph \"g\" (%x: f32[n]) {\n"
                                              "  %w: f32[3] = constant data(1, 2, 4)\n"
                                              "  %y = \"test.Sum\"(%x, %w)\n  return %y\n}\n",
                                              true);
  float x[] = {10, 20};
  for (int i = 0; i < 3; ++i) {
    net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(2));
    net_run(context);
    net_expect(context, 0, NUMBERS(17, 27), DIMS(2));
  }
  assert_int_equal(seen.created, 1);
  assert_int_equal(seen.runs, 3);
  assert_int_equal(seen.released + seen.destroyed, 0);
  tercel_context_destroy(context);
  assert_int_equal(seen.destroyed, 1);
  assert_int_equal(seen.released, 1);
}

static void test_a_refused_operator_is_not_taken(void **state) {
  (void)state;
  counts seen = {0};
  tercel_operator op = custom_operator("Op", run_nothing);
  op.user = &seen;
  op.release = release;
  tercel_operators *const set = custom_set(&op);
  refuse(set, &op, "already");
  assert_int_equal(seen.released, 0);
  tercel_operators_destroy(set);
  assert_int_equal(seen.released, 1);
}

/* ---- the optimizer ------------------------------------------------------------------------------------------------- */

static tercel_status run_count(const tercel_call *call, tercel_error *err) {
  (void)err;
  ((counts *)call->user)->runs++;
  for (size_t i = 0; i < call->num_outputs; ++i)
    if (call->outputs[i] != NULL) memcpy(call->outputs[i]->data, call->inputs[0]->data, call->inputs[0]->bytes);
  return TERCEL_OK;
}

/* Twice the same of x, and once of a constant. */
static int count_runs(unsigned flags) {
  counts seen = {0};
  tercel_operator op = custom_operator("Count", run_count);
  op.flags = flags;
  op.infer = infer_same;
  op.user = &seen;
  tercel_context *const context = custom_open(custom_set(&op), "Count",
                                              "graph \"g\" (%x: f32[2]) {\n"
                                              "  %w: f32[2] = constant data(1, 2)\n"
                                              "  %a = \"test.Count\"(%x)\n"
                                              "  %b = \"test.Count\"(%x)\n"
                                              "  %c = \"test.Count\"(%w)\n"
                                              "  %d = \"test.Count\"(%x)\n" /* nobody reads it */
                                              "  return %a, %b, %c\n}\n",
                                              true);
  float x[] = {5, 6};
  seen.runs = 0; /* what was folded ran before */
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(2));
  net_run(context);
  net_expect(context, 0, NUMBERS(5, 6), DIMS(2));
  net_expect(context, 1, NUMBERS(5, 6), DIMS(2));
  net_expect(context, 2, NUMBERS(1, 2), DIMS(2));
  tercel_context_destroy(context);
  return seen.runs;
}

static void test_only_pure_operators_are_folded_and_merged(void **state) {
  (void)state;
  assert_int_equal(count_runs(0), 3);
  assert_int_equal(count_runs(TERCEL_OPERATOR_PURE), 1);
}

static void test_outputs_that_nobody_reads(void **state) {
  (void)state;
  counts seen = {0};
  tercel_operator op = custom_operator("Count", run_count);
  op.max_outputs = 3;
  op.infer = infer_same;
  op.user = &seen;
  tercel_context *const context =
      custom_open(custom_set(&op), "Count",
                  "graph \"g\" (%x: f32[2]) {\n  %a, %b, %c = \"test.Count\"(%x)\n  return %c\n}\n", true);
  float x[] = {5, 6};
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(2));
  net_run(context);
  net_expect(context, 0, NUMBERS(5, 6), DIMS(2));
  tercel_context_destroy(context);
}

/* ---- functions that do wrong --------------------------------------------------------------------------------------- */

typedef enum fault {
  INFER_FAILS,
  INFER_FAILS_SILENTLY,
  INFER_NO_DTYPE,
  INFER_BAD_DTYPE,
  INFER_BAD_RANK,
  INFER_BAD_DIM,
  INFER_NEGATIVE_DIM,
  INFER_HUGE,
  INFER_HUGE_DIMS,
  INFER_STRINGS,
  CREATE_FAILS,
  RUN_FAILS,
  RUN_BAD_STATUS,
  RUN_LONG_MESSAGE,
  RUN_MOVES_OUTPUT,
  RUN_RESHAPES,
  RUN_RETYPES,
  RUN_SHAPES_AGAIN,
  NUM_FAULTS
} fault;

static const struct {
  tercel_status status;
  const char *message;
} expected[NUM_FAULTS] = {
    [INFER_FAILS] = {TERCEL_INVALID_MODEL, "test.Bad 'node': because I say so"},
    [INFER_FAILS_SILENTLY] = {TERCEL_UNSUPPORTED, "test.Bad 'node': its infer failed: unsupported"},
    [INFER_NO_DTYPE] = {TERCEL_INVALID_ARGUMENT, "test.Bad 'node': its infer gives output 0 the dtype 0"},
    [INFER_BAD_DTYPE] = {TERCEL_INVALID_ARGUMENT, "the dtype 99"},
    [INFER_BAD_RANK] = {TERCEL_INVALID_ARGUMENT, "its infer gives output 0 rank 9, want -1 .. 8"},
    [INFER_BAD_DIM] = {TERCEL_INVALID_ARGUMENT, "its infer gives dim 0 of output 0 as -77777"},
    [INFER_NEGATIVE_DIM] = {TERCEL_INVALID_ARGUMENT, "its infer gives dim 0 of output 0 as -3"},
    [INFER_HUGE] = {TERCEL_OUT_OF_MEMORY, "too large to address"},
    [INFER_HUGE_DIMS] = {TERCEL_INVALID_MODEL, "test.Bad 'node': a dim is too large"},
    [INFER_STRINGS] = {TERCEL_INVALID_ARGUMENT, "TERCEL_OPERATOR_SHAPES"},
    [CREATE_FAILS] = {TERCEL_OUT_OF_MEMORY, "test.Bad 'node': no state today"},
    [RUN_FAILS] = {TERCEL_CANCELLED, "test.Bad 'node': never"},
    [RUN_BAD_STATUS] = {TERCEL_INVALID_ARGUMENT, "test.Bad 'node': its run returned 1234, which is no status"},
    [RUN_LONG_MESSAGE] = {TERCEL_IO, "test.Bad 'node': aaaaaaaa"},
    [RUN_MOVES_OUTPUT] = {TERCEL_INVALID_ARGUMENT, "changed the type, shape or place of output 0"},
    [RUN_RESHAPES] = {TERCEL_INVALID_ARGUMENT, "changed the type, shape or place of output 0"},
    [RUN_RETYPES] = {TERCEL_INVALID_ARGUMENT, "changed the type, shape or place of output 0"},
    [RUN_SHAPES_AGAIN] = {TERCEL_INVALID_ARGUMENT, "output 0 has a shape already, and another one"},
};

static tercel_status infer_bad(const tercel_inference *inference, tercel_error *err) {
  tercel_spec *const out = inference->outputs[0];
  *out = *inference->inputs[0];
  switch (*(const fault *)inference->user) {
  case INFER_FAILS: return tercel_error_set(err, TERCEL_INVALID_MODEL, "because %s say so", "I");
  case INFER_FAILS_SILENTLY: return TERCEL_UNSUPPORTED;
  case INFER_NO_DTYPE: out->dtype = TERCEL_DTYPE_NONE; break;
  case INFER_BAD_DTYPE: out->dtype = (tercel_dtype)99; break;
  case INFER_BAD_RANK: out->rank = 9; break;
  case INFER_BAD_DIM: out->dims[0] = -77777; break;
  case INFER_NEGATIVE_DIM: return tercel_inference_dim(inference, 2, '-', 5, &out->dims[0], err);
  case INFER_HUGE:
    out->rank = 2;
    out->dims[0] = out->dims[1] = INT64_C(1) << 40;
    break;
  case INFER_HUGE_DIMS: return tercel_inference_dim(inference, INT64_MAX, '*', 9, &out->dims[0], err);
  case INFER_STRINGS: out->dtype = TERCEL_DTYPE_STRING; break;
  default: break;
  }
  return TERCEL_OK;
}

static tercel_status create_bad(const tercel_node *node, void *user, void **state_out, tercel_error *err) {
  (void)node;
  (void)state_out;
  return *(const fault *)user == CREATE_FAILS ? tercel_error_set(err, TERCEL_OUT_OF_MEMORY, "no state today")
                                              : TERCEL_OK;
}

static tercel_status run_bad(const tercel_call *call, tercel_error *err) {
  static float elsewhere[4];
  tercel_view *const out = call->outputs[0];
  memset(out->data, 0, out->bytes);
  switch (*(const fault *)call->user) {
  case RUN_FAILS: return tercel_error_set(err, TERCEL_CANCELLED, "never");
  case RUN_BAD_STATUS: return (tercel_status)1234;
  case RUN_LONG_MESSAGE: memset(err->message, 'a', sizeof err->message); return TERCEL_IO; /* and not ended */
  case RUN_MOVES_OUTPUT: out->data = elsewhere; break;
  case RUN_RESHAPES: out->dims[0]++; break;
  case RUN_RETYPES: out->dtype = TERCEL_DTYPE_I32; break;
  case RUN_SHAPES_AGAIN: return tercel_call_shape_output(call, 0, 1, &(int64_t){7}, err);
  default: break;
  }
  return TERCEL_OK;
}

static tercel_status build_and_run(tercel_operators *set, tercel_error *err) {
  tercel_engine *engine = NULL;
  tercel_context *context = NULL;
  float x[] = {1, 2};
  TERCEL_TRY(custom_try_build(set, "Bad",
                              "graph \"g\" (%x: f32[n]) {\n  %y = \"test.Bad\"(%x) named \"node\"\n  return %y\n}\n",
                              true, &engine, err));
  tercel_status status = tercel_context_create(engine, NULL, &context, err);
  tercel_engine_destroy(engine);
  const tercel_view view = net_view(TERCEL_DTYPE_F32, x, DIMS(2));
  if (status == TERCEL_OK) status = tercel_context_set_input(context, 0, &view, err);
  if (status == TERCEL_OK) status = tercel_context_run(context, err);
  tercel_context_destroy(context);
  return status;
}

static void test_faults_are_errors(void **state) {
  (void)state;
  for (int i = 0; i <= NUM_FAULTS; ++i) {
    fault which = (fault)i;
    tercel_operator op = custom_operator("Bad", run_bad);
    op.infer = infer_bad;
    op.create = create_bad;
    op.user = &which;
    tercel_operators *const set = custom_set(&op);
    tercel_error err = {0};
    const tercel_status status = build_and_run(set, &err);
    if (i < NUM_FAULTS)
      assert_fails(status, expected[i].status, &err, expected[i].message);
    else
      assert_ok(status, &err); /* no fault at all */
    tercel_operators_destroy(set);
  }
}

typedef enum shaping {
  SHAPES_NOTHING,
  SHAPES_NEGATIVE,
  SHAPES_TOO_DEEP,
  SHAPES_HUGE,
  SHAPES_MUCH,
  SHAPES_NO_OUTPUT,
  SHAPES_TWICE,
  SHAPES_AS_STRINGS,
  SHAPES_OTHER_RANK,
  SHAPES_OTHER_DIM,
  NUM_SHAPINGS
} shaping;

static const struct {
  tercel_status status;
  const char *message;
} expected_shaping[NUM_SHAPINGS] = {
    [SHAPES_NOTHING] = {TERCEL_INVALID_ARGUMENT, "test.Shape 'node': its run did not shape output 0"},
    [SHAPES_NEGATIVE] = {TERCEL_INVALID_ARGUMENT, "output 0: dim 1 is -1"},
    [SHAPES_TOO_DEEP] = {TERCEL_INVALID_ARGUMENT, "output 0: rank 9, want 0 .. 8"},
    [SHAPES_HUGE] = {TERCEL_OUT_OF_MEMORY, "too large to address"},
    [SHAPES_MUCH] = {TERCEL_OUT_OF_MEMORY, "test.Shape 'node'"},
    [SHAPES_NO_OUTPUT] = {TERCEL_INVALID_ARGUMENT, "there is no output 3, only 1"},
    [SHAPES_TWICE] = {TERCEL_INVALID_ARGUMENT, "has a shape already"},
    [SHAPES_AS_STRINGS] = {TERCEL_INVALID_ARGUMENT, "output 0 is of f32, not of strings"},
    [SHAPES_OTHER_RANK] = {TERCEL_INVALID_ARGUMENT, "output 0 becomes [3], but the graph says [?"},
    [SHAPES_OTHER_DIM] = {TERCEL_INVALID_ARGUMENT, "output 0 becomes [2, 4], but the graph says [?"},
};

static tercel_status infer_shape(const tercel_inference *inference, tercel_error *err) {
  (void)err;
  *inference->outputs[0] = (tercel_spec){TERCEL_DTYPE_F32, 2, {TERCEL_UNKNOWN_DIM, 3}};
  return TERCEL_OK;
}

static tercel_status run_shape(const tercel_call *call, tercel_error *err) {
  char *characters;
  switch (*(const shaping *)call->user) {
  case SHAPES_NEGATIVE: return tercel_call_shape_output(call, 0, DIMS(1, -1), err);
  case SHAPES_TOO_DEEP: return tercel_call_shape_output(call, 0, DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1), err);
  case SHAPES_HUGE: return tercel_call_shape_output(call, 0, DIMS(INT64_MAX / 2, 3), err);
  case SHAPES_MUCH: return tercel_call_shape_output(call, 0, DIMS(INT64_C(1) << 50, 3), err);
  case SHAPES_NO_OUTPUT: return tercel_call_shape_output(call, 3, DIMS(1, 3), err);
  case SHAPES_TWICE:
    TERCEL_TRY(tercel_call_shape_output(call, 0, DIMS(1, 3), err));
    return tercel_call_shape_output(call, 0, DIMS(2, 3), err);
  case SHAPES_AS_STRINGS: return tercel_call_shape_strings(call, 0, DIMS(1, 3), 8, &characters, err);
  case SHAPES_OTHER_RANK: return tercel_call_shape_output(call, 0, DIMS(3), err);
  case SHAPES_OTHER_DIM: return tercel_call_shape_output(call, 0, DIMS(2, 4), err);
  default: return TERCEL_OK;
  }
}

static void test_faults_of_shaping(void **state) {
  (void)state;
  shaping which = SHAPES_NOTHING;
  tercel_operator op = custom_operator("Shape", run_shape);
  op.infer = infer_shape;
  op.flags = TERCEL_OPERATOR_SHAPES;
  op.user = &which;
  tercel_context *const context =
      custom_open(custom_set(&op), "Shape",
                  "graph \"g\" (%x: f32[n]) {\n  %y = \"test.Shape\"(%x) named \"node\"\n  return %y\n}\n", true);
  float x = 1;
  net_set(context, 0, TERCEL_DTYPE_F32, &x, DIMS(1));
  for (int i = 0; i < NUM_SHAPINGS; ++i) {
    tercel_error err = {0};
    which = (shaping)i;
    assert_fails(tercel_context_run(context, &err), expected_shaping[i].status, &err, expected_shaping[i].message);
  }
  tercel_context_destroy(context);
}

static tercel_status infer_dims(const tercel_inference *inference, tercel_error *err) {
  const tercel_spec *const x = inference->inputs[0];
  tercel_spec *const y = inference->outputs[0];
  int64_t other = 0;
  assert_fails(tercel_inference_dim(inference, 1, '%', 2, &other, err), TERCEL_INVALID_ARGUMENT, err, "operation");
  assert_fails(tercel_inference_dim(inference, 1, 0, 2, &other, err), TERCEL_INVALID_ARGUMENT, err, "operation");
  assert_fails(tercel_inference_dim(inference, 1, '/', 0, &other, err), TERCEL_INVALID_ARGUMENT, err, "by 0");
  assert_fails(tercel_inference_dim(inference, -99999, '+', 0, &other, err), TERCEL_INVALID_ARGUMENT, err, "are dims");
  TERCEL_TRY(tercel_inference_dim(inference, TERCEL_UNKNOWN_DIM, '+', 1, &other, err));
  assert_true(other == TERCEL_UNKNOWN_DIM);
  assert_int_equal(tercel_inference_ints(inference, 0, &other, 1), -1);
  assert_int_equal(tercel_inference_ints(inference, 9, &other, 1), -1);
  *y = (tercel_spec){x->dtype, 2, {0}};
  TERCEL_TRY(tercel_inference_dim(inference, x->dims[0], '-', 1, &other, err));
  TERCEL_TRY(tercel_inference_dim(inference, other, '+', 1, &y->dims[0], err));
  assert_int_equal(y->dims[0], x->dims[0]); /* equal dims are one number */
  return tercel_inference_dim(inference, x->dims[0], '/', 2, &y->dims[1], err);
}

static void test_arithmetic_on_dims(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_operator op = custom_operator("Dims", run_nothing);
  op.infer = infer_dims;
  tercel_operators *const set = custom_set(&op);
  tercel_engine *engine = NULL;
  assert_ok(custom_try_build(set, "Dims", "graph \"g\" (%x: f32[n]) {\n  %y = \"test.Dims\"(%x)\n  return %y\n}\n",
                             true, &engine, &err),
            &err);
  tercel_io io;
  assert_ok(tercel_engine_get_output(engine, 0, &io, &err), &err);
  assert_string_equal(io.symbols[0], "n");
  assert_string_equal(io.symbols[1], "floor_div(n, 2)");
  tercel_engine_destroy(engine);
  tercel_operators_destroy(set);
}

/* ---- text ---------------------------------------------------------------------------------------------------------- */

static void test_graphs_print_and_read_back(void **state) {
  (void)state;
  tercel_error err = {0};
  const tercel_operator op = tile_operator();
  tercel_operators *const set = custom_set(&op);
  tercel_engine *engine = NULL;
  assert_ok(custom_try_build(set, "Tile",
                             "graph \"g\" (%x: f32[n, 2]) {\n"
                             "  %y = \"test.Tile\"(%x) {times = 3} named \"tile\"\n  return %y\n}\n",
                             true, &engine, &err),
            &err);
  const struct {
    tercel_print what;
    const char *part;
  } prints[] = {{TERCEL_PRINT_TEXT, "%y: f32[3*n, 2] = \"test.Tile\"(%x) {times = 3} named \"tile\""},
                {TERCEL_PRINT_OPERATORS, "test.Tile            1\n"},
                {TERCEL_PRINT_PLAN, "custom"},
                {TERCEL_PRINT_DOT, "test.Tile"}};
  for (size_t i = 0; i < sizeof prints / sizeof *prints; ++i) {
    char *text = NULL;
    assert_ok(tercel_engine_print(engine, prints[i].what, &text, &err), &err);
    if (strstr(text, prints[i].part) == NULL) fail_msg("no '%s' in\n%s", prints[i].part, text);
    tercel_text_free(text);
  }
  tercel_engine_destroy(engine);
  tercel_operators_destroy(set);
}

/* ---- allocation ---------------------------------------------------------------------------------------------------- */

static tercel_status run_context(void *arg, tercel_error *err) { return tercel_context_run(arg, err); }

static void test_steady_runs_allocate_nothing(void **state) {
  (void)state;
  const tercel_operator op = tile_operator();
  tercel_context *const context = custom_open(
      custom_set(&op), "Tile",
      "graph \"g\" (%x: f32[n, 2]) {\n  %y = \"test.Tile\"(%x) {times = 3} named \"tile\"\n  return %y\n}\n", true);
  float x[] = {1, 2};
  net_set(context, 0, TERCEL_DTYPE_F32, x, DIMS(1, 2));
  net_run(context);
  net_run(context);
  assert_int_equal(tercel_test_count_allocations(run_context, context), 0);
  tercel_context_destroy(context);
}

static tercel_status whole_life(void *arg, tercel_error *err) {
  (void)arg;
  tercel_operators *set = NULL;
  tercel_engine *engine = NULL;
  tercel_context *context = NULL;
  int64_t x[] = {2, 0, 3};
  tercel_operator op = custom_operator("Strings", run_strings);
  op.infer = infer_strings;
  op.flags = TERCEL_OPERATOR_SHAPES | TERCEL_OPERATOR_PURE;
  tercel_status status;
  TERCEL_CHECK(tercel_operators_create(&set, err));
  TERCEL_CHECK(tercel_operators_add(set, &op, err));
  TERCEL_CHECK(custom_try_build(set, "Strings", strings_text, true, &engine, err));
  TERCEL_CHECK(tercel_context_create(engine, NULL, &context, err));
  const tercel_view view = net_view(TERCEL_DTYPE_I64, x, DIMS(3));
  TERCEL_CHECK(tercel_context_set_input(context, 0, &view, err));
  TERCEL_CHECK(tercel_context_run(context, err));
done:
  tercel_context_destroy(context);
  tercel_engine_destroy(engine);
  tercel_operators_destroy(set);
  return status;
}

static void test_failed_allocations(void **state) {
  (void)state;
  tercel_test_oom(whole_life, NULL, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_cannot_be_registered),
      cmocka_unit_test(test_versions_may_stand_side_by_side),
      cmocka_unit_test(test_shapes_follow_from_the_callback),
      cmocka_unit_test(test_symbolic_dims_and_optional_input),
      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_kernel_sizes_its_output),
      cmocka_unit_test(test_strings),
      cmocka_unit_test(test_contents_shape_the_output),
      cmocka_unit_test(test_state_and_release),
      cmocka_unit_test(test_a_refused_operator_is_not_taken),
      cmocka_unit_test(test_only_pure_operators_are_folded_and_merged),
      cmocka_unit_test(test_outputs_that_nobody_reads),
      cmocka_unit_test(test_faults_are_errors),
      cmocka_unit_test(test_faults_of_shaping),
      cmocka_unit_test(test_arithmetic_on_dims),
      cmocka_unit_test(test_graphs_print_and_read_back),
      cmocka_unit_test(test_steady_runs_allocate_nothing),
      cmocka_unit_test(test_failed_allocations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
