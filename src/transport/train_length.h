/* How long a lane's trains may take at the rate of the path: the longer, the fewer wake-ups a GB.
 *
 * A train arrives at the bottleneck all at once, so it must be short against the queue there. That
 * a queue is there shows in round trips; that it was too small for a train shows in the train's
 * second half, which is lost more often than its first. Pure; all times in nanoseconds.
 */
#ifndef PETREL_TRANSPORT_TRAIN_LENGTH_H
#define PETREL_TRANSPORT_TRAIN_LENGTH_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/rtt.h"

#define TRAIN_SHORT_NS UINT64_C(500000) /* what a path is taken to bear */

struct train_length {
    uint64_t recent_ns[2];      /* the round trips before the latest */
    uint64_t queue_ns;          /* the longest queue that three in a row saw, fading */
    uint64_t counted_since_ns;  /* packets whose fate is known, by half: */
    uint32_t count[2], lost[2]; /* [1]: the second */
    unsigned bad;               /* such counts in a row that spoke against the length */
    uint64_t short_until_ns;
    unsigned shorter; /* halvings of TRAIN_SHORT_NS until then */
    unsigned refuted; /* how often trains turned out too long */
};

/* After rtt_sample. */
void train_length_sample(struct train_length *length, const struct rtt *rtt, uint64_t sample_ns);
/* A packet was acknowledged or lost; `late`: it was in the second half of its train. */
void train_length_settled(struct train_length *length, const struct rtt *rtt, bool late, bool lost,
                          uint64_t now_ns);
/* From TRAIN_SHORT_NS to 4 ms: at most a sixth of the queue, and a sixteenth of a round trip (of
 * 14 ms at least, the time over which rates are measured). Down to an eighth of TRAIN_SHORT_NS
 * where even that proved too long, and only then to a single packet. */
uint64_t train_length_ns(const struct train_length *length, const struct rtt *rtt, uint64_t now_ns);

#endif
