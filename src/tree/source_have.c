#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "tree/source_internal.h"

/* The receiver keeps less than this unanswered; whoever sends more wants our memory. */
#define HAVE_LIMIT 16384u

static struct have *find_claimed(struct file_source *source, uint32_t offer, uint32_t entry)
{
    for (size_t i = 0; i < source->large_count; i++) {
        struct have *have = source->large[i].have;
        if (have != NULL && have->offer == offer && have->entry == entry)
            return have;
    }
    return NULL;
}

static struct have **find_waiting(struct file_source *source, uint32_t offer, uint32_t entry)
{
    struct have **link = &source->have;
    while (*link != NULL && ((*link)->offer != offer || (*link)->entry != entry))
        link = &(*link)->next;
    return link;
}

static struct have *new_have(uint32_t offer, uint32_t entry)
{
    struct have *have = calloc(1, sizeof *have);
    if (have != NULL)
        *have = (struct have){.offer = offer, .entry = entry};
    return have;
}

static size_t cost_of(const struct have_piece *piece)
{
    return piece->count > 0 ? piece->count : 1;
}

static bool keep_piece(struct file_source *source, struct have *have,
                       const struct hash_piece *piece, struct error *error)
{
    size_t size = TREE_HASH_SIZE * (size_t)bits_set(piece->present);
    struct have_piece *kept = malloc(sizeof *kept + size);
    if (kept == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for hashes");
    *kept = (struct have_piece){
        .first = piece->first, .count = piece->count, .present = piece->present};
    if (size > 0)
        memcpy(kept->hashes, piece->hashes, size);
    if (have->last != NULL)
        have->last->next = kept;
    else
        have->pieces = kept;
    have->last = kept;
    have->told += piece->count;
    source->have_blocks += cost_of(kept);
    return true;
}

bool have_take(struct file_source *source, const struct hash_piece *piece, struct error *error)
{
    struct have *have = find_claimed(source, piece->offer, piece->entry);
    if (have == NULL) {
        struct have **link = find_waiting(source, piece->offer, piece->entry);
        if (*link == NULL && !offer_is_to_come(source, piece->offer, piece->entry))
            return true; /* its file is done with, or was given up */
        if (*link == NULL)
            *link = new_have(piece->offer, piece->entry);
        have = *link;
    }
    if (have == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for hashes");
    if (have->ended || piece->first != have->told)
        return error_set(error, ERROR_PROTOCOL, "the peer told hashes out of order");
    if (piece->count == 0) {
        have->ended = true;
        return true;
    }
    if (source->have_blocks + piece->count > HAVE_LIMIT)
        return error_set(error, ERROR_PROTOCOL, "the peer told too many hashes at once");
    return keep_piece(source, have, piece, error);
}

struct have *have_claim(struct file_source *source, uint32_t offer, uint32_t entry)
{
    struct have **link = find_waiting(source, offer, entry);
    struct have *have = *link;
    if (have == NULL)
        return new_have(offer, entry);
    *link = have->next;
    have->next = NULL;
    return have;
}

static void drop_piece(struct file_source *source, struct have *have)
{
    struct have_piece *piece = have->pieces;
    have->pieces = piece->next;
    if (have->pieces == NULL)
        have->last = NULL;
    source->have_blocks -= cost_of(piece);
    free(piece);
}

void have_free(struct file_source *source, struct have *have)
{
    if (have == NULL)
        return;
    while (have->pieces != NULL)
        drop_piece(source, have);
    free(have);
}

void have_forget(struct file_source *source, uint32_t offer, uint32_t entry)
{
    struct have **link = find_waiting(source, offer, entry);
    struct have *have = *link;
    if (have != NULL) {
        *link = have->next;
        have_free(source, have);
    }
    if (source->forgotten_count == source->forgotten_capacity) {
        size_t capacity = source->forgotten_capacity * 2 + 16;
        struct forgotten *larger = realloc(source->forgotten, capacity * sizeof *source->forgotten);
        if (larger == NULL) {
            error_set(&source->fatal, ERROR_MEMORY, "no memory for an answer");
            return;
        }
        source->forgotten = larger;
        source->forgotten_capacity = capacity;
    }
    source->forgotten[source->forgotten_count++] =
        (struct forgotten){.offer = offer, .entry = entry};
}

bool have_is_told(const struct have *have, uint32_t index)
{
    return have->ended || index < have->told;
}

bool have_compare(struct have *have, uint32_t index, const uint8_t hash[TREE_HASH_SIZE])
{
    struct have_piece *piece = have->pieces;
    while (piece != NULL && index >= piece->first + piece->count)
        piece = piece->next;
    if (piece == NULL || index < piece->first)
        return false;
    uint64_t bit = UINT64_C(1) << (index - piece->first);
    if ((piece->present & bit) == 0)
        return false;
    size_t place = (size_t)bits_set(piece->present & (bit - 1));
    if (memcmp(piece->hashes + place * TREE_HASH_SIZE, hash, TREE_HASH_SIZE) != 0)
        return false;
    piece->kept |= bit;
    return true;
}

bool have_finished_piece(struct file_source *source, struct have *have, uint32_t next,
                         uint32_t count, struct source_item *out)
{
    struct have_piece *piece = have->pieces;
    if (piece == NULL || piece->first >= count)
        return false;
    uint32_t end = piece->first + piece->count;
    if (end > count)
        end = count;
    if (next < end)
        return false;
    out->first = piece->first;
    out->count = end - piece->first;
    out->kept = piece->kept;
    drop_piece(source, have);
    return true;
}

void have_close(struct file_source *source)
{
    while (source->have != NULL) {
        struct have *have = source->have;
        source->have = have->next;
        have_free(source, have);
    }
    free(source->forgotten);
}
