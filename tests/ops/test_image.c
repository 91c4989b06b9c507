/* image_decode.  The formats are tested in tests/images. */
#include "ops/check.h"

#define FILE_BYTES                                                                                                     \
  "%x: u8[14] = constant data(80, 54, 32, 49, 32, 49, 32, 50, 53, 53, 10, 10, 20, 30)\n" /* P6 1 1 255 */

static void test_infer(void **state) {
  (void)state;
  check_type("%x: u8[n]", "%y = image_decode(%x)\nreturn %y", "u8[?1, ?2, 3]");
  check_type("%x: u8[n]", "%y = image_decode(%x) {format = \"gray\"}\nreturn %y", "u8[?1, ?2, 1]");
  check_rejects("%x: u8[1, n]", "%y = image_decode(%x)\nreturn %y", TERCEL_INVALID_MODEL, "rank 2, want 1");
  check_rejects("%x: i8[n]", "%y = image_decode(%x)\nreturn %y", TERCEL_INVALID_MODEL, "the file is i8, want u8");
  check_rejects("%x: u8[n]", "%y = image_decode(%x) {format = \"rgba\"}\nreturn %y", TERCEL_INVALID_MODEL,
                "format is \"rgba\"");
}

static void test_values(void **state) {
  (void)state;
  check_values(FILE_BYTES "%y = image_decode(%x)\n%w: u8[1, 1, 3] = constant data(10, 20, 30)\n"
                          "%b = image_decode(%x) {format = \"bgr\"}\n%v: u8[1, 1, 3] = constant data(30, 20, 10)\n"
                          "%g = image_decode(%x) {format = \"gray\"}\n%u: u8[1, 1, 1] = constant data(18)\n"
                          "return %y, %w, %b, %v, %g, %u",
               0);
}

/* What can't be decoded is empty. */
static void test_damaged(void **state) {
  (void)state;
  check_values("%x: u8[3] = constant data(80, 54, 32)\n%y = image_decode(%x)\n%w: u8[0, 0, 3] = constant zeros()\n"
               "%e: u8[0] = constant zeros()\n%z = image_decode(%e) {format = \"gray\"}\n"
               "%v: u8[0, 0, 1] = constant zeros()\nreturn %y, %w, %z, %v",
               0);
}
int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_infer),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_damaged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
