/* Two sessions on one link, in virtual time: both finish, neither starves, and the link is used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/units.h"
#include "sim_case.h"

#define MBIT UINT64_C(1000000)
#define PAIRS 2u

struct shared {
    uint64_t share[PAIRS]; /* percent of the link, while it ran */
    uint64_t took_ns;      /* of both together */
    uint64_t bytes;
};

/* Hosts 0 and 1 are the first pair, 2 and 3 the second, which starts `apart_ns` later; all data go
 * through link 0 and all acks through link 1. */
static void run_pairs(struct shared *shared, uint64_t rate_bps, uint64_t rtt_ns, uint32_t loss,
                      uint64_t apart_ns)
{
    static struct sim_case c;
    sim_case_init(&c, 11, rate_bps, rtt_ns);
    c.world.links[0].loss = loss;
    c.world.host_count = 2 * PAIRS;
    struct sim_upper uppers[2 * PAIRS];
    for (unsigned i = 0; i < 2 * PAIRS; i++) {
        c.world.hosts[i] = c.world.hosts[i % 2];
        c.world.hosts[i].peer = i ^ 1u;
        c.world.hosts[i].start_ns = i / 2 * apart_ns;
        uppers[i] = sim_blocks_new(&c.blocks, i % 2 == SENDER ? ROLE_SENDER : ROLE_RECEIVER);
    }
    struct sim_world *world = sim_world_new(&c.world, uppers);
    if (!sim_world_run(world)) {
        print_error("%s\n", world->failure);
        fail();
    }
    *shared = (struct shared){.bytes = sim_blocks_total(&c.blocks)};
    for (unsigned i = 0; i < PAIRS; i++) {
        const struct sim_upper *receiver = &uppers[2 * i + RECEIVER];
        uint64_t from_ns = world->hosts[2 * i].opened_at_ns;
        uint64_t done_ns = receiver->done_ns(receiver->context);
        assert_true(receiver->succeeded(receiver->context));
        assert_true(done_ns > from_ns);
        shared->share[i] =
            sim_scale(shared->bytes * 8 * 100, NS_PER_S, done_ns - from_ns) / rate_bps;
        shared->took_ns = done_ns > shared->took_ns ? done_ns : shared->took_ns;
    }
    sim_world_free(world);
}

static void judge(const struct shared *shared, uint64_t rate_bps, unsigned each, unsigned together)
{
    uint64_t used =
        sim_scale(shared->bytes * PAIRS * 8 * 100, NS_PER_S, shared->took_ns) / rate_bps;
    for (unsigned i = 0; i < PAIRS; i++) {
        assert_in_range(shared->share[i], each, 100);
    }
    assert_in_range(used, together, 100);
}

static void test_at_once(void **state)
{
    (void)state;
    struct shared shared;
    run_pairs(&shared, 100 * MBIT, 40 * NS_PER_MS, 0, 0);
    judge(&shared, 100 * MBIT, 20, 60);
}

static void test_a_newcomer(void **state)
{
    (void)state;
    struct shared shared;
    run_pairs(&shared, 100 * MBIT, 40 * NS_PER_MS, 0, 700 * NS_PER_MS);
    judge(&shared, 100 * MBIT, 15, 55);
}

static void test_with_loss(void **state)
{
    (void)state;
    struct shared shared;
    run_pairs(&shared, 100 * MBIT, 40 * NS_PER_MS, SIM_SHARE(5), 300 * NS_PER_MS);
    judge(&shared, 100 * MBIT, 15, 45);
}

static void test_short_path(void **state)
{
    (void)state;
    struct shared shared;
    run_pairs(&shared, 500 * MBIT, NS_PER_MS, 0, 20 * NS_PER_MS);
    judge(&shared, 500 * MBIT, 15, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_a_newcomer),
        cmocka_unit_test(test_with_loss),
        cmocka_unit_test(test_short_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
