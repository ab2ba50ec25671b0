/* The rate controller: how fast one whole transfer may send, on every kind of path.
 *
 * The controlled variable is the send rate. Loss alone is not congestion: what decides is how
 * delivery answers to rate, plus queueing delay (shared design in
 * docs/decisions/rate-controller.md). A pure state machine: it is fed closed measurement intervals
 * and answers with a rate, an in-flight cap, and how long the next interval should be. It knows no
 * packets, lanes or clocks.
 */
#ifndef PETREL_TRANSPORT_RATE_CONTROLLER_H
#define PETREL_TRANSPORT_RATE_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

struct rate_controller;

/* One closed interval: every packet first sent within [start, end) is settled, delivered or lost.
 * Bytes count whole UDP payloads; probes for MTU and acks do not count. */
struct rate_interval {
    uint64_t id;               /* ascending */
    uint64_t start_ns, end_ns; /* the sender's clock: when sending it began and ended */
    uint64_t settled_ns;       /* now, when it was closed */
    uint64_t sent_packets, sent_bytes;
    uint64_t delivered_packets, delivered_bytes;
    uint64_t lost_packets;
    uint64_t loss_events;      /* runs of consecutive losses */
    uint64_t receiver_span_ns; /* the receiver's clock: from the interval's first to its last packet
                                  (interpolated between acks), 0 if unknown */
    uint64_t rtt_min_ns;       /* least RTT sample within it, 0 if none */
    uint64_t rtt_mean_ns;
    bool app_limited; /* the source or credit left the rate unused for over 5 % of it */
    bool outage; /* no ack at all for over 2 RTT, a black hole, or host drops: no information */
};

/* Towards others on the path. AUTO takes about what one TCP flow would; FAIR makes room at the
 * first loss that is not the path's own; BACKGROUND keeps the queue short and takes what is left.
 */
enum rate_policy { RATE_AUTO, RATE_FAIR, RATE_BACKGROUND };

/* What an earlier transfer found of a path, or this one has found. */
struct rate_memory {
    uint64_t rate_bps;        /* of UDP payload; 0: nothing is known */
    uint64_t rtt_ns;          /* without a queue */
    uint32_t loss_millionths; /* that no lower rate avoids */
};

/* What became of a memory that was handed in. */
enum rate_memory_use {
    MEMORY_UNUSED, /* none, or not of this path: the RTT differs, or BACKGROUND forbids it */
    MEMORY_TRIED,  /* not answered yet */
    MEMORY_HELD,   /* it arrived */
    MEMORY_FAILED  /* it did not: it should be halved, and forgotten the second time */
};

struct rate_config {
    uint64_t rtt_ns;         /* first RTT sample, never 0 */
    uint32_t datagram_bytes; /* full packet, UDP payload */
    uint64_t limit_bps;      /* 0: none */
    uint64_t fixed_bps;      /* 0: none; else the controller only watches (circuit breaker) */
    enum rate_policy policy;
    /* Tried when rtt_ns is 0.8 to 1.3 of its own: three quarters of its rate (half under FAIR) for
     * one RTT; what arrives decides. */
    struct rate_memory remembered;
    uint64_t seed;
};

/* What the session should do until the next call. */
struct rate_decision {
    uint64_t pacing_bps; /* UDP payload bits a second, now */
    uint64_t base_bps;   /* the rate the controller believes in, without the present gain */
    uint64_t inflight_cap_bytes;
    uint64_t interval_ns;      /* length of the interval to be begun now */
    uint64_t interval_packets; /* and at least this many packets, but at most 6 RTT long */
    /* Its first packet is to be acknowledged at once: the receiver's clock at the step in rate. */
    bool mark_interval;
};

struct rate_controller *rate_controller_new(const struct rate_config *config, uint64_t now_ns);
void rate_controller_free(struct rate_controller *controller);
/* Feeds a closed interval, in order of id. Several may be open at once: about 1 to 2 RTT of them.
 */
void rate_controller_on_interval(struct rate_controller *controller,
                                 const struct rate_interval *interval, uint64_t now_ns);
/* The session begins a new interval now: which phase (gain) it has is decided here and remembered
 * under `id`. */
void rate_controller_begin_interval(struct rate_controller *controller, uint64_t id,
                                    uint64_t now_ns);
/* Every RTT sample, for base RTT and the urgent brake between intervals. */
void rate_controller_on_rtt(struct rate_controller *controller, uint64_t rtt_ns, uint64_t now_ns);
/* The path changed: half the rate, RTT anew. Or packet size changed. */
void rate_controller_on_new_path(struct rate_controller *controller, uint64_t now_ns);
void rate_controller_set_datagram(struct rate_controller *controller, uint32_t datagram_bytes);
/* More lanes carry it now, and a limit that each had may not hold for all of them: asks for more at
 * once. Nothing changes before the start is over. */
void rate_controller_on_more_lanes(struct rate_controller *controller, uint64_t now_ns);
/* The start is over and the rate follows what arrives; false under a fixed rate. */
bool rate_controller_is_settled(const struct rate_controller *controller);
/* Another limit, 0 for none: at once when it is lower, by probing when it is higher. */
void rate_controller_set_limit(struct rate_controller *controller, uint64_t limit_bps);
void rate_controller_decide(const struct rate_controller *controller,
                            struct rate_decision *decision);
/* For traces and "what limited it". */
const char *rate_controller_phase(const struct rate_controller *controller);
uint64_t rate_controller_base_rtt(const struct rate_controller *controller);
double rate_controller_ambient_loss(const struct rate_controller *controller);
/* What the next transfer should remember: the median rate of the last 30 s; rate_bps 0 when this
 * one was too short (20 RTT after its start) or held by a limit. Returns what became of the memory
 * that this one was given. */
enum rate_memory_use rate_controller_recall(const struct rate_controller *controller,
                                            struct rate_memory *memory);

#endif
