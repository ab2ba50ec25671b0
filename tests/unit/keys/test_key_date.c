#include "unit.h"

#include "keys/key_date.h"

/* The seconds are what `date -u +%s` says. */
static void test_dates(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t when_s;
    } rows[] = {
        {"1970-01-01T00:00", 0},           {"1970-01-01", 86400},
        {"2026-12-31", 1798761600},        {"2026-12-31T18:00", 1798740000},
        {"2026-12-31T18:00Z", 1798740000}, {"2024-02-29", 1709251200},
        {"2000-02-29T23:59", 951868740},   {"9999-12-31", UINT64_C(253402300800)},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t when_s = 1;
        if (!key_date_parse(rows[i].text, &when_s) || when_s != rows[i].when_s)
            fail_msg("%s: %llu", rows[i].text, (unsigned long long)when_s);
    }
}

static void test_what_is_no_date(void **state)
{
    (void)state;
    static const char *const words[] = {
        "",
        "2026",
        "2026-13-01",
        "2026-00-01",
        "2026-01-00",
        "2026-04-31",
        "2023-02-29",
        "1900-02-29",
        "2100-02-29",
        "1969-12-31",
        "26-12-31",
        "2026-1-1",
        "2026-12-31 ",
        " 2026-12-31",
        "2026-12-31T",
        "2026/12/31",
        "2026-12-31T24",
        "2026-12-31T24:00",
        "2026-12-31T12:60",
        "2026-12-31T1:00",
        "tomorrow",
        "2026-12-31Z",
        "-026-12-31",
        "2026-12-31T12:00z",
        "2026-12-31T12:00:00",
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        uint64_t when_s = 1;
        if (key_date_parse(words[i], &when_s) || when_s != 1)
            fail_msg("\"%s\" was taken", words[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dates),
        cmocka_unit_test(test_what_is_no_date),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
