/* What the parts of the sending half share; for sender*.c only.
 *
 *   sender.c       its states, what the disk side reports, a step
 *   sender_peer.c  what the peer says
 */
#ifndef PETREL_TRANSFER_SENDER_INTERNAL_H
#define PETREL_TRANSFER_SENDER_INTERNAL_H

#include "transfer/entries.h"
#include "transfer/half.h"

#define READ_AHEAD 4u  /* blocks that are read or being read, but not yet the session's */
#define HELD_MAX 1024u /* COMPLETE, WITHDRAW, KEEP that wait for their entry's block */

enum sender_state {
    SENDER_NEW,
    SENDER_AWAITS_REQUEST, /* server */
    SENDER_OPENING,        /* server: the source is being opened */
    SENDER_AWAITS_READY,
    SENDER_MOVING,
    SENDER_SAID_END,
    SENDER_DONE,
    SENDER_STATE_COUNT
};

/* A block that is read and waits for the session to want it. */
struct ready_block {
    uint32_t block, entry_block, length;
    bool packed, has_entry_block;
    uint8_t *bytes;
};

/* A message about a file whose entry's block is not acknowledged yet. */
struct held_message {
    struct message message;
    bool has_entry_block;
    uint32_t entry_block;
    uint64_t sequence; /* packed blocks given before it */
    char *text;        /* the message's, from malloc; NULL for none */
};

struct sender {
    enum sender_state state;
    struct ready_block ready[READ_AHEAD];
    unsigned ready_first, ready_count;
    unsigned buffers_down; /* empty ones with the source */
    struct entries entries;
    struct held_message held[HELD_MAX];
    unsigned held_first, held_count;
    uint64_t blocks_given, packed_given, answers;
    uint64_t end_blocks, end_files, blocks_acked;
    uint64_t told_payload, told_lost; /* STATS: as they were when last told */
    bool source_waits, exhausted;
    uint64_t new_bytes; /* TOTALS: under names that are not at the destination */
    bool totals_changed, totals_final_said;
    uint64_t starved_since_ns; /* 0: the session does not wait for our disk */
    uint8_t result;
};

/* The one place where the state changes. */
bool sender_move(struct sender *sender, enum sender_state to, struct error *error);
/* As struct half has them. */
bool sender_message(struct transfer *transfer, const struct message *message, uint64_t now_ns,
                    struct error *error);
void sender_event(struct transfer *transfer, const struct session_event *event, uint64_t now_ns);

#endif
