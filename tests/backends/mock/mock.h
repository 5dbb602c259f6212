/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests may do to a live MOCK backend, besides its options (README.md): found by dlsym(file,
 * "mock_control"). `agent` names the newest live instance of an agent of that name. All functions may be
 * called from any thread.
 */
#ifndef MOCK_H
#define MOCK_H

#include <stdbool.h>
#include <stddef.h>

struct mock_control {
    size_t size;
    /* Changes an option that has an effect at run time (see README.md). False: no such agent, option or
     * value. */
    bool (*set)(const char *agent, const char *option, const char *value);
    /* The connection of `agent` to `peer` fails now: its requests end as REMOTE_DISCONNECT with these words.
     */
    bool (*lose_peer)(const char *agent, const char *peer, const char *text);
    /* The instance is dead for all others from now on, as after a crash of its process. */
    bool (*kill)(const char *agent);
    /* How many there are (regions, peers, keys, requests, active, views) or were (posts, cancels, forced,
     * notifs, waits,
     * batches, open_batches); -1: unknown. With agent NULL the sum over all instances, closed ones too. */
    long (*count)(const char *agent, const char *what);
    /* The custom bytes that the agent's last opened request came with; how many there were. */
    size_t (*custom)(const char *agent, void *bytes, size_t size);
};

#endif
