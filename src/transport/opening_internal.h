/* The inside of an opening, shared by opening.c and opening_send.c only. */
#ifndef PETREL_TRANSPORT_OPENING_INTERNAL_H
#define PETREL_TRANSPORT_OPENING_INTERNAL_H

#include "transport/handshake_packet.h"
#include "transport/opening.h"
#include "transport/opening_talk.h"

#define OPENING_REPLAY_BITS 256u
#define OPENING_NOBODY -1
/* The stream, the candidates, and one more for a server that answers from elsewhere. */
#define OPENING_DESTINATIONS (OPENING_CANDIDATES_MAX + OPENING_MORE_MAX + 2)
#define OPENING_PUNCHES_MAX 64u

/* A place to send to: the stream, a client's candidate, or an address from which a server was
 * spoken to. */
struct destination {
    struct address address; /* family 0: the stream */
    uint64_t received_bytes, sent_bytes;
    bool proved;                 /* no limit on what goes there */
    bool later;                  /* a candidate that was told later: not searched once it is over */
    bool owed;                   /* a packet is to go there now, even one without bytes */
    uint32_t next;               /* where in our handshake stream that packet begins */
    unsigned flights;            /* how often our unacknowledged bytes went there */
    uint64_t flight_ns;          /* when last */
    uint8_t cookie[COOKIE_SIZE]; /* what a listening server there wants to see; zeros: nothing */
};

/* A server's packets to where the client says it is: they open the way for the client's own. */
struct punch {
    struct address address;
    unsigned left;
    uint64_t next_ns;
};

struct opening {
    bool client;
    bool only_stream;   /* no addresses at all */
    bool stream_in_use; /* the destination `stream` may be sent to */
    int stream;         /* its index; or NOBODY */
    enum opening_state state;
    struct error error;
    struct talk talk;
    struct packet_keys *sealing, *unsealing;
    uint8_t session_id[SESSION_ID_SIZE];
    bool in_clear; /* at a listening server: no keys for packets, but ids */
    uint8_t own_id[OPEN_ID_SIZE], peer_id[OPEN_ID_SIZE]; /* peer's zeros: not known yet */

    uint64_t next_number;
    uint32_t acknowledged; /* of our stream, by the peer */
    uint32_t received;     /* of the peer's stream, in order */
    bool heard;            /* any packet authenticated */
    bool nudge; /* the next packet is padded to 1200 bytes, with or without bytes of ours */
    uint64_t newest_number; /* of the peer's packets */
    uint64_t seen[OPENING_REPLAY_BITS / 64];

    struct destination destinations[OPENING_DESTINATIONS];
    unsigned destination_count;
    unsigned destination_oldest; /* replaced next when all are used */
    int current;                 /* where the peer is, as far as we know; or NOBODY */

    uint64_t timeout_ns, give_up_ns;
    uint64_t resend_interval_ns, resend_first_ns;
    uint64_t resend_ns; /* when unacknowledged bytes go again */

    /* A client that finished on the stream goes on asking its candidates. */
    unsigned later_count;
    bool searching;
    struct address found; /* family 0: none of them answered yet */
    uint64_t search_ns, search_interval_ns;

    struct punch punches[OPENING_PUNCHES_MAX];
    unsigned punch_count;
};

/* opening_send.c. What a packet has besides bytes of the stream. */
size_t opening_overhead(const struct opening *opening);

/* opening.c */
bool opening_fail(struct opening *opening);
/* All that is unacknowledged is to go there; on a stream, all that has not gone yet. */
void opening_owe(struct opening *opening, struct destination *to);
bool opening_has_unacknowledged(const struct opening *opening);
/* A client that waits keeps sending although all that it said has arrived: a server that has used
 * up three times what it heard can else say nothing more, and both would wait for each other. */
bool opening_is_waiting_client(const struct opening *opening);

static inline bool destination_is_stream(const struct destination *destination)
{
    return destination->address.family == 0;
}

#endif
