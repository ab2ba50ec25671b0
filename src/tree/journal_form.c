#include "tree/journal_form.h"

#include <string.h>

#include "base/block.h"
#include "base/cursor.h"
#include "crypto/tree_hash.h"

#define CHECK_SIZE 8u

static const uint8_t magic[8] = {'p', 't', 'r', 'l', 'j', 'n', 'l', '\n'};

_Static_assert(sizeof magic + 4 + 4 + 8 + JOURNAL_IDENTITY_SIZE + CHECK_SIZE == JOURNAL_HEADER_SIZE,
               "the header is full");
_Static_assert(JOURNAL_HASH_SIZE + CHECK_SIZE == JOURNAL_RECORD_SIZE, "so is a record");
_Static_assert(JOURNAL_HASH_SIZE == TREE_HASH_SIZE, "one size of hash");

static void check_of(const uint8_t *bytes, size_t size, uint8_t check[CHECK_SIZE])
{
    uint8_t hash[TREE_HASH_SIZE];
    tree_hash_whole(bytes, size, hash);
    memcpy(check, hash, CHECK_SIZE);
}

void journal_header_write(const struct journal_header *header, uint8_t bytes[JOURNAL_HEADER_SIZE])
{
    struct writer writer = writer_of(bytes, JOURNAL_HEADER_SIZE);
    uint8_t check[CHECK_SIZE];
    write_bytes(&writer, magic, sizeof magic);
    write_u32(&writer, JOURNAL_VERSION);
    write_u32(&writer, BLOCK_SIZE);
    write_u64(&writer, header->file_size);
    write_bytes(&writer, header->identity, sizeof header->identity);
    check_of(bytes, writer_size(&writer), check);
    write_bytes(&writer, check, sizeof check);
}

enum journal_parse journal_header_read(struct journal_header *header, const uint8_t *bytes,
                                       size_t size)
{
    struct reader reader = reader_of(bytes, size);
    uint8_t check[CHECK_SIZE];
    const uint8_t *found = read_bytes(&reader, sizeof magic);
    uint32_t version = read_u32(&reader);
    if (reader.failed || memcmp(found, magic, sizeof magic) != 0 || version < JOURNAL_VERSION)
        return JOURNAL_CORRUPT;
    if (version > JOURNAL_VERSION)
        return JOURNAL_NEWER;
    uint32_t block_size = read_u32(&reader);
    uint64_t file_size = read_u64(&reader);
    const uint8_t *identity = read_bytes(&reader, JOURNAL_IDENTITY_SIZE);
    const uint8_t *said = read_bytes(&reader, CHECK_SIZE);
    if (reader.failed || block_size != BLOCK_SIZE)
        return JOURNAL_CORRUPT;
    check_of(bytes, JOURNAL_HEADER_SIZE - CHECK_SIZE, check);
    if (memcmp(check, said, sizeof check) != 0)
        return JOURNAL_CORRUPT;
    if (memcmp(identity, header->identity, sizeof header->identity) != 0)
        return JOURNAL_OTHER;
    header->file_size = file_size;
    return JOURNAL_GOOD;
}

static void record_check(const uint8_t identity[JOURNAL_IDENTITY_SIZE], uint64_t index,
                         const uint8_t hash[JOURNAL_HASH_SIZE], uint8_t check[CHECK_SIZE])
{
    uint8_t bytes[JOURNAL_IDENTITY_SIZE + 8 + JOURNAL_HASH_SIZE];
    struct writer writer = writer_of(bytes, sizeof bytes);
    write_bytes(&writer, identity, JOURNAL_IDENTITY_SIZE);
    write_u64(&writer, index);
    write_bytes(&writer, hash, JOURNAL_HASH_SIZE);
    check_of(bytes, sizeof bytes, check);
}

void journal_record_write(const uint8_t identity[JOURNAL_IDENTITY_SIZE], uint64_t index,
                          const uint8_t hash[JOURNAL_HASH_SIZE], uint8_t bytes[JOURNAL_RECORD_SIZE])
{
    memcpy(bytes, hash, JOURNAL_HASH_SIZE);
    record_check(identity, index, hash, bytes + JOURNAL_HASH_SIZE);
}

bool journal_record_read(const uint8_t identity[JOURNAL_IDENTITY_SIZE], uint64_t index,
                         const uint8_t bytes[JOURNAL_RECORD_SIZE], uint8_t hash[JOURNAL_HASH_SIZE])
{
    uint8_t check[CHECK_SIZE];
    record_check(identity, index, bytes, check);
    if (memcmp(check, bytes + JOURNAL_HASH_SIZE, CHECK_SIZE) != 0)
        return false;
    memcpy(hash, bytes, JOURNAL_HASH_SIZE);
    return true;
}

uint64_t journal_record_place(uint64_t index)
{
    return JOURNAL_HEADER_SIZE + index * JOURNAL_RECORD_SIZE;
}
