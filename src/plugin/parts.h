/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of src/plugin share: the folder of plugins, a file looked at before it is loaded, a table
 * checked before it is trusted, one option's value. Nobody outside src/plugin includes it.
 */
#ifndef PLUGIN_PARTS_H
#define PLUGIN_PARTS_H

#include "plugin/plugin.h"

#include <stdbool.h>
#include <stddef.h>

/* A file is called this, its plugin's name, and that. */
#define PLUGIN_PREFIX "libplugin_"
#define PLUGIN_SUFFIX ".so"
/* The entry symbol of the reference's plugins, which are C++ objects that cannot be called from here. */
#define PLUGIN_FOREIGN_ENTRY "nixl_plugin_init"

/* What stands for the path of a plugin that is part of libnixl. */
#define PLUGIN_BUILTIN_PATH "(static)"

/* ---- builtin.c ---- */

struct plugin_builtin {
    const char *name;
    const struct nixl_backend_ops *(*entry)(void);
};

/* The plugins that are part of the library, one after the other; NULL begins and ends. They go before files of the same name. */
const struct plugin_builtin *plugin_builtin_next(const struct plugin_builtin *last);
/* NULL: there is none of that name. */
const struct plugin_builtin *plugin_builtin_find(const char *name);

/* ---- discover.c ---- */

/* The folder of plugins: NIXL_PLUGIN_DIR, else "plugins" beside the library. A malloc'd copy. */
nixl_status_t plugin_folder(char **folder);
/* The names of the plugin files in a folder, sorted; a folder that is not there has none. Free with
 * plugin_names_free(). */
nixl_status_t plugin_names(const char *folder, char ***names, size_t *count);
void plugin_names_free(char **names, size_t count);
/* True for what may stand between prefix and suffix: 1 to NIXL_NAME_MAX bytes, no slash, no control
 * character. */
bool plugin_name_is_good(const char *name);

/* ---- probe.c ---- */

/*
 * Looks at a file without loading it: regular, readable, an ELF object for this processor, not one of the
 * reference's plugins. What is wrong is said better here than by the loader, and no foreign constructor runs.
 * Fails: NOT_FOUND, BACKEND, MISMATCH.
 */
nixl_status_t plugin_probe(const char *name, const char *path);

/* ---- check.c ---- */

/* Checks the table that a plugin's entry gave and copies what of it this library knows to `ops`. `name` is
 * the file's. Fails: MISMATCH (another interface), BACKEND (a fault of the plugin), in words. */
nixl_status_t plugin_check(const char *name, const struct nixl_backend_ops *table,
                           struct nixl_backend_ops *ops);

/* ---- options.c ---- */

/* Parses `text` as the option's kind and, if `values` is not NULL, stores it there. `kept` is the copy of the
 * text that a string option points to. False with the reason in `why`. */
bool plugin_option_store(const struct nixl_option *option, const char *text, const char *kept, void *values,
                         char *why, size_t why_size);
/* "bool", "int", ...; NULL for an unknown kind. */
const char *plugin_option_kind(enum nixl_option_kind kind);
/* Bytes that a value of that kind takes, and their alignment; 0 for an unknown kind. */
size_t plugin_option_bytes(enum nixl_option_kind kind);

#endif
