/* Runs a pass that is a table of rules. */
#include "optimize/rules.h"

static tercel_status try_rules(tercel_node *node, const tercel_rule *rules, tercel_pass_context *context,
                               tercel_error *err) {
  const bool changed_before = context->changed;
  const int op = node->op->id;
  tercel_status status = TERCEL_OK;
  context->changed = false;
  for (const tercel_rule *rule = rules; rule->name && !context->changed && status == TERCEL_OK; rule++)
    if (rule->op == op || rule->op == TERCEL_ANY_OP) status = rule->apply(context, rule->name, node, err);
  context->changed |= changed_before;
  return status;
}

/* What nobody reads is on its way out: rewriting it again would never end. */
static bool is_read(const tercel_node *node) {
  for (uint32_t i = 0; i < node->num_outputs; i++)
    if (node->outputs[i] && tercel_value_num_uses(node->outputs[i])) return true;
  return false;
}

tercel_status tercel_run_rules(tercel_graph *graph, const tercel_rule *rules, tercel_pass_context *context,
                               tercel_error *err) {
  for (tercel_node *node = graph->first, *next; node; node = next) {
    next = node->next;
    if (is_read(node)) TERCEL_TRY(try_rules(node, rules, context, err));
  }
  return TERCEL_OK;
}
