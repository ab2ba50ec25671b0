#include "unit.h"

#include "measure/port_set.h"

static void round_trip(const char *text, unsigned count)
{
    struct port_set set;
    char back[256];
    assert_true(port_set_parse(&set, text));
    assert_int_equal(port_set_count(&set), count);
    assert_string_equal(port_set_format(back, sizeof(back), &set), text);
}

static void test_round_trips(void **state)
{
    (void)state;
    round_trip("", 0);
    round_trip("60000", 1);
    round_trip("60000-61000", 1001);
    round_trip("0,7,60000-60007,65535", 11);
    round_trip("0-65535", 65536);
}

static void test_the_longest_run(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint16_t first, last;
    } cases[] = {{"", 0, 0},
                 {"60000", 60000, 60000},
                 {"60000,60002-60004,60006-60008", 60002, 60004},
                 {"1-2,65533-65535", 65533, 65535}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct port_set set;
        uint16_t first, last;
        assert_true(port_set_parse(&set, cases[i].text));
        port_set_longest(&set, &first, &last);
        assert_int_equal(first, cases[i].first);
        assert_int_equal(last, cases[i].last);
    }
}

static void test_what_is_no_set(void **state)
{
    (void)state;
    static const char *const bad[] = {",",     "1,",      "-1",    "1-",    "5-4",
                                      "65536", "1-65536", "a",     "1 2",   "1..2",
                                      "1,,2",  "000000",  "1-2-3", "1,...", "99999999"};
    struct port_set set;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(port_set_parse(&set, bad[i]));
}

static void test_a_long_text_is_cut(void **state)
{
    (void)state;
    struct port_set set = {0};
    char text[40];
    for (unsigned port = 60000; port < 60100; port += 2)
        port_set_add(&set, (uint16_t)port);
    port_set_format(text, sizeof(text), &set);
    assert_true(strlen(text) < sizeof(text));
    assert_string_equal(text + strlen(text) - 4, ",...");
    assert_int_equal(port_set_first(&set), 60000);
    assert_true(port_set_has(&set, 60002));
    assert_false(port_set_has(&set, 60003));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_the_longest_run),
        cmocka_unit_test(test_what_is_no_set),
        cmocka_unit_test(test_a_long_text_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
