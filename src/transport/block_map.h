/* Block number to pointer: a small open-addressing hash table with one owner thread. */
#ifndef PETREL_TRANSPORT_BLOCK_MAP_H
#define PETREL_TRANSPORT_BLOCK_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block_map_slot {
    uint32_t block;
    void *value; /* NULL: empty */
};

struct block_map {
    struct block_map_slot *slots;
    size_t capacity; /* a power of two, at most half used */
    size_t count;
};

void block_map_init(struct block_map *map);
void block_map_release(struct block_map *map); /* the values are the caller's */
void *block_map_find(const struct block_map *map, uint32_t block);
/* Adds or replaces; `value` is not NULL. False without memory. */
bool block_map_set(struct block_map *map, uint32_t block, void *value);
void *block_map_take(struct block_map *map, uint32_t block); /* removes; NULL if absent */
/* Visits all: index from 0 to capacity - 1, NULL for empty slots. */
void *block_map_at(const struct block_map *map, size_t index);

#endif
