#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/jail.h"
#include "tree/sorted_spool.h"
#include "tree/source_internal.h"

/* --remove-source-files: what was sent, or was there already, is written down with what it looked
 * like; what the receiver could not finish, too, under the same names. When the receiver has said
 * that all else is verified, both lists are read side by side, sorted, and what is only in the
 * first and looks as it did is removed. */

#define RECORD_MAX (2 * PACK_PATH_MAX + 64)

/* What a file looked like; behind its path and a NUL in a record. */
struct look {
    uint64_t device, inode; /* 0: not known */
    uint64_t size;
    int64_t mtime_s, mtime_ns; /* nanoseconds -1: size and time are not known */
    uint32_t name, path_size;  /* the path below the top-level name is the record's end */
};

struct sent {
    struct sorted_spool *files, *failed;
    uint64_t failures;
};

bool sent_open(struct file_source *source, struct error *error)
{
    if ((source->flags & TRANSFER_REMOVE_SOURCE) == 0 || source->dry_run)
        return true;
    source->sent = calloc(1, sizeof *source->sent);
    if (source->sent != NULL) {
        source->sent->files = sorted_spool_new(0);
        source->sent->failed = sorted_spool_new(1);
    }
    return (source->sent != NULL && source->sent->files != NULL && source->sent->failed != NULL) ||
           error_set(error, ERROR_MEMORY, "no memory for --remove-source-files");
}

void sent_close(struct file_source *source)
{
    if (source->sent == NULL)
        return;
    sorted_spool_free(source->sent->files);
    sorted_spool_free(source->sent->failed);
    free(source->sent);
    source->sent = NULL;
}

/* As the receiver names it: the top-level name and what is below. */
static size_t write_name(const struct file_source *source, uint32_t name, const char *path,
                         size_t path_size, char *record)
{
    const char *top = source->operands.names.names[name];
    size_t size = strlen(top);
    memcpy(record, top, size);
    if (size > 0 && path_size > 0)
        record[size++] = '/';
    memcpy(record + size, path, path_size);
    return size + path_size;
}

static void add(struct file_source *source, const char *path, const struct look *look)
{
    char record[RECORD_MAX];
    size_t size = write_name(source, look->name, path, look->path_size, record);
    record[size++] = '\0';
    memcpy(record + size, look, sizeof *look);
    sorted_spool_add(source->sent->files, record, size + sizeof *look, &source->fatal);
}

void sent_add(struct file_source *source, const struct item *item)
{
    if (source->sent == NULL || S_ISDIR(item->status.st_mode))
        return;
    struct look look = {.device = item->status.st_dev,
                        .inode = item->status.st_ino,
                        .size = (uint64_t)item->status.st_size,
                        .mtime_s = item->status.st_mtim.tv_sec,
                        .mtime_ns = item->status.st_mtim.tv_nsec,
                        .name = item->name,
                        .path_size = (uint32_t)item->path_size};
    add(source, item->path, &look);
}

void sent_add_skipped(struct file_source *source, const struct entry *entry)
{
    const uint64_t unsure = TRANSFER_UPDATE | TRANSFER_IGNORE_EXISTING | TRANSFER_EXISTING;
    if (source->sent == NULL || entry->kind == ENTRY_DIRECTORY || (source->flags & unsure) != 0)
        return;
    bool is_file = entry->kind == ENTRY_FILE || entry->kind == ENTRY_LARGE;
    struct look look = {.size = entry->size,
                        .mtime_s = entry->mtime_s,
                        .mtime_ns = is_file ? (int64_t)entry->mtime_ns : -1,
                        .name = entry->name,
                        .path_size = (uint32_t)entry->path_size};
    add(source, entry->path, &look);
}

void sent_add_link(struct file_source *source, const struct entry *entry, uint64_t device,
                   uint64_t inode)
{
    if (source->sent == NULL)
        return;
    struct look look = {.device = device,
                        .inode = inode,
                        .mtime_ns = -1,
                        .name = entry->name,
                        .path_size = (uint32_t)entry->path_size};
    add(source, entry->path, &look);
}

void sent_failed(struct file_source *source, const char *path)
{
    if (source->sent == NULL)
        return;
    source->sent->failures++;
    sorted_spool_add(source->sent->failed, path, strlen(path), &source->fatal);
}

/* ---- removing ---- */

static bool looks_the_same(const struct look *look, const struct stat *status)
{
    bool same_file =
        look->inode == 0 || (look->device == status->st_dev && look->inode == status->st_ino);
    bool same_facts = look->mtime_ns < 0 || ((uint64_t)status->st_size == look->size &&
                                             status->st_mtim.tv_sec == look->mtime_s &&
                                             status->st_mtim.tv_nsec == look->mtime_ns);
    return !S_ISDIR(status->st_mode) && same_file && same_facts;
}

/* The directory that holds it, new, or -1 with errno; *leaf is its name there. */
static int open_holder(struct file_source *source, const struct look *look, char *path,
                       const char **leaf)
{
    if (!source->operands.names.name_is_directory[look->name]) {
        return jail_open_parent(source->operands.paths[look->name], leaf);
    }
    if (!offer_open_root(source, look->name))
        return -1;
    char *slash = strrchr(path, '/');
    *leaf = slash != NULL ? slash + 1 : path;
    if (slash != NULL)
        *slash = '\0';
    return beneath_open(source->answered_root, slash != NULL ? path : "", O_PATH | O_DIRECTORY, 0);
}

static bool remove_one(struct file_source *source, const struct look *look, const char *below,
                       struct error *error)
{
    char path[PACK_PATH_MAX + 1];
    const char *leaf;
    struct stat status;
    memcpy(path, below, look->path_size);
    path[look->path_size] = '\0';
    int holder = open_holder(source, look, path, &leaf);
    bool found = holder >= 0 && fstatat(holder, leaf, &status, AT_SYMLINK_NOFOLLOW) == 0;
    bool done = false;
    if (!found && errno == ENOENT)
        done = true;
    else if (!found)
        error_set_errno(error, errno, "was copied, but cannot be removed");
    else if (!looks_the_same(look, &status))
        error_set(error, ERROR_CHANGED, "was copied, and is kept, for it changed since");
    else if (unlinkat(holder, leaf, 0) != 0)
        error_set_errno(error, errno, "was copied, but cannot be removed");
    else
        done = true;
    if (holder >= 0)
        close(holder);
    return done;
}

/* Moves on in the list of failures to `path` or behind it. True when it is there. */
static bool has_failed(struct sent *sent, const char *path, size_t size, const uint8_t **failed,
                       size_t *failed_size, enum spool_result *result, struct error *error)
{
    while (*result == SPOOL_RECORD) {
        size_t shorter = size < *failed_size ? size : *failed_size;
        int order = memcmp(*failed, path, shorter);
        if (order == 0)
            order = (*failed_size > size) - (*failed_size < size);
        if (order >= 0)
            return order == 0;
        *result = sorted_spool_next(sent->failed, failed, failed_size, error);
    }
    return false;
}

bool sent_remove(struct file_source *source, source_removal *removal, void *context,
                 struct error *error)
{
    struct sent *sent = source->sent;
    const struct transfer_request *names = &source->operands.names;
    bool one = names->name_count == 1 && !names->name_is_directory[0];
    if (sent == NULL || (one && sent->failures > 0)) /* it may have another name there */
        return true;
    if (!sorted_spool_rewind(sent->files, error) || !sorted_spool_rewind(sent->failed, error))
        return false;
    const uint8_t *record, *failed = NULL;
    size_t size, failed_size = 0;
    enum spool_result next,
        failures = sorted_spool_next(sent->failed, &failed, &failed_size, error);
    while ((next = sorted_spool_next(sent->files, &record, &size, error)) == SPOOL_RECORD) {
        struct look look;
        size_t name_size = size - sizeof look - 1;
        memcpy(&look, record + name_size + 1, sizeof look);
        const char *name = (const char *)record; /* ended by NUL */
        if (has_failed(sent, name, name_size, &failed, &failed_size, &failures, error))
            continue;
        struct error problem = {0};
        if (!remove_one(source, &look, name + name_size - look.path_size, &problem))
            removal(context, name, &problem);
    }
    return next == SPOOL_END && failures != SPOOL_FAILED;
}
