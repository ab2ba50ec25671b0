#include "tree/content_index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/scan.h"
#include "tree/spool_file.h"

#define CAPACITY (1u << 18) /* slots; at most half of them are used */
#define STEP 256            /* entries looked at in one step */
#define LOOKED_MAX 2000000  /* entries looked at in all */
#define PATH_MAX_KEPT 4096u
#define CANDIDATES 4 /* of one size that are looked at */
#define PROBES 64    /* slots that a size may stand in: what finds none free is not found */

struct slot {
    uint64_t size; /* 0: empty */
    int64_t mtime_s;
    uint32_t mtime_ns, root;
    uint64_t place; /* of its path in the spool */
    uint32_t path_size;
};

struct root {
    int directory;
    bool recursive;
};

struct content_index {
    struct slot *slots;
    size_t count;
    struct root *roots;
    size_t root_count, at; /* at: the root that is being looked through */
    struct scan *scan;
    uint64_t looked, spool_size;
    int spool;
};

struct content_index *content_index_new(void)
{
    struct content_index *index = calloc(1, sizeof *index);
    struct error error = {0};
    if (index == NULL)
        return NULL;
    index->slots = calloc(CAPACITY, sizeof *index->slots);
    index->roots = calloc(CONTENT_INDEX_ROOTS_MAX, sizeof *index->roots);
    index->spool = spool_file_open(&error);
    if (index->slots != NULL && index->roots != NULL && index->spool >= 0)
        return index;
    content_index_free(index);
    return NULL;
}

void content_index_free(struct content_index *index)
{
    if (index == NULL)
        return;
    scan_free(index->scan);
    for (size_t i = 0; i < index->root_count; i++)
        close(index->roots[i].directory);
    if (index->spool >= 0)
        close(index->spool);
    free(index->roots);
    free(index->slots);
    free(index);
}

bool content_index_add(struct content_index *index, int directory, bool recursive)
{
    if (index->root_count == CONTENT_INDEX_ROOTS_MAX) {
        close(directory);
        return false;
    }
    index->roots[index->root_count++] =
        (struct root){.directory = directory, .recursive = recursive};
    return true;
}

/* By size alone, so that all of one size stand in one run. */
static size_t slot_of(uint64_t size)
{
    size ^= size >> 31;
    size *= UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(size >> 40) & (CAPACITY - 1);
}

static void take(struct content_index *index, const struct scan_entry *entry)
{
    const struct stat *status = &entry->status;
    if (!S_ISREG(status->st_mode) || status->st_size < (off_t)CONTENT_INDEX_SIZE_MIN ||
        index->count >= CAPACITY / 2 || entry->path_size > PATH_MAX_KEPT)
        return;
    if (pwrite(index->spool, entry->path, entry->path_size + 1, (off_t)index->spool_size) !=
        (ssize_t)entry->path_size + 1)
        return;
    size_t slot = slot_of((uint64_t)status->st_size);
    for (unsigned i = 0; index->slots[slot].size != 0; i++) {
        if (i == PROBES)
            return;
        slot = (slot + 1) & (CAPACITY - 1);
    }
    index->slots[slot] = (struct slot){.size = (uint64_t)status->st_size,
                                       .mtime_s = status->st_mtim.tv_sec,
                                       .mtime_ns = (uint32_t)status->st_mtim.tv_nsec,
                                       .root = (uint32_t)index->at,
                                       .place = index->spool_size,
                                       .path_size = (uint32_t)entry->path_size};
    index->spool_size += entry->path_size + 1;
    index->count++;
}

static bool begin_root(struct content_index *index)
{
    int directory =
        openat(index->roots[index->at].directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    index->scan = directory >= 0 ? scan_new(directory, false) : NULL;
    if (index->scan == NULL && directory >= 0)
        close(directory);
    if (index->scan != NULL && !index->roots[index->at].recursive)
        scan_set_flat(index->scan);
    return index->scan != NULL;
}

static void end_root(struct content_index *index)
{
    scan_free(index->scan);
    index->scan = NULL;
    index->at++;
}

bool content_index_step(struct content_index *index)
{
    if (index->at == index->root_count || index->looked >= LOOKED_MAX)
        return false;
    if (index->scan == NULL && !begin_root(index)) {
        index->at++;
        return true;
    }
    for (unsigned i = 0; i < STEP; i++) {
        struct scan_entry entry;
        struct error error = {0};
        enum scan_result result = scan_next(index->scan, &entry, &error);
        index->looked++;
        if (result == SCAN_END) {
            end_root(index);
            break;
        }
        if (result == SCAN_ENTRY)
            take(index, &entry);
    }
    return true;
}

static int open_slot(const struct content_index *index, const struct slot *slot,
                     struct stat *status)
{
    char path[PATH_MAX_KEPT + 1];
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    if (pread(index->spool, path, slot->path_size + 1, (off_t)slot->place) !=
        (ssize_t)slot->path_size + 1)
        return -1;
    int fd = beneath_open(index->roots[slot->root].directory, path, flags, 0);
    if (fd < 0)
        return -1;
    if (fstat(fd, status) == 0 && S_ISREG(status->st_mode) &&
        (uint64_t)status->st_size == slot->size)
        return fd;
    close(fd);
    return -1;
}

int content_index_open(struct content_index *index, uint64_t size, int64_t mtime_s,
                       uint32_t mtime_ns, struct stat *status)
{
    const struct slot *tried[CANDIDATES];
    size_t count = 0;
    for (unsigned i = 0; i <= PROBES; i++) {
        const struct slot *found = &index->slots[(slot_of(size) + i) & (CAPACITY - 1)];
        if (found->size == 0)
            break;
        if (found->size != size)
            continue;
        bool same_time = found->mtime_s == mtime_s && found->mtime_ns == mtime_ns;
        if (count < CANDIDATES)
            tried[count++] = found;
        else if (same_time)
            tried[CANDIDATES - 1] = found;
        if (!same_time)
            continue;
        int fd = open_slot(index, found, status);
        if (fd >= 0)
            return fd;
    }
    for (size_t i = 0; i < count; i++) {
        int fd = open_slot(index, tried[i], status);
        if (fd >= 0)
            return fd;
    }
    return -1;
}
