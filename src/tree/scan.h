/* A walk through a directory tree, one entry a call, without recursion.
 *
 * A directory comes before what it holds. Names are sorted (by bytes) within a directory of
 * ordinary size; of a huge one, a chunk at a time. Memory and open descriptors are bounded whatever
 * the tree's depth and width. Symbolic links are entries, or followed with `follow_links`, where a
 * directory that contains itself is reported and left out. Devices, pipes and sockets are reported
 * and left out; petrel's own temporary files (".petrel-" and 16 hex digits, perhaps ".journal") are
 * left out and counted. What cannot be read, or vanishes meanwhile, is reported, and the walk goes
 * on.
 */
#ifndef PETREL_TREE_SCAN_H
#define PETREL_TREE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"
#include "tree/filter.h"
#include "tree/read_ahead.h"

enum scan_result { SCAN_ENTRY, SCAN_PROBLEM, SCAN_END };

/* Valid until the next call. */
struct scan_entry {
    const char *path; /* below the root, "" for the root itself */
    size_t path_size;
    int directory; /* the entry is `leaf` in this directory */
    const char *leaf;
    struct stat status;
    bool excluded; /* by the filter; only with scan_set_everything */
};

struct scan;

/* `root` is an open directory and becomes the scan's. NULL without memory (root stays). */
struct scan *scan_new(int root, bool follow_links);
/* What the filter excludes on that side is left out in silence, and with a directory what it holds.
 * Paths are matched as they stand below `prefix` ("" for none). The filter is borrowed.
 * Called before the first scan_next; false without memory. */
bool scan_set_filter(struct scan *scan, const struct filter *filter, unsigned side,
                     const char *prefix);
/* Devices, pipes and sockets become entries. */
void scan_set_specials(struct scan *scan);
/* Nothing is left out in silence: these, petrel's own names and what the filter excludes (marked,
 * and not gone into) become entries. */
void scan_set_everything(struct scan *scan);
/* Directories below the root are entries, but not gone into. */
void scan_set_flat(struct scan *scan);
/* The files that are given will be read at once: those that follow in their directory are brought
 * into memory meanwhile. Borrowed; NULL: not so. */
void scan_set_read_ahead(struct scan *scan, struct read_ahead *ahead);
/* How many names were left out until now because they are petrel's own. */
uint64_t scan_own_names(const struct scan *scan);
void scan_free(struct scan *scan);
/* SCAN_ENTRY fills entry. SCAN_PROBLEM fills error and entry's path. */
enum scan_result scan_next(struct scan *scan, struct scan_entry *entry, struct error *error);

/* Whether `name` is one of petrel's own temporary names. */
bool scan_is_own_name(const char *name);

/* Why something that was seen cannot be opened or read now: when it is gone, or another thing, it
 * was changed (ERROR_CHANGED); else as error_set_errno has it. Returns false. */
bool scan_set_error(struct error *error, int os_errno, const char *what);

#endif
