#include "lab/sim_told.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/block.h"
#include "crypto/tree_hash.h"
#include "tree/pack.h"

void sim_told_hash(const struct sim_files *files, uint32_t file, uint32_t index, uint8_t hash[32],
                   bool *right)
{
    static uint8_t bytes[BLOCK_SIZE];
    uint64_t size = files->sizes[file], offset = (uint64_t)index * BLOCK_SIZE;
    size_t length = size - offset < BLOCK_SIZE ? (size_t)(size - offset) : BLOCK_SIZE;
    *right = index % 2 == 0;
    sim_files_content(files, *right ? file : file + 1, offset, bytes, length);
    if (size <= BLOCK_SIZE)
        tree_hash_whole(bytes, length, hash);
    else
        tree_hash_block(bytes, length, index, hash);
}

/* ---- the sink's side ---- */

struct telling {
    struct telling *next;
    uint32_t offer, entry, file, blocks, told, decided;
};

struct sim_teller {
    struct telling *all;
    uint8_t hashes[SIM_TOLD_PIECE * 32];
};

struct sim_teller *sim_teller_new(void)
{
    return calloc(1, sizeof(struct sim_teller));
}

void sim_teller_free(struct sim_teller *teller)
{
    while (teller != NULL && teller->all != NULL) {
        struct telling *telling = teller->all;
        teller->all = telling->next;
        free(telling);
    }
    free(teller);
}

bool sim_teller_add(struct sim_teller *teller, uint32_t offer, uint32_t entry, uint32_t file,
                    uint32_t blocks)
{
    struct telling *telling = calloc(1, sizeof *telling), **link = &teller->all;
    if (telling == NULL)
        return false;
    *telling = (struct telling){.offer = offer, .entry = entry, .file = file, .blocks = blocks};
    while (*link != NULL)
        link = &(*link)->next;
    *link = telling;
    return true;
}

/* The first block is not there: pieces have gaps. */
bool sim_teller_next(struct sim_teller *teller, const struct sim_files *files,
                     struct hash_piece *piece)
{
    struct telling *telling = teller->all;
    while (telling != NULL && telling->told == telling->blocks)
        telling = telling->next;
    if (telling == NULL)
        return false;
    *piece = (struct hash_piece){.offer = telling->offer,
                                 .entry = telling->entry,
                                 .first = telling->told,
                                 .hashes = teller->hashes};
    unsigned place = 0;
    while (piece->count < SIM_TOLD_PIECE && telling->told < telling->blocks) {
        bool right;
        if (telling->told != 0) {
            sim_told_hash(files, telling->file, telling->told, teller->hashes + 32 * place++,
                          &right);
            piece->present |= UINT64_C(1) << piece->count;
        }
        piece->count++;
        telling->told++;
    }
    return true;
}

const char *sim_teller_decide(struct sim_teller *teller, const struct sim_files *files,
                              uint32_t file, uint32_t first, uint32_t count, uint64_t kept)
{
    struct telling *telling = teller->all;
    while (telling != NULL && telling->file != file)
        telling = telling->next;
    if (telling == NULL)
        return "a file was decided on that was not told of";
    if (first != telling->decided || (uint64_t)first + count > telling->told ||
        (count != SIM_TOLD_PIECE && first + count != telling->blocks))
        return "a decision does not fit the piece that was told";
    telling->decided += count;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t hash[32];
        bool right;
        sim_told_hash(files, file, first + i, hash, &right);
        if ((kept >> i & 1) != (right && first + i != 0))
            return "a block is kept that is wrong, or one is not that is right";
    }
    return NULL;
}

/* ---- the source's side ---- */

struct heard {
    struct heard *next;
    uint32_t file, first, count;
    uint64_t present, kept;
    uint8_t hashes[HASH_PIECE_BLOCKS * 32];
};

struct sim_listener {
    struct heard *all;
};

struct sim_listener *sim_listener_new(void)
{
    return calloc(1, sizeof(struct sim_listener));
}

void sim_listener_free(struct sim_listener *listener)
{
    while (listener != NULL && listener->all != NULL) {
        struct heard *heard = listener->all;
        listener->all = heard->next;
        free(heard);
    }
    free(listener);
}

bool sim_listener_take(struct sim_listener *listener, uint32_t file, const struct hash_piece *piece)
{
    struct heard *heard = calloc(1, sizeof *heard), **link = &listener->all;
    if (heard == NULL)
        return false;
    heard->file = file;
    heard->first = piece->first;
    heard->count = piece->count;
    heard->present = piece->present;
    if (piece->present != 0)
        memcpy(heard->hashes, piece->hashes, 32 * (size_t)bits_set(piece->present));
    while (*link != NULL)
        link = &(*link)->next;
    *link = heard;
    return true;
}

static struct heard *find(const struct sim_listener *listener, uint32_t file, uint32_t index)
{
    struct heard *heard = listener->all;
    while (heard != NULL && (heard->file != file || index - heard->first >= heard->count))
        heard = heard->next;
    return heard;
}

bool sim_listener_has(const struct sim_listener *listener, uint32_t file, uint32_t index)
{
    return find(listener, file, index) != NULL;
}

bool sim_listener_compare(struct sim_listener *listener, uint32_t file, uint32_t index,
                          const uint8_t hash[32])
{
    struct heard *heard = find(listener, file, index);
    uint64_t bit = UINT64_C(1) << (index - heard->first);
    size_t place = bits_set(heard->present & (bit - 1));
    if ((heard->present & bit) == 0 || memcmp(heard->hashes + 32 * place, hash, 32) != 0)
        return false;
    heard->kept |= bit;
    return true;
}

bool sim_listener_decided(struct sim_listener *listener, uint32_t file, uint32_t next,
                          struct source_item *item)
{
    struct heard **link = &listener->all;
    while (*link != NULL && (*link)->file != file)
        link = &(*link)->next;
    struct heard *heard = *link;
    if (heard == NULL || heard->first + heard->count > next)
        return false;
    item->first = heard->first;
    item->count = heard->count;
    item->kept = heard->kept;
    *link = heard->next;
    free(heard);
    return true;
}
