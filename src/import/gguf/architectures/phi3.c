/* Phi-3 and Phi-4: gate and up lie in one matrix, often q, k and v, too; long contexts have other factors of rotary. */
#include "import/gguf/decoder.h"

static void configure(tercel_gguf_builder *b, tercel_gguf_decoder *d) {
  (void)b;
  d->rotary = TERCEL_GGUF_ROTARY_HALVES;
}

const tercel_gguf_architecture tercel_gguf_architecture_phi3 = {"phi3", configure};
