#include "tree/spool_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int spool_file_open(struct error *error)
{
    const char *folder = getenv("TMPDIR");
    char path[512];
    int size = snprintf(path, sizeof path, "%s/petrel-XXXXXX",
                        folder != NULL && folder[0] != '\0' ? folder : "/tmp");
    errno = ENAMETOOLONG;
    int fd = size > 0 && (size_t)size < sizeof path ? mkostemp(path, O_CLOEXEC) : -1;
    if (fd < 0) {
        error_set_errno(error, errno, "cannot make a temporary file in TMPDIR (or /tmp)");
        return -1;
    }
    unlink(path);
    return fd;
}
