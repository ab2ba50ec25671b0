#include "unit.h"

#include "base/units.h"
#include "serve/job_log.h"

static void test_job(void **state)
{
    (void)state;
    char line[JOB_LINE_MAX], print[FINGERPRINT_SIZE], wanted[JOB_LINE_MAX];
    struct board_client client = {.job = 17, .peer = "[2001:db8::1]:40000"};
    const struct board_guest guest = {.who = "anna@laptop"};
    struct board_report report = {
        .direction = BOARD_TO_SERVER, .path = "in", .files_done = 12, .bytes_done = 1000000};
    struct error error = {0};
    fingerprint_format(print, guest.key);
    snprintf(wanted, sizeof(wanted),
             "job=17 result=ok direction=to-server path=in who=anna@laptop key=%s "
             "peer=[2001:db8::1]:40000 files=12 failed=0 bytes=1000000 seconds=0.50 rate=16000000",
             print);
    assert_string_equal(job_line(line, &client, &guest, &report, 500 * NS_PER_MS, &error), wanted);
    report.files_failed = 1;
    assert_non_null(
        strstr(job_line(line, &client, &guest, &report, 1, &error), " result=partial "));
    error_set(&error, ERROR_NO_SPACE, "no \"room\"\n");
    assert_non_null(
        strstr(job_line(line, &client, &guest, &report, 0, &error), " result=no-space "));
    assert_non_null(strstr(line, " seconds=0.00 rate=0 error=\"no \\\"room\\\"\\x0a\""));
}

/* Comments and names come from files and peers: one line stays one line, and no value becomes two.
 */
static void test_what_does_not_fit(void **state)
{
    (void)state;
    char line[JOB_LINE_MAX];
    struct board_client client = {.job = 1};
    struct board_guest guest = {.who = "a b\" result=ok \x1b[2J\n"};
    struct board_report report = {.path = ""};
    struct error error = {.kind = ERROR_IO};
    memset(error.text, '\n', sizeof(error.text) - 1);
    job_line(line, &client, &guest, &report, 0, &error);
    assert_non_null(strstr(line, " path=\"\" who=\"a b\\\" result=ok \\x1b[2J\\x0a\" "));
    assert_null(strchr(line, '\n'));
    assert_true(strlen(line) < JOB_LINE_MAX);
    memset(guest.who, 1, sizeof(guest.who) - 1);
    memset(client.peer, 1, sizeof(client.peer) - 1);
    memset(report.path, 1, sizeof(report.path) - 1);
    job_line(line, &client, &guest, &report, 0, &error);
    assert_true(strlen(line) < JOB_LINE_MAX);
}

static void test_refusals(void **state)
{
    (void)state;
    char line[JOB_LINE_MAX], wanted[JOB_LINE_MAX], print[FINGERPRINT_SIZE];
    const uint8_t key[KEY_SIZE] = {5};
    assert_string_equal(refusal_line(line, "192.0.2.1:9", NULL, "expired"),
                        "refused peer=192.0.2.1:9 why=expired");
    snprintf(wanted, sizeof(wanted), "refused peer=x key=%s why=\"no such root\"",
             fingerprint_format(print, key));
    assert_string_equal(refusal_line(line, "x", key, "no such root"), wanted);
}

static void test_gate(void **state)
{
    (void)state;
    struct log_gate gate = {0};
    uint64_t left_out = 99;
    for (unsigned i = 0; i < 10; i++) {
        assert_true(log_gate_admits(&gate, 5 * NS_PER_S + i, &left_out));
        assert_int_equal(left_out, 0);
    }
    for (unsigned i = 0; i < 1000; i++)
        assert_false(log_gate_admits(&gate, 5 * NS_PER_S + 10 + i, &left_out));
    assert_true(log_gate_admits(&gate, 6 * NS_PER_S, &left_out));
    assert_int_equal(left_out, 1000);
    assert_true(log_gate_admits(&gate, 6 * NS_PER_S, &left_out));
    assert_int_equal(left_out, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job),
        cmocka_unit_test(test_what_does_not_fit),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_gate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
