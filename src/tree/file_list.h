/* The paths of --files-from: cleaned, sorted and without repetitions, in a file without a name, so
 * that a list of millions takes no memory.
 *
 * A path is as pack_path_valid has it, relative to the one source. The list's bytes, records of a
 * 2-byte length (big-endian) and the path in the order of their components, are also what travels
 * to the far end of a pull, where they are taken as they come and checked when they are read.
 */
#ifndef PETREL_TREE_FILE_LIST_H
#define PETREL_TREE_FILE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct file_list;

/* NULL without memory. */
struct file_list *file_list_new(void);
void file_list_free(struct file_list *list);

/* ---- made from what a user wrote ---- */

/* Adds a path: "/" and "./" at its beginning, "/" at its end, repeated slashes and "." inside are
 * dropped; nothing left means the source itself. ERROR_USAGE for ".." and for what is too long. */
bool file_list_add(struct file_list *list, const char *path, size_t size, struct error *error);
/* Sorts what was added. With `index`, file_list_admits can be asked. */
bool file_list_finish(struct file_list *list, bool index, struct error *error);

/* ---- or taken from a peer ---- */

bool file_list_append(struct file_list *list, const uint8_t *bytes, size_t size,
                      struct error *error);

/* ---- used ---- */

/* Up to `capacity` bytes of the list from `offset` on; returns how many, 0 at the end, -1 with an
 * error. */
ptrdiff_t file_list_read(const struct file_list *list, uint64_t offset, uint8_t *bytes,
                         size_t capacity, struct error *error);

/* Whether an entry may come: listed, a directory above something that is, or, with `below`, what a
 * listed one holds. False also when the list cannot be read. */
bool file_list_admits(const struct file_list *list, const char *path, size_t size,
                      bool is_directory, bool below);

/* Where a list is being read. */
struct file_list_reader {
    const struct file_list *list;
    uint64_t at;
    uint8_t bytes[8192];
    size_t first, filled;
};

enum file_list_result { FILE_LIST_PATH, FILE_LIST_END, FILE_LIST_FAILED };

/* The next path, ended by NUL; `path` holds PACK_PATH_MAX + 1 bytes. FAILED: the disk, or a list
 * that is none (ERROR_PROTOCOL). */
enum file_list_result file_list_next(struct file_list_reader *reader, char *path, size_t *size,
                                     struct error *error);

#endif
