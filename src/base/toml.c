/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TOML 1.0 reader's structure: documents, tables, keys, arrays; the tree and its bounds. Scalars
 * (strings, numbers, dates) are in toml_scalar.c. Every value hangs in one list, so freeing never recurses;
 * recursion in parsing ends at TOML_MAX_DEPTH. Entries are found through one index of (table, key), so a
 * large document stays linear.
 */
#include "toml.h"

#include "array.h"
#include "toml_parse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How a table or array came to be, which decides who may add to it (TOML 1.0, "Table" and "Inline Table"). */
enum toml_how {
    HOW_VALUE = 0, /* written as a value: closed */
    HOW_IMPLIED,   /* a parent in [a.b]: may still get its own [a] */
    HOW_HEADER,    /* [a] */
    HOW_DOTTED,    /* a parent in a.b = 1: more dotted keys may follow */
    HOW_EACH       /* [[a]]: the array, and each of its tables is HOW_HEADER */
};

void toml_parse_fail(struct toml_parser *p, unsigned line, const char *fmt, ...) {
    va_list args;
    size_t len = 0;

    if (p->rc != 0) {
        return; /* the first fault is the one to tell */
    }
    p->rc = EINVAL;
    if (p->message_size == 0) {
        return;
    }
    text_append(p->message, p->message_size, &len, "%s:%u: ", p->name, line);
    va_start(args, fmt);
    text_append_v(p->message, p->message_size, &len, fmt, args);
    va_end(args);
}

void toml_parse_no_memory(struct toml_parser *p) {
    if (p->rc == 0) {
        p->rc = ENOMEM;
        if (p->message_size != 0) {
            snprintf(p->message, p->message_size, "%s:%u: out of memory", p->name, p->line);
        }
    }
}

const char *toml_parse_found(const struct toml_parser *p, char *buf, size_t size) {
    if (p->at == p->end) {
        return "the end of the file";
    }
    if (*p->at == '\n' || *p->at == '\r') {
        return "the end of the line";
    }
    return text_quote(buf, size, p->at, 1);
}

static void expected(struct toml_parser *p, const char *what) {
    char found[16];

    toml_parse_fail(p, p->line, "expected %s, found %s", what, toml_parse_found(p, found, sizeof found));
}

struct toml_value *toml_value_new(struct toml_parser *p, enum toml_type type, unsigned line, unsigned depth) {
    struct toml_node *node;

    if (depth > TOML_MAX_DEPTH) {
        toml_parse_fail(p, line, "nested deeper than %d levels", TOML_MAX_DEPTH);
        return NULL;
    }
    node = calloc(1, sizeof *node);
    if (node == NULL) {
        toml_parse_no_memory(p);
        return NULL;
    }
    node->value.type = type;
    node->value.line = line;
    node->depth = depth;
    node->next = p->doc->nodes;
    p->doc->nodes = node;
    return &node->value;
}

static struct toml_node *node_of(const struct toml_value *value) {
    return (struct toml_node *)(uintptr_t)value; /* the value is the node's first member */
}

/* ---- the index of entries ---- */

#define INDEX_KEY_SIZE (sizeof(void *) + TOML_MAX_KEY)

static size_t index_key(char *out, const struct toml_value *table, const char *key, size_t len) {
    memcpy(out, &table, sizeof table);
    memcpy(out + sizeof table, key, len);
    return sizeof table + len;
}

static struct toml_value *table_get(const struct toml_doc *doc, const struct toml_value *table,
                                    const char *key, size_t len) {
    char composed[INDEX_KEY_SIZE];

    if (len > TOML_MAX_KEY) {
        return NULL;
    }
    return hash_get(&doc->index, composed, index_key(composed, table, key, len));
}

static bool table_add(struct toml_parser *p, struct toml_value *table, const struct toml_key_part *part,
                      struct toml_value *value) {
    char composed[INDEX_KEY_SIZE];
    char *key;

    if (!array_reserve(&table->as.table.entries, &table->cap, table->as.table.count + 1,
                       sizeof *table->as.table.entries)) {
        toml_parse_no_memory(p);
        return false;
    }
    key = array_copy(part->text, part->len + 1, 1);
    if (key == NULL ||
        !hash_put(&p->doc->index, composed, index_key(composed, table, part->text, part->len), value, NULL)) {
        free(key);
        toml_parse_no_memory(p);
        return false;
    }
    table->as.table.entries[table->as.table.count++] = (struct toml_entry){.key = key, .value = value};
    return true;
}

/* ---- white space and keys ---- */

static void skip_blanks(struct toml_parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t')) {
        p->at++;
    }
}

/* A newline as TOML knows it: LF or CR LF. */
bool toml_parse_newline(struct toml_parser *p) {
    if (p->at < p->end && *p->at == '\n') {
        p->at++;
    } else if (p->end - p->at >= 2 && p->at[0] == '\r' && p->at[1] == '\n') {
        p->at += 2;
    } else {
        return false;
    }
    p->line++;
    return true;
}

static bool skip_comment(struct toml_parser *p) {
    if (p->at == p->end || *p->at != '#') {
        return true;
    }
    while (p->at < p->end && *p->at != '\n' &&
           !(p->end - p->at >= 2 && p->at[0] == '\r' && p->at[1] == '\n')) {
        if (toml_is_control(*p->at)) {
            toml_parse_fail(p, p->line, "a control character (0x%02x) in a comment", (unsigned char)*p->at);
            return false;
        }
        p->at++;
    }
    return true;
}

/* Blanks, a comment, and the end of the line or the file. */
static bool end_line(struct toml_parser *p, const char *after) {
    char what[64];

    skip_blanks(p);
    if (!skip_comment(p)) {
        return false;
    }
    if (p->at == p->end || toml_parse_newline(p)) {
        return true;
    }
    snprintf(what, sizeof what, "the end of the line after %s", after);
    expected(p, what);
    return false;
}

/* Blanks, comments and newlines, as inside an array or between lines. */
static bool skip_lines(struct toml_parser *p) {
    do {
        skip_blanks(p);
        if (!skip_comment(p)) {
            return false;
        }
    } while (toml_parse_newline(p));
    return true;
}

static bool is_bare(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

static bool key_part_parse(struct toml_parser *p, struct toml_key_part *part) {
    struct bytes decoded = {0};
    const char *start = p->at;
    bool fits;

    if (p->at < p->end && (*p->at == '"' || *p->at == '\'')) {
        if (p->end - p->at >= 3 && p->at[1] == *p->at && p->at[2] == *p->at) {
            toml_parse_fail(p, p->line, "a key cannot be a multi-line string");
            return false;
        }
        if (!toml_parse_string(p, &decoded)) {
            bytes_free(&decoded);
            return false;
        }
        fits = decoded.len <= TOML_MAX_KEY;
        part->len = decoded.len;
        if (fits && decoded.len != 0) {
            memcpy(part->text, decoded.data, decoded.len);
        }
        bytes_free(&decoded);
    } else {
        while (p->at < p->end && is_bare(*p->at)) {
            p->at++;
        }
        part->len = (size_t)(p->at - start);
        if (part->len == 0) {
            expected(p, "a key");
            return false;
        }
        fits = part->len <= TOML_MAX_KEY;
        if (fits) {
            memcpy(part->text, start, part->len);
        }
    }
    if (!fits) {
        toml_parse_fail(p, p->line, "a key of %zu bytes: at most %d are allowed", part->len, TOML_MAX_KEY);
        return false;
    }
    part->text[part->len] = '\0';
    return true;
}

/* After a part: true and past the dot when another part follows. */
static bool key_goes_on(struct toml_parser *p) {
    skip_blanks(p);
    if (p->at < p->end && *p->at == '.') {
        p->at++;
        skip_blanks(p);
        return true;
    }
    return false;
}

static void duplicate(struct toml_parser *p, const struct toml_key_part *part,
                      const struct toml_value *first) {
    char quoted[80];

    toml_parse_fail(p, p->line, "%s is already defined in line %u",
                    text_quote(quoted, sizeof quoted, part->text, part->len), first->line);
}

/* The table `part` in `table`, made when missing; `allowed` tells whether an existing one may be entered. */
static struct toml_value *table_enter(struct toml_parser *p, struct toml_value *table,
                                      const struct toml_key_part *part, enum toml_how how) {
    struct toml_value *next = table_get(p->doc, table, part->text, part->len);

    if (next == NULL) {
        next = toml_value_new(p, TOML_TABLE, p->line, node_of(table)->depth + 1);
        if (next == NULL) {
            return NULL;
        }
        next->how = (unsigned char)how;
        return table_add(p, table, part, next) ? next : NULL;
    }
    if (how == HOW_DOTTED) {
        if (next->type == TOML_TABLE && next->how == HOW_DOTTED) {
            return next;
        }
    } else if (next->type == TOML_TABLE && next->how != HOW_VALUE) {
        return next;
    } else if (next->type == TOML_ARRAY && next->how == HOW_EACH) {
        return next->as.array.items[next->as.array.count - 1];
    }
    duplicate(p, part, next);
    return NULL;
}

/* ---- values ---- */

static struct toml_value *value_parse(struct toml_parser *p, unsigned depth);
static bool pair_parse(struct toml_parser *p, struct toml_value *table);

static bool array_push(struct toml_parser *p, struct toml_value *array, struct toml_value *item) {
    if (!array_reserve(&array->as.array.items, &array->cap, array->as.array.count + 1,
                       sizeof *array->as.array.items)) {
        toml_parse_no_memory(p);
        return false;
    }
    array->as.array.items[array->as.array.count++] = item;
    return true;
}

static struct toml_value *array_parse(struct toml_parser *p, unsigned depth) {
    struct toml_value *array = toml_value_new(p, TOML_ARRAY, p->line, depth);

    if (array == NULL) {
        return NULL;
    }
    p->at++; /* the bracket */
    for (;;) {
        struct toml_value *item;

        if (!skip_lines(p)) {
            return NULL;
        }
        if (p->at < p->end && *p->at == ']') {
            p->at++;
            return array;
        }
        item = value_parse(p, depth + 1);
        if (item == NULL || !array_push(p, array, item) || !skip_lines(p)) {
            return NULL;
        }
        if (p->at < p->end && *p->at == ',') {
            p->at++;
        } else if (p->at == p->end || *p->at != ']') {
            expected(p, "\",\" or \"]\" in an array");
            return NULL;
        }
    }
}

static struct toml_value *inline_table_parse(struct toml_parser *p, unsigned depth) {
    struct toml_value *table = toml_value_new(p, TOML_TABLE, p->line, depth);

    if (table == NULL) {
        return NULL;
    }
    p->at++; /* the brace */
    skip_blanks(p);
    if (p->at < p->end && *p->at == '}') {
        p->at++;
        return table;
    }
    for (;;) {
        if (!pair_parse(p, table)) {
            return NULL;
        }
        skip_blanks(p);
        if (p->at < p->end && *p->at == '}') {
            p->at++;
            return table;
        }
        if (p->at == p->end || *p->at != ',') {
            expected(p, "\",\" or \"}\" in an inline table, which stands in one line");
            return NULL;
        }
        p->at++;
        skip_blanks(p);
    }
}

static struct toml_value *value_parse(struct toml_parser *p, unsigned depth) {
    if (p->at < p->end && *p->at == '[') {
        return array_parse(p, depth);
    }
    if (p->at < p->end && *p->at == '{') {
        return inline_table_parse(p, depth);
    }
    if (p->at == p->end || *p->at == '\n' || *p->at == '\r' || *p->at == '#') {
        expected(p, "a value");
        return NULL;
    }
    return toml_parse_scalar(p, depth);
}

/* key = value, the key perhaps dotted. */
static bool pair_parse(struct toml_parser *p, struct toml_value *table) {
    struct toml_key_part part;
    struct toml_value *value;
    const struct toml_value *first;
    unsigned line = p->line;

    for (;;) {
        if (!key_part_parse(p, &part)) {
            return false;
        }
        if (!key_goes_on(p)) {
            break;
        }
        table = table_enter(p, table, &part, HOW_DOTTED);
        if (table == NULL) {
            return false;
        }
    }
    if (p->at == p->end || *p->at != '=') {
        expected(p, "\"=\" after a key");
        return false;
    }
    p->at++;
    skip_blanks(p);
    first = table_get(p->doc, table, part.text, part.len);
    if (first != NULL) {
        duplicate(p, &part, first);
        return false;
    }
    value = value_parse(p, node_of(table)->depth + 1);
    if (value == NULL) {
        return false;
    }
    value->line = line;
    return table_add(p, table, &part, value);
}

/* ---- headers ---- */

static struct toml_value *each_open(struct toml_parser *p, struct toml_value *parent,
                                    const struct toml_key_part *part) {
    struct toml_value *array = table_get(p->doc, parent, part->text, part->len);
    unsigned depth = node_of(parent)->depth;
    struct toml_value *table;

    if (array == NULL) {
        array = toml_value_new(p, TOML_ARRAY, p->line, depth + 1);
        if (array == NULL) {
            return NULL;
        }
        array->how = HOW_EACH;
        table = toml_value_new(p, TOML_TABLE, p->line, depth + 2);
        if (table == NULL || !array_push(p, array, table) || !table_add(p, parent, part, array)) {
            return NULL;
        }
    } else if (array->type != TOML_ARRAY || array->how != HOW_EACH) {
        duplicate(p, part, array);
        return NULL;
    } else {
        table = toml_value_new(p, TOML_TABLE, p->line, depth + 2);
        if (table == NULL || !array_push(p, array, table)) {
            return NULL;
        }
    }
    table->how = HOW_HEADER;
    return table;
}

static struct toml_value *header_open(struct toml_parser *p, struct toml_value *parent,
                                      const struct toml_key_part *part) {
    struct toml_value *table = table_get(p->doc, parent, part->text, part->len);

    if (table == NULL) {
        return table_enter(p, parent, part, HOW_HEADER);
    }
    if (table->type != TOML_TABLE || table->how != HOW_IMPLIED) {
        duplicate(p, part, table);
        return NULL;
    }
    table->how = HOW_HEADER;
    table->line = p->line;
    return table;
}

/* [a.b] or [[a.b]]; returns the table that the following lines fill. */
static struct toml_value *header_parse(struct toml_parser *p) {
    struct toml_value *table = &p->doc->root->value;
    struct toml_key_part part;
    bool is_each;

    p->at++;
    is_each = p->at < p->end && *p->at == '[';
    p->at += is_each ? 1 : 0;
    skip_blanks(p);
    for (;;) {
        if (!key_part_parse(p, &part)) {
            return NULL;
        }
        if (!key_goes_on(p)) {
            break;
        }
        table = table_enter(p, table, &part, HOW_IMPLIED);
        if (table == NULL) {
            return NULL;
        }
    }
    for (int i = 0; i < (is_each ? 2 : 1); i++) {
        if (p->at == p->end || *p->at != ']') {
            expected(p, is_each ? "\"]]\" after a table's name" : "\"]\" after a table's name");
            return NULL;
        }
        p->at++;
    }
    return is_each ? each_open(p, table, &part) : header_open(p, table, &part);
}

static void document_parse(struct toml_parser *p) {
    struct toml_value *table = &p->doc->root->value;

    while (skip_lines(p) && p->at < p->end) {
        if (*p->at == '[') {
            table = header_parse(p);
            if (table == NULL || !end_line(p, "a table's name")) {
                return;
            }
        } else if (!pair_parse(p, table) || !end_line(p, "a value")) {
            return;
        }
    }
}

/* ---- the interface ---- */

/* The line of the first byte that is not UTF-8, found by checking line by line (no character spans a
 * newline). */
static unsigned bad_utf8_line(const char *text, size_t len) {
    unsigned line = 1;

    for (;;) {
        const char *newline = memchr(text, '\n', len);
        size_t line_len = newline != NULL ? (size_t)(newline - text) : len;

        if (!text_is_utf8(text, line_len) || newline == NULL) {
            return line;
        }
        text += line_len + 1;
        len -= line_len + 1;
        line++;
    }
}

static void text_check(struct toml_parser *p) {
    size_t len = (size_t)(p->end - p->at);
    const char *nul = len != 0 ? memchr(p->at, '\0', len) : NULL;

    if (len > TOML_MAX_SIZE) {
        toml_parse_fail(p, 1, "%zu bytes: at most %zu are read", len, TOML_MAX_SIZE);
    } else if (nul != NULL) {
        unsigned line = 1;

        for (const char *at = p->at; at < nul; at++) {
            line += *at == '\n' ? 1 : 0;
        }
        toml_parse_fail(p, line, "a NUL byte");
    } else if (!text_is_utf8(p->at, len)) {
        toml_parse_fail(p, bad_utf8_line(p->at, len), "not UTF-8");
    } else if (len >= 3 && memcmp(p->at, "\xef\xbb\xbf", 3) == 0) {
        p->at += 3; /* a byte order mark, as some editors leave it */
    }
}

int toml_parse(const char *text, size_t len, const char *name, struct toml_doc **doc, char *message,
               size_t size) {
    struct toml_parser p = {
        .at = len != 0 ? text : "", .name = name, .line = 1, .message = message, .message_size = size};
    struct toml_value *root;

    p.end = p.at + len;
    *doc = NULL;
    if (size != 0) {
        message[0] = '\0';
    }
    p.doc = calloc(1, sizeof *p.doc);
    if (p.doc == NULL) {
        toml_parse_no_memory(&p);
        return p.rc;
    }
    text_check(&p);
    root = p.rc == 0 ? toml_value_new(&p, TOML_TABLE, 1, 0) : NULL;
    if (root != NULL) {
        p.doc->root = node_of(root);
        root->how = HOW_HEADER;
        document_parse(&p);
    }
    if (p.rc != 0) {
        toml_free(p.doc);
        return p.rc;
    }
    *doc = p.doc;
    return 0;
}

const struct toml_value *toml_root(const struct toml_doc *doc) {
    return &doc->root->value;
}

const struct toml_value *toml_find(const struct toml_doc *doc, const char *path) {
    const struct toml_value *table = toml_root(doc);

    while (table != NULL && table->type == TOML_TABLE) {
        const struct toml_value *whole = table_get(doc, table, path, strlen(path));
        const char *dot = strchr(path, '.');

        if (whole != NULL || dot == NULL) {
            return whole;
        }
        table = table_get(doc, table, path, (size_t)(dot - path));
        path = dot + 1;
    }
    return NULL;
}

const char *toml_type_name(enum toml_type type) {
    static const char *const names[] = {"a string",      "an integer",     "a number with a fraction",
                                        "true or false", "a date or time", "an array",
                                        "a table"};

    return names[type];
}

void toml_free(struct toml_doc *doc) {
    struct toml_node *node;

    if (doc == NULL) {
        return;
    }
    hash_clear(&doc->index, NULL);
    node = doc->nodes;
    while (node != NULL) {
        struct toml_node *next = node->next;
        struct toml_value *value = &node->value;

        switch (value->type) {
        case TOML_STRING:
        case TOML_DATE:
            free((char *)(uintptr_t)value->as.string.text);
            break;
        case TOML_ARRAY:
            free(value->as.array.items);
            break;
        case TOML_TABLE:
            for (size_t i = 0; i < value->as.table.count; i++) {
                free(value->as.table.entries[i].key);
            }
            free(value->as.table.entries);
            break;
        case TOML_INT:
        case TOML_FLOAT:
        case TOML_BOOL:
            break;
        }
        free(node);
        node = next;
    }
    free(doc);
}
