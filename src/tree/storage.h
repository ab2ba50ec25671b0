/* What the transfer asks of storage: a source that yields blocks, and a sink that takes them.
 *
 * Both are step engines run on a disk thread (or by a simulator): each call may block on a disk,
 * never on the network. tree/ implements them on a file system, lab/ on a simulated disk. They know
 * nothing of packets; the transfer knows nothing of files beyond ids and counts.
 */
#ifndef PETREL_TREE_STORAGE_H
#define PETREL_TREE_STORAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/block.h"
#include "base/error.h"
#include "tree/request.h"

/* ---- source ---- */

/* A bit of the byte that follows READY's bitmap with TRANSFER_SQUEEZE: the sink reads squeezed
 * blocks. */
#define SQUEEZED_IS_READ 0x01u

/* How many blocks a piece of hashes tells of at most. */
#define HASH_PIECE_BLOCKS 64u

/* A piece of what the sink holds of an offered large file: which of the blocks first, first + 1,
 * ... first + count - 1 it has in some form, and their hashes. Pieces of one file come in order,
 * the first from block 0, each where the one before ended; a piece with count 0 says that the rest
 * is not held, and is the last. */
struct hash_piece {
    uint32_t offer, entry; /* the block of the offer, and which of its entries, from 0 */
    uint32_t first, count;
    uint64_t present;      /* bit i: block first + i */
    const uint8_t *hashes; /* 32 bytes for each bit that is set, in order */
};

enum source_result {
    SOURCE_BLOCK,    /* `buffer` was filled with item.block; it is used up */
    SOURCE_COMPLETE, /* a large file was read to its end: item.file_id, item.hash, item.size */
    SOURCE_WITHDRAW, /* a large file failed in mid-read: item.file_id, item.error */
    SOURCE_PROBLEM,  /* something is not sent: item.error says what and why; the rest goes on */
    SOURCE_NOTE,     /* item.error.text is a line for people */
    SOURCE_LOST,     /* the same: something that was asked for could not be sent */
    SOURCE_KEEP,     /* of item.file_id's blocks item.first to first + count those of item.kept are
                        the same here and are not sent: the sink uses what it has */
    SOURCE_HOLES,    /* blocks item.first to first + count of item.file_id are zeros, not sent */
    SOURCE_FORGET,   /* the hashes of entry item.entry of offer item.block are not wanted (any more)
                      */
    SOURCE_AGAIN,    /* something was done that nobody needs to hear of: call again */
    SOURCE_WAIT,     /* nothing before an answer to an offer, or hashes, arrive */
    SOURCE_END,      /* all is given: item.blocks and item.files are the final counts */
    SOURCE_FAILED    /* nothing can go on: item.error */
};

struct source_item {
    uint32_t block; /* number in the transfer's linear space, never given twice */
    bool packed;
    uint32_t length;
    uint64_t file_id;
    uint8_t hash[32];
    uint64_t size;
    uint32_t entry, first, count; /* FORGET: entry. KEEP, HOLES: first, count */
    uint64_t kept;                /* KEEP: bit i is block first + i */
    /* END: the blocks given, and the regular files among them and the offers: delivered, answered
     * "skip" or withdrawn. */
    uint64_t blocks, files;
    struct error error;
    /* PROBLEM, WITHDRAW: whose, or NULL; borrowed until the next call of next(). */
    const char *path;
    /* Content blocks, COMPLETE, WITHDRAW and KEEP: the packed block that holds the file's entry, if
     * the source says so. It lets the sender bound what goes ahead of an entry exactly; without it
     * every packed block given before counts. */
    bool has_entry_block;
    uint32_t entry_block;
    /* Running totals of what the walk found so far, for progress; `totals_final` when it ended. */
    uint64_t total_files, total_bytes;
    uint64_t new_bytes; /* of these, those under names that are not at the destination */
    bool totals_final;
};

typedef void source_removal(void *context, const char *path, const struct error *error);

struct source_ops {
    /* Does one piece of work. `buffer` holds BLOCK_SIZE bytes and is left unused by all results
     * but SOURCE_BLOCK. */
    enum source_result (*next)(void *source, uint8_t *buffer, struct source_item *item);
    /* The receiver's answer to the offer block `block`: one enum answer_verdict per entry, then 32
     * bytes for each that is ANSWER_HASH; `size` bytes in all. */
    bool (*answer)(void *source, uint32_t block, const uint8_t *bytes, size_t size,
                   struct error *error);
    /* What the receiver holds of a file that it answered with ANSWER_HASHES. What is not wanted any
     * more is dropped. May be NULL in a source whose sink never answers so. */
    bool (*hashes)(void *source, const struct hash_piece *piece, struct error *error);
    /* Pull with TRANSFER_FILES_FROM: the next bytes of the list; size 0 ends it, and until then
     * next() waits. May be NULL in a source of tests. */
    bool (*list)(void *source, const uint8_t *bytes, size_t size, struct error *error);
    /* --remove-source-files: the receiver could not finish that file; and at the end, all others
     * are verified and are removed, `removal` says of each that cannot be why. False: error. May be
     * NULL in a source of tests. */
    void (*failed)(void *source, const char *path);
    bool (*remove)(void *source, source_removal *removal, void *context, struct error *error);
    /* What the path carries now, payload bits a second; 0: not known. May be NULL. */
    void (*path_rate)(void *source, uint64_t path_bps);
    /* Which top-level names exist at the destination (bit i of byte i/8), from READY; with
     * TRANSFER_SQUEEZE a byte more, see SQUEEZED_IS_READ. Called before the first next(). */
    void (*set_existing)(void *source, const uint8_t *bitmap, size_t size);
    /* Pull: the top-level names that the request's sources expanded to, in the order of their
     * indexes in entries and in the bitmap above; only `names`, `name_is_directory` and
     * `name_count` are set. Borrowed for the source's life. May be NULL in a source of tests. */
    const struct transfer_request *(*names)(void *source);
    void (*close)(void *source);
};

enum answer_verdict {
    ANSWER_SKIP = 0,
    ANSWER_SEND = 1,
    ANSWER_HASH = 2,  /* a small file of this size is there; its hash follows the verdicts */
    ANSWER_HASHES = 3 /* of a large file something is there; pieces of hashes will come */
};

/* ---- sink ---- */

enum sink_job_kind {
    SINK_BLOCK,    /* a whole block: packed, or content; in any order, also before its entry */
    SINK_COMPLETE, /* the sender's hash of a large file; perhaps before its last blocks, but never
                      before the packed block that holds its entry */
    SINK_WITHDRAW, /* a large file will not come: file_id, error; answered by FILE_FAILED. Never
                      before its entry; blocks of it may still follow and count as arrived */
    SINK_KEEP,     /* file_id, block: the first index, length: how many, kept: those of them that
                      will not come, for what the sink told of them is right. In the order of the
                      pieces, never before the file's entry */
    SINK_HOLES,    /* file_id, block: the first index, length: how many: zeros that do not come */
    SINK_FORGET,   /* block, entry: the hashes of that entry of that offer are not wanted */
    SINK_TOTALS,   /* size: what will come for certain in all, in bytes; fails if it cannot fit */
    SINK_END       /* no more blocks; finish directories, sync, count */
};

struct sink_job {
    enum sink_job_kind kind;
    uint32_t block;
    bool packed;
    uint8_t *bytes; /* SINK_BLOCK: the sink's until it reports SINK_BUFFER_FREE */
    uint32_t length;
    uint64_t file_id;
    uint8_t hash[32];
    uint64_t size;
    uint32_t entry;
    uint64_t kept;
    uint64_t blocks, files;
    uint64_t problems; /* END: what the sender could not read, and what failed here */
    struct error error;
    /* Set from another thread when the transfer is over: what is left of the job is not done. NULL:
     * never. Lives as long as the sink. */
    const atomic_bool *stop;
};

enum sink_report_kind {
    SINK_BUFFER_FREE,  /* bytes: hand it back to credit */
    SINK_VERIFIED,     /* size more bytes are written and hashed from what was written (progress; a
                          file's whole hash is compared before its FILE_DONE) */
    SINK_FILE_DONE,    /* path, size, hash: renamed to its final name */
    SINK_FILE_FAILED,  /* path, error: this file is not there; the rest goes on */
    SINK_FILE_SKIPPED, /* path, size: was there already, same size and time */
    SINK_ANSWER,       /* block; bytes (borrowed during the call), length: as source's answer() */
    SINK_HASHES,       /* piece, borrowed during the call; only after its offer's ANSWER */
    SINK_KEPT,         /* size more bytes are verified that were here already and did not come */
    SINK_LOST,         /* error.text, like a note: something that was asked for could not be kept */
    SINK_DELETED,      /* path: it was not among what came (in a dry run: it would be deleted) */
    SINK_NOTE,     /* error.text is a line for people, e.g. what the target could not hold, with a
                      count; error.kind is not NONE */
    SINK_FINISHED, /* after SINK_END: files (done and skipped), failures (FILE_FAILED said,
                      of directories and links too) */
    SINK_FAILED    /* nothing can go on: error (protocol error, destination gone) */
};

struct sink_report {
    enum sink_report_kind kind;
    uint32_t block;
    uint8_t *bytes;
    uint32_t length;
    const char *path; /* escaped for display is the printer's work; borrowed during the call */
    uint8_t hash[32];
    uint64_t size;
    struct hash_piece piece;
    uint64_t files, failures;
    struct error error;
};

typedef void sink_emit(void *context, const struct sink_report *report);

struct sink_ops {
    /* Opens the destination for `request` and tells which top-level names exist there. The names
     * are the top-level names that will come: a push's REQUEST, a pull's NAMES after
     * transfer_request_admits allowed them; flags and destination are the user's. The bitmap is
     * zeroed first and must hold a bit for each name. Copies what it keeps. False: nothing was
     * written. */
    bool (*open)(void *sink, const struct transfer_request *request, uint8_t *existing_bitmap,
                 size_t bitmap_size, struct error *error);
    /* Does one job, reporting as it goes. */
    void (*accept)(void *sink, const struct sink_job *job, sink_emit *emit, void *context);
    /* Does a piece of what is to be done besides jobs (reading what is there already), of about a
     * block. False when nothing is left; only jobs bring more. May be NULL. */
    bool (*work)(void *sink, const atomic_bool *stop, sink_emit *emit, void *context);
    /* Closes everything. Of unfinished content only what a later run can go on from stays. */
    void (*close)(void *sink);
};

#endif
