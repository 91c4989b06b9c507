/* Optimization profiles read, checked and looked up. */
#include "plan/profiles.h"

#include <string.h>

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static tercel_status find_input(const tercel_graph *graph, size_t profile, const char *name, uint32_t *out,
                                tercel_error *err) {
  for (*out = 0; *out < graph->num_inputs; ++*out) {
    if (name == NULL || strcmp(graph->inputs[*out]->name, name) != 0) continue;
    if (graph->inputs[*out]->type.kind == TERCEL_TYPE_TENSOR) return TERCEL_OK;
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "profile %zu: input '%s' is no tensor, it has no shape", profile,
                       name);
  }
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "profile %zu: no input of the model is named '%s'", profile,
                     name != NULL ? name : "");
}

static tercel_status check_shape(const tercel_graph *graph, uint32_t input, size_t profile,
                                 const tercel_profile_shape *shape, tercel_error *err) {
  const tercel_shape *const want = &graph->inputs[input]->type.shape;
  const bool has_rank = shape->rank >= 0 && shape->rank <= TERCEL_MAX_RANK;
  if (!has_rank || (want->rank >= 0 && want->rank != shape->rank))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "profile %zu: input '%s' has %d dims, want %d", profile,
                       shape->input, shape->rank, want->rank >= 0 ? want->rank : TERCEL_MAX_RANK);
  for (int d = 0; d < shape->rank; ++d) {
    const int64_t min = shape->min[d], opt = shape->opt[d], max = shape->max[d];
    if (min < 0 || min > opt || opt > max)
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                         "profile %zu: dim %d of input '%s' goes from %lld over %lld to %lld, want min <= opt <= max",
                         profile, d, shape->input, (long long)min, (long long)opt, (long long)max);
    if (want->rank >= 0 && tercel_dim_is_known(want->dims[d]) && (min != want->dims[d] || max != want->dims[d]))
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                         "profile %zu: dim %d of input '%s' goes from %lld to %lld, but is always %lld", profile, d,
                         shape->input, (long long)min, (long long)max, (long long)want->dims[d]);
  }
  return TERCEL_OK;
}

static void fill(tercel_shape_range *range, const tercel_profile_shape *shape) {
  range->rank = shape->rank;
  for (int d = 0; d < shape->rank; ++d) {
    range->dims[TERCEL_PROFILE_MIN][d] = shape->min[d];
    range->dims[TERCEL_PROFILE_OPT][d] = shape->opt[d];
    range->dims[TERCEL_PROFILE_MAX][d] = shape->max[d];
  }
}

/* Dims that are one dim of the graph are one number at each point. */
static tercel_status check_same(const tercel_graph *graph, const tercel_profiles *profiles, size_t profile, uint32_t i,
                                uint32_t j, tercel_error *err) {
  const tercel_shape *const a = &graph->inputs[i]->type.shape, *const b = &graph->inputs[j]->type.shape;
  const tercel_shape_range *const x = tercel_profiles_range(profiles, profile, i), *const y = tercel_profiles_range(
                                                                                       profiles, profile, j);
  for (int d = 0; d < a->rank && d < x->rank; ++d)
    for (int e = 0; e < b->rank && e < y->rank; ++e)
      for (int p = 0; p < TERCEL_NUM_PROFILE_POINTS; ++p) {
        if (a->dims[d] != b->dims[e] || tercel_dim_is_known(a->dims[d]) || x->dims[p][d] == y->dims[p][e]) continue;
        tercel_text name = {0};
        tercel_dim_print(graph->dims, a->dims[d], &name);
        const tercel_status status = tercel_fail(
            err, TERCEL_INVALID_ARGUMENT, "profile %zu: dim '%s' is %lld in input '%s' but %lld in input '%s'", profile,
            name.data != NULL ? name.data : "?", (long long)y->dims[p][e], graph->inputs[j]->name,
            (long long)x->dims[p][d], graph->inputs[i]->name);
        tercel_text_deinit(&name);
        return status;
      }
  return TERCEL_OK;
}

static tercel_status read_profile(const tercel_graph *graph, const tercel_shape_profile *given, size_t profile,
                                  tercel_profiles *out, tercel_error *err) {
  tercel_shape_range *const ranges = &out->ranges[profile * out->num_inputs];
  for (uint32_t i = 0; i < graph->num_inputs; ++i) ranges[i].rank = -1;
  for (size_t s = 0; s < given->num_shapes; ++s) {
    uint32_t input = 0;
    TERCEL_TRY(find_input(graph, profile, given->shapes[s].input, &input, err));
    TERCEL_TRY(check_shape(graph, input, profile, &given->shapes[s], err));
    if (ranges[input].rank >= 0)
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "profile %zu: input '%s' is given twice", profile,
                         given->shapes[s].input);
    fill(&ranges[input], &given->shapes[s]);
  }
  for (uint32_t i = 0; i < graph->num_inputs; ++i)
    for (uint32_t j = 0; j <= i; ++j) TERCEL_TRY(check_same(graph, out, profile, i, j, err));
  return TERCEL_OK;
}

tercel_status tercel_profiles_init(const tercel_graph *graph, const tercel_shape_profile *given, size_t count,
                                   tercel_profiles *out, tercel_error *err) {
  *out = (tercel_profiles){.count = count, .num_inputs = graph->num_inputs};
  size_t num_ranges;
  if (tercel_mul_size(count, graph->num_inputs, &num_ranges))
    out->ranges = tercel_zalloc_array(num_ranges, sizeof *out->ranges);
  if (out->ranges == NULL && count > 0) {
    *out = (tercel_profiles){0};
    return tercel_fail_memory(err, count * sizeof *out->ranges, "the profiles");
  }
  for (size_t p = 0; p < count; ++p) {
    const tercel_status status = read_profile(graph, &given[p], p, out, err);
    if (status == TERCEL_OK) continue;
    tercel_profiles_deinit(out);
    return status;
  }
  return TERCEL_OK;
}

void tercel_profiles_deinit(tercel_profiles *profiles) {
  tercel_free(profiles->ranges);
  *profiles = (tercel_profiles){0};
}

/* ---- looking up ---------------------------------------------------------------------------------------------------- */

static bool is_inside(const tercel_shape_range *range, const tercel_tensor *tensor) {
  if (range->rank < 0) return true;
  if (range->rank != tensor->rank) return false;
  for (int d = 0; d < range->rank; ++d)
    if (tensor->dims[d] < range->dims[TERCEL_PROFILE_MIN][d] || tensor->dims[d] > range->dims[TERCEL_PROFILE_MAX][d])
      return false;
  return true;
}

static void print_range(const tercel_shape_range *range, tercel_text *text) {
  tercel_text_add(text, "[");
  for (int d = 0; d < range->rank; ++d) {
    const long long min = range->dims[TERCEL_PROFILE_MIN][d], max = range->dims[TERCEL_PROFILE_MAX][d];
    tercel_text_add(text, "%s%lld", d > 0 ? ", " : "", min);
    if (min != max) tercel_text_add(text, "..%lld", max);
  }
  tercel_text_add(text, "]");
}

/* Of the profile that takes the most inputs, the first that it does not take. */
static tercel_status nothing_fits(const tercel_profiles *profiles, const tercel_graph *graph,
                                  const tercel_tensor *inputs, tercel_error *err) {
  size_t best_profile = 0, best_input = 0;
  for (size_t p = 0; p < profiles->count; ++p) {
    size_t input = 0;
    while (is_inside(tercel_profiles_range(profiles, p, input), &inputs[input])) ++input;
    if (input <= best_input && p > 0) continue;
    best_profile = p;
    best_input = input;
  }
  tercel_text want = {0}, is = {0};
  print_range(tercel_profiles_range(profiles, best_profile, best_input), &want);
  for (int d = 0; d < inputs[best_input].rank; ++d)
    tercel_text_add(&is, "%s%lld", d > 0 ? ", " : "", (long long)inputs[best_input].dims[d]);
  const tercel_status status =
      tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                  "input '%s' is [%s], but profile %zu of %zu takes %s, and no other takes the inputs",
                  graph->inputs[best_input]->name, is.data != NULL ? is.data : "", best_profile, profiles->count,
                  want.data != NULL ? want.data : "?");
  tercel_text_deinit(&want);
  tercel_text_deinit(&is);
  return status;
}

tercel_status tercel_profiles_find(const tercel_profiles *profiles, const tercel_graph *graph,
                                   const tercel_tensor *inputs, size_t *out, tercel_error *err) {
  *out = 0;
  if (profiles->count == 0) return TERCEL_OK;
  for (; *out < profiles->count; ++*out) {
    bool fits = true;
    for (size_t i = 0; fits && i < profiles->num_inputs; ++i)
      fits = is_inside(tercel_profiles_range(profiles, *out, i), &inputs[i]);
    if (fits) return TERCEL_OK;
  }
  return nothing_fits(profiles, graph, inputs, err);
}

bool tercel_profile_value_of(void *user, const char *symbol, int64_t *out) {
  const tercel_profile_at *const at = user;
  for (uint32_t i = 0; i < at->graph->num_inputs; ++i) {
    const tercel_shape_range *const range = tercel_profiles_range(at->profiles, at->profile, i);
    const tercel_shape *const shape = &at->graph->inputs[i]->type.shape;
    for (int d = 0; d < shape->rank && d < range->rank; ++d) {
      if (tercel_dim_is_known(shape->dims[d])) continue;
      tercel_text name = {0};
      tercel_dim_print(at->graph->dims, shape->dims[d], &name);
      const bool same = name.data != NULL && strcmp(name.data, symbol) == 0;
      tercel_text_deinit(&name);
      if (!same) continue;
      *out = range->dims[at->point][d];
      return true;
    }
  }
  return false;
}
