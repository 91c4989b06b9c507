/* Decoders: transformers that read tokens from left to right, described by facts and built by one builder.
 *
 * The graph of a decoder runs the new tokens of several sequences at once:
 *
 *     tokens     i32[tokens]             of sequence 0, then of sequence 1, ...
 *     positions  i32[tokens]             each one's place in its sequence
 *     firsts, lengths, tables            whose rows are whose, see paged_attention
 *     rows       i32[rows]               tokens whose logits are wanted
 *     cache.L.keys, cache.L.values       states, a pair for each layer L with attention
 *     -> logits  f32[rows, vocabulary] */
#ifndef TERCEL_IMPORT_GGUF_DECODER_H
#define TERCEL_IMPORT_GGUF_DECODER_H

#include "import/gguf/builder.h"

typedef enum tercel_gguf_rotary {
  TERCEL_GGUF_ROTARY_NONE,
  TERCEL_GGUF_ROTARY_PAIRS, /* neighbours are turned: 2 i, 2 i + 1 */
  TERCEL_GGUF_ROTARY_HALVES /* i, i + half */
} tercel_gguf_rotary;

typedef struct tercel_gguf_decoder {
  /* what an architecture says */
  tercel_gguf_rotary rotary;
  bool layer_norm;          /* else RMS */
  bool parallel;            /* feed-forward beside attention, from the same norm */
  bool norms_after;         /* norms stand behind attention and feed-forward only */
  bool feed_forward_scales; /* files may have ffn_up.scale and the like */
  tercel_fn activation;
  double embedding_scale, residual_scale, logit_scale; /* factors */
  double attention_scale;                              /* 0: 1 / sqrt(head) */
  double attention_softcap, logit_softcap;             /* 0: none */
  int64_t window, window_period; /* every window_period-th layer sees all, the others a window; 0: all see all */
  double window_base;            /* of rotary in layers with a window; 0: as in the others */
  int64_t no_rotary_period;      /* every such layer turns nothing; 0: none */

  /* what metadata say of each: filled before the architecture is asked */
  int64_t width, layers, heads, head, value_head, turned, context, trained_context;
  double epsilon, base;
} tercel_gguf_decoder;

/* An architecture: "llama", in general.architecture.  configure says what is special: *d comes with the metadata, RMS norms, SiLU, factors of 1. */
typedef struct tercel_gguf_architecture {
  const char *name;
  void (*configure)(tercel_gguf_builder *b, tercel_gguf_decoder *d);
} tercel_gguf_architecture;

#define TERCEL_ARCHITECTURE(id) extern const tercel_gguf_architecture tercel_gguf_architecture_##id;
#include "import/gguf/architectures.inc"
#undef TERCEL_ARCHITECTURE

/* Builds b->graph. */
void tercel_gguf_build_decoder(tercel_gguf_builder *b, const tercel_gguf_architecture *architecture);

#endif
