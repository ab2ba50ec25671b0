#include "lab/link_tun.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/ipv6.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define DEVICE_NAME "link0"
#define TRANSMIT_QUEUE_PACKETS 8192 /* absorbs a few ms in which the emulator does not run */
#ifndef TUN_F_USO4                  /* since Linux 6.2; older headers lack the names */
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

static bool write_setting(const char *path, const char *value)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool written = write(fd, value, strlen(value)) > 0;
    close(fd);
    return written;
}

/* The interface's own chatter would be counted as traffic. Without IPv6 there is nothing to do. */
static void silence_ipv6(void)
{
    static const char *const settings[][2] = {
        {"addr_gen_mode", "1"},
        {"router_solicitations", "0"},
        {"accept_ra", "0"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        char path[96];
        snprintf(path, sizeof path, "/proc/sys/net/ipv6/conf/" DEVICE_NAME "/%s", settings[i][0]);
        (void)write_setting(path, settings[i][1]);
    }
}

static void enable_offloads(struct link_tun *tun)
{
    unsigned tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    tun->has_udp_offload =
        ioctl(tun->fd, TUNSETOFFLOAD, (unsigned long)(tcp | TUN_F_USO4 | TUN_F_USO6)) == 0;
    tun->has_offload =
        tun->has_udp_offload || ioctl(tun->fd, TUNSETOFFLOAD, (unsigned long)tcp) == 0;
}

static bool open_device(struct link_tun *tun, struct error *error)
{
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    strcpy(request.ifr_name, DEVICE_NAME);
    tun->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tun->fd < 0)
        return error_set_errno(error, errno,
                               "cannot open /dev/net/tun, which the emulated link is made of");
    if (ioctl(tun->fd, TUNSETIFF, &request) != 0)
        return error_set_errno(error, errno, "cannot make a TUN device");
    enable_offloads(tun);
    return true;
}

static bool set_flags_up(int fd, const char *name, struct error *error)
{
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(fd, SIOCGIFFLAGS, &request) == 0) {
        request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
        if (ioctl(fd, SIOCSIFFLAGS, &request) == 0)
            return true;
    }
    return error_set_errno(error, errno, "cannot bring up interface %s", name);
}

static bool set_ipv4(int fd, const char *address, struct error *error)
{
    struct ifreq request = {.ifr_name = DEVICE_NAME};
    struct sockaddr_in *place = (struct sockaddr_in *)(void *)&request.ifr_addr;
    place->sin_family = AF_INET;
    if (inet_pton(AF_INET, address, &place->sin_addr) == 1 &&
        ioctl(fd, SIOCSIFADDR, &request) == 0) {
        place->sin_addr.s_addr = htonl(0xffffff00);
        if (ioctl(fd, SIOCSIFNETMASK, &request) == 0)
            return true;
    }
    return error_set_errno(error, errno, "cannot give address %s to an interface", address);
}

/* A machine without IPv6 keeps a working IPv4 link. */
static void set_ipv6(const char *address, int index)
{
    struct in6_ifreq request = {.ifr6_prefixlen = 64, .ifr6_ifindex = index};
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (inet_pton(AF_INET6, address, &request.ifr6_addr) == 1)
        (void)ioctl(fd, SIOCSIFADDR, &request);
    close(fd);
}

/* By netlink: the ioctl wants root outside of user namespaces too. */
static bool set_transmit_queue(int netlink_fd, struct error *error)
{
    struct {
        struct nlmsghdr header;
        struct ifinfomsg info;
        struct rtattr attribute;
        uint32_t packets;
    } request = {
        .header = {.nlmsg_len = sizeof request,
                   .nlmsg_type = RTM_NEWLINK,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
        .info = {.ifi_index = (int)if_nametoindex(DEVICE_NAME)},
        .attribute = {.rta_len = RTA_LENGTH(sizeof(uint32_t)), .rta_type = IFLA_TXQLEN},
        .packets = TRANSMIT_QUEUE_PACKETS,
    };
    struct {
        struct nlmsghdr header;
        struct nlmsgerr result;
        char rest[512];
    } answer;
    if (send(netlink_fd, &request, sizeof request, 0) < 0 ||
        recv(netlink_fd, &answer, sizeof answer, 0) < (ssize_t)NLMSG_LENGTH(sizeof(int)))
        return error_set_errno(error, errno, "cannot talk to the kernel about an interface");
    if (answer.header.nlmsg_type == NLMSG_ERROR && answer.result.error == 0)
        return true;
    return error_set_errno(error, -answer.result.error,
                           "cannot set the transmit queue of an interface");
}

static bool configure(int fd, int netlink_fd, const char *ipv4, const char *ipv6, uint32_t mtu,
                      struct error *error)
{
    struct ifreq request = {.ifr_name = DEVICE_NAME};
    request.ifr_mtu = (int)mtu;
    if (ioctl(fd, SIOCSIFMTU, &request) != 0)
        return error_set_errno(error, errno, "cannot set an MTU of %u", mtu);
    if (!set_transmit_queue(netlink_fd, error))
        return false;
    silence_ipv6();
    if (!set_flags_up(fd, "lo", error) || !set_flags_up(fd, DEVICE_NAME, error) ||
        !set_ipv4(fd, ipv4, error))
        return false;
    set_ipv6(ipv6, (int)if_nametoindex(DEVICE_NAME));
    return true;
}

bool link_tun_open(struct link_tun *tun, const char *ipv4, const char *ipv6, uint32_t mtu,
                   struct error *error)
{
    struct link_tun opened = {.fd = -1, .status_fd = -1};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set_errno(error, errno, "cannot make a socket");
    opened.status_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    bool done = opened.status_fd >= 0 && open_device(&opened, error) &&
                configure(fd, opened.status_fd, ipv4, ipv6, mtu, error);
    close(fd);
    if (!done) {
        error_set_errno(error, errno, "cannot make a netlink socket");
        link_tun_close(&opened);
        return false;
    }
    *tun = opened;
    return true;
}

void link_tun_close(struct link_tun *tun)
{
    if (tun->fd >= 0)
        close(tun->fd);
    if (tun->status_fd >= 0)
        close(tun->status_fd);
    tun->fd = tun->status_fd = -1;
}

int link_tun_read(struct link_tun *tun, struct link_buffer *buffer)
{
    struct virtio_net_hdr offload;
    struct iovec parts[2] = {{&offload, sizeof offload}, {buffer->bytes, LINK_PACKET_MAX}};
    ssize_t size = readv(tun->fd, parts, 2);
    if (size < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    if ((size_t)size <= sizeof offload)
        return -1;
    size_t packet_bytes = (size_t)size - sizeof offload;
    return link_packet_parse(&buffer->packet, &offload, buffer->bytes, packet_bytes) ? 1 : -1;
}

bool link_tun_write(struct link_tun *tun, const struct link_piece *piece)
{
    struct iovec parts[3] = {
        {(void *)(uintptr_t)&piece->offload, sizeof piece->offload},
        {(void *)(uintptr_t)piece->headers, piece->headers_bytes},
        {(void *)(uintptr_t)piece->payload, piece->payload_bytes},
    };
    ssize_t size;
    do {
        size = writev(tun->fd, parts, 3);
    } while (size < 0 && errno == EINTR);
    return size > 0;
}

/* Finds the device's counters in the answer to RTM_GETLINK. */
static bool find_counters(const struct nlmsghdr *message, int size,
                          struct rtnl_link_stats64 *counters)
{
    if (!NLMSG_OK(message, (unsigned)size) || message->nlmsg_type != RTM_NEWLINK)
        return false;
    const struct ifinfomsg *info = NLMSG_DATA(message);
    int left = (int)IFLA_PAYLOAD(message);
    for (const struct rtattr *at = IFLA_RTA(info); RTA_OK(at, left); at = RTA_NEXT(at, left)) {
        if (at->rta_type == IFLA_STATS64 && RTA_PAYLOAD(at) >= sizeof *counters) {
            memcpy(counters, RTA_DATA(at), sizeof *counters);
            return true;
        }
    }
    return false;
}

void link_tun_drops(const struct link_tun *tun, uint64_t *sent, uint64_t *received)
{
    struct {
        struct nlmsghdr header;
        struct ifinfomsg info;
        struct rtattr name;
        char text[8];
    } request = {
        .header = {.nlmsg_len = sizeof request,
                   .nlmsg_type = RTM_GETLINK,
                   .nlmsg_flags = NLM_F_REQUEST},
        .name = {.rta_len = RTA_LENGTH(sizeof DEVICE_NAME), .rta_type = IFLA_IFNAME},
        .text = DEVICE_NAME,
    };
    static _Alignas(struct nlmsghdr) char answer[16384];
    struct rtnl_link_stats64 counters;
    *sent = *received = 0;
    if (send(tun->status_fd, &request, sizeof request, 0) < 0)
        return;
    ssize_t size = recv(tun->status_fd, answer, sizeof answer, 0);
    if (size <= 0 || !find_counters((const struct nlmsghdr *)(void *)answer, (int)size, &counters))
        return;
    *sent = counters.tx_dropped;
    *received = counters.rx_dropped;
}
