#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/sink_internal.h"
#include "tree/write_at.h"

/* ---- deliveries ---- */

/* Writes the whole file and hashes what was handed to the system, after it was handed over: a byte
 * that changed on the way is found. `given`: its permissions. */
static bool fill_file(struct file_sink *sink, int fd, const struct entry *entry, uint32_t given,
                      struct error *error)
{
    bool sparse = (sink->flags & TRANSFER_SPARSE) != 0;
    size_t size = (size_t)entry->size;
    if (sparse ? !holes_write(fd, entry->bytes, size, 0, true) || ftruncate(fd, (off_t)size) != 0
               : !write_at(fd, entry->bytes, size, 0))
        return error_set_errno(error, errno, "cannot be written");
    uint8_t hash[TREE_HASH_SIZE];
    tree_hash_whole(entry->bytes, (size_t)entry->size, hash);
    if (memcmp(hash, entry->hash, sizeof hash) != 0)
        return error_set(error, ERROR_VERIFY, "its bytes differ from their hash; copy it again");
    struct facts facts = facts_of(entry);
    facts.mode = facts_mode(sink, entry->mode, sink->old.st_mode != 0 ? &sink->old : NULL);
    facts.given = given;
    return facts_set(sink, fd, &facts, error);
}

/* --inplace to a device: nothing else can be done with one. */
static bool write_device(struct file_sink *sink, const struct entry *entry, bool *is_one,
                         struct error *error)
{
    struct stat status;
    int parent = sink_parent(sink, sink->path, false);
    const char *leaf = beneath_leaf(sink->path);
    *is_one = (sink->flags & TRANSFER_IN_PLACE) != 0 && parent >= 0 &&
              fstatat(parent, leaf, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISBLK(status.st_mode);
    if (!*is_one)
        return false;
    int fd = openat(parent, leaf, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    bool done = fd >= 0 && write_at(fd, entry->bytes, (size_t)entry->size, 0) && fsync(fd) == 0;
    if (!done)
        error_set_errno(error, errno, "cannot be written in place");
    if (fd >= 0)
        close(fd);
    return done;
}

/* Whether a run before this may have left something under the temporary name, which is cleared by
 * whoever takes that name. */
static bool may_be_half_there(const struct file_sink *sink, const struct entry *entry, int parent,
                              uint64_t temp)
{
    struct stat status;
    char name[TEMP_NAME_SIZE];
    if (sink->place.is_directory[entry->name] && !sink->place.existed[entry->name])
        return false;
    sink_temp_name(temp, name);
    return fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/* What is new has no name until it gets its final one, where the system can do that; else it has a
 * temporary one. */
static int create_small(struct file_sink *sink, const struct entry *entry,
                        struct waiting_file *file, int *parent, struct error *error)
{
    struct error no_matter = {0};
    file->temp = sink_temp_of(sink, sink->path);
    if (batch_holds_temp(sink, file->temp))
        batch_flush(sink);
    *parent = sink_parent(sink, sink->path, true);
    if (*parent >= 0 && sink_way_is_free(sink, entry, *parent, &file->is_new, &no_matter) &&
        file->is_new && !may_be_half_there(sink, entry, *parent, file->temp)) {
        uint32_t mode = facts_mode_at_once(sink, facts_mode(sink, entry->mode, NULL));
        file->fd = unnamed_create(sink, *parent, mode != 0 ? mode : 0600);
        file->is_unnamed = file->fd >= 0;
    }
    if (file->is_unnamed)
        return file->fd;
    file->fd = sink_create_temp(sink, sink->path, file->temp, O_RDWR, parent, error);
    return file->fd;
}

/* Fills in all of *file but its hash. */
static bool small_file(struct file_sink *sink, const struct entry *entry, struct waiting_file *file,
                       struct error *error)
{
    int parent = -1;
    struct stat status;
    if (large_is_writing(sink, sink->path))
        return error_set(error, ERROR_EXISTS, "two files with this path came at once");
    int fd = create_small(sink, entry, file, &parent, error);
    if (fd < 0)
        return false;
    bool done = (file->is_unnamed || sink_way_is_free(sink, entry, parent, &file->is_new, error)) &&
                (fstat(fd, &status) == 0 || error_set_errno(error, errno, "cannot be written")) &&
                fill_file(sink, fd, entry, status.st_mode & 07777, error);
    if (done) {
        file->device = status.st_dev;
        return true;
    }
    close(fd);
    if (!file->is_unnamed) {
        char name[TEMP_NAME_SIZE];
        sink_temp_name(file->temp, name);
        unlinkat(parent, name, 0);
    }
    return false;
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
        return sink_not_made(error, "the link cannot be made");
    if (!sink_way_is_free(sink, entry, parent, is_new, error)) {
        unlinkat(parent, name, 0);
        return false;
    }
    struct facts facts = facts_of(entry);
    facts_set_named(sink, parent, name, &facts, true);
    return true;
}

static mode_t special_type(enum special_kind special)
{
    switch (special) {
    case SPECIAL_PIPE:
        return S_IFIFO;
    case SPECIAL_SOCKET:
        return S_IFSOCK;
    case SPECIAL_CHARACTER:
        return S_IFCHR;
    case SPECIAL_BLOCK:
        break;
    }
    return S_IFBLK;
}

bool special_is_there(const struct stat *status, const struct entry *entry)
{
    mode_t type = special_type(entry->special);
    bool device = type == S_IFCHR || type == S_IFBLK;
    return (status->st_mode & S_IFMT) == type &&
           (!device || status->st_rdev == makedev(entry->device_major, entry->device_minor));
}

static bool try_special(struct file_sink *sink, const struct entry *entry, const char *name,
                        int *parent)
{
    mode_t mode = special_type(entry->special) | 0600;
    dev_t device = makedev(entry->device_major, entry->device_minor);
    size_t size = (size_t)(beneath_leaf(sink->path) - sink->path);
    *parent = sink_parent(sink, sink->path, true);
    if (*parent < 0)
        return false;
    if (mknodat(*parent, name, mode, device) == 0)
        return true;
    return errno == EACCES &&
           directory_make_accessible(sink, sink->path, size > 0 ? size - 1 : 0) &&
           mknodat(*parent, name, mode, device) == 0;
}

/* *lost: not for us to make, or not on this file system. */
static bool make_special(struct file_sink *sink, const struct entry *entry, uint64_t temp,
                         bool *is_new, bool *lost, struct error *error)
{
    char name[TEMP_NAME_SIZE];
    int parent = -1;
    sink_temp_name(temp, name);
    bool made = try_special(sink, entry, name, &parent);
    if (!made && errno == EEXIST) {
        if (!sink_clear_temp(sink, parent, sink->path, temp, error))
            return false;
        made = try_special(sink, entry, name, &parent);
    }
    *lost = !made && parent >= 0 && sink_cannot_hold(errno);
    if (!made)
        return sink_not_made(error, "cannot be made");
    if (!sink_way_is_free(sink, entry, parent, is_new, error)) {
        unlinkat(parent, name, 0);
        return false;
    }
    struct facts facts = facts_of(entry);
    facts_set_named(sink, parent, name, &facts, false);
    return true;
}

/* A link or a special. */
static bool make_other(struct file_sink *sink, const struct entry *entry, struct waiting_file *file,
                       bool *lost, struct error *error)
{
    struct stat status;
    file->temp = sink_temp_of(sink, sink->path);
    bool made = entry->kind == ENTRY_LINK
                    ? make_link(sink, entry, file->temp, &file->is_new, lost, error)
                    : make_special(sink, entry, file->temp, &file->is_new, lost, error);
    int parent = made ? sink_parent(sink, sink->path, false) : -1;
    if (parent >= 0 && fstat(parent, &status) == 0)
        file->device = status.st_dev;
    return made;
}

/* Small files, links and specials: made without their final name, finished with their batch. */
static void deliver_small(struct file_sink *sink, const struct entry *entry, bool kept)
{
    bool is_link = entry->kind != ENTRY_FILE; /* or a special: nothing to sync, no hash */
    struct error error = {0};
    sink->taken += entry->size;
    bool lost = false, is_device = false;
    if (!is_link && write_device(sink, entry, &is_device, &error)) {
        sink_verified(sink, entry->size);
        sink_file_done(sink, sink->path, entry->size, entry->hash);
    } else if (is_device) {
        sink_file_failed(sink, sink->path, true, &error);
    }
    if (is_device)
        return;
    struct waiting_file file = {
        .path = sink->path, .fd = -1, .size = entry->size, .is_link = is_link};
    bool made = is_link ? make_other(sink, entry, &file, &lost, &error)
                        : small_file(sink, entry, &file, &error);
    if (lost)
        sink_lost(sink, entry->kind == ENTRY_LINK ? LOSS_LINK : LOSS_SPECIAL);
    else if (!made)
        sink_file_failed(sink, sink->path, !is_link, &error);
    if (!made)
        return;
    if (!is_link)
        memcpy(file.hash, entry->hash, sizeof file.hash);
    batch_add(sink, &file);
    if (!is_link && kept)
        sink_kept(sink, entry->size);
    else if (!is_link)
        sink_verified(sink, entry->size);
}

/* Whether the file that is there, as `fd`, is the one that the answer told of. */
static bool is_as_told(int fd, const struct entry *entry, struct stat *status)
{
    return fd >= 0 && fstat(fd, status) == 0 && S_ISREG(status->st_mode) &&
           (uint64_t)status->st_size == entry->size;
}

/* Under another name there is a file that had this content when the answer was made: it is copied,
 * and hashed again. */
static void copy_small(struct file_sink *sink, const struct entry *entry)
{
    struct error error = {0};
    struct stat status;
    struct entry found = *entry;
    uint8_t hash[TREE_HASH_SIZE];
    int fd = find_open(sink, entry->size, entry->mtime_s, entry->mtime_ns, &status);
    bool read = is_as_told(fd, entry, &status) && offer_read(sink, fd, entry->size);
    if (fd >= 0)
        close(fd);
    if (read)
        tree_hash_whole(sink->block, (size_t)entry->size, hash);
    if (!read || memcmp(hash, entry->hash, sizeof hash) != 0) {
        error_set(&error, ERROR_CHANGED,
                  "was to be taken from another file at the destination, which has changed "
                  "meanwhile; copy it again");
        sink_file_failed(sink, sink->path, true, &error);
        return;
    }
    found.kind = ENTRY_FILE;
    found.bytes = sink->block;
    deliver_small(sink, &found, true);
}

/* Whether nothing about the file that is there has to be changed, seen without opening it. */
static bool is_complete(struct file_sink *sink, int parent, const struct entry *entry)
{
    struct stat status;
    if (parent < 0 || entry->extra_size > 0 ||
        fstatat(parent, beneath_leaf(sink->path), &status, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    return entry_is_there(&status, entry) &&
           (status.st_mode & 07777) == (facts_mode(sink, entry->mode, &status) & 0777);
}

/* What is there has the right bytes: it was read and hashed for the answer. */
static void deliver_same(struct file_sink *sink, const struct entry *entry)
{
    struct error error = {0};
    struct stat status;
    int parent = sink_parent(sink, sink->path, false);
    if (is_complete(sink, parent, entry)) {
        sink_file_skipped(sink, sink->path, entry->size, entry->hash);
        return;
    }
    int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    int fd = parent < 0 ? -1 : openat(parent, beneath_leaf(sink->path), flags);
    if (fd < 0) {
        copy_small(sink, entry);
        return;
    }
    bool done = is_as_told(fd, entry, &status);
    if (!done)
        error_set(&error, ERROR_CHANGED,
                  "was changed at the destination while it was compared; copy it again");
    struct facts facts = facts_of(entry);
    facts.mode = facts_mode(sink, entry->mode, &status);
    done = done && facts_set(sink, fd, &facts, &error);
    close(fd);
    if (done)
        sink_file_skipped(sink, sink->path, entry->size, entry->hash);
    else
        sink_file_failed(sink, sink->path, true, &error);
}

static void deliver(struct file_sink *sink, const struct entry *entry)
{
    if (!sink_set_path(sink, entry))
        return;
    if (entry->kind == ENTRY_LARGE)
        large_entry(sink, entry);
    else if (sink_is_dry(sink))
        foresee_entry(sink, entry);
    else if (entry->kind == ENTRY_DIRECTORY)
        directory_entry(sink, entry);
    else if (entry->kind == ENTRY_SAME)
        deliver_same(sink, entry);
    else if (entry->kind == ENTRY_HARD_LINK)
        sink_links_entry(sink, entry);
    else
        deliver_small(sink, entry, false);
}

bool entry_is_there(const struct stat *status, const struct entry *entry)
{
    return S_ISREG(status->st_mode) && (uint64_t)status->st_size == entry->size &&
           status->st_mtim.tv_sec == entry->mtime_s &&
           status->st_mtim.tv_nsec == (long)entry->mtime_ns;
}

/* ---- blocks ---- */

static void take_delivery(struct file_sink *sink, struct pack_reader *reader)
{
    struct entry entry;
    struct error error = {0};
    enum pack_result result;
    while ((result = pack_next(reader, &entry, &error)) == PACK_ENTRY && !sink->has_failed &&
           !sink_is_stopped(sink)) {
        if (sink_is_dry(sink) && entry.kind == ENTRY_FILE)
            sink_fail_protocol(sink, "content came in a dry run");
        else
            deliver(sink, &entry);
    }
    if (result == PACK_INVALID)
        sink_fail(sink, &error);
}

void sink_packed(struct file_sink *sink, const uint8_t *bytes, size_t length, uint32_t block)
{
    struct pack_reader reader;
    struct error error = {0};
    uint32_t plain;
    if ((sink->flags & TRANSFER_SQUEEZE) != 0 && length > 0 && bytes[0] == PACK_SQUEEZED) {
        if (!sink_unsqueeze(sink, bytes + 1, length - 1, BLOCK_SIZE, &plain)) {
            sink_fail_protocol(sink, "a squeezed block cannot be read");
            return;
        }
        bytes = sink->unsqueezed;
        length = plain;
    }
    if (!pack_open(&reader, bytes, length, sink->place.count, &error))
        sink_fail(sink, &error);
    else if (reader.form == PACK_OFFER)
        offer_take(sink, bytes, length, block);
    else
        take_delivery(sink, &reader);
}
