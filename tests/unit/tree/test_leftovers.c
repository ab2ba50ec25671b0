/* What a test leaves that is killed: the next one removes it, and nothing of a test that runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "copy.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process that makes a directory with a file that it locks up, and waits. */
static pid_t start(char path[512])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const char *own = test_directory();
        make_directory(at(own, "closed"), 0700);
        make_file(at(own, "closed/file"), 10, 1);
        (void)!chmod(at(own, "closed"), 0);
        (void)!write(ends[1], own, strlen(own));
        close(ends[1]);
        pause();
        _exit(1);
    }
    close(ends[1]);
    ssize_t length = 0, got;
    while ((got = read(ends[0], path + length, 511 - (size_t)length)) > 0)
        length += got;
    path[length] = '\0';
    close(ends[0]);
    return child;
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_left_by_a_kill(void **state)
{
    (void)state;
    char killed[512], living[512], own[512];
    pid_t first = start(killed), second = start(living);
    end(first);
    assert_true(exists(killed));
    snprintf(own, sizeof own, "%s", test_directory());
    assert_false(exists(killed));
    assert_true(exists(living));
    end(second);
    remove_tree(test_directory());
    assert_false(exists(living));
    assert_true(exists(own)); /* the first of one process, beside its second */
    remove_tree(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_left_by_a_kill)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
