/* Light packets between the two ends over loopback. */
#include "unit.h"

#include <errno.h>

#include "base/units.h"
#include "measure/udp_probe.h"
#include "net/driver.h"

static const uint8_t token[ECHO_TOKEN_SIZE] = "sixteen bytes...";

/* A range of ports that nobody has: asked of the system by a listener. */
static struct udp_echo *open_somewhere(unsigned count, uint16_t *first)
{
    for (unsigned i = 0; i < 20; i++) {
        struct udp_listener *listener = driver_listen(0, 0, 1, NULL);
        assert_non_null(listener);
        *first = udp_listener_port(listener);
        udp_listener_free(listener);
        if (*first > 65535 - count)
            continue;
        struct udp_echo *echo = udp_echo_new(*first, (uint16_t)(*first + count - 1), token, NULL);
        if (echo != NULL && port_set_count(udp_echo_opened(echo)) == count)
            return echo;
        udp_echo_end(echo, NULL);
    }
    fail_msg("no free ports");
    return NULL;
}

static void start(struct udp_prober *prober, const uint8_t *with)
{
    *prober = (struct udp_prober){.rtt_ns = NS_PER_MS};
    memcpy(prober->token, with, ECHO_TOKEN_SIZE);
    assert_true(udp_prober_open(prober, NULL));
}

static void test_every_port_answers(void **state)
{
    (void)state;
    uint16_t first;
    struct udp_echo *echo = open_somewhere(8, &first);
    struct udp_prober prober;
    struct probe_target target = {.address = loopback(4, 0)};
    struct echo_report report;
    start(&prober, token);
    udp_probe_ports(&prober, udp_echo_opened(echo), &target, 1);
    assert_int_equal(port_set_count(&target.answered), 8);
    udp_echo_end(echo, &report);
    udp_prober_close(&prober);
    assert_int_equal(port_set_count(&report.arrived4), 8);
    assert_int_equal(port_set_count(&report.arrived6), 0);
    assert_int_equal(report.strangers, 0);
}

static void test_strangers_get_no_answer(void **state)
{
    (void)state;
    uint16_t first;
    struct udp_echo *echo = open_somewhere(2, &first);
    struct udp_prober prober;
    struct probe_target target = {.address = loopback(4, 0)};
    struct echo_report report;
    start(&prober, (const uint8_t *)"another token...");
    udp_probe_ports(&prober, udp_echo_opened(echo), &target, 1);
    assert_int_equal(port_set_count(&target.answered), 0);
    udp_echo_end(echo, &report);
    udp_prober_close(&prober);
    assert_true(report.strangers >= 2);
    assert_int_equal(port_set_count(&report.arrived4), 0);
}

static void test_a_closed_port_is_told_by_icmp(void **state)
{
    (void)state;
    uint16_t first;
    struct udp_echo *echo = open_somewhere(1, &first);
    struct port_set ports = *udp_echo_opened(echo);
    udp_echo_end(echo, NULL);
    struct udp_prober prober;
    struct probe_target target = {.address = loopback(4, 0)};
    start(&prober, token);
    udp_probe_ports(&prober, &ports, &target, 1);
    assert_int_equal(port_set_count(&target.answered), 0);
    assert_int_equal(target.refusal.icmp_errno, ECONNREFUSED);
    assert_int_equal(target.refusal.icmp_port, first);
    assert_true(address_same_host(&target.refusal.icmp_from, &target.address));
    udp_prober_close(&prober);
}

static void test_loss_and_sizes(void **state)
{
    (void)state;
    uint16_t first;
    struct udp_echo *echo = open_somewhere(1, &first);
    struct udp_prober prober;
    struct probe_loss loss;
    struct probe_size size;
    struct echo_report report;
    struct address to = loopback(4, first);
    start(&prober, token);
    udp_probe_loss(&prober, &to, 50, &loss);
    assert_int_equal(loss.sent, 50);
    assert_true(loss.answered >= 45);
    assert_true(loss.rtt_min_ns > 0 && loss.rtt_min_ns <= loss.rtt_mean_ns);
    udp_probe_size(&prober, &to, 1500, false, &size);
    assert_int_equal(size.answered, 1);
    udp_probe_size(&prober, &to, 1500, true, &size);
    assert_int_equal(size.answered, 1);
    udp_echo_end(echo, &report);
    udp_prober_close(&prober);
    assert_in_range(report.loss_arrived, loss.answered, 50);
    assert_true(report.size_arrived >= 1);
    assert_true(report.both_arrived >= 1);
}

/* Port, 0 for the other family, as the prober asked; and the end that knocks. */
struct knocking {
    struct udp_echo *echo;
    unsigned times;
    uint16_t port4, port6;
};

static bool knock(void *context, uint16_t port4, uint16_t port6)
{
    struct knocking *knocking = context;
    struct address to = loopback(4, port4);
    knocking->times++;
    knocking->port4 = port4;
    knocking->port6 = port6;
    udp_echo_knock(knocking->echo, &to);
    return true;
}

static void test_the_other_end_is_asked_to_knock(void **state)
{
    (void)state;
    uint16_t first;
    struct knocking knocking = {.echo = open_somewhere(2, &first)};
    struct port_set ports = *udp_echo_opened(knocking.echo);
    struct udp_prober prober;
    struct probe_target target = {.address = loopback(4, 0)};
    struct echo_report report;
    start(&prober, token);
    prober.knock = knock;
    prober.knock_context = &knocking;
    udp_probe_ports(&prober, &ports, &target, 1);
    assert_int_equal(knocking.times, 0);
    assert_int_equal(target.answered_at_once, 2);

    port_set_add(&ports, 1); /* nobody's */
    memset(&target.answered, 0, sizeof(target.answered));
    udp_probe_ports(&prober, &ports, &target, 1);
    assert_int_equal(knocking.times, 1);
    assert_true(knocking.port4 != 0);
    assert_int_equal(knocking.port6, 0);
    assert_int_equal(target.answered_at_once, 2);
    assert_int_equal(target.knocks, 2);
    udp_echo_end(knocking.echo, &report);
    udp_prober_close(&prober);
    assert_int_equal(report.refused, 0);
    assert_int_equal(report.refused_errno, 0);
}

static void test_a_busy_port_is_told(void **state)
{
    (void)state;
    struct udp_listener *listener = driver_listen(0, 0, 1, NULL);
    assert_non_null(listener);
    uint16_t port = udp_listener_port(listener);
    struct error error = {0};
    assert_null(udp_echo_new(port, port, token, &error));
    assert_int_equal(error.kind, ERROR_IO);
    assert_non_null(strstr(error.text, "in use"));
    udp_listener_free(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_port_answers),
        cmocka_unit_test(test_strangers_get_no_answer),
        cmocka_unit_test(test_a_closed_port_is_told_by_icmp),
        cmocka_unit_test(test_loss_and_sizes),
        cmocka_unit_test(test_the_other_end_is_asked_to_knock),
        cmocka_unit_test(test_a_busy_port_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
