/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two network namespaces of this process's own, which end with it: A, in which it runs, and B, in which its nodes run. Two links
 * lead from one to the other: "near", a pair of veth devices, and "far", a relay: two tun devices and a thread that hands
 * packets over after a delay, keeps them back, or loses them. Needs root.
 */
#ifndef TESTS_FAULTS_NETS_H
#define TESTS_FAULTS_NETS_H

#include <stdbool.h>

enum way {
    A_TO_B,
    B_TO_A
};

/* Enters A; call before there is a second thread. NULL, or why there can be no such thing here. */
const char *nets_open(void);

/* A shell command in A, in B: whether it ended with 0. */
bool nets_in_a(const char *command);
bool nets_in_b(const char *command);

/* Agents and nodes that start from now on use that link alone; far ones are `delay_ms` away, each way. */
bool nets_use_near(void);
bool nets_use_far(unsigned delay_ms);

/* What comes from now on is kept (or handed over again); what is kept is forgotten. */
void nets_hold(enum way way, bool hold);
void nets_lose(void);

/* Nobody uses the far link any more: its thread ends. */
void nets_end_far(void);

/* Ends each established connection on both sides, without a word over the link. */
void nets_kill_connections(void);

#endif
