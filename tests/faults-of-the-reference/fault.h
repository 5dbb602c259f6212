/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the reference's faults share. Each program runs its tests, or the one that the environment variable
 * FAULT_TEST names: so that fails.sh can see which of them notice that a guard is missing.
 */
#ifndef TESTS_FAULT_H
#define TESTS_FAULT_H

#include "unit/agent/front.h"

#define FAULT_TESTS(tests)                                                                                   \
    int main(void) {                                                                                         \
        if (getenv("FAULT_TEST") != NULL) {                                                                  \
            cmocka_set_test_filter(getenv("FAULT_TEST"));                                                    \
        }                                                                                                    \
        return cmocka_run_group_tests(tests, NULL, NULL);                                                    \
    }

static inline struct nixl_dlist *prepare_block(struct nixl_agent *agent, const char *owner, const void *at,
                                               size_t len) {
    struct nixl_desc desc = {(uintptr_t)at, len, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_dlist *dlist;

    assert_status(nixl_dlist_prepare(agent, owner, &list, NULL, &dlist), NIXL_SUCCESS);
    return dlist;
}

/* Moves 64 bytes from the one block to the other within the agent. */
static inline nixl_status_t loopback(struct nixl_agent *agent, const void *from, void *to) {
    struct nixl_desc l = {(uintptr_t)from, 64, 0};
    struct nixl_desc r = {(uintptr_t)to, 64, 0};
    struct nixl_list local = NIXL_LIST(DRAM_SEG, &l, 1);
    struct nixl_list remote = NIXL_LIST(DRAM_SEG, &r, 1);
    struct nixl_xfer *xfer;
    nixl_status_t status =
        nixl_xfer_create(agent, NIXL_WRITE, &local, &remote, nixl_agent_name(agent), NULL, &xfer);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    status = nixl_xfer_post(xfer, NULL);
    if (status == NIXL_IN_PROG) {
        status = nixl_xfer_wait(xfer, 10000);
    }
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    return status;
}

#endif
