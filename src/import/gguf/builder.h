/* Building a graph out of a GGUF file: what architectures are written with.
 *
 * A call that fails remembers why and gives NULL; calls that are given NULL then give NULL themselves, so that an architecture reads like its formula and
 * the error is looked at once, at the end. */
#ifndef TERCEL_IMPORT_GGUF_BUILDER_H
#define TERCEL_IMPORT_GGUF_BUILDER_H

#include "import/gguf/gguf.h"
#include "ops/ops.h"

typedef struct tercel_gguf_builder {
  const tercel_gguf *gguf;
  const char *architecture; /* "llama": what its keys begin with */
  tercel_graph *graph;
  tercel_status status; /* of the first call that failed */
  tercel_error *err;
} tercel_gguf_builder;

/* The first failure counts.  Returns NULL. */
void *tercel_gguf_failed(tercel_gguf_builder *b, tercel_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- metadata: keys without "ARCHITECTURE."; one that is absent gives the default, one of a wrong type fails ---- */

int64_t tercel_gguf_int(tercel_gguf_builder *b, const char *key, int64_t otherwise);
/* Of one number, or of one a layer: that of the layer. */
int64_t tercel_gguf_layer_int(tercel_gguf_builder *b, const char *key, int64_t layer, int64_t otherwise);
double tercel_gguf_float(tercel_gguf_builder *b, const char *key, double otherwise);
/* The same, where 0 means the default, too. */
double tercel_gguf_factor(tercel_gguf_builder *b, const char *key, double otherwise);
/* A number that must be there, from least to most. */
int64_t tercel_gguf_size(tercel_gguf_builder *b, const char *key, int64_t least, int64_t most);

/* ---- weights: names as printf makes them; NULL without a failure where an optional one is absent ---- */

bool tercel_gguf_has(const tercel_gguf_builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
tercel_value *tercel_gguf_weight(tercel_gguf_builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What becomes of "NAME.scale", one number that files with scaled weights have. */
typedef enum tercel_gguf_scale {
  TERCEL_GGUF_SCALE_NONE,
  TERCEL_GGUF_SCALE_PRODUCT,
  TERCEL_GGUF_SCALE_SUM
} tercel_gguf_scale;
/* "NAME.weight" applied to the rows of x: a product, plus "NAME.bias"; either the product or the sum times "NAME.scale"; where the file has them. */
tercel_value *tercel_gguf_linear(tercel_gguf_builder *b, tercel_value *x, tercel_gguf_scale scale, const char *format,
                                 ...) __attribute__((format(printf, 4, 5)));

/* ---- nodes ---- */

/* A node of one output, named `name`. */
tercel_node *tercel_gguf_node(tercel_gguf_builder *b, tercel_op_id op, const char *name, tercel_value *const *inputs,
                              size_t num_inputs, size_t num_outputs);
/* fn(x), fn(x, y): y may be NULL where fn takes one operand. */
tercel_value *tercel_gguf_apply(tercel_gguf_builder *b, tercel_fn fn, tercel_value *x, tercel_value *y);
/* x * factor; x itself for 1. */
tercel_value *tercel_gguf_scaled(tercel_gguf_builder *b, tercel_value *x, double factor);
/* cap tanh(x / cap); x itself for 0. */
tercel_value *tercel_gguf_capped(tercel_gguf_builder *b, tercel_value *x, double cap);
/* x with other dims of the same number; -1 for at most one. */
tercel_value *tercel_gguf_reshaped(tercel_gguf_builder *b, tercel_value *x, const int64_t *dims, int rank);
/* Columns first .. first + count of a matrix. */
tercel_value *tercel_gguf_columns(tercel_gguf_builder *b, tercel_value *x, int64_t first, int64_t count);
/* Rows of a table of weights, as f32. */
tercel_value *tercel_gguf_rows(tercel_gguf_builder *b, tercel_value *table, tercel_value *indices);

/* An input; symbols name free dims (NULL: sizes[d]). */
tercel_value *tercel_gguf_input(tercel_gguf_builder *b, const char *name, tercel_dtype dtype, bool state, int rank,
                                const char *const *symbols, const int64_t *sizes);

#endif
