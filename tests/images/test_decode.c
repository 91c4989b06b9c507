/* images/images.h: pictures of all formats against Pillow's pixels, hand-made PNM and BMP, and hostile files: cut, damaged, and of
 * sizes that are refused before anything is allocated. */
#include "support/support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "images/images.h"

enum { WIDTH = 13, HEIGHT = 9, PIXELS_MAX = 1 << 20 };

typedef struct contents {
  uint8_t *data; /* exactly `bytes`, so that a read past the end is noticed */
  size_t bytes;
} contents;

static contents read_case(const char *name) {
  char path[512];
  tercel_error err = {0};
  tercel_file file;
  snprintf(path, sizeof path, TERCEL_TEST_SOURCE_DIR "/images/cases/%s", name);
  assert_ok(tercel_file_open(path, false, &file, &err), &err);
  const contents out = {malloc(file.size), file.size};
  assert_non_null(out.data);
  memcpy(out.data, file.data, file.size);
  tercel_file_close(&file);
  return out;
}

static tercel_status decode(contents from, int channels, tercel_image *out, tercel_error *err) {
  return tercel_image_decode(from.data, from.bytes, channels, PIXELS_MAX, out, err);
}

/* Calls fn for every picture of tests/images/cases. */
static void for_each(void (*fn)(const char *name, contents file)) {
  DIR *const folder = opendir(TERCEL_TEST_SOURCE_DIR "/images/cases");
  assert_non_null(folder);
  int count = 0;
  for (const struct dirent *entry; (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    const contents file = read_case(entry->d_name);
    fn(entry->d_name, file);
    free(file.data);
    count++;
  }
  closedir(folder);
  assert_true(count >= 60);
}

/* ---- right pixels -------------------------------------------------------------------------------------------------- */

/* How far a lossy picture may be off: decoders round differently from release to release. */
static int tolerance_of(const char *name) {
  return strstr(name, ".jpg") || strstr(name, "lossy") || strstr(name, "jpeg") ? 2 : 0;
}

static void check_case(const char *name, contents file) {
  char wanted[256];
  tercel_error err = {0};
  tercel_image image = {0}, want = {0};
  if (strstr(name, ".ppm")) return;
  snprintf(wanted, sizeof wanted, "%s.ppm", name);
  const contents ppm = read_case(wanted);
  assert_ok(decode(ppm, 3, &want, &err), &err);
  assert_ok(decode(file, 3, &image, &err), &err);
  assert_int_equal(image.width, WIDTH);
  assert_int_equal(image.height, HEIGHT);
  for (int i = 0; i < WIDTH * HEIGHT * 3; i++)
    if (abs(image.pixels[i] - want.pixels[i]) > tolerance_of(name))
      fail_msg("%s: sample %d is %d, want %d", name, i, image.pixels[i], want.pixels[i]);
  tercel_image_deinit(&image);
  tercel_image_deinit(&want);
  free(ppm.data);
}

static void test_pixels(void **state) {
  (void)state;
  for_each(check_case);
}

static void check_bytes(const char *data, size_t bytes, int width, int height, const uint8_t *want) {
  tercel_error err = {0};
  tercel_image image;
  assert_ok(tercel_image_decode(data, bytes, 3, PIXELS_MAX, &image, &err), &err);
  assert_int_equal(image.width, width);
  assert_int_equal(image.height, height);
  assert_memory_equal(image.pixels, want, (size_t)(width * height * 3));
  tercel_image_deinit(&image);
}
#define CHECK_BYTES(data, width, height, ...)                                                                          \
  check_bytes(data, sizeof(data) - 1, width, height, (const uint8_t[]){__VA_ARGS__})
#define GRAY(v) (v), (v), (v)

static void test_pnm(void **state) {
  (void)state;
  CHECK_BYTES("P1 3 2\n1 0 1\n011", 3, 2, GRAY(0), GRAY(255), GRAY(0), GRAY(255), GRAY(0), GRAY(0));
  CHECK_BYTES("P2\n# a comment\n2 2 # another\n10\n0 10 5 1", 2, 2, GRAY(0), GRAY(255), GRAY(128), GRAY(26));
  CHECK_BYTES("P3 1 2 255 1 2 3 4 5 6\n", 1, 2, 1, 2, 3, 4, 5, 6);
  CHECK_BYTES("P4 9 1\n\x80\x80", 9, 1, GRAY(0), GRAY(255), GRAY(255), GRAY(255), GRAY(255), GRAY(255), GRAY(255),
              GRAY(255), GRAY(0));
  CHECK_BYTES("P5 2 1 255\n\x07\xff", 2, 1, GRAY(7), GRAY(255));
  CHECK_BYTES("P5 2 1 65535\n\xff\xff\x80\x80", 2, 1, GRAY(255), GRAY(128));
  CHECK_BYTES("P6 1 1 15\n\x0f\x00\x05", 1, 1, 255, 0, 85);
}

/* A BMP of 4 x 2 with 8 (or 4) bits a pixel, three colors and runs. */
#define RUNS_HEADER(bits, method)                                                                                      \
  "BM\0\0\0\0\0\0\0\0\x42\0\0\0"                                                                                       \
  "\x28\0\0\0\x04\0\0\0\x02\0\0\0\x01\0" bits "\0" method "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0"           \
  "\x01\x02\x03\0\x11\x12\x13\0\x21\x22\x23\0"
#define BLACK 3, 2, 1
#define FIRST 0x13, 0x12, 0x11
#define SECOND 0x23, 0x22, 0x21

static void test_bmp_runs(void **state) {
  (void)state;
  /* Below: three of color 1, and what is left; above: a literal of four. */
  CHECK_BYTES(RUNS_HEADER("\x08", "\x01") "\x03\x01\0\0\0\x04\x02\x01\x02\x02\0\x01", 4, 2, SECOND, FIRST, SECOND,
              SECOND, FIRST, FIRST, FIRST, BLACK);
  /* A step over one pixel; what reaches beyond the row is dropped. */
  CHECK_BYTES(RUNS_HEADER("\x08", "\x01") "\x00\x02\x01\x00\x09\x02\0\x01", 4, 2, BLACK, BLACK, BLACK, BLACK, BLACK,
              SECOND, SECOND, SECOND);
  CHECK_BYTES(RUNS_HEADER("\x04", "\x02") "\x04\x12\0\0\0\x03\x21\x10\0\x01", 4, 2, SECOND, FIRST, FIRST, BLACK, FIRST,
              SECOND, FIRST, SECOND);
}

static void test_gray(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_image image;
  const char data[] = "P6 3 1 255\n\xff\0\0\0\xff\0\x11\x11\x11";
  assert_ok(tercel_image_decode(data, sizeof data - 1, 1, PIXELS_MAX, &image, &err), &err);
  assert_int_equal(image.channels, 1);
  assert_memory_equal(image.pixels, ((const uint8_t[]){76, 150, 17}), 3); /* 0.299 R, 0.587 G */
  tercel_image_deinit(&image);
}

/* ---- hostile files ------------------------------------------------------------------------------------------------- */

/* Decodes a copy of its exact size: a picture or an error that says something. */
static void try_bytes(const char *name, const uint8_t *data, size_t bytes) {
  tercel_error err = {0};
  tercel_image image;
  uint8_t *const exact = malloc(bytes ? bytes : 1);
  assert_non_null(exact);
  memcpy(exact, data, bytes);
  const tercel_status status = tercel_image_decode(exact, bytes, 3, PIXELS_MAX, &image, &err);
  if (status == TERCEL_OK)
    tercel_image_deinit(&image);
  else if ((status != TERCEL_INVALID_ARGUMENT && status != TERCEL_UNSUPPORTED) || !err.message[0] || image.pixels)
    fail_msg("%s: status %d, message \"%s\"", name, (int)status, err.message);
  free(exact);
}

static void cut(const char *name, contents file) {
  for (size_t bytes = 0; bytes < file.bytes; bytes++) try_bytes(name, file.data, bytes);
}

static void damage(const char *name, contents file) {
  tercel_test_random random = tercel_test_random_start(file.bytes);
  uint8_t *const copy = malloc(file.bytes);
  assert_non_null(copy);
  for (int n = 0; n < 400; n++) {
    memcpy(copy, file.data, file.bytes);
    for (int64_t i = tercel_test_random_int(&random, 1, 4); i > 0; i--) {
      const int64_t at = tercel_test_random_int(&random, 0, (int64_t)file.bytes - 1);
      copy[at] = n % 2 ? (uint8_t)tercel_test_random_u64(&random) : (uint8_t)(copy[at] ^ 1u << (n / 2 % 8));
    }
    try_bytes(name, copy, file.bytes);
  }
  free(copy);
}

static void test_cut(void **state) {
  (void)state;
  for_each(cut);
}

static void test_damaged(void **state) {
  (void)state;
  for_each(damage);
}

/* A file whose pixels are not all there is no picture. */
static void test_cut_in_half(void **state) {
  (void)state;
  static const char *const names[] = {"24.bmp",   "444.jpg",  "rgb.png",       "rgb.jp2",   "bare.j2k",
                                      "raw.tiff", "lzw.tiff", "lossless.webp", "24.bmp.ppm"};
  tercel_error err = {0};
  tercel_image image;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    contents file = read_case(names[i]);
    file.bytes = file.bytes * 3 / 4;
    assert_fails(decode(file, 3, &image, &err), TERCEL_INVALID_ARGUMENT, &err, "");
    free(file.data);
  }
}

typedef struct claim {
  const char *name;
  struct {
    size_t at;
    const char *bytes;
    size_t length;
  } changes[2];
} claim;

static tercel_status decode_claim(void *arg, tercel_error *err) {
  tercel_image image;
  const tercel_status status = decode(*(const contents *)arg, 3, &image, err);
  assert_fails(status, TERCEL_INVALID_ARGUMENT, err, "pixels");
  return TERCEL_OK;
}

/* Sizes that a header claims: no memory is taken for them. */
static void test_claims(void **state) {
  (void)state;
  static const claim claims[] = {
      {"24.bmp", {{18, "\x00\x40\x00\x00\x00\x40\x00\x00", 8}}}, /* 16384 x 16384 */
      {"24.bmp", {{18, "\xff\xff\xff\x7f\x00\x00\x00\x80", 8}}}, /* 2^31 - 1 x -2^31 */
      {"rgb.png", {{16, "\x00\x00\x40\x00\x00\x00\x40\x00", 8}, {29, "\x26\xaa\x87\xd3", 4}}},
      {"24.bmp.ppm", {{3, "9999 999 9 ", 11}}},
      {"444.jpg", {{163, "\x40\x00\x40\x00", 4}}},
      {"raw.tiff", {{18, "\x00\x40", 2}, {30, "\x00\x40", 2}}},
      {"bare.j2k", {{8, "\x00\x00\x40\x00\x00\x00\x40\x00", 8}}},
      {"lossy.webp", {{26, "\xff\x3f\xff\x3f", 4}}},
  };
  for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
    contents file = read_case(claims[i].name);
    for (size_t k = 0; k < 2 && claims[i].changes[k].bytes; k++)
      memcpy(file.data + claims[i].changes[k].at, claims[i].changes[k].bytes, claims[i].changes[k].length);
    assert_int_equal(tercel_test_count_allocations(decode_claim, &file), 0);
    free(file.data);
  }
}

static void test_jpeg2000_bombs(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_image image;
  contents file = read_case("bare.j2k");
  memcpy(file.data + 8, "\x00\x00\x04\x00\x00\x00\x04\x00", 8);  /* 1024 x 1024 */
  memcpy(file.data + 24, "\x00\x00\x00\x01\x00\x00\x00\x10", 8); /* tiles of 1 x 16 */
  assert_fails(decode(file, 3, &image, &err), TERCEL_INVALID_ARGUMENT, &err, "1024 x 64 tiles");
  free(file.data);
  file = read_case("bare.j2k");
  memcpy(file.data + 40, "\x40\x00", 2); /* 16384 components */
  assert_fails(decode(file, 3, &image, &err), TERCEL_UNSUPPORTED, &err, "16384 components");
  free(file.data);
}

static void test_refused(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_image image;
  static const struct {
    const char *bytes, *says;
  } files[] = {{"GIF89a", "not a BMP, JPEG"}, {"", "not a BMP, JPEG"}, {"P7\n", "not a BMP, JPEG"}};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    assert_fails(tercel_image_decode(files[i].bytes, strlen(files[i].bytes), 3, PIXELS_MAX, &image, &err),
                 TERCEL_UNSUPPORTED, &err, files[i].says);
  assert_fails(tercel_image_decode("P5 1 1 255\n\1", 12, 2, PIXELS_MAX, &image, &err), TERCEL_INVALID_ARGUMENT, &err,
               "2 channels");
  assert_fails(tercel_image_decode("P2 1 1 9 10", 11, 3, PIXELS_MAX, &image, &err), TERCEL_INVALID_ARGUMENT, &err,
               "PNM: damaged: a value of 10");
  assert_fails(tercel_image_decode("P5 4 4 255\n1234", 15, 3, PIXELS_MAX, &image, &err), TERCEL_INVALID_ARGUMENT, &err,
               "PNM: cut");
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

static tercel_status decode_and_free(void *arg, tercel_error *err) {
  tercel_image image;
  const tercel_status status = decode(*(const contents *)arg, 1, &image, err);
  tercel_image_deinit(&image);
  return status;
}

static void without_memory(const char *name, contents file) {
  (void)name;
  assert_true(tercel_test_oom(decode_and_free, &file, 0) >= 1);
}

static void test_without_memory(void **state) {
  (void)state;
  for_each(without_memory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pixels),
      cmocka_unit_test(test_pnm),
      cmocka_unit_test(test_bmp_runs),
      cmocka_unit_test(test_gray),
      cmocka_unit_test(test_cut),
      cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_cut_in_half),
      cmocka_unit_test(test_claims),
      cmocka_unit_test(test_jpeg2000_bombs),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
