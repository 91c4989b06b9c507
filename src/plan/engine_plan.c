/* What an engine file holds beside the graph, read back: names, metadata, the choice of each step, profiles, checks. */
#include <string.h>

#include "plan/engine_file.h"

#define BAD(err, ...) tercel_fail((err), TERCEL_INVALID_MODEL, __VA_ARGS__)

static tercel_bytes open_section(const tercel_engine_file *file, tercel_section section) {
  const tercel_section_bytes *const s = &file->sections[section];
  return (tercel_bytes){s->data, s->data + s->bytes, false};
}

/* ---- texts ---- */

tercel_status tercel_engine_get_names(const tercel_engine_file *file, tercel_name_table *out, tercel_error *err) {
  const tercel_section_bytes *const s = &file->sections[TERCEL_SECTION_NAMES];
  uint32_t count = 0;
  if (s->bytes > UINT32_MAX || (s->bytes > 0 && s->data[s->bytes - 1] != 0))
    return BAD(err, "section 'names' does not end with a name");
  for (const uint8_t *at = s->data; at < s->data + s->bytes; at += strlen((const char *)at) + 1) ++count;
  *out = (tercel_name_table){.names = tercel_alloc_array((size_t)count + 1, sizeof(char *))};
  if (out->names == NULL) return tercel_fail_memory(err, count * sizeof(char *), "an engine's names");
  for (const uint8_t *at = s->data; at < s->data + s->bytes; at += strlen((const char *)at) + 1)
    out->names[out->count++] = (const char *)at;
  return TERCEL_OK;
}

const char *tercel_get_name(tercel_bytes *in, const tercel_name_table *names) {
  const uint64_t number = tercel_get_number(in);
  if (!in->failed && number < names->count) return names->names[number];
  in->failed = true;
  return "";
}

int tercel_engine_file_metadata(const tercel_engine_file *file, size_t index, const char **key, const char **value) {
  const tercel_section_bytes *const s = &file->sections[TERCEL_SECTION_METADATA];
  const char *at = (const char *)s->data;
  size_t left = s->bytes;
  for (size_t i = 0;; ++i) {
    const char *const texts = at;
    for (int t = 0; t < 2; ++t) {
      const char *const end = left > 0 ? memchr(at, 0, left) : NULL;
      if (end == NULL) return 0;
      left -= (size_t)(end + 1 - at);
      at = end + 1;
    }
    if (i < index) continue;
    *key = texts;
    *value = texts + strlen(texts) + 1;
    return 1;
  }
}

const char *tercel_engine_file_fact(const tercel_engine_file *file, const char *key) {
  const char *is, *value;
  for (size_t i = 0; tercel_engine_file_metadata(file, i, &is, &value); ++i)
    if (strcmp(is, key) == 0) return value;
  return NULL;
}

/* ---- steps ---- */

static tercel_status get_packed(tercel_bytes *in, const tercel_engine_file *file, const tercel_name_table *names,
                                tercel_packed *out, tercel_error *err) {
  const tercel_section_bytes *const weights = &file->sections[TERCEL_SECTION_WEIGHTS];
  const char *const name = tercel_get_name(in, names);
  const uint64_t bytes = tercel_get_below(in, weights->bytes);
  const uint64_t inputs = tercel_get_below(in, UINT32_MAX);
  const uint64_t offset = tercel_get_below(in, weights->bytes / TERCEL_ALIGNMENT) * TERCEL_ALIGNMENT;
  if (in->failed || strlen(name) >= TERCEL_PACK_NAME_MAX || bytes > weights->bytes - offset)
    return BAD(err, "packed weights do not fit section 'weights'");
  *out = (tercel_packed){.format = {.bytes = (size_t)bytes, .inputs = (uint32_t)inputs}};
  memcpy(out->format.name, name, strlen(name) + 1);
  if (weights->data == NULL) return TERCEL_OK;
  out->data = weights->data + offset;
  out->storage = file->file;
  return TERCEL_OK;
}

tercel_status tercel_engine_get_choices(const tercel_engine_file *file, const tercel_name_table *names,
                                        tercel_plan_given **out, uint32_t *count_out, tercel_error *err) {
  tercel_bytes in = open_section(file, TERCEL_SECTION_PLAN);
  const uint32_t count = tercel_get_count(&in);
  tercel_plan_given *const given = tercel_zalloc_array((size_t)count + 1, sizeof *given);
  if (given == NULL) return tercel_fail_memory(err, count * sizeof *given, "an engine's plan");
  tercel_status status = TERCEL_OK;
  for (uint32_t i = 0; i < count && !in.failed; ++i) {
    const uint64_t flags = tercel_get_below(&in, 3);
    given[i].kernel = tercel_get_name(&in, names);
    given[i].is_tuned = (flags & 2) != 0;
    if (flags & 1) TERCEL_CHECK(get_packed(&in, file, names, &given[i].packed, err));
  }
  if (in.failed || in.at != in.end) status = BAD(err, "section 'plan' does not end with its last step");
done:
  if (status != TERCEL_OK) {
    tercel_free(given);
    return status;
  }
  *out = given;
  *count_out = count;
  return TERCEL_OK;
}

/* ---- profiles and checks ---- */

static bool range_fits(const tercel_shape_range *range) {
  for (int d = 0; d < range->rank; ++d)
    if (range->dims[TERCEL_PROFILE_MIN][d] > range->dims[TERCEL_PROFILE_OPT][d] ||
        range->dims[TERCEL_PROFILE_OPT][d] > range->dims[TERCEL_PROFILE_MAX][d])
      return false;
  return true;
}

static tercel_shape_range get_range(tercel_bytes *in) {
  tercel_shape_range range = {.rank = -1};
  const int64_t rank = tercel_get_signed(in);
  in->failed |= rank < -1 || rank > TERCEL_MAX_RANK;
  if (in->failed) return range;
  range.rank = (int)rank;
  for (int p = 0; p < TERCEL_NUM_PROFILE_POINTS; ++p)
    for (int d = 0; d < range.rank; ++d) range.dims[p][d] = (int64_t)tercel_get_below(in, INT64_MAX);
  return range;
}

tercel_status tercel_engine_get_profiles(const tercel_engine_file *file, const tercel_graph *graph,
                                         tercel_profiles *out, tercel_error *err) {
  tercel_bytes in = open_section(file, TERCEL_SECTION_PROFILES);
  const uint32_t count = tercel_get_count(&in);
  *out = (tercel_profiles){0};
  if (count == 0 && !in.failed && in.at == in.end) return TERCEL_OK;
  if (tercel_get_number(&in) != graph->num_inputs || in.failed)
    return BAD(err, "section 'profiles' is of other inputs than the graph's");
  const size_t num_ranges = (size_t)count * graph->num_inputs;
  if (num_ranges > (size_t)(in.end - in.at)) return BAD(err, "section 'profiles' ends too soon");
  tercel_shape_range *const ranges = tercel_alloc_array(num_ranges + 1, sizeof *ranges);
  if (ranges == NULL) return tercel_fail_memory(err, num_ranges * sizeof *ranges, "profiles");
  bool fits = true;
  for (size_t i = 0; i < num_ranges; ++i) {
    const tercel_type *const type = &graph->inputs[i % graph->num_inputs]->type;
    ranges[i] = get_range(&in);
    fits = fits && range_fits(&ranges[i]) &&
           (ranges[i].rank < 0 || (type->kind == TERCEL_TYPE_TENSOR && type->shape.rank == ranges[i].rank));
  }
  if (in.failed || in.at != in.end || !fits) {
    tercel_free(ranges);
    return BAD(err, "section 'profiles' has a shape that no input can have");
  }
  *out = (tercel_profiles){.count = count, .num_inputs = graph->num_inputs, .ranges = ranges};
  return TERCEL_OK;
}

static tercel_difference get_difference(tercel_bytes *in) {
  tercel_difference d = {.compared = (int)tercel_get_below(in, 1)};
  if (!d.compared) return d;
  d.error = tercel_get_f64(in);
  d.limit = tercel_get_f64(in);
  d.largest = tercel_get_f64(in);
  return d;
}

tercel_status tercel_engine_get_checks(const tercel_engine_file *file, uint32_t num_rows, tercel_verification *out,
                                       tercel_error *err) {
  tercel_bytes in = open_section(file, TERCEL_SECTION_CHECKS);
  *out = (tercel_verification){0};
  const uint32_t count = tercel_get_count(&in);
  if (in.failed || (count != 0 && count != num_rows))
    return BAD(err, "section 'checks' is of other steps than the plan's");
  if (count > 0) {
    out->rows = tercel_zalloc_array(count, sizeof *out->rows);
    if (out->rows == NULL) return tercel_fail_memory(err, count * sizeof *out->rows, "an engine's checks");
    out->num_rows = count;
  }
  for (uint32_t i = 0; i < count; ++i) {
    out->rows[i].reference = get_difference(&in);
    out->rows[i].file = get_difference(&in);
  }
  if (!in.failed && in.at == in.end) return TERCEL_OK;
  tercel_verification_deinit(out);
  return BAD(err, "section 'checks' does not end with its last step");
}
