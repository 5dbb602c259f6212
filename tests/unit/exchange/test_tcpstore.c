/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata through a TCPStore: a small one of this test's own that speaks PyTorch's protocol from its description. */
#include "sockets.h"

#include "base/clock.h"

#include <pthread.h>

#define ENTRIES 32

/* ---- the store ---- */

static struct {
    int listener;
    uint16_t port;
    pthread_mutex_t lock;
    struct entry {
        char key[256];
        struct bytes value;
        bool is_there;
    } entries[ENTRIES];
    bool is_silent; /* takes connections and answers nothing */
    bool is_wrong;  /* answers a ping with something else */
} store = {.listener = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

static bool take(int fd, void *to, size_t len) {
    return recv(fd, to, len, MSG_WAITALL) == (ssize_t)len;
}

static bool take_string(int fd, struct bytes *out) {
    uint64_t len;

    bytes_clear(out);
    if (!take(fd, &len, sizeof len) || len > 1 << 24) {
        return false;
    }
    return len == 0 || take(fd, bytes_extend(out, (size_t)len), (size_t)len);
}

static struct entry *entry_of(const struct bytes *key, bool makes) {
    struct entry *open = NULL;

    for (size_t i = 0; i < ENTRIES; i++) {
        struct entry *entry = &store.entries[i];

        if (entry->is_there && strlen(entry->key) == key->len &&
            memcmp(entry->key, key->data, key->len) == 0) {
            return entry;
        }
        open = !entry->is_there && open == NULL ? entry : open;
    }
    if (!makes || open == NULL || key->len >= sizeof open->key) {
        return NULL;
    }
    snprintf(open->key, sizeof open->key, "%.*s", (int)key->len, (const char *)key->data);
    open->is_there = true;
    return open;
}

static bool serve(int fd, uint8_t op, struct bytes *key, struct bytes *value) {
    struct entry *entry;
    uint32_t word;
    uint64_t count = 0;
    uint8_t byte;
    int64_t removed;
    bool good = true;

    switch (op) {
    case 0: /* VALIDATE */
        return take(fd, &word, sizeof word) && word == 0x3C85F7CE;
    case 13: /* PING */
        good = take(fd, &word, sizeof word);
        word += __atomic_load_n(&store.is_wrong, __ATOMIC_ACQUIRE);
        return good && send(fd, &word, sizeof word, MSG_NOSIGNAL) == sizeof word;
    case 1: /* SET */
        good = take_string(fd, key) && take_string(fd, value);
        entry = good ? entry_of(key, true) : NULL;
        if (entry != NULL) {
            bytes_clear(&entry->value);
            bytes_append(&entry->value, value->data, value->len);
        }
        return good;
    case 5: /* CHECK */
        byte = 0;
        good = take(fd, &count, sizeof count);
        for (; good && count != 0; count--) {
            good = take_string(fd, key);
            byte |= good && entry_of(key, false) == NULL;
        }
        return good && send(fd, &byte, 1, MSG_NOSIGNAL) == 1;
    case 3: /* GET; of a key that is not there it would wait */
        good = take_string(fd, key);
        entry = good ? entry_of(key, false) : NULL;
        if (entry == NULL) {
            return false;
        }
        count = entry->value.len;
        return send(fd, &count, sizeof count, MSG_NOSIGNAL) == sizeof count &&
               send(fd, entry->value.data, entry->value.len, MSG_NOSIGNAL) == (ssize_t)entry->value.len;
    case 8: /* DELETE_KEY */
        good = take_string(fd, key);
        entry = good ? entry_of(key, false) : NULL;
        removed = entry != NULL;
        if (entry != NULL) {
            entry->is_there = false;
        }
        return good && send(fd, &removed, sizeof removed, MSG_NOSIGNAL) == sizeof removed;
    default:
        return false;
    }
}

static void *connection_body(void *arg) {
    int fd = (int)(intptr_t)arg;
    struct bytes key = {0};
    struct bytes value = {0};
    uint8_t op;
    bool good = true;

    while (good && take(fd, &op, 1)) {
        while (__atomic_load_n(&store.is_silent, __ATOMIC_ACQUIRE)) {
            usleep(1000);
        }
        pthread_mutex_lock(&store.lock);
        good = serve(fd, op, &key, &value);
        pthread_mutex_unlock(&store.lock);
    }
    close(fd);
    bytes_free(&key);
    bytes_free(&value);
    return NULL;
}

static void *store_body(void *arg) {
    for (;;) {
        pthread_t thread;
        int fd = accept(store.listener, NULL, NULL);

        if (fd < 0) {
            return NULL;
        }
        pthread_create(&thread, NULL, connection_body, (void *)(intptr_t)fd);
        pthread_detach(thread);
    }
}

static bool store_has(const char *text) {
    struct bytes key = {.data = (uint8_t *)(uintptr_t)text, .len = strlen(text)};
    bool has;

    pthread_mutex_lock(&store.lock);
    has = entry_of(&key, false) != NULL;
    pthread_mutex_unlock(&store.lock);
    return has;
}

/* ---- tests ---- */

static struct nixl_options waiting(uint64_t wait_ms) {
    struct nixl_options options = NIXL_OPTIONS_INIT;

    options.wait_ms = wait_ms;
    return options;
}

static void what_is_published_is_fetched_under_the_references_keys(void **state) {
    struct nixl_options options = waiting(5000);
    struct side_of_test a;
    struct side_of_test b;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_send(b.agent, &options), NIXL_SUCCESS);
    assert_true(store_has("/nixl/agents/metadata/B/NULL_AGENT"));
    assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_SUCCESS);
    assert_true(knows(a.agent, "B", b.memory, MEMORY));
    options.label = "kv";
    assert_status(nixl_metadata_send(b.agent, &options), NIXL_SUCCESS);
    assert_true(store_has("/nixl/agents/kv/B/NULL_AGENT"));
    assert_status(nixl_metadata_invalidate_local(b.agent, &options), NIXL_SUCCESS);
    assert_false(store_has("/nixl/agents/kv/B/NULL_AGENT"));
    assert_false(store_has("/nixl/agents/metadata/B/NULL_AGENT"));
    /* TCPStore tells nobody. */
    assert_status(nixl_metadata_check(a.agent, "B", NULL), NIXL_SUCCESS);
    side_end(&a);
    side_end(&b);
}

static void a_fetch_before_the_publication_completes_with_it_and_holds_up_nothing(void **state) {
    struct nixl_options options = waiting(5000);
    struct side_of_test a;
    struct side_of_test b;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_fetch(b.agent, "A", NULL), NIXL_SUCCESS);
    assert_status(nixl_metadata_send(b.agent, &options), NIXL_SUCCESS);
    assert_status(nixl_metadata_check(b.agent, "A", NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_metadata_send(a.agent, NULL), NIXL_SUCCESS);
    assert_true(becomes(b.agent, "A", true));
    side_end(&a);
    assert_false(store_has("/nixl/agents/metadata/A/NULL_AGENT"));
    side_end(&b);
}

static void a_fetch_of_nobody_and_a_store_that_is_away_end_in_time_with_words(void **state) {
    struct nixl_options options = waiting(200);
    struct side_of_test a;
    char nowhere[64];
    char there[64];
    uint16_t port;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_fetch(a.agent, "nobody", &options), NIXL_ERR_CANCELED);
    assert_error("agent nobody has published nothing as \"metadata\"");
    side_end(&a);
    close(plain_listen(&port));
    snprintf(there, sizeof there, "%s", getenv("NIXL_TCPSTORE_ENDPOINT"));
    snprintf(nowhere, sizeof nowhere, "localhost:%u", port);
    setenv("NIXL_TCPSTORE_ENDPOINT", nowhere, 1);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_send(a.agent, &options), NIXL_ERR_CANCELED);
    assert_error("onnection refused");
    side_end(&a);
    setenv("NIXL_TCPSTORE_ENDPOINT", there, 1);
}

static void a_store_that_does_not_answer_or_is_none_is_told(void **state) {
    struct nixl_options options = waiting(600);
    struct side_of_test a;
    uint64_t start = clock_now_ns();

    setenv("NIXL_TCPSTORE_OP_TIMEOUT_MS", "100", 1);
    __atomic_store_n(&store.is_silent, true, __ATOMIC_RELEASE);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_send(a.agent, &options), NIXL_ERR_CANCELED);
    assert_error("timed out");
    side_end(&a);
    assert_true(clock_now_ns() - start < 5 * NS_PER_S);
    __atomic_store_n(&store.is_silent, false, __ATOMIC_RELEASE);
    __atomic_store_n(&store.is_wrong, true, __ATOMIC_RELEASE);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_send(a.agent, &options), NIXL_ERR_CANCELED);
    assert_error("this is no TCPStore");
    side_end(&a);
    __atomic_store_n(&store.is_wrong, false, __ATOMIC_RELEASE);
    unsetenv("NIXL_TCPSTORE_OP_TIMEOUT_MS");
}

static void settings_that_cannot_be_are_refused_in_words(void **state) {
    static const char *const bad[] = {"localhost",   "localhost:", ":29500",  "localhost:70000",
                                      "localhost:x", "::1:29500",  "[::1]29", "me:secret@localhost:29500"};
    struct nixl_agent *agent;
    char there[64];

    setenv("NIXL_ETCD_ENDPOINTS", "http://127.0.0.1:1", 1);
    assert_status(nixl_agent_create("both", NULL, &agent), NIXL_ERR_INVALID_PARAM);
    assert_error("NIXL_ETCD_ENDPOINTS and NIXL_TCPSTORE_ENDPOINT are both set");
    unsetenv("NIXL_ETCD_ENDPOINTS");
    snprintf(there, sizeof there, "%s", getenv("NIXL_TCPSTORE_ENDPOINT"));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("NIXL_TCPSTORE_ENDPOINT", bad[i], 1);
        assert_status(nixl_agent_create("bad", NULL, &agent), NIXL_ERR_INVALID_PARAM);
        assert_error("agent create: NIXL_TCPSTORE_ENDPOINT");
        assert_null(strstr(nixl_error(), "secret"));
    }
    setenv("NIXL_TCPSTORE_ENDPOINT", there, 1);
}

static int store_up(void **state) {
    static char endpoint[64];
    pthread_t thread;

    exchange_install();
    log_set_level(LOG_LEVEL_ERROR);
    store.listener = plain_listen(&store.port);
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%u", store.port);
    setenv("NIXL_TCPSTORE_ENDPOINT", endpoint, 1);
    return pthread_create(&thread, NULL, store_body, NULL) | pthread_detach(thread);
}

static int store_down(void **state) {
    shutdown(store.listener, SHUT_RDWR);
    usleep(20000);
    close(store.listener);
    for (size_t i = 0; i < ENTRIES; i++) {
        bytes_free(&store.entries[i].value);
    }
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_is_published_is_fetched_under_the_references_keys),
        TEST(a_fetch_before_the_publication_completes_with_it_and_holds_up_nothing),
        TEST(a_fetch_of_nobody_and_a_store_that_is_away_end_in_time_with_words),
        TEST(a_store_that_does_not_answer_or_is_none_is_told),
        TEST(settings_that_cannot_be_are_refused_in_words),
    };

    return cmocka_run_group_tests(tests, store_up, store_down);
}
