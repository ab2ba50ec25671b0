#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/sink_internal.h"

/* A dry run: what is delivered has no content, and instead of being done it is looked at whether it
 * could be. So what is said is what the run itself would say, as far as that can be known without
 * trying: not a full disk, not an error of a disk, not what others change meanwhile. */

static bool is_told(const uint8_t hash[TREE_HASH_SIZE])
{
    static const uint8_t none[TREE_HASH_SIZE];
    return memcmp(hash, none, sizeof none) != 0;
}

static void say_done(struct file_sink *sink, const char *path, uint64_t size)
{
    static const uint8_t none[TREE_HASH_SIZE];
    sink_file_done(sink, path, size, none);
}

bool foresee_may_write(struct file_sink *sink, const char *path, size_t size)
{
    struct stat status;
    int fd;
    while ((fd = sink_directory(sink, path, size, false)) < 0 && errno == ENOENT && size > 0) {
        while (size > 0 && path[size - 1] != '/')
            size--;
        size -= size > 0;
    }
    if (fd < 0) /* no destination yet: it could be made, or the run has been refused */
        return errno == ENOENT;
    if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0)
        return true;
    int failure = errno;
    bool opened = failure == EACCES && directory_could_be_accessible(sink, fd, size, &status);
    errno = failure;
    return opened;
}

/* What stands at `path`; mode 0: nothing. False when it cannot be reached. */
static bool look(struct file_sink *sink, const char *path, bool is_directory, struct stat *status,
                 struct error *error)
{
    *status = (struct stat){.st_mode = 0};
    int parent = sink_parent(sink, path, false);
    if (parent >= 0 && fstatat(parent, beneath_leaf(path), status, AT_SYMLINK_NOFOLLOW) == 0)
        return true;
    *status = (struct stat){.st_mode = 0};
    if (errno == ENOENT)
        return true;
    return sink_not_made(error, is_directory && parent < 0
                                    ? "the directory that should hold it cannot be opened"
                                    : "cannot be created");
}

static bool may_make(struct file_sink *sink, const char *path, const char *what,
                     struct error *error)
{
    size_t size = (size_t)(beneath_leaf(path) - path);
    return foresee_may_write(sink, path, size > 0 ? size - 1 : 0) ||
           error_set_errno(error, errno, "%s", what);
}

static bool directory(struct file_sink *sink, struct error *error)
{
    struct stat status;
    if (sink->path[0] == '\0')
        return true;
    if (!look(sink, sink->path, true, &status, error))
        return false;
    if (status.st_mode == 0)
        return may_make(sink, sink->path, "the directory cannot be made", error);
    return S_ISDIR(status.st_mode) ||
           error_set(error, ERROR_EXISTS,
                     "%s is where a directory should be and is left alone; move it away",
                     S_ISLNK(status.st_mode) ? "a link" : "a file");
}

bool foresee_leaf(struct file_sink *sink, const char *path, struct error *error)
{
    struct stat status;
    if (!look(sink, path, false, &status, error) ||
        !may_make(sink, path, "cannot be created", error))
        return false;
    return !S_ISDIR(status.st_mode) ||
           error_set(error, ERROR_EXISTS,
                     "a directory is in the way and is left alone; move it away");
}

/* A file, link or special. */
static bool leaf(struct file_sink *sink, const struct entry *entry, struct error *error)
{
    struct stat status;
    bool is_new;
    if (!foresee_leaf(sink, sink->path, error) || !look(sink, sink->path, false, &status, error))
        return false;
    if (status.st_mode == 0)
        return true;
    if (S_ISBLK(status.st_mode) && (sink->flags & TRANSFER_IN_PLACE) != 0)
        return true;
    return sink_way_is_free(sink, entry, sink_parent(sink, sink->path, false), &is_new, error);
}

static bool in_place(struct file_sink *sink, struct large_file *file, bool *is_one,
                     struct error *error)
{
    int parent = sink_parent(sink, sink->path, false);
    *is_one = parent >= 0 && large_is_in_place(sink, parent, file);
    return !*is_one || faccessat(parent, beneath_leaf(sink->path), R_OK | W_OK, AT_EACCESS) == 0 ||
           error_set_errno(error, errno, "cannot be written in place");
}

bool foresee_large_entry(struct file_sink *sink, const struct entry *entry, struct large_file *file,
                         struct error *error)
{
    bool is_one;
    file->seen = file->count; /* nothing comes */
    return in_place(sink, file, &is_one, error) && (is_one || leaf(sink, entry, error));
}

void foresee_entry(struct file_sink *sink, const struct entry *entry)
{
    struct error error = {0};
    bool is_file = entry->kind == ENTRY_SAME;
    if (entry->kind == ENTRY_HARD_LINK)
        sink_links_entry(sink, entry);
    else if (is_file && is_told(entry->hash))
        sink_file_skipped(sink, sink->path, entry->size, NULL);
    else if (!(entry->kind == ENTRY_DIRECTORY ? directory(sink, &error)
                                              : leaf(sink, entry, &error)))
        sink_file_failed(sink, sink->path, is_file, &error);
    else if (is_file)
        say_done(sink, sink->path, entry->size);
}

void foresee_large_end(struct file_sink *sink, struct large_file *file)
{
    bool same = is_told(file->result) && file->prefix == file->count && !file->differs &&
                (uint64_t)file->holding->old_status.st_size == file->size;
    if (same)
        sink_file_skipped(sink, file->path, file->size, NULL);
    else
        say_done(sink, file->path, file->size);
    large_take_out(sink, file);
}

enum answer_verdict foresee_answer(struct file_sink *sink, const struct entry *entry)
{
    struct stat status;
    int parent = sink_parent(sink, sink->path, false);
    if ((sink->flags & TRANSFER_WHOLE) != 0 || parent < 0 ||
        fstatat(parent, beneath_leaf(sink->path), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode) || (uint64_t)status.st_size != entry->size)
        return ANSWER_SEND;
    return entry->kind == ENTRY_FILE    ? ANSWER_HASH
           : entry->kind == ENTRY_LARGE ? ANSWER_HASHES
                                        : ANSWER_SEND;
}
