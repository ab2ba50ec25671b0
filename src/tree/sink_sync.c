#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/sink_internal.h"

#define DIRECTORY_SYNCS 64 /* up to so many directories are synced one by one */

/* ---- file systems ---- */

void sync_remember(struct file_sink *sink, dev_t device, int parent, int fd)
{
    struct systems *systems = &sink->systems;
    for (size_t i = 0; i < systems->count; i++) {
        if (systems->devices[i] == device)
            return;
    }
    if (systems->count == SYSTEMS)
        return;
    int own = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own < 0 && fd >= 0) /* not ours to read, but any file of it will do */
        own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return;
    systems->devices[systems->count] = device;
    systems->fds[systems->count++] = own;
}

static bool knows_all(const struct file_sink *sink, const struct batch *batch)
{
    const struct systems *systems = &sink->systems;
    for (size_t i = 0; i < batch->count; i++) {
        size_t at = 0;
        while (at < systems->count && systems->devices[at] != batch->files[i].device)
            at++;
        if (at == systems->count)
            return false;
    }
    return true;
}

/* 0, or errno. */
static int sync_systems(const int *fds, size_t count)
{
    int failure = 0;
    for (size_t i = 0; i < count; i++) {
        if (syncfs(fds[i]) != 0)
            failure = errno;
    }
    return failure;
}

/* ---- beside other work ---- */

static void *run(void *context)
{
    struct sync_run *sync = context;
    sync->failure = sync_systems(sync->fds, sync->count);
    atomic_store(&sync->is_done, true);
    return NULL;
}

void sync_begin(struct file_sink *sink)
{
    struct sync_run *sync = &sink->sync;
    bool known = knows_all(sink, &sink->syncing) && knows_all(sink, &sink->naming);
    sync->count = known ? sink->systems.count : 0;
    memcpy(sync->fds, sink->systems.fds, sizeof sync->fds);
    sync->failure = known ? 0 : EXDEV;
    atomic_store(&sync->is_done, !known);
    sync->has_begun = true;
    sync->has_thread = known && pthread_create(&sync->thread, NULL, run, sync) == 0;
    if (known && !sync->has_thread)
        run(sync);
}

bool sync_is_done(struct file_sink *sink, bool wait, int *failure)
{
    struct sync_run *sync = &sink->sync;
    if (!sync->has_begun || (!wait && !atomic_load(&sync->is_done)))
        return false;
    if (sync->has_thread)
        pthread_join(sync->thread, NULL);
    sync->has_begun = sync->has_thread = false;
    *failure = sync->failure;
    return true;
}

void sync_close(struct file_sink *sink)
{
    for (size_t i = 0; i < sink->systems.count; i++)
        close(sink->systems.fds[i]);
    sink->systems.count = 0;
}

/* ---- bytes ---- */

void sync_one_by_one(struct file_sink *sink, struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct waiting_file *file = &batch->files[i];
        struct error error = {0};
        if (file->is_link || file->has_failed || fsync(file->fd) == 0)
            continue;
        error_set_errno(&error, errno, "cannot be synced");
        batch_fail_file(sink, file, &error);
    }
}

bool sync_bytes(struct file_sink *sink, struct batch *batch)
{
    bool alone = batch->count <= SYNC_ALONE;
    bool done = alone || (knows_all(sink, batch) &&
                          sync_systems(sink->systems.fds, sink->systems.count) == 0);
    if (alone || !done)
        sync_one_by_one(sink, batch);
    return done;
}

/* ---- names ---- */

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
    if (fsync(directory) == 0 || errno == EINVAL)
        return true;
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failure = fd < 0 ? errno : sync_systems(&fd, 1);
    if (fd >= 0)
        close(fd);
    errno = failure;
    return failure == 0;
}

bool sync_directory(struct file_sink *sink, const char *path)
{
    size_t size = (size_t)(beneath_leaf(path) - path);
    int parent = sink_parent(sink, path, false);
    if (parent < 0)
        return false;
    return sync_through(parent) ||
           (errno == EACCES && directory_make_accessible(sink, path, size > 0 ? size - 1 : 0) &&
            sync_through(parent));
}

void sync_names(struct file_sink *sink, struct batch *batch)
{
    if (count_runs(batch) > DIRECTORY_SYNCS && knows_all(sink, batch) &&
        sync_systems(sink->systems.fds, sink->systems.count) == 0)
        return;
    bool done = true;
    int failure = 0;
    for (size_t i = 0; i < batch->count; i++) {
        struct waiting_file *file = &batch->files[i];
        if (i == 0 || !same_parent(file->path, batch->files[i - 1].path)) {
            done = sync_directory(sink, file->path);
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
