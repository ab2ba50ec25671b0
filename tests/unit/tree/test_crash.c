/* The crash guarantee, process deaths: a copy is killed before and after every file-system call it
 * makes. Under each final name stands the old file or the new one, whole; the next run completes;
 * nothing of ours is left.
 *
 *   test_crash [STEP]     only every STEP-th call (1)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copy.h"
#include "lab/crash_point.h"

#define MIB (1024u * 1024u)
#define RUNS_MAX 20000

static struct copy copy;
static char base[256], source[300], target[300], old[300];
static unsigned call_step = 1;
static uint64_t more_flags; /* of the copies */
static size_t batch_files;  /* 0: as many as there are */

static int setup(void **state)
{
    (void)state;
    strcpy(base, test_directory());
    snprintf(source, sizeof source, "%s/source", base);
    snprintf(target, sizeof target, "%s/target", base);
    snprintf(old, sizeof old, "%s/old", base);
    make_directory(source, 0755);
    make_directory(old, 0755);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    remove_tree(base);
    more_flags = 0;
    batch_files = 0;
    return 0;
}

static void shell(const char *format, const char *a, const char *b)
{
    char command[1024];
    snprintf(command, sizeof command, format, a, b);
    assert_int_equal(system(command), 0);
}

/* The destination as it was before the copy. */
static void restore(void)
{
    if (exists(target))
        remove_tree(target);
    shell("cp -a '%s' '%s'", old, target);
}

static void run(void)
{
    static const char *paths[1];
    paths[0] = source;
    copy = (struct copy){.destination = target,
                         .paths = paths,
                         .path_count = 1,
                         .batch_files = batch_files,
                         .flags = TRANSFER_QUICK_CHECK | more_flags};
    copy_run(&copy);
}

/* Runs a copy in a process that dies at that call. True when it came to its end instead. */
static bool run_until(uint64_t call, bool after)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        crash_point_arm(call, after);
        run();
        _exit(copy.finished && copy.failures == 0 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
        assert_int_equal(WEXITSTATUS(status), 0);
        return true;
    }
    assert_int_equal(WTERMSIG(status), SIGKILL);
    return false;
}

static void check_all(const char *const *names, const char *what, uint64_t call)
{
    for (size_t i = 0; names[i] != NULL; i++)
        assert_old_or_new(at(at(target, "source"), names[i]), at(at(old, "source"), names[i]),
                          at(source, names[i]), what);
    run();
    if (!copy.finished || copy.failures > 0)
        fail_msg("%s call %u: the next run fails: %s", what, (unsigned)call, copy.error.text);
    assert_same_tree(source, at(target, "source"));
    assert_no_litter(target);
}

/* Kills before and after each call, until a copy makes no more. */
static uint64_t kill_everywhere(const char *const *names)
{
    uint64_t call = 1;
    for (bool ended = false; !ended; call += call_step) {
        assert_true(call < RUNS_MAX);
        for (unsigned after = 0; after < 2 && !ended; after++) {
            restore();
            ended = run_until(call, after != 0);
            check_all(names, after != 0 ? "after" : "before", call);
        }
    }
    return call;
}

static void test_small_tree(void **state)
{
    (void)state;
    static const char *const names[] = {"new",         "changed",   "same",  "sub/new",
                                        "sub/changed", "shut/file", "large", "large changed",
                                        "touched",     NULL};
    make_directory(at(source, "sub"), 0750);
    make_directory(at(source, "empty"), 0711);
    make_directory(at(source, "shut"), 0700);
    make_file(at(source, "new"), 3000, 1);
    make_file(at(source, "changed"), 2000, 2);
    make_file(at(source, "same"), 1000, 3);
    make_file(at(source, "sub/new"), 0, 4);
    make_file(at(source, "sub/changed"), 100, 5);
    make_file(at(source, "shut/file"), 10, 6);
    make_file(at(source, "large"), 600000, 7);
    make_file(at(source, "large changed"), 2 * MIB + 5, 8);
    make_file(at(source, "touched"), 2 * MIB, 9);
    make_link("new", at(source, "link"));
    make_link("elsewhere", at(source, "sub/link"));
    chmod(at(source, "shut"), 0500);
    make_directory(at(old, "source"), 0755);
    make_directory(at(old, "source/sub"), 0700);
    make_file(at(old, "source/changed"), 2500, 12);
    shell("cp -p '%s/same' '%s/source/same'", source, old);
    make_file(at(old, "source/sub/changed"), 100, 15);
    make_file(at(old, "source/large changed"), 2 * MIB + 5, 8);
    shell("printf x | dd of='%s/source/large changed' conv=notrunc bs=1 seek=%s 2>/dev/null", old,
          "1500000");
    shell("cp '%s/touched' '%s/source/touched'", source, old);
    make_link("old", at(old, "source/link"));
    uint64_t calls = kill_everywhere(names);
    print_message("killed at each of %u calls\n", (unsigned)calls);
    assert_true(calls > 100);
}

/* A file with a journal, over an old one of which most is kept. */
static void test_large_file(void **state)
{
    (void)state;
    static const char *const names[] = {"large", NULL};
    make_file(at(source, "large"), 17 * MIB + 5, 1);
    make_directory(at(old, "source"), 0755);
    make_file(at(old, "source/large"), 17 * MIB + 5, 1);
    shell("printf x | dd of='%s/source/large' conv=notrunc bs=1 seek=%s 2>/dev/null", old,
          "9000000");
    uint64_t calls = kill_everywhere(names);
    print_message("killed at each of %u calls\n", (unsigned)calls);
    assert_true(calls > 60);
}

/* What stands under the name meanwhile is neither file; the others keep the promise, and the next
 * run ends right. */
static void test_in_place(void **state)
{
    (void)state;
    static const char *const names[] = {"new", "small", NULL};
    more_flags = TRANSFER_IN_PLACE;
    make_file(at(source, "new"), 700000, 1);
    make_file(at(source, "small"), 2000, 2);
    make_file(at(source, "large"), 3 * MIB + 5, 3);
    make_file(at(source, "longer"), 2 * MIB + 5, 4);
    make_file(at(source, "shorter"), MIB + 5, 5);
    make_directory(at(old, "source"), 0755);
    make_file(at(old, "source/small"), 1000, 12);
    make_file(at(old, "source/large"), 3 * MIB + 5, 13);
    make_file(at(old, "source/longer"), MIB + 7, 4);
    make_file(at(old, "source/shorter"), 2 * MIB, 5);
    uint64_t calls = kill_everywhere(names);
    print_message("killed at each of %u calls\n", (unsigned)calls);
    assert_true(calls > 40);
}

/* More than one batch: one is written while another is synced, on two threads. */
static void test_batches(void **state)
{
    (void)state;
    static const char *const names[] = {"new0", "new11", "new21", "old0", NULL};
    char name[32];
    make_directory(at(old, "source"), 0755);
    make_file(at(source, "old0"), 2000, 1);
    make_file(at(old, "source/old0"), 2500, 2);
    for (unsigned i = 0; i < 22; i++) {
        snprintf(name, sizeof name, "new%u", i);
        make_file(at(source, name), 100 + i, i);
    }
    batch_files = 10;
    uint64_t calls = kill_everywhere(names);
    print_message("killed at each of %u calls\n", (unsigned)calls);
    assert_true(calls > 100);
}

int main(int argc, char **argv)
{
    umask(022);
    if (argc > 1)
        call_step = (unsigned)atoi(argv[1]);
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {CASE(test_small_tree), CASE(test_large_file),
                                       CASE(test_in_place), CASE(test_batches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
