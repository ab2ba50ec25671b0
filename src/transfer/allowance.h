/* How many bytes of blocks may go by now under a limit that can change while a transfer runs: a
 * bucket that fills with the rate and may be overdrawn by one block. Pure.
 *
 * A sender asks before it hands a block to the session, a receiver before it grants one. So a
 * server holds a client to a limit whatever the client's own pacing does.
 */
#ifndef PETREL_TRANSFER_ALLOWANCE_H
#define PETREL_TRANSFER_ALLOWANCE_H

#include <stdbool.h>
#include <stdint.h>

/* Starts zeroed: everything may go. */
struct allowance {
    uint64_t limit_bps; /* 0: none */
    bool paused;
    uint64_t filled_ns; /* up to when the bucket was filled */
    double bytes;       /* in it; below 0: overdrawn */
};

void allowance_set(struct allowance *allowance, uint64_t limit_bps, bool paused, uint64_t now_ns);
/* Whether a block may go now. */
bool allowance_admits(struct allowance *allowance, uint64_t now_ns);
/* It goes; negative: part of it did not come about. */
void allowance_spend(struct allowance *allowance, int64_t bytes);
/* When the next may go; 0: now, UINT64_MAX: not before it is set anew. */
uint64_t allowance_deadline(const struct allowance *allowance);

#endif
