/* Granite (IBM): Llama's form with four factors. */
#include "import/gguf/decoder.h"

static void configure(tercel_gguf_builder *b, tercel_gguf_decoder *d) {
  d->rotary = tercel_gguf_int(b, "rope.scaling.finetuned", 1) != 0 ? TERCEL_GGUF_ROTARY_PAIRS : TERCEL_GGUF_ROTARY_NONE;
  d->embedding_scale = tercel_gguf_factor(b, "embedding_scale", 1);
  d->residual_scale = tercel_gguf_factor(b, "residual_scale", 1);
  d->logit_scale = 1 / tercel_gguf_factor(b, "logit_scale", 1);
}

const tercel_gguf_architecture tercel_gguf_architecture_granite = {"granite", configure};
