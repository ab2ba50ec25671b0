/* A worker's receiving side: whom each datagram is for. */
#include "net/worker_internal.h"

#define UNOPENED_MAX 8u

static struct worker_lane *find_lane(struct worker *worker, uint32_t id)
{
    uint32_t index = id - worker->connection_base;
    if (!worker->has_base || index >= LANES_MAX)
        return NULL;
    return worker->lanes[index].lane != NULL ? &worker->lanes[index] : NULL;
}

static size_t datagram_size(const struct udp_message *message, size_t at)
{
    size_t left = message->size - at;
    return left < message->segment ? left : message->segment;
}

/* The end of the run of datagrams from `at` on that are for the same connection id. */
static size_t same_lane_end(const struct udp_message *message, size_t at, uint32_t id)
{
    uint32_t other;
    do
        at += datagram_size(message, at);
    while (at < message->size &&
           lane_peek_connection_id(message->bytes + at, datagram_size(message, at), &other) &&
           other == id);
    return at;
}

/* Hands the parts of one message to whom they are for. True when any of it was genuine. */
static bool route_message(struct worker *worker, const struct udp_message *message,
                          struct worker_lane **last, uint64_t now_ns)
{
    bool genuine = false;
    size_t at = 0;
    while (at < message->size) {
        uint32_t id;
        uint8_t *bytes = message->bytes + at;
        size_t size = datagram_size(message, at);
        if (!lane_peek_connection_id(bytes, size, &id)) {
            at += size;
            genuine |=
                worker->hooks.on_other != NULL &&
                worker->hooks.on_other(worker->hooks.context, &message->from, bytes, size, now_ns);
            continue;
        }
        size_t end = same_lane_end(message, at, id);
        struct worker_lane *slot = find_lane(worker, id);
        if (slot != NULL)
            lane_note_wait(slot->lane, message->waited_ns);
        if (slot != NULL &&
            lane_receive(slot->lane, &message->from, bytes, end - at, message->segment, now_ns)) {
            genuine = true;
            *last = slot;
            worker->heard++;
        }
        at = end;
    }
    return genuine;
}

static void note_genuine(struct worker_socket *socket, const struct udp_message *message)
{
    socket->reopenings = 0;
    if (message->local.family == 0 || (address_equal(&socket->last_from, &message->from) &&
                                       address_equal(&socket->last_local, &message->local)))
        return;
    socket->last_from = message->from;
    socket->last_local = message->local;
    udp_answer_from(socket->udp, &message->from, &message->local);
}

/* A train whose place to cut it got lost looks like one large datagram, and none of it opens. What
 * came alone may well open between, or be a copy of another: only a train that was cut proves that
 * trains are. */
static void watch_coalescing(struct worker_socket *socket, const struct udp_message *message,
                             bool genuine)
{
    bool cut = message->segment < message->size;
    if (cut || genuine || message->size < 2 * DATAGRAM_MIN) {
        socket->unopened = cut && genuine ? 0 : socket->unopened;
        return;
    }
    if (++socket->unopened < UNOPENED_MAX)
        return;
    socket->unopened = 0;
    udp_stop_coalescing(socket->udp);
}

static void note_drops(struct worker_socket *socket, struct worker_lane *lane)
{
    struct udp_statistics statistics;
    udp_get_statistics(socket->udp, &statistics);
    uint32_t fresh = statistics.drops - socket->drops;
    if (fresh == 0 || lane == NULL)
        return;
    socket->drops = statistics.drops;
    lane->drops += fresh;
    lane_note_socket_drops(lane->lane, lane->drops);
}

/* True when every lane here could take this message without dropping any of it because the session
 * is behind with what was reported before. */
static bool lanes_have_room(const struct worker *worker, const struct udp_message *message)
{
    size_t packets = (message->size + message->segment - 1) / message->segment;
    for (unsigned i = 0; i < LANES_MAX; i++)
        if (worker->lanes[i].lane != NULL &&
            !lane_can_receive(worker->lanes[i].lane, message->size, packets))
            return false;
    return true;
}

/* The rest of the batch, message by message. While the session is behind, what follows waits here
 * and in the socket's buffer. */
static bool take_batch(struct worker *worker, uint64_t now_ns)
{
    struct worker_socket *socket = worker->batch_socket;
    struct worker_lane *last = NULL;
    bool any = false;
    while (worker->batch_at < worker->batch->count) {
        struct udp_message *message = &worker->batch->messages[worker->batch_at];
        if (!lanes_have_room(worker, message))
            break;
        worker->batch_at++;
        any = true;
        bool genuine = route_message(worker, message, &last, now_ns);
        watch_coalescing(socket, message, genuine);
        if (!genuine)
            continue;
        note_genuine(socket, message);
        if (worker->hooks.on_events != NULL)
            worker->hooks.on_events(worker->hooks.context, now_ns);
        else if (worker->session_loop != NULL)
            loop_wake(worker->session_loop);
    }
    note_drops(socket, last);
    if (worker->batch_at == worker->batch->count)
        worker->batch_socket = NULL;
    return any;
}

static bool receive_on(struct worker *worker, struct worker_socket *socket, uint64_t now_ns)
{
    uint64_t late_ns = loop_now() - now_ns; /* time that the callers' clock does not know of */
    if (!udp_receive(socket->udp, worker->batch)) {
        socket->readable = false;
        return false;
    }
    /* Not full: it is empty by now, or the loop will tell. */
    socket->readable = worker->batch->count == UDP_BATCH_MESSAGES;
    worker->batch_socket = socket;
    worker->batch_at = 0;
    for (unsigned i = 0; i < worker->batch->count; i++) {
        uint64_t *waited_ns = &worker->batch->messages[i].waited_ns;
        *waited_ns -= *waited_ns < late_ns ? *waited_ns : late_ns;
    }
    worker_count_arrived(worker, now_ns);
    take_batch(worker, now_ns);
    return true;
}

bool worker_receive(struct worker *worker, uint64_t now_ns)
{
    bool any = false;
    worker_take_arrivals(worker);
    if (worker->batch_socket != NULL) {
        any = take_batch(worker, now_ns);
        if (worker->batch_socket != NULL)
            return any;
    }
    for (unsigned i = 0; i < WORKER_SOCKETS; i++) {
        struct worker_socket *socket = &worker->sockets[i];
        if (worker->batch_socket == NULL && socket->udp != NULL && socket->readable)
            any |= receive_on(worker, socket, now_ns);
    }
    return any;
}
