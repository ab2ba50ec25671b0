/* The outside of a sealed packet and the place of a data packet's bytes (docs/protocol.md,
 * "Sealed packets"). Codec only; nothing here seals. */
#ifndef PETREL_TRANSPORT_PACKET_H
#define PETREL_TRANSPORT_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/limits.h"

#define PACKET_HANDSHAKE 0x01
#define PACKET_DATA 0x10
#define PACKET_CONTROL 0x20

enum packet_flag {
    PACKET_END = 0x01,    /* data: this piece ends its block */
    PACKET_PACKED = 0x02, /* data: the block holds entries */
    PACKET_ACK_NOW = 0x04
};

struct packet_header {
    uint8_t type;  /* PACKET_DATA or PACKET_CONTROL, without flags */
    uint8_t flags; /* enum packet_flag */
    uint32_t connection_id;
    uint64_t number;
};

void packet_header_encode(const struct packet_header *header, uint8_t bytes[PACKET_HEADER_SIZE]);
/* False for anything that is no well-formed sealed packet by its first bytes and size. */
bool packet_header_decode(struct packet_header *header, const uint8_t *bytes, size_t size);

/* `block` below BLOCK_NUMBER_LIMIT, `offset` below BLOCK_SIZE. */
void packet_place_encode(uint32_t block, uint32_t offset, uint8_t bytes[PACKET_PLACE_SIZE]);
void packet_place_decode(const uint8_t bytes[PACKET_PLACE_SIZE], uint32_t *block, uint32_t *offset);

#endif
