/* io/image.h: files of both formats, damaged ones and bombs; resizing against values that can be worked out by hand. */
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/image.h"

static char path[] = "/tmp/tercel-image-XXXXXX";

static int make_path(void **state) {
  (void)state;
  const int fd = mkstemp(path);
  return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state) {
  (void)state;
  return unlink(path);
}

static void check_pixels(const tercel_image *image, int width, int height, int channels, const uint8_t *want) {
  assert_int_equal(image->width, width);
  assert_int_equal(image->height, height);
  assert_int_equal(image->channels, channels);
  assert_memory_equal(image->pixels, want, (size_t)(width * height * channels));
}

static void test_resize(void **state) {
  (void)state;
  tercel_error err = {0};
  uint8_t pixels[] = {0, 100, 200, 40};
  const tercel_image row = {4, 1, 1, pixels};
  tercel_image out;
  assert_ok(tercel_image_resize(&row, 4, 1, false, &out, &err), &err);
  check_pixels(&out, 4, 1, 1, pixels);
  tercel_image_deinit(&out);
  assert_ok(tercel_image_resize(&row, 2, 1, false, &out, &err),
            &err); /* centres at 1 and 3: half way between two pixels */
  check_pixels(&out, 2, 1, 1, (const uint8_t[]){50, 120});
  tercel_image_deinit(&out);
  assert_ok(tercel_image_resize(&row, 8, 1, false, &out, &err), &err); /* a quarter, then three quarters of the way */
  check_pixels(&out, 8, 1, 1, (const uint8_t[]){0, 25, 75, 125, 175, 160, 80, 40});
  tercel_image_deinit(&out);
  /* Widened by 2: pixels at 0.5 1.5 2.5 (and 3.5) around the centre 1 weigh .75 .75 .25 (0). */
  assert_ok(tercel_image_resize(&row, 2, 1, true, &out, &err), &err);
  check_pixels(&out, 2, 1, 1, (const uint8_t[]){(uint8_t)(125 / 1.75 + 0.5), (uint8_t)(205 / 1.75 + 0.5)});
  tercel_image_deinit(&out);
  assert_fails(tercel_image_resize(&row, 0, 1, true, &out, &err), TERCEL_INVALID_ARGUMENT, &err, "0 x 1");
  assert_fails(tercel_image_resize(&row, 30000, 30000, true, &out, &err), TERCEL_INVALID_ARGUMENT, &err, "30000");
}

static void test_resize_columns_and_channels(void **state) {
  (void)state;
  tercel_error err = {0};
  uint8_t pixels[] = {0, 10, 20, 100, 110, 120};
  const tercel_image column = {1, 2, 3, pixels};
  tercel_image out;
  assert_ok(tercel_image_resize(&column, 1, 4, false, &out, &err), &err);
  check_pixels(&out, 1, 4, 3, (const uint8_t[]){0, 10, 20, 25, 35, 45, 75, 85, 95, 100, 110, 120});
  tercel_image_deinit(&out);
}

static void test_normalize(void **state) {
  (void)state;
  uint8_t pixels[] = {10, 20, 30, 40, 50, 60};
  const tercel_image image = {2, 1, 3, pixels};
  tercel_image_norm norm = {.scale = 0.5f, .mean = {1, 2, 3}, .std = {1, 2, 4}};
  float out[6];
  tercel_image_normalize(&image, &norm, out);
  assert_memory_equal(out, ((const float[]){4, 19, 4, 11.5f, 3, 6.75f}), sizeof out);
  norm.nhwc = true;
  tercel_image_normalize(&image, &norm, out);
  assert_memory_equal(out, ((const float[]){4, 4, 3, 19, 11.5f, 6.75f}), sizeof out);
  norm.bgr = true;
  tercel_image_normalize(&image, &norm, out);
  assert_memory_equal(out, ((const float[]){14, 4, 0.5f, 29, 11.5f, 4.25f}), sizeof out);
}

#if TERCEL_IMAGES
#include <turbojpeg.h>

static void read_back(uint8_t **data, size_t *bytes) {
  tercel_error err = {0};
  tercel_file file;
  assert_ok(tercel_file_open(path, false, &file, &err), &err);
  *data = malloc(file.size);
  *bytes = file.size;
  memcpy(*data, file.data, file.size);
  tercel_file_close(&file);
}

/* Every prefix and many damaged copies: an error or a picture, never a crash. */
static void damage(const uint8_t *good, size_t bytes) {
  tercel_test_random random = tercel_test_random_start(bytes);
  tercel_error err = {0};
  tercel_image image;
  for (size_t cut = 0; cut < bytes; cut += 1 + cut / 16) {
    uint8_t *const exact = malloc(cut ? cut : 1);
    memcpy(exact, good, cut);
    if (tercel_image_decode(exact, cut, 3, TERCEL_IMAGE_PIXELS_MAX, &image, &err) == TERCEL_OK)
      tercel_image_deinit(&image);
    free(exact);
  }
  for (int n = 0; n < 300 && bytes > 0; n++) {
    uint8_t *const copy = malloc(bytes);
    memcpy(copy, good, bytes);
    copy[tercel_test_random_int(&random, 0, (int64_t)bytes - 1)] = (uint8_t)tercel_test_random_u64(&random);
    if (tercel_image_decode(copy, bytes, 3, TERCEL_IMAGE_PIXELS_MAX, &image, &err) == TERCEL_OK)
      tercel_image_deinit(&image);
    free(copy);
  }
}

static void test_png(void **state) {
  (void)state;
  tercel_error err = {0};
  uint8_t pixels[5 * 4 * 3];
  for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 41);
  const tercel_image image = {5, 4, 3, pixels};
  tercel_image back;
  uint8_t *data = NULL;
  size_t bytes = 0;
  assert_ok(tercel_image_write_png(path, &image, &err), &err);
  assert_ok(tercel_image_read(path, 3, &back, &err), &err);
  check_pixels(&back, 5, 4, 3, pixels);
  tercel_image_deinit(&back);
  assert_ok(tercel_image_read(path, 1, &back, &err), &err);
  assert_int_equal(back.channels, 1);
  tercel_image_deinit(&back);
  assert_fails(tercel_image_read(path, 4, &back, &err), TERCEL_INVALID_ARGUMENT, &err, "4 channels");
  read_back(&data, &bytes);
  damage(data, bytes);
  memcpy(data + 16, "\x00\x01\x00\x00\x00\x01\x00\x00", 8); /* 65536 x 65536 */
  const uint8_t crc[] = {0xb3, 0x88, 0x0b, 0x68};           /* right or not: never decoded */
  memcpy(data + 29, crc, 4);
  assert_int_not_equal(tercel_image_decode(data, bytes, 3, TERCEL_IMAGE_PIXELS_MAX, &back, &err), TERCEL_OK);
  free(data);
}

static void test_jpeg(void **state) {
  (void)state;
  tercel_error err = {0};
  uint8_t pixels[16 * 8 * 3];
  for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t[]){200, 100, 50}[i % 3];
  unsigned char *data = NULL;
  unsigned long bytes = 0;
  const tjhandle encoder = tjInitCompress();
  assert_int_equal(tjCompress2(encoder, pixels, 16, 0, 8, TJPF_RGB, &data, &bytes, TJSAMP_444, 95, 0), 0);
  tercel_image image;
  assert_ok(tercel_image_decode(data, bytes, 3, TERCEL_IMAGE_PIXELS_MAX, &image, &err), &err);
  assert_int_equal(image.width, 16);
  for (size_t i = 0; i < sizeof pixels; i++) assert_true(abs(image.pixels[i] - pixels[i]) <= 3);
  tercel_image_deinit(&image);
  assert_ok(tercel_image_decode(data, bytes, 1, TERCEL_IMAGE_PIXELS_MAX, &image, &err), &err);
  assert_true(abs(image.pixels[0] - 124) <= 3); /* 0.299 R + 0.587 G + 0.114 B */
  tercel_image_deinit(&image);
  damage(data, bytes);
  tjFree(data);
  tjDestroy(encoder);
}

static void test_refused(void **state) {
  (void)state;
  tercel_error err = {0};
  tercel_image image;
  assert_fails(tercel_image_decode("GIF89a", 6, 3, TERCEL_IMAGE_PIXELS_MAX, &image, &err), TERCEL_UNSUPPORTED, &err,
               "not a BMP, JPEG");
  assert_fails(tercel_image_decode(NULL, 0, 3, TERCEL_IMAGE_PIXELS_MAX, &image, &err), TERCEL_UNSUPPORTED, &err,
               "not a BMP, JPEG");
  assert_fails(tercel_image_read("/nonexistent.png", 3, &image, &err), TERCEL_IO, &err, "/nonexistent.png");
}

static tercel_status write_read_resize(void *arg, tercel_error *err) {
  tercel_image back = {0}, small = {0};
  tercel_status status = tercel_image_write_png(path, arg, err);
  if (status == TERCEL_OK) status = tercel_image_read(path, 3, &back, err);
  if (status == TERCEL_OK) status = tercel_image_resize(&back, 2, 2, true, &small, err);
  tercel_image_deinit(&back);
  tercel_image_deinit(&small);
  return status;
}

static void test_without_memory(void **state) {
  (void)state;
  uint8_t pixels[5 * 4 * 3] = {0};
  tercel_image image = {5, 4, 3, pixels};
  assert_true(tercel_test_oom(write_read_resize, &image, 0) >= 10);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_resize),
    cmocka_unit_test(test_resize_columns_and_channels),
    cmocka_unit_test(test_normalize),
#if TERCEL_IMAGES
    cmocka_unit_test(test_png),
    cmocka_unit_test(test_jpeg),
    cmocka_unit_test(test_refused),
    cmocka_unit_test(test_without_memory),
#endif
  };
  return cmocka_run_group_tests(tests, make_path, remove_path);
}
