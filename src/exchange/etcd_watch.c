/* SPDX-License-Identifier: Apache-2.0 */
/* Fetching from etcd and watching what was fetched; see etcd_watch.h. */
#include "exchange/etcd_watch.h"

#include "exchange/etcd_kv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define BACKOFF_FIRST_MS 50
#define BACKOFF_MOST_MS 2000

struct etcd_watch {
    struct etcd_watch *next;
    char *peer;
    char *prefix;     /* <namespace>/<peer>/, which is the announce key */
    char *key;        /* what was fetched */
    int64_t revision; /* the first one not seen yet; 0: none was seen */
    int64_t seen;     /* in the answer that is being read */
    int64_t loaded;   /* of what is loaded; 0: nothing */
    bool wants_get;
    bool is_over; /* to be dropped */
    struct job *jobs;
};

char *etcd_key(const char *name_space, const char *agent, const char *label) {
    char *key = NULL;

    return asprintf(&key, "%s/%s/%s", name_space, agent, label) >= 0 ? key : NULL;
}

void etcd_watches_open(struct etcd_watches *watches, struct exchange *exchange, struct etcd_http *http,
                       CURLM *multi) {
    watches->exchange = exchange;
    watches->http = http;
    watches->multi = multi;
}

/* ---- watches ---- */

static void jobs_finish(struct etcd_watches *watches, struct etcd_watch *watch, nixl_status_t status) {
    char words[WORDS_SIZE];

    snprintf(words, sizeof words, "%s", error_text());
    while (watch->jobs != NULL) {
        struct job *job = watch->jobs;

        watch->jobs = job->next;
        job->next = NULL;
        if (status < 0) {
            error_set(words);
        }
        job_finish(watches->exchange, job, status);
    }
}

static void watch_free(struct etcd_watch *watch) {
    free(watch->peer);
    free(watch->prefix);
    free(watch->key);
    free(watch);
}

static void drop_over(struct etcd_watches *watches) {
    struct etcd_watch **at = &watches->first;

    while (*at != NULL) {
        struct etcd_watch *watch = *at;

        if (watch->is_over && watch->jobs == NULL) {
            *at = watch->next;
            watch_free(watch);
            watches->is_stale = true;
        } else {
            at = &watch->next;
        }
    }
}

void etcd_watch_fetch(struct etcd_watches *watches, struct job *job, const char *label) {
    char *key = etcd_key(watches->name_space, job->peer, label);
    struct etcd_watch *watch = watches->first;

    while (watch != NULL && key != NULL && strcmp(watch->key, key) != 0) {
        watch = watch->next;
    }
    if (watch == NULL && key != NULL && (watch = calloc(1, sizeof *watch)) != NULL) {
        watch->peer = strdup(job->peer);
        watch->prefix = etcd_key(watches->name_space, job->peer, "");
        watch->key = key;
        key = NULL;
        watch->next = watches->first;
        watches->first = watch;
    }
    free(key);
    if (watch == NULL || watch->peer == NULL || watch->prefix == NULL) {
        job_finish(watches->exchange, job, fail_memory("a watch", sizeof *watch));
        return;
    }
    watch->is_over = false;
    watch->wants_get = true;
    job->next = watch->jobs;
    watch->jobs = job;
}

static void watch_load(struct etcd_watches *watches, struct etcd_watch *watch, const struct bytes *blob,
                       int64_t revision) {
    nixl_status_t status = exchange_load(watches->exchange, watch->peer, blob->data, blob->len);

    if (status < 0 && watch->jobs == NULL) {
        log_warn("agent %s: what agent %s has published is refused: %s",
                 nixl_agent_name(watches->exchange->agent), watch->peer, error_text());
    }
    watch->loaded = status >= 0 ? revision : watch->loaded;
    jobs_finish(watches, watch, status < 0 ? status : NIXL_SUCCESS);
    /* A blob that cannot be used is not worth a watch; the next fetch begins anew. */
    watch->is_over = status < 0 && watch->loaded == 0;
}

static void watch_forget(struct etcd_watches *watches, struct etcd_watch *watch) {
    if (watch->loaded != 0 &&
        nixl_metadata_invalidate(watches->exchange->agent, watch->peer) == NIXL_SUCCESS) {
        log_info("agent %s: agent %s has withdrawn its metadata from etcd",
                 nixl_agent_name(watches->exchange->agent), watch->peer);
    }
    watch->loaded = 0;
    watch->is_over = true; /* unless a fetch waits for it to come again */
}

/* ---- what is there ---- */

static nixl_status_t watch_get(struct etcd_watches *watches, struct etcd_watch *watch) {
    struct etcd_reply reply;
    nixl_status_t status = etcd_get(watches->http, watch->key, &reply);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (reply.kv_count == 1 && reply.kvs[0].value.len != 0) {
        /* Asked again after the stream broke, it may be what is known; a fetch always loads. */
        if (watch->jobs != NULL || reply.kvs[0].mod_revision != watch->loaded) {
            watch_load(watches, watch, &reply.kvs[0].value, reply.kvs[0].mod_revision);
        }
    } else if (watch->loaded != 0 && reply.revision + 1 >= watch->revision) {
        watch_forget(watches,
                     watch); /* withdrawn while nobody looked; a store that lost its data is no reason */
    }
    watch->wants_get = false;
    watch->revision = reply.revision + 1;
    watches->is_stale = true;
    etcd_reply_free(&reply);
    return NIXL_SUCCESS;
}

nixl_status_t etcd_watch_get(struct etcd_watches *watches) {
    nixl_status_t status = NIXL_SUCCESS;

    for (struct etcd_watch *watch = watches->first; watch != NULL && status != NIXL_ERR_REMOTE_DISCONNECT;
         watch = watch->next) {
        if (watch->wants_get) {
            status = watch_get(watches, watch);
            if (status != NIXL_SUCCESS && status != NIXL_ERR_REMOTE_DISCONNECT) {
                jobs_finish(watches, watch, status);
                watch->wants_get = false;
                watch->is_over = watch->loaded == 0;
            }
        }
    }
    if (status != NIXL_ERR_REMOTE_DISCONNECT) {
        drop_over(watches);
    }
    return status;
}

static void job_late(struct etcd_watches *watches, struct etcd_watch *watch, struct job *job,
                     const char *down) {
    nixl_status_t status = job->is_waited ? NIXL_ERR_CANCELED : NIXL_ERR_NOT_FOUND;

    if (down != NULL) {
        (void)fail(status, "no result in the time given: %s", down);
    } else {
        (void)fail(status, "no result in the time given: agent %s has published nothing as %s", watch->peer,
                   watch->key);
    }
    job_finish(watches->exchange, job, status);
}

uint64_t etcd_watch_late(struct etcd_watches *watches, uint64_t now_ns, const char *down) {
    uint64_t next = CLOCK_NEVER;

    for (struct etcd_watch *watch = watches->first; watch != NULL; watch = watch->next) {
        struct job **at = &watch->jobs;

        while (*at != NULL) {
            struct job *job = *at;

            if (job->deadline_ns > now_ns) {
                next = job->deadline_ns < next ? job->deadline_ns : next;
                at = &job->next;
                continue;
            }
            *at = job->next;
            job->next = NULL;
            job_late(watches, watch, job, down);
        }
        if (watch->jobs == NULL && watch->loaded == 0) {
            watch->is_over = true;
        }
    }
    drop_over(watches);
    return next;
}

/* ---- the stream ---- */

static bool request_append(struct bytes *body, const struct etcd_watch *watch) {
    size_t len = strlen(watch->prefix);
    char *end = strdup(watch->prefix);
    char tail[80];
    bool good = end != NULL;

    if (good) {
        end[len - 1]++;
    }
    snprintf(tail, sizeof tail, "\",\"start_revision\":\"%" PRId64 "\"}}", watch->revision);
    good = good && bytes_append_text(body, "{\"create_request\":{\"key\":\"") &&
           base64_append(body, watch->prefix, len) && bytes_append_text(body, "\",\"range_end\":\"") &&
           base64_append(body, end, len) && bytes_append_text(body, tail);
    free(end);
    return good;
}

static void stream_end(struct etcd_watches *watches) {
    if (watches->stream.easy != NULL) {
        watches->http->libs->curl.multi_remove_handle(watches->multi, watches->stream.easy);
        etcd_stream_close(watches->http, &watches->stream);
    }
}

/* It broke: all is asked again, by another endpoint if there is one. */
static void stream_broke(struct etcd_watches *watches, const char *why) {
    log_debug("the watch of etcd at %s ends: %s", watches->http->endpoints[watches->http->current], why);
    stream_end(watches);
    watches->http->current = (watches->http->current + 1) % watches->http->endpoint_count;
    watches->backoff_ms = watches->backoff_ms == 0                    ? BACKOFF_FIRST_MS
                          : watches->backoff_ms * 2 < BACKOFF_MOST_MS ? watches->backoff_ms * 2
                                                                      : BACKOFF_MOST_MS;
    watches->retry_ns = clock_deadline_ms(clock_now_ns(), watches->backoff_ms);
    watches->is_stale = true;
    for (struct etcd_watch *watch = watches->first; watch != NULL; watch = watch->next) {
        watch->wants_get = true;
    }
}

uint64_t etcd_watch_stream(struct etcd_watches *watches, bool is_down, uint64_t now_ns) {
    struct bytes body = {0};
    bool good = true;

    if (!watches->is_stale || is_down) {
        return CLOCK_NEVER;
    }
    if (now_ns < watches->retry_ns) {
        return watches->retry_ns;
    }
    stream_end(watches);
    for (struct etcd_watch *watch = watches->first; watch != NULL && good; watch = watch->next) {
        good = watch->wants_get || request_append(&body, watch);
    }
    watches->is_stale = false;
    if (!good || body.len == 0) {
        bytes_free(&body);
        return CLOCK_NEVER;
    }
    if (!etcd_stream_open(watches->http, "/v3/watch", &body, &watches->stream) ||
        watches->http->libs->curl.multi_add_handle(watches->multi, watches->stream.easy) != CURLM_OK) {
        stream_broke(watches, "it cannot be opened");
        return watches->retry_ns;
    }
    return now_ns; /* libcurl has something to do */
}

/* An event of a key of this watch that it has not seen yet. */
static void event_handle(struct etcd_watches *watches, struct etcd_watch *watch,
                         const struct etcd_event *event) {
    size_t len = strlen(watch->prefix);

    if (event->key.len < len || memcmp(event->key.data, watch->prefix, len) != 0 ||
        event->revision < watch->revision) {
        return;
    }
    watch->seen = event->revision;
    if (event->is_delete) {
        if (event->key.len == len) {
            watch_forget(watches, watch);
        }
    } else if (event->value.len != 0 && event->key.len == strlen(watch->key) &&
               memcmp(event->key.data, watch->key, event->key.len) == 0 &&
               (!watch->is_over || watch->jobs != NULL)) {
        watch_load(watches, watch, &event->value, event->revision);
    }
}

/* Keys that go together share a revision, so what is seen counts only after all events of an answer. */
static void news_handle(struct etcd_watches *watches, const struct etcd_news *news) {
    for (struct etcd_watch *watch = watches->first; watch != NULL; watch = watch->next) {
        for (size_t i = 0; i < news->event_count; i++) {
            event_handle(watches, watch, &news->events[i]);
        }
        if (watch->seen >= watch->revision) {
            watch->revision = watch->seen + 1;
        }
    }
}

static bool line_handle(struct etcd_watches *watches, const char *line, size_t len) {
    struct etcd_news news;
    bool good = etcd_news_read(watches->http->libs, line, len, &news) == NIXL_SUCCESS;

    if (!good) {
        stream_broke(watches, error_text());
        return false;
    }
    if (news.is_error || news.is_canceled) {
        good = false;
        stream_broke(watches, news.error[0] != '\0' ? news.error : "it was cancelled");
    } else {
        watches->backoff_ms = 0;
        news_handle(watches, &news);
    }
    etcd_news_free(&news);
    return good;
}

static void lines_take(struct etcd_watches *watches) {
    struct bytes in = watches->stream.in;
    size_t at = 0;
    bool good = true;

    /* What a line does may end the stream, so its bytes are held here meanwhile. */
    watches->stream.in = (struct bytes){0};
    while (good && at < in.len) {
        const uint8_t *end = memchr(in.data + at, '\n', in.len - at);

        if (end == NULL) {
            break;
        }
        if ((size_t)(end - (in.data + at)) > 0) {
            good = line_handle(watches, (const char *)in.data + at, (size_t)(end - (in.data + at)));
        }
        at = (size_t)(end - in.data) + 1;
    }
    if (good && watches->stream.easy != NULL) {
        memmove(in.data, in.data + at, in.len - at);
        in.len -= at;
        watches->stream.in = in;
    } else {
        bytes_free(&in);
    }
}

void etcd_watch_read(struct etcd_watches *watches) {
    const struct libs *libs = watches->http->libs;
    CURLMsg *message;
    int count = 0;
    char words[128] = "";
    bool is_over = false;

    libs->curl.multi_perform(watches->multi, &count);
    if (watches->stream.in.len != 0) {
        lines_take(watches);
    }
    while ((message = libs->curl.multi_info_read(watches->multi, &count)) != NULL) {
        if (message->msg == CURLMSG_DONE && message->easy_handle == watches->stream.easy) {
            is_over = true;
            snprintf(words, sizeof words, "%s", libs->curl.easy_strerror(message->data.result));
        }
    }
    if (is_over) {
        stream_broke(watches, words);
    }
    drop_over(watches);
}

void etcd_watches_close(struct etcd_watches *watches) {
    stream_end(watches);
    while (watches->first != NULL) {
        struct etcd_watch *watch = watches->first;

        watches->first = watch->next;
        (void)fail(NIXL_ERR_CANCELED, "the agent ends");
        jobs_finish(watches, watch, NIXL_ERR_CANCELED);
        watch_free(watch);
    }
}
