/* A set of unsigned integers kept as sorted, disjoint, half-open ranges.
 *
 * For block numbers and for the received part of a block. Memory follows the number of gaps, not
 * the numbers held. Not for untrusted growth without a limit: check `count`.
 */
#ifndef PETREL_BASE_RANGE_SET_H
#define PETREL_BASE_RANGE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
    uint64_t start, end; /* [start, end) */
};

struct range_set {
    struct range *ranges; /* ascending, never touching */
    size_t count, capacity;
};

void range_set_init(struct range_set *set); /* zeroed memory is also a valid empty set */
void range_set_release(struct range_set *set);

/* Adds [start, end) and says how many numbers were new, where `added`
 * is not NULL. *added is written only on success; false
 * without memory. */
bool range_set_add(struct range_set *set, uint64_t start, uint64_t end, uint64_t *added);
/* False without memory: a hole in the middle of a range makes two of it. */
bool range_set_remove(struct range_set *set, uint64_t start, uint64_t end);
/* True when all of [start, end) is held; an empty range is. */
bool range_set_contains(const struct range_set *set, uint64_t start, uint64_t end);
/* The first range not held within [start, limit); false when all of it is held. */
bool range_set_first_gap(const struct range_set *set, uint64_t start, uint64_t limit,
                         struct range *gap);
uint64_t range_set_total(const struct range_set *set); /* numbers held */

#endif
