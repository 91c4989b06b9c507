/* Gemma 2: norms behind attention and feed-forward, too, soft caps, a window in every other layer. */
#include "import/gguf/decoder.h"

#include <math.h>

static void configure(tercel_gguf_builder *b, tercel_gguf_decoder *d) {
  d->rotary = TERCEL_GGUF_ROTARY_HALVES;
  d->activation = TERCEL_FN_GELU_TANH;
  d->embedding_scale = sqrt((double)d->width);
  d->attention_softcap = tercel_gguf_factor(b, "attn_logit_softcapping", 50);
  d->logit_softcap = tercel_gguf_factor(b, "final_logit_softcapping", 30);
  d->window = tercel_gguf_factor(b, "attention.sliding_window", 4096) > 0
                  ? tercel_gguf_int(b, "attention.sliding_window", 4096)
                  : 0;
  d->window_period = 2;
  if (d->layers == 46) d->attention_scale = 1 / sqrt((double)d->width / (double)d->heads); /* 27B */
}

const tercel_gguf_architecture tercel_gguf_architecture_gemma2 = {"gemma2", configure};
