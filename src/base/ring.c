#include "base/ring.h"

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/aligned.h"

/* Positions only grow; a position's place in the store is its low bits. A message is a record of
 * an 8-byte header and its bytes, padded to 8. Where a record would pass the end of the store, a
 * header that says WRAP fills the rest and the record starts at the bottom; both become visible by
 * the same store of `tail`.
 *
 * Each side keeps what it last saw of the other's position and looks again only when that is not
 * enough, so that on a busy ring the two cores seldom pull on one line. */

#define LINE_SIZE 128 /* two 64-byte lines: processors fetch them in pairs */
#define HEADER_SIZE sizeof(struct header)
#define WRAP UINT32_MAX
#define CAPACITY_MIN 64u
#define CAPACITY_MAX (UINT32_C(1) << 30)

struct header {
    uint32_t size; /* of the message, or WRAP */
    uint32_t unused;
};
_Static_assert(sizeof(struct header) == 8, "messages must stay 8-byte aligned");

struct ring {
    /* Written by the producer. */
    alignas(LINE_SIZE) atomic_uint_fast64_t tail;
    uint64_t seen_head;
    uint64_t reserved_at; /* position of the reserved record */
    size_t reserved_size; /* SIZE_MAX: nothing reserved */

    /* Written by the consumer. */
    alignas(LINE_SIZE) atomic_uint_fast64_t head;
    uint64_t seen_tail;

    /* Fixed. */
    alignas(LINE_SIZE) uint64_t mask;
    uint8_t *store;
};

static uint64_t capacity_of(const struct ring *ring)
{
    return ring->mask + 1;
}

static struct header *header_at(const struct ring *ring, uint64_t position)
{
    return (struct header *)(void *)(ring->store + (position & ring->mask));
}

static uint64_t record_size(size_t message_size)
{
    return HEADER_SIZE + (((uint64_t)message_size + 7) & ~UINT64_C(7));
}

static uint64_t left_before_end(const struct ring *ring, uint64_t position)
{
    return capacity_of(ring) - (position & ring->mask);
}

struct ring *ring_new(size_t capacity)
{
    if (capacity > CAPACITY_MAX)
        return NULL;
    size_t rounded = CAPACITY_MIN;
    while (rounded < capacity)
        rounded *= 2;
    struct ring *ring = aligned_new(sizeof *ring, LINE_SIZE);
    if (ring == NULL)
        return NULL;
    memset(ring, 0, sizeof *ring);
    ring->store = aligned_new(rounded, LINE_SIZE);
    if (ring->store == NULL) {
        aligned_free(ring);
        return NULL;
    }
    ring->mask = rounded - 1;
    ring->reserved_size = SIZE_MAX;
    atomic_init(&ring->tail, 0);
    atomic_init(&ring->head, 0);
    return ring;
}

void ring_free(struct ring *ring)
{
    if (ring == NULL)
        return;
    aligned_free(ring->store);
    aligned_free(ring);
}

/* What a record at `tail` takes up, with the rest of the store where it has to be left out. */
static uint64_t span_at(const struct ring *ring, uint64_t tail, size_t size)
{
    uint64_t record = record_size(size);
    uint64_t before_end = left_before_end(ring, tail);
    return record > before_end ? before_end + record : record;
}

void *ring_reserve(struct ring *ring, size_t size)
{
    assert(size <= capacity_of(ring) / 4);
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint64_t span = span_at(ring, tail, size);
    if (tail + span - ring->seen_head > capacity_of(ring)) {
        ring->seen_head = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (tail + span - ring->seen_head > capacity_of(ring))
            return NULL;
    }
    uint64_t skipped = span - record_size(size);
    if (skipped > 0)
        header_at(ring, tail)->size = WRAP;
    ring->reserved_at = tail + skipped;
    ring->reserved_size = size;
    return header_at(ring, ring->reserved_at) + 1;
}

void ring_commit(struct ring *ring, size_t size)
{
    assert(ring->reserved_size != SIZE_MAX && size <= ring->reserved_size);
    header_at(ring, ring->reserved_at)->size = (uint32_t)size;
    ring->reserved_size = SIZE_MAX;
    atomic_store_explicit(&ring->tail, ring->reserved_at + record_size(size), memory_order_release);
}

bool ring_put(struct ring *ring, const void *message, size_t size)
{
    void *space = ring_reserve(ring, size);
    if (space == NULL)
        return false;
    if (size > 0)
        memcpy(space, message, size);
    ring_commit(ring, size);
    return true;
}

bool ring_has_room(const struct ring *ring, size_t size)
{
    assert(size <= capacity_of(ring) / 4);
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint64_t needed = tail + span_at(ring, tail, size);
    if (needed - ring->seen_head <= capacity_of(ring))
        return true;
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    return needed - head <= capacity_of(ring);
}

/* Position of the oldest record, past a wrap if there is one. The ring must not be empty. */
static uint64_t oldest_record(const struct ring *ring, uint64_t head)
{
    return header_at(ring, head)->size == WRAP ? head + left_before_end(ring, head) : head;
}

const void *ring_peek(struct ring *ring, size_t *size)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head == ring->seen_tail) {
        ring->seen_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head == ring->seen_tail)
            return NULL;
    }
    struct header *header = header_at(ring, oldest_record(ring, head));
    *size = header->size;
    return header + 1;
}

void ring_release(struct ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    assert(head != ring->seen_tail); /* release follows a peek that found a message */
    uint64_t record = oldest_record(ring, head);
    atomic_store_explicit(&ring->head, record + record_size(header_at(ring, record)->size),
                          memory_order_release);
}

bool ring_is_empty(const struct ring *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_acquire) ==
           atomic_load_explicit(&ring->tail, memory_order_acquire);
}
