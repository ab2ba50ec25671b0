/* Makes the manifest of trees (tree/manifest_form.h): walks them, sorts what it finds beside
 * memory, hashes the files on several threads, and hands out the text. */
#ifndef PETREL_TREE_MANIFEST_H
#define PETREL_TREE_MANIFEST_H

#include "tree/filter.h"
#include "tree/manifest_form.h"
#include "tree/sorted_spool.h"

/* Hashes that are known: what a file of that path and size was found to hold. A record is the path,
 * NUL, 32 bytes of hash (all zeros: not known), 8 bytes of size (big-endian). */
bool manifest_know(struct sorted_spool *known, const char *path, const uint8_t hash[32],
                   uint64_t size, struct error *error);
bool manifest_leave_out(struct sorted_spool *known, const char *path, struct error *error);

struct manifest_build {
    const char *const *paths; /* on this machine, as open() takes them; links are followed */
    const char *const *names; /* what stands for each in the manifest; "": its contents alone */
    size_t count;
    bool follow_links;           /* inside trees, too */
    const struct filter *filter; /* NULL: all */
    /* NULL: every file is read. Else a file that is not in it is left out, and one whose hash there
     * is all zeros, or whose size is another now, is read. Rewound by the build. */
    struct sorted_spool *known;
    /* Of a file with several names one alone is known: the others are taken, too, and read, unless
     * they are known as left out (manifest_leave_out). */
    bool hard_links;
    const volatile int *stop; /* NULL: never */
    /* Pieces of the text, in order. False ends the build. */
    bool (*text)(void *context, const char *bytes, size_t size);
    /* Something is not in the manifest. */
    void (*problem)(void *context, const char *path, const struct error *error);
    void *context;
};

/* `hash` is that of the whole text. False with an error when it could not be made; *problems counts
 * what is left out. */
bool manifest_build(const struct manifest_build *build, uint8_t hash[32], uint64_t *problems,
                    struct error *error);

#endif
