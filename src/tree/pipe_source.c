#include "tree/pipe_source.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crypto/tree_hash.h"
#include "tree/pack.h"

#define FIRST_BLOCK 1u /* behind the block that holds the entry */
#define WAIT_MS 100

enum stage { STAGE_ENTRY, STAGE_READ, STAGE_COMPLETE, STAGE_END };

struct pipe_source {
    int fd;
    uint32_t mode;
    int64_t mtime_s;
    enum stage stage;
    uint8_t *block; /* as far as it was read */
    size_t filled;
    bool ended;
    uint32_t count; /* blocks of content given */
    uint64_t size;
    struct tree_hash *hash;
    uint8_t alone[TREE_HASH_SIZE]; /* of block 0, should it stay the only one */
    uint8_t beside[TREE_HASH_SIZE];
    struct pack_writer pack;
    struct transfer_request names;
};

struct pipe_source *pipe_source_new(int fd, uint32_t mode, int64_t mtime_s)
{
    struct pipe_source *source = calloc(1, sizeof *source);
    if (source == NULL)
        return NULL;
    source->fd = fd;
    source->mode = mode;
    source->mtime_s = mtime_s;
    source->block = malloc(BLOCK_SIZE);
    source->hash = tree_hash_new(TREE_HASH_SIZE_UNKNOWN);
    if (source->block != NULL && source->hash != NULL &&
        transfer_request_add(&source->names, "-", false))
        return source;
    pipe_source_ops.close(source);
    return NULL;
}

static enum source_result give_entry(struct pipe_source *source, uint8_t *buffer,
                                     struct source_item *out)
{
    struct entry entry = {.kind = ENTRY_LARGE,
                          .path = "",
                          .mode = source->mode,
                          .mtime_s = source->mtime_s,
                          .first_block = FIRST_BLOCK};
    pack_start(&source->pack, buffer, BLOCK_SIZE, PACK_DELIVERY);
    pack_add(&source->pack, &entry);
    out->packed = true;
    out->length = (uint32_t)pack_size(&source->pack);
    source->stage = STAGE_READ;
    return SOURCE_BLOCK;
}

static enum source_result withdraw(struct pipe_source *source, struct source_item *out,
                                   const char *what)
{
    error_set_errno(&out->error, errno, "%s", what);
    out->path = "-";
    out->has_entry_block = true;
    source->stage = STAGE_END;
    return SOURCE_WITHDRAW;
}

/* Block 0 is hashed in both ways: which counts shows when there is a second one, or none. */
static bool add_hash(struct pipe_source *source)
{
    uint8_t hash[TREE_HASH_SIZE];
    uint32_t index = source->count;
    if (index == 0) {
        tree_hash_whole(source->block, source->filled, source->alone);
        tree_hash_block(source->block, source->filled, 0, source->beside);
        return true;
    }
    tree_hash_block(source->block, source->filled, index, hash);
    return (index > 1 || tree_hash_add(source->hash, 0, source->beside)) &&
           tree_hash_add(source->hash, index, hash);
}

static enum source_result give_block(struct pipe_source *source, uint8_t *buffer,
                                     struct source_item *out)
{
    if (source->count >= BLOCK_NUMBER_LIMIT - FIRST_BLOCK) {
        errno = EFBIG;
        return withdraw(source, out, "a transfer holds at most 2^48 bytes");
    }
    if (!add_hash(source)) {
        errno = ENOMEM;
        return withdraw(source, out, "cannot be hashed");
    }
    memcpy(buffer, source->block, source->filled);
    out->block = FIRST_BLOCK + source->count++;
    out->length = (uint32_t)source->filled;
    out->has_entry_block = true;
    source->size += source->filled;
    source->filled = 0;
    if (source->ended)
        source->stage = STAGE_COMPLETE;
    return SOURCE_BLOCK;
}

static enum source_result read_on(struct pipe_source *source, uint8_t *buffer,
                                  struct source_item *out)
{
    struct pollfd ready = {.fd = source->fd, .events = POLLIN};
    int count = poll(&ready, 1, WAIT_MS);
    if (count == 0 || (count < 0 && errno == EINTR))
        return SOURCE_AGAIN;
    ssize_t n = count < 0
                    ? -1
                    : read(source->fd, source->block + source->filled, BLOCK_SIZE - source->filled);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return SOURCE_AGAIN;
    if (n < 0)
        return withdraw(source, out, "standard input cannot be read");
    source->ended = n == 0;
    source->filled += (size_t)n;
    if (source->filled == BLOCK_SIZE || (source->ended && source->filled > 0))
        return give_block(source, buffer, out);
    if (source->ended)
        source->stage = STAGE_COMPLETE;
    return SOURCE_AGAIN;
}

static enum source_result complete(struct pipe_source *source, struct source_item *out)
{
    bool good = true;
    if (source->count == 0)
        tree_hash_whole("", 0, source->alone);
    if (source->count <= 1)
        memcpy(out->hash, source->alone, sizeof out->hash);
    else
        good = tree_hash_set_size(source->hash, source->size) &&
               tree_hash_result(source->hash, out->hash);
    if (!good) {
        errno = ENOMEM;
        return withdraw(source, out, "cannot be hashed");
    }
    out->size = source->size;
    out->has_entry_block = true;
    source->stage = STAGE_END;
    return SOURCE_COMPLETE;
}

static enum source_result pipe_next(void *context, uint8_t *buffer, struct source_item *out)
{
    struct pipe_source *source = context;
    enum source_result result = SOURCE_END;
    memset(out, 0, sizeof *out);
    switch (source->stage) {
    case STAGE_ENTRY:
        result = give_entry(source, buffer, out);
        break;
    case STAGE_READ:
        result = read_on(source, buffer, out);
        break;
    case STAGE_COMPLETE:
        result = complete(source, out);
        break;
    case STAGE_END:
        out->blocks = 1 + (uint64_t)source->count;
        out->files = 1;
        break;
    }
    out->total_files = 1;
    out->total_bytes = source->size;
    out->totals_final = source->stage >= STAGE_COMPLETE;
    return result;
}

static bool pipe_answer(void *context, uint32_t block, const uint8_t *bytes, size_t size,
                        struct error *error)
{
    (void)context, (void)block, (void)bytes, (void)size;
    return error_set(error, ERROR_PROTOCOL, "an answer came though nothing was offered");
}

static void pipe_set_existing(void *context, const uint8_t *bitmap, size_t size)
{
    (void)context, (void)bitmap, (void)size;
}

static const struct transfer_request *pipe_names(void *context)
{
    return &((struct pipe_source *)context)->names;
}

static void pipe_close(void *context)
{
    struct pipe_source *source = context;
    transfer_request_release(&source->names);
    tree_hash_free(source->hash);
    free(source->block);
    free(source);
}

const struct source_ops pipe_source_ops = {.next = pipe_next,
                                           .answer = pipe_answer,
                                           .set_existing = pipe_set_existing,
                                           .names = pipe_names,
                                           .close = pipe_close};
