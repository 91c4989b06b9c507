/* What the conv tactics have alike: weights packed once, the epilogue, and a run's operands. */
#include "backends/cpu/conv.h"

void tercel_conv_release(void *state) {
  tercel_conv_state *s = state;
  if (s == NULL) return;
  tercel_epilogue_release(&s->epilogue);
  tercel_free(s);
}

/* The weights of a group are [rows][columns]: A of the product, or its transpose. */
bool tercel_conv_see_rows(const tercel_node *node, const tercel_tensor *w, tercel_gemm_operand *out) {
  const int64_t group = tercel_node_int(node, "group"), rows = w->dims[0] / group;
  if (rows == 0) return false;
  const int64_t columns = tercel_tensor_num_elements(w) / w->dims[0];
  *out = (tercel_gemm_operand){
      .count = group, .step = rows * columns, .outer = rows, .outer_step = columns, .k = columns, .k_step = 1};
  return true;
}

bool tercel_conv_see_transposed(const tercel_node *node, const tercel_tensor *w, tercel_gemm_operand *out) {
  tercel_gemm_operand rows;
  if (!tercel_conv_see_rows(node, w, &rows)) return false;
  *out = rows;
  out->outer = rows.k;
  out->outer_step = rows.k_step;
  out->k = rows.outer;
  out->k_step = rows.outer_step;
  return true;
}

tercel_status tercel_conv_prepare(const tercel_node *node, const tercel_target *target, tercel_kernel_state *out,
                                  tercel_error *err) {
  tercel_conv_state *s = tercel_zalloc(sizeof *s);
  if (s == NULL) return tercel_fail_memory(err, sizeof *s, node->op->name);
  tercel_status status = TERCEL_OK;
  s->gemm = TERCEL_CPU_PICK_FOR(target, tercel_gemm_kernels);
  s->conv = TERCEL_CPU_PICK_FOR(target, tercel_conv_kernels);
  TERCEL_CHECK(tercel_epilogue_prepare(node, target, TERCEL_CONV_FIRST_EXTRA, &s->epilogue, err));
  if (out->packed.data != NULL) {
    s->packed = out->packed.data;
    s->packed_floats = (int64_t)(out->packed.format.bytes / sizeof(float)) / tercel_node_int(node, "group");
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

bool tercel_conv_cost_geometry(const tercel_node *node, const tercel_tensor *const *in, tercel_conv_geometry *out) {
  if (tercel_conv_get_geometry(node, in[TERCEL_CONV_X], in[TERCEL_CONV_W], out, NULL) != TERCEL_OK) return false;
  return out->batch > 0 && out->out_size > 0 && out->in_channels > 0 && out->out_channels > 0;
}
