/* SPDX-License-Identifier: Apache-2.0 */
/* Disks that are full, broken or slow: what a transfer then says, and that the next one works. On all three
 * queues. */
#include "posix_env.h"

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
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024u * 1024u)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const queues[] = {"use_uring", "use_aio", "use_posix_aio"};

static struct node node;

/* Opens the node on the case's queue, or skips. */
static void need_queue(void **state) {
    if (node_open(&node, *state, false) != NIXL_SUCCESS) {
        char why[300];

        snprintf(why, sizeof why, "%s", nixl_error());
        node_close(&node);
        test_skip("%s", why);
    }
}

static nixl_status_t move(nixl_xfer_op_t op, const void *buf, uint64_t len, uint64_t dev, uint64_t offset,
                          struct nixl_failure_info *info, char text[500]) {
    struct nixl_xfer *xfer;
    nixl_status_t status;

    assert_int_equal(node_xfer(&node, op, buf, len, dev, offset, &xfer), NIXL_SUCCESS);
    status = node_run(xfer);
    snprintf(text, 500, "%s", nixl_xfer_error(xfer));
    nixl_xfer_failure(xfer, info);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    return status;
}

static void full_tmpfs(void **state) {
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    char dir[64], path[100], meta[120], text[500], *bytes = malloc(8 * MIB), *back = calloc(1, 8 * MIB);
    const char *none = place_tmpfs(4 * MIB, dir);

    if (none != NULL) {
        test_skip("%s", none);
    }
    need_queue(state);
    snprintf(path, sizeof path, "%s/file", dir);
    snprintf(meta, sizeof meta, "rw,create:%s", path);
    pattern(bytes, 8 * MIB, 1);
    assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)bytes, 8 * MIB, 0, NULL), NIXL_SUCCESS);
    assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)back, 8 * MIB, 0, NULL), NIXL_SUCCESS);
    assert_int_equal(node_register(&node, FILE_SEG, 0, 0, 1, meta), NIXL_SUCCESS);

    /* Twice what there is room for. */
    assert_int_equal(move(NIXL_WRITE, bytes, 8 * MIB, 1, 0, &info, text), NIXL_ERR_BACKEND);
    assert_int_equal(info.os_error, ENOSPC);
    assert_int_equal(info.index, 0);
    assert_true(info.bytes_done <= 4 * MIB);
    assert_non_null(strstr(text, "No space left on device"));
    assert_non_null(strstr(text, path));

    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(move(NIXL_WRITE, bytes, 2 * MIB, 1, 0, &info, text), NIXL_SUCCESS);
    assert_int_equal(move(NIXL_READ, back, 2 * MIB, 1, 0, &info, text), NIXL_SUCCESS);
    assert_memory_equal(bytes, back, 2 * MIB);
    node_close(&node);
    umount2(dir, MNT_DETACH);
    rmdir(dir);
    free(bytes);
    free(back);
}

static void broken_disk(void **state) {
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    char device[64], meta[100], text[500], *bytes = aligned_alloc(4096, 8 * MIB);
    int backing;
    const char *none = place_loop(8 * MIB, device, &backing);

    if (none != NULL) {
        test_skip("%s", none);
    }
    need_queue(state);
    snprintf(meta, sizeof meta, "rw,direct:%s", device);
    pattern(bytes, 8 * MIB, 2);
    assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)bytes, 8 * MIB, 0, NULL), NIXL_SUCCESS);
    assert_int_equal(node_register(&node, FILE_SEG, 0, 0, 1, meta), NIXL_SUCCESS);
    assert_int_equal(move(NIXL_WRITE, bytes, 8 * MIB, 1, 0, &info, text), NIXL_SUCCESS);

    /* From 4 MiB on the disk is gone. */
    assert_int_equal(ftruncate(backing, 4 * MIB), 0);
    assert_int_equal(move(NIXL_READ, bytes, 64 * 1024, 1, 6 * MIB, &info, text), NIXL_ERR_BACKEND);
    assert_int_equal(info.os_error, EIO);
    assert_int_equal(info.index, 0);
    assert_non_null(strstr(text, "Input/output error"));
    assert_non_null(strstr(text, device));
    assert_non_null(strstr(text, "offset 6291456"));

    memset(bytes, 0, 8 * MIB);
    assert_int_equal(move(NIXL_READ, bytes, MIB, 1, MIB, &info, text), NIXL_SUCCESS);
    {
        char *expected = malloc(MIB);

        pattern(expected, MIB, 2 + MIB);
        assert_memory_equal(bytes, expected, MIB);
        free(expected);
    }
    node_close(&node);
    place_loop_end(device, backing);
    free(bytes);
}

static void short_operations_are_continued(void **state) {
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    char dir[64], meta[120], text[500], *out = malloc(100000), *back = calloc(1, 100000);
    unsigned char *server;
    const char *none = place_fuse(dir, &server);

    if (none != NULL) {
        test_skip("%s", none);
    }
    need_queue(state);
    snprintf(meta, sizeof meta, "rw:%s/short", dir);
    pattern(out, 100000, 3);
    assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)out, 100000, 0, NULL), NIXL_SUCCESS);
    assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)back, 100000, 0, NULL), NIXL_SUCCESS);
    assert_int_equal(node_register(&node, FILE_SEG, 0, 0, 9, meta), NIXL_SUCCESS);
    assert_int_equal(move(NIXL_WRITE, out, 100000, 9, 777, &info, text), NIXL_SUCCESS);
    assert_memory_equal(server + 777, out, 100000);
    assert_int_equal(move(NIXL_READ, back, 100000, 9, 777, &info, text), NIXL_SUCCESS);
    assert_memory_equal(back, out, 100000);
    node_close(&node);
    place_fuse_end();
    free(out);
    free(back);
}

static void failing_block_is_named_and_the_rest_goes_on(void **state) {
    enum {
        BLOCKS = 100,
        LEN = 4096
    };
    struct nixl_desc locals[BLOCKS], remotes[BLOCKS];
    struct nixl_list local = NIXL_LIST(DRAM_SEG, locals, BLOCKS),
                     remote = NIXL_LIST(FILE_SEG, remotes, BLOCKS);
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    struct nixl_xfer *xfer, *good;
    char dir[64], meta[120], *bytes = aligned_alloc(4096, BLOCKS * LEN);
    unsigned char *server;
    const char *none = place_fuse(dir, &server);
    size_t i;

    if (none != NULL) {
        test_skip("%s", none);
    }
    need_queue(state);
    pattern(bytes, BLOCKS * LEN, 5);
    assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)bytes, BLOCKS * LEN, 0, NULL), NIXL_SUCCESS);
    snprintf(meta, sizeof meta, "rw:%s/eio", dir);
    assert_int_equal(node_register(&node, FILE_SEG, 0, 0, 1, meta), NIXL_SUCCESS);
    snprintf(meta, sizeof meta, "rw:%s/good", dir);
    assert_int_equal(node_register(&node, FILE_SEG, 0, 0, 2, meta), NIXL_SUCCESS);
    for (i = 0; i < BLOCKS; i++) {
        /* Block 37 alone lies beyond 64 KiB, where the disk is bad; neighbours do not adjoin. */
        locals[i] = (struct nixl_desc){(uintptr_t)bytes + i * LEN, LEN, 0};
        remotes[i] = (struct nixl_desc){i == 37 ? 70000 : (i * 7 % 15) * LEN, LEN, 1};
    }
    assert_int_equal(nixl_xfer_create(node.agent, NIXL_WRITE, &local, &remote, "files", NULL, &xfer),
                     NIXL_SUCCESS);
    assert_int_equal(node_xfer(&node, NIXL_READ, bytes, LEN, 2, 500000, &good), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_int_equal(node_run(good), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_wait(xfer, 30000), NIXL_ERR_BACKEND);
    assert_int_equal(nixl_xfer_failure(xfer, &info), NIXL_ERR_BACKEND);
    assert_int_equal(info.os_error, EIO);
    assert_int_equal(info.index, 37);
    assert_non_null(strstr(nixl_xfer_error(xfer), "Input/output error"));
    assert_non_null(strstr(nixl_xfer_error(xfer), "/eio"));
    assert_non_null(strstr(nixl_xfer_error(xfer), "offset 70000"));
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_int_equal(node_run(good), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_release(good), NIXL_SUCCESS);
    node_close(&node);
    place_fuse_end();
    free(bytes);
}

static uint64_t now_ms(void) {
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void write_that_hangs_can_be_cancelled(void **state) {
    char dir[64], meta[120], bytes[4096], text[500];
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    unsigned char *server;
    const char *none;
    struct nixl_xfer *xfer;
    uint64_t start;

    if (strcmp(*state, "use_uring") != 0) {
        test_skip("a call that the kernel has begun can be called back with io_uring only");
    }
    none = place_fuse(dir, &server);
    if (none != NULL) {
        test_skip("%s", none);
    }
    need_queue(state);
    snprintf(meta, sizeof meta, "rw:%s/hang", dir);
    assert_int_equal(node_register(&node, DRAM_SEG, (uintptr_t)bytes, sizeof bytes, 0, NULL), NIXL_SUCCESS);
    assert_int_equal(node_register(&node, FILE_SEG, 0, 0, 1, meta), NIXL_SUCCESS);
    snprintf(meta, sizeof meta, "rw:%s/good", dir);
    assert_int_equal(node_register(&node, FILE_SEG, 0, 0, 2, meta), NIXL_SUCCESS);

    assert_int_equal(node_xfer(&node, NIXL_WRITE, bytes, sizeof bytes, 1, 0, &xfer), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_int_equal(nixl_xfer_wait(xfer, 300), NIXL_IN_PROG);
    start = now_ms();
    assert_true(nixl_xfer_cancel(xfer) >= 0);
    assert_int_equal(nixl_xfer_wait(xfer, 5000), NIXL_ERR_CANCELED);
    assert_true(now_ms() - start < 1000);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);

    /* Release calls back too, and a hanging file holds up no other. */
    assert_int_equal(node_xfer(&node, NIXL_WRITE, bytes, sizeof bytes, 1, 0, &xfer), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_int_equal(move(NIXL_READ, bytes, sizeof bytes, 2, 0, &info, text), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    node_close(&node);
    place_fuse_end();
}

int main(void) {
#define CASE(f)                                                                                              \
    { .name = #f, .test_func = f }
    static const struct CMUnitTest cases[] = {
        CASE(full_tmpfs),
        CASE(broken_disk),
        CASE(short_operations_are_continued),
        CASE(failing_block_is_named_and_the_rest_goes_on),
        CASE(write_that_hangs_can_be_cancelled),
    };
    static struct CMUnitTest tests[COUNT(cases) * COUNT(queues)];
    static char names[COUNT(tests)][100];
    size_t i;

    for (i = 0; i < COUNT(tests); i++) {
        tests[i] = cases[i / COUNT(queues)];
        snprintf(names[i], sizeof names[i], "%s (%s)", tests[i].name, queues[i % COUNT(queues)]);
        tests[i].name = names[i];
        tests[i].initial_state = (void *)(uintptr_t)queues[i % COUNT(queues)];
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
