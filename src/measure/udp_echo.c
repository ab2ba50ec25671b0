#include "measure/udp_echo.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "measure/quiet_thread.h"
#include "net/sockaddr.h"

#define SPARE_DESCRIPTORS 64u
#define PACKETS_A_TURN 64u
#define PACKET_MAX 65536u
#define KNOCKS_A_NAP 4u
#define KNOCK_NAP_NS (2 * NS_PER_MS)

struct udp_echo {
    uint8_t token[ECHO_TOKEN_SIZE];
    struct pollfd *waits; /* the last is the pipe that ends it */
    struct echo_socket {
        uint8_t family;
        uint16_t port;
    } * sockets;
    unsigned count;
    int stop[2];
    pthread_t thread;
    bool has_thread;
    struct port_set opened, busy;
    struct echo_report report;
    atomic_uint refused; /* knocking is done on another thread */
    atomic_int refused_errno;
    uint8_t seen[ECHO_LOSS_MAX / 8];
    uint8_t packet[PACKET_MAX];
};

/* ---- the sockets ---- */

static int open_port(uint8_t family, uint16_t port)
{
    int descriptor =
        socket(family == 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return -1;
    int one = 1, probe = IP_PMTUDISC_PROBE;
    if (family == 4) {
        setsockopt(descriptor, IPPROTO_IP, IP_PKTINFO, &one, sizeof(one));
        setsockopt(descriptor, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe));
    } else {
        probe = IPV6_PMTUDISC_PROBE;
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof(one));
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe, sizeof(probe));
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_DONTFRAG, &one, sizeof(one));
    }
    struct sockaddr_storage storage;
    struct address any = address_any(family, port);
    socklen_t length = sockaddr_from_address(&storage, &any);
    if (bind(descriptor, (struct sockaddr *)&storage, length) == 0)
        return descriptor;
    int cause = errno;
    close(descriptor);
    errno = cause;
    return -1;
}

/* Both families of one port, as a listener has them; a port that is busy in one is busy. */
static void open_both(struct udp_echo *echo, uint16_t port)
{
    unsigned before = echo->count;
    for (uint8_t family = 4; family <= 6; family += 2) {
        int descriptor = open_port(family, port);
        if (descriptor < 0 && errno == EADDRINUSE) {
            port_set_add(&echo->busy, port);
            while (echo->count > before)
                close(echo->waits[--echo->count].fd);
            return;
        }
        if (descriptor < 0)
            continue;
        echo->waits[echo->count] = (struct pollfd){.fd = descriptor, .events = POLLIN};
        echo->sockets[echo->count++] = (struct echo_socket){.family = family, .port = port};
    }
    if (echo->count > before)
        port_set_add(&echo->opened, port);
}

/* How many ports may be opened: two sockets each. */
static unsigned port_budget(unsigned wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 256;
    rlim_t need = 2 * (rlim_t)wanted + SPARE_DESCRIPTORS;
    if (limit.rlim_cur < need) {
        limit.rlim_cur = need < limit.rlim_max ? need : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur < 2 + SPARE_DESCRIPTORS)
        return 1;
    rlim_t fit = (limit.rlim_cur - SPARE_DESCRIPTORS) / 2;
    return fit < wanted ? (unsigned)fit : wanted;
}

/* ---- answering ---- */

static uint32_t read_number(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* True when the packet is ours; counts it. `*answer` is how much of it goes back. */
static bool count_packet(struct udp_echo *echo, uint8_t family, size_t size, size_t *answer)
{
    struct echo_report *report = &echo->report;
    const uint8_t *packet = echo->packet;
    if (size < ECHO_PACKET_SIZE || memcmp(packet, echo->token, ECHO_TOKEN_SIZE) != 0) {
        report->strangers++;
        return false;
    }
    uint32_t number = read_number(packet + ECHO_TOKEN_SIZE + 4);
    *answer = ECHO_PACKET_SIZE;
    switch (packet[ECHO_TOKEN_SIZE]) {
    case ECHO_PORT:
        port_set_add(family == 4 ? &report->arrived4 : &report->arrived6,
                     (uint16_t)(packet[ECHO_TOKEN_SIZE + 2] << 8 | packet[ECHO_TOKEN_SIZE + 3]));
        return true;
    case ECHO_LOSS:
        if (number >= ECHO_LOSS_MAX || (echo->seen[number / 8] >> number % 8 & 1) != 0)
            return false;
        echo->seen[number / 8] |= (uint8_t)(1u << number % 8);
        report->loss_arrived++;
        return true;
    case ECHO_SIZE:
        report->size_arrived++;
        return true;
    case ECHO_BOTH:
        report->both_arrived++;
        *answer = size;
        return true;
    default:
        return false;
    }
}

/* What cannot leave for want of room is a loss like another; what a rule or a route forbids is
 * told. */
static void note_refusal(struct udp_echo *echo, int cause)
{
    int none = 0;
    if (cause == EAGAIN || cause == ENOBUFS || cause == EMSGSIZE || cause == EINTR)
        return;
    atomic_fetch_add(&echo->refused, 1);
    atomic_compare_exchange_strong(&echo->refused_errno, &none, cause);
}

/* The control data that came, naming the address that was asked, goes back with the answer, so that
 * it leaves from there; through whichever interface leads back. */
static void forget_interface(struct msghdr *message)
{
    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at != NULL; at = CMSG_NXTHDR(message, at)) {
        if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_PKTINFO)
            ((struct in_pktinfo *)(void *)CMSG_DATA(at))->ipi_ifindex = 0;
        else if (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo *info = (void *)CMSG_DATA(at);
            if (!IN6_IS_ADDR_LINKLOCAL(&info->ipi6_addr))
                info->ipi6_ifindex = 0;
        }
    }
}

static void answer_one(struct udp_echo *echo, unsigned i)
{
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
    } control;
    struct sockaddr_storage from;
    for (unsigned turn = 0; turn < PACKETS_A_TURN; turn++) {
        struct iovec part = {echo->packet, sizeof(echo->packet)};
        struct msghdr message = {.msg_name = &from,
                                 .msg_namelen = sizeof(from),
                                 .msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof(control)};
        ssize_t got = recvmsg(echo->waits[i].fd, &message, 0);
        if (got < 0)
            return;
        if (!count_packet(echo, echo->sockets[i].family, (size_t)got, &part.iov_len))
            continue;
        forget_interface(&message);
        message.msg_flags = 0;
        if (sendmsg(echo->waits[i].fd, &message, 0) < 0)
            note_refusal(echo, errno);
    }
}

static void *answer_all(void *context)
{
    struct udp_echo *echo = context;
    for (;;) {
        if (poll(echo->waits, echo->count + 1, -1) < 0)
            continue;
        if (echo->waits[echo->count].revents != 0)
            return NULL;
        for (unsigned i = 0; i < echo->count; i++) {
            if (echo->waits[i].revents != 0)
                answer_one(echo, i);
        }
    }
}

void udp_echo_knock(struct udp_echo *echo, const struct address *to)
{
    uint8_t packet[ECHO_PACKET_SIZE] = {0};
    const struct timespec nap = {.tv_nsec = KNOCK_NAP_NS};
    struct sockaddr_storage storage;
    socklen_t length = sockaddr_from_address(&storage, to);
    unsigned sent = 0;
    memcpy(packet, echo->token, ECHO_TOKEN_SIZE);
    packet[ECHO_TOKEN_SIZE] = ECHO_KNOCK;
    for (unsigned i = 0; i < echo->count; i++) {
        const struct echo_socket *one = &echo->sockets[i];
        if (one->family != to->family)
            continue;
        packet[ECHO_TOKEN_SIZE + 2] = (uint8_t)(one->port >> 8);
        packet[ECHO_TOKEN_SIZE + 3] = (uint8_t)one->port;
        if (sendto(echo->waits[i].fd, packet, sizeof(packet), 0, (struct sockaddr *)&storage,
                   length) < 0)
            note_refusal(echo, errno);
        if (++sent % KNOCKS_A_NAP == 0)
            nanosleep(&nap, NULL);
    }
}

/* ---- beginning and end ---- */

static void open_range(struct udp_echo *echo, uint16_t first_port, uint16_t last_port)
{
    unsigned wanted = last_port - first_port + 1u;
    unsigned budget = port_budget(wanted);
    unsigned step = (wanted + budget - 1) / budget;
    for (unsigned port = first_port; port <= last_port; port += step)
        open_both(echo, (uint16_t)port);
}

static bool start(struct udp_echo *echo, struct error *error)
{
    if (pipe(echo->stop) != 0)
        return error_set_errno(error, errno, "cannot make a pipe");
    echo->waits[echo->count] = (struct pollfd){.fd = echo->stop[0], .events = POLLIN};
    echo->has_thread = quiet_thread_start(&echo->thread, answer_all, echo, error);
    return echo->has_thread;
}

struct udp_echo *udp_echo_new(uint16_t first_port, uint16_t last_port,
                              const uint8_t token[ECHO_TOKEN_SIZE], struct error *error)
{
    struct udp_echo *echo = calloc(1, sizeof(*echo));
    size_t sockets = 2 * (size_t)(last_port - first_port + 1u);
    if (echo != NULL) {
        echo->stop[0] = echo->stop[1] = -1;
        memcpy(echo->token, token, ECHO_TOKEN_SIZE);
        echo->waits = calloc(sockets + 1, sizeof(*echo->waits));
        echo->sockets = calloc(sockets, sizeof(*echo->sockets));
    }
    if (echo == NULL || echo->waits == NULL || echo->sockets == NULL) {
        error_set(error, ERROR_MEMORY, "no memory to try ports");
        udp_echo_end(echo, NULL);
        return NULL;
    }
    open_range(echo, first_port, last_port);
    if (echo->count == 0)
        error_set(error, ERROR_IO, "all UDP ports from %u to %u are in use", first_port, last_port);
    if (echo->count == 0 || !start(echo, error)) {
        udp_echo_end(echo, NULL);
        return NULL;
    }
    return echo;
}

const struct port_set *udp_echo_opened(const struct udp_echo *echo)
{
    return &echo->opened;
}

const struct port_set *udp_echo_busy(const struct udp_echo *echo)
{
    return &echo->busy;
}

void udp_echo_end(struct udp_echo *echo, struct echo_report *report)
{
    if (echo == NULL)
        return;
    if (echo->has_thread) {
        ssize_t put = write(echo->stop[1], "", 1);
        (void)put; /* an empty pipe takes a byte */
        pthread_join(echo->thread, NULL);
    }
    echo->report.refused = atomic_load(&echo->refused);
    echo->report.refused_errno = atomic_load(&echo->refused_errno);
    if (report != NULL)
        *report = echo->report;
    for (unsigned i = 0; i < echo->count; i++)
        close(echo->waits[i].fd);
    for (unsigned i = 0; i < 2; i++) {
        if (echo->stop[i] >= 0)
            close(echo->stop[i]);
    }
    free(echo->waits);
    free(echo->sockets);
    free(echo);
}
