/* import/onnx: ONNX files in, graphs out.  Knows ops, ir and base.
 *
 *     proto.c    the file's messages as structs (table of field numbers)
 *     tensor.c   TensorProto and SparseTensorProto to constants; external data
 *     type.c     TypeProto to tercel_type; declared types against inferred ones
 *     model.c    the whole import: versions, opsets, metadata
 *     note.c     errors of single things noted, so that the import goes on behind them
 *     review.c   what a check tells besides errors: things that are ignored, unused, suspicious
 *     order.c    nodes of a graph in the order they must be built; names that a subgraph takes from outside
 *     graph.c    graphs, subgraphs and inlined functions, node by node
 *     call.c     what builders work with: attributes, inputs, new nodes
 *     builders.c the table: which operator of which version is built by whom; build_*.c: the builders, by theme */
#ifndef TERCEL_IMPORT_ONNX_ONNX_H
#define TERCEL_IMPORT_ONNX_ONNX_H

#include "import/import.h"
#include "import/onnx/proto.h"

enum {
  TERCEL_ONNX_MAX_OPSET = 28,      /* newest version of ai.onnx that was looked at */
  TERCEL_ONNX_MAX_NODES = 1 << 16, /* made by inlining functions, so that a small file can't grow without bound */
  TERCEL_ONNX_MAX_CALL_DEPTH = 64,
};

/* A file of external data, opened once. */
typedef struct tercel_onnx_external {
  struct tercel_onnx_external *next;
  const char *location;
  tercel_storage *storage;
} tercel_onnx_external;

/* One import. */
typedef struct tercel_onnx {
  tercel_arena arena; /* dies with the import */
  tercel_onnx_model model;
  tercel_storage *storage; /* the model's bytes; NULL: borrowed from the caller */
  size_t bytes;
  const char *folder; /* NULL: external data is refused */
  tercel_import_options options;
  tercel_onnx_external *externals;
  tercel_graph *graph;
  size_t num_inlined;        /* nodes that came out of functions so far */
  tercel_problems *problems; /* what is wrong, so far */
} tercel_onnx;

/* Where nodes are looked at: the model itself, or one call of a function that is being inlined. */
typedef struct tercel_onnx_frame {
  const tercel_onnx_function *function; /* NULL: the model */
  const tercel_onnx_opsets *opsets;
  const struct tercel_onnx_frame *caller;
  const tercel_onnx_node *call; /* what the function's attribute references mean */
  const char *prefix;           /* of node and value names: "layer1/" */
  int depth;
} tercel_onnx_frame;

/* The names that nodes of one graph see.  A value that depends on something that was noted as an error is TERCEL_ONNX_POISON, an input
 * that the call of a function leaves out TERCEL_ONNX_ABSENT: a node that names it has no such input. */
typedef struct tercel_onnx_scope {
  const tercel_onnx_frame *frame;
  tercel_graph *graph;
  tercel_map values; /* name -> tercel_value */
} tercel_onnx_scope;

extern tercel_value tercel_onnx_poison_value, tercel_onnx_absent_value;
#define TERCEL_ONNX_POISON (&tercel_onnx_poison_value)
#define TERCEL_ONNX_ABSENT (&tercel_onnx_absent_value)

/* Does a subgraph get the value through an input of its own?  Constants are copied into it. */
static inline bool tercel_onnx_is_captured(const tercel_value *value) {
  return value && value != TERCEL_ONNX_ABSENT && !value->constant;
}

/* ---- model.c ---- */

/* The whole import.  storage: retained; NULL: data is borrowed. */
tercel_status tercel_onnx_import(tercel_storage *storage, const void *data, size_t bytes, const char *folder,
                                 const tercel_import_options *options, tercel_imported *out, tercel_error *err);
/* The version of a domain that nodes of this frame mean: what the function imports, else the model.  Where neither does (files in the
 * wild leave com.microsoft out), the newest that is known is assumed, with a warning.  0: nothing is known of the domain. */
tercel_status tercel_onnx_get_version(tercel_onnx *o, const tercel_onnx_frame *frame, const char *domain, int64_t *out,
                                      tercel_error *err);
bool tercel_onnx_has_operator(const char *domain, const char *name); /* in any version */
bool tercel_onnx_same_domain(const char *a, const char *b);          /* "" and "ai.onnx" are the same */
/* The model's function of that name; NULL: none. */
const tercel_onnx_function *tercel_onnx_find_function(const tercel_onnx *o, const char *domain, const char *name,
                                                      const char *overload);

/* ---- note.c ---- */

/* Its name, or that of its first output where it has none. */
const char *tercel_onnx_own_name(const tercel_onnx_node *node);
/* "Conv", "com.microsoft.FusedConv" */
const char *tercel_onnx_op_label(tercel_onnx *o, const tercel_onnx_node *node);
/* Its own name behind those of the calls that it was inlined from. */
const char *tercel_onnx_node_label(tercel_onnx *o, const tercel_onnx_frame *frame, const tercel_onnx_node *node);
/* Takes the error that a call left in *err and notes it, so that others can be found: OK then.  What is no fault of the file (no memory) stays an
 * error.  node and frame (both NULL: about none) say where; advice NULL: what the kind says. */
tercel_status tercel_onnx_note(tercel_onnx *o, tercel_problem_kind kind, const tercel_onnx_frame *frame,
                               const tercel_onnx_node *node, const char *advice, tercel_status status,
                               tercel_error *err);
/* Notes, and logs, what is wrong but can be put up with. */
tercel_status tercel_onnx_warn(tercel_onnx *o, tercel_problem_kind kind, const char *advice, tercel_error *err,
                               const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- review.c ---- */

/* Notes what the import does not complain of, but a reader should know. */
tercel_status tercel_onnx_review(tercel_onnx *o, tercel_error *err);

/* ---- tensor.c ---- */

/* ONNX's TensorProto.DataType as ours; NONE when there is none (float6, undefined, out of range). */
tercel_dtype tercel_onnx_dtype(int64_t data_type);
/* The same by its name there ("FLOAT"). */
tercel_dtype tercel_onnx_dtype_named(const char *name);
/* A constant from a tensor; its data stays in the file where that is aligned for its elements. */
tercel_status tercel_onnx_add_tensor(tercel_onnx *o, tercel_graph *graph, const char *name,
                                     const tercel_onnx_tensor *tensor, tercel_value **out, tercel_error *err);
tercel_status tercel_onnx_add_sparse(tercel_onnx *o, tercel_graph *graph, const char *name,
                                     const tercel_onnx_sparse *sparse, tercel_value **out, tercel_error *err);
/* A constant of strings, copied. */
tercel_status tercel_onnx_add_strings(tercel_graph *graph, const char *name, const tercel_string *strings, int rank,
                                      const int64_t *dims, tercel_value **out, tercel_error *err);

/* ---- type.c ---- */

/* what: names the value in errors. */
tercel_status tercel_onnx_read_type(tercel_dims *dims, const tercel_onnx_type *type, const char *what, tercel_type *out,
                                    tercel_error *err);
/* Merges what the file declares into the value's type: fills what inference left open; a contradiction is INVALID_MODEL and names both. */
tercel_status tercel_onnx_declare(tercel_value *value, const tercel_onnx_value_info *info, tercel_error *err);

/* ---- order.c ---- */

/* order[i]: index of the node to build i-th.  A cycle is INVALID_MODEL and names its nodes. */
tercel_status tercel_onnx_order(tercel_arena *arena, const tercel_onnx_nodes *nodes, size_t *order, tercel_error *err);
/* Names that a subgraph uses but does not define, each once, appended to *names in the order they are met. */
typedef struct tercel_onnx_free_names {
  tercel_arena *arena;
  tercel_map seen;
  const char **names;
  size_t count, capacity;
} tercel_onnx_free_names;
tercel_status tercel_onnx_add_free_names(tercel_onnx_free_names *names, const tercel_onnx_graph *graph,
                                         tercel_error *err);
void tercel_onnx_free_names_deinit(tercel_onnx_free_names *names);

/* ---- graph.c ---- */

/* Fills an empty graph: the model's own. */
tercel_status tercel_onnx_build_main(tercel_onnx *o, tercel_graph *graph, tercel_error *err);
/* Fills an empty subgraph of a node of `outer`: inputs have the given types (num_inputs must be what proto lists), then come the captures, in the
 * order of `captures`.  *poisoned: something in it is wrong (and noted). */
typedef struct tercel_onnx_subgraph {
  const tercel_onnx_graph *proto;
  const tercel_type *input_types;
  size_t num_inputs;
  const tercel_onnx_free_names *free_names;
} tercel_onnx_subgraph;
tercel_status tercel_onnx_build_subgraph(tercel_onnx *o, const tercel_onnx_scope *outer, tercel_graph *graph,
                                         const tercel_onnx_subgraph *subgraph, bool *poisoned, tercel_error *err);
/* Builds a subgraph's nodes into the graph of `outer`, its inputs standing for the given values.  An output may be TERCEL_ONNX_POISON. */
tercel_status tercel_onnx_inline_graph(tercel_onnx *o, const tercel_onnx_scope *outer, const tercel_onnx_graph *proto,
                                       tercel_value *const *inputs, size_t num_inputs, tercel_value **outputs,
                                       size_t num_outputs, tercel_error *err);

/* The same for a subgraph that is made up here: `inputs` are values of `graph` for each input of proto; the free names come in as
 * further inputs of the graph; outputs[i] (as many as proto has) are values of it, not yet its outputs. */
typedef struct tercel_onnx_body {
  const tercel_onnx_graph *proto;
  tercel_value *const *inputs;
  const tercel_onnx_free_names *free_names;
} tercel_onnx_body;
tercel_status tercel_onnx_build_body(tercel_onnx *o, const tercel_onnx_scope *outer, tercel_graph *graph,
                                     const tercel_onnx_body *body, tercel_value **outputs, bool *poisoned,
                                     tercel_error *err);

#endif
