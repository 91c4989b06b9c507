/* Patterns of several nodes: what was matched on the way, so that a rule can check that nobody else reads it. */
#ifndef TERCEL_OPTIMIZE_PATTERN_H
#define TERCEL_OPTIMIZE_PATTERN_H

#include "optimize/rules.h"

enum { TERCEL_PATTERN_MAX_NODES = 24, TERCEL_PRODUCT_MAX_TERMS = 4 };

/* The nodes of a match, its root first.  Zero-initialize with the root; matching functions add what they pass. */
typedef struct tercel_pattern {
  const tercel_node *nodes[TERCEL_PATTERN_MAX_NODES];
  int num_nodes;
  char *miss; /* of TERCEL_REASON_MAX characters, or NULL: why what almost matched does not */
} tercel_pattern;

/* A part that nothing else would look like has matched, but this has not: "...".  The first miss is kept.  Returns false. */
bool tercel_pattern_miss(const tercel_pattern *pattern, const char *format, ...) __attribute__((format(printf, 2, 3)));

void tercel_pattern_add(tercel_pattern *pattern, const tercel_node *node);
/* The node that makes the value by that function, added to the pattern; NULL when it is made otherwise. */
tercel_node *tercel_pattern_fn(tercel_pattern *pattern, const tercel_value *value, tercel_fn fn);
/* value = *x fn scalar, added to the pattern. */
bool tercel_pattern_scalar(tercel_pattern *pattern, const tercel_value *value, tercel_fn fn, tercel_value **x,
                           double *scalar);
/* value = x * factor, x / (1 / factor), or x itself (factor 1). */
void tercel_pattern_scaled(tercel_pattern *pattern, tercel_value *value, tercel_value **x, double *factor);
/* value = wanted * factor, by factors and changes of sign one after the other. */
bool tercel_pattern_scaled_from(tercel_pattern *pattern, tercel_value *value, const tercel_value *wanted,
                                double *factor);
/* A node inside the match that something outside reads as well; NULL when there is none. */
const tercel_node *tercel_pattern_leak(const tercel_pattern *pattern);
/* A refusal that names the leak and what reads it. */
tercel_status tercel_pattern_refuse_leak(tercel_pass_context *context, const char *rule, const tercel_pattern *pattern,
                                         const tercel_node *leak, tercel_error *err);
/* What read the root reads `made`, which gets the sources of all.  The root is left to the dead-code pass. */
tercel_status tercel_pattern_replace(tercel_pass_context *context, const char *rule, const tercel_pattern *pattern,
                                     tercel_node *made, tercel_error *err);

/* A product written as a tree of mul and of div by numbers: factor * terms[0] * terms[1] ... */
typedef struct tercel_product {
  double factor;
  tercel_value *terms[TERCEL_PRODUCT_MAX_TERMS];
  int num_terms; /* more than the maximum: no product to match */
} tercel_product;

/* Inner nodes with other readers are terms, not opened. */
void tercel_pattern_product(tercel_pattern *pattern, tercel_value *value, tercel_product *out);
/* Two terms, in either order: *a is `a_wanted`, the other one is given back; NULL when they are not so. */
tercel_value *tercel_product_other(const tercel_product *product, const tercel_value *wanted);

#endif
