/* The simulated link: shares of loss, lengths of bursts, rate, queue, delay, order, MTU, policer,
 * changes over time. Shares are checked within five standard deviations, with fixed seeds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/units.h"
#include "lab/sim_link.h"
#include "lab/sim_queue.h"

#define COUNT 200000u

static uint64_t absolute_difference(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* Offers COUNT datagrams a microsecond apart; returns how many did not arrive, and the number of
 * runs of losses. */
static uint64_t lose(const struct sim_link_config *config, uint64_t seed, uint64_t *runs)
{
    struct sim_link link;
    struct sim_arrival arrivals[2];
    enum sim_fate fate;
    uint64_t lost = 0;
    bool last_lost = false;
    *runs = 0;
    sim_link_init(&link, config, seed);
    for (uint64_t i = 0; i < COUNT; i++) {
        bool gone = sim_link_offer(&link, i * 1000, 1000, arrivals, &fate) == 0;
        lost += gone;
        *runs += gone && !last_lost;
        last_lost = gone;
    }
    assert_int_equal(link.counts.fates[SIM_LOST], lost);
    return lost;
}

static void test_independent_loss(void **state)
{
    (void)state;
    static const unsigned percents[] = {1, 5, 10, 30};
    for (unsigned i = 0; i < 4; i++) {
        struct sim_link_config config = {.loss = SIM_SHARE(1) * percents[i]};
        uint64_t runs;
        uint64_t lost = lose(&config, 7 + i, &runs);
        uint64_t expected = COUNT / 100 * percents[i];
        assert_true(absolute_difference(lost, expected) < 5 * 207); /* sqrt(COUNT x 0.3 x 0.7) */
        /* Independent: a run has 1 / (1 - p) datagrams. */
        uint64_t expected_runs = lost * (100 - percents[i]) / 100;
        assert_true(absolute_difference(runs, expected_runs) < 5 * 250);
    }
}

static void test_correlated_loss_keeps_the_share(void **state)
{
    (void)state;
    struct sim_link_config config = {.loss = SIM_SHARE(5), .loss_repeat = SIM_SHARE(50)};
    uint64_t runs;
    uint64_t lost = lose(&config, 3, &runs);
    assert_true(absolute_difference(lost, COUNT / 20) < 5 * 170);
    /* The next one is lost with 0.5 + 0.5 x 0.05: a run has 1 / 0.475 datagrams. */
    assert_true(absolute_difference(runs, lost * 475 / 1000) < 5 * 100);
}

static void test_bursts_have_their_length(void **state)
{
    (void)state;
    struct sim_link_config config = {.burst_enter = SIM_SHARE(0.5),
                                     .burst_leave = SIM_SHARE(10),
                                     .burst_loss = SIM_SHARE(99.99)};
    uint64_t runs;
    uint64_t lost = lose(&config, 11, &runs);
    /* In the bad state 0.5 / 10.5 of the time, ten datagrams long each. */
    assert_true(absolute_difference(lost, COUNT / 21) < 1200);
    assert_true(absolute_difference(lost, runs * 10) < lost / 10);
}

static void test_rate_is_exact(void **state)
{
    (void)state;
    struct sim_link_config config = {.rate_bps = 99999999977, .delay_ns = 5 * NS_PER_MS};
    struct sim_link link;
    struct sim_arrival arrivals[2] = {{0}};
    enum sim_fate fate;
    sim_link_init(&link, &config, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(sim_link_offer(&link, 0, 1472, arrivals, &fate), 1);
    }
    uint64_t bits = UINT64_C(1500) * 8 * COUNT;
    assert_int_equal(arrivals[0].at_ns, sim_scale(bits, NS_PER_S, config.rate_bps) + 5 * NS_PER_MS);
}

static void test_queue_drops_what_does_not_fit(void **state)
{
    (void)state;
    struct sim_link_config config = {.rate_bps = 8000000, .queue_bytes = 15000};
    struct sim_link link;
    struct sim_arrival arrivals[2];
    enum sim_fate fate;
    sim_link_init(&link, &config, 1);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(sim_link_offer(&link, 0, 1472, arrivals, &fate), 1);
    }
    assert_int_equal(sim_link_offer(&link, 0, 1472, arrivals, &fate), 0);
    assert_int_equal(fate, SIM_QUEUE_FULL);
    assert_int_equal(sim_link_backlog(&link, 0), 15000);
    /* One megabyte a second: 1.5 ms later one packet has left. */
    assert_int_equal(sim_link_offer(&link, 1500 * NS_PER_US, 1472, arrivals, &fate), 1);
    assert_int_equal(arrivals[0].at_ns, 16500 * NS_PER_US);
}

static void test_jitter_keeps_order_and_reordering_breaks_it(void **state)
{
    (void)state;
    struct sim_link_config config = {.delay_ns = NS_PER_MS, .jitter_ns = NS_PER_MS};
    struct sim_link link;
    struct sim_arrival arrivals[2];
    enum sim_fate fate;
    uint64_t last = 0, overtaken = 0;
    sim_link_init(&link, &config, 5);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(sim_link_offer(&link, i * 1000, 1000, arrivals, &fate), 1);
        assert_true(arrivals[0].at_ns >= last);
        assert_in_range(arrivals[0].at_ns, i * 1000 + NS_PER_MS, i * 1000 + 2 * NS_PER_MS);
        last = arrivals[0].at_ns;
    }
    config.jitter_ns = 0;
    config.reorder = SIM_SHARE(10);
    config.reorder_ns = NS_PER_MS;
    sim_link_init(&link, &config, 5);
    last = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        assert_int_equal(sim_link_offer(&link, i * 1000, 1000, arrivals, &fate), 1);
        overtaken += arrivals[0].at_ns < last;
        last = arrivals[0].at_ns;
    }
    assert_in_range(overtaken, 700, 1100);
    assert_in_range(link.counts.held_back, 850, 1150);
}

static void test_duplicates_and_corruption_are_shares(void **state)
{
    (void)state;
    struct sim_link_config config = {.duplicate = SIM_SHARE(10), .corrupt = SIM_SHARE(5)};
    struct sim_link link;
    struct sim_arrival arrivals[2];
    enum sim_fate fate;
    uint64_t arrived = 0;
    sim_link_init(&link, &config, 5);
    for (uint64_t i = 0; i < COUNT; i++) {
        arrived += sim_link_offer(&link, i * 1000, 1000, arrivals, &fate);
    }
    assert_true(absolute_difference(arrived, COUNT + COUNT / 10) < 5 * 134);
    assert_int_equal(link.counts.duplicated, arrived - COUNT);
    assert_true(absolute_difference(link.counts.corrupted, arrived / 20) < 5 * 102);
}

static void test_mtu(void **state)
{
    (void)state;
    struct sim_link_config config = {.mtu = 1400};
    struct sim_link link;
    struct sim_arrival arrivals[2];
    enum sim_fate fate;
    sim_link_init(&link, &config, 5);
    assert_int_equal(sim_link_offer(&link, 0, 1372, arrivals, &fate), 1);
    assert_int_equal(sim_link_offer(&link, 0, 1373, arrivals, &fate), 0);
    assert_int_equal(fate, SIM_TOO_BIG);
}

static void test_policer_passes_burst_then_rate(void **state)
{
    (void)state;
    struct sim_link_config config = {.policer_bps = 8000000, .policer_burst_bytes = 30000};
    struct sim_link link;
    struct sim_arrival arrivals[2];
    enum sim_fate fate;
    uint64_t passed = 0;
    sim_link_init(&link, &config, 5);
    for (unsigned i = 0; i < 100; i++) {
        passed += sim_link_offer(&link, 0, 1472, arrivals, &fate);
    }
    assert_int_equal(passed, 20);
    assert_int_equal(fate, SIM_POLICED);
    /* Offered at twice the rate for ten seconds, half passes. */
    passed = 0;
    for (uint64_t i = 1; i <= 13333; i++) {
        passed += sim_link_offer(&link, i * 750 * NS_PER_US, 1472, arrivals, &fate);
    }
    assert_true(absolute_difference(passed, 6666) < 3);
    /* An hour of rest fills the bucket and no more. */
    passed = 0;
    for (unsigned i = 0; i < 100; i++) {
        passed += sim_link_offer(&link, 3600 * NS_PER_S, 1472, arrivals, &fate);
    }
    assert_int_equal(passed, 20);
}

static void test_changes_happen_at_their_times(void **state)
{
    (void)state;
    struct sim_link_config config = {
        .rate_bps = 8000000,
        .delay_ns = 10 * NS_PER_MS,
        .changes = {{1 * NS_PER_S, SIM_CHANGE_UP, 0},
                    {2 * NS_PER_S, SIM_CHANGE_UP, 1},
                    {2 * NS_PER_S, SIM_CHANGE_DELAY, 20 * NS_PER_MS},
                    {3 * NS_PER_S, SIM_CHANGE_MTU, 1000},
                    {4 * NS_PER_S, SIM_CHANGE_RATE, 80000000},
                    {5 * NS_PER_S, SIM_CHANGE_LOSS, SIM_SHARE(99.9999)}},
        .change_count = 6};
    struct sim_link link;
    struct sim_arrival arrivals[2];
    enum sim_fate fate;
    sim_link_init(&link, &config, 5);
    assert_int_equal(sim_link_offer(&link, NS_PER_S - 1, 972, arrivals, &fate), 1);
    assert_int_equal(arrivals[0].at_ns, NS_PER_S - 1 + 11 * NS_PER_MS);
    assert_int_equal(sim_link_offer(&link, NS_PER_S, 972, arrivals, &fate), 0);
    assert_int_equal(fate, SIM_DOWN);
    assert_int_equal(sim_link_offer(&link, 2 * NS_PER_S, 1472, arrivals, &fate), 1);
    assert_int_equal(arrivals[0].at_ns, 2 * NS_PER_S + 21500 * NS_PER_US);
    assert_int_equal(sim_link_offer(&link, 3 * NS_PER_S, 1472, arrivals, &fate), 0);
    /* Ten packets of 1 ms wait when the rate rises tenfold: the rest takes a tenth. */
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(sim_link_offer(&link, 4 * NS_PER_S - 5 * NS_PER_MS, 972, arrivals, &fate),
                         1);
    }
    assert_int_equal(sim_link_backlog(&link, 4 * NS_PER_S), 5000);
    assert_int_equal(sim_link_offer(&link, 4 * NS_PER_S, 972, arrivals, &fate), 1);
    assert_int_equal(arrivals[0].at_ns, 4 * NS_PER_S + 25 * NS_PER_MS); /* behind those before */
    assert_int_equal(sim_link_offer(&link, 4 * NS_PER_S + 10 * NS_PER_MS, 972, arrivals, &fate), 1);
    assert_int_equal(arrivals[0].at_ns, 4 * NS_PER_S + 30100 * NS_PER_US);
    assert_int_equal(sim_link_offer(&link, 5 * NS_PER_S, 972, arrivals, &fate), 0);
    assert_int_equal(fate, SIM_LOST);
}

static void test_same_seed_same_fates(void **state)
{
    (void)state;
    struct sim_link_config config = {.loss = SIM_SHARE(10), .jitter_ns = 12345};
    struct sim_link a, b;
    struct sim_arrival from_a[2], from_b[2];
    enum sim_fate fate_a, fate_b;
    sim_link_init(&a, &config, 42);
    sim_link_init(&b, &config, 42);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(sim_link_offer(&a, i, 100, from_a, &fate_a),
                         sim_link_offer(&b, i, 100, from_b, &fate_b));
        assert_int_equal(fate_a, fate_b);
        assert_true(fate_a != SIM_PASSED || from_a[0].at_ns == from_b[0].at_ns);
    }
}

static void test_queue_is_ordered_and_stable(void **state)
{
    (void)state;
    struct sim_queue *queue = sim_queue_new();
    struct random random;
    random_seed(&random, 9);
    assert_true(sim_queue_next_ns(queue) == TIME_NEVER);
    for (unsigned i = 0; i < 5000; i++) {
        struct sim_event *event = sim_queue_make(queue);
        event->at_ns = random_below(&random, 100);
        event->action = i;
        sim_queue_push(queue, event);
    }
    uint64_t last_ns = 0;
    unsigned last_action = 0;
    for (unsigned i = 0; i < 5000; i++) {
        uint64_t next_ns = sim_queue_next_ns(queue);
        struct sim_event *event = sim_queue_pop(queue);
        assert_non_null(event);
        assert_true(event->at_ns == next_ns && event->at_ns >= last_ns);
        assert_true(event->at_ns > last_ns || i == 0 || event->action > last_action);
        last_ns = event->at_ns;
        last_action = event->action;
        sim_queue_give(queue, event);
    }
    assert_null(sim_queue_pop(queue));
    sim_queue_free(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_independent_loss),
        cmocka_unit_test(test_correlated_loss_keeps_the_share),
        cmocka_unit_test(test_bursts_have_their_length),
        cmocka_unit_test(test_rate_is_exact),
        cmocka_unit_test(test_queue_drops_what_does_not_fit),
        cmocka_unit_test(test_jitter_keeps_order_and_reordering_breaks_it),
        cmocka_unit_test(test_duplicates_and_corruption_are_shares),
        cmocka_unit_test(test_mtu),
        cmocka_unit_test(test_policer_passes_burst_then_rate),
        cmocka_unit_test(test_changes_happen_at_their_times),
        cmocka_unit_test(test_same_seed_same_fates),
        cmocka_unit_test(test_queue_is_ordered_and_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
