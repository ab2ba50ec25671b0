/* The bytes of a journal: which blocks of a half-written file were written, and their hashes.
 *
 * Pure. A header, then one record of fixed size for each block of the file, at a place that follows
 * from the block's index; places that were never written hold zeros or lie behind the end. Every
 * part carries a check of its own, so that whatever a crash or a disk made of it is seen: a journal
 * is a hint, and what it says is read and hashed again before anybody relies on it.
 *
 *   header   magic 8, version 4, block size 4, file size 8, identity 32, check 8      (big-endian)
 *   record   hash 32, check 8, at JOURNAL_HEADER_SIZE + index * JOURNAL_RECORD_SIZE
 *
 * The checks are the first bytes of a BLAKE3: of the header before it; of identity, index and hash.
 */
#ifndef PETREL_TREE_JOURNAL_FORM_H
#define PETREL_TREE_JOURNAL_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOURNAL_VERSION 1u
#define JOURNAL_HEADER_SIZE 64u
#define JOURNAL_RECORD_SIZE 40u
#define JOURNAL_IDENTITY_SIZE 32u
#define JOURNAL_HASH_SIZE 32u

struct journal_header {
    uint64_t file_size;
    uint8_t identity[JOURNAL_IDENTITY_SIZE]; /* of the path that is written */
};

enum journal_parse {
    JOURNAL_GOOD,
    JOURNAL_CORRUPT,
    JOURNAL_NEWER, /* of a version that this program does not know */
    JOURNAL_OTHER  /* of another path */
};

void journal_header_write(const struct journal_header *header, uint8_t bytes[JOURNAL_HEADER_SIZE]);
/* `size` bytes were there. header->identity says whose it has to be, file_size is filled in. */
enum journal_parse journal_header_read(struct journal_header *header, const uint8_t *bytes,
                                       size_t size);

void journal_record_write(const uint8_t identity[JOURNAL_IDENTITY_SIZE], uint64_t index,
                          const uint8_t hash[JOURNAL_HASH_SIZE],
                          uint8_t bytes[JOURNAL_RECORD_SIZE]);
/* False for a place that was never written, and for anything that is no record of this block. */
bool journal_record_read(const uint8_t identity[JOURNAL_IDENTITY_SIZE], uint64_t index,
                         const uint8_t bytes[JOURNAL_RECORD_SIZE], uint8_t hash[JOURNAL_HASH_SIZE]);
uint64_t journal_record_place(uint64_t index);

#endif
