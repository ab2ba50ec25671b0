#include "transport/handshake_packet.h"

#include <string.h>

#include "base/cursor.h"

size_t handshake_packet_seal(struct packet_keys *keys, const uint8_t session_id[SESSION_ID_SIZE],
                             const struct handshake_packet *packet, size_t padded_size,
                             uint8_t *bytes, size_t capacity)
{
    size_t size = HANDSHAKE_OVERHEAD + (size_t)packet->length;
    struct writer writer;

    if (size < padded_size)
        size = padded_size;
    if (size > capacity)
        return 0;
    writer = writer_of(bytes, size - PACKET_TAG_SIZE);
    write_u8(&writer, HANDSHAKE_PACKET_TYPE);
    write_bytes(&writer, session_id, SESSION_ID_SIZE);
    write_uint(&writer, packet->number, 5);
    write_u32(&writer, packet->acknowledged);
    write_u32(&writer, packet->offset);
    write_u16(&writer, packet->length);
    if (packet->length > 0)
        write_bytes(&writer, packet->bytes, packet->length);
    if (writer.failed)
        return 0;
    memset(writer.at, 0, writer_left(&writer));
    if (!packet_keys_seal(
            keys, packet->number, bytes, HANDSHAKE_CLEAR_SIZE, bytes + HANDSHAKE_CLEAR_SIZE,
            size - PACKET_TAG_SIZE - HANDSHAKE_CLEAR_SIZE, bytes + HANDSHAKE_CLEAR_SIZE))
        return 0;
    return size;
}

enum handshake_packet_result handshake_packet_open(struct packet_keys *keys,
                                                   const uint8_t session_id[SESSION_ID_SIZE],
                                                   const uint8_t *bytes, size_t size,
                                                   uint8_t *plain, struct handshake_packet *packet)
{
    struct reader clear =
        reader_of(bytes, size < HANDSHAKE_CLEAR_SIZE ? size : HANDSHAKE_CLEAR_SIZE);
    struct handshake_packet result;
    struct reader sealed;
    const uint8_t *id;
    uint8_t type;

    type = read_u8(&clear);
    id = read_bytes(&clear, SESSION_ID_SIZE);
    result.number = read_uint(&clear, 5);
    if (clear.failed || type != HANDSHAKE_PACKET_TYPE || size < HANDSHAKE_OVERHEAD ||
        size > STREAM_PACKET_MAX || memcmp(id, session_id, SESSION_ID_SIZE) != 0)
        return HANDSHAKE_PACKET_NOT_OURS;
    if (!packet_keys_open(keys, result.number, bytes, HANDSHAKE_CLEAR_SIZE,
                          bytes + HANDSHAKE_CLEAR_SIZE, size - HANDSHAKE_CLEAR_SIZE, plain))
        return HANDSHAKE_PACKET_NOT_OURS;

    sealed = reader_of(plain, size - HANDSHAKE_CLEAR_SIZE - PACKET_TAG_SIZE);
    result.acknowledged = read_u32(&sealed);
    result.offset = read_u32(&sealed);
    result.length = read_u16(&sealed);
    result.bytes = read_bytes(&sealed, result.length);
    if (sealed.failed || result.offset > HANDSHAKE_STREAM_MAX ||
        result.length > HANDSHAKE_STREAM_MAX - result.offset ||
        result.acknowledged > HANDSHAKE_STREAM_MAX)
        return HANDSHAKE_PACKET_MALFORMED;
    *packet = result;
    return HANDSHAKE_PACKET_GOOD;
}
