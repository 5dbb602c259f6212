/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "support/skip.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const queue_options[] = {"use_uring=true", "use_aio=true", "use_posix_aio=true"};
static const char *const queue_names[] = {"io_uring", "Linux AIO", "POSIX AIO"};

/* A round trip of 1,000 blocks of 4 KiB through an instance. */
static bool works(struct harness *h) {
    enum {
        BLOCKS = 1000,
        LEN = 4096
    };
    FILE *scratch = tmpfile();
    char *bytes = malloc(BLOCKS * LEN), *back = calloc(BLOCKS, LEN);
    struct nixl_run *runs = calloc(BLOCKS, sizeof *runs);
    void *file = harness_file(h, (uint64_t)fileno(scratch), NULL);
    struct transfer t;
    bool is_good;
    size_t i;

    fill_pattern(bytes, BLOCKS * LEN, 77);
    for (i = 0; i < BLOCKS; i++) {
        runs[i] = run_of(file, bytes + i * LEN, (BLOCKS - 1 - i) * LEN, LEN); /* backwards: nothing adjoins */
    }
    is_good =
        transfer_open(h, &t, NIXL_WRITE, runs, BLOCKS, 0) == NIXL_SUCCESS && transfer_run(&t) == NIXL_SUCCESS;
    transfer_close(&t);
    for (i = 0; i < BLOCKS; i++) {
        runs[i].local = (uintptr_t)(back + i * LEN);
    }
    is_good = is_good && transfer_open(h, &t, NIXL_READ, runs, BLOCKS, 0) == NIXL_SUCCESS &&
              transfer_run(&t) == NIXL_SUCCESS && memcmp(bytes, back, BLOCKS * LEN) == 0;
    transfer_close(&t);
    h->ops->region_close(h->self, file);
    fclose(scratch);
    free(bytes);
    free(back);
    free(runs);
    return is_good;
}

static void each_queue_can_be_asked_for_and_says_so(void **state) {
    size_t i;

    for (i = 0; i < 3; i++) {
        struct harness h;

        if (harness_open(&h, queue_options[i]) != NIXL_SUCCESS) {
            print_message("# %s: %s\n", queue_options[i], h.error);
            assert_true(i != 2 || UNDER_TSAN); /* POSIX AIO works everywhere */
            continue;
        }
        assert_non_null(strstr(h.ops->describe(h.self), queue_names[i]));
        assert_non_null(strstr(h.ops->describe(h.self), "as asked for"));
        assert_true(works(&h));
        harness_close(&h);
    }
}

static void aio_goes_before_uring_when_both_are_asked_for(void **state) {
    struct harness h;

    assert_int_equal(harness_open(&h, "use_uring=true use_aio=true use_posix_aio=true"), NIXL_SUCCESS);
    assert_non_null(strstr(h.ops->describe(h.self), "Linux AIO"));
    harness_close(&h);
}

static void every_number_of_the_numeric_options_works(void **state) {
    static const char *const numbers[] = {
        "0", "1", "15", "16", "63", "64", "1024", "65536", "18446744073709551615"};
    /* kernel_queue_size: 0 is the default of 256, the rest is brought into 16 to 1,024. */
    static const char *const depths[] = {" 256 ", " 16 ",   " 16 ",   " 16 ",  " 63 ",
                                         " 64 ",  " 1024 ", " 1024 ", " 1024 "};
    size_t i, q;

    for (q = 0; q < 3; q++) {
        for (i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            struct harness h;
            char options[120];

            snprintf(options, sizeof options, "%s kernel_queue_size=%s", queue_options[q], numbers[i]);
            if (harness_open(&h, options) != NIXL_SUCCESS) {
                continue; /* this kernel has no such queue: told by the test above */
            }
            assert_non_null(strstr(h.ops->describe(h.self), depths[i]));
            assert_true(works(&h));
            harness_close(&h);
            snprintf(options, sizeof options, "%s ios_pool_size=%s", queue_options[q], numbers[i]);
            assert_int_equal(harness_open(&h, options), NIXL_SUCCESS);
            assert_true(works(&h));
            harness_close(&h);
        }
    }
}

static void text_and_negative_numbers_are_of_no_unsigned_option(void **state) {
    static const char *const options[] = {"kernel_queue_size=-1", "kernel_queue_size=many",
                                          "ios_pool_size=-65536", "ios_pool_size=1.5",
                                          "use_uring=perhaps",    "kernel_queue=4"};
    size_t i;

    for (i = 0; i < sizeof options / sizeof options[0]; i++) {
        struct harness h;

        assert_int_equal(harness_open(&h, options[i]), NIXL_ERR_INVALID_PARAM);
    }
}

static void one_engine_leaves_the_machines_aio_to_others(void **state) {
    unsigned long max, before, after;
    struct harness h;
    FILE *f = fopen("/proc/sys/fs/aio-max-nr", "r");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu", &max), 1);
    fclose(f);
    f = fopen("/proc/sys/fs/aio-nr", "r");
    assert_int_equal(fscanf(f, "%lu", &before), 1);
    fclose(f);
    assert_int_equal(harness_open(&h, "use_aio=true ios_pool_size=65536"), NIXL_SUCCESS);
    f = fopen("/proc/sys/fs/aio-nr", "r");
    assert_int_equal(fscanf(f, "%lu", &after), 1);
    fclose(f);
    harness_close(&h);
    assert_true(after - before <= 1024);
    assert_true(after - before < max / 16);
}

/* ---- system calls denied, as containers do --- */

static bool deny(const int *calls, size_t count) {
    struct sock_filter code[24] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    struct sock_fprog program = {.filter = code};
    size_t at = 1, i;

    for (i = 0; i < count; i++) {
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
        code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program.len = (unsigned short)at;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* In a child under the filter: 0 when `check` holds, 77 when there is no seccomp here. */
static int under_filter(const int *calls, size_t count, bool (*check)(void)) {
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        _exit(!deny(calls, count) ? 77 : check() ? 0 : 1);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static bool falls_back_to_aio(void) {
    struct harness h;
    bool is_good;

    if (harness_open(&h, NULL) != NIXL_SUCCESS) {
        return false;
    }
    is_good = strstr(h.ops->describe(h.self), "Linux AIO") == h.ops->describe(h.self) &&
              strstr(h.ops->describe(h.self), "not io_uring: ") != NULL &&
              strstr(h.ops->describe(h.self), "seccomp") != NULL && works(&h);
    harness_close(&h);
    return is_good;
}

static bool falls_back_to_posix_aio(void) {
    struct harness h;
    bool is_good;

    if (harness_open(&h, NULL) != NIXL_SUCCESS) {
        return false;
    }
    is_good = strstr(h.ops->describe(h.self), "POSIX AIO") == h.ops->describe(h.self) &&
              strstr(h.ops->describe(h.self), "not io_uring: ") != NULL &&
              strstr(h.ops->describe(h.self), "not Linux AIO: io_setup") != NULL && works(&h);
    harness_close(&h);
    return is_good;
}

static bool says_why_not_uring(void) {
    struct harness h;

    return harness_open(&h, "use_uring=true") == NIXL_ERR_BACKEND &&
           strstr(h.error, "io_uring cannot be used") != NULL && strstr(h.error, "seccomp") != NULL;
}

static void run_denied(const int *calls, size_t count, bool (*check)(void)) {
    int rc = under_filter(calls, count, check);

    if (rc == 77) {
        test_skip("no seccomp filters here");
    }
    assert_int_equal(rc, 0);
}

static void denied_uring_is_replaced_by_aio(void **state) {
    static const int setup[] = {SYS_io_uring_setup}, enter[] = {SYS_io_uring_enter};

    run_denied(setup, 1, falls_back_to_aio);
    run_denied(enter, 1, falls_back_to_aio);
}

static void denied_uring_and_aio_are_replaced_by_posix_aio(void **state) {
    static const int calls[] = {SYS_io_uring_setup, SYS_io_setup};

    if (UNDER_TSAN) {
        test_skip("POSIX AIO under the thread sanitizer");
    }
    run_denied(calls, 2, falls_back_to_posix_aio);
}

static void denied_uring_that_was_asked_for_is_an_error_in_words(void **state) {
    static const int calls[] = {SYS_io_uring_setup};

    run_denied(calls, 1, says_why_not_uring);
}

static bool says_what_fork_did(void) {
    struct harness h;

    return harness_open(&h, "use_posix_aio=true") == NIXL_ERR_BACKEND && strstr(h.error, "forked") != NULL &&
           harness_open(&h, NULL) == NIXL_SUCCESS && works(&h);
}

static void posix_aio_after_fork_is_refused_in_words(void **state) {
    struct harness h;
    int status;
    pid_t pid;

    assert_int_equal(harness_open(&h, "use_posix_aio=true"),
                     UNDER_TSAN ? NIXL_ERR_NOT_SUPPORTED : NIXL_SUCCESS);
    if (UNDER_TSAN) {
        test_skip("POSIX AIO under the thread sanitizer");
    }
    assert_true(works(&h));
    harness_close(&h);
    pid = fork();
    if (pid == 0) {
        _exit(says_what_fork_did() ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        /* First those whose children need a POSIX AIO that this process has not used yet. */
        cmocka_unit_test(denied_uring_is_replaced_by_aio),
        cmocka_unit_test(denied_uring_and_aio_are_replaced_by_posix_aio),
        cmocka_unit_test(denied_uring_that_was_asked_for_is_an_error_in_words),
        cmocka_unit_test(posix_aio_after_fork_is_refused_in_words),
        cmocka_unit_test(each_queue_can_be_asked_for_and_says_so),
        cmocka_unit_test(aio_goes_before_uring_when_both_are_asked_for),
        cmocka_unit_test(every_number_of_the_numeric_options_works),
        cmocka_unit_test(text_and_negative_numbers_are_of_no_unsigned_option),
        cmocka_unit_test(one_engine_leaves_the_machines_aio_to_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
