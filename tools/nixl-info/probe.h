/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a backend in a process of its own, so that one which crashes or hangs is reported instead of taking
 * this program with it.
 */
#ifndef NIXL_INFO_PROBE_H
#define NIXL_INFO_PROBE_H

#include <stdbool.h>
#include <stdint.h>

struct probe {
    bool ok;
    uint32_t mems, caps; /* what works here; when ok */
    char words[1024];    /* what the backend says of itself; or why it did not open */
};

void probe_backend(const char *name, struct probe *probe);

#endif
