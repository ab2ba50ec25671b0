#include "serve/control_socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/units.h"

struct client {
    int fd; /* -1: none */
    uint64_t until_ns;
    char request[CONTROL_REQUEST_MAX];
    size_t request_size;
    char *answer; /* NULL: still reading */
    size_t answer_size, answer_sent;
};

struct control_socket {
    int fd;
    char *path;
    control_answer answer;
    void *context;
    struct client clients[CONTROL_CLIENTS_MAX];
};

/* ---- where ---- */

char *control_socket_default_path(struct error *error)
{
    const char *service = getenv("RUNTIME_DIRECTORY"), *user = getenv("XDG_RUNTIME_DIR");
    char *path = NULL;
    int length;
    if (service != NULL && service[0] == '/')
        length = asprintf(&path, "%s/control", service);
    else if (user != NULL && user[0] == '/')
        length = asprintf(&path, "%s/petrel/control", user);
    else
        length = asprintf(&path, "/run/petrel/control");
    if (length < 0) {
        error_set(error, ERROR_MEMORY, "no memory for the name of a socket");
        return NULL;
    }
    return path;
}

static bool set_address(struct sockaddr_un *address, const char *path, struct error *error)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address->sun_path))
        return error_set(error, ERROR_USAGE,
                         "the name of a socket has at most %zu bytes; --control=FILE gives another "
                         "than %s",
                         sizeof(address->sun_path) - 1, path);
    snprintf(address->sun_path, sizeof(address->sun_path), "%s", path);
    return true;
}

/* ---- opening ---- */

static bool make_directory(const char *path, struct error *error)
{
    char *folder = strdup(path), *slash = folder != NULL ? strrchr(folder, '/') : NULL;
    bool good = folder != NULL || error_set(error, ERROR_MEMORY, "no memory");
    if (slash != NULL && slash != folder) {
        *slash = '\0';
        good = mkdir(folder, 0700) == 0 || errno == EEXIST ||
               error_set_errno(error, errno, "cannot make the directory %s", folder);
    }
    free(folder);
    return good;
}

/* A file that a server left which was killed: nobody answers there. */
static bool remove_stale(const struct sockaddr_un *address, struct error *error)
{
    struct stat status;
    if (lstat(address->sun_path, &status) != 0)
        return true;
    if (!S_ISSOCK(status.st_mode))
        return error_set(error, ERROR_EXISTS, "%s is there and no socket", address->sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool dead = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 &&
                errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    if (!dead)
        return error_set(error, ERROR_EXISTS, "another petrel serve listens at %s",
                         address->sun_path);
    return unlink(address->sun_path) == 0 ||
           error_set_errno(error, errno, "cannot remove %s", address->sun_path);
}

static bool listen_at(int fd, const struct sockaddr_un *address, struct error *error)
{
    mode_t before = umask(0177);
    bool bound = bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;
    int failed = errno;
    umask(before);
    if (bound && listen(fd, 16) == 0)
        return true;
    return error_set_errno(error, bound ? errno : failed, "cannot listen at %s", address->sun_path);
}

struct control_socket *control_socket_open(const char *path, control_answer answer, void *context,
                                           struct error *error)
{
    struct sockaddr_un address;
    if (!set_address(&address, path, error) || !make_directory(path, error) ||
        !remove_stale(&address, error))
        return NULL;
    struct control_socket *control = calloc(1, sizeof(*control));
    char *copy = strdup(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool good = control != NULL && copy != NULL ? fd >= 0 : false;
    if (!good)
        error_set_errno(error, errno, "cannot make a control socket");
    if (!good || !listen_at(fd, &address, error)) {
        if (fd >= 0)
            close(fd);
        free(copy);
        free(control);
        return NULL;
    }
    *control =
        (struct control_socket){.fd = fd, .path = copy, .answer = answer, .context = context};
    for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++)
        control->clients[i].fd = -1;
    return control;
}

static void drop(struct client *client)
{
    close(client->fd);
    free(client->answer);
    *client = (struct client){.fd = -1};
}

void control_socket_forget(struct control_socket *control)
{
    if (control == NULL)
        return;
    for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        if (control->clients[i].fd >= 0)
            drop(&control->clients[i]);
    }
    close(control->fd);
    free(control->path);
    free(control);
}

void control_socket_free(struct control_socket *control)
{
    if (control != NULL)
        unlink(control->path);
    control_socket_forget(control);
}

/* ---- one client ---- */

static bool is_full(const struct control_socket *control)
{
    for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        if (control->clients[i].fd < 0)
            return false;
    }
    return true;
}

static void answer(const struct control_socket *control, struct client *client, size_t length)
{
    struct control_request request;
    struct error error = {0};
    char *text = NULL;
    if (control_request_parse(client->request, length, &request, &error))
        text = control->answer(control->context, &request, &error);
    int size = text != NULL ? asprintf(&client->answer, "ok\n%s", text)
                            : asprintf(&client->answer, "error %s\n", error.text);
    free(text);
    if (size < 0)
        client->answer = NULL;
    client->answer_size = size > 0 ? (size_t)size : 0;
}

/* False when the client is to be dropped. */
static bool hear(const struct control_socket *control, struct client *client)
{
    ssize_t got = recv(client->fd, client->request + client->request_size,
                       sizeof(client->request) - client->request_size, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    client->request_size += (size_t)got;
    const char *newline = memchr(client->request, '\n', client->request_size);
    if (newline == NULL)
        return got > 0 && client->request_size < sizeof(client->request);
    answer(control, client, (size_t)(newline - client->request));
    return client->answer != NULL;
}

static bool tell(struct client *client)
{
    while (client->answer_sent < client->answer_size) {
        ssize_t put = send(client->fd, client->answer + client->answer_sent,
                           client->answer_size - client->answer_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put < 0)
            return errno == EAGAIN || errno == EINTR;
        client->answer_sent += (size_t)put;
    }
    return false;
}

static void accept_all(struct control_socket *control, uint64_t now_ns)
{
    for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        if (control->clients[i].fd >= 0)
            continue;
        int fd = accept4(control->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        control->clients[i] = (struct client){.fd = fd, .until_ns = now_ns + CONTROL_PATIENCE_NS};
    }
}

/* ---- the loop ---- */

unsigned control_socket_polls(const struct control_socket *control,
                              struct pollfd polls[CONTROL_POLLS])
{
    unsigned count = 0;
    if (!is_full(control))
        polls[count++] = (struct pollfd){.fd = control->fd, .events = POLLIN};
    for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        const struct client *client = &control->clients[i];
        if (client->fd >= 0)
            polls[count++] = (struct pollfd){.fd = client->fd,
                                             .events = client->answer != NULL ? POLLOUT : POLLIN};
    }
    return count;
}

uint64_t control_socket_deadline(const struct control_socket *control)
{
    uint64_t first = TIME_NEVER;
    for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        const struct client *client = &control->clients[i];
        if (client->fd >= 0 && client->until_ns < first)
            first = client->until_ns;
    }
    return first;
}

void control_socket_step(struct control_socket *control, uint64_t now_ns)
{
    accept_all(control, now_ns);
    for (unsigned i = 0; i < CONTROL_CLIENTS_MAX; i++) {
        struct client *client = &control->clients[i];
        if (client->fd < 0)
            continue;
        bool stays = now_ns < client->until_ns;
        if (stays && client->answer == NULL)
            stays = hear(control, client);
        if (stays && client->answer != NULL)
            stays = tell(client);
        if (!stays)
            drop(client);
    }
}

/* ---- who asks ---- */

static int connect_to(const char *path, struct error *error)
{
    struct sockaddr_un address;
    const struct timeval patience = {.tv_sec = 10};
    if (!set_address(&address, path, error))
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0 &&
        connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    if (errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR)
        error_set(error, ERROR_NOT_FOUND,
                  "no petrel serve listens at %s; --control=FILE names its socket", path);
    else
        error_set_errno(error, errno, "petrel serve cannot be asked at %s", path);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* All until the end, as a string. */
static char *read_all(int fd, struct error *error)
{
    char *text = malloc(CONTROL_ANSWER_MAX + 1);
    size_t size = 0;
    ssize_t got = 1;
    if (text == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for an answer");
        return NULL;
    }
    while (size < CONTROL_ANSWER_MAX &&
           (got = recv(fd, text + size, CONTROL_ANSWER_MAX - size, 0)) > 0)
        size += (size_t)got;
    if (got < 0) {
        error_set(error, ERROR_PEER_LOST, "petrel serve does not answer");
        free(text);
        return NULL;
    }
    text[size] = '\0';
    return text;
}

char *control_ask(const char *path, const struct control_request *request, struct error *error)
{
    char line[CONTROL_REQUEST_MAX + 1];
    int fd = connect_to(path, error);
    if (fd < 0)
        return NULL;
    size_t length = strlen(control_request_format(line, request));
    line[length++] = '\n';
    char *text = NULL;
    if (send(fd, line, length, MSG_NOSIGNAL) != (ssize_t)length)
        error_set_errno(error, errno, "petrel serve cannot be asked");
    else
        text = read_all(fd, error);
    close(fd);
    if (text == NULL)
        return NULL;
    if (strncmp(text, "ok\n", 3) == 0) {
        memmove(text, text + 3, strlen(text + 3) + 1);
        return text;
    }
    text[strcspn(text, "\n")] = '\0';
    error_set(error, ERROR_PEER, "%s",
              strncmp(text, "error ", 6) == 0 ? text + 6 : "petrel serve answered something else");
    free(text);
    return NULL;
}
