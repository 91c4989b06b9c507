/* Files from outside: mapped for reading, written under a temporary name and renamed. */
#ifndef TERCEL_BASE_FILE_H
#define TERCEL_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct tercel_file {
  const uint8_t *data; /* NULL when size is 0 */
  size_t size;
  bool mapped; /* false: read into memory */
} tercel_file;

/* Maps a regular file read-only.  A folder, device or pipe is refused; an empty file has size 0.
 * use_mmap false reads it into the heap instead (for file systems under which a file may be cut short while we run). */
tercel_status tercel_file_open(const char *path, bool use_mmap, tercel_file *out, tercel_error *err);
/* Safe on a zeroed struct. */
void tercel_file_close(tercel_file *file);
/* What lies at file->data + offset won't be read soon: the pages of a mapping leave this process's memory, and come back when touched. */
void tercel_file_forget(const tercel_file *file, size_t offset, size_t bytes);

/* Folders that files of a model may lie in besides the model's own, their subfolders included. */
typedef struct tercel_folders {
  const char *const *paths;
  size_t count;
} tercel_folders;

/* Opens `name`, a path that a model file gives relative to its `folder`.  After links are resolved the file must lie in that folder
 * or in one of `allowed` (may be NULL); where it lies is settled on the opened folders, so nobody can change it meanwhile.
 * INVALID_MODEL says where it lies and how to allow that. */
tercel_status tercel_file_open_inside(const char *folder, const tercel_folders *allowed, const char *name,
                                      bool use_mmap, tercel_file *out, tercel_error *err);

/* Writes path atomically: temporary name in the same folder, fsync, rename. */
tercel_status tercel_file_write(const char *path, const void *data, size_t size, tercel_error *err);

typedef struct tercel_file_piece {
  const void *data;
  size_t size;
} tercel_file_piece;

/* The same of pieces, one behind the other. */
tercel_status tercel_file_write_pieces(const char *path, const tercel_file_piece *pieces, size_t count,
                                       tercel_error *err);

/* The folder part of a path ("." when there is none) into out (PATH_MAX bytes). */
void tercel_path_folder(const char *path, char *out, size_t out_size);

#endif
