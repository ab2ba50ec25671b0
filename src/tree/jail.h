/* Where the paths that a stranger names lead: "name/path" is beneath the directory that was given
 * this name, and nothing else is anywhere.
 *
 * As chroot(2), a matter of the whole process and for good, but without privileges and with several
 * roots. A process that is in no jail has its paths looked up as ever, so that the code below need
 * not know. Inside, a link may lead to elsewhere beneath its root but never out of it (openat2 with
 * RESOLVE_BENEATH; where the kernel has none, links on the way are refused); no race can change
 * that. It covers paths that are given from outside, by these functions: what is found below an
 * open directory is tree/beneath's to guard.
 */
#ifndef PETREL_TREE_JAIL_H
#define PETREL_TREE_JAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/error.h"

struct jail_root {
    const char *name; /* one path component */
    int directory;    /* an open descriptor of it */
};

/* From now on; `roots` is borrowed for the process's life. Before other threads begin. */
void jail_enter(const struct jail_root *roots, size_t count);
bool jail_is_entered(void);
/* Where the last path that was looked up led out by a link, an error that says no more than that
 * something is not permitted says that, too. */
void jail_explain(struct error *error);

/* As the system's calls, for a path relative to AT_FDCWD; relative to another directory they are
 * the same. -1 and errno: ENOENT where there is no such root, EACCES for a way out. */
int jail_openat(int directory, const char *path, int flags);
int jail_fstatat(int directory, const char *path, struct stat *status, int flags);
int jail_mkdir(const char *path, mode_t mode);
/* Opens the directory that holds the path's last component, which *leaf then is. */
int jail_open_parent(const char *path, const char **leaf);

#endif
