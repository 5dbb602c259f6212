/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls to etcd's HTTP gateway: several endpoints with failover, user and password, certificates. One thread uses it;
 * only etcd_http_stop() may come from another.
 */
#ifndef EXCHANGE_ETCD_HTTP_H
#define EXCHANGE_ETCD_HTTP_H

#include "exchange/etcd_reply.h"

#define ETCD_CALL_MS 5000L
#define ETCD_CONNECT_MS 1000L
#define ETCD_STOP_MS 1500 /* for calls after etcd_http_stop(), all together */
#define ETCD_ANSWER_MOST (size_t)(256 * 1024 * 1024)

struct etcd_http {
    const struct libs *libs;
    char **endpoints; /* "http://host:port" */
    size_t endpoint_count, current;
    char *user, *password, *ca, *certificate, *key;
    char *token; /* of user and password; NULL: none yet */
    CURL *easy;
    uint64_t stop_ns;       /* when calls end, whatever they do; 0: not yet known */
    const int *interrupted; /* other than 0 there ends calls, too; NULL: none */
};

/* A stream of lines, for a watch. */
struct etcd_stream {
    CURL *easy;
    struct curl_slist *headers;
    struct bytes body;
    struct bytes in; /* what has come and was not taken yet */
};

/* Reads the endpoints and NIXL_ETCD_USER, _PASSWORD, _CA, _CERT, _KEY. Fails in words. */
nixl_status_t etcd_http_open(struct etcd_http *http, const char *endpoints);
void etcd_http_close(struct etcd_http *http);
void etcd_http_stop(struct etcd_http *http);

/*
 * POSTs a body to a path of the gateway. SUCCESS with the reply (free it); NIXL_ERR_REMOTE_DISCONNECT: no endpoint can be
 * reached or serves, worth trying again later; other failures are etcd's word. Failures have words, and no reply.
 * `code`, if not NULL, gets gRPC's code of the failure.
 */
nixl_status_t etcd_http_call(struct etcd_http *http, const char *path, const struct bytes *body,
                             struct etcd_reply *reply, int64_t *code);

/* A POST whose answer does not end; for a multi handle. The body is taken over. False with words. */
bool etcd_stream_open(struct etcd_http *http, const char *path, struct bytes *body,
                      struct etcd_stream *stream);
void etcd_stream_close(struct etcd_http *http, struct etcd_stream *stream);

#endif
