/* A model of a network path for judging the rate controller: one bottleneck shared by all flows.
 *
 * Quick rather than complete: packets are not queued as objects; each is given its departure and
 * arrival time when it is sent, from a rate schedule that is known in advance. A "unit" is a short
 * run of packets sent back to back that share one fate in the queue, while random loss still
 * strikes each packet on its own. Virtual time in nanoseconds; one random stream per component.
 */
#ifndef PETREL_SIM_CONTROLLER_PATH_H
#define PETREL_SIM_CONTROLLER_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "base/units.h"

#define PATH_STEPS_MAX 8
#define PATH_FLOWS_MAX 5

struct path_step {
    uint64_t at_ns;
    uint64_t rate_bps; /* 0: an outage, everything sent is lost and the queue waits */
};

struct path_config {
    struct path_step steps[PATH_STEPS_MAX]; /* the first at 0; rate in UDP payload bits */
    unsigned step_count;
    uint64_t rtt_ns; /* without any queue; half of it each way */
    uint64_t queue_bytes;
    uint64_t policer_bps; /* 0: none; tokens of one second */
    uint64_t bucket_bytes;
    double loss;         /* of packets, after the bottleneck unless: */
    bool loss_before;    /* what is lost takes no room on the link */
    double burst_mean;   /* mean run of lost packets, 0 or 1: independent */
    double loss_repeat;  /* chance to share the fate of the packet before (a correlation) */
    uint64_t jitter_ns;  /* after the bottleneck, order kept; drawn anew every 2 ms */
    uint64_t shuffle_ns; /* each unit up to this late on its own: order is not kept */
    uint64_t wander_ns;  /* the rate changes this often, to 0.5 to 1 of what it says */
    double reorder;      /* share of units that come up to 8 ms late */
    double ack_loss;
    uint64_t ack_bps;          /* rate of the way back; 0: any */
    uint64_t service_noise_ns; /* a busy receiver: pauses of up to this, one every 10 ms or so */
    uint64_t bunch_ns;         /* what arrives waits up to this long for the next wake-up */
    uint64_t hesitates_ns;     /* a cold one: one pause of up to this in the first two RTT */
};

struct path_fate {
    uint64_t arrives_ns; /* of what arrives */
    uint32_t lost;       /* packets lost, of all causes */
    uint32_t overflowed; /* of these, by queue, policer or outage */
    uint32_t runs;       /* runs of consecutive losses that begin in this unit */
};

/* Departures still ahead, to know the queue's length at any time. */
struct path_departure {
    uint64_t at_ns;
    uint64_t bytes;
};

struct path {
    struct path_config config;
    struct random loss_random[PATH_FLOWS_MAX], jitter_random, reorder_random, noise_random,
        ack_random, wander_random;
    bool burst_state[PATH_FLOWS_MAX], last_lost[PATH_FLOWS_MAX];
    uint64_t back_free_ns; /* when the way back has sent what was given to it */
    uint64_t busy_until_ns;
    struct path_departure *departures; /* ring */
    size_t head, tail, mask;
    uint64_t backlog_bytes;
    double tokens_bytes;
    uint64_t tokens_at_ns;
    uint64_t jitter_slot, jitter_now_ns, last_arrival_ns[PATH_FLOWS_MAX];
    uint64_t next_pause_ns;
    uint64_t hesitates_at_ns, hesitates_ns; /* 0: it is over */
    double wander_share;
    uint64_t wander_until_ns;
};

void path_init(struct path *path, const struct path_config *config, uint64_t seed);
void path_release(struct path *path);
/* Times must not decrease from call to call. */
struct path_fate path_send(struct path *path, unsigned flow, uint32_t packets, uint32_t bytes_each,
                           uint64_t now_ns);
uint64_t path_rate_bps(const struct path *path, uint64_t now_ns);
/* Delay that a packet sent now would find in the queue. */
uint64_t path_queue_ns(struct path *path, uint64_t now_ns);
/* Whether an ack of `bytes` made at `made_ns` is lost on the way back; else when it arrives. */
bool path_ack(struct path *path, uint32_t bytes, uint64_t made_ns, uint64_t *arrives_ns);

#endif
