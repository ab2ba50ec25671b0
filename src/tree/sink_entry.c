#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/sink_internal.h"

#define FILE_MODE 0777

/* ---- deliveries ---- */

static bool write_all(int fd, const uint8_t *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = write(fd, bytes + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

/* Writes the whole file and hashes what was handed to the system, after it was handed over: a byte
 * that changed on the way is found. */
static bool fill_file(struct file_sink *sink, int fd, const struct entry *entry,
                      struct error *error)
{
    if (!write_all(fd, entry->bytes, (size_t)entry->size))
        return error_set_errno(error, errno, "cannot be written");
    uint8_t hash[TREE_HASH_SIZE];
    tree_hash_whole(entry->bytes, (size_t)entry->size, hash);
    if (memcmp(hash, entry->hash, sizeof hash) != 0)
        return error_set(error, ERROR_VERIFY, "its bytes differ from their hash; copy it again");
    return sink_set_attributes(sink, fd, entry->mode, entry->mtime_s, entry->mtime_ns, error);
}

static bool small_file(struct file_sink *sink, const struct entry *entry, uint64_t temp,
                       bool *is_new, struct error *error)
{
    int parent = -1;
    int fd = sink_create_temp(sink, sink->path, temp, O_WRONLY, &parent, error);
    if (fd < 0)
        return false;
    bool done =
        sink_way_is_free(sink, entry, parent, is_new, error) && fill_file(sink, fd, entry, error);
    if (close(fd) != 0 && done)
        done = error_set_errno(error, errno, "cannot be written");
    if (!done) {
        char name[TEMP_NAME_SIZE];
        sink_temp_name(temp, name);
        unlinkat(parent, name, 0);
    }
    return done;
}

static bool try_link(struct file_sink *sink, const char *target, const char *name, int *parent)
{
    *parent = sink_parent(sink, sink->path, true);
    if (*parent < 0)
        return false;
    if (symlinkat(target, *parent, name) == 0)
        return true;
    size_t size = (size_t)(beneath_leaf(sink->path) - sink->path);
    return errno == EACCES &&
           directory_make_accessible(sink, sink->path, size > 0 ? size - 1 : 0) &&
           symlinkat(target, *parent, name) == 0;
}

/* *lost: the file system has no links, which is counted and fails nothing. */
static bool make_link(struct file_sink *sink, const struct entry *entry, uint64_t temp,
                      bool *is_new, bool *lost, struct error *error)
{
    char target[PACK_PATH_MAX + 1], name[TEMP_NAME_SIZE];
    memcpy(target, entry->target, entry->target_size);
    target[entry->target_size] = '\0';
    sink_temp_name(temp, name);
    int parent = -1;
    bool made = try_link(sink, target, name, &parent);
    if (!made && errno == EEXIST) {
        if (!sink_clear_temp(sink, parent, sink->path, temp, error))
            return false;
        made = try_link(sink, target, name, &parent);
    }
    *lost = !made && parent >= 0 && sink_cannot_hold(errno);
    if (!made)
        return error_set_errno(error, errno, "the link cannot be made");
    if (!sink_way_is_free(sink, entry, parent, is_new, error)) {
        unlinkat(parent, name, 0);
        return false;
    }
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = entry->mtime_s, .tv_nsec = entry->mtime_ns}};
    utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW); /* not every file system can */
    return true;
}

/* Small files and links: made under a temporary name, finished with their batch. */
static void deliver_small(struct file_sink *sink, const struct entry *entry)
{
    bool is_link = entry->kind == ENTRY_LINK;
    uint64_t temp = sink_temp_of(sink, sink->path);
    struct error error = {0};
    bool is_new = false, lost = false;
    bool made = is_link ? make_link(sink, entry, temp, &is_new, &lost, &error)
                        : small_file(sink, entry, temp, &is_new, &error);
    if (lost)
        sink_lost(sink, LOSS_LINK);
    else if (!made)
        sink_file_failed(sink, sink->path, !is_link, &error);
    if (!made)
        return;
    struct waiting_file file = {.path = sink->path,
                                .temp = temp,
                                .size = entry->size,
                                .is_link = is_link,
                                .is_new = is_new};
    if (!is_link)
        memcpy(file.hash, entry->hash, sizeof file.hash);
    batch_add(sink, &file);
    if (!is_link)
        sink_verified(sink, entry->size);
}

static void deliver(struct file_sink *sink, const struct entry *entry)
{
    if (!sink_set_path(sink, entry))
        return;
    if (entry->kind == ENTRY_DIRECTORY)
        directory_entry(sink, entry);
    else if (entry->kind == ENTRY_LARGE)
        large_entry(sink, entry);
    else
        deliver_small(sink, entry);
}

/* ---- offers ---- */

/* A file that is skipped still gets the mode it has at the source, as the rest does. */
static void adjust_mode(int parent, const char *leaf, const struct stat *found, uint32_t mode)
{
    if ((found->st_mode & 07777) == (mode & FILE_MODE))
        return;
    int fd = openat(parent, leaf, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0)
        return;
    if (fstat(fd, &status) == 0 && status.st_ino == found->st_ino && S_ISREG(status.st_mode) &&
        fchmod(fd, mode & FILE_MODE) != 0)
        errno = 0; /* another's file: the bytes are right, which is what was asked */
    close(fd);
}

static bool is_same_link(struct file_sink *sink, const struct entry *entry)
{
    char target[PACK_PATH_MAX + 1];
    int parent = sink_parent(sink, sink->path, false);
    ssize_t size =
        parent < 0 ? -1 : readlinkat(parent, beneath_leaf(sink->path), target, sizeof target);
    return size >= 0 && (size_t)size == entry->target_size &&
           memcmp(target, entry->target, entry->target_size) == 0;
}

static bool is_same(struct file_sink *sink, const struct entry *entry)
{
    bool is_file = entry->kind == ENTRY_FILE || entry->kind == ENTRY_LARGE;
    if (!is_file || (sink->flags & TRANSFER_QUICK_CHECK) == 0)
        return false;
    int parent = sink_parent(sink, sink->path, false);
    struct stat status;
    const char *leaf = beneath_leaf(sink->path);
    if (parent < 0 || fstatat(parent, leaf, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    bool same = S_ISREG(status.st_mode) && (uint64_t)status.st_size == entry->size &&
                status.st_mtim.tv_sec == entry->mtime_s &&
                status.st_mtim.tv_nsec == (long)entry->mtime_ns;
    if (same && (sink->flags & TRANSFER_DRY_RUN) == 0)
        adjust_mode(parent, leaf, &status, entry->mode);
    return same;
}

static enum answer_verdict answer(struct file_sink *sink, const struct entry *entry)
{
    static const uint8_t no_hash[TREE_HASH_SIZE];
    bool is_file = entry->kind == ENTRY_FILE || entry->kind == ENTRY_LARGE;
    if (is_same(sink, entry)) {
        struct sink_report report = {
            .kind = SINK_FILE_SKIPPED, .path = sink->path, .size = entry->size};
        sink->files_skipped++;
        sink->emit(sink->context, &report);
        return ANSWER_SKIP;
    }
    if (entry->kind == ENTRY_LINK)
        return is_same_link(sink, entry) ? ANSWER_SKIP : ANSWER_SEND;
    if (is_file && (sink->flags & TRANSFER_DRY_RUN) != 0)
        sink_file_done(sink, sink->path, entry->size, no_hash);
    return ANSWER_SEND;
}

/* ---- blocks ---- */

static bool grow(uint8_t **verdicts, size_t *capacity)
{
    size_t wanted = *capacity == 0 ? 1024 : *capacity * 2;
    uint8_t *larger = realloc(*verdicts, wanted);
    if (larger == NULL)
        return false;
    *verdicts = larger;
    *capacity = wanted;
    return true;
}

static void take_offer(struct file_sink *sink, struct pack_reader *reader, uint32_t block)
{
    uint8_t *verdicts = NULL;
    size_t count = 0, capacity = 0;
    struct entry entry;
    struct error error = {0};
    enum pack_result result;
    while ((result = pack_next(reader, &entry, &error)) == PACK_ENTRY && !sink->has_failed) {
        if (count == capacity && !grow(&verdicts, &capacity)) {
            error_set(&error, ERROR_MEMORY, "no memory for an answer");
            result = PACK_INVALID;
            break;
        }
        if (!sink_set_path(sink, &entry))
            break;
        verdicts[count++] = (uint8_t)answer(sink, &entry);
    }
    if (result == PACK_INVALID)
        sink_fail(sink, &error);
    if (!sink->has_failed) {
        struct sink_report report = {
            .kind = SINK_ANSWER, .block = block, .bytes = verdicts, .length = (uint32_t)count};
        sink->emit(sink->context, &report);
    }
    free(verdicts);
}

static void take_delivery(struct file_sink *sink, struct pack_reader *reader)
{
    if ((sink->flags & TRANSFER_DRY_RUN) != 0) {
        sink_fail_protocol(sink, "a delivery came in a dry run");
        return;
    }
    struct entry entry;
    struct error error = {0};
    enum pack_result result;
    while ((result = pack_next(reader, &entry, &error)) == PACK_ENTRY && !sink->has_failed &&
           !sink_is_stopped(sink))
        deliver(sink, &entry);
    if (result == PACK_INVALID)
        sink_fail(sink, &error);
}

void sink_packed(struct file_sink *sink, const uint8_t *bytes, size_t length, uint32_t block)
{
    struct pack_reader reader;
    struct error error = {0};
    if (!pack_open(&reader, bytes, length, sink->place.count, &error))
        sink_fail(sink, &error);
    else if (reader.form == PACK_OFFER)
        take_offer(sink, &reader, block);
    else
        take_delivery(sink, &reader);
}
