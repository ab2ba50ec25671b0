#include "keys/key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keys/key_lines.h"
#include "keys/small_file.h"

char *key_file_default(const char *name, struct error *error)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int length = 0;
    if (config != NULL && config[0] == '/')
        length = asprintf(&path, "%s/petrel/%s", config, name);
    else if (home != NULL && home[0] == '/')
        length = asprintf(&path, "%s/.config/petrel/%s", home, name);
    if (length > 0)
        return path;
    if (length < 0)
        error_set(error, ERROR_MEMORY, "no memory for the name of a file");
    else
        error_set(error, ERROR_USAGE,
                  "HOME is not set, so there is no place for %s; name the file by its option",
                  name);
    return NULL;
}

/* ---- reading ---- */

static bool check_file(int fd, const char *path, bool secret, size_t *size, struct error *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return error_set_errno(error, errno, "%s cannot be read", path);
    if (!S_ISREG(status.st_mode))
        return error_set(error, ERROR_USAGE, "%s is not a file", path);
    if (status.st_uid != 0 && status.st_uid != geteuid())
        return error_set(
            error, ERROR_PERMISSION,
            "%s belongs to user %u, who could change it; it has to be this user's (%u) "
            "or root's",
            path, (unsigned)status.st_uid, (unsigned)geteuid());
    if (secret && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return error_set(
            error, ERROR_PERMISSION,
            "%s has mode %04o, and others could use the secret key in it: chmod 600 %s", path,
            (unsigned)status.st_mode & 07777, path);
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return error_set(error, ERROR_PERMISSION, "others may write %s: chmod go-w %s", path, path);
    if (status.st_size > (off_t)KEY_FILE_MAX)
        return error_set(error, ERROR_USAGE, "%s is larger than %u MiB", path, KEY_FILE_MAX >> 20);
    *size = (size_t)status.st_size;
    return true;
}

char *key_file_read(const char *path, bool secret, size_t *size, struct error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        error_set_errno(error, errno, "%s cannot be read", path);
        return NULL;
    }
    size_t found = 0;
    char *text = NULL;
    if (check_file(fd, path, secret, &found, error) && (text = small_file_read(fd, &found)) == NULL)
        error_set_errno(error, errno, "%s cannot be read", path);
    close(fd);
    if (text != NULL)
        *size = found;
    return text;
}

/* ---- writing ---- */

bool key_file_make_directory(const char *path, struct error *error)
{
    char *folder = strdup(path);
    if (folder == NULL)
        return error_set(error, ERROR_MEMORY, "no memory for the name of a file");
    bool good = true;
    for (char *slash = strchr(folder + 1, '/'); good && slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        good = mkdir(folder, 0700) == 0 || errno == EEXIST ||
               error_set_errno(error, errno, "cannot make the directory %s", folder);
        *slash = '/';
    }
    free(folder);
    return good;
}

static bool write_whole(int fd, const char *text)
{
    size_t length = strlen(text), at = 0;
    while (at < length) {
        ssize_t put = write(fd, text + at, length - at);
        if (put < 0 && errno != EINTR)
            return false;
        at += put > 0 ? (size_t)put : 0;
    }
    return true;
}

/* The name is given by a link, which never replaces what somebody else has made meanwhile. */
static bool put_under_name(int fd, const char *temporary, const char *path, const char *text,
                           struct error *error)
{
    if (fchmod(fd, 0600) == 0 && write_whole(fd, text) && fsync(fd) == 0 &&
        link(temporary, path) == 0)
        return true;
    return error_set_errno(error, errno, "cannot make %s", path);
}

bool key_file_make(const char *path, const char *text, struct error *error)
{
    char *temporary = NULL;
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
        return error_set(error, ERROR_MEMORY, "no memory for the name of a file");
    int fd = mkostemp(temporary, O_CLOEXEC);
    bool good = fd >= 0 || error_set_errno(error, errno, "cannot make %s", path);
    if (good) {
        good = put_under_name(fd, temporary, path, text, error);
        unlink(temporary);
        close(fd);
    }
    free(temporary);
    return good;
}

/* Somebody's editor may have left the last line without an end. */
static bool ends_a_line(int fd)
{
    char last = '\n';
    off_t size = lseek(fd, 0, SEEK_END);
    return size <= 0 || pread(fd, &last, 1, size - 1) != 1 || last == '\n';
}

bool key_file_append(const char *path, const char *line, struct error *error)
{
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0)
        return error_set_errno(error, errno, "cannot write %s", path);
    char *text = NULL;
    bool good = asprintf(&text, "%s%s", ends_a_line(fd) ? "" : "\n", line) >= 0;
    if (!good)
        error_set(error, ERROR_MEMORY, "no memory for a line of %s", path);
    else if (!(good = write_whole(fd, text)))
        error_set_errno(error, errno, "cannot write %s", path);
    if (close(fd) != 0 && good)
        good = error_set_errno(error, errno, "cannot write %s", path);
    free(text);
    return good;
}
