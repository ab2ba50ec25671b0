/* What a listening server does with the first packets of clients that nobody has proved to exist:
 * drops them, has the sender show first that it gets what is sent to it, or lets them in.
 *
 * Keeps nothing of any client: a cookie is a keyed hash of where a packet came from, its id and the
 * time, and holds for 16 to 32 seconds. Pure; the key is handed in. docs/protocol.md, "Start at a
 * listening server".
 */
#ifndef PETREL_TRANSPORT_GATE_H
#define PETREL_TRANSPORT_GATE_H

#include "base/address.h"
#include "transport/open_packet.h"

struct gate {
    uint8_t key[32]; /* random, drawn when the server starts */
};

enum gate_verdict {
    GATE_DROP,   /* no such packet, or none that a client begins with */
    GATE_COOKIE, /* `answer`, of COOKIE_PACKET_SIZE bytes, goes back and nothing else happens */
    GATE_ADMIT   /* `packet` is a client's, from where it says */
};

/* `wants_cookie`: the server is busy with clients that have proved nothing. Only packets to a
 * server without an id pass, of full size, so that the answer is smaller. `packet` points into
 * `bytes`. */
enum gate_verdict gate_judge(const struct gate *gate, const struct address *from,
                             const uint8_t *bytes, size_t size, bool wants_cookie, uint64_t now_ns,
                             struct open_packet *packet, uint8_t answer[COOKIE_PACKET_SIZE]);

#endif
