/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers are instances in this process, found by a number that their connection bytes carry. They can be lost
 * (by mock_control), killed, or closed; all three look the same from here.
 */
#include "mock_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

nixl_status_t mock_conn_info(void *self, const void **conn, size_t *len) {
    const struct mock *mock = self;

    *conn = mock->conn;
    *len = mock->conn_len;
    return NIXL_SUCCESS;
}

nixl_status_t mock_note(void *self, const void **note, size_t *len) {
    const struct mock *mock = self;

    *note = mock->options.note;
    *len = strlen(mock->options.note);
    return NIXL_SUCCESS;
}

nixl_status_t mock_peer_open(void *self, const char *name, void *token, const void *conn, size_t conn_len,
                             const void *note, size_t note_len, void **peer) {
    struct mock *mock = self;
    const struct nixl_host *host = mock->host;
    struct mock_peer *made;
    bool fails;

    if (conn_len != mock->conn_len || memcmp(conn, mock->conn, 8) != 0) {
        return host->fail(host->ctx, NIXL_ERR_MISMATCH, "the connection bytes of %s are damaged", name);
    }
    if (note != NULL &&
        (note_len != strlen(mock->options.note) || memcmp(note, mock->options.note, note_len) != 0)) {
        return host->fail(host->ctx, NIXL_ERR_MISMATCH, "%s speaks %.*s, this side %s", name, (int)note_len,
                          (const char *)note, mock->options.note);
    }
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "out of memory");
    }
    memcpy(&made->target, (const unsigned char *)conn + 8, 8);
    made->token = token;
    snprintf(made->name, sizeof made->name, "%s", name);
    pthread_mutex_lock(&mock_lock);
    mock->counts.peer_opens++;
    fails = mock->options.fail_peer != 0 && (uint64_t)mock->counts.peer_opens == mock->options.fail_peer;
    if (!fails) {
        made->next = mock->peers;
        mock->peers = made;
        mock->counts.peers++;
    }
    pthread_mutex_unlock(&mock_lock);
    if (fails) {
        free(made);
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "%s", mock->fail_text);
    }
    *peer = made;
    return NIXL_SUCCESS;
}

void mock_peer_close(void *self, void *peer) {
    struct mock *mock = self;
    struct mock_peer **at;

    pthread_mutex_lock(&mock_lock);
    for (at = &mock->peers; *at != peer; at = &(*at)->next) {
    }
    *at = ((struct mock_peer *)peer)->next;
    mock->counts.peers--;
    pthread_mutex_unlock(&mock_lock);
    free(peer);
}

static nixl_status_t state_of(struct mock *mock, struct mock_peer *peer) {
    if (peer->is_lost || mock_by_id(peer->target) == NULL) {
        return mock->host->fail(mock->host->ctx, NIXL_ERR_REMOTE_DISCONNECT, "%s",
                                peer->text[0] != '\0' ? peer->text : "the peer is not there any more");
    }
    if (mock->options.connect_us != 0 && (peer->connected_ns == 0 || mock_now_ns() < peer->connected_ns)) {
        return NIXL_IN_PROG;
    }
    return NIXL_SUCCESS;
}

nixl_status_t mock_peer_connect(void *self, void *peer) {
    struct mock *mock = self;
    struct mock_peer *p = peer;
    nixl_status_t status;

    pthread_mutex_lock(&mock_lock);
    if (p->connected_ns == 0) {
        p->connected_ns = mock_now_ns() + mock->options.connect_us * 1000;
    }
    status = state_of(mock, p);
    pthread_mutex_unlock(&mock_lock);
    return status;
}

nixl_status_t mock_peer_state(void *self, void *peer) {
    struct mock *mock = self;
    struct mock_peer *p = peer;
    nixl_status_t status;

    pthread_mutex_lock(&mock_lock);
    status = p->connected_ns == 0 && !p->is_lost && mock_by_id(p->target) != NULL ? NIXL_SUCCESS
                                                                                  : state_of(mock, p);
    pthread_mutex_unlock(&mock_lock);
    return status;
}

nixl_status_t mock_peer_transport(void *self, void *peer, nixl_mem_t mem, char *text, size_t size) {
    (void)self;
    (void)mem;
    snprintf(text, size, peer != NULL ? "memcpy" : "self");
    return NIXL_SUCCESS;
}

bool mock_deliver(struct mock *mock, struct mock_peer *peer, const void *msg, size_t len) {
    struct mock *target = peer->is_lost ? NULL : mock_by_id(peer->target);

    if (target == NULL) {
        return false;
    }
    mock->counts.notifs++;
    target->host->notified(target->host->ctx, mock->host->agent, strlen(mock->host->agent), msg, len);
    return true;
}

nixl_status_t mock_notify(void *self, void *peer, const void *msg, size_t len) {
    struct mock *mock = self;
    nixl_status_t status = NIXL_SUCCESS;

    pthread_mutex_lock(&mock_lock);
    if (mock->options.fail_notify != 0 && (uint64_t)mock->counts.notifs + 1 == mock->options.fail_notify) {
        status = mock->host->fail(mock->host->ctx, NIXL_ERR_BACKEND, "%s", mock->fail_text);
    } else if (!mock_deliver(mock, peer, msg, len)) {
        mock_peer_lose(mock, peer, "the peer is not there any more");
        status = mock->host->fail(mock->host->ctx, NIXL_ERR_REMOTE_DISCONNECT, "%s",
                                  ((struct mock_peer *)peer)->text);
    }
    pthread_mutex_unlock(&mock_lock);
    return status;
}

void mock_peer_lose(struct mock *mock, struct mock_peer *peer, const char *text) {
    if (!peer->is_lost) {
        peer->is_lost = true;
        snprintf(peer->text, sizeof peer->text, "%s", text);
        mock->host->peer_failed(mock->host->ctx, peer->token, NIXL_ERR_REMOTE_DISCONNECT, peer->text);
        mock_stir(mock);
    }
}
