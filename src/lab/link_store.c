#include "lab/link_store.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHUNK_BYTES (UINT64_C(4) << 20)
#define CHUNKS_MAX 16384u
#define CLASS_COUNT 5u

/* Room for packet bytes in each class: acknowledgements, single packets, jumbo, short and long
 * trains. */
static const uint32_t class_room[CLASS_COUNT] = {192, 1792, 10240, 32768, LINK_PACKET_MAX};

struct link_store {
    struct link_buffer *free_lists[CLASS_COUNT];
    uint64_t mapped_bytes, limit_bytes;
    uint32_t chunk_count;
    void *chunks[CHUNKS_MAX];
};

static size_t buffer_stride(uint32_t size_class)
{
    return (sizeof(struct link_buffer) + class_room[size_class] + 63u) & ~(size_t)63;
}

struct link_store *link_store_new(uint64_t limit_bytes)
{
    struct link_store *store = calloc(1, sizeof *store);
    if (store != NULL)
        store->limit_bytes = limit_bytes;
    return store;
}

void link_store_free(struct link_store *store)
{
    if (store == NULL)
        return;
    for (uint32_t i = 0; i < store->chunk_count; i++)
        munmap(store->chunks[i], CHUNK_BYTES);
    free(store);
}

static bool grow(struct link_store *store, uint32_t size_class)
{
    if (store->mapped_bytes + CHUNK_BYTES > store->limit_bytes || store->chunk_count == CHUNKS_MAX)
        return false;
    uint8_t *chunk =
        mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk == MAP_FAILED)
        return false;
    (void)madvise(chunk, CHUNK_BYTES, MADV_HUGEPAGE); /* fewer faults; works without */
    store->chunks[store->chunk_count++] = chunk;
    store->mapped_bytes += CHUNK_BYTES;
    size_t stride = buffer_stride(size_class);
    for (size_t at = CHUNK_BYTES / stride; at-- > 0;) {
        struct link_buffer *buffer = (struct link_buffer *)(void *)(chunk + at * stride);
        buffer->size_class = size_class;
        buffer->next_free = store->free_lists[size_class];
        store->free_lists[size_class] = buffer;
    }
    return true;
}

static struct link_buffer *take(struct link_store *store, uint32_t size_class)
{
    if (store->free_lists[size_class] == NULL && !grow(store, size_class))
        return NULL;
    struct link_buffer *buffer = store->free_lists[size_class];
    store->free_lists[size_class] = buffer->next_free;
    buffer->references = 1;
    return buffer;
}

struct link_buffer *link_store_take(struct link_store *store)
{
    return take(store, CLASS_COUNT - 1);
}

struct link_buffer *link_store_shrink(struct link_store *store, struct link_buffer *buffer,
                                      uint32_t used_bytes)
{
    uint32_t size_class = 0;
    while (class_room[size_class] < used_bytes)
        size_class++;
    if (size_class >= buffer->size_class)
        return buffer;
    struct link_buffer *copy = take(store, size_class);
    if (copy == NULL)
        return buffer;
    copy->packet = buffer->packet;
    memcpy(copy->bytes, buffer->bytes, used_bytes);
    copy->packet.bytes = copy->bytes;
    return copy;
}

void link_store_keep(struct link_buffer *buffer)
{
    buffer->references++;
}

void link_store_drop(struct link_store *store, struct link_buffer *buffer)
{
    if (--buffer->references > 0)
        return;
    buffer->next_free = store->free_lists[buffer->size_class];
    store->free_lists[buffer->size_class] = buffer;
}
