/* SPDX-License-Identifier: Apache-2.0 */
/* Regions that a peer's update takes away while requests name them: their keys close with the last of those
 * requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agents.h"

#include <pthread.h>

#define CELL 4096u

/* B has registered cell i of its memory besides the whole, and A knows. */
static void cell_add(struct agents *agents, size_t i) {
    register_block(agents->b.agent, agents->b.memory + i * CELL, CELL);
    introduce(agents->a.agent, agents->b.agent);
}

static void cell_drop(struct agents *agents, size_t i) {
    assert_status(deregister_block(agents->b.agent, agents->b.memory + i * CELL, CELL), NIXL_SUCCESS);
    introduce(agents->a.agent, agents->b.agent);
}

/* Two agents whose B side has single cells only. */
static void begin(struct agents *agents) {
    agents_begin(agents, NULL, NULL);
    assert_status(deregister_block(agents->b.agent, agents->b.memory, MEMORY), NIXL_SUCCESS);
    cell_add(agents, 200); /* so that a full blob is never empty */
    assert_int_equal(the_mock()->count("A", "keys"), 1);
}

static size_t lingering(const struct agents *agents) {
    const struct peer *peer = peer_find(agents->a.agent, "B", 1);

    return peer->lingering_count;
}

static void keys_stay_open_until_the_last_request_that_names_them_is_released(void **state) {
    struct agents agents;
    struct nixl_xfer *first;
    struct nixl_xfer *second;

    begin(&agents);
    cell_add(&agents, 1);
    first = request_of(&agents, NIXL_WRITE, CELL, 64, NULL);
    second = request_of(&agents, NIXL_WRITE, CELL, 64, NULL);
    assert_int_equal(the_mock()->count("A", "keys"), 2);
    cell_drop(&agents, 1);
    assert_int_equal(the_mock()->count("A", "keys"), 2);
    assert_int_equal(lingering(&agents), 1);
    assert_int_equal(nixl_xfer_post(first, NULL), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "remote region of the request is no longer registered");
    assert_status(nixl_xfer_release(first), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "keys"), 2);
    assert_status(nixl_xfer_release(second), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "keys"), 1);
    agents_end(&agents);
    assert_int_equal(the_mock()->count(NULL, "keys"), 0);
}

static void keys_that_no_request_names_close_with_the_update(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    begin(&agents);
    cell_add(&agents, 1);
    cell_add(&agents, 2);
    xfer = request_of(&agents, NIXL_WRITE, CELL, 64, NULL);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    xfer = request_of(&agents, NIXL_WRITE, 2 * CELL, 64, NULL);
    assert_status(deregister_block(agents.b.agent, agents.b.memory + CELL, CELL), NIXL_SUCCESS);
    cell_drop(&agents, 2);
    assert_int_equal(the_mock()->count("A", "keys"), 2);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "keys"), 1);
    agents_end(&agents);
}

static void transfer_in_flight_ends_well_and_others_go_on(void **state) {
    struct agents agents;
    struct nixl_xfer *leaving;
    struct nixl_xfer *staying;

    begin(&agents);
    cell_add(&agents, 1);
    leaving = request_of(&agents, NIXL_WRITE, CELL, 64, NULL);
    staying = request_of(&agents, NIXL_WRITE, 200 * CELL, 64, NULL);
    the_mock()->set("A", "hold", "yes");
    assert_int_equal(nixl_xfer_post(leaving, NULL), NIXL_IN_PROG);
    assert_int_equal(nixl_xfer_post(staying, NULL), NIXL_IN_PROG);
    cell_drop(&agents, 1);
    assert_int_equal(the_mock()->count("A", "keys"), 2);
    the_mock()->set("A", "hold", "no");
    assert_int_equal(nixl_xfer_wait(leaving, 5000),
                     NIXL_ERR_BACKEND); /* MOCK sees that B's region is closed */
    assert_status(nixl_xfer_wait(staying, 5000), NIXL_SUCCESS);
    assert_true(nixl_xfer_post(staying, NULL) >= 0);
    assert_status(nixl_xfer_wait(staying, 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(leaving), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "keys"), 1);
    assert_status(nixl_xfer_release(staying), NIXL_SUCCESS);
    agents_end(&agents);
}

static void request_that_names_a_region_often_counts_as_often(void **state) {
    struct agents agents;
    struct nixl_desc l[6];
    struct nixl_desc r[6];
    struct nixl_list local = NIXL_LIST(DRAM_SEG, l, 6);
    struct nixl_list remote = NIXL_LIST(DRAM_SEG, r, 6);
    struct nixl_xfer *xfers[3];

    begin(&agents);
    cell_add(&agents, 1);
    cell_add(&agents, 2);
    for (size_t i = 0; i < 6; i++) {
        l[i] = (struct nixl_desc){(uintptr_t)agents.a.memory + i * i * 100, 8, 0};
        r[i] = (struct nixl_desc){(uintptr_t)agents.b.memory + (1 + i % 2) * CELL + i * 10, 8, 0};
    }
    for (int i = 0; i < 3; i++) {
        assert_status(nixl_xfer_create(agents.a.agent, NIXL_WRITE, &local, &remote, "B", NULL, &xfers[i]),
                      NIXL_SUCCESS);
        assert_int_equal(xfers[i]->remote_count, 6);
    }
    cell_drop(&agents, 2);
    assert_status(nixl_xfer_release(xfers[0]), NIXL_SUCCESS);
    cell_drop(&agents, 1);
    assert_status(nixl_xfer_release(xfers[1]), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "keys"), 3);
    assert_status(nixl_xfer_release(xfers[2]), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "keys"), 1);
    agents_end(&agents);
}

static void region_registered_anew_is_another(void **state) {
    struct agents agents;
    struct nixl_xfer *old;
    struct nixl_xfer *fresh;

    begin(&agents);
    cell_add(&agents, 1);
    old = request_of(&agents, NIXL_WRITE, CELL, 64, NULL);
    cell_drop(&agents, 1);
    cell_add(&agents, 1);
    fresh = request_of(&agents, NIXL_WRITE, CELL, 64, NULL);
    assert_int_equal(the_mock()->count("A", "keys"), 3);
    assert_int_equal(nixl_xfer_post(old, NULL), NIXL_ERR_NOT_FOUND);
    assert_true(nixl_xfer_post(fresh, NULL) >= 0);
    assert_status(nixl_xfer_wait(fresh, 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(old), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "keys"), 2);
    assert_status(nixl_xfer_release(fresh), NIXL_SUCCESS);
    agents_end(&agents);
}

static void many_updates_leave_nothing_behind(void **state) {
    struct agents agents;

    begin(&agents);
    for (size_t i = 0; i < 300; i++) {
        struct nixl_xfer *xfer;

        cell_add(&agents, 1);
        xfer = request_of(&agents, NIXL_WRITE, CELL, 64, NULL);
        cell_drop(&agents, 1);
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
        assert_int_equal(the_mock()->count("A", "keys"), 1);
        assert_in_range(lingering(&agents), 0, 1);
    }
    agents_end(&agents);
}

static void peer_that_goes_takes_lingering_keys_along(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    begin(&agents);
    cell_add(&agents, 1);
    xfer = request_of(&agents, NIXL_WRITE, CELL, 64, NULL);
    cell_drop(&agents, 1);
    assert_status(nixl_metadata_invalidate(agents.a.agent, "B"), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "keys"), 2);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "keys"), 0);
    assert_int_equal(the_mock()->count("A", "peers"), 0);
    agents_end(&agents);
}

static void agent_that_ends_takes_lingering_keys_along(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    begin(&agents);
    cell_add(&agents, 1);
    xfer = request_of(&agents, NIXL_WRITE, CELL, 64, NULL);
    cell_drop(&agents, 1);
    agents_end(&agents);
    assert_int_equal(the_mock()->count(NULL, "keys"), 0);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
}

/* ---- updates beside requests that come and go ---- */

struct churn {
    struct agents *agents;
    bool stop;
};

static void *churn_requests(void *arg) {
    struct churn *churn = arg;

    while (!__atomic_load_n(&churn->stop, __ATOMIC_RELAXED)) {
        struct nixl_desc l = {(uintptr_t)churn->agents->a.memory, 64, 0};
        struct nixl_desc r = {(uintptr_t)churn->agents->b.memory + CELL, 64, 0};
        struct nixl_list local = NIXL_LIST(DRAM_SEG, &l, 1);
        struct nixl_list remote = NIXL_LIST(DRAM_SEG, &r, 1);
        struct nixl_xfer *xfers[4];
        int made = 0;

        while (made < 4 && nixl_xfer_create(churn->agents->a.agent, NIXL_WRITE, &local, &remote, "B", NULL,
                                            &xfers[made]) == NIXL_SUCCESS) {
            (void)nixl_xfer_post(xfers[made], NULL);
            made++;
        }
        while (made > 0) {
            (void)nixl_xfer_wait(xfers[--made], 5000);
            (void)nixl_xfer_release(xfers[made]);
        }
    }
    return NULL;
}

static void updates_and_requests_do_not_disturb_each_other(void **state) {
    for (int sync = 0; sync < 3; sync++) {
        struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
        struct agents agents;
        struct churn churn = {.agents = &agents};
        pthread_t threads[2];

        config.sync = (enum nixl_sync)sync;
        agents_begin_with(&agents, &config, NULL, 0);
        assert_status(deregister_block(agents.b.agent, agents.b.memory, MEMORY), NIXL_SUCCESS);
        cell_add(&agents, 200);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, churn_requests, &churn), 0);
        }
        for (int i = 0; i < 200; i++) {
            cell_add(&agents, 1);
            cell_drop(&agents, 1);
        }
        __atomic_store_n(&churn.stop, true, __ATOMIC_RELAXED);
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
        }
        assert_int_equal(the_mock()->count("A", "keys"), 1);
        agents_end(&agents);
        assert_int_equal(the_mock()->count(NULL, "keys"), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_stay_open_until_the_last_request_that_names_them_is_released),
        cmocka_unit_test(keys_that_no_request_names_close_with_the_update),
        cmocka_unit_test(transfer_in_flight_ends_well_and_others_go_on),
        cmocka_unit_test(request_that_names_a_region_often_counts_as_often),
        cmocka_unit_test(region_registered_anew_is_another),
        cmocka_unit_test(many_updates_leave_nothing_behind),
        cmocka_unit_test(peer_that_goes_takes_lingering_keys_along),
        cmocka_unit_test(agent_that_ends_takes_lingering_keys_along),
        cmocka_unit_test(updates_and_requests_do_not_disturb_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
