/* Command R (Cohere): attention and feed-forward side by side behind one layer norm. */
#include "import/gguf/decoder.h"

static void configure(tercel_gguf_builder *b, tercel_gguf_decoder *d) {
  d->rotary = TERCEL_GGUF_ROTARY_PAIRS;
  d->layer_norm = true;
  d->parallel = true;
  d->logit_scale = tercel_gguf_factor(b, "logit_scale", 1);
}

const tercel_gguf_architecture tercel_gguf_architecture_command_r = {"command-r", configure};
