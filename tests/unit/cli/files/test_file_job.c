#include "unit.h"

#include <stdlib.h>

#include "cli/files/file_job.h"

static char line[FILE_JOB_LINE_MAX];

static struct file_job sample(enum file_job_kind kind)
{
    struct file_job job = {.kind = kind,
                           .hash_only = true,
                           .follow_links = true,
                           .details = true,
                           .recursive = true,
                           .json = true};
    assert_true(file_job_add_path(&job, "a \"b\"\n"));
    if (kind == FILE_JOB_MANIFEST || kind == FILE_JOB_LIST)
        assert_true(file_job_add_path(&job, "\xff\\"));
    return job;
}

static bool reads(const char *text, size_t size)
{
    struct file_job job;
    struct error error = {0};
    char *exact = malloc(size > 0 ? size : 1);
    memcpy(exact, text, size);
    bool good = file_job_read(&job, exact, size, &error);
    free(exact);
    assert_true(good == (error.kind == ERROR_NONE));
    if (good)
        file_job_release(&job);
    return good;
}

static void jobs_round_trip(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < FILE_JOB_COUNT; kind++) {
        struct file_job job = sample((enum file_job_kind)kind), back;
        struct error error = {0};
        size_t size = file_job_write(&job, line, sizeof(line));
        assert_true(size > 0 && line[size - 1] == '\n');
        assert_null(memchr(line, '\n', size - 1));
        assert_true(file_job_read(&back, line, size - 1, &error));
        assert_int_equal(back.kind, kind);
        assert_true(back.hash_only && back.follow_links && back.json);
        assert_true(back.details && back.recursive);
        assert_false(back.dry_run || back.content_only);
        assert_int_equal(back.path_count, job.path_count);
        for (size_t i = 0; i < job.path_count; i++)
            assert_string_equal(back.paths[i], job.paths[i]);
        for (size_t cut = 0; cut < size - 1; cut++)
            assert_false(reads(line, cut));
        assert_int_equal(file_job_write(&job, line, size - 1), 0);
        file_job_release(&back);
        file_job_release(&job);
    }
}

static void bad_jobs_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"do\":\"clean\"}",
        "{\"do\":\"clean\",\"paths\":[]}",
        "{\"do\":\"clean\",\"paths\":\"61\"}",
        "{\"do\":\"clean\",\"paths\":[\"61\",\"62\"]}",
        "{\"do\":\"verify\",\"paths\":[\"61\",\"62\"]}",
        "{\"do\":\"burn\",\"paths\":[\"61\"]}",
        "{\"do\":1,\"paths\":[\"61\"]}",
        "{\"do\":\"clean\",\"paths\":[61]}",
        "{\"do\":\"clean\",\"paths\":[\"6\"]}",
        "{\"do\":\"clean\",\"paths\":[\"6g\"]}",
        "{\"do\":\"clean\",\"paths\":[\"6A\"]}",
        "{\"do\":\"clean\",\"paths\":[\"00\"]}",
        "{\"do\":\"clean\",\"do\":\"clean\",\"paths\":[\"61\"]}",
    };
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(reads(bad[i], strlen(bad[i])));
    static const char good[] = "{\"do\":\"clean\",\"paths\":[\"61\"],\"new\":[1]}";
    assert_true(reads(good, strlen(good)));
}

static void limits_are_kept(void **state)
{
    (void)state;
    for (size_t over = 0; over < 2; over++) {
        size_t size = (size_t)sprintf(line, "{\"do\":\"manifest\",\"paths\":[");
        for (size_t i = 0; i < FILE_JOB_PATHS_MAX + over; i++)
            size += (size_t)sprintf(line + size, "%s\"61\"", i > 0 ? "," : "");
        size += (size_t)sprintf(line + size, "]}");
        assert_true(reads(line, size) == (over == 0));
        size = (size_t)sprintf(line, "{\"do\":\"manifest\",\"paths\":[\"");
        for (size_t i = 0; i < FILE_JOB_PATH_MAX + over; i++)
            size += (size_t)sprintf(line + size, "61");
        size += (size_t)sprintf(line + size, "\"]}");
        assert_true(reads(line, size) == (over == 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_round_trip),
        cmocka_unit_test(bad_jobs_are_refused),
        cmocka_unit_test(limits_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
