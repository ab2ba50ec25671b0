#include "transfer/work.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "transfer/seam.h"
#include "tree/pack.h"

#define RING_SIZE (256u * 1024u)
#define HASH_SIZE 32u
#define WORK_TURN 3 /* jobs between two pieces of a sink's other work */
#define REPORT_TAIL_MAX (REQUEST_PATH_LIMIT + 1 + sizeof((struct error *)0)->text)

struct flip {
    enum flip_place place;
    uint32_t after;
};

struct work {
    /* Network side. */
    struct seam down;
    struct flip flip_pool;
    void (*wake_disk)(void *);
    void *disk_context;

    /* Disk side. */
    struct seam up;
    bool is_source, opened, started, exhausted, waiting, closed, reported;
    struct storage storage;
    work_open_function *open;
    void *open_context;
    uint8_t *empty[WORK_BUFFERS_MAX];
    unsigned empty_count;
    unsigned turn;
    struct flip flip_disk;
    void (*wake_network)(void *);
    void *network_context;

    /* Both. */
    atomic_bool stalled; /* the disk side waits for room in `up` */
    atomic_bool hurry;
    atomic_bool memory_gone; /* a report was lost for want of memory */
};

struct work *work_new(bool source, work_open_function *open, void *open_context)
{
    struct work *work = calloc(1, sizeof *work);
    if (work == NULL)
        return NULL;
    if (!seam_open(&work->down, RING_SIZE) || !seam_open(&work->up, RING_SIZE)) {
        seam_close(&work->down);
        seam_close(&work->up);
        free(work);
        return NULL;
    }
    work->is_source = source;
    work->open = open;
    work->open_context = open_context;
    return work;
}

static void close_storage(struct work *work)
{
    if (work->storage.source != NULL)
        work->storage.source_ops->close(work->storage.source);
    if (work->storage.sink != NULL)
        work->storage.sink_ops->close(work->storage.sink);
    work->storage = (struct storage){0};
}

static void free_job_bytes(const struct work_job *job)
{
    if (job->kind == WORK_EXISTING || job->kind == WORK_ANSWER || job->kind == WORK_HASHES ||
        job->kind == WORK_LIST || job->kind == WORK_FAILED)
        free(job->bytes);
}

static bool owns_bytes(const struct work_report *report)
{
    return report->kind == WORK_OPENED ||
           (report->kind == WORK_SINK_SAID &&
            (report->result == SINK_ANSWER || report->result == SINK_HASHES));
}

/* What still lies in the rings when nobody will read it any more. */
static void drop_messages(struct work *work)
{
    bool moved = true;
    while (moved) {
        moved = false;
        size_t size;
        const struct work_job *job;
        while ((job = ring_peek(work->down.ring, &size)) != NULL) {
            free_job_bytes(job);
            ring_release(work->down.ring);
        }
        const struct work_report *report;
        while ((report = ring_peek(work->up.ring, &size)) != NULL) {
            if (owns_bytes(report))
                free(report->bytes);
            ring_release(work->up.ring);
        }
        seam_flush(&work->down, &moved);
        seam_flush(&work->up, &moved);
    }
}

void work_free(struct work *work)
{
    if (work == NULL)
        return;
    close_storage(work);
    drop_messages(work);
    seam_close(&work->down);
    seam_close(&work->up);
    free(work);
}

void work_set_wakers(struct work *work, void (*wake_disk)(void *), void *disk_context,
                     void (*wake_network)(void *), void *network_context)
{
    work->wake_disk = wake_disk;
    work->disk_context = disk_context;
    work->wake_network = wake_network;
    work->network_context = network_context;
}

void work_set_flip(struct work *work, enum flip_place place, uint32_t after)
{
    struct flip flip = {.place = place, .after = after};
    if (place == FLIP_POOL)
        work->flip_pool = flip;
    else
        work->flip_disk = flip;
}

/* A byte of a file's content in a block; NULL where it holds entries only. */
static uint8_t *content_byte(uint8_t *bytes, uint32_t length, bool packed)
{
    if (!packed)
        return length > 0 ? bytes + length / 2 : NULL;
    struct pack_reader pack;
    struct entry entry;
    struct error error = {0};
    uint8_t *found = NULL;
    if (!pack_open(&pack, bytes, length, UINT32_MAX, &error))
        return NULL;
    while (pack_next(&pack, &entry, &error) == PACK_ENTRY) {
        if (entry.kind == ENTRY_FILE && entry.bytes != NULL && entry.size > 0)
            found = bytes + (entry.bytes - bytes) + entry.size / 2;
    }
    return found;
}

static void flip_once(struct flip *flip, enum flip_place place, uint8_t *bytes, uint32_t length,
                      bool packed)
{
    if (flip->place != place)
        return;
    uint8_t *byte = content_byte(bytes, length, packed);
    if (byte == NULL)
        return;
    if (flip->after > 0) {
        flip->after--;
        return;
    }
    *byte ^= 0x10;
    flip->place = FLIP_NONE;
}

void work_flip_pool(struct work *work, uint8_t *bytes, uint32_t length, bool packed)
{
    flip_once(&work->flip_pool, FLIP_POOL, bytes, length, packed);
}

/* ---- reports ---- */

const char *work_report_path(const struct work_report *report)
{
    return report->tail;
}

void work_report_error(const struct work_report *report, struct error *error)
{
    *error = (struct error){.kind = report->error_kind, .os_errno = report->os_errno};
    memcpy(error->text, report->tail + report->path_length + 1, report->text_length);
}

static void put_report(struct work *work, const struct work_report *fields, const char *path,
                       const struct error *error)
{
    size_t path_length = path != NULL ? strlen(path) : 0;
    size_t text_length = error != NULL ? strnlen(error->text, sizeof error->text - 1) : 0;
    if (path_length > REQUEST_PATH_LIMIT)
        path_length = REQUEST_PATH_LIMIT;
    size_t size = sizeof *fields + path_length + text_length + 2;
    struct work_report *report = seam_reserve(&work->up, size);
    if (report == NULL) {
        if (owns_bytes(fields))
            free(fields->bytes);
        atomic_store(&work->memory_gone, true);
        work->reported = true;
        return;
    }
    *report = *fields;
    report->path_length = (uint32_t)path_length;
    report->text_length = (uint32_t)text_length;
    report->error_kind = error != NULL ? error->kind : ERROR_NONE;
    report->os_errno = error != NULL ? error->os_errno : 0;
    if (path_length > 0)
        memcpy(report->tail, path, path_length);
    report->tail[path_length] = 0;
    if (text_length > 0)
        memcpy(report->tail + path_length + 1, error->text, text_length);
    report->tail[path_length + 1 + text_length] = 0;
    seam_commit(&work->up, size);
    work->reported = true;
}

/* NULL, and that is remembered, without memory. */
static uint8_t *copy_of(struct work *work, const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL)
        atomic_store(&work->memory_gone, true);
    else if (size > 0)
        memcpy(copy, bytes, size);
    return copy;
}

static void emit(void *context, const struct sink_report *said)
{
    struct work *work = context;
    struct work_report report = {.kind = WORK_SINK_SAID,
                                 .result = said->kind,
                                 .block = said->block,
                                 .bytes = said->bytes,
                                 .length = said->length,
                                 .size = said->size,
                                 .files = said->files,
                                 .failures = said->failures};
    memcpy(report.hash, said->hash, sizeof report.hash);
    if (said->kind == SINK_ANSWER)
        report.bytes = copy_of(work, said->bytes, said->length);
    if (said->kind == SINK_HASHES) {
        const struct hash_piece *piece = &said->piece;
        report.block = piece->offer;
        report.entry = piece->entry;
        report.first = piece->first;
        report.count = piece->count;
        report.kept = piece->present;
        report.length = HASH_SIZE * (uint32_t)bits_set(piece->present);
        report.bytes = copy_of(work, piece->hashes, report.length);
    }
    if (owns_bytes(&report) && report.bytes == NULL)
        return;
    put_report(work, &report, said->path, said->error.kind != ERROR_NONE ? &said->error : NULL);
}

/* ---- jobs on the disk side ---- */

static bool open_sink(struct work *work, const struct transfer_request *request,
                      struct work_report *report, struct error *error)
{
    size_t size = (request->name_count + 7) / 8;
    bool says = (request->flags & TRANSFER_SQUEEZE) != 0;
    uint8_t *bitmap = calloc(1, size + 1);
    if (bitmap == NULL)
        return error_set(error, ERROR_MEMORY, "out of memory for the destination");
    if (!work->storage.sink_ops->open(work->storage.sink, request, bitmap, size, error)) {
        free(bitmap);
        return false;
    }
    if (says)
        bitmap[size] = work->storage.reads_squeezed ? SQUEEZED_IS_READ : 0;
    report->bytes = bitmap;
    report->length = (uint32_t)(size + says);
    return true;
}

static void do_open(struct work *work, const struct transfer_request *request)
{
    struct error error = {0};
    struct work_report report = {.kind = WORK_OPENED};
    bool good = work->open(work->open_context, request, &work->storage, &error);
    if (!good)
        work->storage = (struct storage){0};
    if (good && !work->is_source)
        good = open_sink(work, request, &report, &error);
    if (!good) {
        error_set(&error, ERROR_IO, "the storage could not be opened");
        report.kind = WORK_OPEN_FAILED;
        put_report(work, &report, NULL, &error);
        return;
    }
    work->opened = true;
    report.names = work->storage.names;
    put_report(work, &report, NULL, NULL);
}

static void do_sink(struct work *work, const struct sink_job *job)
{
    if (!work->opened)
        return;
    if (atomic_load_explicit(&work->hurry, memory_order_relaxed))
        return;
    if (job->kind == SINK_BLOCK)
        flip_once(&work->flip_disk, FLIP_WRITE, job->bytes, job->length, job->packed);
    struct sink_job stoppable = *job;
    stoppable.stop = &work->hurry;
    work->storage.sink_ops->accept(work->storage.sink, &stoppable, emit, work);
}

static void do_answer(struct work *work, const struct work_job *job)
{
    struct error error = {0};
    work->waiting = false;
    if (!work->opened || work->storage.source_ops->answer(work->storage.source, job->block,
                                                          job->bytes, job->length, &error))
        return;
    error_set(&error, ERROR_PROTOCOL, "the peer's answer does not fit what was offered");
    put_report(work, &(struct work_report){.kind = WORK_ANSWER_BAD}, NULL, &error);
}

static void do_hashes(struct work *work, const struct work_job *job)
{
    struct error error = {0};
    struct hash_piece piece = job->piece;
    piece.hashes = job->bytes;
    work->waiting = false;
    const struct source_ops *ops = work->storage.source_ops;
    if (work->opened && ops->hashes != NULL && ops->hashes(work->storage.source, &piece, &error))
        return;
    error_set(&error, ERROR_PROTOCOL, "the peer told hashes that nobody asked for");
    put_report(work, &(struct work_report){.kind = WORK_ANSWER_BAD}, NULL, &error);
}

static void do_list(struct work *work, const struct work_job *job)
{
    struct error error = {0};
    const struct source_ops *ops = work->storage.source_ops;
    work->waiting = false;
    if (!work->opened ||
        (ops->list != NULL && ops->list(work->storage.source, job->bytes, job->length, &error)))
        return;
    error_set(&error, ERROR_PROTOCOL, "a list of files came that was not announced");
    put_report(work, &(struct work_report){.kind = WORK_ANSWER_BAD}, NULL, &error);
}

static void report_removal(void *context, const char *path, const struct error *error)
{
    struct work_report report = {.kind = WORK_NOT_REMOVED};
    put_report(context, &report, path, error);
}

static void do_remove(struct work *work)
{
    struct error error = {0};
    const struct source_ops *ops = work->storage.source_ops;
    if (work->opened && ops->remove != NULL &&
        !ops->remove(work->storage.source, report_removal, work, &error))
        report_removal(work, "", &error);
}

static void do_job(struct work *work, const struct work_job *job)
{
    switch (job->kind) {
    case WORK_OPEN:
        do_open(work, job->request);
        break;
    case WORK_EXISTING:
        if (work->opened) {
            work->storage.source_ops->set_existing(work->storage.source, job->bytes, job->length);
            work->started = true;
        }
        break;
    case WORK_BUFFER:
        assert(work->empty_count < WORK_BUFFERS_MAX);
        work->empty[work->empty_count++] = job->bytes;
        if (work->opened && work->storage.source_ops->path_rate != NULL)
            work->storage.source_ops->path_rate(work->storage.source, job->path_bps);
        break;
    case WORK_ANSWER:
        do_answer(work, job);
        break;
    case WORK_HASHES:
        do_hashes(work, job);
        break;
    case WORK_LIST:
        do_list(work, job);
        break;
    case WORK_FAILED:
        if (work->opened && work->storage.source_ops->failed != NULL)
            work->storage.source_ops->failed(work->storage.source, (const char *)job->bytes);
        break;
    case WORK_REMOVE:
        do_remove(work);
        break;
    case WORK_SINK:
        do_sink(work, &job->sink);
        break;
    case WORK_CLOSE:
        close_storage(work);
        work->closed = true;
        put_report(work, &(struct work_report){.kind = WORK_CLOSED}, NULL, NULL);
        break;
    }
    free_job_bytes(job);
}

static void step_source(struct work *work)
{
    struct source_item item = {0};
    uint8_t *buffer = work->empty[work->empty_count - 1];
    enum source_result result = work->storage.source_ops->next(work->storage.source, buffer, &item);
    struct work_report report = {.kind = WORK_SOURCE,
                                 .result = result,
                                 .packed = item.packed,
                                 .totals_final = item.totals_final,
                                 .has_entry_block = item.has_entry_block,
                                 .block = item.block,
                                 .entry_block = item.entry_block,
                                 .length = item.length,
                                 .entry = item.entry,
                                 .first = item.first,
                                 .count = item.count,
                                 .kept = item.kept,
                                 .file_id = item.file_id,
                                 .size = item.size,
                                 .blocks = item.blocks,
                                 .files = item.files,
                                 .total_files = item.total_files,
                                 .new_bytes = item.new_bytes,
                                 .total_bytes = item.total_bytes};
    memcpy(report.hash, item.hash, sizeof report.hash);
    if (result == SOURCE_BLOCK) {
        report.bytes = buffer;
        work->empty_count--;
        flip_once(&work->flip_disk, FLIP_READER, buffer, item.length, item.packed);
    }
    work->waiting = result == SOURCE_WAIT;
    work->exhausted = result == SOURCE_END || result == SOURCE_FAILED;
    if (result == SOURCE_AGAIN)
        return;
    bool speaks = result == SOURCE_WITHDRAW || result == SOURCE_PROBLEM || result == SOURCE_NOTE ||
                  result == SOURCE_LOST || result == SOURCE_FAILED;
    put_report(work, &report, item.path, speaks ? &item.error : NULL);
}

static bool source_can_run(const struct work *work)
{
    return work->started && !work->exhausted && !work->waiting && work->empty_count > 0;
}

/* What a sink has to do besides jobs goes on while none is there, and now and then among them, so
 * that neither waits for the whole of the other. */
static bool step_sink(struct work *work, bool has_job)
{
    const struct sink_ops *ops = work->storage.sink_ops;
    if (!work->opened || work->storage.sink == NULL || ops->work == NULL ||
        (has_job && ++work->turn % WORK_TURN != 0) ||
        atomic_load_explicit(&work->hurry, memory_order_relaxed))
        return false;
    return ops->work(work->storage.sink, &work->hurry, emit, work);
}

/* Moves reports that wait. When some have to stay, the network side is asked to wake us: the flag
 * goes up before the last look, so that room made in between is not missed. */
static bool make_room(struct work *work)
{
    bool moved = false;
    if (seam_flush(&work->up, &moved))
        return true;
    atomic_store(&work->stalled, true);
    return seam_flush(&work->up, &moved);
}

enum work_result work_step(struct work *work)
{
    if (!make_room(work)) {
        if (work->wake_network != NULL)
            work->wake_network(work->network_context);
        return WORK_IDLE;
    }
    if (work->closed)
        return WORK_ENDED;
    size_t size;
    const struct work_job *job = ring_peek(work->down.ring, &size);
    if (step_sink(work, job != NULL)) {
        /* the job's turn comes next */
    } else if (job != NULL) {
        do_job(work, job);
        ring_release(work->down.ring);
    } else if (source_can_run(work)) {
        step_source(work);
    } else {
        return WORK_IDLE;
    }
    if (work->reported && work->wake_network != NULL)
        work->wake_network(work->network_context);
    work->reported = false;
    return WORK_DID;
}

/* ---- the network side ---- */

bool work_put(struct work *work, const struct work_job *job)
{
    struct work_job *space = seam_reserve(&work->down, sizeof *job);
    if (space == NULL)
        return false;
    *space = *job;
    seam_commit(&work->down, sizeof *job);
    if (work->wake_disk != NULL)
        work->wake_disk(work->disk_context);
    return true;
}

size_t work_backlog(const struct work *work)
{
    return work->down.waiting_count;
}

void work_hurry(struct work *work)
{
    atomic_store(&work->hurry, true);
}

const struct work_report *work_peek(struct work *work)
{
    size_t size;
    return ring_peek(work->up.ring, &size);
}

void work_release(struct work *work)
{
    ring_release(work->up.ring);
}

bool work_memory_gone(const struct work *work)
{
    return atomic_load_explicit(&work->memory_gone, memory_order_relaxed);
}

bool work_flush(struct work *work)
{
    bool moved = false;
    seam_flush(&work->down, &moved);
    if (moved || atomic_exchange(&work->stalled, false)) {
        if (work->wake_disk != NULL)
            work->wake_disk(work->disk_context);
    }
    return moved;
}
