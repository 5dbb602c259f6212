/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backends of an agent: opened from plugins, never closed before the agent's end, so handles and slots stay
 * valid. Holds what the agent offers each of them (struct nixl_host), and turns their faults into words.
 */
#include "agent/internal.h"

#include "base/config.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A configuration value that a backend asked for: kept until it closes. */
struct config_value {
    struct config_value *next;
    char *value;
    char key[];
};

/* ---- what backends may call ---- */

_Thread_local unsigned backend_words_given;

static nixl_status_t host_fail(void *ctx, nixl_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void host_log(void *ctx, enum nixl_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static nixl_status_t host_fail(void *ctx, nixl_status_t status, const char *format, ...) {
    va_list args;

    __atomic_add_fetch(&((struct nixl_backend *)ctx)->words_given, 1, __ATOMIC_RELAXED);
    backend_words_given++;
    va_start(args, format);
    status = fail_v(status, format, args);
    va_end(args);
    return status;
}

static bool host_log_wants(void *ctx, enum nixl_log_level level) {
    (void)ctx;
    return log_enabled((int)level);
}

static void host_log(void *ctx, enum nixl_log_level level, const char *format, ...) {
    const struct nixl_backend *backend = ctx;
    char text[1024];
    va_list args;

    if (!log_enabled((int)level)) {
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log_write((int)level, backend->ops.name, 0, "agent %s, backend %s: %s", backend->agent->name,
              backend->ops.name, text);
}

static const char *host_config(void *ctx, const char *key) {
    struct nixl_backend *backend = ctx;
    struct config_value *entry;
    size_t size = strlen(key) + 1;
    char *value;

    if (config_get_raw(key, &value, NULL) != NIXL_SUCCESS || value == NULL) {
        return NULL;
    }
    lock_take(&backend->config_lock);
    for (entry = backend->config_values; entry != NULL; entry = entry->next) {
        if (strcmp(entry->key, key) == 0 && strcmp(entry->value, value) == 0) {
            break;
        }
    }
    if (entry != NULL) {
        free(value);
    } else if ((entry = malloc(sizeof *entry + size)) != NULL) {
        memcpy(entry->key, key, size);
        entry->value = value;
        entry->next = backend->config_values;
        backend->config_values = entry;
    } else {
        free(value);
    }
    lock_drop(&backend->config_lock);
    return entry != NULL ? entry->value : NULL;
}

static void host_wake(void *ctx) {
    progress_wake(((struct nixl_backend *)ctx)->agent);
}

static struct nixl_host host_make(struct nixl_backend *backend) {
    const struct nixl_agent *agent = backend->agent;

    return (struct nixl_host){
        .abi = NIXL_BACKEND_ABI,
        .size = sizeof(struct nixl_host),
        .ctx = backend,
        .agent = agent->name,
        .progress_thread = agent->progress.has_thread,
        .telemetry = agent->telemetry,
        .sync = agent->sync,
        .stall_timeout_ms = agent->stall_timeout_ms,
        .fail = host_fail,
        .log = host_log,
        .log_wants = host_log_wants,
        .config = host_config,
        .complete = xfer_complete,
        .notified = notif_on_arrival,
        .peer_failed = peer_on_failure,
        .wake = host_wake,
    };
}

/* ---- their faults in words ---- */

nixl_status_t backend_fault(const struct nixl_backend *backend, unsigned mark, nixl_status_t status,
                            const char *doing) {
    if (status >= 0) {
        return fail(NIXL_ERR_BACKEND,
                    "backend %s: %s: the backend answered %d, which says neither done nor failed",
                    backend->ops.name, doing, (int)status);
    }
    if (backend_words_given == mark) {
        return fail(status, "backend %s: %s failed (%s)", backend->ops.name, doing,
                    error_status_name(status));
    }
    error_prefix("backend %s", backend->ops.name);
    return status;
}

/* ---- opening one ---- */

static void backend_free(struct nixl_backend *backend) {
    while (backend->config_values != NULL) {
        struct config_value *next = backend->config_values->next;

        free(backend->config_values->value);
        free(backend->config_values);
        backend->config_values = next;
    }
    plugin_options_free(&backend->options);
    free(backend->words);
    free(backend);
}

static nixl_status_t instance_check(struct nixl_backend *backend) {
    const struct nixl_instance *instance = &backend->instance;
    const struct nixl_backend_ops *ops = &backend->ops;
    nixl_status_t status;

    if ((instance->caps & NIXL_CAP_REMOTE) != 0 && (instance->caps & NIXL_CAP_NOTIF) == 0) {
        return fail(
            NIXL_ERR_BACKEND,
            "backend %s reaches other agents but carries no notifications: it must do both or neither",
            ops->name);
    }
    if ((instance->mems & ((1u << NIXL_MEM_KINDS) - 1u)) == 0) {
        return fail(NIXL_ERR_BACKEND, "backend %s works for no kind of memory here", ops->name);
    }
    status = plugin_check_caps(ops->name, ops, instance->caps);
    if (status != NIXL_SUCCESS) {
        return status;
    }
    if ((instance->event_fd >= 0 || instance->period_us != 0) && ops->progress == NULL) {
        return fail(NIXL_ERR_BACKEND,
                    "backend %s is faulty: it asks for progress and has no operation for it", ops->name);
    }
    if (instance->event_fd >= 0 && ops->arm == NULL) {
        return fail(NIXL_ERR_BACKEND, "backend %s is faulty: it has an event descriptor that cannot be armed",
                    ops->name);
    }
    return NIXL_SUCCESS;
}

/* What a REMOTE backend publishes of itself does not change: asked for once. */
static nixl_status_t conn_ask(struct nixl_backend *backend) {
    unsigned mark = backend_mark();
    nixl_status_t status;

    if ((backend->instance.caps & NIXL_CAP_REMOTE) == 0) {
        return NIXL_SUCCESS;
    }
    status = backend->ops.conn_info(backend->self, &backend->conn, &backend->conn_len);
    if (status != NIXL_SUCCESS) {
        return backend_fault(backend, mark, status, "telling how to reach it");
    }
    if (backend->conn == NULL || backend->conn_len == 0) {
        return fail(NIXL_ERR_BACKEND, "backend %s is faulty: it has no connection information",
                    backend->ops.name);
    }
    if (backend->ops.note == NULL) {
        return NIXL_SUCCESS;
    }
    status = backend->ops.note(backend->self, &backend->note, &backend->note_len);
    if (status != NIXL_SUCCESS) {
        return backend_fault(backend, mark, status, "telling its note");
    }
    if (backend->note_len > 255 || (backend->note_len != 0 && backend->note == NULL)) {
        return fail(NIXL_ERR_BACKEND, "backend %s is faulty: its note has %zu bytes, at most 255 travel",
                    backend->ops.name, backend->note_len);
    }
    return NIXL_SUCCESS;
}

/* Opens the instance; it is closed again when what it says of itself cannot be. */
static nixl_status_t instance_open(struct nixl_backend *backend) {
    unsigned mark = backend_mark();
    nixl_status_t status;

    backend->host = host_make(backend);
    backend->instance = (struct nixl_instance){
        .size = sizeof(struct nixl_instance),
        .mems = backend->ops.mems,
        .caps = backend->ops.caps,
        .rank = backend->ops.rank,
        .event_fd = -1,
    };
    lock_take(&backend->control);
    status = backend->ops.open(&backend->host, backend->options.values, &backend->instance, &backend->self);
    if (status != NIXL_SUCCESS) {
        status = backend_fault(backend, mark, status, "opening it");
    } else {
        status = instance_check(backend);
        if (status == NIXL_SUCCESS) {
            status = conn_ask(backend);
        }
        if (status != NIXL_SUCCESS) {
            backend->ops.close(backend->self);
        }
    }
    lock_drop(&backend->control);
    backend->instance.mems &= (1u << NIXL_MEM_KINDS) - 1u;
    backend->is_timed = backend->ops.cost == NULL;
    backend->needs_progress = backend->instance.event_fd >= 0 || backend->instance.period_us != 0;
    backend->can_wait = backend->instance.event_fd >= 0 && backend->ops.wait != NULL;
    return status;
}

static void instance_close(struct nixl_backend *backend) {
    lock_take(&backend->control);
    backend->ops.close(backend->self);
    lock_drop(&backend->control);
}

/* Puts an open backend into the agent: from now on calls choose it. */
static nixl_status_t backend_add(struct nixl_agent *agent, struct nixl_backend *backend) {
    nixl_status_t status = NIXL_SUCCESS;

    if (asprintf(&backend->words, "%s %s", backend->ops.name, backend->ops.version) < 0) {
        backend->words = NULL;
        return fail_memory("a backend's description", 0);
    }
    backend->slot = agent->backend_count;
    if (backend->needs_progress) {
        status = progress_add_backend(agent, backend);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    tables_change(agent);
    agent->backends[backend->slot] = backend;
    __atomic_store_n(&agent->backend_count, backend->slot + 1, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < sizeof agent->able / sizeof agent->able[0]; i++) {
        if ((backend->instance.caps & (1u << i)) != 0) {
            __atomic_store_n(&agent->able[i], agent->able[i] | 1u << backend->slot, __ATOMIC_RELEASE);
        }
    }
    if ((backend->instance.caps & NIXL_CAP_REMOTE) != 0) {
        changes_cut(agent);
    }
    tables_leave(agent);
    progress_wake(agent); /* a progress thread that sleeps has yet to arm it */
    return NIXL_SUCCESS;
}

/* The two GDS backends drive one library in ways that exclude each other. */
static nixl_status_t company_check(struct nixl_agent *agent, const char *type) {
    if (backend_find(agent, type, strlen(type)) != NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "agent %s has a backend %s already: one of a type is all",
                    agent->name, type);
    }
    if ((strcmp(type, "GDS") == 0 && backend_find(agent, "GDS_MT", 6) != NULL) ||
        (strcmp(type, "GDS_MT") == 0 && backend_find(agent, "GDS", 3) != NULL)) {
        return fail(NIXL_ERR_NOT_ALLOWED, "GDS and GDS_MT exclude each other in one agent");
    }
    if (agent->backend_count == AGENT_BACKENDS) {
        return fail(NIXL_ERR_BACKEND, "agent %s has %d backends, the most there can be", agent->name,
                    AGENT_BACKENDS);
    }
    return NIXL_SUCCESS;
}

static nixl_status_t backend_open(struct nixl_agent *agent, const char *type, const struct nixl_param *params,
                                  size_t param_count, struct nixl_backend **backend) {
    struct nixl_backend *made;
    struct plugin *plugin;
    nixl_status_t status = plugin_open(type, &plugin);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        return fail_memory("a backend", sizeof *made);
    }
    made->agent = agent;
    made->plugin = plugin;
    made->ops = plugin->ops;
    status = plugin_options_parse(plugin, params, param_count, &made->options);
    if (status == NIXL_SUCCESS) {
        status = instance_open(made);
        if (status == NIXL_SUCCESS) {
            status = backend_add(agent, made);
            if (status != NIXL_SUCCESS) {
                instance_close(made);
            }
        }
    }
    if (status != NIXL_SUCCESS) {
        backend_free(made);
        return status;
    }
    log_debug("agent %s has backend %s", agent->name, nixl_backend_description(made));
    *backend = made;
    return NIXL_SUCCESS;
}

nixl_status_t nixl_backend_create(struct nixl_agent *agent, const char *type, const struct nixl_param *params,
                                  size_t param_count, struct nixl_backend **backend) {
    nixl_status_t status;

    if (backend == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "backend create: backend is NULL");
    }
    *backend = NULL;
    if (type == NULL || type[0] == '\0') {
        return fail(NIXL_ERR_INVALID_PARAM, "backend create: no type is given");
    }
    status = agent_enter(agent, "backend create");
    if (status != NIXL_SUCCESS) {
        return status;
    }
    lock_take(&agent->loading);
    status = company_check(agent, type);
    if (status == NIXL_SUCCESS) {
        status = backend_open(agent, type, params, param_count, backend);
    }
    lock_drop(&agent->loading);
    agent_leave(agent);
    if (status != NIXL_SUCCESS) {
        error_prefix("backend create");
    }
    return status;
}

void backend_close_all(struct nixl_agent *agent) {
    for (unsigned slot = agent->backend_count; slot-- > 0;) {
        struct nixl_backend *backend = agent->backends[slot];

        instance_close(backend);
        agent->backends[slot] = NULL;
        __atomic_store_n(&agent->backend_count, slot, __ATOMIC_RELEASE);
        backend_free(backend);
    }
}

/* ---- looking at them ---- */

struct nixl_backend *backend_find(struct nixl_agent *agent, const char *type, size_t len) {
    unsigned count = backend_count(agent);

    for (unsigned slot = 0; slot < count; slot++) {
        const char *name = agent->backends[slot]->ops.name;

        if (strlen(name) == len && memcmp(name, type, len) == 0) {
            return agent->backends[slot];
        }
    }
    return NULL;
}

struct nixl_backend *nixl_backend_find(struct nixl_agent *agent, const char *type) {
    struct nixl_backend *backend;

    if (type == NULL) {
        (void)fail(NIXL_ERR_INVALID_PARAM, "backend find: no type is given");
        return NULL;
    }
    if (agent_enter(agent, "backend find") != NIXL_SUCCESS) {
        return NULL;
    }
    backend = backend_find(agent, type, strlen(type));
    agent_leave(agent);
    if (backend == NULL) {
        (void)fail(NIXL_ERR_NOT_FOUND, "backend find: agent %s has no backend %s", agent->name, type);
    }
    return backend;
}

size_t nixl_backend_list(struct nixl_agent *agent, struct nixl_backend **backends, size_t max) {
    size_t count;

    if (agent_enter(agent, "backend list") != NIXL_SUCCESS) {
        return 0;
    }
    count = backend_count(agent);
    for (size_t i = 0; i < count && i < max && backends != NULL; i++) {
        backends[i] = agent->backends[i];
    }
    agent_leave(agent);
    return count;
}

const char *nixl_backend_type(const struct nixl_backend *backend) {
    return backend != NULL ? backend->ops.name : "";
}

uint32_t nixl_backend_caps(const struct nixl_backend *backend) {
    return backend != NULL ? backend->instance.caps : 0;
}

uint32_t nixl_backend_mems(const struct nixl_backend *backend) {
    return backend != NULL ? backend->instance.mems : 0;
}

const char *nixl_backend_description(const struct nixl_backend *backend) {
    const char *words = NULL;

    if (backend == NULL) {
        return "";
    }
    if (backend->ops.describe != NULL && backend->agent->fork_generation == fork_generation()) {
        words = backend->ops.describe(backend->self);
    }
    return words != NULL ? words : backend->words;
}

nixl_status_t nixl_backend_params(const struct nixl_backend *backend, struct nixl_params **params) {
    if (params == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "backend params: params is NULL");
    }
    *params = NULL;
    if (backend == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "backend params: backend is NULL");
    }
    return plugin_options_params(backend->plugin, &backend->options, params);
}
