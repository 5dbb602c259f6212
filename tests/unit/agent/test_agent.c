/* SPDX-License-Identifier: Apache-2.0 */
/* An agent's beginning, its end with everything still open, its settings, fork, and silence. */
#include "front.h"

#include <fcntl.h>

static void an_agent_needs_a_name(void **state) {
    struct nixl_agent *agent = (struct nixl_agent *)1;
    char longest[NIXL_NAME_MAX + 2];

    assert_status(nixl_agent_create("", NULL, &agent), NIXL_ERR_INVALID_PARAM);
    assert_null(agent);
    assert_error("needs a name");
    assert_status(nixl_agent_create(NULL, NULL, &agent), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_agent_create("x", NULL, NULL), NIXL_ERR_INVALID_PARAM);
    memset(longest, 'n', sizeof longest);
    longest[NIXL_NAME_MAX + 1] = '\0';
    assert_status(nixl_agent_create(longest, NULL, &agent), NIXL_ERR_INVALID_PARAM);
    longest[NIXL_NAME_MAX] = '\0';
    assert_status(nixl_agent_create(longest, NULL, &agent), NIXL_SUCCESS);
    assert_string_equal(nixl_agent_name(agent), longest);
    nixl_agent_destroy(agent);
}

static void a_config_of_another_size_is_read_as_far_as_it_goes(void **state) {
    struct {
        struct nixl_agent_config config;
        uint64_t later;
    } longer = {NIXL_AGENT_CONFIG_INIT, UINT64_MAX};
    struct nixl_agent *agent;

    longer.config.size = sizeof longer;
    longer.config.xfer_timeout_ms = 7;
    assert_status(nixl_agent_create("x", &longer.config, &agent), NIXL_SUCCESS);
    assert_int_equal(agent->xfer_timeout_ms, 7);
    nixl_agent_destroy(agent);
    longer.config.size = offsetof(struct nixl_agent_config, xfer_timeout_ms);
    assert_status(nixl_agent_create("x", &longer.config, &agent), NIXL_SUCCESS);
    assert_true(agent->xfer_timeout_ms == NIXL_NO_TIMEOUT);
    nixl_agent_destroy(agent);
    longer.config.size = 0;
    assert_status(nixl_agent_create("x", &longer.config, &agent), NIXL_ERR_INVALID_PARAM);
    assert_error("NIXL_AGENT_CONFIG_INIT");
    longer.config = (struct nixl_agent_config)NIXL_AGENT_CONFIG_INIT;
    longer.config.sync = (enum nixl_sync)9;
    assert_status(nixl_agent_create("x", &longer.config, &agent), NIXL_ERR_INVALID_PARAM);
    assert_error("sync");
}

static void time_limits_come_from_config_then_environment_then_default(void **state) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_agent *agent;

    assert_status(nixl_agent_create("x", &config, &agent), NIXL_SUCCESS);
    assert_true(agent->xfer_timeout_ms == NIXL_NO_TIMEOUT);
    assert_int_equal(agent->stall_timeout_ms, 30000);
    nixl_agent_destroy(agent);
    setenv("NIXL_XFER_TIMEOUT_MS", "1.5s", 1);
    setenv("NIXL_STALL_TIMEOUT_MS", "0", 1);
    assert_status(nixl_agent_create("x", &config, &agent), NIXL_SUCCESS);
    assert_int_equal(agent->xfer_timeout_ms, 1500);
    assert_true(agent->stall_timeout_ms == NIXL_NO_TIMEOUT);
    nixl_agent_destroy(agent);
    config.xfer_timeout_ms = 20;
    config.stall_timeout_ms = NIXL_NO_TIMEOUT;
    assert_status(nixl_agent_create("x", &config, &agent), NIXL_SUCCESS);
    assert_int_equal(agent->xfer_timeout_ms, 20);
    assert_true(agent->stall_timeout_ms == NIXL_NO_TIMEOUT);
    nixl_agent_destroy(agent);
    setenv("NIXL_XFER_TIMEOUT_MS", "soon", 1);
    assert_status(nixl_agent_create("x", &config, &agent), NIXL_ERR_INVALID_PARAM);
    assert_error("NIXL_XFER_TIMEOUT_MS");
    unsetenv("NIXL_XFER_TIMEOUT_MS");
    unsetenv("NIXL_STALL_TIMEOUT_MS");
}

static void the_environment_decides_on_telemetry(void **state) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_agent *agent;

    config.capture_telemetry = true;
    setenv("NIXL_TELEMETRY_ENABLE", "n", 1);
    assert_status(nixl_agent_create("x", &config, &agent), NIXL_SUCCESS);
    assert_false(agent->telemetry);
    nixl_agent_destroy(agent);
    config.capture_telemetry = false;
    setenv("NIXL_TELEMETRY_ENABLE", "yes", 1);
    assert_status(nixl_agent_create("x", &config, &agent), NIXL_SUCCESS);
    assert_true(agent->telemetry);
    nixl_agent_destroy(agent);
    unsetenv("NIXL_TELEMETRY_ENABLE");
    config.capture_telemetry = true;
    assert_status(nixl_agent_create("x", &config, &agent), NIXL_SUCCESS);
    assert_true(agent->telemetry);
    nixl_agent_destroy(agent);
}

static void lives_of_one_name_are_told_apart_and_ordered(void **state) {
    struct nixl_agent *first;
    struct nixl_agent *second;

    assert_status(nixl_agent_create("x", NULL, &first), NIXL_SUCCESS);
    assert_status(nixl_agent_create("x", NULL, &second), NIXL_SUCCESS);
    assert_true(first->incarnation.boot_ns < second->incarnation.boot_ns);
    assert_true(first->incarnation.random != second->incarnation.random);
    nixl_agent_destroy(first);
    nixl_agent_destroy(second);
}

static void listening_without_a_carrier_is_refused_in_words(void **state) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_agent *agent;

    if (agent_exchange_get() != NULL) {
        return; /* this build has one: its own tests say how it listens */
    }
    config.listen_thread = true;
    config.progress_thread = true;
    assert_status(nixl_agent_create("x", &config, &agent), NIXL_ERR_NOT_SUPPORTED);
    assert_error("listen");
}

static void null_agents_are_refused_everywhere(void **state) {
    struct nixl_backend *backend;
    struct nixl_notifs *notifs;
    struct nixl_names *names;
    struct nixl_query_results *results;
    struct nixl_desc desc = {4096, 64, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_list remote = NIXL_LIST(DRAM_SEG, NULL, 0);
    struct blob blob;
    void *view;

    remote.form = NIXL_FORM_REMOTE;
    assert_status(nixl_mem_register(NULL, &list, NULL), NIXL_ERR_INVALID_PARAM);
    assert_error("register: agent is NULL");
    assert_status(nixl_mem_deregister(NULL, &list, NULL), NIXL_ERR_INVALID_PARAM);
    assert_error("deregister: agent is NULL");
    assert_status(nixl_mem_query(NULL, &list, NULL, &results), NIXL_ERR_INVALID_PARAM);
    assert_error("query: agent is NULL");
    assert_status(nixl_view_local(NULL, &list, NULL, &view), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_view_remote(NULL, &remote, NULL, &view), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_view_release(NULL, NULL), NIXL_ERR_INVALID_PARAM);
    assert_error("release view: agent is NULL");
    assert_status(nixl_metadata_get_partial(NULL, &list, NULL, &blob.data, &blob.len),
                  NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_metadata_get_update(NULL, 0, &blob.data, &blob.len), NIXL_ERR_INVALID_PARAM);
    assert_null(nixl_backend_find(NULL, "MOCK"));
    assert_error("backend find: agent is NULL");
    assert_int_equal(nixl_agent_fd(NULL), -1);
    assert_error("agent fd: agent is NULL");
    assert_status(nixl_agent_arm(NULL), NIXL_ERR_INVALID_PARAM);
    assert_error("agent arm: agent is NULL");
    assert_status(nixl_backend_create(NULL, "MOCK", NULL, 0, &backend), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_notif_send(NULL, "B", "x", 1, NULL), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_notif_take(NULL, NULL, &notifs), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_peer_list(NULL, &names), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_peer_connect(NULL, "B", NULL), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_metadata_get(NULL, &blob.data, &blob.len), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_metadata_load(NULL, "x", 1, NULL), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_metadata_invalidate(NULL, "B"), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_metadata_check(NULL, "B", NULL), NIXL_ERR_INVALID_PARAM);
    assert_error("check metadata: agent is NULL");
    assert_int_equal(nixl_backend_list(NULL, NULL, 0), 0);
    assert_string_equal(nixl_peer_error(NULL, "B"), "");
    assert_int_equal(nixl_metadata_generation(NULL), 0);
    nixl_agent_destroy(NULL);
}

static void destroy_closes_all_that_was_left_open(void **state) {
    struct agents agents;

    agents_begin(&agents, NULL, NULL);
    assert_status(nixl_notif_send(agents.a.agent, "B", "unread", 6, NULL), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "peers"), 1);
    agents_end(&agents);
    assert_nothing_open();
}

static void destroy_ends_transfers_in_flight(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, "hold", "yes");
    xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    nixl_agent_destroy(agents.a.agent);
    assert_true(nixl_xfer_poll(xfer) < 0);
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    nixl_agent_destroy(agents.b.agent);
    free(agents.a.memory);
    free(agents.b.memory);
    assert_nothing_open();
}

static void destroy_copes_with_memory_that_is_not_mapped_any_more(void **state) {
    struct nixl_agent *agent;
    struct nixl_backend *backend;
    void *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_status(nixl_agent_create("x", NULL, &agent), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agent, "MOCK", NULL, 0, &backend), NIXL_SUCCESS);
    register_block(agent, memory, 8192);
    register_block(agent, memory, 8192);
    assert_int_equal(munmap(memory, 8192), 0);
    nixl_agent_destroy(agent);
    assert_nothing_open();
}

/* What a forked child finds; its exit status is the number of the first surprise. */
static int child_checks(struct agents *agents, struct nixl_xfer *xfer) {
    struct nixl_agent *agent = agents->a.agent;
    struct nixl_backend *backend;
    struct nixl_notifs *notifs;
    struct nixl_agent *fresh;
    struct blob blob;
    int n = 0;

#define REFUSED(call)                                                                                        \
    n++;                                                                                                     \
    if ((call) != NIXL_ERR_NOT_ALLOWED || strstr(nixl_error(), "fork()") == NULL) {                          \
        return n;                                                                                            \
    }
    REFUSED(nixl_backend_create(agent, "NOOP", NULL, 0, &backend));
    REFUSED(nixl_notif_send(agent, "B", "x", 1, NULL));
    REFUSED(nixl_notif_take(agent, NULL, &notifs));
    REFUSED(nixl_metadata_get(agent, &blob.data, &blob.len));
    REFUSED(nixl_metadata_load(agent, "x", 1, NULL));
    REFUSED(nixl_metadata_invalidate(agent, "B"));
    REFUSED(nixl_metadata_check(agent, "B", NULL));
    REFUSED(nixl_peer_state(agent, "B"));
    REFUSED(nixl_peer_connect(agent, "B", NULL));
    REFUSED(deregister_block(agent, agents->a.memory, MEMORY));
    REFUSED(nixl_xfer_post(xfer, NULL));
    REFUSED(nixl_agent_progress(agent));
    nixl_agent_destroy(agent);
    n++;
    if (strstr(nixl_error(), "fork()") == NULL) {
        return n;
    }
    n++;
    if (nixl_agent_create("child", NULL, &fresh) != NIXL_SUCCESS ||
        nixl_backend_create(fresh, "NOOP", NULL, 0, &backend) != NIXL_SUCCESS) {
        return n;
    }
    nixl_agent_destroy(fresh);
    return 0;
}

static void a_forked_child_is_told_so_by_every_call_and_may_begin_anew(void **state) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct agents agents;
    struct nixl_xfer *xfer;
    int status;
    pid_t child;

    config.progress_thread = true;
    agents_begin_with(&agents, &config, NULL, 0);
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(30);
        _exit(child_checks(&agents, xfer));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    /* The parent goes on. */
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

/* Everything a plain program does, also a few refused calls, with stdout and stderr in a file. */
static void a_plain_start_prints_nothing(void **state) {
    struct agents agents;
    struct nixl_agent *agent;
    struct nixl_backend *backend;
    struct nixl_xfer *xfer;
    FILE *file = tmpfile();
    long printed;
    int out;
    int err;

    assert_non_null(file);
    fflush(stdout);
    unsetenv("NIXL_LOG_LEVEL");
    log_reset();
    out = dup(STDOUT_FILENO);
    err = dup(STDERR_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    agents_begin(&agents, NULL, NULL);
    xfer = request_of(&agents, NIXL_READ, 0, 64, NULL);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_int_equal(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_int_equal(nixl_notif_send(agents.a.agent, "nobody", "x", 1, NULL), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_backend_create(agents.a.agent, "UCX", NULL, 0, &backend), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_agent_create("", NULL, &agent), NIXL_ERR_INVALID_PARAM);
    agents_end(&agents);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    printed = lseek(fileno(file), 0, SEEK_END);
    fclose(file);
    assert_int_equal(printed, 0);
}

static void names_of_numbers_are_the_references(void **state) {
    assert_string_equal(nixl_version(), NIXL_VERSION_TEXT);
    assert_string_equal(nixl_status_string(NIXL_SUCCESS), "NIXL_SUCCESS");
    assert_string_equal(nixl_status_string(NIXL_IN_PROG), "NIXL_IN_PROG");
    assert_string_equal(nixl_status_string(NIXL_ERR_NO_TELEMETRY), "NIXL_ERR_NO_TELEMETRY");
    assert_string_equal(nixl_status_string((nixl_status_t)-13), "BAD_STATUS");
    assert_string_equal(nixl_status_string((nixl_status_t)2), "BAD_STATUS");
    assert_string_equal(nixl_mem_string(DRAM_SEG), "DRAM_SEG");
    assert_string_equal(nixl_mem_string(VRAM_SEG), "VRAM_SEG");
    assert_string_equal(nixl_mem_string(FILE_SEG), "FILE_SEG");
    assert_string_equal(nixl_mem_string((nixl_mem_t)5), "BAD_SEG");
    assert_string_equal(nixl_op_string(NIXL_READ), "READ");
    assert_string_equal(nixl_op_string(NIXL_WRITE), "WRITE");
    assert_string_equal(nixl_op_string((nixl_xfer_op_t)2), "BAD_OP");
}

static void calls_that_no_part_serves_say_so(void **state) {
    struct nixl_agent *agent;
    struct nixl_backend *backend;
    struct nixl_desc desc = {4096, 64, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    void *view;

    assert_status(nixl_agent_create("x", NULL, &agent), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agent, "NOOP", NULL, 0, &backend), NIXL_SUCCESS);
    assert_status(nixl_view_local(agent, &list, NULL, &view), NIXL_ERR_NOT_SUPPORTED);
    assert_error("memory views");
    assert_status(nixl_view_release(agent, &desc), NIXL_ERR_NOT_FOUND);
    if (agent_exchange_get() == NULL) {
        assert_status(nixl_metadata_send(agent, NULL), NIXL_ERR_NOT_SUPPORTED);
        assert_error("send metadata: this build has no carrier");
        assert_status(nixl_metadata_fetch(agent, "B", NULL), NIXL_ERR_NOT_SUPPORTED);
        assert_status(nixl_metadata_send_partial(agent, &list, NULL), NIXL_ERR_NOT_SUPPORTED);
        assert_status(nixl_metadata_invalidate_local(agent, NULL), NIXL_ERR_NOT_SUPPORTED);
        assert_int_equal(nixl_agent_listen_port(agent), 0);
    }
    nixl_agent_destroy(agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_agent_needs_a_name),
        TEST(a_config_of_another_size_is_read_as_far_as_it_goes),
        TEST(time_limits_come_from_config_then_environment_then_default),
        TEST(the_environment_decides_on_telemetry),
        TEST(lives_of_one_name_are_told_apart_and_ordered),
        TEST(listening_without_a_carrier_is_refused_in_words),
        TEST(null_agents_are_refused_everywhere),
        TEST(destroy_closes_all_that_was_left_open),
        TEST(destroy_ends_transfers_in_flight),
        TEST(destroy_copes_with_memory_that_is_not_mapped_any_more),
        TEST(a_forked_child_is_told_so_by_every_call_and_may_begin_anew),
        TEST(a_plain_start_prints_nothing),
        TEST(names_of_numbers_are_the_references),
        TEST(calls_that_no_part_serves_say_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
