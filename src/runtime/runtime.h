/* runtime: models, engines and contexts; what tercel.h declares of them.  Knows plan, optimize, backends, import, ops, ir and base.
 *
 *   model.c    a file's graph          frame.h    running a plan (read this first)
 *   tuning.c   tactics measured, before and beside runs
 *   save.c, engine_load.c   engines to files and back
 *   engine.c   graph to plan           bind.c, place.c, finish.c    shapes to memory
 *   context.c  one run's state         control.c, sequence.c        steps without kernels
 *   check.c    what is wrong with a file, without an engine; memory_plan.c    what a run takes, without running */
#ifndef TERCEL_RUNTIME_RUNTIME_H
#define TERCEL_RUNTIME_RUNTIME_H

#include <pthread.h>
#include <stdatomic.h>

#include "import/import.h"
#include "ops/custom.h"
#include "optimize/optimize.h"
#include "plan/engine_file.h"
#include "plan/order.h"
#include "plan/profiles.h"
#include "plan/verify.h"
#include "runtime/frame.h"

/* Inputs and outputs of a graph as tercel.h gives them. */
typedef struct tercel_interface {
  tercel_arena memory; /* holds what follows */
  tercel_io *inputs, *outputs;
  size_t num_inputs, num_outputs;
} tercel_interface;

/* describe.c */
tercel_status tercel_interface_init(const tercel_graph *graph, tercel_interface *out, tercel_error *err);
void tercel_interface_deinit(tercel_interface *interface);
tercel_status tercel_interface_input(const tercel_interface *interface, size_t index, tercel_io *out,
                                     tercel_error *err);
tercel_status tercel_interface_output(const tercel_interface *interface, size_t index, tercel_io *out,
                                      tercel_error *err);
tercel_status tercel_print_graph(const tercel_graph *graph, tercel_print what, char **text_out, tercel_error *err);
/* A text's characters become the caller's (tercel_text_free); OUT_OF_MEMORY when the text failed. */
tercel_status tercel_hand_out_text(tercel_text *text, char **out, tercel_error *err);

struct tercel_model {
  tercel_imported imported;    /* owns the graph; an engine clones what it needs */
  tercel_operators *operators; /* of the user's, that nodes of the graph point into: a reference; may be NULL */
  tercel_interface interface;
};

/* load.c: options may be NULL. */
tercel_status tercel_read_model_options(const tercel_model_options *options, tercel_import_options *out,
                                        tercel_error *err);

/* A model out of what was imported (taken on success). */
tercel_status tercel_model_create(tercel_imported *imported, tercel_model **out, tercel_error *err);
/* A model out of a graph made in memory (taken on success).  For tests, and for rooms that build graphs. */
tercel_status tercel_model_from_graph(tercel_graph *graph, tercel_model **out, tercel_error *err);

struct tercel_engine {
  atomic_uint refs;            /* one of the user's, one a context */
  tercel_operators *operators; /* as in the model */
  tercel_graph *graph;
  tercel_profiles profiles; /* none: any shape */
  tercel_plan *plan;
  tercel_pool *pool;
  tercel_timing_cache *cache; /* that the plan goes by */
  pthread_mutex_t background_mutex;
  struct tercel_background *background; /* tuning beside contexts; NULL: there never was any */
  uint64_t max_memory;
  uint64_t mapped_bytes;
  tercel_decisions decisions;
  tercel_verification verification;
  tercel_interface interface;
  tercel_text facts; /* what it was built with and from: key, value, ..., each with its 0; not the machine */
  /* Of an engine from a file: */
  tercel_engine_file file;
  tercel_name_table names;
  tercel_plan_given *given; /* [plan->num_rows] */
  bool look_only;
};

/* An engine that holds nothing yet. */
tercel_status tercel_engine_create(tercel_engine **out, tercel_error *err);
/* Sets mapped_bytes, once there is a plan. */
void tercel_engine_count_mapped(tercel_engine *engine);
/* save.c: what a file notes of how an engine was built. */
void tercel_engine_note_options(tercel_engine *engine, const tercel_model *model, const tercel_engine_options *options);
/* An engine as sections; borrows its memory. */
tercel_status tercel_engine_to_parts(const tercel_engine *engine, const char *source, tercel_engine_parts *out,
                                     tercel_error *err);

tercel_engine *tercel_engine_retain(tercel_engine *engine);

/* memory_plan.c: the plan of the frame's last run, of pieces of a batch and the whole one's outputs where piece > 0; whether the largest shapes that are known before a run keep to the engine's max_memory. */
tercel_status tercel_memory_plan_of_frame(const tercel_engine *engine, const tercel_frame *frame, int64_t piece,
                                          size_t output_bytes, tercel_memory_plan **out, tercel_error *err);
tercel_status tercel_engine_check_memory(const tercel_engine *engine, tercel_error *err);

/* context.c, for verify.c: the engine, who looks at steps (NULL: nobody), the inputs of another context over the same model, and
 * inputs that are nudged (tercel_nudge; copies in the arena). */
tercel_engine *tercel_context_engine(const tercel_context *context);
void tercel_context_observe(tercel_context *context, tercel_observer *observer);
tercel_status tercel_context_share_inputs(tercel_context *to, const tercel_context *from, tercel_error *err);
tercel_status tercel_context_nudge_inputs(tercel_context *context, tercel_arena *arena, tercel_error *err);

/* verify.c: constants, subgraphs' too, as they are before a plan is made of the graph; restore gives back the data of those that the plan
 * dropped. */
typedef struct tercel_held_constant {
  tercel_value *value;
  void *data;
  tercel_storage *storage; /* a reference */
} tercel_held_constant;

typedef struct tercel_held_constants {
  tercel_held_constant *items;
  size_t count;
} tercel_held_constants;

tercel_status tercel_constants_hold(const tercel_graph *graph, tercel_held_constants *out, tercel_error *err);
void tercel_constants_restore(tercel_held_constants *held);

/* tuning.c: times from the options' file and text; NULL for none. */
tercel_status tercel_engine_read_times(tercel_engine *engine, const tercel_engine_options *options, tercel_error *err);
/* Measures as the options say, and writes the file. */
tercel_status tercel_engine_tune(tercel_engine *engine, const tercel_engine_options *options, tercel_error *err);
/* Ends what goes on in the background.  NULL is fine. */
void tercel_background_destroy(struct tercel_background *background);

/* print.c: the plan as text, with memory where shapes are known without a run. */
tercel_status tercel_print_plan(const tercel_engine *engine, tercel_text *text, tercel_error *err);

/* Fields of an option or info struct that the caller's version of tercel.h has: INVALID_ARGUMENT for an unset size. */
tercel_status tercel_check_size(size_t is, size_t least, const char *what, tercel_error *err);

#endif
