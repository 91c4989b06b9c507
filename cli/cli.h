/* The tercel command: one file a subcommand, one table (main.c).  Uses tercel.h as any program would, and src/io for files.
 *
 * A subcommand describes its options in tables; options.c parses them and prints --help out of the same tables. */
#ifndef TERCEL_CLI_CLI_H
#define TERCEL_CLI_CLI_H

#include "io/datum.h"
#include "tercel/tercel.h"

/* Exit codes; `tercel --help` says the same. */
enum {
  TERCEL_EXIT_OK = 0,
  TERCEL_EXIT_FAILED = 1,      /* a file, a run or a test case failed */
  TERCEL_EXIT_USAGE = 2,       /* the command line is wrong */
  TERCEL_EXIT_UNSUPPORTED = 3, /* a legal model that tercel can't run */
};

/* ---- subcommands ---------------------------------------------------------------------------------------------------- */

/* argv[0] is the subcommand's name.  Each returns an exit code. */
int tercel_cli_run(int argc, char **argv);
int tercel_cli_bench(int argc, char **argv);
int tercel_cli_inspect(int argc, char **argv);
int tercel_cli_explain(int argc, char **argv);
int tercel_cli_build_command(int argc, char **argv);
int tercel_cli_refit(int argc, char **argv);
int tercel_cli_diff(int argc, char **argv);
int tercel_cli_check(int argc, char **argv);
int tercel_cli_test(int argc, char **argv);
int tercel_cli_version(int argc, char **argv);

/* ---- options -------------------------------------------------------------------------------------------------------- */

enum { TERCEL_CLI_LIST_MAX = 256 };

typedef struct tercel_cli_list {
  const char *items[TERCEL_CLI_LIST_MAX];
  int count;
} tercel_cli_list;

typedef enum tercel_cli_type {
  TERCEL_CLI_FLAG,         /* bool */
  TERCEL_CLI_TEXT,         /* const char * */
  TERCEL_CLI_INT,          /* int64_t, not negative */
  TERCEL_CLI_NUMBER,       /* double */
  TERCEL_CLI_MAYBE_NUMBER, /* double; -1 without "=VALUE" */
  TERCEL_CLI_BYTES,        /* int64_t; K, M, G and T are powers of 1024 */
  TERCEL_CLI_LIST          /* tercel_cli_list; may be given several times */
} tercel_cli_type;

typedef struct tercel_cli_option {
  const char *name; /* without the dashes; NULL ends a table */
  tercel_cli_type type;
  size_t offset;     /* of the variable, in the group's struct */
  const char *value; /* how help calls the value: "FILE" */
  const char *help;
  const char *other_names; /* "onnx,model": also accepted; NULL: none */
} tercel_cli_option;

typedef struct tercel_cli_group {
  const char *title; /* NULL ends the list of groups */
  const tercel_cli_option *options;
  size_t offset; /* of the group's struct, in the subcommand's options */
} tercel_cli_group;

typedef struct tercel_cli_usage {
  const char *command;
  const char *operands; /* "MODEL" */
  const char *what;     /* a paragraph */
  const char *examples; /* lines of "  tercel ..." */
  const tercel_cli_group *groups;
  int min_operands, max_operands;
} tercel_cli_usage;

/* Fills the subcommand's options.  False when there is nothing more to do: *exit_code is then OK (help was printed) or USAGE (a
 * message was). */
bool tercel_cli_parse(const tercel_cli_usage *usage, int argc, char **argv, void *options, tercel_cli_list *operands,
                      int *exit_code);

/* Prints "tercel COMMAND: message" to stderr, with where to find help; returns USAGE. */
int tercel_cli_fail_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the error to stderr; returns the exit code that goes with its status. */
int tercel_cli_fail(const char *command, const tercel_error *err);

/* ---- engine options and the session ----------------------------------------------------------------------------------- */

typedef struct tercel_cli_engine {
  int64_t threads;
  tercel_cli_list dims;           /* NAME=VALUE */
  tercel_cli_list allow_external; /* folders */
  tercel_cli_list plugins;
  const char *disable_passes, *timing_cache;
  int64_t max_memory;
  double tune; /* seconds */
  bool no_optimize, no_mmap, check, deterministic;
  tercel_cli_list min_shapes, opt_shapes, max_shapes;  /* the n-th of each: profile n */
  bool count_savings, verify, keep_weights, look_only; /* set by subcommands */
} tercel_cli_engine;

extern const tercel_cli_option tercel_cli_engine_options[];

/* tune.c: shows how far tuning has got; interrupted (Ctrl-C) it ends early, and what was measured counts. */
void tercel_cli_watch_tuning(tercel_engine_options *options);
void tercel_cli_end_tuning(void);

/* The operators that plugins register; NULL without plugins.  A plugin stays loaded until the process ends. */
tercel_status tercel_cli_load_plugins(const tercel_cli_list *paths, tercel_operators **out, tercel_error *err);

/* An engine with a context.  model is NULL where an engine file was loaded. */
typedef struct tercel_cli_session {
  tercel_model *model;
  tercel_engine *engine;
  tercel_context *context;
  double load_ms, build_ms;
} tercel_cli_session;

tercel_status tercel_cli_load(const char *path, const tercel_cli_engine *options, tercel_cli_session *out,
                              tercel_error *err);
/* After load: the engine, unless it was loaded, and unless it is only to be looked at a context. */
tercel_status tercel_cli_build(const tercel_cli_engine *options, bool profile, tercel_cli_session *session,
                               tercel_error *err);
void tercel_cli_close(tercel_cli_session *session); /* safe on a zeroed struct */

/* The profiles that --min-shapes, --opt-shapes and --max-shapes tell, in memory of the arena. */
tercel_status tercel_cli_read_profiles(const tercel_cli_engine *options, tercel_arena *arena,
                                       const tercel_shape_profile **out, size_t *count_out, tercel_error *err);

/* ---- inputs ----------------------------------------------------------------------------------------------------------- */

typedef struct tercel_cli_inputs {
  tercel_cli_list files;  /* NAME=FILE, or FILE where the model has one input */
  tercel_cli_list shapes; /* NAME=1x3x224x224, several separated by commas */
  const char *folder, *fill;
  int64_t seed;
  /* of pictures */
  const char *mean, *std, *layout, *size;
  double scale;
  bool bgr;
} tercel_cli_inputs;

extern const tercel_cli_option tercel_cli_inputs_options[];
extern const tercel_cli_option tercel_cli_image_options[];

/* The data of every input of the engine, each with a line that says where it came from. */
typedef struct tercel_cli_data {
  tercel_datum *inputs;
  char (*sources)[256];
  bool *chosen; /* a free dim of it was chosen, for want of anything better */
  size_t count;
} tercel_cli_data;

/* Reads the files and makes up what no file gives; sets nothing on a context. */
tercel_status tercel_cli_read_inputs(const tercel_engine *engine, const tercel_cli_inputs *options,
                                     tercel_cli_data *out, tercel_error *err);
/* Borrowed by the context until it is run for the last time. */
tercel_status tercel_cli_set_inputs(tercel_context *context, const tercel_cli_data *data, tercel_error *err);
/* Sets them and runs; a failure says so when dims had to be chosen. */
tercel_status tercel_cli_first_run(tercel_context *context, const tercel_cli_data *data, tercel_error *err);
void tercel_cli_free_inputs(tercel_cli_data *data); /* safe on a zeroed struct */

/* ---- verify.c ----------------------------------------------------------------------------------------------------------- */

/* Of a session that was built with options.verify: tercel_context_verify on those inputs. */
tercel_status tercel_cli_verify(const tercel_cli_inputs *options, const tercel_cli_session *session, tercel_error *err);
/* The steps that were compared, those that use most of their limits first.  all: not only the first of them. */
void tercel_cli_print_verification(const tercel_engine *engine, bool all);

/* A picture as input `io`, resized and normalized as the options say. */
tercel_status tercel_cli_read_image(const char *path, const tercel_cli_inputs *options, const tercel_io *io,
                                    tercel_datum *out, char *source, size_t source_size, tercel_error *err);

/* One entry of "NAME=1x3,OTHER:2" (trtexec writes the colon; names may hold either sign, the last one counts).  The name points into the text. */
typedef struct tercel_cli_named_shape {
  const char *name;
  size_t name_length;
  int rank;
  int64_t dims[TERCEL_MAX_RANK];
} tercel_cli_named_shape;

/* Reads the entry at *at, and moves *at behind it.  option: its name, for messages. */
tercel_status tercel_cli_next_shape(const char **at, const char *option, tercel_cli_named_shape *out,
                                    tercel_error *err);

/* "1x3x224x224" (or with commas or spaces) into dims; false when it is none. */
bool tercel_cli_parse_shape(const char *text, size_t length, int *rank, int64_t *dims);

/* ---- printing ----------------------------------------------------------------------------------------------------------- */

/* "f32 [batch, 3, 224, 224]" of an input or output. */
void tercel_cli_describe_io(const tercel_io *io, char *out, size_t out_size);
/* One line a tensor: type, shape, least, greatest, mean, first values. */
void tercel_cli_print_view(const char *label, const tercel_view *view);
/* Into the file, or to stdout for "-". */
tercel_status tercel_cli_write_text(const char *path, const tercel_text *text, tercel_error *err);
/* The characters of a text or of an attribute's value. */
void tercel_cli_add_xml(tercel_text *to, const char *text);
/* "12.3 MB", in powers of 1000. */
void tercel_cli_format_bytes(double bytes, char *out, size_t out_size);

/* inspect_engine.c: what is in an engine file. */
tercel_status tercel_cli_print_engine(const tercel_engine *engine, const char *path, tercel_error *err);
tercel_status tercel_cli_write_engine_json(const char *to, const tercel_engine *engine, const char *path,
                                           tercel_error *err);

/* ---- comparing ------------------------------------------------------------------------------------------------------------ */

/* Are got and want the same within |got - want| <= atol + rtol * |want|?  Integers, bools and strings exactly; NaN equals NaN.
 * When not, *why says what differs, where and by how much. */
bool tercel_cli_compare(const tercel_view *got, const tercel_view *want, double rtol, double atol, char *why,
                        size_t why_size);
/* May got and want be draws from one distribution?  Type and shape are the same, and the means differ by five standard errors of their
 * difference at most. */
bool tercel_cli_compare_draws(const tercel_view *got, const tercel_view *want, double atol, char *why, size_t why_size);

#endif
