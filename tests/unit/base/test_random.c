#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"

static void test_known_sequence(void **state)
{
    (void)state;
    /* Computed by an independent script from the published definitions. */
    static const uint64_t expected[] = {UINT64_C(0x15780b2e0c2ec716), UINT64_C(0x6104d9866d113a7e),
                                        UINT64_C(0xae17533239e499a1), UINT64_C(0xecb8ad4703b360a1),
                                        UINT64_C(0xfde6dc7fe2ec5e64), UINT64_C(0xc50da53101795238)};
    struct random random;
    random_seed(&random, 42);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_true(random_next(&random) == expected[i]);
}

static void test_below_is_bounded_and_even(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, 1);
    assert_true(random_below(&random, 0) == 0);
    assert_true(random_below(&random, 1) == 0);
    unsigned counts[7] = {0};
    for (unsigned i = 0; i < 70000; i++) {
        uint64_t value = random_below(&random, 7);
        assert_true(value < 7);
        counts[value]++;
    }
    for (unsigned i = 0; i < 7; i++) /* five standard deviations */
        assert_in_range(counts[i], 9537, 10463);
    uint64_t large = (UINT64_C(1) << 63) + 1; /* nearly half of all draws are biased here */
    for (unsigned i = 0; i < 1000; i++)
        assert_true(random_below(&random, large) < large);
}

static void test_chance(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, 2);
    unsigned hits = 0;
    for (unsigned i = 0; i < 100000; i++)
        hits += random_chance(&random, UINT32_MAX / 100);
    assert_in_range(hits, 842, 1158);
    for (unsigned i = 0; i < 1000; i++)
        assert_false(random_chance(&random, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_sequence),
        cmocka_unit_test(test_below_is_bounded_and_even),
        cmocka_unit_test(test_chance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
