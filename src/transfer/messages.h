/* The messages of the control stream as values, and their bytes (docs/protocol.md, "The control
 * stream").
 *
 * Pure codec: knows limits and forms, not who may say what when. Decoded messages borrow from the
 * body they were read from.
 */
#ifndef PETREL_TRANSFER_MESSAGES_H
#define PETREL_TRANSFER_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"
#include "base/error.h"
#include "transport/rate_controller.h"
#include "tree/request.h"

#define MESSAGE_HEAD_MAX 20u                 /* type and length as varints */
#define MESSAGE_BODY_MAX 65536u              /* of all messages but those below */
#define MESSAGE_LONG_BODY_MAX (1024u * 1024) /* of REQUEST, NAMES, READY and ANSWER */
#define MESSAGE_PATH_MAX 4096u
#define MESSAGE_LIMITS 5u      /* kinds of limit that STATS tells of */
#define MESSAGE_LIMITS_MAX 16u /* that a later version may tell of */
#define MESSAGE_RTT_MAX_US UINT64_C(60000000)
#define MESSAGE_TEXT_MAX 479u      /* what struct error holds */
#define MESSAGE_FILES_DONE_MAX 64u /* FILE_DONE messages without TRANSFER_NAME_FILES */

enum message_type {
    MESSAGE_REQUEST = 1,
    MESSAGE_READY = 2,
    MESSAGE_ANSWER = 3,
    MESSAGE_COMPLETE = 4,
    MESSAGE_WITHDRAW = 5,
    MESSAGE_END = 6,
    MESSAGE_PROBLEM = 7,
    MESSAGE_PROGRESS = 8,
    MESSAGE_TOTALS = 9,
    MESSAGE_FILE_DONE = 10,
    MESSAGE_NOTE = 11,
    MESSAGE_UNSUPPORTED = 12,
    MESSAGE_NAMES = 13,
    MESSAGE_STATS = 14,
    MESSAGE_HASHES = 15,
    MESSAGE_KEEP = 16,
    MESSAGE_FORGET = 17,
    MESSAGE_DELETED = 18,
    MESSAGE_LIST = 19,
    MESSAGE_FILE_SKIPPED = 20,
    MESSAGE_LOST = 21,
    MESSAGE_HOLES = 22,
    MESSAGE_TYPE_COUNT
};

/* What only the sending side of a path knows, for people at either end. */
struct sender_figures {
    uint64_t packets_sent, packets_lost;   /* lost: without those that arrived after all */
    uint64_t payload_sent, payload_resent; /* bytes of blocks; sent includes resent */
    uint64_t limited_us[MESSAGE_LIMITS];   /* by enum session_limit */
    struct rate_memory path;               /* for the next transfer to remember; rate 0: nothing */
    enum rate_memory_use memory_use;
};

struct message {
    enum message_type type;
    /* LIST: the body. READY: bitmap. ANSWER: verdicts and hashes. HASHES: 32 bytes for each bit of
     * `kept`. REQUEST and NAMES: the whole body, see below. */
    const uint8_t *bytes;
    size_t length;
    uint32_t block;           /* ANSWER, HASHES, FORGET: of the offer */
    uint32_t entry;           /* HASHES, FORGET: of the offer, from 0 */
    uint32_t first, count;    /* HASHES, KEEP: blocks of the file */
    uint64_t kept;            /* HASHES: those that are there; KEEP: those not sent */
    uint64_t file_id;         /* COMPLETE, WITHDRAW, KEEP */
    uint64_t size;            /* COMPLETE, FILE_DONE, FILE_SKIPPED; TOTALS and PROGRESS: bytes */
    uint64_t blocks;          /* END */
    uint64_t files;           /* END, TOTALS; PROGRESS: done; DELETED: so far */
    uint64_t skipped, failed; /* PROGRESS */
    uint64_t kept_bytes;      /* PROGRESS */
    uint64_t disk_wait_ns;    /* PROGRESS */
    uint64_t unsupported;     /* UNSUPPORTED: the type */
    uint64_t new_bytes;       /* TOTALS */
    bool totals_final;        /* TOTALS */
    uint8_t hash[32];         /* COMPLETE, FILE_DONE */
    enum error_kind kind;     /* WITHDRAW, PROBLEM */
    struct sender_figures figures; /* STATS */
    const char *path, *text;       /* not ended by NUL when decoded: use the lengths */
    size_t path_length, text_length;
};

/* The longest body that a message of this type may have; 0 for a type that is not known. */
size_t message_limit(uint64_t type);

/* Writes head and body. The writer fails when there is no room or the message is over its limit.
 * REQUEST and NAMES: `bytes` is a body made by request_body or names_body. */
void message_encode(const struct message *message, struct writer *writer);

/* Reads a body of a known type. False for a body that is cut, too long, or says what it may not. */
bool message_decode(struct message *message, uint64_t type, const uint8_t *body, size_t size,
                    struct error *error);

/* The names that a pull's sources expanded to: a list in the form of a request's. Decoding adds to
 * `names` (which the caller zeroed) and leaves it empty on failure. */
void names_encode(const struct transfer_request *names, struct writer *writer);
bool names_decode(struct transfer_request *names, const uint8_t *body, size_t size,
                  struct error *error);

#endif
