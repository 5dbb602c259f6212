/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists and requests from before a peer was replaced or a region deregistered are refused in words, and memory that its owner
 * has deregistered is not read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pair.h"

#define MEMORY ((size_t)1 << 20)

static int setup(void **state) {
    return fixture_open(state, MEMORY);
}

static struct nixl_dlist *prepare(struct local *l, const char *owner, uint64_t addr) {
    struct nixl_desc block = {addr, 4096, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &block, 1);
    struct nixl_dlist *dlist = NULL;

    assert_int_equal(nixl_dlist_prepare(l->agent, owner, &list, NULL, &dlist), NIXL_SUCCESS);
    return dlist;
}

static void what_was_made_for_the_replaced_peer_is_refused(void **state) {
    struct fixture *f = *state;
    struct nixl_dlist *mine = prepare(&f->l, NULL, (uintptr_t)f->l.at),
                      *theirs = prepare(&f->l, "node", f->n.addr);
    struct nixl_xfer *xfer = NULL, *other = NULL;

    assert_int_equal(nixl_xfer_make(f->l.agent, NIXL_WRITE, mine, NULL, theirs, NULL, 1, NULL, &xfer),
                     NIXL_SUCCESS);
    assert_int_equal(run_once(xfer), NIXL_SUCCESS);
    node_kill(&f->n);
    assert_true(node_start(&f->n, "node", f->setting, MEMORY, NULL));
    assert_int_equal(node_load(&f->n, &f->l), NIXL_SUCCESS);
    node_fill(&f->n, 0, MEMORY, 8);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_ERR_NOT_FOUND);
    printf("# %s\n", nixl_error());
    assert_non_null(strstr(nixl_error(), "node"));
    assert_int_equal(nixl_xfer_make(f->l.agent, NIXL_WRITE, mine, NULL, theirs, NULL, 1, NULL, &other),
                     NIXL_ERR_NOT_FOUND);
    printf("# %s\n", nixl_error());
    assert_true(nixl_error()[0] != '\0');
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    nixl_dlist_release(theirs);
    nixl_dlist_release(mine);
    /* Not a byte of it reached the new one. */
    assert_true(node_check(&f->n, 0, MEMORY, 8));
    outcome("post of a request to a replaced peer", over(f->setting), "NOT_FOUND", 0);
}

static void a_request_whose_local_region_went_is_refused(void **state) {
    struct fixture *f = *state;
    struct nixl_desc block = {(uintptr_t)f->l.at, MEMORY, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &block, 1);
    struct nixl_xfer *xfer = request_to(&f->l, &f->n, NIXL_READ, 1, 4096, 4096, NULL);

    assert_int_equal(run_once(xfer), NIXL_SUCCESS);
    assert_int_equal(nixl_mem_deregister(f->l.agent, &list, NULL), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_ERR_NOT_FOUND);
    printf("# %s\n", nixl_error());
    assert_int_equal(nixl_mem_register(f->l.agent, &list, NULL), NIXL_SUCCESS);
    /* The same bytes registered again are another region. */
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_write_arrives(&f->l, &f->n, MEMORY, 4);
    outcome("post after local deregistration", over(f->setting), "NOT_FOUND", 0);
}

/* The owner does not tell; who asks for what is not registered any more is refused, at once. */
static void is_refused_after_deregistration(struct fixture *f, struct nixl_xfer *xfer, const char *fault) {
    uint64_t start;
    nixl_status_t status;

    assert_true(node_deregister(&f->n));
    start = now_ms();
    status = run_once(xfer);
    printf("# %s: %s\n", nixl_status_string(status), nixl_xfer_error(xfer));
    outcome(fault, over(f->setting), nixl_status_string(status), (double)(now_ms() - start));
    assert_int_equal(status, NIXL_ERR_NOT_FOUND);
    assert_non_null(strstr(nixl_xfer_error(xfer), "\"node\""));
    /* Again, and also by a request made only now. */
    assert_int_equal(run_once(xfer), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    xfer = request_to(&f->l, &f->n, NIXL_READ, 1, 4096, 4096, NULL);
    assert_non_null(xfer);
    assert_int_equal(run_once(xfer), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
}

static void a_read_of_memory_that_its_owner_deregistered_fails(void **state) {
    struct fixture *f = *state;
    struct nixl_xfer *xfer = request_to(&f->l, &f->n, NIXL_READ, 1, 65536, 65536, NULL);

    node_fill(&f->n, 0, MEMORY, 6);
    assert_int_equal(run_once(xfer), NIXL_SUCCESS);
    assert_true(pattern_check(f->l.at, 65536, 6));
    is_refused_after_deregistration(f, xfer, "READ of memory its owner deregistered");
}

/* In small blocks: larger ones go by UCX's own puts over tcp, from 1.21 on, and those do not ask. */
static void a_write_to_memory_that_its_owner_deregistered_fails(void **state) {
    struct fixture *f = *state;
    struct nixl_xfer *xfer = request_to(&f->l, &f->n, NIXL_WRITE, 16, 4096, 8192, NULL);

    pattern_fill(f->l.at, MEMORY, 7);
    assert_int_equal(run_once(xfer), NIXL_SUCCESS);
    node_fill(&f->n, 0, MEMORY, 8);
    is_refused_after_deregistration(f, xfer, "WRITE of small blocks to memory its owner deregistered");
    assert_true(node_check(&f->n, 0, MEMORY, 8));
}

#define TEST(f)                                                                                              \
    { #f, f, setup, fixture_close, NULL }

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(what_was_made_for_the_replaced_peer_is_refused),
        TEST(a_request_whose_local_region_went_is_refused),
        TEST(a_read_of_memory_that_its_owner_deregistered_fails),
        TEST(a_write_to_memory_that_its_owner_deregistered_fails),
    };

    node_main(argc, argv);
    return run_matrix(tests, COUNT_OF(tests));
}
