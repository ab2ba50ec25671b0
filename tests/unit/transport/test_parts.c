/* The small parts of the transport, each by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/units.h"
#include "transport/block_map.h"
#include "transport/control_stream.h"
#include "transport/frame.h"
#include "transport/mtu.h"
#include "transport/pacer.h"
#include "transport/packet.h"
#include "transport/receive_window.h"
#include "transport/rtt.h"
#include "transport/sent_log.h"
#include "transport/train_length.h"

/* ---- block_map ---- */

static void test_block_map(void **state)
{
    (void)state;
    enum { KEYS = 3000 };
    static int values[KEYS];
    static bool held[KEYS];
    struct block_map map;
    struct random random;
    block_map_init(&map);
    random_seed(&random, 3);
    assert_null(block_map_find(&map, 7));
    assert_null(block_map_take(&map, 7));
    for (unsigned round = 0; round < 60000; round++) {
        uint32_t key = (uint32_t)random_below(&random, KEYS);
        if (random_below(&random, 2)) {
            assert_true(block_map_set(&map, key, &values[key]));
            held[key] = true;
        } else {
            assert_ptr_equal(block_map_take(&map, key), held[key] ? &values[key] : NULL);
            held[key] = false;
        }
    }
    size_t count = 0;
    for (uint32_t key = 0; key < KEYS; key++) {
        assert_ptr_equal(block_map_find(&map, key), held[key] ? &values[key] : NULL);
        count += held[key];
    }
    assert_int_equal(map.count, count);
    block_map_release(&map);
}

/* ---- sent_log ---- */

static void test_sent_log_grows_only_for_flight(void **state)
{
    (void)state;
    struct sent_log log;
    assert_true(sent_log_init(&log));
    struct sent_packet packet = {.state = SENT_IN_FLIGHT, .size = 100};
    for (unsigned i = 0; i < 5000; i++) {
        assert_true(sent_log_reserve(&log));
        sent_log_append(&log, &packet);
    }
    assert_true(log.mask + 1 >= 5000);
    assert_int_equal(log.in_flight_bytes, 500000);
    uint64_t capacity = log.mask + 1;
    for (uint64_t number = 0; number < 5000; number++)
        sent_log_settle(&log, sent_log_find(&log, number), number % 2 ? SENT_ACKED : SENT_LOST);
    assert_int_equal(log.in_flight_packets, 0);
    assert_null(sent_log_oldest(&log));
    for (unsigned i = 0; i < 20000; i++) {
        assert_true(sent_log_reserve(&log));
        sent_log_settle(&log, sent_log_append(&log, &packet), SENT_ACKED);
    }
    assert_int_equal(log.mask + 1, capacity);
    assert_null(sent_log_find(&log, log.next));
    assert_null(sent_log_find(&log, log.next - capacity - 1));
    assert_non_null(sent_log_find(&log, log.next - capacity));
    sent_log_release(&log);
}

static void test_sent_log_refuses_at_its_limit(void **state)
{
    (void)state;
    struct sent_log log;
    assert_true(sent_log_init(&log));
    struct sent_packet packet = {.state = SENT_IN_FLIGHT, .size = 1};
    uint64_t count = 0;
    while (sent_log_reserve(&log)) {
        sent_log_append(&log, &packet);
        count++;
    }
    assert_int_equal(count, 1u << 20);
    sent_log_settle(&log, sent_log_oldest(&log), SENT_ACKED);
    assert_true(sent_log_reserve(&log));
    sent_log_release(&log);
}

/* ---- receive_window ---- */

static void test_window_edges(void **state)
{
    (void)state;
    struct receive_window window;
    assert_true(receive_window_init(&window));
    assert_false(receive_window_allows(&window, NUMBER_AHEAD_MAX + 1));
    assert_true(receive_window_allows(&window, 5));
    receive_window_add(&window, 5);
    assert_false(receive_window_allows(&window, 5));
    assert_true(receive_window_allows(&window, 4));
    assert_true(receive_window_allows(&window, 5 + NUMBER_AHEAD_MAX));
    assert_false(receive_window_allows(&window, 6 + NUMBER_AHEAD_MAX));
    receive_window_add(&window, 3 * REPLAY_WINDOW);
    assert_false(receive_window_has(&window, 5));
    assert_false(receive_window_allows(&window, 5));
    assert_false(receive_window_allows(&window, 2 * REPLAY_WINDOW));
    assert_true(receive_window_allows(&window, 2 * REPLAY_WINDOW + 100));
    assert_false(receive_window_allows(&window, NUMBER_LIMIT));
    receive_window_release(&window);
}

static void check_bitmap(const struct receive_window *window, size_t size)
{
    uint8_t bitmap[ACK_BITMAP_MAX];
    receive_window_bitmap(window, bitmap, size);
    for (size_t i = 0; i < 8 * size; i++) {
        bool there = window->largest > i && receive_window_has(window, window->largest - 1 - i);
        assert_int_equal(bitmap[i / 8] >> (i % 8) & 1, there);
    }
}

static void test_window_bitmap(void **state)
{
    (void)state;
    struct receive_window window;
    struct random random;
    assert_true(receive_window_init(&window));
    random_seed(&random, 11);
    uint64_t next = 0;
    for (unsigned round = 0; round < 3000; round++) {
        uint64_t number = next + random_below(&random, 40);
        number -= random_below(&random, 30) < number ? random_below(&random, 20) : 0;
        if (receive_window_allows(&window, number))
            receive_window_add(&window, number);
        next = window.largest + 1;
        if (round % 50 == 0) {
            check_bitmap(&window, 1);
            check_bitmap(&window, 9);
            check_bitmap(&window, ACK_BITMAP_MAX);
        }
    }
    receive_window_release(&window);
}

/* ---- packet and frames ---- */

static void test_packet_header(void **state)
{
    (void)state;
    uint8_t bytes[64] = {0};
    struct packet_header header = {.type = PACKET_DATA,
                                   .flags = PACKET_END | PACKET_ACK_NOW,
                                   .connection_id = 0xdeadbeef,
                                   .number = NUMBER_LIMIT - 1};
    struct packet_header read;
    packet_header_encode(&header, bytes);
    assert_true(packet_header_decode(&read, bytes, sizeof(bytes)));
    assert_int_equal(read.type, header.type);
    assert_int_equal(read.flags, header.flags);
    assert_int_equal(read.connection_id, header.connection_id);
    assert_true(read.number == header.number);
    for (size_t size = 0; size < PACKET_OVERHEAD + PACKET_PLACE_SIZE + 1; size++)
        assert_false(packet_header_decode(&read, bytes, size));
    for (unsigned first = 0; first < 256; first++) {
        bytes[0] = (uint8_t)first;
        bool known = (first & 0xf8) == 0x10 || first == 0x20 || first == 0x24;
        assert_int_equal(packet_header_decode(&read, bytes, sizeof(bytes)), known);
    }
    uint32_t block, offset;
    packet_place_encode(BLOCK_NUMBER_LIMIT - 1, BLOCK_SIZE - 1, bytes);
    packet_place_decode(bytes, &block, &offset);
    assert_int_equal(block, BLOCK_NUMBER_LIMIT - 1);
    assert_int_equal(offset, BLOCK_SIZE - 1);
}

static void test_frames_cut_anywhere(void **state)
{
    (void)state;
    uint8_t bytes[256], bitmap[5] = {1, 2, 3, 4, 5};
    struct frame ack = {.type = FRAME_ACK};
    ack.ack = (struct ack_frame){.largest = 77, .credit = 9, .bitmap_size = 5, .bitmap = bitmap};
    struct frame abort = {.type = FRAME_ABORT};
    abort.abort.text = (const uint8_t *)"no";
    abort.abort.size = 2;
    struct writer writer = writer_of(bytes, sizeof(bytes));
    frame_write(&writer, &ack);
    frame_write(&writer, &abort);
    size_t whole = writer_size(&writer), first = FRAME_ACK_HEADER + 5;
    for (size_t size = 0; size <= whole; size++) {
        struct reader reader = reader_of(bytes, size);
        struct frame frame;
        unsigned count = 0;
        while (frame_read(&reader, &frame))
            count++;
        assert_int_equal(count, (size >= first) + (size == whole));
        assert_int_equal(reader.failed, size != 0 && size != first && size != whole);
    }
}

/* ---- rtt, pacer ---- */

static void sample(struct train_length *length, struct rtt *rtt, unsigned times, uint64_t ms)
{
    for (unsigned i = 0; i < times; i++) {
        rtt_sample(rtt, ms * NS_PER_MS);
        train_length_sample(length, rtt, ms * NS_PER_MS);
    }
}

static void test_trains_are_short_against_the_queue(void **state)
{
    (void)state;
    struct train_length length = {0};
    struct rtt rtt;
    rtt_init(&rtt, 100 * NS_PER_MS);
    assert_int_equal(train_length_ns(&length, &rtt, 0), TRAIN_SHORT_NS);
    sample(&length, &rtt, 1, 100);
    for (unsigned i = 0; i < 40; i++) /* two of three late: jitter */
        sample(&length, &rtt, 1, i % 3 == 0 ? 101 : 130);
    assert_int_equal(train_length_ns(&length, &rtt, 0), TRAIN_SHORT_NS);
    sample(&length, &rtt, 10, 110);
    assert_in_range(train_length_ns(&length, &rtt, 0), 1600 * NS_PER_US, 1667 * NS_PER_US);
    sample(&length, &rtt, 10, 200);
    assert_int_equal(train_length_ns(&length, &rtt, 0), 4 * NS_PER_MS);
    sample(&length, &rtt, 20000, 100); /* 200 s without a queue */
    assert_int_equal(train_length_ns(&length, &rtt, 0), TRAIN_SHORT_NS);

    length = (struct train_length){0};
    rtt_init(&rtt, 5 * NS_PER_MS);
    sample(&length, &rtt, 1, 5);
    sample(&length, &rtt, 10, 25);
    assert_in_range(train_length_ns(&length, &rtt, 0), 875 * NS_PER_US, 25 * NS_PER_MS / 16);
}

/* A queue that jitter only pretended: trains are short again, and for longer each time. */
static void test_trains_that_lose_their_ends_get_short(void **state)
{
    (void)state;
    struct train_length length = {0};
    struct rtt rtt;
    uint64_t now_ns = NS_PER_S;
    rtt_init(&rtt, 100 * NS_PER_MS);
    sample(&length, &rtt, 1, 100);
    sample(&length, &rtt, 5, 124);
    for (unsigned i = 0; i < 1000; i++, now_ns += NS_PER_MS) /* lost at random: all the same */
        train_length_settled(&length, &rtt, i % 2, i % 20 < 2, now_ns);
    assert_int_equal(train_length_ns(&length, &rtt, now_ns), 4 * NS_PER_MS);
    for (unsigned round = 0; round < 3; round++) {
        sample(&length, &rtt, 5, 124);
        for (unsigned i = 0; length.refuted == round; i++, now_ns += 2 * NS_PER_MS) {
            assert_true(i < 1000);
            train_length_settled(&length, &rtt, i % 2, i % 10 == 1, now_ns);
        }
        sample(&length, &rtt, 5, 124);
        assert_int_equal(train_length_ns(&length, &rtt, now_ns), TRAIN_SHORT_NS);
        assert_int_equal(train_length_ns(&length, &rtt, now_ns + (NS_PER_S << round)),
                         4 * NS_PER_MS);
        now_ns += NS_PER_S << round;
    }
    /* Where short ones fare alike they get shorter still, down to an eighth. */
    length = (struct train_length){0};
    for (unsigned i = 0; i < 5000; i++, now_ns += NS_PER_MS)
        train_length_settled(&length, &rtt, i % 2, i % 10 == 1, now_ns);
    assert_int_equal(train_length_ns(&length, &rtt, now_ns), TRAIN_SHORT_NS / 8);
    assert_int_equal(train_length_ns(&length, &rtt, now_ns + 100 * NS_PER_S), TRAIN_SHORT_NS);
}

static void test_rtt(void **state)
{
    (void)state;
    struct rtt rtt;
    rtt_init(&rtt, 50 * NS_PER_MS);
    assert_false(rtt.measured);
    rtt_sample(&rtt, 10 * NS_PER_MS);
    assert_int_equal(rtt.smoothed_ns, 10 * NS_PER_MS);
    for (unsigned i = 0; i < 100; i++)
        rtt_sample(&rtt, 20 * NS_PER_MS);
    assert_true(rtt.smoothed_ns > 19 * NS_PER_MS && rtt.smoothed_ns <= 20 * NS_PER_MS);
    assert_int_equal(rtt.min_ns, 10 * NS_PER_MS);
    assert_int_equal(rtt_ack_interval(1000), NS_PER_MS);
    assert_int_equal(rtt_ack_interval(40 * NS_PER_MS), 5 * NS_PER_MS);
    assert_int_equal(rtt_ack_interval(NS_PER_S), 10 * NS_PER_MS);
}

static void test_pacer_keeps_its_rate(void **state)
{
    (void)state;
    struct pacer pacer = {0};
    uint64_t now_ns = NS_PER_S, sent = 0;
    pacer_set_rate(&pacer, 100000000, 100000000);
    while (now_ns < 2 * NS_PER_S) {
        if (pacer_ready(&pacer) <= now_ns) {
            size_t train = pacer_train_bytes(&pacer, TRAIN_SHORT_NS, 1400);
            assert_true(train >= 2800 && train <= 6250);
            pacer_sent(&pacer, train, now_ns);
            sent += train;
        }
        now_ns += 70 * NS_PER_US;
    }
    assert_in_range(sent, 12500000 * 99 / 100, 12500000 * 102 / 100);
}

/* 10 Gbit/s in trains of 1,400-byte packets: bursts that take no longer than a train may, and the
 * rate is kept. */
static void test_pacer_sends_bursts_at_high_rates(void **state)
{
    (void)state;
    struct pacer pacer = {0};
    uint64_t now_ns = NS_PER_S, sent = 0, bursts = 0, late = 0, trains = 0;
    pacer_set_rate(&pacer, UINT64_C(10000000000), UINT64_C(10000000000));
    for (; now_ns < 2 * NS_PER_S; now_ns += 7 * NS_PER_US) {
        uint64_t burst = 0;
        while (pacer_may_send(&pacer, 100 * NS_PER_US, now_ns)) {
            size_t train = pacer_train_bytes(&pacer, 100 * NS_PER_US, 1400);
            assert_true(train <= TRAIN_BYTES_MAX);
            late += pacer_is_late(&pacer, 0, train);
            pacer_sent(&pacer, train, now_ns);
            burst += train;
            trains++;
        }
        assert_true(burst <= 125000 + TRAIN_BYTES_MAX / 2);
        bursts += burst > 0;
        sent += burst;
    }
    assert_in_range(sent, 1250000000 / 100 * 99, 1250000000 / 100 * 102);
    assert_in_range(trains, 2 * bursts - 2, 2 * bursts);
    assert_in_range(late, bursts - 1, bursts); /* the second of each two */
    while (pacer_may_send(&pacer, 4 * NS_PER_MS, 3 * NS_PER_S)) {
        sent += pacer_train_bytes(&pacer, 4 * NS_PER_MS, 1400);
        pacer_sent(&pacer, pacer_train_bytes(&pacer, 4 * NS_PER_MS, 1400), 3 * NS_PER_S);
        assert_true(sent <= 1250000000 / 100 * 102 + 4 * TRAIN_BYTES_MAX);
    }
}

static void test_pacer_forgets_a_long_delay(void **state)
{
    (void)state;
    struct pacer pacer = {0};
    pacer_set_rate(&pacer, 800000000, 800000000);
    pacer_sent(&pacer, 1000, NS_PER_S);
    uint64_t now_ns = 2 * NS_PER_S, until = now_ns + 100 * NS_PER_MS, sent = 0;
    for (; now_ns < until; now_ns += 50 * NS_PER_US) {
        while (pacer_ready(&pacer) <= now_ns) {
            size_t train = pacer_train_bytes(&pacer, TRAIN_SHORT_NS, 1400);
            pacer_sent(&pacer, train, now_ns);
            sent += train;
        }
        /* Never more than 1.25 times the rate, and one train. */
        uint64_t passed = now_ns - 2 * NS_PER_S;
        assert_true(sent <= passed / 8 + 2 * TRAIN_BYTES_MAX);
    }
    /* A hundred milliseconds at the rate, and the ten that were made up. */
    assert_in_range(sent, 10000000, 11100000 + TRAIN_BYTES_MAX);
}

static void test_trains_are_measured_by_all_lanes(void **state)
{
    (void)state;
    struct pacer pacer = {0};
    pacer_set_rate(&pacer, 100000000, 200000000); /* one of two: 0.5 ms of both */
    assert_int_equal(pacer_train_bytes(&pacer, TRAIN_SHORT_NS, 1000), 12000);
    pacer_set_rate(&pacer, 100000000, 1600000000); /* one of sixteen: 2 ms of its own */
    assert_int_equal(pacer_train_bytes(&pacer, TRAIN_SHORT_NS, 1000), 25000);
    pacer_set_rate(&pacer, 1000000, 2000000);
    assert_int_equal(pacer_train_bytes(&pacer, TRAIN_SHORT_NS, 1000), 2000);
}

/* ---- mtu ---- */

static unsigned probe_path(struct mtu *mtu, uint16_t passes, struct random *random, uint32_t loss)
{
    uint64_t now_ns = NS_PER_S;
    unsigned probes = 0;
    for (unsigned i = 0; i < 4000; i++, now_ns += NS_PER_MS) {
        uint16_t size = mtu_next_probe(mtu, now_ns);
        probes += size != 0;
        if (size != 0 && size <= passes && !random_chance(random, loss))
            mtu_probe_arrived(mtu, size);
    }
    return probes;
}

static void test_mtu_finds_the_largest(void **state)
{
    (void)state;
    static const uint16_t passes[] = {1200, 1252, 1372, 1464, 1472, 8972};
    static const uint16_t found[] = {1200, 1252, 1372, 1464, 1472, 8972};
    struct random random;
    random_seed(&random, 5);
    for (unsigned i = 0; i < sizeof(passes) / sizeof(passes[0]); i++) {
        struct mtu mtu;
        mtu_init(&mtu, false, 9001, 8973, NS_PER_S);
        assert_true(probe_path(&mtu, passes[i], &random, 0) <= 80);
        assert_int_equal(mtu_datagram(&mtu), found[i]);
    }
    unsigned right = 0;
    for (unsigned i = 0; i < 200; i++) {
        struct mtu mtu;
        mtu_init(&mtu, false, 1500, 8973, NS_PER_S);
        probe_path(&mtu, 1472, &random, UINT32_MAX / 10 * 3);
        right += mtu_datagram(&mtu) == 1472;
    }
    assert_true(right >= 198);
}

static void test_mtu_loss_is_no_black_hole(void **state)
{
    (void)state;
    struct mtu mtu;
    struct random random;
    uint64_t number = 1;
    random_seed(&random, 6);
    mtu_init(&mtu, false, 1500, 8973, NS_PER_S);
    probe_path(&mtu, 1472, &random, 0);
    for (unsigned i = 0; i < 1000000; i++) {
        if (random_chance(&random, UINT32_MAX / 100 * 15))
            mtu_data_lost(&mtu, 1472, number++, NS_PER_S);
        else
            mtu_data_arrived(&mtu, 1472, number++);
        assert_false(mtu_canary_due(&mtu, 50 * NS_PER_MS, NS_PER_S));
    }
    assert_int_equal(mtu_datagram(&mtu), 1472);
    for (unsigned i = 0; i < 40; i++)
        mtu_data_lost(&mtu, 1472, number++, NS_PER_S);
    assert_true(mtu_canary_due(&mtu, 50 * NS_PER_MS, NS_PER_S));
    assert_false(mtu_canary_due(&mtu, 50 * NS_PER_MS, NS_PER_S));
    bool changed = false;
    for (unsigned i = 0; i < 3; i++)
        changed = mtu_canary_arrived(&mtu, number++, NS_PER_S);
    assert_true(changed);
    assert_true(mtu_datagram(&mtu) < 1472);
}

static void test_mtu_black_hole_seen_by_smaller_packets(void **state)
{
    (void)state;
    struct mtu mtu;
    struct random random;
    random_seed(&random, 8);
    mtu_init(&mtu, false, 9001, 8973, NS_PER_S);
    probe_path(&mtu, 3972, &random, 0);
    assert_int_equal(mtu_datagram(&mtu), 3972);
    /* Small blocks fill no packet: their pieces tell of the hole all the same. */
    uint64_t number = 1000;
    for (unsigned i = 0; i < 40; i++) {
        mtu_data_lost(&mtu, 2705, number++, NS_PER_S);
        mtu_data_arrived(&mtu, 1300, number++);
    }
    assert_true(mtu_canary_due(&mtu, 50 * NS_PER_MS, NS_PER_S));
}

/* ---- control_stream ---- */

static void test_control_stream_over_loss(void **state)
{
    (void)state;
    struct control_stream from, to;
    struct random random;
    random_seed(&random, 9);
    assert_true(control_stream_init(&from) && control_stream_init(&to));
    enum { TOTAL = 1000000 };
    static uint8_t piece[CONTROL_PIECE_MAX], buffer[777];
    uint64_t written = 0, read = 0;
    while (read < TOTAL) {
        for (size_t i = 0; i < sizeof(buffer); i++)
            buffer[i] = (uint8_t)((written + i) * 31);
        written += control_stream_write(&from, buffer, sizeof(buffer));
        uint64_t offset;
        size_t size = control_stream_next(&from, &offset, piece);
        if (size > 0) {
            assert_true(offset + size <= control_stream_window(&to));
            if (random_below(&random, 3) == 0) {
                control_stream_lost(&from, offset, size);
            } else {
                assert_true(control_stream_received(&to, offset, piece, size));
                control_stream_acked(&from, offset, size);
            }
        }
        size_t got = control_stream_read(&to, buffer, sizeof(buffer));
        for (size_t i = 0; i < got; i++)
            assert_int_equal(buffer[i], (uint8_t)((read + i) * 31));
        read += got;
        control_stream_set_window(&from, control_stream_window(&to));
    }
    assert_false(control_stream_received(&to, control_stream_window(&to), piece, 1));
    control_stream_release(&from);
    control_stream_release(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block_map),
        cmocka_unit_test(test_sent_log_grows_only_for_flight),
        cmocka_unit_test(test_sent_log_refuses_at_its_limit),
        cmocka_unit_test(test_window_edges),
        cmocka_unit_test(test_window_bitmap),
        cmocka_unit_test(test_packet_header),
        cmocka_unit_test(test_frames_cut_anywhere),
        cmocka_unit_test(test_rtt),
        cmocka_unit_test(test_trains_are_short_against_the_queue),
        cmocka_unit_test(test_trains_that_lose_their_ends_get_short),
        cmocka_unit_test(test_pacer_keeps_its_rate),
        cmocka_unit_test(test_pacer_sends_bursts_at_high_rates),
        cmocka_unit_test(test_pacer_forgets_a_long_delay),
        cmocka_unit_test(test_trains_are_measured_by_all_lanes),
        cmocka_unit_test(test_mtu_finds_the_largest),
        cmocka_unit_test(test_mtu_loss_is_no_black_hole),
        cmocka_unit_test(test_mtu_black_hole_seen_by_smaller_packets),
        cmocka_unit_test(test_control_stream_over_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
