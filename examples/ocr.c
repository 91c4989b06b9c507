/* Reads the text in a picture: PP-OCR's detection network finds lines of text, its recognition network reads each.
 *
 * usage: ocr DETECTION.onnx RECOGNITION.onnx PICTURE.png [BOXES.png]
 *
 * Prints each line with its confidence, and the time of every stage; BOXES.png is the picture with the lines framed.
 * Detection: Liao et al., "Real-time Scene Text Detection with Differentiable Binarization", AAAI 2020.  Recognition: Du et al.,
 * "SVTR: Scene Text Recognition with a Single Visual Model", IJCAI 2022, decoded as CTC (Graves et al., ICML 2006). */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <png.h>
#include <tercel/tercel.h>

enum {
  SIDE_STEP = 32,       /* the detector halves the picture five times */
  SHORT_SIDE_MIN = 736, /* small pictures are enlarged to this, */
  LONG_SIDE_MAX = 2016, /* large ones reduced to that */
  LINE_HEIGHT = 48,     /* of the recognizer's input */
  LINE_WIDTH_MIN = 320,
  LINES_MAX = 1000,
  STEP_BYTES = 8 /* more than the longest character takes */
};
static const float pixel_threshold = 0.3f; /* text, or not */
static const double box_threshold = 0.5;   /* mean probability of the pixels of a line that is kept */
static const float text_threshold = 0.5f;  /* confidence of a text that is kept */
static const double unclip_ratio =
    1.6; /* the network marks the core of a line: boxes grow by area * ratio / perimeter */
static const double smallest_side = 3; /* of a box, in pixels of the probability map */

/* ---- small things ------------------------------------------------------------------------------------------------------ */

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void die(const char *what, const char *why) {
  fprintf(stderr, "ocr: %s: %s\n", what, why);
  exit(1);
}

static void *allocate(size_t count, size_t size) {
  void *block = calloc(count ? count : 1, size);
  if (!block) die("memory", "there is none left");
  return block;
}

/* ---- pictures ------------------------------------------------------------------------------------------------------------ */

typedef struct picture {
  int width, height;
  unsigned char *rgb; /* rows from the top, 3 bytes a pixel */
} picture;

static picture read_png(const char *path) {
  png_image png = {.version = PNG_IMAGE_VERSION};
  png_color white = {255, 255, 255};
  if (!png_image_begin_read_from_file(&png, path)) die(path, png.message);
  if (png.width > 20000 || png.height > 20000) die(path, "the picture is too large");
  png.format = PNG_FORMAT_RGB;
  picture p = {(int)png.width, (int)png.height, allocate(PNG_IMAGE_SIZE(png), 1)};
  if (!png_image_finish_read(&png, &white, p.rgb, 0, NULL)) die(path, png.message);
  return p;
}

static void write_png(const char *path, const picture *p) {
  png_image png = {.version = PNG_IMAGE_VERSION,
                   .width = (png_uint_32)p->width,
                   .height = (png_uint_32)p->height,
                   .format = PNG_FORMAT_RGB};
  if (!png_image_write_to_file(&png, path, 0, p->rgb, 0, NULL)) die(path, png.message);
}

static double clamp(double value, double low, double high) { return value < low ? low : value > high ? high : value; }

/* The colour (0 .. 255) between the four pixels around (x, y), borders repeated; blue first, as the networks were trained. */
static void sample(const picture *p, double x, double y, float bgr[3]) {
  x = clamp(x, 0, p->width - 1);
  y = clamp(y, 0, p->height - 1);
  int x0 = (int)x, y0 = (int)y, x1 = x0 + 1 < p->width ? x0 + 1 : x0, y1 = y0 + 1 < p->height ? y0 + 1 : y0;
  float fx = (float)(x - x0), fy = (float)(y - y0);
  const unsigned char *row0 = p->rgb + (size_t)y0 * (size_t)p->width * 3,
                      *row1 = p->rgb + (size_t)y1 * (size_t)p->width * 3;
  for (int c = 0; c < 3; c++) {
    float top = (float)row0[3 * x0 + c] * (1 - fx) + (float)row0[3 * x1 + c] * fx;
    float bottom = (float)row1[3 * x0 + c] * (1 - fx) + (float)row1[3 * x1 + c] * fx;
    bgr[2 - c] = top * (1 - fy) + bottom * fy;
  }
}

/* ---- networks -------------------------------------------------------------------------------------------------------------- */

typedef struct network {
  tercel_model *model;
  tercel_engine *engine;
  tercel_context *context;
} network;

static network load(const char *path) {
  network n = {0};
  tercel_error err = {0};
  if (tercel_model_load(path, NULL, &n.model, &err) || tercel_engine_build(n.model, NULL, &n.engine, &err) ||
      tercel_context_create(n.engine, NULL, &n.context, &err))
    die("can't load", err.message);
  return n;
}

static void unload(network *n) {
  tercel_context_destroy(n->context);
  tercel_engine_destroy(n->engine);
  tercel_model_destroy(n->model);
}

/* input: [1, 3, height, width].  The output belongs to the context until its next run. */
static tercel_view run(network *n, float *input, int height, int width) {
  tercel_view in = {TERCEL_DTYPE_F32,
                    4,
                    {1, 3, height, width},
                    input,
                    sizeof(float) * 3 * (size_t)height * (size_t)width},
              out;
  tercel_error err = {0};
  if (tercel_context_set_input(n->context, 0, &in, &err) || tercel_context_run(n->context, &err) ||
      tercel_context_get_output(n->context, 0, &out, &err))
    die("can't run", err.message);
  if (out.dtype != TERCEL_DTYPE_F32) die("can't run", "the network's output is not f32");
  return out;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------------------- */

typedef struct point {
  double x, y;
} point;

/* A rectangle: centre, half its sides, and the direction of the first (a unit vector). */
typedef struct box {
  point centre, along;
  double half_width, half_height;
} box;

/* Corners of a line of text in the picture: top left, top right, bottom right, bottom left. */
typedef struct line {
  point corners[4];
  char *text;
  float confidence;
} line;

static double cross(point o, point a, point b) { return (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x); }

static int by_x(const void *a, const void *b) {
  const point *p = a, *q = b;
  if (p->x != q->x) return p->x < q->x ? -1 : 1;
  return (p->y > q->y) - (p->y < q->y);
}

/* Andrew's monotone chain; hull has room for 2 * count points.  Returns how many it has. */
static int convex_hull(point *points, int count, point *hull) {
  int n = 0;
  qsort(points, (size_t)count, sizeof *points, by_x);
  for (int pass = 0; pass < 2; pass++) {
    int first = n;
    for (int i = 0; i < count; i++) {
      point p = points[pass ? count - 1 - i : i];
      while (n - first >= 2 && cross(hull[n - 2], hull[n - 1], p) <= 0) n--;
      hull[n++] = p;
    }
    n--; /* the last point begins the next chain */
  }
  return n > 0 ? n : 1;
}

/* The rectangle of least area around a hull: one of its sides lies along one of the hull's. */
static box smallest_box(const point *hull, int count) {
  box best = {.centre = hull[0], .along = {1, 0}};
  double best_area = -1;
  for (int i = 0; i < count; i++) {
    point a = hull[i], b = hull[(i + 1) % count];
    double length = hypot(b.x - a.x, b.y - a.y);
    if (length == 0) continue;
    point u = {(b.x - a.x) / length, (b.y - a.y) / length};
    double low_u = INFINITY, high_u = -INFINITY, low_v = INFINITY, high_v = -INFINITY;
    for (int k = 0; k < count; k++) {
      double pu = hull[k].x * u.x + hull[k].y * u.y, pv = hull[k].y * u.x - hull[k].x * u.y;
      low_u = fmin(low_u, pu);
      high_u = fmax(high_u, pu);
      low_v = fmin(low_v, pv);
      high_v = fmax(high_v, pv);
    }
    double area = (high_u - low_u) * (high_v - low_v), mu = (low_u + high_u) / 2, mv = (low_v + high_v) / 2;
    if (best_area >= 0 && area >= best_area) continue;
    best_area = area;
    best = (box){{mu * u.x - mv * u.y, mu * u.y + mv * u.x}, u, (high_u - low_u) / 2, (high_v - low_v) / 2};
  }
  return best;
}

/* The corners in reading order, scaled to the picture: the first side is turned to within 45 degrees of the horizontal. */
static line to_line(box b, double scale_x, double scale_y) {
  if (fabs(b.along.x) < fabs(b.along.y)) {
    double swapped = b.half_width;
    b.half_width = b.half_height;
    b.half_height = swapped;
    b.along = (point){b.along.y, -b.along.x};
  }
  if (b.along.x < 0) b.along = (point){-b.along.x, -b.along.y};
  line l = {0};
  for (int i = 0; i < 4; i++) {
    double u = i == 0 || i == 3 ? -b.half_width : b.half_width, v = i < 2 ? -b.half_height : b.half_height;
    l.corners[i].x = (b.centre.x + u * b.along.x - v * b.along.y) * scale_x;
    l.corners[i].y = (b.centre.y + u * b.along.y + v * b.along.x) * scale_y;
  }
  return l;
}

/* ---- detection ---------------------------------------------------------------------------------------------------------------- */

/* Size of the detector's input for this picture: sides are multiples of SIDE_STEP. */
static void detector_size(const picture *p, int *width, int *height) {
  int shorter = p->width < p->height ? p->width : p->height, longer = p->width + p->height - shorter;
  double scale = shorter < SHORT_SIDE_MIN ? (double)SHORT_SIDE_MIN / shorter : 1;
  if (longer * scale > LONG_SIDE_MAX) scale = (double)LONG_SIDE_MAX / longer;
  *width = (int)fmax(1, round(p->width * scale / SIDE_STEP)) * SIDE_STEP;
  *height = (int)fmax(1, round(p->height * scale / SIDE_STEP)) * SIDE_STEP;
}

/* Resized bilinearly into planes. */
static void detector_input(const picture *p, int width, int height, float *out) {
  static const float mean[] = {0.485f, 0.456f, 0.406f}, std[] = {0.229f, 0.224f, 0.225f};
  double step_x = (double)p->width / width, step_y = (double)p->height / height;
  size_t plane = (size_t)width * (size_t)height;
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++, out++) {
      float bgr[3];
      sample(p, (x + 0.5) * step_x - 0.5, (y + 0.5) * step_y - 0.5, bgr);
      for (size_t c = 0; c < 3; c++) out[c * plane] = (bgr[c] / 255 - mean[c]) / std[c];
    }
}

/* The pixels of one component: rows first_row .. last_row, from ends[2 * row] to ends[2 * row + 1] in each. */
typedef struct component {
  int first_row, last_row;
  int *ends;
  double mean; /* probability */
} component;

/* Collects the component at `seed`, marking its pixels in `seen`.  stack has room for every pixel. */
static void flood(const float *map, unsigned char *seen, int width, int height, int seed, int *stack, component *c) {
  int depth = 0, count = 0;
  double sum = 0;
  stack[depth++] = seed;
  seen[seed] = 1;
  c->first_row = c->last_row = seed / width;
  while (depth) {
    int at = stack[--depth], x = at % width, y = at / width;
    if (y > c->last_row) c->last_row = y; /* the seed is in the first row: pixels are tried in reading order */
    if (x < c->ends[2 * y]) c->ends[2 * y] = x;
    if (x > c->ends[2 * y + 1]) c->ends[2 * y + 1] = x;
    sum += map[at];
    count++;
    for (int dy = -1; dy <= 1; dy++)
      for (int dx = -1; dx <= 1; dx++) {
        int nx = x + dx, ny = y + dy, next = ny * width + nx;
        if (nx < 0 || ny < 0 || nx >= width || ny >= height || seen[next] || map[next] <= pixel_threshold) continue;
        seen[next] = 1;
        stack[depth++] = next;
      }
  }
  c->mean = sum / count;
}

/* The box around a component, grown from the core of the text to all of it; 0 when it is no line of text. */
static int component_box(const component *c, box *out) {
  int rows = c->last_row - c->first_row + 1;
  point *points = allocate((size_t)rows * 6, sizeof *points), *hull = points + 2 * rows;
  for (int y = c->first_row, n = 0; y <= c->last_row; y++) {
    points[n++] = (point){c->ends[2 * y], y};
    points[n++] = (point){c->ends[2 * y + 1], y};
  }
  *out = smallest_box(hull, convex_hull(points, 2 * rows, hull));
  free(points);
  double w = 2 * out->half_width, h = 2 * out->half_height;
  if (fmin(w, h) < smallest_side || c->mean < box_threshold) return 0;
  double distance = w * h * unclip_ratio / (2 * (w + h));
  out->half_width += distance;
  out->half_height += distance;
  return 1;
}

static void clear_rows(component *c, int width) {
  for (int y = c->first_row; y <= c->last_row; y++) {
    c->ends[2 * y] = width;
    c->ends[2 * y + 1] = -1;
  }
}

/* Lines of text out of the probability map [height][width]; returns how many. */
static int find_lines(const float *map, int width, int height, const picture *p, line *lines) {
  int pixels = width * height, count = 0;
  unsigned char *seen = allocate((size_t)pixels, 1);
  int *stack = allocate((size_t)pixels, sizeof *stack);
  component c = {.last_row = height - 1, .ends = allocate(2 * (size_t)height, sizeof *c.ends)};
  clear_rows(&c, width);
  for (int at = 0; at < pixels && count < LINES_MAX; at++) {
    if (seen[at] || map[at] <= pixel_threshold) continue;
    box b;
    flood(map, seen, width, height, at, stack, &c);
    if (component_box(&c, &b)) lines[count++] = to_line(b, (double)p->width / width, (double)p->height / height);
    clear_rows(&c, width);
  }
  free(seen);
  free(stack);
  free(c.ends);
  return count;
}

/* From top to bottom; lines whose tops differ by less than half a line stand beside each other. */
static int by_place(const void *a, const void *b) {
  const point *p = ((const line *)a)->corners, *q = ((const line *)b)->corners;
  return p->y != q->y ? (p->y < q->y ? -1 : 1) : (p->x > q->x) - (p->x < q->x);
}

static void sort_lines(line *lines, int count) {
  qsort(lines, (size_t)count, sizeof *lines, by_place);
  for (int i = 1; i < count; i++)
    for (int k = i; k > 0; k--) {
      const point *above = lines[k - 1].corners, *here = lines[k].corners;
      if (here[0].y - above[0].y > (above[3].y - above[0].y) / 2 || here[0].x >= above[0].x) break;
      line swapped = lines[k];
      lines[k] = lines[k - 1];
      lines[k - 1] = swapped;
    }
}

/* ---- recognition ---------------------------------------------------------------------------------------------------------------- */

/* The characters of the classes: class 0 is CTC's blank, then one a line of the model's metadata, the last is the space. */
typedef struct alphabet {
  char *text; /* owned: the metadata with its line ends made zeros */
  const char **characters;
  int count; /* classes */
} alphabet;

static alphabet read_alphabet(const network *recognizer) {
  const char *key, *value = NULL;
  for (size_t i = 0; tercel_model_get_metadata(recognizer->model, i, &key, &value); i++) {
    if (strcmp(key, "character") == 0) break;
    value = NULL;
  }
  if (!value) die("recognition model", "it has no metadata 'character'");
  alphabet a = {.text = allocate(strlen(value) + 1, 1), .count = 1};
  memcpy(a.text, value, strlen(value));
  a.characters = allocate(strlen(value) + 3, sizeof *a.characters);
  a.characters[0] = "";
  for (char *at = a.text; at; a.count++) {
    char *end = strchr(at, '\n');
    a.characters[a.count] = at;
    if (end) *end++ = 0;
    at = end;
  }
  a.characters[a.count++] = " ";
  return a;
}

static double distance(point a, point b) { return hypot(a.x - b.x, a.y - b.y); }

/* The line, straightened and resized to LINE_HEIGHT, in planes of -1 .. 1; what is right of it stays 0.  Returns the width;
 * *out is the caller's to free. */
static int recognizer_input(const picture *p, const line *l, float **out) {
  const point *corner = l->corners;
  double length = distance(corner[0], corner[1]), height = distance(corner[0], corner[3]);
  int text_width = (int)clamp(ceil(LINE_HEIGHT * length / fmax(height, 1)), 1, 4096);
  int width = text_width < LINE_WIDTH_MIN ? LINE_WIDTH_MIN : (text_width + SIDE_STEP - 1) / SIDE_STEP * SIDE_STEP;
  size_t plane = (size_t)LINE_HEIGHT * (size_t)width;
  *out = allocate(3 * plane, sizeof **out);
  for (int y = 0; y < LINE_HEIGHT; y++)
    for (int x = 0; x < text_width; x++) {
      double u = (x + 0.5) / text_width, v = (y + 0.5) / LINE_HEIGHT;
      double px = corner[0].x + u * (corner[1].x - corner[0].x) + v * (corner[3].x - corner[0].x);
      double py = corner[0].y + u * (corner[1].y - corner[0].y) + v * (corner[3].y - corner[0].y);
      float bgr[3];
      sample(p, px - 0.5, py - 0.5, bgr);
      for (size_t c = 0; c < 3; c++) (*out)[c * plane + (size_t)(y * width + x)] = bgr[c] / 127.5f - 1;
    }
  return width;
}

/* CTC, greedily: the best class of every step, repeats merged, blanks dropped.  steps: [1, T, classes]. */
static void decode(const tercel_view *steps, const alphabet *a, line *l) {
  const float *at = steps->data;
  int classes = (int)steps->dims[2], last = 0, kept = 0;
  size_t length = 0;
  if (classes != a->count) die("recognition model", "its classes are not its metadata's characters");
  l->text = allocate((size_t)steps->dims[1] * STEP_BYTES + 1, 1);
  for (int64_t t = 0; t < steps->dims[1]; t++, at += classes) {
    int best = 0;
    for (int c = 1; c < classes; c++)
      if (at[c] > at[best]) best = c;
    size_t bytes = strlen(a->characters[best]);
    if (best != 0 && best != last && bytes < STEP_BYTES) {
      memcpy(l->text + length, a->characters[best], bytes);
      length += bytes;
      l->confidence += at[best];
      kept++;
    }
    last = best;
  }
  if (kept) l->confidence /= (float)kept;
}

/* ---- drawing -------------------------------------------------------------------------------------------------------------------- */

static void draw_dot(picture *p, int x, int y) {
  static const unsigned char red[] = {230, 30, 40};
  if (x >= 0 && y >= 0 && x < p->width && y < p->height)
    memcpy(p->rgb + ((size_t)y * (size_t)p->width + (size_t)x) * 3, red, 3);
}

static void draw_frame(picture *p, const line *l) {
  for (int i = 0; i < 4; i++) {
    point a = l->corners[i], b = l->corners[(i + 1) % 4];
    int steps = (int)ceil(distance(a, b)) + 1;
    for (int s = 0; s <= steps; s++)
      draw_dot(p, (int)round(a.x + (b.x - a.x) * s / steps), (int)round(a.y + (b.y - a.y) * s / steps));
  }
}

/* ---- the program ------------------------------------------------------------------------------------------------------------------ */

int main(int argc, char **argv) {
  if (argc != 4 && argc != 5)
    return fprintf(stderr, "usage: ocr DETECTION.onnx RECOGNITION.onnx PICTURE.png [BOXES.png]\n"), 2;
  double start = now_ms();
  network detector = load(argv[1]), recognizer = load(argv[2]);
  alphabet letters = read_alphabet(&recognizer);
  double loaded = now_ms();
  picture page = read_png(argv[3]);
  int width, height;
  detector_size(&page, &width, &height);
  float *input = allocate(3 * (size_t)width * (size_t)height, sizeof *input);
  detector_input(&page, width, height, input);
  double prepared = now_ms();
  tercel_view map = run(&detector, input, height, width);
  double detected = now_ms();
  if (map.rank != 4 || map.dims[2] != height || map.dims[3] != width)
    die("detection model", "its output is not a map of the picture");
  static line lines[LINES_MAX];
  int count = find_lines(map.data, width, height, &page, lines);
  sort_lines(lines, count);
  double found = now_ms();
  free(input);

  for (int i = 0; i < count; i++) {
    int line_width = recognizer_input(&page, &lines[i], &input);
    tercel_view steps = run(&recognizer, input, LINE_HEIGHT, line_width);
    if (steps.rank != 3) die("recognition model", "its output is not [1, steps, classes]");
    decode(&steps, &letters, &lines[i]);
    free(input);
  }
  double read = now_ms();
  for (int i = 0; i < count; i++)
    if (lines[i].confidence >= text_threshold) printf("%.2f  %s\n", lines[i].confidence, lines[i].text);

  printf("\nload and build  %8.1f ms  both networks, %d threads\n", loaded - start,
         tercel_engine_num_threads(detector.engine));
  printf("prepare         %8.1f ms  %d x %d pixels, resized to %d x %d\n", prepared - loaded, page.width, page.height,
         width, height);
  printf("detect          %8.1f ms\n", detected - prepared);
  printf("find boxes      %8.1f ms  %d lines\n", found - detected, count);
  printf("recognize       %8.1f ms  %.1f ms a line\n", read - found, count ? (read - found) / count : 0);
  printf("all             %8.1f ms\n", read - start);
  if (argc == 5) {
    for (int i = 0; i < count; i++)
      if (lines[i].confidence >= text_threshold) draw_frame(&page, &lines[i]);
    write_png(argv[4], &page);
  }

  for (int i = 0; i < count; i++) free(lines[i].text);
  free(page.rgb);
  free(letters.text);
  free(letters.characters);
  unload(&detector);
  unload(&recognizer);
  return 0;
}
