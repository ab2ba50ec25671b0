#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#undef BLOCK_SIZE /* the system has another */
#include "base/bits.h"
#include "base/block.h"
#include "tree/beneath.h"
#include "tree/sink_internal.h"

/* ---- what the sender decided ---- */

/* Takes the oldest undecided piece, which the decision must be about. */
static struct told *take_told(struct file_sink *sink, struct large_file *file,
                              const struct sink_job *job)
{
    struct holding *holding = file->holding;
    struct told *told = holding != NULL ? holding->told : NULL;
    uint64_t end = (uint64_t)job->block + job->length;
    bool fits = told != NULL && told->first == job->block && job->length <= told->count &&
                end <= file->count && (job->kept & ~told->present) == 0 &&
                (job->length == told->count || end == file->count);
    if (!fits) {
        sink_fail_protocol(sink, "the sender keeps blocks that it was not told of");
        return NULL;
    }
    holding->told = told->next;
    if (holding->told == NULL)
        holding->last = NULL;
    told->next = NULL;
    return told;
}

static const uint8_t *hash_of(const struct told *told, uint32_t index)
{
    uint64_t below = (UINT64_C(1) << (index - told->first)) - 1;
    return told->hashes[bits_set(told->present & below)];
}

/* Blocks that are where they belong already. */
static bool take_in_place(struct file_sink *sink, struct large_file *file, const struct told *told,
                          uint64_t kept, struct error *error)
{
    for (uint32_t i = 0; i < told->count; i++) {
        uint32_t index = told->first + i;
        if ((kept >> i & 1) == 0)
            continue;
        if (!large_has(file, index, hash_of(told, index), error))
            return false;
        sink_kept(sink, large_length(file->size, index));
    }
    return true;
}

static void release_told(struct file_sink *sink, struct told *told)
{
    sink->told_blocks -= told->count;
    free(told);
}

/* As long as all is as in the old file, from its beginning on, nothing is copied: perhaps the file
 * is the same altogether. */
static bool extends_prefix(const struct large_file *file, const struct sink_job *job,
                           const struct told *told)
{
    uint64_t all = job->length == HASH_PIECE_BLOCKS ? UINT64_MAX : (UINT64_C(1) << job->length) - 1;
    return !file->made && !file->differs && file->prefix == told->first && job->kept == all &&
           told->in_half == 0;
}

static void decide(struct file_sink *sink, struct large_file *file, const struct sink_job *job,
                   struct told *told)
{
    struct error error = {0};
    uint64_t in_place = job->kept & (file->in_place ? told->present : told->in_half);
    if (extends_prefix(file, job, told)) {
        file->prefix += job->length;
        release_told(sink, told);
        large_finish_if_whole(sink, file);
        return;
    }
    file->differs = true;
    if (sink_is_dry(sink)) { /* what is known is enough */
        file->prefix = 0;
        release_told(sink, told);
        return;
    }
    if (!take_in_place(sink, file, told, in_place, &error)) {
        release_told(sink, told);
        large_give_up(sink, file, &error);
        return;
    }
    told->kept = job->kept & ~in_place;
    if (told->kept == 0) {
        release_told(sink, told);
        large_finish_if_whole(sink, file);
        return;
    }
    if (file->last_copy != NULL)
        file->last_copy->next = told;
    else
        file->copies = told;
    file->last_copy = told;
}

void keep_blocks(struct file_sink *sink, const struct sink_job *job)
{
    struct large_file *file = large_find(sink, job->file_id);
    if (file == NULL) /* given up already, and said so */
        return;
    struct told *told = take_told(sink, file, job);
    if (told != NULL)
        decide(sink, file, job, told);
}

void keep_free(struct file_sink *sink, struct large_file *file)
{
    while (file->copies != NULL) {
        struct told *told = file->copies;
        file->copies = told->next;
        release_told(sink, told);
    }
    file->last_copy = NULL;
    if (file->holding != NULL)
        holding_free(sink, file->holding);
    file->holding = NULL;
}

/* ---- copying ---- */

static bool has_prefix_to_copy(const struct large_file *file)
{
    return file->prefix_done < file->prefix && (file->differs || file->made);
}

static struct large_file *find_work(const struct file_sink *sink)
{
    for (size_t i = 0; i < sink->large_count; i++) {
        if (has_prefix_to_copy(sink->large[i]) || sink->large[i]->copies != NULL ||
            large_wants_back(sink->large[i]))
            return sink->large[i];
    }
    return NULL;
}

bool keep_is_pending(const struct file_sink *sink)
{
    return find_work(sink) != NULL;
}

/* Lets the new file share the block of the old one. The block is read back from the new file: what
 * is hashed is what is there. */
static bool clone_block(struct file_sink *sink, struct large_file *file, uint32_t index,
                        uint8_t hash[TREE_HASH_SIZE])
{
    uint32_t length = large_length(file->size, index);
    if (file->no_clone || length != BLOCK_SIZE)
        return false;
    struct file_clone_range range = {.src_fd = file->holding->old,
                                     .src_offset = (uint64_t)index * BLOCK_SIZE,
                                     .src_length = length,
                                     .dest_offset = (uint64_t)index * BLOCK_SIZE};
    file->no_clone = ioctl(file->fd, FICLONERANGE, &range) != 0;
    return !file->no_clone && holding_read(sink, file->fd, file->size, index, hash, &length);
}

static bool changed(struct error *error)
{
    return error_set(error, ERROR_CHANGED,
                     "was changed at the destination while it was compared; copy it again");
}

/* `wanted` is what was told of the block, NULL for one of the prefix: that shows in the end. */
static bool copy_block(struct file_sink *sink, struct large_file *file, uint32_t index,
                       const uint8_t *wanted, struct error *error)
{
    uint8_t hash[TREE_HASH_SIZE];
    uint32_t length = large_length(file->size, index);
    if (!large_open(sink, file, error))
        return false;
    bool cloned = clone_block(sink, file, index, hash);
    if (!cloned && !holding_read(sink, file->holding->old, file->size, index, hash, &length))
        return changed(error);
    if (wanted != NULL && memcmp(hash, wanted, sizeof hash) != 0)
        return changed(error);
    bool put = cloned ? large_has(file, index, hash, error)
                      : large_put(file, index, sink->block, length, hash, error);
    if (put)
        sink_kept(sink, length);
    return put;
}

static bool copy_next(struct file_sink *sink, struct large_file *file, struct error *error)
{
    if (large_wants_back(file))
        return large_read_back(sink, file, error);
    if (has_prefix_to_copy(file))
        return copy_block(sink, file, file->prefix_done++, NULL, error);
    struct told *told = file->copies;
    uint32_t index = told->first + (uint32_t)__builtin_ctzll(told->kept);
    told->kept &= told->kept - 1;
    bool copied = copy_block(sink, file, index, hash_of(told, index), error);
    if (told->kept != 0)
        return copied;
    file->copies = told->next;
    if (file->copies == NULL)
        file->last_copy = NULL;
    release_told(sink, told);
    return copied;
}

bool keep_work(struct file_sink *sink)
{
    struct large_file *file = find_work(sink);
    struct error error = {0};
    if (file == NULL)
        return false;
    if (copy_next(sink, file, &error))
        large_finish_if_whole(sink, file);
    else
        large_give_up(sink, file, &error);
    return true;
}

/* ---- the same altogether ---- */

/* Whether what stands under the final name is still what was read. */
static bool is_as_read(struct file_sink *sink, const struct large_file *file)
{
    const struct stat *before = &file->holding->old_status;
    struct stat now;
    int parent = sink_parent(sink, file->path, false);
    return parent >= 0 &&
           fstatat(parent, beneath_leaf(file->path), &now, AT_SYMLINK_NOFOLLOW) == 0 &&
           now.st_ino == before->st_ino && now.st_size == before->st_size &&
           now.st_mtim.tv_sec == before->st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == before->st_mtim.tv_nsec;
}

bool keep_finish_same(struct file_sink *sink, struct large_file *file)
{
    struct error error = {0};
    if (file->prefix != file->count || file->differs || file->made || !file->has_result)
        return false;
    if ((uint64_t)file->holding->old_status.st_size != file->size) { /* only its beginning is */
        file->differs = true;
        return false;
    }
    bool done = is_as_read(sink, file) ? facts_set(sink, file->holding->old, &file->facts, &error)
                                       : changed(&error);
    if (!done) {
        large_give_up(sink, file, &error);
        return true;
    }
    sink_file_skipped(sink, file->path, file->size, file->result);
    large_take_out(sink, file);
    return true;
}
