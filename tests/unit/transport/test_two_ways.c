/* An opening with two ways, datagrams and a stream beside them, and the packets that tell ports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "opening_pair.h"
#include "transport/ports_packet.h"

#define STEP_NS (10 * NS_PER_MS)

struct ways {
    struct opening *client, *server;
    uint64_t now_ns;
    bool up, down; /* what passes by UDP: to the server, to the client */
    struct address client_address;
    unsigned on_stream, by_udp; /* packets that the client and the server sent */
};

static void make(struct ways *ways, unsigned candidates, bool udp_passes)
{
    struct opening_config client = pair_config(true, candidates), server = pair_config(false, 0);
    struct error error = {0};
    client.channel = server.channel = true;
    *ways = (struct ways){.now_ns = NS_PER_S,
                          .up = udp_passes,
                          .down = udp_passes,
                          .client_address = pair_client_address(0)};
    ways->client = opening_new(&client, ways->now_ns, &error);
    ways->server = opening_new(&server, ways->now_ns, &error);
    assert_non_null(ways->client);
    assert_non_null(ways->server);
}

static void release(struct ways *ways)
{
    opening_free(ways->client);
    opening_free(ways->server);
}

/* All that one side has to say, delivered at once as far as it passes. */
static void deliver(struct ways *ways, bool to_server)
{
    struct opening *from = to_server ? ways->client : ways->server;
    struct opening *other = to_server ? ways->server : ways->client;
    uint8_t bytes[2048];
    struct address to;
    size_t size;
    while ((size = opening_send(from, &to, bytes, sizeof(bytes), ways->now_ns)) > 0) {
        if (to.family == 0) {
            ways->on_stream++;
            opening_receive(other, NULL, bytes, size, ways->now_ns);
            continue;
        }
        ways->by_udp++;
        struct address first = pair_server_address(0);
        if (to_server && ways->up && address_equal(&to, &first))
            opening_receive(other, &ways->client_address, bytes, size, ways->now_ns);
        if (!to_server && ways->down)
            opening_receive(other, &first, bytes, size, ways->now_ns);
    }
}

static void run(struct ways *ways, uint64_t length_ns)
{
    for (uint64_t end_ns = ways->now_ns + length_ns; ways->now_ns < end_ns;
         ways->now_ns += STEP_NS) {
        deliver(ways, true);
        deliver(ways, false);
    }
}

static void expect_same_secret(const struct ways *ways)
{
    assert_int_equal(opening_state(ways->client), OPENING_FINISHED);
    assert_int_equal(opening_state(ways->server), OPENING_FINISHED);
    assert_memory_equal(opening_result(ways->client)->secret, opening_result(ways->server)->secret,
                        SESSION_SECRET_SIZE);
}

/* ---- the way that is taken ---- */

static void the_stream_is_left_alone_until_told(void **state)
{
    (void)state;
    struct ways ways;
    make(&ways, 1, false);
    run(&ways, 2 * NS_PER_S);
    assert_int_equal(ways.on_stream, 0);
    assert_int_equal(opening_state(ways.client), OPENING_RUNNING);
    opening_use_stream(ways.client);
    run(&ways, STEP_NS * 3);
    expect_same_secret(&ways);
    assert_int_equal(opening_result(ways.client)->address.family, 0);
    assert_int_equal(opening_result(ways.server)->address.family, 0);
    release(&ways);
}

static void datagrams_that_pass_are_taken(void **state)
{
    (void)state;
    struct ways ways;
    make(&ways, 1, true);
    run(&ways, STEP_NS * 3);
    expect_same_secret(&ways);
    assert_int_equal(opening_result(ways.client)->address.family, 4);
    assert_int_equal(opening_result(ways.server)->address.family, 4);
    assert_int_equal(ways.on_stream, 0);
    opening_confirm(ways.client);
    run(&ways, 20 * NS_PER_S);
    assert_int_equal(ways.on_stream, 0);
    release(&ways);
}

static void no_address_at_all(void **state)
{
    (void)state;
    struct ways ways;
    make(&ways, 0, false);
    run(&ways, NS_PER_S);
    assert_int_equal(ways.by_udp, 0);
    opening_use_stream(ways.client);
    run(&ways, STEP_NS * 3);
    expect_same_secret(&ways);
    run(&ways, 20 * NS_PER_S);
    assert_int_equal(ways.by_udp, 0);
    release(&ways);
}

/* The server's answer came by UDP, the last flight does not go there any more. */
static void the_last_flight_takes_the_stream(void **state)
{
    (void)state;
    struct ways ways;
    make(&ways, 1, true);
    deliver(&ways, true);
    ways.up = false;
    run(&ways, NS_PER_S);
    assert_int_equal(opening_state(ways.client), OPENING_FINISHED);
    assert_int_equal(opening_state(ways.server), OPENING_RUNNING);
    opening_use_stream(ways.client);
    run(&ways, STEP_NS * 3);
    expect_same_secret(&ways);
    assert_int_equal(opening_result(ways.client)->address.family, 4);
    release(&ways);
}

static void a_stranger_on_the_stream_is_refused(void **state)
{
    (void)state;
    struct ways ways;
    make(&ways, 1, false);
    uint8_t noise[100] = {0x01, 2, 3};
    assert_false(opening_receive(ways.server, NULL, noise, sizeof(noise), ways.now_ns));
    assert_int_equal(opening_state(ways.server), OPENING_FAILED);
    assert_int_equal(opening_error(ways.server)->kind, ERROR_CRYPTO);
    release(&ways);
}

/* What nobody answers on either way is not the fault of UDP ports. */
static void silence_on_both_ways(void **state)
{
    (void)state;
    struct ways ways;
    make(&ways, 1, false);
    opening_use_stream(ways.client);
    uint8_t bytes[2048];
    struct address to;
    for (; ways.now_ns < 12 * NS_PER_S; ways.now_ns += STEP_NS) {
        while (opening_send(ways.client, &to, bytes, sizeof(bytes), ways.now_ns) > 0) {
        }
    }
    assert_int_equal(opening_state(ways.client), OPENING_FAILED);
    assert_int_equal(opening_error(ways.client)->kind, ERROR_PEER_LOST);
    release(&ways);
}

/* ---- searching ---- */

static void an_address_is_found_later(void **state)
{
    (void)state;
    struct ways ways;
    struct address found;
    make(&ways, 3, false);
    opening_use_stream(ways.client);
    run(&ways, STEP_NS * 3);
    expect_same_secret(&ways);
    opening_confirm(ways.client);
    ways.by_udp = 0;
    run(&ways, 30 * NS_PER_S);
    assert_in_range(ways.by_udp, 3 * 5, 3 * 12); /* neither silence nor a flood */
    assert_false(opening_found(ways.client, &found));
    ways.up = ways.down = true;
    run(&ways, 5 * NS_PER_S);
    assert_true(opening_found(ways.client, &found));
    struct address first = pair_server_address(0);
    assert_true(address_equal(&found, &first));
    ways.by_udp = 0;
    run(&ways, 30 * NS_PER_S);
    assert_int_equal(ways.by_udp, 0);
    release(&ways);
}

/* ---- punching ---- */

static unsigned count_punches(struct ways *ways, const struct address *address, uint64_t length_ns)
{
    unsigned count = 0;
    uint8_t bytes[2048];
    struct address to;
    for (uint64_t end_ns = ways->now_ns + length_ns; ways->now_ns < end_ns;
         ways->now_ns += STEP_NS) {
        size_t size;
        while ((size = opening_send(ways->server, &to, bytes, sizeof(bytes), ways->now_ns)) > 0) {
            assert_true(address_equal(&to, address));
            assert_int_equal(size, DATAGRAM_MIN);
            count++;
        }
    }
    return count;
}

static void a_punch_is_three_full_packets(void **state)
{
    (void)state;
    struct ways ways;
    make(&ways, 1, false);
    struct address address = pair_client_address(0);
    opening_punch(ways.server, &address, ways.now_ns);
    assert_int_equal(opening_deadline(ways.server), ways.now_ns);
    assert_int_equal(count_punches(&ways, &address, 5 * NS_PER_S), 3);
    for (unsigned i = 0; i < 1000; i++) { /* more than it keeps */
        address.port = (uint16_t)(1 + i);
        opening_punch(ways.server, &address, ways.now_ns);
    }
    opening_punch(ways.client, &address, ways.now_ns); /* a client never does */
    release(&ways);
}

/* It makes the client send again at once, and chooses no address. */
static void a_punch_asks_and_chooses_nothing(void **state)
{
    (void)state;
    struct ways ways;
    make(&ways, 2, false);
    uint8_t bytes[2048];
    struct address to, second = pair_server_address(1), first = pair_server_address(0);
    deliver(&ways, true); /* lost */
    assert_int_equal(opening_send(ways.client, &to, bytes, sizeof(bytes), ways.now_ns), 0);
    opening_punch(ways.server, &ways.client_address, ways.now_ns);
    size_t size = opening_send(ways.server, &to, bytes, sizeof(bytes), ways.now_ns);
    assert_true(opening_receive(ways.client, &second, bytes, size, ways.now_ns));
    assert_int_equal(opening_send(ways.client, &to, bytes, sizeof(bytes), ways.now_ns),
                     DATAGRAM_MIN);
    assert_true(address_equal(&to, &second));
    assert_int_equal(opening_state(ways.client), OPENING_RUNNING);
    ways.up = ways.down = true; /* through the first address alone */
    run(&ways, NS_PER_S);
    expect_same_secret(&ways);
    assert_true(address_equal(&opening_result(ways.client)->address, &first));
    release(&ways);
}

/* ---- ports packets ---- */

static void ports_come_back(void **state)
{
    (void)state;
    struct client_port ports[PORTS_MAX + 1], read[PORTS_MAX];
    uint8_t bytes[PORTS_PACKET_MAX + 8];
    size_t count;
    for (size_t i = 0; i <= PORTS_MAX; i++)
        ports[i] = (struct client_port){.family = i % 2 ? 4 : 6, .port = (uint16_t)(60000 + i)};
    for (size_t told = 0; told <= PORTS_MAX; told++) {
        size_t size = ports_packet_write(ports, told, bytes, sizeof(bytes));
        assert_int_equal(size, 2 + 3 * told);
        assert_true(ports_packet_read(bytes, size, read, &count));
        assert_int_equal(count, told);
        for (size_t i = 0; i < told; i++) {
            assert_int_equal(read[i].family, ports[i].family);
            assert_int_equal(read[i].port, ports[i].port);
        }
    }
    assert_int_equal(ports_packet_write(ports, PORTS_MAX + 1, bytes, sizeof(bytes)), 0);
    assert_int_equal(ports_packet_write(ports, 2, bytes, 7), 0);
}

static void ports_that_are_none(void **state)
{
    (void)state;
    const struct client_port two[] = {{4, 1}, {6, 65535}};
    struct client_port read[PORTS_MAX];
    uint8_t bytes[PORTS_PACKET_MAX + 8] = {0};
    size_t count, size = ports_packet_write(two, 2, bytes, sizeof(bytes));
    for (size_t cut = 0; cut < size; cut++)
        assert_false(ports_packet_read(bytes, cut, read, &count));
    assert_false(ports_packet_read(bytes, size + 1, read, &count));
    uint8_t changed[8];
    const struct {
        size_t at;
        uint8_t value;
    } lies[] = {{0, 0x03}, {1, 1}, {1, 3}, {2, 0}, {2, 5}, {4, 0}, {5, 7}};
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        memcpy(changed, bytes, sizeof(changed));
        changed[lies[i].at] = lies[i].value;
        assert_false(ports_packet_read(changed, size, read, &count));
    }
    uint8_t many[2 + 3 * (PORTS_MAX + 1)] = {PORTS_PACKET_TYPE, PORTS_MAX + 1};
    for (size_t i = 2; i < sizeof(many); i += 3)
        many[i] = many[i + 1] = 4;
    assert_false(ports_packet_read(many, sizeof(many), read, &count));
}

static void open_ports_come_back(void **state)
{
    (void)state;
    uint16_t ports[OPEN_PORTS_MAX + 1], read[OPEN_PORTS_MAX];
    uint8_t bytes[OPEN_PORTS_PACKET_MAX + 8] = {0};
    size_t count;
    for (size_t i = 0; i <= OPEN_PORTS_MAX; i++)
        ports[i] = (uint16_t)(60000 + i);
    for (size_t told = 0; told <= OPEN_PORTS_MAX; told++) {
        size_t size = open_ports_packet_write(ports, told, bytes, sizeof(bytes));
        assert_int_equal(size, 2 + 2 * told);
        assert_true(open_ports_packet_read(bytes, size, read, &count));
        assert_int_equal(count, told);
        assert_memory_equal(read, ports, told * sizeof(*ports));
        for (size_t cut = 0; cut < size; cut++)
            assert_false(open_ports_packet_read(bytes, cut, read, &count));
        assert_false(open_ports_packet_read(bytes, size + 1, read, &count));
    }
    assert_int_equal(open_ports_packet_write(ports, OPEN_PORTS_MAX + 1, bytes, sizeof(bytes)), 0);
    assert_int_equal(open_ports_packet_write(ports, 2, bytes, 5), 0);
    uint8_t many[2 + 2 * (OPEN_PORTS_MAX + 1)] = {OPEN_PORTS_PACKET_TYPE, OPEN_PORTS_MAX + 1};
    memset(many + 2, 7, sizeof(many) - 2);
    assert_false(open_ports_packet_read(many, sizeof(many), read, &count));
    const uint8_t none[] = {OPEN_PORTS_PACKET_TYPE, 1, 0, 0};
    assert_false(open_ports_packet_read(none, sizeof(none), read, &count));
}

/* The first address is dead; one that is told later answers. */
static void a_later_candidate_is_taken(void **state)
{
    (void)state;
    struct ways ways;
    struct opening_config client = pair_config(true, 1), server = pair_config(false, 0);
    struct error error = {0};
    client.candidates[0] = pair_server_address(1);
    client.channel = server.channel = true;
    ways = (struct ways){.now_ns = NS_PER_S, .client_address = pair_client_address(0)};
    ways.up = ways.down = true;
    ways.client = opening_new(&client, ways.now_ns, &error);
    ways.server = opening_new(&server, ways.now_ns, &error);
    run(&ways, NS_PER_S);
    assert_int_equal(opening_state(ways.client), OPENING_RUNNING);
    assert_false(opening_is_answered(ways.client));
    struct address first = pair_server_address(0), other = pair_server_address(2);
    opening_add_candidate(ways.client, &first);
    opening_add_candidate(ways.client, &first);
    run(&ways, STEP_NS * 3);
    expect_same_secret(&ways);
    assert_true(opening_is_answered(ways.client));
    assert_true(address_equal(&opening_result(ways.client)->address, &first));
    for (unsigned i = 0; i < 100; i++) { /* too late, too many */
        other.port = (uint16_t)(1 + i);
        opening_add_candidate(ways.client, &other);
    }
    release(&ways);
}

/* Once the session has begun on the stream those that were told later are left alone. */
static void a_later_candidate_is_not_searched(void **state)
{
    (void)state;
    struct ways ways;
    make(&ways, 1, false);
    struct address other = pair_server_address(0);
    for (unsigned i = 0; i < OPENING_MORE_MAX + 5; i++) {
        other.port = (uint16_t)(1 + i);
        opening_add_candidate(ways.client, &other);
    }
    opening_use_stream(ways.client);
    run(&ways, STEP_NS * 3);
    expect_same_secret(&ways);
    opening_confirm(ways.client);
    ways.by_udp = 0;
    run(&ways, 30 * NS_PER_S);
    assert_in_range(ways.by_udp, 5, 12);
    release(&ways);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stream_is_left_alone_until_told),
        cmocka_unit_test(datagrams_that_pass_are_taken),
        cmocka_unit_test(no_address_at_all),
        cmocka_unit_test(the_last_flight_takes_the_stream),
        cmocka_unit_test(a_stranger_on_the_stream_is_refused),
        cmocka_unit_test(silence_on_both_ways),
        cmocka_unit_test(an_address_is_found_later),
        cmocka_unit_test(a_punch_is_three_full_packets),
        cmocka_unit_test(a_punch_asks_and_chooses_nothing),
        cmocka_unit_test(ports_come_back),
        cmocka_unit_test(ports_that_are_none),
        cmocka_unit_test(open_ports_come_back),
        cmocka_unit_test(a_later_candidate_is_taken),
        cmocka_unit_test(a_later_candidate_is_not_searched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
