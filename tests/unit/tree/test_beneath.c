/* Paths beneath a directory: by the kernel, and by walking. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copy.h"
#include "tree/beneath.h"

static char base[256];
static int root;

static void open_ok(const char *path)
{
    int fd = beneath_open(root, path, O_RDONLY, 0);
    assert_true(fd >= 0);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    close(fd);
}

static void open_refused(const char *path)
{
    int fd = beneath_open(root, path, O_RDONLY, 0);
    assert_int_equal(fd, -1);
    assert_true(errno == ELOOP || errno == ENOTDIR);
    fd = beneath_open(root, path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(fd, -1);
    fd = beneath_open_directory(root, path, 0700, NULL);
    assert_int_equal(fd, -1);
    assert_false(exists(at(base, "outside/new")));
}

static void check(void)
{
    open_ok("");
    open_ok("f");
    open_ok("a/b/f");
    open_refused("to outside");
    open_refused("to outside/new");
    open_refused("to outside/secret");
    open_refused("absolute/secret");
    open_refused("a/up/outside/secret");
    open_refused("to f");
    open_refused("a/loop/x");
    assert_int_equal(beneath_open(root, "missing/x", O_RDONLY, 0), -1);
    assert_int_equal(errno, ENOENT);

    unsigned made = 0;
    int fd = beneath_open_directory(root, "new/er/est", 0700, &made);
    assert_true(fd >= 0);
    assert_int_equal(made, 3);
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
    close(fd);
    made = 0;
    fd = beneath_open_directory(root, "new/er/est", 0700, &made);
    assert_true(fd >= 0);
    assert_int_equal(made, 0);
    close(fd);
    assert_int_equal(beneath_open_directory(root, "new/none", 0, NULL), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(beneath_open_directory(root, "f/x", 0700, NULL), -1);
    assert_int_equal(errno, ENOTDIR);
    fd = beneath_open(root, "new/er/file", O_WRONLY | O_CREAT | O_EXCL, 0640);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0640);
    close(fd);
    remove_tree(at(base, "root/new"));
}

/* A path longer than the system takes at once. */
static void check_long(void)
{
    char path[20 * 251 + 1], component[251];
    memset(component, 'c', 250);
    component[250] = '\0';
    path[0] = '\0';
    for (int i = 0; i < 20; i++) {
        strcat(path, component);
        if (i < 19)
            strcat(path, "/");
    }
    unsigned made = 0;
    assert_true(beneath_open_directory(root, path, 0, &made) < 0);
    assert_int_equal(made, 0);
    int fd = beneath_open_directory(root, path, 0700, &made);
    assert_true(fd >= 0);
    assert_int_equal(made, 20);
    close(fd);
    fd = beneath_open_directory(root, path, 0, NULL);
    assert_true(fd >= 0);
    close(fd);
    path[250] = '\0';
    remove_tree(at(at(base, "root"), path));
    char too_long[300];
    memset(too_long, 'x', 299);
    too_long[299] = '\0';
    assert_int_equal(beneath_open_directory(root, too_long, 0700, NULL), -1);
    assert_int_equal(errno, ENAMETOOLONG);
}

static void test_by_kernel(void **state)
{
    (void)state;
    beneath_force_walk(false);
    check();
    check_long();
}

static void test_by_walk(void **state)
{
    (void)state;
    beneath_force_walk(true);
    check();
    check_long();
    beneath_force_walk(false);
}

static void test_leaf(void **state)
{
    (void)state;
    assert_string_equal(beneath_leaf("a/b"), "b");
    assert_string_equal(beneath_leaf("a"), "a");
    assert_string_equal(beneath_leaf(""), "");
}

int main(void)
{
    strcpy(base, test_directory());
    make_directory(at(base, "outside"), 0755);
    make_text(at(base, "outside/secret"), "s");
    make_directory(at(base, "root"), 0755);
    make_text(at(base, "root/f"), "f");
    make_directory(at(base, "root/a"), 0755);
    make_directory(at(base, "root/a/b"), 0755);
    make_text(at(base, "root/a/b/f"), "f");
    make_link("../outside", at(base, "root/to outside"));
    make_link(at(base, "outside"), at(base, "root/absolute"));
    make_link("../..", at(base, "root/a/up"));
    make_link("f", at(base, "root/to f"));
    make_link("loop", at(base, "root/a/loop"));
    root = open(at(base, "root"), O_RDONLY | O_DIRECTORY);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_kernel),
                                       cmocka_unit_test(test_by_walk), cmocka_unit_test(test_leaf)};
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    close(root);
    remove_tree(base);
    return result;
}
