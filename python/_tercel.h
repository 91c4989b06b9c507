/* What the files of the extension module share.  _tercel.c has the module, engines and contexts, _operators.c operators in Python. */
#ifndef TERCEL_PYTHON_TERCEL_H
#define TERCEL_PYTHON_TERCEL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <tercel/tercel.h>

/* ---- _tercel.c ---- */

/* Exception classes by status; index 0 is the base class. */
extern PyObject *tercel_py_exceptions[TERCEL_INTERNAL + 1];
/* Raises the error, caused by the failure that is remembered, if one is; NULL. */
PyObject *tercel_py_raise(const tercel_error *err);
PyObject *tercel_py_from_dims(const tercel_view *view);
PyObject *tercel_py_from_strings(const tercel_view *view); /* a list of bytes */
int tercel_py_to_view(PyObject *tuple, tercel_view *out);  /* (dtype, dims, address, bytes); -1: raised */

/* ---- _operators.c ---- */

int tercel_py_add_operators(PyObject *module);
/* The set that an Operators object holds, borrowed; NULL: raised. */
tercel_operators *tercel_py_operators(PyObject *object);
/* An exception of a user's function waits in its thread until the call of tercel that it made fail raises. */
void tercel_py_forget_failure(void);
/* Makes it the cause of the exception that is set. */
void tercel_py_chain_failure(void);

#endif
