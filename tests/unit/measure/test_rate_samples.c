#include "unit.h"

#include "base/units.h"
#include "measure/rate_samples.h"

static void test_nothing_is_said_of_little(void **state)
{
    (void)state;
    struct rate_samples samples;
    rate_samples_start(&samples, 5);
    assert_int_equal(rate_samples_sustained(&samples, NULL), 0);
    rate_samples_add(&samples, 5 + RATE_SAMPLE_NS, 100);
    assert_int_equal(rate_samples_sustained(&samples, NULL), 0);
}

/* A ramp at the start and a dribble at the end do not count. */
static void test_start_and_end_do_not_count(void **state)
{
    (void)state;
    struct rate_samples samples;
    rate_samples_start(&samples, 0);
    uint64_t bytes = 0, now_ns = 0;
    for (unsigned i = 0; i < 100; i++) {
        now_ns += RATE_SAMPLE_NS;
        bytes += i < 15 ? 10000 : i < 80 ? 500000 : 1000;
        rate_samples_add(&samples, now_ns, bytes);
    }
    uint64_t expected = 500000 * 8 * (NS_PER_S / RATE_SAMPLE_NS);
    assert_in_range(rate_samples_sustained(&samples, NULL), expected * 98 / 100, expected);
}

static void test_a_long_run_is_thinned_out(void **state)
{
    (void)state;
    struct rate_samples samples;
    rate_samples_start(&samples, 0);
    for (uint64_t i = 1; i <= 100000; i++)
        rate_samples_add(&samples, i * RATE_SAMPLE_NS, i * 1000);
    assert_true(samples.count <= RATE_SAMPLES_MAX);
    assert_true(samples.taken[samples.count - 1].bytes > 90000000);
    uint64_t expected = 1000 * 8 * (NS_PER_S / RATE_SAMPLE_NS);
    assert_in_range(rate_samples_sustained(&samples, NULL), expected * 99 / 100,
                    expected * 101 / 100);
}

static void test_two_flows_of_one_window(void **state)
{
    (void)state;
    struct rate_samples one, other;
    struct rate_window window;
    rate_samples_start(&one, 0);
    rate_samples_start(&other, 10 * RATE_SAMPLE_NS);
    for (uint64_t i = 1; i <= 200; i++) /* alone, then half of it, then alone again */
        rate_samples_add(&one, i * RATE_SAMPLE_NS,
                         1000 * i - (i < 10    ? 0
                                     : i < 110 ? i - 10
                                               : 100) *
                                        500);
    for (uint64_t i = 1; i <= 100; i++)
        rate_samples_add(&other, (10 + i) * RATE_SAMPLE_NS, i * 500);
    uint64_t half = 500 * 8 * (NS_PER_S / RATE_SAMPLE_NS);
    assert_in_range(rate_samples_sustained(&other, &window), half - 1, half + 1);
    assert_true(window.from_ns >= 10 * RATE_SAMPLE_NS && window.until_ns <= 110 * RATE_SAMPLE_NS);
    assert_in_range(rate_samples_within(&one, &window), half - 1, half + 1);
}

static void test_windows_at_the_edges(void **state)
{
    (void)state;
    struct rate_samples samples;
    rate_samples_start(&samples, 1000);
    const struct rate_window before = {0, 1000}, none = {2000, 2000}, beyond = {1000, 9000};
    assert_int_equal(rate_samples_within(&samples, &beyond), 0);
    rate_samples_add(&samples, 5000, 400);
    assert_int_equal(rate_samples_within(&samples, &before), 0);
    assert_int_equal(rate_samples_within(&samples, &none), 0);
    assert_int_equal(rate_samples_within(&samples, &beyond), 400 * UINT64_C(8000000000) / 8000);
    const struct rate_window half = {1000, 3000};
    assert_int_equal(rate_samples_within(&samples, &half), 200 * UINT64_C(8000000000) / 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_said_of_little),
        cmocka_unit_test(test_start_and_end_do_not_count),
        cmocka_unit_test(test_a_long_run_is_thinned_out),
        cmocka_unit_test(test_two_flows_of_one_window),
        cmocka_unit_test(test_windows_at_the_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
