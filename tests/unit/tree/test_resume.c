/* What is at the destination already, whole or half-written: good blocks stay, bad ones come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copy.h"
#include "crypto/tree_hash.h"
#include "tree/journal.h"

#define MIB (1024u * 1024u)

static struct copy copy;
static char base[256], source[300], target[300], from[400], to[400];

/* One file, "large", alone: it goes to target/large. */
static int setup(void **state)
{
    (void)state;
    strcpy(base, test_directory());
    snprintf(source, sizeof source, "%s/source", base);
    snprintf(target, sizeof target, "%s/target", base);
    make_directory(source, 0755);
    make_directory(target, 0755);
    snprintf(from, sizeof from, "%s/large", source);
    snprintf(to, sizeof to, "%s/large", target);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    remove_tree(base);
    return 0;
}

static void begin(uint32_t flags)
{
    static const char *paths[1];
    paths[0] = from;
    copy = (struct copy){.destination = target, .flags = flags, .paths = paths, .path_count = 1};
}

static void run(uint32_t flags)
{
    begin(flags | TRANSFER_QUICK_CHECK);
    copy_run(&copy);
}

static void assert_arrived(void)
{
    assert_true(copy.finished);
    assert_int_equal(copy.failures, 0);
    assert_same_tree(from, to);
    assert_int_equal(assert_no_litter(target), 1);
}

/* The old file begins like the new one, but for `bad` bytes at `at`, and has `size` bytes. */
static void make_old(size_t size, uint64_t at_byte, size_t bad)
{
    char command[1400];
    snprintf(command, sizeof command, "head -c %zu '%s' >'%s'; truncate -s %zu '%s'", size, from,
             to, size, to);
    assert_int_equal(system(command), 0);
    int fd = open(to, O_WRONLY);
    for (size_t i = 0; i < bad; i++)
        assert_int_equal(pwrite(fd, "?", 1, (off_t)(at_byte + i)), 1);
    close(fd);
    set_time(to, 1000, 0);
}

/* ---- what is there under the final name ---- */

static void test_changed_in_the_middle(void **state)
{
    (void)state;
    make_file(from, 10 * MIB + 77, 1);
    make_old(10 * MIB + 77, 3 * MIB + 5, 10);
    run(0);
    assert_arrived();
    assert_int_equal(copy.kept, 10);
    assert_int_equal(copy.content, 1);
    assert_int_equal(copy.kept_bytes, 9 * MIB + 77);
}

static void test_garbage_at_the_beginning(void **state)
{
    (void)state;
    make_file(from, 5 * MIB, 2);
    make_old(5 * MIB, 0, 100);
    run(0);
    assert_arrived();
    assert_int_equal(copy.content, 1);
}

static void test_shorter_and_different(void **state)
{
    (void)state;
    make_file(from, 9 * MIB + 1, 3);
    make_old(4 * MIB + 9, MIB, 3);
    run(0);
    assert_arrived();
    assert_int_equal(copy.kept, 3);
    assert_int_equal(copy.content, 7);
}

static void test_longer(void **state)
{
    (void)state;
    make_file(from, 4 * MIB + 9, 4);
    make_file(to, 9 * MIB, 4); /* the same, and more */
    run(0);
    assert_arrived();
    assert_int_equal(copy.kept, 5);
    assert_int_equal(copy.content, 0);
}

static void test_nothing_in_common(void **state)
{
    (void)state;
    make_file(from, 3 * MIB, 5);
    make_file(to, 3 * MIB, 6);
    set_time(to, 1000, 0);
    run(0);
    assert_arrived();
    assert_int_equal(copy.kept, 0);
    assert_int_equal(copy.content, 3);
}

/* Only the time is another: not a byte is written, the file stays the same one. */
static void test_touched(void **state)
{
    (void)state;
    struct stat before, after;
    make_file(from, 70 * MIB + 3, 7);
    make_file(to, 70 * MIB + 3, 7);
    set_time(to, 1000, 0);
    assert_int_equal(stat(to, &before), 0);
    run(0);
    assert_arrived();
    assert_int_equal(copy.skipped, 1);
    assert_int_equal(copy.content, 0);
    assert_int_equal(stat(to, &after), 0);
    assert_true(before.st_ino == after.st_ino);
}

static void test_small_ones(void **state)
{
    (void)state;
    make_file(from, 1000, 8);
    make_file(to, 1000, 8);
    set_time(to, 1000, 0);
    run(0);
    assert_arrived();
    assert_int_equal(copy.skipped, 1);
    make_file(to, 1000, 9);
    set_time(to, 1000, 0);
    run(0);
    assert_arrived();
    assert_int_equal(copy.done, 1);
}

/* Same size and time, other bytes: only --checksum finds that. */
static void test_checksum(void **state)
{
    (void)state;
    for (size_t size = 1000; size < 3 * MIB; size += 2 * MIB) {
        make_file(from, size, 10);
        make_file(to, size, 11);
        set_time(from, 1000, 5);
        set_time(to, 1000, 5);
        run(0);
        assert_int_equal(copy.skipped, 1);
        begin(0);
        copy_run(&copy);
        assert_int_equal(copy.done, 1);
        assert_arrived();
    }
}

static void test_whole(void **state)
{
    (void)state;
    make_file(from, 5 * MIB, 12);
    make_old(5 * MIB, 0, 0);
    run(TRANSFER_WHOLE);
    assert_arrived();
    assert_int_equal(copy.hashes, 0);
    assert_int_equal(copy.content, 5);
}

/* Blocks in any order, several files, more than one piece of hashes each. */
static void test_orders(void **state)
{
    (void)state;
    static const char *paths[1];
    for (unsigned seed = 1; seed < 6; seed++) {
        char name[64];
        for (unsigned i = 0; i < 6; i++) {
            snprintf(name, sizeof name, "f%u", i);
            make_file(at(source, name), (70 + i) * MIB / (1 + i * i) + i, i);
        }
        paths[0] = source;
        copy = (struct copy){.destination = target, .paths = paths, .path_count = 1};
        copy.seed = seed;
        copy_run(&copy);
        assert_true(copy.finished);
        for (unsigned i = 0; i < 6; i++) {
            snprintf(name, sizeof name, "source/f%u", i);
            int fd = open(at(target, name), O_WRONLY);
            assert_int_equal(pwrite(fd, "?", 1, i % 3 * MIB), 1);
            close(fd);
        }
        copy = (struct copy){.destination = target, .paths = paths, .path_count = 1, .seed = seed};
        copy_run(&copy);
        assert_true(copy.finished && copy.failures == 0);
        assert_same_tree(source, at(target, "source"));
        assert_int_equal(copy.content, 6);
        remove_tree(at(target, "source"));
    }
}

static void remove_source(void *context, uint64_t blocks)
{
    (void)context;
    if (blocks == 1) /* the offer is out */
        unlink(from);
}

static void test_vanishes_when_offered(void **state)
{
    (void)state;
    make_file(from, 3 * MIB, 20);
    make_file(to, 3 * MIB, 21);
    begin(0);
    copy.before_step = remove_source;
    copy_run(&copy);
    assert_true(copy.finished);
    assert_int_equal(copy.problems, 1);
    assert_int_equal(copy.forgotten, 1);
    assert_file(to, 3 * MIB, 21);
    assert_int_equal(assert_no_litter(target), 1);
}

static void change_old(void *context, uint8_t *bytes, uint32_t length, bool packed)
{
    (void)bytes, (void)length;
    if (packed || *(bool *)context)
        return;
    *(bool *)context = true;
    int fd = open(to, O_WRONLY);
    assert_int_equal(pwrite(fd, "changed", 7, 4 * MIB), 7);
    close(fd);
}

/* Somebody writes to the old file after its hashes were told: what is kept is read again. */
static void test_old_file_changes(void **state)
{
    (void)state;
    bool done = false;
    make_file(from, 6 * MIB, 22);
    make_old(6 * MIB, MIB, 5);
    begin(0);
    copy.on_block = change_old;
    copy.context = &done;
    copy_run(&copy);
    assert_true(copy.finished && done);
    assert_int_equal(copy.failures, 1);
    assert_int_equal(copy_line_of(&copy, "large")->error, ERROR_CHANGED);
    assert_int_equal(assert_no_litter(target), 1);
    run(0);
    assert_arrived();
}

/* ---- half-written ---- */

#define HALF_SIZE (19 * MIB + 123)
#define HALF_BLOCKS 20

static const char *temp_path(const char *end)
{
    uint8_t hash[TREE_HASH_SIZE];
    char name[80];
    tree_hash_whole("large", 5, hash);
    sprintf(name, ".petrel-%02x%02x%02x%02x%02x%02x%02x%02x%s", hash[0], hash[1], hash[2], hash[3],
            hash[4], hash[5], hash[6], hash[7], end);
    return at(target, name);
}

static void leave_half(uint64_t blocks, uint64_t seed)
{
    make_file(from, HALF_SIZE, 30);
    unlink(to);
    begin(TRANSFER_QUICK_CHECK);
    copy.stop_at = blocks;
    copy.seed = seed;
    copy.window = 6;
    copy_run(&copy);
    assert_false(exists(to));
    assert_true(exists(temp_path("")) && exists(temp_path(".journal")));
}

static void test_half_written(void **state)
{
    (void)state;
    leave_half(17, 0);
    run(0);
    assert_arrived();
    assert_int_equal(copy.kept, 17);
    assert_int_equal(copy.content, HALF_BLOCKS - 17);
    leave_half(14, 5); /* blocks came in another order */
    run(0);
    assert_arrived();
    assert_int_equal(copy.content, HALF_BLOCKS - 14);
}

/* Half-written and something old under the name: both count. */
static void test_half_written_and_old(void **state)
{
    (void)state;
    leave_half(10, 0);
    make_old(15 * MIB, 0, 0);
    run(0);
    assert_arrived();
    assert_int_equal(copy.kept, 15);
    assert_int_equal(copy.content, HALF_BLOCKS - 15);
}

static void test_half_written_whole(void **state)
{
    (void)state;
    leave_half(10, 0);
    run(TRANSFER_WHOLE);
    assert_arrived();
    assert_int_equal(copy.content, HALF_BLOCKS);
}

static void test_source_has_grown(void **state)
{
    (void)state;
    leave_half(17, 0);
    int fd = open(from, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "more", 4), 4);
    close(fd);
    run(0);
    assert_arrived();
    assert_int_equal(copy.content, HALF_BLOCKS - 17);
    leave_half(17, 0);
    assert_int_equal(truncate(from, 16 * MIB + 1), 0);
    run(0);
    assert_arrived();
    assert_int_equal(copy.content, 0);
    static const off_t smaller[] = {3 * MIB, 600000, 100}; /* without a journal, and small */
    for (unsigned i = 0; i < 3; i++) {
        leave_half(17, 0);
        assert_int_equal(truncate(from, smaller[i]), 0);
        run(0);
        assert_arrived();
    }
}

static void test_killed(void **state)
{
    (void)state;
    make_file(from, HALF_SIZE, 30);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        begin(TRANSFER_QUICK_CHECK);
        copy.stop_at = 18;
        copy.on_kill = true;
        copy_run(&copy);
        _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
    assert_true(exists(temp_path("")) && !exists(to));
    run(0);
    assert_arrived();
    assert_true(copy.kept >= 18 - JOURNAL_LATE_BLOCKS);
}

static void test_damaged_half(void **state)
{
    (void)state;
    leave_half(17, 0);
    int fd = open(temp_path(""), O_WRONLY);
    assert_int_equal(pwrite(fd, "damage", 6, 7 * MIB), 6);
    close(fd);
    run(0);
    assert_arrived();
    assert_int_equal(copy.kept, 16);
    assert_int_equal(copy.hashes, 16); /* what is damaged is not even offered */
}

/* The journal's header, each byte of it flipped, and cut; a record flipped. */
static void test_damaged_journal(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < JOURNAL_HEADER_SIZE; byte += 13) {
        leave_half(17, 0);
        uint8_t value;
        int fd = open(temp_path(".journal"), O_RDWR);
        assert_int_equal(pread(fd, &value, 1, byte), 1);
        value ^= 0x41;
        assert_int_equal(pwrite(fd, &value, 1, byte), 1);
        close(fd);
        run(0);
        assert_arrived();
        assert_int_equal(copy.kept, 0);
        assert_non_null(strstr(copy.note, "journal"));
        unlink(to);
    }
    leave_half(17, 0);
    assert_int_equal(truncate(temp_path(".journal"), JOURNAL_HEADER_SIZE - 1), 0);
    run(0);
    assert_arrived();
    unlink(to);
    leave_half(17, 0);
    int fd = open(temp_path(".journal"), O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, (off_t)journal_record_place(3)), 1);
    close(fd);
    run(0);
    assert_arrived();
    assert_int_equal(copy.kept, 16);
    assert_string_equal(copy.note, "");
}

/* The journal of another path under this one's name. */
static void test_journal_of_another(void **state)
{
    (void)state;
    leave_half(17, 0);
    uint8_t bytes[JOURNAL_HEADER_SIZE];
    struct journal_header header = {.file_size = HALF_SIZE, .identity = {1, 2, 3}};
    journal_header_write(&header, bytes);
    int fd = open(temp_path(".journal"), O_WRONLY);
    assert_int_equal(pwrite(fd, bytes, sizeof bytes, 0), sizeof bytes);
    close(fd);
    run(0);
    assert_arrived();
    assert_int_equal(copy.kept, 0);
    assert_non_null(strstr(copy.note, "of another file"));
}

/* A finished file whose run was killed before it removed the journal. */
static void test_journal_left_behind(void **state)
{
    (void)state;
    make_file(from, 20 * MIB, 31);
    run(0);
    assert_arrived();
    make_text(temp_path(".journal"), "whatever");
    run(0);
    assert_arrived();
    assert_int_equal(copy.skipped, 1);
}

static void test_two_writers(void **state)
{
    (void)state;
    leave_half(17, 0);
    int fd = open(temp_path(".journal"), O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0); /* by nobody who can be asked */
    begin(TRANSFER_QUICK_CHECK);
    copy_run(&copy);
    assert_true(copy.finished && copy.failures == 0);
    assert_same_tree(from, to);
    assert_true(exists(temp_path("")) && exists(temp_path(".journal")));
    close(fd);
    run(0); /* skipped, and the other's remains are swept */
    assert_arrived();
}

/* A holder of the same user goes when it is asked to. */
static void test_holder_is_asked(void **state)
{
    (void)state;
    leave_half(17, 0);
    char path[512];
    strcpy(path, temp_path(".journal"));
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    fflush(NULL);
    pid_t holder = fork();
    if (holder == 0) {
        int fd = open(path, O_RDWR);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (flock(fd, LOCK_EX) != 0 || fcntl(fd, F_SETLK, &lock) != 0 ||
            write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    run(0);
    assert_arrived();
    assert_int_equal(copy.kept, 17);
    int status = 0;
    waitpid(holder, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == 15);
    close(ready[0]);
    close(ready[1]);
}

/* ---- content under another name ---- */

/* A tree is there as it was; what was renamed, moved or duplicated since is not sent. */
static void test_renamed(void **state)
{
    (void)state;
    static const char *paths[1];
    paths[0] = source;
    make_directory(at(source, "sub"), 0755);
    make_file(at(source, "large"), 20 * MIB + 7, 1);
    make_file(at(source, "middle"), 700000, 2);
    make_file(at(source, "small"), 30000, 3);
    make_file(at(source, "tiny"), 100, 4);
    for (unsigned seed = 0; seed < 3; seed++) {
        copy = (struct copy){.destination = target, .paths = paths, .path_count = 1};
        copy_run(&copy);
        assert_true(copy.finished);
        rename(at(source, "large"), at(source, "sub/renamed"));
        rename(at(source, "small"), at(source, "sub/moved"));
        char command[1400];
        snprintf(command, sizeof command, "cp '%s/middle' '%s/sub/duplicate'", source, source);
        assert_int_equal(system(command), 0);
        make_file(at(source, "new"), 50000, 5);
        copy = (struct copy){.destination = target,
                             .paths = paths,
                             .path_count = 1,
                             .seed = seed,
                             .flags = TRANSFER_QUICK_CHECK};
        copy_run(&copy);
        assert_true(copy.finished && copy.failures == 0);
        assert_int_equal(copy.content, 0);
        assert_int_equal(copy.kept_bytes, 20 * MIB + 7 + 700000 + 30000);
        assert_int_equal(copy.verified_bytes, 50000);
        assert_same_tree(at(source, "sub"), at(target, "source/sub"));
        rename(at(source, "sub/renamed"), at(source, "large"));
        rename(at(source, "sub/moved"), at(source, "small"));
        unlink(at(source, "sub/duplicate"));
        unlink(at(source, "new"));
        remove_tree(at(target, "source"));
    }
}

/* The same size and time, but another content: it is sent. */
static void test_not_what_it_seems(void **state)
{
    (void)state;
    make_file(from, 20 * MIB, 1);
    make_file(at(target, "elsewhere"), 20 * MIB, 2);
    set_time(from, 1000, 0);
    set_time(at(target, "elsewhere"), 1000, 0);
    run(0);
    assert_true(copy.finished && copy.failures == 0);
    assert_same_tree(from, to);
    assert_int_equal(copy.content, 20);
    assert_int_equal(copy.kept, 0);
    assert_file(at(target, "elsewhere"), 20 * MIB, 2);
}

static void test_reference(void **state)
{
    (void)state;
    char reference[400];
    snprintf(reference, sizeof reference, "%s/reference", base);
    make_directory(reference, 0755);
    make_file(from, 5 * MIB + 1, 1);
    make_file(at(reference, "same"), 5 * MIB + 1, 1);
    begin(0);
    copy.reference = reference;
    copy_run(&copy);
    assert_arrived();
    assert_int_equal(copy.content, 0);
    assert_int_equal(copy.kept_bytes, 5 * MIB + 1);
    begin(0);
    copy.reference = at(base, "none");
    copy_run(&copy);
    assert_false(copy.opened);
    assert_int_equal(copy.error.kind, ERROR_NOT_FOUND);
}

/* ---- in place ---- */

static void test_in_place(void **state)
{
    (void)state;
    struct stat before, after;
    static const size_t sizes[] = {20 * MIB, 20 * MIB + 99, 17 * MIB + 3, 30 * MIB};
    make_file(from, 20 * MIB + 99, 1);
    for (unsigned i = 0; i < 4; i++) {
        make_old(sizes[i], 2 * MIB + 7, 3);
        if (sizes[i] > 20 * MIB + 99)
            make_old(20 * MIB + 99, 0, 1), truncate(to, (off_t)sizes[i]);
        assert_int_equal(stat(to, &before), 0);
        begin(TRANSFER_IN_PLACE);
        copy.seed = i;
        copy_run(&copy);
        assert_arrived();
        assert_int_equal(stat(to, &after), 0);
        assert_true(before.st_ino == after.st_ino);
        assert_true(copy.content <= 5);
    }
}

static void test_in_place_interrupted(void **state)
{
    (void)state;
    make_file(from, 20 * MIB, 1);
    make_file(to, 20 * MIB, 2);
    begin(TRANSFER_IN_PLACE);
    copy.stop_at = 8;
    copy_run(&copy);
    assert_int_equal(assert_no_litter(target), 1);
    begin(TRANSFER_IN_PLACE);
    copy_run(&copy);
    assert_arrived();
    assert_int_equal(copy.content, 12);
    unlink(to);
    begin(TRANSFER_IN_PLACE); /* a new file is made as any other */
    copy_run(&copy);
    assert_arrived();
}

/* ---- read back ---- */

static void damage_half(void *context, uint8_t *bytes, uint32_t length, bool packed)
{
    (void)bytes, (void)length;
    if (packed || ++*(unsigned *)context != 10)
        return;
    int fd = open(temp_path(""), O_WRONLY);
    assert_int_equal(pwrite(fd, "damage", 6, MIB), 6);
    close(fd);
}

static void test_verify_disk(void **state)
{
    (void)state;
    unsigned blocks = 0;
    make_file(from, 20 * MIB + 3, 1);
    begin(TRANSFER_VERIFY_DISK);
    copy_run(&copy);
    assert_arrived();
    unlink(to);
    begin(TRANSFER_VERIFY_DISK);
    copy.on_block = damage_half;
    copy.context = &blocks;
    copy_run(&copy);
    assert_true(copy.finished);
    assert_int_equal(copy.failures, 1);
    assert_int_equal(copy_line_of(&copy, "large")->error, ERROR_VERIFY);
    assert_false(exists(to));
    assert_int_equal(assert_no_litter(target), 0);
    make_file(from, 1000, 1);
    begin(TRANSFER_VERIFY_DISK);
    copy_run(&copy);
    assert_arrived();
    make_file(from, 0, 1);
    begin(TRANSFER_VERIFY_DISK);
    copy_run(&copy);
    assert_arrived();
}

int main(void)
{
    umask(022);
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_changed_in_the_middle),
        CASE(test_garbage_at_the_beginning),
        CASE(test_shorter_and_different),
        CASE(test_longer),
        CASE(test_nothing_in_common),
        CASE(test_touched),
        CASE(test_small_ones),
        CASE(test_checksum),
        CASE(test_whole),
        CASE(test_orders),
        CASE(test_vanishes_when_offered),
        CASE(test_old_file_changes),
        CASE(test_half_written),
        CASE(test_half_written_and_old),
        CASE(test_half_written_whole),
        CASE(test_source_has_grown),
        CASE(test_killed),
        CASE(test_damaged_half),
        CASE(test_damaged_journal),
        CASE(test_journal_of_another),
        CASE(test_journal_left_behind),
        CASE(test_two_writers),
        CASE(test_holder_is_asked),
        CASE(test_renamed),
        CASE(test_not_what_it_seems),
        CASE(test_reference),
        CASE(test_in_place),
        CASE(test_in_place_interrupted),
        CASE(test_verify_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
