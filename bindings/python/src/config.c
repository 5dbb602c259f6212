/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlAgentConfig: the agent's configuration under the reference's attribute names. Times are microseconds, as ints;
 * etcdWatchTimeout is a datetime.timedelta.
 */
#include "binding.h"

#include <math.h>

static PyObject *type_object;

PyObject *config_type(void) {
    return type_object;
}

enum field_kind {
    FIELD_BOOL,
    FIELD_U64,
    FIELD_PORT,
    FIELD_SYNC,
    FIELD_DELTA
};

struct field {
    enum field_kind kind;
    size_t offset;
    const char *name;
};

#define FIELD(kind, member, name)                                                                            \
    { kind, offsetof(struct config, c.member), name }

static struct field fields[] = {
    FIELD(FIELD_BOOL, progress_thread, "useProgThread"),
    FIELD(FIELD_BOOL, listen_thread, "useListenThread"),
    FIELD(FIELD_PORT, listen_port, "listenPort"),
    FIELD(FIELD_SYNC, sync, "syncMode"),
    FIELD(FIELD_U64, progress_delay_us, "pthrDelay"),
    FIELD(FIELD_U64, listen_delay_us, "lthrDelay"),
    FIELD(FIELD_BOOL, capture_telemetry, "captureTelemetry"),
    FIELD(FIELD_DELTA, etcd_watch_timeout_us, "etcdWatchTimeout"),
    FIELD(FIELD_U64, xfer_timeout_ms, "xferTimeoutMs"),
    FIELD(FIELD_U64, stall_timeout_ms, "stallTimeoutMs"),
};

#define FIELDS (sizeof fields / sizeof fields[0])

static PyObject *delta_get(uint64_t us) {
    PyObject *datetime = PyImport_ImportModule("datetime"), *delta;

    delta = datetime != NULL ? PyObject_CallMethod(datetime, "timedelta", "iiK", 0, 0, (unsigned long long)us)
                             : NULL;
    Py_XDECREF(datetime);
    return delta;
}

/* A timedelta, or seconds. */
static int delta_set(PyObject *value, uint64_t *us) {
    PyObject *seconds = PyObject_HasAttrString(value, "total_seconds")
                            ? PyObject_CallMethod(value, "total_seconds", NULL)
                            : PyNumber_Float(value);
    double number = seconds != NULL ? PyFloat_AsDouble(seconds) : -1.0;

    Py_XDECREF(seconds);
    if (PyErr_Occurred() != NULL) {
        return -1;
    }
    if (isnan(number) || number < 0 || number > 1e12) {
        PyErr_Format(PyExc_ValueError, "etcdWatchTimeout is out of range: %R", value);
        return -1;
    }
    *us = (uint64_t)(number * 1e6 + 0.5);
    return 0;
}

static PyObject *field_get(PyObject *self, void *closure) {
    const struct field *field = closure;
    const void *at = (const char *)self + field->offset;

    switch (field->kind) {
    case FIELD_BOOL:
        return PyBool_FromLong(*(const bool *)at);
    case FIELD_PORT:
        return PyLong_FromLong(*(const uint16_t *)at);
    case FIELD_SYNC:
        return enum_sync(*(const enum nixl_sync *)at);
    case FIELD_DELTA:
        return delta_get(*(const uint64_t *)at);
    default:
        return PyLong_FromUnsignedLongLong(*(const uint64_t *)at);
    }
}

static int field_set(PyObject *self, PyObject *value, void *closure) {
    const struct field *field = closure;
    void *at = (char *)self + field->offset;

    if (value == NULL) {
        PyErr_Format(PyExc_AttributeError, "%s cannot be deleted", field->name);
        return -1;
    }
    switch (field->kind) {
    case FIELD_BOOL:
        return arg_bool(value, at);
    case FIELD_PORT:
        return arg_port(value, at);
    case FIELD_SYNC:
        return enum_sync_value(value, at);
    case FIELD_DELTA:
        return delta_set(value, at);
    default:
        return arg_u64(value, field->name, at);
    }
}

static PyGetSetDef getset[] = {
    {"useProgThread", field_get, field_set, "A thread of the agent makes progress.", &fields[0]},
    {"useListenThread", field_get, field_set, "The agent listens for metadata.", &fields[1]},
    {"listenPort", field_get, field_set, "The listener's TCP port, 0: any.", &fields[2]},
    {"syncMode", field_get, field_set, "How calls of several threads run.", &fields[3]},
    {"pthrDelay", field_get, field_set, "Microseconds; accepted, the thread sleeps on events.", &fields[4]},
    {"lthrDelay", field_get, field_set, "Microseconds; accepted, the thread sleeps on events.", &fields[5]},
    {"captureTelemetry", field_get, field_set, "Keep times of each transfer.", &fields[6]},
    {"etcdWatchTimeout", field_get, field_set, "How long a fetch from etcd waits.", &fields[7]},
    {"xferTimeoutMs", field_get, field_set, "Deadline of every transfer; 0: the environment's or none.",
     &fields[8]},
    {"stallTimeoutMs", field_get, field_set, "How long a transfer may stand still; 0: the default.",
     &fields[9]},
    {NULL, NULL, NULL, NULL, NULL},
};

static int config_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    static struct signature sig = {
        .name = "nixlAgentConfig",
        .params = {"use_prog_thread", "use_listen_thread", "listen_port", "sync_mode", "num_workers",
                   "pthr_delay_us", "lthr_delay_us", "capture_telemetry"},
    };
    static const int place[] = {0, 1, 2, 3, -1, 4, 5, 6}; /* num_workers has no effect, as in the reference */
    static const struct nixl_agent_config defaults = NIXL_AGENT_CONFIG_INIT;
    struct config *config = (struct config *)self;
    PyObject *v[ARGS_MAX];

    config->c = defaults;
    if (args_parse_tuple(&sig, args, kwargs, v) != 0) {
        return -1;
    }
    for (int i = 0; i < sig.count; i++) {
        if (v[i] != NULL && place[i] >= 0 && field_set(self, v[i], &fields[place[i]]) != 0) {
            return -1;
        }
    }
    return 0;
}

static void config_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);

    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

int config_init_type(PyObject *module) {
    PyType_Slot slots[] = {
        {Py_tp_init, (void *)config_init},
        {Py_tp_dealloc, (void *)config_dealloc},
        {Py_tp_getset, getset},
        {Py_tp_doc,
         "nixlAgentConfig(use_prog_thread=False, use_listen_thread=False, listen_port=8888, sync_mode=NONE, "
         "num_workers=1, pthr_delay_us=0, lthr_delay_us=100000, capture_telemetry=False)"},
        {0, NULL},
    };
    PyType_Spec spec = {MODULE_NAME ".nixlAgentConfig", sizeof(struct config), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

    type_object = PyType_FromSpec(&spec);
    return type_object != NULL ? PyModule_AddObjectRef(module, "nixlAgentConfig", type_object) : -1;
}
