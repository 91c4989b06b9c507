/* Checksums of files' parts: XXH64 with seed 0 (Collet, "xxHash fast digest algorithm", revision 0.1.1).  They find damage, not malice. */
#ifndef TERCEL_BASE_CHECKSUM_H
#define TERCEL_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t tercel_checksum(const void *data, size_t bytes);

/* The same of bytes that come in pieces. */
typedef struct tercel_checksum_state {
  uint64_t lanes[4];
  uint64_t total;
  uint8_t rest[32]; /* of the last stripe, total % 32 bytes */
} tercel_checksum_state;

void tercel_checksum_start(tercel_checksum_state *state);
void tercel_checksum_add(tercel_checksum_state *state, const void *data, size_t bytes);
uint64_t tercel_checksum_end(const tercel_checksum_state *state);

#endif
