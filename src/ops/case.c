/* Unicode's simple case mappings. */
#include "ops/text.h"

/* Code points first, first + step, ... last map to themselves + delta. */
typedef struct case_range {
  uint32_t first, last;
  int32_t delta;
  uint32_t step;
} case_range;

static const case_range to_upper[] = {
#define UPPER(first, last, delta, step) {first, last, delta, step},
#define LOWER(first, last, delta, step)
#include "ops/case.inc"
#undef UPPER
#undef LOWER
};

static const case_range to_lower[] = {
#define UPPER(first, last, delta, step)
#define LOWER(first, last, delta, step) {first, last, delta, step},
#include "ops/case.inc"
#undef UPPER
#undef LOWER
};

/* Ranges don't overlap and stand in order. */
static uint32_t map_case(const case_range *ranges, size_t count, uint32_t code) {
  size_t low = 0;
  while (count > 0) {
    const size_t half = count / 2;
    if (ranges[low + half].last < code) {
      low += half + 1;
      count -= half + 1;
    } else if (ranges[low + half].first > code) {
      count = half;
    } else {
      const case_range *const r = &ranges[low + half];
      return (code - r->first) % r->step == 0 ? (uint32_t)((int32_t)code + r->delta) : code;
    }
  }
  return code;
}

uint32_t tercel_to_upper(uint32_t code) { return map_case(to_upper, sizeof to_upper / sizeof *to_upper, code); }
uint32_t tercel_to_lower(uint32_t code) { return map_case(to_lower, sizeof to_lower / sizeof *to_lower, code); }
