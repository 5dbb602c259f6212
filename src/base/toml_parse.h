/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of the TOML reader share; nobody else includes this. */
#ifndef BASE_TOML_PARSE_H
#define BASE_TOML_PARSE_H

#include "bytes.h"
#include "hash.h"
#include "text.h"
#include "toml.h"

#define TOML_MAX_KEY 255

struct toml_node {
    struct toml_value value; /* first: a value's address is its node's */
    struct toml_node *next;
    unsigned depth;
};

struct toml_doc {
    struct toml_node *root;
    struct toml_node *nodes; /* all of them */
    struct hash index;       /* (address of a table, key) to value */
};

struct toml_key_part {
    char text[TOML_MAX_KEY + 1];
    size_t len;
};

struct toml_parser {
    const char *at;
    const char *end;
    const char *name;
    unsigned line;
    struct toml_doc *doc;
    char *message;
    size_t message_size;
    int rc; /* of the first fault */
};

void toml_parse_fail(struct toml_parser *p, unsigned line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void toml_parse_no_memory(struct toml_parser *p);

/* What stands at the current place, for "expected …, found …". */
const char *toml_parse_found(const struct toml_parser *p, char *buf, size_t size);

/* Steps over LF or CR LF; false when neither stands there. */
bool toml_parse_newline(struct toml_parser *p);

/* A new value in the document's list; NULL after a message when it is too deep or there is no memory. */
struct toml_value *toml_value_new(struct toml_parser *p, enum toml_type type, unsigned line, unsigned depth);

/* A string of any of the four kinds, decoded; `p->at` stands on its first quote. False after a message. */
bool toml_parse_string(struct toml_parser *p, struct bytes *out);

/* Any value that is no array and no inline table; NULL after a message. */
struct toml_value *toml_parse_scalar(struct toml_parser *p, unsigned depth);

/* What TOML forbids in comments and strings: control characters other than tab. */
static inline bool toml_is_control(char c) {
    unsigned char u = (unsigned char)c;

    return (u < 0x20 && u != '\t') || u == 0x7f;
}

#endif
