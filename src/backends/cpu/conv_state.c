/* What conv and conv_transpose prepare when they are matrix products: weights packed as A, and the epilogue. */
#include "backends/cpu/conv.h"

void tercel_conv_release(void *state) {
  tercel_conv_state *s = state;
  if (s == NULL) return;
  tercel_free(s->packed);
  tercel_epilogue_release(&s->epilogue);
  tercel_free(s);
}

/* The weights of a group are [rows][columns]: A of the product, or its transpose. */
static tercel_status pack_weights(const tercel_node *node, const tercel_tensor *w, bool transposed,
                                  tercel_conv_state *s, tercel_kernel_state *out, tercel_error *err) {
  const int64_t group = tercel_node_int(node, "group"), rows = w->dims[0] / group;
  if (rows == 0) return TERCEL_OK;
  const int64_t columns = tercel_tensor_num_elements(w) / w->dims[0];
  const int64_t m = transposed ? columns : rows, k = transposed ? rows : columns;
  s->packed_floats = (int64_t)tercel_gemm_packed_a_size(s->gemm, m, k);
  size_t floats;
  if (!tercel_mul_size((size_t)s->packed_floats, (size_t)group, &floats) || floats == 0) return TERCEL_OK;
  s->packed = tercel_alloc_array(floats, sizeof(float));
  if (s->packed == NULL) return tercel_fail_memory(err, floats * sizeof(float), "packed weights");
  const int64_t row_step = transposed ? 1 : columns, column_step = transposed ? columns : 1;
  for (int64_t i = 0; i < group; ++i)
    s->gemm->pack_a(m, k, (const float *)w->data + i * m * k, row_step, column_step, s->packed + i * s->packed_floats);
  out->packed_bytes = floats * sizeof(float);
  out->unused_inputs |= 1u << TERCEL_CONV_W;
  return TERCEL_OK;
}

tercel_status tercel_conv_prepare(const tercel_node *node, bool transposed, tercel_kernel_state *out,
                                  tercel_error *err) {
  tercel_conv_state *s = tercel_zalloc(sizeof *s);
  if (s == NULL) return tercel_fail_memory(err, sizeof *s, node->op->name);
  tercel_status status = TERCEL_OK;
  s->gemm = TERCEL_CPU_PICK(tercel_gemm_kernels);
  s->conv = TERCEL_CPU_PICK(tercel_conv_kernels);
  TERCEL_CHECK(tercel_epilogue_prepare(node, TERCEL_CONV_FIRST_EXTRA, &s->epilogue, err));
  const tercel_tensor *w = node->inputs[TERCEL_CONV_W]->constant;
  if (w != NULL) TERCEL_CHECK(pack_weights(node, w, transposed, s, out, err));
  out->data = s;
done:
  if (status != TERCEL_OK) tercel_conv_release(s);
  return status;
}
