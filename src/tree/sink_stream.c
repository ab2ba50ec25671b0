#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree/sink_internal.h"
#include "tree/write_at.h"

/* A file whose size is known at its end only (the other side's standard input). Its blocks come
 * like all others, in any order; which is the last, and that only the last is short, is checked
 * when the size has come. It is written under a temporary name as a whole, verified and renamed;
 * nothing of it is kept when it breaks off. */

struct stream {
    uint64_t id, temp, size;
    uint32_t first, seen;
    uint32_t short_index, short_length; /* of the one block that is not full; length 0: none */
    uint64_t last;                      /* 1 + the largest index */
    char *path;
    int fd;
    bool is_new, has_result;
    struct facts facts;
    uint8_t *extra;
    struct tree_hash *hash;
    uint8_t alone[TREE_HASH_SIZE], beside[TREE_HASH_SIZE]; /* block 0, as the only one or not */
    uint8_t result[TREE_HASH_SIZE];
};

void stream_discard(struct file_sink *sink)
{
    struct stream *stream = sink->stream;
    if (stream == NULL)
        return;
    char name[TEMP_NAME_SIZE];
    sink_temp_name(stream->temp, name);
    int parent = stream->fd >= 0 ? sink_parent(sink, stream->path, false) : -1;
    if (parent >= 0)
        unlinkat(parent, name, 0);
    if (stream->fd >= 0)
        close(stream->fd);
    tree_hash_free(stream->hash);
    free(stream->path);
    free(stream->extra);
    free(stream);
    sink->stream = NULL;
}

/* Its blocks that still come are dropped: all further ones are its own. */
static void give_up(struct file_sink *sink, const struct error *error)
{
    uint64_t added;
    if (!range_set_add(&sink->dead, sink->stream->first, BLOCK_NUMBER_LIMIT, &added))
        sink_fail_memory(sink);
    sink_file_failed(sink, sink->stream->path, true, error);
    stream_discard(sink);
}

static struct stream *new_stream(const struct file_sink *sink, const struct entry *entry)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL)
        return NULL;
    *stream = (struct stream){.id = entry->id,
                              .temp = sink_temp_of(sink, sink->path),
                              .first = entry->first_block,
                              .path = strdup(sink->path),
                              .fd = -1,
                              .facts = facts_of(entry),
                              .extra = malloc(entry->extra_size + 1),
                              .hash = tree_hash_new(TREE_HASH_SIZE_UNKNOWN)};
    if (stream->path != NULL && stream->extra != NULL && stream->hash != NULL) {
        if (entry->extra_size > 0)
            memcpy(stream->extra, entry->extra, entry->extra_size);
        stream->facts.extra = stream->extra;
        return stream;
    }
    tree_hash_free(stream->hash);
    free(stream->path);
    free(stream->extra);
    free(stream);
    return NULL;
}

void stream_entry(struct file_sink *sink, const struct entry *entry)
{
    struct error error = {0};
    int parent = -1;
    if (sink->stream != NULL || sink->streamed || sink->place.count != 1 ||
        (sink->flags & TRANSFER_STREAM) == 0) {
        sink_fail_protocol(sink, "a file without a size came that was not announced");
        return;
    }
    sink->streamed = true;
    sink->stream = new_stream(sink, entry);
    if (sink->stream == NULL) {
        sink_fail_memory(sink);
        return;
    }
    struct stream *stream = sink->stream;
    int fd = sink_create_temp(sink, sink->path, stream->temp, O_WRONLY, &parent, &error);
    stream->fd = fd;
    if (fd < 0 || !sink_way_is_free(sink, entry, parent, &stream->is_new, &error))
        give_up(sink, &error);
    else
        stream->facts.mode = facts_mode(sink, entry->mode & ~sink->umask,
                                        sink->old.st_mode != 0 ? &sink->old : NULL);
    large_adopt_orphans(sink, entry->first_block, BLOCK_NUMBER_LIMIT - entry->first_block);
}

/* ---- content ---- */

static bool add_hash(struct stream *stream, uint32_t index, const uint8_t *bytes, uint32_t length)
{
    uint8_t hash[TREE_HASH_SIZE];
    if (index == 0) {
        tree_hash_whole(bytes, length, stream->alone);
        tree_hash_block(bytes, length, 0, stream->beside);
        return true;
    }
    tree_hash_block(bytes, length, index, hash);
    return tree_hash_add(stream->hash, index, hash);
}

/* Whether what came is a file of the size that was said: all blocks, and only the last one short.
 */
static bool is_whole(const struct stream *stream)
{
    uint64_t count = pack_block_count(stream->size);
    uint64_t rest = stream->size % BLOCK_SIZE;
    bool ends = rest == 0 ? stream->short_length == 0
                          : stream->short_length == rest && stream->short_index == count - 1;
    return stream->last == count && ends;
}

static bool verify(struct stream *stream, struct error *error)
{
    uint8_t hash[TREE_HASH_SIZE];
    if (stream->seen == 0)
        tree_hash_whole("", 0, stream->alone);
    bool good = true;
    if (stream->seen <= 1)
        memcpy(hash, stream->alone, sizeof hash);
    else
        good = tree_hash_add(stream->hash, 0, stream->beside) &&
               tree_hash_set_size(stream->hash, stream->size) &&
               tree_hash_result(stream->hash, hash);
    return (good && memcmp(hash, stream->result, sizeof hash) == 0) ||
           error_set(error, ERROR_VERIFY, "its bytes differ from their hash; copy it again");
}

static bool finish(struct file_sink *sink, struct error *error)
{
    struct stream *stream = sink->stream;
    if (!verify(stream, error) || !facts_set(sink, stream->fd, &stream->facts, error))
        return false;
    if (fsync(stream->fd) != 0)
        return error_set_errno(error, errno, "cannot be synced");
    if (!batch_rename(sink, stream->path, stream->temp, stream->is_new, error))
        return false;
    close(stream->fd);
    stream->fd = -1; /* nothing temporary is left */
    int parent = sink_parent(sink, stream->path, false);
    if (parent < 0 || (fsync(parent) != 0 && errno != EBADF && errno != EINVAL))
        return error_set_errno(error, errno, "its directory cannot be synced");
    return true;
}

static void finish_if_whole(struct file_sink *sink)
{
    struct stream *stream = sink->stream;
    struct error error = {0};
    if (!stream->has_result || stream->seen < pack_block_count(stream->size))
        return;
    if (!is_whole(stream)) {
        sink_fail_protocol(sink, "a file's end contradicts its blocks");
        return;
    }
    if (!finish(sink, &error)) {
        give_up(sink, &error);
        return;
    }
    sink_file_done(sink, stream->path, stream->size, stream->result);
    stream_discard(sink);
}

bool stream_has(const struct file_sink *sink, uint32_t block)
{
    return sink->stream != NULL && block >= sink->stream->first;
}

void stream_block(struct file_sink *sink, uint32_t block, uint8_t *bytes, uint32_t length)
{
    struct stream *stream = sink->stream;
    uint32_t index = block - stream->first;
    struct error error = {0};
    bool second_short = length != BLOCK_SIZE && stream->short_length != 0;
    if (length != BLOCK_SIZE && stream->short_length == 0) {
        stream->short_index = index;
        stream->short_length = length;
    }
    if (index + UINT64_C(1) > stream->last)
        stream->last = index + UINT64_C(1);
    bool taken = write_at(stream->fd, bytes, length, (uint64_t)index * BLOCK_SIZE) ||
                 error_set_errno(&error, errno, "cannot be written");
    taken = taken && (add_hash(stream, index, bytes, length) ||
                      error_set(&error, ERROR_VERIFY, "a block came twice and differs"));
    sink_give_back(sink, bytes);
    if (second_short) {
        sink_fail_protocol(sink, "two blocks of a file are short");
        return;
    }
    if (!taken) {
        give_up(sink, &error);
        return;
    }
    stream->seen++;
    sink_verified(sink, length);
    finish_if_whole(sink);
}

bool stream_complete(struct file_sink *sink, uint64_t id, uint64_t size, const uint8_t *hash)
{
    struct stream *stream = sink->stream;
    if (stream == NULL || stream->id != id)
        return false;
    if (stream->has_result) {
        sink_fail_protocol(sink, "a large file's end contradicts its entry");
        return true;
    }
    memcpy(stream->result, hash, sizeof stream->result);
    stream->size = size;
    stream->has_result = true;
    if (stream->last > pack_block_count(size))
        sink_fail_protocol(sink, "a file's end contradicts its blocks");
    else
        finish_if_whole(sink);
    return true;
}

bool stream_withdraw(struct file_sink *sink, uint64_t id, const struct error *error)
{
    if (sink->stream == NULL || sink->stream->id != id)
        return false;
    give_up(sink, error);
    return true;
}
