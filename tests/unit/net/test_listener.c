/* The server's port: exclusive to this process, one socket a thread, lanes steered to threads. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "net/listener.h"

static struct address loopback(uint16_t port)
{
    return (struct address){.family = 4, .bytes = {127, 0, 0, 1}, .port = port};
}

static void test_port_in_use_is_passed_over(void **state)
{
    (void)state;
    struct error error = {0};
    struct udp_listener *first = driver_listen(0, 0, 1, &error);
    assert_non_null(first);
    uint16_t port = udp_listener_port(first);
    assert_int_not_equal(port, 0);

    assert_null(driver_listen(port, port, 1, &error));
    assert_int_equal(error.kind, ERROR_IO);
    char text[64];
    snprintf(text, sizeof(text), "from %u to %u", port, port);
    assert_non_null(strstr(error.text, text));

    if (port < 65000) {
        struct udp_listener *second = driver_listen(port, (uint16_t)(port + 100), 2, NULL);
        assert_non_null(second);
        assert_true(udp_listener_port(second) > port);
        udp_listener_free(second);
    }
    udp_listener_free(first);
}

static void test_a_port_shared_by_others_counts_as_in_use(void **state)
{
    (void)state;
    struct udp_socket *other = udp_open(4, &(struct address){.family = 4}, true, NULL);
    assert_non_null(other);
    uint16_t port = udp_local_port(other);
    assert_null(driver_listen(port, port, 4, NULL));
    udp_close(other);

    /* Also one that is bound to a single address. */
    struct address one = loopback(0);
    other = udp_open(4, &one, true, NULL);
    assert_non_null(other);
    port = udp_local_port(other);
    assert_null(driver_listen(port, port, 4, NULL));
    udp_close(other);
}

static unsigned take_one(struct udp_socket *socket, struct udp_batch *batch)
{
    unsigned count = 0;
    while (udp_receive(socket, batch))
        count += batch->count;
    return count;
}

static void test_lanes_are_steered_to_threads(void **state)
{
    (void)state;
    const unsigned threads = 3;
    struct udp_listener *listener = driver_listen(0, 0, threads, NULL);
    assert_non_null(listener);
    if (udp_listener_threads(listener) != threads) {
        udp_listener_free(listener);
        skip();
    }
    struct udp_batch *batch = udp_batch_new();
    struct address to = loopback(udp_listener_port(listener));
    for (unsigned source = 0; source < 4; source++) {
        struct udp_socket *client = udp_open(4, NULL, false, NULL);
        assert_non_null(client);
        for (unsigned lane = 0; lane < LANES_MAX; lane++) {
            uint8_t packet[64] = {0x10, 0x12, 0x34, 0x56, (uint8_t)(0x70 + lane)};
            assert_true(udp_send_datagram(client, &to, packet, sizeof(packet), 0));
            for (unsigned thread = 0; thread < threads; thread++)
                assert_int_equal(take_one(udp_listener_socket(listener, thread, 4), batch),
                                 thread == lane % threads);
        }
        const uint8_t handshake[64] = {0x01, 0xff, 0xff, 0xff, 0xff};
        assert_true(udp_send_datagram(client, &to, handshake, sizeof(handshake), 0));
        const uint8_t runt[1] = {0x10};
        udp_send_datagram(client, &to, runt, sizeof(runt), 0);
        assert_true(take_one(udp_listener_socket(listener, 0, 4), batch) >= 1);
        udp_close(client);
    }
    udp_batch_free(batch);
    udp_listener_free(listener);
}

static void test_both_families(void **state)
{
    (void)state;
    struct udp_listener *listener = driver_listen(0, 0, 1, NULL);
    assert_non_null(listener);
    struct udp_socket *v4 = udp_listener_socket(listener, 0, 4);
    struct udp_socket *v6 = udp_listener_socket(listener, 0, 6);
    assert_true(v4 != NULL || v6 != NULL);
    if (v4 != NULL && v6 != NULL)
        assert_int_equal(udp_local_port(v4), udp_local_port(v6));
    assert_null(udp_listener_socket(listener, 1, 4));
    udp_listener_free(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_port_in_use_is_passed_over),
        cmocka_unit_test(test_a_port_shared_by_others_counts_as_in_use),
        cmocka_unit_test(test_lanes_are_steered_to_threads),
        cmocka_unit_test(test_both_families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
