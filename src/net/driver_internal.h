/* The inside of a driver, shared by driver*.c only. */
#ifndef PETREL_NET_DRIVER_INTERNAL_H
#define PETREL_NET_DRIVER_INTERNAL_H

#include "net/driver.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/stream.h"
#include "net/worker.h"

enum driver_phase {
    DRIVER_OPENING, /* handshake */
    DRIVER_RUNNING, /* the session lives */
    DRIVER_CLOSING, /* it has closed; its last packets leave */
    DRIVER_ENDED,
    DRIVER_PHASE_COUNT
};

struct driver {
    struct driver_config config;
    enum driver_phase phase;
    struct error error;

    /* Thread 0 is the session's: its worker has no thread of its own. */
    struct worker *workers[LANES_MAX];
    unsigned worker_count;
    struct udp_socket *opening_sockets[2];      /* client, until the server's address is proved */
    struct udp_socket *lane_sockets[LANES_MAX]; /* client */
    bool udp;                                   /* there are candidates, or a listener */
    struct stream *stream;                      /* NULL: none, or it is over */
    struct lane_train *stream_train;

    /* Client: when to use the stream, and what was said of it. */
    uint64_t started_ns, asked_ns; /* of the run; the first ports packet */
    uint64_t stream_rtt_ns;        /* 0: not known yet */
    uint16_t told_ports[LANES_MAX + 2];
    uint64_t stream_asked_ns, stream_heard_ns; /* the last ports packet and answer */
    bool was_on_udp;                           /* at any time */
    bool told_way, way_is_stream;              /* a line was said; which way it named */

    struct opening *opening;
    struct hello hello;
    struct session *session;
    struct address peer;
    unsigned lanes_wanted, lanes_open; /* client */
    bool confirmed;    /* client: a sealed packet came, the server has our last flight */
    char refusal[160]; /* why a handshake packet could not leave; "" if none */
    bool udp_is_cause; /* of the error */

    bool watching, interrupted;
    uint64_t next_tick_ns, closing_ns;
    uint64_t grow_at_ns, grow_slept_ns[LANES_MAX];
    char hint[240];
};

/* driver_opening.c: the handshake, on UDP or on a stream. */
bool driver_prepare_opening(struct driver *driver, struct error *error);
bool driver_start_opening(struct driver *driver, uint64_t now_ns, struct error *error);
/* Sends handshake packets that are due. */
void driver_send_flights(struct driver *driver, uint64_t now_ns);
/* The worker's hooks. */
bool driver_on_other(void *context, const struct address *from, const uint8_t *bytes, size_t size,
                     uint64_t now_ns);
void driver_on_events(void *context, uint64_t now_ns);
void driver_before_send(void *context, uint64_t now_ns);
/* Adds what is known of refused sends to the opening's own error. */
void driver_explain_failure(struct driver *driver);

/* driver.c */
void driver_prepare_hint(struct driver *driver);
void driver_fail(struct driver *driver, const struct error *error);
bool driver_watch(struct driver *driver, struct error *error);

/* driver_lanes.c: the session, its lanes, and the threads they live on. */
bool driver_start_session(struct driver *driver, uint64_t now_ns, struct error *error);
/* Client: opens further lanes up to what is wanted. */
void driver_tend_lanes(struct driver *driver, uint64_t now_ns);
void driver_notify_workers(struct driver *driver);
/* driver_stream.c: the stream's traffic; both true when something moved. */
bool driver_receive_stream(struct driver *driver, uint64_t now_ns);
bool driver_send_stream(struct driver *driver, uint64_t now_ns);
uint64_t driver_stream_deadline(const struct driver *driver);

/* driver_way.c: client, whether to use the stream beside UDP, and telling of it. */
void driver_tend_way(struct driver *driver, uint64_t now_ns);
/* At the end of the run: what was not told yet, and what a session that fell silent leaves open. */
void driver_tell_way_at_end(struct driver *driver);
void driver_explain_silence(struct driver *driver);
/* Tells the server the ports that it has not been told of. */
void driver_tell_ports(struct driver *driver, uint64_t now_ns);

#endif
