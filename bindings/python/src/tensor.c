/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that are memory, recognized by what they offer, so that no array library need be imported: torch's methods
 * (data_ptr, numel, element_size, device, is_contiguous), __cuda_array_interface__, __dlpack__, __array_interface__.
 * Nothing is kept: the program keeps its tensor alive.
 */
#include "binding.h"

#include <string.h>

/* The C interface of DLPack 0.x, as its specification lays it out. */
struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};
enum {
    DL_CPU = 1,
    DL_CUDA = 2,
    DL_CUDA_HOST = 3,
    DL_ROCM = 10,
    DL_ROCM_HOST = 11,
    DL_CUDA_MANAGED = 13,
    DL_ONEAPI = 14
};

static bool has(PyObject *object, const char *name) {
    PyObject *value = PyObject_GetAttrString(object, name);

    if (value == NULL) {
        PyErr_Clear();
        return false;
    }
    Py_DECREF(value);
    return true;
}

bool tensor_like(PyObject *object) {
    return has(object, "data_ptr") || has(object, "__cuda_array_interface__") || has(object, "__dlpack__") ||
           has(object, "__array_interface__");
}

/* A number, which None is not. */
static int read_u64(PyObject *value, const char *what, uint64_t *out) {
    if (value == Py_None) {
        PyErr_Format(PyExc_TypeError, "%s must be an int, not None", what);
        return -1;
    }
    return arg_u64(value, what, out);
}

/* Takes over `value` and reads it as a number. */
static int take_u64(PyObject *value, const char *what, uint64_t *out) {
    int rc;

    if (value == NULL) {
        return -1;
    }
    rc = read_u64(value, what, out);
    Py_DECREF(value);
    return rc;
}

static int call_u64(PyObject *object, const char *method, uint64_t *out) {
    return take_u64(PyObject_CallMethod(object, method, NULL), method, out);
}

/* Sizes or strides from a Python sequence of ints; strides are multiplied by `unit`. */
static int take_dims(PyObject *sequence, uint64_t *dims, uint64_t unit, int *count) {
    PyObject *list = sequence != NULL ? PySequence_List(sequence) : NULL;
    Py_ssize_t n = list != NULL ? PyList_Size(list) : -1;
    int rc = n < 0 ? -1 : 0;

    Py_XDECREF(sequence);
    if (n > 16) {
        PyErr_SetString(PyExc_ValueError, "tensors of more than 16 dimensions are not taken");
        rc = -1;
    }
    for (Py_ssize_t i = 0; rc == 0 && i < n; i++) {
        long long value = PyLong_AsLongLong(PyList_GetItem(list, i));

        if (value < 0) {
            if (PyErr_Occurred() == NULL) {
                PyErr_SetString(PyExc_ValueError, "a tensor with negative strides cannot be transferred");
            }
            rc = -1;
        } else {
            dims[i] = (uint64_t)value * unit;
        }
    }
    *count = (int)n;
    Py_XDECREF(list);
    return rc;
}

static int same_dims(const struct tensor *out, int strides) {
    if (strides != out->ndim) {
        PyErr_Format(PyExc_ValueError, "a tensor of %d dimensions cannot have %d strides", out->ndim,
                     strides);
        return -1;
    }
    return 0;
}

/* Strides of a contiguous tensor, for objects that say none. */
static void dense_strides(struct tensor *out) {
    uint64_t step = out->item;

    for (int i = out->ndim - 1; i >= 0; i--) {
        out->stride[i] = step;
        step *= out->shape[i];
    }
}

/* The bytes of so many elements, no more than there are addresses: what says more lies. */
static int tensor_bytes(uint64_t item, uint64_t count, uint64_t *len) {
    if (__builtin_mul_overflow(item, count, len)) {
        PyErr_SetString(PyExc_ValueError, "a tensor of more than 2**64 bytes cannot be transferred");
        return -1;
    }
    return 0;
}

static int measure(struct tensor *out) {
    uint64_t step = out->item;

    out->len = out->item;
    out->contiguous = true;
    for (int i = 0; i < out->ndim; i++) {
        if (out->shape[i] == 0) {
            out->len = 0; /* nothing, however large the other dimensions are */
        }
    }
    for (int i = out->ndim - 1; i >= 0; i--) {
        if (tensor_bytes(out->len, out->shape[i], &out->len) != 0) {
            return -1;
        }
        out->contiguous &= out->shape[i] == 1 || out->stride[i] == step;
        step *= out->shape[i];
    }
    out->contiguous |= out->len == 0;
    return 1;
}

/* "cpu" or "cuda:1", a torch device or anything that prints like one. */
static int torch_device(PyObject *object, struct tensor *out) {
    PyObject *device = PyObject_GetAttrString(object, "device");
    PyObject *kind = device != NULL ? PyObject_GetAttrString(device, "type") : NULL;
    PyObject *text;
    const char *name;

    if (device != NULL && kind == NULL) {
        PyErr_Clear();
        kind = PyObject_Str(device);
    }
    text = kind != NULL ? PyObject_Str(kind) : NULL;
    name = text != NULL ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    out->mem = name != NULL && strncmp(name, "cpu", 3) != 0 ? VRAM_SEG : DRAM_SEG;
    out->dev = 0;
    Py_XDECREF(device);
    Py_XDECREF(kind);
    Py_XDECREF(text);
    if (name == NULL) {
        return -1;
    }
    return out->mem == VRAM_SEG ? call_u64(object, "get_device", &out->dev) : 0;
}

static int torch_read(PyObject *object, struct tensor *out, bool want_shape) {
    uint64_t count = 0;
    PyObject *contiguous;
    int strides, truth;

    if (call_u64(object, "data_ptr", &out->addr) != 0 || call_u64(object, "element_size", &out->item) != 0 ||
        call_u64(object, "numel", &count) != 0) {
        return -1;
    }
    if (out->addr == 0 && count != 0 && out->item != 0) {
        PyErr_SetString(PyExc_ValueError,
                        "a tensor without memory of its own (its data_ptr() is 0: a meta, fake or "
                        "nested tensor) cannot be transferred");
        return -1;
    }
    if (torch_device(object, out) != 0) {
        return -1;
    }
    contiguous = PyObject_CallMethod(object, "is_contiguous", NULL);
    truth = contiguous != NULL ? PyObject_IsTrue(contiguous) : -1;
    Py_XDECREF(contiguous);
    if (truth < 0) {
        return -1;
    }
    if (want_shape &&
        (take_dims(PyObject_GetAttrString(object, "shape"), out->shape, 1, &out->ndim) != 0 ||
         take_dims(PyObject_CallMethod(object, "stride", NULL), out->stride, out->item, &strides) != 0 ||
         same_dims(out, strides) != 0)) {
        return -1;
    }
    out->contiguous = truth > 0;
    return tensor_bytes(out->item, count, &out->len) == 0 ? 1 : -1;
}

/* The dictionary that __array_interface__ and __cuda_array_interface__ share. */
static int interface_read(PyObject *object, const char *name, struct tensor *out) {
    PyObject *dict = PyObject_GetAttrString(object, name), *data, *type, *strides, *shape;
    const char *letters;
    int count, rc = -1;

    if (dict == NULL) {
        return -1;
    }
    data = PyDict_Check(dict) ? PyDict_GetItemString(dict, "data") : NULL;
    type = PyDict_Check(dict) ? PyDict_GetItemString(dict, "typestr") : NULL;
    shape = PyDict_Check(dict) ? PyDict_GetItemString(dict, "shape") : NULL;
    letters = type != NULL && PyUnicode_Check(type) ? PyUnicode_AsUTF8AndSize(type, NULL) : NULL;
    if (data == NULL || !PyTuple_Check(data) || PyTuple_Size(data) < 1 || shape == NULL || letters == NULL ||
        strlen(letters) < 3) {
        PyErr_Format(PyExc_ValueError, "%s has no data, shape or typestr", name);
        goto out;
    }
    out->item = (uint64_t)PyOS_strtoul(letters + 2, NULL, 10) * (letters[1] == 'U' ? 4 : 1);
    if (out->item == 0) {
        PyErr_Format(PyExc_ValueError, "%s: the typestr '%s' says no size", name, letters);
        goto out;
    }
    if (read_u64(PyTuple_GetItem(data, 0), "data", &out->addr) != 0 ||
        take_dims(Py_NewRef(shape), out->shape, 1, &out->ndim) != 0) {
        goto out;
    }
    strides = PyDict_GetItemString(dict, "strides");
    if (strides == NULL || strides == Py_None) {
        dense_strides(out);
    } else if (take_dims(Py_NewRef(strides), out->stride, 1, &count) != 0 || same_dims(out, count) != 0) {
        goto out;
    }
    rc = measure(out);
out:
    Py_DECREF(dict);
    return rc;
}

static int cuda_read(PyObject *object, struct tensor *out) {
    PyObject *device;

    out->mem = VRAM_SEG;
    out->dev = 0;
    if (interface_read(object, "__cuda_array_interface__", out) < 0) {
        return -1;
    }
    /* CuPy says the device as .device.id; who says none is on the first. */
    device = PyObject_GetAttrString(object, "device");
    if (device != NULL && has(device, "id") &&
        take_u64(PyObject_GetAttrString(device, "id"), "device.id", &out->dev) != 0) {
        Py_DECREF(device);
        return -1;
    }
    PyErr_Clear();
    Py_XDECREF(device);
    return 1;
}

static int dlpack_read(PyObject *object, struct tensor *out) {
    PyObject *capsule = PyObject_CallMethod(object, "__dlpack__", NULL);
    const struct dl_tensor *t;
    int rc = -1;

    if (capsule == NULL) {
        return -1;
    }
    /* Left unconsumed: the capsule's own destructor gives the tensor back. */
    t = PyCapsule_GetPointer(capsule, "dltensor");
    if (t == NULL) {
        goto out;
    }
    if (t->ndim < 0 || t->ndim > 16) {
        PyErr_SetString(PyExc_ValueError, "tensors of more than 16 dimensions are not taken");
        goto out;
    }
    switch (t->device_type) {
    case DL_CPU:
    case DL_CUDA_HOST:
    case DL_ROCM_HOST:
        out->mem = DRAM_SEG;
        out->dev = 0;
        break;
    case DL_CUDA:
    case DL_CUDA_MANAGED:
    case DL_ROCM:
    case DL_ONEAPI:
        out->mem = VRAM_SEG;
        out->dev = (uint64_t)t->device_id;
        break;
    default:
        PyErr_Format(PyExc_ValueError, "a tensor on DLPack device type %d cannot be transferred",
                     (int)t->device_type);
        goto out;
    }
    out->addr = (uint64_t)(uintptr_t)t->data + t->byte_offset;
    out->item = ((uint64_t)t->bits * t->lanes + 7) / 8;
    out->ndim = t->ndim;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0 || (t->strides != NULL && t->strides[i] < 0)) {
            PyErr_SetString(PyExc_ValueError, "a tensor with negative strides cannot be transferred");
            goto out;
        }
        out->shape[i] = (uint64_t)t->shape[i];
        out->stride[i] = t->strides != NULL ? (uint64_t)t->strides[i] * out->item : 0;
    }
    if (t->strides == NULL) {
        dense_strides(out);
    }
    rc = measure(out);
out:
    Py_DECREF(capsule);
    return rc;
}

int tensor_read(PyObject *object, struct tensor *out, bool want_shape) {
    memset(out, 0, sizeof *out);
    if (has(object, "data_ptr")) {
        return torch_read(object, out, want_shape);
    }
    if (has(object, "__cuda_array_interface__")) {
        return cuda_read(object, out);
    }
    if (has(object, "__array_interface__")) {
        out->mem = DRAM_SEG;
        return interface_read(object, "__array_interface__", out);
    }
    return has(object, "__dlpack__") ? dlpack_read(object, out) : 0;
}

int tensor_cut(struct dlist *list, const struct tensor *tensor, Py_ssize_t dim) {
    Py_ssize_t ndim = tensor->ndim;
    uint64_t block = tensor->item, rows = 1, blocks, total = 0;
    bool fits = true;

    if (dim < -ndim || dim >= ndim) {
        PyErr_Format(PyExc_IndexError, "dimension %zd of a tensor that has %zd", dim, ndim);
        return -1;
    }
    dim = dim < 0 ? dim + ndim : dim;
    for (Py_ssize_t i = ndim - 1; i > dim; i--) {
        if (tensor->shape[i] != 1 && tensor->stride[i] != block) {
            PyErr_Format(PyExc_ValueError,
                         "the tensor is not contiguous behind dimension %zd: an index there is not one block",
                         dim);
            return -1;
        }
        block *= tensor->shape[i];
    }
    for (Py_ssize_t i = 0; i < dim; i++) {
        fits &= !__builtin_mul_overflow(rows, tensor->shape[i], &rows);
    }
    if (!fits || __builtin_mul_overflow(rows, tensor->shape[dim], &blocks)) {
        blocks = UINT64_MAX;
    }
    if (!strided_count_fits(blocks, 0, &total)) {
        return -1;
    }
    list->mem = tensor->mem;
    list->form = NIXL_FORM_STRIDED;
    if (block == 0 || tensor->shape[dim] == 0) {
        return 0;
    }
    if (dlist_reserve(list, rows) != 0) {
        return -1;
    }
    for (uint64_t r = 0; r < rows; r++) {
        uint64_t rest = r, addr = tensor->addr;

        for (Py_ssize_t i = dim - 1; i >= 0; i--) {
            addr += rest % tensor->shape[i] * tensor->stride[i];
            rest /= tensor->shape[i];
        }
        ((struct nixl_strided_desc *)list->rows)[list->count++] =
            (struct nixl_strided_desc){addr, block, tensor->dev, tensor->stride[dim], tensor->shape[dim]};
    }
    return 0;
}
