/* Where a run's inputs come from: files by name, a folder of them, or made up.  Pictures are image.c's. */
#include "cli.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/npy.h"
#include "io/tensorpb.h"

#define OPTION(field) offsetof(tercel_cli_inputs, field)

const tercel_cli_option tercel_cli_inputs_options[] = {
    {"input", TERCEL_CLI_LIST, OPTION(files), "NAME=FILE",
     "data of an input: .npy, .npz (the array NAME, or the only one), .pb (ONNX), .bin (raw elements; needs the "
     "shape), a "
     "picture (JPEG, PNG, WebP, TIFF, ...); NAME= may be left out where the model has one input",
     "loadInputs"},
    {"inputs-dir", TERCEL_CLI_TEXT, OPTION(folder), "DIR",
     "take input number I from DIR/input_I.pb or .npy, or from DIR/NAME.pb or .npy", NULL},
    {"shapes", TERCEL_CLI_LIST, OPTION(shapes), "NAME=1x3x224x224",
     "shape of an input that no file gives; several separated by commas; free dims are 1 otherwise", NULL},
    {"fill", TERCEL_CLI_TEXT, OPTION(fill), "random|zeros|ones",
     "what inputs are that no file gives; random (the default) is -1 .. 1 for floats, 0 or 1 for integers", NULL},
    {"seed", TERCEL_CLI_INT, OPTION(seed), "N", "seed of the random inputs", NULL},
    {0}};

/* ---- the wanted shape ---- */

bool tercel_cli_parse_shape(const char *text, size_t length, int *rank, int64_t *dims) {
  *rank = 0;
  for (size_t at = 0; at < length;) {
    size_t end = at;
    while (end < length && text[end] >= '0' && text[end] <= '9') end++;
    if (*rank == TERCEL_MAX_RANK || !tercel_parse_i64(text + at, end - at, &dims[(*rank)++])) return false;
    if (end < length && !strchr("xX", text[end])) return false;
    at = end + 1;
    if (end + 1 == length) return false; /* ends in an x */
  }
  return true;
}

tercel_status tercel_cli_next_shape(const char **at, const char *option, tercel_cli_named_shape *out,
                                    tercel_error *err) {
  const size_t length = strcspn(*at, ",");
  size_t split = length;
  while (split > 0 && (*at)[split - 1] != '=' && (*at)[split - 1] != ':') split--;
  if (split < 2 || !tercel_cli_parse_shape(*at + split, length - split, &out->rank, out->dims))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "--%s '%.*s': want NAME=1x3x224x224", option, (int)length, *at);
  out->name = *at;
  out->name_length = split - 1;
  *at += length;
  *at += **at == ',';
  return TERCEL_OK;
}

static tercel_status find_shape(const tercel_cli_inputs *options, const char *name, bool *found, int *rank,
                                int64_t *dims, tercel_error *err) {
  *found = false;
  for (int i = 0; i < options->shapes.count; i++) {
    for (const char *at = options->shapes.items[i]; *at;) {
      tercel_cli_named_shape shape;
      TERCEL_TRY(tercel_cli_next_shape(&at, "shapes", &shape, err));
      if (strlen(name) != shape.name_length || memcmp(name, shape.name, shape.name_length) != 0) continue;
      *found = true;
      *rank = shape.rank;
      memcpy(dims, shape.dims, sizeof shape.dims);
    }
  }
  return TERCEL_OK;
}

/* The value that an input already read gives to a symbol; 1 when none does. */
static int64_t symbol_value(const tercel_engine *engine, const tercel_cli_data *data, const char *symbol) {
  tercel_io io;
  for (size_t i = 0; symbol && i < data->count; i++) {
    const tercel_datum *const datum = &data->inputs[i];
    if (datum->num_views != 1 || tercel_engine_get_input(engine, i, &io, NULL) != TERCEL_OK ||
        io.rank != datum->views->rank)
      continue;
    for (int d = 0; d < io.rank; d++)
      if (io.symbols[d] && strcmp(io.symbols[d], symbol) == 0) return datum->views->dims[d];
  }
  return 1;
}

/* The dims of an input that is made up: as the command line or the first profile says; *free_dims tells whether any was chosen here. */
static tercel_status choose_shape(const tercel_engine *engine, const tercel_cli_data *data,
                                  const tercel_cli_inputs *options, const tercel_io *io, size_t index, int *rank,
                                  int64_t *dims, bool *free_dims, tercel_error *err) {
  bool found;
  tercel_profile_shape profile;
  *free_dims = false;
  TERCEL_TRY(find_shape(options, io->name, &found, rank, dims, err));
  if (found) return TERCEL_OK;
  if (tercel_engine_get_profile_shape(engine, 0, index, &profile)) {
    *rank = profile.rank;
    memcpy(dims, profile.opt, sizeof profile.opt);
    return TERCEL_OK;
  }
  if (io->rank < 0)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "input '%s' may have any shape: give one with --shapes %s=...",
                       io->name, io->name);
  *rank = io->rank;
  for (int d = 0; d < io->rank; d++) {
    dims[d] = io->dims[d] >= 0 ? io->dims[d] : symbol_value(engine, data, io->symbols[d]);
    *free_dims = *free_dims || io->dims[d] < 0;
  }
  return TERCEL_OK;
}

/* ---- made-up data ---- */

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

static void fill_random(tercel_view *view, uint64_t seed) {
  const bool is_float = tercel_dtype_is_float(view->dtype);
  const int64_t elements = tercel_view_num_elements(view);
  uint64_t state = seed;
  for (int64_t i = 0; i < elements; i++) {
    const uint64_t bits = next_random(&state);
    if (is_float)
      tercel_element_set_f64(view->data, view->dtype, i, (double)(bits >> 40) * 0x1p-23 - 1);
    else
      tercel_element_set_i64(view->data, view->dtype, i, (int64_t)(bits >> 63));
  }
}

static tercel_status make_up(const tercel_engine *engine, const tercel_cli_data *data, const tercel_cli_inputs *options,
                             const tercel_io *io, size_t index, tercel_error *err) {
  tercel_datum *const out = &data->inputs[index];
  char *const source = data->sources[index];
  const char *const fill = options->fill ? options->fill : "random";
  int rank = 0;
  int64_t dims[TERCEL_MAX_RANK] = {0};
  bool free_dims = false;
  if (strcmp(fill, "random") != 0 && strcmp(fill, "zeros") != 0 && strcmp(fill, "ones") != 0)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "--fill '%s': want random, zeros or ones", fill);
  const bool state = strcmp(io->kind, "state") == 0;
  if (io->kind[0] != 't' && !state)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "input '%s' is a %s: give it with --input %s=FILE.pb", io->name,
                       io->kind, io->name);
  TERCEL_TRY(choose_shape(engine, data, options, io, index, &rank, dims, &free_dims, err));
  TERCEL_TRY(tercel_datum_init_tensor(out, io->name, io->dtype, rank, dims, 0, err));
  const bool numeric = io->dtype != TERCEL_DTYPE_STRING && tercel_dtype_get_kind(io->dtype) != TERCEL_KIND_COMPLEX;
  const char *what = "zeros";
  if (numeric && fill[0] != 'z' && !state) {
    what = fill;
    if (fill[0] == 'r')
      fill_random(out->views, (uint64_t)options->seed + index);
    else
      for (int64_t i = tercel_view_num_elements(out->views); i > 0; i--)
        tercel_element_set_i64(out->views->data, io->dtype, i - 1, 1);
  }
  data->chosen[index] = free_dims;
  snprintf(source, sizeof *data->sources, "%s%s", what, free_dims ? ", free dims chosen (--shapes sets them)" : "");
  return TERCEL_OK;
}

/* ---- files ---- */

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* A file of nothing but elements: the shape is the model's, or --shapes'. */
static tercel_status read_raw(const tercel_engine *engine, const tercel_cli_data *data,
                              const tercel_cli_inputs *options, const tercel_io *io, size_t index, const char *path,
                              tercel_datum *out, tercel_error *err) {
  int rank = 0;
  int64_t dims[TERCEL_MAX_RANK] = {0};
  bool free_dims;
  tercel_file file = {0};
  tercel_status status = TERCEL_OK;
  TERCEL_TRY(choose_shape(engine, data, options, io, index, &rank, dims, &free_dims, err));
  TERCEL_TRY(tercel_file_open(path, true, &file, err));
  TERCEL_CHECK(tercel_datum_init_tensor(out, io->name, io->dtype, rank, dims, 0, err));
  if (io->dtype == TERCEL_DTYPE_STRING)
    status = tercel_fail(err, TERCEL_INVALID_ARGUMENT, "'%s': strings can't be raw elements", path);
  else if (file.size != out->views->bytes)
    status = tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                         "'%s' has %zu bytes, input '%s' wants %zu: is its shape given by --shapes?", path, file.size,
                         io->name, out->views->bytes);
  else if (file.size)
    memcpy(out->views->data, file.data, file.size);
done:
  tercel_file_close(&file);
  return status;
}

static tercel_status read_file(const tercel_engine *engine, const tercel_cli_data *data,
                               const tercel_cli_inputs *options, const char *path, const tercel_io *io, size_t index,
                               tercel_error *err) {
  tercel_datum *const out = &data->inputs[index];
  char *const source = data->sources[index];
  if (out->kind) return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "input '%s' is given twice", io->name);
  snprintf(source, sizeof *data->sources, "%s", path);
  if (ends_with(path, ".npy")) return tercel_npy_read(path, out, err);
  if (ends_with(path, ".pb")) return tercel_tensorpb_read(path, io->kind, out, err);
  if (ends_with(path, ".bin") || ends_with(path, ".raw") || ends_with(path, ".dat"))
    return read_raw(engine, data, options, io, index, path, out, err);
  if (!ends_with(path, ".npz"))
    return tercel_cli_read_image(path, options, io, out, source, sizeof *data->sources, err);
  if (tercel_npz_read(path, io->name, out, err) == TERCEL_OK) return TERCEL_OK;
  return tercel_npz_read(path, NULL, out, err); /* its message lists what there is */
}

/* One item of --input.  trtexec separates NAME:FILE, and pairs by commas; a path may hold those, so the name must be an input's. */
static tercel_status read_item(const tercel_engine *engine, const tercel_cli_data *data,
                               const tercel_cli_inputs *options, const char *item, tercel_error *err) {
  tercel_io io;
  size_t best = 0, best_length = 0; /* of two inputs "a" and "a:b", "a:b:file" means the longer */
  for (size_t i = 0; i < data->count; i++) {
    TERCEL_TRY(tercel_engine_get_input(engine, i, &io, err));
    const size_t length = strlen(io.name);
    if (length < best_length || strncmp(item, io.name, length) != 0 || (item[length] != '=' && item[length] != ':'))
      continue;
    best = i;
    best_length = length;
  }
  const char *path = item;
  if (best_length > 0)
    path = item + best_length + 1;
  else if (data->count != 1)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT,
                       "--input '%s': the model has no such input; `tercel inspect` lists the inputs", item);
  TERCEL_TRY(tercel_engine_get_input(engine, best, &io, err));
  return read_file(engine, data, options, path, &io, best, err);
}

/* DIR/input_I.* or DIR/NAME.*, where there is such a file. */
static tercel_status read_from_folder(const tercel_engine *engine, const tercel_cli_data *data,
                                      const tercel_cli_inputs *options, const tercel_io *io, size_t index, bool *found,
                                      tercel_error *err) {
  static const char *const endings[] = {"pb", "npy"};
  char path[PATH_MAX];
  *found = false;
  for (int by_name = 0; by_name < 2; by_name++) {
    for (int e = 0; e < 2; e++) {
      const int length = by_name ? snprintf(path, sizeof path, "%s/%s.%s", options->folder, io->name, endings[e])
                                 : snprintf(path, sizeof path, "%s/input_%zu.%s", options->folder, index, endings[e]);
      if (length < 0 || (size_t)length >= sizeof path || strstr(io->name, "..") || access(path, F_OK) != 0) continue;
      *found = true;
      return read_file(engine, data, options, path, io, index, err);
    }
  }
  return TERCEL_OK;
}

/* ---- all of them ---- */

static tercel_status read_all(const tercel_engine *engine, const tercel_cli_inputs *options,
                              const tercel_cli_data *data, tercel_error *err) {
  tercel_io io;
  for (int i = 0; i < options->files.count; i++)
    TERCEL_TRY(read_item(engine, data, options, options->files.items[i], err));
  for (size_t i = 0; options->folder && i < data->count; i++) {
    bool found;
    TERCEL_TRY(tercel_engine_get_input(engine, i, &io, err));
    if (data->inputs[i].kind) continue;
    TERCEL_TRY(read_from_folder(engine, data, options, &io, i, &found, err));
    if (!found)
      return tercel_fail(err, TERCEL_IO, "'%s' has neither input_%zu.pb nor .npy, nor one named '%s'", options->folder,
                         i, io.name);
  }
  for (size_t i = 0; i < data->count; i++) {
    TERCEL_TRY(tercel_engine_get_input(engine, i, &io, err));
    if (!data->inputs[i].kind) TERCEL_TRY(make_up(engine, data, options, &io, i, err));
  }
  return TERCEL_OK;
}

tercel_status tercel_cli_read_inputs(const tercel_engine *engine, const tercel_cli_inputs *options,
                                     tercel_cli_data *out, tercel_error *err) {
  const size_t count = tercel_engine_num_inputs(engine), room = count ? count : 1;
  *out = (tercel_cli_data){.count = count};
  out->inputs = tercel_zalloc_array(room, sizeof *out->inputs);
  out->sources = tercel_zalloc_array(room, sizeof *out->sources);
  out->chosen = tercel_zalloc_array(room, sizeof *out->chosen);
  const tercel_status status = out->inputs && out->sources && out->chosen
                                   ? read_all(engine, options, out, err)
                                   : tercel_fail_memory(err, count * sizeof *out->inputs, "the inputs");
  if (status != TERCEL_OK) tercel_cli_free_inputs(out);
  return status;
}

tercel_status tercel_cli_set_inputs(tercel_context *context, const tercel_cli_data *data, tercel_error *err) {
  for (size_t i = 0; i < data->count; i++) {
    const tercel_datum *const datum = &data->inputs[i];
    if (datum->kind[0] == 't')
      TERCEL_TRY(tercel_context_set_input(context, i, datum->views, err));
    else
      TERCEL_TRY(tercel_context_set_input_elements(context, i, datum->views, datum->num_views, err));
  }
  return TERCEL_OK;
}

tercel_status tercel_cli_first_run(tercel_context *context, const tercel_cli_data *data, tercel_error *err) {
  TERCEL_TRY(tercel_cli_set_inputs(context, data, err));
  const tercel_status status = tercel_context_run(context, err);
  bool chosen = false;
  for (size_t i = 0; i < data->count; i++) chosen = chosen || data->chosen[i];
  if (status == TERCEL_OK || !chosen) return status;
  return tercel_fail(err, status, "%s (free dims were taken as 1: --shapes sets them)", err->message);
}

void tercel_cli_free_inputs(tercel_cli_data *data) {
  for (size_t i = 0; data->inputs && i < data->count; i++) tercel_datum_deinit(&data->inputs[i]);
  tercel_free(data->inputs);
  tercel_free(data->sources);
  tercel_free(data->chosen);
  *data = (tercel_cli_data){0};
}
