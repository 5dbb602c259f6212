/* SPDX-License-Identifier: Apache-2.0 */
/* The measured loop, with agents of one process and a backend that fails and stalls on demand. */
#include "support.h"

#include "backends/mock/mock.h"

#include "stop.h"
#include "transfer.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#define BLOCK 512
#define BLOCKS 24 /* of each lane with each target */
#define LANES 2
#define MAX_TARGETS 2

static const struct mock_control *mock;
static struct nixl_agent *initiator, *targets[MAX_TARGETS];
static struct nixl_backend *backend;
static uint8_t source[LANES * MAX_TARGETS * BLOCKS * BLOCK];
static uint8_t sink[MAX_TARGETS][LANES * BLOCKS * BLOCK];
static struct lane lanes[LANES];
static uint64_t progress;

static void ok(nixl_status_t status) {
    if (status != NIXL_SUCCESS) {
        fail_msg("%s", nixl_error());
    }
}

static void register_all(struct nixl_agent *agent, void *at, size_t len) {
    struct nixl_desc desc = {(uint64_t)(uintptr_t)at, len, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    ok(nixl_mem_register(agent, &list, NULL));
}

static void find_mock(void) {
    const struct mock_control *(*control)(void);
    char path[1024];
    void *file;

    snprintf(path, sizeof path, "%s/libplugin_MOCK.so", getenv("NIXL_PLUGIN_DIR"));
    file = dlopen(path, RTLD_NOW);
    assert_non_null(file);
    *(void **)&control = dlsym(file, "mock_control");
    assert_non_null(control);
    mock = control();
}

/* An initiator with `target_count` targets, LANES lanes with a part for each. */
static void begin(unsigned target_count, unsigned depth, size_t blocks) {
    static const char *const names[] = {"target", "target1"};

    find_mock();
    for (size_t i = 0; i < sizeof source; i++) {
        source[i] = (uint8_t)(i * 31 + i / 256);
    }
    memset(sink, 0, sizeof sink);
    ok(nixl_agent_create("initiator", NULL, &initiator));
    ok(nixl_backend_create(initiator, "MOCK", NULL, 0, &backend));
    register_all(initiator, source, sizeof source);
    for (unsigned k = 0; k < target_count; k++) {
        struct nixl_backend *theirs;
        void *blob;
        size_t len;

        ok(nixl_agent_create(names[k], NULL, &targets[k]));
        ok(nixl_backend_create(targets[k], "MOCK", NULL, 0, &theirs));
        register_all(targets[k], sink[k], sizeof sink[k]);
        ok(nixl_metadata_get(targets[k], &blob, &len));
        ok(nixl_metadata_load(initiator, blob, len, NULL));
        nixl_free(blob);
    }
    memset(lanes, 0, sizeof lanes);
    progress = 0;
    for (unsigned t = 0; t < LANES; t++) {
        struct lane *lane = &lanes[t];

        lane->agent = initiator;
        lane->backend = backend;
        lane->op = NIXL_WRITE;
        lane->depth = depth;
        lane->notify = true;
        lane->iterations = 1000;
        lane->progress = &progress;
        lane->part_count = target_count;
        lane->parts = calloc(target_count, sizeof *lane->parts);
        for (unsigned k = 0; k < target_count; k++) {
            struct lane_part *part = &lane->parts[k];

            part->peer = names[k];
            part->remote_mem = DRAM_SEG;
            part->count = blocks;
            part->local = calloc(blocks, sizeof *part->local);
            part->remote = calloc(blocks, sizeof *part->remote);
            for (size_t i = 0; i < blocks; i++) {
                part->local[i] = (struct nixl_desc){
                    (uint64_t)(uintptr_t)&source[((t * MAX_TARGETS + k) * BLOCKS + i) * BLOCK], BLOCK, 0};
                part->remote[i] =
                    (struct nixl_desc){(uint64_t)(uintptr_t)&sink[k][(t * BLOCKS + i) * BLOCK], BLOCK, 0};
            }
        }
        assert_true(lane_prepare(lane));
    }
}

static void end(void) {
    for (unsigned t = 0; t < LANES; t++) {
        lane_free(&lanes[t]);
    }
    nixl_agent_destroy(initiator);
    for (unsigned k = 0; k < MAX_TARGETS; k++) {
        nixl_agent_destroy(targets[k]);
        targets[k] = NULL;
    }
}

static size_t notifications_of(struct nixl_agent *agent) {
    struct nixl_notifs *notifs = NULL;
    size_t count = 0;

    for (int quiet = 0; quiet < 200; quiet++) {
        ok(nixl_notif_take(agent, NULL, &notifs));
        if (notifs != NULL) {
            for (size_t i = 0; i < notifs->count; i++) {
                assert_string_equal(notifs->items[i].agent, "initiator");
                assert_int_equal(notifs->items[i].len, 6);
                assert_memory_equal(notifs->items[i].msg, "0xBEEF", 6);
            }
            count += notifs->count;
            quiet = 0;
            nixl_notifs_release(notifs);
        }
        usleep(100);
    }
    return count;
}

static void assert_moved(unsigned target_count, size_t blocks) {
    for (unsigned k = 0; k < target_count; k++) {
        for (unsigned t = 0; t < LANES; t++) {
            assert_memory_equal(&sink[k][t * BLOCKS * BLOCK], &source[(t * MAX_TARGETS + k) * BLOCKS * BLOCK],
                                blocks * BLOCK);
        }
    }
}

static void every_iteration_is_posted_timed_and_notified_once(void **state) {
    long posts;

    begin(1, 3, 6);
    posts = mock->count("initiator", "posts");
    assert_true(lanes_run(lanes, LANES, 40, true));
    for (unsigned t = 0; t < LANES; t++) {
        assert_int_equal(lanes[t].done, 40);
        assert_int_equal(lanes[t].post.count, 40);
        assert_int_equal(lanes[t].tx.count, 40);
        assert_int_equal(lanes[t].prep.count, 3); /* one request a slot, made once */
        assert_false(lanes[t].is_cut_short);
        assert_true(lanes[t].end_ns > lanes[t].start_ns);
        assert_non_null(strstr(lanes[t].transport, "MOCK"));
    }
    assert_int_equal(mock->count("initiator", "posts") - posts, 80);
    assert_int_equal(progress, 80);
    assert_int_equal(notifications_of(targets[0]), 80);
    assert_moved(1, 6);
    assert_int_equal(mock->count("initiator", "requests"), 0);
    end();
}

static void warm_up_keeps_no_samples(void **state) {
    begin(1, 1, 2);
    assert_true(lanes_run(lanes, 1, 10, false));
    assert_int_equal(lanes[0].done, 10);
    assert_int_equal(lanes[0].post.count + lanes[0].tx.count + lanes[0].prep.count, 0);
    assert_true(lanes_run(lanes, 1, 20, true));
    assert_int_equal(lanes[0].done, 20);
    assert_int_equal(lanes[0].tx.count, 20);
    end();
}

static void a_new_request_an_iteration_is_a_prep_sample_each(void **state) {
    begin(1, 2, 4);
    lanes[0].recreate = lanes[1].recreate = true;
    lanes[1].prepared = true;
    assert_true(lanes_run(lanes, LANES, 30, true));
    assert_int_equal(lanes[0].prep.count, 30);
    assert_int_equal(lanes[1].prep.count, 30);
    assert_moved(1, 4);
    assert_int_equal(mock->count("initiator", "requests"), 0);
    end();
}

static void registering_again_leaves_nothing_behind(void **state) {
    long regions;

    begin(1, 2, 4);
    for (unsigned t = 0; t < LANES; t++) {
        lanes[t].recreate = lanes[t].reregister = true;
    }
    regions = mock->count("initiator", "regions");
    assert_true(lanes_run(lanes, LANES, 20, true));
    assert_moved(1, 4);
    assert_int_equal(mock->count("initiator", "regions"), regions);
    end();
}

static void an_iteration_with_two_targets_is_done_when_both_are(void **state) {
    begin(2, 2, 8);
    assert_true(lanes_run(lanes, LANES, 16, true));
    assert_int_equal(lanes[0].tx.count, 16);
    assert_moved(2, 8);
    assert_int_equal(notifications_of(targets[0]), 32);
    assert_int_equal(notifications_of(targets[1]), 32);
    end();
}

static void a_failure_ends_all_lanes_and_is_told_in_its_words(void **state) {
    bool found = false;

    begin(1, 1, 4);
    assert_true(mock->set("initiator", "fail_text", "the cable is broken"));
    assert_true(mock->set("initiator", "fail_at", "0"));
    assert_false(lanes_run(lanes, LANES, 1000, true));
    for (unsigned t = 0; t < LANES; t++) {
        found = found || strstr(lanes[t].error, "the cable is broken") != NULL;
        assert_true(lanes[t].done < 1000);
    }
    assert_true(found);
    assert_int_equal(mock->count("initiator", "requests"), 0);
    end();
}

static void *stop_soon(void *arg) {
    usleep(100000);
    __atomic_store_n(&stop_signal, SIGINT, __ATOMIC_RELAXED);
    return NULL;
}

static void an_interruption_ends_requests_that_hang(void **state) {
    pthread_t thread;

    begin(1, 2, 4);
    assert_true(mock->set("initiator", "hold", "yes"));
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, NULL), 0);
    assert_true(lanes_run(lanes, LANES, 1000, true));
    pthread_join(thread, NULL);
    stop_signal = 0;
    for (unsigned t = 0; t < LANES; t++) {
        assert_true(lanes[t].is_cut_short);
        assert_int_equal(lanes[t].done, 0);
    }
    assert_int_equal(mock->count("initiator", "requests"), 0);
    end();
}

static void an_interruption_counts_what_was_done(void **state) {
    pthread_t thread;

    begin(1, 1, 2);
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, NULL), 0);
    assert_true(lanes_run(lanes, 1, 20000000, true));
    pthread_join(thread, NULL);
    stop_signal = 0;
    assert_true(lanes[0].is_cut_short);
    assert_true(lanes[0].done > 0 && lanes[0].done < 20000000);
    assert_int_equal(notifications_of(targets[0]), lanes[0].done);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_iteration_is_posted_timed_and_notified_once),
        cmocka_unit_test(warm_up_keeps_no_samples),
        cmocka_unit_test(a_new_request_an_iteration_is_a_prep_sample_each),
        cmocka_unit_test(registering_again_leaves_nothing_behind),
        cmocka_unit_test(an_iteration_with_two_targets_is_done_when_both_are),
        cmocka_unit_test(a_failure_ends_all_lanes_and_is_told_in_its_words),
        cmocka_unit_test(an_interruption_ends_requests_that_hang),
        cmocka_unit_test(an_interruption_counts_what_was_done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
