/* Which files a destination has already, by size and time: where to look for the content of a file
 * that is not there under its name, because it was renamed, moved or duplicated since.
 *
 * Only candidates: whoever uses one reads and hashes it. Memory is bounded, whatever the number of
 * files: what does not fit is not found. Built piece by piece, so that other work goes on
 * meanwhile.
 */
#ifndef PETREL_TREE_CONTENT_INDEX_H
#define PETREL_TREE_CONTENT_INDEX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"

#define CONTENT_INDEX_SIZE_MIN 4096u /* smaller files are sent as fast as found */
#define CONTENT_INDEX_ROOTS_MAX 4100u

struct content_index;

struct content_index *content_index_new(void); /* NULL: no memory, or no place for a file */
void content_index_free(struct content_index *index);
/* A directory to look through: with all that is below it, or only its own files. `directory` is an
 * open descriptor and becomes the index's, also on failure. */
bool content_index_add(struct content_index *index, int directory, bool recursive);
/* Looks at some more entries; false when all were seen. */
bool content_index_step(struct content_index *index);
/* Opens a file of that size, if there is one also of that time; *status is its. -1: none. */
int content_index_open(struct content_index *index, uint64_t size, int64_t mtime_s,
                       uint32_t mtime_ns, struct stat *status);

#endif
