/* Orders nodes by the memory they keep alive: a list schedule.  Of the nodes whose inputs are there, the one goes first that adds least
 * (or takes away most); among equals the one that became ready last, so that a branch is finished before the next is begun.
 *
 * Exporters often write parallel branches side by side, node by node, so that all of them are alive at once.  The schedule is greedy
 * and may be worse than what it was given: both are played through, and the better stays. */
#include "plan/order.h"

#include <math.h>
#include <string.h>

#include "ops/ops.h"

enum {
  FREE_DIM = 64,      /* what a free dim counts as */
  MAX_LOOKS = 2000000 /* at ready nodes: some 10 ms */
};

static const double worth_it = 0.95; /* of the bytes before */

/* Memory that one value or several (views of one another) take. */
typedef struct store {
  double bytes;
  uint32_t num_readers; /* nodes that read it, each counted once; and one for ever, where it is an output */
  uint32_t left;        /* of them, while an order is played through */
} store;

/* A node in the order that the graph came in. */
typedef struct item {
  tercel_node *node;
  uint32_t *reads, *writes; /* stores, each once */
  uint32_t num_reads, num_writes;
  uint32_t *next; /* items that wait for this one, one entry for each thing they wait for */
  uint32_t num_next, num_waiting;
  bool in_place; /* may write where it reads */
} item;

typedef struct scheduler {
  tercel_arena memory;
  const tercel_graph *graph;
  tercel_dim_value_of value_of;
  void *user;
  tercel_dims dims;
  store *stores;
  uint32_t *store_of; /* by value id */
  uint32_t num_stores;
  item *items;
  uint32_t num_items;
} scheduler;

static tercel_status no_memory(tercel_error *err) {
  return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for ordering nodes");
}

/* ---- sizes --------------------------------------------------------------------------------------------------------- */

static double bytes_of(scheduler *s, const tercel_value *value) {
  const tercel_shape *const shape = &value->type.shape;
  if (value->type.kind != TERCEL_TYPE_TENSOR || shape->rank < 0) return 0;
  double elements = 1;
  for (int d = 0; d < shape->rank; ++d) {
    tercel_dim dim = shape->dims[d];
    if (!tercel_dim_is_known(dim)) dim = tercel_dim_translate(s->graph->dims, dim, &s->dims, s->value_of, s->user);
    elements *= tercel_dim_is_known(dim) ? (double)dim : FREE_DIM;
  }
  return elements * tercel_dtype_bits(value->type.dtype) / 8;
}

static uint32_t add_store(scheduler *s, double bytes) {
  s->stores[s->num_stores].bytes = bytes;
  return s->num_stores++;
}

static void make_stores(scheduler *s) {
  add_store(s, 0); /* 0: what is not ours: inputs, constants */
  for (const tercel_node *node = s->graph->first; node != NULL; node = node->next) {
    for (uint32_t i = 0; i < node->num_outputs; ++i) {
      const tercel_value *const value = node->outputs[i];
      if (value == NULL) continue;
      const bool view = i == 0 && node->op->flags & TERCEL_OP_VIEW && node->inputs[0] != NULL;
      s->store_of[value->id] = view ? s->store_of[node->inputs[0]->id] : add_store(s, bytes_of(s, value));
    }
  }
  for (uint32_t k = 0; k < s->graph->num_outputs; ++k) ++s->stores[s->store_of[s->graph->outputs[k]->id]].num_readers;
}

/* ---- items --------------------------------------------------------------------------------------------------------- */

static void add_once(uint32_t *list, uint32_t *count, uint32_t index) {
  if (index == 0) return;
  for (uint32_t i = 0; i < *count; ++i)
    if (list[i] == index) return;
  list[(*count)++] = index;
}

static bool keeps_its_place(const tercel_node *node) {
  return node->op->flags & (TERCEL_OP_IMPURE | TERCEL_OP_STATEFUL);
}

static tercel_status fill_item(scheduler *s, item *to, tercel_error *err) {
  const tercel_node *const node = to->node;
  uint32_t num_next = 1; /* the next of those that keep their places */
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    if (node->outputs[i] != NULL) num_next += node->outputs[i]->num_uses;
  to->reads = tercel_arena_alloc_array(&s->memory, node->num_inputs, sizeof *to->reads);
  to->writes = tercel_arena_alloc_array(&s->memory, node->num_outputs, sizeof *to->writes);
  to->next = tercel_arena_alloc_array(&s->memory, num_next, sizeof *to->next);
  if (to->reads == NULL || to->writes == NULL || to->next == NULL) return no_memory(err);
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    if (node->inputs[i] != NULL) add_once(to->reads, &to->num_reads, s->store_of[node->inputs[i]->id]);
  const bool view = node->op->flags & TERCEL_OP_VIEW;
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    if (node->outputs[i] != NULL && !(view && i == 0))
      add_once(to->writes, &to->num_writes, s->store_of[node->outputs[i]->id]);
  for (uint32_t i = 0; i < to->num_reads; ++i) ++s->stores[to->reads[i]].num_readers;
  to->in_place = node->op->id == TERCEL_OP_POINTWISE;
  return TERCEL_OK;
}

static void wait_for(scheduler *s, uint32_t waiting, uint32_t on) {
  item *const before = &s->items[on];
  before->next[before->num_next++] = waiting;
  ++s->items[waiting].num_waiting;
}

static tercel_status make_items(scheduler *s, tercel_error *err) {
  for (tercel_node *node = s->graph->first; node != NULL; node = node->next) {
    node->mark = s->num_items;
    s->items[s->num_items].node = node;
    TERCEL_TRY(fill_item(s, &s->items[s->num_items++], err));
  }
  uint32_t last_in_place = UINT32_MAX;
  for (uint32_t n = 0; n < s->num_items; ++n) {
    const tercel_node *const node = s->items[n].node;
    for (uint32_t i = 0; i < node->num_inputs; ++i)
      if (node->inputs[i] != NULL && node->inputs[i]->producer != NULL && node->inputs[i]->graph == s->graph)
        wait_for(s, n, node->inputs[i]->producer->mark);
    if (!keeps_its_place(node)) continue;
    if (last_in_place != UINT32_MAX) wait_for(s, n, last_in_place);
    last_in_place = n;
  }
  return TERCEL_OK;
}

/* ---- playing an order through -------------------------------------------------------------------------------------- */

static double made_by(const scheduler *s, const item *it) {
  double bytes = 0;
  for (uint32_t i = 0; i < it->num_writes; ++i) bytes += s->stores[it->writes[i]].bytes;
  return bytes;
}

static double freed_by(const scheduler *s, const item *it) {
  double bytes = 0;
  for (uint32_t i = 0; i < it->num_reads; ++i)
    if (s->stores[it->reads[i]].left == 1) bytes += s->stores[it->reads[i]].bytes;
  return bytes;
}

/* Runs one item: what is alive with it counts for the peak, then what it read last is freed. */
static void play(scheduler *s, const item *it, double *alive, double *peak) {
  const double made = made_by(s, it), freed = freed_by(s, it);
  const double during = *alive + made - (it->in_place ? (freed < made ? freed : made) : 0);
  if (during > *peak) *peak = during;
  *alive += made - freed;
  for (uint32_t i = 0; i < it->num_reads; ++i) --s->stores[it->reads[i]].left;
  for (uint32_t i = 0; i < it->num_writes; ++i) /* what nobody reads dies at once */
    if (s->stores[it->writes[i]].num_readers == 0) *alive -= s->stores[it->writes[i]].bytes;
}

static void restart(scheduler *s) {
  for (uint32_t i = 0; i < s->num_stores; ++i) s->stores[i].left = s->stores[i].num_readers;
}

static double peak_as_given(scheduler *s) {
  double alive = 0, peak = 0;
  restart(s);
  for (uint32_t n = 0; n < s->num_items; ++n) play(s, &s->items[n], &alive, &peak);
  return peak;
}

/* ---- the schedule -------------------------------------------------------------------------------------------------- */

/* The ready item that adds least; the last one of them.  ready: in the order in which they became so. */
static uint32_t choose(const scheduler *s, const uint32_t *ready, uint32_t num_ready) {
  uint32_t best = num_ready - 1;
  double least = 0;
  for (uint32_t i = num_ready; i-- > 0;) {
    const item *const it = &s->items[ready[i]];
    const double adds = made_by(s, it) - freed_by(s, it);
    if (i != num_ready - 1 && adds >= least) continue;
    best = i;
    least = adds;
  }
  return best;
}

/* order: indices of items.  *peak is infinite when that would take too long. */
static tercel_status schedule(scheduler *s, uint32_t *order, double *peak, tercel_error *err) {
  uint32_t *const ready = tercel_arena_alloc_array(&s->memory, s->num_items, sizeof *ready);
  if (ready == NULL) return no_memory(err);
  uint32_t num_ready = 0, num_done = 0;
  size_t num_looks = 0;
  double alive = 0;
  restart(s);
  *peak = 0;
  for (uint32_t n = s->num_items; n-- > 0;)
    if (s->items[n].num_waiting == 0) ready[num_ready++] = n;
  while (num_ready > 0 && num_looks < MAX_LOOKS) {
    num_looks += num_ready;
    const uint32_t at = choose(s, ready, num_ready), n = ready[at];
    memmove(&ready[at], &ready[at + 1], (--num_ready - at) * sizeof *ready);
    play(s, &s->items[n], &alive, peak);
    order[num_done++] = n;
    for (uint32_t i = 0; i < s->items[n].num_next; ++i)
      if (--s->items[s->items[n].next[i]].num_waiting == 0) ready[num_ready++] = s->items[n].next[i];
  }
  if (num_done < s->num_items) *peak = (double)INFINITY;
  return TERCEL_OK;
}

static tercel_status order_graph(scheduler *s, tercel_graph *graph, tercel_order_stats *stats, tercel_error *err) {
  const size_t num_values = (size_t)graph->num_values + 1, num_nodes = (size_t)graph->num_nodes + 1;
  uint32_t *const order = tercel_arena_alloc_array(&s->memory, num_nodes, sizeof *order);
  s->stores = tercel_arena_alloc_array(&s->memory, num_values, sizeof *s->stores);
  s->store_of = tercel_arena_alloc_array(&s->memory, num_values, sizeof *s->store_of);
  s->items = tercel_arena_alloc_array(&s->memory, num_nodes, sizeof *s->items);
  if (!order || !s->stores || !s->store_of || !s->items) return no_memory(err);
  make_stores(s);
  TERCEL_TRY(tercel_dims_check(&s->dims, err));
  TERCEL_TRY(make_items(s, err));
  stats->before_bytes = stats->after_bytes = peak_as_given(s);
  double peak = 0;
  TERCEL_TRY(schedule(s, order, &peak, err));
  if (!(peak < worth_it * stats->before_bytes)) return TERCEL_OK;
  stats->after_bytes = peak;
  stats->changed = true;
  for (uint32_t n = 0; n < s->num_items; ++n) tercel_graph_move_node(s->items[order[n]].node, NULL);
  return TERCEL_OK;
}

tercel_status tercel_order_nodes(tercel_graph *graph, tercel_dim_value_of value_of, void *user,
                                 tercel_order_stats *stats, tercel_error *err) {
  scheduler s = {.graph = graph, .value_of = value_of, .user = user};
  tercel_dims_init(&s.dims, &s.memory);
  *stats = (tercel_order_stats){0};
  tercel_status status = order_graph(&s, graph, stats, err);
  tercel_dims_deinit(&s.dims);
  tercel_arena_deinit(&s.memory);
  for (tercel_node *node = graph->first; status == TERCEL_OK && node != NULL; node = node->next)
    for (uint32_t i = 0; status == TERCEL_OK && i < node->num_graphs; ++i) {
      tercel_order_stats inner;
      status = tercel_order_nodes(node->graphs[i], value_of, user, &inner, err);
    }
  return status;
}
