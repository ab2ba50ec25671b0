/* The text of a manifest: what a tree holds, in one canonical form, so that the hash of the text
 * stands for the tree (docs/man/petrel-manifest.1).
 *
 * Pure. The first line is MANIFEST_FIRST_LINE. Then come the entries, ascending by the bytes of
 * their paths, each of one or two lines that end in a newline:
 *
 *     d MODE TIME PATH            a directory
 *     f MODE TIME SIZE PATH       a file, and its hash in the form of b3sum:
 *     HASH  PATH
 *     l TIME PATH                 a symbolic link, and what it leads to:
 *     > TARGET
 *
 * MODE is four octal digits, TIME seconds, a point and nine digits, HASH 64 hexadecimal ones. A
 * line whose path or target holds a backslash or a newline begins with a backslash; there each
 * backslash is written twice, a newline as \n, as b3sum does.
 */
#ifndef PETREL_TREE_MANIFEST_FORM_H
#define PETREL_TREE_MANIFEST_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define MANIFEST_FIRST_LINE "petrel-manifest 1"
#define MANIFEST_PATH_MAX 8192u
#define MANIFEST_LINE_MAX (2u * MANIFEST_PATH_MAX + 128u)
#define MANIFEST_ENTRY_MAX (2u * MANIFEST_LINE_MAX)

enum manifest_kind { MANIFEST_DIRECTORY = 'd', MANIFEST_FILE = 'f', MANIFEST_LINK = 'l' };

struct manifest_entry {
    enum manifest_kind kind;
    const char *path; /* not ended by NUL; borrowed */
    size_t path_size;
    uint32_t mode; /* directories and files: 12 bits */
    int64_t mtime_s;
    uint32_t mtime_ns;
    uint64_t size;      /* files */
    uint8_t hash[32];   /* files */
    const char *target; /* links */
    size_t target_size;
};

/* The lines of an entry, at most MANIFEST_ENTRY_MAX bytes; returns how many. */
size_t manifest_write(const struct manifest_entry *entry, char *text);

/* Takes a manifest apart line by line; says of what is wrong in which line. */
struct manifest_reader {
    uint64_t line;
    bool begun, second; /* second: a file's hash or a link's target is to come */
    struct manifest_entry entry;
    char path[MANIFEST_PATH_MAX + 1], previous[MANIFEST_PATH_MAX + 1];
    char other[MANIFEST_PATH_MAX + 1];
    size_t previous_size;
    bool has_previous;
};

enum manifest_result { MANIFEST_MORE, MANIFEST_ENTRY, MANIFEST_INVALID };

/* One line without its newline. MANIFEST_ENTRY: reader->entry is whole, valid until the next call.
 */
enum manifest_result manifest_read(struct manifest_reader *reader, const char *line, size_t size,
                                   struct error *error);
/* After the last line. False: it ends too early. */
bool manifest_read_end(const struct manifest_reader *reader, struct error *error);
/* As memcmp, a shorter path first. */
int manifest_compare(const char *a, size_t a_size, const char *b, size_t b_size);

#endif
