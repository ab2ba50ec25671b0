/* Standard input (or any descriptor that can only be read once) as a source of one file whose size
 * is not known before its end: a step engine behind struct source_ops (tree/storage.h).
 *
 * Each block is read once and hashed from the same buffer; size and hash come at the end. It cannot
 * be gone on with after an interruption. A step waits at most a tenth of a second for bytes, so
 * that a reader that nobody writes to can be ended. Flags and blocking mode of the descriptor are
 * left alone.
 */
#ifndef PETREL_TREE_PIPE_SOURCE_H
#define PETREL_TREE_PIPE_SOURCE_H

#include "tree/storage.h"

struct pipe_source;

/* `fd` is borrowed; `mode` and `mtime_s` are what the file gets. NULL without memory. */
struct pipe_source *pipe_source_new(int fd, uint32_t mode, int64_t mtime_s);

/* The operations; their `source` is a struct pipe_source, which close() frees. */
extern const struct source_ops pipe_source_ops;

#endif
