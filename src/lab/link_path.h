/* One direction of an emulated link. Packets and trains go in with their arrival time and come
 * out as pieces with the time at which they are due.
 *
 *   loss before | path MTU | policer of its flow | policer | queue and limiter | loss after |
 * delay, jitter, reordering
 *
 * Each segment of a train meets all of them by itself, as if the train had been cut before the
 * wire. What stays together leaves as one piece when its last segment would have arrived; a train
 * that takes long on the wire leaves in pieces of PIECE_NS, so that pacing looks right.
 *
 * Pure: no system calls, time is an argument that never decreases, the same seed and packets give
 * the same result. One owner thread.
 */
#ifndef PETREL_LAB_LINK_PATH_H
#define PETREL_LAB_LINK_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "lab/link_counters.h"
#include "lab/link_store.h"

struct link_shape {
    uint64_t rate_bps;    /* 0: no limit */
    uint64_t queue_bytes; /* before the limiter; the packet on the wire not counted */
    uint64_t delay_ns;    /* one way */
    uint64_t jitter_ns;   /* added delay is uniform in +-jitter for each segment; reorders */
    uint32_t loss_parts;  /* shares in parts of 2^32 */
    uint32_t correlation_parts;
    double burst;
    bool loss_before;
    uint32_t reorder_parts;
    uint64_t reorder_by_ns; /* how long a reordered segment is held back */
    uint32_t duplicate_parts;
    uint64_t policer_bps; /* 0: none */
    uint64_t policer_bucket_bytes;
    uint64_t flow_policer_bps; /* for each flow by itself; 0: none */
    uint64_t flow_policer_bucket_bytes;
    uint32_t path_mtu; /* larger packets vanish without a word; 0: no limit */
};

struct link_path;

/* `store` is borrowed and must outlive the path. NULL without memory or with an impossible shape
 * (error says which). */
struct link_path *link_path_new(const struct link_shape *shape, struct link_store *store,
                                uint64_t seed, struct error *error);
void link_path_free(struct link_path *path);
/* What is on its way keeps the times that it has. */
bool link_path_set(struct link_path *path, const struct link_shape *shape, uint64_t now_ns,
                   struct error *error);

/* Takes over one reference of `buffer`, whose packet is parsed. */
void link_path_receive(struct link_path *path, uint64_t now_ns, struct link_buffer *buffer);
uint64_t link_path_next(const struct link_path *path); /* TIME_NEVER when nothing is on its way */
/* The next piece that is due: segments [*first, *first + *count) of the buffer's packet, which
 * the caller drops after use. NULL when nothing is due. */
struct link_buffer *link_path_take(struct link_path *path, uint64_t now_ns, uint32_t *first,
                                   uint32_t *count);

struct link_counters *link_path_counters(struct link_path *path);

#endif
