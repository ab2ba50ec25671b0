/* Requests, names, wildcards and names made safe to print. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tree/display.h"
#include "tree/request.h"
#include "tree/squeeze.h"
#include "tree/wildcard.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void fill(struct transfer_request *request)
{
    memset(request, 0, sizeof *request);
    request->flags = TRANSFER_QUICK_CHECK | TRANSFER_WILDCARDS;
    assert_true(transfer_request_add(request, "plain", false));
    assert_true(transfer_request_add(request, "", true));
    assert_true(transfer_request_add(request, "two\nlines", true));
    request->destination = strdup("~/x y");
    struct filter filter = {0};
    assert_true(filter_add(&filter, FILTER_SIDES, "*.o", 3, NULL));
    assert_true(filter_add(&filter, FILTER_SENDER | FILTER_INCLUDE, "/a/**", 5, NULL));
    transfer_request_take_filter(request, &filter);
}

static size_t encode(const struct transfer_request *request, uint8_t *bytes, size_t capacity)
{
    struct writer writer = writer_of(bytes, capacity);
    transfer_request_encode(request, &writer);
    assert_false(writer.failed);
    return writer_size(&writer);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct transfer_request request, back;
    fill(&request);
    uint8_t bytes[256];
    size_t size = encode(&request, bytes, sizeof bytes);
    struct reader reader = reader_of(bytes, size);
    struct error error = {0};
    assert_true(transfer_request_decode(&back, &reader, &error));
    assert_int_equal(back.flags, request.flags);
    assert_int_equal(back.name_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(back.names[i], request.names[i]);
        assert_int_equal(back.name_is_directory[i], request.name_is_directory[i]);
    }
    assert_string_equal(back.destination, "~/x y");
    assert_int_equal(back.filter.count, 2);
    assert_int_equal(filter_rule_flags(&back.filter, 1), FILTER_SENDER | FILTER_INCLUDE);
    assert_string_equal(filter_rule_pattern(&back.filter, 1), "/a/**");
    transfer_request_release(&request);
    transfer_request_release(&back);
    transfer_request_release(&back); /* empty: harmless */
}

static void test_cut_and_trailing(void **state)
{
    (void)state;
    struct transfer_request request, back;
    fill(&request);
    uint8_t bytes[256] = {0};
    size_t size = encode(&request, bytes, sizeof bytes);
    for (size_t cut = 0; cut <= size + 1; cut++) {
        if (cut == size)
            continue;
        struct reader reader = reader_of(bytes, cut);
        struct error error = {0};
        assert_false(transfer_request_decode(&back, &reader, &error));
        assert_int_equal(error.kind, ERROR_PROTOCOL);
        assert_int_equal(back.name_count, 0);
    }
    transfer_request_release(&request);
}

static bool decode(const void *bytes, size_t size)
{
    struct transfer_request request;
    struct reader reader = reader_of(bytes, size);
    struct error error = {0};
    bool valid = transfer_request_decode(&request, &reader, &error);
    if (valid)
        transfer_request_release(&request);
    else
        assert_int_equal(error.kind, ERROR_PROTOCOL);
    return valid;
}

static void check_name_count(size_t count, bool allowed)
{
    size_t capacity = 3 * count + 16;
    uint8_t *bytes = malloc(capacity);
    struct writer writer = writer_of(bytes, capacity);
    write_varint(&writer, 0);
    write_varint(&writer, count);
    for (size_t i = 0; i < count; i++) {
        write_sized(&writer, "n", 1);
        write_u8(&writer, 0);
    }
    write_sized(&writer, "", 0);
    assert_int_equal(decode(bytes, writer_size(&writer)), allowed);
    free(bytes);
}

static void check_path_length(size_t length, bool allowed)
{
    char *path = malloc(length + 1);
    memset(path, 'p', length);
    path[length] = '\0';
    uint8_t *bytes = malloc(length + 16);
    struct writer writer = writer_of(bytes, length + 16);
    write_varint(&writer, 0);
    write_varint(&writer, 0);
    write_sized(&writer, path, length);
    assert_int_equal(decode(bytes, writer_size(&writer)), allowed);
    struct transfer_request request = {0};
    assert_int_equal(transfer_request_add(&request, path, false), allowed);
    transfer_request_release(&request);
    free(bytes);
    free(path);
}

static void test_limits(void **state)
{
    (void)state;
    static const uint8_t good[] = {0, 1, 1, 'a', 0, 1, 'd'};
    static const uint8_t bad_flag[] = {0x80, 0x02, 1, 1, 'a', 0, 1, 'd'};
    static const uint8_t bad_directory[] = {0, 1, 1, 'a', 2, 1, 'd'};
    static const uint8_t nul_name[] = {0, 1, 1, 0, 0, 1, 'd'};
    static const uint8_t nul_destination[] = {0, 1, 1, 'a', 0, 1, 0};
    static const uint8_t lying_count[] = {0, 2, 1, 'a', 0, 1, 'd'};
    assert_true(decode(good, sizeof good));
    assert_false(decode(bad_flag, sizeof bad_flag));
    assert_false(decode(bad_directory, sizeof bad_directory));
    assert_false(decode(nul_name, sizeof nul_name));
    assert_false(decode(nul_destination, sizeof nul_destination));
    assert_false(decode(lying_count, sizeof lying_count));
    check_name_count(REQUEST_PATHS_MAX, true);
    check_name_count(REQUEST_PATHS_MAX + 1, false);
    check_path_length(REQUEST_PATH_LIMIT, true);
    check_path_length(REQUEST_PATH_LIMIT + 1, false);
}

static void test_filter_limits(void **state)
{
    (void)state;
    /* The flag as a varint, no names, no destination, one rule. */
    static const uint8_t good[] = {0x80, 0x80, 4, 0, 0, 1, 2, 1, 'a'};
    static const uint8_t none[] = {0x80, 0x80, 4, 0, 0, 0};
    static const uint8_t no_side[] = {0x80, 0x80, 4, 0, 0, 1, 1, 1, 'a'};
    static const uint8_t bad_flag[] = {0x80, 0x80, 4, 0, 0, 1, 34, 1, 'a'};
    static const uint8_t empty[] = {0x80, 0x80, 4, 0, 0, 1, 2, 0};
    static const uint8_t nul[] = {0x80, 0x80, 4, 0, 0, 1, 2, 1, 0};
    static const uint8_t too_many[] = {0x80, 0x80, 4, 0, 0, 0x81, 0x80, 4, 2, 1, 'a'};
    assert_true(decode(good, sizeof good));
    assert_false(decode(none, sizeof none));
    assert_false(decode(no_side, sizeof no_side));
    assert_false(decode(bad_flag, sizeof bad_flag));
    assert_false(decode(empty, sizeof empty));
    assert_false(decode(nul, sizeof nul));
    assert_false(decode(too_many, sizeof too_many));
}

/* A level is there with its flag, and within its limit. */
static void test_squeeze_level(void **state)
{
    (void)state;
    for (unsigned level = 0; level <= SQUEEZE_LEVEL_MAX + 1; level++) {
        struct transfer_request request = {.flags = TRANSFER_SQUEEZE, .squeeze_level = level}, back;
        uint8_t bytes[64];
        struct writer writer = writer_of(bytes, sizeof bytes);
        struct error error = {0};
        assert_true(transfer_request_add(&request, "x", false));
        transfer_request_encode(&request, &writer);
        struct reader reader = reader_of(bytes, writer_size(&writer));
        bool good = transfer_request_decode(&back, &reader, &error);
        assert_int_equal(good, level <= SQUEEZE_LEVEL_MAX);
        if (good)
            assert_int_equal(back.squeeze_level, level);
        if (good)
            transfer_request_release(&back);
        transfer_request_release(&request);
    }
}

static bool admits(const char *asked, uint32_t flags, const char *name, bool is_directory)
{
    struct transfer_request request = {.flags = flags}, names = {0};
    assert_true(transfer_request_add(&request, asked, false));
    assert_true(transfer_request_add(&names, name, is_directory));
    struct error error = {0};
    bool admitted = transfer_request_admits(&request, &names, &error);
    assert_true(admitted || error.kind == ERROR_REFUSED || error.kind == ERROR_PROTOCOL);
    transfer_request_release(&request);
    transfer_request_release(&names);
    return admitted;
}

static void test_admits(void **state)
{
    (void)state;
    assert_true(admits("a/b", 0, "b", true));
    assert_true(admits("a/b/", 0, "", true));
    assert_true(admits("", 0, "", true));
    assert_true(admits("a/..", 0, "", true));
    assert_false(admits("a/b", 0, "", true));
    assert_false(admits("a/b/", 0, "b", true));
    assert_false(admits("a/b", 0, ".ssh", true));
    assert_false(admits("a/b", 0, "..", true));
    assert_false(admits("a/b", 0, "a/b", true));
    assert_false(admits(".", 0, "", false));
    assert_false(admits("a/*", 0, "x", false));
    assert_true(admits("a/*", TRANSFER_WILDCARDS, "x", false));
    assert_false(admits("a/*", TRANSFER_WILDCARDS, ".x", false));
    assert_false(admits("a/*.c", TRANSFER_WILDCARDS, "x.h", false));
    assert_true(admits("a*/", TRANSFER_WILDCARDS, "", true));
    assert_false(admits("a*/", TRANSFER_WILDCARDS, "ab", true));
}

static void test_source_names(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"a", "a"}, {"a/b", "b"},     {"a/", ""}, {".", ""},
                                           {"..", ""}, {"a/.", ""},      {"~", ""},  {"~/x", "x"},
                                           {"", ""},   {"x/..a", "..a"}, {"/", ""},  {"a//b", "b"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t size = 99;
        const char *name = transfer_source_name(cases[i][0], &size);
        assert_int_equal(size, strlen(cases[i][1]));
        assert_memory_equal(name, cases[i][1], size);
    }
}

static bool match(const char *pattern, const char *name)
{
    return wildcard_match(pattern, strlen(pattern), name, strlen(name));
}

static void test_wildcards(void **state)
{
    (void)state;
    static const char *const yes[][2] = {
        {"*", "a"},         {"*", ""},      {"a*", "a"},      {"*a", "bca"},
        {"a*b*c", "axbyc"}, {"?", "a"},     {"[abc]x", "bx"}, {"[a-c]", "b"},
        {"[!a-c]", "d"},    {"[]]", "]"},   {"[a-]", "-"},    {"\\*", "*"},
        {".*", ".a"},       {"[", "["},     {"a[", "a["},     {"*.tar.gz", "x.tar.tar.gz"},
        {"", ""},           {"[\\]]", "]"}, {"*[0-9]", "a1"}, {"**", "abc"}};
    static const char *const no[][2] = {{"*", ".a"},    {"?", ""},     {"?", ".a"},   {"a*", "ba"},
                                        {"[abc]", "d"}, {"[!a]", "a"}, {"", "a"},     {"a", ""},
                                        {"\\*", "a"},   {"*b", "abc"}, {"[.]a", ".a"}};
    for (size_t i = 0; i < COUNT(yes); i++)
        assert_true(match(yes[i][0], yes[i][1]));
    for (size_t i = 0; i < COUNT(no); i++)
        assert_false(match(no[i][0], no[i][1]));
    /* What would take exponential time in a recursive matcher ends at once. */
    char name[256];
    memset(name, 'a', 255);
    name[255] = '\0';
    assert_false(match("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", name));
}

static void test_display(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"plain name", "plain name"},
                                           {"a\nb\tc", "a\\nb\\tc"},
                                           {"\x1b[31m", "\\x1b[31m"},
                                           {"back\\slash", "back\\\\slash"},
                                           {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
                                           {"\xff\xfe", "\\xff\\xfe"},
                                           {"\xc3", "\\xc3"},
                                           {"\xc0\xaf", "\\xc0\\xaf"},
                                           {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
                                           {"\xe2\x80\xae", "\\xe2\\x80\\xae"},
                                           {"\xc2\x9b", "\\xc2\\x9b"},
                                           {"\xf0\x9f\x90\xa6", "\xf0\x9f\x90\xa6"},
                                           {"", ""}};
    char text[64];
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(display_name(text, sizeof text, cases[i][0]), cases[i][1]);
    assert_string_equal(display_name(text, 8, "1234567"), "1234567");
    assert_string_equal(display_name(text, 8, "12345678"), "1234...");
    assert_string_equal(display_name(text, 8, "123\xc3\xbc\xc3\xbc"), "123\xc3\xbc\xc3\xbc");
    assert_string_equal(display_name(text, 8, "123\xc3\xbc\xc3\xbcz"), "123...");
    assert_string_equal(display_name(text, 4, "\n\n"), "...");
    assert_string_equal(display_bytes(text, 16, "a\0b", 3), "a\\x00b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_cut_and_trailing),
        cmocka_unit_test(test_limits),        cmocka_unit_test(test_filter_limits),
        cmocka_unit_test(test_squeeze_level), cmocka_unit_test(test_admits),
        cmocka_unit_test(test_source_names),  cmocka_unit_test(test_wildcards),
        cmocka_unit_test(test_display),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
