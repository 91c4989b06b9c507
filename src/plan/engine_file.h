/* The engine file: a plan with its graph and weights, to be mapped and run.  docs/engine-file.md has the format and what it promises.
 *
 *     0      header    64 bytes: magic, format, byte order, sizes, checksums
 *     64     table     one row a section: name, where, how long, checksum
 *            names, graph, plan, ...     compact bytes (engine_bytes.h)
 *            constants    small ones, and those that numbers of shapes or indices may come from
 *     4096n  weights   the large ones, packed as the kernels want them, each at a multiple of 64
 *
 * What comes before the weights is copied to private memory before it is checked, and all of it is read from the copy: a file may
 * change under a mapping.  Weights stay mapped; they are only ever numbers.
 *
 *   engine_bytes.c    numbers and names
 *   engine_file.c     header and table, read and written
 *   engine_save.c     graph and plan to sections       engine_graph.c, engine_plan.c    sections to graph and choices */
#ifndef TERCEL_PLAN_ENGINE_FILE_H
#define TERCEL_PLAN_ENGINE_FILE_H

#include "ops/custom.h"
#include "plan/engine_bytes.h"
#include "plan/plan.h"
#include "plan/profiles.h"
#include "plan/verify.h"

enum {
  TERCEL_ENGINE_FORMAT = 1, /* grows with what an older reader can't read */
  TERCEL_ENGINE_HEADER_BYTES = 64,
  TERCEL_ENGINE_ROW_BYTES = 48,
  TERCEL_ENGINE_PAGE = 4096
};

/* In the order in which they lie. */
typedef enum tercel_section {
  TERCEL_SECTION_METADATA,  /* texts: key, value, key, value, ... */
  TERCEL_SECTION_NAMES,     /* texts */
  TERCEL_SECTION_GRAPH,     /* operators, dims, nodes */
  TERCEL_SECTION_PLAN,      /* by step: kernel, what it packed */
  TERCEL_SECTION_PROFILES,  /* optimization profiles */
  TERCEL_SECTION_CHECKS,    /* what verifying each step measured */
  TERCEL_SECTION_TIMING,    /* the timing cache that the plan was made with: its text */
  TERCEL_SECTION_CONSTANTS, /* see above */
  TERCEL_SECTION_WEIGHTS,   /* see above; its size is there and its bytes are not where they were stripped */
  TERCEL_NUM_SECTIONS
} tercel_section;

const char *tercel_section_name(tercel_section section);

/* ---- engine_file.c: any sections --------------------------------------------------------------------------------------- */

typedef struct tercel_section_bytes {
  const uint8_t *data; /* in the private copy, or of the weights in the file; NULL: stripped */
  size_t bytes;
  uint64_t offset, checksum;
} tercel_section_bytes;

/* A file that was opened and whose checksums, but that of the weights, were compared. */
typedef struct tercel_engine_file {
  tercel_storage *file, *copy;
  uint32_t format;
  bool stripped;
  tercel_section_bytes sections[TERCEL_NUM_SECTIONS];
} tercel_engine_file;

/* Does it begin as an engine file does? */
bool tercel_engine_file_is(const void *data, size_t bytes);
/* TERCEL_IO; INVALID_MODEL says what is wrong; UNSUPPORTED: written by a later tercel. */
tercel_status tercel_engine_file_open(const char *path, bool use_mmap, tercel_engine_file *out, tercel_error *err);
/* The same from memory, which must outlive what is made of it. */
tercel_status tercel_engine_file_open_memory(const void *data, size_t bytes, tercel_engine_file *out,
                                             tercel_error *err);
void tercel_engine_file_close(tercel_engine_file *file); /* safe on a zeroed struct */
/* Compares the weights' checksum: reads all of them. */
tercel_status tercel_engine_file_check_weights(const tercel_engine_file *file, tercel_error *err);

/* Weights while they are gathered: borrowed pieces, each 64-byte aligned; equal ones once. */
typedef struct tercel_blob {
  const void *data;
  size_t bytes, offset;
  uint64_t checksum;
} tercel_blob;

typedef struct tercel_blobs {
  tercel_blob *items;
  size_t count, capacity, bytes;
  tercel_map index; /* checksum and size -> number + 1 */
} tercel_blobs;

tercel_status tercel_blobs_add(tercel_blobs *blobs, const void *data, size_t bytes, size_t *offset_out,
                               tercel_error *err);

/* Sections to be written; all but the weights as bytes. */
typedef struct tercel_engine_parts {
  tercel_text sections[TERCEL_SECTION_WEIGHTS];
  tercel_blobs weights;
} tercel_engine_parts;

void tercel_engine_parts_deinit(tercel_engine_parts *parts);
/* Atomically; the same parts give the same bytes. */
tercel_status tercel_engine_file_write(const char *path, const tercel_engine_parts *parts, bool strip,
                                       tercel_error *err);

/* Where a constant lies. */
typedef enum tercel_constant_place {
  TERCEL_CONSTANT_SMALL, /* among the constants */
  TERCEL_CONSTANT_WEIGHT,
  TERCEL_CONSTANT_PACKED /* in what steps packed of it */
} tercel_constant_place;

/* ---- engine_save.c ------------------------------------------------------------------------------------------------------- */

/* Fills names, graph, plan, constants and weights; borrows the plan's and the graph's memory. */
tercel_status tercel_engine_put_plan(tercel_engine_parts *parts, const tercel_plan *plan, tercel_error *err);
void tercel_engine_put_metadata(tercel_engine_parts *parts, const char *key, const char *value);
void tercel_engine_put_profiles(tercel_engine_parts *parts, const tercel_profiles *profiles);
void tercel_engine_put_checks(tercel_engine_parts *parts, const tercel_verification *verification);

/* ---- engine_graph.c, engine_plan.c ----------------------------------------------------------------------------------------- */

/* The value of a key of the metadata; NULL: there is none.  By number: 0 after the last. */
const char *tercel_engine_file_fact(const tercel_engine_file *file, const char *key);
int tercel_engine_file_metadata(const tercel_engine_file *file, size_t index, const char **key, const char **value);

/* The names of a file, by number. */
typedef struct tercel_name_table {
  const char **names; /* owned; the texts are the file's copy's */
  uint32_t count;
} tercel_name_table;

tercel_status tercel_engine_get_names(const tercel_engine_file *file, tercel_name_table *out, tercel_error *err);
const char *tercel_get_name(tercel_bytes *in, const tercel_name_table *names); /* "" where it failed */

/* The graph, inferred and verified.  Constants that only a packing holds have no data.  operators may be NULL; UNSUPPORTED names all that
 * are missing. */
tercel_status tercel_engine_get_graph(const tercel_engine_file *file, const tercel_name_table *names,
                                      tercel_operators *operators, tercel_graph **out, tercel_error *err);
/* One choice a step, by row. */
tercel_status tercel_engine_get_choices(const tercel_engine_file *file, const tercel_name_table *names,
                                        tercel_plan_given **out, uint32_t *count_out, tercel_error *err);
tercel_status tercel_engine_get_profiles(const tercel_engine_file *file, const tercel_graph *graph,
                                         tercel_profiles *out, tercel_error *err);
tercel_status tercel_engine_get_checks(const tercel_engine_file *file, uint32_t num_rows, tercel_verification *out,
                                       tercel_error *err);

#endif
