#include "serve/process_limits.h"

#include <errno.h>
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

bool process_limits_set(const struct process_limits *limits, struct error *error)
{
    return lower(RLIMIT_CORE, 0, "core files", error) &&
           (limits->memory_bytes == 0 ||
            lower(RLIMIT_DATA, limits->memory_bytes, "memory", error)) &&
           (limits->files == 0 || lower(RLIMIT_NOFILE, limits->files, "open files", error));
}
