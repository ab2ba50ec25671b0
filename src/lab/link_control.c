#include "lab/link_control.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_SECONDS 5

static bool make_directory(const char *path, struct error *error)
{
    struct stat status;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return error_set_errno(error, errno, "cannot make %s", path);
    if (lstat(path, &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
        (status.st_mode & 022) != 0)
        return error_set(error, ERROR_PERMISSION, "%s is not a directory of ours alone", path);
    return true;
}

bool link_control_path(const char *name, char *path, size_t capacity, struct error *error)
{
    char directory[96];
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (strchr(name, '/') != NULL) {
        if ((size_t)snprintf(path, capacity, "%s", name) < capacity)
            return true;
        return error_set(error, ERROR_USAGE, "the path %s is too long", name);
    }
    if (runtime != NULL && runtime[0] == '/' && strlen(runtime) < 64)
        snprintf(directory, sizeof directory, "%s/petrel-lab", runtime);
    else if (geteuid() == 0 && access("/run", W_OK) == 0)
        snprintf(directory, sizeof directory, "/run/petrel-lab");
    else
        snprintf(directory, sizeof directory, "/tmp/petrel-lab-%u", (unsigned)geteuid());
    if (!make_directory(directory, error))
        return false;
    if (name[0] == '\0' || (size_t)snprintf(path, capacity, "%s/%s", directory, name) >= capacity)
        return error_set(error, ERROR_USAGE, "'%s' is no name for a link", name);
    return true;
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        int cause = errno;
        close(fd);
        errno = cause;
        return -1;
    }
    return fd;
}

int link_control_listen(const char *path, struct error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int other = connect_to(path);
    if (other >= 0) {
        close(other);
        error_set(error, ERROR_EXISTS, "a link with the socket %s is already up", path);
        return -1;
    }
    if (errno == ECONNREFUSED) /* left behind by one that was killed */
        (void)unlink(path);
    if (strlen(path) >= sizeof address.sun_path) {
        error_set(error, ERROR_USAGE, "the path %s is too long for a socket", path);
        return -1;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
        chmod(path, 0600) == 0 && listen(fd, 8) == 0)
        return fd;
    error_set_errno(error, errno, "cannot listen on %s", path);
    if (fd >= 0)
        close(fd);
    return -1;
}

void link_control_sweep(const char *path)
{
    char other[512];
    const char *slash = strrchr(path, '/');
    if (slash == NULL || (size_t)snprintf(other, sizeof other, "%s", path) >= sizeof other)
        return;
    other[slash - path] = '\0';
    DIR *directory = opendir(other);
    struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        snprintf(other, sizeof other, "%.*s/%s", (int)(slash - path), path, entry->d_name);
        int fd = entry->d_type == DT_SOCK ? connect_to(other) : -1;
        if (fd >= 0)
            close(fd);
        else if (entry->d_type == DT_SOCK && errno == ECONNREFUSED)
            (void)unlink(other);
    }
    if (directory != NULL)
        closedir(directory);
}

static bool send_words(int fd, size_t count, const char *const *words)
{
    char request[LINK_REQUEST_MAX];
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(words[i]) + 1;
        if (length > sizeof request - size) {
            errno = EMSGSIZE;
            return false;
        }
        memcpy(request + size, words[i], length);
        size += length;
    }
    return send(fd, request, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static json_t *parse_answer(const char *text, size_t size, struct error *error)
{
    json_t *answer = json_loadb(text, size, 0, NULL);
    const char *problem = json_string_value(json_object_get(answer, "error"));
    if (answer != NULL && problem == NULL)
        return answer;
    error_set(error, ERROR_USAGE, "%s",
              problem != NULL ? problem : "the emulator answers nonsense");
    json_decref(answer);
    return NULL;
}

json_t *link_control_ask(const char *path, size_t count, const char *const *words,
                         struct error *error)
{
    static char text[LINK_ANSWER_MAX];
    struct timeval patience = {.tv_sec = ANSWER_SECONDS};
    int fd = connect_to(path);
    if (fd < 0) {
        error_set_errno(error, errno, "no link is up at %s", path);
        return NULL;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ssize_t size = send_words(fd, count, words) ? recv(fd, text, sizeof text, 0) : -1;
    int cause = errno;
    close(fd);
    if (size > 0)
        return parse_answer(text, (size_t)size, error);
    error_set_errno(error, size < 0 ? cause : ECONNRESET, "the emulator at %s gives no answer",
                    path);
    return NULL;
}
