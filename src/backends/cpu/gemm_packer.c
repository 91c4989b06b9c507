/* Constant operands of f32 products in panels.  See gemm_packer.h. */
#include "backends/cpu/gemm_packer.h"

#include <stdio.h>
#include <string.h>

static const tercel_gemm_packer *packer_of(const tercel_packer *packer) {
  return (const tercel_gemm_packer *)(const void *)packer;
}

static const tercel_gemm_kernels *kernels_for(const tercel_target *target) {
  return TERCEL_CPU_PICK_FOR(target, tercel_gemm_kernels);
}

bool tercel_gemm_see_constant(const tercel_gemm_packer *packer, const tercel_node *node, tercel_gemm_operand *out) {
  const tercel_tensor *const constant = node->inputs[packer->input]->constant;
  return constant != NULL && packer->see(node, constant, out) && out->count > 0 && out->outer > 0 && out->k > 0;
}

tercel_status tercel_gemm_describe(const tercel_packer *packer, const tercel_node *node, const tercel_target *target,
                                   tercel_pack_format *out, tercel_error *err) {
  const tercel_gemm_packer *const p = packer_of(packer);
  const tercel_gemm_kernels *const kernels = kernels_for(target);
  tercel_gemm_operand operand;
  if (!tercel_gemm_see_constant(p, node, &operand)) return TERCEL_OK;
  const tercel_panels panels = {p->right ? kernels->nr : kernels->mr, 1, sizeof(float)};
  if (!tercel_panels_bytes(&panels, &operand, &out->bytes)) return tercel_fail_memory(err, SIZE_MAX, "packed weights");
  snprintf(out->name, sizeof out->name, "gemm.%c.%d.f32", p->right ? 'b' : 'a', panels.width);
  out->inputs = 1u << p->input;
  return TERCEL_OK;
}

tercel_status tercel_gemm_pack(const tercel_packer *packer, const tercel_node *node, const tercel_target *target,
                               const tercel_pack_format *format, void *out, tercel_error *err) {
  (void)err;
  const tercel_gemm_packer *const p = packer_of(packer);
  const tercel_gemm_kernels *const kernels = kernels_for(target);
  const float *const data = node->inputs[p->input]->constant->data;
  tercel_gemm_operand o;
  if (!tercel_gemm_see_constant(p, node, &o)) return TERCEL_OK;
  const size_t floats = format->bytes / sizeof(float) / (size_t)o.count;
  for (int64_t i = 0; i < o.count; ++i) {
    float *const to = (float *)out + (size_t)i * floats;
    if (p->right)
      kernels->pack_b(o.k, o.outer, data + i * o.step, o.k_step, o.outer_step, to);
    else
      kernels->pack_a(o.outer, o.k, data + i * o.step, o.outer_step, o.k_step, to);
  }
  return TERCEL_OK;
}

static bool parse_name(const char *name, bool right, tercel_panels *out) {
  *out = (tercel_panels){.group = 1, .element_bytes = sizeof(float)};
  const char *at = name + strlen("gemm.a.");
  return strncmp(name, right ? "gemm.b." : "gemm.a.", strlen("gemm.a.")) == 0 &&
         tercel_panels_parse_number(&at, &out->width) && strcmp(at, ".f32") == 0;
}

tercel_status tercel_gemm_unpack(const tercel_packer *packer, const tercel_node *node, const tercel_packed *packed,
                                 uint32_t input, void *out, tercel_error *err) {
  const tercel_gemm_packer *const p = packer_of(packer);
  tercel_gemm_operand o;
  tercel_panels panels;
  size_t bytes;
  if (input != p->input || !tercel_gemm_see_constant(p, node, &o) ||
      !parse_name(packed->format.name, p->right, &panels) || !tercel_panels_bytes(&panels, &o, &bytes) ||
      bytes != packed->format.bytes)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': %zu bytes of %s are not its weights", node->op->name,
                       node->name, packed->format.bytes, packed->format.name);
  const size_t floats = bytes / sizeof(float) / (size_t)o.count;
  for (int64_t i = 0; i < o.count; ++i)
    tercel_panels_unpack_f32(&panels, &o, (const float *)packed->data + (size_t)i * floats, (float *)out + i * o.step);
  return TERCEL_OK;
}
