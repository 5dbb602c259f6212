/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of nixlAgent that concern memory: registration, queries of storage, memory views. */
#include "binding.h"

#include <string.h>

/* The backend that a failure is blamed on: the only one that was asked for. */
static const char *only_backend(struct nixl_backend *const *backends, size_t count) {
    return count == 1 ? nixl_backend_type(backends[0]) : NULL;
}

static PyObject *register_or_not(PyObject *self, PyObject **v,
                                 nixl_status_t (*call)(struct nixl_agent *, const struct nixl_list *,
                                                       const struct nixl_options *)) {
    struct agent *agent = (struct agent *)self;
    struct nixl_backend *backends[BACKENDS_MAX];
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct source source;
    nixl_status_t status;
    PyObject *result;

    if (handle_backends(agent, v[1], backends, &options.backend_count) != 0 ||
        source_begin_strict(&source, LIST_REG, v[0], v[2]) != 0) {
        return NULL;
    }
    if (agent_hold(agent) != 0) {
        source_end(&source);
        return NULL;
    }
    options.backends = backends;
    Py_BEGIN_ALLOW_THREADS;
    status = call(agent->ptr, &source.list, &options);
    Py_END_ALLOW_THREADS;
    result = status < 0 ? raise_status(status, only_backend(backends, options.backend_count))
                        : enum_status(status);
    agent_drop(agent);
    source_end(&source);
    return result;
}

METHOD(agent_register_mem) {
    static struct signature sig = {
        .name = "registerMem", .params = {"descs", "backends", "mem_type"}, .required = 1};
    PyObject *v[ARGS_MAX];

    return args_parse(&sig, args, nargs, kwnames, v) != 0 ? NULL
                                                          : register_or_not(self, v, nixl_mem_register);
}

METHOD(agent_deregister_mem) {
    static struct signature sig = {
        .name = "deregisterMem", .params = {"descs", "backends", "mem_type"}, .required = 1};
    PyObject *v[ARGS_MAX];

    return args_parse(&sig, args, nargs, kwnames, v) != 0 ? NULL
                                                          : register_or_not(self, v, nixl_mem_deregister);
}

static PyObject *query_dict(const struct nixl_query_result *item) {
    PyObject *dict;

    if (!item->found) {
        return Py_NewRef(Py_None);
    }
    dict = PyDict_New();
    for (size_t i = 0; dict != NULL && i < item->params.count; i++) {
        const struct nixl_param *param = &item->params.items[i];
        PyObject *value =
            PyUnicode_DecodeUTF8(param->value, (Py_ssize_t)strlen(param->value), "surrogateescape");

        if (value == NULL || PyDict_SetItemString(dict, param->key, value) != 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(value);
    }
    return dict;
}

METHOD(agent_query_mem) {
    static struct signature sig = {
        .name = "queryMem", .params = {"descs", "backend", "mem_type"}, .required = 2};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *list = NULL;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_query_results *results = NULL;
    struct nixl_backend *backend;
    struct source source;
    nixl_status_t status;
    uint32_t index;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 ||
        (backend = handle_hold(agent, v[1], HANDLE_BACKEND, &index)) == NULL) {
        return NULL;
    }
    if (source_begin_strict(&source, LIST_REG, v[0], v[2]) != 0) {
        handle_drop(agent, index);
        return NULL;
    }
    options.backends = &backend;
    options.backend_count = 1;
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_mem_query(agent->ptr, &source.list, &options, &results);
    Py_END_ALLOW_THREADS;
    if (status < 0) {
        raise_status(status, nixl_backend_type(backend));
    } else {
        list = PyList_New(0);
        for (size_t i = 0; list != NULL && i < results->count; i++) {
            PyObject *item = query_dict(&results->items[i]);

            if (item == NULL || PyList_Append(list, item) != 0) {
                Py_CLEAR(list);
            }
            Py_XDECREF(item);
        }
        nixl_free(results);
    }
    source_end(&source);
    handle_drop(agent, index);
    return list;
}

METHOD(agent_prep_mem_view) {
    static struct signature sig = {.name = "prepMemView", .params = {"descs", "backends"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *result;
    struct nixl_backend *backends[BACKENDS_MAX];
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct source source;
    void *view = NULL;
    nixl_status_t status;
    bool remote;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 ||
        handle_backends(agent, v[1], backends, &options.backend_count) != 0) {
        return NULL;
    }
    remote = dlist_is(v[0], LIST_REMOTE);
    if (source_begin_strict(&source, remote ? LIST_REMOTE : LIST_XFER, v[0], NULL) != 0) {
        return NULL;
    }
    if (agent_hold(agent) != 0) {
        source_end(&source);
        return NULL;
    }
    options.backends = backends;
    Py_BEGIN_ALLOW_THREADS;
    status = remote ? nixl_view_remote(agent->ptr, &source.list, &options, &view)
                    : nixl_view_local(agent->ptr, &source.list, &options, &view);
    Py_END_ALLOW_THREADS;
    result = status < 0 ? raise_status(status, only_backend(backends, options.backend_count))
                        : PyLong_FromVoidPtr(view);
    agent_drop(agent);
    source_end(&source);
    return result;
}

METHOD(agent_release_mem_view) {
    static struct signature sig = {.name = "releaseMemView", .params = {"view"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX];
    nixl_status_t status;
    uint64_t view = 0;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 || arg_u64(v[0], "view", &view) != 0 ||
        agent_hold(agent) != 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_view_release(agent->ptr, (void *)(uintptr_t)view);
    Py_END_ALLOW_THREADS;
    if (status < 0) {
        raise_status(status, NULL);
    }
    agent_drop(agent);
    if (status < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}
