/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists as pickles: the state is the serialized list of the wire format, byte for byte what the reference writes, so
 * each side reads the other's.
 */
#include "binding.h"

#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

static int expand_encode(const struct dlist *list, struct bytes *out, nixl_status_t *status) {
    const struct nixl_strided_desc *rows = list->rows;
    size_t blocks = dlist_blocks(list), n = 0;
    struct nixl_desc *plain = malloc((blocks + 1) * sizeof *plain);

    if (plain == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < list->count; i++) {
        for (uint64_t k = 0; k < rows[i].count; k++) {
            plain[n++] = (struct nixl_desc){rows[i].addr + k * rows[i].stride, rows[i].len, rows[i].dev};
        }
    }
    *status = wire_list_encode_plain(out, list->mem, plain, sizeof *plain, blocks);
    free(plain);
    return 0;
}

PyObject *dlist_getstate(PyObject *self, PyObject *unused) {
    const struct dlist *list = (struct dlist *)self;
    struct bytes out = {0};
    nixl_status_t status = NIXL_SUCCESS;
    PyObject *state = NULL;

    (void)unused;
    if (list->form == NIXL_FORM_META) {
        status =
            wire_list_encode_meta(&out, list->mem, list->rows, sizeof(struct nixl_meta_desc), list->count);
    } else if (list->form == NIXL_FORM_STRIDED) {
        if (expand_encode(list, &out, &status) != 0) {
            return NULL;
        }
    } else {
        status = wire_list_encode_plain(&out, list->mem, list->rows, sizeof(struct nixl_desc), list->count);
    }
    if (status == NIXL_SUCCESS) {
        state = PyBytes_FromStringAndSize((const char *)out.data, (Py_ssize_t)out.len);
    } else {
        PyErr_NoMemory();
    }
    bytes_free(&out);
    return state;
}

PyObject *dlist_reduce(PyObject *self, PyObject *unused) {
    PyObject *copyreg = PyImport_ImportModule("copyreg");
    PyObject *newobj = copyreg != NULL ? PyObject_GetAttrString(copyreg, "__newobj__") : NULL;
    PyObject *state = newobj != NULL ? dlist_getstate(self, unused) : NULL;
    PyObject *reduced =
        state != NULL ? Py_BuildValue("(O(O)O)", newobj, (PyObject *)Py_TYPE(self), state) : NULL;

    Py_XDECREF(copyreg);
    Py_XDECREF(newobj);
    Py_XDECREF(state);
    return reduced;
}

static int rows_decode(struct dlist *list, const struct wire_list *wire) {
    struct wire_list_iter iter;
    struct wire_desc desc;
    struct nixl_meta_desc *rows;

    if (dlist_reserve(list, wire->count) != 0) {
        return -1;
    }
    if (list->kind == LIST_XFER) {
        if (wire->count > 0) {
            wire_list_copy(wire, list->rows);
        }
        list->count = wire->count;
        return 0;
    }
    rows = list->rows;
    wire_list_begin(wire, &iter);
    while (wire_list_next(&iter, &desc)) {
        char *meta = NULL;

        if (desc.meta.len > 0) {
            meta = malloc(desc.meta.len + 1);
            if (meta == NULL) {
                PyErr_NoMemory();
                return -1;
            }
            memcpy(meta, desc.meta.data, desc.meta.len);
            meta[desc.meta.len] = '\0';
        }
        rows[list->count++] = (struct nixl_meta_desc){desc.addr, desc.len, desc.dev, meta, desc.meta.len};
    }
    return 0;
}

PyObject *dlist_setstate(PyObject *self, PyObject *state) {
    struct dlist *list = (struct dlist *)self;
    struct wire_error error = {0};
    struct bytes_arg bytes;
    struct wire_list wire;
    nixl_status_t status;
    int rc;

    if (list->pins > 0) {
        PyErr_SetString(PyExc_BufferError,
                        "the list is in use by a call of another thread and cannot be changed now");
        return NULL;
    }
    if (bytes_arg_begin(&bytes, state, "state") != 0) {
        return NULL;
    }
    status = wire_list_decode(bytes.data, bytes.len, &wire, &error);
    if (status != NIXL_SUCCESS) {
        bytes_arg_end(&bytes);
        return raise_words(status, error.what, NIXL_NO_INDEX, NULL);
    }
    if (list->kind == LIST_XFER && wire.has_meta) {
        bytes_arg_end(&bytes);
        return raise_words(NIXL_ERR_MISMATCH, "this is a registration list, not a transfer list",
                           NIXL_NO_INDEX, NULL);
    }
    dlist_clear(list);
    list->mem = wire.mem;
    rc = rows_decode(list, &wire);
    bytes_arg_end(&bytes);
    if (rc != 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}
