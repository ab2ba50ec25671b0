/* The inside of a worker, shared by worker*.c only. */
#ifndef PETREL_NET_WORKER_INTERNAL_H
#define PETREL_NET_WORKER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "net/train_watch.h"
#include "net/worker.h"

#define WORKER_TRAINS 4u /* made before they are handed to the system in one call */
#define WORKER_SOCKETS (LANES_MAX + 2)

struct worker_socket {
    struct udp_socket *udp; /* NULL: unused */
    struct worker *worker;
    bool readable;
    bool owned; /* one lane's own */
    unsigned lane;
    struct address last_from, last_local; /* of the last authenticated message */
    uint32_t drops;
    uint64_t reopened_ns; /* by a client that hears nothing, or whose sends are refused */
    unsigned reopenings;  /* since something was heard */
    unsigned unopened;    /* large messages in a row of which nothing was genuine */
};

struct worker_lane {
    struct lane *lane;
    struct worker_socket *socket; /* its own, or NULL */
    struct train_watch watch;
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
    struct worker_socket sockets[WORKER_SOCKETS];
    struct worker_lane lanes[LANES_MAX];
    unsigned lane_bits; /* those present */

    struct udp_batch *batch;
    struct worker_socket *batch_socket; /* whose messages in the batch are not all taken */
    unsigned batch_at;
    struct lane_train *trains[WORKER_TRAINS]; /* [train_at, train_count) wait for the system */
    struct worker_socket *train_sockets[WORKER_TRAINS];
    unsigned train_at, train_count;
    uint64_t retry_ns;

    struct worker_arrival arrivals[LANES_MAX];
    atomic_uint arrived; /* bits of `arrivals` */
    atomic_uint present; /* lane_bits, for the session's thread */
    atomic_bool spinning, stopping;
    _Atomic uint64_t slept_ns;
    unsigned backoff;
    uint64_t received_ns;                            /* when sockets last held anything */
    uint64_t count_bytes, count_datagrams, count_ns; /* what came since when */
    uint64_t arriving_bps, datagram_gap_ns;          /* in the counting before; 0: not known */
    uint64_t heard;
    bool has_thread;
    pthread_t thread;
};

/* worker_rest.c */
void worker_count_arrived(struct worker *worker, uint64_t now_ns);
/* True when it is better to sleep on, until *until_ns, than to be told of what comes in. */
bool worker_may_rest(struct worker *worker, uint64_t deadline_ns, uint64_t now_ns,
                     uint64_t *until_ns);

/* worker.c */
void worker_take_arrivals(struct worker *worker);
void worker_on_socket(void *context, int descriptor, unsigned ready);

#endif
