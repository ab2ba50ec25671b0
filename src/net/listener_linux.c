#include "net/listener.h"

#include <errno.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "net/sockaddr.h"
#include "net/udp_linux.h"
#include "transport/limits.h"

#define ANY_PORT_TRIES 16u

struct udp_listener {
    uint16_t port;
    unsigned threads;
    struct udp_socket *sockets[LANES_MAX][2]; /* IPv4, IPv6 */
};

static unsigned family_index(uint8_t family)
{
    return family == 4 ? 0 : 1;
}

static void close_sockets(struct udp_listener *listener)
{
    for (unsigned thread = 0; thread < LANES_MAX; thread++) {
        for (unsigned i = 0; i < 2; i++) {
            udp_close(listener->sockets[thread][i]);
            listener->sockets[thread][i] = NULL;
        }
    }
}

/* Opens thread 0's sockets. They are bound without SO_REUSEPORT, so that a port which anybody else
 * has, even another process of this user that would share it, counts as in use. False with
 * *os_errno EADDRINUSE, or with 0 when the system has neither family. */
static bool open_first(struct udp_listener *listener, uint16_t port, int *os_errno)
{
    *os_errno = 0;
    for (unsigned i = 0; i < 2; i++) {
        uint8_t family = i == 0 ? 4 : 6;
        struct address any = address_any(family, port);
        struct error error = {0};
        listener->sockets[0][i] = udp_open(family, &any, false, &error);
        if (port == 0 && listener->sockets[0][i] != NULL)
            port = udp_local_port(listener->sockets[0][i]); /* both families on the same one */
        if (listener->sockets[0][i] == NULL && error.os_errno != EAFNOSUPPORT &&
            error.os_errno != EADDRNOTAVAIL) {
            *os_errno = error.os_errno;
            close_sockets(listener);
            return false;
        }
    }
    return listener->sockets[0][0] != NULL || listener->sockets[0][1] != NULL;
}

static bool attach_steering(const struct udp_socket *socket, unsigned threads)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),              /* the packet's type */
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x10, 1, 0),    /* a sealed packet? */
        BPF_STMT(BPF_RET | BPF_K, 0),                       /* no: thread 0 */
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 4),              /* connection id, last byte */
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, LANES_MAX - 1), /* its lane */
        BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, threads),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    return setsockopt(socket->descriptor, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
                      sizeof(program)) == 0;
}

/* The further threads' sockets of one family. The group numbers them in the order they were
 * bound, which is what the filter's result means. */
static bool open_further(struct udp_listener *listener, unsigned i)
{
    struct udp_socket *first = listener->sockets[0][i];
    if (first == NULL)
        return true;
    int one = 1;
    if (setsockopt(first->descriptor, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) != 0)
        return false;
    struct address any = address_any(first->family, listener->port);
    for (unsigned thread = 1; thread < listener->threads; thread++) {
        listener->sockets[thread][i] = udp_open(first->family, &any, true, NULL);
        if (listener->sockets[thread][i] == NULL)
            return false;
    }
    return attach_steering(first, listener->threads);
}

static void drop_further(struct udp_listener *listener)
{
    for (unsigned thread = 1; thread < LANES_MAX; thread++) {
        for (unsigned i = 0; i < 2; i++) {
            udp_close(listener->sockets[thread][i]);
            listener->sockets[thread][i] = NULL;
        }
    }
    listener->threads = 1;
}

static void report_range(struct error *error, uint16_t first_port, uint16_t last_port, int cause)
{
    if (cause == 0)
        error_set(error, ERROR_IO, "this system has neither IPv4 nor IPv6");
    else if (cause == EADDRINUSE)
        error_set(
            error, ERROR_IO,
            "all UDP ports from %u to %u are in use, and each copy takes one; wait, or name others "
            "with --udp-ports",
            first_port, last_port);
    else
        error_set_errno(error, cause, "cannot open a UDP port from %u to %u", first_port,
                        last_port);
}

struct udp_listener *driver_listen(uint16_t first_port, uint16_t last_port, unsigned threads,
                                   struct error *error)
{
    struct udp_listener *listener = calloc(1, sizeof(*listener));
    if (listener == NULL) {
        error_set(error, ERROR_MEMORY, "out of memory for a listener");
        return NULL;
    }
    bool opened = false;
    int cause = EADDRINUSE;
    /* Port 0, any port: the system's choice may be taken in the other family, so it has tries. */
    unsigned tries = last_port == 0 ? ANY_PORT_TRIES : last_port - first_port + 1u;
    uint16_t port = first_port;
    for (unsigned i = 0; i < tries && !opened; i++, port += last_port != 0) {
        int reason;
        opened = open_first(listener, port, &reason);
        /* Any other reason says more than that some port is taken (EACCES below 1024, say). */
        if (!opened && reason != EADDRINUSE) {
            cause = reason;
            break;
        }
    }
    if (!opened) {
        report_range(error, first_port, last_port, cause);
        free(listener);
        return NULL;
    }
    struct udp_socket *any = listener->sockets[0][listener->sockets[0][0] != NULL ? 0 : 1];
    listener->port = udp_local_port(any);
    listener->threads = threads < 1 ? 1 : threads > LANES_MAX ? LANES_MAX : threads;
    if (listener->threads > 1 && !(open_further(listener, 0) && open_further(listener, 1)))
        drop_further(listener);
    return listener;
}

struct udp_listener *udp_listener_of(struct udp_socket *sockets[LANES_MAX][2], unsigned threads,
                                     uint16_t port, struct error *error)
{
    struct udp_listener *listener = calloc(1, sizeof(*listener));
    if (listener == NULL) {
        error_set(error, ERROR_MEMORY, "out of memory for a listener");
        return NULL;
    }
    listener->port = port;
    listener->threads = threads;
    memcpy(listener->sockets, sockets, sizeof(listener->sockets));
    return listener;
}

uint16_t udp_listener_port(const struct udp_listener *listener)
{
    return listener->port;
}

void udp_listener_free(struct udp_listener *listener)
{
    if (listener == NULL)
        return;
    close_sockets(listener);
    free(listener);
}

void udp_listener_exchange(struct udp_listener *a, struct udp_listener *b)
{
    struct udp_listener kept = *a;
    *a = *b;
    *b = kept;
}

unsigned udp_listener_threads(const struct udp_listener *listener)
{
    return listener->threads;
}

struct udp_socket *udp_listener_socket(const struct udp_listener *listener, unsigned thread,
                                       uint8_t family)
{
    return thread < listener->threads ? listener->sockets[thread][family_index(family)] : NULL;
}
