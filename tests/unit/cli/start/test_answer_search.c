#include "unit.h"

#include "cli/start/answer_search.h"

#define ANSWER "PETREL-REMOTE version=1.0 port=60001 address=none"

/* Feeds text byte by byte; returns how many bytes it took until a hit, 0 for none. */
static size_t feed(struct answer_search *search, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (answer_search_take(search, text[i]))
            return i + 1;
    }
    return 0;
}

static void finds(const char *text)
{
    struct answer_search search = {.length = 0};
    assert_int_equal(feed(&search, text, strlen(text)), strlen(text));
    assert_string_equal(search.line, ANSWER);
}

static void test_found_among_junk(void **state)
{
    (void)state;
    finds(ANSWER "\n");
    finds("Welcome to host!\n\n\r\n" ANSWER "\n");
    finds("$ " ANSWER "\n");
    finds("\033[1mPETREL-\033[0m PETREL-REMOT PETREL-" ANSWER "\n");
    finds("PETREL-REMOTELY\n" ANSWER "\n");
    finds("PETREL-PETREL-\n" ANSWER "\n");
}

static void test_nothing_after_the_answer_is_taken(void **state)
{
    (void)state;
    struct answer_search search = {.length = 0};
    const char text[] = ANSWER "\nrest";
    assert_int_equal(feed(&search, text, strlen(text)), strlen(ANSWER) + 1);
}

static void test_an_error_is_an_answer(void **state)
{
    (void)state;
    struct answer_search search = {.length = 0};
    const char text[] = "motd PETREL-ERROR permission no\n";
    assert_int_equal(feed(&search, text, strlen(text)), strlen(text));
    assert_string_equal(search.line, "PETREL-ERROR permission no");
}

static void test_long_lines(void **state)
{
    (void)state;
    for (size_t junk = 0; junk < 3 * BOOTSTRAP_LINE_MAX; junk++) {
        struct answer_search search = {.length = 0};
        for (size_t i = 0; i < junk; i++)
            assert_false(answer_search_take(&search, (char)(i % 7 ? 'x' : '\0')));
        assert_int_equal(feed(&search, ANSWER "\n", strlen(ANSWER) + 1), strlen(ANSWER) + 1);
        assert_string_equal(search.line, ANSWER);
    }
}

static void test_marks_in_noise(void **state)
{
    (void)state;
    finds("PETREL-REMOTE version=1\n" ANSWER "\n");
    finds("PETREL-REMOTE \377\nPETREL-ERROR\n" ANSWER "\n");
}

static void test_prompts(void **state)
{
    (void)state;
    assert_true(answer_is_prompt("[sudo] password for ann: "));
    assert_true(answer_is_prompt("Password:"));
    assert_true(answer_is_prompt("Enter passphrase for key 'x':  "));
    assert_false(answer_is_prompt(""));
    assert_false(answer_is_prompt("   "));
    assert_false(answer_is_prompt("Password: wrong"));
    assert_false(answer_is_prompt("Last login:"));
}

static void test_noise(void **state)
{
    (void)state;
    struct answer_search search = {.length = 0};
    const char text[] = "\n \r\nfirst words\nsecond\n";
    feed(&search, text, strlen(text));
    answer_search_end(&search);
    assert_string_equal(search.noise, "first words");
    search = (struct answer_search){.length = 0};
    feed(&search, "no newline", 10);
    answer_search_end(&search);
    assert_string_equal(search.noise, "no newline");
    search = (struct answer_search){.length = 0};
    answer_search_end(&search);
    assert_string_equal(search.noise, "");
    for (size_t i = 0; i < 5000; i++)
        answer_search_take(&search, 'y');
    answer_search_end(&search);
    assert_int_equal(strlen(search.noise), sizeof(search.noise) - 1);
}

static void test_cut_answers_are_none(void **state)
{
    (void)state;
    for (size_t length = 0; length < strlen("PETREL-REMOTE "); length++) {
        struct answer_search search = {.length = 0};
        assert_int_equal(feed(&search, ANSWER, length), 0);
        assert_false(answer_search_take(&search, '\n'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_among_junk),
        cmocka_unit_test(test_nothing_after_the_answer_is_taken),
        cmocka_unit_test(test_an_error_is_an_answer),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_marks_in_noise),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_cut_answers_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
