/* OLMo 2 and 3: norms stand behind attention and feed-forward; q and k are normalized whole. */
#include "import/gguf/decoder.h"

static void configure(tercel_gguf_builder *b, tercel_gguf_decoder *d) {
  d->rotary = TERCEL_GGUF_ROTARY_HALVES;
  d->norms_after = true;
  d->window = tercel_gguf_int(b, "attention.sliding_window", 0);
  d->window_period = 4;
}

const tercel_gguf_architecture tercel_gguf_architecture_olmo2 = {"olmo2", configure};
