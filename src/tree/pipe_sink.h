/* Standard output as the place of one file: a step engine behind struct sink_ops (tree/storage.h).
 *
 * Blocks are written in their order as soon as they are there, before the file is known to be
 * whole: each is authenticated, the hash of all is compared at the end. What arrives early waits
 * within the credit of the transfer. A step waits at most a tenth of a second for the reader. It
 * cannot be gone on with after an interruption. Flags and blocking mode of the descriptor are left
 * alone.
 */
#ifndef PETREL_TREE_PIPE_SINK_H
#define PETREL_TREE_PIPE_SINK_H

#include "tree/storage.h"

struct pipe_sink;

/* `fd` is borrowed. NULL without memory. */
struct pipe_sink *pipe_sink_new(int fd);

/* The operations; their `sink` is a struct pipe_sink, which close() frees. */
extern const struct sink_ops pipe_sink_ops;

#endif
