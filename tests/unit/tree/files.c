/* Files and trees for the tests of tree/: made, compared, removed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "tree/scan.h"

#define DIRECTORY "petrel-test-"
#define TEXTS 8
#define TEXT_SIZE 8192

static char *next_text(void)
{
    static char texts[TEXTS][TEXT_SIZE];
    static unsigned next;
    return texts[next++ % TEXTS];
}

/* A directory that this user's tests left: the process that its name tells is gone. */
static bool is_left(const char *path, const char *name)
{
    struct stat status;
    int maker, read = 0;
    return sscanf(name, DIRECTORY "%d.%n", &maker, &read) == 1 && read > 0 && maker > 0 &&
           kill(maker, 0) != 0 && errno == ESRCH && lstat(path, &status) == 0 &&
           status.st_uid == geteuid();
}

static int erase_tree(const char *path)
{
    char command[TEXT_SIZE + 64];
    snprintf(command, sizeof command, "chmod -R u+rwX -- '%s'; rm -rf -- '%s'", path, path);
    return system(command);
}

/* What tests that were killed left. Another test may do the same at the same time. */
static void erase_left(const char *base)
{
    DIR *stream = opendir(base);
    assert_non_null(stream);
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;)
        if (is_left(at(base, entry->d_name), entry->d_name))
            (void)!erase_tree(at(base, entry->d_name));
    closedir(stream);
}

const char *test_directory(void)
{
    const char *base = getenv("TMPDIR");
    if (base == NULL)
        base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" /* many syncs would wait for a disk */
                                             : "/tmp";
    erase_left(base);
    static char text[512];
    snprintf(text, sizeof text, "%s/" DIRECTORY "%d.XXXXXX", base, (int)getpid());
    assert_non_null(mkdtemp(text));
    return text;
}

const char *at(const char *base, const char *name)
{
    char *text = next_text();
    assert_true(snprintf(text, TEXT_SIZE, "%s/%s", base, name) < TEXT_SIZE);
    return text;
}

static void fill(uint8_t *bytes, size_t size, uint64_t seed)
{
    struct random random;
    random_seed(&random, seed);
    for (size_t i = 0; i < size; i += 8) {
        uint64_t value = random_next(&random);
        memcpy(bytes + i, &value, size - i < 8 ? size - i : 8);
    }
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, (const uint8_t *)bytes + done, size - done);
        assert_true(n > 0);
        done += (size_t)n;
    }
    close(fd);
}

void make_file(const char *path, size_t size, uint64_t seed)
{
    uint8_t *bytes = malloc(size + 8);
    fill(bytes, size, seed);
    write_file(path, bytes, size);
    free(bytes);
}

void make_text(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

void make_directory(const char *path, unsigned mode)
{
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, mode), 0);
}

void make_link(const char *target, const char *path)
{
    assert_int_equal(symlink(target, path), 0);
}

void set_time(const char *path, int64_t seconds, long nanoseconds)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = seconds, .tv_nsec = nanoseconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

/* By rm, which goes as deep as a tree can be. */
void remove_tree(const char *path)
{
    assert_int_equal(erase_tree(path), 0);
    assert_false(exists(path));
}

bool again_as_user(int *failures)
{
    enum { NOBODY = 65534 };
    if (geteuid() != 0)
        return false;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
            _exit(1);
        *failures = 0;
        return true;
    }
    int status = 0;
    waitpid(child, &status, 0);
    *failures += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    return false;
}

bool exists(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

static uint8_t *read_file(const char *path, size_t size)
{
    uint8_t *bytes = malloc(size + 1);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    size_t got = 0;
    ssize_t n;
    while ((n = read(fd, bytes + got, size + 1 - got)) > 0)
        got += (size_t)n;
    assert_int_equal(got, size);
    close(fd);
    return bytes;
}

static void assert_bytes(const char *path, const uint8_t *wanted, size_t size)
{
    uint8_t *bytes = read_file(path, size);
    assert_int_equal(memcmp(bytes, wanted, size), 0);
    free(bytes);
}

void assert_file(const char *path, size_t size, uint64_t seed)
{
    uint8_t *wanted = malloc(size + 8);
    fill(wanted, size, seed);
    assert_bytes(path, wanted, size);
    free(wanted);
}

static bool same_bytes(const char *a, const char *b)
{
    char one[4096], other[4096];
    int x = open(a, O_RDONLY), y = open(b, O_RDONLY);
    bool same = x >= 0 && y >= 0;
    for (ssize_t n = 1; same && n > 0;) {
        n = read(x, one, sizeof one);
        same = read(y, other, sizeof other) == n && (n <= 0 || memcmp(one, other, (size_t)n) == 0);
    }
    if (x >= 0)
        close(x);
    if (y >= 0)
        close(y);
    return same;
}

void assert_old_or_new(const char *now, const char *before, const char *wanted, const char *when)
{
    bool existed = exists(before);
    if (!exists(now)) {
        if (existed)
            fail_msg("%s: %s is gone", when, now);
        return;
    }
    if (!same_bytes(now, wanted) && (!existed || !same_bytes(now, before)))
        fail_msg("%s: %s is neither the old file nor the new one", when, now);
}

void assert_text(const char *path, const char *text)
{
    assert_bytes(path, (const uint8_t *)text, strlen(text));
}

/* ---- comparing trees: nftw takes no context ---- */

static struct {
    const char *from, *to;
    size_t count;
} compared;

static void compare_link(const char *a, const char *b)
{
    char x[4096], y[4096];
    ssize_t n = readlink(a, x, sizeof x);
    assert_true(n > 0);
    assert_int_equal(readlink(b, y, sizeof y), n);
    assert_memory_equal(x, y, (size_t)n);
}

static int compare_one(const char *path, const struct stat *a, int type, struct FTW *walk)
{
    (void)type, (void)walk;
    char other[TEXT_SIZE];
    snprintf(other, sizeof other, "%s%s", compared.to, path + strlen(compared.from));
    struct stat b;
    if (lstat(other, &b) != 0)
        fail_msg("%s is missing", other);
    compared.count++;
    assert_int_equal(a->st_mode & S_IFMT, b.st_mode & S_IFMT);
    if (a->st_mtim.tv_sec != b.st_mtim.tv_sec || a->st_mtim.tv_nsec != b.st_mtim.tv_nsec)
        fail_msg("%s has another time", other);
    if (S_ISLNK(a->st_mode)) {
        compare_link(path, other);
        return 0;
    }
    if ((a->st_mode & 01777) != (b.st_mode & 07777))
        fail_msg("%s has mode %o, not %o", other, b.st_mode & 07777, a->st_mode & 01777);
    if (S_ISREG(a->st_mode)) {
        assert_int_equal(a->st_size, b.st_size);
        uint8_t *bytes = read_file(path, (size_t)a->st_size);
        assert_bytes(other, bytes, (size_t)a->st_size);
        free(bytes);
    }
    return 0;
}

static size_t counted;

static int count_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type;
    if (scan_is_own_name(path + walk->base))
        fail_msg("%s was left behind", path);
    counted++;
    return 0;
}

size_t assert_no_litter(const char *path)
{
    counted = 0;
    assert_int_equal(nftw(path, count_one, 32, FTW_PHYS), 0);
    return counted - 1;
}

void assert_same_tree(const char *a, const char *b)
{
    compared.from = a;
    compared.to = b;
    compared.count = 0;
    assert_int_equal(nftw(a, compare_one, 32, FTW_PHYS), 0);
    assert_int_equal(assert_no_litter(b) + 1, compared.count);
}
