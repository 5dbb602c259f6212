/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens plugins, each file once a process. The registry is a list that only grows, its lock is held for list
 * work alone: a plugin's file is loaded without it, so that a constructor may do what it likes. A forked
 * child finds the lock open.
 */
#include "plugin/parts.h"

#include "base/array.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct opened {
    struct opened *next;
    struct plugin plugin;
};

static struct opened *registry;
static struct lock registry_lock;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void before_fork(void) {
    lock_take(&registry_lock);
}

static void after_fork(void) {
    lock_drop(&registry_lock);
}

static void fork_register(void) {
    /* Without memory for it a child of a fork in an unlucky moment could wait for ever: nothing to do about
     * it. */
    (void)pthread_atfork(before_fork, after_fork, after_fork);
}

static bool is_same(const struct plugin *plugin, const char *name, const char *path) {
    return strcmp(plugin->path, path) == 0 && strcmp(plugin->name, name) == 0;
}

static struct plugin *registry_find(const char *name, const char *path) {
    struct plugin *found = NULL;

    pthread_once(&fork_once, fork_register);
    lock_take(&registry_lock);
    for (struct opened *o = registry; o != NULL && found == NULL; o = o->next) {
        if (is_same(&o->plugin, name, path)) {
            found = &o->plugin;
        }
    }
    lock_drop(&registry_lock);
    return found;
}

static void opened_free(struct opened *o) {
    if (o != NULL) {
        if (o->plugin.file != NULL) {
            dlclose(o->plugin.file);
        }
        free(o->plugin.name);
        free(o->plugin.path);
        free(o);
    }
}

/* Puts a plugin in, unless another thread was faster with the same file: then that one counts. */
static struct plugin *registry_add(struct opened *mine) {
    struct opened *o;

    lock_take(&registry_lock);
    for (o = registry; o != NULL && !is_same(&o->plugin, mine->plugin.name, mine->plugin.path); o = o->next) {
    }
    if (o == NULL) {
        mine->next = registry;
        registry = mine;
        o = mine;
    }
    lock_drop(&registry_lock);
    if (o != mine) {
        opened_free(mine);
    }
    return &o->plugin;
}

static nixl_status_t file_load(struct plugin *plugin) {
    const struct nixl_backend_ops *(*entry)(void);
    void *symbol;
    const char *reason;

    plugin->file = dlopen(plugin->path, RTLD_NOW | RTLD_LOCAL);
    if (plugin->file == NULL) {
        reason = dlerror();
        return fail(NIXL_ERR_BACKEND, "plugin %s cannot be loaded: %s", plugin->name,
                    reason != NULL ? reason : plugin->path);
    }
    symbol = dlsym(plugin->file, NIXL_BACKEND_ENTRY);
    if (symbol == NULL) {
        return fail(NIXL_ERR_MISMATCH, "%s is not a plugin: it does not export %s", plugin->path,
                    NIXL_BACKEND_ENTRY);
    }
    memcpy(&entry, &symbol, sizeof entry);
    plugin->table = entry();
    return plugin_check(plugin->name, plugin->table, &plugin->ops);
}

/* Opens what is not in the registry: a file, or the part of the library that `builtin` says. */
static nixl_status_t path_open(const char *name, const char *path, const struct plugin_builtin *builtin,
                               struct plugin **plugin) {
    struct opened *o;
    nixl_status_t status = builtin != NULL ? NIXL_SUCCESS : plugin_probe(name, path);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    o = calloc(1, sizeof *o);
    if (o != NULL) {
        o->plugin.name = strdup(name);
        o->plugin.path = strdup(path);
    }
    if (o == NULL || o->plugin.name == NULL || o->plugin.path == NULL) {
        opened_free(o);
        return fail_memory("a plugin", sizeof *o);
    }
    if (builtin != NULL) {
        o->plugin.table = builtin->entry();
        status = plugin_check(name, o->plugin.table, &o->plugin.ops);
    } else {
        status = file_load(&o->plugin);
    }
    if (status != NIXL_SUCCESS) {
        opened_free(o);
        return status;
    }
    log_debug("plugin %s %s is loaded from %s", name, o->plugin.ops.version, path);
    *plugin = registry_add(o);
    return NIXL_SUCCESS;
}

/* "no such plugin", with what is there. */
static nixl_status_t not_there(const char *name, const char *folder) {
    char quoted[128];
    char **names = NULL;
    size_t count = 0;
    char list[512];
    size_t len = 0;

    list[0] = '\0';
    text_quote(quoted, sizeof quoted, name, strnlen(name, NIXL_NAME_MAX + 1));
    if (plugin_names(folder, &names, &count) != NIXL_SUCCESS) {
        count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        text_append(list, sizeof list, &len, "%s%s", i != 0 ? ", " : "", names[i]);
    }
    plugin_names_free(names, count);
    if (count == 0) {
        return fail(NIXL_ERR_NOT_FOUND,
                    "there is no plugin %s: the folder %s has no plugins (NIXL_PLUGIN_DIR names another)",
                    quoted, folder);
    }
    return fail(NIXL_ERR_NOT_FOUND, "there is no plugin %s: the folder %s has %s", quoted, folder, list);
}

static nixl_status_t file_open(const char *name, const char *folder, struct plugin **plugin) {
    char *path;
    nixl_status_t status;

    if (!plugin_name_is_good(name)) {
        return not_there(name, folder);
    }
    if (asprintf(&path, "%s/" PLUGIN_PREFIX "%s" PLUGIN_SUFFIX, folder, name) < 0) {
        return fail_memory("a plugin's path", 0);
    }
    *plugin = registry_find(name, path);
    status = *plugin != NULL ? NIXL_SUCCESS : path_open(name, path, NULL, plugin);
    free(path);
    return status == NIXL_ERR_NOT_FOUND ? not_there(name, folder) : status;
}

nixl_status_t plugin_open(const char *name, struct plugin **plugin) {
    const struct plugin_builtin *builtin = plugin_builtin_find(name);
    char *folder;
    nixl_status_t status;

    *plugin = NULL;
    if (builtin != NULL) {
        *plugin = registry_find(name, PLUGIN_BUILTIN_PATH);
        return *plugin != NULL ? NIXL_SUCCESS : path_open(name, PLUGIN_BUILTIN_PATH, builtin, plugin);
    }
    status = plugin_folder(&folder);
    if (status == NIXL_SUCCESS) {
        status = file_open(name, folder, plugin);
        free(folder);
    }
    return status;
}

unsigned plugin_suggest(nixl_mem_t local, nixl_mem_t remote, bool remote_peer, char *text, size_t size) {
    const uint32_t mems = NIXL_MEM_BIT(local) | NIXL_MEM_BIT(remote);
    const uint32_t cap = remote_peer ? NIXL_CAP_REMOTE : NIXL_CAP_LOCAL;
    char before[ERROR_TEXT_SIZE]; /* failures here are nobody's: the caller's text must survive them */
    struct nixl_names *names;
    struct plugin *plugin;
    unsigned found = 0;
    size_t len = 0;

    if (size != 0) {
        text[0] = '\0';
    }
    memcpy(before, error_text(), strlen(error_text()) + 1);
    if (plugin_list(&names) == NIXL_SUCCESS) {
        for (size_t i = 0; i < names->count; i++) {
            if (plugin_open(names->items[i], &plugin) == NIXL_SUCCESS && (plugin->ops.mems & mems) == mems &&
                (plugin->ops.caps & cap) != 0) {
                text_append(text, size, &len, "%s%s", found != 0 ? ", " : "", names->items[i]);
                found++;
            }
        }
        free(names);
    }
    error_set(before);
    return found;
}
