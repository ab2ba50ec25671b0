#include "tree/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tree/beneath.h"

#define RACES_MAX 16 /* a rename beside ".." makes the kernel give up: it is asked again */

static const struct jail_root *jail_roots;
static size_t jail_root_count;
static bool entered;
static volatile bool led_out;

void jail_enter(const struct jail_root *roots, size_t count)
{
    jail_roots = roots;
    jail_root_count = count;
    entered = true;
}

bool jail_is_entered(void)
{
    return entered;
}

void jail_explain(struct error *error)
{
    struct error cause = *error;
    if (!entered || !led_out || cause.kind != ERROR_PERMISSION)
        return;
    error_clear(error);
    error_set(error, cause.kind, "%.400s (a link on the way leads out of the root)", cause.text);
}

/* The root that the path names, and what follows; -1 with ENOENT. */
static int find_root(const char *path, const char **rest)
{
    size_t size = strcspn(path, "/");
    for (size_t i = 0; i < jail_root_count; i++) {
        const char *name = jail_roots[i].name;
        if (size > 0 && strlen(name) == size && memcmp(name, path, size) == 0) {
            *rest = path + size + strspn(path + size, "/");
            if (**rest == '\0')
                *rest = ".";
            return jail_roots[i].directory;
        }
    }
    errno = ENOENT;
    return -1;
}

/* Without "." and doubled slashes, as beneath_open wants it. False for "..", too. */
static bool clean(const char *path, char *out)
{
    char *at = out;
    while (*path != '\0') {
        size_t size = strcspn(path, "/");
        if (size == 2 && memcmp(path, "..", 2) == 0)
            return false;
        if (size > 0 && !(size == 1 && path[0] == '.')) {
            if (at != out)
                *at++ = '/';
            memcpy(at, path, size);
            at += size;
        }
        path += size;
        path += strspn(path, "/");
    }
    *at = '\0';
    return true;
}

static int open_without_links(int root, const char *path, int flags)
{
    char *cleaned = malloc(strlen(path) + 1);
    struct stat status;
    int fd = -1;
    if (cleaned == NULL)
        errno = ENOMEM;
    else if (!clean(path, cleaned))
        errno = EACCES;
    else
        fd = beneath_open(root, cleaned, flags, 0);
    /* O_PATH opens a link itself, which is not what was asked for. */
    if (fd >= 0 && (flags & O_NOFOLLOW) == 0 && fstat(fd, &status) == 0 &&
        S_ISLNK(status.st_mode)) {
        close(fd);
        fd = -1;
        errno = ELOOP;
    }
    int saved = errno;
    free(cleaned);
    errno = saved;
    return fd;
}

static int open_beneath(int root, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    int fd, races = 0;
    if (!beneath_has_openat2())
        return open_without_links(root, path, flags);
    led_out = false;
    do
        fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    while (fd < 0 && errno == EAGAIN && ++races < RACES_MAX);
    led_out = fd < 0 && errno == EXDEV;
    if (led_out)
        errno = EACCES;
    return fd;
}

int jail_openat(int directory, const char *path, int flags)
{
    const char *rest;
    if (!entered || directory != AT_FDCWD)
        return openat(directory, path, flags | O_CLOEXEC);
    int root = find_root(path, &rest);
    return root < 0 ? -1 : open_beneath(root, rest, flags);
}

int jail_fstatat(int directory, const char *path, struct stat *status, int flags)
{
    if (!entered || directory != AT_FDCWD)
        return fstatat(directory, path, status, flags);
    int fd =
        jail_openat(AT_FDCWD, path, O_PATH | ((flags & AT_SYMLINK_NOFOLLOW) != 0 ? O_NOFOLLOW : 0));
    if (fd < 0)
        return -1;
    int result = fstatat(fd, "", status, AT_EMPTY_PATH);
    int saved = errno;
    close(fd);
    errno = saved;
    return result;
}

/* Opens what is above the last component; slashes at the end do not count. */
int jail_open_parent(const char *path, const char **leaf)
{
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/')
        size--;
    size_t start = size;
    while (start > 0 && path[start - 1] != '/')
        start--;
    *leaf = path + start;
    if (start == 0) /* a root's name: nothing that is ours is above it */
        return entered ? (errno = EACCES, -1) : open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char *parent = strndup(path, start);
    if (parent == NULL) {
        errno = ENOMEM;
        return -1;
    }
    int fd = jail_openat(AT_FDCWD, parent, O_PATH | O_DIRECTORY);
    int saved = errno;
    free(parent);
    errno = saved;
    return fd;
}

int jail_mkdir(const char *path, mode_t mode)
{
    const char *leaf, *rest;
    if (!entered)
        return mkdir(path, mode);
    if (find_root(path, &rest) < 0)
        return -1;
    if (strcmp(rest, ".") == 0) {
        errno = EEXIST;
        return -1;
    }
    int parent = jail_open_parent(path, &leaf);
    if (parent < 0)
        return -1;
    int result = mkdirat(parent, leaf, mode);
    int saved = errno;
    close(parent);
    errno = saved;
    return result;
}
