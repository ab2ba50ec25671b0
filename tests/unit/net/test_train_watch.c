/* When trains are to blame for loss, and when they are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/units.h"
#include "net/train_watch.h"

struct path {
    struct train_watch watch;
    uint64_t acked, lost, now_ns;
};

/* One window with so many packets; true when the verdict changed. */
static bool window(struct path *path, unsigned acked, unsigned lost)
{
    path->acked += acked;
    path->lost += lost;
    path->now_ns += 60 * NS_PER_MS;
    return train_watch_note(&path->watch, path->acked, path->lost, path->now_ns);
}

static void test_trains_that_vanish(void **state)
{
    (void)state;
    struct path path = {0};
    assert_false(window(&path, 2, 100));
    assert_false(window(&path, 2, 100));
    assert_true(window(&path, 2, 100));
    assert_true(path.watch.plain);
    for (unsigned i = 0; i < 100; i++)
        assert_false(window(&path, 100, 1));
    path.now_ns += 10 * NS_PER_S;
    assert_true(window(&path, 100, 0)); /* another chance */
    assert_false(path.watch.plain);
    for (unsigned i = 0; i < 2; i++)
        assert_false(window(&path, 2, 100));
    assert_true(window(&path, 2, 100));
    path.now_ns += 11 * NS_PER_S;
    assert_false(window(&path, 100, 0)); /* the next one comes later */
    path.now_ns += 10 * NS_PER_S;
    assert_true(window(&path, 100, 0));
}

static void test_loss_that_trains_do_not_cause(void **state)
{
    (void)state;
    struct path path = {0};
    for (unsigned i = 0; i < 100; i++)
        assert_false(window(&path, 70, 30)); /* a bad radio */
    assert_false(window(&path, 1, 5000));    /* an outage that ended */
    for (unsigned i = 0; i < 10; i++)
        assert_false(window(&path, 100, 0));
    for (unsigned i = 0; i < 2; i++)
        assert_false(window(&path, 2, 100));
    assert_true(window(&path, 2, 100));
    for (unsigned i = 0; i < 2; i++)
        assert_false(window(&path, 2, 100));
    assert_true(window(&path, 2, 100)); /* plain is no better */
    assert_false(path.watch.plain);
}

static void test_few_packets_decide_nothing(void **state)
{
    (void)state;
    struct path path = {0};
    assert_false(window(&path, 0, 31));
    assert_int_equal(path.watch.bad_windows, 0);
    for (unsigned i = 0; i < 100; i++) {
        path.lost += 100;
        path.now_ns += NS_PER_US;
        assert_false(train_watch_note(&path.watch, path.acked, path.lost, path.now_ns));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trains_that_vanish),
        cmocka_unit_test(test_loss_that_trains_do_not_cause),
        cmocka_unit_test(test_few_packets_decide_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
