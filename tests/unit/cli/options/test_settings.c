#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/options/copy_options.h"
#include "cli/options/port_range.h"

static char home[] = "/tmp/petrel-settings-XXXXXX";
static char user_path[96];

static void write_settings(const char *text)
{
    FILE *file = fopen(user_path, "w");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0644), 0);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

/* Parses words that are separated by single spaces. */
static bool parse(struct copy_options *options, const char *text, struct error *error)
{
    static char line[256];
    char *argv[32] = {(char *)"copy"}, *rest = line, *word;
    int argc = 1;
    snprintf(line, sizeof(line), "%s", text);
    while ((word = strsep(&rest, " ")) != NULL)
        argv[argc++] = word;
    *error = (struct error){0};
    return copy_options_parse(options, argc, argv, error);
}

static struct copy_options taken(const char *settings, const char *line)
{
    struct copy_options options;
    struct error error;
    write_settings(settings);
    if (!parse(&options, line, &error))
        fail_msg("%s: %s", settings, error.text);
    return options;
}

static void refused(const char *settings, const char *place, const char *says)
{
    struct copy_options options;
    struct error error;
    write_settings(settings);
    assert_false(parse(&options, "a host:", &error));
    assert_int_equal(error.kind, ERROR_USAGE);
    char prefix[128];
    snprintf(prefix, sizeof(prefix), "%s%s: ", user_path, place);
    if (strncmp(error.text, prefix, strlen(prefix)) != 0 || strstr(error.text, says) == NULL)
        fail_msg("\"%s\" is not \"%s...%s\"", error.text, prefix, says);
}

/* ---- one table for all ---- */

static void test_every_long_option_is_a_setting(void **state)
{
    (void)state;
    static const char *const none[] = {"help", "version", "config"};
    size_t count = 0, without = 0;
    const struct option *option = copy_options_table();
    for (; option->short_name || option->long_name; option++) {
        bool is_habit = option->kind == OPTION_REMARK || option->kind == OPTION_ELSEWHERE;
        if (option->long_name == NULL || is_habit)
            continue;
        count++;
        if (settings_has_key(option)) {
            char name[SETTINGS_VARIABLE_MAX];
            assert_true(strlen(option->long_name) + 8 < sizeof(name));
            assert_int_equal(strncmp(settings_variable(name, option), "PETREL_", 7), 0);
            snprintf(name, sizeof(name), "%s 1", option->long_name);
            write_settings(name);
            struct copy_options options;
            struct error error;
            if (parse(&options, "a host:", &error))
                copy_options_release(&options);
            else if (strstr(error.text, "no setting") != NULL)
                fail_msg("%s", error.text);
            continue;
        }
        without++;
        bool may = false;
        for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
            may = may || strcmp(none[i], option->long_name) == 0;
        if (!may)
            fail_msg("--%s is no setting", option->long_name);
    }
    assert_true(count > 40);
    assert_int_equal(without, sizeof(none) / sizeof(none[0]));
}

/* An option of a new form has to say here what it has without being said. */
static void test_defaults(void **state)
{
    (void)state;
    const struct option *option = copy_options_table();
    for (; option->short_name || option->long_name; option++) {
        bool has_form = option->kind == OPTION_CUSTOM && option->long_name != NULL &&
                        strcmp(option->long_name, "max-delete") != 0;
        if (has_form && copy_options_default(option) == NULL)
            fail_msg("--%s has no default", option->long_name);
    }
    struct copy_options options = taken("", "a host:");
    assert_int_equal(options.first_port, PORTS_FIRST);
    assert_int_equal(options.last_port, PORTS_LAST);
    assert_int_equal(options.retry_for_ns, 600 * NS_PER_S);
    assert_int_equal(options.uses.count, 0);
    assert_true(options.max_delete == UINT64_MAX && options.json == NULL && options.verbose == 0);
    copy_options_release(&options);
}

static void test_variable(void **state)
{
    (void)state;
    bool negated;
    char name[SETTINGS_VARIABLE_MAX];
    const struct option *option = options_find(copy_options_table(), "udp-ports", 9, &negated);
    assert_non_null(option);
    assert_string_equal(settings_variable(name, option), "PETREL_UDP_PORTS");
}

/* ---- what wins ---- */

static void test_first_match_wins(void **state)
{
    (void)state;
    static const char text[] = "lanes 2\n"
                               "Host other\n  lanes 3\n  limit 5MB\n"
                               "Host host\n  lanes 4\n  policy fair\n  verbose 2\n"
                               "Host *\n  policy background\n  checksum\n  remote-petrel =  x y\n";
    struct copy_options options = taken(text, "a me@host:");
    assert_int_equal(options.lanes, 2);
    assert_int_equal(options.limit_bps, 0);
    assert_int_equal(options.policy.kind, RATE_FAIR);
    assert_int_equal(options.verbose, 2);
    assert_true(options.checksum);
    assert_string_equal(options.ssh.remote_petrel, "x y");
    assert_int_equal(options.uses.count, 5);
    assert_int_equal(options.uses.uses[1].line, 7);
    assert_int_equal(options.uses.uses[1].origin, ORIGIN_FILE);
    assert_string_equal(options.uses.uses[1].place, user_path);
    copy_options_release(&options);
}

static void test_line_before_environment_before_file(void **state)
{
    (void)state;
    static const char text[] = "lanes 2\nudp never\npolicy fair\nchecksum yes\n";
    setenv("PETREL_UDP", "only", 1);
    setenv("PETREL_POLICY", "background", 1);
    setenv("PETREL_LANES", "", 1); /* as if not set */
    struct copy_options options = taken(text, "--policy=auto --no-checksum a host:");
    assert_int_equal(options.policy.kind, RATE_AUTO);
    assert_int_equal(options.udp, UDP_ONLY);
    assert_int_equal(options.lanes, 2);
    assert_false(options.checksum);
    copy_options_release(&options);
    setenv("PETREL_UDP", "sometimes", 1);
    struct error error;
    assert_false(parse(&options, "a host:", &error));
    assert_non_null(strstr(error.text, "PETREL_UDP in the environment: --udp takes"));
    unsetenv("PETREL_UDP");
    unsetenv("PETREL_POLICY");
    unsetenv("PETREL_LANES");
}

static void test_opposites_and_other_names(void **state)
{
    (void)state;
    struct copy_options options =
        taken("no-owner yes\ndelete yes\n", "--owner --no-delete a host:");
    assert_true(options.owner && !options.no_owner && !options.delete_others);
    copy_options_release(&options);
    options = taken("no-perms yes\nno-memory yes\ndel\n", "-p --memory a host:");
    assert_true(!options.no_perms && !options.no_memory && options.delete_others);
    copy_options_release(&options);
    options = taken("no-checksum\nchecksum yes\nmemory\n", "a host:");
    assert_false(options.checksum || options.no_memory);
    copy_options_release(&options);
}

static void test_repeated_options_add_up(void **state)
{
    (void)state;
    setenv("PETREL_EXCLUDE", "e", 1);
    struct copy_options options =
        taken("exclude f\nHost x\nexclude g\nHost *\ninclude h\n", "--exclude=l a host:");
    assert_int_equal(options.filters.count, 4);
    assert_string_equal(options.filters.words[0].value, "l");
    assert_string_equal(options.filters.words[1].value, "e");
    assert_string_equal(options.filters.words[2].value, "f");
    assert_string_equal(options.filters.words[3].value, "h");
    copy_options_release(&options);
    unsetenv("PETREL_EXCLUDE");
}

static void test_names_of_files(void **state)
{
    (void)state;
    char expected[64];
    snprintf(expected, sizeof(expected), "%s/list", home);
    struct copy_options options =
        taken("files-from ~/list\nremote-petrel ~/petrel\njson\n", "a host:");
    assert_string_equal(options.files_from, expected);
    assert_string_equal(options.ssh.remote_petrel, "~/petrel");
    assert_string_equal(options.json, "");
    copy_options_release(&options);
    options = taken("json no\nHost *\njson x\n", "a host:");
    assert_null(options.json);
    copy_options_release(&options);
}

/* ---- mistakes ---- */

static void test_mistakes(void **state)
{
    (void)state;
    refused("\nudp_ports 7\n", ":2", "did you mean: udp-ports A-B");
    refused("--limit 5MB\n", ":1", "did you mean: limit RATE");
    refused("hostname x\n", ":1", "~/.ssh/config");
    refused("udp-ports 7-5\n", ":1", "a range such as 60000-61000, not 7-5");
    refused("Host x\npolicy fast\n", ":2", "not fast");
    refused("Host x\nlimit 1kbit\n", ":2", "64kbit");
    refused("limit\n", ":1", "limit needs a value: limit RATE");
    refused("checksum maybe\n", ":1", "yes or no, not maybe");
    refused("verbose 10\n", ":1", "number up to 9");
    refused("no-checksum yes\n", ":1", "write: checksum no");
    refused("bwlimit 5\n", ":1", "--limit=RATE");
    refused("progress yes\n", ":1", "shown anyway");
    refused("help\n", ":1", "no setting");
    refused("config x\n", ":1", "no setting");
}

static void refused_file(const char *config, const char *says)
{
    char line[192];
    struct copy_options options;
    struct error error;
    snprintf(line, sizeof(line), "--config=%s a host:", config);
    assert_false(parse(&options, line, &error));
    if (strstr(error.text, says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, says);
}

static void test_files_that_are_refused(void **state)
{
    (void)state;
    write_settings("");
    for (mode_t mode = 0620; mode <= 0622; mode += 2) {
        assert_int_equal(chmod(user_path, mode), 0);
        refused_file(user_path, "chmod go-w");
    }
    assert_int_equal(chmod(user_path, 0602), 0);
    refused_file(user_path, "chmod go-w");
    if (geteuid() == 0) {
        assert_int_equal(chmod(user_path, 0644), 0);
        assert_int_equal(chown(user_path, 12345, (gid_t)-1), 0);
        refused_file(user_path, "belongs to user 12345");
        assert_int_equal(chown(user_path, 0, (gid_t)-1), 0);
    }
    refused_file(home, "not a file");
    refused_file("/nonexistent/petrel", "cannot be read");
    write_settings("");
    assert_int_equal(truncate(user_path, 1 << 20), 0);
    refused_file(user_path, "longer than");
    assert_int_equal(truncate(user_path, (1 << 20) + 1), 0);
    refused_file(user_path, "larger than 1 MiB");
}

static void test_which_file(void **state)
{
    (void)state;
    struct copy_options options = taken("lanes 3\n", "--config=none a host:");
    assert_int_equal(options.lanes, 0);
    copy_options_release(&options);
    setenv("PETREL_CONFIG", "none", 1);
    options = taken("lanes 3\n", "a host:");
    assert_int_equal(options.lanes, 0);
    copy_options_release(&options);
    setenv("PETREL_CONFIG", user_path, 1);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    options = taken("lanes 3\n", "a host:");
    assert_int_equal(options.lanes, 3);
    copy_options_release(&options);
    unsetenv("PETREL_CONFIG");
    options = taken("lanes 3\n", "a host:");
    assert_int_equal(options.lanes, 0);
    copy_options_release(&options);
    unsetenv("XDG_CONFIG_HOME");
}

static int make_home(void **state)
{
    (void)state;
    char path[96];
    extern char **environ;
    for (char **entry = environ; *entry != NULL;) {
        char name[128];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(*entry, "="), *entry);
        if (strncmp(name, "PETREL_", 7) != 0 || unsetenv(name) != 0)
            entry++;
    }
    unsetenv("XDG_CONFIG_HOME");
    if (mkdtemp(home) == NULL || setenv("HOME", home, 1) != 0)
        return -1;
    snprintf(path, sizeof(path), "%s/.config", home);
    mkdir(path, 0755);
    snprintf(path, sizeof(path), "%s/.config/petrel", home);
    mkdir(path, 0755);
    snprintf(user_path, sizeof(user_path), "%s/.config/petrel/config", home);
    return 0;
}

static int remove_home(void **state)
{
    (void)state;
    char path[96];
    unlink(user_path);
    snprintf(path, sizeof(path), "%s/.config/petrel", home);
    rmdir(path);
    snprintf(path, sizeof(path), "%s/.config", home);
    rmdir(path);
    return rmdir(home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_long_option_is_a_setting),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_variable),
        cmocka_unit_test(test_first_match_wins),
        cmocka_unit_test(test_line_before_environment_before_file),
        cmocka_unit_test(test_opposites_and_other_names),
        cmocka_unit_test(test_repeated_options_add_up),
        cmocka_unit_test(test_names_of_files),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_files_that_are_refused),
        cmocka_unit_test(test_which_file),
    };
    if (access("/etc/petrel/config", F_OK) == 0) {
        fputs("skipped: /etc/petrel/config of this machine would join in\n", stderr);
        return 77;
    }
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
