/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes through every queue, buffered and direct. Each case runs once for each of the three queues. */
#include "harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "support/skip.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define KIB 1024u
#define MIB (1024u * 1024u)

struct queue {
    const char *option, *label;
};

static const struct queue queues[] = {
    {"use_uring=true", "io_uring"}, {"use_aio=true", "AIO"}, {"use_posix_aio=true", "POSIX AIO"}};

struct env {
    const struct queue *queue;
    struct harness h;
    char path[64];
    int fd;
    void *file;
};

static struct env env;

static int set_up(void **state) {
    env.queue = *state;
    env.file = NULL;
    strcpy(env.path, "/tmp/nixl-posix-XXXXXX");
    env.fd = mkstemp(env.path);
    if (env.fd < 0) {
        return -1;
    }
    if (harness_open(&env.h, env.queue->option) != NIXL_SUCCESS) {
        env.h.self = NULL;
        return 0;
    }
    env.file = harness_file(&env.h, (uint64_t)env.fd, NULL);
    return env.file != NULL ? 0 : -1;
}

static int tear_down(void **state) {
    if (env.h.self != NULL) {
        env.h.ops->region_close(env.h.self, env.file);
        harness_close(&env.h);
    }
    close(env.fd);
    return unlink(env.path);
}

static void need_queue(void) {
    if (env.h.self == NULL) {
        test_skip("%s", env.h.error);
    }
}

/* The scratch file opened with O_DIRECT, or a skip. */
static void *direct_file(int *fd) {
    void *file;

    *fd = open(env.path, O_RDWR | O_DIRECT);
    if (*fd < 0) {
        test_skip("O_DIRECT on /tmp: %s", strerror(errno));
    }
    file = harness_file(&env.h, (uint64_t)*fd, NULL);
    assert_non_null(file);
    return file;
}

static nixl_status_t move(nixl_xfer_op_t op, const struct nixl_run *runs, size_t count, uint32_t flags,
                          struct transfer *t) {
    nixl_status_t status = transfer_open(&env.h, t, op, runs, count, flags);

    if (status == NIXL_SUCCESS) {
        status = transfer_run(t);
        transfer_close(t);
    }
    return status;
}

/* Writes `count` blocks of `len` bytes in a shuffled order and reads them back. */
static void round_trip(void *file, size_t count, size_t len, uint32_t flags) {
    char *out = aligned_alloc(4096, (count * len + 4095) & ~(size_t)4095),
         *back = aligned_alloc(4096, (count * len + 4095) & ~(size_t)4095);
    struct nixl_run *runs = calloc(count, sizeof *runs);
    struct transfer t;
    size_t i;

    fill_pattern(out, count * len, count + len);
    memset(back, 0, count * len);
    for (i = 0; i < count; i++) {
        size_t place =
            count > 2 ? (i * 7919) % count : i; /* 7,919 is a prime that divides no count used here */

        runs[i] = run_of(file, out + place * len, place * len, len);
    }
    assert_int_equal(move(NIXL_WRITE, runs, count, flags, &t), NIXL_SUCCESS);
    assert_int_equal(t.request.done_bytes, count * len);
    for (i = 0; i < count; i++) {
        runs[i].local += (uintptr_t)back - (uintptr_t)out;
    }
    assert_int_equal(move(NIXL_READ, runs, count, flags, &t), NIXL_SUCCESS);
    assert_int_equal(t.request.done_bytes, count * len);
    assert_memory_equal(out, back, count * len);
    free(out);
    free(back);
    free(runs);
}

static void bytes_arrive_in_both_directions(void **state) {
    static const size_t sizes[] = {1, 511, 4096, 65537, 5 * MIB + 3, 64 * MIB};
    size_t i;

    need_queue();
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        round_trip(env.file, 1, sizes[i], 0);
    }
    round_trip(env.file, 1000, 5000, 0);
    round_trip(env.file, 1000, 5000, NIXL_REQUEST_KEEP_LISTS);
}

static void direct_bytes_arrive_in_both_directions(void **state) {
    int fd;
    void *file;

    need_queue();
    file = direct_file(&fd);
    round_trip(file, 1, 4096, 0);
    round_trip(file, 1, 16 * MIB + 4096, 0);
    round_trip(file, 1000, 8192, 0);
    round_trip(file, 100, 64 * KIB, NIXL_REQUEST_KEEP_LISTS);
    env.h.ops->region_close(env.h.self, file);
    close(fd);
}

static void hundred_thousand_descriptors_arrive(void **state) {
    need_queue();
    round_trip(env.file, 100000, 256, 0);
}

static void strided_runs_are_gathered_and_scattered(void **state) {
    enum {
        BLOCKS = 5000,
        LEN = 100
    };
    char *out = malloc(2 * BLOCKS * LEN), *back = calloc(2 * BLOCKS, LEN);
    struct nixl_run run;
    struct transfer t;
    size_t i;

    need_queue();
    fill_pattern(out, 2 * BLOCKS * LEN, 3);
    /* Every second block of memory becomes one piece of file of 500,000 bytes. */
    run = run_of(env.file, out, 10, LEN);
    run.count = BLOCKS;
    run.local_stride = 2 * LEN;
    run.remote_stride = LEN;
    assert_int_equal(move(NIXL_WRITE, &run, 1, 0, &t), NIXL_SUCCESS);
    run.local = (uintptr_t)back;
    assert_int_equal(move(NIXL_READ, &run, 1, 0, &t), NIXL_SUCCESS);
    for (i = 0; i < 2 * BLOCKS; i++) {
        static const char none[LEN];

        assert_memory_equal(back + i * LEN, i % 2 == 0 ? out + i * LEN : none, LEN);
    }
    free(out);
    free(back);
}

static void offsets_past_four_gib_in_a_sparse_file(void **state) {
    static char out[5000], back[5000];
    uint64_t offset = (UINT64_C(5) << 30) + 123;
    struct nixl_run run;
    struct transfer t;
    struct stat st;

    need_queue();
    fill_pattern(out, sizeof out, offset);
    run = run_of(env.file, out, offset, sizeof out);
    assert_int_equal(move(NIXL_WRITE, &run, 1, 0, &t), NIXL_SUCCESS);
    assert_int_equal(fstat(env.fd, &st), 0);
    assert_int_equal(st.st_size, offset + sizeof out);
    run.local = (uintptr_t)back;
    assert_int_equal(move(NIXL_READ, &run, 1, 0, &t), NIXL_SUCCESS);
    assert_memory_equal(out, back, sizeof out);
    run.remote = 1000; /* the hole */
    assert_int_equal(move(NIXL_READ, &run, 1, 0, &t), NIXL_SUCCESS);
    assert_true(back[0] == 0 && back[4999] == 0);
    run.remote = UINT64_MAX - 4999;
    assert_int_equal(transfer_open(&env.h, &t, NIXL_READ, &run, 1, 0), NIXL_ERR_INVALID_PARAM);
}

static void one_descriptor_of_four_gib(void **state) {
    uint64_t len = UINT64_C(4) << 30;
    struct nixl_run run;
    struct transfer t;
    char *bytes, mark[3] = "ok";
    long pages = sysconf(_SC_AVPHYS_PAGES);
    int fd = memfd_create("four", MFD_CLOEXEC);
    void *file;

    need_queue();
    if (UNDER_TSAN) {
        close(fd);
        test_skip("the thread sanitizer would need 16 GiB more for it");
    }
    if (pages < (INT64_C(7) << 30) / 4096) {
        close(fd);
        test_skip("less than 7 GiB of memory free");
    }
    if (env.queue != &queues[0]) {
        close(fd);
        test_skip("once is enough: the queues cut it alike");
    }
    assert_int_equal(ftruncate(fd, (off_t)len), 0);
    assert_int_equal(pwrite(fd, mark, 2, (off_t)len - 2), 2);
    assert_int_equal(pwrite(fd, mark, 2, (off_t)(len / 2)), 2);
    bytes = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(bytes, MAP_FAILED);
    madvise(bytes, len, MADV_HUGEPAGE); /* or most of the time goes into page faults */
    file = harness_file(&env.h, (uint64_t)fd, NULL);
    run = run_of(file, bytes, 0, len);
    assert_int_equal(transfer_open(&env.h, &t, NIXL_READ, &run, 1, 0), NIXL_SUCCESS);
    assert_int_equal(transfer_post(&t), NIXL_IN_PROG);
    assert_int_equal(transfer_wait(&t, 100000, true), NIXL_SUCCESS);
    assert_int_equal(t.request.done_bytes, len);
    assert_memory_equal(bytes + len - 2, mark, 2);
    assert_memory_equal(bytes + len / 2, mark, 2);
    transfer_close(&t);
    munmap(bytes, len);
    env.h.ops->region_close(env.h.self, file);
    close(fd);
}

static void end_of_file_before_the_asked_length_is_a_failure(void **state) {
    char bytes[4096];
    struct nixl_run runs[3];
    struct transfer t;
    size_t i;

    need_queue();
    assert_int_equal(ftruncate(env.fd, 5000), 0);
    for (i = 0; i < 3; i++) {
        /* Block 1 asks for 4,000..5,001, one byte more than there is. */
        runs[i] = run_of(env.file, bytes, i == 1 ? 4000 : i * 100, i == 1 ? 1001 : 100);
    }
    assert_int_equal(move(NIXL_READ, runs, 3, 0, &t), NIXL_ERR_BACKEND);
    assert_int_equal(t.failure.run, 1);
    assert_int_equal(t.failure.block, 0);
    assert_non_null(strstr(t.text, "end of file"));
    assert_non_null(strstr(t.text, "5000 bytes"));
    assert_non_null(strstr(t.text, env.path));
}

static void direct_end_of_file_is_a_failure_too(void **state) {
    char *bytes = aligned_alloc(4096, 8192);
    int fd;
    void *file;
    struct nixl_run run;
    struct transfer t;

    need_queue();
    file = direct_file(&fd);
    assert_int_equal(ftruncate(fd, 5000), 0);
    run = run_of(file, bytes, 0, 8192);
    assert_int_equal(move(NIXL_READ, &run, 1, 0, &t), NIXL_ERR_BACKEND);
    assert_non_null(strstr(t.text, "end of file"));
    env.h.ops->region_close(env.h.self, file);
    close(fd);
    free(bytes);
}

static void one_bad_block_among_a_thousand_disturbs_nobody(void **state) {
    enum {
        BLOCKS = 1000,
        LEN = 4096
    };
    char *bytes = aligned_alloc(4096, BLOCKS * LEN);
    char *wall = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct nixl_run *runs = calloc(BLOCKS, sizeof *runs);
    int fd, pass;
    void *file;
    struct transfer bad, good;
    size_t i;

    need_queue();
    file = direct_file(&fd);
    fill_pattern(bytes, BLOCKS * LEN, 1);
    for (pass = 0; pass < 2; pass++) { /* through the page cache, then direct */
        void *target = pass == 0 ? env.file : file;

        for (i = 0; i < BLOCKS; i++) {
            runs[i] = run_of(target, bytes + i * LEN, (BLOCKS - 1 - i) * LEN, LEN);
        }
        assert_int_equal(transfer_open(&env.h, &good, NIXL_WRITE, runs, BLOCKS, 0), NIXL_SUCCESS);
        runs[617].local = (uintptr_t)wall;
        assert_int_equal(transfer_open(&env.h, &bad, NIXL_WRITE, runs, BLOCKS, 0), NIXL_SUCCESS);

        assert_int_equal(transfer_post(&bad), NIXL_IN_PROG);
        assert_int_equal(transfer_post(&good), NIXL_IN_PROG); /* at the same time */
        assert_int_equal(transfer_wait(&bad, 20000, true), NIXL_ERR_BACKEND);
        assert_int_equal(transfer_wait(&good, 20000, true), NIXL_SUCCESS);
        assert_int_equal(bad.failure.os_error, EFAULT);
        assert_int_equal(bad.failure.run, 617);
        assert_non_null(strstr(bad.text, "Bad address"));
        assert_non_null(strstr(bad.text, "offset 1564672")); /* (999 - 617) * 4,096 */
        assert_int_equal(transfer_run(&good), NIXL_SUCCESS); /* and afterwards */
        transfer_close(&bad);
        transfer_close(&good);
    }
    for (i = 0; i < BLOCKS; i++) {
        char back[LEN];

        assert_int_equal(pread(env.fd, back, LEN, (off_t)((BLOCKS - 1 - i) * LEN)), LEN);
        assert_memory_equal(back, bytes + i * LEN, LEN);
    }
    env.h.ops->region_close(env.h.self, file);
    close(fd);
    free(runs);
    free(bytes);
    munmap(wall, 4096);
}

static void full_device_is_a_failure_in_words(void **state) {
    char bytes[100] = {0};
    void *full;
    struct nixl_run run;
    struct transfer t;

    need_queue();
    full = harness_file(&env.h, 77, "rw:/dev/full");
    assert_non_null(full);
    run = run_of(full, bytes, 0, sizeof bytes);
    assert_int_equal(move(NIXL_WRITE, &run, 1, 0, &t), NIXL_ERR_BACKEND);
    assert_int_equal(t.failure.os_error, ENOSPC);
    assert_non_null(strstr(t.text, "No space left on device"));
    assert_non_null(strstr(t.text, "/dev/full"));
    env.h.ops->region_close(env.h.self, full);
}

static void request_is_posted_ten_times_with_changed_bytes(void **state) {
    enum {
        LEN = 8 * KIB
    };
    char *bytes = aligned_alloc(4096, LEN), back[LEN];
    int fd, pass, i;
    void *file;

    need_queue();
    file = direct_file(&fd);
    for (pass = 0; pass < 2; pass++) {
        struct nixl_run run = run_of(pass == 0 ? env.file : file, bytes, 4096, LEN);
        struct transfer t;

        assert_int_equal(transfer_open(&env.h, &t, NIXL_WRITE, &run, 1, 0), NIXL_SUCCESS);
        for (i = 0; i < 10; i++) {
            fill_pattern(bytes, LEN, (uint64_t)(i * 1000 + pass));
            assert_int_equal(transfer_run(&t), NIXL_SUCCESS);
            assert_int_equal(pread(env.fd, back, LEN, 4096), LEN);
            assert_memory_equal(back, bytes, LEN);
        }
        transfer_close(&t);
    }
    env.h.ops->region_close(env.h.self, file);
    close(fd);
    free(bytes);
}

static void requests_of_no_bytes_succeed(void **state) {
    char byte;
    struct nixl_run runs[3];
    struct transfer t;

    need_queue();
    runs[0] = runs[2] = run_of(env.file, &byte, 0, 0);
    runs[1] = run_of(env.file, &byte, 12, 0);
    assert_int_equal(move(NIXL_WRITE, runs, 3, 0, &t), NIXL_SUCCESS);
    runs[0].len = 1;
    assert_int_equal(move(NIXL_WRITE, runs, 3, 0, &t), NIXL_SUCCESS);
    assert_int_equal(t.request.done_bytes, 1);
}

static void unaligned_direct_is_refused_in_words_or_bounced(void **state) {
    char *bytes = aligned_alloc(4096, 16384), back[5000];
    int fd;
    void *file;
    struct nixl_run runs[2];
    struct transfer t;
    char options[64];

    need_queue();
    file = direct_file(&fd);
    fill_pattern(bytes, 16384, 9);
    runs[0] = run_of(file, bytes, 0, 4096);
    runs[1] = run_of(file, bytes + 4097, 4096, 5000);
    assert_int_equal(transfer_open(&env.h, &t, NIXL_WRITE, runs, 2, 0), NIXL_ERR_INVALID_PARAM);
    assert_non_null(strstr(env.h.error, "descriptor 1"));
    assert_non_null(strstr(env.h.error, "length 5000 is no multiple of"));
    assert_non_null(strstr(env.h.error, "bounce=true"));
    env.h.ops->region_close(env.h.self, file);
    env.h.ops->region_close(env.h.self, env.file);
    harness_close(&env.h);

    snprintf(options, sizeof options, "%s bounce=true", env.queue->option);
    assert_int_equal(harness_open(&env.h, options), NIXL_SUCCESS);
    env.file = harness_file(&env.h, (uint64_t)env.fd, NULL);
    file = harness_file(&env.h, (uint64_t)fd, NULL);
    runs[0].remote_key = runs[1].remote_key = file;
    assert_int_equal(move(NIXL_WRITE, runs, 2, 0, &t), NIXL_SUCCESS);
    assert_int_equal(pread(env.fd, back, 5000, 4096), 5000);
    assert_memory_equal(back, bytes + 4097, 5000);
    assert_int_equal(pread(env.fd, back, 4096, 0), 4096);
    assert_memory_equal(back, bytes, 4096);
    runs[0] = run_of(file, back + 1, 100, 4000);
    assert_int_equal(move(NIXL_READ, runs, 1, 0, &t), NIXL_SUCCESS);
    assert_memory_equal(back + 1, bytes + 100, 3996);
    env.h.ops->region_close(env.h.self, file);
    close(fd);
    free(bytes);
}

static void memory_that_is_used_often_is_pinned_and_moves_the_right_bytes(void **state) {
    enum {
        LEN = 64 * KIB,
        BLOCK = 8 * KIB
    };
    char *bytes = aligned_alloc(4096, 2 * LEN), back[BLOCK];
    int fd, round;
    void *file, *first, *second;
    struct transfer t;
    size_t i;

    need_queue();
    file = direct_file(&fd);
    first = harness_memory(&env.h, bytes, LEN);
    second = harness_memory(&env.h, bytes + LEN, LEN);
    for (round = 0; round < 4; round++) { /* from the second on, every byte has been asked for once */
        struct nixl_run runs[2 * LEN / BLOCK];

        fill_pattern(bytes, 2 * LEN, (uint64_t)round);
        for (i = 0; i < 2 * LEN / BLOCK;
             i++) { /* every second block of the file; the last ones adjoin in memory only */
            runs[i] = run_of(file, bytes + i * BLOCK, 2 * i * BLOCK, BLOCK);
            runs[i].local_key = i < LEN / BLOCK ? first : second;
        }
        assert_int_equal(move(NIXL_WRITE, runs, 2 * LEN / BLOCK, 0, &t), NIXL_SUCCESS);
        for (i = 0; i < 2 * LEN / BLOCK; i++) {
            assert_int_equal(pread(env.fd, back, BLOCK, (off_t)(2 * i * BLOCK)), BLOCK);
            assert_memory_equal(back, bytes + i * BLOCK, BLOCK);
        }
        memset(bytes, 0, 2 * LEN);
        assert_int_equal(move(NIXL_READ, runs, 2 * LEN / BLOCK, 0, &t), NIXL_SUCCESS);
        assert_true(check_pattern(bytes, 2 * LEN, (uint64_t)round));
        /* One operation over both registrations: neither slot holds all of it. */
        runs[0] = run_of(file, bytes, 0, LEN);
        runs[0].local_key = first;
        runs[1] = run_of(file, bytes + LEN, LEN, LEN);
        runs[1].local_key = second;
        assert_int_equal(move(NIXL_WRITE, runs, 2, 0, &t), NIXL_SUCCESS);
        for (i = 0; i < 2 * LEN / BLOCK; i++) {
            assert_int_equal(pread(env.fd, back, BLOCK, (off_t)(i * BLOCK)), BLOCK);
            assert_memory_equal(back, bytes + i * BLOCK, BLOCK);
        }
        if (round == 2) { /* registered anew, the slot is used again */
            env.h.ops->region_close(env.h.self, first);
            first = harness_memory(&env.h, bytes, LEN);
        }
    }
    /* Memory that is gone may still be deregistered. */
    env.h.ops->region_close(env.h.self, first);
    free(bytes);
    env.h.ops->region_close(env.h.self, second);
    env.h.ops->region_close(env.h.self, file);
    close(fd);
}

static void sides_that_do_not_fit_are_refused_in_words(void **state) {
    struct nixl_run run;
    struct transfer t;
    char byte = 0;
    nixl_status_t status;

    need_queue();
    run = run_of(env.file, &byte, 0, 1);
    assert_int_equal(transfer_open(&env.h, &t, NIXL_READ, &run, 1, 0), NIXL_SUCCESS);
    t.request.remote_mem = DRAM_SEG;
    status = env.h.ops->request_open(env.h.self, &t.request);
    assert_int_equal(status, NIXL_ERR_NOT_SUPPORTED);
    assert_non_null(strstr(env.h.error, "host memory to host memory"));
    t.request.local_mem = t.request.remote_mem = FILE_SEG;
    assert_int_equal(env.h.ops->request_open(env.h.self, &t.request), NIXL_ERR_NOT_SUPPORTED);
    transfer_close(&t);
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

int main(void) {
#define CASE(f)                                                                                              \
    { .name = #f, .test_func = f }
    static const struct CMUnitTest cases[] = {
        CASE(bytes_arrive_in_both_directions),
        CASE(direct_bytes_arrive_in_both_directions),
        CASE(hundred_thousand_descriptors_arrive),
        CASE(strided_runs_are_gathered_and_scattered),
        CASE(offsets_past_four_gib_in_a_sparse_file),
        CASE(one_descriptor_of_four_gib),
        CASE(end_of_file_before_the_asked_length_is_a_failure),
        CASE(direct_end_of_file_is_a_failure_too),
        CASE(one_bad_block_among_a_thousand_disturbs_nobody),
        CASE(full_device_is_a_failure_in_words),
        CASE(request_is_posted_ten_times_with_changed_bytes),
        CASE(requests_of_no_bytes_succeed),
        CASE(unaligned_direct_is_refused_in_words_or_bounced),
        CASE(memory_that_is_used_often_is_pinned_and_moves_the_right_bytes),
        CASE(sides_that_do_not_fit_are_refused_in_words),
    };
    static struct CMUnitTest tests[COUNT(cases) * COUNT(queues)];
    static char names[COUNT(tests)][100];
    size_t i;

    for (i = 0; i < COUNT(tests); i++) {
        const struct queue *queue = &queues[i % COUNT(queues)];

        tests[i] = cases[i / COUNT(queues)];
        snprintf(names[i], sizeof names[i], "%s (%s)", tests[i].name, queue->label);
        tests[i].name = names[i];
        tests[i].setup_func = set_up;
        tests[i].teardown_func = tear_down;
        tests[i].initial_state = (void *)(uintptr_t)queue;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
