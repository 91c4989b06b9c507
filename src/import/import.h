/* import: model files in, graphs out.  Knows ops, ir and base.  One folder a format; this is the room's door.
 *
 * The format is recognized by content, never by the file's name. */
#ifndef TERCEL_IMPORT_IMPORT_H
#define TERCEL_IMPORT_IMPORT_H

#include "ops/ops.h"

typedef struct tercel_import_options {
  bool no_mmap;            /* read files into memory instead of mapping them */
  tercel_folders external; /* folders that external data may lie in besides the model's own; borrowed for the call */
  /* For checks.  Not NULL: every problem is noted here, warnings and notes too, and large weights may stay where no kernel could read
   * them: the graph is good for looking at shapes and types, not for running. */
  tercel_problems *problems;
  tercel_operators *operators; /* of the user's; NULL: none.  The graph's nodes point into it */
} tercel_import_options;

typedef struct tercel_metadata {
  const char *key, *value; /* 0-terminated */
} tercel_metadata;

/* A model as imported.  Zero-initialize; deinit frees what it holds (safe on a zeroed struct). */
typedef struct tercel_imported {
  tercel_graph *graph;
  const char *format;   /* "onnx" */
  const char *producer; /* "pytorch 2.1.0"; "" when the file doesn't say */
  const char *about;    /* the file's own description; "" without one */
  const tercel_metadata *metadata;
  size_t num_metadata;
  tercel_arena arena; /* holds the texts above */
} tercel_imported;

void tercel_imported_deinit(tercel_imported *imported);

/* Is there an operator of this domain ("": ai.onnx) and name, in any version? */
bool tercel_import_has_operator(const char *domain, const char *name);

/* Imports a model file.  Weights stay where they are in the mapped file where alignment allows; the graph's constants hold
 * references to it.  External data must lie in the model's folder, or in those that the options allow.  options may be NULL.
 * TERCEL_IO; TERCEL_INVALID_MODEL; TERCEL_UNSUPPORTED: names everything that is unsupported at once; TERCEL_OUT_OF_MEMORY. */
tercel_status tercel_import_file(const char *path, const tercel_import_options *options, tercel_imported *out,
                                 tercel_error *err);
/* The same from memory, which must outlive the graph and its clones.  folder: where external data may lie, NULL for none. */
tercel_status tercel_import_memory(const void *data, size_t bytes, const char *folder,
                                   const tercel_import_options *options, tercel_imported *out, tercel_error *err);

#endif
