/* SPDX-License-Identifier: Apache-2.0 */
/* The TOML reader against TOML 1.0.0 (toml.io/en/v1.0.0): what must be read, and what must be refused and
 * how. */
#include "support.h"

#include "base/toml.h"

#include <errno.h>
#include <math.h>

static struct toml_doc *doc;
static char message[512];

static int read_text(const char *text, size_t len) {
    toml_free(doc);
    return toml_parse(text, len, "f", &doc, message, sizeof message);
}

static void good(const char *text) {
    if (read_text(text, strlen(text)) != 0) {
        fail_msg("refused: %s", message);
    }
}

static const struct toml_value *at(const char *path) {
    const struct toml_value *value = toml_find(doc, path);

    if (value == NULL) {
        fail_msg("%s is not there", path);
    }
    return value;
}

static void check_string(const char *text, const char *expected) {
    good(text);
    assert_int_equal(at("a")->type, TOML_STRING);
    assert_string_equal(at("a")->as.string.text, expected);
    assert_int_equal(at("a")->as.string.len, strlen(expected));
}

static void check_int(const char *text, int64_t expected) {
    good(text);
    assert_int_equal(at("a")->type, TOML_INT);
    assert_true(at("a")->as.integer == expected);
}

static void check_float(const char *text, double expected) {
    good(text);
    assert_int_equal(at("a")->type, TOML_FLOAT);
    assert_true(at("a")->as.number == expected);
}

/* Refused with a message that begins so. */
static void bad(const char *text, const char *start) {
    assert_int_equal(read_text(text, strlen(text)), EINVAL);
    assert_null(doc);
    if (strncmp(message, start, strlen(start)) != 0) {
        fail_msg("for %s\nexpected: %s\nfound:    %s", text, start, message);
    }
}

static int teardown(void **state) {
    toml_free(doc);
    doc = NULL;
    return 0;
}

static void documents_of_nothing_but_comments(void **state) {
    good("");
    assert_int_equal(toml_root(doc)->as.table.count, 0);
    good("# only\n\n  \t# this\r\n");
    good("\xef\xbb\xbf"
         "a = 1");
    assert_int_equal(at("a")->as.integer, 1);
}

static void keys_bare_quoted_and_dotted(void **state) {
    good("bare_key-1 = 1\n1234 = 2\n\"quoted key\" = 3\n'lit' = 4\n\"\" = 5\n"
         "a . b.\"c d\" = 6\n\"x.y\" = 7\n\"\\u00e4\" = 8\n");
    assert_int_equal(at("bare_key-1")->as.integer, 1);
    assert_int_equal(at("1234")->as.integer, 2);
    assert_int_equal(at("quoted key")->as.integer, 3);
    assert_int_equal(at("lit")->as.integer, 4);
    assert_int_equal(at("")->as.integer, 5);
    assert_int_equal(at("a.b.c d")->as.integer, 6);
    assert_int_equal(at("x.y")->as.integer, 7);
    assert_int_equal(at("\xc3\xa4")->as.integer, 8);
    assert_int_equal(at("a.b")->type, TOML_TABLE);
    assert_null(toml_find(doc, "a.c"));
    assert_null(toml_find(doc, "1234.x"));
    assert_int_equal(at("x.y")->line, 7);
}

static void basic_strings_and_their_escapes(void **state) {
    check_string("a = \"\"", "");
    check_string("a = \"x\\b\\t\\n\\f\\r\\\"\\\\y\"", "x\b\t\n\f\r\"\\y");
    check_string("a = \"\\u00E4\\u20ac\\U0001F600\"", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    check_string("a = \"raw \xc3\xa4\ttab\" # c", "raw \xc3\xa4\ttab");
    check_string("a = '\\n \"x\" \\'", "\\n \"x\" \\");
}

static void multi_line_strings(void **state) {
    check_string("a = \"\"\"\none\ntwo\"\"\"", "one\ntwo");
    check_string("a = \"\"\"\r\none\r\ntwo\"\"\"", "one\ntwo");
    check_string("a = \"\"\"x \\\n\n   \t y\\   \n z\"\"\"", "x yz");
    check_string("a = \"\"\"\"quoted\"\"\"\"", "\"quoted\"");
    check_string("a = \"\"\"\"\"two\"\"\"\"\"", "\"\"two\"\"");
    check_string("a = \"\"\"a\"b\"\"c\"\"\"", "a\"b\"\"c");
    check_string("a = \"\"\"\"\"\"", "");
    check_string("a = '''\nC:\\new 'x' ''y''\n'''", "C:\\new 'x' ''y''\n");
    check_string("a = ''''''", "");
    check_string("a = '''''x'''''", "''x''");
    good("a = \"\"\"\n\n\"\"\"\nb = 1");
    assert_int_equal(at("b")->line, 4);
}

static void integers_of_all_bases(void **state) {
    check_int("a = 0", 0);
    check_int("a = +99", 99);
    check_int("a = -17", -17);
    check_int("a = -0", 0);
    check_int("a = 1_000_000", 1000000);
    check_int("a = 0xDEAD_beef", 0xdeadbeef);
    check_int("a = 0o755", 493);
    check_int("a = 0b1101", 13);
    check_int("a = 9223372036854775807", INT64_MAX);
    check_int("a = -9223372036854775808", INT64_MIN);
    check_int("a = 0x7fffffffffffffff", INT64_MAX);
    check_int("a = 0o777777777777777777777", INT64_MAX);
}

static void floats_of_all_forms(void **state) {
    check_float("a = +1.0", 1.0);
    check_float("a = -0.01", -0.01);
    check_float("a = 5e+22", 5e22);
    check_float("a = 1e06", 1e6);
    check_float("a = -2E-2", -0.02);
    check_float("a = 6.626e-34", 6.626e-34);
    check_float("a = 224_617.445_991_228", 224617.445991228);
    check_float("a = 123e-5", 123e-5);
    check_float("a = inf", INFINITY);
    check_float("a = -inf", -INFINITY);
    good("a = +nan");
    assert_true(isnan(at("a")->as.number));
}

static void booleans(void **state) {
    good("a = true\nb=false");
    assert_int_equal(at("a")->type, TOML_BOOL);
    assert_true(at("a")->as.boolean);
    assert_false(at("b")->as.boolean);
    assert_int_equal(at("b")->line, 2);
}

static void dates_and_times_are_kept_as_text(void **state) {
    static const char *const dates[] = {"1979-05-27T07:32:00Z", "1979-05-27T00:32:00.999999-07:00",
                                        "1979-05-27 07:32:00z", "1979-05-27t07:32:00",
                                        "1979-05-27",           "07:32:00",
                                        "00:32:00.9999999",     "2000-02-29",
                                        "1990-12-31T23:59:60Z"};
    char text[64];

    for (size_t i = 0; i < sizeof dates / sizeof dates[0]; i++) {
        snprintf(text, sizeof text, "a = %s # x", dates[i]);
        good(text);
        assert_int_equal(at("a")->type, TOML_DATE);
        assert_string_equal(at("a")->as.string.text, dates[i]);
    }
}

static void arrays_over_lines_with_comments(void **state) {
    const struct toml_value *a;

    good("a = [ 1, 'x', # c\n [true, []], {b = 2},\n]\nz = []");
    a = at("a");
    assert_int_equal(a->type, TOML_ARRAY);
    assert_int_equal(a->as.array.count, 4);
    assert_int_equal(a->as.array.items[0]->as.integer, 1);
    assert_string_equal(a->as.array.items[1]->as.string.text, "x");
    assert_int_equal(a->as.array.items[2]->as.array.count, 2);
    assert_int_equal(a->as.array.items[2]->as.array.items[1]->as.array.count, 0);
    assert_string_equal(a->as.array.items[3]->as.table.entries[0].key, "b");
    assert_int_equal(at("z")->as.array.count, 0);
}

static void inline_tables(void **state) {
    good("a = { x = 1, y.z = \"s\", w = {} }\nb = {}");
    assert_int_equal(at("a.x")->as.integer, 1);
    assert_string_equal(at("a.y.z")->as.string.text, "s");
    assert_int_equal(at("a.w")->as.table.count, 0);
    assert_int_equal(at("b")->as.table.count, 0);
}

static void tables_in_any_order(void **state) {
    good("top = 1\n[x.y.z.w]\nk = 1\n[x] # later\nk = 2\n[ \"q q\" . r ]\nk = 3\n[empty]\n");
    assert_int_equal(at("x.y.z.w.k")->as.integer, 1);
    assert_int_equal(at("x.k")->as.integer, 2);
    assert_int_equal(at("q q.r.k")->as.integer, 3);
    assert_int_equal(at("empty")->as.table.count, 0);
    good("[fruit]\napple.color = 1\napple.taste.sweet = true\n[fruit.apple.texture]\nsmooth = true");
    assert_true(at("fruit.apple.texture.smooth")->as.boolean);
    assert_true(at("fruit.apple.taste.sweet")->as.boolean);
}

static void arrays_of_tables(void **state) {
    const struct toml_value *fruits;

    good("[[fruits]]\nname = 'apple'\n[fruits.physical]\nred = true\n[[fruits.varieties]]\nname = 'x'\n"
         "[[fruits.varieties]]\nname = 'y'\n[[fruits]]\nname = 'banana'\n[[fruits.varieties]]\nname = "
         "'z'\n[[fruits]]");
    fruits = at("fruits");
    assert_int_equal(fruits->as.array.count, 3);
    assert_int_equal(fruits->as.array.items[0]->as.table.count, 3);
    assert_string_equal(fruits->as.array.items[0]->as.table.entries[2].key, "varieties");
    assert_int_equal(fruits->as.array.items[0]->as.table.entries[2].value->as.array.count, 2);
    assert_string_equal(fruits->as.array.items[1]->as.table.entries[0].value->as.string.text, "banana");
    assert_int_equal(fruits->as.array.items[2]->as.table.count, 0);
}

static void nothing_is_defined_twice(void **state) {
    bad("a = 1\na = 2", "f:2: \"a\" is already defined in line 1");
    bad("a = 1\n'a' = 2", "f:2: \"a\" is already defined in line 1");
    bad("a = 1\na.b = 2", "f:2: \"a\" is already defined in line 1");
    bad("a.b = 1\na = 2", "f:2: \"a\" is already defined in line 1");
    bad("[a]\n[b]\n[a]", "f:3: \"a\" is already defined in line 1");
    bad("[a]\nb = 1\n[a.b]", "f:3: \"b\" is already defined in line 2");
    bad("[a]\nb = 1\n[a.b.c]", "f:3: \"b\" is already defined in line 2");
    bad("a = []\n[[a]]", "f:2: \"a\" is already defined in line 1");
    bad("[a]\n[[a]]", "f:2: \"a\" is already defined in line 1");
    bad("[[a]]\n[a]", "f:2: \"a\" is already defined in line 1");
    bad("a = {}\n[a.b]", "f:2: \"a\" is already defined in line 1");
    bad("a = {}\na.b = 1", "f:2: \"a\" is already defined in line 1");
    bad("a = [{}]\n[a.b]", "f:2: \"a\" is already defined in line 1");
    bad("a = {b = 1, b = 2}", "f:1: \"b\" is already defined in line 1");
    bad("a = {b.c = 1, b = 2}", "f:1: \"b\" is already defined in line 1");
    bad("a = {b = {c = 1}, b.d = 2}", "f:1: \"b\" is already defined in line 1");
    bad("[f]\na.c = 1\n[f.a]", "f:3: \"a\" is already defined in line 2");
    bad("[a.b.c]\nz = 9\n[a]\nb.c.t = 1", "f:4: \"b\" is already defined in line 1");
    bad("[a.b]\n[a]\nb.c = 1", "f:3: \"b\" is already defined in line 1");
}

static void malformed_lines_say_what_was_expected(void **state) {
    bad("a", "f:1: expected \"=\" after a key, found the end of the file");
    bad("a\n= 1", "f:1: expected \"=\" after a key, found the end of the line");
    bad("a 1", "f:1: expected \"=\" after a key, found \"1\"");
    bad("= 1", "f:1: expected a key, found \"=\"");
    bad("a. = 1", "f:1: expected a key, found \"=\"");
    bad("\n\n\xc3\xa4 = 1", "f:3: expected a key, found \"\\xc3\"");
    bad("a =", "f:1: expected a value, found the end of the file");
    bad("a = # x\n", "f:1: expected a value, found \"#\"");
    bad("a = 1 b = 2", "f:1: expected the end of the line after a value, found \"b\"");
    bad("[a] b = 1", "f:1: expected the end of the line after a table's name, found \"b\"");
    bad("[a", "f:1: expected \"]\" after a table's name, found the end of the file");
    bad("[]", "f:1: expected a key, found \"]\"");
    bad("[a.]", "f:1: expected a key, found \"]\"");
    bad("[[a]", "f:1: expected \"]]\" after a table's name, found the end of the file");
    bad("[ [a]]", "f:1: expected a key, found \"[\"");
    bad("[[a] ]", "f:1: expected \"]]\" after a table's name, found \" \"");
    bad("a = [1 2]", "f:1: expected \",\" or \"]\" in an array, found \"2\"");
    bad("a = [1,\n2", "f:2: expected \",\" or \"]\" in an array, found the end of the file");
    bad("a = [,]", "f:1: expected a value (text stands in quotes), found \",\"");
    bad("a = [1,,2]", "f:1: expected a value (text stands in quotes), found \",\"");
    bad("a = {b = 1,}", "f:1: expected a key, found \"}\"");
    bad("a = {b = 1\n}", "f:1: expected \",\" or \"}\" in an inline table, which stands in one line, found "
                         "the end of the line");
    bad("a = {b = 1", "f:1: expected \",\" or \"}\" in an inline table, which stands in one line, found the "
                      "end of the file");
    bad("\"\"\"a\"\"\" = 1", "f:1: a key cannot be a multi-line string");
    bad("a = 1\rb = 2", "f:1: expected the end of the line after a value, found the end of the line");
    bad("# x\x01", "f:1: a control character (0x01) in a comment");
    bad("# x\ry\n", "f:1: a control character (0x0d) in a comment");
}

static void malformed_strings(void **state) {
    bad("a = \"x", "f:1: a string without its closing quote (\")");
    bad("a = \"x\ny\"", "f:1: a string without its closing quote (\")");
    bad("a = 'x\n'", "f:1: a string without its closing quote (')");
    bad("\na = \"\"\"x\n\n\"\"", "f:2: a string without its closing three quotes (\")");
    bad("a = '''x''", "f:1: a string without its closing three quotes (')");
    bad("a = \"\\q\"", "f:1: expected one of b t n f r \" \\ u U after a backslash, found \"q\"");
    bad("a = \"\\", "f:1: expected one of b t n f r \" \\ u U after a backslash, found the end of the file");
    bad("a = \"\"\"x \\ y\"\"\"", "f:1: expected one of b t n f r \" \\ u U after a backslash, found \" \"");
    bad("a = \"\\u12G4\"", "f:1: expected 4 hexadecimal digits after \"\\u\"");
    bad("a = \"\\U0001F60\"", "f:1: expected 8 hexadecimal digits after \"\\U\"");
    bad("a = \"\\ud800\"", "f:1: U+D800 is no Unicode character");
    bad("a = \"\\U00110000\"", "f:1: U+110000 is no Unicode character");
    bad("a = \"\\u0000\"", "f:1: a NUL character in a string");
    bad("a = \"x\x01\"", "f:1: a control character (0x01) in a string: write it as an escape");
    bad("a = 'x\x7f'", "f:1: a control character (0x7f) in a string: write it as an escape");
}

static void the_quote_in_a_message_is_escaped(void **state) {
    bad("a = \"\"\"x\"\"\"\"\"\"", "f:1: expected the end of the line after a value, found \"\\\"\"");
}

static void malformed_numbers_and_dates(void **state) {
    static const char *const wrong[] = {"01",   "-01", "+01",  "1_",    "_1",   "1__0", "0x",    "0x_1",
                                        "+0x1", "0o8", "0b2",  "0X1",   "1.",   ".5",   "1.e5",  "1._0",
                                        "1_.0", "1e",  "1e_5", "1e5.5", "00.5", "Inf",  "NaN",   "--1",
                                        "+-1",  "1a",  "truE", "yes",   "text", "t",    "-true", "0_0x1"};
    static const char *const dates[] = {"1979-13-01",
                                        "1979-00-01",
                                        "1979-02-29",
                                        "1900-02-29",
                                        "1979-04-31",
                                        "1979-5-27",
                                        "24:00:00",
                                        "07:60:00",
                                        "07:32:61",
                                        "07:32",
                                        "07:32:00.",
                                        "1979-05-27T",
                                        "1979-05-27T07:32",
                                        "1979-05-27T07:32:00+7:00",
                                        "1979-05-27T07:32:00+24:00",
                                        "1979-05-27X07:32:00",
                                        "07:32:00Z"};
    char text[64];
    char start[64];

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, "a = %s", wrong[i]);
        snprintf(start, sizeof start, "f:1: expected a value (text stands in quotes), found \"%s\"",
                 wrong[i]);
        bad(text, start);
    }
    for (size_t i = 0; i < sizeof dates / sizeof dates[0]; i++) {
        snprintf(text, sizeof text, "a = %s", dates[i]);
        snprintf(start, sizeof start, "f:1: \"%s\" is no date or time", dates[i]);
        bad(text, start);
    }
    bad("a = 9223372036854775808", "f:1: \"9223372036854775808\" is too large");
    bad("a = -9223372036854775809", "f:1: \"-9223372036854775809\" is too large");
    bad("a = 0x8000000000000000", "f:1: \"0x8000000000000000\" is too large");
    bad("a = 1e999", "f:1: \"1e999\" is too large");
}

static void bytes_that_are_no_text(void **state) {
    assert_int_equal(read_text("a = 1\nb = \"\0\"", 13), EINVAL);
    assert_string_equal(message, "f:2: a NUL byte");
    bad("a = 1\nb = '\xff'\n", "f:2: not UTF-8");
    bad("a = 1\nb = 2\n# \xed\xa0\x80", "f:3: not UTF-8");
}

static char *repeated(const char *piece, size_t count, const char *end) {
    char *text = malloc(strlen(piece) * count + strlen(end) + 1);

    assert_non_null(text);
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        memcpy(text + i * strlen(piece), piece, strlen(piece) + 1);
    }
    strcat(text, end);
    return text;
}

static void depth_is_bounded(void **state) {
    char *text = repeated("[", 200, "");
    char *whole = malloc(1000);

    snprintf(whole, 1000, "a = %s", text);
    bad(whole, "f:1: nested deeper than 32 levels");
    free(text);
    text = repeated("{a = ", 100, "");
    snprintf(whole, 1000, "a = %s", text);
    bad(whole, "f:1: nested deeper than 32 levels");
    free(text);
    text = repeated("a.", 33, "a = 1");
    bad(text, "f:1: nested deeper than 32 levels");
    free(text);
    text = repeated("a.", 31, "a = 1"); /* 31 tables and a value: 32 */
    good(text);
    free(text);
    free(whole);
}

static void size_and_keys_are_bounded(void **state) {
    char *text = repeated("#", TOML_MAX_SIZE, "");

    good(text);
    free(text);
    text = repeated("#", TOML_MAX_SIZE + 1, "");
    bad(text, "f:1: 262145 bytes: at most 262144 are read");
    free(text);
    text = repeated("k", 255, " = 1");
    good(text);
    free(text);
    text = repeated("k", 256, " = 1");
    bad(text, "f:1: a key of 256 bytes: at most 255 are allowed");
    free(text);
    assert_null(doc);
}

static void a_large_document_is_read_in_linear_time(void **state) {
    char *text = malloc(TOML_MAX_SIZE);
    size_t len = 0;

    for (int i = 0; len < TOML_MAX_SIZE - 32; i++) {
        len += (size_t)sprintf(text + len, "k%d=%d\n", i, i);
    }
    assert_int_equal(read_text(text, len), 0);
    assert_int_equal(at("k20000")->as.integer, 20000);
    assert_int_equal(at("k20000")->line, 20001);
    free(text);
}

static void a_short_message_buffer_is_respected(void **state) {
    char small[6] = "xxxxx";

    toml_free(doc);
    assert_int_equal(toml_parse("a", 1, "file", &doc, small, sizeof small), EINVAL);
    assert_string_equal(small, "file:");
    assert_int_equal(toml_parse("a", 1, "file", &doc, NULL, 0), EINVAL);
}

static void types_have_names(void **state) {
    assert_string_equal(toml_type_name(TOML_STRING), "a string");
    assert_string_equal(toml_type_name(TOML_INT), "an integer");
    assert_string_equal(toml_type_name(TOML_TABLE), "a table");
    toml_free(NULL);
}

#define TOML_TEST(f) cmocka_unit_test_teardown(f, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TOML_TEST(documents_of_nothing_but_comments),
        TOML_TEST(keys_bare_quoted_and_dotted),
        TOML_TEST(basic_strings_and_their_escapes),
        TOML_TEST(multi_line_strings),
        TOML_TEST(integers_of_all_bases),
        TOML_TEST(floats_of_all_forms),
        TOML_TEST(booleans),
        TOML_TEST(dates_and_times_are_kept_as_text),
        TOML_TEST(arrays_over_lines_with_comments),
        TOML_TEST(inline_tables),
        TOML_TEST(tables_in_any_order),
        TOML_TEST(arrays_of_tables),
        TOML_TEST(nothing_is_defined_twice),
        TOML_TEST(malformed_lines_say_what_was_expected),
        TOML_TEST(malformed_strings),
        TOML_TEST(the_quote_in_a_message_is_escaped),
        TOML_TEST(malformed_numbers_and_dates),
        TOML_TEST(bytes_that_are_no_text),
        TOML_TEST(depth_is_bounded),
        TOML_TEST(size_and_keys_are_bounded),
        TOML_TEST(a_large_document_is_read_in_linear_time),
        TOML_TEST(a_short_message_buffer_is_respected),
        TOML_TEST(types_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
