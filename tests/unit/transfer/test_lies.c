/* One half alone, against a peer that says what it should not. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "transfer/messages.h"
#include "tree/pack.h"
#include "unit.h"

static const uint64_t sizes[] = {100, 2000, 30};

struct lone {
    struct bench bench; /* for its storage */
    struct transfer *transfer;
    struct session *session;
    bool source, opened;
};

static bool open_lone(void *context, const struct transfer_request *request,
                      struct storage *storage, struct error *error)
{
    struct lone *lone = context;
    (void)request;
    (void)error;
    lone->opened = true;
    if (lone->source)
        sim_source_storage(lone->bench.source, storage);
    else
        sim_sink_storage(lone->bench.sink, storage);
    return true;
}

static void settle(struct lone *lone)
{
    for (int quiet = 0; quiet < 4; quiet++) {
        lone->bench.now_ns += 1000;
        if (transfer_step(lone->transfer, lone->bench.now_ns) ||
            work_step(transfer_work(lone->transfer)) == WORK_DID)
            quiet = 0;
    }
}

static void lone_start(struct lone *lone, enum transfer_role role)
{
    *lone = (struct lone){.source = role == ROLE_SENDER};
    bench_init(&lone->bench, 1, sizes, 3);
    lone->bench.source = sim_source_new(&lone->bench.source_config);
    lone->bench.sink = sim_sink_new(&lone->bench.sink_config);
    lone->bench.wire = fake_wire_new(1);
    struct transfer_config config = {
        .role = role, .open_storage = open_lone, .open_context = lone, .pool_blocks = 8};
    lone->transfer = transfer_new(&config, &(struct error){0});
    assert_non_null(lone->transfer);
    lone->session = lone->source ? fake_sender(lone->bench.wire) : fake_receiver(lone->bench.wire);
    transfer_attach(lone->transfer, lone->session, 1);
    settle(lone);
}

static void lone_stop(struct lone *lone)
{
    transfer_free(lone->transfer);
    sim_source_free(lone->bench.source);
    sim_sink_free(lone->bench.sink);
    fake_wire_free(lone->bench.wire);
}

static void say(struct lone *lone, const struct message *message)
{
    uint8_t bytes[4096];
    struct writer writer = writer_of(bytes, sizeof bytes);
    message_encode(message, &writer);
    assert_false(writer.failed);
    fake_say(lone->session, bytes, writer_size(&writer));
    settle(lone);
}

static size_t request_bytes(uint8_t *bytes, size_t capacity)
{
    struct transfer_request request = {0};
    assert_true(transfer_request_add(&request, SIM_TOP_NAME, true));
    uint8_t body[256];
    struct writer writer = writer_of(body, sizeof body);
    transfer_request_encode(&request, &writer);
    transfer_request_release(&request);
    struct message message = {
        .type = MESSAGE_REQUEST, .bytes = body, .length = writer_size(&writer)};
    struct writer whole = writer_of(bytes, capacity);
    message_encode(&message, &whole);
    assert_false(whole.failed);
    return writer_size(&whole);
}

static void say_request(struct lone *lone)
{
    uint8_t bytes[512];
    fake_say(lone->session, bytes, request_bytes(bytes, sizeof bytes));
    settle(lone);
    assert_true(lone->opened);
    assert_int_equal(transfer_error(lone->transfer)->kind, ERROR_NONE);
}

static void expect_failure(struct lone *lone, enum error_kind kind)
{
    settle(lone);
    assert_int_equal(transfer_error(lone->transfer)->kind, kind);
    assert_true(session_is_closed(lone->session));
    assert_true(transfer_is_ended(lone->transfer));
    lone_stop(lone);
}

static void a_request_cut_anywhere_waits(void **state)
{
    (void)state;
    uint8_t bytes[512];
    size_t size = request_bytes(bytes, sizeof bytes);
    for (size_t cut = 0; cut <= size; cut++) {
        struct lone lone;
        lone_start(&lone, ROLE_RECEIVER);
        fake_say(lone.session, bytes, cut);
        settle(&lone);
        assert_int_equal(lone.opened, cut == size);
        assert_int_equal(transfer_error(lone.transfer)->kind, ERROR_NONE);
        assert_false(transfer_is_ended(lone.transfer));
        lone_stop(&lone);
    }
}

/* Whatever one byte of it says, nothing breaks: it is refused, waits for more, or is a request. */
static void a_request_changed_anywhere_is_survived(void **state)
{
    (void)state;
    uint8_t bytes[512];
    size_t size = request_bytes(bytes, sizeof bytes);
    for (size_t at = 0; at < size; at++) {
        for (unsigned value = 0; value < 256; value += 3) {
            struct lone lone;
            lone_start(&lone, value % 2 == 0 ? ROLE_RECEIVER : ROLE_SENDER);
            uint8_t kept = bytes[at];
            bytes[at] = (uint8_t)value;
            fake_say(lone.session, bytes, size);
            bytes[at] = kept;
            settle(&lone);
            const struct error *error = transfer_error(lone.transfer);
            assert_true(error->kind == ERROR_NONE || error->kind == ERROR_PROTOCOL);
            assert_int_equal(error->kind != ERROR_NONE, session_is_closed(lone.session));
            lone_stop(&lone);
        }
    }
}

static void messages_out_of_place_are_refused(void **state)
{
    (void)state;
    for (int role = ROLE_SENDER; role <= ROLE_RECEIVER; role++) {
        for (unsigned type = MESSAGE_READY; type < MESSAGE_TYPE_COUNT; type++) {
            if (type == MESSAGE_NOTE || type == MESSAGE_LOST || type == MESSAGE_UNSUPPORTED ||
                message_limit(type) == 0)
                continue;
            struct lone lone;
            lone_start(&lone, (enum transfer_role)role);
            struct message message = {.type = (enum message_type)type,
                                      .kind = ERROR_IO,
                                      .path = "",
                                      .text = "",
                                      .bytes = (const uint8_t *)""};
            /* What may be heard at any time changes nothing. */
            bool harmless = role == ROLE_SENDER
                                ? type == MESSAGE_PROGRESS || type == MESSAGE_PROBLEM ||
                                      type == MESSAGE_DELETED || type == MESSAGE_FILE_DONE ||
                                      type == MESSAGE_FILE_SKIPPED
                                : type == MESSAGE_STATS;
            say(&lone, &message);
            if (harmless)
                lone_stop(&lone);
            else
                expect_failure(&lone, ERROR_PROTOCOL);
        }
    }
}

static void a_second_request_is_refused(void **state)
{
    (void)state;
    for (int role = ROLE_SENDER; role <= ROLE_RECEIVER; role++) {
        struct lone lone;
        lone_start(&lone, (enum transfer_role)role);
        say_request(&lone);
        uint8_t bytes[512];
        fake_say(lone.session, bytes, request_bytes(bytes, sizeof bytes));
        expect_failure(&lone, ERROR_PROTOCOL);
    }
}

static void unknown_messages_are_answered_but_not_for_ever(void **state)
{
    (void)state;
    struct lone lone;
    lone_start(&lone, ROLE_RECEIVER);
    static const uint8_t unknown[] = {77, 3, 'a', 'b', 'c'};
    for (int i = 0; i < 40; i++)
        fake_say(lone.session, unknown, sizeof unknown);
    settle(&lone);
    say_request(&lone);
    size_t size;
    const uint8_t *heard = fake_heard(fake_sender(lone.bench.wire), &size);
    static const uint8_t answer[] = {MESSAGE_UNSUPPORTED, 1, 77};
    assert_true(size > 16 * sizeof answer);
    for (unsigned i = 0; i < 16; i++)
        assert_memory_equal(heard + i * sizeof answer, answer, sizeof answer);
    assert_int_equal(heard[16 * sizeof answer], MESSAGE_READY);
    lone_stop(&lone);
}

/* A delivery of one small file, as the source would make it. */
static uint32_t delivery(uint8_t *bytes, size_t capacity)
{
    struct sim_files files = {.seed = 1, .sizes = sizes, .count = 3};
    struct sim_source_config config = {.files = files,
                                       .withdrawn = SIM_NO_FILE,
                                       .missing = SIM_NO_FILE,
                                       .fails_at = SIM_NO_FILE,
                                       .pack_capacity = (uint32_t)capacity};
    struct sim_source *source = sim_source_new(&config);
    assert_non_null(source);
    struct storage storage;
    sim_source_storage(source, &storage);
    struct source_item item = {0};
    assert_int_equal(storage.source_ops->next(source, bytes, &item), SOURCE_BLOCK);
    sim_source_free(source);
    return item.length;
}

static void blocks_before_ready_are_refused(void **state)
{
    (void)state;
    struct lone lone;
    lone_start(&lone, ROLE_RECEIVER);
    fake_arrive(lone.session, 0, true, (const uint8_t *)"x", 1);
    expect_failure(&lone, ERROR_PROTOCOL);
}

static void receive_one_block(struct lone *lone)
{
    uint8_t bytes[4096];
    lone_start(lone, ROLE_RECEIVER);
    say_request(lone);
    fake_arrive(lone->session, 0, true, bytes, delivery(bytes, sizeof bytes));
    settle(lone);
    assert_int_equal(transfer_error(lone->transfer)->kind, ERROR_NONE);
}

static void end_must_agree(void **state)
{
    (void)state;
    struct lone lone;
    receive_one_block(&lone);
    say(&lone, &(struct message){.type = MESSAGE_END, .blocks = 1, .files = 3});
    struct transfer_progress progress;
    transfer_progress(lone.transfer, &progress);
    assert_int_equal(progress.files_done, 3);
    assert_true(progress.ended_ns > 0);
    /* It is over but for the peer's farewell: a signal changes nothing, and the disk side ends. */
    transfer_abort(lone.transfer, ERROR_INTERRUPTED, "stopped", 9);
    settle(&lone);
    assert_int_equal(transfer_error(lone.transfer)->kind, ERROR_NONE);
    assert_true(bench_result(&lone.bench).closed);
    lone_stop(&lone);

    receive_one_block(&lone); /* fewer blocks than came */
    say(&lone, &(struct message){.type = MESSAGE_END, .blocks = 0, .files = 3});
    expect_failure(&lone, ERROR_PROTOCOL);

    receive_one_block(&lone); /* more files than came */
    say(&lone, &(struct message){.type = MESSAGE_END, .blocks = 1, .files = 4});
    expect_failure(&lone, ERROR_PROTOCOL);

    receive_one_block(&lone); /* more blocks than came: it waits for them */
    say(&lone, &(struct message){.type = MESSAGE_END, .blocks = 2, .files = 3});
    assert_int_equal(transfer_error(lone.transfer)->kind, ERROR_NONE);
    assert_false(bench_result(&lone.bench).finished);
    say(&lone, &(struct message){.type = MESSAGE_END, .blocks = 2, .files = 3}); /* twice */
    expect_failure(&lone, ERROR_PROTOCOL);
}

static void packed_blocks_that_lie_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[4096];
    uint32_t size = delivery(bytes, sizeof bytes);
    for (uint32_t cut = 1; cut < 60; cut++) {
        struct lone lone;
        lone_start(&lone, ROLE_RECEIVER);
        say_request(&lone);
        fake_arrive(lone.session, 0, true, bytes, size - cut);
        expect_failure(&lone, ERROR_PROTOCOL);
    }
}

static void a_file_nobody_knows_cannot_complete(void **state)
{
    (void)state;
    struct lone lone;
    receive_one_block(&lone);
    say(&lone, &(struct message){.type = MESSAGE_COMPLETE, .file_id = 12, .size = 5});
    expect_failure(&lone, ERROR_PROTOCOL);
}

/* ---- against a sender ---- */

static void make_sender_ready(struct lone *lone, uint8_t existing)
{
    lone_start(lone, ROLE_SENDER);
    say_request(lone);
    say(lone, &(struct message){.type = MESSAGE_READY, .bytes = &existing, .length = 1});
}

static void give_credit(struct lone *lone, uint8_t *buffer)
{
    session_give_buffer(fake_receiver(lone->bench.wire), buffer);
    settle(lone);
}

static void answers_must_fit_offers(void **state)
{
    (void)state;
    static uint8_t buffer[BLOCK_SIZE];
    static const uint8_t three[] = {1, 1, 1};
    struct lone lone;
    make_sender_ready(&lone, 1); /* answered before it was offered */
    say(&lone, &(struct message){.type = MESSAGE_ANSWER, .block = 0, .bytes = three, .length = 3});
    expect_failure(&lone, ERROR_PROTOCOL);

    make_sender_ready(&lone, 1); /* another block */
    give_credit(&lone, buffer);
    say(&lone, &(struct message){.type = MESSAGE_ANSWER, .block = 1, .bytes = three, .length = 3});
    expect_failure(&lone, ERROR_PROTOCOL);

    make_sender_ready(&lone, 1); /* another count */
    give_credit(&lone, buffer);
    say(&lone, &(struct message){.type = MESSAGE_ANSWER, .block = 0, .bytes = three, .length = 2});
    expect_failure(&lone, ERROR_PROTOCOL);

    make_sender_ready(&lone, 1);
    give_credit(&lone, buffer);
    say(&lone, &(struct message){.type = MESSAGE_ANSWER, .block = 0, .bytes = three, .length = 3});
    assert_int_equal(transfer_error(lone.transfer)->kind, ERROR_NONE);
    lone_stop(&lone);
}

static void finish_from_peer(struct lone *lone, uint8_t result, uint64_t files, uint64_t blocks)
{
    session_finish(fake_receiver(lone->bench.wire), result, files, blocks, 5);
    for (int i = 0; i < 20; i++) {
        fake_wire_step(lone->bench.wire);
        settle(lone);
    }
}

static void done_must_agree(void **state)
{
    (void)state;
    static uint8_t buffer[BLOCK_SIZE];
    struct lone lone;
    make_sender_ready(&lone, 0); /* before END: nothing was taken yet */
    finish_from_peer(&lone, 0, 3, 1);
    expect_failure(&lone, ERROR_PROTOCOL);

    static const struct {
        uint8_t result;
        uint64_t files, blocks;
        enum error_kind kind;
    } words[] = {{0, 3, 1, ERROR_NONE},     {1, 3, 1, ERROR_NONE},     {2, 3, 1, ERROR_PEER},
                 {0, 2, 1, ERROR_PROTOCOL}, {0, 3, 2, ERROR_PROTOCOL}, {1, 3, 0, ERROR_PROTOCOL}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        make_sender_ready(&lone, 0);
        give_credit(&lone, buffer);
        finish_from_peer(&lone, words[i].result, words[i].files, words[i].blocks);
        settle(&lone);
        struct transfer_progress progress;
        transfer_progress(lone.transfer, &progress);
        if (words[i].kind == ERROR_NONE)
            assert_int_equal(progress.files_failed, words[i].result);
        expect_failure(&lone, words[i].kind);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_cut_anywhere_waits),
        cmocka_unit_test(a_request_changed_anywhere_is_survived),
        cmocka_unit_test(messages_out_of_place_are_refused),
        cmocka_unit_test(a_second_request_is_refused),
        cmocka_unit_test(unknown_messages_are_answered_but_not_for_ever),
        cmocka_unit_test(blocks_before_ready_are_refused),
        cmocka_unit_test(end_must_agree),
        cmocka_unit_test(packed_blocks_that_lie_are_refused),
        cmocka_unit_test(a_file_nobody_knows_cannot_complete),
        cmocka_unit_test(answers_must_fit_offers),
        cmocka_unit_test(done_must_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
