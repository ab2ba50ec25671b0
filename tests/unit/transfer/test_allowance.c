#include "unit.h"

#include "base/units.h"
#include "transfer/allowance.h"

#define BLOCK INT64_C(1048576)

static void without_a_limit_all_goes(void **state)
{
    (void)state;
    struct allowance allowance = {0};
    for (unsigned i = 0; i < 1000; i++) {
        assert_true(allowance_admits(&allowance, i));
        allowance_spend(&allowance, BLOCK);
    }
    assert_int_equal(allowance_deadline(&allowance), 0);
}

/* Bytes that went in ten seconds of asking whenever the deadline says. */
static int64_t in_ten_seconds(struct allowance *allowance, uint64_t from_ns)
{
    int64_t bytes = 0;
    uint64_t now_ns = from_ns;
    while (now_ns < from_ns + 10 * NS_PER_S) {
        if (allowance_admits(allowance, now_ns)) {
            allowance_spend(allowance, BLOCK);
            bytes += BLOCK;
        } else {
            uint64_t next_ns = allowance_deadline(allowance);
            assert_true(next_ns > now_ns);
            now_ns = next_ns;
        }
    }
    return bytes;
}

static void the_rate_is_kept(void **state)
{
    (void)state;
    static const uint64_t rates[] = {1000000, 80000000, UINT64_C(10000000000)};
    for (unsigned i = 0; i < 3; i++) {
        struct allowance allowance = {0};
        allowance_set(&allowance, rates[i], false, 5);
        int64_t wanted = (int64_t)(rates[i] / 8 * 10);
        int64_t got = in_ten_seconds(&allowance, 5);
        assert_true(got >= wanted - BLOCK && got <= wanted + wanted / 40 + 2 * BLOCK);
    }
}

static void pauses_and_changes(void **state)
{
    (void)state;
    struct allowance allowance = {0};
    allowance_set(&allowance, 8000000, true, 0);
    assert_false(allowance_admits(&allowance, NS_PER_S));
    assert_true(allowance_deadline(&allowance) == UINT64_MAX);
    allowance_set(&allowance, 8000000, false, 3600 * NS_PER_S); /* an hour earns 0.2 s */
    int64_t got = in_ten_seconds(&allowance, 3600 * NS_PER_S);
    assert_true(got >= 9 * BLOCK && got <= 12 * BLOCK);
    allowance_set(&allowance, 0, true, 4000 * NS_PER_S);
    assert_false(allowance_admits(&allowance, 4000 * NS_PER_S));
    allowance_set(&allowance, 0, false, 4000 * NS_PER_S);
    assert_true(allowance_admits(&allowance, 4000 * NS_PER_S));
    allowance_spend(&allowance, 1000 * BLOCK);
    allowance_set(&allowance, 8000000, false, 4001 * NS_PER_S);
    assert_true(allowance_admits(&allowance, 4001 * NS_PER_S));
    allowance_spend(&allowance, BLOCK);
    assert_false(allowance_admits(&allowance, 4001 * NS_PER_S));
    allowance_spend(&allowance, -BLOCK); /* it held nothing */
    assert_true(allowance_admits(&allowance, 4001 * NS_PER_S));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_limit_all_goes),
        cmocka_unit_test(the_rate_is_kept),
        cmocka_unit_test(pauses_and_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
