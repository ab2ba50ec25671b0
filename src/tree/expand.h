/* Expanding a path with wildcards to the paths that exist, without any shell and without recursion.
 */
#ifndef PETREL_TREE_EXPAND_H
#define PETREL_TREE_EXPAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct path_list {
    char **paths;
    size_t count, capacity;
    bool closed; /* a directory that might hold a match could not be read or searched */
};

void path_list_release(struct path_list *list);
/* Adds a copy of a path that is known. */
bool path_list_add(struct path_list *list, const char *path, struct error *error);

/* Fills the zeroed `list` with what `pattern` matches, sorted; a "/" at the end is kept and asks
 * for directories. Directories that cannot be read match nothing, and `closed` tells. False: more
 * than `limit` matches, or no memory; the list is then empty. */
bool expand_path(const char *pattern, struct path_list *list, size_t limit, struct error *error);

#endif
