/* Real networks in deterministic mode: the same bits at every level, with 1, 2 and 3 threads, alone and in a batch, and on every machine.
 * Takes three small ones.  `build/release/tests/models/test_bits all` takes all of models.tsv, other arguments are names; both print hashes.
 * run-tests: threads */
#include <stdio.h>
#include <string.h>

#include "models/check.h"

/* hash: of what the network gives as imported, on any machine; 0: not kept. */
typedef struct network {
  const char *name;
  bool mixes_rows; /* quantizes activations by the range of the whole batch (ONNX DynamicQuantizeLinear) */
  uint64_t hash;
} network;

enum { NUM_SMALL = 3 };
static const network networks[] = {
    {"ppocrv2-cls", false, 0x54eb6d34032a5937},
    {"magika", false, 0xa0a161a3e579b3a3},
    {"silero-vad", false, 0x526dc4c36773ac24},
    {"ppocrv4-det", false, 0},
    {"ppocrv4-rec", false, 0},
    {"orientation-lcnet", false, 0},
    {"layout-picodet", false, 0},
    {"resnet50-thin", false, 0},
    {"yolov8n-320", false, 0},
    {"vit-s-focus", false, 0},
    {"minilm-l3", false, 0},
    {"dnsmos", false, 0},
    {"basic-pitch", false, 0},
    {"minilm-l6-int8", false, 0},
    {"t5s-encoder-int8", true, 0},
    {"t5s-decoder-int8", true, 0},
    {"speaker-lstm-int8", true, 0},
    {"minimol-gnn", false, 0},
    {"knn-trees", false, 0},
    {"silero-vad-half", false, 0},
};
enum { NUM_NETWORKS = sizeof networks / sizeof *networks };

static void keeps_its_bits(void **state) {
  const network *const n = *state;
  const uint64_t hash = check_bits(n->name, n->mixes_rows);
  print_message("%-20s %016llx\n", n->name, (unsigned long long)hash);
  if (n->hash != 0 && hash != n->hash)
    fail_msg("%s: the hash of its outputs as imported is %016llx, on other machines %016llx", n->name,
             (unsigned long long)hash, (unsigned long long)n->hash);
}

static bool is_wanted(int argc, char **argv, size_t index) {
  if (argc <= 1) return index < NUM_SMALL;
  for (int i = 1; i < argc; ++i)
    if (strcmp(argv[i], "all") == 0 || strcmp(argv[i], networks[index].name) == 0) return true;
  return false;
}

int main(int argc, char **argv) {
  struct CMUnitTest tests[NUM_NETWORKS] = {0};
  size_t count = 0;
  for (size_t i = 0; i < NUM_NETWORKS; ++i)
    if (is_wanted(argc, argv, i))
      tests[count++] =
          (struct CMUnitTest){networks[i].name, keeps_its_bits, NULL, NULL, (void *)(uintptr_t)&networks[i]};
  return _cmocka_run_group_tests("bits", tests, count, NULL, NULL);
}
