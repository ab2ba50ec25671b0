/* The codec of handshake packets for a listening server (docs/protocol.md, "Start at a listening
 * server"): in clear, for there is no secret yet. Random ids of both sides keep out whoever has not
 * seen them; what is said in them TLS proves. And the packet that tells a client its cookie. Moves
 * bytes only.
 */
#ifndef PETREL_TRANSPORT_OPEN_PACKET_H
#define PETREL_TRANSPORT_OPEN_PACKET_H

#include <stdbool.h>

#include "transport/handshake_packet.h"

#define OPEN_PACKET_TYPE 0x08
#define COOKIE_PACKET_TYPE 0x09
#define OPEN_ID_SIZE 8
#define COOKIE_SIZE 32
#define COOKIE_PACKET_SIZE (1 + OPEN_ID_SIZE + COOKIE_SIZE)
/* Before the bytes of the stream: of a client that does not know the server's id, and of others. */
#define OPEN_FIRST_OVERHEAD (1 + 2 * OPEN_ID_SIZE + COOKIE_SIZE + 5 + 4 + 4 + 2)
#define OPEN_OVERHEAD (OPEN_FIRST_OVERHEAD - COOKIE_SIZE)

struct open_packet {
    uint8_t to[OPEN_ID_SIZE];    /* zeros: of a server that is not known yet */
    uint8_t from[OPEN_ID_SIZE];  /* never zeros */
    uint8_t cookie[COOKIE_SIZE]; /* only to zeros; zeros: none */
    struct handshake_packet body;
};

bool open_id_is_zero(const uint8_t id[OPEN_ID_SIZE]);

/* Writes the packet, filled with zeros up to `padded_size` if that is more. Returns its size, 0
 * when it does not fit. */
size_t open_packet_write(const struct open_packet *packet, size_t padded_size, uint8_t *bytes,
                         size_t capacity);
/* False for anything else, and for fields past the stream's limits. body.bytes points into `bytes`.
 */
bool open_packet_read(struct open_packet *packet, const uint8_t *bytes, size_t size);

size_t cookie_packet_write(const uint8_t to[OPEN_ID_SIZE], const uint8_t cookie[COOKIE_SIZE],
                           uint8_t bytes[COOKIE_PACKET_SIZE]);
bool cookie_packet_read(uint8_t to[OPEN_ID_SIZE], uint8_t cookie[COOKIE_SIZE], const uint8_t *bytes,
                        size_t size);

#endif
