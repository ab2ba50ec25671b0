#include "transport/ports_packet.h"

#include "base/cursor.h"

size_t ports_packet_write(const struct client_port *ports, size_t count, uint8_t *bytes,
                          size_t capacity)
{
    struct writer writer = writer_of(bytes, capacity);
    if (count > PORTS_MAX)
        return 0;
    write_u8(&writer, PORTS_PACKET_TYPE);
    write_u8(&writer, (uint8_t)count);
    for (size_t i = 0; i < count; i++) {
        write_u8(&writer, ports[i].family);
        write_u16(&writer, ports[i].port);
    }
    return writer.failed ? 0 : writer_size(&writer);
}

bool ports_packet_read(const uint8_t *bytes, size_t size, struct client_port ports[PORTS_MAX],
                       size_t *count)
{
    struct reader reader = reader_of(bytes, size);
    uint8_t type = read_u8(&reader);
    size_t told = read_u8(&reader);
    if (reader.failed || type != PORTS_PACKET_TYPE || told > PORTS_MAX)
        return false;
    for (size_t i = 0; i < told; i++) {
        ports[i].family = read_u8(&reader);
        ports[i].port = read_u16(&reader);
        if (reader.failed || (ports[i].family != 4 && ports[i].family != 6) || ports[i].port == 0)
            return false;
    }
    if (reader_left(&reader) != 0)
        return false;
    *count = told;
    return true;
}

size_t open_ports_packet_write(const uint16_t *ports, size_t count, uint8_t *bytes, size_t capacity)
{
    struct writer writer = writer_of(bytes, capacity);
    if (count > OPEN_PORTS_MAX)
        return 0;
    write_u8(&writer, OPEN_PORTS_PACKET_TYPE);
    write_u8(&writer, (uint8_t)count);
    for (size_t i = 0; i < count; i++)
        write_u16(&writer, ports[i]);
    return writer.failed ? 0 : writer_size(&writer);
}

bool open_ports_packet_read(const uint8_t *bytes, size_t size, uint16_t ports[OPEN_PORTS_MAX],
                            size_t *count)
{
    struct reader reader = reader_of(bytes, size);
    uint8_t type = read_u8(&reader);
    size_t told = read_u8(&reader);
    if (reader.failed || type != OPEN_PORTS_PACKET_TYPE || told > OPEN_PORTS_MAX)
        return false;
    for (size_t i = 0; i < told; i++) {
        ports[i] = read_u16(&reader);
        if (reader.failed || ports[i] == 0)
            return false;
    }
    if (reader_left(&reader) != 0)
        return false;
    *count = told;
    return true;
}
