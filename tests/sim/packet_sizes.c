/* Packet sizes over time: how soon the largest that passes is in use, how soon a path that stops
 * passing it is noticed, and that loss alone never makes packets smaller. In virtual time; read off
 * the sizes of what the sender sends. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "sim_case.h"

#define MBIT UINT64_C(1000000)
#define MS NS_PER_MS
#define DATA_FOR_SURE 20u /* packets of a size: more than there are probes of it */
#define HEADERS 28u
#define SEEDS 8u
#define RESENT_NS (500 * NS_PER_MS) /* by then, what was sent in the smallest packets */

struct path {
    uint64_t rate_bps, rtt_ns;
    uint32_t mtu, interface_mtu;
    uint32_t loss;
    uint32_t later_mtu; /* 0: it does not change */
    uint64_t change_ns;
    uint32_t blocks;
};

struct run {
    char *trace;
    size_t size;
    unsigned datagram; /* in use at the end */
};

static struct run run_of(const struct path *path, uint64_t seed)
{
    static struct sim_case c;
    static struct sim_outcome outcome;
    struct run run = {0};
    sim_case_init(&c, seed, path->rate_bps, path->rtt_ns);
    for (unsigned i = 0; i < 2; i++) {
        c.world.links[i].mtu = path->mtu;
        c.world.links[i].loss = path->loss;
        c.world.hosts[i].interface_mtu = path->interface_mtu;
        if (path->later_mtu != 0)
            sim_link_change(&c.world.links[i], path->change_ns, SIM_CHANGE_MTU, path->later_mtu);
    }
    c.blocks.count = path->blocks;
    c.blocks.length_min = c.blocks.length_max = BLOCK_SIZE;
    c.world.trace = open_memstream(&run.trace, &run.size);
    assert_non_null(c.world.trace);
    sim_case_run(&c, &outcome);
    fclose(c.world.trace);
    if (!outcome.good)
        fail_msg("seed %u: %s", (unsigned)seed, outcome.text);
    run.datagram = outcome.statistics[SENDER].datagram_size;
    return run;
}

struct sent {
    uint64_t at_ns;
    unsigned size;
};

/* The next datagram that the sender sent, from *line on; false at the end. */
static bool next_sent(const char **line, struct sent *sent)
{
    while (**line != '\0') {
        uint64_t seconds, part;
        unsigned host, size;
        char own[64]; /* sscanf looks for the end of the whole trace */
        size_t length = strcspn(*line, "\n"), kept = length < sizeof own ? length : sizeof own - 1;
        memcpy(own, *line, kept);
        own[kept] = '\0';
        int read = sscanf(own, "%" SCNu64 ".%" SCNu64 " %u send %u", &seconds, &part, &host, &size);
        *line += length + ((*line)[length] == '\n');
        if (read == 4 && host == SENDER) {
            *sent = (struct sent){.at_ns = seconds * NS_PER_S + part, .size = size};
            return true;
        }
    }
    return false;
}

/* From `from_ns` or its first probe of a larger size, until the sender has used `size` for data;
 * TIME_NEVER if it did not. */
static uint64_t used_after_ns(const struct run *run, unsigned size, uint64_t from_ns)
{
    const char *line = run->trace;
    struct sent sent;
    uint64_t probed_ns = 0;
    unsigned count = 0;
    while (next_sent(&line, &sent)) {
        if (probed_ns == 0 && sent.size > DATAGRAM_MIN)
            probed_ns = sent.at_ns;
        if (sent.at_ns >= from_ns && sent.size == size && ++count == DATA_FOR_SURE)
            return sent.at_ns - (from_ns > probed_ns ? from_ns : probed_ns);
    }
    return TIME_NEVER;
}

static unsigned sent_after(const struct run *run, unsigned size, uint64_t from_ns)
{
    const char *line = run->trace;
    struct sent sent;
    unsigned count = 0;
    while (next_sent(&line, &sent))
        count += sent.size == size && sent.at_ns > from_ns;
    return count;
}

/* From when the peer was first heard, which is when sizes are probed. */
static void test_jumbo_within_two_round_trips(void **state)
{
    (void)state;
    static const struct {
        uint32_t mtu, interface_mtu;
    } sizes[] = {{1500, 1500}, {1500, 9001}, {8500, 9001}, {9000, 9000}, {9001, 9001}};
    static const uint64_t rtts[] = {20 * MS, 100 * MS};
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (unsigned j = 0; j < sizeof(rtts) / sizeof(rtts[0]); j++) {
            struct path path = {.rate_bps = 1000 * MBIT,
                                .rtt_ns = rtts[j],
                                .mtu = sizes[i].mtu,
                                .interface_mtu = sizes[i].interface_mtu,
                                .blocks = 10};
            struct run run = run_of(&path, i + 1);
            uint64_t used_ns = used_after_ns(&run, path.mtu - HEADERS, 0);
            print_message("%u of %u at %u ms: %.2f round trips\n", path.mtu, path.interface_mtu,
                          (unsigned)(path.rtt_ns / MS), (double)used_ns / (double)path.rtt_ns);
            assert_true(used_ns <= 2 * path.rtt_ns);
            assert_int_equal(run.datagram, path.mtu - HEADERS);
            free(run.trace);
        }
    }
}

/* The path shrinks and says nothing: as soon as the first large packets are on their way, and in
 * the middle. The size that still passes is in use within a second or so, and the copy goes on. */
static void test_black_holes(void **state)
{
    (void)state;
    static const struct {
        uint32_t mtu, later;
        uint64_t change_ns;
    } cases[] = {{1500, 1280, 55 * MS},  {9001, 1500, 55 * MS},  {9001, 1280, 70 * MS},
                 {1500, 1400, 700 * MS}, {9001, 8500, 700 * MS}, {9001, 1500, 700 * MS}};
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct path path = {.rate_bps = 200 * MBIT,
                            .rtt_ns = 20 * MS,
                            .mtu = cases[i].mtu,
                            .interface_mtu = cases[i].mtu,
                            .later_mtu = cases[i].later,
                            .change_ns = cases[i].change_ns,
                            .blocks = 40};
        struct run run = run_of(&path, i + 1);
        uint64_t used_ns = used_after_ns(&run, path.later_mtu - HEADERS, path.change_ns);
        print_message("%u to %u after %u ms: %.1f round trips\n", path.mtu, path.later_mtu,
                      (unsigned)(path.change_ns / MS), (double)used_ns / (double)path.rtt_ns);
        assert_true(used_ns <= NS_PER_S);
        assert_int_equal(run.datagram, path.later_mtu - HEADERS);
        free(run.trace);
    }
}

/* Up to 15 % of loss, both ways: never a packet of the smallest size, which is what a suspicion
 * begins with. */
static void test_loss_is_no_black_hole(void **state)
{
    (void)state;
    static const uint32_t mtus[] = {1500, 9001};
    for (unsigned i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct path path = {.rate_bps = 200 * MBIT,
                                .rtt_ns = 20 * MS,
                                .mtu = mtus[i],
                                .interface_mtu = mtus[i],
                                .loss = SIM_SHARE(15),
                                .blocks = 25};
            struct run run = run_of(&path, seed);
            assert_int_equal(run.datagram, mtus[i] - HEADERS);
            assert_int_equal(sent_after(&run, DATAGRAM_MIN, RESENT_NS), 0);
            free(run.trace);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_jumbo_within_two_round_trips),
                                       cmocka_unit_test(test_black_holes),
                                       cmocka_unit_test(test_loss_is_no_black_hole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
