/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where plugins are, and which there are, by their files' names alone: nothing is opened. The folder is
 * looked at anew each time, so one that is filled later, or named by a variable that is set later, is seen.
 */
#include "plugin/parts.h"

#include "base/array.h"
#include "base/config.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Any address within this library (or the program that holds it) tells the loader which file is meant. */
static const char here;

static nixl_status_t default_folder(char **folder) {
    Dl_info info;
    const char *slash;
    size_t dir_len;
    char *text;

    if (dladdr(&here, &info) == 0 || info.dli_fname == NULL) {
        return fail(NIXL_ERR_BACKEND, "the folder of plugins is not known: the loader does not tell where "
                                      "libnixl is; set NIXL_PLUGIN_DIR");
    }
    slash = strrchr(info.dli_fname, '/');
    dir_len = slash != NULL ? (size_t)(slash - info.dli_fname) : 0;
    text = malloc(dir_len + sizeof "./plugins");
    if (text == NULL) {
        return fail_memory("the plugin folder's name", dir_len);
    }
    if (slash == NULL) {
        memcpy(text, "./plugins", sizeof "./plugins");
    } else {
        memcpy(text, info.dli_fname, dir_len);
        memcpy(text + dir_len, "/plugins", sizeof "/plugins");
    }
    *folder = text;
    return NIXL_SUCCESS;
}

nixl_status_t plugin_folder(char **folder) {
    char *named;
    nixl_status_t status;

    *folder = NULL;
    status = config_get_string("NIXL_PLUGIN_DIR", NULL, &named);
    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (named != NULL && named[0] != '\0') {
        *folder = named;
        return NIXL_SUCCESS;
    }
    free(named);
    return default_folder(folder);
}

bool plugin_name_is_good(const char *name) {
    /* Longer ones cannot be in a file's name. */
    const size_t most = NAME_MAX - (sizeof PLUGIN_PREFIX - 1) - (sizeof PLUGIN_SUFFIX - 1);
    size_t len = strnlen(name, most + 1);

    if (len == 0 || len > most) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (name[i] == '/' || (unsigned char)name[i] < 0x20 || name[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

/* The plugin's name in a file's name: cut out in place, NULL when it is no plugin's. */
static char *name_of_file(char *file) {
    const size_t prefix = sizeof PLUGIN_PREFIX - 1;
    const size_t suffix = sizeof PLUGIN_SUFFIX - 1;
    size_t len = strlen(file);

    if (len <= prefix + suffix || memcmp(file, PLUGIN_PREFIX, prefix) != 0 ||
        memcmp(file + len - suffix, PLUGIN_SUFFIX, suffix) != 0) {
        return NULL;
    }
    file[len - suffix] = '\0';
    return plugin_name_is_good(file + prefix) ? file + prefix : NULL;
}

static bool is_file(const char *folder, const char *file) {
    char path[4096];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/%s", folder, file);

    return n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

nixl_status_t plugin_names(const char *folder, char ***names, size_t *count) {
    char **files;
    size_t n;
    size_t kept = 0;
    int err = file_list(folder, &files, &n);

    *names = NULL;
    *count = 0;
    if (err == ENOENT || err == ENOTDIR || err == EACCES) {
        log_debug("the folder of plugins %s cannot be read: %s", folder, strerror(err));
        return NIXL_SUCCESS;
    }
    if (err != 0) {
        return fail_errno(NIXL_ERR_BACKEND, err, "the folder of plugins %s cannot be read", folder);
    }
    for (size_t i = 0; i < n; i++) {
        char *name = is_file(folder, files[i]) ? name_of_file(files[i]) : NULL;

        if (name != NULL) {
            memmove(files[i], name, strlen(name) + 1);
            char *keep = files[i];
            files[i] = files[kept];
            files[kept++] = keep;
        }
    }
    for (size_t i = kept; i < n; i++) {
        free(files[i]);
    }
    if (kept > 1) {
        qsort(files, kept, sizeof *files, by_name);
    }
    *names = files;
    *count = kept;
    return NIXL_SUCCESS;
}

void plugin_names_free(char **names, size_t count) {
    file_list_free(names, count);
}

static bool is_among(const char *name, char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds the plugins that are part of the library to the sorted names of files. */
static nixl_status_t builtins_add(char ***names, size_t *count) {
    const struct plugin_builtin *builtin = NULL;
    size_t n = *count;

    while ((builtin = plugin_builtin_next(builtin)) != NULL) {
        char **grown;
        char *name;

        if (is_among(builtin->name, *names, *count)) {
            continue;
        }
        grown = realloc(*names, (n + 1) * sizeof *grown);
        name = strdup(builtin->name);
        if (grown != NULL) {
            *names = grown;
        }
        if (grown == NULL || name == NULL) {
            free(name);
            *count = n;
            return fail_memory("the list of plugins", n);
        }
        grown[n++] = name;
    }
    if (n > *count) {
        qsort(*names, n, sizeof **names, by_name);
    }
    *count = n;
    return NIXL_SUCCESS;
}

nixl_status_t plugin_list(struct nixl_names **names) {
    char *folder;
    char **found;
    size_t count;
    size_t bytes = sizeof(struct nixl_names);
    struct nixl_names *block;
    const char **items;
    char *text;
    nixl_status_t status;

    *names = NULL;
    status = plugin_folder(&folder);
    if (status == NIXL_SUCCESS) {
        status = plugin_names(folder, &found, &count);
        free(folder);
    }
    if (status == NIXL_SUCCESS) {
        status = builtins_add(&found, &count);
        if (status != NIXL_SUCCESS) {
            plugin_names_free(found, count);
        }
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        bytes += sizeof(char *) + strlen(found[i]) + 1;
    }
    block = malloc(bytes);
    if (block == NULL) {
        plugin_names_free(found, count);
        return fail_memory("the list of plugins", bytes);
    }
    items = (const char **)(block + 1);
    text = (char *)(items + count);
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(found[i]) + 1;

        memcpy(text, found[i], size);
        items[i] = text;
        text += size;
    }
    block->count = count;
    block->items = items;
    plugin_names_free(found, count);
    *names = block;
    return NIXL_SUCCESS;
}
