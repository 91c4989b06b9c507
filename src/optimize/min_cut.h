/* The minimum cut of a directed graph with capacities: vertices are labelled "source" or "sink" so that the arcs from the former to the
 * latter have the least total capacity. */
#ifndef TERCEL_OPTIMIZE_MIN_CUT_H
#define TERCEL_OPTIMIZE_MIN_CUT_H

#include "base/base.h"

typedef struct tercel_cut_arc {
  uint32_t to, next; /* next arc of the same vertex; UINT32_MAX: none */
  int64_t room;      /* capacity left */
} tercel_cut_arc;

/* Zero-initialize; deinit frees. */
typedef struct tercel_cut {
  uint32_t num_vertices;
  uint32_t *first; /* arc of each vertex; arc i's reverse is i ^ 1 */
  int32_t *level;
  uint32_t *at, *queue;
  tercel_cut_arc *arcs;
  uint32_t num_arcs, capacity;
} tercel_cut;

/* An arc that is never cut. */
static const int64_t tercel_cut_never = INT64_MAX / 4;

tercel_status tercel_cut_init(tercel_cut *cut, uint32_t num_vertices, tercel_error *err);
void tercel_cut_deinit(tercel_cut *cut);
tercel_status tercel_cut_add(tercel_cut *cut, uint32_t from, uint32_t to, int64_t capacity, tercel_error *err);
/* Of several minimum cuts the one with the fewest vertices on the source's side. */
void tercel_cut_solve(tercel_cut *cut, uint32_t source, uint32_t sink);
/* After solving. */
bool tercel_cut_is_at_source(const tercel_cut *cut, uint32_t vertex);

#endif
