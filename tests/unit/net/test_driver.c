/* Whole sessions between two drivers in one process: over loopback and over a pipe, with lanes on
 * threads, without the system's help, and when nobody answers or everybody stops. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/units.h"
#include "crypto/handshake.h"
#include "measure/memory_ends.h"
#include "net/udp.h"

#define TIMEOUT_NS (20 * NS_PER_S)

struct side {
    struct driver_config config;
    struct memory_end *end;
    struct driver *driver;
    struct error error;
    bool good;
    struct memory_report report;
    struct driver_statistics net;
};

struct setting {
    uint8_t family; /* 0: a stream */
    unsigned lanes, threads;
    uint64_t size_bytes;
    bool pull; /* the server sends */
    unsigned pool_blocks;
};

static void *run(void *context)
{
    struct side *side = context;
    side->good = driver_run(side->driver, &side->error);
    return NULL;
}

static struct address loopback(uint8_t family, uint16_t port)
{
    struct address address = {.family = family, .port = port};
    if (family == 4)
        memcpy(address.bytes, (uint8_t[]){127, 0, 0, 1}, 4);
    else
        address.bytes[15] = 1;
    return address;
}

static void prepare(struct side *side, bool client, bool sends, const struct setting *setting)
{
    struct memory_config memory = {.size_bytes = setting->size_bytes,
                                   .buffer_bytes = 8u << 20,
                                   .pool_blocks = setting->pool_blocks};
    memset(side, 0, sizeof(*side));
    side->end = sends ? memory_sender_new(&memory, &side->error)
                      : memory_receiver_new(&memory, &side->error);
    assert_non_null(side->end);
    side->config = (struct driver_config){
        .client = client,
        .secret = "thirty-two bytes for the drivers",
        .session_id = "driver test",
        .lanes = setting->lanes,
        .open_timeout_ns = TIMEOUT_NS,
        .idle_timeout_ns = TIMEOUT_NS,
        .watch_fd = -1,
    };
    memory_end_configure(side->end, &side->config);
}

static void finish(struct side *side)
{
    memory_end_report(side->end, &side->report);
    driver_statistics(side->driver, &side->net);
    memory_end_free(side->end);
    driver_free(side->driver);
}

static void run_both(struct side *client, struct side *server)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, server), 0);
    run(client);
    pthread_join(thread, NULL);
}

static void start(struct side *side)
{
    side->driver = driver_new(&side->config, &side->error);
    if (side->driver == NULL)
        print_error("%s\n", side->error.text);
    assert_non_null(side->driver);
    memory_end_set_driver(side->end, side->driver);
}

static void expect_good(const struct side *client, const struct side *server,
                        const struct setting *setting)
{
    if (!client->good || !server->good)
        print_error("client: %s\nserver: %s\n", client->error.text, server->error.text);
    assert_true(client->good);
    assert_true(server->good);
    const struct side *sender = setting->pull ? server : client;
    const struct side *receiver = setting->pull ? client : server;
    assert_true(sender->report.verified);
    assert_int_equal(receiver->report.bytes, setting->size_bytes);
}

static void copy_over_udp(const struct setting *setting, struct side *client, struct side *server)
{
    struct udp_listener *listener = driver_listen(0, 0, setting->threads, NULL);
    assert_non_null(listener);
    prepare(client, true, !setting->pull, setting);
    prepare(server, false, setting->pull, setting);
    server->config.listener = listener;
    client->config.candidates[0] = loopback(setting->family, udp_listener_port(listener));
    client->config.candidate_count = 1;
    start(client);
    start(server);
    run_both(client, server);
    finish(client);
    finish(server);
    udp_listener_free(listener);
    expect_good(client, server, setting);
}

static void test_one_lane_ipv4(void **state)
{
    (void)state;
    struct side client, server;
    struct setting setting = {
        .family = 4, .lanes = 1, .threads = 1, .size_bytes = 40000001, .pool_blocks = 16};
    copy_over_udp(&setting, &client, &server);
    setting.pull = true;
    copy_over_udp(&setting, &client, &server);
}

static bool has_ipv6(void)
{
    struct address one = loopback(6, 0);
    struct udp_socket *socket = udp_open(6, &one, false, NULL);
    udp_close(socket);
    return socket != NULL;
}

static void test_one_lane_ipv6(void **state)
{
    (void)state;
    if (!has_ipv6())
        skip();
    struct side client, server;
    struct setting setting = {
        .family = 6, .lanes = 1, .threads = 1, .size_bytes = 40000001, .pool_blocks = 16};
    copy_over_udp(&setting, &client, &server);
}

static void test_four_lanes_on_threads(void **state)
{
    (void)state;
    struct side client, server;
    struct setting setting = {
        .family = 4, .lanes = 4, .threads = 2, .size_bytes = 150000000, .pool_blocks = 32};
    copy_over_udp(&setting, &client, &server);
    assert_int_equal(server.report.session.lanes, 4);
    setting.pull = true;
    setting.threads = 4;
    copy_over_udp(&setting, &client, &server);
}

static void test_a_single_byte(void **state)
{
    (void)state;
    struct side client, server;
    struct setting setting = {
        .family = 4, .lanes = 1, .threads = 1, .size_bytes = 1, .pool_blocks = 1};
    copy_over_udp(&setting, &client, &server);
}

static void test_without_segmentation(void **state)
{
    (void)state;
    struct side client, server;
    struct setting setting = {
        .family = 4, .lanes = 1, .threads = 1, .size_bytes = 30000000, .pool_blocks = 16};
    udp_test_break_segmentation(EIO, 5);
    copy_over_udp(&setting, &client, &server);
    udp_test_break_segmentation(0, 0);
    assert_false(client.net.segmentation);
}

static void test_small_socket_buffers(void **state)
{
    (void)state;
    struct side client, server;
    struct setting setting = {
        .family = 4, .lanes = 1, .threads = 1, .size_bytes = 30000000, .pool_blocks = 16};
    udp_test_buffer_bytes(106496);
    copy_over_udp(&setting, &client, &server);
    udp_test_buffer_bytes(0);
    assert_true(server.net.receive_buffer < UDP_BUFFER_SMALL);
}

static void copy_over_stream(const struct setting *setting, int client_in, int client_out,
                             int server_in, int server_out)
{
    struct side client, server;
    prepare(&client, true, !setting->pull, setting);
    prepare(&server, false, setting->pull, setting);
    client.config.stream = server.config.stream = true;
    client.config.stream_in = client_in;
    client.config.stream_out = client_out;
    server.config.stream_in = server_in;
    server.config.stream_out = server_out;
    start(&client);
    start(&server);
    run_both(&client, &server);
    finish(&client);
    finish(&server);
    expect_good(&client, &server, setting);
}

static void test_stream_over_a_socket(void **state)
{
    (void)state;
    int ends[2];
    struct setting setting = {.lanes = 1, .size_bytes = 20000001, .pool_blocks = 8};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    copy_over_stream(&setting, ends[0], ends[0], ends[1], ends[1]);
    close(ends[0]);
    close(ends[1]);
}

static void test_stream_over_pipes(void **state)
{
    (void)state;
    int there[2], back[2];
    struct setting setting = {.lanes = 1, .size_bytes = 20000001, .pool_blocks = 8, .pull = true};
    assert_int_equal(pipe(there), 0);
    assert_int_equal(pipe(back), 0);
    copy_over_stream(&setting, back[0], there[1], there[0], back[1]);
    for (unsigned i = 0; i < 2; i++) {
        close(there[i]);
        close(back[i]);
    }
}

static void give_stream(struct side *side, int end)
{
    side->config.stream = true;
    side->config.stream_in = side->config.stream_out = end;
}

static void note_way(void *context, const struct driver_way *way)
{
    *(int *)context = way->stream ? 2 : 1;
}

/* Both ends have a stream and a port; the client knows the port or not. */
static void copy_beside_a_stream(bool candidate, int *way)
{
    struct side client, server;
    int ends[2];
    struct setting setting = {
        .family = 4, .lanes = 2, .threads = 2, .size_bytes = 20000001, .pool_blocks = 16};
    struct udp_listener *listener = driver_listen(0, 0, setting.threads, NULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    prepare(&client, true, true, &setting);
    prepare(&server, false, false, &setting);
    give_stream(&client, ends[0]);
    give_stream(&server, ends[1]);
    server.config.listener = listener;
    server.config.punch_to = loopback(4, 0);
    client.config.candidates[0] = loopback(4, udp_listener_port(listener));
    client.config.candidate_count = candidate;
    client.config.tells_ports = true;
    client.config.on_way = note_way;
    client.config.way_context = way;
    *way = 0;
    start(&client);
    start(&server);
    run_both(&client, &server);
    finish(&client);
    finish(&server);
    udp_listener_free(listener);
    close(ends[0]);
    close(ends[1]);
    expect_good(&client, &server, &setting);
}

static void test_udp_beside_a_stream(void **state)
{
    (void)state;
    int way;
    copy_beside_a_stream(true, &way);
    assert_int_equal(way, 0);
}

static void test_a_stream_without_an_address(void **state)
{
    (void)state;
    int way;
    copy_beside_a_stream(false, &way);
    assert_int_equal(way, 2);
}

static void test_nobody_answers(void **state)
{
    (void)state;
    struct side client;
    struct setting setting = {.family = 4, .lanes = 1, .size_bytes = 1, .pool_blocks = 1};
    struct udp_socket *silent = udp_open(4, NULL, false, NULL);
    prepare(&client, true, true, &setting);
    client.config.open_timeout_ns = 300 * NS_PER_MS;
    client.config.candidates[0] = loopback(4, udp_local_port(silent));
    client.config.candidate_count = 1;
    start(&client);
    run(&client);
    assert_false(client.good);
    assert_int_equal(client.error.kind, ERROR_UNREACHABLE);
    finish(&client);
    udp_close(silent);
}

static void test_stop_while_opening(void **state)
{
    (void)state;
    struct side client;
    struct setting setting = {.family = 4, .lanes = 1, .size_bytes = 1, .pool_blocks = 1};
    const volatile int stop = 1;
    prepare(&client, true, true, &setting);
    client.config.stop = &stop;
    client.config.candidates[0] = loopback(4, 9);
    client.config.candidate_count = 1;
    start(&client);
    run(&client);
    assert_false(client.good);
    assert_int_equal(client.error.kind, ERROR_INTERRUPTED);
    finish(&client);
}

static void test_the_stream_ends_while_opening(void **state)
{
    (void)state;
    struct side client;
    struct setting setting = {.lanes = 1, .size_bytes = 1, .pool_blocks = 1};
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    prepare(&client, true, true, &setting);
    client.config.stream = true;
    client.config.stream_in = client.config.stream_out = ends[0];
    start(&client);
    close(ends[1]);
    run(&client);
    assert_false(client.good);
    assert_int_not_equal(client.error.kind, ERROR_NONE);
    finish(&client);
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_lane_ipv4),
        cmocka_unit_test(test_one_lane_ipv6),
        cmocka_unit_test(test_four_lanes_on_threads),
        cmocka_unit_test(test_a_single_byte),
        cmocka_unit_test(test_without_segmentation),
        cmocka_unit_test(test_small_socket_buffers),
        cmocka_unit_test(test_stream_over_a_socket),
        cmocka_unit_test(test_stream_over_pipes),
        cmocka_unit_test(test_udp_beside_a_stream),
        cmocka_unit_test(test_a_stream_without_an_address),
        cmocka_unit_test(test_nobody_answers),
        cmocka_unit_test(test_stop_while_opening),
        cmocka_unit_test(test_the_stream_ends_while_opening),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
