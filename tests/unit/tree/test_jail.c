/* Paths that strangers name: beneath their root or nowhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "tree/beneath.h"
#include "tree/expand.h"
#include "tree/jail.h"

static char base[] = "/tmp/petrel-jail-XXXXXX";
static struct jail_root roots[2];

static void write_file(const char *name)
{
    int fd = open(name, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "text", 4), 4);
    close(fd);
}

/*  secret  a/file  a/sub/deep  a/in -> sub  a/out -> ..  a/away -> /etc  a/back -> ../b  b/other */
static int setup(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(base));
    assert_int_equal(chdir(base), 0);
    assert_int_equal(mkdir("a", 0700) | mkdir("a/sub", 0700) | mkdir("b", 0700), 0);
    write_file("secret");
    write_file("a/file");
    write_file("a/sub/deep");
    write_file("b/other");
    assert_int_equal(symlink("sub", "a/in") | symlink("..", "a/out") | symlink("/etc", "a/away") |
                         symlink("../b", "a/back") | symlink("../secret", "a/leak"),
                     0);
    roots[0] = (struct jail_root){"one", open("a", O_PATH | O_DIRECTORY)};
    roots[1] = (struct jail_root){"two", open("b", O_PATH | O_DIRECTORY)};
    /* Before the jail, paths are what they were. */
    int fd = jail_openat(AT_FDCWD, "a/out/secret", O_RDONLY);
    assert_true(fd >= 0);
    close(fd);
    jail_enter(roots, 2);
    assert_true(jail_is_entered());
    return 0;
}

static int teardown(void **state)
{
    static const char *const files[] = {"secret", "a/file", "a/sub/deep", "b/other", "a/in",
                                        "a/out",  "a/away", "a/back",     "a/leak",  "a/made/more"};
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(files[i]);
    rmdir("a/made/more");
    rmdir("a/made");
    rmdir("a/sub");
    rmdir("a");
    rmdir("b");
    return chdir("/") | rmdir(base);
}

static int why(const char *path)
{
    struct stat status;
    int fd = jail_openat(AT_FDCWD, path, O_RDONLY);
    int error = fd >= 0 ? 0 : errno;
    if (fd >= 0)
        close(fd);
    int result = jail_fstatat(AT_FDCWD, path, &status, 0);
    assert_int_equal(result == 0 ? 0 : errno, error);
    return error;
}

static void what_is_beneath_is_found(void **state)
{
    static const char *const good[] = {"one",          "one/",      "one/.",
                                       "one/file",     "one//file", "one/./file",
                                       "one/sub/deep", "one/sub/",  "two/other"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(why(good[i]), 0);
    assert_int_equal(why("one/missing"), ENOENT);
}

static void nothing_leads_out(void **state)
{
    static const char *const bad[] = {
        "one/..",   "one/../secret",        "one/out",      "one/out/secret",
        "one/away", "one/away/passwd",      "one/back",     "one/back/other",
        "one/leak", "one/sub/../../secret", "two/../a/file"};
    static const char *const nowhere[] = {
        "",        ".",      "..", "/",         "/etc/passwd", "a/file", "secret",
        "three/x", "onetwo", "on", "/one/file", "./one/file",  "~"};
    (void)state;
    for (unsigned walk = 0; walk < 2; walk++) {
        beneath_force_walk(walk);
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
            assert_true(walk != 0 ? why(bad[i]) != 0 : why(bad[i]) == EACCES);
        for (size_t i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++)
            assert_int_equal(why(nowhere[i]), ENOENT);
    }
    beneath_force_walk(false);
}

static void links_within_are_followed(void **state)
{
    struct stat status;
    (void)state;
    assert_int_equal(why("one/in/deep"), 0);
    assert_int_equal(jail_fstatat(AT_FDCWD, "one/leak", &status, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISLNK(status.st_mode)); /* a link may be looked at, and copied as one */
}

static void directories_are_made_beneath(void **state)
{
    (void)state;
    assert_int_equal(jail_mkdir("one/made", 0700), 0);
    assert_int_equal(jail_mkdir("one/made/more/", 0700), 0);
    assert_int_equal(why("one/made/more"), 0);
    static const char *const bad[] = {"one/out/x", "one/../x", "one/away/x", "one/back/x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(jail_mkdir(bad[i], 0700), -1);
        assert_int_equal(errno, EACCES);
    }
    assert_int_equal(jail_mkdir("one", 0700), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(jail_mkdir("three", 0700), -1);
    assert_int_equal(errno, ENOENT);
}

static void a_parent_is_opened(void **state)
{
    const char *leaf;
    struct stat status;
    (void)state;
    int fd = jail_open_parent("one/sub/deep", &leaf);
    assert_true(fd >= 0);
    assert_string_equal(leaf, "deep");
    assert_int_equal(fstatat(fd, leaf, &status, 0), 0);
    close(fd);
    assert_int_equal(jail_open_parent("one", &leaf), -1);
    assert_int_equal(jail_open_parent("one/out/secret", &leaf), -1);
}

static void patterns_stay_beneath(void **state)
{
    static const struct {
        const char *pattern;
        size_t count;
    } cases[] = {{"one/f*", 1},     {"one/*/deep", 2}, {"one/*/secret", 0}, {"*/file", 0},
                 {"one/away/*", 0}, {"one/back/*", 0}, {"two/o*", 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct path_list list = {0};
        assert_true(expand_path(cases[i].pattern, &list, 100, NULL));
        assert_int_equal(list.count, cases[i].count);
        path_list_release(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_beneath_is_found),  cmocka_unit_test(nothing_leads_out),
        cmocka_unit_test(links_within_are_followed), cmocka_unit_test(directories_are_made_beneath),
        cmocka_unit_test(a_parent_is_opened),        cmocka_unit_test(patterns_stay_beneath),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
