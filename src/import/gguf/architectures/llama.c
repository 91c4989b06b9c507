/* Llama (Meta: 1, 2 and 3), and what shares its form: Mistral 7B, SmolLM2, TinyLlama, Yi. */
#include "import/gguf/decoder.h"

static void configure(tercel_gguf_builder *b, tercel_gguf_decoder *d) {
  (void)b;
  d->rotary = TERCEL_GGUF_ROTARY_PAIRS; /* the converter to GGUF orders q and k so */
  d->feed_forward_scales = true;
}

const tercel_gguf_architecture tercel_gguf_architecture_llama = {"llama", configure};
