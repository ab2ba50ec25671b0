/* The codec of handshake packets (docs/protocol.md, "Handshake packet"): pieces of a handshake
 * stream, sealed under a key from the start secret. Moves bytes only; opening.c gives them sense.
 */
#ifndef PETREL_TRANSPORT_HANDSHAKE_PACKET_H
#define PETREL_TRANSPORT_HANDSHAKE_PACKET_H

#include "crypto/handshake.h"
#include "crypto/packet_keys.h"
#include "transport/limits.h"

#define HANDSHAKE_PACKET_TYPE 0x01
#define HANDSHAKE_STREAM_MAX 65536u
#define HANDSHAKE_CLEAR_SIZE (1 + SESSION_ID_SIZE + 5)
#define HANDSHAKE_OVERHEAD (HANDSHAKE_CLEAR_SIZE + 4 + 4 + 2 + PACKET_TAG_SIZE)

struct handshake_packet {
    uint64_t number;
    uint32_t acknowledged; /* bytes of the other side's stream received in order */
    uint32_t offset;
    const uint8_t *bytes; /* borrowed: from the caller, or from `plain` */
    uint16_t length;
};

/* Writes the sealed packet, filled with zeros up to `padded_size` if that is more. Returns its
 * size, 0 when it does not fit or the key refuses. */
size_t handshake_packet_seal(struct packet_keys *keys, const uint8_t session_id[SESSION_ID_SIZE],
                             const struct handshake_packet *packet, size_t padded_size,
                             uint8_t *bytes, size_t capacity);

enum handshake_packet_result {
    HANDSHAKE_PACKET_NOT_OURS,  /* another type or session, or it does not authenticate */
    HANDSHAKE_PACKET_MALFORMED, /* authentic, but its fields contradict each other */
    HANDSHAKE_PACKET_GOOD
};

/* Opens a datagram into `plain` (STREAM_PACKET_MAX bytes), which packet->bytes then points into. */
enum handshake_packet_result handshake_packet_open(struct packet_keys *keys,
                                                   const uint8_t session_id[SESSION_ID_SIZE],
                                                   const uint8_t *bytes, size_t size,
                                                   uint8_t *plain, struct handshake_packet *packet);

#endif
