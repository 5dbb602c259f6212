/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixl-info: the library's version, the backends found and whether each one opens here, their options. For people, or
 * as JSON.
 */
#include "ask.h"
#include "etcd.h"
#include "peer.h"
#include "probe.h"

#include "base/error.h"

#include <nixl/nixl.h>

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request {
    bool json, no_open, brief, etcd;
    const char *peer; /* NULL: backends are asked for */
    char **names;     /* asked for; none: all */
    int count;
};

static const char *const mem_names[NIXL_MEM_KINDS] = {"DRAM", "VRAM", "BLK", "OBJ", "FILE"};

static const struct {
    uint32_t bit;
    const char *name, *words;
} cap_names[] = {
    {NIXL_CAP_REMOTE, "remote", "to other agents"},
    {NIXL_CAP_LOCAL, "local", "within an agent"},
    {NIXL_CAP_NOTIF, "notifications", "with notifications"},
};

static void usage(FILE *out) {
    fprintf(
        out,
        "usage: nixl-info [--json] [--brief] [--no-open] [BACKEND ...]\n"
        "       nixl-info --etcd [--json]\n"
        "       nixl-info --peer HOST[:PORT] [--json]\n"
        "       nixl-info --etcd --peer NAME [--json]\n\n"
        "Shows NIXL's version, the backends that can be asked for, whether they open on this machine, and "
        "their\n"
        "options with default, range and meaning. With names, only those backends.\n\n"
        "  --json     one JSON document\n"
        "  --brief    without the options\n"
        "  --no-open  do not try to open the backends\n"
        "  --etcd     instead: what agents have published in etcd (NIXL_ETCD_ENDPOINTS and its relatives)\n"
        "  --peer     instead: the agent that listens at HOST:PORT (or, with --etcd, the one that has "
        "published "
        "under\n"
        "             NAME): who it is, what it has registered, and which way bytes go from here to it\n"
        "  --version  the version alone\n"
        "  --help     this text\n\n"
        "NIXL_PLUGIN_DIR names the folder of the backends; unset, it is \"plugins\" beside the library.\n");
}

static const struct nixl_option_info *option_at(const struct nixl_plugin_info *plugin, size_t i) {
    return (const struct nixl_option_info *)((const char *)plugin->options + i * plugin->option_bytes);
}

static bool is_number(const struct nixl_option_info *option) {
    return strcmp(option->kind, "int") == 0 || strcmp(option->kind, "uint") == 0 ||
           strcmp(option->kind, "size") == 0;
}

/* The plugin's file without "..", when it can be found; a static plugin has none. */
static const char *plain_path(const struct nixl_plugin_info *plugin, char *buf) {
    return realpath(plugin->path, buf) != NULL ? buf : plugin->path;
}

/* ---- For people ---- */

static void print_set(const char *what, uint32_t mems, uint32_t caps) {
    printf("  %s", what);
    for (size_t i = 0; i < NIXL_MEM_KINDS; i++) {
        if (mems & NIXL_MEM_BIT(i)) {
            printf(" %s", mem_names[i]);
        }
    }
    for (size_t i = 0, n = 0; i < sizeof cap_names / sizeof cap_names[0]; i++) {
        if (caps & cap_names[i].bit) {
            printf("%s%s", n++ == 0 ? "; " : ", ", cap_names[i].words);
        }
    }
    printf("\n");
}

static void print_option(const struct nixl_option_info *option) {
    printf("    %-26s %-7s default %s", option->name, option->kind,
           option->default_value[0] != '\0' ? option->default_value : "\"\"");
    if (option->choices != NULL) {
        printf(", one of %s", option->choices);
    }
    /* Both 0: the plugin sets no limits. */
    if (is_number(option) && (option->min != 0 || option->max != 0)) {
        printf(", %" PRId64 " to %" PRIu64, option->min, option->max);
    }
    if (option->alias != NULL) {
        printf(", also called %s", option->alias);
    }
    printf("\n        %s\n", option->help != NULL ? option->help : "");
}

static void print_plugin(const struct request *request, const struct nixl_plugin_info *plugin) {
    struct probe probe;
    char path[PATH_MAX];

    printf("\n%s %s: %s\n", plugin->name, plugin->version, plugin->summary);
    printf("  file      %s\n", plain_path(plugin, path));
    print_set("offers   ", plugin->mems, plugin->caps);
    if (!request->no_open) {
        probe_backend(plugin->name, &probe);
        if (probe.ok) {
            print_set("opens    ", probe.mems, probe.caps);
            printf("  it says   %s\n", probe.words);
        } else {
            printf("  does not open here: %s\n", probe.words);
        }
    }
    if (request->brief) {
        return;
    }
    if (plugin->option_count == 0) {
        printf("  no options\n");
    } else {
        printf("  options\n");
    }
    for (size_t i = 0; i < plugin->option_count; i++) {
        print_option(option_at(plugin, i));
    }
}

static bool show_text(const struct request *request, const struct nixl_names *names) {
    bool ok = true;

    printf("NIXL %s\n", nixl_version());
    if (names->count == 0) {
        printf("\nNo backends were found. NIXL_PLUGIN_DIR names their folder; unset, it is \"plugins\" "
               "beside the library.\n");
    }
    for (size_t i = 0; i < names->count; i++) {
        struct nixl_plugin_info *plugin;

        if (nixl_plugin_describe(names->items[i], &plugin) == NIXL_SUCCESS) {
            print_plugin(request, plugin);
            nixl_free(plugin);
        } else {
            printf("\n%s: cannot be used: %s\n", names->items[i], nixl_error());
            ok = false;
        }
    }
    return ok;
}

/* ---- As JSON. jansson's functions accept NULL values by failing, which the dump at the end then shows. ---- */

static json_t *mems_json(uint32_t mems) {
    json_t *list = json_array();

    for (size_t i = 0; i < NIXL_MEM_KINDS; i++) {
        if (mems & NIXL_MEM_BIT(i)) {
            json_array_append_new(list, json_string(mem_names[i]));
        }
    }
    return list;
}

static json_t *caps_json(uint32_t caps) {
    json_t *list = json_array();

    for (size_t i = 0; i < sizeof cap_names / sizeof cap_names[0]; i++) {
        if (caps & cap_names[i].bit) {
            json_array_append_new(list, json_string(cap_names[i].name));
        }
    }
    return list;
}

static json_t *text_json(const char *text) {
    json_t *json = text != NULL ? json_string(text) : json_null();

    return json != NULL ? json : json_string("(not text)");
}

static json_t *option_json(const struct nixl_option_info *option) {
    json_t *o = json_object();

    json_object_set_new(o, "name", text_json(option->name));
    json_object_set_new(o, "kind", text_json(option->kind));
    json_object_set_new(o, "default", text_json(option->default_value));
    json_object_set_new(o, "choices", text_json(option->choices));
    json_object_set_new(o, "alias", text_json(option->alias));
    json_object_set_new(o, "help", text_json(option->help));
    if (is_number(option)) {
        json_object_set_new(o, "min", json_integer(option->min));
        /* JSON's numbers end before 2^64. */
        json_object_set_new(o, "max",
                            option->max <= INT64_MAX ? json_integer((json_int_t)option->max)
                                                     : json_real((double)option->max));
    }
    return o;
}

static json_t *plugin_json(const struct request *request, const struct nixl_plugin_info *plugin) {
    json_t *o = json_object();
    json_t *options = json_array();
    struct probe probe;
    char path[PATH_MAX];

    json_object_set_new(o, "name", text_json(plugin->name));
    json_object_set_new(o, "version", text_json(plugin->version));
    json_object_set_new(o, "summary", text_json(plugin->summary));
    json_object_set_new(o, "path", text_json(plain_path(plugin, path)));
    json_object_set_new(o, "mems", mems_json(plugin->mems));
    json_object_set_new(o, "caps", caps_json(plugin->caps));
    if (!request->no_open) {
        probe_backend(plugin->name, &probe);
        json_object_set_new(o, "opens", json_boolean(probe.ok));
        json_object_set_new(o, probe.ok ? "description" : "error", text_json(probe.words));
        if (probe.ok) {
            json_object_set_new(o, "mems_here", mems_json(probe.mems));
            json_object_set_new(o, "caps_here", caps_json(probe.caps));
        }
    }
    for (size_t i = 0; !request->brief && i < plugin->option_count; i++) {
        json_array_append_new(options, option_json(option_at(plugin, i)));
    }
    json_object_set_new(o, "options", options);
    return o;
}

static bool show_json(const struct request *request, const struct nixl_names *names) {
    json_t *root = json_object();
    json_t *list = json_array();
    bool ok = true;

    json_object_set_new(root, "version", text_json(nixl_version()));
    for (size_t i = 0; i < names->count; i++) {
        struct nixl_plugin_info *plugin;
        json_t *o;

        if (nixl_plugin_describe(names->items[i], &plugin) == NIXL_SUCCESS) {
            o = plugin_json(request, plugin);
            nixl_free(plugin);
        } else {
            o = json_object();
            json_object_set_new(o, "name", text_json(names->items[i]));
            json_object_set_new(o, "opens", json_false());
            json_object_set_new(o, "error", text_json(nixl_error()));
            ok = false;
        }
        json_array_append_new(list, o);
    }
    json_object_set_new(root, "plugins", list);
    if (json_dumpf(root, stdout, JSON_INDENT(1)) != 0) {
        fprintf(stderr, "nixl-info: the JSON document could not be written\n");
        ok = false;
    }
    printf("\n");
    json_decref(root);
    return ok;
}

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, struct request *request) {
    request->names = argv + 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            request->json = true;
        } else if (strcmp(argv[i], "--no-open") == 0) {
            request->no_open = true;
        } else if (strcmp(argv[i], "--open") == 0) {
            request->no_open = false;
        } else if (strcmp(argv[i], "--brief") == 0) {
            request->brief = true;
        } else if (strcmp(argv[i], "--etcd") == 0) {
            request->etcd = true;
        } else if (strcmp(argv[i], "--peer") == 0 || strncmp(argv[i], "--peer=", 7) == 0) {
            request->peer = argv[i][6] == '=' ? argv[i] + 7 : ++i < argc ? argv[i] : "";
            if (request->peer[0] == '\0') {
                fprintf(stderr, "nixl-info: --peer needs HOST:PORT, or with --etcd an agent's name\n");
                return EXIT_FAILURE;
            }
        } else if (strcmp(argv[i], "--version") == 0) {
            printf("nixl-info %s\n", nixl_version());
            return EXIT_SUCCESS;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            usage(stdout);
            return EXIT_SUCCESS;
        } else if (argv[i][0] == '-') {
            fprintf(stderr, "nixl-info: unknown flag %s\n", argv[i]);
            usage(stderr);
            return EXIT_FAILURE;
        } else {
            request->names[request->count++] = argv[i];
        }
    }
    return -1;
}

#define ASK_MS 5000

static bool peer_ask(const struct request *request) {
    struct bytes blob = {0};
    bool ok;

#ifdef NIXL_HAS_ETCD
    if (request->etcd) {
        ok = etcd_blob(request->peer, &blob);
    } else
#endif
    {
        ok = ask_agent(request->peer, ASK_MS, &blob) == NIXL_SUCCESS;
        if (!ok) {
            fprintf(stderr, "nixl-info: %s\n", error_text());
        }
    }
    ok = ok && peer_show(&blob, request->json);
    bytes_free(&blob);
    return ok;
}

int main(int argc, char **argv) {
    struct request request = {0};
    struct nixl_names *found = NULL;
    struct nixl_names names;
    int rc = parse(argc, argv, &request);
    bool ok;

    if (rc >= 0) {
        return rc;
    }
#ifndef NIXL_HAS_ETCD
    if (request.etcd) {
        fprintf(stderr, "nixl-info: --etcd: this nixl-info was built without libcurl\n");
        return EXIT_FAILURE;
    }
#endif
    if (request.peer != NULL) {
        return peer_ask(&request) ? EXIT_SUCCESS : EXIT_FAILURE;
    }
#ifdef NIXL_HAS_ETCD
    if (request.etcd) {
        return etcd_show(request.json) ? EXIT_SUCCESS : EXIT_FAILURE;
    }
#endif
    if (request.count != 0) {
        names = (struct nixl_names){(size_t)request.count, (const char *const *)request.names};
    } else {
        if (nixl_plugin_list(&found) != NIXL_SUCCESS) {
            fprintf(stderr, "nixl-info: %s\n", nixl_error());
            return EXIT_FAILURE;
        }
        names = *found;
    }
    ok = request.json ? show_json(&request, &names) : show_text(&request, &names);
    nixl_free(found);
    /* A backend that was found and cannot be used is an answer; one that was asked for by name, a failure. */
    return ok || request.count == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
