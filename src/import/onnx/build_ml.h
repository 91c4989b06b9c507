/* What the builders of ai.onnx.ml share. */
#ifndef TERCEL_IMPORT_ONNX_BUILD_ML_H
#define TERCEL_IMPORT_ONNX_BUILD_ML_H

#include "import/onnx/build.h"

tercel_value *tercel_onnx_ml_floats(tercel_onnx_call *c, const float *values, size_t count);
/* 0, 1, ... count - 1 as i64. */
tercel_value *tercel_onnx_ml_iota(tercel_onnx_call *c, int64_t count);
/* Input i as it is where it is of a float type, else as f32. */
tercel_value *tercel_onnx_ml_float_input(tercel_onnx_call *c, size_t i);
/* The classes' labels: constant, strings or i64. */
tercel_value *tercel_onnx_ml_labels(tercel_onnx_call *c);
tercel_value *tercel_onnx_ml_pick(tercel_onnx_call *c, tercel_value *labels, tercel_value *index);
/* The column of the largest score of each row. */
tercel_value *tercel_onnx_ml_best(tercel_onnx_call *c, tercel_value *scores);
/* Applies the attribute post_transform. */
tercel_value *tercel_onnx_ml_transform(tercel_onnx_call *c, tercel_value *scores);
tercel_value *tercel_onnx_ml_decide(tercel_onnx_call *c, tercel_value *labels, tercel_value *score, double threshold);
/* Both results of a classifier that has one score (N,1) for two labels: the second one above the threshold; scores 1 - s, s, or (mirrored)
 * -s, s.  As in ONNX Runtime, of the post transforms only LOGISTIC (always of -s, s) has a meaning here, the others are passed over. */
void tercel_onnx_ml_binary(tercel_onnx_call *c, tercel_value *labels, tercel_value *score, double threshold,
                           bool mirrored);

#endif
