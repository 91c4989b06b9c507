/* tercel: TEnsor Runtime and Compiler, in C.  The one public header; it is also the manual.
 *
 *     tercel_error err = {0};
 *     tercel_model *model = NULL;  tercel_engine *engine = NULL;  tercel_context *context = NULL;
 *     if (tercel_model_load("net.onnx", NULL, &model, &err) || tercel_engine_build(model, NULL, &engine, &err) ||
 *         tercel_context_create(engine, NULL, &context, &err))
 *       return fprintf(stderr, "%s\n", err.message), 1;
 *     int64_t dims[] = {1, 3, 224, 224};
 *     tercel_context_set_input(context, 0, &(tercel_view){TERCEL_DTYPE_F32, 4, {1, 3, 224, 224}, pixels, sizeof pixels}, &err);
 *     tercel_context_run(context, &err);
 *     tercel_view scores;
 *     tercel_context_get_output(context, 0, &scores, &err);
 *
 * Objects.  A *model* is what a file says (graph and weights); immutable.  An *engine* is a model optimized and planned for
 * this machine; immutable, shared by threads.  A *context* is one run's state over an engine: one thread at a time, as many
 * contexts as you like.  Each keeps what it stands on alive: the model may be destroyed once its engine is built.
 *
 * Errors.  What can fail returns a tercel_status and fills *err (may be NULL): one line that says what, where and what to
 * do.  Nothing aborts, whatever the file or the input is.  A context is usable after a failed run.
 *
 * Names follow ONNX Runtime and TensorRT where they have one.
 */
#ifndef TERCEL_TERCEL_H
#define TERCEL_TERCEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(TERCEL_STATIC)
#define TERCEL_API
#else
#define TERCEL_API __attribute__((visibility("default")))
#endif

#define TERCEL_VERSION_MAJOR 0
#define TERCEL_VERSION_MINOR 1
#define TERCEL_VERSION_PATCH 0

/* ---- status and error ---------------------------------------------------------------------------------------------- */

typedef enum tercel_status {
  TERCEL_OK = 0,
  TERCEL_INVALID_ARGUMENT, /* the caller's fault: wrong index, dtype, shape, option */
  TERCEL_INVALID_MODEL,    /* the file is malformed or contradicts itself */
  TERCEL_UNSUPPORTED,      /* legal, but tercel doesn't do it: the message names operator, attribute, type */
  TERCEL_OUT_OF_MEMORY,    /* an allocation failed or a limit would be exceeded: the message says how much was asked */
  TERCEL_IO,               /* a file can't be read or written */
  TERCEL_CANCELLED,        /* the caller asked a run to stop */
  TERCEL_INTERNAL          /* tercel's own fault: please report it */
} tercel_status;

enum { TERCEL_ERROR_MESSAGE_MAX = 2048 };

/* Filled by the call that fails, untouched by one that succeeds.  No allocation, no global: each thread has its own. */
typedef struct tercel_error {
  tercel_status status;
  char message[TERCEL_ERROR_MESSAGE_MAX];
} tercel_error;

/* "invalid model", "out of memory", ...; never NULL. */
TERCEL_API const char *tercel_status_name(tercel_status status);

/* "0.1.0" */
TERCEL_API const char *tercel_version(void);

/* ---- element types and tensors ------------------------------------------------------------------------------------- */

typedef enum tercel_dtype {
  TERCEL_DTYPE_NONE = 0,
  TERCEL_DTYPE_F64,
  TERCEL_DTYPE_F32,
  TERCEL_DTYPE_F16,
  TERCEL_DTYPE_BF16,
  TERCEL_DTYPE_F8E4M3FN,
  TERCEL_DTYPE_F8E4M3FNUZ,
  TERCEL_DTYPE_F8E5M2,
  TERCEL_DTYPE_F8E5M2FNUZ,
  TERCEL_DTYPE_F8E8M0,
  TERCEL_DTYPE_F6E2M3, /* a byte, of which the lower 6 bits count */
  TERCEL_DTYPE_F6E3M2, /* a byte, of which the lower 6 bits count */
  TERCEL_DTYPE_F4E2M1, /* 4 bits: element 0 in the low half of byte 0, as ONNX packs */
  TERCEL_DTYPE_I64,
  TERCEL_DTYPE_I32,
  TERCEL_DTYPE_I16,
  TERCEL_DTYPE_I8,
  TERCEL_DTYPE_I4,
  TERCEL_DTYPE_I2,
  TERCEL_DTYPE_U64,
  TERCEL_DTYPE_U32,
  TERCEL_DTYPE_U16,
  TERCEL_DTYPE_U8,
  TERCEL_DTYPE_U4,
  TERCEL_DTYPE_U2,
  TERCEL_DTYPE_BOOL, /* one byte, 0 or 1 */
  TERCEL_DTYPE_C64,  /* two f32: real, imaginary */
  TERCEL_DTYPE_C128,
  TERCEL_DTYPE_STRING, /* elements are tercel_string */
  /* Weights of GGUF files: blocks of 32, 64 or 256 elements of a row that share scales.  tercel_dtype_bits is 0. */
  TERCEL_DTYPE_Q4_0,
  TERCEL_DTYPE_Q4_1,
  TERCEL_DTYPE_Q5_0,
  TERCEL_DTYPE_Q5_1,
  TERCEL_DTYPE_Q8_0,
  TERCEL_DTYPE_Q2_K,
  TERCEL_DTYPE_Q3_K,
  TERCEL_DTYPE_Q4_K,
  TERCEL_DTYPE_Q5_K,
  TERCEL_DTYPE_Q6_K,
  TERCEL_DTYPE_IQ1_S,
  TERCEL_DTYPE_IQ1_M,
  TERCEL_DTYPE_IQ2_XXS,
  TERCEL_DTYPE_IQ2_XS,
  TERCEL_DTYPE_IQ2_S,
  TERCEL_DTYPE_IQ3_XXS,
  TERCEL_DTYPE_IQ3_S,
  TERCEL_DTYPE_IQ4_NL,
  TERCEL_DTYPE_IQ4_XS,
  TERCEL_DTYPE_TQ1_0,
  TERCEL_DTYPE_TQ2_0,
  TERCEL_DTYPE_MXFP4,
  TERCEL_DTYPE_NVFP4,
  TERCEL_DTYPE_COUNT
} tercel_dtype;

/* "f32", "i64", "f8e4m3fn", ...; "none" for anything else. */
TERCEL_API const char *tercel_dtype_name(tercel_dtype dtype);
/* Bits an element takes: 32 for f32, 4 for i4; 0 for NONE and for types that have blocks. */
TERCEL_API int tercel_dtype_bits(tercel_dtype dtype);
/* Elements that share a block, 1 for a type without blocks; 0 for NONE.  *bytes (may be NULL): of a block; 0 for a type without. */
TERCEL_API int tercel_dtype_block(tercel_dtype dtype, int *bytes);

/* An element of a string tensor: UTF-8, not 0-terminated; borrowed like the tensor's own bytes. */
typedef struct tercel_string {
  const char *data;
  size_t length;
} tercel_string;

enum { TERCEL_MAX_RANK = 8 };

/* A dense row-major tensor that somebody else owns.  rank 0 is a scalar; a dimension may be 0.
 * bytes is the size of the memory at data: at least elements * bits / 8, rounded up; of a block-quantized type, whose last dim is
 * a whole number of blocks, the bytes of all its blocks. */
typedef struct tercel_view {
  tercel_dtype dtype;
  int rank;
  int64_t dims[TERCEL_MAX_RANK];
  void *data;
  size_t bytes;
} tercel_view;

/* All elements as f32, into out, which has room for `capacity`: block-quantized weights are dequantized (with the bits of llama.cpp's
 * reference), other numbers and bools are rounded to nearest.  INVALID_ARGUMENT: complex numbers, strings, a view that
 * contradicts itself. */
TERCEL_API tercel_status tercel_view_to_f32(const tercel_view *view, float *out, size_t capacity, tercel_error *err);

/* Text that a call made for you; free it with this.  NULL is fine. */
TERCEL_API void tercel_text_free(char *text);

/* ---- logging ------------------------------------------------------------------------------------------------------- */

typedef enum tercel_log_level {
  TERCEL_LOG_DEBUG = 0,
  TERCEL_LOG_INFO,
  TERCEL_LOG_WARNING,
  TERCEL_LOG_ERROR,
  TERCEL_LOG_OFF
} tercel_log_level;

typedef void (*tercel_log_fn)(tercel_log_level level, const char *message, void *user);

/* Messages of at least this level go to fn (NULL: stderr).  Process-wide; set it before other calls.  Starts at WARNING, or
 * at what TERCEL_LOG in the environment says (debug, info, warning, error, off).  fn may be called from any thread. */
TERCEL_API void tercel_log_set(tercel_log_level level, tercel_log_fn fn, void *user);

/* ---- model --------------------------------------------------------------------------------------------------------- */

typedef struct tercel_model tercel_model;
struct tercel_operators; /* "operators of your own" below */

/* Option structs: zero-initialize, set size to sizeof, then what you want to change.  NULL means all defaults. */
typedef struct tercel_model_options {
  size_t size;
  int no_mmap; /* 1: read files into memory instead of mapping them */
  /* Folders, with all below them, that external data may lie in besides the model's own: model caches keep links to such. */
  const char *const *allow_external;
  size_t num_allow_external;
  struct tercel_operators *operators; /* of your own; NULL: none */
} tercel_model_options;

/* Reads a model file.  Formats: ONNX (.onnx; recognized by content).  Weights stay in the mapped file.  External data must, after
 * links are resolved, lie in the model's folder or in one that the options allow.  TERCEL_IO, TERCEL_INVALID_MODEL, TERCEL_UNSUPPORTED (all that is unsupported at once), TERCEL_OUT_OF_MEMORY. */
TERCEL_API tercel_status tercel_model_load(const char *path, const tercel_model_options *options, tercel_model **out,
                                           tercel_error *err);
/* The same from memory, which is borrowed: it must outlive the model and every engine built from it.  folder: where
 * external data may lie, NULL for none. */
TERCEL_API tercel_status tercel_model_load_memory(const void *data, size_t bytes, const char *folder,
                                                  const tercel_model_options *options, tercel_model **out,
                                                  tercel_error *err);
TERCEL_API void tercel_model_destroy(tercel_model *model);

/* An input or output.  Pointers live as long as the object that was asked. */
typedef struct tercel_io {
  const char *name;
  /* "tensor", "sequence", "optional", "optional_sequence": an optional that holds a sequence; "map"; of inputs also "state": a tensor that
   * runs read and write, such as a KV cache */
  const char *kind;
  tercel_dtype dtype;
  int rank;                             /* -1: not known before a run */
  int64_t dims[TERCEL_MAX_RANK];        /* -1: free, or not known before a run */
  const char *symbols[TERCEL_MAX_RANK]; /* the name of a free dim ("batch", "2*height"), or NULL */
  tercel_dtype key_dtype;               /* of a map's keys (i64 or string), whose values have dtype and dims */
} tercel_io;

TERCEL_API size_t tercel_model_num_inputs(const tercel_model *model);
TERCEL_API size_t tercel_model_num_outputs(const tercel_model *model);
TERCEL_API tercel_status tercel_model_get_input(const tercel_model *model, size_t index, tercel_io *out,
                                                tercel_error *err);
TERCEL_API tercel_status tercel_model_get_output(const tercel_model *model, size_t index, tercel_io *out,
                                                 tercel_error *err);

/* What the file says of itself: key number i and its value, both 0-terminated; 0 when there is no such key. */
TERCEL_API int tercel_model_get_metadata(const tercel_model *model, size_t index, const char **key, const char **value);

typedef struct tercel_model_info {
  size_t size;        /* set to sizeof by the caller */
  const char *format; /* "onnx" */
  const char *producer;
  size_t num_nodes; /* of tercel's graph, subgraphs included */
  size_t num_constants;
  uint64_t num_parameters; /* elements of all constants */
  uint64_t constant_bytes;
  size_t num_random; /* nodes that draw random numbers: 0 says that equal inputs give equal outputs */
} tercel_model_info;

TERCEL_API tercel_status tercel_model_get_info(const tercel_model *model, tercel_model_info *info, tercel_error *err);

typedef enum tercel_print {
  TERCEL_PRINT_TEXT,         /* tercel's text form of the graph, which can be read back */
  TERCEL_PRINT_DOT,          /* for Graphviz */
  TERCEL_PRINT_OPERATORS,    /* one line an operator: name, count */
  TERCEL_PRINT_PLAN,         /* engines: steps with tactic, shapes, memory */
  TERCEL_PRINT_DECISIONS,    /* engines: what each pass did and what it refused, with the reason */
  TERCEL_PRINT_TIMING_CACHE, /* engines: the times that its tactics are chosen by, as a timing cache */
  TERCEL_PRINT_DOT_FOLDED /* for Graphviz; of a graph with many nodes, those whose names share a scope ("/encoder/") are one box */
} tercel_print;

TERCEL_API tercel_status tercel_model_print(const tercel_model *model, tercel_print what, char **text_out,
                                            tercel_error *err);

/* ---- check --------------------------------------------------------------------------------------------------------- */

/* Can tercel run this file?  Everything that keeps it from doing so and everything that is suspicious, at once. */
typedef struct tercel_check tercel_check;

typedef enum tercel_check_level {
  TERCEL_CHECK_NOTE,    /* harmless; good to know */
  TERCEL_CHECK_WARNING, /* it runs, but maybe not as its author meant, or slower than it could */
  TERCEL_CHECK_ERROR    /* it does not run */
} tercel_check_level;

/* Texts are never NULL, one line each, and live as long as the check. */
typedef struct tercel_check_row {
  tercel_check_level level;
  const char *
      kind; /* what it is about, for machines: "operator", "attribute", "shape", "kernel", ...: see tercel_check_kind */
  const char *op;   /* the operator: "Conv", "com.microsoft.FusedConv"; "" where it is about none */
  const char *node; /* its node in the file, or where that has no name, its first output; "" where it is about none */
  const char *message; /* what was found and what was expected */
  const char *advice;  /* what to do; "" when there is nothing to do */
} tercel_check_row;

/* Reads a model file as tercel_model_load does, but goes on behind errors, and looks at weights' sizes only.  A file that tercel can't
 * run is a success of this call, with rows of TERCEL_CHECK_ERROR; it fails with TERCEL_IO when there is no such file, and with
 * TERCEL_OUT_OF_MEMORY. */
TERCEL_API tercel_status tercel_model_check(const char *path, const tercel_model_options *options, tercel_check **out,
                                            tercel_error *err);
TERCEL_API tercel_status tercel_model_check_memory(const void *data, size_t bytes, const char *folder,
                                                   const tercel_model_options *options, tercel_check **out,
                                                   tercel_error *err);
TERCEL_API void tercel_check_destroy(tercel_check *check);
/* Row number index, errors first: 0 after the last. */
TERCEL_API int tercel_check_get_row(const tercel_check *check, size_t index, tercel_check_row *out);
/* TERCEL_OK when the model runs; else what tercel_model_load or tercel_engine_build would fail with. */
TERCEL_API tercel_status tercel_check_get_status(const tercel_check *check);
/* Kinds of rows: index 0, 1, ... until NULL; *what (may be NULL) gets a line of explanation. */
TERCEL_API const char *tercel_check_kind(size_t index, const char **what);

/* ---- engine -------------------------------------------------------------------------------------------------------- */

typedef struct tercel_engine tercel_engine;

/* Fixes a free dim of the model ("batch", 1) before optimizing: the engine is then made for that size. */
typedef struct tercel_dim_value {
  const char *name;
  int64_t value;
} tercel_dim_value;

/* The shapes of one input that a profile covers: from min to max in every dim; opt is the usual one, which kernels are chosen for.
 * Dims that the model fixes are that number in all three. */
typedef struct tercel_profile_shape {
  const char *input;
  int rank;
  int64_t min[TERCEL_MAX_RANK], opt[TERCEL_MAX_RANK], max[TERCEL_MAX_RANK];
} tercel_profile_shape;

/* An optimization profile: shapes that an engine is made for.  Inputs that it does not list may have any shape. */
typedef struct tercel_shape_profile {
  const tercel_profile_shape *shapes;
  size_t num_shapes;
} tercel_shape_profile;

/* How far tuning has got.  Steps that are alike are measured once and count once. */
typedef struct tercel_tune_progress {
  size_t done, total;
  size_t changed;         /* of those done: where measuring chose another tactic than the estimate */
  double seconds, budget; /* passed, given */
  double before_us,
      after_us;     /* of a run, in the steps measured so far: with the tactics estimated to be best, with the best */
  const char *step; /* measured last, as the timing cache calls it */
} tercel_tune_progress;

/* Not 0: no more, please; what was measured counts. */
typedef int (*tercel_tune_fn)(const tercel_tune_progress *progress, void *user);

typedef struct tercel_engine_options {
  size_t size;
  int num_threads;            /* 0: as many as the process may use (affinity and CPU quota) */
  int no_optimize;            /* 1: run the graph as imported */
  const char *disable_passes; /* "fold,fuse-conv": passes to leave out, by name */
  const tercel_dim_value *dims;
  size_t num_dims;
  /* Bytes that activations may take in one context; 0: no limit.  What is known to take more is refused: when the engine is built (fixed
   * shapes, profiles), else when a run brings its shapes. */
  uint64_t max_memory;
  int check;         /* 1: verify the graph between passes (slower build; for tests) */
  int count_savings; /* 1: count what each decision of the optimizer saves (slower build; for explain) */
  int deterministic; /* 1: the same bits whatever the threads, the batch and the CPU's level (slower; docs/numerics.md) */
  int verify;        /* 1: keep what tercel_context_verify needs (weights that were packed, too) */
  /* Shapes that inputs may have: all inputs of a run have to fit one profile, the first that they do counts.  None: any shape
   * that the model takes, and kernels are chosen for shapes as they come. */
  const tercel_shape_profile *profiles;
  size_t num_profiles;
  /* Tuning (docs/tuning.md): 0: estimates choose the tactics of steps, unless the timing cache has times for them; more: what the
   * cache lacks is measured on this machine, for so many seconds at most. */
  double tune_seconds;
  const char *timing_cache_path; /* read if it exists, and written after tuning; NULL: none */
  const char *timing_cache;      /* text of such a file, used besides; NULL: none */
  tercel_tune_fn tune_progress;  /* called on the building thread; NULL: nobody listens */
  void *tune_user;
  int keep_weights; /* 1: weights that tactics other than those chosen would pack stay in memory, for tuning in the background */
} tercel_engine_options;

/* Optimizes the model and plans it for this machine.  The model may be destroyed afterwards. */
TERCEL_API tercel_status tercel_engine_build(const tercel_model *model, const tercel_engine_options *options,
                                             tercel_engine **out, tercel_error *err);
TERCEL_API void tercel_engine_destroy(tercel_engine *engine);

TERCEL_API size_t tercel_engine_num_inputs(const tercel_engine *engine);
TERCEL_API size_t tercel_engine_num_outputs(const tercel_engine *engine);
TERCEL_API tercel_status tercel_engine_get_input(const tercel_engine *engine, size_t index, tercel_io *out,
                                                 tercel_error *err);
TERCEL_API tercel_status tercel_engine_get_output(const tercel_engine *engine, size_t index, tercel_io *out,
                                                  tercel_error *err);
TERCEL_API tercel_status tercel_engine_print(const tercel_engine *engine, tercel_print what, char **text_out,
                                             tercel_error *err);
TERCEL_API int tercel_engine_num_threads(const tercel_engine *engine);

/* What profile number `profile` says of input number `input`: 0 when there is no such profile or input, or when it leaves the input free. */
TERCEL_API int tercel_engine_get_profile_shape(const tercel_engine *engine, size_t profile, size_t input,
                                               tercel_profile_shape *out);

/* ---- engine files -------------------------------------------------------------------------------------------------- */

/* docs/engine-file.md is the manual.  A file holds the plan with its graph and weights, packed for the machine that built it.  Loading maps
 * it: weights are used where they lie, by all processes that load it, and nothing is optimized or packed again.  On another CPU level or
 * under another version it runs, too: what is laid out otherwise there is packed anew, and said (tercel_engine_get_info). */

typedef struct tercel_save_options {
  size_t size;
  const char *source; /* the model's file, whose name and checksum are noted; NULL: none */
  int strip_weights;  /* 1: leave the weights out; tercel_engine_refit brings them back */
} tercel_save_options;

/* Writes the file under a temporary name, then renames it.  The same model, options, measured times, version and CPU level give the same
 * bytes.  options may be NULL.  TERCEL_IO; TERCEL_INVALID_MODEL: a step was verified and found wrong. */
TERCEL_API tercel_status tercel_engine_save(const tercel_engine *engine, const char *path,
                                            const tercel_save_options *options, tercel_error *err);

typedef struct tercel_load_options {
  size_t size;
  int num_threads;     /* 0: as many as the process may use */
  int no_mmap;         /* 1: read the file into memory instead of mapping it */
  int check_weights;   /* 1: compare the weights' checksum, too: reads all of them */
  int look_only;       /* 1: for asking and printing: weights may be missing, and contexts can't be created */
  uint64_t max_memory; /* as for tercel_engine_build; 0: what the engine was built with */
  struct tercel_operators *operators; /* of your own; NULL: none */
} tercel_load_options;

/* TERCEL_IO; TERCEL_INVALID_MODEL says what is wrong with the file; TERCEL_UNSUPPORTED: it was built by a later tercel, or needs operators that
 * are not there, and names them.  options may be NULL. */
TERCEL_API tercel_status tercel_engine_load(const char *path, const tercel_load_options *options, tercel_engine **out,
                                            tercel_error *err);
/* The same from memory, which is borrowed: it must outlive the engine and be aligned to 64 bytes. */
TERCEL_API tercel_status tercel_engine_load_memory(const void *data, size_t bytes, const tercel_load_options *options,
                                                   tercel_engine **out, tercel_error *err);
/* 1: the file begins as an engine file does; 0: it does not, or can't be read. */
TERCEL_API int tercel_is_engine_file(const char *path);
/* Gives a stripped engine its weights back: builds the model with the options that the engine was built with, which must give the same
 * graph (INVALID_ARGUMENT otherwise), and writes a whole engine file. */
TERCEL_API tercel_status tercel_engine_refit(const char *path, const tercel_model *model, const char *out_path,
                                             tercel_error *err);

typedef struct tercel_engine_info {
  size_t size; /* set to sizeof by the caller */
  int from_file, stripped;
  unsigned format;     /* of the file; 0 without one */
  size_t num_steps;    /* of subgraphs, too */
  size_t num_replaced; /* steps that run another kernel than in the file */
  size_t num_repacked; /* steps whose weights are laid out otherwise here, and were packed anew */
  uint64_t packed_bytes, mapped_bytes;
} tercel_engine_info;

TERCEL_API tercel_status tercel_engine_get_info(const tercel_engine *engine, tercel_engine_info *info,
                                                tercel_error *err);

/* What the engine was built with and from: "tercel", "cpu", "level", "threads", options, "source", then what the model's file said of
 * itself as "model.KEY".  0 when there is no such number. */
TERCEL_API int tercel_engine_get_metadata(const tercel_engine *engine, size_t index, const char **key,
                                          const char **value);

/* A part of the file that the engine was loaded from: 0 after the last, and without a file. */
typedef struct tercel_file_section {
  const char *name;
  uint64_t offset, bytes, checksum;
} tercel_file_section;

TERCEL_API int tercel_engine_get_section(const tercel_engine *engine, size_t index, tercel_file_section *out);

/* A step.  Pointers live as long as the engine. */
typedef struct tercel_step_info {
  const char *name, *op;
  const char *tactic;                     /* the kernel that runs it, for usual shapes */
  const char *packing;                    /* how its weights are laid out; "" where they are not packed */
  uint64_t packed_bytes, packed_checksum; /* of weights that a file can keep packed */
  const char *const *sources;             /* the nodes it stands for, by their names in the user's file */
  size_t num_sources;
  int depth;                     /* 0; 1 in a subgraph, ... */
  tercel_dtype dtype;            /* of its first output; NONE without one */
  int rank;                      /* -1: not known before a run */
  int64_t dims[TERCEL_MAX_RANK]; /* -1: free */
} tercel_step_info;

/* In the order in which they run; 0 after the last. */
TERCEL_API int tercel_engine_get_step(const tercel_engine *engine, size_t index, tercel_step_info *out);

/* Names of the optimizer's passes, in order: index 0, 1, ... until NULL; *what (may be NULL) gets a line of explanation. */
TERCEL_API const char *tercel_pass_name(size_t index, const char **what);

/* A change that the optimizer made, or a rule that almost fitted.  Pointers live as long as the engine. */
typedef struct tercel_decision {
  const char *pass, *rule;
  const char *const *sources; /* the nodes it is about, by their names in the user's file */
  size_t num_sources;
  const char *reason; /* of a rule that did not fit: the node, type, constant or reader in its way; NULL: it was made */
  double bytes_saved; /* that a run reads and writes less; 0 unless count_savings was set.  Free dims count as 1. */
  double flops_saved; /* likewise; negative where work was added to save other work */
  const char *note;   /* of a change: what else there is to say of it; NULL: nothing */
} tercel_decision;

/* Decisions in the order in which they were made; those that did not fit are the ones that hold at the end.  0 after the last. */
TERCEL_API int tercel_engine_get_decision(const tercel_engine *engine, size_t index, tercel_decision *out);

/* What a pass of the optimizer took. */
typedef struct tercel_pass_time {
  const char *name;
  size_t num_runs; /* over the whole graph */
  double total_us;
} tercel_pass_time;

/* In order; 0 after the last. */
TERCEL_API int tercel_engine_get_pass_time(const tercel_engine *engine, size_t index, tercel_pass_time *out);

/* The work of one run.  Free dims count as 1. */
typedef struct tercel_work {
  size_t num_nodes;
  double bytes, flops; /* read and written, computed */
} tercel_work;

/* The graph before and after the optimizer; bytes and flops are 0 unless count_savings was set.  Those before are those after with
 * all that was saved. */
TERCEL_API void tercel_engine_get_work(const tercel_engine *engine, tercel_work *before, tercel_work *after);

/* Goes on tuning in a thread of its own, of the lowest priority, while contexts run: each begins to use what was found between two of its
 * runs.  Results stay as exact as they were, but sums may be rounded in another order.  Ends by itself when there is nothing to win or the
 * time is over, and with the engine.  One at a time: INVALID_ARGUMENT while one runs. */
typedef struct tercel_background_options {
  size_t size;
  double seconds;                /* 0: a minute */
  const char *timing_cache_path; /* written at the end, with what the engine knew before; NULL: no file */
} tercel_background_options;

TERCEL_API tercel_status tercel_engine_tune_in_background(tercel_engine *engine,
                                                          const tercel_background_options *options, tercel_error *err);

typedef struct tercel_tuning_info {
  size_t size;
  int running;        /* 1: a thread is at it */
  size_t done, total; /* as in tercel_tune_progress */
  double before_us, after_us;
  size_t num_swaps; /* choices that became others */
} tercel_tuning_info;

/* May be called from any thread at any time. */
TERCEL_API tercel_status tercel_engine_get_tuning(tercel_engine *engine, tercel_tuning_info *info, tercel_error *err);
/* Waits until the thread has ended; what it found stays.  Nothing to do when there is none. */
TERCEL_API tercel_status tercel_engine_stop_tuning(tercel_engine *engine, tercel_error *err);

/* ---- context ------------------------------------------------------------------------------------------------------- */

typedef struct tercel_context tercel_context;

typedef struct tercel_context_options {
  size_t size;
  int profile; /* 1: time every step (see tercel_context_get_profile) */
  /* Items of a batch that a run computes at a time, where the network computes each by itself (a free first dim of inputs and outputs): 0: as
   * many as the cache holds what they hand from step to step; -1: all. */
  int64_t batch_piece;
} tercel_context_options;

TERCEL_API tercel_status tercel_context_create(tercel_engine *engine, const tercel_context_options *options,
                                               tercel_context **out, tercel_error *err);
TERCEL_API void tercel_context_destroy(tercel_context *context);

/* Gives input number index.  view->data is borrowed until the run ends, and is not written.  Its shape may differ from run to
 * run where the model's dims are free; a free dim with a name ("batch") is one number in all inputs of a run.  INVALID_ARGUMENT names the
 * input, what came and what is wanted.  An input of kind "state" is different: runs read and write its memory.  One that is not set and has no
 * free dims lives in the context, zero at first. */
TERCEL_API tercel_status tercel_context_set_input(tercel_context *context, size_t index, const tercel_view *view,
                                                  tercel_error *err);

/* Optional: memory of yours for output number index (NULL: the context's own again).  view->dtype must be the output's; data and
 * bytes say where and how much room; dims are ignored.  A run whose output does not fit fails with INVALID_ARGUMENT.  It must not
 * overlap inputs or other outputs, and is written while the run lasts, so that after a failed run its contents are undefined. */
TERCEL_API tercel_status tercel_context_bind_output(tercel_context *context, size_t index, const tercel_view *view,
                                                    tercel_error *err);

/* Runs once.  Every input must have been set; they stay set.  Allocates nothing once a shape was seen before. */
TERCEL_API tercel_status tercel_context_run(tercel_context *context, tercel_error *err);

/* The result of the last run: valid until the next run of this context (or in your memory, where bound), and read only: outputs
 * that are the same value, or a part of another, share memory. */
TERCEL_API tercel_status tercel_context_get_output(const tercel_context *context, size_t index, tercel_view *out,
                                                   tercel_error *err);

/* What a result and what was wanted differ by, at the element that uses most of what is allowed there. */
typedef struct tercel_difference {
  int compared;        /* 0: it was not, and the rest says nothing */
  double error, limit; /* the difference (infinity where only one is a number), and the largest that is allowed */
  double largest;      /* magnitude among what was wanted */
} tercel_difference;

/* A step of an engine that was verified. */
typedef struct tercel_verify_row {
  const char *name, *op, *tactic; /* as in a profile */
  const char *const *sources;     /* the nodes of the user's file that it stands for */
  size_t num_sources;
  tercel_difference
      reference;          /* its kernel's result, against the operator's plain reference kernel on the same operands */
  tercel_difference file; /* its result, against the file's nodes on the same values */
  int ok;                 /* both are within their limits, or were not compared */
} tercel_verify_row;

/* Runs once as tercel_context_run does, and checks every step on what it is given there.  The engine must have been built with
 * options.verify.  model: the one that it was built from; NULL: steps are not compared with the file's nodes.  Of large products some
 * channels are compared with the reference kernel.  Takes the memory of all activations together, and about a second for each step
 * that is large.  TERCEL_OK: every step is within its limit (docs/numerics.md).  TERCEL_INTERNAL names the step that is farthest
 * beyond it, its tactic and its nodes.  What was measured stays with the engine, so verify before other threads use it. */
TERCEL_API tercel_status tercel_context_verify(tercel_context *context, const tercel_model *model, tercel_error *err);
/* Steps that were compared, in order: 0 after the last. */
TERCEL_API int tercel_engine_get_verification(const tercel_engine *engine, size_t index, tercel_verify_row *out);

/* May be called from another thread: the run in progress ends soon with TERCEL_CANCELLED. */
TERCEL_API void tercel_context_cancel(tercel_context *context);

/* Outputs that are not plain tensors (a model's output with kind "sequence", "optional" or "map").  kind: as in tercel_io; length: number
 * of elements (0 or 1 for an optional; 2 for a map: keys [k], then values [k], or [n, k] for a sequence of n maps with the same keys).  Elements of an output: tercel_context_get_output_element. */
TERCEL_API tercel_status tercel_context_get_output_length(const tercel_context *context, size_t index, size_t *length,
                                                          tercel_error *err);
TERCEL_API tercel_status tercel_context_get_output_element(const tercel_context *context, size_t index, size_t element,
                                                           tercel_view *out, tercel_error *err);
/* The same for inputs: all elements of a sequence at once (none, or one, for an optional). */
TERCEL_API tercel_status tercel_context_set_input_elements(tercel_context *context, size_t index,
                                                           const tercel_view *views, size_t length, tercel_error *err);

/* One step of the engine, as measured since the context was created or its profile was reset. */
typedef struct tercel_profile_row {
  const char *name;    /* of the step: the node's name in the user's file */
  const char *op;      /* operator */
  const char *tactic;  /* the kernel that ran */
  const char *sources; /* all nodes of the user's file that it stands for, separated by " + " */
  const char *shape;   /* output shape of the last run, "1x64x112x112" */
  uint64_t num_runs;
  double total_us;
  double flops; /* of one run; 0 where that says nothing */
  double bytes; /* read and written by one run, at least */
} tercel_profile_row;

/* Rows in the order of the steps: 0 after the last. */
TERCEL_API int tercel_context_get_profile(const tercel_context *context, size_t index, tercel_profile_row *out);
TERCEL_API void tercel_context_reset_profile(tercel_context *context);

typedef struct tercel_memory_info {
  size_t size;
  uint64_t activation_bytes; /* the arena and the dynamic buffers of this context, now */
  uint64_t peak_live_bytes;  /* the largest set of values alive at one step in the last run: no plan can need less */
  uint64_t packed_bytes;     /* weights packed by the engine */
  uint64_t mapped_bytes;     /* weights used in place from the file */
} tercel_memory_info;

TERCEL_API tercel_status tercel_context_get_memory(const tercel_context *context, tercel_memory_info *info,
                                                   tercel_error *err);

/* What new shapes have cost this context: a shape that it has not seen before, or not lately, is bound (shapes inferred, memory planned, kernels
 * prepared for it) before it runs. */
typedef struct tercel_bind_info {
  size_t size;
  uint64_t num_bound; /* stretches of steps; one a shape where no step depends on data */
  double total_us;
  double last_run_us;  /* of total_us, in the last run: 0 when its shapes were known */
  int64_t batch_piece; /* items of the batch that the last run computed at a time; 0: all */
} tercel_bind_info;

TERCEL_API tercel_status tercel_context_get_bind_info(const tercel_context *context, tercel_bind_info *info,
                                                      tercel_error *err);

/* ---- memory --------------------------------------------------------------------------------------------------------- */

/* The memory of a run, step by step, told without running.  It must not outlive its engine. */
typedef struct tercel_memory_plan tercel_memory_plan;

/* Plans a run with inputs of these shapes (one view an input; data and bytes may be NULL and 0.  Where shapes follow from the contents of an
 * input, such as the target of a resize, its data is looked at).  inputs NULL: those of the first profile's max, or else of the model, whose
 * dims must then be fixed: INVALID_ARGUMENT names an input with a free dim.  OUT_OF_MEMORY: the engine's max_memory is exceeded; the message
 * says what is needed. */
TERCEL_API tercel_status tercel_memory_plan_create(const tercel_engine *engine, const tercel_view *inputs,
                                                   tercel_memory_plan **out, tercel_error *err);
/* The same of the last run of a context: it knows steps that depend on data, too. */
TERCEL_API tercel_status tercel_memory_plan_of_run(const tercel_context *context, tercel_memory_plan **out,
                                                   tercel_error *err);
TERCEL_API void tercel_memory_plan_destroy(tercel_memory_plan *plan);

typedef struct tercel_memory_plan_info {
  size_t size;
  uint64_t planned_bytes; /* what the context takes: outputs included, unless memory is bound to them */
  uint64_t live_bytes; /* of the values and workspaces alive at the fullest step: no order of packing can need less */
  size_t peak_step;    /* that step */
  size_t num_steps;    /* that are told */
  size_t batch_piece;  /* items of the batch that are computed at a time; 0: all */
  /* The first step whose memory depends on data, so that nothing is told from there on; NULL: all is told. */
  const char *depends;
} tercel_memory_plan_info;

TERCEL_API tercel_status tercel_memory_plan_get_info(const tercel_memory_plan *plan, tercel_memory_plan_info *info,
                                                     tercel_error *err);

typedef struct tercel_memory_step {
  const char *name, *op; /* of the step's node */
  uint64_t live_bytes;
} tercel_memory_step;

/* 0 after the last. */
TERCEL_API int tercel_memory_plan_get_step(const tercel_memory_plan *plan, size_t index, tercel_memory_step *out);

/* A piece of the arena.  Values that lie in another one (views, parts of a concat, results written in place) have none of their own. */
typedef struct tercel_memory_block {
  const char *name; /* of the value that is made there first; of the step whose workspace it is */
  int is_workspace;
  uint64_t bytes, offset;
  size_t first, last; /* steps, both included; the result of a run is kept beyond its last step */
} tercel_memory_block;

/* In the order of their first steps; 0 after the last. */
TERCEL_API int tercel_memory_plan_get_block(const tercel_memory_plan *plan, size_t index, tercel_memory_block *out);

/* ---- operators of your own ----------------------------------------------------------------------------------------- */

/* docs/custom-operators.md is the guide; examples/custom_op.c a whole program.
 *
 * A *set of operators* is given to tercel_model_load in the options: its operators then build the nodes of their domain
 * and name, before a function of that name that the file brings.  The set is counted: a model, and the engines built from
 * it, hold it too, so it may be destroyed at any time.  It may be added to from several threads, and while models use it. */
typedef struct tercel_operators tercel_operators;

TERCEL_API tercel_status tercel_operators_create(tercel_operators **out, tercel_error *err);
TERCEL_API void tercel_operators_destroy(tercel_operators *operators);

/* A node of a model, as the functions of its operator see it: valid while the call lasts. */
typedef struct tercel_node tercel_node;

typedef enum tercel_attribute_type {
  TERCEL_ATTRIBUTE_INT,
  TERCEL_ATTRIBUTE_FLOAT,
  TERCEL_ATTRIBUTE_STRING,
  TERCEL_ATTRIBUTE_INTS,
  TERCEL_ATTRIBUTE_FLOATS,
  TERCEL_ATTRIBUTE_STRINGS
} tercel_attribute_type;

typedef struct tercel_attribute {
  const char *name;
  tercel_attribute_type type;
  int required; /* 1: a node without it is an error */
} tercel_attribute;

/* What can be said of a tensor before a run.  A dim >= 0 is a number.  A negative one stands for a free dim: it may be
 * copied, compared (equal ones are one number in every run) and given to tercel_inference_dim, as long as the call lasts. */
typedef struct tercel_spec {
  tercel_dtype dtype;
  int rank; /* -1: not known */
  int64_t dims[TERCEL_MAX_RANK];
} tercel_spec;

/* A dim that nobody knows before the run. */
#define TERCEL_UNKNOWN_DIM INT64_MIN

typedef struct tercel_inference {
  const tercel_node *node;
  void *user;
  size_t num_inputs, num_outputs;
  const tercel_spec *const *inputs; /* NULL: absent */
  tercel_spec *const *outputs;      /* to be filled; they come as dtype NONE and rank -1.  NULL: nobody reads it */
} tercel_inference;

typedef struct tercel_call {
  const tercel_node *node;
  void *user;
  void *state; /* what create made */
  size_t num_inputs, num_outputs;
  const tercel_view *const *inputs; /* dense; NULL: absent */
  /* Shaped, with memory; of rank -1: to be shaped by tercel_call_shape_output.  NULL: nobody reads it. */
  tercel_view *const *outputs;
} tercel_call;

typedef enum tercel_operator_flags {
  /* Equal inputs and attributes give equal outputs: the optimizer may run it once, when it builds. */
  TERCEL_OPERATOR_PURE = 1,
  /* run tells the shapes of its outputs: they follow from the data, or are strings. */
  TERCEL_OPERATOR_SHAPES = 2,
  /* It is to stand in for an operator of this domain and name that tercel has. */
  TERCEL_OPERATOR_REPLACES = 4
} tercel_operator_flags;

/* An operator.  Its functions return TERCEL_OK, or fill *err (never NULL) with tercel_error_set and return what that
 * returns.  They may be called from several threads at once, for the same node too.  A node none of whose outputs is read
 * is never run. */
typedef struct tercel_operator {
  size_t size;                        /* set to sizeof */
  const char *domain, *name;          /* as nodes of the file have them; domain NULL or "": ai.onnx */
  int first_version;                  /* of the domain, that it serves */
  int last_version;                   /* 0: no end */
  int min_inputs, max_inputs;         /* max -1: any number.  Inputs from min_inputs on may be absent */
  int min_outputs, max_outputs;       /* at least 1 */
  const tercel_attribute *attributes; /* a node with others is refused */
  size_t num_attributes;
  unsigned flags; /* tercel_operator_flags */
  /* Fills types and shapes of the outputs, when a model is loaded or built and whenever a run brings new shapes (with
   * numbers only).  NULL: outputs have the dtype of input 0, and run shapes them as with TERCEL_OPERATOR_SHAPES. */
  tercel_status (*infer)(const tercel_inference *inference, tercel_error *err);
  /* Makes what run needs of a node, once per engine: attributes read, constant inputs packed.  NULL: no state. */
  tercel_status (*create)(const tercel_node *node, void *user, void **state_out, tercel_error *err);
  void (*destroy)(void *state, void *user); /* NULL: nothing to do */
  /* Computes the outputs.  Inputs are not written, outputs don't overlap them. */
  tercel_status (*run)(const tercel_call *call, tercel_error *err);
  void *user; /* passed to all of them */
  /* When the operator is no longer used, from whichever thread that happens on.  NULL: nothing to do. */
  void (*release)(void *user);
} tercel_operator;

/* Adds an operator; the struct and its texts are copied, `user` is taken on success.  INVALID_ARGUMENT: a field makes no
 * sense, the set has one for these versions already, or tercel has one of its own and TERCEL_OPERATOR_REPLACES is not set. */
TERCEL_API tercel_status tercel_operators_add(tercel_operators *operators, const tercel_operator *op,
                                              tercel_error *err);

/* Fills *err (may be NULL) and returns status. */
TERCEL_API tercel_status tercel_error_set(tercel_error *err, tercel_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The node's name in the file. */
TERCEL_API const char *tercel_node_get_name(const tercel_node *node);
/* The value of an attribute, borrowed; what the node doesn't have leaves *value alone, so put the default there before.
 * INVALID_ARGUMENT: the operator lists no attribute of that name and type. */
TERCEL_API tercel_status tercel_node_get_int(const tercel_node *node, const char *name, int64_t *value,
                                             tercel_error *err);
TERCEL_API tercel_status tercel_node_get_float(const tercel_node *node, const char *name, double *value,
                                               tercel_error *err);
TERCEL_API tercel_status tercel_node_get_string(const tercel_node *node, const char *name, const char **value,
                                                tercel_error *err);
TERCEL_API tercel_status tercel_node_get_ints(const tercel_node *node, const char *name, const int64_t **values,
                                              size_t *count, tercel_error *err);
TERCEL_API tercel_status tercel_node_get_floats(const tercel_node *node, const char *name, const double **values,
                                                size_t *count, tercel_error *err);
TERCEL_API tercel_status tercel_node_get_strings(const tercel_node *node, const char *name, const char *const **values,
                                                 size_t *count, tercel_error *err);
/* An input that is the same in every run (weights), valid as long as the engine; NULL: it is not, or is absent. */
TERCEL_API const tercel_view *tercel_node_get_constant(const tercel_node *node, size_t input);

/* a + b, a - b, a * b or the floor of a / b, where dims may be free; unknown where one of them is.  INVALID_ARGUMENT: another
 * operation, or what is no dim. */
TERCEL_API tercel_status tercel_inference_dim(const tercel_inference *inference, int64_t a, char operation, int64_t b,
                                              int64_t *out, tercel_error *err);
/* The contents of an input of integers with at most 64 elements, where they are known before the run: their number, or
 * -1.  At most `capacity` are written. */
TERCEL_API int64_t tercel_inference_ints(const tercel_inference *inference, size_t input, int64_t *values,
                                         size_t capacity);

/* Gives an output of rank -1 its dims and memory: (*call->outputs[i]) is then complete. */
TERCEL_API tercel_status tercel_call_shape_output(const tercel_call *call, size_t output, int rank, const int64_t *dims,
                                                  tercel_error *err);
/* The same for an output of strings, with room for the characters that its elements will point to. */
TERCEL_API tercel_status tercel_call_shape_strings(const tercel_call *call, size_t output, int rank,
                                                   const int64_t *dims, size_t num_characters, char **characters_out,
                                                   tercel_error *err);
/* Memory until the call returns, 64-byte aligned and cleared; NULL: there is none. */
TERCEL_API void *tercel_call_scratch(const tercel_call *call, size_t bytes);
/* Runs fn(arg, begin, end, thread) over [0, count) on the engine's threads, in pieces of at least `grain`; returns when
 * all are done.  thread is below tercel_call_num_threads, and never the same twice at one time. */
TERCEL_API void tercel_call_parallel(const tercel_call *call, int64_t count, int64_t grain,
                                     void (*fn)(void *arg, int64_t begin, int64_t end, int thread), void *arg);
TERCEL_API int tercel_call_num_threads(const tercel_call *call);

/* What a plugin exports, for `tercel run --plugin FILE.so`: adds the plugin's operators. */
#define TERCEL_PLUGIN __attribute__((visibility("default")))
TERCEL_PLUGIN tercel_status tercel_plugin_register(tercel_operators *operators, tercel_error *err);

/* ---- machine ------------------------------------------------------------------------------------------------------- */

typedef struct tercel_machine_info {
  size_t size;
  const char *cpu;    /* "AMD EPYC ..." */
  const char *level;  /* instruction set in force: "baseline", "avx2", "avx512", ... (TERCEL_CPU lowers it) */
  const char *levels; /* all the machine has, separated by spaces */
  int num_cpus;       /* that this process may use */
} tercel_machine_info;

TERCEL_API tercel_status tercel_machine_get_info(tercel_machine_info *info, tercel_error *err);

/* Measures this machine with num_threads threads for about a quarter of a second: f32 multiply-adds and bytes copied from memory. */
TERCEL_API tercel_status tercel_machine_measure(int num_threads, double *gflops, double *gbytes_per_second,
                                                tercel_error *err);

#ifdef __cplusplus
}
#endif
#endif
