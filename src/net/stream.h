/* The byte stream under a stream lane: two descriptors, e.g. stdin and stdout of an SSH channel.
 *
 * Moves frames, each a 2-byte length and that many bytes, without knowing what they hold. Never
 * blocks. The descriptors stay the caller's; their blocking mode is restored by stream_free.
 */
#ifndef PETREL_NET_STREAM_H
#define PETREL_NET_STREAM_H

#include <stddef.h>

#include "base/error.h"
#include "net/loop.h"
#include "transport/limits.h"

#define STREAM_UNWRITTEN_MAX (256u * 1024u)
#define STREAM_LENGTH_SIZE 2u

struct stream;

/* `input` and `output` may be the same descriptor (a socket). Ignores SIGPIPE in this process. */
struct stream *stream_new(int input, int output, struct error *error);
void stream_free(struct stream *stream);

/* Watches the descriptors; ready ones are remembered for stream_read and stream_flush. */
bool stream_register(struct stream *stream, struct loop *loop, struct error *error);
/* Takes both out of the loop it was registered in. */
void stream_unregister(struct stream *stream);

/* Reads what waits, at most about 128 KiB, when the input is known to be readable. True when
 * something was read. */
bool stream_read(struct stream *stream);
/* The next whole frame, its 2-byte length included; valid until the next stream_read, and the
 * caller may overwrite it. False when there is none, or the peer broke the framing (stream_error).
 */
bool stream_next_frame(struct stream *stream, uint8_t **frame, size_t *size);

/* How many bytes may be added now. */
size_t stream_room(const struct stream *stream);
/* Adds whole frames, written at once as far as the pipe takes them. Up to TRAIN_BYTES_MAX + 1000
 * bytes are taken whatever stream_room says. */
void stream_write(struct stream *stream, const uint8_t *bytes, size_t size);
/* As stream_write, with the length put before the bytes. */
void stream_write_frame(struct stream *stream, const uint8_t *bytes, size_t size);
/* Writes more of what waits. True when it wrote something. */
bool stream_flush(struct stream *stream);
size_t stream_unwritten(const struct stream *stream);

/* The input ended (frames may still wait), or either side failed. */
bool stream_has_ended(const struct stream *stream);
/* kind NONE while all is well; an end of the input is no error by itself. */
const struct error *stream_error(const struct stream *stream);

#endif
