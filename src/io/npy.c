/* .npy: a text header that is a Python dict, then the elements.  .npz is in npz.c. */
#include "io/npy.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

/* NumPy's kind letter and element size. */
typedef struct type {
  tercel_dtype dtype;
  char kind;
  int bytes;
} type;

/* clang-format off */
static const type types[] = {
    {TERCEL_DTYPE_F64, 'f', 8}, {TERCEL_DTYPE_F32, 'f', 4}, {TERCEL_DTYPE_F16, 'f', 2},  {TERCEL_DTYPE_I64, 'i', 8},
    {TERCEL_DTYPE_I32, 'i', 4}, {TERCEL_DTYPE_I16, 'i', 2}, {TERCEL_DTYPE_I8, 'i', 1},   {TERCEL_DTYPE_U64, 'u', 8},
    {TERCEL_DTYPE_U32, 'u', 4}, {TERCEL_DTYPE_U16, 'u', 2}, {TERCEL_DTYPE_U8, 'u', 1},   {TERCEL_DTYPE_BOOL, 'b', 1},
    {TERCEL_DTYPE_C64, 'c', 8}, {TERCEL_DTYPE_C128, 'c', 16},
};
/* clang-format on */
enum { NUM_TYPES = sizeof types / sizeof *types };

typedef struct header {
  char order; /* '<', '>', '|' or '=' */
  char kind;
  size_t item_bytes;
  bool fortran;
  int rank;
  int64_t dims[TERCEL_MAX_RANK];
} header;

static tercel_status fail(tercel_error *err, const char *what) {
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "not a well-formed .npy file: %s", what);
}

/* ---- the header's text ---- */

typedef struct cursor {
  const char *at, *end;
} cursor;

static bool accept(cursor *c, char wanted) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t')) c->at++;
  if (c->at == c->end || *c->at != wanted) return false;
  c->at++;
  return true;
}

/* A quoted text without escapes, which is all that NumPy writes here. */
static bool take_text(cursor *c, const char **text, size_t *length) {
  const char quote = accept(c, '\'') ? '\'' : accept(c, '"') ? '"' : 0;
  if (!quote) return false;
  const char *const close = memchr(c->at, quote, (size_t)(c->end - c->at));
  if (!close) return false;
  *text = c->at;
  *length = (size_t)(close - c->at);
  c->at = close + 1;
  return true;
}

static bool take_number(cursor *c, int64_t *out) {
  while (c->at < c->end && *c->at == ' ') c->at++;
  const char *const first = c->at;
  while (c->at < c->end && *c->at >= '0' && *c->at <= '9') c->at++;
  const bool got = tercel_parse_i64(first, (size_t)(c->at - first), out);
  if (got && c->at < c->end && *c->at == 'L') c->at++; /* Python 2 wrote 3L */
  return got;
}

static bool take_word(cursor *c, const char *word) {
  while (c->at < c->end && *c->at == ' ') c->at++;
  const size_t length = strlen(word);
  if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) return false;
  c->at += length;
  return true;
}

static tercel_status parse_descr(cursor *c, header *out, tercel_error *err) {
  const char *text;
  size_t length;
  int64_t bytes;
  if (!take_text(c, &text, &length))
    return tercel_fail(err, TERCEL_UNSUPPORTED, "a structured array, want a plain type");
  if (length < 3 || !strchr("<>|=", text[0]) || !tercel_parse_i64(text + 2, length - 2, &bytes) || bytes < 0)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "arrays of type '%.*s' are not supported",
                       (int)(length < 80 ? length : 80), text);
  out->order = text[0];
  out->kind = text[1];
  out->item_bytes = (size_t)bytes;
  return TERCEL_OK;
}

static tercel_status parse_shape(cursor *c, header *out, tercel_error *err) {
  if (!accept(c, '(')) return fail(err, "the shape is no tuple");
  while (!accept(c, ')')) {
    if (out->rank == TERCEL_MAX_RANK)
      return tercel_fail(err, TERCEL_UNSUPPORTED, "an array of more than %d dims", TERCEL_MAX_RANK);
    if (!take_number(c, &out->dims[out->rank++])) return fail(err, "the shape holds something else than numbers");
    if (!accept(c, ',') && !(c->at < c->end && *c->at == ')')) return fail(err, "the shape does not end");
  }
  return TERCEL_OK;
}

static tercel_status parse_header(const char *text, size_t length, header *out, tercel_error *err) {
  cursor c = {text, text + length};
  bool seen_descr = false, seen_order = false, seen_shape = false;
  if (!accept(&c, '{')) return fail(err, "the header is no dict");
  while (!accept(&c, '}')) {
    const char *key;
    size_t key_length;
    if (!take_text(&c, &key, &key_length) || !accept(&c, ':')) return fail(err, "the header is no dict");
    if (key_length == 5 && memcmp(key, "descr", 5) == 0 && !seen_descr) {
      TERCEL_TRY(parse_descr(&c, out, err));
      seen_descr = true;
    } else if (key_length == 13 && memcmp(key, "fortran_order", 13) == 0 && !seen_order) {
      out->fortran = take_word(&c, "True");
      if (!out->fortran && !take_word(&c, "False")) return fail(err, "fortran_order is neither True nor False");
      seen_order = true;
    } else if (key_length == 5 && memcmp(key, "shape", 5) == 0 && !seen_shape) {
      TERCEL_TRY(parse_shape(&c, out, err));
      seen_shape = true;
    } else {
      return fail(err, "a key that is unknown or stands twice in the header");
    }
    accept(&c, ',');
  }
  return seen_descr && seen_order && seen_shape ? TERCEL_OK : fail(err, "descr, fortran_order or shape is missing");
}

/* Finds and parses the header; *start is where the elements begin. */
static tercel_status open_header(const uint8_t *data, size_t bytes, header *out, size_t *start, tercel_error *err) {
  if (bytes < 10 || memcmp(data, magic, sizeof magic) != 0) return fail(err, "it does not begin with \\x93NUMPY");
  const int version = data[6];
  if (version < 1 || version > 3)
    return tercel_fail(err, TERCEL_UNSUPPORTED, ".npy version %d, want 1, 2 or 3", version);
  const size_t fixed = version == 1 ? 10 : 12;
  if (bytes < fixed) return fail(err, "it ends inside the header");
  size_t length = (size_t)data[8] | (size_t)data[9] << 8;
  if (version > 1) length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
  if (length > bytes - fixed) return fail(err, "it ends inside the header");
  *start = fixed + length;
  return parse_header((const char *)data + fixed, length, out, err);
}

/* ---- elements ---- */

static void reverse(uint8_t *data, size_t bytes, size_t part) {
  for (size_t i = 0; i + part <= bytes; i += part) {
    for (size_t k = 0; k < part / 2; k++) {
      const uint8_t byte = data[i + k];
      data[i + k] = data[i + part - 1 - k];
      data[i + part - 1 - k] = byte;
    }
  }
}

/* Element `to` of row-major order comes from here in the file. */
static size_t source_index(const header *h, int64_t to) {
  if (!h->fortran) return (size_t)to;
  int64_t from = 0, stride_total = 1, places[TERCEL_MAX_RANK];
  for (int i = h->rank - 1; i >= 0; i--) {
    places[i] = to % h->dims[i];
    to /= h->dims[i];
  }
  for (int i = 0; i < h->rank; i++) {
    from += places[i] * stride_total;
    stride_total *= h->dims[i];
  }
  return (size_t)from;
}

/* One code point as UTF-8; what is none becomes U+FFFD.  Returns the bytes written. */
static size_t put_utf8(uint32_t code, char *out) {
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = 0xfffd;
  const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
  for (int i = more; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
  out[0] = (char)(lead[more] | code);
  return (size_t)more + 1;
}

static uint32_t load32(const uint8_t *at, bool swap) {
  uint32_t word;
  memcpy(&word, at, sizeof word);
  return swap ? __builtin_bswap32(word) : word;
}

/* Text of a fixed width, filled up with zeros: U is UTF-32, S bytes. */
static tercel_status take_string(const header *h, const uint8_t *item, tercel_arena *arena, tercel_string *out,
                                 tercel_error *err) {
  const bool wide = h->kind == 'U';
  const size_t unit = wide ? 4 : 1;
  size_t units = h->item_bytes;
  while (units > 0 && (wide ? load32(item + 4 * (units - 1), false) : item[units - 1]) == 0) units--;
  char *const text = tercel_arena_alloc(arena, units * unit);
  if (!text) return tercel_fail_memory(err, units * unit, "a string");
  size_t length = wide ? 0 : units;
  for (size_t i = 0; wide && i < units; i++) length += put_utf8(load32(item + 4 * i, h->order == '>'), text + length);
  if (!wide && units) memcpy(text, item, units);
  *out = (tercel_string){text, length};
  return TERCEL_OK;
}

static tercel_status take_strings(const header *h, const uint8_t *data, size_t bytes, tercel_datum *out,
                                  tercel_error *err) {
  size_t item, total;
  const int64_t elements = tercel_view_num_elements(out->views);
  if (!tercel_mul_size(h->item_bytes, h->kind == 'U' ? 4 : 1, &item) ||
      !tercel_mul_size(item, (size_t)elements, &total) || total > bytes)
    return fail(err, "it ends inside the elements");
  tercel_string *const strings = out->views->data;
  for (int64_t i = 0; i < elements; i++)
    TERCEL_TRY(take_string(h, data + item * source_index(h, i), &out->arena, &strings[i], err));
  return TERCEL_OK;
}

static tercel_status take_elements(const header *h, const uint8_t *data, size_t bytes, tercel_datum *out,
                                   tercel_error *err) {
  tercel_view *const view = out->views;
  if (view->bytes > bytes) return fail(err, "it ends inside the elements");
  uint8_t *const to = view->data;
  if (!h->fortran && view->bytes) memcpy(to, data, view->bytes);
  const int64_t elements = h->fortran ? tercel_view_num_elements(view) : 0;
  for (int64_t i = 0; i < elements; i++)
    memcpy(to + (size_t)i * h->item_bytes, data + source_index(h, i) * h->item_bytes, h->item_bytes);
  if (h->order == '>') reverse(to, view->bytes, h->kind == 'c' ? h->item_bytes / 2 : h->item_bytes);
  for (size_t i = 0; view->dtype == TERCEL_DTYPE_BOOL && i < view->bytes; i++) to[i] = to[i] != 0;
  return TERCEL_OK;
}

tercel_status tercel_npy_parse(const void *data, size_t bytes, tercel_datum *out, tercel_error *err) {
  *out = (tercel_datum){0};
  header h = {0};
  size_t start = 0;
  TERCEL_TRY(open_header(data, bytes, &h, &start, err));
  tercel_dtype dtype = h.kind == 'U' || h.kind == 'S' ? TERCEL_DTYPE_STRING : TERCEL_DTYPE_NONE;
  for (int i = 0; i < NUM_TYPES; i++)
    if (types[i].kind == h.kind && (size_t)types[i].bytes == h.item_bytes) dtype = types[i].dtype;
  if (dtype == TERCEL_DTYPE_NONE)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "arrays of type '%c%zu' are not supported", h.kind, h.item_bytes);
  const uint8_t *const elements = (const uint8_t *)data + start;
  const size_t left = bytes - start;
  /* Strings of width 0 take no bytes in the file: they are bounded by what a string takes here. */
  const size_t limit = dtype == TERCEL_DTYPE_STRING ? (left + 4096) * sizeof(tercel_string) : left + 1;
  TERCEL_TRY(tercel_datum_init_tensor(out, "", dtype, h.rank, h.dims, limit, err));
  const tercel_status status = dtype == TERCEL_DTYPE_STRING ? take_strings(&h, elements, left, out, err)
                                                            : take_elements(&h, elements, left, out, err);
  if (status != TERCEL_OK) tercel_datum_deinit(out);
  return status;
}

tercel_status tercel_npy_read(const char *path, tercel_datum *out, tercel_error *err) {
  *out = (tercel_datum){0};
  tercel_file file = {0};
  TERCEL_TRY(tercel_file_open(path, true, &file, err));
  const tercel_status status = tercel_npy_parse(file.data, file.size, out, err);
  tercel_file_close(&file);
  return status == TERCEL_OK ? TERCEL_OK : tercel_fail_at(err, status, "%s", path);
}

/* ---- writing ---- */

/* NumPy's name for what the view is written as. */
static tercel_dtype written_as(tercel_dtype dtype) {
  for (int i = 0; i < NUM_TYPES; i++)
    if (types[i].dtype == dtype) return dtype;
  switch (tercel_dtype_get_kind(dtype)) {
  case TERCEL_KIND_FLOAT: return TERCEL_DTYPE_F32;
  case TERCEL_KIND_INT: return TERCEL_DTYPE_I8;
  case TERCEL_KIND_UINT: return TERCEL_DTYPE_U8;
  default: return TERCEL_DTYPE_STRING;
  }
}

/* Code points of UTF-8 text into UTF-32 (NULL: only counted).  A malformed byte counts as U+FFFD. */
static size_t get_utf32(tercel_string s, uint32_t *out) {
  size_t count = 0;
  for (size_t i = 0; i < s.length; count++) {
    const uint8_t first = (uint8_t)s.data[i];
    const size_t more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    uint32_t code = more == 0 ? first : first & (0x3fu >> more);
    bool good = first < 0x80 || (first >= 0xc2 && first < 0xf5);
    for (size_t k = 1; good && k <= more; k++) {
      good = i + k < s.length && ((uint8_t)s.data[i + k] & 0xc0) == 0x80;
      if (good) code = code << 6 | ((uint8_t)s.data[i + k] & 0x3f);
    }
    if (out) out[count] = good ? code : 0xfffd;
    i += good ? more + 1 : 1;
  }
  return count;
}

static size_t widest_string(const tercel_view *view) {
  const tercel_string *const strings = view->data;
  size_t width = 1; /* NumPy has no U0 that survives a round trip */
  const int64_t elements = tercel_view_num_elements(view);
  for (int64_t i = 0; i < elements; i++) {
    const size_t length = get_utf32(strings[i], NULL);
    if (length > width) width = length;
  }
  return width;
}

/* The header's text, padded with spaces so that the elements start at a multiple of 64. */
static void add_header(tercel_text *text, const tercel_view *view, tercel_dtype dtype, size_t width) {
  tercel_text dict = {0};
  if (dtype == TERCEL_DTYPE_STRING) tercel_text_add(&dict, "{'descr': '<U%zu'", width);
  for (int i = 0; i < NUM_TYPES; i++)
    if (types[i].dtype == dtype)
      tercel_text_add(&dict, "{'descr': '%c%c%d'", types[i].bytes == 1 ? '|' : '<', types[i].kind, types[i].bytes);
  tercel_text_add(&dict, ", 'fortran_order': False, 'shape': (");
  for (int i = 0; i < view->rank; i++)
    tercel_text_add(&dict, "%lld%s", (long long)view->dims[i], i + 1 < view->rank ? ", " : view->rank == 1 ? "," : "");
  tercel_text_add(&dict, "), }");
  while (!dict.failed && (10 + dict.length + 1) % 64 != 0) tercel_text_add_bytes(&dict, " ", 1);
  tercel_text_add_bytes(&dict, "\n", 1);
  const char fixed[4] = {1, 0, (char)(dict.length & 0xff), (char)(dict.length >> 8)};
  tercel_text_add_bytes(text, magic, sizeof magic);
  tercel_text_add_bytes(text, fixed, sizeof fixed);
  tercel_text_add_bytes(text, dict.data, dict.length);
  text->failed = text->failed || dict.failed;
  tercel_text_deinit(&dict);
}

static void add_strings(tercel_text *text, const tercel_view *view, size_t width) {
  const tercel_string *const strings = view->data;
  uint32_t *const padded = tercel_alloc_array(width, sizeof *padded);
  if (!padded) {
    text->failed = true;
    return;
  }
  const int64_t elements = tercel_view_num_elements(view);
  for (int64_t i = 0; i < elements; i++) {
    memset(padded, 0, width * sizeof *padded);
    get_utf32(strings[i], padded);
    tercel_text_add_bytes(text, (const char *)padded, width * sizeof *padded);
  }
  tercel_free(padded);
}

static void add_widened(tercel_text *text, const tercel_view *view, tercel_dtype dtype) {
  const int64_t elements = tercel_view_num_elements(view);
  for (int64_t i = 0; i < elements; i++) {
    uint32_t element = 0;
    tercel_element_cast(&element, dtype, 0, view->data, view->dtype, i, true, 'n');
    tercel_text_add_bytes(text, (const char *)&element, (size_t)tercel_dtype_bits(dtype) / 8);
  }
}

tercel_status tercel_npy_write(const char *path, const tercel_view *view, tercel_error *err) {
  const tercel_dtype dtype = written_as(view->dtype);
  const size_t width = dtype == TERCEL_DTYPE_STRING ? widest_string(view) : 0;
  size_t bytes = 0;
  tercel_text text = {0};
  add_header(&text, view, dtype, width);
  if (dtype == TERCEL_DTYPE_STRING)
    add_strings(&text, view, width);
  else if (dtype != view->dtype)
    add_widened(&text, view, dtype);
  else if (tercel_dtype_size(dtype, tercel_view_num_elements(view), &bytes))
    tercel_text_add_bytes(&text, view->data, bytes);
  tercel_status status = text.failed ? tercel_fail_memory(err, view->bytes, path) : TERCEL_OK;
  if (status == TERCEL_OK) status = tercel_file_write(path, text.data, text.length, err);
  tercel_text_deinit(&text);
  return status;
}
