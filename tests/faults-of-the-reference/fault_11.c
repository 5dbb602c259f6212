/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault 11: the reference's request status is a plain word. Two threads that post or poll one request at once read and
 * write it side by side, and the backend is entered twice.
 */
#include "fault.h"

#include <pthread.h>

#define ROUNDS 300

struct race {
    pthread_barrier_t start, end;
    struct nixl_xfer *xfer;
    nixl_status_t other;
};

static void *post_beside(void *arg) {
    struct race *race = arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&race->start);
        race->other = nixl_xfer_post(race->xfer, NULL);
        pthread_barrier_wait(&race->end);
    }
    return NULL;
}

static void of_two_posts_at_once_one_is_refused(void **state) {
    struct agents agents;
    struct race race;
    pthread_t thread;

    agents_begin(&agents, "hold", "yes");
    race.xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    pthread_barrier_init(&race.start, NULL, 2);
    pthread_barrier_init(&race.end, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, post_beside, &race), 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        nixl_status_t mine;

        pthread_barrier_wait(&race.start);
        mine = nixl_xfer_post(race.xfer, NULL);
        pthread_barrier_wait(&race.end);
        assert_int_equal(mine + race.other, NIXL_IN_PROG + NIXL_ERR_REPOST_ACTIVE);
        assert_true(mine == NIXL_IN_PROG || race.other == NIXL_IN_PROG);
        assert_true(nixl_xfer_cancel(race.xfer) >= 0);
        assert_status(nixl_xfer_wait(race.xfer, 10000), NIXL_ERR_CANCELED);
    }
    assert_int_equal(the_mock()->count("A", "posts"), ROUNDS);
    pthread_join(thread, NULL);
    assert_status(nixl_xfer_release(race.xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void *poll_beside(void *arg) {
    struct nixl_xfer *xfer = arg;

    while (nixl_xfer_poll(xfer) == NIXL_IN_PROG) {
    }
    return (void *)(intptr_t)nixl_xfer_poll(xfer);
}

static void two_threads_poll_one_request_and_agree(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, "chunk", "4k");
    xfer = request_of(&agents, NIXL_WRITE, 0, MEMORY, NULL);
    for (unsigned i = 0; i < 20; i++) {
        pthread_t thread;
        void *other;

        memset(agents.b.memory, 0, MEMORY);
        assert_true(nixl_xfer_post(xfer, NULL) >= 0);
        assert_int_equal(pthread_create(&thread, NULL, poll_beside, xfer), 0);
        assert_int_equal((intptr_t)poll_beside(xfer), NIXL_SUCCESS);
        assert_memory_equal(agents.b.memory, agents.a.memory,
                            MEMORY); /* done means that the bytes are there */
        pthread_join(thread, &other);
        assert_int_equal((intptr_t)other, NIXL_SUCCESS);
    }
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static const struct CMUnitTest tests[] = {
    TEST(of_two_posts_at_once_one_is_refused),
    TEST(two_threads_poll_one_request_and_agree),
};

FAULT_TESTS(tests)
