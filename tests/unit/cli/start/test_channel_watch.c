#include "unit.h"

#include <unistd.h>

#include "base/units.h"
#include "cli/start/channel_watch.h"
#include "net/driver.h"

#define S NS_PER_S

static void test_open(void **state)
{
    (void)state;
    struct channel_watch watch = {0};
    assert_int_equal(channel_watch_judge(&watch, 0, 1000 * S), CHANNEL_FINE);
}

static void test_ends_with_a_silent_peer(void **state)
{
    (void)state;
    struct channel_watch watch = {.ended_ns = 100 * S};
    assert_int_equal(channel_watch_judge(&watch, 0, 100 * S), CHANNEL_ASK);
    assert_int_equal(channel_watch_judge(&watch, 99 * S, 103 * S), CHANNEL_ASK);
    assert_int_equal(channel_watch_judge(&watch, 99 * S, 103 * S + 1), CHANNEL_OVER);
}

/* What was on its way when the peer died does not keep us for the idle limit. */
static void test_what_was_on_its_way_is_no_answer(void **state)
{
    (void)state;
    struct channel_watch watch = {.ended_ns = 100 * S};
    assert_int_equal(channel_watch_judge(&watch, 101 * S, 102 * S), CHANNEL_ASK);
    assert_int_equal(channel_watch_judge(&watch, 101 * S, 104 * S), CHANNEL_OVER);
}

static void test_outlived(void **state)
{
    (void)state;
    struct channel_watch watch = {.ended_ns = 100 * S};
    assert_int_equal(channel_watch_judge(&watch, 101 * S + 1, 102 * S), CHANNEL_FINE);
    assert_int_equal(channel_watch_judge(&watch, 101 * S + 1, 180 * S), CHANNEL_FINE);
}

static void test_read(void **state)
{
    (void)state;
    int ends[2];
    struct channel_watch watch = {0};
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "chatter", 7), 7);
    assert_true(channel_watch_read(&watch, ends[0]));
    assert_int_equal(watch.ended_ns, 0);
    close(ends[1]);
    assert_false(channel_watch_read(&watch, ends[0]));
    assert_true(watch.ended_ns > 0 && watch.ended_ns <= driver_now());
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open), cmocka_unit_test(test_ends_with_a_silent_peer),
        cmocka_unit_test(test_what_was_on_its_way_is_no_answer), cmocka_unit_test(test_outlived),
        cmocka_unit_test(test_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
