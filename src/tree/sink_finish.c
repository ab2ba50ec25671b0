#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tree/sink_internal.h"

/* An error of a sync is final: what is in memory is not on the disk, and the next sync would not
 * say so again. */
static bool sync_file(struct large_file *file, struct error *error)
{
    if (fsync(file->fd) == 0)
        return true;
    file->sync_failed = true;
    return error_set_errno(error, errno, "cannot be synced");
}

/* Its time is set when the bytes are on the disk, not before: a file of the right size and time is
 * skipped unread. What could not be synced gets a time that no source has. */
static bool finish_in_place(struct file_sink *sink, struct large_file *file, struct error *error)
{
    struct stat status;
    if (file->is_device)
        return sync_file(file, error);
    if (fstat(file->fd, &status) == 0 && (uint64_t)status.st_size > file->size &&
        ftruncate(file->fd, (off_t)file->size) != 0)
        return error_set_errno(error, errno, "cannot be shortened");
    if (sync_file(file, error) && facts_set(sink, file->fd, &file->facts, error) &&
        sync_file(file, error))
        return true;
    if (file->sync_failed) {
        struct error failed = *error;
        futimens(file->fd, NULL);
        *error = (struct error){0};
        error_set(error, ERROR_IO,
                  "%.200s; what it holds now is not to be trusted: copy it again with --whole",
                  failed.text);
    }
    return false;
}

static bool finish_alone(struct file_sink *sink, struct large_file *file, struct error *error)
{
    if (file->in_place) {
        half_sweep(sink, file->path);
        sink_file_done(sink, file->path, file->size, file->result);
        return true;
    }
    if (!batch_rename(sink, file->path, file->temp, file->is_new, error))
        return false;
    file->made = false; /* nothing temporary is left but the journal */
    if (!sync_directory(sink, file->path))
        return error_set_errno(error, errno, "its directory cannot be synced");
    half_end(sink, file, false);
    sink_file_done(sink, file->path, file->size, file->result);
    return true;
}

static bool verify(struct large_file *file, struct error *error)
{
    uint8_t hash[TREE_HASH_SIZE];
    if (!tree_hash_result(file->hash, hash) || memcmp(hash, file->result, sizeof hash) != 0)
        return error_set(error, ERROR_VERIFY, "its bytes differ from their hash; copy it again");
    return true;
}

/* Its descriptor goes with it. */
static bool wait_in_batch(struct file_sink *sink, struct large_file *file, struct error *error)
{
    struct stat status;
    if (fstat(file->fd, &status) != 0)
        return error_set_errno(error, errno, "cannot be synced");
    struct waiting_file waiting = {.path = file->path,
                                   .fd = file->fd,
                                   .device = status.st_dev,
                                   .temp = file->temp,
                                   .size = file->size,
                                   .is_new = file->is_new};
    memcpy(waiting.hash, file->result, sizeof waiting.hash);
    if (file->direct)
        fcntl(file->fd, F_SETFL, 0);
    file->fd = -1;
    sink->large_open--;
    batch_add(sink, &waiting);
    return true;
}

/* What ends in a hole was not written to its end. */
static bool set_size(struct large_file *file, struct error *error)
{
    return !file->sparse || ftruncate(file->fd, (off_t)file->size) == 0 ||
           error_set_errno(error, errno, "cannot be given its size");
}

/* All but the name: the bytes are compared, what belongs to the file is set, and it is synced
 * unless it `waits` for its batch. */
static bool prepare(struct file_sink *sink, struct large_file *file, bool waits,
                    struct error *error)
{
    if (!verify(file, error) || !large_open(sink, file, error) || !set_size(file, error))
        return false;
    if (file->in_place)
        return finish_in_place(sink, file, error);
    return facts_set(sink, file->fd, &file->facts, error) && (waits || sync_file(file, error));
}

/* ---- read back from the disk ---- */

static bool begin_back(struct large_file *file, struct error *error)
{
    file->back = tree_hash_new(file->size);
    posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
    return file->back != NULL || error_set(error, ERROR_MEMORY, "no memory to read it back");
}

/* Whether that is not asked for, or done: then with an error when the disk gives other bytes. */
static bool is_read_back(struct file_sink *sink, struct large_file *file, struct error *error)
{
    uint8_t hash[TREE_HASH_SIZE];
    if ((sink->flags & TRANSFER_VERIFY_DISK) == 0)
        return true;
    if (file->back == NULL && !begin_back(file, error))
        return true;
    if (file->back_done < file->count)
        return false;
    if (!tree_hash_result(file->back, hash) || memcmp(hash, file->result, sizeof hash) != 0)
        error_set(error, ERROR_VERIFY, "the disk gives back other bytes than were written");
    return true;
}

bool large_wants_back(const struct large_file *file)
{
    return file->back != NULL && file->back_done < file->count;
}

bool large_read_back(struct file_sink *sink, struct large_file *file, struct error *error)
{
    uint8_t hash[TREE_HASH_SIZE];
    uint32_t length;
    if (!large_open(sink, file, error))
        return false;
    if (!holding_read(sink, file->fd, file->size, file->back_done, hash, &length))
        return error_set_errno(error, errno, "cannot be read back from the disk");
    if (!tree_hash_add(file->back, file->back_done, hash))
        return error_set(error, ERROR_MEMORY, "no memory to read it back");
    file->back_done++;
    return true;
}

/* When everything is there: compares, sets what belongs to it, and lets it appear. */
void large_finish_if_whole(struct file_sink *sink, struct large_file *file)
{
    if (sink_is_dry(sink)) {
        if (file->has_result)
            foresee_large_end(sink, file);
        return;
    }
    if (keep_finish_same(sink, file) || file->seen < file->count || !file->has_result)
        return;
    struct error error = {0};
    bool waits = file->size <= BATCH_FILE_MAX && file->journal == NULL && !file->in_place;
    bool done = file->back != NULL || prepare(sink, file, waits, &error);
    if (done && waits)
        done = wait_in_batch(sink, file, &error);
    else if (done && !is_read_back(sink, file, &error))
        return; /* comes again when that is done */
    else if (done)
        done = error.kind == ERROR_NONE && finish_alone(sink, file, &error);
    if (!done) {
        large_give_up(sink, file, &error);
        return;
    }
    large_take_out(sink, file);
}
