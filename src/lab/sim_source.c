/* The simulated source: offers what may exist, delivers the rest, in the order of the files. */
#include <stdlib.h>
#include <string.h>

#include "crypto/tree_hash.h"
#include "lab/sim_told.h"
#include "tree/pack.h"

#define OFFERS_MAX 4u /* unanswered */
#define LARGE_AHEAD_DEFAULT 64u

enum file_state { FILE_UNDECIDED, FILE_OFFERED, FILE_TO_SEND, FILE_TO_COMPARE, FILE_SKIPPED };

struct offer {
    uint32_t block, first, count;
};

/* Where the entries of an answered offer are: hashes speak of them. */
#define ANSWERED_MAX 64u

struct large {
    uint32_t file, first, entry_block;
    uint64_t id;
};

struct sim_source {
    struct sim_source_config config;
    uint8_t *states;
    bool started, closed, exists;
    uint32_t offered, delivered; /* files before these are past that stage */
    struct offer offers[OFFERS_MAX];
    unsigned offer_count;
    struct offer answered[ANSWERED_MAX];
    unsigned answered_count;
    struct sim_listener *listener;
    struct large *large; /* entries given whose content is not */
    unsigned large_first, large_count;
    uint64_t block_at;  /* of large[large_first] */
    bool complete_next; /* large[large_first] is read: its hash is due */
    struct tree_hash *hash;
    uint32_t next_block;
    uint64_t next_id, blocks, files;
    uint64_t bytes, total_bytes;
    uint8_t *small; /* PACK_FILE_MAX bytes */
    bool root_given, problem_said;
    uint32_t directories_given;
};

struct sim_source *sim_source_new(const struct sim_source_config *config)
{
    struct sim_source *source = calloc(1, sizeof *source);
    if (source == NULL)
        return NULL;
    source->config = *config;
    if (source->config.pack_capacity == 0)
        source->config.pack_capacity = BLOCK_SIZE;
    if (source->config.large_ahead == 0)
        source->config.large_ahead = LARGE_AHEAD_DEFAULT;
    source->states = calloc(config->files.count + 1, 1);
    source->large = calloc(source->config.large_ahead, sizeof *source->large);
    source->small = malloc(PACK_FILE_MAX);
    source->listener = sim_listener_new();
    for (uint32_t i = 0; i < config->files.count; i++)
        source->total_bytes += config->files.sizes[i];
    if (source->states != NULL && source->large != NULL && source->small != NULL &&
        source->listener != NULL)
        return source;
    sim_source_free(source);
    return NULL;
}

void sim_source_free(struct sim_source *source)
{
    if (source == NULL)
        return;
    tree_hash_free(source->hash);
    sim_listener_free(source->listener);
    free(source->states);
    free(source->large);
    free(source->small);
    free(source);
}

bool sim_source_is_closed(const struct sim_source *source)
{
    return source->closed;
}

uint64_t sim_source_bytes(const struct sim_source *source)
{
    return source->bytes;
}

static void describe(const struct sim_source *source, uint32_t file, char *path,
                     struct entry *entry)
{
    sim_file_path(file, path);
    uint64_t size = source->config.files.sizes[file];
    *entry = (struct entry){.kind = size > PACK_FILE_MAX ? ENTRY_LARGE : ENTRY_FILE,
                            .path = path,
                            .path_size = strlen(path),
                            .mode = 0644,
                            .mtime_s = 1700000000 + (int64_t)file,
                            .size = size};
}

static enum source_result give_packed(struct sim_source *source, const struct pack_writer *pack,
                                      struct source_item *item)
{
    item->block = source->next_block++;
    item->packed = true;
    item->length = (uint32_t)pack_size(pack);
    source->blocks++;
    return SOURCE_BLOCK;
}

static enum source_result give_offers(struct sim_source *source, uint8_t *buffer,
                                      struct source_item *item)
{
    struct pack_writer pack;
    struct offer offer = {.first = source->offered};
    pack_start(&pack, buffer, source->config.pack_capacity, PACK_OFFER);
    while (source->offered < source->config.files.count) {
        char path[SIM_PATH_SIZE];
        struct entry entry;
        describe(source, source->offered, path, &entry);
        if (!pack_add(&pack, &entry))
            break;
        source->states[source->offered++] = FILE_OFFERED;
        offer.count++;
    }
    enum source_result result = give_packed(source, &pack, item);
    offer.block = item->block;
    source->offers[source->offer_count++] = offer;
    return result;
}

/* ---- content ---- */

static enum source_result give_complete(struct sim_source *source, struct source_item *item)
{
    struct large *large = &source->large[source->large_first];
    item->file_id = large->id;
    item->size = source->config.files.sizes[large->file];
    item->has_entry_block = source->config.tell_entry_block;
    item->entry_block = large->entry_block;
    bool withdrawn = large->file == source->config.withdrawn;
    if (withdrawn)
        error_set(&item->error, ERROR_CHANGED, "file %u changed while it was read", large->file);
    else if (!tree_hash_result(source->hash, item->hash))
        error_set(&item->error, ERROR_MEMORY, "file %u has no hash", large->file);
    tree_hash_free(source->hash);
    source->hash = NULL;
    source->complete_next = false;
    source->block_at = 0;
    source->large_first = (source->large_first + 1) % source->config.large_ahead;
    source->large_count--;
    return item->error.kind == ERROR_NONE ? SOURCE_COMPLETE : SOURCE_WITHDRAW;
}

static enum source_result give_content(struct sim_source *source, uint8_t *buffer,
                                       struct source_item *item)
{
    const struct large *large = &source->large[source->large_first];
    uint64_t size = source->config.files.sizes[large->file];
    uint64_t offset = source->block_at * BLOCK_SIZE;
    uint64_t left = size - offset;
    if (source->hash == NULL)
        source->hash = tree_hash_new(size);
    item->length = left < BLOCK_SIZE ? (uint32_t)left : BLOCK_SIZE;
    sim_files_content(&source->config.files, large->file, offset, buffer, item->length);
    uint8_t value[TREE_HASH_SIZE];
    if (size <= BLOCK_SIZE)
        tree_hash_whole(buffer, item->length, value);
    else
        tree_hash_block(buffer, item->length, source->block_at, value);
    if (source->hash == NULL || !tree_hash_add(source->hash, source->block_at, value)) {
        error_set(&item->error, ERROR_MEMORY, "no memory for a hash");
        return SOURCE_FAILED;
    }
    bool compares = source->states[large->file] == FILE_TO_COMPARE;
    bool same = compares && sim_listener_compare(source->listener, large->file,
                                                 (uint32_t)source->block_at, value);
    source->complete_next = left <= BLOCK_SIZE || large->file == source->config.withdrawn;
    if (same) {
        source->block_at++;
        return SOURCE_AGAIN;
    }
    item->block = large->first + (uint32_t)source->block_at++;
    item->has_entry_block = source->config.tell_entry_block;
    item->entry_block = large->entry_block;
    source->blocks++;
    return SOURCE_BLOCK;
}

/* ---- deliveries ---- */

static bool add_directory(struct pack_writer *pack, const char *path)
{
    struct entry entry = {
        .kind = ENTRY_DIRECTORY, .path = path, .path_size = strlen(path), .mode = 0755};
    return pack_add(pack, &entry);
}

static bool add_directories(struct sim_source *source, struct pack_writer *pack, uint32_t file)
{
    if (!source->root_given && !add_directory(pack, ""))
        return false;
    source->root_given = true;
    if (file / 1000 < source->directories_given)
        return true;
    char path[SIM_PATH_SIZE];
    sim_file_path(file, path);
    *strchr(path, '/') = 0;
    if (!add_directory(pack, path))
        return false;
    source->directories_given = file / 1000 + 1;
    return true;
}

static bool add_file(struct sim_source *source, struct pack_writer *pack, uint32_t file)
{
    char path[SIM_PATH_SIZE];
    struct entry entry;
    describe(source, file, path, &entry);
    uint8_t hash[TREE_HASH_SIZE];
    if (entry.kind == ENTRY_FILE) {
        sim_files_content(&source->config.files, file, 0, source->small, (size_t)entry.size);
        tree_hash_whole(source->small, (size_t)entry.size, hash);
        entry.hash = hash;
        entry.bytes = source->small;
        return pack_add(pack, &entry);
    }
    if (source->large_count == source->config.large_ahead)
        return false;
    entry.id = source->next_id;
    entry.first_block = source->next_block;
    if (!pack_add(pack, &entry))
        return false;
    unsigned place = (source->large_first + source->large_count++) % source->config.large_ahead;
    source->large[place] = (struct large){.file = file,
                                          .first = source->next_block,
                                          .entry_block = UINT32_MAX,
                                          .id = source->next_id++};
    source->next_block += (uint32_t)pack_block_count(entry.size);
    return true;
}

static bool decided(const struct sim_source *source)
{
    return source->delivered < source->config.files.count &&
           (!source->exists || source->states[source->delivered] >= FILE_TO_SEND);
}

static bool wanted(const struct sim_source *source, uint32_t file)
{
    return file != source->config.missing &&
           (!source->exists || source->states[file] == FILE_TO_SEND ||
            source->states[file] == FILE_TO_COMPARE);
}

static enum source_result give_delivery(struct sim_source *source, uint8_t *buffer,
                                        struct source_item *item)
{
    struct pack_writer pack;
    pack_start(&pack, buffer, source->config.pack_capacity, PACK_DELIVERY);
    while (decided(source) && source->delivered != source->config.fails_at) {
        uint32_t file = source->delivered;
        if (wanted(source, file)) {
            if (!add_directories(source, &pack, file) || !add_file(source, &pack, file))
                break;
        }
        source->files += file != source->config.missing ? 1 : 0;
        source->delivered++;
    }
    if (pack.count == 0)
        return SOURCE_WAIT;
    enum source_result result = give_packed(source, &pack, item);
    for (unsigned i = 0; i < source->large_count; i++) {
        unsigned place = (source->large_first + i) % source->config.large_ahead;
        if (source->large[place].entry_block == UINT32_MAX)
            source->large[place].entry_block = item->block;
    }
    return result;
}

static enum source_result give_failure(struct source_item *item)
{
    error_set(&item->error, ERROR_IO, "the simulated disk broke");
    return SOURCE_FAILED;
}

/* Decisions come before what follows them; a block that is not told of yet is waited for. */
static enum source_result give_decision(struct sim_source *source, struct source_item *item)
{
    const struct large *large = &source->large[source->large_first];
    if (source->states[large->file] != FILE_TO_COMPARE)
        return SOURCE_AGAIN;
    if (sim_listener_decided(source->listener, large->file, (uint32_t)source->block_at, item)) {
        item->file_id = large->id;
        item->has_entry_block = source->config.tell_entry_block;
        item->entry_block = large->entry_block;
        return SOURCE_KEEP;
    }
    bool told = source->complete_next ||
                sim_listener_has(source->listener, large->file, (uint32_t)source->block_at);
    return told ? SOURCE_AGAIN : SOURCE_WAIT;
}

static enum source_result next_item(struct sim_source *source, uint8_t *buffer,
                                    struct source_item *item)
{
    if (source->large_count > 0) {
        enum source_result decision = give_decision(source, item);
        if (decision != SOURCE_AGAIN)
            return decision;
    }
    if (source->complete_next)
        return give_complete(source, item);
    if (source->large_count > 0)
        return give_content(source, buffer, item);
    if (source->delivered == source->config.fails_at)
        return give_failure(item);
    if (source->config.missing != SIM_NO_FILE && !source->problem_said) {
        source->problem_said = true;
        item->path = SIM_TOP_NAME "/missing";
        error_set(&item->error, ERROR_PERMISSION, "file %u may not be read",
                  source->config.missing);
        return SOURCE_PROBLEM;
    }
    if (source->exists && source->offered < source->config.files.count &&
        source->offer_count < OFFERS_MAX)
        return give_offers(source, buffer, item);
    if (decided(source)) {
        enum source_result result = give_delivery(source, buffer, item);
        if (result != SOURCE_WAIT)
            return result;
    }
    if (source->delivered < source->config.files.count)
        return source->delivered == source->config.fails_at ? give_failure(item) : SOURCE_WAIT;
    item->blocks = source->blocks;
    item->files = source->files;
    return SOURCE_END;
}

static enum source_result source_next(void *context, uint8_t *buffer, struct source_item *item)
{
    struct sim_source *source = context;
    enum source_result result = next_item(source, buffer, item);
    source->bytes += result == SOURCE_BLOCK ? item->length : 0;
    item->total_files = source->config.files.count;
    item->total_bytes = source->total_bytes;
    item->totals_final = true;
    return result;
}

static bool source_answer(void *context, uint32_t block, const uint8_t *verdicts, size_t count,
                          struct error *error)
{
    struct sim_source *source = context;
    for (unsigned i = 0; i < source->offer_count; i++) {
        struct offer offer = source->offers[i];
        if (offer.block != block)
            continue;
        if (count != offer.count)
            return error_set(error, ERROR_PROTOCOL, "an answer has %u verdicts for %u entries",
                             (unsigned)count, offer.count);
        for (uint32_t k = 0; k < offer.count; k++)
            source->states[offer.first + k] = verdicts[k] == ANSWER_SEND     ? FILE_TO_SEND
                                              : verdicts[k] == ANSWER_HASHES ? FILE_TO_COMPARE
                                                                             : FILE_SKIPPED;
        if (source->answered_count < ANSWERED_MAX)
            source->answered[source->answered_count++] = offer;
        source->offers[i] = source->offers[--source->offer_count];
        return true;
    }
    return error_set(error, ERROR_PROTOCOL, "an answer to block %u, which was not offered", block);
}

static bool source_hashes(void *context, const struct hash_piece *piece, struct error *error)
{
    struct sim_source *source = context;
    for (unsigned i = 0; i < source->answered_count; i++) {
        const struct offer *offer = &source->answered[i];
        if (offer->block == piece->offer && piece->entry < offer->count)
            return sim_listener_take(source->listener, offer->first + piece->entry, piece) ||
                   error_set(error, ERROR_MEMORY, "no memory for hashes");
    }
    return error_set(error, ERROR_PROTOCOL, "hashes of what was not offered");
}

static void source_set_existing(void *context, const uint8_t *bitmap, size_t size)
{
    struct sim_source *source = context;
    source->exists = size > 0 && (bitmap[0] & 1) != 0;
}

static void source_close(void *context)
{
    struct sim_source *source = context;
    source->closed = true;
}

void sim_source_storage(struct sim_source *source, struct storage *storage)
{
    static const struct source_ops ops = {.next = source_next,
                                          .answer = source_answer,
                                          .hashes = source_hashes,
                                          .set_existing = source_set_existing,
                                          .close = source_close};
    *storage = (struct storage){.source = source, .source_ops = &ops};
}
