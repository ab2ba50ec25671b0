#include "measure/disk_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/block.h"

#define FILE_MOST (UINT64_C(1) << 30)
#define FILE_LEAST (4 * (uint64_t)BLOCK_SIZE)
#define RESERVE_BYTES (UINT64_C(64) << 20)
#define ALIGNMENT 4096u

void disk_file_init(struct disk_file *file, int descriptor)
{
    struct statfs system;
    *file = (struct disk_file){.descriptor = descriptor, .most = FILE_MOST};
    if (descriptor <= 0 || fstatfs(descriptor, &system) != 0)
        return;
    uint64_t share = (uint64_t)system.f_bavail * (uint64_t)system.f_bsize / 4;
    share = share / BLOCK_SIZE * BLOCK_SIZE;
    if (share < file->most)
        file->most = share > FILE_LEAST ? share : FILE_LEAST;
    file->memory = system.f_type == TMPFS_MAGIC;
    file->direct = fcntl(descriptor, F_SETFL, O_DIRECT) == 0;
}

/* What a file system does not reserve it will make room for as it writes. Pages of memory would
 * only be cleared twice. */
static void reserve(struct disk_file *file, uint64_t end)
{
    if (file->memory || end <= file->reserved)
        return;
    uint64_t size =
        file->most - file->reserved < RESERVE_BYTES ? file->most - file->reserved : RESERVE_BYTES;
    if (fallocate(file->descriptor, 0, (off_t)file->reserved, (off_t)size) != 0)
        file->reserved = file->most;
    else
        file->reserved += size;
}

static bool write_at(int descriptor, const uint8_t *bytes, uint32_t length, uint64_t offset)
{
    uint32_t done = 0;
    while (done < length) {
        ssize_t put = pwrite(descriptor, bytes + done, length - done, (off_t)(offset + done));
        if (put <= 0 && errno != EINTR)
            return false;
        done += put > 0 ? (uint32_t)put : 0;
    }
    return true;
}

bool disk_file_write(struct disk_file *file, const uint8_t *bytes, uint32_t length, uint64_t offset)
{
    bool aligned = length % ALIGNMENT == 0 && (uintptr_t)bytes % ALIGNMENT == 0;
    offset %= file->most;
    reserve(file, offset + length);
    if (file->direct && aligned) {
        if (write_at(file->descriptor, bytes, length, offset))
            return true;
        if (errno != EINVAL)
            return false;
    }
    /* A length that is no multiple, or a file system that refuses: through the cache, as a copy. */
    if (file->direct && fcntl(file->descriptor, F_SETFL, 0) != 0)
        return false;
    bool good = write_at(file->descriptor, bytes, length, offset);
    if (file->direct)
        file->direct = !aligned && fcntl(file->descriptor, F_SETFL, O_DIRECT) == 0;
    return good;
}
