/* Packet size: which sizes are proved, and what is a black hole and what is only loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/units.h"
#include "transport/limits.h"
#include "transport/mtu.h"

#define RTT (40 * NS_PER_MS)

/* Probes everything; those up to `passes` arrive. */
static uint64_t settle(struct mtu *mtu, uint64_t now_ns, uint16_t passes)
{
    for (unsigned round = 0; round < 20; round++) {
        uint16_t datagram;
        while ((datagram = mtu_next_probe(mtu, now_ns)) != 0) {
            if (datagram <= passes)
                mtu_probe_arrived(mtu, datagram);
        }
        now_ns += 20 * NS_PER_MS;
    }
    return now_ns;
}

static struct mtu settled(uint16_t passes)
{
    struct mtu mtu;
    mtu_init(&mtu, false, 1500, DATAGRAM_MAX, 0);
    settle(&mtu, 0, passes);
    return mtu;
}

/* Counts the canaries that are due within a second, all of which arrive when `arrive`. */
static unsigned canaries(struct mtu *mtu, uint64_t *now_ns, uint64_t *number, bool arrive,
                         bool *fell)
{
    unsigned count = 0;
    *fell = false;
    for (uint64_t end_ns = *now_ns + NS_PER_S; *now_ns < end_ns; *now_ns += NS_PER_MS) {
        if (!mtu_canary_due(mtu, RTT, *now_ns))
            continue;
        count++;
        if (arrive && mtu_canary_arrived(mtu, (*number)++, *now_ns)) {
            *fell = true;
            break;
        }
    }
    return count;
}

static void test_the_largest_that_passes(void **state)
{
    (void)state;
    static const struct {
        uint16_t passes, size;
    } cases[] = {{1472, 1472}, {1471, 1464}, {1372, 1372}, {1252, 1252}, {1251, 1200}};
    for (unsigned i = 0; i < 5; i++) {
        struct mtu mtu = settled(cases[i].passes);
        assert_int_equal(mtu_datagram(&mtu), cases[i].size);
        assert_int_equal(mtu_next_probe(&mtu, 1000 * NS_PER_S), 0);
    }
}

/* One ack settles many packets: all that arrived first, then all that did not. */
static void test_random_loss_is_no_black_hole(void **state)
{
    (void)state;
    struct mtu mtu = settled(1472);
    struct random random;
    random_seed(&random, 1);
    uint64_t now_ns = NS_PER_S, number = 100;
    for (unsigned ack = 0; ack < 200; ack++) {
        uint64_t lost[200];
        unsigned count = 0;
        for (unsigned i = 0; i < 200; i++, number++) {
            if (random_below(&random, 100) < 30)
                lost[count++] = number;
            else
                mtu_data_arrived(&mtu, 1472, number);
        }
        for (unsigned i = 0; i < count; i++)
            mtu_data_lost(&mtu, 1472, lost[i], now_ns);
        now_ns += RTT;
        assert_false(mtu_canary_due(&mtu, RTT, now_ns));
    }
    assert_int_equal(mtu_datagram(&mtu), 1472);
}

static void test_black_hole(void **state)
{
    (void)state;
    struct mtu mtu = settled(1472);
    uint64_t now_ns = 2 * NS_PER_S, number = 100;
    bool fell;
    mtu_data_arrived(&mtu, 1472, number++);
    for (unsigned i = 0; i < 31; i++)
        mtu_data_lost(&mtu, 1472, number++, now_ns);
    assert_false(mtu_canary_due(&mtu, RTT, now_ns));
    mtu_data_lost(&mtu, 1472, number++, now_ns);
    canaries(&mtu, &now_ns, &number, true, &fell);
    assert_true(fell);
    assert_int_equal(mtu_datagram(&mtu), DATAGRAM_MIN);
    assert_int_equal(mtu_largest(&mtu), 1464);
    /* What was still on its way says nothing of the new size. */
    for (unsigned i = 0; i < 100; i++)
        mtu_data_lost(&mtu, 1472, number++, now_ns);
    settle(&mtu, now_ns, 1300);
    assert_int_equal(mtu_datagram(&mtu), 1252);
}

static void test_outage_is_no_black_hole(void **state)
{
    (void)state;
    struct mtu mtu = settled(1472);
    uint64_t now_ns = 2 * NS_PER_S, number = 100;
    bool fell;
    mtu_data_arrived(&mtu, 1472, number++);
    for (unsigned i = 0; i < 64; i++)
        mtu_data_lost(&mtu, 1472, number++, now_ns);
    unsigned first = canaries(&mtu, &now_ns, &number, false, &fell);
    assert_in_range(first, 10, 40);
    for (unsigned i = 0; i < 8; i++)
        canaries(&mtu, &now_ns, &number, false, &fell);
    assert_in_range(canaries(&mtu, &now_ns, &number, false, &fell), 0, 2);
    mtu_data_arrived(&mtu, 1472, number++);
    assert_int_equal(canaries(&mtu, &now_ns, &number, true, &fell), 0);
    assert_int_equal(mtu_datagram(&mtu), 1472);
}

static void test_cap(void **state)
{
    (void)state;
    struct mtu mtu = settled(1472);
    assert_false(mtu_cap(&mtu, 1472, NS_PER_S));
    assert_true(mtu_cap(&mtu, 1372, NS_PER_S));
    assert_int_equal(mtu_datagram(&mtu), DATAGRAM_MIN);
    settle(&mtu, NS_PER_S, 1472);
    assert_int_equal(mtu_datagram(&mtu), 1372);
    assert_false(mtu_cap(&mtu, 1400, 2 * NS_PER_S)); /* a cap is never raised */
    settle(&mtu, 2 * NS_PER_S, 1472);
    assert_int_equal(mtu_datagram(&mtu), 1372);
    assert_true(mtu_cap(&mtu, 1, NS_PER_S));
    assert_int_equal(mtu_datagram(&mtu), DATAGRAM_MIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_largest_that_passes),
        cmocka_unit_test(test_random_loss_is_no_black_hole),
        cmocka_unit_test(test_black_hole),
        cmocka_unit_test(test_outage_is_no_black_hole),
        cmocka_unit_test(test_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
