/* Numbers and names as an engine file's sections hold them: whole numbers in 7 bits a byte, the lowest first (LEB128), signed ones
 * with the sign in the lowest bit; names once, in a table, by their number in it. */
#ifndef TERCEL_PLAN_ENGINE_BYTES_H
#define TERCEL_PLAN_ENGINE_BYTES_H

#include "base/base.h"

void tercel_put_number(tercel_text *out, uint64_t number);
void tercel_put_signed(tercel_text *out, int64_t number);
void tercel_put_f64(tercel_text *out, double number);

/* Reading.  After the first thing that isn't there, all that follows is 0 and `failed` stays set. */
typedef struct tercel_bytes {
  const uint8_t *at, *end;
  bool failed;
} tercel_bytes;

uint64_t tercel_get_number(tercel_bytes *in);
int64_t tercel_get_signed(tercel_bytes *in);
double tercel_get_f64(tercel_bytes *in);
/* A number of at most `most`; fails otherwise. */
uint64_t tercel_get_below(tercel_bytes *in, uint64_t most);
/* How many things follow that take a byte each at least: never more than there are bytes. */
uint32_t tercel_get_count(tercel_bytes *in);

/* The table while it is written: texts behind each other, each with its 0.  Zero-initialize. */
typedef struct tercel_names {
  tercel_map numbers; /* name -> its number + 1 */
  tercel_text bytes;
  uint32_t count;
  bool failed; /* there was no memory */
} tercel_names;

void tercel_put_name(tercel_names *names, tercel_text *out, const char *name);
void tercel_names_deinit(tercel_names *names);

#endif
