/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MOCK: memory to memory between agents of one process, with faults and delays on demand. The operations
 * table, the options, instances, and what tests may do to them (mock.h).
 */
#include "mock.h"
#include "mock_parts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

pthread_mutex_t mock_lock = PTHREAD_MUTEX_INITIALIZER;
struct mock *mock_instances;

static uint64_t last_id;
static struct mock_counts closed_counts; /* of closed instances */

#define OPTION(member, option_kind, value, words)                                                            \
    .name = #member, .kind = (option_kind), .offset = offsetof(struct mock_options, member),                 \
    .default_value = (value), .help = (words)

static const struct nixl_option mock_option_table[] = {
    {OPTION(progress, NIXL_OPTION_ENUM, "event", "who makes progress"),
     .choices = "own|event|timed|inline|wait"},
    {OPTION(delay_us, NIXL_OPTION_UINT, "0", "time from a post to its first byte, microseconds")},
    {OPTION(chunk, NIXL_OPTION_SIZE, "64k", "bytes moved at a time"), .min = 1, .max = UINT64_MAX},
    {OPTION(connect_us, NIXL_OPTION_UINT, "0", "time that connecting takes, microseconds")},
    {OPTION(rank, NIXL_OPTION_UINT, "10", "declared cost"), .max = UINT32_MAX},
    {OPTION(cost_speed, NIXL_OPTION_UINT, "8", "bytes a nanosecond by its own word"), .min = 1,
     .max = UINT32_MAX},
    {OPTION(mute, NIXL_OPTION_BOOL, "no", "it cannot tell what a transfer takes")},
    {OPTION(hold, NIXL_OPTION_BOOL, "no", "posted requests wait until this is set to no")},
    {OPTION(stubborn, NIXL_OPTION_BOOL, "no", "a gentle cancel has no effect")},
    {OPTION(fail_at, NIXL_OPTION_INT, "-1", "run at which requests fail, -1: none"), .min = -1,
     .max = INT64_MAX},
    {OPTION(fail_block, NIXL_OPTION_INT, "0", "block of that run"), .min = 0, .max = INT64_MAX},
    {OPTION(fail_status, NIXL_OPTION_INT, "-3", "status that failures have"), .min = -12, .max = 0},
    {OPTION(fail_post, NIXL_OPTION_UINT, "0", "the post that fails, from 1")},
    {OPTION(fail_region, NIXL_OPTION_UINT, "0", "the registration that fails, from 1")},
    {OPTION(fail_key, NIXL_OPTION_UINT, "0", "the peer's key that fails, from 1")},
    {OPTION(fail_peer, NIXL_OPTION_UINT, "0", "the peer that fails to open, from 1")},
    {OPTION(fail_notify, NIXL_OPTION_UINT, "0", "the notification that fails, from 1")},
    {OPTION(fail_text, NIXL_OPTION_STRING, "told to fail", "the words of failures"),
     .env = "NIXL_MOCK_FAIL_TEXT"},
    {OPTION(note, NIXL_OPTION_STRING, MOCK_NAME "/1",
            "what this side says of itself; peers that say else are refused")},
    {OPTION(mems, NIXL_OPTION_STRING, "DRAM,VRAM", "kinds of memory: DRAM,VRAM,BLK,OBJ,FILE")},
    {OPTION(caps, NIXL_OPTION_STRING, "REMOTE,LOCAL,NOTIF", "capabilities")},
    {OPTION(reject, NIXL_OPTION_BOOL, "no", "requests are refused as not supported when they are made")},
    {OPTION(key_bytes, NIXL_OPTION_UINT, "24", "size of a region's key"), .min = 24, .max = 256},
};

#define OPTION_COUNT (sizeof mock_option_table / sizeof mock_option_table[0])

struct mock *mock_by_id(uint64_t id) {
    for (struct mock *m = mock_instances; m != NULL; m = m->next) {
        if (m->id == id) {
            return m->is_dead ? NULL : m;
        }
    }
    return NULL;
}

uint32_t mock_words(const char *list, const char *const *names) {
    uint32_t bits = 0;

    while (*list != '\0') {
        size_t len = strcspn(list, ",");
        unsigned at = 0;

        while (names[at] != NULL && (strlen(names[at]) != len || memcmp(names[at], list, len) != 0)) {
            at++;
        }
        if (names[at] == NULL) {
            return UINT32_MAX;
        }
        bits |= 1u << at;
        list += len + (list[len] == ',');
    }
    return bits;
}

static nixl_status_t instance_narrow(const struct mock *mock, struct nixl_instance *instance) {
    static const char *const mems[] = {"DRAM", "VRAM", "BLK", "OBJ", "FILE", NULL};
    static const char *const caps[] = {"REMOTE", "LOCAL", "NOTIF", NULL};

    instance->mems = mock_words(mock->options.mems, mems);
    instance->caps = mock_words(mock->options.caps, caps);
    instance->rank = (uint32_t)mock->options.rank;
    if (instance->mems == UINT32_MAX || instance->caps == UINT32_MAX) {
        return mock->host->fail(mock->host->ctx, NIXL_ERR_INVALID_PARAM, "%s: an unknown word in \"%s\"",
                                instance->mems == UINT32_MAX ? "mems" : "caps",
                                instance->mems == UINT32_MAX ? mock->options.mems : mock->options.caps);
    }
    return NIXL_SUCCESS;
}

static nixl_status_t progress_begin(struct mock *mock, struct nixl_instance *instance) {
    pthread_condattr_t monotonic;

    pthread_mutex_init(&mock->inside, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&mock->work, &monotonic);
    pthread_condattr_destroy(&monotonic);
    mock->event_fd = -1;
    if (mock->options.progress == MOCK_EVENT || mock->options.progress == MOCK_WAIT) {
        mock->event_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        if (mock->event_fd < 0) {
            return mock->host->fail(mock->host->ctx, NIXL_ERR_BACKEND, "no timer: %s", strerror(errno));
        }
        instance->event_fd = mock->event_fd;
    } else if (mock->options.progress == MOCK_TIMED) {
        instance->period_us = 100;
    } else if (mock->options.progress == MOCK_OWN &&
               pthread_create(&mock->thread, NULL, mock_thread, mock) != 0) {
        return mock->host->fail(mock->host->ctx, NIXL_ERR_BACKEND, "no thread");
    }
    return NIXL_SUCCESS;
}

static nixl_status_t mock_open(const struct nixl_host *host, const void *options,
                               struct nixl_instance *instance, void **self) {
    struct mock *mock = calloc(1, sizeof *mock);
    nixl_status_t status;

    if (mock == NULL) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "out of memory");
    }
    mock->host = host;
    mock->options = *(const struct mock_options *)options;
    snprintf(mock->fail_text, sizeof mock->fail_text, "%s", mock->options.fail_text);
    status = instance_narrow(mock, instance);
    if (status == NIXL_SUCCESS) {
        status = progress_begin(mock, instance);
    }
    if (status != NIXL_SUCCESS) {
        free(mock);
        return status;
    }
    pthread_mutex_lock(&mock_lock);
    mock->id = ++last_id;
    memcpy(mock->conn, MOCK_NAME "....", 8);
    memcpy(mock->conn + 8, &mock->id, 8);
    mock->conn_len = 16;
    mock->next = mock_instances;
    mock_instances = mock;
    pthread_mutex_unlock(&mock_lock);
    *self = mock;
    return NIXL_SUCCESS;
}

static void counts_add(struct mock_counts *sum, const struct mock_counts *more) {
    sum->regions += more->regions;
    sum->peers += more->peers;
    sum->keys += more->keys;
    sum->requests += more->requests;
    sum->active += more->active;
    sum->views += more->views;
    sum->posts += more->posts;
    sum->cancels += more->cancels;
    sum->forced += more->forced;
    sum->waits += more->waits;
    sum->batches += more->batches;
    sum->open_batches += more->open_batches;
    sum->notifs += more->notifs;
    sum->region_opens += more->region_opens;
    sum->key_opens += more->key_opens;
    sum->peer_opens += more->peer_opens;
}

static void mock_close(void *self) {
    struct mock *mock = self;
    struct mock **at;

    pthread_mutex_lock(&mock_lock);
    mock->stop = true;
    pthread_cond_broadcast(&mock->work);
    for (at = &mock_instances; *at != mock; at = &(*at)->next) {
    }
    *at = mock->next;
    counts_add(&closed_counts, &mock->counts);
    /* Those who wait for this one must notice. */
    for (struct mock *other = mock_instances; other != NULL; other = other->next) {
        mock_stir(other);
    }
    pthread_mutex_unlock(&mock_lock);
    if (mock->options.progress == MOCK_OWN) {
        pthread_join(mock->thread, NULL);
    }
    if (mock->event_fd >= 0) {
        close(mock->event_fd);
    }
    pthread_cond_destroy(&mock->work);
    pthread_mutex_destroy(&mock->inside);
    free(mock);
}

static const char *mock_describe(void *self) {
    (void)self;
    return MOCK_NAME " 1.0, memory of this process";
}

/* ---- control ---- */

static struct mock *by_agent(const char *agent) {
    for (struct mock *m = mock_instances; m != NULL; m = m->next) {
        if (strcmp(m->host->agent, agent) == 0) {
            return m;
        }
    }
    return NULL;
}

static bool number_set(struct mock *mock, const struct nixl_option *option, const char *value) {
    unsigned char *at = (unsigned char *)&mock->options + option->offset;
    char *end;
    long long number = strtoll(value, &end, 10);
    int64_t wide = number;

    if (*value == '\0' || *end != '\0') {
        return false;
    }
    memcpy(at, &wide, sizeof wide);
    return true;
}

static bool control_set(const char *agent, const char *option, const char *value) {
    struct mock *mock;
    bool done = false;

    pthread_mutex_lock(&mock_lock);
    mock = by_agent(agent);
    for (size_t i = 0; mock != NULL && i < OPTION_COUNT; i++) {
        const struct nixl_option *o = &mock_option_table[i];

        if (strcmp(o->name, option) != 0) {
            continue;
        }
        if (strcmp(option, "fail_text") == 0) {
            snprintf(mock->fail_text, sizeof mock->fail_text, "%s", value);
            done = true;
        } else if (o->kind == NIXL_OPTION_BOOL && (strcmp(value, "yes") == 0 || strcmp(value, "no") == 0)) {
            *(bool *)((unsigned char *)&mock->options + o->offset) = strcmp(value, "yes") == 0;
            done = true;
        } else if (o->kind == NIXL_OPTION_INT || o->kind == NIXL_OPTION_UINT || o->kind == NIXL_OPTION_SIZE) {
            done = number_set(mock, o, value);
        }
        mock_stir(mock);
    }
    pthread_mutex_unlock(&mock_lock);
    return done;
}

static bool control_lose_peer(const char *agent, const char *peer, const char *text) {
    struct mock *mock;
    bool done = false;

    pthread_mutex_lock(&mock_lock);
    mock = by_agent(agent);
    for (struct mock_peer *p = mock != NULL ? mock->peers : NULL; p != NULL; p = p->next) {
        if (strcmp(p->name, peer) == 0) {
            mock_peer_lose(mock, p, text);
            done = true;
        }
    }
    pthread_mutex_unlock(&mock_lock);
    return done;
}

static bool control_kill(const char *agent) {
    struct mock *mock;

    pthread_mutex_lock(&mock_lock);
    mock = by_agent(agent);
    if (mock != NULL) {
        mock->is_dead = true;
        for (struct mock *other = mock_instances; other != NULL; other = other->next) {
            mock_stir(other);
        }
    }
    pthread_mutex_unlock(&mock_lock);
    return mock != NULL;
}

static long count_of(const struct mock_counts *counts, const char *what) {
    const struct {
        const char *name;
        long value;
    } all[] = {
        {"regions", counts->regions},     {"peers", counts->peers},
        {"keys", counts->keys},           {"requests", counts->requests},
        {"active", counts->active},       {"views", counts->views},
        {"posts", counts->posts},         {"cancels", counts->cancels},
        {"forced", counts->forced},       {"waits", counts->waits},
        {"notifs", counts->notifs},       {"region_opens", counts->region_opens},
        {"batches", counts->batches},     {"open_batches", counts->open_batches},
        {"key_opens", counts->key_opens}, {"peer_opens", counts->peer_opens},
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].name, what) == 0) {
            return all[i].value;
        }
    }
    return -1;
}

static long control_count(const char *agent, const char *what) {
    struct mock_counts counts = {0};
    struct mock *mock = NULL;

    pthread_mutex_lock(&mock_lock);
    if (agent != NULL) {
        mock = by_agent(agent);
        if (mock != NULL) {
            counts = mock->counts;
        }
    } else {
        counts = closed_counts;
        for (struct mock *m = mock_instances; m != NULL; m = m->next) {
            counts_add(&counts, &m->counts);
        }
    }
    pthread_mutex_unlock(&mock_lock);
    return agent != NULL && mock == NULL ? -1 : count_of(&counts, what);
}

static size_t control_custom(const char *agent, void *bytes, size_t size) {
    struct mock *mock;
    size_t len = 0;

    pthread_mutex_lock(&mock_lock);
    mock = by_agent(agent);
    if (mock != NULL) {
        len = mock->custom_len;
        memcpy(bytes, mock->custom, len < size ? len : size);
    }
    pthread_mutex_unlock(&mock_lock);
    return len;
}

NIXL_API const struct mock_control *mock_control(void);

const struct mock_control *mock_control(void) {
    static const struct mock_control control = {
        .size = sizeof(struct mock_control),
        .set = control_set,
        .lose_peer = control_lose_peer,
        .kill = control_kill,
        .count = control_count,
        .custom = control_custom,
    };

    return &control;
}

/* ---- the table ---- */

static const struct nixl_backend_ops mock_ops = {
    .abi = NIXL_BACKEND_ABI,
    .size = sizeof(struct nixl_backend_ops),
    .name = MOCK_NAME,
    .version = "1.0",
    .summary = "memory to memory within this process, with faults on demand (tests only)",
    .mems = NIXL_MEM_BIT(DRAM_SEG) | NIXL_MEM_BIT(VRAM_SEG) | NIXL_MEM_BIT(BLK_SEG) | NIXL_MEM_BIT(OBJ_SEG) |
            NIXL_MEM_BIT(FILE_SEG),
    .caps = NIXL_CAP_REMOTE | NIXL_CAP_LOCAL | NIXL_CAP_NOTIF,
    .rank = NIXL_RANK_MEMORY,
    .options_bytes = sizeof(struct mock_options),
    .options = mock_option_table,
    .option_count = OPTION_COUNT,
    .request_bytes = sizeof(struct mock_request),
    .open = mock_open,
    .close = mock_close,
    .describe = mock_describe,
    .region_open = mock_region_open,
    .region_close = mock_region_close,
    .region_key = mock_region_key,
    .query = mock_query,
    .conn_info = mock_conn_info,
    .note = mock_note,
    .peer_open = mock_peer_open,
    .peer_close = mock_peer_close,
    .peer_connect = mock_peer_connect,
    .peer_state = mock_peer_state,
    .peer_transport = mock_peer_transport,
    .key_open = mock_key_open,
    .key_close = mock_key_close,
    .request_open = mock_request_open,
    .request_close = mock_request_close,
    .post = mock_post,
    .cancel = mock_cancel,
    .cost = mock_cost,
    .transport = mock_transport,
    .notify = mock_notify,
    .progress = mock_progress,
    .arm = mock_arm,
    .wait = mock_wait,
    .batch = mock_batch,
    .view_open = mock_view_open,
    .view_close = mock_view_close,
};

const struct nixl_backend_ops *nixl_backend_v1(void) {
    return &mock_ops;
}
