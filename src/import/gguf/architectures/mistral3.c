/* Mistral 3 (Ministral, Devstral): Llama's form. */
#include "import/gguf/decoder.h"

static void configure(tercel_gguf_builder *b, tercel_gguf_decoder *d) {
  d->rotary = TERCEL_GGUF_ROTARY_PAIRS;
  d->feed_forward_scales = true;
  if (tercel_gguf_float(b, "attention.temperature_scale", 0) != 0)
    tercel_gguf_failed(b, TERCEL_UNSUPPORTED,
                       "attention whose temperature grows with the position is not supported yet");
}

const tercel_gguf_architecture tercel_gguf_architecture_mistral3 = {"mistral3", configure};
