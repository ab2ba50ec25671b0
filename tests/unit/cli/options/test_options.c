#include "unit.h"

#include <stdlib.h>

#include "cli/options/copy_options.h"

#define WORDS_MAX 40

/* Parses a line of words, separated by single spaces, behind the command's name. The text has to
 * outlive the options. */
static bool parse(struct copy_options *options, char *line, struct error *error)
{
    char *argv[WORDS_MAX + 2] = {(char *)"copy"};
    int argc = 1;
    char *word;
    while ((word = strsep(&line, " ")) != NULL)
        argv[argc++] = word;
    argv[argc] = NULL;
    *error = (struct error){0};
    return copy_options_parse(options, argc, argv, error);
}

static struct copy_options taken(const char *text)
{
    static char line[256];
    struct copy_options options;
    struct error error;
    snprintf(line, sizeof(line), "%s", text);
    if (!parse(&options, line, &error))
        fail_msg("%s: %s", text, error.text);
    return options;
}

static void refused(const char *text, const char *says)
{
    char line[256];
    struct copy_options options;
    struct error error;
    snprintf(line, sizeof(line), "%s", text);
    if (parse(&options, line, &error))
        fail_msg("%s was taken", text);
    assert_int_equal(error.kind, ERROR_USAGE);
    if (strstr(error.text, says) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", text, error.text, says);
    assert_null(options.sources);
}

static void test_push(void **state)
{
    (void)state;
    struct copy_options options = taken("a b user@host:dir/");
    assert_true(options.push);
    assert_string_equal(options.host, "user@host");
    assert_int_equal(options.source_count, 2);
    assert_string_equal(options.sources[1].path, "b");
    assert_string_equal(options.destination.path, "dir/");
    assert_int_equal(options.first_port, 60000);
    assert_int_equal(options.last_port, 61000);
    assert_int_equal(options.lanes, 0);
    copy_options_release(&options);
}

static void test_pull(void **state)
{
    (void)state;
    struct copy_options options = taken("host:*.log host:x .");
    assert_false(options.push);
    assert_int_equal(options.source_count, 2);
    assert_string_equal(options.sources[0].path, "*.log");
    copy_options_release(&options);
}

static void test_all_options(void **state)
{
    (void)state;
    struct copy_options options = taken("-qvvnLrpt -P22 --lanes=3 --udp-ports 7-9 --limit 25MB "
                                        "--policy fair --json=x --mkpath a h:");
    assert_true(options.quiet && options.dry_run && options.follow_links && options.make_path);
    assert_int_equal(options.verbose, 2);
    assert_string_equal(options.ssh.port, "22");
    assert_int_equal(options.lanes, 3);
    assert_int_equal(options.first_port, 7);
    assert_int_equal(options.last_port, 9);
    assert_true(options.limit_bps == 200000000);
    assert_int_equal(options.policy.kind, RATE_FAIR);
    assert_string_equal(options.json, "x");
    copy_options_release(&options);
}

static void test_habits_of_others(void **state)
{
    (void)state;
    struct copy_options options = taken("--partial --progress -rt --links a h:");
    assert_int_equal(options.remarks.count, 2);
    assert_non_null(strstr(options.remarks.values[0], "--partial: what has arrived"));
    copy_options_release(&options);
    refused("--bwlimit=1000 a h:", "--limit=RATE");
    refused("--bwlimit 1000 a h:", "--limit=RATE");
    refused("-l 8000 a h:", "--limit=8Mbit");
    refused("-rlt a h:", "links are copied as links");
    refused("-C a h:", "-C: scp's compression is -z");
    refused("--rsync-path=x a h:", "--remote-petrel");
    refused("-P a h:", "ssh's port");
    refused("-vP a h:", "kept without an option");
}

static void test_ssh_options_are_passed_in_order(void **state)
{
    (void)state;
    struct copy_options options = taken("-i key -Fconf -J jump -o A=b -oC=d -4 -B a h:");
    static const char *const expected[] = {"-i",   "key", "-F",  "conf", "-J",
                                           "jump", "-o",  "A=b", "-o",   "C=d"};
    const struct option_list *passed = &options.ssh.passed;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        assert_string_equal(passed->values[i], expected[i]);
    assert_int_equal(passed->count, 12);
    assert_string_equal(passed->values[10], "-4");
    assert_string_equal(passed->values[11], "-oBatchMode=yes");
    copy_options_release(&options);
}

static void test_options_stand_anywhere(void **state)
{
    (void)state;
    struct copy_options options = taken("a -q h:x --json");
    assert_true(options.quiet);
    assert_string_equal(options.json, "");
    assert_int_equal(options.source_count, 1);
    copy_options_release(&options);
}

static void test_words_after_two_dashes(void **state)
{
    (void)state;
    struct copy_options options = taken("-- -q h:x");
    assert_false(options.quiet);
    assert_string_equal(options.sources[0].path, "-q");
    copy_options_release(&options);
}

static void test_url_gives_the_port(void **state)
{
    (void)state;
    struct copy_options options = taken("scp://u@h:2200/x scp://u@h:2200/y .");
    assert_string_equal(options.ssh.port, "2200");
    assert_string_equal(options.host, "u@h");
    copy_options_release(&options);
}

static void test_sides(void **state)
{
    (void)state;
    refused("a:b c:d", "both sides are remote");
    refused("a b", "neither side is remote");
    refused("a b:c d", "some sources are local");
    refused("a:x b:y .", "different hosts");
    refused("scp://a:1/x scp://a:2/y .", "different hosts");
    refused("x", "needs a source and a destination");
    refused("-q", "needs a source and a destination");
    refused("--limit 8kbit a h:", "64kbit");
    refused("-k:y h:", "there is no option");
    refused("-- -x:y .", "cannot begin with '-'");
}

static void test_bad_options(void **state)
{
    (void)state;
    refused("--quite a h:", "did you mean --quiet?");
    refused("--dryrun a h:", "did you mean --dry-run?");
    refused("--dry-rum=3 a h:", "did you mean --dry-run?");
    refused("--lnaes 3 a h:", "did you mean --lanes?");
    refused("--xyzzy a h:", "see petrel --help");
    refused("--limit 25M a h:", "25M");
    refused("--policy=polite a h:", "fixed:200Mbit");
    refused("--policy=fixed:200 a h:", "fixed:200Mbit");
    refused("a h: --policy", "needs a value");
    refused("--limit 0MB a h:", "--limit");
    refused("--lanes 0 a h:", "1 to 16");
    refused("--lanes 17 a h:", "1 to 16");
    refused("--lanes x a h:", "1 to 16");
    refused("--udp sometimes a h:", "auto, only or never");
    refused("--udp= a h:", "auto, only or never");
    refused("--udp-ports 9-7 a h:", "60000-61000");
    refused("--quiet=1 a h:", "takes no value");
    refused("a h: --limit", "needs a value");
    refused("a h: -P", "needs a value");
    refused("a h: -P 0", "port");
    refused("a h: -P ssh", "port");
    refused("a h: -qZ", "there is no option -Z");
    refused("-4 -6 a h:", "exclude each other");
    refused("-e  a h:", "-e");
}

static void test_both_readings_of_a_bare_rate(void **state)
{
    (void)state;
    refused("--limit 25M a h:", "25Mbit");
    refused("--limit 25M a h:", "25MB");
}

static void test_nearest(void **state)
{
    (void)state;
    static const char *const names[] = {"copy", "install", "version", NULL};
    assert_string_equal(nearest_name("cpoy", names), "copy");
    assert_string_equal(nearest_name("instal", names), "install");
    assert_string_equal(nearest_name("cop", names), "copy");
    assert_null(nearest_name("file", names));
    assert_null(nearest_name("", names));
    char longest[300];
    memset(longest, 'c', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_null(nearest_name(longest, names));
}

static void test_flags_taken_back(void **state)
{
    (void)state;
    struct copy_options options =
        taken("-cvv --no-checksum --no-verbose --no-memory --memory a h:");
    assert_false(options.checksum || options.no_memory);
    assert_int_equal(options.verbose, 0);
    copy_options_release(&options);
    options = taken("--no-owner --no-checksum -c a h:");
    assert_true(options.no_owner && options.checksum);
    copy_options_release(&options);
    refused("--no-checksum=yes a h:", "takes no value");
    refused("--no-policy a h:", "no option --no-policy");
    refused("--no-no-memory a h:", "no option --no-no-memory");
    refused("--no-help a h:", "no option --no-help");
}

int main(void)
{
    setenv("PETREL_CONFIG", "none", 1); /* whatever this machine's user has set */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push),
        cmocka_unit_test(test_pull),
        cmocka_unit_test(test_all_options),
        cmocka_unit_test(test_habits_of_others),
        cmocka_unit_test(test_ssh_options_are_passed_in_order),
        cmocka_unit_test(test_options_stand_anywhere),
        cmocka_unit_test(test_words_after_two_dashes),
        cmocka_unit_test(test_url_gives_the_port),
        cmocka_unit_test(test_sides),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_both_readings_of_a_bare_rate),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_flags_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
