#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/cursor.h"

static void test_integers_round_trip(void **state)
{
    (void)state;
    uint8_t bytes[64];
    struct writer writer = writer_of(bytes, sizeof bytes);
    write_u8(&writer, 0xab);
    write_u16(&writer, 0x1234);
    write_u32(&writer, 0x89abcdef);
    write_u64(&writer, UINT64_C(0x0123456789abcdef));
    write_uint(&writer, UINT64_C(0xfedcba9876), 5);
    write_bytes(&writer, "xyz", 3);
    write_sized(&writer, "name", 4);
    write_sized(&writer, NULL, 0);
    assert_false(writer.failed);
    assert_int_equal(writer_size(&writer), 1 + 2 + 4 + 8 + 5 + 3 + 5 + 1);
    assert_int_equal(writer_left(&writer), sizeof bytes - writer_size(&writer));
    assert_memory_equal(bytes, "\xab\x12\x34\x89\xab\xcd\xef\x01\x23", 9);

    struct reader reader = reader_of(bytes, writer_size(&writer));
    assert_int_equal(read_u8(&reader), 0xab);
    assert_int_equal(read_u16(&reader), 0x1234);
    assert_int_equal(read_u32(&reader), 0x89abcdef);
    assert_true(read_u64(&reader) == UINT64_C(0x0123456789abcdef));
    assert_true(read_uint(&reader, 5) == UINT64_C(0xfedcba9876));
    assert_memory_equal(read_bytes(&reader, 3), "xyz", 3);
    size_t size;
    assert_memory_equal(read_sized(&reader, 4, &size), "name", 4);
    assert_int_equal(size, 4);
    assert_false(reader_finished(&reader));
    assert_non_null(read_sized(&reader, 4, &size));
    assert_int_equal(size, 0);
    assert_true(reader_finished(&reader));
}

static void test_every_cut_fails_and_stays_failed(void **state)
{
    (void)state;
    uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (size_t have = 0; have < 8; have++) {
        struct reader reader = reader_of(bytes, have);
        assert_int_equal(read_uint(&reader, have + 1), 0);
        assert_true(reader.failed);
        assert_int_equal(reader_left(&reader), have); /* nothing moved */
        assert_int_equal(read_uint(&reader, have > 0 ? have : 1), 0);
        assert_false(reader_finished(&reader));
        assert_null(read_bytes(&reader, 0));
        size_t size = 77;
        assert_null(read_sized(&reader, 100, &size));
        assert_int_equal(size, 77);

        struct writer writer = writer_of(bytes, have);
        write_uint(&writer, 1, have + 1);
        assert_true(writer.failed);
        assert_int_equal(writer_size(&writer), 0);
        write_bytes(&writer, NULL, 0);
        assert_true(writer.failed);
    }
    struct reader empty = reader_of(NULL, 0);
    assert_true(reader_finished(&empty));
    assert_non_null(read_bytes(&empty, 0));
    assert_int_equal(read_u8(&empty), 0);
    assert_true(empty.failed);
}

static void test_integer_sizes_are_bounded(void **state)
{
    (void)state;
    uint8_t bytes[16] = {0};
    struct reader reader = reader_of(bytes, sizeof bytes);
    read_uint(&reader, 9);
    assert_true(reader.failed);
    reader = reader_of(bytes, sizeof bytes);
    read_uint(&reader, 0);
    assert_true(reader.failed);
    struct writer writer = writer_of(bytes, sizeof bytes);
    write_uint(&writer, 0x1000000, 3); /* does not fit: never cut in silence */
    assert_true(writer.failed);
    writer = writer_of(bytes, sizeof bytes);
    write_uint(&writer, 0xffffff, 3);
    assert_false(writer.failed);
}

static void test_varints(void **state)
{
    (void)state;
    static const struct {
        uint64_t value;
        size_t size;
    } values[] = {{0, 1},
                  {1, 1},
                  {0x7f, 1},
                  {0x80, 2},
                  {0x3fff, 2},
                  {0x4000, 3},
                  {UINT32_MAX, 5},
                  {UINT64_C(1) << 56, 9},
                  {(UINT64_C(1) << 63) - 1, 9},
                  {UINT64_C(1) << 63, 10},
                  {UINT64_MAX, 10}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        uint8_t bytes[10];
        struct writer writer = writer_of(bytes, sizeof bytes);
        write_varint(&writer, values[i].value);
        assert_int_equal(writer_size(&writer), values[i].size);
        struct reader reader = reader_of(bytes, values[i].size);
        assert_true(read_varint(&reader) == values[i].value);
        assert_true(reader_finished(&reader));
        for (size_t cut = 0; cut < values[i].size; cut++) {
            reader = reader_of(bytes, cut);
            assert_true(read_varint(&reader) == 0);
            assert_true(reader.failed);
            assert_int_equal(reader_left(&reader), cut);
            writer = writer_of(bytes, cut);
            write_varint(&writer, values[i].value);
            assert_true(writer.failed);
            assert_int_equal(writer_size(&writer), 0);
            writer = writer_of(bytes, sizeof bytes);
            write_varint(&writer, values[i].value);
        }
    }
}

static void test_bad_varints_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
    } bad[] = {
        {"\x80\x00", 2},                                      /* a long zero */
        {"\xff\x80\x00", 3},                                  /* a long 127 */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10},     /* 65 bits */
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11}, /* eleven bytes */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x00", 11},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct reader reader = reader_of(bad[i].bytes, bad[i].size);
        assert_true(read_varint(&reader) == 0);
        assert_true(reader.failed);
    }
}

static void test_sized_limits(void **state)
{
    (void)state;
    uint8_t bytes[200];
    struct writer writer = writer_of(bytes, sizeof bytes);
    uint8_t content[150];
    memset(content, 7, sizeof content);
    write_sized(&writer, content, sizeof content);
    size_t whole = writer_size(&writer), size;
    assert_int_equal(whole, 152);

    struct reader reader = reader_of(bytes, whole);
    assert_non_null(read_sized(&reader, 150, &size)); /* the limit itself */
    reader = reader_of(bytes, whole);
    assert_null(read_sized(&reader, 149, &size)); /* limit plus one */
    assert_int_equal(reader_left(&reader), whole);
    for (size_t cut = 0; cut < whole; cut++) {
        reader = reader_of(bytes, cut);
        assert_null(read_sized(&reader, 1000, &size));
    }
    /* A length that lies, up to one that would wrap a pointer. */
    struct writer lie = writer_of(bytes, sizeof bytes);
    write_varint(&lie, UINT64_MAX);
    reader = reader_of(bytes, sizeof bytes);
    assert_null(read_sized(&reader, SIZE_MAX, &size));

    /* What does not fit leaves nothing behind, not even its length. */
    writer = writer_of(bytes, 10);
    write_u8(&writer, 1);
    write_sized(&writer, content, 9);
    assert_true(writer.failed);
    assert_int_equal(writer_size(&writer), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_round_trip),
        cmocka_unit_test(test_every_cut_fails_and_stays_failed),
        cmocka_unit_test(test_integer_sizes_are_bounded),
        cmocka_unit_test(test_varints),
        cmocka_unit_test(test_bad_varints_are_refused),
        cmocka_unit_test(test_sized_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
