/* What a lane has sent and what became of it, by packet number.
 *
 * A ring of fixed records: the record of a number stays until its place is needed, so that an ack
 * that comes after a packet was given up is recognised. Grows by doubling, up to 2^20 records, only
 * while the record in the way is still in flight.
 */
#ifndef PETREL_TRANSPORT_SENT_LOG_H
#define PETREL_TRANSPORT_SENT_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sent_state { SENT_IN_FLIGHT = 1, SENT_ACKED, SENT_LOST, SENT_PASSIVE };

enum sent_kind {
    SENT_DATA,    /* a piece of a block: place = block << 20 | offset */
    SENT_CONTROL, /* a piece of the control stream: place = offset */
    SENT_PROBE,   /* padded to a size that is being tried */
    SENT_OTHER    /* frames that are state, repeated by whoever needs them */
};

#define SENT_LATE 0x80 /* in the second half of its train */

struct sent_packet {
    uint64_t sent_ns;
    uint64_t place;
    uint32_t interval; /* measurement interval, 0 for none */
    uint16_t length;   /* bytes of the piece */
    uint16_t size;     /* bytes of the datagram */
    uint8_t state;     /* enum sent_state; 0: never used */
    uint8_t kind;      /* enum sent_kind */
    uint8_t flags;     /* enum span_flag of a data piece, and SENT_LATE */
    uint8_t trial;     /* enum train_trial of its train */
};
_Static_assert(sizeof(struct sent_packet) == 32, "two records a cache line");

struct sent_log {
    struct sent_packet *packets;
    uint64_t mask;
    uint64_t next;   /* the next number */
    uint64_t oldest; /* nothing below is in flight */
    uint64_t in_flight_bytes, in_flight_packets;
    uint64_t in_flight_data; /* packets of blocks */
};

bool sent_log_init(struct sent_log *log);
void sent_log_release(struct sent_log *log);
/* True when another packet can be recorded; grows if it must. */
bool sent_log_reserve(struct sent_log *log);
/* Records the next number; after sent_log_reserve. In flight unless state is SENT_PASSIVE. */
struct sent_packet *sent_log_append(struct sent_log *log, const struct sent_packet *packet);
/* NULL when the number was never sent or its record is gone. */
struct sent_packet *sent_log_find(const struct sent_log *log, uint64_t number);
/* Leaves flight; `state` is SENT_ACKED or SENT_LOST. */
void sent_log_settle(struct sent_log *log, struct sent_packet *packet, enum sent_state state);
/* Moves `oldest` over what is no longer in flight; returns the oldest packet in flight or NULL. */
struct sent_packet *sent_log_oldest(struct sent_log *log);

#endif
