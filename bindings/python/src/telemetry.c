/* SPDX-License-Identifier: Apache-2.0 */
/* nixlXferTelemetry: the times of one transfer, in whole microseconds, and what it moved. */
#include "binding.h"

struct telemetry {
    PyObject_HEAD uint64_t values[5];
};

static PyObject *type_object;

static PyObject *value_get(PyObject *self, void *closure) {
    return PyLong_FromUnsignedLongLong(((struct telemetry *)self)->values[(uintptr_t)closure]);
}

static PyGetSetDef getset[] = {
    {"startTime", value_get, NULL, "Microseconds of the monotonic clock at the start.", (void *)0},
    {"postDuration", value_get, NULL, "Microseconds inside the call that started it, at least 1.", (void *)1},
    {"xferDuration", value_get, NULL, "Microseconds from the start until it was done.", (void *)2},
    {"totalBytes", value_get, NULL, "Bytes moved.", (void *)3},
    {"descCount", value_get, NULL, "Descriptors after merging.", (void *)4},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyObject *telemetry_repr(PyObject *self) {
    const uint64_t *v = ((struct telemetry *)self)->values;

    return PyUnicode_FromFormat(
        "<nixlXferTelemetry startTime=%llu postDuration=%llu xferDuration=%llu totalBytes=%llu "
        "descCount=%llu>",
        (unsigned long long)v[0], (unsigned long long)v[1], (unsigned long long)v[2],
        (unsigned long long)v[3], (unsigned long long)v[4]);
}

static void telemetry_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);

    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyObject *telemetry_new(uint64_t start_us, uint64_t post_us, uint64_t xfer_us, uint64_t bytes,
                        uint64_t descs) {
    PyObject *object = PyObject_CallFunction(type_object, NULL);

    if (object != NULL) {
        uint64_t *v = ((struct telemetry *)object)->values;

        v[0] = start_us;
        v[1] = post_us;
        v[2] = xfer_us;
        v[3] = bytes;
        v[4] = descs;
    }
    return object;
}

int telemetry_init_type(PyObject *module) {
    PyType_Slot slots[] = {
        {Py_tp_dealloc, (void *)telemetry_dealloc},
        {Py_tp_getset, getset},
        {Py_tp_repr, (void *)telemetry_repr},
        {Py_tp_doc, "The times of one transfer, and what it moved."},
        {0, NULL},
    };
    PyType_Spec spec = {MODULE_NAME ".nixlXferTelemetry", sizeof(struct telemetry), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

    type_object = PyType_FromSpec(&spec);
    return type_object != NULL ? PyModule_AddObjectRef(module, "nixlXferTelemetry", type_object) : -1;
}
