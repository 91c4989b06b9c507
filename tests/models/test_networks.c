/* Every real network at the machine's best level, with 2 threads, optimized and as imported.
 * run-tests: no-asan   (too slow there: test_small_networks.c runs three of them under ASan) */
#include "models/check.h"

#include <stdio.h>

static const char *const names[] = {
    "magika",        "ppocrv4-det",    "ppocrv4-rec",      "ppocrv2-cls",      "orientation-lcnet", "layout-picodet",
    "resnet50-thin", "yolov8n-320",    "vit-s-focus",      "minilm-l3",        "silero-vad",        "dnsmos",
    "basic-pitch",   "minilm-l6-int8", "t5s-encoder-int8", "t5s-decoder-int8", "speaker-lstm-int8", "minimol-gnn",
    "knn-trees",     "silero-vad-half"};
enum { NUM_NETWORKS = sizeof names / sizeof *names };

static void optimized(void **state) { check_network(*state, &(check_options){.num_threads = 2}); }

static void as_imported(void **state) { check_network(*state, &(check_options){.num_threads = 2, .no_optimize = 1}); }

static void speech_with_its_state(void **state) {
  (void)state;
  check_speech(&(check_options){.num_threads = 2});
}

int main(void) {
  static char titles[2 * NUM_NETWORKS][64];
  struct CMUnitTest tests[2 * NUM_NETWORKS + 1] = {0};
  for (int i = 0; i < NUM_NETWORKS; ++i) {
    snprintf(titles[2 * i], sizeof *titles, "%s optimized", names[i]);
    snprintf(titles[2 * i + 1], sizeof *titles, "%s as imported", names[i]);
    tests[2 * i] = (struct CMUnitTest){titles[2 * i], optimized, NULL, NULL, (void *)(uintptr_t)names[i]};
    tests[2 * i + 1] = (struct CMUnitTest){titles[2 * i + 1], as_imported, NULL, NULL, (void *)(uintptr_t)names[i]};
  }
  tests[2 * NUM_NETWORKS] = (struct CMUnitTest)cmocka_unit_test(speech_with_its_state);
  return cmocka_run_group_tests_name("networks", tests, NULL, NULL);
}
