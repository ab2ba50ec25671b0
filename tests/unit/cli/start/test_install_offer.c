#include "unit.h"

#include "cli/start/install_offer.h"
#include "cli/start/shell_words.h"

static void test_command(void **state)
{
    (void)state;
    char text[256];
    struct ssh_options options = {.program = NULL};
    assert_string_equal(install_command_text(text, sizeof(text), &options, "u@host"),
                        "petrel install u@host");
    const char *passed[] = {"-i", "it's", "-o", "User me", "-F", ""};
    options = (struct ssh_options){
        .port = "22", .command = "ssh -v", .passed = {.values = passed, .count = 6}};
    assert_string_equal(install_command_text(text, sizeof(text), &options, "h"),
                        "petrel install -P 22 -e 'ssh -v' -i 'it'\\''s' -o 'User me' -F '' h");
    for (size_t capacity = 1; capacity < 80; capacity++) {
        memset(text, 'x', sizeof(text));
        install_command_text(text, capacity, &options, "h");
        assert_true(strlen(text) < capacity);
        assert_int_equal(text[capacity], 'x');
    }
}

static void test_ssh_command(void **state)
{
    (void)state;
    char text[256];
    struct ssh_options options = {.program = NULL};
    assert_string_equal(ssh_command_text(text, sizeof(text), &options, "u@host", "true"),
                        "ssh u@host true");
    const char *passed[] = {"-i", "it's", "-4"};
    options = (struct ssh_options){
        .port = "22", .program = "my ssh", .passed = {.values = passed, .count = 3}};
    assert_string_equal(ssh_command_text(text, sizeof(text), &options, "h", "petrel version"),
                        "'my ssh' -p 22 -i 'it'\\''s' -4 h petrel version");
    options = (struct ssh_options){.command = "ssh -v"};
    assert_string_equal(ssh_command_text(text, sizeof(text), &options, "h", "true"),
                        "ssh -v h true");
    for (size_t capacity = 1; capacity < 20; capacity++) {
        ssh_command_text(text, capacity, &options, "h", "true");
        assert_true(strlen(text) < capacity);
    }
}

static void test_sentence(void **state)
{
    (void)state;
    char text[256];
    struct install_result result = {.changed = true, .path = "~/.cache/petrel/petrel"};
    install_sentence(text, sizeof(text), "host", 12300000, &result);
    assert_non_null(strstr(text, " (12.3 MB) is on host in ~/.cache/petrel/petrel, checked"));
    result.changed = false;
    install_sentence(text, sizeof(text), "host", 12300000, &result);
    assert_non_null(strstr(text, "petrel/petrel already, checked"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_command),
        cmocka_unit_test(test_ssh_command),
        cmocka_unit_test(test_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
