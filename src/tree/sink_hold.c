#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/aligned.h"
#include "base/bits.h"
#include "tree/beneath.h"
#include "tree/sink_internal.h"

#define PAGE 4096u

bool holding_is_likely(struct file_sink *sink, const struct entry *entry)
{
    char name[TEMP_NAME_SIZE];
    struct stat status;
    int parent = sink_parent(sink, sink->path, false);
    if (parent >= 0 &&
        fstatat(parent, beneath_leaf(sink->path), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        ((S_ISREG(status.st_mode) && status.st_size > 0) ||
         (S_ISBLK(status.st_mode) && (sink->flags & TRANSFER_IN_PLACE) != 0)))
        return true;
    sink_journal_name(sink_large_temp_of(sink->path), name);
    if (parent >= 0 && fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return true;
    int fd = find_open(sink, entry->size, entry->mtime_s, entry->mtime_ns, &status);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* ---- the records ---- */

static int open_old(struct file_sink *sink, const char *path, struct stat *status)
{
    int parent = sink_parent(sink, path, false);
    int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    int fd = parent < 0 ? -1 : openat(parent, beneath_leaf(path), flags);
    if (fd < 0)
        return -1;
    bool known = fstat(fd, status) == 0;
    if (known && S_ISREG(status->st_mode))
        return fd;
    if (known && S_ISBLK(status->st_mode) && (sink->flags & TRANSFER_IN_PLACE) != 0) {
        status->st_size = (off_t)sink_device_size(fd);
        return fd;
    }
    close(fd);
    return -1;
}

/* Behind the last block that the old file or the journal can have something of. */
static uint32_t limit_of(const struct holding *holding)
{
    uint64_t limit = holding->half.journal != NULL ? journal_extent(holding->half.journal) : 0;
    uint64_t old = holding->old >= 0 ? pack_block_count((uint64_t)holding->old_status.st_size) : 0;
    limit = limit > old ? limit : old;
    return limit < holding->count ? (uint32_t)limit : holding->count;
}

static void drop_told(struct file_sink *sink, struct holding *holding)
{
    while (holding->told != NULL) {
        struct told *told = holding->told;
        holding->told = told->next;
        sink->told_blocks -= told->count;
        free(told);
    }
    holding->last = NULL;
}

void holding_free(struct file_sink *sink, struct holding *holding)
{
    struct holding **link = &sink->holdings;
    while (*link != holding)
        link = &(*link)->next;
    *link = holding->next;
    sink->holding_count--;
    drop_told(sink, holding);
    if (holding->old >= 0)
        close(holding->old);
    half_close(sink, &holding->half);
    free(holding->building);
    free(holding->path);
    free(holding);
}

static void join(struct file_sink *sink, struct holding *holding, struct large_file *file)
{
    holding->file = file;
    file->holding = holding;
    file->differs = file->differs || holding->elsewhere; /* has no file of its own yet */
    if (file->count < holding->count) { /* the file has shrunk since it was offered */
        holding->count = file->count;
        holding->limit = limit_of(holding);
    }
    if (holding->half.journal == NULL)
        return;
    file->temp = file->key;
    file->journal = holding->half.journal; /* which is read on through the file's */
    holding->half.journal = NULL;
    struct stat status;
    file->made = true;
    if (fstat(holding->half.fd, &status) == 0)
        file->inode = status.st_ino;
    if (file->size != journal_file_size(file->journal))
        journal_resize(file->journal, file->size);
    (void)sink;
}

void holding_join(struct file_sink *sink, struct large_file *file)
{
    for (struct holding *holding = sink->holdings; holding != NULL; holding = holding->next) {
        if (holding->file == NULL && holding->key == file->key) {
            join(sink, holding, file);
            return;
        }
    }
}

/* Its entry may come before what is there is told. */
static struct large_file *find_file(const struct file_sink *sink, uint64_t key)
{
    for (size_t i = 0; i < sink->large_count; i++) {
        struct large_file *file = sink->large[i];
        if (file->key == key && file->holding == NULL && (file->in_place || !file->made))
            return file;
    }
    return NULL;
}

bool holding_begin(struct file_sink *sink, const struct entry *entry, uint32_t offer,
                   uint32_t index)
{
    struct holding *holding = calloc(1, sizeof *holding);
    char *path = strdup(sink->path);
    if (holding == NULL || path == NULL) {
        free(holding);
        free(path);
        return sink_fail_memory(sink);
    }
    *holding = (struct holding){.offer = offer,
                                .entry = index,
                                .key = sink_large_temp_of(path),
                                .path = path,
                                .size = entry->size,
                                .count = (uint32_t)pack_block_count(entry->size),
                                .old = -1};
    holding->old = open_old(sink, path, &holding->old_status);
    holding->elsewhere = holding->old < 0;
    if (holding->elsewhere)
        holding->old =
            find_open(sink, entry->size, entry->mtime_s, entry->mtime_ns, &holding->old_status);
    holding->half.fd = -1;
    if (!sink_is_dry(sink) &&
        ((sink->flags & TRANSFER_IN_PLACE) == 0 || holding->old < 0 || holding->elsewhere))
        half_open(sink, path, &holding->half);
    holding->limit = limit_of(holding);
    struct holding **link = &sink->holdings;
    while (*link != NULL)
        link = &(*link)->next;
    *link = holding;
    sink->holding_count++;
    struct large_file *file = find_file(sink, holding->key);
    if (file != NULL)
        join(sink, holding, file);
    return true;
}

void holding_forget(struct file_sink *sink, uint32_t offer, uint32_t entry)
{
    struct holding *holding = sink->holdings;
    while (holding != NULL && (holding->offer != offer || holding->entry != entry))
        holding = holding->next;
    if (holding == NULL)
        offer_cancel(sink, offer, entry);
    else if (holding->file == NULL)
        holding_free(sink, holding);
}

/* ---- telling ---- */

/* Whole pages are asked for, which a descriptor with O_DIRECT wants; a last, shorter block ends
 * where the file does, or is cut. */
static size_t asked_for(size_t length, size_t got)
{
    size_t pages = (length - got + PAGE - 1) / PAGE * PAGE;
    return pages < BLOCK_SIZE - got ? pages : BLOCK_SIZE - got;
}

bool holding_read(struct file_sink *sink, int fd, uint64_t size, uint32_t index,
                  uint8_t hash[TREE_HASH_SIZE], uint32_t *length)
{
    if (sink->block == NULL)
        sink->block = aligned_new(BLOCK_SIZE, PAGE);
    *length = large_length(size, index);
    size_t got = 0;
    uint64_t offset = (uint64_t)index * BLOCK_SIZE;
    while (sink->block != NULL && got < *length) {
        ssize_t n = pread(fd, sink->block + got, asked_for(*length, got), (off_t)(offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    if (sink->block == NULL)
        return false;
    large_hash(size, index, sink->block, *length, hash);
    return true;
}

/* A recorded block of the half-written file, if what is there is what was recorded. With another
 * size than it had, the last block's hash means something else: the sender will tell. */
static bool read_half(struct file_sink *sink, const struct holding *holding, uint32_t index,
                      uint8_t hash[TREE_HASH_SIZE])
{
    struct journal *journal =
        holding->file != NULL ? holding->file->journal : holding->half.journal;
    uint8_t recorded[TREE_HASH_SIZE];
    uint32_t length;
    if (holding->half.fd < 0 || journal == NULL || !journal_has(journal, index, recorded) ||
        !holding_read(sink, holding->half.fd, holding->size, index, hash, &length))
        return false;
    return journal_file_size(journal) != holding->size ||
           memcmp(hash, recorded, sizeof recorded) == 0;
}

static bool read_old(struct file_sink *sink, const struct holding *holding, uint32_t index,
                     uint8_t hash[TREE_HASH_SIZE])
{
    uint32_t length = large_length(holding->size, index);
    uint64_t end = (uint64_t)index * BLOCK_SIZE + length;
    return holding->old >= 0 && end <= (uint64_t)holding->old_status.st_size &&
           holding_read(sink, holding->old, holding->size, index, hash, &length);
}

static void say_piece(struct file_sink *sink, const struct holding *holding,
                      const struct told *told)
{
    struct sink_report report = {.kind = SINK_HASHES,
                                 .piece = {.offer = holding->offer,
                                           .entry = holding->entry,
                                           .first = told->first,
                                           .count = told->count,
                                           .present = told->present,
                                           .hashes = told->hashes[0]}};
    sink->emit(sink->context, &report);
}

/* The piece in hand is told; the sender's decision on it will come. */
static void tell(struct file_sink *sink, struct holding *holding)
{
    struct told *told = holding->building;
    holding->building = NULL;
    say_piece(sink, holding, told);
    if (holding->last != NULL)
        holding->last->next = told;
    else
        holding->told = told;
    holding->last = told;
    sink->told_blocks += told->count;
}

/* Nothing more can be there. */
static void tell_end(struct file_sink *sink, struct holding *holding)
{
    if (holding->building != NULL && holding->building->count > 0)
        tell(sink, holding);
    if (holding->at < holding->count) {
        struct told none = {.first = holding->at};
        say_piece(sink, holding, &none);
    }
    holding->ended = true;
}

static bool begin_piece(struct file_sink *sink, struct holding *holding)
{
    if (holding->building != NULL)
        return true;
    holding->building = calloc(1, sizeof *holding->building);
    if (holding->building == NULL)
        return sink_fail_memory(sink);
    holding->building->first = holding->at;
    return true;
}

/* Looks at blocks until one was read, or a piece is full. */
static void look(struct file_sink *sink, struct holding *holding)
{
    bool read = false;
    if (!begin_piece(sink, holding))
        return;
    struct told *told = holding->building;
    while (!read && holding->at < holding->limit && told->count < HASH_PIECE_BLOCKS) {
        size_t place = (size_t)bits_set(told->present);
        uint64_t bit = UINT64_C(1) << told->count;
        bool in_half = read_half(sink, holding, holding->at, told->hashes[place]);
        read = in_half || read_old(sink, holding, holding->at, told->hashes[place]);
        told->present |= read ? bit : 0;
        told->in_half |= in_half ? bit : 0;
        told->count++;
        holding->at++;
    }
    if (told->count == HASH_PIECE_BLOCKS)
        tell(sink, holding);
}

bool holding_work(struct file_sink *sink)
{
    if (sink->told_blocks >= TOLD_LIMIT)
        return false;
    struct holding *holding = sink->holdings;
    while (holding != NULL && holding->ended)
        holding = holding->next;
    if (holding == NULL)
        return sink->holding_count < HOLDINGS_OPEN && offer_next_holding(sink);
    if (holding->at < holding->limit)
        look(sink, holding);
    if (!sink->has_failed && holding->at >= holding->limit)
        tell_end(sink, holding);
    return true;
}
