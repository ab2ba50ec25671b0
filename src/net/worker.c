#include "net/worker.h"

#include <signal.h>
#include <stdlib.h>

#include "base/units.h"
#include "net/worker_internal.h"

#define SPIN_NS (20 * NS_PER_US)
#define BACKOFF_FIRST_NS (10 * NS_PER_US)
#define BACKOFF_STEPS 8u
#define STALLED_NS (50 * NS_PER_US) /* the session's thread is behind: look again */
#define FLUSH_NS (200 * NS_PER_MS)  /* at the end */

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
    for (unsigned i = 0; i < WORKER_TRAINS; i++) {
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
    for (unsigned i = 0; i < WORKER_TRAINS; i++)
        free(worker->trains[i]);
    free(worker);
}

/* ---- sockets ---- */

void worker_on_socket(void *context, int descriptor, unsigned ready)
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
    for (unsigned i = 0; i < WORKER_SOCKETS; i++) {
        struct worker_socket *socket = &worker->sockets[i];
        if (socket->udp != NULL)
            continue;
        if (!loop_add(worker->loop, udp_descriptor(udp), LOOP_READ, worker_on_socket, socket,
                      error))
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
    for (unsigned i = 0; i < WORKER_SOCKETS; i++) {
        if (worker->sockets[i].udp == udp) {
            loop_remove(worker->loop, udp_descriptor(udp));
            worker->sockets[i].udp = NULL;
            if (worker->batch_socket == &worker->sockets[i])
                worker->batch_socket = NULL;
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

void worker_take_arrivals(struct worker *worker)
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
    if (worker->batch_socket != NULL)
        return false; /* not before the session has caught up */
    for (unsigned i = 0; i < WORKER_SOCKETS; i++)
        if (worker->sockets[i].udp != NULL && worker->sockets[i].readable)
            return true;
    return false;
}

/* How long to wait for the first of all deadlines, or 0 to only look. */
static uint64_t wait_until(struct worker *worker, bool moved, uint64_t deadline_ns, uint64_t now_ns)
{
    deadline_ns = earlier(deadline_ns, worker_deadline(worker));
    if (worker->batch_socket != NULL)
        deadline_ns = earlier(deadline_ns, now_ns + STALLED_NS);
    if (deadline_ns > now_ns || moved) {
        worker->backoff = 0;
        return deadline_ns;
    }
    /* Due, and yet nothing moved: whoever is due waits for something that no timer tells. */
    deadline_ns = now_ns + (BACKOFF_FIRST_NS << worker->backoff);
    worker->backoff += worker->backoff < BACKOFF_STEPS;
    return deadline_ns;
}

void worker_sleep(struct worker *worker, bool moved, uint64_t deadline_ns)
{
    uint64_t now_ns = loop_now();
    if (may_read(worker))
        deadline_ns = now_ns;
    else
        deadline_ns = wait_until(worker, moved, deadline_ns, now_ns);
    bool spinning = atomic_load_explicit(&worker->spinning, memory_order_relaxed);
    uint64_t until_ns, began_ns = now_ns;
    if (!spinning && deadline_ns > now_ns &&
        worker_may_rest(worker, deadline_ns, now_ns, &until_ns)) {
        loop_rest(worker->loop, until_ns);
        now_ns = loop_now();
        deadline_ns = now_ns;
    }
    loop_wait(worker->loop, deadline_ns, now_ns, spinning ? SPIN_NS : 0);
    if (deadline_ns > began_ns)
        atomic_fetch_add_explicit(&worker->slept_ns, loop_now() - began_ns, memory_order_relaxed);
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
    for (unsigned i = 0; i < WORKER_SOCKETS; i++)
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
        worker_sleep(worker, false, now_ns + NS_PER_MS);
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
        worker_sleep(worker, moved, TIME_NEVER);
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
