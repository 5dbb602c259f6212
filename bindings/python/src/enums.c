/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's kinds as Python enums, with the names and values of the reference; each member is also a name of
 * the module. Members of status, memory and operation equal their numbers, those of thread sync and cost do not.
 */
#include "binding.h"

#include <string.h>

struct member {
    const char *name;
    long value;
};

static const struct member status_members[] = {
    {"NIXL_IN_PROG", NIXL_IN_PROG},
    {"NIXL_SUCCESS", NIXL_SUCCESS},
    {"NIXL_ERR_NOT_POSTED", NIXL_ERR_NOT_POSTED},
    {"NIXL_ERR_INVALID_PARAM", NIXL_ERR_INVALID_PARAM},
    {"NIXL_ERR_BACKEND", NIXL_ERR_BACKEND},
    {"NIXL_ERR_NOT_FOUND", NIXL_ERR_NOT_FOUND},
    {"NIXL_ERR_MISMATCH", NIXL_ERR_MISMATCH},
    {"NIXL_ERR_NOT_ALLOWED", NIXL_ERR_NOT_ALLOWED},
    {"NIXL_ERR_REPOST_ACTIVE", NIXL_ERR_REPOST_ACTIVE},
    {"NIXL_ERR_UNKNOWN", NIXL_ERR_UNKNOWN},
    {"NIXL_ERR_NOT_SUPPORTED", NIXL_ERR_NOT_SUPPORTED},
    {"NIXL_ERR_REMOTE_DISCONNECT", NIXL_ERR_REMOTE_DISCONNECT},
    {"NIXL_ERR_CANCELED", NIXL_ERR_CANCELED},
    {"NIXL_ERR_NO_TELEMETRY", NIXL_ERR_NO_TELEMETRY},
    {NULL, 0},
};
static const struct member mem_members[] = {{"DRAM_SEG", DRAM_SEG}, {"VRAM_SEG", VRAM_SEG},
                                            {"BLK_SEG", BLK_SEG},   {"OBJ_SEG", OBJ_SEG},
                                            {"FILE_SEG", FILE_SEG}, {NULL, 0}};
static const struct member op_members[] = {{"NIXL_READ", NIXL_READ}, {"NIXL_WRITE", NIXL_WRITE}, {NULL, 0}};
static const struct member sync_members[] = {{"NIXL_THREAD_SYNC_NONE", NIXL_SYNC_NONE},
                                             {"NIXL_THREAD_SYNC_STRICT", NIXL_SYNC_STRICT},
                                             {"NIXL_THREAD_SYNC_RW", NIXL_SYNC_RW},
                                             {"NIXL_THREAD_SYNC_DEFAULT", NIXL_SYNC_NONE},
                                             {NULL, 0}};
static const struct member cost_members[] = {{"NIXL_COST_ANALYTICAL_BACKEND", NIXL_COST_ANALYTICAL_BACKEND},
                                             {"NIXL_COST_MEASURED", NIXL_COST_MEASURED},
                                             {"NIXL_COST_DECLARED", NIXL_COST_DECLARED},
                                             {NULL, 0}};

#define STATUS_LOWEST NIXL_ERR_NO_TELEMETRY
#define STATUS_COUNT (NIXL_IN_PROG - NIXL_ERR_NO_TELEMETRY + 1)

/* Members by value, so that a status costs no call into the enum. */
static PyObject *statuses[STATUS_COUNT];
static PyObject *mems[NIXL_MEM_KINDS];
static PyObject *syncs[3];

/* Makes the enum, adds it and its members to the module, and keeps the members in `kept` by value - lowest. */
static int enum_add(PyObject *module, PyObject *factory, const char *name, const struct member *members,
                    PyObject **kept, long lowest) {
    PyObject *pairs = PyList_New(0), *args = NULL, *kwargs = NULL, *type = NULL;
    int rc = -1;

    for (const struct member *m = members; pairs != NULL && m->name != NULL; m++) {
        PyObject *pair = Py_BuildValue("(sl)", m->name, m->value);

        if (pair == NULL || PyList_Append(pairs, pair) != 0) {
            Py_XDECREF(pair);
            goto out;
        }
        Py_DECREF(pair);
    }
    args = Py_BuildValue("(sO)", name, pairs);
    kwargs = Py_BuildValue("{s:s}", "module", MODULE_NAME);
    type = args != NULL && kwargs != NULL ? PyObject_Call(factory, args, kwargs) : NULL;
    if (type == NULL || PyModule_AddObjectRef(module, name, type) != 0) {
        goto out;
    }
    for (const struct member *m = members; m->name != NULL; m++) {
        PyObject *member = PyObject_GetAttrString(type, m->name);

        if (member == NULL || PyModule_AddObjectRef(module, m->name, member) != 0) {
            Py_XDECREF(member);
            goto out;
        }
        if (kept != NULL && kept[m->value - lowest] == NULL) {
            kept[m->value - lowest] = member;
        } else {
            Py_DECREF(member);
        }
    }
    rc = 0;
out:
    Py_XDECREF(pairs);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_XDECREF(type);
    return rc;
}

/* IntEnum prints a member as its number; these print as "nixl_mem_t.DRAM_SEG", as Enum does. */
static int print_as_enum(PyObject *module, PyObject *plain, const char *name) {
    PyObject *type = PyObject_GetAttrString(module, name), *str = PyObject_GetAttrString(plain, "__str__");
    int rc = type != NULL && str != NULL ? PyObject_SetAttrString(type, "__str__", str) : -1;

    Py_XDECREF(type);
    Py_XDECREF(str);
    return rc;
}

int enums_init(PyObject *module) {
    PyObject *library = PyImport_ImportModule("enum"), *numbers = NULL, *plain = NULL;
    int rc = -1;

    if (library != NULL) {
        numbers = PyObject_GetAttrString(library, "IntEnum");
        plain = PyObject_GetAttrString(library, "Enum");
    }
    if (numbers != NULL && plain != NULL &&
        enum_add(module, numbers, "nixl_status_t", status_members, statuses, STATUS_LOWEST) == 0 &&
        enum_add(module, numbers, "nixl_mem_t", mem_members, mems, 0) == 0 &&
        enum_add(module, numbers, "nixl_xfer_op_t", op_members, NULL, 0) == 0 &&
        enum_add(module, plain, "nixl_thread_sync_t", sync_members, syncs, 0) == 0 &&
        enum_add(module, plain, "nixl_cost_t", cost_members, NULL, 0) == 0 &&
        print_as_enum(module, plain, "nixl_status_t") == 0 &&
        print_as_enum(module, plain, "nixl_mem_t") == 0 &&
        print_as_enum(module, plain, "nixl_xfer_op_t") == 0) {
        rc = 0;
    }
    Py_XDECREF(library);
    Py_XDECREF(numbers);
    Py_XDECREF(plain);
    return rc;
}

PyObject *enum_status(nixl_status_t status) {
    long at = (long)status - STATUS_LOWEST;

    if (at < 0 || at >= STATUS_COUNT || statuses[at] == NULL) {
        return PyLong_FromLong((long)status);
    }
    return Py_NewRef(statuses[at]);
}

PyObject *enum_mem(nixl_mem_t mem) {
    return Py_NewRef(mems[mem]);
}

PyObject *enum_sync(enum nixl_sync sync) {
    return Py_NewRef(syncs[sync]);
}

int enum_sync_value(PyObject *value, enum nixl_sync *out) {
    PyObject *inner = Py_NewRef(value);

    /* nixl._api's enum has our members as its values: unwrap until a member or a number is found. */
    for (int depth = 0; depth < 3 && inner != NULL; depth++) {
        PyObject *next;

        for (int i = 0; i < 3; i++) {
            if (inner == syncs[i]) {
                Py_DECREF(inner);
                *out = (enum nixl_sync)i;
                return 0;
            }
        }
        if (PyLong_Check(inner)) {
            long number = PyLong_AsLong(inner);

            if (number >= 0 && number < 3) {
                Py_DECREF(inner);
                *out = (enum nixl_sync)number;
                return 0;
            }
            break;
        }
        next = PyObject_GetAttrString(inner, "value");
        Py_DECREF(inner);
        inner = next;
    }
    PyErr_Clear();
    Py_XDECREF(inner);
    PyErr_Format(PyExc_TypeError, "syncMode must be a nixl_thread_sync_t, not %R", value);
    return -1;
}
