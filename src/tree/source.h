/* The files to send, as blocks: a step engine behind struct source_ops (tree/storage.h).
 *
 * Walks the operands, packs what is small, cuts what is large, reads each file once and hashes it
 * from the buffer it is sent from. What may exist at the destination is offered first. Neither
 * memory nor descriptors grow with the number or size of files.
 */
#ifndef PETREL_TREE_SOURCE_H
#define PETREL_TREE_SOURCE_H

#include "tree/file_list.h"
#include "tree/storage.h"

struct file_source;

/* A push: `paths` as the user wrote them; request->flags are the user's. Adds the top-level names
 * to `request`, whose names must be empty. NULL when nothing can be sent: all sources are missing,
 * or two would overwrite each other. Sources that are missing among others are reported by next().
 */
struct file_source *file_source_new_push(const char *const *paths, size_t count,
                                         struct transfer_request *request, struct error *error);
/* A pull, at the far end: the paths are the request's (tree/operand.h says how they are read). */
struct file_source *file_source_new_pull(const struct transfer_request *request,
                                         struct error *error);

/* --files-from of a push: only what the list names is sent. It is borrowed for the source's
 * life. False when there is not one source, a directory's contents. */
bool file_source_set_list(struct file_source *source, struct file_list *list, struct error *error);

/* The operations; their `source` is a struct file_source, which close() frees. */
extern const struct source_ops file_source_ops;

#endif
