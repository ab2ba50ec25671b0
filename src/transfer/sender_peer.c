#include <stdlib.h>
#include <string.h>

#include "transfer/sender_internal.h"

#define ANSWERS_MAX 65536u /* ANSWER and HASHES messages that wait for the disk side */

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
    if (!sender_move(transfer->sender, SENDER_OPENING, error) ||
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
    if (!sender_move(transfer->sender, SENDER_MOVING, error))
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

bool sender_message(struct transfer *transfer, const struct message *message, uint64_t now_ns,
                    struct error *error)
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
    sender_move(sender, SENDER_DONE, &error);
    if (removes_source(transfer))
        transfer_put(transfer, &(struct work_job){.kind = WORK_REMOVE}, now_ns);
    transfer->progress.phase = PHASE_FINISHING;
    if (event->result == 1 && transfer->progress.files_failed == 0)
        transfer->progress.files_failed = 1;
}

void sender_event(struct transfer *transfer, const struct session_event *event, uint64_t now_ns)
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
