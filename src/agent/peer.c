/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers: the table of them, their two counts, their end, and what is known of their connections. A peer in
 * the table has one user; each request to it is another. The last user's leaving closes keys and connections,
 * so nothing that a backend could still need goes earlier. Loading (load.c) makes peers.
 */
#include "agent/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CONNECT_NAP_NS 50000u /* between two looks at a connection that is being made, at first */
#define CONNECT_NAP_MAX_NS 1000000u

/* ---- the table and the counts ---- */

struct peer *peer_find(struct nixl_agent *agent, const char *name, size_t len) {
    struct peer *peer = __atomic_load_n(&agent->last_found, __ATOMIC_RELAXED);

    if (peer != NULL && peer->name_len == len && memcmp(peer->name, name, len) == 0) {
        return peer;
    }
    peer = hash_get(&agent->peers, name, len);
    if (peer != NULL) {
        __atomic_store_n(&agent->last_found, peer, __ATOMIC_RELAXED);
    }
    return peer;
}

struct peer *peer_new(struct nixl_agent *agent, const char *name, size_t len) {
    struct peer *peer = calloc(1, sizeof *peer);

    if (peer == NULL) {
        return NULL;
    }
    peer->name = malloc(len + 1);
    if (peer->name == NULL) {
        free(peer);
        return NULL;
    }
    memcpy(peer->name, name, len);
    peer->name[len] = '\0';
    peer->name_len = len;
    peer->agent = agent;
    peer->users = 1;
    peer->refs = 1;
    peer->heard_ns = clock_coarse_ns();
    region_set_init(&peer->regions);
    return peer;
}

void peer_ref(struct peer *peer) {
    __atomic_fetch_add(&peer->refs, 1, __ATOMIC_RELAXED);
}

void peer_unref(struct peer *peer) {
    if (__atomic_sub_fetch(&peer->refs, 1, __ATOMIC_ACQ_REL) != 0) {
        return;
    }
    for (unsigned slot = 0; slot < AGENT_BACKENDS; slot++) {
        bytes_free(&peer->conns[slot]);
    }
    region_set_destroy(&peer->regions);
    cost_free(peer->costs);
    free(peer->name);
    free(peer);
}

bool peer_publish(struct peer *peer) {
    struct nixl_agent *agent = peer->agent;
    void *former;

    if (!hash_put(&agent->peers, peer->name, peer->name_len, peer, &former)) {
        return false;
    }
    if (inbox_sender_add(&agent->inbox, peer)) {
        return true;
    }
    if (former == NULL) {
        hash_remove(&agent->peers, peer->name, peer->name_len);
    } else {
        (void)hash_put(&agent->peers, peer->name, peer->name_len, former,
                       NULL); /* replaces: needs no memory */
    }
    return false;
}

void peer_retire(struct peer *peer) {
    struct nixl_agent *agent = peer->agent;

    /* A newer life of the same name may have taken its place already. */
    if (hash_get(&agent->peers, peer->name, peer->name_len) == peer) {
        hash_remove(&agent->peers, peer->name, peer->name_len);
    }
    inbox_sender_remove(&agent->inbox, peer);
    if (__atomic_load_n(&agent->last_notified, __ATOMIC_RELAXED) == peer) {
        __atomic_store_n(&agent->last_notified, NULL, __ATOMIC_RELAXED);
    }
    if (__atomic_load_n(&agent->last_found, __ATOMIC_RELAXED) == peer) {
        __atomic_store_n(&agent->last_found, NULL, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&peer->is_gone, true, __ATOMIC_SEQ_CST);
}

/* ---- the end of one ---- */

/* Closes the keys of a remote region that nobody holds any more. The backend's control lock is held when
 * `locked`. */
static void region_end(struct peer *peer, struct region *region, bool locked) {
    for (uint32_t rest = region->backends; rest != 0; rest &= rest - 1) {
        unsigned slot = (unsigned)__builtin_ctz(rest);
        struct nixl_backend *backend = peer->agent->backends[slot];

        if (!locked) {
            lock_take(&backend->control);
        }
        backend->ops.key_close(backend->self, peer->handles[slot], region_key_of(region, slot)->handle);
        if (!locked) {
            lock_drop(&backend->control);
        }
    }
    region_free(region);
}

void peer_region_end(struct peer *peer, struct region *region) {
    region_end(peer, region, false);
}

void peer_region_unref(struct peer *peer, struct region *region) {
    if (region_unref(region)) {
        region_end(peer, region, false);
    }
}

struct collected {
    struct region **items;
    size_t count;
};

static bool region_collect(struct region *region, void *ctx) {
    struct collected *all = ctx;

    all->items[all->count++] = region;
    return true;
}

/* Takes regions out of the set one by one where there is no memory to list them. */
static bool region_first(struct region *region, void *ctx) {
    *(struct region **)ctx = region;
    return false;
}

static void regions_close_slowly(struct peer *peer) {
    for (unsigned mem = 0; mem < NIXL_MEM_KINDS; mem++) {
        for (;;) {
            struct region *region = NULL;

            region_set_each(&peer->regions, (nixl_mem_t)mem, region_first, &region);
            if (region == NULL) {
                break;
            }
            region_set_remove(&peer->regions, region);
            peer_region_unref(peer, region);
        }
    }
}

/* Nobody searches the set any more: the peer is out of the table, and prepared lists see that it is gone. */
static void regions_close(struct peer *peer) {
    struct collected all = {.items = array_alloc(peer->regions.count, sizeof *all.items)};
    struct nixl_backend *held = NULL;

    if (all.items == NULL) {
        regions_close_slowly(peer);
        return;
    }
    for (unsigned mem = 0; mem < NIXL_MEM_KINDS; mem++) {
        region_set_each(&peer->regions, (nixl_mem_t)mem, region_collect, &all);
    }
    region_set_destroy(&peer->regions);
    region_set_init(&peer->regions);
    for (size_t i = 0; i < all.count; i++) {
        struct region *region = all.items[i];
        struct nixl_backend *backend = peer->agent->backends[__builtin_ctz(region->backends)];
        bool single = (region->backends & (region->backends - 1)) == 0;

        __atomic_store_n(&region->is_dead, true, __ATOMIC_RELEASE);
        if (held != NULL && (held != backend || !single)) {
            lock_drop(&held->control);
            held = NULL;
        }
        if (single && held == NULL) {
            lock_take(&backend->control);
            held = backend;
        }
        if (region_unref(region)) {
            region_end(peer, region, single);
        }
    }
    if (held != NULL) {
        lock_drop(&held->control);
    }
    free(all.items);
}

void peer_leave(struct peer *peer) {
    if (__atomic_sub_fetch(&peer->users, 1, __ATOMIC_ACQ_REL) != 0) {
        return;
    }
    regions_close(peer);
    free(peer->lingering);
    peer->lingering = NULL;
    peer->lingering_count = 0;
    for (uint32_t rest = peer->backends; rest != 0; rest &= rest - 1) {
        struct nixl_backend *backend = peer->agent->backends[__builtin_ctz(rest)];

        lock_take(&backend->control);
        backend->ops.peer_close(backend->self, peer->handles[backend->slot]);
        lock_drop(&backend->control);
        peer->handles[backend->slot] = NULL;
    }
    peer->backends = 0;
    peer_unref(peer);
}

/* ---- failures ---- */

void peer_words_set(struct peer *peer, const char *text) {
    lock_take(&peer->words_lock);
    snprintf(peer->error, sizeof peer->error, "%s", text);
    lock_drop(&peer->words_lock);
}

void peer_on_failure(void *ctx, void *token, nixl_status_t status, const char *text) {
    const struct nixl_backend *backend = ctx;
    struct peer *peer = token;
    char words[sizeof peer->error];

    snprintf(words, sizeof words, "peer %s, backend %s: %s (%s)", peer->name, backend->ops.name,
             text != NULL && text[0] != '\0' ? text : "its connection failed", error_status_name(status));
    peer_words_set(peer, words);
    __atomic_store_n(&peer->is_failed, true, __ATOMIC_RELEASE);
    log_info("agent %s: %s", backend->agent->name, words);
}

/* ---- the calls ---- */

/* The start of each call on a peer: a use of it, to be given back with peer_leave(). Nothing is locked
 * afterwards but the edge, which agent_leave() opens. */
static nixl_status_t peer_enter(struct nixl_agent *agent, const char *call, const char *name,
                                struct peer **peer) {
    nixl_status_t status = agent_enter(agent, call);

    *peer = NULL;
    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (name == NULL || name[0] == '\0') {
        agent_leave(agent);
        return fail(NIXL_ERR_INVALID_PARAM, "%s: no peer is named", call);
    }
    tables_search(agent);
    *peer = peer_find(agent, name, strlen(name));
    if (*peer != NULL) {
        peer_use(*peer);
    }
    tables_leave(agent);
    if (*peer == NULL) {
        agent_leave(agent);
        if (strcmp(name, agent->name) == 0) {
            return fail(NIXL_ERR_NOT_FOUND, "%s: %s is this agent itself", call, name);
        }
        return fail(NIXL_ERR_NOT_FOUND, "%s: peer %s is not loaded", call, name);
    }
    return NIXL_SUCCESS;
}

/* What backends of `mask` say of the peer together: the worst of failed, connecting, usable. */
static nixl_status_t state_ask(struct peer *peer, uint32_t mask) {
    nixl_status_t worst = NIXL_SUCCESS;

    for (; mask != 0; mask &= mask - 1) {
        struct nixl_backend *backend = peer->agent->backends[__builtin_ctz(mask)];
        unsigned mark = backend_mark();
        nixl_status_t status;

        if (backend->ops.peer_state == NULL) {
            continue;
        }
        status = backend->ops.peer_state(backend->self, peer->handles[backend->slot]);
        if (status < 0) {
            return backend_fault(backend, mark, status, "asking for a connection's state");
        }
        if (status == NIXL_IN_PROG) {
            worst = NIXL_IN_PROG;
        }
    }
    return worst;
}

static nixl_status_t failure_tell(struct peer *peer) {
    char words[sizeof peer->error];

    lock_take(&peer->words_lock);
    memcpy(words, peer->error, sizeof words);
    lock_drop(&peer->words_lock);
    return fail(NIXL_ERR_REMOTE_DISCONNECT, "%s; to reach it anew load its metadata again",
                words[0] != '\0' ? words : "the peer's connection failed");
}

static void nap(uint64_t ns) {
    struct timespec pause = {.tv_sec = 0, .tv_nsec = (long)ns};

    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static nixl_status_t connect_wait(struct peer *peer, uint32_t mask, uint64_t wait_ms) {
    uint64_t deadline = clock_deadline_ms(clock_now_ns(), wait_ms);
    uint64_t pause = CONNECT_NAP_NS;
    nixl_status_t status;

    for (;;) {
        unsigned events = progress_run(peer->agent);

        status =
            __atomic_load_n(&peer->is_failed, __ATOMIC_ACQUIRE) ? failure_tell(peer) : state_ask(peer, mask);
        if (status != NIXL_IN_PROG || clock_now_ns() >= deadline) {
            return status;
        }
        if (events == 0) {
            nap(pause);
            pause = pause * 2 < CONNECT_NAP_MAX_NS ? pause * 2 : CONNECT_NAP_MAX_NS;
        }
    }
}

static nixl_status_t connect_begin(struct peer *peer, uint32_t mask, const struct nixl_options *options) {
    struct nixl_backend *order[AGENT_BACKENDS];
    unsigned count = select_order(peer->agent, options, mask, order);
    nixl_status_t worst = NIXL_SUCCESS;

    for (unsigned i = 0; i < count; i++) {
        unsigned mark = backend_mark();
        nixl_status_t status;

        if (order[i]->ops.peer_connect == NULL) {
            continue;
        }
        status = order[i]->ops.peer_connect(order[i]->self, peer->handles[order[i]->slot]);
        if (status < 0) {
            return backend_fault(order[i], mark, status, "connecting");
        }
        if (status == NIXL_IN_PROG) {
            worst = NIXL_IN_PROG;
        }
    }
    return worst;
}

nixl_status_t nixl_peer_connect(struct nixl_agent *agent, const char *name,
                                const struct nixl_options *options) {
    struct peer *peer;
    uint32_t hints;
    uint32_t mask;
    nixl_status_t status = peer_enter(agent, "peer connect", name, &peer);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    status = select_hints(agent, options, &hints);
    mask = hints != 0 ? peer_backends(peer) & hints : peer_backends(peer);
    if (status == NIXL_SUCCESS && mask == 0) {
        status = fail(NIXL_ERR_BACKEND, "peer %s and agent %s have no%s backend in common", name, agent->name,
                      hints != 0 ? " such" : "");
    } else if (status == NIXL_SUCCESS) {
        status = connect_begin(peer, mask, options);
    }
    agent_leave(agent);
    if (status == NIXL_IN_PROG && options_full(options).wait_ms != 0) {
        status = connect_wait(peer, mask, options_full(options).wait_ms);
    }
    peer_leave(peer);
    if (status < 0) {
        error_prefix("peer connect");
    }
    return status;
}

nixl_status_t nixl_peer_state(struct nixl_agent *agent, const char *name) {
    struct peer *peer;
    nixl_status_t status = peer_enter(agent, "peer state", name, &peer);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (__atomic_load_n(&peer->is_failed, __ATOMIC_ACQUIRE)) {
        status = failure_tell(peer);
    } else {
        status = state_ask(peer, peer_backends(peer));
        if (status < 0) {
            peer_words_set(peer, error_text());
        }
    }
    agent_leave(agent);
    peer_leave(peer);
    return status;
}

const char *nixl_peer_error(struct nixl_agent *agent, const char *name) {
    static _Thread_local char words[sizeof((struct peer *)0)->error];
    struct peer *peer;

    if (peer_enter(agent, "peer error", name, &peer) != NIXL_SUCCESS) {
        return "";
    }
    lock_take(&peer->words_lock);
    memcpy(words, peer->error, sizeof words);
    lock_drop(&peer->words_lock);
    agent_leave(agent);
    peer_leave(peer);
    return words;
}

const char *nixl_peer_transport(struct nixl_agent *agent, const char *name, struct nixl_backend *backend) {
    static _Thread_local char words[256];
    struct nixl_options hint = NIXL_OPTIONS_INIT;
    struct nixl_backend *order[AGENT_BACKENDS];
    char carrier[192] = "";
    struct peer *peer;
    uint32_t mask = 0;

    words[0] = '\0';
    if (peer_enter(agent, "peer transport", name, &peer) != NIXL_SUCCESS) {
        return words;
    }
    hint.backends = &backend;
    hint.backend_count = backend != NULL ? 1 : 0;
    if (select_hints(agent, &hint, &mask) == NIXL_SUCCESS) {
        mask = backend != NULL ? mask & peer_backends(peer) : peer_backends(peer);
        if (select_order(agent, NULL, mask, order) != 0) {
            nixl_mem_t mem = (nixl_mem_t)__builtin_ctz(order[0]->instance.mems);

            if (order[0]->ops.peer_transport == NULL ||
                order[0]->ops.peer_transport(order[0]->self, peer->handles[order[0]->slot], mem, carrier,
                                             sizeof carrier) != NIXL_SUCCESS) {
                carrier[0] = '\0';
            }
            snprintf(words, sizeof words, "%s%s%s", order[0]->ops.name, carrier[0] != '\0' ? " " : "",
                     carrier);
        }
    }
    agent_leave(agent);
    peer_leave(peer);
    return words;
}

/* ---- the list of names ---- */

struct naming {
    const char **items;
    char *text; /* NULL: count only */
    size_t count, bytes;
};

static bool name_visit(const char *key, size_t len, void *value, void *ctx) {
    struct naming *naming = ctx;

    (void)value;
    if (naming->text != NULL) {
        memcpy(naming->text, key, len);
        naming->text[len] = '\0';
        naming->items[naming->count] = naming->text;
        naming->text += len + 1;
    }
    naming->count++;
    naming->bytes += len + 1;
    return true;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

nixl_status_t nixl_peer_list(struct nixl_agent *agent, struct nixl_names **names) {
    struct naming naming = {0};
    struct nixl_names *block;
    nixl_status_t status;

    if (names == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "peer list: names is NULL");
    }
    *names = NULL;
    status = agent_enter(agent, "peer list");
    if (status != NIXL_SUCCESS) {
        return status;
    }
    tables_search(agent);
    hash_each(&agent->peers, name_visit, &naming);
    block = malloc(sizeof *block + naming.count * sizeof(char *) + naming.bytes);
    if (block != NULL) {
        naming.items = (const char **)(block + 1);
        naming.text = (char *)(naming.items + naming.count);
        block->items = naming.items;
        naming.count = naming.bytes = 0;
        hash_each(&agent->peers, name_visit, &naming);
        block->count = naming.count;
        if (naming.count > 1) {
            qsort(naming.items, naming.count, sizeof(char *), by_text);
        }
    }
    tables_leave(agent);
    agent_leave(agent);
    if (block == NULL) {
        return fail_memory("the list of peers", naming.bytes);
    }
    *names = block;
    return NIXL_SUCCESS;
}
