/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to etcd's HTTP gateway by libcurl; see etcd_http.h. Secrets go into headers and bodies only, never into words. */
#include "exchange/etcd_http.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "exchange/endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define CODE_UNAVAILABLE 14
#define CODE_UNAUTHENTICATED 16

/* ---- settings ---- */

static nixl_status_t endpoint_add(struct etcd_http *http, struct text piece, size_t *cap) {
    const char *scheme = memmem(piece.at, piece.len, "://", 3) != NULL ? "" : "http://";
    char *url = NULL;

    while (piece.at[piece.len - 1] == '/') {
        piece.len--;
    }
    if (asprintf(&url, "%s%.*s", scheme, (int)piece.len, piece.at) < 0 ||
        !array_reserve(&http->endpoints, cap, http->endpoint_count + 1, sizeof *http->endpoints)) {
        free(url);
        return fail_memory("etcd's endpoints", 0);
    }
    http->endpoints[http->endpoint_count++] = url;
    return NIXL_SUCCESS;
}

static nixl_status_t endpoints_read(struct etcd_http *http, const char *list) {
    struct text rest = text_of(list);
    struct text piece;
    size_t cap = 0;
    nixl_status_t status = endpoint_check_urls("etcd's endpoints", list);

    while (status == NIXL_SUCCESS && endpoint_next(&rest, &piece)) {
        status = endpoint_add(http, piece, &cap);
    }
    return status;
}

static nixl_status_t secrets_read(struct etcd_http *http) {
    const struct {
        const char *name;
        char **value;
        bool is_file;
    } settings[] = {
        {"NIXL_ETCD_USER", &http->user, false}, {"NIXL_ETCD_PASSWORD", &http->password, false},
        {"NIXL_ETCD_CA", &http->ca, true},      {"NIXL_ETCD_CERT", &http->certificate, true},
        {"NIXL_ETCD_KEY", &http->key, true},
    };

    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        nixl_status_t status = config_get_string(settings[i].name, NULL, settings[i].value);

        if (status != NIXL_SUCCESS) {
            return status;
        }
        if (settings[i].is_file && *settings[i].value != NULL && access(*settings[i].value, R_OK) != 0) {
            return fail_errno(NIXL_ERR_INVALID_PARAM, errno, "%s: %s cannot be read", settings[i].name,
                              *settings[i].value);
        }
    }
    return NIXL_SUCCESS;
}

nixl_status_t etcd_http_open(struct etcd_http *http, const char *endpoints) {
    nixl_status_t status;

    memset(http, 0, sizeof *http);
    http->libs = libs_get();
    if (http->libs == NULL) {
        return NIXL_ERR_NOT_SUPPORTED;
    }
    status = endpoints_read(http, endpoints);
    if (status == NIXL_SUCCESS) {
        status = secrets_read(http);
    }
    if (status == NIXL_SUCCESS) {
        http->easy = http->libs->curl.easy_init();
        status = http->easy != NULL ? NIXL_SUCCESS : fail_memory("a handle of libcurl", 0);
    }
    if (status != NIXL_SUCCESS) {
        etcd_http_close(http);
    }
    return status;
}

static void secret_free(char *secret) {
    if (secret != NULL) {
        explicit_bzero(secret, strlen(secret));
    }
    free(secret);
}

void etcd_http_close(struct etcd_http *http) {
    if (http->easy != NULL) {
        http->libs->curl.easy_cleanup(http->easy);
    }
    for (size_t i = 0; i < http->endpoint_count; i++) {
        free(http->endpoints[i]);
    }
    free(http->endpoints);
    free(http->user);
    secret_free(http->password);
    secret_free(http->token);
    free(http->ca);
    free(http->certificate);
    free(http->key);
    memset(http, 0, sizeof *http);
}

void etcd_http_stop(struct etcd_http *http) {
    __atomic_store_n(&http->stop_ns, clock_deadline_ms(clock_now_ns(), ETCD_STOP_MS), __ATOMIC_RELEASE);
}

/* ---- one request ---- */

static size_t on_bytes(char *data, size_t size, size_t count, void *ctx) {
    struct bytes *in = ctx;

    if (count > ETCD_ANSWER_MOST - in->len || !bytes_append(in, data, size * count)) {
        return 0;
    }
    return size * count;
}

static int on_progress(void *ctx, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                       curl_off_t up) {
    const struct etcd_http *http = ctx;
    const uint64_t stop_ns = __atomic_load_n(&http->stop_ns, __ATOMIC_ACQUIRE);

    (void)down_total;
    (void)down;
    (void)up_total;
    (void)up;
    /* Other than 0 ends the request. */
    return (stop_ns != 0 && clock_now_ns() >= stop_ns) ||
           (http->interrupted != NULL && __atomic_load_n(http->interrupted, __ATOMIC_RELAXED) != 0);
}

static struct curl_slist *headers_make(struct etcd_http *http) {
    struct curl_slist *headers = http->libs->curl.slist_append(NULL, "Content-Type: application/json");
    char *line = NULL;

    headers = http->libs->curl.slist_append(headers, "Expect:");
    if (http->token != NULL && asprintf(&line, "Authorization: %s", http->token) > 0) {
        headers = http->libs->curl.slist_append(headers, line);
        secret_free(line);
    }
    return headers;
}

static void request_set(struct etcd_http *http, CURL *easy, const char *path, const struct bytes *body,
                        struct curl_slist *headers) {
    __typeof__(http->libs->curl.easy_setopt) set = http->libs->curl.easy_setopt;
    char url[1024];

    snprintf(url, sizeof url, "%s%s", http->endpoints[http->current], path);
    set(easy, CURLOPT_URL, url);
    set(easy, CURLOPT_POST, 1L);
    set(easy, CURLOPT_POSTFIELDS, body->len != 0 ? (const char *)body->data : "");
    set(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
    set(easy, CURLOPT_HTTPHEADER, headers);
    set(easy, CURLOPT_NOSIGNAL, 1L);
    set(easy, CURLOPT_NOPROXY, "*");
    set(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    set(easy, CURLOPT_CONNECTTIMEOUT_MS, ETCD_CONNECT_MS);
    set(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    set(easy, CURLOPT_TCP_KEEPIDLE, 10L);
    set(easy, CURLOPT_TCP_KEEPINTVL, 5L);
    if (http->ca != NULL) {
        set(easy, CURLOPT_CAINFO, http->ca);
    }
    if (http->certificate != NULL) {
        set(easy, CURLOPT_SSLCERT, http->certificate);
    }
    if (http->key != NULL) {
        set(easy, CURLOPT_SSLKEY, http->key);
    }
}

static nixl_status_t call_once(struct etcd_http *http, const char *path, const struct bytes *body,
                               struct bytes *in) {
    __typeof__(http->libs->curl.easy_setopt) set = http->libs->curl.easy_setopt;
    struct curl_slist *headers = headers_make(http);
    char words[CURL_ERROR_SIZE] = "";
    CURLcode rc;

    bytes_clear(in);
    request_set(http, http->easy, path, body, headers);
    set(http->easy, CURLOPT_TIMEOUT_MS, ETCD_CALL_MS);
    set(http->easy, CURLOPT_WRITEFUNCTION, on_bytes);
    set(http->easy, CURLOPT_WRITEDATA, in);
    set(http->easy, CURLOPT_ERRORBUFFER, words);
    set(http->easy, CURLOPT_NOPROGRESS, 0L);
    set(http->easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    set(http->easy, CURLOPT_XFERINFODATA, http);
    rc = http->libs->curl.easy_perform(http->easy);
    set(http->easy, CURLOPT_ERRORBUFFER, NULL);
    http->libs->curl.slist_free_all(headers);
    if (rc == CURLE_OK) {
        return NIXL_SUCCESS;
    }
    return fail(NIXL_ERR_REMOTE_DISCONNECT, "etcd at %s: %s", http->endpoints[http->current],
                words[0] != '\0' ? words : http->libs->curl.easy_strerror(rc));
}

/* The answer of one endpoint after another. */
static nixl_status_t call_any(struct etcd_http *http, const char *path, const struct bytes *body,
                              struct etcd_reply *reply, int64_t *code) {
    struct bytes in = {0};
    nixl_status_t status = NIXL_ERR_REMOTE_DISCONNECT;

    for (size_t i = 0; i < http->endpoint_count; i++) {
        status = call_once(http, path, body, &in);
        if (status == NIXL_SUCCESS) {
            status = etcd_reply_read(http->libs, in.data != NULL ? (const char *)in.data : "", in.len, reply);
        }
        if (status == NIXL_SUCCESS && reply->is_error) {
            *code = reply->code;
            status = fail(reply->code == CODE_UNAVAILABLE ? NIXL_ERR_REMOTE_DISCONNECT : NIXL_ERR_BACKEND,
                          "etcd at %s: %s", http->endpoints[http->current], reply->error);
            etcd_reply_free(reply);
        } else if (status == NIXL_ERR_MISMATCH) {
            error_prefix("etcd at %s", http->endpoints[http->current]);
            status = NIXL_ERR_REMOTE_DISCONNECT;
        }
        if (status != NIXL_ERR_REMOTE_DISCONNECT) {
            break;
        }
        http->current = (http->current + 1) % http->endpoint_count;
    }
    bytes_free(&in);
    return status;
}

static nixl_status_t authenticate(struct etcd_http *http) {
    struct bytes body = {0};
    struct etcd_reply reply;
    int64_t code = 0;
    nixl_status_t status;

    secret_free(http->token);
    http->token = NULL;
    if (!bytes_append_text(&body, "{\"name\":") || !json_quote_append(&body, http->user) ||
        !bytes_append_text(&body, ",\"password\":") ||
        !json_quote_append(&body, http->password != NULL ? http->password : "") ||
        !bytes_append_text(&body, "}")) {
        bytes_free(&body);
        return fail_memory("a request", 0);
    }
    status = call_any(http, "/v3/auth/authenticate", &body, &reply, &code);
    explicit_bzero(body.data, body.len);
    bytes_free(&body);
    if (status != NIXL_SUCCESS) {
        error_prefix("user %s is not let in", http->user);
        return status;
    }
    http->token = reply.token;
    reply.token = NULL;
    etcd_reply_free(&reply);
    return http->token != NULL ? NIXL_SUCCESS
                               : fail(NIXL_ERR_BACKEND, "etcd gives user %s no token", http->user);
}

nixl_status_t etcd_http_call(struct etcd_http *http, const char *path, const struct bytes *body,
                             struct etcd_reply *reply, int64_t *code) {
    int64_t unasked = 0;
    nixl_status_t status = NIXL_SUCCESS;

    code = code != NULL ? code : &unasked;
    *code = 0;
    if (http->user != NULL && http->token == NULL) {
        status = authenticate(http);
    }
    if (status == NIXL_SUCCESS) {
        status = call_any(http, path, body, reply, code);
    }
    if (status == NIXL_ERR_BACKEND && *code == CODE_UNAUTHENTICATED && http->user != NULL) {
        /* A token lives for minutes. */
        status = authenticate(http);
        if (status == NIXL_SUCCESS) {
            status = call_any(http, path, body, reply, code);
        }
    }
    return status;
}

/* ---- streams ---- */

bool etcd_stream_open(struct etcd_http *http, const char *path, struct bytes *body,
                      struct etcd_stream *stream) {
    memset(stream, 0, sizeof *stream);
    stream->easy = http->libs->curl.easy_init();
    if (stream->easy == NULL) {
        bytes_free(body);
        (void)fail_memory("a handle of libcurl", 0);
        return false;
    }
    stream->body = *body;
    *body = (struct bytes){0};
    stream->headers = headers_make(http);
    request_set(http, stream->easy, path, &stream->body, stream->headers);
    http->libs->curl.easy_setopt(stream->easy, CURLOPT_WRITEFUNCTION, on_bytes);
    http->libs->curl.easy_setopt(stream->easy, CURLOPT_WRITEDATA, &stream->in);
    return true;
}

void etcd_stream_close(struct etcd_http *http, struct etcd_stream *stream) {
    if (stream->easy != NULL) {
        http->libs->curl.easy_cleanup(stream->easy);
    }
    http->libs->curl.slist_free_all(stream->headers);
    bytes_free(&stream->body);
    bytes_free(&stream->in);
    memset(stream, 0, sizeof *stream);
}
