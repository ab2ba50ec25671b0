#include "unit.h"

#include <stdlib.h>

#include "cli/options/config_text.h"

struct heard {
    char text[512];
};

static bool hear(void *context, const struct config_line *line, struct error *error)
{
    struct heard *heard = context;
    size_t at = strlen(heard->text);
    if (strcmp(line->key, "stop") == 0)
        return error_set(error, ERROR_USAGE, "stopped");
    snprintf(heard->text + at, sizeof(heard->text) - at, "%u%s%s=%s;", line->number,
             line->applies ? " " : "-", line->key, line->value != NULL ? line->value : "(none)");
    return true;
}

/* In a block of exactly the size that is promised, for the sanitizer. */
static bool read_sized(const char *text, size_t size, struct heard *heard, unsigned *number,
                       struct error *error)
{
    char *copy = malloc(size + 1);
    assert_non_null(copy);
    if (size > 0)
        memcpy(copy, text, size);
    copy[size] = 'x';
    *error = (struct error){0};
    *heard = (struct heard){0};
    *number = 0;
    bool good = config_text_read(copy, size, "big.example.org", hear, heard, number, error);
    free(copy);
    return good;
}

static void reads(const char *text, const char *expected)
{
    struct heard heard;
    struct error error;
    unsigned number;
    if (!read_sized(text, strlen(text), &heard, &number, &error))
        fail_msg("%s: %s", text, error.text);
    assert_string_equal(heard.text, expected);
}

static void refuses(const char *text, unsigned at, const char *says)
{
    struct heard heard;
    struct error error;
    unsigned number;
    assert_false(read_sized(text, strlen(text), &heard, &number, &error));
    assert_int_equal(error.kind, ERROR_USAGE);
    assert_int_equal(number, at);
    if (strstr(error.text, says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, says);
}

static void test_lines(void **state)
{
    (void)state;
    reads("", "");
    reads("\n\n# policy fair\n  # x\n \t \n", "");
    reads("policy fair", "1 policy=fair;");
    reads("policy fair\r\nlimit 5MB\r\n", "1 policy=fair;2 limit=5MB;");
    reads(" a=b\n\tc = d\ne\t=f\ng =\nh\n", "1 a=b;2 c=d;3 e=f;4 g=(none);5 h=(none);");
    reads("a b c  d \t\nb #c\n", "1 a=b c  d;2 b=#c;");
    reads("a = = b\n", "1 a== b;");
    reads("a \" b # \"\nb \"\"\nc=\"x\"", "1 a= b # ;2 b=;3 c=x;");
    reads("n\xc3\xa4me \xff\n", "1 n\xc3\xa4me=\xff;");
}

static void test_blocks(void **state)
{
    (void)state;
    reads("a 1\nHost other\nb 2\nHost *.example.org\nc 3\nhOST=x big.example.org\nd 4\n",
          "1 a=1;3-b=2;5 c=3;7 d=4;");
    reads("Host *.org !big.*\na 1\nHost \"a *\"\nb 2\n", "2-a=1;4 b=2;");
}

static void test_refused(void **state)
{
    (void)state;
    refuses("a 1\n\nHost\n", 3, "Host *.example.org");
    refuses("Host \"\"\n", 1, "Host needs");
    refuses("a \"b\n", 1, "quote");
    refuses("a \"\n", 1, "quote");
    refuses("a \"b\" c\n", 1, "quote");
    refuses("a\n= b\n", 2, "begins with a key");
    refuses("a\nb\x1b[1m\n", 2, "control character 27");
    refuses("a \r b\n", 1, "control character 13");
    refuses("a 1\nstop\nb 2\n", 2, "stopped");
    struct heard heard;
    struct error error;
    unsigned number;
    assert_false(read_sized("a\nb \0c\n", 7, &heard, &number, &error));
    assert_int_equal(number, 2);
}

static void test_length_of_a_line(void **state)
{
    (void)state;
    char text[CONFIG_LINE_MAX + 2];
    struct heard heard;
    struct error error;
    unsigned number;
    memset(text, 'v', sizeof(text));
    text[1] = ' ';
    text[CONFIG_LINE_MAX] = '\n';
    assert_true(read_sized(text, CONFIG_LINE_MAX + 1, &heard, &number, &error));
    text[CONFIG_LINE_MAX] = 'v';
    text[CONFIG_LINE_MAX + 1] = '\n';
    assert_false(read_sized(text, CONFIG_LINE_MAX + 2, &heard, &number, &error));
    assert_non_null(strstr(error.text, "longer than"));
}

static void test_each_byte_cut(void **state)
{
    (void)state;
    static const char text[] = "a \"b c\"\r\nHost *.example.org !x\n  d = e\nf\n# g\n";
    for (size_t size = 0; size < sizeof(text); size++) {
        struct heard heard;
        struct error error;
        unsigned number;
        if (!read_sized(text, size, &heard, &number, &error)) {
            assert_int_equal(error.kind, ERROR_USAGE);
            assert_in_range(number, 1, 5);
        }
    }
}

static void test_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *patterns, *host;
        bool matches;
    } cases[] = {
        {"host", "host", true},
        {"HOST", "Host", true},
        {"host", "hos", false},
        {"hos", "host", false},
        {"*", "", true},
        {"*", "x", true},
        {"?", "x", true},
        {"?", "xy", false},
        {"*.org", "a.b.org", true},
        {"*.org", "a.org.net", false},
        {"a*b*c", "aXbYbZc", true},
        {"a*b*c", "aXbYbZ", false},
        {"a**c", "ac", true},
        {"x y* z", "yes", true},
        {"* !host", "host", false},
        {"!host", "other", false},
        {"!other *", "host", true},
        {"[a]", "a", false},
        {"", "x", false},
        {"*a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (config_host_matches(cases[i].patterns, cases[i].host) != cases[i].matches)
            fail_msg("%s against %s", cases[i].patterns, cases[i].host);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),         cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_length_of_a_line),
        cmocka_unit_test(test_each_byte_cut), cmocka_unit_test(test_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
