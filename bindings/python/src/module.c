/* SPDX-License-Identifier: Apache-2.0 */
/* The module nixl._bindings: its constants, its functions, and what the other files add to it. */
#include "binding.h"

#define EXPORT_INIT __attribute__((visibility("default")))

/* (list, None), or (None, words) when the form is wrong: what nixl._api logs. */
static PyObject *list_from(enum list_kind kind, PyObject *const *args, Py_ssize_t nargs) {
    enum source_result result;
    const char *why;
    PyObject *list;

    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "two arguments are expected: descs, mem_type");
        return NULL;
    }
    list = source_to_list(kind, args[0], args[1], &result, &why);
    if (result == SOURCE_WRONG_FORM) {
        return PyUnicode_FromString(why);
    }
    return list;
}

static PyObject *to_xfer_list(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    return list_from(LIST_XFER, args, nargs);
}

static PyObject *to_reg_list(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    return list_from(LIST_REG, args, nargs);
}

static PyObject *to_remote_list(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    return list_from(LIST_REMOTE, args, nargs);
}

static PyObject *cut(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    struct tensor tensor;
    struct dlist *list;
    Py_ssize_t dim;
    int rc;

    (void)self;
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "two arguments are expected: tensor, dim");
        return NULL;
    }
    dim = PyLong_AsSsize_t(args[1]);
    if (dim == -1 && PyErr_Occurred() != NULL) {
        return NULL;
    }
    rc = tensor_read(args[0], &tensor, true);
    if (rc <= 0) {
        if (rc == 0) {
            PyErr_Format(PyExc_TypeError, "a tensor or an array is expected, not %R", args[0]);
        }
        return NULL;
    }
    list = dlist_new(LIST_XFER, tensor.mem);
    if (list == NULL || tensor_cut(list, &tensor, dim) != 0) {
        Py_XDECREF((PyObject *)list);
        return NULL;
    }
    return (PyObject *)list;
}

static PyObject *version(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return PyUnicode_FromString(nixl_version());
}

static PyMethodDef functions[] = {
    {"_to_xfer_list", (PyCFunction)(void (*)(void))to_xfer_list, METH_FASTCALL,
     "A nixlXferDList, or why not."},
    {"_to_reg_list", (PyCFunction)(void (*)(void))to_reg_list, METH_FASTCALL, "A nixlRegDList, or why not."},
    {"_to_remote_list", (PyCFunction)(void (*)(void))to_remote_list, METH_FASTCALL,
     "A nixlRemoteDList, or why not."},
    {"_cut", (PyCFunction)(void (*)(void))cut, METH_FASTCALL,
     "A strided list of a tensor along a dimension."},
    {"library_version", version, METH_NOARGS, "library_version() -> str\n\nThe version of libnixl."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = MODULE_NAME,
    .m_doc = "The library's interface as the reference's Python bindings name it; nixl._api stands on it.",
    .m_size = -1,
    .m_methods = functions,
};

EXPORT_INIT PyObject *PyInit__bindings(void);

EXPORT_INIT PyObject *PyInit__bindings(void) {
    PyObject *module = PyModule_Create(&definition);

    if (module == NULL) {
        return NULL;
    }
    if (PyModule_AddStringConstant(module, "NIXL_INIT_AGENT", "") != 0 ||
        PyModule_AddIntConstant(module, "DEFAULT_COMM_PORT", NIXL_DEFAULT_PORT) != 0 ||
        PyModule_AddObjectRef(module, "HAVE_UCX_GPU_DEVICE_API", Py_False) != 0 || enums_init(module) != 0 ||
        errors_init(module) != 0 || dlist_init_types(module) != 0 || telemetry_init_type(module) != 0 ||
        config_init_type(module) != 0 || agent_init_type(module) != 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
