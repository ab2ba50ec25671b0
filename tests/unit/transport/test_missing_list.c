/* Which missing packets are given up when, and how few are looked at for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/units.h"
#include "transport/missing_list.h"

/* Numbers above 1000 have few behind them. */
static const struct missing_waits waits = {
    .usual_ns = 10, .near_ns = 30, .unsure_ns = 100, .far_below = 1001};

static struct missing_packet *add(struct missing_list *list, uint64_t number, uint64_t now_ns)
{
    assert_true(missing_list_add(list, number, false, now_ns));
    struct missing_packet *packet = &list->packets[list->end - 1];
    packet->confirmed = true;
    return packet;
}

/* Gives up what is due; returns how many, and when the next one is. */
static unsigned give_up(struct missing_list *list, uint64_t now_ns, uint64_t *deadline_ns)
{
    struct missing_packet *packet;
    unsigned count = 0;
    size_t at = 0;
    *deadline_ns = TIME_NEVER;
    while ((packet = missing_list_due(list, &at, &waits, now_ns, deadline_ns)) != NULL) {
        assert_int_equal(packet->state, MISSING_WAITS);
        packet->state = MISSING_LOST;
        count++;
    }
    return count;
}

static void test_each_waits_as_long_as_it_must(void **state)
{
    (void)state;
    struct missing_list list = {0};
    uint64_t deadline_ns;
    assert_int_equal(give_up(&list, 5, &deadline_ns), 0);
    assert_true(deadline_ns == TIME_NEVER);
    assert_true(missing_list_add(&list, 1, true, 100)); /* no ack told of it */
    add(&list, 2, 100);
    add(&list, 3, 104)->confirmed = false;
    add(&list, 4, 105);
    add(&list, 1001, 106);
    assert_int_equal(give_up(&list, 109, &deadline_ns), 0);
    assert_int_equal(deadline_ns, 110);
    assert_int_equal(give_up(&list, 110, &deadline_ns), 1);
    assert_int_equal(list.packets[1].state, MISSING_LOST);
    assert_int_equal(deadline_ns, 115);
    assert_int_equal(give_up(&list, 115, &deadline_ns), 1);
    assert_int_equal(deadline_ns, 136);
    assert_int_equal(give_up(&list, 136, &deadline_ns), 1);
    assert_int_equal(list.packets[4].state, MISSING_LOST);
    assert_int_equal(deadline_ns, 200);
    list.packets[0].state = MISSING_OVER; /* it came */
    assert_int_equal(give_up(&list, 203, &deadline_ns), 0);
    assert_int_equal(deadline_ns, 204);
    assert_int_equal(give_up(&list, 204, &deadline_ns), 1);
    assert_true(deadline_ns == TIME_NEVER);
    missing_list_release(&list);
}

static void test_what_is_old_goes(void **state)
{
    (void)state;
    struct missing_list list = {0};
    uint64_t deadline_ns;
    for (uint64_t number = 1; number <= 100000; number++) {
        struct missing_packet *packet = add(&list, number, number);
        packet->confirmed = number % 100 != 50; /* some stand in the way for a while */
        give_up(&list, number, &deadline_ns);
        if (number > 150)
            missing_list_forget(&list, number - 150);
        assert_true(list.end - list.head <= 252);
    }
    assert_true(list.capacity <= 1024);
    assert_int_equal(list.packets[missing_list_find(&list, 99990)].number, 99990);
    assert_int_equal(missing_list_find(&list, 100001), list.end);
    assert_int_equal(missing_list_find(&list, 1), list.head);
    missing_list_release(&list);
}

/* 2,000 missing, as at 1 Gbit/s, 200 ms and 5 % loss: an ack is no walk over all of them. */
static void test_an_ack_looks_at_few(void **state)
{
    (void)state;
    struct missing_list list = {0};
    uint64_t deadline_ns;
    struct missing_waits far = waits;
    far.far_below = UINT64_MAX;
    for (uint64_t now_ns = 1; now_ns <= 4000; now_ns++) {
        if (now_ns == 2001)
            list.looked = 0;
        add(&list, now_ns, now_ns);
        missing_list_find(&list, now_ns > 100 ? now_ns - 100 : 0);
        struct missing_packet *packet;
        size_t at = 0;
        deadline_ns = TIME_NEVER;
        while ((packet = missing_list_due(&list, &at, &far, now_ns, &deadline_ns)) != NULL)
            packet->state = MISSING_LOST;
        if (now_ns > 2000)
            missing_list_forget(&list, now_ns - 2000);
    }
    assert_true(list.end - list.head >= 2000);
    assert_in_range(list.looked, 2000, 20 * 2000);
    missing_list_release(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_waits_as_long_as_it_must),
        cmocka_unit_test(test_what_is_old_goes),
        cmocka_unit_test(test_an_ack_looks_at_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
