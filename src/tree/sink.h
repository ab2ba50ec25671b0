/* The files that arrive: a step engine behind struct sink_ops (tree/storage.h).
 *
 * Takes blocks in any order and makes of them files that appear under their final names only when
 * they are whole, verified and on the disk; what is there already is replaced only by a rename, and
 * only a file or a link by a file or a link. Everything happens beneath the destination
 * (tree/beneath.h). New small files have no name before, where the system has such. Temporary names
 * are ".petrel-" and 16 hex digits of the hash of the file's path below the destination, so that a
 * rerun meets its predecessor's remains and clears them.
 *
 * Unfinished files lose their temporary file at close. A process that is killed leaves the old
 * file or the new one under each final name, and perhaps temporary files.
 */
#ifndef PETREL_TREE_SINK_H
#define PETREL_TREE_SINK_H

#include "tree/file_list.h"
#include "tree/storage.h"

struct file_sink;

/* NULL without memory. */
struct file_sink *file_sink_new(void);
/* --files-from of a pull: whatever the list (indexed) does not name is refused. It is
 * borrowed for the sink's life. */
void file_sink_set_list(struct file_sink *sink, struct file_list *list);

/* For tests: how many files may wait for a common sync. Before open. */
void file_sink_set_batch(struct file_sink *sink, size_t files);

/* The operations; their `sink` is a struct file_sink, which close() frees. */
extern const struct sink_ops file_sink_ops;

#endif
