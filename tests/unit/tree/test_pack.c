/* Packed blocks: what is written reads back, and nothing else is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/block.h"
#include "base/random.h"
#include "tree/pack.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static uint8_t hash_of_test[PACK_HASH_SIZE] = {1, 2, 3};

static struct entry entry_of(enum entry_kind kind, uint32_t name, const char *path)
{
    return (struct entry){.kind = kind,
                          .name = name,
                          .path = path,
                          .path_size = strlen(path),
                          .mode = 07777,
                          .mtime_s = -1234567890123,
                          .mtime_ns = 999999999};
}

static struct entry file_of(uint32_t name, const char *path, const char *text)
{
    struct entry entry = entry_of(ENTRY_FILE, name, path);
    entry.size = strlen(text);
    entry.bytes = (const uint8_t *)text;
    entry.hash = hash_of_test;
    return entry;
}

static struct entry large_of(uint64_t size, uint64_t id, uint32_t first)
{
    struct entry entry = entry_of(ENTRY_LARGE, 0, "l");
    entry.size = size;
    entry.id = id;
    entry.first_block = first;
    return entry;
}

static void fill(struct entry entries[9], enum pack_form form)
{
    entries[0] = entry_of(ENTRY_DIRECTORY, 0, "");
    entries[1] = file_of(0, "a/b/long name", "text");
    entries[2] = file_of(0, "a/b/long", "");
    entries[3] = entry_of(ENTRY_LINK, 1, "a/b/long/er");
    entries[3].target = "../x";
    entries[3].target_size = 4;
    entries[4] = large_of(BLOCK_SIZE + 1, 1u << 20, 77);
    entries[5] = file_of(2, "", "other name");
    entries[6] = entry_of(ENTRY_DIRECTORY, 3, "\n");
    entries[7] = entry_of(ENTRY_SPECIAL, 3, "x");
    entries[7].special = SPECIAL_BLOCK;
    entries[7].device_major = UINT32_MAX;
    entries[7].device_minor = 300;
    entries[8] = large_of(UINT64_C(1) << 40, 1, 2);
    if (form == PACK_OFFER)
        return;
    entries[8] = entry_of(ENTRY_HARD_LINK, 1, "h");
    entries[8].target = "a/b";
    entries[8].target_size = 3;
    entries[8].target_name = 3;
}

static void assert_same(const struct entry *a, const struct entry *b, enum pack_form form)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->name, b->name);
    assert_int_equal(a->path_size, b->path_size);
    assert_memory_equal(a->path, b->path, a->path_size);
    assert_int_equal(b->path[b->path_size], 0);
    assert_int_equal(a->mode, b->mode);
    assert_true(a->mtime_s == b->mtime_s && a->mtime_ns == b->mtime_ns);
    assert_int_equal(a->size, b->size);
    assert_int_equal(a->target_size, b->target_size);
    if (a->target_size > 0)
        assert_memory_equal(a->target, b->target, a->target_size);
    assert_int_equal(a->target_name, b->target_name);
    assert_int_equal(a->special, b->special);
    assert_int_equal(a->device_major, b->device_major);
    assert_int_equal(a->device_minor, b->device_minor);
    if (form == PACK_OFFER)
        return;
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->first_block, b->first_block);
    if (a->kind == ENTRY_FILE) {
        assert_memory_equal(a->hash, b->hash, PACK_HASH_SIZE);
        assert_memory_equal(a->bytes, b->bytes, a->size);
    }
}

static size_t write_all(uint8_t *bytes, size_t capacity, enum pack_form form)
{
    static struct pack_writer writer;
    struct entry entries[9];
    fill(entries, form);
    pack_start(&writer, bytes, capacity, form);
    for (size_t i = 0; i < COUNT(entries); i++)
        assert_true(pack_add(&writer, &entries[i]));
    assert_int_equal(writer.count, COUNT(entries));
    return pack_size(&writer);
}

/* How many entries are read before the end (or INT_MIN for an invalid block). */
static int read_all(const uint8_t *bytes, size_t size, uint64_t names, struct error *error)
{
    static struct pack_reader reader;
    uint8_t *exact = malloc(size + 1); /* sanitizers see what is read beyond */
    memcpy(exact, bytes, size);
    struct entry entry;
    int count = 0;
    enum pack_result result = PACK_INVALID;
    if (pack_open(&reader, exact, size, names, error)) {
        while ((result = pack_next(&reader, &entry, error)) == PACK_ENTRY) {
            assert_true(pack_path_valid(entry.path, entry.path_size));
            assert_true(entry.name < names);
            count++;
        }
    }
    free(exact);
    return result == PACK_END ? count : INT32_MIN;
}

static void test_round_trip(void **state)
{
    (void)state;
    static struct pack_reader reader;
    uint8_t bytes[1024];
    for (int form = PACK_OFFER; form <= PACK_DELIVERY; form++) {
        struct entry entries[9], entry;
        struct error error = {0};
        fill(entries, (enum pack_form)form);
        size_t size = write_all(bytes, sizeof bytes, (enum pack_form)form);
        assert_true(pack_open(&reader, bytes, size, 4, &error));
        for (size_t i = 0; i < COUNT(entries); i++) {
            assert_int_equal(pack_next(&reader, &entry, &error), PACK_ENTRY);
            assert_same(&entries[i], &entry, (enum pack_form)form);
        }
        assert_int_equal(pack_next(&reader, &entry, &error), PACK_END);
    }
}

static void test_full(void **state)
{
    (void)state;
    static struct pack_writer writer;
    uint8_t bytes[1024], short_bytes[1024];
    size_t whole = write_all(bytes, sizeof bytes, PACK_DELIVERY);
    struct entry entries[9];
    fill(entries, PACK_DELIVERY);
    for (size_t capacity = 1; capacity < whole; capacity++) {
        memset(short_bytes, 0xee, sizeof short_bytes);
        pack_start(&writer, short_bytes, capacity, PACK_DELIVERY);
        size_t added = 0;
        while (added < COUNT(entries) && pack_add(&writer, &entries[added]))
            added++;
        assert_true(added < COUNT(entries));
        assert_int_equal(short_bytes[capacity], 0xee);
        struct error error = {0};
        assert_int_equal(read_all(short_bytes, pack_size(&writer), 4, &error), added);
    }
}

static void test_file_in_place(void **state)
{
    (void)state;
    static struct pack_writer writer;
    uint8_t bytes[256];
    struct error error = {0};
    pack_start(&writer, bytes, sizeof bytes, PACK_DELIVERY);
    struct entry entry = file_of(0, "x", "");
    entry.size = 100;
    size_t before = pack_size(&writer);
    uint8_t *place = pack_begin_file(&writer, &entry);
    assert_non_null(place);
    pack_cancel_file(&writer);
    assert_int_equal(pack_size(&writer), before);
    place = pack_begin_file(&writer, &entry);
    memset(place, 'q', 100);
    pack_end_file(&writer, &entry, hash_of_test);
    entry.size = 200;
    assert_null(pack_begin_file(&writer, &entry));
    assert_int_equal(read_all(bytes, pack_size(&writer), 1, &error), 1);
}

/* Every cut is refused or ends between two entries, every changed byte is refused or reads as
 * something that is allowed. */
static void test_damage(void **state)
{
    (void)state;
    for (int form = PACK_OFFER; form <= PACK_DELIVERY; form++) {
        uint8_t bytes[1024];
        size_t size = write_all(bytes, sizeof bytes, (enum pack_form)form);
        int whole = 0;
        for (size_t cut = 0; cut < size; cut++) {
            struct error error = {0};
            int count = read_all(bytes, cut, 4, &error);
            assert_true(count < 9);
            whole += count >= 0;
            assert_true((count < 0) == (error.kind != ERROR_NONE));
        }
        assert_int_equal(whole, 9); /* the bare form, and after each entry but the last */
        for (size_t i = 0; i < size; i++) {
            for (unsigned bit = 0; bit < 8; bit++) {
                struct error error = {0};
                bytes[i] ^= (uint8_t)(1u << bit);
                read_all(bytes, size, 4, &error);
                bytes[i] ^= (uint8_t)(1u << bit);
            }
        }
    }
}

static bool block_allowed(const struct entry *entry, uint64_t names)
{
    static struct pack_writer writer;
    static uint8_t bytes[BLOCK_SIZE];
    struct error error = {0};
    pack_start(&writer, bytes, sizeof bytes, PACK_DELIVERY);
    assert_true(pack_add(&writer, entry));
    int count = read_all(bytes, pack_size(&writer), names, &error);
    assert_true(count == 1 || error.kind == ERROR_PROTOCOL || error.kind == ERROR_REFUSED);
    return count == 1;
}

static void test_paths(void **state)
{
    (void)state;
    static const char *const good[] = {"", "a", "a/b", "...", ".a", "a..", "..a/b", " ", "-", "\n"};
    static const char *const bad[] = {"/",    "/a",   "a/",  "a//b",   ".",     "..", "a/.",
                                      "a/..", "../a", "./a", "a/../b", "a/./b", "//"};
    for (size_t i = 0; i < COUNT(good); i++) {
        struct entry entry = entry_of(ENTRY_DIRECTORY, 0, good[i]);
        assert_true(block_allowed(&entry, 1));
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct entry entry = entry_of(ENTRY_DIRECTORY, 0, bad[i]);
        assert_false(block_allowed(&entry, 1));
    }
    struct entry entry = entry_of(ENTRY_DIRECTORY, 0, "a");
    entry.path = "a\0b";
    entry.path_size = 3;
    assert_false(block_allowed(&entry, 1));
    static char longest[PACK_PATH_MAX + 1];
    memset(longest, 'p', sizeof longest);
    entry.path = longest;
    entry.path_size = PACK_PATH_MAX;
    assert_true(block_allowed(&entry, 1));
    assert_false(pack_path_valid(longest, PACK_PATH_MAX + 1));
    static struct pack_writer writer;
    static uint8_t bytes[BLOCK_SIZE];
    entry.path_size = PACK_PATH_MAX + 1;
    pack_start(&writer, bytes, sizeof bytes, PACK_DELIVERY);
    assert_false(pack_add(&writer, &entry));
}

static void test_limits(void **state)
{
    (void)state;
    static char bytes[PACK_FILE_MAX + 2];
    memset(bytes, 'b', PACK_FILE_MAX + 1);
    struct entry entry = file_of(0, "f", bytes);
    assert_false(block_allowed(&entry, 1));
    entry.size = PACK_FILE_MAX;
    assert_true(block_allowed(&entry, 1));
    assert_false(block_allowed(&entry, 0)); /* no such name */
    entry.name = 1;
    assert_false(block_allowed(&entry, 1));
    struct entry odd = entry_of(ENTRY_DIRECTORY, 0, "x");
    odd.mtime_ns = 1000000000;
    assert_false(block_allowed(&odd, 1));
    odd = entry_of(ENTRY_KIND_COUNT, 0, "x");
    assert_false(block_allowed(&odd, 1));
    for (int kind = 0; kind <= SPECIAL_BLOCK + 1; kind++) {
        odd = entry_of(ENTRY_SPECIAL, 0, "x");
        odd.special = (enum special_kind)kind;
        assert_int_equal(block_allowed(&odd, 1), kind >= SPECIAL_PIPE && kind <= SPECIAL_BLOCK);
    }
    odd = entry_of(ENTRY_LINK, 0, "x");
    odd.target = "";
    assert_false(block_allowed(&odd, 1));
    odd.target = "a\0b";
    odd.target_size = 3;
    assert_false(block_allowed(&odd, 1));
    static const struct {
        uint64_t size;
        uint32_t first;
        bool allowed;
    } large[] = {{0, 0, true}, /* not known yet */
                 {0, BLOCK_NUMBER_LIMIT, true},
                 {0, BLOCK_NUMBER_LIMIT + 1, false},
                 {1, 0, true},
                 {BLOCK_SIZE, BLOCK_NUMBER_LIMIT - 1, true},
                 {BLOCK_SIZE + 1, BLOCK_NUMBER_LIMIT - 1, false},
                 {1, BLOCK_NUMBER_LIMIT, false},
                 {(uint64_t)BLOCK_SIZE * BLOCK_NUMBER_LIMIT, 0, true},
                 {(uint64_t)BLOCK_SIZE * BLOCK_NUMBER_LIMIT + 1, 0, false},
                 {UINT64_MAX, 0, false}};
    for (size_t i = 0; i < COUNT(large); i++) {
        entry = large_of(large[i].size, UINT64_MAX, large[i].first);
        assert_int_equal(block_allowed(&entry, 1), large[i].allowed);
    }
}

/* Another name of a file: of names that there are, at a path like any other, and in no offer. */
static void test_hard_links(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        size_t size;
        uint32_t name;
        bool allowed;
    } links[] = {{"a/b", 3, 1, true},   {"", 0, 1, true},      {"a/b", 3, 2, false},
                 {"../a", 4, 0, false}, {"/a", 2, 0, false},   {"a/", 2, 0, false},
                 {"a\0b", 3, 0, false}, {"a//b", 4, 0, false}, {"a/./b", 5, 0, false}};
    for (size_t i = 0; i < COUNT(links); i++) {
        struct entry link = entry_of(ENTRY_HARD_LINK, 0, "x");
        link.target = links[i].target;
        link.target_size = links[i].size;
        link.target_name = links[i].name;
        assert_int_equal(block_allowed(&link, 2), links[i].allowed);
    }
    static const uint8_t offered[] = {1, 7, 0, 0, 1, 'x', 0, 0, 0, 0, 1, 'a'};
    static const uint8_t huge[] = {1, 6, 0, 0, 1, 'x', 0, 0, 0, 4, 0x80, 0x80, 0x80, 0x80, 0x10, 0};
    static const uint8_t empty[] = {1, 4, 0, 0, 1, 'x', 0, 0, 0, 0};
    struct error error = {0};
    assert_int_equal(read_all(offered, sizeof offered, 1, &error), INT32_MIN);
    assert_int_equal(read_all(huge, sizeof huge, 1, &error), INT32_MIN); /* device 2^32 */
    assert_int_equal(read_all(empty, sizeof empty, 1, &error), INT32_MIN);
}

/* A path that leans on more of the one before than there was. */
static void test_shared_lies(void **state)
{
    (void)state;
    static const uint8_t beyond[] = {2, 1, 0, 1, 1, 'a', 0, 0, 0};
    static const uint8_t joined[] = {2, 1, 0, 0, 1, 'a', 0, 0, 0, 1, 0, 1, 2, '/', 'b', 0, 0, 0};
    static const uint8_t climbing[] = {2, 1, 0, 0, 2, '.', 'a', 0, 0, 0, 1, 0, 1, 1, '.', 0, 0, 0};
    static const uint8_t no_form[] = {3, 1, 0, 0, 1, 'a', 0, 0, 0};
    struct error error = {0};
    assert_true(read_all(beyond, sizeof beyond, 1, &error) < 0);
    assert_int_equal(read_all(joined, sizeof joined, 1, &error), 2);
    assert_true(read_all(climbing, sizeof climbing, 1, &error) < 0);
    assert_true(read_all(no_form, sizeof no_form, 1, &error) < 0);
    assert_true(read_all(no_form, 0, 1, &error) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_full),
        cmocka_unit_test(test_file_in_place), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_paths),         cmocka_unit_test(test_limits),
        cmocka_unit_test(test_hard_links),    cmocka_unit_test(test_shared_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
