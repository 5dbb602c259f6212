/* SPDX-License-Identifier: Apache-2.0 */
/* Options by a table: where values come from, what is refused, how they are shown. */
#include "support.h"
#include "table.h"

static struct plugin plugin_of(void) {
    struct plugin plugin = {.name = "T", .path = "(static)", .ops = table_make("T")};

    return plugin;
}

static void refused(const struct nixl_param *params, size_t count, const char *words) {
    struct plugin plugin = plugin_of();
    struct plugin_options options;

    assert_int_equal(plugin_options_parse(&plugin, params, count, &options), NIXL_ERR_INVALID_PARAM);
    assert_words(words);
    assert_null(options.values);
}

static void defaults_fill_the_struct(void **state) {
    struct plugin plugin = plugin_of();
    struct plugin_options options;
    const struct table_options *o;

    assert_int_equal(plugin_options_parse(&plugin, NULL, 0, &options), NIXL_SUCCESS);
    o = options.values;
    assert_false(o->flag);
    assert_true(o->depth == -3);
    assert_int_equal(o->count, 4);
    assert_int_equal(o->bytes, 65536);
    assert_string_equal(o->path, "");
    assert_int_equal(o->mode, 1);
    plugin_options_free(&options);
    plugin_options_free(&options);
}

static void parameters_override_by_name_and_by_alias(void **state) {
    struct plugin plugin = plugin_of();
    struct plugin_options options;
    const struct table_options *o;
    const struct nixl_param params[] = {{"switch", "Enable"}, {"depth", "10"},    {"count", "0x40"},
                                        {"bytes", "2M"},      {"path", "/a b=c"}, {"mode", "all"}};

    assert_int_equal(plugin_options_parse(&plugin, params, 6, &options), NIXL_SUCCESS);
    o = options.values;
    assert_true(o->flag);
    assert_true(o->depth == 10);
    assert_int_equal(o->count, 64);
    assert_int_equal(o->bytes, 2 << 20);
    assert_string_equal(o->path, "/a b=c");
    assert_int_equal(o->mode, 2);
    plugin_options_free(&options);
}

static void strings_outlive_what_the_caller_gave(void **state) {
    struct plugin plugin = plugin_of();
    struct plugin_options options;
    char value[16] = "/data";
    const struct nixl_param param = {"path", value};

    assert_int_equal(plugin_options_parse(&plugin, &param, 1, &options), NIXL_SUCCESS);
    strcpy(value, "gone");
    assert_string_equal(((const struct table_options *)options.values)->path, "/data");
    plugin_options_free(&options);
}

static void the_environment_counts_where_no_parameter_is_given(void **state) {
    struct plugin plugin = plugin_of();
    struct plugin_options options;
    const struct nixl_param param = {"count", "9"};

    setenv("NIXL_TEST_TABLE_COUNT", "7", 1);
    assert_int_equal(plugin_options_parse(&plugin, NULL, 0, &options), NIXL_SUCCESS);
    assert_int_equal(((const struct table_options *)options.values)->count, 7);
    plugin_options_free(&options);
    assert_int_equal(plugin_options_parse(&plugin, &param, 1, &options), NIXL_SUCCESS);
    assert_int_equal(((const struct table_options *)options.values)->count, 9);
    plugin_options_free(&options);
    setenv("NIXL_TEST_TABLE_COUNT", "many", 1);
    refused(NULL, 0, "NIXL_TEST_TABLE_COUNT");
    unsetenv("NIXL_TEST_TABLE_COUNT");
}

static void an_unknown_name_is_refused_with_the_known_ones(void **state) {
    const struct nixl_param param = {"dept", "1"};

    refused(&param, 1, "no parameter \"dept\": it has flag, depth, count, bytes, path, secret, mode");
}

static void a_name_given_twice_is_refused_also_under_its_alias(void **state) {
    const struct nixl_param twice[] = {{"depth", "1"}, {"depth", "1"}};
    const struct nixl_param alias[] = {{"flag", "yes"}, {"switch", "yes"}};

    refused(twice, 2, "depth is given twice");
    refused(alias, 2, "flag is given twice, also as switch");
}

static void malformed_values_are_refused_with_name_and_value(void **state) {
    const struct {
        struct nixl_param param;
        const char *words;
    } cases[] = {
        {{"flag", "maybe"}, "parameter flag: \"maybe\" is neither yes nor no"},
        {{"flag", ""}, "flag"},
        {{"depth", "3.5"}, "parameter depth: \"3.5\" is not a whole number"},
        {{"depth", "11"}, "out of range (-10 to 10)"},
        {{"depth", "-11"}, "out of range (-10 to 10)"},
        {{"depth", "99999999999999999999"}, "out of range"},
        {{"count", "-1"}, "is not a number without sign"},
        {{"count", " 4"}, "is not a number"},
        {{"count", "0"}, "out of range (1 to 64)"},
        {{"count", "65"}, "out of range (1 to 64)"},
        {{"bytes", "64Q"}, "is not a size"},
        {{"bytes", "99999999999G"}, "out of range"},
        {{"mode", "some"}, "is not one of none|peer|all"},
        {{"mode", "none|peer"}, "is not one of none|peer|all"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        refused(&cases[i].param, 1, cases[i].words);
    }
}

static void null_keys_values_and_lists_are_refused(void **state) {
    const struct nixl_param no_key = {NULL, "1"};
    const struct nixl_param no_value = {"depth", NULL};

    refused(&no_key, 1, "parameter 0 has no key");
    refused(&no_value, 1, "parameter 0 has no value");
    refused(NULL, 2, "there is no list");
}

static void values_are_shown_and_secrets_are_not(void **state) {
    struct plugin plugin = plugin_of();
    struct plugin_options options;
    struct nixl_params *params;
    const struct nixl_param given[] = {{"secret", "hunter2"}, {"switch", "on"}};

    assert_int_equal(plugin_options_parse(&plugin, given, 2, &options), NIXL_SUCCESS);
    assert_int_equal(plugin_options_params(&plugin, &options, &params), NIXL_SUCCESS);
    assert_string_equal(((const struct table_options *)options.values)->secret, "hunter2");
    plugin_options_free(&options);
    assert_int_equal(params->count, 7);
    assert_string_equal(params->items[0].key, "flag");
    assert_string_equal(params->items[0].value, "on");
    assert_string_equal(params->items[1].value, "-3");
    assert_string_equal(params->items[5].key, "secret");
    assert_string_equal(params->items[5].value, "***");
    free(params);
}

static void a_refused_secret_is_not_in_the_words(void **state) {
    struct plugin plugin = plugin_of();
    struct plugin_options options;
    struct nixl_option secret = table_option_list[1];
    const struct nixl_param param = {"depth", "hunter2"};

    secret.secret = true;
    plugin.ops.options = &secret;
    plugin.ops.option_count = 1;
    assert_int_equal(plugin_options_parse(&plugin, &param, 1, &options), NIXL_ERR_INVALID_PARAM);
    assert_words("depth");
    assert_null(strstr(error_text(), "hunter2"));
}

static void a_description_tells_each_option(void **state) {
    struct plugin plugin = plugin_of();
    struct nixl_plugin_info *info;

    assert_int_equal(plugin_describe(&plugin, &info), NIXL_SUCCESS);
    assert_string_equal(info->name, "T");
    assert_string_equal(info->version, "7.2");
    assert_string_equal(info->path, "(static)");
    assert_int_equal(info->mems, NIXL_MEM_BIT(DRAM_SEG));
    assert_int_equal(info->option_count, 7);
    assert_int_equal(info->option_bytes, sizeof(struct nixl_option_info));
    assert_string_equal(info->options[0].kind, "bool");
    assert_string_equal(info->options[0].alias, "switch");
    assert_string_equal(info->options[2].kind, "uint");
    assert_int_equal(info->options[2].max, 64);
    assert_string_equal(info->options[3].default_value, "64k");
    assert_string_equal(info->options[6].choices, "none|peer|all");
    assert_null(info->options[1].choices);
    free(info);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(defaults_fill_the_struct),
        TEST(parameters_override_by_name_and_by_alias),
        TEST(strings_outlive_what_the_caller_gave),
        TEST(the_environment_counts_where_no_parameter_is_given),
        TEST(an_unknown_name_is_refused_with_the_known_ones),
        TEST(a_name_given_twice_is_refused_also_under_its_alias),
        TEST(malformed_values_are_refused_with_name_and_value),
        TEST(null_keys_values_and_lists_are_refused),
        TEST(values_are_shown_and_secrets_are_not),
        TEST(a_refused_secret_is_not_in_the_words),
        TEST(a_description_tells_each_option),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
