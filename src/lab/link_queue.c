#include "lab/link_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define RING_CAPACITY_FIRST 4096u
#define HEAP_CAPACITY_FIRST 1024u

bool link_queue_init(struct link_queue *queue)
{
    memset(queue, 0, sizeof *queue);
    queue->ring_capacity = RING_CAPACITY_FIRST;
    queue->heap_capacity = HEAP_CAPACITY_FIRST;
    queue->ring = malloc(RING_CAPACITY_FIRST * sizeof *queue->ring);
    queue->heap = malloc(HEAP_CAPACITY_FIRST * sizeof *queue->heap);
    if (queue->ring != NULL && queue->heap != NULL)
        return true;
    link_queue_destroy(queue);
    return false;
}

void link_queue_destroy(struct link_queue *queue)
{
    free(queue->ring);
    free(queue->heap);
    memset(queue, 0, sizeof *queue);
}

static struct link_entry *ring_at(const struct link_queue *queue, uint64_t position)
{
    return &queue->ring[position & (queue->ring_capacity - 1)];
}

static bool ring_put(struct link_queue *queue, const struct link_entry *entry)
{
    if (queue->ring_tail - queue->ring_head == queue->ring_capacity) {
        struct link_entry *ring = malloc(2 * queue->ring_capacity * sizeof *ring);
        if (ring == NULL)
            return false;
        uint64_t count = 0;
        for (uint64_t at = queue->ring_head; at != queue->ring_tail; at++)
            ring[count++] = *ring_at(queue, at);
        free(queue->ring);
        queue->ring = ring;
        queue->ring_head = 0;
        queue->ring_tail = count;
        queue->ring_capacity *= 2;
    }
    *ring_at(queue, queue->ring_tail++) = *entry;
    return true;
}

static bool is_before(const struct link_entry *a, const struct link_entry *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static bool heap_put(struct link_queue *queue, const struct link_entry *entry)
{
    if (queue->heap_count == queue->heap_capacity) {
        struct link_entry *heap =
            realloc(queue->heap, 2 * queue->heap_capacity * sizeof *queue->heap);
        if (heap == NULL)
            return false;
        queue->heap = heap;
        queue->heap_capacity *= 2;
    }
    uint64_t at = queue->heap_count++;
    while (at > 0 && is_before(entry, &queue->heap[(at - 1) / 2])) {
        queue->heap[at] = queue->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue->heap[at] = *entry;
    return true;
}

static void heap_remove_first(struct link_queue *queue)
{
    struct link_entry last = queue->heap[--queue->heap_count];
    uint64_t at = 0;
    for (;;) {
        uint64_t child = 2 * at + 1;
        if (child >= queue->heap_count)
            break;
        if (child + 1 < queue->heap_count &&
            is_before(&queue->heap[child + 1], &queue->heap[child]))
            child++;
        if (!is_before(&queue->heap[child], &last))
            break;
        queue->heap[at] = queue->heap[child];
        at = child;
    }
    queue->heap[at] = last;
}

bool link_queue_put(struct link_queue *queue, const struct link_entry *entry, bool held_back)
{
    struct link_entry numbered = *entry;
    numbered.order = queue->next_order++;
    bool in_order = queue->ring_head == queue->ring_tail ||
                    ring_at(queue, queue->ring_tail - 1)->due_ns <= entry->due_ns;
    return in_order && !held_back ? ring_put(queue, &numbered) : heap_put(queue, &numbered);
}

static const struct link_entry *front(const struct link_queue *queue, bool *from_heap)
{
    const struct link_entry *first =
        queue->ring_head == queue->ring_tail ? NULL : ring_at(queue, queue->ring_head);
    *from_heap = queue->heap_count > 0 && (first == NULL || is_before(&queue->heap[0], first));
    return *from_heap ? &queue->heap[0] : first;
}

uint64_t link_queue_next(const struct link_queue *queue)
{
    bool from_heap;
    const struct link_entry *first = front(queue, &from_heap);
    return first == NULL ? TIME_NEVER : first->due_ns;
}

bool link_queue_take(struct link_queue *queue, uint64_t now_ns, struct link_entry *entry)
{
    bool from_heap;
    const struct link_entry *first = front(queue, &from_heap);
    if (first == NULL || first->due_ns > now_ns)
        return false;
    *entry = *first;
    if (from_heap)
        heap_remove_first(queue);
    else
        queue->ring_head++;
    return true;
}
