/* Whether a copy stands still, and why as far as it can be told from here: nothing comes from the
 * other end any more, or it answers and nothing moves. Pure.
 */
#ifndef PETREL_CLI_STILLNESS_H
#define PETREL_CLI_STILLNESS_H

#include "transfer/transfer.h"

enum stillness_kind {
    STILLNESS_NONE,
    STILLNESS_SILENT, /* no sign of life from the other end */
    STILLNESS_IDLE    /* it lives, our disk has nothing to do, and nothing moves */
};

/* Starts zeroed. */
struct stillness {
    /* When the peer last acknowledged something, or had nothing to acknowledge. */
    uint64_t answered_ns, answered_packets;
    uint64_t moved_ns, moved; /* when last something moved, and the sum of all that moves */
    enum stillness_kind told;
    uint64_t told_since_ns; /* when what was told had begun */
    bool others_tell_end;
};

/* What is to be told now, once each. */
struct stillness_news {
    enum stillness_kind kind; /* NONE: nothing */
    bool over;                /* it is no more so */
    uint64_t for_ns;
};

/* About ten times a second. Sets what of `progress` says since when nothing moved or answered:
 * session.last_heard_ns is corrected by what the peer acknowledged. */
struct stillness_news stillness_look(struct stillness *stillness,
                                     struct transfer_progress *progress, uint64_t now_ns);
/* How long nothing was heard; how long it has been idle, 0 while that is no news. */
uint64_t stillness_silent_ns(const struct transfer_progress *progress, uint64_t now_ns);
uint64_t stillness_idle_ns(const struct stillness *stillness,
                           const struct transfer_progress *progress, uint64_t now_ns);
/* The silence since then was told by others, and perhaps its end will be. */
void stillness_is_told(struct stillness *stillness, uint64_t since_ns, bool and_its_end);

#endif
