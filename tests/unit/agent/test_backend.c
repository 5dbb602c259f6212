/* SPDX-License-Identifier: Apache-2.0 */
/* Backends of an agent: opened, refused in words, looked at. */
#include "front.h"

static struct nixl_agent *agent_begin(void) {
    struct nixl_agent *agent;

    assert_status(nixl_agent_create("x", NULL, &agent), NIXL_SUCCESS);
    return agent;
}

static nixl_status_t create(struct nixl_agent *agent, const char *type, const char *key, const char *value) {
    struct nixl_param param = {key, value};
    struct nixl_backend *backend = (struct nixl_backend *)1;
    nixl_status_t status = nixl_backend_create(agent, type, &param, key != NULL ? 1 : 0, &backend);

    assert_true(status == NIXL_SUCCESS ? backend != NULL : backend == NULL);
    return status;
}

static void a_backend_is_found_listed_and_described(void **state) {
    struct nixl_agent *agent = agent_begin();
    struct nixl_backend *backends[4] = {NULL};
    struct nixl_params *params;
    bool seen = false;

    assert_int_equal(nixl_backend_list(agent, backends, 4), 0);
    assert_null(nixl_backend_find(agent, "MOCK"));
    assert_status(create(agent, "NOOP", NULL, NULL), NIXL_SUCCESS);
    assert_status(create(agent, "MOCK", "chunk", "4k"), NIXL_SUCCESS);
    assert_int_equal(nixl_backend_list(agent, backends, 1), 2);
    assert_string_equal(nixl_backend_type(backends[0]), "NOOP");
    assert_null(backends[1]);
    assert_int_equal(nixl_backend_list(agent, backends, 4), 2);
    assert_ptr_equal(backends[1], nixl_backend_find(agent, "MOCK"));
    assert_int_equal(nixl_backend_caps(backends[1]), NIXL_CAP_REMOTE | NIXL_CAP_LOCAL | NIXL_CAP_NOTIF);
    assert_int_equal(nixl_backend_mems(backends[1]), NIXL_MEM_BIT(DRAM_SEG) | NIXL_MEM_BIT(VRAM_SEG));
    assert_words(nixl_backend_description(backends[1]), "MOCK");
    assert_string_equal(nixl_backend_description(backends[0]), "NOOP 1.0");
    assert_status(nixl_backend_params(backends[1], &params), NIXL_SUCCESS);
    for (size_t i = 0; i < params->count; i++) {
        if (strcmp(params->items[i].key, "chunk") == 0) {
            assert_string_equal(params->items[i].value, "4k");
            seen = true;
        }
    }
    assert_true(seen);
    nixl_free(params);
    nixl_agent_destroy(agent);
}

static void one_of_a_type_is_all(void **state) {
    struct nixl_agent *agent = agent_begin();

    assert_status(create(agent, "MOCK", NULL, NULL), NIXL_SUCCESS);
    assert_status(create(agent, "MOCK", NULL, NULL), NIXL_ERR_INVALID_PARAM);
    assert_error("has a backend MOCK already");
    nixl_agent_destroy(agent);
}

static void what_is_missing_or_malformed_is_named(void **state) {
    struct nixl_agent *agent = agent_begin();
    struct nixl_backend *backend;

    assert_status(create(agent, "UCX", NULL, NULL), NIXL_ERR_NOT_FOUND);
    assert_error("there is no plugin \"UCX\"");
    assert_error("MOCK, MOCK2, NOOP");
    assert_status(create(agent, "MOCK", "colour", "red"), NIXL_ERR_INVALID_PARAM);
    assert_error("colour");
    assert_status(create(agent, "MOCK", "delay_us", "-1"), NIXL_ERR_INVALID_PARAM);
    assert_error("delay_us");
    assert_status(create(agent, "MOCK", "mems", "TAPE"), NIXL_ERR_INVALID_PARAM);
    assert_error("backend MOCK: mems: an unknown word in \"TAPE\"");
    assert_status(create(agent, "", NULL, NULL), NIXL_ERR_INVALID_PARAM);
    assert_status(create(agent, NULL, NULL, NULL), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_backend_create(agent, "MOCK", NULL, 0, NULL), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_backend_create(agent, "MOCK", NULL, 3, &backend), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_backend_list(agent, NULL, 0), 0);
    nixl_agent_destroy(agent);
    assert_nothing_open();
}

static void reaching_others_without_notifications_is_refused(void **state) {
    struct nixl_agent *agent = agent_begin();

    assert_status(create(agent, "MOCK", "caps", "REMOTE,LOCAL"), NIXL_ERR_BACKEND);
    assert_error("carries no notifications");
    assert_status(create(agent, "MOCK", "caps", "LOCAL"), NIXL_SUCCESS);
    assert_int_equal(nixl_backend_caps(nixl_backend_find(agent, "MOCK")), NIXL_CAP_LOCAL);
    nixl_agent_destroy(agent);
}

static void a_backend_that_works_for_no_memory_here_is_refused(void **state) {
    struct nixl_agent *agent = agent_begin();

    assert_status(create(agent, "MOCK", "mems", ""), NIXL_ERR_BACKEND);
    assert_error("no kind of memory here");
    nixl_agent_destroy(agent);
}

/* With the folder of this test's own plugins instead of the usual one. */
static char *own_plugins(void) {
    char *before = strdup(getenv("NIXL_PLUGIN_DIR"));
    char folder[512];

    snprintf(folder, sizeof folder, "%s/tests/unit/agent", getenv("NIXL_TEST_BUILD"));
    setenv("NIXL_PLUGIN_DIR", folder, 1);
    return before;
}

static void usual_plugins(char *before) {
    setenv("NIXL_PLUGIN_DIR", before, 1);
    free(before);
}

static void gds_and_gds_mt_exclude_each_other(void **state) {
    for (int first_mt = 0; first_mt < 2; first_mt++) {
        struct nixl_agent *agent = agent_begin();
        char *before = own_plugins();

        assert_status(create(agent, first_mt ? "GDS_MT" : "GDS", NULL, NULL), NIXL_SUCCESS);
        assert_status(create(agent, first_mt ? "GDS" : "GDS_MT", NULL, NULL), NIXL_ERR_NOT_ALLOWED);
        assert_error("exclude each other");
        nixl_agent_destroy(agent);
        usual_plugins(before);
    }
}

static void a_backend_that_breaks_its_promises_is_closed_again_and_named(void **state) {
    static const struct {
        const char *fault;
        nixl_status_t status;
        const char *words;
    } cases[] = {
        {"odd_status", NIXL_ERR_BACKEND, "neither done nor failed"},
        {"event", NIXL_ERR_BACKEND, "asks for progress and has no operation for it"},
        {"period", NIXL_ERR_BACKEND, "asks for progress and has no operation for it"},
        {"conn_fails", NIXL_ERR_UNKNOWN, "backend FAULTY: telling how to reach it failed"},
        {"no_conn", NIXL_ERR_BACKEND, "has no connection information"},
        {"note_fails", NIXL_ERR_BACKEND, "backend FAULTY: telling its note failed"},
        {"long_note", NIXL_ERR_BACKEND, "its note has 256 bytes"},
        {"null_note", NIXL_ERR_BACKEND, "its note has 4 bytes"},
    };
    struct nixl_agent *agent = agent_begin();
    char *before = own_plugins();

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_status(create(agent, "FAULTY", "fault", cases[i].fault), cases[i].status);
        assert_error(cases[i].words);
        assert_int_equal(nixl_backend_list(agent, NULL, 0), 0);
    }
    nixl_agent_destroy(agent);
    usual_plugins(before);
}

/* Its keys: the first cannot be had, the second is longer than a blob can carry. */
static void a_region_whose_key_cannot_travel_is_closed_again(void **state) {
    static unsigned char block[64];
    struct nixl_desc desc = {(uintptr_t)block, sizeof block, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_agent *agent = agent_begin();
    char *before = own_plugins();
    char path[512];
    void *file;
    int (*open_regions)(void);

    assert_status(create(agent, "FAULTY", "fault", "odd_keys"), NIXL_SUCCESS);
    snprintf(path, sizeof path, "%s/libplugin_FAULTY.so", getenv("NIXL_PLUGIN_DIR"));
    file = dlopen(path, RTLD_NOW);
    assert_non_null(file);
    open_regions = (int (*)(void))(uintptr_t)dlsym(file, "faulty_region_count");
    assert_non_null(open_regions);
    assert_status(nixl_mem_register(agent, &list, NULL), NIXL_ERR_BACKEND);
    assert_error("backend FAULTY: making the key of a region failed (NIXL_ERR_NOT_SUPPORTED)");
    assert_int_equal(open_regions(), 0);
    assert_status(nixl_mem_register(agent, &list, NULL), NIXL_ERR_BACKEND);
    assert_error("backend FAULTY is faulty: the key of a region has 4294967296 bytes");
    assert_int_equal(open_regions(), 0);
    assert_status(nixl_mem_deregister(agent, &list, NULL), NIXL_ERR_NOT_FOUND);
    nixl_agent_destroy(agent);
    dlclose(file);
    usual_plugins(before);
}

static char logged[2000];

static void keep_line(int level, const char *line, void *ctx) {
    snprintf(logged + strlen(logged), sizeof logged - strlen(logged), "%s", line);
}

static void lines_of_a_backend_name_it_and_its_agent(void **state) {
    struct nixl_agent *agent = agent_begin();
    char *before = own_plugins();

    log_set_level(LOG_LEVEL_WARN);
    log_set_sink(keep_line, NULL);
    assert_status(create(agent, "FAULTY", "fault", "logs"), NIXL_SUCCESS);
    log_reset();
    assert_words(logged, "agent x, backend FAULTY: the weather is odd");
    assert_null(strstr(logged, "never"));
    nixl_agent_destroy(agent);
    usual_plugins(before);
}

static void there_is_a_limit_to_backends(void **state) {
    struct nixl_agent *agent = agent_begin();

    /* Sixteen plugins are more than there are: the count alone is looked at. */
    agent->backend_count = AGENT_BACKENDS;
    for (unsigned i = 0; i < AGENT_BACKENDS; i++) {
        static struct nixl_backend filler = {.ops = {.name = "FILLER"}};

        agent->backends[i] = &filler;
    }
    assert_status(create(agent, "NOOP", NULL, NULL), NIXL_ERR_BACKEND);
    assert_error("16 backends, the most there can be");
    agent->backend_count = 0;
    nixl_agent_destroy(agent);
}

static void regions_of_before_are_not_registered_with_a_later_backend(void **state) {
    struct agents agents;
    struct nixl_backend *later;

    agents_begin(&agents, NULL, NULL);
    assert_status(nixl_backend_create(agents.a.agent, "MOCK2", NULL, 0, &later), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "regions"), 1);
    assert_int_equal(the_mock()->count("A", "region_opens"), 1);
    agents_end(&agents);
}

static void a_new_backend_changes_what_the_blob_says(void **state) {
    struct nixl_agent *agent = agent_begin();
    uint64_t before;

    assert_status(create(agent, "MOCK", NULL, NULL), NIXL_SUCCESS);
    before = nixl_metadata_generation(agent);
    assert_status(create(agent, "MOCK2", NULL, NULL), NIXL_SUCCESS);
    assert_true(nixl_metadata_generation(agent) > before);
    nixl_agent_destroy(agent);
}

static void settings_are_asked_for_through_the_host(void **state) {
    struct nixl_agent *agent = agent_begin();
    struct nixl_host *host;
    const char *first;

    assert_status(create(agent, "MOCK", NULL, NULL), NIXL_SUCCESS);
    host = &nixl_backend_find(agent, "MOCK")->host;
    assert_null(host->config(host->ctx, "NIXL_TEST_HOST_CONFIG"));
    setenv("NIXL_TEST_HOST_CONFIG", "first", 1);
    first = host->config(host->ctx, "NIXL_TEST_HOST_CONFIG");
    setenv("NIXL_TEST_HOST_CONFIG", "second", 1);
    assert_string_equal(host->config(host->ctx, "NIXL_TEST_HOST_CONFIG"), "second");
    assert_string_equal(first, "first");
    /* What was answered once is answered again, and stays for as long as the backend. */
    setenv("NIXL_TEST_HOST_CONFIG", "first", 1);
    assert_ptr_equal(host->config(host->ctx, "NIXL_TEST_HOST_CONFIG"), first);
    unsetenv("NIXL_TEST_HOST_CONFIG");
    assert_string_equal(host->agent, "x");
    assert_int_equal(host->size, sizeof *host);
    nixl_agent_destroy(agent);
}

static void a_fault_without_words_gets_some(void **state) {
    struct nixl_agent *agent = agent_begin();
    struct nixl_backend *backend;
    struct nixl_host *host;
    unsigned mark;

    assert_status(create(agent, "MOCK", NULL, NULL), NIXL_SUCCESS);
    backend = nixl_backend_find(agent, "MOCK");
    host = &backend->host;
    mark = backend_mark();
    assert_int_equal(backend_fault(backend, mark, NIXL_ERR_NOT_FOUND, "polishing"), NIXL_ERR_NOT_FOUND);
    assert_error("backend MOCK: polishing failed (NIXL_ERR_NOT_FOUND)");
    assert_int_equal(backend_fault(backend, mark, NIXL_IN_PROG, "polishing"), NIXL_ERR_BACKEND);
    mark = backend_mark();
    assert_int_equal(host->fail(host->ctx, NIXL_ERR_MISMATCH, "only %d left", 3), NIXL_ERR_MISMATCH);
    assert_int_equal(backend_fault(backend, mark, NIXL_ERR_MISMATCH, "polishing"), NIXL_ERR_MISMATCH);
    assert_string_equal(nixl_error(), "backend MOCK: only 3 left");
    nixl_agent_destroy(agent);
}

static void null_backends_have_no_properties(void **state) {
    struct nixl_params *params;

    assert_string_equal(nixl_backend_type(NULL), "");
    assert_string_equal(nixl_backend_description(NULL), "");
    assert_int_equal(nixl_backend_caps(NULL), 0);
    assert_int_equal(nixl_backend_mems(NULL), 0);
    assert_status(nixl_backend_params(NULL, &params), NIXL_ERR_INVALID_PARAM);
    assert_null(params);
    assert_status(nixl_backend_params(NULL, NULL), NIXL_ERR_INVALID_PARAM);
    assert_error("backend params: params is NULL");
    assert_null(nixl_backend_find(NULL, NULL));
    assert_error("backend find: no type is given");
}

static void plugins_are_described_without_an_agent(void **state) {
    struct nixl_names *names;
    struct nixl_plugin_info *info;

    assert_status(nixl_plugin_list(&names), NIXL_SUCCESS);
    assert_int_equal(names->count, 3);
    assert_string_equal(names->items[2], "NOOP");
    nixl_free(names);
    assert_status(nixl_plugin_describe("MOCK", &info), NIXL_SUCCESS);
    assert_int_equal(info->mems, 31);
    assert_true(info->option_count > 10);
    nixl_free(info);
    assert_status(nixl_plugin_describe("NONE", &info), NIXL_ERR_NOT_FOUND);
    assert_error("plugin describe: there is no plugin \"NONE\"");
    assert_null(info);
    assert_status(nixl_plugin_describe("", &info), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_plugin_describe("MOCK", NULL), NIXL_ERR_INVALID_PARAM);
    assert_error("plugin describe: info is NULL");
    assert_status(nixl_plugin_list(NULL), NIXL_ERR_INVALID_PARAM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_backend_is_found_listed_and_described),
        TEST(one_of_a_type_is_all),
        TEST(what_is_missing_or_malformed_is_named),
        TEST(reaching_others_without_notifications_is_refused),
        TEST(a_backend_that_works_for_no_memory_here_is_refused),
        TEST(gds_and_gds_mt_exclude_each_other),
        TEST(a_backend_that_breaks_its_promises_is_closed_again_and_named),
        TEST(a_region_whose_key_cannot_travel_is_closed_again),
        TEST(lines_of_a_backend_name_it_and_its_agent),
        TEST(there_is_a_limit_to_backends),
        TEST(regions_of_before_are_not_registered_with_a_later_backend),
        TEST(a_new_backend_changes_what_the_blob_says),
        TEST(settings_are_asked_for_through_the_host),
        TEST(a_fault_without_words_gets_some),
        TEST(null_backends_have_no_properties),
        TEST(plugins_are_described_without_an_agent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
