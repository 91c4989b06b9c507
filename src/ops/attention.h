/* What the kernels of attention and rotary share with their references: shapes as strides, which keys a query sees. */
#ifndef TERCEL_OPS_ATTENTION_H
#define TERCEL_OPS_ATTENTION_H

#include "ops/move.h"

/* Elements between neighbours; those of one head's row lie side by side. */
typedef struct tercel_attention_strides {
  int64_t batch, head, row;
} tercel_attention_strides;

/* What a query gives that sees no key. */
typedef enum tercel_attention_unseen {
  TERCEL_UNSEEN_ZERO,
  TERCEL_UNSEEN_NAN,  /* as softmax of nothing but -infinity does */
  TERCEL_UNSEEN_CLEAR /* 0, and so does every query whose weights are NaN */
} tercel_attention_unseen;

typedef struct tercel_attention_geometry {
  int64_t batch, heads, queries, keys, head_size, value_size;
  int64_t group;                       /* query heads that share a key head */
  tercel_attention_strides q, k, v, y; /* heads of k and v: key heads */
  tercel_attention_strides mask;       /* 0 where it is broadcast */
  int64_t mask_keys;                   /* keys behind those that the mask covers are hidden */
  double scale, softcap;               /* softcap 0: none */
  double fill;                         /* score of a key that a mask of bools hides */
  tercel_attention_unseen unseen;
  bool causal;
  int64_t left, right;                   /* window; -1: open */
  const tercel_tensor *offset, *lengths; /* NULL: 0, and all keys */
  const tercel_tensor *sinks;            /* NULL: none */
} tercel_attention_geometry;

enum {
  TERCEL_ATTENTION_Q,
  TERCEL_ATTENTION_K,
  TERCEL_ATTENTION_V,
  TERCEL_ATTENTION_MASK,
  TERCEL_ATTENTION_OFFSET,
  TERCEL_ATTENTION_LENGTHS,
  TERCEL_ATTENTION_SINKS,
  TERCEL_ATTENTION_INPUTS
};

/* Of tensors whose shapes passed inference. */
tercel_status tercel_attention_get_geometry(const tercel_node *node, const tercel_tensor *const *in, size_t num_inputs,
                                            tercel_attention_geometry *out, tercel_error *err);

/* Query i of batch n sees keys [*begin, *end), as far as the mask lets it; none where they are equal. */
void tercel_attention_range(const tercel_attention_geometry *g, int64_t n, int64_t i, int64_t *begin, int64_t *end);

/* Fails unless cosines, sines and positions of a rotary node belong to `batch` times `rows` rows with `half` pairs to turn; without
 * positions, tables of one batch entry serve all. */
tercel_status tercel_rotary_check(const tercel_node *node, const tercel_tensor *const *in, size_t num_inputs,
                                  int64_t batch, int64_t rows, int64_t half, tercel_error *err);

#endif
