/* What both ends say to each other in an opening: the two handshake streams, whole and in order.
 *
 * Knows the hello, TLS and the session secret; knows nothing of packets, addresses or time, which
 * are opening.c's. Internal to the opening.
 */
#ifndef PETREL_TRANSPORT_OPENING_TALK_H
#define PETREL_TRANSPORT_OPENING_TALK_H

#include "transport/opening.h"

#define TALK_OUT_MAX 8192u /* our hello and all of our TLS; a few hundred bytes in fact */

struct talk {
    bool client;
    bool with_keys;
    bool finished; /* `result` is complete but for address and RTT */
    struct hello own;
    struct handshake *tls; /* NULL once finished or failed; a client with a key hears on */
    uint8_t out[TALK_OUT_MAX];
    uint32_t out_size;
    uint8_t own_hello[HELLO_SIZE + HELLO_WISHES_SIZE];
    size_t own_hello_size;
    uint8_t peer_hello[2 + HELLO_MAX]; /* with its length */
    size_t peer_hello_have;
    bool peer_hello_known;
    struct opening_result result;
};

/* Fills `talk`, which the caller zeroed; a client has something to say at once. */
bool talk_begin(struct talk *talk, const struct opening_config *config, struct error *error);
/* The next bytes of the peer's stream. On failure `out` may have grown all the same, by what tells
 * the peer. */
bool talk_receive(struct talk *talk, const uint8_t *bytes, size_t size, struct error *error);
void talk_end(struct talk *talk); /* frees and wipes */

#endif
