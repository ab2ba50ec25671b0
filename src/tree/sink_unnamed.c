#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "tree/sink_internal.h"

/* New files are made without a name (O_TMPFILE) and linked to their final one when they are synced:
 * a directory is written to once a file instead of three times, and a run that is killed leaves
 * nothing. */

static void proc_path(int fd, char path[64])
{
    snprintf(path, 64, "/proc/self/fd/%d", fd);
}

/* How a file without a name can get one here. With an empty path only some may; the name "." is
 * always taken, and who may not hears something else. Without /proc there is no other way. */
static void learn(struct file_sink *sink, int fd, int parent)
{
    char path[64];
    proc_path(fd, path);
    if (linkat(fd, "", parent, ".", AT_EMPTY_PATH) != 0 && errno == EEXIST)
        sink->unnamed = UNNAMED_EMPTY_PATH;
    else
        sink->unnamed = access(path, F_OK) == 0 ? UNNAMED_PROC : UNNAMED_NEVER;
}

int unnamed_create(struct file_sink *sink, int parent, uint32_t mode)
{
    if (sink->unnamed == UNNAMED_NEVER)
        return -1;
    int fd = openat(parent, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    if (fd < 0) {
        if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOSYS)
            sink->unnamed = UNNAMED_NEVER;
        return -1;
    }
    if (sink->unnamed == UNNAMED_UNKNOWN)
        learn(sink, fd, parent);
    if (sink->unnamed != UNNAMED_NEVER)
        return fd;
    close(fd);
    return -1;
}

bool unnamed_link(const struct file_sink *sink, int fd, int parent, const char *leaf)
{
    char path[64];
    if (sink->unnamed == UNNAMED_EMPTY_PATH)
        return linkat(fd, "", parent, leaf, AT_EMPTY_PATH) == 0;
    proc_path(fd, path);
    return linkat(AT_FDCWD, path, parent, leaf, AT_SYMLINK_FOLLOW) == 0;
}
