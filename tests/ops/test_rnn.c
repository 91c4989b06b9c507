/* rnn: inference, errors, values (made with ONNX Runtime from the same ramps). */
#include "ops/check.h"

static void test_types(void **state) {
  (void)state;
  check_type("%x: f32[t, n, 8], %w: f32[1, 16, 8], %r: f32[1, 16, 4]",
             "%y = rnn(%x, %w, %r) {cell = \"lstm\"}\nreturn %y", "f32[t, 1, n, 4]");
  check_type("%x: f32[n, t, 8], %w: f32[2, 12, 8], %r: f32[2, 12, 4]",
             "%y = rnn(%x, %w, %r) {cell = \"gru\", direction = \"bidirectional\", layout = 1}\nreturn %y",
             "f32[n, t, 2, 4]");
  check_type("%x: f32[t, n, 8], %w: f32[*], %r: f32[*]",
             "%y, %h = rnn(%x, %w, %r) {cell = \"rnn\", hidden_size = 4}\nreturn %h", "f32[1, n, 4]");
}

static void test_rejects(void **state) {
  (void)state;
  const char *const params = "%x: f32[t, n, 8], %w: f32[1, 16, 8], %r: f32[1, 16, 4]";
  check_rejects(params, "%y = rnn(%x, %w, %r) {cell = \"gru\"}\nreturn %y", TERCEL_INVALID_MODEL,
                "w is [1, 16, 8], want [1, 12, 8]");
  check_rejects("%x: f32[t, n, 5], %w: f32[1, 12, 5], %r: i8[1, 12, 4]",
                "%y = rnn(%x, %w, %r) {cell = \"gru\"}\nreturn %y", TERCEL_INVALID_MODEL, "cell is 'gru', want lstm");
  check_rejects("%x: f32[t, n, 5], %w: f32[1, 16, 5], %r: i8[1, 16, 4], %s: f32[1, 16]",
                "%y = rnn(%x, %w, %r, _, _, _, _, _, %s) {cell = \"lstm\"}\nreturn %y", TERCEL_INVALID_MODEL,
                "r's zero point is absent, and r is i8");
  check_rejects("%x: f32[t, n, 5], %w: f32[1, 16, 5], %r: f32[1, 16, 4], %s: f32[1, 16]",
                "%y = rnn(%x, %w, %r, _, _, _, _, _, %s) {cell = \"lstm\"}\nreturn %y", TERCEL_INVALID_MODEL,
                "r's scale is given, and r is f32");
  check_rejects("%x: f32[t, n, 5], %w: f32[1, 16, 5], %r: i8[1, 16, 4], %s: f32[1, 15], %z: i8[1, 16]",
                "%y = rnn(%x, %w, %r, _, _, _, _, _, %s, %z) {cell = \"lstm\"}\nreturn %y", TERCEL_INVALID_MODEL,
                "r's scale is [1, 15], want [1, 16]");
  check_rejects(params, "%y = rnn(%x, %w, %r) {cell = \"lsmt\"}\nreturn %y", TERCEL_INVALID_MODEL, "cell is 'lsmt'");
  check_rejects(params, "%y = rnn(%x, %w, %r) {cell = \"lstm\", direction = \"up\"}\nreturn %y", TERCEL_INVALID_MODEL,
                "direction is 'up'");
  check_rejects(params, "%y = rnn(%x, %w, %r) {cell = \"lstm\", activations = [\"Tanh\"]}\nreturn %y",
                TERCEL_INVALID_MODEL, "1 activations, want 3");
  check_rejects(params,
                "%y = rnn(%x, %w, %r) {cell = \"lstm\", activations = [\"Tanh\", \"Tan\", \"Tanh\"]}\nreturn %y",
                TERCEL_INVALID_MODEL, "an activation is 'Tan'");
  check_rejects(params, "%y = rnn(%x, %w, %r) {cell = \"lstm\", hidden_size = 5}\nreturn %y", TERCEL_INVALID_MODEL,
                "want [1, 20, 8]");
  check_rejects("%x: f32[t, 8], %w: f32[1, 16, 8], %r: f32[1, 16, 4]",
                "%y = rnn(%x, %w, %r) {cell = \"lstm\"}\nreturn %y", TERCEL_INVALID_MODEL, "rank 2");
  check_rejects("%x: i32[t, n, 8], %w: i32[1, 16, 8], %r: i32[1, 16, 4]",
                "%y = rnn(%x, %w, %r) {cell = \"lstm\"}\nreturn %y", TERCEL_UNSUPPORTED, "input 0 is i32");
  check_eval_fails(
      "%x: f32[2, 1, 1] = constant ramp()\n%w: f32[1, 2, 1] = constant ramp()\n%r: f32[1, 2, 2] = constant ramp()\n"
      "%n: i32[1] = constant data(3)\n%y = rnn(%x, %w, %r, _, %n) {cell = \"rnn\"}\nreturn %y",
      TERCEL_INVALID_ARGUMENT, "length 3 of sequence 0");
}

/* layout 1 is layout 0 with the batch first. */
static void test_batch_first(void **state) {
  (void)state;
  check_values(
      "%x: f32[3, 2, 2] = constant ramp()\n%w: f32[1, 8, 2] = constant ramp()\n%r: f32[1, 8, 2] = constant ramp()\n"
      "%y, %h, %c = rnn(%x, %w, %r) {cell = \"lstm\"}\n"
      "%xt = transpose(%x) {perm = [1, 0, 2]}\n%zt, %ht, %ct = rnn(%xt, %w, %r) {cell = \"lstm\", layout = 1}\n"
      "%z = transpose(%zt) {perm = [1, 2, 0, 3]}\n%hz = transpose(%ht) {perm = [1, 0, 2]}\n"
      "%cz = transpose(%ct) {perm = [1, 0, 2]}\nreturn %y, %z, %h, %hz, %c, %cz",
      0);
}

static void test_lstm(void **state) {
  (void)state;
  /* standard */
  check_values("%x: f32[3, 2, 2] = constant ramp()\n"
               "%w: f32[1, 8, 2] = constant ramp()\n"
               "%r: f32[1, 8, 2] = constant ramp()\n"
               "%y, %yh, %yc = rnn(%x, %w, %r) {cell = \"lstm\"}\n"
               "%want_y: f32[3, 1, 2, 2] = constant data(-0.0381291024, 0.192045242, -0.0328322947, "
               "0.131274164, -0.0890601128, 0.136058092, -0.064415291, 0.0487364456, -0.0925564095, "
               "0.00959342346, -0.0602252148, -0.0755349249)\n"
               "%want_yh: f32[1, 2, 2] = constant data(-0.0925564095, 0.00959342346, -0.0602252148, "
               "-0.0755349249)\n"
               "%want_yc: f32[1, 2, 2] = constant data(-0.197809339, 0.0185953081, -0.134077311, -0.145997614)\n"
               "return %y, %want_y, %yh, %want_yh, %yc, %want_yc",
               1e-5);
  /* peepholes, states */
  check_values("%x: f32[3, 2, 2] = constant ramp()\n"
               "%w: f32[1, 8, 2] = constant ramp()\n"
               "%r: f32[1, 8, 2] = constant ramp()\n"
               "%b: f32[1, 16] = constant ramp()\n"
               "%h: f32[1, 2, 2] = constant ramp()\n"
               "%c: f32[1, 2, 2] = constant ramp()\n"
               "%p: f32[1, 6] = constant ramp()\n"
               "%y, %yh, %yc = rnn(%x, %w, %r, %b, _, %h, %c, %p) {cell = \"lstm\"}\n"
               "%want_y: f32[3, 1, 2, 2] = constant data(-0.535427988, 0.252256989, -0.433737785, 0.159802422, "
               "-0.565531015, 0.0851985589, -0.474389225, -0.0056079491, -0.57630825, -0.0638022944, "
               "-0.479274184, -0.138236925)\n"
               "%want_yh: f32[1, 2, 2] = constant data(-0.57630825, -0.0638022944, -0.479274184, -0.138236925)\n"
               "%want_yc: f32[1, 2, 2] = constant data(-1.32278264, -0.109263338, -1.06071043, -0.233677983)\n"
               "return %y, %want_y, %yh, %want_yh, %yc, %want_yc",
               1e-5);
  /* both directions, lengths */
  check_values("%x: f32[3, 2, 2] = constant ramp()\n"
               "%w: f32[2, 8, 2] = constant ramp()\n"
               "%r: f32[2, 8, 2] = constant ramp()\n"
               "%b: f32[2, 16] = constant ramp()\n"
               "%n: i32[2] = constant data(3, 2)\n"
               "%h: f32[2, 2, 2] = constant ramp()\n"
               "%y, %yh, %yc = rnn(%x, %w, %r, %b, %n, %h) {cell = \"lstm\", direction = \"bidirectional\"}\n"
               "%want_y: f32[3, 2, 2, 2] = constant data(-0.309948117, 0.281660467, -0.247388348, 0.180953085, "
               "0.0997436643, 0.129775822, 0.0742281824, 0.11384581, -0.320190161, 0.0589528307, -0.264054686, "
               "-0.0281739179, 0.0449003987, 0.114021733, 0.00524916593, 0.0766636133, -0.299377322, "
               "-0.0951817334, 0, 0, 0.00524916593, 0.0766636133, 0, 0)\n"
               "%want_yh: f32[2, 2, 2] = constant data(-0.299377322, -0.0951817334, -0.264054686, "
               "-0.0281739179, 0.0997436643, 0.129775822, 0.0742281824, 0.11384581)\n"
               "%want_yc: f32[2, 2, 2] = constant data(-0.708833456, -0.166928887, -0.579016089, -0.0493324697, "
               "0.419691473, 0.600701451, 0.285860538, 0.436918914)\n"
               "return %y, %want_y, %yh, %want_yh, %yc, %want_yc",
               1e-5);
  /* coupled gates, clip */
  check_values("%x: f32[3, 2, 2] = constant ramp()\n"
               "%w: f32[1, 8, 2] = constant ramp()\n"
               "%r: f32[1, 8, 2] = constant ramp()\n"
               "%b: f32[1, 16] = constant ramp()\n"
               "%y, %yh, %yc = rnn(%x, %w, %r, %b) {cell = \"lstm\", input_forget = 1, clip = 0.25}\n"
               "%want_y: f32[3, 1, 2, 2] = constant data(-0.0769192055, 0.0742766932, -0.0697233677, "
               "0.0365840383, -0.0956587046, 0.000814028957, -0.0888379589, -0.0391893499, -0.0997131541, "
               "-0.0595991239, -0.0936702862, -0.0817659497)\n"
               "%want_yh: f32[1, 2, 2] = constant data(-0.0997131541, -0.0595991239, -0.0936702862, "
               "-0.0817659497)\n"
               "%want_yc: f32[1, 2, 2] = constant data(-0.211428717, -0.106414855, -0.208330736, -0.146484166)\n"
               "return %y, %want_y, %yh, %want_yh, %yc, %want_yc",
               1e-5);
}

static void test_gru(void **state) {
  (void)state;
  /* standard */
  check_values("%x: f32[3, 2, 2] = constant ramp()\n"
               "%w: f32[1, 6, 2] = constant ramp()\n"
               "%r: f32[1, 6, 2] = constant ramp()\n"
               "%b: f32[1, 12] = constant ramp()\n"
               "%y, %yh = rnn(%x, %w, %r, %b) {cell = \"gru\"}\n"
               "%want_y: f32[3, 1, 2, 2] = constant data(-0.0764876604, -0.122684605, -0.00836023223, "
               "0.00823864993, 0.0321276002, 0.0788342208, 0.198551536, 0.333447725, 0.348430842, 0.517228425, "
               "0.546922803, 0.737753034)\n"
               "%want_yh: f32[1, 2, 2] = constant data(0.348430842, 0.517228425, 0.546922803, 0.737753034)\n"
               "return %y, %want_y, %yh, %want_yh",
               1e-5);
  /* reset behind the product, reversed */
  check_values("%x: f32[3, 2, 2] = constant ramp()\n"
               "%w: f32[1, 6, 2] = constant ramp()\n"
               "%r: f32[1, 6, 2] = constant ramp()\n"
               "%b: f32[1, 12] = constant ramp()\n"
               "%h: f32[1, 2, 2] = constant ramp()\n"
               "%y, %yh = rnn(%x, %w, %r, %b, _, %h) {cell = \"gru\", direction = \"reverse\", "
               "linear_before_reset = 1}\n"
               "%want_y: f32[3, 1, 2, 2] = constant data(-0.330722511, -0.363316238, -0.116829574, "
               "0.0147068501, -0.261964142, -0.181631297, 0.0328735746, 0.284735143, -0.339493304, "
               "-0.199917138, 0.00365431607, 0.206580982)\n"
               "%want_yh: f32[1, 2, 2] = constant data(-0.330722511, -0.363316238, -0.116829574, 0.0147068501)\n"
               "return %y, %want_y, %yh, %want_yh",
               1e-5);
}

static void test_rnn(void **state) {
  (void)state;
  /* standard */
  check_values("%x: f32[3, 2, 2] = constant ramp()\n"
               "%w: f32[1, 2, 2] = constant ramp()\n"
               "%r: f32[1, 2, 2] = constant ramp()\n"
               "%b: f32[1, 4] = constant ramp()\n"
               "%y, %yh = rnn(%x, %w, %r, %b) {cell = \"rnn\"}\n"
               "%want_y: f32[3, 1, 2, 2] = constant data(-0.288450241, -0.37189889, -0.565324962, -0.543686986, "
               "-0.489650548, -0.496339858, -0.511180818, -0.508222163, -0.759242713, -0.682976842, "
               "-0.865434825, -0.777176797)\n"
               "%want_yh: f32[1, 2, 2] = constant data(-0.759242713, -0.682976842, -0.865434825, -0.777176797)\n"
               "return %y, %want_y, %yh, %want_yh",
               1e-5);
  /* lengths, reversed */
  check_values("%x: f32[3, 2, 2] = constant ramp()\n"
               "%w: f32[1, 2, 2] = constant ramp()\n"
               "%r: f32[1, 2, 2] = constant ramp()\n"
               "%b: f32[1, 4] = constant ramp()\n"
               "%n: i32[2] = constant data(1, 3)\n"
               "%y, %yh = rnn(%x, %w, %r, %b, %n) {cell = \"rnn\", direction = \"reverse\"}\n"
               "%want_y: f32[3, 1, 2, 2] = constant data(-0.288450241, -0.37189889, -0.439410985, -0.466731548, "
               "0, 0, -0.0403390527, -0.222192109, 0, 0, -0.965115011, -0.902284443)\n"
               "%want_yh: f32[1, 2, 2] = constant data(-0.288450241, -0.37189889, -0.439410985, -0.466731548)\n"
               "return %y, %want_y, %yh, %want_yh",
               1e-5);
  /* Relu */
  check_values("%x: f32[2, 1, 2] = constant ramp()\n"
               "%w: f32[1, 3, 2] = constant ramp()\n"
               "%r: f32[1, 3, 3] = constant ramp()\n"
               "%b: f32[1, 6] = constant ramp()\n"
               "%y, %yh = rnn(%x, %w, %r, %b) {cell = \"rnn\", activations = [\"Relu\"]}\n"
               "%want_y: f32[2, 1, 1, 3] = constant data(0, 0, 0, 0, 0, 0)\n"
               "%want_yh: f32[1, 1, 3] = constant data(0, 0, 0)\n"
               "return %y, %want_y, %yh, %want_yh",
               1e-5);
  /* HardSigmoid */
  check_values("%x: f32[2, 1, 2] = constant ramp()\n"
               "%w: f32[1, 3, 2] = constant ramp()\n"
               "%r: f32[1, 3, 3] = constant ramp()\n"
               "%b: f32[1, 6] = constant ramp()\n"
               "%y, %yh = rnn(%x, %w, %r, %b) {cell = \"rnn\", activations = [\"HardSigmoid\"], "
               "activation_alpha = [0.3], activation_beta = [0.4]}\n"
               "%want_y: f32[2, 1, 1, 3] = constant data(0.348437488, 0.3203125, 0.292187512, 0.0630273521, "
               "0.180507824, 0.297988296)\n"
               "%want_yh: f32[1, 1, 3] = constant data(0.0630273521, 0.180507824, 0.297988296)\n"
               "return %y, %want_y, %yh, %want_yh",
               1e-5);
  /* ScaledTanh */
  check_values("%x: f32[2, 1, 2] = constant ramp()\n"
               "%w: f32[1, 3, 2] = constant ramp()\n"
               "%r: f32[1, 3, 3] = constant ramp()\n"
               "%b: f32[1, 6] = constant ramp()\n"
               "%y, %yh = rnn(%x, %w, %r, %b) {cell = \"rnn\", activations = [\"ScaledTanh\"], activation_alpha "
               "= [0.5], activation_beta = [2.0]}\n"
               "%want_y: f32[2, 1, 1, 3] = constant data(-0.165410548, -0.243167996, -0.308067203, "
               "-0.0847281814, -0.284516394, -0.403971374)\n"
               "%want_yh: f32[1, 1, 3] = constant data(-0.0847281814, -0.284516394, -0.403971374)\n"
               "return %y, %want_y, %yh, %want_yh",
               1e-5);
  /* Affine */
  check_values("%x: f32[2, 1, 2] = constant ramp()\n"
               "%w: f32[1, 3, 2] = constant ramp()\n"
               "%r: f32[1, 3, 3] = constant ramp()\n"
               "%b: f32[1, 6] = constant ramp()\n"
               "%y, %yh = rnn(%x, %w, %r, %b) {cell = \"rnn\", activations = [\"Affine\"], activation_alpha = "
               "[0.5], activation_beta = [0.25]}\n"
               "%want_y: f32[2, 1, 1, 3] = constant data(0.1640625, 0.1171875, 0.0703125, -0.123535156, "
               "-0.0419921875, 0.0395507812)\n"
               "%want_yh: f32[1, 1, 3] = constant data(-0.123535156, -0.0419921875, 0.0395507812)\n"
               "return %y, %want_y, %yh, %want_yh",
               1e-5);
  /* LeakyRelu */
  check_values("%x: f32[2, 1, 2] = constant ramp()\n"
               "%w: f32[1, 3, 2] = constant ramp()\n"
               "%r: f32[1, 3, 3] = constant ramp()\n"
               "%b: f32[1, 6] = constant ramp()\n"
               "%y, %yh = rnn(%x, %w, %r, %b) {cell = \"rnn\", activations = [\"LeakyRelu\"], activation_alpha "
               "= [0.125]}\n"
               "%want_y: f32[2, 1, 1, 3] = constant data(-0.021484375, -0.033203125, -0.044921875, "
               "-0.0570373535, -0.057800293, -0.0585632324)\n"
               "%want_yh: f32[1, 1, 3] = constant data(-0.0570373535, -0.057800293, -0.0585632324)\n"
               "return %y, %want_y, %yh, %want_yh",
               1e-5);
  /* ThresholdedRelu */
  check_values("%x: f32[2, 1, 2] = constant ramp()\n"
               "%w: f32[1, 3, 2] = constant ramp()\n"
               "%r: f32[1, 3, 3] = constant ramp()\n"
               "%b: f32[1, 6] = constant ramp()\n"
               "%y, %yh = rnn(%x, %w, %r, %b) {cell = \"rnn\", activations = [\"ThresholdedRelu\"], "
               "activation_alpha = [0.25]}\n"
               "%want_y: f32[2, 1, 1, 3] = constant data(0, 0, 0, 0, 0, 0)\n"
               "%want_yh: f32[1, 1, 3] = constant data(0, 0, 0)\n"
               "return %y, %want_y, %yh, %want_yh",
               1e-5);
  /* Elu */
  check_values("%x: f32[2, 1, 2] = constant ramp()\n"
               "%w: f32[1, 3, 2] = constant ramp()\n"
               "%r: f32[1, 3, 3] = constant ramp()\n"
               "%b: f32[1, 6] = constant ramp()\n"
               "%y, %yh = rnn(%x, %w, %r, %b) {cell = \"rnn\", activations = [\"Elu\"], activation_alpha = "
               "[0.5]}\n"
               "%want_y: f32[2, 1, 1, 3] = constant data(-0.0789577961, -0.116636693, -0.150943756, "
               "-0.132555872, -0.167090923, -0.198380113)\n"
               "%want_yh: f32[1, 1, 3] = constant data(-0.132555872, -0.167090923, -0.198380113)\n"
               "return %y, %want_y, %yh, %want_yh",
               1e-5);
  /* Softsign */
  check_values("%x: f32[2, 1, 2] = constant ramp()\n"
               "%w: f32[1, 3, 2] = constant ramp()\n"
               "%r: f32[1, 3, 3] = constant ramp()\n"
               "%b: f32[1, 6] = constant ramp()\n"
               "%y, %yh = rnn(%x, %w, %r, %b) {cell = \"rnn\", activations = [\"Softsign\"]}\n"
               "%want_y: f32[2, 1, 1, 3] = constant data(-0.146666661, -0.209876537, -0.264367819, "
               "-0.124548897, -0.255874783, -0.352939904)\n"
               "%want_yh: f32[1, 1, 3] = constant data(-0.124548897, -0.255874783, -0.352939904)\n"
               "return %y, %want_y, %yh, %want_yh",
               1e-5);
  /* Softplus */
  check_values("%x: f32[2, 1, 2] = constant ramp()\n"
               "%w: f32[1, 3, 2] = constant ramp()\n"
               "%r: f32[1, 3, 3] = constant ramp()\n"
               "%b: f32[1, 6] = constant ramp()\n"
               "%y, %yh = rnn(%x, %w, %r, %b) {cell = \"rnn\", activations = [\"Softplus\"]}\n"
               "%want_y: f32[2, 1, 1, 3] = constant data(0.610897779, 0.569128454, 0.529517353, 0.184866846, "
               "0.334863216, 0.576112568)\n"
               "%want_yh: f32[1, 1, 3] = constant data(0.184866846, 0.334863216, 0.576112568)\n"
               "return %y, %want_y, %yh, %want_yh",
               1e-5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_types), cmocka_unit_test(test_rejects), cmocka_unit_test(test_batch_first),
      cmocka_unit_test(test_lstm),  cmocka_unit_test(test_gru),     cmocka_unit_test(test_rnn),
  };
  return cmocka_run_group_tests_name("ops/rnn", tests, NULL, NULL);
}
