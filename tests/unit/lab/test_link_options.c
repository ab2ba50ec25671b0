/* The options of a link, the shapes that follow, and the delay line's order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka.h needs the four above */
#include <cmocka.h>

#include "base/random.h"
#include "base/units.h"
#include "lab/link_options.h"
#include "lab/link_queue.h"

#define WORDS(...) ((char *[]){__VA_ARGS__})
#define PARSE(options, used, error, ...)                                                           \
    link_options_parse(options, sizeof WORDS(__VA_ARGS__) / sizeof(char *), WORDS(__VA_ARGS__),    \
                       used, error)

static void everything_is_read(void **state)
{
    struct link_options options;
    struct link_shape forward, back;
    struct error error = {0};
    size_t used;
    (void)state;
    link_options_init(&options);
    assert_true(PARSE(&options, &used, &error, "--rtt", "100ms", "--rate=1gbit", "--queue",
                      "0.5bdp", "--loss", "1%", "--loss-back", "2%", "--loss-at", "before",
                      "--burst", "3", "--jitter", "8ms", "--jitter-back", "0s", "--reorder", "1%",
                      "--duplicate", "1%", "--mtu", "9000", "--seed", "7", "--rate-back", "10mbit",
                      "--policer", "200mbit:64K", "--flow-policer", "300mbit:1M", "--json", "x",
                      "--stats", "--", "command"));
    assert_int_equal(used, 34);
    link_options_shape(&options, LINK_FORWARD, &forward);
    link_options_shape(&options, LINK_BACK, &back);
    assert_int_equal(forward.rate_bps, 1000000000);
    assert_int_equal(forward.queue_bytes, 6250000);
    assert_int_equal(forward.delay_ns, 50 * NS_PER_MS);
    assert_int_equal(forward.loss_parts, 42949673);
    assert_true(forward.loss_before && back.loss_before);
    assert_int_equal(forward.jitter_ns, 8 * NS_PER_MS);
    assert_int_equal(forward.policer_bps, 200000000);
    assert_int_equal(forward.policer_bucket_bytes, 65536);
    assert_int_equal(forward.flow_policer_bps, 300000000);
    assert_int_equal(forward.flow_policer_bucket_bytes, 1048576);
    assert_int_equal(back.rate_bps, 10000000);
    assert_int_equal(back.queue_bytes, 62500); /* half the BDP of its own rate */
    assert_int_equal(back.loss_parts, 85899346);
    assert_int_equal(back.jitter_ns, 0);
    assert_int_equal(back.policer_bps, 0);
    assert_int_equal(back.reorder_parts, 0);
    assert_int_equal(options.mtu, 9000);
    assert_int_equal(options.seed, 7);
    assert_true(options.print_stats);
    assert_string_equal(options.json_path, "x");
}

static void queues_come_in_three_units(void **state)
{
    static const struct {
        char *text;
        uint64_t bytes;
    } queues[] = {{"2bdp", 250000}, {"10p", 15000}, {"64K", 65536}, {"0p", 1500}, {"0bdp", 1500}};
    (void)state;
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++) {
        struct link_options options;
        struct link_shape shape;
        size_t used;
        link_options_init(&options);
        assert_true(PARSE(&options, &used, NULL, "--rate", "100mbit", "--rtt", "10ms", "--queue",
                          queues[i].text));
        link_options_shape(&options, LINK_BACK, &shape);
        assert_int_equal(shape.queue_bytes, queues[i].bytes);
    }
}

static void mistakes_are_named(void **state)
{
    static char *const mistakes[][2] = {
        {"--rate", "100"},       {"--rtt", "fast"},   {"--loss", "101%"}, {"--queue", "1"},
        {"--queue", "-1bdp"},    {"--burst", "0.5"},  {"--mtu", "100"},   {"--mtu", "70000"},
        {"--policer", "10mbit"}, {"--loss-at", "in"}, {"--unknown", "1"}, {"--rtt-back", "1ms"},
        {"--seed", NULL},        {"--los", "1%"},     {"--lossx", "1%"},  {"--queue", "nanbdp"},
        {"--burst", "nan"},      {"--queue", "infp"}, {"--seed", "-1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        struct link_options options;
        struct error error = {0};
        size_t used;
        link_options_init(&options);
        bool read = link_options_parse(&options, mistakes[i][1] != NULL ? 2 : 1, mistakes[i], &used,
                                       &error);
        if (mistakes[i][0][2] == 'q' && mistakes[i][1][0] == '1') {
            assert_true(read); /* one byte: raised to a packet */
            continue;
        }
        assert_false(read);
        assert_int_equal(error.kind, ERROR_USAGE);
        assert_true(error.text[0] != '\0');
    }
}

static void words_end_options(void **state)
{
    struct link_options options;
    size_t used = 9;
    (void)state;
    link_options_init(&options);
    assert_true(PARSE(&options, &used, NULL, "command", "--rtt", "1ms"));
    assert_int_equal(used, 0);
    assert_true(PARSE(&options, &used, NULL, "--", "--rtt", "1ms"));
    assert_int_equal(used, 0);
    assert_int_equal(options.rtt_ns, 0);
}

static void entries_leave_in_order_of_time(void **state)
{
    struct link_queue queue;
    struct link_entry entry;
    struct random random;
    uint64_t last_due = 0, last_order = 0, count = 0;
    (void)state;
    random_seed(&random, 1);
    assert_true(link_queue_init(&queue));
    assert_true(link_queue_next(&queue) == TIME_NEVER);
    for (uint64_t i = 0; i < 100000; i++) {
        entry = (struct link_entry){.due_ns = i + random_below(&random, i % 3 == 0 ? 30000 : 3)};
        assert_true(link_queue_put(&queue, &entry, i % 7 == 0));
    }
    assert_false(link_queue_take(&queue, link_queue_next(&queue) - 1, &entry));
    while (link_queue_take(&queue, TIME_NEVER, &entry)) {
        assert_true(entry.due_ns > last_due || (entry.due_ns == last_due && count == 0) ||
                    entry.order > last_order);
        last_due = entry.due_ns;
        last_order = entry.order;
        count++;
    }
    assert_int_equal(count, 100000);
    link_queue_destroy(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_read),
        cmocka_unit_test(queues_come_in_three_units),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(words_end_options),
        cmocka_unit_test(entries_leave_in_order_of_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
