/* grid_sample, affine_grid, roi_align, max_roi_pool, nms, col2im, max_unpool, deform_conv. */
#include "ops/check.h"

static void test_grid_sample(void **state) {
  (void)state;
  check_type("%x: f32[n, c, h, w], %g: f32[n, i, j, 2]", "%y = grid_sample(%x, %g)\nreturn %y", "f32[n, c, i, j]");
  check_rejects("%x: f32[n, c, h, w], %g: f32[n, i, j, 3]", "%y = grid_sample(%x, %g)\nreturn %y", TERCEL_INVALID_MODEL,
                "grid of rank 4 with 3 numbers a point");
  check_rejects("%x: string[1, 1, 2], %g: f32[1, 2, 1]", "%y = grid_sample(%x, %g)\nreturn %y", TERCEL_INVALID_MODEL,
                "linear sampling of string");
  check_rejects("%x: f32[1, 1, 2], %g: f32[1, 2, 1]", "%y = grid_sample(%x, %g) {mode = \"bicubic\"}\nreturn %y",
                TERCEL_INVALID_MODEL, "mode is \"bicubic\"");
  check_values("%x: f32[1, 1, 4] = constant data(1, 2, 3, 4)\n%g: f32[1, 5, 1] = constant data(-1, 0, 0.25, 2, nan)\n"
               "%z = grid_sample(%x, %g)\n%wz: f32[1, 1, 5] = constant data(0.5, 2.5, 3, 0, 0.5)\n"
               "%b = grid_sample(%x, %g) {padding = \"border\"}\n%wb: f32[1, 1, 5] = constant data(1, 2.5, 3, 4, 1)\n"
               "%r = grid_sample(%x, %g) {padding = \"reflection\", align_corners = 1}\n"
               "%wr: f32[1, 1, 5] = constant data(1, 2.5, 2.875, 2.5, 1)\n"
               "%n = grid_sample(%x, %g) {mode = \"nearest\"}\n%wn: f32[1, 1, 5] = constant data(1, 3, 3, 0, 1)\n"
               "%c = grid_sample(%x, %g) {mode = \"cubic\", align_corners = 1, padding = \"border\"}\n"
               "%wc: f32[1, 1, 5] = constant data(1, 2.5, 2.833984375, 4, 1)\n"
               "return %z, %wz, %b, %wb, %r, %wr, %n, %wn, %c, %wc",
               1e-6);
  check_values("%x: f32[1, 1, 2] = constant data(1, 2)\n%g: f32[1, 2, 1] = constant data(1e30, -inf)\n"
               "%y = grid_sample(%x, %g) {padding = \"reflection\", mode = \"nearest\"}\n"
               "%z = grid_sample(%x, %g)\n%w: f32[1, 1, 2] = constant zeros()\nreturn %z, %w, %y, %y",
               0);
}

static void test_affine_grid(void **state) {
  (void)state;
  check_type("%t: f32[n, 2, 3], %x: f32[a, b, c, d]", "%s = shape(%x)\n%y = affine_grid(%t, %s)\nreturn %y",
             "f32[n, c, d, 2]");
  check_type("%t: f32[n, 2, 3], %s: i64[4]", "%y = affine_grid(%t, %s)\nreturn %y", "f32[n, ?3, ?4, 2]");
  check_rejects("%t: f32[1, 2, 3]", "%s: i64[3] = constant data(1, 1, 2)\n%y = affine_grid(%t, %s)\nreturn %y",
                TERCEL_INVALID_MODEL, "a size of 3 dims");
  check_rejects("%t: f32[1, 2, 3]", "%s: i64[4] = constant data(1, 1, -2, 2)\n%y = affine_grid(%t, %s)\nreturn %y",
                TERCEL_INVALID_ARGUMENT, "size[2] is -2");
  check_values("%t: f32[1, 2, 3] = constant data(1, 0, 10, 0, 2, 0)\n%s: i64[4] = constant data(1, 1, 2, 1)\n"
               "%y = affine_grid(%t, %s)\n%w: f32[1, 2, 1, 2] = constant data(10, -1, 10, 1)\n"
               "%z = affine_grid(%t, %s) {align_corners = 1}\n%v: f32[1, 2, 1, 2] = constant data(10, -2, 10, 2)\n"
               "return %y, %w, %z, %v",
               0);
}

#define PICTURE "%x: f32[1, 1, 3, 4] = constant data(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)\n"

static void test_roi(void **state) {
  (void)state;
  check_type("%x: f32[n, c, h, w], %r: f32[k, 4], %i: i64[k]",
             "%y = roi_align(%x, %r, %i) {output_height = 7, output_width = 5}\nreturn %y", "f32[k, c, 7, 5]");
  check_type("%x: f32[n, c, h, w], %r: f32[k, 5]", "%y = max_roi_pool(%x, %r) {pooled_shape = [7, 5]}\nreturn %y",
             "f32[k, c, 7, 5]");
  check_rejects("%x: f32[n, c, h, w], %r: f32[k, 4]", "%y = max_roi_pool(%x, %r) {pooled_shape = [7, 5]}\nreturn %y",
                TERCEL_INVALID_MODEL, "4 numbers each, want rank 2 with 5");
  check_rejects("%x: f32[n, c, h, w], %r: f32[3, 4], %i: i64[2]", "%y = roi_align(%x, %r, %i)\nreturn %y",
                TERCEL_INVALID_MODEL, "one for each region");
  check_values(PICTURE "%r: f32[1, 4] = constant data(0, 0, 4, 3)\n%i: i64[1] = constant data(0)\n"
                       "%y = roi_align(%x, %r, %i) {output_height = 1, output_width = 2}\n"
                       "%w: f32[1, 1, 1, 2] = constant data(4.5, 6.5)\n"
                       "%o: f32[1, 5] = constant data(0, 1, 0, 3, 2)\n"
                       "%z = max_roi_pool(%x, %o) {pooled_shape = [1, 3]}\n"
                       "%v: f32[1, 1, 1, 3] = constant data(9, 10, 11)\nreturn %y, %w, %z, %v",
               1e-6);
  check_eval_fails(PICTURE "%r: f32[1, 4] = constant data(0, 0, 1e30, 3)\n%i: i64[1] = constant data(0)\n"
                           "%y = roi_align(%x, %r, %i)\nreturn %y",
                   TERCEL_INVALID_ARGUMENT, "region 0 has an edge at");
  check_eval_fails(PICTURE "%r: f32[1, 4] = constant data(0, 0, 1, 3)\n%i: i64[1] = constant data(1)\n"
                           "%y = roi_align(%x, %r, %i)\nreturn %y",
                   TERCEL_INVALID_ARGUMENT, "region 0 is of picture 1, there are 1");
}

static void test_nms(void **state) {
  (void)state;
  check_type("%b: f32[n, k, 4], %s: f32[n, c, k], %m: i64[]", "%y = nms(%b, %s, %m)\nreturn %y", "i64[?3, 3]");
  check_rejects("%b: f32[1, 3, 4], %s: f32[1, 1, 2]", "%y = nms(%b, %s)\nreturn %y", TERCEL_INVALID_MODEL,
                "want batch,boxes,4 and batch,classes,boxes");
#define BOXES                                                                                                          \
  "%b: f32[1, 3, 4] = constant data(0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, 3, 1, 4)\n"                                         \
  "%s: f32[1, 1, 3] = constant data(0.5, 0.9, nan)\n%m: i64[] = constant data(3)\n%i: f32[] = constant data(0.5)\n"
  check_values(BOXES "%y = nms(%b, %s, %m, %i)\n%w: i64[1, 3] = constant data(0, 0, 1)\n%n = nms(%b, %s)\n"
                     "%e: i64[0, 3] = constant zeros()\nreturn %y, %w, %n, %e",
               0);
  check_values(BOXES "%t: f32[] = constant data(0.95)\n%y = nms(%b, %s, %m, %i, %t)\n"
                     "%w: i64[0, 3] = constant zeros()\nreturn %y, %w",
               0);
#undef BOXES
}

static void test_col2im(void **state) {
  (void)state;
#define SHAPES "%i: i64[2] = constant data(2, 3)\n%b: i64[2] = constant data(1, 2)\n"
  check_type("%x: f32[n, 6, 4]", SHAPES "%y = col2im(%x, %i, %b)\nreturn %y", "f32[n, 3, 2, 3]");
  check_type("%x: f32[n, 6, 4], %j: i64[2]", SHAPES "%y = col2im(%x, %j, %b)\nreturn %y", "f32[n, 3, ?3, ?4]");
  check_type("%x: f32[n, 6, 4], %j: i64[2]", SHAPES "%y = col2im(%x, %i, %j)\nreturn %y", "f32[n, ?2, 2, 3]");
  check_type("%x: f32[n, 6, 4], %j: i64[k]", "%y = col2im(%x, %j, %j) {strides = [1, 1]}\nreturn %y",
             "f32[n, ?3, ?4, ?5]");
  check_type("%x: f32[n, 6, 4], %j: i64[k]", "%y = col2im(%x, %j, %j)\nreturn %y", "f32[*]");
  check_rejects("%x: f32[n, 5, 4]", SHAPES "%y = col2im(%x, %i, %b)\nreturn %y", TERCEL_INVALID_ARGUMENT,
                "no multiple of the block's 2 elements");
  check_rejects("%x: f32[n, 6, 5]", SHAPES "%y = col2im(%x, %i, %b)\nreturn %y", TERCEL_INVALID_ARGUMENT,
                "5 columns for an image with 4 blocks");
  check_rejects("%x: f32[n, 6, 5]",
                "%i: i64[1] = constant data(9223372036854775807)\n%b: i64[1] = constant data(1)\n%y = col2im(%x, %i, "
                "%b)\nreturn %y",
                TERCEL_INVALID_MODEL, "too large");
  check_values("%x: i32[1, 2, 4] = constant data(1, 2, 3, 4, 10, 20, 30, 40)\n" SHAPES "%y = col2im(%x, %i, %b)\n"
               "%w: i32[1, 1, 2, 3] = constant data(1, 12, 20, 3, 34, 40)\nreturn %y, %w",
               0);
#undef SHAPES
}

static void test_max_unpool(void **state) {
  (void)state;
#define UNPOOL "%y = max_unpool(%x, %i) {kernel = [2], strides = [2]}\n"
  check_type("%x: f32[n, c, w], %i: i64[n, c, w]", UNPOOL "return %y", "f32[n, c, 2*w]");
  check_rejects("%x: f32[n, c, 2], %i: i64[n, c, 3]", UNPOOL "return %y", TERCEL_INVALID_MODEL, "another shape");
  check_values("%x: f32[1, 1, 2] = constant data(5, 6)\n%i: i64[1, 1, 2] = constant data(1, 2)\n" UNPOOL
               "%w: f32[1, 1, 4] = constant data(0, 5, 6, 0)\n%s: i64[3] = constant data(1, 2, 5)\n"
               "%z = max_unpool(%x, %i, %s) {kernel = [2], strides = [2]}\n"
               "%v: f32[1, 2, 5] = constant data(0, 5, 6, 0, 0, 0, 0, 0, 0, 0)\nreturn %y, %w, %z, %v",
               0);
  check_eval_fails("%x: f32[1, 1, 1] = constant data(5)\n%i: i64[1, 1, 1] = constant data(2)\n" UNPOOL "return %y",
                   TERCEL_INVALID_ARGUMENT, "index 2, want 0 .. 1");
#undef UNPOOL
}

static void test_deform_conv(void **state) {
  (void)state;
  check_type("%x: f32[n, 4, h, w], %k: f32[6, 2, 3, 3], %o: f32[n, 18, h, w]",
             "%y = deform_conv(%x, %k, %o) {group = 2, pads = [1, 1, 1, 1]}\nreturn %y", "f32[n, 6, h, w]");
  check_rejects("%x: f32[1, 4, 5, 5], %k: f32[6, 4, 3, 3], %o: f32[1, 9, 3, 3]",
                "%y = deform_conv(%x, %k, %o)\nreturn %y", TERCEL_INVALID_MODEL,
                "input 2 is [1, 9, 3, 3], want [1, 18, 3, 3]");
  check_rejects("%x: f32[1, 4, 5, 5], %k: f32[6, 3, 3, 3], %o: f32[1, 18, 3, 3]",
                "%y = deform_conv(%x, %k, %o)\nreturn %y", TERCEL_INVALID_MODEL, "4 channels for weights of 3");
  check_values(PICTURE
               "%k: f32[1, 1, 1, 2] = constant data(1, 10)\n%o: f32[1, 4, 3, 3] = constant zeros()\n"
               "%h: f32[1, 4, 3, 3] = constant fill(0.5)\n%m: f32[1, 2, 3, 3] = constant fill(2)\n"
               "%b: f32[1] = constant data(100)\n%y = deform_conv(%x, %k, %o)\n%c = conv(%x, %k)\n"
               "%z = deform_conv(%x, %k, %h, %b, %m)\n%v: f32[1, 1, 3, 3] = constant data(175, 197, 159, 263, 285, "
               "207, 203.5, 214.5, 165.5)\nreturn %y, %c, %z, %v",
               0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_grid_sample), cmocka_unit_test(test_affine_grid),
                                     cmocka_unit_test(test_roi),         cmocka_unit_test(test_nms),
                                     cmocka_unit_test(test_col2im),      cmocka_unit_test(test_max_unpool),
                                     cmocka_unit_test(test_deform_conv)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
