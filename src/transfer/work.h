/* The seam between the network thread and the disk thread: jobs go down one ring, reports come up
 * the other. Nothing else is shared but one flag.
 *
 * work_step does one piece of disk work on whichever thread calls it (a disk thread in the program,
 * the simulator in tests). The wake-up callbacks let a thread sleep when its ring is empty. Neither
 * side ever waits for the other inside a call: what a full ring cannot take waits on its own side,
 * and whoever produces asks before producing more.
 */
#ifndef PETREL_TRANSFER_WORK_H
#define PETREL_TRANSFER_WORK_H

#include "tree/storage.h"

/* What open_storage hands over: exactly one of source and sink, closed on the disk side. */
struct storage {
    void *source;
    const struct source_ops *source_ops;
    void *sink;
    const struct sink_ops *sink_ops;
    bool reads_squeezed; /* the sink: squeezed blocks (TRANSFER_SQUEEZE) */
    /* A source on a server: the top-level names that the requested paths expanded to, in the order
     * that packed blocks count them. Borrowed until close. NULL: the last component of each
     * requested path, in order. */
    const struct transfer_request *names;
};

typedef bool work_open_function(void *context, const struct transfer_request *request,
                                struct storage *storage, struct error *error);

struct work;

/* ---- the disk side ---- */

enum work_result {
    WORK_DID,  /* call again at once */
    WORK_IDLE, /* wait for `wake_disk` */
    WORK_ENDED /* the transfer asked the disk side to end, and storage is closed */
};

enum work_result work_step(struct work *work);

/* Set before threads start. `wake_disk` is called by the network side after it put a job or made
 * room, from its thread; `wake_network` by the disk side after it put a report. Both may be NULL.
 */
void work_set_wakers(struct work *work, void (*wake_disk)(void *), void *disk_context,
                     void (*wake_network)(void *), void *network_context);

/* Test hook: flips one byte of a file's content at a named place ("reader": after hashing, before
 * sending; "pool": in a received block before it is hashed; "write": before writing), once, after
 * `after` blocks that hold content. Each must end as a verification failure. Set before threads
 * start. */
enum flip_place { FLIP_NONE, FLIP_READER, FLIP_POOL, FLIP_WRITE };
void work_set_flip(struct work *work, enum flip_place place, uint32_t after);

/* ---- the network side: for transfer/ only ---- */

#define WORK_BUFFERS_MAX 8u /* empty buffers with a source */

enum work_job_kind {
    WORK_OPEN,     /* request: open the storage, and the sink on its destination */
    WORK_EXISTING, /* bytes, length: READY's bitmap, for the source; it starts */
    WORK_BUFFER,   /* bytes: BLOCK_SIZE of memory for the source to fill */
    WORK_ANSWER,   /* block, bytes, length: an answer for the source */
    WORK_HASHES,   /* piece, its hashes in `bytes`: for the source */
    WORK_LIST,     /* bytes, length: of the list of files, for the source; 0: it has ended */
    WORK_FAILED,   /* bytes, length: a path that the receiver could not finish, for the source */
    WORK_REMOVE,   /* all else is verified: what the user wants removed at the source goes */
    WORK_SINK,     /* sink: a job for the sink, its error in `error` */
    WORK_CLOSE     /* close the storage and end */
};

/* `bytes` of EXISTING, ANSWER, HASHES, LIST and FAILED come from malloc and are freed by the disk
 * side. */
struct work_job {
    enum work_job_kind kind;
    const struct transfer_request *request; /* borrowed until the work has ended */
    uint8_t *bytes;
    size_t length;
    uint32_t block;
    uint64_t path_bps; /* BUFFER: what the path carries now */
    struct hash_piece piece;
    struct sink_job sink;
};

enum work_report_kind {
    WORK_OPENED,      /* names; a sink: bytes, length: the bitmap, the network side frees it */
    WORK_OPEN_FAILED, /* error */
    WORK_SOURCE,      /* result: enum source_result and its item */
    WORK_SINK_SAID,   /* result: enum sink_report_kind and its fields; ANSWER's bytes and those of
                         HASHES (the piece's hashes) are from malloc */
    WORK_NOT_REMOVED, /* path, error: stays at the source though it was to be removed */
    WORK_ANSWER_BAD,  /* error: the source refused an answer or hashes */
    WORK_CLOSED       /* the last report */
};

struct work_report {
    enum work_report_kind kind;
    int result;
    bool packed, totals_final, has_entry_block;
    uint32_t block, entry_block, length;
    uint32_t entry, first, count;
    uint64_t kept; /* SOURCE_KEEP, and what a piece of SINK_HASHES has present */
    uint8_t *bytes;
    const struct transfer_request *names;
    uint64_t file_id, size, blocks, files, failures, total_files, total_bytes, new_bytes;
    uint8_t hash[32];
    enum error_kind error_kind;
    int os_errno;
    uint32_t path_length, text_length; /* tail: path, NUL, error text, NUL */
    char tail[];
};

const char *work_report_path(const struct work_report *report);
void work_report_error(const struct work_report *report, struct error *error);

struct work *work_new(bool source, work_open_function *open, void *open_context);
/* The disk thread must be gone. Closes storage that is still open. */
void work_free(struct work *work);

/* False only without memory: then the job was not taken. */
bool work_put(struct work *work, const struct work_job *job);
/* Jobs that found no room in the ring: a producer that can wait does so while this is not 0. */
size_t work_backlog(const struct work *work);
/* The transfer has failed: what is still to be given to the sink is dropped, and a block in its
 * hands is left where it is, so that the end need not wait for them. */
void work_hurry(struct work *work);
/* Oldest report, valid until work_release; NULL when there is none. */
const struct work_report *work_peek(struct work *work);
void work_release(struct work *work);
/* The disk side found no memory for a report: the transfer cannot go on. */
bool work_memory_gone(const struct work *work);
/* At the end of a step: moves what waited, and wakes the disk side when it waits for room. */
bool work_flush(struct work *work);
/* Test hook's part on the network side: called for each received block. */
void work_flip_pool(struct work *work, uint8_t *bytes, uint32_t length, bool packed);

#endif
