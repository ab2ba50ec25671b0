#include "transport/packet.h"

/* Each packet comes by here twice: so these are fixed places behind one check of the size, and no
 * cursor. */
#define ID_AT 1
#define NUMBER_AT 5

static uint64_t load(const uint8_t *bytes, unsigned size)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++)
        value = value << 8 | bytes[i];
    return value;
}

static void store(uint8_t *bytes, unsigned size, uint64_t value)
{
    for (unsigned i = size; i-- > 0; value >>= 8)
        bytes[i] = (uint8_t)value;
}

void packet_header_encode(const struct packet_header *header, uint8_t bytes[PACKET_HEADER_SIZE])
{
    bytes[0] = header->type | header->flags;
    store(bytes + ID_AT, 4, header->connection_id);
    store(bytes + NUMBER_AT, 5, header->number);
}

bool packet_header_decode(struct packet_header *header, const uint8_t *bytes, size_t size)
{
    if (size < PACKET_OVERHEAD + 1 || size > STREAM_PACKET_MAX)
        return false;
    uint8_t first = bytes[0];
    uint8_t type = first & 0xf0;
    uint8_t flags = first & 0x0f;
    if (type == PACKET_DATA) {
        if (flags & ~(PACKET_END | PACKET_PACKED | PACKET_ACK_NOW) ||
            size < PACKET_OVERHEAD + PACKET_PLACE_SIZE + 1)
            return false;
    } else if (type == PACKET_CONTROL) {
        if (flags & ~PACKET_ACK_NOW)
            return false;
    } else {
        return false;
    }
    header->type = type;
    header->flags = flags;
    header->connection_id = (uint32_t)load(bytes + ID_AT, 4);
    header->number = load(bytes + NUMBER_AT, 5);
    return true;
}

void packet_place_encode(uint32_t block, uint32_t offset, uint8_t bytes[PACKET_PLACE_SIZE])
{
    store(bytes, PACKET_PLACE_SIZE, (uint64_t)block << 20 | offset);
}

void packet_place_decode(const uint8_t bytes[PACKET_PLACE_SIZE], uint32_t *block, uint32_t *offset)
{
    uint64_t place = load(bytes, PACKET_PLACE_SIZE);
    *block = (uint32_t)(place >> 20);
    *offset = (uint32_t)(place & (BLOCK_SIZE - 1));
}
