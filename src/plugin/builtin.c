/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backends linked into libnixl (meson option static_plugins): their entries under names of their own. A program that
 * holds this file without them, as unit tests do, has none.
 */
#include "plugin/parts.h"

#include <string.h>

#ifndef STATIC_PLUGINS
#define STATIC_PLUGINS(PLUGIN)
#endif

#define DECLARE(plugin)                                                                                      \
    const struct nixl_backend_ops *static_backend_##plugin(void) __attribute__((weak, visibility("hidde"     \
                                                                                                 "n")));
#define ENTRY(plugin) {#plugin, static_backend_##plugin},

STATIC_PLUGINS(DECLARE)

static const struct plugin_builtin builtins[] = {STATIC_PLUGINS(ENTRY){NULL, NULL}};

const struct plugin_builtin *plugin_builtin_next(const struct plugin_builtin *last) {
    const struct plugin_builtin *next = last == NULL ? builtins : last + 1;

    while (next->name != NULL && next->entry == NULL) {
        next++;
    }
    return next->name != NULL ? next : NULL;
}

const struct plugin_builtin *plugin_builtin_find(const char *name) {
    const struct plugin_builtin *found = plugin_builtin_next(NULL);

    while (found != NULL && strcmp(found->name, name) != 0) {
        found = plugin_builtin_next(found);
    }
    return found;
}
