#include "transfer/byte_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_FIRST 1024u
#define CAPACITY_KEPT 65536u /* an empty queue gives back what is larger */

void byte_queue_release(struct byte_queue *queue)
{
    free(queue->bytes);
    *queue = (struct byte_queue){0};
}

size_t byte_queue_size(const struct byte_queue *queue)
{
    return queue->end - queue->start;
}

static bool grow(struct byte_queue *queue, size_t needed)
{
    size_t capacity = queue->capacity > 0 ? queue->capacity : CAPACITY_FIRST;
    while (capacity < needed) {
        if (capacity > SIZE_MAX / 2)
            return false;
        capacity *= 2;
    }
    uint8_t *bytes = realloc(queue->bytes, capacity);
    if (bytes == NULL)
        return false;
    queue->bytes = bytes;
    queue->capacity = capacity;
    return true;
}

uint8_t *byte_queue_reserve(struct byte_queue *queue, size_t size)
{
    size_t held = byte_queue_size(queue);
    if (size > SIZE_MAX / 4)
        return NULL;
    if (queue->capacity - queue->end < size) {
        /* Moving down costs what is held: done only when at least as much has been consumed. */
        if (queue->start >= held && queue->capacity - held >= size) {
            if (held > 0)
                memmove(queue->bytes, queue->bytes + queue->start, held);
            queue->start = 0;
            queue->end = held;
        } else if (!grow(queue, queue->end + size)) {
            return NULL;
        }
    }
    return queue->bytes + queue->end;
}

void byte_queue_commit(struct byte_queue *queue, size_t size)
{
    assert(size <= queue->capacity - queue->end);
    queue->end += size;
}

const uint8_t *byte_queue_front(const struct byte_queue *queue)
{
    return queue->bytes + queue->start;
}

void byte_queue_consume(struct byte_queue *queue, size_t size)
{
    assert(size <= byte_queue_size(queue));
    queue->start += size;
    if (queue->start < queue->end)
        return;
    queue->start = queue->end = 0;
    if (queue->capacity > CAPACITY_KEPT)
        byte_queue_release(queue);
}
