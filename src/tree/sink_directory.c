#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/sink_internal.h"
#include "tree/spool_file.h"

/* Modes and times of directories are set at the end, when nothing is made in them any more. They
 * wait in a spool file, so that memory does not grow with the number of directories. Those whose
 * own mode shuts us out are set last, the deepest first. */
struct record {
    uint32_t size, depth, mode, mtime_ns, extra_size; /* path and extra follow */
    int64_t mtime_s;
    bool keep_mode; /* --no-perms: it was there */
    bool restore;   /* only the mode, and only if it is still the one we gave */
};

#define DIRECTORY_MODE 03777

static unsigned depth_of(const char *path)
{
    unsigned depth = 1;
    for (; *path != '\0'; path++)
        depth += *path == '/';
    return depth;
}

static bool shuts_us_out(uint32_t mode)
{
    return (mode & 0100) == 0 && geteuid() != 0;
}

static bool open_spool(struct spool *spool, struct error *error)
{
    if (spool->file != NULL)
        return true;
    int fd = spool_file_open(error);
    if (fd < 0)
        return false;
    spool->file = fdopen(fd, "w+");
    if (spool->file != NULL)
        return true;
    close(fd);
    return error_set(error, ERROR_MEMORY, "no memory for the list of directories");
}

static void remember(struct file_sink *sink, const char *path, struct record record,
                     const uint8_t *extra)
{
    struct spool *spool = &sink->spool;
    struct error error = {0};
    record.size = (uint32_t)strlen(path);
    record.depth = depth_of(path);
    if (shuts_us_out(record.mode) && record.depth > spool->deepest)
        spool->deepest = record.depth;
    if (!open_spool(spool, &error) || fwrite(&record, sizeof record, 1, spool->file) != 1 ||
        (record.size > 0 && fwrite(path, record.size, 1, spool->file) != 1) ||
        (record.extra_size > 0 && fwrite(extra, record.extra_size, 1, spool->file) != 1)) {
        error_set_errno(&error, errno, "cannot write a temporary file in TMPDIR (or /tmp)");
        sink_fail(sink, &error);
    }
}

/* chmod of what a descriptor of kind O_PATH names, whatever rights its mode leaves us. */
static bool change_mode(int fd, uint32_t mode)
{
    if (fchmodat(fd, ".", mode, 0) == 0)
        return true;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return chmod(path, mode) == 0;
}

bool directory_could_be_accessible(const struct file_sink *sink, int fd, size_t size,
                                   struct stat *status)
{
    bool ours =
        fstat(fd, status) == 0 && status->st_uid == geteuid() && (status->st_mode & 0700) != 0700;
    bool contents = false; /* a directory that is only a destination keeps its protection */
    for (size_t i = 0; i < sink->place.count; i++)
        contents = contents || size > 0 || sink->place.prefixes[i][0] == '\0';
    return ours && contents;
}

bool directory_make_accessible(struct file_sink *sink, const char *path, size_t size)
{
    char copy[SINK_PATH_MAX + 1];
    memcpy(copy, path, size);
    copy[size] = '\0';
    struct stat status;
    int fd = beneath_open(sink->place.root, copy, O_PATH | O_DIRECTORY, 0);
    bool done = fd >= 0 && directory_could_be_accessible(sink, fd, size, &status) &&
                change_mode(fd, (status.st_mode & 07777) | 0700);
    if (fd >= 0)
        close(fd);
    if (done)
        remember(sink, copy, (struct record){.mode = status.st_mode & 07777, .restore = true},
                 NULL);
    errno = EACCES;
    return done;
}

/* Makes the directory, or accepts the one that is there. */
static bool make(struct file_sink *sink, bool *is_new, struct error *error)
{
    *is_new = true;
    const char *leaf = beneath_leaf(sink->path);
    int parent = sink_parent(sink, sink->path, true);
    if (parent < 0)
        return sink_not_made(error, "the directory that should hold it cannot be opened");
    if (mkdirat(parent, leaf, 0700) == 0)
        return true;
    size_t size = (size_t)(leaf - sink->path);
    if (errno == EACCES && directory_make_accessible(sink, sink->path, size > 0 ? size - 1 : 0) &&
        mkdirat(parent, leaf, 0700) == 0)
        return true;
    *is_new = false;
    if (errno != EEXIST)
        return error_set_errno(error, errno, "the directory cannot be made");
    struct stat status;
    if (fstatat(parent, leaf, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode))
        return true;
    return error_set(error, ERROR_EXISTS,
                     "%s is where a directory should be and is left alone; move it away",
                     S_ISLNK(status.st_mode) ? "a link" : "a file");
}

void directory_entry(struct file_sink *sink, const struct entry *entry)
{
    struct error error = {0};
    bool is_root = sink->path[0] == '\0', is_new = true;
    if (is_root && !sink->place.root_made)
        return; /* the contents were asked for: the directory they go to keeps its own */
    if (!is_root && !make(sink, &is_new, &error)) {
        sink_file_failed(sink, sink->path, false, &error);
        return;
    }
    bool no_perms = (sink->flags & TRANSFER_NO_PERMS) != 0;
    remember(sink, sink->path,
             (struct record){.mode = facts_mode(sink, entry->mode & DIRECTORY_MODE, NULL),
                             .mtime_s = entry->mtime_s,
                             .mtime_ns = entry->mtime_ns,
                             .extra_size = (uint32_t)entry->extra_size,
                             .keep_mode = no_perms && !is_new},
             entry->extra);
}

static bool apply(struct file_sink *sink, const char *path, const struct record *record,
                  const uint8_t *extra, struct error *error)
{
    struct facts facts = {.extra = extra, .extra_size = record->extra_size};
    uint32_t kept = 0;
    int fd = beneath_open(sink->place.root, path, O_PATH | O_DIRECTORY, 0);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        error_set_errno(error, errno, "the directory cannot be opened again");
        if (fd >= 0)
            close(fd);
        return false;
    }
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = record->mtime_s, .tv_nsec = record->mtime_ns}};
    uint32_t mode = status.st_mode & 07777;
    bool done = true;
    if (!record->restore)
        facts_set_directory(sink, fd, &facts, &kept);
    if (!record->restore && (sink->flags & TRANSFER_NO_TIMES) == 0)
        done = utimensat(fd, ".", times, 0) == 0;
    uint32_t given = record->keep_mode ? mode : record->mode;
    if (!record->restore && (kept & S_ISGID) == 0) {
        /* The group that it is for is not copied; but where the destination has it set already, by
         * inheritance or by its owner, it stays. */
        if ((given & ~mode & S_ISGID) != 0)
            sink_lost(sink, LOSS_SET_GROUP);
        given = (given & ~(uint32_t)S_ISGID) | (mode & S_ISGID);
    }
    bool wanted = record->restore ? mode == (given | 0700) : mode != given;
    if (done && wanted)
        done = change_mode(fd, given);
    if (!done)
        error_set_errno(error, errno, "the directory's mode and time cannot be set");
    close(fd);
    return done;
}

/* One pass over the spool: applies what `depth` asks for (0: all that do not shut us out). */
static bool pass(struct file_sink *sink, unsigned depth)
{
    FILE *file = sink->spool.file;
    struct record record;
    char path[SINK_PATH_MAX + 1];
    uint8_t *extra = malloc(ATTRIBUTES_MAX);
    bool good = extra != NULL;
    rewind(file);
    while (good && fread(&record, sizeof record, 1, file) == 1) {
        good = record.size <= SINK_PATH_MAX && record.extra_size <= ATTRIBUTES_MAX &&
               (record.size == 0 || fread(path, record.size, 1, file) == 1) &&
               (record.extra_size == 0 || fread(extra, record.extra_size, 1, file) == 1);
        if (!good)
            break;
        path[record.size] = '\0';
        unsigned wanted = shuts_us_out(record.mode) ? record.depth : 0;
        struct error error = {0};
        if (wanted == depth && !apply(sink, path, &record, extra, &error) && !record.restore)
            sink_file_failed(sink, path, false, &error);
    }
    free(extra);
    return good && ferror(file) == 0;
}

void directory_finish(struct file_sink *sink)
{
    struct spool *spool = &sink->spool;
    if (spool->file == NULL)
        return;
    bool done = fflush(spool->file) == 0 && pass(sink, 0);
    for (unsigned depth = spool->deepest; depth > 0 && done; depth--)
        done = pass(sink, depth);
    if (done)
        return;
    struct error error = {0};
    error_set(&error, ERROR_IO, "the list of directories in TMPDIR cannot be read back");
    sink_fail(sink, &error);
}

/* Names in directories of the copy are synced by their file system. Without any, what an earlier
 * run has named and this one found there may have a name that is not durable yet. */
void directory_sync(struct file_sink *sink)
{
    bool has_directories = sink->spool.file != NULL;
    if (!has_directories && sink->files_skipped == 0)
        return;
    int root = openat(sink->place.root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct error error = {0};
    if (root < 0)
        return; /* not ours to read: what was renamed in it was synced by name */
    int result = has_directories ? syncfs(root) : fsync(root);
    if (result != 0 && (has_directories || errno != EINVAL)) {
        error_set_errno(&error, errno, "the destination cannot be synced");
        sink_fail(sink, &error);
    }
    close(root);
}

void directory_close(struct file_sink *sink)
{
    if (sink->spool.file != NULL)
        fclose(sink->spool.file);
    sink->spool.file = NULL;
}
