/* The opening at a listening server: in clear, by keys, with ids and cookies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "opening_pair.h"
#include "transport/gate.h"

#define PERCENT(n) ((uint32_t)((n)*UINT64_C(42949673)))

/* Who is welcome is said beforehand; keys differ by their seeds. */
struct side {
    struct handshake_identity identity;
    bool refuses;
    unsigned judged;
    uint8_t seen[HANDSHAKE_KEY_SIZE];
};

static bool judge(void *context, const uint8_t key[HANDSHAKE_KEY_SIZE], struct error *error)
{
    struct side *side = context;
    side->judged++;
    memcpy(side->seen, key, HANDSHAKE_KEY_SIZE);
    return !side->refuses || error_set(error, ERROR_REFUSED, "this key is not welcome");
}

static void side_init(struct side *side, uint8_t seed)
{
    *side = (struct side){.identity = {.judge = judge, .context = side}};
    memset(side->identity.seed, seed, HANDSHAKE_KEY_SIZE);
}

static struct opening_config config_of(struct side *side, bool client, unsigned paths)
{
    struct opening_config config = pair_config(client, paths);
    config.identity = &side->identity;
    memcpy(config.own_id, client ? "client's" : "server's", OPEN_ID_SIZE);
    if (!client)
        memcpy(config.peer_id, "client's", OPEN_ID_SIZE);
    return config;
}

struct two {
    struct side client, server;
    struct pair pair;
};

static void two_init(struct two *two, unsigned paths, uint64_t seed)
{
    side_init(&two->client, 1);
    side_init(&two->server, 2);
    struct opening_config c = config_of(&two->client, true, paths);
    struct opening_config s = config_of(&two->server, false, 0);
    c.says_wishes = true;
    c.wishes = (struct hello_wishes){.limit_bps = 1000000, .policy = 1};
    c.timeout_ns = s.timeout_ns = 60 * NS_PER_S;
    pair_init(&two->pair, &c, &s, seed);
}

static void expect_agreement(const struct two *two)
{
    const struct opening_result *a = opening_result(two->pair.client);
    const struct opening_result *b = opening_result(two->pair.server);

    assert_non_null(a);
    assert_non_null(b);
    assert_memory_equal(a->secret, b->secret, sizeof a->secret);
    assert_int_equal(a->peer.connection_base, 0x22222220);
    assert_int_equal(b->peer.connection_base, 0x11111110);
    assert_int_equal(two->client.judged, 1);
    assert_int_equal(two->server.judged, 1);
    assert_memory_not_equal(two->client.seen, two->server.seen, HANDSHAKE_KEY_SIZE);
}

static void a_clean_path_takes_one_round_trip(void **state)
{
    struct two two;

    (void)state;
    two_init(&two, 1, 1);
    assert_true(pair_run(&two.pair, NS_PER_S));
    assert_int_equal(two.pair.now_ns, 1000 + 30 * NS_PER_MS); /* the server's moment: 1.5 RTT */
    assert_int_equal(two.pair.first_client_size, 1200);
    assert_int_equal(two.pair.sent_by_client, 2);
    expect_agreement(&two);
    assert_int_equal(opening_result(two.pair.client)->rtt_ns, 20 * NS_PER_MS);
    pair_run_until(&two.pair, 5 * NS_PER_S);
    assert_true(opening_deadline(two.pair.client) == TIME_NEVER);
    assert_true(opening_deadline(two.pair.server) == TIME_NEVER);
    pair_release(&two.pair);
}

static void expect_completion(uint32_t loss, uint32_t doubling, uint64_t jitter_ns,
                              uint32_t replaying, unsigned rounds)
{
    for (unsigned seed = 0; seed < rounds; seed++) {
        struct two two;
        two_init(&two, 1 + seed % 2, seed);
        two.pair.loss = loss;
        two.pair.doubling = doubling;
        two.pair.jitter_ns = jitter_ns;
        two.pair.replaying = replaying;
        assert_true(pair_run(&two.pair, 30 * NS_PER_S));
        expect_agreement(&two);
        pair_run_until(&two.pair, two.pair.now_ns + 30 * NS_PER_S); /* and it comes to rest */
        assert_true(two.pair.sent_by_client + two.pair.sent_by_server < 600);
        assert_int_equal(opening_state(two.pair.client), OPENING_FINISHED);
        pair_release(&two.pair);
    }
}

static void bad_paths_complete(void **state)
{
    (void)state;
    expect_completion(PERCENT(30), 0, 0, 0, 60);
    expect_completion(0, PERCENT(50), 200 * NS_PER_MS, 0, 30);
    expect_completion(PERCENT(30), PERCENT(30), 100 * NS_PER_MS, PERCENT(70), 60);
}

static void a_refused_client_is_told_no_more(void **state)
{
    struct two two;

    (void)state;
    two_init(&two, 1, 1);
    two.server.refuses = true;
    assert_true(pair_run(&two.pair, NS_PER_S));
    assert_int_equal(opening_state(two.pair.client), OPENING_FINISHED); /* it was not judged yet */
    assert_int_equal(opening_state(two.pair.server), OPENING_FAILED);
    assert_int_equal(opening_error(two.pair.server)->kind, ERROR_REFUSED);
    assert_null(opening_result(two.pair.server));
    pair_run_until(&two.pair, 2 * NS_PER_S);
    assert_int_equal(opening_state(two.pair.client), OPENING_FAILED);
    assert_int_equal(opening_error(two.pair.client)->kind, ERROR_PERMISSION);
    assert_null(strstr(opening_error(two.pair.client)->text, "welcome"));
    assert_null(opening_result(two.pair.client));
    pair_release(&two.pair);
}

static void a_lost_refusal_is_repeated(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 20; seed++) {
        struct two two;
        two_init(&two, 1, seed);
        two.server.refuses = true;
        two.pair.loss = PERCENT(40);
        pair_run_until(&two.pair, 30 * NS_PER_S);
        assert_int_equal(opening_state(two.pair.client), OPENING_FAILED);
        assert_int_equal(opening_error(two.pair.client)->kind, ERROR_PERMISSION);
        pair_release(&two.pair);
    }
}

static void another_servers_key_ends_it_on_both_sides(void **state)
{
    struct two two;

    (void)state;
    two_init(&two, 1, 1);
    two.client.refuses = true;
    assert_true(pair_run(&two.pair, NS_PER_S));
    assert_int_equal(opening_error(two.pair.client)->kind, ERROR_REFUSED);
    assert_int_equal(opening_error(two.pair.server)->kind, ERROR_CRYPTO);
    assert_int_equal(two.server.judged, 0); /* the client did not show who it is */
    pair_release(&two.pair);
}

/* Packets of somebody who did not see the ids, and of one who saw and lies about what fits. */
static void packets_without_the_ids_change_nothing(void **state)
{
    struct two two;
    struct random random;

    (void)state;
    random_seed(&random, 7);
    two_init(&two, 1, 1);
    for (unsigned round = 0; round < 2000; round++) {
        uint8_t bytes[200];
        struct address from = pair_server_address(0), client = pair_client_address(0);
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)random_next(&random);
        bytes[0] = round % 2 != 0 ? OPEN_PACKET_TYPE : COOKIE_PACKET_TYPE;
        size_t size = round % 3 == 0 ? COOKIE_PACKET_SIZE : sizeof bytes;
        opening_receive(two.pair.client, &from, bytes, size, two.pair.now_ns);
        opening_receive(two.pair.server, &client, bytes, size, two.pair.now_ns);
    }
    assert_true(pair_run(&two.pair, NS_PER_S));
    expect_agreement(&two);
    pair_release(&two.pair);
}

static void answers_from_elsewhere_are_ignored(void **state)
{
    struct two two;
    uint8_t bytes[1200], cookie[COOKIE_SIZE] = {1};
    struct address elsewhere = pair_server_address(3), to;

    (void)state;
    two_init(&two, 1, 1);
    assert_int_equal(opening_send(two.pair.client, &to, bytes, sizeof bytes, two.pair.now_ns),
                     1200);
    cookie_packet_write((const uint8_t *)"client's", cookie, bytes);
    opening_receive(two.pair.client, &elsewhere, bytes, COOKIE_PACKET_SIZE, two.pair.now_ns);
    assert_int_equal(opening_send(two.pair.client, &to, bytes, sizeof bytes, two.pair.now_ns), 0);
    opening_receive(two.pair.client, &to, bytes, COOKIE_PACKET_SIZE, two.pair.now_ns);
    pair_release(&two.pair);
}

/* ---- the gate ---- */

static size_t first_packet(struct pair *pair, uint8_t *bytes)
{
    struct address to;
    return opening_send(pair->client, &to, bytes, 1200, pair->now_ns);
}

static void a_busy_server_asks_for_a_cookie_first(void **state)
{
    struct two two;
    struct gate gate = {.key = "a key that the server has drawn"};
    struct address from = pair_client_address(0), to = pair_server_address(0);
    struct open_packet packet;
    uint8_t bytes[1200], answer[COOKIE_PACKET_SIZE];

    (void)state;
    two_init(&two, 1, 1);
    uint64_t now = two.pair.now_ns;
    assert_int_equal(first_packet(&two.pair, bytes), 1200);
    assert_int_equal(gate_judge(&gate, &from, bytes, 1200, false, now, &packet, answer),
                     GATE_ADMIT);
    assert_int_equal(gate_judge(&gate, &from, bytes, 1199, false, now, &packet, answer), GATE_DROP);
    assert_int_equal(gate_judge(&gate, &from, bytes, 1200, true, now, &packet, answer),
                     GATE_COOKIE);
    assert_true(opening_deadline(two.pair.client) > now);
    opening_receive(two.pair.client, &to, answer, sizeof answer, now);
    assert_int_equal(opening_deadline(two.pair.client), 0); /* at once */
    assert_int_equal(first_packet(&two.pair, bytes), 1200);
    assert_int_equal(gate_judge(&gate, &from, bytes, 1200, true, now, &packet, answer), GATE_ADMIT);
    assert_int_equal(packet.body.offset, 0);
    /* The hello stands in front, where who lets it in can read it. */
    struct hello hello;
    struct hello_wishes wishes;
    size_t length = (size_t)packet.body.bytes[0] << 8 | packet.body.bytes[1];
    assert_int_equal(length, HELLO_SIZE + HELLO_WISHES_SIZE);
    assert_true(hello_decode(&hello, packet.body.bytes + 2, length, NULL));
    assert_int_equal(hello.role, ROLE_SENDER);
    hello_wishes_decode(&wishes, packet.body.bytes + 2, length);
    assert_int_equal(wishes.limit_bps, 1000000);
    assert_int_equal(wishes.policy, 1);
    /* The same cookie again is no news. */
    opening_receive(two.pair.client, &to, answer, sizeof answer, now);
    assert_int_equal(first_packet(&two.pair, bytes), 0);
    pair_release(&two.pair);
}

static void a_cookie_is_for_one_place_id_and_time(void **state)
{
    struct two two;
    struct gate gate = {.key = "a key"}, other = {.key = "another key"};
    struct address from = pair_client_address(0), to = pair_server_address(0);
    struct address elsewhere[3] = {
        from, from, {.family = 6, .bytes = {10, 0, 0, 1}, .port = 40000}};
    struct open_packet packet;
    uint8_t bytes[1200], answer[COOKIE_PACKET_SIZE];
    uint64_t now = 100 * NS_PER_S;

    (void)state;
    two_init(&two, 1, 1);
    first_packet(&two.pair, bytes);
    gate_judge(&gate, &from, bytes, 1200, true, now, &packet, answer);
    opening_receive(two.pair.client, &to, answer, sizeof answer, two.pair.now_ns);
    assert_int_equal(first_packet(&two.pair, bytes), 1200);
    elsewhere[0].port++;
    elsewhere[1].bytes[3]++;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(gate_judge(&gate, &elsewhere[i], bytes, 1200, true, now, &packet, answer),
                         GATE_COOKIE);
    assert_int_equal(gate_judge(&other, &from, bytes, 1200, true, now, &packet, answer),
                     GATE_COOKIE);
    uint64_t later[] = {0, 12 * NS_PER_S, 40 * NS_PER_S, UINT64_C(100000) * NS_PER_S};
    enum gate_verdict then[] = {GATE_ADMIT, GATE_ADMIT, GATE_COOKIE, GATE_COOKIE};
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(
            gate_judge(&gate, &from, bytes, 1200, true, now + later[i], &packet, answer), then[i]);
    assert_int_equal(gate_judge(&gate, &from, bytes, 1200, true, 0, &packet, answer), GATE_COOKIE);
    for (size_t i = 9; i < 17 + COOKIE_SIZE; i++) { /* the id and the cookie */
        bytes[i] ^= 1;
        assert_int_equal(gate_judge(&gate, &from, bytes, 1200, true, now, &packet, answer),
                         GATE_COOKIE);
        bytes[i] ^= 1;
    }
    bytes[3] = 1; /* to a server that is known: no first packet */
    assert_int_equal(gate_judge(&gate, &from, bytes, 1200, true, now, &packet, answer), GATE_DROP);
    pair_release(&two.pair);
}

/* A hundred thousand forged beginnings: each gets back less than a thirtieth, and none is let in.
 */
static void a_flood_gets_cookies_and_nothing_else(void **state)
{
    struct gate gate = {.key = "a key"};
    struct random random;
    uint8_t bytes[1200] = {OPEN_PACKET_TYPE}, answer[COOKIE_PACKET_SIZE];
    struct open_packet packet;

    (void)state;
    random_seed(&random, 3);
    for (unsigned i = 0; i < 20000; i++) {
        struct address from = {.family = 4, .port = (uint16_t)random_next(&random)};
        for (size_t at = 9; at < 100; at++)
            bytes[at] = (uint8_t)random_next(&random);
        bytes[17 + COOKIE_SIZE + 13] = 0; /* so that the fields fit */
        bytes[17 + COOKIE_SIZE + 5] = bytes[17 + COOKIE_SIZE + 6] = 0;
        bytes[17 + COOKIE_SIZE + 9] = bytes[17 + COOKIE_SIZE + 10] = 0;
        bytes[17 + COOKIE_SIZE + 11] = 0;
        assert_int_equal(gate_judge(&gate, &from, bytes, 1200, true, NS_PER_S, &packet, answer),
                         GATE_COOKIE);
    }
}

/* ---- packets ---- */

static void cut_packets_are_none(void **state)
{
    struct open_packet packet = {.from = "somebody",
                                 .body = {.number = 7,
                                          .bytes = (const uint8_t *)"text",
                                          .length = 4}},
                       back;
    uint8_t bytes[1200], id[OPEN_ID_SIZE], cookie[COOKIE_SIZE] = {3};

    (void)state;
    for (unsigned known = 0; known < 2; known++) {
        packet.to[3] = (uint8_t)known;
        size_t size = open_packet_write(&packet, 0, bytes, sizeof bytes);
        assert_int_equal(size, (known ? OPEN_OVERHEAD : OPEN_FIRST_OVERHEAD) + 4);
        for (size_t cut = 0; cut < size; cut++) {
            assert_false(open_packet_read(&back, bytes, cut));
            assert_int_equal(open_packet_write(&packet, 0, bytes, cut), 0);
            open_packet_write(&packet, 0, bytes, size);
        }
        assert_true(open_packet_read(&back, bytes, size));
        assert_int_equal(back.body.number, 7);
        assert_memory_equal(back.body.bytes, "text", 4);
        assert_int_equal(open_packet_write(&packet, 1200, bytes, 1199), 0);
        assert_int_equal(open_packet_write(&packet, 1200, bytes, 1200), 1200);
        assert_true(open_packet_read(&back, bytes, 1200));
    }
    assert_int_equal(cookie_packet_write(packet.from, cookie, bytes), COOKIE_PACKET_SIZE);
    for (size_t cut = 0; cut < COOKIE_PACKET_SIZE; cut++)
        assert_false(cookie_packet_read(id, cookie, bytes, cut));
    assert_false(cookie_packet_read(id, cookie, bytes, COOKIE_PACKET_SIZE + 1));
    assert_true(cookie_packet_read(id, cookie, bytes, COOKIE_PACKET_SIZE));
    assert_memory_equal(id, "somebody", OPEN_ID_SIZE);
}

static void fields_past_their_limits_are_refused(void **state)
{
    static const struct {
        uint32_t offset, acknowledged;
        uint16_t length;
        bool good;
    } cases[] = {{HANDSHAKE_STREAM_MAX - 4, HANDSHAKE_STREAM_MAX, 4, true},
                 {HANDSHAKE_STREAM_MAX - 3, 0, 4, false},
                 {HANDSHAKE_STREAM_MAX + 1, 0, 0, false},
                 {0, HANDSHAKE_STREAM_MAX + 1, 0, false},
                 {UINT32_MAX, 0, 4, false}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct open_packet back, packet = {.from = "somebody",
                                           .body = {.offset = cases[i].offset,
                                                    .acknowledged = cases[i].acknowledged,
                                                    .bytes = (const uint8_t *)"text",
                                                    .length = cases[i].length}};
        uint8_t bytes[200];
        size_t size = open_packet_write(&packet, 0, bytes, sizeof bytes);
        assert_int_equal(open_packet_read(&back, bytes, size), cases[i].good);
        memset(bytes + 9, 0, OPEN_ID_SIZE); /* from nobody */
        assert_false(open_packet_read(&back, bytes, size));
    }
}

static void wishes_that_are_impossible_are_none(void **state)
{
    struct hello_wishes wishes = {1, 2, 3, 4, 60000000, 1000000}, back;
    uint8_t bytes[HELLO_SIZE + HELLO_WISHES_SIZE] = {0};
    const size_t size = sizeof bytes;

    (void)state;
    assert_int_equal(hello_wishes_encode(&wishes, bytes + HELLO_SIZE, HELLO_WISHES_SIZE),
                     HELLO_WISHES_SIZE);
    hello_wishes_decode(&back, bytes, size);
    assert_memory_equal(&back.path_bps, &wishes.path_bps, 16);
    assert_int_equal(back.fixed_bps, 3);
    for (size_t cut = 0; cut < size; cut++) {
        hello_wishes_decode(&back, bytes, cut);
        assert_int_equal(back.limit_bps, 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        struct hello_wishes bad = wishes;
        bad.policy += i == 0;
        bad.path_rtt_us += i == 1;
        bad.path_loss_millionths += i == 2;
        hello_wishes_encode(&bad, bytes + HELLO_SIZE, HELLO_WISHES_SIZE);
        hello_wishes_decode(&back, bytes, size);
        assert_int_equal(back.limit_bps, 0);
    }
    assert_int_equal(hello_wishes_encode(&wishes, bytes, HELLO_WISHES_SIZE - 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clean_path_takes_one_round_trip),
        cmocka_unit_test(bad_paths_complete),
        cmocka_unit_test(a_refused_client_is_told_no_more),
        cmocka_unit_test(a_lost_refusal_is_repeated),
        cmocka_unit_test(another_servers_key_ends_it_on_both_sides),
        cmocka_unit_test(packets_without_the_ids_change_nothing),
        cmocka_unit_test(answers_from_elsewhere_are_ignored),
        cmocka_unit_test(a_busy_server_asks_for_a_cookie_first),
        cmocka_unit_test(a_cookie_is_for_one_place_id_and_time),
        cmocka_unit_test(a_flood_gets_cookies_and_nothing_else),
        cmocka_unit_test(cut_packets_are_none),
        cmocka_unit_test(fields_past_their_limits_are_refused),
        cmocka_unit_test(wishes_that_are_impossible_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
