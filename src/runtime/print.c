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

/* The first segment, bound without inputs' data; nothing where an input's shape is open. */
static tercel_status print_memory(const tercel_engine *engine, tercel_text *text, tercel_error *err) {
  const tercel_graph *const graph = engine->graph;
  tercel_runner runner = {.pool = engine->pool, .target = &engine->plan->target};
  tercel_frame *frame = NULL;
  tercel_binding *binding = NULL;
  tercel_status status = TERCEL_OK;
  for (uint32_t i = 0; i < graph->num_inputs; ++i) {
    if (graph->inputs[i]->type.kind == TERCEL_TYPE_TENSOR && tercel_shape_is_known(&graph->inputs[i]->type.shape))
      continue;
    tercel_text_add(text, "memory depends on input '%s'\n", graph->inputs[i]->name);
    return TERCEL_OK;
  }
  tercel_account_init(&runner.account, engine->max_memory);
  TERCEL_CHECK(tercel_frame_create(&runner, engine->plan, &frame, err));
  for (uint32_t i = 0; i < graph->num_inputs; ++i) {
    const tercel_type *const type = &graph->inputs[i]->type;
    if (!tercel_tensor_set_shape(&frame->inputs[i], type->dtype, type->shape.rank, type->shape.dims))
      TERCEL_CHECK(
          tercel_fail(err, TERCEL_OUT_OF_MEMORY, "input '%s' is too large to address", graph->inputs[i]->name));
  }
  TERCEL_CHECK(tercel_bind(frame, NULL, 0, &binding, err));
  tercel_text_add(text, "memory: arena %s, largest live set %s%s\n", tercel_amount_of(binding->arena_bytes).text,
                  tercel_amount_of(binding->peak_bytes).text,
                  binding->end < engine->plan->num_steps ? ", for the steps before the first that depends on data"
                                                         : "");
done:
  tercel_binding_destroy(binding);
  tercel_frame_destroy(frame);
  return status;
}

tercel_status tercel_print_plan(const tercel_engine *engine, tercel_text *text, tercel_error *err) {
  tercel_plan_visit(engine->plan, print_step, text);
  tercel_text_add(text, "packed weights: %s, used in place from the file: %s\n",
                  tercel_amount_of(engine->plan->packed_bytes).text, tercel_amount_of(engine->mapped_bytes).text);
  return print_memory(engine, text, err);
}
