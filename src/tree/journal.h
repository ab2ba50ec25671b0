/* The journal beside a half-written file: says after a kill which of its blocks are worth reading
 * (tree/journal_form.h has the bytes).
 *
 * A hint only: never synced, written at most JOURNAL_LATE_BLOCKS blocks or JOURNAL_LATE_NS late.
 * It is also the lock of the half-written file: whoever holds the journal is its only writer. A
 * newcomer asks a holder of the same user to stop (SIGTERM) and waits two seconds for it.
 */
#ifndef PETREL_TREE_JOURNAL_H
#define PETREL_TREE_JOURNAL_H

#include "base/error.h"
#include "tree/journal_form.h"

/* The value that goes with the newcomer's SIGTERM (sigqueue), for the holder to know it by. */
#define JOURNAL_TAKES_OVER 0x70657472

#define JOURNAL_LATE_BLOCKS 16u
#define JOURNAL_LATE_NS UINT64_C(250000000)

enum journal_found {
    JOURNAL_NEW,     /* there was none */
    JOURNAL_USABLE,  /* it tells of this path */
    JOURNAL_USELESS, /* corrupt, another's, or of a newer version: what it says is forgotten */
    JOURNAL_BUSY,    /* somebody else writes that file and does not stop */
    JOURNAL_MISSING, /* there is none, and none was to be made */
    JOURNAL_FAILED   /* errno */
};

struct journal;

/* Opens and locks the journal `name` in `directory`; with `make` it is made if missing. NULL for
 * BUSY, MISSING and FAILED. `what` gets a short text for USELESS ("corrupted"). */
struct journal *journal_open(int directory, const char *name, bool make,
                             const uint8_t identity[JOURNAL_IDENTITY_SIZE],
                             enum journal_found *found, const char **what);
/* Unlocks; what was added is written first. Takes NULL. */
void journal_close(struct journal *journal);
/* Removes the file, then closes. */
void journal_remove(struct journal *journal, int directory, const char *name);

/* Locks the journal `name` without asking anybody: a descriptor to be closed, or -1 with errno,
 * EWOULDBLOCK when somebody has it. */
int journal_take(int directory, const char *name);

/* Begins anew for a file of that size: nothing is recorded. False with errno. */
bool journal_start(struct journal *journal, uint64_t file_size);
/* Keeps the records for a file whose size has changed. False with errno. */
bool journal_resize(struct journal *journal, uint64_t file_size);
uint64_t journal_file_size(const struct journal *journal); /* of a USABLE one, as it says */
/* Behind the last block that may be recorded. */
uint64_t journal_extent(const struct journal *journal);
/* Whether block `index` is recorded, with which hash. */
bool journal_has(struct journal *journal, uint64_t index, uint8_t hash[JOURNAL_HASH_SIZE]);

/* The block is written. */
void journal_add(struct journal *journal, uint64_t index, const uint8_t hash[JOURNAL_HASH_SIZE],
                 uint64_t now_ns);
bool journal_is_due(const struct journal *journal, uint64_t now_ns);
void journal_flush(struct journal *journal);
/* Whether anything was ever added to it, or is recorded from before. */
bool journal_is_empty(const struct journal *journal);

#endif
