/* What builders work with.  A builder turns one ONNX node into nodes of the graph:
 *
 *     void tercel_onnx_build_thing(tercel_onnx_call *c) {
 *       const int64_t axis = tercel_onnx_get_int(c, "axis", 1);
 *       tercel_node *const n = tercel_onnx_begin(c, &tercel_op_thing, 1, tercel_onnx_in(c, 0), tercel_onnx_in(c, 1));
 *       tercel_onnx_set_int(c, n, "axis", axis);
 *       tercel_onnx_return(c, 0, tercel_onnx_end(c, n));
 *     }
 *
 * Errors are sticky: the first failure is kept in the call, after it nothing is made and values come back NULL; so a builder
 * reads like a formula.  It must only not look into a value without asking tercel_onnx_ok (or tercel_onnx_rank and the
 * like, which are safe).  Attributes that nobody asked for are refused by the caller, by name. */
#ifndef TERCEL_IMPORT_ONNX_BUILD_H
#define TERCEL_IMPORT_ONNX_BUILD_H

#include "import/onnx/onnx.h"

/* One node being built. */
typedef struct tercel_onnx_call {
  tercel_onnx *import;
  const tercel_onnx_scope *scope;
  tercel_graph *graph;
  const tercel_onnx_node *node;
  const struct tercel_onnx_row *row;
  const struct tercel_custom *custom; /* the user's operator that row stands for; NULL: one of tercel's */
  const char *name;                   /* for new nodes */
  tercel_problem_kind fault;          /* what a failure is about */
  int64_t version;                    /* of the operator's domain */
  tercel_value *const *inputs;        /* NULL: absent; trailing absent ones are cut */
  size_t num_inputs;
  tercel_value **outputs; /* to be filled */
  size_t num_outputs;     /* up to the last one that has a name */
  uint64_t attrs_read;    /* bit i: attribute i of the node */
  bool poisoned;          /* a subgraph holds something wrong, which was noted */
  tercel_status status;   /* the first failure */
  tercel_error *err;      /* its message; never NULL */
} tercel_onnx_call;

/* A row of the table of builders. */
typedef struct tercel_onnx_row {
  const char *domain, *op_type; /* "": ai.onnx */
  int since;                    /* first version it serves, up to the next row of the same operator */
  int min_inputs, max_inputs;   /* -1: any number */
  int max_outputs;
  void (*build)(tercel_onnx_call *c);
  int detail; /* what a builder that serves several operators must know: mostly a tercel_fn */
} tercel_onnx_row;

/* The row for a version; NULL when there is none.  *newer (may be NULL): there is one for newer versions. */
const tercel_onnx_row *tercel_onnx_find_row(const char *domain, const char *op_type, int64_t version, bool *newer);
/* All rows, ended by one without op_type. */
const tercel_onnx_row *tercel_onnx_rows(void);

/* Rows of components.  What a build leaves out is in the table all the same, but built by left_out, which says so. */
enum { TERCEL_ONNX_IMAGES, TERCEL_ONNX_ML, TERCEL_ONNX_UNICODE };
#define TERCEL_ONNX_LEFT_OUT(component, domain, op_type, since, min_inputs, max_inputs, max_outputs, ...)              \
  ONNX(domain, op_type, since, min_inputs, max_inputs, max_outputs, left_out, component)
#if TERCEL_IMAGES
#define ONNX_IMAGES ONNX
#else
#define ONNX_IMAGES(...) TERCEL_ONNX_LEFT_OUT(TERCEL_ONNX_IMAGES, __VA_ARGS__)
#endif
#if TERCEL_ML
#define ONNX_ML ONNX
#else
#define ONNX_ML(...) TERCEL_ONNX_LEFT_OUT(TERCEL_ONNX_ML, __VA_ARGS__)
#endif
#if TERCEL_UNICODE
#define ONNX_UNICODE ONNX
#else
#define ONNX_UNICODE(...) TERCEL_ONNX_LEFT_OUT(TERCEL_ONNX_UNICODE, __VA_ARGS__)
#endif
void tercel_onnx_build_left_out(tercel_onnx_call *c);

/* The builders.  The list names some of them for several operators. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
#define ONNX(domain, op_type, since, min_inputs, max_inputs, max_outputs, builder, detail)                             \
  void tercel_onnx_build_##builder(tercel_onnx_call *c);
#include "import/onnx/builders.inc"
#undef ONNX
#pragma GCC diagnostic pop

/* Nodes of operators that users register; the row is made up for each (build_custom.c). */
void tercel_onnx_build_custom(tercel_onnx_call *c);

/* ---- failures ---- */

static inline bool tercel_onnx_ok(const tercel_onnx_call *c) { return c->status == TERCEL_OK; }
/* Keeps the first failure; the node's label is put before the message by the caller. */
void tercel_onnx_fail(tercel_onnx_call *c, tercel_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- attributes: the value, or the fallback where the node has none ---- */

/* The attribute with its reference (inside a function) resolved; NULL: absent.  Checks its type. */
const tercel_onnx_attr *tercel_onnx_get_attr(tercel_onnx_call *c, const char *name, tercel_onnx_attr_type type);
bool tercel_onnx_has_attr(const tercel_onnx_call *c, const char *name);
/* Fails when it is missing. */
void tercel_onnx_need_attr(tercel_onnx_call *c, const char *name);
/* For attributes that change nothing here (hints of old versions). */
void tercel_onnx_ignore_attr(tercel_onnx_call *c, const char *name);
int64_t tercel_onnx_get_int(tercel_onnx_call *c, const char *name, int64_t fallback);
/* An int that says no or yes: fails unless it is 0 or 1. */
bool tercel_onnx_get_flag(tercel_onnx_call *c, const char *name, bool fallback);
double tercel_onnx_get_float(tercel_onnx_call *c, const char *name, double fallback);
const char *tercel_onnx_get_text(tercel_onnx_call *c, const char *name, const char *fallback);
const int64_t *tercel_onnx_get_ints(tercel_onnx_call *c, const char *name, size_t *count); /* NULL and 0 when absent */
const float *tercel_onnx_get_floats(tercel_onnx_call *c, const char *name, size_t *count);
const tercel_onnx_graph *tercel_onnx_get_graph(tercel_onnx_call *c, const char *name); /* fails when it is missing */
/* An attribute that holds a TensorProto.DataType; NONE when absent, unless there is a fallback. */
tercel_dtype tercel_onnx_get_dtype(tercel_onnx_call *c, const char *name, tercel_dtype fallback);

/* ---- inputs and what is known of values ---- */

static inline tercel_value *tercel_onnx_in(const tercel_onnx_call *c, size_t i) {
  return i < c->num_inputs ? c->inputs[i] : NULL;
}
/* Does somebody want output i? */
bool tercel_onnx_wants_output(const tercel_onnx_call *c, size_t i);
/* Rank, or UNSUPPORTED when it isn't known; 0 after a failure. */
int tercel_onnx_rank(tercel_onnx_call *c, const tercel_value *value);
tercel_dtype tercel_onnx_dtype_of(const tercel_value *value); /* NONE for NULL */
/* Dim i of a value of known rank, counted from the end where negative; -1 when it is no number. */
int64_t tercel_onnx_dim_of(tercel_onnx_call *c, const tercel_value *value, int i);
/* A product of sizes and numbers of the file; fails when it overflows. */
int64_t tercel_onnx_times(tercel_onnx_call *c, int64_t a, int64_t b);
/* The numbers in a constant (or inferred) list of integers; false when they aren't known. */
bool tercel_onnx_known_ints(tercel_onnx_call *c, const tercel_value *value, int64_t *out, size_t capacity,
                            size_t *count);
/* The value of a constant scalar (one element). */
bool tercel_onnx_known_scalar(const tercel_value *value, double *out);

/* ---- constants ---- */

tercel_value *tercel_onnx_i64s(tercel_onnx_call *c, const int64_t *values, size_t count);
tercel_value *tercel_onnx_i64(tercel_onnx_call *c, int64_t value); /* [1] */
tercel_value *tercel_onnx_scalar(tercel_onnx_call *c, tercel_dtype dtype, double number);
/* A scalar of the dtype that `like` has. */
tercel_value *tercel_onnx_scalar_like(tercel_onnx_call *c, const tercel_value *like, double number);

/* ---- nodes ---- */

/* Adds a node whose types are inferred by tercel_onnx_end, once its attributes are set. */
tercel_node *tercel_onnx_begin_list(tercel_onnx_call *c, const tercel_op *op, size_t num_outputs,
                                    tercel_value *const *inputs, size_t num_inputs);
#define TERCEL_ONNX_VALUES(...)                                                                                        \
  (tercel_value *const[]){__VA_ARGS__}, sizeof((tercel_value *const[]){__VA_ARGS__}) / sizeof(void *)
#define tercel_onnx_begin(c, op, num_outputs, ...)                                                                     \
  tercel_onnx_begin_list(c, op, num_outputs, TERCEL_ONNX_VALUES(__VA_ARGS__))
void tercel_onnx_set_int(tercel_onnx_call *c, tercel_node *node, const char *name, int64_t value);
void tercel_onnx_set_float(tercel_onnx_call *c, tercel_node *node, const char *name, double value);
void tercel_onnx_set_text(tercel_onnx_call *c, tercel_node *node, const char *name, const char *value);
void tercel_onnx_set_ints(tercel_onnx_call *c, tercel_node *node, const char *name, const int64_t *values,
                          size_t count);
void tercel_onnx_set_dtype(tercel_onnx_call *c, tercel_node *node, const char *name, tercel_dtype value);
/* Copies an attribute of the node under the same name, where it is there. */
void tercel_onnx_copy_int(tercel_onnx_call *c, tercel_node *node, const char *name);
void tercel_onnx_copy_flag(tercel_onnx_call *c, tercel_node *node, const char *name);
void tercel_onnx_copy_float(tercel_onnx_call *c, tercel_node *node, const char *name);
void tercel_onnx_copy_ints(tercel_onnx_call *c, tercel_node *node, const char *name);
/* Infers the node; its first output. */
tercel_value *tercel_onnx_end(tercel_onnx_call *c, tercel_node *node);
/* A node without attributes, whole. */
#define tercel_onnx_op(c, op, ...) tercel_onnx_end(c, tercel_onnx_begin(c, op, 1, __VA_ARGS__))

/* The value, whose shape ONNX says to be this one where operands broadcast one way only: with free dims inference can't tell.  A
 * contradiction in numbers fails.  like: the shape of that value. */
tercel_value *tercel_onnx_shaped(tercel_onnx_call *c, tercel_value *value, const tercel_shape *shape);
static inline tercel_value *tercel_onnx_like(tercel_onnx_call *c, tercel_value *value, const tercel_value *like) {
  return tercel_onnx_ok(c) && like ? tercel_onnx_shaped(c, value, &like->type.shape) : value;
}

/* Gives output i of the ONNX node. */
void tercel_onnx_return(tercel_onnx_call *c, size_t i, tercel_value *value);
/* Gives all outputs of the node, in order, as those of the ONNX node. */
void tercel_onnx_return_all(tercel_onnx_call *c, tercel_node *node);

/* ---- small expressions ---- */

tercel_value *tercel_onnx_fn1(tercel_onnx_call *c, tercel_fn fn, tercel_value *a);
tercel_value *tercel_onnx_fn2(tercel_onnx_call *c, tercel_fn fn, tercel_value *a, tercel_value *b);
tercel_value *tercel_onnx_fn3(tercel_onnx_call *c, tercel_fn fn, tercel_value *a, tercel_value *b, tercel_value *d);
/* One operand with immediates, as floats or integers by a's dtype. */
tercel_value *tercel_onnx_fn_with(tercel_onnx_call *c, tercel_fn fn, tercel_value *a, double p, double q);
/* a op number, the number in a's dtype */
tercel_value *tercel_onnx_fn_number(tercel_onnx_call *c, tercel_fn fn, tercel_value *a, double number);
tercel_value *tercel_onnx_cast(tercel_onnx_call *c, tercel_value *a, tercel_dtype dtype); /* a itself when it has it */
/* The same where strings may stand on either side (build_math.c). */
tercel_value *tercel_onnx_convert(tercel_onnx_call *c, tercel_value *a, tercel_dtype dtype);
/* saturate, round: see the function code cast. */
tercel_value *tercel_onnx_cast_with(tercel_onnx_call *c, tercel_value *a, tercel_dtype dtype, bool saturate,
                                    char round);
tercel_value *tercel_onnx_reduce(tercel_onnx_call *c, const char *kind, tercel_value *a, const int64_t *axes,
                                 size_t count, bool keepdims);
tercel_value *tercel_onnx_shape_of(tercel_onnx_call *c, tercel_value *a);
tercel_value *tercel_onnx_reshape(tercel_onnx_call *c, tercel_value *a, tercel_value *shape);
tercel_value *tercel_onnx_reshape_to(tercel_onnx_call *c, tercel_value *a, const int64_t *dims, size_t count);
tercel_value *tercel_onnx_transpose(tercel_onnx_call *c, tercel_value *a, const int64_t *perm, size_t count);
tercel_value *tercel_onnx_unsqueeze(tercel_onnx_call *c, tercel_value *a, const int64_t *axes, size_t count);
tercel_value *tercel_onnx_concat(tercel_onnx_call *c, tercel_value *const *values, size_t count, int64_t axis);
/* a[start:end] along one axis */
tercel_value *tercel_onnx_slice(tercel_onnx_call *c, tercel_value *a, int64_t axis, int64_t start, int64_t end);
/* Dim i of a as i64[1]: a constant where it is a number. */
tercel_value *tercel_onnx_dim_value(tercel_onnx_call *c, tercel_value *a, int64_t i);
/* A tensor of `shape` (i64 list) filled with the scalar. */
tercel_value *tercel_onnx_fill(tercel_onnx_call *c, tercel_value *scalar, tercel_value *shape);

/* The weights' shape says what attribute 'kernel_shape' says, if it is there (build_nn.c). */
void tercel_onnx_check_kernel_shape(tercel_onnx_call *c, tercel_value *weights);
/* A convolution with the node's own strides, dilations, pads and group (build_nn.c). */
tercel_value *tercel_onnx_conv(tercel_onnx_call *c, tercel_value *x, tercel_value *w, tercel_value *bias);
/* The same for a begun node whose weights are w. */
tercel_value *tercel_onnx_conv_with(tercel_onnx_call *c, tercel_node *node, tercel_value *w);
/* The window of the node's own attributes, of `kind` (build_nn.c). */
tercel_value *tercel_onnx_pool(tercel_onnx_call *c, const char *kind, tercel_value *x);
/* N, spatial..., C as N, C, spatial..., and back (build_contrib.c). */
tercel_value *tercel_onnx_channels_first(tercel_onnx_call *c, tercel_value *x);
tercel_value *tercel_onnx_channels_last(tercel_onnx_call *c, tercel_value *x);
/* Softmax over all axes from `axis` on, taken as one, as before version 13 (build_norm.c). */
tercel_value *tercel_onnx_flat_softmax(tercel_onnx_call *c, tercel_value *x, int64_t axis);
/* N, S, H*D as N, H, S, D; what has rank 4 stays (build_attention.c). */
tercel_value *tercel_onnx_by_heads(tercel_onnx_call *c, tercel_value *x, int64_t heads);

/* ---- quantized tensors (build_quantize.c) ---- */

/* What x stands for is (x - zero) * scale; zero NULL: 0. */
typedef struct tercel_onnx_quantized {
  tercel_value *x, *scale, *zero;
} tercel_onnx_quantized;

/* round(x / scale) + zero point (NULL: 0), saturated. */
tercel_value *tercel_onnx_quantize(tercel_onnx_call *c, tercel_value *x, tercel_value *scale, tercel_value *zero,
                                   tercel_dtype to, bool saturate);
/* To u8, with scale and zero point from the range of x. */
tercel_onnx_quantized tercel_onnx_dynamic_quantize(tercel_onnx_call *c, tercel_value *x);
/* QLinearConv with the node's inputs, x as given. */
tercel_value *tercel_onnx_quantized_conv(tercel_onnx_call *c, tercel_value *x);
/* (a - zero)(b - zero): integers exactly, as i32, 8-bit floats as f32. */
tercel_value *tercel_onnx_quantized_product(tercel_onnx_call *c, tercel_value *a, tercel_value *a_zero, tercel_value *b,
                                            tercel_value *b_zero);

#endif
