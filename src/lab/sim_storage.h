/* Simulated storage: a source that makes up files from a seed, and a sink that knows what must
 * come of them.
 *
 * Both speak the real packed blocks (tree/pack.h) and hash for real (crypto/tree_hash.h), but touch
 * no disk and no clock: how long a piece of disk work takes is the business of whoever calls
 * work_step. The sink keeps the promises that a transfer must never break: nothing comes twice or
 * in the wrong place, nothing is renamed before it is verified, and what is renamed is what the
 * source made.
 */
#ifndef PETREL_LAB_SIM_STORAGE_H
#define PETREL_LAB_SIM_STORAGE_H

#include "transfer/work.h"

/* The files of one simulated tree: file i is tree/dK/fI, K = i / 1000, with sizes[i] bytes. */
#define SIM_TOP_NAME "tree"
#define SIM_PATH_SIZE 32u
#define SIM_NO_FILE UINT32_MAX

struct sim_files {
    uint64_t seed;
    const uint64_t *sizes;
    uint32_t count;
};

void sim_files_content(const struct sim_files *files, uint32_t file, uint64_t offset,
                       uint8_t *bytes, size_t size);
/* Its path below the top name; `path` holds SIM_PATH_SIZE bytes. */
void sim_file_path(uint32_t file, char *path);
uint32_t sim_file_index(const char *path); /* SIM_NO_FILE for any other path */

/* ---- source ---- */

struct sim_source_config {
    struct sim_files files; /* sizes stay borrowed */
    uint32_t pack_capacity; /* bytes of a packed block; 0: BLOCK_SIZE */
    uint32_t large_ahead;   /* entries of large files before their content; 0: 64 */
    bool tell_entry_block;  /* whether items say which block holds their entry */
    uint32_t withdrawn;     /* this large file fails after its first block; SIM_NO_FILE: none */
    uint32_t missing;       /* this file is a problem instead; SIM_NO_FILE: none */
    uint32_t fails_at;      /* nothing goes on from this file on; SIM_NO_FILE: never */
};

struct sim_source;
struct sim_source *sim_source_new(const struct sim_source_config *config); /* NULL: no memory */
void sim_source_free(struct sim_source *source); /* after the storage was closed */
void sim_source_storage(struct sim_source *source, struct storage *storage);
bool sim_source_is_closed(const struct sim_source *source);
uint64_t sim_source_bytes(const struct sim_source *source); /* read so far, for whoever times it */

/* ---- sink ---- */

struct sim_sink_config {
    struct sim_files files;
    uint32_t exists_each;    /* every n-th file is there already; 0: nothing exists */
    bool tells;              /* of the other large ones it has some blocks (lab/sim_told.h) */
    uint32_t fails_file;     /* this file cannot be written; SIM_NO_FILE: none */
    uint32_t fails_at_block; /* the destination is gone at the n-th block; 0: never */
    bool refuses_open;       /* the destination cannot be opened */
};

struct sim_sink_result {
    bool opened, finished, closed;
    uint32_t done, skipped, failed;
    uint64_t blocks, block_bytes, verified_bytes, kept_bytes; /* kept: among the verified */
    uint32_t held_most; /* content blocks that waited for their entry at once */
};

struct sim_sink;
struct sim_sink *sim_sink_new(const struct sim_sink_config *config); /* NULL: no memory */
void sim_sink_free(struct sim_sink *sink); /* after the storage was closed */
void sim_sink_storage(struct sim_sink *sink, struct storage *storage);
void sim_sink_result(const struct sim_sink *sink, struct sim_sink_result *result);
bool sim_sink_has(const struct sim_sink *sink, uint32_t file); /* renamed or there before */
/* The first promise that was broken, or NULL. */
const char *sim_sink_failure(const struct sim_sink *sink);

#endif
