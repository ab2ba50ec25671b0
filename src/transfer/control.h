/* The two ends of the control stream: whole messages out of its bytes, and bytes out of messages
 * that wait for room.
 *
 * Neither knows what a message means. Memory is bounded: a message that arrives takes what of it
 * has arrived, and whoever sends asks control_out_has_room first.
 */
#ifndef PETREL_TRANSFER_CONTROL_H
#define PETREL_TRANSFER_CONTROL_H

#include "transfer/byte_queue.h"
#include "transfer/messages.h"

struct session;

/* ---- in ---- */

struct control_in {
    uint8_t head[MESSAGE_HEAD_MAX];
    size_t head_size;
    bool in_body;
    uint64_t type;
    size_t body_size; /* as the head says */
    size_t received;  /* of the body */
    uint8_t *body;    /* NULL while an unknown message is skipped */
    size_t capacity;
};

enum control_result {
    CONTROL_MORE,    /* every byte was taken; no message is complete */
    CONTROL_MESSAGE, /* `message` was read; it borrows until the next call */
    CONTROL_UNKNOWN, /* a message of type message->unsupported was skipped */
    CONTROL_FAILED   /* malformed: the stream cannot go on */
};

void control_in_release(struct control_in *in);
/* Takes bytes from `reader` up to the end of the next message. */
enum control_result control_in_take(struct control_in *in, struct reader *reader,
                                    struct message *message, struct error *error);

/* ---- out ---- */

#define CONTROL_OUT_LIMIT (128u * 1024u)

struct control_out {
    struct byte_queue queue;
};

void control_out_release(struct control_out *out);
/* Whoever can wait puts nothing while this is false. */
bool control_out_has_room(const struct control_out *out);
bool control_out_is_empty(const struct control_out *out);
/* False without memory, or when the message is over its limit. */
bool control_out_put(struct control_out *out, const struct message *message);
/* Hands the session what it takes. True when something went. */
bool control_out_flush(struct control_out *out, struct session *session);

#endif
