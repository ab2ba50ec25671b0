/* Trials of more lanes, on paths made of arithmetic: each lane carries so much, all together so
 * much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/units.h"
#include "transport/lane_growth.h"

#define STEP (10 * NS_PER_MS)

struct path {
    double lane_bps, whole_bps;
    unsigned most_opened; /* lanes that can be opened */
    bool by_source;       /* something else holds the sender back */
    uint64_t opened_at_ns;
    unsigned highest;
    struct lane_growth_view view;
};

static void run(struct lane_growth *growth, struct path *path, double seconds)
{
    struct lane_growth_view *view = &path->view;
    view->rtt_ns = 20 * NS_PER_MS;
    uint64_t until_ns = view->now_ns + (uint64_t)(seconds * 1e9);
    while (view->now_ns < until_ns) {
        view->now_ns += STEP;
        double bps = path->lane_bps * view->joined;
        bps = bps < path->whole_bps ? bps : path->whole_bps;
        view->bytes += (uint64_t)(bps / 8 * STEP / 1e9);
        view->held_ns += path->by_source ? 0 : STEP;
        if (lane_growth_step(growth, view) && growth->lanes > view->joined)
            view->joined = growth->lanes < path->most_opened ? growth->lanes : path->most_opened;
        if (growth->lanes < view->joined)
            view->joined = growth->lanes;
        path->highest = view->joined > path->highest ? view->joined : path->highest;
    }
}

static struct path path_of(double lane_bps, double whole_bps)
{
    return (struct path){.lane_bps = lane_bps,
                         .whole_bps = whole_bps,
                         .most_opened = 16,
                         .view = {.now_ns = NS_PER_S, .joined = 1, .settled = true}};
}

static void test_grows_to_what_the_path_carries(void **state)
{
    (void)state;
    struct lane_growth growth;
    struct path path = path_of(300e6, 1200e6);
    lane_growth_init(&growth, 1, 16);
    run(&growth, &path, 4);
    assert_int_equal(path.highest, 8); /* which brought no more than four */
    run(&growth, &path, 4);
    assert_int_equal(growth.lanes, 4);
    assert_int_equal(growth.state, GROWTH_OVER);
}

static void test_ends_at_what_the_peer_allows(void **state)
{
    (void)state;
    struct lane_growth growth;
    struct path path = path_of(300e6, 1e12);
    lane_growth_init(&growth, 1, 3);
    run(&growth, &path, 8);
    assert_int_equal(growth.lanes, 3);
}

static void test_one_that_carries_all_stays_alone(void **state)
{
    (void)state;
    struct lane_growth growth;
    struct path path = path_of(300e6, 300e6);
    lane_growth_init(&growth, 1, 16);
    run(&growth, &path, 10);
    assert_int_equal(path.highest, 2);
    assert_int_equal(growth.lanes, 1);
}

static void test_not_where_something_else_holds_it_back(void **state)
{
    (void)state;
    struct lane_growth growth;
    struct path path = path_of(300e6, 1200e6);
    path.by_source = true;
    lane_growth_init(&growth, 1, 16);
    run(&growth, &path, 5);
    assert_int_equal(path.highest, 1);
    path.by_source = false;
    path.lane_bps = 10e6; /* and not on a slow path */
    run(&growth, &path, 5);
    assert_int_equal(path.highest, 1);
}

static void test_not_before_the_start_is_over(void **state)
{
    (void)state;
    struct lane_growth growth;
    struct path path = path_of(300e6, 1200e6);
    path.view.settled = false;
    lane_growth_init(&growth, 1, 16);
    run(&growth, &path, 5);
    assert_int_equal(path.highest, 1);
}

static void test_lanes_that_cannot_be_opened_are_given_up(void **state)
{
    (void)state;
    struct lane_growth growth;
    struct path path = path_of(300e6, 1200e6);
    path.most_opened = 1;
    lane_growth_init(&growth, 1, 16);
    run(&growth, &path, 10);
    assert_int_equal(growth.lanes, 1);
    assert_int_equal(growth.state, GROWTH_OVER);
    lane_growth_set(&growth, 2); /* others have opened one */
    assert_int_equal(growth.lanes, 2);
    assert_int_equal(growth.state, GROWTH_WATCHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grows_to_what_the_path_carries),
        cmocka_unit_test(test_ends_at_what_the_peer_allows),
        cmocka_unit_test(test_one_that_carries_all_stays_alone),
        cmocka_unit_test(test_not_where_something_else_holds_it_back),
        cmocka_unit_test(test_not_before_the_start_is_over),
        cmocka_unit_test(test_lanes_that_cannot_be_opened_are_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
