/* Operators in Python: tercel.h's callbacks that take the interpreter's lock and call functions of tercel/operators.py.
 *
 * An Operators object keeps the functions alive, an Engine the object: what C holds of them is borrowed. */
#include "_tercel.h"

#include <stdlib.h>
#include <string.h>

/* ---- failures ------------------------------------------------------------------------------------------------------------ */

static const char failure_key[] = "tercel.failure"; /* in the thread's dict */

void tercel_py_forget_failure(void) {
  PyObject *const dict = PyThreadState_GetDict();
  if (dict && PyDict_GetItemString(dict, failure_key)) PyDict_DelItemString(dict, failure_key);
}

/* What is no Exception (KeyboardInterrupt) is not wrapped: it goes on itself. */
void tercel_py_chain_failure(void) {
  PyObject *const dict = PyThreadState_GetDict();
  PyObject *const failure = dict ? PyDict_GetItemString(dict, failure_key) : NULL;
  if (!failure) return;
  PyObject *type, *value, *traceback;
  Py_INCREF(failure);
  PyErr_Fetch(&type, &value, &traceback);
  PyDict_DelItemString(dict, failure_key);
  if (PyObject_IsInstance(failure, PyExc_Exception)) {
    PyErr_NormalizeException(&type, &value, &traceback);
    PyException_SetCause(value, failure); /* takes the reference */
    PyErr_Restore(type, value, traceback);
    return;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  PyErr_SetObject((PyObject *)Py_TYPE(failure), failure);
  Py_DECREF(failure);
}

static tercel_status status_of(PyObject *value) {
  for (int i = TERCEL_OK + 1; i <= TERCEL_INTERNAL; i++)
    if (PyObject_IsInstance(value, tercel_py_exceptions[i])) return (tercel_status)i;
  if (PyErr_GivenExceptionMatches(value, PyExc_MemoryError)) return TERCEL_OUT_OF_MEMORY;
  return PyErr_GivenExceptionMatches(value, PyExc_NotImplementedError) ? TERCEL_UNSUPPORTED : TERCEL_INVALID_ARGUMENT;
}

/* "ValueError: the text" of an exception, into *err. */
static tercel_status describe_failure(PyObject *value, tercel_error *err) {
  const tercel_status status = status_of(value);
  PyObject *const name = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__name__");
  PyObject *const text = name ? PyUnicode_FromFormat("%U: %S", name, value) : NULL;
  PyObject *const bytes = text ? PyUnicode_AsEncodedString(text, "utf-8", "replace") : NULL;
  const char *const message = bytes ? PyBytes_AsString(bytes) : NULL;
  tercel_error_set(err, status, "%s", message ? message : "an exception that can't be described");
  PyErr_Clear();
  Py_XDECREF(name);
  Py_XDECREF(text);
  Py_XDECREF(bytes);
  return status;
}

/* Takes the exception that is set. */
static tercel_status take_failure(tercel_error *err) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  const tercel_status status = describe_failure(value, err);
  PyObject *const dict = PyThreadState_GetDict();
  if (!dict || PyDict_SetItemString(dict, failure_key, value) < 0) PyErr_Clear();
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return status;
}

/* ---- attributes ---------------------------------------------------------------------------------------------------------- */

/* What C knows of an operator; the objects are kept by the Operators object. */
typedef struct registration {
  PyObject *infer, *run;
  size_t num_attributes;
  tercel_attribute attributes[];
} registration;

static PyObject *read_list(const tercel_node *node, const tercel_attribute *a, tercel_error *err) {
  const int64_t *ints = NULL;
  const double *floats = NULL;
  const char *const *texts = NULL;
  size_t count = 0;
  const tercel_status status =
      a->type == TERCEL_ATTRIBUTE_INTS     ? tercel_node_get_ints(node, a->name, &ints, &count, err)
      : a->type == TERCEL_ATTRIBUTE_FLOATS ? tercel_node_get_floats(node, a->name, &floats, &count, err)
                                           : tercel_node_get_strings(node, a->name, &texts, &count, err);
  if (status != TERCEL_OK) return tercel_py_raise(err);
  if (!ints && !floats && !texts) Py_RETURN_NONE;
  PyObject *const list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list && i < count; i++) {
    PyObject *const item = ints     ? PyLong_FromLongLong(ints[i])
                           : floats ? PyFloat_FromDouble(floats[i])
                                    : PyUnicode_DecodeUTF8(texts[i], (Py_ssize_t)strlen(texts[i]), "replace");
    if (!item) {
      Py_DECREF(list);
      return NULL;
    }
    PyList_SetItem(list, (Py_ssize_t)i, item);
  }
  return list;
}

/* A number is there when two defaults give the same. */
static PyObject *read_number(const tercel_node *node, const tercel_attribute *a, tercel_error *err) {
  int64_t ints[2] = {0, 1};
  double floats[2] = {0, 1};
  for (int i = 0; i < 2; i++) {
    const tercel_status status = a->type == TERCEL_ATTRIBUTE_INT
                                     ? tercel_node_get_int(node, a->name, &ints[i], err)
                                     : tercel_node_get_float(node, a->name, &floats[i], err);
    if (status != TERCEL_OK) return tercel_py_raise(err);
  }
  const int is_int = a->type == TERCEL_ATTRIBUTE_INT;
  if (is_int ? ints[0] != ints[1] : floats[0] == 0 && floats[1] == 1) Py_RETURN_NONE;
  return is_int ? PyLong_FromLongLong(ints[0]) : PyFloat_FromDouble(floats[0]);
}

static PyObject *read_attribute(const tercel_node *node, const tercel_attribute *a, tercel_error *err) {
  const char *text = NULL;
  if (a->type == TERCEL_ATTRIBUTE_INT || a->type == TERCEL_ATTRIBUTE_FLOAT) return read_number(node, a, err);
  if (a->type != TERCEL_ATTRIBUTE_STRING) return read_list(node, a, err);
  if (tercel_node_get_string(node, a->name, &text, err) != TERCEL_OK) return tercel_py_raise(err);
  if (!text) Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

/* {name: value} of those that the node has. */
static PyObject *read_attributes(const registration *r, const tercel_node *node) {
  PyObject *const dict = PyDict_New();
  tercel_error err = {0};
  for (size_t i = 0; dict && i < r->num_attributes; i++) {
    PyObject *const value = read_attribute(node, &r->attributes[i], &err);
    const int failed = !value || (value != Py_None && PyDict_SetItemString(dict, r->attributes[i].name, value) < 0);
    Py_XDECREF(value);
    if (failed) {
      Py_DECREF(dict);
      return NULL;
    }
  }
  return dict;
}

/* ---- inference ----------------------------------------------------------------------------------------------------------- */

enum { MAX_CONTENTS = 64 };

/* (dtype, dims or None, contents or None) */
static PyObject *from_spec(const tercel_inference *inference, size_t i) {
  int64_t numbers[MAX_CONTENTS];
  const tercel_spec *const spec = inference->inputs[i];
  if (!spec) Py_RETURN_NONE;
  tercel_view shape = {.rank = spec->rank < 0 ? 0 : spec->rank};
  memcpy(shape.dims, spec->dims, sizeof shape.dims);
  PyObject *const dims = spec->rank < 0 ? Py_BuildValue("") : tercel_py_from_dims(&shape);
  const int64_t count = tercel_inference_ints(inference, i, numbers, MAX_CONTENTS);
  PyObject *const contents = count < 0 ? Py_BuildValue("") : PyList_New((Py_ssize_t)count);
  for (int64_t k = 0; contents && k < count; k++)
    PyList_SetItem(contents, (Py_ssize_t)k, PyLong_FromLongLong(numbers[k]));
  if (dims && contents) return Py_BuildValue("iNN", (int)spec->dtype, dims, contents);
  Py_XDECREF(dims);
  Py_XDECREF(contents);
  return NULL;
}

/* (dtype, dims or None) */
static int to_spec(PyObject *item, tercel_spec *out) {
  int dtype;
  PyObject *dims;
  if (!PyArg_ParseTuple(item, "iO", &dtype, &dims)) return -1;
  *out = (tercel_spec){.dtype = (tercel_dtype)dtype, .rank = -1};
  if (dims == Py_None) return 0;
  const Py_ssize_t rank = PyTuple_Size(dims);
  if (rank < 0 || rank > TERCEL_MAX_RANK) {
    if (rank >= 0) PyErr_Format(tercel_py_exceptions[TERCEL_UNSUPPORTED], "rank %zd", rank);
    return -1;
  }
  out->rank = (int)rank;
  for (Py_ssize_t d = 0; d < rank; d++) {
    PyObject *const dim = PyTuple_GetItem(dims, d);
    out->dims[d] = dim == Py_None ? TERCEL_UNKNOWN_DIM : PyLong_AsLongLong(dim);
    if (PyErr_Occurred()) return -1;
  }
  return 0;
}

static int infer_locked(const tercel_inference *inference) {
  const registration *const r = inference->user;
  PyObject *const inputs = PyList_New((Py_ssize_t)inference->num_inputs);
  for (size_t i = 0; inputs && i < inference->num_inputs; i++) {
    PyObject *const spec = from_spec(inference, i);
    if (spec) PyList_SetItem(inputs, (Py_ssize_t)i, spec);
    if (!spec) break;
  }
  PyObject *const attributes = PyErr_Occurred() ? NULL : read_attributes(r, inference->node);
  PyObject *const outputs =
      attributes && inputs ? PyObject_CallFunction(r->infer, "NOOn", PyLong_FromVoidPtr((void *)(uintptr_t)inference),
                                                   inputs, attributes, (Py_ssize_t)inference->num_outputs)
                           : NULL;
  int failed = !outputs;
  for (size_t i = 0; !failed && i < inference->num_outputs; i++)
    if (inference->outputs[i]) failed = to_spec(PyList_GetItem(outputs, (Py_ssize_t)i), inference->outputs[i]) < 0;
  Py_XDECREF(inputs);
  Py_XDECREF(attributes);
  Py_XDECREF(outputs);
  return failed ? -1 : 0;
}

static tercel_status infer(const tercel_inference *inference, tercel_error *err) {
  const PyGILState_STATE lock = PyGILState_Ensure();
  const tercel_status status = infer_locked(inference) < 0 ? take_failure(err) : TERCEL_OK;
  PyGILState_Release(lock);
  return status;
}

/* dim(inference, a, operation, b) */
static PyObject *module_dim(PyObject *module, PyObject *args) {
  PyObject *address;
  long long a, b;
  const char *operation;
  int64_t out;
  tercel_error err = {0};
  (void)module;
  if (!PyArg_ParseTuple(args, "OLsL", &address, &a, &operation, &b)) return NULL;
  const tercel_inference *const inference = PyLong_AsVoidPtr(address);
  if (!inference) return NULL;
  if (tercel_inference_dim(inference, a, operation[0], b, &out, &err) != TERCEL_OK) return tercel_py_raise(&err);
  return PyLong_FromLongLong(out);
}

/* ---- runs ---------------------------------------------------------------------------------------------------------------- */

enum { READ_ONLY = 0x100 }; /* PyBUF_READ, which the limited API has from 3.11 on */

/* (dtype, dims, memory of its elements, not to be written, or a list of bytes) */
static PyObject *from_input(const tercel_view *view) {
  static char nothing[1];
  if (!view) Py_RETURN_NONE;
  PyObject *const dims = tercel_py_from_dims(view);
  PyObject *const contents =
      view->dtype == TERCEL_DTYPE_STRING
          ? tercel_py_from_strings(view)
          : PyMemoryView_FromMemory(view->bytes ? view->data : nothing, (Py_ssize_t)view->bytes, READ_ONLY);
  if (dims && contents) return Py_BuildValue("iNN", (int)view->dtype, dims, contents);
  Py_XDECREF(dims);
  Py_XDECREF(contents);
  return NULL;
}

static int copy_strings(const tercel_call *call, size_t i, const tercel_view *from, tercel_error *err) {
  const tercel_string *const texts = from->data;
  const size_t count = from->bytes / sizeof *texts;
  size_t total = 0;
  char *characters = NULL;
  for (size_t k = 0; k < count; k++) total += texts[k].length;
  if (tercel_call_shape_strings(call, i, from->rank, from->dims, total, &characters, err) != TERCEL_OK) return -1;
  for (size_t k = 0; k < count; k++) {
    if (texts[k].length > 0) memcpy(characters, texts[k].data, texts[k].length);
    ((tercel_string *)call->outputs[i]->data)[k] = (tercel_string){characters, texts[k].length};
    characters += texts[k].length;
  }
  return 0;
}

static int same_shape(const tercel_view *a, const tercel_view *b) {
  return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

/* The array that the function gave, a tensor as _tercel.c takes them, into output i.  -1: raised, or *err is set. */
static int copy_output(const tercel_call *call, size_t i, PyObject *tensor, tercel_error *err) {
  tercel_view *const to = call->outputs[i];
  tercel_view from;
  if (tercel_py_to_view(tensor, &from) < 0) return -1;
  if (from.dtype != to->dtype) {
    tercel_error_set(err, TERCEL_INVALID_ARGUMENT, "output %zu is of %s, want %s", i, tercel_dtype_name(from.dtype),
                     tercel_dtype_name(to->dtype));
    return -1;
  }
  if (from.dtype == TERCEL_DTYPE_STRING) return copy_strings(call, i, &from, err);
  if (to->rank < 0 && tercel_call_shape_output(call, i, from.rank, from.dims, err) != TERCEL_OK) return -1;
  if (!same_shape(&from, to)) {
    tercel_error_set(err, TERCEL_INVALID_ARGUMENT, "output %zu has another shape than infer gave it", i);
    return -1;
  }
  if (to->bytes > 0) memcpy(to->data, from.data, to->bytes < from.bytes ? to->bytes : from.bytes);
  return 0;
}

/* What the function gave: [(tensor, what keeps it alive) or None, ...] */
static int copy_outputs(const tercel_call *call, PyObject *outputs, tercel_error *err) {
  for (size_t i = 0; i < call->num_outputs; i++) {
    PyObject *tensor, *keeper;
    if (!call->outputs[i]) continue;
    PyObject *const output = PyList_GetItem(outputs, (Py_ssize_t)i);
    if (output == Py_None) {
      tercel_error_set(err, TERCEL_INVALID_ARGUMENT, "output %zu is None", i);
      return -1;
    }
    if (!output || !PyArg_ParseTuple(output, "OO", &tensor, &keeper)) return -1;
    if (copy_output(call, i, tensor, err) < 0) return -1;
  }
  return 0;
}

/* The function must not keep its inputs: the last part of what it gave looks whether it did, once the rest is gone. */
static int check_inputs(PyObject *check) {
  PyObject *const done = PyObject_CallFunctionObjArgs(check, NULL);
  Py_XDECREF(done);
  return done ? 0 : -1;
}

static int run_locked(const tercel_call *call, tercel_error *err) {
  const registration *const r = call->user;
  PyObject *const inputs = PyList_New((Py_ssize_t)call->num_inputs);
  for (size_t i = 0; inputs && i < call->num_inputs; i++) {
    PyObject *const input = from_input(call->inputs[i]);
    if (!input) {
      Py_DECREF(inputs);
      return -1;
    }
    PyList_SetItem(inputs, (Py_ssize_t)i, input);
  }
  PyObject *const attributes = inputs ? read_attributes(r, call->node) : NULL;
  PyObject *const result =
      attributes ? PyObject_CallFunction(r->run, "OOn", inputs, attributes, (Py_ssize_t)call->num_outputs) : NULL;
  Py_XDECREF(inputs);
  Py_XDECREF(attributes);
  PyObject *outputs, *check;
  if (!result || !PyArg_ParseTuple(result, "OO", &outputs, &check)) {
    Py_XDECREF(result);
    return -1;
  }
  int failed = copy_outputs(call, outputs, err) < 0;
  Py_INCREF(check);
  Py_DECREF(result);
  if (!failed && check_inputs(check) < 0) failed = 1;
  Py_DECREF(check);
  return failed ? -1 : 0;
}

static tercel_status run(const tercel_call *call, tercel_error *err) {
  const PyGILState_STATE lock = PyGILState_Ensure();
  tercel_status status = TERCEL_OK;
  if (run_locked(call, err) < 0) status = PyErr_Occurred() ? take_failure(err) : err->status;
  PyGILState_Release(lock);
  return status;
}

/* ---- Operators ----------------------------------------------------------------------------------------------------------- */

typedef struct operators {
  PyObject_HEAD tercel_operators *set;
  PyObject *kept; /* a list: functions and texts that registrations point to */
} operators;

static PyObject *operators_type;

static int operators_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((operators *)self)->kept);
  return 0;
}

static void operators_dealloc(PyObject *self) {
  operators *const o = (operators *)self;
  PyObject_GC_UnTrack(self);
  tercel_operators_destroy(o->set);
  Py_XDECREF(o->kept);
  PyTypeObject *const type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static PyObject *operators_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  tercel_error err = {0};
  (void)args;
  (void)kwargs;
  operators *const o = (operators *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (!o) return NULL;
  o->kept = PyList_New(0);
  if (o->kept && tercel_operators_create(&o->set, &err) == TERCEL_OK) return (PyObject *)o;
  const int raised = !o->kept;
  Py_DECREF((PyObject *)o);
  return raised ? NULL : tercel_py_raise(&err);
}

static void release_registration(void *user) { free(user); }

static int read_registration(registration *r, PyObject *attributes) {
  for (size_t i = 0; i < r->num_attributes; i++) {
    int type;
    tercel_attribute *const a = &r->attributes[i];
    if (!PyArg_ParseTuple(PyList_GetItem(attributes, (Py_ssize_t)i), "sip", &a->name, &type, &a->required)) return -1;
    a->type = (tercel_attribute_type)type;
  }
  return 0;
}

/* add(domain, name, first version, last version, least inputs, most, least outputs, most, [(attribute, type, required), ...], flags,
 * infer or None, run) */
static PyObject *operators_add(PyObject *self, PyObject *args) {
  operators *const o = (operators *)self;
  tercel_operator op = {.size = sizeof op, .run = run, .release = release_registration};
  PyObject *attributes, *infer_function, *run_function;
  int flags;
  tercel_error err = {0};
  if (!PyArg_ParseTuple(args, "ssiiiiiiO!iOO", &op.domain, &op.name, &op.first_version, &op.last_version,
                        &op.min_inputs, &op.max_inputs, &op.min_outputs, &op.max_outputs, &PyList_Type, &attributes,
                        &flags, &infer_function, &run_function))
    return NULL;
  const size_t count = (size_t)PyList_Size(attributes);
  registration *const r = malloc(sizeof *r + count * sizeof *r->attributes);
  if (!r) return PyErr_NoMemory();
  *r = (registration){.infer = infer_function, .run = run_function, .num_attributes = count};
  if (read_registration(r, attributes) < 0 || PyList_Append(o->kept, args) < 0) {
    free(r);
    return NULL;
  }
  op.attributes = r->attributes;
  op.num_attributes = count;
  op.flags = (unsigned)flags;
  op.infer = infer_function == Py_None ? NULL : infer;
  op.user = r;
  if (tercel_operators_add(o->set, &op, &err) == TERCEL_OK) Py_RETURN_NONE;
  free(r);
  return tercel_py_raise(&err);
}

static PyMethodDef operators_methods[] = {{"add", operators_add, METH_VARARGS, NULL}, {0}};

static PyType_Slot operators_slots[] = {{Py_tp_new, (void *)operators_new},
                                        {Py_tp_dealloc, (void *)operators_dealloc},
                                        {Py_tp_traverse, (void *)operators_traverse},
                                        {Py_tp_methods, operators_methods},
                                        {0}};

static PyType_Spec operators_spec = {"tercel._tercel.Operators", sizeof(operators), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, operators_slots};

static PyMethodDef functions[] = {{"dim", module_dim, METH_VARARGS, NULL}, {0}};

tercel_operators *tercel_py_operators(PyObject *object) {
  if (PyObject_TypeCheck(object, (PyTypeObject *)operators_type)) return ((operators *)object)->set;
  PyErr_SetString(PyExc_TypeError, "operators: want a tercel.Operators");
  return NULL;
}

int tercel_py_add_operators(PyObject *module) {
  operators_type = PyType_FromSpec(&operators_spec);
  if (!operators_type) return -1;
  Py_INCREF(operators_type);
  if (PyModule_AddObject(module, "Operators", operators_type) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}
