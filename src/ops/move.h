/* What the operators that move data share: failing with the node's name, walking indices, handing contents of small integer
 * tensors on, and the geometry of slice, pad, resize and pool for numbers, which their fast kernels need too. */
#ifndef TERCEL_OPS_MOVE_H
#define TERCEL_OPS_MOVE_H

#include "ops/ops.h"

/* Fails with "operator 'node': " before the message. */
tercel_status tercel_node_fail(const tercel_node *node, tercel_error *err, tercel_status status, const char *format,
                               ...) __attribute__((format(printf, 4, 5)));

/* The place of attribute `name`'s value in `choices` (NULL-terminated); INVALID_MODEL lists them when it is none. */
tercel_status tercel_node_choice(const tercel_node *node, const char *name, const char *const *choices, int *out,
                                 tercel_error *err);

/* ---- inference ----------------------------------------------------------------------------------------------------- */

/* Contents of input i to hand on (cut, joined, picked from): NULL unless they are known integers of rank 0 or 1.  Unlike
 * tercel_infer_contents it doesn't mark an input whose contents aren't known. */
const tercel_dim *tercel_infer_flow(tercel_infer *infer, size_t i, int64_t *count, tercel_error *err);
/* Room for `count` contents of output i; NULL when there are too many to keep.  Its shape must be of rank 0 or 1. */
tercel_status tercel_infer_give(tercel_infer *infer, size_t i, int64_t count, tercel_dim **out, tercel_error *err);
/* Sets output i to input 0's dtype and contents under `shape`, whose elements are the same. */
tercel_status tercel_infer_view(tercel_infer *infer, const tercel_shape *shape, tercel_error *err);
/* rank unknown dims. */
tercel_status tercel_infer_open(tercel_infer *infer, int64_t rank, tercel_shape *out, tercel_error *err);
/* Fails when a fully known output is too large to address. */
tercel_status tercel_infer_check_size(const tercel_infer *infer, size_t i, tercel_error *err);
/* Fails when a fact is known and not an integer of one of the index types (i32, i64). */
tercel_status tercel_infer_check_indices(const tercel_infer *infer, size_t i, tercel_error *err);
/* Fails when input i has another dtype than input 0. */
tercel_status tercel_infer_check_dtype(const tercel_infer *infer, size_t i, tercel_error *err);
/* Fails when input i has another rank than input 0, or is larger along an axis other than `axis`. */
tercel_status tercel_infer_check_within(const tercel_infer *infer, size_t i, int axis, tercel_error *err);
/* The tensor of input i (of any dtype), where it is known; marks the input as looked at. */
const tercel_tensor *tercel_infer_tensor(tercel_infer *infer, size_t i);

static inline bool tercel_has_input(const tercel_infer *infer, size_t i) {
  return i < infer->num_inputs && infer->in[i] != NULL;
}

/* ---- walking ------------------------------------------------------------------------------------------------------- */

/* The next index of a row-major walk over dims; false after the last.  Start from zeros. */
static inline bool tercel_index_next(int rank, const int64_t *dims, int64_t *index) {
  for (int d = rank - 1; d >= 0; --d) {
    if (++index[d] < dims[d]) return true;
    index[d] = 0;
  }
  return false;
}

/* The index number `at` of the walk. */
static inline void tercel_index_of(int rank, const int64_t *dims, int64_t at, int64_t *index) {
  for (int d = rank - 1; d >= 0; --d) {
    index[d] = at % dims[d];
    at /= dims[d];
  }
}

static inline int64_t tercel_index_dot(int rank, const int64_t *index, const int64_t *strides) {
  int64_t offset = 0;
  for (int d = 0; d < rank; ++d) offset += index[d] * strides[d];
  return offset;
}

/* Product of dims [begin, end) of a tensor whose size was checked. */
static inline int64_t tercel_dims_product(const int64_t *dims, int begin, int end) {
  int64_t product = 1;
  for (int d = begin; d < end; ++d) product *= dims[d];
  return product;
}

/* Input i of an evaluation or run, or NULL. */
static inline const tercel_tensor *tercel_input_tensor(const tercel_tensor *const *in, size_t num_inputs, size_t i) {
  return i < num_inputs ? in[i] : NULL;
}

/* index made positive; INVALID_ARGUMENT names it when it is outside an axis of size n. */
tercel_status tercel_pick_index(const tercel_node *node, int64_t index, int64_t n, int axis, int64_t *out,
                                tercel_error *err);

/* Tuple t in the last dim of indices, as one position among x_dims (those that the tuple counts along; first_axis: the axis of the
 * first of them, for the message). */
tercel_status tercel_pick_tuple(const tercel_node *node, const tercel_tensor *indices, int64_t t, const int64_t *x_dims,
                                int first_axis, int64_t *out, tercel_error *err);

/* A whole number out of a tensor of one element (k, depth, axis). */
tercel_status tercel_eval_scalar(const tercel_node *node, const tercel_tensor *tensor, const char *what, int64_t *out,
                                 tercel_error *err);

/* For operators that compute nothing. */
double tercel_no_flops(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out);

/* Output 0 gets input 0's bytes. */
tercel_status tercel_eval_view(tercel_eval *eval, tercel_error *err);

/* ---- geometry ------------------------------------------------------------------------------------------------------ */

/* A transpose node's perm, or the reversed order where it has none. */
tercel_status tercel_transpose_perm(const tercel_node *node, int rank, int perm[TERCEL_MAX_RANK], tercel_error *err);

/* The length of part i of a split of `size`: from the tensor of sizes, or (NULL) of equal parts. */
int64_t tercel_split_part(const tercel_node *node, int64_t size, const tercel_tensor *sizes, size_t i);

/* Window number `at` of a dim: its elements [first, first + inside) lie in the input, the first `covered` of it before the end of the
 * padded input. */
typedef struct tercel_window_part {
  int64_t first, inside, covered;
} tercel_window_part;
tercel_window_part tercel_window_at(const tercel_window *w, int64_t at);

/* One axis of a slice: elements first, first + step, ... (count of them). */
typedef struct tercel_slice_axis {
  int64_t first, step, count;
} tercel_slice_axis;

/* All axes of input 0, from the tensors of a slice node. */
tercel_status tercel_slice_resolve(const tercel_node *node, const tercel_tensor *const *in, size_t num_inputs,
                                   tercel_slice_axis axes[TERCEL_MAX_RANK], tercel_error *err);

typedef enum tercel_pad_mode {
  TERCEL_PAD_CONSTANT,
  TERCEL_PAD_REFLECT,
  TERCEL_PAD_EDGE,
  TERCEL_PAD_WRAP
} tercel_pad_mode;

/* One axis of a pad: `begin` new elements, then elements [first, first + kept) of the input, then `end` new ones.  (A negative
 * pad cuts before anything is mirrored.) */
typedef struct tercel_pad_axis {
  int64_t begin, end, first, kept;
} tercel_pad_axis;

typedef struct tercel_pad_plan {
  tercel_pad_mode mode;
  tercel_pad_axis axes[TERCEL_MAX_RANK];
} tercel_pad_plan;

tercel_status tercel_pad_resolve(const tercel_node *node, const tercel_tensor *const *in, size_t num_inputs,
                                 tercel_pad_plan *out, tercel_error *err);
/* The input position that output position `at` of an axis shows; -1: the constant. */
int64_t tercel_pad_source(tercel_pad_mode mode, const tercel_pad_axis *axis, int64_t at);

#endif
