/* nms: of boxes that overlap, only the one with the best score. */
#include "ops/epilogue.h"
#include "ops/move.h"

#include <math.h>
#include <string.h>

enum { BOXES, SCORES, MOST, IOU, SCORE };

static tercel_status infer(tercel_infer *infer, tercel_error *err) {
  const tercel_shape *boxes = &infer->in[BOXES]->type.shape, *scores = &infer->in[SCORES]->type.shape;
  infer->out[0].type.dtype = TERCEL_DTYPE_I64;
  infer->out[0].type.shape = (tercel_shape){2, {tercel_dim_unknown(infer->dims), 3}};
  for (size_t i = BOXES; i < infer->num_inputs; ++i) {
    if (infer->in[i] == NULL || i == MOST || infer->in[i]->type.dtype == TERCEL_DTYPE_NONE) continue;
    if (!tercel_dtype_is_float(infer->in[i]->type.dtype))
      return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL, "input %zu is %s, want floats", i,
                              tercel_dtype_name(infer->in[i]->type.dtype));
  }
  if (tercel_has_input(infer, MOST)) TERCEL_TRY(tercel_infer_check_indices(infer, MOST, err));
  if (boxes->rank < 0 || scores->rank < 0) return TERCEL_OK;
  bool fits = boxes->rank == 3 && scores->rank == 3 && (!tercel_dim_is_known(boxes->dims[2]) || boxes->dims[2] == 4);
  const int pairs[2][2] = {{0, 0}, {1, 2}}; /* batch, boxes */
  for (int i = 0; i < 2 && fits; ++i) {
    const tercel_dim a = boxes->dims[pairs[i][0]], b = scores->dims[pairs[i][1]];
    fits = !tercel_dim_is_known(a) || !tercel_dim_is_known(b) || a == b;
  }
  if (fits) return TERCEL_OK;
  return tercel_node_fail(infer->node, err, TERCEL_INVALID_MODEL,
                          "boxes of rank %d and scores of rank %d, want batch,boxes,4 and batch,classes,boxes",
                          boxes->rank, scores->rank);
}

typedef struct box {
  double top, left, bottom, right;
} box;

static box box_at(const double *b, bool centered) {
  if (centered) /* x, y, width, height */
    return (box){b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  return (box){fmin(b[0], b[2]), fmin(b[1], b[3]), fmax(b[0], b[2]), fmax(b[1], b[3])};
}

static double area_of(const box *b) { return (b->bottom - b->top) * (b->right - b->left); }

/* Intersection over union is more than the limit. */
static bool overlap(const box *a, const box *b, double limit) {
  const double height = fmin(a->bottom, b->bottom) - fmax(a->top, b->top);
  const double width = fmin(a->right, b->right) - fmax(a->left, b->left);
  if (!(height > 0 && width > 0)) return false;
  const double shared = height * width, all = area_of(a) + area_of(b) - shared;
  return all > 0 && shared / all > limit;
}

/* Positions of the scores, best first (of equal ones the first): a heap's sort, since the order of equal ones is in the comparison. */
static bool is_before(const double *scores, int64_t a, int64_t b) {
  return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
}

static void sift(const double *scores, int64_t *heap, int64_t at, int64_t n) {
  for (int64_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
    if (child + 1 < n && is_before(scores, heap[child], heap[child + 1])) ++child;
    if (!is_before(scores, heap[at], heap[child])) return;
    const int64_t moved = heap[at];
    heap[at] = heap[child];
    heap[child] = moved;
    at = child;
  }
}

static void sort(const double *scores, int64_t *order, int64_t n) {
  for (int64_t i = n / 2; i-- > 0;) sift(scores, order, i, n);
  for (int64_t last = n - 1; last > 0; --last) {
    const int64_t moved = order[0];
    order[0] = order[last];
    order[last] = moved;
    sift(scores, order, 0, last);
  }
}

typedef struct limits {
  int64_t most;      /* boxes a class */
  double iou, score; /* score NaN: every score will do */
  bool centered;
} limits;

static tercel_status read_limits(const tercel_eval *eval, limits *out, tercel_error *err) {
  *out = (limits){0, 0, NAN, tercel_node_int(eval->node, "center_point_box") != 0};
  double numbers[3] = {0, 0, NAN};
  for (size_t i = MOST; i <= SCORE; ++i) {
    const tercel_tensor *t = tercel_input_tensor(eval->in, eval->num_inputs, i);
    if (t == NULL || tercel_tensor_num_elements(t) == 0) continue;
    if (tercel_tensor_num_elements(t) != 1)
      return tercel_node_fail(eval->node, err, TERCEL_INVALID_ARGUMENT, "input %zu has %lld elements, want one", i,
                              (long long)tercel_tensor_num_elements(t));
    if (i == MOST) out->most = tercel_max_i64(tercel_tensor_get_i64(t, 0), 0);
    numbers[i - MOST] = tercel_tensor_get_f64(t, 0);
  }
  out->iou = numbers[IOU - MOST];
  out->score = numbers[SCORE - MOST];
  return TERCEL_OK;
}

/* The chosen of one class, best first; order has room for all boxes, and holds them afterwards.  How many there are. */
static int64_t choose(const double *boxes, const double *scores, int64_t n, const limits *l, int64_t *order) {
  int64_t count = 0, chosen = 0;
  for (int64_t i = 0; i < n; ++i)
    if (!isnan(scores[i]) && (isnan(l->score) || scores[i] > l->score)) order[count++] = i;
  sort(scores, order, count);
  for (int64_t i = 0; i < count && chosen < l->most; ++i) {
    const box candidate = box_at(boxes + 4 * order[i], l->centered);
    bool kept = true;
    for (int64_t j = 0; j < chosen && kept; ++j) {
      const box other = box_at(boxes + 4 * order[j], l->centered);
      kept = !overlap(&candidate, &other, l->iou);
    }
    if (kept) order[chosen++] = order[i];
  }
  return chosen;
}

/* Results grow as classes are gone through. */
typedef struct found {
  int64_t *rows; /* batch, class, box */
  int64_t count, capacity;
} found;

static tercel_status keep(tercel_eval *eval, found *f, int64_t batch, int64_t class, const int64_t *chosen, int64_t n,
                          tercel_error *err) {
  if (f->count + n > f->capacity) {
    const int64_t capacity = 2 * (f->count + n);
    int64_t *rows = tercel_arena_alloc_array(eval->scratch, 3 * (size_t)capacity, sizeof *rows);
    if (rows == NULL) return tercel_fail_memory(err, 3 * (size_t)capacity * sizeof *rows, "nms");
    if (f->count > 0) memcpy(rows, f->rows, 3 * (size_t)f->count * sizeof *rows);
    *f = (found){rows, f->count, capacity};
  }
  for (int64_t i = 0; i < n; ++i) {
    int64_t *row = f->rows + 3 * f->count++;
    row[0] = batch, row[1] = class, row[2] = chosen[i];
  }
  return TERCEL_OK;
}

static tercel_status eval(tercel_eval *eval, tercel_error *err) {
  const double *boxes, *scores;
  limits l;
  found f = {0};
  TERCEL_TRY(read_limits(eval, &l, err));
  TERCEL_TRY(tercel_eval_widen_f64(eval, eval->in[BOXES], &boxes, err));
  TERCEL_TRY(tercel_eval_widen_f64(eval, eval->in[SCORES], &scores, err));
  const int64_t batches = eval->in[SCORES]->dims[0], classes = eval->in[SCORES]->dims[1], n = eval->in[SCORES]->dims[2];
  int64_t *order = tercel_arena_alloc_array(eval->scratch, (size_t)n, sizeof *order);
  if (order == NULL) return tercel_fail_memory(err, (size_t)n * sizeof *order, "nms");
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t c = 0; c < classes; ++c) {
      const int64_t chosen = choose(boxes + 4 * b * n, scores + (b * classes + c) * n, n, &l, order);
      TERCEL_TRY(keep(eval, &f, b, c, order, chosen, err));
    }
  TERCEL_TRY(tercel_eval_output(eval, 0, 2, (const int64_t[]){f.count, 3}, err));
  for (int64_t i = 0; i < 3 * f.count; ++i) tercel_tensor_set_i64(eval->out[0], i, f.rows[i]);
  return TERCEL_OK;
}

static const tercel_attr_spec attrs[] = {
    {"center_point_box", TERCEL_ATTR_INT, false, 0, NULL,
     "0: two opposite corners y,x,y,x; 1: center x,y and width,height"},
    {NULL, 0, false, 0, NULL, NULL},
};

const tercel_op tercel_op_nms = {
    .name = "nms",
    .id = TERCEL_OP_NMS,
    .min_inputs = 2,
    .max_inputs = 5,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = TERCEL_OP_DATA_DEPENDENT,
    .about = "the best boxes of each class that overlap no better one",
    .attrs = attrs,
    .infer = infer,
    .eval = eval,
    .flops = tercel_no_flops,
};
