/* Memory plans as SVG and as JSON. */
#include <string.h>

#include "memory.h"

static tercel_status write_out(const char *path, tercel_text *text, tercel_error *err) {
  tercel_status status = text->failed ? tercel_fail_memory(err, text->length, "the memory plan") : TERCEL_OK;
  if (status == TERCEL_OK) status = tercel_cli_write_text(path, text, err);
  tercel_text_deinit(text);
  return status;
}

/* ---- SVG ---- */

enum { LEFT = 90, TOP = 50, WIDTH = 900, HEIGHT = 420, BOTTOM = 50 };

typedef struct scale {
  double x, y; /* pixels a step and a byte */
} scale;

static double x_of(const scale *s, double step) { return LEFT + step * s->x; }
static double y_of(const scale *s, double bytes) { return TOP + HEIGHT - bytes * s->y; }

static void add_text(tercel_text *to, double x, double y, const char *anchor, const char *text) {
  tercel_text_add(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
  tercel_cli_add_xml(to, text);
  tercel_text_add(to, "</text>\n");
}

static void add_axes(tercel_text *to, const scale *s, const tercel_memory_plan_info *info, double top_bytes) {
  char label[32];
  for (int i = 0; i <= 4; i++) {
    const double bytes = top_bytes * i / 4;
    tercel_cli_format_bytes(bytes, label, sizeof label);
    tercel_text_add(to, "<path class=\"grid\" d=\"M%d %.1fh%d\"/>\n", LEFT, y_of(s, bytes), WIDTH);
    add_text(to, LEFT - 8, y_of(s, bytes) + 4, "end", label);
  }
  for (int i = 0; i <= 4; i++) {
    const double step = (double)(info->num_steps - 1) * i / 4;
    tercel_text label_text = {0};
    tercel_text_add(&label_text, "%.0f", step);
    if (label_text.data) add_text(to, x_of(s, step + 0.5), TOP + HEIGHT + 18, "middle", label_text.data);
    to->failed |= label_text.failed;
    tercel_text_deinit(&label_text);
  }
  add_text(to, LEFT + WIDTH / 2.0, TOP + HEIGHT + 38, "middle", "step");
}

static void add_blocks(tercel_text *to, const scale *s, const tercel_memory_plan *plan) {
  tercel_memory_block block;
  char bytes[32];
  for (size_t i = 0; tercel_memory_plan_get_block(plan, i, &block); i++) {
    tercel_cli_format_bytes((double)block.bytes, bytes, sizeof bytes);
    tercel_text_add(to, "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"><title>",
                    block.is_workspace ? "workspace" : "value", x_of(s, (double)block.first),
                    y_of(s, (double)(block.offset + block.bytes)), (double)(block.last - block.first + 1) * s->x,
                    (double)block.bytes * s->y);
    tercel_cli_add_xml(to, block.name);
    tercel_text_add(to, "%s: %s, steps %zu to %zu</title></rect>\n", block.is_workspace ? " (workspace)" : "", bytes,
                    block.first, block.last);
  }
}

static void add_curve(tercel_text *to, const scale *s, const tercel_memory_plan *plan) {
  tercel_memory_step step;
  tercel_text_add(to, "<path class=\"live\" d=\"");
  for (size_t i = 0; tercel_memory_plan_get_step(plan, i, &step); i++)
    tercel_text_add(to, "%c%.2f %.2fh%.2f", i ? 'L' : 'M', x_of(s, (double)i), y_of(s, (double)step.live_bytes), s->x);
  tercel_text_add(to, "\"/>\n");
}

tercel_status tercel_cli_write_memory_svg(const char *path, const tercel_memory_plan *plan, const char *model,
                                          tercel_error *err) {
  tercel_memory_plan_info info = {.size = sizeof info};
  tercel_text to = {0}, title = {0};
  char planned[32], live[32];
  TERCEL_TRY(tercel_memory_plan_get_info(plan, &info, err));
  tercel_cli_format_bytes((double)info.planned_bytes, planned, sizeof planned);
  tercel_cli_format_bytes((double)info.live_bytes, live, sizeof live);
  const double top = info.planned_bytes ? (double)info.planned_bytes : 1;
  const scale s = {WIDTH / (info.num_steps ? (double)info.num_steps : 1), HEIGHT / top};
  const char *const base = strrchr(model, '/');
  tercel_text_add(&title, "%s: %s planned, %s alive at the fullest step", base ? base + 1 : model, planned, live);
  tercel_text_add(&to, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\">\n<style>\n", LEFT + WIDTH + 20,
                  TOP + HEIGHT + BOTTOM);
  tercel_text_add(&to, "svg { background: #fff; font: 12px sans-serif; fill: #333 }\n"
                       ".grid { stroke: #ddd; fill: none } .live { stroke: #c0392b; stroke-width: 1.5; fill: none }\n"
                       ".value { fill: #7fb3d5; stroke: #fff; stroke-width: .4 }\n"
                       ".workspace { fill: #f5b041; stroke: #fff; stroke-width: .4 }\n</style>\n");
  if (title.data) add_text(&to, LEFT, 20, "start", title.data);
  add_text(&to, LEFT, 38, "start", "boxes: pieces of the arena (orange: workspaces); red: bytes alive");
  if (info.num_steps) {
    add_axes(&to, &s, &info, top);
    add_blocks(&to, &s, plan);
    add_curve(&to, &s, plan);
  }
  tercel_text_add(&to, "</svg>\n");
  to.failed |= title.failed;
  tercel_text_deinit(&title);
  return write_out(path, &to, err);
}

/* ---- JSON ---- */

static void add_string(tercel_text *to, const char *key, const char *value) {
  tercel_text_add(to, "\"%s\": ", key);
  if (value)
    tercel_text_add_json(to, value, strlen(value));
  else
    tercel_text_add(to, "null");
}

tercel_status tercel_cli_write_memory_json(const char *path, const tercel_memory_plan *plan, const char *model,
                                           tercel_error *err) {
  tercel_memory_plan_info info = {.size = sizeof info};
  tercel_memory_step step;
  tercel_memory_block block;
  tercel_text to = {0};
  TERCEL_TRY(tercel_memory_plan_get_info(plan, &info, err));
  tercel_text_add(&to, "{\n  ");
  add_string(&to, "model", model);
  tercel_text_add(&to, ",\n  \"planned_bytes\": %llu, \"live_bytes\": %llu, \"peak_step\": %zu, ",
                  (unsigned long long)info.planned_bytes, (unsigned long long)info.live_bytes, info.peak_step);
  add_string(&to, "depends_on_data_from", info.depends);
  tercel_text_add(&to, ",\n  \"steps\": [");
  for (size_t i = 0; tercel_memory_plan_get_step(plan, i, &step); i++) {
    tercel_text_add(&to, "%s\n    {", i ? "," : "");
    add_string(&to, "name", step.name);
    tercel_text_add(&to, ", ");
    add_string(&to, "operator", step.op);
    tercel_text_add(&to, ", \"live_bytes\": %llu}", (unsigned long long)step.live_bytes);
  }
  tercel_text_add(&to, "\n  ],\n  \"blocks\": [");
  for (size_t i = 0; tercel_memory_plan_get_block(plan, i, &block); i++) {
    tercel_text_add(&to, "%s\n    {", i ? "," : "");
    add_string(&to, "name", block.name);
    tercel_text_add(&to, ", \"kind\": \"%s\", \"bytes\": %llu, \"offset\": %llu, \"first\": %zu, \"last\": %zu}",
                    block.is_workspace ? "workspace" : "value", (unsigned long long)block.bytes,
                    (unsigned long long)block.offset, block.first, block.last);
  }
  tercel_text_add(&to, "\n  ]\n}\n");
  return write_out(path, &to, err);
}
