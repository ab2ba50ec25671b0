/* The inside of a session, shared by session*.c only. */
#ifndef PETREL_TRANSPORT_SESSION_INTERNAL_H
#define PETREL_TRANSPORT_SESSION_INTERNAL_H

#include "base/range_set.h"
#include "base/ring.h"
#include "base/units.h"
#include "transport/block_map.h"
#include "transport/control_stream.h"
#include "transport/lane_growth.h"
#include "transport/lane_internal.h"
#include "transport/rate_controller.h"
#include "transport/session.h"

#define SESSION_INTERVALS 16u /* open at once: fewer than a lane can hold */

/* ---- sending ---- */

/* What is kept of a block whose buffer was given back: the pieces not yet acknowledged. */
struct remnant_piece {
    uint32_t offset, length;
    size_t position;
};

struct remnant {
    size_t piece_count, size;
    uint8_t *bytes;
    struct remnant_piece pieces[];
};

struct out_block {
    uint32_t number, length;
    uint32_t next;      /* the first byte never handed to a lane */
    bool packed, whole; /* whole: acknowledged completely */
    uint8_t *bytes;     /* the user's; NULL once released */
    struct remnant *remnant;
    struct range_set acked, reported;
    uint64_t acked_bytes, reported_bytes;
    uint32_t last_sequence[LANE_SLOTS]; /* last span of this block handed to each lane */
    unsigned lane;
    struct out_block *link; /* in the queue, or the list of those waiting to be released */
};

struct resend {
    uint32_t block, offset, length;
    uint8_t flags; /* enum span_flag: attempt, copy, urgent */
    uint64_t not_before_ns;
};

struct resend_queue { /* a growing circular array */
    struct resend *entries;
    size_t head, count, capacity;
};

/* ---- receiving ---- */

struct in_block {
    uint32_t number, length; /* length 0: END has not been seen */
    uint32_t reach;          /* the end of the furthest piece */
    bool packed, opened, closing;
    unsigned owner; /* the lane that writes into it */
    uint8_t *bytes;
    struct range_set have;
    uint64_t have_bytes;
    struct in_block *link; /* in the list of those to be opened */
};

/* Commands that found the ring to their lane full, in order, each behind its size. */
struct command_queue {
    uint8_t *bytes;
    size_t at, size, capacity;
};

/* ---- lanes and rate ---- */

struct lane_slot {
    struct lane *lane;
    bool asked; /* opened by us; active once the peer answered on it */
    bool active, parked;
    bool resting; /* it brought nothing: no work for it */
    bool tried;   /* told to answer probes of full size before it is used again */
    bool silent;  /* three probe timeouts, and nothing since `silent_since_ns` */
    uint64_t silent_since_ns;
    uint64_t handed_bytes, consumed_bytes;
    uint32_t handed_sequence, consumed;
    uint64_t delivered_bytes; /* for shares, decaying */
    struct out_block *current;
    struct resend_queue resends;
    struct command_queue waiting; /* COMMAND_BLOCK_PLACE and _CLOSE */
    struct lane_counters counters;
    struct command_tuning told;
    uint16_t datagram; /* the size that it proved; 0 before */
};

struct interval_record {
    struct rate_interval sum;
    uint64_t receiver_first_us, receiver_last_us;
    uint64_t rtt_sum_ns, rtt_count, starved_ns;
    uint64_t allowed_bytes; /* what the pacing rate would have let go */
    bool capped;            /* the in-flight cap was met: the path, not we, held back */
    /* Of the time while pieces waited: what pacing would have let go, and what it was booked on. */
    uint64_t owed_bytes, owed_ns[LIMIT_COUNT];
    bool ended;
};

enum session_state { STATE_OPEN, STATE_FINISHING, STATE_CLOSED };

struct session {
    struct session_config config;
    enum session_state state;
    struct error error;
    uint64_t now_ns, created_ns, rate_stepped_ns;
    uint64_t rate_heard_ns;             /* the last RTT sample */
    struct lane_slot slots[LANE_SLOTS]; /* datagram lanes, then the stream lane if there is one */
    unsigned lane_count;                /* datagram lanes */
    unsigned slot_count;
    unsigned stream; /* index of the stream lane's slot, LANE_SLOTS: none */
    bool on_stream;  /* blocks and control go by the stream lane */
    unsigned way_changes;
    bool stream_recall; /* what is under way on the stream is to go by datagrams instead */
    struct control_stream control;
    struct command_state told_state;
    struct lane_growth growth;
    uint64_t roomy_ns; /* receiver: time in which it had buffers for more than came */

    /* Events to the user: a growing circular array. */
    struct session_event *events;
    size_t event_head, event_count, event_capacity;

    /* Sender. */
    struct block_map out;
    struct out_block *queue_head, *queue_tail; /* not yet begun */
    unsigned queued;
    struct out_block *retiring; /* whole, but a lane may still read the buffer */
    uint64_t begun, peer_credit;
    bool tail;
    struct resend_queue delayed; /* further copies in the tail */
    enum session_limit limit;
    uint64_t limited_ns[LIMIT_COUNT];
    bool pieces_wait; /* lanes have more than they could send so far */
    uint64_t payload_acked, payload_lost, payload_resent;

    /* Rate. */
    struct rate_controller *controller;
    struct rate_decision decision;
    struct interval_record intervals[SESSION_INTERVALS];
    uint32_t interval_first, interval_now; /* ids; open ones are first..now */
    uint16_t datagram, datagram_cap; /* largest in use; what black holes left possible, or 0 */
    uint64_t rtt_ns;

    /* Receiver. */
    struct block_map in;
    struct range_set completed;
    uint8_t **idle;
    size_t idle_count, idle_capacity;
    uint32_t credit;
    struct in_block *to_open;
    uint64_t payload_received;

    /* Ending. */
    uint8_t ending[32];
    size_t ending_size;
    uint64_t ending_next_ns, ending_until_ns;
    struct frame done; /* type DONE: the receiver's word, told once `done_by_ns` or before */
    uint64_t done_by_ns;
    bool done_told, error_from_peer;
};

/* session.c */
void session_push_event(struct session *session, const struct session_event *event);
bool session_command(struct lane_slot *slot, const void *command, size_t size);
void session_send_frames(struct session *session, const uint8_t *frames, size_t size,
                         unsigned copies);
/* Whether blocks and control may go by this lane now. */
bool session_lane_usable(const struct session *session, unsigned index);
/* The first lane that is usable: control goes there, and questions. */
unsigned session_best_lane(const struct session *session);
uint64_t session_probe_timeout(const struct session *session);

/* session_ending.c */
void session_fail(struct session *session, enum error_kind kind, const char *text);
void ending_on_frame(struct session *session,
                     const struct event_text *event); /* DONE, ABORT, BYE */
void ending_take_done(struct session *session);       /* tells of DONE, once it may count */
void ending_repeat_done(struct session *session);

/* session_way.c: by datagrams or by the stream. */
void way_start(struct session *session);
void way_on_silent(struct session *session, unsigned index, const struct event_silent *event);
void way_on_alive(struct session *session, unsigned index);
void way_step(struct session *session);
uint64_t way_deadline(const struct session *session);

/* session_lanes.c: how many lanes are worth it. */
void lanes_start(struct session *session);
void lanes_joined(struct session *session);
/* `passed_ns` since the last step. */
void lanes_step(struct session *session, uint64_t passed_ns);

/* session_send.c */
bool resend_push(struct resend_queue *queue, const struct resend *resend);
void sender_on_acked(struct session *session, const struct event_piece *piece);
void sender_on_lost(struct session *session, const struct event_piece *piece);
void sender_on_doubt(struct session *session, const struct event_piece *piece, unsigned lane);
void sender_hand_out(struct session *session);
void sender_release(struct session *session);
void sender_move_work(struct session *session, unsigned from);
void sender_free(struct session *session);
uint64_t sender_deadline(const struct session *session);

/* session_receive.c */
void receiver_on_piece(struct session *session, unsigned lane, const struct event_piece *piece,
                       const uint8_t *orphan);
void receiver_on_closed(struct session *session, const struct event_block *event);
void receiver_open_blocks(struct session *session);
void receiver_free(struct session *session);

/* session_rate.c */
bool rate_start(struct session *session, struct error *error);
void rate_on_interval(struct session *session, struct lane_slot *slot,
                      const struct event_interval *event);
void rate_on_rtt(struct session *session, const struct lane_slot *slot,
                 const struct event_rtt *event);
/* Books what has passed since the last step on what held sending up in it. */
void rate_book_time(struct session *session, uint64_t passed_ns);
void rate_step(struct session *session);
uint64_t rate_deadline(const struct session *session);
/* This lane's share of the session's rate and cap. */
void rate_tune_lanes(struct session *session, bool all);
uint64_t rate_lane_bps(const struct session *session, unsigned lane);

#endif
