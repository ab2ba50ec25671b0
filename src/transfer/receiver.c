/* The half that moves blocks from the session into a sink. */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "transfer/receiver_internal.h"

#define LIST_PIECE 16384u /* bytes of the list of files in one message */
#define POOL_FIRST 32u    /* blocks granted in the hello */
#define MEASURE_MIN_NS (20 * NS_PER_MS)
#define MEASURE_MAX_NS (100 * NS_PER_MS)
#define GUST_S 0.1 /* with few first blocks: what this time brings may be granted */
#define RATE_MEMORY_NS (4 * NS_PER_S) /* in which the best recent rate is forgotten */

static const uint8_t moves[RECEIVER_STATE_COUNT] = {
    [RECEIVER_NEW] = 1u << RECEIVER_AWAITS_REQUEST | 1u << RECEIVER_AWAITS_NAMES,
    [RECEIVER_AWAITS_REQUEST] = 1u << RECEIVER_OPENING,
    [RECEIVER_AWAITS_NAMES] = 1u << RECEIVER_OPENING,
    [RECEIVER_OPENING] = 1u << RECEIVER_MOVING,
    [RECEIVER_MOVING] = 1u << RECEIVER_ENDING,
    [RECEIVER_ENDING] = 1u << RECEIVER_VERIFIED,
    [RECEIVER_VERIFIED] = 1u << RECEIVER_DONE,
};

struct receiver *receiver_new(void)
{
    return calloc(1, sizeof(struct receiver));
}

static void receiver_release(struct transfer *transfer)
{
    free(transfer->receiver);
    transfer->receiver = NULL;
}

uint32_t receiver_initial_credit(const struct transfer *transfer)
{
    size_t pool = transfer->config.pool_blocks, first = transfer->config.first_blocks;
    if (first == 0 || first > POOL_FIRST)
        first = POOL_FIRST;
    return (uint32_t)(pool < first ? pool : first);
}

/* The one place where the state changes. */
bool receiver_move(struct receiver *receiver, enum receiver_state to, struct error *error)
{
    if ((moves[receiver->state] >> to & 1) == 0)
        return error_set(error, ERROR_PROTOCOL, "the peer's message came out of place");
    receiver->state = to;
    return true;
}

/* ---- buffers ---- */

/* Gives the session fresh buffers until as many are out as may be. */
static bool grant(struct transfer *transfer, bool at_first, uint64_t now_ns)
{
    struct receiver *receiver = transfer->receiver;
    bool moved = false;
    while (transfer->buffers.out_count < receiver->target &&
           (at_first || transfer_may_go(transfer, now_ns))) {
        uint8_t *bytes = buffers_take(&transfer->buffers);
        if (bytes == NULL)
            break;
        session_give_buffer(transfer->session, bytes);
        allowance_spend(&transfer->allowance, BLOCK_SIZE);
        receiver->in_session++;
        moved = true;
    }
    return moved;
}

static void take_back(struct transfer *transfer, uint8_t *bytes, uint64_t now_ns)
{
    struct receiver *receiver = transfer->receiver;
    if (receiver->in_sink > 0)
        receiver->in_sink--;
    if (transfer_running(transfer) && transfer->buffers.out_count <= receiver->target &&
        transfer_may_go(transfer, now_ns)) {
        session_give_buffer(transfer->session, bytes);
        allowance_spend(&transfer->allowance, BLOCK_SIZE);
        receiver->in_session++;
    } else {
        buffers_give(&transfer->buffers, bytes);
    }
}

/* The pool follows the path: four times what is in flight at the best recent rate, so that loss
 * and a sink that writes in gusts do not stop the sender. It never shrinks below the first grant.
 * Credit that was told cannot be taken back: the pool shrinks as buffers return. */
static void size_pool(struct transfer *transfer, uint64_t now_ns)
{
    struct receiver *receiver = transfer->receiver;
    struct session_statistics statistics;
    session_statistics(transfer->session, &statistics);
    uint64_t passed_ns = now_ns - receiver->measured_ns;
    receiver->measure_for_ns = statistics.rtt_ns < MEASURE_MIN_NS   ? MEASURE_MIN_NS
                               : statistics.rtt_ns > MEASURE_MAX_NS ? MEASURE_MAX_NS
                                                                    : statistics.rtt_ns;
    uint64_t bytes = statistics.payload_received - receiver->measured_bytes;
    uint64_t rate_bps = (uint64_t)((double)bytes * 8e9 / (double)passed_ns);
    receiver->measured_ns = now_ns;
    receiver->measured_bytes = statistics.payload_received;
    double kept = passed_ns < RATE_MEMORY_NS ? 1 - (double)passed_ns / RATE_MEMORY_NS : 0;
    receiver->rate_bps = (uint64_t)((double)receiver->rate_bps * kept);
    if (rate_bps > receiver->rate_bps)
        receiver->rate_bps = rate_bps;
    double in_flight = (double)receiver->rate_bps / 8 * (double)statistics.rtt_ns / 1e9;
    double target = 4 * in_flight / BLOCK_SIZE + 1;
    double gust = (double)receiver->rate_bps / 8 * GUST_S / BLOCK_SIZE;
    if (transfer->config.first_blocks != 0 && target < gust)
        target = gust < POOL_FIRST ? gust : POOL_FIRST;
    size_t most = transfer->config.pool_blocks, least = receiver_initial_credit(transfer);
    receiver->target = target > (double)most    ? most
                       : target < (double)least ? least
                                                : (size_t)target;
}

/* The disk holds things up while the session runs short of buffers because the sink has them. */
static void measure_disk_wait(struct transfer *transfer, uint64_t now_ns)
{
    struct receiver *receiver = transfer->receiver;
    if (receiver->held_since_ns != 0)
        transfer->progress.disk_wait_ns += now_ns - receiver->held_since_ns;
    bool held = receiver->state == RECEIVER_MOVING && receiver->in_sink > 0 &&
                receiver->in_session * 4 <= receiver->target;
    held |= receiver->state == RECEIVER_ENDING;
    receiver->held_since_ns = held ? now_ns : 0;
}

/* ---- opening ---- */

static bool receiver_attach(struct transfer *transfer, uint64_t now_ns, struct error *error)
{
    struct receiver *receiver = transfer->receiver;
    receiver->target = receiver_initial_credit(transfer);
    receiver->measured_ns = now_ns;
    receiver->measure_for_ns = MEASURE_MIN_NS;
    grant(transfer, true, now_ns); /* as the hello has promised, whatever the pace */
    if (receiver->in_session < receiver->target)
        return error_set(error, ERROR_MEMORY, "out of memory for %u blocks",
                         (unsigned)receiver->target);
    if (!transfer->config.client)
        return receiver_move(receiver, RECEIVER_AWAITS_REQUEST, error);
    transfer->list_open = (transfer->request->flags & TRANSFER_FILES_FROM) != 0;
    return receiver_move(receiver, RECEIVER_AWAITS_NAMES, error) &&
           transfer_say_request(transfer, now_ns, error);
}

static void on_opened(struct transfer *transfer, const struct work_report *report, uint64_t now_ns)
{
    struct error error = {0};
    if (receiver_move(transfer->receiver, RECEIVER_MOVING, &error)) {
        struct message ready = {
            .type = MESSAGE_READY, .bytes = report->bytes, .length = report->length};
        transfer_say(transfer, &ready, now_ns);
    }
    free(report->bytes);
}

/* ---- what the sink reports ---- */

static void say_file_done(struct transfer *transfer, const struct work_report *report,
                          uint64_t now_ns)
{
    struct receiver *receiver = transfer->receiver;
    if ((transfer->request->flags & TRANSFER_NAME_FILES) == 0 &&
        receiver->files_done_said >= MESSAGE_FILES_DONE_MAX)
        return;
    receiver->files_done_said++;
    struct message done = {.type = MESSAGE_FILE_DONE,
                           .path = work_report_path(report),
                           .path_length = report->path_length,
                           .size = report->size};
    memcpy(done.hash, report->hash, sizeof done.hash);
    transfer_say(transfer, &done, now_ns);
}

static void say_file_skipped(struct transfer *transfer, const struct work_report *report,
                             uint64_t now_ns)
{
    if ((transfer->request->flags & TRANSFER_NAME_FILES) == 0)
        return;
    struct message skipped = {.type = MESSAGE_FILE_SKIPPED,
                              .path = work_report_path(report),
                              .path_length = report->path_length,
                              .size = report->size};
    transfer_say(transfer, &skipped, now_ns);
}

static void on_file_failed(struct transfer *transfer, const struct work_report *report,
                           uint64_t now_ns)
{
    struct error error;
    work_report_error(report, &error);
    if (error.kind == ERROR_NONE)
        error.kind = ERROR_IO;
    transfer->progress.files_failed++;
    transfer_event_file(transfer, TRANSFER_FILE_FAILED, work_report_path(report),
                        report->path_length, 0, NULL, &error);
    struct message problem = {.type = MESSAGE_PROBLEM,
                              .kind = error.kind,
                              .path = work_report_path(report),
                              .path_length = report->path_length,
                              .text = error.text,
                              .text_length = strlen(error.text)};
    transfer_say(transfer, &problem, now_ns);
}

/* Each name goes to a sender that asked for all names, else the count alone at the end. */
static void on_deleted(struct transfer *transfer, const struct work_report *report, uint64_t now_ns)
{
    transfer->progress.deleted++;
    transfer_event_file(transfer, TRANSFER_FILE_DELETED, work_report_path(report),
                        report->path_length, 0, NULL, NULL);
    if ((transfer->request->flags & TRANSFER_NAME_FILES) == 0)
        return;
    struct message deleted = {.type = MESSAGE_DELETED,
                              .files = transfer->progress.deleted,
                              .path = work_report_path(report),
                              .path_length = report->path_length};
    transfer_say(transfer, &deleted, now_ns);
}

static void say_deleted(struct transfer *transfer, uint64_t now_ns)
{
    struct message deleted = {
        .type = MESSAGE_DELETED, .files = transfer->progress.deleted, .path = ""};
    if (transfer->progress.deleted > 0)
        transfer_say(transfer, &deleted, now_ns);
}

static void on_answer(struct transfer *transfer, const struct work_report *report, uint64_t now_ns)
{
    struct message answer = {.type = MESSAGE_ANSWER,
                             .block = report->block,
                             .bytes = report->bytes,
                             .length = report->length};
    transfer_say(transfer, &answer, now_ns);
    free(report->bytes);
}

static void on_hashes(struct transfer *transfer, const struct work_report *report, uint64_t now_ns)
{
    struct message hashes = {.type = MESSAGE_HASHES,
                             .block = report->block,
                             .entry = report->entry,
                             .first = report->first,
                             .count = report->count,
                             .kept = report->kept,
                             .bytes = report->bytes,
                             .length = report->length};
    transfer_say(transfer, &hashes, now_ns);
    free(report->bytes);
}

static void on_finished(struct transfer *transfer, const struct work_report *report,
                        uint64_t now_ns)
{
    struct receiver *receiver = transfer->receiver;
    struct error error = {0};
    if (!transfer_running(transfer))
        return;
    /* Directories and links that failed are among the failures, but no files. */
    if (report->files > receiver->end_files ||
        report->files + report->failures < receiver->end_files)
        error_set(&error, ERROR_PROTOCOL,
                  "the sender speaks of %llu files, but %llu came and %llu failed",
                  (unsigned long long)receiver->end_files, (unsigned long long)report->files,
                  (unsigned long long)report->failures);
    if (error.kind != ERROR_NONE || !receiver_move(receiver, RECEIVER_VERIFIED, &error)) {
        transfer_fail(transfer, &error, now_ns);
        return;
    }
    say_deleted(transfer, now_ns);
    transfer->progress.ended_ns = now_ns;
    receiver->progress_changed = true;
}

static void on_sink(struct transfer *transfer, const struct work_report *report, uint64_t now_ns)
{
    struct transfer_progress *progress = &transfer->progress;
    struct error error;
    transfer->receiver->progress_changed = true;
    switch ((enum sink_report_kind)report->result) {
    case SINK_BUFFER_FREE:
        take_back(transfer, report->bytes, now_ns);
        break;
    case SINK_VERIFIED:
        progress->verified_bytes += report->size;
        break;
    case SINK_FILE_DONE:
        progress->files_done++;
        transfer_event_file(transfer, TRANSFER_FILE_DONE, work_report_path(report),
                            report->path_length, report->size, report->hash, NULL);
        say_file_done(transfer, report, now_ns);
        break;
    case SINK_FILE_FAILED:
        on_file_failed(transfer, report, now_ns);
        break;
    case SINK_FILE_SKIPPED:
        progress->files_skipped++;
        transfer_event_file(transfer, TRANSFER_FILE_SKIPPED, work_report_path(report),
                            report->path_length, report->size, NULL, NULL);
        say_file_skipped(transfer, report, now_ns);
        break;
    case SINK_ANSWER:
        on_answer(transfer, report, now_ns);
        break;
    case SINK_HASHES:
        on_hashes(transfer, report, now_ns);
        break;
    case SINK_KEPT:
        progress->verified_bytes += report->size;
        progress->kept_bytes += report->size;
        break;
    case SINK_DELETED:
        on_deleted(transfer, report, now_ns);
        break;
    case SINK_NOTE:
    case SINK_LOST:
        transfer_note(transfer, report, report->result == SINK_LOST, now_ns);
        break;
    case SINK_FINISHED:
        on_finished(transfer, report, now_ns);
        break;
    case SINK_FAILED:
        work_report_error(report, &error);
        transfer_fail(transfer, &error, now_ns);
        break;
    }
}

static bool receiver_report(struct transfer *transfer, const struct work_report *report,
                            uint64_t now_ns)
{
    struct error error;
    switch (report->kind) {
    case WORK_OPENED:
        on_opened(transfer, report, now_ns);
        break;
    case WORK_SINK_SAID:
        on_sink(transfer, report, now_ns);
        break;
    case WORK_OPEN_FAILED:
        work_report_error(report, &error);
        transfer_fail(transfer, &error, now_ns);
        break;
    case WORK_SOURCE:
    case WORK_NOT_REMOVED:
    case WORK_ANSWER_BAD:
    case WORK_CLOSED:
        break;
    }
    return true;
}

/* ---- a step ---- */

static bool end_sink(struct transfer *transfer, uint64_t now_ns)
{
    struct receiver *receiver = transfer->receiver;
    if (receiver->state != RECEIVER_MOVING || !receiver->end_known ||
        receiver->blocks_whole != receiver->end_blocks)
        return false;
    struct error error = {0};
    receiver_move(receiver, RECEIVER_ENDING, &error);
    transfer->progress.phase = PHASE_FINISHING;
    struct work_job job = {.kind = WORK_SINK,
                           .sink = {.kind = SINK_END,
                                    .blocks = receiver->end_blocks,
                                    .files = receiver->end_files,
                                    .problems = transfer->progress.files_failed}};
    transfer_put(transfer, &job, now_ns);
    return true;
}

/* The list of files goes out piece by piece, as the control stream takes it. */
static bool say_list(struct transfer *transfer, uint64_t now_ns)
{
    bool moved = false;
    while (transfer->list_open && transfer_running(transfer) &&
           control_out_has_room(&transfer->out)) {
        uint8_t bytes[LIST_PIECE];
        struct error error = {0};
        ptrdiff_t size = transfer->config.read_list(
            transfer->config.list_context, transfer->list_said, bytes, sizeof bytes, &error);
        if (size < 0) {
            transfer_fail(transfer, &error, now_ns);
            return true;
        }
        struct message list = {.type = MESSAGE_LIST, .bytes = bytes, .length = (size_t)size};
        transfer_say(transfer, &list, now_ns);
        transfer->list_said += (uint64_t)size;
        transfer->list_open = size > 0;
        moved = true;
    }
    return moved;
}

static void say_progress(struct transfer *transfer, uint64_t now_ns)
{
    struct receiver *receiver = transfer->receiver;
    bool last = receiver->state == RECEIVER_VERIFIED;
    if (!receiver->progress_changed || receiver->state < RECEIVER_MOVING ||
        (!last && (now_ns < transfer->next_tick_ns || !control_out_has_room(&transfer->out))))
        return;
    receiver->progress_changed = false;
    const struct transfer_progress *progress = &transfer->progress;
    struct message message = {.type = MESSAGE_PROGRESS,
                              .size = progress->verified_bytes,
                              .files = progress->files_done,
                              .skipped = progress->files_skipped,
                              .failed = progress->files_failed,
                              .disk_wait_ns = progress->disk_wait_ns,
                              .kept_bytes = progress->kept_bytes};
    transfer_say(transfer, &message, now_ns);
}

/* DONE is the last word: it goes when the control stream has taken all that was to be said. */
static bool finish(struct transfer *transfer, uint64_t now_ns)
{
    struct receiver *receiver = transfer->receiver;
    struct error error = {0};
    if (receiver->state != RECEIVER_VERIFIED)
        return false;
    control_out_flush(&transfer->out, transfer->session);
    if (!control_out_is_empty(&transfer->out))
        return false;
    receiver_move(receiver, RECEIVER_DONE, &error);
    session_finish(transfer->session, transfer->progress.files_failed > 0 ? 1 : 0,
                   receiver->end_files, receiver->end_blocks, now_ns);
    return true;
}

static bool receiver_step(struct transfer *transfer, uint64_t now_ns)
{
    bool moved = false;
    if (now_ns - transfer->receiver->measured_ns >= transfer->receiver->measure_for_ns)
        size_pool(transfer, now_ns);
    measure_disk_wait(transfer, now_ns);
    if (transfer->receiver->state <= RECEIVER_MOVING)
        moved |= grant(transfer, false, now_ns);
    moved |= say_list(transfer, now_ns);
    moved |= end_sink(transfer, now_ns);
    say_progress(transfer, now_ns);
    moved |= finish(transfer, now_ns);
    return moved;
}

/* Once all is verified and renamed, nothing that happens to the session changes that. */
static bool receiver_finished(const struct transfer *transfer)
{
    return transfer->receiver->state >= RECEIVER_VERIFIED;
}

const struct half receiver_half = {.attach = receiver_attach,
                                   .event = receiver_event,
                                   .report = receiver_report,
                                   .message = receiver_message,
                                   .step = receiver_step,
                                   .finished = receiver_finished,
                                   .release = receiver_release};
