/* The CPU backend's list of kernels, from kernels.inc, and the search in it. */
#include "backends/cpu/speed.h"

static const tercel_kernel *const kernels[] = {
#define TERCEL_KERNEL(name) &tercel_kernel_##name,
#include "backends/cpu/kernels.inc"
#undef TERCEL_KERNEL
    NULL};

static const tercel_kernel *kernel_at(const tercel_node *node, size_t index) {
  size_t matches = 0;
  for (const tercel_kernel *const *k = kernels; *k != NULL; ++k)
    if ((*k)->op == node->op->id && matches++ == index) return *k;
  return matches == index && node->op->eval != NULL ? tercel_reference_kernel() : NULL;
}

const tercel_backend *tercel_cpu_backend(void) {
  static const tercel_backend backend = {.name = "cpu", .kernel = kernel_at, .cost = tercel_cpu_plain_cost};
  return &backend;
}
