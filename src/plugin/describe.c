/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugins and options as users see them: each answer is one heap block. Strings of a plugin are used where
 * they are, since its file stays loaded.
 */
#include "plugin/parts.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

nixl_status_t plugin_describe(struct plugin *plugin, struct nixl_plugin_info **info) {
    const struct nixl_backend_ops *ops = &plugin->ops;
    size_t bytes = sizeof(struct nixl_plugin_info) + ops->option_count * sizeof(struct nixl_option_info);
    struct nixl_plugin_info *block = calloc(1, bytes);
    struct nixl_option_info *options;

    *info = NULL;
    if (block == NULL) {
        return fail_memory("a plugin's description", bytes);
    }
    options = (struct nixl_option_info *)(block + 1);
    for (size_t i = 0; i < ops->option_count; i++) {
        const struct nixl_option *from = &ops->options[i];

        options[i] = (struct nixl_option_info){
            .name = from->name,
            .kind = plugin_option_kind(from->kind),
            .default_value = from->secret && from->default_value[0] != '\0' ? "***" : from->default_value,
            .choices = from->kind == NIXL_OPTION_ENUM ? from->choices : NULL,
            .alias = from->alias,
            .help = from->help,
            .min = from->min,
            .max = from->max,
        };
    }
    *block = (struct nixl_plugin_info){
        .name = plugin->name,
        .version = ops->version,
        .summary = ops->summary,
        .path = plugin->path,
        .mems = ops->mems,
        .caps = ops->caps,
        .option_count = ops->option_count,
        .option_bytes = sizeof(struct nixl_option_info),
        .options = options,
    };
    *info = block;
    return NIXL_SUCCESS;
}

static const char *shown(const struct nixl_option *option, const char *text) {
    return option->secret && text[0] != '\0' ? "***" : text;
}

nixl_status_t plugin_options_params(const struct plugin *plugin, const struct plugin_options *options,
                                    struct nixl_params **params) {
    const struct nixl_option *table = plugin->ops.options;
    size_t bytes = sizeof(struct nixl_params) + options->count * sizeof(struct nixl_param);
    struct nixl_params *block;
    struct nixl_param *items;
    char *text;

    *params = NULL;
    for (size_t i = 0; i < options->count; i++) {
        bytes += strlen(shown(&table[i], options->texts[i])) + 1;
    }
    block = malloc(bytes);
    if (block == NULL) {
        return fail_memory("parameters", bytes);
    }
    items = (struct nixl_param *)(block + 1);
    text = (char *)(items + options->count);
    for (size_t i = 0; i < options->count; i++) {
        const char *value = shown(&table[i], options->texts[i]);
        size_t size = strlen(value) + 1;

        memcpy(text, value, size);
        items[i] = (struct nixl_param){.key = table[i].name, .value = text};
        text += size;
    }
    block->count = options->count;
    block->items = items;
    *params = block;
    return NIXL_SUCCESS;
}
