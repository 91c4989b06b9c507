/* Patterns of several nodes. */
#include "optimize/pattern.h"

#include <stdio.h>

bool tercel_pattern_miss(const tercel_pattern *p, const char *format, ...) {
  if (!p->miss || *p->miss) return false;
  va_list args;
  va_start(args, format);
  vsnprintf(p->miss, TERCEL_REASON_MAX, format, args);
  va_end(args);
  return false;
}

void tercel_pattern_add(tercel_pattern *p, const tercel_node *node) {
  for (int i = 0; i < p->num_nodes; i++)
    if (p->nodes[i] == node) return;
  if (p->num_nodes < TERCEL_PATTERN_MAX_NODES) p->nodes[p->num_nodes++] = node;
}

tercel_node *tercel_pattern_fn(tercel_pattern *p, const tercel_value *value, tercel_fn fn) {
  tercel_node *const node = tercel_fn_node(value, fn);
  if (node) tercel_pattern_add(p, node);
  return node;
}

bool tercel_pattern_scalar(tercel_pattern *p, const tercel_value *value, tercel_fn fn, tercel_value **x,
                           double *scalar) {
  if (!tercel_match_scalar(value, fn, x, scalar)) return false;
  tercel_pattern_add(p, value->producer);
  return true;
}

void tercel_pattern_scaled(tercel_pattern *p, tercel_value *value, tercel_value **x, double *factor) {
  if (tercel_pattern_scalar(p, value, TERCEL_FN_MUL, x, factor)) return;
  if (tercel_pattern_scalar(p, value, TERCEL_FN_DIV, x, factor)) {
    *factor = 1 / *factor;
    return;
  }
  *x = value;
  *factor = 1;
}

bool tercel_pattern_scaled_from(tercel_pattern *p, tercel_value *value, const tercel_value *wanted, double *factor) {
  enum { MAX_DEPTH = 4 };
  *factor = 1;
  for (int depth = 0; depth < MAX_DEPTH && value != wanted; depth++) {
    double number;
    const tercel_node *const neg = tercel_pattern_fn(p, value, TERCEL_FN_NEG);
    if (neg) {
      *factor = -*factor;
      value = neg->inputs[0];
      continue;
    }
    tercel_pattern_scaled(p, value, &value, &number);
    *factor *= number;
  }
  return value == wanted;
}

static bool contains(const tercel_pattern *p, const tercel_node *node) {
  for (int i = 0; i < p->num_nodes; i++)
    if (p->nodes[i] == node) return true;
  return false;
}

const tercel_node *tercel_pattern_leak(const tercel_pattern *p) {
  for (int i = 1; i < p->num_nodes; i++) {
    const tercel_value *const value = p->nodes[i]->outputs[0];
    if (value->num_output_uses) return p->nodes[i];
    for (uint32_t u = 0; u < value->num_uses; u++)
      if (!contains(p, value->uses[u].node)) return p->nodes[i];
  }
  return NULL;
}

tercel_status tercel_pattern_refuse_leak(tercel_pass_context *context, const char *rule, const tercel_pattern *p,
                                         const tercel_node *leak, tercel_error *err) {
  const tercel_value *const value = leak->outputs[0];
  for (uint32_t u = 0; u < value->num_uses; u++)
    if (!contains(p, value->uses[u].node))
      return tercel_refused(context, rule, p->nodes[0], err, "'%.100s' inside it is also read by '%.100s'", leak->name,
                            value->uses[u].node->name);
  return tercel_refused(context, rule, p->nodes[0], err, "'%.100s' inside it is an output of the graph", leak->name);
}

tercel_status tercel_pattern_replace(tercel_pass_context *context, const char *rule, const tercel_pattern *p,
                                     tercel_node *made, tercel_error *err) {
  for (int i = 1; i < p->num_nodes; i++) TERCEL_TRY(tercel_node_add_sources(made, p->nodes[i], err));
  TERCEL_TRY(tercel_made(context, rule, made, NULL, err));
  return tercel_rewrite_replace(p->nodes[0]->outputs[0], made->outputs[0], err);
}

static void add_term(tercel_product *product, tercel_value *value) {
  if (product->num_terms < TERCEL_PRODUCT_MAX_TERMS) product->terms[product->num_terms] = value;
  product->num_terms++;
}

static void multiply(tercel_pattern *p, tercel_value *value, int depth, tercel_product *product) {
  enum { MAX_DEPTH = 4 };
  double number;
  tercel_value *x;
  if (tercel_scalar(value, &number)) {
    product->factor *= number;
    return;
  }
  const bool may_open = depth == 0 || (depth < MAX_DEPTH && tercel_has_one_use(value));
  const tercel_node *const mul = may_open ? tercel_pattern_fn(p, value, TERCEL_FN_MUL) : NULL;
  if (mul) {
    multiply(p, mul->inputs[0], depth + 1, product);
    multiply(p, mul->inputs[1], depth + 1, product);
  } else if (may_open && tercel_pattern_scalar(p, value, TERCEL_FN_DIV, &x, &number)) {
    product->factor /= number;
    multiply(p, x, depth + 1, product);
  } else {
    add_term(product, value);
  }
}

void tercel_pattern_product(tercel_pattern *p, tercel_value *value, tercel_product *out) {
  *out = (tercel_product){.factor = 1};
  multiply(p, value, 0, out);
}

tercel_value *tercel_product_other(const tercel_product *product, const tercel_value *wanted) {
  if (product->num_terms != 2) return NULL;
  if (product->terms[0] == wanted) return product->terms[1];
  return product->terms[1] == wanted ? product->terms[0] : NULL;
}
