/* Hashing of blocks, level by level: all chunks of the block in one go, then all parents of each
 * level, so that every level is as wide as the processor's vectors. A level with an odd number of
 * nodes hands its last one up unchanged, which gives BLAKE3's tree (the left side of each node is
 * the largest power of two of chunks). */
#include "crypto/tree_hash.h"

#include <string.h>

#include "blake3_impl.h"

_Static_assert(TREE_HASH_SIZE == BLAKE3_OUT_LEN, "one size of hash");

#define CHUNKS_IN_BLOCK (TREE_HASH_BLOCK / BLAKE3_CHUNK_LEN)

/* Finishes a node: the last compression of a chunk, or the only one of a parent. */
static void compress_last(uint32_t state[8], const uint8_t *bytes, size_t size, uint64_t counter,
                          uint8_t flags, uint8_t value[TREE_HASH_SIZE])
{
    uint8_t block[BLAKE3_BLOCK_LEN] = {0};
    if (size > 0)
        memcpy(block, bytes, size);
    blake3_compress_in_place(state, block, (uint8_t)size, counter, flags);
    store_cv_words(value, state);
}

/* One chunk of 0 to 1024 bytes; `root` is ROOT or 0. */
static void hash_chunk(const uint8_t *bytes, size_t size, uint64_t counter, uint8_t root,
                       uint8_t value[TREE_HASH_SIZE])
{
    uint32_t state[8];
    uint8_t start = CHUNK_START;

    memcpy(state, IV, sizeof state);
    while (size > BLAKE3_BLOCK_LEN) {
        blake3_compress_in_place(state, bytes, BLAKE3_BLOCK_LEN, counter, start);
        bytes += BLAKE3_BLOCK_LEN;
        size -= BLAKE3_BLOCK_LEN;
        start = 0;
    }
    compress_last(state, bytes, size, counter, (uint8_t)(start | CHUNK_END | root), value);
}

/* The values of all chunks of one block of more than one chunk; returns how many. */
static size_t hash_chunks(const uint8_t *bytes, size_t size, uint64_t counter,
                          uint8_t (*values)[TREE_HASH_SIZE])
{
    const uint8_t *inputs[CHUNKS_IN_BLOCK];
    size_t whole = size / BLAKE3_CHUNK_LEN;
    size_t rest = size % BLAKE3_CHUNK_LEN;

    inputs[0] = bytes;
    for (size_t i = 1; i < whole; i++)
        inputs[i] = bytes + i * BLAKE3_CHUNK_LEN;
    blake3_hash_many(inputs, whole, BLAKE3_CHUNK_LEN / BLAKE3_BLOCK_LEN, IV, counter, true, 0,
                     CHUNK_START, CHUNK_END, values[0]);
    if (rest == 0)
        return whole;
    hash_chunk(bytes + whole * BLAKE3_CHUNK_LEN, rest, counter + whole, 0, values[whole]);
    return whole + 1;
}

/* One level up; returns how many nodes the next level has. */
static size_t hash_parents(const uint8_t (*values)[TREE_HASH_SIZE], size_t count,
                           uint8_t (*above)[TREE_HASH_SIZE])
{
    const uint8_t *inputs[CHUNKS_IN_BLOCK / 2];
    size_t pairs = count / 2;

    inputs[0] = values[0];
    for (size_t i = 1; i < pairs; i++)
        inputs[i] = values[2 * i];
    blake3_hash_many(inputs, pairs, 1, IV, 0, false, PARENT, 0, 0, above[0]);
    if (count % 2 == 0)
        return pairs;
    memcpy(above[pairs], values[count - 1], TREE_HASH_SIZE);
    return pairs + 1;
}

/* The subtree of at most one block that begins at chunk `counter`. */
static void hash_subtree(const uint8_t *bytes, size_t size, uint64_t counter, bool root,
                         uint8_t value[TREE_HASH_SIZE])
{
    uint8_t even[CHUNKS_IN_BLOCK][TREE_HASH_SIZE], odd[CHUNKS_IN_BLOCK / 2][TREE_HASH_SIZE];
    uint8_t(*level)[TREE_HASH_SIZE] = even, (*above)[TREE_HASH_SIZE] = odd;
    size_t count;

    if (size <= BLAKE3_CHUNK_LEN) {
        hash_chunk(bytes, size, counter, root ? ROOT : 0, value);
        return;
    }
    count = hash_chunks(bytes, size, counter, even);
    while (count > 2) {
        uint8_t(*done)[TREE_HASH_SIZE] = level;
        count = hash_parents((const uint8_t(*)[TREE_HASH_SIZE])level, count, above);
        level = above;
        above = done;
    }
    tree_hash_parent(level[0], level[1], root, value);
}

void tree_hash_parent(const uint8_t left[TREE_HASH_SIZE], const uint8_t right[TREE_HASH_SIZE],
                      bool root, uint8_t value[TREE_HASH_SIZE])
{
    uint32_t state[8];
    uint8_t both[2 * TREE_HASH_SIZE];

    memcpy(both, left, TREE_HASH_SIZE);
    memcpy(both + TREE_HASH_SIZE, right, TREE_HASH_SIZE);
    memcpy(state, IV, sizeof state);
    compress_last(state, both, sizeof both, 0, root ? PARENT | ROOT : PARENT, value);
}

void tree_hash_block(const void *bytes, size_t size, uint64_t index,
                     uint8_t chaining_value[TREE_HASH_SIZE])
{
    hash_subtree(bytes, size, index * CHUNKS_IN_BLOCK, false, chaining_value);
}

void tree_hash_whole(const void *bytes, size_t size, uint8_t hash[TREE_HASH_SIZE])
{
    const uint8_t *at = bytes;
    uint8_t stack[64][TREE_HASH_SIZE]; /* complete subtrees, the largest first */
    size_t depth = 0;
    uint64_t index = 0;

    if (size <= TREE_HASH_BLOCK) {
        hash_subtree(at, size, 0, true, hash);
        return;
    }
    /* All blocks but the last; as in a binary counter, each carry joins two equal subtrees. */
    for (; size > TREE_HASH_BLOCK; size -= TREE_HASH_BLOCK, at += TREE_HASH_BLOCK) {
        tree_hash_block(at, TREE_HASH_BLOCK, index, stack[depth++]);
        index++;
        for (uint64_t carry = index; carry % 2 == 0; carry /= 2) {
            depth--;
            tree_hash_parent(stack[depth - 1], stack[depth], false, stack[depth - 1]);
        }
    }
    tree_hash_block(at, size, index, hash);
    while (depth > 0) {
        depth--;
        tree_hash_parent(stack[depth], hash, depth == 0, hash);
    }
}
