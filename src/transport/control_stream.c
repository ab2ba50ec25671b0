#include "transport/control_stream.h"

#include <stdlib.h>
#include <string.h>

#define MASK (CONTROL_WINDOW - 1)
_Static_assert((CONTROL_WINDOW & MASK) == 0, "offsets wrap by a mask");

bool control_stream_init(struct control_stream *stream)
{
    memset(stream, 0, sizeof(*stream));
    stream->out = malloc(CONTROL_WINDOW);
    stream->in = malloc(CONTROL_WINDOW);
    stream->out_window = CONTROL_WINDOW;
    return stream->out != NULL && stream->in != NULL;
}

void control_stream_release(struct control_stream *stream)
{
    free(stream->out);
    free(stream->in);
    range_set_release(&stream->out_have);
    range_set_release(&stream->out_lost);
    range_set_release(&stream->in_have);
    memset(stream, 0, sizeof(*stream));
}

static void copy_in(uint8_t *ring, uint64_t offset, const uint8_t *bytes, size_t size)
{
    size_t at = (size_t)(offset & MASK);
    size_t first = CONTROL_WINDOW - at < size ? CONTROL_WINDOW - at : size;
    memcpy(ring + at, bytes, first);
    memcpy(ring, bytes + first, size - first);
}

static void copy_out(const uint8_t *ring, uint64_t offset, uint8_t *bytes, size_t size)
{
    size_t at = (size_t)(offset & MASK);
    size_t first = CONTROL_WINDOW - at < size ? CONTROL_WINDOW - at : size;
    memcpy(bytes, ring + at, first);
    memcpy(bytes + first, ring, size - first);
}

size_t control_stream_write(struct control_stream *stream, const void *bytes, size_t size)
{
    size_t room = CONTROL_WINDOW - (size_t)(stream->out_written - stream->out_acked);
    if (size > room)
        size = room;
    copy_in(stream->out, stream->out_written, bytes, size);
    stream->out_written += size;
    return size;
}

size_t control_stream_read(struct control_stream *stream, void *bytes, size_t capacity)
{
    size_t size = (size_t)(stream->in_next - stream->in_read);
    if (size > capacity)
        size = capacity;
    copy_out(stream->in, stream->in_read, bytes, size);
    stream->in_read += size;
    return size;
}

uint64_t control_stream_window(const struct control_stream *stream)
{
    return stream->in_read + CONTROL_WINDOW;
}

size_t control_stream_next(struct control_stream *stream, uint64_t *offset, uint8_t *bytes)
{
    uint64_t start, end;
    if (stream->out_lost.count > 0) {
        start = stream->out_lost.ranges[0].start;
        end = stream->out_lost.ranges[0].end;
    } else {
        start = stream->out_next;
        end = stream->out_written < stream->out_window ? stream->out_written : stream->out_window;
    }
    if (start >= end)
        return 0;
    if (end - start > CONTROL_PIECE_MAX)
        end = start + CONTROL_PIECE_MAX;
    if (stream->out_lost.count > 0 && !range_set_remove(&stream->out_lost, start, end))
        return 0;
    if (end > stream->out_next)
        stream->out_next = end;
    copy_out(stream->out, start, bytes, (size_t)(end - start));
    *offset = start;
    return (size_t)(end - start);
}

bool control_stream_is_blocked(const struct control_stream *stream)
{
    return stream->out_written > stream->out_window;
}

void control_stream_acked(struct control_stream *stream, uint64_t offset, size_t size)
{
    uint64_t start = offset, end = offset + size, added;
    if (start < stream->out_acked)
        start = stream->out_acked;
    if (start >= end || end > stream->out_next)
        return;
    range_set_add(&stream->out_have, start, end, &added);
    range_set_remove(&stream->out_lost, start, end);
    if (stream->out_have.ranges[0].start == stream->out_acked) {
        stream->out_acked = stream->out_have.ranges[0].end;
        range_set_remove(&stream->out_have, 0, stream->out_acked);
    }
}

void control_stream_lost(struct control_stream *stream, uint64_t offset, size_t size)
{
    uint64_t limit = offset + size;
    uint64_t at = offset < stream->out_acked ? stream->out_acked : offset;
    struct range gap;
    uint64_t added;
    while (at < limit && range_set_first_gap(&stream->out_have, at, limit, &gap)) {
        range_set_add(&stream->out_lost, gap.start, gap.end, &added);
        at = gap.end;
    }
}

void control_stream_set_window(struct control_stream *stream, uint64_t end)
{
    if (end > stream->out_window)
        stream->out_window = end;
}

bool control_stream_received(struct control_stream *stream, uint64_t offset, const uint8_t *bytes,
                             size_t size)
{
    uint64_t end = offset + size, added;
    if (end > control_stream_window(stream))
        return false;
    if (end <= stream->in_next)
        return true;
    if (offset < stream->in_next) {
        bytes += stream->in_next - offset;
        offset = stream->in_next;
    }
    copy_in(stream->in, offset, bytes, (size_t)(end - offset));
    if (!range_set_add(&stream->in_have, offset, end, &added))
        return false;
    if (stream->in_have.ranges[0].start == stream->in_next) {
        stream->in_next = stream->in_have.ranges[0].end;
        range_set_remove(&stream->in_have, 0, stream->in_next);
    }
    return true;
}
