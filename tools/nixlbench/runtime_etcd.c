/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ETCD runtime: processes started by hand, perhaps on several machines, that meet by the name of a group. Each takes
 * the next rank under etcd's lock, as the reference's benchmark does and in its keys, and writes beside it where it can
 * be reached. When all are there and are of this program they connect to each other by TCP and the keys are removed:
 * from then on etcd has no part in the run, and the group's name is free. With an end of the reference among them
 * (it writes no address) messages go through etcd, see etcd_keys.c.
 *
 * All keys hang on a lease of a few seconds. A process that dies before all have met loses its rank key; whoever waits
 * sees that, gives up its own and registers anew, so a run that crashed holds up the next one no longer than that.
 */
#include "runtime_etcd.h"
#include "stop.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define DEFAULT_ENDPOINT "http://localhost:2379"
#define LEASE_S 5
#define LOCK_LEASE_S 5
#define KEYS_LEASE_S 60
#define PATIENCE_MS 180000 /* as long as the reference's ends wait for each other */
#define HELLO_MS 20000     /* until all are connected */
#define SAY_AFTER_MS 1000  /* then tell whom this process waits for */
#define AWAY_NAP_MS 200    /* between two calls to an etcd that is away */

/* ---- the lease, failures, waiting ---- */

bool etcd_meeting_ok(struct runtime *runtime, nixl_status_t status) {
    return status == NIXL_SUCCESS ||
           (stop_requested() ? runtime_fail(runtime, "interrupted while etcd was asked: %s", error_text())
                             : runtime_fail(runtime, "%s", error_text()));
}

/* Passes the time, and makes progress. */
static void nap(struct runtime *runtime, uint64_t nap_ns) {
    uint64_t begin_ns = clock_now_ns();

    while (clock_now_ns() - begin_ns < nap_ns && !stop_requested()) {
        if (runtime->idle == NULL || !runtime->idle(runtime->idle_ctx)) {
            struct timespec one = {0, runtime->idle == NULL ? 1000000 : 20000};

            nanosleep(&one, NULL);
        }
    }
}

bool etcd_meeting_again(struct runtime *runtime, nixl_status_t status) {
    struct etcd_meeting *meeting = runtime->meeting;
    uint64_t now_ns = clock_now_ns();

    if (status != NIXL_ERR_REMOTE_DISCONNECT) {
        meeting->has_answered = true;
        meeting->away_ns = 0;
        return false;
    }
    if (!meeting->has_answered || stop_requested()) {
        return false;
    }
    if (meeting->away_ns == 0) {
        meeting->away_ns = now_ns;
    }
    if (now_ns - meeting->away_ns > meeting->patience_ms * NS_PER_MS) {
        return false;
    }
    if (!meeting->is_away_said) {
        meeting->is_away_said = true;
        fprintf(stderr, "nixlbench: %s; it is tried again\n", error_text());
    }
    nap(runtime, AWAY_NAP_MS * NS_PER_MS);
    return true;
}

bool etcd_meeting_keep(struct runtime *runtime) {
    struct etcd_meeting *meeting = runtime->meeting;
    uint64_t now_ns = clock_now_ns();
    int64_t ttl_s = 0;

    if (meeting->lease != 0 && now_ns - meeting->kept_ns < meeting->lease_s * NS_PER_S / 3) {
        return true;
    }
    if (meeting->lease != 0 && !ETCD_TRY(runtime, etcd_lease_keep(&meeting->http, meeting->lease, &ttl_s))) {
        return false;
    }
    meeting->kept_ns = now_ns;
    return ttl_s > 0 ||
           ETCD_TRY(runtime, etcd_lease_grant(&meeting->http, meeting->lease_s, &meeting->lease));
}

bool etcd_meeting_wait(struct runtime *runtime, uint64_t since_ns, unsigned *round, const char *fmt, ...) {
    uint64_t nap_ns = (*round < 10 ? 2 : *round < 50 ? 10 : 50) * NS_PER_MS;
    bool is_late = clock_now_ns() - since_ns > runtime->meeting->patience_ms * NS_PER_MS;
    char what[400];
    va_list args;

    ++*round;
    if (is_late || stop_requested()) {
        va_start(args, fmt);
        vsnprintf(what, sizeof what, fmt, args);
        va_end(args);
        return stop_requested() ? runtime_fail(runtime, "interrupted while waiting for %s", what)
                                : runtime_fail(runtime, "waited %" PRIu64 " s for %s",
                                               runtime->meeting->patience_ms / 1000, what);
    }
    nap(runtime, nap_ns);
    return etcd_meeting_keep(runtime);
}

/* ---- what this process says of itself ---- */

/* Below the addresses: the flags that all processes of a run must have alike, a line each. */
static void describe_flags(char *text, size_t size, const struct bench_config *config) {
    static const char *const alike[] = {
        "backend",
        "scheme",
        "mode",
        "op_type",
        "check_consistency",
        "total_buffer_size",
        "start_block_size",
        "max_block_size",
        "start_batch_size",
        "max_batch_size",
        "num_iter",
        "warmup_iter",
        "num_threads",
        "pipeline_depth",
        "large_blk_iter_ftr",
        "num_initiator_dev",
        "num_target_dev",
        "randomize_location_mode",
        "randomize_location_mode_seed",
    };
    size_t len = strlen(text);
    char number[64];

    for (size_t i = 0; i < sizeof alike / sizeof alike[0]; i++) {
        for (size_t k = 0; k < bench_flag_count; k++) {
            if (strcmp(bench_flags[k].name, alike[i]) == 0) {
                text_append(text, size, &len, "\n--%s %s", alike[i],
                            flag_show(config, &bench_flags[k], number, sizeof number));
            }
        }
    }
}

/* ---- who is there ---- */

struct place {
    bool is_taken;   /* has its rank key */
    char self[2048]; /* what mesh_describe() and describe_flags() wrote there; "": an end of the reference */
};

struct roll {
    unsigned registered; /* the key "size" */
    bool is_empty;       /* no key of a run at all */
    struct place *places;
};

/* The number that follows `head` in the key, if it does. */
static bool key_number(const struct bytes *key, const char *head, unsigned most, unsigned *number) {
    size_t len = strlen(head);
    uint64_t value;

    if (key->len <= len || memcmp(key->data, head, len) != 0 ||
        text_parse_uint((struct text){(const char *)key->data + len, key->len - len}, &value) != TEXT_OK ||
        value >= most) {
        return false;
    }
    *number = (unsigned)value;
    return true;
}

static bool call_roll(struct runtime *runtime, struct roll *roll) {
    struct etcd_meeting *meeting = runtime->meeting;
    char head[ETCD_KEY_SIZE], rank_head[ETCD_KEY_SIZE], self_head[ETCD_KEY_SIZE];
    struct etcd_reply reply;
    size_t size_len;

    /* The doubled slash is the reference's. */
    snprintf(head, sizeof head, "%s/", meeting->prefix);
    snprintf(rank_head, sizeof rank_head, "%s/rank/", meeting->prefix);
    snprintf(self_head, sizeof self_head, "%s/nixl/", meeting->prefix);
    if (!ETCD_TRY(runtime, etcd_list(&meeting->http, head, &reply))) {
        return false;
    }
    memset(roll->places, 0, runtime->size * sizeof *roll->places);
    roll->registered = 0;
    roll->is_empty = true;
    size_len = strlen(head) + 4;
    for (size_t i = 0; i < reply.kv_count; i++) {
        const struct etcd_kv *kv = &reply.kvs[i];
        uint64_t number;
        unsigned rank;

        if (kv->key.len == size_len && memcmp(kv->key.data + size_len - 4, "size", 4) == 0) {
            roll->is_empty = false;
            if (text_parse_uint((struct text){(const char *)kv->value.data, kv->value.len}, &number) ==
                    TEXT_OK &&
                number <= UINT32_MAX) {
                roll->registered = (unsigned)number;
            }
        } else if (key_number(&kv->key, rank_head, runtime->size, &rank)) {
            roll->is_empty = false;
            roll->places[rank].is_taken = true;
        } else if (key_number(&kv->key, self_head, runtime->size, &rank)) {
            snprintf(roll->places[rank].self, sizeof roll->places[rank].self, "%.*s", (int)kv->value.len,
                     (const char *)kv->value.data);
        }
    }
    etcd_reply_free(&reply);
    return true;
}

static unsigned count_taken(const struct roll *roll, unsigned most) {
    unsigned count = 0;

    for (unsigned i = 0; i < most; i++) {
        count += roll->places[i].is_taken;
    }
    return count;
}

static bool put(struct runtime *runtime, const char *value, const char *fmt, unsigned rank) {
    struct etcd_meeting *meeting = runtime->meeting;
    char key[ETCD_KEY_SIZE], tail[64];

    snprintf(tail, sizeof tail, fmt, rank);
    snprintf(key, sizeof key, "%s/%s", meeting->prefix, tail);
    return ETCD_TRY(runtime, etcd_put(&meeting->http, key, value, strlen(value), meeting->lease, NULL));
}

static bool remove_all(struct runtime *runtime) {
    return etcd_meeting_ok(runtime, etcd_delete_all(&runtime->meeting->http, runtime->meeting->prefix));
}

/* Under the lock: takes the next place. *is_taken false: a run of this group is under way, or its end is not known yet. */
static bool take_place(struct runtime *runtime, struct roll *roll, const char *self, bool *is_taken) {
    char number[16];
    unsigned rank;

    *is_taken = false;
    if (!call_roll(runtime, roll)) {
        return false;
    }
    rank = roll->registered;
    if (!roll->is_empty && count_taken(roll, runtime->size) == 0) {
        /* Left by a run that crashed: nobody of it lives. */
        if (!ETCD_TRY(runtime, etcd_delete_all(&runtime->meeting->http, runtime->meeting->prefix))) {
            return false;
        }
        rank = 0;
    } else if (rank >= runtime->size || count_taken(roll, rank) != rank ||
               count_taken(roll, runtime->size) != rank) {
        return true;
    }
    snprintf(number, sizeof number, "%u", rank + 1);
    runtime->rank = rank;
    *is_taken = true;
    /* The rank last: whoever sees it sees the address too. */
    return put(runtime, self, "nixl/%u", rank) && put(runtime, number, "size", 0) &&
           put(runtime, "active", "rank/%u", rank);
}

/* etcd's lock on a lease of its own, so that giving up the lease gives up the lock. */
static bool take_place_locked(struct runtime *runtime, struct roll *roll, const char *self, bool *is_taken) {
    struct etcd_meeting *meeting = runtime->meeting;
    uint64_t since_ns = clock_now_ns();
    char name[ETCD_KEY_SIZE];
    unsigned round = 0;
    int64_t lease = 0;
    nixl_status_t status;
    bool ok;

    snprintf(name, sizeof name, "%s/lock", meeting->prefix);
    do {
        if (!ETCD_TRY(runtime, etcd_lease_grant(&meeting->http, LOCK_LEASE_S, &lease))) {
            return false;
        }
        status = etcd_lock(&meeting->http, name, lease);
        if (status != NIXL_SUCCESS) {
            (void)etcd_meeting_ok(runtime, status);
            (void)etcd_lease_revoke(&meeting->http, lease);
            if (status != NIXL_ERR_REMOTE_DISCONNECT ||
                !etcd_meeting_wait(runtime, since_ns, &round, "etcd's lock %s: %s", name, runtime->error)) {
                return false;
            }
        }
    } while (status != NIXL_SUCCESS);
    ok = take_place(runtime, roll, self, is_taken);
    (void)etcd_lease_revoke(&meeting->http, lease);
    return ok;
}

static void say(const char *group, uint64_t since_ns, bool *is_said, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void say(const char *group, uint64_t since_ns, bool *is_said, const char *fmt, ...) {
    va_list args;
    char what[256];

    if (*is_said || clock_now_ns() - since_ns < SAY_AFTER_MS * NS_PER_MS) {
        return;
    }
    *is_said = true;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    fprintf(stderr, "nixlbench: group \"%s\": %s\n", group, what);
}

/* ---- the meeting ---- */

static unsigned count_connected(const struct runtime *runtime) {
    unsigned count = 1; /* itself */

    for (unsigned i = 0; i < runtime->size; i++) {
        count += runtime->channels[i].fd >= 0;
    }
    return count;
}

/* All have met: calls those of lower ranks. One that cannot be reached may be dead, so that is not the end yet. */
static void call_peers(struct runtime *runtime, const struct roll *roll) {
    for (unsigned i = 0; i < runtime->rank; i++) {
        /* A call may take seconds. */
        if (runtime->channels[i].fd < 0 &&
            (!etcd_meeting_keep(runtime) || !mesh_call(runtime, i, roll->places[i].self))) {
            return;
        }
    }
}

/* Names the first flag that another process has otherwise. */
static bool compare_flags(struct runtime *runtime, const struct roll *roll) {
    struct text mine_left, other_left, mine, other;

    for (unsigned i = 0; i < runtime->size; i++) {
        mine_left = text_of(strchrnul(roll->places[runtime->rank].self, '\n'));
        other_left = text_of(strchrnul(roll->places[i].self, '\n'));
        while (text_split(&mine_left, '\n', &mine) && text_split(&other_left, '\n', &other)) {
            if (mine.len != other.len || memcmp(mine.at, other.at, mine.len) != 0) {
                char shown[160];

                /* Anybody may have written that, so it is not for a terminal as it is. */
                return runtime_fail(runtime, "process %u was started with %s, this one, %u, with %.*s", i,
                                    text_quote(shown, sizeof shown, other.at, other.len), runtime->rank,
                                    (int)mine.len, mine.at);
            }
        }
    }
    return true;
}

struct attendee {
    const struct bench_config *config;
    int listener;
    uint16_t port;
    uint64_t nonce; /* of this registration */
    bool is_registered;
    uint64_t complete_ns; /* when all were there; 0: not yet */
    char self[2048];
    struct roll roll;
};

/* What this process wrote goes with its lease, so that nobody takes it for a run that lives. */
static bool leave(struct runtime *runtime, struct attendee *me) {
    me->is_registered = false;
    me->complete_ns = 0;
    for (unsigned i = 0; i < runtime->size; i++) {
        if (runtime->channels[i].fd >= 0) {
            close(runtime->channels[i].fd);
            runtime->channels[i].fd = -1;
        }
    }
    (void)etcd_lease_revoke(&runtime->meeting->http, runtime->meeting->lease);
    runtime->meeting->lease = 0;
    return etcd_meeting_keep(runtime);
}

static bool join(struct runtime *runtime, struct attendee *me) {
    if (getrandom(&me->nonce, sizeof me->nonce, 0) != sizeof me->nonce) {
        me->nonce = clock_wall_ns() ^ (uint64_t)getpid() << 32;
    }
    mesh_describe(me->self, sizeof me->self, me->nonce, me->port);
    describe_flags(me->self, sizeof me->self, me->config);
    return take_place_locked(runtime, &me->roll, me->self, &me->is_registered);
}

static bool all_are_ours(const struct roll *roll, unsigned size) {
    for (unsigned i = 0; i < size; i++) {
        if (roll->places[i].self[0] == '\0') {
            return false;
        }
    }
    return true;
}

/* One look. *is_done: all are there, and connected if all are of this program. */
static bool attend(struct runtime *runtime, struct attendee *me, bool *is_done) {
    const struct roll *roll = &me->roll;

    if ((!me->is_registered && !join(runtime, me)) || !call_roll(runtime, &me->roll)) {
        return false;
    }
    if (!me->is_registered) {
        return true;
    }
    /* Also while others are missing: strangers must not fill the queue in which these will stand. */
    mesh_answer(runtime, me->listener, me->nonce);
    if (strcmp(roll->places[runtime->rank].self, me->self) != 0 || roll->registered <= runtime->rank ||
        count_taken(roll, runtime->rank + 1) != runtime->rank + 1) {
        return leave(runtime, me);
    }
    if (count_taken(roll, runtime->size) != runtime->size) {
        return true;
    }
    if (!all_are_ours(roll, runtime->size)) {
        *is_done = true;
        return true;
    }
    if (!compare_flags(runtime, roll)) {
        return false;
    }
    if (me->complete_ns == 0) {
        me->complete_ns = clock_now_ns();
    }
    runtime->error[0] = '\0';
    call_peers(runtime, roll);
    *is_done = count_connected(runtime) == runtime->size;
    if (!*is_done && clock_now_ns() - me->complete_ns > HELLO_MS * NS_PER_MS) {
        return runtime->error[0] == '\0' &&
               runtime_fail(runtime, "%u of %u processes are in etcd but have not connected",
                            runtime->size - count_connected(runtime), runtime->size);
    }
    return true;
}

static bool meet(struct runtime *runtime, struct attendee *me) {
    const char *group = me->config->benchmark_group;
    uint64_t since_ns = clock_now_ns();
    bool is_said = false, is_busy_said = false, is_done = false;
    unsigned round = 0;

    while (attend(runtime, me, &is_done)) {
        unsigned there = count_taken(&me->roll, runtime->size);

        if (is_done) {
            return true;
        }
        if (!me->is_registered) {
            say(group, since_ns, &is_busy_said,
                "another run has this name; waiting for its end, or for %d s if it crashed", LEASE_S);
        } else {
            say(group, since_ns, &is_said, "process %u of %u; waiting for the others", runtime->rank,
                runtime->size);
        }
        if (!etcd_meeting_wait(runtime, since_ns, &round, "%u of %u processes of group \"%s\" in etcd",
                               me->is_registered ? runtime->size - there : runtime->size, runtime->size,
                               group)) {
            return false;
        }
    }
    /* Ctrl-C also ends a call of etcd that was on its way: what matters is whom it was for. */
    return stop_requested() && runtime->error[0] != '\0'
               ? runtime_fail(runtime,
                              "interrupted while waiting for %u of %u processes of group \"%s\" in etcd",
                              runtime->size - count_taken(&me->roll, runtime->size), runtime->size, group)
               : false;
}

/* ---- beginning and end ---- */

/* Beside an end of the reference the keys stay for the whole run, on a lease that outlives the reference's 3 seconds
 * between two looks and a measurement in which etcd is not called. */
static bool settle(struct runtime *runtime, const char *group) {
    struct etcd_meeting *meeting = runtime->meeting;
    int64_t old = meeting->lease;
    char number[16];

    runtime->is_foreign = true;
    runtime->keys = &etcd_keys;
    if (runtime->size != 2) {
        return runtime_fail(runtime,
                            "an end that is not of this program has joined group \"%s\": with such an "
                            "end only two processes can run, not %u",
                            group, runtime->size);
    }
    meeting->lease = 0;
    meeting->lease_s = KEYS_LEASE_S;
    snprintf(number, sizeof number, "%u", runtime->size);
    return etcd_meeting_keep(runtime) && put(runtime, number, "size", 0) &&
           put(runtime, "active", "rank/%u", runtime->rank) &&
           etcd_meeting_ok(runtime, etcd_lease_revoke(&meeting->http, old));
}

/* All hang together: the name is free for the next run, or will be when the leases end, if etcd does not answer now. */
static bool part_from_etcd(struct runtime *runtime) {
    if (!runtime_barrier(runtime, "connected")) {
        return false;
    }
    if (runtime->rank == 0) {
        (void)remove_all(runtime);
    }
    (void)etcd_lease_revoke(&runtime->meeting->http, runtime->meeting->lease);
    return true;
}

static bool begin(struct runtime *runtime, struct attendee *me) {
    struct etcd_meeting *meeting = runtime->meeting;
    const struct bench_config *c = me->config;
    const char *endpoints = c->etcd_endpoints[0] != '\0' ? c->etcd_endpoints : DEFAULT_ENDPOINT;

    if (etcd_http_open(&meeting->http, endpoints) != NIXL_SUCCESS) {
        return runtime_fail(runtime, "--etcd_endpoints: %s", error_text());
    }
    meeting->http.interrupted = &stop_signal;
    me->listener = mesh_listen(&me->port);
    if (me->listener < 0) {
        return runtime_fail(runtime, "no port to listen at: %s", strerror(errno));
    }
    meeting->is_meeting = true;
    if (!etcd_meeting_keep(runtime) || !meet(runtime, me)) {
        /* Once all were there the keys stay as long as their lease, so that the others see that, too. */
        meeting->is_meeting = count_taken(&me->roll, runtime->size) != runtime->size;
        return false;
    }
    if (!all_are_ours(&me->roll, runtime->size)) {
        return settle(runtime, c->benchmark_group);
    }
    meeting->is_meeting = false;
    return part_from_etcd(runtime);
}

bool runtime_open_etcd(struct runtime *runtime, const struct bench_plan *plan) {
    struct attendee *me;
    bool ok;

    memset(runtime, 0, sizeof *runtime);
    runtime->kind = RUNTIME_ETCD;
    if (!runtime_set_size(runtime, plan->processes)) {
        return false;
    }
    runtime->meeting = calloc(1, sizeof *runtime->meeting);
    me = calloc(1, sizeof *me);
    if (me != NULL) {
        me->config = plan->config;
        me->listener = -1;
        me->roll.places = calloc(runtime->size, sizeof *me->roll.places);
    }
    if (runtime->meeting == NULL || me == NULL || me->roll.places == NULL) {
        free(me);
        return runtime_fail(runtime, "out of memory");
    }
    runtime->meeting->lease_s = LEASE_S;
    runtime->meeting->patience_ms = PATIENCE_MS;
    snprintf(runtime->meeting->prefix, sizeof runtime->meeting->prefix, "xferbench/%s/",
             plan->config->benchmark_group);
    ok = begin(runtime, me);
    mesh_close(runtime);
    if (me->listener >= 0) {
        close(me->listener);
    }
    free(me->roll.places);
    free(me);
    return ok;
}

void runtime_close_etcd(struct runtime *runtime) {
    struct etcd_meeting *meeting = runtime->meeting;

    if (meeting == NULL) {
        return;
    }
    if (meeting->is_meeting && meeting->http.endpoint_count != 0) {
        meeting->http.interrupted = NULL;
        etcd_http_stop(&meeting->http); /* whatever etcd does, this ends soon */
        if (runtime->keys != NULL) {
            (void)remove_all(runtime);
        }
        if (meeting->lease != 0) {
            (void)etcd_lease_revoke(&meeting->http, meeting->lease);
        }
    }
    etcd_http_close(&meeting->http);
    free(meeting);
    runtime->meeting = NULL;
}
