#include "tree/pack.h"

#include <string.h>

#include "base/block.h"

#define MODE_BITS 07777u
#define NANOSECONDS 1000000000u
#define KIND_HAS_EXTRA 0x80u

uint64_t pack_block_count(uint64_t size)
{
    return size / BLOCK_SIZE + (size % BLOCK_SIZE != 0);
}

bool pack_path_valid(const char *path, size_t size)
{
    if (size > PACK_PATH_MAX)
        return false;
    size_t start = 0;
    for (size_t i = 0; i <= size && size > 0; i++) {
        if (i < size && path[i] == '\0')
            return false;
        if (i < size && path[i] != '/')
            continue;
        size_t length = i - start;
        bool dots = (length == 1 && path[start] == '.') ||
                    (length == 2 && path[start] == '.' && path[start + 1] == '.');
        if (length == 0 || dots)
            return false;
        start = i + 1;
    }
    return true;
}

static uint64_t zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}

static int64_t zagzig(uint64_t value)
{
    return (int64_t)((value >> 1) ^ (0 - (value & 1)));
}

/* ---- writing ---- */

void pack_start(struct pack_writer *pack, uint8_t *buffer, size_t capacity, enum pack_form form)
{
    pack->writer = writer_of(buffer, capacity);
    pack->form = form;
    pack->count = 0;
    pack->previous_size = 0;
    pack->file_start = NULL;
    pack->file_hash = NULL;
    write_u8(&pack->writer, (uint8_t)form);
}

size_t pack_size(const struct pack_writer *pack)
{
    return writer_size(&pack->writer);
}

static size_t shared_bytes(const struct pack_writer *pack, const struct entry *entry)
{
    size_t limit = pack->previous_size < entry->path_size ? pack->previous_size : entry->path_size;
    size_t shared = 0;
    while (shared < limit && pack->previous[shared] == entry->path[shared])
        shared++;
    return shared;
}

static void write_head(struct pack_writer *pack, const struct entry *entry)
{
    struct writer *writer = &pack->writer;
    size_t shared = shared_bytes(pack, entry);
    write_u8(writer, (uint8_t)(entry->kind | (entry->extra_size > 0 ? KIND_HAS_EXTRA : 0)));
    write_varint(writer, entry->name);
    write_varint(writer, shared);
    write_sized(writer, entry->path + shared, entry->path_size - shared);
    write_varint(writer, entry->mode & MODE_BITS);
    write_varint(writer, zigzag(entry->mtime_s));
    write_varint(writer, entry->mtime_ns);
    if (entry->extra_size > 0)
        write_sized(writer, entry->extra, entry->extra_size);
}

/* What follows the head, without a small file's hash and bytes. */
static void write_tail(struct pack_writer *pack, const struct entry *entry)
{
    struct writer *writer = &pack->writer;
    if (entry->kind == ENTRY_HARD_LINK)
        write_varint(writer, entry->target_name);
    if (entry->kind == ENTRY_LINK || entry->kind == ENTRY_HARD_LINK)
        write_sized(writer, entry->target, entry->target_size);
    if (entry->kind == ENTRY_SPECIAL) {
        write_u8(writer, (uint8_t)entry->special);
        write_varint(writer, entry->device_major);
        write_varint(writer, entry->device_minor);
    }
    if (entry->kind == ENTRY_FILE || entry->kind == ENTRY_LARGE || entry->kind == ENTRY_SAME)
        write_varint(writer, entry->size);
    if (entry->kind == ENTRY_SAME)
        write_bytes(writer, entry->hash, PACK_HASH_SIZE);
    if (entry->kind == ENTRY_LARGE && pack->form == PACK_DELIVERY) {
        write_varint(writer, entry->id);
        write_varint(writer, entry->first_block);
    }
}

/* Undoes a half-written entry. */
static void roll_back(struct pack_writer *pack, uint8_t *start)
{
    pack->writer.at = start;
    pack->writer.failed = false;
}

static void keep_entry(struct pack_writer *pack, const struct entry *entry)
{
    memcpy(pack->previous, entry->path, entry->path_size);
    pack->previous_size = entry->path_size;
    pack->count++;
}

bool pack_add(struct pack_writer *pack, const struct entry *entry)
{
    uint8_t *start = pack->writer.at;
    if (entry->path_size > PACK_PATH_MAX)
        return false;
    write_head(pack, entry);
    write_tail(pack, entry);
    if (entry->kind == ENTRY_FILE && pack->form == PACK_DELIVERY) {
        write_bytes(&pack->writer, entry->hash, PACK_HASH_SIZE);
        write_bytes(&pack->writer, entry->bytes, (size_t)entry->size);
    }
    if (pack->writer.failed) {
        roll_back(pack, start);
        return false;
    }
    keep_entry(pack, entry);
    return true;
}

uint8_t *pack_begin_file(struct pack_writer *pack, const struct entry *entry)
{
    uint8_t *start = pack->writer.at;
    if (entry->path_size > PACK_PATH_MAX)
        return NULL;
    write_head(pack, entry);
    write_tail(pack, entry);
    if (pack->writer.failed || writer_left(&pack->writer) < PACK_HASH_SIZE + entry->size) {
        roll_back(pack, start);
        return NULL;
    }
    pack->file_start = start;
    pack->file_hash = pack->writer.at;
    return pack->writer.at + PACK_HASH_SIZE;
}

void pack_end_file(struct pack_writer *pack, const struct entry *entry,
                   const uint8_t hash[PACK_HASH_SIZE])
{
    memcpy(pack->file_hash, hash, PACK_HASH_SIZE);
    pack->writer.at = pack->file_hash + PACK_HASH_SIZE + (size_t)entry->size;
    pack->file_start = NULL;
    keep_entry(pack, entry);
}

void pack_cancel_file(struct pack_writer *pack)
{
    roll_back(pack, pack->file_start);
    pack->file_start = NULL;
}

/* ---- reading ---- */

bool pack_open(struct pack_reader *pack, const uint8_t *bytes, size_t size, uint64_t name_count,
               struct error *error)
{
    pack->reader = reader_of(bytes, size);
    pack->name_count = name_count;
    pack->count = 0;
    pack->path_size = 0;
    pack->path[0] = '\0';
    uint8_t form = read_u8(&pack->reader);
    if (pack->reader.failed || size > BLOCK_SIZE || (form != PACK_OFFER && form != PACK_DELIVERY))
        return error_set(error, ERROR_PROTOCOL, "a packed block has no known form");
    pack->form = (enum pack_form)form;
    return true;
}

static enum pack_result invalid(const struct pack_reader *pack, struct error *error,
                                const char *what)
{
    error_set(error, ERROR_PROTOCOL, "entry %u of a packed block %s", (unsigned)pack->count, what);
    return PACK_INVALID;
}

/* Rebuilds the path from what it shares with the one before. */
static bool read_path(struct pack_reader *pack)
{
    struct reader *reader = &pack->reader;
    uint64_t shared = read_varint(reader);
    size_t rest_size = 0;
    const uint8_t *rest = read_sized(reader, PACK_PATH_MAX, &rest_size);
    if (rest == NULL || shared > pack->path_size || rest_size > PACK_PATH_MAX - shared)
        return false;
    memcpy(pack->path + shared, rest, rest_size);
    pack->path_size = (size_t)shared + rest_size;
    pack->path[pack->path_size] = '\0';
    return pack_path_valid(pack->path, pack->path_size);
}

static bool read_file(struct pack_reader *pack, struct entry *entry)
{
    struct reader *reader = &pack->reader;
    entry->size = read_varint(reader);
    if (reader->failed || entry->size > PACK_FILE_MAX)
        return false;
    if (pack->form == PACK_OFFER)
        return entry->kind == ENTRY_FILE;
    entry->hash = read_bytes(reader, PACK_HASH_SIZE);
    if (entry->kind == ENTRY_SAME)
        return !reader->failed;
    entry->bytes = read_bytes(reader, (size_t)entry->size);
    return !reader->failed;
}

static bool read_link(struct pack_reader *pack, struct entry *entry)
{
    const uint8_t *target = read_sized(&pack->reader, PACK_PATH_MAX, &entry->target_size);
    if (target == NULL || entry->target_size == 0 || memchr(target, 0, entry->target_size) != NULL)
        return false;
    entry->target = (const char *)target;
    return true;
}

static bool read_special(struct reader *reader, struct entry *entry)
{
    uint8_t special = read_u8(reader);
    uint64_t major = read_varint(reader), minor = read_varint(reader);
    if (reader->failed || special < SPECIAL_PIPE || special > SPECIAL_BLOCK || major > UINT32_MAX ||
        minor > UINT32_MAX)
        return false;
    entry->special = (enum special_kind)special;
    entry->device_major = (uint32_t)major;
    entry->device_minor = (uint32_t)minor;
    return true;
}

/* A path like any other, but for "": the name itself. */
static bool read_hard_link(struct pack_reader *pack, struct entry *entry)
{
    uint64_t name = read_varint(&pack->reader);
    const uint8_t *target = read_sized(&pack->reader, PACK_PATH_MAX, &entry->target_size);
    if (target == NULL || name >= pack->name_count || pack->form == PACK_OFFER ||
        !pack_path_valid((const char *)target, entry->target_size))
        return false;
    entry->target_name = (uint32_t)name;
    entry->target = (const char *)target;
    return true;
}

static bool read_large(struct pack_reader *pack, struct entry *entry)
{
    struct reader *reader = &pack->reader;
    entry->size = read_varint(reader);
    uint64_t blocks = pack_block_count(entry->size);
    if (reader->failed || blocks > BLOCK_NUMBER_LIMIT)
        return false;
    if (pack->form == PACK_OFFER)
        return entry->size > 0;
    entry->id = read_varint(reader);
    uint64_t first = read_varint(reader);
    if (reader->failed || first > BLOCK_NUMBER_LIMIT - blocks)
        return false;
    entry->first_block = (uint32_t)first;
    return true;
}

static bool read_extra(struct reader *reader, struct entry *entry)
{
    entry->extra = read_sized(reader, ATTRIBUTES_MAX, &entry->extra_size);
    return entry->extra != NULL && entry->extra_size > 0 &&
           attributes_valid(entry->extra, entry->extra_size);
}

enum pack_result pack_next(struct pack_reader *pack, struct entry *entry, struct error *error)
{
    struct reader *reader = &pack->reader;
    if (reader_left(reader) == 0)
        return PACK_END;
    memset(entry, 0, sizeof *entry);
    uint8_t first = read_u8(reader), kind = first & (uint8_t)~KIND_HAS_EXTRA;
    uint64_t name = read_varint(reader);
    if (kind < ENTRY_DIRECTORY || kind >= ENTRY_KIND_COUNT)
        return invalid(pack, error, "has an unknown kind");
    if (!read_path(pack))
        return invalid(pack, error, "has a path that is not allowed");
    uint64_t mode = read_varint(reader);
    entry->mtime_s = zagzig(read_varint(reader));
    uint64_t nanoseconds = read_varint(reader);
    if ((first & KIND_HAS_EXTRA) != 0 && !read_extra(reader, entry))
        return invalid(pack, error, "has attributes that are not allowed");
    if (reader->failed || mode > MODE_BITS || nanoseconds >= NANOSECONDS)
        return invalid(pack, error, "has a mode or a time that is not allowed");
    if (name >= pack->name_count) {
        error_set(error, ERROR_REFUSED, "the peer sent a top-level name that was not agreed on");
        return PACK_INVALID;
    }
    entry->kind = (enum entry_kind)kind;
    entry->name = (uint32_t)name;
    entry->path = pack->path;
    entry->path_size = pack->path_size;
    entry->mode = (uint32_t)mode;
    entry->mtime_ns = (uint32_t)nanoseconds;
    bool valid = true;
    if (kind == ENTRY_FILE || kind == ENTRY_SAME)
        valid = read_file(pack, entry);
    else if (kind == ENTRY_LINK)
        valid = read_link(pack, entry);
    else if (kind == ENTRY_SPECIAL)
        valid = read_special(reader, entry);
    else if (kind == ENTRY_HARD_LINK)
        valid = read_hard_link(pack, entry);
    else if (kind == ENTRY_LARGE)
        valid = read_large(pack, entry);
    if (!valid)
        return invalid(pack, error, "contradicts itself or its block");
    pack->count++;
    return PACK_ENTRY;
}
