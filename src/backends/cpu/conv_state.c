/* What the conv tactics have alike: weights packed once, the epilogue, and a run's operands. */
#include "backends/cpu/conv.h"

void tercel_conv_release(void *state) {
  tercel_conv_state *s = state;
  if (s == NULL) return;
  tercel_free(s->packed);
  tercel_epilogue_release(&s->epilogue);
  tercel_free(s);
}

tercel_status tercel_conv_alloc_packed(const tercel_node *node, int64_t floats, tercel_conv_state *s,
                                       tercel_error *err) {
  size_t all;
  if (!tercel_mul_size((size_t)floats, (size_t)tercel_node_int(node, "group"), &all))
    return tercel_fail_memory(err, SIZE_MAX, "packed weights");
  if (all == 0) return TERCEL_OK;
  s->packed_floats = floats;
  s->packed = tercel_alloc_array(all, sizeof(float));
  return s->packed == NULL ? tercel_fail_memory(err, all * sizeof(float), "packed weights") : TERCEL_OK;
}

/* The weights of a group are [rows][columns]: A of the product, or its transpose. */
static tercel_status pack(const tercel_node *node, const tercel_tensor *w, bool transposed, tercel_conv_state *s,
                          tercel_error *err) {
  const int64_t group = tercel_node_int(node, "group"), rows = w->dims[0] / group;
  if (rows == 0) return TERCEL_OK;
  const int64_t columns = tercel_tensor_num_elements(w) / w->dims[0];
  const int64_t m = transposed ? columns : rows, k = transposed ? rows : columns;
  TERCEL_TRY(tercel_conv_alloc_packed(node, (int64_t)tercel_gemm_packed_a_size(s->gemm, m, k), s, err));
  if (s->packed == NULL) return TERCEL_OK;
  const int64_t row_step = transposed ? 1 : columns, column_step = transposed ? columns : 1;
  for (int64_t i = 0; i < group; ++i)
    s->gemm->pack_a(m, k, (const float *)w->data + i * m * k, row_step, column_step, s->packed + i * s->packed_floats);
  return TERCEL_OK;
}

tercel_status tercel_conv_pack_rows(const tercel_node *node, const tercel_tensor *w, tercel_conv_state *s,
                                    tercel_error *err) {
  return pack(node, w, false, s, err);
}

tercel_status tercel_conv_pack_transposed(const tercel_node *node, const tercel_tensor *w, tercel_conv_state *s,
                                          tercel_error *err) {
  return pack(node, w, true, s, err);
}

tercel_status tercel_conv_prepare(const tercel_node *node, const tercel_target *target, tercel_conv_pack pack_weights,
                                  tercel_kernel_state *out, tercel_error *err) {
  tercel_conv_state *s = tercel_zalloc(sizeof *s);
  if (s == NULL) return tercel_fail_memory(err, sizeof *s, node->op->name);
  tercel_status status = TERCEL_OK;
  s->gemm = TERCEL_CPU_PICK_FOR(target, tercel_gemm_kernels);
  s->conv = TERCEL_CPU_PICK_FOR(target, tercel_conv_kernels);
  TERCEL_CHECK(tercel_epilogue_prepare(node, target, TERCEL_CONV_FIRST_EXTRA, &s->epilogue, err));
  const tercel_tensor *w = node->inputs[TERCEL_CONV_W]->constant;
  if (pack_weights != NULL && w != NULL) TERCEL_CHECK(pack_weights(node, w, s, err));
  if (s->packed != NULL) {
    out->packed_bytes = (size_t)(s->packed_floats * tercel_node_int(node, "group")) * sizeof(float);
    out->unused_inputs |= 1u << TERCEL_CONV_W;
  }
  out->data = s;
done:
  if (status != TERCEL_OK) tercel_conv_release(s);
  return status;
}

void tercel_conv_start(const tercel_kernel_run *r, const tercel_epilogue_binding *epilogue, size_t epilogue_at,
                       tercel_conv_run *out) {
  const tercel_tensor *x = r->in[TERCEL_CONV_X];
  const tercel_tensor *bias = r->num_inputs > TERCEL_CONV_BIAS ? r->in[TERCEL_CONV_BIAS] : NULL;
  *out = (tercel_conv_run){.s = r->state,
                           .x = x->data,
                           .x_end = (const float *)x->data + tercel_tensor_num_elements(x),
                           .w = r->in[TERCEL_CONV_W]->data,
                           .bias = bias == NULL ? NULL : bias->data,
                           .y = r->out[0]->data,
                           .workspace = r->workspace};
  tercel_epilogue_start(&out->s->epilogue, epilogue, r->in + TERCEL_CONV_FIRST_EXTRA, out->workspace + epilogue_at,
                        out->extras);
}
