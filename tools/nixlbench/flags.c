/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From command line and TOML file to struct bench_config, by the table in flag_table.c. Strict: what is unknown,
 * malformed or out of range is refused by name; nothing falls back to a default silently.
 */
#include "config.h"

#include "base/file.h"
#include "base/text.h"
#include "base/toml.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_FILE_LIMIT ((size_t)1 << 20)

static bool say(char *error, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4), cold));

static bool say(char *error, size_t size, const char *fmt, ...) {
    va_list args;

    va_start(args, fmt);
    vsnprintf(error, size, fmt, args);
    va_end(args);
    return false;
}

static void *member(struct bench_config *config, const struct flag *flag) {
    return (char *)config + flag->offset;
}

static const void *member_const(const struct bench_config *config, const struct flag *flag) {
    return (const char *)config + flag->offset;
}

static size_t flag_index(const struct flag *flag) {
    return (size_t)(flag - bench_flags);
}

/* True when `name` (with - or _) is `flag_name`. */
static bool same_name(const char *flag_name, const char *name, size_t len) {
    if (strlen(flag_name) != len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (flag_name[i] != (name[i] == '-' ? '_' : name[i])) {
            return false;
        }
    }
    return true;
}

const struct flag *flag_find(const char *name, size_t len) {
    for (size_t i = 0; i < bench_flag_count; i++) {
        if (same_name(bench_flags[i].name, name, len)) {
            return &bench_flags[i];
        }
    }
    return NULL;
}

/* How many letters apart two names are (Levenshtein), for "did you mean". */
static unsigned distance(const char *a, size_t a_len, const char *b) {
    unsigned row[64];
    size_t b_len = strlen(b);

    if (b_len >= 64) {
        return 64;
    }
    for (size_t j = 0; j <= b_len; j++) {
        row[j] = (unsigned)j;
    }
    for (size_t i = 0; i < a_len; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i + 1;
        for (size_t j = 0; j < b_len; j++) {
            unsigned above = row[j + 1];
            unsigned best = diagonal + (a[i] != b[j]);

            best = best < above + 1 ? best : above + 1;
            row[j + 1] = best < row[j] + 1 ? best : row[j] + 1;
            diagonal = above;
        }
    }
    return row[b_len];
}

static bool unknown_flag(const char *where, const char *name, size_t len, char *error, size_t size) {
    const char *nearest = NULL;
    unsigned least = 4;
    char shown[160];

    for (size_t i = 0; i < bench_flag_count; i++) {
        unsigned d = distance(name, len, bench_flags[i].name);

        if (d < least) {
            least = d;
            nearest = bench_flags[i].name;
        }
    }
    text_quote(shown, sizeof shown, name, len);
    if (nearest != NULL) {
        return say(error, size, "%sunknown flag %s; did you mean --%s?", where, shown, nearest);
    }
    return say(error, size, "%sunknown flag %s; --help lists all of them", where, shown);
}

static bool choice_is_allowed(const char *choices, struct text value) {
    struct text rest = text_of(choices);
    struct text piece;

    while (text_split(&rest, '|', &piece)) {
        if (piece.len == value.len && memcmp(piece.at, value.at, value.len) == 0) {
            return true;
        }
    }
    return false;
}

static bool set_string(struct bench_config *config, const struct flag *flag, struct text value,
                       const char *where, char *error, size_t size) {
    char **at = member(config, flag);
    char *copy;
    char shown[160];

    if (flag->choices != NULL && !choice_is_allowed(flag->choices, value)) {
        return say(error, size, "%s--%s %s: must be one of %s", where, flag->name,
                   text_quote(shown, sizeof shown, value.at, value.len), flag->choices);
    }
    copy = strndup(value.at != NULL ? value.at : "", value.len);
    if (copy == NULL) {
        return say(error, size, "out of memory");
    }
    free(*at);
    *at = copy;
    return true;
}

static bool set_number(struct bench_config *config, const struct flag *flag, struct text value,
                       const char *where, char *error, size_t size) {
    uint64_t kind_max = flag->kind == FLAG_INT32    ? INT32_MAX
                        : flag->kind == FLAG_UINT32 ? UINT32_MAX
                                                    : UINT64_MAX;
    uint64_t max = flag->max != 0 ? flag->max : kind_max;
    uint64_t number = 0;
    int64_t negative = 0;
    enum text_result result = text_parse_size(value, &number);
    char shown[160];

    if (result != TEXT_OK && text_parse_int(value, &negative) == TEXT_OK && negative < 0) {
        return say(error, size, "%s--%s %" PRId64 ": must be from %" PRId64 " to %" PRIu64, where, flag->name,
                   negative, flag->min, max);
    }
    if (result == TEXT_MALFORMED) {
        return say(error, size, "%s--%s %s: must be a number (K, M, G and T count in 1,024s)", where,
                   flag->name, text_quote(shown, sizeof shown, value.at, value.len));
    }
    if (result == TEXT_RANGE || number > max || number < (uint64_t)flag->min) {
        return say(error, size, "%s--%s %s: must be from %" PRId64 " to %" PRIu64, where, flag->name,
                   text_quote(shown, sizeof shown, value.at, value.len), flag->min, max);
    }
    switch (flag->kind) {
    case FLAG_INT32:
        *(int32_t *)member(config, flag) = (int32_t)number;
        break;
    case FLAG_UINT32:
        *(uint32_t *)member(config, flag) = (uint32_t)number;
        break;
    default:
        *(uint64_t *)member(config, flag) = number;
        break;
    }
    return true;
}

/* yes, no and their like, and the single letters that gflags takes. */
static enum text_result parse_bool(struct text value, bool *out) {
    if (text_equal_nocase(value, "t")) {
        *out = true;
        return TEXT_OK;
    }
    if (text_equal_nocase(value, "f")) {
        *out = false;
        return TEXT_OK;
    }
    return text_parse_bool(value, out);
}

static bool set_value(struct bench_config *config, const struct flag *flag, struct text value,
                      const char *where, char *error, size_t size) {
    char shown[160];

    switch (flag->kind) {
    case FLAG_STRING:
        return set_string(config, flag, value, where, error, size);
    case FLAG_BOOL:
        if (parse_bool(value, member(config, flag)) != TEXT_OK) {
            return say(error, size, "%s--%s %s: must be true or false", where, flag->name,
                       text_quote(shown, sizeof shown, value.at, value.len));
        }
        return true;
    default:
        return set_number(config, flag, value, where, error, size);
    }
}

bool options_init(struct bench_options *options) {
    char error[256];

    memset(options, 0, sizeof *options);
    options->sources = calloc(bench_flag_count, sizeof *options->sources);
    if (options->sources == NULL) {
        return false;
    }
    for (size_t i = 0; i < bench_flag_count; i++) {
        if (!set_value(&options->config, &bench_flags[i], text_of(bench_flags[i].default_text), "", error,
                       sizeof error)) {
            options_free(options);
            return false;
        }
    }
    return true;
}

void options_free(struct bench_options *options) {
    for (size_t i = 0; i < bench_flag_count; i++) {
        if (bench_flags[i].kind == FLAG_STRING) {
            free(*(char **)member(&options->config, &bench_flags[i]));
        }
    }
    free(options->sources);
    memset(options, 0, sizeof *options);
}

enum flag_source options_source(const struct bench_options *options, const char *name) {
    const struct flag *flag = flag_find(name, strlen(name));

    return flag != NULL ? options->sources[flag_index(flag)] : FLAG_FROM_DEFAULT;
}

/* One argument that is a flag; *i is moved past a value in the next argument. */
static bool parse_argument(struct bench_options *options, int argc, char *const *argv, int *i, char *error,
                           size_t size) {
    const char *name = argv[*i] + (argv[*i][1] == '-' ? 2 : 1);
    const char *equals = strchr(name, '=');
    size_t len = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const struct flag *flag = flag_find(name, len);
    struct text value = {NULL, 0};
    bool word;

    if (flag == NULL && equals == NULL && len > 2 && strncmp(name, "no", 2) == 0) {
        size_t skip = name[2] == '-' || name[2] == '_' ? 3 : 2;

        flag = flag_find(name + skip, len - skip);
        if (flag != NULL && flag->kind == FLAG_BOOL) {
            options->sources[flag_index(flag)] = FLAG_FROM_COMMAND;
            return set_value(&options->config, flag, text_of("false"), "", error, size);
        }
        flag = NULL;
    }
    if (flag == NULL) {
        return unknown_flag("", name, len, error, size);
    }
    if (equals != NULL) {
        value = text_of(equals + 1);
    } else if (flag->kind == FLAG_BOOL) {
        value = text_of("true");
        if (*i + 1 < argc && parse_bool(text_of(argv[*i + 1]), &word) == TEXT_OK) {
            value = text_of(argv[++*i]);
        }
    } else {
        if (*i + 1 >= argc) {
            return say(error, size, "--%s: its value is missing", flag->name);
        }
        value = text_of(argv[++*i]);
    }
    options->sources[flag_index(flag)] = FLAG_FROM_COMMAND;
    return set_value(&options->config, flag, value, "", error, size);
}

static bool read_config_file(struct bench_options *options, char *error, size_t size) {
    const char *path = options->config.config_file;
    char *text;
    size_t len;
    int rc = file_read(path, CONFIG_FILE_LIMIT, &text, &len);
    bool ok;

    if (rc != 0) {
        return say(error, size, "--config_file %s: %s", path, strerror(rc));
    }
    ok = options_read_toml(options, text, len, path, error, size);
    free(text);
    return ok;
}

bool options_parse(struct bench_options *options, int argc, char *const *argv, char *error,
                   size_t error_size) {
    char shown[160];

    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-' || argv[i][1] == '\0' || strcmp(argv[i], "--") == 0) {
            return say(error, error_size,
                       "%s: every argument is a flag and its value; --help lists the flags",
                       text_quote(shown, sizeof shown, argv[i], strlen(argv[i])));
        }
        if (strcmp(argv[i], "-h") == 0) {
            options->config.help = true;
            continue;
        }
        if (!parse_argument(options, argc, argv, &i, error, error_size)) {
            return false;
        }
    }
    if (options->config.config_file[0] != '\0' && !options->config.help && !options->config.version) {
        return read_config_file(options, error, error_size);
    }
    return true;
}

/* A TOML value for a flag; types are those of TOML: "5" in quotes is no number. */
static bool set_toml(struct bench_config *config, const struct flag *flag, const struct toml_value *value,
                     const char *where, char *error, size_t size) {
    char number[32];

    if (flag->kind == FLAG_STRING && value->type == TOML_STRING) {
        struct text text = {value->as.string.text, value->as.string.len};

        return set_string(config, flag, text, where, error, size);
    }
    if (flag->kind == FLAG_BOOL && value->type == TOML_BOOL) {
        *(bool *)member(config, flag) = value->as.boolean;
        return true;
    }
    if (flag->kind != FLAG_STRING && flag->kind != FLAG_BOOL && value->type == TOML_INT) {
        snprintf(number, sizeof number, "%" PRId64, value->as.integer);
        return set_number(config, flag, text_of(number), where, error, size);
    }
    return say(error, size, "%s%s is %s, must be %s", where, flag->name, toml_type_name(value->type),
               flag->kind == FLAG_STRING ? "a string"
               : flag->kind == FLAG_BOOL ? "true or false"
                                         : "an integer");
}

bool options_read_toml(struct bench_options *options, const char *text, size_t len, const char *name,
                       char *error, size_t error_size) {
    struct toml_doc *doc;
    const struct toml_value *root;
    bool ok = true;

    if (toml_parse(text, len, name, &doc, error, error_size) != 0) {
        return false;
    }
    root = toml_root(doc);
    for (size_t i = 0; i < root->as.table.count && ok; i++) {
        const struct toml_entry *entry = &root->as.table.entries[i];
        const struct flag *flag = flag_find(entry->key, strlen(entry->key));
        char where[512];

        snprintf(where, sizeof where, "%s:%u: ", name, entry->value->line);
        if (flag == NULL) {
            ok = unknown_flag(where, entry->key, strlen(entry->key), error, error_size);
        } else if (options->sources[flag_index(flag)] != FLAG_FROM_COMMAND) {
            ok = set_toml(&options->config, flag, entry->value, where, error, error_size);
            options->sources[flag_index(flag)] = FLAG_FROM_FILE;
        }
    }
    toml_free(doc);
    return ok;
}

const char *flag_show(const struct bench_config *config, const struct flag *flag, char *buf, size_t size) {
    const void *at = member_const(config, flag);

    switch (flag->kind) {
    case FLAG_STRING:
        if (flag->is_secret && (*(char *const *)at)[0] != '\0') {
            return "(hidden)";
        }
        return *(char *const *)at;
    case FLAG_BOOL:
        return *(const bool *)at ? "1" : "0";
    case FLAG_INT32:
        snprintf(buf, size, "%" PRId32, *(const int32_t *)at);
        break;
    case FLAG_UINT32:
        snprintf(buf, size, "%" PRIu32, *(const uint32_t *)at);
        break;
    case FLAG_UINT64:
        snprintf(buf, size, "%" PRIu64, *(const uint64_t *)at);
        break;
    }
    return buf;
}
