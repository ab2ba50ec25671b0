/* Copies with filter rules: what is left out, and that nobody can bring it all the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "copy.h"

static char base[256];

static int setup(void **state)
{
    (void)state;
    strcpy(base, test_directory());
    make_directory(at(base, "src"), 0755);
    make_directory(at(base, "src/keep"), 0755);
    make_directory(at(base, "src/cache"), 0755);
    make_text(at(base, "src/a.c"), "a");
    make_text(at(base, "src/a.o"), "a");
    make_text(at(base, "src/keep/b.o"), "b");
    make_text(at(base, "src/cache/c.c"), "c");
    make_file(at(base, "src/keep/large.o"), 1u << 20, 1);
    make_directory(at(base, "dst"), 0755);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_no_litter(at(base, "dst"));
    remove_tree(base);
    return 0;
}

static struct copy copy;

static void run(const char *const *rules, const char *source, bool pull)
{
    const char *paths[] = {at(base, source)};
    copy.rules = rules;
    copy.paths = paths;
    copy.path_count = 1;
    copy.destination = at(base, "dst");
    copy.pull = pull;
    copy_run(&copy);
}

static const char *const rules[] = {"- cache/", "- *.o", NULL};

static void check_left_out(bool pull, const char *source, const char *target)
{
    copy = (struct copy){.seed = 3};
    run(rules, source, pull);
    assert_true(copy.finished);
    assert_int_equal(copy.done, 1);
    assert_int_equal(copy.total_files, 1);
    assert_int_equal(copy.problems + copy.failures, 0);
    char path[300];
    strcpy(path, at(base, target));
    assert_text(at(path, "a.c"), "a");
    assert_true(exists(at(path, "keep")));
    assert_false(exists(at(path, "a.o")));
    assert_false(exists(at(path, "cache")));
    assert_false(exists(at(path, "keep/b.o")));
    assert_false(exists(at(path, "keep/large.o")));
}

static void test_push_and_pull(void **state)
{
    (void)state;
    check_left_out(false, "src", "dst/src");
    remove_tree(at(base, "dst/src"));
    check_left_out(true, "src", "dst/src");
    remove_tree(at(base, "dst/src"));
    check_left_out(true, "src/", "dst");
}

static void test_what_was_named_itself(void **state)
{
    (void)state;
    static const char *const all[] = {"- src/", NULL};
    copy = (struct copy){0};
    run(all, "src", false);
    assert_true(copy.finished);
    assert_int_equal(copy.done, 0);
    assert_false(exists(at(base, "dst/src")));
}

/* A sender that does not know the rules, or ignores them, is refused by name. */
static void check_refused(const char *rule, const char *said)
{
    const char *const list[] = {rule, NULL};
    copy = (struct copy){.sender_ignores_rules = true};
    run(list, "src", true);
    assert_true(copy.failed);
    assert_int_equal(copy.error.kind, ERROR_REFUSED);
    assert_non_null(strstr(copy.error.text, said));
    remove_tree(at(base, "dst"));
    make_directory(at(base, "dst"), 0755);
}

static void test_a_sender_that_ignores_them(void **state)
{
    (void)state;
    check_refused("- b.o", "src/keep/b.o");
    check_refused("- /src/cache/", "src/cache");
    check_refused("- large.o", "src/keep/large.o");
    check_refused("- /src/keep/***", "src/keep");
    check_refused("- src", "src");
    static const char *const receiver_only[] = {"P *", "-r *", NULL};
    copy = (struct copy){.sender_ignores_rules = true};
    run(receiver_only, "src", true);
    assert_true(copy.finished);
    assert_same_tree(at(base, "src"), at(base, "dst/src"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_push_and_pull, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_was_named_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_sender_that_ignores_them, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
