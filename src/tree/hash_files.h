/* The BLAKE3 of several files at once, on several threads: small files one a thread, of large ones
 * the blocks. */
#ifndef PETREL_TREE_HASH_FILES_H
#define PETREL_TREE_HASH_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "crypto/tree_hash.h"

#define HASH_FILES_MAX 512u                  /* in one call, by convention of the callers */
#define HASH_BYTES_MAX (UINT64_C(512) << 20) /* likewise, and one file more */

struct hash_file {
    int root; /* `path` is below this directory; no link on the way is followed */
    const char *path;
    bool follow;   /* `path` may be anything that open() takes, and a link */
    uint64_t size; /* that it is to have: another one is ERROR_CHANGED */
    /* Filled in; kind NONE: hash is valid. */
    uint8_t hash[TREE_HASH_SIZE];
    struct error error;
    /* The call's own. */
    struct tree_hash *parts;
    int fd;
    uint32_t blocks, next, left;
};

/* `stop` (may be NULL): not 0 ends early, with ERROR_INTERRUPTED for what is not done. */
void hash_files(struct hash_file *files, size_t count, const volatile int *stop);

#endif
