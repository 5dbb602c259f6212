/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading metadata: the rules by which a blob adds to a peer, changes it, replaces it or is refused, and the
 * commit. First all of the blob is checked, then backends open what is new (stage.c), then one short change
 * of the tables makes it visible. Whatever fails before that leaves everything as it was.
 *
 * The rules. Without a trailer, as the reference: regions are only added; another connection of a peer that
 * is alive, or another key of a known region, is refused. With one: blobs older than what is known are
 * refused as stale, a full blob and an update also remove, a newer incarnation takes the place of its former
 * self. A peer whose connection has failed is always replaced by a blob that brings connections.
 */
#include "agent/load.h"

#include "base/auth.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the blob offers ---- */

static nixl_status_t name_read(struct load *load) {
    struct bytes_view name = load->blob->agent;
    const struct nixl_agent *agent = load->agent;

    if (name.len > NIXL_NAME_MAX) {
        return fail(NIXL_ERR_MISMATCH, "the blob's agent has a name of %zu bytes, at most %d are allowed",
                    name.len, NIXL_NAME_MAX);
    }
    if (name.len == agent->name_len && memcmp(name.data, agent->name, name.len) == 0) {
        return fail(NIXL_ERR_INVALID_PARAM, "the blob is this agent's own (%s)", agent->name);
    }
    load->name = malloc(name.len + 1);
    if (load->name == NULL) {
        return fail_memory("a peer's name", name.len);
    }
    memcpy(load->name, name.data, name.len);
    load->name[name.len] = '\0';
    return NIXL_SUCCESS;
}

static nixl_status_t no_common_backend(const struct load *load) {
    char theirs[256];
    char ours[256];
    char quoted[64];
    size_t len = 0;

    theirs[0] = ours[0] = '\0';
    for (size_t i = 0; i < load->blob->conn_count; i++) {
        struct bytes_view type = load->blob->conns[i].type;

        text_append(theirs, sizeof theirs, &len, "%s%s", i != 0 ? ", " : "",
                    text_quote(quoted, sizeof quoted, type.data, type.len));
    }
    len = 0;
    for (uint32_t rest = backend_mask(load->agent, NIXL_CAP_REMOTE); rest != 0; rest &= rest - 1) {
        text_append(ours, sizeof ours, &len, "%s%s", ours[0] != '\0' ? ", " : "",
                    load->agent->backends[__builtin_ctz(rest)]->ops.name);
    }
    return fail(NIXL_ERR_BACKEND, "no backend in common: the peer is reached by %s, agent %s has %s", theirs,
                load->agent->name, ours[0] != '\0' ? ours : "none that reaches others");
}

static nixl_status_t conns_read(struct load *load) {
    const struct wire_blob *blob = load->blob;

    for (size_t i = 0; i < blob->conn_count; i++) {
        const struct wire_conn *conn = &blob->conns[i];
        struct nixl_backend *backend =
            backend_find(load->agent, (const char *)conn->type.data, conn->type.len);

        if (backend != NULL && (backend->instance.caps & NIXL_CAP_REMOTE) != 0) {
            load->offered |= 1u << backend->slot;
            load->conns[backend->slot] = conn;
        }
    }
    return blob->conn_count != 0 && load->offered == 0 ? no_common_backend(load) : NIXL_SUCCESS;
}

/* ---- the rules ---- */

/* Below 0 when `a` began before `b`. */
static int life_order(const struct wire_incarnation *a, const struct wire_incarnation *b) {
    if (a->boot_ns != b->boot_ns) {
        return a->boot_ns < b->boot_ns ? -1 : 1;
    }
    if (a->random != b->random) {
        return a->random < b->random ? -1 : 1;
    }
    return 0;
}

/* Whether a connection of the blob differs from what is known. */
static bool conns_differ(const struct load *load) {
    for (uint32_t rest = load->offered & load->old->backends; rest != 0; rest &= rest - 1) {
        unsigned slot = (unsigned)__builtin_ctz(rest);

        if (!bytes_view_equal(load->conns[slot]->bytes, bytes_view_of(&load->old->conns[slot]))) {
            return true;
        }
    }
    return false;
}

/* Whether the old peer's connection has failed, as far as can be told now. */
static bool old_failed(const struct load *load) {
    struct peer *old = load->old;

    if (__atomic_load_n(&old->is_failed, __ATOMIC_ACQUIRE)) {
        return true;
    }
    for (uint32_t rest = old->backends; rest != 0; rest &= rest - 1) {
        struct nixl_backend *backend = load->agent->backends[__builtin_ctz(rest)];

        if (backend->ops.peer_state != NULL &&
            backend->ops.peer_state(backend->self, old->handles[backend->slot]) ==
                NIXL_ERR_REMOTE_DISCONNECT) {
            return true;
        }
    }
    return false;
}

static nixl_status_t stale(const struct load *load) {
    return fail(NIXL_ERR_NOT_ALLOWED,
                "the blob is stale: it is of generation %" PRIu64 ", and generation %" PRIu64
                " is known already",
                load->blob->trailer.generation, load->old->generation);
}

/* An update needs what it builds on. */
static nixl_status_t update_check(const struct load *load) {
    const struct wire_trailer *trailer = &load->blob->trailer;
    const struct peer *old = load->old;

    if (old == NULL || !old->has_trailer || !old->is_complete ||
        life_order(&trailer->incarnation, &old->incarnation) > 0 ||
        trailer->base_generation > old->complete_generation) {
        return fail(NIXL_ERR_NOT_FOUND,
                    "the blob is an update since generation %" PRIu64
                    ", which is not known here: load a full blob of the peer first",
                    trailer->base_generation);
    }
    return NIXL_SUCCESS;
}

/* Both have a trailer and it is the same life. */
static nixl_status_t same_life(struct load *load) {
    const struct wire_trailer *trailer = &load->blob->trailer;
    const struct peer *old = load->old;

    if (conns_differ(load)) {
        return fail(NIXL_ERR_NOT_ALLOWED,
                    "the blob has another connection than the one known of the same agent");
    }
    if (trailer->kind == WIRE_BLOB_PARTIAL) {
        return NIXL_SUCCESS; /* may come in any order; see rows_check() */
    }
    if (trailer->generation < old->generation) {
        return stale(load);
    }
    if (old->is_complete && trailer->generation == old->complete_generation &&
        (load->offered & ~old->backends) == 0) {
        load->action = LOAD_NOTHING;
    }
    return NIXL_SUCCESS;
}

static nixl_status_t other_life(struct load *load, int order) {
    if (order < 0) {
        return fail(NIXL_ERR_NOT_ALLOWED,
                    "the blob is stale: it is of an earlier life of the peer, which has "
                    "started anew since");
    }
    if (load->offered == 0) {
        return fail(NIXL_ERR_NOT_FOUND,
                    "the blob is of a newer life of the peer and has no connection: load a full "
                    "blob of it first");
    }
    load->action = LOAD_NEW;
    return NIXL_SUCCESS;
}

static nixl_status_t no_order(const struct load *load) {
    if (conns_differ(load) && !old_failed(load)) {
        return fail(NIXL_ERR_NOT_ALLOWED,
                    "the peer is known with another connection and alive: forget it first "
                    "(nixl_metadata_invalidate())");
    }
    return NIXL_SUCCESS;
}

static nixl_status_t decide(struct load *load) {
    const struct wire_blob *blob = load->blob;
    const struct peer *old = load->old;
    const bool is_update = blob->has_trailer && blob->trailer.kind == WIRE_BLOB_UPDATE;
    nixl_status_t status = is_update ? update_check(load) : NIXL_SUCCESS;

    load->action = LOAD_ADD;
    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (old == NULL) {
        load->action = LOAD_NEW;
#ifdef BREAK_8
        return NIXL_SUCCESS;
#endif
        return load->offered != 0
                   ? NIXL_SUCCESS
                   : fail(NIXL_ERR_NOT_FOUND, "the blob has no connection, and none is known of the "
                                              "peer: load a full blob of it first");
    }
    if (blob->has_trailer && old->has_trailer) {
        int order = life_order(&blob->trailer.incarnation, &old->incarnation);

        status = order == 0 ? same_life(load) : other_life(load, order);
    } else {
        status = no_order(load);
    }
    if (status == NIXL_SUCCESS && load->action != LOAD_NEW && load->offered != 0 && !is_update &&
        old_failed(load)) {
        load->action = LOAD_NEW;
    }
    return status;
}

/* A part of an older generation than what is completely known may repeat, but not bring back what has gone.
 */
static nixl_status_t rows_check(struct load *load) {
    const struct wire_blob *blob = load->blob;
    const struct peer *old = load->old;

    if (load->action == LOAD_ADD && blob->has_trailer && old->has_trailer && old->is_complete &&
        blob->trailer.kind == WIRE_BLOB_PARTIAL && blob->trailer.generation < old->complete_generation &&
        load->new_count != 0) {
        return stale(load);
    }
#ifndef BREAK_8
    if (load->offered == 0 && load->row_count == 0 &&
        (!blob->has_trailer || blob->trailer.kind == WIRE_BLOB_PARTIAL)) {
        return fail(NIXL_ERR_NOT_FOUND,
                    "the blob has neither a connection nor a region that this agent could use");
    }
#endif
    return NIXL_SUCCESS;
}

/* ---- the commit ---- */

/* The tables have room for all that comes. They are write-held when the peer is in them. */
static bool commit_reserve(struct load *load) {
    for (unsigned mem = 0; mem < NIXL_MEM_KINDS; mem++) {
        if (load->by_mem[mem] != 0 &&
            !region_set_reserve(&load->peer->regions, (nixl_mem_t)mem, load->new_count)) {
            return false;
        }
    }
    return true;
}

static void commit_regions(struct load *load) {
    struct peer *peer = load->peer;
    size_t free_to_go;

    /* Once they are noted as lingering, a request that is released at this moment may let go of the last that held one: so
     * each is held here, too, until aftermath() lets go of it. */
    for (size_t i = 0; i < load->drop_count; i++) {
        region_ref(load->drops[i]);
    }
    free_to_go = linger_note(load->agent, peer, load->drops, load->drop_count);
    for (size_t i = 0; i < load->drop_count; i++) {
        region_set_remove(&peer->regions, load->drops[i]);
        if (i < free_to_go) {
            (void)region_unref(load->drops[i]); /* the set's is left */
        }
    }
    if (load->drop_count != 0) {
        __atomic_fetch_add(&peer->changes, 1, __ATOMIC_SEQ_CST);
    }
    for (unsigned mem = 0; mem < NIXL_MEM_KINDS; mem++) {
        size_t count = 0;

        for (size_t i = 0; i < load->row_count && count < load->by_mem[mem]; i++) {
            if (load->rows[i].known == NULL && load->rows[i].mem == mem) {
                load->adds[count++] = load->rows[i].made;
            }
        }
        if (count != 0) {
            region_set_add(&peer->regions, (nixl_mem_t)mem, load->adds, count);
        }
    }
}

static void commit_conns(struct load *load) {
    struct peer *peer = load->peer;
    struct nixl_backend *order[AGENT_BACKENDS];
    uint32_t able;

    for (uint32_t rest = load->opened; rest != 0; rest &= rest - 1) {
        unsigned slot = (unsigned)__builtin_ctz(rest);

        peer->handles[slot] = load->handles[slot];
        peer->conns[slot] = load->conn_copies[slot];
        load->conn_copies[slot] = (struct bytes){0};
    }
    __atomic_store_n(&peer->backends, peer->backends | load->opened, __ATOMIC_RELEASE);
    load->opened = 0;
    /* Whoever carries its notifications goes on doing so: their order would be lost between two. */
    able = peer->backends & backend_mask(load->agent, NIXL_CAP_NOTIF);
    if (peer->notifier == NULL && select_order(load->agent, NULL, able, order) != 0) {
        __atomic_store_n(&peer->notifier, order[0], __ATOMIC_RELEASE);
    }
}

static void commit_trailer(struct load *load) {
    const struct wire_blob *blob = load->blob;
    struct peer *peer = load->peer;

    if (!blob->has_trailer) {
        return;
    }
    peer->has_trailer = true;
    peer->incarnation = blob->trailer.incarnation;
    if (blob->trailer.generation > peer->generation) {
        peer->generation = blob->trailer.generation;
    }
    if (blob->trailer.kind != WIRE_BLOB_PARTIAL) {
        peer->is_complete = true;
        peer->complete_generation = blob->trailer.generation;
    }
}

/* Makes all of it visible. Fails for want of memory only, and then nothing has changed. */
static nixl_status_t commit(struct load *load) {
    struct nixl_agent *agent = load->agent;
    bool is_new = load->action == LOAD_NEW;
    bool done;

    load->adds = array_alloc(load->new_count, sizeof *load->adds);
    if (load->adds == NULL) {
        return fail_memory("new regions", load->new_count * sizeof *load->adds);
    }
    if (is_new && !commit_reserve(load)) {
        return fail_memory("the peer's regions", 0);
    }
    tables_change(agent);
    done = is_new ? peer_publish(load->peer)
                  : commit_reserve(load) && linger_reserve(load->peer, load->drop_count);
    if (done) {
        commit_regions(load);
        commit_conns(load);
        commit_trailer(load);
        if (is_new && load->old != NULL) {
            peer_retire(load->old);
        }
    }
    tables_leave(agent);
    return done ? NIXL_SUCCESS : fail_memory("the table of peers", 0);
}

/* What nobody sees any more is taken down. */
static void aftermath(struct load *load) {
    for (size_t i = 0; i < load->drop_count; i++) {
        peer_region_unref(load->peer, load->drops[i]);
    }
    load->drop_count = 0;
    if (load->action == LOAD_NEW && load->old != NULL) {
        log_info("agent %s: peer %s takes the place of its former self", load->agent->name, load->name);
        xfer_fail_peer(load->agent, load->old, "peer replaced: it has started anew");
        peer_leave(load->old);
    }
}

/* ---- one load ---- */

static nixl_status_t load_into(struct load *load) {
    const struct peer *base = load->action == LOAD_ADD ? load->old : NULL;
    uint32_t known = base != NULL ? base->backends : 0;
    nixl_status_t status = rows_gather(load, known | load->offered);

    if (status == NIXL_SUCCESS) {
        status = rows_compare(load, base);
    }
    if (status == NIXL_SUCCESS) {
        status = rows_check(load);
    }
    if (status == NIXL_SUCCESS) {
        status = stage_peers(load, load->offered & ~known);
    }
    if (status == NIXL_SUCCESS) {
        status = stage_keys(load);
    }
    if (status == NIXL_SUCCESS) {
        status = commit(load);
    }
    rows_unmark(load);
    if (status != NIXL_SUCCESS) {
#ifndef BREAK_7
        stage_undo(load);
#endif
        return status;
    }
    aftermath(load);
    return NIXL_SUCCESS;
}

static nixl_status_t load_run(struct load *load) {
    nixl_status_t status = name_read(load);

    if (status == NIXL_SUCCESS) {
        status = conns_read(load);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    tables_search(load->agent);
    load->old = peer_find(load->agent, load->name, strlen(load->name));
    tables_leave(load->agent);
    status = decide(load);
    if (status != NIXL_SUCCESS || load->action == LOAD_NOTHING) {
        return status;
    }
    load->peer = load->old;
    if (load->action == LOAD_NEW) {
        load->peer = peer_new(load->agent, load->name, strlen(load->name));
        if (load->peer == NULL) {
            return fail_memory("a peer", sizeof *load->peer);
        }
    }
    status = load_into(load);
    if (status != NIXL_SUCCESS && load->action == LOAD_NEW) {
        peer_unref(load->peer);
    }
    return status;
}

/* What the reader of blobs says, as a status of this call. */
static nixl_status_t blob_refused(nixl_status_t status, const struct wire_error *error) {
    if (status == NIXL_ERR_UNKNOWN) {
        return fail_memory("the blob's contents", 0);
    }
    if (status == NIXL_ERR_NOT_SUPPORTED) {
        return fail(NIXL_ERR_MISMATCH,
                    "the blob is of a newer version than can be read here: %s (at byte %zu)", error->what,
                    error->offset);
    }
    return fail(NIXL_ERR_MISMATCH, "the blob is damaged: %s (at byte %zu)", error->what, error->offset);
}

/* With a key set, only blobs of those who have it count. */
static nixl_status_t mac_check(const struct nixl_agent *agent, const struct wire_blob *blob) {
    const struct auth_piece piece = {blob->auth_range.data, blob->auth_range.len};
    uint8_t mac[AUTH_MAC_LEN];

    if (agent->auth == NULL) {
        return NIXL_SUCCESS;
    }
    if (blob->mac_algorithm != WIRE_MAC_HMAC_SHA256 || blob->mac.len != AUTH_MAC_LEN) {
        return fail(NIXL_ERR_NOT_ALLOWED, "the blob is not signed with the key that is asked for here "
                                          "(NIXL_AUTH_KEY_FILE)");
    }
    if (!auth_mac(agent->auth, &piece, 1, mac) || !auth_equal(mac, blob->mac.data)) {
        return fail(NIXL_ERR_NOT_ALLOWED, "the blob is signed with another key than the one here "
                                          "(NIXL_AUTH_KEY_FILE)");
    }
    return NIXL_SUCCESS;
}

static nixl_status_t load_blob(struct nixl_agent *agent, const void *data, size_t len, char **peer) {
    struct wire_error error = {.what = "", .offset = 0};
    struct bytes scratch = {0};
    struct load load = {.agent = agent, .blob = malloc(sizeof *load.blob)};
    nixl_status_t status;

    if (load.blob == NULL) {
        return fail_memory("a blob's outline", sizeof *load.blob);
    }
    status = wire_blob_open(data, len, &scratch, load.blob, &error);
    if (status != NIXL_SUCCESS) {
        status = blob_refused(status, &error);
    } else {
        status = mac_check(agent, load.blob);
        if (status == NIXL_SUCCESS) {
            status = load_run(&load);
        }
    }
    for (unsigned slot = 0; slot < AGENT_BACKENDS; slot++) {
        bytes_free(&load.conn_copies[slot]);
    }
    rows_free(&load);
    bytes_free(&scratch);
    free(load.blob);
    if (status != NIXL_SUCCESS) {
        if (load.name != NULL) {
            error_prefix("load metadata of %s", load.name);
        } else {
            error_prefix("load metadata");
        }
    }
    if (status == NIXL_SUCCESS && peer != NULL) {
        *peer = load.name;
    } else {
        free(load.name);
    }
    return status;
}

nixl_status_t nixl_metadata_load(struct nixl_agent *agent, const void *blob, size_t len, char **peer) {
    nixl_status_t status;

    if (peer != NULL) {
        *peer = NULL;
    }
    if (blob == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "load metadata: blob is NULL");
    }
    status = agent_enter(agent, "load metadata");
    if (status != NIXL_SUCCESS) {
        return status;
    }
    lock_take(&agent->loading);
    status = load_blob(agent, blob, len, peer);
    lock_drop(&agent->loading);
    agent_leave(agent);
    return status;
}
