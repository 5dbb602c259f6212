/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines. A line is put together on the stack and leaves in one write(2), so nothing is locked on the way
 * to stderr and a fork at any moment harms nothing. The C library's time zone lock is the one exception,
 * which is why the offset from UTC is kept for a quarter of an hour and never asked for in a forked child.
 * `sink_lock` guards a test's sink.
 */
#include "log.h"

#include "clock.h"
#include "text.h"
#include "thread.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef NIXL_DEFAULT_LOG_LEVEL
#define NIXL_DEFAULT_LOG_LEVEL "WARN"
#endif

#define LINE_SIZE 4096 /* PIPE_BUF: a pipe takes so much at once or not at all */
#define TEXT_SIZE 3072
#define OFFSET_VALID_S 900

int log_threshold = -1;

static struct lock sink_lock = LOCK_INIT;
static log_sink_fn sink_fn;
static void *sink_ctx;
static bool has_sink;

/* (seconds of the last look / OFFSET_VALID_S) << 32 | offset from UTC in seconds as 32 bits; 0 before the
 * first look. */
static uint64_t utc_offset;

static const char *const level_names[] = {"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"};

bool log_level_parse(const char *name, enum log_level *out) {
    for (int level = LOG_LEVEL_TRACE; level <= LOG_LEVEL_FATAL; level++) {
        if (text_equal_nocase(text_of(name), level_names[level])) {
            *out = (enum log_level)level;
            return true;
        }
    }
    return false;
}

bool log_enabled_first(int level) {
    const char *name = getenv("NIXL_LOG_LEVEL");
    enum log_level threshold = LOG_LEVEL_WARN;
    int unread = -1;
    bool is_valid;

    (void)log_level_parse(NIXL_DEFAULT_LOG_LEVEL, &threshold);
    is_valid = name == NULL || name[0] == '\0' || log_level_parse(name, &threshold);
    if (__atomic_compare_exchange_n(&log_threshold, &unread, (int)threshold, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
        if (!is_valid && threshold <= LOG_LEVEL_WARN) { /* only the thread that set it says so */
            char shown[64];

            log_write(LOG_LEVEL_WARN, __FILE__, __LINE__,
                      "NIXL_LOG_LEVEL is %s: expected TRACE, DEBUG, INFO, WARN, ERROR or FATAL; using %s",
                      text_quote(shown, sizeof shown, name, strlen(name)), level_names[threshold]);
        }
        return level >= (int)threshold;
    }
    return level >= unread; /* another thread was first; its value was put here */
}

/* Seconds east of UTC. Two threads may both look; both find the same. */
static int64_t local_offset(int64_t now_s) {
    uint64_t slot = (uint64_t)now_s / OFFSET_VALID_S & UINT32_MAX;
    uint64_t kept = __atomic_load_n(&utc_offset, __ATOMIC_RELAXED);
    time_t now = (time_t)now_s;
    struct tm tm;

    if (kept >> 32 == slot || fork_generation() != 1) {
        return (int32_t)(uint32_t)kept;
    }
    if (localtime_r(&now, &tm) == NULL) {
        return 0;
    }
    __atomic_store_n(&utc_offset, slot << 32 | (uint32_t)(int32_t)tm.tm_gmtoff, __ATOMIC_RELAXED);
    return tm.tm_gmtoff;
}

/* Month and day of a day count since 1970: years begin in March here, so the leap day comes last. */
static void civil_from_days(int64_t days, unsigned *month, unsigned *day) {
    int64_t shifted = days + 719468; /* since 0000-03-01 */
    int64_t era = shifted / 146097;
    unsigned in_era = (unsigned)(shifted - era * 146097);
    unsigned year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    unsigned in_year = in_era - (365 * year + year / 4 - year / 100);
    unsigned from_march = (5 * in_year + 2) / 153;

    *day = in_year - (153 * from_march + 2) / 5 + 1;
    *month = from_march < 10 ? from_march + 3 : from_march - 9;
}

/* Copies the text with control characters as \xNN, cut with dots. Bytes from 0x80 stay: they may be UTF-8. */
static size_t text_escape(char *out, size_t size, const char *text) {
    static const char digits[] = "0123456789abcdef";
    size_t len = 0;

    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        bool is_plain = c >= 0x20 && c != 0x7f;

        if (len + (is_plain ? 1 : 4) + 3 > size) {
            memcpy(out + len, "...", 3);
            return len + 3;
        }
        if (is_plain) {
            out[len++] = (char)c;
        } else {
            out[len++] = '\\';
            out[len++] = 'x';
            out[len++] = digits[c >> 4];
            out[len++] = digits[c & 15];
        }
    }
    return len;
}

static size_t line_format(char *line, int level, const char *file, int number, const char *text) {
    uint64_t now = clock_wall_ns();
    int64_t now_s = (int64_t)(now / NS_PER_S);
    int64_t local = now_s + local_offset(now_s);
    unsigned second = (unsigned)(local % 86400);
    const char *slash = file != NULL ? strrchr(file, '/') : NULL;
    unsigned month;
    unsigned day;
    size_t len = 0;

    civil_from_days(local / 86400, &month, &day);
    text_append(line, 160, &len, "%c%02u%02u %02u:%02u:%02u.%06u %ld %.80s:%d] ", level_names[level][0],
                month, day, second / 3600, second / 60 % 60, second % 60, (unsigned)(now % NS_PER_S / 1000),
                syscall(SYS_gettid), slash != NULL ? slash + 1 : (file != NULL ? file : "?"), number);
    len += text_escape(line + len, LINE_SIZE - 2 - len, text);
    line[len++] = '\n';
    line[len] = '\0';
    return len;
}

static void line_write(const char *line, size_t len) {
    while (len != 0) {
        ssize_t n = write(STDERR_FILENO, line, len);

        if (n < 0 && errno != EINTR) {
            return; /* a closed or full stderr is nothing to fail for */
        }
        if (n > 0) {
            line += n;
            len -= (size_t)n;
        }
    }
}

void log_write_v(int level, const char *file, int line, const char *fmt, va_list args) {
    char text[TEXT_SIZE];
    char whole[LINE_SIZE];
    int saved = errno;
    size_t len;
    int n;

    level = level < LOG_LEVEL_TRACE ? LOG_LEVEL_TRACE : level > LOG_LEVEL_FATAL ? LOG_LEVEL_FATAL : level;
    n = vsnprintf(text, sizeof text, fmt, args);
    if (n < 0) {
        text[0] = '\0';
    } else if ((size_t)n >= sizeof text) {
        memcpy(text + sizeof text - 4, "...", 4);
    }
    len = line_format(whole, level, file, line, text);
    if (__atomic_load_n(&has_sink, __ATOMIC_ACQUIRE)) {
        lock_take(&sink_lock);
        if (sink_fn != NULL) {
            sink_fn(level, whole, sink_ctx);
        }
        lock_drop(&sink_lock);
    } else {
        line_write(whole, len);
    }
    errno = saved;
}

void log_write(int level, const char *file, int line, const char *fmt, ...) {
    va_list args;

    va_start(args, fmt);
    log_write_v(level, file, line, fmt, args);
    va_end(args);
}

void log_set_level(enum log_level level) {
    __atomic_store_n(&log_threshold, (int)level, __ATOMIC_RELAXED);
}

void log_set_sink(log_sink_fn sink, void *ctx) {
    lock_take(&sink_lock);
    sink_fn = sink;
    sink_ctx = ctx;
    __atomic_store_n(&has_sink, sink != NULL, __ATOMIC_RELEASE);
    lock_drop(&sink_lock);
}

void log_reset(void) {
    log_set_sink(NULL, NULL);
    __atomic_store_n(&log_threshold, -1, __ATOMIC_RELAXED);
}

const char *log_redact(const char *name, const char *value) {
    static const char *const marks[] = {"secret", "password",          "passwd", "passphrase",
                                        "token",  "credential",        "key",    "signature",
                                        "sas",    "connection_string", "auth",   "hmac"};
    size_t len = name != NULL ? strlen(name) : 0;

    if (value == NULL) {
        return "(unset)";
    }
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        size_t mark_len = strlen(marks[i]);

        for (size_t at = 0; at + mark_len <= len; at++) {
            if (text_equal_nocase((struct text){.at = name + at, .len = mark_len}, marks[i])) {
                return "(hidden)";
            }
        }
    }
    return value;
}
