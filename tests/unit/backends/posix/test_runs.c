/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/posix/posix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct posix_file file_a = {.fd = 7, .mem_align = 512, .offset_align = 4096, .is_direct = true};
static struct posix_file file_b = {.fd = 8, .mem_align = 1, .offset_align = 1};

struct list {
    struct nixl_request request;
    struct posix_request r;
};

static struct posix_request *list_of(struct list *l, const struct nixl_run *runs, size_t count,
                                     uint32_t flags) {
    *l = (struct list){.request = {.runs = runs, .run_count = count, .flags = flags}};
    l->r.request = &l->request;
    return &l->r;
}

static void adjoining_blocks_become_one_vectored_operation(void **state) {
    /* Three blocks in a row in the file; the first two also adjoin in memory. */
    const struct nixl_run runs[] = {
        {.local = 0x1000, .remote = 0, .len = 100, .count = 1, .remote_key = &file_b},
        {.local = 0x1064, .remote = 100, .len = 50, .count = 1, .remote_key = &file_b},
        {.local = 0x9000, .remote = 150, .len = 10, .count = 1, .remote_key = &file_b},
        {.local = 0xA000, .remote = 161, .len = 10, .count = 1, .remote_key = &file_b},
    };
    struct list l;
    struct posix_request *r = list_of(&l, runs, 4, 0);
    struct posix_cursor c = {0};
    struct iovec iov[8];
    struct posix_io io = {.iov = iov};

    assert_true(posix_gather(r, &c, &io, 8, 1000));
    assert_int_equal(io.offset, 0);
    assert_int_equal(io.len, 160);
    assert_int_equal(io.iov_count, 2);
    assert_int_equal((uintptr_t)iov[0].iov_base, 0x1000);
    assert_int_equal(iov[0].iov_len, 150);
    assert_int_equal((uintptr_t)iov[1].iov_base, 0x9000);
    assert_int_equal(iov[1].iov_len, 10);
    assert_int_equal(io.fd, 8);

    assert_true(posix_gather(r, &c, &io, 8, 1000));
    assert_int_equal(io.offset, 161);
    assert_int_equal(io.len, 10);
    assert_int_equal(io.start.run, 3);
    assert_false(posix_gather(r, &c, &io, 8, 1000));
}

static void strided_run_is_gathered_block_by_block(void **state) {
    /* Three blocks of 4 bytes: adjoining in the file, 16 bytes apart in memory. */
    const struct nixl_run run = {.local = 0x100,
                                 .remote = 8,
                                 .len = 4,
                                 .local_stride = 16,
                                 .remote_stride = 4,
                                 .count = 3,
                                 .remote_key = &file_b};
    struct list l;
    struct posix_request *r = list_of(&l, &run, 1, 0);
    struct posix_cursor c = {0};
    struct iovec iov[8];
    struct posix_io io = {.iov = iov};

    assert_true(posix_gather(r, &c, &io, 8, 1000));
    assert_int_equal(io.len, 12);
    assert_int_equal(io.iov_count, 3);
    assert_int_equal((uintptr_t)iov[2].iov_base, 0x120);
    assert_false(posix_gather(r, &c, &io, 8, 1000));
}

static void operations_keep_to_their_limits_and_lose_no_byte(void **state) {
    const struct nixl_run runs[] = {
        {.local = 0x1000,
         .remote = 0,
         .len = 10,
         .local_stride = 100,
         .remote_stride = 10,
         .count = 5,
         .remote_key = &file_b},
        {.local = 0x5000, .remote = 50, .len = 0, .count = 1, .remote_key = &file_b},
        {.local = 0x6000, .remote = 50, .len = 25, .count = 1, .remote_key = &file_a},
    };
    struct list l;
    struct posix_request *r = list_of(&l, runs, 3, 0);
    struct posix_cursor c = {0};
    struct iovec iov[2];
    struct posix_io io = {.iov = iov};
    static const struct {
        uint64_t offset;
        size_t len;
        unsigned pieces;
    } expected[] = {
        /* 17 bytes in 2 pieces at most: 10 + 7, 3 + 10 (a third piece would be needed), 10 + 7, 3, then the
           other file. */
        {0, 17, 2}, {17, 13, 2}, {30, 17, 2}, {47, 3, 1}, {50, 17, 1}, {67, 8, 1},
    };
    size_t i;

    for (i = 0; i < 6; i++) {
        assert_true(posix_gather(r, &c, &io, 2, 17));
        assert_int_equal(io.offset, expected[i].offset);
        assert_int_equal(io.len, expected[i].len);
        assert_int_equal(io.iov_count, expected[i].pieces);
    }
    assert_false(posix_gather(r, &c, &io, 2, 17));
    assert_int_equal(c.run, 3);
}

static void keep_lists_keeps_blocks_apart(void **state) {
    const struct nixl_run run = {.local = 0x100,
                                 .remote = 0,
                                 .len = 4,
                                 .local_stride = 4,
                                 .remote_stride = 4,
                                 .count = 2,
                                 .remote_key = &file_b};
    struct list l;
    struct posix_request *r = list_of(&l, &run, 1, NIXL_REQUEST_KEEP_LISTS);
    struct posix_cursor c = {0};
    struct iovec iov[8];
    struct posix_io io = {.iov = iov};

    assert_true(posix_gather(r, &c, &io, 8, 1000));
    assert_int_equal(io.len, 4);
    assert_true(posix_gather(r, &c, &io, 8, 1000));
    assert_int_equal(io.offset, 4);
    assert_int_equal(io.start.block, 1);
    assert_false(posix_gather(r, &c, &io, 8, 1000));
}

static void advance_names_the_block_of_a_byte(void **state) {
    const struct nixl_run runs[] = {
        {.len = 10, .count = 3},
        {.len = 0, .count = 1},
        {.len = 7, .count = 1},
    };
    struct list l;
    struct posix_cursor c = {0};

    list_of(&l, runs, 3, 0);
    posix_advance(&l.request, &c, 0);
    assert_int_equal(c.block, 0);
    posix_advance(&l.request, &c, 25);
    assert_int_equal(c.run, 0);
    assert_int_equal(c.block, 2);
    assert_int_equal(c.within, 5);
    posix_advance(&l.request, &c, 5);
    posix_advance(&l.request, &c, 6);
    assert_int_equal(c.run, 2);
    assert_int_equal(c.within, 6);
    posix_advance(&l.request, &c, 1);
    assert_int_equal(c.run, 3);
}

static void alignment_is_judged_by_first_block_and_distance(void **state) {
    static const struct {
        struct nixl_run run;
        const char *what; /* NULL: aligned */
        uint32_t block;
        uint64_t value;
    } cases[] = {
        {{.local = 512, .remote = 4096, .len = 8192, .count = 1}, NULL, 0, 0},
        {{.local = 512, .remote = 0, .len = 4096, .local_stride = 1024, .remote_stride = 8192, .count = 9},
         NULL,
         0,
         0},
        {{.local = 512, .remote = 100, .len = 4096, .count = 1}, "file offset", 0, 100},
        {{.local = 512, .remote = 0, .len = 100, .count = 1}, "length", 0, 100},
        {{.local = 513, .remote = 0, .len = 4096, .count = 1}, "address", 0, 513},
        {{.local = 0, .remote = 0, .len = 4096, .local_stride = 4100, .remote_stride = 4096, .count = 2},
         "address",
         1,
         4100},
        {{.local = 0, .remote = 0, .len = 4096, .local_stride = 4096, .remote_stride = 5000, .count = 2},
         "file offset",
         1,
         5000},
        {{.local = 0, .remote = 0, .len = 4096, .local_stride = 1, .remote_stride = 1, .count = 1},
         NULL,
         0,
         0},
    };
    size_t i;

    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *what = "";
        uint64_t value = 0;
        uint32_t block = 99, align = 0;

        assert_int_equal(posix_is_aligned(&cases[i].run, &file_a, &block, &what, &value, &align),
                         cases[i].what == NULL);
        if (cases[i].what != NULL) {
            assert_string_equal(what, cases[i].what);
            assert_int_equal(block, cases[i].block);
            assert_int_equal(value, cases[i].value);
        }
        assert_true(posix_is_aligned(&cases[i].run, &file_b, &block, &what, &value, &align));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adjoining_blocks_become_one_vectored_operation),
        cmocka_unit_test(strided_run_is_gathered_block_by_block),
        cmocka_unit_test(operations_keep_to_their_limits_and_lose_no_byte),
        cmocka_unit_test(keep_lists_keeps_blocks_apart),
        cmocka_unit_test(advance_names_the_block_of_a_byte),
        cmocka_unit_test(alignment_is_judged_by_first_block_and_distance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
