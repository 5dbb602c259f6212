/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings from the environment and the TOML file. The file becomes one immutable snapshot, published through
 * an atomic pointer: readers take no lock, so a forked child can never find one held. Two threads that come
 * first may both read the file; one snapshot wins.
 */
#include "config.h"

#include "clock.h"
#include "error.h"
#include "file.h"
#include "log.h"
#include "text.h"
#include "toml.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct snapshot {
    struct toml_doc *doc; /* NULL when there is no file or it is broken */
    char path[PATH_MAX];  /* "" when there is none */
    nixl_status_t status; /* of reading it */
    char message[512];    /* why it could not be read */
};

/* Where a setting was found: a variable's text, or a value of the file; neither when it is not set. */
struct setting {
    const char *env;
    const struct toml_value *value;
    const char *path;
};

/* Published where there is no file: nothing stays behind when the library is unloaded. */
static struct snapshot no_file;
static struct snapshot *published;

/* ---- the file ---- */

/* ENOENT and the like say that there is no such file. EACCES on the way to $HOME says no more than that
 * either. */
static bool file_exists(const char *path) {
    struct stat st;

    return stat(path, &st) == 0;
}

/* The first of the three that exists, into s->path. */
static void path_choose(struct snapshot *s) {
    const char *named = getenv("NIXL_CONFIG_FILE");
    const char *home = getenv("HOME");
    int n;

    if (named != NULL && named[0] != '\0') {
        n = snprintf(s->path, sizeof s->path, "%s", named);
        if (n > 0 && (size_t)n < sizeof s->path && file_exists(s->path)) {
            return;
        }
        log_warn("NIXL_CONFIG_FILE names %s, which does not exist: looking for ~/.nixl.cfg and /etc/nixl.cfg",
                 named);
    }
    if (home != NULL && home[0] != '\0') {
        n = snprintf(s->path, sizeof s->path, "%s/.nixl.cfg", home);
        if (n > 0 && (size_t)n < sizeof s->path && file_exists(s->path)) {
            return;
        }
    }
    snprintf(s->path, sizeof s->path, "/etc/nixl.cfg");
    if (!file_exists(s->path)) {
        s->path[0] = '\0';
    }
}

static void snapshot_fill(struct snapshot *s) {
    char *data;
    size_t len;
    int rc;

    path_choose(s);
    if (s->path[0] == '\0') {
        return;
    }
    rc = file_read(s->path, TOML_MAX_SIZE, &data, &len);
    if (rc != 0) {
        s->status = NIXL_ERR_BACKEND;
        snprintf(s->message, sizeof s->message, "cannot read configuration file %.300s: %s", s->path,
                 strerror(rc));
        return;
    }
    rc = toml_parse(data, len, s->path, &s->doc, s->message, sizeof s->message);
    free(data);
    if (rc != 0) {
        s->status = rc == ENOMEM ? NIXL_ERR_BACKEND : NIXL_ERR_INVALID_PARAM;
    } else {
        log_debug("configuration file %s", s->path);
    }
}

static void snapshot_free(struct snapshot *s) {
    if (s != NULL && s != &no_file) {
        toml_free(s->doc);
        free(s);
    }
}

/* NULL only without memory. */
static const struct snapshot *snapshot_get(void) {
    struct snapshot *s = __atomic_load_n(&published, __ATOMIC_ACQUIRE);
    struct snapshot *none = NULL;

    if (s != NULL) {
        return s;
    }
    s = calloc(1, sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    snapshot_fill(s);
    if (s->path[0] == '\0') {
        free(s);
        s = &no_file;
    }
    if (!__atomic_compare_exchange_n(&published, &none, s, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        snapshot_free(s);
        return none;
    }
    return s;
}

void config_reload(void) {
    snapshot_free(__atomic_exchange_n(&published, NULL, __ATOMIC_ACQ_REL));
}

nixl_status_t config_file(char **out) {
    const struct snapshot *s = snapshot_get();
    char *copy = NULL;

    if (s == NULL) {
        return fail_memory("the configuration", 0);
    }
    if (s->path[0] != '\0') {
        copy = strdup(s->path);
        if (copy == NULL) {
            return fail_memory("the configuration file's name", strlen(s->path) + 1);
        }
    }
    *out = copy;
    return NIXL_SUCCESS;
}

/* ---- finding and refusing ---- */

static nixl_status_t setting_find(const char *key, struct setting *out) {
    const struct snapshot *s;

    *out = (struct setting){.env = getenv(key)};
    if (out->env != NULL) {
        return NIXL_SUCCESS;
    }
    s = snapshot_get();
    if (s == NULL) {
        return fail_memory("the configuration", 0);
    }
    if (s->status != NIXL_SUCCESS) {
        return fail(s->status, "%s", s->message);
    }
    if (s->doc != NULL) {
        out->value = toml_find(s->doc, key);
        out->path = s->path;
    }
    return NIXL_SUCCESS;
}

/* "environment variable X is …: expected <what>", with the value unless its name speaks of a secret. */
static nixl_status_t refuse(const char *key, const struct setting *s, const char *what) {
    char quoted[96];

    if (s->env != NULL) {
        bool is_shown = log_redact(key, s->env) == s->env;

        return fail(NIXL_ERR_INVALID_PARAM, "environment variable %s is %s: expected %s", key,
                    is_shown ? text_quote(quoted, sizeof quoted, s->env, strlen(s->env))
                             : "not valid (value hidden)",
                    what);
    }
    if (s->value->type == TOML_STRING &&
        log_redact(key, s->value->as.string.text) == s->value->as.string.text) {
        return fail(NIXL_ERR_INVALID_PARAM, "%s:%u: %s is the text %s: expected %s", s->path, s->value->line,
                    key, text_quote(quoted, sizeof quoted, s->value->as.string.text, s->value->as.string.len),
                    what);
    }
    return fail(NIXL_ERR_INVALID_PARAM, "%s:%u: %s is %s: expected %s", s->path, s->value->line, key,
                toml_type_name(s->value->type), what);
}

static nixl_status_t refuse_range(const char *key, const struct setting *s, const char *range) {
    char quoted[96];

    if (s->env != NULL) {
        return fail(NIXL_ERR_INVALID_PARAM,
                    "environment variable %s is %s, which is out of range: expected %s", key,
                    text_quote(quoted, sizeof quoted, s->env, strlen(s->env)), range);
    }
    if (s->value->type == TOML_INT) {
        return fail(NIXL_ERR_INVALID_PARAM, "%s:%u: %s is %" PRId64 ", which is out of range: expected %s",
                    s->path, s->value->line, key, s->value->as.integer, range);
    }
    return fail(NIXL_ERR_INVALID_PARAM, "%s:%u: %s is out of range: expected %s", s->path, s->value->line,
                key, range);
}

/* ---- the getters ---- */

nixl_status_t config_get_bool(const char *key, bool fallback, bool *out) {
    static const char what[] = "true or false (y yes on 1 true enable, n no off 0 false disable)";
    struct setting s;
    nixl_status_t status = setting_find(key, &s);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (s.env != NULL) {
        return text_parse_bool(text_of(s.env), out) == TEXT_OK ? NIXL_SUCCESS : refuse(key, &s, what);
    }
    if (s.value == NULL) {
        *out = fallback;
    } else if (s.value->type == TOML_BOOL) {
        *out = s.value->as.boolean;
    } else {
        return refuse(key, &s, "true or false");
    }
    return NIXL_SUCCESS;
}

nixl_status_t config_get_int(const char *key, int64_t fallback, int64_t *out) {
    struct setting s;
    nixl_status_t status = setting_find(key, &s);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (s.env != NULL) {
        switch (text_parse_int(text_of(s.env), out)) {
        case TEXT_OK:
            return NIXL_SUCCESS;
        case TEXT_RANGE:
            return refuse_range(key, &s, "an integer of 64 bits");
        case TEXT_MALFORMED:
            return refuse(key, &s, "an integer");
        }
    }
    if (s.value == NULL) {
        *out = fallback;
    } else if (s.value->type == TOML_INT) {
        *out = s.value->as.integer;
    } else {
        return refuse(key, &s, "an integer");
    }
    return NIXL_SUCCESS;
}

nixl_status_t config_get_uint_range(const char *key, uint64_t fallback, uint64_t min, uint64_t max,
                                    uint64_t *out) {
    struct setting s;
    nixl_status_t status = setting_find(key, &s);
    enum text_result result = TEXT_OK;
    char range[64];
    uint64_t value;

    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (s.env != NULL) {
        result = text_parse_uint(text_of(s.env), &value);
    } else if (s.value == NULL) {
        *out = fallback;
        return NIXL_SUCCESS;
    } else if (s.value->type != TOML_INT) {
        result = TEXT_MALFORMED;
    } else if (s.value->as.integer < 0) {
        result = TEXT_RANGE;
    } else {
        value = (uint64_t)s.value->as.integer;
    }
    if (result == TEXT_MALFORMED) {
        return refuse(key, &s, "an integer that is not negative");
    }
    if (result == TEXT_RANGE || value < min || value > max) {
        snprintf(range, sizeof range, "%" PRIu64 " to %" PRIu64, min, max);
        return refuse_range(key, &s, range);
    }
    *out = value;
    return NIXL_SUCCESS;
}

nixl_status_t config_get_uint(const char *key, uint64_t fallback, uint64_t *out) {
    return config_get_uint_range(key, fallback, 0, UINT64_MAX, out);
}

static nixl_status_t copy_out(const char *key, const char *text, char **out) {
    char *copy = text != NULL ? strdup(text) : NULL;

    if (text != NULL && copy == NULL) {
        return fail(NIXL_ERR_BACKEND, "out of memory for the value of %s", key);
    }
    *out = copy;
    return NIXL_SUCCESS;
}

nixl_status_t config_get_string(const char *key, const char *fallback, char **out) {
    struct setting s;
    nixl_status_t status = setting_find(key, &s);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (s.env != NULL) {
        return copy_out(key, s.env, out);
    }
    if (s.value == NULL) {
        return copy_out(key, fallback, out);
    }
    if (s.value->type != TOML_STRING) {
        return refuse(key, &s, "text in quotes");
    }
    return copy_out(key, s.value->as.string.text, out);
}

nixl_status_t config_get_duration_ms(const char *key, uint64_t fallback_ms, uint64_t *out_ms) {
    static const char what[] = "a time in milliseconds, or with a unit (ns us ms s m h)";
    struct setting s;
    nixl_status_t status = setting_find(key, &s);
    enum text_result result = TEXT_MALFORMED;
    struct text t = {0};
    uint64_t ns;

    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (s.env == NULL && s.value == NULL) {
        *out_ms = fallback_ms;
        return NIXL_SUCCESS;
    }
    if (s.env == NULL && s.value->type == TOML_INT) {
        if (s.value->as.integer < 0) {
            return refuse_range(key, &s, what);
        }
        *out_ms = (uint64_t)s.value->as.integer;
        return NIXL_SUCCESS;
    }
    if (s.env != NULL) {
        t = text_of(s.env);
        /* A plain number may be larger than nanoseconds can hold: "no limit" is often written as a huge one.
         */
        if (text_parse_uint(t, out_ms) == TEXT_OK) {
            return NIXL_SUCCESS;
        }
    } else if (s.value->type == TOML_STRING) {
        t = (struct text){.at = s.value->as.string.text, .len = s.value->as.string.len};
    }
    if (t.at != NULL) {
        result = text_parse_duration(t, NS_PER_MS, &ns);
    }
    if (result != TEXT_OK) {
        return result == TEXT_RANGE ? refuse_range(key, &s, what) : refuse(key, &s, what);
    }
    *out_ms = ns / NS_PER_MS + (ns % NS_PER_MS != 0 ? 1 : 0);
    return NIXL_SUCCESS;
}

/* ---- settings whatever their type ---- */

static nixl_status_t scalar_text(const char *key, const struct setting *s, char *buf, size_t size,
                                 const char **text) {
    *text = buf;
    switch (s->value->type) {
    case TOML_STRING:
    case TOML_DATE:
        *text = s->value->as.string.text;
        return NIXL_SUCCESS;
    case TOML_INT:
        snprintf(buf, size, "%" PRId64, s->value->as.integer);
        return NIXL_SUCCESS;
    case TOML_FLOAT:
        snprintf(buf, size, "%.17g", s->value->as.number);
        return NIXL_SUCCESS;
    case TOML_BOOL:
        *text = s->value->as.boolean ? "true" : "false";
        return NIXL_SUCCESS;
    case TOML_ARRAY:
    case TOML_TABLE:
        break;
    }
    return refuse(key, s, "a single value");
}

nixl_status_t config_get_raw(const char *key, char **out, char **where) {
    char number[64];
    char place[PATH_MAX + 128];
    const char *text = NULL;
    struct setting s;
    nixl_status_t status = setting_find(key, &s);
    char *place_copy = NULL;

    if (status != NIXL_SUCCESS) {
        return status;
    }
    place[0] = '\0';
    if (s.env != NULL) {
        text = s.env;
        snprintf(place, sizeof place, "environment variable %.100s", key);
    } else if (s.value != NULL) {
        status = scalar_text(key, &s, number, sizeof number, &text);
        if (status != NIXL_SUCCESS) {
            return status;
        }
        snprintf(place, sizeof place, "%s:%u: %.100s", s.path, s.value->line, key);
    }
    if (where != NULL) {
        status = copy_out(key, place[0] != '\0' ? place : NULL, &place_copy);
        if (status != NIXL_SUCCESS) {
            return status;
        }
    }
    status = copy_out(key, text, out);
    if (status != NIXL_SUCCESS) {
        free(place_copy);
        return status;
    }
    if (where != NULL) {
        *where = place_copy;
    }
    return NIXL_SUCCESS;
}

bool config_has(const char *key) {
    const struct snapshot *s;

    if (getenv(key) != NULL) {
        return true;
    }
    s = snapshot_get();
    return s != NULL && s->doc != NULL && toml_find(s->doc, key) != NULL;
}
