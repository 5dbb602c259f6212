/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of nixlAgent that concern plugins and backends: what there is, their parameters, their creation. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

static PyObject *names_list(uint32_t mems) {
    PyObject *list = PyList_New(0);

    for (int kind = 0; list != NULL && kind < NIXL_MEM_KINDS; kind++) {
        if ((mems & NIXL_MEM_BIT(kind)) != 0) {
            PyObject *name = PyUnicode_FromString(nixl_mem_string((nixl_mem_t)kind));

            if (name == NULL || PyList_Append(list, name) != 0) {
                Py_CLEAR(list);
            }
            Py_XDECREF(name);
        }
    }
    return list;
}

static int dict_text(PyObject *dict, const char *key, const char *value) {
    PyObject *text = PyUnicode_DecodeUTF8(value, (Py_ssize_t)strlen(value), "surrogateescape");
    int rc = text != NULL ? PyDict_SetItemString(dict, key, text) : -1;

    Py_XDECREF(text);
    return rc;
}

METHOD(agent_avail_plugins) {
    struct nixl_names *names = NULL;
    nixl_status_t status;
    PyObject *list;

    (void)self;
    (void)args;
    (void)nargs;
    (void)kwnames;
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_plugin_list(&names);
    Py_END_ALLOW_THREADS;
    if (status != NIXL_SUCCESS) {
        return raise_status(status, NULL);
    }
    list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < names->count; i++) {
        PyObject *name = PyUnicode_FromString(names->items[i]);

        if (name == NULL || PyList_Append(list, name) != 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(name);
    }
    nixl_free(names);
    return list;
}

static struct nixl_plugin_info *plugin_describe(const char *type) {
    struct nixl_plugin_info *info = NULL;
    nixl_status_t status;

    Py_BEGIN_ALLOW_THREADS;
    status = nixl_plugin_describe(type, &info);
    Py_END_ALLOW_THREADS;
    if (status != NIXL_SUCCESS) {
        raise_status(status, type);
    }
    return info;
}

static const struct nixl_option_info *option_at(const struct nixl_plugin_info *info, size_t i) {
    return (const struct nixl_option_info *)(const void *)((const char *)info->options +
                                                           i * info->option_bytes);
}

METHOD(agent_plugin_params) {
    static struct signature sig = {.name = "getPluginParams", .params = {"type"}, .required = 1};
    PyObject *v[ARGS_MAX], *params, *mems, *result = NULL;
    struct nixl_plugin_info *info;
    const char *type;

    (void)self;
    if (args_parse(&sig, args, nargs, kwnames, v) != 0 || (type = arg_text(v[0], "type")) == NULL ||
        (info = plugin_describe(type)) == NULL) {
        return NULL;
    }
    params = PyDict_New();
    mems = names_list(info->mems);
    for (size_t i = 0; params != NULL && i < info->option_count; i++) {
        const struct nixl_option_info *option = option_at(info, i);

        if (dict_text(params, option->name, option->default_value != NULL ? option->default_value : "") !=
            0) {
            Py_CLEAR(params);
        }
    }
    if (params != NULL && mems != NULL) {
        result = Py_BuildValue("(OO)", params, mems);
    }
    Py_XDECREF(params);
    Py_XDECREF(mems);
    nixl_free(info);
    return result;
}

METHOD(agent_backend_params) {
    static struct signature sig = {.name = "getBackendParams", .params = {"backend"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *dict, *mems, *result = NULL;
    struct nixl_params *params = NULL;
    struct nixl_backend *backend;
    nixl_status_t status;
    uint32_t index;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 ||
        (backend = handle_hold(agent, v[0], HANDLE_BACKEND, &index)) == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_backend_params(backend, &params);
    Py_END_ALLOW_THREADS;
    if (status != NIXL_SUCCESS) {
        raise_status(status, nixl_backend_type(backend));
        handle_drop(agent, index);
        return NULL;
    }
    dict = PyDict_New();
    mems = names_list(nixl_backend_mems(backend));
    handle_drop(agent, index);
    for (size_t i = 0; dict != NULL && i < params->count; i++) {
        if (dict_text(dict, params->items[i].key, params->items[i].value) != 0) {
            Py_CLEAR(dict);
        }
    }
    if (dict != NULL && mems != NULL) {
        result = Py_BuildValue("(OO)", dict, mems);
    }
    Py_XDECREF(dict);
    Py_XDECREF(mems);
    nixl_free(params);
    return result;
}

static int warn(const char *format, const char *type, const char *name) {
    PyObject *logging = PyImport_ImportModule("logging");
    PyObject *logger = logging != NULL ? PyObject_CallMethod(logging, "getLogger", "s", "nixl") : NULL;
    PyObject *done =
        logger != NULL ? PyObject_CallMethod(logger, "warning", "sss", format, type, name) : NULL;
    int rc = done != NULL ? 0 : -1;

    Py_XDECREF(logging);
    Py_XDECREF(logger);
    Py_XDECREF(done);
    return rc;
}

/* The reference takes parameters that a plugin does not know without a word, and programs pass them (one set for all
 * backends). They are left out here, with a warning; what is known is checked by the library. */
static int params_read(PyObject *mapping, const char *type, struct nixl_param **params, size_t *count,
                       PyObject **keep) {
    PyObject *items = mapping != NULL && mapping != Py_None ? PyMapping_Items(mapping) : PyList_New(0);
    struct nixl_plugin_info *info;
    Py_ssize_t n = items != NULL ? PyList_Size(items) : -1;

    *count = 0;
    *params = NULL;
    *keep = items;
    if (n <= 0) {
        return (int)n;
    }
    info = plugin_describe(type);
    *params = info != NULL ? calloc((size_t)n, sizeof **params) : NULL;
    if (*params == NULL) {
        if (info != NULL) {
            PyErr_NoMemory();
        }
        nixl_free(info);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *pair = PyList_GetItem(items, i);
        const char *key = arg_text(PyTuple_GetItem(pair, 0), "a parameter's name");
        const char *value = key != NULL ? arg_text(PyTuple_GetItem(pair, 1), "a parameter's value") : NULL;
        bool known = false;

        for (size_t k = 0; value != NULL && k < info->option_count && !known; k++) {
            const struct nixl_option_info *option = option_at(info, k);

            known =
                strcmp(key, option->name) == 0 || (option->alias != NULL && strcmp(key, option->alias) == 0);
        }
        if (value == NULL ||
            (!known && warn("Backend %s has no parameter '%s': it is left out.", type, key) != 0)) {
            nixl_free(info);
            return -1;
        }
        if (known) {
            (*params)[(*count)++] = (struct nixl_param){key, value};
        }
    }
    nixl_free(info);
    return 0;
}

METHOD(agent_create_backend) {
    static struct signature sig = {.name = "createBackend", .params = {"type", "params"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *keep = NULL, *number = NULL;
    struct nixl_backend *backend = NULL;
    struct nixl_param *params = NULL;
    nixl_status_t status;
    const char *type;
    size_t count;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 || (type = arg_text(v[0], "type")) == NULL ||
        agent_hold(agent) != 0) {
        return NULL;
    }
    if (params_read(v[1], type, &params, &count, &keep) == 0) {
        Py_BEGIN_ALLOW_THREADS;
        status = nixl_backend_create(agent->ptr, type, params, count, &backend);
        Py_END_ALLOW_THREADS;
        number = status == NIXL_SUCCESS ? handle_object(agent, HANDLE_BACKEND, backend)
                                        : raise_status(status, type);
    }
    free(params);
    Py_XDECREF(keep);
    agent_drop(agent);
    return number;
}

METHOD(agent_backend_description) {
    static struct signature sig = {.name = "backendDescription", .params = {"backend"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *text;
    struct nixl_backend *backend;
    uint32_t index;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 ||
        (backend = handle_hold(agent, v[0], HANDLE_BACKEND, &index)) == NULL) {
        return NULL;
    }
    text = PyUnicode_FromString(nixl_backend_description(backend));
    handle_drop(agent, index);
    return text;
}
