/* The simulated sink: checks what comes against what the source must have made, and keeps a log of
 * one entry, the first broken promise. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/range_set.h"
#include "crypto/tree_hash.h"
#include "lab/sim_told.h"
#include "tree/pack.h"

#define HELD_MAX 40u /* the 32 MiB of the protocol, and a few that were under way */
#define NO_LARGE UINT32_MAX

enum file_state { FILE_UNSEEN, FILE_OFFERED, FILE_OPEN, FILE_DONE, FILE_SKIPPED, FILE_FAILED };

struct large {
    uint64_t id, size;
    uint32_t file, first;
    uint64_t block_count, received;
    struct tree_hash *hash;
    bool as_made; /* every block held what the source made */
    bool complete, over;
    uint8_t promised[TREE_HASH_SIZE];
};

struct sim_sink {
    struct sim_sink_config config;
    struct sim_sink_result result;
    uint8_t *states;
    struct range_set seen; /* block numbers */
    struct large *large;   /* ascending by `first` and by id */
    size_t large_count, large_capacity;
    struct sink_job held[HELD_MAX];
    uint32_t held_count;
    struct sim_teller *teller;
    uint8_t *expected; /* one block */
    sink_emit *emit;
    void *emit_context;
    bool dead; /* FAILED was said */
    char failure[160];
};

struct sim_sink *sim_sink_new(const struct sim_sink_config *config)
{
    struct sim_sink *sink = calloc(1, sizeof *sink);
    if (sink == NULL)
        return NULL;
    sink->config = *config;
    sink->states = calloc(config->files.count + 1, 1);
    sink->expected = malloc(BLOCK_SIZE);
    sink->teller = sim_teller_new();
    if (sink->states != NULL && sink->expected != NULL && sink->teller != NULL)
        return sink;
    sim_sink_free(sink);
    return NULL;
}

void sim_sink_free(struct sim_sink *sink)
{
    if (sink == NULL)
        return;
    for (size_t i = 0; i < sink->large_count; i++)
        tree_hash_free(sink->large[i].hash);
    free(sink->large);
    range_set_release(&sink->seen);
    sim_teller_free(sink->teller);
    free(sink->states);
    free(sink->expected);
    free(sink);
}

void sim_sink_result(const struct sim_sink *sink, struct sim_sink_result *result)
{
    *result = sink->result;
}

bool sim_sink_has(const struct sim_sink *sink, uint32_t file)
{
    return sink->states[file] == FILE_DONE || sink->states[file] == FILE_SKIPPED;
}

const char *sim_sink_failure(const struct sim_sink *sink)
{
    return sink->failure[0] != 0 ? sink->failure : NULL;
}

__attribute__((format(printf, 2, 3))) static void broken(struct sim_sink *sink, const char *format,
                                                         ...)
{
    if (sink->failure[0] != 0)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sink->failure, sizeof sink->failure, format, arguments);
    va_end(arguments);
}

/* ---- reports ---- */

static void say(struct sim_sink *sink, const struct sink_report *report)
{
    sink->emit(sink->emit_context, report);
}

static void say_dead(struct sim_sink *sink, const struct error *error)
{
    if (sink->dead)
        return;
    sink->dead = true;
    say(sink, &(struct sink_report){.kind = SINK_FAILED, .error = *error});
}

static void die(struct sim_sink *sink, enum error_kind kind, const char *text)
{
    struct error error = {0};
    error_set(&error, kind, "%s", text);
    say_dead(sink, &error);
}

static void say_free(struct sim_sink *sink, uint8_t *bytes)
{
    say(sink, &(struct sink_report){.kind = SINK_BUFFER_FREE, .bytes = bytes});
}

static void say_file(struct sim_sink *sink, enum sink_report_kind kind, uint32_t file,
                     const uint8_t *hash, const struct error *error)
{
    char path[SIM_PATH_SIZE + 8] = SIM_TOP_NAME "/";
    sim_file_path(file, path + strlen(path));
    struct sink_report report = {
        .kind = kind, .path = path, .size = sink->config.files.sizes[file]};
    if (hash != NULL)
        memcpy(report.hash, hash, sizeof report.hash);
    if (error != NULL)
        report.error = *error;
    say(sink, &report);
}

static void file_done(struct sim_sink *sink, uint32_t file, const uint8_t *hash)
{
    sink->states[file] = FILE_DONE;
    sink->result.done++;
    say_file(sink, SINK_FILE_DONE, file, hash, NULL);
}

static void file_failed(struct sim_sink *sink, uint32_t file, const struct error *error)
{
    sink->states[file] = FILE_FAILED;
    sink->result.failed++;
    say_file(sink, SINK_FILE_FAILED, file, NULL, error);
}

static void file_differs(struct sim_sink *sink, uint32_t file)
{
    struct error error = {0};
    error_set(&error, ERROR_VERIFY, "file %u does not have the hash it should have", file);
    file_failed(sink, file, &error);
}

static void say_verified(struct sim_sink *sink, uint64_t size)
{
    sink->result.verified_bytes += size;
    say(sink, &(struct sink_report){.kind = SINK_VERIFIED, .size = size});
}

static bool cannot_write(struct sim_sink *sink, uint32_t file)
{
    if (file != sink->config.fails_file)
        return false;
    struct error error = {0};
    error_set(&error, ERROR_NO_SPACE, "file %u finds no room", file);
    file_failed(sink, file, &error);
    return true;
}

/* Whether `bytes` is what the source made for this place. */
static bool as_made(struct sim_sink *sink, uint32_t file, uint64_t offset, const uint8_t *bytes,
                    size_t size)
{
    sim_files_content(&sink->config.files, file, offset, sink->expected, size);
    return memcmp(sink->expected, bytes, size) == 0;
}

/* ---- large files ---- */

static struct large *large_of_block(struct sim_sink *sink, uint32_t block)
{
    size_t low = 0, high = sink->large_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        struct large *large = &sink->large[middle];
        if (block < large->first)
            high = middle;
        else if (block - large->first >= large->block_count)
            low = middle + 1;
        else
            return large;
    }
    return NULL;
}

static struct large *large_of_id(struct sim_sink *sink, uint64_t id)
{
    for (size_t i = 0; i < sink->large_count; i++)
        if (sink->large[i].id == id)
            return &sink->large[i];
    return NULL;
}

static void finish_large(struct sim_sink *sink, struct large *large)
{
    uint8_t hash[TREE_HASH_SIZE];
    if (large->over || !large->complete || large->received < large->block_count)
        return;
    large->over = true;
    if (!tree_hash_result(large->hash, hash) || memcmp(hash, large->promised, sizeof hash) != 0) {
        file_differs(sink, large->file);
        return;
    }
    if (!large->as_made)
        broken(sink, "file %u was verified but is not what the source made", large->file);
    file_done(sink, large->file, hash);
}

static void write_content(struct sim_sink *sink, struct large *large, const struct sink_job *job)
{
    uint64_t index = job->block - large->first;
    uint64_t offset = index * BLOCK_SIZE;
    uint64_t length = large->size - offset < BLOCK_SIZE ? large->size - offset : BLOCK_SIZE;
    large->received++;
    if (job->length != length) {
        die(sink, ERROR_PROTOCOL, "a content block has the wrong length");
        return;
    }
    if (large->over)
        return;
    if (!as_made(sink, large->file, offset, job->bytes, job->length))
        large->as_made = false;
    uint8_t value[TREE_HASH_SIZE];
    if (large->block_count == 1)
        tree_hash_whole(job->bytes, job->length, value);
    else
        tree_hash_block(job->bytes, job->length, index, value);
    tree_hash_add(large->hash, index, value);
    say_verified(sink, length);
    finish_large(sink, large);
}

static void take_content(struct sim_sink *sink, const struct sink_job *job)
{
    struct large *large = large_of_block(sink, job->block);
    if (large != NULL) {
        write_content(sink, large, job);
        say_free(sink, job->bytes);
        return;
    }
    if (sink->held_count == HELD_MAX) {
        broken(sink, "more than %u blocks came before their entries", HELD_MAX);
        die(sink, ERROR_PROTOCOL, "too many blocks came before their entries");
        return;
    }
    sink->held[sink->held_count++] = *job;
    if (sink->held_count > sink->result.held_most)
        sink->result.held_most = sink->held_count;
}

static void release_held(struct sim_sink *sink)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < sink->held_count; i++) {
        struct large *large = large_of_block(sink, sink->held[i].block);
        if (large != NULL) {
            write_content(sink, large, &sink->held[i]);
            say_free(sink, sink->held[i].bytes);
        } else {
            sink->held[kept++] = sink->held[i];
        }
    }
    sink->held_count = kept;
}

/* Entries arrive in any order of blocks: the place is found from the back. */
static bool insert_large(struct sim_sink *sink, const struct large *large)
{
    if (sink->large_count == sink->large_capacity) {
        size_t capacity = sink->large_capacity > 0 ? 2 * sink->large_capacity : 16;
        struct large *grown = realloc(sink->large, capacity * sizeof *grown);
        if (grown == NULL)
            return false;
        sink->large = grown;
        sink->large_capacity = capacity;
    }
    size_t place = sink->large_count++;
    while (place > 0 && sink->large[place - 1].first > large->first) {
        sink->large[place] = sink->large[place - 1];
        place--;
    }
    sink->large[place] = *large;
    return true;
}

static void open_large(struct sim_sink *sink, const struct entry *entry, uint32_t file)
{
    struct large large = {.id = entry->id,
                          .size = entry->size,
                          .file = file,
                          .first = entry->first_block,
                          .block_count = pack_block_count(entry->size),
                          .as_made = true,
                          .hash = tree_hash_new(entry->size)};
    sink->states[file] = FILE_OPEN;
    if (large.hash == NULL || !insert_large(sink, &large)) {
        die(sink, ERROR_MEMORY, "out of memory for a large file");
        return;
    }
    if (cannot_write(sink, file))
        large_of_block(sink, large.first)->over = true;
}

/* ---- packed blocks ---- */

static void take_small(struct sim_sink *sink, const struct entry *entry, uint32_t file)
{
    uint8_t hash[TREE_HASH_SIZE];
    if (cannot_write(sink, file))
        return;
    tree_hash_whole(entry->bytes, (size_t)entry->size, hash);
    if (memcmp(hash, entry->hash, sizeof hash) != 0) {
        file_differs(sink, file);
        return;
    }
    if (!as_made(sink, file, 0, entry->bytes, (size_t)entry->size))
        broken(sink, "file %u was verified but is not what the source made", file);
    say_verified(sink, entry->size);
    file_done(sink, file, hash);
}

static bool take_entry(struct sim_sink *sink, const struct pack_reader *pack, uint32_t block,
                       const struct entry *entry, uint8_t *verdict)
{
    enum pack_form form = pack->form;
    if (entry->kind == ENTRY_DIRECTORY)
        return true;
    uint32_t file = sim_file_index(entry->path);
    if (file >= sink->config.files.count || entry->size != sink->config.files.sizes[file]) {
        die(sink, ERROR_PROTOCOL, "an entry is not one of the source's files");
        return false;
    }
    enum file_state state = sink->states[file];
    if (form == PACK_OFFER) {
        bool exists = sink->config.exists_each != 0 && file % sink->config.exists_each == 0;
        if (state != FILE_UNSEEN)
            broken(sink, "file %u was offered when it was known", file);
        bool tells = sink->config.tells && !exists && entry->kind == ENTRY_LARGE;
        *verdict = exists ? ANSWER_SKIP : tells ? ANSWER_HASHES : ANSWER_SEND;
        if (tells && !sim_teller_add(sink->teller, block, pack->count - 1, file,
                                     (uint32_t)pack_block_count(entry->size)))
            die(sink, ERROR_MEMORY, "out of memory for what is there");
        sink->states[file] = exists ? FILE_SKIPPED : FILE_OFFERED;
        sink->result.skipped += exists ? 1 : 0;
        if (exists)
            say_file(sink, SINK_FILE_SKIPPED, file, NULL, NULL);
        return true;
    }
    if (state != FILE_UNSEEN && state != FILE_OFFERED)
        broken(sink, "file %u was delivered twice or when it was skipped", file);
    else if (entry->kind == ENTRY_LARGE)
        open_large(sink, entry, file);
    else
        take_small(sink, entry, file);
    return true;
}

static void take_entries(struct sim_sink *sink, const struct sink_job *job, uint8_t *verdicts)
{
    struct pack_reader pack;
    struct error error = {0};
    if (!pack_open(&pack, job->bytes, job->length, 1, &error)) {
        say_dead(sink, &error);
        return;
    }
    for (uint32_t count = 0;; count++) {
        struct entry entry;
        switch (pack_next(&pack, &entry, &error)) {
        case PACK_ENTRY:
            if (!take_entry(sink, &pack, job->block, &entry, &verdicts[count]))
                return;
            break;
        case PACK_END:
            if (pack.form == PACK_OFFER)
                say(sink, &(struct sink_report){.kind = SINK_ANSWER,
                                                .block = job->block,
                                                .bytes = verdicts,
                                                .length = count});
            return;
        case PACK_INVALID:
            say_dead(sink, &error);
            return;
        }
    }
}

static void take_packed(struct sim_sink *sink, const struct sink_job *job)
{
    uint8_t *verdicts = malloc(job->length); /* an entry has more than one byte */
    if (verdicts == NULL)
        die(sink, ERROR_MEMORY, "out of memory for verdicts");
    else
        take_entries(sink, job, verdicts);
    free(verdicts);
    say_free(sink, job->bytes);
    if (!sink->dead)
        release_held(sink);
}

/* ---- jobs ---- */

static void take_block(struct sim_sink *sink, const struct sink_job *job)
{
    uint64_t added = 0;
    if (!range_set_add(&sink->seen, job->block, (uint64_t)job->block + 1, &added) || added != 1)
        broken(sink, "block %u came twice", job->block);
    sink->result.blocks++;
    sink->result.block_bytes += job->length;
    if (sink->result.blocks == sink->config.fails_at_block)
        die(sink, ERROR_NO_SPACE, "the simulated disk is full");
    if (sink->dead)
        say_free(sink, job->bytes);
    else if (job->packed)
        take_packed(sink, job);
    else
        take_content(sink, job);
}

static void take_complete(struct sim_sink *sink, const struct sink_job *job)
{
    struct large *large = large_of_id(sink, job->file_id);
    if (large == NULL || large->complete || large->size != job->size) {
        broken(sink, "COMPLETE of file id %llu fits no file", (unsigned long long)job->file_id);
        die(sink, ERROR_PROTOCOL, "COMPLETE fits no file");
        return;
    }
    large->complete = true;
    memcpy(large->promised, job->hash, sizeof large->promised);
    finish_large(sink, large);
}

static void take_withdraw(struct sim_sink *sink, const struct sink_job *job)
{
    struct large *large = large_of_id(sink, job->file_id);
    if (large == NULL || large->complete) {
        broken(sink, "WITHDRAW of file id %llu fits no file", (unsigned long long)job->file_id);
        die(sink, ERROR_PROTOCOL, "WITHDRAW fits no file");
        return;
    }
    if (!large->over)
        file_failed(sink, large->file, &job->error);
    large->over = true;
}

static void take_keep(struct sim_sink *sink, const struct sink_job *job)
{
    struct large *large = large_of_id(sink, job->file_id);
    const char *wrong = large == NULL || large->complete
                            ? "KEEP comes before its file's entry, or after COMPLETE"
                            : sim_teller_decide(sink->teller, &sink->config.files, large->file,
                                                job->block, job->length, job->kept);
    if (wrong != NULL) {
        broken(sink, "%s", wrong);
        die(sink, ERROR_PROTOCOL, wrong);
        return;
    }
    for (uint32_t i = 0; i < job->length; i++) {
        if ((job->kept >> i & 1) == 0)
            continue;
        uint64_t index = job->block + i, left = large->size - index * BLOCK_SIZE;
        uint8_t value[TREE_HASH_SIZE];
        bool right;
        sim_told_hash(&sink->config.files, large->file, (uint32_t)index, value, &right);
        tree_hash_add(large->hash, index, value);
        large->received++;
        uint64_t length = left < BLOCK_SIZE ? left : BLOCK_SIZE;
        sink->result.verified_bytes += length;
        sink->result.kept_bytes += length;
        say(sink, &(struct sink_report){.kind = SINK_KEPT, .size = length});
    }
    finish_large(sink, large);
}

static bool sink_work(void *context, const atomic_bool *stop, sink_emit *emit, void *emit_context)
{
    struct sim_sink *sink = context;
    struct sink_report report = {.kind = SINK_HASHES};
    (void)stop;
    if (sink->dead || !sim_teller_next(sink->teller, &sink->config.files, &report.piece))
        return false;
    emit(emit_context, &report);
    return true;
}

static void take_end(struct sim_sink *sink, const struct sink_job *job)
{
    if (job->blocks != sink->result.blocks)
        broken(sink, "END came before its blocks");
    for (size_t i = 0; i < sink->large_count; i++) {
        if (!sink->large[i].over) {
            die(sink, ERROR_PROTOCOL, "the end came, but not all of a large file");
            return;
        }
    }
    if (sink->held_count > 0) {
        die(sink, ERROR_PROTOCOL, "blocks came that belong to no file");
        return;
    }
    sink->result.finished = true;
    say(sink, &(struct sink_report){.kind = SINK_FINISHED,
                                    .files = sink->result.done + sink->result.skipped,
                                    .failures = sink->result.failed});
}

static void sink_accept(void *context, const struct sink_job *job, sink_emit *emit,
                        void *emit_context)
{
    struct sim_sink *sink = context;
    sink->emit = emit;
    sink->emit_context = emit_context;
    if (sink->result.finished)
        broken(sink, "a job came after the end");
    if (job->kind == SINK_BLOCK)
        take_block(sink, job);
    else if (sink->dead)
        return;
    else if (job->kind == SINK_COMPLETE)
        take_complete(sink, job);
    else if (job->kind == SINK_WITHDRAW)
        take_withdraw(sink, job);
    else if (job->kind == SINK_KEEP)
        take_keep(sink, job);
    else if (job->kind == SINK_END)
        take_end(sink, job);
}

static bool sink_open(void *context, const struct transfer_request *request,
                      uint8_t *existing_bitmap, size_t bitmap_size, struct error *error)
{
    struct sim_sink *sink = context;
    if (sink->config.refuses_open)
        return error_set(error, ERROR_NOT_FOUND, "no such directory: %s", request->destination);
    if (request->name_count != 1 || strcmp(request->names[0], SIM_TOP_NAME) != 0)
        broken(sink, "the sink was opened for other names");
    if (bitmap_size > 0 && (sink->config.exists_each != 0 || sink->config.tells))
        existing_bitmap[0] |= 1;
    sink->result.opened = true;
    return true;
}

static void sink_close(void *context)
{
    struct sim_sink *sink = context;
    sink->result.closed = true;
}

void sim_sink_storage(struct sim_sink *sink, struct storage *storage)
{
    static const struct sink_ops ops = {
        .open = sink_open, .accept = sink_accept, .work = sink_work, .close = sink_close};
    *storage = (struct storage){.sink = sink, .sink_ops = &ops};
}
