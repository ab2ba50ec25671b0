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

#define DRIVER_HEARD_MAX 16u

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

    /* driver_ports.c. Server: further ports, and whom each peer was heard on. */
    struct udp_listener *more[DRIVER_MORE_PORTS];
    unsigned more_count;
    uint64_t more_until_ns;
    bool more_readable;
    struct udp_batch *more_batch;
    struct {
        struct address from;
        struct udp_listener *listener;
    } heard[DRIVER_HEARD_MAX];
    unsigned heard_count;
    /* Client: when it asked for more, and heard of how many. */
    uint64_t more_asked_ns, more_came_ns;
    unsigned more_told;

    struct opening *opening;
    struct hello hello;
    struct session *session;
    struct address peer;
    unsigned lanes_wanted, lanes_open; /* client */
    unsigned lanes_worth;              /* the most that the session found so far */
    bool confirmed;      /* client: a sealed packet came, the server has our last flight */
    char refusal[160];   /* why a handshake packet could not leave; "" if none */
    char rejection[160]; /* what the network said of them; "" if nothing */
    bool refused_there;  /* client: a rule on the server's machine; server: it was told */
    bool udp_is_cause;   /* of the error */

    bool handed_watched, handed_readable; /* config.handed */

    bool watching, interrupted;
    uint64_t next_tick_ns, closing_ns;
    uint64_t grow_at_ns, grow_slept_ns[LANES_MAX];
    char hint[240];
};

/* driver_opening.c: the handshake, on UDP or on a stream. */
bool driver_prepare_opening(struct driver *driver, struct error *error);
bool driver_start_opening(struct driver *driver, uint64_t now_ns, struct error *error);
#define REFUSED_THERE "a firewall rule of the far end's own refuses what it sends"
/* Client: takes note of what the network says of our handshake packets. */
void driver_hear_rejections(struct driver *driver);
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

/* Server: tells the client that this machine lets no UDP out. */
void driver_tell_refusal(struct driver *driver);

/* driver_way.c: client, whether to use the stream beside UDP, and telling of it. */
void driver_tend_way(struct driver *driver, uint64_t now_ns);
/* At the end of the run: what was not told yet, and what a session that fell silent leaves open. */
void driver_tell_way_at_end(struct driver *driver);
void driver_explain_silence(struct driver *driver);
/* Who refuses, as far as it is known. */
enum driver_refusal driver_refusal(const struct driver *driver);
/* Tells the server the ports that it has not been told of. */
void driver_tell_ports(struct driver *driver, uint64_t now_ns);

/* driver_handed.c: server at a shared port, what the process at its door hands over. */
bool driver_take_handed(struct driver *driver, struct error *error);
bool driver_receive_handed(struct driver *driver, uint64_t now_ns);
void driver_leave_handed(struct driver *driver);
/* What tells the client that it is refused goes again: nobody will be here to repeat it. */
void driver_repeat_refusal(struct driver *driver, uint64_t now_ns);

/* driver_ports.c: further ports of the range. Server, at the client's wish: listens on them; reads
 * what came there; says which listener a peer is answered from; once the opening is over keeps the
 * one that the peer came to as the only one. */
void driver_listen_on_more(struct driver *driver, uint64_t now_ns);
bool driver_receive_more(struct driver *driver, uint64_t now_ns);
struct udp_listener *driver_listener_for(const struct driver *driver, const struct address *peer);
bool driver_keep_port(struct driver *driver, struct error *error);
void driver_end_more(struct driver *driver);
/* Client: asks for them once; takes the answer. */
void driver_ask_for_more(struct driver *driver, uint64_t now_ns);
void driver_take_more(struct driver *driver, const uint8_t *packet, size_t size, uint64_t now_ns);

#endif
