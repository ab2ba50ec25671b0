/* Notices that trains vanish on a path that single datagrams cross, and says when to send plainly.
 *
 * Some drivers and tunnels lose or mangle what they should cut up, without an error. What is left
 * to see is that nearly everything is lost although acknowledgements arrive. But a path that gets
 * twenty times what it carries, as a slow one does at the start, loses as much. So trains that are
 * suspected are tried: some go whole and some cut, in the same time and at the same rate, and only
 * what arrives of the one and of the other decides. Pure: counts and time go in. One for each lane.
 */
#ifndef PETREL_NET_TRAIN_WATCH_H
#define PETREL_NET_TRAIN_WATCH_H

#include "transport/lane.h"

enum train_verdict { TRAINS_PASS, TRAINS_ON_TRIAL, TRAINS_VANISH };

struct train_watch {
    enum train_verdict verdict;
    uint64_t window_ns;                  /* when the present window began */
    uint64_t acked, lost;                /* as they were then */
    struct lane_delivery before, latest; /* as it was when the trial began, and as it is */
    unsigned turn;                       /* of the trial's trains */
    uint64_t retry_ns;                   /* when trains get another chance */
    unsigned failures;
};

/* How the next train shall go. */
enum train_trial train_watch_next(const struct train_watch *watch);
/* After each train: tells what became of packets so far. Returns true when the verdict changed. */
bool train_watch_note(struct train_watch *watch, const struct lane_delivery *delivery,
                      uint64_t now_ns);

#endif
