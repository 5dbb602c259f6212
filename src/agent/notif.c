/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications: sent by name, kept in an inbox until they are taken. The inbox is a chain of slabs; taking
 * hands whole slabs to the caller, releasing gives them to a pool of the process (they may outlive their
 * agent), so steady traffic needs no heap. One backend carries all notifications to a peer: the cheapest
 * common one that can.
 *
 * What arrives in a peer's name is its sign of life: transfers to it are not taken for stalled meanwhile.
 *
 * Locks: inbox->lock guards its chain and the table of senders; the pool's lock is only tried, so that a forked child never waits for
 * it.
 */
#include "agent/internal.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLAB_ITEMS 256u
#define SLAB_BYTES ((size_t)32 << 10) /* text and messages of an ordinary slab */
#define POOL_MAX 32u                  /* ordinary slabs that are kept: 1.3 MiB */

/* Items first, so that a slab is the caller's result as it stands. */
struct inbox_slab {
    struct nixl_notifs result; /* what the caller gets: the address of this is the slab's */
    struct inbox_slab *next;   /* in an inbox, in the pool, or in a result of several */
    size_t used, size;         /* bytes of `text` */
    bool is_extra;             /* a result block that only points into other slabs */
    struct nixl_notif items[SLAB_ITEMS];
    uint16_t backends[SLAB_ITEMS]; /* mask of the backend that delivered it; 0: this agent itself */
    char text[];
};

static struct inbox_slab *pool;
static unsigned pool_count;
static struct lock pool_lock;

/* ---- slabs ---- */

static struct inbox_slab *slab_take(size_t need) {
    struct inbox_slab *slab = NULL;

    if (need <= SLAB_BYTES && lock_try(&pool_lock)) {
        slab = pool;
        if (slab != NULL) {
            pool = slab->next;
            pool_count--;
        }
        lock_drop(&pool_lock);
    }
    if (slab == NULL) {
        size_t size = need > SLAB_BYTES ? need : SLAB_BYTES;

        slab = malloc(sizeof *slab + size);
        if (slab == NULL) {
            return NULL;
        }
        slab->size = size;
    }
    slab->next = NULL;
    slab->used = 0;
    slab->is_extra = false;
    slab->result = (struct nixl_notifs){.count = 0, .items = slab->items};
    return slab;
}

static void slab_give(struct inbox_slab *slab) {
    if (slab->size == SLAB_BYTES && lock_try(&pool_lock)) {
        if (pool_count < POOL_MAX) {
            slab->next = pool;
            pool = slab;
            pool_count++;
            slab = NULL;
        }
        lock_drop(&pool_lock);
    }
    free(slab);
}

/* The library is unloaded, or the process ends, perhaps while threads go on: from now on nothing is kept. */
static void __attribute__((destructor)) pool_free(void) {
    struct inbox_slab *slab = NULL;

    if (lock_try(&pool_lock)) {
        slab = pool;
        pool = NULL;
        pool_count = POOL_MAX;
        lock_drop(&pool_lock);
    }
    while (slab != NULL) {
        struct inbox_slab *next = slab->next;

        free(slab);
        slab = next;
    }
}

static bool slab_fits(const struct inbox_slab *slab, size_t need) {
    return slab != NULL && slab->result.count < SLAB_ITEMS && slab->size - slab->used >= need;
}

static void slab_add(struct inbox_slab *slab, uint32_t backends, const char *sender, size_t sender_len,
                     const void *msg, size_t len) {
    char *at = slab->text + slab->used;
    size_t n = slab->result.count;

    memcpy(at, sender, sender_len);
    at[sender_len] = '\0';
    if (len != 0) {
        memcpy(at + sender_len + 1, msg, len);
    }
    at[sender_len + 1 + len] = '\0';
    slab->items[n] = (struct nixl_notif){.agent = at, .msg = at + sender_len + 1, .len = len};
    slab->backends[n] = (uint16_t)backends;
    slab->used += sender_len + len + 2;
    slab->result.count = n + 1;
}

/* ---- the inbox ---- */

void inbox_init(struct inbox *inbox) {
    *inbox = (struct inbox){0};
}

void inbox_destroy(struct inbox *inbox) {
    while (inbox->head != NULL) {
        struct inbox_slab *next = inbox->head->next;

        slab_give(inbox->head);
        inbox->head = next;
    }
    inbox->tail = NULL;
    inbox->last_sender = NULL;
    hash_clear(&inbox->senders, NULL);
}

bool inbox_sender_add(struct inbox *inbox, struct peer *peer) {
    bool added;

    lock_take(&inbox->lock);
    added = hash_put(&inbox->senders, peer->name, peer->name_len, peer, NULL);
    if (added) {
        inbox->last_sender = NULL; /* it may have been the former of that name */
    }
    lock_drop(&inbox->lock);
    return added;
}

void inbox_sender_remove(struct inbox *inbox, const struct peer *peer) {
    lock_take(&inbox->lock);
    if (hash_get(&inbox->senders, peer->name, peer->name_len) == peer) {
        hash_remove(&inbox->senders, peer->name, peer->name_len);
    }
    if (inbox->last_sender == peer) {
        inbox->last_sender = NULL;
    }
    lock_drop(&inbox->lock);
}

/* Notes that a peer lives; the last one is tried first. inbox->lock is held: a peer that is found is not freed meanwhile. */
static void heard(struct inbox *inbox, const char *sender, size_t len) {
    struct peer *peer = inbox->last_sender;

    if (peer == NULL || peer->name_len != len || memcmp(peer->name, sender, len) != 0) {
        peer = hash_get(&inbox->senders, sender, len);
        inbox->last_sender = peer;
    }
    if (peer != NULL) {
        __atomic_store_n(&peer->heard_ns, clock_coarse_ns(), __ATOMIC_RELAXED);
    }
}

bool inbox_add(struct nixl_agent *agent, struct nixl_backend *backend, const char *sender, size_t sender_len,
               const void *msg, size_t len) {
    struct inbox *inbox = &agent->inbox;
    uint32_t mask = backend != NULL ? 1u << backend->slot : 0;
    size_t need;

    if (sender_len > NIXL_NAME_MAX || len > SIZE_MAX / 2) {
        return false;
    }
    need = sender_len + len + 2;
    lock_take(&inbox->lock);
    if (backend != NULL) {
        heard(inbox, sender, sender_len);
    }
    if (!slab_fits(inbox->tail, need)) {
        struct inbox_slab *slab = slab_take(need);

        if (slab == NULL) {
            lock_drop(&inbox->lock);
            log_error("agent %s: a notification of %zu bytes is lost: out of memory", agent->name, len);
            return false;
        }
        if (inbox->tail != NULL) {
            inbox->tail->next = slab;
        } else {
            inbox->head = slab;
        }
        inbox->tail = slab;
    }
    slab_add(inbox->tail, mask, sender, sender_len, msg, len);
    __atomic_store_n(&inbox->count, inbox->count + 1, __ATOMIC_RELEASE);
    lock_drop(&inbox->lock);
    progress_event(agent);
    return true;
}

void notif_on_arrival(void *ctx, const char *sender, size_t sender_len, const void *msg, size_t len) {
    struct nixl_backend *backend = ctx;
    char quoted[96];

    if (sender_len == 0 || sender_len > NIXL_NAME_MAX || memchr(sender, '\0', sender_len) != NULL) {
        log_warn("agent %s, backend %s: a notification without a proper sender (%s) is dropped",
                 backend->agent->name, backend->ops.name,
                 text_quote(quoted, sizeof quoted, sender, sender_len));
        return;
    }
    inbox_add(backend->agent, backend, sender, sender_len, msg, len);
}

/* ---- send ---- */

/* The backend for notifications to a peer: the first hint that can, else the cheapest. NULL: none. */
static struct nixl_backend *carrier_choose(struct nixl_agent *agent, const struct nixl_options *options,
                                           uint32_t mask) {
    struct nixl_backend *order[AGENT_BACKENDS];

    return select_order(agent, options, mask, order) != 0 ? order[0] : NULL;
}

static nixl_status_t send_self(struct nixl_agent *agent, uint32_t hints, const void *msg, size_t len) {
    uint32_t able = backend_mask(agent, NIXL_CAP_NOTIF);

    if ((hints != 0 ? able & hints : able) == 0) {
        return fail(NIXL_ERR_BACKEND, "no%s backend of agent %s carries notifications",
                    hints != 0 ? " such" : "", agent->name);
    }
    return inbox_add(agent, NULL, agent->name, agent->name_len, msg, len)
               ? NIXL_SUCCESS
               : fail_memory("a notification", len);
}

static nixl_status_t send_peer(struct nixl_agent *agent, struct peer *peer,
                               const struct nixl_options *options, uint32_t hints, const void *msg,
                               size_t len) {
#ifndef BREAK_15
    struct nixl_backend *backend = hints == 0 ? __atomic_load_n(&peer->notifier, __ATOMIC_ACQUIRE) : NULL;
#else
    struct nixl_backend *backend = __atomic_load_n(&peer->notifier, __ATOMIC_ACQUIRE);
#endif
    unsigned mark = backend_mark();
    nixl_status_t status;

    if (backend == NULL) {
        uint32_t able = backend_mask(agent, NIXL_CAP_NOTIF) & peer_backends(peer);

        backend = carrier_choose(agent, options, hints != 0 ? able & hints : able);
    }
    if (backend == NULL) {
        return fail(NIXL_ERR_BACKEND,
                    "no%s backend that agent %s and peer %s have in common carries notifications",
                    hints != 0 ? " such" : "", agent->name, peer->name);
    }
    status = backend->ops.notify(backend->self, peer->handles[backend->slot], msg, len);
    return status >= 0 ? NIXL_SUCCESS : backend_fault(backend, mark, status, "sending a notification");
}

static bool is_name(const char *name, const char *other, size_t len) {
    return strncmp(name, other, len) == 0 && name[len] == '\0';
}

/* The peer of that name with a use of it. The last one that was notified is tried first: no hash for one who
 * sends to the same again. */
static struct peer *target_find(struct nixl_agent *agent, const char *name) {
    struct peer *peer;

    tables_search(agent);
    peer = __atomic_load_n(&agent->last_notified, __ATOMIC_RELAXED);
    if (peer == NULL || !is_name(name, peer->name, peer->name_len)) {
        peer = peer_find(agent, name, strlen(name));
        if (peer != NULL) {
            __atomic_store_n(&agent->last_notified, peer, __ATOMIC_RELAXED);
        }
    }
    if (peer != NULL) {
        peer_use(peer);
    }
    tables_leave(agent);
    return peer;
}

static nixl_status_t send_to(struct nixl_agent *agent, const char *name, const void *msg, size_t len,
                             const struct nixl_options *options) {
    uint32_t hints = 0;
    struct peer *peer;
    nixl_status_t status = NIXL_SUCCESS;

    if (name == NULL || name[0] == '\0') {
        return fail(NIXL_ERR_INVALID_PARAM, "no peer is named");
    }
    if (len > NIXL_NOTIF_MAX || (msg == NULL && len != 0)) {
        return fail(NIXL_ERR_INVALID_PARAM,
                    len > NIXL_NOTIF_MAX ? "%zu bytes are more than the %u that a notification may have"
                                         : "%zu bytes at NULL (at most %u may be sent)",
                    len, NIXL_NOTIF_MAX);
    }
    if (options != NULL) {
        status = select_hints(agent, options, &hints);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    peer = target_find(agent, name);
    if (peer == NULL) {
        return is_name(name, agent->name, agent->name_len)
                   ? send_self(agent, hints, msg, len)
                   : fail(NIXL_ERR_NOT_FOUND, "peer %s is not loaded", name);
    }
    status = send_peer(agent, peer, options, hints, msg, len);
    peer_leave(peer);
    return status;
}

nixl_status_t nixl_notif_send(struct nixl_agent *agent, const char *peer, const void *msg, size_t len,
                              const struct nixl_options *options) {
    nixl_status_t status = agent_enter(agent, "notify");

    if (status != NIXL_SUCCESS) {
        return status;
    }
    status = send_to(agent, peer, msg, len, options);
    agent_leave(agent);
    if (status != NIXL_SUCCESS) {
        error_prefix("notify");
    }
    return status;
}

/* ---- take ---- */

/* One result for a chain of slabs: a slab-shaped block whose items point into them and which owns them. */
static struct inbox_slab *chain_result(struct inbox_slab *chain, size_t count) {
    struct inbox_slab *result = malloc(sizeof *result + count * sizeof(struct nixl_notif));
    struct nixl_notif *items;
    size_t n = 0;

    if (result == NULL) {
        return NULL;
    }
    items = (struct nixl_notif *)(void *)result->text;
    for (struct inbox_slab *slab = chain; slab != NULL; slab = slab->next) {
        memcpy(items + n, slab->items, slab->result.count * sizeof *items);
        n += slab->result.count;
    }
    result->is_extra = true;
    result->next = chain;
    result->size = 0;
    result->result = (struct nixl_notifs){.count = n, .items = items};
    return result;
}

/* Whether an inbox's owner asks for what that backend delivered. Its own notifications come with any hint. */
static bool is_wanted(uint32_t backends, uint32_t hints) {
    return hints == 0 || backends == 0 || (backends & hints) != 0;
}

/* Appends a copy of an item to a chain. */
static bool chain_add(struct inbox_slab **head, struct inbox_slab **tail, const struct inbox_slab *from,
                      size_t i) {
    const struct nixl_notif *item = &from->items[i];
    size_t name_len = strlen(item->agent);

    if (!slab_fits(*tail, name_len + item->len + 2)) {
        struct inbox_slab *slab = slab_take(name_len + item->len + 2);

        if (slab == NULL) {
            return false;
        }
        if (*tail != NULL) {
            (*tail)->next = slab;
        } else {
            *head = slab;
        }
        *tail = slab;
    }
    slab_add(*tail, from->backends[i], item->agent, name_len, item->msg, item->len);
    return true;
}

struct split {
    struct inbox_slab *wanted, *wanted_tail;
    struct inbox_slab *rest, *rest_tail;
    size_t wanted_count;
};

/* Sorts a chain into what is asked for and what stays. False without memory: the chain is as it was. */
static bool chain_split(struct inbox_slab *chain, uint32_t hints, struct split *split) {
    *split = (struct split){0};
    for (struct inbox_slab *slab = chain; slab != NULL; slab = slab->next) {
        for (size_t i = 0; i < slab->result.count; i++) {
            bool wanted = is_wanted(slab->backends[i], hints);
            bool added = wanted ? chain_add(&split->wanted, &split->wanted_tail, slab, i)
                                : chain_add(&split->rest, &split->rest_tail, slab, i);

            if (!added) {
                return false;
            }
            split->wanted_count += wanted;
        }
    }
    return true;
}

static void chain_free(struct inbox_slab *chain) {
    while (chain != NULL) {
        struct inbox_slab *next = chain->next;

        slab_give(chain);
        chain = next;
    }
}

/* Takes what is asked for out of the inbox as a chain. inbox->lock is held. */
static bool inbox_take(struct inbox *inbox, uint32_t hints, struct inbox_slab **chain, size_t *count) {
    struct split split;
    bool all = true;

    for (struct inbox_slab *slab = inbox->head; slab != NULL && all && hints != 0; slab = slab->next) {
        for (size_t i = 0; i < slab->result.count && all; i++) {
            all = is_wanted(slab->backends[i], hints);
        }
    }
    if (all) {
        *chain = inbox->head;
        *count = inbox->count;
        inbox->head = inbox->tail = NULL;
        __atomic_store_n(&inbox->count, 0, __ATOMIC_RELEASE);
        return true;
    }
    if (!chain_split(inbox->head, hints, &split)) {
        chain_free(split.wanted);
        chain_free(split.rest);
        return false;
    }
    chain_free(inbox->head);
    inbox->head = split.rest;
    inbox->tail = split.rest_tail;
    __atomic_store_n(&inbox->count, inbox->count - split.wanted_count, __ATOMIC_RELEASE);
    *chain = split.wanted;
    *count = split.wanted_count;
    return true;
}

static nixl_status_t take_from(struct nixl_agent *agent, uint32_t hints, struct nixl_notifs **notifs) {
    struct inbox *inbox = &agent->inbox;
    struct inbox_slab *chain = NULL;
    struct inbox_slab *result;
    size_t count = 0;
    bool taken;

    if (__atomic_load_n(&inbox->count, __ATOMIC_ACQUIRE) == 0) {
        return NIXL_SUCCESS;
    }
    lock_take(&inbox->lock);
    taken = inbox_take(inbox, hints, &chain, &count);
    lock_drop(&inbox->lock);
    if (!taken) {
        return fail_memory("received notifications", 0);
    }
    if (chain == NULL) {
        return NIXL_SUCCESS;
    }
    result = chain;
    if (chain->next != NULL) {
        result = chain_result(chain, count);
        if (result == NULL) {
            /* Nothing may be lost: back to the front, before what came meanwhile. */
            struct inbox_slab *last = chain;

            while (last->next != NULL) {
                last = last->next;
            }
            lock_take(&inbox->lock);
            last->next = inbox->head;
            inbox->head = chain;
            inbox->tail = inbox->tail != NULL ? inbox->tail : last;
            __atomic_store_n(&inbox->count, inbox->count + count, __ATOMIC_RELEASE);
            lock_drop(&inbox->lock);
            return fail_memory("received notifications", count * sizeof(struct nixl_notif));
        }
    }
    *notifs = &result->result;
    return NIXL_SUCCESS;
}

nixl_status_t nixl_notif_take(struct nixl_agent *agent, const struct nixl_options *options,
                              struct nixl_notifs **notifs) {
    uint32_t hints = 0;
    uint32_t able;
    nixl_status_t status;

    if (notifs == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "take notifications: notifs is NULL");
    }
    *notifs = NULL;
    status = agent_enter(agent, "take notifications");
    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (options != NULL) {
        status = select_hints(agent, options, &hints);
    }
    able = backend_mask(agent, NIXL_CAP_NOTIF);
    if (status == NIXL_SUCCESS && (hints != 0 ? able & hints : able) == 0) {
        status = fail(NIXL_ERR_BACKEND, "no%s backend of agent %s carries notifications",
                      hints != 0 ? " such" : "", agent->name);
    }
    if (status == NIXL_SUCCESS) {
        progress_run(agent);
        status = take_from(agent, hints, notifs);
    }
    agent_leave(agent);
    if (status != NIXL_SUCCESS) {
        error_prefix("take notifications");
    } else if (*notifs == NULL) {
        progress_give_way(agent);
    }
    return status;
}

void nixl_notifs_release(struct nixl_notifs *notifs) {
    struct inbox_slab *slab = (struct inbox_slab *)(void *)notifs;

    if (slab == NULL) {
        return;
    }
    if (slab->is_extra) {
        chain_free(slab->next);
        free(slab);
    } else {
        slab_give(slab);
    }
}
