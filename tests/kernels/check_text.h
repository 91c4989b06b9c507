/* Checks of nodes in text form: every kernel of the CPU backend that supports one against its reference.
 *
 *     static void test_softmax(void **state) {
 *       check_text("(%x: f32[3, 37]) { %y = softmax(%x) return %y }", &(check_options){.tolerance = {.eps = 8}});
 *     }
 *     int main(int argc, char **argv) { check_start(argc, argv);  return cmocka_run_group_tests(...); }
 *
 * `--bench` as first argument times the kernels of those cases that ask for it (option `timed`). */
#ifndef TERCEL_TESTS_KERNELS_CHECK_TEXT_H
#define TERCEL_TESTS_KERNELS_CHECK_TEXT_H

#include "kernels/check.h"

void check_start(int argc, char **argv);

/* What a float result may be off: the sum of the parts.  All 0: the very same number.  Integers and bools are always exact. */
typedef struct check_tolerance {
  double eps;   /* times the dtype's epsilon, times the wanted number */
  double scale; /* times the dtype's epsilon, times the largest wanted number of the tensor */
  double absolute;
} check_tolerance;

typedef struct check_options {
  check_tolerance tolerance;
  double low, high; /* inputs are drawn from [low, high); both 0: [-2, 2) for floats, [-8, 8] or [0, 8] for integers */
  bool specials;    /* some float elements are NaN, infinite, denormal, zero of either sign or huge */
  const char *kernel;  /* that kernel only; NULL: all that support the node */
  bool timed;          /* with --bench: print the kernels' times */
  bool reference_only; /* no kernel has to support it */
} check_options;

/* A graph of one node in text form, without the leading `graph "name"`; inputs are drawn, constants stay.  Runs the node's reference and
 * every kernel of the CPU backend that supports it: at each level, with one thread and with three, with outputs at odd addresses
 * between guard bytes, and in place where the kernel allows it.  Fails when none supports it or a result is off. */
void check_text(const char *text, const check_options *options);

#endif
