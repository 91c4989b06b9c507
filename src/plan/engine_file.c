/* Header and table of an engine file, read and written.  See engine_file.h. */
#include "plan/engine_file.h"

#include <string.h>

#include "base/checksum.h"

/* As PNG's: a high bit and both line ends, which careless transfers change. */
static const uint8_t magic[8] = {0x89, 'T', 'R', 'C', 'L', '\r', '\n', 0x1a};
static const uint32_t byte_order = 0x01020304;

typedef struct header {
  uint8_t magic[8];
  uint32_t format, byte_order;
  uint64_t file_bytes; /* of the whole file */
  uint32_t num_sections, stripped;
  uint64_t weights_bytes; /* also where they are stripped */
  uint64_t table_checksum;
  uint64_t reserved; /* 0 */
  uint64_t checksum; /* of what comes before it */
} header;

typedef struct row {
  char name[16]; /* filled up with 0 */
  uint64_t offset, bytes, checksum;
  uint64_t reserved; /* 0 */
} row;

_Static_assert(sizeof(header) == TERCEL_ENGINE_HEADER_BYTES && sizeof(row) == TERCEL_ENGINE_ROW_BYTES,
               "there are no gaps");

static const char *const section_names[TERCEL_NUM_SECTIONS] = {"metadata", "names",  "graph",     "plan",   "profiles",
                                                               "checks",   "timing", "constants", "weights"};

const char *tercel_section_name(tercel_section section) { return section_names[section]; }

static size_t alignment_of(int section) {
  if (section == TERCEL_SECTION_WEIGHTS) return TERCEL_ENGINE_PAGE;
  return section == TERCEL_SECTION_CONSTANTS ? TERCEL_ALIGNMENT : 8;
}

/* ---- reading ----------------------------------------------------------------------------------------------------------- */

bool tercel_engine_file_is(const void *data, size_t bytes) {
  return bytes >= sizeof magic && memcmp(data, magic, sizeof magic) == 0;
}

#define BAD(err, ...) tercel_fail((err), TERCEL_INVALID_MODEL, __VA_ARGS__)

static tercel_status check_header(const header *h, size_t bytes, tercel_error *err) {
  if (!tercel_engine_file_is(h, sizeof *h)) return BAD(err, "not an engine file: its first 8 bytes are others");
  if (h->byte_order != byte_order)
    return BAD(err, "the byte order is marked 0x%08x, want 0x%08x", h->byte_order, byte_order);
  if (h->format > TERCEL_ENGINE_FORMAT)
    return tercel_fail(err, TERCEL_UNSUPPORTED,
                       "engine format %u, but this is tercel %s, which reads up to %d: it was built by a later tercel",
                       h->format, tercel_version(), TERCEL_ENGINE_FORMAT);
  if (h->format == 0) return BAD(err, "engine format 0, want 1 or more");
  if (h->checksum != tercel_checksum(h, offsetof(header, checksum)))
    return BAD(err, "the header is damaged: its checksum is not that of its bytes");
  if (h->file_bytes != bytes)
    return BAD(err, "the file has %zu bytes, but its header says %llu: it was cut short or added to", bytes,
               (unsigned long long)h->file_bytes);
  if (h->num_sections != TERCEL_NUM_SECTIONS || h->stripped > 1 || h->reserved != 0)
    return BAD(err, "the header has %u sections, want %d; stripped %u, want 0 or 1; reserved %llu, want 0",
               h->num_sections, (int)TERCEL_NUM_SECTIONS, h->stripped, (unsigned long long)h->reserved);
  return TERCEL_OK;
}

/* Sections follow each other with no room for anything else between them. */
static tercel_status check_row(const header *h, const row *r, int section, uint64_t *end, tercel_error *err) {
  char name[sizeof r->name] = {0};
  memcpy(name, section_names[section], strlen(section_names[section]));
  const uint64_t unit = alignment_of(section), offset = (*end + unit - 1) / unit * unit;
  if (memcmp(name, r->name, sizeof name) != 0 || r->reserved != 0)
    return BAD(err, "section %d is not '%s'", section, section_names[section]);
  const bool absent = section == TERCEL_SECTION_WEIGHTS && h->stripped;
  const uint64_t bytes = absent ? 0 : r->bytes;
  if (r->offset != offset || offset > h->file_bytes || bytes > h->file_bytes - offset)
    return BAD(err, "section '%s': %llu bytes at %llu do not fit the file", section_names[section],
               (unsigned long long)r->bytes, (unsigned long long)r->offset);
  *end = offset + bytes;
  return TERCEL_OK;
}

static tercel_status check_table(const header *h, const row *rows, tercel_error *err) {
  uint64_t end = sizeof *h + TERCEL_NUM_SECTIONS * sizeof *rows;
  if (h->table_checksum != tercel_checksum(rows, TERCEL_NUM_SECTIONS * sizeof *rows))
    return BAD(err, "the table of sections is damaged: its checksum is not that of its bytes");
  for (int i = 0; i < TERCEL_NUM_SECTIONS; ++i) TERCEL_TRY(check_row(h, &rows[i], i, &end, err));
  if (end != h->file_bytes || rows[TERCEL_SECTION_WEIGHTS].bytes != h->weights_bytes)
    return BAD(err, "the sections end at %llu, but the file has %llu bytes", (unsigned long long)end,
               (unsigned long long)h->file_bytes);
  return TERCEL_OK;
}

/* Between sections stand zeros. */
static tercel_status check_gap(const tercel_engine_file *file, int section, tercel_error *err) {
  const tercel_section_bytes *const s = &file->sections[section];
  const uint8_t *const copy = tercel_storage_data(file->copy);
  for (uint64_t at = s->offset + s->bytes; at < file->sections[section + 1].offset; ++at)
    if (copy[at] != 0) return BAD(err, "there is something behind section '%s'", section_names[section]);
  return TERCEL_OK;
}

static tercel_status check_sections(const tercel_engine_file *file, tercel_error *err) {
  for (int i = 0; i < TERCEL_SECTION_WEIGHTS; ++i) {
    const tercel_section_bytes *const s = &file->sections[i];
    if (tercel_checksum(s->data, s->bytes) != s->checksum)
      return BAD(err, "section '%s' is damaged: its checksum is not that of its bytes", section_names[i]);
    TERCEL_TRY(check_gap(file, i, err));
  }
  return TERCEL_OK;
}

/* Copies what comes before the weights, then trusts nothing but the copy. */
static tercel_status open_bytes(const uint8_t *data, size_t bytes, tercel_engine_file *file, tercel_error *err) {
  struct {
    header header;
    row rows[TERCEL_NUM_SECTIONS];
  } top;
  if (bytes < sizeof top)
    return BAD(err, "the file has %zu bytes, fewer than the %zu that an engine begins with", bytes, sizeof top);
  memcpy(&top, data, sizeof top);
  TERCEL_TRY(check_header(&top.header, bytes, err));
  TERCEL_TRY(check_table(&top.header, top.rows, err));
  const uint64_t weights_at = top.rows[TERCEL_SECTION_WEIGHTS].offset;
  TERCEL_TRY(tercel_storage_create_raw((size_t)weights_at, &file->copy, err));
  const uint8_t *const copy = memcpy(tercel_storage_data(file->copy), data, (size_t)weights_at);
  file->format = top.header.format;
  file->stripped = top.header.stripped != 0;
  for (int i = 0; i < TERCEL_NUM_SECTIONS; ++i) {
    const row *const r = &top.rows[i];
    const uint8_t *const from = i < TERCEL_SECTION_WEIGHTS ? copy : file->stripped ? NULL : data;
    file->sections[i] =
        (tercel_section_bytes){from == NULL ? NULL : from + r->offset, (size_t)r->bytes, r->offset, r->checksum};
  }
  return check_sections(file, err);
}

tercel_status tercel_engine_file_open(const char *path, bool use_mmap, tercel_engine_file *out, tercel_error *err) {
  tercel_file file = {0};
  *out = (tercel_engine_file){0};
  tercel_status status = TERCEL_OK;
  TERCEL_CHECK(tercel_file_open(path, use_mmap, &file, err));
  TERCEL_CHECK(tercel_storage_create_file(&file, &out->file, err));
  status = open_bytes(tercel_storage_data(out->file), tercel_storage_size(out->file), out, err);
  if (status != TERCEL_OK) tercel_fail_at(err, status, "%s", path);
done:
  tercel_file_close(&file);
  if (status != TERCEL_OK) tercel_engine_file_close(out);
  return status;
}

tercel_status tercel_engine_file_open_memory(const void *data, size_t bytes, tercel_engine_file *out,
                                             tercel_error *err) {
  *out = (tercel_engine_file){0};
  if ((uintptr_t)data % TERCEL_ALIGNMENT != 0)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "an engine in memory must begin at a multiple of %d bytes",
                       (int)TERCEL_ALIGNMENT);
  const tercel_status status = open_bytes(data, bytes, out, err);
  if (status != TERCEL_OK) tercel_engine_file_close(out);
  return status;
}

void tercel_engine_file_close(tercel_engine_file *file) {
  tercel_storage_release(file->file);
  tercel_storage_release(file->copy);
  *file = (tercel_engine_file){0};
}

tercel_status tercel_engine_file_check_weights(const tercel_engine_file *file, tercel_error *err) {
  const tercel_section_bytes *const weights = &file->sections[TERCEL_SECTION_WEIGHTS];
  if (weights->data == NULL || tercel_checksum(weights->data, weights->bytes) == weights->checksum) return TERCEL_OK;
  return BAD(err, "section 'weights' is damaged: its checksum is not that of its %zu bytes", weights->bytes);
}

/* ---- writing ----------------------------------------------------------------------------------------------------------- */

static tercel_status reserve(tercel_blobs *blobs, tercel_error *err) {
  if (blobs->count < blobs->capacity) return TERCEL_OK;
  const size_t capacity = blobs->capacity > 0 ? 2 * blobs->capacity : 64;
  tercel_blob *const items = tercel_realloc(blobs->items, blobs->capacity * sizeof *items, capacity * sizeof *items);
  if (items == NULL) return tercel_fail_memory(err, capacity * sizeof *items, "an engine's weights");
  blobs->items = items;
  blobs->capacity = capacity;
  return TERCEL_OK;
}

tercel_status tercel_blobs_add(tercel_blobs *blobs, const void *data, size_t bytes, size_t *offset_out,
                               tercel_error *err) {
  const uint64_t key[2] = {tercel_checksum(data, bytes), bytes};
  const uintptr_t known = (uintptr_t)tercel_map_get_bytes(&blobs->index, key, sizeof key, NULL);
  if (known != 0 && memcmp(blobs->items[known - 1].data, data, bytes) == 0) {
    *offset_out = blobs->items[known - 1].offset;
    return TERCEL_OK;
  }
  TERCEL_TRY(reserve(blobs, err));
  size_t offset, end;
  if (!tercel_round_up_size(blobs->bytes, TERCEL_ALIGNMENT, &offset) || !tercel_add_size(offset, bytes, &end))
    return tercel_fail_memory(err, SIZE_MAX, "an engine's weights");
  TERCEL_TRY(tercel_map_set_bytes(&blobs->index, key, sizeof key, (void *)(uintptr_t)(blobs->count + 1), err));
  blobs->items[blobs->count++] = (tercel_blob){data, bytes, offset, key[0]};
  blobs->bytes = end;
  *offset_out = offset;
  return TERCEL_OK;
}

void tercel_engine_parts_deinit(tercel_engine_parts *parts) {
  for (int i = 0; i < TERCEL_SECTION_WEIGHTS; ++i) tercel_text_deinit(&parts->sections[i]);
  tercel_free(parts->weights.items);
  tercel_map_deinit(&parts->weights.index);
  *parts = (tercel_engine_parts){0};
}

static const uint8_t zeros[TERCEL_ENGINE_PAGE];

static uint64_t checksum_weights(const tercel_blobs *blobs) {
  tercel_checksum_state state;
  size_t at = 0;
  tercel_checksum_start(&state);
  for (size_t i = 0; i < blobs->count; ++i) {
    tercel_checksum_add(&state, zeros, blobs->items[i].offset - at);
    tercel_checksum_add(&state, blobs->items[i].data, blobs->items[i].bytes);
    at = blobs->items[i].offset + blobs->items[i].bytes;
  }
  return tercel_checksum_end(&state);
}

/* A file as a list of pieces. */
typedef struct layout {
  header header;
  row rows[TERCEL_NUM_SECTIONS];
  tercel_file_piece *pieces;
  size_t num_pieces;
  uint64_t end;
} layout;

static void add_piece(layout *l, const void *data, size_t bytes) {
  if (bytes == 0) return;
  l->pieces[l->num_pieces++] = (tercel_file_piece){data, bytes};
  l->end += bytes;
}

static void pad_to(layout *l, uint64_t unit) { add_piece(l, zeros, (size_t)((unit - l->end % unit) % unit)); }

static void add_row(layout *l, int section, size_t bytes, uint64_t checksum) {
  row *const r = &l->rows[section];
  memcpy(r->name, section_names[section], strlen(section_names[section]));
  r->offset = l->end;
  r->bytes = bytes;
  r->checksum = checksum;
}

static void lay_out(layout *l, const tercel_engine_parts *parts, bool strip) {
  add_piece(l, &l->header, sizeof l->header);
  add_piece(l, l->rows, sizeof l->rows);
  for (int i = 0; i < TERCEL_SECTION_WEIGHTS; ++i) {
    const tercel_text *const section = &parts->sections[i];
    pad_to(l, alignment_of(i));
    add_row(l, i, section->length, tercel_checksum(section->data, section->length));
    add_piece(l, section->data, section->length);
  }
  pad_to(l, TERCEL_ENGINE_PAGE);
  add_row(l, TERCEL_SECTION_WEIGHTS, parts->weights.bytes, checksum_weights(&parts->weights));
  for (size_t i = 0; i < parts->weights.count && !strip; ++i) {
    pad_to(l, TERCEL_ALIGNMENT);
    add_piece(l, parts->weights.items[i].data, parts->weights.items[i].bytes);
  }
  l->header = (header){.format = TERCEL_ENGINE_FORMAT,
                       .byte_order = byte_order,
                       .file_bytes = l->end,
                       .num_sections = TERCEL_NUM_SECTIONS,
                       .stripped = strip,
                       .weights_bytes = parts->weights.bytes,
                       .table_checksum = tercel_checksum(l->rows, sizeof l->rows)};
  memcpy(l->header.magic, magic, sizeof magic);
  l->header.checksum = tercel_checksum(&l->header, offsetof(header, checksum));
}

tercel_status tercel_engine_file_write(const char *path, const tercel_engine_parts *parts, bool strip,
                                       tercel_error *err) {
  for (int i = 0; i < TERCEL_SECTION_WEIGHTS; ++i)
    if (parts->sections[i].failed) return tercel_fail_memory(err, parts->sections[i].length, "an engine file");
  layout *const l = tercel_zalloc(sizeof *l);
  if (l == NULL) return tercel_fail_memory(err, sizeof *l, "an engine file");
  tercel_status status = TERCEL_OK;
  const size_t most_pieces = 2 * (TERCEL_NUM_SECTIONS + 2 + parts->weights.count);
  l->pieces = tercel_alloc_array(most_pieces, sizeof *l->pieces);
  if (l->pieces == NULL) {
    status = tercel_fail_memory(err, most_pieces * sizeof *l->pieces, "an engine file");
    goto done;
  }
  lay_out(l, parts, strip);
  status = tercel_file_write_pieces(path, l->pieces, l->num_pieces, err);
done:
  tercel_free(l->pieces);
  tercel_free(l);
  return status;
}
