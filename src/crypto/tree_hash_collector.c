/* The collector: a hash table of the subtrees that are complete but not yet joined with their
 * sibling, keyed by level and position. A block goes in at level 0 and climbs while its sibling is
 * there, so a run of blocks leaves at most two subtrees a level. */
#include "crypto/tree_hash.h"

#include <stdlib.h>
#include <string.h>

#define LEVELS 48 /* more blocks than 2^47 would be more than 2^64 bytes */
#define CAPACITY_FIRST 32

struct node {
    uint64_t key; /* 0: empty slot */
    uint8_t value[TREE_HASH_SIZE];
};

struct tree_hash {
    struct node *nodes; /* open addressing, linear probing, at most half full */
    size_t capacity;    /* a power of two */
    size_t count;
    uint64_t blocks; /* in the file; while the size is unknown, 1 + the largest index so far */
    bool size_known;
};

static uint64_t key_of(unsigned level, uint64_t index)
{
    return (uint64_t)(level + 1) << 56 | index;
}

/* Mixes all bits of the key (the finaliser of MurmurHash3). */
static size_t slot_of(const struct tree_hash *hash, uint64_t key)
{
    key ^= key >> 33;
    key *= UINT64_C(0xff51afd7ed558ccd);
    key ^= key >> 33;
    key *= UINT64_C(0xc4ceb9fe1a85ec53);
    key ^= key >> 33;
    return (size_t)key & (hash->capacity - 1);
}

static struct node *node_find(const struct tree_hash *hash, unsigned level, uint64_t index)
{
    uint64_t key = key_of(level, index);
    for (size_t i = slot_of(hash, key);; i = (i + 1) & (hash->capacity - 1)) {
        if (hash->nodes[i].key == key)
            return &hash->nodes[i];
        if (hash->nodes[i].key == 0)
            return NULL;
    }
}

/* There must be room, and no node of that key. */
static void node_insert(struct tree_hash *hash, uint64_t key, const uint8_t *value)
{
    size_t i = slot_of(hash, key);
    while (hash->nodes[i].key != 0)
        i = (i + 1) & (hash->capacity - 1);
    hash->nodes[i].key = key;
    memcpy(hash->nodes[i].value, value, TREE_HASH_SIZE);
    hash->count++;
}

/* Closes the gap by moving later nodes of the same cluster back, so that no search stops early. */
static void node_remove(struct tree_hash *hash, struct node *node)
{
    size_t mask = hash->capacity - 1;
    size_t gap = (size_t)(node - hash->nodes);

    for (size_t i = (gap + 1) & mask; hash->nodes[i].key != 0; i = (i + 1) & mask) {
        size_t home = slot_of(hash, hash->nodes[i].key);
        if (((i - home) & mask) >= ((i - gap) & mask)) {
            hash->nodes[gap] = hash->nodes[i];
            gap = i;
        }
    }
    hash->nodes[gap].key = 0;
    hash->count--;
}

static bool make_room(struct tree_hash *hash)
{
    struct tree_hash larger = *hash;

    if (2 * (hash->count + 1) <= hash->capacity)
        return true;
    larger.capacity = 2 * hash->capacity;
    larger.count = 0;
    larger.nodes = calloc(larger.capacity, sizeof *larger.nodes);
    if (larger.nodes == NULL)
        return false;
    for (size_t i = 0; i < hash->capacity; i++) {
        if (hash->nodes[i].key != 0)
            node_insert(&larger, hash->nodes[i].key, hash->nodes[i].value);
    }
    free(hash->nodes);
    *hash = larger;
    return true;
}

static uint64_t blocks_of(uint64_t file_size)
{
    if (file_size == 0)
        return 1;
    return (file_size - 1) / TREE_HASH_BLOCK + 1;
}

struct tree_hash *tree_hash_new(uint64_t file_size)
{
    struct tree_hash *hash = calloc(1, sizeof *hash);
    if (hash == NULL)
        return NULL;
    hash->capacity = CAPACITY_FIRST;
    hash->nodes = calloc(hash->capacity, sizeof *hash->nodes);
    if (hash->nodes == NULL) {
        free(hash);
        return NULL;
    }
    hash->size_known = file_size != TREE_HASH_SIZE_UNKNOWN;
    hash->blocks = hash->size_known ? blocks_of(file_size) : 0;
    return hash;
}

void tree_hash_free(struct tree_hash *hash)
{
    if (hash == NULL)
        return;
    free(hash->nodes);
    free(hash);
}

/* True when the subtree of that place is complete, alone or within a larger one. */
static bool is_covered(const struct tree_hash *hash, uint64_t index)
{
    for (unsigned level = 1; level < LEVELS; level++) {
        if (node_find(hash, level, index >> level) != NULL)
            return true;
    }
    return false;
}

/* Joins the node with its sibling, the result with its own, and so on. The node above all blocks
 * that are known of stays apart: it may be the root, which is computed differently. */
static void climb(struct tree_hash *hash, unsigned level, uint64_t index)
{
    for (; level + 1 < LEVELS; level++, index /= 2) {
        struct node *left, *right;
        uint8_t value[TREE_HASH_SIZE];

        if (index / 2 == 0 && hash->blocks <= UINT64_C(2) << level)
            return;
        left = node_find(hash, level, index & ~UINT64_C(1));
        right = node_find(hash, level, index | 1);
        if (left == NULL || right == NULL)
            return;
        tree_hash_parent(left->value, right->value, false, value);
        node_remove(hash, left);
        node_remove(hash, node_find(hash, level, index | 1)); /* removing one may move the other */
        node_insert(hash, key_of(level + 1, index / 2), value);
    }
}

/* More blocks are known of: the subtree at the left edge may be free to climb. */
static void raise_blocks(struct tree_hash *hash, uint64_t blocks)
{
    hash->blocks = blocks;
    for (unsigned level = 0; level < LEVELS; level++) {
        if (node_find(hash, level, 0) != NULL)
            climb(hash, level, 0);
    }
}

bool tree_hash_set_size(struct tree_hash *hash, uint64_t file_size)
{
    uint64_t blocks = blocks_of(file_size);
    if (hash->size_known || file_size == TREE_HASH_SIZE_UNKNOWN || blocks < hash->blocks)
        return false;
    hash->size_known = true;
    raise_blocks(hash, blocks);
    return true;
}

bool tree_hash_add(struct tree_hash *hash, uint64_t index,
                   const uint8_t chaining_value[TREE_HASH_SIZE])
{
    const struct node *same;

    if (index >= (hash->size_known ? hash->blocks : UINT64_C(1) << (LEVELS - 1)))
        return false;
    same = node_find(hash, 0, index);
    if (same != NULL)
        return memcmp(same->value, chaining_value, TREE_HASH_SIZE) == 0;
    if (is_covered(hash, index))
        return true;
    if (!make_room(hash))
        return false;
    node_insert(hash, key_of(0, index), chaining_value);
    climb(hash, 0, index);
    if (index >= hash->blocks)
        raise_blocks(hash, index + 1);
    return true;
}

/* The file's blocks are, from the left, one complete subtree for each bit set in their number, the
 * largest first; the root joins them from the right. */
bool tree_hash_result(const struct tree_hash *hash, uint8_t result[TREE_HASH_SIZE])
{
    const struct node *parts[LEVELS + 1];
    uint8_t value[TREE_HASH_SIZE];
    size_t count = 0;
    uint64_t place = 0;

    if (!hash->size_known)
        return false;
    for (unsigned level = LEVELS; level-- > 0;) {
        if ((hash->blocks >> level & 1) == 0)
            continue;
        if (level > 0 && hash->blocks == UINT64_C(1) << level) { /* halves, kept apart by climb */
            parts[count++] = node_find(hash, level - 1, 0);
            parts[count++] = node_find(hash, level - 1, 1);
        } else {
            parts[count++] = node_find(hash, level, place >> level);
        }
        place += UINT64_C(1) << level;
    }
    for (size_t i = 0; i < count; i++) {
        if (parts[i] == NULL)
            return false;
    }
    memcpy(value, parts[--count]->value, TREE_HASH_SIZE);
    while (count > 0) {
        count--;
        tree_hash_parent(parts[count]->value, value, count == 0, value);
    }
    memcpy(result, value, TREE_HASH_SIZE);
    return true;
}
