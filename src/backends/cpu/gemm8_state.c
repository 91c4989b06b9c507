/* See gemm8_state.h. */
#include "backends/cpu/gemm8_state.h"

#include "ops/move.h"

void tercel_gemm8_release(void *state) {
  tercel_gemm8_state *s = state;
  if (s == NULL) return;
  tercel_free(s->packed.panels);
  tercel_free(s->packed.sums);
  tercel_epilogue_release(&s->epilogue);
  tercel_free(s);
}

tercel_status tercel_gemm8_alloc_packed(tercel_gemm8_state *s, size_t panel_bytes, int64_t num_sums, int64_t matrices,
                                        tercel_error *err) {
  size_t bytes;
  if (!tercel_mul_size(panel_bytes, (size_t)matrices, &bytes) || bytes == 0) return TERCEL_OK;
  s->panel_bytes = panel_bytes;
  s->num_sums = num_sums;
  s->matrices = matrices;
  s->packed.panels = tercel_alloc(bytes);
  s->packed.sums = tercel_alloc_array((size_t)(num_sums * matrices), sizeof *s->packed.sums);
  if (s->packed.panels == NULL || s->packed.sums == NULL) return tercel_fail_memory(err, bytes, "packed weights");
  return TERCEL_OK;
}

tercel_status tercel_gemm8_prepare(const tercel_node *node, const tercel_target *target, tercel_gemm8_pack_weights pack,
                                   tercel_kernel_state *out, tercel_error *err) {
  tercel_gemm8_state *s = tercel_zalloc(sizeof *s);
  if (s == NULL) return tercel_fail_memory(err, sizeof *s, node->op->name);
  tercel_status status = TERCEL_OK;
  s->kernels = TERCEL_CPU_PICK_VNNI(tercel_gemm8_kernels);
  TERCEL_CHECK(tercel_epilogue_prepare(node, target, TERCEL_GEMM8_FIRST_EXTRA, &s->epilogue, err));
  const tercel_tensor *weights = node->inputs[TERCEL_GEMM8_WEIGHTS]->constant;
  if (weights != NULL) TERCEL_CHECK(pack(node, weights, s, err));
  if (s->packed.panels != NULL) {
    out->packed_bytes = s->panel_bytes * (size_t)s->matrices;
    out->unused_inputs |= 1u << TERCEL_GEMM8_WEIGHTS;
  }
  out->data = s;
done:
  if (status != TERCEL_OK) tercel_gemm8_release(s);
  return status;
}

tercel_gemm8_zeros tercel_gemm8_get_zeros(const tercel_kernel_run *r, size_t operand, bool right) {
  const tercel_tensor *zero = tercel_input_tensor(r->in, r->num_inputs, operand + TERCEL_GEMM8_FIRST_ZERO);
  return (tercel_gemm8_zeros){.data = zero == NULL ? NULL : zero->data,
                              .count = zero == NULL ? 0 : tercel_tensor_num_elements(zero),
                              .flip = tercel_gemm8_flip(r->in[operand]->dtype, right)};
}
