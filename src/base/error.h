/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of this thread's last failure, which nixl_error() shows. The function that finds a fault says it,
 * once:
 *
 *     return fail(NIXL_ERR_NOT_FOUND, "descriptor %zu is in no registered region", i);
 *
 * and its callers pass the status up, perhaps with a prefix. Kept in a fixed thread-local buffer: no heap,
 * and nothing to clean up when a thread ends. Part of libnixl only; a plugin reports through its host.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <nixl/nixl.h>

#include <stdarg.h>

#define ERROR_TEXT_SIZE 1024 /* with the NUL; longer texts are cut and end in "..." */

/*
 * Sets this thread's text and returns `status`, so it can stand in a return. Arguments may include
 * error_text() itself. The name is in parentheses because cmocka has a macro called fail.
 */
nixl_status_t(fail)(nixl_status_t status, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
nixl_status_t fail_v(nixl_status_t status, const char *fmt, va_list args)
    __attribute__((format(printf, 2, 0), cold));

/* fail(), blaming descriptor `index`, which error_index() tells. All other failures blame NIXL_NO_INDEX. */
nixl_status_t fail_at(nixl_status_t status, size_t index, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), cold));
size_t error_index(void);

/* fail() with ": <what errno value `err` means>" at the end. */
nixl_status_t fail_errno(nixl_status_t status, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), cold));

/* Out of memory, for a `what` of `bytes` bytes (0: not known): NIXL_ERR_BACKEND. */
nixl_status_t fail_memory(const char *what, size_t bytes) __attribute__((cold));

/* Never NULL; "" when nothing failed yet in this thread. Valid until this thread's next failure. */
const char *error_text(void);

void error_clear(void);

/* Adds context to the text that is there: "<prefix>: <text>", and "<text><suffix>". */
void error_prefix(const char *fmt, ...) __attribute__((format(printf, 1, 2), cold));
void error_append(const char *fmt, ...) __attribute__((format(printf, 1, 2), cold));

/* Sets the text alone, e.g. one kept from another thread; NULL clears. */
void error_set(const char *text);

/* "NIXL_ERR_NOT_FOUND", …; "unknown status" for anything else. */
const char *error_status_name(nixl_status_t status);

#endif
