/* Layout: which convolutions and pools run with channels last.
 *
 * One decision for the whole graph: every node that could be in either layout gets the label NCHW or NHWC so that the sum of what the nodes take
 * and of what it takes to convert values between differently labelled nodes is as small as it can be.  With two labels that is a minimum
 * cut (D. M. Greig, B. T. Porteous and A. H. Seheult, 1989, for pictures): the source is NHWC, the sink NCHW.
 *
 *     source -> node     what the node takes in NCHW: cut when it is on the sink's side
 *     node -> sink       what it takes in NHWC
 *     producer -> back   converting a value to NCHW, paid once however many nodes read it so;  back -> reader: never cut
 *     ahead -> producer  converting it to NHWC, likewise;                                       reader -> ahead: never cut
 *
 * Operators that don't care for the order of dims (permute.h) cost the same in both, but for views that would have to be copied. All else,
 * and the graph's inputs and outputs, are NCHW.  Conversions are transposes.  What nodes take is for the caller to say
 * (tercel_optimize_options.node_cost); nodes are tried in NHWC to ask. */
#include <math.h>
#include <string.h>

#include "optimize/min_cut.h"
#include "optimize/permute.h"

enum { NCHW, NHWC, NUM_LAYOUTS };

/* What nodes may be, by number (node->mark - 1). */
typedef enum kind {
  PINNED, /* NCHW */
  FREE,   /* either */
  CHOICE  /* either; a kernel of its own for each */
} kind;

typedef struct item {
  tercel_node *node;
  kind kind;
  bool nhwc;                /* decided */
  double cost[NUM_LAYOUTS]; /* ns */
} item;

typedef struct layouts {
  tercel_pass_context *context;
  tercel_graph *graph;
  item *items;
  uint32_t num_items;
  double *conversions;     /* ns by value id; negative: not asked yet */
  tercel_value **versions; /* by value id: the same in NHWC */
  uint32_t num_values;     /* that both have room for */
} layouts;

static item *item_of(const layouts *l, const tercel_node *node) {
  return node && node->mark ? &l->items[node->mark - 1] : NULL;
}

/* ---- costs ---- */

static double ask(const layouts *l, const tercel_node *node) {
  return l->context->node_cost(l->context->cost_user, node);
}

/* A conversion that moves no bytes still is a step. */
static const double reshape_ns = 50;

/* Does the order of dims other than 1 stay? */
static bool is_reshape(const tercel_shape *shape, const tercel_perm *perm) {
  int64_t last = -1;
  for (int i = 0; i < perm->rank; i++) {
    if (shape->dims[perm->at[i]] == 1) continue;
    if (perm->at[i] < last) return false;
    last = perm->at[i];
  }
  return true;
}

static tercel_status price_conversion(layouts *l, tercel_value *value, const tercel_node *like, double *out,
                                      tercel_error *err) {
  double *const known = &l->conversions[value->id];
  if (*known < 0) {
    const tercel_perm perm = tercel_perm_to_nhwc(value->type.shape.rank);
    *known = reshape_ns;
    if (!is_reshape(&value->type.shape, &perm)) {
      tercel_node *transpose;
      TERCEL_TRY(tercel_add_transpose(value, &perm, like, NULL, &transpose, err));
      *known = fmax(ask(l, transpose), reshape_ns);
      tercel_graph_remove_node(transpose);
    }
  }
  *out = *known;
  return TERCEL_OK;
}

/* Cutting and joining where nothing but ones stands before the axis moves nothing (views, parts of one buffer). */
static double move_cost(const layouts *l, const tercel_node *node, const tercel_perm *perm) {
  const int rank = perm->rank;
  if (!tercel_is(node, TERCEL_OP_CONCAT) && !tercel_is(node, TERCEL_OP_SPLIT)) return 0;
  int64_t axis = tercel_node_int(node, "axis");
  if (axis < 0) axis += rank;
  const tercel_dim *const dims = node->outputs[0] ? node->outputs[0]->type.shape.dims : NULL;
  for (int i = 0; dims && i < rank && perm->at[i] != axis; i++)
    if (tercel_dim_is_known(dims[perm->at[i]]) && dims[perm->at[i]] != 1) return ask(l, node);
  return 0;
}

/* The node in NHWC, over inputs that are transposed just for asking. */
static tercel_status price_in_nhwc(layouts *l, tercel_node *node, double *out, tercel_error *err) {
  const tercel_perm perm = tercel_perm_to_nhwc(tercel_permuted_rank(node));
  tercel_value *inputs[TERCEL_PROGRAM_MAX_INPUTS + 3];
  tercel_node *made, *transposes[TERCEL_PROGRAM_MAX_INPUTS + 3];
  uint32_t count = 0;
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    inputs[i] = node->inputs[i];
    if (!tercel_permutes_input(node, i)) continue;
    TERCEL_TRY(tercel_add_transpose(node->inputs[i], &perm, node, node, &transposes[count], err));
    inputs[i] = transposes[count++]->outputs[0];
  }
  TERCEL_TRY(tercel_permute(node, &perm, inputs, node, &made, err));
  *out = ask(l, made);
  tercel_graph_remove_node(made);
  while (count > 0) tercel_graph_remove_node(transposes[--count]);
  return TERCEL_OK;
}

/* ---- what can be chosen ---- */

static const char *why_pinned(const tercel_node *node, char buffer[TERCEL_REASON_MAX]) {
  const int rank = tercel_permuted_rank(node);
  if (node->num_inputs > TERCEL_PROGRAM_MAX_INPUTS + 3) return "it has too many inputs";
  if (tercel_node_layout(node) == TERCEL_LAYOUT_NHWC) return "it has channels last already";
  if (rank != 3 && rank != 4) return tercel_reason(buffer, "rank %d, not 3 or 4", rank);
  return tercel_permute_obstacle(node, buffer);
}

static bool is_sensitive(const tercel_node *node) {
  return tercel_is(node, TERCEL_OP_CONV) || tercel_is(node, TERCEL_OP_POOL);
}

static tercel_status classify(layouts *l, item *it, tercel_error *err) {
  char buffer[TERCEL_REASON_MAX];
  tercel_node *const node = it->node;
  const char *const why = why_pinned(node, buffer);
  if (!is_sensitive(node)) {
    it->kind = why ? PINNED : FREE;
    return TERCEL_OK;
  }
  if (why) return tercel_refused(l->context, "nhwc", node, err, "%s", why);
  it->cost[NCHW] = ask(l, node);
  TERCEL_TRY(price_in_nhwc(l, node, &it->cost[NHWC], err));
  if (it->cost[NHWC] <= 0) return tercel_refused(l->context, "nhwc", node, err, "what it takes is not known");
  it->kind = CHOICE;
  return TERCEL_OK;
}

static double gain_of(const item *it) { return it->kind == CHOICE ? it->cost[NCHW] - it->cost[NHWC] : 0; }

/* Numbers the nodes; *pays: some node would gain. */
static tercel_status list_nodes(layouts *l, bool *pays, tercel_error *err) {
  *pays = false;
  for (tercel_node *node = l->graph->first; node; node = node->next) {
    node->mark = 0;
    l->items[l->num_items++] = (item){.node = node};
  }
  for (uint32_t i = 0; i < l->num_items; i++) {
    TERCEL_TRY(classify(l, &l->items[i], err));
    *pays |= gain_of(&l->items[i]) > 0;
  }
  for (uint32_t i = 0; i < l->num_items; i++) {
    item *const it = &l->items[i];
    it->node->mark = i + 1; /* only now: nodes that were tried have none */
    if (!*pays || it->kind != FREE) continue;
    const int rank = tercel_permuted_rank(it->node);
    const tercel_perm to = tercel_perm_to_nhwc(rank);
    tercel_perm same = {.rank = rank};
    for (int d = 0; d < rank; d++) same.at[d] = d;
    it->cost[NCHW] = move_cost(l, it->node, &same);
    it->cost[NHWC] = move_cost(l, it->node, &to);
  }
  return TERCEL_OK;
}

/* ---- the cut ---- */

enum { SOURCE, SINK, FIRST_NODE };

static uint32_t vertex_of(const layouts *l, const tercel_node *node) {
  const item *const it = item_of(l, node);
  return it && it->kind != PINNED ? FIRST_NODE + (uint32_t)(it - l->items) : SINK;
}

/* Picoseconds. */
static int64_t capacity_of(double ns) { return tercel_saturate_i64(fmin(fmax(ns, 0) * 1e3, 1e15)); }

static tercel_status add_node(const layouts *l, tercel_cut *cut, const item *it, tercel_error *err) {
  const uint32_t vertex = vertex_of(l, it->node);
  if (vertex == SINK) return TERCEL_OK;
  const double gain = it->cost[NCHW] - it->cost[NHWC];
  return gain > 0 ? tercel_cut_add(cut, SOURCE, vertex, capacity_of(gain), err)
                  : tercel_cut_add(cut, vertex, SINK, capacity_of(-gain), err);
}

/* The vertex of a reader, as that use of the value wants it. */
static uint32_t reader_of(const layouts *l, const tercel_use *use) {
  return tercel_permutes_input(use->node, use->index) ? vertex_of(l, use->node) : SINK;
}

static uint32_t producer_of(const layouts *l, const tercel_value *value) {
  const tercel_node *const node = value->producer;
  for (uint32_t i = 0; node && i < node->num_outputs; i++)
    if (node->outputs[i] == value) return tercel_permutes_output(node, i) ? vertex_of(l, node) : SINK;
  return SINK;
}

static tercel_status add_value(layouts *l, tercel_cut *cut, tercel_value *value, tercel_error *err) {
  const int rank = value->type.kind == TERCEL_TYPE_TENSOR ? value->type.shape.rank : -1;
  if (value->constant || (rank != 3 && rank != 4)) return TERCEL_OK;
  const uint32_t producer = producer_of(l, value), back = FIRST_NODE + l->num_items + 2 * value->id, ahead = back + 1;
  bool read_by_node = false, pinned = value->num_output_uses > 0;
  for (uint32_t i = 0; i < value->num_uses; i++) {
    if (reader_of(l, &value->uses[i]) == SINK)
      pinned = true;
    else
      read_by_node = true;
  }
  if (producer == SINK && !read_by_node) return TERCEL_OK;
  double ns;
  TERCEL_TRY(price_conversion(l, value, producer != SINK ? value->producer : value->uses[0].node, &ns, err));
  if (producer != SINK) {
    TERCEL_TRY(tercel_cut_add(cut, producer, back, capacity_of(ns), err));
    if (pinned) TERCEL_TRY(tercel_cut_add(cut, back, SINK, tercel_cut_never, err));
  }
  if (read_by_node) TERCEL_TRY(tercel_cut_add(cut, ahead, producer, capacity_of(ns), err));
  for (uint32_t i = 0; i < value->num_uses; i++) {
    const uint32_t reader = reader_of(l, &value->uses[i]);
    if (reader == SINK) continue;
    TERCEL_TRY(tercel_cut_add(cut, reader, ahead, tercel_cut_never, err));
    if (producer != SINK) TERCEL_TRY(tercel_cut_add(cut, back, reader, tercel_cut_never, err));
  }
  return TERCEL_OK;
}

static tercel_status decide(layouts *l, tercel_error *err) {
  tercel_cut cut = {0};
  tercel_status status = TERCEL_OK;
  const uint32_t num_values = l->graph->num_values;
  TERCEL_CHECK(tercel_cut_init(&cut, FIRST_NODE + l->num_items + 2 * num_values, err));
  for (uint32_t i = 0; i < l->num_items; i++) TERCEL_CHECK(add_node(l, &cut, &l->items[i], err));
  for (uint32_t i = 0; i < num_values; i++)
    if (l->graph->values[i]) TERCEL_CHECK(add_value(l, &cut, l->graph->values[i], err));
  tercel_cut_solve(&cut, SOURCE, SINK);
  for (uint32_t i = 0; i < l->num_items; i++)
    l->items[i].nhwc = l->items[i].kind != PINNED && tercel_cut_is_at_source(&cut, FIRST_NODE + i);
done:
  tercel_cut_deinit(&cut);
  return status;
}

/* ---- rewriting ---- */

static tercel_status make_room(layouts *l, uint32_t num_values, tercel_error *err) {
  if (num_values <= l->num_values) return TERCEL_OK;
  const size_t have = l->num_values, want = 2 * (size_t)num_values;
  double *const conversions = tercel_realloc(l->conversions, have * sizeof *conversions, want * sizeof *conversions);
  if (conversions) l->conversions = conversions;
  tercel_value **const versions = tercel_realloc(l->versions, have * sizeof *versions, want * sizeof *versions);
  if (versions) l->versions = versions;
  if (!conversions || !versions) return tercel_fail_memory(err, want * sizeof *versions, "layouts");
  for (size_t i = have; i < want; i++) {
    l->conversions[i] = -1;
    l->versions[i] = NULL;
  }
  l->num_values = (uint32_t)want;
  return TERCEL_OK;
}

/* The value in NHWC: known, or converted before the node. */
static tercel_status get_version(layouts *l, tercel_value *value, tercel_node *node, tercel_value **out,
                                 tercel_error *err) {
  TERCEL_TRY(make_room(l, l->graph->num_values, err));
  if (!l->versions[value->id]) {
    const tercel_perm perm = tercel_perm_to_nhwc(value->type.shape.rank);
    tercel_node *transpose;
    TERCEL_TRY(tercel_made_for(l->context, "to-nhwc", node, err, "'%.100s', %.1f us", value->name,
                               l->conversions[value->id] / 1e3));
    TERCEL_TRY(tercel_add_transpose(value, &perm, node, node, &transpose, err));
    l->versions[value->id] = transpose->outputs[0];
  }
  *out = l->versions[value->id];
  return TERCEL_OK;
}

/* The node's output becomes what is transposed back from the new one; those that want NHWC find it under that. */
static tercel_status replace_output(layouts *l, tercel_node *node, tercel_node *made, uint32_t i, tercel_error *err) {
  if (!tercel_permutes_output(node, i)) return tercel_rewrite_replace(node->outputs[i], made->outputs[i], err);
  const tercel_perm to = tercel_perm_to_nhwc(tercel_permuted_rank(node)), back = tercel_perm_inverse(&to);
  tercel_node *transpose;
  TERCEL_TRY(tercel_add_transpose(made->outputs[i], &back, node, node, &transpose, err));
  TERCEL_TRY(make_room(l, l->graph->num_values, err));
  l->versions[transpose->outputs[0]->id] = made->outputs[i];
  l->conversions[transpose->outputs[0]->id] = l->conversions[node->outputs[i]->id];
  return tercel_rewrite_replace(node->outputs[i], transpose->outputs[0], err);
}

static tercel_status rewrite(layouts *l, const item *it, tercel_error *err) {
  tercel_node *const node = it->node;
  const tercel_perm perm = tercel_perm_to_nhwc(tercel_permuted_rank(node));
  tercel_value *inputs[TERCEL_PROGRAM_MAX_INPUTS + 3];
  tercel_node *made;
  if (it->kind == CHOICE)
    TERCEL_TRY(tercel_made_for(l->context, "nhwc", node, err, "%.1f us, %.1f in NCHW", it->cost[NHWC] / 1e3,
                               it->cost[NCHW] / 1e3));
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    inputs[i] = node->inputs[i];
    if (tercel_permutes_input(node, i)) TERCEL_TRY(get_version(l, node->inputs[i], node, &inputs[i], err));
  }
  TERCEL_TRY(tercel_permute(node, &perm, inputs, node, &made, err));
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i]) TERCEL_TRY(replace_output(l, node, made, i, err));
  tercel_graph_remove_node(node);
  return TERCEL_OK;
}

/* Transposes back that nobody needs go; the others are decisions. */
static tercel_status settle_conversions(layouts *l, tercel_error *err) {
  for (tercel_node *node = l->graph->last, *previous; node; node = previous) {
    previous = node->previous;
    const tercel_value *const output = tercel_node_output(node, 0);
    if (!tercel_is(node, TERCEL_OP_TRANSPOSE) || output->id >= l->num_values ||
        l->versions[output->id] != node->inputs[0])
      continue;
    if (tercel_value_num_uses(output) == 0)
      tercel_graph_remove_node(node);
    else
      TERCEL_TRY(tercel_made_for(l->context, "to-nchw", node, err, "'%.100s', %.1f us", output->name,
                                 l->conversions[output->id] / 1e3));
  }
  return TERCEL_OK;
}

static tercel_status explain_refusals(const layouts *l, tercel_error *err) {
  for (uint32_t i = 0; i < l->num_items; i++) {
    const item *const it = &l->items[i];
    if (it->kind != CHOICE || it->nhwc) continue;
    const double nchw = it->cost[NCHW] / 1e3, nhwc = it->cost[NHWC] / 1e3;
    if (nhwc >= nchw)
      TERCEL_TRY(tercel_refused(l->context, "nhwc", it->node, err, "it is expected to take %.1f us, %.1f in NCHW", nhwc,
                                nchw));
    else
      TERCEL_TRY(tercel_refused(l->context, "nhwc", it->node, err,
                                "it is expected to take %.1f us, %.1f in NCHW, but conversions around it take more",
                                nhwc, nchw));
  }
  return TERCEL_OK;
}

static tercel_status run(layouts *l, tercel_error *err) {
  bool pays;
  l->items = tercel_zalloc_array((size_t)l->graph->num_nodes + 1, sizeof *l->items);
  if (!l->items) return tercel_fail_memory(err, l->graph->num_nodes * sizeof *l->items, "layouts");
  TERCEL_TRY(list_nodes(l, &pays, err));
  TERCEL_TRY(make_room(l, l->graph->num_values, err));
  if (pays) TERCEL_TRY(decide(l, err));
  TERCEL_TRY(explain_refusals(l, err));
  for (uint32_t i = 0; i < l->num_items; i++)
    if (l->items[i].nhwc) TERCEL_TRY(rewrite(l, &l->items[i], err));
  return settle_conversions(l, err);
}

tercel_status tercel_pass_layout(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  if (!context->node_cost) return TERCEL_OK;
  layouts l = {.context = context, .graph = graph};
  const tercel_status status = run(&l, err);
  tercel_free(l.items);
  tercel_free(l.conversions);
  tercel_free(l.versions);
  return status;
}
