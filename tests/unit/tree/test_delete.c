/* --delete: what goes, what stays, and that nothing goes unless everything came. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copy.h"

static char base[256], src[300], dst[300];
static struct copy copy;

static int setup(void **state)
{
    (void)state;
    strcpy(base, test_directory());
    strcpy(src, at(base, "src"));
    strcpy(dst, at(base, "dst"));
    make_directory(src, 0755);
    make_directory(at(src, "d"), 0755);
    make_text(at(src, "a"), "a");
    make_text(at(src, "d/b"), "b");
    make_directory(dst, 0755);
    copy = (struct copy){.flags = TRANSFER_DELETE | TRANSFER_QUICK_CHECK};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    remove_tree(base);
    return 0;
}

static void run(const char *source)
{
    const char *paths[] = {source};
    copy.paths = paths;
    copy.path_count = 1;
    copy.destination = dst;
    copy_run(&copy);
}

static void make_extra(const char *folder)
{
    char root[300];
    strcpy(root, folder);
    make_text(at(root, "0"), "before all others");
    make_text(at(root, "zzz"), "behind all others");
    make_text(at(root, "d/extra"), "x");
    make_link("nowhere", at(root, "d/link"));
    make_directory(at(root, "gone"), 0755);
    make_directory(at(root, "gone/deep"), 0755);
    make_text(at(root, "gone/deep/file"), "x");
    assert_int_equal(mkfifo(at(root, "gone/pipe"), 0600), 0);
    make_text(at(root, "gone/.petrel-0123456789abcdef"), "left by a killed run");
}

static void test_what_did_not_come_goes(void **state)
{
    (void)state;
    make_directory(at(dst, "src"), 0755);
    make_directory(at(dst, "src/d"), 0755);
    make_extra(at(dst, "src"));
    make_text(at(dst, "beside"), "not beneath what was sent");
    make_text(at(dst, "src/.petrel-0123456789abcdef"), "perhaps of another run");
    run(src);
    assert_true(copy.finished);
    assert_int_equal(copy.deleted, 9);
    assert_int_equal(unlink(at(dst, "src/.petrel-0123456789abcdef")), 0);
    assert_same_tree(at(src, "d"), at(dst, "src/d"));
    assert_false(exists(at(dst, "src/0")) || exists(at(dst, "src/zzz")));
    assert_false(exists(at(dst, "src/gone")));
    assert_text(at(dst, "beside"), "not beneath what was sent");
    const struct copy_line *line = copy_line_of(&copy, "src/gone/deep");
    assert_int_equal(line->kind, SINK_DELETED);
}

/* The same events as the run that follows, and nothing done. */
static void test_a_dry_run_says_the_same(void **state)
{
    (void)state;
    make_directory(at(dst, "src"), 0755);
    make_directory(at(dst, "src/d"), 0755);
    make_extra(at(dst, "src"));
    static const char *const rules[] = {"P /src/gone/deep/file", NULL};
    copy.rules = rules;
    copy.flags |= TRANSFER_DRY_RUN;
    run(src);
    assert_true(copy.finished);
    static char said[2][COPY_LOG][512];
    size_t count[2] = {0, 0};
    for (size_t i = 0; i < copy.line_count; i++) {
        if (copy.lines[i].kind == SINK_DELETED)
            strcpy(said[0][count[0]++], copy.lines[i].path);
    }
    assert_text(at(dst, "src/gone/deep/file"), "x");
    copy = (struct copy){.flags = TRANSFER_DELETE, .rules = rules};
    run(src);
    for (size_t i = 0; i < copy.line_count; i++) {
        if (copy.lines[i].kind == SINK_DELETED)
            strcpy(said[1][count[1]++], copy.lines[i].path);
    }
    assert_int_equal(count[0], 6);
    assert_int_equal(count[1], 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(said[0][i], said[1][i]);
    assert_non_null(strstr(copy.note, "2 directories were not deleted"));
    assert_text(at(dst, "src/gone/deep/file"), "x");
    assert_false(exists(at(dst, "src/gone/pipe")));
}

static void test_rules_protect(void **state)
{
    (void)state;
    static const char *const rules[] = {"P /zzz", "- *.o", "-s hidden", NULL};
    make_directory(at(dst, "d"), 0755);
    make_text(at(dst, "zzz"), "z");
    make_text(at(dst, "d/x.o"), "o");
    make_text(at(dst, "d/hidden"), "h");
    make_text(at(dst, "d/y"), "y");
    copy.rules = rules;
    char contents[320];
    snprintf(contents, sizeof contents, "%s/", src);
    run(contents);
    assert_true(copy.finished);
    assert_text(at(dst, "zzz"), "z");
    assert_text(at(dst, "d/x.o"), "o");
    assert_false(exists(at(dst, "d/hidden")));
    assert_false(exists(at(dst, "d/y")));
    assert_int_equal(copy.deleted, 2);
}

static void test_nothing_goes_when_something_failed(void **state)
{
    (void)state;
    make_directory(at(dst, "src"), 0755);
    make_text(at(dst, "src/extra"), "x");
    copy.problems_told = 1;
    run(src);
    assert_true(copy.finished);
    assert_int_equal(copy.deleted, 0);
    assert_non_null(strstr(copy.note, "nothing was deleted"));
    assert_text(at(dst, "src/extra"), "x");
    /* Here, too. */
    make_directory(at(dst, "src/a2"), 0755);
    make_text(at(dst, "src/a2/x"), "x");
    make_text(at(src, "a2"), "a file where a directory is");
    copy = (struct copy){.flags = TRANSFER_DELETE};
    run(src);
    assert_int_equal(copy.failures, 1);
    assert_int_equal(copy.deleted, 0);
    assert_text(at(dst, "src/extra"), "x");
}

static void test_max_delete(void **state)
{
    (void)state;
    make_directory(at(dst, "src"), 0755);
    make_directory(at(dst, "src/e"), 0755);
    make_text(at(dst, "src/e/1"), "x");
    make_text(at(dst, "src/2"), "x");
    copy.flags |= TRANSFER_MAX_DELETE;
    copy.max_delete = 2;
    run(src);
    assert_true(copy.finished);
    assert_int_equal(copy.deleted, 0);
    assert_int_equal(copy.failures, 1);
    assert_int_equal(copy_line_of(&copy, "")->error, ERROR_LIMIT);
    assert_text(at(dst, "src/e/1"), "x");
    copy = (struct copy){.flags = TRANSFER_DELETE | TRANSFER_MAX_DELETE, .max_delete = 3};
    run(src);
    assert_int_equal(copy.deleted, 3);
    assert_int_equal(copy.failures, 0);
    assert_same_tree(src, at(dst, "src"));
}

/* A link in the place of a directory is removed as a link: what it leads to stays. */
static void test_links_are_not_followed(void **state)
{
    (void)state;
    make_directory(at(base, "outside"), 0755);
    make_text(at(base, "outside/file"), "x");
    make_directory(at(dst, "src"), 0755);
    make_directory(at(dst, "src/gone"), 0755);
    make_link(at(base, "outside"), at(dst, "src/link"));
    make_link(at(base, "outside"), at(dst, "src/gone/link"));
    run(src);
    assert_true(copy.finished);
    assert_int_equal(copy.deleted, 3);
    assert_same_tree(src, at(dst, "src"));
    assert_text(at(base, "outside/file"), "x");
}

/* More names than fit into what sorting holds, in directories that share beginnings. */
static void test_many(void **state)
{
    (void)state;
    char name[64];
    make_directory(at(dst, "src"), 0755);
    make_directory(at(dst, "src/d"), 0755);
    make_directory(at(src, "d d"), 0755);
    make_directory(at(src, "d-d"), 0755);
    make_directory(at(dst, "src/d d"), 0755);
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "d/%d", i);
        if (i % 3 == 0)
            make_text(at(src, name), "x");
        snprintf(name, sizeof name, "src/d d/%d", i);
        make_text(at(dst, name), "x");
    }
    run(src);
    assert_true(copy.finished);
    assert_int_equal(copy.deleted, 3000);
    assert_same_tree(src, at(dst, "src"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_did_not_come_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_dry_run_says_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rules_protect, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_goes_when_something_failed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_max_delete, setup, teardown),
        cmocka_unit_test_setup_teardown(test_links_are_not_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
