/* Whole transfers between simulated disks over a wire that delivers in any order. */
#include <string.h>

#include "base/units.h"
#include "bench.h"
#include "transfer/messages.h"
#include "unit.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define COUNT(array) (uint32_t)(sizeof(array) / sizeof((array)[0]))

static const uint64_t mixed[] = {
    0,    1,       700, 512 * KIB, 512 * KIB + 1, 3 * MIB + 5, 17, MIB, MIB + 1,
    4096, 2 * MIB, 0,   600 * KIB, 100 * KIB,     5 * MIB,     9,  33,  1000};

static void moves_mixed_files(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct bench bench;
        bench_init(&bench, seed, mixed, COUNT(mixed));
        bench.pull = seed % 2 == 0;
        bench.source_config.tell_entry_block = seed % 3 == 0;
        bench.source_config.large_ahead = 1 + (uint32_t)seed % 4;
        bench.source_config.pack_capacity = seed % 4 == 1 ? BLOCK_SIZE : 600 * KIB;
        bench_start(&bench);
        bench_succeed(&bench);
        struct transfer_progress sender = bench_progress(&bench, SENDER);
        struct transfer_progress receiver = bench_progress(&bench, RECEIVER);
        assert_int_equal(receiver.files_done, COUNT(mixed));
        assert_int_equal(sender.files_done, COUNT(mixed));
        assert_int_equal(sender.verified_bytes, receiver.verified_bytes);
        assert_int_equal(receiver.total_files, COUNT(mixed));
        assert_true(receiver.totals_final);
        assert_int_equal(bench.seen[RECEIVER].done, COUNT(mixed));
        assert_int_equal(bench.seen[SENDER].done, COUNT(mixed));
        bench_stop(&bench);
    }
}

static void moves_nothing_at_all(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 3, mixed, 0);
    bench_start(&bench);
    bench_succeed(&bench);
    assert_int_equal(bench_progress(&bench, RECEIVER).files_done, 0);
    bench_stop(&bench);
}

#define MANY 20000u
static uint64_t many[MANY];

static void moves_many_small_files(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MANY; i++)
        many[i] = i % 37;
    struct bench bench;
    bench_init(&bench, 5, many, MANY);
    bench.source_config.pack_capacity = 64 * KIB;
    bench_start(&bench);
    bench_succeed(&bench);
    assert_int_equal(bench.seen[RECEIVER].done, MANY);
    assert_int_equal(bench.seen[SENDER].done, MESSAGE_FILES_DONE_MAX);
    assert_int_equal(bench_progress(&bench, SENDER).files_done, MANY);
    bench_stop(&bench);
}

static void names_every_file_when_asked(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 5, many, MANY);
    bench.request.flags |= TRANSFER_NAME_FILES;
    bench_start(&bench);
    bench_succeed(&bench);
    assert_int_equal(bench.seen[SENDER].done, MANY);
    bench_stop(&bench);
}

static void skips_what_exists(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MANY; i++)
        many[i] = i % 1000 == 7 ? 600 * KIB : i % 17;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct bench bench;
        bench_init(&bench, seed, many, 4000);
        bench.pull = seed % 2 == 0;
        bench.source_config.pack_capacity = 16 * KIB;
        bench.sink_config.exists_each = seed == 4 ? 1 : 3;
        bench_start(&bench);
        bench_succeed(&bench);
        uint32_t skipped = seed == 4 ? 4000 : 1334;
        assert_int_equal(bench_progress(&bench, RECEIVER).files_skipped, skipped);
        assert_int_equal(bench_progress(&bench, SENDER).files_skipped, skipped);
        assert_int_equal(bench.seen[RECEIVER].skipped, skipped);
        bench_stop(&bench);
    }
}

/* An answer may hold more verdicts than an ordinary message has bytes. */
static void answers_large_offers(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 9, many, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        many[i] = 1;
    bench.sink_config.exists_each = 1;
    bench_start(&bench);
    bench_succeed(&bench);
    assert_int_equal(bench_progress(&bench, SENDER).files_skipped, MANY);
    bench_stop(&bench);
}

static const uint64_t forty[] = {100, 40 * MIB, 100};

static void holds_content_back_for_its_entry(void **state)
{
    (void)state;
    for (int tell = 0; tell < 2; tell++) {
        struct bench bench;
        bench_init(&bench, 7, forty, COUNT(forty));
        bench.source_config.tell_entry_block = tell == 1;
        bench.sender_pool = 64;
        bench.receiver_pool = 64;
        bench_start(&bench);
        fake_hold_acks(bench.wire, true);
        bench_steps(&bench, 20000);
        uint64_t sent = fake_blocks_sent(bench.wire);
        assert_true(sent <= 1 + 32);
        fake_hold_acks(bench.wire, false);
        bench_succeed(&bench);
        assert_true(bench_result(&bench).held_most <= 32);
        bench_stop(&bench);
    }
}

/* A peer that grants more than any sender has, and then acknowledges nothing: what is held for it
 * are the sender's own few blocks. */
static void credit_without_end_takes_no_memory(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 10, forty, COUNT(forty));
    bench.sender_pool = 8;
    bench.receiver_pool = 512;
    bench_start(&bench);
    fake_hold_acks(bench.wire, true);
    assert_false(bench_steps(&bench, 100000));
    assert_in_range(fake_blocks_sent(bench.wire), 2, 8);
    fake_hold_acks(bench.wire, false);
    bench_succeed(&bench);
    bench_stop(&bench);
}

static void a_slow_sink_stops_the_sender(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 8, forty, COUNT(forty));
    bench.disk_share[RECEIVER] = 2;
    bench.receiver_pool = 6;
    bench_start(&bench);
    bench_succeed(&bench);
    assert_true(fake_most_in_flight(bench.wire) <= 16);
    struct transfer_progress sender = bench_progress(&bench, SENDER);
    struct transfer_progress receiver = bench_progress(&bench, RECEIVER);
    uint64_t lasted = receiver.ended_ns - receiver.started_ns;
    assert_true(receiver.disk_wait_ns > lasted / 2);
    assert_true(sender.peer_disk_wait_ns > lasted / 2);
    assert_true(sender.disk_wait_ns < lasted / 4);
    bench_stop(&bench);
}

/* On either side, in either role: the blocks take as long as the rate says, and not much longer. */
static void a_pace_is_kept(void **state)
{
    (void)state;
    for (unsigned end = 0; end < 2; end++) {
        struct bench bench;
        bench_init(&bench, 80 + end, forty, COUNT(forty));
        bench.receiver_pool = 4;
        bench_start(&bench);
        transfer_set_pace(bench.ends[end], UINT64_C(400000000), false, bench.now_ns);
        bench_succeed(&bench);
        struct transfer_progress progress = bench_progress(&bench, RECEIVER);
        double seconds = (double)(progress.ended_ns - progress.started_ns) / 1e9;
        double least = (double)(progress.verified_bytes - 5 * BLOCK_SIZE) * 8 / 400e6;
        assert_true(seconds >= least && seconds <= 2 * least + 0.5);
        bench_stop(&bench);
    }
}

/* Set before there is a session, as a server does it whose clients are paused. */
static void a_pace_from_the_start(void **state)
{
    (void)state;
    struct transfer_config config = {.role = ROLE_RECEIVER, .pool_blocks = 8, .first_blocks = 4};
    struct error error = {0};
    struct fake_wire *wire = fake_wire_new(5);
    struct transfer *transfer = transfer_new(&config, &error);
    assert_int_equal(transfer_initial_credit(transfer), 4);
    transfer_set_pace(transfer, 1000, true, 1);
    transfer_attach(transfer, fake_receiver(wire), 2);
    assert_int_equal(transfer_error(transfer)->kind, ERROR_NONE);
    struct transfer_progress progress;
    transfer_progress(transfer, &progress);
    assert_int_equal(progress.buffer_bytes, 4 * BLOCK_SIZE);
    transfer_free(transfer);
    fake_wire_free(wire);
}

static void a_pause_ends(void **state)
{
    (void)state;
    for (unsigned end = 0; end < 2; end++) {
        struct bench bench;
        bench_init(&bench, 90 + end, forty, COUNT(forty));
        bench.receiver_pool = 4;
        bench_start(&bench);
        transfer_set_pace(bench.ends[end], 0, true, bench.now_ns);
        assert_false(bench_steps(&bench, 100000));
        uint64_t sent = fake_blocks_sent(bench.wire);
        assert_true(sent <= 4); /* what had been granted */
        assert_false(bench_steps(&bench, 100000));
        assert_int_equal(fake_blocks_sent(bench.wire), sent);
        transfer_set_pace(bench.ends[end], 0, false, bench.now_ns);
        bench_succeed(&bench);
        bench_stop(&bench);
    }
}

static void a_slow_source_is_told(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 8, forty, COUNT(forty));
    bench.disk_share[SENDER] = 2;
    bench_start(&bench);
    bench_succeed(&bench);
    struct transfer_progress sender = bench_progress(&bench, SENDER);
    assert_true(sender.disk_wait_ns > (sender.ended_ns - sender.started_ns) / 2);
    assert_true(bench_progress(&bench, RECEIVER).disk_wait_ns < sender.disk_wait_ns / 4);
    bench_stop(&bench);
}

/* ---- files that fail ---- */

static void expect_one_failure(struct bench *bench, enum error_kind kind, uint32_t done)
{
    bench_run(bench);
    for (int end = 0; end < 2; end++) {
        assert_int_equal(bench_error(bench, end)->kind, ERROR_NONE);
        assert_int_equal(bench_progress(bench, end).files_failed, 1);
        assert_int_equal(bench_progress(bench, end).files_done, done);
        assert_int_equal(bench->seen[end].failed, 1);
        assert_int_equal(bench->seen[end].last_failure.kind, kind);
    }
    assert_true(bench_result(bench).finished);
    bench_stop(bench);
}

static void a_withdrawn_file_fails_alone(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct bench bench;
        bench_init(&bench, seed, mixed, COUNT(mixed));
        bench.pull = seed % 2 == 0;
        bench.source_config.withdrawn = 5;
        bench_start(&bench);
        expect_one_failure(&bench, ERROR_CHANGED, COUNT(mixed) - 1);
    }
}

static void a_missing_file_fails_alone(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 2, mixed, COUNT(mixed));
    bench.source_config.missing = 4;
    bench_start(&bench);
    expect_one_failure(&bench, ERROR_PERMISSION, COUNT(mixed) - 1);
    assert_string_equal(bench.seen[RECEIVER].last_path, "tree/missing");
    assert_string_equal(bench.seen[SENDER].last_path, "tree/missing");
}

static void a_file_without_room_fails_alone(void **state)
{
    (void)state;
    for (uint32_t file = 4; file <= 6; file++) {
        struct bench bench;
        bench_init(&bench, file, mixed, COUNT(mixed));
        bench.sink_config.fails_file = file;
        bench_start(&bench);
        expect_one_failure(&bench, ERROR_NO_SPACE, COUNT(mixed) - 1);
    }
}

static void every_flip_is_found(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {3 * MIB, 2 * MIB, 900 * KIB, 100, 0};
    static const enum flip_place places[] = {FLIP_READER, FLIP_POOL, FLIP_WRITE};
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned after = 0; after < 7; after++) {
            struct bench bench;
            bench_init(&bench, 100 + i, sizes, COUNT(sizes));
            bench_start(&bench);
            int end = places[i] == FLIP_READER ? SENDER : RECEIVER;
            work_set_flip(transfer_work(bench.ends[end]), places[i], after);
            bench_run(&bench);
            assert_int_equal(bench_error(&bench, SENDER)->kind, ERROR_NONE);
            assert_int_equal(bench_progress(&bench, RECEIVER).files_failed, 1);
            assert_int_equal(bench_progress(&bench, SENDER).files_failed, 1);
            assert_int_equal(bench.seen[SENDER].last_failure.kind, ERROR_VERIFY);
            assert_int_equal(bench_result(&bench).done, COUNT(sizes) - 1);
            bench_stop(&bench);
        }
    }
}

/* ---- ends that fail ---- */

static void expect_end(struct bench *bench, enum error_kind kind, const char *text)
{
    bench_run(bench);
    for (int end = 0; end < 2; end++) {
        assert_int_equal(bench_error(bench, end)->kind, kind);
        assert_non_null(strstr(bench_error(bench, end)->text, text));
    }
    /* One end's own sentence, told to the other as such. */
    assert_int_not_equal(bench_progress(bench, SENDER).error_is_peers,
                         bench_progress(bench, RECEIVER).error_is_peers);
    bench_stop(bench);
}

static void the_source_breaks(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 4, mixed, COUNT(mixed));
    bench.source_config.fails_at = 7;
    bench_start(&bench);
    expect_end(&bench, ERROR_IO, "the simulated disk broke");
}

static void the_destination_breaks(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 4, mixed, COUNT(mixed));
    bench.sink_config.fails_at_block = 4;
    bench_start(&bench);
    expect_end(&bench, ERROR_NO_SPACE, "the simulated disk is full");
}

static void what_cannot_be_opened_is_told(void **state)
{
    (void)state;
    for (int pull = 0; pull < 2; pull++) {
        struct bench bench;
        bench_init(&bench, 4, mixed, COUNT(mixed));
        bench.pull = pull == 1;
        bench.open_fails[SENDER] = true;
        bench_start(&bench);
        expect_end(&bench, ERROR_NOT_FOUND, "no such file: ");

        bench_init(&bench, 5, mixed, COUNT(mixed));
        bench.pull = pull == 1;
        bench.open_fails[RECEIVER] = true;
        bench_start(&bench);
        expect_end(&bench, ERROR_PERMISSION, "not allowed: there");

        bench_init(&bench, 6, mixed, COUNT(mixed));
        bench.pull = pull == 1;
        bench.sink_config.refuses_open = true;
        bench_start(&bench);
        expect_end(&bench, ERROR_NOT_FOUND, "no such directory: there");
    }
}

static void a_pull_takes_only_what_it_asked_for(void **state)
{
    (void)state;
    static const char *const names[] = {".ssh", "", "tree2", "..", "a/tree"};
    for (unsigned i = 0; i < COUNT(names); i++) {
        struct bench bench;
        bench_init(&bench, 4, mixed, COUNT(mixed));
        bench.pull = true;
        bench.offered_name = names[i];
        bench_start(&bench);
        bench_run(&bench);
        enum error_kind kind = bench_error(&bench, RECEIVER)->kind;
        assert_true(kind == ERROR_REFUSED || kind == ERROR_PROTOCOL);
        assert_false(bench_result(&bench).opened);
        bench_stop(&bench);
    }
}

static const uint64_t brief[] = {10, 600 * KIB, 0, MIB + 3, 300};

static void either_side_may_stop(void **state)
{
    (void)state;
    for (unsigned steps = 1; steps < 3000; steps += 97) {
        for (int end = 0; end < 2; end++) {
            struct bench bench;
            bench_init(&bench, steps, brief, COUNT(brief));
            bench.pull = steps % 2 == 0;
            bench_start(&bench);
            if (!bench_steps(&bench, steps)) {
                transfer_abort(bench.ends[end], ERROR_INTERRUPTED, "stopped by a signal",
                               bench.now_ns);
                bench_run(&bench);
                bool finished = bench_result(&bench).finished;
                assert_true(finished || bench_error(&bench, end)->kind == ERROR_INTERRUPTED);
            }
            bench_stop(&bench);
        }
    }
}

static void a_lost_peer_leaves_no_result(void **state)
{
    (void)state;
    for (unsigned steps = 1; steps < 3000; steps += 97) {
        struct bench bench;
        bench_init(&bench, steps, brief, COUNT(brief));
        bench_start(&bench);
        if (!bench_steps(&bench, steps)) {
            fake_wire_cut(bench.wire);
            bench_run(&bench);
            bool finished = bench_result(&bench).finished;
            const struct error *error = bench_error(&bench, SENDER);
            if (error->kind == ERROR_NONE) { /* DONE had come just before */
                assert_true(finished);
            } else {
                assert_int_equal(error->kind, ERROR_PEER_LOST);
                assert_non_null(strstr(error->text, "the result is unknown"));
            }
            error = bench_error(&bench, RECEIVER);
            assert_true(error->kind == ERROR_PEER_LOST || finished);
        }
        bench_stop(&bench);
    }
}

static void it_ends_without_a_session(void **state)
{
    (void)state;
    struct transfer_request request = {0};
    assert_true(transfer_request_add(&request, "tree", true));
    struct transfer_config config = {.client = true, .role = ROLE_SENDER, .request = &request};
    struct error error = {0};
    struct transfer *transfer = transfer_new(&config, &error);
    assert_non_null(transfer);
    assert_int_equal(transfer_initial_credit(transfer), 0);
    transfer_abort(transfer, ERROR_UNREACHABLE, "no answer", 5);
    while (work_step(transfer_work(transfer)) != WORK_ENDED)
        ;
    transfer_step(transfer, 6);
    assert_true(transfer_is_ended(transfer));
    assert_int_equal(transfer_error(transfer)->kind, ERROR_UNREACHABLE);
    transfer_free(transfer);
    transfer_request_release(&request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_mixed_files),
        cmocka_unit_test(moves_nothing_at_all),
        cmocka_unit_test(moves_many_small_files),
        cmocka_unit_test(names_every_file_when_asked),
        cmocka_unit_test(skips_what_exists),
        cmocka_unit_test(answers_large_offers),
        cmocka_unit_test(holds_content_back_for_its_entry),
        cmocka_unit_test(credit_without_end_takes_no_memory),
        cmocka_unit_test(a_slow_sink_stops_the_sender),
        cmocka_unit_test(a_pace_is_kept),
        cmocka_unit_test(a_pace_from_the_start),
        cmocka_unit_test(a_pause_ends),
        cmocka_unit_test(a_slow_source_is_told),
        cmocka_unit_test(a_withdrawn_file_fails_alone),
        cmocka_unit_test(a_missing_file_fails_alone),
        cmocka_unit_test(a_file_without_room_fails_alone),
        cmocka_unit_test(every_flip_is_found),
        cmocka_unit_test(the_source_breaks),
        cmocka_unit_test(the_destination_breaks),
        cmocka_unit_test(what_cannot_be_opened_is_told),
        cmocka_unit_test(a_pull_takes_only_what_it_asked_for),
        cmocka_unit_test(either_side_may_stop),
        cmocka_unit_test(a_lost_peer_leaves_no_result),
        cmocka_unit_test(it_ends_without_a_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
