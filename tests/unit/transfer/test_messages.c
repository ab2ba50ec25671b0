/* The control messages' codec, and the two ends of the control stream. */
#include <stdlib.h>
#include <string.h>

#include "fake_session.h"
#include "transfer/control.h"
#include "unit.h"

static const uint8_t bitmap[] = {0x81, 0x02};
static const uint8_t verdicts[] = {0, 1, 1, 0};

static const uint8_t hashes[64] = {1, 2, [32] = 3};

static const struct message samples[] = {
    {.type = MESSAGE_READY, .bytes = bitmap, .length = sizeof bitmap},
    {.type = MESSAGE_ANSWER, .block = 300, .bytes = verdicts, .length = sizeof verdicts},
    {.type = MESSAGE_COMPLETE, .file_id = 7, .size = UINT64_C(1) << 40, .hash = {1, 2, 3}},
    {.type = MESSAGE_WITHDRAW,
     .file_id = 9,
     .kind = ERROR_CHANGED,
     .text = "it changed",
     .text_length = 10},
    {.type = MESSAGE_END, .blocks = 1000, .files = 70000},
    {.type = MESSAGE_PROBLEM,
     .kind = ERROR_IO,
     .path = "a/b",
     .path_length = 3,
     .text = "no",
     .text_length = 2},
    {.type = MESSAGE_PROGRESS,
     .size = 1,
     .files = 2,
     .skipped = 3,
     .failed = 4,
     .disk_wait_ns = UINT64_MAX,
     .kept_bytes = 77},
    {.type = MESSAGE_TOTALS, .files = 5, .size = 6, .totals_final = true, .new_bytes = 4},
    {.type = MESSAGE_FILE_DONE, .path = "x", .path_length = 1, .size = 12, .hash = {9}},
    {.type = MESSAGE_FILE_SKIPPED, .path = "x/y", .path_length = 3, .size = 1 << 20},
    {.type = MESSAGE_LOST, .text = "gone", .text_length = 4},
    {.type = MESSAGE_NOTE, .text = "look", .text_length = 4},
    {.type = MESSAGE_UNSUPPORTED, .unsupported = 4711},
    {.type = MESSAGE_LIST, .bytes = (const uint8_t *)"\0\1a", .length = 3},
    {.type = MESSAGE_DELETED, .files = 300, .path = "a/b", .path_length = 3},
    {.type = MESSAGE_STATS,
     .figures = {.packets_sent = 1000,
                 .packets_lost = 10,
                 .payload_sent = UINT64_MAX,
                 .payload_resent = 3,
                 .limited_us = {1, 200, 30000, 4000000, 5},
                 .path = {.rate_bps = UINT64_MAX,
                          .rtt_ns = 60000000000,
                          .loss_millionths = 1000000},
                 .memory_use = MEMORY_FAILED}},
    {.type = MESSAGE_HASHES,
     .block = 300,
     .entry = 7,
     .first = 128,
     .count = 3,
     .kept = 5,
     .bytes = hashes,
     .length = sizeof hashes},
    {.type = MESSAGE_HASHES, .block = 300, .entry = 7, .first = 131},
    {.type = MESSAGE_KEEP, .file_id = 9, .first = 64, .count = 64, .kept = UINT64_MAX},
    {.type = MESSAGE_FORGET, .block = 300, .entry = 8},
    {.type = MESSAGE_HOLES, .file_id = 300, .first = 1, .count = (1u << 28) - 1},
};
#define SAMPLES (sizeof samples / sizeof samples[0])

static size_t encode(const struct message *message, uint8_t *bytes, size_t capacity)
{
    struct writer writer = writer_of(bytes, capacity);
    message_encode(message, &writer);
    return writer.failed ? 0 : writer_size(&writer);
}

static void expect_equal(const struct message *a, const struct message *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->length, b->length);
    assert_int_equal(a->block, b->block);
    assert_int_equal(a->entry, b->entry);
    assert_int_equal(a->first, b->first);
    assert_int_equal(a->count, b->count);
    assert_true(a->kept == b->kept);
    assert_true(a->kept_bytes == b->kept_bytes);
    assert_int_equal(a->file_id, b->file_id);
    assert_int_equal(a->size, b->size);
    assert_int_equal(a->blocks, b->blocks);
    assert_int_equal(a->files, b->files);
    assert_int_equal(a->skipped, b->skipped);
    assert_int_equal(a->failed, b->failed);
    assert_true(a->disk_wait_ns == b->disk_wait_ns);
    assert_int_equal(a->unsupported, b->unsupported);
    assert_int_equal(a->totals_final, b->totals_final);
    assert_int_equal(a->kind, b->kind);
    assert_memory_equal(&a->figures, &b->figures, sizeof a->figures);
    assert_memory_equal(a->hash, b->hash, sizeof a->hash);
    assert_int_equal(a->path_length, b->path_length);
    assert_int_equal(a->text_length, b->text_length);
    if (a->length > 0)
        assert_memory_equal(a->bytes, b->bytes, a->length);
    if (a->path_length > 0)
        assert_memory_equal(a->path, b->path, a->path_length);
    if (a->text_length > 0)
        assert_memory_equal(a->text, b->text, a->text_length);
}

static void round_trips(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        uint8_t bytes[256];
        size_t size = encode(&samples[i], bytes, sizeof bytes);
        assert_true(size > 2);
        assert_int_equal(bytes[0], samples[i].type);
        assert_int_equal(bytes[1], size - 2);
        struct message message;
        struct error error = {0};
        assert_true(message_decode(&message, bytes[0], bytes + 2, size - 2, &error));
        expect_equal(&samples[i], &message);
    }
}

static void bodies_cut_or_long_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        if (samples[i].type == MESSAGE_LIST) /* any bytes are */
            continue;
        uint8_t bytes[256] = {0};
        size_t size = encode(&samples[i], bytes, sizeof bytes - 1);
        struct message message;
        for (size_t cut = 0; cut < size - 2; cut++) {
            uint8_t *exact = malloc(cut > 0 ? cut : 1);
            assert_non_null(exact);
            memcpy(exact, bytes + 2, cut);
            struct error error = {0};
            assert_false(message_decode(&message, bytes[0], exact, cut, &error));
            assert_int_equal(error.kind, ERROR_PROTOCOL);
            free(exact);
        }
        struct error error = {0};
        assert_false(message_decode(&message, bytes[0], bytes + 2, size - 1, &error));
    }
}

static void lies_inside_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint8_t type, size, body[16];
    } lies[] = {
        {MESSAGE_HASHES, 12, {5, 3, 0, 65, 0, 0, 0, 0, 0, 0, 0, 0}},   /* too many blocks */
        {MESSAGE_HASHES, 12, {5, 3, 0, 3, 0, 0, 0, 0, 0, 0, 0, 8}},    /* a bit too far */
        {MESSAGE_HASHES, 12, {5, 3, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1}},    /* without a hash */
        {MESSAGE_HASHES, 13, {5, 3, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, /* half a hash */
        {MESSAGE_HASHES, 15, {5, 3, 255, 255, 255, 127, 2}},           /* past the last */
        {MESSAGE_KEEP, 11, {5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},         /* of no block */
        {MESSAGE_KEEP, 11, {5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2}},         /* a bit too far */
        {MESSAGE_HOLES, 3, {5, 3, 0}},                                 /* of no block */
        {MESSAGE_HOLES, 6, {5, 2, 255, 255, 255, 127}},                /* past the last */
        {MESSAGE_FORGET, 6, {1, 0x80, 0x80, 0x80, 0x80, 1}},           /* entry 2^28 */
        {MESSAGE_READY, 2, {2, 0}},                                    /* longer than the body */
        {MESSAGE_ANSWER, 6, {0x80, 0x80, 0x80, 0x80, 1, 0}},           /* block 2^28 */
        {MESSAGE_WITHDRAW, 3, {1, 0, 0}},                              /* kind 0 */
        {MESSAGE_PROBLEM, 3, {0, 0, 0}},                               /* kind 0 */
        {MESSAGE_PROBLEM, 4, {1, 1, 0, 0}},                            /* NUL in a path */
        {MESSAGE_TOTALS, 4, {1, 1, 2, 0}},                             /* a flag of 2 */
        {MESSAGE_NOTE, 2, {1, 0}},                                     /* NUL in a text */
        {MESSAGE_NOTE, 3, {0x81, 0x00, 'x'}},                          /* not the shortest varint */
        {MESSAGE_STATS, 6, {1, 1, 1, 1, 17, 1}},                       /* too many limits */
        {MESSAGE_STATS, 6, {1, 1, 1, 1, 2, 1}},                        /* fewer than it says */
        {MESSAGE_STATS, 9, {1, 1, 1, 1, 0, 1, 1, 1, 4}},               /* a use of 4 */
        {MESSAGE_STATS, 11, {1, 1, 1, 1, 0, 1, 1, 0xc1, 0x84, 0x3d, 0}},       /* loss over all */
        {MESSAGE_STATS, 12, {1, 1, 1, 1, 0, 1, 0x81, 0x8e, 0xce, 0x1c, 0, 0}}, /* over a minute */
        {MESSAGE_END, 3, {0x80, 0x00, 1}}, /* not the shortest varint */
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct message message;
        struct error error = {0};
        assert_false(message_decode(&message, lies[i].type, lies[i].body, lies[i].size, &error));
    }
    struct message message;
    struct error error = {0};
    static const uint8_t later_kind[] = {200, 0, 0};
    assert_true(message_decode(&message, MESSAGE_PROBLEM, later_kind, 3, &error));
    assert_int_equal(message.kind, ERROR_PEER);
}

static void stats_of_other_versions(void **state)
{
    (void)state;
    static const uint8_t fewer[] = {1, 2, 3, 4, 1, 9, 7, 8, 9, 2};
    static const uint8_t more[] = {1, 2, 3, 4, 7, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0};
    struct message message;
    struct error error = {0};
    assert_true(message_decode(&message, MESSAGE_STATS, fewer, sizeof fewer, &error));
    assert_int_equal(message.figures.limited_us[0], 9);
    assert_int_equal(message.figures.limited_us[1], 0);
    assert_int_equal(message.figures.path.rate_bps, 7);
    assert_int_equal(message.figures.path.rtt_ns, 8000);
    assert_int_equal(message.figures.path.loss_millionths, 9);
    assert_int_equal(message.figures.memory_use, MEMORY_HELD);
    assert_true(message_decode(&message, MESSAGE_STATS, more, sizeof more, &error));
    assert_int_equal(message.figures.limited_us[4], 5);
}

static void limits_hold(void **state)
{
    (void)state;
    static uint8_t bytes[MESSAGE_LONG_BODY_MAX + 64], body[MESSAGE_LONG_BODY_MAX + 1];
    struct message names = {.type = MESSAGE_NAMES, .bytes = body, .length = MESSAGE_LONG_BODY_MAX};
    assert_int_equal(encode(&names, bytes, sizeof bytes), MESSAGE_LONG_BODY_MAX + 4);
    names.length++;
    assert_int_equal(encode(&names, bytes, sizeof bytes), 0);
    names.length = 10;
    assert_int_equal(encode(&names, bytes, 12), 0);

    struct message message;
    struct error error = {0};
    assert_false(message_decode(&message, MESSAGE_END, body, MESSAGE_BODY_MAX + 1, &error));
    assert_false(message_decode(&message, MESSAGE_TYPE_COUNT, body, 1, &error));
    assert_false(message_decode(&message, 0, body, 1, &error));

    /* A text that is too long for its field is cut by who writes it and refused by who reads it. */
    char text[MESSAGE_TEXT_MAX + 1];
    memset(text, 'x', sizeof text);
    struct message note = {.type = MESSAGE_NOTE, .text = text, .text_length = sizeof text};
    size_t size = encode(&note, bytes, sizeof bytes);
    assert_int_equal(size, 1 + 2 + 2 + MESSAGE_TEXT_MAX);
    assert_true(message_decode(&message, MESSAGE_NOTE, bytes + 3, size - 3, &error));
    struct writer writer = writer_of(bytes, sizeof bytes);
    write_sized(&writer, text, sizeof text);
    assert_false(
        message_decode(&message, MESSAGE_NOTE, bytes, writer_size(&writer), &(struct error){0}));
}

static void names_round_trip(void **state)
{
    (void)state;
    struct transfer_request names = {0}, read = {0};
    assert_true(transfer_request_add(&names, "one", false));
    assert_true(transfer_request_add(&names, "", true));
    uint8_t bytes[64];
    struct writer writer = writer_of(bytes, sizeof bytes);
    names_encode(&names, &writer);
    struct error error = {0};
    assert_true(names_decode(&read, bytes, writer_size(&writer), &error));
    assert_int_equal(read.name_count, 2);
    assert_string_equal(read.names[0], "one");
    assert_string_equal(read.names[1], "");
    assert_int_equal(read.name_is_directory[1], 1);
    transfer_request_release(&read);
    for (size_t cut = 0; cut < writer_size(&writer); cut++) {
        read = (struct transfer_request){0};
        assert_false(names_decode(&read, bytes, cut, &(struct error){0}));
        assert_int_equal(read.name_count, 0);
    }
    static const uint8_t too_many[] = {0x81, 0x20}; /* 4097 */
    read = (struct transfer_request){0};
    assert_false(names_decode(&read, too_many, sizeof too_many, &error));
    assert_int_equal(error.kind, ERROR_PROTOCOL);
    transfer_request_release(&names);
}

/* ---- the stream ---- */

static size_t script(uint8_t *bytes, size_t capacity)
{
    size_t size = 0;
    for (size_t i = 0; i < SAMPLES; i++)
        size += encode(&samples[i], bytes + size, capacity - size);
    return size;
}

static void messages_come_out_however_they_are_cut(void **state)
{
    (void)state;
    uint8_t bytes[1024];
    size_t size = script(bytes, sizeof bytes);
    for (size_t piece = 1; piece <= size; piece++) {
        struct control_in in = {0};
        size_t found = 0;
        for (size_t at = 0; at < size; at += piece) {
            struct reader reader = reader_of(bytes + at, at + piece < size ? piece : size - at);
            struct message message;
            struct error error = {0};
            while (control_in_take(&in, &reader, &message, &error) == CONTROL_MESSAGE)
                expect_equal(&samples[found++], &message);
            assert_int_equal(error.kind, ERROR_NONE);
            assert_int_equal(reader_left(&reader), 0);
        }
        assert_int_equal(found, SAMPLES);
        control_in_release(&in);
    }
}

static void unknown_messages_are_skipped(void **state)
{
    (void)state;
    uint8_t bytes[512] = {0};
    struct writer writer = writer_of(bytes, sizeof bytes);
    write_varint(&writer, 999);
    write_varint(&writer, 300);
    writer.at += 300;
    message_encode(&samples[4], &writer);
    write_varint(&writer, 99);
    write_varint(&writer, 0);
    struct control_in in = {0};
    struct reader reader = reader_of(bytes, writer_size(&writer));
    struct message message;
    struct error error = {0};
    assert_int_equal(control_in_take(&in, &reader, &message, &error), CONTROL_UNKNOWN);
    assert_int_equal(message.unsupported, 999);
    assert_int_equal(in.capacity, 0);
    assert_int_equal(control_in_take(&in, &reader, &message, &error), CONTROL_MESSAGE);
    assert_int_equal(message.type, MESSAGE_END);
    assert_int_equal(control_in_take(&in, &reader, &message, &error), CONTROL_UNKNOWN);
    assert_int_equal(message.unsupported, 99);
    assert_int_equal(control_in_take(&in, &reader, &message, &error), CONTROL_MORE);
    control_in_release(&in);
}

static void malformed_heads_end_the_stream(void **state)
{
    (void)state;
    static const struct {
        uint8_t size, bytes[24];
    } heads[] = {
        {2, {0x80, 0x00}},                   /* a type not in its shortest form */
        {3, {6, 0x80, 0x00}},                /* a length not in its shortest form */
        {4, {6, 0x81, 0x80, 0x04}},          /* 65537 */
        {4, {13, 0x81, 0x80, 0x40}},         /* 1 MiB and 1 */
        {5, {0xff, 0x01, 0x81, 0x80, 0x40}}, /* the same of an unknown type */
        {11, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
    };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        struct control_in in = {0};
        struct reader reader = reader_of(heads[i].bytes, heads[i].size);
        struct message message;
        struct error error = {0};
        assert_int_equal(control_in_take(&in, &reader, &message, &error), CONTROL_FAILED);
        assert_int_equal(error.kind, ERROR_PROTOCOL);
        control_in_release(&in);
    }
}

/* A head that promises a long body costs no memory before the body comes. */
static void promises_cost_nothing(void **state)
{
    (void)state;
    static const uint8_t head[] = {MESSAGE_NAMES, 0x80, 0x80, 0x40, 1};
    struct control_in in = {0};
    struct reader reader = reader_of(head, sizeof head);
    struct message message;
    assert_int_equal(control_in_take(&in, &reader, &message, &(struct error){0}), CONTROL_MORE);
    assert_true(in.capacity <= 1024);
    control_in_release(&in);
}

static void what_waits_goes_in_order(void **state)
{
    (void)state;
    struct fake_wire *wire = fake_wire_new(1);
    struct control_out out = {0};
    uint32_t put = 0;
    static uint8_t body[3000];
    while (control_out_has_room(&out)) {
        struct message ready = {
            .type = MESSAGE_ANSWER, .block = put++, .bytes = body, .length = sizeof body};
        assert_true(control_out_put(&out, &ready));
    }
    assert_true(put > 40);
    struct control_in in = {0};
    uint32_t got = 0;
    while (got < put) {
        control_out_flush(&out, fake_sender(wire));
        uint8_t bytes[5000];
        size_t size = session_control_read(fake_receiver(wire), bytes, sizeof bytes);
        struct reader reader = reader_of(bytes, size);
        struct message message;
        while (control_in_take(&in, &reader, &message, &(struct error){0}) == CONTROL_MESSAGE)
            assert_int_equal(message.block, got++);
    }
    assert_true(control_out_is_empty(&out));
    control_out_release(&out);
    control_in_release(&in);
    fake_wire_free(wire);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(bodies_cut_or_long_are_refused),
        cmocka_unit_test(lies_inside_are_refused),
        cmocka_unit_test(stats_of_other_versions),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(names_round_trip),
        cmocka_unit_test(messages_come_out_however_they_are_cut),
        cmocka_unit_test(unknown_messages_are_skipped),
        cmocka_unit_test(malformed_heads_end_the_stream),
        cmocka_unit_test(promises_cost_nothing),
        cmocka_unit_test(what_waits_goes_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
