/* Sets of users' operators: counted, added to and searched under a lock.  What an operator then does: custom.c. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "ops/custom.h"

struct tercel_operators {
  atomic_uint refs;
  pthread_mutex_t mutex; /* over what follows; what was added never moves or changes */
  tercel_arena memory;
  tercel_custom *first;
};

tercel_status tercel_operators_create(tercel_operators **out, tercel_error *err) {
  tercel_operators *const operators = tercel_zalloc(sizeof *operators);
  if (operators == NULL) return tercel_fail_memory(err, sizeof *operators, "a set of operators");
  if (pthread_mutex_init(&operators->mutex, NULL) != 0) {
    tercel_free(operators);
    return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no lock for a set of operators");
  }
  atomic_init(&operators->refs, 1);
  *out = operators;
  return TERCEL_OK;
}

tercel_operators *tercel_operators_retain(tercel_operators *operators) {
  if (operators != NULL) atomic_fetch_add_explicit(&operators->refs, 1, memory_order_relaxed);
  return operators;
}

void tercel_operators_destroy(tercel_operators *operators) {
  if (operators == NULL || atomic_fetch_sub_explicit(&operators->refs, 1, memory_order_acq_rel) > 1) return;
  for (const tercel_custom *custom = operators->first; custom != NULL; custom = custom->next)
    if (custom->is.release != NULL) custom->is.release(custom->is.user);
  pthread_mutex_destroy(&operators->mutex);
  tercel_arena_deinit(&operators->memory);
  tercel_free(operators);
}

/* ---- searching ----------------------------------------------------------------------------------------------------- */

static const char *plain_domain(const char *domain) {
  return domain == NULL || strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

static bool is_named(const tercel_custom *custom, const char *domain, const char *name) {
  return strcmp(custom->is.name, name) == 0 && strcmp(custom->is.domain, plain_domain(domain)) == 0;
}

const tercel_custom *tercel_operators_find(tercel_operators *operators, const char *domain, const char *name,
                                           int64_t version, const tercel_custom **other) {
  const tercel_custom *found = NULL;
  if (other != NULL) *other = NULL;
  if (operators == NULL) return NULL;
  pthread_mutex_lock(&operators->mutex);
  for (const tercel_custom *custom = operators->first; custom != NULL && found == NULL; custom = custom->next) {
    if (!is_named(custom, domain, name)) continue;
    if (version >= custom->is.first_version && (custom->is.last_version == 0 || version <= custom->is.last_version))
      found = custom;
    else if (other != NULL)
      *other = custom;
  }
  pthread_mutex_unlock(&operators->mutex);
  return found;
}

/* ---- adding -------------------------------------------------------------------------------------------------------- */

static tercel_status check_counts(const tercel_operator *op, tercel_error *err) {
  if (op->first_version < 0 || op->last_version < 0 || (op->last_version > 0 && op->last_version < op->first_version))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "versions %d to %d", op->first_version, op->last_version);
  if (op->min_inputs < 0 || op->max_inputs < -1 || (op->max_inputs >= 0 && op->max_inputs < op->min_inputs))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%d to %d inputs", op->min_inputs, op->max_inputs);
  if (op->min_outputs < 1 || op->max_outputs < -1 || (op->max_outputs >= 0 && op->max_outputs < op->min_outputs))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%d to %d outputs, want at least 1", op->min_outputs,
                       op->max_outputs);
  return TERCEL_OK;
}

static tercel_status check_attributes(const tercel_operator *op, tercel_error *err) {
  if (op->num_attributes > 0 && op->attributes == NULL)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%zu attributes at NULL", op->num_attributes);
  for (size_t i = 0; i < op->num_attributes; ++i) {
    const tercel_attribute *const a = &op->attributes[i];
    if (a->name == NULL || a->name[0] == 0)
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "attribute %zu has no name", i);
    if ((unsigned)a->type > TERCEL_ATTRIBUTE_STRINGS)
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "attribute '%s' is of no type there is: %d", a->name,
                         (int)a->type);
    for (size_t k = 0; k < i; ++k)
      if (strcmp(op->attributes[k].name, a->name) == 0)
        return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "attribute '%s' is listed twice", a->name);
  }
  return TERCEL_OK;
}

static tercel_status check_operator(const tercel_operator *op, tercel_error *err) {
  const unsigned flags = TERCEL_OPERATOR_PURE | TERCEL_OPERATOR_SHAPES | TERCEL_OPERATOR_REPLACES;
  TERCEL_TRY(check_counts(op, err));
  TERCEL_TRY(check_attributes(op, err));
  if (op->flags & ~flags) return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "flags 0x%x are not known", op->flags);
  if (op->run == NULL) return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "it has no run");
  if (op->infer == NULL && op->min_inputs == 0)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                       "it needs infer: without it outputs have the dtype of input 0, which may be absent");
  return TERCEL_OK;
}

static bool overlap(const tercel_operator *a, const tercel_operator *b) {
  return (b->last_version == 0 || a->first_version <= b->last_version) &&
         (a->last_version == 0 || b->first_version <= a->last_version);
}

static tercel_status copy_operator(const tercel_operator *op, tercel_arena *memory, tercel_operator *out,
                                   tercel_error *err) {
  *out = *op;
  tercel_attribute *const attributes =
      tercel_arena_copy(memory, op->attributes, op->num_attributes * sizeof *attributes);
  out->domain = tercel_arena_strdup(memory, plain_domain(op->domain));
  out->name = tercel_arena_strdup(memory, op->name);
  out->attributes = attributes;
  bool copied = attributes != NULL && out->domain != NULL && out->name != NULL;
  for (size_t i = 0; copied && i < op->num_attributes; ++i) {
    attributes[i].name = tercel_arena_strdup(memory, op->attributes[i].name);
    copied = attributes[i].name != NULL;
  }
  return copied ? TERCEL_OK : tercel_fail_memory(err, 0, "an operator");
}

static tercel_status insert(tercel_operators *operators, const tercel_operator *op, tercel_error *err) {
  for (const tercel_custom *custom = operators->first; custom != NULL; custom = custom->next)
    if (is_named(custom, op->domain, op->name) && overlap(&custom->is, op))
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "the set has one for versions %d to %d already",
                         custom->is.first_version, custom->is.last_version);
  tercel_custom *const custom = tercel_arena_alloc(&operators->memory, sizeof *custom);
  if (custom == NULL) return tercel_fail_memory(err, sizeof *custom, "an operator");
  TERCEL_TRY(copy_operator(op, &operators->memory, &custom->is, err));
  TERCEL_TRY(tercel_custom_init(custom, &operators->memory, err));
  custom->next = operators->first;
  operators->first = custom;
  return TERCEL_OK;
}

tercel_status tercel_operators_insert(tercel_operators *operators, const tercel_operator *op, tercel_error *err) {
  if (op->name == NULL || op->name[0] == 0) return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "an operator has no name");
  tercel_status status = check_operator(op, err);
  if (status == TERCEL_OK) {
    pthread_mutex_lock(&operators->mutex);
    status = insert(operators, op, err);
    pthread_mutex_unlock(&operators->mutex);
  }
  const char *const domain = plain_domain(op->domain);
  return status == TERCEL_OK ? status
                             : tercel_fail_at(err, status, "operator %s%s%s", domain, domain[0] ? "." : "", op->name);
}
