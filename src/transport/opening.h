/* The handshake on the path: moves the hello and the TLS bytes of both ends through datagrams
 * that may be lost, doubled or forged, over several candidate addresses at once, until both ends
 * share a session secret (docs/protocol.md, "Handshake").
 *
 * Sans-IO: datagrams and time go in, datagrams come out. What does not open under the start secret,
 * or at a listening server does not have the ids of both sides, is dropped in silence. Bounded: at
 * most 3x what an address sent goes to it before it is proved.
 */
#ifndef PETREL_TRANSPORT_OPENING_H
#define PETREL_TRANSPORT_OPENING_H

#include "base/address.h"
#include "base/error.h"
#include "crypto/handshake.h"
#include "crypto/packet_keys.h"
#include "transport/hello.h"
#include "transport/limits.h"
#include "transport/open_packet.h"

#define OPENING_CANDIDATES_MAX 16
#define OPENING_MORE_MAX 32 /* candidates that are told later */

struct opening_config {
    bool client;
    struct hello hello; /* connection_base drawn at random by the caller */
    uint8_t secret[START_SECRET_SIZE];
    uint8_t session_id[SESSION_ID_SIZE];
    uint64_t rtt_ns;     /* known from SSH, or 0 */
    uint64_t timeout_ns; /* from the start to giving up */
    /* Client only: where the server may be. Copied. */
    struct address candidates[OPENING_CANDIDATES_MAX];
    unsigned candidate_count;
    /* The packets go over a reliable stream, framed by the caller: no addresses, no padding, no
     * resends, no packets without bytes. A packet that does not open is then an error. */
    bool stream;
    /* Beside the addresses there is such a stream: a client's opening leaves it alone until
     * opening_use_stream, a server's answers on it what came on it. Candidates may be none then. */
    bool channel;
    /* At a listening server, instead of secret and session id: who we are, by key (borrowed for the
     * opening's life); the packets are in clear. Not for a channel beside addresses. */
    const struct handshake_identity *identity;
    uint8_t own_id[OPEN_ID_SIZE];  /* random, its beginning a server's own */
    uint8_t peer_id[OPEN_ID_SIZE]; /* server: the client's, from its first packet */
    bool says_wishes;              /* client */
    struct hello_wishes wishes;
};

struct opening_result {
    struct hello peer;
    uint8_t version;
    enum aead_suite suite;
    uint8_t secret[SESSION_SECRET_SIZE];
    struct address address; /* the proved address of the peer; family 0: the stream */
    uint64_t rtt_ns;        /* a first measure, 0 if none could be taken */
};

enum opening_state { OPENING_RUNNING, OPENING_FINISHED, OPENING_FAILED };

struct opening;

struct opening *opening_new(const struct opening_config *config, uint64_t now_ns,
                            struct error *error);
void opening_free(struct opening *opening);

/* True when the datagram was a handshake packet of this session (even a late one), so that the
 * caller need not look further. `from` NULL or of family 0: it came on the stream. Late repeats are
 * answered in every state: call opening_send after it. */
bool opening_receive(struct opening *opening, const struct address *from, const uint8_t *bytes,
                     size_t size, uint64_t now_ns);
/* The next datagram to send, if any: its size, else 0. Call until 0, after each opening_receive
 * and at the deadline. `capacity` is at least DATAGRAM_MIN; `to` tells a caller with several
 * sockets which one to use, family 0: the stream. A failed opening still gives what tells the peer
 * why. */
size_t opening_send(struct opening *opening, struct address *to, uint8_t *bytes, size_t capacity,
                    uint64_t now_ns);
/* When opening_send wants to be called without new input: 0 for at once, TIME_NEVER if never. */
uint64_t opening_deadline(const struct opening *opening);

enum opening_state opening_state(const struct opening *opening);
const struct opening_result *opening_result(const struct opening *opening); /* when FINISHED */
/* When FAILED: ERROR_UNREACHABLE names each address tried, ERROR_VERSION both ranges, ERROR_CRYPTO
 * a peer whose proof was wrong, ERROR_PROTOCOL one that says what it may not, ERROR_PEER_LOST one
 * that fell silent half-way, ERROR_PERMISSION a server that refuses our key. The last may come to a
 * client that had finished: the server judges later. */
const struct error *opening_error(const struct opening *opening);

/* A finished client's last flight may be lost, and the server cannot open sealed packets without
 * it: call opening_resend_last before each train, then opening_send until it gives 0. It also goes
 * out by a timer. Both end when the server acknowledges it, or when opening_confirm tells of the
 * first sealed packet from the server. Then the client's opening can be freed; a server's should
 * stay a while, to answer repeats. */
void opening_resend_last(struct opening *opening);
void opening_confirm(struct opening *opening);
/* A failed server's: what tells the client so goes once more. */
void opening_repeat_refusal(struct opening *opening);

/* A client with a channel: from now on all that is not acknowledged goes through the stream, too.
 * Whatever is answered first carries on. */
void opening_use_stream(struct opening *opening);
/* A client: the server may be there, too; asked until the opening is over. Too many are ignored. */
void opening_add_candidate(struct opening *opening, const struct address *address);
/* Whether anything came that shows that the peer has heard us. */
bool opening_is_answered(const struct opening *opening);
/* A client that finished on the stream goes on asking its candidates, now and then, with packets of
 * full size. True once one of them answered: `address` is that one, and the asking has ended. */
bool opening_found(const struct opening *opening, struct address *address);
/* A server: a few packets of full size, which ask for nothing, to where the client says that it
 * sends from. A firewall before the server then takes the client's packets for replies. */
void opening_punch(struct opening *opening, const struct address *address, uint64_t now_ns);

#endif
