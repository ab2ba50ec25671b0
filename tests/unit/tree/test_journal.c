/* The bytes of a journal, and what a journal remembers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tree/journal.h"

static const struct journal_header sample = {.file_size = UINT64_C(0x123456789abc),
                                             .identity = {9, 8, 7}};

static enum journal_parse parse(const uint8_t *bytes, size_t size)
{
    uint8_t *exact = malloc(size > 0 ? size : 1);
    memcpy(exact, bytes, size);
    struct journal_header header = {.identity = {9, 8, 7}};
    enum journal_parse result = journal_header_read(&header, exact, size);
    assert_true((result == JOURNAL_GOOD) == (header.file_size != 0));
    free(exact);
    return result;
}

static void header_round_trips_and_nothing_else_passes(void **state)
{
    (void)state;
    uint8_t bytes[JOURNAL_HEADER_SIZE];
    journal_header_write(&sample, bytes);
    struct journal_header header = {.identity = {9, 8, 7}};
    assert_int_equal(journal_header_read(&header, bytes, sizeof bytes), JOURNAL_GOOD);
    assert_true(header.file_size == sample.file_size);
    for (size_t cut = 0; cut < sizeof bytes; cut++)
        assert_int_equal(parse(bytes, cut), JOURNAL_CORRUPT);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        enum journal_parse result = parse(bytes, sizeof bytes);
        bool version = bit / 8 >= 8 && bit / 8 < 12;
        assert_int_equal(result, version && bit != 88 ? JOURNAL_NEWER : JOURNAL_CORRUPT);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    header.identity[0] ^= 1;
    assert_int_equal(journal_header_read(&header, bytes, sizeof bytes), JOURNAL_OTHER);
}

static void records_belong_to_one_block_of_one_path(void **state)
{
    (void)state;
    uint8_t bytes[JOURNAL_RECORD_SIZE], hash[JOURNAL_HASH_SIZE] = {1, 2, 3}, read[32];
    uint8_t other[JOURNAL_IDENTITY_SIZE] = {0};
    journal_record_write(sample.identity, 77, hash, bytes);
    assert_true(journal_record_read(sample.identity, 77, bytes, read));
    assert_memory_equal(read, hash, sizeof hash);
    assert_false(journal_record_read(sample.identity, 78, bytes, read));
    assert_false(journal_record_read(other, 77, bytes, read));
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(journal_record_read(sample.identity, 77, bytes, read));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    memset(bytes, 0, sizeof bytes);
    assert_false(journal_record_read(sample.identity, 77, bytes, read));
}

static char folder[64];
static int directory;

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/petrel-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    directory = open(folder, O_RDONLY | O_DIRECTORY);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlinkat(directory, "j", 0);
    close(directory);
    return rmdir(folder);
}

static struct journal *open_it(bool make, enum journal_found expected)
{
    enum journal_found found;
    const char *what = NULL;
    struct journal *journal = journal_open(directory, "j", make, sample.identity, &found, &what);
    assert_int_equal(found, expected);
    assert_true((what != NULL) == (found == JOURNAL_USELESS));
    return journal;
}

static void remembers(void **state)
{
    (void)state;
    uint8_t hash[JOURNAL_HASH_SIZE] = {0}, read[JOURNAL_HASH_SIZE];
    assert_null(open_it(false, JOURNAL_MISSING));
    struct journal *journal = open_it(true, JOURNAL_NEW);
    assert_true(journal_start(journal, 12345));
    assert_true(journal_is_empty(journal));
    for (unsigned i = 0; i < 200; i += 3) {
        hash[0] = (uint8_t)i;
        journal_add(journal, i, hash, 1000 + i);
        if (i == 6)
            assert_true(journal_is_due(journal, 1000 + JOURNAL_LATE_NS));
    }
    assert_null(open_it(true, JOURNAL_BUSY));
    journal_close(journal);
    journal = open_it(true, JOURNAL_USABLE);
    assert_true(journal_file_size(journal) == 12345);
    assert_true(journal_extent(journal) == 199);
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(journal_has(journal, i, read), i < 200 && i % 3 == 0);
        if (i < 200 && i % 3 == 0)
            assert_int_equal(read[0], i);
    }
    assert_true(journal_has(journal, 0, read)); /* backwards too */
    assert_true(journal_resize(journal, 99));
    assert_true(journal_has(journal, 198, read));
    assert_true(journal_start(journal, 5));
    assert_false(journal_has(journal, 0, read));
    journal_remove(journal, directory, "j");
    assert_null(open_it(false, JOURNAL_MISSING));
}

static void useless_ones(void **state)
{
    (void)state;
    int fd = openat(directory, "j", O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "ptrljnl\n\0\0\0\2", 12), 12);
    close(fd);
    struct journal *journal = open_it(true, JOURNAL_USELESS);
    assert_true(journal_start(journal, 1)); /* and can be begun anew */
    journal_close(journal);
    journal = open_it(false, JOURNAL_USABLE);
    journal_close(journal);
    unlinkat(directory, "j", 0);
    assert_int_equal(symlinkat("/etc/passwd", directory, "j"), 0);
    assert_null(open_it(true, JOURNAL_FAILED));
    unlinkat(directory, "j", 0);
    assert_int_equal(mkfifoat(directory, "j", 0600), 0);
    assert_null(open_it(true, JOURNAL_FAILED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_round_trips_and_nothing_else_passes),
        cmocka_unit_test(records_belong_to_one_block_of_one_path),
        cmocka_unit_test_setup_teardown(remembers, setup, teardown),
        cmocka_unit_test_setup_teardown(useless_ones, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
