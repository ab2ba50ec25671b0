#include "measure/tcp_open.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/driver.h"
#include "net/sockaddr.h"

#define TURN_MS 50 /* how often a wait looks whether it is to stop */

bool tcp_set_congestion(int descriptor, const char *name, struct error *error)
{
    if (name[0] == '\0' ||
        setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0)
        return true;
    if (errno == ENOENT)
        return error_set(error, ERROR_NOT_FOUND,
                         "the sending side's system has no TCP %s (modprobe tcp_%s)", name, name);
    if (errno == EPERM)
        return error_set(error, ERROR_PERMISSION,
                         "the sending side's system allows no TCP %s "
                         "(sysctl net.ipv4.tcp_allowed_congestion_control)",
                         name);
    return error_set_errno(error, errno, "cannot choose TCP %s", name);
}

static bool bind_port(int descriptor, bool v6, uint16_t port)
{
    struct sockaddr_storage storage;
    struct address any = address_any(v6 ? 6 : 4, port);
    socklen_t length = sockaddr_from_address(&storage, &any);
    return bind(descriptor, (struct sockaddr *)&storage, length) == 0 &&
           listen(descriptor, (int)TCP_STREAMS_MAX) == 0;
}

static int open_listener(bool v6, uint16_t port)
{
    int descriptor = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int zero = 0, one = 1;
    if (descriptor < 0)
        return -1;
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (v6)
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    if (bind_port(descriptor, v6, port))
        return descriptor;
    close(descriptor);
    return -1;
}

int tcp_listen(const struct tcp_flow_config *config, uint16_t *port, struct error *error)
{
    for (unsigned at = config->first_port; at <= config->last_port; at++) {
        int descriptor = open_listener(true, (uint16_t)at);
        if (descriptor < 0)
            descriptor = open_listener(false, (uint16_t)at);
        if (descriptor >= 0) {
            *port = (uint16_t)at;
            return descriptor;
        }
    }
    error_set(error, ERROR_IO, "no TCP port from %u to %u is free", config->first_port,
              config->last_port);
    return -1;
}

/* True when `descriptor` is ready before `until_ns`. */
static bool wait_ready(int descriptor, short events, const atomic_bool *stop, uint64_t until_ns)
{
    while (!atomic_load(stop) && driver_now() < until_ns) {
        struct pollfd waits = {.fd = descriptor, .events = events};
        if (poll(&waits, 1, TURN_MS) > 0)
            return true;
    }
    return false;
}

/* A stranger's stream is closed and another one awaited. */
static bool is_ours(int descriptor, const struct tcp_flow_config *config, const atomic_bool *stop,
                    uint64_t until_ns)
{
    uint8_t token[TCP_TOKEN_SIZE];
    size_t got = 0;
    uint64_t patience_ns = driver_now() + 2 * NS_PER_S;
    if (patience_ns < until_ns)
        until_ns = patience_ns;
    while (got < sizeof(token)) {
        if (!wait_ready(descriptor, POLLIN, stop, until_ns))
            return false;
        ssize_t more = read(descriptor, token + got, sizeof(token) - got);
        if (more <= 0 && errno != EAGAIN)
            return false;
        got += more > 0 ? (size_t)more : 0;
    }
    return memcmp(token, config->token, sizeof(token)) == 0;
}

bool tcp_accept_all(const struct tcp_flow_config *config, int listener, int *descriptors,
                    const atomic_bool *stop, uint64_t until_ns, struct error *error)
{
    for (unsigned i = 0; i < config->streams; i++) {
        while (descriptors[i] < 0) {
            if (!wait_ready(listener, POLLIN, stop, until_ns))
                return error_set(error, ERROR_UNREACHABLE, "no TCP stream came");
            descriptors[i] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (descriptors[i] >= 0 && !is_ours(descriptors[i], config, stop, until_ns)) {
                close(descriptors[i]);
                descriptors[i] = -1;
            }
        }
    }
    return true;
}

static bool connect_one(const struct tcp_flow_config *config, int descriptor,
                        const atomic_bool *stop, uint64_t until_ns, struct error *error)
{
    struct sockaddr_storage storage;
    char text[64];
    socklen_t length = sockaddr_from_address(&storage, &config->to);
    address_format(text, sizeof(text), &config->to);
    if (connect(descriptor, (struct sockaddr *)&storage, length) != 0 && errno != EINPROGRESS)
        return error_set_errno(error, errno, "TCP to %s", text);
    if (!wait_ready(descriptor, POLLOUT, stop, until_ns))
        return error_set(error, ERROR_UNREACHABLE, "TCP to %s got no answer", text);
    int failed = 0;
    length = sizeof(failed);
    getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &failed, &length);
    if (failed != 0)
        return error_set(error, ERROR_UNREACHABLE, "TCP to %s: %s", text, strerror(failed));
    return write(descriptor, config->token, TCP_TOKEN_SIZE) == TCP_TOKEN_SIZE ||
           error_set_errno(error, errno, "TCP to %s", text);
}

bool tcp_connect_all(const struct tcp_flow_config *config, int *descriptors,
                     const atomic_bool *stop, uint64_t until_ns, struct error *error)
{
    for (unsigned i = 0; i < config->streams; i++) {
        descriptors[i] = socket(config->to.family == 4 ? AF_INET : AF_INET6,
                                SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (descriptors[i] < 0)
            return error_set_errno(error, errno, "cannot open a TCP socket");
        if (config->sends && !tcp_set_congestion(descriptors[i], config->congestion, error))
            return false;
        if (!connect_one(config, descriptors[i], stop, until_ns, error))
            return false;
    }
    return true;
}
