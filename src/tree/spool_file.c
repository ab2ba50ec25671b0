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
    if (folder == NULL || folder[0] == '\0')
        folder = "/tmp";
    int size = snprintf(path, sizeof path, "%s/petrel-XXXXXX", folder);
    errno = ENAMETOOLONG;
    int fd = size > 0 && (size_t)size < sizeof path ? mkostemp(path, O_CLOEXEC) : -1;
    if (fd < 0) {
        struct error cause = {0};
        error_set_errno(&cause, errno, "cannot make a temporary file in %.200s", folder);
        /* None of the user's own files is missing. */
        error_set(error, cause.kind == ERROR_NOT_FOUND ? ERROR_IO : cause.kind,
                  "%s; let TMPDIR name a directory that can be written to", cause.text);
        return -1;
    }
    unlink(path);
    return fd;
}
