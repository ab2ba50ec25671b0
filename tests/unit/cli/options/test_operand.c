#include "unit.h"

#include "cli/options/operand.h"

static const struct {
    const char *word, *host, *port, *path; /* host NULL: local */
} good[] = {
    {"file", NULL, NULL, "file"},
    {"./a:b", NULL, NULL, "./a:b"},
    {"/a:b", NULL, NULL, "/a:b"},
    {"dir/a:b", NULL, NULL, "dir/a:b"},
    {":a", NULL, NULL, ":a"},
    {"a[1]", NULL, NULL, "a[1]"},
    {"a[b:c", NULL, NULL, "a[b:c"},
    {"[x]", NULL, NULL, "[x]"},
    {"-file", NULL, NULL, "-file"},
    {"host:", "host", NULL, ""},
    {"host:~/x", "host", NULL, "~/x"},
    {"host:/x", "host", NULL, "/x"},
    {"host:a:b", "host", NULL, "a:b"},
    {"host:x[1]:y", "host", NULL, "x[1]:y"},
    {"user@host:x", "user@host", NULL, "x"},
    {"a@b@host:x", "a@b@host", NULL, "x"},
    {"[::1]:x", "::1", NULL, "x"},
    {"user@[fe80::1%eth0]:/x", "user@fe80::1%eth0", NULL, "/x"},
    {"scp://host/x", "host", NULL, "x"},
    {"scp://host", "host", NULL, ""},
    {"scp://host/", "host", NULL, ""},
    {"scp://host//x", "host", NULL, "/x"},
    {"scp://user@host:2222/x/y", "user@host", "2222", "x/y"},
    {"scp://[2001:db8::1]:22/x", "2001:db8::1", "22", "x"},
    {"scp://host:22", "host", "22", ""},
};

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct operand operand;
        struct error error = {0};
        if (!operand_parse(&operand, good[i].word, &error))
            fail_msg("%s: %s", good[i].word, error.text);
        assert_int_equal(operand.remote, good[i].host != NULL);
        if (good[i].host != NULL)
            assert_string_equal(operand.host, good[i].host);
        if (good[i].port != NULL)
            assert_string_equal(operand.port, good[i].port);
        else
            assert_null(operand.port);
        assert_string_equal(operand.path, good[i].path);
        operand_release(&operand);
    }
}

static void test_bad(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",          "-oProxyCommand=x:y", "user@-x:y",       "-@host:x",        "@:x",
        "scp://",    "scp:///x",           "scp://h:x/y",     "scp://h:/y",      "scp://h:123456/y",
        "scp://-x/", "scp://u@-x/y",       "scp://h:22x/y",   "scp://[::1/x",    "[]:x",
        "user@:x",   "scp://h:0/y",        "scp://h:65536/y", "scp://[::1]22/x", "scp://[]/x",
        "@far:x",    "[fd77::2:x",         "u@[fd77::2:x",    "rsync://far/x",   "RSYNC://far/x",
        "far::m/x",  "fd77::2:x",          "u@fd77::2:x",     "https://far/x",   "sftp://far/x",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct operand operand;
        struct error error = {0};
        if (operand_parse(&operand, bad[i], &error))
            fail_msg("%s was taken", bad[i]);
        assert_int_equal(error.kind, ERROR_USAGE);
        assert_true(error.text[0] != '\0');
        assert_null(operand.host);
        assert_null(operand.path);
    }
}

static void test_advice(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"@far:x", "no user stands before"},          {"[fd77::2:x", "bracket is not closed"},
        {"rsync://far/x", "does not speak rsync://"}, {"far::m/x", "write far:path"},
        {"fd77::2:x", "write [fd77::2]:x"},           {"u@fd77::2:x", "write u@[fd77::2]:x"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct operand operand;
        struct error error = {0};
        assert_false(operand_parse(&operand, pairs[i][0], &error));
        assert_non_null(strstr(error.text, pairs[i][1]));
        assert_non_null(strstr(error.text, pairs[i][0]));
    }
    struct operand operand;
    struct error error = {0};
    assert_true(operand_parse(&operand, "a[b:c", &error)); /* no bracket where a host may stand */
    assert_false(operand.remote);
    operand_release(&operand);
    assert_true(operand_parse(&operand, "./[a:b", &error));
    assert_false(operand.remote);
    operand_release(&operand);
    assert_true(operand_parse(&operand, "[abc", &error));
    operand_release(&operand);
}

/* Each word cut at every byte: nothing crashes, and what fails says why and owns nothing. */
static void test_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        for (size_t length = 0; length < strlen(good[i].word); length++) {
            char word[64];
            snprintf(word, sizeof(word), "%.*s", (int)length, good[i].word);
            struct operand operand;
            struct error error = {0};
            if (operand_parse(&operand, word, &error))
                operand_release(&operand);
            else
                assert_int_equal(error.kind, ERROR_USAGE);
        }
    }
}

/* What needs a login is told so, with the name to use in its place. */
static void test_hosts_that_listen(void **state)
{
    (void)state;
    static const char *const words[] = {"petrel://one.example", "petrel://one.example:4718/",
                                        "petrel://one.example/data"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct operand host;
        struct error error = {0};
        assert_false(operand_parse_host(&host, words[i], &error));
        assert_int_equal(error.kind, ERROR_USAGE);
        assert_non_null(strstr(error.text, "needs a login there by ssh: write one.example, or "
                                           "user@one.example"));
        operand_release(&host);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),   cmocka_unit_test(test_bad),
        cmocka_unit_test(test_advice), cmocka_unit_test(test_hosts_that_listen),
        cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
