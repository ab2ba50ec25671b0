/* Sorting on disk: everything comes back in order, whatever fits into memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "tree/sorted_spool.h"

static void add_text(struct sorted_spool *spool, const char *text)
{
    struct error error = {0};
    assert_true(sorted_spool_add(spool, text, strlen(text), &error));
}

static void expect(struct sorted_spool *spool, const char *text)
{
    const uint8_t *bytes;
    size_t size;
    assert_int_equal(sorted_spool_next(spool, &bytes, &size, NULL), SPOOL_RECORD);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
}

static void expect_end(struct sorted_spool *spool)
{
    const uint8_t *bytes;
    size_t size;
    assert_int_equal(sorted_spool_next(spool, &bytes, &size, NULL), SPOOL_END);
    assert_int_equal(sorted_spool_next(spool, &bytes, &size, NULL), SPOOL_END);
}

static void test_a_few(void **state)
{
    (void)state;
    struct sorted_spool *spool = sorted_spool_new(0);
    assert_true(sorted_spool_rewind(spool, NULL));
    expect_end(spool);
    sorted_spool_free(spool);
    spool = sorted_spool_new(0);
    static const char *const texts[] = {"b", "", "ab", "a", "b", "a\xff", "aa"};
    static const char *const sorted[] = {"", "a", "aa", "ab", "a\xff", "b", "b"};
    for (size_t i = 0; i < 7; i++)
        add_text(spool, texts[i]);
    for (int pass = 0; pass < 2; pass++) {
        assert_true(sorted_spool_rewind(spool, NULL));
        for (size_t i = 0; i < 7; i++)
            expect(spool, sorted[i]);
        expect_end(spool);
    }
    sorted_spool_free(spool);
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Many more than fit, so that runs are merged on the way too. */
static void test_many(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    struct random random;
    random_seed(&random, 5);
    struct sorted_spool *spool = sorted_spool_new(1);
    char **texts = calloc(COUNT, sizeof *texts);
    for (size_t i = 0; i < COUNT; i++) {
        char text[128];
        int size = snprintf(text, sizeof text, "%x", (unsigned)(random_next(&random) & 0xfffff));
        memset(text + size, 'x', (size_t)(i % 60));
        text[(size_t)size + i % 60] = '\0';
        texts[i] = strdup(text);
        add_text(spool, text);
    }
    char *longest = malloc(SORTED_SPOOL_RECORD_MAX + 1);
    memset(longest, '~', SORTED_SPOOL_RECORD_MAX);
    longest[SORTED_SPOOL_RECORD_MAX] = '\0';
    for (int i = 0; i < 20; i++)
        add_text(spool, longest);
    qsort(texts, COUNT, sizeof *texts, compare_text);
    for (int pass = 0; pass < 2; pass++) {
        assert_true(sorted_spool_rewind(spool, NULL));
        for (size_t i = 0; i < COUNT; i++)
            expect(spool, texts[i]);
        for (int i = 0; i < 20; i++)
            expect(spool, longest);
        expect_end(spool);
    }
    for (size_t i = 0; i < COUNT; i++)
        free(texts[i]);
    free(texts);
    free(longest);
    sorted_spool_free(spool);
}

static void test_no_place_for_the_file(void **state)
{
    (void)state;
    char *before = getenv("TMPDIR") != NULL ? strdup(getenv("TMPDIR")) : NULL;
    setenv("TMPDIR", "/nonexistent", 1);
    struct sorted_spool *spool = sorted_spool_new(1);
    struct error error = {0};
    bool good = true;
    for (int i = 0; i < 20000 && good; i++)
        good = sorted_spool_add(spool, "some bytes", 10, &error);
    assert_false(good);
    assert_int_not_equal(error.kind, ERROR_NONE);
    assert_non_null(strstr(error.text, "TMPDIR"));
    sorted_spool_free(spool);
    if (before != NULL)
        setenv("TMPDIR", before, 1);
    else
        unsetenv("TMPDIR");
    free(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_few),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_no_place_for_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
