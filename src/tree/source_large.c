#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/source_internal.h"
#include "tree/zero_block.h"

void large_close(struct file_source *source, struct large *large)
{
    close(large->fd);
    tree_hash_free(large->hash);
    have_free(source, large->have);
    free(large->path);
    *large = (struct large){.fd = -1};
}

/* The file is done with: the next ones move up. */
static void remove_file(struct file_source *source, size_t index)
{
    large_close(source, &source->large[index]);
    memmove(source->large + index, source->large + index + 1,
            (source->large_count - index - 1) * sizeof *source->large);
    source->large_count--;
}

int large_ready(const struct file_source *source)
{
    for (size_t i = 0; i < source->large_count; i++) {
        const struct large *large = &source->large[i];
        if (large->have == NULL || large->next == large->count ||
            have_is_told(large->have, large->next))
            return (int)i;
    }
    return -1;
}

static void describe(const struct large *large, struct source_item *out)
{
    out->file_id = large->id;
    out->size = (uint64_t)large->before.st_size;
    out->has_entry_block = true;
    out->entry_block = large->entry_block;
}

static enum source_result withdraw(struct file_source *source, size_t index,
                                   struct source_item *out, enum error_kind kind, int os_errno,
                                   const char *what)
{
    struct large *large = &source->large[index];
    describe(large, out);
    if (os_errno != 0)
        error_set_errno(&out->error, os_errno, "%s", what);
    else
        error_set(&out->error, kind, "%s", what);
    source->said_path = large->path;
    large->path = NULL;
    out->path = source->said_path;
    remove_file(source, index);
    return SOURCE_WITHDRAW;
}

/* Everything was read. A file that grew was sent as far as it was there when it was looked at; of
 * one that was changed in any other way nobody knows what the bytes are together. */
static enum source_result complete(struct file_source *source, size_t index,
                                   struct source_item *out)
{
    struct large *large = &source->large[index];
    struct stat after;
    struct error error = {0};
    bool known = fstat(large->fd, &after) == 0;
    describe(large, out);
    if (!tree_hash_result(large->hash, out->hash))
        return withdraw(source, index, out, ERROR_MEMORY, 0, "no memory to hash it");
    if (!known)
        return withdraw(source, index, out, ERROR_IO, errno, "cannot be read any more");
    if (after.st_size <= large->before.st_size && !source_is_unchanged(&large->before, &after))
        return withdraw(source, index, out, ERROR_CHANGED, 0,
                        "changed while it was read; copy it again when it holds still");
    if (after.st_size > large->before.st_size) {
        error_set(&error, ERROR_CHANGED,
                  "changed while it was read: it grew, its first %llu bytes were sent",
                  (unsigned long long)large->before.st_size);
        source_problem_path(source, large->path != NULL ? large->path : "", &error);
    }
    remove_file(source, index);
    return SOURCE_COMPLETE;
}

/* Dry run: it would come. */
static enum source_result foretell(struct file_source *source, size_t index,
                                   struct source_item *out)
{
    describe(&source->large[index], out);
    memset(out->hash, 0, sizeof out->hash);
    remove_file(source, index);
    return SOURCE_COMPLETE;
}

/* True when `length` bytes at `offset` were read. False with *os_errno 0: the file ends before. */
static bool read_block(int fd, uint8_t *buffer, size_t length, uint64_t offset, int *os_errno)
{
    size_t got = 0;
    while (got < length) {
        ssize_t n = pread(fd, buffer + got, length - got, (off_t)(offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            *os_errno = n < 0 ? errno : 0;
            return false;
        }
        got += (size_t)n;
    }
    return true;
}

/* ---- holes ---- */

#define HOLES_TOLD 1024u /* blocks in one message */
#define HOLES_AT_ONCE 64u

/* Whether nothing is stored in the block. */
static bool is_hole(struct large *large, off_t offset, off_t length)
{
    if (offset < large->hole_from || offset + length > large->data_from) {
        off_t data = lseek(large->fd, offset, SEEK_DATA);
        if (data < 0 && errno != ENXIO)
            return false; /* the file system does not tell */
        large->hole_from = offset;
        large->data_from = data < 0 ? large->before.st_size : data;
    }
    return offset + length <= large->data_from;
}

static enum source_result tell_holes(struct large *large, struct source_item *out)
{
    out->first = large->hole_first;
    out->count = large->hole_count;
    large->hole_count = 0;
    describe(large, out);
    return SOURCE_HOLES;
}

static bool add_zeros(struct large *large, size_t length)
{
    uint8_t hash[TREE_HASH_SIZE];
    if (large->count == 1)
        tree_hash_whole(zero_block(), length, hash);
    else
        tree_hash_block(zero_block(), length, large->next, hash);
    if (!tree_hash_add(large->hash, large->next, hash))
        return false;
    if (large->hole_count++ == 0)
        large->hole_first = large->next;
    large->next++;
    return true;
}

/* Passes over holes, which are hashed but neither read nor sent. False: there is none here. */
static bool pass_holes(struct file_source *source, struct large *large)
{
    bool passed = false;
    if ((source->flags & TRANSFER_SPARSE) == 0 || large->have != NULL || large->hash == NULL)
        return false;
    for (uint32_t i = 0; i < HOLES_AT_ONCE && large->hole_count < HOLES_TOLD; i++) {
        uint64_t offset = (uint64_t)large->next * BLOCK_SIZE;
        if (large->next == large->count)
            break;
        uint64_t left = (uint64_t)large->before.st_size - offset;
        size_t length = left < BLOCK_SIZE ? (size_t)left : BLOCK_SIZE;
        if (!is_hole(large, (off_t)offset, (off_t)length) || !add_zeros(large, length))
            break;
        passed = true;
    }
    return passed;
}

/* ---- content ---- */

enum source_result large_next(struct file_source *source, size_t place, uint8_t *buffer,
                              struct source_item *out)
{
    struct large *large = &source->large[place];
    if (source->dry_run && (large->have == NULL || large->differs))
        return foretell(source, place, out);
    if (large->have != NULL &&
        have_finished_piece(source, large->have, large->next, large->count, out)) {
        describe(large, out);
        return SOURCE_KEEP;
    }
    bool passed = pass_holes(source, large);
    if (large->hole_count == HOLES_TOLD || (large->hole_count > 0 && !passed))
        return tell_holes(large, out);
    if (passed)
        return SOURCE_AGAIN;
    if (large->next == large->count)
        return complete(source, place, out);
    uint32_t index = large->next;
    uint64_t offset = (uint64_t)index * BLOCK_SIZE;
    uint64_t left = (uint64_t)large->before.st_size - offset;
    size_t length = left < BLOCK_SIZE ? (size_t)left : BLOCK_SIZE;
    int os_errno = 0;
    if (!read_block(large->fd, buffer, length, offset, &os_errno))
        return withdraw(source, place, out, ERROR_CHANGED, os_errno,
                        os_errno != 0 ? "cannot be read" : "shrank while it was read");
    uint8_t hash[TREE_HASH_SIZE];
    if (large->count == 1)
        tree_hash_whole(buffer, length, hash);
    else
        tree_hash_block(buffer, length, index, hash);
    if (large->hash == NULL || !tree_hash_add(large->hash, index, hash))
        return withdraw(source, place, out, ERROR_MEMORY, 0, "no memory to hash it");
    large->next++;
    if (large->have != NULL && have_compare(large->have, index, hash))
        return SOURCE_AGAIN;
    if (source->dry_run) {
        large->differs = true;
        return SOURCE_AGAIN;
    }
    out->block = large->first + index;
    out->packed = false;
    out->length = (uint32_t)length;
    describe(large, out);
    source->given_blocks++;
    return SOURCE_BLOCK;
}
