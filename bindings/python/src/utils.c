/* SPDX-License-Identifier: Apache-2.0 */
/* The module nixl._utils: plain memory for tests and examples, by address. */
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>

#include <stdlib.h>
#include <string.h>

#define PAGE 4096

static int two_numbers(PyObject *const *args, Py_ssize_t nargs, Py_ssize_t wanted, unsigned long long *out) {
    if (nargs != wanted) {
        PyErr_Format(PyExc_TypeError, "%zd arguments are expected (%zd given)", wanted, nargs);
        return -1;
    }
    for (Py_ssize_t i = 0; i < nargs; i++) {
        out[i] = PyLong_AsUnsignedLongLong(args[i]);
        if (out[i] == (unsigned long long)-1 && PyErr_Occurred() != NULL) {
            return -1;
        }
    }
    return 0;
}

static PyObject *malloc_passthru(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    unsigned long long n[1];
    void *block;

    (void)self;
    if (two_numbers(args, nargs, 1, n) != 0) {
        return NULL;
    }
    if (n[0] > PY_SSIZE_T_MAX - PAGE || posix_memalign(&block, PAGE, n[0] > 0 ? (size_t)n[0] : 1) != 0) {
        return PyErr_NoMemory();
    }
    return PyLong_FromVoidPtr(block);
}

static PyObject *free_passthru(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    unsigned long long n[1];

    (void)self;
    if (two_numbers(args, nargs, 1, n) != 0) {
        return NULL;
    }
    free((void *)(uintptr_t)n[0]);
    Py_RETURN_NONE;
}

static PyObject *ba_buf(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    unsigned long long n[2];

    (void)self;
    if (two_numbers(args, nargs, 2, n) != 0) {
        return NULL;
    }
    memset((void *)(uintptr_t)n[0], 0xba, (size_t)n[1]);
    Py_RETURN_NONE;
}

static PyObject *verify_transfer(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    unsigned long long n[3];
    const unsigned char *a, *b;

    (void)self;
    if (two_numbers(args, nargs, 3, n) != 0) {
        return NULL;
    }
    a = (const unsigned char *)(uintptr_t)n[0];
    b = (const unsigned char *)(uintptr_t)n[1];
    for (size_t i = 0; i < n[2]; i++) {
        if (a[i] != b[i]) {
            PyErr_Format(PyExc_AssertionError,
                         "byte %zu is 0x%02x at the first address and 0x%02x at the second", i, a[i], b[i]);
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"malloc_passthru", (PyCFunction)(void (*)(void))malloc_passthru, METH_FASTCALL,
     "malloc_passthru(size) -> int\n\nMemory that begins at a page."},
    {"free_passthru", (PyCFunction)(void (*)(void))free_passthru, METH_FASTCALL, "free_passthru(address)"},
    {"ba_buf", (PyCFunction)(void (*)(void))ba_buf, METH_FASTCALL,
     "ba_buf(address, size)\n\nFills it with 0xba."},
    {"verify_transfer", (PyCFunction)(void (*)(void))verify_transfer, METH_FASTCALL,
     "verify_transfer(address, address, size)\n\nAssertionError unless both hold the same bytes."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "nixl._utils",
    .m_doc = "Plain memory by address, for tests and examples.",
    .m_size = -1,
    .m_methods = functions,
};

__attribute__((visibility("default"))) PyObject *PyInit__utils(void);

__attribute__((visibility("default"))) PyObject *PyInit__utils(void) {
    return PyModule_Create(&definition);
}
