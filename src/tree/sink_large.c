#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/sink_internal.h"

/* ---- the table ---- */

/* Index of the first file whose first block is above `block`. */
static size_t upper_bound(const struct file_sink *sink, uint32_t block)
{
    size_t low = 0, high = sink->large_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sink->large[middle]->first <= block)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct large_file *find_by_block(const struct file_sink *sink, uint32_t block)
{
    size_t index = upper_bound(sink, block);
    if (index == 0)
        return NULL;
    struct large_file *file = sink->large[index - 1];
    return block - file->first < file->count ? file : NULL;
}

struct large_file *large_find(const struct file_sink *sink, uint64_t id)
{
    for (size_t i = 0; i < sink->large_count; i++) {
        if (sink->large[i]->id == id)
            return sink->large[i];
    }
    return NULL;
}

bool large_is_writing(const struct file_sink *sink, const char *path)
{
    uint64_t key = sink->large_count > 0 ? sink_large_temp_of(path) : 0;
    for (size_t i = 0; i < sink->large_count; i++) {
        if (sink->large[i]->key == key)
            return true;
    }
    return false;
}

static bool insert(struct file_sink *sink, struct large_file *file)
{
    if (sink->large_count == sink->large_capacity) {
        size_t capacity = sink->large_capacity * 2 + 64;
        struct large_file **large = realloc(sink->large, capacity * sizeof *large);
        if (large == NULL)
            return false;
        sink->large = large;
        sink->large_capacity = capacity;
    }
    size_t index = upper_bound(sink, file->first);
    memmove(sink->large + index + 1, sink->large + index,
            (sink->large_count - index) * sizeof *sink->large);
    sink->large[index] = file;
    sink->large_count++;
    return true;
}

uint32_t large_length(uint64_t size, uint32_t index)
{
    uint64_t left = size - (uint64_t)index * BLOCK_SIZE;
    return left < BLOCK_SIZE ? (uint32_t)left : BLOCK_SIZE;
}

void large_hash(uint64_t size, uint32_t index, const uint8_t *bytes, uint32_t length,
                uint8_t hash[TREE_HASH_SIZE])
{
    if (size <= BLOCK_SIZE)
        tree_hash_whole(bytes, length, hash);
    else
        tree_hash_block(bytes, length, index, hash);
}

static void free_file(struct file_sink *sink, struct large_file *file)
{
    keep_free(sink, file);
    if (file->fd >= 0) {
        close(file->fd);
        sink->large_open--;
    }
    tree_hash_free(file->hash);
    tree_hash_free(file->back);
    free(file->path);
    free(file->extra);
    free(file->holes);
    free(file);
}

void large_take_out(struct file_sink *sink, struct large_file *file)
{
    size_t index = upper_bound(sink, file->first) - 1;
    memmove(sink->large + index, sink->large + index + 1,
            (sink->large_count - index - 1) * sizeof *sink->large);
    sink->large_count--;
    free_file(sink, file);
}

/* Gives a file up. Its blocks that are still on the way will be dropped as they come. */
static void give_up(struct file_sink *sink, struct large_file *file, bool keep,
                    const struct error *error)
{
    uint64_t added;
    if (file->seen < file->count &&
        (sink->dead.count >= DEAD_LIMIT ||
         !range_set_add(&sink->dead, file->first, (uint64_t)file->first + file->count, &added)))
        sink_fail_protocol(sink, "too many files failed");
    half_end(sink, file, keep);
    sink_file_failed(sink, file->path, true, error);
    large_take_out(sink, file);
}

/* What was written is of use to a later run when only the room has run out. Not after a failed
 * sync, whatever the reason: the system may give back from memory what the disk never got, and the
 * next sync would find nothing wrong. */
void large_give_up(struct file_sink *sink, struct large_file *file, const struct error *error)
{
    give_up(sink, file, error->kind == ERROR_NO_SPACE && !file->sync_failed, error);
}

/* ---- entries ---- */

/* A range that another file has, in part, would mix their bytes. */
static bool range_is_free(const struct file_sink *sink, const struct entry *entry)
{
    uint64_t end = entry->first_block + pack_block_count(entry->size);
    size_t index = upper_bound(sink, entry->first_block);
    if (index > 0) {
        const struct large_file *before = sink->large[index - 1];
        if ((uint64_t)before->first + before->count > entry->first_block)
            return false;
    }
    return index == sink->large_count || sink->large[index]->first >= end;
}

static struct large_file *new_file(struct file_sink *sink, const struct entry *entry)
{
    struct large_file *file = calloc(1, sizeof *file);
    if (file == NULL)
        return NULL;
    *file = (struct large_file){.id = entry->id,
                                .size = entry->size,
                                .temp = sink_temp_of(sink, sink->path),
                                .key = sink_large_temp_of(sink->path),
                                .first = entry->first_block,
                                .count = (uint32_t)pack_block_count(entry->size),
                                .path = strdup(sink->path),
                                .facts = facts_of(entry),
                                .fd = -1,
                                .hash = tree_hash_new(entry->size)};
    if (entry->extra_size > 0) {
        file->extra = malloc(entry->extra_size);
        if (file->extra != NULL)
            memcpy(file->extra, entry->extra, entry->extra_size);
        file->facts.extra = file->extra;
    }
    bool whole =
        file->path != NULL && file->hash != NULL && (entry->extra_size == 0 || file->extra != NULL);
    if (whole && insert(sink, file))
        return file;
    free_file(sink, file);
    return NULL;
}

/* Content that came before its entry. */
void large_adopt_orphans(struct file_sink *sink, uint32_t first, uint32_t count)
{
    size_t kept = 0, total = sink->orphan_count;
    struct orphan *mine = NULL;
    size_t mine_count = 0;
    for (size_t i = 0; i < total; i++)
        mine_count += sink->orphans[i].block - first < count;
    if (mine_count == 0)
        return;
    mine = malloc(mine_count * sizeof *mine);
    if (mine == NULL) {
        sink_fail_protocol(sink, "no memory for content that came early");
        return;
    }
    mine_count = 0;
    for (size_t i = 0; i < total; i++) {
        if (sink->orphans[i].block - first < count)
            mine[mine_count++] = sink->orphans[i];
        else
            sink->orphans[kept++] = sink->orphans[i];
    }
    sink->orphan_count = kept;
    for (size_t i = 0; i < mine_count; i++)
        large_block(sink, mine[i].block, mine[i].bytes, mine[i].length);
    free(mine);
}

/* Whether the file may stand where it is to be, as far as can be seen now. The file itself is made
 * when its first block comes: perhaps all of it is there. */
static bool may_be_there(struct file_sink *sink, const struct entry *entry, struct large_file *file,
                         struct error *error)
{
    int parent = sink_parent(sink, sink->path, true);
    sink->old = (struct stat){.st_mode = 0};
    if (parent < 0 && errno != EACCES)
        return sink_not_made(error, "its directory cannot be opened");
    return parent < 0 || large_is_in_place(sink, parent, file) ||
           sink_way_is_free(sink, entry, parent, &file->is_new, error);
}

void large_entry(struct file_sink *sink, const struct entry *entry)
{
    if (entry->size == 0) {
        stream_entry(sink, entry);
        return;
    }
    if (sink->large_count >= LARGE_LIMIT || !range_is_free(sink, entry) ||
        large_find(sink, entry->id) != NULL) {
        sink_fail_protocol(sink, "a large file takes an id or blocks that another has");
        return;
    }
    struct error error = {0};
    bool twice = large_is_writing(sink, sink->path);
    struct large_file *file = new_file(sink, entry);
    if (file == NULL) {
        sink_fail_memory(sink);
        return;
    }
    uint32_t first = file->first, count = file->count;
    if (twice)
        error_set(&error, ERROR_EXISTS, "two files with this path came at once");
    if (twice || !(sink_is_dry(sink) ? foresee_large_entry(sink, entry, file, &error)
                                     : may_be_there(sink, entry, file, &error)))
        large_give_up(sink, file, &error);
    else {
        file->facts.mode =
            facts_mode(sink, entry->mode, sink->old.st_mode != 0 ? &sink->old : NULL);
        holding_join(sink, file);
    }
    large_adopt_orphans(sink, first, count);
}

/* ---- content ---- */

static void keep_orphan(struct file_sink *sink, uint32_t block, uint8_t *bytes, uint32_t length)
{
    if (sink->orphans == NULL)
        sink->orphans = calloc(ORPHAN_LIMIT, sizeof *sink->orphans);
    if (sink->orphans == NULL || sink->orphan_count == ORPHAN_LIMIT) {
        sink_give_back(sink, bytes);
        sink_fail_protocol(sink, "too much content came before its entry");
        return;
    }
    sink->orphans[sink->orphan_count++] =
        (struct orphan){.block = block, .length = length, .bytes = bytes};
}

bool large_has(struct large_file *file, uint32_t index, const uint8_t hash[TREE_HASH_SIZE],
               struct error *error)
{
    if (!tree_hash_add(file->hash, index, hash))
        return error_set(error, ERROR_VERIFY, "a block came twice and differs");
    if (file->journal != NULL)
        journal_add(file->journal, index, hash, sink_clock_ns());
    file->seen++;
    return true;
}

bool large_put(struct large_file *file, uint32_t index, const uint8_t *bytes, uint32_t length,
               const uint8_t hash[TREE_HASH_SIZE], struct error *error)
{
    if (!large_write(file, bytes, length, (uint64_t)index * BLOCK_SIZE))
        return error_set_errno(error, errno, "cannot be written");
    return large_has(file, index, hash, error);
}

void large_flush_journals(struct file_sink *sink, bool all)
{
    uint64_t now_ns = sink->journal_count > 0 ? sink_clock_ns() : 0;
    for (size_t i = 0; i < sink->large_count && sink->journal_count > 0; i++) {
        struct journal *journal = sink->large[i]->journal;
        if (journal != NULL && (all || journal_is_due(journal, now_ns)))
            journal_flush(journal);
    }
}

/* Hashes what was handed to the system, after it was handed over. */
static bool take_content(struct file_sink *sink, struct large_file *file, uint32_t index,
                         const uint8_t *bytes, uint32_t length, struct error *error)
{
    uint8_t hash[TREE_HASH_SIZE];
    if (!large_open(sink, file, error))
        return false;
    if (!large_write(file, bytes, length, (uint64_t)index * BLOCK_SIZE))
        return error_set_errno(error, errno, "cannot be written");
    sink->taken += file->counted ? 0 : length;
    large_hash(file->size, index, bytes, length, hash);
    return large_has(file, index, hash, error);
}

void large_block(struct file_sink *sink, uint32_t block, uint8_t *bytes, uint32_t length)
{
    struct large_file *file = find_by_block(sink, block);
    if (file == NULL && stream_has(sink, block)) {
        stream_block(sink, block, bytes, length);
        return;
    }
    if (file == NULL && range_set_contains(&sink->dead, block, (uint64_t)block + 1)) {
        range_set_remove(&sink->dead, block, (uint64_t)block + 1);
        sink_give_back(sink, bytes);
        return;
    }
    if (file == NULL) {
        keep_orphan(sink, block, bytes, length);
        return;
    }
    uint32_t index = block - file->first;
    struct error error = {0};
    if (length < large_length(file->size, index) && (sink->flags & TRANSFER_SQUEEZE) != 0 &&
        sink_unsqueeze(sink, bytes, length, large_length(file->size, index), &length))
        memcpy(bytes, sink->unsqueezed, length);
    if (length != large_length(file->size, index)) {
        sink_give_back(sink, bytes);
        sink_fail_protocol(sink, "a content block has another length than its entry says");
        return;
    }
    bool taken = take_content(sink, file, index, bytes, length, &error);
    sink_give_back(sink, bytes);
    if (!taken) {
        file->seen++; /* of what may still come */
        large_give_up(sink, file, &error);
        return;
    }
    sink_verified(sink, length);
    large_finish_if_whole(sink, file);
}

void large_complete(struct file_sink *sink, uint64_t id, uint64_t size, const uint8_t *hash)
{
    struct large_file *file = large_find(sink, id);
    if (stream_complete(sink, id, size, hash) || file == NULL) /* given up already, and said so */
        return;
    if (size != file->size || file->has_result) {
        sink_fail_protocol(sink, "a large file's end contradicts its entry");
        return;
    }
    memcpy(file->result, hash, sizeof file->result);
    file->has_result = true;
    large_finish_if_whole(sink, file);
}

void large_withdraw(struct file_sink *sink, uint64_t id, const struct error *error)
{
    struct large_file *file = large_find(sink, id);
    if (!stream_withdraw(sink, id, error) && file != NULL)
        give_up(sink, file, true, error);
}

void large_discard_all(struct file_sink *sink)
{
    while (sink->large_count > 0) {
        struct large_file *file = sink->large[--sink->large_count];
        half_end(sink, file, true);
        free_file(sink, file);
    }
    while (sink->holdings != NULL)
        holding_free(sink, sink->holdings);
    free(sink->large);
    free(sink->orphans);
    range_set_release(&sink->dead);
    sink->large = NULL;
    sink->orphans = NULL;
}
