/* Opening a GGUF model: a file, or the files that it was split into.
 *
 * A part of a split model has keys split.no and split.count (ggml's gguf-split) and holds tensors of its own; the metadata are the first one's. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "import/gguf/gguf.h"

const tercel_gguf_value *tercel_gguf_find(const tercel_gguf *gguf, const char *key) {
  const tercel_gguf_entry *const entry = tercel_map_get(&gguf->entries_by_key, key, NULL);
  return entry != NULL ? &entry->value : NULL;
}

const tercel_gguf_tensor *tercel_gguf_find_tensor(const tercel_gguf *gguf, const char *name) {
  return tercel_map_get(&gguf->tensors_by_name, name, NULL);
}

/* Which part of how many: 0 of 1 for a file that is whole. */
static tercel_status get_split(const tercel_gguf *gguf, int64_t *number, int64_t *count, tercel_error *err) {
  const tercel_gguf_value *const no = tercel_gguf_find(gguf, "split.no"), *const of =
                                                                              tercel_gguf_find(gguf, "split.count");
  *number = 0;
  *count = 1;
  if (of == NULL) return TERCEL_OK;
  if (!tercel_gguf_get_i64(of, 0, count) || *count < 0 || *count > TERCEL_GGUF_MAX_FILES ||
      (no != NULL && !tercel_gguf_get_i64(no, 0, number)) || *number < 0 || *number >= tercel_max_i64(*count, 1))
    return tercel_fail(err, TERCEL_INVALID_MODEL, "split.no %lld of split.count %lld, want at most %d files",
                       (long long)*number, (long long)*count, TERCEL_GGUF_MAX_FILES);
  if (*count == 0) *count = 1; /* as llama.cpp takes it */
  return TERCEL_OK;
}

static tercel_status open_file(const char *path, bool use_mmap, tercel_gguf *out, tercel_error *err) {
  tercel_file file = {0};
  tercel_storage *storage = NULL;
  TERCEL_TRY(tercel_file_open(path, use_mmap, &file, err));
  const tercel_status status = tercel_storage_create_file(&file, &storage, err);
  if (status != TERCEL_OK) {
    tercel_file_close(&file);
    return status;
  }
  const tercel_status read =
      tercel_gguf_read(out, storage, tercel_storage_data(storage), tercel_storage_size(storage), err);
  tercel_storage_release(storage); /* out has its own reference */
  return read == TERCEL_OK ? read : tercel_fail_at(err, read, "%s", path);
}

/* The path of part `number`: "-00001-of-00003.gguf" at the end of this one's is exchanged. */
static tercel_status part_path(const char *path, int64_t number, int64_t count, char out[PATH_MAX], tercel_error *err) {
  char ending[48];
  const size_t length = strlen(path);
  snprintf(ending, sizeof ending, "-of-%05lld.gguf", (long long)count);
  const size_t tail = strlen(ending) + 6; /* and "-00001" */
  if (length < tail || length >= PATH_MAX || strcmp(path + length - strlen(ending), ending) != 0)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "one of %lld files of a split model, but its name does not end in %s",
                       (long long)count, ending);
  snprintf(out, PATH_MAX, "%.*s-%05lld%s", (int)(length - tail), path, (long long)number + 1, ending);
  return TERCEL_OK;
}

/* Opens all other parts; part 0, whose metadata count, becomes `gguf` itself. */
static tercel_status open_parts(tercel_gguf *gguf, const char *path, bool use_mmap, int64_t number, int64_t count,
                                tercel_error *err) {
  char name[PATH_MAX];
  gguf->parts = tercel_zalloc_array((size_t)count, sizeof *gguf->parts);
  if (gguf->parts == NULL) return tercel_fail_memory(err, (size_t)count * sizeof *gguf->parts, "files");
  for (int64_t i = 0; i < count; ++i) {
    int64_t is, of;
    if (i == number) continue;
    tercel_gguf *const part = &gguf->parts[gguf->num_parts++];
    TERCEL_TRY(part_path(path, i, count, name, err));
    TERCEL_TRY(open_file(name, use_mmap, part, err));
    TERCEL_TRY(get_split(part, &is, &of, err));
    if (is != i || of != count)
      return tercel_fail(err, TERCEL_INVALID_MODEL, "%s: says that it is part %lld of %lld", name, (long long)is + 1,
                         (long long)of);
  }
  if (number == 0) return TERCEL_OK;
  /* The first in the row of the others is part 0: they change places. */
  tercel_gguf opened = *gguf;
  tercel_gguf *const parts = gguf->parts;
  const size_t num_parts = gguf->num_parts;
  opened.parts = NULL;
  opened.num_parts = 0;
  *gguf = parts[0];
  parts[0] = opened;
  gguf->parts = parts;
  gguf->num_parts = num_parts;
  return TERCEL_OK;
}

/* Tensors of all parts as one list. */
static tercel_status join_tensors(tercel_gguf *gguf, tercel_error *err) {
  size_t count = gguf->num_tensors;
  for (size_t i = 0; i < gguf->num_parts; ++i) count += gguf->parts[i].num_tensors;
  tercel_gguf_tensor *const all = tercel_arena_alloc_array(&gguf->arena, count + 1, sizeof *all);
  if (all == NULL) return tercel_fail_memory(err, count * sizeof *all, "tensors");
  size_t at = 0;
  tercel_map_clear(&gguf->tensors_by_name);
  for (size_t p = 0; p <= gguf->num_parts; ++p) {
    const tercel_gguf *const from = p == 0 ? gguf : &gguf->parts[p - 1];
    for (size_t i = 0; i < from->num_tensors; ++i, ++at) {
      all[at] = from->tensors[i];
      if (tercel_gguf_find_tensor(gguf, all[at].name) != NULL)
        return tercel_fail(err, TERCEL_INVALID_MODEL, "tensor '%s' stands in two files", all[at].name);
      TERCEL_TRY(tercel_map_set(&gguf->tensors_by_name, all[at].name, &all[at], err));
    }
  }
  gguf->tensors = all;
  gguf->num_tensors = count;
  return TERCEL_OK;
}

static tercel_status check_count(const tercel_gguf *gguf, tercel_error *err) {
  const tercel_gguf_value *const value = tercel_gguf_find(gguf, "split.tensors.count");
  int64_t want;
  if (value == NULL) return TERCEL_OK;
  if (!tercel_gguf_get_i64(value, 0, &want) || (uint64_t)want != gguf->num_tensors)
    return tercel_fail(err, TERCEL_INVALID_MODEL,
                       "the files of the split model hold %zu tensors, want split.tensors.count", gguf->num_tensors);
  return TERCEL_OK;
}

static tercel_status open_split(tercel_gguf *gguf, const char *path, bool use_mmap, tercel_error *err) {
  int64_t number, count;
  TERCEL_TRY(get_split(gguf, &number, &count, err));
  if (count == 1) return TERCEL_OK;
  if (path == NULL)
    return tercel_fail(err, TERCEL_UNSUPPORTED, "one of %lld files of a split model; it must be opened by path",
                       (long long)count);
  TERCEL_TRY(open_parts(gguf, path, use_mmap, number, count, err));
  TERCEL_TRY(join_tensors(gguf, err));
  return check_count(gguf, err);
}

static tercel_status create(tercel_gguf **out, tercel_error *err) {
  *out = tercel_zalloc(sizeof **out);
  return *out != NULL ? TERCEL_OK : tercel_fail_memory(err, sizeof **out, "a GGUF file");
}

tercel_status tercel_gguf_open(const char *path, bool use_mmap, tercel_gguf **out, tercel_error *err) {
  tercel_gguf *gguf;
  TERCEL_TRY(create(&gguf, err));
  tercel_status status = open_file(path, use_mmap, gguf, err);
  if (status == TERCEL_OK) status = open_split(gguf, path, use_mmap, err);
  if (status == TERCEL_OK)
    *out = gguf;
  else
    tercel_gguf_close(gguf);
  return status;
}

tercel_status tercel_gguf_open_memory(const void *data, size_t bytes, tercel_gguf **out, tercel_error *err) {
  tercel_gguf *gguf;
  TERCEL_TRY(create(&gguf, err));
  tercel_status status = tercel_gguf_read(gguf, NULL, data, bytes, err);
  if (status == TERCEL_OK) status = open_split(gguf, NULL, false, err);
  if (status == TERCEL_OK)
    *out = gguf;
  else
    tercel_gguf_close(gguf);
  return status;
}

void tercel_gguf_close(tercel_gguf *gguf) {
  if (gguf == NULL) return;
  for (size_t i = 0; i < gguf->num_parts; ++i) tercel_gguf_deinit(&gguf->parts[i]);
  tercel_free(gguf->parts);
  tercel_gguf_deinit(gguf);
  tercel_free(gguf);
}
