/* Pads that a convolution or a pool can make by itself: zeros before conv, anything that never wins before a max pool.
 *
 *     conv(pad(x, 0))                              = conv(x) with larger pads
 *     pool_max(pad(x, -infinity)), ... (pad(x, edge)), ... (pad(relu(y), 0))  = pool_max(...) with larger pads
 *     pool_average(pad(x, 0))                      = pool_average(x) that counts its pads
 *
 * Between the two may lie transposes and views that only add or take dims of 1, which then work on less. */
#include <math.h>
#include <string.h>

#include "optimize/rules.h"
#include "optimize/shapes.h"

enum { MAX_MOVES = 3 };

/* A pad above a window's input, and what lies between, the nearest to the input first. */
typedef struct padded {
  const tercel_node *pad;
  const tercel_node *moves[MAX_MOVES];
  int num_moves;
  int rank;                                             /* of the window's input */
  int64_t begin[TERCEL_MAX_RANK], end[TERCEL_MAX_RANK]; /* by dim of the window's input */
} padded;

/* ---- from the pad down to the window ------------------------------------------------------------------------------- */

/* No tensor has more of it; sums of two can't overflow. */
static bool is_sensible(int64_t pad) { return pad >= 0 && pad <= INT32_MAX; }

static bool read_pads(const tercel_node *pad, padded *out) {
  int64_t pads[2 * TERCEL_MAX_RANK], axes[TERCEL_MAX_RANK];
  size_t count, num_axes;
  out->rank = pad->inputs[0]->type.shape.rank;
  if (out->rank < 1 || !tercel_constant_ints(pad->inputs[1], pads, 2 * TERCEL_MAX_RANK, &count)) return false;
  if (!tercel_node_input(pad, 3)) {
    num_axes = (size_t)out->rank;
    for (size_t i = 0; i < num_axes; i++) axes[i] = (int64_t)i;
  } else if (!tercel_constant_ints(pad->inputs[3], axes, TERCEL_MAX_RANK, &num_axes)) {
    return false;
  }
  if (count != 2 * num_axes) return false;
  for (size_t i = 0; i < num_axes; i++) {
    const int64_t d = axes[i] < 0 ? axes[i] + out->rank : axes[i];
    if (d < 0 || d >= out->rank || !is_sensible(pads[i]) || !is_sensible(pads[num_axes + i])) return false;
    out->begin[d] = pads[i];
    out->end[d] = pads[num_axes + i];
  }
  return true;
}

static bool through_transpose(const tercel_node *transpose, padded *p) {
  const padded before = *p;
  size_t count;
  const int64_t *const perm = tercel_node_ints(transpose, "perm", &count);
  if (!perm || (int)count != p->rank) return false;
  for (int i = 0; i < p->rank; i++) {
    const int64_t from = perm[i] < 0 ? perm[i] + p->rank : perm[i];
    p->begin[i] = before.begin[from];
    p->end[i] = before.end[from];
  }
  return true;
}

/* A view that only adds or takes dims of 1 (which are not padded). */
static bool through_view(const tercel_node *view, padded *p) {
  const padded before = *p;
  const tercel_shape *const from = &view->inputs[0]->type.shape, *const to = &view->outputs[0]->type.shape;
  int k = 0;
  if (from->rank < 0 || to->rank < 0) return false;
  p->rank = to->rank;
  memset(p->begin, 0, sizeof p->begin);
  memset(p->end, 0, sizeof p->end);
  for (int i = 0; i <= to->rank; i++) {
    if (i < to->rank && to->dims[i] == 1) continue;
    for (; k < from->rank && from->dims[k] == 1; k++)
      if (before.begin[k] || before.end[k]) return false;
    if (i == to->rank) break;
    if (k == from->rank || from->dims[k] != to->dims[i]) return false;
    p->begin[i] = before.begin[k];
    p->end[i] = before.end[k++];
  }
  return k == from->rank;
}

/* The first spatial dim: channels stand before or behind them. */
static int first_spatial(const tercel_node *window) {
  const char *const layout = tercel_node_string(window, "layout");
  return layout && strcmp(layout, "nhwc") == 0 ? 1 : 2;
}

/* Finds the pad above the node's input; *why says why it can't be reached, when there is one. */
static bool find_pad(const tercel_node *node, padded *out, const char **why, char buffer[TERCEL_REASON_MAX]) {
  const tercel_node *reader = node;
  *out = (padded){.pad = NULL};
  *why = NULL;
  while (!out->pad) {
    const tercel_value *const value = reader->inputs[0];
    const tercel_node *const producer = value->producer;
    const bool moves = producer && (tercel_is(producer, TERCEL_OP_TRANSPOSE) || producer->op->flags & TERCEL_OP_VIEW);
    if ((!moves && !tercel_is(producer, TERCEL_OP_PAD)) || (moves && out->num_moves == MAX_MOVES)) {
      *why = NULL;
      return false;
    }
    if (moves)
      out->moves[out->num_moves++] = producer;
    else
      out->pad = producer;
    if (!tercel_has_one_use(value) && !*why) *why = tercel_describe_uses(value, reader, buffer);
    reader = producer;
  }
  if (!read_pads(out->pad, out)) *why = tercel_reason(buffer, "the pads of '%.100s' are not constant", out->pad->name);
  for (int i = out->num_moves; i-- > 0 && !*why;) {
    const tercel_node *const move = out->moves[i];
    if (!(tercel_is(move, TERCEL_OP_TRANSPOSE) ? through_transpose(move, out) : through_view(move, out)))
      *why = tercel_reason(buffer, "'%.100s' stands between them", move->name);
  }
  const int channels = first_spatial(node) == 2 ? 1 : out->rank - 1;
  if (!*why && (out->begin[0] || out->end[0])) *why = "the batch is padded";
  if (!*why && (out->begin[channels] || out->end[channels])) *why = "channels are padded";
  return !*why;
}

/* What lay between, now over x itself. */
static tercel_status rebuild(const padded *p, tercel_node *before, tercel_value **out, tercel_error *err) {
  *out = p->pad->inputs[0];
  for (int i = p->num_moves; i-- > 0;) {
    const tercel_node *const move = p->moves[i];
    tercel_node *made;
    if (tercel_is(move, TERCEL_OP_TRANSPOSE)) {
      size_t count;
      const int64_t *const perm = tercel_node_ints(move, "perm", &count);
      TERCEL_TRY(tercel_rewrite_add(TERCEL_OP_TRANSPOSE, move, out, 1, before, &made, err));
      TERCEL_TRY(tercel_node_set_ints(made, "perm", perm, count, err));
      TERCEL_TRY(tercel_infer_node(made, err));
    } else {
      /* The view's own shape with x's dims: those of 1 are where they were. */
      const tercel_shape *const from = &(*out)->type.shape;
      tercel_shape to = move->outputs[0]->type.shape;
      int64_t target[TERCEL_MAX_RANK];
      for (int d = 0, k = 0; d < to.rank; d++) {
        if (to.dims[d] == 1) continue;
        while (move->inputs[0]->type.shape.dims[k] == 1) k++;
        to.dims[d] = from->dims[k++];
      }
      if (!tercel_reshape_target(from, &to, target))
        return tercel_fail(err, TERCEL_INTERNAL, "'%s': no shape without the pad", move->name);
      TERCEL_TRY(tercel_add_reshape(*out, target, to.rank, move, before, &made, err));
    }
    *out = made->outputs[0];
  }
  return TERCEL_OK;
}

/* Can the views in between be written over x?  At most one of the dims may be unknown. */
static bool can_rebuild(const padded *p) {
  for (int i = 0; i < p->num_moves; i++) {
    int unknown = 0;
    const tercel_shape *const to = &p->moves[i]->outputs[0]->type.shape;
    for (int d = 0; d < to->rank; d++) unknown += !tercel_dim_is_known(to->dims[d]);
    if (!tercel_is(p->moves[i], TERCEL_OP_TRANSPOSE) && unknown > 1) return false;
  }
  return true;
}

/* ---- the window ---------------------------------------------------------------------------------------------------- */

static bool pads_itself(const tercel_node *window) {
  const char *const automatic = tercel_node_string(window, "auto_pad");
  return automatic && *automatic && strcmp(automatic, "valid") != 0;
}

static bool has_sensible_pads(const tercel_node *window) {
  size_t count;
  const int64_t *const pads = tercel_node_ints(window, "pads", &count);
  for (size_t i = 0; i < count; i++)
    if (!is_sensible(pads[i])) return false;
  return true;
}

/* The window's own pads and those of the pad; all begins, then all ends. */
static size_t add_pads(const tercel_node *window, const padded *p, int64_t out[2 * TERCEL_MAX_RANK]) {
  size_t count = 0;
  const int spatial = p->rank - 2, first = first_spatial(window);
  const char *const automatic = tercel_node_string(window, "auto_pad");
  const int64_t *const own = automatic && *automatic ? NULL : tercel_node_ints(window, "pads", &count);
  for (int i = 0; i < spatial; i++) {
    out[i] = p->begin[i + first] + (own ? own[i] : 0);
    out[i + spatial] = p->end[i + first] + (own ? own[i + spatial] : 0);
  }
  return 2 * (size_t)spatial;
}

static tercel_status take_over(tercel_pass_context *context, const char *name, tercel_node *window, const padded *p,
                               tercel_error *err) {
  int64_t pads[2 * TERCEL_MAX_RANK];
  tercel_value *x;
  const size_t count = add_pads(window, p, pads);
  TERCEL_TRY(tercel_made(context, name, window, p->pad, err));
  TERCEL_TRY(rebuild(p, window, &x, err));
  if (tercel_node_attr(window, "auto_pad")) tercel_node_remove_attr(window, "auto_pad");
  TERCEL_TRY(tercel_node_set_ints(window, "pads", pads, count, err));
  TERCEL_TRY(tercel_node_add_sources(window, p->pad, err));
  return tercel_node_set_input(window, 0, x, err);
}

static bool is_constant_mode(const tercel_node *pad) {
  const char *const mode = tercel_node_string(pad, "mode");
  return !mode || strcmp(mode, "constant") == 0;
}

/* The number that is put around; 0 without one. */
static bool pad_value(const tercel_node *pad, double *out) {
  *out = 0;
  return !tercel_node_input(pad, 2) || tercel_scalar(pad->inputs[2], out);
}

static tercel_status apply_conv(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  padded p;
  const char *why;
  char buffer[TERCEL_REASON_MAX];
  double value;
  if (!find_pad(node, &p, &why, buffer) && !why) return TERCEL_OK;
  if (!is_constant_mode(p.pad))
    why = tercel_reason(buffer, "'%.100s' pads with '%.20s'", p.pad->name, tercel_node_string(p.pad, "mode"));
  else if (!pad_value(p.pad, &value))
    why = tercel_reason(buffer, "what '%.100s' puts around is not constant", p.pad->name);
  else if (value != 0)
    why = tercel_reason(buffer, "'%.100s' pads with %.9g, not with 0", p.pad->name, value);
  else if (!why && pads_itself(node))
    why = tercel_reason(buffer, "its own pads are '%.20s'", tercel_node_string(node, "auto_pad"));
  else if (!why && !has_sensible_pads(node))
    why = "its own pads are beyond all sizes";
  else if (!why && !can_rebuild(&p))
    why = "several dims of a view between them are not known";
  if (why) return tercel_refused(context, name, node, err, "%s", why);
  return take_over(context, name, node, &p, err);
}

/* ---- pools --------------------------------------------------------------------------------------------------------- */

/* Nothing in it is below 0 (NaN aside): the last thing done to it says so. */
static bool is_never_negative(const tercel_value *value) {
  const tercel_node *node = value->producer;
  while (node && (tercel_is(node, TERCEL_OP_TRANSPOSE) || node->op->flags & TERCEL_OP_VIEW))
    node = node->inputs[0]->producer;
  const tercel_fn fn = tercel_single_fn(node);
  if (fn == TERCEL_FN_CLIP) return tercel_node_program(node, "program")->instrs[0].immediates[0].f >= 0;
  return fn == TERCEL_FN_RELU || fn == TERCEL_FN_SIGMOID || fn == TERCEL_FN_EXP || fn == TERCEL_FN_ABS ||
         fn == TERCEL_FN_SOFTPLUS || fn == TERCEL_FN_HARD_SIGMOID;
}

/* Each window holds an element of x. */
static bool reaches_x(const tercel_node *pool, const padded *p) {
  size_t count, num_dilations;
  int64_t pads[2 * TERCEL_MAX_RANK];
  const int spatial = p->rank - 2;
  const int64_t *const kernel = tercel_node_ints(pool, "kernel", &count);
  const int64_t *const dilations = tercel_node_ints(pool, "dilations", &num_dilations);
  add_pads(pool, p, pads);
  for (int i = 0; i < spatial; i++)
    if ((dilations && dilations[i] != 1) || pads[i] >= kernel[i] || pads[i + spatial] >= kernel[i]) return false;
  return true;
}

/* Why what is put around x could win over all of x in a window; NULL when it can't. */
static const char *obstacle_to_max(const tercel_node *pool, const padded *p, char buffer[TERCEL_REASON_MAX]) {
  double value;
  const char *const mode = tercel_node_string(p->pad, "mode");
  if (!is_constant_mode(p->pad) && strcmp(mode, "edge") != 0)
    return tercel_reason(buffer, "'%.100s' pads with '%.20s'", p->pad->name, mode);
  if (!reaches_x(pool, p)) return "a window could see nothing but pads";
  if (!is_constant_mode(p->pad)) return NULL;
  if (!pad_value(p->pad, &value))
    return tercel_reason(buffer, "what '%.100s' puts around is not constant", p->pad->name);
  if (value == -HUGE_VAL || (value == 0 && is_never_negative(p->pad->inputs[0]))) return NULL;
  return tercel_reason(buffer, "'%.100s' pads with %.9g, which may be the largest", p->pad->name, value);
}

static const char *obstacle_to_average(const tercel_node *pool, const padded *p, char buffer[TERCEL_REASON_MAX]) {
  size_t count;
  double value;
  const int64_t *const own = tercel_node_ints(pool, "pads", &count);
  const char *const automatic = tercel_node_string(pool, "auto_pad");
  if (!is_constant_mode(p->pad) || !pad_value(p->pad, &value) || value != 0)
    return tercel_reason(buffer, "'%.100s' does not pad with zeros", p->pad->name);
  for (size_t i = 0; i < count && !(automatic && *automatic); i++)
    if (own[i] && !tercel_node_int(pool, "count_include_pad"))
      return "it does not count its own pads, as it would those of the pad";
  return NULL;
}

static tercel_status apply_pool(tercel_pass_context *context, const char *name, tercel_node *node, tercel_error *err) {
  padded p;
  const char *why;
  char buffer[TERCEL_REASON_MAX];
  const char *const kind = tercel_node_string(node, "kind");
  const bool is_average = strcmp(kind, "average") == 0;
  if (!find_pad(node, &p, &why, buffer) && !why) return TERCEL_OK;
  if (!why && !is_average && strcmp(kind, "max") != 0) return TERCEL_OK;
  if (!why && tercel_node_output(node, 1)) why = "it also gives the places of the largest";
  if (!why && tercel_node_int(node, "ceil_mode")) why = "it rounds up how many windows there are";
  if (!why && pads_itself(node))
    why = tercel_reason(buffer, "its own pads are '%.20s'", tercel_node_string(node, "auto_pad"));
  if (!why && !has_sensible_pads(node)) why = "its own pads are beyond all sizes";
  if (!why && !can_rebuild(&p)) why = "several dims of a view between them are not known";
  if (!why) why = is_average ? obstacle_to_average(node, &p, buffer) : obstacle_to_max(node, &p, buffer);
  if (why) return tercel_refused(context, name, node, err, "%s", why);
  if (is_average) TERCEL_TRY(tercel_node_set_int(node, "count_include_pad", 1, err));
  return take_over(context, name, node, &p, err);
}

static const tercel_rule rules[] = {{"conv", TERCEL_OP_CONV, apply_conv}, {"pool", TERCEL_OP_POOL, apply_pool}, {0}};

tercel_status tercel_pass_pads(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  return tercel_run_rules(graph, rules, context, err);
}
