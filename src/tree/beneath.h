/* Paths below a directory that no name, link or race can lead out of.
 *
 * Linux: openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS; where the kernel has none, or a
 * sandbox forbids it, a walk of openat with O_NOFOLLOW, one component at a time. Both refuse a
 * symbolic link in any component (ELOOP, or ENOTDIR for a link in the middle). Further steps
 * (rename, unlink, mkdir, symlink, stat) are taken by their *at calls with the file descriptor of
 * the parent directory and a single component, which never follow a link either.
 *
 * Paths are relative, without empty, "." or ".." components: pack_path_valid. "" is the directory
 * itself. Errors are returned as errno.
 */
#ifndef PETREL_TREE_BENEATH_H
#define PETREL_TREE_BENEATH_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/types.h>

/* As openat(directory, path, flags | O_CLOEXEC | O_NOFOLLOW, mode). The caller closes the result;
 * -1 with errno set. */
int beneath_open(int directory, const char *path, int flags, mode_t mode);

/* Opens the directory `path` for reading, or as O_PATH when it cannot be read. With `mode` not 0,
 * missing directories on the way are made with it and *made (may be NULL) counts them. */
int beneath_open_directory(int directory, const char *path, mode_t mode, unsigned *made);

/* What an open directory (of any kind, O_PATH too) holds, from its beginning; NULL with errno. */
DIR *beneath_list(int directory);

/* Where the last component of `path` begins (the whole of it without "/"). */
const char *beneath_leaf(const char *path);

/* Whether the kernel does it, in this process. */
bool beneath_has_openat2(void);
/* For tests: walk even where openat2 works. */
void beneath_force_walk(bool force);

#endif
