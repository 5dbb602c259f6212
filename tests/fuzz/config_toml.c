/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file's reader with any bytes. What it accepts must be sound: bounded depth, terminated
 * strings of UTF-8 without NUL, every entry found again under its path. What it refuses must come with a
 * message that begins with file and line.
 */
#include "base/text.h"
#include "base/toml.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "does not hold: %s\n", what);
        abort();
    }
}

static void value_check(const struct toml_value *value, int depth) {
    check(depth <= TOML_MAX_DEPTH, "depth is bounded");
    check(value->line >= 1, "lines count from 1");
    (void)toml_type_name(value->type);
    switch (value->type) {
    case TOML_STRING:
    case TOML_DATE:
        check(strlen(value->as.string.text) == value->as.string.len,
              "strings are terminated and have no NUL");
        check(text_is_utf8(value->as.string.text, value->as.string.len), "strings are UTF-8");
        break;
    case TOML_ARRAY:
        for (size_t i = 0; i < value->as.array.count; i++) {
            value_check(value->as.array.items[i], depth + 1);
        }
        break;
    case TOML_TABLE:
        for (size_t i = 0; i < value->as.table.count; i++) {
            check(value->as.table.entries[i].key != NULL, "entries have keys");
            value_check(value->as.table.entries[i].value, depth + 1);
        }
        break;
    case TOML_INT:
    case TOML_FLOAT:
    case TOML_BOOL:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct toml_doc *doc;
    char message[200];
    char *exact = malloc(size != 0 ? size : 1); /* not terminated: a read past the end shows */
    const struct toml_value *root;
    int rc;

    if (exact == NULL) {
        return 0;
    }
    if (size != 0) {
        memcpy(exact, data, size);
    }
    rc = toml_parse(exact, size, "f", &doc, message, sizeof message);
    free(exact);
    if (rc != 0) {
        check(doc == NULL, "no document after a fault");
        check(rc == ENOMEM || (rc == EINVAL && strncmp(message, "f:", 2) == 0), "a fault has its words");
        check(text_is_utf8(message, strlen(message)), "a message can be shown");
        return 0;
    }
    root = toml_root(doc);
    value_check(root, 0);
    for (size_t i = 0; i < root->as.table.count; i++) {
        check(toml_find(doc, root->as.table.entries[i].key) == root->as.table.entries[i].value,
              "entries are found again");
    }
    (void)toml_find(doc, "a.b.c");
    toml_free(doc);
    return 0;
}
