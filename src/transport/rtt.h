/* Round-trip time of one lane (RFC 9002 section 5, RFC 6298). */
#ifndef PETREL_TRANSPORT_RTT_H
#define PETREL_TRANSPORT_RTT_H

#include <stdbool.h>
#include <stdint.h>

struct rtt {
    bool measured;
    uint64_t smoothed_ns, variation_ns, latest_ns;
    uint64_t min_ns;
};

/* `guess_ns` holds until the first sample. */
void rtt_init(struct rtt *rtt, uint64_t guess_ns);
void rtt_sample(struct rtt *rtt, uint64_t sample_ns);
/* How long to wait for an ack before asking for one: smoothed + max(4 variation, 2 ms) + the
 * peer's longest ack interval. */
uint64_t rtt_probe_timeout(const struct rtt *rtt);
/* The ack interval for a path of this RTT: an eighth of it, within 1 and 10 ms. */
uint64_t rtt_ack_interval(uint64_t rtt_ns);

#endif
