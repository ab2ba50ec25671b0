/* Other senders on the modelled path: plain CUBIC with HyStart's delay rule (RFC 9438, RFC 9406),
 * and BBR as the kernel has it (version 1: gains 2.89 and 0.35, eight phases of 1.25, 0.75 and six
 * of 1, the best of ten rounds, 200 ms of four packets after ten seconds without a shorter RTT).
 *
 * Models good enough to see who yields to whom; real ones are measured by petrel-lab matrix fair.
 */
#ifndef PETREL_SIM_CONTROLLER_RIVAL_H
#define PETREL_SIM_CONTROLLER_RIVAL_H

#include <stdbool.h>
#include <stdint.h>

#define BBR_ROUNDS 10u

struct cubic {
    double window, threshold, maximum, epoch_start_s, k; /* packets, seconds */
    uint64_t recover_unit;
    bool in_recovery;
};

enum bbr_state { BBR_STARTUP, BBR_DRAIN, BBR_PROBE_BW, BBR_PROBE_RTT };

struct bbr {
    enum bbr_state state;
    double best_bps[BBR_ROUNDS]; /* of each of the last rounds, a ring */
    uint64_t round, round_ends_delivered;
    double full_bps; /* of STARTUP, and rounds without growth over it */
    unsigned full_rounds, phase;
    bool filled;
    uint64_t rtt_min_ns, rtt_min_at_ns, phase_at_ns, probe_until_ns;
};

struct flow;
struct flow_unit;

void rival_init(struct flow *flow);
/* Sends what may leave now; the time at which it wants to be called again. */
uint64_t rival_send(struct flow *flow, uint64_t now_ns);
/* `packets` newly arrived; `top` is the latest of them. */
void rival_on_ack(struct flow *flow, uint32_t packets, const struct flow_unit *top, uint64_t rtt_ns,
                  uint64_t now_ns);
void rival_on_loss(struct flow *flow, uint64_t unit_number);

#endif
