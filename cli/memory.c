/* tercel inspect --memory: the plan made, and shown as text. */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the plan ---- */

static tercel_status plan_of_inputs(tercel_cli_session *session, const tercel_cli_data *data, tercel_memory_plan **out,
                                    tercel_error *err) {
  tercel_view *const views = tercel_zalloc_array(data->count + 1, sizeof *views);
  if (!views) return tercel_fail_memory(err, data->count * sizeof *views, "the inputs");
  for (size_t i = 0; i < data->count; i++)
    if (data->inputs[i].num_views) views[i] = data->inputs[i].views[0];
  const tercel_status status = tercel_memory_plan_create(session->engine, views, out, err);
  tercel_free(views);
  return status;
}

static bool depends_on_data(const tercel_memory_plan *plan) {
  tercel_memory_plan_info info = {.size = sizeof info};
  return tercel_memory_plan_get_info(plan, &info, NULL) == TERCEL_OK && info.depends;
}

tercel_status tercel_cli_plan_memory(tercel_cli_session *session, const tercel_cli_inputs *inputs,
                                     tercel_memory_plan **out, tercel_error *err) {
  tercel_cli_data data = {0};
  tercel_memory_plan *plan = NULL;
  tercel_status status = TERCEL_OK;
  if (!inputs->shapes.count) {
    tercel_error why = {0};
    status = tercel_memory_plan_create(session->engine, NULL, &plan, &why);
    if (status != TERCEL_OK)
      return tercel_fail(err, status, "%s%s", why.message,
                         status == TERCEL_INVALID_ARGUMENT ? ": give --shapes, --dim or --max-shapes" : "");
    if (!depends_on_data(plan)) goto done;
  }
  TERCEL_CHECK(tercel_cli_read_inputs(session->engine, inputs, &data, err));
  if (!plan) TERCEL_CHECK(plan_of_inputs(session, &data, &plan, err));
  if (!depends_on_data(plan)) goto done;
  tercel_memory_plan_destroy(plan);
  plan = NULL;
  TERCEL_CHECK(tercel_cli_first_run(session->context, &data, err));
  TERCEL_CHECK(tercel_memory_plan_of_run(session->context, &plan, err));
done:
  tercel_cli_free_inputs(&data);
  if (status == TERCEL_OK)
    *out = plan;
  else
    tercel_memory_plan_destroy(plan);
  return status;
}

/* ---- the chart ---- */

enum { CHART_WIDTH = 72, CHART_HEIGHT = 12, MAX_SHOWN = 12 };

/* The most that is alive in each column of the chart. */
static void fill_columns(const tercel_memory_plan *plan, size_t num_steps, int num_columns, uint64_t *columns) {
  tercel_memory_step step;
  for (size_t s = 0; tercel_memory_plan_get_step(plan, s, &step); s++) {
    const size_t column = s * (size_t)num_columns / num_steps;
    if (step.live_bytes > columns[column]) columns[column] = step.live_bytes;
  }
}

static void print_chart(const tercel_memory_plan *plan, const tercel_memory_plan_info *info) {
  uint64_t columns[CHART_WIDTH] = {0};
  const int width = info->num_steps < CHART_WIDTH ? (int)info->num_steps : CHART_WIDTH;
  char label[32];
  fill_columns(plan, info->num_steps, width, columns);
  for (int row = CHART_HEIGHT; row > 0; row--) {
    tercel_cli_format_bytes((double)info->live_bytes * row / CHART_HEIGHT, label, sizeof label);
    printf("%10s |", row % 3 == 0 ? label : "");
    int end = width;
    const double least = (double)info->live_bytes * (row - 0.5) / CHART_HEIGHT;
    while (end > 0 && (double)columns[end - 1] < least) end--;
    for (int c = 0; c < end; c++) putchar((double)columns[c] >= least ? '#' : ' ');
    putchar('\n');
  }
  printf("%10s +", "0 B");
  for (int c = 0; c < width; c++) putchar('-');
  printf("\n%10s  0%*zu\n", "step", width > 1 ? width - 1 : 1, info->num_steps - 1);
}

/* ---- the peak ---- */

static int larger_first(const void *left, const void *right) {
  const tercel_memory_block *const a = left, *const b = right;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static tercel_status print_peak(const tercel_memory_plan *plan, const tercel_memory_plan_info *info,
                                tercel_error *err) {
  tercel_memory_block block;
  tercel_memory_step step;
  size_t most = 0, count = 0;
  if (!tercel_memory_plan_get_step(plan, info->peak_step, &step)) return TERCEL_OK;
  while (tercel_memory_plan_get_block(plan, most, &block)) most++;
  tercel_memory_block *const alive = tercel_alloc_array(most + 1, sizeof *alive);
  if (!alive) return tercel_fail_memory(err, most * sizeof *alive, "the peak");
  for (size_t i = 0; tercel_memory_plan_get_block(plan, i, &block); i++)
    if (block.first <= info->peak_step && block.last >= info->peak_step) alive[count++] = block;
  qsort(alive, count, sizeof *alive, larger_first);
  printf("the peak is at step %zu, %s '%s':\n", info->peak_step, step.op, step.name);
  for (size_t i = 0; i < count && i < MAX_SHOWN; i++) {
    char bytes[32];
    tercel_cli_format_bytes((double)alive[i].bytes, bytes, sizeof bytes);
    printf("%10s  %s '%s', steps %zu to %zu\n", bytes, alive[i].is_workspace ? "workspace of" : "value", alive[i].name,
           alive[i].first, alive[i].last);
  }
  if (count > MAX_SHOWN) printf("%10s  and %zu smaller ones\n", "", count - MAX_SHOWN);
  tercel_free(alive);
  return TERCEL_OK;
}

tercel_status tercel_cli_print_memory_plan(const tercel_memory_plan *plan, tercel_error *err) {
  tercel_memory_plan_info info = {.size = sizeof info};
  char planned[32], live[32];
  TERCEL_TRY(tercel_memory_plan_get_info(plan, &info, err));
  tercel_cli_format_bytes((double)info.planned_bytes, planned, sizeof planned);
  tercel_cli_format_bytes((double)info.live_bytes, live, sizeof live);
  printf("planned     %s (%llu bytes)\n", planned, (unsigned long long)info.planned_bytes);
  printf("lower bound %s (%llu bytes), alive at the fullest of %zu steps\n", live, (unsigned long long)info.live_bytes,
         info.num_steps);
  if (info.batch_piece)
    printf("batch       %zu items at a time, so that what they hand from step to step stays in the cache\n",
           info.batch_piece);
  if (info.depends)
    printf("not told    the steps from '%s' on: their memory depends on data, --shapes runs them\n", info.depends);
  if (!info.num_steps || !info.live_bytes) return TERCEL_OK;
  print_chart(plan, &info);
  return print_peak(plan, &info, err);
}
