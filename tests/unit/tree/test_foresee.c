/* A dry run says what the run after it does: random trees, destinations that are like them in part,
 * and random options. Each is copied twice, first dry, and both have to say the same of the same
 * names; the dry one may change nothing.
 *
 *   test_foresee [COUNT [FIRST]]    so many trees (50), from this seed on (1)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "copy.h"
#include "crypto/tree_hash.h"

#define NAMES 24
#define LARGE (700u << 10)

static uint64_t tree_count = 50, first_seed = 1;
static char base[256], src[300], dst[300];
static struct random draw;
static struct copy dry, real;
static bool is_user;

static bool chance(unsigned percent)
{
    return random_below(&draw, 100) < percent;
}

/* ---- trees ---- */

static const char *const names[] = {"a", "b", "c", "d", "e", "f.o"};

/* A path of up to three components below `root`; its directories need not be there. */
static const char *random_path(const char *root)
{
    char path[64] = "";
    for (uint64_t i = random_below(&draw, 3) + 1; i > 0; i--) {
        strcat(path, names[random_below(&draw, 6)]);
        strcat(path, i > 1 ? "/" : "");
    }
    return at(root, path);
}

static size_t random_size(void)
{
    static const size_t sizes[] = {0, 1, 100, 100, 5000, 5000, LARGE, LARGE, (3u << 20) + 5};
    return sizes[random_below(&draw, sizeof sizes / sizeof *sizes)];
}

static void random_file(const char *path)
{
    char kept[512];
    strcpy(kept, path);
    make_file(kept, random_size(), random_below(&draw, 3));
    set_time(kept, 1000 + (int64_t)random_below(&draw, 3), 5);
    if (chance(10))
        chmod(kept, chance(50) ? 0600 : 0);
}

/* One more thing in a tree, where there is room for it. */
static void add_one(const char *root)
{
    char path[512], above[512];
    strcpy(path, random_path(root));
    struct stat status;
    if (lstat(path, &status) == 0)
        return;
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        snprintf(above, sizeof above, "%.*s", (int)(slash - path), path);
        if (lstat(above, &status) == 0 && !S_ISDIR(status.st_mode))
            return;
        mkdir(above, 0755);
    }
    uint64_t kind = random_below(&draw, 10);
    if (kind == 0)
        make_directory(path, 0755);
    else if (kind == 1)
        make_link(chance(50) ? "a" : "nowhere", path);
    else if (kind == 2)
        mkfifo(path, 0644);
    else if (kind == 3 && link(at(root, "a"), path) == 0)
        return;
    else
        random_file(path);
}

/* Directories get modes last, so that they can be filled before. */
static int shut_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    if (S_ISDIR(status->st_mode) && walk->level > 0 && type != FTW_SL && chance(4))
        chmod(path, 0555);
    return 0;
}

static int open_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)walk;
    if (type != FTW_SL && S_ISDIR(status->st_mode))
        chmod(path, 0755);
    return 0;
}

static void open_all(const char *root)
{
    nftw(root, open_one, 16, FTW_PHYS); /* twice: what was shut is not walked at first */
    nftw(root, open_one, 16, FTW_PHYS);
    nftw(root, open_one, 16, FTW_PHYS);
}

/* What the first run of such a copy made, and then somebody changed. */
static void make_destination(const char *where)
{
    struct copy first = {.flags = TRANSFER_SPECIALS | (chance(50) ? TRANSFER_HARD_LINKS : 0)};
    const char *paths[] = {where};
    first.paths = paths;
    first.path_count = 1;
    first.destination = dst;
    copy_run(&first);
    for (uint64_t i = random_below(&draw, 12); i > 0; i--) {
        char path[512];
        strcpy(path, random_path(at(dst, chance(70) ? "src" : ".")));
        struct stat status;
        if (lstat(path, &status) == 0 && chance(60)) {
            if (S_ISREG(status.st_mode) && chance(50))
                set_time(path, 900 + (int64_t)random_below(&draw, 200), 5);
            else if (S_ISREG(status.st_mode) && chance(50))
                make_file(path, (size_t)status.st_size, 77);
            else
                remove_tree(path);
        }
    }
    for (uint64_t i = random_below(&draw, 10); i > 0; i--)
        add_one(chance(70) && exists(at(dst, "src")) ? at(dst, "src") : dst);
}

/* ---- what was said ---- */

static int by_text(const void *a, const void *b)
{
    const struct copy_line *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    order = order != 0 ? order : (int)x->kind - (int)y->kind;
    order = order != 0 ? order : (x->size > y->size) - (x->size < y->size);
    return order != 0 ? order : (int)x->error - (int)y->error;
}

static void show(const char *which, const struct copy *copy)
{
    print_error("%s: opened %d finished %d failed %d (%s) problems %llu note %s offers %llu\n",
                which, copy->opened, copy->finished, copy->failed, copy->error.text,
                (unsigned long long)copy->problems, copy->note, (unsigned long long)copy->offers);
    for (size_t i = 0; i < copy->line_count; i++)
        print_error("  %d %s %llu %s\n", copy->lines[i].kind, copy->lines[i].path,
                    (unsigned long long)copy->lines[i].size, copy->lines[i].text);
}

static void assert_same_said(uint64_t seed)
{
    qsort(dry.lines, dry.line_count, sizeof *dry.lines, by_text);
    qsort(real.lines, real.line_count, sizeof *real.lines, by_text);
    bool same = dry.opened == real.opened && dry.failed == real.failed &&
                dry.error.kind == real.error.kind && dry.line_count == real.line_count;
    for (size_t i = 0; same && i < dry.line_count; i++)
        same = by_text(&dry.lines[i], &real.lines[i]) == 0;
    if (same)
        return;
    show("dry", &dry);
    show("real", &real);
    fail_msg("seed %llu%s: flags %llx", (unsigned long long)seed, is_user ? " (user)" : "",
             (unsigned long long)real.flags);
}

/* ---- that nothing was done ---- */

static uint64_t seen_sum;

static int sum_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)type, (void)walk;
    uint8_t hash[TREE_HASH_SIZE];
    char text[1024];
    int size = snprintf(text, sizeof text, "%s %o %lld %lld.%09ld %llu %u", path, status->st_mode,
                        S_ISDIR(status->st_mode) ? 0 : (long long)status->st_size,
                        (long long)status->st_mtim.tv_sec, status->st_mtim.tv_nsec,
                        (unsigned long long)status->st_ino, (unsigned)status->st_nlink);
    tree_hash_whole(text, (size_t)size, hash);
    uint64_t value;
    memcpy(&value, hash, sizeof value);
    seen_sum += value;
    return 0;
}

static uint64_t sum_of(const char *root)
{
    seen_sum = 0;
    nftw(root, sum_one, 16, FTW_PHYS);
    return seen_sum;
}

/* ---- one tree ---- */

static uint64_t random_flags(void)
{
    static const uint64_t some[] = {
        TRANSFER_WHOLE,       TRANSFER_UPDATE,    TRANSFER_IGNORE_EXISTING, TRANSFER_EXISTING,
        TRANSFER_HARD_LINKS,  TRANSFER_IN_PLACE,  TRANSFER_NO_PERMS,        TRANSFER_NO_TIMES,
        TRANSFER_SPARSE,      TRANSFER_MAKE_PATH, TRANSFER_FOLLOW_LINKS,    TRANSFER_MAX_DELETE,
        TRANSFER_VERIFY_DISK, TRANSFER_NAME_FILES};
    uint64_t flags = chance(70) ? TRANSFER_QUICK_CHECK : 0;
    flags |= chance(50) ? TRANSFER_DELETE : 0;
    flags |= chance(80) ? TRANSFER_SPECIALS : 0;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        flags |= chance(12) ? some[i] : 0;
    return (flags & TRANSFER_DELETE) != 0 ? flags : flags & ~(uint64_t)TRANSFER_MAX_DELETE;
}

static void run(struct copy *copy, const struct copy *asked, uint64_t flags)
{
    *copy = *asked;
    copy->flags = flags;
    copy_run(copy);
}

static void try_one(uint64_t seed)
{
    static const char *const rules[] = {"- *.o", "P b", "- /src/c/", NULL};
    random_seed(&draw, seed);
    make_directory(src, 0755);
    for (int i = 0; i < NAMES; i++)
        add_one(src);
    if (chance(90))
        make_directory(dst, 0755);
    char contents[400];
    snprintf(contents, sizeof contents, "%s/", src);
    const char *source = chance(70) ? src : chance(60) ? contents : at(src, "a");
    if (exists(dst) && chance(80))
        make_destination(source);
    if (is_user) {
        nftw(src, shut_one, 16, FTW_PHYS);
        nftw(dst, shut_one, 16, FTW_PHYS);
        if (chance(5))
            chmod(dst, 0555);
    }
    const char *paths[] = {source, at(src, "b")};
    struct copy asked = {.paths = paths,
                         .path_count = chance(15) && source != contents ? 2 : 1,
                         .destination = chance(10) ? at(dst, "deep/er") : dst,
                         .max_delete = 3,
                         .rules = chance(30) ? rules : NULL,
                         .pull = chance(30),
                         .seed = chance(30) ? seed : 0};
    uint64_t flags =
        random_flags() | (asked.path_count > 1 ? TRANSFER_DESTINATION_IS_DIRECTORY : 0);
    uint64_t before = sum_of(base);
    run(&dry, &asked, flags | TRANSFER_DRY_RUN);
    assert_true(before == sum_of(base));
    assert_int_equal(dry.content + dry.verified_bytes + dry.kept_bytes, 0);
    run(&real, &asked, flags);
    assert_same_said(seed);
    open_all(base);
    remove_tree(src);
    if (exists(dst))
        remove_tree(dst);
}

static void test_random_trees(void **state)
{
    (void)state;
    static const uint64_t found[] = {92, 101, 159, 368, 604, 1234}; /* something, once */
    strcpy(base, test_directory());
    strcpy(src, at(base, "src"));
    strcpy(dst, at(base, "dst"));
    for (uint64_t seed = first_seed; seed < first_seed + tree_count; seed++)
        try_one(seed);
    for (size_t i = 0; i < sizeof found / sizeof *found && first_seed == 1; i++)
        try_one(found[i]);
    remove_tree(base);
}

/* One file that has another name elsewhere, onto another file, with -H: it is offered last. */
static void test_a_linked_file(void **state)
{
    (void)state;
    strcpy(base, test_directory());
    strcpy(src, at(base, "src"));
    strcpy(dst, at(base, "dst"));
    make_file(src, 5000, 1);
    assert_int_equal(link(src, at(base, "other")), 0);
    make_file(dst, 5000, 2);
    const char *paths[] = {src};
    struct copy asked = {.paths = paths, .path_count = 1, .destination = dst};
    run(&dry, &asked, TRANSFER_HARD_LINKS | TRANSFER_DRY_RUN);
    run(&real, &asked, TRANSFER_HARD_LINKS);
    assert_int_equal(real.done, 1);
    assert_same_said(0);
    assert_file(dst, 5000, 1);
    remove_tree(base);
}

int main(int argc, char **argv)
{
    int failures = 0;
    tree_count = argc > 1 ? strtoull(argv[1], NULL, 10) : tree_count;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : first_seed;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_trees),
                                       cmocka_unit_test(test_a_linked_file)};
    is_user = again_as_user(&failures) || geteuid() != 0;
    return failures + cmocka_run_group_tests(tests, NULL, NULL);
}
