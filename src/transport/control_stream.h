/* The ordered byte stream for control messages, one each way, over packets that may be lost.
 *
 * 256 KiB of window ahead of what the peer has read. Only order and memory: pieces are carried,
 * acknowledged and lost by lanes.
 */
#ifndef PETREL_TRANSPORT_CONTROL_STREAM_H
#define PETREL_TRANSPORT_CONTROL_STREAM_H

#include "base/range_set.h"
#include "transport/limits.h"

#define CONTROL_PIECE_MAX 1000u

struct control_stream {
    uint8_t *out, *in; /* CONTROL_WINDOW bytes each, by offset modulo */
    uint64_t out_written, out_next, out_acked, out_window;
    struct range_set out_have, out_lost; /* acknowledged above out_acked; to be sent again */
    uint64_t in_read, in_next;           /* read by the user; received without a gap */
    struct range_set in_have;
};

bool control_stream_init(struct control_stream *stream);
void control_stream_release(struct control_stream *stream);

size_t control_stream_write(struct control_stream *stream, const void *bytes, size_t size);
size_t control_stream_read(struct control_stream *stream, void *bytes, size_t capacity);
/* How far the peer may send: told in WINDOW frames. */
uint64_t control_stream_window(const struct control_stream *stream);

/* The next piece to send, copied to `bytes` (CONTROL_PIECE_MAX); returns its size, 0 for none. */
size_t control_stream_next(struct control_stream *stream, uint64_t *offset, uint8_t *bytes);
/* True when bytes wait that the peer's window does not allow. */
bool control_stream_is_blocked(const struct control_stream *stream);
void control_stream_acked(struct control_stream *stream, uint64_t offset, size_t size);
void control_stream_lost(struct control_stream *stream, uint64_t offset, size_t size);
void control_stream_set_window(struct control_stream *stream, uint64_t end);
/* False when the peer wrote past the window. */
bool control_stream_received(struct control_stream *stream, uint64_t offset, const uint8_t *bytes,
                             size_t size);

#endif
