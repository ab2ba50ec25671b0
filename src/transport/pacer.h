/* Spreads a lane's trains over time at a rate.
 *
 * Two clocks: the schedule, which says when the next train is due at the rate, and the gate, which
 * keeps a late start from being made up faster than 1.25 times the rate. Lateness over 10 ms is
 * forgotten. Where the largest train is over sooner than trains may take, several leave at once, a
 * burst: each wake-up between them would cost as much as sealing twenty packets.
 */
#ifndef PETREL_TRANSPORT_PACER_H
#define PETREL_TRANSPORT_PACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pacer {
    uint64_t rate_bps;  /* 0: no pacing */
    uint64_t whole_bps; /* of all lanes together, by which trains are measured */
    uint64_t schedule_ns, gate_ns;
    uint64_t burst_ns; /* when the latest burst left */
    size_t burst_bytes, burst_left;
};

/* This lane's rate, and that of all lanes (the same when there is one). */
void pacer_set_rate(struct pacer *pacer, uint64_t rate_bps, uint64_t whole_bps);
/* The earliest time at which a train may leave; 0: at once. */
uint64_t pacer_ready(const struct pacer *pacer);
/* Whether one may leave now, as the first of a burst that takes `train_ns` of the rate or as one of
 * the rest; time must not pass between the trains of a burst. */
bool pacer_may_send(struct pacer *pacer, uint64_t train_ns, uint64_t now_ns);
void pacer_sent(struct pacer *pacer, size_t bytes, uint64_t now_ns);
/* How many bytes the next train may hold: `train_ns` of the rate of all lanes, so that many lanes
 * need no shorter trains than one, but at most four times that of this lane's; at least two
 * packets, or one where `train_ns` says that trains of TRAIN_SHORT_NS are too long. */
size_t pacer_train_bytes(const struct pacer *pacer, uint64_t train_ns, size_t packet_bytes);
/* Whether what follows `bytes` of a train of at most `train_bytes` is in the second half of what
 * leaves at once. */
bool pacer_is_late(const struct pacer *pacer, size_t bytes, size_t train_bytes);

#endif
