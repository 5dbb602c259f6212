/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptor lists of Python: nixlXferDList (addr, len, dev), nixlRegDList (with metadata) and nixlRemoteDList
 * (with the agent's name). Rows lie as <nixl/nixl.h> wants them, so a call passes them on without copying. A
 * transfer list can be strided: it counts, indexes and compares block by block all the same, and becomes plain
 * when one block is changed.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

static PyObject *types[3];
static const char *const type_names[] = {"nixlXferDList", "nixlRegDList", "nixlRemoteDList"};

PyObject *dlist_type(enum list_kind kind) {
    return types[kind];
}

bool dlist_is(PyObject *object, enum list_kind kind) {
    return PyObject_TypeCheck(object, (PyTypeObject *)types[kind]) != 0;
}

size_t form_row_bytes(uint32_t form) {
    static const size_t bytes[] = {sizeof(struct nixl_desc), sizeof(struct nixl_strided_desc),
                                   sizeof(struct nixl_meta_desc), sizeof(struct nixl_remote_desc)};
    return bytes[form];
}

static uint32_t kind_form(enum list_kind kind) {
    return kind == LIST_XFER ? NIXL_FORM_PLAIN : kind == LIST_REG ? NIXL_FORM_META : NIXL_FORM_REMOTE;
}

/* Every row begins with addr, len, dev. */
static struct nixl_desc *row_at(const struct dlist *list, size_t i) {
    return (struct nixl_desc *)((char *)list->rows + i * form_row_bytes(list->form));
}

struct dlist *dlist_new(enum list_kind kind, nixl_mem_t mem) {
    PyObject *made = PyObject_CallFunction(types[kind], NULL);
    struct dlist *list = (struct dlist *)made;

    if (list != NULL) {
        list->mem = mem;
    }
    return list;
}

size_t dlist_blocks(const struct dlist *list) {
    const struct nixl_strided_desc *rows = list->rows;
    size_t blocks = 0;

    if (list->form != NIXL_FORM_STRIDED) {
        return list->count;
    }
    for (size_t i = 0; i < list->count; i++) {
        blocks += rows[i].count;
    }
    return blocks;
}

/* The block at an index: a copy, for strided rows computed. */
static bool block_at(const struct dlist *list, size_t index, struct nixl_desc *block) {
    const struct nixl_strided_desc *rows = list->rows;

    if (list->form != NIXL_FORM_STRIDED) {
        if (index < list->count) {
            *block = *row_at(list, index);
            return true;
        }
        return false;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (index < rows[i].count) {
            *block = (struct nixl_desc){rows[i].addr + index * rows[i].stride, rows[i].len, rows[i].dev};
            return true;
        }
        index -= rows[i].count;
    }
    return false;
}

static void row_free(struct dlist *list, size_t i) {
    if (list->form == NIXL_FORM_META) {
        free((void *)((struct nixl_meta_desc *)list->rows)[i].meta);
    } else if (list->form == NIXL_FORM_REMOTE) {
        free((void *)((struct nixl_remote_desc *)list->rows)[i].agent);
    }
}

void dlist_clear(struct dlist *list) {
    for (size_t i = 0; i < list->count && list->form >= NIXL_FORM_META; i++) {
        row_free(list, i);
    }
    free(list->rows);
    list->rows = NULL;
    list->count = list->capacity = 0;
    list->form = kind_form(list->kind);
}

int dlist_reserve(struct dlist *list, size_t extra) {
    size_t bytes = form_row_bytes(list->form), capacity = list->count + extra;
    void *rows;

    if (capacity < extra || capacity > SIZE_MAX / bytes / 2) {
        PyErr_NoMemory();
        return -1;
    }
    if (capacity <= list->capacity) {
        return 0;
    }
    if (extra == 1 && capacity < list->capacity * 2) {
        capacity = list->capacity * 2;
    }
    rows = realloc(list->rows, capacity * bytes);
    if (rows == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    list->rows = rows;
    list->capacity = capacity;
    return 0;
}

int dlist_change_begin(struct dlist *list) {
    struct nixl_desc *rows;
    size_t blocks;

    if (list->pins > 0) {
        PyErr_SetString(PyExc_BufferError,
                        "the list is in use by a call of another thread and cannot be changed now");
        return -1;
    }
    if (list->form != NIXL_FORM_STRIDED) {
        return 0;
    }
    blocks = dlist_blocks(list);
    rows = blocks < SIZE_MAX / sizeof *rows ? malloc((blocks + 1) * sizeof *rows) : NULL;
    if (rows == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0, n = 0; i < list->count; i++) {
        const struct nixl_strided_desc *row = &((struct nixl_strided_desc *)list->rows)[i];

        for (uint64_t k = 0; k < row->count; k++) {
            rows[n++] = (struct nixl_desc){row->addr + k * row->stride, row->len, row->dev};
        }
    }
    free(list->rows);
    list->rows = rows;
    list->form = NIXL_FORM_PLAIN;
    list->count = blocks;
    list->capacity = blocks + 1;
    return 0;
}

static PyObject *row_to_tuple(const struct dlist *list, size_t i) {
    struct nixl_desc block;

    if (!block_at(list, i, &block)) {
        PyErr_SetString(PyExc_IndexError, "Index is out of range");
        return NULL;
    }
    if (list->form == NIXL_FORM_META) {
        const struct nixl_meta_desc *row = &((struct nixl_meta_desc *)list->rows)[i];

        return Py_BuildValue("(KKKy#)", (unsigned long long)row->addr, (unsigned long long)row->len,
                             (unsigned long long)row->dev, row->meta != NULL ? (const char *)row->meta : "",
                             (Py_ssize_t)row->meta_len);
    }
    if (list->form == NIXL_FORM_REMOTE) {
        const struct nixl_remote_desc *row = &((struct nixl_remote_desc *)list->rows)[i];

        return Py_BuildValue("(KKKs)", (unsigned long long)row->addr, (unsigned long long)row->len,
                             (unsigned long long)row->dev, row->agent != NULL ? row->agent : "NULL_AGENT");
    }
    return Py_BuildValue("(KKK)", (unsigned long long)block.addr, (unsigned long long)block.len,
                         (unsigned long long)block.dev);
}

struct dlist *dlist_trim(const struct dlist *list) {
    struct dlist *plain = dlist_new(LIST_XFER, list->mem);

    if (plain == NULL || dlist_reserve(plain, list->count) != 0) {
        Py_XDECREF((PyObject *)plain);
        return NULL;
    }
    for (size_t i = 0; i < list->count; i++) {
        ((struct nixl_desc *)plain->rows)[i] = *row_at(list, i);
    }
    plain->count = list->count;
    return plain;
}

/* ---- the types ---- */

static int list_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    static struct signature sig = {
        .name = "nixlDList", .params = {"type", "descs", "init_size", "strided"}, .required = 0};
    struct dlist *list = (struct dlist *)self;
    PyObject *v[ARGS_MAX], *descs;
    uint64_t empty = 0;

    if (args_parse_tuple(&sig, args, kwargs, v) != 0 || dlist_change_begin(list) != 0) {
        return -1;
    }
    dlist_clear(list);
    /* Without arguments: what pickle calls before it sets the state. */
    if (v[0] == NULL) {
        return 0;
    }
    if (!PyLong_Check(v[0])) {
        PyErr_Format(PyExc_TypeError, "type must be a nixl_mem_t, not %R", v[0]);
        return -1;
    }
    if (arg_mem(v[0], &list->mem) != 0) {
        return -1;
    }
    descs = v[1];
    if (descs != NULL && PyLong_Check(descs)) {
        v[2] = descs;
        descs = NULL;
    }
    if (v[3] != NULL && v[3] != Py_None) {
        if (list->kind != LIST_XFER) {
            PyErr_SetString(PyExc_TypeError, "only a nixlXferDList can be strided");
            return -1;
        }
        return dlist_fill_strided(list, v[3]);
    }
    if (descs == NULL || descs == Py_None) {
        if (arg_u64(v[2], "init_size", &empty) != 0 || dlist_reserve(list, empty) != 0) {
            return -1;
        }
        if (empty > 0) {
            memset(list->rows, 0, empty * form_row_bytes(list->form));
        }
        list->count = empty;
        return 0;
    }
    if (PyList_Check(descs)) {
        return dlist_fill_tuples(list, descs);
    }
    if (PyObject_CheckBuffer(descs) && list->kind != LIST_REMOTE) {
        return dlist_fill_array(list, descs);
    }
    PyErr_Format(PyExc_TypeError, "descs must be a list of tuples or an N x 3 array, not %R", descs);
    return -1;
}

static PyObject *list_alloc(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct dlist *list = (struct dlist *)alloc(type, 0);

    (void)args;
    (void)kwargs;
    if (list != NULL) {
        list->kind = PyType_IsSubtype(type, (PyTypeObject *)types[LIST_REG])      ? LIST_REG
                     : PyType_IsSubtype(type, (PyTypeObject *)types[LIST_REMOTE]) ? LIST_REMOTE
                                                                                  : LIST_XFER;
        list->form = kind_form(list->kind);
    }
    return (PyObject *)list;
}

static void list_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);

    dlist_clear((struct dlist *)self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static Py_ssize_t list_length(PyObject *self) {
    return (Py_ssize_t)dlist_blocks((struct dlist *)self);
}

/* An empty list is true, as in the reference: programs ask `if not descs` for failure. */
static int list_truth(PyObject *self) {
    (void)self;
    return 1;
}

static PyObject *list_item(PyObject *self, Py_ssize_t i) {
    if (i < 0) {
        PyErr_SetString(PyExc_IndexError, "Index is out of range");
        return NULL;
    }
    return row_to_tuple((struct dlist *)self, (size_t)i);
}

static int list_set_item(PyObject *self, Py_ssize_t i, PyObject *value) {
    struct dlist *list = (struct dlist *)self;
    size_t bytes, last;

    if (dlist_change_begin(list) != 0) {
        return -1;
    }
    if (i < 0 || (size_t)i >= list->count) {
        PyErr_SetString(PyExc_IndexError, "Index is out of range");
        return -1;
    }
    bytes = form_row_bytes(list->form);
    if (value != NULL) {
        /* Converted as a new last row first, so that a wrong tuple changes nothing. */
        if (dlist_append_tuple(list, value, (size_t)i) != 0) {
            return -1;
        }
        last = --list->count;
        if ((size_t)i >= last) {
            /* The tuple's own code has shortened the list. */
            row_free(list, last);
            PyErr_SetString(PyExc_IndexError, "Index is out of range");
            return -1;
        }
        row_free(list, (size_t)i);
        memcpy((char *)list->rows + (size_t)i * bytes, (char *)list->rows + last * bytes, bytes);
        return 0;
    }
    row_free(list, (size_t)i);
    list->count--;
    memmove((char *)list->rows + (size_t)i * bytes, (char *)list->rows + ((size_t)i + 1) * bytes,
            (list->count - (size_t)i) * bytes);
    return 0;
}

static bool rows_equal(const struct dlist *a, const struct dlist *b, size_t i) {
    struct nixl_desc x, y;

    if (!block_at(a, i, &x) || !block_at(b, i, &y) || memcmp(&x, &y, sizeof x) != 0) {
        return false;
    }
    if (a->form == NIXL_FORM_REMOTE) {
        const char *p = ((struct nixl_remote_desc *)a->rows)[i].agent,
                   *q = ((struct nixl_remote_desc *)b->rows)[i].agent;

        return p == q || (p != NULL && q != NULL && strcmp(p, q) == 0);
    }
    return true; /* metadata is not compared, as in the reference */
}

static PyObject *list_compare(PyObject *self, PyObject *other, int op) {
    const struct dlist *a = (struct dlist *)self, *b = (struct dlist *)other;
    bool equal;

    if ((op != Py_EQ && op != Py_NE) || !dlist_is(other, a->kind)) {
        return Py_NewRef(Py_NotImplemented);
    }
    equal = a->mem == b->mem && dlist_blocks(a) == dlist_blocks(b);
    if (equal && a->form == NIXL_FORM_PLAIN && b->form == NIXL_FORM_PLAIN) {
        equal = a->count == 0 || memcmp(a->rows, b->rows, a->count * sizeof(struct nixl_desc)) == 0;
    } else if (equal) {
        size_t n = dlist_blocks(a);

        for (size_t i = 0; i < n && equal; i++) {
            equal = rows_equal(a, b, i);
        }
    }
    return PyBool_FromLong(equal == (op == Py_EQ));
}

static PyObject *list_get_type(PyObject *self, PyObject *unused) {
    (void)unused;
    return enum_mem(((struct dlist *)self)->mem);
}

static PyObject *list_desc_count(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromSsize_t(list_length(self));
}

static PyObject *list_is_empty(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(list_length(self) == 0);
}

static PyObject *list_is_strided(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(((struct dlist *)self)->form == NIXL_FORM_STRIDED);
}

static PyObject *list_append(PyObject *self, PyObject *tuple) {
    struct dlist *list = (struct dlist *)self;

    if (dlist_change_begin(list) != 0 || dlist_append_tuple(list, tuple, list->count) != 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *list_remove(PyObject *self, PyObject *index) {
    Py_ssize_t i = PyLong_AsSsize_t(index);

    if ((i == -1 && PyErr_Occurred() != NULL) || list_set_item(self, i, NULL) != 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *list_index(PyObject *self, PyObject *tuple) {
    const struct dlist *list = (struct dlist *)self;
    struct nixl_desc wanted, block;
    size_t n = dlist_blocks(list);

    if (tuple_block(tuple, &wanted) != 0) {
        return NULL;
    }
    for (size_t i = 0; i < n && block_at(list, i, &block); i++) {
        if (memcmp(&block, &wanted, sizeof wanted) == 0) {
            return PyLong_FromSize_t(i);
        }
    }
    return raise_words(NIXL_ERR_NOT_FOUND, "the list has no such descriptor", NIXL_NO_INDEX, NULL);
}

static PyObject *list_clear(PyObject *self, PyObject *unused) {
    (void)unused;
    if (dlist_change_begin((struct dlist *)self) != 0) {
        return NULL;
    }
    dlist_clear((struct dlist *)self);
    Py_RETURN_NONE;
}

static PyObject *list_print(PyObject *self, PyObject *unused) {
    const struct dlist *list = (struct dlist *)self;
    size_t n = dlist_blocks(list);

    (void)unused;
    PySys_FormatStdout("%s of %s, %zu descriptors\n", type_names[list->kind], nixl_mem_string(list->mem), n);
    for (size_t i = 0; i < n; i++) {
        PyObject *tuple = row_to_tuple(list, i);

        if (tuple == NULL) {
            return NULL;
        }
        PySys_FormatStdout("  %zu: %R\n", i, tuple);
        Py_DECREF(tuple);
    }
    Py_RETURN_NONE;
}

static PyObject *list_trim(PyObject *self, PyObject *unused) {
    (void)unused;
    return (PyObject *)dlist_trim((struct dlist *)self);
}

#define COMMON_METHODS                                                                                       \
    {"getType", list_get_type, METH_NOARGS, "getType() -> nixl_mem_t\n\nThe memory kind of the list."},      \
        {"descCount", list_desc_count, METH_NOARGS, "descCount() -> int\n\nHow many descriptors it has."},   \
        {"isEmpty", list_is_empty, METH_NOARGS, "isEmpty() -> bool\n\nWhether it has none."},                \
        {"addDesc", list_append, METH_O, "addDesc(desc)\n\nAppends a tuple."},                               \
        {"append", list_append, METH_O, "append(desc)\n\nAppends a tuple."},                                 \
        {"index", list_index, METH_O,                                                                        \
         "index(desc) -> int\n\nWhere the descriptor stands; nixlNotFoundError when it does not."},          \
        {"remDesc", list_remove, METH_O, "remDesc(index)\n\nRemoves a descriptor; IndexError."},             \
        {"clear", list_clear, METH_NOARGS, "clear()\n\nRemoves all descriptors."}, {                         \
        "print", list_print, METH_NOARGS, "print()\n\nWrites the list to the standard output."               \
    }

#define PICKLE_METHODS                                                                                       \
    {"__getstate__", dlist_getstate, METH_NOARGS, "The serialized list."},                                   \
        {"__setstate__", dlist_setstate, METH_O, "Replaces the list by a serialized one."}, {                \
        "__reduce__", dlist_reduce, METH_NOARGS, "For pickle."                                               \
    }

static PyMethodDef xfer_methods[] = {
    COMMON_METHODS,
    PICKLE_METHODS,
    {"isStrided", list_is_strided, METH_NOARGS,
     "isStrided() -> bool\n\nWhether its rows stand for many blocks each."},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef reg_methods[] = {
    COMMON_METHODS,
    PICKLE_METHODS,
    {"trim", list_trim, METH_NOARGS, "trim() -> nixlXferDList\n\nThe same descriptors without metadata."},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef remote_methods[] = {
    COMMON_METHODS,
    {"trim", list_trim, METH_NOARGS, "trim() -> nixlXferDList\n\nThe same descriptors without agent names."},
    {NULL, NULL, 0, NULL},
};

static int type_add(PyObject *module, enum list_kind kind, PyMethodDef *methods, const char *doc) {
    PyType_Slot slots[] = {
        {Py_tp_new, (void *)list_alloc},
        {Py_tp_init, (void *)list_init},
        {Py_tp_dealloc, (void *)list_dealloc},
        {Py_tp_methods, methods},
        {Py_tp_richcompare, (void *)list_compare},
        {Py_tp_hash, (void *)PyObject_HashNotImplemented},
        {Py_tp_doc, (void *)doc},
        {Py_tp_iter, (void *)PySeqIter_New},
        {Py_sq_length, (void *)list_length},
        {Py_sq_item, (void *)list_item},
        {Py_sq_ass_item, (void *)list_set_item},
        {Py_nb_bool, (void *)list_truth},
        {0, NULL},
    };
    char name[64];
    PyType_Spec spec = {name, sizeof(struct dlist), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

    PyOS_snprintf(name, sizeof name, MODULE_NAME ".%s", type_names[kind]);
    types[kind] = PyType_FromSpec(&spec);
    return types[kind] != NULL ? PyModule_AddObjectRef(module, type_names[kind], types[kind]) : -1;
}

int dlist_init_types(PyObject *module) {
    if (type_add(
            module, LIST_XFER, xfer_methods,
            "nixlXferDList(type, descs=None, init_size=0, strided=None)\n\n"
            "Descriptors (addr, len, dev) for transfers, from a list of tuples or an N x 3 array of int64 or "
            "uint64; or init_size empty ones; or strided rows (addr, len, dev, stride, count).") != 0 ||
        type_add(module, LIST_REG, reg_methods,
                 "nixlRegDList(type, descs=None, init_size=0)\n\n"
                 "Descriptors (addr, len, dev, metadata) for registration, from a list of tuples or an N x 3 "
                 "array.") != 0) {
        return -1;
    }
    return type_add(
        module, LIST_REMOTE, remote_methods,
        "nixlRemoteDList(type, descs=None, init_size=0)\n\n"
        "Descriptors (addr, len, dev, agent) of several agents; \"NULL_AGENT\" is an empty slot.");
}
