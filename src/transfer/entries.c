#include "transfer/entries.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_FIRST 32u

void entries_release(struct entries *entries)
{
    free(entries->blocks);
    *entries = (struct entries){0};
}

bool entries_add(struct entries *entries, uint32_t block)
{
    if (entries->first > 0 && entries->first + entries->count == entries->capacity) {
        memmove(entries->blocks, entries->blocks + entries->first,
                entries->count * sizeof *entries->blocks);
        entries->first = 0;
    }
    if (entries->first + entries->count == entries->capacity) {
        size_t capacity = entries->capacity > 0 ? 2 * entries->capacity : CAPACITY_FIRST;
        struct entry_block *blocks = realloc(entries->blocks, capacity * sizeof *blocks);
        if (blocks == NULL)
            return false;
        entries->blocks = blocks;
        entries->capacity = capacity;
    }
    entries->blocks[entries->first + entries->count++] = (struct entry_block){.block = block};
    return true;
}

static struct entry_block *find(const struct entries *entries, uint32_t block)
{
    for (size_t i = 0; i < entries->count; i++) {
        struct entry_block *entry = &entries->blocks[entries->first + i];
        if (entry->block == block)
            return entry->acked ? NULL : entry;
    }
    return NULL;
}

void entries_acked(struct entries *entries, uint32_t block)
{
    struct entry_block *entry = find(entries, block);
    if (entry == NULL)
        return;
    entry->acked = true;
    entries->ahead -= entry->ahead_exact;
    while (entries->count > 0 && entries->blocks[entries->first].acked) {
        entries->ahead -= entries->blocks[entries->first].ahead_after;
        entries->first++;
        entries->count--;
        entries->first_sequence++;
    }
    if (entries->count == 0)
        entries->first = 0;
}

uint64_t entries_sequence(const struct entries *entries)
{
    return entries->first_sequence + entries->count;
}

bool entries_are_acked(const struct entries *entries, uint64_t sequence)
{
    return sequence <= entries->first_sequence;
}

bool entries_is_acked(const struct entries *entries, uint32_t block)
{
    return find(entries, block) == NULL;
}

bool entries_let_content(struct entries *entries, const uint32_t *block)
{
    if (entries->count == 0)
        return true;
    struct entry_block *entry = block != NULL
                                    ? find(entries, *block)
                                    : &entries->blocks[entries->first + entries->count - 1];
    if (entry == NULL)
        return true;
    if (entries->ahead >= ENTRIES_AHEAD_MAX)
        return false;
    if (block != NULL)
        entry->ahead_exact++;
    else
        entry->ahead_after++;
    entries->ahead++;
    return true;
}
