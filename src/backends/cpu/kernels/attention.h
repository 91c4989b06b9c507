/* attention over f32: what happens to a row of scores between the two products, and the products of single rows.
 *
 * The softmax is taken block of keys by block of keys (Milakov and Gimelshein: Online normalizer calculation for softmax, 2018): the largest
 * score so far and the sum of exponentials below it are kept, and what was added up before a larger one came is scaled down. */
#ifndef TERCEL_BACKENDS_CPU_KERNELS_ATTENTION_H
#define TERCEL_BACKENDS_CPU_KERNELS_ATTENTION_H

#include <stdint.h>

#include "backends/cpu/kernels/tables.h"

typedef struct tercel_attention_kernels {
  /* out[i] = x[i] * factor; out may be x. */
  void (*scale)(const float *x, int64_t n, float factor, float *out);
  /* s[i] = softcap * tanh(s[i] / softcap) */
  void (*cap)(float *s, int64_t n, float softcap);
  /* s[i] += mask[i] */
  void (*add)(float *s, const float *mask, int64_t n);
  /* s[i] = fill where mask[i] is 0 */
  void (*hide)(float *s, const uint8_t *mask, int64_t n, float fill);
  /* s[i] = e^(s[i] - m), m the largest of *largest and the s[i]; *sum becomes what it was times e^(*largest - m), plus the s[i]; *largest
   * becomes m.  Returns that factor.  Scores of -infinity count as 0, even if there are no others; a NaN makes the sum NaN.  Start: -infinity, 0. */
  float (*step)(float *s, int64_t n, float *largest, float *sum);
  /* out[d] += sum over j < n of p[j] * v[j * v_row + d], for d < size */
  void (*mix)(const float *p, int64_t n, const float *v, int64_t v_row, int64_t size, float *out);
} tercel_attention_kernels;

TERCEL_FUSED_TABLES(tercel_attention_kernels)

#endif
