/* How far content may go ahead of entries. */
#include "transfer/entries.h"
#include "unit.h"

static unsigned let_all(struct entries *entries, const uint32_t *block)
{
    unsigned count = 0;
    while (count < 100 && entries_let_content(entries, block))
        count++;
    return count;
}

static void without_entries_all_may_go(void **state)
{
    (void)state;
    struct entries entries = {0};
    assert_int_equal(let_all(&entries, NULL), 100);
    entries_acked(&entries, 5);
    assert_true(entries_is_acked(&entries, 5));
    assert_true(entries_are_acked(&entries, 0));
    entries_release(&entries);
}

static void only_what_is_unknown_counts(void **state)
{
    (void)state;
    struct entries entries = {0};
    const uint32_t first = 0, second = 50;
    assert_true(entries_add(&entries, first));
    assert_int_equal(let_all(&entries, &first), ENTRIES_AHEAD_MAX);
    assert_true(entries_add(&entries, second));
    assert_int_equal(let_all(&entries, &second), 0);
    entries_acked(&entries, first);
    assert_int_equal(let_all(&entries, &first), 100);
    assert_int_equal(let_all(&entries, &second), ENTRIES_AHEAD_MAX);
    assert_int_equal(let_all(&entries, &first), 100);
    entries_acked(&entries, second);
    assert_int_equal(let_all(&entries, NULL), 100);
    entries_release(&entries);
}

static void without_knowledge_all_earlier_entries_count(void **state)
{
    (void)state;
    struct entries entries = {0};
    assert_true(entries_add(&entries, 1));
    assert_true(entries_add(&entries, 2));
    assert_int_equal(let_all(&entries, NULL), ENTRIES_AHEAD_MAX);
    entries_acked(&entries, 2);
    assert_int_equal(let_all(&entries, NULL), 0);
    assert_false(entries_are_acked(&entries, 1));
    entries_acked(&entries, 1);
    assert_true(entries_are_acked(&entries, 2));
    assert_int_equal(let_all(&entries, NULL), 100);
    entries_release(&entries);
}

static void sequences_follow_the_order_given(void **state)
{
    (void)state;
    struct entries entries = {0};
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(entries_sequence(&entries), i);
        assert_true(entries_add(&entries, 7 * i));
        if (i >= 40)
            entries_acked(&entries, 7 * (i - 40));
        assert_true(entries.capacity <= 256);
    }
    assert_true(entries_are_acked(&entries, 960));
    assert_false(entries_are_acked(&entries, 961));
    assert_false(entries_is_acked(&entries, 7 * 999));
    for (uint32_t i = 999; i >= 960; i--)
        entries_acked(&entries, 7 * i);
    assert_true(entries_are_acked(&entries, 1000));
    assert_int_equal(entries.count, 0);
    entries_release(&entries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_entries_all_may_go),
        cmocka_unit_test(only_what_is_unknown_counts),
        cmocka_unit_test(without_knowledge_all_earlier_entries_count),
        cmocka_unit_test(sequences_follow_the_order_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
