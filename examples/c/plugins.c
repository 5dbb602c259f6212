/* SPDX-License-Identifier: Apache-2.0 */
/* Which backends are there, what they take, and the options of each with kind, default and meaning. No agent is needed.
 *   plugins [NAME]        all of them, or one with its options */
#include <nixl/nixl.h>
#include <stdio.h>
#include <stdlib.h>

static void print_options(const struct nixl_plugin_info *info) {
    const char *at = (const char *)info->options;

    for (size_t i = 0; i < info->option_count; i++, at += info->option_bytes) {
        const struct nixl_option_info *option = (const void *)at;
        printf("    %-24s %-6s default \"%s\"  %s\n", option->name, option->kind, option->default_value,
               option->help);
    }
}

static int print_plugin(const char *name, bool with_options) {
    struct nixl_plugin_info *info;

    if (nixl_plugin_describe(name, &info) != NIXL_SUCCESS) {
        printf("%s: %s\n", name, nixl_error());
        return 1;
    }
    printf("%s %s: %s\n    memory:", info->name, info->version, info->summary);
    for (int kind = 0; kind < NIXL_MEM_KINDS; kind++) {
        if (info->mems & NIXL_MEM_BIT(kind)) {
            printf(" %s", nixl_mem_string((nixl_mem_t)kind));
        }
    }
    printf("\n    reaches: %s%s\n", info->caps & NIXL_CAP_REMOTE ? "other agents " : "",
           info->caps & NIXL_CAP_LOCAL ? "its own agent" : "");
    if (with_options) {
        print_options(info);
    }
    nixl_free(info);
    return 0;
}

int main(int argc, char **argv) {
    struct nixl_names *names;
    int failed = 0;

    if (argc > 1) {
        return print_plugin(argv[1], true);
    }
    if (nixl_plugin_list(&names) != NIXL_SUCCESS) {
        fprintf(stderr, "plugins: %s\n", nixl_error());
        return 1;
    }
    printf("libnixl %s, %zu plugins\n", nixl_version(), names->count);
    for (size_t i = 0; i < names->count; i++) {
        failed += print_plugin(names->items[i], false);
    }
    nixl_free(names);
    return failed ? 1 : 0;
}
