/* What the parts of the sink share; for sink*.c only.
 *
 *   sink.c            jobs, counts, reports, the end
 *   sink_place.c      where the destination is and what lands where
 *   sink_path.c       paths of entries, open directories, temporary names
 *   sink_entry.c      packed blocks: offers, small files, links, entries of large files
 *   sink_large.c      large files from their content blocks
 *   sink_batch.c      files that wait for a common sync, then their final names
 *   sink_directory.c  directories: made open to us, modes and times at the end
 *   sink_delete.c     what did not come, at the end
 */
#ifndef PETREL_TREE_SINK_INTERNAL_H
#define PETREL_TREE_SINK_INTERNAL_H

#include <stdio.h>
#include <sys/stat.h>

#include "base/block.h"
#include "base/range_set.h"
#include "crypto/tree_hash.h"
#include "tree/pack.h"
#include "tree/sink.h"

#define SINK_PATH_MAX (2 * PACK_PATH_MAX) /* a top-level name and a path below it */
#define TEMP_NAME_SIZE 32                 /* ".petrel-", 16 digits, NUL */
#define DIRECTORIES_OPEN 32
#define LARGE_OPEN 64     /* large files open at once */
#define LARGE_LIMIT 16384 /* large files begun and unfinished */
#define ORPHAN_LIMIT 4096 /* content blocks that came before their entry */
#define DEAD_LIMIT 100000 /* ranges of blocks that belong to files given up */
#define BATCH_FILES 4096  /* the limits of a batch: files, bytes, time */
#define BATCH_BYTES (64u << 20)
#define BATCH_NS UINT64_C(1000000000)
#define BATCH_FILE_MAX (16u << 20) /* larger files are synced alone */

/* Where the names land: name i is prefixes[i] below root ("" is root itself). */
struct place {
    int root; /* -1: does not exist (dry run) */
    bool root_made;
    char **names; /* as they were announced */
    char **prefixes;
    uint8_t *is_directory, *existed;
    size_t count;
};

struct open_directory {
    char *path;
    int fd;
    dev_t device;
    uint64_t used;
};

struct waiting_file {
    char *path;
    uint64_t temp;
    uint64_t size;
    uint8_t hash[TREE_HASH_SIZE];
    bool is_link, is_new, has_failed;
};

struct batch {
    struct waiting_file *files;
    size_t count;
    uint64_t bytes, since_ns;
};

struct large_file {
    uint64_t id, size, temp;
    uint32_t first, count, seen; /* blocks */
    char *path;
    uint32_t mode;
    int64_t mtime_s;
    uint32_t mtime_ns;
    int fd; /* -1 while closed */
    bool made, direct, is_new;
    ino_t inode;
    uint64_t used;
    struct tree_hash *hash;
    bool has_result;
    uint8_t result[TREE_HASH_SIZE]; /* what the sender says */
};

struct orphan {
    uint32_t block, length;
    uint8_t *bytes;
};

struct spool {
    FILE *file;
    unsigned deepest; /* of the directories that their own mode would close to us */
};

/* --delete: what came, and how much of what did not was there. */
struct deletion {
    struct sorted_spool *spool; /* NULL: nothing is to be deleted */
    uint64_t max;               /* UINT64_MAX: any number */
    uint64_t count, kept;       /* kept: directories with something in them that stays */
};

/* What a destination may not be able to hold; counted, and said once a kind at the end. */
enum loss { LOSS_MODE, LOSS_TIME, LOSS_LINK, LOSS_SET_ID, LOSS_SET_GROUP, LOSS_KINDS };

struct file_sink {
    uint64_t flags;
    struct place place;
    struct filter filter;
    char *admitted; /* a directory that the filter is known to let pass, or NULL */
    bool is_open, has_failed, has_ended;
    uint64_t salt;                /* 0: the only petrel that writes to this root */
    char path[SINK_PATH_MAX + 2]; /* of the entry in hand, below root */
    struct open_directory directories[DIRECTORIES_OPEN];
    uint64_t clock; /* counts uses, for the least recently used */
    struct batch batch;
    struct large_file **large; /* ascending by first block */
    size_t large_count, large_capacity, large_open;
    struct orphan *orphans;
    size_t orphan_count;
    struct range_set dead;
    struct spool spool;
    struct deletion deletion;
    uint64_t blocks, files_done, files_skipped, files_failed, failures;
    uint64_t losses[LOSS_KINDS];
    const atomic_bool *stop; /* of the job in progress */
    sink_emit *emit;         /* set during a job */
    void *context;
};

/* sink.c */
/* The transfer cannot go on. Returns false. */
bool sink_fail(struct file_sink *sink, const struct error *error);
bool sink_fail_protocol(struct file_sink *sink, const char *text);
/* One file, link or directory is not there. */
void sink_file_failed(struct file_sink *sink, const char *path, bool is_file,
                      const struct error *error);
void sink_file_done(struct file_sink *sink, const char *path, uint64_t size, const uint8_t *hash);
void sink_lost(struct file_sink *sink, enum loss loss);
/* Whether a failed call means that the file system has no such thing, not that something broke. */
bool sink_cannot_hold(int os_errno);
void sink_verified(struct file_sink *sink, uint64_t size);
void sink_give_back(struct file_sink *sink, uint8_t *bytes);
uint64_t sink_clock_ns(void);

/* sink_place.c */
bool place_open(struct place *place, const struct transfer_request *request, struct error *error);
void place_close(struct place *place);

/* sink_path.c */
/* Sets sink->path for an entry. False (protocol error, said) when it may not be there. */
bool sink_set_path(struct file_sink *sink, const struct entry *entry);
/* An open directory below root, borrowed until the next but DIRECTORIES_OPEN call; -1 with errno.
 */
int sink_directory(struct file_sink *sink, const char *path, size_t size, bool make);
/* The same for the directory that holds `path`. */
int sink_parent(struct file_sink *sink, const char *path, bool make);
void sink_forget_directories(struct file_sink *sink);
uint64_t sink_temp_of(const struct file_sink *sink, const char *path);
void sink_temp_name(uint64_t temp, char name[TEMP_NAME_SIZE]);
/* Makes room for a new temporary file of `path`: removes a predecessor's. */
bool sink_clear_temp(struct file_sink *sink, int parent, const char *path, uint64_t temp,
                     struct error *error);
/* Creates the temporary file of `path` for writing; *parent is the directory it is in. -1 and an
 * error. */
int sink_create_temp(struct file_sink *sink, const char *path, uint64_t temp, int flags,
                     int *parent, struct error *error);
/* False with ERROR_EXISTS when something is at sink->path that a file or link must not replace.
 * *is_new: nothing is there, so whatever is later was not meant to be replaced. */
bool sink_way_is_free(struct file_sink *sink, const struct entry *entry, int parent, bool *is_new,
                      struct error *error);
/* Permissions and time of an open file; what the file system cannot hold is counted, not failed. */
bool sink_set_attributes(struct file_sink *sink, int fd, uint32_t mode, int64_t mtime_s,
                         uint32_t mtime_ns, struct error *error);

/* The transfer is over: nothing more is to be written. */
static inline bool sink_is_stopped(const struct file_sink *sink)
{
    return sink->stop != NULL && atomic_load_explicit(sink->stop, memory_order_relaxed);
}

/* sink_entry.c */
void sink_packed(struct file_sink *sink, const uint8_t *bytes, size_t length, uint32_t block);

/* sink_large.c */
void large_entry(struct file_sink *sink, const struct entry *entry);
void large_block(struct file_sink *sink, uint32_t block, uint8_t *bytes, uint32_t length);
void large_complete(struct file_sink *sink, uint64_t id, uint64_t size, const uint8_t *hash);
void large_withdraw(struct file_sink *sink, uint64_t id, const struct error *error);
bool large_holds_temp(const struct file_sink *sink, uint64_t temp);
void large_discard_all(struct file_sink *sink);

/* sink_batch.c */
/* Takes a file or link that is whole under its temporary name; file->path is copied. */
void batch_add(struct file_sink *sink, const struct waiting_file *file);
bool batch_holds_temp(const struct file_sink *sink, uint64_t temp);
bool batch_is_due(const struct file_sink *sink);
void batch_flush(struct file_sink *sink);
void batch_discard(struct file_sink *sink);
/* Renames a synced temporary file to its final name; one that `is_new` replaces nothing. */
bool batch_rename(struct file_sink *sink, const char *path, uint64_t temp, bool is_new,
                  struct error *error);

/* sink_delete.c */
bool deletion_open(struct file_sink *sink, const struct transfer_request *request,
                   struct error *error);
/* Writes down that sink->path came. False: said. */
bool deletion_note(struct file_sink *sink, const struct entry *entry);
/* Deletes, unless anything failed, here or (`problems`) at the sender. */
void deletion_run(struct file_sink *sink, uint64_t problems);
void deletion_close(struct file_sink *sink);

/* sink_directory.c */
void directory_entry(struct file_sink *sink, const struct entry *entry);
/* Gives us the rights to work in an existing directory of ours; its mode comes back at the end. */
bool directory_make_accessible(struct file_sink *sink, const char *path, size_t size);
void directory_finish(struct file_sink *sink);
/* Makes directories durable that held no file of any batch. */
void directory_sync(struct file_sink *sink);
void directory_close(struct file_sink *sink);

#endif
