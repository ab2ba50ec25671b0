/* What each end says of itself, first (docs/protocol.md, "Streams"): its codec, and what follows
 * from two of them. Its encoding is hashed into the session secret. */
#ifndef PETREL_TRANSPORT_HELLO_H
#define PETREL_TRANSPORT_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "crypto/aead.h"

enum transfer_role { ROLE_SENDER = 1, ROLE_RECEIVER = 2 };

#define HELLO_SIZE 19   /* of this version */
#define HELLO_MAX 1024u /* of any later one */

struct hello {
    uint8_t version_min, version_max;
    uint8_t role;             /* enum transfer_role: this end sends or receives files */
    uint8_t lanes_max;        /* 1..LANES_MAX */
    bool aes_hardware;        /* AES-256-GCM is used when both have it, else ChaCha20-Poly1305 */
    uint32_t connection_base; /* low four bits zero; lane i receives on connection_base + i */
    uint32_t credit;          /* blocks granted at once by a receiver; 0 from a sender */
    uint16_t datagram_max;    /* largest UDP payload this end can take, DATAGRAM_MIN at least */
};

/* Returns the size, 0 when it does not fit. */
size_t hello_encode(const struct hello *hello, uint8_t *bytes, size_t capacity);
/* ERROR_PROTOCOL for what no version may say. Bytes of later versions are ignored. */
bool hello_decode(struct hello *hello, const uint8_t *bytes, size_t size, struct error *error);

/* What a client that starts at a listening server asks for, behind its hello; SSH's start line says
 * the same. */
struct hello_wishes {
    uint64_t limit_bps; /* 0: none */
    uint8_t policy;     /* enum rate_policy, unless fixed_bps says the rate */
    uint64_t fixed_bps;
    /* What is remembered of the path, for a server that sends; rate 0: nothing. */
    uint64_t path_bps;
    uint32_t path_rtt_us, path_loss_millionths;
};

#define HELLO_WISHES_SIZE 33

/* Returns the size, 0 when it does not fit. */
size_t hello_wishes_encode(const struct hello_wishes *wishes, uint8_t *bytes, size_t capacity);
/* From a whole hello as it came. All zeros, which ask for nothing, when there are none in it or a
 * value is impossible. */
void hello_wishes_decode(struct hello_wishes *wishes, const uint8_t *hello, size_t size);

/* What both hellos come to: the highest common version and the cipher. ERROR_VERSION names both
 * ranges; ERROR_PROTOCOL when both ends would send, or both receive. */
bool hello_agree(const struct hello *own, const struct hello *peer, uint8_t *version,
                 enum aead_suite *suite, struct error *error);

#endif
