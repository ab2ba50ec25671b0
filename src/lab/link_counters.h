/* What one direction of an emulated link has seen, counted in segments (IP packets as they would
 * be on the wire), and its form as JSON (docs/man/petrel-lab.1 lists the names).
 */
#ifndef PETREL_LAB_LINK_COUNTERS_H
#define PETREL_LAB_LINK_COUNTERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define LINK_RUN_MAX 64u         /* longer runs of losses share the last bucket */
#define LINK_QUEUE_BUCKETS 2048u /* of queueing delay, LINK_QUEUE_BUCKET_NS wide */
#define LINK_QUEUE_BUCKET_NS 250000u

struct link_tally {
    uint64_t packets, bytes;    /* IP bytes, headers included, as they arrived from the sender */
    uint64_t first_ns, last_ns; /* of CLOCK_MONOTONIC; 0 before the first packet */
};

struct link_counters {
    struct link_tally all, udp, tcp;
    struct link_tally delivered; /* what left at the other end, copies included */
    uint64_t trains;             /* buffers of more than one segment that arrived */
    uint64_t pieces;             /* buffers handed to the receiver */
    uint64_t dropped_loss, dropped_queue, dropped_policer, dropped_mtu, dropped_memory;
    uint64_t dropped_write; /* the receiving kernel refused it */
    uint64_t duplicated, reordered;
    uint64_t ignored; /* multicast chatter of the interfaces, not carried or counted */
    uint64_t loss_runs[LINK_RUN_MAX + 1]; /* [n]: runs of n consecutive segments lost */
    uint64_t loss_runs_total, loss_run_now;
    uint64_t queue_samples, queue_max_ns;
    double queue_sum_ns;
    uint64_t queue_buckets[LINK_QUEUE_BUCKETS];
    uint64_t late_max_ns; /* how long after its due time a piece left */
    double late_sum_ns;
};

void link_tally_add(struct link_tally *tally, uint64_t now_ns, uint64_t packets, uint64_t bytes);
void link_counters_loss(struct link_counters *counters, bool lost);
void link_counters_queue(struct link_counters *counters, uint64_t delay_ns);
void link_counters_late(struct link_counters *counters, uint64_t late_ns);
/* A new object, or NULL without memory. */
json_t *link_counters_json(const struct link_counters *counters);

#endif
