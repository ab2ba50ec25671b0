/* Plain TCP streams over loopback. */
#include "unit.h"

#include <time.h>

#include "measure/tcp_flow.h"

static const uint8_t token[TCP_TOKEN_SIZE] = "sixteen bytes...";

static struct tcp_flow_config config(bool listens, bool sends, unsigned streams)
{
    struct tcp_flow_config config = {.listens = listens,
                                     .sends = sends,
                                     .first_port = 20000,
                                     .last_port = 60000,
                                     .streams = streams,
                                     .time_ns = 200 * NS_PER_MS};
    memcpy(config.token, token, sizeof(token));
    return config;
}

static void run(bool listener_sends, unsigned streams, uint8_t family)
{
    struct error error = {0};
    struct tcp_flow_config far = config(true, listener_sends, streams);
    struct tcp_flow_config near = config(false, !listener_sends, streams);
    struct tcp_flow *server = tcp_flow_start(&far, &error);
    assert_non_null(server);
    near.to = loopback(family, tcp_flow_port(server));
    struct tcp_flow *client = tcp_flow_start(&near, &error);
    assert_non_null(client);
    struct tcp_flow_report sent, received;
    tcp_flow_end(client, false, listener_sends ? &received : &sent);
    tcp_flow_end(server, false, listener_sends ? &sent : &received);
    assert_int_equal(sent.error.kind, ERROR_NONE);
    assert_int_equal(received.error.kind, ERROR_NONE);
    assert_true(received.bytes > 0 && received.bytes <= sent.bytes);
    assert_true(received.seconds > 0);
}

static void test_both_directions(void **state)
{
    (void)state;
    run(false, 1, 4);
    run(true, 8, 4);
}

/* Beside a session: whoever sends is stopped, and neither end calls that a failure. */
static void test_until_its_end(void **state)
{
    (void)state;
    struct error error = {0};
    struct tcp_flow_config far = config(true, false, 1), near = config(false, true, 1);
    far.until_ended = near.until_ended = true;
    far.time_ns = near.time_ns = 60 * NS_PER_S;
    struct tcp_flow *server = tcp_flow_start(&far, &error);
    assert_non_null(server);
    near.to = loopback(4, tcp_flow_port(server));
    struct tcp_flow *client = tcp_flow_start(&near, &error);
    assert_non_null(client);
    const struct timespec nap = {.tv_nsec = 300 * 1000 * 1000};
    nanosleep(&nap, NULL);
    struct tcp_flow_report sent, received;
    tcp_flow_end(client, true, &sent);
    tcp_flow_end(server, false, &received);
    assert_int_equal(sent.error.kind, ERROR_NONE);
    assert_int_equal(received.error.kind, ERROR_NONE);
    assert_true(received.seconds < 30);
}

static void test_what_the_system_has_not(void **state)
{
    (void)state;
    struct error error = {0};
    struct tcp_flow_config far = config(true, true, 1);
    snprintf(far.congestion, sizeof(far.congestion), "nosuchthing");
    assert_null(tcp_flow_start(&far, &error));
    assert_int_equal(error.kind, ERROR_NOT_FOUND);
    assert_non_null(strstr(error.text, "nosuchthing"));
}

static void test_a_stranger_and_a_stop(void **state)
{
    (void)state;
    struct error error = {0};
    struct tcp_flow_config far = config(true, false, 1), near = config(false, true, 1);
    struct tcp_flow *server = tcp_flow_start(&far, &error);
    assert_non_null(server);
    near.to = loopback(4, tcp_flow_port(server));
    near.token[0] ^= 1;
    struct tcp_flow *client = tcp_flow_start(&near, &error);
    assert_non_null(client);
    struct tcp_flow_report report;
    tcp_flow_end(client, false, &report); /* shown the door: its stream breaks */
    tcp_flow_end(server, true, &report);
    assert_int_equal(report.error.kind, ERROR_UNREACHABLE);
    assert_int_equal(report.bytes, 0);
}

static void test_limits(void **state)
{
    (void)state;
    struct error error = {0};
    struct tcp_flow_config none = config(true, true, 0), many = config(true, true, 17);
    assert_null(tcp_flow_start(&none, &error));
    error_clear(&error);
    assert_null(tcp_flow_start(&many, &error));
    assert_int_equal(error.kind, ERROR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_directions),
        cmocka_unit_test(test_until_its_end),
        cmocka_unit_test(test_what_the_system_has_not),
        cmocka_unit_test(test_a_stranger_and_a_stop),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
