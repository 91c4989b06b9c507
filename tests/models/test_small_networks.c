/* Three small real networks at every level, with 1 and 2 threads, optimized and not.
 * run-tests: levels threads */
#include "models/check.h"

static const char *const names[] = {"ppocrv2-cls", "magika", "silero-vad"};

static void check_all(const check_options *options) {
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) check_network(names[i], options);
}

static void one_thread(void **state) {
  (void)state;
  check_all(&(check_options){.num_threads = 1});
}

static void two_threads(void **state) {
  (void)state;
  check_all(&(check_options){.num_threads = 2});
}

static void one_thread_as_imported(void **state) {
  (void)state;
  check_all(&(check_options){.num_threads = 1, .no_optimize = 1});
}

static void two_threads_as_imported(void **state) {
  (void)state;
  check_all(&(check_options){.num_threads = 2, .no_optimize = 1});
}

static void speech(void **state) {
  (void)state;
  check_speech(&(check_options){.num_threads = 2});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_thread), cmocka_unit_test(two_threads),
                                     cmocka_unit_test(one_thread_as_imported),
                                     cmocka_unit_test(two_threads_as_imported), cmocka_unit_test(speech)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
