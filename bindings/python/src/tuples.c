/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tuples to rows of descriptor lists. What nearly every program gives, exact tuples of exact ints, takes a way that
 * runs no Python code; everything else, such as NumPy's numbers, goes by __index__.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

static int tuple_number(PyObject *item, size_t index, const char *field, uint64_t *out) {
    unsigned long long value;

    if (Py_TYPE(item) == &PyLong_Type) {
        value = PyLong_AsUnsignedLongLong(item);
        if (value != (unsigned long long)-1 || PyErr_Occurred() == NULL) {
            *out = value;
            return 0;
        }
    } else {
        PyObject *number = PyNumber_Index(item);

        if (number == NULL) {
            if (PyErr_ExceptionMatches(PyExc_TypeError)) {
                PyErr_Format(PyExc_TypeError, "descriptor %zu: %s must be an int, not %R", index, field,
                             item);
            }
            return -1;
        }
        value = PyLong_AsUnsignedLongLong(number);
        Py_DECREF(number);
        if (value != (unsigned long long)-1 || PyErr_Occurred() == NULL) {
            *out = value;
            return 0;
        }
    }
    PyErr_Format(PyExc_ValueError, "descriptor %zu: %s does not fit 64 bits without a sign: %R", index, field,
                 item);
    return -1;
}

static int tuple_wrong(enum list_kind kind, bool is_tuple) {
    if (!is_tuple) {
        PyErr_SetString(PyExc_TypeError, "Each descriptor must be a tuple when provided as a list");
    } else if (kind == LIST_REMOTE) {
        PyErr_SetString(PyExc_ValueError, "Each descriptor must be (addr, len, dev_id, agent_name)");
    } else {
        PyErr_Format(PyExc_ValueError, "Each descriptor tuple must have exactly %d elements",
                     kind == LIST_XFER ? 3 : 4);
    }
    return -1;
}

/* The fourth element: metadata (bytes or str) or an agent's name, as a block of its own; NULL when empty. */
static int tuple_text(PyObject *item, enum list_kind kind, size_t index, void **out, size_t *len) {
    struct bytes_arg bytes;

    *out = NULL;
    *len = 0;
    if (item == Py_None || bytes_arg_begin(&bytes, item, kind == LIST_REG ? "metadata" : "agent name") != 0) {
        if (item == Py_None) {
            PyErr_Format(PyExc_TypeError, "descriptor %zu: the fourth element must be str or bytes, not None",
                         index);
        }
        return -1;
    }
    if (kind == LIST_REMOTE && memchr(bytes.data, '\0', bytes.len) != NULL) {
        bytes_arg_end(&bytes);
        PyErr_Format(PyExc_ValueError, "descriptor %zu: the agent name contains a NUL character", index);
        return -1;
    }
    if (bytes.len > 0 &&
        !(kind == LIST_REMOTE && bytes.len == 10 && memcmp(bytes.data, "NULL_AGENT", 10) == 0)) {
        char *copy = malloc(bytes.len + 1);

        if (copy == NULL) {
            bytes_arg_end(&bytes);
            PyErr_NoMemory();
            return -1;
        }
        memcpy(copy, bytes.data, bytes.len);
        copy[bytes.len] = '\0';
        *out = copy;
        *len = bytes.len;
    }
    bytes_arg_end(&bytes);
    return 0;
}

static int tuple_to_row(enum list_kind kind, PyObject *tuple, size_t index, void *row) {
    struct nixl_desc head;
    void *text = NULL;
    size_t text_len = 0;

    if (!PyTuple_Check(tuple)) {
        return tuple_wrong(kind, false);
    }
    if (PyTuple_Size(tuple) != (kind == LIST_XFER ? 3 : 4)) {
        return tuple_wrong(kind, true);
    }
    if (tuple_number(PyTuple_GetItem(tuple, 0), index, "addr", &head.addr) != 0 ||
        tuple_number(PyTuple_GetItem(tuple, 1), index, "len", &head.len) != 0 ||
        tuple_number(PyTuple_GetItem(tuple, 2), index, "dev", &head.dev) != 0 ||
        (kind != LIST_XFER && tuple_text(PyTuple_GetItem(tuple, 3), kind, index, &text, &text_len) != 0)) {
        return -1;
    }
    if (kind == LIST_XFER) {
        *(struct nixl_desc *)row = head;
    } else if (kind == LIST_REG) {
        *(struct nixl_meta_desc *)row =
            (struct nixl_meta_desc){head.addr, head.len, head.dev, text, text_len};
    } else {
        *(struct nixl_remote_desc *)row = (struct nixl_remote_desc){head.addr, head.len, head.dev, text};
    }
    return 0;
}

int dlist_append_tuple(struct dlist *list, PyObject *tuple, size_t index) {
    union {
        struct nixl_desc plain;
        struct nixl_meta_desc meta;
        struct nixl_remote_desc remote;
    } row;

    if (tuple_to_row(list->kind, tuple, index, &row) != 0) {
        return -1;
    }
    /* Converting it may have run Python code that changed the list, or let another thread begin to read it. */
    if (dlist_change_begin(list) != 0 || dlist_reserve(list, 1) != 0) {
        if (list->kind != LIST_XFER) {
            free(list->kind == LIST_REG ? (void *)row.meta.meta : (void *)row.remote.agent);
        }
        return -1;
    }
    memcpy((char *)list->rows + list->count * form_row_bytes(list->form), &row, form_row_bytes(list->form));
    list->count++;
    return 0;
}

int dlist_fill_tuples(struct dlist *list, PyObject *sequence) {
    Py_ssize_t n = PyList_Size(sequence);

    if (n < 0 || dlist_reserve(list, (size_t)n) != 0) {
        return -1;
    }
    /* Converting an element may run Python code that shortens the list: its size is asked each time. */
    for (Py_ssize_t i = 0; i < PyList_Size(sequence); i++) {
        PyObject *item = PyList_GetItem(sequence, i);

        if (list->form == NIXL_FORM_PLAIN && Py_TYPE(item) == &PyTuple_Type && list->pins == 0 &&
            list->count < list->capacity && PyTuple_Size(item) == 3) {
            /* The way nearly all take: three exact ints. No Python code can run in it. */
            PyObject *a = PyTuple_GetItem(item, 0), *b = PyTuple_GetItem(item, 1),
                     *c = PyTuple_GetItem(item, 2);
            struct nixl_desc *row = &((struct nixl_desc *)list->rows)[list->count];

            if (Py_TYPE(a) == &PyLong_Type && Py_TYPE(b) == &PyLong_Type && Py_TYPE(c) == &PyLong_Type) {
                row->addr = PyLong_AsUnsignedLongLong(a);
                row->len = PyLong_AsUnsignedLongLong(b);
                row->dev = PyLong_AsUnsignedLongLong(c);
                if (row->addr != UINT64_MAX && row->len != UINT64_MAX && row->dev != UINT64_MAX) {
                    list->count++;
                    continue;
                }
                PyErr_Clear();
            }
        }
        Py_INCREF(item);
        if (dlist_append_tuple(list, item, (size_t)i) != 0) {
            Py_DECREF(item);
            return -1;
        }
        Py_DECREF(item);
    }
    return 0;
}

bool strided_count_fits(uint64_t count, size_t row, uint64_t *total) {
    const uint64_t most = SIZE_MAX / sizeof(struct nixl_desc) / 2;

    if (count <= most && *total <= most - count) {
        *total += count;
        return true;
    }
    PyErr_Format(PyExc_ValueError, "strided row %zu: count is too large", row);
    return false;
}

static int tuple_to_strided(PyObject *item, size_t index, struct nixl_strided_desc *row) {
    if (!PyTuple_Check(item) || PyTuple_Size(item) != 5) {
        PyErr_SetString(PyExc_ValueError,
                        "Each strided row must be a tuple (addr, len, dev_id, stride, count)");
        return -1;
    }
    return tuple_number(PyTuple_GetItem(item, 0), index, "addr", &row->addr) != 0 ||
                   tuple_number(PyTuple_GetItem(item, 1), index, "len", &row->len) != 0 ||
                   tuple_number(PyTuple_GetItem(item, 2), index, "dev", &row->dev) != 0 ||
                   tuple_number(PyTuple_GetItem(item, 3), index, "stride", &row->stride) != 0 ||
                   tuple_number(PyTuple_GetItem(item, 4), index, "count", &row->count) != 0
               ? -1
               : 0;
}

/* Rows are gathered apart from the list: what converts them may run Python code that changes it. */
int dlist_fill_strided(struct dlist *list, PyObject *sequence) {
    PyObject *items = PySequence_List(sequence);
    Py_ssize_t n = items != NULL ? PyList_Size(items) : -1;
    struct nixl_strided_desc *rows = n >= 0 ? malloc(((size_t)n + 1) * sizeof *rows) : NULL;
    size_t count = 0;
    uint64_t blocks = 0;

    if (rows == NULL) {
        Py_XDECREF(items);
        if (n >= 0) {
            PyErr_NoMemory();
        }
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (tuple_to_strided(PyList_GetItem(items, i), (size_t)i, &rows[count]) != 0 ||
            !strided_count_fits(rows[count].count, (size_t)i, &blocks)) {
            break;
        }
        count += rows[count].count > 0;
    }
    Py_DECREF(items);
    if (PyErr_Occurred() != NULL || dlist_change_begin(list) != 0) {
        free(rows);
        return -1;
    }
    dlist_clear(list);
    list->form = NIXL_FORM_STRIDED;
    list->rows = rows;
    list->count = count;
    list->capacity = (size_t)n + 1;
    return 0;
}

int tuple_block(PyObject *tuple, struct nixl_desc *block) {
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) < 3) {
        return tuple_wrong(LIST_XFER, PyTuple_Check(tuple) != 0);
    }
    return tuple_number(PyTuple_GetItem(tuple, 0), 0, "addr", &block->addr) != 0 ||
                   tuple_number(PyTuple_GetItem(tuple, 1), 0, "len", &block->len) != 0 ||
                   tuple_number(PyTuple_GetItem(tuple, 2), 0, "dev", &block->dev) != 0
               ? -1
               : 0;
}
