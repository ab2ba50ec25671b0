#include "tree/read_ahead.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ring.h"
#include "tree/pack.h"

#define HELPERS 8u
#define RING_SIZE (32u * 1024) /* a message may have a quarter of it: the longest path */
#define LOOK_EVERY 32u         /* files between two looks at what the disk was asked for */
#define HINTS_EACH (READ_AHEAD_FILES / HELPERS)

struct hint {
    int directory; /* its own descriptor */
    char path[];
};

struct helper {
    struct ring *hints;
    sem_t count; /* of hints in the ring, and one more at the end */
    atomic_uint waiting;
    pthread_t thread;
};

struct read_ahead {
    bool always, useful, has_failed;
    unsigned files;
    size_t turn; /* whose the next hint is */
    long seen_blocks;
    size_t helper_count; /* those that run */
    struct helper helpers[HELPERS];
};

struct read_ahead *read_ahead_new(bool always)
{
    struct read_ahead *ahead = calloc(1, sizeof *ahead);
    if (ahead == NULL)
        return NULL;
    ahead->always = ahead->useful = always;
    return ahead;
}

/* ---- on a helper's thread ---- */

/* O_NONBLOCK: a pipe may have taken the file's place. */
static void follow(const struct hint *hint)
{
    int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int fd = openat(hint->directory, hint->path, flags);
    close(hint->directory);
    if (fd < 0)
        return;
    struct stat status;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
        status.st_size <= (off_t)PACK_FILE_MAX)
        posix_fadvise(fd, 0, status.st_size, POSIX_FADV_WILLNEED);
    close(fd);
}

static void *run(void *context)
{
    struct helper *helper = context;
    size_t size;
    for (;;) {
        while (sem_wait(&helper->count) != 0 && errno == EINTR)
            ;
        const struct hint *hint = ring_peek(helper->hints, &size);
        if (hint == NULL) /* the end */
            return NULL;
        follow(hint);
        ring_release(helper->hints);
        atomic_fetch_sub(&helper->waiting, 1);
    }
}

/* ---- on the thread that will read ---- */

static bool start(struct helper *helper)
{
    helper->hints = ring_new(RING_SIZE);
    if (helper->hints == NULL)
        return false;
    if (sem_init(&helper->count, 0, 0) == 0) {
        if (pthread_create(&helper->thread, NULL, run, helper) == 0)
            return true;
        sem_destroy(&helper->count);
    }
    ring_free(helper->hints);
    return false;
}

/* Fewer than all do as well; without any there are no hints. */
static void start_helpers(struct read_ahead *ahead)
{
    while (ahead->helper_count < HELPERS && start(&ahead->helpers[ahead->helper_count]))
        ahead->helper_count++;
    ahead->has_failed = ahead->helper_count == 0;
}

void read_ahead_free(struct read_ahead *ahead)
{
    if (ahead == NULL)
        return;
    for (size_t i = 0; i < ahead->helper_count; i++)
        sem_post(&ahead->helpers[i].count);
    for (size_t i = 0; i < ahead->helper_count; i++) {
        struct helper *helper = &ahead->helpers[i];
        pthread_join(helper->thread, NULL);
        sem_destroy(&helper->count);
        ring_free(helper->hints);
    }
    free(ahead);
}

/* Whether this process has made the disk read since it was last asked, helpers included: what they
 * fetch would have been waited for. */
static bool reads_disk(struct read_ahead *ahead)
{
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) != 0)
        return false;
    bool reads = used.ru_inblock != ahead->seen_blocks;
    ahead->seen_blocks = used.ru_inblock;
    return reads;
}

bool read_ahead_is_useful(struct read_ahead *ahead)
{
    if (ahead == NULL || ahead->always)
        return ahead != NULL;
    if (ahead->files++ % LOOK_EVERY == 0) {
        bool first = ahead->files == 1; /* whatever was read before is no sign */
        ahead->useful = reads_disk(ahead) && !first;
    }
    return ahead->useful;
}

bool read_ahead_has_room(struct read_ahead *ahead)
{
    if (ahead->helper_count == 0 && !ahead->has_failed)
        start_helpers(ahead);
    for (size_t i = 0; i < ahead->helper_count; i++) {
        ahead->turn = (ahead->turn + 1) % ahead->helper_count;
        if (atomic_load(&ahead->helpers[ahead->turn].waiting) < HINTS_EACH)
            return true;
    }
    return false;
}

void read_ahead_hint(struct read_ahead *ahead, int directory, const char *path)
{
    struct helper *helper = &ahead->helpers[ahead->turn];
    size_t size = strlen(path) + 1;
    struct hint *hint = ring_reserve(helper->hints, sizeof *hint + size);
    int own = hint != NULL ? fcntl(directory, F_DUPFD_CLOEXEC, 0) : -1;
    if (own < 0)
        return; /* what was reserved and not committed is nothing */
    hint->directory = own;
    memcpy(hint->path, path, size);
    atomic_fetch_add(&helper->waiting, 1);
    ring_commit(helper->hints, sizeof *hint + size);
    sem_post(&helper->count);
}
