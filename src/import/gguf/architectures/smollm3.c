/* SmolLM3: Llama's form; every fourth layer turns nothing. */
#include "import/gguf/decoder.h"

static void configure(tercel_gguf_builder *b, tercel_gguf_decoder *d) {
  (void)b;
  d->rotary = TERCEL_GGUF_ROTARY_PAIRS;
  d->no_rotary_period = 4;
}

const tercel_gguf_architecture tercel_gguf_architecture_smollm3 = {"smollm3", configure};
