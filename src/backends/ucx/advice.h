/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a peer's bytes go by a slower way than this machine could offer, and which setting would cure it. A pure function over
 * what is known: what is not known is not warned about.
 */
#ifndef UCX_ADVICE_H
#define UCX_ADVICE_H

#include "netdev.h"

struct ucx_situation {
    const char *bytes;   /* the transports that carry its bytes: "tcp", "cma", "rc_mlx5+tcp" */
    const char *devices; /* the devices they use, as UCX calls them: "eth0,eth1" */
    /* Why the kernel's copies are not used although the peer is on this host, and the cure; NULL when it is not on this host,
     * or not known to be. */
    const char *no_copies;
    /* The setting that chooses network devices and its value: "UCX_NET_DEVICES", "eth0"; NULL: UCX chooses. */
    const char *setting, *chosen;
    bool uses_two; /* this UCX divides large transfers over two devices where both reach the peer */
    const struct ucx_netdev *netdevs;
    size_t netdev_count;
};

/* Writes the advice, at most `size` bytes with its end, and returns true; false when there is nothing to say. */
bool ucx_advice(const struct ucx_situation *situation, char *text, size_t size);

#endif
