#include "unit.h"

#include "cli/exit_code.h"

/* Scripts depend on these numbers: a change here is a change that users notice. */
static const struct {
    enum error_kind kind;
    int code;
} codes[] = {
    {ERROR_NONE, 0},         {ERROR_USAGE, 1},        {ERROR_IO, 11},        {ERROR_PROTOCOL, 12},
    {ERROR_PEER, 12},        {ERROR_INTERRUPTED, 20}, {ERROR_CHANGED, 24},   {ERROR_PEER_LOST, 30},
    {ERROR_UNREACHABLE, 40}, {ERROR_VERIFY, 41},      {ERROR_NO_REMOTE, 42}, {ERROR_VERSION, 42},
    {ERROR_NO_SPACE, 43},    {ERROR_PERMISSION, 44},  {ERROR_REFUSED, 45},   {ERROR_CRYPTO, 46},
    {ERROR_NOT_FOUND, 47},   {ERROR_EXISTS, 48},      {ERROR_MEMORY, 49},    {ERROR_SSH, 255},
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_codes),
                                       cmocka_unit_test(test_unknown_kinds_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
