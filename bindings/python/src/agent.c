/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixlAgent: its beginning and end, its completion descriptor, its table of methods. An agent is destroyed when nothing in
 * Python refers to it and no call is inside it. At the end of the process transfers in flight are cancelled while
 * Python's objects still live, and the agents that are left are destroyed after it, when no object of the program can
 * call them any more.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct agent *open_agents;

uint64_t monotonic_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- life ---- */

int agent_hold(struct agent *agent) {
    if (agent->ptr == NULL || agent->closing) {
        raise_words(NIXL_ERR_NOT_FOUND, "the agent is closed", NIXL_NO_INDEX, NULL);
        return -1;
    }
    agent->users++;
    return 0;
}

static void agent_end(struct agent *agent) {
    struct nixl_agent *ptr = agent->ptr;

    agent->closing = true;
    agent->ptr = NULL;
    if (agent->prev != NULL) {
        agent->prev->next = agent->next;
    } else {
        open_agents = agent->next;
    }
    if (agent->next != NULL) {
        agent->next->prev = agent->prev;
    }
    agent->prev = agent->next = NULL;
    Py_BEGIN_ALLOW_THREADS;
    nixl_agent_destroy(ptr);
    for (uint32_t i = 0; i < agent->handle_count; i++) {
        if (agent->handles[i].kind == HANDLE_XFER) {
            (void)nixl_xfer_release(agent->handles[i].ptr);
        } else if (agent->handles[i].kind == HANDLE_DLIST) {
            nixl_dlist_release(agent->handles[i].ptr);
        }
    }
    Py_END_ALLOW_THREADS;
    free(agent->handles);
    agent->handles = NULL;
    agent->handle_count = 0;
}

void agent_drop(struct agent *agent) {
    agent->users--;
    if (agent->users == 0 && agent->closing && agent->ptr != NULL) {
        PyObject *type, *value, *trace;

        PyErr_Fetch(&type, &value, &trace);
        agent_end(agent);
        PyErr_Restore(type, value, trace);
    }
}

void agent_reap(struct agent *agent) {
    for (uint32_t i = 0; agent->reap_count > 0 && i < agent->handle_count; i++) {
        struct handle *handle = &agent->handles[i];

        if (handle->reaped && handle->users == 0 && nixl_xfer_poll(handle->ptr) != NIXL_IN_PROG &&
            nixl_xfer_release(handle->ptr) == NIXL_SUCCESS) {
            handle_remove(agent, i);
        }
    }
}

static int agent_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    static struct signature sig = {.name = "nixlAgent", .params = {"name", "config"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX];
    const struct nixl_agent_config *config = NULL;
    nixl_status_t status;
    const char *name;

    if (args_parse_tuple(&sig, args, kwargs, v) != 0) {
        return -1;
    }
    if (agent->ptr != NULL || agent->closing) {
        PyErr_SetString(PyExc_TypeError, "an agent is made once");
        return -1;
    }
    name = arg_text(v[0], "agent name");
    if (name == NULL) {
        return -1;
    }
    if (name[0] == '\0') {
        PyErr_SetString(PyExc_ValueError, "Agent needs a non-empty name");
        return -1;
    }
    if (v[1] != NULL && v[1] != Py_None) {
        if (!PyObject_TypeCheck(v[1], (PyTypeObject *)config_type())) {
            PyErr_Format(PyExc_TypeError, "config must be a nixlAgentConfig, not %R", v[1]);
            return -1;
        }
        config = &((struct config *)v[1])->c;
    }
    agent->telemetry = config != NULL && config->capture_telemetry;
    agent->closing = true; /* no other call before it is there */
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_agent_create(name, config, &agent->ptr);
    Py_END_ALLOW_THREADS;
    agent->closing = false;
    if (status != NIXL_SUCCESS) {
        raise_status(status, NULL);
        return -1;
    }
    agent->next = open_agents;
    if (open_agents != NULL) {
        open_agents->prev = agent;
    }
    open_agents = agent;
    return 0;
}

static void agent_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    struct agent *agent = (struct agent *)self;

    if (agent->ptr != NULL) {
        PyObject *kind, *value, *trace;

        PyErr_Fetch(&kind, &value, &trace);
        agent_end(agent);
        PyErr_Restore(kind, value, trace);
    }
    free(agent->handles);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

METHOD(agent_close) {
    struct agent *agent = (struct agent *)self;

    (void)args;
    (void)nargs;
    (void)kwnames;
    if (agent->ptr != NULL && !agent->closing) {
        agent->closing = true;
        if (agent->users == 0) {
            agent_end(agent);
        }
    }
    Py_RETURN_NONE;
}

/* Python's own end: its objects, and with them registered memory, are about to go. */
static PyObject *cancel_all(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    for (struct agent *agent = open_agents; agent != NULL; agent = agent->next) {
        for (uint32_t i = 0; agent->users == 0 && i < agent->handle_count; i++) {
            struct handle *handle = &agent->handles[i];

            if (handle->kind == HANDLE_XFER && handle->posted &&
                nixl_xfer_poll(handle->ptr) == NIXL_IN_PROG &&
                nixl_xfer_cancel(handle->ptr) == NIXL_IN_PROG) {
                (void)nixl_xfer_wait(handle->ptr, 100);
            }
        }
    }
    Py_RETURN_NONE;
}

/* After Python's end. A thread that is still inside an agent keeps that one from being destroyed. */
static void destroy_left(void) {
    while (open_agents != NULL) {
        struct agent *agent = open_agents;

        open_agents = agent->next;
        if (agent->users == 0 && agent->ptr != NULL) {
            nixl_agent_destroy(agent->ptr);
            agent->ptr = NULL;
        }
    }
}

/* ---- waiting for events ---- */

METHOD(agent_event_fd) {
    struct agent *agent = (struct agent *)self;
    int fd;

    (void)args;
    (void)nargs;
    (void)kwnames;
    if (agent_hold(agent) != 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    fd = nixl_agent_fd(agent->ptr);
    Py_END_ALLOW_THREADS;
    if (fd < 0) {
        raise_status(NIXL_ERR_BACKEND, NULL);
    }
    agent_drop(agent);
    return fd >= 0 ? PyLong_FromLong(fd) : NULL;
}

/* True: something happened (SUCCESS); False: nothing did (IN_PROG). */
static PyObject *agent_step(struct agent *agent, nixl_status_t (*step)(struct nixl_agent *)) {
    nixl_status_t status;
    PyObject *result;

    if (agent_hold(agent) != 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = step(agent->ptr);
    Py_END_ALLOW_THREADS;
    result = status < 0 ? raise_status(status, NULL) : PyBool_FromLong(status == NIXL_SUCCESS);
    agent_drop(agent);
    return result;
}

METHOD(agent_arm) {
    (void)args;
    (void)nargs;
    (void)kwnames;
    return agent_step((struct agent *)self, nixl_agent_arm);
}

METHOD(agent_progress) {
    (void)args;
    (void)nargs;
    (void)kwnames;
    return agent_step((struct agent *)self, nixl_agent_progress);
}

static PyObject *agent_get_name(PyObject *self, void *unused) {
    struct agent *agent = (struct agent *)self;
    PyObject *name;

    (void)unused;
    if (agent_hold(agent) != 0) {
        return NULL;
    }
    name = PyUnicode_FromString(nixl_agent_name(agent->ptr));
    agent_drop(agent);
    return name;
}

static PyObject *agent_get_listen_port(PyObject *self, void *unused) {
    struct agent *agent = (struct agent *)self;
    long port;

    (void)unused;
    if (agent_hold(agent) != 0) {
        return NULL;
    }
    port = nixl_agent_listen_port(agent->ptr);
    agent_drop(agent);
    return PyLong_FromLong(port);
}

static PyObject *agent_get_closed(PyObject *self, void *unused) {
    struct agent *agent = (struct agent *)self;

    (void)unused;
    return PyBool_FromLong(agent->ptr == NULL || agent->closing);
}

/* ---- the type ---- */

static PyMethodDef methods[] = {
    METHOD_ENTRY("close", agent_close, "close()\n\nEnds the agent; calls of other threads end first."),
    METHOD_ENTRY("getAvailPlugins", agent_avail_plugins, "getAvailPlugins() -> list[str]"),
    METHOD_ENTRY("getPluginParams", agent_plugin_params,
                 "getPluginParams(type) -> (dict, list[str])\n\nA plugin's parameters with defaults, its "
                 "memory kinds."),
    METHOD_ENTRY("getBackendParams", agent_backend_params,
                 "getBackendParams(backend) -> (dict, list[str])\n\nA backend's parameters in force, its "
                 "memory kinds."),
    METHOD_ENTRY("createBackend", agent_create_backend, "createBackend(type, params={}) -> int"),
    METHOD_ENTRY("backendDescription", agent_backend_description,
                 "backendDescription(backend) -> str\n\nWhat the backend found and chose."),
    METHOD_ENTRY(
        "eventFd", agent_event_fd,
        "eventFd() -> int\n\nBecomes readable, once armed, when a transfer ends or a notification arrives."),
    METHOD_ENTRY("arm", agent_arm,
                 "arm() -> bool\n\nArms eventFd(). True: something happened since, look and arm again."),
    METHOD_ENTRY("progress", agent_progress,
                 "progress() -> bool\n\nMakes progress once; whether something happened."),
    METHOD_ENTRY("registerMem", agent_register_mem,
                 "registerMem(descs, backends=[], mem_type=None) -> nixl_status_t"),
    METHOD_ENTRY("deregisterMem", agent_deregister_mem,
                 "deregisterMem(descs, backends=[], mem_type=None) -> nixl_status_t"),
    METHOD_ENTRY("queryMem", agent_query_mem, "queryMem(descs, backend, mem_type=None) -> list[dict | None]"),
    METHOD_ENTRY("prepMemView", agent_prep_mem_view, "prepMemView(descs, backends=[]) -> int"),
    METHOD_ENTRY("releaseMemView", agent_release_mem_view, "releaseMemView(view)"),
    METHOD_ENTRY("prepXferDlist", agent_prep_dlist,
                 "prepXferDlist(agent_name, descs, backend=[], mem_type=None) -> int\n"
                 "prepXferDlist(agent_name, mem_type, descs, backend=[]) -> int\n"
                 "prepXferDlist(descs, backend=[]) -> int"),
    METHOD_ENTRY("releasedDlistH", agent_release_dlist, "releasedDlistH(handle) -> nixl_status_t"),
    METHOD_ENTRY("dlistCount", agent_dlist_count, "dlistCount(handle) -> int"),
    METHOD_ENTRY(
        "makeXferReq", agent_make_xfer,
        "makeXferReq(operation, local_side, local_indices, remote_side, remote_indices, notif_msg='', "
        "backend=[], skip_desc_merg=False, timeout=None) -> int\n\nIndices None: all, in order."),
    METHOD_ENTRY(
        "createXferReq", agent_create_xfer,
        "createXferReq(operation, local_descs, remote_descs, remote_agent, notif_msg='', backend=[], "
        "timeout=None) -> int"),
    METHOD_ENTRY("postXferReq", agent_post_xfer, "postXferReq(reqh, notif_msg='') -> nixl_status_t"),
    METHOD_ENTRY("getXferStatus", agent_xfer_status, "getXferStatus(reqh) -> nixl_status_t"),
    METHOD_ENTRY("waitXferReq", agent_wait_xfer,
                 "waitXferReq(reqh, timeout=None) -> nixl_status_t\n\nNIXL_IN_PROG when the time is over."),
    METHOD_ENTRY(
        "cancelXferReq", agent_cancel_xfer,
        "cancelXferReq(reqh) -> nixl_status_t\n\nNIXL_SUCCESS: it has ended; NIXL_IN_PROG: it will."),
    METHOD_ENTRY("releaseXferReq", agent_release_xfer, "releaseXferReq(reqh) -> nixl_status_t"),
    METHOD_ENTRY("forgetXferReq", agent_forget_xfer,
                 "forgetXferReq(reqh)\n\nReleases it now, or when it has ended; never fails."),
    METHOD_ENTRY("getXferTelemetry", agent_xfer_telemetry, "getXferTelemetry(reqh) -> nixlXferTelemetry"),
    METHOD_ENTRY("xferTimes", agent_xfer_times,
                 "xferTimes(reqh) -> nixlXferTelemetry\n\nThe same, also while telemetry is off."),
    METHOD_ENTRY(
        "estimateXferCost", agent_estimate_cost,
        "estimateXferCost(req_handle) -> (int, int, int)\n\nDuration and margin in microseconds, method."),
    METHOD_ENTRY("queryXferBackend", agent_query_backend, "queryXferBackend(reqh) -> int"),
    METHOD_ENTRY("xferError", agent_xfer_error, "xferError(reqh) -> str\n\nWhy it failed, or ''."),
    METHOD_ENTRY("xferTransport", agent_xfer_transport, "xferTransport(reqh) -> str"),
    METHOD_ENTRY("getNotifs", agent_get_notifs,
                 "getNotifs(notif_map, backends=[]) -> dict[str, list[bytes]]"),
    METHOD_ENTRY("genNotif", agent_gen_notif, "genNotif(remote_agent, msg, backends=[]) -> nixl_status_t"),
    METHOD_ENTRY("makeConnection", agent_make_connection,
                 "makeConnection(remote_agent, backends=[], timeout=0) -> nixl_status_t"),
    METHOD_ENTRY("peerState", agent_peer_state, "peerState(agent_name) -> (nixl_status_t, str)"),
    METHOD_ENTRY("peerList", agent_peer_list, "peerList() -> list[str]"),
    METHOD_ENTRY("peerTransport", agent_peer_transport, "peerTransport(agent_name) -> str"),
    METHOD_ENTRY("getLocalMD", agent_get_local_md, "getLocalMD() -> bytes"),
    METHOD_ENTRY("getLocalPartialMD", agent_get_partial_md,
                 "getLocalPartialMD(descs, inc_conn_info=False, backends=[]) -> bytes"),
    METHOD_ENTRY("loadRemoteMD", agent_load_remote_md, "loadRemoteMD(remote_metadata) -> bytes"),
    METHOD_ENTRY("invalidateRemoteMD", agent_invalidate_remote_md,
                 "invalidateRemoteMD(remote_agent) -> nixl_status_t"),
    METHOD_ENTRY("sendLocalMD", agent_send_local_md, "sendLocalMD(ip_addr='', port=0)"),
    METHOD_ENTRY("sendLocalPartialMD", agent_send_partial_md,
                 "sendLocalPartialMD(descs, inc_conn_info=False, backends=[], ip_addr='', port=0, label='')"),
    METHOD_ENTRY("fetchRemoteMD", agent_fetch_remote_md,
                 "fetchRemoteMD(remote_agent, ip_addr='', port=0, label='')"),
    METHOD_ENTRY("invalidateLocalMD", agent_invalidate_local_md, "invalidateLocalMD(ip_addr='', port=0)"),
    METHOD_ENTRY("checkRemoteMD", agent_check_remote_md,
                 "checkRemoteMD(agent_name, descs=None) -> nixl_status_t"),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"name", agent_get_name, NULL, "The agent's name.", NULL},
    {"listenPort", agent_get_listen_port, NULL, "The port on which it listens for metadata, or 0.", NULL},
    {"closed", agent_get_closed, NULL, "Whether it has ended.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef cancel_all_def = {"_cancel_all", cancel_all, METH_NOARGS, "What Python's end calls."};

int agent_init_type(PyObject *module) {
    PyType_Slot slots[] = {
        {Py_tp_init, (void *)agent_init},
        {Py_tp_dealloc, (void *)agent_dealloc},
        {Py_tp_methods, methods},
        {Py_tp_getset, getset},
        {Py_tp_doc,
         "nixlAgent(name, config=None)\n\nAn agent: registers memory, knows its peers, moves bytes."},
        {0, NULL},
    };
    PyType_Spec spec = {MODULE_NAME ".nixlAgent", sizeof(struct agent), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
    PyObject *type = PyType_FromSpec(&spec), *atexit = NULL, *call = NULL, *done = NULL;
    int rc = -1;

    if (type == NULL || PyModule_AddObjectRef(module, "nixlAgent", type) != 0) {
        goto out;
    }
    atexit = PyImport_ImportModule("atexit");
    call = PyCFunction_New(&cancel_all_def, NULL);
    done = atexit != NULL && call != NULL ? PyObject_CallMethod(atexit, "register", "O", call) : NULL;
    rc = done != NULL ? Py_AtExit(destroy_left) : -1;
out:
    Py_XDECREF(type);
    Py_XDECREF(atexit);
    Py_XDECREF(call);
    Py_XDECREF(done);
    return rc;
}
