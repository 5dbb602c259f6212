/* SPDX-License-Identifier: Apache-2.0 */
/* Strict parsing and safe printing of text. Every number is checked against its type before it is formed. */
#include "text.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool text_equal(struct text a, const char *b) {
    return a.len == strlen(b) && (a.len == 0 || memcmp(a.at, b, a.len) == 0);
}

bool text_equal_nocase(struct text a, const char *b) {
    if (a.len != strlen(b)) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        if (lower(a.at[i]) != lower(b[i])) {
            return false;
        }
    }
    return true;
}

bool text_starts(const char *s, const char *prefix) {
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

struct text text_trim(struct text t) {
    while (t.len != 0 && text_is_space(t.at[0])) {
        t.at++;
        t.len--;
    }
    while (t.len != 0 && text_is_space(t.at[t.len - 1])) {
        t.len--;
    }
    return t;
}

/* Where `rest` points when only the empty piece behind the last separator is left. */
static const char last_piece[] = "";

bool text_split(struct text *rest, char separator, struct text *piece) {
    const char *at = rest->at;
    const char *end;

    if (at == NULL || (rest->len == 0 && at != last_piece)) {
        return false;
    }
    end = rest->len != 0 ? memchr(at, separator, rest->len) : NULL;
    if (end != NULL) {
        *piece = text_trim((struct text){.at = at, .len = (size_t)(end - at)});
        rest->len -= (size_t)(end - at) + 1;
        rest->at = rest->len != 0 ? end + 1 : last_piece;
        return true;
    }
    *piece = text_trim(*rest);
    *rest = (struct text){0};
    return true;
}

enum text_result text_parse_bool(struct text t, bool *out) {
    static const char *const yes[] = {"y", "yes", "on", "1", "true", "enable"};
    static const char *const no[] = {"n", "no", "off", "0", "false", "disable"};

    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        if (text_equal_nocase(t, yes[i])) {
            *out = true;
            return TEXT_OK;
        }
        if (text_equal_nocase(t, no[i])) {
            *out = false;
            return TEXT_OK;
        }
    }
    return TEXT_MALFORMED;
}

/* All of `t` as digits of the base. Goes on after an overflow, so that a malformed end is still called
 * malformed. */
static enum text_result digits_parse(struct text t, unsigned base, uint64_t *out) {
    uint64_t value = 0;
    bool overflow = false;

    if (t.len == 0) {
        return TEXT_MALFORMED;
    }
    for (size_t i = 0; i < t.len; i++) {
        int digit = text_hex_digit(t.at[i]);

        if (digit < 0 || (unsigned)digit >= base) {
            return TEXT_MALFORMED;
        }
        if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit, &value)) {
            overflow = true;
        }
    }
    if (overflow) {
        return TEXT_RANGE;
    }
    *out = value;
    return TEXT_OK;
}

enum text_result text_parse_int(struct text t, int64_t *out) {
    bool negative = t.len != 0 && t.at[0] == '-';
    uint64_t magnitude;
    enum text_result result;

    if (negative) {
        t.at++;
        t.len--;
    }
    result = digits_parse(t, 10, &magnitude);
    if (result != TEXT_OK) {
        return result;
    }
    if (magnitude > (uint64_t)INT64_MAX + (negative ? 1 : 0)) {
        return TEXT_RANGE;
    }
    *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return TEXT_OK;
}

enum text_result text_parse_uint(struct text t, uint64_t *out) {
    if (t.len > 2 && t.at[0] == '0' && lower(t.at[1]) == 'x') {
        return digits_parse((struct text){.at = t.at + 2, .len = t.len - 2}, 16, out);
    }
    return digits_parse(t, 10, out);
}

/* How many powers of 1,024 a suffix stands for, -1 when it is none: "", B, K, KB, KiB, … */
static int size_suffix(struct text suffix) {
    static const char letters[] = "kmgt";
    const char *letter;

    if (suffix.len == 0 || text_equal_nocase(suffix, "b")) {
        return 0;
    }
    letter = strchr(letters, lower(suffix.at[0]));
    if (letter == NULL || *letter == '\0') {
        return -1;
    }
    suffix.at++;
    suffix.len--;
    if (suffix.len != 0 && !text_equal_nocase(suffix, "b") && !text_equal_nocase(suffix, "ib")) {
        return -1;
    }
    return (int)(letter - letters) + 1;
}

enum text_result text_parse_size(struct text t, uint64_t *out) {
    struct text number = t;
    struct text suffix;
    bool is_hex = t.len > 2 && t.at[0] == '0' && lower(t.at[1]) == 'x';
    enum text_result result;
    uint64_t value;
    int power;

    if (is_hex) { /* B is a digit there: no suffix */
        return text_parse_uint(t, out);
    }
    number.len = 0;
    while (number.len < t.len && is_digit(t.at[number.len])) {
        number.len++;
    }
    suffix = (struct text){.at = t.at + number.len, .len = t.len - number.len};
    power = size_suffix(suffix);
    if (power < 0) {
        return TEXT_MALFORMED;
    }
    result = digits_parse(number, 10, &value);
    if (result != TEXT_OK) {
        return result;
    }
    if (__builtin_mul_overflow(value, UINT64_C(1) << (10 * power), &value)) {
        return TEXT_RANGE;
    }
    *out = value;
    return TEXT_OK;
}

enum text_result text_parse_duration(struct text t, uint64_t unit_ns, uint64_t *out_ns) {
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"ns", 1},
                 {"us", 1000},
                 {"ms", 1000000},
                 {"s", 1000000000},
                 {"m", UINT64_C(60000000000)},
                 {"h", UINT64_C(3600000000000)}};
    struct text whole = {.at = t.at, .len = 0};
    struct text fraction = {0};
    struct text unit;
    size_t at = 0;
    uint64_t scale = 1;
    uint64_t value;
    uint64_t part = 0;
    unsigned __int128 total;
    enum text_result result;

    while (at < t.len && is_digit(t.at[at])) {
        at++;
    }
    whole.len = at;
    if (at < t.len && t.at[at] == '.') {
        fraction.at = t.at + ++at;
        while (at < t.len && is_digit(t.at[at])) {
            at++;
            fraction.len++;
            scale *= fraction.len <= 18 ? 10 : 1;
        }
        if (fraction.len == 0 || fraction.len > 18 || digits_parse(fraction, 10, &part) != TEXT_OK) {
            return TEXT_MALFORMED;
        }
    }
    unit = (struct text){.at = t.at + at, .len = t.len - at};
    if (unit.len != 0) {
        size_t i = 0;

        while (i < sizeof units / sizeof units[0] && !text_equal_nocase(unit, units[i].name)) {
            i++;
        }
        if (i == sizeof units / sizeof units[0]) {
            return TEXT_MALFORMED;
        }
        unit_ns = units[i].ns;
    }
    result = digits_parse(whole, 10, &value);
    if (result != TEXT_OK) {
        return result;
    }
    total = (unsigned __int128)value * unit_ns + (unsigned __int128)part * unit_ns / scale;
    if (total > UINT64_MAX) {
        return TEXT_RANGE;
    }
    *out_ns = (uint64_t)total;
    return TEXT_OK;
}

/* [-]digits[.digits][(e|E)[+-]digits] */
static bool is_decimal(struct text t) {
    size_t at = t.len != 0 && t.at[0] == '-' ? 1 : 0;
    size_t start = at;

    while (at < t.len && is_digit(t.at[at])) {
        at++;
    }
    if (at == start) {
        return false;
    }
    if (at < t.len && t.at[at] == '.') {
        start = ++at;
        while (at < t.len && is_digit(t.at[at])) {
            at++;
        }
        if (at == start) {
            return false;
        }
    }
    if (at < t.len && lower(t.at[at]) == 'e') {
        at++;
        if (at < t.len && (t.at[at] == '+' || t.at[at] == '-')) {
            at++;
        }
        start = at;
        while (at < t.len && is_digit(t.at[at])) {
            at++;
        }
        if (at == start) {
            return false;
        }
    }
    return at == t.len;
}

enum text_result text_parse_double(struct text t, double *out) {
    char copy[512];
    locale_t plain;
    double value;

    if (t.len >= sizeof copy || !is_decimal(t)) {
        return TEXT_MALFORMED;
    }
    memcpy(copy, t.at, t.len);
    copy[t.len] = '\0';
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* the application's locale may write a comma */
    if (plain == (locale_t)0) {
        return TEXT_MALFORMED;
    }
    value = strtod_l(copy, NULL, plain);
    freelocale(plain);
    if (!isfinite(value)) {
        return TEXT_RANGE;
    }
    *out = value;
    return TEXT_OK;
}

bool text_append_v(char *buf, size_t size, size_t *len, const char *fmt, va_list args) {
    size_t room = size - *len;
    int n = vsnprintf(buf + *len, room, fmt, args);

    if (n < 0) {
        buf[*len] = '\0';
        return false;
    }
    if ((size_t)n >= room) {
        *len = size - 1;
        return false;
    }
    *len += (size_t)n;
    return true;
}

bool text_append(char *buf, size_t size, size_t *len, const char *fmt, ...) {
    va_list args;
    bool fitted;

    va_start(args, fmt);
    fitted = text_append_v(buf, size, len, fmt, args);
    va_end(args);
    return fitted;
}

static size_t quoted_width(unsigned char c) {
    return c == '"' || c == '\\' ? 2 : c >= 0x20 && c < 0x7f ? 1 : 4;
}

const char *text_quote(char *buf, size_t size, const void *data, size_t len) {
    static const char digits[] = "0123456789abcdef";
    const unsigned char *at = data;
    size_t room = size - 3; /* for what stands between the quotes */
    size_t whole = 0;
    size_t used = 0;
    char *out = buf;
    size_t i;

    for (i = 0; i < len && whole <= room; i++) {
        whole += quoted_width(at[i]);
    }
    if (whole > room) {
        room -= 3; /* it will be cut: the dots need a place */
    }
    *out++ = '"';
    for (i = 0; i < len; i++) {
        size_t width = quoted_width(at[i]);

        if (used + width > room) {
            break;
        }
        used += width;
        if (width == 4) {
            *out++ = '\\';
            *out++ = 'x';
            *out++ = digits[at[i] >> 4];
            *out++ = digits[at[i] & 15];
            continue;
        }
        if (width == 2) {
            *out++ = '\\';
        }
        *out++ = (char)at[i];
    }
    *out++ = '"';
    if (i < len) {
        memcpy(out, "...", 3);
        out += 3;
    }
    *out = '\0';
    return buf;
}

void text_hex_encode(char *out, const void *data, size_t len) {
    static const char digits[] = "0123456789abcdef";
    const unsigned char *at = data;

    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[at[i] >> 4];
        out[2 * i + 1] = digits[at[i] & 15];
    }
    out[2 * len] = '\0';
}

int text_hex_digit(char c) {
    if (is_digit(c)) {
        return c - '0';
    }
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool text_hex_decode(void *out, const char *hex, size_t len) {
    unsigned char *to = out;

    if (len % 2 != 0) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (text_hex_digit(hex[i]) < 0) {
            return false;
        }
    }
    for (size_t i = 0; i < len / 2; i++) {
        to[i] = (unsigned char)(text_hex_digit(hex[2 * i]) << 4 | text_hex_digit(hex[2 * i + 1]));
    }
    return true;
}

bool text_is_utf8(const void *data, size_t len) {
    const unsigned char *at = data;
    size_t i = 0;

    while (i < len) {
        unsigned char c = at[i];
        size_t more = c < 0x80 ? 0 : c < 0xc2 ? 4 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : c < 0xf5 ? 3 : 4;

        if (more == 4 || more > len - i - 1) {
            return false;
        }
        for (size_t k = 1; k <= more; k++) {
            if ((at[i + k] & 0xc0) != 0x80) {
                return false;
            }
        }
        /* Overlong forms, surrogates (U+D800..DFFF) and what lies past U+10FFFF show in the second byte. */
        if ((c == 0xe0 && at[i + 1] < 0xa0) || (c == 0xed && at[i + 1] > 0x9f) ||
            (c == 0xf0 && at[i + 1] < 0x90) || (c == 0xf4 && at[i + 1] > 0x8f)) {
            return false;
        }
        i += more + 1;
    }
    return true;
}

const char *text_size(char *buf, size_t size, uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    uint64_t scale = 1;

    while (unit < 6 && bytes / scale >= 1024) {
        scale *= 1024;
        unit++;
    }
    if (bytes % scale == 0) {
        snprintf(buf, size, "%llu %s", (unsigned long long)(bytes / scale), units[unit]);
    } else {
        snprintf(buf, size, "%.1f %s", (double)bytes / (double)scale, units[unit]);
    }
    return buf;
}
