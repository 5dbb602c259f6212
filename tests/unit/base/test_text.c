/* SPDX-License-Identifier: Apache-2.0 */
/* Strict parsing, splitting, quoting, hex, UTF-8. */
#include "support.h"

#include "base/text.h"

#include <locale.h>

#define MS UINT64_C(1000000)

static void blanks_are_trimmed_at_both_ends(void **state) {
    struct text t = text_trim(text_of(" \t\n a b \r\v\f"));

    assert_true(text_equal(t, "a b"));
    assert_true(text_equal(text_trim(text_of(" \t ")), ""));
    assert_true(text_equal(text_trim(text_of(NULL)), ""));
}

static void text_is_compared_with_and_without_case(void **state) {
    assert_true(text_equal_nocase(text_of("TrUe"), "tRuE"));
    assert_false(text_equal_nocase(text_of("true"), "tru"));
    assert_false(text_equal_nocase(text_of("[]"), "{}")); /* differ by the bit that letters differ by */
    assert_false(text_equal(text_of("True"), "true"));
    assert_true(text_starts("NIXL_X", "NIXL_"));
    assert_false(text_starts("NIX", "NIXL_"));
}

static void check_split(const char *whole, const char *expected) {
    struct text rest = text_of(whole);
    struct text piece;
    char seen[64] = "";

    while (text_split(&rest, ',', &piece)) {
        strcat(seen, "<");
        strncat(seen, piece.at, piece.len);
        strcat(seen, ">");
    }
    assert_string_equal(seen, expected);
}

static void a_list_has_one_piece_more_than_separators(void **state) {
    check_split("", "");
    check_split("a", "<a>");
    check_split("a, b ,c", "<a><b><c>");
    check_split("a,", "<a><>");
    check_split(",", "<><>");
    check_split(",,a", "<><><a>");
    check_split("a, b,,", "<a><b><><>");
}

static void bool_words_in_any_case(void **state) {
    static const char *const yes[] = {"y", "yes", "on", "1",    "true",  "enable",
                                      "Y", "YES", "On", "TRUE", "Enable"};
    static const char *const no[] = {"n", "no", "off", "0",     "false",  "disable",
                                     "N", "NO", "Off", "FALSE", "DisABLE"};
    static const char *const bad[] = {"", "2", "t", "f", "yess", " yes", "yes ", "enabled", "01", "true\n"};
    bool out;

    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        out = false;
        assert_int_equal(text_parse_bool(text_of(yes[i]), &out), TEXT_OK);
        assert_true(out);
        assert_int_equal(text_parse_bool(text_of(no[i]), &out), TEXT_OK);
        assert_false(out);
    }
    out = true;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(text_parse_bool(text_of(bad[i]), &out), TEXT_MALFORMED);
    }
    assert_true(out); /* untouched */
}

static void signed_numbers_up_to_their_limits(void **state) {
    int64_t out = 7;

    assert_int_equal(text_parse_int(text_of("0"), &out), TEXT_OK);
    assert_true(out == 0);
    assert_int_equal(text_parse_int(text_of("-00042"), &out), TEXT_OK);
    assert_true(out == -42);
    assert_int_equal(text_parse_int(text_of("9223372036854775807"), &out), TEXT_OK);
    assert_true(out == INT64_MAX);
    assert_int_equal(text_parse_int(text_of("-9223372036854775808"), &out), TEXT_OK);
    assert_true(out == INT64_MIN);
    out = 7;
    assert_int_equal(text_parse_int(text_of("9223372036854775808"), &out), TEXT_RANGE);
    assert_int_equal(text_parse_int(text_of("-9223372036854775809"), &out), TEXT_RANGE);
    assert_int_equal(text_parse_int(text_of("99999999999999999999999"), &out), TEXT_RANGE);
    assert_int_equal(text_parse_int(text_of("99999999999999999999999x"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_int(text_of(""), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_int(text_of("-"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_int(text_of("+5"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_int(text_of("--5"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_int(text_of("5 "), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_int(text_of("0x5"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_int(text_of("5.0"), &out), TEXT_MALFORMED);
    assert_true(out == 7);
}

static void unsigned_numbers_decimal_and_hex(void **state) {
    uint64_t out = 7;

    assert_int_equal(text_parse_uint(text_of("18446744073709551615"), &out), TEXT_OK);
    assert_true(out == UINT64_MAX);
    assert_int_equal(text_parse_uint(text_of("0xFfffFFFFffffffff"), &out), TEXT_OK);
    assert_true(out == UINT64_MAX);
    assert_int_equal(text_parse_uint(text_of("0X1a"), &out), TEXT_OK);
    assert_true(out == 26);
    assert_int_equal(text_parse_uint(text_of("010"), &out), TEXT_OK);
    assert_true(out == 10); /* no octal */
    out = 7;
    assert_int_equal(text_parse_uint(text_of("18446744073709551616"), &out), TEXT_RANGE);
    assert_int_equal(text_parse_uint(text_of("0x10000000000000000"), &out), TEXT_RANGE);
    assert_int_equal(text_parse_uint(text_of("-1"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_uint(text_of("0x"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_uint(text_of("x5"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_uint(text_of("1a"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_uint(text_of(""), &out), TEXT_MALFORMED);
    assert_true(out == 7);
}

static void sizes_with_their_suffixes(void **state) {
    uint64_t out = 7;

    assert_int_equal(text_parse_size(text_of("4096"), &out), TEXT_OK);
    assert_true(out == 4096);
    assert_int_equal(text_parse_size(text_of("4K"), &out), TEXT_OK);
    assert_true(out == 4096);
    assert_int_equal(text_parse_size(text_of("64MiB"), &out), TEXT_OK);
    assert_true(out == 67108864);
    assert_int_equal(text_parse_size(text_of("1gb"), &out), TEXT_OK);
    assert_true(out == 1073741824);
    assert_int_equal(text_parse_size(text_of("16777215T"), &out), TEXT_OK);
    assert_true(out == UINT64_C(18446742974197923840));
    assert_int_equal(text_parse_size(text_of("17B"), &out), TEXT_OK);
    assert_true(out == 17);
    assert_int_equal(text_parse_size(text_of("0x1B"), &out), TEXT_OK);
    assert_true(out == 27);
    out = 7;
    assert_int_equal(text_parse_size(text_of("16777216T"), &out), TEXT_RANGE);
    assert_int_equal(text_parse_size(text_of("K"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_size(text_of("4Ki"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_size(text_of("4 K"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_size(text_of("4KK"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_size(text_of("1.5M"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_size(text_of("-4K"), &out), TEXT_MALFORMED);
    assert_true(out == 7);
}

static void durations_with_their_units(void **state) {
    uint64_t out = 7;

    assert_int_equal(text_parse_duration(text_of("250"), MS, &out), TEXT_OK);
    assert_true(out == 250 * MS);
    assert_int_equal(text_parse_duration(text_of("1.5s"), MS, &out), TEXT_OK);
    assert_true(out == 1500 * MS);
    assert_int_equal(text_parse_duration(text_of("250us"), MS, &out), TEXT_OK);
    assert_true(out == 250000);
    assert_int_equal(text_parse_duration(text_of("2H"), MS, &out), TEXT_OK);
    assert_true(out == UINT64_C(7200000000000));
    assert_int_equal(text_parse_duration(text_of("0.25"), MS, &out), TEXT_OK);
    assert_true(out == 250000);
    assert_int_equal(text_parse_duration(text_of("18446744073709551615ns"), MS, &out), TEXT_OK);
    assert_true(out == UINT64_MAX);
    assert_int_equal(text_parse_duration(text_of("3m"), MS, &out), TEXT_OK);
    assert_true(out == 180000 * MS);
    out = 7;
    assert_int_equal(text_parse_duration(text_of("18446744073709551615"), MS, &out), TEXT_RANGE);
    assert_int_equal(text_parse_duration(text_of("18446744073709551616ns"), MS, &out), TEXT_RANGE);
    assert_int_equal(text_parse_duration(text_of(""), MS, &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_duration(text_of("s"), MS, &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_duration(text_of("1."), MS, &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_duration(text_of(".5s"), MS, &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_duration(text_of("5 s"), MS, &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_duration(text_of("5d"), MS, &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_duration(text_of("-5s"), MS, &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_duration(text_of("0.1234567890123456789s"), MS, &out), TEXT_MALFORMED);
    assert_true(out == 7);
}

static void decimals_do_not_follow_the_locale(void **state) {
    double out = 7;

    (void)setlocale(LC_ALL, "de_DE.UTF-8"); /* where it is installed, 1,5 is a number there and 1.5 is not */
    assert_int_equal(text_parse_double(text_of("1.5"), &out), TEXT_OK);
    assert_true(out == 1.5);
    assert_int_equal(text_parse_double(text_of("-2.5e-3"), &out), TEXT_OK);
    assert_true(out == -0.0025);
    assert_int_equal(text_parse_double(text_of("12"), &out), TEXT_OK);
    assert_true(out == 12);
    out = 7;
    assert_int_equal(text_parse_double(text_of("1e999"), &out), TEXT_RANGE);
    assert_int_equal(text_parse_double(text_of("1,5"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_double(text_of("inf"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_double(text_of("nan"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_double(text_of("0x1p3"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_double(text_of("1."), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_double(text_of(".5"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_double(text_of("1e"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_double(text_of("1e+"), &out), TEXT_MALFORMED);
    assert_int_equal(text_parse_double(text_of(""), &out), TEXT_MALFORMED);
    assert_true(out == 7);
    (void)setlocale(LC_ALL, "C");
}

static void appending_stops_at_the_end(void **state) {
    char buf[10];
    size_t len = 0;

    assert_true(text_append(buf, sizeof buf, &len, "%d-%s", 12, "ab"));
    assert_int_equal(len, 5);
    assert_true(text_append(buf, sizeof buf, &len, "%s", "cdef"));
    assert_string_equal(buf, "12-abcdef");
    assert_false(text_append(buf, sizeof buf, &len, "g"));
    assert_string_equal(buf, "12-abcdef");
    assert_int_equal(len, 9);
    len = 0;
    assert_false(text_append(buf, sizeof buf, &len, "0123456789"));
    assert_string_equal(buf, "012345678");
    assert_int_equal(len, 9);
    assert_true(text_append(buf, sizeof buf, &len, "%s", ""));
}

static void foreign_bytes_are_quoted(void **state) {
    char buf[64];

    assert_string_equal(text_quote(buf, sizeof buf, "abc", 3), "\"abc\"");
    assert_string_equal(text_quote(buf, sizeof buf, "a\"b\\", 4), "\"a\\\"b\\\\\"");
    assert_string_equal(text_quote(buf, sizeof buf, "\x1b[31m\0\xc3\x7f", 8), "\"\\x1b[31m\\x00\\xc3\\x7f\"");
    assert_string_equal(text_quote(buf, sizeof buf, NULL, 0), "\"\"");
}

static void a_long_quote_is_cut_and_says_so(void **state) {
    char buf[12];

    assert_string_equal(text_quote(buf, 8, "abcdef", 6), "\"ab\"...");
    assert_string_equal(text_quote(buf, 8, "abcde", 5), "\"abcde\"");
    assert_string_equal(text_quote(buf, 8, "\x01\x02", 2), "\"\"...");
    assert_string_equal(text_quote(buf, 8, "\x01", 1), "\"\\x01\"");
    for (size_t size = 8; size <= 12; size++) { /* the sanitizer watches the end of an exact block */
        char *exact = malloc(size);

        text_quote(exact, size, "a\x01\"bcdefghijkl", 14);
        assert_true(strlen(exact) < size);
        assert_non_null(strstr(exact, "..."));
        free(exact);
    }
}

static void hex_goes_there_and_back(void **state) {
    char hex[9];
    uint8_t back[4] = {9, 9, 9, 9};

    text_hex_encode(hex, "\x00\xff\x1a\x80", 4);
    assert_string_equal(hex, "00ff1a80");
    assert_true(text_hex_decode(back, "00Ff1A80", 8));
    assert_memory_equal(back, "\x00\xff\x1a\x80", 4);
    back[0] = 9;
    assert_false(text_hex_decode(back, "00f", 3));
    assert_false(text_hex_decode(back, "00fg", 4));
    assert_int_equal(back[0], 9); /* nothing is written for a bad text */
    assert_true(text_hex_decode(back, "", 0));
}

static void utf8_is_told_from_other_bytes(void **state) {
    static const char *const good[] = {"",
                                       "abc",
                                       "\xc3\xa4",
                                       "\xe2\x82\xac",
                                       "\xf0\x9f\x98\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc3",
                                      "\xc3(",
                                      "\xe0\x80\x80",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xf0\x80\x80\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "a\xe2\x82",
                                      "\xe2\x82("};

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(text_is_utf8(good[i], strlen(good[i])));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(text_is_utf8(bad[i], strlen(bad[i])));
    }
    assert_true(text_is_utf8("a\0b", 3));
}

static void sizes_are_shown_in_their_unit(void **state) {
    char buf[16];

    assert_string_equal(text_size(buf, sizeof buf, 17), "17 B");
    assert_string_equal(text_size(buf, sizeof buf, 4096), "4 KiB");
    assert_string_equal(text_size(buf, sizeof buf, 1536 * 1024), "1.5 MiB");
    assert_string_equal(text_size(buf, sizeof buf, 0), "0 B");
    assert_string_equal(text_size(buf, sizeof buf, UINT64_MAX), "16.0 EiB");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(blanks_are_trimmed_at_both_ends),
        TEST(text_is_compared_with_and_without_case),
        TEST(a_list_has_one_piece_more_than_separators),
        TEST(bool_words_in_any_case),
        TEST(signed_numbers_up_to_their_limits),
        TEST(unsigned_numbers_decimal_and_hex),
        TEST(sizes_with_their_suffixes),
        TEST(durations_with_their_units),
        TEST(decimals_do_not_follow_the_locale),
        TEST(appending_stops_at_the_end),
        TEST(foreign_bytes_are_quoted),
        TEST(a_long_quote_is_cut_and_says_so),
        TEST(hex_goes_there_and_back),
        TEST(utf8_is_told_from_other_bytes),
        TEST(sizes_are_shown_in_their_unit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
