#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "copy.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/aligned.h"
#include "base/block.h"
#include "base/random.h"
#include "tree/pack.h"

enum event_kind {
    EVENT_BLOCK,
    EVENT_COMPLETE,
    EVENT_WITHDRAW,
    EVENT_KEEP,
    EVENT_FORGET,
    EVENT_ANSWER,
    EVENT_HASHES
};

struct event {
    enum event_kind kind;
    struct source_item item;
    uint8_t *bytes;
    uint8_t *verdicts; /* of an answer; the hashes of a piece */
    size_t verdict_count;
    struct hash_piece piece;
};

struct run {
    struct copy *copy;
    struct file_source *source;
    struct file_sink *sink;
    struct random random;
    struct event *events;
    size_t event_count;
    uint8_t *delivered; /* a bit for each block number up to a limit */
    size_t buffers;     /* with the sink */
    uint64_t unanswered, jobs, content;
    bool totals_said;
};

#define BLOCKS_TRACKED 65536
#define EVENTS_MAX 4096

static void log_report(struct copy *copy, const struct sink_report *report)
{
    if (copy->line_count == COPY_LOG)
        return;
    struct copy_line *line = &copy->lines[copy->line_count++];
    *line =
        (struct copy_line){.kind = report->kind, .size = report->size, .error = report->error.kind};
    memcpy(line->hash, report->hash, sizeof line->hash);
    snprintf(line->path, sizeof line->path, "%s", report->path != NULL ? report->path : "");
    snprintf(line->text, sizeof line->text, "%s", report->error.text);
}

static void log_problem(struct copy *copy, const struct source_item *item)
{
    struct sink_report report = {
        .kind = SINK_FILE_FAILED, .path = item->path, .error = item->error};
    log_report(copy, &report);
}

static void queue_answer(struct run *run, const struct sink_report *report)
{
    assert_true(run->event_count < EVENTS_MAX);
    struct event *event = &run->events[run->event_count++];
    *event = (struct event){.kind = EVENT_ANSWER, .verdict_count = report->length};
    event->item.block = report->block;
    event->verdicts = malloc(report->length + 1);
    memcpy(event->verdicts, report->bytes, report->length);
}

static void queue_hashes(struct run *run, const struct hash_piece *piece)
{
    size_t size = 32 * (size_t)__builtin_popcountll(piece->present);
    assert_true(run->event_count < EVENTS_MAX);
    assert_true(piece->count <= HASH_PIECE_BLOCKS);
    struct event *event = &run->events[run->event_count++];
    *event = (struct event){.kind = EVENT_HASHES, .piece = *piece};
    event->verdicts = malloc(size + 1);
    if (size > 0)
        memcpy(event->verdicts, piece->hashes, size);
    event->piece.hashes = event->verdicts;
}

static void on_report(void *context, const struct sink_report *report)
{
    struct run *run = context;
    struct copy *copy = run->copy;
    assert_false(copy->finished);
    switch (report->kind) {
    case SINK_BUFFER_FREE:
        aligned_free(report->bytes);
        assert_true(run->buffers-- > 0);
        return;
    case SINK_ANSWER:
        queue_answer(run, report);
        return;
    case SINK_HASHES:
        queue_hashes(run, &report->piece);
        copy->hashes += (uint64_t)__builtin_popcountll(report->piece.present);
        return;
    case SINK_KEPT:
        copy->kept_bytes += report->size;
        return;
    case SINK_VERIFIED:
        copy->verified_bytes += report->size;
        return;
    case SINK_FILE_DONE:
        copy->done++;
        break;
    case SINK_FILE_SKIPPED:
        copy->skipped++;
        break;
    case SINK_DELETED:
        copy->deleted++;
        break;
    case SINK_FILE_FAILED:
        assert_int_not_equal(report->error.kind, ERROR_NONE);
        assert_true(report->error.text[0] != '\0');
        copy->failures++;
        break;
    case SINK_FINISHED:
        copy->finished = true;
        copy->finished_files = report->files;
        assert_int_equal(report->failures, copy->failures);
        return;
    case SINK_FAILED:
        assert_false(copy->failed);
        copy->failed = true;
        copy->error = report->error;
        return;
    case SINK_NOTE:
        assert_int_not_equal(report->error.kind, ERROR_NONE);
        snprintf(copy->note, sizeof copy->note, "%.*s", (int)sizeof copy->note - 1,
                 report->error.text);
        return;
    default:
        break;
    }
    log_report(copy, report);
}

/* Which events travel in one stream of messages: those come in order. */
static int stream_of(enum event_kind kind)
{
    return kind == EVENT_BLOCK ? 0 : kind == EVENT_ANSWER || kind == EVENT_HASHES ? 1 : 2;
}

/* What the transfer promises: COMPLETE and its like never come before the entry. */
static bool may_come(const struct run *run, const struct event *event)
{
    int stream = stream_of(event->kind);
    for (const struct event *before = run->events; stream != 0 && before < event; before++) {
        if (stream_of(before->kind) == stream)
            return false;
    }
    if (stream != 2 || event->kind == EVENT_FORGET)
        return true;
    assert_true(event->item.has_entry_block);
    uint32_t block = event->item.entry_block;
    return block >= BLOCKS_TRACKED || run->delivered[block] != 0;
}

static void to_sink(struct run *run, struct event *event)
{
    struct copy *copy = run->copy;
    struct sink_job job = {.block = event->item.block,
                           .packed = event->item.packed,
                           .bytes = event->bytes,
                           .length = event->item.length,
                           .file_id = event->item.file_id,
                           .size = event->item.size,
                           .error = event->item.error};
    memcpy(job.hash, event->item.hash, sizeof job.hash);
    if (event->kind == EVENT_BLOCK) {
        job.kind = SINK_BLOCK;
        run->buffers++;
        run->jobs++;
        run->content += !job.packed;
        if (job.block < BLOCKS_TRACKED) {
            assert_int_equal(run->delivered[job.block], 0); /* no number is given twice */
            run->delivered[job.block] = 1;
        }
        if (copy->on_block != NULL)
            copy->on_block(copy->context, job.bytes, job.length, job.packed);
    } else if (event->kind == EVENT_KEEP) {
        job.kind = SINK_KEEP;
        job.block = event->item.first;
        job.length = event->item.count;
        job.kept = event->item.kept;
        copy->kept += (uint64_t)__builtin_popcountll(job.kept);
    } else if (event->kind == EVENT_FORGET) {
        job.kind = SINK_FORGET;
        job.entry = event->item.entry;
    } else {
        job.kind = event->kind == EVENT_COMPLETE ? SINK_COMPLETE : SINK_WITHDRAW;
    }
    file_sink_ops.accept(run->sink, &job, on_report, run);
}

static void deliver(struct run *run, size_t index)
{
    struct event event = run->events[index];
    memmove(run->events + index, run->events + index + 1,
            (run->event_count - index - 1) * sizeof event);
    run->event_count--;
    if (stream_of(event.kind) != 1) {
        to_sink(run, &event);
        return;
    }
    struct error error = {0};
    if (event.kind == EVENT_HASHES)
        assert_true(file_source_ops.hashes(run->source, &event.piece, &error));
    else
        assert_true(file_source_ops.answer(run->source, event.item.block, event.verdicts,
                                           event.verdict_count, &error));
    free(event.verdicts);
}

static bool sink_works(struct run *run)
{
    return !run->copy->failed && file_sink_ops.work(run->sink, NULL, on_report, run);
}

static void deliver_one(struct run *run)
{
    size_t index = 0;
    while (run->copy->seed == 0 && sink_works(run))
        ;
    if (run->copy->seed != 0) {
        for (uint64_t i = random_below(&run->random, 4); i > 0 && sink_works(run); i--)
            ;
        index = (size_t)random_below(&run->random, run->event_count);
    }
    if (run->copy->failed)
        return;
    while (!may_come(run, &run->events[index]))
        index = (index + 1) % run->event_count;
    deliver(run, index);
}

static void queue(struct run *run, enum event_kind kind, const struct source_item *item,
                  uint8_t *bytes)
{
    assert_true(run->event_count < EVENTS_MAX);
    run->events[run->event_count++] = (struct event){.kind = kind, .item = *item, .bytes = bytes};
}

static void count_block(struct copy *copy, const struct source_item *item, const uint8_t *bytes)
{
    assert_true(item->length > 0 && item->length <= BLOCK_SIZE);
    if (!item->packed)
        copy->content++;
    else if (bytes[0] == PACK_OFFER)
        copy->offers++;
    else
        copy->packed++;
}

/* One step of the source. False at its end. */
static bool step(struct run *run, uint64_t *blocks, uint64_t *files)
{
    struct copy *copy = run->copy;
    struct source_item item;
    uint8_t *buffer = aligned_new(BLOCK_SIZE, 4096);
    if (copy->before_step != NULL)
        copy->before_step(copy->context, copy->content + copy->packed + copy->offers);
    enum source_result result = file_source_ops.next(run->source, buffer, &item);
    copy->total_files = item.total_files;
    copy->total_bytes = item.total_bytes;
    copy->totals_final = item.totals_final;
    if (item.totals_final && !run->totals_said) {
        struct sink_job totals = {.kind = SINK_TOTALS, .size = item.new_bytes};
        run->totals_said = true;
        file_sink_ops.accept(run->sink, &totals, on_report, run);
    }
    if (result == SOURCE_BLOCK) {
        count_block(copy, &item, buffer);
        queue(run, EVENT_BLOCK, &item, buffer);
        return true;
    }
    aligned_free(buffer);
    switch (result) {
    case SOURCE_COMPLETE:
        queue(run, EVENT_COMPLETE, &item, NULL);
        break;
    case SOURCE_WITHDRAW: /* the sink reports it */
        copy->withdrawn++;
        copy->problem = item.error;
        queue(run, EVENT_WITHDRAW, &item, NULL);
        break;
    case SOURCE_PROBLEM:
        copy->problems++;
        assert_non_null(item.path);
        copy->problem = item.error;
        log_problem(copy, &item);
        break;
    case SOURCE_KEEP:
        queue(run, EVENT_KEEP, &item, NULL);
        break;
    case SOURCE_FORGET:
        queue(run, EVENT_FORGET, &item, NULL);
        copy->forgotten++;
        break;
    case SOURCE_AGAIN:
        break;
    case SOURCE_WAIT:
        if (!sink_works(run))
            assert_true(run->event_count > 0);
        if (run->event_count > 0 && !copy->failed)
            deliver_one(run);
        break;
    case SOURCE_FAILED:
        copy->failed = true;
        copy->error = item.error;
        return false;
    default:
        *blocks = item.blocks;
        *files = item.files;
        return false;
    }
    return true;
}

static void end(struct run *run, uint64_t blocks, uint64_t files)
{
    struct sink_job job = {.kind = SINK_END,
                           .blocks = blocks,
                           .files = files,
                           .problems = run->copy->problems + run->copy->failures +
                                       run->copy->problems_told};
    assert_int_equal(blocks, run->jobs);
    file_sink_ops.accept(run->sink, &job, on_report, run);
    while (sink_works(run))
        ;
    assert_true(run->copy->finished != run->copy->failed);
    assert_int_equal(run->buffers, 0);
    if (run->copy->finished)
        assert_int_equal(run->copy->finished_files, run->copy->done + run->copy->skipped);
}

static bool is_stopped(const struct run *run)
{
    bool stopped = run->copy->stop_at != 0 && run->content >= run->copy->stop_at;
    if (stopped && run->copy->on_kill)
        raise(SIGKILL);
    return stopped;
}

static void move_blocks(struct run *run)
{
    struct copy *copy = run->copy;
    size_t window = copy->seed == 0 ? 0 : copy->window != 0 ? copy->window : 24;
    uint64_t blocks = 0, files = 0;
    bool more = true;
    while ((more || run->event_count > 0) && !copy->failed && !is_stopped(run)) {
        if (more)
            more = step(run, &blocks, &files);
        while (run->event_count > (more ? window : 0) && !copy->failed && !is_stopped(run))
            deliver_one(run);
    }
    if (!copy->failed && !copy->stop_before_end && !is_stopped(run))
        end(run, blocks, files);
    for (size_t i = 0; i < run->event_count; i++) {
        free(run->events[i].verdicts);
        aligned_free(run->events[i].bytes);
    }
}

static void add_rules(const struct copy *copy, struct transfer_request *request)
{
    struct filter filter = {0};
    struct filter_merge merge;
    for (size_t i = 0; copy->rules != NULL && copy->rules[i] != NULL; i++)
        assert_true(filter_parse(&filter, FILTER_FORM_RULE, copy->rules[i], &merge, NULL));
    transfer_request_take_filter(request, &filter);
}

static struct file_list *make_list(const struct copy *copy)
{
    struct file_list *list = file_list_new();
    for (size_t i = 0; copy->listed[i] != NULL; i++)
        assert_true(file_list_add(list, copy->listed[i], strlen(copy->listed[i]), NULL));
    assert_true(file_list_finish(list, true, NULL));
    return list;
}

/* A pull's list comes in pieces of an odd size. */
static void tell_list(const struct copy *copy, struct file_source *source)
{
    struct file_list *list = make_list(copy);
    uint64_t offset = 0;
    uint8_t bytes[7];
    ptrdiff_t size;
    do {
        size = file_list_read(list, offset, bytes, sizeof bytes, NULL);
        assert_true(size >= 0);
        assert_true(file_source_ops.list(source, bytes, (size_t)size, NULL));
        offset += (uint64_t)size;
    } while (size > 0);
    assert_false(file_source_ops.list(source, bytes, 1, NULL));
    file_list_free(list);
}

/* A pull: the far end expands the request, its names are checked against it. */
static struct file_source *open_pull(struct copy *copy, struct transfer_request *names)
{
    struct transfer_request asked = {.flags = copy->flags}, none = {0};
    if (copy->listed != NULL && !copy->sender_ignores_rules)
        asked.flags |= TRANSFER_FILES_FROM;
    for (size_t i = 0; i < copy->path_count; i++)
        assert_true(transfer_request_add(&asked, copy->paths[i], false));
    if (!copy->sender_ignores_rules)
        add_rules(copy, &asked);
    struct file_source *source = file_source_new_pull(&asked, &copy->error);
    const struct transfer_request *found = source != NULL ? file_source_ops.names(source) : &none;
    assert_true(transfer_request_admits(&asked, found, &copy->error));
    for (size_t i = 0; i < found->name_count; i++)
        transfer_request_add(names, found->names[i], found->name_is_directory[i]);
    if (source != NULL && (asked.flags & TRANSFER_FILES_FROM) != 0)
        tell_list(copy, source);
    transfer_request_release(&asked);
    return source;
}

void copy_run(struct copy *copy)
{
    struct run run = {.copy = copy};
    struct transfer_request request = {.flags = copy->flags, .max_delete = copy->max_delete};
    uint8_t bitmap[REQUEST_PATHS_MAX / 8];
    if (!copy->sender_ignores_rules)
        add_rules(copy, &request);
    run.source = copy->pull
                     ? open_pull(copy, &request)
                     : file_source_new_push(copy->paths, copy->path_count, &request, &copy->error);
    if (run.source == NULL) {
        copy->failed = true;
        transfer_request_release(&request);
        return;
    }
    add_rules(copy, &request);
    request.destination = strdup(copy->destination);
    if (copy->reference != NULL) {
        request.flags |= TRANSFER_REFERENCE;
        request.reference = strdup(copy->reference);
    }
    run.sink = file_sink_new();
    if (copy->batch_files > 0)
        file_sink_set_batch(run.sink, copy->batch_files);
    struct file_list *list = copy->listed != NULL ? make_list(copy) : NULL;
    if (list != NULL)
        file_sink_set_list(run.sink, list);
    if (list != NULL && !copy->pull)
        assert_true(file_source_set_list(run.source, list, NULL));
    size_t size = (request.name_count + 7) / 8;
    copy->opened = file_sink_ops.open(run.sink, &request, bitmap, size, &copy->error);
    transfer_request_release(&request);
    if (copy->opened) {
        run.events = calloc(EVENTS_MAX, sizeof *run.events);
        run.delivered = calloc(BLOCKS_TRACKED, 1);
        random_seed(&run.random, copy->seed);
        file_source_ops.set_existing(run.source, bitmap, size);
        move_blocks(&run);
        free(run.events);
        free(run.delivered);
    }
    file_source_ops.close(run.source);
    file_sink_ops.close(run.sink);
    file_list_free(list);
}

const struct copy_line *copy_line_of(const struct copy *copy, const char *path)
{
    const struct copy_line *found = NULL;
    for (size_t i = 0; i < copy->line_count; i++) {
        if (strcmp(copy->lines[i].path, path) == 0)
            found = &copy->lines[i];
    }
    return found;
}
