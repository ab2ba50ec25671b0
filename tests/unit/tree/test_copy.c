/* Whole copies, source to sink: trees, sizes, orders, updates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copy.h"
#include "crypto/tree_hash.h"
#include "tree/pack.h"

#define KIB 1024u
#define MIB (1024u * 1024u)

static struct copy copy; /* large: not on the stack */

static void run(uint32_t flags, uint64_t seed, const char *path, const char *destination)
{
    const char *paths[1] = {path};
    copy = (struct copy){
        .flags = flags, .seed = seed, .destination = destination, .paths = paths, .path_count = 1};
    copy_run(&copy);
}

static void assert_clean(void)
{
    if (copy.failed || !copy.opened)
        fail_msg("%s", copy.error.text);
    if (copy.problems + copy.failures + copy.withdrawn != 0)
        fail_msg("%s", copy.problem.text);
    assert_true(copy.finished);
}

static void test_sizes(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,       1,   4095,    512 * KIB - 1, 512 * KIB, 512 * KIB + 1,
                                   MIB - 1, MIB, MIB + 1, 2 * MIB,       5 * MIB,   5 * MIB + 7};
    const char *base = test_directory();
    char source[256], target[256];
    snprintf(source, sizeof source, "%s/source", base);
    make_directory(source, 0755);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "f%zu", sizes[i]);
        make_file(at(source, name), sizes[i], i + 1);
        set_time(at(source, name), 1000000000 + (int64_t)i, 123456789);
    }
    for (uint64_t seed = 0; seed < 6; seed++) {
        snprintf(target, sizeof target, "%s/target%u", base, (unsigned)seed);
        run(0, seed, source, target);
        assert_clean();
        assert_int_equal(copy.done, sizeof sizes / sizeof sizes[0]);
        assert_true(copy.totals_final);
        assert_int_equal(copy.total_files, copy.done);
        assert_int_equal(copy.total_bytes, copy.verified_bytes);
        assert_same_tree(source, at(target, "source"));
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            char name[64];
            snprintf(name, sizeof name, "source/f%zu", sizes[i]);
            const struct copy_line *line = copy_line_of(&copy, name);
            assert_non_null(line);
            assert_int_equal(line->size, sizes[i]);
        }
    }
    remove_tree(base);
}

/* The hash that is reported is the one that b3sum prints. */
static void test_hash_is_b3sum(void **state)
{
    (void)state;
    if (system("b3sum --version >/dev/null 2>&1") != 0)
        skip();
    char base[256];
    strcpy(base, test_directory());
    make_file(at(base, "f"), 3 * MIB + 77, 5);
    make_file(at(base, "g"), 1000, 6);
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "f" : "g";
        char command[512], line[128] = "", hex[65];
        run(0, 3, at(base, name), at(base, "copy"));
        assert_clean();
        snprintf(command, sizeof command, "b3sum --no-names %s/copy", base);
        FILE *pipe = popen(command, "r");
        assert_non_null(fgets(line, sizeof line, pipe));
        pclose(pipe);
        const struct copy_line *done = copy_line_of(&copy, "copy");
        assert_non_null(done);
        for (int k = 0; k < 32; k++)
            sprintf(hex + 2 * k, "%02x", done->hash[k]);
        assert_memory_equal(line, hex, 64);
    }
    remove_tree(base);
}

static void make_odd_tree(const char *base)
{
    char long_name[256];
    memset(long_name, 'n', 255);
    long_name[255] = '\0';
    make_directory(base, 0755);
    static const char *const names[] = {
        "new\nline",   "-dash", "co:lon", "trailing ", " leading", "\xff\xfe\x80",       "quote'\"",
        "back\\slash", "*",     "?",      ".hidden",   "$(x)",     "gr\xc3\xbc\xc3\x9f", "Case",
        "case",        "...",   "a\tb",   "\x01",      "~"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        make_file(at(base, names[i]), 10 + i, i + 1);
    make_file(at(base, long_name), 700 * KIB, 77);
    make_directory(at(base, "empty"), 0755);
    make_directory(at(base, "d\nir"), 0750);
    make_file(at(base, "d\nir/inner"), 5, 9);
    make_file(at(base, "zero"), 0, 1);
    make_file(at(base, "readonly"), 100, 2);
    chmod(at(base, "readonly"), 0444);
    make_file(at(base, "readonly large"), 2 * MIB, 3);
    chmod(at(base, "readonly large"), 0444);
    make_file(at(base, "unreadable later"), 100, 2);
    chmod(at(base, "unreadable later"), 0200);
    make_file(at(base, "suid"), 10, 2);
    chmod(at(base, "suid"), 04755);
    make_directory(at(base, "closed"), 0700);
    make_file(at(base, "closed/in"), 9, 2);
    make_directory(at(base, "closed/deep"), 0755);
    make_file(at(base, "closed/deep/in"), 9, 3);
    chmod(at(base, "closed/deep"), 0555);
    chmod(at(base, "closed"), 0555);
    make_directory(at(base, "sticky"), 01777);
    make_link("zero", at(base, "link"));
    make_link("nowhere", at(base, "dangling"));
    make_link("/etc/passwd", at(base, "absolute"));
    make_link("../..", at(base, "up"));
    make_link("empty", at(base, "link to directory"));
    set_time(at(base, "link"), 1234567890, 5);
    set_time(at(base, "zero"), -5, 999999999);
    set_time(at(base, "closed"), 1111111111, 1);
    set_time(base, 999999999, 42);
}

static void test_odd_tree(void **state)
{
    (void)state;
    char base[256], source[300], target[300];
    strcpy(base, test_directory());
    snprintf(source, sizeof source, "%s/source", base);
    make_odd_tree(source);
    chmod(at(source, "unreadable later"), geteuid() == 0 ? 0200 : 0600);
    for (uint64_t seed = 0; seed < 4; seed++) {
        snprintf(target, sizeof target, "%s/t%u", base, (unsigned)seed);
        run(0, seed, source, target);
        assert_clean();
        assert_string_equal(
            copy.note, "1 lost their set-user-id or set-group-id bit: it goes only with the owner");
        assert_same_tree(source, at(target, "source"));
        /* Again, over what is there, in read-only directories too. */
        run(TRANSFER_QUICK_CHECK, seed, source, target);
        assert_clean();
        assert_int_equal(copy.done, 0);
        assert_true(copy.skipped > 20);
        assert_same_tree(source, at(target, "source"));
        /* By content, and without looking at what is there. */
        run(0, seed, source, target);
        assert_clean();
        assert_int_equal(copy.done, 0);
        assert_true(copy.skipped > 20);
        run(TRANSFER_WHOLE, seed, source, target);
        assert_clean();
        assert_int_equal(copy.skipped, 0);
        assert_same_tree(source, at(target, "source"));
    }
    remove_tree(base);
}

static void test_update(void **state)
{
    (void)state;
    char base[256], source[300], target[300];
    strcpy(base, test_directory());
    snprintf(source, sizeof source, "%s/source", base);
    snprintf(target, sizeof target, "%s/target", base);
    make_directory(source, 0755);
    make_directory(at(source, "d"), 0755);
    for (unsigned i = 0; i < 3000; i++) {
        char name[32];
        snprintf(name, sizeof name, "d/f%u", i);
        make_file(at(source, name), i % 50, i);
    }
    make_file(at(source, "large"), 3 * MIB, 1);
    make_file(at(source, "large 2"), 3 * MIB, 2);
    run(TRANSFER_QUICK_CHECK, 1, source, target);
    assert_clean();
    assert_int_equal(copy.offers, 0);
    assert_int_equal(copy.done, 3002);
    make_file(at(source, "d/f7"), 60, 99);
    make_file(at(source, "large 2"), 3 * MIB, 3);
    set_time(at(source, "large 2"), 5, 5);
    chmod(at(source, "d/f8"), 0700);
    run(TRANSFER_QUICK_CHECK, 2, source, target);
    assert_clean();
    assert_true(copy.offers > 0);
    assert_int_equal(copy.done, 2);
    assert_int_equal(copy.skipped, 3000);
    assert_same_tree(source, at(target, "source"));
    remove_tree(base);
}

static void test_where_it_lands(void **state)
{
    (void)state;
    char base[256];
    strcpy(base, test_directory());
    make_directory(at(base, "dir"), 0755);
    make_text(at(base, "dir/f"), "f");
    make_text(at(base, "file"), "file");
    char source[300], contents[300], target[300];
    snprintf(source, sizeof source, "%s/dir", base);
    snprintf(contents, sizeof contents, "%s/dir/", base);
    for (int again = 0; again < 2; again++) { /* twice: the same tree */
        snprintf(target, sizeof target, "%s/to1", base);
        run(0, 0, source, target);
        assert_clean();
        assert_text(at(target, "dir/f"), "f");
        snprintf(target, sizeof target, "%s/to2", base);
        run(0, 0, contents, target);
        assert_clean();
        assert_text(at(target, "f"), "f");
        snprintf(target, sizeof target, "%s/to3", base);
        run(0, 0, at(base, "file"), target);
        assert_clean();
        assert_text(target, "file");
        snprintf(target, sizeof target, "%s/to2", base);
        run(0, 0, at(base, "file"), target);
        assert_clean();
        assert_text(at(target, "file"), "file");
        snprintf(target, sizeof target, "%s/to2/", base);
        run(0, 0, at(base, "file"), target);
        assert_clean();
        assert_int_equal(assert_no_litter(at(base, "to2")), 2);
        snprintf(target, sizeof target, "%s/to4/a/b", base);
        run(TRANSFER_MAKE_PATH, 0, at(base, "file"), target);
        assert_clean();
        assert_text(target, "file");
        snprintf(target, sizeof target, "%s/to5/a/b", base);
        run(TRANSFER_MAKE_PATH, 0, source, target);
        assert_clean();
        assert_text(at(target, "dir/f"), "f");
    }
    static const struct {
        const char *source, *target;
        enum error_kind kind;
    } refused[] = {{"file", "no/where", ERROR_NOT_FOUND}, {"dir", "no/where", ERROR_NOT_FOUND},
                   {"file", "no/", ERROR_NOT_FOUND},      {"dir", "file", ERROR_EXISTS},
                   {"file", "file/", ERROR_EXISTS},       {"missing", "to1", ERROR_NOT_FOUND},
                   {"file", "file/x", ERROR_NOT_FOUND}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        run(0, 0, at(base, refused[i].source), at(base, refused[i].target));
        assert_false(copy.opened);
        assert_int_equal(copy.error.kind, refused[i].kind);
        assert_false(exists(at(base, "no")));
    }
    remove_tree(base);
}

static void test_permissions(void **state)
{
    (void)state;
    if (geteuid() == 0)
        skip(); /* nothing is forbidden */
    char base[256], source[300], target[300];
    strcpy(base, test_directory());
    snprintf(source, sizeof source, "%s/source", base);
    snprintf(target, sizeof target, "%s/target", base);
    make_directory(source, 0755);
    make_file(at(source, "closed"), 10, 1);
    make_file(at(source, "closed large"), MIB, 1);
    make_file(at(source, "fine"), 10, 2);
    chmod(at(source, "closed"), 0);
    chmod(at(source, "closed large"), 0);
    run(0, 0, source, target);
    assert_true(copy.finished);
    assert_int_equal(copy.problems, 2);
    assert_int_equal(copy.problem.kind, ERROR_PERMISSION);
    assert_int_equal(copy.done, 1);
    chmod(target, 0555);
    run(0, 0, at(source, "fine"), target);
    assert_false(copy.opened);
    assert_int_equal(copy.error.kind, ERROR_PERMISSION);
    run(0, 0, source, at(target, "new"));
    assert_false(copy.opened);
    assert_int_equal(copy.error.kind, ERROR_PERMISSION);
    remove_tree(base);
}

/* The contents of a directory go into one that exists: that one keeps its mode and time, and a
 * read-only one of ours is opened only while it is written to. */
static void test_contents_into_existing(void **state)
{
    (void)state;
    char base[256], source[300], target[300];
    strcpy(base, test_directory());
    snprintf(source, sizeof source, "%s/source/", base);
    snprintf(target, sizeof target, "%s/target", base);
    make_directory(at(base, "source"), 0777);
    make_directory(at(base, "source/sub"), 0755);
    make_text(at(base, "source/sub/f"), "f");
    make_directory(target, 0555);
    run(0, 0, source, target);
    assert_clean();
    struct stat status;
    assert_int_equal(stat(target, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0555);
    assert_text(at(target, "sub/f"), "f");
    /* Below it, too, when the directory's own entry does not come again. */
    chmod(at(target, "sub"), 0500);
    const char *paths[1] = {source};
    copy = (struct copy){
        .destination = target, .paths = paths, .path_count = 1, .stop_before_end = true};
    copy_run(&copy);
    assert_int_equal(stat(target, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0555);
    chmod(target, 0755);
    assert_no_litter(target);
    remove_tree(base);
}

/* On a disk, where direct writes and allocation are real. */
static void test_on_disk(void **state)
{
    (void)state;
    char before[256] = "";
    if (getenv("TMPDIR") != NULL)
        snprintf(before, sizeof before, "%s", getenv("TMPDIR"));
    setenv("TMPDIR", "/var/tmp", 1);
    char base[256];
    strcpy(base, test_directory());
    if (before[0] != '\0')
        setenv("TMPDIR", before, 1);
    else
        unsetenv("TMPDIR");
    make_file(at(base, "f"), 6 * MIB + 4097, 1);
    make_file(at(base, "g"), 6 * MIB, 2);
    run(0, 9, at(base, "f"), at(base, "copy"));
    assert_clean();
    assert_file(at(base, "copy"), 6 * MIB + 4097, 1);
    run(0, 9, at(base, "g"), at(base, "copy"));
    assert_clean();
    assert_file(at(base, "copy"), 6 * MIB, 2);
    remove_tree(base);
}

int main(void)
{
    umask(022);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),          cmocka_unit_test(test_hash_is_b3sum),
        cmocka_unit_test(test_odd_tree),       cmocka_unit_test(test_update),
        cmocka_unit_test(test_where_it_lands), cmocka_unit_test(test_permissions),
        cmocka_unit_test(test_on_disk),        cmocka_unit_test(test_contents_into_existing),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    if (again_as_user(&failures))
        failures = cmocka_run_group_tests(tests, NULL, NULL);
    return failures;
}
