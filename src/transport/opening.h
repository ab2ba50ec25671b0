/* The handshake on the path: moves the hello and the TLS bytes of both ends through datagrams
 * that may be lost, doubled or forged, over several candidate addresses at once, until both ends
 * share a session secret (docs/protocol.md, "Handshake").
 *
 * Sans-IO: datagrams and time go in, datagrams come out. What does not open under the start secret
 * is dropped in silence. Bounded: at most 3x what an address sent goes to it before it is proved.
 */
#ifndef PETREL_TRANSPORT_OPENING_H
#define PETREL_TRANSPORT_OPENING_H

#include "base/address.h"
#include "base/error.h"
#include "crypto/handshake.h"
#include "crypto/packet_keys.h"
#include "transport/limits.h"

enum transfer_role { ROLE_SENDER = 1, ROLE_RECEIVER = 2 };

/* What each end says of itself, first, in clear under the start secret's seal. Its encoding is
 * hashed into the session secret. */
struct hello {
    uint8_t version_min, version_max;
    uint8_t role;             /* enum transfer_role: this end sends or receives files */
    uint8_t lanes_max;        /* 1..LANES_MAX */
    bool aes_hardware;        /* AES-256-GCM is used when both have it, else ChaCha20-Poly1305 */
    uint32_t connection_base; /* low four bits zero; lane i receives on connection_base + i */
    uint32_t credit;          /* blocks granted at once by a receiver; 0 from a sender */
    uint16_t datagram_max;    /* largest UDP payload this end can take */
};

struct opening_config {
    bool client;
    struct hello hello; /* connection_base drawn at random by the caller */
    uint8_t secret[START_SECRET_SIZE];
    uint8_t session_id[SESSION_ID_SIZE];
    uint64_t rtt_ns;     /* known from SSH, or 0 */
    uint64_t timeout_ns; /* from the start to giving up */
    /* Client only: where the server may be. Copied. */
    struct address candidates[16];
    unsigned candidate_count;
    bool stream; /* the bytes go through a stream lane: no addresses, no padding, no resends */
};

struct opening_result {
    struct hello peer;
    uint8_t version;
    enum aead_suite suite;
    uint8_t secret[SESSION_SECRET_SIZE];
    struct address address; /* the proved address of the peer */
    uint64_t rtt_ns;        /* a first measure, 0 if none could be taken */
};

enum opening_state { OPENING_RUNNING, OPENING_FINISHED, OPENING_FAILED };

struct opening;

struct opening *opening_new(const struct opening_config *config, uint64_t now_ns,
                            struct error *error);
void opening_free(struct opening *opening);

/* True when the datagram was a handshake packet of this session (even a late one), so that the
 * caller need not look further. */
bool opening_receive(struct opening *opening, const struct address *from, const uint8_t *bytes,
                     size_t size, uint64_t now_ns);
/* The next datagram to send, if any: its size, else 0. `socket_family` lets a caller with several
 * sockets choose by to->family. */
size_t opening_send(struct opening *opening, struct address *to, uint8_t *bytes, size_t capacity,
                    uint64_t now_ns);
uint64_t opening_deadline(const struct opening *opening);

enum opening_state opening_state(const struct opening *opening);
const struct opening_result *opening_result(const struct opening *opening); /* when FINISHED */
const struct error *opening_error(const struct opening *opening);           /* when FAILED */

/* A finished client keeps resending its last flight (before each train) until this is called on
 * the first sealed packet from the server; then the opening can be freed. */
void opening_confirm(struct opening *opening);

/* Codec, exposed for tests, fuzzing and vectors. */
size_t hello_encode(const struct hello *hello, uint8_t *bytes, size_t capacity);
bool hello_decode(struct hello *hello, const uint8_t *bytes, size_t size, struct error *error);

#endif
