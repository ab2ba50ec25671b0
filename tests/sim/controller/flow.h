/* Senders on the modelled path: petrel's (the controller under test, driven as the session drives
 * it), and what all kinds share (rival.h has the others).
 *
 * The petrel sender paces short trains, keeps within the in-flight cap, opens intervals, settles
 * every packet (acknowledged, or lost by three later ones and RTT/8) and closes intervals in order
 * with exact counts. Acks are made by the receiver every RTT/8 within 1 to 10 ms, and may be lost.
 */
#ifndef PETREL_SIM_CONTROLLER_FLOW_H
#define PETREL_SIM_CONTROLLER_FLOW_H

#include "net/train_watch.h"
#include "path.h"
#include "rival.h"
#include "transport/rate_controller.h"

#define FLOW_UNITS (1u << 18)
#define FLOW_INTERVALS 256u
#define FLOW_OPEN_MOST 15u
#define FLOW_BUCKETS 4096u
#define FLOW_ASKED 32u

enum flow_kind { FLOW_PETREL, FLOW_CUBIC, FLOW_BBR };

struct flow_config {
    enum flow_kind kind;
    uint64_t start_ns;
    uint64_t stall_from_ns, stall_until_ns; /* an idle source */
    uint64_t limit_bps, fixed_bps;
    struct rate_memory remembered; /* RTT 0: that of the path */
    enum rate_policy policy;
    uint64_t source_bps;   /* what the sender's own processor can send; 0: anything */
    uint32_t unit_packets; /* packets of a unit: 1, more at high rates */
    bool frozen;           /* negative control: the rate never changes after the first */
    /* A fault of the offload: trains vanish between these times, until net/train_watch gives them
     * up; single packets (probes) arrive. */
    uint64_t vanish_from_ns, vanish_until_ns;
    bool unwatched; /* ... without net/train_watch */
};

struct flow_unit {
    uint64_t sent_ns, arrives_ns;
    uint64_t lost_due_ns;                       /* settled as lost then; 0: not yet doubted */
    uint64_t delivered_before, delivered_at_ns; /* of the flow when it was sent, for BBR */
    uint32_t packets, lost, runs;
    uint32_t interval;
    enum train_trial trial;
    bool acked, settled;
};

struct flow_interval {
    struct rate_interval report;
    uint64_t first_unit, end_unit;
    uint64_t settled_packets;
    uint64_t rtt_sum_ns, rtt_count;
    uint64_t first_arrival_ns, last_arrival_ns;
    bool ended;
};

/* Totals per time slot, for shares and times to reach. */
struct flow_bucket {
    uint64_t acked_bytes, sent_packets, lost_packets, overflowed_packets;
};

struct flow {
    struct flow_config config;
    unsigned index;
    struct path *path;
    struct rate_controller *controller;
    struct rate_decision decision;
    uint32_t datagram_bytes;
    uint64_t next_unit, oldest_unit; /* oldest not settled */
    uint64_t ack_unit;               /* largest unit acknowledged, next number */
    uint64_t ack_arrival_ns;
    uint64_t inflight_bytes;
    struct flow_unit *units;
    struct flow_interval intervals[FLOW_INTERVALS];
    uint64_t next_interval, oldest_interval;
    uint64_t last_ack_ns, last_probe_ns, last_sent_ns, next_send_ns;
    uint64_t srtt_ns, ack_interval_ns, spurious_packets;
    uint64_t asked_ns[FLOW_ASKED]; /* acks asked for by the first packet of an interval, a ring */
    unsigned asked_head, asked_tail;
    bool blocked, vanished; /* the last train */
    struct train_watch watch;
    struct lane_delivery delivery;
    bool condemned; /* trains, by the watch, at any time */
    struct cubic cubic;
    struct bbr bbr;
    uint64_t delivered_bytes;
    struct flow_bucket *buckets;
    uint64_t bucket_ns;
    uint64_t base_bps_peak;
};

void flow_init(struct flow *flow, const struct flow_config *config, unsigned index,
               struct path *path, uint64_t bucket_ns, uint64_t seed);
void flow_release(struct flow *flow);
/* Sends what may leave now; the time at which it wants to be called again. */
uint64_t flow_send(struct flow *flow, uint64_t now_ns);
/* For rival.c. */
void flow_send_unit(struct flow *flow, uint64_t now_ns);
uint64_t flow_probe_timeout(const struct flow *flow);
/* About how large an ack made now is: each packet is told about in eight of them. */
uint32_t flow_ack_bytes(const struct flow *flow);
/* An ack arrives that was made at `made_ns`. */
void flow_ack(struct flow *flow, uint64_t made_ns, uint64_t now_ns);

#endif
