#include "serve/metrics_http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/units.h"
#include "keys/known_hosts.h"

#define CONNECTIONS_MAX 16u
#define MEMORY_MAX 8192u /* a connection */
#define PATIENCE_S 5u

struct metrics_http {
    struct MHD_Daemon *daemon;
    int fd; /* libmicrohttpd's epoll */
    uint16_t port;
    metrics_give give;
    void *context;
};

static bool parse_where(const char *where, struct sockaddr_storage *address, struct error *error)
{
    char host[HOST_NAME_LENGTH + 1];
    uint16_t port = 0;
    struct sockaddr_in *four = (struct sockaddr_in *)address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
    /* A port that the system chooses is none that host_parse takes. */
    size_t length = strlen(where);
    bool any = length > 2 && strcmp(where + length - 2, ":0") == 0;
    bool has_port = any || (strrchr(where, ':') != NULL && where[length - 1] != ']');
    memset(address, 0, sizeof(*address));
    if (has_port && host_parse(where, any ? length - 2 : length, host, &port)) {
        port = htons(any ? 0 : port);
        if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
            four->sin_family = AF_INET;
            four->sin_port = port;
            return true;
        }
        if (inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
            six->sin6_family = AF_INET6;
            six->sin6_port = port;
            return true;
        }
    }
    return error_set(error, ERROR_USAGE,
                     "--metrics takes an address and a port such as 127.0.0.1:9117 or [::1]:9117, "
                     "not %s",
                     where);
}

/* ---- requests ---- */

static enum MHD_Result respond(struct MHD_Connection *connection, unsigned status, const char *type,
                               char *text, size_t size, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(size, text, mode);
    if (response == NULL) {
        if (mode == MHD_RESPMEM_MUST_FREE)
            free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status)
{
    static char text[] = "GET /metrics\n";
    return respond(connection, status, "text/plain", text, sizeof(text) - 1,
                   MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    struct metrics_http *http = context;
    (void)version;
    (void)upload;
    (void)state;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        *upload_size = 0;
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED);
    }
    if (strcmp(url, "/metrics") != 0)
        return refuse(connection, MHD_HTTP_NOT_FOUND);
    size_t size = 0;
    char *text = http->give(http->context, &size);
    if (text == NULL)
        return MHD_NO;
    return respond(connection, MHD_HTTP_OK, "text/plain; version=0.0.4", text, size,
                   MHD_RESPMEM_MUST_FREE);
}

/* ---- the daemon ---- */

static void ignore(void *context, const char *format, va_list arguments)
{
    (void)context;
    (void)format;
    (void)arguments;
}

static bool start(struct metrics_http *http, const struct sockaddr_storage *address)
{
    unsigned flags = MHD_USE_EPOLL | MHD_USE_ERROR_LOG;
    if (address->ss_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    http->daemon = MHD_start_daemon(flags, 0, NULL, NULL, handle, http, MHD_OPTION_SOCK_ADDR,
                                    (const struct sockaddr *)address, MHD_OPTION_CONNECTION_LIMIT,
                                    CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                    (size_t)MEMORY_MAX, MHD_OPTION_CONNECTION_TIMEOUT, PATIENCE_S,
                                    MHD_OPTION_EXTERNAL_LOGGER, ignore, NULL, MHD_OPTION_END);
    if (http->daemon == NULL)
        return false;
    const union MHD_DaemonInfo *epoll = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    const union MHD_DaemonInfo *port = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT);
    if (epoll == NULL || port == NULL)
        return false;
    http->fd = epoll->epoll_fd;
    http->port = port->port;
    return true;
}

struct metrics_http *metrics_http_open(const char *where, metrics_give give, void *context,
                                       struct error *error)
{
    struct sockaddr_storage address;
    if (!parse_where(where, &address, error))
        return NULL;
    struct metrics_http *http = calloc(1, sizeof(*http));
    if (http == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for metrics");
        return NULL;
    }
    http->give = give;
    http->context = context;
    errno = 0;
    if (!start(http, &address)) {
        int cause = errno;
        if (cause != 0)
            error_set_errno(error, cause, "metrics cannot be served at %s", where);
        else
            error_set(error, ERROR_IO, "metrics cannot be served at %s", where);
        metrics_http_free(http);
        return NULL;
    }
    return http;
}

void metrics_http_free(struct metrics_http *http)
{
    if (http == NULL)
        return;
    if (http->daemon != NULL)
        MHD_stop_daemon(http->daemon);
    free(http);
}

int metrics_http_fd(const struct metrics_http *http)
{
    return http->fd;
}

uint64_t metrics_http_deadline(const struct metrics_http *http, uint64_t now_ns)
{
    MHD_UNSIGNED_LONG_LONG wait_ms;
    return MHD_get_timeout(http->daemon, &wait_ms) == MHD_YES ? now_ns + wait_ms * NS_PER_MS
                                                              : TIME_NEVER;
}

void metrics_http_step(struct metrics_http *http)
{
    MHD_run(http->daemon);
}

uint16_t metrics_http_port(const struct metrics_http *http)
{
    return http->port;
}
