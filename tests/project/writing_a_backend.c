/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The example backend of docs/writing-a-backend.md through the public interface alone: what the tutorial says of it
 * is true.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>

#include <nixl/nixl.h>

#define BYTES 4096u
#define KEY_A "first object"
#define KEY_B "second object"

struct shelf {
    struct nixl_agent *agent;
    struct nixl_backend *backend;
    uint8_t *memory;
    struct nixl_desc block;           /* the memory */
    struct nixl_meta_desc objects[2]; /* dev 1 and 2, to the end, whatever it is */
};

static struct nixl_options by_shelf(struct shelf *s) {
    struct nixl_options options = NIXL_OPTIONS_INIT;
    options.backends = &s->backend;
    options.backend_count = 1;
    return options;
}

/* An agent with a shelf of that capacity, BYTES of registered memory and two registered objects. */
static void shelf_start(struct shelf *s, const char *capacity, bool progress_thread) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_param param = {"capacity", capacity};
    config.progress_thread = progress_thread;
    assert_int_equal(nixl_agent_create("librarian", &config, &s->agent), NIXL_SUCCESS);
    assert_int_equal(nixl_backend_create(s->agent, "SHELF", &param, 1, &s->backend), NIXL_SUCCESS);
    s->memory = calloc(1, BYTES);
    assert_non_null(s->memory);
    s->block = (struct nixl_desc){(uintptr_t)s->memory, BYTES, 0};
    struct nixl_list memory = NIXL_LIST(DRAM_SEG, &s->block, 1);
    assert_int_equal(nixl_mem_register(s->agent, &memory, NULL), NIXL_SUCCESS);
    s->objects[0] = (struct nixl_meta_desc){0, 0, 1, KEY_A, strlen(KEY_A)};
    s->objects[1] = (struct nixl_meta_desc){0, 0, 2, KEY_B, strlen(KEY_B)};
    struct nixl_list objects = NIXL_LIST_META(OBJ_SEG, s->objects, 2);
    assert_int_equal(nixl_mem_register(s->agent, &objects, NULL), NIXL_SUCCESS);
}

static void shelf_end(struct shelf *s) {
    nixl_agent_destroy(s->agent);
    free(s->memory);
}

static struct nixl_xfer *request(struct shelf *s, nixl_xfer_op_t op, struct nixl_desc *memory,
                                 struct nixl_desc *objects, size_t count) {
    struct nixl_list local = NIXL_LIST(DRAM_SEG, memory, count), remote = NIXL_LIST(OBJ_SEG, objects, count);
    struct nixl_xfer *xfer;
    if (nixl_xfer_create(s->agent, op, &local, &remote, "librarian", NULL, &xfer) != NIXL_SUCCESS) {
        fail_msg("%s", nixl_error());
    }
    return xfer;
}

static nixl_status_t run(struct nixl_xfer *xfer) {
    nixl_status_t status = nixl_xfer_post(xfer, NULL);
    return status == NIXL_IN_PROG ? nixl_xfer_wait(xfer, 20000) : status;
}

/* Writes two blocks into two objects, clears the memory and reads them back the other way round. */
static void round_trip(bool progress_thread) {
    struct shelf s;
    shelf_start(&s, "1M", progress_thread);
    memset(s.memory, 'a', 100);
    memset(s.memory + 100, 'b', 100);
    struct nixl_desc memory[2] = {{(uintptr_t)s.memory, 100, 0}, {(uintptr_t)s.memory + 100, 100, 0}};
    struct nixl_desc objects[2] = {{50, 100, 1}, {0, 100, 2}};
    struct nixl_xfer *xfer = request(&s, NIXL_WRITE, memory, objects, 2);
    assert_int_equal(run(xfer), NIXL_SUCCESS);
    assert_int_equal(run(xfer), NIXL_SUCCESS); /* again */
    assert_string_equal(nixl_backend_type(nixl_xfer_backend(xfer)), "SHELF");
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);

    memset(s.memory, 0, BYTES);
    struct nixl_desc swapped[2] = {{0, 100, 2}, {0, 150, 1}};
    struct nixl_desc into[2] = {{(uintptr_t)s.memory, 100, 0}, {(uintptr_t)s.memory + 100, 150, 0}};
    xfer = request(&s, NIXL_READ, into, swapped, 2);
    assert_int_equal(run(xfer), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    for (size_t i = 0; i < 250; i++) { /* b's, 50 bytes nobody wrote, a's */
        assert_int_equal(s.memory[i], i < 100 ? 'b' : i < 150 ? 0 : 'a');
    }
    assert_int_equal(s.memory[250], 0);
    shelf_end(&s);
}

static void what_was_written_is_read_back(void **state) {
    (void)state;
    round_trip(false);
}

static void a_progress_thread_moves_the_bytes_as_well(void **state) {
    (void)state;
    round_trip(true);
}

static void objects_outlive_their_registration_and_can_be_asked_for(void **state) {
    (void)state;
    struct shelf s;
    shelf_start(&s, "64k", false);
    struct nixl_desc memory = {(uintptr_t)s.memory, 1000, 0}, object = {24, 1000, 1};
    struct nixl_xfer *xfer = request(&s, NIXL_WRITE, &memory, &object, 1);
    assert_int_equal(run(xfer), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    struct nixl_list list = NIXL_LIST_META(OBJ_SEG, s.objects, 2);
    assert_int_equal(nixl_mem_deregister(s.agent, &list, NULL), NIXL_SUCCESS);

    struct nixl_meta_desc asked[3] = {s.objects[0], {0, 0, 7, "no such", 7}, s.objects[1]};
    struct nixl_list query = NIXL_LIST_META(OBJ_SEG, asked, 3);
    struct nixl_options options = by_shelf(&s);
    struct nixl_query_results *results;
    assert_int_equal(nixl_mem_query(s.agent, &query, &options, &results), NIXL_SUCCESS);
    assert_int_equal(results->count, 3);
    assert_true(results->items[0].found);
    assert_string_equal(results->items[0].params.items[0].key, "size");
    assert_string_equal(results->items[0].params.items[0].value, "1024"); /* 24 + 1000 */
    assert_false(results->items[1].found);
    assert_true(results->items[2].found);
    assert_string_equal(results->items[2].params.items[0].value, "0");
    nixl_free(results);
    shelf_end(&s);
}

static void a_wrong_option_is_refused_by_name(void **state) {
    (void)state;
    static const struct nixl_param wrong[] = {
        {"capacitty", "1M"}, {"capacity", "a lot"}, {"capacity", "0"}, {"capacity", "2G"}};
    struct nixl_agent *agent;
    struct nixl_backend *backend;
    assert_int_equal(nixl_agent_create("librarian", NULL, &agent), NIXL_SUCCESS);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(nixl_backend_create(agent, "SHELF", &wrong[i], 1, &backend), NIXL_ERR_INVALID_PARAM);
        assert_null(backend);
        assert_non_null(strstr(nixl_error(), wrong[i].key));
        assert_non_null(strstr(nixl_error(), "SHELF"));
    }
    nixl_agent_destroy(agent);
}

static void an_option_comes_from_the_environment(void **state) {
    (void)state;
    struct nixl_agent *agent;
    struct nixl_backend *backend;
    struct nixl_params *params;
    setenv("NIXL_SHELF_CAPACITY", "3k", 1);
    assert_int_equal(nixl_agent_create("librarian", NULL, &agent), NIXL_SUCCESS);
    assert_int_equal(nixl_backend_create(agent, "SHELF", NULL, 0, &backend), NIXL_SUCCESS);
    unsetenv("NIXL_SHELF_CAPACITY");
    assert_int_equal(nixl_backend_params(backend, &params), NIXL_SUCCESS);
    assert_int_equal(params->count, 1);
    assert_string_equal(params->items[0].key, "capacity");
    assert_int_equal(strtoul(params->items[0].value, NULL, 10), params->items[0].value[1] == 'k' ? 3 : 3072);
    nixl_free(params);
    nixl_agent_destroy(agent);
}

static void a_block_past_the_end_is_named_in_the_error(void **state) {
    (void)state;
    struct shelf s;
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    shelf_start(&s, "256", false);
    struct nixl_desc memory[3] = {
        {(uintptr_t)s.memory, 8, 0}, {(uintptr_t)s.memory + 8, 8, 0}, {(uintptr_t)s.memory + 16, 8, 0}};
    struct nixl_desc objects[3] = {{0, 8, 1}, {248, 8, 1}, {249, 8, 2}}; /* 249 + 8 is one too many */
    struct nixl_xfer *xfer = request(&s, NIXL_WRITE, memory, objects, 3);
    assert_int_equal(run(xfer), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_xfer_failure(xfer, &info), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(info.index, 2);
    assert_int_equal(info.bytes_done, 16);
    assert_non_null(strstr(nixl_xfer_error(xfer), "8 bytes at offset 249 of an object that ends at 256"));
    assert_non_null(strstr(nixl_xfer_error(xfer), "2"));
    print_message("# %s\n", nixl_xfer_error(xfer));
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);

    /* Nobody wrote so far into the second object. */
    struct nixl_desc far = {0, 8, 2};
    xfer = request(&s, NIXL_READ, memory, &far, 1);
    assert_int_equal(run(xfer), NIXL_ERR_INVALID_PARAM);
    assert_non_null(strstr(nixl_xfer_error(xfer), "ends at 0"));
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    shelf_end(&s);
}

static void an_object_without_a_key_is_refused(void **state) {
    (void)state;
    struct shelf s;
    shelf_start(&s, "1M", false);
    struct nixl_meta_desc none = {0, 0, 3, NULL, 0};
    struct nixl_list list = NIXL_LIST_META(OBJ_SEG, &none, 1);
    assert_int_equal(nixl_mem_register(s.agent, &list, NULL), NIXL_ERR_BACKEND);
    assert_non_null(strstr(nixl_error(), "object's key"));
    shelf_end(&s);
}

static void a_long_request_can_be_cancelled(void **state) {
    (void)state;
    struct shelf s;
    const size_t large = 64u << 20;
    shelf_start(&s, "64M", false);
    uint8_t *memory = calloc(1, large);
    assert_non_null(memory);
    struct nixl_desc block = {(uintptr_t)memory, large, 0}, object = {0, large, 1};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &block, 1);
    assert_int_equal(nixl_mem_register(s.agent, &list, NULL), NIXL_SUCCESS);
    struct nixl_xfer *xfer = request(&s, NIXL_WRITE, &block, &object, 1);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_true(nixl_xfer_cancel(xfer) >= NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_wait(xfer, 20000), NIXL_ERR_CANCELED);
    assert_int_equal(run(xfer), NIXL_SUCCESS); /* and it can be posted again */
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    nixl_agent_destroy(s.agent);
    free(memory);
    free(s.memory);
}

/* 64 MiB are 256 steps: a waiter that slept after each of them would leave the processor as often. */
static void a_waiter_does_not_sleep_between_steps(void **state) {
    (void)state;
    struct shelf s;
    struct rusage before, after;
    const size_t large = 64u << 20;
    shelf_start(&s, "64M", false);
    uint8_t *memory = calloc(1, large);
    assert_non_null(memory);
    struct nixl_desc block = {(uintptr_t)memory, large, 0}, object = {0, large, 1};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &block, 1);
    assert_int_equal(nixl_mem_register(s.agent, &list, NULL), NIXL_SUCCESS);
    struct nixl_xfer *xfer = request(&s, NIXL_WRITE, &block, &object, 1);
    assert_int_equal(getrusage(RUSAGE_THREAD, &before), 0);
    assert_int_equal(run(xfer), NIXL_SUCCESS);
    assert_int_equal(getrusage(RUSAGE_THREAD, &after), 0);
    assert_in_range(after.ru_nvcsw - before.ru_nvcsw, 0, 100);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    nixl_agent_destroy(s.agent);
    free(memory);
    free(s.memory);
}

static void memory_to_memory_is_no_work_for_a_shelf(void **state) {
    (void)state;
    struct shelf s;
    shelf_start(&s, "1M", false);
    struct nixl_desc from = {(uintptr_t)s.memory, 8, 0}, to = {(uintptr_t)s.memory + 8, 8, 0};
    struct nixl_list local = NIXL_LIST(DRAM_SEG, &from, 1), remote = NIXL_LIST(DRAM_SEG, &to, 1);
    struct nixl_xfer *xfer;
    assert_true(nixl_xfer_create(s.agent, NIXL_WRITE, &local, &remote, "librarian", NULL, &xfer) < 0);
    assert_null(xfer);
    assert_non_null(strstr(nixl_error(), "local DRAM_SEG and remote OBJ_SEG only"));
    shelf_end(&s);
}

static void the_plugin_describes_itself(void **state) {
    (void)state;
    struct nixl_plugin_info *info;
    struct nixl_names *names;
    assert_int_equal(nixl_plugin_list(&names), NIXL_SUCCESS);
    assert_int_equal(names->count, 2);
    assert_string_equal(names->items[0], "NEARBY");
    assert_string_equal(names->items[1], "SHELF");
    nixl_free(names);
    assert_int_equal(nixl_plugin_describe("SHELF", &info), NIXL_SUCCESS);
    assert_int_equal(info->option_count, 1);
    assert_string_equal(info->options[0].name, "capacity");
    assert_string_equal(info->options[0].default_value, "1M");
    assert_int_equal(info->mems, NIXL_MEM_BIT(DRAM_SEG) | NIXL_MEM_BIT(OBJ_SEG));
    assert_int_equal(info->caps, NIXL_CAP_LOCAL);
    nixl_free(info);
}

/* The shortest backend: every block of a small request lands, a large request is refused in its words. */
static void the_shortest_backend_copies_and_refuses_what_is_too_large(void **state) {
    (void)state;
    enum {
        BLOCKS = 3,
        BLOCK = 1000,
        LARGE = 70000
    };
    static uint8_t from[LARGE], to[LARGE];
    struct nixl_agent *agent;
    struct nixl_backend *backend;
    struct nixl_xfer *xfer;
    struct nixl_desc regions[2] = {{(uintptr_t)from, LARGE, 0}, {(uintptr_t)to, LARGE, 0}};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, regions, 2);
    struct nixl_desc source[BLOCKS], target[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        memset(from + i * BLOCK, (int)('a' + i), BLOCK);
        source[i] = (struct nixl_desc){(uintptr_t)from + i * BLOCK, BLOCK, 0};
        target[i] = (struct nixl_desc){(uintptr_t)to + (BLOCKS - 1 - i) * BLOCK, BLOCK, 0};
    }
    struct nixl_list sources = NIXL_LIST(DRAM_SEG, source, BLOCKS);
    struct nixl_list targets = NIXL_LIST(DRAM_SEG, target, BLOCKS);
    assert_int_equal(nixl_agent_create("neighbour", NULL, &agent), NIXL_SUCCESS);
    assert_int_equal(nixl_backend_create(agent, "NEARBY", NULL, 0, &backend), NIXL_SUCCESS);
    assert_int_equal(nixl_mem_register(agent, &list, NULL), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_create(agent, NIXL_WRITE, &sources, &targets, "neighbour", NULL, &xfer),
                     NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_SUCCESS);
    for (size_t i = 0; i < BLOCKS; i++) {
        assert_memory_equal(to + (BLOCKS - 1 - i) * BLOCK, from + i * BLOCK, BLOCK);
    }
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);

    struct nixl_list all_from = NIXL_LIST(DRAM_SEG, &regions[0], 1);
    struct nixl_list all_to = NIXL_LIST(DRAM_SEG, &regions[1], 1);
    assert_true(nixl_xfer_create(agent, NIXL_READ, &all_from, &all_to, "neighbour", NULL, &xfer) < 0);
    assert_non_null(strstr(nixl_error(), "at most 65536 bytes a request"));
    nixl_agent_destroy(agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(a_progress_thread_moves_the_bytes_as_well),
        cmocka_unit_test(objects_outlive_their_registration_and_can_be_asked_for),
        cmocka_unit_test(a_wrong_option_is_refused_by_name),
        cmocka_unit_test(an_option_comes_from_the_environment),
        cmocka_unit_test(a_block_past_the_end_is_named_in_the_error),
        cmocka_unit_test(an_object_without_a_key_is_refused),
        cmocka_unit_test(a_long_request_can_be_cancelled),
        cmocka_unit_test(a_waiter_does_not_sleep_between_steps),
        cmocka_unit_test(memory_to_memory_is_no_work_for_a_shelf),
        cmocka_unit_test(the_plugin_describes_itself),
        cmocka_unit_test(the_shortest_backend_copies_and_refuses_what_is_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
