/* Manifests: the text and its reader, what is made of a tree, and what verifying finds. */
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
#include "tree/manifest.h"
#include "tree/verify.h"

#define MIB (1024u * 1024u)

/* ---- the text ---- */

static struct manifest_entry entry_of(enum manifest_kind kind, const char *path)
{
    return (struct manifest_entry){.kind = kind,
                                   .path = path,
                                   .path_size = strlen(path),
                                   .mode = kind == MANIFEST_LINK ? 0 : 0640,
                                   .mtime_s = -5,
                                   .mtime_ns = 7,
                                   .size = kind == MANIFEST_FILE ? 123 : 0,
                                   .hash = {kind == MANIFEST_FILE ? 0xab : 0},
                                   .target = "to \\ there",
                                   .target_size = 10};
}

/* Feeds whole lines; returns how many entries came, or -1. */
static int read_text(const char *text, struct manifest_entry *last, struct error *error)
{
    static struct manifest_reader reader;
    memset(&reader, 0, sizeof reader);
    int entries = 0;
    while (*text != '\0') {
        const char *end = strchr(text, '\n');
        size_t size = end != NULL ? (size_t)(end - text) : strlen(text);
        char *exact = malloc(size + 1);
        memcpy(exact, text, size);
        enum manifest_result result = manifest_read(&reader, exact, size, error);
        free(exact);
        if (result == MANIFEST_INVALID)
            return -1;
        entries += result == MANIFEST_ENTRY;
        text += size + (end != NULL);
    }
    *last = reader.entry;
    return manifest_read_end(&reader, error) ? entries : -1;
}

static void text_round_trips(void **state)
{
    (void)state;
    static const char *const paths[] = {"a", "a b", "x\ny", "back\\slash", "-", "\xff"};
    static const enum manifest_kind kinds[] = {MANIFEST_DIRECTORY, MANIFEST_FILE, MANIFEST_LINK};
    for (unsigned i = 0; i < 18; i++) {
        struct manifest_entry entry = entry_of(kinds[i % 3], paths[i / 3]), read;
        char text[MANIFEST_ENTRY_MAX + 64];
        size_t size = (size_t)sprintf(text, "%s\n", MANIFEST_FIRST_LINE);
        size += manifest_write(&entry, text + size);
        text[size] = '\0';
        struct error error = {0};
        assert_int_equal(read_text(text, &read, &error), 1);
        assert_int_equal(read.kind, entry.kind);
        assert_string_equal(read.path, entry.path);
        assert_int_equal(read.mode, entry.mode);
        assert_true(read.mtime_s == -5 && read.mtime_ns == 7 && read.size == entry.size);
        assert_memory_equal(read.hash, entry.hash, sizeof read.hash);
        if (entry.kind == MANIFEST_LINK)
            assert_memory_equal(read.target, entry.target, entry.target_size);
        for (size_t cut = 1; cut < size; cut++) { /* every shorter one is refused, or has less */
            char shorter[MANIFEST_ENTRY_MAX + 64];
            memcpy(shorter, text, size - cut);
            shorter[size - cut] = '\0';
            int entries = read_text(shorter, &read, &(struct error){0});
            assert_true(entries <= 1);
            bool less = entries <= 0 || read.path_size < entry.path_size ||
                        read.target_size < entry.target_size;
            assert_true(cut == 1 || less); /* only the last newline is missing */
        }
    }
}

static void bad_text_is_refused(void **state)
{
    (void)state;
#define HASH "00000000000000000000000000000000000000000000000000000000000000ab"
    static const char *const bad[] = {
        "d 0755 1.000000000 a\n",                        /* no first line */
        MANIFEST_FIRST_LINE "0\nd 0755 1.000000000 a\n", /* another version */
        MANIFEST_FIRST_LINE "\nd 755 1.000000000 a\n",   /* mode */
        MANIFEST_FIRST_LINE "\nd 0788 1.000000000 a\n",  /* mode */
        MANIFEST_FIRST_LINE "\nd 0755 1.00000000 a\n",   /* time */
        MANIFEST_FIRST_LINE "\nd 0755 01.000000000 a\n", /* time */
        MANIFEST_FIRST_LINE "\nd 0755 -0.000000000 a\n", /* time */
        MANIFEST_FIRST_LINE "\nd 0755 99999999999999999999.000000000 a\n",
        MANIFEST_FIRST_LINE "\nd 0755 1.000000000 \n",       /* no path */
        MANIFEST_FIRST_LINE "\nd 0755 1.000000000 a\\\n",    /* not escaped */
        MANIFEST_FIRST_LINE "\n\\d 0755 1.000000000 a\n",    /* escaped without need */
        MANIFEST_FIRST_LINE "\n\\d 0755 1.000000000 a\\x\n", /* no such escape */
        MANIFEST_FIRST_LINE "\n\\d 0755 1.000000000 a\\\n",  /* half an escape */
        MANIFEST_FIRST_LINE "\nd 0755 1.000000000 a/../b\n", /* leads out */
        MANIFEST_FIRST_LINE "\nd 0755 1.000000000 /a\n",     /* leads out */
        MANIFEST_FIRST_LINE "\nq 0755 1.000000000 a\n",      /* kind */
        MANIFEST_FIRST_LINE "\nd 0755 1.000000000 b\nd 0755 1.000000000 a\n", /* order */
        MANIFEST_FIRST_LINE "\nd 0755 1.000000000 a\nd 0755 1.000000000 a\n", /* twice */
        MANIFEST_FIRST_LINE "\nf 0644 1.000000000 1 a\n",                     /* no hash */
        MANIFEST_FIRST_LINE "\nf 0644 1.000000000 1 a\n" HASH "  b\n",        /* another's hash */
        MANIFEST_FIRST_LINE "\nf 0644 1.000000000 1 a\n" HASH " a\n",         /* one blank */
        MANIFEST_FIRST_LINE "\nf 0644 1.000000000 18446744073709551616 a\n" HASH "  a\n",
        MANIFEST_FIRST_LINE "\nl 1.000000000 a\n",     /* leads nowhere */
        MANIFEST_FIRST_LINE "\nl 1.000000000 a\n> \n", /* leads nowhere */
        "",
    };
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct manifest_entry read;
        struct error error = {0};
        if (read_text(bad[i], &read, &error) >= 0)
            fail_msg("accepted: %s", bad[i]);
        assert_int_equal(error.kind, ERROR_USAGE);
    }
}

/* ---- of a tree ---- */

static char base[256], tree[300];
static char *made;
static size_t made_size;
static uint64_t problem_count;

static int setup(void **state)
{
    (void)state;
    strcpy(base, test_directory());
    snprintf(tree, sizeof tree, "%s/tree", base);
    make_directory(tree, 0755);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(made);
    made = NULL;
    remove_tree(base);
    return 0;
}

static bool take_text(void *context, const char *bytes, size_t size)
{
    (void)context;
    made = realloc(made, made_size + size + 1);
    memcpy(made + made_size, bytes, size);
    made_size += size;
    made[made_size] = '\0';
    return true;
}

static void take_problem(void *context, const char *path, const struct error *error)
{
    (void)context, (void)path;
    assert_int_not_equal(error->kind, ERROR_NONE);
    problem_count++;
}

static void build(const char *name, struct sorted_spool *known, uint8_t hash[32])
{
    const char *paths[1] = {tree}, *names[1] = {name};
    struct manifest_build asked = {.paths = paths,
                                   .names = names,
                                   .count = 1,
                                   .known = known,
                                   .text = take_text,
                                   .problem = take_problem};
    struct error error = {0};
    uint64_t problems = 0;
    free(made);
    made = NULL;
    made_size = problem_count = 0;
    assert_true(manifest_build(&asked, hash, &problems, &error));
    assert_int_equal(problems, problem_count);
    uint8_t whole[32];
    tree_hash_whole(made, made_size, whole);
    assert_memory_equal(hash, whole, sizeof whole);
}

static void make_tree(void)
{
    make_file(at(tree, "large"), 3 * MIB + 5, 1);
    make_file(at(tree, "b"), 10, 2);
    make_file(at(tree, "a-b"), 0, 3);
    make_directory(at(tree, "a"), 0750);
    make_file(at(tree, "a/x"), 5, 4);
    make_link("nowhere", at(tree, "link"));
    make_file(at(tree, "odd\nname"), 7, 5);
}

static void tree_is_canonical(void **state)
{
    (void)state;
    uint8_t first[32], again[32];
    make_tree();
    build("tree", NULL, first);
    struct manifest_entry last;
    struct error error = {0};
    assert_int_equal(read_text(made, &last, &error), 8);
    assert_string_equal(last.path, "tree/odd\nname");
    assert_non_null(strstr(made, "  tree/large\n"));
    assert_non_null(strstr(made, "\\f 0644 "));
    build("tree", NULL, again);
    assert_memory_equal(first, again, sizeof first);
    make_file(at(tree, "b"), 10, 9);
    build("tree", NULL, again);
    assert_memory_not_equal(first, again, sizeof first);
    build("", NULL, first); /* contents alone: the tree itself is not in it */
    assert_int_equal(read_text(made, &last, &error), 7);
}

static void known_hashes_are_used(void **state)
{
    (void)state;
    static const uint8_t none[32], some[32] = {1, 2, 3};
    uint8_t hash[32];
    struct error error = {0};
    make_tree();
    struct sorted_spool *known = sorted_spool_new(0);
    assert_true(manifest_know(known, "tree/large", some, 3 * MIB + 5, &error));
    assert_true(manifest_know(known, "tree/b", none, 10, &error));   /* to be read */
    assert_true(manifest_know(known, "tree/a/x", some, 99, &error)); /* another size */
    build("tree", known, hash);
    sorted_spool_free(known);
    assert_non_null(strstr(made, "010203000000"));
    assert_null(strstr(made, "a-b")); /* not delivered */
    assert_non_null(strstr(made, "tree/b\n"));
    assert_int_equal(problem_count, 0);
}

/* ---- verifying ---- */

static char differences[4096];

static void on_difference(void *context, enum difference difference, const char *path,
                          const char *text)
{
    (void)context, (void)text;
    size_t size = strlen(differences);
    snprintf(differences + size, sizeof differences - size, "%s %s|", difference_name(difference),
             path);
}

static bool verify(const char *text, struct verify_counts *counts, struct error *error)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    struct verify asked = {.manifest = file, .directory = base, .differs = on_difference};
    differences[0] = '\0';
    bool done = verify_run(&asked, counts, error);
    fclose(file);
    return done;
}

static void each_difference_is_named(void **state)
{
    (void)state;
    uint8_t hash[32];
    struct verify_counts counts;
    struct error error = {0};
    make_tree();
    build("tree", NULL, hash);
    assert_true(verify(made, &counts, &error));
    assert_string_equal(differences, "");
    assert_int_equal(counts.entries, 8);
    assert_int_equal(counts.files, 5);
    struct stat status;
    stat(at(tree, "large"), &status);
    int fd = open(at(tree, "large"), O_WRONLY);
    assert_int_equal(pwrite(fd, "!", 1, 2 * MIB), 1);
    close(fd);
    set_time(at(tree, "large"), status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    make_file(at(tree, "b"), 11, 2);
    unlink(at(tree, "a/x"));
    make_text(at(tree, "a/y"), "more");
    unlink(at(tree, "link"));
    make_link("elsewhere", at(tree, "link"));
    chmod(at(tree, "a-b"), 0600);
    assert_true(verify(made, &counts, &error));
    static const char *const wanted[] = {"content tree/large|", "size tree/b|",
                                         "missing tree/a/x|",   "extra tree/a/y|",
                                         "target tree/link|",   "mode tree/a-b|"};
    for (unsigned i = 0; i < 6; i++) {
        if (strstr(differences, wanted[i]) == NULL)
            fail_msg("%s is not in %s", wanted[i], differences);
    }
    unlink(at(tree, "b"));
    make_directory(at(tree, "b"), 0755);
    assert_true(verify(made, &counts, &error));
    assert_non_null(strstr(differences, "type tree/b|"));
}

/* A link in the place of a directory leads nowhere. */
static void links_are_not_followed(void **state)
{
    (void)state;
    uint8_t hash[32];
    struct verify_counts counts;
    struct error error = {0};
    make_tree();
    build("tree", NULL, hash);
    assert_int_equal(rename(at(tree, "a"), at(base, "moved")), 0);
    make_link("../moved", at(tree, "a"));
    assert_true(verify(made, &counts, &error));
    assert_non_null(strstr(differences, "type tree/a|"));
    assert_non_null(strstr(differences, "missing tree/a/x|"));
}

static void bad_manifests_are_errors(void **state)
{
    (void)state;
    struct verify_counts counts;
    struct error error = {0};
    assert_false(verify("nonsense\n", &counts, &error));
    assert_int_equal(error.kind, ERROR_USAGE);
    error_clear(&error);
    assert_false(verify(MANIFEST_FIRST_LINE "\nd 0755 1.000000000 tree", &counts, &error));
    assert_int_equal(error.kind, ERROR_USAGE);
}

int main(void)
{
    umask(022);
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_round_trips),
        cmocka_unit_test(bad_text_is_refused),
        CASE(tree_is_canonical),
        CASE(known_hashes_are_used),
        CASE(each_difference_is_named),
        CASE(links_are_not_followed),
        CASE(bad_manifests_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
