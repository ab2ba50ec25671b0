/* Sources that change, bytes that flip, disks that fill, processes that die. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#undef BLOCK_SIZE /* the system has another */
#include "base/random.h"
#include "copy.h"
#include "tree/pack.h"

#define MIB (1024u * 1024u)

static struct copy copy;
static char base[256], source[300], target[300];

static int setup(void **state)
{
    (void)state;
    strcpy(base, test_directory());
    snprintf(source, sizeof source, "%s/source", base);
    snprintf(target, sizeof target, "%s/target", base);
    make_directory(source, 0755);
    copy = (struct copy){.destination = target};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    umount2(target, MNT_DETACH); /* only test_full_disk mounts, and only for this process */
    remove_tree(base);
    return 0;
}

static void run(void)
{
    static const char *paths[1];
    paths[0] = source;
    if (copy.paths == NULL) {
        copy.paths = paths;
        copy.path_count = 1;
    }
    copy_run(&copy);
}

/* ---- a source that changes after its first blocks were read ---- */

enum change { SHRINK, GROW, OVERWRITE, REMOVE, RENAME, REPLACE };

static void change_large(void *context, uint64_t blocks)
{
    if (blocks != 3)
        return;
    char path[512];
    strcpy(path, at(source, "large"));
    struct stat status;
    int fd;
    switch (*(enum change *)context) {
    case SHRINK:
        assert_int_equal(truncate(path, 3 * MIB), 0);
        break;
    case GROW:
        fd = open(path, O_WRONLY | O_APPEND);
        assert_int_equal(write(fd, "more", 4), 4);
        close(fd);
        break;
    case OVERWRITE:
        assert_int_equal(stat(path, &status), 0);
        fd = open(path, O_WRONLY);
        assert_int_equal(pwrite(fd, "more", 4, 4 * MIB), 4);
        close(fd);
        break;
    case REMOVE:
        unlink(path);
        break;
    case RENAME:
        rename(path, at(base, "elsewhere"));
        break;
    case REPLACE:
        make_file(at(base, "new"), 100, 5);
        rename(at(base, "new"), path);
        break;
    }
}

static void test_large_changes(void **state)
{
    (void)state;
    for (enum change change = SHRINK; change <= REPLACE; change++) {
        unlink(at(source, "large"));
        make_file(at(source, "large"), 6 * MIB, 1);
        set_time(at(source, "large"), 1000, 1);
        make_file(at(source, "other"), 3 * MIB, 2);
        make_file(at(source, "z small"), 30, 3);
        copy = (struct copy){.destination = target,
                             .before_step = change_large,
                             .context = &change,
                             .seed = 7,
                             .window = 2};
        run();
        assert_true(copy.finished);
        assert_file(at(target, "source/other"), 3 * MIB, 2);
        assert_file(at(target, "source/z small"), 30, 3);
        const struct copy_line *line = copy_line_of(&copy, "source/large");
        assert_non_null(line);
        if (change == SHRINK || change == OVERWRITE) {
            assert_int_equal(copy.withdrawn, 1);
            assert_int_equal(copy.failures, 1);
            assert_int_equal(line->kind, SINK_FILE_FAILED);
            assert_int_equal(line->error, ERROR_CHANGED);
            assert_false(exists(at(target, "source/large")));
        } else if (change == GROW) {
            assert_int_equal(copy.problems, 1);
            assert_int_equal(copy.problem.kind, ERROR_CHANGED);
        } else { /* the open file is what was asked for */
            assert_int_equal(copy.problems + copy.withdrawn, 0);
        }
        if (change != SHRINK && change != OVERWRITE)
            assert_file(at(target, "source/large"), 6 * MIB, 1);
        assert_no_litter(target);
        remove_tree(target);
    }
}

/* What was offered and answered "send" may be gone, or another thing, when its turn comes. */
static void change_offered(void *context, uint64_t blocks)
{
    (void)context;
    if (blocks != 1)
        return;
    unlink(at(source, "gone"));
    unlink(at(source, "turned"));
    mkdir(at(source, "turned"), 0755);
    make_file(at(source, "grown"), 2 * MIB, 9);
    make_file(at(source, "shrunk"), 9, 9);
}

static void test_offered_changes(void **state)
{
    (void)state;
    static const char *const names[] = {"gone", "turned", "grown", "shrunk"};
    for (size_t i = 0; i < 4; i++)
        make_file(at(source, names[i]), i == 3 ? MIB : 100, i);
    run();
    assert_true(copy.finished);
    copy = (struct copy){.destination = target, .before_step = change_offered};
    run();
    assert_true(copy.finished);
    assert_true(copy.offers > 0);
    assert_int_equal(copy.problems, 2);
    assert_int_equal(copy.done, 2);
    assert_file(at(target, "source/grown"), 2 * MIB, 9);
    assert_file(at(target, "source/shrunk"), 9, 9);
}

static void remove_listed(void *context, uint64_t blocks)
{
    (void)context;
    if (blocks == 1)
        unlink(at(source, "b"));
}

static void test_vanished_before_read(void **state)
{
    (void)state;
    /* 64 large files end the first block before "b" is reached; its name is already listed. */
    for (int i = 0; i < 70; i++) {
        char name[16];
        snprintf(name, sizeof name, "a%02d", i);
        make_file(at(source, name), 600000, (uint64_t)i);
    }
    make_file(at(source, "b"), 10, 1);
    make_file(at(source, "c"), 10, 2);
    copy = (struct copy){.destination = target, .before_step = remove_listed};
    run();
    assert_true(copy.finished);
    assert_int_equal(copy.problems, 1);
    assert_int_equal(copy.problem.kind, ERROR_CHANGED);
    assert_int_equal(copy.done, 71);
    assert_file(at(target, "source/c"), 10, 2);
}

static void test_missing_source(void **state)
{
    (void)state;
    make_file(at(source, "f"), 10, 1);
    const char *paths[] = {at(source, "none"), at(source, "f"), at(source, "none either")};
    make_directory(target, 0755);
    copy.paths = paths;
    copy.path_count = 3;
    run();
    assert_true(copy.finished);
    assert_int_equal(copy.problems, 2);
    assert_int_equal(copy.done, 1);
    paths[1] = at(source, "nor this");
    copy = (struct copy){.destination = target, .paths = paths, .path_count = 3};
    run();
    assert_true(copy.failed);
    assert_int_equal(copy.error.kind, ERROR_NOT_FOUND);
}

/* ---- bytes that change between the source's hash and the disk ---- */

struct flip {
    bool packed;
    int after;
};

static void flip_byte(void *context, uint8_t *bytes, uint32_t length, bool packed)
{
    struct flip *flip = context;
    if (flip->packed == packed && flip->after-- == 0)
        bytes[length - 1] ^= 1;
}

static void test_flips(void **state)
{
    (void)state;
    make_file(at(source, "large"), 5 * MIB + 5, 1);
    make_file(at(source, "single"), 600000, 2);
    make_file(at(source, "z"), 10, 3); /* its last byte is the packed block's */
    for (int i = 0; i < 8; i++) {
        struct flip flip = {.packed = i == 7, .after = i == 7 ? 0 : i};
        copy = (struct copy){
            .destination = target, .on_block = flip_byte, .context = &flip, .seed = 5};
        run();
        assert_true(copy.finished);
        assert_int_equal(copy.failures, 1);
        assert_int_equal(copy.done, 2);
        for (size_t k = 0; k < copy.line_count; k++) {
            if (copy.lines[k].kind == SINK_FILE_FAILED)
                assert_int_equal(copy.lines[k].error, ERROR_VERIFY);
        }
        assert_int_equal(assert_no_litter(target), 3);
        remove_tree(target);
    }
}

/* ---- a full disk ---- */

static void test_full_disk(void **state)
{
    (void)state;
    make_directory(target, 0755);
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", target, "tmpfs", 0, "size=6m") != 0)
        skip();
    make_file(at(source, "a"), 1000, 1);
    make_file(at(source, "large"), 8 * MIB, 2);
    make_file(at(source, "medium"), 3 * MIB, 3);
    for (int i = 0; i < 12; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        make_file(at(source, name), 500000, (uint64_t)i);
    }
    copy.seed = 3;
    run(); /* nothing is there yet: it is known that it cannot fit */
    assert_true(copy.failed);
    assert_int_equal(copy.error.kind, ERROR_NO_SPACE);
    assert_int_equal(copy.done, 0);
    assert_int_equal(assert_no_litter(target), 0);
    make_directory(at(target, "source"), 0755); /* now it is not known, and it is found later */
    copy = (struct copy){.destination = target, .seed = 3};
    run();
    assert_true(copy.failed);
    assert_int_equal(copy.error.kind, ERROR_NO_SPACE);
    assert_non_null(strstr(copy.error.text, "source/"));
    assert_non_null(strstr(copy.error.text, "run the same again"));
    assert_int_equal(copy.failures, 0);
    size_t before = assert_no_litter(target) - 1; /* besides the directory */
    /* Room is made, and the rerun goes on. */
    unlink(at(source, "large"));
    for (int i = 3; i < 12; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        unlink(at(source, name));
        unlink(at(at(target, "source"), name));
    }
    copy = (struct copy){.destination = target, .flags = TRANSFER_QUICK_CHECK};
    run();
    assert_true(copy.finished);
    assert_int_equal(copy.failures, 0);
    assert_true(copy.skipped > 0 && before > 0);
    assert_same_tree(source, at(target, "source"));
}

/* ---- kill -9 at any moment: the old file or the new one, and the rerun clears up ---- */

static const size_t kill_sizes[] = {10, 100, 3000, 600000, 2 * MIB + 1, 5 * MIB, 20 * MIB};
#define KILL_FILES (sizeof kill_sizes / sizeof kill_sizes[0])

static void make_generation(uint64_t generation)
{
    for (size_t i = 0; i < KILL_FILES; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%zu", i);
        make_file(at(source, name), kill_sizes[i], generation * 100 + i);
        set_time(at(source, name), (int64_t)(1000 + generation), (long)generation);
    }
}

/* Which generation the file at the destination is of. */
static uint64_t generation_of(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return (uint64_t)(status.st_mtim.tv_sec - 1000);
}

static void test_kill(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, 11);
    make_generation(0);
    run();
    assert_true(copy.finished);
    size_t killed = 0;
    for (uint64_t generation = 1; generation <= 10; generation++) {
        make_generation(generation);
        pid_t child = fork();
        if (child == 0) {
            copy = (struct copy){
                .destination = target, .flags = TRANSFER_QUICK_CHECK, .seed = generation};
            run();
            _exit(0);
        }
        usleep((useconds_t)random_below(&random, 30000));
        kill(child, SIGKILL);
        int status;
        waitpid(child, &status, 0);
        killed += WIFSIGNALED(status);
        for (size_t i = 0; i < KILL_FILES; i++) {
            char name[32];
            snprintf(name, sizeof name, "source/f%zu", i);
            uint64_t found = generation_of(at(target, name));
            assert_true(found == generation || found == generation - 1);
            assert_file(at(target, name), kill_sizes[i], found * 100 + i);
        }
        copy = (struct copy){.destination = target, .flags = TRANSFER_QUICK_CHECK};
        run();
        assert_true(copy.finished);
        assert_int_equal(copy.failures, 0);
        assert_same_tree(source, at(target, "source"));
    }
    assert_true(killed > 0);
}

/* ---- pull, dry run ---- */

static void test_pull(void **state)
{
    (void)state;
    make_file(at(source, "a.c"), 10, 1);
    make_file(at(source, "b.c"), MIB, 2);
    make_file(at(source, ".h.c"), 10, 3);
    make_file(at(source, "x.h"), 10, 4);
    make_directory(at(source, "d.c"), 0755);
    make_file(at(source, "d.c/in"), 10, 5);
    make_directory(target, 0755);
    const char *paths[] = {at(source, "*.c"), at(source, "none*")};
    copy = (struct copy){.destination = target,
                         .flags = TRANSFER_WILDCARDS,
                         .pull = true,
                         .paths = paths,
                         .path_count = 2,
                         .seed = 2};
    run();
    assert_true(copy.finished);
    assert_int_equal(copy.problems, 1);
    assert_int_equal(copy.problem.kind, ERROR_NOT_FOUND);
    assert_int_equal(copy.done, 3);
    assert_file(at(target, "b.c"), MIB, 2);
    assert_file(at(target, "d.c/in"), 10, 5);
    assert_false(exists(at(target, "x.h")));
    assert_false(exists(at(target, ".h.c")));
}

static void test_dry_run(void **state)
{
    (void)state;
    make_directory(at(source, "d"), 0755);
    make_file(at(source, "d/small"), 10, 1);
    make_file(at(source, "large"), 3 * MIB, 2);
    make_link("large", at(source, "link"));
    copy.flags = TRANSFER_DRY_RUN;
    run();
    assert_true(copy.finished);
    assert_int_equal(copy.done, 2);
    assert_int_equal(copy.content + copy.verified_bytes, 0);
    assert_false(exists(target));
    copy = (struct copy){.destination = target};
    run();
    assert_true(copy.finished);
    make_file(at(source, "new"), 10, 1);
    copy = (struct copy){.destination = target, .flags = TRANSFER_DRY_RUN | TRANSFER_QUICK_CHECK};
    run();
    assert_true(copy.finished);
    assert_int_equal(copy.done, 1);
    assert_int_equal(copy.skipped, 2);
    assert_false(exists(at(target, "source/new")));
}

static void test_follow_links(void **state)
{
    (void)state;
    make_directory(at(base, "outside"), 0755);
    make_file(at(base, "outside/f"), 10, 1);
    make_link("../outside", at(source, "dir"));
    make_link("../outside/f", at(source, "file"));
    make_link("none", at(source, "dangling"));
    make_link("..", at(source, "loop"));
    make_link("source", at(base, "operand"));
    const char *paths[] = {at(base, "operand")};
    copy = (struct copy){
        .destination = target, .flags = TRANSFER_FOLLOW_LINKS, .paths = paths, .path_count = 1};
    run();
    assert_true(copy.finished);
    assert_file(at(target, "operand/dir/f"), 10, 1);
    assert_file(at(target, "operand/file"), 10, 1);
    struct stat status;
    assert_int_equal(lstat(at(target, "operand/file"), &status), 0);
    assert_true(S_ISREG(status.st_mode));
    assert_true(copy.problems >= 2);
    copy = (struct copy){.destination = target, .paths = paths, .path_count = 1};
    run(); /* a file where a link should go now, and a directory where one should */
    assert_true(copy.finished);
    assert_int_equal(copy.failures, 2);
    assert_int_equal(lstat(at(target, "operand/file"), &status), 0);
    assert_true(S_ISLNK(status.st_mode));
}

/* A deep tree at the destination too, and names that end where paths end. */
static void test_deep_tree(void **state)
{
    (void)state;
    int fd = open(source, O_RDONLY | O_DIRECTORY);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(mkdirat(fd, "dd", 0700), 0);
        int next = openat(fd, "dd", O_RDONLY | O_DIRECTORY);
        close(fd);
        fd = next;
    }
    close(openat(fd, "f", O_WRONLY | O_CREAT, 0600));
    close(fd);
    copy.seed = 4;
    run();
    assert_true(copy.finished);
    assert_int_equal(copy.done, 1);
    assert_int_equal(copy.failures + copy.problems, 0);
}

int main(void)
{
    umask(022);
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_large_changes),  CASE(test_offered_changes), CASE(test_vanished_before_read),
        CASE(test_missing_source), CASE(test_flips),           CASE(test_kill),
        CASE(test_pull),           CASE(test_dry_run),         CASE(test_follow_links),
        CASE(test_deep_tree),      CASE(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
