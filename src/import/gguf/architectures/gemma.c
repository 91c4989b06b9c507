/* Gemma: embeddings grow with the width, GELU gates.  (The converter to GGUF adds the 1 to norms' weights.) */
#include "import/gguf/decoder.h"

#include <math.h>

static void configure(tercel_gguf_builder *b, tercel_gguf_decoder *d) {
  (void)b;
  d->rotary = TERCEL_GGUF_ROTARY_HALVES;
  d->activation = TERCEL_FN_GELU_TANH;
  d->embedding_scale = sqrt((double)d->width);
}

const tercel_gguf_architecture tercel_gguf_architecture_gemma = {"gemma", configure};
