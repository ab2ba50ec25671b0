/* The half that moves blocks from a source into the session. */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "transfer/entries.h"
#include "transfer/half.h"

#define READ_AHEAD 4u      /* blocks that are read or being read, but not yet the session's */
#define HELD_MAX 1024u     /* COMPLETE, WITHDRAW, KEEP that wait for their entry's block */
#define ANSWERS_MAX 65536u /* ANSWER and HASHES messages that wait for the disk side */
_Static_assert(READ_AHEAD <= WORK_BUFFERS_MAX, "the source must be able to hold them");

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

static const uint8_t moves[SENDER_STATE_COUNT] = {
    [SENDER_NEW] = 1u << SENDER_AWAITS_REQUEST | 1u << SENDER_AWAITS_READY,
    [SENDER_AWAITS_REQUEST] = 1u << SENDER_OPENING,
    [SENDER_OPENING] = 1u << SENDER_AWAITS_READY,
    [SENDER_AWAITS_READY] = 1u << SENDER_MOVING,
    [SENDER_MOVING] = 1u << SENDER_SAID_END | 1u << SENDER_DONE,
    [SENDER_SAID_END] = 1u << SENDER_DONE,
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

struct sender *sender_new(void)
{
    return calloc(1, sizeof(struct sender));
}

static void sender_release(struct transfer *transfer)
{
    struct sender *sender = transfer->sender;
    if (sender == NULL)
        return;
    for (unsigned i = 0; i < sender->held_count; i++)
        free(sender->held[(sender->held_first + i) % HELD_MAX].text);
    entries_release(&sender->entries);
    free(sender);
    transfer->sender = NULL;
}

/* The one place where the state changes. */
static bool move(struct sender *sender, enum sender_state to, struct error *error)
{
    if ((moves[sender->state] >> to & 1) == 0)
        return error_set(error, ERROR_PROTOCOL, "the peer's message came out of place");
    sender->state = to;
    return true;
}

static bool sender_attach(struct transfer *transfer, uint64_t now_ns, struct error *error)
{
    if (!transfer->config.client)
        return move(transfer->sender, SENDER_AWAITS_REQUEST, error);
    transfer_put(transfer, &(struct work_job){.kind = WORK_OPEN, .request = transfer->request},
                 now_ns);
    return move(transfer->sender, SENDER_AWAITS_READY, error) &&
           transfer_say_request(transfer, now_ns, error);
}

/* ---- what the disk side reports ---- */

/* What the storage does not say follows from the request. */
static bool names_of_request(struct transfer *transfer)
{
    const struct transfer_request *request = transfer->request;
    for (size_t i = 0; i < request->name_count; i++) {
        size_t size;
        const char *last = transfer_source_name(request->names[i], &size);
        if (!transfer_request_add(&transfer->names, size > 0 ? last : "",
                                  request->name_is_directory[i] != 0))
            return false;
    }
    return true;
}

static bool say_names(struct transfer *transfer, const struct transfer_request *names,
                      uint64_t now_ns, struct error *error)
{
    if (names == NULL) {
        if (!names_of_request(transfer))
            return error_set(error, ERROR_MEMORY, "out of memory for the names");
        names = &transfer->names;
    }
    uint8_t *body = malloc(MESSAGE_LONG_BODY_MAX);
    if (body == NULL)
        return error_set(error, ERROR_MEMORY, "out of memory for the names");
    struct writer writer = writer_of(body, MESSAGE_LONG_BODY_MAX);
    names_encode(names, &writer);
    bool fits = !writer.failed && names->name_count <= REQUEST_PATHS_MAX;
    if (fits)
        transfer_say(
            transfer,
            &(struct message){.type = MESSAGE_NAMES, .bytes = body, .length = writer_size(&writer)},
            now_ns);
    free(body);
    return fits || error_set(error, ERROR_USAGE,
                             "the sources are too many names for one transfer: at most %u; name "
                             "their directory instead",
                             REQUEST_PATHS_MAX);
}

static void on_opened(struct transfer *transfer, const struct work_report *report, uint64_t now_ns)
{
    struct error error = {0};
    if (transfer->config.client)
        return; /* READY decides when it starts */
    if (!move(transfer->sender, SENDER_AWAITS_READY, &error) ||
        !say_names(transfer, report->names, now_ns, &error))
        transfer_fail(transfer, &error, now_ns);
}

static void on_block(struct transfer *transfer, const struct work_report *report, uint64_t now_ns)
{
    struct sender *sender = transfer->sender;
    sender->buffers_down--;
    unsigned place = (sender->ready_first + sender->ready_count++) % READ_AHEAD;
    sender->ready[place] = (struct ready_block){.block = report->block,
                                                .entry_block = report->entry_block,
                                                .length = report->length,
                                                .packed = report->packed,
                                                .has_entry_block = report->has_entry_block,
                                                .bytes = report->bytes};
    if (report->packed && !entries_add(&sender->entries, report->block))
        transfer_fail_memory(transfer, now_ns);
}

static bool held_may_go(const struct sender *sender, const struct held_message *held)
{
    return held->has_entry_block ? entries_is_acked(&sender->entries, held->entry_block)
                                 : entries_are_acked(&sender->entries, held->sequence);
}

static bool hold(struct transfer *transfer, const struct work_report *report, uint64_t now_ns)
{
    struct sender *sender = transfer->sender;
    if (sender->held_count == HELD_MAX)
        return false;
    struct held_message held = {.has_entry_block = report->has_entry_block,
                                .entry_block = report->entry_block,
                                .sequence = entries_sequence(&sender->entries)};
    held.message.file_id = report->file_id;
    held.message.size = report->size;
    memcpy(held.message.hash, report->hash, sizeof held.message.hash);
    held.message.type = report->result == SOURCE_COMPLETE ? MESSAGE_COMPLETE
                        : report->result == SOURCE_KEEP   ? MESSAGE_KEEP
                        : report->result == SOURCE_HOLES  ? MESSAGE_HOLES
                                                          : MESSAGE_WITHDRAW;
    held.message.first = report->first;
    held.message.count = report->count;
    held.message.kept = report->kept;
    if (report->result == SOURCE_WITHDRAW) {
        struct error error;
        work_report_error(report, &error);
        held.message.kind = error.kind != ERROR_NONE ? error.kind : ERROR_IO;
        held.text = strdup(error.text);
        if (held.text == NULL) {
            transfer_fail_memory(transfer, now_ns);
            return true;
        }
        held.message.text = held.text;
        held.message.text_length = strlen(held.text);
    }
    sender->held[(sender->held_first + sender->held_count++) % HELD_MAX] = held;
    return true;
}

static void on_problem(struct transfer *transfer, const struct work_report *report, uint64_t now_ns)
{
    struct error error;
    work_report_error(report, &error);
    if (error.kind == ERROR_NONE)
        error.kind = ERROR_IO;
    struct message message = {.type = MESSAGE_PROBLEM,
                              .kind = error.kind,
                              .path = work_report_path(report),
                              .path_length = report->path_length,
                              .text = error.text,
                              .text_length = strlen(error.text)};
    transfer_say(transfer, &message, now_ns);
    transfer_event_file(transfer, TRANSFER_FILE_FAILED, message.path, message.path_length, 0, NULL,
                        &error);
}

static void on_exhausted(struct transfer *transfer, const struct work_report *report)
{
    struct sender *sender = transfer->sender;
    sender->exhausted = true;
    sender->end_blocks = report->blocks;
    sender->end_files = report->files;
}

static void take_totals(struct transfer *transfer, const struct work_report *report)
{
    struct transfer_progress *progress = &transfer->progress;
    if (progress->total_files == report->total_files &&
        progress->total_bytes == report->total_bytes &&
        progress->totals_final == report->totals_final)
        return;
    progress->total_files = report->total_files;
    progress->total_bytes = report->total_bytes;
    progress->totals_final = report->totals_final;
    transfer->sender->new_bytes = report->new_bytes;
    transfer->sender->totals_changed = true;
}

static bool on_source(struct transfer *transfer, const struct work_report *report, uint64_t now_ns)
{
    struct error error;
    switch ((enum source_result)report->result) {
    case SOURCE_BLOCK:
        on_block(transfer, report, now_ns);
        break;
    case SOURCE_COMPLETE:
    case SOURCE_WITHDRAW:
    case SOURCE_KEEP:
    case SOURCE_HOLES:
        if (!hold(transfer, report, now_ns))
            return false;
        break;
    case SOURCE_PROBLEM:
        on_problem(transfer, report, now_ns);
        break;
    case SOURCE_NOTE:
    case SOURCE_LOST:
        transfer_note(transfer, report, report->result == SOURCE_LOST, now_ns);
        break;
    case SOURCE_FORGET:
        transfer_say(transfer,
                     &(struct message){
                         .type = MESSAGE_FORGET, .block = report->block, .entry = report->entry},
                     now_ns);
        break;
    case SOURCE_AGAIN:
        break;
    case SOURCE_WAIT:
        transfer->sender->source_waits = true;
        break;
    case SOURCE_END:
        on_exhausted(transfer, report);
        break;
    case SOURCE_FAILED:
        work_report_error(report, &error);
        transfer_fail(transfer, &error, now_ns);
        break;
    }
    take_totals(transfer, report);
    return true;
}

static bool sender_report(struct transfer *transfer, const struct work_report *report,
                          uint64_t now_ns)
{
    struct error error;
    switch (report->kind) {
    case WORK_OPENED:
        on_opened(transfer, report, now_ns);
        return true;
    case WORK_SOURCE:
        return on_source(transfer, report, now_ns);
    case WORK_NOT_REMOVED:
        on_problem(transfer, report, now_ns);
        return true;
    case WORK_OPEN_FAILED:
    case WORK_ANSWER_BAD:
        work_report_error(report, &error);
        transfer_fail(transfer, &error, now_ns);
        return true;
    case WORK_SINK_SAID:
    case WORK_CLOSED:
        break;
    }
    return true;
}

/* ---- what the peer says ---- */

/* Puts the job with a copy of the message's bytes. */
static bool put_copy(struct transfer *transfer, const struct work_job *fields,
                     const struct message *message, uint64_t now_ns)
{
    uint8_t *bytes = malloc(message->length > 0 ? message->length : 1);
    if (bytes == NULL)
        return false;
    if (message->length > 0)
        memcpy(bytes, message->bytes, message->length);
    struct work_job job = *fields;
    job.bytes = bytes;
    job.length = message->length;
    job.block = message->block;
    if (!work_put(transfer->work, &job)) {
        free(bytes);
        transfer_fail_memory(transfer, now_ns);
    }
    return true;
}

static bool on_request(struct transfer *transfer, const struct message *message, uint64_t now_ns,
                       struct error *error)
{
    if (!move(transfer->sender, SENDER_OPENING, error) ||
        !transfer_take_request(transfer, message, error))
        return false;
    transfer->list_open = (transfer->request->flags & TRANSFER_FILES_FROM) != 0;
    transfer_put(transfer, &(struct work_job){.kind = WORK_OPEN, .request = transfer->request},
                 now_ns);
    return true;
}

/* The list of files of a pull: what it holds is checked where it is read. */
static bool on_list(struct transfer *transfer, const struct message *message, uint64_t now_ns,
                    struct error *error)
{
    if (!transfer->list_open)
        return error_set(error, ERROR_PROTOCOL, "a list of files came that was not announced");
    transfer->list_open = message->length > 0;
    transfer->sender->source_waits = false;
    return put_copy(transfer, &(struct work_job){.kind = WORK_LIST}, message, now_ns) ||
           error_set(error, ERROR_MEMORY, "out of memory for the list of files");
}

static bool on_ready(struct transfer *transfer, const struct message *message, uint64_t now_ns,
                     struct error *error)
{
    if (!move(transfer->sender, SENDER_MOVING, error))
        return false;
    return put_copy(transfer, &(struct work_job){.kind = WORK_EXISTING}, message, now_ns) ||
           error_set(error, ERROR_MEMORY, "out of memory for the names that exist");
}

/* The source checks which block is answered and with how many verdicts; here only how many answers
 * there can be. */
static bool on_answer(struct transfer *transfer, const struct message *message, uint64_t now_ns,
                      struct error *error)
{
    struct sender *sender = transfer->sender;
    if (sender->state != SENDER_MOVING || sender->answers >= sender->packed_given ||
        work_backlog(transfer->work) > ANSWERS_MAX)
        return error_set(error, ERROR_PROTOCOL, "the peer answered what was not offered");
    sender->answers++;
    sender->source_waits = false;
    return put_copy(transfer, &(struct work_job){.kind = WORK_ANSWER}, message, now_ns) ||
           error_set(error, ERROR_MEMORY, "out of memory for an answer");
}

/* Hashes of what was forgotten meanwhile may still be on their way after END. */
static bool on_hashes(struct transfer *transfer, const struct message *message, uint64_t now_ns,
                      struct error *error)
{
    struct sender *sender = transfer->sender;
    if (sender->state == SENDER_SAID_END)
        return true;
    if (sender->state != SENDER_MOVING || sender->answers == 0 ||
        work_backlog(transfer->work) > ANSWERS_MAX)
        return error_set(error, ERROR_PROTOCOL, "the peer told hashes of what was not offered");
    sender->source_waits = false;
    struct work_job job = {.kind = WORK_HASHES,
                           .piece = {.offer = message->block,
                                     .entry = message->entry,
                                     .first = message->first,
                                     .count = message->count,
                                     .present = message->kept}};
    return put_copy(transfer, &job, message, now_ns) ||
           error_set(error, ERROR_MEMORY, "out of memory for hashes");
}

static void on_progress(struct transfer *transfer, const struct message *message)
{
    struct transfer_progress *progress = &transfer->progress;
    progress->verified_bytes = message->size;
    progress->files_done = message->files;
    progress->files_skipped = message->skipped;
    progress->files_failed = message->failed;
    progress->peer_disk_wait_ns = message->disk_wait_ns;
    progress->kept_bytes = message->kept_bytes;
}

static bool removes_source(const struct transfer *transfer)
{
    return transfer->request != NULL && (transfer->request->flags & TRANSFER_REMOVE_SOURCE) != 0;
}

static bool put_failed(struct transfer *transfer, const struct message *message, uint64_t now_ns)
{
    char *path = malloc(message->path_length + 1);
    if (path == NULL)
        return false;
    memcpy(path, message->path, message->path_length);
    path[message->path_length] = 0;
    struct work_job job = {
        .kind = WORK_FAILED, .bytes = (uint8_t *)path, .length = message->path_length};
    if (!work_put(transfer->work, &job)) {
        free(path);
        transfer_fail_memory(transfer, now_ns);
    }
    return true;
}

static bool sender_message(struct transfer *transfer, const struct message *message,
                           uint64_t now_ns, struct error *error)
{
    switch (message->type) {
    case MESSAGE_REQUEST:
        return on_request(transfer, message, now_ns, error);
    case MESSAGE_READY:
        return on_ready(transfer, message, now_ns, error);
    case MESSAGE_LIST:
        return on_list(transfer, message, now_ns, error);
    case MESSAGE_ANSWER:
        return on_answer(transfer, message, now_ns, error);
    case MESSAGE_HASHES:
        return on_hashes(transfer, message, now_ns, error);
    case MESSAGE_PROGRESS:
        on_progress(transfer, message);
        return true;
    case MESSAGE_FILE_DONE:
        transfer_event_file(transfer, TRANSFER_FILE_DONE, message->path, message->path_length,
                            message->size, message->hash, NULL);
        return true;
    case MESSAGE_FILE_SKIPPED:
        transfer_event_file(transfer, TRANSFER_FILE_SKIPPED, message->path, message->path_length,
                            message->size, NULL, NULL);
        return true;
    case MESSAGE_DELETED:
        transfer->progress.deleted = message->files;
        if (message->path_length > 0)
            transfer_event_file(transfer, TRANSFER_FILE_DELETED, message->path,
                                message->path_length, 0, NULL, NULL);
        return true;
    case MESSAGE_PROBLEM:
        if (removes_source(transfer) && !put_failed(transfer, message, now_ns))
            return error_set(error, ERROR_MEMORY, "out of memory for a failure");
        transfer_event_problem(transfer, message);
        return true;
    default:
        return transfer_common_message(transfer, message, error);
    }
}

static void on_done(struct transfer *transfer, const struct session_event *event, uint64_t now_ns)
{
    struct sender *sender = transfer->sender;
    struct error error = {0};
    transfer->progress.ended_ns = now_ns;
    if (event->result > 1) {
        error_set(&error, ERROR_PEER, "the receiver could not finish");
        transfer_fail(transfer, &error, now_ns);
        return;
    }
    if (sender->state != SENDER_SAID_END || event->blocks != sender->end_blocks ||
        event->files != sender->end_files) {
        error_set(&error, ERROR_PROTOCOL,
                  "the receiver's final counts do not agree: %llu files in %llu blocks",
                  (unsigned long long)event->files, (unsigned long long)event->blocks);
        transfer_fail(transfer, &error, now_ns);
        return;
    }
    move(sender, SENDER_DONE, &error);
    if (removes_source(transfer))
        transfer_put(transfer, &(struct work_job){.kind = WORK_REMOVE}, now_ns);
    transfer->progress.phase = PHASE_FINISHING;
    if (event->result == 1 && transfer->progress.files_failed == 0)
        transfer->progress.files_failed = 1;
}

static void sender_event(struct transfer *transfer, const struct session_event *event,
                         uint64_t now_ns)
{
    switch (event->kind) {
    case SESSION_BLOCK_RELEASED:
        buffers_give(&transfer->buffers, event->bytes);
        break;
    case SESSION_BLOCK_ACKED:
        entries_acked(&transfer->sender->entries, event->block);
        transfer->sender->blocks_acked++;
        break;
    case SESSION_DONE_RECEIVED:
        if (transfer->sender->state != SENDER_DONE)
            on_done(transfer, event, now_ns);
        break;
    case SESSION_BLOCK_WHOLE:
    case SESSION_CLOSED:
        break;
    }
}

/* ---- a step ---- */

static uint64_t path_rate(const struct transfer *transfer)
{
    struct session_statistics statistics;
    session_statistics(transfer->session, &statistics);
    return statistics.rate_bps;
}

static bool feed_source(struct transfer *transfer, uint64_t now_ns)
{
    struct sender *sender = transfer->sender;
    bool moved = false;
    while (!sender->exhausted && sender->buffers_down + sender->ready_count < READ_AHEAD) {
        uint8_t *bytes = buffers_take(&transfer->buffers);
        if (bytes == NULL)
            break;
        sender->buffers_down++;
        struct work_job job = {
            .kind = WORK_BUFFER, .bytes = bytes, .path_bps = path_rate(transfer)};
        transfer_put(transfer, &job, now_ns);
        moved = true;
    }
    return moved;
}

static bool give_blocks(struct transfer *transfer, uint64_t now_ns)
{
    struct sender *sender = transfer->sender;
    bool moved = false;
    while (sender->ready_count > 0 && session_wants_block(transfer->session) &&
           transfer_may_go(transfer, now_ns)) {
        const struct ready_block *ready = &sender->ready[sender->ready_first];
        if (!ready->packed &&
            !entries_let_content(&sender->entries,
                                 ready->has_entry_block ? &ready->entry_block : NULL))
            break;
        struct error error = {0};
        if (!session_send_block(transfer->session, ready->block, ready->packed, ready->bytes,
                                ready->length, &error)) {
            error_set(&error, ERROR_PROTOCOL, "block %u was not taken", ready->block);
            transfer_fail(transfer, &error, now_ns);
            return true;
        }
        allowance_spend(&transfer->allowance, ready->length);
        sender->blocks_given++;
        sender->packed_given += ready->packed ? 1 : 0;
        sender->ready_first = (sender->ready_first + 1) % READ_AHEAD;
        sender->ready_count--;
        moved = true;
    }
    return moved;
}

static bool say_held(struct transfer *transfer, uint64_t now_ns)
{
    struct sender *sender = transfer->sender;
    bool moved = false;
    while (sender->held_count > 0 && control_out_has_room(&transfer->out)) {
        struct held_message *held = &sender->held[sender->held_first];
        if (!held_may_go(sender, held))
            break;
        transfer_say(transfer, &held->message, now_ns);
        free(held->text);
        sender->held_first = (sender->held_first + 1) % HELD_MAX;
        sender->held_count--;
        moved = true;
    }
    return moved;
}

static void say_totals(struct transfer *transfer, uint64_t now_ns)
{
    struct sender *sender = transfer->sender;
    const struct transfer_progress *progress = &transfer->progress;
    bool final_now = progress->totals_final && !sender->totals_final_said;
    if (!sender->totals_changed || !control_out_has_room(&transfer->out) ||
        (now_ns < transfer->next_tick_ns && !final_now))
        return;
    sender->totals_changed = false;
    sender->totals_final_said = progress->totals_final;
    struct message totals = {.type = MESSAGE_TOTALS,
                             .files = progress->total_files,
                             .size = progress->total_bytes,
                             .new_bytes = sender->new_bytes,
                             .totals_final = progress->totals_final};
    transfer_say(transfer, &totals, now_ns);
}

/* Ten times a second while something moves, and at once when all has arrived: what comes after is
 * too late for the peer's summary. */
static void say_stats(struct transfer *transfer, uint64_t now_ns)
{
    struct sender *sender = transfer->sender;
    bool all_arrived =
        sender->state == SENDER_SAID_END && sender->blocks_acked == sender->blocks_given;
    if ((now_ns < transfer->next_tick_ns && !all_arrived) || !control_out_has_room(&transfer->out))
        return;
    struct message stats = {.type = MESSAGE_STATS};
    transfer_figures(transfer->session, &stats.figures);
    if (stats.figures.payload_sent == sender->told_payload &&
        stats.figures.packets_lost == sender->told_lost)
        return;
    sender->told_payload = stats.figures.payload_sent;
    sender->told_lost = stats.figures.packets_lost;
    transfer_say(transfer, &stats, now_ns);
}

/* END goes when everything was handed over and said. */
static bool say_end(struct transfer *transfer, uint64_t now_ns)
{
    struct sender *sender = transfer->sender;
    if (sender->state != SENDER_MOVING || !sender->exhausted || sender->ready_count > 0)
        return false;
    session_set_tail(transfer->session, true);
    if (sender->held_count > 0)
        return false;
    struct error error = {0};
    if (sender->blocks_given != sender->end_blocks) {
        error_set(&error, ERROR_PROTOCOL, "the source counts %llu blocks but gave %llu",
                  (unsigned long long)sender->end_blocks, (unsigned long long)sender->blocks_given);
        transfer_fail(transfer, &error, now_ns);
        return true;
    }
    move(sender, SENDER_SAID_END, &error);
    transfer->progress.phase = PHASE_FINISHING;
    struct message end = {
        .type = MESSAGE_END, .blocks = sender->end_blocks, .files = sender->end_files};
    transfer_say(transfer, &end, now_ns);
    return true;
}

/* Our own disk holds things up while the session would take a block and none is read. */
static void measure_disk_wait(struct transfer *transfer, uint64_t now_ns)
{
    struct sender *sender = transfer->sender;
    if (sender->starved_since_ns != 0)
        transfer->progress.disk_wait_ns += now_ns - sender->starved_since_ns;
    bool starved = sender->state == SENDER_MOVING && !sender->exhausted && !sender->source_waits &&
                   sender->ready_count == 0 && sender->buffers_down > 0 &&
                   session_wants_block(transfer->session);
    sender->starved_since_ns = starved ? now_ns : 0;
}

static bool sender_step(struct transfer *transfer, uint64_t now_ns)
{
    bool moved = false;
    if (transfer->sender->state == SENDER_MOVING) {
        moved |= give_blocks(transfer, now_ns);
        moved |= feed_source(transfer, now_ns);
        moved |= say_held(transfer, now_ns);
        say_totals(transfer, now_ns);
        moved |= say_end(transfer, now_ns);
    }
    if (transfer->sender->state == SENDER_MOVING || transfer->sender->state == SENDER_SAID_END)
        say_stats(transfer, now_ns);
    measure_disk_wait(transfer, now_ns);
    return moved;
}

static bool sender_finished(const struct transfer *transfer)
{
    return transfer->sender->state == SENDER_DONE;
}

const struct half sender_half = {.attach = sender_attach,
                                 .event = sender_event,
                                 .report = sender_report,
                                 .message = sender_message,
                                 .step = sender_step,
                                 .finished = sender_finished,
                                 .release = sender_release};
