/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages and barriers through etcd's keys, in the reference's form, for runs in which one end is the reference's. A message is
 * a number (its length) and a text, each put under a key of sender and receiver and acknowledged under another. The
 * reference's receiver takes a message's key away a second after it has acknowledged it, so the next message to it
 * waits until the key is gone; ours takes it away first.
 */
#include "runtime_etcd.h"

#include "base/clock.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ACK "received"

enum piece {
    PIECE_NUMBER,
    PIECE_TEXT
};

static void key_of(const struct runtime *runtime, char *key, enum piece piece, unsigned from, unsigned to,
                   const char *tail) {
    snprintf(key, ETCD_KEY_SIZE, "%smsg+%s/src=%u/dst=%u%s", runtime->meeting->prefix,
             piece == PIECE_NUMBER ? "int_data" : "char_data", from, to, tail);
}

static bool put(struct runtime *runtime, const char *key, const void *value, size_t len) {
    struct etcd_meeting *meeting = runtime->meeting;

    return etcd_meeting_keep(runtime) &&
           ETCD_TRY(runtime, etcd_put(&meeting->http, key, value, len, meeting->lease, NULL));
}

static bool drop(struct runtime *runtime, const char *key) {
    return ETCD_TRY(runtime, etcd_delete(&runtime->meeting->http, key));
}

/* Waits until the key is there, or until it is gone. `value` NULL: what it holds does not matter. */
static bool await_key(struct runtime *runtime, const char *key, bool is_there, struct bytes *value,
                      const char *what, unsigned other) {
    uint64_t since_ns = clock_now_ns();
    struct etcd_reply reply;
    unsigned round = 0;
    bool is_met;

    do {
        if (!ETCD_TRY(runtime, etcd_get(&runtime->meeting->http, key, &reply))) {
            return false;
        }
        is_met = (reply.kv_count != 0) == is_there;
        if (is_met && is_there && value != NULL) {
            bytes_free(value);
            *value = reply.kvs[0].value;
            reply.kvs[0].value = (struct bytes){0};
        }
        etcd_reply_free(&reply);
    } while (!is_met && etcd_meeting_wait(runtime, since_ns, &round, "%s process %u", what, other));
    return is_met;
}

/* Puts a piece where the receiver looks and waits until it has been taken. `data` NULL: the value says all. */
static bool send_piece(struct runtime *runtime, enum piece piece, unsigned to, const char *value,
                       const void *data, size_t len) {
    char key[ETCD_KEY_SIZE], extra[ETCD_KEY_SIZE];

    key_of(runtime, extra, piece, runtime->rank, to, "/data");
    if (data != NULL && !put(runtime, extra, data, len)) {
        return false;
    }
    key_of(runtime, key, piece, runtime->rank, to, "");
    key_of(runtime, extra, piece, runtime->rank, to, "/ack");
    return put(runtime, key, value, strlen(value)) &&
           await_key(runtime, extra, true, NULL, "an acknowledgement of", to) && drop(runtime, extra) &&
           await_key(runtime, key, false, NULL, "a message's removal by", to);
}

static bool keys_send(struct runtime *runtime, unsigned to, const void *data, size_t len) {
    char number[32], about[64];

    snprintf(number, sizeof number, "%zu", len);
    snprintf(about, sizeof about, "%u:%u:%zu", runtime->rank, to, len);
    return send_piece(runtime, PIECE_NUMBER, to, number, NULL, 0) &&
           send_piece(runtime, PIECE_TEXT, to, about, data != NULL ? data : "", len);
}

static bool recv_piece(struct runtime *runtime, enum piece piece, unsigned from, struct bytes *out) {
    char key[ETCD_KEY_SIZE], extra[ETCD_KEY_SIZE];

    key_of(runtime, key, piece, from, runtime->rank, "");
    if (!await_key(runtime, key, true, out, "a message from", from)) {
        return false;
    }
    key_of(runtime, extra, piece, from, runtime->rank, "/data");
    if (piece == PIECE_TEXT &&
        (!await_key(runtime, extra, true, out, "a message from", from) || !drop(runtime, extra))) {
        return false;
    }
    if (!drop(runtime, key)) {
        return false;
    }
    key_of(runtime, extra, piece, from, runtime->rank, "/ack");
    return put(runtime, extra, ACK, strlen(ACK));
}

static bool keys_recv(struct runtime *runtime, unsigned from, struct bytes *out) {
    struct bytes number = {0};
    uint64_t len = 0;
    bool ok = recv_piece(runtime, PIECE_NUMBER, from, &number);

    if (ok && text_parse_uint((struct text){(const char *)number.data, number.len}, &len) != TEXT_OK) {
        ok = runtime_fail(runtime, "process %u sent a malformed length", from);
    }
    bytes_free(&number);
    if (!ok || !recv_piece(runtime, PIECE_TEXT, from, out)) {
        return false;
    }
    return out->len == len ||
           runtime_fail(runtime, "process %u sent %zu bytes and announced %" PRIu64, from, out->len, len);
}

/* Each puts its key below the barrier's and waits until all are there, or until rank 0, who saw them all, has taken
 * them away. */
static bool keys_barrier(struct runtime *runtime, const char *name) {
    struct etcd_meeting *meeting = runtime->meeting;
    char head[ETCD_KEY_SIZE - 16], key[ETCD_KEY_SIZE];
    uint64_t since_ns = clock_now_ns();
    struct etcd_reply reply;
    unsigned round = 0;
    size_t count;

    snprintf(head, sizeof head, "%sbarrier/%s/%u/", meeting->prefix, name, runtime->barriers++);
    snprintf(key, sizeof key, "%s%u", head, runtime->rank);
    if (!put(runtime, key, "1", 1)) {
        return false;
    }
    do {
        if (!ETCD_TRY(runtime, etcd_list(&meeting->http, head, &reply))) {
            return false;
        }
        count = reply.kv_count;
        etcd_reply_free(&reply);
        if (count == 0 || count >= runtime->size) {
            return runtime->rank != 0 || ETCD_TRY(runtime, etcd_delete_all(&meeting->http, head));
        }
    } while (etcd_meeting_wait(runtime, since_ns, &round, "the other end at barrier \"%s\"", name));
    return false;
}

const struct runtime_keys etcd_keys = {.send = keys_send, .recv = keys_recv, .barrier = keys_barrier};
