/* Records that come in any order and are read back sorted, in memory that does not grow with their
 * number: what exceeds it goes in sorted runs to a file without a name (tree/spool_file.h), and the
 * runs are merged while they are read.
 *
 * Records are ordered as by memcmp, a record before its continuations; equal ones are all kept.
 * Used where a set of paths has to be compared, and would take memory otherwise.
 */
#ifndef PETREL_TREE_SORTED_SPOOL_H
#define PETREL_TREE_SORTED_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define SORTED_SPOOL_RECORD_MAX 16384u /* bytes of a record */

struct sorted_spool;

/* `memory` bounds what is held of the records (at least 64 KiB are), 0 for 8 MiB. NULL without
 * memory. */
struct sorted_spool *sorted_spool_new(size_t memory);
void sorted_spool_free(struct sorted_spool *spool);
/* Copies a record. False: the disk failed, or no memory. */
bool sorted_spool_add(struct sorted_spool *spool, const void *bytes, size_t size,
                      struct error *error);
/* Ends adding, or begins reading once more: the next record read is the first. */
bool sorted_spool_rewind(struct sorted_spool *spool, struct error *error);

enum spool_result { SPOOL_RECORD, SPOOL_END, SPOOL_FAILED };

/* The next record, borrowed until the next call. */
enum spool_result sorted_spool_next(struct sorted_spool *spool, const uint8_t **bytes, size_t *size,
                                    struct error *error);

#endif
