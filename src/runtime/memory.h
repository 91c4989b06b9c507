/* Memory of one context: counted, limited, growing.  For files of runtime only. */
#ifndef TERCEL_RUNTIME_MEMORY_H
#define TERCEL_RUNTIME_MEMORY_H

#include "ir/ir.h"

/* What a context's activations take now, and may take. */
typedef struct tercel_account {
  size_t used_bytes;
  size_t machine_bytes; /* never 0 */
  size_t limit_bytes;   /* never 0: what the user allows, at most what the machine has */
  bool limit_is_ours;   /* the machine's memory, not the user's --max-memory */
} tercel_account;

void tercel_account_init(tercel_account *account, uint64_t max_memory);
/* Says whether `bytes` more would be allowed.  OUT_OF_MEMORY names both amounts. */
tercel_status tercel_account_check(const tercel_account *account, size_t bytes, tercel_error *err);

/* Memory that grows and is kept.  Zero-initialize.  `fixed`: somebody else's, neither grown nor freed. */
typedef struct tercel_buffer {
  void *data; /* 64-byte aligned unless fixed */
  size_t bytes;
  bool fixed;
} tercel_buffer;

/* Makes room for `bytes` (0 counts as 1, so that data is never NULL); the first `keep` bytes keep their contents. */
tercel_status tercel_buffer_reserve(tercel_buffer *buffer, tercel_account *account, size_t bytes, size_t keep,
                                    tercel_error *err);
void tercel_buffer_free(tercel_buffer *buffer, tercel_account *account);

/* "512 B", "1.5 KiB", "64 TiB" */
typedef struct tercel_amount {
  char text[24];
} tercel_amount;
tercel_amount tercel_amount_of(size_t bytes);

/* "f32[1, 3, 224, 224]" */
typedef struct tercel_described {
  char text[16 + 22 * TERCEL_MAX_RANK];
} tercel_described;
tercel_described tercel_describe(tercel_dtype dtype, int rank, const int64_t *dims);

#endif
