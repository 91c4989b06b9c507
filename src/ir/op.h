/* What an operator is.  The operators themselves live in ops/, one file a family, one line each in ops/ops.inc. */
#ifndef TERCEL_IR_OP_H
#define TERCEL_IR_OP_H

#include "base/base.h"
#include "ir/attr.h"
#include "ir/dim.h"
#include "ir/tensor.h"

struct tercel_node;

/* ---- types ------------------------------------------------------------------------------------------------------- */

typedef enum tercel_type_kind {
  TERCEL_TYPE_TENSOR = 0,
  TERCEL_TYPE_SEQUENCE,
  TERCEL_TYPE_OPTIONAL,
  TERCEL_TYPE_MAP
} tercel_type_kind;

/* The type of a value.  Tensors: dtype and shape.  Sequences and optionals hold tensors (optional_sequence: an
 * optional that holds a sequence) of this dtype; shape is what all elements share.  Maps: keys (a list of `key`) and values (dtype) beside them,
 * whose shape is [k], or [n, k] for a sequence of n maps that have the same keys.  A tensor that is a state: an input of the outermost graph
 * whose memory the one node that reads it writes, too (a KV cache); what it holds outlives the run. */
typedef struct tercel_type {
  tercel_type_kind kind;
  bool optional_sequence;
  bool state;
  tercel_dtype key; /* of maps; i64 or string */
  tercel_dtype dtype;
  tercel_shape shape;
} tercel_type;

/* ---- inference --------------------------------------------------------------------------------------------------- */

/* What is known of a value: its type, and for small integer or bool tensors (rank 0 or 1) maybe the contents, which
 * shapes are made of. */
typedef struct tercel_fact {
  tercel_type type;
  const tercel_dim *contents; /* num_elements of them, or NULL: not known.  Integers and bools of at most 64 elements */
  int64_t num_contents;
  const tercel_tensor *tensor; /* the whole value, any dtype, where it is constant or already computed; else NULL */
} tercel_fact;

/* One call of an operator's inference.  Inputs that are absent are NULL.  The operator fills out[]; it arrives zeroed
 * with rank -1.  contents arrays are taken from `arena`. */
typedef struct tercel_infer {
  const struct tercel_node *node;
  size_t num_inputs, num_outputs;
  const tercel_fact *const *in;
  tercel_fact *out;
  tercel_dims *dims;
  tercel_arena *arena;
  uint32_t contents_used; /* bit i: the result depends on the contents of input i (set by tercel_infer_contents) */
} tercel_infer;

enum { TERCEL_MAX_CONTENTS = 64 };

/* The contents of input i as dims; NULL when not known, in which case the operator leaves what depends on them open
 * (rank -1 or unknown dims).  Marks the input as looked at.  count_out may be NULL. */
const tercel_dim *tercel_infer_contents(tercel_infer *infer, size_t i, int64_t *count_out, tercel_error *err);

/* ---- reference evaluation ---------------------------------------------------------------------------------------- */

/* One call of an operator's reference kernel.  Outputs that inference could shape arrive with memory; for the others
 * (out[i].data NULL and rank -1) the operator calls tercel_eval_output once it knows the shape.  Absent inputs and
 * outputs are NULL. */
typedef struct tercel_eval {
  const struct tercel_node *node;
  size_t num_inputs, num_outputs;
  const tercel_tensor *const *in;
  tercel_tensor *const *out;
  tercel_arena *scratch; /* dies with the call */
  tercel_status (*allocate)(void *user, size_t output, tercel_tensor *tensor,
                            tercel_error *err); /* memory for a shaped tensor */
  void *user;
} tercel_eval;

/* Shapes output i (dtype is set already) and gives it memory. */
tercel_status tercel_eval_output(tercel_eval *eval, size_t i, int rank, const int64_t *dims, tercel_error *err);
/* The same for output i of strings, with room for `characters` bytes that its elements will point to: they lie behind the elements
 * and live as long as these.  *characters_out is NULL when the output is absent. */
tercel_status tercel_eval_strings(tercel_eval *eval, size_t i, int rank, const int64_t *dims, size_t characters,
                                  char **characters_out, tercel_error *err);

/* ---- operators --------------------------------------------------------------------------------------------------- */

typedef struct tercel_attr_spec {
  const char *name; /* NULL ends the list */
  tercel_attr_kind kind;
  bool required;
  double number;     /* default of INT, FLOAT; dtype of DTYPE */
  const char *text;  /* default of STRING */
  const char *about; /* one line: meaning, unit, range */
} tercel_attr_spec;

typedef enum tercel_op_flags {
  TERCEL_OP_VIEW = 1,           /* output 0 has the bytes of input 0 in another shape */
  TERCEL_OP_IMPURE = 2,         /* two runs may differ (random), so never folded or merged */
  TERCEL_OP_CONTROL = 4,        /* run by the executor: subgraphs, sequences, optionals; no eval */
  TERCEL_OP_DATA_DEPENDENT = 8, /* output shapes follow from the data itself (nonzero), known only after the run */
  TERCEL_OP_STATEFUL = 16,      /* writes those of its inputs that are states: never folded, merged or removed */
} tercel_op_flags;

typedef struct tercel_cost {
  double flops; /* multiply-add counts 2 */
  double bytes; /* read and written once */
} tercel_cost;

typedef struct tercel_op {
  const char *name;
  int id;                     /* tercel_op_id of ops/ops.h */
  int min_inputs, max_inputs; /* max -1: any number; trailing and middle inputs may be absent (NULL) when >= min */
  int min_outputs, max_outputs;
  int num_graphs; /* subgraphs: if 2, loop and scan 1 */
  unsigned flags;
  const char *about; /* one line */
  const tercel_attr_spec *attrs;
  tercel_status (*infer)(tercel_infer *infer, tercel_error *err);
  tercel_status (*verify)(const struct tercel_node *node,
                          tercel_error *err);                  /* beyond arity and attributes; may be NULL */
  tercel_status (*eval)(tercel_eval *eval, tercel_error *err); /* NULL for control operators */
  /* flops of one run for these shapes; NULL: one per output element.  Bytes are counted by the caller. */
  double (*flops)(const struct tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out);
} tercel_op;

/* An operator by its name among `ops` (a NULL-terminated list, such as tercel_ops()); NULL when there is none. */
const tercel_op *tercel_op_find(const tercel_op *const *ops, const char *name, size_t length);

#endif
