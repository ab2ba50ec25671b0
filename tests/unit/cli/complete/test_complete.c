#include "unit.h"

#include "cli/complete/complete_hosts.h"
#include "cli/complete/complete_words.h"

static void unquotes(const char *typed, const char *meant, char open)
{
    char word[128];
    snprintf(word, sizeof(word), "%s", typed);
    char quote = complete_unquote(word);
    assert_string_equal(word, meant);
    assert_int_equal(quote, open);
}

static void test_unquote(void **state)
{
    (void)state;
    unquotes("", "", 0);
    unquotes("a\\ b\\\\c", "a b\\c", 0);
    unquotes("'a b\\'c", "a b\\c", 0);
    unquotes("\"a \\\"b\\x\"'c'", "a \"b\\xc", 0);
    unquotes("host:'a b", "host:a b", '\'');
    unquotes("\"a", "a", '"');
    unquotes("a\\", "a\\", 0);
}

static void test_quote(void **state)
{
    (void)state;
    char out[64];
    assert_true(complete_quote(out, sizeof(out), "a/B-1._+,%@"));
    assert_string_equal(out, "a/B-1._+,%@");
    assert_true(complete_quote(out, sizeof(out), "a b$'\"\\`~#:=(*)\xc3\xa4"));
    assert_string_equal(out, "a\\ b\\$\\'\\\"\\\\\\`\\~\\#\\:\\=\\(\\*\\)\xc3\xa4");
    assert_false(complete_quote(out, sizeof(out), "a\nb"));
    assert_false(complete_quote(out, sizeof(out), "a\x1b[m"));
    assert_false(complete_quote(out, sizeof(out), "\x7f"));
    assert_true(complete_quote(out, 4, "aa"));
    assert_false(complete_quote(out, 4, "aaa"));
    assert_int_equal(strlen(out), 2);
    assert_false(complete_quote(out, 0, ""));
    for (size_t capacity = 1; capacity < 8; capacity++) {
        complete_quote(out, capacity, "    ");
        assert_true(strlen(out) < capacity);
    }
}

/* What was quoted is read back as it was. */
static void test_quote_and_back(void **state)
{
    (void)state;
    char all[256], out[600];
    size_t size = 0;
    for (int c = ' '; c < 256; c++) {
        if (c != 0x7f)
            all[size++] = (char)c;
    }
    all[size] = '\0';
    assert_true(complete_quote(out, sizeof(out), all));
    assert_int_equal(complete_unquote(out), 0);
    assert_string_equal(out, all);
}

static void test_words_of_a_help_text(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"auto|N", "auto "},
        {"auto|only|never", "auto only never "},
        {"A-B", ""},
        {"auto|fixed:RATE", "auto fixed: "},
        {"", ""},
        {"|a||b|", "a b "},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *rest = cases[i].text;
        char word[8], all[64] = "";
        while (complete_next_word(&rest, word, sizeof(word))) {
            strcat(all, word);
            strcat(all, " ");
        }
        assert_string_equal(all, cases[i].words);
    }
}

static void hear(void *context, const char *host)
{
    strcat(context, host);
    strcat(context, " ");
}

static void config_has(const char *text, const char *hosts)
{
    char line[128], heard[128] = "";
    snprintf(line, sizeof(line), "%s", text);
    complete_config_line(line, hear, heard);
    assert_string_equal(heard, hosts);
}

static void known_has(const char *text, const char *hosts)
{
    char line[128], heard[128] = "";
    snprintf(line, sizeof(line), "%s", text);
    complete_known_line(line, hear, heard);
    assert_string_equal(heard, hosts);
}

static void test_hosts_of_a_configuration(void **state)
{
    (void)state;
    config_has("Host a b.c  *.d !e f?\n", "a b.c ");
    config_has("\thost=a\r\n", "a ");
    config_has("HostName a\n", "");
    config_has("# Host a\n", "");
    config_has("Host\n", "");
    config_has("Host \"a\" -b\n", "");
    config_has("", "");
}

static void test_known_hosts(void **state)
{
    (void)state;
    known_has("a,b,10.0.0.1 ssh-ed25519 AAAA\n", "a b 10.0.0.1 ");
    known_has("[a]:22,[::1]:22,fe80::1 ssh-ed25519 AAAA\n", "a ");
    known_has("|1|x=|y= ssh-rsa AAAA\n", "");
    known_has("@revoked a ssh-rsa AAAA\n", "");
    known_has("# a\n", "");
    known_has("*.a,!b,[c,] ssh-rsa\n", "");
    known_has("\n", "");
    known_has("", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unquote),
        cmocka_unit_test(test_quote),
        cmocka_unit_test(test_quote_and_back),
        cmocka_unit_test(test_words_of_a_help_text),
        cmocka_unit_test(test_hosts_of_a_configuration),
        cmocka_unit_test(test_known_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
