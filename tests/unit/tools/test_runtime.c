/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames that two processes exchange, against bytes written by hand: the reference's ASIO runtime sends the same.
 * A forked process plays the other end on a bare socket.
 */
#include "support.h"

#include "runtime.h"

#include "base/thread.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct bench_options options;
static struct bench_plan plan;
static struct runtime runtime;
static char error[768];

static uint16_t free_port(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    close(fd);
    return ntohs(at.sin_port);
}

/* In the child: connects, writes `out`, compares what comes with `in` and exits with the verdict. */
static void other_end(uint16_t port, const void *out, size_t out_len, const void *in, size_t in_len) {
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char got[256] = "";
    size_t have = 0;
    int fd = -1;

    for (int i = 0; i < 500; i++) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0) {
            break;
        }
        close(fd);
        fd = -1;
        usleep(10000);
    }
    if (fd < 0 || write(fd, out, out_len) != (ssize_t)out_len) {
        _exit(2);
    }
    while (have < in_len) {
        ssize_t n = read(fd, got + have, in_len - have);

        if (n <= 0) {
            _exit(3);
        }
        have += (size_t)n;
    }
    _exit(memcmp(got, in, in_len) == 0 ? 0 : 4);
}

static pid_t meet(const void *out, size_t out_len, const void *in, size_t in_len) {
    uint16_t port = free_port();
    char argument[32];
    pid_t pid;

    snprintf(argument, sizeof argument, "--asio_port=%u", port);
    assert_true(options_of(&options, error, sizeof error, "--runtime_type=ASIO", argument, NULL));
    assert_true(plan_make(&options, 0, &plan, error, sizeof error));
    pid = fork();
    if (pid == 0) {
        other_end(port, out, out_len, in, in_len);
    }
    assert_true(pid > 0);
    if (!runtime_open_asio(&runtime, &plan)) {
        fail_msg("%s", runtime.error);
    }
    assert_int_equal(runtime.rank, 0); /* who listens is the first */
    return pid;
}

static void part(pid_t pid) {
    int status;

    runtime_close(&runtime);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    plan_free(&plan);
    options_free(&options);
}

#define BYTES(text) text, sizeof text - 1

static void a_message_is_its_length_and_its_bytes(void **state) {
    struct bytes message = {0};
    pid_t pid = meet(BYTES("\4\0\0i\5\0\0\0\5\0\0shello"), BYTES("\4\0\0i\3\0\0\0\3\0\0sabc"));

    assert_true(runtime_recv(&runtime, 1, &message));
    assert_int_equal(message.len, 5);
    assert_memory_equal(message.data, "hello", 5);
    assert_true(runtime_send(&runtime, 1, "abc", 3));
    bytes_free(&message);
    part(pid);
}

static void a_barrier_is_its_name_and_number_on_both_sides(void **state) {
    pid_t pid =
        meet(BYTES("\17\0\0bstart_barrier/1\6\0\0bsync/2"), BYTES("\17\0\0bstart_barrier/1\6\0\0bsync/2"));

    assert_true(runtime_barrier(&runtime, "start_barrier"));
    assert_true(runtime_barrier(&runtime, "sync"));
    part(pid);
}

static void a_message_may_be_taken_before_a_barrier_that_came_first(void **state) {
    struct bytes message = {0};
    pid_t pid = meet(BYTES("\6\0\0bsync/1\4\0\0i\2\0\0\0\2\0\0sok"), BYTES("\6\0\0bsync/1"));

    assert_true(runtime_recv(&runtime, 1, &message));
    assert_memory_equal(message.data, "ok", 2);
    assert_true(runtime_barrier(&runtime, "sync"));
    bytes_free(&message);
    part(pid);
}

static void a_peer_that_goes_away_is_told_in_words(void **state) {
    struct bytes message = {0};
    pid_t pid = meet(BYTES("\4\0\0i\5\0\0\0"), BYTES(""));

    assert_false(runtime_recv(&runtime, 1, &message));
    assert_non_null(strstr(runtime.error, "ended before its time"));
    bytes_free(&message);
    part(pid);
}

static void ends_at_different_barriers_are_told_so(void **state) {
    pid_t pid = meet(BYTES("\7\0\0bother/1"), BYTES("\6\0\0bsync/1"));

    assert_false(runtime_barrier(&runtime, "sync"));
    assert_non_null(strstr(runtime.error, "other/1"));
    assert_non_null(strstr(runtime.error, "same flags"));
    part(pid);
}

static void a_length_that_does_not_fit_its_message_is_refused(void **state) {
    struct bytes message = {0};
    pid_t pid = meet(BYTES("\4\0\0i\6\0\0\0\5\0\0shello"), BYTES(""));

    assert_false(runtime_recv(&runtime, 1, &message));
    assert_non_null(strstr(runtime.error, "announced 6"));
    bytes_free(&message);
    part(pid);
}

static void the_second_process_connects_to_the_first(void **state) {
    uint16_t port = free_port();
    char argument[32];
    pid_t pid;
    int status;

    snprintf(argument, sizeof argument, "--asio-port=%u", port);
    assert_true(options_of(&options, error, sizeof error, "--runtime_type=ASIO", argument, NULL));
    assert_true(plan_make(&options, 0, &plan, error, sizeof error));
    pid = fork();
    if (!runtime_open_asio(&runtime, &plan)) {
        fprintf(stderr, "%s\n", runtime.error);
        pid == 0 ? _exit(1) : fail();
    }
    if (!runtime_barrier(&runtime, "start_barrier")) {
        pid == 0 ? _exit(2) : fail();
    }
    if (pid == 0) {
        _exit((int)(10 + runtime.rank));
    }
    runtime.idle = NULL;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 11 - (int)runtime.rank);
    runtime_close(&runtime);
    plan_free(&plan);
    options_free(&options);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_its_length_and_its_bytes),
        cmocka_unit_test(a_barrier_is_its_name_and_number_on_both_sides),
        cmocka_unit_test(a_message_may_be_taken_before_a_barrier_that_came_first),
        cmocka_unit_test(a_peer_that_goes_away_is_told_in_words),
        cmocka_unit_test(ends_at_different_barriers_are_told_so),
        cmocka_unit_test(a_length_that_does_not_fit_its_message_is_refused),
        cmocka_unit_test(the_second_process_connects_to_the_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
