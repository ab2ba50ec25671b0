/* Two sessions joined by a plain delay line: blocks both ways, loss, lanes, both kinds, endings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/pool.h"
#include "base/random.h"
#include "base/units.h"
#include "transport/lane_internal.h"
#include "transport/session_internal.h"

#define FLIGHT_MAX 65536
#define BLOCKS 24

struct flying {
    uint64_t due_ns;
    struct address from;
    size_t size;
    uint8_t *bytes;
};

struct end {
    struct session *session;
    struct address address[LANES_MAX];
    struct flying *flight; /* on the way to this end */
    size_t head, count;
};

struct pair {
    struct end client, server; /* the client sends files */
    struct random random;
    struct pool *pool;
    uint32_t loss;
    uint64_t delay_ns, now_ns;
    enum lane_kind kind;
    bool cut;     /* nothing passes */
    bool hoards;  /* the server grants nothing more */
    bool crowded; /* the server's lanes take no command in every other round */
    unsigned round;
    uint8_t *source;
    unsigned next_block, whole, released, acked;
    bool seen[BLOCKS], done, told;
    uint32_t length_last;
};

static void put(struct pair *pair, struct end *to, const struct address *from, const uint8_t *bytes,
                size_t size)
{
    if (pair->cut || (pair->kind == LANE_DATAGRAM && random_chance(&pair->random, pair->loss)))
        return;
    assert_true(to->count < FLIGHT_MAX);
    struct flying *flying = &to->flight[(to->head + to->count++) % FLIGHT_MAX];
    flying->due_ns = pair->now_ns + pair->delay_ns;
    flying->from = *from;
    flying->size = size;
    flying->bytes = malloc(size);
    memcpy(flying->bytes, bytes, size);
}

static void send_all(struct pair *pair, struct end *from, struct end *to)
{
    static struct lane_train train;
    for (unsigned i = 0; i < session_lane_count(from->session); i++) {
        struct lane *lane = session_lane(from->session, i);
        while (lane_send(lane, &train, SIZE_MAX, pair->now_ns)) {
            size_t segment = pair->kind == LANE_STREAM ? train.size : train.segment;
            for (size_t at = 0; at < train.size; at += segment) {
                size_t part = train.size - at < segment ? train.size - at : segment;
                put(pair, to, &from->address[i], train.bytes + at, part);
            }
        }
    }
}

static void receive_all(struct pair *pair, struct end *end)
{
    while (end->count > 0 && end->flight[end->head].due_ns <= pair->now_ns) {
        struct flying *flying = &end->flight[end->head];
        uint32_t id;
        if (pair->kind == LANE_STREAM) {
            assert_true(lane_receive_stream(session_lane(end->session, 0), flying->bytes,
                                            flying->size, pair->now_ns, NULL));
        } else if (lane_peek_connection_id(flying->bytes, flying->size, &id)) {
            struct lane *lane = session_lane(end->session, id & 15);
            lane_receive(lane, &flying->from, flying->bytes, flying->size, 0, pair->now_ns);
        }
        session_step(end->session, pair->now_ns);
        free(flying->bytes);
        end->head = (end->head + 1) % FLIGHT_MAX;
        end->count--;
    }
}

static uint32_t length_of(const struct pair *pair, unsigned block)
{
    return block == BLOCKS - 1 ? pair->length_last : BLOCK_SIZE;
}

static void feed_sender(struct pair *pair)
{
    struct session *session = pair->client.session;
    struct session_event event;
    while (session_next_event(session, &event)) {
        if (event.kind == SESSION_BLOCK_RELEASED)
            pair->released++;
        else if (event.kind == SESSION_BLOCK_ACKED)
            pair->acked++;
        else if (event.kind == SESSION_DONE_RECEIVED)
            pair->told = true;
    }
    while (pair->next_block < BLOCKS && session_wants_block(session)) {
        unsigned block = pair->next_block++;
        assert_true(session_send_block(session, block, block % 3 == 0, pair->source + block,
                                       length_of(pair, block), NULL));
        session_set_tail(session, pair->next_block == BLOCKS);
        session_step(session, pair->now_ns);
    }
}

static void feed_receiver(struct pair *pair)
{
    struct session *session = pair->server.session;
    struct session_event event;
    while (session_next_event(session, &event)) {
        if (event.kind != SESSION_BLOCK_WHOLE)
            continue;
        assert_true(event.block < BLOCKS);
        assert_false(pair->seen[event.block]);
        pair->seen[event.block] = true;
        assert_int_equal(event.packed, event.block % 3 == 0);
        assert_int_equal(event.length, length_of(pair, event.block));
        assert_memory_equal(event.bytes, pair->source + event.block, event.length);
        pair->whole++;
        if (pair->hoards)
            pool_give(pair->pool, event.bytes);
        else
            session_give_buffer(session, event.bytes);
    }
    if (pair->whole == BLOCKS && !pair->done) {
        pair->done = true;
        session_finish(session, 0, 1, BLOCKS, pair->now_ns);
    }
}

/* As while a lane's thread is busy elsewhere: no command finds room. */
static void crowd(struct session *session)
{
    for (unsigned i = 0; i < session_lane_count(session); i++) {
        struct command_state state = {.kind = COMMAND_STATE};
        while (session_command(&session->slots[i], &state, sizeof(state)))
            continue;
    }
}

static uint64_t deadline_of(struct end *end)
{
    uint64_t deadline = session_deadline(end->session);
    for (unsigned i = 0; i < session_lane_count(end->session); i++) {
        uint64_t lane = lane_deadline(session_lane(end->session, i));
        deadline = lane < deadline ? lane : deadline;
    }
    if (end->count > 0 && end->flight[end->head].due_ns < deadline)
        deadline = end->flight[end->head].due_ns;
    return deadline;
}

/* One round at the present time, then on to the next moment at which anything happens. */
static void advance(struct pair *pair)
{
    receive_all(pair, &pair->client);
    if (pair->crowded && pair->round++ % 2 == 0)
        crowd(pair->server.session);
    receive_all(pair, &pair->server);
    session_step(pair->client.session, pair->now_ns);
    session_step(pair->server.session, pair->now_ns);
    feed_sender(pair);
    feed_receiver(pair);
    send_all(pair, &pair->client, &pair->server);
    send_all(pair, &pair->server, &pair->client);
    uint64_t a = deadline_of(&pair->client), b = deadline_of(&pair->server);
    uint64_t next = a < b ? a : b;
    if (next <= pair->now_ns)
        next = pair->now_ns + 1000;
    if (next != TIME_NEVER)
        pair->now_ns = next;
}

static struct session *make(bool client, enum lane_kind kind, unsigned lanes,
                            const struct address *peer, uint64_t now_ns)
{
    struct session_config config = {.client = client,
                                    .role = client ? ROLE_SENDER : ROLE_RECEIVER,
                                    .suite = AEAD_AES_256_GCM,
                                    .peer_address = *peer,
                                    .kind = kind,
                                    .lanes = lanes,
                                    .rtt_ns = 20 * NS_PER_MS,
                                    .seed = 7};
    struct hello sender = {.lanes_max = 16, .connection_base = 0x1230, .datagram_max = 8973};
    struct hello receiver = sender;
    receiver.connection_base = 0x98760;
    receiver.credit = 8;
    config.own = client ? sender : receiver;
    config.peer = client ? receiver : sender;
    memset(config.secret, 42, sizeof(config.secret));
    struct error error = {0};
    struct session *session = session_new(&config, now_ns, &error);
    if (session == NULL)
        fail_msg("%s", error.text);
    return session;
}

static struct pair *pair_new(enum lane_kind kind, unsigned lanes, unsigned loss_percent,
                             uint64_t delay_ns)
{
    struct pair *pair = calloc(1, sizeof(*pair));
    pair->kind = kind;
    pair->loss = UINT32_MAX / 100 * loss_percent;
    pair->delay_ns = delay_ns;
    pair->now_ns = NS_PER_S;
    pair->length_last = 12345;
    random_seed(&pair->random, 1);
    pair->source = malloc(BLOCK_SIZE + BLOCKS);
    for (size_t i = 0; i < BLOCK_SIZE + BLOCKS; i++)
        pair->source[i] = (uint8_t)random_next(&pair->random);
    for (unsigned i = 0; i < LANES_MAX; i++) {
        pair->client.address[i] =
            (struct address){.family = 4, .bytes = {10, 0, 0, 1}, .port = (uint16_t)(5000 + i)};
        pair->server.address[i] =
            (struct address){.family = 4, .bytes = {10, 0, 0, 2}, .port = 60000};
    }
    pair->client.flight = calloc(FLIGHT_MAX, sizeof(struct flying));
    pair->server.flight = calloc(FLIGHT_MAX, sizeof(struct flying));
    pair->client.session = make(true, kind, lanes, &pair->server.address[0], pair->now_ns);
    pair->server.session = make(false, kind, lanes, &pair->client.address[0], pair->now_ns);
    pair->pool = pool_new(BLOCK_SIZE, 8);
    for (unsigned i = 0; i < 8; i++)
        session_give_buffer(pair->server.session, pool_take(pair->pool));
    return pair;
}

static void end_free(struct end *end)
{
    while (end->count > 0) {
        free(end->flight[end->head].bytes);
        end->head = (end->head + 1) % FLIGHT_MAX;
        end->count--;
    }
    free(end->flight);
}

static void pair_free(struct pair *pair)
{
    uint8_t *buffer;
    session_abort(pair->server.session, ERROR_INTERRUPTED, "the test is over", pair->now_ns);
    while ((buffer = session_reclaim(pair->server.session)) != NULL)
        pool_give(pair->pool, buffer);
    session_free(pair->client.session);
    session_free(pair->server.session);
    pool_free(pair->pool);
    end_free(&pair->client);
    end_free(&pair->server);
    free(pair->source);
    free(pair);
}

static void run_to_end(struct pair *pair, uint64_t limit_ns)
{
    uint64_t until = pair->now_ns + limit_ns;
    while (pair->now_ns < until &&
           (!session_is_closed(pair->client.session) || !session_is_closed(pair->server.session)))
        advance(pair);
    assert_int_equal(pair->whole, BLOCKS);
    assert_int_equal(pair->acked, BLOCKS);
    assert_int_equal(pair->released, BLOCKS);
    assert_true(pair->told);
    assert_int_equal(session_error(pair->client.session)->kind, ERROR_NONE);
    assert_int_equal(session_error(pair->server.session)->kind, ERROR_NONE);
}

static void moves_blocks(enum lane_kind kind, unsigned lanes, unsigned loss, uint64_t limit_ns)
{
    struct pair *pair = pair_new(kind, lanes, loss, 10 * NS_PER_MS);
    run_to_end(pair, limit_ns);
    struct session_statistics statistics;
    session_statistics(pair->client.session, &statistics);
    assert_int_equal(statistics.payload_acked, (BLOCKS - 1) * BLOCK_SIZE + 12345u);
    if (kind == LANE_DATAGRAM)
        assert_int_equal(statistics.datagram_size, 1472);
    pair_free(pair);
}

static void test_clean(void **state)
{
    (void)state;
    moves_blocks(LANE_DATAGRAM, 1, 0, 20 * NS_PER_S);
}

static void test_loss(void **state)
{
    (void)state;
    moves_blocks(LANE_DATAGRAM, 1, 10, 60 * NS_PER_S);
}

static void test_heavy_loss(void **state)
{
    (void)state;
    moves_blocks(LANE_DATAGRAM, 1, 30, 120 * NS_PER_S);
}

static void test_lanes(void **state)
{
    (void)state;
    moves_blocks(LANE_DATAGRAM, 4, 2, 60 * NS_PER_S);
}

static void test_lanes_without_room_for_commands(void **state)
{
    (void)state;
    struct pair *pair = pair_new(LANE_DATAGRAM, 4, 2, 10 * NS_PER_MS);
    pair->crowded = true;
    run_to_end(pair, 60 * NS_PER_S);
    pair_free(pair);
}

static void test_stream(void **state)
{
    (void)state;
    moves_blocks(LANE_STREAM, 1, 0, 20 * NS_PER_S);
}

static void test_outage(void **state)
{
    (void)state;
    struct pair *pair = pair_new(LANE_DATAGRAM, 1, 1, 10 * NS_PER_MS);
    while (pair->whole < 4)
        advance(pair);
    pair->cut = true;
    uint64_t until = pair->now_ns + 20 * NS_PER_S;
    while (pair->now_ns < until)
        advance(pair);
    pair->cut = false;
    run_to_end(pair, 60 * NS_PER_S);
    pair_free(pair);
}

static void test_lost_peer(void **state)
{
    (void)state;
    struct pair *pair = pair_new(LANE_DATAGRAM, 1, 0, 10 * NS_PER_MS);
    while (pair->whole < 4)
        advance(pair);
    pair->cut = true;
    uint64_t until = pair->now_ns + 200 * NS_PER_S;
    while (pair->now_ns < until &&
           (!session_is_closed(pair->client.session) || !session_is_closed(pair->server.session)))
        advance(pair);
    assert_int_equal(session_error(pair->client.session)->kind, ERROR_PEER_LOST);
    assert_int_equal(session_error(pair->server.session)->kind, ERROR_PEER_LOST);
    pair_free(pair);
}

static void test_abort(void **state)
{
    (void)state;
    struct pair *pair = pair_new(LANE_DATAGRAM, 1, 0, 10 * NS_PER_MS);
    while (pair->whole < 4)
        advance(pair);
    session_abort(pair->server.session, ERROR_NO_SPACE, "the disk is full", pair->now_ns);
    for (unsigned i = 0; i < 1000 && !session_is_closed(pair->client.session); i++)
        advance(pair);
    assert_int_equal(session_error(pair->client.session)->kind, ERROR_NO_SPACE);
    assert_string_equal(session_error(pair->client.session)->text, "the disk is full");
    assert_true(session_error_is_peers(pair->client.session));
    pair_free(pair);
}

/* ---- a peer that lies ---- */

/* Runs until the client has ended, and demands that it names the lie. */
static void expect_lie_named(struct pair *pair, const char *says)
{
    uint64_t until = pair->now_ns + 10 * NS_PER_S;
    while (pair->now_ns < until && !session_is_closed(pair->client.session))
        advance(pair);
    assert_int_equal(session_error(pair->client.session)->kind, ERROR_PROTOCOL);
    assert_non_null(strstr(session_error(pair->client.session)->text, says));
    pair_free(pair);
}

static void test_acks_of_what_was_never_sent(void **state)
{
    (void)state;
    struct pair *pair = pair_new(LANE_DATAGRAM, 1, 0, 10 * NS_PER_MS);
    while (pair->whole < 4)
        advance(pair);
    session_lane(pair->server.session, 0)->window.largest += 100000;
    expect_lie_named(pair, "acknowledged a packet that was never sent");
}

/* The sender takes it at its word, but gets no further ahead of what arrives. */
static void test_credit_past_reason(void **state)
{
    (void)state;
    struct pair *pair = pair_new(LANE_DATAGRAM, 1, 0, 10 * NS_PER_MS);
    pair->server.session->credit = UINT32_MAX;
    while (pair->whole < 1)
        advance(pair);
    assert_int_equal(pair->client.session->peer_credit, UINT32_MAX);
    pair->cut = true;
    uint64_t until = pair->now_ns + 20 * NS_PER_S;
    while (pair->now_ns < until)
        advance(pair);
    assert_true(pair->next_block < BLOCKS);
    pair_free(pair);
}

static void test_more_blocks_than_granted(void **state)
{
    (void)state;
    struct pair *pair = pair_new(LANE_DATAGRAM, 1, 0, 10 * NS_PER_MS);
    pair->client.session->peer_credit = UINT32_MAX;
    pair->hoards = true;
    uint64_t until = pair->now_ns + 10 * NS_PER_S;
    while (pair->now_ns < until && !session_is_closed(pair->server.session))
        advance(pair);
    assert_int_equal(session_error(pair->server.session)->kind, ERROR_PROTOCOL);
    assert_non_null(strstr(session_error(pair->server.session)->text, "than it was granted"));
    pair_free(pair);
}

static void test_control_stream(void **state)
{
    (void)state;
    struct pair *pair = pair_new(LANE_DATAGRAM, 1, 20, 10 * NS_PER_MS);
    enum { TOTAL = 3 * CONTROL_WINDOW };
    static uint8_t buffer[4096];
    size_t written = 0, read = 0;
    while (read < TOTAL) {
        for (size_t i = 0; i < sizeof(buffer); i++)
            buffer[i] = (uint8_t)((written + i) * 7 >> 3);
        size_t want = TOTAL - written < sizeof(buffer) ? TOTAL - written : sizeof(buffer);
        written += session_control_write(pair->client.session, buffer, want);
        size_t got = session_control_read(pair->server.session, buffer, sizeof(buffer));
        for (size_t i = 0; i < got; i++)
            assert_int_equal(buffer[i], (uint8_t)((read + i) * 7 >> 3));
        read += got;
        advance(pair);
        assert_true(pair->now_ns < 600 * NS_PER_S);
    }
    pair_free(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes_without_room_for_commands),
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_heavy_loss),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_outage),
        cmocka_unit_test(test_lost_peer),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_acks_of_what_was_never_sent),
        cmocka_unit_test(test_credit_past_reason),
        cmocka_unit_test(test_more_blocks_than_granted),
        cmocka_unit_test(test_control_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
