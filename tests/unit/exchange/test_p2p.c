/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata over sockets between agents of one process, and against sockets that speak frames by hand. */
#include "sockets.h"

#include "base/clock.h"

#include <sys/resource.h>

static unsigned threads_here(void) {
    unsigned count = 0;
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];

    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, "Threads: %u", &count);
    }
    fclose(file);
    return count;
}

static void an_agent_that_does_not_ask_for_it_starts_no_thread(void **state) {
    unsigned before = threads_here();
    struct nixl_agent *agent;

    assert_status(nixl_agent_create("quiet", NULL, &agent), NIXL_SUCCESS);
    assert_int_equal(threads_here(), before);
    assert_int_equal(nixl_agent_listen_port(agent), 0);
    nixl_agent_destroy(agent);
}

static void a_fetch_without_a_listener_of_ones_own_brings_the_peer(void **state) {
    struct side_of_test a;
    struct side_of_test b;
    struct nixl_options options;
    uint64_t start;
    uint64_t best = UINT64_MAX;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    listener_begin(&b, "B");
    options = to_side(&b, 3000);
    for (unsigned i = 0; i < 20; i++) {
        start = clock_now_ns();
        assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_SUCCESS);
        best = clock_now_ns() - start < best ? clock_now_ns() - start : best;
    }
    assert_true(knows(a.agent, "B", b.memory, MEMORY));
    print_message("# a fetch over loopback takes %llu us\n", (unsigned long long)(best / 1000));
    /* The reference looks every 100 ms. */
    assert_true(best < 20 * NS_PER_MS);
    side_end(&a);
    side_end(&b);
}

static void a_plain_fetch_returns_at_once_and_the_peer_appears(void **state) {
    struct side_of_test a;
    struct side_of_test b;
    struct nixl_options options;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    listener_begin(&b, "B");
    options = to_side(&b, 0);
    assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_SUCCESS);
    assert_true(becomes(a.agent, "B", true));
    side_end(&a);
    side_end(&b);
}

static void what_is_sent_is_known_there_when_the_wait_is_over(void **state) {
    struct side_of_test a;
    struct side_of_test b;
    struct nixl_options options;
    struct nixl_desc half;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &half, 1);
    unsigned char *more = malloc(4096);

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    listener_begin(&b, "B");
    options = to_side(&b, 3000);
    assert_status(nixl_metadata_send(a.agent, &options), NIXL_SUCCESS);
    assert_true(knows(b.agent, "A", a.memory, MEMORY));
    assert_status(nixl_metadata_check(a.agent, "B", NULL), NIXL_ERR_NOT_FOUND);
    register_block(a.agent, more, 4096);
    half = (struct nixl_desc){(uintptr_t)more, 4096, 0};
    assert_status(nixl_metadata_send_partial(a.agent, &list, &options), NIXL_SUCCESS);
    assert_true(knows(b.agent, "A", more, 4096));
    assert_status(nixl_metadata_invalidate_local(a.agent, &options), NIXL_SUCCESS);
    assert_status(nixl_metadata_check(b.agent, "A", NULL), NIXL_ERR_NOT_FOUND);
    side_end(&a);
    side_end(&b);
    free(more);
}

static void what_was_sent_arrives_though_the_agent_ends_at_once(void **state) {
    struct side_of_test a;
    struct side_of_test b;
    struct nixl_options options;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    listener_begin(&b, "B");
    options = to_side(&b, 0);
    assert_status(nixl_metadata_send(a.agent, &options), NIXL_SUCCESS);
    side_end(&a);
    assert_true(becomes(b.agent, "A", true));
    side_end(&b);
}

static void invalidation_reaches_a_peer_that_has_no_listener(void **state) {
    struct side_of_test a;
    struct side_of_test b;
    struct nixl_options options;
    uint16_t nobody;
    int fd = plain_listen(&nobody);

    close(fd);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    listener_begin(&b, "B");
    options = to_side(&b, 3000);
    assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_SUCCESS);
    options = to_port(nobody, 1000);
    assert_status(nixl_metadata_invalidate_local(b.agent, &options), NIXL_SUCCESS);
    assert_true(becomes(a.agent, "B", false));
    side_end(&a);
    side_end(&b);
}

static void a_peer_that_is_not_the_one_asked_for_is_not_loaded(void **state) {
    struct side_of_test a;
    struct side_of_test b;
    struct nixl_options options;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    listener_begin(&b, "B");
    options = to_side(&b, 3000);
    assert_status(nixl_metadata_fetch(a.agent, "C", &options), NIXL_ERR_MISMATCH);
    assert_error("agent \"C\" was asked for, and agent \"B\" answers there");
    assert_status(nixl_metadata_check(a.agent, "B", NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_metadata_check(a.agent, "C", NULL), NIXL_ERR_NOT_FOUND);
    assert_error("agent \"B\" answers there");
    side_end(&a);
    side_end(&b);
}

static void a_fetch_of_an_agent_that_comes_later_completes_when_it_comes(void **state) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct side_of_test a;
    struct side_of_test b;
    struct side_of_test c;
    struct nixl_options later;
    struct nixl_options now;
    uint16_t port;
    int fd = plain_listen(&port);

    close(fd);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    listener_begin(&c, "C");
    later = to_port(port, 0);
    now = to_side(&c, 2000);
    assert_status(nixl_metadata_fetch(a.agent, "B", &later), NIXL_SUCCESS);
    assert_status(nixl_metadata_fetch(a.agent, "C", &now), NIXL_SUCCESS);
    assert_status(nixl_metadata_check(a.agent, "B", NULL), NIXL_ERR_NOT_FOUND);
    assert_error("refused");
    config.listen_thread = true;
    config.listen_port = port;
    side_begin(&b, "B", &config, "MOCK", NULL, 0, true);
    assert_true(becomes(a.agent, "B", true));
    side_end(&a);
    side_end(&b);
    side_end(&c);
}

static void a_connection_that_is_not_answered_is_tried_again(void **state) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct side_of_test a;
    struct side_of_test b;
    struct nixl_options options;
    uint16_t port;
    int full[3];
    int fd = plain_listen(&port);

    /* A queue of one that is full: further connections are not answered, until the listener has gone. */
    assert_int_equal(listen(fd, 0), 0);
    address.sin_port = htons(port);
    for (unsigned i = 0; i < 3; i++) {
        full[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(full[i], (struct sockaddr *)&address, sizeof address);
    }
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    options = to_port(port, 0);
    assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_SUCCESS);
    usleep(1200000);
    assert_status(nixl_metadata_check(a.agent, "B", NULL), NIXL_ERR_NOT_FOUND);
    assert_error("no answer within 1000 ms");
    for (unsigned i = 0; i < 3; i++) {
        close(full[i]);
    }
    close(fd);
    config.listen_thread = true;
    config.listen_port = port;
    config.listen_address = "127.0.0.1";
    side_begin(&b, "B", &config, "MOCK", NULL, 0, true);
    assert_true(becomes(a.agent, "B", true));
    side_end(&a);
    side_end(&b);
}

static void a_wait_ends_in_time_with_words(void **state) {
    struct side_of_test a;
    struct nixl_options options;
    uint16_t port;
    int fd = plain_listen(&port);
    uint64_t start = clock_now_ns();

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    options = to_port(port, 200); /* connects, and is never answered */
    assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_ERR_CANCELED);
    assert_error("does not answer");
    close(fd);
    assert_status(nixl_metadata_send(a.agent, &options), NIXL_ERR_CANCELED);
    assert_error("onnection refused");
    assert_true(clock_now_ns() - start < 3 * NS_PER_S);
    /* The plain forms return as the reference's do: the network is no failure of theirs. */
    options.wait_ms = 0;
    assert_status(nixl_metadata_send(a.agent, &options), NIXL_SUCCESS);
    assert_status(nixl_metadata_invalidate_local(a.agent, &options), NIXL_SUCCESS);
    side_end(&a);
}

static void host_names_and_ipv6_are_understood(void **state) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct side_of_test a;
    struct side_of_test b;
    struct nixl_options options;

    config.listen_thread = true;
    config.listen_port = 0;
    side_begin(&b, "B", &config, "MOCK", NULL, 0, true);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    options = to_side(&b, 2000);
    for (unsigned i = 0; i < 4; i++) {
        static const char *const hosts[] = {"::1", "[::1]", "localhost", "127.0.0.1"};

        options.ip_addr = hosts[i];
        assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_SUCCESS);
        assert_status(nixl_metadata_invalidate(a.agent, "B"), NIXL_SUCCESS);
    }
    options.ip_addr = "no-such-host.invalid";
    assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_ERR_NOT_FOUND);
    assert_error("no-such-host.invalid");
    options.wait_ms = 0;
    assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_SUCCESS);
    assert_status(nixl_metadata_check(a.agent, "B", NULL), NIXL_ERR_NOT_FOUND);
    assert_error("no-such-host.invalid");
    side_end(&a);
    side_end(&b);
}

static void a_taken_port_fails_the_agent_in_words(void **state) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_agent *agent;
    uint16_t port;
    int fd = plain_listen(&port);

    config.listen_thread = true;
    config.listen_port = port;
    assert_status(nixl_agent_create("late", &config, &agent), NIXL_ERR_BACKEND);
    assert_null(agent);
    assert_error("agent create: listen for metadata on all addresses, port");
    assert_error("another program has it");
    config.listen_address = "not an address";
    assert_status(nixl_agent_create("late", &config, &agent), NIXL_ERR_INVALID_PARAM);
    assert_error("not an address");
    close(fd);
}

static void without_an_address_and_a_store_a_call_says_what_is_missing(void **state) {
    struct side_of_test a;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_send(a.agent, NULL), NIXL_ERR_INVALID_PARAM);
    assert_error("NIXL_ETCD_ENDPOINTS");
    assert_status(nixl_metadata_fetch(a.agent, "B", NULL), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_metadata_invalidate_local(a.agent, NULL), NIXL_ERR_INVALID_PARAM);
    side_end(&a);
}

static char port_line[256];
static int port_level;

static void on_line(int level, const char *line, void *ctx) {
    if (strstr(line, "MD listener is listening on port ") != NULL) {
        snprintf(port_line, sizeof port_line, "%s", line);
        port_level = level;
    }
}

static void the_line_with_the_port_is_where_scripts_look(void **state) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_agent *agent;
    char expected[64];
    uint16_t port;

    log_set_sink(on_line, NULL);
    log_set_level(LOG_LEVEL_DEBUG);
    config.listen_thread = true;
    config.listen_port = 0;
    assert_status(nixl_agent_create("any port", &config, &agent), NIXL_SUCCESS);
    port = nixl_agent_listen_port(agent);
    snprintf(expected, sizeof expected, "MD listener is listening on port %u\n", port);
    assert_words(port_line, expected);
    assert_int_equal(port_level, LOG_LEVEL_INFO);
    nixl_agent_destroy(agent);
    config.listen_port = port;
    assert_status(nixl_agent_create("that port", &config, &agent), NIXL_SUCCESS);
    assert_words(port_line, expected);
    assert_int_equal(port_level, LOG_LEVEL_DEBUG);
    nixl_agent_destroy(agent);
    log_reset();
}

static void many_threads_fetch_and_send_at_once(void **state);

struct crowd {
    struct nixl_agent *agent;
    struct nixl_options options;
    unsigned failed;
};

static void *crowd_body(void *arg) {
    struct crowd *crowd = arg;

    for (unsigned i = 0; i < 20; i++) {
        bool good = nixl_metadata_fetch(crowd->agent, "B", &crowd->options) == NIXL_SUCCESS &&
                    nixl_metadata_send(crowd->agent, &crowd->options) == NIXL_SUCCESS;

        if (!good) {
            __atomic_fetch_add(&crowd->failed, 1, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

static void many_threads_fetch_and_send_at_once(void **state) {
    struct side_of_test a;
    struct side_of_test b;
    struct crowd crowd = {.failed = 0};
    pthread_t threads[8];

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    listener_begin(&b, "B");
    crowd.agent = a.agent;
    crowd.options = to_side(&b, 10000);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_body, &crowd), 0);
    }
    for (unsigned i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(crowd.failed, 0);
    side_end(&a);
    side_end(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_agent_that_does_not_ask_for_it_starts_no_thread),
        TEST(a_fetch_without_a_listener_of_ones_own_brings_the_peer),
        TEST(a_plain_fetch_returns_at_once_and_the_peer_appears),
        TEST(what_is_sent_is_known_there_when_the_wait_is_over),
        TEST(what_was_sent_arrives_though_the_agent_ends_at_once),
        TEST(invalidation_reaches_a_peer_that_has_no_listener),
        TEST(a_peer_that_is_not_the_one_asked_for_is_not_loaded),
        TEST(a_fetch_of_an_agent_that_comes_later_completes_when_it_comes),
        TEST(a_connection_that_is_not_answered_is_tried_again),
        TEST(a_wait_ends_in_time_with_words),
        TEST(host_names_and_ipv6_are_understood),
        TEST(a_taken_port_fails_the_agent_in_words),
        TEST(without_an_address_and_a_store_a_call_says_what_is_missing),
        TEST(the_line_with_the_port_is_where_scripts_look),
        TEST(many_threads_fetch_and_send_at_once),
    };

    return cmocka_run_group_tests(tests, exchange_group, NULL);
}
