/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of nixlAgent that give, take and carry metadata. */
#include "binding.h"

#include <string.h>

static PyObject *blob_object(void *blob, size_t len) {
    PyObject *bytes = PyBytes_FromStringAndSize(blob, (Py_ssize_t)len);

    nixl_free(blob);
    return bytes;
}

METHOD(agent_get_local_md) {
    struct agent *agent = (struct agent *)self;
    nixl_status_t status;
    void *blob = NULL;
    size_t len = 0;

    (void)args;
    (void)nargs;
    (void)kwnames;
    if (agent_hold(agent) != 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_metadata_get(agent->ptr, &blob, &len);
    Py_END_ALLOW_THREADS;
    if (status < 0) {
        raise_status(status, NULL);
    }
    agent_drop(agent);
    return status < 0 ? NULL : blob_object(blob, len);
}

METHOD(agent_get_partial_md) {
    static struct signature sig = {
        .name = "getLocalPartialMD", .params = {"descs", "inc_conn_info", "backends"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    struct nixl_backend *backends[BACKENDS_MAX];
    struct nixl_options options = NIXL_OPTIONS_INIT;
    PyObject *v[ARGS_MAX], *result = NULL;
    struct source source;
    nixl_status_t status;
    void *blob = NULL;
    size_t len = 0;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 || arg_bool(v[1], &options.include_conn) != 0 ||
        handle_backends(agent, v[2], backends, &options.backend_count) != 0 ||
        source_begin_strict(&source, LIST_REG, v[0], NULL) != 0) {
        return NULL;
    }
    if (agent_hold(agent) == 0) {
        options.backends = backends;
        Py_BEGIN_ALLOW_THREADS;
        status = nixl_metadata_get_partial(agent->ptr, &source.list, &options, &blob, &len);
        Py_END_ALLOW_THREADS;
        result = status < 0 ? raise_status(status, NULL) : blob_object(blob, len);
        agent_drop(agent);
    }
    source_end(&source);
    return result;
}

METHOD(agent_load_remote_md) {
    static struct signature sig = {.name = "loadRemoteMD", .params = {"remote_metadata"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *name = NULL;
    struct bytes_arg blob;
    char *peer = NULL;
    nixl_status_t status;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 || bytes_arg_begin(&blob, v[0], "metadata") != 0) {
        return NULL;
    }
    if (agent_hold(agent) == 0) {
        Py_BEGIN_ALLOW_THREADS;
        status = nixl_metadata_load(agent->ptr, blob.data, blob.len, &peer);
        Py_END_ALLOW_THREADS;
        name = status < 0 ? raise_status(status, NULL) : PyBytes_FromString(peer);
        nixl_free(peer);
        agent_drop(agent);
    }
    bytes_arg_end(&blob);
    return name;
}

METHOD(agent_invalidate_remote_md) {
    static struct signature sig = {.name = "invalidateRemoteMD", .params = {"remote_agent"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *result;
    nixl_status_t status;
    const char *peer;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 || (peer = arg_text(v[0], "remote_agent")) == NULL ||
        agent_hold(agent) != 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_metadata_invalidate(agent->ptr, peer);
    Py_END_ALLOW_THREADS;
    /* The reference answers with the status and raises nothing: forgetting twice is no fault. */
    result = enum_status(status);
    agent_drop(agent);
    return result;
}

/* Where metadata goes or comes from: (ip_addr, port, label, wait) into the options. */
static int place_read(struct nixl_options *options, PyObject *ip_addr, PyObject *port, PyObject *label,
                      PyObject *timeout) {
    if (ip_addr != NULL && (options->ip_addr = arg_text(ip_addr, "ip_addr")) == NULL) {
        return -1;
    }
    if (label != NULL && (options->label = arg_text(label, "label")) == NULL) {
        return -1;
    }
    if (arg_port(port, &options->port) != 0 || arg_timeout(timeout, 0, &options->wait_ms) != 0) {
        return -1;
    }
    options->port = options->port != 0 ? options->port : NIXL_DEFAULT_PORT;
    return 0;
}

/* What is told of the whole agent to one place, (ip_addr, port, timeout): `tell` is the call of nixl.h. */
static PyObject *tell_place(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                            struct signature *sig,
                            nixl_status_t (*tell)(struct nixl_agent *, const struct nixl_options *)) {
    struct agent *agent = (struct agent *)self;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    PyObject *v[ARGS_MAX];
    nixl_status_t status;

    if (args_parse(sig, args, nargs, kwnames, v) != 0 || place_read(&options, v[0], v[1], NULL, v[2]) != 0 ||
        agent_hold(agent) != 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = tell(agent->ptr, &options);
    Py_END_ALLOW_THREADS;
    if (status < 0) {
        raise_status(status, NULL);
    }
    agent_drop(agent);
    return status < 0 ? NULL : Py_NewRef(Py_None);
}

METHOD(agent_send_local_md) {
    static struct signature sig = {
        .name = "sendLocalMD", .params = {"ip_addr", "port", "timeout"}, .required = 0};
    return tell_place(self, args, nargs, kwnames, &sig, nixl_metadata_send);
}

METHOD(agent_send_partial_md) {
    static struct signature sig = {
        .name = "sendLocalPartialMD",
        .params = {"descs", "inc_conn_info", "backends", "ip_addr", "port", "label", "timeout"},
        .required = 1};
    struct agent *agent = (struct agent *)self;
    struct nixl_backend *backends[BACKENDS_MAX];
    struct nixl_options options = NIXL_OPTIONS_INIT;
    PyObject *v[ARGS_MAX], *result = NULL;
    struct source source;
    nixl_status_t status;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 || arg_bool(v[1], &options.include_conn) != 0 ||
        handle_backends(agent, v[2], backends, &options.backend_count) != 0 ||
        place_read(&options, v[3], v[4], v[5], v[6]) != 0 ||
        source_begin_strict(&source, LIST_REG, v[0], NULL) != 0) {
        return NULL;
    }
    if (agent_hold(agent) == 0) {
        options.backends = backends;
        Py_BEGIN_ALLOW_THREADS;
        status = nixl_metadata_send_partial(agent->ptr, &source.list, &options);
        Py_END_ALLOW_THREADS;
        result = status < 0 ? raise_status(status, NULL) : Py_NewRef(Py_None);
        agent_drop(agent);
    }
    source_end(&source);
    return result;
}

METHOD(agent_fetch_remote_md) {
    static struct signature sig = {.name = "fetchRemoteMD",
                                   .params = {"remote_agent", "ip_addr", "port", "label", "timeout"},
                                   .required = 1};
    struct agent *agent = (struct agent *)self;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    PyObject *v[ARGS_MAX];
    nixl_status_t status;
    const char *peer;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 || (peer = arg_text(v[0], "remote_agent")) == NULL ||
        place_read(&options, v[1], v[2], v[3], v[4]) != 0 || agent_hold(agent) != 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_metadata_fetch(agent->ptr, peer, &options);
    Py_END_ALLOW_THREADS;
    if (status < 0) {
        raise_status(status, NULL);
    }
    agent_drop(agent);
    return status < 0 ? NULL : Py_NewRef(Py_None);
}

METHOD(agent_invalidate_local_md) {
    static struct signature sig = {
        .name = "invalidateLocalMD", .params = {"ip_addr", "port", "timeout"}, .required = 0};
    return tell_place(self, args, nargs, kwnames, &sig, nixl_metadata_invalidate_local);
}

METHOD(agent_check_remote_md) {
    static struct signature sig = {.name = "checkRemoteMD", .params = {"agent_name", "descs"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *result;
    struct source source = {0};
    nixl_status_t status;
    bool asked;
    const char *peer;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 || (peer = arg_text(v[0], "agent_name")) == NULL) {
        return NULL;
    }
    asked = v[1] != NULL && v[1] != Py_None;
    if (asked && source_begin_strict(&source, LIST_XFER, v[1], NULL) != 0) {
        return NULL;
    }
    if (agent_hold(agent) != 0) {
        source_end(&source);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_metadata_check(agent->ptr, peer, asked && source.list.count > 0 ? &source.list : NULL);
    Py_END_ALLOW_THREADS;
    result = enum_status(status);
    agent_drop(agent);
    source_end(&source);
    return result;
}
