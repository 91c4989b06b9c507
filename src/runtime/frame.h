/* Frames: a plan with memory to run in.  For files of runtime only.
 *
 * A *frame* belongs to a context and to one plan; a control step holds frames of its own for its subgraphs.  Running it walks
 * *segments*: stretches of steps whose shapes can be told before they run.  A *binding* is one segment with one set of shapes:
 * tensors, places in the arena, kernels' parameters, ready to run.  Bindings form a tree: a segment's binding is found among the
 * children of the binding that ran before it by its *key*, what its shapes follow from: shapes of inputs or of what the
 * step before made, and contents that inference looked at.  So a shape that was seen before runs without a lookup by hash
 * and without touching the heap.
 *
 *     frame ── (inputs' shapes) ──▶ binding of steps 0..7 ── (shape of 7's output) ──▶ binding of steps 8..20 ...
 *
 * Where a value lies, from its slot:
 *     constant, or known when the binding was made     its own memory, or the binding's
 *     made by a step of a segment                      a piece of the frame's arena, or of the memory that an output was given
 *     input of the frame, made by a dynamic step       elsewhere: the tensor says where, each run anew
 *     view of one of these                             the same memory at an offset
 */
#ifndef TERCEL_RUNTIME_FRAME_H
#define TERCEL_RUNTIME_FRAME_H

#include <stdatomic.h>

#include "plan/plan.h"
#include "runtime/list.h"
#include "runtime/memory.h"
#include "runtime/profile.h"

typedef struct tercel_frame tercel_frame;
typedef struct tercel_binding tercel_binding;
typedef struct tercel_bound tercel_bound;

/* Looks at each step before and after it runs.  It may change outputs: later steps read what it left there. */
typedef struct tercel_observer {
  tercel_status (*before)(struct tercel_observer *observer, const tercel_frame *frame, const tercel_bound *step,
                          tercel_error *err);
  tercel_status (*after)(struct tercel_observer *observer, const tercel_frame *frame, const tercel_bound *step,
                         tercel_error *err);
} tercel_observer;

/* What all frames of a context share. */
typedef struct tercel_runner {
  tercel_pool *pool;           /* borrowed */
  const tercel_target *target; /* the plan's */
  tercel_account account;
  tercel_arena scratch; /* for reference kernels; reset after each */
  atomic_bool cancel;
  uint64_t num_bound;        /* bindings made, subgraphs' included */
  int64_t bind_ns;           /* that took so long */
  tercel_profile *profile;   /* NULL: not wanted */
  tercel_observer *observer; /* NULL: nobody looks */
} tercel_runner;

/* A step of a binding. */
struct tercel_bound {
  tercel_kernel_run run;
  tercel_status (*fn)(const tercel_kernel_run *run, tercel_error *err); /* the kernel's; NULL: tercel_control_run */
  const tercel_step *step;
};

typedef enum tercel_place {
  TERCEL_PLACE_NONE,
  TERCEL_PLACE_KNOWN,
  TERCEL_PLACE_PIECE,
  TERCEL_PLACE_ELSEWHERE
} tercel_place;

typedef struct tercel_slot {
  tercel_tensor *tensor; /* NULL: a list, or nothing yet */
  tercel_place place;
  bool ready;          /* computed before the segment that is being bound: contents can be read */
  uint32_t piece;      /* PIECE: index into the binding's pieces */
  size_t offset;       /* PIECE, ELSEWHERE: bytes into it */
  tercel_tensor *base; /* ELSEWHERE */
} tercel_slot;

enum { TERCEL_NO_PIECE = UINT32_MAX };

/* Memory that steps of a binding write: in the arena, in the memory that an output was given, or inside another piece (a concat's). */
typedef struct tercel_piece {
  tercel_block block;
  uint32_t parent; /* piece it lies in, at parent_offset */
  size_t parent_offset;
  uint32_t output; /* output whose memory it is, or TERCEL_NO_PIECE */
  uint32_t owner;  /* the value that was placed there first; of a workspace the step */
  bool is_workspace;
} tercel_piece;

/* A packing that a step of a binding runs with: a reference. */
typedef struct tercel_held {
  tercel_packing *packing;
  struct tercel_held *next;
} tercel_held;

/* *target = *base + offset, before each run of the binding. */
typedef struct tercel_fixup {
  void **target;
  void *const *base;
  size_t offset;
} tercel_fixup;

typedef struct tercel_key_shape {
  const tercel_tensor *tensor;
  int rank;
  int64_t dims[TERCEL_MAX_RANK];
} tercel_key_shape;

typedef struct tercel_key_contents {
  const tercel_tensor *tensor;
  const void *data;
  size_t bytes;
} tercel_key_contents;

/* How an output of the frame comes about at the end of the last segment. */
typedef struct tercel_result {
  const tercel_tensor *tensor; /* NULL: a list */
  bool copy;                   /* it lies elsewhere: to be copied into the output's memory */
} tercel_result;

struct tercel_binding {
  tercel_arena memory; /* everything below */
  tercel_binding *parent, *children, *next;
  uint64_t last_use;
  uint32_t begin, end; /* steps */
  bool dynamic;        /* one step whose outputs' shapes are known only afterwards */

  tercel_key_shape *shapes;
  size_t num_shapes;
  tercel_key_contents *contents;
  size_t num_contents;
  bool *outside; /* by output, of first segments: whether it was given memory */

  tercel_bound *steps;
  size_t num_steps;
  tercel_held *held;          /* what the steps run with */
  tercel_fixup *arena_fixups; /* when the arena has moved */
  size_t num_arena_fixups;
  tercel_fixup *fixups;
  size_t num_fixups;
  size_t *output_bytes; /* by output: memory that steps of this binding write into; 0: none */
  size_t arena_bytes;
  const void *arena_base; /* where arena_fixups have been made for */
  size_t peak_bytes;      /* largest sum of pieces alive at a step */
  tercel_piece *pieces;   /* packed into the arena, those of segments before included; for reports */
  size_t num_pieces;

  /* For the next segment: slots and pieces of the values that live on. */
  uint32_t *live_ids;
  tercel_slot *live_slots;
  size_t num_live;
  tercel_piece *live_pieces;
  size_t num_live_pieces;

  tercel_result *results; /* of the last segment; else NULL */
};

/* An output lies in the arena or wherever else its value does, unless the holder of the frame gave it memory. */
typedef struct tercel_frame_output {
  tercel_buffer own;     /* for what may not stay where it is: inputs, constants, results of dynamic steps */
  tercel_buffer *buffer; /* &own, or memory that the holder of the frame gave */
  void *data;            /* buffer->data, once reserved in a run */
  tercel_tensor tensor;  /* after a run */
} tercel_frame_output;

struct tercel_frame {
  tercel_runner *runner;
  const tercel_plan *plan;
  tercel_tensor *inputs; /* set before a run */
  tercel_list **lists;   /* by value id; inputs' set before a run (a reference each) */
  tercel_buffer arena;
  tercel_frame_output *outputs;
  tercel_buffer *dynamic;           /* by value id: outputs of dynamic steps */
  struct tercel_control **controls; /* by step: what a control step keeps */
  tercel_binding *bindings;
  tercel_binding *last; /* of the last segment that was run */
  size_t num_bindings;
  unsigned generation; /* of the plan's tactics, that the bindings were made with */
  uint64_t clock;      /* of last_use */
  size_t peak_bytes;   /* largest set of values alive at a step of the last run, subgraphs' included */
  size_t nested_bytes; /* peak of the subgraphs that the step in progress has run */
};

static inline bool tercel_frame_is_outside(const tercel_frame *frame, size_t output) {
  return frame->outputs[output].buffer != &frame->outputs[output].own;
}

tercel_status tercel_frame_create(tercel_runner *runner, const tercel_plan *plan, tercel_frame **out,
                                  tercel_error *err);
void tercel_frame_destroy(tercel_frame *frame); /* NULL is fine */
/* Are the inputs what the graph says? */
tercel_status tercel_frame_check_inputs(const tercel_frame *frame, tercel_error *err);
/* Runs all steps.  Afterwards outputs[k].tensor, or lists[] of list outputs, hold the results until the next run. */
tercel_status tercel_frame_run(tercel_frame *frame, tercel_error *err);

/* ---- bind.c: a new binding of the segment that begins at step `begin`, after `parent` (NULL: at the start) --------------- */
tercel_status tercel_bind(tercel_frame *frame, tercel_binding *parent, uint32_t begin, tercel_binding **out,
                          tercel_error *err);
void tercel_binding_destroy(tercel_binding *binding); /* and all below it */

/* ---- control.c, sequence.c: steps without a kernel ---------------------------------------------------------------------- */

/* What a control step keeps from run to run: frames of its subgraphs, memory of carried values. */
typedef struct tercel_control tercel_control;
tercel_status tercel_control_run(tercel_frame *frame, const tercel_bound *bound, tercel_error *err);
void tercel_control_destroy(tercel_control *control, tercel_account *account); /* NULL is fine */
tercel_status tercel_sequence_run(tercel_frame *frame, const tercel_bound *bound, tercel_error *err);

/* Memory of the frame's for a shaped output of a control or dynamic step; the first `keep` bytes that it held before stay. */
tercel_status tercel_frame_output_memory(tercel_frame *frame, const tercel_node *node, size_t output,
                                         tercel_tensor *tensor, size_t keep, tercel_error *err);
tercel_status tercel_frame_check_cancel(const tercel_frame *frame, const tercel_node *node, tercel_error *err);
/* The list that input `input` of a step is: a reference of the caller's, the frame's own one where this is its last use. */
tercel_list *tercel_frame_take_list(tercel_frame *frame, const tercel_bound *bound, size_t input);
/* Makes `list` (a reference, which passes) the value. */
void tercel_frame_set_list(tercel_frame *frame, const tercel_value *value, tercel_list *list);

#endif
