#include "transport/open_packet.h"

#include <string.h>

#include "base/cursor.h"

bool open_id_is_zero(const uint8_t id[OPEN_ID_SIZE])
{
    static const uint8_t zeros[OPEN_ID_SIZE];
    return memcmp(id, zeros, OPEN_ID_SIZE) == 0;
}

size_t open_packet_write(const struct open_packet *packet, size_t padded_size, uint8_t *bytes,
                         size_t capacity)
{
    struct writer writer = writer_of(bytes, capacity);
    const struct handshake_packet *body = &packet->body;

    write_u8(&writer, OPEN_PACKET_TYPE);
    write_bytes(&writer, packet->to, OPEN_ID_SIZE);
    write_bytes(&writer, packet->from, OPEN_ID_SIZE);
    if (open_id_is_zero(packet->to))
        write_bytes(&writer, packet->cookie, COOKIE_SIZE);
    write_uint(&writer, body->number, 5);
    write_u32(&writer, body->acknowledged);
    write_u32(&writer, body->offset);
    write_u16(&writer, body->length);
    if (body->length > 0)
        write_bytes(&writer, body->bytes, body->length);
    if (writer.failed || padded_size > capacity)
        return 0;
    size_t size = writer_size(&writer);
    if (size >= padded_size)
        return size;
    memset(writer.at, 0, padded_size - size);
    return padded_size;
}

static bool take(struct reader *reader, uint8_t *bytes, size_t size)
{
    const uint8_t *from = read_bytes(reader, size);
    if (from != NULL)
        memcpy(bytes, from, size);
    return from != NULL;
}

bool open_packet_read(struct open_packet *packet, const uint8_t *bytes, size_t size)
{
    struct reader reader = reader_of(bytes, size);
    struct open_packet read = {0};
    struct handshake_packet *body = &read.body;

    if (size > STREAM_PACKET_MAX || read_u8(&reader) != OPEN_PACKET_TYPE ||
        !take(&reader, read.to, OPEN_ID_SIZE) || !take(&reader, read.from, OPEN_ID_SIZE) ||
        open_id_is_zero(read.from) ||
        (open_id_is_zero(read.to) && !take(&reader, read.cookie, COOKIE_SIZE)))
        return false;
    body->number = read_uint(&reader, 5);
    body->acknowledged = read_u32(&reader);
    body->offset = read_u32(&reader);
    body->length = read_u16(&reader);
    body->bytes = read_bytes(&reader, body->length);
    if (reader.failed || body->offset > HANDSHAKE_STREAM_MAX ||
        body->length > HANDSHAKE_STREAM_MAX - body->offset ||
        body->acknowledged > HANDSHAKE_STREAM_MAX)
        return false;
    *packet = read;
    return true;
}

size_t cookie_packet_write(const uint8_t to[OPEN_ID_SIZE], const uint8_t cookie[COOKIE_SIZE],
                           uint8_t bytes[COOKIE_PACKET_SIZE])
{
    struct writer writer = writer_of(bytes, COOKIE_PACKET_SIZE);
    write_u8(&writer, COOKIE_PACKET_TYPE);
    write_bytes(&writer, to, OPEN_ID_SIZE);
    write_bytes(&writer, cookie, COOKIE_SIZE);
    return writer_size(&writer);
}

bool cookie_packet_read(uint8_t to[OPEN_ID_SIZE], uint8_t cookie[COOKIE_SIZE], const uint8_t *bytes,
                        size_t size)
{
    struct reader reader = reader_of(bytes, size);
    return size == COOKIE_PACKET_SIZE && read_u8(&reader) == COOKIE_PACKET_TYPE &&
           take(&reader, to, OPEN_ID_SIZE) && take(&reader, cookie, COOKIE_SIZE);
}
