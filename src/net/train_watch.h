/* Notices that trains vanish on a path that single datagrams cross, and says when to send plainly.
 *
 * Some drivers and tunnels lose or mangle what they should cut up, without an error. What is left
 * to see is that nearly everything is lost although acknowledgements arrive. Pure: counts and time
 * go in. One for each lane.
 */
#ifndef PETREL_NET_TRAIN_WATCH_H
#define PETREL_NET_TRAIN_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct train_watch {
    bool plain;           /* the verdict: no trains for now */
    unsigned bad_windows; /* in a row */
    uint64_t window_ns;   /* when the present window began */
    uint64_t acked, lost; /* as they were then */
    uint64_t retry_ns;    /* when trains get another chance */
    unsigned failures;
};

/* Tells how many packets were acknowledged and lost so far. Returns true when `plain` changed. */
bool train_watch_note(struct train_watch *watch, uint64_t acked, uint64_t lost, uint64_t now_ns);

#endif
