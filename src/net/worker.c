#include "net/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/units.h"

#define TRAINS 4u         /* made before they are handed to the system in one call */
#define TRAINS_A_TURN 16u /* of one lane before the others and the sockets are looked at again */
#define SPIN_NS (20 * NS_PER_US)
#define BACKOFF_FIRST_NS (10 * NS_PER_US)
#define BACKOFF_STEPS 8u
#define FLUSH_NS (200 * NS_PER_MS)   /* at the end */
#define UNANSWERED_NS (3 * NS_PER_S) /* sending into silence for that long: try a new port */
#define REOPEN_NS NS_PER_S           /* between two tries when sends are refused */
#define SOCKETS_MAX (LANES_MAX + 2)

struct worker_socket {
    struct udp_socket *udp; /* NULL: unused */
    struct worker *worker;
    bool readable;
    bool owned; /* one lane's own */
    unsigned lane;
    struct address last_from, last_local; /* of the last authenticated message */
    uint32_t drops;
    uint64_t unanswered_ns; /* the first send since something was heard; 0: none */
    uint64_t reopened_ns;
};

struct worker_lane {
    struct lane *lane;
    struct worker_socket *socket; /* its own, or NULL */
    uint32_t drops;
};

/* A lane on its way from the session's thread. */
struct worker_arrival {
    struct lane *lane;
    struct udp_socket *socket;
};

struct worker {
    struct loop *loop, *session_loop;
    struct worker_hooks hooks;
    bool has_base;
    uint32_t connection_base;
    struct worker_socket sockets[SOCKETS_MAX];
    struct worker_lane lanes[LANES_MAX];
    unsigned lane_bits; /* those present */

    struct udp_batch *batch;
    struct lane_train *trains[TRAINS]; /* [train_at, train_count) wait for the system */
    struct worker_socket *train_sockets[TRAINS];
    unsigned train_at, train_count;
    uint64_t retry_ns;

    struct worker_arrival arrivals[LANES_MAX];
    atomic_uint arrived; /* bits of `arrivals` */
    atomic_uint present; /* lane_bits, for the session's thread */
    atomic_bool spinning, stopping;
    _Atomic uint64_t slept_ns;
    unsigned backoff;
    uint64_t heard;
    bool has_thread;
    pthread_t thread;
};

struct worker *worker_new(struct loop *session_loop, const struct worker_hooks *hooks,
                          struct error *error)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        error_set(error, ERROR_MEMORY, "out of memory for a network thread");
        return NULL;
    }
    worker->session_loop = session_loop;
    if (hooks != NULL)
        worker->hooks = *hooks;
    worker->retry_ns = TIME_NEVER;
    worker->loop = loop_new(error);
    worker->batch = udp_batch_new();
    bool complete = worker->loop != NULL && worker->batch != NULL;
    for (unsigned i = 0; i < TRAINS; i++) {
        worker->trains[i] = malloc(sizeof(struct lane_train));
        complete = complete && worker->trains[i] != NULL;
    }
    if (!complete) {
        error_set(error, ERROR_MEMORY, "out of memory for a network thread");
        worker_free(worker);
        return NULL;
    }
    return worker;
}

void worker_free(struct worker *worker)
{
    if (worker == NULL)
        return;
    if (worker->has_thread) {
        atomic_store(&worker->stopping, true);
        loop_wake(worker->loop);
        pthread_join(worker->thread, NULL);
    }
    loop_free(worker->loop);
    udp_batch_free(worker->batch);
    for (unsigned i = 0; i < TRAINS; i++)
        free(worker->trains[i]);
    free(worker);
}

/* ---- sockets ---- */

static void on_socket(void *context, int descriptor, unsigned ready)
{
    struct worker_socket *socket = context;
    if (ready & LOOP_READ)
        socket->readable = true;
    if (ready & LOOP_WRITE) {
        loop_set_interest(socket->worker->loop, descriptor, LOOP_READ);
        socket->worker->retry_ns = 0;
    }
}

static struct worker_socket *add_socket(struct worker *worker, struct udp_socket *udp,
                                        struct error *error)
{
    for (unsigned i = 0; i < SOCKETS_MAX; i++) {
        struct worker_socket *socket = &worker->sockets[i];
        if (socket->udp != NULL)
            continue;
        if (!loop_add(worker->loop, udp_descriptor(udp), LOOP_READ, on_socket, socket, error))
            return NULL;
        *socket = (struct worker_socket){.udp = udp, .worker = worker, .readable = true};
        return socket;
    }
    error_set(error, ERROR_MEMORY, "too many sockets on one thread");
    return NULL;
}

bool worker_add_socket(struct worker *worker, struct udp_socket *socket, struct error *error)
{
    return add_socket(worker, socket, error) != NULL;
}

void worker_remove_socket(struct worker *worker, struct udp_socket *udp)
{
    for (unsigned i = 0; i < SOCKETS_MAX; i++) {
        if (worker->sockets[i].udp == udp) {
            loop_remove(worker->loop, udp_descriptor(udp));
            worker->sockets[i].udp = NULL;
        }
    }
}

void worker_set_connection_base(struct worker *worker, uint32_t base)
{
    worker->connection_base = base;
    worker->has_base = true;
}

/* ---- lanes ---- */

static void attach_lane(struct worker *worker, unsigned index)
{
    struct worker_arrival *arrival = &worker->arrivals[index];
    struct worker_lane *slot = &worker->lanes[index];
    slot->lane = arrival->lane;
    if (arrival->socket != NULL) {
        slot->socket = add_socket(worker, arrival->socket, NULL);
        if (slot->socket != NULL) {
            slot->socket->owned = true;
            slot->socket->lane = index;
        }
    }
    worker->lane_bits |= 1u << index;
    atomic_store(&worker->present, worker->lane_bits);
}

static void take_arrivals(struct worker *worker)
{
    if (atomic_load_explicit(&worker->arrived, memory_order_relaxed) == 0)
        return;
    unsigned bits = atomic_exchange(&worker->arrived, 0);
    for (unsigned i = 0; i < LANES_MAX; i++)
        if (bits & (1u << i))
            attach_lane(worker, i);
}

void worker_give_lane(struct worker *worker, struct lane *lane, struct udp_socket *socket)
{
    unsigned index = lane_index(lane);
    worker->arrivals[index] = (struct worker_arrival){lane, socket};
    atomic_fetch_or(&worker->arrived, 1u << index);
    loop_wake(worker->loop);
}

void worker_notify(struct worker *worker)
{
    unsigned present = atomic_load(&worker->present);
    for (unsigned i = 0; i < LANES_MAX; i++) {
        if ((present & (1u << i)) && lane_has_commands(worker->arrivals[i].lane)) {
            loop_wake(worker->loop);
            return;
        }
    }
}

/* ---- receiving ---- */

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
    socket->unanswered_ns = 0;
    if (message->local.family == 0 || (address_equal(&socket->last_from, &message->from) &&
                                       address_equal(&socket->last_local, &message->local)))
        return;
    socket->last_from = message->from;
    socket->last_local = message->local;
    udp_answer_from(socket->udp, &message->from, &message->local);
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

static bool receive_on(struct worker *worker, struct worker_socket *socket, uint64_t now_ns)
{
    struct udp_batch *batch = worker->batch;
    socket->readable = udp_receive(socket->udp, batch);
    if (!socket->readable)
        return false;
    struct worker_lane *last = NULL;
    for (unsigned i = 0; i < batch->count; i++) {
        if (!route_message(worker, &batch->messages[i], &last, now_ns))
            continue;
        note_genuine(socket, &batch->messages[i]);
        if (worker->hooks.on_events != NULL)
            worker->hooks.on_events(worker->hooks.context, now_ns);
    }
    note_drops(socket, last);
    /* Not full: it is empty by now, or the loop will tell. */
    socket->readable = batch->count == UDP_BATCH_MESSAGES;
    return true;
}

bool worker_receive(struct worker *worker, uint64_t now_ns)
{
    bool any = false;
    take_arrivals(worker);
    for (unsigned i = 0; i < SOCKETS_MAX; i++) {
        struct worker_socket *socket = &worker->sockets[i];
        if (socket->udp != NULL && socket->readable)
            any |= receive_on(worker, socket, now_ns);
    }
    return any;
}

/* ---- sending ---- */

static struct worker_socket *socket_for(struct worker *worker, struct worker_lane *slot,
                                        const struct address *to)
{
    if (slot->socket != NULL)
        return slot->socket;
    for (unsigned i = 0; i < SOCKETS_MAX; i++) {
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
    socket->unanswered_ns = 0;
    loop_remove(worker->loop, udp_descriptor(socket->udp));
    if (udp_reopen(socket->udp, NULL))
        socket->drops = 0;
    loop_add(worker->loop, udp_descriptor(socket->udp), LOOP_READ, on_socket, socket, NULL);
    socket->readable = true;
}

/* A client whose sends are refused or go unanswered for long may have changed networks: its socket
 * then clings to an address or a mapping that is gone. */
static void consider_reopening(struct worker_socket *socket, uint64_t refused, uint64_t now_ns)
{
    if (!socket->owned)
        return;
    struct udp_statistics statistics;
    udp_get_statistics(socket->udp, &statistics);
    bool unroutable = statistics.refused > refused && now_ns - socket->reopened_ns > REOPEN_NS;
    if (socket->unanswered_ns == 0)
        socket->unanswered_ns = now_ns;
    if (unroutable || now_ns - socket->unanswered_ns > UNANSWERED_NS)
        reopen(socket, now_ns);
}

/* Hands waiting trains to the system. True when all are gone. */
static bool flush_trains(struct worker *worker, uint64_t now_ns)
{
    while (worker->train_at < worker->train_count) {
        struct worker_socket *socket = worker->train_sockets[worker->train_at];
        unsigned end = worker->train_at + 1;
        while (end < worker->train_count && worker->train_sockets[end] == socket)
            end++;
        struct udp_statistics before;
        udp_get_statistics(socket->udp, &before);
        worker->train_at += udp_send(socket->udp, worker->trains + worker->train_at,
                                     end - worker->train_at, now_ns);
        consider_reopening(socket, before.refused, now_ns);
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

/* One call's worth of trains of one lane. Returns how many were made; *full: the system has no
 * room for more. */
static unsigned send_some(struct worker *worker, struct worker_lane *slot, uint64_t now_ns,
                          bool *full)
{
    unsigned made = 0;
    while (made < TRAINS) {
        struct lane_train *train = worker->trains[worker->train_count];
        if (!lane_send(slot->lane, train, SIZE_MAX, now_ns))
            break;
        made++;
        struct worker_socket *socket = socket_for(worker, slot, &train->to);
        if (socket != NULL) /* else no socket of that family: lost, as on a path */
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
        unsigned made = TRAINS;
        for (unsigned turn = 0; turn < TRAINS_A_TURN && made == TRAINS && !full; turn += made) {
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

/* ---- sleeping ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t worker_deadline(const struct worker *worker)
{
    /* While the system takes nothing more, what lanes want to send is no reason to wake. */
    if (worker->train_count > 0)
        return worker->retry_ns;
    uint64_t deadline_ns = TIME_NEVER;
    for (unsigned i = 0; i < LANES_MAX; i++)
        if (worker->lanes[i].lane != NULL)
            deadline_ns = earlier(deadline_ns, lane_deadline(worker->lanes[i].lane));
    return deadline_ns;
}

static bool may_read(const struct worker *worker)
{
    for (unsigned i = 0; i < SOCKETS_MAX; i++)
        if (worker->sockets[i].udp != NULL && worker->sockets[i].readable)
            return true;
    return false;
}

void worker_sleep(struct worker *worker, bool moved, uint64_t deadline_ns, uint64_t now_ns)
{
    if (moved || may_read(worker)) {
        worker->backoff = 0;
        loop_wait(worker->loop, now_ns, now_ns, 0);
        return;
    }
    deadline_ns = earlier(deadline_ns, worker_deadline(worker));
    /* Due, and yet nothing moved: whoever is due waits for something that no timer tells. */
    if (deadline_ns <= now_ns) {
        deadline_ns = now_ns + (BACKOFF_FIRST_NS << worker->backoff);
        worker->backoff += worker->backoff < BACKOFF_STEPS;
    } else {
        worker->backoff = 0;
    }
    bool spinning = atomic_load_explicit(&worker->spinning, memory_order_relaxed);
    loop_wait(worker->loop, deadline_ns, now_ns, spinning ? SPIN_NS : 0);
    uint64_t slept_ns = loop_now() - now_ns;
    atomic_fetch_add_explicit(&worker->slept_ns, slept_ns, memory_order_relaxed);
}

void worker_set_spinning(struct worker *worker, bool spinning)
{
    atomic_store_explicit(&worker->spinning, spinning, memory_order_relaxed);
}

struct loop *worker_loop(struct worker *worker)
{
    return worker->loop;
}

uint64_t worker_heard(const struct worker *worker)
{
    return worker->heard;
}

struct address worker_local_address(const struct worker *worker)
{
    for (unsigned i = 0; i < SOCKETS_MAX; i++)
        if (worker->sockets[i].udp != NULL && worker->sockets[i].last_local.family != 0)
            return worker->sockets[i].last_local;
    return (struct address){0};
}

uint64_t worker_slept_ns(const struct worker *worker)
{
    return atomic_load_explicit(&worker->slept_ns, memory_order_relaxed);
}

/* ---- a thread of its own ---- */

/* Sends what the lanes were given last (the end of a session is said in these). */
static void flush_before_end(struct worker *worker)
{
    uint64_t now_ns = loop_now();
    uint64_t end_ns = now_ns + FLUSH_NS;
    while (now_ns < end_ns && (worker_send(worker, now_ns) || !worker_is_flushed(worker))) {
        worker_sleep(worker, false, now_ns + NS_PER_MS, now_ns);
        now_ns = loop_now();
    }
}

static void *thread_main(void *context)
{
    struct worker *worker = context;
    loop_adopt_thread();
    while (!atomic_load_explicit(&worker->stopping, memory_order_relaxed)) {
        uint64_t now_ns = loop_now();
        bool moved = worker_receive(worker, now_ns);
        moved = worker_send(worker, now_ns) || moved;
        if (worker_has_events(worker))
            loop_wake(worker->session_loop);
        worker_sleep(worker, moved, TIME_NEVER, now_ns);
    }
    flush_before_end(worker);
    return NULL;
}

bool worker_start_thread(struct worker *worker, struct error *error)
{
    /* Signals are for the program's own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int cause = pthread_create(&worker->thread, NULL, thread_main, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (cause != 0)
        return error_set_errno(error, cause, "cannot start a network thread");
    worker->has_thread = true;
    return true;
}

bool worker_has_thread(const struct worker *worker)
{
    return worker->has_thread;
}
