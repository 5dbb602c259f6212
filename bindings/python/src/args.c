/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of calls: sorted by position and name once, converted one by one. Names that the caller writes are
 * interned strings as ours are, so a keyword is found by its address nearly always.
 */
#include "binding.h"

#include <math.h>
#include <string.h>

static int signature_prepare(struct signature *sig) {
    int n = 0;

    while (n < ARGS_MAX && sig->params[n] != NULL) {
        if (sig->interned[n] == NULL &&
            (sig->interned[n] = PyUnicode_InternFromString(sig->params[n])) == NULL) {
            return -1;
        }
        n++;
    }
    if (sig->positional == 0) {
        sig->positional = n;
    }
    sig->count = n;
    return 0;
}

static int keyword_place(struct signature *sig, PyObject *name, PyObject *value, PyObject **out) {
    int at = -1;

    for (int i = 0; i < sig->count && at < 0; i++) {
        at = name == sig->interned[i] ? i : -1;
    }
    for (int i = 0; i < sig->count && at < 0; i++) {
        at = PyUnicode_CompareWithASCIIString(name, sig->params[i]) == 0 ? i : -1;
    }
    if (at < 0) {
        PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", sig->name, name);
        return -1;
    }
    if (out[at] != NULL) {
        PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%s'", sig->name,
                     sig->params[at]);
        return -1;
    }
    out[at] = value;
    return 0;
}

static int required_check(const struct signature *sig, PyObject **out) {
    for (int i = 0; i < sig->required; i++) {
        if (out[i] == NULL) {
            PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s' (position %d)", sig->name,
                         sig->params[i], i + 1);
            return -1;
        }
    }
    return 0;
}

static int positional_check(const struct signature *sig, Py_ssize_t nargs) {
    if (nargs > sig->positional) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d positional arguments (%zd given)", sig->name,
                     sig->positional, nargs);
        return -1;
    }
    return 0;
}

int args_parse(struct signature *sig, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
               PyObject **out) {
    Py_ssize_t named = kwnames != NULL ? PyTuple_Size(kwnames) : 0;

    if ((sig->count == 0 && signature_prepare(sig) != 0) || positional_check(sig, nargs) != 0) {
        return -1;
    }
    for (int i = 0; i < sig->count; i++) {
        out[i] = i < nargs ? args[i] : NULL;
    }
    for (Py_ssize_t i = 0; i < named; i++) {
        if (keyword_place(sig, PyTuple_GetItem(kwnames, i), args[nargs + i], out) != 0) {
            return -1;
        }
    }
    return required_check(sig, out);
}

int args_parse_tuple(struct signature *sig, PyObject *args, PyObject *kwargs, PyObject **out) {
    Py_ssize_t nargs = PyTuple_Size(args), at = 0;
    PyObject *name, *value;

    if ((sig->count == 0 && signature_prepare(sig) != 0) || positional_check(sig, nargs) != 0) {
        return -1;
    }
    for (int i = 0; i < sig->count; i++) {
        out[i] = i < nargs ? PyTuple_GetItem(args, i) : NULL;
    }
    while (kwargs != NULL && PyDict_Next(kwargs, &at, &name, &value)) {
        if (keyword_place(sig, name, value, out) != 0) {
            return -1;
        }
    }
    return required_check(sig, out);
}

int arg_bool(PyObject *value, bool *out) {
    int truth;

    if (value == NULL || value == Py_None) {
        return 0;
    }
    truth = PyObject_IsTrue(value);
    if (truth < 0) {
        return -1;
    }
    *out = truth != 0;
    return 0;
}

int arg_u64(PyObject *value, const char *what, uint64_t *out) {
    PyObject *number;
    unsigned long long result;

    if (value == NULL || value == Py_None) {
        return 0;
    }
    number = PyNumber_Index(value);
    if (number == NULL) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Format(PyExc_TypeError, "%s must be an int, not %R", what, value);
        }
        return -1;
    }
    result = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    if (result == (unsigned long long)-1 && PyErr_Occurred() != NULL) {
        PyErr_Format(PyExc_ValueError, "%s is out of range: %R", what, value);
        return -1;
    }
    *out = result;
    return 0;
}

int arg_port(PyObject *value, uint16_t *out) {
    uint64_t port = *out;

    if (arg_u64(value, "port", &port) != 0) {
        return -1;
    }
    if (port > UINT16_MAX) {
        PyErr_Format(PyExc_ValueError, "port is out of range: %R", value);
        return -1;
    }
    *out = (uint16_t)port;
    return 0;
}

int arg_timeout(PyObject *value, uint64_t none_ms, uint64_t *out_ms) {
    double seconds;

    *out_ms = none_ms;
    if (value == NULL || value == Py_None) {
        return 0;
    }
    seconds = PyFloat_AsDouble(value);
    if (seconds == -1.0 && PyErr_Occurred() != NULL) {
        return -1;
    }
    if (isnan(seconds) || seconds < 0) {
        PyErr_Format(PyExc_ValueError, "a timeout must not be negative: %R", value);
        return -1;
    }
    *out_ms = seconds > 1e15 ? NIXL_NO_TIMEOUT : (uint64_t)ceil(seconds * 1000.0);
    return 0;
}

const char *arg_text(PyObject *value, const char *what) {
    Py_ssize_t len;
    const char *text;

    if (!PyUnicode_Check(value)) {
        if (!PyBytes_Check(value)) {
            PyErr_Format(PyExc_TypeError, "%s must be a str, not %R", what, value);
            return NULL;
        }
        text = PyBytes_AsString(value);
        len = PyBytes_Size(value);
    } else {
        text = PyUnicode_AsUTF8AndSize(value, &len);
    }
    if (text != NULL && strlen(text) != (size_t)len) {
        PyErr_Format(PyExc_ValueError, "%s contains a NUL character", what);
        return NULL;
    }
    return text;
}

static const struct {
    const char *name;
    nixl_mem_t mem;
} mem_names[] = {{"DRAM", DRAM_SEG}, {"VRAM", VRAM_SEG}, {"FILE", FILE_SEG}, {"BLOCK", BLK_SEG},
                 {"OBJ", OBJ_SEG},   {"cpu", DRAM_SEG},  {"cuda", VRAM_SEG}};

/* A small number, or an enum member whose value is one; -1 when it is neither. */
static long small_number(PyObject *value) {
    long number;

    if (!PyLong_Check(value)) {
        return -1;
    }
    number = PyLong_AsLong(value);
    if (number < 0) {
        PyErr_Clear();
        return -1;
    }
    return number;
}

int arg_mem(PyObject *value, nixl_mem_t *out) {
    long number = small_number(value);

    if (number >= 0 && number < NIXL_MEM_KINDS) {
        *out = (nixl_mem_t)number;
        return 0;
    }
    for (size_t i = 0; PyUnicode_Check(value) && i < sizeof mem_names / sizeof mem_names[0]; i++) {
        if (PyUnicode_CompareWithASCIIString(value, mem_names[i].name) == 0) {
            *out = mem_names[i].mem;
            return 0;
        }
    }
    PyErr_SetObject(PyExc_KeyError, value);
    return -1;
}

int arg_op(PyObject *value, nixl_xfer_op_t *out) {
    long number = small_number(value);

    if (number == NIXL_READ || number == NIXL_WRITE) {
        *out = (nixl_xfer_op_t)number;
        return 0;
    }
    if (PyUnicode_Check(value)) {
        if (PyUnicode_CompareWithASCIIString(value, "READ") == 0) {
            *out = NIXL_READ;
            return 0;
        }
        if (PyUnicode_CompareWithASCIIString(value, "WRITE") == 0) {
            *out = NIXL_WRITE;
            return 0;
        }
    }
    PyErr_SetObject(PyExc_KeyError, value);
    return -1;
}

int bytes_arg_begin(struct bytes_arg *arg, PyObject *value, const char *what) {
    *arg = (struct bytes_arg){.data = ""};
    if (value == NULL || value == Py_None) {
        return 0;
    }
    if (PyBytes_Check(value)) {
        arg->data = PyBytes_AsString(value);
        arg->len = (size_t)PyBytes_Size(value);
        return 0;
    }
    if (PyUnicode_Check(value)) {
        Py_ssize_t len;

        arg->data = PyUnicode_AsUTF8AndSize(value, &len);
        arg->len = (size_t)len;
        return arg->data != NULL ? 0 : -1;
    }
    if (PyObject_GetBuffer(value, &arg->view, PyBUF_SIMPLE) != 0) {
        PyErr_Format(PyExc_TypeError, "%s must be bytes or str, not %R", what, value);
        return -1;
    }
    arg->has_view = true;
    arg->data = arg->view.buf;
    arg->len = (size_t)arg->view.len;
    return 0;
}

void bytes_arg_end(struct bytes_arg *arg) {
    if (arg->has_view) {
        PyBuffer_Release(&arg->view);
        arg->has_view = false;
    }
}
