/* What the parts of the source share; for source*.c only.
 *
 *   source.c        the order of work: offers, deliveries, content, waiting, the end
 *   source_walk.c   items from operands and trees, and the running totals
 *   source_list.c   items from a list of paths (--files-from)
 *   source_offer.c  offers, their answers, and items from what was answered "send"
 *   source_put.c    an item into a packed block; queueing of large files
 *   source_extra.c  owners and extended attributes
 *   source_links.c  further names of files (-H)
 *   source_sent.c   what is to be removed once it has arrived
 *   source_large.c  content of large files
 *   source_have.c   what the receiver has of them: hashes that came, compared as the file is read
 */
#ifndef PETREL_TREE_SOURCE_INTERNAL_H
#define PETREL_TREE_SOURCE_INTERNAL_H

#include <sys/stat.h>

#include "base/block.h"
#include "crypto/tree_hash.h"
#include "tree/file_list.h"
#include "tree/operand.h"
#include "tree/owner_names.h"
#include "tree/pack.h"
#include "tree/scan.h"
#include "tree/source.h"

#define LARGE_QUEUE 64         /* large files between entry and content, each an open file */
#define PROBLEM_QUEUE 64       /* reports waiting; packing pauses when it is full */
#define OFFER_ENTRIES 1024     /* in one block */
#define OFFER_LIMIT (4u << 20) /* bytes of unanswered offers */
#define WALK_SLICE_NS (20u * 1000000)

/* One thing to send: an operand, or an entry of a tree. Pointers are valid until the next one. */
struct item {
    uint32_t name;
    const char *path; /* below the name */
    size_t path_size;
    int directory; /* where `leaf` is opened */
    const char *leaf;
    bool follow;  /* a link is opened for what it leads to */
    bool is_told; /* status is what was offered: size, time and permissions alone */
    struct stat status;
    const uint8_t *hash; /* of what the receiver has under that name, NULL */
    bool has_offer;      /* the receiver tells hashes of this entry of an offer */
    uint32_t offer, entry;
};

/* Goes through all operands whose name exists at the destination, or all others, or all. */
struct walk {
    enum walk_names { WALK_NEW, WALK_EXISTING, WALK_ALL } names;
    size_t operand;
    struct scan *scan;
    struct list_walk *list; /* --files-from: where in the list */
    bool held, ended;       /* held: item was taken but not used */
    struct item item;
    uint64_t files, bytes, new_bytes; /* new: under names that are not at the destination */
};

/* A piece of hashes as it was told; freed when its last block was compared. */
struct have_piece {
    struct have_piece *next;
    uint32_t first, count;
    uint64_t present, kept; /* kept: compared and found equal */
    uint8_t hashes[];
};

/* What the receiver tells of one file. */
struct have {
    struct have *next;
    uint32_t offer, entry;
    uint32_t told; /* blocks that pieces have come for */
    bool ended;    /* nothing comes any more */
    struct have_piece *pieces, *last;
};

struct large {
    int fd;
    uint64_t id;
    uint32_t first, count, next; /* blocks: number of the first, how many, next index to read */
    uint32_t entry_block;
    struct stat before;
    struct tree_hash *hash;
    uint32_t hole_first, hole_count; /* zeros before `next` that were not told of yet */
    off_t hole_from, data_from;      /* nothing is stored from here to there */
    struct have *have;               /* NULL: nothing is told of it (any more) */
    bool differs;                    /* dry run: from what the receiver has */
    char *path;                      /* for people */
};

struct offer {
    struct offer *next;
    uint32_t block, count;
    uint8_t *bytes, *answer; /* answer NULL until it came: verdicts, then hashes */
    size_t size, hash_at;    /* hash_at: hashes of entries that were taken */
};

struct forgotten {
    uint32_t offer, entry;
};

struct problem {
    char *path;
    struct error error;
};

struct file_source {
    struct operands operands;
    struct filter filter;
    bool follow_links, dry_run;
    struct file_list *list;                   /* --files-from, NULL */
    bool owns_list, list_trees, list_pending; /* pending: of a pull, not all of it has come */
    uint8_t *exists;                          /* one byte a name */

    uint32_t next_block, given_blocks;
    uint64_t next_id, files;

    struct walk deliveries, offers, counting;
    struct read_ahead *ahead; /* of what will be delivered; NULL: nothing is read, or no memory */
    bool totals_final;
    uint64_t total_files, total_bytes, new_bytes;

    struct offer *unanswered, *answered; /* answered: in the order of their answers */
    size_t unanswered_bytes;
    struct pack_reader answered_reader; /* of the first answered one */
    bool answered_open, answered_held;
    struct pack_reader hinted_reader; /* of the same one, where hints for reading ahead are */
    bool hinted_open;
    struct item answered_item;
    int answered_root; /* the operand last opened for answered entries, -1 */
    size_t answered_operand;

    struct sent *sent;   /* --remove-source-files, NULL without */
    struct links *links; /* NULL: none was met */
    struct item link_item;

    struct large large[LARGE_QUEUE]; /* entries are out, content follows; in the order of entries */
    size_t large_count;
    unsigned turn;

    struct have *have;  /* told of, and not yet a large file's own */
    size_t have_blocks; /* hashes in memory, and pieces without any */
    struct forgotten *forgotten;
    size_t forgotten_count, forgotten_capacity;

    struct problem problems[PROBLEM_QUEUE];
    size_t problem_count, problem_at;
    size_t operand_problem_at;
    char *said_path; /* of the last item given, freed by the next call */
    uint64_t flags;  /* of the request */
    struct owner_names *owners;
    uint8_t *extra, *extra_room; /* of the entry in hand; NULL: nothing is asked for */
    uint64_t extra_lost;         /* entries with more attributes than fit, since they were told */
    uint64_t own_names;          /* left out, since the last note of them */
    struct error fatal;
    struct pack_writer pack;
};

/* source.c */
void source_problem(struct file_source *source, const struct item *item, const struct error *error);
void source_problem_path(struct file_source *source, const char *path, const struct error *error);
bool source_problems_full(const struct file_source *source);
/* "operand/path" for people; NULL without memory. */
char *source_display_path(const struct file_source *source, uint32_t name, const char *path);
uint64_t source_clock_ns(void);

/* source_walk.c. False when the walk has ended or problems are waiting. */
bool walk_next(struct file_source *source, struct walk *walk);
void walk_close(struct walk *walk);
/* Counts for about `slice_ns`. */
void source_count_ahead(struct file_source *source, uint64_t slice_ns);
/* The user's filter leaves out what was named itself. */
bool source_is_excluded(const struct file_source *source, size_t operand);
int source_open_operand(const struct file_source *source, size_t operand);

/* source_list.c */
/* The next item of the list in walk->item. False when the list has ended (walk->list is gone then),
 * when there was a problem, or nothing yet. */
bool list_walk_next(struct file_source *source, struct walk *walk);
void list_walk_close(struct walk *walk);

/* source_offer.c */
bool offer_is_possible(const struct file_source *source);
/* Fills `buffer` with an offer block. False when there is none now. */
bool offer_build(struct file_source *source, uint8_t *buffer, struct source_item *out);
bool offer_answer(struct file_source *source, uint32_t block, const uint8_t *bytes, size_t size,
                  struct error *error);
/* Whether an entry of an offer is answered and not yet taken by offer_next_item. */
bool offer_is_to_come(const struct file_source *source, uint32_t block, uint32_t entry);
/* The next item to deliver of what was answered; false when there is none now. */
bool offer_next_item(struct file_source *source);
/* Makes sure that source->answered_root is that operand's directory. */
bool offer_open_root(struct file_source *source, size_t operand);
void offer_close(struct file_source *source);

/* source_put.c */
enum put { PUT_DONE, PUT_FULL }; /* DONE: added, or reported as a problem */
enum put source_put(struct file_source *source, uint32_t block, const struct item *item);
/* The entry alone, into an offer. */
enum put source_offer(struct file_source *source, const struct item *item);
/* A device, pipe or socket. */
bool source_is_special(const struct stat *status);
/* Same size and time, to the nanosecond. */
bool source_is_unchanged(const struct stat *before, const struct stat *after);

/* source_links.c */
/* Whether a file that was met has to wait, since it may have other names. */
bool links_concern(const struct file_source *source, const struct stat *status);
void links_add(struct file_source *source, const struct item *item);
/* Whether there is, or may still be, something to send here. */
bool links_remain(const struct file_source *source);
/* The next file to offer, or to deliver at once, in source->link_item; false when there is none
 * now. links_taken tells that it, or the link below, was packed. */
bool links_next_file(struct file_source *source, bool offered);
/* The next link to deliver; its pointers live until links_taken. */
bool links_next_link(struct file_source *source, struct entry *entry);
void links_taken(struct file_source *source);
/* The device and inode of the link in hand. */
void links_identity(const struct file_source *source, uint64_t *device, uint64_t *inode);
void links_close(struct file_source *source);

/* source_sent.c */
bool sent_open(struct file_source *source, struct error *error);
void sent_close(struct file_source *source);
/* What was packed; what was answered "skip"; a hard link that was packed. */
void sent_add(struct file_source *source, const struct item *item);
void sent_add_skipped(struct file_source *source, const struct entry *entry);
void sent_add_link(struct file_source *source, const struct entry *entry, uint64_t device,
                   uint64_t inode);
void sent_failed(struct file_source *source, const char *path);
bool sent_remove(struct file_source *source, source_removal *removal, void *context,
                 struct error *error);

/* source_extra.c */
bool extra_open(struct file_source *source, struct error *error);
void extra_close(struct file_source *source);
/* Sets entry->extra, which lives until the next call. */
void extra_fill(struct file_source *source, const struct item *item, const struct stat *status,
                struct entry *entry);

/* source_large.c */
/* The index of a file that can be read on now, or -1: each waits for hashes. */
int large_ready(const struct file_source *source);
enum source_result large_next(struct file_source *source, size_t index, uint8_t *buffer,
                              struct source_item *out);
void large_close(struct file_source *source, struct large *large);

/* source_have.c */
bool have_take(struct file_source *source, const struct hash_piece *piece, struct error *error);
/* The record of an entry, for the large file made of it; NULL without memory. */
struct have *have_claim(struct file_source *source, uint32_t offer, uint32_t entry);
void have_free(struct file_source *source, struct have *have);
/* Nothing is wanted of that entry: the receiver will be told. */
void have_forget(struct file_source *source, uint32_t offer, uint32_t entry);
/* Whether block `index` can be compared now. */
bool have_is_told(const struct have *have, uint32_t index);
/* Compares the hash of block `index`; blocks are compared in order, each once. */
bool have_compare(struct have *have, uint32_t index, const uint8_t hash[TREE_HASH_SIZE]);
/* The oldest piece, when all of its blocks below `count` are before `next`: fills the item's
 * KEEP and drops the piece. */
bool have_finished_piece(struct file_source *source, struct have *have, uint32_t next,
                         uint32_t count, struct source_item *out);
void have_close(struct file_source *source);

#endif
