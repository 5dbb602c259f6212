/* SPDX-License-Identifier: Apache-2.0 */
/* The table of names. */
#include "support.h"

#include "base/hash.h"

static int values[20000];

static void names_find_their_values(void **state) {
    struct hash table = {0};
    char key[32];

    for (int i = 0; i < 20000; i++) {
        int len = snprintf(key, sizeof key, "agent-%d", i);

        assert_true(hash_put(&table, key, (size_t)len, &values[i], NULL));
    }
    assert_int_equal(hash_count(&table), 20000);
    for (int i = 0; i < 20000; i++) {
        int len = snprintf(key, sizeof key, "agent-%d", i);

        assert_ptr_equal(hash_get(&table, key, (size_t)len), &values[i]);
    }
    assert_null(hash_get(&table, "agent-20000", 11));
    for (int i = 0; i < 20000; i += 2) {
        int len = snprintf(key, sizeof key, "agent-%d", i);

        assert_ptr_equal(hash_remove(&table, key, (size_t)len), &values[i]);
        assert_null(hash_remove(&table, key, (size_t)len));
    }
    assert_int_equal(hash_count(&table), 10000);
    assert_null(hash_get(&table, "agent-4", 7));
    assert_ptr_equal(hash_get(&table, "agent-5", 7), &values[5]);
    hash_clear(&table, NULL);
    assert_int_equal(hash_count(&table), 0);
}

static void putting_again_replaces_and_gives_the_old_value(void **state) {
    struct hash table = {0};
    void *old = &values[9];

    assert_true(hash_put(&table, "a", 1, &values[1], &old));
    assert_null(old);
    assert_true(hash_put(&table, "a", 1, &values[2], &old));
    assert_ptr_equal(old, &values[1]);
    assert_ptr_equal(hash_get(&table, "a", 1), &values[2]);
    assert_int_equal(hash_count(&table), 1);
    hash_clear(&table, NULL);
}

static void keys_are_any_bytes_and_are_copied(void **state) {
    struct hash table = {0};
    char key[3] = {'a', '\0', 'b'};

    assert_true(hash_put(&table, key, 3, &values[1], NULL));
    assert_true(hash_put(&table, "", 0, &values[2], NULL));
    key[0] = 'z';
    assert_ptr_equal(hash_get(&table, "a\0b", 3), &values[1]);
    assert_null(hash_get(&table, "a\0c", 3));
    assert_null(hash_get(&table, "a", 1));
    assert_ptr_equal(hash_get(&table, "", 0), &values[2]);
    hash_clear(&table, NULL);
}

static void a_null_value_is_still_there(void **state) {
    struct hash table = {0};

    assert_true(hash_put(&table, "n", 1, NULL, NULL));
    assert_null(hash_get(&table, "n", 1));
    assert_true(hash_has(&table, "n", 1));
    assert_false(hash_has(&table, "m", 1));
    hash_clear(&table, free); /* NULL is not handed to the destructor's trouble */
}

static bool visit_collect(const char *key, size_t len, void *value, void *ctx) {
    strncat(ctx, key, len);
    return strlen(ctx) < 4;
}

static void a_walk_goes_in_the_order_of_insertion_and_can_stop(void **state) {
    struct hash table = {0};
    char seen[8] = "";

    for (const char *c = "dabce"; *c != '\0'; c++) {
        assert_true(hash_put(&table, c, 1, &values[0], NULL));
    }
    hash_each(&table, visit_collect, seen);
    assert_string_equal(seen, "dabc");
    hash_clear(&table, NULL);
}

static bool visit_remove(const char *key, size_t len, void *value, void *ctx) {
    assert_ptr_equal(hash_remove(ctx, key, len), value);
    return true;
}

static void a_walk_may_remove_what_it_visits(void **state) {
    struct hash table = {0};

    for (const char *c = "dabce"; *c != '\0'; c++) {
        assert_true(hash_put(&table, c, 1, &values[0], NULL));
    }
    hash_each(&table, visit_remove, &table);
    assert_int_equal(hash_count(&table), 0);
}

static void clearing_frees_the_values(void **state) {
    struct hash table = {0};

    for (const char *c = "abc"; *c != '\0'; c++) {
        assert_true(hash_put(&table, c, 1, malloc(10), NULL)); /* the leak checker is the witness */
    }
    hash_clear(&table, free);
    assert_int_equal(hash_count(&table), 0);
}

/* 2^16 keys that differ in one short field must fall evenly into 256 buckets by their low bits. */
static void hashes_spread_evenly(void **state) {
    unsigned buckets[256] = {0};

    for (uint32_t i = 0; i < 65536; i++) {
        buckets[hash_bytes(&i, sizeof i) & 255]++;
    }
    for (size_t i = 0; i < 256; i++) {
        assert_in_range(buckets[i], 160, 352); /* mean 256, deviation 16: six of them */
    }
}

static void the_hash_depends_on_every_byte_and_the_length(void **state) {
    char a[40] = {0};
    uint64_t plain = hash_bytes(a, sizeof a);

    for (size_t i = 0; i < sizeof a; i++) {
        a[i] = 1;
        assert_true(hash_bytes(a, sizeof a) != plain);
        a[i] = 0;
        assert_true(hash_bytes(a, i) != plain);
    }
    assert_true(hash_bytes(a, sizeof a) == plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(names_find_their_values),
        TEST(putting_again_replaces_and_gives_the_old_value),
        TEST(keys_are_any_bytes_and_are_copied),
        TEST(a_null_value_is_still_there),
        TEST(a_walk_goes_in_the_order_of_insertion_and_can_stop),
        TEST(a_walk_may_remove_what_it_visits),
        TEST(clearing_frees_the_values),
        TEST(hashes_spread_evenly),
        TEST(the_hash_depends_on_every_byte_and_the_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
