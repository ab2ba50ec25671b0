#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "serve/process_limits.h"

#define MIB ((size_t)1 << 20)

/* AddressSanitizer's shadow counts as the process's memory. */
#ifdef __has_feature
#define SHADOWED __has_feature(address_sanitizer)
#else
#define SHADOWED 0
#endif

/* In a child, since limits go down only. */
static int in_child(int (*attempt)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(attempt());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

static bool has_memory(size_t size)
{
    void *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block != MAP_FAILED)
        munmap(block, size);
    return block != MAP_FAILED;
}

static int memory(void)
{
    const struct process_limits limits = {.memory_bytes = 256 * MIB};
    if (!process_limits_set(&limits, NULL))
        return 1;
    if (SHADOWED) /* its own memory is more than that */
        return has_memory(512 * MIB) ? 2 : 0;
    return has_memory(64 * MIB) && !has_memory(512 * MIB) ? 0 : 2;
}

static int files(void)
{
    const struct process_limits limits = {.files = 40};
    int opened = 0;
    if (!process_limits_set(&limits, NULL))
        return 1;
    while (opened < 100 && open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
        opened++;
    return opened >= 40 && opened < 100 && errno == EMFILE ? 0 : 2;
}

static int never_more(void)
{
    struct process_limits limits = {.memory_bytes = 256 * MIB, .files = 40};
    struct rlimit core, data;
    if (!process_limits_set(&limits, NULL))
        return 1;
    limits = (struct process_limits){.memory_bytes = 1024 * MIB, .files = 80};
    if (!process_limits_set(&limits, NULL))
        return 2;
    limits = (struct process_limits){0};
    if (!process_limits_set(&limits, NULL))
        return 3;
    return getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max == 0 &&
                   getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_max == 256 * MIB
               ? 0
               : 4;
}

static void test_limits(void **state)
{
    (void)state;
    assert_int_equal(in_child(memory), 0);
    assert_int_equal(in_child(files), 0);
    assert_int_equal(in_child(never_more), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
