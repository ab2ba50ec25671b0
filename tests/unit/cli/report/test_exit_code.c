#include "unit.h"

#include "cli/report/exit_code.h"

/* Scripts depend on these numbers: a change here is a change that users notice. */
static const struct {
    enum error_kind kind;
    int code;
} codes[] = {
    {ERROR_NONE, 0},         {ERROR_USAGE, 1},        {ERROR_IO, 11},        {ERROR_PROTOCOL, 12},
    {ERROR_PEER, 12},        {ERROR_INTERRUPTED, 20}, {ERROR_CHANGED, 24},   {ERROR_PEER_LOST, 30},
    {ERROR_UNREACHABLE, 40}, {ERROR_VERIFY, 41},      {ERROR_NO_REMOTE, 42}, {ERROR_VERSION, 42},
    {ERROR_NO_SPACE, 43},    {ERROR_PERMISSION, 44},  {ERROR_REFUSED, 45},   {ERROR_CRYPTO, 46},
    {ERROR_NOT_FOUND, 47},   {ERROR_EXISTS, 48},      {ERROR_MEMORY, 49},    {ERROR_LIMIT, 25},
    {ERROR_SSH, 255},
};

static void test_codes(void **state)
{
    (void)state;
    assert_int_equal(sizeof(codes) / sizeof(codes[0]), ERROR_KIND_COUNT);
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        assert_int_equal(exit_code_of(codes[i].kind), codes[i].code);
}

static void test_unknown_kinds_fail(void **state)
{
    (void)state;
    assert_int_equal(exit_code_of(ERROR_KIND_COUNT), EXIT_PROTOCOL);
    assert_int_equal(exit_code_of((enum error_kind)200), EXIT_PROTOCOL);
}

static int code_of(const enum error_kind *kinds, size_t count, uint64_t others)
{
    struct failures failures = {.count = 0};
    for (size_t i = 0; i < count; i++)
        failures_add(&failures, kinds[i]);
    return exit_code_of_failures(&failures, others);
}

static void test_failed_files(void **state)
{
    (void)state;
    const enum error_kind full[] = {ERROR_NO_SPACE, ERROR_NO_SPACE};
    const enum error_kind mixed[] = {ERROR_NO_SPACE, ERROR_PERMISSION, ERROR_NO_SPACE};
    const enum error_kind changed[] = {ERROR_CHANGED, ERROR_CHANGED};
    const enum error_kind verify[] = {ERROR_CHANGED, ERROR_VERIFY, ERROR_IO};
    assert_int_equal(code_of(full, 2, 0), EXIT_NO_SPACE);
    assert_int_equal(code_of(full, 1, 0), EXIT_NO_SPACE);
    assert_int_equal(code_of(full, 2, 1), EXIT_PARTIAL);
    assert_int_equal(code_of(mixed, 3, 0), EXIT_PARTIAL);
    assert_int_equal(code_of(changed, 2, 0), EXIT_VANISHED);
    assert_int_equal(code_of(changed, 2, 5), EXIT_VANISHED);
    assert_int_equal(code_of(verify, 3, 5), EXIT_VERIFY);
    assert_int_equal(code_of(verify, 2, 0), EXIT_VERIFY);
    assert_int_equal(code_of(verify, 0, 0), EXIT_PARTIAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_codes),
                                       cmocka_unit_test(test_unknown_kinds_fail),
                                       cmocka_unit_test(test_failed_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
