/* See sim_queue.h. A binary heap of (time, sequence); the sequence makes equal times first in,
 * first out. */
#include "lab/sim_queue.h"

#include <stdlib.h>

#include "base/units.h"

struct slot {
    uint64_t at_ns, sequence;
    struct sim_event *event;
};

struct sim_queue {
    struct slot *slots;
    size_t count, capacity;
    uint64_t sequence;
    struct sim_event *free_events;
};

static void *must(void *memory)
{
    if (memory == NULL) {
        abort();
    }
    return memory;
}

struct sim_queue *sim_queue_new(void)
{
    return must(calloc(1, sizeof(struct sim_queue)));
}

void sim_queue_free(struct sim_queue *queue)
{
    if (queue == NULL) {
        return;
    }
    for (size_t i = 0; i < queue->count; i++) {
        free(queue->slots[i].event);
    }
    while (queue->free_events != NULL) {
        struct sim_event *event = queue->free_events;
        queue->free_events = event->next_free;
        free(event);
    }
    free(queue->slots);
    free(queue);
}

struct sim_event *sim_queue_make(struct sim_queue *queue)
{
    struct sim_event *event = queue->free_events;
    if (event != NULL) {
        queue->free_events = event->next_free;
    } else {
        event = must(malloc(sizeof(*event)));
    }
    event->next_free = NULL;
    event->hostile = false;
    event->size = 0;
    return event;
}

void sim_queue_give(struct sim_queue *queue, struct sim_event *event)
{
    event->next_free = queue->free_events;
    queue->free_events = event;
}

static bool earlier(const struct slot *a, const struct slot *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->sequence < b->sequence;
}

void sim_queue_push(struct sim_queue *queue, struct sim_event *event)
{
    if (queue->count == queue->capacity) {
        queue->capacity = queue->capacity ? queue->capacity * 2 : 256;
        queue->slots = must(realloc(queue->slots, queue->capacity * sizeof(*queue->slots)));
    }
    struct slot slot = {event->at_ns, queue->sequence++, event};
    size_t at = queue->count++;
    while (at > 0 && earlier(&slot, &queue->slots[(at - 1) / 2])) {
        queue->slots[at] = queue->slots[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue->slots[at] = slot;
}

uint64_t sim_queue_next_ns(const struct sim_queue *queue)
{
    return queue->count ? queue->slots[0].at_ns : TIME_NEVER;
}

struct sim_event *sim_queue_pop(struct sim_queue *queue)
{
    if (queue->count == 0) {
        return NULL;
    }
    struct sim_event *event = queue->slots[0].event;
    struct slot last = queue->slots[--queue->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= queue->count) {
            break;
        }
        if (child + 1 < queue->count && earlier(&queue->slots[child + 1], &queue->slots[child])) {
            child++;
        }
        if (!earlier(&queue->slots[child], &last)) {
            break;
        }
        queue->slots[at] = queue->slots[child];
        at = child;
    }
    if (queue->count > 0) {
        queue->slots[at] = last;
    }
    return event;
}
