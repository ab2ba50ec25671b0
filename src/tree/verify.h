/* Compares a directory with a manifest: each difference is named. Files are hashed several at once.
 *
 * Compared are the entries that the manifest has, below the directory; and whatever else stands in
 * a directory that the manifest has an entry for. No link is followed.
 */
#ifndef PETREL_TREE_VERIFY_H
#define PETREL_TREE_VERIFY_H

#include <stdio.h>

#include "tree/manifest_form.h"

enum difference {
    DIFFERENCE_MISSING,
    DIFFERENCE_EXTRA,
    DIFFERENCE_TYPE,
    DIFFERENCE_SIZE,
    DIFFERENCE_CONTENT,
    DIFFERENCE_TARGET,
    DIFFERENCE_MODE,
    DIFFERENCE_TIME,
    DIFFERENCE_UNREADABLE, /* text says why */
    DIFFERENCE_COUNT
};

/* "missing", "extra", ... */
const char *difference_name(enum difference difference);

struct verify_counts {
    uint64_t entries, files, bytes; /* of the manifest; bytes that were hashed */
    uint64_t differences;
};

struct verify {
    FILE *manifest; /* read twice: it must be a file on a disk */
    const char *directory;
    bool content_only; /* modes and times may differ */
    const volatile int *stop;
    /* `text`: what is there instead, "" if the difference says all. */
    void (*differs)(void *context, enum difference difference, const char *path, const char *text);
    void *context;
};

/* False with an error when it could not be done. */
bool verify_run(const struct verify *verify, struct verify_counts *counts, struct error *error);

#endif
