/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of nixlAgent that concern peers: notifications, connections, what is known of them. */
#include "binding.h"

#include <string.h>

/* A copy of {name: sequence} with lists of its own. */
static PyObject *map_copy(PyObject *map) {
    PyObject *copy = PyDict_New(), *name, *messages;
    Py_ssize_t at = 0;

    if (copy == NULL || map == NULL || map == Py_None) {
        return copy;
    }
    if (!PyDict_Check(map)) {
        PyErr_Format(PyExc_TypeError, "notif_map must be a dict, not %R", map);
        Py_DECREF(copy);
        return NULL;
    }
    while (PyDict_Next(map, &at, &name, &messages)) {
        PyObject *list = PySequence_List(messages);

        if (list == NULL || PyDict_SetItem(copy, name, list) != 0) {
            Py_XDECREF(list);
            Py_DECREF(copy);
            return NULL;
        }
        Py_DECREF(list);
    }
    return copy;
}

/* The list of a sender's messages in the map, made when there is none; borrowed. */
static PyObject *sender_list(PyObject *map, const char *agent) {
    PyObject *name = PyUnicode_DecodeUTF8(agent, (Py_ssize_t)strlen(agent), "surrogateescape");
    PyObject *list = name != NULL ? PyDict_GetItemWithError(map, name) : NULL;

    if (name != NULL && list == NULL && PyErr_Occurred() == NULL) {
        list = PyList_New(0);
        if (list != NULL && PyDict_SetItem(map, name, list) != 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(list); /* the map holds it */
    }
    Py_XDECREF(name);
    return list;
}

static int notifs_add(PyObject *map, const struct nixl_notifs *notifs) {
    const char *sender = NULL;
    PyObject *list = NULL;

    for (size_t i = 0; i < notifs->count; i++) {
        const struct nixl_notif *notif = &notifs->items[i];
        PyObject *message;
        int rc;

        if (sender == NULL || (sender != notif->agent && strcmp(sender, notif->agent) != 0)) {
            list = sender_list(map, notif->agent);
            sender = notif->agent;
        }
        message = list != NULL ? PyBytes_FromStringAndSize(notif->msg, (Py_ssize_t)notif->len) : NULL;
        rc = message != NULL ? PyList_Append(list, message) : -1;
        Py_XDECREF(message);
        if (rc != 0) {
            return -1;
        }
    }
    return 0;
}

METHOD(agent_get_notifs) {
    static struct signature sig = {.name = "getNotifs", .params = {"notif_map", "backends"}, .required = 0};
    struct agent *agent = (struct agent *)self;
    struct nixl_backend *backends[BACKENDS_MAX];
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_notifs *notifs = NULL;
    PyObject *v[ARGS_MAX], *map;
    nixl_status_t status;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 ||
        handle_backends(agent, v[1], backends, &options.backend_count) != 0 ||
        (map = map_copy(v[0])) == NULL) {
        return NULL;
    }
    if (agent_hold(agent) != 0) {
        Py_DECREF(map);
        return NULL;
    }
    if (agent->reap_count > 0) {
        agent_reap(agent);
    }
    options.backends = backends;
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_notif_take(agent->ptr, options.backend_count > 0 ? &options : NULL, &notifs);
    Py_END_ALLOW_THREADS;
    if (status < 0) {
        raise_status(status, options.backend_count == 1 ? nixl_backend_type(backends[0]) : NULL);
        Py_CLEAR(map);
    } else if (notifs != NULL && notifs_add(map, notifs) != 0) {
        Py_CLEAR(map);
    }
    nixl_notifs_release(notifs);
    agent_drop(agent);
    return map;
}

METHOD(agent_gen_notif) {
    static struct signature sig = {
        .name = "genNotif", .params = {"remote_agent", "msg", "backends"}, .required = 2};
    struct agent *agent = (struct agent *)self;
    struct nixl_backend *backends[BACKENDS_MAX];
    struct nixl_options options = NIXL_OPTIONS_INIT;
    PyObject *v[ARGS_MAX], *result = NULL;
    struct bytes_arg msg;
    nixl_status_t status;
    const char *peer;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 || (peer = arg_text(v[0], "remote_agent")) == NULL ||
        handle_backends(agent, v[2], backends, &options.backend_count) != 0 ||
        bytes_arg_begin(&msg, v[1], "msg") != 0) {
        return NULL;
    }
    if (agent_hold(agent) == 0) {
        options.backends = backends;
        Py_BEGIN_ALLOW_THREADS;
        status =
            nixl_notif_send(agent->ptr, peer, msg.data, msg.len, options.backend_count > 0 ? &options : NULL);
        Py_END_ALLOW_THREADS;
        result = status < 0 ? raise_status(status,
                                           options.backend_count == 1 ? nixl_backend_type(backends[0]) : NULL)
                            : enum_status(NIXL_SUCCESS);
        agent_drop(agent);
    }
    bytes_arg_end(&msg);
    return result;
}

METHOD(agent_make_connection) {
    static struct signature sig = {
        .name = "makeConnection", .params = {"remote_agent", "backends", "timeout"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    struct nixl_backend *backends[BACKENDS_MAX];
    struct nixl_options options = NIXL_OPTIONS_INIT;
    PyObject *v[ARGS_MAX], *result;
    nixl_status_t status;
    const char *peer;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 || (peer = arg_text(v[0], "remote_agent")) == NULL ||
        handle_backends(agent, v[1], backends, &options.backend_count) != 0 ||
        arg_timeout(v[2], 0, &options.wait_ms) != 0 || agent_hold(agent) != 0) {
        return NULL;
    }
    options.backends = backends;
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_peer_connect(agent->ptr, peer, &options);
    Py_END_ALLOW_THREADS;
    result = status < 0
                 ? raise_status(status, options.backend_count == 1 ? nixl_backend_type(backends[0]) : NULL)
                 : enum_status(status);
    agent_drop(agent);
    return result;
}

METHOD(agent_peer_state) {
    static struct signature sig = {.name = "peerState", .params = {"agent_name"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *state, *words, *result = NULL;
    const char *peer, *text;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 || (peer = arg_text(v[0], "agent_name")) == NULL ||
        agent_hold(agent) != 0) {
        return NULL;
    }
    state = enum_status(nixl_peer_state(agent->ptr, peer));
    text = nixl_peer_error(agent->ptr, peer);
    words = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
    if (state != NULL && words != NULL) {
        result = Py_BuildValue("(OO)", state, words);
    }
    Py_XDECREF(state);
    Py_XDECREF(words);
    agent_drop(agent);
    return result;
}

METHOD(agent_peer_list) {
    struct agent *agent = (struct agent *)self;
    struct nixl_names *names = NULL;
    nixl_status_t status;
    PyObject *list;

    (void)args;
    (void)nargs;
    (void)kwnames;
    if (agent_hold(agent) != 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_peer_list(agent->ptr, &names);
    Py_END_ALLOW_THREADS;
    if (status < 0) {
        raise_status(status, NULL);
        agent_drop(agent);
        return NULL;
    }
    agent_drop(agent);
    list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < names->count; i++) {
        PyObject *name =
            PyUnicode_DecodeUTF8(names->items[i], (Py_ssize_t)strlen(names->items[i]), "surrogateescape");

        if (name == NULL || PyList_Append(list, name) != 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(name);
    }
    nixl_free(names);
    return list;
}

METHOD(agent_peer_transport) {
    static struct signature sig = {.name = "peerTransport", .params = {"agent_name"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *text;
    const char *peer;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 || (peer = arg_text(v[0], "agent_name")) == NULL ||
        agent_hold(agent) != 0) {
        return NULL;
    }
    text = PyUnicode_FromString(nixl_peer_transport(agent->ptr, peer, NULL));
    agent_drop(agent);
    return text;
}
