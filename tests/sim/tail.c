/* What loss costs where there is nothing more to send: the last block, transfers of a few packets,
 * and paths so short that timers rule (case 18). In virtual time, many seeds each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/units.h"
#include "sim_case.h"

#define MBIT UINT64_C(1000000)
#define GBIT UINT64_C(1000000000)
#define MS NS_PER_MS
#define SEEDS 60u

struct path {
    uint64_t rate_bps, rtt_ns;
    uint32_t loss, loss_back;
    uint32_t blocks, length;
    uint64_t fixed_bps; /* 0: the controller's rate */
};

/* From the end of the sender's handshake until the receiver has everything. */
static uint64_t took_ns(const struct path *path, uint64_t seed)
{
    static struct sim_case c;
    sim_case_init(&c, seed, path->rate_bps, path->rtt_ns);
    c.world.links[0].loss = path->loss;
    c.world.links[1].loss = path->loss_back;
    c.world.hosts[SENDER].fixed_bps = path->fixed_bps;
    c.blocks.count = path->blocks;
    c.blocks.length_min = c.blocks.length_max = path->length;
    c.blocks.control_bytes = 0;
    static struct sim_outcome outcome;
    sim_case_run(&c, &outcome);
    if (!outcome.good) {
        print_error("seed %u: %s\n", (unsigned)seed, outcome.text);
        fail();
    }
    return sim_scale((uint64_t)path->blocks * path->length * 8, NS_PER_S, outcome.goodput_bps);
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* What each run took, shortest first. */
static void run_all(const struct path *path, uint64_t times[SEEDS])
{
    for (unsigned i = 0; i < SEEDS; i++)
        times[i] = took_ns(path, i + 1);
    qsort(times, SEEDS, sizeof(times[0]), ascending);
}

/* After everything was sent once, at most two round trips pass in the median at 10 % loss: the way
 * there, the news of what is missing, and its copies. */
static void test_the_last_block(void **state)
{
    (void)state;
    static const uint64_t rtts[] = {20 * MS, 300 * MS};
    for (unsigned i = 0; i < sizeof(rtts) / sizeof(rtts[0]); i++) {
        struct path path = {.rate_bps = GBIT,
                            .rtt_ns = rtts[i],
                            .loss = SIM_SHARE(10),
                            .blocks = 1,
                            .length = BLOCK_SIZE,
                            .fixed_bps = 900 * MBIT};
        uint64_t sent_ns = (uint64_t)BLOCK_SIZE * 8 * NS_PER_S / path.fixed_bps;
        uint64_t times[SEEDS], median;
        run_all(&path, times);
        median = times[SEEDS / 2];
        print_message("%3u ms: the last block took %.2f round trips\n", (unsigned)(rtts[i] / MS),
                      (double)(median - sent_ns) / (double)rtts[i]);
        assert_true(median <= sent_ns + 2 * rtts[i]);
    }
}

/* Under 16 packets: two round trips after the handshake, in 95 of 100 runs. */
static void test_a_few_packets(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {1000, 10000, 18000};
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct path path = {.rate_bps = 100 * MBIT,
                            .rtt_ns = 100 * MS,
                            .loss = SIM_SHARE(5),
                            .loss_back = SIM_SHARE(5),
                            .blocks = 1,
                            .length = lengths[i]};
        uint64_t times[SEEDS], most;
        run_all(&path, times);
        most = times[SEEDS * 95 / 100];
        print_message("%5u bytes: 95 %% of runs within %.2f round trips, half within %.2f\n",
                      lengths[i], (double)most / (double)path.rtt_ns,
                      (double)times[SEEDS / 2] / (double)path.rtt_ns);
        assert_true(most <= 2 * path.rtt_ns);
    }
}

/* Case 18: loss on a path of 50 microseconds, where timers of milliseconds rule. */
static void test_case_18_loss_on_a_very_short_path(void **state)
{
    (void)state;
    struct path path = {
        .rate_bps = GBIT, .rtt_ns = 50 * NS_PER_US, .blocks = 64, .length = BLOCK_SIZE};
    uint64_t clean = took_ns(&path, 1);
    static const uint32_t losses[] = {SIM_SHARE(0.1), SIM_SHARE(1), SIM_SHARE(3)};
    for (unsigned i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
        path.loss = path.loss_back = losses[i];
        uint64_t lossy = took_ns(&path, 1);
        print_message("loss of %u millionths: %.0f %% of the loss-free rate\n",
                      (unsigned)((uint64_t)losses[i] * 1000000 >> 32),
                      100.0 * (double)clean / (double)lossy);
        assert_true(lossy <= 2 * clean);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_last_block),
                                       cmocka_unit_test(test_a_few_packets),
                                       cmocka_unit_test(test_case_18_loss_on_a_very_short_path)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
