/* From a kernel to its state: constants packed, or taken up as they were packed before, then prepared. */
#include <string.h>

#include "backends/backend.h"

static tercel_status describe(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                              tercel_pack_format *out, tercel_error *err) {
  *out = (tercel_pack_format){0};
  if (kernel->packer == NULL) return TERCEL_OK;
  return kernel->packer->describe(kernel->packer, node, target, out, err);
}

static bool are_same(const tercel_pack_format *a, const tercel_pack_format *b) {
  return a->bytes == b->bytes && a->inputs == b->inputs && strcmp(a->name, b->name) == 0;
}

tercel_status tercel_kernel_check_packed(const tercel_kernel *kernel, const tercel_node *node,
                                         const tercel_target *target, const tercel_packed *packed, bool *same,
                                         tercel_error *err) {
  tercel_pack_format format;
  TERCEL_TRY(describe(kernel, node, target, &format, err));
  *same = are_same(&format, &packed->format);
  return TERCEL_OK;
}

/* The inputs that are packed must be there. */
static tercel_status pack(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                          tercel_packed *out, tercel_error *err) {
  TERCEL_TRY(tercel_storage_create_raw(out->format.bytes, &out->storage, err));
  out->data = tercel_storage_data(out->storage);
  return kernel->packer->pack(kernel->packer, node, target, &out->format, tercel_storage_data(out->storage), err);
}

tercel_status tercel_kernel_prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                                    const tercel_packed *given, tercel_kernel_state *out, tercel_error *err) {
  tercel_status status = TERCEL_OK;
  TERCEL_CHECK(describe(kernel, node, target, &out->packed.format, err));
  if (given != NULL && given->data != NULL && are_same(&given->format, &out->packed.format)) {
    out->packed.data = given->data;
    out->packed.storage = tercel_storage_retain(given->storage);
  } else if (out->packed.format.bytes > 0) {
    TERCEL_CHECK(pack(kernel, node, target, &out->packed, err));
  }
  out->packed_bytes = out->packed.format.bytes;
  if (kernel->prepare != NULL) TERCEL_CHECK(kernel->prepare(kernel, node, target, out, err));
done:
  if (status != TERCEL_OK) {
    tercel_storage_release(out->packed.storage);
    *out = (tercel_kernel_state){0};
  }
  return status;
}

void tercel_kernel_release(const tercel_kernel *kernel, tercel_kernel_state *state) {
  if (state->data != NULL && kernel->release != NULL)
    kernel->release(state->data);
  else
    tercel_free(state->data);
  tercel_storage_release(state->packed.storage);
  *state = (tercel_kernel_state){0};
}

tercel_status tercel_kernel_unpack(const tercel_kernel *kernel, const tercel_node *node, const tercel_packed *packed,
                                   uint32_t input, tercel_storage **out, tercel_error *err) {
  const tercel_value *const value = tercel_node_input(node, input);
  if (kernel->packer == NULL || kernel->packer->unpack == NULL || input >= 32 || value == NULL ||
      value->constant == NULL || !(packed->format.inputs & (1u << input)))
    return tercel_fail(err, TERCEL_INVALID_MODEL, "%s '%s': input %u is not packed as %s by %s", node->op->name,
                       node->name, input, packed->format.name, kernel->name);
  tercel_storage *storage;
  TERCEL_TRY(tercel_storage_create_raw(value->constant->bytes, &storage, err));
  const tercel_status status =
      kernel->packer->unpack(kernel->packer, node, packed, input, tercel_storage_data(storage), err);
  if (status == TERCEL_OK)
    *out = storage;
  else
    tercel_storage_release(storage);
  return status;
}
