/* A growing first-in first-out queue of bytes on one thread.
 *
 * For what has to wait where no producer can be held up; whoever fills it keeps it bounded by
 * asking byte_queue_size first. Memory is given back when a large queue has run empty. Zeroed
 * memory is a valid empty queue.
 */
#ifndef PETREL_TRANSFER_BYTE_QUEUE_H
#define PETREL_TRANSFER_BYTE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct byte_queue {
    uint8_t *bytes;
    size_t start, end, capacity;
};

void byte_queue_release(struct byte_queue *queue);
size_t byte_queue_size(const struct byte_queue *queue);
/* Room for `size` bytes behind the last, 8-byte aligned as long as all sizes are multiples of 8;
 * NULL without memory. Nothing is in the queue before byte_queue_commit, which may shorten it. */
uint8_t *byte_queue_reserve(struct byte_queue *queue, size_t size);
void byte_queue_commit(struct byte_queue *queue, size_t size);
/* The oldest bytes, valid until the next call that changes the queue. */
const uint8_t *byte_queue_front(const struct byte_queue *queue);
void byte_queue_consume(struct byte_queue *queue, size_t size);

#endif
