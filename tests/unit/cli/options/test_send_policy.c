#include "unit.h"

#include "cli/options/send_policy.h"

static void takes(const char *text, enum rate_policy kind, uint64_t fixed_bps)
{
    struct send_policy policy = {.kind = RATE_FAIR, .fixed_bps = 7}, back = {.fixed_bps = 9};
    struct error error = {0};
    assert_true(send_policy_parse(text, &policy, &error));
    assert_int_equal(policy.kind, kind);
    assert_true(policy.fixed_bps == fixed_bps);
    char word[SEND_POLICY_WORD_MAX];
    send_policy_write(&policy, word);
    assert_true(send_policy_read(word, &back));
    assert_int_equal(back.kind, kind);
    assert_true(back.fixed_bps == fixed_bps);
}

static void test_good(void **state)
{
    (void)state;
    takes("auto", RATE_AUTO, 0);
    takes("fair", RATE_FAIR, 0);
    takes("background", RATE_BACKGROUND, 0);
    takes("fixed:200Mbit", RATE_AUTO, 200000000);
    takes("fixed:25MB", RATE_AUTO, 200000000);
    takes("fixed:64kbit", RATE_AUTO, 64000);
    takes("fixed:18000000000gbit", RATE_AUTO, UINT64_C(18000000000) * 1000000000);
}

/* Refused with a usage error that shows how to write it. */
static void test_bad(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "Auto",
                                      "polite",
                                      "fixed",
                                      "fixed:",
                                      "fixed:fast",
                                      "fixed:200M",
                                      "fixed:200",
                                      "fixed:0",
                                      "fixed:-1Mbit",
                                      "fixed:63kbit",
                                      "fixed=200Mbit",
                                      "fixed:18446744073709551616bit"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct send_policy policy = {.kind = RATE_FAIR, .fixed_bps = 7};
        struct error error = {0};
        assert_false(send_policy_parse(bad[i], &policy, &error));
        assert_int_equal(error.kind, ERROR_USAGE);
        assert_non_null(strstr(error.text, "fixed:200Mbit"));
        assert_int_equal(policy.kind, RATE_FAIR);
        assert_true(policy.fixed_bps == 7);
    }
}

/* What a later version may say is skipped. */
static void test_unknown_words(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "greedy",
                                      "fixed:",
                                      "fixed:x",
                                      "fixed:1 ",
                                      "fixed:9",
                                      "fixed:63999",
                                      "fixed:200Mbit",
                                      "fixed:18446744073709551616"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct send_policy policy = {.kind = RATE_FAIR, .fixed_bps = 7};
        assert_false(send_policy_read(bad[i], &policy));
        assert_int_equal(policy.kind, RATE_FAIR);
        assert_true(policy.fixed_bps == 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_bad),
                                       cmocka_unit_test(test_unknown_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
