/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strict reader of TOML 1.0 documents: everything that the format has, read into a tree, or one message
 * that says file, line and what was expected. Dates are checked for form and kept as text. Bounded:
 * TOML_MAX_SIZE bytes, TOML_MAX_DEPTH levels. Pure: no files, no globals, no locks.
 */
#ifndef BASE_TOML_H
#define BASE_TOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOML_MAX_SIZE ((size_t)256 << 10)
#define TOML_MAX_DEPTH 32

enum toml_type {
    TOML_STRING,
    TOML_INT,
    TOML_FLOAT,
    TOML_BOOL,
    TOML_DATE,
    TOML_ARRAY,
    TOML_TABLE
};

struct toml_value {
    enum toml_type type;
    unsigned line; /* where the value begins, from 1 */
    union {
        struct {
            const char *text; /* terminated; string: decoded, may not contain NUL; date: as written */
            size_t len;
        } string;
        int64_t integer;
        double number;
        bool boolean;
        struct {
            struct toml_value **items;
            size_t count;
        } array;
        struct {
            struct toml_entry *entries; /* in the order of the file */
            size_t count;
        } table;
    } as;
    unsigned char how; /* private: how it was defined, which decides whether it may be extended */
    size_t cap;        /* private */
};

struct toml_entry {
    char *key;
    struct toml_value *value;
};

struct toml_doc;

/*
 * Reads `len` bytes; `name` stands in messages. 0 and *doc; or EINVAL (the text), ENOMEM, with a message
 * "name:line: …" in `message` (cut to `size`) and *doc NULL.
 */
int toml_parse(const char *text, size_t len, const char *name, struct toml_doc **doc, char *message,
               size_t size);

const struct toml_value *toml_root(const struct toml_doc *doc);

/*
 * The value at a dotted path from the root; NULL when there is none. At each table an entry whose whole name
 * is the rest of the path is preferred, so a quoted key with dots in it is found too.
 */
const struct toml_value *toml_find(const struct toml_doc *doc, const char *path);

/* "a string", "an integer", … for messages. */
const char *toml_type_name(enum toml_type type);

void toml_free(struct toml_doc *doc);

#endif
