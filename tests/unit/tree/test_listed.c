/* --files-from: only what is listed comes, with the directories above it, and nothing else can. */
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
#include "tree/pack.h"

static char base[256], src[300], dst[300], contents[320];
static struct copy copy;

static int setup(void **state)
{
    (void)state;
    strcpy(base, test_directory());
    strcpy(src, at(base, "src"));
    strcpy(dst, at(base, "dst"));
    snprintf(contents, sizeof contents, "%s/", src);
    make_directory(src, 0755);
    make_directory(at(src, "a"), 0711);
    make_directory(at(src, "a/b"), 0755);
    make_directory(at(src, "a/b/c"), 0755);
    make_text(at(src, "a/b/c/file"), "f");
    make_text(at(src, "a/b/other"), "o");
    make_text(at(src, "a b"), "blank");
    make_text(at(src, "top"), "t");
    make_link("top", at(src, "link"));
    make_file(at(src, "a/large"), 1u << 20, 1);
    set_time(at(src, "a/b"), 1000, 5);
    make_directory(dst, 0755);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_no_litter(dst);
    remove_tree(base);
    return 0;
}

static void run(bool pull, uint64_t flags, const char *const *listed)
{
    const char *paths[] = {contents};
    bool ignores = copy.sender_ignores_rules;
    copy = (struct copy){.flags = flags, .listed = listed, .pull = pull, .seed = 2};
    copy.sender_ignores_rules = ignores;
    copy.paths = paths;
    copy.path_count = 1;
    copy.destination = dst;
    copy_run(&copy);
}

static void check_listed(bool pull)
{
    static const char *const listed[] = {"a/b/c/file",   "./top", "a/large",
                                         "/a/b/c//file", "link",  NULL};
    run(pull, 0, listed);
    assert_true(copy.finished);
    assert_int_equal(copy.done, 3);
    assert_int_equal(copy.total_files, 3);
    assert_int_equal(copy.problems + copy.failures, 0);
    assert_text(at(dst, "a/b/c/file"), "f");
    assert_file(at(dst, "a/large"), 1u << 20, 1);
    assert_text(at(dst, "top"), "t");
    assert_false(exists(at(dst, "a/b/other")));
    assert_false(exists(at(dst, "a b")));
    struct stat status;
    assert_int_equal(stat(at(dst, "a"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0711);
    assert_int_equal(stat(at(dst, "a/b"), &status), 0);
    assert_int_equal(status.st_mtim.tv_sec, 1000);
    assert_int_equal(lstat(at(dst, "link"), &status), 0);
    assert_true(S_ISLNK(status.st_mode));
}

static void test_push(void **state)
{
    (void)state;
    check_listed(false);
}

static void test_pull(void **state)
{
    (void)state;
    check_listed(true);
}

static void test_directories(void **state)
{
    (void)state;
    static const char *const listed[] = {"a/b", "a/b/c/file", NULL};
    static const char *const alone[] = {"a/b/", NULL};
    run(false, TRANSFER_LIST_TREES, listed);
    assert_true(copy.finished);
    assert_int_equal(copy.done, 2);
    assert_same_tree(at(src, "a/b"), at(dst, "a/b"));
    assert_false(exists(at(dst, "a/large")));
    remove_tree(at(dst, "a"));
    run(true, 0, alone);
    assert_true(copy.finished);
    assert_int_equal(copy.done, 0);
    assert_true(exists(at(dst, "a/b")));
    assert_false(exists(at(dst, "a/b/other")));
    static const char *const all[] = {".", "top", NULL};
    run(true, TRANSFER_LIST_TREES, all);
    assert_true(copy.finished);
    assert_same_tree(at(src, "a"), at(dst, "a"));
    assert_text(at(dst, "a b"), "blank");
}

static void test_what_is_missing_or_no_directory(void **state)
{
    (void)state;
    static const char *const listed[] = {"none", "top/x", "a/none/x", "link/x", "top", NULL};
    run(false, 0, listed);
    assert_true(copy.finished);
    assert_int_equal(copy.problems, 4);
    assert_int_equal(copy.done, 1);
    assert_text(at(dst, "top"), "t");
}

static void test_rules_count_too(void **state)
{
    (void)state;
    static const char *const listed[] = {"a/b", "top", "a/large", NULL};
    static const char *const rules[] = {"- other", "- /a/large", "- c/", NULL};
    const char *paths[] = {contents};
    copy = (struct copy){.flags = TRANSFER_LIST_TREES, .listed = listed, .rules = rules};
    copy.paths = paths;
    copy.path_count = 1;
    copy.destination = dst;
    copy.pull = true;
    copy_run(&copy);
    assert_true(copy.finished);
    assert_int_equal(copy.done, 1);
    assert_true(exists(at(dst, "a/b")));
    assert_false(exists(at(dst, "a/b/c")));
    assert_false(exists(at(dst, "a/b/other")));
    assert_false(exists(at(dst, "a/large")));
}

/* A sender that brings more than was asked for is refused by name. */
static void test_a_sender_that_ignores_it(void **state)
{
    (void)state;
    static const char *const listed[] = {"a/b/c/file", NULL};
    copy.sender_ignores_rules = true;
    run(true, 0, listed);
    copy.sender_ignores_rules = false;
    assert_true(copy.failed);
    assert_int_equal(copy.error.kind, ERROR_REFUSED);
    assert_non_null(strstr(copy.error.text, "--files-from"));
    assert_false(exists(at(dst, "top")));
}

static void test_words(void **state)
{
    (void)state;
    struct file_list *list = file_list_new();
    struct error error = {0};
    char longest[PACK_PATH_MAX + 10];
    memset(longest, 'x', sizeof longest);
    assert_false(file_list_add(list, "a/../b", 6, &error));
    assert_int_equal(error.kind, ERROR_USAGE);
    assert_false(file_list_add(list, longest, PACK_PATH_MAX + 1, NULL));
    assert_false(file_list_finish(list, false, NULL)); /* nothing in it */
    file_list_free(list);
    /* What a peer sends is read as what it is. */
    static const struct {
        const char *bytes;
        size_t size;
        enum file_list_result result;
    } cases[] = {{"\0\1a", 3, FILE_LIST_PATH},
                 {"\0\2a", 3, FILE_LIST_FAILED},
                 {"\0", 1, FILE_LIST_FAILED},
                 {"\0\2..", 4, FILE_LIST_FAILED},
                 {"\0\2a/", 4, FILE_LIST_FAILED},
                 {"\0\2/a", 4, FILE_LIST_FAILED},
                 {"\0\1\0", 3, FILE_LIST_FAILED},
                 {"\xff\xff"
                  "a",
                  3, FILE_LIST_FAILED},
                 {"\0\0", 2, FILE_LIST_PATH},
                 {"", 0, FILE_LIST_END}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        list = file_list_new();
        assert_true(file_list_append(list, (const uint8_t *)cases[i].bytes, cases[i].size, NULL));
        struct file_list_reader reader = {.list = list};
        char path[PACK_PATH_MAX + 1];
        size_t size;
        error = (struct error){0};
        assert_int_equal(file_list_next(&reader, path, &size, &error), cases[i].result);
        file_list_free(list);
    }
}

static void test_many(void **state)
{
    (void)state;
    struct file_list *list = file_list_new();
    char path[64];
    for (int i = 0; i < 30000; i++) {
        int size = snprintf(path, sizeof path, "d%d/e/%d", i % 100, i * 7919 % 30000);
        assert_true(file_list_add(list, path, (size_t)size, NULL));
    }
    assert_true(file_list_finish(list, true, NULL));
    assert_true(file_list_admits(list, "d1/e/7919", 9, false, false));
    assert_true(file_list_admits(list, "d1/e", 4, true, false));
    assert_false(file_list_admits(list, "d1/e", 4, false, false));
    assert_true(file_list_admits(list, "", 0, true, false));
    assert_false(file_list_admits(list, "d1/e/7919/x", 11, false, false));
    assert_true(file_list_admits(list, "d1/e/7919/x", 11, false, true));
    assert_false(file_list_admits(list, "d1/f", 4, true, true));
    struct file_list_reader reader = {.list = list};
    size_t count = 0, size;
    while (file_list_next(&reader, path, &size, NULL) == FILE_LIST_PATH)
        count++;
    assert_int_equal(count, 30000);
    file_list_free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_push, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pull, setup, teardown),
        cmocka_unit_test_setup_teardown(test_directories, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_missing_or_no_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rules_count_too, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_sender_that_ignores_it, setup, teardown),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
