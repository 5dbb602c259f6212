/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C: the first SIGINT or SIGTERM asks for an orderly end with the table so far; the second one kills. */
#ifndef NIXLBENCH_STOP_H
#define NIXLBENCH_STOP_H

#include <signal.h>
#include <stdbool.h>

extern int stop_signal; /* 0, or the signal that came; accessed atomically */

static inline bool stop_requested(void) {
    return __builtin_expect(__atomic_load_n(&stop_signal, __ATOMIC_RELAXED) != 0, 0);
}

/* Catches the signals, and ignores SIGPIPE; `is_child`: ignores them, because the process that started this one tells it when to end. */
void stop_install(bool is_child);

#endif
