/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of etcd's gateway, as etcd 3.4 writes them, and base64 by RFC 4648's own examples. */
#include "sockets.h"

#include "exchange/etcd_reply.h"

#define HEADER "\"header\":{\"cluster_id\":\"1\",\"revision\":\"42\",\"raft_term\":\"2\"}"

static nixl_status_t reply_of(const char *text, struct etcd_reply *reply) {
    return etcd_reply_read(libs_get(), text, strlen(text), reply);
}

static nixl_status_t news_of(const char *text, struct etcd_news *news) {
    return etcd_news_read(libs_get(), text, strlen(text), news);
}

static void base64_is_that_of_rfc_4648(void **state) {
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    static const char *const bad[] = {"Zg=", "Zg", "Z===", "====", "Zg==Zg==", "Zm9*", "Zm8=Zm9v"};
    struct bytes out = {0};

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        bytes_clear(&out);
        assert_true(base64_append(&out, pairs[i][0], strlen(pairs[i][0])));
        assert_int_equal(out.len, strlen(pairs[i][1]));
        assert_memory_equal(out.data, pairs[i][1], out.len);
        bytes_clear(&out);
        assert_true(base64_decode(&out, pairs[i][1], strlen(pairs[i][1])));
        assert_int_equal(out.len, strlen(pairs[i][0]));
        assert_memory_equal(out.data, pairs[i][0], out.len);
    }
    bytes_clear(&out);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(base64_decode(&out, bad[i], strlen(bad[i])));
        assert_int_equal(out.len, 0);
    }
    bytes_free(&out);
}

static void values_leases_and_tokens_are_read(void **state) {
    struct etcd_reply reply;

    assert_status(reply_of("{" HEADER ",\"ID\":\"1418812211000395269\",\"TTL\":\"5\"}", &reply),
                  NIXL_SUCCESS);
    assert_int_equal(reply.id, INT64_C(1418812211000395269));
    assert_int_equal(reply.ttl, 5);
    assert_int_equal(reply.revision, 42);
    etcd_reply_free(&reply);
    /* A lease that has run out: the time to live is left out. */
    assert_status(reply_of("{\"result\":{" HEADER ",\"ID\":\"123\"}}", &reply), NIXL_SUCCESS);
    assert_int_equal(reply.id, 123);
    assert_int_equal(reply.ttl, 0);
    etcd_reply_free(&reply);
    assert_status(reply_of("{" HEADER
                           ",\"kvs\":[{\"key\":\"L2E=\",\"mod_revision\":\"7\",\"value\":\"AAH/\"},"
                           "{\"key\":\"L2I=\"}],\"count\":\"2\"}",
                           &reply),
                  NIXL_SUCCESS);
    assert_int_equal(reply.kv_count, 2);
    assert_int_equal(reply.kvs[0].mod_revision, 7);
    assert_int_equal(reply.kvs[0].value.len, 3);
    assert_memory_equal(reply.kvs[0].value.data, "\0\1\377", 3);
    assert_memory_equal(reply.kvs[1].key.data, "/b", 2);
    assert_int_equal(reply.kvs[1].value.len, 0);
    etcd_reply_free(&reply);
    assert_status(reply_of("{" HEADER ",\"token\":\"abc.9\"}", &reply), NIXL_SUCCESS);
    assert_string_equal(reply.token, "abc.9");
    etcd_reply_free(&reply);
}

static void errors_of_both_forms_have_words_and_a_code(void **state) {
    struct etcd_reply reply;

    assert_status(reply_of("{\"error\":\"no lease\",\"message\":\"no lease\",\"code\":5}", &reply),
                  NIXL_SUCCESS);
    assert_true(reply.is_error);
    assert_string_equal(reply.error, "no lease");
    assert_int_equal(reply.code, 5);
    etcd_reply_free(&reply);
    assert_status(reply_of("{\"error\":{\"grpc_code\":14,\"message\":\"gone\"}}", &reply), NIXL_SUCCESS);
    assert_true(reply.is_error);
    assert_string_equal(reply.error, "gone");
    assert_int_equal(reply.code, 14);
    etcd_reply_free(&reply);
}

static void all_events_of_one_answer_are_read(void **state) {
    struct etcd_news news;

    assert_status(news_of("{\"result\":{" HEADER ",\"watch_id\":\"7\",\"events\":["
                          "{\"kv\":{\"key\":\"L2E=\",\"mod_revision\":\"2\",\"value\":\"Zm9v\"}},"
                          "{\"type\":\"DELETE\",\"kv\":{\"key\":\"L2I=\",\"mod_revision\":\"3\"}}]}}",
                          &news),
                  NIXL_SUCCESS);
    assert_int_equal(news.watch_id, 7);
    assert_int_equal(news.event_count, 2);
    assert_false(news.events[0].is_delete);
    assert_memory_equal(news.events[0].value.data, "foo", 3);
    assert_true(news.events[1].is_delete);
    assert_memory_equal(news.events[1].key.data, "/b", 2);
    assert_int_equal(news.events[1].revision, 3);
    etcd_news_free(&news);
    assert_status(news_of("{\"result\":{" HEADER ",\"canceled\":true,\"compact_revision\":\"9\"}}", &news),
                  NIXL_SUCCESS);
    assert_true(news.is_canceled);
    assert_int_equal(news.compact_revision, 9);
    etcd_news_free(&news);
}

static void what_is_not_of_etcd_is_refused(void **state) {
    static const char *const texts[] = {
        "", "[]", "<html>", "{\"kvs\":7}", "{\"kvs\":[{\"key\":\"*\"}]}", "{\"kvs\":[{\"key\":5}]}"};
    struct etcd_reply reply;
    struct etcd_news news;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_status(reply_of(texts[i], &reply), NIXL_ERR_MISMATCH);
        assert_error("no answer of etcd's gateway");
    }
    assert_status(news_of("{}", &news), NIXL_ERR_MISMATCH);
    assert_status(news_of("{\"result\":{\"events\":[{\"kv\":{\"key\":\"*\"}}]}}", &news), NIXL_ERR_MISMATCH);
}

static void strings_are_quoted_for_json(void **state) {
    struct bytes out = {0};

    assert_true(json_quote_append(&out, "a\"b\\c\n"));
    assert_int_equal(out.len, 23);
    assert_memory_equal(out.data, "\"a\\u0022b\\u005cc\\u000a\"", 23);
    bytes_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(base64_is_that_of_rfc_4648),
        TEST(values_leases_and_tokens_are_read),
        TEST(errors_of_both_forms_have_words_and_a_code),
        TEST(all_events_of_one_answer_are_read),
        TEST(what_is_not_of_etcd_is_refused),
        TEST(strings_are_quoted_for_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
