/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from outside: strict parsing, splitting, hex, and quoting of foreign bytes for messages. Parsers take
 * a pointer and a length, accept the whole text or nothing, and skip no white space: trim first where blanks
 * are allowed. Outputs are written only on success. Locale-independent; no state, no heap.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum text_result {
    TEXT_OK = 0,
    TEXT_MALFORMED, /* not of this form at all */
    TEXT_RANGE      /* of this form, but too large or too small for the type */
};

/* A piece of somebody's text, not terminated. */
struct text {
    const char *at;
    size_t len;
};

static inline struct text text_of(const char *s) {
    return (struct text){.at = s, .len = s != NULL ? strlen(s) : 0};
}

/* Space, \t, \n, \v, \f, \r, whatever the locale. */
static inline bool text_is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

bool text_equal(struct text a, const char *b);
bool text_equal_nocase(struct text a, const char *b); /* ASCII letters only */
bool text_starts(const char *s, const char *prefix);
struct text text_trim(struct text t);

/*
 * Takes the next piece up to `separator` off `*rest` (trimmed, perhaps empty): false when nothing is left.
 * "a, b,," gives "a", "b", "", "" — as many pieces as separators plus one; the empty text gives none.
 */
bool text_split(struct text *rest, char separator, struct text *piece);

/* y yes on 1 true enable / n no off 0 false disable, in any case. */
enum text_result text_parse_bool(struct text t, bool *out);

/* [-]digits, decimal. "+5", "", "0x5", "5 " are malformed. */
enum text_result text_parse_int(struct text t, int64_t *out);

/* digits, or 0x and hex digits. A minus sign is malformed. */
enum text_result text_parse_uint(struct text t, uint64_t *out);

/* As uint with an optional suffix K M G T (or KiB, MiB… or KB, MB…; any case), each a power of 1,024; B alone
 * is allowed. */
enum text_result text_parse_size(struct text t, uint64_t *out);

/* Digits with an optional fraction and a unit ns us ms s m h; without a unit, `unit_ns` counts. Result in ns.
 */
enum text_result text_parse_duration(struct text t, uint64_t unit_ns, uint64_t *out_ns);

/* A finite decimal number with an optional fraction and exponent; "inf", "nan", hex are malformed. */
enum text_result text_parse_double(struct text t, double *out);

/*
 * Appends at buf[*len], keeps it terminated and cut at `size`; *len never passes size - 1. False when it was
 * cut. `size` must be at least 1.
 */
bool text_append(char *buf, size_t size, size_t *len, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
bool text_append_v(char *buf, size_t size, size_t *len, const char *fmt, va_list args)
    __attribute__((format(printf, 4, 0)));

/*
 * Foreign bytes in double quotes, fit for a terminal and a log: printable ASCII as it is, `"` and `\`
 * escaped, the rest as \xNN; what does not fit is cut and leaves "..." after the closing quote. Always
 * terminated (size ≥ 8). Returns buf, so it can stand in an argument list.
 */
const char *text_quote(char *buf, size_t size, const void *data, size_t len);

/* Two lower-case digits a byte, terminated; `out` holds 2 * len + 1. */
void text_hex_encode(char *out, const void *data, size_t len);

/* False for an odd length or a character that is no hex digit (both cases accepted). `out` holds len / 2. */
bool text_hex_decode(void *out, const char *hex, size_t len);

/* 0..15, or -1. */
int text_hex_digit(char c);

/* True for well-formed UTF-8 without surrogates and overlong forms (RFC 3629); NUL is allowed. */
bool text_is_utf8(const void *data, size_t len);

/* "4 KiB", "1.5 MiB", "17 B". Returns buf (16 bytes are enough). */
const char *text_size(char *buf, size_t size, uint64_t bytes);

#endif
