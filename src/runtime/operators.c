/* Registering users' operators: what is tercel's own already is refused, unless it is said to be replaced. */
#include "runtime/runtime.h"

tercel_status tercel_operators_add(tercel_operators *operators, const tercel_operator *op, tercel_error *err) {
  TERCEL_TRY(tercel_check_size(op->size, sizeof *op, "tercel_operator", err));
  const char *const domain = op->domain != NULL ? op->domain : "";
  if (op->name != NULL && !(op->flags & TERCEL_OPERATOR_REPLACES) && tercel_import_has_operator(domain, op->name))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                       "operator %s of domain '%s' is one that tercel has: TERCEL_OPERATOR_REPLACES is to be set if "
                       "another shall stand in for it",
                       op->name, domain);
  return tercel_operators_insert(operators, op, err);
}
