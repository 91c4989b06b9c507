/* The geometry of a resize node for numbers: where each output position of an axis takes its elements from.  For the reference
 * and for the fast kernels, which differ only in how they sum. */
#ifndef TERCEL_OPS_RESIZE_H
#define TERCEL_OPS_RESIZE_H

#include "ops/ops.h"

typedef enum tercel_resize_mode { TERCEL_RESIZE_NEAREST, TERCEL_RESIZE_LINEAR, TERCEL_RESIZE_CUBIC } tercel_resize_mode;

/* One axis: output positions [0, output) of an axis that was `input` long. */
typedef struct tercel_resize_axis {
  int64_t input, output;
  double scale;              /* output per input, as given or as the sizes say */
  double roi_begin, roi_end; /* normalized, for tf_crop_and_resize; else 0 and 1 */
} tercel_resize_axis;

typedef struct tercel_resize_plan {
  tercel_resize_mode mode;
  int coordinate, nearest,
      num_taps; /* num_taps: see tercel_resize_taps; coordinate and nearest: indices of resize.c's names */
  double cubic_a, extrapolation;
  bool exclude_outside, antialias;
  int rank;
  tercel_resize_axis axes[TERCEL_MAX_RANK];
} tercel_resize_plan;

/* Everything the node and its tensors say; axes[] has an entry a dim of input 0. */
tercel_status tercel_resize_resolve(const tercel_node *node, const tercel_tensor *const *in, size_t num_inputs,
                                    tercel_resize_plan *out, tercel_error *err);

/* Does the axis stay as it is? */
bool tercel_resize_is_identity(const tercel_resize_plan *plan, int axis);
/* Elements that each output position of the axis is made of. */
int64_t tercel_resize_num_taps(const tercel_resize_plan *plan, int axis);
/* Output position `at`: the positions (inside the input) and weights of its elements, num_taps of each.  False: the position lies
 * outside, and the element is plan->extrapolation. */
bool tercel_resize_taps(const tercel_resize_plan *plan, int axis, int64_t at, int64_t *positions, double *weights);

#endif
