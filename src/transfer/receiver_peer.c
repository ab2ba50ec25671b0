#include <string.h>

#include "transfer/receiver_internal.h"

/* ---- opening ---- */

static bool on_request(struct transfer *transfer, const struct message *message, uint64_t now_ns,
                       struct error *error)
{
    if (transfer->receiver->state != RECEIVER_AWAITS_REQUEST)
        return error_set(error, ERROR_PROTOCOL, "the peer's message came out of place");
    if (!receiver_move(transfer->receiver, RECEIVER_OPENING, error) ||
        !transfer_take_request(transfer, message, error))
        return false;
    transfer_put(transfer, &(struct work_job){.kind = WORK_OPEN, .request = transfer->request},
                 now_ns);
    return true;
}

/* The sink opens a request of its own: the client's destination and flags, with the names that will
 * come. Several of them need a directory to go into. */
static bool on_names(struct transfer *transfer, const struct message *message, uint64_t now_ns,
                     struct error *error)
{
    if (transfer->receiver->state != RECEIVER_AWAITS_NAMES)
        return error_set(error, ERROR_PROTOCOL, "the peer's message came out of place");
    struct transfer_request *names = &transfer->names;
    if (!receiver_move(transfer->receiver, RECEIVER_OPENING, error) ||
        !names_decode(names, message->bytes, message->length, error) ||
        !transfer_request_admits(transfer->request, names, error))
        return false;
    if (!filter_copy(&names->filter, &transfer->request->filter, error))
        return false;
    names->flags = transfer->request->flags;
    names->max_delete = transfer->request->max_delete;
    if (transfer->request->reference != NULL) {
        names->reference = strdup(transfer->request->reference);
        if (names->reference == NULL)
            return error_set(error, ERROR_MEMORY, "out of memory for the destination");
    }
    if (names->name_count > 1)
        names->flags |= TRANSFER_DESTINATION_IS_DIRECTORY;
    names->destination = strdup(transfer->request->destination);
    if (names->destination == NULL)
        return error_set(error, ERROR_MEMORY, "out of memory for the destination");
    transfer_put(transfer, &(struct work_job){.kind = WORK_OPEN, .request = names}, now_ns);
    return true;
}

/* ---- moving ---- */

static bool check_end(const struct receiver *receiver, struct error *error)
{
    if (receiver->end_known && receiver->blocks_whole > receiver->end_blocks)
        return error_set(
            error, ERROR_PROTOCOL, "the sender speaks of %llu blocks in all, but %llu came",
            (unsigned long long)receiver->end_blocks, (unsigned long long)receiver->blocks_whole);
    return true;
}

static bool on_end(struct transfer *transfer, const struct message *message, struct error *error)
{
    struct receiver *receiver = transfer->receiver;
    receiver->end_known = true;
    receiver->end_blocks = message->blocks;
    receiver->end_files = message->files;
    return check_end(receiver, error);
}

static bool on_problem(struct transfer *transfer, const struct message *message)
{
    transfer->progress.files_failed++;
    transfer->receiver->progress_changed = true;
    transfer_event_problem(transfer, message);
    return true;
}

static void put_file_job(struct transfer *transfer, enum sink_job_kind kind,
                         const struct message *message, uint64_t now_ns)
{
    struct work_job job = {
        .kind = WORK_SINK,
        .sink = {.kind = kind, .file_id = message->file_id, .size = message->size}};
    if (kind == SINK_KEEP || kind == SINK_HOLES) {
        job.sink.block = message->first;
        job.sink.length = message->count;
        job.sink.kept = message->kept;
    } else if (kind == SINK_FORGET) {
        job.sink.block = message->block;
        job.sink.entry = message->entry;
    }
    memcpy(job.sink.hash, message->hash, sizeof job.sink.hash);
    if (kind == SINK_WITHDRAW)
        transfer_message_error(message, &job.sink.error);
    transfer_put(transfer, &job, now_ns);
}

/* Once it is known what will come, the sink sees whether it fits: better now than later. */
static void on_totals(struct transfer *transfer, const struct message *message, uint64_t now_ns)
{
    if (message->totals_final && !transfer->progress.totals_final) {
        struct work_job job = {.kind = WORK_SINK,
                               .sink = {.kind = SINK_TOTALS, .size = message->new_bytes}};
        transfer_put(transfer, &job, now_ns);
    }
    transfer->progress.total_files = message->files;
    transfer->progress.total_bytes = message->size;
    transfer->progress.totals_final = message->totals_final;
}

bool receiver_message(struct transfer *transfer, const struct message *message, uint64_t now_ns,
                      struct error *error)
{
    struct receiver *receiver = transfer->receiver;
    if (message->type == MESSAGE_REQUEST)
        return on_request(transfer, message, now_ns, error);
    if (message->type == MESSAGE_NAMES)
        return on_names(transfer, message, now_ns, error);
    if (message->type == MESSAGE_STATS) { /* at any time: it changes nothing */
        transfer->progress.sender = message->figures;
        return true;
    }
    if (receiver->state != RECEIVER_MOVING || receiver->end_known)
        return transfer_common_message(transfer, message, error);
    switch (message->type) {
    case MESSAGE_COMPLETE:
        put_file_job(transfer, SINK_COMPLETE, message, now_ns);
        return true;
    case MESSAGE_WITHDRAW:
        put_file_job(transfer, SINK_WITHDRAW, message, now_ns);
        return true;
    case MESSAGE_HOLES:
        put_file_job(transfer, SINK_HOLES, message, now_ns);
        return true;
    case MESSAGE_KEEP:
        put_file_job(transfer, SINK_KEEP, message, now_ns);
        return true;
    case MESSAGE_FORGET:
        put_file_job(transfer, SINK_FORGET, message, now_ns);
        return true;
    case MESSAGE_END:
        return on_end(transfer, message, error);
    case MESSAGE_PROBLEM:
        return on_problem(transfer, message);
    case MESSAGE_TOTALS:
        on_totals(transfer, message, now_ns);
        return true;
    default:
        return transfer_common_message(transfer, message, error);
    }
}

static void on_whole(struct transfer *transfer, const struct session_event *event, uint64_t now_ns)
{
    struct receiver *receiver = transfer->receiver;
    struct error error = {0};
    allowance_spend(&transfer->allowance, (int64_t)event->length - BLOCK_SIZE);
    receiver->in_session--;
    receiver->in_sink++;
    receiver->blocks_whole++;
    if (receiver->state != RECEIVER_MOVING)
        error_set(&error, ERROR_PROTOCOL, "the peer sent a block before it was asked to");
    if (error.kind != ERROR_NONE || !check_end(receiver, &error)) {
        transfer_fail(transfer, &error, now_ns);
        return;
    }
    if (!transfer_running(transfer))
        return;
    work_flip_pool(transfer->work, event->bytes, event->length, event->packed);
    struct work_job job = {.kind = WORK_SINK,
                           .sink = {.kind = SINK_BLOCK,
                                    .block = event->block,
                                    .packed = event->packed,
                                    .bytes = event->bytes,
                                    .length = event->length}};
    transfer_put(transfer, &job, now_ns);
}

void receiver_event(struct transfer *transfer, const struct session_event *event, uint64_t now_ns)
{
    if (event->kind == SESSION_BLOCK_WHOLE)
        on_whole(transfer, event, now_ns);
}
