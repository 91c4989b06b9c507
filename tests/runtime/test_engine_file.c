/* Engine files: what is saved runs as what was built, at every level; the same engine gives the same bytes; whatever else is in a file is
 * refused with a message. */
#include "runtime/net.h"
#include "support/engine_repair.h"
#include "support/random_graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* One of each packer: panels of A, its transpose and B, of bytes, of an rnn; and weights that stay as they are. */
static const char net[] =
    "graph \"net\" (%x: f32[n, 16, 12, 12], %a: f32[6, 96], %q: u8[4, 200], %s: f32[3, 2, 24], %ids: i64[5]) {\n"
    "  %w1: f32[32, 16, 3, 3] = constant ramp()\n  %w2: f32[32, 1, 9, 9] = constant ramp()\n"
    "  %w3: f32[32, 24, 2, 2] = constant ramp()\n  %w4: f32[96, 70] = constant ramp()\n"
    "  %w5: i8[200, 60] = constant ramp()\n  %w6: f32[1, 128, 24] = constant ramp()\n"
    "  %w7: f32[1, 128, 32] = constant ramp()\n  %table: f32[100, 40] = constant ramp()\n"
    "  %words: string[2] = constant data(\"tern\", \"gull\")\n  %at: i64[1] = constant data(1)\n"
    "  %c = conv(%x, %w1) {pads = [1, 1, 1, 1]}\n  %d = conv(%c, %w2) {group = 32}\n"
    "  %t = conv_transpose(%c, %w3) {strides = [2, 2]}\n  %m = matmul(%a, %w4)\n  %i = matmul_integer(%q, %w5)\n"
    "  %y = rnn(%s, %w6, %w7) {cell = \"lstm\"}\n  %g = gather(%table, %ids)\n  %v = gather(%words, %at)\n"
    "  return %c, %d, %t, %m, %i, %y, %g, %v\n}\n";

typedef struct files {
  char folder[64], a[96], b[96];
} files;

static files make_files(void) {
  files f = {.folder = "/tmp/tercel-engine-XXXXXX"};
  assert_non_null(mkdtemp(f.folder));
  snprintf(f.a, sizeof f.a, "%s/a.tercel", f.folder);
  snprintf(f.b, sizeof f.b, "%s/b.tercel", f.folder);
  return f;
}

static void remove_files(const files *f) {
  unlink(f->a);
  unlink(f->b);
  assert_int_equal(rmdir(f->folder), 0);
}

/* ---- engines ---- */

static tercel_engine *build(const char *text, bool deterministic) {
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  const tercel_engine_options options = {.size = sizeof options, .num_threads = 2, .deterministic = deterministic};
  assert_ok(net_try_build(text, &options, &engine, &err), &err);
  return engine;
}

static void save(const tercel_engine *engine, const char *path) {
  tercel_error err = {0};
  assert_ok(tercel_engine_save(engine, path, NULL, &err), &err);
}

static tercel_engine *load(const char *path, int no_mmap) {
  tercel_error err = {0};
  tercel_engine *engine = NULL;
  const tercel_load_options options = {
      .size = sizeof options, .num_threads = 2, .no_mmap = no_mmap, .check_weights = 1};
  assert_ok(tercel_engine_load(path, &options, &engine, &err), &err);
  return engine;
}

/* Every input of small numbers, free dims of 3. */
static void set_inputs(tercel_context *context, const tercel_engine *engine, float *memory, size_t capacity) {
  tercel_error err = {0};
  for (size_t i = 0; i < tercel_engine_num_inputs(engine); i++) {
    tercel_io io;
    tercel_view view = {0};
    assert_ok(tercel_engine_get_input(engine, i, &io, &err), &err);
    for (int d = 0; d < io.rank; d++)
      if (io.dims[d] < 0) io.dims[d] = 3;
    assert_true(tercel_tensor_set_shape(&view, io.dtype, io.rank, io.dims));
    assert_true(view.bytes <= capacity * sizeof *memory);
    view.data = memory;
    for (int64_t k = 0; k < tercel_tensor_num_elements(&view); k++)
      tercel_tensor_set_f64(&view, k, (double)((k + (int64_t)i) % 7));
    assert_ok(tercel_context_set_input(context, i, &view, &err), &err);
    memory += (view.bytes + 63) / 64 * 16;
    capacity -= (view.bytes + 63) / 64 * 16;
  }
}

static tercel_context *run(tercel_engine *engine) {
  enum { CAPACITY = 1 << 16 };
  tercel_error err = {0};
  tercel_context *context = NULL;
  float *const memory = tercel_zalloc(CAPACITY * sizeof *memory);
  assert_ok(tercel_context_create(engine, NULL, &context, &err), &err);
  set_inputs(context, engine, memory, CAPACITY);
  assert_ok(tercel_context_run(context, &err), &err);
  tercel_free(memory);
  return context;
}

static void same_strings(const tercel_view *a, const tercel_view *b) {
  const tercel_string *const x = a->data, *const y = b->data;
  for (int64_t i = 0; i < tercel_tensor_num_elements(a); i++) {
    assert_int_equal(x[i].length, y[i].length);
    assert_memory_equal(x[i].data, y[i].data, x[i].length);
  }
}

/* Floats that were summed in another order. */
static void close_floats(const tercel_view *a, const tercel_view *b) {
  const float *const x = a->data, *const y = b->data;
  const int64_t count = tercel_tensor_num_elements(a);
  float largest = 1;
  for (int64_t i = 0; i < count; i++) largest = fabsf(y[i]) > largest ? fabsf(y[i]) : largest;
  for (int64_t i = 0; i < count; i++) assert_true(fabsf(x[i] - y[i]) <= 1e-4f * largest);
}

/* The two give the same, bit by bit where `exact`. */
static void compare_results(tercel_engine *a, tercel_engine *b, bool exact) {
  tercel_error err = {0};
  tercel_context *const in_a = run(a), *const in_b = run(b);
  assert_int_equal(tercel_engine_num_outputs(a), tercel_engine_num_outputs(b));
  for (size_t i = 0; i < tercel_engine_num_outputs(a); i++) {
    tercel_view x, y;
    assert_ok(tercel_context_get_output(in_a, i, &x, &err), &err);
    assert_ok(tercel_context_get_output(in_b, i, &y, &err), &err);
    assert_true(x.dtype == y.dtype && tercel_tensor_same_shape(&x, &y));
    if (x.dtype == TERCEL_DTYPE_STRING)
      same_strings(&x, &y);
    else if (!exact && x.dtype == TERCEL_DTYPE_F32)
      close_floats(&x, &y);
    else if (x.bytes > 0)
      assert_memory_equal(x.data, y.data, x.bytes);
  }
  tercel_context_destroy(in_a);
  tercel_context_destroy(in_b);
}

static void same_results(tercel_engine *a, tercel_engine *b) { compare_results(a, b, true); }

/* ---- what is saved runs as what was built ---- */

static void test_round_trip(void **state) {
  (void)state;
  const files f = make_files();
  for (int exact = 0; exact < 2; exact++) {
    tercel_engine *const built = build(net, exact);
    save(built, f.a);
    for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
      tercel_engine *const loaded = load(f.a, no_mmap);
      same_results(built, loaded);
      tercel_engine_info info = {.size = sizeof info};
      assert_ok(tercel_engine_get_info(loaded, &info, NULL), NULL);
      assert_int_equal(info.num_repacked + info.num_replaced, 0);
      save(loaded, f.b);
      tercel_engine_destroy(loaded);
      tercel_engine *const again = load(f.b, no_mmap);
      same_results(built, again);
      tercel_engine_destroy(again);
    }
    tercel_engine_destroy(built);
  }
  remove_files(&f);
}

/* Built at each level and run at each: as an engine that was built where it runs, whose graph may have been laid out otherwise. */
static void test_levels(void **state) {
  (void)state;
  const files f = make_files();
  const tercel_cpu_level before = tercel_cpu_current();
  uint32_t repacked = 0;
  for (int from = 0; from < TERCEL_CPU_LEVEL_COUNT; from++) {
    if (tercel_cpu_set_level((tercel_cpu_level)from, NULL) != TERCEL_OK) continue;
    tercel_engine *const built = build(net, false);
    save(built, f.a);
    tercel_engine_destroy(built);
    for (int to = 0; to < TERCEL_CPU_LEVEL_COUNT; to++) {
      if (tercel_cpu_set_level((tercel_cpu_level)to, NULL) != TERCEL_OK) continue;
      tercel_engine *const loaded = load(f.a, 0), *const here = build(net, false);
      compare_results(here, loaded, from == to);
      repacked += loaded->plan->num_repacked;
      if (from == to) assert_int_equal(loaded->plan->num_repacked, 0);
      tercel_engine_destroy(loaded);
      tercel_engine_destroy(here);
    }
  }
  assert_int_equal(tercel_cpu_set_level(before, NULL), TERCEL_OK);
  assert_true(repacked > 0 || before == TERCEL_CPU_BASELINE);
  unlink(f.a);
  assert_int_equal(rmdir(f.folder), 0);
}

static void test_random_graphs(void **state) {
  (void)state;
  enum { GRAPHS = 60 };
  const files f = make_files();
  int ran = 0;
  for (uint64_t number = 0; number < GRAPHS; number++) {
    tercel_test_graph g = {0};
    tercel_engine *built = NULL;
    const tercel_engine_options options = {.size = sizeof options, .num_threads = 2}; /* as load: bits depend on it */
    tercel_test_graph_generate(number, true, &g);
    if (net_try_build(g.text.data, &options, &built, NULL) == TERCEL_OK) {
      tercel_context *context = NULL;
      float memory[1 << 12] = {0};
      assert_ok(tercel_context_create(built, NULL, &context, NULL), NULL);
      set_inputs(context, built, memory, sizeof memory / sizeof *memory);
      const bool runs = tercel_context_run(context, NULL) == TERCEL_OK;
      tercel_context_destroy(context);
      save(built, f.a);
      tercel_engine *const loaded = load(f.a, 0);
      if (runs) same_results(built, loaded);
      ran += runs;
      tercel_engine_destroy(loaded);
    }
    tercel_engine_destroy(built);
    tercel_text_deinit(&g.text);
  }
  assert_true(ran > GRAPHS / 4);
  unlink(f.a);
  assert_int_equal(rmdir(f.folder), 0);
}

/* ---- the same bytes ---- */

static void test_same_bytes(void **state) {
  (void)state;
  tercel_error err = {0};
  const files f = make_files();
  const char *const paths[] = {f.a, f.b};
  tercel_file bytes[2] = {{0}};
  for (int i = 0; i < 2; i++) {
    tercel_engine *const engine = build(net, false);
    save(engine, paths[i]);
    tercel_engine_destroy(engine);
    assert_ok(tercel_file_open(paths[i], false, &bytes[i], &err), &err);
  }
  assert_int_equal(bytes[0].size, bytes[1].size);
  assert_memory_equal(bytes[0].data, bytes[1].data, bytes[0].size);
  for (int i = 0; i < 2; i++) tercel_file_close(&bytes[i]);
  remove_files(&f);
}

/* ---- what is refused ---- */

/* The net's file, in memory that may be changed. */
static uint8_t *saved_bytes(size_t *size) {
  tercel_error err = {0};
  tercel_file file = {0};
  const files f = make_files();
  tercel_engine *const engine = build(net, false);
  save(engine, f.a);
  tercel_engine_destroy(engine);
  assert_ok(tercel_file_open(f.a, false, &file, &err), &err);
  uint8_t *const bytes = tercel_alloc(file.size);
  assert_non_null(bytes);
  memcpy(bytes, file.data, file.size);
  *size = file.size;
  tercel_file_close(&file);
  unlink(f.a);
  assert_int_equal(rmdir(f.folder), 0);
  return bytes;
}

static tercel_status try_load(const uint8_t *bytes, size_t size, tercel_error *err) {
  tercel_engine *engine = NULL;
  const tercel_load_options options = {.size = sizeof options, .num_threads = 1, .check_weights = 1};
  const tercel_status status = tercel_engine_load_memory(bytes, size, &options, &engine, err);
  tercel_engine_destroy(engine);
  return status;
}

static void refuses(const uint8_t *bytes, size_t size, const char *part) {
  tercel_error err = {0};
  const tercel_status status = try_load(bytes, size, &err);
  assert_true(status == TERCEL_INVALID_MODEL || status == TERCEL_UNSUPPORTED);
  if (part != NULL && strstr(err.message, part) == NULL) fail_msg("'%s' does not say '%s'", err.message, part);
}

static void test_cut_short(void **state) {
  (void)state;
  size_t size;
  uint8_t *const bytes = saved_bytes(&size);
  assert_ok(try_load(bytes, size, NULL), NULL);
  for (size_t end = 0; end < size; end += 4096) refuses(bytes, end, end < 512 ? "fewer than" : "cut short");
  refuses(bytes, size - 1, "cut short");
  tercel_free(bytes);
}

/* Any byte: all are verified when weights are, too. */
static void test_changed_bytes(void **state) {
  (void)state;
  size_t size;
  uint8_t *const bytes = saved_bytes(&size);
  const size_t weights = (size_t)engine_get(bytes + ENGINE_HEADER + 8 * ENGINE_ROW + ENGINE_ROW_OFFSET_AT);
  for (size_t i = 0; i < size; i += i < 1024 ? 1 : 61) {
    bytes[i] ^= 0x10;
    tercel_error err = {0};
    const bool is_checked = try_load(bytes, size, &err) != TERCEL_OK;
    if (!is_checked) fail_msg("byte %zu may be changed", i);
    bytes[i] ^= 0x10;
  }
  assert_ok(try_load(bytes, size, NULL), NULL);
  bytes[weights + 100] ^= 1;
  refuses(bytes, size, "'weights' is damaged");
  tercel_free(bytes);
}

static void test_header_fields(void **state) {
  (void)state;
  static const struct {
    size_t at;
    uint8_t bytes[4];
    const char *says;
  } cases[] = {{0, {'P', 'K', 3, 4}, "not an engine file"},
               {8, {99, 0, 0, 0}, "later tercel"},
               {8, {0, 0, 0, 0}, "format 0"},
               {12, {1, 2, 3, 4}, "byte order"},
               {16, {1, 0, 0, 0}, "cut short"},
               {24, {3, 0, 0, 0}, "sections"},
               {28, {7, 0, 0, 0}, "stripped"},
               {32, {1, 0, 0, 0}, "sections end"},
               {48, {1, 0, 0, 0}, "reserved"},
               {ENGINE_HEADER, {'x', 0, 0, 0}, "not 'metadata'"},
               {ENGINE_HEADER + ENGINE_ROW_OFFSET_AT, {1, 0, 0, 0}, "do not fit"},
               {ENGINE_HEADER + ENGINE_ROW_BYTES_AT, {0xff, 0xff, 0xff, 0xff}, "do not fit"}};
  size_t size;
  uint8_t *const bytes = saved_bytes(&size);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t *const copy = tercel_alloc(size);
    memcpy(copy, bytes, size);
    memcpy(copy + cases[i].at, cases[i].bytes, sizeof cases[i].bytes);
    engine_repair(copy, size);
    refuses(copy, size, cases[i].says);
    tercel_free(copy);
  }
  tercel_free(bytes);
}

/* Bytes of graph, plan and constants changed behind checksums that fit: an engine that runs, or an error, and never more. */
static void test_hostile(void **state) {
  (void)state;
  enum { ROUNDS = 1500 };
  size_t size;
  uint8_t *const bytes = saved_bytes(&size), *const copy = tercel_alloc(size);
  tercel_test_random random = tercel_test_random_start(1);
  const size_t weights = (size_t)engine_get(bytes + ENGINE_HEADER + 8 * ENGINE_ROW + ENGINE_ROW_OFFSET_AT);
  const size_t graph = (size_t)engine_get(bytes + ENGINE_HEADER + 2 * ENGINE_ROW + ENGINE_ROW_OFFSET_AT);
  const size_t graph_bytes = (size_t)engine_get(bytes + ENGINE_HEADER + 3 * ENGINE_ROW + ENGINE_ROW_OFFSET_AT) - graph;
  for (int round = 0; round < ROUNDS; round++) {
    tercel_error err = {0};
    memcpy(copy, bytes, size);
    const int64_t changes = tercel_test_random_int(&random, 1, 3);
    for (int64_t i = 0; i < changes; i++) {
      const bool in_graph = tercel_test_random_int(&random, 0, 3) != 0;
      const int64_t at = in_graph ? (int64_t)graph + tercel_test_random_int(&random, 0, (int64_t)graph_bytes - 1)
                                  : tercel_test_random_int(&random, 496, (int64_t)weights - 1);
      copy[at] = (uint8_t)tercel_test_random_int(&random, 0, 255);
    }
    engine_repair(copy, size);
    const tercel_status status = try_load(copy, size, &err);
    assert_true(status == TERCEL_OK || err.message[0] != 0);
    assert_int_not_equal(status, TERCEL_INTERNAL);
  }
  tercel_free(copy);
  tercel_free(bytes);
}

/* ---- stripped, and no memory ---- */

static void test_strip_and_refit(void **state) {
  (void)state;
  tercel_error err = {0};
  const files f = make_files();
  const tercel_save_options strip = {.size = sizeof strip, .strip_weights = 1};
  const tercel_load_options look = {.size = sizeof look, .look_only = 1, .num_threads = 1};
  tercel_graph *graph = NULL;
  tercel_model *model = NULL;
  tercel_engine *built = build(net, false), *engine = NULL;
  tercel_context *context = NULL;
  assert_ok(tercel_graph_parse(net, strlen(net), tercel_ops(), &graph, &err), &err);
  assert_ok(tercel_model_from_graph(graph, &model, &err), &err);
  assert_ok(tercel_engine_save(built, f.a, &strip, &err), &err);
  assert_fails(tercel_engine_load(f.a, NULL, &engine, &err), TERCEL_INVALID_ARGUMENT, &err, "refit");
  assert_ok(tercel_engine_load(f.a, &look, &engine, &err), &err);
  assert_fails(tercel_context_create(engine, NULL, &context, &err), TERCEL_INVALID_ARGUMENT, &err, "looked at");
  tercel_engine_destroy(engine);
  assert_ok(tercel_engine_refit(f.a, model, f.b, &err), &err);
  engine = load(f.b, 0);
  same_results(built, engine);
  tercel_engine_destroy(engine);
  assert_fails(tercel_engine_refit(f.b, model, f.a, &err), TERCEL_INVALID_ARGUMENT, &err, "nothing to refit");
  tercel_engine_destroy(built);
  tercel_model_destroy(model);
  remove_files(&f);
}

static tercel_status load_once(void *arg, tercel_error *err) {
  tercel_engine *engine = NULL;
  const tercel_load_options options = {.size = sizeof options, .num_threads = 1};
  const tercel_status status = tercel_engine_load(arg, &options, &engine, err);
  tercel_engine_destroy(engine);
  return status;
}

static tercel_status save_once(void *arg, tercel_error *err) {
  const tercel_engine *const engine = arg;
  char path[] = "/tmp/tercel-engine-oom-XXXXXX";
  const int fd = mkstemp(path);
  close(fd);
  const tercel_status status = tercel_engine_save(engine, path, NULL, err);
  unlink(path);
  return status;
}

static void test_no_memory(void **state) {
  (void)state;
  const files f = make_files();
  tercel_engine *const built = build(net, false);
  save(built, f.a);
  tercel_test_oom(load_once, (void *)(uintptr_t)f.a, 400);
  tercel_test_oom(save_once, built, 200);
  tercel_engine_destroy(built);
  unlink(f.a);
  assert_int_equal(rmdir(f.folder), 0);
}

static void test_checksum(void **state) {
  (void)state;
  /* xxHash's own test values. */
  assert_true(tercel_checksum("", 0) == 0xEF46DB3751D8E999u);
  assert_true(tercel_checksum("abc", 3) == 0x44BC2CF5AD770999u);
  char text[200];
  for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * 7);
  for (size_t cut = 0; cut <= sizeof text; cut += 13) {
    tercel_checksum_state s;
    tercel_checksum_start(&s);
    tercel_checksum_add(&s, text, cut);
    tercel_checksum_add(&s, text + cut, sizeof text - cut);
    assert_true(tercel_checksum_end(&s) == tercel_checksum(text, sizeof text));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_checksum),        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_levels),
      cmocka_unit_test(test_random_graphs),   cmocka_unit_test(test_same_bytes),    cmocka_unit_test(test_cut_short),
      cmocka_unit_test(test_changed_bytes),   cmocka_unit_test(test_header_fields), cmocka_unit_test(test_hostile),
      cmocka_unit_test(test_strip_and_refit), cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
