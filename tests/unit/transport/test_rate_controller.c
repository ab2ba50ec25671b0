/* The controller on a path made of arithmetic: capacity, loss, and no queue or an endless one.
 * What it does on real paths is judged by tests/sim/controller. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "transport/rate_controller.h"

#define DATAGRAM 1440u
#define RTT (100 * NS_PER_MS)

struct ideal {
    double capacity_bps, loss;
    uint64_t train_packets; /* that leave at once, however short the interval is */
    uint64_t now_ns, id;
    struct rate_interval waiting[8];
    unsigned waiting_count;
};

static struct rate_controller *start(const struct rate_config *config)
{
    struct rate_controller *controller = rate_controller_new(config, 0);
    assert_non_null(controller);
    return controller;
}

static struct rate_decision decision_of(struct rate_controller *controller)
{
    struct rate_decision decision;
    rate_controller_decide(controller, &decision);
    return decision;
}

static void close_due(struct ideal *path, struct rate_controller *controller)
{
    while (path->waiting_count > 0 && path->waiting[0].settled_ns <= path->now_ns) {
        rate_controller_on_rtt(controller, RTT, path->now_ns);
        rate_controller_on_interval(controller, &path->waiting[0], path->now_ns);
        path->waiting_count--;
        memmove(path->waiting, path->waiting + 1, path->waiting_count * sizeof path->waiting[0]);
    }
}

/* Sends one interval; results of earlier ones arrive as they are due. */
static void step(struct ideal *path, struct rate_controller *controller)
{
    rate_controller_begin_interval(controller, path->id, path->now_ns);
    struct rate_decision decision = decision_of(controller);
    uint64_t length = decision.interval_ns;
    double rate = (double)decision.pacing_bps;
    double packets = rate * (double)length / 1e9 / 8 / DATAGRAM;
    double arriving = rate < path->capacity_bps ? 1 : path->capacity_bps / rate;
    struct rate_interval interval = {.id = path->id++,
                                     .start_ns = path->now_ns,
                                     .end_ns = path->now_ns + length,
                                     .settled_ns = path->now_ns + length + RTT + RTT / 8,
                                     .sent_packets = (uint64_t)packets + 1 + path->train_packets,
                                     .rtt_min_ns = RTT,
                                     .rtt_mean_ns = RTT};
    interval.sent_bytes = interval.sent_packets * DATAGRAM;
    interval.delivered_packets =
        (uint64_t)((double)interval.sent_packets * arriving * (1 - path->loss));
    interval.delivered_bytes = interval.delivered_packets * DATAGRAM;
    interval.lost_packets = interval.sent_packets - interval.delivered_packets;
    interval.loss_events = interval.lost_packets;
    if (path->waiting_count == 8) { /* settle the oldest early rather than forget it */
        path->waiting[0].settled_ns = path->now_ns;
        close_due(path, controller);
    }
    path->waiting[path->waiting_count++] = interval;
    path->now_ns += length;
    close_due(path, controller);
}

static void starts_at_25_mbit_and_grows(void **state)
{
    (void)state;
    struct rate_config config = {.rtt_ns = RTT, .datagram_bytes = DATAGRAM, .seed = 1};
    struct rate_controller *controller = start(&config);
    assert_in_range(decision_of(controller).pacing_bps, 24000000, 26000000);
    assert_string_equal(rate_controller_phase(controller), "startup");
    struct ideal path = {.capacity_bps = 1e9};
    while (path.now_ns < 7 * RTT)
        step(&path, controller);
    assert_in_range(decision_of(controller).base_bps, 900000000, 1300000000);
    rate_controller_free(controller);
}

/* An interval that is over with its first train took no time at all: no rate can be read off it. */
static void a_train_is_no_rate(void **state)
{
    (void)state;
    struct rate_config config = {.rtt_ns = RTT, .datagram_bytes = DATAGRAM, .seed = 1};
    struct rate_controller *controller = start(&config);
    struct ideal path = {.capacity_bps = 300e6, .train_packets = 40};
    while (path.now_ns < 10 * RTT) {
        step(&path, controller);
        if (decision_of(controller).interval_ns == 0) { /* a probe comes next */
            path.now_ns++;
            step(&path, controller);
        }
        assert_in_range(decision_of(controller).base_bps, 1000000, 3000000000);
    }
    assert_in_range(decision_of(controller).base_bps, 250000000, 400000000);
    rate_controller_free(controller);
}

static void random_loss_does_not_slow_it(void **state)
{
    (void)state;
    struct rate_config config = {.rtt_ns = RTT, .datagram_bytes = DATAGRAM, .seed = 1};
    struct rate_controller *controller = start(&config);
    struct ideal path = {.capacity_bps = 500e6, .loss = 0.1};
    while (path.now_ns < 50 * RTT)
        step(&path, controller);
    assert_in_range(decision_of(controller).base_bps, 470000000, 560000000);
    assert_true(rate_controller_ambient_loss(controller) > 0.05);
    rate_controller_free(controller);
}

/* A policer: no queue, and the more is sent the more is lost. */
static void loss_that_the_rate_makes_is_not_the_paths(void **state)
{
    (void)state;
    struct rate_config config = {.rtt_ns = RTT, .datagram_bytes = DATAGRAM, .seed = 1};
    struct rate_controller *controller = start(&config);
    struct ideal path = {.capacity_bps = 300e6, .loss = 0.02};
    double sent = 0;
    while (path.now_ns < 200 * RTT) {
        uint64_t from = path.now_ns;
        step(&path, controller);
        if (from > 30 * RTT)
            sent += (double)decision_of(controller).pacing_bps * (double)(path.now_ns - from);
    }
    sent /= (double)(path.now_ns - 30 * RTT);
    assert_true(sent > 280e6 && sent < 320e6);
    assert_true(rate_controller_ambient_loss(controller) < 0.04);
    rate_controller_free(controller);
}

static void a_remembered_rate_is_tried_and_judged(void **state)
{
    (void)state;
    struct rate_config config = {
        .rtt_ns = RTT, .datagram_bytes = DATAGRAM, .remembered = {1000000000, RTT, 0}, .seed = 1};
    struct rate_controller *controller = start(&config);
    assert_in_range(decision_of(controller).pacing_bps, 740000000, 760000000);
    struct ideal path = {.capacity_bps = 100e6}; /* the path is not what it was */
    while (path.now_ns < 8 * RTT)
        step(&path, controller);
    assert_true(decision_of(controller).pacing_bps < 160000000);
    rate_controller_free(controller);
}

/* The memory of a path with another round trip, or for a sender that only takes what is left. */
static void a_memory_of_another_path_is_not_used(void **state)
{
    (void)state;
    static const struct {
        uint64_t rtt_ns;
        enum rate_policy policy;
        uint64_t least_bps, most_bps;
    } cases[] = {{RTT, RATE_AUTO, 740000000, 760000000},
                 {RTT, RATE_FAIR, 490000000, 510000000},
                 {RTT, RATE_BACKGROUND, 24000000, 26000000},
                 {RTT * 100 / 79, RATE_AUTO, 24000000, 26000000},
                 {RTT * 100 / 81, RATE_AUTO, 740000000, 760000000},
                 {RTT * 100 / 129, RATE_AUTO, 740000000, 760000000},
                 {RTT * 100 / 131, RATE_AUTO, 24000000, 26000000},
                 {0, RATE_AUTO, 24000000, 26000000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rate_config config = {.rtt_ns = RTT,
                                     .datagram_bytes = DATAGRAM,
                                     .policy = cases[i].policy,
                                     .remembered = {1000000000, cases[i].rtt_ns, 0},
                                     .seed = 1};
        struct rate_controller *controller = start(&config);
        assert_in_range(decision_of(controller).pacing_bps, cases[i].least_bps, cases[i].most_bps);
        rate_controller_free(controller);
    }
}

static void what_a_transfer_leaves_to_the_next(void **state)
{
    (void)state;
    struct rate_memory memory;
    struct rate_config config = {.rtt_ns = RTT, .datagram_bytes = DATAGRAM, .seed = 1};
    struct rate_controller *controller = start(&config);
    struct ideal path = {.capacity_bps = 100e6, .loss = 0.05};
    while (path.now_ns < 15 * RTT)
        step(&path, controller);
    assert_int_equal(rate_controller_recall(controller, &memory), MEMORY_UNUSED);
    assert_true(memory.rate_bps == 0); /* too short to tell */
    while (path.now_ns < 400 * RTT)
        step(&path, controller);
    rate_controller_recall(controller, &memory);
    assert_in_range(memory.rate_bps, 95000000, 110000000);
    assert_in_range(memory.loss_millionths, 30000, 70000);
    assert_true(memory.rtt_ns == RTT);
    rate_controller_free(controller);

    config.remembered = memory;
    controller = start(&config);
    path = (struct ideal){.capacity_bps = 100e6, .loss = 0.05};
    while (path.now_ns < 6 * RTT)
        step(&path, controller);
    assert_int_equal(rate_controller_recall(controller, &memory), MEMORY_HELD);
    rate_controller_free(controller);

    controller = start(&config);
    path = (struct ideal){.capacity_bps = 20e6};
    while (path.now_ns < 6 * RTT)
        step(&path, controller);
    assert_int_equal(rate_controller_recall(controller, &memory), MEMORY_FAILED);
    rate_controller_free(controller);
}

/* Everything vanishes although the peer answers: the rate waits, sinks after a while, and is back
 * within some round trips once packets arrive. */
static void a_hole_decides_nothing(void **state)
{
    (void)state;
    struct rate_config config = {.rtt_ns = RTT, .datagram_bytes = DATAGRAM, .seed = 1};
    struct rate_controller *controller = start(&config);
    struct ideal path = {.capacity_bps = 100e6};
    while (path.now_ns < 40 * RTT)
        step(&path, controller);
    uint64_t before = decision_of(controller).base_bps;
    path.loss = 1;
    while (path.now_ns < 45 * RTT)
        step(&path, controller);
    assert_int_equal(decision_of(controller).base_bps, before);
    while (path.now_ns < 90 * RTT)
        step(&path, controller);
    uint64_t sunk = decision_of(controller).base_bps;
    assert_in_range(sunk, 16 * 8 * DATAGRAM * 9, before / 2);
    path.loss = 0;
    while (path.now_ns < 102 * RTT)
        step(&path, controller);
    assert_in_range(decision_of(controller).base_bps, 90000000, 130000000);
    rate_controller_free(controller);
}

/* Nothing was sent in an UP, so it is never closed: the next one must come all the same. */
static void an_interval_that_never_closes_is_given_up(void **state)
{
    (void)state;
    struct rate_config config = {.rtt_ns = RTT, .datagram_bytes = DATAGRAM, .seed = 1};
    struct rate_controller *controller = start(&config);
    struct ideal path = {.capacity_bps = 100e6};
    while (path.now_ns < 10 * RTT)
        step(&path, controller);
    unsigned raises = 0;
    while (path.now_ns < 200 * RTT) {
        rate_controller_begin_interval(controller, path.id, path.now_ns);
        if (strcmp(rate_controller_phase(controller), "up") == 0) {
            path.id++;
            raises++;
            path.now_ns += RTT;
        } else {
            step(&path, controller);
        }
    }
    assert_true(raises >= 3);
    rate_controller_free(controller);
}

static void limit_caps_the_rate(void **state)
{
    (void)state;
    struct rate_config config = {
        .rtt_ns = RTT, .datagram_bytes = DATAGRAM, .limit_bps = 50000000, .seed = 1};
    struct rate_controller *controller = start(&config);
    struct ideal path = {.capacity_bps = 1e9};
    while (path.now_ns < 40 * RTT) {
        step(&path, controller);
        assert_true(decision_of(controller).pacing_bps <= 50000000);
    }
    assert_true(decision_of(controller).pacing_bps >= 49500000);
    rate_controller_free(controller);
}

static void fixed_paces_what_was_asked(void **state)
{
    (void)state;
    struct rate_config config = {
        .rtt_ns = RTT, .datagram_bytes = DATAGRAM, .fixed_bps = 200000000, .seed = 1};
    struct rate_controller *controller = start(&config);
    struct ideal path = {.capacity_bps = 150e6};
    while (path.now_ns < 100 * RTT)
        step(&path, controller);
    assert_int_equal(decision_of(controller).pacing_bps, 200000000);
    rate_controller_free(controller);
}

static void fixed_breaks_when_under_half_arrives(void **state)
{
    (void)state;
    struct rate_config config = {
        .rtt_ns = RTT, .datagram_bytes = DATAGRAM, .fixed_bps = 200000000, .seed = 1};
    struct rate_controller *controller = start(&config);
    struct ideal path = {.capacity_bps = 40e6};
    while (path.now_ns < 40 * RTT)
        step(&path, controller);
    assert_int_equal(decision_of(controller).pacing_bps, 200000000); /* not before 5 s */
    while (path.now_ns < 70 * RTT)
        step(&path, controller);
    assert_in_range(decision_of(controller).pacing_bps, 38000000, 42000000);
    rate_controller_free(controller);
}

static void idle_and_outages_decide_nothing(void **state)
{
    (void)state;
    struct rate_config config = {.rtt_ns = RTT, .datagram_bytes = DATAGRAM, .seed = 1};
    struct rate_controller *controller = start(&config);
    struct ideal path = {.capacity_bps = 100e6};
    while (path.now_ns < 40 * RTT)
        step(&path, controller);
    uint64_t before = decision_of(controller).base_bps;
    for (unsigned i = 0; i < 50; i++) {
        rate_controller_begin_interval(controller, path.id, path.now_ns);
        struct rate_interval interval = {.id = path.id++,
                                         .start_ns = path.now_ns,
                                         .end_ns = path.now_ns + RTT,
                                         .settled_ns = path.now_ns + 2 * RTT,
                                         .sent_packets = i % 2 == 0 ? 0 : 500,
                                         .lost_packets = i % 2 == 0 ? 0 : 500,
                                         .app_limited = i % 2 == 0,
                                         .outage = i % 2 != 0};
        path.now_ns += RTT;
        rate_controller_on_interval(controller, &interval, path.now_ns);
    }
    assert_int_equal(decision_of(controller).base_bps, before);
    rate_controller_free(controller);
}

/* A sender that fills nine tenths of its belief, and of these 180 Mbit/s arrive. */
static void too_much_is_too_much_though_unfilled(void **state)
{
    (void)state;
    struct rate_config config = {.rtt_ns = RTT, .datagram_bytes = DATAGRAM, .seed = 1};
    struct rate_controller *controller = start(&config);
    struct ideal path = {.capacity_bps = 300e6};
    while (path.now_ns < 30 * RTT)
        step(&path, controller);
    assert_in_range(decision_of(controller).base_bps, 270000000, 330000000);
    for (unsigned i = 0; i < 20; i++) {
        rate_controller_begin_interval(controller, path.id, path.now_ns);
        uint64_t packet_ns = 8u * DATAGRAM * NS_PER_S / 180000000;
        uint64_t sent = decision_of(controller).base_bps * 9 / 10 / 8 / DATAGRAM / 10;
        uint64_t arrive = RTT / packet_ns < sent ? RTT / packet_ns : sent;
        struct rate_interval interval = {.id = path.id++,
                                         .start_ns = path.now_ns,
                                         .end_ns = path.now_ns + RTT,
                                         .settled_ns = path.now_ns + 2 * RTT,
                                         .sent_packets = sent,
                                         .sent_bytes = sent * DATAGRAM,
                                         .delivered_packets = arrive,
                                         .delivered_bytes = arrive * DATAGRAM,
                                         .lost_packets = sent - arrive,
                                         .loss_events = sent - arrive,
                                         .rtt_min_ns = RTT,
                                         .rtt_mean_ns = RTT,
                                         .app_limited = true};
        path.now_ns += RTT;
        rate_controller_on_interval(controller, &interval, path.now_ns);
    }
    assert_in_range(decision_of(controller).base_bps, 180000000, 225000000);
    rate_controller_free(controller);
}

static void new_path_halves_the_rate(void **state)
{
    (void)state;
    struct rate_config config = {.rtt_ns = RTT, .datagram_bytes = DATAGRAM, .seed = 1};
    struct rate_controller *controller = start(&config);
    struct ideal path = {.capacity_bps = 100e6};
    while (path.now_ns < 40 * RTT)
        step(&path, controller);
    uint64_t before = decision_of(controller).base_bps;
    rate_controller_on_new_path(controller, path.now_ns);
    assert_in_range(decision_of(controller).base_bps, before / 2 - 1, before / 2 + 1);
    rate_controller_on_rtt(controller, 30 * NS_PER_MS, path.now_ns);
    assert_int_equal(rate_controller_base_rtt(controller), 30 * NS_PER_MS);
    rate_controller_free(controller);
}

/* Every bound must hold for numbers that a broken clock or peer could make up. */
static void nonsense_stays_within_bounds(void **state)
{
    (void)state;
    struct rate_config config = {.rtt_ns = 0, .datagram_bytes = DATAGRAM, .seed = 3};
    struct rate_controller *controller = start(&config);
    for (uint64_t id = 0; id < 400; id++) {
        rate_controller_begin_interval(controller, id, id);
        struct rate_interval interval = {.id = id,
                                         .start_ns = id,
                                         .end_ns = id,
                                         .sent_packets = 1 + id % 3,
                                         .sent_bytes = 1,
                                         .delivered_bytes = id % 2 ? UINT64_C(1) << 60 : 0,
                                         .lost_packets = id % 2 ? 0 : 1 + id % 3,
                                         .loss_events = id % 5,
                                         .receiver_span_ns = id % 7,
                                         .rtt_min_ns = id % 4,
                                         .rtt_mean_ns = UINT64_C(1) << (id % 60)};
        rate_controller_on_rtt(controller, UINT64_C(1) << (id % 62), id);
        rate_controller_on_interval(controller, &interval, id);
        struct rate_decision decision = decision_of(controller);
        assert_true(decision.pacing_bps >= 1000 && decision.inflight_cap_bytes >= DATAGRAM);
        assert_true(decision.pacing_bps <= UINT64_C(1000000000000));
        assert_true(decision.interval_ns >= NS_PER_MS);
    }
    rate_controller_free(controller);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_at_25_mbit_and_grows),
        cmocka_unit_test(a_train_is_no_rate),
        cmocka_unit_test(random_loss_does_not_slow_it),
        cmocka_unit_test(loss_that_the_rate_makes_is_not_the_paths),
        cmocka_unit_test(a_remembered_rate_is_tried_and_judged),
        cmocka_unit_test(a_memory_of_another_path_is_not_used),
        cmocka_unit_test(what_a_transfer_leaves_to_the_next),
        cmocka_unit_test(a_hole_decides_nothing),
        cmocka_unit_test(an_interval_that_never_closes_is_given_up),
        cmocka_unit_test(limit_caps_the_rate),
        cmocka_unit_test(fixed_paces_what_was_asked),
        cmocka_unit_test(fixed_breaks_when_under_half_arrives),
        cmocka_unit_test(idle_and_outages_decide_nothing),
        cmocka_unit_test(too_much_is_too_much_though_unfilled),
        cmocka_unit_test(new_path_halves_the_rate),
        cmocka_unit_test(nonsense_stays_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
