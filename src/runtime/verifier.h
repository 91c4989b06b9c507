/* What the files of verification share (verify.c, verify_sample.c).  For files of runtime only. */
#ifndef TERCEL_RUNTIME_VERIFIER_H
#define TERCEL_RUNTIME_VERIFIER_H

#include "plan/verify.h"
#include "runtime/runtime.h"

/* A node's operands cut down to some of the result's channels, so that its reference kernel, which is plain and slow, takes a moment. */
typedef struct tercel_sample {
  const tercel_node *node;
  tercel_tensor **in; /* NULL: absent */
  tercel_tensor *cut; /* by operand: those that were cut */
  int axis;           /* of the result, along which channels were chosen; -1: all of it is wanted */
  int64_t *channels;
  int64_t num_channels;
  tercel_arena memory; /* holds all of it */
} tercel_sample;

/* in: the node's operands; all of `out` is what it computes from them. */
tercel_status tercel_sample_init(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *out,
                                 tercel_sample *sample, tercel_error *err);
void tercel_sample_deinit(tercel_sample *sample);
/* The chosen channels of a result, in the sample's memory. */
tercel_status tercel_sample_cut(tercel_sample *sample, const tercel_tensor *from, tercel_tensor *out,
                                tercel_error *err);

#endif
