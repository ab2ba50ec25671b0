#include "unit.h"

#include "base/units.h"
#include "measure/rate_samples.h"

static void test_nothing_is_said_of_little(void **state)
{
    (void)state;
    struct rate_samples samples;
    rate_samples_start(&samples, 5);
    assert_int_equal(rate_samples_sustained(&samples), 0);
    rate_samples_add(&samples, 5 + RATE_SAMPLE_NS, 100);
    assert_int_equal(rate_samples_sustained(&samples), 0);
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
    assert_in_range(rate_samples_sustained(&samples), expected * 98 / 100, expected);
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
    assert_in_range(rate_samples_sustained(&samples), expected * 99 / 100, expected * 101 / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_said_of_little),
        cmocka_unit_test(test_start_and_end_do_not_count),
        cmocka_unit_test(test_a_long_run_is_thinned_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
