/* What interrupted copies have left below a directory: half-written files and their journals, and
 * temporary files without one. Found and, if wanted, removed; what a petrel that is running has in
 * hand is left alone.
 */
#ifndef PETREL_TREE_STALE_H
#define PETREL_TREE_STALE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum stale_state {
    STALE_LEFT,   /* of no use but to go on from; removed unless only looked for */
    STALE_IN_USE, /* a copy writes to it now, or may: it is younger than ten minutes */
    STALE_PROBLEM /* error: could not be looked at, or removed */
};

struct stale {
    enum stale_state state;
    const char *path; /* below the directory; borrowed during the call */
    uint64_t bytes;   /* on the disk, with the journal's */
    uint64_t age_s;   /* since it was last written */
    struct error error;
};

typedef void stale_found(void *context, const struct stale *stale);

/* Looks through `path` and all below it. `stop` (may be NULL) ends it early when it is not 0. False
 * when `path` cannot be opened. */
bool stale_find(const char *path, bool remove, const volatile int *stop, stale_found *found,
                void *context, struct error *error);

#endif
