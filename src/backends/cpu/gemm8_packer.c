/* Constant operands of 8-bit products in panels, with the sums of their rows or columns.  See gemm_packer.h. */
#include <stdio.h>
#include <string.h>

#include "backends/cpu/gemm_packer.h"

static const tercel_gemm_packer *packer_of(const tercel_packer *packer) {
  return (const tercel_gemm_packer *)(const void *)packer;
}

static const tercel_gemm8_kernels *kernels_for(const tercel_target *target) {
  (void)target;
  return TERCEL_CPU_PICK_VNNI(tercel_gemm8_kernels);
}

/* A word of A holds a group of 4 bytes, or of two 16-bit numbers; B has bytes. */
static tercel_panels panels_of(bool right, int width, int group) {
  return (tercel_panels){.width = width, .group = group, .element_bytes = right ? 1 : 4 / group};
}

/* Panels of all operands, and the sums of all behind them. */
static bool count_bytes(const tercel_panels *panels, const tercel_gemm_operand *o, size_t *panel_bytes, size_t *out) {
  const size_t sums = (size_t)(tercel_ceil_div(o->outer, panels->width) * panels->width);
  size_t sum_bytes;
  return tercel_panels_bytes(panels, o, panel_bytes) && tercel_mul_size(sums, (size_t)o->count, &sum_bytes) &&
         tercel_mul_size(sum_bytes, sizeof(uint32_t), &sum_bytes) && tercel_add_size(*panel_bytes, sum_bytes, out);
}

tercel_status tercel_gemm8_describe(const tercel_packer *packer, const tercel_node *node, const tercel_target *target,
                                    tercel_pack_format *out, tercel_error *err) {
  const tercel_gemm_packer *const p = packer_of(packer);
  const tercel_gemm8_kernels *const kernels = kernels_for(target);
  tercel_gemm_operand operand;
  size_t panel_bytes;
  if (!tercel_gemm_see_constant(p, node, &operand)) return TERCEL_OK;
  const tercel_panels panels = panels_of(p->right, p->right ? kernels->nr : kernels->mr, kernels->group);
  if (!count_bytes(&panels, &operand, &panel_bytes, &out->bytes))
    return tercel_fail_memory(err, SIZE_MAX, "packed weights");
  snprintf(out->name, sizeof out->name, "gemm8.%c.%dx%d", p->right ? 'b' : 'a', panels.width, panels.group);
  out->inputs = 1u << p->input;
  return TERCEL_OK;
}

tercel_status tercel_gemm8_pack(const tercel_packer *packer, const tercel_node *node, const tercel_target *target,
                                const tercel_pack_format *format, void *out, tercel_error *err) {
  (void)err;
  const tercel_gemm_packer *const p = packer_of(packer);
  const tercel_gemm8_kernels *const kernels = kernels_for(target);
  const tercel_tensor *const constant = node->inputs[p->input]->constant;
  const uint8_t flip = tercel_gemm8_flip(constant->dtype, p->right), *const data = constant->data;
  tercel_gemm_operand o;
  if (!tercel_gemm_see_constant(p, node, &o)) return TERCEL_OK;
  const tercel_gemm8_packed all = tercel_gemm8_open_packed(kernels, out, p->right, o.outer, o.k, o.count);
  memset(all.sums, 0, format->bytes - (size_t)((uint8_t *)all.sums - (uint8_t *)out)); /* beyond the last row, too */
  for (int64_t i = 0; i < o.count; ++i) {
    const tercel_gemm8_packed to = tercel_gemm8_get_packed(kernels, &all, p->right, o.outer, o.k, i);
    if (p->right)
      tercel_gemm8_pack_b(kernels, o.k, o.outer, data + i * o.step, o.k_step, o.outer_step, flip, &to);
    else
      tercel_gemm8_pack_a(kernels, o.outer, o.k, data + i * o.step, o.outer_step, o.k_step, flip, &to);
  }
  return TERCEL_OK;
}

static bool parse_name(const char *name, bool right, tercel_panels *out) {
  int width, group;
  const char *at = name + strlen("gemm8.a.");
  if (strncmp(name, right ? "gemm8.b." : "gemm8.a.", strlen("gemm8.a.")) != 0 ||
      !tercel_panels_parse_number(&at, &width) || *at++ != 'x' || !tercel_panels_parse_number(&at, &group) ||
      *at != '\0' || (group != 2 && group != 4))
    return false;
  *out = panels_of(right, width, group);
  return true;
}

tercel_status tercel_gemm8_unpack(const tercel_packer *packer, const tercel_node *node, const tercel_packed *packed,
                                  uint32_t input, void *out, tercel_error *err) {
  const tercel_gemm_packer *const p = packer_of(packer);
  tercel_gemm_operand o;
  tercel_panels panels;
  size_t panel_bytes, bytes;
  if (input != p->input || !tercel_gemm_see_constant(p, node, &o) ||
      !parse_name(packed->format.name, p->right, &panels) || !count_bytes(&panels, &o, &panel_bytes, &bytes) ||
      bytes != packed->format.bytes)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': %zu bytes of %s are not its weights", node->op->name,
                       node->name, packed->format.bytes, packed->format.name);
  const uint8_t flip = tercel_gemm8_flip(node->inputs[input]->constant->dtype, p->right);
  for (int64_t i = 0; i < o.count; ++i)
    tercel_panels_unpack_bytes(&panels, &o, (const uint8_t *)packed->data + (size_t)i * (panel_bytes / (size_t)o.count),
                               flip, (uint8_t *)out + i * o.step);
  return TERCEL_OK;
}
