#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/aligned.h"
#include "base/block.h"
#include "base/units.h"
#include "measure/disk_file.h"
#include "measure/disk_speed.h"

#define BRIEF_NS (20 * NS_PER_MS)

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/petrel-disk-XXXXXX");
    return mkdtemp(folder) == NULL;
}

/* It must be empty again: rmdir says so. */
static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void test_writing_and_reading_a_folder(void **state)
{
    (void)state;
    struct disk_speed speed;
    struct error error = {0};
    assert_true(disk_write_speed(folder, BRIEF_NS, &speed, &error));
    assert_true(speed.bytes > 0 && speed.rate_bps > 0 && speed.free_bytes > 0);
    assert_string_equal(speed.path, folder);
    assert_true(disk_read_speed(folder, BRIEF_NS, &speed, &error));
    assert_true(speed.bytes > 0);
}

static void test_a_file_to_come(void **state)
{
    (void)state;
    char path[128];
    struct disk_speed speed;
    struct error error = {0};
    snprintf(path, sizeof(path), "%s/new", folder);
    assert_true(disk_write_speed(path, BRIEF_NS, &speed, &error));
    assert_string_equal(speed.path, folder);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(path, sizeof(path), "%s/none/new", folder);
    assert_false(disk_write_speed(path, BRIEF_NS, &speed, &error));
    assert_int_equal(error.kind, ERROR_NOT_FOUND);
    error_clear(&error);
    assert_false(disk_read_speed(path, BRIEF_NS, &speed, &error));
    assert_int_equal(error.kind, ERROR_NOT_FOUND);
}

static void test_what_is_no_disk(void **state)
{
    (void)state;
    struct disk_speed speed;
    struct error error = {0};
    assert_false(disk_write_speed("/proc/sys", BRIEF_NS, &speed, &error));
    assert_int_equal(error.kind, ERROR_PERMISSION);
    assert_non_null(strstr(error.text, "/proc/sys is no place for files"));
}

static void test_where_a_session_reads(void **state)
{
    (void)state;
    char path[600];
    assert_int_equal(disk_source(folder), -1); /* holds no large file */
    snprintf(path, sizeof(path), "%s/none", folder);
    assert_int_equal(disk_source(path), -1);
    snprintf(path, sizeof(path), "%s/small", folder);
    int descriptor = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, "four", 4), 4);
    close(descriptor);
    descriptor = disk_source(path);
    assert_true(descriptor >= 0);
    char bytes[8];
    assert_int_equal(read(descriptor, bytes, sizeof(bytes)), 4);
    close(descriptor);
    struct disk_speed speed;
    struct error error = {0};
    assert_true(disk_read_speed(path, BRIEF_NS, &speed, &error));
    assert_int_equal(speed.bytes, 4);
    unlink(path);
}

static void test_writing_as_a_copy_does(void **state)
{
    (void)state;
    struct error error = {0};
    struct disk_file file;
    uint8_t *block = aligned_new(BLOCK_SIZE, 4096), back[3];
    int descriptor = disk_temporary(folder, &error);
    assert_true(descriptor > 0 && block != NULL);
    disk_file_init(&file, descriptor);
    assert_true(file.most >= 4 * BLOCK_SIZE && file.most % BLOCK_SIZE == 0);
    memset(block, 'a', BLOCK_SIZE);
    assert_true(disk_file_write(&file, block, BLOCK_SIZE, BLOCK_SIZE));
    memset(block, 'b', BLOCK_SIZE); /* a length that direct writes refuse */
    assert_true(disk_file_write(&file, block, 1001, 2 * BLOCK_SIZE));
    memset(block, 'c', BLOCK_SIZE); /* what would lie above goes to the beginning */
    assert_true(disk_file_write(&file, block, BLOCK_SIZE, file.most));
    fcntl(descriptor, F_SETFL, 0);
    assert_int_equal(pread(descriptor, back, 2, BLOCK_SIZE - 1), 2);
    assert_memory_equal(back, "ca", 2);
    assert_int_equal(pread(descriptor, back, 2, 2 * BLOCK_SIZE - 1), 2);
    assert_memory_equal(back, "ab", 2);
    back[1] = 0; /* reserved and not written, or the end of the file */
    assert_in_range(pread(descriptor, back, 2, 2 * BLOCK_SIZE + 1000), 1, 2);
    assert_memory_equal(back, "b", 2);
    close(descriptor);
    aligned_free(block);
}

static void test_a_slow_disk(void **state)
{
    (void)state;
    struct disk_speed speed;
    struct error error = {0};
    disk_test_slow(160000000);
    assert_true(disk_write_speed(folder, 10 * BRIEF_NS, &speed, &error));
    disk_test_slow(0);
    assert_true(speed.rate_bps <= 160000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writing_and_reading_a_folder),
        cmocka_unit_test(test_a_file_to_come),
        cmocka_unit_test(test_what_is_no_disk),
        cmocka_unit_test(test_where_a_session_reads),
        cmocka_unit_test(test_writing_as_a_copy_does),
        cmocka_unit_test(test_a_slow_disk),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
