/* rnn's kernel against the reference at every level: cells, directions, activations, lengths, states, layouts, absent operands.
 * `--bench` times typical layers. */
#include <stdio.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "kernels/check.h"
#include "ops/rnn.h"

typedef struct rnn_case {
  int cell;      /* as in tercel_rnn_cell */
  int direction; /* 0 forward, 1 reverse, 2 bidirectional */
  int64_t steps, batch, input, hidden;
  bool constant, bias, lengths, initial_h, initial_c, peepholes;
  bool batch_first, input_forget, linear_before_reset;
  int quantized;              /* r of 8 bits: 1 i8, 2 u8 */
  double clip;                /* 0: none */
  const char *activations[6]; /* NULL: the standard ones */
} rnn_case;

static const char *const cell_names[] = {"rnn", "gru", "lstm"};
static const char *const direction_names[] = {"forward", "reverse", "bidirectional"};
static const int cell_gates[] = {1, 3, 4}, cell_activations[] = {1, 2, 3};

/* All bytes for r, scales that make numbers of [-1, 1] or so of them, and zero points near the middle. */
static void add_scales(check_node *check, tercel_tensor *r, check_kind weights) {
  const int64_t rows[] = {r->dims[0], r->dims[1]};
  for (int64_t i = 0; i < tercel_tensor_num_elements(r); i++)
    tercel_tensor_set_i64(r, i, tercel_test_random_int(&check->random, -128, 127));
  tercel_tensor *const scale = check_node_input(check, weights, TERCEL_DTYPE_F32, 2, rows);
  tercel_tensor *const zero = check_node_input(check, weights, r->dtype, 2, rows);
  for (int64_t i = 0; i < tercel_tensor_num_elements(scale); i++) {
    tercel_tensor_set_f64(scale, i, (double)tercel_test_random_int(&check->random, 1, 8) / 1024);
    tercel_tensor_set_i64(zero, i,
                          (r->dtype == TERCEL_DTYPE_U8 ? 128 : 0) + tercel_test_random_int(&check->random, -9, 9));
  }
}

static check_node *make(const rnn_case *c, uint64_t stream) {
  tercel_error err = {0};
  const int64_t d = c->direction == 2 ? 2 : 1, gh = cell_gates[c->cell] * c->hidden;
  const int64_t x[] = {c->batch_first ? c->batch : c->steps, c->batch_first ? c->steps : c->batch, c->input};
  const int64_t w[] = {d, gh, c->input}, r[] = {d, gh, c->hidden}, b[] = {d, 2 * gh}, p[] = {d, 3 * c->hidden};
  const int64_t state[] = {c->batch_first ? c->batch : d, c->batch_first ? d : c->batch, c->hidden};
  const check_kind weights = c->constant ? CHECK_CONSTANT : CHECK_INPUT;
  check_node *check = check_node_create(stream);
  check_node_input(check, CHECK_INPUT, TERCEL_DTYPE_F32, 3, x);
  check_node_input(check, weights, TERCEL_DTYPE_F32, 3, w);
  const tercel_dtype r_dtype = c->quantized == 0   ? TERCEL_DTYPE_F32
                               : c->quantized == 1 ? TERCEL_DTYPE_I8
                                                   : TERCEL_DTYPE_U8;
  tercel_tensor *const recurrent = check_node_input(check, weights, r_dtype, 3, r);
  check_node_input(check, c->bias ? weights : CHECK_ABSENT, TERCEL_DTYPE_F32, 2, b);
  tercel_tensor *lengths =
      check_node_input(check, c->lengths ? CHECK_INPUT : CHECK_ABSENT, TERCEL_DTYPE_I32, 1, &c->batch);
  if (lengths != NULL)
    for (int64_t n = 0; n < c->batch; n++)
      tercel_tensor_set_i64(lengths, n, tercel_test_random_int(&check->random, 0, c->steps));
  check_node_input(check, c->initial_h ? CHECK_INPUT : CHECK_ABSENT, TERCEL_DTYPE_F32, 3, state);
  const bool lstm = c->cell == TERCEL_RNN_CELL_LSTM;
  check_node_input(check, lstm && c->initial_c ? CHECK_INPUT : CHECK_ABSENT, TERCEL_DTYPE_F32, 3, state);
  check_node_input(check, lstm && c->peepholes ? CHECK_INPUT : CHECK_ABSENT, TERCEL_DTYPE_F32, 2, p);
  if (c->quantized != 0) add_scales(check, recurrent, weights);
  check_node_make(check, TERCEL_OP_RNN, lstm ? 3 : 2);
  assert_ok(tercel_node_set_string(check->node, "cell", cell_names[c->cell], &err), &err);
  assert_ok(tercel_node_set_string(check->node, "direction", direction_names[c->direction], &err), &err);
  assert_ok(tercel_node_set_int(check->node, "hidden_size", c->hidden, &err), &err);
  assert_ok(tercel_node_set_int(check->node, "layout", c->batch_first, &err), &err);
  assert_ok(tercel_node_set_int(check->node, "input_forget", c->input_forget, &err), &err);
  assert_ok(tercel_node_set_int(check->node, "linear_before_reset", c->linear_before_reset, &err), &err);
  if (c->clip > 0) assert_ok(tercel_node_set_float(check->node, "clip", c->clip, &err), &err);
  if (c->activations[0] != NULL)
    assert_ok(tercel_node_set_strings(check->node, "activations", c->activations,
                                      (size_t)(cell_activations[c->cell] * d), &err),
              &err);
  return check;
}

/* Rounding in h is carried from step to step; weights in [-1, 1) with up to 40 of them a sum amplify it, which the short sequences bound. */
static void check_case(const rnn_case *c, uint64_t stream, int num_threads) {
  check_node *check = make(c, stream);
  if (tercel_cpu_current() == TERCEL_CPU_BASELINE) check_node_bits(check, &tercel_kernel_rnn_f32); /* at all levels */
  const double difference = check_node_difference(check, &tercel_kernel_rnn_f32, num_threads);
  if (!(difference <= 1e-4)) fail_msg("stream %llu: difference %g", (unsigned long long)stream, difference);
  check_node_destroy(check);
}

/* One step from a given state: both round the same numbers to 8 bits.  (Of more steps a last bit decides which way some number goes.) */
static void quantized_cases(tercel_cpu_level level, void *arg) {
  (void)arg;
  tercel_test_random random = tercel_test_random_start(700 + (uint64_t)level);
  for (int i = 0; i < 60; i++) {
    const rnn_case c = {.cell = TERCEL_RNN_CELL_LSTM,
                        .direction = i % 3,
                        .steps = 1,
                        .batch = tercel_test_random_int(&random, 1, 10),
                        .input = tercel_test_random_int(&random, 1, 20),
                        .hidden = tercel_test_random_int(&random, 1, 70),
                        .constant = i % 4 != 0,
                        .bias = i % 5 != 0,
                        .lengths = i % 7 == 0,
                        .initial_h = true,
                        .initial_c = i % 2 == 0,
                        .batch_first = i % 6 == 0,
                        .quantized = 1 + i % 2};
    check_case(&c, 9000 + (uint64_t)i, 1 + i % 3);
  }
}

static bool coin(tercel_test_random *random) { return tercel_test_random_int(random, 0, 1) == 0; }

static void draw(tercel_test_random *random, rnn_case *c) {
  static const char *const names[] = {"Tanh",      "Sigmoid", "Relu",   "HardSigmoid",     "Softsign", "ScaledTanh",
                                      "LeakyRelu", "Elu",     "Affine", "ThresholdedRelu", "Softplus", "hardsigmoid"};
  memset(c, 0, sizeof *c);
  c->cell = (int)tercel_test_random_int(random, 0, 2);
  c->direction = (int)tercel_test_random_int(random, 0, 2);
  c->steps = tercel_test_random_int(random, 1, 5);
  c->batch = tercel_test_random_int(random, 1, 10);
  c->input = tercel_test_random_int(random, 1, 20);
  c->hidden = tercel_test_random_int(random, 1, 40);
  bool *const flags[] = {&c->constant,  &c->bias,        &c->lengths,      &c->initial_h,          &c->initial_c,
                         &c->peepholes, &c->batch_first, &c->input_forget, &c->linear_before_reset};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) *flags[i] = coin(random);
  if (coin(random)) c->clip = 0.5;
  if (!coin(random)) return;
  for (int i = 0; i < 6; i++)
    c->activations[i] = names[tercel_test_random_int(random, 0, sizeof names / sizeof *names - 1)];
  c->clip = 0.5; /* unbounded ones would run away */
}

static void random_cases(tercel_cpu_level level, void *arg) {
  (void)arg;
  tercel_test_random random = tercel_test_random_start(300 + (uint64_t)level);
  for (int i = 0; i < 200; i++) {
    rnn_case c;
    draw(&random, &c);
    check_case(&c, 3000 + (uint64_t)i, 1 + i % 3);
  }
}

static void special_cases(tercel_cpu_level level, void *arg) {
  (void)arg;
  (void)level;
  static const rnn_case cases[] = {
      {.cell = TERCEL_RNN_CELL_LSTM,
       .steps = 0,
       .batch = 2,
       .input = 3,
       .hidden = 4,
       .constant = true,
       .initial_h = true},
      {.cell = TERCEL_RNN_CELL_GRU, .steps = 3, .batch = 0, .input = 3, .hidden = 4, .constant = true},
      {.cell = TERCEL_RNN_CELL_LSTM, .steps = 3, .batch = 1, .input = 0, .hidden = 4, .constant = true, .bias = true},
      {.cell = TERCEL_RNN_CELL_LSTM,
       .steps = 2,
       .batch = 9,
       .input = 300,
       .hidden = 130,
       .constant = true,
       .bias = true,
       .clip = 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i], 8000 + i, 2);
}

static void test_random(void **state) {
  (void)state;
  check_levels(random_cases, NULL);
}
static void test_quantized(void **state) {
  (void)state;
  check_levels(quantized_cases, NULL);
}
static void test_special(void **state) {
  (void)state;
  check_levels(special_cases, NULL);
}

/* A length beyond the sequence is an error, not a read beyond it. */
static void test_bad_length(void **state) {
  (void)state;
  tercel_error err = {0};
  const rnn_case c = {.steps = 3, .batch = 2, .input = 2, .hidden = 2, .lengths = true};
  check_node *check = make(&c, 1);
  assert_ok(tercel_infer_node(check->node, &err), &err);
  tercel_tensor_set_i64(&check->tensors[TERCEL_RNN_LENGTHS], 1, 4);
  tercel_tensor out[2];
  tercel_storage *storages[2];
  assert_fails(tercel_eval_node(check->node, check->in, out, storages, &err), TERCEL_INVALID_ARGUMENT, &err,
               "length 4");
  check_node_destroy(check);
}

static void bench(tercel_cpu_level level, void *arg) {
  (void)arg;
  static const rnn_case cases[] = {
      {.cell = TERCEL_RNN_CELL_LSTM, .steps = 1, .batch = 1, .input = 128, .hidden = 128},
      {.cell = TERCEL_RNN_CELL_LSTM, .steps = 100, .batch = 1, .input = 128, .hidden = 128},
      {.cell = TERCEL_RNN_CELL_LSTM, .direction = 2, .steps = 100, .batch = 1, .input = 256, .hidden = 256},
      {.cell = TERCEL_RNN_CELL_LSTM, .steps = 50, .batch = 16, .input = 256, .hidden = 256},
      {.cell = TERCEL_RNN_CELL_LSTM, .steps = 50, .batch = 1, .input = 512, .hidden = 512},
      {.cell = TERCEL_RNN_CELL_GRU, .steps = 100, .batch = 1, .input = 256, .hidden = 256, .linear_before_reset = true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rnn_case c = cases[i];
    c.constant = c.bias = true;
    for (int threads = 1; threads <= 2; threads++) {
      check_node *check = make(&c, 0);
      double gflops;
      const double us = check_node_time_us(check, &tercel_kernel_rnn_f32, threads, &gflops);
      printf("%-9s %-4s %-13s steps %lld batch %lld %lld -> %lld  %d threads  %9.1f us  %6.1f GFLOP/s\n",
             tercel_cpu_level_name(level), cell_names[c.cell], direction_names[c.direction], (long long)c.steps,
             (long long)c.batch, (long long)c.input, (long long)c.hidden, threads, us, gflops);
      check_node_destroy(check);
    }
  }
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--bench") == 0) {
    check_levels(bench, NULL);
    return 0;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_special),
                                     cmocka_unit_test(test_quantized), cmocka_unit_test(test_bad_length)};
  return cmocka_run_group_tests_name("kernels/rnn", tests, NULL, NULL);
}
