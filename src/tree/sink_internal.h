/* What the parts of the sink share; for sink*.c only.
 *
 *   sink.c            jobs, counts, reports, the end
 *   sink_place.c      where the destination is and what lands where
 *   sink_path.c       paths of entries, open directories, temporary names
 *   sink_entry.c      packed blocks: small files, links, entries of large files
 *   sink_offer.c      offers: what is there already is looked at, piece by piece, and answered
 *   sink_ahead.c      offered small files that will be read, brought into memory before
 *   sink_hold.c       of an offered large file: what is there, hashed and told in pieces
 *   sink_keep.c       blocks that need not come: taken from what is there
 *   sink_find.c       content that is there under another name
 *   sink_half.c       half-written files with their journals
 *   sink_facts.c      owners, permissions, extended attributes, times
 *   sink_large.c      large files from their content blocks
 *   sink_open.c       their files: made, opened, written
 *   sink_finish.c     their end: compared, synced, read back, named
 *   sink_batch.c      files that wait for a common sync, then their final names
 *   sink_sync.c       that sync, beside the other work or at once
 *   sink_unnamed.c    new files that have no name until their final one
 *   sink_directory.c  directories: made open to us, modes and times at the end
 *   sink_holes.c      blocks and pages of zeros
 *   sink_squeezed.c   blocks that were made smaller on the way (-z)
 *   sink_stream.c     a file whose size comes at its end
 *   sink_links.c      further names of files, at the end
 *   sink_delete.c     what did not come, at the end
 *   sink_foresee.c    a dry run: what would become of what is delivered
 */
#ifndef PETREL_TREE_SINK_INTERNAL_H
#define PETREL_TREE_SINK_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/block.h"
#include "base/range_set.h"
#include "crypto/tree_hash.h"
#include "tree/content_index.h"
#include "tree/journal.h"
#include "tree/owner_names.h"
#include "tree/pack.h"
#include "tree/sink.h"

#define SINK_PATH_MAX (2 * PACK_PATH_MAX) /* a top-level name and a path below it */
#define TEMP_NAME_SIZE 40                 /* ".petrel-", 16 digits, perhaps ".journal", NUL */
#define DIRECTORIES_OPEN 32
#define LARGE_OPEN 64     /* large files open at once */
#define LARGE_LIMIT 16384 /* large files begun and unfinished */
#define ORPHAN_LIMIT 4096 /* content blocks that came before their entry */
#define DEAD_LIMIT 100000 /* ranges of blocks that belong to files given up */
#define BATCH_FILES 4096  /* the limits of a batch: files, bytes, time */
#define BATCH_BYTES (64u << 20)
#define BATCH_NS UINT64_C(1000000000)
#define BATCH_FIRST_NS UINT64_C(100000000) /* the first one, so that something is there early */
#define BATCH_MARKS 65536u
#define SYNC_ALONE 8               /* up to so many files are synced one by one, without syncfs */
#define SYSTEMS 16                 /* file systems that syncs remember */
#define BATCH_FILE_MAX (16u << 20) /* larger files are synced alone, and have a journal */
#define JOURNALS_OPEN 256          /* files with a journal at once; further ones have none */
#define HOLDINGS_OPEN 64           /* offered large files that are being told of */
#define TOLD_LIMIT 4096u           /* blocks told of and not yet decided on */
#define OFFERS_LIMIT (8u << 20)    /* bytes of offers that are being answered */

/* Where the names land: name i is prefixes[i] below root ("" is root itself). */
struct place {
    int root;      /* -1: does not exist (dry run) */
    bool in_place; /* a single file may go to a device */
    int reference; /* --reference, or -1 */
    bool root_made;
    char **names; /* as they were announced */
    char **prefixes;
    uint8_t *is_directory, *existed;
    size_t count;
};

/* What a file, link or directory gets besides its bytes. */
struct facts {
    uint32_t mode;
    int64_t mtime_s;
    uint32_t mtime_ns;
    const uint8_t *extra; /* tree/attributes.h */
    size_t extra_size;
    uint32_t given; /* permissions that it has already; 0: not known */
};

static inline struct facts facts_of(const struct entry *entry)
{
    return (struct facts){.mode = entry->mode,
                          .mtime_s = entry->mtime_s,
                          .mtime_ns = entry->mtime_ns,
                          .extra = entry->extra,
                          .extra_size = entry->extra_size};
}

struct open_directory {
    char *path;
    int fd;
    dev_t device;
    uint64_t used;
};

/* A file or link that is whole, but for its final name. */
struct waiting_file {
    char *path;
    int fd; /* of the file, -1 for a link */
    dev_t device;
    uint64_t temp; /* its name until then, unless it is unnamed */
    uint64_t size;
    uint8_t hash[TREE_HASH_SIZE];
    bool is_link, is_new, is_unnamed, has_failed;
};

struct batch {
    struct waiting_file *files;
    size_t count, capacity;
    uint64_t bytes, since_ns;
    uint8_t marks[BATCH_MARKS / 8]; /* a bit by the last bits of each file's `temp` */
};

/* File systems that are written to; `fd` is open as long as the sink. */
struct systems {
    dev_t devices[SYSTEMS];
    int fds[SYSTEMS];
    size_t count;
};

/* A sync of whole file systems on a thread of its own. */
struct sync_run {
    pthread_t thread;
    bool has_begun, has_thread;
    atomic_bool is_done;
    int fds[SYSTEMS];
    size_t count;
    int failure; /* errno, 0: all is synced */
};

/* A file that is being written, or was by an earlier run, and its journal; fd is for reading. */
struct half {
    int fd; /* -1: there is none */
    struct journal *journal;
};

/* A piece of hashes as it was told, and which of its blocks are in the half-written file (the
 * others are in the old one). `kept` is set when the sender has decided. */
struct told {
    struct told *next;
    uint32_t first, count;
    uint64_t present, in_half, kept;
    uint8_t hashes[HASH_PIECE_BLOCKS][TREE_HASH_SIZE];
};

/* What the destination holds of an offered large file. */
struct holding {
    struct holding *next;
    uint32_t offer, entry;
    uint64_t key; /* sink_large_temp_of its path */
    char *path;
    uint64_t size;
    uint32_t count, at, limit; /* blocks; the next to look at; behind the last that can be there */
    bool ended;                /* everything is told */
    struct half half;
    int old;        /* the file under the final name, or one to try (sink_find.c); -1 */
    bool elsewhere; /* `old` has another name */
    struct stat old_status;
    struct told *building;    /* the piece in hand */
    struct told *told, *last; /* not decided yet */
    struct large_file *file;  /* once its entry came */
};

/* An offer that is being answered, and then told of. */
struct asked {
    struct asked *next;
    uint32_t block;
    size_t size;
    bool answered;
    struct pack_reader reader;
    uint32_t count; /* verdicts so far */
    uint8_t *verdicts, *hashes;
    size_t verdict_capacity, hash_count, hash_capacity;
    uint8_t bytes[];
};

/* How far the entries of an offer were looked at for what will be read. */
struct ahead {
    struct read_ahead *helpers; /* NULL: not needed yet, or no memory */
    const struct asked *asked;  /* whose entries `reader` gives, NULL: none's */
    struct pack_reader reader;
    bool over; /* `reader` has no more */
};

/* Blocks that are zeros. */
struct hole_range {
    uint32_t first, count;
};

struct large_file {
    uint64_t id, size, temp;
    uint64_t key; /* sink_large_temp_of its path: temp, unless somebody else writes under that */
    uint32_t first, count, seen; /* blocks */
    char *path;
    struct facts facts;
    uint8_t *extra; /* what facts.extra borrows */
    int fd;         /* -1 while closed */
    bool made, reserved, direct, sparse, is_new;
    bool counted;             /* in sink->taken, as a whole */
    bool sync_failed;         /* final: nothing of it is of use */
    bool in_place, is_device; /* --inplace: written where it stands */
    ino_t inode;
    uint64_t used;
    struct tree_hash *hash;
    struct hole_range *holes; /* told of, from hole_at on not hashed yet */
    size_t hole_at, hole_count;
    bool has_result;
    uint8_t result[TREE_HASH_SIZE]; /* what the sender says */
    struct journal *journal;        /* NULL: none */
    struct holding *holding;        /* what was here before, NULL */
    uint32_t prefix, prefix_done;   /* blocks from the first on that are as in the old file, and how
                                       many of them are copied; none need be if that is all */
    bool differs;                   /* something else is in the file: the prefix has to be copied */
    bool no_clone;                  /* the file system shares no blocks */
    struct tree_hash *back;         /* --verify=disk: of what the disk gives back */
    uint32_t back_done;
    struct told *copies, *last_copy; /* decided on, with blocks to copy from the old file */
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
enum loss {
    LOSS_MODE,
    LOSS_TIME,
    LOSS_LINK,
    LOSS_SET_ID,
    LOSS_SET_GROUP,
    LOSS_OWNER, /* from here on: asked for by an option of their own */
    LOSS_EXTENDED,
    LOSS_SPECIAL,
    LOSS_HARD_LINK,
    LOSS_ACL,
    LOSS_KINDS
};
#define LOSS_ASKED LOSS_OWNER

struct file_sink {
    uint64_t flags;
    struct place place;
    uint32_t umask;
    struct owner_names *owners; /* NULL until needed */
    uint8_t *room;              /* ATTRIBUTES_MAX, for attributes; NULL until needed */
    struct stat old;            /* what sink_way_is_free found, mode 0: nothing */
    struct filter filter;
    struct file_list *list; /* --files-from, NULL */
    char *admitted;         /* a directory that the filter is known to let pass, or NULL */
    bool is_open, has_failed, has_ended;
    bool is_full;                 /* failed, for there is no room */
    uint64_t salt;                /* 0: the only petrel that writes to this root */
    char path[SINK_PATH_MAX + 2]; /* of the entry in hand, below root */
    struct open_directory directories[DIRECTORIES_OPEN];
    uint64_t clock; /* counts uses, for the least recently used */
    /* Files wait in `batch` until a sync begins, in `syncing` until it is done; then they get their
     * names and wait in `named` for the next sync, of which `naming` tells when it has begun. */
    struct batch batch, syncing, named, naming;
    size_t batch_files; /* most in a batch; each holds a descriptor */
    struct systems systems;
    struct sync_run sync;
    enum { UNNAMED_UNKNOWN, UNNAMED_EMPTY_PATH, UNNAMED_PROC, UNNAMED_NEVER } unnamed;
    struct content_index *index; /* NULL: not needed yet, or there is none */
    bool index_ready;
    struct asked *asked; /* oldest first */
    size_t asked_bytes;
    struct ahead ahead;
    struct holding *holdings;
    size_t holding_count, told_blocks, journal_count;
    uint8_t *block;            /* BLOCK_SIZE, for reading what is here; NULL until needed */
    struct squeezer *squeezer; /* and room for what a squeezed block holds; NULL until needed */
    uint8_t *unsqueezed;
    bool turn;      /* reading for the sender, or copying */
    uint64_t taken; /* bytes that room is taken for, so as to know what is still to come */
    bool end_waits; /* END has come, files are still being copied here */
    struct sink_job end;
    struct large_file **large; /* ascending by first block */
    size_t large_count, large_capacity, large_open;
    struct orphan *orphans;
    size_t orphan_count;
    struct range_set dead;
    struct spool spool;
    struct deletion deletion;
    struct stream *stream; /* of unknown size, NULL */
    bool streamed;         /* there was one */
    FILE *links;           /* -H: further names to make, NULL */
    uint64_t blocks, files_done, files_skipped, files_failed, failures;
    uint64_t losses[LOSS_KINDS];
    const atomic_bool *stop; /* of the job in progress */
    sink_emit *emit;         /* set during a job */
    void *context;
};

/* sink.c */
/* The transfer cannot go on. Returns false. */
bool sink_fail(struct file_sink *sink, const struct error *error);
bool sink_fail_memory(struct file_sink *sink);
bool sink_fail_protocol(struct file_sink *sink, const char *text);
/* One file, link or directory is not there. */
void sink_file_failed(struct file_sink *sink, const char *path, bool is_file,
                      const struct error *error);
void sink_file_done(struct file_sink *sink, const char *path, uint64_t size, const uint8_t *hash);
void sink_lost(struct file_sink *sink, enum loss loss);
/* Whether a failed call means that the file system has no such thing, not that something broke. */
bool sink_cannot_hold(int os_errno);
void sink_verified(struct file_sink *sink, uint64_t size);
void sink_kept(struct file_sink *sink, uint64_t size);
void sink_file_skipped(struct file_sink *sink, const char *path, uint64_t size,
                       const uint8_t *hash);
void sink_give_back(struct file_sink *sink, uint8_t *bytes);
uint64_t sink_clock_ns(void);

/* sink_place.c */
bool place_open(struct place *place, const struct transfer_request *request, struct error *error);
void place_close(struct place *place);

/* sink_path.c */
/* Sets sink->path for an entry. False (protocol error, said) when it may not be there. */
bool sink_set_path(struct file_sink *sink, const struct entry *entry);
/* Temporary names are never sent; who sends one wants to get between us and our files. */
bool sink_has_own_name(const char *path);
/* Where an entry would land, below root, with nothing checked. */
void sink_entry_path(const struct file_sink *sink, const struct entry *entry,
                     char path[SINK_PATH_MAX + 2]);
/* Where the file is that an entry of kind HARD_LINK is another name of. False (said) when it may
 * not be there. */
bool sink_target_path(struct file_sink *sink, const struct entry *entry,
                      char target[SINK_PATH_MAX + 2]);
/* An open directory below root, borrowed until the next but DIRECTORIES_OPEN call; -1 with errno.
 */
int sink_directory(struct file_sink *sink, const char *path, size_t size, bool make);
/* The same for the directory that holds `path`. */
int sink_parent(struct file_sink *sink, const char *path, bool make);
void sink_forget_directories(struct file_sink *sink);
uint64_t sink_temp_of(const struct file_sink *sink, const char *path);
/* The same in every run: the journal keeps two of them apart. */
uint64_t sink_large_temp_of(const char *path);
void sink_temp_name(uint64_t temp, char name[TEMP_NAME_SIZE]);
void sink_journal_name(uint64_t temp, char name[TEMP_NAME_SIZE]);
/* Makes room for a new temporary file of `path`: removes a predecessor's, with its journal. */
bool sink_clear_temp(struct file_sink *sink, int parent, const char *path, uint64_t temp,
                     struct error *error);
/* Creates the temporary file of `path` for writing; *parent is the directory it is in. -1 and an
 * error. */
int sink_create_temp(struct file_sink *sink, const char *path, uint64_t temp, int flags,
                     int *parent, struct error *error);
/* By errno why something was not made: what stands in the way of its directory, or `what`. Returns
 * false. */
bool sink_not_made(struct error *error, const char *what);
/* False with ERROR_EXISTS when something is at sink->path that a file or link must not replace.
 * *is_new: nothing is there, so whatever is later was not meant to be replaced. */
bool sink_way_is_free(struct file_sink *sink, const struct entry *entry, int parent, bool *is_new,
                      struct error *error);
/* With which mode directories are made whose entry has not come. */
static inline unsigned sink_directory_mode(const struct file_sink *sink)
{
    return (sink->flags & TRANSFER_NO_PERMS) != 0 ? 0777 : 0700;
}

static inline bool sink_is_dry(const struct file_sink *sink)
{
    return (sink->flags & TRANSFER_DRY_RUN) != 0;
}

/* The transfer is over: nothing more is to be written. */
static inline bool sink_is_stopped(const struct file_sink *sink)
{
    return sink->stop != NULL && atomic_load_explicit(sink->stop, memory_order_relaxed);
}

/* sink_facts.c */
/* The mode that a file gets: with --no-perms that of what it replaces (NULL: nothing). */
uint32_t facts_mode(const struct file_sink *sink, uint32_t mode, const struct stat *old);
/* The permissions of a file that gets nothing that could change them again: may be given when it is
 * made. 0: not so. */
uint32_t facts_mode_at_once(const struct file_sink *sink, uint32_t mode);
/* All but the bytes of an open file; what the file system cannot hold is counted, not failed. */
bool facts_set(struct file_sink *sink, int fd, const struct facts *facts, struct error *error);
/* The same but for the time, of a file that is there already with the right bytes. */
void facts_adjust(struct file_sink *sink, int parent, const char *leaf, const struct stat *found,
                  const struct entry *entry);
/* Of a link, or of what cannot be opened. */
void facts_set_named(struct file_sink *sink, int parent, const char *name,
                     const struct facts *facts, bool is_link);
/* Owner and extended attributes of a directory, open as O_PATH. *kept: which set-id bits stay. */
void facts_set_directory(struct file_sink *sink, int fd, const struct facts *facts, uint32_t *kept);

/* sink_entry.c */
void sink_packed(struct file_sink *sink, const uint8_t *bytes, size_t length, uint32_t block);

/* sink_offer.c */
void offer_take(struct file_sink *sink, const uint8_t *bytes, size_t length, uint32_t block);
/* One entry, or what belongs to the answer. False when no offer waits for its answer. */
bool offer_work(struct file_sink *sink);
/* The next large file to tell of; false when there is none now. */
bool offer_next_holding(struct file_sink *sink);
bool offer_cancel(struct file_sink *sink, uint32_t block, uint32_t entry);
void offer_discard_all(struct file_sink *sink);
/* Reads a whole small file of `size` bytes into sink->block. */
bool offer_read(struct file_sink *sink, int fd, uint64_t size);

/* sink_ahead.c */
/* A small file of that offer is about to be looked at, the one that its reader gave last. */
void ahead_look(struct file_sink *sink, const struct asked *asked);
/* The offer goes. */
void ahead_forget(struct file_sink *sink, const struct asked *asked);
void ahead_close(struct file_sink *sink);

/* sink_hold.c */
/* Whether anything is there that an offered large file may have blocks in. */
bool holding_is_likely(struct file_sink *sink, const struct entry *entry);
bool holding_begin(struct file_sink *sink, const struct entry *entry, uint32_t offer,
                   uint32_t index);
/* Reads a block. False when nothing can be told now. */
bool holding_work(struct file_sink *sink);
/* The holding of a file whose entry has come, or NULL. */
void holding_join(struct file_sink *sink, struct large_file *file);
void holding_forget(struct file_sink *sink, uint32_t offer, uint32_t entry);
void holding_free(struct file_sink *sink, struct holding *holding);
/* Reads block `index` of a file of `size` bytes and hashes it, from `fd` to sink->block. */
bool holding_read(struct file_sink *sink, int fd, uint64_t size, uint32_t index,
                  uint8_t hash[TREE_HASH_SIZE], uint32_t *length);

/* sink_keep.c */
void keep_blocks(struct file_sink *sink, const struct sink_job *job);
/* Copies a block. False when there is none to copy. */
bool keep_work(struct file_sink *sink);
bool keep_is_pending(const struct file_sink *sink);
/* All of the file was there before, under its name: nothing but its mode and time is set. True when
 * the file is done with that way, in success or failure. */
bool keep_finish_same(struct file_sink *sink, struct large_file *file);
void keep_free(struct file_sink *sink, struct large_file *file);

/* sink_find.c */
/* Whether the destination has been looked through; false after a step towards that. */
bool find_is_ready(struct file_sink *sink);
/* Opens a file that may have that content: same size, perhaps same time. -1: none is known. */
int find_open(struct file_sink *sink, uint64_t size, int64_t mtime_s, uint32_t mtime_ns,
              struct stat *status);
void find_close(struct file_sink *sink);
/* Whether a new file at the top is worth asking about before it is sent. */
bool find_may_help(const struct file_sink *sink);

/* sink_half.c */
/* Opens what an earlier run left of `path`. False when nothing of use is there. */
bool half_open(struct file_sink *sink, const char *path, struct half *half);
void half_close(struct file_sink *sink, struct half *half);
/* The journal for a new file of that size; may change file->temp when another writes there. What
 * was there before is removed. */
void half_begin(struct file_sink *sink, struct large_file *file);
/* A journal in the way of a file without one: true when it is gone, or none was there. */
bool half_clear(struct file_sink *sink, int parent, uint64_t temp);
/* A file that is complete may have left its journal when its run was killed. */
void half_sweep(struct file_sink *sink, const char *path);
/* Keeps the half-written file for a later run, or removes it. */
void half_end(struct file_sink *sink, struct large_file *file, bool keep);

/* sink_large.c */
void large_entry(struct file_sink *sink, const struct entry *entry);
/* Content in those blocks that came before its entry. */
void large_adopt_orphans(struct file_sink *sink, uint32_t first, uint32_t count);
void large_block(struct file_sink *sink, uint32_t block, uint8_t *bytes, uint32_t length);
void large_complete(struct file_sink *sink, uint64_t id, uint64_t size, const uint8_t *hash);
void large_withdraw(struct file_sink *sink, uint64_t id, const struct error *error);
struct large_file *large_find(const struct file_sink *sink, uint64_t id);
/* Makes sure that its temporary file is open for writing. */
bool large_open(struct file_sink *sink, struct large_file *file, struct error *error);
/* Writes a block of it, and takes what is there now as block `index` with that hash. */
bool large_put(struct large_file *file, uint32_t index, const uint8_t *bytes, uint32_t length,
               const uint8_t hash[TREE_HASH_SIZE], struct error *error);
bool large_has(struct large_file *file, uint32_t index, const uint8_t hash[TREE_HASH_SIZE],
               struct error *error);
/* Whether the file is written where it stands; then it is opened so. */
bool large_is_in_place(struct file_sink *sink, int parent, struct large_file *file);
bool large_write(struct large_file *file, const uint8_t *bytes, uint32_t length, uint64_t offset);
uint64_t sink_device_size(int fd); /* of an open block device; 0: unknown */
/* Whether a block of it waits to be read back; reads one. */
bool large_wants_back(const struct large_file *file);
bool large_read_back(struct file_sink *sink, struct large_file *file, struct error *error);
void large_finish_if_whole(struct file_sink *sink, struct large_file *file);
/* The file is done with, whatever came of it. */
void large_take_out(struct file_sink *sink, struct large_file *file);
void large_give_up(struct file_sink *sink, struct large_file *file, const struct error *error);
void large_flush_journals(struct file_sink *sink, bool all);
uint32_t large_length(uint64_t size, uint32_t index); /* of a block */
/* The hash of a block of a file of `size` bytes. */
void large_hash(uint64_t size, uint32_t index, const uint8_t *bytes, uint32_t length,
                uint8_t hash[TREE_HASH_SIZE]);
bool large_is_writing(const struct file_sink *sink, const char *path);
void large_discard_all(struct file_sink *sink);

/* sink_entry.c: a regular file at `leaf` with that size and time. */
/* The same special, by type and number. */
bool special_is_there(const struct stat *status, const struct entry *entry);
bool entry_is_there(const struct stat *status, const struct entry *entry);

/* sink_batch.c */
/* Takes a file or link that is whole, with its descriptor; file->path is copied. */
void batch_add(struct file_sink *sink, const struct waiting_file *file);
/* Whether a file that waits for its name has that `temp`: it is another of the same path. */
bool batch_holds_temp(const struct file_sink *sink, uint64_t temp);
/* What is due is done, as far as that needs no waiting. */
void batch_step(struct file_sink *sink);
/* Everything that waits is synced, named and told of when this returns. */
void batch_flush(struct file_sink *sink);
void batch_discard(struct file_sink *sink);
/* How many files a batch may hold, by what descriptors there are. */
size_t batch_limit(void);
/* Renames a synced temporary file to its final name; one that `is_new` replaces nothing. */
bool batch_rename(struct file_sink *sink, const char *path, uint64_t temp, bool is_new,
                  struct error *error);
/* Removes what was made of a file, and says why. */
void batch_fail_file(struct file_sink *sink, struct waiting_file *file, const struct error *error);

/* sink_sync.c */
/* Begins to sync the bytes of `syncing` and the names of `naming`, beside other work. */
void sync_begin(struct file_sink *sink);
/* Whether a sync has begun and is done, or is waited for; then *failure is 0 or why not. */
bool sync_is_done(struct file_sink *sink, bool wait, int *failure);
/* The bytes of a batch, now. False: a file system could not be synced as a whole, and the files
 * told one by one which of them suffered. */
bool sync_bytes(struct file_sink *sink, struct batch *batch);
void sync_one_by_one(struct file_sink *sink, struct batch *batch);
/* The names of a batch, now; what cannot be synced has failed. */
void sync_names(struct file_sink *sink, struct batch *batch);
/* Remembers the file system that a file or link of `parent` is on. */
void sync_remember(struct file_sink *sink, dev_t device, int parent, int fd);
void sync_close(struct file_sink *sink);

/* sink_unnamed.c */
/* A new file in `parent` for reading and writing, that has no name and is gone if it gets none. -1:
 * not possible here. */
int unnamed_create(struct file_sink *sink, int parent, uint32_t mode);
/* Gives it one, which must be free: false with errno. */
bool unnamed_link(const struct file_sink *sink, int fd, int parent, const char *leaf);

/* Makes the names in the directory that holds `path` durable. False with errno. */
bool sync_directory(struct file_sink *sink, const char *path);

/* sink_squeezed.c */
/* Unpacks into sink->unsqueezed, at most `most` bytes. False: these are no squeezed bytes. */
bool sink_unsqueeze(struct file_sink *sink, const uint8_t *bytes, size_t size, size_t most,
                    uint32_t *length);

/* sink_holes.c */
void holes_take(struct file_sink *sink, const struct sink_job *job);
/* Hashes some of what was told. False when nothing is left. */
bool holes_work(struct file_sink *sink);
bool holes_are_pending(const struct file_sink *sink);
/* Writes what is not zeros. `is_fresh`: nothing was ever written there. */
bool holes_write(int fd, const uint8_t *bytes, size_t size, uint64_t offset, bool is_fresh);

/* sink_stream.c */
void stream_entry(struct file_sink *sink, const struct entry *entry);
bool stream_has(const struct file_sink *sink, uint32_t block);
void stream_block(struct file_sink *sink, uint32_t block, uint8_t *bytes, uint32_t length);
/* False when it is no stream's. */
bool stream_complete(struct file_sink *sink, uint64_t id, uint64_t size, const uint8_t *hash);
bool stream_withdraw(struct file_sink *sink, uint64_t id, const struct error *error);
void stream_discard(struct file_sink *sink);

/* sink_links.c */
void sink_links_entry(struct file_sink *sink, const struct entry *entry);
void sink_links_finish(struct file_sink *sink);
void sink_links_close(struct file_sink *sink);

/* sink_delete.c */
bool deletion_open(struct file_sink *sink, const struct transfer_request *request,
                   struct error *error);
/* Writes down that sink->path came. False: said. */
bool deletion_note(struct file_sink *sink, const struct entry *entry);
/* Deletes, unless anything failed, here or (`problems`) at the sender. */
void deletion_run(struct file_sink *sink, uint64_t problems);
void deletion_close(struct file_sink *sink);

/* sink_foresee.c: for a dry run; nothing is written. */
/* What would become of an entry but a large file's, at sink->path: it is said. */
void foresee_entry(struct file_sink *sink, const struct entry *entry);
/* Whether a link to a file could be made at `path`. */
bool foresee_leaf(struct file_sink *sink, const char *path, struct error *error);
/* Whether a large file could stand at sink->path. */
bool foresee_large_entry(struct file_sink *sink, const struct entry *entry, struct large_file *file,
                         struct error *error);
/* The sender has compared it. */
void foresee_large_end(struct file_sink *sink, struct large_file *file);
/* HASH and HASHES only for what is there under its name with the right size. */
enum answer_verdict foresee_answer(struct file_sink *sink, const struct entry *entry);
/* Whether something could be made or removed in this directory, or, where it is missing, could be
 * in it once it is made. False with errno. */
bool foresee_may_write(struct file_sink *sink, const char *path, size_t size);

/* sink_directory.c */
void directory_entry(struct file_sink *sink, const struct entry *entry);
/* Gives us the rights to work in an existing directory of ours; its mode comes back at the end. */
bool directory_make_accessible(struct file_sink *sink, const char *path, size_t size);
/* Whether it would: `fd` is the directory, whose path has `size` bytes. */
bool directory_could_be_accessible(const struct file_sink *sink, int fd, size_t size,
                                   struct stat *status);
void directory_finish(struct file_sink *sink);
/* Makes directories durable that held no file of any batch. */
void directory_sync(struct file_sink *sink);
void directory_close(struct file_sink *sink);

#endif
