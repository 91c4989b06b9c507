/* .npz: a zip archive of NAME.npy entries. */
#include <string.h>

#include "io/npy.h"
#include "io/zip.h"

/* The entry's name without ".npy". */
static size_t base_length(const tercel_zip_entry *entry) {
  const size_t length = entry->name_length;
  return length >= 4 && memcmp(entry->name + length - 4, ".npy", 4) == 0 ? length - 4 : length;
}

static bool is_named(const tercel_zip_entry *entry, const char *name) {
  const size_t length = strlen(name);
  return base_length(entry) == length && memcmp(entry->name, name, length) == 0;
}

/* Finds the wanted entry; the message of a failure lists what there is. */
static tercel_status find(const void *data, size_t bytes, const char *name, tercel_zip_entry *out, tercel_error *err) {
  tercel_zip zip;
  tercel_zip_entry entry;
  tercel_text names = {0};
  size_t count = 0;
  bool more = true, found = false;
  tercel_status status = tercel_zip_open(data, bytes, &zip, err);
  while (status == TERCEL_OK && !found) {
    status = tercel_zip_next(&zip, &entry, &more, err);
    if (status != TERCEL_OK || !more) break;
    *out = entry;
    found = name && is_named(&entry, name);
    if (count++ < 20) tercel_text_add(&names, "%s%.*s", names.length ? ", " : "", (int)base_length(&entry), entry.name);
  }
  if (status == TERCEL_OK && !found && (name || count != 1)) {
    if (name)
      status = tercel_fail(err, TERCEL_INVALID_ARGUMENT, "no array '%s' in the archive; it has: %s", name,
                           names.data ? names.data : "none");
    else
      status = tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%zu arrays in the archive, want one, or say which: %s", count,
                           names.data ? names.data : "none");
  }
  tercel_text_deinit(&names);
  return status;
}

tercel_status tercel_npz_parse(const void *data, size_t bytes, const char *name, tercel_datum *out, tercel_error *err) {
  *out = (tercel_datum){0};
  tercel_zip_entry entry = {0};
  tercel_arena arena = {0};
  const uint8_t *contents = NULL;
  TERCEL_TRY(find(data, bytes, name, &entry, err));
  tercel_status status = tercel_zip_extract(&entry, &arena, &contents, err);
  if (status == TERCEL_OK) status = tercel_npy_parse(contents, entry.bytes, out, err);
  tercel_arena_deinit(&arena);
  return status;
}

tercel_status tercel_npz_read(const char *path, const char *name, tercel_datum *out, tercel_error *err) {
  *out = (tercel_datum){0};
  tercel_file file = {0};
  TERCEL_TRY(tercel_file_open(path, true, &file, err));
  const tercel_status status = tercel_npz_parse(file.data, file.size, name, out, err);
  tercel_file_close(&file);
  return status == TERCEL_OK ? TERCEL_OK : tercel_fail_at(err, status, "%s", path);
}
