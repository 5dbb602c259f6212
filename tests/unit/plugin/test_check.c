/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of operations that are of another interface, too short, or faulty. */
#include "support.h"
#include "table.h"

static struct nixl_backend_ops copy;

static nixl_status_t checked(const struct nixl_backend_ops *table) {
    return plugin_check("T", table, &copy);
}

static void a_good_table_is_copied(void **state) {
    struct nixl_backend_ops table = table_make("T");

    assert_int_equal(checked(&table), NIXL_SUCCESS);
    assert_string_equal(copy.version, "7.2");
    assert_ptr_equal(copy.post, table.post);
}

static void another_interface_is_refused_by_number(void **state) {
    struct nixl_backend_ops table = table_make("T");

    table.abi = 2;
    assert_int_equal(checked(&table), NIXL_ERR_MISMATCH);
    assert_words("plugin interface 2");
}

static void a_short_table_has_no_operations_beyond_its_size(void **state) {
    struct nixl_backend_ops table = table_make("T");

    table.view_open = (void *)(uintptr_t)0x1234;
    table.size = offsetof(struct nixl_backend_ops, arm);
    assert_int_equal(checked(&table), NIXL_SUCCESS);
    assert_null(copy.arm);
    assert_null(copy.view_open);
    table.size = offsetof(struct nixl_backend_ops, post);
    assert_int_equal(checked(&table), NIXL_ERR_BACKEND);
    assert_words("has no post");
}

static void a_size_that_cannot_be_is_refused(void **state) {
    struct nixl_backend_ops table = table_make("T");
    const size_t sizes[] = {0, 4, offsetof(struct nixl_backend_ops, open) - 1, SIZE_MAX};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        table.size = sizes[i];
        assert_int_equal(checked(&table), NIXL_ERR_MISMATCH);
    }
}

static void a_longer_table_of_a_later_version_is_taken(void **state) {
    struct {
        struct nixl_backend_ops table;
        void *later[4];
    } longer = {.table = table_make("T")};

    longer.table.size = sizeof longer;
    assert_int_equal(checked(&longer.table), NIXL_SUCCESS);
}

static void names_are_asked_for(void **state) {
    struct nixl_backend_ops table = table_make("T");

    table.name = "OTHER";
    assert_int_equal(checked(&table), NIXL_ERR_BACKEND);
    assert_words("calls itself OTHER");
    table = table_make(NULL);
    assert_int_equal(checked(&table), NIXL_ERR_BACKEND);
    table = table_make("T");
    table.version = NULL;
    assert_int_equal(checked(&table), NIXL_ERR_BACKEND);
}

static void a_backend_for_no_memory_is_refused(void **state) {
    struct nixl_backend_ops table = table_make("T");

    table.mems = 1u << NIXL_MEM_KINDS;
    assert_int_equal(checked(&table), NIXL_ERR_BACKEND);
    assert_words("no kind of memory");
}

/* Takes one operation away and looks for its name in the words. */
#define LACKS(member)                                                                                        \
    do {                                                                                                     \
        struct nixl_backend_ops table = table_make("T");                                                     \
        table.member = NULL;                                                                                 \
        assert_int_equal(checked(&table), NIXL_ERR_BACKEND);                                                 \
        assert_words("has no " #member);                                                                     \
    } while (0)

static void each_operation_that_is_needed_is_named_when_it_lacks(void **state) {
    LACKS(open);
    LACKS(close);
    LACKS(region_open);
    LACKS(region_close);
    LACKS(post);
    LACKS(cancel);
    LACKS(region_key);
    LACKS(conn_info);
    LACKS(peer_open);
    LACKS(peer_close);
    LACKS(key_open);
    LACKS(key_close);
    LACKS(notify);
}

static void a_storage_backend_needs_no_peers(void **state) {
    struct nixl_backend_ops table = table_make("T");

    table.caps = NIXL_CAP_LOCAL;
    table.region_key = NULL;
    table.conn_info = NULL;
    table.peer_open = NULL;
    table.peer_close = NULL;
    table.key_open = NULL;
    table.key_close = NULL;
    table.notify = NULL;
    assert_int_equal(checked(&table), NIXL_SUCCESS);
}

static void option_refused(struct nixl_option option, const char *words) {
    struct nixl_backend_ops table = table_make("T");
    struct nixl_option two[2] = {table_option_list[0], option};

    table.options = two;
    table.option_count = 2;
    assert_int_equal(checked(&table), NIXL_ERR_BACKEND);
    assert_words(words);
}

static void faulty_options_are_refused_by_name(void **state) {
    struct nixl_option option = table_option_list[1];

    option.name = NULL;
    option_refused(option, "option 1 has no name");
    option = table_option_list[1];
    option.default_value = NULL;
    option_refused(option, "option depth has no default");
    option.default_value = "11";
    option_refused(option, "the default of option depth is out of range (-10 to 10)");
    option = table_option_list[1];
    option.help = NULL;
    option_refused(option, "option depth has no help");
    option = table_option_list[1];
    option.kind = (enum nixl_option_kind)17;
    option_refused(option, "unknown kind 17");
    option = table_option_list[1];
    option.offset = sizeof(struct table_options) - 4;
    option_refused(option, "outside its struct");
    option.offset = SIZE_MAX - 7;
    option_refused(option, "outside its struct");
    option = table_option_list[6];
    option.choices = NULL;
    option_refused(option, "option mode has no choices");
    option = table_option_list[1];
    option.name = "switch";
    option_refused(option, "share a name");
}

static void absurd_counts_are_refused(void **state) {
    struct nixl_backend_ops table = table_make("T");

    table.option_count = SIZE_MAX;
    assert_int_equal(checked(&table), NIXL_ERR_BACKEND);
    table = table_make("T");
    table.options = NULL;
    assert_int_equal(checked(&table), NIXL_ERR_BACKEND);
    table = table_make("T");
    table.request_bytes = SIZE_MAX;
    assert_int_equal(checked(&table), NIXL_ERR_BACKEND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_good_table_is_copied),
        TEST(another_interface_is_refused_by_number),
        TEST(a_short_table_has_no_operations_beyond_its_size),
        TEST(a_size_that_cannot_be_is_refused),
        TEST(a_longer_table_of_a_later_version_is_taken),
        TEST(names_are_asked_for),
        TEST(a_backend_for_no_memory_is_refused),
        TEST(each_operation_that_is_needed_is_named_when_it_lacks),
        TEST(a_storage_backend_needs_no_peers),
        TEST(faulty_options_are_refused_by_name),
        TEST(absurd_counts_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
