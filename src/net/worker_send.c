/* A worker's sending side: trains from its lanes to the system, and sockets that need replacing. */
#include "base/units.h"
#include "net/worker_internal.h"

#define TRAINS_A_TURN 16u /* of one lane before the others and the sockets are looked at again */
#define UNANSWERED_NS (300 * NS_PER_MS) /* and two probe timeouts in silence: try a new port */
#define REOPEN_NS (300 * NS_PER_MS)     /* between two tries, doubling */
#define REOPEN_DOUBLINGS 5u

static struct worker_socket *socket_for(struct worker *worker, struct worker_lane *slot,
                                        const struct address *to)
{
    if (slot->socket != NULL)
        return slot->socket;
    for (unsigned i = 0; i < WORKER_SOCKETS; i++) {
        struct worker_socket *socket = &worker->sockets[i];
        if (socket->udp != NULL && !socket->owned && udp_family(socket->udp) == to->family)
            return socket;
    }
    return NULL;
}

static void reopen(struct worker_socket *socket, uint64_t now_ns)
{
    struct worker *worker = socket->worker;
    socket->reopened_ns = now_ns;
    socket->reopenings += socket->reopenings < REOPEN_DOUBLINGS;
    loop_remove(worker->loop, udp_descriptor(socket->udp));
    if (udp_reopen(socket->udp, NULL))
        socket->drops = 0;
    loop_add(worker->loop, udp_descriptor(socket->udp), LOOP_READ, worker_on_socket, socket, NULL);
    socket->readable = true;
}

/* A client whose sends are refused or go unanswered may have changed networks: its socket then
 * clings to an address or a mapping that is gone. */
static bool may_reopen(const struct worker_socket *socket, uint64_t now_ns)
{
    return socket->owned && now_ns >= socket->reopened_ns + (REOPEN_NS << socket->reopenings);
}

static bool goes_unanswered(const struct worker_socket *socket, uint64_t now_ns)
{
    uint64_t since_ns = lane_unanswered_since(socket->worker->lanes[socket->lane].lane);
    return since_ns != 0 && now_ns >= since_ns + UNANSWERED_NS;
}

static uint64_t refused_by(const struct worker_socket *socket)
{
    struct udp_statistics statistics;
    udp_get_statistics(socket->udp, &statistics);
    return statistics.refused;
}

/* Trains to one socket; how many are finished with. What a socket refuses goes once more from a
 * fresh one: it may hold the question that the peer's answer hangs on. */
static unsigned send_on(struct worker_socket *socket, struct lane_train *const *trains,
                        unsigned count, uint64_t now_ns)
{
    if (may_reopen(socket, now_ns) && goes_unanswered(socket, now_ns))
        reopen(socket, now_ns);
    uint64_t refused = refused_by(socket);
    unsigned finished = udp_send(socket->udp, trains, count, now_ns);
    if (finished < count || refused_by(socket) == refused || !may_reopen(socket, now_ns))
        return finished;
    reopen(socket, now_ns);
    return udp_send(socket->udp, trains, count, now_ns);
}

/* Hands waiting trains to the system. True when all are gone. */
static bool flush_trains(struct worker *worker, uint64_t now_ns)
{
    while (worker->train_at < worker->train_count) {
        struct worker_socket *socket = worker->train_sockets[worker->train_at];
        unsigned end = worker->train_at + 1;
        while (end < worker->train_count && worker->train_sockets[end] == socket)
            end++;
        worker->train_at +=
            send_on(socket, worker->trains + worker->train_at, end - worker->train_at, now_ns);
        if (worker->train_at < end) {
            worker->retry_ns = udp_retry_ns(socket->udp);
            if (worker->retry_ns == TIME_NEVER)
                loop_set_interest(worker->loop, udp_descriptor(socket->udp),
                                  LOOP_READ | LOOP_WRITE);
            return false;
        }
    }
    worker->train_at = worker->train_count = 0;
    worker->retry_ns = TIME_NEVER;
    return true;
}

/* Trains that vanish without an error: single datagrams may pass where they do not. */
static void watch_trains(struct worker_lane *slot, struct worker_socket *socket, uint64_t now_ns)
{
    if (train_watch_note(&slot->watch, lane_delivery(slot->lane), now_ns))
        udp_set_plain(socket->udp, slot->watch.verdict == TRAINS_VANISH);
}

/* One call's worth of trains of one lane. Returns how many were made; *full: the system has no
 * room for more. */
static unsigned send_some(struct worker *worker, struct worker_lane *slot, uint64_t now_ns,
                          bool *full)
{
    unsigned made = 0;
    while (made < WORKER_TRAINS) {
        struct lane_train *train = worker->trains[worker->train_count];
        train->trial = train_watch_next(&slot->watch);
        if (!lane_send(slot->lane, train, SIZE_MAX, now_ns))
            break;
        made++;
        struct worker_socket *socket = socket_for(worker, slot, &train->to);
        if (socket == NULL) /* none of that family: lost, as on a path */
            continue;
        watch_trains(slot, socket, now_ns);
        worker->train_sockets[worker->train_count++] = socket;
    }
    if (worker->train_count > 0 && worker->hooks.before_send != NULL)
        worker->hooks.before_send(worker->hooks.context, now_ns);
    *full = !flush_trains(worker, now_ns);
    return made;
}

bool worker_send(struct worker *worker, uint64_t now_ns)
{
    bool any = false, full = false;
    if (worker->train_count > 0) {
        if (now_ns < worker->retry_ns)
            return false;
        unsigned at = worker->train_at;
        if (!flush_trains(worker, now_ns))
            return worker->train_at > at;
        any = true;
    }
    for (unsigned i = 0; i < LANES_MAX && !full; i++) {
        struct worker_lane *slot = &worker->lanes[i];
        if (slot->lane == NULL || lane_kind(slot->lane) != LANE_DATAGRAM)
            continue;
        unsigned made = WORKER_TRAINS;
        for (unsigned turn = 0; turn < TRAINS_A_TURN && made == WORKER_TRAINS && !full;
             turn += made) {
            made = send_some(worker, slot, now_ns, &full);
            any = any || made > 0;
        }
    }
    return any;
}

bool worker_is_flushed(const struct worker *worker)
{
    return worker->train_count == 0;
}

bool worker_has_events(const struct worker *worker)
{
    for (unsigned i = 0; i < LANES_MAX; i++)
        if (worker->lanes[i].lane != NULL && lane_has_events(worker->lanes[i].lane))
            return true;
    return false;
}
