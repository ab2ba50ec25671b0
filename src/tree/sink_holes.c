#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/sink_internal.h"
#include "tree/write_at.h"
#include "tree/zero_block.h"

/* Holes (-S): blocks that the sender says are zeros are neither sent nor written, but hashed as all
 * others; of what is written, pages of zeros are left out. */

#define BLOCKS_AT_ONCE 64u
#define RANGES_MAX 65536u /* of one file, not yet hashed */
#define PAGE 4096u

void holes_take(struct file_sink *sink, const struct sink_job *job)
{
    struct large_file *file = large_find(sink, job->file_id);
    if (file == NULL) /* given up already, and said so */
        return;
    uint64_t end = (uint64_t)job->block + job->length;
    if ((sink->flags & TRANSFER_SPARSE) == 0 || job->length == 0 || end > file->count ||
        file->hole_count - file->hole_at == RANGES_MAX) {
        sink_fail_protocol(sink, "holes contradict their file, or were not asked for");
        return;
    }
    if (file->hole_at == file->hole_count)
        file->hole_at = file->hole_count = 0;
    struct hole_range *ranges = realloc(file->holes, (file->hole_count + 1) * sizeof *file->holes);
    if (ranges == NULL) {
        sink_fail_memory(sink);
        return;
    }
    file->holes = ranges;
    ranges[file->hole_count++] = (struct hole_range){.first = job->block, .count = job->length};
}

static struct large_file *find_pending(const struct file_sink *sink)
{
    for (size_t i = 0; i < sink->large_count; i++) {
        if (sink->large[i]->hole_at < sink->large[i]->hole_count)
            return sink->large[i];
    }
    return NULL;
}

bool holes_are_pending(const struct file_sink *sink)
{
    return find_pending(sink) != NULL;
}

/* A half-written file of an earlier run may hold something there. */
static bool clear(struct file_sink *sink, struct large_file *file, uint32_t index, uint32_t count,
                  struct error *error)
{
    off_t offset = (off_t)index * BLOCK_SIZE, length = (off_t)count * BLOCK_SIZE;
    if (!file->made)
        return true;
    if (!large_open(sink, file, error))
        return false;
    struct stat status;
    if (!file->is_device && fstat(file->fd, &status) == 0 && status.st_size <= offset)
        return true;
    if (fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length) == 0)
        return true;
    for (uint32_t i = 0; i < count; i++) {
        off_t at = offset + (off_t)i * BLOCK_SIZE;
        uint32_t size = large_length(file->size, index + i);
        if (!large_write(file, zero_block(), size, (uint64_t)at))
            return error_set_errno(error, errno, "cannot be written");
    }
    return true;
}

static bool add_zeros(struct large_file *file, uint32_t index, struct error *error)
{
    uint8_t hash[TREE_HASH_SIZE];
    large_hash(file->size, index, zero_block(), large_length(file->size, index), hash);
    return large_has(file, index, hash, error);
}

bool holes_work(struct file_sink *sink)
{
    struct large_file *file = find_pending(sink);
    if (file == NULL)
        return false;
    struct hole_range *range = &file->holes[file->hole_at];
    uint32_t count = range->count < BLOCKS_AT_ONCE ? range->count : BLOCKS_AT_ONCE;
    struct error error = {0};
    bool good = clear(sink, file, range->first, count, &error);
    for (uint32_t i = 0; good && i < count; i++) {
        good = add_zeros(file, range->first + i, &error);
        sink_verified(sink, large_length(file->size, range->first + i));
    }
    if (!good) {
        large_give_up(sink, file, &error);
        return true;
    }
    range->first += count;
    range->count -= count;
    file->hole_at += range->count == 0;
    large_finish_if_whole(sink, file);
    return true;
}

/* ---- writing around zeros ---- */

static size_t zeros_at(const uint8_t *bytes, size_t size)
{
    size_t at = 0;
    while (at < size) {
        size_t page = size - at < PAGE ? size - at : PAGE;
        if (memcmp(bytes + at, zero_block(), page) != 0)
            break;
        at += page;
    }
    return at;
}

static size_t data_at(const uint8_t *bytes, size_t size)
{
    size_t at = 0;
    while (at < size) {
        size_t page = size - at < PAGE ? size - at : PAGE;
        if (memcmp(bytes + at, zero_block(), page) == 0)
            break;
        at += page;
    }
    return at;
}

/* Where there may be something else already, a hole has to be made. */
static bool leave_out(int fd, uint64_t offset, size_t size, bool is_fresh)
{
    return is_fresh || fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                                 (off_t)size) == 0;
}

bool holes_write(int fd, const uint8_t *bytes, size_t size, uint64_t offset, bool is_fresh)
{
    for (size_t at = 0; at < size;) {
        size_t zeros = zeros_at(bytes + at, size - at);
        if (zeros > 0 && !leave_out(fd, offset + at, zeros, is_fresh) &&
            !write_at(fd, bytes + at, zeros, offset + at))
            return false;
        at += zeros;
        size_t data = data_at(bytes + at, size - at);
        if (!write_at(fd, bytes + at, data, offset + at))
            return false;
        at += data;
    }
    return true;
}
