/* GPT-2: learned positions, layer norms with biases, GELU without a gate. */
#include "import/gguf/decoder.h"

static void configure(tercel_gguf_builder *b, tercel_gguf_decoder *d) {
  (void)b;
  d->rotary = TERCEL_GGUF_ROTARY_NONE;
  d->layer_norm = true;
  d->activation = TERCEL_FN_GELU_TANH;
}

const tercel_gguf_architecture tercel_gguf_architecture_gpt2 = {"gpt2", configure};
