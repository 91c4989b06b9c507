/* Samples of large products: a reference kernel does some hundred million multiplications a second, a network has billions.
 *
 * Of a conv's or a matmul's result some channels are taken, whole, so that edges of the picture and rows of every batch are seen: the
 * first, the last (which ends in the middle of a block of kernels) and others spread between them.  Weights, bias and extras are cut to
 * match, and the rest stays. */
#include "runtime/verifier.h"

#include <string.h>

static const double most_flops = 2e7; /* of one step: about a fifth of a second */

static tercel_status no_memory(tercel_error *err) { return tercel_fail_memory(err, 0, "a sample of a step"); }

static int64_t product(const int64_t *dims, int from, int to) {
  int64_t result = 1;
  for (int d = from; d < to; d++) result *= dims[d];
  return result;
}

/* Elements are whole bytes: a conv's or matmul's are. */
static tercel_status cut(tercel_sample *s, const tercel_tensor *from, int axis, tercel_tensor *out, tercel_error *err) {
  int64_t dims[TERCEL_MAX_RANK];
  const size_t size = (size_t)tercel_dtype_bits(from->dtype) / 8;
  const int64_t outer = product(from->dims, 0, axis), inner = product(from->dims, axis + 1, from->rank);
  for (int d = 0; d < from->rank; d++) dims[d] = d == axis ? s->num_channels : from->dims[d];
  if (!tercel_tensor_set_shape(out, from->dtype, from->rank, dims)) return no_memory(err);
  char *const to = tercel_arena_alloc(&s->memory, out->bytes);
  if (to == NULL) return no_memory(err);
  const char *const data = from->data;
  const size_t row = (size_t)inner * size;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t k = 0; k < s->num_channels; k++)
      memcpy(to + (size_t)(o * s->num_channels + k) * row, data + (size_t)(o * from->dims[axis] + s->channels[k]) * row,
             row);
  out->data = to;
  return TERCEL_OK;
}

/* Where the result's channels stand in input i; -1: nowhere. */
static int channels_axis(const tercel_sample *s, uint32_t i, const tercel_tensor *in, const tercel_tensor *out) {
  const tercel_node *const node = s->node;
  const int op = node->op->id;
  if (i == 0 || in->rank == 0) return -1;
  if (i == 1 && op == TERCEL_OP_CONV_TRANSPOSE) return 1;
  if (i == 1 && op == TERCEL_OP_MATMUL && tercel_node_int(node, "trans_b")) return in->rank - 2;
  if (i == 1) return op == TERCEL_OP_CONV || op == TERCEL_OP_CONV_INTEGER ? 0 : in->rank - 1;
  const bool is_integer = op == TERCEL_OP_MATMUL_INTEGER || op == TERCEL_OP_CONV_INTEGER;
  if (i == 2 && is_integer) return -1;                                                  /* input 0's zero points */
  if (i == (is_integer ? 3 : 2)) return in->dims[in->rank - 1] > 1 ? in->rank - 1 : -1; /* a number a channel */
  const int axis = s->axis - (out->rank - in->rank);                                    /* extras: aligned at the end */
  return axis >= 0 && in->dims[axis] > 1 ? axis : -1;
}

static bool may_cut(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *out) {
  const int op = node->op->id;
  const bool is_matmul = op == TERCEL_OP_MATMUL || op == TERCEL_OP_MATMUL_INTEGER;
  const bool is_conv = op == TERCEL_OP_CONV || op == TERCEL_OP_CONV_TRANSPOSE || op == TERCEL_OP_CONV_INTEGER;
  if (!is_matmul && !is_conv) return false;
  return out->rank >= 2 && in[1]->rank >= 2 && (is_matmul || tercel_node_int(node, "group") == 1);
}

static double flops_of(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *out) {
  const tercel_tensor *const results[] = {out};
  return node->op->flops != NULL && node->num_outputs == 1 ? node->op->flops(node, in, results) : 0;
}

/* The first, the last, and others between, each a little off an even spread so that no multiple of a block's size is favoured. */
static tercel_status choose(tercel_sample *s, int64_t count, int64_t wanted, tercel_error *err) {
  s->num_channels = wanted;
  s->channels = tercel_arena_alloc_array(&s->memory, (size_t)wanted, sizeof *s->channels);
  if (s->channels == NULL) return no_memory(err);
  for (int64_t k = 0; k < wanted; k++) {
    const int64_t step = count / wanted, at = k * count / wanted + (k * 7) % (step > 1 ? step : 1);
    s->channels[k] = k + 1 == wanted ? count - 1 : at;
  }
  return TERCEL_OK;
}

tercel_status tercel_sample_init(const tercel_node *node, const tercel_tensor *const *in, const tercel_tensor *out,
                                 tercel_sample *sample, tercel_error *err) {
  *sample = (tercel_sample){.node = node, .axis = -1};
  tercel_sample *const s = sample;
  s->in = tercel_arena_alloc_array(&s->memory, node->num_inputs, sizeof(tercel_tensor *));
  s->cut = tercel_arena_alloc_array(&s->memory, node->num_inputs, sizeof *s->cut);
  if (s->in == NULL || s->cut == NULL) return no_memory(err);
  for (uint32_t i = 0; i < node->num_inputs; i++) memcpy(&s->in[i], &in[i], sizeof s->in[i]); /* never written */
  const double flops = out != NULL && may_cut(node, in, out) ? flops_of(node, in, out) : 0;
  if (flops <= most_flops) return TERCEL_OK;
  const bool is_matmul = node->op->id == TERCEL_OP_MATMUL || node->op->id == TERCEL_OP_MATMUL_INTEGER;
  const int axis = is_matmul ? out->rank - 1 : tercel_channel_dim(tercel_node_layout(node), out->rank);
  const int64_t count = out->dims[axis], fit = (int64_t)((double)count * most_flops / flops);
  const int64_t wanted = fit < 2 ? 2 : fit;
  if (wanted >= count) return TERCEL_OK;
  s->axis = axis;
  TERCEL_TRY(choose(s, count, wanted, err));
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    const int at = in[i] != NULL ? channels_axis(s, i, in[i], out) : -1;
    if (at < 0) continue;
    TERCEL_TRY(cut(s, in[i], at, &s->cut[i], err));
    s->in[i] = &s->cut[i];
  }
  return TERCEL_OK;
}

void tercel_sample_deinit(tercel_sample *sample) {
  tercel_arena_deinit(&sample->memory);
  *sample = (tercel_sample){0};
}

tercel_status tercel_sample_cut(tercel_sample *sample, const tercel_tensor *from, tercel_tensor *out,
                                tercel_error *err) {
  *out = *from;
  return sample->axis < 0 ? TERCEL_OK : cut(sample, from, sample->axis, out, err);
}
