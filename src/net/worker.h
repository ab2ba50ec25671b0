/* One network thread's work: its sockets, the lanes that live on it, and its sleep.
 *
 * The session's thread steps its worker between session steps; each further worker has a thread of
 * its own. Knows lanes and datagrams, not sessions: what is no lane's goes to a hook. All functions
 * belong to the worker's thread unless they say otherwise.
 */
#ifndef PETREL_NET_WORKER_H
#define PETREL_NET_WORKER_H

#include "net/loop.h"
#include "net/udp.h"

struct worker;

struct worker_hooks {
    void *context;
    /* A datagram that is no sealed packet; true when it was genuine. May be NULL. */
    bool (*on_other)(void *context, const struct address *from, const uint8_t *bytes, size_t size,
                     uint64_t now_ns);
    /* After each received message that left events for the session. May be NULL. */
    void (*on_events)(void *context, uint64_t now_ns);
    /* Before each call that sends trains. May be NULL. */
    void (*before_send)(void *context, uint64_t now_ns);
};

/* `session_loop`: woken when lanes have events; NULL for the worker of the session's own thread. */
struct worker *worker_new(struct loop *session_loop, const struct worker_hooks *hooks,
                          struct error *error);
/* Stops the thread if one runs, after it has sent what its lanes still have. */
void worker_free(struct worker *worker);

/* Before the thread starts, or on the worker's thread. The socket stays the caller's. */
bool worker_add_socket(struct worker *worker, struct udp_socket *socket, struct error *error);
void worker_remove_socket(struct worker *worker, struct udp_socket *socket);
/* Before packets come: the first of the 16 connection ids that are ours. */
void worker_set_connection_base(struct worker *worker, uint32_t base);

/* From the session's thread. The lane sends and receives on `socket`, which is then the lane's own
 * and must not be in any worker yet; NULL: on the worker's socket of the family, shared. */
void worker_give_lane(struct worker *worker, struct lane *lane, struct udp_socket *socket);
/* Wakes the worker if a lane of it has commands. From the session's thread. */
void worker_notify(struct worker *worker);

bool worker_start_thread(struct worker *worker, struct error *error);
bool worker_has_thread(const struct worker *worker);

/* Receives at most one batch from each readable socket. True when there was any. */
bool worker_receive(struct worker *worker, uint64_t now_ns);
/* Sends what the lanes may send, up to some trains each. True when anything left. */
bool worker_send(struct worker *worker, uint64_t now_ns);
/* True when nothing that was made is still waiting for the system to take it. */
bool worker_is_flushed(const struct worker *worker);
/* True when a lane of this worker has events for the session. */
bool worker_has_events(const struct worker *worker);
/* Sleeps until there may be work: of the lanes, the sockets, or at `deadline_ns` of whoever else
 * lives on this thread. `moved`: something moved since the last sleep, so what is due is due
 * indeed. */
void worker_sleep(struct worker *worker, bool moved, uint64_t deadline_ns);
/* Above this rate short sleeps are spun away; any thread. */
void worker_set_spinning(struct worker *worker, bool spinning);

struct loop *worker_loop(struct worker *worker);
/* Messages so far in which something authenticated. */
uint64_t worker_heard(const struct worker *worker);
/* The address of ours that the last authenticated datagram came to; family 0 if unknown. */
struct address worker_local_address(const struct worker *worker);
/* Time slept so far; from any thread. */
uint64_t worker_slept_ns(const struct worker *worker);

#endif
