/* BLAKE3 of a file whose blocks are hashed in any order.
 *
 * A block of 1 MiB is a whole subtree of the BLAKE3 tree (chunk counter 1024 x k), so its chaining
 * value can be computed alone and all of them combine to the ordinary BLAKE3 hash of the file, the
 * one b3sum prints. Source: the BLAKE3 paper, sections 2.4 to 2.6 (O'Connor, Aumasson, Neves,
 * Wilcox-O'Hearn). The only file that uses the library's internal blake3_impl.h.
 */
#ifndef PETREL_CRYPTO_TREE_HASH_H
#define PETREL_CRYPTO_TREE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TREE_HASH_SIZE 32
#define TREE_HASH_BLOCK (1024 * 1024)

/* The whole input at once: the ordinary BLAKE3 hash. */
void tree_hash_whole(const void *bytes, size_t size, uint8_t hash[TREE_HASH_SIZE]);

/* The non-root chaining value of block `index` of a file of more than one block. `size` is
 * TREE_HASH_BLOCK, or 1 to TREE_HASH_BLOCK for the last block. */
void tree_hash_block(const void *bytes, size_t size, uint64_t index,
                     uint8_t chaining_value[TREE_HASH_SIZE]);

/* The value of a parent node from its two children, the root's if `root`. */
void tree_hash_parent(const uint8_t left[TREE_HASH_SIZE], const uint8_t right[TREE_HASH_SIZE],
                      bool root, uint8_t value[TREE_HASH_SIZE]);

/* Collects the chaining values of one file in any order. Memory follows the number of separate
 * runs of blocks held, log2 values for each, not the file's size. */
struct tree_hash;

/* A file whose size is not known yet (a pipe): say it with tree_hash_set_size before the result. */
#define TREE_HASH_SIZE_UNKNOWN UINT64_MAX

struct tree_hash *tree_hash_new(uint64_t file_size); /* NULL without memory */
void tree_hash_free(struct tree_hash *hash);         /* takes NULL */
/* Once, for a file begun without a size. False when a block past that size was already given. */
bool tree_hash_set_size(struct tree_hash *hash, uint64_t file_size);
/* A value given twice must be equal: false when it differs. That can only be seen while the block
 * is not yet joined with its neighbour; later repeats change nothing and are true. Also false for
 * an index past the end, or without memory; the collector stays as it was. */
bool tree_hash_add(struct tree_hash *hash, uint64_t index,
                   const uint8_t chaining_value[TREE_HASH_SIZE]);
/* True when every block is there. Files of at most one block: give tree_hash_whole's value as
 * index 0. */
bool tree_hash_result(const struct tree_hash *hash, uint8_t result[TREE_HASH_SIZE]);

#endif
