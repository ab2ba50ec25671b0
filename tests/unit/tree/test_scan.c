/* The walk through trees, and the reading of operands. */
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "copy.h"
#include "tree/beneath.h"
#include "tree/operand.h"
#include "tree/scan.h"

static char base[256];

static int setup(void **state)
{
    (void)state;
    strcpy(base, test_directory());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    remove_tree(base);
    return 0;
}

struct walked {
    size_t entries, problems;
    char text[4096];      /* paths, each followed by "|" (problems by "!") */
    struct error problem; /* the last */
    size_t deepest;
};

static size_t open_descriptors(void)
{
    size_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory != NULL && readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static void walk(bool follow, struct walked *walked)
{
    memset(walked, 0, sizeof *walked);
    size_t before = open_descriptors(), most = before;
    struct scan *scan = scan_new(open(base, O_RDONLY | O_DIRECTORY), follow);
    assert_non_null(scan);
    struct scan_entry entry;
    enum scan_result result;
    do {
        struct error error = {0};
        result = scan_next(scan, &entry, &error);
        if (result == SCAN_END)
            break;
        size_t used = strlen(walked->text);
        snprintf(walked->text + used, sizeof walked->text - used, "%s%c", entry.path,
                 result == SCAN_ENTRY ? '|' : '!');
        walked->entries += result == SCAN_ENTRY;
        walked->problems += result == SCAN_PROBLEM;
        if (result == SCAN_PROBLEM)
            walked->problem = error;
        if (entry.path_size > walked->deepest)
            walked->deepest = entry.path_size;
        if ((walked->entries & 63) == 0 && open_descriptors() > most)
            most = open_descriptors();
        struct stat status;
        if (result == SCAN_ENTRY)
            assert_int_equal(fstatat(entry.directory, entry.leaf, &status, AT_SYMLINK_NOFOLLOW), 0);
    } while (true);
    scan_free(scan);
    assert_int_equal(open_descriptors(), before);
    assert_true(most <= before + 40);
}

static void test_order(void **state)
{
    (void)state;
    make_directory(at(base, "b"), 0755);
    make_text(at(base, "b/z"), "");
    make_text(at(base, "b/a"), "");
    make_directory(at(base, "b/m"), 0755);
    make_text(at(base, "b/m/x"), "");
    make_text(at(base, "c"), "");
    make_text(at(base, "a"), "");
    make_text(at(base, ".h"), "");
    make_text(at(base, "b-"), "");
    make_text(at(base, ".petrel-0123456789abcdef"), "");
    make_text(at(base, ".petrel-0123456789abcdeg"), "");
    make_directory(at(base, "b/.petrel-fedcba9876543210"), 0755);
    make_link("nowhere", at(base, "dangling"));
    struct walked walked;
    walk(false, &walked);
    assert_string_equal(walked.text, "|.h|.petrel-0123456789abcdeg|a|b|b/a|b/m|b/m/x|b/z|b-|c|"
                                     "dangling|");
}

static void test_links(void **state)
{
    (void)state;
    make_directory(at(base, "d"), 0755);
    make_text(at(base, "d/f"), "");
    make_link("d", at(base, "ld"));
    make_link("d/f", at(base, "lf"));
    make_link("nowhere", at(base, "no"));
    make_link("..", at(base, "d/up"));
    make_link("self", at(base, "self"));
    struct walked walked;
    walk(false, &walked);
    assert_string_equal(walked.text, "|d|d/f|d/up|ld|lf|no|self|");
    walk(true, &walked);
    assert_string_equal(walked.text, "|d|d/f|d/up!ld|ld/f|ld/up!lf|no!self!");
}

static void test_special(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(at(base, "fifo"), 0600), 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(strlen(base) + 6 < sizeof address.sun_path);
    strcpy(address.sun_path, base);
    strcat(address.sun_path, "/sock");
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    make_text(at(base, "x"), "");
    struct walked walked;
    walk(false, &walked);
    assert_string_equal(walked.text, "|fifo!sock!x|");
    assert_int_equal(walked.problem.kind, ERROR_USAGE);
}

static void test_unreadable(void **state)
{
    (void)state;
    make_directory(at(base, "closed"), 0700);
    make_text(at(base, "closed/f"), "");
    make_text(at(base, "z"), "");
    if (geteuid() == 0)
        skip(); /* root reads everything */
    chmod(at(base, "closed"), 0);
    struct walked walked;
    walk(false, &walked);
    assert_string_equal(walked.text, "|closed|closed!z|");
    assert_int_equal(walked.problem.kind, ERROR_PERMISSION);
}

/* Deeper than descriptors and a path's length allow: bounded, reported, and the rest goes on. */
static void test_deep(void **state)
{
    (void)state;
    int fd = open(base, O_RDONLY | O_DIRECTORY);
    for (unsigned i = 0; i < 2100; i++) {
        assert_int_equal(mkdirat(fd, "d", 0700), 0);
        int file = openat(fd, i % 2 == 0 ? "a" : "z", O_WRONLY | O_CREAT, 0600);
        close(file);
        int next = openat(fd, "d", O_RDONLY | O_DIRECTORY);
        close(fd);
        fd = next;
    }
    close(fd);
    struct walked walked;
    walk(false, &walked);
    assert_true(walked.entries >= 2 * 2040 && walked.deepest >= 4090);
    assert_true(walked.problems >= 1);
    walk(true, &walked);
    assert_true(walked.entries >= 2 * 2040);
}

/* More names than are held at once: all come, each once, below frames that were closed and opened
 * again. */
static void test_wide(void **state)
{
    (void)state;
    const unsigned count = 30000;
    char path[600], name[128];
    strcpy(path, base);
    for (int depth = 0; depth < 40; depth++) {
        strcat(path, "/m");
        make_directory(path, 0755);
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%0100u", i);
        int file = openat(fd, name, O_WRONLY | O_CREAT, 0600);
        close(file);
        if (i % 1000 == 0) {
            snprintf(name, sizeof name, "d%0100u", i);
            assert_int_equal(mkdirat(fd, name, 0700), 0);
            strcat(name, "/f");
            file = openat(fd, name, O_WRONLY | O_CREAT, 0600);
            close(file);
        }
    }
    close(fd);
    struct scan *scan = scan_new(open(base, O_RDONLY | O_DIRECTORY), false);
    uint8_t *seen = calloc(count, 1);
    struct scan_entry entry;
    struct error error = {0};
    size_t files = 0, inner = 0;
    while (scan_next(scan, &entry, &error) == SCAN_ENTRY) {
        const char *leaf = beneath_leaf(entry.path);
        inner += strcmp(leaf, "f") == 0;
        if (leaf[0] != '0')
            continue;
        unsigned number = (unsigned)strtoul(leaf, NULL, 10);
        assert_int_equal(seen[number]++, 0);
        files++;
    }
    assert_int_equal(error.kind, ERROR_NONE);
    assert_int_equal(files, count);
    assert_int_equal(inner, count / 1000);
    free(seen);
    scan_free(scan);
}

/* ---- operands ---- */

static void expand(const char *pattern, const char *wanted)
{
    struct transfer_request request = {.flags = TRANSFER_WILDCARDS};
    struct operands operands = {0};
    struct error error = {0};
    char text[1024] = "";
    transfer_request_add(&request, at(base, pattern), false);
    bool found = operands_from_request(&operands, &request, &error);
    assert_true(found || error.kind != ERROR_NONE);
    for (size_t i = 0; i < operands.names.name_count; i++) {
        strcat(text, operands.paths[i] + strlen(base) + 1);
        strcat(text, "=");
        strcat(text, operands.names.names[i]);
        strcat(text, operands.names.name_is_directory[i] ? "/|" : "|");
    }
    assert_string_equal(text, wanted);
    operands_release(&operands);
    transfer_request_release(&request);
}

static void test_expand(void **state)
{
    (void)state;
    make_directory(at(base, "da"), 0755);
    make_directory(at(base, "db"), 0755);
    make_text(at(base, "da/x.c"), "");
    make_text(at(base, "db/y.c"), "");
    make_text(at(base, "db/.h.c"), "");
    make_text(at(base, "f"), "");
    make_text(at(base, "st*r"), "");
    make_text(at(base, "stxr"), "");
    make_link("da", at(base, "link"));
    expand("*", "da=da/|db=db/|f=f|link=link/|st*r=st*r|stxr=stxr|");
    expand("d*/*.c", "da/x.c=x.c|db/y.c=y.c|");
    expand("d*/.*", "db/.h.c=.h.c|");
    expand("d[b]/", "db/=/|");
    expand("d*/", "da/=/|db/=/|");
    expand("d*/.", "da/.=/|db/.=/|");
    expand("li*/x.?", "link/x.c=x.c|");
    expand("none*", "");
    expand("f/*", "");
    expand("st*r", "st*r=st*r|");
    expand("f", "f=f|");
}

static void test_expand_escaped(void **state)
{
    (void)state;
    make_text(at(base, "st*r"), "");
    make_text(at(base, "stxr"), "");
    expand("st\\*r", "st*r=st*r|");
}

static void test_operands(void **state)
{
    (void)state;
    make_directory(at(base, "d"), 0755);
    make_text(at(base, "f"), "12345");
    make_text(at(base, "d/f"), "");
    mkfifo(at(base, "fifo"), 0600);
    struct operands operands = {0};
    struct error error = {0};
    const char *paths[] = {at(base, "d"),  at(base, "f"),    at(base, "none"),
                           at(base, "d/"), at(base, "fifo"), at(base, "f/")};
    assert_true(operands_from_local(&operands, paths, 6, &error));
    assert_int_equal(operands.names.name_count, 3);
    assert_string_equal(operands.names.names[2], "");
    assert_int_equal(operands.sizes[1], 5);
    assert_int_equal(operands.problem_count, 3);
    assert_int_equal(operands.problems[0].error.kind, ERROR_NOT_FOUND);
    operands_release(&operands);
    assert_false(operands_from_local(&operands, paths + 2, 1, &error));
    assert_int_equal(error.kind, ERROR_NOT_FOUND);
    error_clear(&error);
    const char *twins[] = {at(base, "d/f"), at(base, "f")};
    assert_false(operands_from_local(&operands, twins, 2, &error));
    assert_int_equal(error.kind, ERROR_USAGE);
    error_clear(&error);
    const char *contents[] = {at(base, "d/"), at(base, ".")};
    assert_true(operands_from_local(&operands, contents, 2, &error));
    operands_release(&operands);
    assert_false(operands_from_local(&operands, contents, 0, &error));
    assert_int_equal(error.kind, ERROR_USAGE);
}

static void test_home(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"", "/h"},   {"~", "/h"},    {"~/x", "/h/x"},
                                           {"~x", "~x"}, {"a/~", "a/~"}, {"/", "/"}};
    setenv("HOME", "/h", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = {0};
        char *path = path_from_home(cases[i][0], &error);
        assert_string_equal(path, cases[i][1]);
        free(path);
    }
}

int main(void)
{
    umask(022);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_links, setup, teardown),
        cmocka_unit_test_setup_teardown(test_special, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unreadable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deep, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wide, setup, teardown),
        cmocka_unit_test_setup_teardown(test_expand, setup, teardown),
        cmocka_unit_test_setup_teardown(test_expand_escaped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_operands, setup, teardown),
        cmocka_unit_test(test_home),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    if (again_as_user(&failures))
        failures = cmocka_run_group_tests(tests, NULL, NULL);
    return failures;
}
