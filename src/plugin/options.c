/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of a backend, by its plugin's table alone: values are taken from parameters, else from the
 * environment or the configuration file, else from the table, parsed strictly and stored where the table
 * says. Values of secret options are never shown.
 */
#include "plugin/parts.h"

#include "base/array.h"
#include "base/config.h"
#include "base/error.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *plugin_option_kind(enum nixl_option_kind kind) {
    switch (kind) {
    case NIXL_OPTION_BOOL:
        return "bool";
    case NIXL_OPTION_INT:
        return "int";
    case NIXL_OPTION_UINT:
        return "uint";
    case NIXL_OPTION_SIZE:
        return "size";
    case NIXL_OPTION_STRING:
        return "string";
    case NIXL_OPTION_ENUM:
        return "enum";
    }
    return NULL;
}

size_t plugin_option_bytes(enum nixl_option_kind kind) {
    switch (kind) {
    case NIXL_OPTION_BOOL:
        return sizeof(bool);
    case NIXL_OPTION_INT:
        return sizeof(int64_t);
    case NIXL_OPTION_UINT:
    case NIXL_OPTION_SIZE:
        return sizeof(uint64_t);
    case NIXL_OPTION_STRING:
        return sizeof(const char *);
    case NIXL_OPTION_ENUM:
        return sizeof(int);
    }
    return 0;
}

/* ---- one value ---- */

static void store(void *values, size_t offset, const void *value, size_t bytes) {
    if (values != NULL) {
        memcpy((unsigned char *)values + offset, value, bytes);
    }
}

static bool bool_store(const struct nixl_option *option, const char *text, void *values, char *why,
                       size_t size) {
    bool value;

    if (text_parse_bool(text_of(text), &value) != TEXT_OK) {
        snprintf(why, size, "is neither yes nor no (y yes on 1 true enable, n no off 0 false disable)");
        return false;
    }
    store(values, option->offset, &value, sizeof value);
    return true;
}

static bool int_store(const struct nixl_option *option, const char *text, void *values, char *why,
                      size_t size) {
    const int64_t max = option->max > INT64_MAX ? INT64_MAX : (int64_t)option->max;
    int64_t value;
    enum text_result result = text_parse_int(text_of(text), &value);

    if (result == TEXT_MALFORMED) {
        snprintf(why, size, "is not a whole number");
        return false;
    }
    if (result != TEXT_OK ||
        ((option->min != 0 || option->max != 0) && (value < option->min || value > max))) {
        snprintf(why, size, "is out of range (%" PRId64 " to %" PRId64 ")", option->min,
                 option->min == 0 && option->max == 0 ? INT64_MAX : max);
        return false;
    }
    store(values, option->offset, &value, sizeof value);
    return true;
}

static bool uint_store(const struct nixl_option *option, const char *text, void *values, char *why,
                       size_t size) {
    const bool is_size = option->kind == NIXL_OPTION_SIZE;
    const uint64_t min = option->min > 0 ? (uint64_t)option->min : 0;
    const uint64_t max = option->max != 0 ? option->max : UINT64_MAX;
    uint64_t value;
    enum text_result result =
        is_size ? text_parse_size(text_of(text), &value) : text_parse_uint(text_of(text), &value);

    if (result == TEXT_MALFORMED) {
        snprintf(why, size,
                 is_size ? "is not a size (digits, and k, M or G)"
                         : "is not a number without sign (decimal or 0x)");
        return false;
    }
    if (result != TEXT_OK || value < min || value > max) {
        snprintf(why, size, "is out of range (%" PRIu64 " to %" PRIu64 ")", min, max);
        return false;
    }
    store(values, option->offset, &value, sizeof value);
    return true;
}

static bool enum_store(const struct nixl_option *option, const char *text, void *values, char *why,
                       size_t size) {
    struct text rest = text_of(option->choices);
    struct text word;
    int place = 0;

    while (text_split(&rest, '|', &word)) {
        if (text_equal(word, text)) {
            store(values, option->offset, &place, sizeof place);
            return true;
        }
        place++;
    }
    snprintf(why, size, "is not one of %s", option->choices);
    return false;
}

bool plugin_option_store(const struct nixl_option *option, const char *text, const char *kept, void *values,
                         char *why, size_t why_size) {
    switch (option->kind) {
    case NIXL_OPTION_BOOL:
        return bool_store(option, text, values, why, why_size);
    case NIXL_OPTION_INT:
        return int_store(option, text, values, why, why_size);
    case NIXL_OPTION_UINT:
    case NIXL_OPTION_SIZE:
        return uint_store(option, text, values, why, why_size);
    case NIXL_OPTION_ENUM:
        return enum_store(option, text, values, why, why_size);
    case NIXL_OPTION_STRING:
        store(values, option->offset, &kept, sizeof kept);
        return true;
    }
    snprintf(why, why_size, "is of an unknown kind");
    return false;
}

/* ---- a set of them ---- */

static const struct nixl_option *option_of(const struct nixl_backend_ops *ops, const char *key) {
    for (size_t i = 0; i < ops->option_count; i++) {
        const struct nixl_option *option = &ops->options[i];

        if (strcmp(option->name, key) == 0 || (option->alias != NULL && strcmp(option->alias, key) == 0)) {
            return option;
        }
    }
    return NULL;
}

static nixl_status_t unknown(const struct plugin *plugin, const char *key) {
    char quoted[128];
    char known[640];
    size_t len = 0;

    known[0] = '\0';
    for (size_t i = 0; i < plugin->ops.option_count; i++) {
        text_append(known, sizeof known, &len, "%s%s", i != 0 ? ", " : "", plugin->ops.options[i].name);
    }
    text_quote(quoted, sizeof quoted, key, strnlen(key, NIXL_NAME_MAX));
    if (plugin->ops.option_count == 0) {
        return fail(NIXL_ERR_INVALID_PARAM, "backend %s has no parameter %s: it has none at all",
                    plugin->name, quoted);
    }
    return fail(NIXL_ERR_INVALID_PARAM, "backend %s has no parameter %s: it has %s", plugin->name, quoted,
                known);
}

/* All keys are known, none is given twice under one name or two. `given` gets each option's parameter. */
static nixl_status_t params_match(const struct plugin *plugin, const struct nixl_param *params, size_t count,
                                  const struct nixl_param **given) {
    for (size_t i = 0; i < count; i++) {
        const struct nixl_option *option;
        size_t at;

        if (params[i].key == NULL || params[i].value == NULL) {
            return fail(NIXL_ERR_INVALID_PARAM, "backend %s: parameter %zu has no %s", plugin->name, i,
                        params[i].key == NULL ? "key" : "value");
        }
        option = option_of(&plugin->ops, params[i].key);
        if (option == NULL) {
            return unknown(plugin, params[i].key);
        }
        at = (size_t)(option - plugin->ops.options);
        if (given[at] != NULL) {
            return fail(NIXL_ERR_INVALID_PARAM, "backend %s: parameter %s is given twice%s%s", plugin->name,
                        given[at]->key, strcmp(given[at]->key, params[i].key) != 0 ? ", also as " : "",
                        strcmp(given[at]->key, params[i].key) != 0 ? params[i].key : "");
        }
        given[at] = &params[i];
    }
    return NIXL_SUCCESS;
}

/* The text in force of one option, malloc'd, and where it comes from, for words. */
static nixl_status_t text_choose(const struct plugin *plugin, const struct nixl_option *option,
                                 const struct nixl_param *given, char **text, char **where) {
    nixl_status_t status = NIXL_SUCCESS;

    *text = NULL;
    *where = NULL;
    if (given == NULL && option->env != NULL) {
        status = config_get_raw(option->env, text, where);
        if (status != NIXL_SUCCESS) {
            error_prefix("backend %s, option %s", plugin->name, option->name);
            return status;
        }
    }
    if (*text == NULL) {
        *text = strdup(given != NULL ? given->value : option->default_value);
    }
    return *text != NULL ? NIXL_SUCCESS : fail_memory("an option's value", 0);
}

static nixl_status_t option_fill(const struct plugin *plugin, const struct nixl_option *option,
                                 const struct nixl_param *given, void *values, char **kept) {
    char why[256];
    char quoted[128];
    char *where;
    nixl_status_t status = text_choose(plugin, option, given, kept, &where);

    if (status == NIXL_SUCCESS && !plugin_option_store(option, *kept, *kept, values, why, sizeof why)) {
        status =
            fail(NIXL_ERR_INVALID_PARAM, "backend %s: %s %s: %s %s", plugin->name,
                 where != NULL ? "the value from" : "parameter", where != NULL ? where : option->name,
                 option->secret ? "its value" : text_quote(quoted, sizeof quoted, *kept, strlen(*kept)), why);
    }
    free(where);
    return status;
}

nixl_status_t plugin_options_parse(const struct plugin *plugin, const struct nixl_param *params, size_t count,
                                   struct plugin_options *options) {
    const struct nixl_backend_ops *ops = &plugin->ops;
    const struct nixl_param **given;
    nixl_status_t status;

    *options = (struct plugin_options){0};
    if (count != 0 && params == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "backend %s: %zu parameters are announced, but there is no list",
                    plugin->name, count);
    }
    given = calloc(ops->option_count + 1, sizeof *given);
    options->values = calloc(1, ops->options_bytes + 1);
    options->texts = calloc(ops->option_count + 1, sizeof *options->texts);
    options->count = ops->option_count;
    if (given == NULL || options->values == NULL || options->texts == NULL) {
        status = fail_memory("options", ops->options_bytes);
    } else {
        status = params_match(plugin, params, count, given);
    }
    for (size_t i = 0; i < ops->option_count && status == NIXL_SUCCESS; i++) {
        status = option_fill(plugin, &ops->options[i], given[i], options->values, &options->texts[i]);
    }
    free(given);
    if (status != NIXL_SUCCESS) {
        plugin_options_free(options);
    }
    return status;
}

void plugin_options_free(struct plugin_options *options) {
    if (options->texts != NULL) {
        for (size_t i = 0; i < options->count; i++) {
            free(options->texts[i]);
        }
    }
    free(options->texts);
    free(options->values);
    *options = (struct plugin_options){0};
}
