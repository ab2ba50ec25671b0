#include "unit.h"

#include "base/units.h"
#include "cli/report/progress_line.h"

#define WIDTH_MAX 300

static struct transfer_progress sample(void)
{
    return (struct transfer_progress){
        .phase = PHASE_MOVING,
        .total_bytes = UINT64_C(123456789012),
        .total_files = 1234567,
        .verified_bytes = UINT64_C(98765432109),
        .files_done = 765432,
        .started_ns = NS_PER_S,
        .sender = {.packets_sent = 1000, .payload_sent = 1000000, .packets_lost = 12},
        .session = {.rtt_ns = 101 * NS_PER_MS, .last_heard_ns = 10 * NS_PER_S}};
}

static void every_width(const struct transfer_progress *progress, double rate_bps, uint64_t now_ns)
{
    size_t before = 0;
    for (unsigned width = 0; width <= WIDTH_MAX; width++) {
        char text[WIDTH_MAX + 20];
        memset(text, 'Z', sizeof(text));
        assert_ptr_equal(
            progress_line_text(text, sizeof(text), width, progress, rate_bps, 0, now_ns), text);
        size_t length = strlen(text);
        assert_true(length < width || length == 0);
        assert_true(length == 0 || text[length - 1] != ' ');
        assert_null(strpbrk(text, "\r\n\033"));
        before = length > before ? length : before;
    }
    assert_true(before > 0);
}

static void test_every_width(void **state)
{
    (void)state;
    struct transfer_progress progress = sample();
    every_width(&progress, 8e8, 10 * NS_PER_S);
    every_width(&progress, 0, 10 * NS_PER_S);
    every_width(&progress, 1e300, 10 * NS_PER_S);
    every_width(&progress, 1, 100 * NS_PER_S);
    every_width(&progress, 1, UINT64_MAX);
    progress.totals_final = true;
    every_width(&progress, 8e8, 10 * NS_PER_S);
    progress.phase = PHASE_CONNECTING;
    every_width(&progress, 8e8, 10 * NS_PER_S);
}

static void test_extreme_numbers(void **state)
{
    (void)state;
    struct transfer_progress progress = sample();
    progress.total_bytes = progress.total_files = progress.files_done = UINT64_MAX;
    progress.verified_bytes = progress.files_skipped = UINT64_MAX;
    progress.sender.packets_lost = UINT64_MAX;
    progress.sender.packets_sent = 1;
    progress.session.rtt_ns = UINT64_MAX;
    every_width(&progress, 1e12, 10 * NS_PER_S);
    progress.verified_bytes = 0;
    progress.totals_final = true;
    every_width(&progress, 1e-3, 10 * NS_PER_S);
    progress = (struct transfer_progress){.phase = PHASE_MOVING};
    every_width(&progress, 0, 0);
}

static void test_small_buffers(void **state)
{
    (void)state;
    struct transfer_progress progress = sample();
    for (size_t capacity = 1; capacity < 100; capacity++) {
        char text[128];
        memset(text, 'Z', sizeof(text));
        progress_line_text(text, capacity, 200, &progress, 8e8, 0, 10 * NS_PER_S);
        assert_true(strlen(text) < capacity);
        assert_int_equal(text[capacity], 'Z');
    }
}

static const char *line_of(const struct transfer_progress *progress, double rate_bps,
                           uint64_t now_ns)
{
    static char text[WIDTH_MAX];
    return progress_line_text(text, sizeof(text), WIDTH_MAX, progress, rate_bps, 0, now_ns);
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

static void test_what_it_says(void **state)
{
    (void)state;
    struct transfer_progress progress = sample();
    const char *text = line_of(&progress, 8e8, 10 * NS_PER_S);
    has(text, "98.8 GB of at least 123 GB");
    has(text, "100 MB/s");
    has(text, "765432 of at least 1234567 files");
    has(text, "loss 1.2%");
    has(text, "RTT 101 ms");
    has(text, "ETA over ");
    assert_null(strstr(text, "%  1"));
    progress.totals_final = true;
    text = line_of(&progress, 8e8, 10 * NS_PER_S);
    has(text, "98.8 GB of 123 GB");
    has(text, "80%");
    assert_null(strstr(text, "at least"));
    assert_null(strstr(text, "over"));
}

static void test_silence(void **state)
{
    (void)state;
    struct transfer_progress progress = sample();
    assert_null(strstr(line_of(&progress, 8e8, 11 * NS_PER_S), "no answer"));
    has(line_of(&progress, 8e8, 17 * NS_PER_S), "no answer for 7 s");
    assert_null(strstr(line_of(&progress, 8e8, 17 * NS_PER_S), "MB/s"));
    has(line_of(&progress, 8e8, 17 * NS_PER_S), "waiting; Ctrl-C ends it");
    progress.session.last_heard_ns = 0;
    assert_null(strstr(line_of(&progress, 8e8, 17 * NS_PER_S), "no answer"));
}

/* Whoever answers is not silent, though keepalives are seconds apart. */
static void test_idleness(void **state)
{
    (void)state;
    struct transfer_progress progress = sample();
    char text[WIDTH_MAX + 20];
    progress_line_text(text, sizeof(text), WIDTH_MAX, &progress, 8e8, 21 * NS_PER_S, 17 * NS_PER_S);
    has(text, "nothing moves for 21 s");
    has(text, "the other end is alive");
    assert_null(strstr(text, "no answer"));
}

static void test_at_the_end(void **state)
{
    (void)state;
    struct transfer_progress progress = sample();
    progress.totals_final = true;
    progress.verified_bytes = progress.total_bytes;
    has(line_of(&progress, 8e8, 10 * NS_PER_S), "100%");
    assert_null(strstr(line_of(&progress, 8e8, 10 * NS_PER_S), "ETA"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_width),   cmocka_unit_test(test_extreme_numbers),
        cmocka_unit_test(test_small_buffers), cmocka_unit_test(test_what_it_says),
        cmocka_unit_test(test_silence),       cmocka_unit_test(test_idleness),
        cmocka_unit_test(test_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
