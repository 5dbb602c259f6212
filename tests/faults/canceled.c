/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cancel and release at every moment of a transfer's life. The local memory is shared with a third process that knows nothing of
 * NIXL: once release has returned, this process takes its own mapping away (a late copy by it would crash it, one by the kernel
 * would get EFAULT) and the third process sees whether a byte of the canary changes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "peers.h"

#define MEMORY ((size_t)4 << 20)
#define BLOCKS 512u
#define CANARY 0x5a
#define LATE_US 300 /* time for a late byte to come */

static uint8_t *shared;
static int watcher = -1;
static pid_t watcher_pid;
static uint8_t *canary_view; /* this process's second mapping */

/* The third process: told to look, says whether all of it is the canary. */
static void watch(int fd) {
    uint8_t order, good;

    while (read(fd, &order, 1) == 1) {
        good = 1;
        for (size_t i = 0; i < MEMORY && good; i += 64) {
            good = canary_view[i] == CANARY && canary_view[i + 63] == CANARY;
        }
        if (write(fd, &good, 1) != 1) {
            break;
        }
    }
    _exit(0);
}

static bool is_untouched(void) {
    uint8_t order = 1, good = 0;

    return write(watcher, &order, 1) == 1 && read(watcher, &good, 1) == 1 && good == 1;
}

/* Before any agent: the fork has nothing of one. */
static bool watcher_start(void) {
    int memory = memfd_create("transfers", MFD_CLOEXEC), pair[2];

    if (memory < 0 || ftruncate(memory, (off_t)MEMORY) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return false;
    }
    shared = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    canary_view = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (shared == MAP_FAILED || canary_view == MAP_FAILED) {
        return false;
    }
    watcher_pid = fork();
    if (watcher_pid == 0) {
        (void)close(pair[0]);
        watch(pair[1]);
    }
    (void)close(pair[1]);
    watcher = pair[0];
    return watcher_pid > 0;
}

struct fixture {
    const struct node_setting *setting;
    struct local l;
    struct node n;
};

static struct nixl_list shared_list(struct nixl_desc *desc) {
    *desc = (struct nixl_desc){(uintptr_t)shared, MEMORY, 0};
    return (struct nixl_list)NIXL_LIST(DRAM_SEG, desc, 1);
}

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    struct nixl_desc desc;
    struct nixl_list list = shared_list(&desc);

    f->setting = *state;
    if (!local_open(&f->l, "local", f->setting, 1 << 20) ||
        !node_start(&f->n, "node", f->setting, MEMORY, NULL) || node_load(&f->n, &f->l) != NIXL_SUCCESS ||
        nixl_mem_register(f->l.agent, &list, NULL) != NIXL_SUCCESS) {
        fprintf(stderr, "# %s %s\n", f->n.error, nixl_error());
        return -1;
    }
    node_fill(&f->n, 0, MEMORY, 1);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    local_close(&f->l);
    node_stop(&f->n);
    free(f);
    return 0;
}

/* One block of all, or many with gaps. */
static struct nixl_xfer *request(struct fixture *f, nixl_xfer_op_t op, bool many) {
    size_t count = many ? BLOCKS : 1, len = many ? MEMORY / BLOCKS / 2 : MEMORY,
           stride = many ? MEMORY / BLOCKS : MEMORY;
    struct nixl_strided_desc ours = {(uintptr_t)shared, len, 0, stride, count},
                             theirs = {f->n.addr, len, 0, stride, count};
    struct nixl_list here = NIXL_LIST_STRIDED(DRAM_SEG, &ours, 1),
                     there = NIXL_LIST_STRIDED(DRAM_SEG, &theirs, 1);
    struct nixl_xfer *xfer = NULL;

    assert_int_equal(nixl_xfer_create(f->l.agent, op, &here, &there, "node", NULL, &xfer), NIXL_SUCCESS);
    return xfer;
}

static void pause_ns(uint64_t ns) {
    struct timespec start, now;

    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((uint64_t)(now.tv_sec - start.tv_sec) * 1000000000u + (uint64_t)now.tv_nsec -
                 (uint64_t)start.tv_nsec <
             ns);
}

static void local_memory_is_left_alone_after_release_at_any_moment(void **state) {
    struct fixture *f = *state;
    unsigned rounds = rounds_of("NIXL_TEST_RELEASES", 84), early = 0, again = 0, done = 0;
    uint64_t worst = 0;

    for (unsigned i = 0; i < rounds; i++) {
        nixl_xfer_op_t op = i % 3 == 2 ? NIXL_WRITE : NIXL_READ;
        struct nixl_xfer *xfer = request(f, op, i % 2 != 0);
        nixl_status_t status;
        uint64_t start;

        memset(canary_view, 1, 4096);
        status = nixl_xfer_post(xfer, NULL);
        /* From the post's return to beyond the transfer's usual end. */
        pause_ns((uint64_t)i * i * 1600u % 5000000u);
        if (i % 4 == 3) {
            (void)nixl_xfer_poll(xfer);
        }
        if (i % 5 == 4) {
            status = nixl_xfer_cancel(xfer);
            assert_true(status == NIXL_SUCCESS || status == NIXL_IN_PROG);
        }
        early += nixl_xfer_failure(xfer, &(struct nixl_failure_info)NIXL_FAILURE_INFO_INIT) == NIXL_IN_PROG;
        done += nixl_xfer_failure(xfer, &(struct nixl_failure_info)NIXL_FAILURE_INFO_INIT) == NIXL_SUCCESS;
        start = now_ms();
        while ((status = nixl_xfer_release(xfer)) == NIXL_ERR_REPOST_ACTIVE && now_ms() - start < 20000) {
            again++;
        }
        worst = now_ms() - start > worst ? now_ms() - start : worst;
        assert_int_equal(status, NIXL_SUCCESS);
        /* Nobody may come here any more. */
        assert_int_equal(mprotect(shared, MEMORY, PROT_NONE), 0);
        memset(canary_view, CANARY, MEMORY);
        (void)nixl_agent_progress(f->l.agent);
        (void)usleep(LATE_US);
        (void)nixl_agent_progress(f->l.agent);
        assert_true(is_untouched());
        assert_int_equal(mprotect(shared, MEMORY, PROT_READ | PROT_WRITE), 0);
    }
    printf("# %u releases: %u in flight, %u done before; asked again %u times; the longest took %llu ms\n",
           rounds, early, done, again, (unsigned long long)worst);
    assert_true(early > 0);
    /* The peer is none the worse. */
    assert_write_arrives(&f->l, &f->n, 1 << 20, 3);
    outcome("release at any moment", over(f->setting), "local memory untouched afterwards", (double)worst);
}

/* After a cancelled WRITE the target holds, block by block, either what was there or what was sent. */
static void a_cancelled_write_leaves_old_or_new_bytes_at_the_target(void **state) {
    struct fixture *f = *state;
    unsigned canceled = 0;

    for (unsigned i = 0; i < 20; i++) {
        struct nixl_xfer *xfer = request(f, NIXL_WRITE, false), *back;
        nixl_status_t status;

        memset(canary_view, 0x11, MEMORY);
        assert_int_equal(run_once(xfer), NIXL_SUCCESS);
        memset(canary_view, 0x22, MEMORY);
        status = nixl_xfer_post(xfer, NULL);
        pause_ns(i * 100000u);
        if (status == NIXL_IN_PROG) {
            (void)nixl_xfer_cancel(xfer);
            status = nixl_xfer_wait(xfer, 20000);
        }
        assert_true(status == NIXL_SUCCESS || status == NIXL_ERR_CANCELED);
        canceled += status == NIXL_ERR_CANCELED;
        assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
        back = request(f, NIXL_READ, false);
        assert_int_equal(run_once(back), NIXL_SUCCESS);
        assert_int_equal(nixl_xfer_release(back), NIXL_SUCCESS);
        for (size_t at = 0; at < MEMORY; at++) {
            if (canary_view[at] != 0x22 && (status == NIXL_SUCCESS || canary_view[at] != 0x11)) {
                fprintf(stderr, "# byte %zu is 0x%02x after %s\n", at, canary_view[at],
                        nixl_status_string(status));
                assert_true(false);
            }
        }
    }
    printf("# %u of 20 were cancelled\n", canceled);
    outcome("cancel of a WRITE", over(f->setting), "old or new bytes at the target, new if SUCCESS", 0);
}

/*
 * When a byte of a cancelled WRITE may still land, as docs/failures.md has it: after the kernel's copies none from release on; over
 * a network none once the target has deregistered. From then on the target's memory is what the target writes.
 */
static void nothing_lands_when_the_target_may_use_its_memory_again(void **state) {
    struct fixture *f = *state;
    unsigned canceled = 0;
    bool by_network = false;

    for (unsigned i = 0; i < 8; i++) {
        struct nixl_xfer *xfer = request(f, NIXL_WRITE, i % 2 != 0);
        nixl_status_t status;

        by_network = strstr(nixl_xfer_transport(xfer), "cma") == NULL;
        memset(canary_view, 0x33, MEMORY);
        status = nixl_xfer_post(xfer, NULL);
        pause_ns(i * 120000u);
        if (status == NIXL_IN_PROG) {
            (void)nixl_xfer_cancel(xfer);
        }
        assert_released(xfer, 20000);
        canceled += status == NIXL_IN_PROG;
        if (by_network) {
            assert_true(node_deregister(&f->n));
        }
        node_fill(&f->n, 0, MEMORY, 100 + i);
        for (uint64_t end = now_ms() + 20; now_ms() < end;) {
            (void)nixl_agent_progress(f->l.agent);
            (void)usleep(500);
        }
        assert_true(node_check(&f->n, 0, MEMORY, 100 + i));
        if (by_network) {
            node_stop(&f->n);
            assert_true(node_start(&f->n, "node", f->setting, MEMORY, NULL));
            assert_int_equal(node_load(&f->n, &f->l), NIXL_SUCCESS);
        }
    }
    printf("# %u of 8 were cancelled in flight\n", canceled);
    assert_true(canceled > 0);
    outcome("cancelled WRITE, then the target's own bytes", over(f->setting),
            by_network ? "nothing lands after the target deregistered" : "nothing lands after release", 0);
}

#define TEST(f)                                                                                              \
    { #f, f, setup, teardown, NULL }

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(local_memory_is_left_alone_after_release_at_any_moment),
        TEST(a_cancelled_write_leaves_old_or_new_bytes_at_the_target),
        TEST(nothing_lands_when_the_target_may_use_its_memory_again),
    };
    int failed;

    node_main(argc, argv);
    if (!watcher_start()) {
        printf("1..0 # SKIP no shared memory for a third process\n");
        return 0;
    }
    failed = run_matrix(tests, COUNT_OF(tests));
    (void)close(watcher);
    (void)waitpid(watcher_pid, NULL, 0);
    return failed;
}
