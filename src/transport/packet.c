#include "transport/packet.h"

#include "base/cursor.h"

void packet_header_encode(const struct packet_header *header, uint8_t bytes[PACKET_HEADER_SIZE])
{
    struct writer writer = writer_of(bytes, PACKET_HEADER_SIZE);
    write_u8(&writer, (uint8_t)(header->type | header->flags));
    write_u32(&writer, header->connection_id);
    write_uint(&writer, header->number, 5);
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
    struct reader reader = reader_of(bytes + 1, PACKET_HEADER_SIZE - 1);
    header->type = type;
    header->flags = flags;
    header->connection_id = read_u32(&reader);
    header->number = read_uint(&reader, 5);
    return true;
}

void packet_place_encode(uint32_t block, uint32_t offset, uint8_t bytes[PACKET_PLACE_SIZE])
{
    struct writer writer = writer_of(bytes, PACKET_PLACE_SIZE);
    write_uint(&writer, (uint64_t)block << 20 | offset, PACKET_PLACE_SIZE);
}

void packet_place_decode(const uint8_t bytes[PACKET_PLACE_SIZE], uint32_t *block, uint32_t *offset)
{
    struct reader reader = reader_of(bytes, PACKET_PLACE_SIZE);
    uint64_t place = read_uint(&reader, PACKET_PLACE_SIZE);
    *block = (uint32_t)(place >> 20);
    *offset = (uint32_t)(place & (BLOCK_SIZE - 1));
}
