/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What etcd's HTTP gateway answers, as structs: JSON in which bytes are base64 and 64-bit numbers are strings. Pure
 * functions over bytes from the network (fuzzed); an answer of another form is told apart from an empty one.
 */
#ifndef EXCHANGE_ETCD_REPLY_H
#define EXCHANGE_ETCD_REPLY_H

#include "base/bytes.h"
#include "exchange/libs.h"

/* An answer to range, put, lease, authenticate. Free with etcd_reply_free(). */
struct etcd_reply {
    bool is_error; /* then `error` and `code` */
    char error[256];
    int64_t code;     /* of gRPC */
    int64_t revision; /* of the store; 0: not told */
    int64_t id, ttl;  /* of a lease; 0: not told */
    char *token;
    size_t kv_count;
    struct etcd_kv {
        struct bytes key, value;
        int64_t create_revision, mod_revision, lease;
    } * kvs;
};

/* MISMATCH with words when it is no answer of etcd's. */
nixl_status_t etcd_reply_read(const struct libs *libs, const void *data, size_t len,
                              struct etcd_reply *reply);
void etcd_reply_free(struct etcd_reply *reply);

struct etcd_event {
    bool is_delete;
    struct bytes key, value;
    int64_t revision;
};

/* One line of a watch. */
struct etcd_news {
    bool is_error;
    char error[256];
    bool is_canceled;
    int64_t watch_id, revision, compact_revision;
    size_t event_count;
    struct etcd_event *events;
};

nixl_status_t etcd_news_read(const struct libs *libs, const void *data, size_t len, struct etcd_news *news);
void etcd_news_free(struct etcd_news *news);

/* Standard base64 with padding. False without memory. */
bool base64_append(struct bytes *out, const void *data, size_t len);
/* Appends what it stands for; false when it is malformed or without memory. */
bool base64_decode(struct bytes *out, const char *text, size_t len);
/* Appends a JSON string with its quotes. */
bool json_quote_append(struct bytes *out, const char *text);

#endif
