/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines on stderr, one write(2) each, so lines of several threads and processes never mix. NIXL_LOG_LEVEL
 * (TRACE DEBUG INFO WARN ERROR FATAL, any case) is read at the first use; default WARN. A line reads
 *
 *     W1201 04:50:09.123456 12345 peer.c:42] text
 *
 * level letter, month and day, local time, thread id, file and line. Control characters in the text are
 * escaped, so one call is one line. Part of libnixl only; a plugin logs through its host.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdarg.h>
#include <stdbool.h>

enum log_level {
    LOG_LEVEL_TRACE = 0,
    LOG_LEVEL_DEBUG = 1,
    LOG_LEVEL_INFO = 2,
    LOG_LEVEL_WARN = 3,
    LOG_LEVEL_ERROR = 4,
    LOG_LEVEL_FATAL = 5
};

/* The lowest level that is written; below 0 until the environment has been read. Use log_enabled. */
extern int log_threshold;
bool log_enabled_first(int level);

/* One relaxed load after the first use. */
static inline bool log_enabled(int level) {
    int threshold = __atomic_load_n(&log_threshold, __ATOMIC_RELAXED);

    return __builtin_expect(threshold >= 0, 1) ? level >= threshold : log_enabled_first(level);
}

/* Writes whatever the level says: ask log_enabled first, or use the macros. `file` may be a whole path, or
 * NULL. */
void log_write(int level, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5), cold));
void log_write_v(int level, const char *file, int line, const char *fmt, va_list args)
    __attribute__((format(printf, 4, 0), cold));

#define log_at(level, ...)                                                                                   \
    do {                                                                                                     \
        if (log_enabled(level)) {                                                                            \
            log_write((level), __FILE__, __LINE__, __VA_ARGS__);                                             \
        }                                                                                                    \
    } while (0)

#define log_trace(...) log_at(LOG_LEVEL_TRACE, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warn(...) log_at(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)

/* Changes the level from now on; the environment is no longer read. */
void log_set_level(enum log_level level);

/* False when `name` is no level. */
bool log_level_parse(const char *name, enum log_level *out);

/* Gets each line, whole, with its newline, instead of stderr; NULL goes back to stderr. Called under the
 * sink's lock. */
typedef void (*log_sink_fn)(int level, const char *line, void *ctx);
void log_set_sink(log_sink_fn sink, void *ctx);

/* Forgets level and sink, so that the next use reads the environment again. For tests, with no other thread
 * running. */
void log_reset(void);

/*
 * `value` as it may be shown: itself when `name` (of an option or variable) is harmless; "(hidden)" when the
 * name speaks of a key, secret, password, token or credential; "(unset)" for NULL.
 */
const char *log_redact(const char *name, const char *value);

#endif
