/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each allocation fails in turn, once: the call must say so, leave what was there as it was, and lose
 * nothing. The linker puts the functions below in front of the C library's (--wrap).
 */
#include "base/config.h"
#include "base/error.h"

#include "support.h"

#include "base/arena.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/thread.h"
#include "base/toml.h"

#include <errno.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);

static long until_failure = -1; /* allocations that still succeed; below 0: all */

static bool fails_now(void) {
    return until_failure >= 0 && until_failure-- == 0;
}

void *__wrap_malloc(size_t size) {
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) {
    return fails_now() ? NULL : __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size) {
    return fails_now() ? NULL : __real_aligned_alloc(align, size);
}

/* True when the countdown ran out, that is, when an allocation did fail. */
static bool disarm(void) {
    bool happened = until_failure < 0;

    until_failure = -1;
    return happened;
}

static void a_document_without_memory_is_refused_as_such(void **state) {
    static const char text[] = "a = 1\nb.c = \"text\"\n[t.u]\nk = [1, [2], {x = 'y'}]\nd = 1979-05-27\n"
                               "[[e]]\n\"quoted\" = \"\"\"\nlong\"\"\"\n[[e]]\nf = 0.5\n";
    long failures = 0;

    for (;;) {
        struct toml_doc *doc;
        char message[100];
        int rc;

        until_failure = failures;
        rc = toml_parse(text, sizeof text - 1, "f", &doc, message, sizeof message);
        if (!disarm()) {
            assert_int_equal(rc, 0);
            toml_free(doc);
            break;
        }
        assert_int_equal(rc, ENOMEM);
        assert_null(doc);
        assert_non_null(strstr(message, "out of memory"));
        failures++;
    }
    assert_true(failures > 40); /* 20 values, a name and a place in the index for most of them */
}

static void a_name_that_cannot_be_added_is_not_there(void **state) {
    static int value;
    char key[32];
    long failures = 0;

    for (;;) {
        struct hash table = {0};
        bool happened;
        int added = 0;
        int refused = 0;

        until_failure = failures;
        for (int i = 0; i < 1000; i++) {
            int len = snprintf(key, sizeof key, "name-%d", i);
            bool ok = hash_put(&table, key, (size_t)len, &value, NULL);

            added += ok ? 1 : 0;
            refused += ok ? 0 : 1;
            if (hash_has(&table, key, (size_t)len) != ok) {
                fail_msg("name-%d after failure %ld", i, failures);
            }
        }
        happened = disarm();
        assert_true(refused == (happened ? 1 : 0));
        assert_int_equal(hash_count(&table), added);
        hash_clear(&table, NULL);
        if (!happened) {
            break;
        }
        failures++;
    }
    assert_true(failures > 1000);
}

static void a_buffer_that_cannot_grow_keeps_its_bytes(void **state) {
    struct bytes b = {0};
    size_t cap;

    assert_true(bytes_append_text(&b, "kept"));
    cap = b.cap;
    until_failure = 0;
    assert_null(bytes_extend(&b, 1000));
    until_failure = 0;
    assert_false(bytes_append(&b, "0123456789", 10));
    assert_true(disarm());
    assert_int_equal(b.cap, cap);
    assert_int_equal(b.len, 4);
    assert_memory_equal(b.data, "kept", 4);
    bytes_free(&b);
}

static void an_arena_without_memory_stays_empty(void **state) {
    struct arena_plan plan = {.size = 100};
    struct arena arena;

    until_failure = 0;
    assert_false(arena_open(&arena, &plan));
    assert_true(disarm());
    assert_null(arena_take(&arena, 1, 1, 1));
    arena_close(&arena);
}

static void files_and_listings_say_enomem(void **state) {
    char *dir = temp_dir();
    char *data = NULL;
    char **names = NULL;
    size_t len;

    temp_write(dir, "a", "x");
    until_failure = 0;
    assert_int_equal(file_read("/proc/self/status", 1 << 20, &data, &len), ENOMEM);
    until_failure = 0;
    assert_int_equal(file_list(dir, &names, &len), ENOMEM);
    assert_true(disarm());
    assert_null(data);
    assert_null(names);
    temp_remove(dir);
}

static void nothing(void *arg) {}

static void a_thread_without_memory_does_not_start(void **state) {
    struct thread thread;

    until_failure = 0;
    assert_int_equal(thread_start(&thread, "x", nothing, NULL), ENOMEM);
    assert_true(disarm());
    thread_join(&thread);
}

static void a_setting_without_memory_is_an_error_in_words(void **state) {
    int64_t i = 3;

    unsetenv("NIXL_T");
    config_reload();
    until_failure = 0;
    assert_int_equal(config_get_int("NIXL_T", 0, &i), NIXL_ERR_BACKEND);
    assert_true(disarm());
    assert_string_equal(error_text(), "out of memory for the configuration");
    assert_true(i == 3);
    assert_int_equal(config_get_int("NIXL_T", 5, &i), NIXL_SUCCESS); /* it is tried again */
    assert_true(i == 5);
    config_reload();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_document_without_memory_is_refused_as_such),
        TEST(a_name_that_cannot_be_added_is_not_there),
        TEST(a_buffer_that_cannot_grow_keeps_its_bytes),
        TEST(an_arena_without_memory_stays_empty),
        TEST(files_and_listings_say_enomem),
        TEST(a_thread_without_memory_does_not_start),
        TEST(a_setting_without_memory_is_an_error_in_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
