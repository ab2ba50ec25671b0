#include "unit.h"

#include "base/units.h"
#include "cli/copy/retry.h"

#define S NS_PER_S

struct
try {
    enum error_kind kind;
    bool refused, missing;
    uint64_t heard_ns, files, bytes;
};

static enum retry_verdict judge(struct retry *retry, struct try try, uint64_t now_ns,
                                uint64_t *at_ns)
{
    struct error error = {.kind = try.kind};
    struct transfer_progress progress = {.files_done = try.files, .verified_bytes = try.bytes};
    progress.session.last_heard_ns = try.heard_ns;
    struct retry_outcome outcome = {
        .error = &error, .refused = try.refused, .missing = try.missing, .progress = &progress};
    uint64_t unused;
    return retry_judge(retry, &outcome, now_ns, at_ns != NULL ? at_ns : &unused);
}

static const struct try lost = {.kind = ERROR_PEER_LOST, .heard_ns = 100 * S, .bytes = 1000};
static const struct try no_ssh = {.kind = ERROR_SSH};

static void test_a_first_failure_stands(void **state)
{
    (void)state;
    struct retry retry = {.limit_ns = 600 * S};
    assert_int_equal(judge(&retry, no_ssh, 10 * S, NULL), RETRY_NOT);
    assert_int_equal(judge(&retry, (struct try){.kind = ERROR_UNREACHABLE}, 10 * S, NULL),
                     RETRY_NOT);
}

static void test_what_does_not_pass(void **state)
{
    (void)state;
    static const enum error_kind kinds[] = {ERROR_NONE,    ERROR_INTERRUPTED, ERROR_IO,
                                            ERROR_VERSION, ERROR_PROTOCOL,    ERROR_NO_SPACE};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct retry retry = {.limit_ns = 600 * S};
        struct try try = {.kind = kinds[i], .heard_ns = 100 * S};
        assert_int_equal(judge(&retry, try, 101 * S, NULL), RETRY_NOT);
    }
    struct retry off = {.limit_ns = 0};
    assert_int_equal(judge(&off, lost, 103 * S, NULL), RETRY_NOT);
}

static void test_waits_longer_each_time(void **state)
{
    (void)state;
    struct retry retry = {.limit_ns = 600 * S};
    uint64_t at_ns, wait_ns = 0;
    assert_int_equal(judge(&retry, lost, 103 * S, &at_ns), RETRY_AGAIN);
    assert_true(at_ns > 103 * S && at_ns < 104 * S);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(judge(&retry, no_ssh, 200 * S, &at_ns), RETRY_AGAIN);
        assert_true(at_ns - 200 * S >= wait_ns);
        wait_ns = at_ns - 200 * S;
    }
    assert_true(wait_ns >= 5 * S && wait_ns <= 10 * S);
    /* Reached again and lost again: from the start. */
    assert_int_equal(judge(&retry,
                           (struct try){.kind = ERROR_PEER_LOST, .heard_ns = 300 * S, .files = 1},
                           303 * S, &at_ns),
                     RETRY_AGAIN);
    assert_true(at_ns < 304 * S);
}

static void test_the_time_counts_from_what_was_heard_last(void **state)
{
    (void)state;
    struct retry retry = {.limit_ns = 600 * S};
    judge(&retry, lost, 190 * S, NULL);
    assert_int_equal(judge(&retry, no_ssh, 690 * S, NULL), RETRY_AGAIN);
    assert_int_equal(judge(&retry, no_ssh, 700 * S, NULL), RETRY_LATE);
}

static void test_refusals(void **state)
{
    (void)state;
    struct retry retry = {.limit_ns = 600 * S};
    judge(&retry, lost, 103 * S, NULL);
    struct try try = no_ssh;
    try.refused = true;
    assert_int_equal(judge(&retry, try, 104 * S, NULL), RETRY_REFUSED);
    struct try none = {.kind = ERROR_NO_REMOTE};
    assert_int_equal(judge(&retry, none, 104 * S, NULL), RETRY_AGAIN);
    none.missing = true;
    assert_int_equal(judge(&retry, none, 104 * S, NULL), RETRY_NOT);
    assert_true(retry_is_refusal("u@h: Permission denied (publickey,password)."));
    assert_true(retry_is_refusal("Host key verification failed."));
    assert_false(retry_is_refusal("ssh: connect to host h port 22: Connection timed out"));
    assert_false(retry_is_refusal(""));
}

/* An other end that dies at the same place each time. */
static void test_no_gain(void **state)
{
    (void)state;
    struct retry retry = {.limit_ns = 600 * S};
    struct try try = lost;
    assert_int_equal(judge(&retry, try, 103 * S, NULL), RETRY_AGAIN);
    for (unsigned i = 1; i < 5; i++) {
        assert_int_equal(judge(&retry, try, 103 * S, NULL), RETRY_AGAIN);
    }
    assert_int_equal(judge(&retry, try, 103 * S, NULL), RETRY_FRUITLESS);
    /* With one byte more each time it goes on. */
    retry = (struct retry){.limit_ns = 600 * S};
    for (unsigned i = 1; i < 20; i++) {
        try.bytes++;
        assert_int_equal(judge(&retry, try, 103 * S, NULL), RETRY_AGAIN);
    }
}

static void test_sum(void **state)
{
    (void)state;
    struct transfer_progress before = {.files_done = 3, .verified_bytes = 300, .started_ns = 7};
    struct transfer_progress now = {.files_done = 2,
                                    .files_skipped = 4,
                                    .verified_bytes = 200,
                                    .total_bytes = 1000,
                                    .started_ns = 9};
    retry_add(&now, &before);
    assert_int_equal(now.files_done, 5);
    assert_int_equal(now.files_skipped, 1);
    assert_int_equal(now.verified_bytes, 500);
    assert_int_equal(now.started_ns, 7);
    /* What was sent twice counts once. */
    now = (struct transfer_progress){
        .files_done = 1, .verified_bytes = 900, .total_bytes = 1000, .totals_final = true};
    retry_add(&now, &before);
    assert_int_equal(now.verified_bytes, 1000);
    struct transfer_progress same = now, nothing = {0};
    retry_add(&now, &nothing);
    assert_memory_equal(&now, &same, sizeof(now));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_first_failure_stands),
        cmocka_unit_test(test_what_does_not_pass),
        cmocka_unit_test(test_waits_longer_each_time),
        cmocka_unit_test(test_the_time_counts_from_what_was_heard_last),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_gain),
        cmocka_unit_test(test_sum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
