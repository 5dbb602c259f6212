/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds and opens backend plugins and parses their options. One registry a process; safe from any thread. A
 * plugin's file, once opened well, stays loaded (libraries below it do not survive being unloaded); one that
 * is refused is closed.
 */
#ifndef PLUGIN_PLUGIN_H
#define PLUGIN_PLUGIN_H

#include <nixl/backend.h>
#include <nixl/nixl.h>

struct plugin {
    char *name;
    char *path;                           /* "(static)" for one in libnixl */
    void *file;                           /* dlopen handle, NULL when static */
    const struct nixl_backend_ops *table; /* the plugin's own, NULL until opened */
    struct nixl_backend_ops ops;          /* a copy, zero beyond the table's size */
};

/* Names of all that can be asked for, sorted, one heap block. */
nixl_status_t plugin_list(struct nixl_names **names);

/* Opens (once) and checks a plugin: loader's reason, entry symbol, ABI, sizes, names, pointers that its
 * capabilities require, option table. The reference's plugins are told apart by their entry symbol. Fails:
 * NOT_FOUND, BACKEND, MISMATCH. */
nixl_status_t plugin_open(const char *name, struct plugin **plugin);

/* Whether a table has the operations that these capabilities need: again after open() added some. BACKEND. */
nixl_status_t plugin_check_caps(const char *name, const struct nixl_backend_ops *ops, uint32_t caps);

/* Describes it for users. One heap block. */
nixl_status_t plugin_describe(struct plugin *plugin, struct nixl_plugin_info **info);

/* Names of plugins, among those found, that take both kinds and (if remote) reach peers: "POSIX, GDS"; opens
 * files to see. For hints in errors. Returns how many. */
unsigned plugin_suggest(nixl_mem_t local, nixl_mem_t remote, bool remote_peer, char *text, size_t size);

/* An option set filled from parameters, environment and defaults by the plugin's table. */
struct plugin_options {
    void *values; /* ops.options_bytes, what the backend reads */
    char **texts; /* the value of each option as text, in the table's order; strings point into them */
    size_t count;
};

/* Fails: INVALID_PARAM (unknown name: the text lists the known ones; twice; malformed; out of range), in
 * words. */
nixl_status_t plugin_options_parse(const struct plugin *plugin, const struct nixl_param *params, size_t count,
                                   struct plugin_options *options);
void plugin_options_free(struct plugin_options *options);
/* name -> value in force, secrets as "***". One heap block. */
nixl_status_t plugin_options_params(const struct plugin *plugin, const struct plugin_options *options,
                                    struct nixl_params **params);

#endif
