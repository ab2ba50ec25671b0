#include "transfer/seam.h"

#include <string.h>

#define SIZE_FIELD 8u

bool seam_open(struct seam *seam, size_t capacity)
{
    *seam = (struct seam){.ring = ring_new(capacity)};
    return seam->ring != NULL;
}

void seam_close(struct seam *seam)
{
    ring_free(seam->ring);
    byte_queue_release(&seam->waiting);
    *seam = (struct seam){0};
}

static size_t padded(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

void *seam_reserve(struct seam *seam, size_t size)
{
    void *space = seam->waiting_count == 0 ? ring_reserve(seam->ring, size) : NULL;
    seam->reserved_waiting = space == NULL;
    if (space != NULL)
        return space;
    uint8_t *record = byte_queue_reserve(&seam->waiting, SIZE_FIELD + padded(size));
    return record != NULL ? record + SIZE_FIELD : NULL;
}

void seam_commit(struct seam *seam, size_t size)
{
    if (!seam->reserved_waiting) {
        ring_commit(seam->ring, size);
        return;
    }
    uint64_t field = size;
    memcpy(seam->waiting.bytes + seam->waiting.end, &field, sizeof field);
    byte_queue_commit(&seam->waiting, SIZE_FIELD + padded(size));
    seam->waiting_count++;
}

bool seam_flush(struct seam *seam, bool *moved)
{
    while (seam->waiting_count > 0) {
        const uint8_t *record = byte_queue_front(&seam->waiting);
        uint64_t size;
        memcpy(&size, record, sizeof size);
        if (!ring_put(seam->ring, record + SIZE_FIELD, (size_t)size))
            return false;
        byte_queue_consume(&seam->waiting, SIZE_FIELD + padded((size_t)size));
        seam->waiting_count--;
        *moved = true;
    }
    return true;
}
