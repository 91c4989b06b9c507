/* What the builders of ai.onnx.ml share. */
#ifndef TERCEL_IMPORT_ONNX_BUILD_ML_H
#define TERCEL_IMPORT_ONNX_BUILD_ML_H

#include "import/onnx/build.h"

/* The constant that one of these attributes gives (a tensor, or a list of strings, integers, floats; NULL: there is none such); NULL when none
 * is there. */
tercel_value *tercel_onnx_ml_list(tercel_onnx_call *c, const char *tensor, const char *text, const char *ints,
                                  const char *floats);
tercel_value *tercel_onnx_ml_string(tercel_onnx_call *c, const char *text); /* a scalar */
tercel_value *tercel_onnx_ml_floats(tercel_onnx_call *c, const float *values, size_t count);
/* 0, 1, ... count - 1 as i64. */
tercel_value *tercel_onnx_ml_iota(tercel_onnx_call *c, int64_t count);
/* Input i as it is where it is of a float type, else as f32. */
tercel_value *tercel_onnx_ml_float_input(tercel_onnx_call *c, size_t i);
/* A list as one row. */
tercel_value *tercel_onnx_ml_rows(tercel_onnx_call *c, tercel_value *x);
/* The classes' labels: constant, strings or i64. */
tercel_value *tercel_onnx_ml_labels(tercel_onnx_call *c);
tercel_value *tercel_onnx_ml_pick(tercel_onnx_call *c, tercel_value *labels, tercel_value *index);
/* The column of the largest score of each row. */
tercel_value *tercel_onnx_ml_best(tercel_onnx_call *c, tercel_value *scores);
/* The scores (N,C) under a post transform, by its name; and under the attribute post_transform. */
tercel_value *tercel_onnx_ml_apply(tercel_onnx_call *c, tercel_value *scores, const char *name);
tercel_value *tercel_onnx_ml_transform(tercel_onnx_call *c, tercel_value *scores);
tercel_value *tercel_onnx_ml_decide(tercel_onnx_call *c, tercel_value *labels, tercel_value *score, double threshold);
/* Scores of two labels from one (N,1): 1 - s, s, or (mirrored) -s, s.  As in ONNX Runtime, of the post transforms only LOGISTIC (always of -s, s)
 * has a meaning here, softmaxes are passed over; PROBIT, which it makes of some memory, is refused. */
tercel_value *tercel_onnx_ml_two_scores(tercel_onnx_call *c, tercel_value *score, bool mirrored);
/* Both results of a classifier that has one score for two labels: the second one above the threshold. */
void tercel_onnx_ml_binary(tercel_onnx_call *c, tercel_value *labels, tercel_value *score, double threshold,
                           bool mirrored);

#endif
