/* A session: block order, credit, control stream and the one rate controller, over 1 to 16 datagram
 * lanes, a stream lane, or both: then the stream lane carries what the datagram lanes cannot.
 *
 * The session moves numbered blocks and one ordered control stream each way, and knows nothing of
 * files. It lives on one thread; its lanes may live on others. Sans-IO: time is an argument, and
 * everything waits in rings until session_step. Memory is bounded by credit.
 */
#ifndef PETREL_TRANSPORT_SESSION_H
#define PETREL_TRANSPORT_SESSION_H

#include "base/error.h"
#include "transport/lane.h"
#include "transport/opening.h"
#include "transport/rate_controller.h"

struct session;

struct session_config {
    bool client;
    enum transfer_role role;
    struct hello own, peer;
    enum aead_suite suite;
    uint8_t secret[SESSION_SECRET_SIZE];
    struct address peer_address; /* lane 0's; family 0 when the handshake came on the stream */
    enum lane_kind kind;         /* LANE_STREAM: that lane alone */
    bool channel;                /* LANE_DATAGRAM: there is a stream lane beside the others */
    bool starts_on_channel;      /* it carries everything until a datagram lane proved itself */
    unsigned lanes;              /* to begin with; more can join */
    unsigned
        grows_from;     /* client: that it will open; more may be worth it. 0: no more are wanted */
    uint64_t rtt_ns;    /* first guess, 0 if unknown */
    uint64_t limit_bps; /* --limit, 0 for none */
    uint64_t fixed_bps; /* policy fixed:RATE, 0 for the controller */
    enum rate_policy policy;
    struct rate_memory remembered; /* of an earlier transfer over this path; rate 0: none */
    uint16_t interface_mtu;        /* bound for MTU probes, as an IP packet; 0: 1500 */
    uint64_t idle_timeout_ns;      /* silence after which the peer is lost; 0: 90 s */
    uint64_t seed;                 /* for jitter */
};

enum session_event_kind {
    SESSION_BLOCK_RELEASED, /* sender: the session is done with this block's buffer */
    SESSION_BLOCK_ACKED,    /* sender: the receiver has all of it */
    SESSION_BLOCK_WHOLE,    /* receiver: a block is complete; the buffer is the caller's again */
    SESSION_DONE_RECEIVED,  /* sender: the receiver's final word */
    SESSION_CLOSED,         /* nothing more will happen; see session_error */
};

struct session_event {
    enum session_event_kind kind;
    uint32_t block;
    bool packed;     /* BLOCK_WHOLE: holds entries, not file content */
    uint8_t *bytes;  /* RELEASED, WHOLE */
    uint32_t length; /* WHOLE, ACKED */
    uint8_t result;  /* DONE_RECEIVED: 0 all good, 1 some files failed, else failed */
    uint64_t files, blocks;
};

struct session *session_new(const struct session_config *config, uint64_t now_ns,
                            struct error *error);
void session_free(struct session *session); /* buffers still held: see session_reclaim */

/* Drains what lanes reported, runs timers and the controller, hands new work to lanes. */
void session_step(struct session *session, uint64_t now_ns);
uint64_t session_deadline(const struct session *session);
bool session_next_event(struct session *session, struct session_event *event);

/* Lanes. Index 0..count-1: the datagram lanes by their numbers, then the stream lane if there is
 * one. A client may open more at any time; a server's appear when their first
 * packet authenticates: give it every datagram whose connection id is one of its 16. */
struct lane *session_lane(struct session *session, unsigned index);
unsigned session_lane_count(const struct session *session);
unsigned session_datagram_lanes(const struct session *session);
struct lane *session_stream_lane(struct session *session); /* NULL: none */
/* Blocks and control go through the stream lane now. With both kinds, they do when every datagram
 * lane has been silent for 3 s, and no longer once one answered 3 of 3 packets of full size. */
bool session_is_on_stream(const struct session *session);
/* The stream has ended: it is no way any more. A session that goes by it ends, too: with `cause`,
 * or well when the receiver has said its last word. */
void session_stream_ended(struct session *session, const struct error *cause, uint64_t now_ns);
/* Opens the next datagram lane that is not open yet. */
bool session_open_lane(struct session *session, const struct address *to, enum lane_kind kind,
                       uint64_t now_ns, struct error *error);

/* Client: how many datagram lanes should be open, as far as can be told from what arrives; more
 * than config.grows_from once a limit for each flow by itself shows. */
unsigned session_lanes_worth(const struct session *session);
/* One more is to be used for the user's own reasons, be it one that rests; returns how many should
 * be open for that. */
unsigned session_use_one_more(struct session *session);

/* Sender. True when a block would be taken: there is credit and the queue is short. */
bool session_wants_block(const struct session *session);
/* `bytes` stays the caller's memory, borrowed until SESSION_BLOCK_RELEASED. Length 1 to BLOCK_SIZE;
 * numbers are never given twice. */
bool session_send_block(struct session *session, uint32_t block, bool packed, uint8_t *bytes,
                        uint32_t length, struct error *error);
/* Sender: another --limit, bits a second of UDP payload, from now on; 0: none. */
void session_set_limit(struct session *session, uint64_t limit_bps);
/* Everything was handed over: what is outstanding is the tail. */
void session_set_tail(struct session *session, bool tail);

/* Receiver. Gives a BLOCK_SIZE buffer; each one given raises the credit told to the peer by one
 * (hello.credit counts the first ones: give that many before the first step). */
void session_give_buffer(struct session *session, uint8_t *bytes);
/* Takes buffers back that hold no data, to shrink or at the end; NULL when none is idle. */
uint8_t *session_reclaim(struct session *session);

/* The control stream: an ordered byte stream each way, 256 KiB window. Both return how many bytes
 * went; 0 when full or empty. */
size_t session_control_write(struct session *session, const void *bytes, size_t size);
size_t session_control_read(struct session *session, void *bytes, size_t capacity);

/* Ending. The receiver says DONE after its last rename; it is repeated until the peer's BYE, for at
 * most 3 s. Either side may abort, said three times. SESSION_CLOSED follows. */
void session_finish(struct session *session, uint8_t result, uint64_t files, uint64_t blocks,
                    uint64_t now_ns);
void session_abort(struct session *session, enum error_kind kind, const char *text,
                   uint64_t now_ns);
/* Asks the peer for a sign of life: a PING that wants an answer, on every lane. */
void session_ask(struct session *session, uint64_t now_ns);
bool session_is_closed(const struct session *session);
const struct error *session_error(const struct session *session); /* kind NONE: a good end */

/* True when the peer said the error: it is the peer's sentence, to be named as such. */
bool session_error_is_peers(const struct session *session);

enum session_limit {
    LIMIT_PATH,   /* the controller's rate */
    LIMIT_OPTION, /* --limit or a fixed policy */
    LIMIT_CREDIT, /* the receiver's disk or memory */
    LIMIT_SOURCE, /* our own disk */
    /* Our own processor or network interface: pieces were at hand and the path would have taken
     * them, but they went late. */
    LIMIT_PROCESSOR,
    LIMIT_COUNT
};

struct session_statistics {
    uint64_t packets_sent, packets_received, packets_lost, packets_acked, duplicates;
    uint64_t spurious_losses;
    uint64_t bytes_sent; /* UDP payload, everything */
    uint64_t bytes_received;
    uint64_t payload_sent; /* bytes of blocks, resends included */
    uint64_t payload_resent;
    uint64_t payload_acked;    /* unique bytes of blocks */
    uint64_t payload_received; /* unique */
    uint64_t peer_socket_drops, own_socket_drops;
    uint64_t forged; /* did not authenticate, or replayed */
    uint64_t rtt_ns, rtt_min_ns;
    uint64_t rate_bps;       /* the controller's present rate, payload of UDP */
    struct rate_memory path; /* sender: for the next transfer; see rate_controller_recall */
    enum rate_memory_use memory_use;
    uint16_t datagram_size;           /* in use */
    unsigned lanes;                   /* datagram lanes that have joined */
    bool on_stream;                   /* which way blocks and control go now */
    unsigned way_changes;             /* how often that changed */
    uint64_t limited_ns[LIMIT_COUNT]; /* time spent limited by each */
    uint64_t in_flight_bytes;         /* sent and neither acknowledged nor given up */
    uint64_t last_heard_ns;           /* when the last authenticated packet came */
};
void session_statistics(const struct session *session, struct session_statistics *statistics);

#endif
