#include "tree/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/aligned.h"
#include "base/units.h"
#include "tree/sink_internal.h"
#include "tree/squeeze.h"

uint64_t sink_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- reports ---- */

bool sink_fail(struct file_sink *sink, const struct error *error)
{
    if (sink->has_failed)
        return false;
    sink->has_failed = true;
    struct sink_report report = {.kind = SINK_FAILED, .error = *error};
    sink->emit(sink->context, &report);
    return false;
}

bool sink_fail_protocol(struct file_sink *sink, const char *text)
{
    struct error error = {0};
    error_set(&error, ERROR_PROTOCOL, "%s", text);
    return sink_fail(sink, &error);
}

bool sink_fail_memory(struct file_sink *sink)
{
    struct error error = {0};
    error_set(&error, ERROR_MEMORY, "out of memory at the destination");
    return sink_fail(sink, &error);
}

void sink_file_skipped(struct file_sink *sink, const char *path, uint64_t size, const uint8_t *hash)
{
    sink->files_skipped++;
    struct sink_report report = {.kind = SINK_FILE_SKIPPED, .path = path, .size = size};
    if (hash != NULL)
        memcpy(report.hash, hash, sizeof report.hash);
    sink->emit(sink->context, &report);
}

void sink_file_failed(struct file_sink *sink, const char *path, bool is_file,
                      const struct error *error)
{
    if (error->kind == ERROR_NO_SPACE) { /* the next file finds no room either */
        struct error full = {0};
        error_set(&full, ERROR_NO_SPACE,
                  "%.200s: %.120s; make room there and run the same again: it goes on from here",
                  path, error->text);
        sink->is_full = true;
        sink_fail(sink, &full);
        return;
    }
    sink->failures++;
    sink->files_failed += is_file;
    struct sink_report report = {.kind = SINK_FILE_FAILED, .path = path, .error = *error};
    sink->emit(sink->context, &report);
}

void sink_file_done(struct file_sink *sink, const char *path, uint64_t size, const uint8_t *hash)
{
    sink->files_done++;
    struct sink_report report = {.kind = SINK_FILE_DONE, .path = path, .size = size};
    memcpy(report.hash, hash, sizeof report.hash);
    sink->emit(sink->context, &report);
}

void sink_lost(struct file_sink *sink, enum loss loss)
{
    sink->losses[loss]++;
}

bool sink_cannot_hold(int os_errno)
{
    return os_errno == EPERM || os_errno == EOPNOTSUPP || os_errno == ENOSYS || os_errno == EINVAL;
}

/* One line for each kind of thing that the destination could not hold. */
static void say_losses(struct file_sink *sink)
{
    static const char *const texts[LOSS_KINDS] = {
        [LOSS_MODE] = "could not be given their permissions: the destination has none such",
        [LOSS_TIME] = "could not be given their times: the destination refuses it",
        [LOSS_LINK] = "symbolic links are not there: the destination cannot hold them",
        [LOSS_SET_GROUP] = "directories lost their set-group-id bit, for their group is not copied",
        [LOSS_SET_ID] = "lost their set-user-id or set-group-id bit: it goes only with the owner",
        [LOSS_OWNER] = "do not have the owner or group that they should: only root may give them",
        [LOSS_EXTENDED] = "lost extended attributes, which the destination refuses",
        [LOSS_SPECIAL] = "devices, pipes or sockets could not be made: only root may make devices",
        [LOSS_HARD_LINK] = "became files of their own: the destination cannot link them",
        [LOSS_ACL] = "lost their access control list, which the destination refuses",
    };
    for (int i = 0; i < LOSS_KINDS; i++) {
        if (sink->losses[i] == 0)
            continue;
        struct sink_report report = {.kind = i >= LOSS_ASKED ? SINK_LOST : SINK_NOTE};
        error_set(&report.error, ERROR_PERMISSION, "%llu %s", (unsigned long long)sink->losses[i],
                  texts[i]);
        sink->emit(sink->context, &report);
    }
}

void sink_verified(struct file_sink *sink, uint64_t size)
{
    struct sink_report report = {.kind = SINK_VERIFIED, .size = size};
    sink->emit(sink->context, &report);
}

void sink_kept(struct file_sink *sink, uint64_t size)
{
    struct sink_report report = {.kind = SINK_KEPT, .size = size};
    sink->emit(sink->context, &report);
}

void sink_give_back(struct file_sink *sink, uint8_t *bytes)
{
    struct sink_report report = {.kind = SINK_BUFFER_FREE, .bytes = bytes};
    sink->emit(sink->context, &report);
}

/* ---- operations ---- */

struct file_sink *file_sink_new(void)
{
    struct file_sink *sink = calloc(1, sizeof *sink);
    if (sink == NULL)
        return NULL;
    sink->place.root = sink->place.reference = -1;
    for (size_t i = 0; i < DIRECTORIES_OPEN; i++)
        sink->directories[i].fd = -1;
    return sink;
}

void file_sink_set_list(struct file_sink *sink, struct file_list *list)
{
    sink->list = list;
}

void file_sink_set_batch(struct file_sink *sink, size_t files)
{
    sink->batch_files = files;
}

/* Temporary names are made of the final ones alone, so two processes must not write to one place
 * at once under the same names. Whoever does not get the lock (or where there are no locks) puts a
 * random number in. */
static void lock_root(struct file_sink *sink)
{
    if (sink->place.root < 0 || flock(sink->place.root, LOCK_EX | LOCK_NB) == 0)
        return;
    if (getrandom(&sink->salt, sizeof sink->salt, 0) != (ssize_t)sizeof sink->salt)
        sink->salt = sink_clock_ns();
    sink->salt |= 1;
}

/* A file that is not there may be half there, or there under another name: then it is offered, as
 * if it were. */
static bool may_have_some(struct file_sink *sink, size_t name)
{
    const char *prefix = sink->place.prefixes[name];
    struct stat status;
    char journal[TEMP_NAME_SIZE];
    if (sink->place.root < 0 || (sink->flags & TRANSFER_WHOLE) != 0)
        return false;
    if (sink->place.is_directory[name] || prefix[0] == '\0')
        return sink->place.reference >= 0;
    if (find_may_help(sink))
        return true;
    sink_journal_name(sink_large_temp_of(prefix), journal);
    return fstatat(sink->place.root, journal, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool sink_open(void *context, const struct transfer_request *request,
                      uint8_t *existing_bitmap, size_t bitmap_size, struct error *error)
{
    struct file_sink *sink = context;
    memset(existing_bitmap, 0, bitmap_size);
    if (bitmap_size * 8 < request->name_count)
        return error_set(error, ERROR_PROTOCOL, "no room to say which names exist");
    if (!place_open(&sink->place, request, error) ||
        !filter_copy(&sink->filter, &request->filter, error) ||
        !deletion_open(sink, request, error))
        return false;
    sink->flags = request->flags;
    sink->umask = umask(0);
    umask(sink->umask);
    sink->is_open = true;
    if (sink->batch_files == 0)
        sink->batch_files = batch_limit();
    if (!sink_is_dry(sink))
        lock_root(sink);
    for (size_t i = 0; i < sink->place.count; i++) {
        if (sink->place.existed[i] || may_have_some(sink, i) ||
            (sink->flags & TRANSFER_EXISTING) != 0)
            existing_bitmap[i / 8] |= (uint8_t)(1u << (i % 8));
    }
    return true;
}

/* Everything has arrived: what waits is finished, and the counts are compared. */
static void finish(struct file_sink *sink, const struct sink_job *job)
{
    if (sink->blocks != job->blocks) {
        sink_fail_protocol(sink, "other blocks came than the sender counted");
        return;
    }
    if (sink->orphan_count > 0 || sink->large_count > 0 || sink->stream != NULL) {
        sink_fail_protocol(sink, "the sender ended before its files were whole");
        return;
    }
    sink->end_waits = false;
    batch_flush(sink);
    if (sink->files_done + sink->files_skipped + sink->files_failed != job->files) {
        sink_fail_protocol(sink, "other files came than the sender counted");
        return;
    }
    sink_links_finish(sink);
    deletion_run(sink, job->problems);
    if (sink->has_failed)
        return;
    directory_finish(sink);
    if (!sink->has_failed && !sink_is_dry(sink))
        directory_sync(sink);
    if (sink->has_failed)
        return;
    say_losses(sink);
    sink->has_ended = true;
    struct sink_report report = {.kind = SINK_FINISHED,
                                 .files = sink->files_done + sink->files_skipped,
                                 .failures = sink->failures};
    sink->emit(sink->context, &report);
}

static void take_block(struct file_sink *sink, const struct sink_job *job)
{
    sink->blocks++;
    if (!job->packed && sink_is_dry(sink)) {
        sink_give_back(sink, job->bytes);
        sink_fail_protocol(sink, "content came in a dry run");
        return;
    }
    if (!job->packed) {
        large_block(sink, job->block, job->bytes, job->length);
        return;
    }
    sink_packed(sink, job->bytes, job->length, job->block);
    sink_give_back(sink, job->bytes);
}

/* After every piece of work: what has waited long enough is done. */
static void tidy(struct file_sink *sink)
{
    if (!sink->has_failed && !sink_is_stopped(sink))
        batch_step(sink);
    large_flush_journals(sink, false);
    if (sink->has_failed) { /* buffers kept for their entries go home */
        for (size_t i = 0; i < sink->orphan_count; i++)
            sink_give_back(sink, sink->orphans[i].bytes);
        sink->orphan_count = 0;
    }
}

/* Before much has come: whether all of it can. */
static void check_room(struct file_sink *sink, uint64_t size)
{
    struct statvfs space;
    struct error error = {0};
    char room[24], wanted[24];
    if (sink->place.root < 0 || (sink->flags & (TRANSFER_DRY_RUN | TRANSFER_SPARSE)) != 0 ||
        fstatvfs(sink->place.root, &space) != 0 || space.f_frsize == 0 || space.f_blocks == 0)
        return;
    uint64_t available = (uint64_t)space.f_bavail * space.f_frsize;
    if (size <= sink->taken || size - sink->taken <= available)
        return;
    error_set(&error, ERROR_NO_SPACE,
              "the destination has room for %s, and %s are to come; make room there, or copy less",
              format_size(room, sizeof room, available), format_size(wanted, sizeof wanted, size));
    sink_fail(sink, &error);
}

static void sink_accept(void *context, const struct sink_job *job, sink_emit *emit,
                        void *emit_context)
{
    struct file_sink *sink = context;
    sink->emit = emit;
    sink->context = emit_context;
    sink->stop = job->stop;
    if (sink->has_failed || !sink->is_open || sink->has_ended) {
        if (job->kind == SINK_BLOCK)
            sink_give_back(sink, job->bytes);
        return;
    }
    switch (job->kind) {
    case SINK_BLOCK:
        take_block(sink, job);
        break;
    case SINK_COMPLETE:
        large_complete(sink, job->file_id, job->size, job->hash);
        break;
    case SINK_WITHDRAW:
        large_withdraw(sink, job->file_id, &job->error);
        break;
    case SINK_KEEP:
        keep_blocks(sink, job);
        break;
    case SINK_HOLES:
        holes_take(sink, job);
        break;
    case SINK_FORGET:
        holding_forget(sink, job->block, job->entry);
        break;
    case SINK_TOTALS:
        check_room(sink, job->size);
        break;
    case SINK_END:
        sink->end = *job;
        sink->end_waits = keep_is_pending(sink) || holes_are_pending(sink);
        if (!sink->end_waits)
            finish(sink, job);
        break;
    }
    tidy(sink);
}

/* Answers come first: they are what the sender waits for. */
static bool work_once(struct file_sink *sink)
{
    sink->turn = !sink->turn;
    return offer_work(sink) || (sink->turn && keep_work(sink)) || holding_work(sink) ||
           keep_work(sink) || holes_work(sink);
}

static bool sink_work(void *context, const atomic_bool *stop, sink_emit *emit, void *emit_context)
{
    struct file_sink *sink = context;
    sink->emit = emit;
    sink->context = emit_context;
    sink->stop = stop;
    if (sink->has_failed || !sink->is_open || sink->has_ended)
        return false;
    bool worked = work_once(sink);
    if (!worked)
        large_flush_journals(sink, true); /* nothing else to do: why wait */
    if (worked && sink->end_waits && !sink->has_failed && !keep_is_pending(sink) &&
        !holes_are_pending(sink))
        finish(sink, &sink->end);
    tidy(sink);
    return worked;
}

static void ignore_report(void *context, const struct sink_report *report)
{
    (void)context;
    (void)report;
}

static void sink_close(void *context)
{
    struct file_sink *sink = context;
    sink->emit = ignore_report; /* nobody listens any more */
    large_discard_all(sink);
    offer_discard_all(sink);
    ahead_close(sink);
    if (sink->is_full) /* what is whole has its room */
        batch_flush(sink);
    batch_discard(sink);
    sync_close(sink);
    if (sink->is_open && !sink->has_ended)
        directory_finish(sink);
    directory_close(sink);
    stream_discard(sink);
    deletion_close(sink);
    sink_links_close(sink);
    sink_forget_directories(sink);
    find_close(sink);
    place_close(&sink->place);
    owner_names_free(sink->owners);
    free(sink->room);
    filter_release(&sink->filter);
    free(sink->admitted);
    aligned_free(sink->block);
    aligned_free(sink->unsqueezed);
    squeezer_free(sink->squeezer);
    free(sink);
}

const struct sink_ops file_sink_ops = {
    .open = sink_open,
    .accept = sink_accept,
    .work = sink_work,
    .close = sink_close,
};
