#include "transport/frame.h"

#include <string.h>

static void read_ack(struct reader *reader, struct ack_frame *ack)
{
    ack->largest = read_uint(reader, 5);
    ack->receive_time_us = read_uint(reader, 6);
    ack->delay_us = read_u32(reader);
    ack->packets = read_uint(reader, 6);
    ack->bytes = read_uint(reader, 6);
    ack->duplicates = read_u32(reader);
    ack->socket_drops = read_u32(reader);
    ack->credit = read_u32(reader);
    ack->bitmap_size = read_u16(reader);
    if (ack->bitmap_size > ACK_BITMAP_MAX)
        reader->failed = true;
    ack->bitmap = read_bytes(reader, ack->bitmap_size);
}

static void read_control(struct reader *reader, struct frame *frame)
{
    frame->control.offset = read_uint(reader, 6);
    frame->control.size = read_u16(reader);
    frame->control.bytes = read_bytes(reader, frame->control.size);
    if (frame->control.size == 0)
        reader->failed = true;
}

static void read_abort(struct reader *reader, struct frame *frame)
{
    frame->abort.kind = read_u8(reader);
    frame->abort.size = read_u16(reader);
    if (frame->abort.size > FRAME_ABORT_TEXT_MAX)
        reader->failed = true;
    frame->abort.text = read_bytes(reader, frame->abort.size);
}

static bool read_padding(struct reader *reader)
{
    size_t left = reader_left(reader);
    const uint8_t *rest = read_bytes(reader, left);
    for (size_t i = 0; i < left; i++) {
        if (rest[i] != 0)
            reader->failed = true;
    }
    return false;
}

bool frame_read(struct reader *reader, struct frame *frame)
{
    if (reader->failed || reader_left(reader) == 0)
        return false;
    memset(frame, 0, sizeof(*frame));
    frame->type = read_u8(reader);
    switch (frame->type) {
    case FRAME_PADDING:
        return read_padding(reader);
    case FRAME_PING:
    case FRAME_BYE:
    case FRAME_STANDBY:
        break;
    case FRAME_ACK:
        read_ack(reader, &frame->ack);
        break;
    case FRAME_CONTROL:
        read_control(reader, frame);
        break;
    case FRAME_WINDOW:
        frame->window = read_uint(reader, 6);
        break;
    case FRAME_CHALLENGE:
    case FRAME_RESPONSE:
        frame->token = read_u64(reader);
        break;
    case FRAME_RTT:
        frame->rtt_us = read_u32(reader);
        break;
    case FRAME_DONE:
        frame->done.result = read_u8(reader);
        frame->done.files = read_u64(reader);
        frame->done.blocks = read_u64(reader);
        frame->done.control = read_uint(reader, 6);
        break;
    case FRAME_ABORT:
        read_abort(reader, frame);
        break;
    default:
        reader->failed = true;
    }
    return !reader->failed;
}

static void write_ack(struct writer *writer, const struct ack_frame *ack)
{
    write_uint(writer, ack->largest, 5);
    write_uint(writer, ack->receive_time_us & FRAME_MAX_UINT48, 6);
    write_u32(writer, ack->delay_us);
    write_uint(writer, ack->packets & FRAME_MAX_UINT48, 6);
    write_uint(writer, ack->bytes & FRAME_MAX_UINT48, 6);
    write_u32(writer, ack->duplicates);
    write_u32(writer, ack->socket_drops);
    write_u32(writer, ack->credit);
    write_u16(writer, ack->bitmap_size);
    write_bytes(writer, ack->bitmap, ack->bitmap_size);
}

void frame_write(struct writer *writer, const struct frame *frame)
{
    if (frame->type == FRAME_PADDING) {
        memset(writer->at, 0, writer_left(writer));
        writer->at = writer->end;
        return;
    }
    write_u8(writer, (uint8_t)frame->type);
    switch (frame->type) {
    case FRAME_PADDING:
    case FRAME_PING:
    case FRAME_BYE:
    case FRAME_STANDBY:
        break;
    case FRAME_ACK:
        write_ack(writer, &frame->ack);
        break;
    case FRAME_CONTROL:
        write_uint(writer, frame->control.offset, 6);
        write_u16(writer, frame->control.size);
        write_bytes(writer, frame->control.bytes, frame->control.size);
        break;
    case FRAME_WINDOW:
        write_uint(writer, frame->window, 6);
        break;
    case FRAME_CHALLENGE:
    case FRAME_RESPONSE:
        write_u64(writer, frame->token);
        break;
    case FRAME_RTT:
        write_u32(writer, frame->rtt_us);
        break;
    case FRAME_DONE:
        write_u8(writer, frame->done.result);
        write_u64(writer, frame->done.files);
        write_u64(writer, frame->done.blocks);
        write_uint(writer, frame->done.control, 6);
        break;
    case FRAME_ABORT:
        write_u8(writer, frame->abort.kind);
        write_u16(writer, frame->abort.size);
        write_bytes(writer, frame->abort.text, frame->abort.size);
        break;
    }
}

bool frame_is_passive(enum frame_type type)
{
    return type == FRAME_PADDING || type == FRAME_ACK || type == FRAME_WINDOW ||
           type == FRAME_RTT || type == FRAME_STANDBY;
}
