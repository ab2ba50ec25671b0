#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tree/jail.h"
#include "tree/source_internal.h"

#define SMALL_ATTEMPTS 3
#define ENTRY_OVERHEAD 128 /* more than an entry takes besides path, target and bytes */

bool source_is_unchanged(const struct stat *before, const struct stat *after)
{
    return before->st_size == after->st_size && before->st_mtim.tv_sec == after->st_mtim.tv_sec &&
           before->st_mtim.tv_nsec == after->st_mtim.tv_nsec;
}

bool source_is_special(const struct stat *status)
{
    return !S_ISREG(status->st_mode) && !S_ISLNK(status->st_mode) && !S_ISDIR(status->st_mode);
}

static void fill_entry(struct file_source *source, const struct item *item,
                       const struct stat *status, struct entry *entry)
{
    *entry = (struct entry){.name = item->name,
                            .path = item->path,
                            .path_size = item->path_size,
                            .mode = status->st_mode & 07777,
                            .mtime_s = status->st_mtim.tv_sec,
                            .mtime_ns = (uint32_t)status->st_mtim.tv_nsec};
    if (S_ISDIR(status->st_mode)) {
        entry->kind = ENTRY_DIRECTORY;
    } else if (S_ISLNK(status->st_mode)) {
        entry->kind = ENTRY_LINK;
    } else if (source_is_special(status)) {
        entry->kind = ENTRY_SPECIAL;
        entry->special = S_ISFIFO(status->st_mode)   ? SPECIAL_PIPE
                         : S_ISSOCK(status->st_mode) ? SPECIAL_SOCKET
                         : S_ISCHR(status->st_mode)  ? SPECIAL_CHARACTER
                                                     : SPECIAL_BLOCK;
        bool device = S_ISCHR(status->st_mode) || S_ISBLK(status->st_mode);
        entry->device_major = device ? major(status->st_rdev) : 0;
        entry->device_minor = device ? minor(status->st_rdev) : 0;
    } else {
        entry->size = (uint64_t)status->st_size;
        entry->kind = entry->size <= PACK_FILE_MAX ? ENTRY_FILE : ENTRY_LARGE;
    }
    extra_fill(source, item, status, entry);
}

static enum put failed(struct file_source *source, const struct item *item, int os_errno,
                       const char *what)
{
    struct error error = {0};
    scan_set_error(&error, os_errno, what);
    source_problem(source, item, &error);
    return PUT_DONE;
}

static enum put changed(struct file_source *source, const struct item *item, const char *what)
{
    struct error error = {0};
    error_set(&error, ERROR_CHANGED, "%s", what);
    source_problem(source, item, &error);
    return PUT_DONE;
}

static enum put put_link(struct file_source *source, const struct item *item)
{
    char target[PACK_PATH_MAX + 1];
    ssize_t size = readlinkat(item->directory, item->leaf, target, sizeof target);
    if (size < 0 && errno == EINVAL)
        return changed(source, item, "became something else before it was sent");
    if (size < 0)
        return failed(source, item, errno, "the link cannot be read");
    if (size == 0 || size > (ssize_t)PACK_PATH_MAX)
        return failed(source, item, ENAMETOOLONG, "the link's target");
    struct entry entry;
    fill_entry(source, item, &item->status, &entry);
    entry.target = target;
    entry.target_size = (size_t)size;
    return pack_add(&source->pack, &entry) ? PUT_DONE : PUT_FULL;
}

/* Reads up to `size` bytes; returns how many there were, or -1. */
static ssize_t read_start(int fd, uint8_t *bytes, size_t size)
{
    size_t got = 0;
    while (got < size) {
        ssize_t n = pread(fd, bytes + got, size - got, (off_t)got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

static const uint8_t would_come[TREE_HASH_SIZE]; /* of a dry run */

/* A file that the receiver has already needs only its entry, as any does in a dry run. */
static void end_small(struct file_source *source, const struct item *item, struct entry *entry,
                      const uint8_t hash[TREE_HASH_SIZE])
{
    bool same = item->hash != NULL && memcmp(item->hash, hash, TREE_HASH_SIZE) == 0;
    if (!same && !source->dry_run) {
        pack_end_file(&source->pack, entry, hash);
        return;
    }
    if (!same)
        hash = would_come;
    pack_cancel_file(&source->pack);
    entry->kind = ENTRY_SAME;
    entry->hash = hash;
    pack_add(&source->pack, entry); /* shorter than what was cancelled */
}

/* Dry run: a file of which the receiver has nothing would come, and is not read. */
static enum put foretell_small(struct file_source *source, const struct item *item,
                               const struct stat *status)
{
    struct entry entry;
    fill_entry(source, item, status, &entry);
    entry.kind = ENTRY_SAME;
    entry.hash = would_come;
    if (!pack_add(&source->pack, &entry))
        return PUT_FULL;
    source->files++;
    return PUT_DONE;
}

/* Packs an open small file. One that changes while it is read is read again; what never holds
 * still is sent as far as it was there when it was looked at, and reported. */
static enum put put_small(struct file_source *source, const struct item *item, int fd,
                          struct stat *before)
{
    for (int attempt = 1;; attempt++) {
        struct entry entry;
        fill_entry(source, item, before, &entry);
        if (entry.kind != ENTRY_FILE)
            return changed(source, item, "grew while it was read; not sent");
        uint8_t *place = pack_begin_file(&source->pack, &entry);
        if (place == NULL)
            return PUT_FULL;
        ssize_t got = read_start(fd, place, (size_t)entry.size);
        struct stat after;
        int failure = got < 0 || fstat(fd, &after) != 0 ? errno : 0;
        bool whole = failure == 0 && (uint64_t)got == entry.size;
        bool still = whole && source_is_unchanged(before, &after);
        if (still || (whole && attempt == SMALL_ATTEMPTS)) {
            uint8_t hash[TREE_HASH_SIZE];
            tree_hash_whole(place, (size_t)entry.size, hash);
            end_small(source, item, &entry, hash);
            source->files++;
            return still ? PUT_DONE : changed(source, item, "changed while it was read");
        }
        pack_cancel_file(&source->pack);
        if (failure != 0)
            return failed(source, item, failure, "cannot be read");
        if (attempt == SMALL_ATTEMPTS)
            return changed(source, item, "shrank while it was read; not sent");
        *before = after;
    }
}

/* Queues an open large file; the queue owns `fd` on PUT_DONE. */
static enum put put_large(struct file_source *source, uint32_t block, const struct item *item,
                          int fd, const struct stat *status)
{
    struct entry entry;
    fill_entry(source, item, status, &entry);
    uint64_t count = pack_block_count(entry.size);
    if (count > BLOCK_NUMBER_LIMIT - source->next_block) {
        error_set(&source->fatal, ERROR_USAGE,
                  "a transfer holds at most 2^48 bytes: copy a part of it");
        close(fd);
        return PUT_DONE;
    }
    entry.id = source->next_id;
    entry.first_block = source->next_block;
    if (!pack_add(&source->pack, &entry))
        return PUT_FULL;
    struct have *have = item->has_offer ? have_claim(source, item->offer, item->entry) : NULL;
    if (item->has_offer && have == NULL)
        error_set(&source->fatal, ERROR_MEMORY, "no memory for hashes");
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    source->large[source->large_count++] =
        (struct large){.fd = fd,
                       .id = entry.id,
                       .first = entry.first_block,
                       .count = (uint32_t)count,
                       .entry_block = block,
                       .before = *status,
                       .hash = tree_hash_new(entry.size),
                       .have = have,
                       .path = source_display_path(source, item->name, item->path)};
    source->next_id++;
    source->next_block += (uint32_t)count;
    source->files++;
    return PUT_DONE;
}

/* Whether the open file is the one that was looked at, as it was then. Of one that an answer was
 * about only size, time and permissions are known. */
static bool is_as_seen(const struct item *item, const struct stat *now)
{
    const struct stat *seen = &item->status;
    bool same = item->is_told || (seen->st_ino == now->st_ino && seen->st_dev == now->st_dev &&
                                  seen->st_uid == now->st_uid && seen->st_gid == now->st_gid);
    return same && S_ISREG(now->st_mode) && (seen->st_mode & 07777) == (now->st_mode & 07777) &&
           source_is_unchanged(seen, now);
}

/* The common case, with one look at the open file instead of two: read what the walk saw, then see
 * that this is still what it saw. False: it is not, or cannot be read; nothing was packed. */
static bool put_as_seen(struct file_source *source, const struct item *item, int fd,
                        enum put *result)
{
    struct entry entry;
    struct stat now;
    fill_entry(source, item, &item->status, &entry);
    uint8_t *place = pack_begin_file(&source->pack, &entry);
    *result = PUT_FULL;
    if (place == NULL)
        return true;
    if (read_start(fd, place, (size_t)entry.size) != (ssize_t)entry.size || fstat(fd, &now) != 0 ||
        !is_as_seen(item, &now)) {
        pack_cancel_file(&source->pack);
        return false;
    }
    uint8_t hash[TREE_HASH_SIZE];
    tree_hash_whole(place, (size_t)entry.size, hash);
    end_small(source, item, &entry, hash);
    source->files++;
    *result = PUT_DONE;
    return true;
}

static enum put put_open(struct file_source *source, uint32_t block, const struct item *item,
                         int fd)
{
    struct stat status;
    enum put result;
    bool reads = !source->dry_run || item->hash != NULL;
    if (reads && (uint64_t)item->status.st_size <= PACK_FILE_MAX &&
        put_as_seen(source, item, fd, &result))
        ; /* nothing is left to do */
    else if (fstat(fd, &status) != 0)
        result = failed(source, item, errno, "cannot be read");
    else if (!S_ISREG(status.st_mode))
        result = changed(source, item,
                         item->is_told ? "became something else before it was sent"
                                       : "is no plain file any more");
    else if ((uint64_t)status.st_size <= PACK_FILE_MAX)
        result =
            reads ? put_small(source, item, fd, &status) : foretell_small(source, item, &status);
    else if (source->large_count == LARGE_QUEUE)
        result = PUT_FULL;
    else if (put_large(source, block, item, fd, &status) == PUT_DONE)
        return PUT_DONE;
    else
        result = PUT_FULL;
    close(fd);
    return result;
}

/* O_NONBLOCK: a pipe that has taken the file's place must not hang the walk. */
static enum put put_file(struct file_source *source, uint32_t block, const struct item *item)
{
    size_t known = (size_t)item->status.st_size;
    if (known <= PACK_FILE_MAX &&
        writer_left(&source->pack.writer) < known + item->path_size + ENTRY_OVERHEAD)
        return PUT_FULL;
    if (known > PACK_FILE_MAX && source->large_count == LARGE_QUEUE)
        return PUT_FULL;
    int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int fd = jail_openat(item->directory, item->leaf, item->follow ? flags : flags | O_NOFOLLOW);
    if (fd >= 0)
        return put_open(source, block, item, fd);
    if (item->is_told && (errno == ELOOP || errno == ENXIO))
        return changed(source, item, "became something else before it was sent");
    return failed(source, item, errno,
                  item->is_told && errno == ENOENT ? "vanished before it was sent"
                                                   : "cannot be opened");
}

enum put source_put(struct file_source *source, uint32_t block, const struct item *item)
{
    size_t large_before = source->large_count;
    uint32_t count_before = source->pack.count;
    enum put result =
        S_ISREG(item->status.st_mode) ? put_file(source, block, item) : source_offer(source, item);
    if (result == PUT_DONE && source->pack.count > count_before)
        sent_add(source, item);
    if (item->has_offer && result == PUT_DONE && source->large_count == large_before)
        have_forget(source, item->offer, item->entry);
    return result;
}

enum put source_offer(struct file_source *source, const struct item *item)
{
    if (S_ISLNK(item->status.st_mode))
        return put_link(source, item);
    struct entry entry;
    fill_entry(source, item, &item->status, &entry);
    return pack_add(&source->pack, &entry) ? PUT_DONE : PUT_FULL;
}
