/* The shortest whole program: load a classifier, give it a picture, print the best classes.
 *
 * usage: classify MODEL.onnx PICTURE.ppm      (ppm: what `convert cat.jpg cat.ppm` or `djpeg` writes)
 *
 * For networks that take 1 x 3 x H x W floats, normalized as is usual for ImageNet. */
#include <stdio.h>
#include <stdlib.h>

#include <tercel/tercel.h>

typedef struct picture {
  int width, height;
  unsigned char *rgb; /* rows from the top, 3 bytes a pixel */
} picture;

/* Binary PPM (P6) with 8 bits a channel. */
static int read_ppm(const char *path, picture *out) {
  FILE *file = fopen(path, "rb");
  if (!file) return 0;
  int depth = 0,
      ok = fscanf(file, "P6 %d %d %d", &out->width, &out->height, &depth) == 3 && depth == 255 && fgetc(file) != EOF;
  ok = ok && out->width > 0 && out->height > 0 && out->width < 20000 && out->height < 20000;
  size_t bytes = ok ? (size_t)out->width * (size_t)out->height * 3 : 0;
  out->rgb = ok ? malloc(bytes) : NULL;
  ok = out->rgb && fread(out->rgb, 1, bytes, file) == bytes;
  fclose(file);
  return ok;
}

/* Nearest pixels, planes R G B. */
static void to_planes(const picture *from, int width, int height, float *out) {
  static const float mean[] = {0.485f, 0.456f, 0.406f}, std[] = {0.229f, 0.224f, 0.225f};
  for (int c = 0; c < 3; c++)
    for (int y = 0; y < height; y++)
      for (int x = 0; x < width; x++) {
        int row = y * from->height / height, column = x * from->width / width;
        float pixel = (float)from->rgb[(row * from->width + column) * 3 + c] / 255;
        *out++ = (pixel - mean[c]) / std[c];
      }
}

static void print_best(const tercel_view *scores, int count) {
  const float *value = scores->data;
  const int64_t classes = scores->dims[scores->rank - 1];
  float limit = 0;
  for (int n = 0; n < count && n < classes; n++) {
    int64_t best = -1;
    for (int64_t i = 0; i < classes; i++)
      if ((n == 0 || value[i] < limit) && (best < 0 || value[i] > value[best])) best = i;
    if (best < 0) return;
    printf("class %4lld  score %.4f\n", (long long)best, value[best]);
    limit = value[best];
  }
}

int main(int argc, char **argv) {
  if (argc != 3) return fprintf(stderr, "usage: classify MODEL.onnx PICTURE.ppm\n"), 2;
  picture photo = {0};
  if (!read_ppm(argv[2], &photo)) return fprintf(stderr, "%s: can't read it as a binary PPM\n", argv[2]), 1;

  tercel_error err = {0};
  tercel_model *model = NULL;
  tercel_engine *engine = NULL;
  tercel_context *context = NULL;
  tercel_io input;
  if (tercel_model_load(argv[1], NULL, &model, &err) || tercel_engine_build(model, NULL, &engine, &err) ||
      tercel_context_create(engine, NULL, &context, &err) || tercel_engine_get_input(engine, 0, &input, &err))
    return fprintf(stderr, "%s\n", err.message), 1;

  int height = input.rank == 4 && input.dims[2] > 0 ? (int)input.dims[2] : 224;
  int width = input.rank == 4 && input.dims[3] > 0 ? (int)input.dims[3] : 224;
  size_t bytes = (size_t)width * (size_t)height * 3 * sizeof(float);
  float *planes = malloc(bytes);
  if (!planes) return fprintf(stderr, "no memory\n"), 1;
  to_planes(&photo, width, height, planes);

  tercel_view view = {TERCEL_DTYPE_F32, 4, {1, 3, height, width}, planes, bytes}, scores;
  if (tercel_context_set_input(context, 0, &view, &err) || tercel_context_run(context, &err) ||
      tercel_context_get_output(context, 0, &scores, &err))
    return fprintf(stderr, "%s\n", err.message), 1;
  if (scores.dtype != TERCEL_DTYPE_F32 || scores.rank < 1)
    return fprintf(stderr, "the output is not a row of floats\n"), 1;
  print_best(&scores, 5);

  tercel_context_destroy(context);
  tercel_engine_destroy(engine);
  tercel_model_destroy(model);
  free(planes);
  free(photo.rgb);
  return 0;
}
