/* The delay line: pieces of packets waiting for the time at which they are due.
 *
 * Pieces that come in the order of their due times (nearly all) stand in a ring; those that
 * overtake or are held back stand in a heap. Equal times leave in the order of arrival. The arrays
 * grow by doubling; nothing is allocated once a flight has had its size. One owner thread.
 */
#ifndef PETREL_LAB_LINK_QUEUE_H
#define PETREL_LAB_LINK_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "lab/link_store.h"

struct link_entry {
    uint64_t due_ns;
    uint64_t order; /* set by the queue */
    struct link_buffer *buffer;
    uint32_t first, count; /* segments of the buffer's packet */
};

struct link_queue {
    struct link_entry *ring, *heap;
    uint64_t ring_head, ring_tail, ring_capacity; /* positions never wrap; capacity a power of 2 */
    uint64_t heap_count, heap_capacity;
    uint64_t next_order;
};

bool link_queue_init(struct link_queue *queue);
void link_queue_destroy(struct link_queue *queue); /* does not drop the buffers */
/* `held_back`: others will overtake this one, so it must not stand in their way. False without
 * memory. */
bool link_queue_put(struct link_queue *queue, const struct link_entry *entry, bool held_back);
uint64_t link_queue_next(const struct link_queue *queue); /* TIME_NEVER when empty */
/* The entry that is due first, if it is due at `now_ns`. */
bool link_queue_take(struct link_queue *queue, uint64_t now_ns, struct link_entry *entry);

#endif
