/* One direction of the emulated link in virtual time: rate, queue, loss, runs, delay, pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka.h needs the four above */
#include <cmocka.h>

#include "base/units.h"
#include "lab/link_path.h"
#include "link_trains.h"

#define SHARE(percent) ((uint32_t)((percent) / 100.0 * 4294967296.0))
#define PAYLOAD 1472u
#define PACKET 1500u
#define MEMORY (UINT64_C(256) << 20)

struct fixture {
    struct link_store *store;
    struct link_path *path;
    struct link_counters *counters;
    uint64_t delivered, pieces, last_due_ns, overtaken;
    uint64_t previous_due_ns, gap_max_ns;
};

static struct train train;

static void open_path(struct fixture *fixture, const struct link_shape *shape, uint64_t seed)
{
    memset(fixture, 0, sizeof *fixture);
    fixture->store = link_store_new(MEMORY);
    fixture->path = link_path_new(shape, fixture->store, seed, NULL);
    assert_non_null(fixture->path);
    fixture->counters = link_path_counters(fixture->path);
}

static void close_path(struct fixture *fixture)
{
    link_path_free(fixture->path);
    link_store_free(fixture->store);
}

static void send_train(struct fixture *fixture, uint64_t now_ns, uint32_t segments)
{
    static uint32_t made;
    if (segments != made)
        make_train(&train, 4, LINK_PROTOCOL_UDP, 0, segments > 1 ? PAYLOAD : 0, segments * PAYLOAD);
    made = segments;
    struct link_buffer *spare = link_store_take(fixture->store);
    assert_non_null(spare);
    memcpy(spare->bytes, train.bytes, train.size_bytes);
    assert_true(link_packet_parse(&spare->packet, &train.offload, spare->bytes, train.size_bytes));
    struct link_buffer *buffer =
        link_store_shrink(fixture->store, spare, (uint32_t)train.size_bytes);
    if (buffer != spare)
        link_store_drop(fixture->store, spare);
    link_path_receive(fixture->path, now_ns, buffer);
}

/* Takes out what is due, and looks at the times. */
static void collect(struct fixture *fixture, uint64_t until_ns)
{
    for (;;) {
        uint64_t due_ns = link_path_next(fixture->path);
        uint32_t first, count;
        if (due_ns > until_ns || due_ns == TIME_NEVER)
            return;
        assert_true(due_ns >= fixture->last_due_ns);
        if (fixture->pieces > 0 && due_ns - fixture->last_due_ns > fixture->gap_max_ns)
            fixture->gap_max_ns = due_ns - fixture->last_due_ns;
        struct link_buffer *buffer = link_path_take(fixture->path, due_ns, &first, &count);
        assert_non_null(buffer);
        assert_true(first + count <= buffer->packet.segment_count);
        fixture->delivered += count;
        fixture->pieces++;
        fixture->last_due_ns = due_ns;
        link_store_drop(fixture->store, buffer);
    }
}

static void delay_alone(void **state)
{
    struct link_shape shape = {.delay_ns = 50 * NS_PER_MS};
    struct fixture fixture;
    (void)state;
    open_path(&fixture, &shape, 1);
    assert_true(link_path_next(fixture.path) == TIME_NEVER);
    send_train(&fixture, 1000, 40);
    assert_int_equal(link_path_next(fixture.path), 1000 + 50 * NS_PER_MS);
    uint32_t first, count;
    assert_null(link_path_take(fixture.path, 50 * NS_PER_MS, &first, &count));
    collect(&fixture, TIME_NEVER);
    assert_int_equal(fixture.delivered, 40);
    assert_int_equal(fixture.pieces, 1);
    assert_int_equal(fixture.counters->udp.bytes, 40 * PACKET);
    assert_int_equal(fixture.counters->delivered.bytes, 40 * PACKET);
    close_path(&fixture);
}

/* A train leaves when its last segment has left the line, however odd the rate. */
static void rate_is_exact(void **state)
{
    static const uint64_t rates[] = {1000000, 7000001, 99999999, 1000000000, 9876543210};
    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        struct link_shape shape = {.rate_bps = rates[i], .queue_bytes = UINT64_C(1) << 40};
        struct fixture fixture;
        open_path(&fixture, &shape, 1);
        for (unsigned n = 0; n < 2000; n++)
            send_train(&fixture, 0, n % 44 + 1);
        collect(&fixture, TIME_NEVER);
        double expected = (double)fixture.delivered * PACKET * 8e9 / (double)rates[i];
        assert_true((double)fixture.last_due_ns - expected <= 1.0);
        assert_true((double)fixture.last_due_ns - expected >= -1.0);
        close_path(&fixture);
    }
}

static void slow_lines_deliver_in_small_pieces(void **state)
{
    struct link_shape shape = {.rate_bps = 100000000, .queue_bytes = 1 << 20};
    struct fixture fixture;
    (void)state;
    open_path(&fixture, &shape, 1);
    send_train(&fixture, 0, 44); /* 5.3 ms on the wire */
    collect(&fixture, TIME_NEVER);
    assert_int_equal(fixture.delivered, 44);
    assert_int_equal(fixture.pieces, 11); /* 4 packets are 0.48 ms */
    assert_true(fixture.gap_max_ns <= NS_PER_MS / 2);
    close_path(&fixture);

    shape.rate_bps = 1000000; /* 12 ms for each packet */
    open_path(&fixture, &shape, 1);
    send_train(&fixture, 0, 10);
    collect(&fixture, TIME_NEVER);
    assert_int_equal(fixture.pieces, 10);
    close_path(&fixture);

    shape.rate_bps = 1000000000; /* 0.53 ms for all */
    open_path(&fixture, &shape, 1);
    send_train(&fixture, 0, 44);
    collect(&fixture, TIME_NEVER);
    assert_int_equal(fixture.pieces, 1);
    close_path(&fixture);
}

static void queue_drops_its_tail(void **state)
{
    struct link_shape shape = {.rate_bps = 12000000, .queue_bytes = 10 * PACKET};
    struct fixture fixture;
    (void)state;
    open_path(&fixture, &shape, 1);
    send_train(&fixture, 0, 44);
    assert_int_equal(fixture.counters->dropped_queue, 44 - 10);
    /* After one packet time there is room for one. */
    send_train(&fixture, NS_PER_MS, 2);
    assert_int_equal(fixture.counters->dropped_queue, 44 - 10 + 1);
    collect(&fixture, TIME_NEVER);
    assert_int_equal(fixture.delivered, 11);
    assert_int_equal(fixture.last_due_ns, 11 * NS_PER_MS);
    assert_true(fixture.counters->queue_max_ns == 9 * NS_PER_MS);
    close_path(&fixture);
}

static void check_loss(const struct link_shape *shape, double share, double run)
{
    struct fixture fixture;
    open_path(&fixture, shape, 7);
    for (unsigned n = 0; n < 20000; n++) {
        send_train(&fixture, n, 25);
        collect(&fixture, n);
    }
    collect(&fixture, TIME_NEVER);
    const struct link_counters *counters = fixture.counters;
    double lost = (double)counters->dropped_loss / (20000.0 * 25);
    double mean = (double)counters->dropped_loss / (double)counters->loss_runs_total;
    assert_int_equal(fixture.delivered + counters->dropped_loss, 20000 * 25);
    assert_true(lost > share * 0.95 && lost < share * 1.05);
    assert_true(mean > run * 0.95 && mean < run * 1.05);
    close_path(&fixture);
}

static void loss_has_its_share_and_its_runs(void **state)
{
    (void)state;
    check_loss(&(struct link_shape){.loss_parts = SHARE(1)}, 0.01, 1 / 0.99);
    check_loss(&(struct link_shape){.loss_parts = SHARE(10)}, 0.10, 1 / 0.9);
    check_loss(&(struct link_shape){.loss_parts = SHARE(10), .loss_before = true}, 0.10, 1 / 0.9);
    check_loss(&(struct link_shape){.loss_parts = SHARE(5), .burst = 10}, 0.05, 10);
    check_loss(&(struct link_shape){.loss_parts = SHARE(5), .correlation_parts = SHARE(25)}, 0.05,
               1 / (0.95 * 0.75));
}

static void loss_before_takes_no_time_on_the_line(void **state)
{
    struct link_shape shape = {
        .rate_bps = 12000000, .queue_bytes = 1 << 30, .loss_parts = SHARE(50)};
    (void)state;
    for (unsigned before = 0; before <= 1; before++) {
        struct fixture fixture;
        shape.loss_before = before == 1;
        open_path(&fixture, &shape, 3);
        for (unsigned n = 0; n < 400; n++)
            send_train(&fixture, 0, 1);
        collect(&fixture, TIME_NEVER);
        uint64_t passed = before == 1 ? fixture.delivered : 400;
        assert_true(fixture.last_due_ns <= passed * NS_PER_MS);
        assert_true(fixture.last_due_ns + 20 * NS_PER_MS > passed * NS_PER_MS);
        close_path(&fixture);
    }
}

static void all_and_nothing(void **state)
{
    struct link_shape shape = {.loss_parts = UINT32_MAX};
    struct fixture fixture;
    (void)state;
    open_path(&fixture, &shape, 1);
    for (unsigned n = 0; n < 1000; n++)
        send_train(&fixture, n, 44);
    assert_true(link_path_next(fixture.path) == TIME_NEVER);
    shape.loss_parts = 0;
    assert_true(link_path_set(fixture.path, &shape, 2000, NULL));
    send_train(&fixture, 2000, 44);
    send_train(&fixture, 2001, 44);
    collect(&fixture, TIME_NEVER);
    assert_int_equal(fixture.delivered, 88);
    assert_int_equal(fixture.pieces, 2);
    close_path(&fixture);
}

static void policer_has_a_bucket_and_a_rate(void **state)
{
    struct link_shape shape = {.policer_bps = 12000000, .policer_bucket_bytes = 20 * PACKET};
    struct fixture fixture;
    (void)state;
    open_path(&fixture, &shape, 1);
    send_train(&fixture, 1000, 44);
    assert_int_equal(fixture.counters->dropped_policer, 24);
    for (unsigned n = 1; n <= 1000; n++)
        send_train(&fixture, 1000 + n * NS_PER_MS / 2, 1); /* twice the rate */
    collect(&fixture, TIME_NEVER);
    assert_true(fixture.delivered >= 519 && fixture.delivered <= 521);
    assert_int_equal(fixture.last_due_ns, 1000 + 500 * NS_PER_MS);
    close_path(&fixture);
}

/* One flow finds its own bucket empty while the next one's is full; ports are part of a flow. */
static void each_flow_has_its_own_policer(void **state)
{
    struct link_shape shape = {.flow_policer_bps = 12000000,
                               .flow_policer_bucket_bytes = 20 * PACKET};
    struct fixture fixture;
    (void)state;
    open_path(&fixture, &shape, 1);
    send_train(&fixture, 1000, 44);
    assert_int_equal(fixture.counters->dropped_policer, 24);
    train.bytes[20] ^= 1; /* the source port */
    send_train(&fixture, 1000, 44);
    assert_int_equal(fixture.counters->dropped_policer, 48);
    send_train(&fixture, 1000, 44);
    assert_int_equal(fixture.counters->dropped_policer, 92);
    train.bytes[20] ^= 1;
    close_path(&fixture);
}

static void path_mtu_swallows(void **state)
{
    struct link_shape shape = {.path_mtu = 1499};
    struct fixture fixture;
    (void)state;
    open_path(&fixture, &shape, 1);
    send_train(&fixture, 0, 10);
    assert_int_equal(fixture.counters->dropped_mtu, 10);
    shape.path_mtu = 1500;
    assert_true(link_path_set(fixture.path, &shape, 0, NULL));
    send_train(&fixture, 0, 10);
    assert_int_equal(fixture.counters->dropped_mtu, 10);
    close_path(&fixture);
}

static void copies_and_latecomers(void **state)
{
    struct link_shape shape = {.delay_ns = 10 * NS_PER_MS,
                               .duplicate_parts = SHARE(2),
                               .reorder_parts = SHARE(3),
                               .reorder_by_ns = NS_PER_MS};
    struct fixture fixture;
    (void)state;
    open_path(&fixture, &shape, 5);
    for (unsigned n = 0; n < 10000; n++) {
        send_train(&fixture, n * 10000, 10);
        collect(&fixture, n * 10000);
    }
    collect(&fixture, TIME_NEVER);
    const struct link_counters *counters = fixture.counters;
    assert_int_equal(fixture.delivered, 100000 + counters->duplicated);
    assert_true(counters->duplicated > 1900 && counters->duplicated < 2100);
    assert_true(counters->reordered > 2850 && counters->reordered < 3150);
    assert_int_equal(counters->delivered.packets, fixture.delivered);
    close_path(&fixture);
}

static void jitter_stays_in_its_bounds(void **state)
{
    struct link_shape shape = {.delay_ns = 50 * NS_PER_MS, .jitter_ns = 8 * NS_PER_MS};
    struct fixture fixture;
    uint64_t low_ns = TIME_NEVER, high_ns = 0;
    (void)state;
    open_path(&fixture, &shape, 5);
    for (unsigned n = 0; n < 3000; n++) {
        uint64_t now_ns = n * NS_PER_S;
        send_train(&fixture, now_ns, 1);
        uint64_t delay_ns = link_path_next(fixture.path) - now_ns;
        low_ns = delay_ns < low_ns ? delay_ns : low_ns;
        high_ns = delay_ns > high_ns ? delay_ns : high_ns;
        collect(&fixture, TIME_NEVER - 1);
    }
    assert_true(low_ns >= 42 * NS_PER_MS && low_ns < 42 * NS_PER_MS + NS_PER_MS / 10);
    assert_true(high_ns <= 58 * NS_PER_MS && high_ns > 58 * NS_PER_MS - NS_PER_MS / 10);
    close_path(&fixture);
}

static void same_seed_same_fate(void **state)
{
    struct link_shape shape = {.loss_parts = SHARE(5), .duplicate_parts = SHARE(1)};
    uint64_t pieces[3];
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct fixture fixture;
        open_path(&fixture, &shape, i < 2 ? 42 : 43);
        for (unsigned n = 0; n < 1000; n++)
            send_train(&fixture, n, 20);
        collect(&fixture, TIME_NEVER);
        pieces[i] = fixture.pieces * 1000000 + fixture.delivered;
        close_path(&fixture);
    }
    assert_int_equal(pieces[0], pieces[1]);
    assert_int_not_equal(pieces[0], pieces[2]);
}

static void a_new_rate_keeps_the_bytes_in_the_queue(void **state)
{
    struct link_shape shape = {.rate_bps = 12000000, .queue_bytes = 1 << 20};
    struct fixture fixture;
    (void)state;
    open_path(&fixture, &shape, 1);
    for (unsigned n = 0; n < 10; n++)
        send_train(&fixture, 0, 1);
    shape.rate_bps = 24000000;
    assert_true(link_path_set(fixture.path, &shape, 0, NULL));
    send_train(&fixture, 0, 1);
    /* 10 ms of backlog are 5 at twice the rate, and the new packet takes half a millisecond. */
    assert_int_equal(fixture.counters->dropped_queue, 0);
    uint32_t first, count;
    uint64_t at_new_rate = 5 * NS_PER_MS + NS_PER_MS / 2;
    bool found = false;
    for (unsigned n = 0; n < 11; n++) {
        found |= link_path_next(fixture.path) == at_new_rate;
        link_store_drop(fixture.store,
                        link_path_take(fixture.path, TIME_NEVER - 1, &first, &count));
    }
    assert_true(found);
    close_path(&fixture);
}

static void impossible_shapes_are_refused(void **state)
{
    struct link_store *store = link_store_new(MEMORY);
    struct error error = {0};
    struct link_shape both = {.loss_parts = SHARE(5), .burst = 3, .correlation_parts = SHARE(25)};
    (void)state;
    assert_null(link_path_new(&both, store, 1, &error));
    assert_int_equal(error.kind, ERROR_USAGE);
    struct link_shape dense = {.loss_parts = SHARE(90), .burst = 1};
    assert_null(link_path_new(&dense, store, 1, NULL));
    link_store_free(store);
}

static void memory_has_a_limit(void **state)
{
    struct link_store *store = link_store_new(UINT64_C(8) << 20);
    struct link_buffer *taken[1000], *small;
    size_t count = 0;
    (void)state;
    while ((taken[count] = link_store_take(store)) != NULL)
        count++;
    assert_true(count > 100 && count < 130);
    small = link_store_shrink(store, taken[0], 60);
    assert_ptr_equal(small, taken[0]); /* no memory for a smaller one either */
    link_store_drop(store, taken[--count]);
    assert_non_null(link_store_take(store));
    link_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delay_alone),
        cmocka_unit_test(rate_is_exact),
        cmocka_unit_test(slow_lines_deliver_in_small_pieces),
        cmocka_unit_test(queue_drops_its_tail),
        cmocka_unit_test(loss_has_its_share_and_its_runs),
        cmocka_unit_test(loss_before_takes_no_time_on_the_line),
        cmocka_unit_test(all_and_nothing),
        cmocka_unit_test(policer_has_a_bucket_and_a_rate),
        cmocka_unit_test(each_flow_has_its_own_policer),
        cmocka_unit_test(path_mtu_swallows),
        cmocka_unit_test(copies_and_latecomers),
        cmocka_unit_test(jitter_stays_in_its_bounds),
        cmocka_unit_test(same_seed_same_fate),
        cmocka_unit_test(a_new_rate_keeps_the_bytes_in_the_queue),
        cmocka_unit_test(impossible_shapes_are_refused),
        cmocka_unit_test(memory_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
