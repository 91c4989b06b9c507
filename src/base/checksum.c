/* XXH64: four lanes over stripes of 32 bytes, merged, then what is left.  See checksum.h. */
#include "base/checksum.h"

#include <string.h>

static const uint64_t prime1 = 0x9E3779B185EBCA87u, prime2 = 0xC2B2AE3D27D4EB4Fu, prime3 = 0x165667B19E3779F9u,
                      prime4 = 0x85EBCA77C2B2AE63u, prime5 = 0x27D4EB2F165667C5u;

enum { STRIPE = 32 };

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static uint64_t read64(const uint8_t *p) {
  uint64_t x;
  memcpy(&x, p, sizeof x);
  return x;
}

static uint64_t read32(const uint8_t *p) {
  uint32_t x;
  memcpy(&x, p, sizeof x);
  return x;
}

static uint64_t mix(uint64_t lane, uint64_t input) { return rotate(lane + input * prime2, 31) * prime1; }

void tercel_checksum_start(tercel_checksum_state *s) {
  *s = (tercel_checksum_state){.lanes = {prime1 + prime2, prime2, 0, 0 - prime1}};
}

static void add_stripe(uint64_t lanes[4], const uint8_t *p) {
  for (int i = 0; i < 4; ++i) lanes[i] = mix(lanes[i], read64(p + 8 * i));
}

void tercel_checksum_add(tercel_checksum_state *s, const void *data, size_t bytes) {
  const uint8_t *p = data;
  size_t held = s->total % STRIPE;
  s->total += bytes;
  if (held + bytes < STRIPE) {
    if (bytes > 0) memcpy(s->rest + held, p, bytes);
    return;
  }
  if (held > 0) {
    memcpy(s->rest + held, p, STRIPE - held);
    add_stripe(s->lanes, s->rest);
    p += STRIPE - held;
    bytes -= STRIPE - held;
  }
  for (; bytes >= STRIPE; p += STRIPE, bytes -= STRIPE) add_stripe(s->lanes, p);
  if (bytes > 0) memcpy(s->rest, p, bytes);
}

static uint64_t merge_lanes(const uint64_t lanes[4]) {
  uint64_t hash = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18);
  for (int i = 0; i < 4; ++i) hash = (hash ^ mix(0, lanes[i])) * prime1 + prime4;
  return hash;
}

uint64_t tercel_checksum_end(const tercel_checksum_state *s) {
  uint64_t hash = (s->total >= STRIPE ? merge_lanes(s->lanes) : prime5) + s->total;
  const uint8_t *p = s->rest;
  size_t left = s->total % STRIPE;
  for (; left >= 8; p += 8, left -= 8) hash = rotate(hash ^ mix(0, read64(p)), 27) * prime1 + prime4;
  if (left >= 4) {
    hash = rotate(hash ^ read32(p) * prime1, 23) * prime2 + prime3;
    p += 4;
    left -= 4;
  }
  for (; left > 0; ++p, --left) hash = rotate(hash ^ *p * prime5, 11) * prime1;
  hash = (hash ^ hash >> 33) * prime2;
  hash = (hash ^ hash >> 29) * prime3;
  return hash ^ hash >> 32;
}

uint64_t tercel_checksum(const void *data, size_t bytes) {
  tercel_checksum_state state;
  tercel_checksum_start(&state);
  tercel_checksum_add(&state, data, bytes);
  return tercel_checksum_end(&state);
}
