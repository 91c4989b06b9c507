/* Panels of any width, read in plain C: what was packed for another level becomes a constant again.  See gemm_packer.h. */
#include "backends/cpu/gemm_packer.h"

static int64_t groups_of(const tercel_panels *p, int64_t k) { return tercel_ceil_div(k, p->group); }

static bool fill_up(int64_t size, int unit, size_t *out) {
  return tercel_mul_size((size_t)tercel_ceil_div(size, unit), (size_t)unit, out);
}

bool tercel_panels_bytes(const tercel_panels *p, const tercel_gemm_operand *operand, size_t *out) {
  size_t rows, columns, bytes;
  return fill_up(operand->outer, p->width, &rows) && fill_up(operand->k, p->group, &columns) &&
         tercel_mul_size(rows, columns, &bytes) && tercel_mul_size(bytes, (size_t)p->element_bytes, &bytes) &&
         tercel_mul_size(bytes, (size_t)operand->count, out);
}

/* Where element (outer, k) lies. */
static int64_t place_of(const tercel_panels *p, int64_t groups, int64_t outer, int64_t k) {
  return ((outer / p->width * groups + k / p->group) * p->width + outer % p->width) * p->group + k % p->group;
}

void tercel_panels_unpack_f32(const tercel_panels *p, const tercel_gemm_operand *operand, const float *packed,
                              float *out) {
  for (int64_t i = 0; i < operand->outer; ++i) {
    const float *const from = packed + place_of(p, operand->k, i, 0);
    for (int64_t k = 0; k < operand->k; ++k) out[i * operand->outer_step + k * operand->k_step] = from[k * p->width];
  }
}

/* Little-endian: the low byte of an element is its first. */
void tercel_panels_unpack_bytes(const tercel_panels *p, const tercel_gemm_operand *operand, const uint8_t *packed,
                                uint8_t flip, uint8_t *out) {
  const int64_t groups = groups_of(p, operand->k);
  for (int64_t i = 0; i < operand->outer; ++i)
    for (int64_t k = 0; k < operand->k; ++k)
      out[i * operand->outer_step + k * operand->k_step] = packed[place_of(p, groups, i, k) * p->element_bytes] ^ flip;
}

bool tercel_panels_parse_number(const char **text, int *out) {
  int number = 0;
  const char *at = *text;
  while (*at >= '0' && *at <= '9' && number <= 1024) number = number * 10 + (*at++ - '0');
  if (at == *text || number < 1 || number > 1024) return false;
  *text = at;
  *out = number;
  return true;
}
