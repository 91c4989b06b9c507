/* Minimum cut by maximum flow: E. A. Dinic, 1970.  Levels by breadth-first search from the source, then paths along rising levels until
 * none is left, and again; what the last search reaches is the source's side. */
#include "optimize/min_cut.h"

#include <string.h>

#include "base/alloc.h"

enum { NO_ARC = UINT32_MAX };

tercel_status tercel_cut_init(tercel_cut *cut, uint32_t num_vertices, tercel_error *err) {
  *cut = (tercel_cut){.num_vertices = num_vertices};
  cut->first = tercel_alloc_array(num_vertices, sizeof *cut->first);
  cut->level = tercel_alloc_array(num_vertices, sizeof *cut->level);
  cut->at = tercel_alloc_array(num_vertices, sizeof *cut->at);
  cut->queue = tercel_alloc_array(num_vertices, sizeof *cut->queue);
  if (!cut->first || !cut->level || !cut->at || !cut->queue)
    return tercel_fail_memory(err, num_vertices * sizeof *cut->first, "a minimum cut");
  memset(cut->first, 0xff, num_vertices * sizeof *cut->first);
  return TERCEL_OK;
}

void tercel_cut_deinit(tercel_cut *cut) {
  tercel_free(cut->first);
  tercel_free(cut->level);
  tercel_free(cut->at);
  tercel_free(cut->queue);
  tercel_free(cut->arcs);
  *cut = (tercel_cut){0};
}

static void add_half(tercel_cut *cut, uint32_t from, uint32_t to, int64_t room) {
  cut->arcs[cut->num_arcs] = (tercel_cut_arc){.to = to, .next = cut->first[from], .room = room};
  cut->first[from] = cut->num_arcs++;
}

tercel_status tercel_cut_add(tercel_cut *cut, uint32_t from, uint32_t to, int64_t capacity, tercel_error *err) {
  if (cut->num_arcs + 2 > cut->capacity) {
    const uint32_t more = cut->capacity ? 2 * cut->capacity : 256;
    tercel_cut_arc *const grown = tercel_realloc(cut->arcs, cut->capacity * sizeof *grown, more * sizeof *grown);
    if (!grown) return tercel_fail_memory(err, more * sizeof *grown, "a minimum cut");
    cut->arcs = grown;
    cut->capacity = more;
  }
  add_half(cut, from, to, capacity);
  add_half(cut, to, from, 0);
  return TERCEL_OK;
}

/* True when the sink is still reached. */
static bool find_levels(tercel_cut *cut, uint32_t source, uint32_t sink) {
  memset(cut->level, 0xff, cut->num_vertices * sizeof *cut->level); /* -1: not reached */
  uint32_t head = 0, tail = 0;
  cut->queue[tail++] = source;
  cut->level[source] = 0;
  while (head < tail) {
    const uint32_t from = cut->queue[head++];
    for (uint32_t i = cut->first[from]; i != NO_ARC; i = cut->arcs[i].next) {
      const tercel_cut_arc *const arc = &cut->arcs[i];
      if (arc->room <= 0 || cut->level[arc->to] >= 0) continue;
      cut->level[arc->to] = cut->level[from] + 1;
      cut->queue[tail++] = arc->to;
    }
  }
  return cut->level[sink] >= 0;
}

/* Pushes along one path of rising levels; false: there is none.  The path's arcs stand in `queue`, which is free by then. */
static bool push_one(tercel_cut *cut, uint32_t source, uint32_t sink) {
  uint32_t *const path = cut->queue, length = 0, vertex = source;
  while (vertex != sink) {
    const uint32_t i = cut->at[vertex];
    if (i == NO_ARC) { /* a dead end: back */
      if (length == 0) return false;
      vertex = cut->arcs[path[--length] ^ 1].to;
      cut->at[vertex] = cut->arcs[cut->at[vertex]].next;
    } else if (cut->arcs[i].room > 0 && cut->level[cut->arcs[i].to] == cut->level[vertex] + 1) {
      path[length++] = i;
      vertex = cut->arcs[i].to;
    } else {
      cut->at[vertex] = cut->arcs[i].next;
    }
  }
  int64_t flow = INT64_MAX;
  for (uint32_t k = 0; k < length; k++) flow = cut->arcs[path[k]].room < flow ? cut->arcs[path[k]].room : flow;
  for (uint32_t k = 0; k < length; k++) {
    cut->arcs[path[k]].room -= flow;
    cut->arcs[path[k] ^ 1].room += flow;
  }
  return true;
}

void tercel_cut_solve(tercel_cut *cut, uint32_t source, uint32_t sink) {
  while (find_levels(cut, source, sink)) {
    memcpy(cut->at, cut->first, cut->num_vertices * sizeof *cut->at);
    while (push_one(cut, source, sink)) continue;
  }
}

bool tercel_cut_is_at_source(const tercel_cut *cut, uint32_t vertex) { return cut->level[vertex] >= 0; }
