/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a plugin's table can be trusted: its interface number and size, the operations that its
 * capabilities need, its options. All faults are the plugin author's, so the words are for him; what a check
 * lets pass is not checked again.
 */
#include "plugin/parts.h"

#include "base/error.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A table that is shorter holds no operations; one that is longer is not a size but garbage. */
#define TABLE_MIN offsetof(struct nixl_backend_ops, open)
#define TABLE_MAX ((size_t)64 << 10)
#define OPTIONS_MAX ((size_t)1024)
#define OPTIONS_BYTES_MAX ((size_t)1 << 20)
#define REQUEST_BYTES_MAX ((size_t)1 << 20)
#define MEMS_KNOWN ((1u << NIXL_MEM_KINDS) - 1u)

static nixl_status_t faulty(const char *name, const char *what) {
    return fail(NIXL_ERR_BACKEND, "plugin %s is faulty: %s", name, what);
}

static nixl_status_t lacks(const char *name, const char *operation, const char *because) {
    return fail(NIXL_ERR_BACKEND, "plugin %s is faulty: its table has no %s, which %s", name, operation,
                because);
}

nixl_status_t plugin_check_caps(const char *name, const struct nixl_backend_ops *ops, uint32_t caps) {
    const char *remote = "a backend that reaches other agents needs";

    if ((caps & NIXL_CAP_REMOTE) != 0) {
        if (ops->region_key == NULL) {
            return lacks(name, "region_key", remote);
        }
        if (ops->conn_info == NULL) {
            return lacks(name, "conn_info", remote);
        }
        if (ops->peer_open == NULL || ops->peer_close == NULL) {
            return lacks(name, ops->peer_open == NULL ? "peer_open" : "peer_close", remote);
        }
        if (ops->key_open == NULL || ops->key_close == NULL) {
            return lacks(name, ops->key_open == NULL ? "key_open" : "key_close", remote);
        }
    }
    if ((caps & NIXL_CAP_NOTIF) != 0 && (caps & NIXL_CAP_REMOTE) != 0 && ops->notify == NULL) {
        return lacks(name, "notify", "a backend that carries notifications needs");
    }
    return NIXL_SUCCESS;
}

static nixl_status_t operations_check(const char *name, const struct nixl_backend_ops *ops) {
    const char *always = "every backend needs";

    if (ops->open == NULL || ops->close == NULL) {
        return lacks(name, ops->open == NULL ? "open" : "close", always);
    }
    if (ops->region_open == NULL || ops->region_close == NULL) {
        return lacks(name, ops->region_open == NULL ? "region_open" : "region_close", always);
    }
    if (ops->post == NULL || ops->cancel == NULL) {
        return lacks(name, ops->post == NULL ? "post" : "cancel", always);
    }
    if (ops->view_open != NULL && ops->view_close == NULL) {
        return lacks(name, "view_close", "one with view_open needs");
    }
    return plugin_check_caps(name, ops, ops->caps);
}

static bool names_clash(const struct nixl_option *a, const struct nixl_option *b) {
    return strcmp(a->name, b->name) == 0 || (b->alias != NULL && strcmp(a->name, b->alias) == 0) ||
           (a->alias != NULL && strcmp(a->alias, b->name) == 0) ||
           (a->alias != NULL && b->alias != NULL && strcmp(a->alias, b->alias) == 0);
}

static nixl_status_t option_check(const char *name, const struct nixl_backend_ops *ops, size_t at) {
    const struct nixl_option *option = &ops->options[at];
    size_t bytes = plugin_option_bytes(option->kind);
    char why[256];

    if (option->name == NULL || option->name[0] == '\0' || strlen(option->name) > NIXL_NAME_MAX) {
        return fail(NIXL_ERR_BACKEND, "plugin %s is faulty: its option %zu has no name", name, at);
    }
    if (bytes == 0) {
        return fail(NIXL_ERR_BACKEND, "plugin %s is faulty: option %s is of the unknown kind %d", name,
                    option->name, (int)option->kind);
    }
    if (option->offset % bytes != 0 || option->offset > ops->options_bytes ||
        ops->options_bytes - option->offset < bytes) {
        return fail(NIXL_ERR_BACKEND, "plugin %s is faulty: option %s lies outside its struct", name,
                    option->name);
    }
    if (option->help == NULL || option->default_value == NULL) {
        return fail(NIXL_ERR_BACKEND, "plugin %s is faulty: option %s has no %s", name, option->name,
                    option->help == NULL ? "help" : "default");
    }
    if (option->kind == NIXL_OPTION_ENUM && (option->choices == NULL || option->choices[0] == '\0')) {
        return fail(NIXL_ERR_BACKEND, "plugin %s is faulty: option %s has no choices", name, option->name);
    }
    if (!plugin_option_store(option, option->default_value, NULL, NULL, why, sizeof why)) {
        return fail(NIXL_ERR_BACKEND, "plugin %s is faulty: the default of option %s %s", name, option->name,
                    why);
    }
    for (size_t i = 0; i < at; i++) {
        if (names_clash(&ops->options[i], option)) {
            return fail(NIXL_ERR_BACKEND, "plugin %s is faulty: options %s and %s share a name", name,
                        ops->options[i].name, option->name);
        }
    }
    return NIXL_SUCCESS;
}

static nixl_status_t options_check(const char *name, const struct nixl_backend_ops *ops) {
    nixl_status_t status = NIXL_SUCCESS;

    if (ops->option_count > OPTIONS_MAX || ops->options_bytes > OPTIONS_BYTES_MAX ||
        ops->request_bytes > REQUEST_BYTES_MAX) {
        return faulty(name, "a count or size in its table is absurd");
    }
    if (ops->option_count != 0 && ops->options == NULL) {
        return faulty(name, "it counts options but has no table of them");
    }
    for (size_t i = 0; i < ops->option_count && status == NIXL_SUCCESS; i++) {
        status = option_check(name, ops, i);
    }
    return status;
}

nixl_status_t plugin_check(const char *name, const struct nixl_backend_ops *table,
                           struct nixl_backend_ops *ops) {
    nixl_status_t status;

    if (table == NULL) {
        return faulty(name, NIXL_BACKEND_ENTRY " returned no table");
    }
    if (table->abi != NIXL_BACKEND_ABI) {
        return fail(NIXL_ERR_MISMATCH,
                    "plugin %s is made for plugin interface %u, this library has interface %u", name,
                    (unsigned)table->abi, NIXL_BACKEND_ABI);
    }
    if (table->size < TABLE_MIN || table->size > TABLE_MAX) {
        return fail(NIXL_ERR_MISMATCH,
                    "plugin %s: its table of operations says it has %zu bytes, which cannot be (this "
                    "library's has %zu)",
                    name, table->size, sizeof *ops);
    }
    memset(ops, 0, sizeof *ops);
    memcpy(ops, table, table->size < sizeof *ops ? table->size : sizeof *ops);
    if (ops->name == NULL || ops->version == NULL || ops->summary == NULL) {
        return faulty(name, "its table has no name, version or summary");
    }
    if (strcmp(ops->name, name) != 0) {
        return fail(NIXL_ERR_BACKEND, "plugin %s calls itself %s: the file's name must agree", name,
                    ops->name);
    }
    if ((ops->mems & MEMS_KNOWN) == 0) {
        return faulty(name, "it takes no kind of memory");
    }
    ops->mems &= MEMS_KNOWN;
    status = operations_check(name, ops);
    return status == NIXL_SUCCESS ? options_check(name, ops) : status;
}
