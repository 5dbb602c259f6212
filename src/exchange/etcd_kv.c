/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests to etcd's gateway: JSON with bytes in base64 and numbers as strings; see etcd_kv.h. */
#include "exchange/etcd_kv.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>

static bool field(struct bytes *body, const char *name, const void *data, size_t len) {
    return bytes_append_text(body, body->len > 1 ? ",\"" : "\"") && bytes_append_text(body, name) &&
           bytes_append_text(body, "\":\"") && base64_append(body, data, len) &&
           bytes_append_text(body, "\"");
}

/* Takes the body over. `reply` NULL: nobody wants it. */
static nixl_status_t call(struct etcd_http *http, const char *path, struct bytes *body, bool is_made,
                          struct etcd_reply *reply, int64_t *code) {
    struct etcd_reply unread;
    nixl_status_t status = is_made ? etcd_http_call(http, path, body, reply != NULL ? reply : &unread, code)
                                   : fail_memory("a request", 0);

    bytes_free(body);
    if (status == NIXL_SUCCESS && reply == NULL) {
        etcd_reply_free(&unread);
    }
    return status;
}

/* A call whose only argument is a number. */
static nixl_status_t call_number(struct etcd_http *http, const char *path, const char *name, int64_t number,
                                 struct etcd_reply *reply) {
    struct bytes body = {0};
    char text[64];

    snprintf(text, sizeof text, "{\"%s\":\"%" PRId64 "\"}", name, number);
    return call(http, path, &body, bytes_append_text(&body, text), reply, NULL);
}

/* A call about a key, or about all keys that begin so: their end is the prefix with its last byte one higher. */
static nixl_status_t call_keys(struct etcd_http *http, const char *path, const char *key, bool is_prefix,
                               struct etcd_reply *reply) {
    struct bytes body = {0};
    size_t len = strlen(key);
    char *end = strdup(key);
    bool good = end != NULL && len != 0 && bytes_append_text(&body, "{") && field(&body, "key", key, len);

    if (good && is_prefix) {
        end[len - 1]++;
        good = field(&body, "range_end", end, len);
    }
    good = good && bytes_append_text(&body, "}");
    free(end);
    return call(http, path, &body, good, reply, NULL);
}

nixl_status_t etcd_put(struct etcd_http *http, const char *key, const void *value, size_t len, int64_t lease,
                       int64_t *code) {
    struct bytes body = {0};
    char tail[48] = "}";

    if (lease != 0) {
        snprintf(tail, sizeof tail, ",\"lease\":\"%" PRId64 "\"}", lease);
    }
    return call(http, "/v3/kv/put", &body,
                bytes_append_text(&body, "{") && field(&body, "key", key, strlen(key)) &&
                    field(&body, "value", value, len) && bytes_append_text(&body, tail),
                NULL, code);
}

nixl_status_t etcd_get(struct etcd_http *http, const char *key, struct etcd_reply *reply) {
    return call_keys(http, "/v3/kv/range", key, false, reply);
}

nixl_status_t etcd_list(struct etcd_http *http, const char *prefix, struct etcd_reply *reply) {
    return call_keys(http, "/v3/kv/range", prefix, true, reply);
}

nixl_status_t etcd_delete(struct etcd_http *http, const char *key) {
    return call_keys(http, "/v3/kv/deleterange", key, false, NULL);
}

nixl_status_t etcd_delete_all(struct etcd_http *http, const char *prefix) {
    return call_keys(http, "/v3/kv/deleterange", prefix, true, NULL);
}

nixl_status_t etcd_lease_grant(struct etcd_http *http, uint64_t ttl_s, int64_t *lease) {
    struct etcd_reply reply;
    nixl_status_t status = call_number(http, "/v3/lease/grant", "TTL", (int64_t)ttl_s, &reply);

    if (status == NIXL_SUCCESS) {
        *lease = reply.id;
        etcd_reply_free(&reply);
    }
    return status;
}

static nixl_status_t lease_ttl(struct etcd_http *http, const char *path, int64_t lease, int64_t *ttl_s) {
    struct etcd_reply reply;
    nixl_status_t status = call_number(http, path, "ID", lease, &reply);

    if (status == NIXL_SUCCESS) {
        *ttl_s = reply.ttl;
        etcd_reply_free(&reply);
    }
    return status;
}

nixl_status_t etcd_lease_keep(struct etcd_http *http, int64_t lease, int64_t *ttl_s) {
    return lease_ttl(http, "/v3/lease/keepalive", lease, ttl_s);
}

nixl_status_t etcd_lease_left(struct etcd_http *http, int64_t lease, int64_t *ttl_s) {
    return lease_ttl(http, "/v3/lease/timetolive", lease, ttl_s);
}

nixl_status_t etcd_lease_revoke(struct etcd_http *http, int64_t lease) {
    return call_number(http, "/v3/lease/revoke", "ID", lease, NULL);
}

nixl_status_t etcd_lock(struct etcd_http *http, const char *name, int64_t lease) {
    struct bytes body = {0};
    char tail[48];

    snprintf(tail, sizeof tail, ",\"lease\":\"%" PRId64 "\"}", lease);
    return call(http, "/v3/lock/lock", &body,
                bytes_append_text(&body, "{") && field(&body, "name", name, strlen(name)) &&
                    bytes_append_text(&body, tail),
                NULL, NULL);
}
