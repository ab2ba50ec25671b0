#include "tree/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COMPONENT_MAX 255

enum way { WAY_UNKNOWN, WAY_OPENAT2, WAY_WALK };
static atomic_int way = WAY_UNKNOWN;

static int open_by_kernel(int directory, const char *path, int flags, mode_t mode)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW),
        .mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    return (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
}

/* One probe a process: a sandbox answers EPERM for every call, which must not be taken for the
 * answer about one file. */
bool beneath_has_openat2(void)
{
    int known = atomic_load_explicit(&way, memory_order_relaxed);
    if (known == WAY_UNKNOWN) {
        int fd = open_by_kernel(AT_FDCWD, ".", O_PATH | O_DIRECTORY, 0);
        bool missing = fd < 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL);
        if (fd >= 0)
            close(fd);
        known = missing ? WAY_WALK : WAY_OPENAT2;
        atomic_store_explicit(&way, known, memory_order_relaxed);
    }
    return known == WAY_OPENAT2;
}

void beneath_force_walk(bool force)
{
    atomic_store_explicit(&way, force ? WAY_WALK : WAY_UNKNOWN, memory_order_relaxed);
}

static int close_keeping_errno(int fd)
{
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* Copies the component at *path and moves *path behind it and its "/". */
static bool next_component(const char **path, char component[COMPONENT_MAX + 1])
{
    const char *slash = strchr(*path, '/');
    size_t size = slash != NULL ? (size_t)(slash - *path) : strlen(*path);
    if (size > COMPONENT_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(component, *path, size);
    component[size] = '\0';
    *path += size + (slash != NULL);
    return true;
}

/* Makes a missing directory, or reports why not; one that another process makes meanwhile is as
 * good. */
static bool make_directory(int parent, const char *component, mode_t mode, unsigned *made)
{
    if (mkdirat(parent, component, mode) == 0) {
        if (made != NULL)
            ++*made;
        return true;
    }
    return errno == EEXIST;
}

/* Walks to the parent of the last component of *path, leaves the last component there. The result
 * is a new descriptor. */
static int walk_to_parent(int directory, const char **path, mode_t mode, unsigned *made)
{
    int at = openat(directory, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (at >= 0 && strchr(*path, '/') != NULL) {
        char component[COMPONENT_MAX + 1];
        if (!next_component(path, component))
            return close_keeping_errno(at);
        int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        int next = openat(at, component, flags);
        if (next < 0 && errno == ENOENT && mode != 0 && make_directory(at, component, mode, made))
            next = openat(at, component, flags);
        if (next < 0)
            return close_keeping_errno(at);
        close(at);
        at = next;
    }
    return at;
}

static int open_by_walk(int directory, const char *path, int flags, mode_t mode)
{
    int parent = walk_to_parent(directory, &path, 0, NULL);
    if (parent < 0)
        return -1;
    int fd = openat(parent, path, flags | O_NOFOLLOW | O_CLOEXEC, mode);
    close_keeping_errno(parent);
    return fd;
}

int beneath_open(int directory, const char *path, int flags, mode_t mode)
{
    if (path[0] == '\0')
        path = ".";
    if (!beneath_has_openat2())
        return open_by_walk(directory, path, flags, mode);
    int fd = open_by_kernel(directory, path, flags, mode);
    /* EAGAIN: something was renamed during the walk. ENAMETOOLONG: perhaps only the whole path. */
    for (int tries = 0; fd < 0 && errno == EAGAIN && tries < 16; tries++)
        fd = open_by_kernel(directory, path, flags, mode);
    if (fd < 0 && errno == ENAMETOOLONG)
        fd = open_by_walk(directory, path, flags, mode);
    return fd;
}

static int open_existing(int directory, const char *path)
{
    int fd = beneath_open(directory, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 && errno == EACCES)
        fd = beneath_open(directory, path, O_PATH | O_DIRECTORY, 0);
    return fd;
}

int beneath_open_directory(int directory, const char *path, mode_t mode, unsigned *made)
{
    int fd = open_existing(directory, path);
    if (fd >= 0 || errno != ENOENT || mode == 0 || path[0] == '\0')
        return fd;
    int parent = walk_to_parent(directory, &path, mode, made);
    if (parent < 0)
        return -1;
    if (!make_directory(parent, path, mode, made))
        return close_keeping_errno(parent);
    fd = open_existing(parent, path);
    close_keeping_errno(parent);
    return fd;
}

DIR *beneath_list(int directory)
{
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    if (stream == NULL && fd >= 0) {
        int failure = errno;
        close(fd);
        errno = failure;
    }
    return stream;
}

const char *beneath_leaf(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}
