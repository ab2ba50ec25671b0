#include "unit.h"

#include "base/units.h"
#include "cli/report/summary.h"

static struct transfer_progress sample(void)
{
    return (struct transfer_progress){
        .phase = PHASE_ENDED,
        .verified_bytes = 1000000000,
        .files_done = 1,
        .started_ns = 5 * NS_PER_S,
        .ended_ns = 15 * NS_PER_S,
        .sends = true,
        .sender = {.packets_sent = 100000,
                   .packets_lost = 1234,
                   .payload_sent = 1020000000,
                   .payload_resent = 10200000,
                   .limited_us = {[LIMIT_PATH] = 9000000, [LIMIT_SOURCE] = 1000000}},
        .session = {.rtt_ns = 100 * NS_PER_MS}};
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

static struct summary_limits limits = {.own = true};

static const char *text_of(const struct transfer_progress *progress,
                           const struct summary_file *file)
{
    static char text[2048];
    static const struct summary_file none;
    return summary_text(text, sizeof(text), progress, file != NULL ? file : &none, &limits,
                        20 * NS_PER_S);
}

static void test_one_file(void **state)
{
    (void)state;
    struct transfer_progress progress = sample();
    struct summary_file file = {.known = true, .hash = {0xab, 0x01}, .name = "big.bin"};
    const char *text = text_of(&progress, &file);
    has(text, "1.00 GB in 1 file, verified in 10.0 s (100 MB/s)");
    has(text, "command 20.0 s (50.0 MB/s)");
    has(text, "loss 1.23 %");
    has(text, "resent 1.00 %");
    has(text, "limited by the path for 90 % of the time");
    has(text, "ab010000");
    has(text, "  big.bin\n");
}

static void test_failures_are_not_verified(void **state)
{
    (void)state;
    struct transfer_progress progress = sample();
    progress.files_done = 3;
    progress.files_skipped = 2;
    progress.files_failed = 1;
    const char *text = text_of(&progress, NULL);
    has(text, "in 3 files, not all verified");
    has(text, "2 files already there");
    has(text, "1 file failed");
}

static void test_what_limited_it(void **state)
{
    (void)state;
    static const char *const ours[] = {"the path", "--limit", "the peer's disk", "our own disk",
                                       "our own processor"};
    static const char *const theirs[] = {"the path", "--limit", "our own disk", "the peer's disk",
                                         "the peer's processor"};
    for (unsigned i = 0; i < LIMIT_COUNT; i++) {
        struct transfer_progress progress = sample();
        memset(progress.sender.limited_us, 0, sizeof(progress.sender.limited_us));
        progress.sender.limited_us[i] = 5;
        char expected[64];
        snprintf(expected, sizeof(expected), "limited by %s for 100 %%", ours[i]);
        has(text_of(&progress, NULL), expected);
        progress.sends = false;
        snprintf(expected, sizeof(expected), "limited by %s for 100 %%", theirs[i]);
        has(text_of(&progress, NULL), expected);
    }
}

/* With a listening petrel a limit may be the server's, or the key's. */
static void test_limits_of_the_other_end(void **state)
{
    (void)state;
    struct transfer_progress progress = sample();
    memset(progress.sender.limited_us, 0, sizeof(progress.sender.limited_us));
    limits = (struct summary_limits){.guests = true};
    progress.sender.limited_us[LIMIT_CREDIT] = 5;
    has(text_of(&progress, NULL), "limited by the peer's disk or its limit for 100 %");
    progress.sends = false;
    has(text_of(&progress, NULL), "limited by our own disk for 100 %");
    progress.sender.limited_us[LIMIT_CREDIT] = 0;
    progress.sender.limited_us[LIMIT_OPTION] = 5;
    has(text_of(&progress, NULL), "limited by the other end's limit for 100 %");
    limits = (struct summary_limits){.own = true};
}

static void test_short_copies_say_nothing_of_the_path(void **state)
{
    (void)state;
    struct transfer_progress progress = sample();
    progress.ended_ns = progress.started_ns + 100 * NS_PER_MS;
    assert_null(strstr(text_of(&progress, NULL), "loss"));
}

static void test_all_there(void **state)
{
    (void)state;
    struct transfer_progress progress = {.files_skipped = 3};
    const char *text = text_of(&progress, NULL);
    has(text, "nothing to copy");
    has(text, "3 files already there");
    assert_null(strstr(text, "verified"));
}

static void test_content_there(void **state)
{
    (void)state;
    struct transfer_progress progress = sample();
    progress.kept_bytes = progress.verified_bytes;
    const char *text = text_of(&progress, NULL);
    has(text, "was there already");
    assert_null(strstr(text, "B/s)"));
}

static void test_drops(void **state)
{
    (void)state;
    struct transfer_progress progress = sample();
    assert_null(strstr(text_of(&progress, NULL), "dropped"));
    progress.session.peer_socket_drops = 2;
    progress.session.own_socket_drops = 1;
    has(text_of(&progress, NULL), "3 packets dropped by a host's own socket");
}

static void test_nothing_moved(void **state)
{
    (void)state;
    struct transfer_progress progress = {.phase = PHASE_ENDED};
    has(text_of(&progress, NULL), "0 B in 0 files");
}

static void test_dry_run(void **state)
{
    (void)state;
    struct transfer_progress progress = {.phase = PHASE_ENDED, .files_skipped = 2};
    char text[256];
    summary_dry_run(text, sizeof(text), &progress, 3, 2500000);
    assert_string_equal(text, "dry run: 2.50 MB in 3 files would be copied\n"
                              "2 files already there\n");
}

static void test_small_buffers(void **state)
{
    (void)state;
    struct transfer_progress progress = sample();
    struct summary_file file = {.known = true, .name = "x"};
    for (size_t capacity = 1; capacity < 600; capacity++) {
        char text[640];
        memset(text, 'Z', sizeof(text));
        summary_text(text, capacity, &progress, &file, &(struct summary_limits){0}, NS_PER_S);
        assert_true(strlen(text) < capacity);
        assert_int_equal(text[capacity], 'Z');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_file),
        cmocka_unit_test(test_failures_are_not_verified),
        cmocka_unit_test(test_what_limited_it),
        cmocka_unit_test(test_limits_of_the_other_end),
        cmocka_unit_test(test_short_copies_say_nothing_of_the_path),
        cmocka_unit_test(test_all_there),
        cmocka_unit_test(test_drops),
        cmocka_unit_test(test_content_there),
        cmocka_unit_test(test_nothing_moved),
        cmocka_unit_test(test_dry_run),
        cmocka_unit_test(test_small_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
