/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One agent used by eight threads at once, in each mode: registration, metadata out and in, forgetting,
 * lists, requests, notifications. Any call may fail as the others have it; nothing may crash, hang or stay
 * open, and what succeeds is right. NIXL_TEST_HAMMER_MS is the time for each mode (default 400).
 */
#include "front.h"

#include <pthread.h>
#include <time.h>

#define THREADS 8
#define BLOCK 4096u

struct hammer {
    struct agents agents;
    bool stop;            /* atomic */
    uint32_t moved, told; /* atomic */
    uint32_t taken;
};

typedef void (*beat)(struct hammer *hammer, unsigned round);

static bool one_of(nixl_status_t status, const nixl_status_t *allowed, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (status == allowed[i]) {
            return true;
        }
    }
    print_error("%s: %s\n", nixl_status_string(status), nixl_error());
    return false;
}

#define ALLOWED(call, ...)                                                                                   \
    do {                                                                                                     \
        const nixl_status_t allowed[] = {__VA_ARGS__};                                                       \
        assert_true(one_of((call), allowed, sizeof allowed / sizeof allowed[0]));                            \
    } while (0)

/* A block of B comes and goes; the last 16 blocks of its memory are for this. */
static void beat_register(struct hammer *hammer, unsigned round) {
    unsigned char *at = hammer->agents.b.memory + MEMORY - (1 + round % 16) * BLOCK;

    register_block(hammer->agents.b.agent, at, BLOCK);
    assert_status(deregister_block(hammer->agents.b.agent, at, BLOCK), NIXL_SUCCESS);
}

/* A learns what B is at this moment; another thread may have learned newer. */
static void beat_load(struct hammer *hammer, unsigned round) {
    ALLOWED(load_into(hammer->agents.a.agent, blob_of(hammer->agents.b.agent)), NIXL_SUCCESS,
            NIXL_ERR_NOT_ALLOWED);
}

static void beat_update(struct hammer *hammer, unsigned round) {
    uint64_t since = nixl_metadata_generation(hammer->agents.b.agent);
    struct nixl_desc whole = {(uintptr_t)hammer->agents.b.memory, MEMORY, 0};

    ALLOWED(load_into(hammer->agents.a.agent, update_of(hammer->agents.b.agent, since)), NIXL_SUCCESS,
            NIXL_ERR_NOT_ALLOWED, NIXL_ERR_NOT_FOUND);
    ALLOWED(load_into(hammer->agents.a.agent, partial_of(hammer->agents.b.agent, &whole, 1, round % 2 == 0)),
            NIXL_SUCCESS, NIXL_ERR_NOT_ALLOWED, NIXL_ERR_NOT_FOUND);
}

static void beat_forget(struct hammer *hammer, unsigned round) {
    struct timespec pause = {0, 300000};

    nanosleep(&pause, NULL);
    ALLOWED(nixl_metadata_invalidate(hammer->agents.a.agent, "B"), NIXL_SUCCESS, NIXL_ERR_NOT_FOUND);
}

/* Writes a block of its own and looks at it when it is said to be there. */
static void beat_write(struct hammer *hammer, unsigned round) {
    struct nixl_desc l = {(uintptr_t)hammer->agents.a.memory, BLOCK, 0};
    struct nixl_desc r = {(uintptr_t)hammer->agents.b.memory, BLOCK, 0};
    struct nixl_list local = NIXL_LIST(DRAM_SEG, &l, 1);
    struct nixl_list remote = NIXL_LIST(DRAM_SEG, &r, 1);
    struct nixl_xfer *xfer;
    nixl_status_t status;

    memset(hammer->agents.a.memory, (int)(round & 0xff), BLOCK);
    status = nixl_xfer_create(hammer->agents.a.agent, NIXL_WRITE, &local, &remote, "B", NULL, &xfer);
    ALLOWED(status, NIXL_SUCCESS, NIXL_ERR_NOT_FOUND);
    if (status != NIXL_SUCCESS) {
        return;
    }
    status = nixl_xfer_post(xfer, NULL);
    ALLOWED(status, NIXL_SUCCESS, NIXL_IN_PROG, NIXL_ERR_NOT_FOUND);
    if (status >= 0) {
        status = nixl_xfer_wait(xfer, 10000);
        ALLOWED(status, NIXL_SUCCESS, NIXL_ERR_NOT_FOUND);
    }
    if (status == NIXL_SUCCESS) {
        assert_memory_equal(hammer->agents.a.memory, hammer->agents.b.memory, BLOCK);
        __atomic_fetch_add(&hammer->moved, 1, __ATOMIC_RELAXED);
    }
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
}

static void beat_prepare(struct hammer *hammer, unsigned round) {
    struct nixl_desc l = {(uintptr_t)hammer->agents.a.memory + 8 * BLOCK, BLOCK, 0};
    struct nixl_desc r = {(uintptr_t)hammer->agents.b.memory + 8 * BLOCK, BLOCK, 0};
    struct nixl_list local = NIXL_LIST(DRAM_SEG, &l, 1);
    struct nixl_list remote = NIXL_LIST(DRAM_SEG, &r, 1);
    struct nixl_dlist *ours;
    struct nixl_dlist *theirs;
    struct nixl_xfer *xfer;

    assert_status(nixl_dlist_prepare(hammer->agents.a.agent, "", &local, NULL, &ours), NIXL_SUCCESS);
    ALLOWED(nixl_dlist_prepare(hammer->agents.a.agent, "B", &remote, NULL, &theirs), NIXL_SUCCESS,
            NIXL_ERR_NOT_FOUND);
    if (theirs != NULL) {
        ALLOWED(nixl_xfer_make(hammer->agents.a.agent, NIXL_READ, ours, NULL, theirs, NULL, 1, NULL, &xfer),
                NIXL_SUCCESS, NIXL_ERR_NOT_FOUND);
        if (xfer != NULL) {
            ALLOWED(nixl_xfer_post(xfer, NULL), NIXL_SUCCESS, NIXL_IN_PROG, NIXL_ERR_NOT_FOUND);
            /* Released in flight as often as not. */
            while (nixl_xfer_release(xfer) == NIXL_ERR_REPOST_ACTIVE) {
            }
        }
        nixl_dlist_release(theirs);
    }
    nixl_dlist_release(ours);
}

static void beat_notify(struct hammer *hammer, unsigned round) {
    nixl_status_t status = nixl_notif_send(hammer->agents.a.agent, "B", &round, sizeof round, NULL);

    ALLOWED(status, NIXL_SUCCESS, NIXL_ERR_NOT_FOUND);
    __atomic_fetch_add(&hammer->told, status == NIXL_SUCCESS, __ATOMIC_RELAXED);
}

static void beat_look(struct hammer *hammer, unsigned round) {
    struct nixl_notifs *notifs;
    struct nixl_names *names;

    assert_status(nixl_notif_take(hammer->agents.b.agent, NULL, &notifs), NIXL_SUCCESS);
    hammer->taken += notifs != NULL ? (uint32_t)notifs->count : 0;
    nixl_notifs_release(notifs);
    ALLOWED(nixl_metadata_check(hammer->agents.a.agent, "B", NULL), NIXL_SUCCESS, NIXL_ERR_NOT_FOUND);
    ALLOWED(nixl_peer_state(hammer->agents.a.agent, "B"), NIXL_SUCCESS, NIXL_ERR_NOT_FOUND);
    (void)nixl_peer_transport(hammer->agents.a.agent, "B", NULL);
    assert_status(nixl_peer_list(hammer->agents.a.agent, &names), NIXL_SUCCESS);
    assert_true(names->count <= 1);
    nixl_free(names);
}

struct worker {
    struct hammer *hammer;
    beat beat;
};

static void *worker_run(void *arg) {
    struct worker *worker = arg;
    unsigned round = 0;

    while (!__atomic_load_n(&worker->hammer->stop, __ATOMIC_RELAXED)) {
        worker->beat(worker->hammer, round++);
    }
    return NULL;
}

static void hammer_in(enum nixl_sync sync, bool progress_thread) {
    static const beat beats[THREADS] = {beat_register, beat_load,    beat_update, beat_forget,
                                        beat_write,    beat_prepare, beat_notify, beat_look};
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct hammer *hammer = calloc(1, sizeof *hammer);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    const char *ms = getenv("NIXL_TEST_HAMMER_MS");
    long time_ms = ms != NULL ? atol(ms) : 400;
    struct timespec pause = {time_ms / 1000, time_ms % 1000 * 1000000}, moment = {0, 10000000};

    assert_non_null(hammer);
    config.sync = sync;
    config.progress_thread = progress_thread;
    agents_begin_with(&hammer->agents, &config, NULL, 0);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){hammer, beats[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, worker_run, &workers[i]), 0);
    }
    nanosleep(&pause, NULL);
    /* A busy machine may not have let both of these in so far. */
    for (int i = 0; i < 3000 && (__atomic_load_n(&hammer->told, __ATOMIC_RELAXED) == 0 ||
                                 __atomic_load_n(&hammer->moved, __ATOMIC_RELAXED) == 0);
         i++) {
        nanosleep(&moment, NULL);
    }
    __atomic_store_n(&hammer->stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    hammer->taken += (uint32_t)notifs_of(hammer->agents.b.agent, NULL, 0);
    assert_int_equal(hammer->told, hammer->taken);
    assert_true(hammer->told > 0);
    assert_true(hammer->moved > 0);
    agents_end(&hammer->agents);
    assert_nothing_open();
    free(hammer);
}

static void eight_threads_on_one_agent_without_order(void **state) {
    hammer_in(NIXL_SYNC_NONE, false);
}

static void eight_threads_and_the_progress_thread(void **state) {
    hammer_in(NIXL_SYNC_NONE, true);
}

static void eight_threads_one_call_at_a_time(void **state) {
    hammer_in(NIXL_SYNC_STRICT, false);
}

static void eight_threads_with_searches_together(void **state) {
    hammer_in(NIXL_SYNC_RW, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(eight_threads_on_one_agent_without_order),
        TEST(eight_threads_and_the_progress_thread),
        TEST(eight_threads_one_call_at_a_time),
        TEST(eight_threads_with_searches_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
