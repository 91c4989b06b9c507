/* The table of builders, out of builders.inc. */
#include <string.h>

#include "import/onnx/build.h"

static const tercel_onnx_row rows[] = {
#define ONNX(domain, op_type, since, min_inputs, max_inputs, max_outputs, builder, detail)                             \
  {domain, op_type, since, min_inputs, max_inputs, max_outputs, tercel_onnx_build_##builder, detail},
#include "import/onnx/builders.inc"
#undef ONNX
    {0}};

const tercel_onnx_row *tercel_onnx_rows(void) { return rows; }

bool tercel_onnx_has_operator(const char *domain, const char *name) {
  bool newer;
  return tercel_onnx_find_row(domain, name, 0, &newer) || newer;
}

const tercel_onnx_row *tercel_onnx_find_row(const char *domain, const char *op_type, int64_t version, bool *newer) {
  const tercel_onnx_row *best = NULL;
  bool later = false;
  for (const tercel_onnx_row *row = rows; row->op_type; row++) {
    if (strcmp(row->op_type, op_type) != 0 || !tercel_onnx_same_domain(row->domain, domain)) continue;
    if (row->since > version)
      later = true;
    else if (!best || row->since > best->since)
      best = row;
  }
  if (newer) *newer = later;
  return best;
}
