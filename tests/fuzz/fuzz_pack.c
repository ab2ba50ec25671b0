/* Packed blocks: what is read lies within and is allowed, and written again it reads the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/block.h"
#include "tree/pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check(const struct entry *entry, const uint8_t *data, size_t size, enum pack_form form)
{
    const uint8_t *end = data + size;
    require(pack_path_valid(entry->path, entry->path_size));
    require(entry->extra_size == 0 || attributes_valid(entry->extra, entry->extra_size));
    require(entry->path[entry->path_size] == '\0' && entry->name < 3);
    if (entry->kind == ENTRY_LINK)
        require((const uint8_t *)entry->target + entry->target_size <= end);
    if (entry->kind == ENTRY_FILE && form == PACK_DELIVERY)
        require(entry->bytes + entry->size <= end && entry->size <= PACK_FILE_MAX);
    if (entry->kind == ENTRY_LARGE)
        require(entry->first_block + pack_block_count(entry->size) <= BLOCK_NUMBER_LIMIT);
}

static bool same(const struct entry *a, const struct entry *b)
{
    return a->kind == b->kind && a->name == b->name && a->path_size == b->path_size &&
           memcmp(a->path, b->path, a->path_size) == 0 && a->mode == b->mode &&
           a->mtime_s == b->mtime_s && a->mtime_ns == b->mtime_ns && a->size == b->size &&
           a->id == b->id && a->first_block == b->first_block && a->target_size == b->target_size &&
           a->extra_size == b->extra_size &&
           (a->extra_size == 0 || memcmp(a->extra, b->extra, a->extra_size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pack_reader reader, again;
    static struct pack_writer writer;
    struct error error = {0};
    if (!pack_open(&reader, data, size, 3, &error)) {
        require(error.kind == ERROR_PROTOCOL);
        return 0;
    }
    /* A writer shares as much of each path as it can, so it never needs more room. */
    uint8_t *copy = malloc(size + 1);
    require(copy != NULL);
    pack_start(&writer, copy, size, reader.form);
    struct entry entry;
    enum pack_result result;
    while ((result = pack_next(&reader, &entry, &error)) == PACK_ENTRY) {
        check(&entry, data, size, reader.form);
        require(pack_add(&writer, &entry));
    }
    require((result == PACK_INVALID) == (error.kind != ERROR_NONE));
    require(pack_open(&reader, data, size, 3, NULL));
    require(pack_open(&again, copy, pack_size(&writer), 3, NULL));
    struct entry second;
    while (pack_next(&again, &second, NULL) == PACK_ENTRY)
        require(pack_next(&reader, &entry, NULL) == PACK_ENTRY && same(&entry, &second));
    require(again.count == writer.count);
    free(copy);
    return 0;
}
