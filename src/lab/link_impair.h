/* What an emulated link does to single segments, one small machine for each kind: loss, the
 * limiter with its queue, the policer. Pure, reproducible from a seed; time is an argument.
 */
#ifndef PETREL_LAB_LINK_IMPAIR_H
#define PETREL_LAB_LINK_IMPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/random.h"

#define LINK_ALWAYS UINT32_MAX /* as a share: 100 % without exception */

/* Loss as a chain of two states, which keeps the asked share whatever the shape of the runs
 * (E. N. Gilbert, 1960, with a loss probability of one in the bad state). */
struct link_loss {
    uint32_t enter_parts; /* chance of loss after a delivered segment, in parts of 2^32 */
    uint32_t stay_parts;  /* after a lost one */
    bool lost_before;
    struct random random;
};

/* `burst` is the mean length of a run of lost segments, 0 for independent loss; `correlation` is
 * the correlation of a segment's loss with that of the one before. At most one of them may be
 * given. Fails when the share cannot be had with such short runs. Leaves the random stream and
 * the state alone, so that a change in mid-run does not start anew. */
bool link_loss_set(struct link_loss *loss, uint32_t share_parts, double burst,
                   uint32_t correlation_parts, struct error *error);
bool link_loss_next(struct link_loss *loss);

/* A line of a fixed rate behind a queue of bytes with tail drop. Rate 0 is no limit. */
struct link_limiter {
    uint64_t rate_bps;
    uint64_t queue_bytes;
    uint64_t free_ns;  /* when the line has sent everything accepted so far */
    uint64_t fraction; /* of a nanosecond beyond free_ns, in parts of rate_bps */
};

void link_limiter_set(struct link_limiter *limiter, uint64_t rate_bps, uint64_t queue_bytes,
                      uint64_t now_ns);
/* Queueing delay that a segment arriving now would find. */
uint64_t link_limiter_backlog(const struct link_limiter *limiter, uint64_t now_ns);
/* False: the queue is full. Else when the segment's last bit leaves. */
bool link_limiter_pass(struct link_limiter *limiter, uint64_t now_ns, uint32_t size_bytes,
                       uint64_t *departure_ns);

/* A token bucket without a queue: what finds no tokens is dropped. Rate 0 is no policer. */
struct link_policer {
    uint64_t rate_bps;
    uint64_t bucket_bytes;
    double tokens_bytes;
    uint64_t last_ns;
};

void link_policer_set(struct link_policer *policer, uint64_t rate_bps, uint64_t bucket_bytes,
                      uint64_t now_ns);
bool link_policer_pass(struct link_policer *policer, uint64_t now_ns, uint32_t size_bytes);

#endif
