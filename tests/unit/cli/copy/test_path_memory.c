#include "unit.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/copy/path_memory.h"

static char folder[64];
static const struct rate_memory found = {
    .rate_bps = 800000000, .rtt_ns = 50000000, .loss_millionths = 10000};
static const struct rate_memory nothing = {0};

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/petrel-state-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    return setenv("XDG_STATE_HOME", folder, 1);
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

static void count_record(void *context, const struct path_record *record)
{
    assert_true(record->path.rate_bps > 0);
    ++*(unsigned *)context;
}

static unsigned count_records(void)
{
    unsigned count = 0;
    struct error error = {0};
    assert_true(path_memory_list(count_record, &count, &error));
    return count;
}

static void clear_all(void)
{
    unsigned count;
    struct error error = {0};
    assert_true(path_memory_clear(NULL, &count, &error));
    assert_int_equal(count_records(), 0);
}

static uint64_t remembered(const char *host, bool to)
{
    struct rate_memory path;
    path_memory_read(host, to, &path);
    return path.rate_bps;
}

static void test_nothing_at_first(void **state)
{
    (void)state;
    assert_int_equal(remembered("host", true), 0);
    assert_int_equal(count_records(), 0);
    path_memory_note("host", true, &nothing, MEMORY_UNUSED);
    path_memory_note("host", true, &nothing, MEMORY_FAILED);
    assert_int_equal(access(folder, F_OK), 0);
    assert_int_equal(count_records(), 0);
    clear_all();
}

static void test_each_way_for_itself(void **state)
{
    (void)state;
    struct rate_memory path;
    path_memory_note("me@host", true, &found, MEMORY_UNUSED);
    path_memory_read("you@host", true, &path);
    assert_memory_equal(&path, &found, sizeof(path));
    assert_int_equal(remembered("host", false), 0);
    assert_int_equal(remembered("host.", true), 0);
    path_memory_note("host", false, &found, MEMORY_HELD);
    assert_int_equal(count_records(), 2);
    unsigned count;
    struct error error = {0};
    assert_true(path_memory_clear("other", &count, &error));
    assert_int_equal(count, 0);
    assert_true(path_memory_clear("me@host", &count, &error));
    assert_int_equal(count, 2);
    assert_int_equal(remembered("host", true), 0);
}

static void test_what_does_not_hold_is_halved_then_forgotten(void **state)
{
    (void)state;
    path_memory_note("host", true, &found, MEMORY_UNUSED);
    path_memory_note("host", true, &nothing, MEMORY_HELD);
    assert_int_equal(remembered("host", true), found.rate_bps);
    path_memory_note("host", true, &nothing, MEMORY_FAILED);
    assert_int_equal(remembered("host", true), found.rate_bps / 2);
    path_memory_note("host", true, &nothing, MEMORY_FAILED);
    assert_int_equal(remembered("host", true), 0);
    assert_int_equal(count_records(), 0);
    path_memory_note("host", true, &found, MEMORY_FAILED); /* but it found what is there now */
    assert_int_equal(remembered("host", true), found.rate_bps);
    clear_all();
}

/* Hosts are what people write: none may lead out of the folder or collide. */
static void test_odd_hosts(void **state)
{
    (void)state;
    static const char *const hosts[] = {"../../etc/x", ".", "..", "fe80::1%eth0", "a/b",
                                        "A",           "a", "%",  "%25"};
    char longest[300];
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        struct rate_memory path = {.rate_bps = 1000 + i, .rtt_ns = 1};
        path_memory_note(hosts[i], true, &path, MEMORY_UNUSED);
    }
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
        assert_int_equal(remembered(hosts[i], true), 1000 + i);
    assert_int_equal(count_records(), sizeof(hosts) / sizeof(hosts[0]));
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    path_memory_note(longest, true, &found, MEMORY_UNUSED);
    assert_int_equal(remembered(longest, true), 0);
    path_memory_note("", true, &found, MEMORY_UNUSED);
    assert_int_equal(remembered("", true), 0);
    clear_all();
}

static void write_file(const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/petrel/paths/host.to.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_old_and_spoilt_files(void **state)
{
    (void)state;
    char text[256];
    path_memory_note("host", true, &found, MEMORY_UNUSED);
    static const char *const spoilt[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"host\":\"host\",\"rate_bps\":-1,\"rtt_ns\":1}",
        "{\"host\":\"host\",\"rate_bps\":1,\"rtt_ns\":1,\"loss_millionths\":1000001}"};
    for (size_t i = 0; i < sizeof(spoilt) / sizeof(spoilt[0]); i++) {
        write_file(spoilt[i]);
        assert_int_equal(remembered("host", true), 0);
    }
    const long ages[] = {0, 3600, (long)PATH_MEMORY_LIFE_S - 10, (long)PATH_MEMORY_LIFE_S + 10,
                         -100};
    for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
        snprintf(text, sizeof(text),
                 "{\"host\":\"host\",\"to\":true,\"rate_bps\":5,\"rtt_ns\":7,\"when_s\":%ld}",
                 (long)time(NULL) - ages[i]);
        write_file(text);
        assert_int_equal(remembered("host", true), i < 3 ? 5 : 0);
    }
    clear_all();
}

static void test_a_home_instead(void **state)
{
    (void)state;
    setenv("XDG_STATE_HOME", "not/absolute", 1);
    setenv("HOME", folder, 1);
    path_memory_note("host", true, &found, MEMORY_UNUSED);
    assert_int_equal(remembered("host", true), found.rate_bps);
    char path[128];
    struct stat status;
    snprintf(path, sizeof(path), "%s/.local/state/petrel/paths", folder);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    clear_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_at_first),
        cmocka_unit_test(test_each_way_for_itself),
        cmocka_unit_test(test_what_does_not_hold_is_halved_then_forgotten),
        cmocka_unit_test(test_odd_hosts),
        cmocka_unit_test(test_old_and_spoilt_files),
        cmocka_unit_test(test_a_home_instead),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
