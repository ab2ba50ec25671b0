#include "unit.h"

#include "cli/options/port_range.h"

static void takes(const char *text, unsigned first, unsigned last)
{
    uint16_t a = 0, b = 0;
    assert_true(port_range_parse(text, &a, &b));
    assert_int_equal(a, first);
    assert_int_equal(b, last);
}

static void test_good(void **state)
{
    (void)state;
    takes("60000-61000", 60000, 61000);
    takes("1-65535", 1, 65535);
    takes("60000", 60000, 60000);
    takes("7-7", 7, 7);
}

static void test_bad(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",       "-",   "0",      "0-1",       "1-0",   "2-1",       "1-",      "-1",
        "1--2",   "+1",  " 1",     "1 ",        "1-2-3", "65536",     "1-65536", "99999",
        "100000", "1-x", "60000:", "0x10-0x20", "1-2 ",  "4294967297"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint16_t a = 5, b = 6;
        assert_false(port_range_parse(bad[i], &a, &b));
        assert_int_equal(a, 5);
        assert_int_equal(b, 6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
