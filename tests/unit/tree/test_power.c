/* The crash guarantee, power losses: the disk is cut after every call that changes it, and loses or
 * reorders whatever was not synced. Under each final name stands the old file or the new one,
 * whole; the next run completes; nothing of ours is left. The same after each sync that fails.
 *
 *   test_power [TIMES [STEP]]     random states of each cut (2); only every STEP-th cut (1)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "copy.h"
#include "lab/crash_point.h"
#include "lab/power_disk.h"

#define MIB (1024u * 1024u)

static struct copy copy;
static char base[256], source[300], target[300], old[300];
static unsigned random_states = 2, cut_step = 1;
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
    make_directory(target, 0755);
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

/* The files that `names` lists are copied as a tree, or one by one as operands. */
static bool one_by_one;
static const char *const *names;

static void run_anyhow(void)
{
    static char files[4][400];
    static const char *paths[4];
    size_t count = 0;
    for (; one_by_one && names[count] != NULL; count++) {
        snprintf(files[count], sizeof files[count], "%s/%s", source, names[count]);
        paths[count] = files[count];
    }
    if (!one_by_one)
        paths[count++] = source;
    copy = (struct copy){.destination = target,
                         .paths = paths,
                         .path_count = count,
                         .batch_files = batch_files,
                         .flags =
                             TRANSFER_QUICK_CHECK | TRANSFER_DESTINATION_IS_DIRECTORY | more_flags};
    copy_run(&copy);
}

static void run(void)
{
    run_anyhow();
    if (!copy.finished || copy.failures > 0)
        fail_msg("the run fails: %s", copy.error.text);
}

static void assert_complete(void)
{
    for (size_t i = 0; one_by_one && names[i] != NULL; i++)
        assert_same_tree(at(source, names[i]), at(target, names[i]));
    if (!one_by_one)
        assert_same_tree(source, at(target, "source"));
}

static void check_state(const struct power_disk *disk, size_t cut, enum power_luck luck,
                        uint64_t seed)
{
    remove_tree(target);
    make_directory(target, 0755);
    power_disk_write(disk, cut, luck, seed, target);
    for (size_t i = 0; names[i] != NULL; i++) {
        char text[32];
        snprintf(text, sizeof text, "cut %u luck %u", (unsigned)cut, (unsigned)luck);
        /* Once success was said, nothing that is lost may matter. */
        const char *inside = one_by_one ? "." : "source";
        const char *before = at(at(old, inside), names[i]), *wanted = at(source, names[i]);
        bool ended = cut == power_disk_count(disk);
        /* In place anything may stand there meanwhile; that the next run finds it out is enough. */
        if (ended || (more_flags & TRANSFER_IN_PLACE) == 0)
            assert_old_or_new(at(at(target, inside), names[i]), ended ? wanted : before, wanted,
                              text);
    }
    run();
    assert_complete();
    assert_no_litter(target);
}

/* Cuts the power of one copy everywhere. */
static void cut_everywhere(const char *const *copied, bool as_operands)
{
    names = copied;
    one_by_one = as_operands;
    char command[700];
    snprintf(command, sizeof command, "cp -a '%s' '%s'", target, old);
    assert_int_equal(system(command), 0);
    struct power_disk *disk = power_disk_new(target);
    run();
    power_disk_stop(disk);
    assert_complete();
    size_t count = power_disk_count(disk);
    size_t step = (more_flags & TRANSFER_IN_PLACE) != 0 ? 1 : cut_step; /* there are few */
    for (size_t cut = 0; cut <= count; cut += step) {
        check_state(disk, cut, POWER_ALL_LOST, 0);
        check_state(disk, cut, POWER_ALL_THERE, 0);
        for (unsigned i = 0; i < random_states; i++)
            check_state(disk, cut, POWER_RANDOM, cut * 1000 + i);
    }
    print_message("cut after each of %u calls\n", (unsigned)count);
    assert_true(count > ((more_flags & TRANSFER_IN_PLACE) != 0 ? 4 : 10));
    power_disk_free(disk);
}

static void make_small_tree(void)
{
    make_directory(at(source, "sub"), 0750);
    make_file(at(source, "new"), 3000, 1);
    make_file(at(source, "changed"), 2000, 2);
    make_file(at(source, "sub/new"), 10, 4);
    make_file(at(source, "sub/changed"), 100, 5);
    make_file(at(source, "large"), 700000, 7);
    make_link("new", at(source, "link"));
    for (unsigned i = 0; i < 12; i++) { /* more than are synced one by one */
        char name[32];
        snprintf(name, sizeof name, "many%u", i);
        make_file(at(source, name), 100 + i, i);
    }
    make_directory(at(target, "source"), 0755);
    make_directory(at(target, "source/sub"), 0750);
    make_file(at(target, "source/changed"), 2500, 12);
    make_file(at(target, "source/sub/changed"), 100, 15);
    make_link("old", at(target, "source/link"));
}

static void test_small_tree(void **state)
{
    (void)state;
    static const char *const copied[] = {"new", "changed", "sub/new", "sub/changed", "large", NULL};
    make_small_tree();
    cut_everywhere(copied, false);
}

/* Alone, so that nothing else syncs what it needs. */
static void test_large_file(void **state)
{
    (void)state;
    static const char *const copied[] = {"large", NULL};
    make_file(at(source, "large"), 17 * MIB + 5, 1);
    make_file(at(target, "large"), 17 * MIB - 5, 1);
    cut_everywhere(copied, true);
}

/* Same size, one block differs: the time alone tells the next run whether to look at it. */
static void test_in_place(void **state)
{
    (void)state;
    static const char *const copied[] = {"large", NULL};
    more_flags = TRANSFER_IN_PLACE;
    make_file(at(source, "large"), 3 * MIB + 5, 1);
    set_time(at(source, "large"), 2000, 7);
    make_file(at(target, "large"), 3 * MIB + 5, 2);
    set_time(at(target, "large"), 1000, 7);
    cut_everywhere(copied, true);
}

/* It grows or shrinks where it stands. */
static void test_in_place_resized(void **state)
{
    (void)state;
    static const char *const copied[] = {"longer", "shorter", NULL};
    more_flags = TRANSFER_IN_PLACE;
    make_file(at(source, "longer"), 2 * MIB + 5, 1);
    make_file(at(target, "longer"), MIB + 7, 1);
    make_file(at(source, "shorter"), MIB + 5, 1);
    make_file(at(target, "shorter"), 2 * MIB, 1);
    cut_everywhere(copied, true);
}

/* Without any directory in the copy, whose end would sync everything. */
static void make_plain_files(void)
{
    make_file(at(source, "small"), 1000, 1);
    make_file(at(source, "middle"), 700000, 2);
    make_file(at(source, "large"), 17 * MIB, 3);
    make_file(at(target, "small"), 1001, 4);
}

static void test_plain_files(void **state)
{
    (void)state;
    static const char *const copied[] = {"small", "middle", "large", NULL};
    make_plain_files();
    cut_everywhere(copied, true);
}

/* More than one batch: one is written while another is synced, on two threads, and the names of the
 * first are durable with the bytes of the second. */
static const char *const batches[] = {"new0", "new17", "new23", "old3", "old5", "sub/new", NULL};

static void make_batches(void)
{
    char name[32];
    make_directory(at(source, "sub"), 0750);
    make_file(at(source, "sub/new"), 10, 4);
    make_directory(at(target, "source"), 0755);
    for (unsigned i = 0; i < 24; i++) {
        snprintf(name, sizeof name, "new%u", i);
        make_file(at(source, name), 100 + i, i);
    }
    for (unsigned i = 0; i < 6; i++) {
        char there[48];
        snprintf(name, sizeof name, "old%u", i);
        snprintf(there, sizeof there, "source/%s", name);
        make_file(at(source, name), 200 + i, i);
        make_file(at(target, there), 300 + i, i);
    }
    batch_files = 10;
}

static void test_batches(void **state)
{
    (void)state;
    unsigned step = cut_step;
    make_batches();
    cut_step *= 3;
    cut_everywhere(batches, false);
    cut_step = step;
}

/* ---- syncs that fail ---- */

/* One sync of a run fails. Whatever the run then says, nothing wrong stands under a final name; the
 * next run completes, and by then everything is on the disk, although what the failed sync was to
 * write is lost for good. */
static bool fail_a_sync(uint64_t number, const char *start)
{
    char command[700];
    remove_tree(target);
    snprintf(command, sizeof command, "cp -a '%s' '%s'", start, target);
    assert_int_equal(system(command), 0);
    struct power_disk *disk = power_disk_new(target);
    crash_point_fail_sync(number);
    run_anyhow();
    bool reached = crash_point_syncs() >= number;
    crash_point_fail_sync(0);
    for (size_t i = 0; names[i] != NULL; i++) {
        const char *inside = one_by_one ? "." : "source";
        assert_old_or_new(at(at(target, inside), names[i]), at(at(old, inside), names[i]),
                          at(source, names[i]), "after a failed sync");
    }
    bool in_place = (more_flags & TRANSFER_IN_PLACE) != 0;
    if (in_place && copy.failures > 0)
        more_flags |= TRANSFER_WHOLE; /* as was said */
    run();
    more_flags &= ~(uint64_t)TRANSFER_WHOLE;
    power_disk_stop(disk);
    assert_complete();
    assert_no_litter(target);
    check_state(disk, power_disk_count(disk), POWER_ALL_LOST, 0);
    power_disk_free(disk);
    return reached;
}

static void fail_each_sync(const char *const *copied, bool as_operands, uint64_t least)
{
    names = copied;
    one_by_one = as_operands;
    char command[700];
    snprintf(command, sizeof command, "cp -a '%s' '%s'", target, old);
    assert_int_equal(system(command), 0);
    uint64_t number = 1;
    while (fail_a_sync(number, old))
        number++;
    print_message("each of %u syncs has failed\n", (unsigned)number - 1);
    assert_true(number > least);
}

static void test_failing_syncs(void **state)
{
    (void)state;
    static const char *const copied[] = {"new", "changed", "sub/new", "sub/changed", "large", NULL};
    make_small_tree();
    fail_each_sync(copied, false, 4);
}

static void test_failing_syncs_of_batches(void **state)
{
    (void)state;
    make_batches();
    fail_each_sync(batches, false, 4);
}

static void test_failing_syncs_of_plain_files(void **state)
{
    (void)state;
    static const char *const copied[] = {"small", "middle", "large", NULL};
    make_plain_files();
    fail_each_sync(copied, true, 4);
}

/* Alone, so that no other sync makes up for one. */
static void test_failing_syncs_of_a_large_file(void **state)
{
    (void)state;
    static const char *const copied[] = {"large", NULL};
    make_file(at(source, "large"), 17 * MIB + 5, 1);
    fail_each_sync(copied, true, 2);
    remove_tree(old);
    make_file(at(target, "large"), 17 * MIB - 5, 1);
    fail_each_sync(copied, true, 2);
}

static void test_failing_syncs_in_place(void **state)
{
    (void)state;
    static const char *const copied[] = {"large", NULL};
    more_flags = TRANSFER_IN_PLACE;
    make_file(at(source, "large"), 17 * MIB + 5, 1);
    make_file(at(target, "large"), 18 * MIB, 2);
    fail_each_sync(copied, true, 2);
}

int main(int argc, char **argv)
{
    umask(022);
    if (argc > 1)
        random_states = (unsigned)atoi(argv[1]);
    if (argc > 2)
        cut_step = (unsigned)atoi(argv[2]);
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {CASE(test_small_tree),
                                       CASE(test_large_file),
                                       CASE(test_in_place),
                                       CASE(test_in_place_resized),
                                       CASE(test_plain_files),
                                       CASE(test_batches),
                                       CASE(test_failing_syncs),
                                       CASE(test_failing_syncs_of_batches),
                                       CASE(test_failing_syncs_of_plain_files),
                                       CASE(test_failing_syncs_of_a_large_file),
                                       CASE(test_failing_syncs_in_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
