/* The state of one call of tercel_bind, which bind.c, place.c and finish.c share. */
#ifndef TERCEL_RUNTIME_BINDER_H
#define TERCEL_RUNTIME_BINDER_H

#include "runtime/frame.h"

/* A step that will run, before it is known how many there are. */
typedef struct tercel_draft {
  tercel_bound bound;
  uint32_t workspace; /* piece, or TERCEL_NO_PIECE */
} tercel_draft;

typedef struct tercel_binder {
  tercel_frame *frame;
  const tercel_plan *plan;
  tercel_binding *binding; /* being made */
  tercel_binding *parent;
  tercel_arena scratch; /* dies with the call */
  tercel_dims dims;     /* for dims that stay open */
  tercel_slot *slots;   /* by value id */
  tercel_fact *facts;   /* by value id, where has_fact */
  bool *has_fact;
  tercel_piece *pieces;
  size_t num_pieces, pieces_capacity;
  tercel_draft *drafts;
  size_t num_drafts;
  /* tensors of this binding, to be pointed at their memory */
  uint32_t *placed_ids;
  size_t num_placed;
  tercel_key_contents *contents;
  size_t num_contents, contents_capacity;
} tercel_binder;

/* The facts of one step, valid until the next. */
typedef struct tercel_step_facts {
  const tercel_step *step;
  uint32_t index; /* of the step */
  const tercel_fact **in;
  tercel_fact *out;
} tercel_step_facts;

tercel_status tercel_binder_no_memory(tercel_error *err);
tercel_slot *tercel_binder_slot(tercel_binder *b, const tercel_value *value);
/* A tensor in the binding's memory. */
tercel_status tercel_binder_tensor(tercel_binder *b, const tercel_tensor *like, tercel_tensor **out, tercel_error *err);

/* place.c: gives the outputs of a step whose shapes are known their places, and drafts the step if it has to run. */
tercel_status tercel_binder_place(tercel_binder *b, const tercel_step_facts *facts, tercel_error *err);
/* Drafts a step whose outputs' shapes its run tells. */
tercel_status tercel_binder_place_dynamic(tercel_binder *b, const tercel_step_facts *facts, tercel_error *err);

/* finish.c: packs the arena, and turns drafts, slots and pieces into the binding's own tables. */
tercel_status tercel_binder_finish(tercel_binder *b, uint32_t end, tercel_error *err);

#endif
