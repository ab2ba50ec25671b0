#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/random.h"
#include "base/range_set.h"

#define NUMBERS 96u

/* The plain model: one flag a number. */
struct model {
    bool held[NUMBERS];
};

static void check_shape(const struct range_set *set, const struct model *model)
{
    uint64_t total = 0;
    for (size_t i = 0; i < set->count; i++) {
        assert_true(set->ranges[i].start < set->ranges[i].end);
        if (i > 0) /* sorted, and a number apart at least */
            assert_true(set->ranges[i - 1].end < set->ranges[i].start);
    }
    for (unsigned number = 0; number < NUMBERS; number++) {
        assert_int_equal(range_set_contains(set, number, number + 1), model->held[number]);
        total += model->held[number];
    }
    assert_true(range_set_total(set) == total);
}

static void check_gap(const struct range_set *set, const struct model *model, uint64_t start,
                      uint64_t limit)
{
    uint64_t first = start, end;
    while (first < limit && model->held[first])
        first++;
    for (end = first; end < limit && !model->held[end]; end++)
        ;
    struct range gap = {111, 222};
    bool found = range_set_first_gap(set, start, limit, &gap);
    assert_int_equal(found, first < limit);
    if (found)
        assert_true(gap.start == first && gap.end == end);
    else
        assert_true(gap.start == 111 && gap.end == 222);
    assert_int_equal(range_set_contains(set, start, limit), first >= limit);
}

static void test_against_a_plain_model(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, 3);
    for (unsigned round = 0; round < 60; round++) {
        struct range_set set;
        range_set_init(&set);
        struct model model = {{false}};
        for (unsigned step = 0; step < 120; step++) {
            uint64_t start = random_below(&random, NUMBERS);
            uint64_t end = start + random_below(&random, 1 + random_below(&random, 12));
            if (end > NUMBERS)
                end = NUMBERS;
            bool adding = random_below(&random, 5) < 3;
            uint64_t fresh = 0, added = 0;
            for (uint64_t number = start; number < end; number++) {
                fresh += !model.held[number];
                model.held[number] = adding;
            }
            if (adding) {
                assert_true(range_set_add(&set, start, end, &added));
                assert_true(added == fresh);
            } else {
                assert_true(range_set_remove(&set, start, end));
            }
            check_shape(&set, &model);
            uint64_t from = random_below(&random, NUMBERS);
            check_gap(&set, &model, from, from + random_below(&random, NUMBERS - from + 1));
        }
        range_set_release(&set);
    }
}

static void test_edges(void **state)
{
    (void)state;
    struct range_set set = {0}; /* zeroed memory is an empty set */
    struct range gap;
    assert_true(range_set_contains(&set, 5, 5));
    assert_false(range_set_contains(&set, 5, 6));
    assert_true(range_set_add(&set, 9, 9, NULL));
    assert_int_equal(set.count, 0);
    uint64_t added;
    assert_true(range_set_add(&set, 0, UINT64_MAX, &added));
    assert_true(added == UINT64_MAX);
    assert_false(range_set_first_gap(&set, 3, UINT64_MAX, &gap));
    assert_true(range_set_remove(&set, 10, 20));
    assert_int_equal(set.count, 2);
    assert_true(range_set_first_gap(&set, 3, UINT64_MAX, &gap));
    assert_true(gap.start == 10 && gap.end == 20);
    range_set_release(&set);
    range_set_release(&set);
}

static void test_memory_follows_gaps(void **state)
{
    (void)state;
    struct range_set set;
    range_set_init(&set);
    for (uint64_t number = 0; number < 100000; number++)
        assert_true(range_set_add(&set, number, number + 1, NULL));
    assert_int_equal(set.count, 1);
    assert_true(set.capacity <= 8);
    range_set_release(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_plain_model),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_memory_follows_gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
