#include "transport/missing_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define FIRST_CAPACITY 256u
#define LAST_CAPACITY 262144u

void missing_list_release(struct missing_list *list)
{
    free(list->packets);
    memset(list, 0, sizeof(*list));
}

static void close_up(struct missing_list *list)
{
    memmove(list->packets, list->packets + list->head,
            (list->end - list->head) * sizeof(*list->packets));
    list->end -= list->head;
    list->waiting -= list->head;
    list->head = 0;
}

static bool grow(struct missing_list *list)
{
    size_t capacity = list->capacity == 0 ? FIRST_CAPACITY : list->capacity * 2;
    if (capacity > LAST_CAPACITY)
        return false;
    struct missing_packet *packets = realloc(list->packets, capacity * sizeof(*packets));
    if (packets == NULL)
        return false;
    list->packets = packets;
    list->capacity = capacity;
    return true;
}

bool missing_list_add(struct missing_list *list, uint64_t number, bool unknown, uint64_t now_ns)
{
    if (list->end == list->capacity) {
        if (list->head > list->capacity / 2)
            close_up(list);
        else if (!grow(list))
            return false;
    }
    list->packets[list->end++] =
        (struct missing_packet){.number = number, .since_ns = now_ns, .unknown = unknown};
    return true;
}

size_t missing_list_find(struct missing_list *list, uint64_t number)
{
    size_t low = list->head, high = list->end;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        list->looked++;
        if (list->packets[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t due_ns(const struct missing_packet *packet, const struct missing_waits *waits)
{
    uint64_t wait_ns = waits->usual_ns;
    if (packet->unknown || !packet->confirmed)
        wait_ns = waits->unsure_ns;
    else if (packet->number >= waits->far_below)
        wait_ns = waits->near_ns;
    return packet->since_ns + wait_ns;
}

struct missing_packet *missing_list_due(struct missing_list *list, size_t *at,
                                        const struct missing_waits *waits, uint64_t now_ns,
                                        uint64_t *deadline_ns)
{
    while (list->waiting < list->end && list->packets[list->waiting].state != MISSING_WAITS) {
        list->waiting++;
        list->looked++;
    }
    size_t place = *at < list->waiting ? list->waiting : *at;
    for (; place < list->end; place++) {
        struct missing_packet *packet = &list->packets[place];
        list->looked++;
        if (packet->since_ns + waits->usual_ns >= *deadline_ns)
            break; /* whoever was found later is not due earlier */
        if (packet->state != MISSING_WAITS)
            continue;
        uint64_t due = due_ns(packet, waits);
        if (due <= now_ns) {
            *at = place + 1;
            return packet;
        }
        if (due < *deadline_ns)
            *deadline_ns = due;
    }
    return NULL;
}

void missing_list_forget(struct missing_list *list, uint64_t before_ns)
{
    while (list->head < list->waiting && list->packets[list->head].since_ns < before_ns) {
        list->head++;
        list->looked++;
    }
}
