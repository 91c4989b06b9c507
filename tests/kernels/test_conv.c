/* conv's and conv_transpose's kernels against the reference at every level: kernels, strides, pads, dilations, groups, narrow maps, both layouts, 1-D to
 * 3-D, epilogues.  `--bench` times typical layers. */
#include <stdio.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "kernels/check.h"

typedef struct conv_case {
  bool transposed, bias, constant_w, channels_last;
  int spatial;
  int64_t batch, group, in_each, out_each; /* channels of one group */
  int64_t in[3], kernel[3], strides[3], dilations[3], pads[6], output_padding[3];
  check_epilogue epilogue;
} conv_case;

static check_node *make(const conv_case *c, uint64_t stream) {
  tercel_error err = {0};
  const int rank = c->spatial + 2;
  int64_t x[5] = {c->batch, c->group * c->in_each}, w[5] = {c->group * c->out_each, c->in_each};
  if (c->transposed) {
    w[0] = c->group * c->in_each;
    w[1] = c->out_each;
  }
  for (int i = 0; i < c->spatial; i++) {
    x[i + (c->channels_last ? 1 : 2)] = c->in[i];
    w[i + 2] = c->kernel[i];
  }
  if (c->channels_last) x[rank - 1] = c->group * c->in_each;
  const int64_t channels = c->group * c->out_each;
  const int64_t extra[5] = {channels, 1, 1, 1};
  check_node *check = check_node_create(stream);
  check_node_input(check, CHECK_INPUT, TERCEL_DTYPE_F32, rank, x);
  check_node_input(check, c->constant_w ? CHECK_CONSTANT : CHECK_INPUT, TERCEL_DTYPE_F32, rank, w);
  const bool has_extra = check_epilogue_has_extra(c->epilogue);
  if (c->bias || has_extra)
    check_node_input(check, c->bias ? CHECK_INPUT : CHECK_ABSENT, TERCEL_DTYPE_F32, 1, &channels);
  if (has_extra) check_node_input(check, CHECK_INPUT, TERCEL_DTYPE_F32, c->channels_last ? 1 : c->spatial + 1, extra);
  check_node_make(check, c->transposed ? TERCEL_OP_CONV_TRANSPOSE : TERCEL_OP_CONV, 1);
  const size_t n = (size_t)c->spatial;
  assert_ok(tercel_node_set_int(check->node, "group", c->group, &err), &err);
  assert_ok(tercel_node_set_ints(check->node, "strides", c->strides, n, &err), &err);
  assert_ok(tercel_node_set_ints(check->node, "dilations", c->dilations, n, &err), &err);
  assert_ok(tercel_node_set_ints(check->node, "pads", c->pads, 2 * n, &err), &err);
  if (c->channels_last) assert_ok(tercel_node_set_string(check->node, "layout", "nhwc", &err), &err);
  if (c->transposed) assert_ok(tercel_node_set_ints(check->node, "output_padding", c->output_padding, n, &err), &err);
  check_node_set_epilogue(check, c->epilogue);
  return check;
}

static const tercel_kernel *const kernels[] = {
    &tercel_kernel_conv_vector,   &tercel_kernel_conv_depthwise,      &tercel_kernel_conv_depthwise_narrow,
    &tercel_kernel_conv_winograd, &tercel_kernel_conv_direct,         &tercel_kernel_conv_gemm,
    &tercel_kernel_conv_nhwc,     &tercel_kernel_conv_depthwise_nhwc, &tercel_kernel_conv_transpose_gemm};
enum { NUM_KERNELS = sizeof kernels / sizeof *kernels };

/* Sums of k products in [-1, 1) reach sqrt(k), and each addition rounds: a random walk whose far end is k half ULP of 1; and the epilogue's few.
 * Winograd's sums are of transformed numbers, which are larger, and are added up with signs: three times that. */
static double bound(const conv_case *c, const tercel_kernel *kernel) {
  double k = (double)c->in_each;
  for (int i = 0; i < c->spatial; i++) k *= (double)c->kernel[i];
  return 1e-6 + (kernel == &tercel_kernel_conv_winograd ? 3 : 1) * 0x1p-24 * k;
}

/* Deterministic mode: the same bits at all levels, and from kernels of one order. */
static void check_bits(check_node *check) {
  uint64_t hashes[NUM_KERNELS] = {0};
  for (int i = 0; i < NUM_KERNELS; i++) {
    if (kernels[i]->op != check->node->op->id || !kernels[i]->supports(kernels[i], check->node)) continue;
    hashes[i] = check_node_bits(check, kernels[i]);
    for (int k = 0; k < i; k++)
      if (hashes[i] != 0 && hashes[k] != 0 && kernels[i]->order != NULL && kernels[k]->order != NULL &&
          strcmp(kernels[i]->order, kernels[k]->order) == 0 && hashes[i] != hashes[k])
        fail_msg("%s and %s have one order and other bits", kernels[i]->name, kernels[k]->name);
  }
}

/* Every kernel that supports the case; how often each was used is counted. */
static void check_case(const conv_case *c, uint64_t stream, int num_threads, int used[NUM_KERNELS]) {
  tercel_error err = {0};
  check_node *check = make(c, stream);
  assert_ok(tercel_infer_node(check->node, &err), &err);
  for (int i = 0; i < NUM_KERNELS; i++) {
    if (kernels[i]->op != check->node->op->id || !kernels[i]->supports(kernels[i], check->node)) continue;
    const double difference = check_node_difference(check, kernels[i], num_threads);
    if (!(difference <= bound(c, kernels[i])))
      fail_msg("%s: stream %llu: difference %g", kernels[i]->name, (unsigned long long)stream, difference);
    used[i]++;
  }
  if (tercel_cpu_current() == TERCEL_CPU_BASELINE && stream % 3 == 0) check_bits(check); /* goes through all levels */
  check_node_destroy(check);
}

static int64_t extent(const conv_case *c, int i) { return (c->kernel[i] - 1) * c->dilations[i] + 1; }

static void draw(tercel_test_random *random, bool transposed, conv_case *c) {
  memset(c, 0, sizeof *c);
  c->transposed = transposed;
  c->bias = tercel_test_random_int(random, 0, 1) == 0;
  c->constant_w = tercel_test_random_int(random, 0, 3) != 0;
  c->spatial = (int)tercel_test_random_int(random, 1, transposed ? 2 : 3);
  c->batch = tercel_test_random_int(random, 1, 2);
  c->epilogue = (check_epilogue)tercel_test_random_int(random, 0, CHECK_EPILOGUE_COUNT - 1);
  c->group = tercel_test_random_int(random, 1, 3);
  c->in_each = tercel_test_random_int(random, 1, 5);
  c->out_each = tercel_test_random_int(random, 1, 20);
  if (tercel_test_random_int(random, 0, 2) == 0) { /* depthwise */
    c->group = tercel_test_random_int(random, 2, 6);
    c->in_each = 1;
    c->out_each = tercel_test_random_int(random, 1, 2);
  }
  const int64_t whole = tercel_test_random_int(random, 0, 9); /* 0: a vector; 1: pointwise */
  for (int i = 0; i < c->spatial; i++) {
    c->kernel[i] = tercel_test_random_int(random, 1, 5);
    c->dilations[i] = tercel_test_random_int(random, 1, 2);
    c->strides[i] = tercel_test_random_int(random, 1, 3);
    c->pads[i] = tercel_test_random_int(random, 0, 3);
    c->pads[c->spatial + i] = tercel_test_random_int(random, 0, 3);
    if (whole <= 1) {
      c->strides[i] = c->dilations[i] = 1;
      c->pads[i] = c->pads[c->spatial + i] = 0;
      if (whole == 1) c->kernel[i] = 1;
    }
    const int64_t least = tercel_max_i64(extent(c, i) - c->pads[i] - c->pads[c->spatial + i], 1);
    c->in[i] = whole == 0 ? c->kernel[i] : least + tercel_test_random_int(random, 0, i + 1 == c->spatial ? 40 : 12);
    if (transposed) {
      c->in[i] = tercel_test_random_int(random, 1, i + 1 == c->spatial ? 30 : 8);
      c->output_padding[i] = tercel_test_random_int(random, 0, c->strides[i] - 1);
      const int64_t full = (c->in[i] - 1) * c->strides[i] + extent(c, i) + c->output_padding[i];
      if (full <= c->pads[i] + c->pads[c->spatial + i]) c->pads[i] = c->pads[c->spatial + i] = 0;
    }
  }
}

/* Channels last: of one and two dims, weights constant; depthwise, pointwise and others, also over several vectors and runs of k. */
static void draw_channels_last(tercel_test_random *random, conv_case *c) {
  draw(random, false, c);
  c->channels_last = c->constant_w = true;
  if (c->spatial == 3) c->spatial = 2;
  for (int i = 0; i < c->spatial; i++) {
    c->pads[c->spatial + i] = tercel_test_random_int(random, 0, 3);
    c->in[i] =
        tercel_max_i64(extent(c, i) - c->pads[i] - c->pads[c->spatial + i], 1) + tercel_test_random_int(random, 0, 12);
  }
  switch (tercel_test_random_int(random, 0, 3)) {
  case 0: /* depthwise, as networks have it */
    c->group = tercel_test_random_int(random, 2, 70);
    c->in_each = c->out_each = 1;
    c->kernel[0] = c->kernel[1] = tercel_test_random_int(random, 0, 1) ? 3 : 5;
    c->strides[0] = c->strides[1] = tercel_test_random_int(random, 1, 2);
    c->dilations[0] = c->dilations[1] = tercel_test_random_int(random, 0, 3) == 0 ? 2 : 1;
    for (int i = 0; i < c->spatial; i++) c->in[i] = extent(c, i) + tercel_test_random_int(random, 0, 12);
    break;
  case 1:
    c->in_each = tercel_test_random_int(random, 1, 300);
    c->out_each = tercel_test_random_int(random, 1, 110);
    if (c->in_each > 40) c->kernel[0] = c->kernel[1] = 1;
    break;
  case 2: /* rows that evict each other */
    c->group = 1;
    c->in_each = 1024;
    c->out_each = 60;
    c->kernel[0] = c->kernel[1] = 1;
    break;
  default: break;
  }
}

/* What Winograd takes: 3x3, one step, enough channels. */
static void draw_winograd(tercel_test_random *random, conv_case *c) {
  memset(c, 0, sizeof *c);
  c->bias = tercel_test_random_int(random, 0, 1) == 0;
  c->constant_w = true;
  c->spatial = 2;
  c->batch = tercel_test_random_int(random, 1, 2);
  c->epilogue = (check_epilogue)tercel_test_random_int(random, 0, CHECK_EPILOGUE_COUNT - 1);
  c->group = tercel_test_random_int(random, 1, 2);
  c->in_each = tercel_test_random_int(random, 8, 60);
  c->out_each = tercel_test_random_int(random, 8, 60);
  for (int i = 0; i < 2; i++) {
    c->kernel[i] = 3;
    c->dilations[i] = c->strides[i] = 1;
    c->pads[i] = tercel_test_random_int(random, 0, 3);
    c->pads[2 + i] = tercel_test_random_int(random, 0, 3);
    c->in[i] = tercel_test_random_int(random, 3, i == 0 ? 20 : 90);
  }
}

static void random_cases(tercel_cpu_level level, void *arg) {
  (void)arg;
  int used[NUM_KERNELS] = {0};
  tercel_test_random random = tercel_test_random_start(200 + (uint64_t)level);
  for (int i = 0; i < 400; i++) {
    conv_case c;
    draw(&random, i % 4 == 0, &c);
    check_case(&c, 2000 + (uint64_t)i, 1 + i % 3, used);
  }
  for (int i = 0; i < 100; i++) {
    conv_case c;
    draw_winograd(&random, &c);
    check_case(&c, 4000 + (uint64_t)i, 1 + i % 3, used);
  }
  for (int i = 0; i < 60; i++) {
    conv_case c;
    draw_channels_last(&random, &c);
    check_case(&c, 5000 + (uint64_t)i, 1 + i % 3, used);
  }
  const bool has_narrow = level >= TERCEL_CPU_AVX512 && level < TERCEL_CPU_NEON_DOT;
  for (int i = 0; i < NUM_KERNELS; i++)
    assert_true(used[i] > 0 || (!has_narrow && kernels[i] == &tercel_kernel_conv_depthwise_narrow));
}

static void special_cases(tercel_cpu_level level, void *arg) {
  (void)arg;
  (void)level;
  static const conv_case cases[] = {
      {.spatial = 2,
       .batch = 0,
       .group = 1,
       .in_each = 3,
       .out_each = 4,
       .in = {5, 5},
       .kernel = {3, 3},
       .strides = {1, 1},
       .dilations = {1, 1}},
      {.spatial = 2,
       .batch = 1,
       .group = 1,
       .in_each = 0,
       .out_each = 4,
       .in = {5, 5},
       .kernel = {3, 3},
       .strides = {1, 1},
       .dilations = {1, 1},
       .bias = true},
      /* a window that sees padding only */
      {.spatial = 2,
       .batch = 1,
       .group = 1,
       .in_each = 2,
       .out_each = 4,
       .in = {2, 2},
       .kernel = {2, 2},
       .strides = {1, 1},
       .dilations = {1, 1},
       .pads = {5, 5, 5, 5},
       .constant_w = true},
      {.spatial = 2,
       .batch = 1,
       .group = 4,
       .in_each = 1,
       .out_each = 1,
       .in = {2, 2},
       .kernel = {2, 2},
       .strides = {2, 2},
       .dilations = {3, 3},
       .pads = {5, 5, 5, 5},
       .constant_w = true},
      /* many runs of k, many blocks */
      {.spatial = 2,
       .batch = 1,
       .group = 1,
       .in_each = 70,
       .out_each = 70,
       .in = {30, 31},
       .kernel = {3, 3},
       .strides = {1, 1},
       .dilations = {1, 1},
       .pads = {1, 1, 1, 1},
       .constant_w = true,
       .bias = true,
       .epilogue = CHECK_EPILOGUE_PROGRAM},
      /* a signal that lies along the first of two dims */
      {.spatial = 2,
       .batch = 2,
       .group = 1,
       .in_each = 20,
       .out_each = 12,
       .in = {90, 1},
       .kernel = {5, 1},
       .strides = {1, 2},
       .dilations = {1, 1},
       .pads = {2, 0, 1, 0},
       .constant_w = true},
      /* a spectrogram */
      {.spatial = 1,
       .batch = 1,
       .group = 1,
       .in_each = 1,
       .out_each = 34,
       .in = {3000},
       .kernel = {320},
       .strides = {160},
       .dilations = {1},
       .constant_w = true},
      {.spatial = 2,
       .batch = 1,
       .group = 3,
       .in_each = 1,
       .out_each = 1,
       .in = {100, 70},
       .kernel = {3, 3},
       .strides = {1, 1},
       .dilations = {1, 1},
       .pads = {1, 1, 1, 1},
       .bias = true,
       .constant_w = true},
      {.transposed = true,
       .spatial = 2,
       .batch = 1,
       .group = 1,
       .in_each = 40,
       .out_each = 30,
       .in = {33, 50},
       .kernel = {2, 2},
       .strides = {2, 2},
       .dilations = {1, 1},
       .bias = true,
       .constant_w = true},
      {.transposed = true,
       .spatial = 2,
       .batch = 1,
       .group = 1,
       .in_each = 20,
       .out_each = 70,
       .in = {20, 60},
       .kernel = {4, 4},
       .strides = {2, 2},
       .dilations = {1, 1},
       .pads = {1, 1, 1, 1},
       .constant_w = true},
      {.transposed = true,
       .spatial = 2,
       .batch = 1,
       .group = 1,
       .in_each = 3,
       .out_each = 5,
       .in = {3, 4},
       .kernel = {2, 2},
       .strides = {5, 5},
       .dilations = {1, 1},
       .output_padding = {4, 4},
       .constant_w = true},
  };
  int used[NUM_KERNELS] = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    check_case(&cases[i], 7000 + i, 1 + (int)i % 2, used);
    conv_case last = cases[i];
    last.channels_last = !last.transposed;
    last.constant_w = true;
    check_case(&last, 7000 + i, 1 + (int)i % 2, used);
  }
}

/* f16 and bf16 through the f32 kernels: sums are formed in f32 and rounded once. */
static void narrow_dtypes(tercel_cpu_level level, void *arg) {
  (void)arg;
  (void)level;
  static const tercel_dtype dtypes[] = {TERCEL_DTYPE_F16, TERCEL_DTYPE_BF16};
  static const double bounds[] = {0x1p-11, 0x1p-8};
  const int64_t x[] = {2, 8, 9, 20}, w[] = {8, 8, 3, 3}, channels = 8;
  for (int i = 0; i < 4; i++) {
    check_node *check = check_node_create(9000 + (uint64_t)i);
    check_node_input(check, CHECK_INPUT, dtypes[i % 2], 4, x);
    check_node_input(check, CHECK_CONSTANT, dtypes[i % 2], 4, w);
    check_node_input(check, i < 2 ? CHECK_ABSENT : CHECK_INPUT, dtypes[i % 2], 1, &channels);
    check_node_make(check, i < 2 ? TERCEL_OP_CONV : TERCEL_OP_CONV_TRANSPOSE, 1);
    const tercel_kernel *kernel = i < 2 ? &tercel_kernel_conv_narrow : &tercel_kernel_conv_transpose_narrow;
    assert_true(check_node_difference(check, kernel, 1 + i % 2) <= bounds[i % 2]);
    check_node_destroy(check);
  }
}

static void test_narrow(void **state) {
  (void)state;
  check_levels(narrow_dtypes, NULL);
}
static void test_random(void **state) {
  (void)state;
  check_levels(random_cases, NULL);
}
static void test_special(void **state) {
  (void)state;
  check_levels(special_cases, NULL);
}

/* ---- bench ---- */

typedef struct layer {
  const char *name;
  bool transposed;
  int64_t in, out, group, height, width, kernel, stride, pad;
} layer;

static void bench_case(tercel_cpu_level level, const layer *l, const conv_case *c) {
  tercel_error err = {0};
  check_node *check = make(c, 0);
  assert_ok(tercel_infer_node(check->node, &err), &err);
  for (int k = 0; k < NUM_KERNELS; k++) {
    if (kernels[k]->op != check->node->op->id || !kernels[k]->supports(kernels[k], check->node)) continue;
    for (int threads = 1; threads <= 2; threads++) {
      double gflops;
      const double us = check_node_time_us(check, kernels[k], threads, &gflops);
      printf("%-9s %-15s %-20s %4lld %4lld %3lldx%-3lld  %d threads  %9.1f us  %6.1f GFLOP/s\n",
             tercel_cpu_level_name(level), l->name, kernels[k]->name, (long long)l->in, (long long)l->out,
             (long long)l->height, (long long)l->width, threads, us, gflops);
    }
  }
  check_node_destroy(check);
}

static void bench(tercel_cpu_level level, void *arg) {
  (void)arg;
  static const layer layers[] = {
      {"resnet 1x1", false, 64, 256, 1, 56, 56, 1, 1, 0},      {"resnet 3x3", false, 64, 64, 1, 56, 56, 3, 1, 1},
      {"resnet 3x3", false, 128, 128, 1, 28, 28, 3, 1, 1},     {"resnet 3x3", false, 256, 256, 1, 14, 14, 3, 1, 1},
      {"resnet 3x3", false, 512, 512, 1, 7, 7, 3, 1, 1},       {"resnet 1x1", false, 2048, 512, 1, 7, 7, 1, 1, 0},
      {"resnet 1x1/2", false, 256, 512, 1, 56, 56, 1, 2, 0},   {"resnet first", false, 3, 64, 1, 224, 224, 7, 2, 3},
      {"ocr first", false, 3, 16, 1, 320, 320, 3, 2, 1},       {"ocr 1x1", false, 16, 32, 1, 160, 160, 1, 1, 0},
      {"ocr 3x3", false, 96, 24, 1, 80, 80, 3, 1, 1},          {"yolo 3x3", false, 16, 16, 1, 80, 80, 3, 1, 1},
      {"yolo 3x3", false, 32, 32, 1, 40, 40, 3, 1, 1},         {"yolo 3x3", false, 64, 64, 1, 20, 20, 3, 1, 1},
      {"yolo 3x3", false, 128, 128, 1, 10, 10, 3, 1, 1},       {"depthwise 3", false, 32, 32, 32, 112, 112, 3, 1, 1},
      {"depthwise 3/2", false, 96, 96, 96, 112, 112, 3, 2, 1}, {"depthwise 5", false, 240, 240, 240, 14, 14, 5, 1, 2},
      {"depthwise 5", false, 672, 672, 672, 7, 7, 5, 1, 2},    {"grouped", false, 128, 128, 32, 28, 28, 3, 1, 1},
      {"transposed 2/2", true, 24, 24, 1, 80, 80, 2, 2, 0},    {"transposed 4/2", true, 128, 64, 1, 28, 28, 4, 2, 1},
      {"squeeze", false, 512, 128, 1, 1, 1, 1, 1, 0},          {"lcnet 1x1", false, 256, 256, 1, 14, 14, 1, 1, 0},
      {"lcnet 1x1", false, 512, 512, 1, 7, 7, 1, 1, 0},        {"lcnet 1x1", false, 32, 64, 1, 112, 112, 1, 1, 0},
      {"lcnet 1x1", false, 128, 128, 1, 28, 28, 1, 1, 0},      {"depthwise 5", false, 256, 256, 256, 14, 14, 5, 1, 2},
      {"depthwise 3", false, 128, 128, 128, 28, 28, 3, 1, 1},  {"yolo 3x3/2", false, 64, 128, 1, 40, 40, 3, 2, 1},
      {"lcnet first", false, 3, 16, 1, 224, 224, 3, 2, 1},     {"depthwise 3", false, 16, 16, 16, 112, 112, 3, 1, 1},
      {"lcnet 1x1", false, 16, 32, 1, 112, 112, 1, 1, 0},      {"depthwise 3/2", false, 32, 32, 32, 112, 112, 3, 2, 1},
      {"lcnet 1x1", false, 32, 64, 1, 56, 56, 1, 1, 0},        {"lcnet last", false, 512, 1280, 1, 1, 1, 1, 1, 0},
  };
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    const layer *l = &layers[i];
    conv_case c = {.transposed = l->transposed,
                   .bias = true,
                   .constant_w = true,
                   .spatial = 2,
                   .batch = 1,
                   .group = l->group,
                   .in_each = l->in / l->group,
                   .out_each = l->out / l->group,
                   .in = {l->height, l->width},
                   .kernel = {l->kernel, l->kernel},
                   .strides = {l->stride, l->stride},
                   .dilations = {1, 1},
                   .pads = {l->pad, l->pad, l->pad, l->pad},
                   .epilogue = CHECK_EPILOGUE_CLAMP};
    bench_case(level, l, &c);
    c.channels_last = true;
    if (!c.transposed) bench_case(level, l, &c);
  }
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--bench") == 0) {
    check_levels(bench, NULL);
    return 0;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_special),
                                     cmocka_unit_test(test_narrow)};
  return cmocka_run_group_tests_name("kernels/conv", tests, NULL, NULL);
}
