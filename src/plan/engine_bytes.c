/* See engine_bytes.h. */
#include "plan/engine_bytes.h"

#include <string.h>

/* ---- writing ---- */

void tercel_put_number(tercel_text *out, uint64_t number) {
  char bytes[10];
  size_t count = 0;
  for (; number >= 0x80; number >>= 7) bytes[count++] = (char)(uint8_t)(number | 0x80);
  bytes[count++] = (char)number;
  tercel_text_add_bytes(out, bytes, count);
}

void tercel_put_signed(tercel_text *out, int64_t number) {
  tercel_put_number(out, (uint64_t)number << 1 ^ (number < 0 ? UINT64_MAX : 0));
}

void tercel_put_f64(tercel_text *out, double number) {
  char bytes[sizeof number];
  memcpy(bytes, &number, sizeof number);
  tercel_text_add_bytes(out, bytes, sizeof bytes);
}

void tercel_put_name(tercel_names *names, tercel_text *out, const char *name) {
  uintptr_t number = (uintptr_t)tercel_map_get(&names->numbers, name, NULL);
  if (number == 0) {
    number = ++names->count;
    names->failed |= tercel_map_set(&names->numbers, name, (void *)number, NULL) != TERCEL_OK;
    tercel_text_add_bytes(&names->bytes, name, strlen(name) + 1);
  }
  tercel_put_number(out, number - 1);
}

void tercel_names_deinit(tercel_names *names) {
  tercel_map_deinit(&names->numbers);
  tercel_text_deinit(&names->bytes);
}

/* ---- reading ---- */

static uint64_t fail(tercel_bytes *in) {
  in->failed = true;
  in->at = in->end;
  return 0;
}

uint64_t tercel_get_number(tercel_bytes *in) {
  uint64_t number = 0;
  for (int shift = 0; shift < 64 && in->at < in->end; shift += 7) {
    const uint8_t byte = *in->at++;
    const uint64_t bits = byte & 0x7f;
    if (bits << shift >> shift != bits) return fail(in);
    number |= bits << shift;
    if (byte < 0x80) return number;
  }
  return fail(in);
}

int64_t tercel_get_signed(tercel_bytes *in) {
  const uint64_t number = tercel_get_number(in);
  return (int64_t)(number >> 1 ^ (number & 1 ? UINT64_MAX : 0));
}

double tercel_get_f64(tercel_bytes *in) {
  double number = 0;
  if ((size_t)(in->end - in->at) < sizeof number) return (double)fail(in);
  memcpy(&number, in->at, sizeof number);
  in->at += sizeof number;
  return number;
}

uint64_t tercel_get_below(tercel_bytes *in, uint64_t most) {
  const uint64_t number = tercel_get_number(in);
  return number <= most ? number : fail(in);
}

uint32_t tercel_get_count(tercel_bytes *in) {
  const uint64_t left = (uint64_t)(in->end - in->at);
  return (uint32_t)tercel_get_below(in, left < INT32_MAX ? left : INT32_MAX);
}
