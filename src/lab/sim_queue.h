/* The simulator's event queue: what will happen, ordered by virtual time, and by insertion where
 * times are equal. Holds datagrams in flight; buffers are reused, so a long run allocates little.
 */
#ifndef PETREL_LAB_SIM_QUEUE_H
#define PETREL_LAB_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"

/* Also the largest piece of a byte stream that travels as one event. */
#define SIM_DATAGRAM_MAX 16400u

enum sim_event_kind {
    SIM_EVENT_DATAGRAM, /* reaches `host` */
    SIM_EVENT_STREAM,   /* bytes of a stream lane reach `host` */
    SIM_EVENT_ACTION    /* number `action` of the run's plan is due */
};

struct sim_event {
    uint64_t at_ns;
    enum sim_event_kind kind;
    unsigned host;
    unsigned action;
    bool hostile; /* made by the attacker, not by a peer */
    struct address from, to;
    uint32_t size;
    struct sim_event *next_free;
    uint8_t bytes[SIM_DATAGRAM_MAX];
};

struct sim_queue;

struct sim_queue *sim_queue_new(void);
void sim_queue_free(struct sim_queue *queue); /* with all that is in it; takes NULL */

/* An event to fill and push; its bytes are not zeroed. Never NULL: a simulator out of memory ends
 * the program. */
struct sim_event *sim_queue_make(struct sim_queue *queue);
void sim_queue_push(struct sim_queue *queue, struct sim_event *event);
/* TIME_NEVER when empty. */
uint64_t sim_queue_next_ns(const struct sim_queue *queue);
/* The earliest event, owned by the caller until sim_queue_give; NULL when empty. */
struct sim_event *sim_queue_pop(struct sim_queue *queue);
void sim_queue_give(struct sim_queue *queue, struct sim_event *event);

#endif
