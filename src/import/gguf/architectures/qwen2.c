/* Qwen2 and Qwen2.5: Llama's form with biases on q, k and v. */
#include "import/gguf/decoder.h"

static void configure(tercel_gguf_builder *b, tercel_gguf_decoder *d) {
  (void)b;
  d->rotary = TERCEL_GGUF_ROTARY_HALVES;
}

const tercel_gguf_architecture tercel_gguf_architecture_qwen2 = {"qwen2", configure};
