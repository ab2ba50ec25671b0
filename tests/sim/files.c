/* Whole transfers of simulated files over simulated paths: the transfer's messages, credit and
 * endings on real sessions, in virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "lab/sim_files.h"
#include "sim_case.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define SMALL_COUNT 3000u

static const uint64_t mixed[] = {3 * MIB, 10, 600 * KIB, 0, 7 * MIB + 1, 512 * KIB, 9000, MIB, 77};
#define MIXED_COUNT (uint32_t)(sizeof mixed / sizeof mixed[0])
static uint64_t small[SMALL_COUNT];

struct run {
    struct sim_case path;
    struct sim_files_config files;
    struct sim_world *world;
    struct transfer_progress progress[2];
    struct sim_sink_result sink;
    uint64_t took_ns; /* from the end of the handshake to "verified" */
};

static void run_init(struct run *run, uint64_t seed, uint64_t rate_bps, uint64_t rtt_ns,
                     const uint64_t *sizes, uint32_t count)
{
    struct sim_files files = {.seed = seed, .sizes = sizes, .count = count};
    *run = (struct run){0};
    sim_case_init(&run->path, seed, rate_bps, rtt_ns);
    run->files.source = (struct sim_source_config){.files = files,
                                                   .tell_entry_block = true,
                                                   .withdrawn = SIM_NO_FILE,
                                                   .missing = SIM_NO_FILE,
                                                   .fails_at = SIM_NO_FILE};
    run->files.sink = (struct sim_sink_config){.files = files, .fails_file = SIM_NO_FILE};
}

static void run_go(struct run *run)
{
    if (run->files.pull)
        sim_case_pull(&run->path);
    struct sim_upper uppers[2] = {sim_files_new(&run->files, ROLE_SENDER),
                                  sim_files_new(&run->files, ROLE_RECEIVER)};
    run->world = sim_world_new(&run->path.world, uppers);
    assert_non_null(run->world);
    sim_world_run(run->world);
    if (run->world->failure[0] != 0)
        print_error("%s\n", run->world->failure);
    assert_int_equal(run->world->failure[0], 0);
    for (int end = 0; end < 2; end++)
        sim_files_progress(&uppers[end], &run->progress[end]);
    sim_files_result(&uppers[RECEIVER], &run->sink);
    uint64_t done_ns = uppers[RECEIVER].done_ns(uppers[RECEIVER].context);
    uint64_t from_ns = run->world->hosts[SENDER].opened_at_ns;
    run->took_ns = done_ns > from_ns ? done_ns - from_ns : 0;
}

static enum error_kind ended(const struct run *run, int end)
{
    return sim_host_error(&run->world->hosts[end])->kind;
}

/* Everything came, and both ends say the same of it. */
static void run_succeeds(struct run *run)
{
    run_go(run);
    for (int end = 0; end < 2; end++) {
        if (ended(run, end) != ERROR_NONE)
            print_error("host %d: %s\n", end, sim_host_error(&run->world->hosts[end])->text);
        assert_int_equal(ended(run, end), ERROR_NONE);
        assert_int_equal(run->progress[end].files_failed, 0);
        assert_int_equal(run->progress[end].files_done, run->sink.done);
        assert_int_equal(run->progress[end].files_skipped, run->sink.skipped);
        assert_int_equal(run->progress[end].verified_bytes, run->sink.verified_bytes);
    }
    assert_int_equal(run->sink.done + run->sink.skipped, run->files.sink.files.count);
}

static void run_end(struct run *run)
{
    sim_world_free(run->world);
}

static void a_clean_path_carries_all(void **state)
{
    (void)state;
    for (int pull = 0; pull < 2; pull++) {
        struct run run;
        run_init(&run, 1, 200 * 1000000, 20 * NS_PER_MS, mixed, MIXED_COUNT);
        run.files.pull = pull == 1;
        run_succeeds(&run);
        run_end(&run);
    }
}

/* Also what is said of it at the end: the last messages are lost as often as any. */
static void loss_changes_nothing_but_time(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct run run;
        run_init(&run, seed, 100 * 1000000, 30 * NS_PER_MS, mixed, MIXED_COUNT);
        run.files.pull = seed % 2 == 0;
        run.path.world.links[0].loss = run.path.world.links[1].loss = UINT32_MAX / 8;
        run_succeeds(&run);
        run_end(&run);
    }
}

/* A file a packet would be a round trip each in other protocols: here they share blocks. */
static void small_files_cost_no_round_trips(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SMALL_COUNT; i++)
        small[i] = i % 200;
    struct run run;
    run_init(&run, 3, 100 * 1000000, 100 * NS_PER_MS, small, SMALL_COUNT);
    run_succeeds(&run);
    assert_true(run.took_ns < NS_PER_S);
    run_end(&run);
}

/* REQUEST, READY, then everything in one go: one and a half round trips and the bytes' own time. */
static void one_file_costs_no_more_round_trips(void **state)
{
    (void)state;
    static const uint64_t one[] = {700 * KIB};
    struct run run;
    run_init(&run, 30, 1000 * 1000000, 200 * NS_PER_MS, one, 1);
    run_succeeds(&run);
    assert_true(run.took_ns < 560 * NS_PER_MS);
    run_end(&run);
}

static void what_exists_is_not_sent(void **state)
{
    (void)state;
    struct run run;
    run_init(&run, 4, 100 * 1000000, 50 * NS_PER_MS, small, SMALL_COUNT);
    run.files.sink.exists_each = 2;
    run.path.world.links[0].loss = UINT32_MAX / 50;
    run_succeeds(&run);
    assert_int_equal(run.sink.skipped, SMALL_COUNT / 2);
    run_end(&run);
}

/* Hashes one way, decisions the other, some blocks kept and some sent: also when messages are lost.
 */
static void blocks_that_are_there_are_not_sent(void **state)
{
    (void)state;
    for (uint64_t seed = 40; seed < 46; seed++) {
        struct run run;
        run_init(&run, seed, 200 * 1000000, 30 * NS_PER_MS, mixed, MIXED_COUNT);
        run.files.pull = seed % 2 == 0;
        run.files.source.tell_entry_block = seed % 3 != 0;
        run.files.sink.tells = true;
        run.files.sink.exists_each = seed % 2 == 0 ? 5 : 0;
        run.path.world.links[0].loss = run.path.world.links[1].loss =
            seed == 40 ? 0 : UINT32_MAX / 12;
        run_succeeds(&run);
        assert_true(run.sink.kept_bytes >= 3 * MIB);
        assert_int_equal(run.progress[SENDER].kept_bytes, run.sink.kept_bytes);
        assert_int_equal(run.progress[RECEIVER].kept_bytes, run.sink.kept_bytes);
        run_end(&run);
    }
}

static const uint64_t large[] = {40 * MIB};

static void a_slow_disk_slows_the_sender(void **state)
{
    (void)state;
    struct run run;
    run_init(&run, 5, 400 * 1000000, 20 * NS_PER_MS, large, 1);
    run.files.disk_bps = 100 * 1000000;
    run_succeeds(&run);
    uint64_t ideal_ns = 40 * MIB * 8 * 10;
    assert_true(run.took_ns < ideal_ns + ideal_ns / 10);
    assert_true(run.progress[SENDER].peer_disk_wait_ns > run.took_ns / 4);
    run_end(&run);
}

static void a_slow_source_is_what_limits(void **state)
{
    (void)state;
    struct run run;
    run_init(&run, 6, 400 * 1000000, 20 * NS_PER_MS, large, 1);
    run.files.source_bps = 100 * 1000000;
    run_succeeds(&run);
    uint64_t ideal_ns = 40 * MIB * 8 * 10;
    assert_true(run.took_ns < ideal_ns + ideal_ns / 10);
    assert_true(run.progress[SENDER].disk_wait_ns > run.took_ns / 2);
    run_end(&run);
}

static void a_stream_carries_it_too(void **state)
{
    (void)state;
    struct run run;
    run_init(&run, 7, 100 * 1000000, 20 * NS_PER_MS, mixed, MIXED_COUNT);
    run.path.world.hosts[SENDER].stream = run.path.world.hosts[RECEIVER].stream = true;
    run_succeeds(&run);
    run_end(&run);
}

static void a_withdrawn_file_fails_alone(void **state)
{
    (void)state;
    for (uint64_t seed = 8; seed < 12; seed++) {
        struct run run;
        run_init(&run, seed, 100 * 1000000, 30 * NS_PER_MS, mixed, MIXED_COUNT);
        run.files.source.withdrawn = 4;
        run.path.world.links[0].loss = run.path.world.links[1].loss = UINT32_MAX / 20;
        run_go(&run);
        for (int end = 0; end < 2; end++) {
            assert_int_equal(ended(&run, end), ERROR_NONE);
            assert_int_equal(run.progress[end].files_failed, 1);
            assert_int_equal(run.progress[end].files_done, MIXED_COUNT - 1);
        }
        run_end(&run);
    }
}

static void a_signal_ends_both(void **state)
{
    (void)state;
    for (int end = 0; end < 2; end++) {
        struct run run;
        run_init(&run, 20, 100 * 1000000, 30 * NS_PER_MS, large, 1);
        sim_case_act(&run.path, NS_PER_S, SIM_ABORT, (unsigned)end, 0);
        run_go(&run);
        assert_int_equal(ended(&run, SENDER), ERROR_INTERRUPTED);
        assert_int_equal(ended(&run, RECEIVER), ERROR_INTERRUPTED);
        assert_true(run.sink.closed);
        assert_int_equal(run.sink.done, 0);
        run_end(&run);
    }
}

static void a_receiver_that_vanishes_leaves_no_result(void **state)
{
    (void)state;
    struct run run;
    run_init(&run, 21, 100 * 1000000, 30 * NS_PER_MS, large, 1);
    run.path.world.stall_ns = 0;
    sim_case_act(&run.path, NS_PER_S, SIM_VANISH, RECEIVER, 0);
    run_go(&run);
    assert_int_equal(ended(&run, SENDER), ERROR_PEER_LOST);
    assert_non_null(strstr(sim_host_error(&run.world->hosts[SENDER])->text, "result is unknown"));
    run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clean_path_carries_all),
        cmocka_unit_test(loss_changes_nothing_but_time),
        cmocka_unit_test(small_files_cost_no_round_trips),
        cmocka_unit_test(one_file_costs_no_more_round_trips),
        cmocka_unit_test(what_exists_is_not_sent),
        cmocka_unit_test(blocks_that_are_there_are_not_sent),
        cmocka_unit_test(a_slow_disk_slows_the_sender),
        cmocka_unit_test(a_slow_source_is_what_limits),
        cmocka_unit_test(a_stream_carries_it_too),
        cmocka_unit_test(a_withdrawn_file_fails_alone),
        cmocka_unit_test(a_signal_ends_both),
        cmocka_unit_test(a_receiver_that_vanishes_leaves_no_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
