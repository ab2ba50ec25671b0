/* Filter rules: patterns, the order of rules, what users write. That they mean what they mean to
 * rsync is checked by filter_rsync.py; here what must not change where there is no rsync. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tree/filter.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static bool parse(struct filter *filter, enum filter_form form, const char *text)
{
    struct filter_merge merge;
    struct error error = {0};
    bool good = filter_parse(filter, form, text, &merge, &error);
    assert_true(good || error.kind == ERROR_USAGE);
    return good;
}

/* Whether "--exclude=pattern" leaves out `path`; a "/" at its end means a directory. */
static bool excluded(const char *pattern, const char *path)
{
    struct filter filter = {0};
    assert_true(parse(&filter, FILTER_FORM_EXCLUDE, pattern));
    size_t size = strlen(path);
    bool is_directory = path[size - 1] == '/';
    bool result = filter_excludes(&filter, FILTER_SENDER, path, size - is_directory, is_directory);
    filter_release(&filter);
    return result;
}

static void test_patterns(void **state)
{
    (void)state;
    static const char *const yes[][2] = {{"a", "a"},
                                         {"a", "b/a"},
                                         {"a", "a/"},
                                         {"/a", "a"},
                                         {"a/", "a/"},
                                         {"a/", "b/a/"},
                                         {"*.o", "x/y.o"},
                                         {"a/b", "a/b"},
                                         {"a/b", "x/a/b"},
                                         {"/a/b", "a/b"},
                                         {"/a/*", "a/b"},
                                         {"a/**", "a/b/c"},
                                         {"a/**", "x/a/b"},
                                         {"**/b", "b"},
                                         {"**/b", "a/b"},
                                         {"a/***", "a/"},
                                         {"a/***", "x/a/"},
                                         {"a/***", "a/b"},
                                         {"/*/", "a/"},
                                         {"**", "a/b"},
                                         {"a**b", "a/x/b"},
                                         {"*", "a/b"},
                                         {"a?c", "abc"},
                                         {"[!a]", "b"},
                                         {"[]a]", "]"},
                                         {"[a-c]", "b"},
                                         {"a\\b", "a\\b"},
                                         {"a\\*", "a*"},
                                         {"[[:digit:]]", "7"},
                                         {"[[:alpha:][:digit:]_]", "_"},
                                         {"[^a-c]", "d"},
                                         {"[a-]", "-"},
                                         {"[\\]]", "]"},
                                         {"*/b", "a/b"},
                                         {"foo/*/b", "x/foo/y/b"},
                                         {"[[.a]", "."}};
    static const char *const no[][2] = {
        {"a", "ab"},      {"/a", "b/a"},   {"a/", "a"},        {"*.o", "y.oo"},
        {"a/b", "a/b/c"}, {"a/b", "xa/b"}, {"/a/b", "x/a/b"},  {"/a/*", "a/b/c"},
        {"a/**", "a"},    {"a/**", "a/"},  {"a/***", "a"},     {"*", ""},
        {"/*/", "a/b/"},  {"a?c", "a/c"},  {"[!a]", "a"},      {"[a", "[a"},
        {"[a", "a"},      {"a*c", "a/c"},  {"[[:foo:]]", "f"}, {"/", "a"},
        {"a\\*", "ab"},   {"x*\\", "x\\"}, {"**/b", "ab"},     {"foo/*/b", "foo/b"}};
    for (size_t i = 0; i < COUNT(yes); i++) {
        if (!excluded(yes[i][0], yes[i][1]))
            fail_msg("%s does not match %s", yes[i][0], yes[i][1]);
    }
    for (size_t i = 0; i < COUNT(no); i++) {
        if (no[i][1][0] != '\0' && excluded(no[i][0], no[i][1]))
            fail_msg("%s matches %s", no[i][0], no[i][1]);
    }
}

static void test_first_match_decides(void **state)
{
    (void)state;
    struct filter filter = {0};
    assert_false(filter_excludes(&filter, FILTER_SENDER, "a", 1, false));
    assert_true(parse(&filter, FILTER_FORM_INCLUDE, "*/"));
    assert_true(parse(&filter, FILTER_FORM_INCLUDE, "*.c"));
    assert_true(parse(&filter, FILTER_FORM_EXCLUDE, "*"));
    assert_false(filter_excludes(&filter, FILTER_SENDER, "a", 1, true));
    assert_false(filter_excludes(&filter, FILTER_SENDER, "a/b.c", 5, false));
    assert_true(filter_excludes(&filter, FILTER_SENDER, "a/b.o", 5, false));
    assert_false(filter_excludes(&filter, FILTER_SENDER, "", 0, true));
    assert_true(parse(&filter, FILTER_FORM_EXCLUDE, "!"));
    assert_int_equal(filter.count, 0);
    filter_release(&filter);
}

static void test_directories_above_count(void **state)
{
    (void)state;
    struct filter filter = {0};
    assert_true(parse(&filter, FILTER_FORM_EXCLUDE, "secret/"));
    assert_true(filter_admits(&filter, "a/b/c", 5, false));
    assert_true(filter_admits(&filter, "a/secret", 8, false));
    assert_false(filter_admits(&filter, "a/secret", 8, true));
    assert_false(filter_admits(&filter, "secret/b/c", 10, false));
    assert_false(filter_admits(&filter, "a/secret/b", 10, true));
    filter_release(&filter);
}

static void test_sides(void **state)
{
    (void)state;
    static const struct {
        const char *rule;
        bool sender, receiver;
    } cases[] = {{"- a", true, true},          {"H a", true, false},   {"hide a", true, false},
                 {"P a", false, true},         {"-s a", true, false},  {"-r a", false, true},
                 {"-,sr a", true, true},       {"+ a", false, false},  {"exclude,r a", false, true},
                 {"-! b", true, true},         {"-!s b", true, false}, {"_a", false, false},
                 {"exclude_a", true, true},    {"-_a", true, true},    {"protect a", false, true},
                 {"exclude a b", false, false}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct filter filter = {0};
        bool parsed = parse(&filter, FILTER_FORM_RULE, cases[i].rule);
        assert_int_equal(parsed, cases[i].rule[0] != '_');
        assert_int_equal(filter_excludes(&filter, FILTER_SENDER, "a", 1, false), cases[i].sender);
        assert_int_equal(filter_excludes(&filter, FILTER_RECEIVER, "a", 1, false),
                         cases[i].receiver);
        filter_release(&filter);
    }
    struct filter filter = {0}, copy = {0};
    assert_true(parse(&filter, FILTER_FORM_RULE, "- a"));
    assert_true(parse(&filter, FILTER_FORM_RULE, "P b"));
    assert_true(parse(&filter, FILTER_FORM_RULE, "-p c"));
    assert_true(filter_copy(&copy, &filter, NULL));
    filter_unprotect(&copy);
    assert_true(filter_excludes(&filter, FILTER_BELOW_DELETED, "a", 1, false));
    assert_false(filter_excludes(&copy, FILTER_BELOW_DELETED, "a", 1, false));
    assert_true(filter_excludes(&copy, FILTER_BELOW_DELETED, "b", 1, false));
    assert_true(filter_excludes(&filter, FILTER_RECEIVER, "c", 1, false));
    assert_false(filter_excludes(&filter, FILTER_BELOW_DELETED, "c", 1, false));
    filter_release(&filter);
    filter_release(&copy);
}

static void test_what_is_no_rule(void **state)
{
    (void)state;
    static const char *const bad[] = {"a",    "-",   "- ",   "-/ a",  "-C",      ": .rsync-filter",
                                      "-x a", "! a", "+z a", "merge", "exclude", "excluded a",
                                      "P"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct filter filter = {0};
        if (parse(&filter, FILTER_FORM_RULE, bad[i]))
            fail_msg("\"%s\" is taken for a rule", bad[i]);
        assert_int_equal(filter.count, 0);
    }
}

static void test_merge(void **state)
{
    (void)state;
    struct filter filter = {0};
    struct filter_merge merge;
    struct error error = {0};
    assert_true(filter_parse(&filter, FILTER_FORM_RULE, "merge a file", &merge, &error));
    assert_string_equal(merge.file, "a file");
    assert_int_equal(merge.form, FILTER_FORM_RULE);
    assert_true(filter_parse(&filter, FILTER_FORM_RULE, ".- x", &merge, &error));
    assert_int_equal(merge.form, FILTER_FORM_EXCLUDE);
    assert_true(filter_parse(&filter, FILTER_FORM_RULE, "merge,+ x", &merge, &error));
    assert_int_equal(merge.form, FILTER_FORM_INCLUDE);
    assert_true(filter_parse(&filter, FILTER_FORM_EXCLUDE, "merge x", &merge, &error));
    assert_null(merge.file);
    assert_int_equal(filter.count, 1);
    filter_release(&filter);
}

static void test_limits(void **state)
{
    (void)state;
    struct filter filter = {0};
    struct error error = {0};
    char *pattern = malloc(FILTER_PATTERN_MAX + 1);
    memset(pattern, '*', FILTER_PATTERN_MAX + 1);
    assert_false(filter_add(&filter, FILTER_SIDES, pattern, FILTER_PATTERN_MAX + 1, &error));
    assert_int_equal(error.kind, ERROR_USAGE);
    assert_false(filter_add(&filter, FILTER_SIDES, pattern, 0, NULL));
    assert_true(filter_add(&filter, FILTER_SIDES, pattern, FILTER_PATTERN_MAX, NULL));
    /* The worst that a pattern and a path can do to each other ends at once. */
    for (size_t i = 0; i < FILTER_PATTERN_MAX; i += 2)
        pattern[i] = 'a';
    pattern[FILTER_PATTERN_MAX - 1] = 'b';
    assert_true(filter_add(&filter, FILTER_SIDES, pattern, FILTER_PATTERN_MAX, NULL));
    memset(pattern, 'a', FILTER_PATTERN_MAX);
    assert_false(filter_excludes(&filter, FILTER_SENDER, "", 0, false));
    assert_true(filter_excludes(&filter, FILTER_SENDER, pattern, FILTER_PATTERN_MAX, false));
    for (size_t i = filter.count; i < FILTER_RULES_MAX; i++)
        assert_true(filter_add(&filter, FILTER_SIDES, "x", 1, NULL));
    assert_false(filter_add(&filter, FILTER_SIDES, "x", 1, NULL));
    filter_release(&filter);
    free(pattern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_first_match_decides),
        cmocka_unit_test(test_directories_above_count),
        cmocka_unit_test(test_sides),
        cmocka_unit_test(test_what_is_no_rule),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
