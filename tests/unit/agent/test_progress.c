/* SPDX-License-Identifier: Apache-2.0 */
/* Who makes progress, who sleeps, what an idle agent costs, and the completion descriptor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agents.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void begin(struct agents *agents, bool thread, const char *progress, const char *hold) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_param params[] = {{"progress", progress}, {"hold", hold}};

    config.progress_thread = thread;
    agents_begin_with(agents, &config, params, 2);
}

static bool is_readable(int fd, int timeout_ms) {
    struct pollfd entry = {.fd = fd, .events = POLLIN};

    return poll(&entry, 1, timeout_ms) == 1;
}

static uint64_t cpu_us(void) {
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000u +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void thread_completes_without_any_call(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    begin(&agents, true, "event", "no");
    xfer = request_of(&agents, NIXL_WRITE, 0, 65536, NULL);
    for (int i = 0; i < 50; i++) {
        uint64_t end = clock_now_ns() + 5 * NS_PER_S;

        assert_true(nixl_xfer_post(xfer, NULL) >= 0);
        while (__atomic_load_n(&xfer->state, __ATOMIC_ACQUIRE) > 0) {
            assert_true(clock_now_ns() < end);
            usleep(100);
        }
        assert_int_equal(xfer->state, NIXL_SUCCESS);
    }
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

/* Processor time while this thread sleeps for 300 ms; the least of some tries, since the machine has others
 * on it. */
static uint64_t idle_cpu_us(void) {
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 5 && least > 2000; i++) {
        uint64_t before = cpu_us();

        usleep(300000);
        least = cpu_us() - before < least ? cpu_us() - before : least;
    }
    return least;
}

/* Less than 1 % of a processor. */
static void idle_agent_uses_no_processor(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    begin(&agents, true, "event", "no");
    xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    usleep(20000);
    assert_in_range(idle_cpu_us(), 0, 3000);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

/* A transfer in flight does not keep the thread busy either, nor does somebody who waits for it. */
static void waiting_uses_no_processor(void **state) {
    for (int i = 0; i < 4; i++) {
        struct agents agents;
        struct nixl_xfer *xfer;
        uint64_t least = UINT64_MAX;

        begin(&agents, i % 2 == 1, i < 2 ? "event" : "wait", "yes");
        xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
        assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
        for (int turn = 0; turn < 5 && least > 4000; turn++) {
            uint64_t before = cpu_us();

            assert_int_equal(nixl_xfer_wait(xfer, 300), NIXL_IN_PROG);
            least = cpu_us() - before < least ? cpu_us() - before : least;
        }
        assert_in_range(least, 0, 6000);
        the_mock()->set("A", "hold", "no");
        assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
        agents_end(&agents);
    }
}

static void *let_go(void *arg) {
    usleep(50000);
    the_mock()->set("A", "hold", "no");
    return NULL;
}

/* The event comes while everybody sleeps; whoever waits gets it at once. */
static void waiter_wakes_with_the_event(void **state) {
    static const char *const ways[] = {"event", "own", "wait"};

    for (int thread = 0; thread < 2; thread++) {
        for (int way = 0; way < 3; way++) {
            struct agents agents;
            struct nixl_xfer *xfer;
            uint64_t best_ms = UINT64_MAX;

            begin(&agents, thread == 1, ways[way], "yes");
            xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
            /* A lost event would cost 100 ms each time; a busy machine not each time. */
            for (int i = 0; i < 20 && best_ms > 90; i++) {
                uint64_t start = clock_now_ns();
                pthread_t other;
                uint64_t ms;

                the_mock()->set("A", "hold", "yes");
                assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
                assert_int_equal(pthread_create(&other, NULL, let_go, NULL), 0);
                assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
                ms = (clock_now_ns() - start) / NS_PER_MS;
                best_ms = ms < best_ms ? ms : best_ms;
                pthread_join(other, NULL);
            }
            assert_in_range(best_ms, 49, 90);
            /* Somebody slept within the backend that offers it: the waiter, or the thread. */
            assert_int_equal(the_mock()->count("A", "waits") > 0, way == 2);
            assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
            agents_end(&agents);
        }
    }
}

struct waiter {
    struct nixl_xfer *xfer;
    nixl_status_t status;
    uint64_t end_ns;
};

static void *wait_for(void *arg) {
    struct waiter *waiter = arg;

    waiter->status = nixl_xfer_wait(waiter->xfer, 5000);
    waiter->end_ns = clock_now_ns();
    return NULL;
}

/* Without a thread one waiter sleeps on the events and makes progress for all. */
static void several_waiters_all_wake(void **state) {
    for (int way = 0; way < 4; way++) {
        struct agents agents;
        struct waiter waiters[4];
        pthread_t threads[4];
        uint64_t best_ms = UINT64_MAX;

        begin(&agents, way % 2 == 1, way < 2 ? "event" : "wait", "yes");
        for (int i = 0; i < 4; i++) {
            waiters[i].xfer = request_of(&agents, NIXL_WRITE, (size_t)i * 4096, 4096, NULL);
        }
        for (int round = 0; round < 20 && best_ms > 40; round++) {
            uint64_t worst_ms = 0;
            uint64_t go;

            the_mock()->set("A", "hold", "yes");
            for (int i = 0; i < 4; i++) {
                assert_int_equal(nixl_xfer_post(waiters[i].xfer, NULL), NIXL_IN_PROG);
                assert_int_equal(pthread_create(&threads[i], NULL, wait_for, &waiters[i]), 0);
            }
            usleep(20000);
            go = clock_now_ns();
            the_mock()->set("A", "hold", "no");
            for (int i = 0; i < 4; i++) {
                uint64_t ms;

                pthread_join(threads[i], NULL);
                assert_int_equal(waiters[i].status, NIXL_SUCCESS);
                ms = (waiters[i].end_ns - go) / NS_PER_MS;
                worst_ms = ms > worst_ms ? ms : worst_ms;
            }
            best_ms = worst_ms < best_ms ? worst_ms : best_ms;
        }
        assert_in_range(best_ms, 0, 40);
        for (int i = 0; i < 4; i++) {
            assert_status(nixl_xfer_release(waiters[i].xfer), NIXL_SUCCESS);
        }
        agents_end(&agents);
    }
}

/* A second waiter for the same request, who sleeps on its word, is woken as well, and at once. */
static void two_waiters_for_one_request_both_wake(void **state) {
    static const char *const ways[] = {"event", "wait"};

    for (int way = 0; way < 2; way++) {
        struct agents agents;
        struct waiter waiters[2];
        pthread_t threads[2];

        begin(&agents, false, ways[way], "yes");
        waiters[0].xfer = waiters[1].xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
        for (int round = 0; round < 3; round++) {
            the_mock()->set("A", "hold", "yes");
            assert_int_equal(nixl_xfer_post(waiters[0].xfer, NULL), NIXL_IN_PROG);
            for (int i = 0; i < 2; i++) {
                assert_int_equal(pthread_create(&threads[i], NULL, wait_for, &waiters[i]), 0);
            }
            usleep(5000);
            the_mock()->set("A", "hold", "no");
            for (int i = 0; i < 2; i++) {
                pthread_join(threads[i], NULL);
                assert_int_equal(waiters[i].status, NIXL_SUCCESS);
            }
        }
        assert_status(nixl_xfer_release(waiters[0].xfer), NIXL_SUCCESS);
        agents_end(&agents);
    }
}

static void *cancel_soon(void *arg) {
    usleep(20000);
    (void)nixl_xfer_cancel(arg);
    return NULL;
}

/* What ends a request from outside wakes who sleeps within the backend: a cancel by another thread, and the
 * waiter's own deadline. */
static void sleeper_within_the_backend_sees_cancel_and_deadline(void **state) {
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct agents agents;
    struct nixl_xfer *xfer;
    pthread_t other;

    begin(&agents, false, "wait", "yes");
    xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_int_equal(pthread_create(&other, NULL, cancel_soon, xfer), 0);
    assert_int_equal(nixl_xfer_wait(xfer, 5000), NIXL_ERR_CANCELED);
    pthread_join(other, NULL);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    options.timeout_ms = 50;
    xfer = request_of(&agents, NIXL_WRITE, 0, 4096, &options);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_int_equal(nixl_xfer_wait(xfer, 5000), NIXL_ERR_CANCELED);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void progress_call_does_what_the_thread_would(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;
    int rounds = 0;

    begin(&agents, false, "event", "no");
    xfer = request_of(&agents, NIXL_WRITE, 0, MEMORY, NULL);
    assert_int_equal(nixl_agent_progress(agents.a.agent), NIXL_IN_PROG);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    while (__atomic_load_n(&xfer->state, __ATOMIC_ACQUIRE) > 0) {
        assert_true(nixl_agent_progress(agents.a.agent) >= 0);
        assert_true(rounds++ < 1000000);
    }
    assert_int_equal(xfer->state, NIXL_SUCCESS);
    assert_int_equal(nixl_agent_progress(NULL), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void progress_call_keeps_deadlines(void **state) {
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct in_time in_time = {.least_ms = 45, .most_ms = 120};
    struct agents agents;
    struct nixl_xfer *xfer;

    begin(&agents, false, "event", "yes");
    options.timeout_ms = 50;
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, &options);
    while (in_time_again(&in_time)) {
        uint64_t start = clock_now_ns();

        assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
        while (__atomic_load_n(&xfer->state, __ATOMIC_ACQUIRE) > 0) {
            (void)nixl_agent_progress(agents.a.agent);
            assert_true(clock_now_ns() - start < 5 * NS_PER_S);
        }
        in_time_note(&in_time, start);
        assert_int_equal(nixl_xfer_poll(xfer), NIXL_ERR_CANCELED);
    }
    in_time_check(&in_time);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

/* ---- the completion descriptor ---- */

static void descriptor_tells_of_a_completion_after_arming(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;
    int fd;

    begin(&agents, true, "event", "yes");
    fd = nixl_agent_fd(agents.a.agent);
    assert_true(fd >= 0);
    assert_int_equal(nixl_agent_fd(agents.a.agent), fd);
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_int_equal(nixl_agent_arm(agents.a.agent), NIXL_IN_PROG);
    assert_false(is_readable(fd, 20));
    the_mock()->set("A", "hold", "no");
    assert_true(is_readable(fd, 5000));
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_SUCCESS);
    /* One arm says that it happened, the next that nothing did since. */
    assert_int_equal(nixl_agent_arm(agents.a.agent), NIXL_SUCCESS);
    assert_int_equal(nixl_agent_arm(agents.a.agent), NIXL_IN_PROG);
    assert_false(is_readable(fd, 20));
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void event_before_arming_is_not_lost(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    begin(&agents, true, "event", "no");
    assert_true(nixl_agent_fd(agents.a.agent) >= 0);
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    usleep(1000);
    assert_int_equal(nixl_agent_arm(agents.a.agent), NIXL_SUCCESS);
    assert_int_equal(nixl_agent_arm(agents.a.agent), NIXL_IN_PROG);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

/* Without a thread the program is woken for progress too, and a hundred transfers end without a poll loop. */
static void event_loop_serves_without_polling(void **state) {
    for (int thread = 0; thread < 2; thread++) {
        struct agents agents;
        struct nixl_xfer *xfers[100];
        int left = 100;
        int fd;

        begin(&agents, thread == 1, "event", "no");
        fd = nixl_agent_fd(agents.a.agent);
        for (size_t i = 0; i < 100; i++) {
            xfers[i] = request_of(&agents, NIXL_WRITE, i * 4096, 4096, NULL);
            assert_true(nixl_xfer_post(xfers[i], NULL) >= 0);
        }
        while (left > 0) {
            if (nixl_agent_arm(agents.a.agent) == NIXL_IN_PROG) {
                assert_true(is_readable(fd, 5000));
                (void)nixl_agent_progress(agents.a.agent);
            }
            left = 0;
            for (size_t i = 0; i < 100; i++) {
                left += __atomic_load_n(&xfers[i]->state, __ATOMIC_ACQUIRE) > 0;
            }
        }
        for (size_t i = 0; i < 100; i++) {
            assert_int_equal(nixl_xfer_poll(xfers[i]), NIXL_SUCCESS);
            assert_status(nixl_xfer_release(xfers[i]), NIXL_SUCCESS);
        }
        agents_end(&agents);
    }
}

static void descriptor_tells_of_a_notification(void **state) {
    struct agents agents;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer;
    int fd;

    begin(&agents, true, "event", "no");
    fd = nixl_agent_fd(agents.b.agent);
    assert_int_equal(nixl_agent_arm(agents.b.agent), NIXL_IN_PROG);
    options.notif = "x";
    options.notif_len = 1;
    options.has_notif = true;
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, &options);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_true(is_readable(fd, 5000));
    assert_int_equal(notifs_of(agents.b.agent, NULL, 0), 1);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

/* ---- fork ---- */

static int child_result(struct agents *agents, struct nixl_xfer *xfer) {
    struct nixl_desc desc = {(uintptr_t)agents->a.memory, 64, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_dlist *dlist;
    struct nixl_xfer *made;
    uint64_t seen = 0;
    int bad = 0;

    bad += nixl_xfer_post(xfer, NULL) != NIXL_ERR_NOT_ALLOWED;
    bad += nixl_xfer_poll(xfer) != NIXL_ERR_NOT_ALLOWED;
    bad += nixl_xfer_wait(xfer, 10) != NIXL_ERR_NOT_ALLOWED;
    bad += nixl_xfer_post_all(&xfer, 1, NULL) != NIXL_ERR_NOT_ALLOWED;
    bad += nixl_agent_wait(agents->a.agent, &seen, 10) != NIXL_ERR_NOT_ALLOWED;
    bad += nixl_xfer_cancel(xfer) != NIXL_ERR_NOT_ALLOWED;
    bad += nixl_xfer_release(xfer) != NIXL_ERR_NOT_ALLOWED;
    bad += nixl_mem_register(agents->a.agent, &list, NULL) != NIXL_ERR_NOT_ALLOWED;
    bad += nixl_mem_deregister(agents->a.agent, &list, NULL) != NIXL_ERR_NOT_ALLOWED;
    bad += nixl_dlist_prepare(agents->a.agent, NULL, &list, NULL, &dlist) != NIXL_ERR_NOT_ALLOWED;
    bad +=
        nixl_xfer_create(agents->a.agent, NIXL_READ, &list, &list, "A", NULL, &made) != NIXL_ERR_NOT_ALLOWED;
    bad += nixl_agent_progress(agents->a.agent) != NIXL_ERR_NOT_ALLOWED;
    bad += nixl_agent_arm(agents->a.agent) != NIXL_ERR_NOT_ALLOWED;
    bad += nixl_agent_fd(agents->a.agent) != -1;
    bad += strstr(nixl_error(), "fork()") == NULL;
    return bad;
}

static void forked_child_is_refused_and_the_parent_goes_on(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;
    int status;
    pid_t child;

    begin(&agents, true, "event", "no");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    fflush(stdout);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(child_result(&agents, xfer));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

/* No descriptor is left from the first call on that would need one. Returns the limit as it was. */
static struct rlimit descriptors_run_out(void) {
    struct rlimit before;
    struct rlimit none;
    int first_free = open("/dev/null", O_RDONLY);

    assert_true(first_free >= 0);
    close(first_free);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){(rlim_t)first_free, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    return before;
}

static void missing_descriptors_are_told_in_words_and_change_nothing(void **state) {
    struct nixl_agent *agent = (struct nixl_agent *)1;
    struct agents agents;
    struct rlimit before;
    struct rlimit one;

    begin(&agents, false, "event", "no");
    before = descriptors_run_out();
    assert_int_equal(nixl_agent_create("C", NULL, &agent), NIXL_ERR_BACKEND);
    assert_null(agent);
    assert_words(nixl_error(), "the descriptors for progress cannot be made");
    assert_words(nixl_error(), "Too many open files");
    assert_int_equal(nixl_agent_fd(agents.a.agent), -1);
    assert_words(nixl_error(), "agent fd: the completion descriptor cannot be made");
    assert_int_equal(nixl_agent_arm(agents.a.agent), NIXL_ERR_BACKEND);
    assert_words(nixl_error(), "agent arm: the completion descriptor cannot be made");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(nixl_agent_fd(agents.a.agent) >= 0);
    assert_status(nixl_agent_arm(agents.a.agent), NIXL_IN_PROG);
    /* Of the two that are needed the second is missing. */
    before = descriptors_run_out();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &one), 0);
    one.rlim_cur++;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &one), 0);
    assert_int_equal(nixl_agent_fd(agents.b.agent), -1);
    assert_int_equal(nixl_agent_create("C", NULL, &agent), NIXL_ERR_BACKEND);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(nixl_agent_fd(agents.b.agent) >= 0);
    agents_end(&agents);
}

static void malformed_time_to_spin_is_refused_in_words(void **state) {
    struct nixl_agent *agent = (struct nixl_agent *)1;

    setenv("NIXL_SPIN_US", "a while", 1);
    assert_int_equal(nixl_agent_create("C", NULL, &agent), NIXL_ERR_INVALID_PARAM);
    assert_null(agent);
    assert_words(nixl_error(), "NIXL_SPIN_US");
    setenv("NIXL_SPIN_US", "1000001", 1);
    assert_int_equal(nixl_agent_create("C", NULL, &agent), NIXL_ERR_INVALID_PARAM);
    unsetenv("NIXL_SPIN_US");
    assert_status(nixl_agent_create("C", NULL, &agent), NIXL_SUCCESS);
    nixl_agent_destroy(agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread_completes_without_any_call),
        cmocka_unit_test(idle_agent_uses_no_processor),
        cmocka_unit_test(waiting_uses_no_processor),
        cmocka_unit_test(waiter_wakes_with_the_event),
        cmocka_unit_test(several_waiters_all_wake),
        cmocka_unit_test(two_waiters_for_one_request_both_wake),
        cmocka_unit_test(sleeper_within_the_backend_sees_cancel_and_deadline),
        cmocka_unit_test(progress_call_does_what_the_thread_would),
        cmocka_unit_test(progress_call_keeps_deadlines),
        cmocka_unit_test(descriptor_tells_of_a_completion_after_arming),
        cmocka_unit_test(event_before_arming_is_not_lost),
        cmocka_unit_test(event_loop_serves_without_polling),
        cmocka_unit_test(descriptor_tells_of_a_notification),
        cmocka_unit_test(forked_child_is_refused_and_the_parent_goes_on),
        cmocka_unit_test(missing_descriptors_are_told_in_words_and_change_nothing),
        cmocka_unit_test(malformed_time_to_spin_is_refused_in_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
