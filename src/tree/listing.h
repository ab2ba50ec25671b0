/* What a path holds, as a list of names: for looking at, before a copy.
 *
 * A directory is listed by what is in it, or with all below it; anything else as itself. A path
 * that is a symbolic link is followed, those inside are entries. Devices, pipes and sockets are
 * entries, petrel's own temporary files are not. Nothing is opened but directories. Within a jail
 * (tree/jail.h) paths are looked up there.
 */
#ifndef PETREL_TREE_LISTING_H
#define PETREL_TREE_LISTING_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"

/* Valid until the callback returns. */
struct listed {
    const char *path; /* below the directory that was asked for; NULL: what was asked for itself */
    const struct stat *status;
    const char *target; /* of a symbolic link that could be read, else NULL */
};

struct listing {
    bool recursive;
    const volatile int *stop; /* NULL: never */
    /* In the order of the bytes of the names, in a huge directory a part at a time. False ends the
     * listing. */
    bool (*found)(void *context, const struct listed *entry);
    /* What could not be looked at; the rest goes on. */
    void (*problem)(void *context, const char *path, const struct error *error);
    void *context;
};

/* False and an error when the path itself cannot be looked at, or on a stop. */
bool listing_run(const struct listing *listing, const char *path, struct error *error);

#endif
