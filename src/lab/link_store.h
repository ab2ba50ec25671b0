/* Memory for the packets that are on their way: buffers in a few size classes, each shared by the
 * pieces that its packet was cut into.
 *
 * Memory is mapped in chunks as the flight grows, up to a limit, and never given back before the
 * end: the buffer freed last is used first, so that caches stay warm. One owner thread.
 */
#ifndef PETREL_LAB_LINK_STORE_H
#define PETREL_LAB_LINK_STORE_H

#include <stdint.h>

#include "lab/link_packet.h"

struct link_store;

struct link_buffer {
    struct link_packet packet; /* filled by whoever reads into `bytes` */
    struct link_buffer *next_free;
    uint32_t references;
    uint32_t size_class;
    uint8_t bytes[]; /* LINK_PACKET_MAX in a buffer from link_store_take */
};

struct link_store *link_store_new(uint64_t limit_bytes);
void link_store_free(struct link_store *store);

/* A buffer for the longest packet, with one reference; NULL at the limit. */
struct link_buffer *link_store_take(struct link_store *store);
/* A copy of the first `used_bytes` in the smallest fitting class, when that saves memory; else
 * (or at the limit) `buffer` itself. When a copy is returned, `buffer` is still the caller's. */
struct link_buffer *link_store_shrink(struct link_store *store, struct link_buffer *buffer,
                                      uint32_t used_bytes);
void link_store_keep(struct link_buffer *buffer); /* one more reference */
void link_store_drop(struct link_store *store, struct link_buffer *buffer);

#endif
