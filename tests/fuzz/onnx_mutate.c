/* libFuzzer's mutations of ONNX files, made on the tree of messages: fields dropped, doubled, moved and put elsewhere, values rewired,
 * operators and attributes swapped, types and shapes changed, nodes nested into If and Loop.  Bytes that are no model are left to
 * libFuzzer's own mutations, and so is one change in sixteen. */
#include <string.h>

#include "base/protobuf.h"
#include "base/random.h"
#include "fuzz/onnx_tree.h"
#include "import/onnx/build.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out,
                                 size_t max_size, unsigned seed);

typedef struct mutator {
  tercel_arena arena;
  uint32_t seed, counter;
  onnx_message *model;
  onnx_field **fields; /* all of the tree, in order */
  size_t num_fields, fields_capacity;
} mutator;

static uint64_t draw(mutator *m, uint64_t below) {
  uint32_t bits[4];
  const uint32_t key[2] = {m->seed, 0}, counter[4] = {m->counter++, 0, 0, 0};
  tercel_philox(key, counter, bits);
  return below ? (bits[0] | (uint64_t)bits[1] << 32) % below : 0;
}

/* ---- what there is to change ----------------------------------------------------------------------------------------- */

static bool list_fields(mutator *m, onnx_message *message) {
  for (size_t i = 0; i < message->count; i++) {
    if (m->num_fields == m->fields_capacity) {
      const size_t capacity = m->fields_capacity ? 2 * m->fields_capacity : 256;
      onnx_field **const grown = tercel_arena_alloc_array(&m->arena, capacity, sizeof(onnx_field *));
      if (!grown) return false;
      if (m->num_fields) memcpy(grown, m->fields, m->num_fields * sizeof(onnx_field *));
      m->fields = grown;
      m->fields_capacity = capacity;
    }
    onnx_field *const field = message->fields[i];
    m->fields[m->num_fields++] = field;
    if (field->child && !list_fields(m, field->child)) return false;
  }
  return true;
}

typedef bool (*wanted_fn)(const onnx_field *field, const void *like);

static bool is_alike(const onnx_field *field, const void *like) {
  const onnx_field *const other = like;
  if (field == other || field->role != other->role) return false;
  return !field->child || field->child->kind == other->child->kind;
}

static bool is_node(const onnx_field *field, const void *like) {
  (void)like;
  return field->child && field->child->kind == ONNX_NODE && field->parent->kind == ONNX_GRAPH;
}

static bool is_operator(const onnx_field *field, const void *like) {
  (void)like;
  return field->role == ONNX_OPERATOR && field->parent->kind == ONNX_NODE;
}

static bool is_leaf(const onnx_field *field, const void *like) {
  (void)like;
  return field->role != ONNX_MESSAGE && field->role != ONNX_OPAQUE;
}

/* Any of those that are wanted; NULL where there is none. */
static onnx_field *draw_field(mutator *m, wanted_fn wanted, const void *like) {
  const size_t start = (size_t)draw(m, m->num_fields);
  for (size_t i = 0; i < m->num_fields; i++) {
    onnx_field *const field = m->fields[(start + i) % m->num_fields];
    if (wanted(field, like)) return field;
  }
  return NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------------------ */

static uint64_t draw_number(mutator *m) {
  static const int64_t corners[] = {INT64_MIN,  INT64_MIN + 1,
                                    INT64_MAX,  INT64_MAX - 1,
                                    INT32_MIN,  INT32_MAX,
                                    UINT32_MAX, 0x100000000,
                                    127,        128,
                                    255,        256,
                                    -129,       65535,
                                    65536,      1000,
                                    1 << 20,    -1000,
                                    8,          9,
                                    64,         0x7fffffff7fffffff,
                                    1 << 16,    33};
  const uint64_t kind = draw(m, 8);
  if (kind < 6) return (uint64_t)((int64_t)draw(m, 9) - 3);
  if (kind == 6) return (uint64_t)corners[draw(m, sizeof corners / sizeof *corners)];
  return draw(m, UINT64_MAX);
}

static uint32_t draw_float_bits(mutator *m) {
  static const float corners[] = {0,      -0.0f, 1,      -1,   0.5f,  2,      1e-5f, 1e-30f, 1e30f,
                                  -1e30f, 3e38f, 1e-45f, 2.5f, -0.5f, 2.1e9f, 1e19f, 255.5f};
  const uint64_t kind = draw(m, 8);
  if (kind == 0) return (uint32_t)draw(m, UINT32_MAX);
  if (kind == 1) return draw(m, 2) ? 0x7f800000u : 0x7fc00000u; /* infinity, NaN */
  uint32_t bits;
  memcpy(&bits, &corners[draw(m, sizeof corners / sizeof *corners)], sizeof bits);
  return bits;
}

/* Lists of numbers: one changed, one more, one less, or two swapped. */
static size_t change_list(mutator *m, uint64_t *items, size_t count, size_t room, uint64_t (*draw_item)(mutator *)) {
  const uint64_t kind = draw(m, 4);
  if (kind == 0 && count < room) {
    items[count] = draw_item(m);
    return count + 1;
  }
  if (kind == 1 && count) return count - 1;
  if (kind == 2 && count > 1) {
    const size_t a = (size_t)draw(m, count), b = (size_t)draw(m, count);
    const uint64_t kept = items[a];
    items[a] = items[b];
    items[b] = kept;
    return count;
  }
  if (count) items[draw(m, count)] = draw_item(m);
  return count;
}

enum { MAX_LIST = 256 };

static uint64_t draw_float_item(mutator *m) { return draw_float_bits(m); }

static void change_ints(mutator *m, onnx_field *field) {
  uint64_t items[MAX_LIST];
  size_t count = 0;
  tercel_pb body = tercel_pb_open(field->bytes, field->length);
  while (count < MAX_LIST && tercel_pb_left(&body) && tercel_pb_varint(&body, &items[count], NULL) == TERCEL_OK)
    count++;
  count = change_list(m, items, count, MAX_LIST, draw_number);
  uint8_t *const out = tercel_arena_alloc(&m->arena, 10 * count);
  if (!out) return;
  size_t length = 0;
  for (size_t i = 0; i < count; i++) {
    uint64_t value = items[i];
    for (; value >= 0x80; value >>= 7) out[length++] = (uint8_t)(value | 0x80);
    out[length++] = (uint8_t)value;
  }
  field->bytes = out;
  field->length = length;
}

static void change_floats(mutator *m, onnx_field *field) {
  uint64_t items[MAX_LIST];
  size_t count = field->length / 4 < MAX_LIST ? field->length / 4 : MAX_LIST;
  for (size_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, field->bytes + 4 * i, 4);
    items[i] = bits;
  }
  count = change_list(m, items, count, MAX_LIST, draw_float_item);
  uint8_t *const out = tercel_arena_alloc(&m->arena, 4 * count);
  if (!out) return;
  for (size_t i = 0; i < count; i++) memcpy(out + 4 * i, &(uint32_t){(uint32_t)items[i]}, 4);
  field->bytes = out;
  field->length = 4 * count;
}

/* Elements of tensors: some overwritten, or a few bytes more or less. */
static void change_raw(mutator *m, onnx_field *field) {
  static const size_t widths[] = {1, 2, 4, 8};
  const size_t grow = draw(m, 8) == 0 ? (size_t)draw(m, 9) : 0, length = field->length + grow;
  uint8_t *const out = tercel_arena_alloc(&m->arena, length);
  if (!out) return;
  if (field->length) memcpy(out, field->bytes, field->length);
  for (uint64_t times = 1 + draw(m, 3); times && length >= 8; times--) {
    const size_t width = widths[draw(m, 4)];
    const uint64_t value = width == 4 && draw(m, 2) ? draw_float_bits(m) : draw_number(m);
    memcpy(out + (size_t)draw(m, length / width) * width, &value, width);
  }
  if (length && length < 8) out[draw(m, length)] = (uint8_t)draw_number(m);
  field->bytes = out;
  field->length = draw(m, 16) ? length : (size_t)draw(m, length + 1);
}

static void set_text(mutator *m, onnx_field *field, const char *text) {
  const size_t length = strlen(text);
  uint8_t *const copy = tercel_arena_copy(&m->arena, text, length);
  if (!copy) return;
  field->bytes = copy;
  field->length = length;
}

/* As another field of its kind has it, or something known, or with a byte changed. */
static void change_text(mutator *m, onnx_field *field) {
  static const char *const words[] = {"",
                                      "NOTSET",
                                      "SAME_UPPER",
                                      "SAME_LOWER",
                                      "VALID",
                                      "constant",
                                      "reflect",
                                      "edge",
                                      "wrap",
                                      "linear",
                                      "cubic",
                                      "nearest",
                                      "bilinear",
                                      "asymmetric",
                                      "align_corners",
                                      "tf_crop_and_resize",
                                      "pytorch_half_pixel",
                                      "half_pixel",
                                      "floor",
                                      "ceil",
                                      "add",
                                      "mul",
                                      "max",
                                      "min",
                                      "none",
                                      "sum",
                                      "mean",
                                      "forward",
                                      "reverse",
                                      "bidirectional",
                                      "DCR",
                                      "CRD",
                                      "ij,jk->ik",
                                      "...ii->...i",
                                      "bij,bjk",
                                      "Tanh",
                                      "Sigmoid",
                                      "tanh",
                                      "NCHW",
                                      "a*b",
                                      "1",
                                      "0.5",
                                      "NaN",
                                      "x\nx",
                                      "\xff\xfe",
                                      "\xc3\xa9",
                                      "[a-z]+(b|c)*",
                                      "(((((",
                                      "UPPER",
                                      "L2",
                                      "SOFTMAX",
                                      "BRANCH_LEQ",
                                      "LEAF",
                                      "TFIDF"};
  const onnx_field *const donor = draw(m, 3) ? draw_field(m, is_alike, field) : NULL;
  if (donor) {
    field->bytes = donor->bytes;
    field->length = donor->length;
  } else if (draw(m, 2) || !field->length) {
    set_text(m, field, words[draw(m, sizeof words / sizeof *words)]);
  } else {
    uint8_t *const copy = tercel_arena_copy(&m->arena, field->bytes, field->length);
    if (!copy) return;
    copy[draw(m, field->length)] = (uint8_t)(draw(m, 4) ? 'a' + draw(m, 26) : draw(m, 256));
    field->bytes = copy;
  }
}

/* To an operator that the importer knows, with its domain. */
static void change_operator(mutator *m, onnx_field *field) {
  size_t count = 0;
  const tercel_onnx_row *const rows = tercel_onnx_rows();
  while (rows[count].op_type) count++;
  const tercel_onnx_row *const row = &rows[draw(m, count)];
  set_text(m, field, row->op_type);
  onnx_message *const node = field->parent;
  for (size_t i = 0; i < node->count; i++)
    if (node->fields[i]->role == ONNX_DOMAIN) set_text(m, node->fields[i], row->domain);
  if (row->domain[0] && node->kind == ONNX_NODE) onnx_add_text(&m->arena, node, ONNX_NODE_DOMAIN, row->domain);
}

static void change_leaf(mutator *m, onnx_field *field) {
  static const char *const domains[] = {"",    "ai.onnx", "ai.onnx.ml", "com.microsoft", "ai.onnx.preview.training",
                                        "test"};
  switch (field->role) {
  case ONNX_INT: field->value = field->parent->kind == ONNX_OPSET ? 1 + draw(m, 27) : draw_number(m); break;
  case ONNX_FLOAT: field->value = draw_float_bits(m); break;
  case ONNX_DTYPE: field->value = draw(m, 30); break;
  case ONNX_ATTR_TYPE: field->value = draw(m, 16); break;
  case ONNX_INTS: change_ints(m, field); break;
  case ONNX_FLOATS: change_floats(m, field); break;
  case ONNX_RAW: change_raw(m, field); break;
  case ONNX_DOMAIN: set_text(m, field, domains[draw(m, sizeof domains / sizeof *domains)]); break;
  case ONNX_OPERATOR: change_operator(m, field); break;
  case ONNX_TEXT:
  case ONNX_VALUE_NAME:
  case ONNX_ATTR_NAME:
  case ONNX_DIM_NAME: change_text(m, field); break;
  case ONNX_MESSAGE:
  case ONNX_OPAQUE: break;
  }
}

/* ---- nodes into subgraphs ---------------------------------------------------------------------------------------------- */

static void add_subgraph(mutator *m, onnx_message *holder, const char *attr, const onnx_field *node, bool is_body) {
  onnx_message *const message = onnx_add_message(&m->arena, holder, ONNX_NODE_ATTR);
  if (!message) return;
  onnx_add_text(&m->arena, message, ONNX_ATTR_NAME_FIELD, attr);
  onnx_add_int(&m->arena, message, ONNX_ATTR_TYPE_FIELD, TERCEL_ONNX_GRAPH);
  onnx_message *const graph = onnx_add_message(&m->arena, message, ONNX_ATTR_GRAPH);
  onnx_field *const copy = onnx_copy(&m->arena, node);
  if (!graph || !copy) return;
  onnx_insert(&m->arena, graph, 0, copy);
  onnx_add_text(&m->arena, graph, ONNX_GRAPH_NAME, attr);
  static const struct {
    const char *name;
    uint64_t dtype;
  } counters[] = {{"fuzz_i", 7}, {"fuzz_go", 9}};
  for (size_t i = 0; is_body && i < 2; i++) {
    onnx_message *const input = onnx_add_message(&m->arena, graph, ONNX_GRAPH_INPUT);
    onnx_message *const type = input ? onnx_add_message(&m->arena, input, ONNX_VALUE_INFO_TYPE) : NULL;
    onnx_message *const tensor = type ? onnx_add_message(&m->arena, type, ONNX_TYPE_TENSOR) : NULL;
    if (!tensor) return;
    onnx_add_text(&m->arena, input, ONNX_VALUE_INFO_NAME, counters[i].name);
    onnx_add_int(&m->arena, tensor, ONNX_TENSOR_TYPE_DTYPE, counters[i].dtype);
    onnx_add_message(&m->arena, tensor, ONNX_TENSOR_TYPE_SHAPE);
  }
  if (is_body) {
    onnx_message *const output = onnx_add_message(&m->arena, graph, ONNX_GRAPH_OUTPUT);
    if (output) onnx_add_text(&m->arena, output, ONNX_VALUE_INFO_NAME, "fuzz_go");
  }
  for (size_t i = 0; i < node->child->count; i++) {
    const onnx_field *const field = node->child->fields[i];
    if (field->number != ONNX_NODE_OUTPUT || field->role != ONNX_VALUE_NAME) continue;
    onnx_message *const output = onnx_add_message(&m->arena, graph, ONNX_GRAPH_OUTPUT);
    onnx_field *const name = output ? onnx_add_text(&m->arena, output, ONNX_VALUE_INFO_NAME, "") : NULL;
    if (!name) return;
    name->bytes = field->bytes;
    name->length = field->length;
  }
}

/* A node of the graph that gives `name`: a whole number, or true. */
static void add_constant(mutator *m, onnx_message *graph, const char *name, bool is_count) {
  onnx_message *const node = onnx_add_message(&m->arena, graph, ONNX_GRAPH_NODE);
  onnx_message *const attr = node ? onnx_add_message(&m->arena, node, ONNX_NODE_ATTR) : NULL;
  onnx_message *const tensor = attr ? onnx_add_message(&m->arena, attr, ONNX_ATTR_TENSOR) : NULL;
  if (!tensor) return;
  onnx_add_text(&m->arena, node, ONNX_NODE_OUTPUT, name);
  onnx_add_text(&m->arena, node, ONNX_NODE_OPERATOR, "Constant");
  onnx_add_text(&m->arena, attr, ONNX_ATTR_NAME_FIELD, "value");
  onnx_add_int(&m->arena, attr, ONNX_ATTR_TYPE_FIELD, TERCEL_ONNX_TENSOR);
  onnx_add_int(&m->arena, tensor, ONNX_TENSOR_DTYPE, is_count ? 7 : 9);
  onnx_add_int(&m->arena, tensor, is_count ? ONNX_TENSOR_INT64S : ONNX_TENSOR_INT32S,
               is_count ? draw(m, 4) : draw(m, 2));
}

/* The node becomes the branches of an If, or the body of a Loop that stacks what it gives. */
static void nest_node(mutator *m, onnx_field *node) {
  const bool is_loop = draw(m, 2);
  onnx_message *const graph = node->parent;
  onnx_field *const copy = onnx_copy(&m->arena, node);
  if (!copy) return;
  onnx_message *const holder = node->child;
  for (size_t i = holder->count; i-- > 0;)
    if (holder->fields[i]->number != ONNX_NODE_OUTPUT) onnx_remove(holder, i);
  onnx_add_text(&m->arena, holder, ONNX_NODE_OPERATOR, is_loop ? "Loop" : "If");
  if (is_loop) onnx_add_text(&m->arena, holder, ONNX_NODE_INPUT, "fuzz_count");
  onnx_add_text(&m->arena, holder, ONNX_NODE_INPUT, "fuzz_cond");
  if (is_loop) add_subgraph(m, holder, "body", copy, true);
  if (!is_loop) add_subgraph(m, holder, "then_branch", copy, false);
  if (!is_loop) add_subgraph(m, holder, "else_branch", copy, false);
  add_constant(m, graph, "fuzz_cond", false);
  if (is_loop) add_constant(m, graph, "fuzz_count", true);
}

/* ---- one change -------------------------------------------------------------------------------------------------------- */

/* A copy of donor beside target, or in its place. */
static void graft(mutator *m, onnx_field *target, const onnx_field *donor, bool replace) {
  onnx_field *const copy = onnx_copy(&m->arena, donor);
  if (!copy) return;
  onnx_message *const parent = target->parent;
  const size_t index = onnx_index(target);
  copy->number = target->number;
  copy->wire = target->wire == donor->wire ? target->wire : donor->wire;
  if (replace) {
    parent->fields[index] = copy;
    copy->parent = parent;
  } else {
    onnx_insert(&m->arena, parent, index + (size_t)draw(m, 2), copy);
  }
}

static void mutate_once(mutator *m) {
  m->num_fields = 0;
  if (!list_fields(m, m->model) || !m->num_fields) return;
  onnx_field *const field = m->fields[draw(m, m->num_fields)];
  onnx_message *const parent = field->parent;
  switch (draw(m, 12)) {
  case 0: onnx_remove(parent, onnx_index(field)); break;
  case 1: graft(m, field, field, false); break;
  case 2: { /* moved among its siblings: inputs swapped, nodes in another order */
    const size_t from = onnx_index(field), to = (size_t)draw(m, parent->count);
    parent->fields[from] = parent->fields[to];
    parent->fields[to] = field;
    break;
  }
  case 3:
  case 4: {
    const onnx_field *const donor = draw_field(m, is_alike, field);
    if (donor) graft(m, field, donor, draw(m, 2));
    break;
  }
  case 5: {
    onnx_field *const op_type = draw_field(m, is_operator, NULL);
    if (op_type) change_operator(m, op_type);
    break;
  }
  case 6: {
    onnx_field *const node = draw(m, 3) == 0 ? draw_field(m, is_node, NULL) : NULL;
    if (node) nest_node(m, node);
    break;
  }
  default: {
    onnx_field *const leaf = draw_field(m, is_leaf, NULL);
    if (leaf) change_leaf(m, leaf);
  }
  }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  mutator m = {.seed = seed, .arena = {.max_bytes = (size_t)64 << 20}};
  size_t written = 0;
  if (draw(&m, 16)) m.model = onnx_tree_read(&m.arena, data, size);
  if (m.model) {
    for (uint64_t times = 1 + draw(&m, 4); times; times--) mutate_once(&m);
    /* The tree borrows from data: written elsewhere first. */
    uint8_t *const out = tercel_arena_alloc(&m.arena, max_size);
    if (out) written = onnx_tree_write(m.model, out, max_size);
    if (written) memcpy(data, out, written);
  }
  tercel_arena_deinit(&m.arena);
  return written ? written : LLVMFuzzerMutate(data, size, max_size);
}

/* Something of b in the place of something of its kind in a, or beside it. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out,
                                 size_t max_size, unsigned seed) {
  mutator m = {.seed = seed, .arena = {.max_bytes = (size_t)64 << 20}};
  size_t written = 0;
  onnx_message *const first = onnx_tree_read(&m.arena, a, a_size);
  m.model = onnx_tree_read(&m.arena, b, b_size);
  if (first && m.model && list_fields(&m, m.model)) {
    const onnx_field *const donor = m.fields[draw(&m, m.num_fields)];
    m.num_fields = 0;
    m.model = first;
    onnx_field *const target = list_fields(&m, first) ? draw_field(&m, is_alike, donor) : NULL;
    if (target) graft(&m, target, donor, draw(&m, 2));
    written = onnx_tree_write(first, out, max_size);
  }
  tercel_arena_deinit(&m.arena);
  return written;
}
