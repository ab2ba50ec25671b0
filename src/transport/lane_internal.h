/* The inside of a lane, shared by lane*.c only. */
#ifndef PETREL_TRANSPORT_LANE_INTERNAL_H
#define PETREL_TRANSPORT_LANE_INTERNAL_H

#include "base/ring.h"
#include "base/units.h"
#include "crypto/packet_keys.h"
#include "transport/block_map.h"
#include "transport/frame.h"
#include "transport/lane.h"
#include "transport/lane_messages.h"
#include "transport/missing_list.h"
#include "transport/mtu.h"
#include "transport/pacer.h"
#include "transport/packet.h"
#include "transport/receive_window.h"
#include "transport/rtt.h"
#include "transport/sent_log.h"
#include "transport/train_length.h"

#define LANE_SPANS 1024u    /* spans waiting in the lane; the session keeps it far below */
#define LANE_INTERVALS 32u  /* measurement intervals that can be open at once */
#define LANE_ACK_HISTORY 8u /* every number is reported in about this many acks */

struct lane_config {
    enum lane_kind kind;
    unsigned index;
    bool client;
    const struct aead_provider *provider;
    const uint8_t *secret; /* SESSION_SECRET_SIZE bytes, not kept */
    uint32_t own_id, peer_id;
    uint16_t interface_mtu, datagram_max;
    bool probes_mtu; /* this end sends blocks */
    uint64_t rtt_ns;
    uint64_t seed;
};

struct lane_interval {
    struct event_interval news; /* not yet told to the session */
    uint32_t id;                /* 0: unused */
    uint64_t first_number, last_number;
    bool any, closed;
    uint64_t receiver_first_us, receiver_last_us;
};

/* A packet whose arrival is known by the receiver's clock. */
struct ack_point {
    uint64_t number, clock_us, sent_ns;
};

#define TRIAL_PACKETS 3u

/* A lane that fell silent while another way carries on: packets of full size, three at a time,
 * until three of a round were answered. */
struct lane_trial {
    bool on;
    unsigned sent, answered; /* of this round */
    uint64_t numbers[TRIAL_PACKETS];
    uint64_t next_ns; /* when a round begins */
};

struct lane_path {
    struct address address;
    bool known, proved;
    uint64_t received_bytes, sent_bytes; /* while unproved */
};

struct lane {
    enum lane_kind kind;
    unsigned index;
    bool client, joined, broken, parked, probes_mtu;
    uint32_t own_id, peer_id;
    uint16_t interface_mtu, datagram_max;
    struct packet_keys *seal_keys, *open_keys;
    struct ring *down, *up;
    bool outbox_full;    /* a command waits for room in it */
    struct ring *outbox; /* control pieces and frames that wait to be sent; local */
    uint64_t now_ns;     /* of the call in progress */
    uint64_t arrived_ns; /* when what the call in progress receives came to this host */
    uint64_t waited_ns;  /* see lane_note_wait */

    /* The path. */
    struct lane_path path, candidate;
    uint64_t token_seed, candidate_token, candidate_since_ns;
    bool challenge_due, response_due;
    uint64_t response_token;
    struct address response_to;

    /* Sending. */
    struct sent_log log;
    struct pacer pacer;
    struct rtt rtt;
    struct train_length train_length;
    struct mtu mtu;
    struct command_span spans[LANE_SPANS];
    unsigned span_head, span_count;
    uint32_t span_offset; /* how much of the head span was sealed */
    uint64_t consumed_bytes;
    uint32_t consumed, consumed_told;
    struct command_tuning tuning;
    unsigned pings_due;
    bool fresh_send; /* something eliciting was sent and told */
    uint64_t last_data_ns, tail_probe_ns;
    uint64_t last_sent_ns, last_eliciting_ns;
    uint64_t rtt_told_ns, rtt_told_at_ns;

    /* What became of it. */
    uint64_t covered_next, largest_acked;
    struct missing_list missing;
    uint64_t loss_deadline_ns, last_lost_number;
    struct lane_delivery delivery;
    uint64_t late_ns, late_before_ns; /* the latest arrivals behind others, of late and before */
    uint64_t late_since_ns;
    struct ack_point ack_point; /* the latest */
    unsigned probe_timeouts;    /* in a row */
    uint64_t unanswered_ns;     /* when the packet was sent that the first of them missed */
    uint64_t answered_ns; /* the last fresh ack, or the first packet since that asks for one */
    struct lane_trial trial;
    unsigned asks; /* for credit or window, in a row, while nothing is in flight */
    struct lane_interval intervals[LANE_INTERVALS];
    unsigned interval_at;

    /* Receiving. */
    struct receive_window window;
    struct block_map open;
    uint64_t largest_time_ns;
    uint64_t ack_deadline_ns, peer_rtt_ns;
    unsigned unacked, ack_repeats;
    uint64_t unacked_bytes;
    struct ack_reach {    /* of the last acks, a ring */
        uint64_t largest; /* that it told of */
        uint64_t low;     /* the lowest number that had come since the one before */
    } ack_reaches[LANE_ACK_HISTORY];
    unsigned ack_reach_at;
    uint64_t arrived_low; /* since the last ack; 0: none */
    uint32_t credit;
    uint64_t control_window;
    uint32_t peer_credit;
    uint64_t peer_window;
    uint8_t stream_buffer[STREAM_PACKET_MAX + 2]; /* the start of a packet not yet whole */
    size_t stream_size;

    struct event_piece pending; /* merges neighbouring pieces; kind 0: none */
    struct lane_counters counters;
    uint64_t statistics_ns;
    uint64_t told_data_sent; /* as the last statistics had it */
};

struct lane *lane_new(const struct lane_config *config, uint64_t now_ns, struct error *error);
void lane_free(struct lane *lane);
/* Before threads start; later by COMMAND_CONNECT. */
void lane_connect(struct lane *lane, const struct address *address, bool proved);

/* lane.c */
/* Whether `bytes` more may go to an address that may not be proved yet: 3x what it sent. */
bool lane_may_amplify(const struct lane_path *path, size_t bytes);
void lane_drain_commands(struct lane *lane);
void lane_break(struct lane *lane, const char *text);
/* Events up. Pieces merge with their neighbour until flushed; the others go at once. False when
 * the ring is full. */
void lane_report_piece(struct lane *lane, const struct event_piece *piece);
void lane_flush_pieces(struct lane *lane);
bool lane_report(struct lane *lane, const void *event, size_t size);
bool lane_report_with(struct lane *lane, const void *event, size_t size, const void *bytes,
                      size_t length);
void lane_report_statistics(struct lane *lane, bool heard);

/* lane_acks.c */
void lane_on_ack(struct lane *lane, const struct ack_frame *ack);
/* How long a packet that others have overtaken may still come. */
uint64_t lane_reorder_ns(const struct lane *lane);
void lane_detect_losses(struct lane *lane);
/* Reports everything queued and in flight as lost, so that other lanes carry it. False when the
 * ring up has no room for all of it: call again. */
bool lane_give_up(struct lane *lane);
void lane_on_probe_timeout(struct lane *lane);
uint64_t lane_probe_deadline(const struct lane *lane);
struct lane_interval *lane_interval_find(struct lane *lane, uint32_t id);
void lane_interval_begin(struct lane *lane, uint32_t id);
void lane_report_intervals(struct lane *lane);
void lane_size_changed(struct lane *lane);

/* lane_trial.c */
void trial_begin(struct lane *lane);
/* The lane has an address now: ask it at once. */
void trial_hurry(struct lane *lane);
uint64_t trial_deadline(const struct lane *lane);
/* A round begins; what of the last one was not answered counts no longer. */
void trial_on_timer(struct lane *lane);
bool trial_packet_due(const struct lane *lane);
void trial_packet_sent(struct lane *lane, uint64_t number);
void trial_packet_answered(struct lane *lane, uint64_t number);
/* Ends the trial if it is passed and the session can be told. */
void trial_conclude(struct lane *lane);

/* lane_send.c */
void lane_finish_span(struct lane *lane, const struct command_span *span);
uint16_t lane_datagram_size(const struct lane *lane);
uint64_t lane_data_deadline(const struct lane *lane);

#endif
