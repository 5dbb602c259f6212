/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line on standard error that says what is running. On a terminal it renews itself; elsewhere a line is written each
 * second. A thread of its own writes it, so nothing is done for it inside the measured loop but one relaxed addition.
 */
#ifndef NIXLBENCH_PROGRESS_H
#define NIXLBENCH_PROGRESS_H

#include "plan.h"

#include <stdbool.h>

/* False without a thread or memory: then nothing is shown, which is no failure. */
bool progress_open(const struct bench_plan *plan);
/* What runs now. `total`: iterations, over all threads of this process. */
void progress_case(size_t index, const struct bench_case *row, const char *phase, const uint64_t *counter,
                   uint64_t total);
/* Takes the line off a terminal, before something else is written. The next renewal brings it back. */
void progress_hide(void);
void progress_close(void);

#endif
