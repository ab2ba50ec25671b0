#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/aligned.h"
#include "tree/beneath.h"
#include "tree/sink_internal.h"

#define ANSWER_MAX (1000u * 1000) /* bytes; a control message holds 1 MiB */
#define ENTRIES_AT_ONCE 64u
#define BYTES_AT_ONCE (1u << 20) /* read of what is there, in one piece of work */
#define UNTOLD_LIMIT (4u << 20)  /* bytes of answered offers that are not all told of */

/* ---- what is there ---- */

/* As a file's: where the system cannot, it stays. */
static void adjust_link_time(int parent, const char *leaf, const struct entry *entry)
{
    struct stat status;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = entry->mtime_s, .tv_nsec = entry->mtime_ns}};
    if (fstatat(parent, leaf, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode) &&
        (status.st_mtim.tv_sec != entry->mtime_s ||
         status.st_mtim.tv_nsec != (long)entry->mtime_ns))
        utimensat(parent, leaf, times, AT_SYMLINK_NOFOLLOW);
}

static bool is_same_link(struct file_sink *sink, const struct entry *entry)
{
    char target[PACK_PATH_MAX + 1];
    int parent = sink_parent(sink, sink->path, false);
    ssize_t size =
        parent < 0 ? -1 : readlinkat(parent, beneath_leaf(sink->path), target, sizeof target);
    if (size < 0 || (size_t)size != entry->target_size ||
        memcmp(target, entry->target, entry->target_size) != 0)
        return false;
    if ((sink->flags & (TRANSFER_DRY_RUN | TRANSFER_NO_TIMES)) == 0)
        adjust_link_time(parent, beneath_leaf(sink->path), entry);
    return true;
}

static bool is_same_special(struct file_sink *sink, const struct entry *entry)
{
    struct stat status;
    int parent = sink_parent(sink, sink->path, false);
    return parent >= 0 &&
           fstatat(parent, beneath_leaf(sink->path), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           special_is_there(&status, entry);
}

/* By rsync's rule: same size, same time. */
static bool is_same(struct file_sink *sink, const struct entry *entry)
{
    bool is_file = entry->kind == ENTRY_FILE || entry->kind == ENTRY_LARGE;
    if (!is_file || (sink->flags & TRANSFER_QUICK_CHECK) == 0)
        return false;
    int parent = sink_parent(sink, sink->path, false);
    struct stat status;
    const char *leaf = beneath_leaf(sink->path);
    if (parent < 0 || fstatat(parent, leaf, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !entry_is_there(&status, entry))
        return false;
    if ((sink->flags & TRANSFER_DRY_RUN) != 0)
        return true;
    facts_adjust(sink, parent, leaf, &status, entry);
    if (entry->size > BATCH_FILE_MAX)
        half_sweep(sink, sink->path);
    return true;
}

bool offer_read(struct file_sink *sink, int fd, uint64_t size)
{
    if (sink->block == NULL)
        sink->block = aligned_new(BLOCK_SIZE, 4096);
    size_t got = 0;
    while (sink->block != NULL && got < size) {
        ssize_t n = pread(fd, sink->block + got, (size_t)size - got, (off_t)got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    return sink->block != NULL;
}

/* The hash of a small file that is there with the offered size, perhaps under another name. */
static bool hash_small(struct file_sink *sink, const struct entry *entry,
                       uint8_t hash[TREE_HASH_SIZE])
{
    int parent = sink_parent(sink, sink->path, false);
    int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    int fd = parent < 0 ? -1 : openat(parent, beneath_leaf(sink->path), flags);
    struct stat status;
    if (fd < 0)
        fd = find_open(sink, entry->size, entry->mtime_s, entry->mtime_ns, &status);
    if (fd < 0)
        return false;
    bool read = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                (uint64_t)status.st_size == entry->size && offer_read(sink, fd, entry->size);
    close(fd);
    if (read)
        tree_hash_whole(sink->block, (size_t)entry->size, hash);
    return read;
}

/* ---- answers ---- */

static bool grow(uint8_t **bytes, size_t *capacity, size_t wanted)
{
    if (wanted <= *capacity)
        return true;
    size_t larger = *capacity * 2 > wanted ? *capacity * 2 : wanted + 1024;
    uint8_t *grown = realloc(*bytes, larger);
    if (grown == NULL)
        return false;
    *bytes = grown;
    *capacity = larger;
    return true;
}

static bool add_hash(struct asked *asked, const uint8_t hash[TREE_HASH_SIZE])
{
    size_t at = asked->hash_count * TREE_HASH_SIZE;
    if (!grow(&asked->hashes, &asked->hash_capacity, at + TREE_HASH_SIZE))
        return false;
    memcpy(asked->hashes + at, hash, TREE_HASH_SIZE);
    asked->hash_count++;
    return true;
}

/* Whether the answer can take one more hash; each entry still to come takes a byte at least. */
static bool has_room(const struct asked *asked)
{
    return asked->size + (asked->hash_count + 1) * TREE_HASH_SIZE <= ANSWER_MAX;
}

/* Compares what is there when nothing cheaper decides. */
static enum answer_verdict compare(struct file_sink *sink, struct asked *asked,
                                   const struct entry *entry)
{
    uint8_t hash[TREE_HASH_SIZE];
    if ((sink->flags & TRANSFER_WHOLE) != 0 ||
        (sink_is_dry(sink) && foresee_answer(sink, entry) == ANSWER_SEND))
        return ANSWER_SEND;
    if (entry->kind == ENTRY_LARGE)
        return holding_is_likely(sink, entry) ? ANSWER_HASHES : ANSWER_SEND;
    if (entry->kind != ENTRY_FILE || !has_room(asked) || !hash_small(sink, entry, hash))
        return ANSWER_SEND;
    if (add_hash(asked, hash))
        return ANSWER_HASH;
    sink_fail_memory(sink);
    return ANSWER_SEND;
}

/* -u, --ignore-existing and --existing: what is there or not decides, not what it holds. */
static bool is_unwanted(struct file_sink *sink, const struct entry *entry)
{
    if ((sink->flags & (TRANSFER_UPDATE | TRANSFER_IGNORE_EXISTING | TRANSFER_EXISTING)) == 0)
        return false;
    struct stat status;
    int parent = sink_parent(sink, sink->path, false);
    bool is_root = sink->path[0] == '\0';
    bool there = is_root || (parent >= 0 && fstatat(parent, beneath_leaf(sink->path), &status,
                                                    AT_SYMLINK_NOFOLLOW) == 0);
    if (!there)
        return (sink->flags & TRANSFER_EXISTING) != 0;
    if (entry->kind == ENTRY_DIRECTORY || is_root)
        return false;
    if ((sink->flags & TRANSFER_IGNORE_EXISTING) != 0)
        return true;
    bool newer =
        status.st_mtim.tv_sec > entry->mtime_s ||
        (status.st_mtim.tv_sec == entry->mtime_s && status.st_mtim.tv_nsec > (long)entry->mtime_ns);
    return (sink->flags & TRANSFER_UPDATE) != 0 && S_ISREG(status.st_mode) && newer;
}

static enum answer_verdict answer(struct file_sink *sink, struct asked *asked,
                                  const struct entry *entry)
{
    bool is_file = entry->kind == ENTRY_FILE || entry->kind == ENTRY_LARGE;
    if (is_unwanted(sink, entry)) {
        if (is_file)
            sink_file_skipped(sink, sink->path, entry->size, NULL);
        return ANSWER_SKIP;
    }
    if (is_same(sink, entry)) {
        sink_file_skipped(sink, sink->path, entry->size, NULL);
        return ANSWER_SKIP;
    }
    if (entry->kind == ENTRY_LINK)
        return is_same_link(sink, entry) ? ANSWER_SKIP : ANSWER_SEND;
    if (entry->kind == ENTRY_SPECIAL)
        return is_same_special(sink, entry) ? ANSWER_SKIP : ANSWER_SEND;
    return compare(sink, asked, entry);
}

/* A file that is not there under its name may be there under another. */
static bool needs_index(struct file_sink *sink, const struct entry *entry)
{
    bool is_file = entry->kind == ENTRY_FILE || entry->kind == ENTRY_LARGE;
    if (!is_file || entry->size < CONTENT_INDEX_SIZE_MIN || sink->index_ready ||
        (sink->flags & (TRANSFER_WHOLE | TRANSFER_DRY_RUN)) != 0)
        return false;
    struct stat status;
    int parent = sink_parent(sink, sink->path, false);
    return parent < 0 ||
           fstatat(parent, beneath_leaf(sink->path), &status, AT_SYMLINK_NOFOLLOW) != 0;
}

static bool say_answer(struct file_sink *sink, struct asked *asked)
{
    size_t size = asked->count + asked->hash_count * TREE_HASH_SIZE;
    if (!grow(&asked->verdicts, &asked->verdict_capacity, size))
        return sink_fail_memory(sink);
    if (asked->hash_count > 0)
        memcpy(asked->verdicts + asked->count, asked->hashes, asked->hash_count * TREE_HASH_SIZE);
    struct sink_report report = {.kind = SINK_ANSWER,
                                 .block = asked->block,
                                 .bytes = asked->verdicts,
                                 .length = (uint32_t)size};
    sink->emit(sink->context, &report);
    free(asked->hashes);
    asked->hashes = NULL;
    asked->answered = true;
    struct error error = {0};
    return pack_open(&asked->reader, asked->bytes, asked->size, sink->place.count, &error);
}

/* ---- the queue ---- */

static void free_asked(struct file_sink *sink, struct asked *asked)
{
    ahead_forget(sink, asked);
    sink->asked_bytes -= asked->size;
    free(asked->verdicts);
    free(asked->hashes);
    free(asked);
}

void offer_discard_all(struct file_sink *sink)
{
    while (sink->asked != NULL) {
        struct asked *asked = sink->asked;
        sink->asked = asked->next;
        free_asked(sink, asked);
    }
}

void offer_take(struct file_sink *sink, const uint8_t *bytes, size_t length, uint32_t block)
{
    if (sink->asked_bytes + length > OFFERS_LIMIT + 2 * BLOCK_SIZE) {
        sink_fail_protocol(sink, "too many offers came at once");
        return;
    }
    struct asked *asked = calloc(1, sizeof *asked + length);
    struct error error = {0};
    if (asked == NULL) {
        sink_fail_memory(sink);
        return;
    }
    memcpy(asked->bytes, bytes, length);
    asked->block = block;
    asked->size = length;
    sink->asked_bytes += length;
    struct asked **link = &sink->asked;
    while (*link != NULL)
        link = &(*link)->next;
    *link = asked;
    if (!pack_open(&asked->reader, asked->bytes, length, sink->place.count, &error))
        sink_fail(sink, &error);
}

/* A few entries, fewer when what is there has to be read. The last one makes the answer. */
static bool answer_some(struct file_sink *sink, struct asked *asked)
{
    struct error error = {0};
    uint64_t read = 0;
    for (unsigned i = 0; i < ENTRIES_AT_ONCE && read < BYTES_AT_ONCE; i++) {
        struct entry entry;
        struct pack_reader before = asked->reader;
        enum pack_result result = pack_next(&asked->reader, &entry, &error);
        if (result == PACK_INVALID)
            return sink_fail(sink, &error);
        if (result == PACK_END)
            return say_answer(sink, asked);
        if (!grow(&asked->verdicts, &asked->verdict_capacity, asked->count + 1))
            return sink_fail_memory(sink);
        if (!sink_set_path(sink, &entry))
            return false;
        if (needs_index(sink, &entry) && !find_is_ready(sink)) {
            asked->reader = before; /* its turn comes again */
            return true;
        }
        if (entry.kind == ENTRY_FILE)
            ahead_look(sink, asked);
        enum answer_verdict verdict = answer(sink, asked, &entry);
        asked->verdicts[asked->count++] = (uint8_t)verdict;
        read += verdict == ANSWER_HASH ? entry.size : 0;
    }
    return true;
}

bool offer_work(struct file_sink *sink)
{
    size_t untold = 0;
    struct asked *asked = sink->asked;
    for (; asked != NULL && asked->answered; asked = asked->next)
        untold += asked->size;
    if (asked == NULL || untold > UNTOLD_LIMIT)
        return false;
    answer_some(sink, asked);
    return true;
}

bool offer_next_holding(struct file_sink *sink)
{
    while (sink->asked != NULL && sink->asked->answered && !sink->has_failed) {
        struct asked *asked = sink->asked;
        struct entry entry;
        struct error error = {0};
        uint32_t index = asked->reader.count;
        if (pack_next(&asked->reader, &entry, &error) != PACK_ENTRY) {
            sink->asked = asked->next;
            free_asked(sink, asked);
        } else if (asked->verdicts[index] == ANSWER_HASHES && sink_set_path(sink, &entry)) {
            return holding_begin(sink, &entry, asked->block, index);
        }
    }
    return false;
}

bool offer_cancel(struct file_sink *sink, uint32_t block, uint32_t entry)
{
    for (struct asked *asked = sink->asked; asked != NULL; asked = asked->next) {
        if (asked->block != block)
            continue;
        if (asked->answered && entry < asked->count && entry >= asked->reader.count)
            asked->verdicts[entry] = ANSWER_SKIP;
        return true;
    }
    return false;
}
