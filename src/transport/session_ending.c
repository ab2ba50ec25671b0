/* How a session ends: the receiver's DONE, which it repeats until the sender says BYE or some
 * seconds have passed, either end's ABORT, or the end of the stream that carried it.
 */
#include <string.h>

#include "transport/session_internal.h"

#define DONE_FOR_NS (3 * NS_PER_S)
#define DONE_WAITS_NS (2 * NS_PER_S)
#define DONE_EVERY_NS (250 * NS_PER_MS) /* on a long lossy path three or four would be too few */
#define ENDING_COPIES 3u

static void close_session(struct session *session)
{
    if (session->state == STATE_CLOSED)
        return;
    session->state = STATE_CLOSED;
    struct session_event event = {.kind = SESSION_CLOSED};
    session_push_event(session, &event);
}

static void tell_abort(struct session *session, enum error_kind kind, const char *text)
{
    uint8_t bytes[FRAME_ABORT_TEXT_MAX + 8];
    struct writer writer = writer_of(bytes, sizeof(bytes));
    size_t length = strlen(text);
    struct frame frame = {.type = FRAME_ABORT};
    frame.abort.kind = (uint8_t)kind;
    frame.abort.text = (const uint8_t *)text;
    frame.abort.size = (uint16_t)(length < FRAME_ABORT_TEXT_MAX ? length : FRAME_ABORT_TEXT_MAX);
    frame_write(&writer, &frame);
    session_send_frames(session, bytes, writer_size(&writer), ENDING_COPIES);
}

void session_fail(struct session *session, enum error_kind kind, const char *text)
{
    if (session->state == STATE_CLOSED)
        return;
    error_set(&session->error, kind, "%s", text);
    tell_abort(session, kind, text);
    close_session(session);
}

void session_abort(struct session *session, enum error_kind kind, const char *text, uint64_t now_ns)
{
    session->now_ns = now_ns;
    session_fail(session, kind, text);
}

void session_finish(struct session *session, uint8_t result, uint64_t files, uint64_t blocks,
                    uint64_t now_ns)
{
    if (session->state != STATE_OPEN)
        return;
    session->now_ns = now_ns;
    struct writer writer = writer_of(session->ending, sizeof(session->ending));
    struct frame frame = {.type = FRAME_DONE};
    frame.done.result = result;
    frame.done.files = files;
    frame.done.blocks = blocks;
    frame.done.control = session->control.out_written;
    frame_write(&writer, &frame);
    session->ending_size = writer_size(&writer);
    session->ending_next_ns = now_ns;
    session->ending_until_ns = now_ns + DONE_FOR_NS;
    session->state = STATE_FINISHING;
}

/* DONE is the last word: what was said before it has to be here first. But its bytes may hang on a
 * dead lane, and the receiver does not stay for ever: then the word counts without them. */
void ending_take_done(struct session *session)
{
    static const uint8_t bye[] = {FRAME_BYE};
    const struct frame *frame = &session->done;
    if (frame->type != FRAME_DONE || session->done_told || session->state == STATE_CLOSED ||
        (session->control.in_next < frame->done.control && session->now_ns < session->done_by_ns))
        return;
    session->done_told = true;
    struct session_event event = {.kind = SESSION_DONE_RECEIVED,
                                  .result = frame->done.result,
                                  .files = frame->done.files,
                                  .blocks = frame->done.blocks};
    session_push_event(session, &event);
    session_send_frames(session, bye, sizeof(bye), ENDING_COPIES);
    close_session(session);
}

static void on_done(struct session *session, const struct frame *frame)
{
    if (session->config.role != ROLE_SENDER || session->done.type == FRAME_DONE)
        return;
    session->done = *frame;
    session->done_by_ns = session->now_ns + DONE_WAITS_NS;
}

static void on_abort(struct session *session, const struct frame *frame)
{
    enum error_kind kind = frame->abort.kind > ERROR_NONE && frame->abort.kind < ERROR_KIND_COUNT
                               ? (enum error_kind)frame->abort.kind
                               : ERROR_PEER;
    session->error_from_peer = true;
    error_set(&session->error, kind, "%.*s", (int)frame->abort.size,
              (const char *)frame->abort.text);
    close_session(session);
}

void ending_on_frame(struct session *session, const struct event_text *event)
{
    struct reader reader = reader_of(event + 1, event->length);
    struct frame frame;
    if (session->state == STATE_CLOSED || !frame_read(&reader, &frame))
        return;
    if (frame.type == FRAME_DONE)
        on_done(session, &frame);
    else if (frame.type == FRAME_ABORT)
        on_abort(session, &frame);
    else if (session->state == STATE_FINISHING)
        close_session(session);
}

void ending_repeat_done(struct session *session)
{
    if (session->state != STATE_FINISHING)
        return;
    if (session->now_ns >= session->ending_until_ns) {
        close_session(session);
    } else if (session->now_ns >= session->ending_next_ns) {
        session_send_frames(session, session->ending, session->ending_size, 1);
        uint64_t pause_ns = session_probe_timeout(session);
        session->ending_next_ns =
            session->now_ns + (pause_ns < DONE_EVERY_NS ? pause_ns : DONE_EVERY_NS);
    }
}

void session_stream_ended(struct session *session, const struct error *cause, uint64_t now_ns)
{
    session->now_ns = now_ns;
    if (session->stream < LANE_SLOTS)
        session->slots[session->stream].active = false;
    if (!session->on_stream)
        return;
    if (session->state == STATE_FINISHING)
        close_session(session); /* nobody goes on waiting for a BYE that was cut off */
    else
        session_fail(session, cause->kind, cause->text);
}

bool session_is_closed(const struct session *session)
{
    return session->state == STATE_CLOSED;
}

const struct error *session_error(const struct session *session)
{
    return &session->error;
}

bool session_error_is_peers(const struct session *session)
{
    return session->error_from_peer;
}
