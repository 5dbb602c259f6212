/* SPDX-License-Identifier: Apache-2.0 */
/* A line for the table in docs/failures.md: scripts/failures_table.py reads it from the tests' output. */
#ifndef TESTS_FAULTS_OUTCOME_H
#define TESTS_FAULTS_OUTCOME_H

#include <stdio.h>

static inline void outcome(const char *fault, const char *over, const char *ended_as, double ms) {
    printf("# outcome | %s | %s | %s | %.0f\n", fault, over, ended_as, ms);
}

#endif
