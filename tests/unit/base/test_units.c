#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/units.h"

typedef bool parse_function(const char *text, uint64_t *value, struct error *error);

struct parsed {
    const char *text;
    uint64_t value;
};

static void check_parsed(parse_function *parse, const struct parsed *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 0;
        struct error error = {0};
        if (!parse(cases[i].text, &value, &error))
            fail_msg("'%s': %s", cases[i].text, error.text);
        if (value != cases[i].value)
            fail_msg("'%s' gave %llu", cases[i].text, (unsigned long long)value);
    }
}

static void check_refused(parse_function *parse, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 12345;
        struct error error = {0};
        if (parse(texts[i], &value, &error))
            fail_msg("'%s' gave %llu", texts[i], (unsigned long long)value);
        assert_int_equal(error.kind, ERROR_USAGE);
        assert_true(value == 12345); /* outputs only on success */
        assert_true(texts[i][0] == '\0' || strstr(error.text, texts[i]) != NULL);
    }
}

#define CHECK_PARSED(parse, cases) check_parsed(parse, cases, sizeof(cases) / sizeof *(cases))
#define CHECK_REFUSED(parse, texts) check_refused(parse, texts, sizeof(texts) / sizeof *(texts))

static void test_rates(void **state)
{
    (void)state;
    static const struct parsed cases[] = {
        {"200Mbit", 200000000},
        {"1.5gbit", 1500000000},
        {"25MB", 200000000},
        {"3MiB", 25165824},
        {"10Gbit/s", 10000000000},
        {"800kB/s", 6400000},
        {"9600bit", 9600},
        {"1B", 8},
        {"100mbps", 100000000},
        {"1Tbit", 1000000000000},
        {"0.1kbit", 100},
        {"2Gibit", 2147483648},
        {"1.000000001Gbit", 1000000001},
    };
    CHECK_PARSED(parse_rate, cases);
    static const char *const refused[] = {
        "",        "25",       "25M",       "25Mb",       "25mb/s", "Mbit",
        "-1Mbit",  "1 Mbit",   "1.2.3Mbit", "0Mbit",      "0.1bit", "1Xbit",
        "1Mbit/h", "1Mbitbit", "0x10Mbit",  "99999999TB", "1e3bit", "1kilobytes/second"};
    CHECK_REFUSED(parse_rate, refused);
}

static void test_a_bare_rate_shows_both_readings(void **state)
{
    (void)state;
    uint64_t rate;
    struct error error = {0};
    assert_false(parse_rate("25M", &rate, &error));
    assert_non_null(strstr(error.text, "25Mbit"));
    assert_non_null(strstr(error.text, "25MB"));
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct parsed cases[] = {
        {"0", 0},
        {"1000", 1000},
        {"64K", 65536},
        {"64KiB", 65536},
        {"5G", 5368709120},
        {"10MB", 10000000},
        {"1.5k", 1536},
        {"7b", 7},
        {"2TiB", UINT64_C(2) << 40},
        {"1tb", 1000000000000},
        {".5M", 524288},
        {"18446744073709551615", UINT64_MAX},
        {"1.9", 1},
    };
    CHECK_PARSED(parse_size, cases);
    static const char *const refused[] = {
        "",          "K",    "12X", "-5",   "5 M",          "18446744073709551616",
        "16777216T", "1,5M", ".",   "1..5", "1.0000000001M"};
    CHECK_REFUSED(parse_size, refused);
}

static void test_times(void **state)
{
    (void)state;
    static const struct parsed cases[] = {
        {"50us", 50 * NS_PER_US},
        {"3.5ms", 3500000},
        {"2s", 2 * NS_PER_S},
        {"10m", 600 * NS_PER_S},
        {"24h", 86400 * NS_PER_S},
        {"7ns", 7},
        {"0", 0},
        {"1.5d", 129600 * NS_PER_S},
        {"10min", 600 * NS_PER_S},
    };
    CHECK_PARSED(parse_time, cases);
    static const char *const refused[] = {"", "5", "s", "-1s", "5sec", "1h30m", "300000d"};
    CHECK_REFUSED(parse_time, refused);
}

static void test_shares(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t parts;
    } cases[] = {
        {"0", 0},
        {"0%", 0},
        {"1%", 42949673},
        {"0.25%", 10737418},
        {"0.01", 42949673},
        {"50%", 1u << 31},
        {"100%", UINT32_MAX},
        {"1", UINT32_MAX},
        {"1.0", UINT32_MAX},
        {"0.5", 1u << 31},
        {"0.000000001", 4},
        {"99.999999999%", UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t parts = 1;
        assert_true(parse_share(cases[i].text, &parts, NULL));
        assert_int_equal(parts, cases[i].parts);
    }
    static const char *const refused[] = {"", "%", "101%", "1.1", "2", "-1%", "1%%", "1 %", "x"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        uint32_t parts = 12345;
        struct error error = {0};
        assert_false(parse_share(refused[i], &parts, &error));
        assert_int_equal(error.kind, ERROR_USAGE);
        assert_int_equal(parts, 12345);
    }
}

static void test_unsigned(void **state)
{
    (void)state;
    uint64_t value = 0;
    struct error error = {0};
    assert_true(parse_unsigned("16", 16, &value, &error));
    assert_true(value == 16);
    assert_true(parse_unsigned("18446744073709551615", UINT64_MAX, &value, &error));
    assert_true(value == UINT64_MAX);
    value = 1;
    static const char *const refused[] = {
        "17", "", "1.0", "-1", "+1", "1x", "18446744073709551616"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_false(parse_unsigned(refused[i], 16, &value, NULL));
        assert_true(value == 1);
    }
}

typedef char *format_function(char *text, size_t capacity, uint64_t value);

static void check_form(format_function *format, uint64_t value, const char *expected)
{
    char text[24];
    assert_ptr_equal(format(text, sizeof text, value), text);
    assert_string_equal(text, expected);
}

static void test_forms(void **state)
{
    (void)state;
    check_form(format_size, 0, "0 B");
    check_form(format_size, 999, "999 B");
    check_form(format_size, 1000, "1.00 kB");
    check_form(format_size, 9994, "9.99 kB");
    check_form(format_size, 9996, "10.0 kB");
    check_form(format_size, 12345, "12.3 kB");
    check_form(format_size, 999499, "999 kB");
    check_form(format_size, 999500, "1.00 MB");
    check_form(format_size, 1250000000, "1.25 GB");
    check_form(format_size, UINT64_MAX, "18.4 EB");
    check_form(format_byte_rate, 944000000, "118 MB/s");
    check_form(format_bit_rate, 943000000, "943 Mbit/s");
    check_form(format_bit_rate, UINT64_MAX, "18.4 Ebit/s");
    check_form(format_time, 0, "0 ns");
    check_form(format_time, 850, "850 ns");
    check_form(format_time, 1500, "1.5 us");
    check_form(format_time, 12 * NS_PER_MS, "12.0 ms");
    check_form(format_time, 118 * NS_PER_MS, "118 ms");
    check_form(format_time, 3200 * NS_PER_MS, "3.2 s");
    check_form(format_time, NS_PER_S - 1, "1.0 s");
    check_form(format_time, 125 * NS_PER_S, "2:05");
    check_form(format_time, TIME_NEVER, "never");
    check_form(format_clock, 0, "0:00");
    check_form(format_clock, 62 * NS_PER_S, "1:02");
    check_form(format_clock, 3723 * NS_PER_S, "1:02:03");
    check_form(format_clock, UINT64_MAX - 1, "5124095:34:34");
}

static void test_forms_never_jump_or_overflow(void **state)
{
    (void)state;
    /* Around each power of ten, where a carry could print 10.00 or 1000. */
    static format_function *const formats[] = {format_size, format_byte_rate, format_bit_rate,
                                               format_time, format_clock};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        uint64_t power = 1;
        for (unsigned digits = 0; digits < 19; digits++, power *= 10) {
            for (uint64_t part = 0; part < 60; part++) {
                char text[24];
                formats[i](text, sizeof text, power + power / 10000 * part - power / 10000 * 30);
                assert_true(strlen(text) < sizeof text - 1);
                assert_null(strstr(text, "1000"));
                assert_null(strstr(text, "10.00"));
                assert_null(strstr(text, "100.0"));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),  cmocka_unit_test(test_a_bare_rate_shows_both_readings),
        cmocka_unit_test(test_sizes),  cmocka_unit_test(test_times),
        cmocka_unit_test(test_shares), cmocka_unit_test(test_unsigned),
        cmocka_unit_test(test_forms),  cmocka_unit_test(test_forms_never_jump_or_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
