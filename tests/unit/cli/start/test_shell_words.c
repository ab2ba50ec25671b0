#include "unit.h"

#include "cli/start/shell_words.h"

static void is_text(const struct ssh_options *options, const char *command, const char *expected)
{
    char text[200];
    assert_string_equal(ssh_command_text(text, sizeof(text), options, "far", command), expected);
}

static void test_a_command_that_can_be_pasted(void **state)
{
    (void)state;
    const struct ssh_options plain = {.port = "2222"};
    const struct ssh_options own = {.program = "/opt/my ssh"};
    is_text(&plain, "petrel version", "ssh -p 2222 far petrel version");
    is_text(&own, "true", "'/opt/my ssh' far true");
    is_text(&plain, "sh -c 'kill $$' version", "ssh -p 2222 far 'sh -c '\\''kill $$'\\'' version'");
    is_text(&plain, "~/bin/petrel version", "ssh -p 2222 far '~/bin/petrel version'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_command_that_can_be_pasted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
