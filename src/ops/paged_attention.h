/* The geometry of paged_attention, which its fast kernels need too. */
#ifndef TERCEL_OPS_PAGED_ATTENTION_H
#define TERCEL_OPS_PAGED_ATTENTION_H

#include "ops/move.h"

/* Types that a cache may have. */
bool tercel_is_cache_dtype(tercel_dtype dtype);

typedef struct tercel_paged {
  int64_t heads, kv_heads, group; /* group: query heads that share a key head */
  int64_t size, value_size;       /* of a head of keys, of values */
  int64_t rows;                   /* of q, k and v */
  int64_t sequences, table;       /* table: pages of one sequence at most */
  int64_t pages, page;            /* of the cache; rows of one */
  int64_t window;                 /* 0: none */
  double scale, softcap;
  const tercel_tensor *firsts, *lengths, *tables, *keys, *values, *sinks; /* sinks may be NULL */
} tercel_paged;

/* Checks that all rows and pages lie where they may: INVALID_ARGUMENT names the sequence. */
tercel_status tercel_paged_get_geometry(const tercel_node *node, const tercel_tensor *const *in, size_t num_inputs,
                                        tercel_paged *out, tercel_error *err);
/* Where row number `row` of a sequence lies, in rows of the cache. */
int64_t tercel_paged_row(const tercel_paged *paged, int64_t sequence, int64_t row);

#endif
