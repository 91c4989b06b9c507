/* See tactic.h. */
#include "plan/tactic.h"

#include <string.h>

/* ---- packings ------------------------------------------------------------------------------------------------------ */

tercel_status tercel_packing_create(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                                    const tercel_packed *given, tercel_packing **out, tercel_error *err) {
  tercel_packing *const packing = tercel_zalloc(sizeof *packing);
  if (packing == NULL) return tercel_fail_memory(err, sizeof *packing, "a tactic");
  atomic_init(&packing->refs, 1);
  packing->kernel = kernel;
  const tercel_status status = tercel_kernel_prepare(kernel, node, target, given, &packing->state, err);
  if (status != TERCEL_OK) {
    tercel_free(packing);
    return status;
  }
  *out = packing;
  return TERCEL_OK;
}

tercel_packing *tercel_packing_retain(tercel_packing *packing) {
  if (packing != NULL) atomic_fetch_add_explicit(&packing->refs, 1, memory_order_relaxed);
  return packing;
}

void tercel_packing_release(tercel_packing *packing) {
  if (packing == NULL || atomic_fetch_sub_explicit(&packing->refs, 1, memory_order_acq_rel) > 1) return;
  tercel_kernel_release(packing->kernel, &packing->state);
  tercel_free(packing);
}

/* ---- rules --------------------------------------------------------------------------------------------------------- */

tercel_status tercel_tactic_rules_init(const tercel_backend *backend, const tercel_target *target,
                                       const tercel_timing_cache *cache, tercel_tactic_rules *out, tercel_error *err) {
  tercel_text machine = {0};
  tercel_text_add(&machine, "%s, %s, %d thread%s", tercel_cpu_name(), tercel_cpu_level_name(tercel_cpu_current()),
                  target->num_threads, target->num_threads == 1 ? "" : "s");
  if (target->deterministic) tercel_text_add(&machine, ", deterministic"); /* other kernels, other times */
  if (machine.failed) return tercel_fail_memory(err, 0, "the machine's name");
  for (char *at = machine.data; *at != 0; ++at)
    if ((unsigned char)*at < ' ') *at = ' '; /* tabs part columns */
  *out = (tercel_tactic_rules){.backend = backend, .target = *target, .cache = cache, .machine = machine.data};
  return TERCEL_OK;
}

void tercel_tactic_rules_deinit(tercel_tactic_rules *rules) { tercel_free(rules->machine); }

/* ---- the list ------------------------------------------------------------------------------------------------------ */

static bool is_known(const tercel_value *value) {
  return value == NULL || (value->type.kind == TERCEL_TYPE_TENSOR && tercel_shape_is_known(&value->type.shape));
}

static bool has_free_dims(const tercel_node *node) {
  bool known = true;
  for (uint32_t i = 0; i < node->num_inputs; ++i) known = known && is_known(node->inputs[i]);
  for (uint32_t i = 0; i < node->num_outputs; ++i) known = known && is_known(node->outputs[i]);
  return !known;
}

/* Number `*at` of the kernels that support the node, from there on; NULL: no more.  The first always counts, others where they have an estimate to
 * be weighed by.  All write their output over the same inputs, so that memory can be planned before one is chosen. */
static const tercel_kernel *next_kernel(const tercel_backend *backend, const tercel_node *node,
                                        const tercel_target *target, const tercel_kernel *first, size_t *at) {
  const tercel_kernel *kernel;
  while ((kernel = backend->kernel(node, (*at)++)) != NULL) {
    if (first != NULL && (kernel->cost == NULL || first->cost == NULL || kernel->inplace != first->inplace)) continue;
    if (first != NULL && !tercel_kernel_stands_in(kernel, first, target)) continue;
    if (tercel_kernel_supports(kernel, node, target)) return kernel;
  }
  return NULL;
}

static uint32_t count_kernels(const tercel_backend *backend, const tercel_node *node, const tercel_target *target) {
  uint32_t count = 0;
  size_t at = 0;
  const tercel_kernel *first = NULL, *kernel;
  while ((kernel = next_kernel(backend, node, target, first, &at)) != NULL) {
    if (first == NULL) first = kernel;
    ++count;
  }
  return count;
}

tercel_status tercel_tactics_init(const tercel_backend *backend, const tercel_node *node, const tercel_target *target,
                                  tercel_tactics *out, tercel_error *err) {
  *out = (tercel_tactics){.has_free_dims = has_free_dims(node)};
  const uint32_t count = count_kernels(backend, node, target);
  if (count == 0) return TERCEL_OK;
  out->kernels = tercel_zalloc_array(count, sizeof(tercel_kernel *));
  out->packings = tercel_zalloc_array(count, sizeof(tercel_packing *));
  if (out->kernels == NULL || out->packings == NULL) {
    tercel_tactics_deinit(out);
    return tercel_fail_memory(err, count * sizeof(tercel_kernel *), "tactics");
  }
  size_t at = 0;
  for (; out->count < count; ++out->count)
    out->kernels[out->count] = next_kernel(backend, node, target, out->count > 0 ? out->kernels[0] : NULL, &at);
  return TERCEL_OK;
}

void tercel_tactics_deinit(tercel_tactics *tactics) {
  for (uint32_t i = 0; tactics->packings != NULL && i < tactics->count; ++i)
    tercel_packing_release(tactics->packings[i]);
  tercel_free(tactics->kernels);
  tercel_free(tactics->packings);
  *tactics = (tercel_tactics){0};
}

bool tercel_kernels_share(const tercel_kernel *a, const tercel_kernel *b) {
  return a == b || (a->packing != NULL && b->packing != NULL && strcmp(a->packing, b->packing) == 0);
}

void tercel_tactics_install(tercel_tactics *tactics, uint32_t index, tercel_packing *packing) {
  for (uint32_t i = 0; i < tactics->count; ++i) {
    if (tactics->packings[i] != NULL || !tercel_kernels_share(tactics->kernels[i], tactics->kernels[index])) continue;
    tactics->packings[i] = tercel_packing_retain(packing);
  }
}

void tercel_tactics_drop_others(tercel_tactics *tactics, uint32_t keep) {
  for (uint32_t i = 0; i < tactics->count; ++i) {
    if (tercel_kernels_share(tactics->kernels[i], tactics->kernels[keep])) continue;
    tercel_packing_release(tactics->packings[i]);
    tactics->packings[i] = NULL;
  }
}

static bool is_prepared(const tercel_tactics *tactics, uint32_t i) {
  return tactics->packings[i] != NULL || !tercel_kernel_has_state(tactics->kernels[i]);
}

bool tercel_node_has_constants(const tercel_node *node) {
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    const tercel_value *const value = node->inputs[i];
    if (value == NULL || value->constant == NULL) continue;
    if (value->constant->data == NULL && value->constant->bytes > 0) return false;
  }
  return true;
}

/* ---- the choice ---------------------------------------------------------------------------------------------------- */

/* The share by which a tactic must be faster than those before it. */
static const double a_hair = 0.97;

typedef struct question {
  const tercel_tactics *tactics;
  const tercel_node *node;
  const tercel_tactic_rules *rules;
  const tercel_tensor *const *in, *const *out;
  bool has_constants;
} question;

static bool can_run(const question *q, uint32_t i) { return is_prepared(q->tactics, i) || q->has_constants; }

static bool choose_by_times(const question *q, uint32_t *out) {
  if (q->rules->cache == NULL || tercel_timing_cache_count(q->rules->cache) == 0) return false;
  tercel_text signature = {0};
  tercel_step_signature(q->node, q->in, q->out, &signature);
  int64_t best = 0, ns;
  bool found = false;
  for (uint32_t i = 0; !signature.failed && i < q->tactics->count; ++i) {
    if (!can_run(q, i)) continue;
    if (!tercel_timing_cache_get(q->rules->cache, q->rules->machine, signature.data, q->tactics->kernels[i]->name, &ns))
      continue;
    if (found && (double)ns >= a_hair * (double)best) continue;
    found = true;
    best = ns;
    *out = i;
  }
  tercel_text_deinit(&signature);
  return found;
}

/* only_prepared: among those that run with the usual packing, not with any that is there, so that no choice hangs on earlier ones. */
static uint32_t choose_by_cost(const question *q, bool only_prepared) {
  const tercel_kernel *const usual = q->tactics->kernels[q->tactics->chosen];
  uint32_t best = UINT32_MAX;
  double best_cost = 0;
  for (uint32_t i = 0; i < q->tactics->count; ++i) {
    const tercel_kernel *const kernel = q->tactics->kernels[i];
    if (only_prepared ? tercel_kernel_has_state(kernel) && !tercel_kernels_share(kernel, usual) : !can_run(q, i))
      continue;
    const double cost =
        tercel_kernel_cost(q->rules->backend, q->tactics->kernels[i], q->node, q->in, q->out, &q->rules->target);
    if (best != UINT32_MAX && cost >= a_hair * best_cost) continue;
    best = i;
    best_cost = cost;
  }
  return best != UINT32_MAX ? best : q->tactics->chosen;
}

uint32_t tercel_tactics_choose(const tercel_tactics *tactics, const tercel_node *node, const tercel_tactic_rules *rules,
                               const tercel_tensor *const *in, const tercel_tensor *const *out, bool only_prepared,
                               bool *tuned_out) {
  const question q = {tactics, node, rules, in, out, tercel_node_has_constants(node)};
  uint32_t index;
  const bool tuned = choose_by_times(&q, &index);
  if (tuned_out != NULL) *tuned_out = tuned;
  return tuned ? index : choose_by_cost(&q, only_prepared);
}

/* ---- signatures ---------------------------------------------------------------------------------------------------- */

int64_t tercel_bucket_of(int64_t size) {
  if (size <= 4) return size;
  int64_t power = 4;
  while (power < size / 2 + size % 2) power *= 2; /* power < size <= 2 * power */
  return size <= power + power / 2 ? power + power / 2 : 2 * power;
}

static void add_operand(const tercel_value *value, const tercel_tensor *tensor, tercel_text *text) {
  if (value == NULL || tensor == NULL) {
    tercel_text_add(text, "-");
    return;
  }
  tercel_text_add(text, "%s[", tercel_dtype_name(tensor->dtype));
  for (int d = 0; d < tensor->rank; ++d) {
    const bool is_free = d >= value->type.shape.rank || !tercel_dim_is_known(value->type.shape.dims[d]);
    const int64_t size = is_free ? tercel_bucket_of(tensor->dims[d]) : tensor->dims[d];
    tercel_text_add(text, d > 0 ? ",%lld" : "%lld", (long long)size);
  }
  tercel_text_add(text, value->constant != NULL ? "]*" : "]");
}

void tercel_step_signature(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *const *out,
                           tercel_text *text) {
  tercel_text_add(text, "%s", node->op->name);
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    tercel_text_add(text, " ");
    add_operand(node->inputs[i], in[i], text);
  }
  tercel_text_add(text, " ->");
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    tercel_text_add(text, " ");
    add_operand(node->outputs[i], out[i], text);
  }
  for (uint32_t i = 0; i < node->num_attrs; ++i) {
    tercel_text_add(text, i > 0 ? ", " : "  ");
    tercel_attr_print(&node->attrs[i], text);
  }
}
