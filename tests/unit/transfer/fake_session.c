#include "fake_session.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transfer/byte_queue.h"
#include "unit.h"

#define BLOCKS_MAX 4096
#define EVENTS_MAX 4096
#define IN_FLIGHT_MAX 16

struct block {
    uint32_t number, length;
    bool packed, released, acked, arrived;
    uint8_t *bytes;
};

struct session {
    struct fake_wire *wire;
    struct session *peer;
    struct byte_queue inbox; /* control bytes towards this end */
    struct session_event events[EVENTS_MAX];
    size_t events_first, events_count;
    struct error error;
    bool closed, finished, aborted_by_peer;
    /* receiver */
    uint8_t *idle[1024];
    size_t idle_count;
    uint64_t granted;
    uint64_t received;
    /* sender */
    struct block flight[IN_FLIGHT_MAX * 8];
    size_t flight_count;
    uint64_t begun;
    bool tail;
    struct session_event done;
};

struct fake_wire {
    struct random random;
    struct session ends[2]; /* sender, receiver */
    bool hold_acks, cut;
    unsigned most_in_flight;
};

struct fake_wire *fake_wire_new(uint64_t seed)
{
    struct fake_wire *wire = calloc(1, sizeof *wire);
    assert_non_null(wire);
    random_seed(&wire->random, seed);
    for (int i = 0; i < 2; i++) {
        wire->ends[i].wire = wire;
        wire->ends[i].peer = &wire->ends[1 - i];
    }
    return wire;
}

void fake_wire_free(struct fake_wire *wire)
{
    if (wire == NULL)
        return;
    for (int i = 0; i < 2; i++)
        byte_queue_release(&wire->ends[i].inbox);
    free(wire);
}

struct session *fake_sender(struct fake_wire *wire)
{
    return &wire->ends[0];
}

struct session *fake_receiver(struct fake_wire *wire)
{
    return &wire->ends[1];
}

unsigned fake_most_in_flight(const struct fake_wire *wire)
{
    return wire->most_in_flight;
}

uint64_t fake_blocks_sent(const struct fake_wire *wire)
{
    return wire->ends[0].begun;
}

void fake_hold_acks(struct fake_wire *wire, bool hold)
{
    wire->hold_acks = hold;
}

static void put_event(struct session *session, struct session_event event)
{
    assert_true(session->events_count < EVENTS_MAX);
    session->events[(session->events_first + session->events_count++) % EVENTS_MAX] = event;
}

static void close_end(struct session *session)
{
    if (session->closed)
        return;
    session->closed = true;
    put_event(session, (struct session_event){.kind = SESSION_CLOSED});
}

void fake_wire_cut(struct fake_wire *wire)
{
    wire->cut = true;
    for (int i = 0; i < 2; i++) {
        if (wire->ends[i].closed)
            continue;
        error_set(&wire->ends[i].error, ERROR_PEER_LOST, "the peer fell silent");
        close_end(&wire->ends[i]);
    }
}

/* ---- the wire's moves ---- */

static void remove_block(struct session *sender, size_t index)
{
    sender->flight[index] = sender->flight[--sender->flight_count];
}

static bool deliver(struct session *sender, struct block *block)
{
    struct session *receiver = sender->peer;
    if (block->arrived || receiver->closed)
        return false;
    assert_true(receiver->idle_count > 0);
    uint8_t *bytes = receiver->idle[--receiver->idle_count];
    memcpy(bytes, block->bytes, block->length);
    block->arrived = true;
    receiver->received += block->length;
    put_event(receiver, (struct session_event){.kind = SESSION_BLOCK_WHOLE,
                                               .block = block->number,
                                               .packed = block->packed,
                                               .bytes = bytes,
                                               .length = block->length});
    return true;
}

static bool acknowledge(struct session *sender, size_t index)
{
    struct block *block = &sender->flight[index];
    if (!block->arrived || sender->wire->hold_acks || sender->closed)
        return false;
    /* The two events come in either order. */
    bool release_first = random_below(&sender->wire->random, 2) == 0;
    if (!block->released && (release_first || block->acked)) {
        put_event(sender, (struct session_event){.kind = SESSION_BLOCK_RELEASED,
                                                 .block = block->number,
                                                 .bytes = block->bytes});
        block->released = true;
    } else if (!block->acked) {
        put_event(sender, (struct session_event){.kind = SESSION_BLOCK_ACKED,
                                                 .block = block->number,
                                                 .length = block->length});
        block->acked = true;
    }
    if (block->released && block->acked)
        remove_block(sender, index);
    return true;
}

static bool say_done(struct session *sender)
{
    struct session *receiver = sender->peer;
    size_t size = byte_queue_size(&sender->inbox);
    if (!receiver->finished || sender->closed || size > 0)
        return false;
    put_event(sender, sender->done);
    close_end(sender);
    close_end(receiver);
    return true;
}

bool fake_wire_step(struct fake_wire *wire)
{
    struct session *sender = &wire->ends[0];
    if (wire->cut)
        return false;
    if (sender->flight_count > 0) {
        size_t start = random_below(&wire->random, sender->flight_count);
        for (size_t i = 0; i < sender->flight_count; i++) {
            size_t index = (start + i) % sender->flight_count;
            if (deliver(sender, &sender->flight[index]) || acknowledge(sender, index))
                return true;
        }
    }
    return say_done(sender);
}

void fake_say(struct session *to, const void *bytes, size_t size)
{
    if (size == 0)
        return;
    uint8_t *space = byte_queue_reserve(&to->inbox, size);
    assert_non_null(space);
    memcpy(space, bytes, size);
    byte_queue_commit(&to->inbox, size);
}

const uint8_t *fake_heard(const struct session *to, size_t *size)
{
    *size = byte_queue_size(&to->inbox);
    return *size > 0 ? byte_queue_front(&to->inbox) : NULL;
}

void fake_arrive(struct session *receiver, uint32_t block, bool packed, const uint8_t *bytes,
                 uint32_t length)
{
    assert_true(receiver->idle_count > 0);
    uint8_t *buffer = receiver->idle[--receiver->idle_count];
    memcpy(buffer, bytes, length);
    put_event(receiver, (struct session_event){.kind = SESSION_BLOCK_WHOLE,
                                               .block = block,
                                               .packed = packed,
                                               .bytes = buffer,
                                               .length = length});
}

/* ---- transport/session.h ---- */

bool session_next_event(struct session *session, struct session_event *event)
{
    if (session->events_count == 0)
        return false;
    *event = session->events[session->events_first];
    session->events_first = (session->events_first + 1) % EVENTS_MAX;
    session->events_count--;
    return true;
}

bool session_wants_block(const struct session *session)
{
    return !session->closed && session->begun < session->peer->granted &&
           session->flight_count < IN_FLIGHT_MAX;
}

bool session_send_block(struct session *session, uint32_t block, bool packed, uint8_t *bytes,
                        uint32_t length, struct error *error)
{
    assert_true(session_wants_block(session));
    assert_true(length > 0 && length <= BLOCK_SIZE && block < BLOCK_NUMBER_LIMIT);
    assert_int_equal(error->kind, ERROR_NONE);
    session->begun++;
    session->flight[session->flight_count++] =
        (struct block){.number = block, .length = length, .packed = packed, .bytes = bytes};
    if (session->flight_count > session->wire->most_in_flight)
        session->wire->most_in_flight = (unsigned)session->flight_count;
    return true;
}

void session_set_tail(struct session *session, bool tail)
{
    session->tail = tail;
}

void session_give_buffer(struct session *session, uint8_t *bytes)
{
    assert_non_null(bytes);
    assert_true(session->idle_count < 1024);
    session->idle[session->idle_count++] = bytes;
    session->granted++;
}

uint8_t *session_reclaim(struct session *session)
{
    return session->idle_count > 0 ? session->idle[--session->idle_count] : NULL;
}

size_t session_control_write(struct session *session, const void *bytes, size_t size)
{
    size_t held = byte_queue_size(&session->peer->inbox);
    if (session->closed || held >= CONTROL_WINDOW)
        return 0;
    if (size > CONTROL_WINDOW - held)
        size = CONTROL_WINDOW - held;
    size = 1 + random_below(&session->wire->random, size);
    fake_say(session->peer, bytes, size);
    return size;
}

size_t session_control_read(struct session *session, void *bytes, size_t capacity)
{
    size_t size = byte_queue_size(&session->inbox);
    if (size > capacity)
        size = capacity;
    if (size == 0 || session->closed)
        return 0;
    size = 1 + random_below(&session->wire->random, size);
    memcpy(bytes, byte_queue_front(&session->inbox), size);
    byte_queue_consume(&session->inbox, size);
    return size;
}

void session_finish(struct session *session, uint8_t result, uint64_t files, uint64_t blocks,
                    uint64_t now_ns)
{
    (void)now_ns;
    assert_false(session->finished);
    session->finished = true;
    session->peer->done = (struct session_event){
        .kind = SESSION_DONE_RECEIVED, .result = result, .files = files, .blocks = blocks};
}

void session_abort(struct session *session, enum error_kind kind, const char *text, uint64_t now_ns)
{
    (void)now_ns;
    assert_int_not_equal(kind, ERROR_NONE);
    if (session->closed)
        return;
    error_set(&session->error, kind, "%s", text);
    close_end(session);
    if (!session->peer->closed && !session->wire->cut) {
        error_set(&session->peer->error, kind, "%s", text);
        session->peer->aborted_by_peer = true;
        close_end(session->peer);
    }
}

bool session_is_closed(const struct session *session)
{
    return session->closed;
}

const struct error *session_error(const struct session *session)
{
    return &session->error;
}

bool session_error_is_peers(const struct session *session)
{
    return session->aborted_by_peer;
}

void session_statistics(const struct session *session, struct session_statistics *statistics)
{
    *statistics = (struct session_statistics){.payload_received = session->received,
                                              .rtt_ns = 10000000,
                                              .rtt_min_ns = 10000000,
                                              .lanes = 1};
}
