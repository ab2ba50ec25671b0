/* The channel's packets about ports: what is taken keeps within its limits and is written the same
 * way.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ports_packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void try_open_ports(const uint8_t *data, size_t size)
{
    uint16_t ports[OPEN_PORTS_MAX];
    uint8_t bytes[OPEN_PORTS_PACKET_MAX];
    size_t count;

    if (!open_ports_packet_read(data, size, ports, &count))
        return;
    require(count <= OPEN_PORTS_MAX);
    require(open_ports_packet_write(ports, count, bytes, sizeof bytes) == size);
    require(memcmp(bytes, data, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct client_port ports[PORTS_MAX];
    uint8_t bytes[PORTS_PACKET_MAX];
    size_t count;

    try_open_ports(data, size);
    if (!ports_packet_read(data, size, ports, &count))
        return 0;
    require(count <= PORTS_MAX);
    require(ports_packet_write(ports, count, bytes, sizeof bytes) == size);
    require(memcmp(bytes, data, size) == 0);
    return 0;
}
