#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/error.h"

static void test_first_cause_wins(void **state)
{
    (void)state;
    struct error error = {0};
    assert_false(error_set(&error, ERROR_VERIFY, "block %d differs", 7));
    assert_false(error_set(&error, ERROR_IO, "later"));
    assert_false(error_set_errno(&error, EIO, "later"));
    assert_int_equal(error.kind, ERROR_VERIFY);
    assert_int_equal(error.os_errno, 0);
    assert_string_equal(error.text, "block 7 differs");
    error_clear(&error);
    assert_int_equal(error.kind, ERROR_NONE);
    assert_string_equal(error.text, "");
    error_set(&error, ERROR_USAGE, "again");
    assert_int_equal(error.kind, ERROR_USAGE);
}

static void test_no_error_wanted(void **state)
{
    (void)state;
    assert_false(error_set(NULL, ERROR_IO, "%s", "x"));
    assert_false(error_set_errno(NULL, ENOENT, "%s", "x"));
    error_clear(NULL);
}

static void test_kind_follows_errno(void **state)
{
    (void)state;
    static const struct {
        int os_errno;
        enum error_kind kind;
    } cases[] = {
        {ENOENT, ERROR_NOT_FOUND},
        {ENOTDIR, ERROR_NOT_FOUND},
        {EACCES, ERROR_PERMISSION},
        {EPERM, ERROR_PERMISSION},
        {EROFS, ERROR_PERMISSION},
        {ENOSPC, ERROR_NO_SPACE},
        {EDQUOT, ERROR_NO_SPACE},
        {EEXIST, ERROR_EXISTS},
        {EISDIR, ERROR_EXISTS},
        {ENOMEM, ERROR_MEMORY},
        {EIO, ERROR_IO},
        {ESTALE, ERROR_IO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error = {0};
        assert_false(error_set_errno(&error, cases[i].os_errno, "open %s", "a/b"));
        assert_int_equal(error.kind, cases[i].kind);
        assert_int_equal(error.os_errno, cases[i].os_errno);
        assert_int_equal(strncmp(error.text, "open a/b: ", 10), 0);
        assert_string_equal(error.text + 10, strerror(cases[i].os_errno));
    }
}

static void test_long_texts_are_cut(void **state)
{
    (void)state;
    char path[2000];
    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = '\0';
    struct error error = {0};
    error_set_errno(&error, ENOENT, "open %s", path);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
}

static void test_every_kind_has_a_name(void **state)
{
    (void)state;
    for (int kind = 0; kind < ERROR_KIND_COUNT; kind++) {
        const char *name = error_kind_name((enum error_kind)kind);
        assert_string_not_equal(name, "unknown");
        assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz-"), strlen(name));
        for (int other = 0; other < kind; other++)
            assert_string_not_equal(name, error_kind_name((enum error_kind)other));
    }
    assert_string_equal(error_kind_name(ERROR_KIND_COUNT), "unknown");
    assert_string_equal(error_kind_name((enum error_kind) - 1), "unknown");
    assert_string_equal(error_kind_name(ERROR_NO_SPACE), "no-space");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_cause_wins),      cmocka_unit_test(test_no_error_wanted),
        cmocka_unit_test(test_kind_follows_errno),    cmocka_unit_test(test_long_texts_are_cut),
        cmocka_unit_test(test_every_kind_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
