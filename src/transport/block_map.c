#include "transport/block_map.h"

#include <stdlib.h>
#include <string.h>

void block_map_init(struct block_map *map)
{
    memset(map, 0, sizeof(*map));
}

void block_map_release(struct block_map *map)
{
    free(map->slots);
    memset(map, 0, sizeof(*map));
}

static size_t home_of(const struct block_map *map, uint32_t block)
{
    return (size_t)(block * UINT32_C(2654435761) >> 7) & (map->capacity - 1);
}

/* The slot of `block`, or the empty one where it would go. */
static size_t probe(const struct block_map *map, uint32_t block)
{
    size_t at = home_of(map, block);
    while (map->slots[at].value != NULL && map->slots[at].block != block)
        at = (at + 1) & (map->capacity - 1);
    return at;
}

void *block_map_find(const struct block_map *map, uint32_t block)
{
    return map->capacity == 0 ? NULL : map->slots[probe(map, block)].value;
}

static bool grow(struct block_map *map)
{
    struct block_map old = *map;
    size_t capacity = old.capacity == 0 ? 64 : old.capacity * 2;
    struct block_map_slot *slots = calloc(capacity, sizeof(*slots));
    if (slots == NULL)
        return false;
    map->slots = slots;
    map->capacity = capacity;
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.slots[i].value != NULL)
            map->slots[probe(map, old.slots[i].block)] = old.slots[i];
    }
    free(old.slots);
    return true;
}

bool block_map_set(struct block_map *map, uint32_t block, void *value)
{
    if (2 * (map->count + 1) > map->capacity && !grow(map))
        return false;
    size_t at = probe(map, block);
    if (map->slots[at].value == NULL)
        map->count++;
    map->slots[at] = (struct block_map_slot){.block = block, .value = value};
    return true;
}

void *block_map_take(struct block_map *map, uint32_t block)
{
    if (map->capacity == 0)
        return NULL;
    size_t at = probe(map, block);
    void *value = map->slots[at].value;
    if (value == NULL)
        return NULL;
    map->count--;
    /* Close the gap: move back what would no longer be found. */
    size_t mask = map->capacity - 1;
    size_t hole = at;
    for (size_t next = (at + 1) & mask; map->slots[next].value != NULL; next = (next + 1) & mask) {
        size_t home = home_of(map, map->slots[next].block);
        if (((next - home) & mask) >= ((next - hole) & mask)) {
            map->slots[hole] = map->slots[next];
            hole = next;
        }
    }
    map->slots[hole].value = NULL;
    return value;
}

void *block_map_at(const struct block_map *map, size_t index)
{
    return map->slots[index].value;
}
