/* Operators that only move data, made fewer: parts of parts are parts of the whole, parts of a concat are its inputs, a concat of all parts
 * is the whole, and a gather of neighbours is a slice, which may be a view.
 *
 * Only what can be told before a run: constant places and, along what is cut, known dims. */
#include <string.h>

#include "optimize/rules.h"

/* A part of `x`: of each dim that is cut, `count` places from `begin` on, `step` apart. */
typedef struct part {
  tercel_value *x;
  int rank;
  bool cut[TERCEL_MAX_RANK];
  int64_t begin[TERCEL_MAX_RANK], count[TERCEL_MAX_RANK], step[TERCEL_MAX_RANK];
} part;

static bool start_part(tercel_value *x, part *out) {
  *out = (part){.x = x, .rank = x->type.shape.rank};
  for (int d = 0; d < out->rank; d++) {
    out->step[d] = 1;
    out->count[d] = x->type.shape.dims[d];
  }
  return x->type.kind == TERCEL_TYPE_TENSOR && out->rank > 0;
}

static int64_t clamp_place(int64_t place, int64_t size) {
  if (place < 0) place = place < -size ? 0 : place + size;
  return place < size ? place : size;
}

/* Cuts dim d.  False when that can't be told. */
static bool cut_dim(part *p, int d, int64_t start, int64_t end, int64_t step, tercel_dim result) {
  const tercel_dim size = p->x->type.shape.dims[d];
  if (step == 1 && start == 0 && result == size) return true; /* all of it, however long that is */
  if (step < 1 || !tercel_dim_is_known(size)) return false;
  const int64_t begin = clamp_place(start, size), length = clamp_place(end, size) - begin;
  p->begin[d] = begin;
  p->step[d] = step;
  p->count[d] = length > 0 ? (length - 1) / step + 1 : 0;
  p->cut[d] = begin != 0 || p->count[d] != size;
  return true;
}

static bool read_slice(const tercel_node *node, part *out) {
  int64_t starts[TERCEL_MAX_RANK], ends[TERCEL_MAX_RANK], axes[TERCEL_MAX_RANK], steps[TERCEL_MAX_RANK];
  size_t count = 0, same = 0;
  uint32_t seen = 0;
  const tercel_shape *const result = &node->outputs[0]->type.shape;
  if (!start_part(node->inputs[0], out) || result->rank != out->rank) return false;
  if (!tercel_constant_ints(node->inputs[1], starts, TERCEL_MAX_RANK, &count)) return false;
  if (!tercel_constant_ints(node->inputs[2], ends, TERCEL_MAX_RANK, &same) || same != count) return false;
  for (size_t i = 0; i < count; i++) {
    axes[i] = (int64_t)i;
    steps[i] = 1;
  }
  if (tercel_node_input(node, 3) &&
      (!tercel_constant_ints(node->inputs[3], axes, TERCEL_MAX_RANK, &same) || same != count))
    return false;
  if (tercel_node_input(node, 4) &&
      (!tercel_constant_ints(node->inputs[4], steps, TERCEL_MAX_RANK, &same) || same != count))
    return false;
  for (size_t i = 0; i < count; i++) {
    const int64_t d = axes[i] < 0 ? axes[i] + out->rank : axes[i];
    if (d < 0 || d >= out->rank || seen >> d & 1) return false;
    seen |= 1u << d;
    if (!cut_dim(out, (int)d, starts[i], ends[i], steps[i], result->dims[d])) return false;
  }
  return true;
}

/* The axis of a split or concat whose results have that rank; -1 when the rank is not known. */
static int axis_of(const tercel_node *node, int rank) {
  const int64_t axis = tercel_node_int(node, "axis");
  const int64_t d = axis < 0 ? axis + rank : axis;
  return d >= 0 && d < rank ? (int)d : -1;
}

enum { MAX_PIECES = 16 };

/* How long piece i of a split is along dim d: by the sizes, where they are constant, else by the result (nobody may want it). */
static int64_t size_of_piece(const tercel_node *split, uint32_t i, int d) {
  int64_t sizes[MAX_PIECES];
  size_t count;
  const tercel_value *const piece = split->outputs[i];
  if (tercel_constant_ints(tercel_node_input(split, 1), sizes, MAX_PIECES, &count)) return i < count ? sizes[i] : -1;
  return piece && piece->type.shape.rank > d ? piece->type.shape.dims[d] : -1;
}

/* Output `index` of a split as a part. */
static bool read_split(const tercel_node *node, uint32_t index, part *out) {
  if (!start_part(node->inputs[0], out)) return false;
  const int d = axis_of(node, out->rank);
  if (d < 0 || !tercel_dim_is_known(out->x->type.shape.dims[d])) return false;
  for (uint32_t i = 0; i <= index; i++) {
    const int64_t size = size_of_piece(node, i, d);
    if (size < 0) return false;
    if (i < index) out->begin[d] += size;
    out->count[d] = size;
  }
  out->cut[d] = out->count[d] != out->x->type.shape.dims[d];
  return true;
}

static bool read_part(const tercel_value *value, part *out) {
  if (tercel_is(value->producer, TERCEL_OP_SLICE)) return read_slice(value->producer, out);
  return tercel_is(value->producer, TERCEL_OP_SPLIT) && read_split(value->producer, value->producer_index, out);
}

/* The only dim that is cut; -1: none, -2: several. */
static int only_cut(const part *p) {
  int found = -1;
  for (int d = 0; d < p->rank; d++) {
    if (!p->cut[d]) continue;
    if (found != -1) return -2;
    found = d;
  }
  return found;
}

/* The part as a value: a slice before `before`, or all of x. */
static tercel_status make_part(const part *p, const tercel_node *like, tercel_node *before, tercel_value **out,
                               tercel_error *err) {
  int64_t starts[TERCEL_MAX_RANK], ends[TERCEL_MAX_RANK], axes[TERCEL_MAX_RANK], steps[TERCEL_MAX_RANK];
  size_t count = 0;
  bool strided = false;
  for (int d = 0; d < p->rank; d++) {
    if (!p->cut[d]) continue;
    starts[count] = p->begin[d];
    ends[count] = p->count[d] ? p->begin[d] + (p->count[d] - 1) * p->step[d] + 1 : p->begin[d];
    axes[count] = d;
    steps[count++] = p->step[d];
    strided |= p->step[d] != 1;
  }
  *out = p->x;
  if (count == 0) return TERCEL_OK;
  tercel_graph *const graph = before->graph;
  tercel_value *inputs[5] = {p->x};
  tercel_node *made;
  TERCEL_TRY(tercel_graph_add_i64s(graph, "starts", starts, count, false, &inputs[1], err));
  TERCEL_TRY(tercel_graph_add_i64s(graph, "ends", ends, count, false, &inputs[2], err));
  TERCEL_TRY(tercel_graph_add_i64s(graph, "axes", axes, count, false, &inputs[3], err));
  if (strided) TERCEL_TRY(tercel_graph_add_i64s(graph, "steps", steps, count, false, &inputs[4], err));
  TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_SLICE, like, inputs, strided ? 5 : 4, before, &made, err));
  TERCEL_TRY(tercel_infer_node(made, err));
  *out = made->outputs[0];
  return TERCEL_OK;
}

/* The part takes the place of node's first output; `through` was looked through on the way. */
static tercel_status give_part(tercel_pass_context *context, const char *name, tercel_node *node, const part *p,
                               const tercel_node *through, tercel_error *err) {
  tercel_value *value;
  TERCEL_TRY(make_part(p, node, node, &value, err));
  if (value != p->x && through) TERCEL_TRY(tercel_node_add_sources(value->producer, through, err));
  return tercel_rewrite_node(context, name, node, value, err);
}

/* ---- slices -------------------------------------------------------------------------------------------------------- */

static tercel_status apply_slice_of_part(tercel_pass_context *context, const char *name, tercel_node *node,
                                         tercel_error *err) {
  part outer, whole;
  const tercel_node *const through = node->inputs[0]->producer;
  if (!read_part(node->inputs[0], &whole) || !read_slice(node, &outer)) return TERCEL_OK;
  for (int d = 0; d < whole.rank; d++) {
    if (!outer.cut[d]) continue;
    whole.begin[d] += outer.begin[d] * whole.step[d];
    whole.step[d] *= outer.step[d];
    whole.count[d] = outer.count[d];
    whole.cut[d] = true;
  }
  return give_part(context, name, node, &whole, through, err);
}

/* Input i of the concat lies at *begin .. *end of the result along the axis. */
static bool place_input(const tercel_node *concat, uint32_t i, int axis, int64_t *begin, int64_t *end) {
  *end = 0;
  for (uint32_t k = 0; k <= i; k++) {
    const tercel_shape *const shape = &concat->inputs[k]->type.shape;
    if (shape->rank <= axis || !tercel_dim_is_known(shape->dims[axis])) return false;
    *begin = *end;
    *end += shape->dims[axis];
  }
  return true;
}

static tercel_status apply_slice_of_concat(tercel_pass_context *context, const char *name, tercel_node *node,
                                           tercel_error *err) {
  part p;
  const tercel_node *const concat = tercel_producer(node->inputs[0], TERCEL_OP_CONCAT);
  if (!concat || !read_slice(node, &p)) return TERCEL_OK;
  const int axis = axis_of(concat, p.rank);
  if (axis < 0 || !p.cut[axis] || p.count[axis] == 0) return TERCEL_OK;
  const int64_t last = p.begin[axis] + (p.count[axis] - 1) * p.step[axis];
  int64_t begin, end;
  for (uint32_t i = 0; i < concat->num_inputs && place_input(concat, i, axis, &begin, &end); i++) {
    if (p.begin[axis] < begin || p.begin[axis] >= end) continue;
    if (last >= end)
      return tercel_refused(context, name, node, err, "it takes places %lld to %lld, and '%.100s' ends at %lld",
                            (long long)p.begin[axis], (long long)last, concat->inputs[i]->name, (long long)end);
    p.x = concat->inputs[i];
    p.begin[axis] -= begin;
    p.cut[axis] = p.begin[axis] != 0 || p.count[axis] != end - begin;
    return give_part(context, name, node, &p, concat, err);
  }
  return TERCEL_OK;
}

/* ---- splits -------------------------------------------------------------------------------------------------------- */

/* Each piece is one of the inputs, in their order. */
static tercel_status apply_split_of_concat(tercel_pass_context *context, const char *name, tercel_node *node,
                                           tercel_error *err) {
  const tercel_node *const concat = tercel_producer(node->inputs[0], TERCEL_OP_CONCAT);
  const int rank = node->inputs[0]->type.shape.rank;
  if (!concat || rank < 1 || axis_of(concat, rank) != axis_of(node, rank)) return TERCEL_OK;
  if (concat->num_inputs != node->num_outputs)
    return tercel_refused(context, name, node, err, "'%.100s' joins %u, and it makes %u", concat->name,
                          concat->num_inputs, node->num_outputs);
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i] && !tercel_same_type(node->outputs[i], concat->inputs[i]))
      return tercel_refused(context, name, node, err, "piece %u is not known to be as large as '%.100s'", i,
                            concat->inputs[i]->name);
  TERCEL_TRY(tercel_made(context, name, node, concat, err));
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i]) TERCEL_TRY(tercel_rewrite_replace(node->outputs[i], concat->inputs[i], err));
  return TERCEL_OK;
}

/* ---- concats ------------------------------------------------------------------------------------------------------- */

/* A concat inside that nobody else reads, along the same axis: its inputs take its place. */
static tercel_status apply_concat_of_concat(tercel_pass_context *context, const char *name, tercel_node *node,
                                            tercel_error *err) {
  const int rank = node->outputs[0]->type.shape.rank;
  char uses[TERCEL_REASON_MAX];
  for (uint32_t i = 0; i < node->num_inputs && rank > 0; i++) {
    const tercel_node *const inner = tercel_producer(node->inputs[i], TERCEL_OP_CONCAT);
    if (!inner || axis_of(inner, rank) != axis_of(node, rank)) continue;
    if (!tercel_has_one_use(node->inputs[i])) {
      TERCEL_TRY(tercel_refused(context, name, node, err, "%s", tercel_describe_uses(node->inputs[i], node, uses)));
      continue;
    }
    const uint32_t more = inner->num_inputs - 1;
    TERCEL_TRY(tercel_made(context, name, node, inner, err));
    TERCEL_TRY(tercel_node_add_sources(node, inner, err));
    for (uint32_t k = 0; k < more; k++) TERCEL_TRY(tercel_node_set_input(node, node->num_inputs, NULL, err));
    for (uint32_t k = node->num_inputs - more; k-- > i + 1;)
      TERCEL_TRY(tercel_node_set_input(node, k + more, node->inputs[k], err));
    for (uint32_t k = 0; k <= more; k++) TERCEL_TRY(tercel_node_set_input(node, i + k, inner->inputs[k], err));
    return TERCEL_OK;
  }
  return TERCEL_OK;
}

/* Parts of one value that follow each other are one part, often all of it. */
static tercel_status apply_concat_of_parts(tercel_pass_context *context, const char *name, tercel_node *node,
                                           tercel_error *err) {
  part whole, p;
  const int axis = axis_of(node, node->outputs[0]->type.shape.rank);
  if (axis < 0 || node->num_inputs < 2 || !read_part(node->inputs[0], &whole)) return TERCEL_OK;
  if (only_cut(&whole) != axis || whole.step[axis] != 1) return TERCEL_OK;
  for (uint32_t i = 1; i < node->num_inputs; i++) {
    if (!read_part(node->inputs[i], &p) || p.x != whole.x || only_cut(&p) != axis || p.step[axis] != 1)
      return TERCEL_OK;
    const long long next = whole.begin[axis] + whole.count[axis];
    if (p.begin[axis] != next)
      return tercel_refused(context, name, node, err, "'%.100s' begins at %lld of '%.100s', and not at %lld",
                            node->inputs[i]->name, (long long)p.begin[axis], whole.x->name, next);
    whole.count[axis] += p.count[axis];
  }
  whole.cut[axis] = whole.count[axis] != whole.x->type.shape.dims[axis];
  return give_part(context, name, node, &whole, NULL, err);
}

/* ---- gathers ------------------------------------------------------------------------------------------------------- */

/* Constant indices that follow each other. */
static tercel_status apply_gather(tercel_pass_context *context, const char *name, tercel_node *node,
                                  tercel_error *err) {
  enum { MOST = 4096 };
  const tercel_tensor *const indices = node->inputs[1]->constant;
  part p;
  if (!indices || indices->rank != 1 || indices->dims[0] < 1 || indices->dims[0] > MOST ||
      !start_part(node->inputs[0], &p))
    return TERCEL_OK;
  const int axis = axis_of(node, p.rank);
  const int64_t size = axis < 0 ? -1 : p.x->type.shape.dims[axis], count = indices->dims[0];
  int64_t first = tercel_tensor_get_i64(indices, 0);
  if (axis < 0) return TERCEL_OK;
  if (!tercel_dim_is_known(size))
    return tercel_refused(context, name, node, err, "dim %d of '%.100s' is not known", axis, p.x->name);
  const int64_t step = count > 1 ? tercel_tensor_get_i64(indices, 1) - first : 1;
  for (int64_t i = 1; i < count; i++)
    if (tercel_tensor_get_i64(indices, i) - tercel_tensor_get_i64(indices, i - 1) != step || step < 1)
      return tercel_refused(context, name, node, err, "its indices don't ascend by equal steps");
  if (first < 0) first += size;
  if (first < 0 || first + (count - 1) * step >= size) return TERCEL_OK; /* out of range: the run says so */
  p.begin[axis] = first;
  p.count[axis] = count;
  p.step[axis] = step;
  p.cut[axis] = first != 0 || count != size;
  return give_part(context, name, node, &p, NULL, err);
}

static const tercel_rule rules[] = {
    {"slice-of-part", TERCEL_OP_SLICE, apply_slice_of_part},
    {"slice-of-concat", TERCEL_OP_SLICE, apply_slice_of_concat},
    {"split-of-concat", TERCEL_OP_SPLIT, apply_split_of_concat},
    {"concat-of-concat", TERCEL_OP_CONCAT, apply_concat_of_concat},
    {"concat-of-parts", TERCEL_OP_CONCAT, apply_concat_of_parts},
    {"gather", TERCEL_OP_GATHER, apply_gather},
    {0},
};

tercel_status tercel_pass_moves(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  return tercel_run_rules(graph, rules, context, err);
}

/* ---- several parts at once ----------------------------------------------------------------------------------------- */

/* The slice that begins at that place of x along the axis and cuts nothing else, among x's readers. */
static tercel_node *slice_at(const tercel_value *x, int axis, int64_t begin, int64_t *end) {
  for (uint32_t u = 0; u < x->num_uses; u++) {
    tercel_node *const node = x->uses[u].node;
    part p;
    if (!tercel_is(node, TERCEL_OP_SLICE) || x->uses[u].index != 0 || !read_slice(node, &p)) continue;
    if (only_cut(&p) != axis || p.step[axis] != 1 || p.begin[axis] != begin || p.count[axis] == 0 ||
        tercel_value_num_uses(node->outputs[0]) == 0)
      continue;
    *end = begin + p.count[axis];
    return node;
  }
  return NULL;
}

static bool comes_before(const tercel_node *a, const tercel_node *b) {
  for (const tercel_node *node = a; node; node = node->next)
    if (node == b) return true;
  return false;
}

/* Slices that share a value out among them are one split, where the first of them stood. */
static tercel_status apply_shared_out(tercel_pass_context *context, const char *name, tercel_node *node,
                                      tercel_error *err) {
  part p;
  tercel_node *pieces[MAX_PIECES], *split;
  int64_t sizes[MAX_PIECES], at = 0;
  size_t count = 0;
  if (!read_slice(node, &p)) return TERCEL_OK;
  const int axis = only_cut(&p);
  if (axis < 0 || p.step[axis] != 1) return TERCEL_OK;
  for (const int64_t size = p.x->type.shape.dims[axis]; at < size && count < MAX_PIECES; count++) {
    int64_t end;
    pieces[count] = slice_at(p.x, axis, at, &end);
    if (!pieces[count] || !comes_before(node, pieces[count])) return TERCEL_OK;
    sizes[count] = end - at;
    at = end;
  }
  if (count < 2 || at != p.x->type.shape.dims[axis]) return TERCEL_OK;
  tercel_value *inputs[2] = {p.x};
  TERCEL_TRY(tercel_graph_add_i64s(node->graph, "sizes", sizes, count, false, &inputs[1], err));
  TERCEL_TRY(tercel_graph_add_node(node->graph, tercel_ops()[TERCEL_OP_SPLIT], node->name, inputs, 2, count, node,
                                   &split, err));
  TERCEL_TRY(tercel_node_set_int(split, "axis", axis, err));
  TERCEL_TRY(tercel_infer_node(split, err));
  split->num_sources = 0;
  for (size_t i = 0; i < count; i++) TERCEL_TRY(tercel_node_add_sources(split, pieces[i], err));
  TERCEL_TRY(tercel_made(context, name, split, NULL, err));
  for (size_t i = 0; i < count; i++) TERCEL_TRY(tercel_rewrite_replace(pieces[i]->outputs[0], split->outputs[i], err));
  return TERCEL_OK;
}

static const tercel_rule split_rules[] = {{"slices", TERCEL_OP_SLICE, apply_shared_out}, {0}};

tercel_status tercel_pass_share_out(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  return tercel_run_rules(graph, split_rules, context, err);
}
