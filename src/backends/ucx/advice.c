/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules, each with what it must not be:
 *   copies   tcp within a host. Not for other transports: shared memory and RDMA are no worse by orders of size.
 *   address  a link-local address or an inner bridge, while another interface could be used. Not when there is no other.
 *   left out one device of exactly two alike, because a setting leaves the other out. Of more than two, one is each process's
 *            share, and a slower one was left out for good reason; unknown speeds are not compared.
 *   no link  the other one has an address, so somebody wants it used, and no link.
 */
#include "advice.h"

#include "base/text.h"

#include <inttypes.h>
#include <string.h>

/* A port of an RDMA device may be named without its ":1", as in ucx_devices. */
static bool names(const char *list, const char *name) {
    struct text rest = text_of(list), one;
    const char *colon = strchr(name, ':');
    bool is_first_port = colon != NULL && strcmp(colon, ":1") == 0;

    while (text_split(&rest, ',', &one)) {
        one = text_trim(one);
        if (text_equal(one, name) ||
            (is_first_port && one.len == (size_t)(colon - name) && memcmp(one.at, name, one.len) == 0)) {
            return true;
        }
    }
    return false;
}

static bool is_chosen(const struct ucx_situation *s, const char *name) {
    const char *list = s->chosen;

    if (s->setting == NULL || names(list, "all")) {
        return true;
    }
    return list[0] == '^' ? !names(list + 1, name) : names(list, name);
}

/* The devices in use are one card: that one, else NULL. */
static const struct ucx_netdev *only_card(const struct ucx_situation *s) {
    const struct ucx_netdev *only = ucx_netdev_find(s->netdevs, s->netdev_count, s->devices);

    return only != NULL && only->is_nic && only->is_up ? only : NULL;
}

static void address_advice(const struct ucx_situation *s, char *text, size_t size, size_t *used) {
    const struct ucx_netdev *in_use = ucx_netdev_find(s->netdevs, s->netdev_count, s->devices);
    const struct ucx_netdev *better = NULL;

    if (in_use == NULL || in_use->is_rdma || in_use->is_loopback) {
        return;
    }
    for (size_t i = 0; i < s->netdev_count && better == NULL; i++) {
        if (&s->netdevs[i] != in_use && ucx_netdev_leads_out(&s->netdevs[i])) {
            better = &s->netdevs[i];
        }
    }
    if (better == NULL || (!in_use->is_inner && in_use->address[0] != '\0')) {
        return;
    }
    (void)text_append(text, size, used, "%s%s %s %s, though %s (%s) is there: set UCX_NET_DEVICES=%s,lo",
                      *used > 0 ? "; " : "", in_use->is_inner ? "the bridge" : "the link-local address of",
                      in_use->name, in_use->is_inner ? "of this host's containers is used" : "is used",
                      better->name, better->address, better->name);
}

static bool is_as_good(const struct ucx_netdev *device, const struct ucx_netdev *in_use) {
    return device != in_use && device->is_nic && device->is_rdma == in_use->is_rdma && device->is_up &&
           (device->is_rdma || ucx_netdev_leads_out(device)) && device->mbps * 2 >= in_use->mbps &&
           device->mbps > 0 && in_use->mbps > 0;
}

static void left_out_advice(const struct ucx_situation *s, const struct ucx_netdev *in_use, char *text,
                            size_t size, size_t *used) {
    const struct ucx_netdev *other = NULL;

    for (size_t i = 0; i < s->netdev_count; i++) {
        if (is_as_good(&s->netdevs[i], in_use)) {
            if (other != NULL) {
                return;
            }
            other = &s->netdevs[i];
        }
    }
    if (other == NULL || is_chosen(s, other->name)) {
        return;
    }
    (void)text_append(text, size, used,
                      "%sone network device of two is used: %s=%s leaves out %s (%" PRId64
                      " Mb/s): set %s=%s,%s",
                      *used > 0 ? "; " : "", s->setting, s->chosen, other->name, other->mbps, s->setting,
                      in_use->name, other->name);
}

static void no_link_advice(const struct ucx_situation *s, const struct ucx_netdev *in_use, char *text,
                           size_t size, size_t *used) {
    for (size_t i = 0; i < s->netdev_count; i++) {
        const struct ucx_netdev *other = &s->netdevs[i];

        if (other != in_use && other->is_nic && !other->is_rdma && !in_use->is_rdma && !other->is_up &&
            other->address[0] != '\0' && is_chosen(s, other->name)) {
            (void)text_append(text, size, used,
                              "%sone network device of two is used: %s (%s) has no link: bring it up (ip "
                              "link set %s up, cable, switch), or leave it out by UCX_NET_DEVICES=%s,lo",
                              *used > 0 ? "; " : "", other->name, other->address, other->name, in_use->name);
            return;
        }
    }
}

bool ucx_advice(const struct ucx_situation *s, char *text, size_t size) {
    const struct ucx_netdev *card = only_card(s);
    size_t used = 0;

    text[0] = '\0';
    if (strcmp(s->bytes, "tcp") == 0) {
        if (s->no_copies != NULL) {
            (void)text_append(text, size, &used,
                              "tcp carries them, though the agent is on this host and the kernel could copy "
                              "them (cma): %s",
                              s->no_copies);
        }
        address_advice(s, text, size, &used);
    }
    /* Within a host no card is used. */
    if (card != NULL && s->no_copies == NULL && s->uses_two && strcmp(s->bytes, "cma") != 0) {
        left_out_advice(s, card, text, size, &used);
        no_link_advice(s, card, text, size, &used);
    }
    return used > 0;
}
