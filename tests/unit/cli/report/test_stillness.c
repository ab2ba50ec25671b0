#include "unit.h"

#include "base/units.h"
#include "cli/report/stillness.h"

#define STEP_NS (100 * NS_PER_MS)
#define LONG_NS (15 * NS_PER_S) /* after which a word is due */

/* Looks every tenth of a second up to `until_ns`, the other end being heard up to `heard_ns`; at
 * most one thing is told meanwhile. */
static struct stillness_news look_until(struct stillness *stillness,
                                        struct transfer_progress *progress, uint64_t *now_ns,
                                        uint64_t until_ns, uint64_t heard_ns)
{
    struct stillness_news told = {0};
    for (; *now_ns < until_ns; *now_ns += STEP_NS) {
        progress->session.last_heard_ns = *now_ns < heard_ns ? *now_ns : heard_ns;
        struct stillness_news news = stillness_look(stillness, progress, *now_ns);
        assert_true(news.kind == STILLNESS_NONE || told.kind == STILLNESS_NONE);
        if (news.kind != STILLNESS_NONE)
            told = news;
    }
    return told;
}

static struct transfer_progress moving(void)
{
    return (struct transfer_progress){.phase = PHASE_MOVING, .disk_rests = true};
}

static void test_silence_is_told_once_and_its_end(void **state)
{
    (void)state;
    struct stillness stillness = {0};
    struct transfer_progress progress = moving();
    uint64_t now_ns = NS_PER_S, heard_ns = 2 * NS_PER_S;
    struct stillness_news news =
        look_until(&stillness, &progress, &now_ns, heard_ns + LONG_NS, heard_ns);
    assert_int_equal(news.kind, STILLNESS_NONE);
    news = look_until(&stillness, &progress, &now_ns, heard_ns + 3 * LONG_NS, heard_ns);
    assert_int_equal(news.kind, STILLNESS_SILENT);
    assert_false(news.over);
    assert_true(news.for_ns >= LONG_NS && news.for_ns <= LONG_NS + STEP_NS);
    progress.verified_bytes++;
    news = look_until(&stillness, &progress, &now_ns, now_ns + NS_PER_S, UINT64_MAX);
    assert_int_equal(news.kind, STILLNESS_SILENT);
    assert_true(news.over);
    assert_true(news.for_ns >= 3 * LONG_NS - STEP_NS);
}

/* From the beginning of a session on, too: it counts as heard when it was made. */
static void test_a_session_that_never_hears(void **state)
{
    (void)state;
    struct stillness stillness = {0};
    struct transfer_progress progress = moving();
    uint64_t now_ns = NS_PER_S;
    struct stillness_news news = look_until(&stillness, &progress, &now_ns, 3 * LONG_NS, NS_PER_S);
    assert_int_equal(news.kind, STILLNESS_SILENT);
}

/* What a sender hears is no answer while nothing of its own is acknowledged. */
static void test_a_path_that_is_dead_one_way(void **state)
{
    (void)state;
    struct stillness stillness = {0};
    struct transfer_progress progress = moving();
    progress.session.payload_sent = progress.session.in_flight_bytes = 5000;
    uint64_t now_ns = NS_PER_S;
    struct stillness_news news =
        look_until(&stillness, &progress, &now_ns, 3 * LONG_NS, UINT64_MAX);
    assert_int_equal(news.kind, STILLNESS_SILENT);
}

static void test_an_end_that_lives_and_does_nothing(void **state)
{
    (void)state;
    struct stillness stillness = {0};
    struct transfer_progress progress = moving();
    uint64_t now_ns = NS_PER_S;
    struct stillness_news news =
        look_until(&stillness, &progress, &now_ns, 3 * LONG_NS, UINT64_MAX);
    assert_int_equal(news.kind, STILLNESS_IDLE);
    assert_false(news.over);
    assert_true(stillness_idle_ns(&stillness, &progress, now_ns) >= 2 * LONG_NS);
    progress.session.payload_received += 1400;
    news = look_until(&stillness, &progress, &now_ns, now_ns + NS_PER_S, UINT64_MAX);
    assert_int_equal(news.kind, STILLNESS_IDLE);
    assert_true(news.over);
    assert_true(news.for_ns >= 3 * LONG_NS - NS_PER_S - STEP_NS);
    assert_int_equal(stillness_idle_ns(&stillness, &progress, now_ns), 0);
}

static void test_our_own_disk_is_not_the_other_end(void **state)
{
    (void)state;
    struct stillness stillness = {0};
    struct transfer_progress progress = moving();
    uint64_t now_ns = NS_PER_S;
    progress.disk_rests = false;
    struct stillness_news news =
        look_until(&stillness, &progress, &now_ns, 3 * LONG_NS, UINT64_MAX);
    assert_int_equal(news.kind, STILLNESS_NONE);
}

/* Each thing that moves is enough. */
static void test_a_slow_copy_is_none(void **state)
{
    (void)state;
    uint64_t *moved[8];
    struct transfer_progress progress = moving();
    moved[0] = &progress.total_bytes;
    moved[1] = &progress.total_files;
    moved[2] = &progress.verified_bytes;
    moved[3] = &progress.files_skipped;
    moved[4] = &progress.files_failed;
    moved[5] = &progress.deleted;
    moved[6] = &progress.session.payload_acked;
    moved[7] = &progress.session.payload_received;
    for (unsigned i = 0; i < 8; i++) {
        struct stillness stillness = {0};
        uint64_t now_ns = NS_PER_S;
        for (unsigned round = 0; round < 5; round++) {
            struct stillness_news news = look_until(&stillness, &progress, &now_ns,
                                                    now_ns + LONG_NS - 2 * STEP_NS, UINT64_MAX);
            assert_int_equal(news.kind, STILLNESS_NONE);
            *moved[i] += 1;
        }
    }
}

static void test_what_others_have_told(void **state)
{
    (void)state;
    for (unsigned tells_end = 0; tells_end < 2; tells_end++) {
        struct stillness stillness = {0};
        struct transfer_progress progress = moving();
        uint64_t now_ns = NS_PER_S;
        stillness_is_told(&stillness, NS_PER_S / 2, tells_end);
        struct stillness_news news =
            look_until(&stillness, &progress, &now_ns, 3 * LONG_NS, NS_PER_S / 2);
        assert_int_equal(news.kind, STILLNESS_NONE);
        news = look_until(&stillness, &progress, &now_ns, now_ns + NS_PER_S, UINT64_MAX);
        assert_int_equal(news.kind, tells_end ? STILLNESS_NONE : STILLNESS_SILENT);
        assert_int_equal(stillness.told, STILLNESS_NONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silence_is_told_once_and_its_end),
        cmocka_unit_test(test_a_session_that_never_hears),
        cmocka_unit_test(test_a_path_that_is_dead_one_way),
        cmocka_unit_test(test_an_end_that_lives_and_does_nothing),
        cmocka_unit_test(test_our_own_disk_is_not_the_other_end),
        cmocka_unit_test(test_a_slow_copy_is_none),
        cmocka_unit_test(test_what_others_have_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
