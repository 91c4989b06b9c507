/* Files from outside: regular ones only, mapped or read; and files of ours, written whole or not at all. */
#define _GNU_SOURCE /* O_PATH */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/time.h"

#ifdef O_PATH
enum { OPEN_FOLDER = O_PATH | O_DIRECTORY | O_CLOEXEC }; /* needs no right to list the folder */
#else
enum { OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_CLOEXEC };
#endif
/* O_NONBLOCK: a named pipe would make open wait for a writer. */
enum { OPEN_READ = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

static tercel_status fail_io(tercel_error *err, const char *what, const char *path, int error) {
  return tercel_fail(err, TERCEL_IO, "can't %s '%s': %s", what, path, strerror(error));
}

static tercel_status read_all(int fd, const char *path, size_t size, uint8_t **out, tercel_error *err) {
  uint8_t *const data = tercel_alloc(size);
  if (!data) return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "no memory for '%s' (%zu bytes)", path, size);
  for (size_t done = 0; done < size;) {
    const ssize_t got = read(fd, data + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const int error = errno;
      tercel_free(data);
      if (got < 0) return fail_io(err, "read", path, error);
      return tercel_fail(err, TERCEL_IO, "'%s' was cut short while it was read: %zu of %zu bytes", path, done, size);
    }
    done += (size_t)got;
  }
  *out = data;
  return TERCEL_OK;
}

/* Takes the contents of an open file.  fd stays the caller's. */
static tercel_status load(int fd, const char *path, bool use_mmap, tercel_file *out, tercel_error *err) {
  struct stat info;
  if (fstat(fd, &info) != 0) return fail_io(err, "read", path, errno);
  if (S_ISDIR(info.st_mode)) return tercel_fail(err, TERCEL_IO, "'%s' is a folder, want a file", path);
  if (!S_ISREG(info.st_mode)) return tercel_fail(err, TERCEL_IO, "'%s' is not a regular file", path);
  const size_t size = (size_t)info.st_size;
  if (size == 0) return TERCEL_OK;
  if (!use_mmap) {
    uint8_t *data = NULL;
    TERCEL_TRY(read_all(fd, path, size, &data, err));
    *out = (tercel_file){data, size, false};
    return TERCEL_OK;
  }
  void *const data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return fail_io(err, "map", path, errno);
  *out = (tercel_file){data, size, true};
  return TERCEL_OK;
}

tercel_status tercel_file_open(const char *path, bool use_mmap, tercel_file *out, tercel_error *err) {
  *out = (tercel_file){0};
  const int fd = open(path, OPEN_READ);
  if (fd < 0) return fail_io(err, "open", path, errno);
  const tercel_status status = load(fd, path, use_mmap, out, err);
  close(fd);
  return status;
}

void tercel_file_forget(const tercel_file *file, size_t offset, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t begin = (offset + page - 1) / page * page, end = (offset + bytes) / page * page; /* whole pages only */
  if (file->mapped && begin < end) (void)madvise((void *)(uintptr_t)(file->data + begin), end - begin, MADV_DONTNEED);
}

void tercel_file_close(tercel_file *file) {
  if (file->mapped)
    munmap((void *)(uintptr_t)file->data, file->size);
  else
    tercel_free((void *)(uintptr_t)file->data);
  *file = (tercel_file){0};
}

/* Do the `..` of a relative path ever climb above where it starts? */
static bool climbs_out(const char *name) {
  int depth = 0;
  for (const char *at = name; *at;) {
    const size_t length = strcspn(at, "/");
    if (length == 2 && memcmp(at, "..", 2) == 0)
      depth--;
    else if (length > 0 && !(length == 1 && *at == '.'))
      depth++;
    if (depth < 0) return true;
    at += length;
    at += *at == '/';
  }
  return false;
}

/* Opens `rest`, a path without links, step by step below the open folder fd (taken).  A link on the way means that
 * somebody changed the folder since the path was resolved, and is not followed.  -1 and errno on failure. */
static int open_below(int folder_fd, const char *rest) {
  int fd = folder_fd;
  while (fd >= 0) {
    char step[NAME_MAX + 1];
    const size_t length = strcspn(rest, "/");
    if (length == 0 || length >= sizeof step) {
      close(fd);
      errno = length ? ENAMETOOLONG : EISDIR;
      return -1;
    }
    memcpy(step, rest, length);
    step[length] = 0;
    const bool last = rest[length] == 0;
    const int next = openat(fd, step, (last ? OPEN_READ : OPEN_FOLDER) | O_NOFOLLOW);
    const int error = errno;
    close(fd);
    errno = error;
    if (last) return next;
    fd = next;
    rest += length + 1;
  }
  return -1;
}

/* The part of `path` behind `folder`, both resolved, or NULL when it lies elsewhere. */
static const char *part_below(const char *folder, const char *path) {
  size_t length = strlen(folder);
  if (length == 1) length = 0; /* "/" */
  return strncmp(path, folder, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

/* Opens the file at real_path, which must lie below `folder`; *inside: it does. */
static tercel_status open_in_folder(const char *folder, const char *real_path, int *fd, bool *inside,
                                    tercel_error *err) {
  char real_folder[PATH_MAX];
  if (!realpath(folder, real_folder)) return fail_io(err, "open folder", folder, errno);
  const char *const below = part_below(real_folder, real_path);
  *inside = below != NULL;
  if (!below) return TERCEL_OK;
  *fd = open_below(open(real_folder, OPEN_FOLDER), below);
  return *fd >= 0 ? TERCEL_OK : fail_io(err, "open", real_path, errno);
}

static tercel_status fail_outside(const char *name, const char *path, bool link, tercel_error *err) {
  char folder[PATH_MAX];
  tercel_path_folder(path, folder, sizeof folder);
  return tercel_fail(err, TERCEL_INVALID_MODEL,
                     "external data file '%s' %s%s%soutside the model's folder; --allow-external '%s' allows it "
                     "(allow_external in the APIs), if you trust the model with what lies there",
                     name, link ? "is a link to '" : "lies ", link ? path : "", link ? "', " : "", folder);
}

tercel_status tercel_file_open_inside(const char *folder, const tercel_folders *allowed, const char *name,
                                      bool use_mmap, tercel_file *out, tercel_error *err) {
  *out = (tercel_file){0};
  char joined[PATH_MAX], real_path[PATH_MAX];
  const size_t num_allowed = allowed ? allowed->count : 0;
  if (!*name) return tercel_fail(err, TERCEL_INVALID_MODEL, "the name of an external data file is empty");
  const int length = *name == '/' ? snprintf(joined, sizeof joined, "%s", name)
                                  : snprintf(joined, sizeof joined, "%s/%s", folder, name);
  if (length < 0 || (size_t)length >= sizeof joined)
    return tercel_fail(err, TERCEL_INVALID_MODEL, "the path of external data file '%.100s...' is too long", name);
  if (num_allowed == 0 && (*name == '/' || climbs_out(name))) return fail_outside(name, joined, false, err);
  if (!realpath(joined, real_path)) return fail_io(err, "open", joined, errno);
  int fd = -1;
  bool inside = false;
  TERCEL_TRY(open_in_folder(folder, real_path, &fd, &inside, err));
  for (size_t i = 0; !inside && i < num_allowed; i++)
    TERCEL_TRY(open_in_folder(allowed->paths[i], real_path, &fd, &inside, err));
  if (!inside) return fail_outside(name, real_path, *name != '/' && !climbs_out(name), err);
  const tercel_status status = load(fd, joined, use_mmap, out, err);
  close(fd);
  return status;
}

/* A new file beside `path`; its name goes into temporary[size].  -1 and errno on failure. */
static int create_beside(const char *path, char *temporary, size_t size) {
  static atomic_uint counter;
  for (int attempt = 0; attempt < 100; attempt++) {
    const unsigned number = atomic_fetch_add(&counter, 1) ^ (unsigned)tercel_time_ns();
    const int length = snprintf(temporary, size, "%s.%ld-%08x.tmp", path, (long)getpid(), number);
    if (length < 0 || (size_t)length >= size) {
      errno = ENAMETOOLONG;
      return -1;
    }
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

/* 0, or an errno. */
static int write_all(int fd, const uint8_t *data, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t put = write(fd, data + done, size - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    done += (size_t)put;
  }
  return 0;
}

tercel_status tercel_file_write(const char *path, const void *data, size_t size, tercel_error *err) {
  const tercel_file_piece whole = {data, size};
  return tercel_file_write_pieces(path, &whole, 1, err);
}

tercel_status tercel_file_write_pieces(const char *path, const tercel_file_piece *pieces, size_t count,
                                       tercel_error *err) {
  char temporary[PATH_MAX];
  const int fd = create_beside(path, temporary, sizeof temporary);
  if (fd < 0) return fail_io(err, "write", path, errno);
  int error = 0;
  for (size_t i = 0; i < count && !error; i++) error = write_all(fd, pieces[i].data, pieces[i].size);
  if (!error && fsync(fd) != 0) error = errno;
  if (close(fd) != 0 && !error) error = errno;
  if (!error && rename(temporary, path) != 0) error = errno;
  if (!error) return TERCEL_OK;
  unlink(temporary);
  return fail_io(err, "write", path, error);
}

void tercel_path_folder(const char *path, char *out, size_t out_size) {
  const char *const slash = strrchr(path, '/');
  if (!slash)
    snprintf(out, out_size, ".");
  else if (slash == path)
    snprintf(out, out_size, "/");
  else
    snprintf(out, out_size, "%.*s", (int)(slash - path), path);
}
