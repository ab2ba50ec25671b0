#include "transfer/control.h"

#include <stdlib.h>
#include <string.h>

#include "transport/session.h"

#define BODY_CAPACITY_FIRST 256u

void control_in_release(struct control_in *in)
{
    free(in->body);
    *in = (struct control_in){0};
}

/* One more byte of the head. True when it is complete: type and size are set. A varint ends at the
 * first byte below 0x80, so a form that is not the shortest is found as soon as it is there. */
static bool take_head(struct control_in *in, uint8_t byte, bool *failed)
{
    in->head[in->head_size++] = byte;
    if (byte < 0x80) {
        struct reader reader = reader_of(in->head, in->head_size);
        uint64_t type = read_varint(&reader);
        if (reader.failed) {
            *failed = true;
            return false;
        }
        if (reader_left(&reader) > 0) {
            uint64_t size = read_varint(&reader);
            size_t limit = message_limit(type);
            *failed = reader.failed || size > (limit > 0 ? limit : MESSAGE_LONG_BODY_MAX);
            in->type = type;
            in->body_size = *failed ? 0 : (size_t)size;
            return !*failed;
        }
    }
    *failed = in->head_size == sizeof in->head;
    return false;
}

/* Memory follows what arrived, not what the head promised. */
static bool take_body(struct control_in *in, struct reader *reader)
{
    size_t size = in->body_size - in->received;
    if (size > reader_left(reader))
        size = reader_left(reader);
    if (message_limit(in->type) > 0 && in->received + size > in->capacity) {
        size_t capacity = in->capacity > 0 ? in->capacity : BODY_CAPACITY_FIRST;
        while (capacity < in->received + size)
            capacity *= 2;
        uint8_t *body = realloc(in->body, capacity);
        if (body == NULL)
            return false;
        in->body = body;
        in->capacity = capacity;
    }
    const uint8_t *bytes = read_bytes(reader, size);
    if (message_limit(in->type) > 0 && size > 0)
        memcpy(in->body + in->received, bytes, size);
    in->received += size;
    return true;
}

static enum control_result finish(struct control_in *in, struct message *message,
                                  struct error *error)
{
    in->in_body = false;
    in->head_size = 0;
    if (message_limit(in->type) == 0) {
        *message = (struct message){.type = MESSAGE_UNSUPPORTED, .unsupported = in->type};
        return CONTROL_UNKNOWN;
    }
    static const uint8_t nothing[1];
    const uint8_t *body = in->body != NULL ? in->body : nothing;
    return message_decode(message, in->type, body, in->body_size, error) ? CONTROL_MESSAGE
                                                                         : CONTROL_FAILED;
}

enum control_result control_in_take(struct control_in *in, struct reader *reader,
                                    struct message *message, struct error *error)
{
    if (!in->in_body && in->head_size == 0 && in->capacity > MESSAGE_BODY_MAX)
        control_in_release(in); /* a long message is rare: its memory is not kept */
    while (!in->in_body) {
        if (reader_left(reader) == 0)
            return CONTROL_MORE;
        bool failed = false;
        in->in_body = take_head(in, read_u8(reader), &failed);
        if (failed) {
            error_set(error, ERROR_PROTOCOL, "the control stream is malformed");
            return CONTROL_FAILED;
        }
        in->received = 0;
    }
    if (!take_body(in, reader)) {
        error_set(error, ERROR_MEMORY, "out of memory for a control message");
        return CONTROL_FAILED;
    }
    return in->received == in->body_size ? finish(in, message, error) : CONTROL_MORE;
}

void control_out_release(struct control_out *out)
{
    byte_queue_release(&out->queue);
}

bool control_out_has_room(const struct control_out *out)
{
    return byte_queue_size(&out->queue) < CONTROL_OUT_LIMIT;
}

bool control_out_is_empty(const struct control_out *out)
{
    return byte_queue_size(&out->queue) == 0;
}

bool control_out_put(struct control_out *out, const struct message *message)
{
    size_t most = 128 + message->length + message->path_length + message->text_length;
    uint8_t *space = byte_queue_reserve(&out->queue, most);
    if (space == NULL)
        return false;
    struct writer writer = writer_of(space, most);
    message_encode(message, &writer);
    if (writer.failed)
        return false;
    byte_queue_commit(&out->queue, writer_size(&writer));
    return true;
}

bool control_out_flush(struct control_out *out, struct session *session)
{
    bool moved = false;
    while (!control_out_is_empty(out)) {
        size_t went = session_control_write(session, byte_queue_front(&out->queue),
                                            byte_queue_size(&out->queue));
        if (went == 0)
            break;
        byte_queue_consume(&out->queue, went);
        moved = true;
    }
    return moved;
}
