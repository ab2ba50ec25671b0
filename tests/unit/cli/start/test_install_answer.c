#include "unit.h"

#include "cli/start/install_answer.h"

/* Feeds a text; returns how many lines were for us, the last of which stays in `answer`. */
static int feed(struct install_answer *answer, const char *text)
{
    int hits = 0;
    for (; *text != '\0'; text++)
        hits += install_answer_take(answer, *text);
    return hits;
}

static void test_words(void **state)
{
    (void)state;
    struct install_answer answer = {.length = 0};
    assert_int_equal(feed(&answer, "PETREL-INSTALL ready Linux x86_64 none ~/.cache/my petrel\n"),
                     1);
    assert_int_equal(answer.word, INSTALL_READY);
    assert_string_equal(answer.system, "Linux");
    assert_string_equal(answer.machine, "x86_64");
    assert_string_equal(answer.hash, "none");
    assert_string_equal(answer.text, "~/.cache/my petrel");
    assert_int_equal(feed(&answer, "PETREL-INSTALL done /x\n"), 1);
    assert_int_equal(answer.word, INSTALL_DONE);
    assert_string_equal(answer.text, "/x");
    assert_string_equal(answer.system, "");
    assert_int_equal(feed(&answer, "PETREL-INSTALL none /x\n"), 1);
    assert_int_equal(answer.word, INSTALL_NONE);
    assert_int_equal(feed(&answer, "PETREL-INSTALL error mkdir: \x1b[2J\n"), 1);
    assert_int_equal(answer.word, INSTALL_ERROR);
    assert_string_equal(answer.text, "mkdir: \\x1b[2J");
    assert_string_equal(answer.noise, "");
}

static void test_noise(void **state)
{
    (void)state;
    struct install_answer answer = {.length = 0};
    assert_int_equal(feed(&answer, "\n \t\nWelcome!\nMore\nprompt> PETREL-INSTALL done ~\n"), 1);
    assert_string_equal(answer.text, "~");
    assert_string_equal(answer.noise, "Welcome!");
    static const char *const strange[] = {
        "PETREL-INSTALL\n",
        "PETREL-INSTALL \n",
        "PETREL-INSTALL what /x\n",
        "PETREL-INSTALL doneX /x\n",
        "PETREL-INSTALL ready Linux\n",
        "PETREL-INSTALL ready Linux x86_64\n",
        "PETREL-INSTALL ready  x86_64 none /x\n",
        "PETREL-INSTALL ready a-very-long-name-of-a-system-that-is-none x86_64 none /x\n",
        "petrel-install done /x\n",
    };
    for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
        answer = (struct install_answer){.length = 0};
        assert_int_equal(feed(&answer, strange[i]), 0);
        assert_true(answer.noise[0] != '\0');
    }
    answer = (struct install_answer){.length = 0};
    assert_int_equal(feed(&answer, "no newline"), 0);
    install_answer_end(&answer);
    assert_string_equal(answer.noise, "no newline");
}

/* Each byte cut off the end, each byte another; and lines longer than any buffer. */
static void test_any_bytes(void **state)
{
    (void)state;
    static const char line[] = "PETREL-INSTALL ready Linux x86_64 0123456789abcdef ~/.cache/x\n";
    for (size_t i = 0; i < sizeof(line) - 1; i++) {
        struct install_answer answer = {.length = 0};
        for (size_t j = 0; j < i; j++)
            assert_false(install_answer_take(&answer, line[j]));
        for (int byte = 0; byte < 256; byte++) {
            answer = (struct install_answer){.length = 0};
            for (size_t j = 0; j < sizeof(line) - 1; j++)
                install_answer_take(&answer, j == i ? (char)byte : line[j]);
            install_answer_end(&answer);
        }
    }
    struct install_answer answer = {.length = 0};
    for (size_t i = 0; i < 5000; i++)
        assert_false(install_answer_take(&answer, 'x'));
    assert_false(install_answer_take(&answer, '\n'));
    assert_int_equal(feed(&answer, "PETREL-INSTALL error "), 0);
    for (size_t i = 0; i < 5000; i++)
        assert_false(install_answer_take(&answer, '\x01'));
    assert_true(install_answer_take(&answer, '\n'));
    assert_true(strlen(answer.text) < sizeof(answer.text));
}

static void test_kinds(void **state)
{
    (void)state;
    assert_int_equal(install_error_kind("mkdir: cannot create directory '/x': Permission denied"),
                     ERROR_PERMISSION);
    assert_int_equal(install_error_kind("mkdir: /x: Read-only file system"), ERROR_PERMISSION);
    assert_int_equal(install_error_kind("cat: write error: No space left on device"),
                     ERROR_NO_SPACE);
    assert_int_equal(install_error_kind("only 5 of 10 bytes came"), ERROR_VERIFY);
    assert_int_equal(install_error_kind("other bytes came than were sent"), ERROR_VERIFY);
    assert_int_equal(install_error_kind("~/x is a folder"), ERROR_EXISTS);
    assert_int_equal(install_error_kind("anything else"), ERROR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
