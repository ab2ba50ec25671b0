/* What an opening sends, taken until it has no more: bounded, whatever it was given, and finished
 * with nobody. */
#ifndef PETREL_FUZZ_DRAIN_OPENING_H
#define PETREL_FUZZ_DRAIN_OPENING_H

#include <stdlib.h>

#include "transport/opening.h"

static inline void require(bool condition)
{
    if (!condition)
        abort();
}

/* Bytes that were sent. */
static inline uint64_t drain_opening(struct opening *opening, uint64_t now_ns)
{
    uint8_t bytes[STREAM_PACKET_MAX];
    struct address to;
    size_t size;
    unsigned count = 0;
    uint64_t taken = 0;

    while ((size = opening_send(opening, &to, bytes, sizeof bytes, now_ns)) > 0) {
        require(++count < 64);
        taken += size;
    }
    require(opening_deadline(opening) > now_ns);
    require(opening_state(opening) != OPENING_FINISHED);
    return taken;
}

#endif
