/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last failure's text, one fixed buffer per thread. Everything is formatted aside first, since arguments
 * may point into the buffer that they replace.
 */
#include "error.h"

#include "log.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char thread_text[ERROR_TEXT_SIZE];
static _Thread_local size_t thread_index = NIXL_NO_INDEX;

/* Marks a cut, and takes care not to leave half a UTF-8 character before the dots. */
static void cut_mark(char *buf) {
    size_t at = ERROR_TEXT_SIZE - 4;

    while (at > 0 && ((unsigned char)buf[at] & 0xc0) == 0x80) {
        at--;
    }
    memcpy(buf + at, "...", 4);
}

/* Names of peers come from others' bytes: no line feed, no escape sequence for the reader's terminal, and no
 * byte that is not UTF-8, which bindings could not turn into a string. */
static void make_printable(char *buf) {
    size_t len = strlen(buf);
    bool is_utf8 = text_is_utf8(buf, len);

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)buf[i];

        if (c < 0x20 || c == 0x7f || (c >= 0x80 && !is_utf8)) {
            buf[i] = '?';
        }
    }
}

static void format(char *buf, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));

static void format(char *buf, const char *fmt, va_list args) {
    int n = vsnprintf(buf, ERROR_TEXT_SIZE, fmt, args);

    if (n < 0) {
        memcpy(buf, "(the message could not be formatted)", sizeof "(the message could not be formatted)");
    } else if (n >= ERROR_TEXT_SIZE) {
        cut_mark(buf);
    }
    make_printable(buf);
}

/* Joins up to three parts into the thread's text. */
static void text_join(const char *first, const char *second, const char *third) {
    char joined[ERROR_TEXT_SIZE];
    size_t len = 0;

    if (!text_append(joined, sizeof joined, &len, "%s%s%s", first, second, third)) {
        cut_mark(joined);
        len = strlen(joined);
    }
    memcpy(thread_text, joined, len + 1);
}

static void failure_log(nixl_status_t status) {
    if (log_enabled(LOG_LEVEL_DEBUG)) {
        log_write(LOG_LEVEL_DEBUG, __FILE__, __LINE__, "%s: %s", error_status_name(status), thread_text);
    }
}

nixl_status_t fail_v(nixl_status_t status, const char *fmt, va_list args) {
    char text[ERROR_TEXT_SIZE];

    format(text, fmt, args);
    memcpy(thread_text, text, strlen(text) + 1);
    thread_index = NIXL_NO_INDEX;
    failure_log(status);
    return status;
}

nixl_status_t fail_at(nixl_status_t status, size_t index, const char *fmt, ...) {
    va_list args;

    va_start(args, fmt);
    status = fail_v(status, fmt, args);
    va_end(args);
    thread_index = index;
    return status;
}

size_t error_index(void) {
    return thread_index;
}

nixl_status_t fail(nixl_status_t status, const char *fmt, ...) {
    va_list args;

    va_start(args, fmt);
    status = fail_v(status, fmt, args);
    va_end(args);
    return status;
}

nixl_status_t fail_errno(nixl_status_t status, int err, const char *fmt, ...) {
    char text[ERROR_TEXT_SIZE];
    char reason[128];
    va_list args;

    va_start(args, fmt);
    format(text, fmt, args);
    va_end(args);
    text_join(text, ": ", strerror_r(err, reason, sizeof reason));
    thread_index = NIXL_NO_INDEX;
    failure_log(status);
    return status;
}

nixl_status_t fail_memory(const char *what, size_t bytes) {
    return bytes != 0 ? fail(NIXL_ERR_BACKEND, "out of memory for %s (%zu bytes)", what, bytes)
                      : fail(NIXL_ERR_BACKEND, "out of memory for %s", what);
}

const char *error_text(void) {
    return thread_text;
}

void error_clear(void) {
    thread_text[0] = '\0';
}

void error_prefix(const char *fmt, ...) {
    char text[ERROR_TEXT_SIZE];
    va_list args;

    va_start(args, fmt);
    format(text, fmt, args);
    va_end(args);
    text_join(text, thread_text[0] != '\0' ? ": " : "", thread_text);
}

void error_append(const char *fmt, ...) {
    char text[ERROR_TEXT_SIZE];
    va_list args;

    va_start(args, fmt);
    format(text, fmt, args);
    va_end(args);
    text_join(thread_text, text, "");
}

void error_set(const char *text) {
    text_join(text != NULL ? text : "", "", "");
}

const char *error_status_name(nixl_status_t status) {
    switch (status) {
    case NIXL_IN_PROG:
        return "NIXL_IN_PROG";
    case NIXL_SUCCESS:
        return "NIXL_SUCCESS";
    case NIXL_ERR_NOT_POSTED:
        return "NIXL_ERR_NOT_POSTED";
    case NIXL_ERR_INVALID_PARAM:
        return "NIXL_ERR_INVALID_PARAM";
    case NIXL_ERR_BACKEND:
        return "NIXL_ERR_BACKEND";
    case NIXL_ERR_NOT_FOUND:
        return "NIXL_ERR_NOT_FOUND";
    case NIXL_ERR_MISMATCH:
        return "NIXL_ERR_MISMATCH";
    case NIXL_ERR_NOT_ALLOWED:
        return "NIXL_ERR_NOT_ALLOWED";
    case NIXL_ERR_REPOST_ACTIVE:
        return "NIXL_ERR_REPOST_ACTIVE";
    case NIXL_ERR_UNKNOWN:
        return "NIXL_ERR_UNKNOWN";
    case NIXL_ERR_NOT_SUPPORTED:
        return "NIXL_ERR_NOT_SUPPORTED";
    case NIXL_ERR_REMOTE_DISCONNECT:
        return "NIXL_ERR_REMOTE_DISCONNECT";
    case NIXL_ERR_CANCELED:
        return "NIXL_ERR_CANCELED";
    case NIXL_ERR_NO_TELEMETRY:
        return "NIXL_ERR_NO_TELEMETRY";
    }
    return "unknown status";
}
