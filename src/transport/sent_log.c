#include "transport/sent_log.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 1024u
#define LAST_CAPACITY (1u << 20)

bool sent_log_init(struct sent_log *log)
{
    memset(log, 0, sizeof(*log));
    log->packets = calloc(FIRST_CAPACITY, sizeof(*log->packets));
    if (log->packets == NULL)
        return false;
    log->mask = FIRST_CAPACITY - 1;
    return true;
}

void sent_log_release(struct sent_log *log)
{
    free(log->packets);
    memset(log, 0, sizeof(*log));
}

static bool grow(struct sent_log *log)
{
    uint64_t capacity = (log->mask + 1) * 2;
    if (capacity > LAST_CAPACITY)
        return false;
    struct sent_packet *packets = calloc(capacity, sizeof(*packets));
    if (packets == NULL)
        return false;
    uint64_t first = log->next > log->mask ? log->next - log->mask - 1 : 0;
    for (uint64_t number = first; number < log->next; number++)
        packets[number & (capacity - 1)] = log->packets[number & log->mask];
    free(log->packets);
    log->packets = packets;
    log->mask = capacity - 1;
    return true;
}

bool sent_log_reserve(struct sent_log *log)
{
    if (log->packets[log->next & log->mask].state != SENT_IN_FLIGHT)
        return true;
    return grow(log);
}

struct sent_packet *sent_log_append(struct sent_log *log, const struct sent_packet *packet)
{
    struct sent_packet *slot = &log->packets[log->next & log->mask];
    *slot = *packet;
    log->next++;
    if (slot->state == SENT_IN_FLIGHT) {
        log->in_flight_bytes += slot->size;
        log->in_flight_packets++;
        log->in_flight_data += slot->kind == SENT_DATA;
    }
    return slot;
}

struct sent_packet *sent_log_find(const struct sent_log *log, uint64_t number)
{
    if (number >= log->next || log->next - number > log->mask + 1)
        return NULL;
    return &log->packets[number & log->mask];
}

void sent_log_settle(struct sent_log *log, struct sent_packet *packet, enum sent_state state)
{
    if (packet->state == SENT_IN_FLIGHT) {
        log->in_flight_bytes -= packet->size;
        log->in_flight_packets--;
        log->in_flight_data -= packet->kind == SENT_DATA;
    }
    packet->state = (uint8_t)state;
}

struct sent_packet *sent_log_oldest(struct sent_log *log)
{
    if (log->in_flight_packets == 0) {
        log->oldest = log->next;
        return NULL;
    }
    struct sent_packet *packet = &log->packets[log->oldest & log->mask];
    while (packet->state != SENT_IN_FLIGHT) {
        log->oldest++;
        packet = &log->packets[log->oldest & log->mask];
    }
    return packet;
}
