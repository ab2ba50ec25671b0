#include "tree/squeezed_source.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tree/pack.h"
#include "tree/squeeze.h"

#define SAMPLE 65536u
#define SIZE_MIN 512u       /* nothing smaller is worth it */
#define SHARE_SAVED 16u     /* at least one part in so many */
#define PASS_MAX 32u        /* blocks let through after useless ones */
#define SLOW_PATH_BPS 200e6 /* below this, more effort pays */
#define LEVEL_FAST 1u
#define LEVEL_SLOW 3u
#define ROUND 64u      /* of so many blocks ... */
#define ROUND_PLAIN 8u /* ... so many show what the path can do */

struct squeezed_source {
    void *source;
    const struct source_ops *ops;
    unsigned level;
    bool allowed, has_said;
    struct source_item end;    /* held back while it is said why nothing was squeezed */
    struct squeezer *squeezer; /* NULL: a build without libzstd */
    uint8_t *room;             /* BLOCK_SIZE */
    uint32_t pass, next_pass, round;
    double path_bps;
    double squeeze_bps; /* of what goes in; 0: not known yet */
};

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- whether ---- */

static void was_useless(struct squeezed_source *squeezed)
{
    uint32_t next = squeezed->next_pass;
    squeezed->pass = next;
    squeezed->next_pass = next == 0 ? 1 : next * 2 < PASS_MAX ? next * 2 : PASS_MAX;
}

/* While all is squeezed the path never shows what else it could carry: a few blocks of each round
 * go as they are. */
static bool pays(struct squeezed_source *squeezed)
{
    if (squeezed->level != 0)
        return true;
    squeezed->round = (squeezed->round + 1) % ROUND;
    bool slower = squeezed->squeeze_bps == 0 || squeezed->path_bps < squeezed->squeeze_bps;
    return slower && squeezed->round >= ROUND_PLAIN;
}

static unsigned level_now(const struct squeezed_source *squeezed)
{
    if (squeezed->level != 0)
        return squeezed->level;
    return squeezed->path_bps < SLOW_PATH_BPS ? LEVEL_SLOW : LEVEL_FAST;
}

static bool sample_shrinks(struct squeezed_source *squeezed, const uint8_t *bytes, size_t size)
{
    if (size <= 2u * SAMPLE)
        return true; /* the whole is as quick */
    const uint8_t *middle = bytes + (size - SAMPLE) / 2;
    return squeezer_pack(squeezed->squeezer, LEVEL_FAST, middle, SAMPLE, squeezed->room,
                         SAMPLE - SAMPLE / SHARE_SAVED) > 0;
}

/* ---- how ---- */

/* The size of what stands in `room` then, 0: the block stays as it is. */
static size_t squeeze(struct squeezed_source *squeezed, const uint8_t *bytes, size_t size,
                      bool packed)
{
    size_t head = packed ? 1 : 0, most = size - size / SHARE_SAVED;
    if (!sample_shrinks(squeezed, bytes, size))
        return 0;
    double start = seconds_now();
    size_t made = squeezer_pack(squeezed->squeezer, level_now(squeezed), bytes, size,
                                squeezed->room + head, most - head);
    double took = seconds_now() - start;
    if (size >= SAMPLE && took > 0) {
        double bps = (double)size * 8 / took;
        squeezed->squeeze_bps =
            squeezed->squeeze_bps == 0 ? bps : 0.8 * squeezed->squeeze_bps + 0.2 * bps;
    }
    if (made == 0)
        return 0;
    if (packed)
        squeezed->room[0] = PACK_SQUEEZED;
    return made + head;
}

static void squeeze_item(struct squeezed_source *squeezed, uint8_t *buffer,
                         struct source_item *item)
{
    if (!squeezed->allowed || item->length < SIZE_MIN)
        return;
    if (squeezed->pass > 0) {
        squeezed->pass--;
        return;
    }
    if (!pays(squeezed))
        return;
    size_t size = squeeze(squeezed, buffer, item->length, item->packed);
    if (size == 0) {
        was_useless(squeezed);
        return;
    }
    squeezed->next_pass = 0;
    memcpy(buffer, squeezed->room, size);
    item->length = (uint32_t)size;
}

/* ---- as a source ---- */

static enum source_result squeezed_next(void *context, uint8_t *buffer, struct source_item *out)
{
    struct squeezed_source *squeezed = context;
    if (squeezed->has_said) {
        *out = squeezed->end;
        return SOURCE_END;
    }
    enum source_result result = squeezed->ops->next(squeezed->source, buffer, out);
    if (result == SOURCE_BLOCK)
        squeeze_item(squeezed, buffer, out);
    if (result != SOURCE_END || squeezed->allowed)
        return result;
    squeezed->has_said = true;
    squeezed->end = *out;
    error_set(&out->error, ERROR_USAGE, "nothing was compressed: the %s end was built without zstd",
              squeezed->squeezer == NULL ? "sending" : "receiving");
    return SOURCE_NOTE;
}

static bool squeezed_answer(void *context, uint32_t block, const uint8_t *bytes, size_t size,
                            struct error *error)
{
    struct squeezed_source *squeezed = context;
    return squeezed->ops->answer(squeezed->source, block, bytes, size, error);
}

static bool squeezed_hashes(void *context, const struct hash_piece *piece, struct error *error)
{
    struct squeezed_source *squeezed = context;
    return squeezed->ops->hashes(squeezed->source, piece, error);
}

static bool squeezed_list(void *context, const uint8_t *bytes, size_t size, struct error *error)
{
    struct squeezed_source *squeezed = context;
    return squeezed->ops->list(squeezed->source, bytes, size, error);
}

static void squeezed_failed(void *context, const char *path)
{
    struct squeezed_source *squeezed = context;
    squeezed->ops->failed(squeezed->source, path);
}

static bool squeezed_remove(void *context, source_removal *removal, void *removal_context,
                            struct error *error)
{
    struct squeezed_source *squeezed = context;
    return squeezed->ops->remove(squeezed->source, removal, removal_context, error);
}

/* Behind the bits of the names stands what the other end can read. */
static void squeezed_set_existing(void *context, const uint8_t *bitmap, size_t size)
{
    struct squeezed_source *squeezed = context;
    size_t names = squeezed->ops->names(squeezed->source)->name_count;
    size_t bits = (names + 7) / 8;
    squeezed->allowed =
        squeezed->squeezer != NULL && size > bits && (bitmap[bits] & SQUEEZED_IS_READ) != 0;
    squeezed->ops->set_existing(squeezed->source, bitmap, size < bits ? size : bits);
}

static void squeezed_path_rate(void *context, uint64_t path_bps)
{
    struct squeezed_source *squeezed = context;
    squeezed->path_bps = (double)path_bps;
}

static const struct transfer_request *squeezed_names(void *context)
{
    struct squeezed_source *squeezed = context;
    return squeezed->ops->names(squeezed->source);
}

static void squeezed_close(void *context)
{
    struct squeezed_source *squeezed = context;
    squeezed->ops->close(squeezed->source);
    squeezer_free(squeezed->squeezer);
    free(squeezed->room);
    free(squeezed);
}

const struct source_ops squeezed_source_ops = {
    .next = squeezed_next,
    .answer = squeezed_answer,
    .hashes = squeezed_hashes,
    .list = squeezed_list,
    .failed = squeezed_failed,
    .remove = squeezed_remove,
    .set_existing = squeezed_set_existing,
    .path_rate = squeezed_path_rate,
    .names = squeezed_names,
    .close = squeezed_close,
};

struct squeezed_source *squeezed_source_new(void *source, const struct source_ops *ops,
                                            unsigned level)
{
    struct squeezed_source *squeezed = calloc(1, sizeof *squeezed);
    if (squeezed == NULL)
        return NULL;
    *squeezed = (struct squeezed_source){.source = source,
                                         .ops = ops,
                                         .level = level,
                                         .squeezer = squeezer_new(),
                                         .room = malloc(BLOCK_SIZE)};
    bool whole = squeezed->squeezer != NULL || !squeeze_is_possible();
    if (whole && squeezed->room != NULL)
        return squeezed;
    squeezer_free(squeezed->squeezer);
    free(squeezed->room);
    free(squeezed);
    return NULL;
}
