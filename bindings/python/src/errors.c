/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statuses as exceptions. Each failing status has a class of its own below nixlError; the text is the status's
 * name and the library's words, and the attributes `status`, `index` and `backend` say the same to programs.
 */
#include "binding.h"

#include <string.h>

static struct {
    nixl_status_t status;
    const char *name, *doc;
    PyObject *type;
} classes[] = {
    {NIXL_ERR_NOT_POSTED, "nixlNotPostedError", "The transfer was not started.", NULL},
    {NIXL_ERR_INVALID_PARAM, "nixlInvalidParamError", "An argument cannot be right.", NULL},
    {NIXL_ERR_BACKEND, "nixlBackendError", "A backend, or what it stands on, failed.", NULL},
    {NIXL_ERR_NOT_FOUND, "nixlNotFoundError", "An agent, a backend or memory is not known.", NULL},
    {NIXL_ERR_MISMATCH, "nixlMismatchError",
     "Metadata is damaged or of a version that cannot be spoken with.", NULL},
    {NIXL_ERR_NOT_ALLOWED, "nixlNotAllowedError", "Not in this state.", NULL},
    {NIXL_ERR_REPOST_ACTIVE, "nixlRepostActiveError", "The transfer is still in flight.", NULL},
    {NIXL_ERR_UNKNOWN, "nixlUnknownError", "A failure without a name.", NULL},
    {NIXL_ERR_NOT_SUPPORTED, "nixlNotSupportedError", "Nothing here can do it.", NULL},
    {NIXL_ERR_REMOTE_DISCONNECT, "nixlRemoteDisconnectError", "The connection to the peer is gone.", NULL},
    {NIXL_ERR_CANCELED, "nixlCancelledError", "The transfer was cancelled: by a call, a deadline or a stall.",
     NULL},
    {NIXL_ERR_NO_TELEMETRY, "nixlNoTelemetryError", "Telemetry is off.", NULL},
};

#define CLASSES (sizeof classes / sizeof classes[0])

static PyObject *base_error;

static int class_add(PyObject *module, const char *name, const char *doc, PyObject *base, PyObject *status,
                     PyObject **type) {
    PyObject *dict = PyDict_New();
    char full[96];
    int rc = -1;

    PyOS_snprintf(full, sizeof full, MODULE_NAME ".%s", name);
    if (dict != NULL && PyDict_SetItemString(dict, "status", status) == 0 &&
        PyDict_SetItemString(dict, "index", Py_None) == 0 &&
        PyDict_SetItemString(dict, "backend", Py_None) == 0) {
        *type = PyErr_NewExceptionWithDoc(full, doc, base, dict);
        rc = *type != NULL ? PyModule_AddObjectRef(module, name, *type) : -1;
    }
    Py_XDECREF(dict);
    return rc;
}

int errors_init(PyObject *module) {
    if (class_add(
            module, "nixlError",
            "What NIXL raises. `status`: the nixl_status_t; `index`: the descriptor that is to blame, or "
            "None; `backend`: the backend's name, or None.",
            PyExc_Exception, Py_None, &base_error) != 0) {
        return -1;
    }
    for (size_t i = 0; i < CLASSES; i++) {
        PyObject *status = enum_status(classes[i].status);
        int rc;

        if (status == NULL) {
            return -1;
        }
        rc = class_add(module, classes[i].name, classes[i].doc, base_error, status, &classes[i].type);
        Py_DECREF(status);
        if (rc != 0) {
            return -1;
        }
    }
    return 0;
}

static int attribute_set(PyObject *error, const char *name, PyObject *value) {
    int rc = value != NULL ? PyObject_SetAttrString(error, name, value) : -1;

    Py_XDECREF(value);
    return rc;
}

PyObject *raise_words(nixl_status_t status, const char *words, size_t index, const char *backend) {
    PyObject *type = base_error;
    const char *name = nixl_status_string(status);
    PyObject *text, *decoded, *error = NULL;

    for (size_t i = 0; i < CLASSES; i++) {
        type = classes[i].status == status ? classes[i].type : type;
    }
    decoded = words != NULL && words[0] != '\0'
                  ? PyUnicode_DecodeUTF8(words, (Py_ssize_t)strlen(words), "backslashreplace")
                  : NULL;
    PyErr_Clear();
    text = decoded != NULL ? PyUnicode_FromFormat("%s: %U", name, decoded) : PyUnicode_FromString(name);
    Py_XDECREF(decoded);
    if (text != NULL) {
        error = PyObject_CallFunctionObjArgs(type, text, NULL);
        Py_DECREF(text);
    }
    if (error == NULL) {
        return NULL;
    }
    if ((type == base_error && attribute_set(error, "status", enum_status(status)) != 0) ||
        (index != NIXL_NO_INDEX && attribute_set(error, "index", PyLong_FromSize_t(index)) != 0) ||
        (backend != NULL && attribute_set(error, "backend", PyUnicode_FromString(backend)) != 0)) {
        Py_DECREF(error);
        return NULL;
    }
    PyErr_SetObject(type, error);
    Py_DECREF(error);
    return NULL;
}

PyObject *raise_status(nixl_status_t status, const char *backend) {
    return raise_words(status, nixl_error(), nixl_error_index(), backend);
}
