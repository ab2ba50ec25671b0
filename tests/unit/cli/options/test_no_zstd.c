/* -z in a build without libzstd is answered by a line, and the copy goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/options/copy_options.h"

static void test_it_is_said(void **state)
{
    (void)state;
    char *words[] = {"copy", "--config=none", "-z", "file", "host:"};
    struct copy_options options;
    struct error error = {0};
    assert_true(copy_options_parse(&options, 5, words, &error));
    assert_int_equal(options.remarks.count, 1);
    assert_non_null(strstr(options.remarks.values[0], "built without zstd"));
    copy_options_release(&options);
    words[2] = "-z=never";
    assert_true(copy_options_parse(&options, 5, words, &error));
    assert_int_equal(options.remarks.count, 0);
    copy_options_release(&options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_it_is_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
