#include "tree/journal.h"
#include "tree/write_at.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ASK_TRIES 100 /* of ASK_NS: two seconds for the holder to go */
#define ASK_NS 20000000
#define OPEN_TRIES 8
#define CACHED 64u /* records read at once */

struct added {
    uint64_t index;
    uint8_t hash[JOURNAL_HASH_SIZE];
};

struct journal {
    int fd;
    struct journal_header header;
    uint64_t extent;
    struct added added[JOURNAL_LATE_BLOCKS];
    unsigned added_count;
    uint64_t added_ns; /* the oldest of them */
    uint8_t cache[CACHED * JOURNAL_RECORD_SIZE];
    uint64_t cache_first, cache_count;
};

/* ---- the lock ---- */

/* The process that has it, as far as the system says: 0 when it does not (another machine's). */
static pid_t holder_of(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0 ? lock.l_pid
                                                                                      : 0;
}

static bool is_ours(pid_t process)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%ld", (long)process);
    return process != getpid() && stat(path, &status) == 0 && status.st_uid == geteuid();
}

/* flock keeps writers apart, in one process too; the record lock only tells who it is. */
static bool try_lock(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno != EWOULDBLOCK && errno != EINTR; /* no locks here: nobody has any */
    fcntl(fd, F_SETLK, &lock);
    return true;
}

static bool take_lock(int fd)
{
    if (try_lock(fd))
        return true;
    pid_t holder = holder_of(fd);
    const union sigval takes_over = {.sival_int = JOURNAL_TAKES_OVER};
    if (holder == 0 || !is_ours(holder) || sigqueue(holder, SIGTERM, takes_over) != 0)
        return false;
    for (int i = 0; i < ASK_TRIES; i++) {
        nanosleep(&(struct timespec){.tv_nsec = ASK_NS}, NULL);
        if (try_lock(fd))
            return true;
    }
    return false;
}

/* ---- opening ---- */

/* The holder may have removed the file between our open and our lock. */
static bool is_still_there(int directory, const char *name, int fd)
{
    struct stat ours, named;
    return fstat(fd, &ours) == 0 && fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

static int open_locked(int directory, const char *name, bool make, enum journal_found *found)
{
    int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (make ? O_CREAT : 0);
    for (int i = 0; i < OPEN_TRIES; i++) {
        int fd = openat(directory, name, flags, 0600);
        if (fd < 0) {
            *found = errno == ENOENT && !make ? JOURNAL_MISSING : JOURNAL_FAILED;
            return -1;
        }
        bool locked = take_lock(fd);
        if (locked && is_still_there(directory, name, fd))
            return fd;
        close(fd);
        if (!locked)
            break;
    }
    *found = JOURNAL_BUSY;
    return -1;
}

int journal_take(int directory, const char *name)
{
    int fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || (try_lock(fd) && is_still_there(directory, name, fd)))
        return fd;
    close(fd);
    errno = EWOULDBLOCK;
    return -1;
}

static enum journal_found read_header(struct journal *journal, const char **what)
{
    static const char *const texts[] = {[JOURNAL_CORRUPT] = "corrupted",
                                        [JOURNAL_NEWER] = "of a newer version",
                                        [JOURNAL_OTHER] = "of another file"};
    struct stat status;
    uint8_t bytes[JOURNAL_HEADER_SIZE];
    if (fstat(journal->fd, &status) != 0 || !S_ISREG(status.st_mode))
        return JOURNAL_FAILED;
    if (status.st_size == 0)
        return JOURNAL_NEW;
    ssize_t got = pread(journal->fd, bytes, sizeof bytes, 0);
    enum journal_parse parse =
        journal_header_read(&journal->header, bytes, got > 0 ? (size_t)got : 0);
    if (parse != JOURNAL_GOOD) {
        *what = texts[parse];
        return JOURNAL_USELESS;
    }
    if (status.st_size > (off_t)JOURNAL_HEADER_SIZE)
        journal->extent = ((uint64_t)status.st_size - JOURNAL_HEADER_SIZE) / JOURNAL_RECORD_SIZE;
    return JOURNAL_USABLE;
}

struct journal *journal_open(int directory, const char *name, bool make,
                             const uint8_t identity[JOURNAL_IDENTITY_SIZE],
                             enum journal_found *found, const char **what)
{
    int fd = open_locked(directory, name, make, found);
    if (fd < 0)
        return NULL;
    struct journal *journal = calloc(1, sizeof *journal);
    if (journal == NULL) {
        close(fd);
        errno = ENOMEM;
        *found = JOURNAL_FAILED;
        return NULL;
    }
    journal->fd = fd;
    memcpy(journal->header.identity, identity, sizeof journal->header.identity);
    *found = read_header(journal, what);
    if (*found != JOURNAL_FAILED)
        return journal;
    int saved = errno;
    close(fd);
    free(journal);
    errno = saved;
    return NULL;
}

void journal_close(struct journal *journal)
{
    if (journal == NULL)
        return;
    journal_flush(journal);
    close(journal->fd);
    free(journal);
}

void journal_remove(struct journal *journal, int directory, const char *name)
{
    journal->added_count = 0;
    unlinkat(directory, name, 0);
    journal_close(journal);
}

bool journal_start(struct journal *journal, uint64_t file_size)
{
    journal->extent = journal->added_count = 0;
    journal->cache_count = 0;
    return ftruncate(journal->fd, 0) == 0 && journal_resize(journal, file_size);
}

bool journal_resize(struct journal *journal, uint64_t file_size)
{
    uint8_t bytes[JOURNAL_HEADER_SIZE];
    journal->header.file_size = file_size;
    journal_header_write(&journal->header, bytes);
    return write_at(journal->fd, bytes, sizeof bytes, 0);
}

uint64_t journal_file_size(const struct journal *journal)
{
    return journal->header.file_size;
}

uint64_t journal_extent(const struct journal *journal)
{
    return journal->extent;
}

/* ---- records ---- */

bool journal_has(struct journal *journal, uint64_t index, uint8_t hash[JOURNAL_HASH_SIZE])
{
    if (index >= journal->extent)
        return false;
    if (index - journal->cache_first >= journal->cache_count) {
        ssize_t got = pread(journal->fd, journal->cache, sizeof journal->cache,
                            (off_t)journal_record_place(index));
        journal->cache_first = index;
        journal->cache_count = got > 0 ? (uint64_t)got / JOURNAL_RECORD_SIZE : 0;
    }
    if (index - journal->cache_first >= journal->cache_count)
        return false;
    const uint8_t *record = journal->cache + (index - journal->cache_first) * JOURNAL_RECORD_SIZE;
    return journal_record_read(journal->header.identity, index, record, hash);
}

void journal_add(struct journal *journal, uint64_t index, const uint8_t hash[JOURNAL_HASH_SIZE],
                 uint64_t now_ns)
{
    if (journal->added_count == JOURNAL_LATE_BLOCKS)
        journal_flush(journal);
    if (journal->added_count == 0)
        journal->added_ns = now_ns;
    struct added *added = &journal->added[journal->added_count++];
    added->index = index;
    memcpy(added->hash, hash, sizeof added->hash);
}

bool journal_is_due(const struct journal *journal, uint64_t now_ns)
{
    return journal->added_count == JOURNAL_LATE_BLOCKS ||
           (journal->added_count > 0 && now_ns - journal->added_ns >= JOURNAL_LATE_NS);
}

/* A record that cannot be written is missed by a later run only: nothing fails for it. */
void journal_flush(struct journal *journal)
{
    for (unsigned i = 0; i < journal->added_count; i++) {
        const struct added *added = &journal->added[i];
        uint8_t bytes[JOURNAL_RECORD_SIZE];
        journal_record_write(journal->header.identity, added->index, added->hash, bytes);
        if (write_at(journal->fd, bytes, sizeof bytes, journal_record_place(added->index)) &&
            added->index >= journal->extent)
            journal->extent = added->index + 1;
    }
    journal->added_count = 0;
}

bool journal_is_empty(const struct journal *journal)
{
    return journal->added_count == 0 && journal->extent == 0;
}
