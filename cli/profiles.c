/* Optimization profiles on the command line: --min-shapes x:1x3x224x224,y:1 and so on, as trtexec writes them. */
#include <string.h>

#include "cli.h"

typedef enum point { MIN, OPT, MAX, NUM_POINTS } point;

static const char *const names[NUM_POINTS] = {"min-shapes", "opt-shapes", "max-shapes"};

static int64_t *dims_at(tercel_profile_shape *shape, point p) {
  return p == MIN ? shape->min : p == OPT ? shape->opt : shape->max;
}

/* An input's shape while it is being read. */
typedef struct draft {
  tercel_profile_shape shape;
  bool given[NUM_POINTS];
} draft;

static draft *find_draft(draft *drafts, size_t count, const tercel_cli_named_shape *named) {
  for (size_t i = 0; i < count; i++)
    if (strlen(drafts[i].shape.input) == named->name_length &&
        memcmp(drafts[i].shape.input, named->name, named->name_length) == 0)
      return &drafts[i];
  return NULL;
}

static tercel_status read_point(const char *text, point p, tercel_arena *arena, draft *drafts, size_t *count,
                                tercel_error *err) {
  tercel_cli_named_shape named;
  for (const char *at = text; *at;) {
    TERCEL_TRY(tercel_cli_next_shape(&at, names[p], &named, err));
    draft *to = find_draft(drafts, *count, &named);
    if (!to) {
      to = &drafts[(*count)++];
      to->shape = (tercel_profile_shape){.input = tercel_arena_strndup(arena, named.name, named.name_length),
                                         .rank = named.rank};
      if (!to->shape.input) return tercel_fail_memory(err, named.name_length, "a name");
    }
    if (to->given[p] || to->shape.rank != named.rank)
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "--%s: input '%s' %s", names[p], to->shape.input,
                         to->given[p] ? "is given twice" : "has another number of dims than in the other shapes");
    memcpy(dims_at(&to->shape, p), named.dims, sizeof named.dims);
    to->given[p] = true;
  }
  return TERCEL_OK;
}

/* What is left out is opt, or where that is left out max, then min. */
static void complete(draft *d) {
  static const point order[] = {OPT, MAX, MIN};
  point from = MIN;
  for (size_t i = sizeof order / sizeof *order; i-- > 0;)
    if (d->given[order[i]]) from = order[i];
  for (point p = MIN; p < NUM_POINTS; p++)
    if (!d->given[p]) memcpy(dims_at(&d->shape, p), dims_at(&d->shape, from), sizeof d->shape.min);
}

static size_t count_entries(const char *text) {
  size_t count = 1;
  for (; *text; text++) count += *text == ',';
  return count;
}

static tercel_status read_profile(const char *const *texts, tercel_arena *arena, tercel_shape_profile *out,
                                  tercel_error *err) {
  size_t most = 0, count = 0;
  for (point p = MIN; p < NUM_POINTS; p++) most += texts[p] ? count_entries(texts[p]) : 0;
  draft *const drafts = tercel_arena_alloc_array(arena, most, sizeof *drafts);
  tercel_profile_shape *const shapes = tercel_arena_alloc_array(arena, most, sizeof *shapes);
  if (!drafts || !shapes) return tercel_fail_memory(err, most * sizeof *drafts, "a profile");
  for (point p = MIN; p < NUM_POINTS; p++)
    if (texts[p]) TERCEL_TRY(read_point(texts[p], p, arena, drafts, &count, err));
  for (size_t i = 0; i < count; i++) {
    complete(&drafts[i]);
    shapes[i] = drafts[i].shape;
  }
  *out = (tercel_shape_profile){shapes, count};
  return TERCEL_OK;
}

tercel_status tercel_cli_read_profiles(const tercel_cli_engine *options, tercel_arena *arena,
                                       const tercel_shape_profile **out, size_t *count_out, tercel_error *err) {
  const tercel_cli_list *const lists[NUM_POINTS] = {&options->min_shapes, &options->opt_shapes, &options->max_shapes};
  int count = 0;
  for (point p = MIN; p < NUM_POINTS; p++)
    if (lists[p]->count > count) count = lists[p]->count;
  tercel_shape_profile *const profiles = tercel_arena_alloc_array(arena, (size_t)count, sizeof *profiles);
  if (!profiles) return tercel_fail_memory(err, (size_t)count * sizeof *profiles, "the profiles");
  for (int i = 0; i < count; i++) {
    const char *texts[NUM_POINTS];
    for (point p = MIN; p < NUM_POINTS; p++) texts[p] = i < lists[p]->count ? lists[p]->items[i] : NULL;
    TERCEL_TRY(read_profile(texts, arena, &profiles[i], err));
  }
  *out = profiles;
  *count_out = (size_t)count;
  return TERCEL_OK;
}
