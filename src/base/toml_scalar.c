/* SPDX-License-Identifier: Apache-2.0 */
/* The TOML 1.0 reader's scalars: strings with their escapes, integers, floats, booleans, dates and times. */
#include "toml_parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- strings ---- */

static bool put(struct toml_parser *p, struct bytes *out, const void *data, size_t len) {
    if (!bytes_append(out, data, len)) {
        toml_parse_no_memory(p);
        return false;
    }
    return true;
}

static bool put_unicode(struct toml_parser *p, struct bytes *out, uint32_t c) {
    unsigned char utf8[4];
    size_t len;

    if (c < 0x80) {
        utf8[0] = (unsigned char)c;
        len = 1;
    } else if (c < 0x800) {
        utf8[0] = (unsigned char)(0xc0 | c >> 6);
        utf8[1] = (unsigned char)(0x80 | (c & 0x3f));
        len = 2;
    } else if (c < 0x10000) {
        utf8[0] = (unsigned char)(0xe0 | c >> 12);
        utf8[1] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
        utf8[2] = (unsigned char)(0x80 | (c & 0x3f));
        len = 3;
    } else {
        utf8[0] = (unsigned char)(0xf0 | c >> 18);
        utf8[1] = (unsigned char)(0x80 | (c >> 12 & 0x3f));
        utf8[2] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
        utf8[3] = (unsigned char)(0x80 | (c & 0x3f));
        len = 4;
    }
    return put(p, out, utf8, len);
}

/* \uXXXX or \UXXXXXXXX; `p->at` is past the letter. */
static bool unicode_escape(struct toml_parser *p, int digits, struct bytes *out) {
    uint32_t c = 0;

    for (int i = 0; i < digits; i++) {
        int digit = p->at < p->end ? text_hex_digit(*p->at) : -1;

        if (digit < 0) {
            toml_parse_fail(p, p->line, "expected %d hexadecimal digits after \"\\%c\"", digits,
                            digits == 4 ? 'u' : 'U');
            return false;
        }
        c = c << 4 | (uint32_t)digit;
        p->at++;
    }
    if (c == 0) {
        toml_parse_fail(p, p->line, "a NUL character in a string");
        return false;
    }
    if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
        toml_parse_fail(p, p->line, "U+%04X is no Unicode character", (unsigned)c);
        return false;
    }
    return put_unicode(p, out, c);
}

/* A backslash at the end of a line in a multi-line string: that newline and all blanks up to the next text
 * vanish. */
static bool line_continued(struct toml_parser *p) {
    const char *at = p->at;

    while (at < p->end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    if (at == p->end || !(*at == '\n' || (p->end - at >= 2 && at[0] == '\r' && at[1] == '\n'))) {
        return false;
    }
    p->at = at;
    while (toml_parse_newline(p)) {
        while (p->at < p->end && (*p->at == ' ' || *p->at == '\t')) {
            p->at++;
        }
    }
    return true;
}

/* `p->at` is past the backslash. */
static bool escape_parse(struct toml_parser *p, bool is_multi, struct bytes *out) {
    static const char letters[] = "btnfr\"\\";
    static const char meanings[] = "\b\t\n\f\r\"\\";
    const char *found;
    char quoted[16];

    if (is_multi && line_continued(p)) {
        return true;
    }
    if (p->at < p->end && *p->at == 'u') {
        p->at++;
        return unicode_escape(p, 4, out);
    }
    if (p->at < p->end && *p->at == 'U') {
        p->at++;
        return unicode_escape(p, 8, out);
    }
    found = p->at < p->end ? strchr(letters, *p->at) : NULL;
    if (found == NULL) {
        toml_parse_fail(p, p->line, "expected one of b t n f r \" \\ u U after a backslash, found %s",
                        toml_parse_found(p, quoted, sizeof quoted));
        return false;
    }
    p->at++;
    return put(p, out, meanings + (found - letters), 1);
}

/* How many of the same quote stand here, at most `most`. */
static size_t quotes_ahead(const struct toml_parser *p, char quote, size_t most) {
    size_t count = 0;

    while (count < most && count < (size_t)(p->end - p->at) && p->at[count] == quote) {
        count++;
    }
    return count;
}

bool toml_parse_string(struct toml_parser *p, struct bytes *out) {
    char quote = *p->at;
    bool is_multi = quotes_ahead(p, quote, 3) == 3;
    unsigned opened = p->line;

    p->at += is_multi ? 3 : 1;
    if (is_multi) {
        (void)toml_parse_newline(p); /* one right behind the opening quotes does not count */
    }
    while (p->at < p->end) {
        char c = *p->at;

        if (c == quote) {
            size_t count = is_multi ? quotes_ahead(p, quote, 5) : 1;

            if (!is_multi) {
                p->at++;
                return true;
            }
            if (count >= 3) { /* up to two quotes may stand before the closing three */
                p->at += count;
                return put(p, out, p->at - count, count - 3);
            }
            p->at += count;
            if (!put(p, out, p->at - count, count)) {
                return false;
            }
        } else if (c == '\\' && quote == '"') {
            p->at++;
            if (!escape_parse(p, is_multi, out)) {
                return false;
            }
        } else if (is_multi && toml_parse_newline(p)) {
            if (!put(p, out, "\n", 1)) {
                return false;
            }
        } else if (c == '\n' || c == '\r') {
            break;
        } else if (toml_is_control(c)) {
            toml_parse_fail(p, p->line, "a control character (0x%02x) in a string: write it as an escape",
                            (unsigned char)c);
            return false;
        } else {
            p->at++;
            if (!put(p, out, &c, 1)) {
                return false;
            }
        }
    }
    toml_parse_fail(p, opened, "a string without its closing %s%c%s", is_multi ? "three quotes (" : "quote (",
                    quote, ")");
    return false;
}

/* ---- numbers ---- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Takes underscores out; false where one does not stand between two digits. `out` holds t.len + 1. */
static bool underscores_strip(struct text t, bool is_hex, char *out, size_t *len) {
    size_t used = 0;

    for (size_t i = 0; i < t.len; i++) {
        if (t.at[i] == '_') {
            bool before = i > 0 && (is_hex ? text_hex_digit(t.at[i - 1]) >= 0 : is_digit(t.at[i - 1]));
            bool after = i + 1 < t.len && (is_hex ? text_hex_digit(t.at[i + 1]) >= 0 : is_digit(t.at[i + 1]));

            if (!before || !after) {
                return false;
            }
        } else {
            out[used++] = t.at[i];
        }
    }
    out[used] = '\0';
    *len = used;
    return true;
}

static enum text_result octal_or_binary(struct text t, unsigned bits, int64_t *out) {
    uint64_t value = 0;
    bool overflow = false;

    if (t.len == 0) {
        return TEXT_MALFORMED;
    }
    for (size_t i = 0; i < t.len; i++) {
        int digit = text_hex_digit(t.at[i]);

        if (digit < 0 || (unsigned)digit >= 1u << bits) {
            return TEXT_MALFORMED;
        }
        overflow = overflow || value >> (63 - bits) != 0;
        value = value << bits | (uint64_t)digit;
    }
    if (overflow) {
        return TEXT_RANGE;
    }
    *out = (int64_t)value;
    return TEXT_OK;
}

/* 0x 0o 0b: no sign, and the value fits in 63 bits. */
static enum text_result based_int_parse(struct text t, int64_t *out) {
    struct text digits = {.at = t.at + 2, .len = t.len - 2};
    unsigned bits = t.at[1] == 'x' ? 4 : t.at[1] == 'o' ? 3 : 1;

    return octal_or_binary(digits, bits, out);
}

/* [+-]digits without a leading zero. */
static bool has_leading_zero(struct text t) {
    size_t at = t.len != 0 && (t.at[0] == '+' || t.at[0] == '-') ? 1 : 0;

    return at + 1 < t.len && t.at[at] == '0' && is_digit(t.at[at + 1]);
}

static bool value_set_number(struct toml_parser *p, struct toml_value *value, struct text token) {
    char copy[256];
    struct text t = {.at = copy};
    struct text unsigned_part;
    bool is_based = token.len > 2 && token.at[0] == '0' && strchr("xob", token.at[1]) != NULL;
    enum text_result result = TEXT_MALFORMED;
    bool negative;
    char quoted[80];

    if (token.len < sizeof copy && underscores_strip(token, is_based && token.at[1] == 'x', copy, &t.len)) {
        if (is_based) {
            value->type = TOML_INT;
            result = based_int_parse(t, &value->as.integer);
        } else {
            unsigned_part = t;
            negative = t.len != 0 && t.at[0] == '-';
            if (t.len != 0 && (t.at[0] == '+' || t.at[0] == '-')) {
                unsigned_part.at++;
                unsigned_part.len--;
            }
            if (text_equal(unsigned_part, "inf") || text_equal(unsigned_part, "nan")) {
                value->type = TOML_FLOAT;
                value->as.number = *unsigned_part.at == 'i' ? INFINITY : NAN;
                value->as.number = negative ? -value->as.number : value->as.number;
                return true;
            }
            if (unsigned_part.len != 0 && is_digit(unsigned_part.at[0]) && !has_leading_zero(t)) {
                struct text signed_part = t;

                if (t.at[0] == '+') {
                    signed_part = unsigned_part;
                }
                value->type = TOML_INT;
                result = text_parse_int(signed_part, &value->as.integer);
                if (result == TEXT_MALFORMED) {
                    value->type = TOML_FLOAT;
                    result = text_parse_double(signed_part, &value->as.number);
                }
            }
        }
    }
    if (result == TEXT_OK) {
        return true;
    }
    value->type = TOML_BOOL; /* nothing to free */
    if (result == TEXT_RANGE) {
        toml_parse_fail(p, p->line, "%s is too large",
                        text_quote(quoted, sizeof quoted, token.at, token.len));
    } else {
        toml_parse_fail(p, p->line, "expected a value (text stands in quotes), found %s",
                        text_quote(quoted, sizeof quoted, token.at, token.len));
    }
    return false;
}

/* ---- dates and times (RFC 3339 and its local parts) ---- */

/* `count` digits at *at as a number; -1 when they are not there. */
static int digits_take(struct text t, size_t *at, size_t count) {
    int value = 0;

    if (t.len - *at < count) {
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_digit(t.at[*at + i])) {
            return -1;
        }
        value = value * 10 + (t.at[*at + i] - '0');
    }
    *at += count;
    return value;
}

static bool char_take(struct text t, size_t *at, char c) {
    if (*at < t.len && t.at[*at] == c) {
        (*at)++;
        return true;
    }
    return false;
}

static bool date_take(struct text t, size_t *at) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year = digits_take(t, at, 4);
    int month;
    int day;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    if (year < 0 || !char_take(t, at, '-')) {
        return false;
    }
    month = digits_take(t, at, 2);
    if (month < 1 || month > 12 || !char_take(t, at, '-')) {
        return false;
    }
    day = digits_take(t, at, 2);
    return day >= 1 && day <= days[month - 1] + (month == 2 && leap ? 1 : 0);
}

static bool time_take(struct text t, size_t *at) {
    int hour = digits_take(t, at, 2);
    int minute;
    int second;

    if (hour < 0 || hour > 23 || !char_take(t, at, ':')) {
        return false;
    }
    minute = digits_take(t, at, 2);
    if (minute < 0 || minute > 59 || !char_take(t, at, ':')) {
        return false;
    }
    second = digits_take(t, at, 2);
    if (second < 0 || second > 60) { /* 60: a leap second */
        return false;
    }
    if (char_take(t, at, '.')) {
        if (digits_take(t, at, 1) < 0) {
            return false;
        }
        while (*at < t.len && is_digit(t.at[*at])) {
            (*at)++;
        }
    }
    return true;
}

static bool offset_take(struct text t, size_t *at) {
    int hour;
    int minute;

    if (char_take(t, at, 'Z') || char_take(t, at, 'z')) {
        return true;
    }
    if (!char_take(t, at, '+') && !char_take(t, at, '-')) {
        return false;
    }
    hour = digits_take(t, at, 2);
    if (hour < 0 || hour > 23 || !char_take(t, at, ':')) {
        return false;
    }
    minute = digits_take(t, at, 2);
    return minute >= 0 && minute <= 59;
}

static bool is_date_or_time(struct text t) {
    size_t at = 0;

    if (t.len > 2 && t.at[2] == ':') {
        return time_take(t, &at) && at == t.len;
    }
    if (!date_take(t, &at)) {
        return false;
    }
    if (at == t.len) {
        return true;
    }
    if (!char_take(t, &at, 'T') && !char_take(t, &at, 't') && !char_take(t, &at, ' ')) {
        return false;
    }
    if (!time_take(t, &at)) {
        return false;
    }
    return at == t.len || (offset_take(t, &at) && at == t.len);
}

static bool looks_like_date(struct text t) {
    size_t at = 0;

    return (digits_take(t, &at, 4) >= 0 && at < t.len && t.at[at] == '-') ||
           (at = 0, digits_take(t, &at, 2) >= 0 && at < t.len && t.at[at] == ':');
}

/* ---- any scalar ---- */

static bool value_set_text(struct toml_parser *p, struct toml_value *value, enum toml_type type,
                           const void *text, size_t len) {
    char *copy = array_alloc(len + 1, 1);

    if (copy == NULL) {
        toml_parse_no_memory(p);
        return false;
    }
    if (len != 0) {
        memcpy(copy, text, len);
    }
    copy[len] = '\0';
    value->type = type;
    value->as.string.text = copy;
    value->as.string.len = len;
    return true;
}

static bool is_token(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || strchr("+-_.:", c) != NULL;
}

static bool value_set_bare(struct toml_parser *p, struct toml_value *value) {
    struct text t = {.at = p->at};
    char quoted[80];

    while (p->at < p->end && is_token(*p->at)) {
        p->at++;
    }
    t.len = (size_t)(p->at - t.at);
    if (t.len == 0) {
        toml_parse_fail(p, p->line, "expected a value (text stands in quotes), found %s",
                        toml_parse_found(p, quoted, sizeof quoted));
        return false;
    }
    if (text_equal(t, "true") || text_equal(t, "false")) {
        value->type = TOML_BOOL;
        value->as.boolean = t.len == 4;
        return true;
    }
    if (!looks_like_date(t)) {
        return value_set_number(p, value, t);
    }
    /* A blank may stand for the T between date and time. */
    if (t.len == 10 && p->end - p->at >= 4 && p->at[0] == ' ' && is_digit(p->at[1]) && is_digit(p->at[2]) &&
        p->at[3] == ':') {
        p->at++;
        while (p->at < p->end && is_token(*p->at)) {
            p->at++;
        }
        t.len = (size_t)(p->at - t.at);
    }
    if (!is_date_or_time(t)) {
        toml_parse_fail(p, p->line, "%s is no date or time", text_quote(quoted, sizeof quoted, t.at, t.len));
        return false;
    }
    return value_set_text(p, value, TOML_DATE, t.at, t.len);
}

struct toml_value *toml_parse_scalar(struct toml_parser *p, unsigned depth) {
    struct toml_value *value = toml_value_new(p, TOML_BOOL, p->line, depth);
    struct bytes decoded = {0};
    bool ok;

    if (value == NULL) {
        return NULL;
    }
    if (*p->at != '"' && *p->at != '\'') {
        return value_set_bare(p, value) ? value : NULL;
    }
    ok = toml_parse_string(p, &decoded) && value_set_text(p, value, TOML_STRING, decoded.data, decoded.len);
    bytes_free(&decoded);
    return ok ? value : NULL;
}
