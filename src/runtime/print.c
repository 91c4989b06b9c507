/* The plan as text: a line a step, and the memory it takes where shapes are known without a run. */
#include "runtime/runtime.h"

static void print_step(const tercel_step *step, int depth, void *user) {
  tercel_text *const text = user;
  const tercel_node *const node = step->node;
  tercel_text_add(text, "%5u  %*s%-18s %-24s ", step->row, 2 * depth, "", node->op->name, tercel_step_tactic(step));
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    if (i > 0) tercel_text_add(text, ", ");
    if (node->outputs[i] != NULL)
      tercel_type_print(node->graph->dims, &node->outputs[i]->type, text);
    else
      tercel_text_add(text, "-");
  }
  tercel_text_add(text, "  %s\n", node->name);
}

/* Nothing where an input's shape is open. */
static tercel_status print_memory(const tercel_engine *engine, tercel_text *text, tercel_error *err) {
  tercel_memory_plan *plan = NULL;
  tercel_memory_plan_info info = {.size = sizeof info};
  tercel_error why = {0};
  const tercel_status status = tercel_memory_plan_create(engine, NULL, &plan, &why);
  if (status == TERCEL_INVALID_ARGUMENT) {
    tercel_text_add(text, "%s\n", why.message);
    return TERCEL_OK;
  }
  if (status != TERCEL_OK) return tercel_fail(err, status, "%s", why.message);
  tercel_memory_plan_get_info(plan, &info, NULL);
  tercel_text_add(text, "memory: arena %s, largest live set %s%s\n", tercel_amount_of(info.planned_bytes).text,
                  tercel_amount_of(info.live_bytes).text,
                  info.depends != NULL ? ", for the steps before the first that depends on data" : "");
  tercel_memory_plan_destroy(plan);
  return TERCEL_OK;
}

tercel_status tercel_print_plan(const tercel_engine *engine, tercel_text *text, tercel_error *err) {
  tercel_plan_visit(engine->plan, print_step, text);
  tercel_text_add(text, "packed weights: %s, used in place from the file: %s\n",
                  tercel_amount_of(engine->plan->packed_bytes).text, tercel_amount_of(engine->mapped_bytes).text);
  return print_memory(engine, text, err);
}
