/* Matching and rewriting: what rules are written with. */
#ifndef TERCEL_OPTIMIZE_REWRITE_H
#define TERCEL_OPTIMIZE_REWRITE_H

#include "optimize/decisions.h"

/* ---- match ---- */

static inline bool tercel_is(const tercel_node *node, tercel_op_id op) { return node && node->op->id == (int)op; }
/* The node that makes the value, when it is of that operator; else NULL.  A NULL value has none. */
tercel_node *tercel_producer(const tercel_value *value, tercel_op_id op);
/* Everything that reads the value is `node`, at one or more of its inputs; it is no output of the graph. */
bool tercel_is_read_only_by(const tercel_value *value, const tercel_node *node);
/* One reader, once: the value goes when that reader does. */
static inline bool tercel_has_one_use(const tercel_value *value) {
  return value->num_uses == 1 && value->num_output_uses == 0;
}
enum { TERCEL_REASON_MAX = 256 };
/* A phrase for a refusal, in the buffer. */
const char *tercel_reason(char buffer[TERCEL_REASON_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Why the value can't be fused into `reader`, as a phrase for a refusal: "'conv_0_out' is also read by concat 'Concat_3'". */
const char *tercel_describe_uses(const tercel_value *value, const tercel_node *reader, char buffer[TERCEL_REASON_MAX]);
/* Why it can't be fused where the result is `to`: "'bias' is broadcast from [4] to [n, 4]", or "'x' is not known to be as large as the
 * result along axis 1: h and 2*w". */
const char *tercel_describe_broadcast(const tercel_value *value, const tercel_value *to,
                                      char buffer[TERCEL_REASON_MAX]);

/* The function of a pointwise node that applies just one to its inputs in order; TERCEL_FN_COUNT for every other node
 * or NULL. */
tercel_fn tercel_single_fn(const tercel_node *node);
/* The node that makes the value by just that function; NULL when it is made otherwise. */
tercel_node *tercel_fn_node(const tercel_value *value, tercel_fn fn);
/* value = fn(*x, scalar) with a constant of one element, at any side where fn commutes: fills x and scalar. */
bool tercel_match_scalar(const tercel_value *value, tercel_fn fn, tercel_value **x, double *scalar);

/* The number in a constant of one element of a float or integer type. */
bool tercel_scalar(const tercel_value *value, double *out);
/* All elements of a constant of at most `capacity` integers; false when it is not such a constant. */
bool tercel_constant_ints(const tercel_value *value, int64_t *out, size_t capacity, size_t *count);
/* a and b agree within a few units of f32's last place: constants that exporters rounded. */
bool tercel_nearly(double a, double b);

bool tercel_same_type(const tercel_value *a, const tercel_value *b); /* dtype and shape known to be equal */
bool tercel_is_f32(const tercel_value *value);

/* ---- rewrite ---- */

/* Adds a node before `before`, with one output and `like`'s sources; attributes are the caller's to set before
 * tercel_rewrite_infer. */
tercel_status tercel_rewrite_add(tercel_op_id op, const tercel_node *like, tercel_value *const *inputs,
                                 size_t num_inputs, tercel_node *before, tercel_node **out, tercel_error *err);
/* A pointwise node of one function. */
tercel_status tercel_rewrite_add_fn(tercel_fn fn, const tercel_node *like, tercel_value *const *inputs,
                                    size_t num_inputs, const tercel_immediate immediates[2], tercel_node *before,
                                    tercel_node **out, tercel_error *err);
/* Everything that read `old` reads `by` instead, which takes over its name when a node just made it, and what is
 * known of its type. */
tercel_status tercel_rewrite_replace(tercel_value *old, tercel_value *by, tercel_error *err);
/* Records the change, replaces node's first output by `by` and removes the node.  by's producer, when it is new, should
 * have node's sources. */
tercel_status tercel_rewrite_node(tercel_pass_context *context, const char *rule, tercel_node *node, tercel_value *by,
                                  tercel_error *err);
/* A constant with the same data under another shape of as many elements; named as the original. */
tercel_status tercel_rewrite_reshaped(tercel_value *constant, int rank, const int64_t *dims, tercel_value **out,
                                      tercel_error *err);

#endif
