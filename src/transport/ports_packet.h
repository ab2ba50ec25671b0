/* The packets about ports on the SSH channel beside a session that may run over UDP: the client
 * tells from which UDP ports it sends, the server answers at once; the client asks for more ports
 * than the server's first, the server tells which (docs/protocol.md, "The channel"). In clear: the
 * channel is SSH's. Moves bytes only.
 */
#ifndef PETREL_TRANSPORT_PORTS_PACKET_H
#define PETREL_TRANSPORT_PORTS_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PORTS_PACKET_TYPE 0x02
#define PORTS_HEARD_PACKET_TYPE 0x03
#define MORE_PORTS_PACKET_TYPE 0x04
#define OPEN_PORTS_PACKET_TYPE 0x05
#define REFUSED_PACKET_TYPE 0x06
#define PORTS_MAX 32u
#define PORTS_PACKET_MAX (2 + 3 * PORTS_MAX)
#define OPEN_PORTS_MAX 16u
#define OPEN_PORTS_PACKET_MAX (2 + 2 * OPEN_PORTS_MAX)

struct client_port {
    uint8_t family; /* 4 or 6 */
    uint16_t port;  /* not 0 */
};

/* Writes type, count and ports; returns the size, 0 for too many or a buffer that is too small. */
size_t ports_packet_write(const struct client_port *ports, size_t count, uint8_t *bytes,
                          size_t capacity);
/* False unless `bytes` is exactly such a packet with at most PORTS_MAX good entries. */
bool ports_packet_read(const uint8_t *bytes, size_t size, struct client_port ports[PORTS_MAX],
                       size_t *count);

/* The same for the server's further ports. */
size_t open_ports_packet_write(const uint16_t *ports, size_t count, uint8_t *bytes,
                               size_t capacity);
bool open_ports_packet_read(const uint8_t *bytes, size_t size, uint16_t ports[OPEN_PORTS_MAX],
                            size_t *count);

#endif
