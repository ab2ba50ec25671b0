/* First packets of a client, handed from the process that listens to the one that serves the
 * client: one message of a socket pair each, with where it came from and which of our addresses it
 * came to.
 */
#ifndef PETREL_NET_HANDED_H
#define PETREL_NET_HANDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/error.h"

#define HANDED_PACKET_MAX 2048u

struct handed_packet {
    struct address from, local;
    size_t size;
    uint8_t bytes[HANDED_PACKET_MAX];
};

/* Messages keep their bounds; neither end waits. Both close with the process or by close(). */
bool handed_pair(int ends[2], struct error *error);
/* False when it is too large, or the other end is behind or gone: the client sends it again. */
bool handed_send(int end, const struct address *from, const struct address *local,
                 const uint8_t *bytes, size_t size);
/* False when there is none, or a message that is none. */
bool handed_receive(int end, struct handed_packet *packet);

#endif
