/* A simulated one-way path in virtual time: what happens to each datagram offered to it.
 *
 * Order of things: outage, MTU, policer, queue with rate limiter, loss, delay with jitter and
 * reordering, duplication, bit corruption. Integers only, one random stream of its own, so a seed
 * gives the same fates on every compiler. It holds no datagrams and no clock: it answers with
 * times, and the world (lab/sim_world.h) delivers. Shares are parts of 2^32. The Gilbert model is
 * that of E. N. Gilbert, "Capacity of a burst-noise channel" (1960).
 */
#ifndef PETREL_LAB_SIM_LINK_H
#define PETREL_LAB_SIM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"

/* IPv4 and UDP headers: rate, queue, policer and MTU count whole IP packets. */
#define SIM_LINK_OVERHEAD 28u
/* `percent` may have a fraction. Constant expressions only. */
#define SIM_SHARE(percent) ((uint32_t)((percent)*42949672.96))

enum sim_change_kind {
    SIM_CHANGE_RATE,  /* value: bits a second */
    SIM_CHANGE_DELAY, /* value: ns */
    SIM_CHANGE_MTU,   /* value: bytes of an IP packet */
    SIM_CHANGE_LOSS,  /* value: share */
    SIM_CHANGE_UP     /* value: 0 nothing passes, 1 as usual */
};

struct sim_change {
    uint64_t at_ns;
    enum sim_change_kind kind;
    uint64_t value;
};

#define SIM_CHANGES_MAX 16

struct sim_link_config {
    uint64_t rate_bps;    /* 0: no limit */
    uint64_t queue_bytes; /* room before the limiter; 0: no limit */
    uint64_t delay_ns;
    uint64_t jitter_ns; /* up to this much longer, each datagram anew; order is kept */
    uint32_t loss;      /* independent */
    uint32_t
        loss_repeat; /* chance to share the fate of the datagram before (netem's correlation) */
    /* Gilbert: two states; in the bad one `burst_loss` of the datagrams are lost. */
    uint32_t burst_enter, burst_leave, burst_loss;
    uint32_t reorder; /* share held back by up to reorder_ns and overtaken meanwhile */
    uint64_t reorder_ns;
    uint32_t duplicate;
    uint32_t corrupt;                                    /* share of which one bit is flipped */
    uint64_t policer_bps, policer_burst_bytes;           /* a token bucket that drops; 0: none */
    uint64_t flow_policer_bps, flow_policer_burst_bytes; /* the same for each flow by itself */
    uint32_t mtu; /* larger IP packets vanish without a word; 0: no limit */
    struct sim_change changes[SIM_CHANGES_MAX]; /* ascending times */
    unsigned change_count;
};

enum sim_fate {
    SIM_PASSED,
    SIM_DOWN,
    SIM_TOO_BIG,
    SIM_POLICED,
    SIM_QUEUE_FULL,
    SIM_LOST,
    SIM_FATE_COUNT
};

struct sim_arrival {
    uint64_t at_ns;
    bool corrupt;         /* flip bit `corrupt_bit` mod (8 x size) */
    uint64_t corrupt_bit; /* any number */
};

struct sim_link_counts {
    uint64_t fates[SIM_FATE_COUNT];
    uint64_t offered_bytes, passed_bytes; /* IP packets */
    uint64_t duplicated, corrupted, held_back;
    uint64_t queue_ns_max; /* longest wait in the queue */
};

struct sim_bucket {
    uint64_t fill; /* tokens: bits x 10^9 */
    uint64_t at_ns;
};

#define SIM_FLOWS_MAX 16u

struct sim_link {
    struct sim_link_config config;
    struct random random;
    unsigned change_next;
    bool up, bad_state, last_lost;
    uint64_t free_at_ns;      /* when the limiter has sent everything it holds */
    uint64_t free_remainder;  /* the part of a nanosecond beyond, in bits x 10^9 / rate */
    uint64_t last_arrival_ns; /* of datagrams in order */
    struct sim_bucket policer, flow_policer[SIM_FLOWS_MAX];
    struct sim_link_counts counts;
};

void sim_link_init(struct sim_link *link, const struct sim_link_config *config, uint64_t seed);

/* Offers a datagram of `size` bytes of UDP payload, of the flow `flow`, now; times never go back.
 * Fills `arrivals` (0, 1 or 2 of them) and returns how many; *fate says why none. */
unsigned sim_link_offer_flow(struct sim_link *link, unsigned flow, uint64_t now_ns, uint32_t size,
                             struct sim_arrival arrivals[2], enum sim_fate *fate);
/* Of flow 0. */
unsigned sim_link_offer(struct sim_link *link, uint64_t now_ns, uint32_t size,
                        struct sim_arrival arrivals[2], enum sim_fate *fate);

/* Bytes that wait in the queue now, for a sender that fills a pipe instead of dropping. */
uint64_t sim_link_backlog(struct sim_link *link, uint64_t now_ns);

/* `a` x `b` / `c` without overflow in between, rounded down. */
uint64_t sim_scale(uint64_t a, uint64_t b, uint64_t c);

#endif
