/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods of nixlAgent that make, start, watch and end transfers. What posts and polls is short: a request that has
 * ended is answered without giving up the GIL.
 */
#include "binding.h"

/* ---- prepared lists ---- */

METHOD(agent_prep_dlist) {
    static struct signature sig = {
        .name = "prepXferDlist", .params = {"agent_name", "descs", "backend", "mem_type"}, .required = 0};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *number = NULL;
    struct nixl_backend *backends[BACKENDS_MAX];
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_dlist *dlist = NULL;
    struct source source;
    nixl_status_t status;
    const char *owner;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0) {
        return NULL;
    }
    if (v[0] != NULL && !PyUnicode_Check(v[0]) && !PyBytes_Check(v[0])) {
        /* The form without a name: (descs, backend). */
        v[3] = v[2];
        v[2] = v[1];
        v[1] = v[0];
        v[0] = NULL;
    }
    if (v[1] != NULL && PyLong_Check(v[1])) {
        /* The form of an array of strided rows: (agent_name, mem_type, descs, backend). */
        PyObject *mem = v[1];

        v[1] = v[2];
        v[2] = v[3];
        v[3] = mem;
    }
    if (v[1] == NULL) {
        PyErr_SetString(PyExc_TypeError, "prepXferDlist() missing required argument 'descs'");
        return NULL;
    }
    owner = v[0] != NULL ? arg_text(v[0], "agent_name") : "";
    if (owner == NULL || handle_backends(agent, v[2], backends, &options.backend_count) != 0 ||
        source_begin_strict(&source, LIST_XFER, v[1], v[3]) != 0) {
        return NULL;
    }
    if (agent_hold(agent) != 0) {
        source_end(&source);
        return NULL;
    }
    options.backends = backends;
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_dlist_prepare(agent->ptr, owner, &source.list, &options, &dlist);
    Py_END_ALLOW_THREADS;
    if (status < 0) {
        raise_status(status, options.backend_count == 1 ? nixl_backend_type(backends[0]) : NULL);
    } else {
        number = handle_object(agent, HANDLE_DLIST, dlist);
        if (number == NULL) {
            nixl_dlist_release(dlist);
        }
    }
    agent_drop(agent);
    source_end(&source);
    return number;
}

METHOD(agent_release_dlist) {
    static struct signature sig = {.name = "releasedDlistH", .params = {"handle"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX];
    uint32_t index;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0) {
        return NULL;
    }
    if (agent->ptr == NULL) {
        return enum_status(NIXL_SUCCESS); /* the agent's end released it */
    }
    if (!handle_find(agent, v[0], HANDLE_DLIST, &index)) {
        return raise_words(NIXL_ERR_INVALID_PARAM,
                           "this is no prepared list of this agent, or it was released", NIXL_NO_INDEX, NULL);
    }
    if (agent->handles[index].users > 0) {
        agent->handles[index].dying = true;
    } else {
        struct nixl_dlist *dlist = agent->handles[index].ptr;

        handle_remove(agent, index);
        nixl_dlist_release(dlist);
    }
    return enum_status(NIXL_SUCCESS);
}

METHOD(agent_dlist_count) {
    static struct signature sig = {.name = "dlistCount", .params = {"handle"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *count;
    struct nixl_dlist *dlist;
    uint32_t index;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 ||
        (dlist = handle_hold(agent, v[0], HANDLE_DLIST, &index)) == NULL) {
        return NULL;
    }
    count = PyLong_FromSize_t(nixl_dlist_count(dlist));
    handle_drop(agent, index);
    return count;
}

/* ---- requests ---- */

/* What make and create have in common; `notif` is held until options_end(). */
struct request {
    struct nixl_options options;
    struct nixl_backend *backends[BACKENDS_MAX];
    struct bytes_arg notif;
};

static int request_begin(struct request *request, struct agent *agent, PyObject *notif, PyObject *backends,
                         PyObject *keep_lists, PyObject *timeout) {
    static const struct nixl_options defaults = NIXL_OPTIONS_INIT;

    request->options = defaults;
    request->options.backends = request->backends;
    if (arg_bool(keep_lists, &request->options.keep_lists) != 0 ||
        arg_timeout(timeout, 0, &request->options.timeout_ms) != 0 ||
        handle_backends(agent, backends, request->backends, &request->options.backend_count) != 0 ||
        bytes_arg_begin(&request->notif, notif, "notif_msg") != 0) {
        return -1;
    }
    if (timeout != NULL && timeout != Py_None && request->options.timeout_ms == 0) {
        request->options.timeout_ms = 1;
    }
    request->options.has_notif = request->notif.len > 0;
    request->options.notif = request->notif.data;
    request->options.notif_len = request->notif.len;
    return 0;
}

static PyObject *request_finish(struct agent *agent, struct request *request, nixl_status_t status,
                                struct nixl_xfer *xfer) {
    PyObject *number = NULL;

    if (status < 0) {
        raise_status(status,
                     request->options.backend_count == 1 ? nixl_backend_type(request->backends[0]) : NULL);
    } else {
        number = handle_object(agent, HANDLE_XFER, xfer);
        if (number == NULL) {
            (void)nixl_xfer_release(xfer);
        }
    }
    bytes_arg_end(&request->notif);
    return number;
}

METHOD(agent_make_xfer) {
    static struct signature sig = {.name = "makeXferReq",
                                   .params = {"operation", "local_side", "local_indices", "remote_side",
                                              "remote_indices", "notif_msg", "backend", "skip_desc_merg",
                                              "timeout"},
                                   .required = 5};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *number = NULL;
    struct indices local_indices, remote_indices = {0};
    struct nixl_dlist *local, *remote = NULL;
    struct nixl_xfer *xfer = NULL;
    uint32_t local_at, remote_at;
    struct request request;
    nixl_status_t status;
    nixl_xfer_op_t op;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 || arg_op(v[0], &op) != 0 ||
        (local = handle_hold(agent, v[1], HANDLE_DLIST, &local_at)) == NULL) {
        return NULL;
    }
    remote = handle_hold(agent, v[3], HANDLE_DLIST, &remote_at);
    if (remote == NULL) {
        handle_drop(agent, local_at);
        return NULL;
    }
    if (indices_begin(&local_indices, v[2]) != 0 || indices_begin(&remote_indices, v[4]) != 0 ||
        request_begin(&request, agent, v[5], v[6], v[7], v[8]) != 0) {
        goto out;
    }
    if (local_indices.at == NULL) {
        local_indices.count = nixl_dlist_count(local);
    }
    if (remote_indices.at == NULL) {
        remote_indices.count = nixl_dlist_count(remote);
    }
    if (local_indices.count != remote_indices.count) {
        char words[120];

        PyOS_snprintf(words, sizeof words, "%zu local and %zu remote indices: there must be as many of both",
                      local_indices.count, remote_indices.count);
        raise_words(NIXL_ERR_INVALID_PARAM, words, NIXL_NO_INDEX, NULL);
        bytes_arg_end(&request.notif);
        goto out;
    }
    if (agent->reap_count > 0) {
        agent_reap(agent);
    }
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_xfer_make(agent->ptr, op, local, local_indices.at, remote, remote_indices.at,
                            local_indices.count, &request.options, &xfer);
    Py_END_ALLOW_THREADS;
    number = request_finish(agent, &request, status, xfer);
out:
    indices_end(&local_indices);
    indices_end(&remote_indices);
    handle_drop(agent, remote_at);
    handle_drop(agent, local_at);
    return number;
}

METHOD(agent_create_xfer) {
    static struct signature sig = {.name = "createXferReq",
                                   .params = {"operation", "local_descs", "remote_descs", "remote_agent",
                                              "notif_msg", "backend", "timeout"},
                                   .required = 4};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *number = NULL;
    struct source local, remote;
    struct nixl_xfer *xfer = NULL;
    struct request request;
    nixl_status_t status;
    nixl_xfer_op_t op;
    const char *peer;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 || arg_op(v[0], &op) != 0 ||
        (peer = arg_text(v[3], "remote_agent")) == NULL ||
        source_begin_strict(&local, LIST_XFER, v[1], NULL) != 0) {
        return NULL;
    }
    if (source_begin_strict(&remote, LIST_XFER, v[2], NULL) != 0) {
        source_end(&local);
        return NULL;
    }
    if (agent_hold(agent) == 0) {
        if (request_begin(&request, agent, v[4], v[5], NULL, v[6]) == 0) {
            if (agent->reap_count > 0) {
                agent_reap(agent);
            }
            Py_BEGIN_ALLOW_THREADS;
            status =
                nixl_xfer_create(agent->ptr, op, &local.list, &remote.list, peer, &request.options, &xfer);
            Py_END_ALLOW_THREADS;
            number = request_finish(agent, &request, status, xfer);
        }
        agent_drop(agent);
    }
    source_end(&remote);
    source_end(&local);
    return number;
}

static const char *backend_of(const struct nixl_xfer *xfer) {
    struct nixl_backend *backend = nixl_xfer_backend(xfer);

    return backend != NULL ? nixl_backend_type(backend) : NULL;
}

/* A request's failure as an exception: its own words, which any thread may ask for. */
static PyObject *raise_xfer(const struct nixl_xfer *xfer, nixl_status_t status) {
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    const char *words =
        status == NIXL_ERR_NOT_POSTED ? "the request was not posted yet" : nixl_xfer_error(xfer);

    (void)nixl_xfer_failure(xfer, &info);
    return raise_words(status, words, info.index, backend_of(xfer));
}

/* The answer to a poll or a wait; notes when success was first seen. */
static PyObject *state_result(struct agent *agent, uint32_t index, struct nixl_xfer *xfer,
                              nixl_status_t status) {
    struct handle *handle = &agent->handles[index];

    if (status < 0) {
        return raise_xfer(xfer, status);
    }
    if (status == NIXL_SUCCESS && handle->done_at_ns == 0) {
        handle->done_at_ns = monotonic_ns();
    }
    return enum_status(status);
}

METHOD(agent_post_xfer) {
    static struct signature sig = {.name = "postXferReq", .params = {"reqh", "notif_msg"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *result;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct bytes_arg notif;
    struct handle *handle;
    struct nixl_xfer *xfer;
    nixl_status_t status;
    uint64_t before;
    uint32_t index;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 ||
        (xfer = handle_hold(agent, v[0], HANDLE_XFER, &index)) == NULL) {
        return NULL;
    }
    if (bytes_arg_begin(&notif, v[1], "notif_msg") != 0) {
        handle_drop(agent, index);
        return NULL;
    }
    options.has_notif = notif.len > 0;
    options.notif = notif.data;
    options.notif_len = notif.len;
    agent->handles[index].posted = true;
    before = monotonic_ns();
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_xfer_post(xfer, options.has_notif ? &options : NULL);
    Py_END_ALLOW_THREADS;
    bytes_arg_end(&notif);
    if (status < 0) {
        result = raise_status(status, backend_of(xfer));
    } else {
        handle = &agent->handles[index];
        handle->posted_at_ns = before;
        handle->done_at_ns = 0;
        handle->post_ns = monotonic_ns() - before;
        result = state_result(agent, index, xfer, status);
    }
    handle_drop(agent, index);
    return result;
}

METHOD(agent_xfer_status) {
    static struct signature sig = {.name = "getXferStatus", .params = {"reqh"}, .required = 1};
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *result;
    struct nixl_xfer *xfer;
    nixl_status_t status;
    uint32_t index;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 ||
        (xfer = handle_hold(agent, v[0], HANDLE_XFER, &index)) == NULL) {
        return NULL;
    }
    status = nixl_xfer_failure(xfer, &info);
    if (status == NIXL_IN_PROG) {
        Py_BEGIN_ALLOW_THREADS;
        status = nixl_xfer_poll(xfer);
        Py_END_ALLOW_THREADS;
    }
    result = state_result(agent, index, xfer, status);
    handle_drop(agent, index);
    return result;
}

METHOD(agent_wait_xfer) {
    static struct signature sig = {.name = "waitXferReq", .params = {"reqh", "timeout"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *result = NULL;
    struct nixl_xfer *xfer;
    nixl_status_t status;
    uint64_t left_ms;
    uint32_t index;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 || arg_timeout(v[1], NIXL_NO_TIMEOUT, &left_ms) != 0 ||
        (xfer = handle_hold(agent, v[0], HANDLE_XFER, &index)) == NULL) {
        return NULL;
    }
    /* In slices, so that Ctrl-C is heard. */
    for (;;) {
        uint64_t slice = left_ms < 100 ? left_ms : 100;

        Py_BEGIN_ALLOW_THREADS;
        status = nixl_xfer_wait(xfer, slice);
        Py_END_ALLOW_THREADS;
        left_ms -= left_ms != NIXL_NO_TIMEOUT ? slice : 0;
        if (status != NIXL_IN_PROG || left_ms == 0) {
            result = state_result(agent, index, xfer, status);
            break;
        }
        if (PyErr_CheckSignals() != 0) {
            break;
        }
    }
    handle_drop(agent, index);
    return result;
}

METHOD(agent_cancel_xfer) {
    static struct signature sig = {.name = "cancelXferReq", .params = {"reqh"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *result;
    struct nixl_xfer *xfer;
    nixl_status_t status;
    uint32_t index;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 ||
        (xfer = handle_hold(agent, v[0], HANDLE_XFER, &index)) == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_xfer_cancel(xfer);
    Py_END_ALLOW_THREADS;
    result = status < 0 ? raise_status(status, backend_of(xfer)) : enum_status(status);
    handle_drop(agent, index);
    return result;
}

/* Releases a request that no other call holds. The place in the table is kept until the library let go. */
static nixl_status_t release_now(struct agent *agent, uint32_t index) {
    struct nixl_xfer *xfer = agent->handles[index].ptr;
    nixl_status_t status;

    agent->handles[index].dying = true; /* nobody else finds it meanwhile */
    agent->users++;
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_xfer_release(xfer);
    Py_END_ALLOW_THREADS;
    if (status == NIXL_SUCCESS) {
        handle_remove(agent, index);
    } else {
        agent->handles[index].dying = false;
    }
    return status; /* the caller calls agent_drop() */
}

METHOD(agent_release_xfer) {
    static struct signature sig = {.name = "releaseXferReq", .params = {"reqh"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *result;
    nixl_status_t status;
    uint32_t index;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0) {
        return NULL;
    }
    if (agent->ptr == NULL) {
        return enum_status(NIXL_SUCCESS); /* the agent's end released it */
    }
    if (!handle_find(agent, v[0], HANDLE_XFER, &index)) {
        return raise_words(NIXL_ERR_INVALID_PARAM,
                           "this is no transfer request of this agent, or it was released", NIXL_NO_INDEX,
                           NULL);
    }
    if (agent->handles[index].users > 0) {
        /* Another thread is inside a call with it: the last one to leave releases it. */
        (void)nixl_xfer_cancel(agent->handles[index].ptr);
        agent->handles[index].dying = true;
        return enum_status(NIXL_SUCCESS);
    }
    status = release_now(agent, index);
    result = status < 0 ? raise_status(status, NULL) : enum_status(NIXL_SUCCESS);
    agent_drop(agent);
    return result;
}

METHOD(agent_forget_xfer) {
    static struct signature sig = {.name = "forgetXferReq", .params = {"reqh"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX];
    uint32_t index;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0) {
        return NULL;
    }
    if (agent->ptr != NULL && handle_find(agent, v[0], HANDLE_XFER, &index)) {
        struct handle *handle = &agent->handles[index];

        if (handle->users > 0) {
            handle->dying = true;
        } else {
            if (release_now(agent, index) != NIXL_SUCCESS) {
                handle = &agent->handles[index];
                handle->dying = true;
                handle->reaped = true;
                agent->reap_count++;
            }
            agent_drop(agent);
        }
    }
    Py_RETURN_NONE;
}
