/* Gemma 3: q and k normalized head by head; five layers with a window for each that sees all, of another base of rotary. */
#include "import/gguf/decoder.h"

#include <math.h>

static void configure(tercel_gguf_builder *b, tercel_gguf_decoder *d) {
  d->rotary = TERCEL_GGUF_ROTARY_HALVES;
  d->activation = TERCEL_FN_GELU_TANH;
  d->embedding_scale = sqrt((double)d->width);
  d->logit_softcap = tercel_gguf_float(b, "final_logit_softcapping", 0);
  d->window = tercel_gguf_int(b, "attention.sliding_window", 0);
  d->window_period = 6;
  d->window_base = tercel_gguf_factor(b, "rope.freq_base_swa", 10000);
}

const tercel_gguf_architecture tercel_gguf_architecture_gemma3 = {"gemma3", configure};
