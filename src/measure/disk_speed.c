#include "measure/disk_speed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/aligned.h"
#include "base/block.h"
#include "base/random.h"
#include "base/units.h"
#include "measure/disk_file.h"
#include "net/driver.h"

#define LARGE_ENOUGH (UINT64_C(16) << 20)
#define SYNC_BYTES (UINT64_C(64) << 20)
#define OWN_FILE_BYTES (UINT64_C(256) << 20)

static uint64_t slow_bps;

void disk_test_slow(uint64_t rate_bps)
{
    slow_bps = rate_bps;
}

/* ---- paths ---- */

/* The directory that a transfer to `path` would write into. */
static bool directory_of(const char *path, char *directory, size_t capacity, struct error *error)
{
    struct stat status;
    const char *shown = path[0] != '\0' ? path : ".";
    if ((size_t)snprintf(directory, capacity, "%s", shown) >= capacity)
        return error_set(error, ERROR_USAGE, "%.100s...: the path is too long", path);
    if (stat(directory, &status) == 0 && S_ISDIR(status.st_mode))
        return true;
    char *slash = strrchr(directory, '/');
    if (slash == NULL)
        snprintf(directory, capacity, ".");
    else
        slash[slash == directory] = '\0';
    if (stat(directory, &status) != 0)
        return error_set_errno(error, errno, "%s", directory);
    return S_ISDIR(status.st_mode) ||
           error_set(error, ERROR_EXISTS, "%s is no directory", directory);
}

int disk_temporary(const char *path, struct error *error)
{
    char directory[512], name[600];
    if (!directory_of(path, directory, sizeof(directory), error))
        return -1;
    int descriptor = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (descriptor >= 0)
        return descriptor;
    snprintf(name, sizeof(name), "%s/.petrel-speed-XXXXXX", directory);
    descriptor = mkostemp(name, O_CLOEXEC);
    if (descriptor < 0)
        error_set_errno(error, errno, "cannot write into %s", directory);
    else
        unlink(name);
    return descriptor;
}

/* The first file of some size in a directory; "" when there is none. */
static void find_large_file(const char *directory, char *path, size_t capacity)
{
    path[0] = '\0';
    DIR *listing = opendir(directory);
    struct dirent *entry;
    while (listing != NULL && path[0] == '\0' && (entry = readdir(listing)) != NULL) {
        struct stat status;
        if (fstatat(dirfd(listing), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode) && (uint64_t)status.st_size >= LARGE_ENOUGH &&
            (size_t)snprintf(path, capacity, "%s/%s", directory, entry->d_name) >= capacity)
            path[0] = '\0';
    }
    if (listing != NULL)
        closedir(listing);
}

/* ---- writing ---- */

/* As long as the pretended disk would have needed. */
static void hold_back(uint64_t began_ns, uint64_t bytes)
{
    if (slow_bps == 0)
        return;
    uint64_t due_ns = began_ns + (uint64_t)((double)bytes * 8e9 / (double)slow_bps);
    uint64_t now_ns = driver_now();
    if (due_ns <= now_ns)
        return;
    struct timespec nap = {.tv_sec = (time_t)((due_ns - now_ns) / NS_PER_S),
                           .tv_nsec = (long)((due_ns - now_ns) % NS_PER_S)};
    nanosleep(&nap, NULL);
}

static uint64_t rate_of(uint64_t bytes, uint64_t ns)
{
    return ns > 0 ? (uint64_t)((double)bytes * 8e9 / (double)ns) : 0;
}

/* What goes through the page cache is synced every 64 MiB, so that the time measured is the disk's.
 */
static bool write_for(int descriptor, const uint8_t *block, uint64_t most, uint64_t time_ns,
                      struct disk_speed *speed, struct error *error)
{
    struct disk_file file;
    uint64_t began_ns = driver_now(), synced = 0;
    disk_file_init(&file, descriptor);
    most = most < file.most ? most : file.most;
    while (speed->bytes < most && driver_now() < began_ns + time_ns) {
        if (!disk_file_write(&file, block, BLOCK_SIZE, speed->bytes))
            return error_set_errno(error, errno, "cannot write");
        speed->bytes += BLOCK_SIZE;
        hold_back(began_ns, speed->bytes);
        if (!file.direct && speed->bytes - synced >= SYNC_BYTES) {
            if (fdatasync(descriptor) != 0)
                return error_set_errno(error, errno, "cannot sync");
            synced = speed->bytes;
        }
    }
    if (fdatasync(descriptor) != 0)
        return error_set_errno(error, errno, "cannot sync");
    speed->ns = driver_now() - began_ns;
    speed->rate_bps = rate_of(speed->bytes, speed->ns);
    return true;
}

static uint8_t *random_block(void)
{
    uint64_t *words = aligned_new(BLOCK_SIZE, 4096);
    struct random random;
    random_seed(&random, driver_now());
    for (size_t i = 0; words != NULL && i < BLOCK_SIZE / sizeof(*words); i++)
        words[i] = random_next(&random);
    return (uint8_t *)words;
}

/* "." says little to somebody who reads it elsewhere. */
static void show_whole_path(struct disk_speed *speed)
{
    char *whole = realpath(speed->path, NULL);
    if (whole != NULL && strlen(whole) < sizeof(speed->path))
        snprintf(speed->path, sizeof(speed->path), "%s", whole);
    free(whole);
}

/* Why nothing can be written into a directory, in place of what its file system says of that. */
static void explain_no_file(const char *directory, const struct statvfs *space, struct error *error)
{
    struct error plain = *error;
    bool no_disk = space->f_blocks == 0;
    error_clear(error);
    if (no_disk)
        error_set(error, ERROR_PERMISSION,
                  "%s is no place for files: what is mounted there has no room of its own",
                  directory);
    else if (plain.os_errno == EROFS)
        error_set(error, ERROR_PERMISSION, "%s is not writable: mounted read-only", directory);
    else
        *error = plain;
}

bool disk_write_speed(const char *path, uint64_t time_ns, struct disk_speed *speed,
                      struct error *error)
{
    struct statvfs space = {0};
    memset(speed, 0, sizeof(*speed));
    if (!directory_of(path, speed->path, sizeof(speed->path), error))
        return false;
    bool known = statvfs(speed->path, &space) == 0;
    if (known)
        speed->free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
    int descriptor = disk_temporary(path, error);
    if (descriptor < 0) {
        if (known)
            explain_no_file(speed->path, &space, error);
        return false;
    }
    if (speed->free_bytes < 8 * BLOCK_SIZE) {
        close(descriptor);
        return error_set(error, ERROR_NO_SPACE, "no space left in %s", speed->path);
    }
    uint8_t *block = random_block();
    bool good = block != NULL ? write_for(descriptor, block, UINT64_MAX, time_ns, speed, error)
                              : error_set(error, ERROR_MEMORY, "no memory to write");
    aligned_free(block);
    close(descriptor);
    show_whole_path(speed);
    return good;
}

/* ---- reading ---- */

/* A block at `offset`; `*cached` when the page cache had it. As pread. */
static ssize_t read_block(int descriptor, uint8_t *block, uint64_t offset, bool *cached)
{
    struct iovec part = {block, BLOCK_SIZE};
    ssize_t got = preadv2(descriptor, &part, 1, (off_t)offset, RWF_NOWAIT);
    *cached = got == (ssize_t)BLOCK_SIZE;
    return *cached ? got : pread(descriptor, block, BLOCK_SIZE, (off_t)offset);
}

static bool read_for(int descriptor, uint8_t *block, uint64_t time_ns, struct disk_speed *speed,
                     struct error *error)
{
    uint64_t began_ns = driver_now(), cached_bytes = 0;
    while (driver_now() < began_ns + time_ns) {
        bool cached;
        ssize_t got = read_block(descriptor, block, speed->bytes, &cached);
        if (got < 0)
            return error_set_errno(error, errno, "%s", speed->path);
        if (got == 0)
            break;
        speed->bytes += (uint64_t)got;
        cached_bytes += cached ? (uint64_t)got : 0;
        hold_back(began_ns, speed->bytes);
    }
    speed->ns = driver_now() - began_ns;
    speed->rate_bps = rate_of(speed->bytes, speed->ns);
    speed->cached = cached_bytes > speed->bytes / 2;
    return true;
}

/* A file of our own to read back. It has no name, so its descriptor is reopened past the cache. */
static int write_own_file(const char *path, uint64_t time_ns, struct error *error)
{
    int descriptor = disk_temporary(path, error);
    uint8_t *block = descriptor >= 0 ? random_block() : NULL;
    struct disk_speed written = {0};
    bool good =
        block != NULL && write_for(descriptor, block, OWN_FILE_BYTES, time_ns, &written, error);
    aligned_free(block);
    if (good && lseek(descriptor, 0, SEEK_SET) == 0)
        return descriptor;
    if (descriptor >= 0)
        close(descriptor);
    error_set(error, ERROR_IO, "%s holds no large file to read, and none could be written", path);
    return -1;
}

static void pass_by_cache(int descriptor)
{
    int flags = fcntl(descriptor, F_GETFL);
    if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_DIRECT) != 0)
        posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
}

/* Which file a path names or a directory offers, into speed->path; false when there is none. */
static bool choose_file(const char *path, struct disk_speed *speed, bool *named,
                        struct error *error)
{
    struct stat status;
    char file[512];
    snprintf(speed->path, sizeof(speed->path), "%s", path[0] != '\0' ? path : ".");
    if (stat(speed->path, &status) != 0)
        return error_set_errno(error, errno, "%s", speed->path);
    *named = !S_ISDIR(status.st_mode);
    if (*named)
        return true;
    find_large_file(speed->path, file, sizeof(file));
    if (file[0] != '\0')
        snprintf(speed->path, sizeof(speed->path), "%s", file);
    return file[0] != '\0';
}

int disk_source(const char *path)
{
    struct disk_speed speed;
    bool named;
    if (!choose_file(path, &speed, &named, NULL))
        return -1;
    int descriptor = open(speed.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor >= 0)
        posix_fadvise(descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
    return descriptor;
}

/* What else lies in a directory is hardly in the page cache when a file of it happens to be. */
static int open_to_read(const char *path, uint64_t time_ns, struct disk_speed *speed,
                        struct error *error)
{
    bool named;
    struct error cause = {0};
    if (!choose_file(path, speed, &named, &cause)) {
        if (cause.kind == ERROR_NONE) {
            int own = write_own_file(speed->path, time_ns, error);
            if (own >= 0)
                pass_by_cache(own);
            return own;
        }
        error_set_errno(error, cause.os_errno, "%s", speed->path);
        return -1;
    }
    int descriptor = open(speed->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        error_set_errno(error, errno, "%s", speed->path);
    else if (!named)
        pass_by_cache(descriptor);
    return descriptor;
}

bool disk_read_speed(const char *path, uint64_t time_ns, struct disk_speed *speed,
                     struct error *error)
{
    memset(speed, 0, sizeof(*speed));
    int descriptor = open_to_read(path, time_ns, speed, error);
    if (descriptor < 0)
        return false;
    uint8_t *block = aligned_new(BLOCK_SIZE, 4096);
    bool good = block != NULL ? read_for(descriptor, block, time_ns, speed, error)
                              : error_set(error, ERROR_MEMORY, "no memory to read");
    aligned_free(block);
    close(descriptor);
    show_whole_path(speed);
    return good;
}
