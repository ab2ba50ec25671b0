/* A ring of variable-size messages between one producer and one consumer.
 *
 * Producer and consumer may be different threads (C11 atomics, no lock) or the same one. Messages
 * are contiguous, 8-byte aligned, and at most a quarter of the capacity. A ring never allocates
 * after ring_new and never wakes anybody: whoever joins threads with it brings the wake-up.
 */
#ifndef PETREL_BASE_RING_H
#define PETREL_BASE_RING_H

#include <stdbool.h>
#include <stddef.h>

struct ring;

/* `capacity` in bytes, rounded up to a power of two. NULL without memory. */
struct ring *ring_new(size_t capacity);
void ring_free(struct ring *ring);

/* Producer. Space for one message of `size` bytes, or NULL when the ring is full. Nothing is
 * visible to the consumer before ring_commit, which may shorten the message. */
void *ring_reserve(struct ring *ring, size_t size);
void ring_commit(struct ring *ring, size_t size);
/* reserve, copy, commit. False when full. */
bool ring_put(struct ring *ring, const void *message, size_t size);
/* True when a message of `size` bytes would fit now. */
bool ring_has_room(const struct ring *ring, size_t size);

/* Consumer. The oldest message, valid until ring_release, or NULL when empty. */
const void *ring_peek(struct ring *ring, size_t *size);
void ring_release(struct ring *ring);
bool ring_is_empty(const struct ring *ring);

#endif
