/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata through a real etcd: agents of this process and of a child, with MOCK. */
#include "etcd_server.h"

#include "base/clock.h"
#include "exchange/etcd_reply.h"

static struct etcd_server server;
static char endpoint[64];

static void need_etcd(void);

#include "support/skip.h"

static void need_etcd(void) {
    if (server.pid <= 0) {
        test_skip("etcd is not there (Debian: etcd-server)");
    }
}

static struct nixl_options waiting(uint64_t wait_ms) {
    struct nixl_options options = NIXL_OPTIONS_INIT;

    options.wait_ms = wait_ms;
    return options;
}

/* Whether etcd has that key, by a request of this test's own. */
static bool etcd_has(const char *key) {
    struct bytes body = {0};
    char answer[65536];

    assert_true(bytes_append_text(&body, "{\"keys_only\":true,\"key\":\"") &&
                base64_append(&body, key, strlen(key)) && bytes_append(&body, "\"}", 3));
    etcd_post(&server, "/v3/kv/range", (const char *)body.data, answer, sizeof answer);
    bytes_free(&body);
    assert_non_null(strstr(answer, "header"));
    return strstr(answer, "\"count\":\"1\"") != NULL;
}

static void what_is_published_is_fetched_under_the_references_keys(void **state) {
    struct nixl_options options = waiting(5000);
    struct side_of_test a;
    struct side_of_test b;
    uint64_t start;

    need_etcd();
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_send(b.agent, &options), NIXL_SUCCESS);
    assert_true(etcd_has("/nixl/agents//B/metadata"));
    assert_true(etcd_has("/nixl/agents//B/"));
    start = clock_now_ns();
    assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_SUCCESS);
    print_message("# the first fetch takes %llu us\n", (unsigned long long)((clock_now_ns() - start) / 1000));
    start = clock_now_ns();
    assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_SUCCESS);
    print_message("# another one %llu us\n", (unsigned long long)((clock_now_ns() - start) / 1000));
    assert_true(knows(a.agent, "B", b.memory, MEMORY));
    assert_status(nixl_metadata_invalidate_local(b.agent, &options), NIXL_SUCCESS);
    assert_false(etcd_has("/nixl/agents//B/metadata"));
    assert_false(etcd_has("/nixl/agents//B/"));
    assert_true(becomes(a.agent, "B", false));
    side_end(&a);
    side_end(&b);
}

static void a_fetch_before_the_publication_completes_with_it_and_holds_up_nothing(void **state) {
    struct nixl_options options = waiting(5000);
    struct side_of_test a;
    struct side_of_test b;
    struct side_of_test c;

    need_etcd();
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, true);
    side_begin(&c, "C", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_fetch(a.agent, "B", NULL), NIXL_SUCCESS);
    assert_status(nixl_metadata_send(c.agent, &options), NIXL_SUCCESS);
    assert_status(nixl_metadata_fetch(a.agent, "C", &options), NIXL_SUCCESS);
    assert_status(nixl_metadata_check(a.agent, "B", NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_metadata_send(b.agent, NULL), NIXL_SUCCESS);
    assert_true(becomes(a.agent, "B", true));
    side_end(&a);
    side_end(&b);
    side_end(&c);
}

static void a_fetch_of_nobody_ends_in_time_with_words(void **state) {
    struct nixl_options options = waiting(300);
    struct side_of_test a;
    uint64_t start = clock_now_ns();

    need_etcd();
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_fetch(a.agent, "nobody", &options), NIXL_ERR_CANCELED);
    assert_error("agent nobody has published nothing as /nixl/agents//nobody/metadata");
    assert_true(clock_now_ns() - start < 3 * NS_PER_S);
    side_end(&a);
}

static void what_is_published_again_reaches_those_who_watch(void **state) {
    struct nixl_options options = waiting(5000);
    struct side_of_test a;
    struct side_of_test b;
    unsigned char *more = malloc(8192);
    bool is_known = false;

    need_etcd();
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_send(b.agent, &options), NIXL_SUCCESS);
    assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_SUCCESS);
    register_block(b.agent, more, 8192);
    assert_status(nixl_metadata_send(b.agent, &options), NIXL_SUCCESS);
    for (unsigned i = 0; i < 1500 && !is_known; i++) {
        is_known = knows(a.agent, "B", more, 8192);
        usleep(2000);
    }
    assert_true(is_known);
    side_end(&a);
    side_end(&b);
    free(more);
}

static void partial_metadata_has_its_own_label(void **state) {
    struct nixl_options options = waiting(5000);
    struct side_of_test a;
    struct side_of_test b;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    need_etcd();
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, true);
    desc = (struct nixl_desc){(uintptr_t)b.memory, MEMORY, 0};
    options.include_conn = true;
    assert_status(nixl_metadata_send_partial(b.agent, &list, &options), NIXL_ERR_INVALID_PARAM);
    assert_error("label");
    options.label = "kv";
    assert_status(nixl_metadata_send_partial(b.agent, &list, &options), NIXL_SUCCESS);
    assert_true(etcd_has("/nixl/agents//B/kv"));
    assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_SUCCESS);
    assert_true(knows(a.agent, "B", b.memory, MEMORY));
    side_end(&a);
    side_end(&b);
}

static pid_t child_start(const char *name) {
    pid_t pid = fork();

    if (pid == 0) {
        execl("/proc/self/exe", "test_etcd", "--agent", name, (char *)NULL);
        _exit(127);
    }
    return pid;
}

/* A child: publishes and lives until it is killed. */
static int child_run(const char *name) {
    struct nixl_options options = waiting(5000);
    struct side_of_test side;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    exchange_install();
    side_begin(&side, name, NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_send(side.agent, &options), NIXL_SUCCESS);
    pause();
    return 0;
}

static void keys_of_a_killed_agent_vanish_and_its_watchers_drop_it(void **state) {
    struct nixl_options options = waiting(10000);
    struct side_of_test a;
    pid_t pid;
    uint64_t start;
    bool is_gone = false;

    need_etcd();
    setenv("NIXL_ETCD_LEASE_S", "1", 1);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    pid = child_start("K");
    assert_status(nixl_metadata_fetch(a.agent, "K", &options), NIXL_SUCCESS);
    usleep(2500000); /* longer than the lease: it is kept alive */
    assert_status(nixl_metadata_check(a.agent, "K", NULL), NIXL_SUCCESS);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    start = clock_now_ns();
    while (!is_gone && clock_now_ns() - start < 10 * NS_PER_S) {
        is_gone = nixl_metadata_check(a.agent, "K", NULL) != NIXL_SUCCESS;
        usleep(10000);
    }
    assert_true(is_gone);
    assert_false(etcd_has("/nixl/agents//K/metadata"));
    print_message("# it was forgotten %.1f s after its death\n", (double)(clock_now_ns() - start) / 1e9);
    side_end(&a);
    unsetenv("NIXL_ETCD_LEASE_S");
}

static void the_end_of_an_agent_withdraws_what_it_published(void **state) {
    struct nixl_options options = waiting(5000);
    struct side_of_test a;
    struct side_of_test b;

    need_etcd();
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_send(b.agent, &options), NIXL_SUCCESS);
    assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_SUCCESS);
    side_end(&b);
    assert_false(etcd_has("/nixl/agents//B/metadata"));
    assert_true(becomes(a.agent, "B", false));
    side_end(&a);
}

static void namespaces_keep_equal_names_apart(void **state) {
    struct nixl_options options = waiting(5000);
    struct nixl_options brief = waiting(200);
    struct side_of_test a;
    struct side_of_test b;

    need_etcd();
    setenv("NIXL_ETCD_NAMESPACE", "/one", 1);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_send(b.agent, &options), NIXL_SUCCESS);
    assert_true(etcd_has("/one/B/metadata"));
    setenv("NIXL_ETCD_NAMESPACE", "/two", 1);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_fetch(a.agent, "B", &brief), NIXL_ERR_CANCELED);
    side_end(&a);
    side_end(&b);
    unsetenv("NIXL_ETCD_NAMESPACE");
}

static void etcd_may_be_away_at_the_start_and_go_away_later(void **state) {
    struct nixl_options options = waiting(8000);
    struct nixl_options brief = waiting(300);
    struct side_of_test a;
    struct side_of_test b;
    unsigned char *more = malloc(8192);
    bool is_known = false;

    need_etcd();
    log_set_level(LOG_LEVEL_ERROR);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, true);
    etcd_server_kill(&server);
    assert_status(nixl_metadata_fetch(a.agent, "B", &brief), NIXL_ERR_CANCELED);
    assert_error("etcd at http://127.0.0.1:");
    assert_status(nixl_metadata_send(b.agent, NULL), NIXL_SUCCESS); /* waits for etcd */
    assert_true(etcd_server_run(&server));
    assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_SUCCESS);
    /* And again, while it is watched. */
    etcd_server_kill(&server);
    usleep(300000);
    assert_status(nixl_metadata_check(a.agent, "B", NULL), NIXL_SUCCESS);
    assert_true(etcd_server_run(&server));
    register_block(b.agent, more, 8192);
    assert_status(nixl_metadata_send(b.agent, &options), NIXL_SUCCESS);
    for (unsigned i = 0; i < 2500 && !is_known; i++) {
        is_known = knows(a.agent, "B", more, 8192);
        usleep(2000);
    }
    assert_true(is_known);
    side_end(&a);
    side_end(&b);
    free(more);
    log_reset();
}

static void of_several_endpoints_one_that_answers_is_enough(void **state) {
    struct nixl_options options = waiting(5000);
    struct side_of_test a;
    char both[128];

    need_etcd();
    snprintf(both, sizeof both, "http://127.0.0.1:%u, %s/", port_free(), endpoint);
    setenv("NIXL_ETCD_ENDPOINTS", both, 1);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_send(a.agent, &options), NIXL_SUCCESS);
    side_end(&a);
    setenv("NIXL_ETCD_ENDPOINTS", endpoint, 1);
}

static void endpoints_that_cannot_be_fail_the_agents_creation(void **state) {
    static const struct {
        const char *list, *words;
    } bad[] = {
        {"ftp://127.0.0.1", "neither http:// nor https://"},
        {" , ;", "names no endpoint"},
        {"http://", "must be host:port"},
        {"http://a:2379,https://b:0", "\"b:0\" has no port"},
        {"http://a:99999", "has no port"},
        {"http://a b:2379", "must be host:port"},
        {"http://[::1:2379", "no closing bracket"},
        {"http://me:secret@a:2379", "do not belong into"},
    };
    struct nixl_agent *agent;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("NIXL_ETCD_ENDPOINTS", bad[i].list, 1);
        assert_status(nixl_agent_create("bad", NULL, &agent), NIXL_ERR_INVALID_PARAM);
        assert_null(agent);
        assert_error("agent create: NIXL_ETCD_ENDPOINTS");
        assert_error(bad[i].words);
        assert_null(strstr(nixl_error(), "secret"));
    }
    setenv("NIXL_ETCD_ENDPOINTS", "https://[::1]:2379/;localhost,http://a-b.example_1:1", 1);
    assert_status(nixl_agent_create("good", NULL, &agent), NIXL_SUCCESS);
    nixl_agent_destroy(agent);
    setenv("NIXL_ETCD_ENDPOINTS", endpoint, 1);
}

static void a_wrong_password_is_told_and_a_right_one_lets_in(void **state) {
    struct nixl_options options = waiting(5000);
    struct side_of_test a;
    char answer[4096];

    need_etcd();
    etcd_post(&server, "/v3/auth/user/add", "{\"name\":\"root\",\"password\":\"se\\\"cret\"}", answer,
              sizeof answer);
    etcd_post(&server, "/v3/auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}", answer, sizeof answer);
    etcd_post(&server, "/v3/auth/enable", "{}", answer, sizeof answer);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_send(a.agent, &options), NIXL_ERR_BACKEND);
    assert_error("user name is empty");
    side_end(&a);
    setenv("NIXL_ETCD_USER", "root", 1);
    setenv("NIXL_ETCD_PASSWORD", "wrong", 1);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_send(a.agent, &options), NIXL_ERR_BACKEND);
    assert_error("user root is not let in");
    assert_null(strstr(nixl_error(), "wrong"));
    side_end(&a);
    setenv("NIXL_ETCD_PASSWORD", "se\"cret", 1);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_send(a.agent, &options), NIXL_SUCCESS);
    assert_status(nixl_metadata_invalidate_local(a.agent, &options), NIXL_SUCCESS);
    side_end(&a);
}

static int server_up(void **state) {
    if (etcd_server_start(&server)) {
        snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%u", server.port);
        setenv("NIXL_ETCD_ENDPOINTS", endpoint, 1);
    }
    exchange_install();
    return 0;
}

static int server_down(void **state) {
    etcd_server_end(&server);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(what_is_published_is_fetched_under_the_references_keys),
        TEST(a_fetch_before_the_publication_completes_with_it_and_holds_up_nothing),
        TEST(a_fetch_of_nobody_ends_in_time_with_words),
        TEST(what_is_published_again_reaches_those_who_watch),
        TEST(partial_metadata_has_its_own_label),
        TEST(keys_of_a_killed_agent_vanish_and_its_watchers_drop_it),
        TEST(the_end_of_an_agent_withdraws_what_it_published),
        TEST(namespaces_keep_equal_names_apart),
        TEST(etcd_may_be_away_at_the_start_and_go_away_later),
        TEST(of_several_endpoints_one_that_answers_is_enough),
        TEST(endpoints_that_cannot_be_fail_the_agents_creation),
        TEST(a_wrong_password_is_told_and_a_right_one_lets_in), /* the last: passwords stay on */
    };

    if (argc == 3 && strcmp(argv[1], "--agent") == 0) {
        return child_run(argv[2]);
    }
    return cmocka_run_group_tests(tests, server_up, server_down);
}
