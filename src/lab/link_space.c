#include "lab/link_space.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return written;
}

bool link_space_prepare(struct error *error)
{
    unsigned user = geteuid(), group = getegid();
    char users[32], groups[32];
    if (user == 0)
        return true;
    if (unshare(CLONE_NEWUSER) != 0)
        return error_set_errno(error, errno,
                               "neither root nor allowed to make a user namespace (see the sysctls "
                               "user.max_user_namespaces and kernel.unprivileged_userns_clone)");
    snprintf(users, sizeof users, "0 %u 1", user);
    snprintf(groups, sizeof groups, "0 %u 1", group);
    (void)write_file("/proc/self/setgroups", "deny"); /* absent before Linux 3.19 */
    if (!write_file("/proc/self/uid_map", users) || !write_file("/proc/self/gid_map", groups))
        return error_set_errno(error, errno, "cannot become root in a user namespace");
    /* Gaining capabilities hides /proc/self/fd from our own children: show it again. */
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    return true;
}

int link_space_new(struct error *error)
{
    if (unshare(CLONE_NEWNET) != 0) {
        error_set_errno(error, errno, "cannot make a network namespace");
        return -1;
    }
    int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        error_set_errno(error, errno, "cannot hold a network namespace");
    return fd;
}

static bool is_own_user_space(int user_fd)
{
    struct stat theirs, ours;
    return fstat(user_fd, &theirs) == 0 && stat("/proc/self/ns/user", &ours) == 0 &&
           theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev;
}

bool link_space_enter(const char *path, struct error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(error, errno, "cannot open the network namespace %s", path);
    int user_fd = ioctl(fd, NS_GET_USERNS);
    bool entered = true;
    if (user_fd >= 0 && !is_own_user_space(user_fd))
        entered = setns(user_fd, CLONE_NEWUSER) == 0;
    entered = entered && setns(fd, CLONE_NEWNET) == 0;
    if (!entered)
        error_set_errno(error, errno, "cannot enter the network namespace %s", path);
    if (user_fd >= 0)
        close(user_fd);
    close(fd);
    return entered;
}
