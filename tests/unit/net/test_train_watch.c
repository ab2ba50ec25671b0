/* When trains are to blame for loss, and when they are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/units.h"
#include "net/train_watch.h"

struct path {
    struct train_watch watch;
    struct lane_delivery delivery;
    uint64_t now_ns;
};

/* One window with so many packets; true when the verdict changed. */
static bool window(struct path *path, unsigned acked, unsigned lost)
{
    path->delivery.acked += acked;
    path->delivery.lost += lost;
    path->now_ns += 60 * NS_PER_MS;
    return train_watch_note(&path->watch, &path->delivery, path->now_ns);
}

/* So many packets tried each way, and how many of them arrived. */
static bool tried(struct path *path, unsigned packets, unsigned whole, unsigned cut)
{
    path->delivery.whole_sent += packets;
    path->delivery.whole_acked += whole;
    path->delivery.whole_lost += packets - whole;
    path->delivery.cut_acked += cut;
    path->delivery.cut_lost += packets - cut;
    return window(path, whole + cut, 2 * packets - whole - cut);
}

static void suspect(struct path *path, unsigned acked)
{
    assert_int_equal(train_watch_next(&path->watch), TRAIN_USUAL);
    assert_true(window(path, acked, 100));
    assert_int_equal(path->watch.verdict, TRAINS_ON_TRIAL);
}

static void test_trains_that_vanish(void **state)
{
    (void)state;
    struct path path = {0};
    suspect(&path, 2);
    assert_false(tried(&path, 31, 0, 31)); /* too few yet */
    assert_true(tried(&path, 1, 0, 1));
    assert_int_equal(path.watch.verdict, TRAINS_VANISH);
    assert_int_equal(train_watch_next(&path.watch), TRAIN_CUT);
    for (unsigned i = 0; i < 100; i++)
        assert_false(window(&path, 100, 1));
    path.now_ns += 10 * NS_PER_S;
    assert_true(window(&path, 100, 0)); /* another chance */
    assert_int_equal(path.watch.verdict, TRAINS_ON_TRIAL);
    assert_true(tried(&path, 40, 1, 39));
    assert_int_equal(path.watch.verdict, TRAINS_VANISH);
    path.now_ns += 11 * NS_PER_S;
    assert_false(window(&path, 100, 0)); /* the next one comes later */
    path.now_ns += 10 * NS_PER_S;
    assert_true(window(&path, 100, 0));
    assert_true(tried(&path, 40, 40, 40)); /* mended */
    assert_int_equal(path.watch.verdict, TRAINS_PASS);
}

/* The first packet of each train alone leaves: that is not nothing. */
static void test_trains_of_which_little_passes(void **state)
{
    (void)state;
    struct path path = {0};
    suspect(&path, 12);
    assert_true(tried(&path, 200, 20, 190));
    assert_int_equal(path.watch.verdict, TRAINS_VANISH);
}

static void test_a_path_that_gets_far_too_much(void **state)
{
    (void)state;
    struct path path = {0};
    suspect(&path, 4); /* 25 Mbit/s on a line of one */
    assert_false(tried(&path, 100, 4, 4));
    assert_false(tried(&path, 100, 4, 6));
    assert_true(tried(&path, 100, 12, 8));
    assert_int_equal(path.watch.verdict, TRAINS_PASS);
    suspect(&path, 4);
    assert_true(tried(&path, 40, 32, 40)); /* the rate was found in the meantime */
    assert_int_equal(path.watch.verdict, TRAINS_PASS);
}

static void test_loss_that_trains_do_not_cause(void **state)
{
    (void)state;
    struct path path = {0};
    for (unsigned i = 0; i < 100; i++)
        assert_false(window(&path, 70, 30)); /* a bad radio */
    suspect(&path, 1);                       /* an outage, which tells nothing while it lasts */
    for (unsigned i = 0; i < 10; i++)
        assert_false(tried(&path, 100, 0, 0));
    assert_true(tried(&path, 100, 70, 70));
    assert_int_equal(path.watch.verdict, TRAINS_PASS);
}

static void test_both_ways_are_tried_alike(void **state)
{
    (void)state;
    struct path path = {0};
    suspect(&path, 2);
    unsigned whole = 0, cut = 0, in_turns = 0;
    enum train_trial before = TRAIN_USUAL;
    for (unsigned i = 0; i < 1000; i++) {
        enum train_trial trial = train_watch_next(&path.watch);
        whole += trial == TRAIN_TRIED_WHOLE;
        cut += trial == TRAIN_TRIED_CUT;
        in_turns += trial != before;
        before = trial;
        assert_false(train_watch_note(&path.watch, &path.delivery, path.now_ns));
    }
    assert_int_equal(whole, 500);
    assert_int_equal(cut, 500);
    assert_in_range(in_turns, 500, 800);
    path.delivery.whole_sent += 48; /* enough, until it is known what became of them */
    assert_false(train_watch_note(&path.watch, &path.delivery, path.now_ns));
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(train_watch_next(&path.watch), TRAIN_CUT);
        assert_false(train_watch_note(&path.watch, &path.delivery, path.now_ns));
    }
}

static void test_few_packets_decide_nothing(void **state)
{
    (void)state;
    struct path path = {0};
    assert_false(window(&path, 0, 31));
    assert_false(window(&path, 100, 0));
    for (unsigned i = 0; i < 100; i++) { /* nor does a moment */
        path.delivery.lost += 100;
        path.now_ns += NS_PER_US;
        assert_false(train_watch_note(&path.watch, &path.delivery, path.now_ns));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trains_that_vanish),
        cmocka_unit_test(test_trains_of_which_little_passes),
        cmocka_unit_test(test_a_path_that_gets_far_too_much),
        cmocka_unit_test(test_loss_that_trains_do_not_cause),
        cmocka_unit_test(test_both_ways_are_tried_alike),
        cmocka_unit_test(test_few_packets_decide_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
