/* A transfer: glues a session to storage, by control messages (docs/protocol.md, "Messages").
 *
 * Two halves with one face: transfer_sender moves blocks from a source into the session,
 * transfer_receiver from the session into a sink. Pure logic; the disk works elsewhere, joined by
 * a `struct work` of two rings (transfer/work.h).
 */
#ifndef PETREL_TRANSFER_TRANSFER_H
#define PETREL_TRANSFER_TRANSFER_H

#include "transfer/messages.h"
#include "transfer/work.h"
#include "transport/session.h"
#include "tree/request.h"

enum transfer_phase { PHASE_CONNECTING, PHASE_MOVING, PHASE_FINISHING, PHASE_ENDED };

/* What progress, summary and JSON are made of; filled on either side. */
struct transfer_progress {
    enum transfer_phase phase;
    uint64_t total_bytes, total_files; /* found so far */
    bool totals_final;
    uint64_t verified_bytes, files_done, files_skipped, files_failed;
    uint64_t kept_bytes;           /* of the verified ones: were at the destination already */
    uint64_t deleted;              /* of any type */
    uint64_t buffer_bytes;         /* of blocks in memory now */
    uint64_t started_ns, ended_ns; /* the session's start; the receiver's "verified" */
    uint64_t disk_wait_ns;         /* time the local disk held things up */
    uint64_t peer_disk_wait_ns;
    bool sends;      /* we are the sender */
    bool disk_rests; /* the disk side has nothing to do: set by who runs it */
    /* The sender's view of the path, told to the receiver about ten times a second. */
    struct sender_figures sender;
    /* The error that ended the transfer is the peer's, in its words. */
    bool error_is_peers;
    struct session_statistics session;
};

enum transfer_event_kind {
    TRANSFER_FILE_DONE,    /* path, size, hash */
    TRANSFER_FILE_SKIPPED, /* path, size */
    TRANSFER_FILE_FAILED,  /* path, error: on either side */
    TRANSFER_FILE_DELETED, /* path */
    TRANSFER_LOST,         /* error.text: something that was asked for could not be kept */
    TRANSFER_NOTE          /* error.text is a line for people */
};

struct transfer_event {
    enum transfer_event_kind kind;
    const char *path; /* as the peer said it: escape before printing */
    uint64_t size;
    uint8_t hash[32];
    struct error error;
    bool is_peers; /* the failure is on the peer's side */
};

typedef void transfer_event_function(void *context, const struct transfer_event *event);

struct transfer_config {
    bool client;
    enum transfer_role role;
    /* The client's request, borrowed for the transfer's life; NULL on a server, which gets it from
     * the peer. */
    const struct transfer_request *request;
    /* Called once, on the disk side, to open the source or make the sink (whose own open() follows
     * at once). Sets the source or sink and its ops; false ends the session with the error as
     * reason. `request` is the client's request, on a server as it was decoded; for a pull's sink
     * its names are those that the server's NAMES gave. It lives until transfer_free. */
    work_open_function *open_storage;
    void *open_context;
    transfer_event_function *on_event;
    void *event_context;
    /* A pull with TRANSFER_FILES_FROM: the bytes of the list from `offset` on, as many as there are
     * up to `capacity`; 0 at its end, negative with an error. Called on the session's side. */
    ptrdiff_t (*read_list)(void *context, uint64_t offset, uint8_t *bytes, size_t capacity,
                           struct error *error);
    void *list_context;
    /* Limit of the block pool, 0 for the default of 256. Memory follows need: a sender holds what
     * is in flight and a few blocks read ahead; a receiver grants 32 blocks, and on a long path up
     * to four times what is in flight. */
    size_t pool_blocks;
    /* What a receiver grants at first, in place of 32; it then grants what the rate brings in a
     * tenth of a second. Few for strangers, and where a pace (below) is to take hold soon. */
    size_t first_blocks;
};

struct transfer;
struct transfer *transfer_new(const struct transfer_config *config, struct error *error);
/* The disk thread must be gone, and the session must not be stepped any more. */
void transfer_free(struct transfer *transfer);

/* How many blocks a receiver grants in its hello (0 for a sender). */
uint32_t transfer_initial_credit(const struct transfer *transfer);
/* The opening has finished and the session exists; borrowed until transfer_free. */
void transfer_attach(struct transfer *transfer, struct session *session, uint64_t now_ns);
/* Moves what can be moved; called after session_step, again with the session until neither has
 * anything to do. True when something moved. */
bool transfer_step(struct transfer *transfer, uint64_t now_ns);
/* From now on at most so many bits of blocks a second go, or come (0: any), or none while paused. A
 * receiver does it by what it grants: what was granted before may still come. */
void transfer_set_pace(struct transfer *transfer, uint64_t limit_bps, bool paused, uint64_t now_ns);
uint64_t transfer_deadline(const struct transfer *transfer);
/* The rings to the disk side: work_step is called by a disk thread, or by a simulator. */
struct work *transfer_work(struct transfer *transfer);
void transfer_progress(const struct transfer *transfer, struct transfer_progress *progress);
/* Ctrl-C and fatal local errors: tells the peer, then the session closes. Also to be called when
 * the opening failed and no session will come, so that the disk side ends. */
void transfer_abort(struct transfer *transfer, enum error_kind kind, const char *text,
                    uint64_t now_ns);
/* The session is closed (or there is none) and the disk side has closed its storage. */
bool transfer_is_ended(const struct transfer *transfer);
/* Once ended: kind NONE and files_failed 0: everything arrived and was verified, said by the
 * receiver. */
const struct error *transfer_error(const struct transfer *transfer);

#endif
