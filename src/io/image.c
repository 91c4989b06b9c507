/* Resizing and normalizing.  Reading and writing files is image_file.c's. */
#include "io/image.h"

#include <math.h>
#include <string.h>

/* The pixels of one side that make each new pixel: a triangle around its centre, cut at the border. */
typedef struct filter {
  int support;    /* weights a new pixel has at most */
  int *first;     /* [size] */
  int *count;     /* [size] */
  float *weights; /* [size][support], each row's sum is 1 */
} filter;

static void filter_deinit(filter *f) {
  tercel_free(f->first);
  tercel_free(f->count);
  tercel_free(f->weights);
}

/* Weights of new pixel `to`; the triangle reaches `reach` old pixels to either side. */
static void fill_weights(filter *f, int to, double step, double reach, int old_size) {
  const double centre = (to + 0.5) * step;
  int first = (int)ceil(centre - reach - 0.5), last = (int)floor(centre + reach - 0.5);
  if (first < 0) first = 0;
  if (last >= old_size) last = old_size - 1;
  float *const weights = f->weights + (size_t)to * (size_t)f->support;
  double sum = 0;
  for (int i = first; i <= last; i++) sum += fmax(0, 1 - fabs(i + 0.5 - centre) / reach);
  for (int i = first; i <= last; i++) weights[i - first] = (float)(fmax(0, 1 - fabs(i + 0.5 - centre) / reach) / sum);
  f->first[to] = first;
  f->count[to] = last - first + 1;
}

static tercel_status filter_init(filter *f, int old_size, int size, bool antialias, tercel_error *err) {
  const double step = (double)old_size / size, reach = antialias && step > 1 ? step : 1;
  *f = (filter){.support = (int)ceil(2 * reach) + 1};
  f->first = tercel_alloc_array((size_t)size, sizeof *f->first);
  f->count = tercel_alloc_array((size_t)size, sizeof *f->count);
  f->weights = tercel_zalloc_array((size_t)size * (size_t)f->support, sizeof *f->weights);
  if (!f->first || !f->count || !f->weights)
    return tercel_fail_memory(err, (size_t)size * (size_t)f->support * sizeof *f->weights, "resizing a picture");
  for (int i = 0; i < size; i++) fill_weights(f, i, step, reach, old_size);
  return TERCEL_OK;
}

/* from: [rows][old width][channels] bytes, to: [rows][new width][channels]. */
static void resize_rows(const tercel_image *from, const filter *f, int width, float *to) {
  const int channels = from->channels;
  for (int y = 0; y < from->height; y++) {
    const uint8_t *const row = from->pixels + (size_t)y * (size_t)from->width * (size_t)channels;
    for (int x = 0; x < width; x++) {
      const float *const weights = f->weights + (size_t)x * (size_t)f->support;
      const uint8_t *const pixel = row + f->first[x] * channels;
      for (int c = 0; c < channels; c++) {
        float sum = 0;
        for (int i = 0; i < f->count[x]; i++) sum += weights[i] * (float)pixel[i * channels + c];
        *to++ = sum;
      }
    }
  }
}

/* from: [old height][row], to: [new height][row] bytes, rounded. */
static void resize_columns(const float *from, const filter *f, size_t row, int height, uint8_t *to) {
  for (int y = 0; y < height; y++) {
    const float *const weights = f->weights + (size_t)y * (size_t)f->support;
    const float *const first = from + (size_t)f->first[y] * row;
    for (size_t x = 0; x < row; x++) {
      float sum = 0.5f;
      for (int i = 0; i < f->count[y]; i++) sum += weights[i] * first[(size_t)i * row + x];
      *to++ = sum >= 255 ? 255 : (uint8_t)sum;
    }
  }
}

tercel_status tercel_image_resize(const tercel_image *image, int width, int height, bool antialias, tercel_image *out,
                                  tercel_error *err) {
  *out = (tercel_image){0};
  if (width < 1 || height < 1 || width > TERCEL_IMAGE_SIDE_MAX || height > TERCEL_IMAGE_SIDE_MAX ||
      (int64_t)width * height > TERCEL_IMAGE_PIXELS_MAX)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "a picture can't be resized to %d x %d", width, height);
  filter across = {0}, down = {0};
  const size_t row = (size_t)width * (size_t)image->channels;
  tercel_image made = {width, height, image->channels, tercel_alloc(row * (size_t)height)};
  float *const middle = tercel_alloc_array(row * (size_t)image->height, sizeof *middle);
  tercel_status status = TERCEL_OK;
  if (!made.pixels || !middle)
    status = tercel_fail_memory(err, row * (size_t)image->height * sizeof *middle, "resizing a picture");
  if (status == TERCEL_OK) status = filter_init(&across, image->width, width, antialias, err);
  if (status == TERCEL_OK) status = filter_init(&down, image->height, height, antialias, err);
  if (status == TERCEL_OK) {
    resize_rows(image, &across, width, middle);
    resize_columns(middle, &down, row, height, made.pixels);
    *out = made;
  } else {
    tercel_image_deinit(&made);
  }
  tercel_free(middle);
  filter_deinit(&across);
  filter_deinit(&down);
  return status;
}

void tercel_image_normalize(const tercel_image *image, const tercel_image_norm *norm, float *out) {
  const size_t channels = (size_t)image->channels, pixels = (size_t)image->width * (size_t)image->height;
  for (size_t c = 0; c < channels; c++) {
    const size_t source = norm->bgr ? channels - 1 - c : c;
    float *const to = norm->nhwc ? out + c : out + c * pixels;
    const size_t stride = norm->nhwc ? channels : 1;
    for (size_t i = 0; i < pixels; i++)
      to[i * stride] = ((float)image->pixels[i * channels + source] * norm->scale - norm->mean[c]) / norm->std[c];
  }
}
