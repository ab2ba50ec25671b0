#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/sink_internal.h"
#include "tree/write_at.h"

#define DIRECT_MIN (4u << 20) /* smaller files gain nothing from direct writes */
#define DIRECT_ALIGNMENT 4096u
#define XFS_SUPER_MAGIC 0x58465342

/* ---- opening ---- */

static void close_oldest(struct file_sink *sink)
{
    struct large_file *oldest = NULL;
    for (size_t i = 0; i < sink->large_count; i++) {
        struct large_file *file = sink->large[i];
        if (file->fd >= 0 && (oldest == NULL || file->used < oldest->used))
            oldest = file;
    }
    if (oldest == NULL)
        return;
    close(oldest->fd);
    oldest->fd = -1;
    sink->large_open--;
}

static bool has_room(int fd, uint64_t size, struct error *error)
{
    struct statvfs space;
    struct stat status;
    uint64_t taken = fstat(fd, &status) == 0 ? (uint64_t)status.st_blocks * 512 : 0;
    if (fstatvfs(fd, &space) == 0 && space.f_frsize > 0 && space.f_blocks > 0 && taken < size &&
        (size - taken) / space.f_frsize > (uint64_t)space.f_bavail)
        return error_set(error, ERROR_NO_SPACE, "there is no room for its %llu bytes",
                         (unsigned long long)size);
    return true;
}

/* Takes the whole file's space before its first byte comes, where the file system can. In memory
 * (tmpfs) that would only clear pages that are written over at once: there the room is looked at.
 */
static bool reserve(struct file_sink *sink, struct large_file *file, int fd, bool may_share,
                    struct error *error)
{
    struct statfs system;
    int result;
    uint64_t size = file->size;
    bool known = fstatfs(fd, &system) == 0;
    if (known && may_share &&
        (system.f_type == BTRFS_SUPER_MAGIC || system.f_type == XFS_SUPER_MAGIC))
        return true; /* blocks of the old file take no room */
    if (known && system.f_type == TMPFS_MAGIC)
        return has_room(fd, size, error);
    do
        result = fallocate(fd, 0, 0, (off_t)size);
    while (result != 0 && errno == EINTR);
    if (result == 0) {
        file->counted = true;
        sink->taken += size;
        return true;
    }
    if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
        return error_set_errno(error, errno, "there is no room for its %llu bytes",
                               (unsigned long long)size);
    return has_room(fd, size, error);
}

/* ---- in place ---- */

bool large_is_in_place(struct file_sink *sink, int parent, struct large_file *file)
{
    struct stat status;
    if ((sink->flags & TRANSFER_IN_PLACE) == 0 ||
        fstatat(parent, beneath_leaf(file->path), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !(S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)))
        return false;
    file->in_place = file->made = true;
    file->is_device = S_ISBLK(status.st_mode);
    file->inode = status.st_ino;
    sink->old = status;
    return true;
}

/* Its lock keeps two copies apart; it has no journal. */
static int open_in_place(struct file_sink *sink, struct large_file *file, int flags,
                         struct error *error)
{
    int parent = sink_parent(sink, file->path, false);
    int fd = parent < 0 ? -1
                        : openat(parent, beneath_leaf(file->path),
                                 flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        error_set_errno(error, errno, "cannot be written in place");
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return fd;
    close(fd);
    error_set(error, ERROR_EXISTS, "another copy writes it in place now");
    return -1;
}

uint64_t sink_device_size(int fd)
{
    off_t end = lseek(fd, 0, SEEK_END);
    return end > 0 ? (uint64_t)end : 0;
}

static bool check_in_place(struct file_sink *sink, struct large_file *file, int fd,
                           const struct stat *status, struct error *error)
{
    if (file->is_device && sink_device_size(fd) < file->size)
        return error_set(error, ERROR_NO_SPACE, "the device has only %llu bytes",
                         (unsigned long long)sink_device_size(fd));
    if (file->is_device || file->sparse || (uint64_t)status->st_size >= file->size ||
        file->reserved)
        return true;
    file->reserved = reserve(sink, file, fd, false, error);
    return file->reserved;
}

static int open_with(struct file_sink *sink, struct large_file *file, int flags,
                     struct error *error)
{
    char name[TEMP_NAME_SIZE];
    int parent = -1;
    if (file->in_place)
        return open_in_place(sink, file, flags, error);
    if (!file->made)
        half_begin(sink, file);
    sink_temp_name(file->temp, name);
    if (!file->made)
        return sink_create_temp(sink, file->path, file->temp, flags, &parent, error);
    parent = sink_parent(sink, file->path, false);
    return parent < 0 ? -1 : openat(parent, name, flags | O_NOFOLLOW | O_CLOEXEC);
}

static bool check_opened(struct file_sink *sink, struct large_file *file, int fd,
                         struct error *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return error_set_errno(error, errno, "its temporary file cannot be used");
    if (file->made && status.st_ino != file->inode)
        return error_set(error, ERROR_IO, "it was replaced by another file while it was written");
    if (file->in_place)
        return check_in_place(sink, file, fd, &status, error);
    if ((uint64_t)status.st_size > file->size && ftruncate(fd, (off_t)file->size) != 0)
        return error_set_errno(error, errno, "its temporary file cannot be shortened");
    if (!file->reserved && !file->sparse &&
        !reserve(sink, file, fd, file->holding != NULL && file->holding->old >= 0, error))
        return false;
    file->reserved = true;
    file->inode = status.st_ino;
    return true;
}

bool large_open(struct file_sink *sink, struct large_file *file, struct error *error)
{
    file->used = ++sink->clock;
    if (file->fd >= 0)
        return true;
    if (sink->large_open >= LARGE_OPEN)
        close_oldest(sink);
    file->sparse = (sink->flags & TRANSFER_SPARSE) != 0 && !file->is_device;
    file->direct = file->size >= DIRECT_MIN && !file->sparse;
    int fd = open_with(sink, file, O_RDWR, error);
    if (fd < 0) {
        error_set_errno(error, errno, "its temporary file cannot be opened");
        return false;
    }
    bool valid = check_opened(sink, file, fd, error);
    file->made = true;
    file->fd = fd;
    sink->large_open++;
    if (file->direct && fcntl(fd, F_SETFL, O_DIRECT) != 0)
        file->direct = false;
    return valid;
}

/* ---- writing ---- */

/* Whole aligned blocks go around the page cache; the last, shorter one cannot. */
bool large_write(struct large_file *file, const uint8_t *bytes, uint32_t length, uint64_t offset)
{
    if (file->sparse)
        return holes_write(file->fd, bytes, length, offset, false);
    bool aligned = length % DIRECT_ALIGNMENT == 0 && (uintptr_t)bytes % DIRECT_ALIGNMENT == 0;
    if (!file->direct)
        return write_at(file->fd, bytes, length, offset);
    if (aligned && write_at(file->fd, bytes, length, offset))
        return true;
    if (aligned && errno != EINVAL)
        return false;
    if (fcntl(file->fd, F_SETFL, 0) != 0 || !write_at(file->fd, bytes, length, offset))
        return false;
    if (aligned) /* the file system refuses direct writes */
        file->direct = false;
    else if (fcntl(file->fd, F_SETFL, O_DIRECT) != 0)
        file->direct = false;
    return true;
}
