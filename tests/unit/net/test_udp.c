/* Trains over loopback: cut and put together again, with and without the system's help. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/units.h"
#include "net/sockaddr.h"
#include "net/udp.h"

struct pair {
    struct udp_socket *near, *far;
    struct address near_address, far_address;
    struct udp_batch *batch;
};

static struct address loopback(uint8_t family, uint16_t port)
{
    struct address address = {.family = family, .port = port};
    if (family == 4)
        memcpy(address.bytes, (uint8_t[]){127, 0, 0, 1}, 4);
    else
        address.bytes[15] = 1;
    return address;
}

static struct pair pair_open(uint8_t family)
{
    struct pair pair = {0};
    struct address any = loopback(family, 0);
    pair.near = udp_open(family, &any, false, NULL);
    pair.far = udp_open(family, &any, false, NULL);
    pair.batch = udp_batch_new();
    assert_non_null(pair.near);
    assert_non_null(pair.far);
    assert_non_null(pair.batch);
    pair.near_address = loopback(family, udp_local_port(pair.near));
    pair.far_address = loopback(family, udp_local_port(pair.far));
    return pair;
}

static void pair_close(struct pair *pair)
{
    udp_close(pair->near);
    udp_close(pair->far);
    udp_batch_free(pair->batch);
}

static struct lane_train *make_train(const struct address *to, size_t size, uint32_t segment,
                                     uint8_t salt)
{
    struct lane_train *train = calloc(1, sizeof(*train));
    assert_non_null(train);
    train->to = *to;
    train->size = size;
    train->segment = segment;
    for (size_t i = 0; i < size; i++)
        train->bytes[i] = (uint8_t)(i * 31 + i / 251 + salt);
    return train;
}

static bool wait_readable(const struct udp_socket *socket, int timeout_ms)
{
    struct pollfd item = {.fd = udp_descriptor(socket), .events = POLLIN};
    return poll(&item, 1, timeout_ms) == 1;
}

/* Receives datagrams until `size` bytes have come; checks that each is `segment` long or ends a
 * train of `train_size`. Returns how many messages carried them. */
static unsigned expect_bytes(struct udp_socket *socket, struct udp_batch *batch,
                             const uint8_t *expected, size_t size, size_t segment)
{
    size_t at = 0;
    unsigned messages = 0;
    while (at < size) {
        assert_true(wait_readable(socket, 2000));
        while (udp_receive(socket, batch)) {
            for (unsigned i = 0; i < batch->count; i++, messages++) {
                const struct udp_message *message = &batch->messages[i];
                for (size_t done = 0; done < message->size; done += message->segment) {
                    size_t left = message->size - done;
                    size_t length = left < message->segment ? left : message->segment;
                    size_t wanted = size - at < segment ? size - at : segment;
                    assert_int_equal(length, wanted);
                    assert_memory_equal(message->bytes + done, expected + at, length);
                    at += length;
                }
            }
        }
    }
    assert_int_equal(at, size);
    return messages;
}

static void train_arrives(uint8_t family, bool connected)
{
    struct pair pair = pair_open(family);
    if (connected)
        assert_true(udp_connect(pair.near, &pair.far_address, NULL));
    struct lane_train *train = make_train(&pair.far_address, 43 * 1400 + 700, 1400, 1);
    assert_int_equal(udp_send(pair.near, &train, 1, 0), 1);
    unsigned messages = expect_bytes(pair.far, pair.batch, train->bytes, train->size, 1400);
    struct udp_statistics sent, received;
    udp_get_statistics(pair.near, &sent);
    udp_get_statistics(pair.far, &received);
    assert_int_equal(sent.datagrams_sent, 44);
    assert_int_equal(received.datagrams_received, 44);
    if (sent.segmentation && received.coalescing)
        assert_int_equal(messages, 1);
    assert_true(address_equal(&pair.batch->messages[0].from, &pair.near_address));
    free(train);
    pair_close(&pair);
}

static void test_train_ipv4(void **state)
{
    (void)state;
    train_arrives(4, false);
    train_arrives(4, true);
}

static void test_train_ipv6(void **state)
{
    (void)state;
    struct udp_socket *probe =
        udp_open(6, &(struct address){.family = 6, .bytes[15] = 1}, false, NULL);
    if (probe == NULL)
        skip();
    udp_close(probe);
    train_arrives(6, false);
    train_arrives(6, true);
}

static void test_several_trains_in_order(void **state)
{
    (void)state;
    struct pair pair = pair_open(4);
    struct lane_train *trains[3] = {
        make_train(&pair.far_address, 20 * 1200, 1200, 1),
        make_train(&pair.far_address, 1200, 1200, 2), /* alone: no cutting */
        make_train(&pair.far_address, 64 * 1000, 1000, 3),
    };
    assert_int_equal(udp_send(pair.near, trains, 3, 0), 3);
    size_t at = 0, count = 0;
    const uint32_t segments[3] = {1200, 1200, 1000};
    while (count < 3) {
        assert_true(wait_readable(pair.far, 2000));
        while (udp_receive(pair.far, pair.batch)) {
            for (unsigned i = 0; i < pair.batch->count; i++) {
                struct udp_message *message = &pair.batch->messages[i];
                assert_true(message->segment == segments[count]);
                assert_memory_equal(message->bytes, trains[count]->bytes + at, message->size);
                at += message->size;
                if (at == trains[count]->size) {
                    at = 0;
                    count++;
                }
            }
        }
    }
    for (unsigned i = 0; i < 3; i++)
        free(trains[i]);
    pair_close(&pair);
}

static void test_lone_datagrams_of_any_size(void **state)
{
    (void)state;
    struct pair pair = pair_open(4);
    const size_t sizes[] = {1, 26, 1200, 1, 8973, 40000, 27};
    uint8_t bytes[40000];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(bytes, (int)i + 1, sizeof(bytes));
        assert_true(udp_send_datagram(pair.near, &pair.far_address, bytes, sizes[i], 0));
    }
    size_t count = 0;
    while (count < sizeof(sizes) / sizeof(sizes[0])) {
        assert_true(wait_readable(pair.far, 2000));
        while (udp_receive(pair.far, pair.batch)) {
            for (unsigned i = 0; i < pair.batch->count; i++, count++) {
                struct udp_message *message = &pair.batch->messages[i];
                assert_int_equal(message->size, sizes[count]);
                assert_int_equal(message->segment, sizes[count]);
                assert_int_equal(message->bytes[0], count + 1);
            }
        }
    }
    pair_close(&pair);
}

static void falls_back(int os_errno)
{
    udp_test_break_segmentation(os_errno, 2);
    struct pair pair = pair_open(4);
    udp_test_break_segmentation(0, 0);
    struct udp_statistics statistics;
    udp_get_statistics(pair.near, &statistics);
    if (!statistics.segmentation)
        skip();
    struct lane_train *train = make_train(&pair.far_address, 64 * 1000 + 1, 1000, 9);
    for (unsigned round = 0; round < 4; round++) {
        assert_int_equal(udp_send(pair.near, &train, 1, 0), 1);
        expect_bytes(pair.far, pair.batch, train->bytes, train->size, 1000);
        udp_get_statistics(pair.near, &statistics);
        assert_int_equal(statistics.segmentation, round == 0);
        assert_int_equal(statistics.datagrams_sent, 65 * (round + 1));
    }
    assert_int_equal(statistics.refused, 0);
    free(train);
    pair_close(&pair);
}

static void test_segmentation_that_fails_goes_plain(void **state)
{
    (void)state;
    falls_back(EIO);
    falls_back(EINVAL);
    falls_back(EMSGSIZE);
    falls_back(EOPNOTSUPP);
}

static void test_trains_that_are_swallowed(void **state)
{
    (void)state;
    udp_test_swallow_trains(2);
    struct pair pair = pair_open(4);
    udp_test_swallow_trains(0);
    struct udp_statistics statistics;
    udp_get_statistics(pair.near, &statistics);
    if (!statistics.segmentation)
        skip();
    struct lane_train *train = make_train(&pair.far_address, 2400, 1200, 9);
    assert_int_equal(udp_send(pair.near, &train, 1, 0), 1);
    expect_bytes(pair.far, pair.batch, train->bytes, train->size, 1200);
    assert_int_equal(udp_send(pair.near, &train, 1, 0), 1); /* seems to be sent */
    assert_false(wait_readable(pair.far, 50));
    struct lane_train *mixed[2] = {train, make_train(&pair.far_address, 2400, 1200, 5)};
    mixed[1]->trial = TRAIN_TRIED_CUT;
    assert_int_equal(udp_send(pair.near, mixed, 2, 0), 2);
    expect_bytes(pair.far, pair.batch, mixed[1]->bytes, mixed[1]->size, 1200);
    free(mixed[1]);
    udp_set_plain(pair.near, true);
    assert_int_equal(udp_send(pair.near, &train, 1, 0), 1);
    expect_bytes(pair.far, pair.batch, train->bytes, train->size, 1200);
    free(train);
    pair_close(&pair);
}

static void test_joined_datagrams_that_come_uncut(void **state)
{
    (void)state;
    udp_test_lose_coalescing(2);
    struct pair pair = pair_open(4);
    udp_test_lose_coalescing(0);
    struct udp_statistics statistics;
    udp_get_statistics(pair.far, &statistics);
    struct udp_statistics sender;
    udp_get_statistics(pair.near, &sender);
    if (!statistics.coalescing || !sender.segmentation)
        skip();
    struct lane_train *train = make_train(&pair.far_address, 2400, 1200, 9);
    assert_int_equal(udp_send(pair.near, &train, 1, 0), 1);
    expect_bytes(pair.far, pair.batch, train->bytes, train->size, 1200);
    assert_int_equal(udp_send(pair.near, &train, 1, 0), 1);
    assert_true(wait_readable(pair.far, 2000));
    assert_true(udp_receive(pair.far, pair.batch));
    assert_int_equal(pair.batch->messages[0].segment, 2400);
    udp_stop_coalescing(pair.far);
    assert_int_equal(udp_send(pair.near, &train, 1, 0), 1);
    expect_bytes(pair.far, pair.batch, train->bytes, train->size, 1200);
    udp_get_statistics(pair.far, &statistics);
    assert_false(statistics.coalescing);
    free(train);
    pair_close(&pair);
}

static void test_no_room_keeps_the_train(void **state)
{
    (void)state;
    const int causes[] = {EAGAIN, ENOBUFS};
    for (unsigned i = 0; i < 2; i++) {
        udp_test_break_segmentation(causes[i], 1);
        struct pair pair = pair_open(4);
        udp_test_break_segmentation(0, 0);
        struct lane_train *train = make_train(&pair.far_address, 2400, 1200, 9);
        assert_int_equal(udp_send(pair.near, &train, 1, 1000), 0);
        uint64_t retry_ns = udp_retry_ns(pair.near);
        if (causes[i] == EAGAIN)
            assert_true(retry_ns == TIME_NEVER);
        else
            assert_true(retry_ns > 1000 && retry_ns < NS_PER_S);
        free(train);
        pair_close(&pair);
    }
}

static void test_refusals_are_counted(void **state)
{
    (void)state;
    struct pair pair = pair_open(4);
    assert_true(udp_connect(pair.near, &pair.far_address, NULL));
    udp_close(pair.far);
    pair.far = NULL;
    struct lane_train *train = make_train(&pair.far_address, 2400, 1200, 9);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(udp_send(pair.near, &train, 1, 0), 1);
    assert_false(udp_receive(pair.near, pair.batch));
    struct udp_statistics statistics;
    udp_get_statistics(pair.near, &statistics);
    assert_int_equal(statistics.last_refusal, ECONNREFUSED);
    assert_true(statistics.segmentation || statistics.datagrams_sent > 0);
    free(train);
    pair_close(&pair);
}

static void test_socket_drops_are_told(void **state)
{
    (void)state;
    udp_test_buffer_bytes(4096);
    struct pair pair = pair_open(4);
    udp_test_buffer_bytes(0);
    uint8_t bytes[1200] = {1};
    for (unsigned i = 0; i < 100; i++)
        assert_true(udp_send_datagram(pair.near, &pair.far_address, bytes, sizeof(bytes), 0));
    while (udp_receive(pair.far, pair.batch))
        ;
    /* The count comes with the first datagram after the drop. */
    assert_true(udp_send_datagram(pair.near, &pair.far_address, bytes, sizeof(bytes), 0));
    assert_true(wait_readable(pair.far, 2000));
    assert_true(udp_receive(pair.far, pair.batch));
    struct udp_statistics statistics;
    udp_get_statistics(pair.far, &statistics);
    assert_true(statistics.drops > 0);
    assert_int_equal(statistics.drops + statistics.datagrams_received, 101);
    assert_true(statistics.receive_buffer < UDP_BUFFER_SMALL);
    pair_close(&pair);
}

/* 16 MiB, which were asked for before, dropped 1 to 10 % of what came from memory to memory
 * whenever the two processors had other work. */
static void test_a_receiver_may_be_late_by_64_mib(void **state)
{
    (void)state;
    struct pair pair = pair_open(4);
    int wanted = 64 << 20; /* root in a container may not */
    if (setsockopt(udp_descriptor(pair.far), SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof(wanted)) !=
        0) {
        pair_close(&pair);
        skip();
    }
    struct udp_statistics statistics;
    udp_get_statistics(pair.far, &statistics);
    assert_int_equal(statistics.receive_buffer, 64u << 20);
    assert_int_equal(statistics.send_buffer, 16u << 20);
    pair_close(&pair);
}

/* A seat's socket serves one client after the other. */
static void test_drops_of_an_earlier_user_are_forgotten(void **state)
{
    (void)state;
    udp_test_buffer_bytes(4096);
    struct pair pair = pair_open(4);
    udp_test_buffer_bytes(0);
    uint8_t bytes[1200] = {1};
    for (unsigned i = 0; i < 100; i++)
        assert_true(udp_send_datagram(pair.near, &pair.far_address, bytes, sizeof(bytes), 0));
    while (udp_receive(pair.far, pair.batch))
        ;
    udp_forget_drops(pair.far);
    assert_true(udp_send_datagram(pair.near, &pair.far_address, bytes, sizeof(bytes), 0));
    assert_true(wait_readable(pair.far, 2000));
    assert_true(udp_receive(pair.far, pair.batch));
    struct udp_statistics statistics;
    udp_get_statistics(pair.far, &statistics);
    assert_int_equal(statistics.drops, 0);
    pair_close(&pair);
}

static void test_answers_leave_from_the_address_that_was_asked(void **state)
{
    (void)state;
    struct udp_socket *server = udp_open(4, NULL, false, NULL);
    struct udp_socket *client = udp_open(4, NULL, false, NULL);
    struct udp_batch *batch = udp_batch_new();
    assert_non_null(server);
    assert_non_null(client);
    struct address asked = loopback(4, udp_local_port(server));
    asked.bytes[3] = 77;
    assert_true(udp_connect(client, &asked, NULL)); /* hears 127.0.0.77 alone */
    struct lane_train *train = make_train(&asked, 3000, 1500, 4);
    assert_int_equal(udp_send(client, &train, 1, 0), 1);
    assert_true(wait_readable(server, 2000));
    assert_true(udp_receive(server, batch));
    struct udp_message message = batch->messages[0];
    assert_memory_equal(message.local.bytes, asked.bytes, 4);

    udp_answer_from(server, &message.from, &message.local);
    train->to = message.from;
    assert_int_equal(udp_send(server, &train, 1, 0), 1);
    expect_bytes(client, batch, train->bytes, train->size, 1500);
    free(train);
    udp_close(server);
    udp_close(client);
    udp_batch_free(batch);
}

static void test_reopening_gives_a_fresh_port(void **state)
{
    (void)state;
    struct pair pair = pair_open(4);
    assert_true(udp_connect(pair.near, &pair.far_address, NULL));
    int descriptor = udp_descriptor(pair.near);
    uint16_t port = udp_local_port(pair.near);
    assert_true(udp_reopen(pair.near, NULL));
    assert_int_equal(udp_descriptor(pair.near), descriptor);
    assert_int_not_equal(udp_local_port(pair.near), port);
    struct lane_train *train = make_train(&pair.far_address, 3000, 1500, 4);
    assert_int_equal(udp_send(pair.near, &train, 1, 0), 1);
    expect_bytes(pair.far, pair.batch, train->bytes, train->size, 1500);
    free(train);
    pair_close(&pair);
}

static void test_interface_mtu(void **state)
{
    (void)state;
    struct address self = loopback(4, 9);
    assert_true(udp_interface_mtu(&self, NULL) >= 1500);
    assert_true(udp_interface_mtu(&self, &self) >= 1500);
}

static void test_addresses_pass_both_ways(void **state)
{
    (void)state;
    const struct address v4 = {.family = 4, .bytes = {192, 0, 2, 9}, .port = 60001};
    const struct address v6 = {.family = 6, .bytes = {0xfe, 0x80, [15] = 3}, .port = 7, .scope = 5};
    struct sockaddr_storage storage;
    struct address back;
    assert_int_not_equal(sockaddr_from_address(&storage, &v4), 0);
    assert_true(sockaddr_to_address(&back, &storage));
    assert_true(address_equal(&v4, &back));
    assert_int_not_equal(sockaddr_from_address(&storage, &v6), 0);
    assert_true(sockaddr_to_address(&back, &storage));
    assert_true(address_equal(&v6, &back));
    const struct address mapped = {
        .family = 6, .bytes = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 9}, .port = 60001};
    sockaddr_from_address(&storage, &mapped);
    assert_true(sockaddr_to_address(&back, &storage));
    assert_true(address_equal(&v4, &back));
    assert_int_equal(sockaddr_from_address(&storage, &(struct address){0}), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_train_ipv4),
        cmocka_unit_test(test_train_ipv6),
        cmocka_unit_test(test_several_trains_in_order),
        cmocka_unit_test(test_lone_datagrams_of_any_size),
        cmocka_unit_test(test_segmentation_that_fails_goes_plain),
        cmocka_unit_test(test_trains_that_are_swallowed),
        cmocka_unit_test(test_joined_datagrams_that_come_uncut),
        cmocka_unit_test(test_no_room_keeps_the_train),
        cmocka_unit_test(test_refusals_are_counted),
        cmocka_unit_test(test_socket_drops_are_told),
        cmocka_unit_test(test_a_receiver_may_be_late_by_64_mib),
        cmocka_unit_test(test_drops_of_an_earlier_user_are_forgotten),
        cmocka_unit_test(test_answers_leave_from_the_address_that_was_asked),
        cmocka_unit_test(test_reopening_gives_a_fresh_port),
        cmocka_unit_test(test_interface_mtu),
        cmocka_unit_test(test_addresses_pass_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
