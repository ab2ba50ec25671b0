/* Owners and extended attributes as bytes, and names of owners. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tree/attributes.h"
#include "tree/owner_names.h"
#include "tree/pack.h"

static const struct attribute owner = {.kind = ATTRIBUTE_OWNER,
                                       .uid = 1000,
                                       .gid = UINT32_MAX,
                                       .user = "someone",
                                       .user_size = 7,
                                       .group = ""};
static const struct attribute extended = {.kind = ATTRIBUTE_EXTENDED,
                                          .name = "user.x",
                                          .name_size = 6,
                                          .value = (const uint8_t *)"\0\xff",
                                          .value_size = 2};

static size_t both(uint8_t *bytes, size_t capacity)
{
    struct writer writer = writer_of(bytes, capacity);
    attributes_write(&writer, &owner);
    attributes_write(&writer, &extended);
    assert_false(writer.failed);
    return writer_size(&writer);
}

static void test_round_trip(void **state)
{
    (void)state;
    uint8_t bytes[64];
    size_t size = both(bytes, sizeof bytes);
    struct reader reader = reader_of(bytes, size);
    struct attribute read;
    assert_int_equal(attributes_next(&reader, &read), ATTRIBUTES_ITEM);
    assert_int_equal(read.uid, 1000);
    assert_true(read.gid == UINT32_MAX);
    assert_int_equal(read.user_size, 7);
    assert_memory_equal(read.user, "someone", 7);
    assert_int_equal(read.group_size, 0);
    assert_int_equal(attributes_next(&reader, &read), ATTRIBUTES_ITEM);
    assert_memory_equal(read.name, "user.x", 6);
    assert_int_equal(read.value_size, 2);
    assert_int_equal(attributes_next(&reader, &read), ATTRIBUTES_END);
    assert_true(attributes_valid(bytes, size));
}

/* Cut anywhere but between items it is nothing. */
static void test_cut(void **state)
{
    (void)state;
    uint8_t bytes[64], half[64];
    size_t size = both(bytes, sizeof bytes);
    struct writer writer = writer_of(half, sizeof half);
    attributes_write(&writer, &owner);
    size_t first = writer_size(&writer);
    for (size_t cut = 0; cut <= size; cut++) {
        uint8_t *exact = malloc(cut + 1);
        memcpy(exact, bytes, cut);
        assert_int_equal(attributes_valid(exact, cut), cut == 0 || cut == first || cut == size);
        free(exact);
    }
}

static void test_lies(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[12];
        size_t size;
        bool valid;
    } cases[] = {
        {{9, 1, 0}, 3, true},                                       /* an unknown tag */
        {{9, 2, 0}, 3, false},                                      /* its size is a lie */
        {{1, 4, 0, 0, 0, 0}, 6, true},                              /* numbers alone */
        {{1, 5, 0, 0, 0, 0, 0}, 7, false},                          /* a byte too many */
        {{1, 4, 0, 0, 0, 0, 1, 4, 0, 0, 0, 0}, 12, false},          /* two owners */
        {{1, 8, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0, 0}, 10, false}, /* number 2^32 */
        {{1, 5, 0, 1, 0, 0, 0}, 7, false},                          /* NUL in a name */
        {{2, 2, 0, 0}, 4, false},                                   /* no name */
        {{2, 3, 1, 'a', 0}, 5, true},                               /* an empty value */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(attributes_valid(cases[i].bytes, cases[i].size), cases[i].valid);
    uint8_t name[300];
    memset(name, 'n', sizeof name);
    for (size_t size = ATTRIBUTES_NAME_MAX; size <= ATTRIBUTES_NAME_MAX + 1; size++) {
        uint8_t bytes[400];
        struct writer writer = writer_of(bytes, sizeof bytes);
        struct attribute attribute = extended;
        attribute.name = (const char *)name;
        attribute.name_size = size;
        attributes_write(&writer, &attribute);
        assert_int_equal(attributes_valid(bytes, writer_size(&writer)),
                         size == ATTRIBUTES_NAME_MAX);
    }
}

/* In a packed block, with the limit and one more. */
static void test_in_an_entry(void **state)
{
    (void)state;
    uint8_t *extra = malloc(ATTRIBUTES_MAX + 1), *block = malloc(2 * ATTRIBUTES_MAX);
    struct pack_writer *writer = malloc(sizeof *writer);
    struct pack_reader *reader = malloc(sizeof *reader);
    for (size_t size = ATTRIBUTES_MAX; size <= ATTRIBUTES_MAX + 1; size++) {
        struct writer filler = writer_of(extra, size);
        write_varint(&filler, 99);
        write_varint(&filler, size - 4); /* tag 1 byte, size 3 bytes */
        assert_int_equal(writer_size(&filler), 4);
        memset(extra + 4, 0, size - 4);
        struct entry entry = {.kind = ENTRY_DIRECTORY,
                              .path = "d",
                              .path_size = 1,
                              .extra = extra,
                              .extra_size = size};
        pack_start(writer, block, 2 * ATTRIBUTES_MAX, PACK_OFFER);
        assert_true(pack_add(writer, &entry));
        assert_true(pack_open(reader, block, pack_size(writer), 1, NULL));
        bool good = pack_next(reader, &entry, NULL) == PACK_ENTRY;
        assert_int_equal(good, size == ATTRIBUTES_MAX);
        if (good)
            assert_int_equal(entry.extra_size, size);
    }
    free(extra);
    free(block);
    free(writer);
    free(reader);
}

static void test_names(void **state)
{
    (void)state;
    struct owner_names *names = owner_names_new();
    assert_string_equal(owner_name(names, false, 0), "root");
    assert_string_equal(owner_name(names, false, 4000000123u), "");
    assert_string_equal(owner_name(names, false, 0), "root");
    assert_int_equal(owner_id(names, false, 77, "root", 4), 0);
    assert_int_equal(owner_id(names, false, 0, "nobody-of-that-name", 19), 0);
    assert_int_equal(owner_id(names, false, 77, "nobody-of-that-name", 19), 77);
    assert_int_equal(owner_id(names, true, 77, "", 0), 77);
    owner_names_free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_lies),       cmocka_unit_test(test_in_an_entry),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
