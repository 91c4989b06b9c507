/* Finding an operator by name. */
#include "ir/op.h"

#include <string.h>

const tercel_op *tercel_op_find(const tercel_op *const *ops, const char *name, size_t length) {
  for (; *ops; ops++)
    if (strlen((*ops)->name) == length && memcmp((*ops)->name, name, length) == 0) return *ops;
  return NULL;
}
