/* See gemm8_state.h. */
#include "backends/cpu/gemm8_state.h"

#include "ops/move.h"

void tercel_gemm8_release(void *state) {
  tercel_gemm8_state *s = state;
  if (s == NULL) return;
  tercel_epilogue_release(&s->epilogue);
  tercel_free(s);
}

tercel_status tercel_gemm8_prepare(const tercel_node *node, const tercel_target *target,
                                   const tercel_gemm_packer *packer, tercel_kernel_state *out, tercel_error *err) {
  tercel_gemm8_state *s = tercel_zalloc(sizeof *s);
  if (s == NULL) return tercel_fail_memory(err, sizeof *s, node->op->name);
  tercel_status status = TERCEL_OK;
  tercel_gemm_operand o;
  s->kernels = TERCEL_CPU_PICK_VNNI(tercel_gemm8_kernels);
  TERCEL_CHECK(tercel_epilogue_prepare(node, target, TERCEL_GEMM8_FIRST_EXTRA, &s->epilogue, err));
  if (out->packed.data != NULL && tercel_gemm_see_constant(packer, node, &o)) {
    s->packed = tercel_gemm8_open_packed(s->kernels, out->packed.data, packer->right, o.outer, o.k, o.count);
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
