/* One direction between two threads: a ring, and behind it a queue on the producer's side for what
 * found no room, so that putting a message never fails for want of room and order is kept. */
#ifndef PETREL_TRANSFER_SEAM_H
#define PETREL_TRANSFER_SEAM_H

#include "base/ring.h"
#include "transfer/byte_queue.h"

struct seam {
    struct ring *ring;
    struct byte_queue waiting; /* each message behind 8 bytes that hold its size */
    size_t waiting_count;
    bool reserved_waiting; /* where the reserved message is */
};

bool seam_open(struct seam *seam, size_t capacity);
void seam_close(struct seam *seam);

/* Producer. Memory for one message, 8-byte aligned; NULL without memory. */
void *seam_reserve(struct seam *seam, size_t size);
void seam_commit(struct seam *seam, size_t size);
/* Moves what waits into the ring. True when nothing waits any more. */
bool seam_flush(struct seam *seam, bool *moved);

#endif
