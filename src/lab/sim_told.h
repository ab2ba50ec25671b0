/* What a simulated sink has of some large files, and tells: every other block of them is right, the
 * others hold something else. Told in small pieces, so that a test sees many of them; what the
 * sender decides on them must fit, piece by piece. */
#ifndef PETREL_LAB_SIM_TOLD_H
#define PETREL_LAB_SIM_TOLD_H

#include "lab/sim_storage.h"

#define SIM_TOLD_PIECE 3u

/* The hash that the sink tells of a block; *right: it is the source's. */
void sim_told_hash(const struct sim_files *files, uint32_t file, uint32_t index, uint8_t hash[32],
                   bool *right);

/* ---- the sink's side ---- */

struct sim_teller; /* pieces to tell, and told ones that wait for a decision */

struct sim_teller *sim_teller_new(void);
void sim_teller_free(struct sim_teller *teller);
/* An offered entry is to be told of. False without memory. */
bool sim_teller_add(struct sim_teller *teller, uint32_t offer, uint32_t entry, uint32_t file,
                    uint32_t blocks);
/* The next piece; its hashes are valid until the next call. False when all are told. */
bool sim_teller_next(struct sim_teller *teller, const struct sim_files *files,
                     struct hash_piece *piece);
/* The sender's decision on the oldest piece of a file that is not decided yet: NULL, or what is
 * wrong with it. */
const char *sim_teller_decide(struct sim_teller *teller, const struct sim_files *files,
                              uint32_t file, uint32_t first, uint32_t count, uint64_t kept);

/* ---- the source's side ---- */

struct sim_listener; /* what was told of each file */

struct sim_listener *sim_listener_new(void);
void sim_listener_free(struct sim_listener *listener);
bool sim_listener_take(struct sim_listener *listener, uint32_t file,
                       const struct hash_piece *piece);
/* Whether block `index` of `file` was told of. */
bool sim_listener_has(const struct sim_listener *listener, uint32_t file, uint32_t index);
/* Compares a block, each once and in order. */
bool sim_listener_compare(struct sim_listener *listener, uint32_t file, uint32_t index,
                          const uint8_t hash[32]);
/* The oldest piece of the file when all of its blocks are before `next`; drops it. */
bool sim_listener_decided(struct sim_listener *listener, uint32_t file, uint32_t next,
                          struct source_item *item);

#endif
