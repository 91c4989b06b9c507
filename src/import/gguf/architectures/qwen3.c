/* Qwen3: q and k are normalized head by head before they are turned. */
#include "import/gguf/decoder.h"

static void configure(tercel_gguf_builder *b, tercel_gguf_decoder *d) {
  (void)b;
  d->rotary = TERCEL_GGUF_ROTARY_HALVES;
  d->feed_forward_scales = true;
}

const tercel_gguf_architecture tercel_gguf_architecture_qwen3 = {"qwen3", configure};
