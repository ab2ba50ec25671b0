#include "tree/pipe_sink.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crypto/tree_hash.h"
#include "tree/pack.h"

#define WAIT_MS 100
#define WAITING_MAX 4096u /* blocks that came before their turn; credit is far less */

struct waiting {
    uint32_t block, length;
    uint8_t *bytes;
};

struct pipe_sink {
    int fd;
    bool is_open, has_entry, has_result, has_failed, end_known, finished;
    char *name;
    struct entry entry;   /* without what it borrows */
    uint32_t count, next; /* blocks; the next to write */
    struct waiting waiting[WAITING_MAX];
    size_t waiting_count;
    uint8_t *small; /* the file's bytes when it came in its entry */
    size_t small_size;
    const uint8_t *at; /* being written */
    size_t left;
    uint8_t *returned; /* the block that is given back when `left` is 0, NULL */
    uint64_t complete_size;
    uint8_t result[TREE_HASH_SIZE];
    struct tree_hash *hash;
    struct sink_job end;
    uint64_t blocks;
    sink_emit *emit;
    void *context;
};

struct pipe_sink *pipe_sink_new(int fd)
{
    struct pipe_sink *sink = calloc(1, sizeof *sink);
    if (sink != NULL)
        sink->fd = fd;
    return sink;
}

static bool fail(struct pipe_sink *sink, enum error_kind kind, const char *text)
{
    struct sink_report report = {.kind = SINK_FAILED};
    if (!sink->has_failed) {
        error_set(&report.error, kind, "%s", text);
        sink->emit(sink->context, &report);
    }
    sink->has_failed = true;
    return false;
}

static void give_back(struct pipe_sink *sink, uint8_t *bytes)
{
    struct sink_report report = {.kind = SINK_BUFFER_FREE, .bytes = bytes};
    sink->emit(sink->context, &report);
}

static bool pipe_open(void *context, const struct transfer_request *request,
                      uint8_t *existing_bitmap, size_t bitmap_size, struct error *error)
{
    struct pipe_sink *sink = context;
    memset(existing_bitmap, 0, bitmap_size);
    if (request->name_count != 1 || request->name_is_directory[0])
        return error_set(error, ERROR_USAGE, "standard output takes one file, and no directory");
    sink->name = strdup(request->names[0]);
    if (sink->name == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for a name");
    sink->is_open = true;
    return true;
}

/* ---- entries ---- */

static bool keep_small(struct pipe_sink *sink, const struct entry *entry)
{
    uint8_t hash[TREE_HASH_SIZE];
    tree_hash_whole(entry->bytes, (size_t)entry->size, hash);
    if (memcmp(hash, entry->hash, sizeof hash) != 0)
        return fail(sink, ERROR_VERIFY, "its bytes differ from their hash; copy it again");
    sink->small = malloc((size_t)entry->size + 1);
    if (sink->small == NULL)
        return fail(sink, ERROR_MEMORY, "no memory for the file");
    memcpy(sink->small, entry->bytes, (size_t)entry->size);
    memcpy(sink->result, hash, sizeof hash);
    sink->at = sink->small;
    sink->left = sink->small_size = (size_t)entry->size;
    sink->has_result = true;
    sink->complete_size = entry->size;
    return true;
}

static void take_packed(struct pipe_sink *sink, const struct sink_job *job)
{
    struct pack_reader *reader = malloc(sizeof *reader);
    struct entry entry, more;
    struct error error = {0};
    bool good = reader != NULL && !sink->has_entry &&
                pack_open(reader, job->bytes, job->length, 1, &error) &&
                reader->form == PACK_DELIVERY && pack_next(reader, &entry, &error) == PACK_ENTRY &&
                entry.path_size == 0 && (entry.kind == ENTRY_FILE || entry.kind == ENTRY_LARGE);
    if (!good) {
        fail(sink, error.kind != ERROR_NONE ? error.kind : ERROR_REFUSED,
             "the peer sent something else than the one file that was asked for");
        free(reader);
        return;
    }
    sink->has_entry = true;
    sink->entry = entry;
    if (entry.kind == ENTRY_FILE) {
        keep_small(sink, &entry);
    } else {
        sink->count = (uint32_t)pack_block_count(entry.size);
        sink->hash = tree_hash_new(entry.size);
        if (sink->hash == NULL)
            fail(sink, ERROR_MEMORY, "no memory to hash the file");
    }
    if (pack_next(reader, &more, &error) != PACK_END)
        fail(sink, ERROR_REFUSED, "the peer sent more than the one file that was asked for");
    free(reader);
}

static void take_content(struct pipe_sink *sink, const struct sink_job *job)
{
    if (sink->waiting_count == WAITING_MAX) {
        give_back(sink, job->bytes);
        fail(sink, ERROR_PROTOCOL, "too much content came before its turn");
        return;
    }
    sink->waiting[sink->waiting_count++] =
        (struct waiting){.block = job->block, .length = job->length, .bytes = job->bytes};
}

/* ---- writing ---- */

static bool block_fits(const struct pipe_sink *sink, const struct waiting *waiting)
{
    uint64_t left = sink->entry.size - (uint64_t)sink->next * BLOCK_SIZE;
    return waiting->length == (left < BLOCK_SIZE ? left : BLOCK_SIZE);
}

static bool hash_block(struct pipe_sink *sink, const struct waiting *waiting)
{
    uint8_t hash[TREE_HASH_SIZE];
    if (sink->count == 1)
        tree_hash_whole(waiting->bytes, waiting->length, hash);
    else
        tree_hash_block(waiting->bytes, waiting->length, sink->next, hash);
    return tree_hash_add(sink->hash, sink->next, hash);
}

/* The next block in order, if it is there. */
static bool begin_block(struct pipe_sink *sink)
{
    if (!sink->has_entry || sink->next == sink->count)
        return false;
    for (size_t i = 0; i < sink->waiting_count; i++) {
        struct waiting waiting = sink->waiting[i];
        if (waiting.block != sink->entry.first_block + sink->next)
            continue;
        sink->waiting[i] = sink->waiting[--sink->waiting_count];
        if (!block_fits(sink, &waiting) || !hash_block(sink, &waiting)) {
            give_back(sink, waiting.bytes);
            return fail(sink, ERROR_PROTOCOL, "a content block contradicts its entry");
        }
        sink->at = waiting.bytes;
        sink->left = waiting.length;
        sink->returned = waiting.bytes;
        sink->next++;
        return true;
    }
    return false;
}

/* Never more than a pipe takes at once without waiting. */
static bool write_some(struct pipe_sink *sink)
{
    struct pollfd ready = {.fd = sink->fd, .events = POLLOUT};
    int count = poll(&ready, 1, WAIT_MS);
    if (count == 0 || (count < 0 && errno == EINTR))
        return true;
    ssize_t n =
        count < 0 ? -1 : write(sink->fd, sink->at, sink->left < PIPE_BUF ? sink->left : PIPE_BUF);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n < 0) {
        struct error error = {0};
        error_set_errno(&error, errno, "standard output cannot be written to");
        return fail(sink, error.kind, error.text);
    }
    sink->at += n;
    sink->left -= (size_t)n;
    struct sink_report report = {.kind = SINK_VERIFIED, .size = (uint64_t)n};
    sink->emit(sink->context, &report);
    return true;
}

/* ---- the end ---- */

static void say_done(struct pipe_sink *sink)
{
    struct sink_report done = {
        .kind = SINK_FILE_DONE, .path = sink->name, .size = sink->complete_size};
    memcpy(done.hash, sink->result, sizeof done.hash);
    sink->emit(sink->context, &done);
    struct sink_report finished = {.kind = SINK_FINISHED, .files = 1};
    sink->emit(sink->context, &finished);
}

static void finish(struct pipe_sink *sink)
{
    uint8_t hash[TREE_HASH_SIZE];
    sink->finished = true;
    if (sink->blocks != sink->end.blocks || sink->end.files != 1 || !sink->has_result ||
        sink->waiting_count > 0 || sink->complete_size != sink->entry.size) {
        fail(sink, ERROR_PROTOCOL, "the sender ended before its file was whole");
        return;
    }
    if (sink->hash != NULL &&
        (!tree_hash_result(sink->hash, hash) || memcmp(hash, sink->result, sizeof hash) != 0)) {
        fail(sink, ERROR_VERIFY, "what was written differs from its hash; copy it again");
        return;
    }
    say_done(sink);
}

static bool pipe_work(void *context, const atomic_bool *stop, sink_emit *emit, void *emit_context)
{
    struct pipe_sink *sink = context;
    sink->emit = emit;
    sink->context = emit_context;
    (void)stop; /* no step takes long */
    if (sink->has_failed || sink->finished)
        return false;
    if (sink->left > 0)
        return write_some(sink);
    if (sink->returned != NULL) {
        give_back(sink, sink->returned);
        sink->returned = NULL;
        return true;
    }
    if (begin_block(sink))
        return true;
    if (!sink->end_known || sink->has_failed)
        return false;
    finish(sink);
    return true;
}

static void take_block(struct pipe_sink *sink, const struct sink_job *job)
{
    sink->blocks++;
    if (!job->packed) {
        take_content(sink, job);
        return;
    }
    take_packed(sink, job);
    give_back(sink, job->bytes);
}

static void pipe_accept(void *context, const struct sink_job *job, sink_emit *emit,
                        void *emit_context)
{
    struct pipe_sink *sink = context;
    sink->emit = emit;
    sink->context = emit_context;
    if (sink->has_failed || !sink->is_open || sink->finished) {
        if (job->kind == SINK_BLOCK)
            give_back(sink, job->bytes);
        return;
    }
    switch (job->kind) {
    case SINK_BLOCK:
        take_block(sink, job);
        break;
    case SINK_COMPLETE:
        memcpy(sink->result, job->hash, sizeof sink->result);
        sink->complete_size = job->size;
        sink->has_result = true;
        break;
    case SINK_WITHDRAW:
        fail(sink, job->error.kind, job->error.text);
        break;
    case SINK_TOTALS: /* whether it has room is for its reader to know */
        break;
    case SINK_END:
        sink->end = *job;
        sink->end_known = true;
        break;
    case SINK_KEEP:
    case SINK_HOLES:
    case SINK_FORGET:
        fail(sink, ERROR_PROTOCOL, "the peer speaks of blocks that standard output cannot have");
        break;
    }
}

/* What is still held goes home with the transfer. */
static void pipe_close(void *context)
{
    struct pipe_sink *sink = context;
    tree_hash_free(sink->hash);
    free(sink->small);
    free(sink->name);
    free(sink);
}

const struct sink_ops pipe_sink_ops = {
    .open = pipe_open, .accept = pipe_accept, .work = pipe_work, .close = pipe_close};
