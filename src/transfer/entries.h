/* Which packed blocks are not acknowledged yet, so that content does not run too far ahead of the
 * entries it belongs to (docs/protocol.md, "Blocks").
 *
 * Packed blocks are registered in the order the source gave them. A content block counts as ahead
 * until the packed block that holds its entry is acknowledged; when the source does not say which
 * that is, until all are that were given before it.
 */
#ifndef PETREL_TRANSFER_ENTRIES_H
#define PETREL_TRANSFER_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ENTRIES_AHEAD_MAX 32u /* content blocks of 1 MiB */

struct entry_block {
    uint32_t block;
    bool acked;
    uint32_t ahead_exact; /* content blocks whose entry is in this block */
    uint32_t ahead_after; /* content blocks given after it whose entry is in it or before it */
};

struct entries {
    struct entry_block *blocks; /* from `first` on, oldest first; blocks[first] is not acked */
    size_t first, count, capacity;
    uint64_t first_sequence; /* of blocks[first]: counts packed blocks from 0 */
    uint32_t ahead;          /* content blocks that count now */
};

void entries_release(struct entries *entries);
/* A packed block was read. False without memory. */
bool entries_add(struct entries *entries, uint32_t block);
void entries_acked(struct entries *entries, uint32_t block);
/* How many packed blocks were registered so far. */
uint64_t entries_sequence(const struct entries *entries);
/* Whether all of the first `sequence` packed blocks are acknowledged. */
bool entries_are_acked(const struct entries *entries, uint64_t sequence);
/* Whether `block` is not waiting for its acknowledgement. */
bool entries_is_acked(const struct entries *entries, uint32_t block);
/* One content block may go now; its entry is in `block`, or NULL when the source does not say. True
 * counts it. */
bool entries_let_content(struct entries *entries, const uint32_t *block);

#endif
