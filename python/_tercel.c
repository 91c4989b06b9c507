/* tercel for CPython: engines and contexts as objects, over tercel.h alone and Python's limited API (3.9 and later).
 *
 * Private to the package: tensors come as (dtype, dims, address, bytes), and whoever calls keeps the memory alive; they go as
 * copies.  What users see (numpy arrays, names, checks) is made in tercel/session.py. */
#include "_tercel.h"

#include <string.h>

/* ---- errors ---------------------------------------------------------------------------------------------------------- */

/* Exception classes by status; index 0 is the base class. */
PyObject *tercel_py_exceptions[TERCEL_INTERNAL + 1];

static const struct {
  tercel_status status;
  const char *name, *about;
} exception_table[] = {
    {TERCEL_OK, "tercel.Error", "The base of tercel's exceptions."},
    {TERCEL_INVALID_ARGUMENT, "tercel.InvalidArgument", "A wrong name, type, shape or option."},
    {TERCEL_INVALID_MODEL, "tercel.InvalidModel", "The file is malformed or contradicts itself."},
    {TERCEL_UNSUPPORTED, "tercel.Unsupported",
     "Legal, but tercel doesn't do it; the message names everything at once."},
    {TERCEL_OUT_OF_MEMORY, "tercel.OutOfMemory", "An allocation failed, or a limit would be passed."},
    {TERCEL_IO, "tercel.IOFailure", "A file can't be read."},
    {TERCEL_CANCELLED, "tercel.Cancelled", "The run was cancelled."},
    {TERCEL_INTERNAL, "tercel.InternalError", "tercel's own fault: please report it."},
};

/* What Python's own exception of the same meaning would be, so that `except ValueError` works too. */
static PyObject *python_kind(tercel_status status) {
  switch (status) {
  case TERCEL_INVALID_ARGUMENT:
  case TERCEL_INVALID_MODEL: return PyExc_ValueError;
  case TERCEL_UNSUPPORTED: return PyExc_NotImplementedError;
  case TERCEL_OUT_OF_MEMORY: return PyExc_MemoryError;
  case TERCEL_IO: return PyExc_OSError;
  default: return PyExc_RuntimeError;
  }
}

static int add_exceptions(PyObject *module) {
  for (size_t i = 0; i < sizeof exception_table / sizeof *exception_table; i++) {
    const tercel_status status = exception_table[i].status;
    PyObject *const bases = status == TERCEL_OK ? PyTuple_Pack(1, PyExc_Exception)
                                                : PyTuple_Pack(2, tercel_py_exceptions[TERCEL_OK], python_kind(status));
    if (!bases) return -1;
    tercel_py_exceptions[status] =
        PyErr_NewExceptionWithDoc(exception_table[i].name, exception_table[i].about, bases, NULL);
    Py_DECREF(bases);
    if (!tercel_py_exceptions[status]) return -1;
    Py_INCREF(tercel_py_exceptions[status]);
    if (PyModule_AddObject(module, strchr(exception_table[i].name, '.') + 1, tercel_py_exceptions[status]) < 0)
      return -1;
  }
  return 0;
}

PyObject *tercel_py_raise(const tercel_error *err) {
  PyErr_SetString(tercel_py_exceptions[err->status] ? tercel_py_exceptions[err->status]
                                                    : tercel_py_exceptions[TERCEL_OK],
                  err->message);
  tercel_py_chain_failure();
  return NULL;
}

static PyObject *none_or_raise(tercel_status status, const tercel_error *err) {
  if (status != TERCEL_OK) return tercel_py_raise(err);
  Py_RETURN_NONE;
}

/* ---- tensors as tuples --------------------------------------------------------------------------------------------------- */

PyObject *tercel_py_from_dims(const tercel_view *view) {
  PyObject *const dims = PyTuple_New(view->rank);
  for (int i = 0; dims && i < view->rank; i++) {
    PyObject *const dim = PyLong_FromLongLong(view->dims[i]);
    if (!dim || PyTuple_SetItem(dims, i, dim) < 0) {
      Py_DECREF(dims);
      return NULL;
    }
  }
  return dims;
}

static int read_dims(PyObject *dims, tercel_view *out) {
  const Py_ssize_t rank = PyTuple_Check(dims) ? PyTuple_Size(dims) : -1;
  if (rank < 0 || rank > TERCEL_MAX_RANK) {
    PyErr_Format(tercel_py_exceptions[TERCEL_INVALID_ARGUMENT], "rank %zd, want at most %d", rank,
                 (int)TERCEL_MAX_RANK);
    return -1;
  }
  out->rank = (int)rank;
  for (Py_ssize_t i = 0; i < rank; i++) {
    out->dims[i] = PyLong_AsLongLong(PyTuple_GetItem(dims, i));
    if (PyErr_Occurred()) return -1;
  }
  return 0;
}

int tercel_py_to_view(PyObject *tuple, tercel_view *out) {
  int dtype;
  PyObject *dims, *address;
  Py_ssize_t bytes;
  if (!PyArg_ParseTuple(tuple, "iOOn", &dtype, &dims, &address, &bytes)) return -1;
  *out = (tercel_view){.dtype = (tercel_dtype)dtype, .data = PyLong_AsVoidPtr(address), .bytes = (size_t)bytes};
  return PyErr_Occurred() || read_dims(dims, out) < 0 ? -1 : 0;
}

static int64_t count_elements(const tercel_view *view) {
  int64_t count = 1;
  for (int i = 0; i < view->rank; i++) count *= view->dims[i];
  return count;
}

/* Strings of a tensor as a list of bytes. */
PyObject *tercel_py_from_strings(const tercel_view *view) {
  const tercel_string *const strings = view->data;
  const Py_ssize_t count = (Py_ssize_t)count_elements(view);
  PyObject *const list = PyList_New(count);
  for (Py_ssize_t i = 0; list && i < count; i++) {
    PyObject *const text = PyBytes_FromStringAndSize(strings[i].data, (Py_ssize_t)strings[i].length);
    if (!text) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SetItem(list, i, text);
  }
  return list;
}

/* A list of bytes as the elements of a string tensor; free the result with PyMem_Free. */
static tercel_string *to_strings(PyObject *list, size_t *count) {
  const Py_ssize_t n = PyList_Size(list);
  tercel_string *const strings = n < 0 ? NULL : PyMem_Malloc((size_t)(n > 0 ? n : 1) * sizeof *strings);
  if (!strings) return n < 0 ? NULL : (tercel_string *)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < n; i++) {
    char *text;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(PyList_GetItem(list, i), &text, &length) < 0) {
      PyMem_Free(strings);
      return NULL;
    }
    strings[i] = (tercel_string){text, (size_t)length};
  }
  *count = (size_t)n;
  return strings;
}

/* ---- Engine ------------------------------------------------------------------------------------------------------------- */

typedef struct engine {
  PyObject_HEAD tercel_model *model;
  tercel_engine *engine;
  PyObject *source;    /* the bytes that the model came from, kept alive; NULL: a file */
  PyObject *operators; /* the user's own, kept alive; NULL: none */
} engine;

static int engine_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((engine *)self)->operators);
  return 0;
}

static void engine_dealloc(PyObject *self) {
  engine *const e = (engine *)self;
  PyObject_GC_UnTrack(self);
  tercel_engine_destroy(e->engine);
  tercel_model_destroy(e->model);
  Py_XDECREF(e->source);
  Py_XDECREF(e->operators); /* last: they hold what their functions are */
  PyTypeObject *const type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

/* {"batch": 1} as a list for the options; free it with PyMem_Free. */
static tercel_dim_value *read_dim_values(PyObject *dict, size_t *count) {
  const Py_ssize_t size = PyDict_Size(dict);
  tercel_dim_value *const list = size < 0 ? NULL : PyMem_Malloc((size_t)(size + 1) * sizeof *list);
  if (!list) return size < 0 ? NULL : (tercel_dim_value *)PyErr_NoMemory();
  Py_ssize_t at = 0;
  *count = 0;
  for (PyObject *key, *value; PyDict_Next(dict, &at, &key, &value); (*count)++) {
    if (PyArg_Parse(key, "s", &list[*count].name)) list[*count].value = PyLong_AsLongLong(value);
    if (PyErr_Occurred()) {
      PyMem_Free(list);
      return NULL;
    }
  }
  return list;
}

/* A list of texts as the elements of a list of C strings, which live as long as it; free the result with PyMem_Free. */
static const char **read_texts(PyObject *list, size_t *count) {
  const Py_ssize_t size = PyList_Size(list);
  const char **const texts = size < 0 ? NULL : PyMem_Malloc((size_t)(size + 1) * sizeof *texts);
  if (!texts) return size < 0 ? NULL : (const char **)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < size; i++) {
    if (PyArg_Parse(PyList_GetItem(list, i), "s", &texts[i])) continue;
    PyMem_Free(texts);
    return NULL;
  }
  *count = (size_t)size;
  return texts;
}

/* What an engine file is told when it is loaded; how it is built was settled before. */
static tercel_status load_file(engine *e, const char *path, const tercel_model_options *model_options,
                               const tercel_engine_options *options, tercel_error *err) {
  if (options->num_dims > 0 || options->no_optimize || options->disable_passes || options->deterministic)
    return tercel_error_set(
        err, TERCEL_INVALID_ARGUMENT,
        "%s is an engine file, built already: dims, optimize, disable_passes and deterministic are for models", path);
  const tercel_load_options load_options = {.size = sizeof load_options,
                                            .num_threads = options->num_threads,
                                            .max_memory = options->max_memory,
                                            .operators = model_options->operators};
  return tercel_engine_load(path, &load_options, &e->engine, err);
}

/* Loads and builds without the lock on Python's interpreter. */
static tercel_status load_and_build(engine *e, const char *path, const char *folder,
                                    const tercel_model_options *model_options, const tercel_engine_options *options,
                                    tercel_error *err) {
  char *data = NULL;
  Py_ssize_t bytes = 0;
  if (e->source) PyBytes_AsStringAndSize(e->source, &data, &bytes);
  tercel_status status;
  Py_BEGIN_ALLOW_THREADS;
  if (path && tercel_is_engine_file(path)) {
    status = load_file(e, path, model_options, options, err);
  } else {
    status = path ? tercel_model_load(path, model_options, &e->model, err)
                  : tercel_model_load_memory(data, (size_t)bytes, folder, model_options, &e->model, err);
    if (status == TERCEL_OK) status = tercel_engine_build(e->model, options, &e->engine, err);
  }
  Py_END_ALLOW_THREADS;
  return status;
}

/* Engine(path or None, bytes or None, folder or None, threads, no_optimize, disable_passes or None, dims, max_memory,
 * allow_external, Operators or None, deterministic) */
static PyObject *engine_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  const char *path, *folder, *disable_passes;
  PyObject *source, *dims, *allow_external, *operators;
  int threads, no_optimize, deterministic;
  unsigned long long max_memory;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "zOziizOKOOp", &path, &source, &folder, &threads, &no_optimize, &disable_passes, &dims,
                        &max_memory, &allow_external, &operators, &deterministic))
    return NULL;
  tercel_engine_options options = {.size = sizeof options,
                                   .num_threads = threads,
                                   .no_optimize = no_optimize,
                                   .disable_passes = disable_passes,
                                   .max_memory = max_memory,
                                   .deterministic = deterministic};
  tercel_model_options model_options = {.size = sizeof model_options};
  if (operators != Py_None && !(model_options.operators = tercel_py_operators(operators))) return NULL;
  const char **const folders = read_texts(allow_external, &model_options.num_allow_external);
  tercel_dim_value *const values = folders ? read_dim_values(dims, &options.num_dims) : NULL;
  if (!values) {
    PyMem_Free(folders);
    return NULL;
  }
  model_options.allow_external = folders;
  options.dims = values;
  engine *const e = (engine *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  tercel_error err = {0};
  tercel_status status = TERCEL_OK;
  if (e) {
    if (source != Py_None) Py_INCREF(e->source = source);
    if (operators != Py_None) Py_INCREF(e->operators = operators);
    tercel_py_forget_failure();
    status = load_and_build(e, path, folder, &model_options, &options, &err);
  }
  PyMem_Free(values);
  PyMem_Free(folders);
  if (e && status != TERCEL_OK) {
    Py_DECREF((PyObject *)e);
    return tercel_py_raise(&err);
  }
  return (PyObject *)e;
}

/* (name, kind, dtype, dims, dtype of keys): dims None where the rank isn't known, else ints, names, or None. */
static PyObject *from_io(const tercel_io *io) {
  PyObject *dims = NULL;
  if (io->rank < 0) {
    Py_INCREF(Py_None);
    dims = Py_None;
  } else {
    dims = PyList_New(io->rank);
  }
  for (int i = 0; dims && i < io->rank; i++) {
    PyObject *const dim = io->dims[i] >= 0 ? PyLong_FromLongLong(io->dims[i])
                          : io->symbols[i] ? PyUnicode_FromString(io->symbols[i])
                                           : Py_BuildValue("");
    if (!dim) {
      Py_DECREF(dims);
      return NULL;
    }
    PyList_SetItem(dims, i, dim);
  }
  return dims ? Py_BuildValue("ssiNi", io->name, io->kind, (int)io->dtype, dims, (int)io->key_dtype) : NULL;
}

typedef tercel_status (*get_io)(const tercel_engine *engine, size_t index, tercel_io *out, tercel_error *err);

static PyObject *list_io(const engine *e, size_t count, get_io get) {
  PyObject *const list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list && i < count; i++) {
    tercel_io io;
    tercel_error err = {0};
    PyObject *const item = get(e->engine, i, &io, &err) == TERCEL_OK ? from_io(&io) : tercel_py_raise(&err);
    if (!item) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SetItem(list, (Py_ssize_t)i, item);
  }
  return list;
}

static PyObject *engine_inputs(PyObject *self, PyObject *unused) {
  (void)unused;
  const engine *const e = (engine *)self;
  return list_io(e, tercel_engine_num_inputs(e->engine), tercel_engine_get_input);
}

static PyObject *engine_outputs(PyObject *self, PyObject *unused) {
  (void)unused;
  const engine *const e = (engine *)self;
  return list_io(e, tercel_engine_num_outputs(e->engine), tercel_engine_get_output);
}

/* What the model's file says of itself; an engine file keeps that as "model.KEY". */
static int get_metadata(const engine *e, size_t *index, const char **key, const char **value) {
  static const char prefix[] = "model.";
  if (e->model) return tercel_model_get_metadata(e->model, (*index)++, key, value);
  while (tercel_engine_get_metadata(e->engine, (*index)++, key, value)) {
    if (strncmp(*key, prefix, strlen(prefix)) != 0) continue;
    *key += strlen(prefix);
    return 1;
  }
  return 0;
}

/* save(path, source or None, strip_weights) */
static PyObject *engine_save(PyObject *self, PyObject *args) {
  const char *path, *source;
  int strip_weights;
  tercel_error err = {0};
  tercel_status status;
  if (!PyArg_ParseTuple(args, "szp", &path, &source, &strip_weights)) return NULL;
  const tercel_save_options options = {.size = sizeof options, .source = source, .strip_weights = strip_weights};
  Py_BEGIN_ALLOW_THREADS;
  status = tercel_engine_save(((engine *)self)->engine, path, &options, &err);
  Py_END_ALLOW_THREADS;
  if (status != TERCEL_OK) return tercel_py_raise(&err);
  Py_RETURN_NONE;
}

static PyObject *engine_metadata(PyObject *self, PyObject *unused) {
  (void)unused;
  PyObject *const dict = PyDict_New();
  const char *key, *value;
  for (size_t i = 0; dict && get_metadata((engine *)self, &i, &key, &value);) {
    PyObject *const text = PyUnicode_DecodeUTF8(value, (Py_ssize_t)strlen(value), "replace");
    PyObject *const name = PyUnicode_DecodeUTF8(key, (Py_ssize_t)strlen(key), "replace");
    const int failed = !text || !name || PyDict_SetItem(dict, name, text) < 0;
    Py_XDECREF(text);
    Py_XDECREF(name);
    if (failed) {
      Py_DECREF(dict);
      return NULL;
    }
  }
  return dict;
}

static PyObject *engine_print(PyObject *self, PyObject *what) {
  char *text = NULL;
  tercel_error err = {0};
  const long kind = PyLong_AsLong(what);
  if (PyErr_Occurred()) return NULL;
  if (tercel_engine_print(((engine *)self)->engine, (tercel_print)kind, &text, &err) != TERCEL_OK)
    return tercel_py_raise(&err);
  PyObject *const result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  tercel_text_free(text);
  return result;
}

static PyObject *engine_num_threads(PyObject *self, PyObject *unused) {
  (void)unused;
  return PyLong_FromLong(tercel_engine_num_threads(((engine *)self)->engine));
}

static PyMethodDef engine_methods[] = {{"inputs", engine_inputs, METH_NOARGS, NULL},
                                       {"outputs", engine_outputs, METH_NOARGS, NULL},
                                       {"metadata", engine_metadata, METH_NOARGS, NULL},
                                       {"print", engine_print, METH_O, NULL},
                                       {"num_threads", engine_num_threads, METH_NOARGS, NULL},
                                       {"save", engine_save, METH_VARARGS, NULL},
                                       {0}};

static PyType_Slot engine_slots[] = {{Py_tp_new, (void *)engine_new},
                                     {Py_tp_dealloc, (void *)engine_dealloc},
                                     {Py_tp_traverse, (void *)engine_traverse},
                                     {Py_tp_methods, engine_methods},
                                     {0}};

static PyType_Spec engine_spec = {"tercel._tercel.Engine", sizeof(engine), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                  engine_slots};

/* ---- Context ------------------------------------------------------------------------------------------------------------ */

typedef struct context {
  PyObject_HEAD tercel_context *context;
  PyObject *engine;
} context;

static int context_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((context *)self)->engine);
  return 0;
}

static PyObject *engine_type; /* for checking arguments */

static void context_dealloc(PyObject *self) {
  context *const c = (context *)self;
  PyObject_GC_UnTrack(self);
  tercel_context_destroy(c->context);
  Py_XDECREF(c->engine);
  PyTypeObject *const type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

/* Context(engine, profile) */
static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *owner;
  int profile;
  (void)kwargs;
  if (!PyArg_ParseTuple(args, "O!i", (PyTypeObject *)engine_type, &owner, &profile)) return NULL;
  context *const c = (context *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!c) return NULL;
  Py_INCREF(c->engine = owner);
  const tercel_context_options options = {.size = sizeof options, .profile = profile};
  tercel_error err = {0};
  if (tercel_context_create(((engine *)owner)->engine, &options, &c->context, &err) == TERCEL_OK) return (PyObject *)c;
  Py_DECREF((PyObject *)c);
  return tercel_py_raise(&err);
}

/* set_input(index, tensor): its memory must stay until the run is over. */
static PyObject *context_set_input(PyObject *self, PyObject *args) {
  Py_ssize_t index;
  PyObject *tensor;
  tercel_view view;
  tercel_error err = {0};
  if (!PyArg_ParseTuple(args, "nO", &index, &tensor) || tercel_py_to_view(tensor, &view) < 0) return NULL;
  return none_or_raise(tercel_context_set_input(((context *)self)->context, (size_t)index, &view, &err), &err);
}

/* A capsule of the array, which the caller keeps until the run is over. */
static void free_strings(PyObject *capsule) { PyMem_Free(PyCapsule_GetPointer(capsule, NULL)); }

/* strings(list of bytes) -> (address, bytes, what keeps them alive) */
static PyObject *module_strings(PyObject *module, PyObject *list) {
  (void)module;
  size_t count = 0;
  tercel_string *const strings = to_strings(list, &count);
  if (!strings) return NULL;
  PyObject *const capsule = PyCapsule_New(strings, NULL, free_strings);
  if (!capsule) {
    PyMem_Free(strings);
    return NULL;
  }
  return Py_BuildValue("NnN", PyLong_FromVoidPtr(strings), (Py_ssize_t)(count * sizeof *strings), capsule);
}

/* set_elements(index, list of tensors): of a sequence, or of an optional (none or one). */
static PyObject *context_set_elements(PyObject *self, PyObject *args) {
  Py_ssize_t index;
  PyObject *list;
  if (!PyArg_ParseTuple(args, "nO", &index, &list)) return NULL;
  const Py_ssize_t count = PyList_Size(list);
  if (count < 0) return NULL;
  tercel_view *const views = PyMem_Malloc((size_t)(count + 1) * sizeof *views);
  if (!views) return PyErr_NoMemory();
  PyObject *result = NULL;
  Py_ssize_t i = 0;
  while (i < count && tercel_py_to_view(PyList_GetItem(list, i), &views[i]) == 0) i++;
  if (i == count) {
    tercel_error err = {0};
    result = none_or_raise(
        tercel_context_set_input_elements(((context *)self)->context, (size_t)index, views, (size_t)count, &err), &err);
  }
  PyMem_Free(views);
  return result;
}

/* bind_output(index, tensor or None) */
static PyObject *context_bind_output(PyObject *self, PyObject *args) {
  Py_ssize_t index;
  PyObject *tensor;
  tercel_view view;
  tercel_error err = {0};
  if (!PyArg_ParseTuple(args, "nO", &index, &tensor)) return NULL;
  if (tensor != Py_None && tercel_py_to_view(tensor, &view) < 0) return NULL;
  const tercel_view *const given = tensor == Py_None ? NULL : &view;
  return none_or_raise(tercel_context_bind_output(((context *)self)->context, (size_t)index, given, &err), &err);
}

static PyObject *context_run(PyObject *self, PyObject *unused) {
  (void)unused;
  tercel_error err = {0};
  tercel_status status;
  tercel_py_forget_failure();
  Py_BEGIN_ALLOW_THREADS;
  status = tercel_context_run(((context *)self)->context, &err);
  Py_END_ALLOW_THREADS;
  return none_or_raise(status, &err);
}

/* (dtype, dims, a bytearray of its own, or a list of bytes for strings) */
static PyObject *from_view(const tercel_view *view) {
  const size_t bits = (size_t)count_elements(view) * (size_t)tercel_dtype_bits(view->dtype);
  PyObject *const contents = view->dtype == TERCEL_DTYPE_STRING
                                 ? tercel_py_from_strings(view)
                                 : PyByteArray_FromStringAndSize(view->data, (Py_ssize_t)((bits + 7) / 8));
  PyObject *const dims = tercel_py_from_dims(view);
  PyObject *const result = contents && dims ? Py_BuildValue("iOO", (int)view->dtype, dims, contents) : NULL;
  Py_XDECREF(contents);
  Py_XDECREF(dims);
  return result;
}

/* output(index) -> see from_view */
static PyObject *context_output(PyObject *self, PyObject *index) {
  tercel_view view;
  tercel_error err = {0};
  const size_t i = PyLong_AsSize_t(index);
  if (PyErr_Occurred()) return NULL;
  if (tercel_context_get_output(((context *)self)->context, i, &view, &err) != TERCEL_OK) return tercel_py_raise(&err);
  return from_view(&view);
}

/* output_elements(index) -> list of those */
static PyObject *context_output_elements(PyObject *self, PyObject *index) {
  const tercel_context *const c = ((context *)self)->context;
  size_t length = 0;
  tercel_error err = {0};
  const size_t i = PyLong_AsSize_t(index);
  if (PyErr_Occurred()) return NULL;
  if (tercel_context_get_output_length(c, i, &length, &err) != TERCEL_OK) return tercel_py_raise(&err);
  PyObject *const list = PyList_New((Py_ssize_t)length);
  for (size_t k = 0; list && k < length; k++) {
    tercel_view view;
    PyObject *const item =
        tercel_context_get_output_element(c, i, k, &view, &err) == TERCEL_OK ? from_view(&view) : tercel_py_raise(&err);
    if (!item) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SetItem(list, (Py_ssize_t)k, item);
  }
  return list;
}

static PyObject *context_cancel(PyObject *self, PyObject *unused) {
  (void)unused;
  tercel_context_cancel(((context *)self)->context);
  Py_RETURN_NONE;
}

/* A list of dicts, one a step. */
static PyObject *context_profile(PyObject *self, PyObject *unused) {
  (void)unused;
  PyObject *const list = PyList_New(0);
  tercel_profile_row row;
  for (size_t i = 0; list && tercel_context_get_profile(((context *)self)->context, i, &row); i++) {
    PyObject *const item =
        Py_BuildValue("{sssssssssssKsdsdsd}", "name", row.name, "op", row.op, "tactic", row.tactic, "sources",
                      row.sources, "shape", row.shape, "runs", (unsigned long long)row.num_runs, "total_us",
                      row.total_us, "flops", row.flops, "bytes", row.bytes);
    const int failed = !item || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    if (failed) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

static PyObject *context_memory(PyObject *self, PyObject *unused) {
  (void)unused;
  tercel_memory_info info = {.size = sizeof info};
  tercel_error err = {0};
  if (tercel_context_get_memory(((context *)self)->context, &info, &err) != TERCEL_OK) return tercel_py_raise(&err);
  return Py_BuildValue("{sKsKsKsK}", "activation_bytes", (unsigned long long)info.activation_bytes, "peak_live_bytes",
                       (unsigned long long)info.peak_live_bytes, "packed_bytes", (unsigned long long)info.packed_bytes,
                       "mapped_bytes", (unsigned long long)info.mapped_bytes);
}

static PyMethodDef context_methods[] = {{"set_input", context_set_input, METH_VARARGS, NULL},
                                        {"set_elements", context_set_elements, METH_VARARGS, NULL},
                                        {"bind_output", context_bind_output, METH_VARARGS, NULL},
                                        {"run", context_run, METH_NOARGS, NULL},
                                        {"output", context_output, METH_O, NULL},
                                        {"output_elements", context_output_elements, METH_O, NULL},
                                        {"cancel", context_cancel, METH_NOARGS, NULL},
                                        {"profile", context_profile, METH_NOARGS, NULL},
                                        {"memory", context_memory, METH_NOARGS, NULL},
                                        {0}};

static PyType_Slot context_slots[] = {{Py_tp_new, (void *)context_new},
                                      {Py_tp_dealloc, (void *)context_dealloc},
                                      {Py_tp_traverse, (void *)context_traverse},
                                      {Py_tp_methods, context_methods},
                                      {0}};

static PyType_Spec context_spec = {"tercel._tercel.Context", sizeof(context), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, context_slots};

/* ---- module -------------------------------------------------------------------------------------------------------------- */

static PyObject *module_machine(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  tercel_machine_info info = {.size = sizeof info};
  tercel_error err = {0};
  if (tercel_machine_get_info(&info, &err) != TERCEL_OK) return tercel_py_raise(&err);
  return Py_BuildValue("{sssssssi}", "cpu", info.cpu, "level", info.level, "levels", info.levels, "num_cpus",
                       info.num_cpus);
}

/* to_f32(view, address of floats, their number) */
static PyObject *module_to_f32(PyObject *module, PyObject *args) {
  PyObject *tensor, *address;
  Py_ssize_t capacity;
  tercel_view view;
  tercel_error err = {0};
  (void)module;
  if (!PyArg_ParseTuple(args, "OOn", &tensor, &address, &capacity) || tercel_py_to_view(tensor, &view) < 0) return NULL;
  float *const out = PyLong_AsVoidPtr(address);
  if (PyErr_Occurred()) return NULL;
  return none_or_raise(tercel_view_to_f32(&view, out, (size_t)capacity, &err), &err);
}

/* [(number, name, bits, elements of a block, bytes of a block), ...] of all element types */
static PyObject *module_dtypes(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  PyObject *const list = PyList_New(0);
  for (int i = TERCEL_DTYPE_NONE + 1; list && i < TERCEL_DTYPE_COUNT; i++) {
    int bytes;
    const int elements = tercel_dtype_block((tercel_dtype)i, &bytes);
    PyObject *const item = Py_BuildValue("isiii", i, tercel_dtype_name((tercel_dtype)i),
                                         tercel_dtype_bits((tercel_dtype)i), elements, bytes);
    const int failed = !item || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    if (failed) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

/* [(name, about), ...] of the optimizer's passes */
static PyObject *module_passes(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  PyObject *const list = PyList_New(0);
  const char *name, *about;
  for (size_t i = 0; list && (name = tercel_pass_name(i, &about)) != NULL; i++) {
    PyObject *const item = Py_BuildValue("ss", name, about);
    const int failed = !item || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    if (failed) {
      Py_DECREF(list);
      return NULL;
    }
  }
  return list;
}

static const char *const check_levels[] = {
    [TERCEL_CHECK_NOTE] = "note", [TERCEL_CHECK_WARNING] = "warning", [TERCEL_CHECK_ERROR] = "error"};

static PyObject *from_text(const char *text) { return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"); }

static PyObject *from_check_row(const tercel_check_row *row) {
  PyObject *const message = from_text(row->message), *const op = from_text(row->op), *const node = from_text(row->node);
  if (message && op && node)
    return Py_BuildValue("ssNNNs", check_levels[row->level], row->kind, op, node, message, row->advice);
  Py_XDECREF(message);
  Py_XDECREF(op);
  Py_XDECREF(node);
  return NULL;
}

/* check(path or None, bytes or None, folder or None, allow_external, operators or None)
 * -> list of (level, kind, op, node, message, advice) */
static PyObject *module_check(PyObject *self, PyObject *args) {
  const char *path, *folder, *data;
  Py_ssize_t bytes;
  PyObject *allow_external, *operators;
  tercel_model_options options = {.size = sizeof options};
  tercel_check *check = NULL;
  tercel_check_row row;
  tercel_error err = {0};
  tercel_status status;
  (void)self;
  if (!PyArg_ParseTuple(args, "zz#zOO", &path, &data, &bytes, &folder, &allow_external, &operators)) return NULL;
  if (operators != Py_None && !(options.operators = tercel_py_operators(operators))) return NULL;
  const char **const folders = read_texts(allow_external, &options.num_allow_external);
  if (!folders) return NULL;
  options.allow_external = folders;
  Py_BEGIN_ALLOW_THREADS;
  status = path ? tercel_model_check(path, &options, &check, &err)
                : tercel_model_check_memory(data, (size_t)bytes, folder, &options, &check, &err);
  Py_END_ALLOW_THREADS;
  PyMem_Free(folders);
  if (status != TERCEL_OK) return tercel_py_raise(&err);
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && tercel_check_get_row(check, i, &row); i++) {
    PyObject *const item = from_check_row(&row);
    const int failed = !item || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    if (failed) Py_CLEAR(list);
  }
  tercel_check_destroy(check);
  return list;
}

static PyMethodDef module_methods[] = {{"machine", module_machine, METH_NOARGS, NULL},
                                       {"check", module_check, METH_VARARGS, NULL},
                                       {"strings", module_strings, METH_O, NULL},
                                       {"dtypes", module_dtypes, METH_NOARGS, NULL},
                                       {"passes", module_passes, METH_NOARGS, NULL},
                                       {"to_f32", module_to_f32, METH_VARARGS, NULL},
                                       {0}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_tercel", "The C side of tercel; private.", -1, module_methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__tercel(void) {
  PyObject *const module = PyModule_Create(&definition);
  if (!module) return NULL;
  engine_type = PyType_FromSpec(&engine_spec);
  PyObject *const context_type = PyType_FromSpec(&context_spec);
  if (!engine_type || !context_type || add_exceptions(module) < 0 || tercel_py_add_operators(module) < 0) goto failed;
  Py_INCREF(engine_type);
  if (PyModule_AddObject(module, "Engine", engine_type) < 0 ||
      PyModule_AddObject(module, "Context", context_type) < 0 ||
      PyModule_AddStringConstant(module, "version", tercel_version()) < 0)
    goto failed;
  return module;
failed:
  Py_DECREF(module);
  return NULL;
}
