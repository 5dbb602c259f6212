/* SPDX-License-Identifier: Apache-2.0 */
/* Files through a whole agent: how programs use them, and what goes wrong in programs. On all three queues.
 */
#include "posix_env.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "support/skip.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024u * 1024u)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const queues[] = {"use_uring", "use_aio", "use_posix_aio"};

static struct node node;
static char path[64];
static int fd = -1;

static int set_up(void **state) {
    strcpy(path, "/tmp/nixl-files-XXXXXX");
    fd = mkstemp(path);
    return fd >= 0 ? 0 : -1;
}

static int tear_down(void **state) {
    if (node.agent != NULL) {
        node_close(&node);
    }
    if (fd >= 0) {
        close(fd);
    }
    unlink(path);
    return 0;
}

static void need_queue(void **state, bool progress_thread) {
    if (node_open(&node, *state, progress_thread) != NIXL_SUCCESS) {
        char why[300];

        snprintf(why, sizeof why, "%s", nixl_error());
        test_skip("%s", why);
    }
}

static int direct_descriptor(void) {
    int direct = open(path, O_RDWR | O_DIRECT);

    if (direct < 0) {
        test_skip("no O_DIRECT on /tmp: %s", strerror(errno));
    }
    return direct;
}

static uint64_t now_ns(void) {
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- many at once --- */

#define MANY 96u

/* Posts all, then again whichever have ended, until each was posted `turns` times; sleeps between. */
static void turn_around(struct nixl_xfer **xfers, unsigned turns) {
    unsigned left[MANY], over = 0, count, i;
    struct nixl_xfer *batch[MANY];
    bool is_under_way[MANY];
    uint64_t seen = 0;

    for (i = 0; i < MANY; i++) {
        left[i] = turns;
        is_under_way[i] = false;
    }
    while (over < MANY) {
        for (i = 0, count = 0; i < MANY; i++) {
            if (is_under_way[i]) {
                nixl_status_t status = nixl_xfer_poll(xfers[i]);

                assert_true(status >= 0);
                is_under_way[i] = status == NIXL_IN_PROG;
                over += !is_under_way[i] && left[i] == 0;
            }
            if (!is_under_way[i] && left[i] != 0) {
                is_under_way[i] = true;
                left[i]--;
                batch[count++] = xfers[i];
            }
        }
        if (count != 0) {
            assert_true(nixl_xfer_post_all(batch, count, NULL) >= 0);
        } else if (over < MANY) {
            assert_int_equal(nixl_agent_wait(node.agent, &seen, 30000), NIXL_SUCCESS);
        }
    }
}

static void many_in_flight_are_posted_and_waited_for_together(void **state) {
    unsigned char *bytes = aligned_alloc(4096, MANY * 4096), *back = aligned_alloc(4096, MANY * 4096);
    struct nixl_xfer *writes[MANY], *reads[MANY];
    int thread, direct = direct_descriptor();
    unsigned i;

    assert_non_null(bytes);
    assert_non_null(back);
    assert_int_equal(ftruncate(fd, MANY * 4096), 0);
    for (thread = 0; thread < 2; thread++) {
        need_queue(state, thread != 0);
        pattern(bytes, MANY * 4096, 7 + (uint64_t)thread);
        memset(back, 0, MANY * 4096);
        assert_int_equal(node_register(&node, FILE_SEG, 0, 0, (uint64_t)direct, NULL), NIXL_SUCCESS);
        assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)bytes, MANY * 4096, 0, NULL),
                         NIXL_SUCCESS);
        assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)back, MANY * 4096, 0, NULL), NIXL_SUCCESS);
        for (i = 0; i < MANY; i++) {
            node_xfer(&node, NIXL_WRITE, bytes + i * 4096, 4096, (uint64_t)direct, i * 4096, &writes[i]);
            node_xfer(&node, NIXL_READ, back + i * 4096, 4096, (uint64_t)direct, i * 4096, &reads[i]);
        }
        turn_around(writes, 3);
        turn_around(reads, 10);
        assert_memory_equal(bytes, back, MANY * 4096);
        for (i = 0; i < MANY; i++) {
            assert_int_equal(nixl_xfer_release(writes[i]), NIXL_SUCCESS);
            assert_int_equal(nixl_xfer_release(reads[i]), NIXL_SUCCESS);
        }
        node_close(&node);
    }
    close(direct);
    free(bytes);
    free(back);
}

/* ---- refusals --- */

static void refusals_name_what_would_do(void **state) {
    struct nixl_backend *ucx;
    char byte = 0;

    need_queue(state, false);
    assert_true(node_register(&node, VRAM_SEG, (uintptr_t)&byte, 1, 0, NULL) < 0);
    assert_non_null(strstr(nixl_error(), "VRAM"));
    node_close(&node);

    /* An agent with another backend only: the text names POSIX. */
    assert_int_equal(nixl_agent_create("files", NULL, &node.agent), NIXL_SUCCESS);
    if (nixl_backend_create(node.agent, "UCX", NULL, 0, &ucx) != NIXL_SUCCESS) {
        print_message("# without UCX: %s\n", nixl_error());
    }
    assert_int_equal(node_register(&node, FILE_SEG, 0, 4096, (uint64_t)fd, NULL), NIXL_ERR_NOT_FOUND);
    assert_non_null(strstr(nixl_error(), "POSIX"));
}

static void probe_for_path_mode_fails_and_leaves_no_file(void **state) {
    need_queue(state, false);
    assert_true(node_register(&node, FILE_SEG, 0, 4096, 1, "rw:/nonexistent-nixl-probe") < 0);
    assert_non_null(strstr(nixl_error(), "/nonexistent-nixl-probe"));
    assert_int_equal(access("/nonexistent-nixl-probe", F_OK), -1);
    assert_true(node_register(&node, FILE_SEG, 0, 4096, 1, "rww:/tmp/x") < 0);
    assert_non_null(strstr(nixl_error(), "rww"));
    assert_true(node_register(&node, FILE_SEG, 0, 4096, 1, "rw,crate:/tmp/x") < 0);
    assert_non_null(strstr(nixl_error(), "crate"));
}

static void options_are_checked(void **state) {
    static const struct {
        const char *name, *value;
        bool is_good;
    } cases[] = {
        {"ios_pool_size", "0", true},
        {"ios_pool_size", "1", true},
        {"ios_pool_size", "63", true},
        {"ios_pool_size", "64", true},
        {"ios_pool_size", "65536", true},
        {"ios_pool_size", "18446744073709551615", true},
        {"ios_pool_size", "18446744073709551616", false},
        {"ios_pool_size", "-1", false},
        {"ios_pool_size", "lots", false},
        {"kernel_queue_size", "0", true},
        {"kernel_queue_size", "1", true},
        {"kernel_queue_size", "63", true},
        {"kernel_queue_size", "64", true},
        {"kernel_queue_size", "65536", true},
        {"kernel_queue_size", "18446744073709551615", true},
        {"kernel_queue_size", "18446744073709551616", false},
        {"kernel_queue_size", "-64", false},
        {"kernel_queue_size", "64 ops", false},
        {"pin_limit", "0", true},
        {"pin_limit", "1", true},
        {"pin_limit", "63", true},
        {"pin_limit", "64", true},
        {"pin_limit", "65536", true},
        {"pin_limit", "18446744073709551615", true},
        {"pin_limit", "18446744073709551616", false},
        {"pin_limit", "-1", false},
        {"pin_limit", "all", false},
        {"use_uring", "perhaps", false},
        {"bounce", "true", true},
        {"kernel_queue", "64", false},
    };
    char bytes[1000], back[1000];
    size_t i;

    for (i = 0; i < COUNT(cases); i++) {
        struct nixl_param params[2] = {{*state, "true"}, {cases[i].name, cases[i].value}};
        struct nixl_xfer *xfer;
        nixl_status_t status;

        assert_int_equal(nixl_agent_create("files", NULL, &node.agent), NIXL_SUCCESS);
        status = nixl_backend_create(node.agent, "POSIX", params, 2, &node.posix);
        if (!cases[i].is_good) {
            assert_int_equal(status, NIXL_ERR_INVALID_PARAM);
            assert_non_null(strstr(nixl_error(), cases[i].name));
        } else if (status == NIXL_SUCCESS) {
            pattern(bytes, sizeof bytes, i);
            assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)bytes, sizeof bytes, 0, NULL),
                             NIXL_SUCCESS);
            assert_int_equal(node_register(&node, FILE_SEG, 0, 0, (uint64_t)fd, NULL), NIXL_SUCCESS);
            assert_int_equal(node_xfer(&node, NIXL_WRITE, bytes, sizeof bytes, (uint64_t)fd, 0, &xfer),
                             NIXL_SUCCESS);
            assert_int_equal(node_run(xfer), NIXL_SUCCESS);
            assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
            assert_int_equal(pread(fd, back, sizeof back, 0), sizeof back);
            assert_memory_equal(bytes, back, sizeof back);
        } else {
            assert_int_equal(status, NIXL_ERR_BACKEND); /* this kernel has no such queue */
        }
        node_close(&node);
    }
}

/* ---- what programs do --- */

static void query_answers_for_a_thousand_paths(void **state) {
    static struct nixl_meta_desc descs[1000];
    static char names[1000][96];
    struct nixl_list list = NIXL_LIST_META(FILE_SEG, descs, 1000);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_query_results *results;
    size_t i;

    need_queue(state, false);
    assert_int_equal(ftruncate(fd, 4321), 0);
    for (i = 0; i < 1000; i++) {
        snprintf(names[i], sizeof names[i], "%s%s%s", i % 4 == 1 ? "rw,create:" : "", path,
                 i % 2 == 0 ? ".none" : "");
        descs[i] = (struct nixl_meta_desc){.meta = names[i], .meta_len = strlen(names[i])};
    }
    options.backends = &node.posix;
    options.backend_count = 1;
    assert_int_equal(nixl_mem_query(node.agent, &list, &options, &results), NIXL_SUCCESS);
    assert_int_equal(results->count, 1000);
    for (i = 0; i < 1000; i++) {
        assert_int_equal(results->items[i].found, i % 2 == 1);
        if (i % 2 == 1) {
            assert_int_equal(results->items[i].params.count, 3);
            assert_string_equal(results->items[i].params.items[0].key, "size");
            assert_string_equal(results->items[i].params.items[0].value, "4321");
        }
    }
    nixl_free(results);
}

static void whole_file_is_registered_moved_and_deregistered(void **state) {
    char bytes[5000], back[5000];
    struct nixl_xfer *xfer;

    need_queue(state, true);
    pattern(bytes, sizeof bytes, 1);
    assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)bytes, sizeof bytes, 7, "cpu"), NIXL_SUCCESS);
    assert_int_equal(node_register(&node, FILE_SEG, 0, 0, (uint64_t)fd, NULL), NIXL_SUCCESS);
    {
        struct nixl_desc local = {(uintptr_t)bytes, sizeof bytes, 7};
        struct nixl_desc remote = {UINT64_C(6) << 30, sizeof bytes, (uint64_t)fd};
        struct nixl_list locals = NIXL_LIST(DRAM_SEG, &local, 1), remotes = NIXL_LIST(FILE_SEG, &remote, 1);

        assert_int_equal(nixl_xfer_create(node.agent, NIXL_WRITE, &locals, &remotes, "files", NULL, &xfer),
                         NIXL_SUCCESS);
    }
    assert_int_equal(node_run(xfer), NIXL_SUCCESS);
    assert_non_null(strstr(nixl_xfer_transport(xfer), "POSIX"));
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_int_equal(pread(fd, back, sizeof back, (off_t)6 << 30), sizeof back);
    assert_memory_equal(bytes, back, sizeof back);
    assert_int_equal(node_deregister(&node, FILE_SEG, 0, 0, (uint64_t)fd), NIXL_SUCCESS);
    assert_int_equal(node_deregister(&node, DRAM_SEG, (uintptr_t)bytes, sizeof bytes, 7), NIXL_SUCCESS);
}

/* By its kind at first; once a file was written, by what that took. */
static void cost_is_declared_until_a_file_was_written(void **state) {
    char *bytes = aligned_alloc(4096, 1 << 20);
    struct nixl_cost cost = NIXL_COST_INIT;
    struct nixl_xfer *xfer;

    need_queue(state, false);
    pattern(bytes, 1 << 20, 3);
    assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)bytes, 1 << 20, 0, NULL), NIXL_SUCCESS);
    assert_int_equal(node_register(&node, FILE_SEG, 0, 0, (uint64_t)fd, NULL), NIXL_SUCCESS);
    assert_int_equal(node_xfer(&node, NIXL_WRITE, bytes, 1 << 20, (uint64_t)fd, 0, &xfer), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_cost(xfer, &cost), NIXL_SUCCESS);
    assert_int_equal(cost.method, NIXL_COST_DECLARED);
    assert_true(cost.duration_ns > 0);
    assert_int_equal(cost.margin_ns, cost.duration_ns);
    assert_int_equal(node_run(xfer), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_cost(xfer, &cost), NIXL_SUCCESS);
    assert_int_equal(cost.method, NIXL_COST_MEASURED);
    assert_true(cost.duration_ns > 0 && cost.margin_ns > 0);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    node_close(&node);
    free(bytes);
}

static void handle_is_posted_ten_times_with_changed_bytes(void **state) {
    char *bytes = aligned_alloc(4096, 8192), back[8192];
    int direct = direct_descriptor(), i, pass;

    need_queue(state, false);
    assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)bytes, 8192, 0, NULL), NIXL_SUCCESS);
    assert_int_equal(node_register(&node, FILE_SEG, 0, 0, (uint64_t)fd, NULL), NIXL_SUCCESS);
    assert_int_equal(node_register(&node, FILE_SEG, 0, 0, (uint64_t)direct, NULL), NIXL_SUCCESS);
    for (pass = 0; pass < 2; pass++) {
        struct nixl_xfer *xfer;

        assert_int_equal(
            node_xfer(&node, NIXL_WRITE, bytes, 8192, (uint64_t)(pass == 0 ? fd : direct), 4096, &xfer),
            NIXL_SUCCESS);
        for (i = 0; i < 10; i++) {
            pattern(bytes, 8192, (uint64_t)(pass * 100 + i));
            assert_int_equal(node_run(xfer), NIXL_SUCCESS);
            assert_int_equal(pread(fd, back, 8192, 4096), 8192);
            assert_memory_equal(bytes, back, 8192);
        }
        assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    }
    node_close(&node);
    close(direct);
    free(bytes);
}

static void ten_thousand_blocks_complete_while_nobody_polls(void **state) {
    enum {
        BLOCKS = 10000,
        LEN = 4096
    };
    struct nixl_desc *locals = calloc(BLOCKS, sizeof *locals), *remotes = calloc(BLOCKS, sizeof *remotes);
    struct nixl_list local = NIXL_LIST(DRAM_SEG, locals, BLOCKS),
                     remote = NIXL_LIST(FILE_SEG, remotes, BLOCKS);
    char *bytes = aligned_alloc(4096, BLOCKS * LEN), *back = malloc(BLOCKS * LEN);
    int direct = direct_descriptor(), threads;
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    struct nixl_xfer *xfer;
    size_t i;

    for (threads = 0; threads < 2; threads++) {
        uint64_t end;

        need_queue(state, threads == 1);
        pattern(bytes, BLOCKS * LEN, (uint64_t)threads);
        assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)bytes, BLOCKS * LEN, 0, NULL),
                         NIXL_SUCCESS);
        assert_int_equal(node_register(&node, FILE_SEG, 0, 0, (uint64_t)direct, NULL), NIXL_SUCCESS);
        for (i = 0; i < BLOCKS; i++) {
            locals[i] = (struct nixl_desc){(uintptr_t)bytes + (BLOCKS - 1 - i) * LEN, LEN, 0};
            remotes[i] = (struct nixl_desc){(BLOCKS - 1 - i) * LEN, LEN, (uint64_t)direct};
        }
        assert_int_equal(nixl_xfer_create(node.agent, NIXL_WRITE, &local, &remote, "files", NULL, &xfer),
                         NIXL_SUCCESS);
        assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
        end = now_ns() + UINT64_C(60000000000);
        while (nixl_xfer_failure(xfer, &info) == NIXL_IN_PROG) { /* looks, and makes no progress */
            assert_true(now_ns() < end);
            usleep(10000);
        }
        assert_int_equal(nixl_xfer_poll(xfer), NIXL_SUCCESS);
        assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
        assert_int_equal(pread(fd, back, BLOCKS * LEN, 0), BLOCKS * LEN);
        assert_memory_equal(bytes, back, BLOCKS * LEN);
        node_close(&node);
    }
    close(direct);
    free(locals);
    free(remotes);
    free(bytes);
    free(back);
}

static void idle_agent_with_files_uses_no_processor_time(void **state) {
    char bytes[4096];
    struct nixl_xfer *xfer;
    struct rusage before, after;
    uint64_t used_us;

    need_queue(state, true);
    assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)bytes, sizeof bytes, 0, NULL), NIXL_SUCCESS);
    assert_int_equal(node_register(&node, FILE_SEG, 0, 0, (uint64_t)fd, NULL), NIXL_SUCCESS);
    assert_int_equal(node_xfer(&node, NIXL_WRITE, bytes, sizeof bytes, (uint64_t)fd, 0, &xfer), NIXL_SUCCESS);
    assert_int_equal(node_run(xfer), NIXL_SUCCESS);
    usleep(100000);
    getrusage(RUSAGE_SELF, &before);
    usleep(500000);
    getrusage(RUSAGE_SELF, &after);
    used_us = (uint64_t)((after.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_utime.tv_sec -
                          before.ru_stime.tv_sec) *
                             1000000 +
                         after.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_utime.tv_usec -
                         before.ru_stime.tv_usec);
    assert_true(used_us < 2000);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
}

/* ---- what goes wrong in programs --- */

static void one_bad_block_among_a_thousand(void **state) {
    enum {
        BLOCKS = 1000,
        LEN = 4096
    };
    struct nixl_desc locals[BLOCKS], remotes[BLOCKS];
    struct nixl_list local = NIXL_LIST(DRAM_SEG, locals, BLOCKS),
                     remote = NIXL_LIST(FILE_SEG, remotes, BLOCKS);
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    char *bytes = mmap(NULL, BLOCKS * LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int direct = direct_descriptor(), pass;
    struct nixl_xfer *xfer;
    size_t i;

    need_queue(state, false);
    assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)bytes, BLOCKS * LEN, 0, NULL), NIXL_SUCCESS);
    assert_int_equal(node_register(&node, FILE_SEG, 0, 0, (uint64_t)fd, NULL), NIXL_SUCCESS);
    assert_int_equal(node_register(&node, FILE_SEG, 0, 0, (uint64_t)direct, NULL), NIXL_SUCCESS);
    for (pass = 0; pass < 2; pass++) {
        for (i = 0; i < BLOCKS; i++) {
            locals[i] = (struct nixl_desc){(uintptr_t)bytes + i * LEN, LEN, 0};
            remotes[i] = (struct nixl_desc){(BLOCKS - 1 - i) * LEN, LEN, (uint64_t)(pass == 0 ? fd : direct)};
        }
        assert_int_equal(mprotect(bytes + 617 * LEN, LEN, PROT_NONE), 0);
        assert_int_equal(nixl_xfer_create(node.agent, NIXL_WRITE, &local, &remote, "files", NULL, &xfer),
                         NIXL_SUCCESS);
        assert_int_equal(node_run(xfer), NIXL_ERR_BACKEND);
        assert_int_equal(nixl_xfer_failure(xfer, &info), NIXL_ERR_BACKEND);
        assert_int_equal(info.index, 617);
        assert_int_equal(info.os_error, EFAULT);
        assert_non_null(strstr(nixl_xfer_error(xfer), "617"));
        assert_int_equal(mprotect(bytes + 617 * LEN, LEN, PROT_READ | PROT_WRITE), 0);
        assert_int_equal(node_run(xfer), NIXL_SUCCESS); /* the same handle, posted again */
        assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    }
    node_close(&node);
    close(direct);
    munmap(bytes, BLOCKS * LEN);
}

static void descriptor_closed_in_flight_hits_no_other_file(void **state) {
    enum {
        LEN = 32 * MIB
    };
    char *bytes = aligned_alloc(4096, LEN), *back = malloc(LEN), other[64] = "/tmp/nixl-other-XXXXXX";
    int round;

    for (round = 0; round < 5; round++) {
        int direct = direct_descriptor(), other_fd;
        struct nixl_xfer *xfer;

        need_queue(state, round % 2 == 0);
        assert_int_equal(ftruncate(fd, 0), 0);
        pattern(bytes, LEN, (uint64_t)round);
        assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)bytes, LEN, 0, NULL), NIXL_SUCCESS);
        assert_int_equal(node_register(&node, FILE_SEG, 0, 0, (uint64_t)direct, NULL), NIXL_SUCCESS);
        assert_int_equal(node_xfer(&node, NIXL_WRITE, bytes, LEN, (uint64_t)direct, 0, &xfer), NIXL_SUCCESS);
        assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
        close(direct);
        strcpy(other, "/tmp/nixl-other-XXXXXX");
        other_fd = mkstemp(other);
        assert_int_equal(other_fd, direct); /* the number is another file's now */
        assert_int_equal(nixl_xfer_wait(xfer, 30000), NIXL_SUCCESS);
        assert_int_equal(node_run(xfer), NIXL_SUCCESS); /* and what comes later goes to the right one too */
        assert_int_equal(lseek(other_fd, 0, SEEK_END), 0);
        assert_int_equal(pread(fd, back, LEN, 0), LEN);
        assert_memory_equal(bytes, back, LEN);
        assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
        node_close(&node);
        close(other_fd);
        unlink(other);
    }
    free(bytes);
    free(back);
}

static void release_in_flight_a_thousand_times_spares_the_buffer(void **state) {
    enum {
        LEN = 4 * MIB
    };
    unsigned char *bytes = aligned_alloc(4096, LEN);
    int direct = direct_descriptor(), i;
    size_t b;

    need_queue(state, false);
    assert_int_equal(posix_fallocate(fd, 0, LEN), 0);
    assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)bytes, LEN, 0, NULL), NIXL_SUCCESS);
    assert_int_equal(node_register(&node, FILE_SEG, 0, 0, (uint64_t)direct, NULL), NIXL_SUCCESS);
    for (i = 0; i < 1000; i++) {
        struct nixl_xfer *xfer;
        nixl_status_t status;

        assert_int_equal(node_xfer(&node, NIXL_READ, bytes, LEN, (uint64_t)direct, 0, &xfer), NIXL_SUCCESS);
        assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
        if (i % 3 == 1) {
            usleep((unsigned)i % 500);
        }
        do {
            status = nixl_xfer_release(xfer);
        } while (status == NIXL_ERR_REPOST_ACTIVE);
        assert_int_equal(status, NIXL_SUCCESS);
        memset(bytes, 0xC5, LEN); /* the file holds zeroes: a late read would be seen */
        if (i % 20 == 0) {
            usleep(3000);
        }
        for (b = 0; b < LEN; b += 509) {
            assert_int_equal(bytes[b], 0xC5);
        }
    }
    node_close(&node);
    close(direct);
    free(bytes);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int number) {
    alarms++;
}

static void signals_while_polling_and_waiting(void **state) {
    enum {
        LEN = 64 * 1024
    };
    char *bytes = aligned_alloc(4096, LEN);
    struct sigaction action = {.sa_handler = on_alarm}, old; /* no SA_RESTART: calls are interrupted */
    struct itimerval storm = {.it_interval = {0, 50}, .it_value = {0, 50}}, calm = {{0, 0}, {0, 0}};
    int direct = direct_descriptor(), rounds = 0;
    struct nixl_xfer *xfer;
    uint64_t end;

    need_queue(state, false);
    assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)bytes, LEN, 0, NULL), NIXL_SUCCESS);
    assert_int_equal(node_register(&node, FILE_SEG, 0, 0, (uint64_t)direct, NULL), NIXL_SUCCESS);
    assert_int_equal(node_xfer(&node, NIXL_WRITE, bytes, LEN, (uint64_t)direct, 0, &xfer), NIXL_SUCCESS);
    alarms = 0;
    assert_int_equal(sigaction(SIGALRM, &action, &old), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &storm, NULL), 0);
    end = now_ns() + 500000000;
    /* A busy disk may take long for a few of them. */
    while (now_ns() < end || ((rounds <= 10 || alarms <= 100) && now_ns() < end + 30000000000u)) {
        nixl_status_t status = nixl_xfer_post(xfer, NULL);

        while (status == NIXL_IN_PROG && rounds % 2 == 0) {
            status = nixl_xfer_poll(xfer);
        }
        if (status == NIXL_IN_PROG) {
            status = nixl_xfer_wait(xfer, 30000);
        }
        assert_int_equal(status, NIXL_SUCCESS);
        rounds++;
    }
    setitimer(ITIMER_REAL, &calm, NULL);
    sigaction(SIGALRM, &old, NULL);
    assert_true(alarms > 100);
    assert_true(rounds > 10);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    node_close(&node);
    close(direct);
    free(bytes);
}

static void container_that_forbids_uring_gets_another_queue(void **state) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = COUNT(code), .filter = code};
    char bytes[1000], back[1000];
    struct nixl_xfer *xfer;
    int status = 0;
    pid_t pid;

    if (*state != queues[0]) {
        test_skip("once is enough: nobody asks for a queue here");
    }
    pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
            _exit(77);
        }
        pattern(bytes, sizeof bytes, 1);
        if (node_open(&node, NULL, false) != NIXL_SUCCESS ||
            strstr(nixl_backend_description(node.posix), "not io_uring") == NULL ||
            node_register(&node, DRAM_SEG, (uintptr_t)bytes, sizeof bytes, 0, NULL) != NIXL_SUCCESS ||
            node_register(&node, FILE_SEG, 0, 0, (uint64_t)fd, NULL) != NIXL_SUCCESS ||
            node_xfer(&node, NIXL_WRITE, bytes, sizeof bytes, (uint64_t)fd, 0, &xfer) != NIXL_SUCCESS ||
            node_run(xfer) != NIXL_SUCCESS) {
            fprintf(stderr, "%s\n", nixl_error());
            _exit(1);
        }
        nixl_xfer_release(xfer);
        node_close(&node);
        if (node_open(&node, "use_uring", false) != NIXL_ERR_BACKEND ||
            strstr(nixl_error(), "seccomp") == NULL) {
            _exit(2);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        test_skip("no seccomp filters here");
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(pread(fd, back, sizeof back, 0), sizeof back);
    pattern(bytes, sizeof bytes, 1);
    assert_memory_equal(bytes, back, sizeof back);
}

int main(void) {
#define CASE(f)                                                                                              \
    { .name = #f, .test_func = f }
    static const struct CMUnitTest cases[] = {
        CASE(refusals_name_what_would_do),
        CASE(probe_for_path_mode_fails_and_leaves_no_file),
        CASE(options_are_checked),
        CASE(query_answers_for_a_thousand_paths),
        CASE(whole_file_is_registered_moved_and_deregistered),
        CASE(cost_is_declared_until_a_file_was_written),
        CASE(handle_is_posted_ten_times_with_changed_bytes),
        CASE(ten_thousand_blocks_complete_while_nobody_polls),
        CASE(idle_agent_with_files_uses_no_processor_time),
        CASE(one_bad_block_among_a_thousand),
        CASE(descriptor_closed_in_flight_hits_no_other_file),
        CASE(release_in_flight_a_thousand_times_spares_the_buffer),
        CASE(signals_while_polling_and_waiting),
        CASE(many_in_flight_are_posted_and_waited_for_together),
        CASE(container_that_forbids_uring_gets_another_queue),
    };
    static struct CMUnitTest tests[COUNT(cases) * COUNT(queues)];
    static char names[COUNT(tests)][100];
    size_t i;

    for (i = 0; i < COUNT(tests); i++) {
        tests[i] = cases[i / COUNT(queues)];
        snprintf(names[i], sizeof names[i], "%s (%s)", tests[i].name, queues[i % COUNT(queues)]);
        tests[i].name = names[i];
        tests[i].setup_func = set_up;
        tests[i].teardown_func = tear_down;
        tests[i].initial_state = (void *)(uintptr_t)queues[i % COUNT(queues)];
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
