#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/sink_internal.h"

#define SYNC_ALONE 8       /* up to so many files are synced one by one, without syncfs */
#define DIRECTORY_SYNCS 64 /* up to so many directories */
#define DEVICES 16         /* file systems that one batch remembers */

bool batch_holds_temp(const struct file_sink *sink, uint64_t temp)
{
    for (size_t i = 0; i < sink->batch.count; i++) {
        if (sink->batch.files[i].temp == temp)
            return true;
    }
    return false;
}

bool batch_is_due(const struct file_sink *sink)
{
    const struct batch *batch = &sink->batch;
    return batch->count == BATCH_FILES || batch->bytes >= BATCH_BYTES ||
           (batch->count > 0 && sink_clock_ns() - batch->since_ns >= BATCH_NS);
}

static void discard_file(struct file_sink *sink, struct waiting_file *file)
{
    char name[TEMP_NAME_SIZE];
    sink_temp_name(file->temp, name);
    int parent = sink_parent(sink, file->path, false);
    if (parent >= 0)
        unlinkat(parent, name, 0);
}

static void fail_file(struct file_sink *sink, struct waiting_file *file, const struct error *error)
{
    discard_file(sink, file);
    file->has_failed = true;
    sink_file_failed(sink, file->path, !file->is_link, error);
}

static void empty(struct file_sink *sink)
{
    struct batch *batch = &sink->batch;
    for (size_t i = 0; i < batch->count; i++)
        free(batch->files[i].path);
    batch->count = 0;
    batch->bytes = 0;
}

void batch_discard(struct file_sink *sink)
{
    for (size_t i = 0; i < sink->batch.count; i++)
        discard_file(sink, &sink->batch.files[i]);
    empty(sink);
    free(sink->batch.files);
    sink->batch.files = NULL;
}

/* ---- making the bytes durable ---- */

struct synced {
    dev_t devices[DEVICES];
    size_t count;
};

/* syncfs of the file system that holds `directory`, once a batch. */
static bool sync_file_system(struct synced *synced, int directory)
{
    struct stat status;
    if (fstat(directory, &status) != 0)
        return false;
    for (size_t i = 0; i < synced->count; i++) {
        if (synced->devices[i] == status.st_dev)
            return true;
    }
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool done = fd >= 0 && syncfs(fd) == 0;
    if (fd >= 0)
        close(fd);
    if (done && synced->count < DEVICES)
        synced->devices[synced->count++] = status.st_dev;
    return done;
}

static bool sync_file(struct file_sink *sink, const struct waiting_file *file, struct error *error)
{
    char name[TEMP_NAME_SIZE];
    sink_temp_name(file->temp, name);
    int parent = sink_parent(sink, file->path, false);
    int fd = parent >= 0 ? openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0 && parent >= 0 && errno == EACCES) { /* its mode is not for us to read */
        struct synced none = {.count = 0};
        return sync_file_system(&none, parent) || error_set_errno(error, errno, "cannot be synced");
    }
    bool done = fd >= 0 && fsync(fd) == 0;
    if (!done)
        error_set_errno(error, errno, "cannot be synced");
    if (fd >= 0)
        close(fd);
    return done;
}

static void sync_one_by_one(struct file_sink *sink)
{
    for (size_t i = 0; i < sink->batch.count; i++) {
        struct waiting_file *file = &sink->batch.files[i];
        struct error error = {0};
        if (!file->is_link && !sync_file(sink, file, &error))
            fail_file(sink, file, &error);
    }
}

/* When a whole file system cannot be synced, the files tell one by one which of them suffered.
 * False then: the system may have dropped a file, and with it what it knows of its errors. */
static bool sync_files(struct file_sink *sink)
{
    struct batch *batch = &sink->batch;
    struct synced synced = {.count = 0};
    bool alone = batch->count <= SYNC_ALONE, done = true;
    for (size_t i = 0; i < batch->count && done && !alone; i++) {
        int parent = sink_parent(sink, batch->files[i].path, false);
        done = parent >= 0 && sync_file_system(&synced, parent);
    }
    if (alone || !done)
        sync_one_by_one(sink);
    return done;
}

/* ---- final names ---- */

/* The same type, size and time: what another petrel, perhaps the one that this run follows, has
 * made of the same file meanwhile. */
static bool is_twin(int parent, const char *name, const char *leaf)
{
    struct stat a, b;
    return fstatat(parent, name, &a, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(parent, leaf, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
           (a.st_mode & S_IFMT) == (b.st_mode & S_IFMT) && a.st_size == b.st_size &&
           a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

/* What is new replaces nothing that came meanwhile, where the file system has RENAME_NOREPLACE. */
static bool rename_in(int parent, const char *name, const char *leaf, bool is_new)
{
    if (is_new && renameat2(parent, name, parent, leaf, RENAME_NOREPLACE) == 0)
        return true;
    bool plain = !is_new || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
    if (!plain && errno == EEXIST) {
        plain = is_twin(parent, name, leaf);
        errno = EEXIST;
    }
    return plain && renameat(parent, name, parent, leaf) == 0;
}

bool batch_rename(struct file_sink *sink, const char *path, uint64_t temp, bool is_new,
                  struct error *error)
{
    char name[TEMP_NAME_SIZE];
    sink_temp_name(temp, name);
    int parent = sink_parent(sink, path, false);
    if (parent >= 0 && rename_in(parent, name, beneath_leaf(path), is_new))
        return true;
    if (errno == EEXIST)
        return error_set(error, ERROR_EXISTS,
                         "its name was taken meanwhile, or is another's that differs only in upper "
                         "and lower case; what is there is left alone");
    if (errno == EISDIR)
        return error_set(error, ERROR_EXISTS,
                         "a directory is in the way and is left alone; move it away");
    return error_set_errno(error, errno, "cannot be given its name");
}

static bool same_parent(const char *a, const char *b)
{
    size_t size = (size_t)(beneath_leaf(a) - a);
    return size == (size_t)(beneath_leaf(b) - b) && memcmp(a, b, size) == 0;
}

/* Runs of files in one directory: how many syncs the batch's directories need. */
static size_t count_runs(const struct batch *batch)
{
    size_t runs = batch->count > 0;
    for (size_t i = 1; i < batch->count; i++)
        runs += !same_parent(batch->files[i].path, batch->files[i - 1].path);
    return runs;
}

/* A directory that cannot be opened for reading cannot be synced alone, nor can its file system be
 * through it. */
static bool sync_through(int directory)
{
    struct synced none = {.count = 0};
    return fsync(directory) == 0 || errno == EINVAL || sync_file_system(&none, directory);
}

bool batch_sync_directory(struct file_sink *sink, const char *path)
{
    size_t size = (size_t)(beneath_leaf(path) - path);
    int parent = sink_parent(sink, path, false);
    if (parent < 0)
        return false;
    return sync_through(parent) ||
           (errno == EACCES && directory_make_accessible(sink, path, size > 0 ? size - 1 : 0) &&
            sync_through(parent));
}

static void sync_directories(struct file_sink *sink)
{
    struct batch *batch = &sink->batch;
    bool alone = count_runs(batch) <= DIRECTORY_SYNCS;
    struct synced synced = {.count = 0};
    bool done = true;
    int failure = 0;
    for (size_t i = 0; i < batch->count; i++) {
        struct waiting_file *file = &batch->files[i];
        bool follows = i > 0 && same_parent(file->path, batch->files[i - 1].path);
        if (!follows) {
            int parent = sink_parent(sink, file->path, false);
            done = (!alone && parent >= 0 && sync_file_system(&synced, parent)) ||
                   batch_sync_directory(sink, file->path);
            failure = errno;
        }
        if (done || file->has_failed)
            continue;
        struct error error = {0};
        error_set_errno(&error, failure, "its directory cannot be synced");
        file->has_failed = true;
        sink_file_failed(sink, file->path, !file->is_link, &error);
    }
}

/* What was synced is read back, not from memory. */
static void read_back(struct file_sink *sink, struct waiting_file *file)
{
    char name[TEMP_NAME_SIZE];
    struct error error = {0};
    uint8_t hash[TREE_HASH_SIZE];
    sink_temp_name(file->temp, name);
    int parent = sink_parent(sink, file->path, false);
    int fd = parent >= 0 ? openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    struct tree_hash *parts = tree_hash_new(file->size);
    bool read = fd >= 0 && parts != NULL && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
    uint32_t count = (uint32_t)pack_block_count(file->size), length;
    for (uint32_t i = 0; i < count && read; i++)
        read =
            holding_read(sink, fd, file->size, i, hash, &length) && tree_hash_add(parts, i, hash);
    if (count == 0)
        tree_hash_whole("", 0, hash);
    if (!read)
        error_set_errno(&error, errno, "cannot be read back from the disk");
    else if ((count > 0 && !tree_hash_result(parts, hash)) ||
             memcmp(hash, file->hash, sizeof hash) != 0)
        error_set(&error, ERROR_VERIFY, "the disk gives back other bytes than were written");
    if (error.kind != ERROR_NONE)
        fail_file(sink, file, &error);
    tree_hash_free(parts);
    if (fd >= 0)
        close(fd);
}

void batch_flush(struct file_sink *sink)
{
    struct batch *batch = &sink->batch;
    bool certain = sync_files(sink);
    bool reads = !certain || (sink->flags & TRANSFER_VERIFY_DISK) != 0;
    for (size_t i = 0; i < batch->count && reads; i++) {
        struct waiting_file *file = &batch->files[i];
        if (!file->has_failed && !file->is_link)
            read_back(sink, file);
    }
    for (size_t i = 0; i < batch->count; i++) {
        struct waiting_file *file = &batch->files[i];
        struct error error = {0};
        if (!file->has_failed && !batch_rename(sink, file->path, file->temp, file->is_new, &error))
            fail_file(sink, file, &error);
    }
    sync_directories(sink);
    for (size_t i = 0; i < batch->count; i++) {
        const struct waiting_file *file = &batch->files[i];
        if (!file->has_failed && !file->is_link)
            sink_file_done(sink, file->path, file->size, file->hash);
    }
    empty(sink);
}

void batch_add(struct file_sink *sink, const struct waiting_file *waiting)
{
    struct batch *batch = &sink->batch;
    if (batch->files == NULL)
        batch->files = calloc(BATCH_FILES, sizeof *batch->files);
    if (batch->files != NULL && batch->count == BATCH_FILES)
        batch_flush(sink);
    struct waiting_file file = *waiting;
    file.path = strdup(waiting->path);
    if (batch->files == NULL || file.path == NULL) {
        struct error error = {0};
        error_set(&error, ERROR_MEMORY, "no memory to finish it");
        free(file.path);
        file.path = waiting->path;
        discard_file(sink, &file);
        sink_file_failed(sink, file.path, !file.is_link, &error);
        return;
    }
    if (batch->count == 0)
        batch->since_ns = sink_clock_ns();
    batch->files[batch->count++] = file;
    batch->bytes += file.size;
}
