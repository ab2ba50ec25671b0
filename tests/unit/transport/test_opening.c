/* The opening over good, lossy, hostile and dead paths, and every way it can fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "opening_pair.h"
#include "transport/handshake_packet.h"

#define PERCENT(n) ((uint32_t)((n)*UINT64_C(42949673)))

static void expect_agreement(const struct pair *pair)
{
    const struct opening_result *a = opening_result(pair->client);
    const struct opening_result *b = opening_result(pair->server);

    assert_non_null(a);
    assert_non_null(b);
    assert_memory_equal(a->secret, b->secret, sizeof a->secret);
    assert_int_equal(a->peer.connection_base, 0x22222220);
    assert_int_equal(b->peer.connection_base, 0x11111110);
    assert_int_equal(a->version, 1);
    assert_int_equal(a->suite, b->suite);
    assert_null(opening_error(pair->client));
    assert_null(opening_error(pair->server));
}

static void a_clean_path_takes_one_round_trip(void **state)
{
    struct opening_config c = pair_config(true, 1), s = pair_config(false, 0);
    struct pair pair;
    struct address expected;

    (void)state;
    pair_init(&pair, &c, &s, 1);
    assert_true(pair_run(&pair, NS_PER_S));
    assert_int_equal(pair.now_ns, 1000 + 30 * NS_PER_MS); /* the server's moment: 1.5 RTT */
    assert_int_equal(pair.first_client_size, 1200);
    assert_int_equal(pair.sent_by_client, 2);
    expect_agreement(&pair);
    expected = pair_server_address(0);
    assert_true(address_equal(&opening_result(pair.client)->address, &expected));
    expected = pair_client_address(0);
    assert_true(address_equal(&opening_result(pair.server)->address, &expected));
    assert_int_equal(opening_result(pair.client)->rtt_ns, 20 * NS_PER_MS);
    assert_int_equal(opening_result(pair.server)->rtt_ns, 20 * NS_PER_MS);
    assert_int_equal(opening_result(pair.client)->suite, AEAD_AES_256_GCM);
    pair_run_until(&pair, 5 * NS_PER_S); /* silence follows: nothing is left to say */
    assert_int_equal(pair.sent_by_client, 2);
    assert_int_equal(pair.sent_by_server, 2);
    assert_true(opening_deadline(pair.client) == TIME_NEVER);
    assert_true(opening_deadline(pair.server) == TIME_NEVER);
    pair_release(&pair);
}

/* How often both ends finished, of `rounds` seeds; what finishes, agrees. */
static void expect_completion(uint32_t loss, uint32_t doubling, uint64_t jitter_ns,
                              uint32_t attacks, unsigned rounds)
{
    for (unsigned seed = 0; seed < rounds; seed++) {
        struct opening_config c = pair_config(true, 1 + seed % 2), s = pair_config(false, 0);
        struct pair pair;
        c.timeout_ns = s.timeout_ns = 60 * NS_PER_S;
        pair_init(&pair, &c, &s, seed);
        pair.loss = loss;
        pair.doubling = doubling;
        pair.jitter_ns = jitter_ns;
        pair.forging = pair.replaying = attacks;
        assert_true(pair_run(&pair, 30 * NS_PER_S));
        expect_agreement(&pair);
        pair_run_until(&pair, pair.now_ns + 30 * NS_PER_S); /* and it comes to rest */
        assert_true(pair.sent_by_client + pair.sent_by_server < 600);
        pair_release(&pair);
    }
}

static void loss_of_30_percent_both_ways_completes(void **state)
{
    (void)state;
    expect_completion(PERCENT(30), 0, 0, 0, 100);
}

static void doubled_and_reordered_completes(void **state)
{
    (void)state;
    expect_completion(0, PERCENT(50), 200 * NS_PER_MS, 0, 50);
    expect_completion(PERCENT(30), PERCENT(30), 100 * NS_PER_MS, 0, 50);
}

static void attacked_path_completes(void **state)
{
    (void)state;
    expect_completion(0, 0, 0, PERCENT(100), 50);
    expect_completion(PERCENT(30), PERCENT(30), 50 * NS_PER_MS, PERCENT(70), 100);
}

static void the_first_answer_wins(void **state)
{
    struct opening_config c = pair_config(true, 4), s = pair_config(false, 0);
    struct pair pair;
    struct address expected = pair_server_address(2);

    (void)state;
    pair_init(&pair, &c, &s, 1);
    pair.delay_ns[0] = 0; /* dead */
    pair.delay_ns[1] = 60 * NS_PER_MS;
    pair.delay_ns[2] = 5 * NS_PER_MS;
    pair.delay_ns[3] = 40 * NS_PER_MS;
    assert_true(pair_run(&pair, NS_PER_S));
    expect_agreement(&pair);
    assert_true(address_equal(&opening_result(pair.client)->address, &expected));
    expected = pair_client_address(2);
    assert_true(address_equal(&opening_result(pair.server)->address, &expected));
    assert_true(pair.now_ns < 20 * NS_PER_MS);
    pair_run_until(&pair, 2 * NS_PER_S); /* answers on the slow paths change nothing */
    expect_agreement(&pair);
    assert_true(address_equal(&opening_result(pair.server)->address, &expected));
    pair_release(&pair);
}

static void an_unreachable_server_is_named(void **state)
{
    struct opening_config c = pair_config(true, 2), s = pair_config(false, 0);
    struct pair pair;

    (void)state;
    pair_init(&pair, &c, &s, 1);
    pair.delay_ns[0] = pair.delay_ns[1] = 0;
    assert_true(pair_run(&pair, 11 * NS_PER_S));
    assert_int_equal(opening_state(pair.client), OPENING_FAILED);
    assert_int_equal(opening_error(pair.client)->kind, ERROR_UNREACHABLE);
    assert_non_null(strstr(opening_error(pair.client)->text,
                           "no answer from UDP 192.0.2.1:60001, 192.0.2.2:60001"));
    assert_int_equal(opening_error(pair.server)->kind, ERROR_UNREACHABLE);
    assert_null(opening_result(pair.client));
    /* 100 ms, doubling up to 2 s: 0, .1, .3, .7, 1.5, 3.1, 5.1, 7.1, 9.1 */
    assert_int_equal(pair.sent_by_client, 2 * 9);
    pair_release(&pair);
}

static void many_addresses_are_cut_readably(void **state)
{
    struct opening_config c = pair_config(true, 1);
    struct opening *client;
    struct address to;
    uint8_t bytes[1300];

    (void)state;
    c.candidate_count = 16;
    for (unsigned i = 0; i < 16; i++) {
        c.candidates[i] = (struct address){.family = 6, .port = 60000, .scope = i};
        memset(c.candidates[i].bytes, 0xab, 16);
    }
    client = opening_new(&c, 0, NULL);
    assert_int_equal(opening_send(client, &to, bytes, sizeof bytes, 10 * NS_PER_S), 0);
    assert_non_null(strstr(opening_error(client)->text, "more within 10 s"));
    opening_free(client);
    c.candidate_count = 0;
    assert_null(opening_new(&c, 0, NULL));
}

static void a_known_rtt_sets_the_timer(void **state)
{
    struct opening_config c = pair_config(true, 1);
    struct opening *client;
    struct address to;
    uint8_t bytes[1300];

    (void)state;
    c.rtt_ns = 200 * NS_PER_MS;
    client = opening_new(&c, 0, NULL);
    assert_int_equal(opening_deadline(client), 0);
    assert_int_equal(opening_send(client, &to, bytes, sizeof bytes, 5), 1200);
    assert_int_equal(opening_send(client, &to, bytes, sizeof bytes, 5), 0);
    assert_int_equal(opening_deadline(client), 300 * NS_PER_MS + 5);
    opening_free(client);
}

static void expect_both_fail(const struct opening_config *c, const struct opening_config *s,
                             enum error_kind kind, const char *client_says, const char *server_says)
{
    struct pair pair;
    pair_init(&pair, c, s, 1);
    assert_true(pair_run(&pair, 11 * NS_PER_S));
    assert_int_equal(opening_state(pair.client), OPENING_FAILED);
    assert_int_equal(opening_state(pair.server), OPENING_FAILED);
    assert_int_equal(opening_error(pair.client)->kind, kind);
    assert_int_equal(opening_error(pair.server)->kind, kind);
    assert_non_null(strstr(opening_error(pair.client)->text, client_says));
    assert_non_null(strstr(opening_error(pair.server)->text, server_says));
    pair_run_until(&pair, 12 * NS_PER_S);
    assert_true(opening_deadline(pair.client) == TIME_NEVER);
    pair_release(&pair);
}

static void versions_without_overlap_are_named(void **state)
{
    struct opening_config c = pair_config(true, 1), s = pair_config(false, 0);
    (void)state;
    c.hello.version_min = 2;
    c.hello.version_max = 3;
    expect_both_fail(&c, &s, ERROR_VERSION, "speaks 2 to 3, the peer 1 to 1",
                     "speaks 1 to 1, the peer 2 to 3");
}

static void equal_roles_are_refused(void **state)
{
    struct opening_config c = pair_config(true, 1), s = pair_config(false, 0);
    (void)state;
    s.hello.role = ROLE_SENDER;
    expect_both_fail(&c, &s, ERROR_PROTOCOL, "both ends want to send", "both ends want to send");
}

static void without_the_secret_there_is_silence(void **state)
{
    struct opening_config c = pair_config(true, 1), s = pair_config(false, 0);
    struct pair pair;

    (void)state;
    s.secret[31] ^= 1;
    expect_both_fail(&c, &s, ERROR_UNREACHABLE, "no answer", "no client");
    s = pair_config(false, 0);
    s.session_id[0] ^= 1;
    pair_init(&pair, &c, &s, 1);
    pair_run_until(&pair, 5 * NS_PER_S);
    assert_int_equal(pair.sent_by_server, 0);
    pair_release(&pair);
}

static void chacha20_without_aes_hardware(void **state)
{
    struct opening_config c = pair_config(true, 1), s = pair_config(false, 0);
    struct pair pair;
    (void)state;
    s.hello.aes_hardware = false;
    pair_init(&pair, &c, &s, 1);
    assert_true(pair_run(&pair, NS_PER_S));
    expect_agreement(&pair);
    assert_int_equal(opening_result(pair.server)->suite, AEAD_CHACHA20_POLY1305);
    pair_release(&pair);
}

/* The client's datagrams arrive, but it hears nothing: what the server sends stays bounded. */
static void a_silent_victim_is_not_flooded(void **state)
{
    struct opening_config c = pair_config(true, 1), s = pair_config(false, 0);
    struct pair pair;
    struct address to, from = pair_client_address(0);
    uint8_t first[1300], bytes[1300];
    size_t first_size, size, total = 0;

    (void)state;
    s.timeout_ns = 60 * NS_PER_S;
    pair_init(&pair, &c, &s, 1);
    first_size = opening_send(pair.client, &to, first, sizeof first, 0);
    for (uint64_t now = 0; now < 60 * NS_PER_S; now += 50 * NS_PER_MS) {
        opening_receive(pair.server, &from, first, first_size, now); /* the same one, again */
        while ((size = opening_send(pair.server, &to, bytes, sizeof bytes, now)) > 0)
            total += size;
    }
    assert_true(total > 0 && total <= 3 * first_size);
    pair_release(&pair);
}

/* Hands everything that `from` has to say to `to`. Returns how many datagrams. */
static unsigned hand_over(struct opening *from, struct opening *to, bool from_client, uint64_t now)
{
    struct address where, source = from_client ? pair_client_address(0) : pair_server_address(0);
    uint8_t bytes[1300];
    size_t size;
    unsigned count = 0;
    while ((size = opening_send(from, &where, bytes, sizeof bytes, now)) > 0) {
        count++;
        if (to != NULL)
            assert_true(opening_receive(to, &source, bytes, size, now));
    }
    return count;
}

static void the_last_flight_is_repeated_until_confirmed(void **state)
{
    struct opening_config c = pair_config(true, 1), s = pair_config(false, 0);
    struct pair pair;

    (void)state;
    pair_init(&pair, &c, &s, 1);
    opening_resend_last(pair.client); /* nothing yet */
    hand_over(pair.client, pair.server, true, 1);
    hand_over(pair.server, pair.client, false, 2);
    assert_int_equal(opening_state(pair.client), OPENING_FINISHED);
    assert_int_equal(opening_state(pair.server), OPENING_RUNNING);
    assert_int_equal(hand_over(pair.client, NULL, true, 3), 1); /* lost */
    assert_int_equal(hand_over(pair.client, NULL, true, 3), 0);
    opening_resend_last(pair.client);
    assert_int_equal(hand_over(pair.client, NULL, true, 4), 1); /* lost */
    opening_resend_last(pair.client);
    assert_int_equal(hand_over(pair.client, pair.server, true, 5), 1);
    assert_int_equal(opening_state(pair.server), OPENING_FINISHED);
    opening_resend_last(pair.client);
    assert_int_equal(hand_over(pair.client, NULL, true, 6), 1);
    opening_confirm(pair.client);
    opening_resend_last(pair.client);
    assert_int_equal(hand_over(pair.client, NULL, true, 7), 0);
    assert_true(opening_deadline(pair.client) == TIME_NEVER);
    pair_release(&pair);
}

static void an_acknowledgement_confirms_too(void **state)
{
    struct opening_config c = pair_config(true, 1), s = pair_config(false, 0);
    struct pair pair;

    (void)state;
    pair_init(&pair, &c, &s, 1);
    opening_confirm(pair.client); /* too early: no effect */
    hand_over(pair.client, pair.server, true, 1);
    hand_over(pair.server, pair.client, false, 2);
    hand_over(pair.client, pair.server, true, 3);
    hand_over(pair.server, pair.client, false, 4);
    opening_resend_last(pair.client);
    assert_int_equal(hand_over(pair.client, NULL, true, 5), 0);
    pair_release(&pair);
}

static void late_repeats_are_answered(void **state)
{
    struct opening_config c = pair_config(true, 1), s = pair_config(false, 0);
    struct pair pair;

    (void)state;
    pair_init(&pair, &c, &s, 1);
    hand_over(pair.client, pair.server, true, 1);
    hand_over(pair.server, pair.client, false, 2);
    assert_int_equal(hand_over(pair.client, NULL, true, 3), 1); /* Finished is lost */
    /* The server repeats its flight; the finished client says its last again. */
    assert_int_equal(hand_over(pair.server, pair.client, false, 2 + NS_PER_S), 1);
    assert_int_equal(hand_over(pair.client, pair.server, true, 2 + NS_PER_S), 1);
    assert_int_equal(opening_state(pair.server), OPENING_FINISHED);
    /* Its acknowledgement is lost; the client repeats; the finished server acknowledges. */
    assert_int_equal(hand_over(pair.server, NULL, false, 3 * NS_PER_S), 1);
    assert_int_equal(hand_over(pair.client, pair.server, true, 9 * NS_PER_S), 1);
    assert_int_equal(hand_over(pair.server, pair.client, false, 9 * NS_PER_S), 1);
    assert_int_equal(hand_over(pair.client, NULL, true, 20 * NS_PER_S), 0);
    pair_release(&pair);
}

static void a_peer_that_falls_silent_half_way(void **state)
{
    struct opening_config c = pair_config(true, 1), s = pair_config(false, 0);
    struct pair pair;

    (void)state;
    pair_init(&pair, &c, &s, 1);
    hand_over(pair.client, pair.server, true, 1);
    hand_over(pair.server, NULL, false, 11 * NS_PER_S);
    assert_int_equal(opening_error(pair.server)->kind, ERROR_PEER_LOST);
    pair_release(&pair);
}

static void a_stream_has_no_padding_and_no_timers(void **state)
{
    struct opening_config c = pair_config(true, 0), s = pair_config(false, 0);
    struct opening *client, *server;
    struct address to = {.family = 9};
    uint8_t bytes[STREAM_PACKET_MAX];
    size_t size;

    (void)state;
    c.stream = s.stream = true;
    client = opening_new(&c, 0, NULL);
    server = opening_new(&s, 0, NULL);
    assert_int_equal(opening_send(server, &to, bytes, sizeof bytes, 0), 0);
    size = opening_send(client, &to, bytes, sizeof bytes, 0);
    assert_true(size > 100 && size < 1200);
    assert_int_equal(to.family, 0);
    assert_int_equal(opening_send(client, &to, bytes, sizeof bytes, 5 * NS_PER_S), 0);
    assert_int_equal(opening_deadline(client), c.timeout_ns);
    assert_true(opening_receive(server, NULL, bytes, size, 1));
    size = opening_send(server, &to, bytes, sizeof bytes, 1);
    assert_true(opening_receive(client, NULL, bytes, size, 7));
    assert_int_equal(opening_state(client), OPENING_FINISHED);
    assert_int_equal(opening_result(client)->rtt_ns, 7);
    size = opening_send(client, &to, bytes, sizeof bytes, 7);
    assert_true(opening_receive(server, NULL, bytes, size, 8));
    assert_int_equal(opening_state(server), OPENING_FINISHED);
    opening_resend_last(client);
    assert_int_equal(opening_send(client, &to, bytes, sizeof bytes, 9), 0);
    assert_int_equal(opening_send(server, &to, bytes, sizeof bytes, 9), 0);
    assert_memory_equal(opening_result(client)->secret, opening_result(server)->secret, 32);
    assert_true(opening_deadline(client) == TIME_NEVER);
    opening_free(client);
    opening_free(server);
    opening_free(NULL);
}

/* A client that says something each second, and never what would end the handshake, gets no more
 * time than one that is silent. */
static void who_only_dawdles_is_not_waited_for(void **state)
{
    (void)state;
    for (unsigned stream = 0; stream < 2; stream++) {
        struct opening_config c = pair_config(true, stream ? 0 : 1), s = pair_config(false, 0);
        c.stream = s.stream = stream;
        struct opening *client = opening_new(&c, 0, NULL), *server = opening_new(&s, 0, NULL);
        struct address to, from = pair_client_address(0);
        uint8_t first[STREAM_PACKET_MAX], bytes[STREAM_PACKET_MAX];
        size_t size = opening_send(client, &to, first, 1300, 0);
        uint64_t now_ns = 0;
        for (; now_ns < 60 * NS_PER_S && opening_state(server) == OPENING_RUNNING;
             now_ns += NS_PER_S) {
            opening_receive(server, stream ? NULL : &from, first, size, now_ns);
            while (opening_send(server, &to, bytes, sizeof bytes, now_ns) > 0)
                continue;
        }
        assert_int_equal(opening_state(server), OPENING_FAILED);
        assert_int_equal(opening_error(server)->kind, ERROR_PEER_LOST);
        assert_true(now_ns <= s.timeout_ns + 2 * NS_PER_S);
        opening_free(client);
        opening_free(server);
    }
}

static void a_stream_refuses_a_stranger(void **state)
{
    struct opening_config c = pair_config(true, 0), s = pair_config(false, 0);
    struct opening *client, *server;
    struct address to;
    uint8_t bytes[STREAM_PACKET_MAX];
    size_t size;

    (void)state;
    c.stream = s.stream = true;
    s.secret[0] ^= 1;
    client = opening_new(&c, 0, NULL);
    server = opening_new(&s, 0, NULL);
    size = opening_send(client, &to, bytes, sizeof bytes, 0);
    assert_false(opening_receive(server, NULL, bytes, size, 0));
    assert_int_equal(opening_error(server)->kind, ERROR_CRYPTO);
    opening_free(client);
    opening_free(server);
}

/* An end that can seal handshake packets, but whose TLS holds another secret; or that says
 * whatever the test wants. */
struct stranger {
    struct packet_keys *sealing, *opening;
    struct opening_config config;
    struct handshake *tls;
    uint64_t number;
    uint32_t offset;
};

static struct stranger stranger_new(bool client)
{
    struct stranger stranger = {.config = pair_config(client, 1)};
    const uint8_t *secret = stranger.config.secret, *id = stranger.config.session_id;
    uint8_t other[32] = "another one than the handshake's";
    stranger.sealing =
        packet_keys_new_handshake(secret, id, client ? CLIENT_TO_SERVER : SERVER_TO_CLIENT, NULL);
    stranger.opening =
        packet_keys_new_handshake(secret, id, client ? SERVER_TO_CLIENT : CLIENT_TO_SERVER, NULL);
    stranger.tls = handshake_new_psk(client, other, id, NULL);
    return stranger;
}

static void stranger_free(struct stranger *stranger)
{
    packet_keys_free(stranger->sealing);
    packet_keys_free(stranger->opening);
    handshake_free(stranger->tls);
}

static void stranger_says(struct stranger *stranger, struct opening *to, const uint8_t *bytes,
                          size_t size)
{
    struct address from = stranger->config.client ? pair_client_address(0) : pair_server_address(0);
    struct handshake_packet packet = {.number = stranger->number++,
                                      .offset = stranger->offset,
                                      .bytes = bytes,
                                      .length = (uint16_t)size};
    uint8_t sealed[STREAM_PACKET_MAX];
    size_t sealed_size = handshake_packet_seal(stranger->sealing, stranger->config.session_id,
                                               &packet, 0, sealed, sizeof sealed);
    assert_true(sealed_size > 0);
    assert_true(opening_receive(to, &from, sealed, sealed_size, 1));
    stranger->offset += (uint32_t)size;
}

static size_t stranger_stream(struct stranger *stranger, uint8_t *bytes, size_t capacity)
{
    bytes[0] = 0;
    bytes[1] = HELLO_SIZE;
    hello_encode(&stranger->config.hello, bytes + 2, HELLO_SIZE);
    return 2 + HELLO_SIZE +
           handshake_send(stranger->tls, bytes + 2 + HELLO_SIZE, capacity - 2 - HELLO_SIZE);
}

static void a_wrong_proof_of_the_client_is_refused(void **state)
{
    struct stranger stranger = stranger_new(true);
    struct opening_config s = pair_config(false, 0);
    struct opening *server = opening_new(&s, 0, NULL);
    uint8_t bytes[2000];

    (void)state;
    stranger_says(&stranger, server, bytes, stranger_stream(&stranger, bytes, sizeof bytes));
    assert_int_equal(opening_state(server), OPENING_FAILED);
    assert_int_equal(opening_error(server)->kind, ERROR_CRYPTO);
    assert_int_equal(hand_over(server, NULL, false, 2), 1); /* the alert */
    assert_int_equal(hand_over(server, NULL, false, 9 * NS_PER_S), 0);
    opening_free(server);
    stranger_free(&stranger);
}

static void a_wrong_proof_of_the_server_is_refused(void **state)
{
    struct stranger stranger = stranger_new(false);
    struct opening_config c = pair_config(true, 1);
    struct opening *client = opening_new(&c, 0, NULL);
    struct handshake_packet packet;
    struct address to;
    uint8_t bytes[2000], plain[STREAM_PACKET_MAX];
    size_t size = opening_send(client, &to, bytes, sizeof bytes, 0);

    (void)state;
    assert_int_equal(handshake_packet_open(stranger.opening, stranger.config.session_id, bytes,
                                           size, plain, &packet),
                     HANDSHAKE_PACKET_GOOD);
    handshake_receive(stranger.tls, packet.bytes + 2 + HELLO_SIZE,
                      (size_t)packet.length - 2 - HELLO_SIZE, NULL);
    stranger_says(&stranger, client, bytes, stranger_stream(&stranger, bytes, sizeof bytes));
    assert_int_equal(opening_state(client), OPENING_FAILED);
    assert_int_equal(opening_error(client)->kind, ERROR_CRYPTO);
    opening_free(client);
    stranger_free(&stranger);
}

static void expect_protocol_error(const uint8_t *bytes, size_t size, uint32_t offset)
{
    struct stranger stranger = stranger_new(true);
    struct opening_config s = pair_config(false, 0);
    struct opening *server = opening_new(&s, 0, NULL);

    stranger.offset = offset;
    stranger_says(&stranger, server, bytes, size);
    assert_int_equal(opening_state(server), OPENING_FAILED);
    assert_int_equal(opening_error(server)->kind, ERROR_PROTOCOL);
    opening_free(server);
    stranger_free(&stranger);
}

static void impossible_streams_are_refused(void **state)
{
    static const uint8_t no_hello[] = {0, 0, 1}, long_hello[] = {4, 1}, noise[21] = {0, 19, 'q'};
    (void)state;
    expect_protocol_error(no_hello, 2, 0);
    expect_protocol_error(no_hello, 3, 0);
    expect_protocol_error(long_hello, 2, 0);
    expect_protocol_error(noise, 21, 0);
    expect_protocol_error(noise, 2, HANDSHAKE_STREAM_MAX - 1);
    expect_protocol_error(noise, 0, HANDSHAKE_STREAM_MAX + 1);
}

/* A sealed body of `size` bytes as it stands. */
static enum handshake_packet_result open_body(const uint8_t *body, size_t size)
{
    struct stranger stranger = stranger_new(true);
    struct packet_keys *reader = packet_keys_new_handshake(
        stranger.config.secret, stranger.config.session_id, CLIENT_TO_SERVER, NULL);
    uint8_t bytes[300] = {HANDSHAKE_PACKET_TYPE}, plain[STREAM_PACKET_MAX];
    struct handshake_packet packet;
    enum handshake_packet_result result;

    memcpy(bytes + 1, stranger.config.session_id, SESSION_ID_SIZE);
    assert_true(packet_keys_seal(stranger.sealing, 0, bytes, HANDSHAKE_CLEAR_SIZE, body, size,
                                 bytes + HANDSHAKE_CLEAR_SIZE));
    result = handshake_packet_open(reader, stranger.config.session_id, bytes,
                                   HANDSHAKE_CLEAR_SIZE + size + PACKET_TAG_SIZE, plain, &packet);
    packet_keys_free(reader);
    stranger_free(&stranger);
    return result;
}

static void packet_bodies_have_limits(void **state)
{
    uint8_t body[30] = {0, 0, 0, 7, 0, 0, 0, 9, 0, 20};
    (void)state;
    assert_int_equal(open_body(body, 30), HANDSHAKE_PACKET_GOOD);
    for (size_t size = 10; size < 30; size++)
        assert_int_equal(open_body(body, size), HANDSHAKE_PACKET_MALFORMED);
    for (size_t size = 0; size < 10; size++)
        assert_int_equal(open_body(body, size), HANDSHAKE_PACKET_NOT_OURS);
    body[9] = 21;
    assert_int_equal(open_body(body, 30), HANDSHAKE_PACKET_MALFORMED);
    body[8] = 255;
    assert_int_equal(open_body(body, 30), HANDSHAKE_PACKET_MALFORMED);
    memset(body, 0, sizeof body);
    body[1] = 1; /* 65536 acknowledged */
    assert_int_equal(open_body(body, 30), HANDSHAKE_PACKET_GOOD);
    body[3] = 1;
    assert_int_equal(open_body(body, 30), HANDSHAKE_PACKET_MALFORMED);
}

/* More acknowledged than was said. */
static void false_acknowledgements_are_refused(void **state)
{
    struct stranger stranger = stranger_new(false);
    struct opening_config c = pair_config(true, 1);
    struct opening *client = opening_new(&c, 0, NULL);
    struct handshake_packet packet = {.acknowledged = 9000};
    struct address from = pair_server_address(0);
    uint8_t sealed[200];
    size_t size = handshake_packet_seal(stranger.sealing, stranger.config.session_id, &packet, 0,
                                        sealed, sizeof sealed);
    (void)state;
    assert_true(opening_receive(client, &from, sealed, size, 1));
    assert_int_equal(opening_error(client)->kind, ERROR_PROTOCOL);
    opening_free(client);
    stranger_free(&stranger);
}

static void each_changed_byte_is_dropped(void **state)
{
    struct opening_config c = pair_config(true, 1), s = pair_config(false, 0);
    struct address to, from = pair_client_address(0);
    uint8_t bytes[1300];
    struct pair pair;
    size_t size;

    (void)state;
    pair_init(&pair, &c, &s, 1);
    size = opening_send(pair.client, &to, bytes, sizeof bytes, 0);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x10;
        assert_false(opening_receive(pair.server, &from, bytes, size, 0));
        bytes[i] ^= 0x10;
        assert_false(opening_receive(pair.server, &from, bytes, i, 0));
    }
    assert_int_equal(opening_send(pair.server, &to, bytes + 600, 1200 - 600, 0), 0);
    assert_true(opening_receive(pair.server, &from, bytes, size, 0));
    pair_release(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clean_path_takes_one_round_trip),
        cmocka_unit_test(loss_of_30_percent_both_ways_completes),
        cmocka_unit_test(doubled_and_reordered_completes),
        cmocka_unit_test(attacked_path_completes),
        cmocka_unit_test(the_first_answer_wins),
        cmocka_unit_test(an_unreachable_server_is_named),
        cmocka_unit_test(many_addresses_are_cut_readably),
        cmocka_unit_test(a_known_rtt_sets_the_timer),
        cmocka_unit_test(versions_without_overlap_are_named),
        cmocka_unit_test(equal_roles_are_refused),
        cmocka_unit_test(without_the_secret_there_is_silence),
        cmocka_unit_test(chacha20_without_aes_hardware),
        cmocka_unit_test(a_silent_victim_is_not_flooded),
        cmocka_unit_test(the_last_flight_is_repeated_until_confirmed),
        cmocka_unit_test(an_acknowledgement_confirms_too),
        cmocka_unit_test(late_repeats_are_answered),
        cmocka_unit_test(a_peer_that_falls_silent_half_way),
        cmocka_unit_test(a_stream_has_no_padding_and_no_timers),
        cmocka_unit_test(who_only_dawdles_is_not_waited_for),
        cmocka_unit_test(a_stream_refuses_a_stranger),
        cmocka_unit_test(a_wrong_proof_of_the_client_is_refused),
        cmocka_unit_test(a_wrong_proof_of_the_server_is_refused),
        cmocka_unit_test(impossible_streams_are_refused),
        cmocka_unit_test(packet_bodies_have_limits),
        cmocka_unit_test(false_acknowledgements_are_refused),
        cmocka_unit_test(each_changed_byte_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
