/* Files brought into memory before they are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/aligned.h"
#include "base/block.h"
#include "copy.h"
#include "tree/pack.h"
#include "tree/read_ahead.h"
#include "tree/scan.h"

#define FILES 300

static char base[256];

static int setup(void **state)
{
    (void)state;
    if (getenv("TMPDIR") == NULL)
        setenv("TMPDIR", "/var/tmp", 1); /* a disk, if there is one */
    strcpy(base, test_directory());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    remove_tree(base);
    return 0;
}

static size_t open_descriptors(void)
{
    size_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory != NULL && readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void hint(struct read_ahead *ahead, int directory, const char *path)
{
    while (!read_ahead_has_room(ahead))
        wait_a_little();
    read_ahead_hint(ahead, directory, path);
}

static int make(int directory, const char *name, size_t size)
{
    int fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL, 0600);
    char *bytes = calloc(1, size + 1);
    assert_true(fd >= 0);
    assert_non_null(bytes);
    memset(bytes, 7, size);
    assert_int_equal(pwrite(fd, bytes, size, 0), size);
    free(bytes);
    return fd;
}

static bool is_in_memory(int fd)
{
    unsigned char page = 0;
    void *start = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(start, MAP_FAILED);
    assert_int_equal(mincore(start, 1, &page), 0);
    munmap(start, 1);
    return (page & 1) != 0;
}

/* False where the file system has nothing but memory. */
static bool forget(int fd)
{
    assert_int_equal(fsync(fd), 0);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return !is_in_memory(fd);
}

static void test_brought(void **state)
{
    (void)state;
    int directory = open(base, O_RDONLY | O_DIRECTORY);
    int small = make(directory, "small", 5000), large = make(directory, "large", 600000);
    bool tells = forget(small) && forget(large);
    struct read_ahead *ahead = read_ahead_new(true);
    assert_non_null(ahead);
    hint(ahead, directory, "large");
    hint(ahead, directory, "small");
    close(directory);
    for (int i = 0; i < 10000 && tells && !is_in_memory(small); i++)
        wait_a_little();
    read_ahead_free(ahead);
    assert_true(!tells || is_in_memory(small));
    assert_true(!tells || !is_in_memory(large)); /* content blocks have their own way */
    close(small);
    close(large);
    if (!tells)
        skip();
}

/* Useful once reads were seen to wait for the disk. */
static void test_useful(void **state)
{
    (void)state;
    int directory = open(base, O_RDONLY | O_DIRECTORY);
    int fd = make(directory, "file", 5000);
    bool useful = false, tells = forget(fd);
    char byte;
    struct rusage then, now;
    struct read_ahead *ahead = read_ahead_new(false);
    assert_false(read_ahead_is_useful(ahead));
    getrusage(RUSAGE_SELF, &then);
    assert_int_equal(pread(fd, &byte, 1, 0), 1);
    getrusage(RUSAGE_SELF, &now);
    tells = tells && now.ru_inblock != then.ru_inblock; /* some file systems are not counted */
    for (int i = 0; i < 100 && !useful; i++)
        useful = read_ahead_is_useful(ahead);
    read_ahead_free(ahead);
    assert_false(read_ahead_is_useful(NULL));
    close(fd);
    close(directory);
    if (!tells)
        skip();
    assert_true(useful);
}

/* What is no plain file any more is left alone; nothing hangs and nothing stays open. */
static void test_others(void **state)
{
    (void)state;
    char name[32];
    size_t before = open_descriptors();
    int directory = open(base, O_RDONLY | O_DIRECTORY);
    assert_int_equal(mkfifoat(directory, "pipe", 0600), 0);
    assert_int_equal(mkdirat(directory, "directory", 0700), 0);
    assert_int_equal(symlinkat("pipe", directory, "link"), 0);
    close(make(directory, "empty", 0));
    close(make(directory, "directory/file", 10));
    struct read_ahead *ahead = read_ahead_new(true);
    for (int i = 0; i < 50; i++) {
        hint(ahead, directory, "pipe");
        hint(ahead, directory, "directory");
        hint(ahead, directory, "link");
        hint(ahead, directory, "empty");
        hint(ahead, directory, "directory/file");
        snprintf(name, sizeof name, "missing%d", i);
        hint(ahead, directory, name);
    }
    close(directory);
    read_ahead_free(ahead);
    assert_int_equal(open_descriptors(), before);
}

/* The order of a walk, with hints and without. */
static void list(struct read_ahead *ahead, char text[FILES * 16])
{
    struct scan *scan = scan_new(open(base, O_RDONLY | O_DIRECTORY), false);
    struct scan_entry entry;
    struct error error = {0};
    size_t used = 0;
    assert_non_null(scan);
    scan_set_read_ahead(scan, ahead);
    while (scan_next(scan, &entry, &error) == SCAN_ENTRY)
        used += (size_t)snprintf(text + used, FILES * 16 - used, "%s|", entry.path);
    scan_free(scan);
}

static void test_walk(void **state)
{
    (void)state;
    static char with[FILES * 16], without[FILES * 16];
    char name[32];
    size_t before = open_descriptors();
    int directory = open(base, O_RDONLY | O_DIRECTORY);
    assert_int_equal(mkdirat(directory, "7", 0700), 0);
    for (int i = 0; i < FILES - 50; i++) {
        snprintf(name, sizeof name, "%s%d", i % 3 == 0 ? "7/" : "f", i);
        close(make(directory, name, 100));
    }
    close(directory);
    struct read_ahead *ahead = read_ahead_new(true);
    list(NULL, without);
    list(ahead, with);
    read_ahead_free(ahead);
    assert_string_equal(with, without);
    assert_non_null(strstr(with, "|7|7/0|"));
    assert_int_equal(open_descriptors(), before);
}

/* ---- a receiving end that is offered what it has ---- */

static size_t answered;

static void on_report(void *context, const struct sink_report *report)
{
    (void)context;
    if (report->kind == SINK_BUFFER_FREE)
        aligned_free(report->bytes);
    if (report->kind == SINK_ANSWER)
        answered = report->length;
}

static void offer_files(struct file_sink *sink, int count, size_t size)
{
    static struct pack_writer writer;
    char name[32];
    struct sink_job job = {.kind = SINK_BLOCK, .packed = true};
    job.bytes = aligned_new(BLOCK_SIZE, 4096);
    pack_start(&writer, job.bytes, BLOCK_SIZE, PACK_OFFER);
    for (int i = 0; i < count; i++) {
        int length = snprintf(name, sizeof name, "f%03d", i);
        struct entry entry = {
            .kind = ENTRY_FILE, .path = name, .path_size = (size_t)length, .size = size};
        assert_true(pack_add(&writer, &entry));
    }
    job.length = (uint32_t)pack_size(&writer);
    file_sink_ops.accept(sink, &job, on_report, NULL);
}

static struct file_sink *open_sink(uint64_t flags)
{
    struct transfer_request request = {.flags = flags, .destination = strdup(base)};
    struct error error = {0};
    uint8_t bitmap[1];
    assert_true(transfer_request_add(&request, "", true));
    struct file_sink *sink = file_sink_new();
    assert_non_null(sink);
    assert_true(file_sink_ops.open(sink, &request, bitmap, 1, &error));
    transfer_request_release(&request);
    return sink;
}

/* Whether file 90 of the offer, which the first hints reach, is in memory after a piece of work
 * that ends before it. */
static bool is_brought(int fds[FILES], uint64_t flags, bool wait)
{
    struct file_sink *sink = open_sink(flags);
    answered = 0;
    offer_files(sink, FILES, 5000);
    assert_true(file_sink_ops.work(sink, NULL, on_report, NULL));
    assert_int_equal(answered, 0);
    for (int i = 0; i < 10000 && wait && !is_in_memory(fds[90]); i++)
        wait_a_little();
    bool brought = is_in_memory(fds[90]);
    assert_false(is_in_memory(fds[FILES - 1])); /* a few at a time */
    while (file_sink_ops.work(sink, NULL, on_report, NULL))
        ;
    assert_true(answered >= FILES);
    file_sink_ops.close(sink);
    return brought;
}

static void test_receiving(void **state)
{
    (void)state;
    static int fds[FILES];
    char name[32];
    struct rusage then, now;
    int directory = open(base, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "f%03d", i);
        fds[i] = make(directory, name, 5000);
    }
    close(directory);
    size_t before = open_descriptors();
    bool tells = true;
    for (int i = 0; i < FILES && tells; i++)
        tells = forget(fds[i]);
    getrusage(RUSAGE_SELF, &then);
    bool brought = !tells || is_brought(fds, 0, true);
    getrusage(RUSAGE_SELF, &now);
    tells = tells && now.ru_inblock != then.ru_inblock;
    for (int i = 0; i < FILES && tells; i++)
        tells = forget(fds[i]);
    bool skipped = !tells || !is_brought(fds, TRANSFER_QUICK_CHECK, false);
    size_t after = open_descriptors();
    for (int i = 0; i < FILES; i++)
        close(fds[i]);
    if (!tells)
        skip();
    assert_true(brought);
    assert_true(skipped); /* size and time decide there */
    assert_int_equal(after, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_brought, setup, teardown),
        cmocka_unit_test_setup_teardown(test_useful, setup, teardown),
        cmocka_unit_test_setup_teardown(test_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_walk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_receiving, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
