#include "transfer/transfer.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "transfer/half.h"

#define POOL_DEFAULT 256u
#define POOL_MIN 4u
#define UNSUPPORTED_MAX 16u       /* answers to messages that are not known */
#define CONTROL_BACKLOG_MAX 1024u /* jobs that wait before a receiver reads on */

struct transfer *transfer_new(const struct transfer_config *config, struct error *error)
{
    bool sends = config->role == ROLE_SENDER;
    struct transfer *transfer = calloc(1, sizeof *transfer);
    if (transfer == NULL) {
        error_set(error, ERROR_MEMORY, "out of memory for a transfer");
        return NULL;
    }
    transfer->config = *config;
    transfer->request = config->request;
    transfer->half = sends ? &sender_half : &receiver_half;
    transfer->unread = reader_of(transfer->inbox, 0);
    transfer->next_tick_ns = TIME_NEVER;
    size_t pool = config->pool_blocks > 0 ? config->pool_blocks : POOL_DEFAULT;
    if (pool < POOL_MIN)
        pool = POOL_MIN;
    transfer->config.pool_blocks = pool;
    transfer->work = work_new(sends, config->open_storage, config->open_context);
    if (sends)
        transfer->sender = sender_new();
    else
        transfer->receiver = receiver_new();
    bool half = transfer->sender != NULL || transfer->receiver != NULL;
    if (transfer->work == NULL || !half || !buffers_open(&transfer->buffers, pool)) {
        transfer_free(transfer);
        error_set(error, ERROR_MEMORY, "out of memory for a transfer");
        return NULL;
    }
    return transfer;
}

void transfer_free(struct transfer *transfer)
{
    if (transfer == NULL)
        return;
    work_free(transfer->work);
    transfer->half->release(transfer);
    buffers_close(&transfer->buffers);
    control_in_release(&transfer->in);
    control_out_release(&transfer->out);
    transfer_request_release(&transfer->decoded);
    transfer_request_release(&transfer->names);
    free(transfer);
}

/* ---- what the halves share ---- */

bool transfer_running(const struct transfer *transfer)
{
    return transfer->session != NULL && !transfer->failed && !transfer->session_closed;
}

static void close_work(struct transfer *transfer)
{
    if (transfer->closing)
        return;
    transfer->closing = true;
    /* Without memory for one job nothing helps: it is tried again in each step. */
    if (!work_put(transfer->work, &(struct work_job){.kind = WORK_CLOSE}))
        transfer->closing = false;
}

void transfer_fail(struct transfer *transfer, const struct error *error, uint64_t now_ns)
{
    if (transfer->half->finished(transfer)) {
        close_work(transfer); /* nothing can fail any more */
        return;
    }
    if (transfer->failed)
        return;
    transfer->failed = true;
    if (transfer->error.kind == ERROR_NONE)
        transfer->error = *error;
    work_hurry(transfer->work);
    if (transfer->session != NULL && !transfer->session_closed)
        session_abort(transfer->session, error->kind, error->text, now_ns);
    close_work(transfer);
}

void transfer_fail_memory(struct transfer *transfer, uint64_t now_ns)
{
    struct error error = {0};
    error_set(&error, ERROR_MEMORY, "out of memory");
    transfer_fail(transfer, &error, now_ns);
}

void transfer_say(struct transfer *transfer, const struct message *message, uint64_t now_ns)
{
    if (transfer_running(transfer) && !control_out_put(&transfer->out, message))
        transfer_fail_memory(transfer, now_ns);
}

void transfer_put(struct transfer *transfer, const struct work_job *job, uint64_t now_ns)
{
    if (!work_put(transfer->work, job))
        transfer_fail_memory(transfer, now_ns);
}

/* Gives the event to whoever wants it, its path ended. */
static void emit(struct transfer *transfer, struct transfer_event *event, const char *path,
                 size_t path_length)
{
    if (transfer->config.on_event == NULL)
        return;
    char text[MESSAGE_PATH_MAX + 1];
    if (path_length > MESSAGE_PATH_MAX)
        path_length = MESSAGE_PATH_MAX;
    if (path_length > 0)
        memcpy(text, path, path_length);
    text[path_length] = 0;
    event->path = text;
    transfer->config.on_event(transfer->config.event_context, event);
}

void transfer_event_file(struct transfer *transfer, enum transfer_event_kind kind, const char *path,
                         size_t path_length, uint64_t size, const uint8_t *hash,
                         const struct error *error)
{
    struct transfer_event event = {.kind = kind, .size = size};
    if (hash != NULL)
        memcpy(event.hash, hash, sizeof event.hash);
    if (error != NULL)
        event.error = *error;
    emit(transfer, &event, path, path_length);
}

void transfer_note(struct transfer *transfer, const struct work_report *report, bool lost,
                   uint64_t now_ns)
{
    struct error error;
    work_report_error(report, &error);
    transfer_event_file(transfer, lost ? TRANSFER_LOST : TRANSFER_NOTE, work_report_path(report),
                        report->path_length, 0, NULL, &error);
    struct message note = {.type = lost ? MESSAGE_LOST : MESSAGE_NOTE,
                           .text = error.text,
                           .text_length = strlen(error.text)};
    transfer_say(transfer, &note, now_ns);
}

void transfer_event_problem(struct transfer *transfer, const struct message *message)
{
    struct transfer_event event = {.kind = TRANSFER_FILE_FAILED, .is_peers = true};
    transfer_message_error(message, &event.error);
    emit(transfer, &event, message->path, message->path_length);
}

void transfer_message_error(const struct message *message, struct error *error)
{
    *error = (struct error){.kind = message->kind};
    size_t length = message->text_length;
    if (length > sizeof error->text - 1)
        length = sizeof error->text - 1;
    if (length > 0)
        memcpy(error->text, message->text, length);
}

bool transfer_say_request(struct transfer *transfer, uint64_t now_ns, struct error *error)
{
    uint8_t *body = malloc(MESSAGE_LONG_BODY_MAX);
    if (body == NULL)
        return error_set(error, ERROR_MEMORY, "out of memory for the request");
    struct writer writer = writer_of(body, MESSAGE_LONG_BODY_MAX);
    struct transfer_request request = *transfer->request;
    if (transfer->config.role ==
        ROLE_RECEIVER) { /* what is on this side is no business of the server */
        request.destination = NULL;
        request.flags &= ~(uint64_t)TRANSFER_REFERENCE;
    }
    transfer_request_encode(&request, &writer);
    bool fits = !writer.failed && transfer->request->name_count <= REQUEST_PATHS_MAX;
    if (fits)
        transfer_say(transfer,
                     &(struct message){
                         .type = MESSAGE_REQUEST, .bytes = body, .length = writer_size(&writer)},
                     now_ns);
    free(body);
    if (!fits)
        return error_set(error, ERROR_USAGE,
                         "too many names for one transfer: at most %u of together 1 MiB; name "
                         "their directory instead",
                         REQUEST_PATHS_MAX);
    return true;
}

bool transfer_take_request(struct transfer *transfer, const struct message *message,
                           struct error *error)
{
    struct reader reader = reader_of(message->bytes, message->length);
    if (!transfer_request_decode(&transfer->decoded, &reader, error))
        return false;
    transfer->request = &transfer->decoded;
    if (transfer->request->name_count == 0)
        return error_set(error, ERROR_PROTOCOL, "the peer's request names nothing");
    return transfer->config.role == ROLE_SENDER ||
           transfer_request_names_valid(transfer->request, error);
}

bool transfer_common_message(struct transfer *transfer, const struct message *message,
                             struct error *error)
{
    struct error note = {0};
    switch (message->type) {
    case MESSAGE_NOTE:
    case MESSAGE_LOST:
        transfer_message_error(message, &note);
        transfer_event_file(transfer, message->type == MESSAGE_LOST ? TRANSFER_LOST : TRANSFER_NOTE,
                            NULL, 0, 0, NULL, &note);
        return true;
    case MESSAGE_UNSUPPORTED: /* what a later version may say is no business of this one */
        return true;
    default:
        return error_set(error, ERROR_PROTOCOL, "the peer sent control message %u out of place",
                         (unsigned)message->type);
    }
}

/* ---- the steps ---- */

uint32_t transfer_initial_credit(const struct transfer *transfer)
{
    return transfer->config.role == ROLE_SENDER ? 0 : receiver_initial_credit(transfer);
}

void transfer_attach(struct transfer *transfer, struct session *session, uint64_t now_ns)
{
    transfer->session = session;
    transfer->progress.started_ns = now_ns;
    transfer->progress.phase = PHASE_MOVING;
    transfer->next_tick_ns = now_ns + TICK_NS;
    struct error error = transfer->error;
    if (transfer->failed)
        session_abort(session, error.kind, error.text, now_ns);
    else if (!transfer->half->attach(transfer, now_ns, &error))
        transfer_fail(transfer, &error, now_ns);
}

static void peer_lost(struct transfer *transfer, const struct error *said)
{
    bool sends = transfer->config.role == ROLE_SENDER;
    error_set(&transfer->error, ERROR_PEER_LOST, "%.200s; %s",
              said->text[0] != 0 ? said->text : "the peer is gone",
              sends ? "the result is unknown" : "not everything has arrived");
}

static void on_closed(struct transfer *transfer)
{
    transfer->session_closed = true;
    const struct error *said = session_error(transfer->session);
    if (!transfer->failed && !transfer->half->finished(transfer)) {
        transfer->failed = true;
        if (said->kind == ERROR_NONE || said->kind == ERROR_PEER_LOST)
            peer_lost(transfer, said);
        else
            transfer->error = *said;
        work_hurry(transfer->work);
        transfer->error_is_peers = session_error_is_peers(transfer->session);
    }
    close_work(transfer);
}

static bool take_reports(struct transfer *transfer, uint64_t now_ns)
{
    bool moved = false;
    const struct work_report *report;
    while ((report = work_peek(transfer->work)) != NULL) {
        if (transfer_running(transfer) && !control_out_has_room(&transfer->out))
            break;
        if (report->kind == WORK_CLOSED)
            transfer->work_closed = true;
        else if (!transfer->half->report(transfer, report, now_ns))
            break;
        work_release(transfer->work);
        moved = true;
    }
    if (work_memory_gone(transfer->work))
        transfer_fail_memory(transfer, now_ns);
    return moved;
}

static void say_unsupported(struct transfer *transfer, uint64_t type, uint64_t now_ns)
{
    if (transfer->unsupported_said >= UNSUPPORTED_MAX)
        return;
    transfer->unsupported_said++;
    transfer_say(transfer, &(struct message){.type = MESSAGE_UNSUPPORTED, .unsupported = type},
                 now_ns);
}

/* A receiver that has many jobs waiting for its disk reads on when they are done: that hangs on
 * nothing but the disk. A sender always reads, so that no circle of waiting can close; but for a
 * list of files, on which nothing else waits yet. */
static bool may_read(const struct transfer *transfer)
{
    bool sends = transfer->config.role == ROLE_SENDER;
    return work_backlog(transfer->work) < CONTROL_BACKLOG_MAX || (sends && !transfer->list_open);
}

static void act_on_messages(struct transfer *transfer, uint64_t now_ns)
{
    while (transfer_running(transfer) && may_read(transfer) && reader_left(&transfer->unread) > 0) {
        struct message message;
        struct error error = {0};
        bool good = true;
        switch (control_in_take(&transfer->in, &transfer->unread, &message, &error)) {
        case CONTROL_MORE:
            break;
        case CONTROL_MESSAGE:
            good = transfer->half->message(transfer, &message, now_ns, &error);
            break;
        case CONTROL_UNKNOWN:
            say_unsupported(transfer, message.unsupported, now_ns);
            break;
        case CONTROL_FAILED:
            good = false;
            break;
        }
        if (!good)
            transfer_fail(transfer, &error, now_ns);
    }
}

static bool take_control(struct transfer *transfer, uint64_t now_ns)
{
    size_t before = reader_left(&transfer->unread);
    act_on_messages(transfer, now_ns);
    bool moved = reader_left(&transfer->unread) < before;
    if (reader_left(&transfer->unread) > 0 || !transfer_running(transfer))
        return moved;
    size_t size = session_control_read(transfer->session, transfer->inbox, INBOX_SIZE);
    transfer->unread = reader_of(transfer->inbox, size);
    return moved || size > 0;
}

/* The last word has come: what the peer said before it counts first. */
static void hear_out(struct transfer *transfer, uint64_t now_ns)
{
    while (take_control(transfer, now_ns))
        ;
}

static bool take_events(struct transfer *transfer, uint64_t now_ns)
{
    bool moved = false;
    struct session_event event;
    while (!transfer->session_closed && session_next_event(transfer->session, &event)) {
        moved = true;
        if (event.kind == SESSION_DONE_RECEIVED || event.kind == SESSION_CLOSED)
            hear_out(transfer, now_ns);
        if (event.kind == SESSION_CLOSED)
            on_closed(transfer);
        else
            transfer->half->event(transfer, &event, now_ns);
    }
    /* A session without memory for an event closes without one. */
    if (!transfer->session_closed && session_is_closed(transfer->session)) {
        moved = true;
        on_closed(transfer);
    }
    return moved;
}

bool transfer_step(struct transfer *transfer, uint64_t now_ns)
{
    bool moved = false;
    if (transfer->session != NULL)
        moved = take_events(transfer, now_ns);
    moved |= take_reports(transfer, now_ns);
    if (transfer_running(transfer)) {
        moved |= take_control(transfer, now_ns);
        moved |= transfer->half->step(transfer, now_ns);
        if (now_ns >= transfer->next_tick_ns)
            transfer->next_tick_ns = now_ns + TICK_NS;
        moved |= control_out_flush(&transfer->out, transfer->session);
    } else if (transfer->failed) {
        close_work(transfer);
    }
    moved |= work_flush(transfer->work);
    if (transfer_is_ended(transfer)) {
        transfer->progress.phase = PHASE_ENDED;
        transfer->next_tick_ns = TIME_NEVER;
    }
    return moved;
}

uint64_t transfer_deadline(const struct transfer *transfer)
{
    if (!transfer_running(transfer))
        return TIME_NEVER;
    uint64_t pace_ns =
        transfer->allowance_waits ? allowance_deadline(&transfer->allowance) : TIME_NEVER;
    return pace_ns < transfer->next_tick_ns ? pace_ns : transfer->next_tick_ns;
}

void transfer_set_pace(struct transfer *transfer, uint64_t limit_bps, bool paused, uint64_t now_ns)
{
    allowance_set(&transfer->allowance, limit_bps, paused, now_ns);
}

bool transfer_may_go(struct transfer *transfer, uint64_t now_ns)
{
    bool may = allowance_admits(&transfer->allowance, now_ns);
    transfer->allowance_waits = !may;
    return may;
}

struct work *transfer_work(struct transfer *transfer)
{
    return transfer->work;
}

_Static_assert(LIMIT_COUNT == MESSAGE_LIMITS, "STATS tells of each limit");

void transfer_figures(const struct session *session, struct sender_figures *figures)
{
    struct session_statistics statistics;
    session_statistics(session, &statistics);
    *figures = (struct sender_figures){
        .packets_sent = statistics.packets_sent,
        .packets_lost = statistics.packets_lost > statistics.spurious_losses
                            ? statistics.packets_lost - statistics.spurious_losses
                            : 0,
        .payload_sent = statistics.payload_sent,
        .payload_resent = statistics.payload_resent,
        .path = statistics.path,
        .memory_use = statistics.memory_use};
    for (unsigned i = 0; i < LIMIT_COUNT; i++)
        figures->limited_us[i] = statistics.limited_ns[i] / NS_PER_US;
}

void transfer_progress(const struct transfer *transfer, struct transfer_progress *progress)
{
    *progress = transfer->progress;
    progress->sends = transfer->config.role == ROLE_SENDER;
    progress->buffer_bytes = (uint64_t)transfer->buffers.out_count * BLOCK_SIZE;
    progress->error_is_peers = transfer->error_is_peers;
    if (transfer->session == NULL)
        return;
    session_statistics(transfer->session, &progress->session);
    if (progress->sends)
        transfer_figures(transfer->session, &progress->sender);
}

void transfer_abort(struct transfer *transfer, enum error_kind kind, const char *text,
                    uint64_t now_ns)
{
    struct error error = {0};
    if (kind == ERROR_NONE)
        error_set(&error, ERROR_PEER_LOST, "the transfer ended early; the result is unknown");
    error_set(&error, kind, "%s", text);
    transfer_fail(transfer, &error, now_ns);
    work_flush(transfer->work);
}

bool transfer_is_ended(const struct transfer *transfer)
{
    return transfer->work_closed && (transfer->session == NULL || transfer->session_closed);
}

const struct error *transfer_error(const struct transfer *transfer)
{
    return &transfer->error;
}
