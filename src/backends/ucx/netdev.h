/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network devices of this machine (of its network namespace) as far as the choice between them goes: what UCX could use,
 * and what is likely to lead nowhere. Read from the kernel at each call: devices come and go.
 */
#ifndef UCX_NETDEV_H
#define UCX_NETDEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UCX_NETDEVS 64 /* looked at; machines with more are served by the first of them */

struct ucx_netdev {
    char name[64]; /* as UCX calls it: "eth0", "mlx5_0:1" */
    bool is_rdma;  /* a port of an RDMA device; else an interface */
    bool is_up;    /* can carry bytes now: administratively up, and with a link */
    bool is_loopback;
    bool is_bridge;
    bool is_inner; /* a bridge that joins containers or virtual machines of this host, and nothing else */
    bool
        is_nic; /* a card, or a container's or virtual machine's view of one: not a bridge, tunnel, dummy or VLAN */
    int64_t mbps;     /* speed of the link; 0: unknown */
    char address[48]; /* the first that can be routed, "" for none; RDMA: always "" */
    char local[48];   /* the first link-local one (169.254.0.0/16, fe80::/10), "" for none */
};

/* Fills at most `max` entries and returns how many. Never fails: what cannot be read is not there. */
size_t ucx_netdevs(struct ucx_netdev *devices, size_t max);

/* The entry of that name, or NULL. */
const struct ucx_netdev *ucx_netdev_find(const struct ucx_netdev *devices, size_t count, const char *name);

/* An interface that could reach other machines: up, with an address that can be routed, neither loopback nor inner bridge. */
bool ucx_netdev_leads_out(const struct ucx_netdev *device);

/* "eth0 (10.1.0.1), eth1 (10.2.0.1)": the interfaces that lead out, for an error text; "" for none. Returns buf. */
const char *ucx_netdevs_text(const struct ucx_netdev *devices, size_t count, char *buf, size_t size);

/* The devices for UCX_NET_DEVICES that leave out what would only mislead: inner bridges, and interfaces with link-local
 * addresses alone beside others with better ones. False, and nothing written, when there is nothing to leave out or nothing would
 * stay. */
bool ucx_netdevs_choose(const struct ucx_netdev *devices, size_t count, char *list, size_t size);

#endif
