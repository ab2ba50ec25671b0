#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/sink_internal.h"

#define DESCRIPTORS_WANTED 20000 /* three batches, and what else is open */
#define DESCRIPTORS_KEPT 512     /* for what is no file of a batch */
#define BATCHES_OPEN 3           /* being filled, synced, and one to spare */
#define BATCH_LEAST 16

size_t batch_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return BATCH_LEAST;
    if (limit.rlim_cur < DESCRIPTORS_WANTED && limit.rlim_cur < limit.rlim_max) {
        struct rlimit raised = limit;
        raised.rlim_cur = limit.rlim_max < DESCRIPTORS_WANTED ? limit.rlim_max : DESCRIPTORS_WANTED;
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            limit = raised;
    }
    if (limit.rlim_cur < DESCRIPTORS_KEPT + BATCHES_OPEN * BATCH_LEAST)
        return BATCH_LEAST;
    size_t files = (size_t)(limit.rlim_cur - DESCRIPTORS_KEPT) / BATCHES_OPEN;
    return files < BATCH_FILES ? files : BATCH_FILES;
}

static bool holds_temp(const struct batch *batch, uint64_t temp)
{
    uint64_t mark = temp % BATCH_MARKS;
    if ((batch->marks[mark / 8] >> mark % 8 & 1) == 0)
        return false;
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->files[i].temp == temp)
            return true;
    }
    return false;
}

bool batch_holds_temp(const struct file_sink *sink, uint64_t temp)
{
    return holds_temp(&sink->batch, temp) || holds_temp(&sink->syncing, temp);
}

static void close_file(struct waiting_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

static void discard_file(struct file_sink *sink, struct waiting_file *file)
{
    char name[TEMP_NAME_SIZE];
    close_file(file);
    if (file->is_unnamed)
        return;
    sink_temp_name(file->temp, name);
    int parent = sink_parent(sink, file->path, false);
    if (parent >= 0)
        unlinkat(parent, name, 0);
}

void batch_fail_file(struct file_sink *sink, struct waiting_file *file, const struct error *error)
{
    discard_file(sink, file);
    file->has_failed = true;
    sink_file_failed(sink, file->path, !file->is_link, error);
}

static void empty(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        free(batch->files[i].path);
    batch->count = 0;
    batch->bytes = 0;
    memset(batch->marks, 0, sizeof batch->marks);
}

static void discard(struct file_sink *sink, struct batch *batch, bool is_named)
{
    for (size_t i = 0; i < batch->count && !is_named; i++)
        discard_file(sink, &batch->files[i]);
    empty(batch);
    free(batch->files);
    *batch = (struct batch){0};
}

void batch_discard(struct file_sink *sink)
{
    int failure;
    sync_is_done(sink, true, &failure);
    discard(sink, &sink->batch, false);
    discard(sink, &sink->syncing, false);
    discard(sink, &sink->named, true);
    discard(sink, &sink->naming, true);
}

/* ---- final names ---- */

static bool is_alike(const struct stat *a, const struct stat *b)
{
    return (a->st_mode & S_IFMT) == (b->st_mode & S_IFMT) && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The same type, size and time: what another petrel, perhaps the one that this run follows, has
 * made of the same file meanwhile. */
static bool is_twin(int parent, const char *name, const char *leaf)
{
    struct stat a, b;
    return fstatat(parent, name, &a, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(parent, leaf, &b, AT_SYMLINK_NOFOLLOW) == 0 && is_alike(&a, &b);
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

static bool set_name_error(struct error *error)
{
    if (errno == EEXIST)
        return error_set(error, ERROR_EXISTS,
                         "its name was taken meanwhile, or is another's that differs only in upper "
                         "and lower case; what is there is left alone");
    if (errno == EISDIR)
        return error_set(error, ERROR_EXISTS,
                         "a directory is in the way and is left alone; move it away");
    return error_set_errno(error, errno, "cannot be given its name");
}

bool batch_rename(struct file_sink *sink, const char *path, uint64_t temp, bool is_new,
                  struct error *error)
{
    char name[TEMP_NAME_SIZE];
    sink_temp_name(temp, name);
    int parent = sink_parent(sink, path, false);
    if (parent >= 0 && rename_in(parent, name, beneath_leaf(path), is_new))
        return true;
    return set_name_error(error);
}

/* A twin that has the name is replaced, by way of a temporary one. */
static bool replace_twin(struct file_sink *sink, struct waiting_file *file, int parent)
{
    char name[TEMP_NAME_SIZE];
    struct stat ours, theirs;
    const char *leaf = beneath_leaf(file->path);
    bool twin = fstat(file->fd, &ours) == 0 &&
                fstatat(parent, leaf, &theirs, AT_SYMLINK_NOFOLLOW) == 0 &&
                is_alike(&ours, &theirs);
    errno = EEXIST;
    if (!twin)
        return false;
    file->temp = sink_temp_of(sink, file->path);
    sink_temp_name(file->temp, name);
    unlinkat(parent, name, 0);
    if (!unnamed_link(sink, file->fd, parent, name))
        return false;
    file->is_unnamed = false;
    return renameat(parent, name, parent, leaf) == 0;
}

static bool give_name(struct file_sink *sink, struct waiting_file *file, struct error *error)
{
    if (!file->is_unnamed)
        return batch_rename(sink, file->path, file->temp, file->is_new, error);
    int parent = sink_parent(sink, file->path, false);
    if (parent >= 0 && (unnamed_link(sink, file->fd, parent, beneath_leaf(file->path)) ||
                        (errno == EEXIST && replace_twin(sink, file, parent))))
        return true;
    return set_name_error(error);
}

/* What was synced is read back, not from memory. */
static void read_back(struct file_sink *sink, struct waiting_file *file)
{
    struct error error = {0};
    uint8_t hash[TREE_HASH_SIZE];
    struct tree_hash *parts = tree_hash_new(file->size);
    bool read = parts != NULL && posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
    uint32_t count = (uint32_t)pack_block_count(file->size), length;
    for (uint32_t i = 0; i < count && read; i++)
        read = holding_read(sink, file->fd, file->size, i, hash, &length) &&
               tree_hash_add(parts, i, hash);
    if (count == 0)
        tree_hash_whole("", 0, hash);
    if (!read)
        error_set_errno(&error, errno, "cannot be read back from the disk");
    else if ((count > 0 && !tree_hash_result(parts, hash)) ||
             memcmp(hash, file->hash, sizeof hash) != 0)
        error_set(&error, ERROR_VERIFY, "the disk gives back other bytes than were written");
    if (error.kind != ERROR_NONE)
        batch_fail_file(sink, file, &error);
    tree_hash_free(parts);
}

/* The bytes are on the disk. Not `certain`: the system may have dropped a file, and with it what it
 * knows of its errors. */
static void give_names(struct file_sink *sink, struct batch *batch, bool certain)
{
    bool reads = !certain || (sink->flags & TRANSFER_VERIFY_DISK) != 0;
    for (size_t i = 0; i < batch->count && reads; i++) {
        struct waiting_file *file = &batch->files[i];
        if (!file->has_failed && !file->is_link)
            read_back(sink, file);
    }
    for (size_t i = 0; i < batch->count; i++) {
        struct waiting_file *file = &batch->files[i];
        struct error error = {0};
        if (!file->has_failed && !give_name(sink, file, &error))
            batch_fail_file(sink, file, &error);
        close_file(file);
    }
}

/* The names are on the disk. */
static void tell(struct file_sink *sink, struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct waiting_file *file = &batch->files[i];
        if (!file->has_failed && !file->is_link)
            sink_file_done(sink, file->path, file->size, file->hash);
    }
    empty(batch);
}

/* ---- the order of it ---- */

static void move(struct batch *from, struct batch *to)
{
    struct batch old = *to;
    *to = *from;
    *from = old;
}

static void take_synced(struct file_sink *sink, bool wait)
{
    int failure;
    if (!sync_is_done(sink, wait, &failure))
        return;
    if (failure != 0)
        sync_names(sink, &sink->naming);
    tell(sink, &sink->naming);
    if (failure != 0)
        sync_one_by_one(sink, &sink->syncing);
    give_names(sink, &sink->syncing, failure == 0);
    move(&sink->syncing, &sink->named);
}

static bool is_full(const struct file_sink *sink)
{
    return sink->batch.count >= sink->batch_files || sink->batch.bytes >= BATCH_BYTES;
}

static bool is_due(const struct file_sink *sink)
{
    const struct batch *batch = &sink->batch;
    uint64_t limit_ns = sink->files_done == 0 ? BATCH_FIRST_NS : BATCH_NS;
    return is_full(sink) || (batch->count > 0 && sink_clock_ns() - batch->since_ns >= limit_ns);
}

void batch_step(struct file_sink *sink)
{
    take_synced(sink, false);
    if (!is_due(sink) || (sink->sync.has_begun && !is_full(sink)))
        return;
    if (sink->batch.count <= SYNC_ALONE && !sink->sync.has_begun) {
        batch_flush(sink);
        return;
    }
    take_synced(sink, true);
    move(&sink->batch, &sink->syncing);
    move(&sink->named, &sink->naming);
    sync_begin(sink);
}

void batch_flush(struct file_sink *sink)
{
    take_synced(sink, true);
    bool whole = sink->batch.count > SYNC_ALONE;
    bool certain = sync_bytes(sink, &sink->batch);
    if (!whole || !certain) /* else their names went with it */
        sync_names(sink, &sink->named);
    tell(sink, &sink->named);
    give_names(sink, &sink->batch, certain);
    sync_names(sink, &sink->batch);
    tell(sink, &sink->batch);
}

static bool has_room(struct batch *batch)
{
    if (batch->count < batch->capacity)
        return true;
    size_t capacity = batch->capacity * 2 + 64;
    struct waiting_file *files = realloc(batch->files, capacity * sizeof *files);
    if (files == NULL)
        return false;
    batch->files = files;
    batch->capacity = capacity;
    return true;
}

void batch_add(struct file_sink *sink, const struct waiting_file *waiting)
{
    struct batch *batch = &sink->batch;
    if (is_full(sink))
        batch_step(sink);
    struct waiting_file file = *waiting;
    file.path = strdup(waiting->path);
    if (file.path == NULL || !has_room(batch)) {
        struct error error = {0};
        error_set(&error, ERROR_MEMORY, "no memory to finish it");
        free(file.path);
        file.path = waiting->path;
        batch_fail_file(sink, &file, &error);
        return;
    }
    sync_remember(sink, file.device, sink_parent(sink, file.path, false), file.fd);
    if (batch->count == 0)
        batch->since_ns = sink_clock_ns();
    uint64_t mark = file.temp % BATCH_MARKS;
    batch->marks[mark / 8] |= (uint8_t)(1u << mark % 8);
    batch->files[batch->count++] = file;
    batch->bytes += file.size;
}
