#include "serve/process_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

static bool lower(__rlimit_resource_t which, rlim_t value, const char *name, struct error *error)
{
    struct rlimit limit;
    if (getrlimit(which, &limit) != 0)
        return error_set_errno(error, errno, "the limit of %s cannot be read", name);
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < value)
        value = limit.rlim_max;
    const struct rlimit wanted = {.rlim_cur = value, .rlim_max = value};
    return setrlimit(which, &wanted) == 0 ||
           error_set_errno(error, errno, "the limit of %s cannot be set", name);
}

/* The number after that of the last open file. There may be gaps; a long one is the end. */
static rlim_t open_files(void)
{
    int last = -1;
    for (int fd = 0; fd - last <= 64; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            last = fd;
    }
    return (rlim_t)(last + 1);
}

bool process_limits_set(const struct process_limits *limits, struct error *error)
{
    return lower(RLIMIT_CORE, 0, "core files", error) &&
           (limits->memory_bytes == 0 ||
            lower(RLIMIT_DATA, limits->memory_bytes, "memory", error)) &&
           (limits->files == 0 ||
            lower(RLIMIT_NOFILE, open_files() + limits->files, "open files", error));
}
