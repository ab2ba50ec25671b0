/* What the parts of the receiving half share; for receiver*.c only.
 *
 *   receiver.c       its states and buffers, what the sink reports, a step
 *   receiver_peer.c  what the peer says
 */
#ifndef PETREL_TRANSFER_RECEIVER_INTERNAL_H
#define PETREL_TRANSFER_RECEIVER_INTERNAL_H

#include "transfer/half.h"

enum receiver_state {
    RECEIVER_NEW,
    RECEIVER_AWAITS_REQUEST, /* server */
    RECEIVER_AWAITS_NAMES,   /* client */
    RECEIVER_OPENING,
    RECEIVER_MOVING,
    RECEIVER_ENDING,   /* everything has arrived; the sink finishes */
    RECEIVER_VERIFIED, /* the sink has finished; last words go out */
    RECEIVER_DONE,     /* DONE was said */
    RECEIVER_STATE_COUNT
};

struct receiver {
    enum receiver_state state;
    size_t target;     /* buffers that may be out of the pool */
    size_t in_session; /* given and not come back as a whole block */
    size_t in_sink;
    uint64_t blocks_whole;
    bool end_known;
    uint64_t end_blocks, end_files;
    unsigned files_done_said;
    bool progress_changed;
    uint64_t held_since_ns; /* 0: the sink does not hold up the session */
    uint64_t measured_ns, measured_bytes, measure_for_ns;
    uint64_t rate_bps; /* the fastest of the recent intervals */
};

/* The one place where the state changes. */
bool receiver_move(struct receiver *receiver, enum receiver_state to, struct error *error);
/* As struct half has them. */
bool receiver_message(struct transfer *transfer, const struct message *message, uint64_t now_ns,
                      struct error *error);
void receiver_event(struct transfer *transfer, const struct session_event *event, uint64_t now_ns);

#endif
