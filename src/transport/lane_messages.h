/* What a session and its lanes say to each other through their two rings. Plain values; a pointer
 * in a message lends memory for as long as the text at that message says.
 *
 * The ring down may be full: the session waits. The ring up may be full: the lane then drops the
 * packet that would have caused the event as if it were lost on the path, before it counts as
 * arrived.
 */
#ifndef PETREL_TRANSPORT_LANE_MESSAGES_H
#define PETREL_TRANSPORT_LANE_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/error.h"

/* ---- down: session to lane ---- */

enum lane_command_kind {
    COMMAND_SPAN,        /* send a piece of a block, cut into packets */
    COMMAND_CONTROL,     /* send a piece of the control stream (bytes follow) */
    COMMAND_FRAMES,      /* send encoded frames once, not repeated by the lane (bytes follow) */
    COMMAND_TUNING,      /* rate, caps, size, interval */
    COMMAND_STATE,       /* credit and control window, for every ack from now on */
    COMMAND_BLOCK_OPEN,  /* receive this block into this buffer; the lane owns it until CLOSED */
    COMMAND_BLOCK_CLOSE, /* give the buffer back by EVENT_BLOCK_CLOSED */
    COMMAND_BLOCK_PLACE, /* a piece that came in on another lane (bytes follow) */
    COMMAND_PARK,        /* report all that is queued or in flight as lost; only ask for life */
    COMMAND_CONNECT      /* the lane's peer address is known and proved, or to be proved */
};

enum span_flag {
    SPAN_END = 0x01, /* as packet_flag; the last packet of the span carries it */
    SPAN_PACKED = 0x02,
    SPAN_ACK_NOW = 0x04, /* the last packet of the span asks for an ack */
    SPAN_COPY = 0x08,    /* a further copy of a resent piece: its loss is no news */
    SPAN_ATTEMPT = 0x30, /* how often the piece was lost before, 0 to 3 */
    SPAN_URGENT = 0x40   /* goes past the in-flight cap: a probe */
};
#define SPAN_ATTEMPT_SHIFT 4

struct command_span {
    uint8_t kind;
    uint8_t flags;
    uint32_t block, offset, length;
    uint32_t sequence;    /* reported back as consumed when the last byte was sealed */
    const uint8_t *bytes; /* lent until consumed */
};

struct command_bytes {
    uint8_t kind;
    bool eliciting;  /* FRAMES: ask for an acknowledgement */
    uint8_t flags;   /* PLACE: SPAN_END, SPAN_PACKED */
    uint16_t length; /* of the bytes that follow this struct */
    uint32_t block, offset32;
    uint64_t offset; /* CONTROL */
};

struct command_tuning {
    uint8_t kind;
    bool marks;               /* the first packet of the interval asks for an ack at once */
    bool blocked;             /* waiting for credit or window: ask for news when idle */
    uint16_t datagram;        /* no packet may be larger, UDP payload; 0: no such limit */
    uint32_t interval;        /* measurement interval that begins now */
    uint64_t pacing_bps;      /* this lane's share; 0: unpaced */
    uint64_t whole_bps;       /* of all lanes together */
    uint64_t in_flight_bytes; /* this lane's cap */
};

struct command_state {
    uint8_t kind;
    uint32_t credit;
    uint64_t window;
};

struct command_block {
    uint8_t kind;
    uint32_t block;
    uint8_t *buffer; /* OPEN */
};

struct command_park {
    uint8_t kind;
    bool trial; /* alive again only when 3 of 3 packets of full size were answered */
};

struct command_connect {
    uint8_t kind;
    bool proved;
    struct address address;
};

/* ---- up: lane to session ---- */

enum lane_event_kind {
    EVENT_ACKED = 1,     /* piece arrived; the first report of it, or a late one */
    EVENT_LOST,          /* piece taken for lost */
    EVENT_DOUBT,         /* probe timeout: a copy of this piece would be a useful probe */
    EVENT_CONTROL_ACKED, /* the same for the control stream */
    EVENT_CONTROL_LOST,
    EVENT_PIECE,         /* a piece was written into its block's buffer */
    EVENT_ORPHAN,        /* a piece of a block that this lane does not have open (bytes follow) */
    EVENT_BLOCK_CLOSED,  /* the buffer of a closed block is the session's again */
    EVENT_CONTROL,       /* bytes of the control stream arrived (bytes follow) */
    EVENT_STATE,         /* the peer's credit and window */
    EVENT_ENDING,        /* DONE, BYE or ABORT arrived (encoded frame follows) */
    EVENT_INTERVAL,      /* what was added to a measurement interval */
    EVENT_RTT,           /* a sample */
    EVENT_STATISTICS,    /* counters, now and then */
    EVENT_DATAGRAM_SIZE, /* the size proved on this lane changed */
    EVENT_JOINED,   /* the lane's first packet came; of one that sends, its address is proved */
    EVENT_NEW_PATH, /* the peer's address changed and was proved */
    EVENT_SILENT,   /* three probe timeouts in a row without an answer */
    EVENT_ALIVE,    /* answers came again after that, or the trial is passed */
    EVENT_BROKEN    /* the peer broke the protocol: text follows */
};

struct event_piece { /* ACKED, LOST, DOUBT, CONTROL_*, PIECE, ORPHAN */
    uint8_t kind;
    uint8_t flags; /* enum span_flag */
    uint16_t unused;
    uint32_t length;
    uint32_t block;
    uint32_t offset32;
    uint64_t offset; /* control stream */
};

struct event_block {
    uint8_t kind;
    uint32_t block;
    uint8_t *buffer;
};

struct event_state {
    uint8_t kind;
    bool has_window;
    uint32_t credit;
    uint64_t window;
};

struct event_interval {
    uint8_t kind;
    uint32_t interval;
    uint32_t sent_packets, delivered_packets, lost_packets, loss_events;
    uint64_t sent_bytes, delivered_bytes;
    uint64_t receiver_first_us, receiver_last_us; /* 0: not known yet */
    uint64_t consumed_bytes;                      /* of all spans, since the lane began */
    uint32_t consumed; /* sequence of the last span that was sealed whole */
};

struct event_rtt {
    uint8_t kind;
    uint64_t sample_ns;
    uint64_t smoothed_ns;
};

struct lane_counters {
    uint64_t packets_sent, packets_received, packets_lost, packets_acked;
    uint64_t bytes_sent, bytes_received;
    uint64_t data_sent, data_resent_packets; /* payload bytes of data packets */
    uint64_t duplicates, forged, spurious;
    uint64_t own_socket_drops, peer_socket_drops;
    uint64_t last_heard_ns;
    uint64_t rtt_ns, rtt_min_ns, probe_timeout_ns;
    uint64_t reorder_ns; /* how long an overtaken packet may still come */
    uint64_t in_flight_bytes;
};

struct event_statistics {
    uint8_t kind;
    struct lane_counters counters;
};

struct event_size {
    uint8_t kind;
    uint16_t datagram; /* in use */
    uint16_t largest;  /* still thought possible: less than before after a black hole */
};

struct event_path {
    uint8_t kind;
    bool same_host;
    struct address address;
};

struct event_silent {
    uint8_t kind;
    uint64_t since_ns; /* the last answer, or the first packet since that asked for one */
};

struct event_text {
    uint8_t kind;
    uint8_t error_kind;
    uint16_t length; /* of the bytes that follow */
};

#endif
