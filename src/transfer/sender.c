/* The half that moves blocks from a source into the session. */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "transfer/sender_internal.h"

_Static_assert(READ_AHEAD <= WORK_BUFFERS_MAX, "the source must be able to hold them");

static const uint8_t moves[SENDER_STATE_COUNT] = {
    [SENDER_NEW] = 1u << SENDER_AWAITS_REQUEST | 1u << SENDER_AWAITS_READY,
    [SENDER_AWAITS_REQUEST] = 1u << SENDER_OPENING,
    [SENDER_OPENING] = 1u << SENDER_AWAITS_READY,
    [SENDER_AWAITS_READY] = 1u << SENDER_MOVING,
    [SENDER_MOVING] = 1u << SENDER_SAID_END | 1u << SENDER_DONE,
    [SENDER_SAID_END] = 1u << SENDER_DONE,
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
bool sender_move(struct sender *sender, enum sender_state to, struct error *error)
{
    if ((moves[sender->state] >> to & 1) == 0)
        return error_set(error, ERROR_PROTOCOL, "the peer's message came out of place");
    sender->state = to;
    return true;
}

static bool sender_attach(struct transfer *transfer, uint64_t now_ns, struct error *error)
{
    if (!transfer->config.client)
        return sender_move(transfer->sender, SENDER_AWAITS_REQUEST, error);
    transfer_put(transfer, &(struct work_job){.kind = WORK_OPEN, .request = transfer->request},
                 now_ns);
    return sender_move(transfer->sender, SENDER_AWAITS_READY, error) &&
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
    if (!sender_move(transfer->sender, SENDER_AWAITS_READY, &error) ||
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
    sender_move(sender, SENDER_SAID_END, &error);
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
