#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/display.h"
#include "tree/sink_internal.h"
#include "tree/spool_file.h"
#include "tree/write_at.h"

/* Further names of files that come (-H). They are written down as they come and made at the end,
 * when every file is there, so that memory does not grow with their number and order does not
 * matter. Where the file system has no links, or no more of them for one file, a copy is made, and
 * the names that follow are linked to it. */

#define COPY_SIZE (1u << 20)

static bool write_path(FILE *file, const char *path)
{
    uint32_t size = (uint32_t)strlen(path);
    return fwrite(&size, sizeof size, 1, file) == 1 &&
           (size == 0 || fwrite(path, size, 1, file) == 1);
}

static bool read_path(FILE *file, char path[SINK_PATH_MAX + 2])
{
    uint32_t size = 0;
    if (fread(&size, sizeof size, 1, file) != 1 || size > SINK_PATH_MAX)
        return false;
    path[size] = '\0';
    return size == 0 || fread(path, size, 1, file) == 1;
}

static bool open_spool(struct file_sink *sink, struct error *error)
{
    if (sink->links != NULL)
        return true;
    int fd = spool_file_open(error);
    if (fd < 0)
        return false;
    sink->links = fdopen(fd, "w+");
    if (sink->links != NULL)
        return true;
    close(fd);
    return error_set(error, ERROR_MEMORY, "no memory for hard links");
}

void sink_links_entry(struct file_sink *sink, const struct entry *entry)
{
    char target[SINK_PATH_MAX + 2];
    struct error error = {0};
    if (!sink_target_path(sink, entry, target))
        return;
    if (!open_spool(sink, &error) || !write_path(sink->links, sink->path) ||
        !write_path(sink->links, target)) {
        error_set_errno(&error, errno, "cannot write a temporary file in TMPDIR (or /tmp)");
        sink_fail(sink, &error);
    }
}

void sink_links_close(struct file_sink *sink)
{
    if (sink->links != NULL)
        fclose(sink->links);
    sink->links = NULL;
}

/* ---- making them ---- */

/* A name to be made, and what it leads to. */
struct link {
    char path[SINK_PATH_MAX + 2], target[SINK_PATH_MAX + 2];
    char wanted[SINK_PATH_MAX + 2];    /* the last target */
    char stands_in[SINK_PATH_MAX + 2]; /* a copy of it that further names are linked to, "" */
};

static bool copy_bytes(int from, int to, struct error *error)
{
    uint8_t *buffer = malloc(COPY_SIZE);
    if (buffer == NULL)
        return error_set(error, ERROR_MEMORY, "no memory to copy it");
    ssize_t got;
    uint64_t at = 0;
    bool good = true;
    while (good && (got = read(from, buffer, COPY_SIZE)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        good = got > 0 && write_at(to, buffer, (size_t)got, at);
        at += got > 0 ? (uint64_t)got : 0;
    }
    if (!good)
        error_set_errno(error, errno, "cannot be copied instead of linked");
    free(buffer);
    return good;
}

/* The target's own mode, owner and time. */
static bool copy_facts(int fd, const struct stat *status, struct error *error)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, status->st_mtim};
    if (fchown(fd, status->st_uid, status->st_gid) != 0)
        errno = 0; /* ours then */
    if (fchmod(fd, status->st_mode & 0777) != 0 || futimens(fd, times) != 0 || fsync(fd) != 0)
        return error_set_errno(error, errno, "cannot be copied instead of linked");
    return true;
}

static bool copy_instead(int target_parent, const char *target_leaf, int parent, const char *name,
                         struct error *error)
{
    struct stat status;
    int from = openat(target_parent, target_leaf, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    int to = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool done = from >= 0 && to >= 0 && fstat(from, &status) == 0;
    if (!done)
        error_set_errno(error, errno, "cannot be copied instead of linked");
    done = done && copy_bytes(from, to, error) && copy_facts(to, &status, error);
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return done;
}

static bool has_no_more(int os_errno)
{
    return os_errno == EMLINK || os_errno == EXDEV || os_errno == ENOSYS || os_errno == EINVAL ||
           sink_cannot_hold(os_errno);
}

/* Puts a link under a temporary name, or a copy. */
static bool make_temporary(struct file_sink *sink, struct link *link, int target_parent, int parent,
                           const char *name, struct error *error)
{
    const char *leaf = beneath_leaf(link->target);
    unlinkat(parent, name, 0); /* of an earlier run */
    if (linkat(target_parent, leaf, parent, name, 0) == 0)
        return true;
    if (!has_no_more(errno))
        return error_set_errno(error, errno, "the link cannot be made");
    if (!copy_instead(target_parent, leaf, parent, name, error)) {
        unlinkat(parent, name, 0);
        return false;
    }
    sink_lost(sink, LOSS_HARD_LINK);
    strcpy(link->stands_in, link->path);
    return true;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* --existing and --ignore-existing: whether the name is there decides. */
static bool is_unwanted(struct file_sink *sink, const char *path)
{
    const uint64_t flags = TRANSFER_EXISTING | TRANSFER_IGNORE_EXISTING;
    struct stat status;
    if ((sink->flags & flags) == 0)
        return false;
    int parent = sink_parent(sink, path, false);
    bool there =
        parent >= 0 && fstatat(parent, beneath_leaf(path), &status, AT_SYMLINK_NOFOLLOW) == 0;
    return (sink->flags & (there ? TRANSFER_IGNORE_EXISTING : TRANSFER_EXISTING)) != 0;
}

static bool make_link(struct file_sink *sink, struct link *link, struct error *error)
{
    struct stat target, there;
    if (is_unwanted(sink, link->path))
        return true;
    int target_parent = sink_parent(sink, link->target, false);
    bool found = target_parent >= 0 && fstatat(target_parent, beneath_leaf(link->target), &target,
                                               AT_SYMLINK_NOFOLLOW) == 0;
    if (!found && sink_is_dry(sink) && (sink->flags & TRANSFER_EXISTING) == 0) /* it would come */
        return foresee_leaf(sink, link->path, error);
    if (!found)
        return error_set(error, ERROR_NOT_FOUND, "the file whose other name it is did not come");
    if (S_ISDIR(target.st_mode))
        return error_set(error, ERROR_EXISTS,
                         "a directory is where the file should be whose "
                         "other name it is");
    int parent = sink_parent(sink, link->path, !sink_is_dry(sink));
    if (parent < 0 && sink_is_dry(sink))
        return foresee_leaf(sink, link->path, error);
    if (parent < 0)
        return sink_not_made(error, "its directory cannot be opened");
    const char *leaf = beneath_leaf(link->path);
    if (fstatat(parent, leaf, &there, AT_SYMLINK_NOFOLLOW) == 0) {
        if (same_file(&target, &there))
            return true;
        if (S_ISDIR(there.st_mode))
            return error_set(error, ERROR_EXISTS,
                             "a directory is in the way and is left alone; move it away");
    }
    if (sink_is_dry(sink))
        return foresee_leaf(sink, link->path, error);
    target_parent = sink_parent(sink, link->target, false); /* the other call may have closed it */
    char name[TEMP_NAME_SIZE];
    sink_temp_name(sink_temp_of(sink, link->path), name);
    if (!make_temporary(sink, link, target_parent, parent, name, error))
        return false;
    if (renameat(parent, name, parent, leaf) == 0)
        return true;
    error_set_errno(error, errno, "cannot be given its name");
    unlinkat(parent, name, 0);
    return false;
}

/* Further names of a file that could not be linked are linked to the copy. */
static void choose_target(struct link *link)
{
    if (strcmp(link->wanted, link->target) != 0) {
        strcpy(link->wanted, link->target);
        link->stands_in[0] = '\0';
    }
    if (link->stands_in[0] != '\0')
        strcpy(link->target, link->stands_in);
}

void sink_links_finish(struct file_sink *sink)
{
    if (sink->links == NULL || sink->has_failed)
        return;
    struct link *link = calloc(1, sizeof *link);
    bool good = link != NULL && fflush(sink->links) == 0;
    rewind(sink->links);
    int next;
    while (good && !sink->has_failed && !sink_is_stopped(sink) &&
           (next = fgetc(sink->links)) != EOF) {
        ungetc(next, sink->links);
        good = read_path(sink->links, link->path) && read_path(sink->links, link->target);
        struct error error = {0};
        if (good)
            choose_target(link);
        if (good && !make_link(sink, link, &error))
            sink_file_failed(sink, link->path, false, &error);
    }
    free(link);
    struct error error = {0};
    if (!good) {
        error_set(&error, ERROR_IO, "the list of hard links in TMPDIR cannot be read back");
        sink_fail(sink, &error);
    }
}
