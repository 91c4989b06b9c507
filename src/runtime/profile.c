/* The profile of a context: one entry a step, in the order of the plan's rows. */
#include "runtime/profile.h"

#include <stdio.h>
#include <string.h>

typedef struct filling {
  tercel_profile *profile;
  bool failed;
} filling;

static void fill_entry(const tercel_step *step, int depth, void *user) {
  (void)depth;
  filling *const fill = user;
  tercel_text sources = {0};
  for (uint32_t i = 0; i < step->node->num_sources; ++i)
    tercel_text_add(&sources, i > 0 ? " + %s" : "%s", step->node->sources[i]);
  if (sources.data == NULL) tercel_text_add(&sources, "%s", step->node->name);
  fill->failed |= sources.failed;
  fill->profile->entries[step->row] = (tercel_profile_entry){.step = step, .sources = sources.data, .rank = -1};
}

tercel_status tercel_profile_create(const tercel_plan *plan, tercel_profile **out, tercel_error *err) {
  tercel_profile *const profile = tercel_zalloc(sizeof *profile);
  if (profile == NULL) return tercel_fail_memory(err, sizeof *profile, "the profile");
  profile->num_entries = plan->num_rows;
  profile->entries = tercel_zalloc_array((size_t)plan->num_rows + 1, sizeof *profile->entries);
  filling fill = {profile, profile->entries == NULL};
  if (!fill.failed) tercel_plan_visit(plan, fill_entry, &fill);
  if (fill.failed) {
    tercel_profile_destroy(profile);
    return tercel_fail_memory(err, plan->num_rows * sizeof *profile->entries, "the profile");
  }
  *out = profile;
  return TERCEL_OK;
}

void tercel_profile_destroy(tercel_profile *profile) {
  if (profile == NULL) return;
  for (size_t i = 0; profile->entries != NULL && i < profile->num_entries; ++i)
    tercel_free(profile->entries[i].sources);
  tercel_free(profile->entries);
  tercel_free(profile);
}

void tercel_profile_reset(tercel_profile *profile) {
  for (size_t i = 0; i < profile->num_entries; ++i) {
    profile->entries[i].num_runs = 0;
    profile->entries[i].total_ns = 0;
  }
}

static void count_cost(tercel_profile_entry *entry, const tercel_kernel_run *run) {
  const tercel_op *const op = run->node->op;
  entry->flops = entry->bytes = 0;
  bool complete = true; /* no lists, which have no size here */
  for (size_t i = 0; i < run->num_inputs; ++i) {
    if (run->in[i] != NULL) entry->bytes += (double)run->in[i]->bytes;
    complete &= run->in[i] != NULL || run->node->inputs[i] == NULL;
  }
  for (size_t i = 0; i < run->num_outputs; ++i) {
    if (run->out[i] != NULL) entry->bytes += (double)run->out[i]->bytes;
    complete &= run->out[i] != NULL || run->node->outputs[i] == NULL;
  }
  if (!complete || op->flags & TERCEL_OP_CONTROL || run->num_outputs == 0 || run->out[0] == NULL) return;
  entry->flops = op->flops != NULL ? op->flops(run->node, run->in, (const tercel_tensor *const *)run->out)
                                   : (double)tercel_tensor_num_elements(run->out[0]);
}

/* Costs are counted again only when the output's shape has changed: they follow from shapes, and this is called for every step. */
void tercel_profile_add(tercel_profile *profile, const tercel_step *step, const tercel_kernel_run *run, int64_t ns) {
  tercel_profile_entry *const entry = &profile->entries[step->row];
  const tercel_tensor *const out = run->num_outputs > 0 ? run->out[0] : NULL;
  const bool has_shape = out != NULL && out->rank >= 0;
  const bool same = entry->num_runs > 0 && has_shape && entry->rank == out->rank &&
                    memcmp(entry->dims, out->dims, (size_t)out->rank * sizeof *out->dims) == 0;
  if (!same && has_shape) {
    entry->rank = out->rank;
    memcpy(entry->dims, out->dims, sizeof entry->dims);
    count_cost(entry, run);
  }
  ++entry->num_runs;
  entry->total_ns += ns;
  entry->kernel = run->kernel;
}

bool tercel_profile_get(const tercel_profile *profile, size_t index, tercel_profile_row *out) {
  if (index >= profile->num_entries) return false;
  tercel_profile_entry *const entry = &profile->entries[index];
  size_t at = 0;
  entry->shape[0] = 0;
  for (int d = 0; d < entry->rank; ++d) {
    const int length =
        snprintf(entry->shape + at, sizeof entry->shape - at, d > 0 ? "x%lld" : "%lld", (long long)entry->dims[d]);
    if (length > 0 && (size_t)length < sizeof entry->shape - at) at += (size_t)length;
  }
  const tercel_step *const step = entry->step;
  *out = (tercel_profile_row){.name = step->node->name,
                              .op = step->node->op->name,
                              .tactic = entry->kernel != NULL ? entry->kernel->name : tercel_step_tactic(step),
                              .sources = entry->sources,
                              .shape = entry->shape,
                              .num_runs = entry->num_runs,
                              .total_us = (double)entry->total_ns / 1e3,
                              .flops = entry->flops,
                              .bytes = entry->bytes};
  return true;
}
