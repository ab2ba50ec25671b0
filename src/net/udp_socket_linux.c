/* Opening and configuring UDP sockets on Linux. */
#include "net/udp_linux.h"

#include <linux/sock_diag.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/units.h"
#include "net/sockaddr.h"

static struct udp_faults test_faults;
static unsigned test_buffer_bytes;

void udp_test_break_segmentation(int os_errno, unsigned from_call)
{
    test_faults.break_errno = os_errno;
    test_faults.break_from = from_call;
}

void udp_test_swallow_trains(unsigned from_call)
{
    test_faults.swallow_from = from_call;
}

void udp_test_lose_coalescing(unsigned from_message)
{
    test_faults.forget_from = from_message;
}

void udp_test_buffer_bytes(unsigned bytes)
{
    test_buffer_bytes = bytes;
}

/* Before 5.12 a coalesced datagram could lose its checksum state on the way to some sockets. */
static bool kernel_coalesces_soundly(void)
{
    struct utsname name;
    unsigned major, minor;
    if (uname(&name) != 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2)
        return false;
    return major > 5 || (major == 5 && minor >= 12);
}

static unsigned set_buffer(int descriptor, int force_option, int option, unsigned bytes)
{
    int wanted = (int)(test_buffer_bytes != 0 ? test_buffer_bytes : bytes);
    if (setsockopt(descriptor, SOL_SOCKET, force_option, &wanted, sizeof(wanted)) != 0)
        setsockopt(descriptor, SOL_SOCKET, option, &wanted, sizeof(wanted));
    int granted = 0;
    socklen_t size = sizeof(granted);
    if (getsockopt(descriptor, SOL_SOCKET, option, &granted, &size) != 0 || granted < 0)
        return 0;
    return (unsigned)granted / 2; /* Linux tells twice what it was asked for */
}

static void switch_on(int descriptor, int level, int option)
{
    int one = 1;
    setsockopt(descriptor, level, option, &one, sizeof(one));
}

/* Everything here helps but none of it is needed: a refusal is no error. */
static void set_options(struct udp_socket *socket)
{
    int descriptor = socket->descriptor;
    struct udp_statistics *statistics = &socket->statistics;
    statistics->send_buffer = set_buffer(descriptor, SO_SNDBUFFORCE, SO_SNDBUF, UDP_SEND_WANTED);
    statistics->receive_buffer =
        set_buffer(descriptor, SO_RCVBUFFORCE, SO_RCVBUF, UDP_RECEIVE_WANTED);
    switch_on(descriptor, SOL_SOCKET, SO_RXQ_OVFL);
    switch_on(descriptor, SOL_SOCKET, SO_TIMESTAMPNS);

    /* We probe the path ourselves: never fragment, never obey a forged "too big". */
    int probe = IP_PMTUDISC_PROBE;
    if (socket->family == 4) {
        setsockopt(descriptor, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe));
        switch_on(descriptor, IPPROTO_IP, IP_PKTINFO);
    } else {
        probe = IPV6_PMTUDISC_PROBE;
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe, sizeof(probe));
        switch_on(descriptor, IPPROTO_IPV6, IPV6_DONTFRAG);
        switch_on(descriptor, IPPROTO_IPV6, IPV6_RECVPKTINFO);
    }

    int segment = 0;
    socklen_t size = sizeof(segment);
    socket->can_segment = getsockopt(descriptor, IPPROTO_UDP, UDP_SEGMENT, &segment, &size) == 0;
    statistics->segmentation = socket->can_segment;
    int one = 1;
    statistics->coalescing = kernel_coalesces_soundly() && test_faults.forget_from != 1 &&
                             setsockopt(descriptor, IPPROTO_UDP, UDP_GRO, &one, sizeof(one)) == 0;
    socket->faults = test_faults;
}

static bool open_bound(struct udp_socket *udp, const struct address *bind_to, bool share_port,
                       struct error *error)
{
    int family = udp->family == 4 ? AF_INET : AF_INET6;
    udp->descriptor = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (udp->descriptor < 0)
        return error_set_errno(error, errno, "cannot open an IPv%u UDP socket", udp->family);
    if (udp->family == 6)
        switch_on(udp->descriptor, IPPROTO_IPV6, IPV6_V6ONLY);
    if (share_port)
        switch_on(udp->descriptor, SOL_SOCKET, SO_REUSEPORT);
    set_options(udp);

    struct sockaddr_storage storage;
    struct address any = address_any(udp->family, 0);
    socklen_t length = sockaddr_from_address(&storage, bind_to != NULL ? bind_to : &any);
    if (bind(udp->descriptor, (struct sockaddr *)&storage, length) != 0) {
        error_set_errno(error, errno, "cannot bind UDP port %u",
                        bind_to != NULL ? bind_to->port : 0);
        close(udp->descriptor);
        udp->descriptor = -1;
        return false;
    }
    return true;
}

struct udp_socket *udp_open(uint8_t family, const struct address *bind_to, bool share_port,
                            struct error *error)
{
    struct udp_socket *socket = calloc(1, sizeof(*socket));
    if (socket == NULL) {
        error_set(error, ERROR_MEMORY, "out of memory for a socket");
        return NULL;
    }
    socket->family = family;
    socket->retry_ns = TIME_NEVER;
    if (!open_bound(socket, bind_to, share_port, error)) {
        free(socket);
        return NULL;
    }
    return socket;
}

void udp_close(struct udp_socket *socket)
{
    if (socket == NULL)
        return;
    close(socket->descriptor);
    free(socket);
}

static bool connect_descriptor(int descriptor, const struct address *peer, struct error *error)
{
    struct sockaddr_storage storage;
    socklen_t length = sockaddr_from_address(&storage, peer);
    if (connect(descriptor, (struct sockaddr *)&storage, length) == 0)
        return true;
    int cause = errno;
    char text[64];
    return error_set_errno(error, cause, "cannot connect a UDP socket to %s",
                           address_format(text, sizeof(text), peer));
}

bool udp_connect(struct udp_socket *socket, const struct address *peer, struct error *error)
{
    if (!connect_descriptor(socket->descriptor, peer, error))
        return false;
    socket->connected = true;
    socket->peer = *peer;
    return true;
}

bool udp_reopen(struct udp_socket *socket, struct error *error)
{
    struct udp_socket fresh = {.family = socket->family};
    if (!open_bound(&fresh, NULL, false, error))
        return false;
    if (socket->connected && !connect_descriptor(fresh.descriptor, &socket->peer, error)) {
        close(fresh.descriptor);
        return false;
    }
    int moved = dup3(fresh.descriptor, socket->descriptor, O_CLOEXEC);
    int cause = errno;
    close(fresh.descriptor);
    if (moved < 0)
        return error_set_errno(error, cause, "cannot replace a UDP socket");
    socket->system_drops = 0;
    socket->retry_ns = TIME_NEVER;
    socket->statistics.last_refusal = 0;
    socket->statistics.send_buffer = fresh.statistics.send_buffer;
    socket->statistics.receive_buffer = fresh.statistics.receive_buffer;
    socket->can_segment = fresh.can_segment;
    socket->statistics.coalescing = fresh.statistics.coalescing;
    udp_set_plain(socket, socket->plain);
    return true;
}

void udp_stop_coalescing(struct udp_socket *socket)
{
    int zero = 0;
    setsockopt(socket->descriptor, IPPROTO_UDP, UDP_GRO, &zero, sizeof(zero));
    socket->statistics.coalescing = false;
}

void udp_set_buffers(struct udp_socket *socket, unsigned receive, unsigned send)
{
    struct udp_statistics *statistics = &socket->statistics;
    statistics->send_buffer = set_buffer(socket->descriptor, SO_SNDBUFFORCE, SO_SNDBUF, send);
    statistics->receive_buffer = set_buffer(socket->descriptor, SO_RCVBUFFORCE, SO_RCVBUF, receive);
}

void udp_forget_drops(struct udp_socket *socket)
{
    uint32_t info[SK_MEMINFO_VARS];
    socklen_t size = sizeof(info);
    if (getsockopt(socket->descriptor, SOL_SOCKET, SO_MEMINFO, info, &size) == 0 &&
        size > SK_MEMINFO_DROPS * sizeof(info[0]))
        socket->system_drops = info[SK_MEMINFO_DROPS];
    socket->statistics.drops = 0;
}

int udp_descriptor(const struct udp_socket *socket)
{
    return socket->descriptor;
}

uint8_t udp_family(const struct udp_socket *socket)
{
    return socket->family;
}

uint16_t udp_local_port(const struct udp_socket *socket)
{
    struct sockaddr_storage storage;
    socklen_t length = sizeof(storage);
    struct address address;
    if (getsockname(socket->descriptor, (struct sockaddr *)&storage, &length) != 0 ||
        !sockaddr_to_address(&address, &storage))
        return 0;
    return address.port;
}

void udp_get_statistics(const struct udp_socket *socket, struct udp_statistics *statistics)
{
    *statistics = socket->statistics;
}

uint16_t udp_interface_mtu(const struct address *peer, const struct address *local)
{
    uint16_t result = 1500;
    struct address from = address_any(peer->family, 0);
    if (local != NULL && local->family == peer->family) {
        from = *local;
        from.port = 0;
    }
    struct udp_socket *socket = udp_open(peer->family, &from, false, NULL);
    if (socket == NULL)
        return result;
    int mtu = 0;
    socklen_t size = sizeof(mtu);
    bool v4 = peer->family == 4;
    if (udp_connect(socket, peer, NULL) &&
        getsockopt(socket->descriptor, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu,
                   &size) == 0 &&
        mtu > 0)
        result = (uint16_t)(mtu > UINT16_MAX ? UINT16_MAX : mtu);
    udp_close(socket);
    return result;
}
