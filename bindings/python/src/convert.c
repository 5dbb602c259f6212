/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program may give where descriptors are wanted: a list object, an N x 3 or (strided rows) N x 5 array of int64 or
 * uint64, read in place through the buffer protocol, a list of tuples, a tensor, a list of tensors. And indices of
 * prepared lists.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

/* The letter of a native little-endian number in a buffer's format, 0 for anything else. */
static char number_letter(const Py_buffer *view) {
    const char *format = view->format != NULL ? view->format : "B";

    if (*format == '@' || *format == '=' || *format == '<' || *format == '|') {
        format++;
    }
    return format[0] != '\0' && format[1] == '\0' ? format[0] : '\0';
}

/* Opens an array of 8-byte integers: N x 3, or for a transfer list N x 5, rows (addr, len, dev, stride, count).
 * 1: another shape; -1: ValueError or what the object raised. */
static int array_begin(enum list_kind kind, PyObject *array, Py_buffer *view) {
    char letter;

    if (PyObject_GetBuffer(array, view, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
        return -1;
    }
    if (view->ndim != 2 || (view->shape[1] != 3 && (view->shape[1] != 5 || kind != LIST_XFER))) {
        PyBuffer_Release(view);
        return 1;
    }
    letter = number_letter(view);
    if (view->itemsize != 8 || letter == '\0' || strchr("lLqQnN", letter) == NULL) {
        PyErr_SetString(PyExc_ValueError, "descs must be a Nx3 numpy array of uint64 or int64");
    } else if (view->shape[0] > 0 && !PyBuffer_IsContiguous(view, 'C')) {
        PyErr_SetString(PyExc_ValueError, "descs must be a C-contiguous numpy array");
    } else {
        return 0;
    }
    PyBuffer_Release(view);
    return -1;
}

/* Of an open array; an empty one has no rows to be strided. */
static uint32_t array_form(const Py_buffer *view) {
    return view->shape[1] == 5 && view->shape[0] > 0 ? NIXL_FORM_STRIDED : NIXL_FORM_PLAIN;
}

/* Rows that do not lie where C wants them cannot be read in place. */
static bool is_unaligned(const Py_buffer *view) {
    return (uintptr_t)view->buf % 8 != 0;
}

static bool has_empty_row(const Py_buffer *view) {
    const struct nixl_strided_desc *rows = view->buf;
    bool found = false;

    for (Py_ssize_t i = 0; i < view->shape[0]; i++) {
        found |= rows[i].count == 0;
    }
    return found;
}

/* As of rows given as tuples: those that stand for no block are left out. */
static int fill_strided(struct dlist *list, const char *from, size_t n) {
    struct nixl_strided_desc *rows;
    uint64_t blocks = 0;

    list->form = NIXL_FORM_STRIDED;
    if (dlist_reserve(list, n) != 0) {
        return -1;
    }
    rows = list->rows;
    for (size_t i = 0; i < n; i++) {
        struct nixl_strided_desc row;

        memcpy(&row, from + i * sizeof row, sizeof row);
        if (!strided_count_fits(row.count, i, &blocks)) {
            return -1;
        }
        if (row.count > 0) {
            rows[list->count++] = row;
        }
    }
    return 0;
}

int dlist_fill_array(struct dlist *list, PyObject *array) {
    Py_buffer view;
    int rc = array_begin(list->kind, array, &view);
    size_t n;

    if (rc != 0) {
        if (rc > 0) {
            PyErr_SetString(PyExc_ValueError, "descs must be a Nx3 numpy array");
        }
        return -1;
    }
    if (dlist_change_begin(list) != 0) { /* opening an array may run Python code */
        PyBuffer_Release(&view);
        return -1;
    }
    dlist_clear(list);
    n = (size_t)view.shape[0];
    if (array_form(&view) == NIXL_FORM_STRIDED) {
        rc = fill_strided(list, view.buf, n);
        PyBuffer_Release(&view);
        return rc;
    }
    rc = dlist_reserve(list, n);
    if (rc == 0 && list->kind == LIST_XFER && n > 0) {
        memcpy(list->rows, view.buf, n * sizeof(struct nixl_desc));
        list->count = n;
    } else if (rc == 0 && n > 0) {
        const char *from = view.buf;
        struct nixl_meta_desc *rows = list->rows;

        for (size_t i = 0; i < n; i++) {
            struct nixl_desc row;

            memcpy(&row, from + i * sizeof row, sizeof row);
            rows[i] = (struct nixl_meta_desc){row.addr, row.len, row.dev, NULL, 0};
        }
        list->count = n;
    }
    PyBuffer_Release(&view);
    return rc;
}

/* ---- tensors ---- */

static int tensor_append(struct dlist *list, const struct tensor *tensor) {
    if (dlist_reserve(list, 1) != 0) {
        return -1;
    }
    if (list->kind == LIST_XFER) {
        ((struct nixl_desc *)list->rows)[list->count++] =
            (struct nixl_desc){tensor->addr, tensor->len, tensor->dev};
    } else {
        ((struct nixl_meta_desc *)list->rows)[list->count++] =
            (struct nixl_meta_desc){tensor->addr, tensor->len, tensor->dev, NULL, 0};
    }
    return 0;
}

static enum source_result tensors_to_list(struct dlist *list, PyObject *object, bool alone,
                                          const char **why) {
    Py_ssize_t n = alone ? 1 : PyList_Size(object);
    struct tensor tensor;

    for (Py_ssize_t i = 0; i < (alone ? 1 : PyList_Size(object)); i++) {
        PyObject *item = Py_NewRef(alone ? object : PyList_GetItem(object, i));
        int rc = tensor_read(item, &tensor, false);

        Py_DECREF(item);
        if (rc < 0) {
            return SOURCE_ERROR;
        }
        if (rc == 0) {
            *why = "a list of tensors must hold tensors only";
            return SOURCE_WRONG_FORM;
        }
        if (!tensor.contiguous) {
            *why = "tensors must be contiguous";
            return SOURCE_WRONG_FORM;
        }
        if (i > 0 && tensor.mem != list->mem) {
            *why = "tensors of one list must be of one kind of memory";
            return SOURCE_WRONG_FORM;
        }
        list->mem = tensor.mem;
        if ((i == 0 && dlist_reserve(list, (size_t)n) != 0) || tensor_append(list, &tensor) != 0) {
            return SOURCE_ERROR;
        }
    }
    return SOURCE_OK;
}

/* ---- sources ---- */

static void source_describe(struct source *source) {
    const struct dlist *list = source->owner;

    source->list = (struct nixl_list){sizeof source->list, list->mem, list->form, list->rows, 0, list->count};
}

static enum source_result source_pin(struct source *source, PyObject *object, bool new_reference) {
    source->owner = (struct dlist *)(new_reference ? object : Py_NewRef(object));
    source->owner->pins++;
    source_describe(source);
    return SOURCE_OK;
}

static bool mem_given(PyObject *mem) {
    return mem != NULL && mem != Py_None;
}

static const char no_mem_kind[] = "a memory kind (mem_type) must be given unless the descriptors are tensors";

/* Wrong kinds of list objects get the hint that helps. */
static const char *other_list(enum list_kind kind, PyObject *descs) {
    for (int other = LIST_XFER; other <= LIST_REMOTE; other++) {
        if (other != (int)kind && dlist_is(descs, (enum list_kind)other)) {
            return kind == LIST_XFER  ? "a transfer takes a nixlXferDList: use trim() of this list"
                   : kind == LIST_REG ? "registration takes a nixlRegDList (get_reg_descs)"
                                      : "a nixlRemoteDList is wanted (get_remote_descs)";
        }
    }
    return NULL;
}

/* A list made for the call from tuples or tensors; NULL with *result and perhaps *why. */
static struct dlist *sequence_to_list(enum list_kind kind, PyObject *sequence, PyObject *mem,
                                      enum source_result *result, const char **why) {
    PyObject *first = PyList_GetItem(sequence, 0);
    nixl_mem_t mem_kind = DRAM_SEG;
    struct dlist *list = NULL;
    bool is_strided, is_tensors = false;

    *result = SOURCE_ERROR;
    if (first == NULL) {
        return NULL; /* IndexError, as the reference answers an empty list */
    }
    if (!PyTuple_Check(first) && kind != LIST_REMOTE) {
        Py_INCREF(first); /* asking it runs its code, which may drop it from the list */
        is_tensors = tensor_like(first);
        Py_DECREF(first);
        first = NULL;
    }
    if (first != NULL && PyTuple_Check(first)) {
        if (!mem_given(mem)) {
            *why = no_mem_kind;
            *result = SOURCE_WRONG_FORM;
            return NULL;
        }
        is_strided = kind == LIST_XFER && PyTuple_Size(first) == 5;
        if (!is_strided && PyTuple_Size(first) != (kind == LIST_XFER ? 3 : 4)) {
            *why = kind == LIST_XFER
                       ? "transfer descriptors are tuples of 3: addr, len, dev, or of 5: addr, len, dev, "
                         "stride, count"
                   : kind == LIST_REG ? "registration descriptors are tuples of 4: addr, len, dev, metadata"
                                      : "remote descriptors are tuples of 4: addr, len, dev, agent";
            *result = SOURCE_WRONG_FORM;
            return NULL;
        }
        if (arg_mem(mem, &mem_kind) != 0) {
            return NULL;
        }
        list = dlist_new(kind, mem_kind);
        if (list != NULL &&
            (is_strided ? dlist_fill_strided(list, sequence) : dlist_fill_tuples(list, sequence)) == 0) {
            *result = SOURCE_OK;
        }
    } else if (is_tensors) {
        list = dlist_new(kind, DRAM_SEG);
        *result = list != NULL ? tensors_to_list(list, sequence, false, why) : SOURCE_ERROR;
    } else {
        *why = "descriptors are a list object, a list of tuples, an N x 3 or N x 5 array, a tensor or a list "
               "of tensors";
        *result = SOURCE_WRONG_FORM;
    }
    if (*result != SOURCE_OK) {
        Py_XDECREF((PyObject *)list);
        list = NULL;
    }
    return list;
}

/* All forms but list objects and arrays read in place. */
static struct dlist *object_to_list(enum list_kind kind, PyObject *descs, PyObject *mem,
                                    enum source_result *result, const char **why) {
    struct dlist *list = NULL;

    *result = SOURCE_ERROR;
    if (PyList_Check(descs)) {
        return sequence_to_list(kind, descs, mem, result, why);
    }
    if (PyTuple_Check(descs)) {
        PyObject *sequence = PySequence_List(descs);

        if (sequence != NULL) {
            list = sequence_to_list(kind, sequence, mem, result, why);
            Py_DECREF(sequence);
        }
        return list;
    }
    if (descs == Py_None) {
        PyErr_SetString(PyExc_TypeError,
                        "descriptors are None: an earlier call refused their form (see the log)");
        return NULL;
    }
    *result = SOURCE_WRONG_FORM;
    *why = other_list(kind, descs);
    if (*why == NULL && kind != LIST_REMOTE && tensor_like(descs)) {
        list = dlist_new(kind, DRAM_SEG);
        *result = list != NULL ? tensors_to_list(list, descs, true, why) : SOURCE_ERROR;
        if (*result != SOURCE_OK) {
            Py_XDECREF((PyObject *)list);
            list = NULL;
        }
    } else if (*why == NULL) {
        *why = "descriptors are a list object, a list of tuples, an N x 3 or N x 5 array, a tensor or a list "
               "of tensors";
    }
    return list;
}

/* An array of descriptors: 0 opened, 1 wrong form, -1 exception. */
static enum source_result array_open(enum list_kind kind, PyObject *descs, PyObject *mem, Py_buffer *view,
                                     nixl_mem_t *mem_kind, const char **why) {
    int rc;

    if (!mem_given(mem)) {
        *why = no_mem_kind;
        return SOURCE_WRONG_FORM;
    }
    rc = array_begin(kind, descs, view);
    if (rc > 0) {
        *why = kind == LIST_XFER
                   ? "an array of descriptors must have the shape N x 3, or N x 5 for strided rows"
                   : "an array of descriptors must have the shape N x 3";
        return SOURCE_WRONG_FORM;
    }
    if (rc == 0 && arg_mem(mem, mem_kind) != 0) {
        PyBuffer_Release(view);
        rc = -1;
    }
    return rc == 0 ? SOURCE_OK : SOURCE_ERROR;
}

static bool is_array(enum list_kind kind, PyObject *descs) {
    return kind != LIST_REMOTE && !PyList_Check(descs) && PyObject_CheckBuffer(descs);
}

enum source_result source_begin(struct source *source, enum list_kind kind, PyObject *descs, PyObject *mem,
                                const char **why) {
    enum source_result result;
    struct dlist *list;

    *source = (struct source){.list = {.size = sizeof source->list}};
    *why = NULL;
    if (dlist_is(descs, kind)) {
        return source_pin(source, descs, false);
    }
    if (is_array(kind, descs)) {
        result = array_open(kind, descs, mem, &source->view, &source->list.mem, why);
        if (result == SOURCE_OK &&
            (is_unaligned(&source->view) ||
             (array_form(&source->view) == NIXL_FORM_STRIDED && has_empty_row(&source->view)))) {
            PyBuffer_Release(&source->view);
            list = (struct dlist *)source_to_list(kind, descs, mem, &result, why);
            return list != NULL ? source_pin(source, (PyObject *)list, true) : result;
        }
        if (result == SOURCE_OK) {
            source->has_view = true;
            source->list.form = array_form(&source->view);
            source->list.items = source->view.buf;
            source->list.count = (size_t)source->view.shape[0];
        }
        return result;
    }
    list = object_to_list(kind, descs, mem, &result, why);
    return list != NULL ? source_pin(source, (PyObject *)list, true) : result;
}

int source_begin_strict(struct source *source, enum list_kind kind, PyObject *descs, PyObject *mem) {
    const char *why;
    enum source_result result = source_begin(source, kind, descs, mem, &why);

    if (result == SOURCE_WRONG_FORM) {
        PyErr_SetString(PyExc_TypeError, why);
    }
    return result == SOURCE_OK ? 0 : -1;
}

void source_end(struct source *source) {
    if (source->has_view) {
        PyBuffer_Release(&source->view);
        source->has_view = false;
    }
    if (source->owner != NULL) {
        source->owner->pins--;
        Py_DECREF((PyObject *)source->owner);
        source->owner = NULL;
    }
}

PyObject *source_to_list(enum list_kind kind, PyObject *descs, PyObject *mem, enum source_result *result,
                         const char **why) {
    struct dlist *list;
    nixl_mem_t mem_kind;
    Py_buffer view;

    *why = NULL;
    if (dlist_is(descs, kind)) {
        *result = SOURCE_OK;
        return Py_NewRef(descs);
    }
    if (!is_array(kind, descs)) {
        return (PyObject *)object_to_list(kind, descs, mem, result, why);
    }
    *result = array_open(kind, descs, mem, &view, &mem_kind, why);
    if (*result != SOURCE_OK) {
        return NULL;
    }
    PyBuffer_Release(&view);
    list = dlist_new(kind, mem_kind);
    if (list == NULL || dlist_fill_array(list, descs) != 0) {
        *result = SOURCE_ERROR;
        Py_XDECREF((PyObject *)list);
        return NULL;
    }
    return (PyObject *)list;
}

/* ---- indices ---- */

/* Copies a column of numbers of one C type; a number that does not fit int32 becomes INT32_MIN, which no list has. */
#define COLUMN(type)                                                                                         \
    for (size_t i = 0; i < n; i++, at += stride) {                                                           \
        type value;                                                                                          \
        memcpy(&value, at, sizeof value);                                                                    \
        out[i] = (int32_t)value;                                                                             \
        bad |= (type)out[i] != value || out[i] < 0;                                                          \
    }                                                                                                        \
    break

static int column_read(const Py_buffer *view, int32_t *out) {
    const char *at = view->buf;
    size_t n = (size_t)view->shape[0];
    Py_ssize_t stride = view->strides != NULL ? view->strides[0] : view->itemsize;
    int bad = 0;

    if (view->itemsize == 8 && stride == 8 && (uintptr_t)at % 8 == 0 && number_letter(view) != '\0' &&
        strchr("lqn", number_letter(view)) != NULL) {
        /* The usual array: a loop that the compiler turns into vectors. */
        const int64_t *from = (const int64_t *)(const void *)at;
        uint64_t high = 0;

        for (size_t i = 0; i < n; i++) {
            high |= (uint64_t)from[i];
            out[i] = (int32_t)from[i];
        }
        return high > INT32_MAX;
    }
    switch (number_letter(view)) {
    case 'b':
        COLUMN(signed char);
    case 'B':
        COLUMN(unsigned char);
    case 'h':
        COLUMN(short);
    case 'H':
        COLUMN(unsigned short);
    case 'i':
        COLUMN(int);
    case 'I':
        COLUMN(unsigned);
    case 'l':
    case 'q':
    case 'n':
        if (view->itemsize == 4) {
            COLUMN(int32_t);
        }
        COLUMN(int64_t);
    case 'L':
    case 'Q':
    case 'N':
        if (view->itemsize == 4) {
            COLUMN(uint32_t);
        }
        COLUMN(uint64_t);
    default:
        PyErr_Format(PyExc_TypeError, "indices must be integers, not an array of format '%s'",
                     view->format != NULL ? view->format : "B");
        return -1;
    }
    return bad;
}

static int *scratch_make(size_t n) {
    int *scratch = n < SIZE_MAX / sizeof *scratch ? malloc((n + 1) * sizeof *scratch) : NULL;

    if (scratch == NULL) {
        PyErr_NoMemory();
    }
    return scratch;
}

static int indices_range(void) {
    raise_words(NIXL_ERR_INVALID_PARAM, "an index is negative or above 2147483647", NIXL_NO_INDEX, NULL);
    return -1;
}

static int indices_array(struct indices *indices, PyObject *object) {
    Py_buffer *view = &indices->view;
    int rc;

    if (PyObject_GetBuffer(object, view, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
        return -1;
    }
    indices->has_view = true;
    if (view->ndim != 1) {
        PyErr_SetString(PyExc_ValueError, "indices numpy array must be 1D");
        return -1;
    }
    indices->count = (size_t)view->shape[0];
    if (view->itemsize == 4 && number_letter(view) != '\0' && strchr("il", number_letter(view)) != NULL &&
        PyBuffer_IsContiguous(view, 'C') && (uintptr_t)view->buf % 4 == 0) {
        indices->at = view->buf;
        return 0;
    }
    indices->scratch = scratch_make(indices->count);
    if (indices->scratch == NULL) {
        return -1;
    }
    indices->at = indices->scratch;
    rc = indices->count > 0 ? column_read(view, indices->scratch) : 0;
    return rc > 0 ? indices_range() : rc;
}

static int indices_list(struct indices *indices, PyObject *list) {
    size_t n = (size_t)PyList_Size(list);

    indices->count = n;
    indices->scratch = scratch_make(n);
    indices->at = indices->scratch;
    if (indices->scratch == NULL) {
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        PyObject *item =
            PyList_GetItem(list, (Py_ssize_t)i); /* IndexError when __index__ shortened the list */
        long value;

        if (item == NULL) {
            return -1;
        }
        if (Py_TYPE(item) == &PyLong_Type) {
            value = PyLong_AsLong(item);
        } else {
            PyObject *number = PyNumber_Index(item);

            if (number == NULL) {
                return -1;
            }
            value = PyLong_AsLong(number);
            Py_DECREF(number);
        }
        if (value < 0 || value > INT32_MAX) {
            PyErr_Clear();
            raise_words(NIXL_ERR_INVALID_PARAM, "an index is negative or above 2147483647", i, NULL);
            return -1;
        }
        indices->scratch[i] = (int32_t)value;
    }
    return 0;
}

int indices_begin(struct indices *indices, PyObject *object) {
    PyObject *list;
    int rc;

    *indices = (struct indices){0};
    if (object == Py_None) {
        return 0;
    }
    if (PyList_Check(object)) {
        return indices_list(indices, object);
    }
    if (PyObject_CheckBuffer(object)) {
        return indices_array(indices, object);
    }
    list = PySequence_List(object);
    if (list == NULL) {
        return -1;
    }
    rc = indices_list(indices, list);
    Py_DECREF(list);
    return rc;
}

void indices_end(struct indices *indices) {
    free(indices->scratch);
    indices->scratch = NULL;
    if (indices->has_view) {
        PyBuffer_Release(&indices->view);
        indices->has_view = false;
    }
}
